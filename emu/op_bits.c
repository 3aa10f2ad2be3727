/* op_bits.c: logic, shifts, bit fields, byte permutations and dot products.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

WRAP2(and_, a &b)
WRAP2(or_, a | b)
WRAP2(xor_, a ^ b)
WRAP1(not_, ~a)
WRAP1(cnot, a == 0)

/* --- Shifts: the amount is 32 bits wide, clamped --- */

#define SHIFT(name, L, T, U, big, expr)                                                            \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        L *pd = reg_at(w, i->d);                                                                   \
        const L *pa = reg_at(w, i->a);                                                             \
        const u32 *pb = reg_at(w, i->b);                                                           \
        EACH_LANE(m, {                                                                             \
            const T a = (T)pa[l];                                                                  \
            const u32 b = pb[l];                                                                   \
            pd[l] = (L)(U)(b >= sizeof(T) * 8 ? (big) : (expr));                                   \
        });                                                                                        \
        return NEXT;                                                                               \
    }
SHIFT(shl_16, u32, u16, u16, 0, (u32)a << b)
SHIFT(shl_32, u32, u32, u32, 0, a << b)
SHIFT(shl_64, u64, u64, u64, 0, a << b)
SHIFT(shr_u16, u32, u16, u16, 0, a >> b)
SHIFT(shr_u32, u32, u32, u32, 0, a >> b)
SHIFT(shr_u64, u64, u64, u64, 0, a >> b)
SHIFT(shr_s16, u32, s16, u16, a < 0 ? -1 : 0, a >> b)
SHIFT(shr_s32, u32, s32, u32, a < 0 ? -1 : 0, a >> b)
SHIFT(shr_s64, u64, s64, u64, a < 0 ? -1 : 0, a >> b)

static u32 funnel(u32 a, u32 b, u32 c, bool left, bool wrap) {
    u32 n = wrap ? c & 31 : c > 32 ? 32 : c;
    u64 v = (u64)b << 32 | a;
    return left ? (u32)(v << n >> 32) : n == 32 ? b : (u32)(v >> n);
}
DEF3(shf_l_wrap, u32, u32, u32, funnel(a, b, c, true, true))
DEF3(shf_l_clamp, u32, u32, u32, funnel(a, b, c, true, false))
DEF3(shf_r_wrap, u32, u32, u32, funnel(a, b, c, false, true))
DEF3(shf_r_clamp, u32, u32, u32, funnel(a, b, c, false, false))

/* --- Bits --- */

static u32 reverse32(u32 v) {
    u32 r = 0;
    for (u32 k = 0; k < 32; k++)
        r |= (v >> k & 1) << (31 - k);
    return r;
}
static u64 bfe64(u64 a, u32 pos, u32 len, u32 width, bool sgn) {
    pos &= 0xff;
    len &= 0xff;
    u64 sign = 0;
    if (sgn && len) {
        u32 at = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
        sign = a >> at & 1;
    }
    u64 r = 0;
    for (u32 k = 0; k < width; k++) {
        u64 bit = k < len && pos + k < width ? a >> (pos + k) & 1 : sign;
        r |= bit << k;
    }
    return r;
}
static u64 bfi64(u64 a, u64 b, u32 pos, u32 len, u32 width) {
    pos &= 0xff;
    len &= 0xff;
    for (u32 k = 0; k < len && pos + k < width; k++)
        b = (b & ~(1ull << (pos + k))) | (a >> k & 1) << (pos + k);
    return b;
}
static u32 find_msb(u64 a, bool shift, u32 width) {
    if (!a)
        return ~0u;
    u32 k = 63u - (u32)__builtin_clzll(a);
    return shift ? width - 1 - k : k;
}
DEF1(popc_32, u32, u32, u32, __builtin_popcount(a))
DEF1(brev_32, u32, u32, u32, reverse32(a))
DEF1(brev_64, u64, u64, u64, (u64)reverse32((u32)a) << 32 | reverse32((u32)(a >> 32)))
DEF1(clz_32, u32, u32, u32, a ? __builtin_clz(a) : 32)
DEF1(bfind_u32, u32, u32, u32, find_msb(a, false, 32))
DEF1(bfind_s32, u32, s32, u32, find_msb((u32)(a < 0 ? ~a : a), false, 32))
DEF1(bfind_shift_u32, u32, u32, u32, find_msb(a, true, 32))
DEF1(bfind_shift_s32, u32, s32, u32, find_msb((u32)(a < 0 ? ~a : a), true, 32))
DEF3(bfe_u32, u32, u32, u32, bfe64(a, b, c, 32, false))
DEF3(bfe_s32, u32, u32, u32, bfe64(a, b, c, 32, true))
DEF2(bmsk_clamp, u32, u32, u32, a > 31 || !b ? 0 : (b > 31 ? ~0u : (1u << b) - 1) << a)
DEF2(bmsk_wrap, u32, u32, u32, !(b & 31) ? 0 : ((1u << (b & 31)) - 1) << (a & 31))
static u32 szext(u32 a, u32 n, bool sgn, bool wrap) {
    if (wrap)
        n &= 31;
    else if (n > 31)
        return a;
    if (!n)
        return 0;
    u32 v = a & ((1u << n) - 1);
    return sgn && (v >> (n - 1) & 1) ? v | ~((1u << n) - 1) : v;
}
DEF2(szext_u, u32, u32, u32, szext(a, b, false, i->n))
DEF2(szext_s, u32, u32, u32, szext(a, b, true, i->n))

