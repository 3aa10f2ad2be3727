/* op_cvt.c: conversion (PTX ISA, cvt, cvt.pack).  Integer to integer has its own loops; everything
 * with a floating side goes through num.h, one rounding each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "num.h"
#include <math.h>

enum { CV_SAT = NUM_SAT, CV_FTZ = NUM_FTZ };

static u64 load_lane(const void *p, u32 l, u32 bytes) {
    return bytes == 8 ? ((const u64 *)p)[l] : ((const u32 *)p)[l];
}
static void store_lane(void *p, u32 l, u32 bytes, u64 v) {
    if (bytes == 8)
        ((u64 *)p)[l] = v;
    else
        ((u32 *)p)[l] = (u32)v;
}

/* size: source lane bytes, n: destination lane bytes, space: source type, sem: destination type,
 * imm: rounding, c unused */
static u64 cut(u64 v, enum type t) {
    switch (t) {
    case T_U8:
    case T_B8:
        return (u8)v;
    case T_S8:
        return (u64)(s64)(s8)v;
    case T_U16:
    case T_B16:
        return (u16)v;
    case T_S16:
        return (u64)(s64)(s16)v;
    case T_U32:
    case T_B32:
        return (u32)v;
    case T_S32:
        return (u64)(s64)(s32)v;
    default:
        return v;
    }
}
static bool is_signed(enum type t) {
    return t == T_S8 || t == T_S16 || t == T_S32 || t == T_S64;
}

static u64 saturate(u64 v, bool from_signed, enum type t) {
    int bits = type_bytes(t) * 8;
    bool neg = from_signed && (s64)v < 0;
    if (is_signed(t)) {
        s64 hi = (s64)(~0ull >> (65 - bits)), lo = -hi - 1;
        if (neg)
            return (u64)((s64)v < lo ? lo : (s64)v);
        return v > (u64)hi ? (u64)hi : v;
    }
    u64 hi = ~0ull >> (64 - bits);
    return neg ? 0 : v > hi ? hi : v;
}

static int cvt_int(struct warp *w, const struct insn *i, u32 m) {
    void *pd = reg_at(w, i->d);
    const void *pa = reg_at(w, i->a);
    enum type td = i->sem, ts = i->space;
    FOR_LANES(l, m) {
        u64 v = cut(load_lane(pa, l, i->size), ts);
        if (i->flags & CV_SAT)
            v = saturate(v, is_signed(ts), td);
        v = cut(v, td);
        if (type_bytes(td) < 4 && i->n == 4)
            v = is_signed(td) ? v : v & ((1ull << 8 * type_bytes(td)) - 1);
        store_lane(pd, l, i->n, type_bytes(td) == 2 && i->n == 4 ? (u16)v : v);
    }
    return NEXT;
}
DEF1(cvt_copy32, u32, u32, u32, a)
DEF1(cvt_low16, u32, u32, u16, a)
#define CHANGE(name, LD, LS, expr)                                                                 \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        LD *pd = reg_at(w, i->d);                                                                  \
        const LS *pa = reg_at(w, i->a);                                                            \
        EACH_LANE(m, { pd[l] = (expr); });                                                         \
        return NEXT;                                                                               \
    }
CHANGE(cvt_s64_s32, u64, u32, (u64)(s64)(s32)pa[l])
CHANGE(cvt_u64_u32, u64, u32, pa[l])
CHANGE(cvt_u32_u64, u32, u64, (u32)pa[l])
CHANGE(cvt_f32_bf16, u32, u32, pa[l] << 16)

static enum num_fmt fmt_of(enum type t) {
    switch (t) {
    case T_F16:
    case T_F16X2:
        return NUM_F16;
    case T_BF16:
    case T_BF16X2:
        return NUM_BF16;
    case T_TF32:
        return NUM_TF32;
    case T_E4M3X2:
    case T_E4M3X4:
        return NUM_E4M3;
    case T_E5M2X2:
    case T_E5M2X4:
        return NUM_E5M2;
    case T_E2M3X2:
    case T_E2M3X4:
        return NUM_E2M3;
    case T_E3M2X2:
    case T_E3M2X4:
        return NUM_E3M2;
    case T_E2M1X2:
    case T_E2M1X4:
        return NUM_E2M1;
    case T_UE8M0X2:
        return NUM_UE8M0;
    case T_F32:
        return NUM_F32;
    default:
        return NUM_FMTS;
    }
}

/* Bits that an element takes in its register: six-bit values have a byte. */
static int place_bits(enum num_fmt f) {
    return f == NUM_E2M3 || f == NUM_E3M2 ? 8 : f == NUM_E2M1 ? 4 : num_storage_bits(f);
}

