/* SPDX-License-Identifier: Apache-2.0
 * mbarriers as every kernel from sm_90 on uses them: 8 bytes of shared memory each. Ref: PTX ISA,
 * one section per instruction name. */
#ifndef GQA_PTX_MBARRIER_CUH
#define GQA_PTX_MBARRIER_CUH

#include "ptx.cuh"

/* One thread, once; then fence_mbarrier_init and a CTA barrier before anyone uses it. */
DEV void mbarrier_init(uint32_t bar, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

/* Makes inits visible to the async proxy and to the cluster. */
DEV void fence_mbarrier_init(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEV void mbarrier_arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* Arrive, and expect `bytes` more of asynchronous copies in this phase. */
DEV void mbarrier_arrive_expect_tx(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}

/* Has the phase of this parity completed? May block for a while; call it in a loop. */
DEV bool mbarrier_try_wait_parity(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done;
}

/* The same for what other CTAs of the cluster have sent. */
DEV bool mbarrier_try_wait_parity_cluster(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done;
}

#endif