/* 64-bit source, 32-bit result or 32-bit position operands */
static int popc_64(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u64 *pa = reg_at(w, i->a);
    FOR_LANES(l, m)
    switch (i->n) {
    case 0:
        pd[l] = (u32)__builtin_popcountll(pa[l]);
        break;
    case 1:
        pd[l] = pa[l] ? (u32)__builtin_clzll(pa[l]) : 64;
        break;
    default: {
        u64 a = i->n & 2 && (s64)pa[l] < 0 ? ~pa[l] : pa[l];
        pd[l] = find_msb(a, i->n & 4, 64);
    }
    }
    return NEXT;
}
static int bfe_64(struct warp *w, const struct insn *i, u32 m) {
    u64 *pd = reg_at(w, i->d);
    const u64 *pa = reg_at(w, i->a);
    const u32 *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    FOR_LANES(l, m) pd[l] = bfe64(pa[l], pb[l], pc[l], 64, i->n);
    return NEXT;
}
static int bfi_32(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c),
              *pe = reg_at(w, i->ops[0]);
    FOR_LANES(l, m) pd[l] = (u32)bfi64(pa[l], pb[l], pc[l], pe[l], 32);
    return NEXT;
}
static int bfi_64(struct warp *w, const struct insn *i, u32 m) {
    u64 *pd = reg_at(w, i->d);
    const u64 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    const u32 *pc = reg_at(w, i->c), *pe = reg_at(w, i->ops[0]);
    FOR_LANES(l, m) pd[l] = bfi64(pa[l], pb[l], pc[l], pe[l], 64);
    return NEXT;
}
static u32 lop3(u32 a, u32 b, u32 c, u32 lut) {
    u32 r = 0;
    for (u32 k = 0; k < 8; k++)
        if (lut >> k & 1)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}