static double load_float(u64 v, enum type t, bool ftz) {
    switch (t) {
    case T_F64:
        return num_double(v);
    case T_F32:
        return (double)(ftz ? num_flush(num_float((u32)v)) : num_float((u32)v));
    default:
        return (double)num_to_f32(fmt_of(t), (u32)v & 0xffff);
    }
}

static u64 int_in_unit(u64 x, bool from_signed, enum type td) {
    if (!x || (from_signed && (s64)x < 0))
        return 0;
    return td == T_F64 ? num_bits64(1.0) : num_from_f64(fmt_of(td), 1.0, NUM_RN, 0);
}

/* A scalar with a floating side. */
static int cvt_any(struct warp *w, const struct insn *i, u32 m) {
    void *pd = reg_at(w, i->d);
    const void *pa = reg_at(w, i->a);
    enum type td = i->sem, ts = i->space;
    enum num_round r = (enum num_round)(i->imm & 7);
    bool integral = i->imm & 8, f_src = fmt_of(ts) != NUM_FMTS || ts == T_F64,
         f_dst = fmt_of(td) != NUM_FMTS || td == T_F64;
    FOR_LANES(l, m) {
        u64 v = load_lane(pa, l, i->size), out;
        if (!f_dst) {
            double x = load_float(v, ts, i->flags & CV_FTZ);
            out = num_to_int(x, r, is_signed(td), type_bytes(td) * 8, ts == T_F64);
            out = td == T_S8 ? cut(out, td) : type_bytes(td) == 2 ? (u16)out : out;
        } else if (!f_src) {
            u64 x = cut(v, ts);
            out = td == T_F64   ? num_bits64(num_int_f64(x, is_signed(ts), r))
                  : td == T_F32 ? num_bits32(num_int_f32(x, is_signed(ts), r))
                                : num_int_code(fmt_of(td), x, is_signed(ts), r);
            if (i->flags & CV_SAT) /* an integer clamped to 0 and 1 */
                out = int_in_unit(x, is_signed(ts), td);
        } else {
            double x = load_float(v, ts, i->flags & CV_FTZ);
            if (integral)
                x = num_round_integral(x, r);
            if (td == T_F64) {
                if (i->flags & CV_SAT)
                    x = x > 1 ? 1 : x > 0 ? x : 0; /* NaN and -0 too are +0 */
                out = num_bits64(ts == T_F64 ? x : num_canon64(x));
            } else if (td == T_TF32 && r == NUM_RNA && x != x) {
                out = v & ~0x1fffull; /* an H200 cuts a NaN short, even down to infinity */
            } else {                  /* .ftz is about float32: a subnormal f16 result stays */
                out = num_from_f64(fmt_of(td), x, r, td == T_F32 ? i->flags : i->flags & ~CV_FTZ);
            }
        }
        store_lane(pd, l, i->n, out);
    }
    return NEXT;
}

/* Two values in a register.  Two f32 sources: a is the upper half. */
static int cvt_pack(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    const u32 *rnd = i->c == REF_NONE ? NULL : reg_at(w, i->c);
    enum num_fmt f = fmt_of(i->sem);
    int bits = place_bits(f);
    /* .rs: 16 random bits for each; f16 drops 13 bits and uses 13 */
    const int drop = f == NUM_F16 ? 3 : 0;
    enum num_round r = (enum num_round)i->imm;
    if (f == NUM_BF16 && r == NUM_RN && !i->flags && !rnd) {
        FOR_LANES(l, m) pd[l] = num_f32_bf16(pa[l]) << 16 | num_f32_bf16(pb[l]);
        return NEXT;
    }
    FOR_LANES(l, m) {
        u32 hi, lo;
        if (rnd) {
            hi = num_from_f64_rs(f, (double)pa[l], (rnd[l] >> 16 << 16) << drop, i->flags);
            lo = num_from_f64_rs(f, (double)pb[l], rnd[l] << 16 << drop, i->flags);
        } else {
            hi = num_from_f64(f, (double)pa[l], r, i->flags);
            lo = num_from_f64(f, (double)pb[l], r, i->flags);
        }
        pd[l] = hi << bits | lo;
    }
    return NEXT;
}
/* An element of a pair; .s2f6 is fixed point, two's complement with six bits of fraction. */
static double part_of(enum type t, u32 code) {
    return t == T_S2F6X2 ? (double)(int8_t)code / 64 : num_to_f64(fmt_of(t), code);
}
/* c: a pair of ue8m0 factors (.scaled::n2::ue8m0), the lower one for the lower element. */
static int cvt_repack(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a), *scale = i->c == REF_NONE ? NULL : reg_at(w, i->c);
    const enum type ts = (enum type)i->space;
    const enum num_fmt fd = fmt_of(i->sem);
    const enum num_round r = (enum num_round)i->imm;
    const int bd = place_bits(fd), bs = ts == T_S2F6X2 ? 8 : place_bits(fmt_of(ts));
    const u32 mask = (u32)((1ull << bs) - 1);
    FOR_LANES(l, m) {
        double lo = part_of(ts, pa[l] & mask), hi = part_of(ts, pa[l] >> bs & mask);
        if (scale) {
            lo *= num_to_f64(NUM_UE8M0, scale[l] & 0xff);
            hi *= num_to_f64(NUM_UE8M0, scale[l] >> 8 & 0xff);
        }
        pd[l] = num_from_f64(fd, hi, r, i->flags) << bd | num_from_f64(fd, lo, r, i->flags);
    }
    return NEXT;
}

