// SPDX-License-Identifier: Apache-2.0
// mbarriers, bulk and tensor copies, distributed shared memory, dependent launches: bit for bit.
// One instruction a line:
// clang-format off
#include "truth.cuh"

__device__ __forceinline__ void mbar_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void mbar_wait(u32 bar, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar), "r"(parity) : "memory");
}

__device__ __forceinline__ void mbar_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void async_fence(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ u32 mbar_test(u32 bar, u32 parity) {
    u32 r;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(r) : "r"(bar), "r"(parity) : "memory");
    return r;
}

// One thread walks a barrier of count 3 through phases; answers after every step.
extern "C" __global__ void barriers(const u32 *in, u32 *out) {
    __shared__ alignas(8) u64 bars[2];
    const u32 bar = smem_addr(&bars[0]);
    if (threadIdx.x)
        return;
    sink s = {out, 1, 0};
    u64 state;
    u32 r;
    mbar_init(bar, 3);
#define TESTS put(&s, mbar_test(bar, 0)); put(&s, mbar_test(bar, 1));
    TESTS
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(r) : "l"(state));
    put(&s, r); TESTS
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 2;" : "=l"(state) : "r"(bar) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(r) : "l"(state));
    put(&s, r); TESTS
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(bar), "l"(state) : "memory");
    put(&s, r);
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(r) : "l"(state));
    put(&s, r); TESTS
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 2;" : "=l"(state) : "r"(bar) : "memory");
    TESTS
    // Now count 2. Transaction bytes hold the phase open.
    mbar_expect(bar, 64); TESTS
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    TESTS
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 48;" : : "r"(bar) : "memory");
    TESTS
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" : : "r"(bar) : "memory");
    TESTS
    asm volatile("mbarrier.inval.shared.b64 [%0];" : : "r"(bar) : "memory");
    put(&s, in[0]);
}

// Bulk copies both ways, reductions, and the plain cp.async.
extern "C" __global__ void bulk(const u32 *in, u32 *out) {
    __shared__ alignas(128) u32 tile[1024];
    __shared__ alignas(8) u64 bars[1];
    const u32 t = threadIdx.x, bar = smem_addr(bars), at = smem_addr(tile);
    u32 *const mine = out + 4096 * blockIdx.x;
    for (u32 i = t; i < 4096; i += blockDim.x)
        mine[i] = __float_as_uint((float)(int)(i % 13));
    if (t == 0)
        mbar_init(bar, 1);
    async_fence();
    asm volatile("fence.proxy.async.global;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        mbar_expect(bar, 2048 + 16);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];" : : "r"(at), "l"(in + 256), "r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" : : "r"(at + 2048), "l"(in + 4), "r"(bar) : "memory");
    }
    mbar_wait(bar, 0);
    mine[t] = tile[t];
    mine[t + 256] = tile[t + 256];
    if (t < 4)
        mine[t + 512] = tile[t + 512];
    __syncthreads();
    for (u32 i = t; i < 1024; i += blockDim.x)
        tile[i] = __float_as_uint((float)(int)(in[i] % 9));
    async_fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" : : "l"(mine + 1024), "r"(at) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 512;" : : "l"(mine + 1536), "r"(at) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 512;" : : "l"(mine + 2048), "r"(at) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%0], [%1], 512;" : : "l"(mine + 2560), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(at + 2048 + 4 * t), "l"(in + t) : "memory");
    if (t < 64)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(at + 3072 + 16 * t), "l"(in + 4 * t), "r"(t % 3 * 8) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (u32 i = t; i < 512; i += blockDim.x)
        mine[3072 + i] = tile[512 + i];
}

