/* SPDX-License-Identifier: Apache-2.0
 * One wrapper per PTX instruction that is valid from sm_80 on. Names are mnemonics with the dots
 * turned into underscores; a comment states only the rule of use. What touches memory or order is
 * volatile with a memory clobber; pure arithmetic is neither, so that it may be scheduled.
 * Ref: PTX ISA, one section per instruction name. */
#ifndef GQA_PTX_CUH
#define GQA_PTX_CUH

#include <stdint.h>

#define DEV static __device__ __forceinline__

struct u32x4 {
    uint32_t w[4];
};

/* --- Addresses --- */

DEV uint32_t smem_addr(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* --- Loads and stores --- */

/* Read-only for the life of the kernel; p 16-byte aligned. Streams past L1. */
DEV struct u32x4 ld_global_nc_v4(const void *p) {
    struct u32x4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3])
                 : "l"(p)
                 : "memory");
    return r;
}

/* As above, 8 bytes. */
DEV struct u32x4 ld_global_nc_v2(const void *p) {
    struct u32x4 r;
    r.w[2] = r.w[3] = 0;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(r.w[0]), "=r"(r.w[1])
                 : "l"(p)
                 : "memory");
    return r;
}

DEV struct u32x4 ld_shared_v4(uint32_t addr) {
    struct u32x4 r;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3])
                 : "r"(addr)
                 : "memory");
    return r;
}

DEV struct u32x4 ld_shared_v2(uint32_t addr) {
    struct u32x4 r;
    r.w[2] = r.w[3] = 0;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(r.w[0]), "=r"(r.w[1])
                 : "r"(addr)
                 : "memory");
    return r;
}

DEV struct u32x4 ld_shared_u32(uint32_t addr) {
    struct u32x4 x = {{0, 0, 0, 0}};
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x.w[0]) : "r"(addr) : "memory");
    return x;
}

DEV struct u32x4 ld_shared_u16(uint32_t addr) {
    struct u32x4 x = {{0, 0, 0, 0}};
    uint16_t w;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(w) : "r"(addr) : "memory");
    x.w[0] = w;
    return x;
}

DEV void st_shared_v2(uint32_t addr, float a, float b) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(addr), "f"(a), "f"(b) : "memory");
}

DEV void st_shared_v2_u32(uint32_t addr, uint32_t a, uint32_t b) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(addr), "r"(a), "r"(b) : "memory");
}

DEV void st_shared_v4(uint32_t addr, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(addr), "f"(a), "f"(b), "f"(c),
                 "f"(d)
                 : "memory");
}

/* --- Arithmetic --- */

/* Two results of 2 ulp or better; -inf gives 0, subnormals flush. */
DEV float ex2_approx_ftz(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

DEV float lg2_approx_ftz(float x) {
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

DEV float rcp_approx_ftz(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Bytes of {b, a} chosen by the nibbles of `select`, lowest first; 0..3 are a's. */
DEV uint32_t prmt(uint32_t a, uint32_t b, uint32_t select) {
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(select));
    return r;
}

/* Round to nearest even; `low` lands in the low half. */
DEV uint32_t cvt_rn_bf16x2_f32(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

DEV uint32_t cvt_rn_f16x2_f32(float low, float high) {
    uint32_t r;
    asm("{\n\t.reg .b16 l, h;\n\tcvt.rn.f16.f32 l, %1;\n\tcvt.rn.f16.f32 h, %2;\n\t"
        "mov.b32 %0, {l, h};\n\t}"
        : "=r"(r)
        : "f"(low), "f"(high));
    return r;
}

/* Bytes 0 and 1 of w to two halves; sm_89 and later. */
DEV uint32_t cvt_rn_f16x2_e4m3x2(uint32_t w) {
    uint32_t r;
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %1;\n\tcvt.rn.f16x2.e4m3x2 %0, l;\n\t}"
        : "=r"(r)
        : "r"(w));
    return r;
}

DEV uint32_t cvt_rn_f16x2_e5m2x2(uint32_t w) {
    uint32_t r;
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %1;\n\tcvt.rn.f16x2.e5m2x2 %0, l;\n\t}"
        : "=r"(r)
        : "r"(w));
    return r;
}

DEV float cvt_f32_f16(uint16_t h) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
    return r;
}

/* D += A * B, 16 x 8 x 16; all 32 lanes. Fragments: PTX ISA, "Matrix Fragments for
 * mma.m16n8k16". */
DEV void mma_m16n8k16_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEV void mma_m16n8k16_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* --- Programmatic dependent launch: nothing before sm_90 --- */

#if GQA_ARCH >= 90
/* Before the first access to anything that earlier kernels of the stream may touch. */
DEV void pdl_wait(void) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* The next kernel may be scheduled; it publishes nothing. */
DEV void pdl_launch_dependents(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
DEV void pdl_wait(void) {}
DEV void pdl_launch_dependents(void) {}
#endif

/* --- Adding into global memory (relaxed, gpu scope) --- */

DEV void red_global_add_f32(void *p, float x) {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p), "f"(x) : "memory");
}

#endif
