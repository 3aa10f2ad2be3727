/* SPDX-License-Identifier: Apache-2.0
 * Clock reads and what else only recording needs; in no kernel that does not record. Clock reads
 * keep their place among everything that touches memory; arithmetic may move across them.
 * Ref: PTX ISA, "Special Registers". */
#ifndef GQA_PTX_TRACE_CUH
#define GQA_PTX_TRACE_CUH

#include "ptx.cuh"

DEV uint32_t clock_read(void) {
    uint32_t t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
    return t;
}

DEV uint64_t clock64_read(void) {
    uint64_t t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

/* Nanoseconds, the same on all SMs; it may move in steps. */
DEV uint64_t globaltimer_read(void) {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

DEV uint32_t smid_read(void) {
    uint32_t x;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(x));
    return x;
}

DEV uint32_t atom_global_add_u32(uint32_t *p, uint32_t x) {
    uint32_t old;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(p), "r"(x)
                 : "memory");
    return old;
}

DEV void red_global_add_u32(uint32_t *p, uint32_t x) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

DEV void st_global_v2(void *p, uint32_t a, uint32_t b) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(a), "r"(b) : "memory");
}

#endif
