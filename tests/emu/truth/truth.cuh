// SPDX-License-Identifier: Apache-2.0
// What the truth programs share. Each kernel is `extern "C" __global__ NAME(in, out, maps...)`, one
// block of THREADS unless programs.def says otherwise; result k of thread t goes to out[k * n + t].
// One instruction a line:
// clang-format off
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

struct alignas(64) tensor_map {
    u64 opaque[16];
};

struct sink {
    u32 *out;
    u32 stride, at;
};

__device__ __forceinline__ sink sink_open(u32 *out) {
    sink s = {out, blockDim.x * gridDim.x, blockIdx.x * blockDim.x + threadIdx.x};
    return s;
}

__device__ __forceinline__ void put(sink *s, u32 value) {
    s->out[s->at] = value;
    s->at += s->stride;
}

__device__ __forceinline__ void put64(sink *s, u64 value) {
    put(s, (u32)value);
    put(s, (u32)(value >> 32));
}

__device__ __forceinline__ u32 smem_addr(const void *p) {
    return (u32)__cvta_generic_to_shared(p);
}

// One instruction each: result from one, two or three 32-bit operands.
#define R1(op) { u32 r; asm volatile(op " %0, %1;" : "=r"(r) : "r"(a)); put(&s, r); }
#define R2(op) { u32 r; asm volatile(op " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
#define R3(op) { u32 r; asm volatile(op " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); put(&s, r); }
#define D1(op) { u64 r; asm volatile(op " %0, %1;" : "=l"(r) : "l"(x)); put64(&s, r); }
#define D2(op) { u64 r; asm volatile(op " %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y)); put64(&s, r); }
#define D3(op) { u64 r; asm volatile(op " %0, %1, %2, %3;" : "=l"(r) : "l"(x), "l"(y), "l"(z)); put64(&s, r); }
// 16-bit results and operands.
#define H1(op) { u16 r; asm volatile(op " %0, %1;" : "=h"(r) : "h"((u16)a)); put(&s, r); }
#define H2(op) { u16 r; asm volatile(op " %0, %1, %2;" : "=h"(r) : "h"((u16)a), "h"((u16)b)); put(&s, r); }
#define H3(op) { u16 r; asm volatile(op " %0, %1, %2, %3;" : "=h"(r) : "h"((u16)a), "h"((u16)b), "h"((u16)c)); put(&s, r); }
// Predicates.
#define P2(op) { u32 r; asm volatile("{ .reg .pred p; " op " p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }

// Where the ISA leaves a NaN's bits open: one pattern for all of them.
__device__ __forceinline__ u32 one_nan32(u32 x) {
    return (x & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : x;
}

__device__ __forceinline__ u64 one_nan64(u64 x) {
    return (x & 0x7fffffffffffffffull) > 0x7ff0000000000000ull ? 0x7fffffffffffffffull : x;
}

__device__ __forceinline__ u32 one_nan16(u32 x, u32 inf) {
    return (x & 0x7fff) > inf ? 0x7fff : x;
}

__device__ __forceinline__ u32 one_nan16x2(u32 x, u32 inf) {
    return one_nan16(x & 0xffff, inf) | one_nan16(x >> 16, inf) << 16;
}
