// SPDX-License-Identifier: Apache-2.0
// mma.sync and wgmma. Small integers make every product and sum exact, so that `exact` programs
// are bit-equal whatever the order of accumulation; `rough` ones are not, and get a bound.
// One instruction a line:
// clang-format off
#include "truth.cuh"

// Four bf16/f16/e4m3 small integers from random bits (all in -3 .. 3), or unit-scale random values.
__device__ __forceinline__ u32 small_bf16x2(u32 bits) {
    u32 r;
    const float x = (int)(bits % 7) - 3, y = (int)(bits / 7 % 7) - 3;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x), "f"(y));
    return r;
}

__device__ __forceinline__ u32 small_f16x2(u32 bits) {
    u32 r;
    const float x = (int)(bits % 7) - 3, y = (int)(bits / 7 % 7) - 3;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x), "f"(y));
    return r;
}

__device__ __forceinline__ u32 small_e4m3x4(u32 bits) {
    u16 lo, hi;
    const float a = (int)(bits % 7) - 3, b = (int)(bits / 7 % 7) - 3;
    const float c = (int)(bits / 49 % 7) - 3, d = (int)(bits / 343 % 7) - 3;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(lo) : "f"(a), "f"(b));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(hi) : "f"(c), "f"(d));
    return lo | (u32)hi << 16;
}

__device__ __forceinline__ u32 small_tf32(u32 bits) {
    return __float_as_uint((float)((int)(bits % 7) - 3));
}

#define MMA4(shape, A0, A1, A2, A3, B0, B1)                                                        \
    {                                                                                              \
        u32 d0, d1, d2, d3;                                                                        \
        asm volatile("{ .reg .f32 w, x, y, z; mov.b32 w, %10; mov.b32 x, %11; mov.b32 y, %12; "    \
                     "mov.b32 z, %13; mma.sync.aligned." shape                                     \
                     " {w, x, y, z}, {%4, %5, %6, %7}, {%8, %9}, {w, x, y, z}; mov.b32 %0, w; "    \
                     "mov.b32 %1, x; mov.b32 %2, y; mov.b32 %3, z; }"                              \
                     : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3)                                      \
                     : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1), "r"(c[0]), "r"(c[1]), \
                       "r"(c[2]), "r"(c[3]));                                                      \
        put(&s, d0);                                                                               \
        put(&s, d1);                                                                               \
        put(&s, d2);                                                                               \
        put(&s, d3);                                                                               \
    }

#define ON(f) f(x[0]), f(x[1]), f(x[2]), f(x[3]), f(x[4]), f(x[5])
#define MMA(shape, f) MMA4_(shape, ON(f))
#define MMA4_(...) MMA4(__VA_ARGS__)

extern "C" __global__ void mma_exact(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    u32 x[6], c[4];
    for (int i = 0; i < 6; i++)
        x[i] = in[threadIdx.x + 256 * i];
    for (int i = 0; i < 4; i++)
        c[i] = small_tf32(in[threadIdx.x + 7 * i]);
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32", small_bf16x2)
    MMA("m16n8k16.row.col.f32.f16.f16.f32", small_f16x2)
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32", small_tf32)
    MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", small_e4m3x4)
    u32 d0, d1, d2, d3;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3)
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]));
    put(&s, d0); put(&s, d1); put(&s, d2); put(&s, d3);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(d0), "=r"(d1)
                 : "r"(small_f16x2(x[0])), "r"(small_f16x2(x[1])), "r"(small_f16x2(x[2])), "r"(small_f16x2(x[3])),
                   "r"(small_f16x2(x[4])), "r"(small_f16x2(x[5])), "r"(small_f16x2(x[0])), "r"(small_f16x2(x[1])));
    put(&s, d0); put(&s, d1);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3)
                 : "r"(small_bf16x2(x[0])), "r"(small_bf16x2(x[1])), "r"(small_bf16x2(x[4])), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    put(&s, d0); put(&s, d1); put(&s, d2); put(&s, d3);
}

// Unit-scale values: sign and mantissa random, exponent near 1.
__device__ __forceinline__ u32 unit_bf16x2(u32 bits) {
    return (bits & 0x80ff80ff) | 0x3f003f00;
}

__device__ __forceinline__ u32 unit_f16x2(u32 bits) {
    return (bits & 0x83ff83ff) | 0x38003800;
}

__device__ __forceinline__ u32 unit_e4m3x4(u32 bits) {
    return (bits & 0x8f8f8f8f) | 0x30303030;
}

__device__ __forceinline__ u32 unit_tf32(u32 bits) {
    return (bits & 0x80ffe000) | 0x3f000000;
}

extern "C" __global__ void mma_rough(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    u32 x[6], c[4];
    for (int i = 0; i < 6; i++)
        x[i] = in[threadIdx.x + 256 * i + 256];
    for (int i = 0; i < 4; i++)
        c[i] = unit_tf32(in[threadIdx.x + 7 * i + 256]);
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32", unit_bf16x2)
    MMA("m16n8k16.row.col.f32.f16.f16.f32", unit_f16x2)
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32", unit_tf32)
    MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", unit_e4m3x4)
}

// --- wgmma: operands in shared memory under every swizzle, both majors, A from registers ---

__device__ __forceinline__ u64 wgmma_desc(u32 addr, u32 lbo, u32 sbo, u32 layout) {
    return (u64)(addr >> 4 & 0x3fff) | (u64)(lbo >> 4) << 16 | (u64)(sbo >> 4) << 32 | (u64)layout << 62;
}

