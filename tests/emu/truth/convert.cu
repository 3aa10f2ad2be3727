// SPDX-License-Identifier: Apache-2.0
// Conversions and packed half arithmetic, bit for bit; approximate functions within their bounds.
// One instruction a line:
// clang-format off
#include "truth.cuh"

#define TO_F32(op) { u32 r; asm volatile("{ .reg .f32 y; cvt" op " y, %1; mov.b32 %0, y; }" : "=r"(r) : "r"(a)); put(&s, r); }
#define FROM_F32(op) { u32 r; asm volatile("{ .reg .f32 x; mov.b32 x, %1; cvt" op " %0, x; }" : "=r"(r) : "r"(a)); put(&s, r); }
#define F32_F32(op) { u32 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %1; cvt" op " y, x; mov.b32 %0, y; }" : "=r"(r) : "r"(a)); put(&s, r); }
#define F32_H(op) { u16 r; asm volatile("{ .reg .f32 x; mov.b32 x, %1; cvt" op " %0, x; }" : "=h"(r) : "r"(a)); put(&s, r); }
#define H_F32(op) { u32 r; asm volatile("{ .reg .f32 y; cvt" op " y, %1; mov.b32 %0, y; }" : "=r"(r) : "h"((u16)a)); put(&s, r); }
#define F32X2(op) { u32 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %1; mov.b32 y, %2; cvt" op " %0, x, y; }" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
#define F32X2_H(op) { u16 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %1; mov.b32 y, %2; cvt" op " %0, x, y; }" : "=h"(r) : "r"(a), "r"(b)); put(&s, r); }
#define X2_H(op) { u16 r; asm volatile("cvt" op " %0, %1;" : "=h"(r) : "r"(a)); put(&s, r); }
#define H_X2(op) { u32 r; asm volatile("cvt" op " %0, %1;" : "=r"(r) : "h"((u16)a)); put(&s, r); }

extern "C" __global__ void convert(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 t = threadIdx.x, a = in[t], b = in[t * 5 % 256];
    R1("cvt.s32.s8") R1("cvt.u32.u8") R1("cvt.s32.s16") R1("cvt.sat.s8.s32") R1("cvt.sat.u8.s32")
    R1("cvt.sat.u16.u32") R1("cvt.sat.s32.u32") R1("cvt.sat.u32.s32")
    TO_F32(".rn.f32.s32") TO_F32(".rz.f32.s32") TO_F32(".rm.f32.u32") TO_F32(".rp.f32.u32")
    FROM_F32(".rni.s32.f32") FROM_F32(".rzi.s32.f32") FROM_F32(".rmi.u32.f32") FROM_F32(".rpi.s32.f32")
    FROM_F32(".rni.ftz.s32.f32") FROM_F32(".rzi.sat.s8.f32") FROM_F32(".rni.u8.f32")
    F32_F32(".rni.f32.f32") F32_F32(".rzi.f32.f32") F32_F32(".rmi.f32.f32") F32_F32(".rpi.f32.f32")
    F32_F32(".sat.f32.f32") F32_F32(".ftz.f32.f32")
    F32_H(".rn.f16.f32") F32_H(".rz.f16.f32") F32_H(".rm.f16.f32") F32_H(".rn.ftz.f16.f32")
    F32_H(".rn.sat.f16.f32") F32_H(".rn.bf16.f32") F32_H(".rz.bf16.f32") F32_H(".rn.relu.bf16.f32")
    H_F32(".f32.f16") H_F32(".f32.bf16") H_F32(".ftz.f32.f16")
    F32X2(".rn.f16x2.f32") F32X2(".rz.f16x2.f32") F32X2(".rn.relu.f16x2.f32")
    F32X2(".rn.bf16x2.f32") F32X2(".rz.bf16x2.f32") F32X2(".rn.relu.bf16x2.f32")
    FROM_F32(".rna.tf32.f32") FROM_F32(".rn.tf32.f32") FROM_F32(".rz.tf32.f32")
    FROM_F32(".rn.relu.tf32.f32")
    F32X2_H(".rn.satfinite.e4m3x2.f32") F32X2_H(".rn.satfinite.e5m2x2.f32")
    F32X2_H(".rn.satfinite.relu.e4m3x2.f32") X2_H(".rn.satfinite.e4m3x2.f16x2")
    X2_H(".rn.satfinite.e5m2x2.f16x2") H_X2(".rn.f16x2.e4m3x2") H_X2(".rn.f16x2.e5m2x2")
    H_X2(".rn.relu.f16x2.e4m3x2")
    { u16 r; asm volatile("cvt.rn.f16.s32 %0, %1;" : "=h"(r) : "r"(a)); put(&s, r); }
    { u32 r; asm volatile("cvt.rzi.s32.f16 %0, %1;" : "=r"(r) : "h"((u16)a)); put(&s, r); }
    { u64 r; asm volatile("{ .reg .f32 x; .reg .f64 y; mov.b32 x, %1; cvt.f64.f32 y, x; mov.b64 %0, y; }" : "=l"(r) : "r"(a)); put64(&s, one_nan64(r)); }
    { u32 r; const u64 x = (u64)a << 32 | b; asm volatile("{ .reg .f64 x; .reg .f32 y; mov.b64 x, %1; cvt.rn.f32.f64 y, x; mov.b32 %0, y; }" : "=r"(r) : "l"(x)); put(&s, one_nan32(r)); }
    { u64 r; asm volatile("{ .reg .f32 x; mov.b32 x, %1; cvt.rzi.s64.f32 %0, x; }" : "=l"(r) : "r"(a)); put64(&s, r); }
}

