// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp tell each other; matrix loads; atomics; bit for bit.
// One instruction a line:
// clang-format off
#include "truth.cuh"

extern "C" __global__ void shuffle(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 t = threadIdx.x, a = in[t], b = in[t + 256] & 31;
#define SHFL(mode, lane, c) { u32 r, p; asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(r), "=r"(p) : "r"(a), "r"(lane), "r"(c)); put(&s, r); put(&s, p); }
    SHFL("up", 1, 0) SHFL("up", b & 7, 0x1800) SHFL("down", 1, 31) SHFL("down", 5, 0x1807)
    SHFL("bfly", 16, 31) SHFL("bfly", 3, 0x1c03) SHFL("idx", b, 31) SHFL("idx", b, 0x180f)
    SHFL("idx", 40, 31) SHFL("down", 0, 0) SHFL("up", 33, 0)
    { u32 r; asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r) : "r"(a & 1)); put(&s, r); }
    { u32 r; asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(a & 16)); put(&s, r); }
    { u32 r; asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.all.pred q, !p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(a & 0)); put(&s, r); }
    { u32 r; asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(a & 3)); put(&s, r); }
    { u32 r; asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(a & 3)); put(&s, r); }
    { u32 r, p; asm volatile("{ .reg .pred p; match.all.sync.b32 %0|p, %2, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(r), "=r"(p) : "r"(t >> 6)); put(&s, r); put(&s, p); }
    { u32 r; asm volatile("match.any.sync.b64 %0, %1, 0xffffffff;" : "=r"(r) : "l"((u64)(a & 1) << 40)); put(&s, r); }
#define REDUX(op) { u32 r; asm volatile("redux.sync." op " %0, %1, 0xffffffff;" : "=r"(r) : "r"(a)); put(&s, r); }
    REDUX("add.s32") REDUX("min.s32") REDUX("max.s32") REDUX("min.u32") REDUX("max.u32")
    REDUX("and.b32") REDUX("or.b32") REDUX("xor.b32")
    { u32 r, p; asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(r), "=r"(p)); put(&s, r); put(&s, p); }
    // Part of a warp: odd lanes only.
    u32 odd = 0, masked = 0;
    if (t & 1) {
        asm volatile("shfl.sync.bfly.b32 %0, %1, 2, 31, 0xaaaaaaaa;" : "=r"(odd) : "r"(a));
        asm volatile("redux.sync.add.u32 %0, %1, 0xaaaaaaaa;" : "=r"(masked) : "r"(a));
    }
    __syncwarp();
    put(&s, odd);
    put(&s, masked);
    u32 lt, ge, lane;
    asm volatile("mov.u32 %0, %%lanemask_lt; mov.u32 %1, %%lanemask_ge; mov.u32 %2, %%laneid;" : "=r"(lt), "=r"(ge), "=r"(lane));
    put(&s, lt);
    put(&s, ge);
    put(&s, lane);
}

extern "C" __global__ void matrices(const u32 *in, u32 *out) {
    __shared__ alignas(128) u32 tile[1024];
    sink s = sink_open(out);
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 1024; i += blockDim.x)
        tile[i] = in[i];
    __syncthreads();
    const u32 row = smem_addr(tile) + (t * 7 % 32) * 80 % 3968 / 16 * 16;
    u32 r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(row));
    put(&s, r0);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(row));
    put(&s, r0);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(row));
    put(&s, r0); put(&s, r1);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(row));
    put(&s, r0); put(&s, r1); put(&s, r2); put(&s, r3);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(row));
    put(&s, r0); put(&s, r1); put(&s, r2); put(&s, r3);
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r0) : "r"(in[t]));
    put(&s, r0);
    const u32 to = smem_addr(tile) + (t % 32) * 16 + t / 32 * 512;
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(to), "r"(in[t]), "r"(in[t + 100]), "r"(in[t + 200]), "r"(in[t + 300]) : "memory");
    __syncthreads();
    for (u32 i = t; i < 1024; i += blockDim.x)
        put(&s, tile[i]);
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" : : "r"(to), "r"(in[t]), "r"(in[t + 100]) : "memory");
    __syncthreads();
    for (u32 i = t; i < 1024; i += blockDim.x)
        put(&s, tile[i]);
}

extern "C" __global__ void atomics(const u32 *in, u32 *out) {
    __shared__ u32 cell[256];
    sink s = sink_open(out);
    const u32 t = threadIdx.x, a = in[t], b = in[t + 256];
    cell[t] = in[t + 512];
    const u32 at = smem_addr(&cell[t]);
#define ATOM(op) { u32 r; asm volatile("atom.shared." op " %0, [%1], %2;" : "=r"(r) : "r"(at), "r"(a) : "memory"); put(&s, r); put(&s, cell[t]); }
    ATOM("add.u32") ATOM("min.s32") ATOM("max.u32") ATOM("and.b32") ATOM("or.b32") ATOM("xor.b32")
    ATOM("exch.b32") ATOM("inc.u32") ATOM("dec.u32")
    { u32 r; asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(r) : "r"(at), "r"(cell[t] ^ (t & 1)), "r"(b) : "memory"); put(&s, r); put(&s, cell[t]); }
    { u32 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %2; atom.shared.add.f32 y, [%1], x; mov.b32 %0, y; }" : "=r"(r) : "r"(at), "r"(a) : "memory"); put(&s, r); put(&s, cell[t]); }
    u32 *g = out + 256 * 128 + t;
    *g = in[t + 768];
#define GATOM(op) { u32 r; asm volatile("atom.global." op " %0, [%1], %2;" : "=r"(r) : "l"(g), "r"(a) : "memory"); put(&s, r); }
    GATOM("add.noftz.f16x2") GATOM("add.noftz.bf16x2") GATOM("add.acq_rel.gpu.u32") GATOM("max.relaxed.sys.s32")
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" : : "l"(g), "r"(b) : "memory");
    asm volatile("{ .reg .f32 x; mov.b32 x, %1; red.global.add.f32 [%0], x; }" : : "l"(g), "r"(b) : "memory");
}

// Does a warp count twice in one phase of a barrier, by bar.arrive and then bar.sync? Warp 0 does both
// for 64 threads; warp 1 arrives only when warp 0 has not passed in a long time. 1: it counts twice.
extern "C" __global__ void named(const u32 *in, u32 *out) {
    __shared__ u32 passed, seen;
    sink s = sink_open(out);
    if (threadIdx.x == 0)
        passed = seen = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        asm volatile("bar.arrive 1, 64; bar.sync 1, 64;" : : : "memory");
        atomicExch(&passed, 1);
    } else {
        u32 now = 0;
        for (int k = 0; k < 100000 && !now; k++)
            now = atomicAdd(&passed, 0);
        atomicMax(&seen, now);
        if (!now)
            asm volatile("bar.arrive 1, 64;" : : : "memory");
    }
    __syncthreads();
    put(&s, seen);
}