/* cvt.rs to four small values, a of {a, b, e, f} uppermost.  a and b have the upper 16 random bits,
 * e and f the lower; four-bit results one half of those each. */
static int cvt_pack4(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *rnd = reg_at(w, i->c);
    const enum num_fmt f = fmt_of(i->sem);
    const int bits = place_bits(f);
    FOR_LANES(l, m) {
        const u32 half[2] = {rnd[l] & 0xffff0000u, rnd[l] << 16};
        const u32 byte[4] = {rnd[l] & 0xff000000u, rnd[l] << 16 & 0xff000000u,
                             rnd[l] << 8 & 0xff000000u, rnd[l] << 24};
        u32 out = 0;
        for (u32 k = 0; k < 4; k++) {
            const double x = (double)((const float *)reg_at(w, i->ops[k]))[l];
            out = out << bits |
                  num_from_f64_rs(f, x, f == NUM_E2M1 ? byte[k] : half[k / 2], i->flags);
        }
        pd[l] = out;
    }
    return NEXT;
}

/* --- Decoders --- */

static bool is_int_type(enum type t) {
    return t >= T_B8 && t <= T_S64;
}

static int rounding(struct dec *d) {
    static const char *const names[] = {"rn",  "rz",  "rm",  "rp",  "rna",
                                        "rni", "rzi", "rmi", "rpi", NULL};
    int k = dec_one_of(d, names);
    return k < 0 ? NUM_RN : k < 5 ? k : 8 + k - 5;
}

static void fast_int(struct insn *in, enum type td, enum type ts) {
    in->fn = cvt_int;
    if (in->flags & CV_SAT)
        return;
    int bd = type_bytes(td), bs = type_bytes(ts);
    if (in->size == 4 && in->n == 4 && bd == 4 && bs == 4)
        in->fn = cvt_copy32;
    else if (in->size == 4 && in->n == 4 && bd == 2 && bs >= 2 && (bs == 4 || !is_signed(ts)))
        in->fn = cvt_low16;
    else if (in->size == 4 && in->n == 4 && bd == 4 && bs == 2 && !is_signed(ts))
        in->fn = cvt_low16;
    else if (in->n == 8 && in->size == 4 && bd == 8 && bs == 4)
        in->fn = ts == T_S32 ? cvt_s64_s32 : cvt_u64_u32;
    else if (in->n == 4 && in->size == 8 && bd == 4 && bs == 8)
        in->fn = cvt_u32_u64;
}

static void dec_cvt_scalar(struct dec *d, enum type td, enum type ts) {
    struct insn *in = d->in;
    u32 ld = 0, ls = 0;
    dec_nops(d, 2, 2);
    in->d = d->op[0].kind == OP_SINK ? dec_dst(d, &d->op[0], td) : dec_any(d, &d->op[0], true, &ld);
    if (d->op[1].kind == OP_REG) {
        in->a = dec_any(d, &d->op[1], false, &ls);
    } else {
        in->a = dec_src(d, &d->op[1], ts);
        ls = type_bytes(ts) == 8 ? 8 : 4;
    }
    ld = ld ? ld : type_bytes(td) == 8 ? 8 : 4;
    if ((int)ld < type_bytes(td) || (int)ls < type_bytes(ts))
        dec_fail(d, "a register is narrower than its type");
    in->size = (u8)ls;
    in->n = (u8)ld;
    in->space = (u8)ts;
    in->sem = (u8)td;
    in->imm = rounding(d);
    in->flags = (dec_has(d, "sat") ? CV_SAT : 0u) | (dec_has(d, "ftz") ? CV_FTZ : 0u) |
                (dec_has(d, "relu") ? NUM_RELU : 0u) |
                (dec_has(d, "satfinite") ? NUM_SATFINITE : 0u);
    if (is_int_type(td) && is_int_type(ts)) {
        fast_int(in, td, ts);
        return;
    }
    in->fn = cvt_any;
    if (td == T_F32 && ts == T_BF16 && !in->flags)
        in->fn = cvt_f32_bf16;
    if (is_int_type(td)) /* rounding to an integer is named rni and so on */
        in->imm &= 7;
}

