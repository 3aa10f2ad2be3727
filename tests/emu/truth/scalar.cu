// SPDX-License-Identifier: Apache-2.0
// Integer, logic, float and double instructions, bit for bit.
// One instruction a line:
// clang-format off
#include "truth.cuh"

extern "C" __global__ void integer(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 t = threadIdx.x, a = in[t], b = in[t + 256], c = in[t + 512];
    const u64 x = (u64)a << 32 | b, y = (u64)c << 32 | in[t + 768], z = (u64)b << 32 | c;
    R2("add.s32") R2("sub.s32") R2("add.sat.s32") R2("sub.sat.s32") R2("mul.lo.s32")
    R2("mul.hi.s32") R2("mul.hi.u32") R2("mul24.lo.s32") R2("mul24.hi.u32") R3("mad.lo.s32")
    R3("mad.hi.u32") R3("mad.hi.s32") R3("sad.s32") R3("sad.u32") R2("min.s32") R2("max.u32")
    R1("abs.s32") R1("neg.s32") R1("popc.b32") R1("clz.b32") R1("brev.b32") R1("bfind.u32")
    R1("bfind.s32") R1("bfind.shiftamt.s32") R1("not.b32") R1("cnot.b32") R2("and.b32")
    R2("or.b32") R2("xor.b32") R2("shl.b32") R2("shr.u32") R2("shr.s32") R3("bfe.u32")
    R3("bfe.s32") R3("prmt.b32") R3("prmt.b32.f4e") R3("prmt.b32.b4e") R3("prmt.b32.rc8")
    R3("prmt.b32.ecl") R3("prmt.b32.ecr") R3("prmt.b32.rc16") R3("shf.l.wrap.b32")
    R3("shf.r.wrap.b32") R3("shf.l.clamp.b32") R3("shf.r.clamp.b32") R3("dp4a.s32.s32")
    R3("dp4a.u32.u32") R3("dp4a.s32.u32") R3("dp2a.lo.s32.s32") R3("dp2a.hi.u32.s32")
    { u32 r; asm volatile("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); put(&s, r); }
    { u32 r; asm volatile("lop3.b32 %0, %1, %2, %3, 0xe2;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); put(&s, r); }
    { u32 r; asm volatile("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 255), "r"(a & 255)); put(&s, r); }
    { u32 r; asm volatile("fns.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"((int)(c % 9) - 4)); put(&s, r); }
    { u32 r; asm volatile("bmsk.clamp.b32 %0, %1, %2;" : "=r"(r) : "r"(a & 63), "r"(b & 63)); put(&s, r); }
    { u32 r; asm volatile("szext.wrap.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
    { u32 r; asm volatile("div.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b | 1)); put(&s, r); }
    { u32 r; asm volatile("rem.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b | 1)); put(&s, r); }
    { u32 r, q; asm volatile("{ add.cc.u32 %0, %2, %3; addc.u32 %1, %3, %4; }" : "=r"(r), "=r"(q) : "r"(a), "r"(b), "r"(c)); put(&s, r); put(&s, q); }
    { u32 r, q; asm volatile("{ sub.cc.u32 %0, %2, %3; subc.u32 %1, %3, %4; }" : "=r"(r), "=r"(q) : "r"(a), "r"(b), "r"(c)); put(&s, r); put(&s, q); }
    { u32 r, q; asm volatile("{ mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, %4; }" : "=r"(r), "=r"(q) : "r"(a), "r"(b), "r"(c)); put(&s, r); put(&s, q); }
    D2("add.s64") D2("sub.s64") D2("mul.lo.s64") D2("mul.hi.s64") D2("mul.hi.u64") D3("mad.lo.s64")
    D2("min.s64") D2("max.u64") D2("and.b64") D2("xor.b64") D1("not.b64") D1("abs.s64") D1("brev.b64")
    { u64 r; asm volatile("mul.wide.s32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b)); put64(&s, r); }
    { u64 r; asm volatile("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b)); put64(&s, r); }
    { u64 r; asm volatile("mad.wide.s32 %0, %1, %2, %3;" : "=l"(r) : "r"(a), "r"(b), "l"(z)); put64(&s, r); }
    { u64 r; asm volatile("shl.b64 %0, %1, %2;" : "=l"(r) : "l"(x), "r"(c & 127)); put64(&s, r); }
    { u64 r; asm volatile("shr.s64 %0, %1, %2;" : "=l"(r) : "l"(x), "r"(c & 127)); put64(&s, r); }
    { u64 r; asm volatile("bfe.s64 %0, %1, %2, %3;" : "=l"(r) : "l"(x), "r"(c & 255), "r"(a & 255)); put64(&s, r); }
    { u32 r; asm volatile("popc.b64 %0, %1;" : "=r"(r) : "l"(x)); put(&s, r); }
    { u32 r; asm volatile("clz.b64 %0, %1;" : "=r"(r) : "l"(x)); put(&s, r); }
    P2("setp.lt.s32") P2("setp.lo.u32") P2("setp.ge.s32") P2("setp.hi.u32") P2("setp.ne.b32")
    { u32 r; asm volatile("set.le.u32.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
    { u32 r; asm volatile("slct.b32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); put(&s, r); }
    H2("add.s16") H2("mul.lo.u16") H2("mul.hi.s16") H3("mad.lo.s16") H2("min.s16") H1("neg.s16")
    R2("add.u16x2") R2("min.s16x2") R2("max.u16x2")
}

// a, b, c hold float bits: edge values first, then random patterns.
extern "C" __global__ void single(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 t = threadIdx.x, a = in[t], b = in[t * 5 % 256], c = in[t * 11 % 256 + 256];
#define F1(op) { u32 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %1; " op " y, x; mov.b32 %0, y; }" : "=r"(r) : "r"(a)); put(&s, r); }
#define N1(op) { u32 r; asm volatile("{ .reg .f32 x, y; mov.b32 x, %1; " op " y, x; mov.b32 %0, y; }" : "=r"(r) : "r"(a)); put(&s, one_nan32(r)); }
#define F2(op) { u32 r; asm volatile("{ .reg .f32 x, y, z; mov.b32 x, %1; mov.b32 y, %2; " op " z, x, y; mov.b32 %0, z; }" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
#define F3(op) { u32 r; asm volatile("{ .reg .f32 x, y, z, w; mov.b32 x, %1; mov.b32 y, %2; mov.b32 z, %3; " op " w, x, y, z; mov.b32 %0, w; }" : "=r"(r) : "r"(a), "r"(b), "r"(c)); put(&s, r); }
#define FP(op) { u32 r; asm volatile("{ .reg .pred p; .reg .f32 x, y; mov.b32 x, %1; mov.b32 y, %2; " op " p, x, y; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(a), "r"(b)); put(&s, r); }
#define FT(op) { u32 r; asm volatile("{ .reg .pred p; .reg .f32 x; mov.b32 x, %1; testp." op ".f32 p, x; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(a)); put(&s, r); }
    F2("add.rn.f32") F2("add.rz.f32") F2("add.rm.f32") F2("add.rp.f32") F2("add.rn.ftz.f32")
    F2("add.rn.sat.f32") F2("sub.rn.f32") F2("sub.rz.ftz.f32") F2("mul.rn.f32") F2("mul.rz.f32")
    F2("mul.rm.f32") F2("mul.rp.f32") F2("mul.rn.ftz.f32") F2("mul.rn.sat.f32")
    F3("fma.rn.f32") F3("fma.rz.f32") F3("fma.rm.f32") F3("fma.rp.f32") F3("fma.rn.ftz.f32")
    F3("fma.rn.sat.f32") F2("min.f32") F2("max.f32") F2("min.NaN.f32") F2("max.NaN.f32")
    F2("min.ftz.f32") F2("max.xorsign.abs.f32") F2("min.NaN.xorsign.abs.f32")
    N1("abs.f32") N1("neg.f32") N1("abs.ftz.f32") F2("copysign.f32")
    F2("div.rn.f32") F2("div.rz.f32") F2("div.rn.ftz.f32") F1("rcp.rn.f32") F1("rcp.rp.ftz.f32")
    F1("sqrt.rn.f32") F1("sqrt.rm.f32") F1("sqrt.rn.ftz.f32")
    FP("setp.lt.f32") FP("setp.le.f32") FP("setp.eq.f32") FP("setp.ne.f32") FP("setp.equ.f32")
    FP("setp.neu.f32") FP("setp.ltu.f32") FP("setp.geu.f32") FP("setp.num.f32") FP("setp.nan.f32")
    FP("setp.gt.ftz.f32")
    FT("finite") FT("infinite") FT("number") FT("notanumber") FT("normal") FT("subnormal")
}

extern "C" __global__ void twice(const u32 *in, u32 *out) {
    sink s = sink_open(out);
    const u32 t = threadIdx.x;
    const u64 x = (u64)in[t] << 32 | in[t + 512], y = (u64)in[t * 5 % 256] << 32 | in[t + 768];
    const u64 z = (u64)in[t * 11 % 256] << 32 | in[t + 1024];
#define W1(op) { u64 r; asm volatile("{ .reg .f64 x, y; mov.b64 x, %1; " op " y, x; mov.b64 %0, y; }" : "=l"(r) : "l"(x)); put64(&s, one_nan64(r)); }
#define W2(op) { u64 r; asm volatile("{ .reg .f64 x, y, z; mov.b64 x, %1; mov.b64 y, %2; " op " z, x, y; mov.b64 %0, z; }" : "=l"(r) : "l"(x), "l"(y)); put64(&s, one_nan64(r)); }
#define W3(op) { u64 r; asm volatile("{ .reg .f64 x, y, z, w; mov.b64 x, %1; mov.b64 y, %2; mov.b64 z, %3; " op " w, x, y, z; mov.b64 %0, w; }" : "=l"(r) : "l"(x), "l"(y), "l"(z)); put64(&s, one_nan64(r)); }
    W2("add.rn.f64") W2("add.rz.f64") W2("sub.rm.f64") W2("mul.rn.f64") W2("mul.rp.f64")
    W3("fma.rn.f64") W3("fma.rz.f64") W2("min.f64") W2("max.f64") W1("abs.f64") W1("neg.f64")
    W2("div.rn.f64") W1("sqrt.rn.f64") W1("rcp.rn.f64")
}