#define WGMMA_BEGIN asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define WGMMA_END asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");

// m64n16: 8 accumulators.
#define WGMMA_SS(type, tail)                                                                       \
    {                                                                                              \
        float d[8] = {1, 2, 3, 4, 5, 6, 7, 8};                                                     \
        WGMMA_BEGIN                                                                                \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned." type   \
                     " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, " tail "; }"                   \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),     \
                       "+f"(d[6]), "+f"(d[7])                                                      \
                     : "l"(a_desc), "l"(b_desc), "r"(scale_d));                                    \
        WGMMA_END                                                                                  \
        for (int i = 0; i < 8; i++)                                                                \
            put(&s, __float_as_uint(d[i]));                                                        \
    }

extern "C" __global__ void wgmma_exact(const u32 *in, u32 *out) {
    __shared__ alignas(1024) u32 tile[8192];
    sink s = sink_open(out);
    const u32 t = threadIdx.x, base = smem_addr(tile), scale_d = 1;
    for (u32 i = t; i < 8192; i += blockDim.x)
        tile[i] = small_bf16x2(in[i % 4096] + i);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    u64 a_desc, b_desc;
    // K-major A and B: no swizzle, 32, 64, 128 bytes (layout 0, 3, 2, 1).
    for (u32 layout = 0; layout < 4; layout++) {
        const u32 span = layout == 0 ? 16 : 256u >> layout;
        a_desc = wgmma_desc(base, 128, layout ? 8 * span : 256, layout);
        b_desc = wgmma_desc(base + 16384, 128, layout ? 8 * span : 256, layout);
        WGMMA_SS("m64n16k16.f32.bf16.bf16", "1, 1, 0, 0")
    }
    // A advanced by 32 bytes along K inside the 128-byte swizzle; negated A; scale_d off.
    a_desc = wgmma_desc(base + 32, 128, 1024, 1);
    b_desc = wgmma_desc(base + 16384 + 32, 128, 1024, 1);
    WGMMA_SS("m64n16k16.f32.bf16.bf16", "-1, 1, 0, 0")
    WGMMA_SS("m64n16k16.f32.bf16.bf16", "1, -1, 0, 0")
    // MN-major A (64 wide: one 128-byte atom) and K-major B; then MN-major B (16 wide: 32 bytes).
    a_desc = wgmma_desc(base, 8192, 1024, 1);
    WGMMA_SS("m64n16k16.f32.bf16.bf16", "1, 1, 1, 0")
    b_desc = wgmma_desc(base + 16384, 8192, 256, 3);
    WGMMA_SS("m64n16k16.f32.bf16.bf16", "1, 1, 1, 1")
    // A from registers.
    {
        float d[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        b_desc = wgmma_desc(base + 16384, 128, 1024, 1);
        WGMMA_BEGIN
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                     : "r"(small_bf16x2(in[t])), "r"(small_bf16x2(in[t + 1])), "r"(small_bf16x2(in[t + 2])), "r"(small_bf16x2(in[t + 3])), "l"(b_desc));
        WGMMA_END
        for (int i = 0; i < 8; i++)
            put(&s, __float_as_uint(d[i]));
    }
    // e4m3, then f16 with f16 accumulation.
    __syncthreads();
    for (u32 i = t; i < 8192; i += blockDim.x)
        tile[i] = small_e4m3x4(in[i % 4096] + i);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    a_desc = wgmma_desc(base, 128, 1024, 1);
    b_desc = wgmma_desc(base + 16384, 128, 1024, 1);
    WGMMA_SS("m64n16k32.f32.e4m3.e4m3", "1, 1")
    __syncthreads();
    for (u32 i = t; i < 8192; i += blockDim.x)
        tile[i] = small_f16x2(in[i % 4096] + i);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    WGMMA_SS("m64n16k16.f32.f16.f16", "1, 1, 0, 0")
    u32 h[4] = {0, 0, 0, 0};
    WGMMA_BEGIN
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;"
                 : "+r"(h[0]), "+r"(h[1]), "+r"(h[2]), "+r"(h[3]) : "l"(a_desc), "l"(b_desc));
    WGMMA_END
    for (int i = 0; i < 4; i++)
        put(&s, h[i]);
}

// n = 8 and n = 64, values that round.
extern "C" __global__ void wgmma_rough(const u32 *in, u32 *out) {
    __shared__ alignas(1024) u32 tile[8192];
    sink s = sink_open(out);
    const u32 t = threadIdx.x, base = smem_addr(tile), scale_d = 1;
    for (u32 i = t; i < 8192; i += blockDim.x)
        tile[i] = unit_bf16x2(in[(i * 3 + 256) % 8192]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    u64 a_desc = wgmma_desc(base, 128, 1024, 1), b_desc = wgmma_desc(base + 16384, 128, 1024, 1);
    WGMMA_SS("m64n16k16.f32.bf16.bf16", "1, 1, 0, 0")
    float d[4] = {0, 0, 0, 0};
    for (u32 k = 0; k < 4; k++) {
        a_desc = wgmma_desc(base + 32 * k, 128, 1024, 1);
        b_desc = wgmma_desc(base + 16384 + 32 * k, 128, 1024, 1);
        WGMMA_BEGIN
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a_desc), "l"(b_desc));
        WGMMA_END
    }
    for (int i = 0; i < 4; i++)
        put(&s, __float_as_uint(d[i]));
}