DEF3(lop3_32, u32, u32, u32, lop3(a, b, c, (u32)i->imm))
static int lop3_pred(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d), out = 0, q = pred_at(w, i->ops[1]);
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    FOR_LANES(l, m) {
        pd[l] = lop3(pa[l], pb[l], pc[l], (u32)i->imm);
        out |= (u32)(pd[l] != 0) << l;
    }
    pred_set(w, i->ops[0], m, i->n ? out & q : out | q);
    return NEXT;
}
/* Position of the n-th set bit of mask from base: n 0 is the bit at base itself. */
static u32 find_nth(u32 mask, u32 base, s32 n) {
    base &= 31;
    if (n == 0)
        return mask >> base & 1 ? base : ~0u;
    s32 step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
    for (s32 k = (s32)base; k >= 0 && k < 32; k += step)
        if ((mask >> k & 1) && --left == 0)
            return (u32)k;
    return ~0u;
}
DEF3(fns_32, u32, u32, u32, find_nth(a, b, (s32)c))
static u32 prmt(u32 a, u32 b, u32 c, u32 mode) {
    u64 v = (u64)b << 32 | a;
    u32 r = 0;
    static const u8 modes[6][4][4] = {
        {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}, /* f4e */
        {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}, /* b4e */
        {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, /* rc8 */
        {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}, /* ecl */
        {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}, /* ecr */
        {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}  /* rc16 */
    };
    for (u32 k = 0; k < 4; k++) {
        u32 s = mode ? modes[mode - 1][c & 3][k] : c >> 4 * k & 15;
        u32 byte = (u32)(v >> 8 * (s & 7)) & 0xff;
        if (!mode && (s & 8))
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << 8 * k;
    }
    return r;
}
DEF3(prmt_32, u32, u32, u32, prmt(a, b, c, i->n))

static int dot(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    bool sa = i->n & 1, sb = i->n & 2, two = i->n & 4, hi = i->n & 8;
    FOR_LANES(l, m) {
        u32 sum = pc[l];
        for (u32 k = 0; k < (two ? 2u : 4u); k++) {
            u32 b8 = pb[l] >> 8 * (k + (two && hi ? 2u : 0u));
            s32 a = two ? (sa ? (s16)(pa[l] >> 16 * k) : (s32)(u16)(pa[l] >> 16 * k))
                        : (sa ? (s8)(pa[l] >> 8 * k) : (s32)(u8)(pa[l] >> 8 * k));
            s32 b = sb ? (s8)b8 : (s32)(u8)b8;
            sum += (u32)(a * b);
        }
        pd[l] = sum;
    }
    return NEXT;
}

/* --- Predicates --- */

static int pred_op(struct warp *w, const struct insn *i, u32 m) {
    u32 a = pred_at(w, i->a), b = i->n > 2 ? 0 : pred_at(w, i->b);
    u32 r = i->n == 0 ? a & b : i->n == 1 ? a | b : i->n == 2 ? a ^ b : i->n == 3 ? ~a : a;
    pred_set(w, i->d, m, r);
    return NEXT;
}

/* --- Decoders --- */

static void dec_logic(struct dec *d, const handler *table, u8 code) {
    enum type t = dec_type(d, 0);
    if (t != T_PRED) {
        dec_table2(d, table);
        return;
    }
    dec_2(d, t);
    d->in->n = code;
    d->in->fn = pred_op;
}
void dec_and(struct dec *d) {
    dec_logic(d, t_and_, 0);
}
void dec_or(struct dec *d) {
    dec_logic(d, t_or_, 1);
}
void dec_xor(struct dec *d) {
    dec_logic(d, t_xor_, 2);
}
void dec_not(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_1(d, t);
    d->in->n = 3;
    d->in->fn = t == T_PRED ? pred_op : t_not_[t];
}
void dec_cnot(struct dec *d) {
    dec_table1(d, t_cnot);
}
/* mov.pred of %is_explicit_cluster, the special register that is a predicate */
static int op_pred_special(struct warp *w, const struct insn *i, u32 m) {
    const u32 *pa = reg_at(w, i->a);
    u32 r = 0;
    FOR_LANES(l, m) r |= (u32)(pa[l] != 0) << l;
    pred_set(w, i->d, m, r);
    return NEXT;
}
void dec_mov_pred(struct dec *d) {
    if (d->nops == 2 && d->op[1].kind == OP_SPECIAL &&
        !strcmp(d->op[1].name, "%is_explicit_cluster")) {
        d->in->d = dec_pred(d, &d->op[0], true);
        d->in->a = dec_src(d, &d->op[1], T_U32);
        d->in->fn = op_pred_special;
        return;
    }
    dec_1(d, T_PRED);
    d->in->n = 4;
    d->in->fn = pred_op;
}

static void dec_shift(struct dec *d, const handler *table) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 3, 3);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], T_U32);
    d->in->fn = table[t];
}
void dec_shl(struct dec *d) {
    static const handler t[T_COUNT] = {
        [T_B16] = shl_16, [T_B32] = shl_32, [T_B64] = shl_64, [T_U16] = shl_16, [T_S16] = shl_16,
        [T_U32] = shl_32, [T_S32] = shl_32, [T_U64] = shl_64, [T_S64] = shl_64};
    dec_shift(d, t);
}
void dec_shr(struct dec *d) {
    static const handler t[T_COUNT] = {[T_B16] = shr_u16, [T_U16] = shr_u16, [T_S16] = shr_s16,
                                       [T_B32] = shr_u32, [T_U32] = shr_u32, [T_S32] = shr_s32,
                                       [T_B64] = shr_u64, [T_U64] = shr_u64, [T_S64] = shr_s64};
    dec_shift(d, t);
}
void dec_shf(struct dec *d) {
    dec_3(d, T_B32);
    bool left = dec_has(d, "l"), wrap = dec_has(d, "wrap");
    d->in->fn = left ? (wrap ? shf_l_wrap : shf_l_clamp) : wrap ? shf_r_wrap : shf_r_clamp;
}
static void dec_count(struct dec *d, handler h32, u8 code) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 2, 2);
    d->in->d = dec_dst(d, &d->op[0], T_U32);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->n = code;
    d->in->fn = type_bytes(t) == 4 ? h32 : type_bytes(t) == 8 ? popc_64 : NULL;
}
void dec_popc(struct dec *d) {
    dec_count(d, popc_32, 0);
}
void dec_clz(struct dec *d) {
    dec_count(d, clz_32, 1);
}
void dec_bfind(struct dec *d) {
    enum type t = dec_type(d, 0);
    bool s = t == T_S32 || t == T_S64, sh = dec_has(d, "shiftamt");
    dec_count(d,
              s    ? (sh ? bfind_shift_s32 : bfind_s32)
              : sh ? bfind_shift_u32
                   : bfind_u32,
              (u8)(8 | (s ? 2 : 0) | (sh ? 4 : 0)));
}
void dec_brev(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_1(d, t);
    d->in->fn = t == T_B32 ? brev_32 : t == T_B64 ? brev_64 : NULL;
}
void dec_bfe(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 4, 4);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], T_U32);
    d->in->c = dec_src(d, &d->op[3], T_U32);
    d->in->n = t == T_S64;
    d->in->fn = t == T_U32 ? bfe_u32 : t == T_S32 ? bfe_s32 : type_bytes(t) == 8 ? bfe_64 : NULL;
}
void dec_bfi(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 5, 5);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], t);
    d->in->c = dec_src(d, &d->op[3], T_U32);
    dec_refs(d, 1)[0] = dec_src(d, &d->op[4], T_U32);
    d->in->fn = t == T_B32 ? bfi_32 : t == T_B64 ? bfi_64 : NULL;
}
void dec_bmsk(struct dec *d) {
    dec_2(d, T_B32);
    d->in->fn = dec_has(d, "wrap") ? bmsk_wrap : bmsk_clamp;
}
void dec_szext(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_2(d, t);
    d->in->n = dec_has(d, "wrap");
    d->in->fn = t == T_S32 ? szext_s : szext_u;
}
void dec_lop3(struct dec *d) {
    bool p = dec_has(d, "and") || dec_has(d, "or");
    dec_nops(d, p ? 6 : 5, p ? 6 : 5);
    d->in->d = dec_dst(d, &d->op[0], T_B32);
    d->in->a = dec_src(d, &d->op[1], T_B32);
    d->in->b = dec_src(d, &d->op[2], T_B32);
    d->in->c = dec_src(d, &d->op[3], T_B32);
    d->in->imm = dec_imm(d, &d->op[4]) & 0xff;
    d->in->fn = lop3_32;
    if (!p)
        return;
    if (!d->op[0].pair)
        dec_fail(d, "d|p is due");
    ref *r = dec_refs(d, 2);
    r[0] = dec_pred(d, d->op[0].pair, true);
    r[1] = dec_pred(d, &d->op[5], false);
    d->in->n = dec_has(d, "and");
    d->in->fn = lop3_pred;
}
void dec_prmt(struct dec *d) {
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
    dec_3(d, T_B32);
    d->in->n = (u8)(dec_one_of(d, modes) + 1);
    d->in->fn = prmt_32;
}
static void dec_dot(struct dec *d, bool two) {
    enum type ta = dec_type(d, 0), tb = dec_type(d, 1);
    dec_3(d, T_B32);
    d->in->n = (u8)((ta == T_S32) | (tb == T_S32) << 1 | two << 2 | dec_has(d, "hi") << 3);
    d->in->fn = dot;
}
void dec_dp4a(struct dec *d) {
    dec_dot(d, false);
}
void dec_dp2a(struct dec *d) {
    dec_dot(d, true);
}
void dec_fns(struct dec *d) {
    dec_3(d, T_B32);
    d->in->fn = fns_32;
}