static bool is_pair(enum type t) {
    return t == T_F16X2 || t == T_BF16X2 || t == T_E4M3X2 || t == T_E5M2X2 || t == T_UE8M0X2 ||
           t == T_E2M1X2 || t == T_E2M3X2 || t == T_E3M2X2 || t == T_S2F6X2;
}

void dec_cvt(struct dec *d) {
    enum type td = dec_type(d, 0), ts = dec_type(d, 1);
    struct insn *in = d->in;
    if (td == T_NONE || ts == T_NONE)
        dec_fail(d, "two types are due");
    if (td >= T_E2M1X4 && td <= T_E3M2X4) {
        if (ts != T_F32 || !dec_has(d, "rs") || !dec_has(d, "satfinite"))
            dec_fail(d, "this type is made by .rs.satfinite from f32 only");
        dec_nops(d, 3, 3);
        in->sem = (u8)td;
        in->flags = dec_has(d, "relu") ? NUM_RELU : 0u;
        in->d = dec_dst(d, &d->op[0], td);
        dec_vec(d, &d->op[1], T_F32, false, dec_refs(d, 4), 4);
        in->c = dec_src(d, &d->op[2], T_B32);
        in->fn = cvt_pack4;
        return;
    }
    if (!is_pair(td) && !is_pair(ts)) {
        dec_cvt_scalar(d, td, ts);
        return;
    }
    in->sem = (u8)td;
    in->space = (u8)ts;
    in->imm = rounding(d);
    in->flags =
        (dec_has(d, "relu") ? NUM_RELU : 0u) | (dec_has(d, "satfinite") ? NUM_SATFINITE : 0u);
    in->d = dec_dst(d, &d->op[0], td);
    in->a = dec_src(d, &d->op[1], ts);
    const bool scaled = dec_has(d, "scaled::n2::ue8m0");
    if (td == T_S2F6X2 || (ts == T_S2F6X2 && td != T_BF16X2) || (scaled && td != T_BF16X2))
        dec_fail(d, "of .s2f6x2 and .scaled only what makes .bf16x2 is modelled");
    if (ts != T_F32) {
        dec_nops(d, scaled ? 3 : 2, scaled ? 3 : 2);
        in->fn = is_pair(ts) ? cvt_repack : NULL;
        if (scaled)
            in->c = dec_src(d, &d->op[2], T_B16);
        return;
    }
    if (scaled)
        dec_fail(d, ".scaled is for small formats that become .bf16x2");
    dec_nops(d, 3, 4);
    in->b = dec_src(d, &d->op[2], ts);
    if (d->nops == 4)
        in->c = dec_src(d, &d->op[3], T_B32);
    if (dec_has(d, "rs") != (d->nops == 4))
        dec_fail(d, ".rs takes random bits as its last operand");
    in->fn = cvt_pack;
}

/* cvt.pack: a above b, each saturated to its width; narrower than 16 bits they go below c, which
 * moves up. */
static int op_cvt_pack(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b),
              *pc = i->c == REF_NONE ? NULL : reg_at(w, i->c);
    int bits = i->n;
    s32 hi = (1 << (bits - i->size)) - 1, lo = i->size ? -hi - 1 : 0;
    u32 mask = (u32)((1ull << bits) - 1);
    FOR_LANES(l, m) {
        s32 a = (s32)pa[l], b = (s32)pb[l];
        u32 x = (u32)(a > hi   ? hi
                      : a < lo ? lo
                               : a) &
                mask,
            y = (u32)(b > hi   ? hi
                      : b < lo ? lo
                               : b) &
                mask;
        pd[l] = (pc ? pc[l] << 2 * bits : 0) | x << bits | y;
    }
    return NEXT;
}
void dec_cvt_pack(struct dec *d) {
    static const char *const names[] = {"u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16", NULL};
    int k = dec_one_of(d, names);
    bool three = dec_has(d, "b32");
    if (k < 0 || three != (k < 6))
        dec_fail(d, "this form does not exist");
    dec_nops(d, three ? 4 : 3, three ? 4 : 3);
    d->in->n = (u8)(2 << k / 2);
    d->in->size = k & 1;
    d->in->d = dec_dst(d, &d->op[0], T_B32);
    d->in->a = dec_src(d, &d->op[1], T_S32);
    d->in->b = dec_src(d, &d->op[2], T_S32);
    if (three)
        d->in->c = dec_src(d, &d->op[3], T_B32);
    d->in->fn = op_cvt_pack;
}
