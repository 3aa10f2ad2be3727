/* SPDX-License-Identifier: Apache-2.0
 * Instructions of sm_100a and sm_103a that the portable wrappers lack: mbarrier, bulk copies
 * through tensor maps, clusters, tcgen05 and tensor memory. One function is one instruction; the
 * comment gives only the rule of use. Ref: PTX ISA, one section per instruction name. */
#ifndef GQA_PTX_SM100_CUH
#define GQA_PTX_SM100_CUH

#include "ptx_mbarrier.cuh"

/* --- Shared memory --- */

DEV void st_shared_v2(uint32_t addr, uint32_t a, uint32_t b) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(addr), "r"(a), "r"(b) : "memory");
}

/* --- Named barriers: ids 1 to 15, threads a multiple of 32 --- */

DEV void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

DEV void bar_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* A barrier that tells every thread whether any thread brought true. */
DEV bool bar_red_or(int id, int threads, bool x) {
    uint32_t any;
    asm volatile("{\n\t.reg .pred p, q;\n\t"
                 "setp.ne.u32 p, %3, 0;\n\t"
                 "bar.red.or.pred q, %1, %2, p;\n\t"
                 "selp.u32 %0, 1, 0, q;\n\t}"
                 : "=r"(any)
                 : "r"(id), "r"(threads), "r"((uint32_t)x)
                 : "memory");
    return any;
}

/* --- Proxies --- */

/* Each thread whose ordinary shared-memory writes an MMA or a bulk copy will read, after the writes
 * and before the arrival that releases the reader. */
DEV void fence_proxy_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* --- Bulk copies --- */

DEV void prefetch_tensormap(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* One thread; dst 128-byte aligned; coordinates innermost first; parts outside the tensor are
 * written as zeros and counted like the rest. */
DEV void cp_async_bulk_tensor_4d_g2s(uint32_t dst, const void *map, int c0, int c1, int c2, int c3,
                                     uint32_t bar) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(dst),
                 "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(bar)
                 : "memory");
}

/* dst[i] += src[i], each element on its own; 16-byte aligned, bytes a multiple of 16. */
DEV void cp_reduce_async_bulk_add_f32(void *dst, uint32_t src, uint32_t bytes) {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst),
        "r"(src), "r"(bytes)
        : "memory");
}

DEV void cp_reduce_async_bulk_add_bf16(void *dst, uint32_t src, uint32_t bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 "
                 "[%0], [%1], %2;" ::"l"(dst),
                 "r"(src), "r"(bytes)
                 : "memory");
}

DEV void cp_reduce_async_bulk_add_f16(void *dst, uint32_t src, uint32_t bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 "
                 "[%0], [%1], %2;" ::"l"(dst),
                 "r"(src), "r"(bytes)
                 : "memory");
}

DEV void cp_async_bulk_commit_group(void) {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Of the executing thread: all its groups are done. */
DEV void cp_async_bulk_wait_group_0(void) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* --- Clusters --- */

DEV uint32_t cluster_ctarank(void) {
    uint32_t r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

/* The address of `addr`'s twin in CTA `rank` of the cluster. */
DEV uint32_t mapa(uint32_t addr, uint32_t rank) {
    uint32_t r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
    return r;
}

/* All threads of all CTAs of the cluster, once per phase; the pair orders what came before. */
DEV void barrier_cluster_arrive(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

DEV void barrier_cluster_wait(void) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* 16 bytes into a peer's shared memory; completes 16 bytes on `bar`, which lives there too. */
DEV void st_async_v4(uint32_t dst, float a, float b, float c, float d, uint32_t bar) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(dst),
                 "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(__float_as_uint(c)),
                 "r"(__float_as_uint(d)), "r"(bar)
                 : "memory");
}

/* --- Warps --- */

/* The largest of the warp's values; NaNs are passed over. All 32 lanes. */
DEV float redux_sync_max(float x) {
    float r;
    asm volatile("redux.sync.max.f32 %0, %1, 0xffffffff;" : "=f"(r) : "f"(x));
    return r;
}

/* All four warps of a warpgroup; N a multiple of 8 in 24 .. 256. */
template <int N> DEV void setmaxnreg_dec(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> DEV void setmaxnreg_inc(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* --- Tensor memory: address = lane << 16 | column --- */

/* A whole warp; columns a power of two, at least 32; the address lands at dst. */
DEV void tcgen05_alloc(uint32_t dst, uint32_t columns) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(dst),
                 "r"(columns)
                 : "memory");
}

DEV void tcgen05_dealloc(uint32_t tmem, uint32_t columns) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tmem), "r"(columns)
                 : "memory");
}

