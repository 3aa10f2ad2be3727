/* SPDX-License-Identifier: Apache-2.0
 * What sm_90 adds: mbarriers with transaction counts, bulk copies, clusters and distributed shared
 * memory. Ref: PTX ISA, one section per instruction name. */
#ifndef GQA_PTX_SM90_CUH
#define GQA_PTX_SM90_CUH

#include "ptx_mbarrier.cuh"

/* --- Named barriers of a CTA --- */

/* `threads` (a multiple of 32) of the CTA meet at barrier `id`, 1 .. 15. */
DEV void barrier_sync(int id, int threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* The same; does any of the threads say so? */
DEV bool barrier_or(int id, int threads, bool x) {
    int any;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %3, 0; barrier.red.or.pred q, %1, %2, p; "
                 "selp.s32 %0, 1, 0, q; }"
                 : "=r"(any)
                 : "r"(id), "r"(threads), "r"((int)x)
                 : "memory");
    return any;
}

/* Count as having come, and go on. */
DEV void barrier_arrive(int id, int threads) {
    asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* --- Bulk copies --- */

/* Global to this CTA's shared memory; addresses and size multiples of 16; completes on `bar`. */
DEV void cp_async_bulk_g2s(uint32_t to, const void *from, uint32_t bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

/* --- Copies by threads --- */

/* 16 bytes, both addresses multiples of that; past L1. */
DEV void cp_async_16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* Arrive at `bar` once all earlier cp.async of this thread are done; it is one of the arrivals that
 * the barrier counts. */
DEV void cp_async_mbarrier_arrive(uint32_t bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

/* --- Clusters --- */

DEV uint32_t cluster_ctarank(void) {
    uint32_t r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

/* Orders nothing: for "every CTA has started". (With release it waits for all of the thread's
 * stores to be visible to the GPU: some 500 ns on an H200.) */
DEV void barrier_cluster_arrive_relaxed(void) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/* Acquire. */
DEV void barrier_cluster_wait(void) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The address of `addr` in the shared memory of CTA `rank` of the cluster. */
DEV uint32_t mapa(uint32_t addr, uint32_t rank) {
    uint32_t r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
    return r;
}

/* Into a CTA of the cluster, whose mbarrier `bar` counts the bytes that have arrived. */
DEV void st_async_v4(uint32_t addr, uint32_t bar, float a, float b, float c, float d) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
                 "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(addr),
                 "f"(a), "f"(b), "f"(c), "f"(d), "r"(bar)
                 : "memory");
}

DEV void st_async_v2(uint32_t addr, uint32_t bar, float a, float b) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            addr),
        "f"(a), "f"(b), "r"(bar)
        : "memory");
}

/* --- 16 bytes that another CTA waits for (relaxed, gpu scope): written and read whole --- */

DEV void st_relaxed_gpu_b128(void *p, const uint32_t w[4]) {
    asm volatile("{ .reg .b128 t; .reg .b64 a, b; mov.b64 a, {%0, %1}; mov.b64 b, {%2, %3}; "
                 "mov.b128 t, {a, b}; st.relaxed.gpu.global.b128 [%4], t; }" ::"r"(w[0]),
                 "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(p)
                 : "memory");
}

DEV void ld_relaxed_gpu_b128(const void *p, uint32_t w[4]) {
    asm volatile("{ .reg .b128 t; .reg .b64 a, b; ld.relaxed.gpu.global.b128 t, [%4]; "
                 "mov.b128 {a, b}, t; mov.b64 {%0, %1}, a; mov.b64 {%2, %3}, b; }"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "l"(p)
                 : "memory");
}

/* --- Adding pairs into global memory (relaxed, gpu scope) --- */

DEV void red_global_add_bf16x2(void *p, uint32_t x) {
    asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

DEV void red_global_add_f16x2(void *p, uint32_t x) {
    asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

#endif