#define N1(op, inf) { u32 r; asm volatile(op " %0, %1;" : "=r"(r) : "r"(a)); put(&s, one_nan16x2(r, inf)); }

extern "C" __global__ void half(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 t = threadIdx.x, a = in[t], b = in[t * 5 % 256 + 256], c = in[t * 11 % 256 + 512];
    R2("add.rn.f16x2") R2("sub.rn.f16x2") R2("mul.rn.f16x2") R3("fma.rn.f16x2") R3("fma.rn.relu.f16x2")
    R3("fma.rn.sat.f16x2") R3("fma.rn.ftz.f16x2") R2("min.f16x2") R2("max.f16x2") R2("min.NaN.f16x2")
    N1("neg.f16x2", 0x7c00) N1("abs.f16x2", 0x7c00) R2("add.rn.bf16x2") R2("sub.rn.bf16x2") R2("mul.rn.bf16x2")
    R3("fma.rn.bf16x2") R3("fma.rn.relu.bf16x2") R2("min.bf16x2") R2("max.NaN.bf16x2")
    N1("neg.bf16x2", 0x7f80) N1("abs.bf16x2", 0x7f80)
    H2("add.rn.f16") H2("mul.rn.f16") H3("fma.rn.f16") H2("add.rn.bf16") H3("fma.rn.bf16")
    H2("max.f16") H2("min.NaN.bf16")
    { u32 r; asm volatile("{ .reg .pred p, q; setp.le.f16x2 p|q, %1, %2; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
}

// Results within the errors that the ISA documents; `approximate` in programs.def.
extern "C" __global__ void approximate(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 a = in[threadIdx.x];
#define A1(op) { u32 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %1; " op " y, x; mov.b32 %0, y; }" : "=r"(r) : "r"(a)); put(&s, r); }
    A1("ex2.approx.f32") A1("ex2.approx.ftz.f32") A1("lg2.approx.f32") A1("lg2.approx.ftz.f32")
    A1("rcp.approx.f32") A1("rcp.approx.ftz.f32") A1("rsqrt.approx.f32") A1("rsqrt.approx.ftz.f32")
    A1("sqrt.approx.f32") A1("tanh.approx.f32")
}