// The tile that a map's box brings in (ops & 1), under whatever swizzle the map has, then stored
// (ops & 2) and added (ops & 4).
extern "C" __global__ void tensor_2d(const u32 *in, u32 *out,
                                     const __grid_constant__ tensor_map load,
                                     const __grid_constant__ tensor_map store, int x, int y,
                                     u32 bytes, u32 ops) {
    __shared__ alignas(1024) u32 tile[4096];
    __shared__ alignas(8) u64 bars[1];
    const u32 t = threadIdx.x, bar = smem_addr(bars), at = smem_addr(tile);
    if (t == 0)
        mbar_init(bar, 1);
    for (u32 i = t; i < 4096; i += blockDim.x)
        tile[i] = 0xdeadbeef;
    async_fence();
    __syncthreads();
    if (t == 0 && ops & 1) {
        mbar_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     : : "r"(at), "l"(&load), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    if (ops & 1)
        mbar_wait(bar, 0);
    for (u32 i = t; i < 4096; i += blockDim.x)
        out[i] = tile[i];
    async_fence();
    __syncthreads();
    if (t == 0 && ops & 2) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" : : "l"(&store), "r"(x), "r"(y), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (t == 0 && ops & 4) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" : : "l"(&store), "r"(x), "r"(y), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

extern "C" __global__ void tensor_4d(const u32 *in, u32 *out,
                                     const __grid_constant__ tensor_map load,
                                     const __grid_constant__ tensor_map store, int x, int y,
                                     u32 bytes, u32 ops) {
    __shared__ alignas(1024) u32 tile[4096];
    __shared__ alignas(8) u64 bars[1];
    const u32 t = threadIdx.x, bar = smem_addr(bars), at = smem_addr(tile);
    if (t == 0)
        mbar_init(bar, 1);
    for (u32 i = t; i < 4096; i += blockDim.x)
        tile[i] = 0xdeadbeef;
    async_fence();
    __syncthreads();
    if (t == 0 && ops & 1) {
        mbar_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
                     : : "r"(at), "l"(&load), "r"(x), "r"(1), "r"(y), "r"(2), "r"(bar) : "memory");
    }
    if (ops & 1)
        mbar_wait(bar, 0);
    for (u32 i = t; i < 4096; i += blockDim.x)
        out[i] = tile[i];
    async_fence();
    __syncthreads();
    if (t == 0 && ops & 2) {
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" : : "l"(&store), "r"(x), "r"(1), "r"(y), "r"(2), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// A cluster of 4: remote loads and stores, st.async, red.async, remote arrivals, multicast.
extern "C" __global__ void clusters(const u32 *in, u32 *out) {
    __shared__ alignas(128) u32 box[512];
    __shared__ alignas(8) u64 bars[2];
    const u32 t = threadIdx.x, bar = smem_addr(&bars[0]), bar2 = smem_addr(&bars[1]), at = smem_addr(box);
    u32 rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank;" : "=r"(rank), "=r"(size));
    sink s = sink_open(out);
    for (u32 i = t; i < 512; i += blockDim.x)
        box[i] = in[i + 512 * rank];
    if (t == 0) {
        mbar_init(bar, 1);
        mbar_init(bar2, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        mbar_expect(bar, 256 + 128 * 4);
        mbar_expect(bar2, 512);
    }
    async_fence();
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    u32 peer, peer_bar, back, value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(at), "r"((rank + 1) % size));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_bar) : "r"(bar), "r"((rank + 1) % size));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(peer + 4 * t));
    put(&s, value);
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(back) : "r"(peer));
    put(&s, back);
    put(&s, size);
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    if (t < 64)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" : : "r"(peer + 4 * t), "r"(in[t] + rank), "r"(peer_bar) : "memory");
    if (t >= 64 && t < 192)
        asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" : : "r"(peer + 4 * t), "r"(in[t] + rank), "r"(peer_bar) : "memory");
    mbar_wait(bar, 0);
    put(&s, box[t]);
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    // Rank 0 multicasts 512 bytes to all.
    if (t == 0 && rank == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 512, [%2], %3;" : : "r"(at + 1024), "l"(in + 64), "r"(bar2), "h"((u16)15) : "memory");
    mbar_wait(bar2, 0);
    put(&s, box[256 + (t & 127)]);
    // Atomics and stores on a peer, then a remote arrival that ends phase 1 of its barrier.
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(value) : "r"(peer + 4 * t), "r"(rank + 1) : "memory");
    put(&s, value);
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    put(&s, box[t]);
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    if (t < 32)
        asm volatile("st.shared::cluster.u32 [%0], %1;" : : "r"(peer + 4 * t), "r"(t + 100 * rank) : "memory");
    if (t == 0)
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" : : "r"(peer_bar) : "memory");
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 1; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    put(&s, box[t]);
}

// Two launches with programmatic dependence: the second doubles what the first wrote.
extern "C" __global__ void first(const u32 *in, u32 *out) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    out[i] = in[i] * 3;
}

extern "C" __global__ void second(const u32 *in, u32 *out) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[n + i] = out[n - 1 - i] + in[i];
}
