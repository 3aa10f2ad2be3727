/* op_int.c: integer arithmetic.  Logic, shifts and bit fields are in op_bits.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

WRAP2(add, a + b)
WRAP2(sub, a - b)
WRAP2(mul_lo, a *b)
WRAP1(neg, 0 - a)

static s64 quot_s(s64 a, s64 b) {
    return !b ? -1 : b == -1 ? (s64)(0 - (u64)a) : a / b;
}
static s64 mod_s(s64 a, s64 b) {
    return !b ? a : b == -1 ? 0 : a % b;
}
static u64 quot_u(u64 a, u64 b) {
    return b ? a / b : ~0ull;
}
static u64 mod_u(u64 a, u64 b) {
    return b ? a % b : a;
}

/* signed and unsigned versions differ */
#define SIGNED2(X)                                                                                 \
    X(min, a < b ? a : b, a < b ? a : b)                                                           \
    X(max, a > b ? a : b, a > b ? a : b)                                                           \
    X(div, quot_s(a, b), quot_u(a, b))                                                             \
    X(rem, mod_s(a, b), mod_u(a, b))                                                               \
    X(min_relu, a < b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b), a < b ? a : b)                          \
    X(max_relu, a > b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b), a > b ? a : b)
#define MADE(n, s, u)                                                                              \
    DEF2(n##_s16, u32, s16, u16, s)                                                                \
    DEF2(n##_u16, u32, u16, u16, u)                                                                \
    DEF2(n##_s32, u32, s32, u32, s)                                                                \
    DEF2(n##_u32, u32, u32, u32, u)                                                                \
    DEF2(n##_s64, u64, s64, u64, s)                                                                \
    DEF2(n##_u64, u64, u64, u64, u)
SIGNED2(MADE)
#undef MADE
#define TABLE(n, s, u)                                                                             \
    static const handler t_##n[T_COUNT] = {                                                        \
        [T_U16] = n##_u16, [T_S16] = n##_s16, [T_U32] = n##_u32,                                   \
        [T_S32] = n##_s32, [T_U64] = n##_u64, [T_S64] = n##_s64};
SIGNED2(TABLE)
#undef TABLE

DEF1(abs_s16, u32, s16, u16, a < 0 ? -a : a)
DEF1(abs_s32, u32, s32, u32, a < 0 ? 0u - (u32)a : (u32)a)
DEF1(abs_s64, u64, s64, u64, a < 0 ? 0ull - (u64)a : (u64)a)

/* 2 x 16 bits */
#define PAIR16(T, op)                                                                              \
    ((u32)(u16)((T)(u16)a op(T)(u16) b) | (u32)(u16)((T)(u16)(a >> 16) op(T)(u16)(b >> 16)) << 16)
DEF2(add_16x2, u32, u32, u32, PAIR16(u32, +))
#define SEL16(T, op)                                                                               \
    ((u32)(u16)((T)(u16)a op(T)(u16) b ? a : b) |                                                  \
     ((T)(u16)(a >> 16) op(T)(u16)(b >> 16) ? a & 0xffff0000u : b & 0xffff0000u))
DEF2(min_s16x2, u32, u32, u32, SEL16(s16, <))
DEF2(max_s16x2, u32, u32, u32, SEL16(s16, >))
DEF2(min_u16x2, u32, u32, u32, SEL16(u16, <))
DEF2(max_u16x2, u32, u32, u32, SEL16(u16, >))
#define RELU16(v) (((v)&0x8000 ? 0 : (v)&0xffffu) | ((v) >> 31 ? 0 : (v)&0xffff0000u))
DEF2(min_relu_s16x2, u32, u32, u32, RELU16(SEL16(s16, <)))
DEF2(max_relu_s16x2, u32, u32, u32, RELU16(SEL16(s16, >)))

/* --- Multiply --- */

static u64 mulhi_u64(u64 a, u64 b) {
    return (u64)((unsigned __int128)a * b >> 64);
}
static s64 mulhi_s64(s64 a, s64 b) {
    return (s64)((__int128)a * b >> 64);
}
DEF2(mulhi_s16, u32, s16, u16, a *b >> 16)
DEF2(mulhi_u16, u32, u16, u16, (u32)a *b >> 16)
DEF2(mulhi_s32, u32, s32, u32, (s64)a *b >> 32)
DEF2(mulhi_u32, u32, u32, u32, (u64)a *b >> 32)
DEF2(mulhi_s, u64, s64, u64, mulhi_s64(a, b))
DEF2(mulhi_u, u64, u64, u64, mulhi_u64(a, b))
static const handler t_mulhi[T_COUNT] = {
    [T_S16] = mulhi_s16, [T_U16] = mulhi_u16, [T_S32] = mulhi_s32,
    [T_U32] = mulhi_u32, [T_S64] = mulhi_s,   [T_U64] = mulhi_u};
DEF2(mul24_s32, u32, s32, u32, (s64)((s32)((u32)a << 8) >> 8) * ((s32)((u32)b << 8) >> 8))
DEF2(mul24_u32, u32, u32, u32, (a & 0xffffff) * (b & 0xffffff))
DEF3(madlo_16, u32, u32, u16, a *b + c)
DEF3(madlo_32, u32, u32, u32, a *b + c)
DEF3(madlo_64, u64, u64, u64, a *b + c)
DEF3(madhi_s16, u32, s16, u16, (a * b >> 16) + c)
DEF3(madhi_u16, u32, u16, u16, ((u32)a * b >> 16) + c)
DEF3(madhi_s32, u32, s32, u32, (u32)((s64)a *b >> 32) + (u32)c)
DEF3(madhi_u32, u32, u32, u32, (u32)((u64)a *b >> 32) + c)
DEF3(madhi_s64, u64, s64, u64, (u64)mulhi_s64(a, b) + (u64)c)
DEF3(madhi_u64, u64, u64, u64, mulhi_u64(a, b) + c)
static u32 clamp_s32(s64 v) {
    return (u32)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}
DEF3(madhi_sat, u32, s32, u32, clamp_s32(((s64)a * b >> 32) + c))
DEF3(mad24_s32, u32, s32, u32,
     (u32)((s64)((s32)((u32)a << 8) >> 8) * ((s32)((u32)b << 8) >> 8)) + (u32)c)
DEF3(mad24_u32, u32, u32, u32, (a & 0xffffff) * (b & 0xffffff) + c)

/* .wide: the result is twice as wide as the factors */
#define WIDE(name, LD, LS, T, U, add)                                                              \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        LD *pd = reg_at(w, i->d);                                                                  \
        const LS *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);                                     \
        const LD *pc = reg_at(w, i->c);                                                            \
        (void)pc;                                                                                  \
        EACH_LANE(m, { pd[l] = (LD)((U)(T)pa[l] * (U)(T)pb[l]) add; });                            \
        return NEXT;                                                                               \
    }
WIDE(mulw_s16, u32, u32, s16, s32, )
WIDE(mulw_u16, u32, u32, u16, u32, )
WIDE(mulw_s32, u64, u32, s32, s64, )
WIDE(mulw_u32, u64, u32, u32, u64, )
WIDE(madw_s16, u32, u32, s16, s32, +pc[l])
WIDE(madw_u16, u32, u32, u16, u32, +pc[l])
WIDE(madw_s32, u64, u32, s32, s64, +pc[l])
WIDE(madw_u32, u64, u32, u32, u64, +pc[l])

/* --- Carry --- */

#define CARRY(name, T, W)                                                                          \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        T *pd = reg_at(w, i->d);                                                                   \
        const T *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);                                      \
        FOR_LANES(l, m) {                                                                          \
            bool in = i->n && (w->cc >> l & 1);                                                    \
            W r = i->size ? (W)pa[l] - pb[l] - in : (W)pa[l] + pb[l] + in;                         \
            pd[l] = (T)r;                                                                          \
            if (i->flags)                                                                          \
                w->cc = (w->cc & ~(1u << l)) | (u32)(r >> sizeof(T) * 8 & 1) << l;                 \
        }                                                                                          \
        return NEXT;                                                                               \
    }
CARRY(carry_32, u32, u64)
CARRY(carry_64, u64, unsigned __int128)

#define CARRY_MAD(name, T, W)                                                                      \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        T *pd = reg_at(w, i->d);                                                                   \
        const T *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);               \
        FOR_LANES(l, m) {                                                                          \
            W p = (W)pa[l] * pb[l];                                                                \
            if (i->sem) {                                                                          \
                p = (W)((s##T)pa[l]) * (W)((s##T)pb[l]);                                           \
            }                                                                                      \
            T part = (T)(i->size ? p >> sizeof(T) * 8 : p);                                        \
            W r = (W)part + pc[l] + (i->n && (w->cc >> l & 1));                                    \
            pd[l] = (T)r;                                                                          \
            if (i->flags)                                                                          \
                w->cc = (w->cc & ~(1u << l)) | (u32)(r >> sizeof(T) * 8 & 1) << l;                 \
        }                                                                                          \
        return NEXT;                                                                               \
    }
typedef s32 su32;
typedef s64 su64;
CARRY_MAD(carry_mad_32, u32, u64)
CARRY_MAD(carry_mad_64, u64, unsigned __int128)

DEF3(sad_s16, u32, s16, u16, (a < b ? b - a : a - b) + c)
DEF3(sad_u16, u32, u16, u16, (a < b ? b - a : a - b) + c)
DEF3(sad_s32, u32, s32, u32, (u32)(a < b ? (s64)b - a : (s64)a - b) + (u32)c)
DEF3(sad_u32, u32, u32, u32, (a < b ? b - a : a - b) + c)
DEF3(sad_s64, u64, s64, u64, (a < b ? (u64)b - (u64)a : (u64)a - (u64)b) + (u64)c)
DEF3(sad_u64, u64, u64, u64, (a < b ? b - a : a - b) + c)

/* --- Decoders --- */

bool dec_carry(struct dec *d, bool sub, bool with) {
    enum type t = dec_type(d, 0);
    if (!with && !dec_has(d, "cc"))
        return false;
    dec_2(d, t);
    d->in->n = with;
    d->in->size = sub;
    d->in->flags = dec_has(d, "cc");
    d->in->fn = type_bytes(t) == 4 ? carry_32 : type_bytes(t) == 8 ? carry_64 : NULL;
    return true;
}
void dec_addc(struct dec *d) {
    dec_carry(d, false, true);
}
void dec_subc(struct dec *d) {
    dec_carry(d, true, true);
}

/* add and sub of integers; the floating types are in op_float.c */
static int add_sat(struct warp *w, const struct insn *i, u32 m) {
    s32 *pd = reg_at(w, i->d);
    const s32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    FOR_LANES(l, m) {
        s64 r = i->n ? (s64)pa[l] - pb[l] : (s64)pa[l] + pb[l];
        pd[l] = r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : (s32)r;
    }
    return NEXT;
}
void dec_int_add(struct dec *d, bool sub) {
    if (dec_carry(d, sub, false))
        return;
    enum type t = dec_type(d, 0);
    if (t == T_U16X2 || t == T_S16X2) {
        dec_2(d, t);
        d->in->fn = sub ? NULL : add_16x2;
    } else if (dec_has(d, "sat")) {
        dec_2(d, t);
        d->in->n = sub;
        d->in->fn = t == T_S32 ? add_sat : NULL;
    } else {
        dec_table2(d, sub ? t_sub : t_add);
    }
}
void dec_int_neg(struct dec *d) {
    dec_table1(d, t_neg);
}
void dec_int_abs(struct dec *d) {
    static const handler t[T_COUNT] = {[T_S16] = abs_s16, [T_S32] = abs_s32, [T_S64] = abs_s64};
    dec_table1(d, t);
}
void dec_int_minmax(struct dec *d, bool max) {
    static const handler px[2][2] = {{min_u16x2, min_s16x2}, {max_u16x2, max_s16x2}};
    static const handler px_relu[2] = {min_relu_s16x2, max_relu_s16x2};
    enum type t = dec_type(d, 0);
    bool relu = dec_has(d, "relu");
    if (t == T_U16X2 || t == T_S16X2) {
        dec_2(d, t);
        d->in->fn = !relu ? px[max][t == T_S16X2] : t == T_S16X2 ? px_relu[max] : NULL;
    } else {
        dec_table2(d, relu ? (max ? t_max_relu : t_min_relu) : max ? t_max : t_min);
    }
}
void dec_int_div(struct dec *d) {
    dec_table2(d, t_div);
}
void dec_rem(struct dec *d) {
    dec_table2(d, t_rem);
}

void dec_int_mul(struct dec *d) {
    enum type t = dec_type(d, 0);
    if (dec_has(d, "wide")) {
        static const handler w[T_COUNT] = {
            [T_S16] = mulw_s16, [T_U16] = mulw_u16, [T_S32] = mulw_s32, [T_U32] = mulw_u32};
        static const u8 to[T_COUNT] = {
            [T_S16] = T_S32, [T_U16] = T_U32, [T_S32] = T_S64, [T_U32] = T_U64};
        dec_nops(d, 3, 3);
        d->in->d = dec_dst(d, &d->op[0], to[t]);
        d->in->a = dec_src(d, &d->op[1], t);
        d->in->b = d->in->c = dec_src(d, &d->op[2], t);
        d->in->fn = w[t];
        return;
    }
    dec_table2(d, dec_has(d, "hi") ? t_mulhi : t_mul_lo);
}
DEF2(mul24hi_s32, u32, s32, u32, (u32)((s64)(s32)((u32)a << 8) * (s32)((u32)b << 8) >> 32))
DEF2(mul24hi_u32, u32, u32, u32, (u64)(a & 0xffffff) * (b & 0xffffff) >> 16)
DEF3(mad24hi_s32, u32, s32, u32, (u32)((s64)(s32)((u32)a << 8) * (s32)((u32)b << 8) >> 32) + (u32)c)
DEF3(mad24hi_sat, u32, s32, u32,
     clamp_s32(((s64)(s32)((u32)a << 8) * (s32)((u32)b << 8) >> 32) + c))
DEF3(mad24hi_u32, u32, u32, u32, (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 16) + c)
void dec_mul24(struct dec *d) {
    enum type t = dec_type(d, 0);
    bool mad = d->nops == 4;
    if (dec_has(d, "hi")) { /* bits 47..16 of the 48-bit product */
        mad ? dec_3(d, t) : dec_2(d, t);
        d->in->fn =
            t == T_S32 ? (mad ? mad24hi_s32 : mul24hi_s32) : (mad ? mad24hi_u32 : mul24hi_u32);
        if (dec_has(d, "sat"))
            d->in->fn = t == T_S32 && mad ? mad24hi_sat : NULL;
        return;
    }
    mad ? dec_3(d, t) : dec_2(d, t);
    d->in->fn = t == T_S32 ? (mad ? mad24_s32 : mul24_s32) : (mad ? mad24_u32 : mul24_u32);
}
void dec_int_mad(struct dec *d, bool with_carry) {
    enum type t = dec_type(d, 0);
    if (dec_has(d, "wide")) {
        static const handler w[T_COUNT] = {
            [T_S16] = madw_s16, [T_U16] = madw_u16, [T_S32] = madw_s32, [T_U32] = madw_u32};
        static const u8 to[T_COUNT] = {
            [T_S16] = T_S32, [T_U16] = T_U32, [T_S32] = T_S64, [T_U32] = T_U64};
        dec_nops(d, 4, 4);
        d->in->d = dec_dst(d, &d->op[0], to[t]);
        d->in->a = dec_src(d, &d->op[1], t);
        d->in->b = dec_src(d, &d->op[2], t);
        d->in->c = dec_src(d, &d->op[3], to[t]);
        d->in->fn = w[t];
        return;
    }
    static const handler lo[T_COUNT] = {[T_S16] = madlo_16, [T_U16] = madlo_16, [T_S32] = madlo_32,
                                        [T_U32] = madlo_32, [T_S64] = madlo_64, [T_U64] = madlo_64};
    static const handler hi[T_COUNT] = {
        [T_S16] = madhi_s16, [T_U16] = madhi_u16, [T_S32] = madhi_s32,
        [T_U32] = madhi_u32, [T_S64] = madhi_s64, [T_U64] = madhi_u64};
    dec_3(d, t);
    if (dec_has(d, "sat")) {
        d->in->fn = t == T_S32 && dec_has(d, "hi") ? madhi_sat : NULL;
        return;
    }
    if (with_carry || dec_has(d, "cc")) {
        d->in->n = with_carry;
        d->in->size = dec_has(d, "hi");
        d->in->sem = t == T_S32 || t == T_S64;
        d->in->flags = dec_has(d, "cc");
        d->in->fn = type_bytes(t) == 4 ? carry_mad_32 : type_bytes(t) == 8 ? carry_mad_64 : NULL;
        return;
    }
    d->in->fn = dec_has(d, "hi") ? hi[t] : lo[t];
}
void dec_madc(struct dec *d) {
    dec_int_mad(d, true);
}
void dec_sad(struct dec *d) {
    enum type t = dec_type(d, 0);
    static const handler sads[T_COUNT] = {[T_S16] = sad_s16, [T_U16] = sad_u16, [T_S32] = sad_s32,
                                          [T_U32] = sad_u32, [T_S64] = sad_s64, [T_U64] = sad_u64};
    dec_3(d, t);
    d->in->fn = sads[t];
}