DEV void tcgen05_relinquish_alloc_permit(void) {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

/* After tcgen05.ld/st (and their waits), before the arrival that lets another thread go on. */
DEV void tcgen05_fence_before_thread_sync(void) {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

/* After the wait, before tcgen05 instructions that rely on what another thread did. */
DEV void tcgen05_fence_after_thread_sync(void) {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

DEV void tcgen05_wait_ld(void) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

DEV void tcgen05_wait_st(void) {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

/* Loads whose values are read after tcgen05_wait_ld must not be read before it: the compiler does
 * not know that they are asynchronous. No instruction; ties eight registers to this place. */
DEV void tcgen05_loaded_x8(float r[8]) {
    asm volatile(""
                 : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]), "+f"(r[4]), "+f"(r[5]),
                   "+f"(r[6]), "+f"(r[7]));
}

#define GQA_OUT8(r, i)                                                                             \
    "=f"(r[i]), "=f"(r[i + 1]), "=f"(r[i + 2]), "=f"(r[i + 3]), "=f"(r[i + 4]), "=f"(r[i + 5]),    \
        "=f"(r[i + 6]), "=f"(r[i + 7])
#define GQA_IN8(r, i)                                                                              \
    "f"(r[i]), "f"(r[i + 1]), "f"(r[i + 2]), "f"(r[i + 3]), "f"(r[i + 4]), "f"(r[i + 5]),          \
        "f"(r[i + 6]), "f"(r[i + 7])

/* A warp reads `x` columns of its 32 lanes: register i of lane t is column i of lane t. */
DEV void tcgen05_ld_32x32b_x8(float r[8], uint32_t tmem) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : GQA_OUT8(r, 0)
                 : "r"(tmem)
                 : "memory");
}

DEV void tcgen05_ld_32x32b_x16(float r[16], uint32_t tmem) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                 "%10, %11, %12, %13, %14, %15}, [%16];"
                 : GQA_OUT8(r, 0), GQA_OUT8(r, 8)
                 : "r"(tmem)
                 : "memory");
}

DEV void tcgen05_ld_32x32b_x32(float r[32], uint32_t tmem) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                 "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31}, [%32];"
                 : GQA_OUT8(r, 0), GQA_OUT8(r, 8), GQA_OUT8(r, 16), GQA_OUT8(r, 24)
                 : "r"(tmem)
                 : "memory");
}

DEV void tcgen05_st_32x32b_x8(uint32_t tmem, const float r[8]) {
    asm volatile(
        "tcgen05.st.sync.aligned.32x32b.x8.b32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7};" ::GQA_IN8(
            r, 0),
        "r"(tmem)
        : "memory");
}

DEV void tcgen05_st_32x32b_x16(uint32_t tmem, const float r[16]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%16], {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15};" ::GQA_IN8(r, 0),
                 GQA_IN8(r, 8), "r"(tmem)
                 : "memory");
}

DEV void tcgen05_st_32x32b_x32(uint32_t tmem, const float r[32]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31};" ::GQA_IN8(r, 0),
                 GQA_IN8(r, 8), GQA_IN8(r, 16), GQA_IN8(r, 24), "r"(tmem)
                 : "memory");
}

DEV uint64_t pack_b64(uint32_t low, uint32_t high) {
    uint64_t r;
    asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "r"(low), "r"(high));
    return r;
}

/* --- Two floats at once --- */

DEV uint64_t pack_f32x2(float low, float high) {
    uint64_t r;
    asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "f"(low), "f"(high));
    return r;
}

DEV void unpack_f32x2(uint64_t x, float *low, float *high) {
    asm("mov.b64 {%0, %1}, %2;" : "=f"(*low), "=f"(*high) : "l"(x));
}

DEV uint64_t fma_rn_f32x2(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t r;
    asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "l"(b), "l"(c));
    return r;
}

DEV uint64_t add_rn_f32x2(uint64_t a, uint64_t b) {
    uint64_t r;
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(a), "l"(b));
    return r;
}

/* NaNs are passed over. */
DEV float max_f32(float a, float b, float c) {
    float r;
    asm("max.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
    return r;
}

/* --- tcgen05.mma: one thread issues; D (+)= A B, A and B described in shared memory --- */

DEV void tcgen05_mma_f16(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, bool accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %4, 0;\n\t"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
                 "l"(a), "l"(b), "r"(idesc), "r"((uint32_t)accumulate)
                 : "memory");
}

DEV void tcgen05_mma_f8f6f4(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, bool accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %4, 0;\n\t"
                 "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
                 "l"(a), "l"(b), "r"(idesc), "r"((uint32_t)accumulate)
                 : "memory");
}

/* The same, D += A B. */
DEV void tcgen05_mma_f16_more(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc) {
    asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, 1;" ::"r"(d), "l"(a), "l"(b),
                 "r"(idesc)
                 : "memory");
}

DEV void tcgen05_mma_f8f6f4_more(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc) {
    asm volatile("tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, 1;" ::"r"(d), "l"(a),
                 "l"(b), "r"(idesc)
                 : "memory");
}

/* One arrival on `bar` when every MMA this thread issued before is complete. */
DEV void tcgen05_commit(uint32_t bar) {
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar)
        : "memory");
}

/* Two floats to two e4m3 bytes, `low` in the low byte; values beyond 448 become 448. */
DEV uint32_t cvt_rn_e4m3x2_f32(float low, float high) {
    uint16_t r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}

#endif
