/* op_pred.c: comparison and selection: setp, set, selp, slct, testp.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "num.h"
#include <math.h>

/* r, combined with the predicate operand, goes to p and its complement to q */
static int setp_finish(struct warp *w, const struct insn *i, u32 m, u32 r) {
    u32 p = r, q = ~r;
    if (i->c != REF_NONE) {
        u32 c = pred_at(w, i->c);
        switch (i->size) {
        case 1:
            p &= c, q &= c;
            break;
        case 2:
            p |= c, q |= c;
            break;
        default:
            p ^= c, q ^= c;
            break;
        }
    }
    pred_set(w, i->d, m, p);
    if (i->nops)
        pred_set(w, i->ops[0], m, q);
    return NEXT;
}

#define CMP(name, L, T, op)                                                                        \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        const L *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);                                      \
        u32 r = 0;                                                                                 \
        for (u32 l = 0; l < LANES; l++)                                                            \
            r |= (u32)((T)pa[l] op(T) pb[l]) << l;                                                 \
        return setp_finish(w, i, m, r);                                                            \
    }
#define CMPS(X) X(eq, ==) X(ne, !=) X(lt, <) X(le, <=) X(gt, >) X(ge, >=)
#define MADE(n, op)                                                                                \
    CMP(setp_##n##_s16, u32, s16, op)                                                              \
    CMP(setp_##n##_u16, u32, u16, op)                                                              \
    CMP(setp_##n##_s32, u32, s32, op)                                                              \
    CMP(setp_##n##_u32, u32, u32, op)                                                              \
    CMP(setp_##n##_s64, u64, s64, op)                                                              \
    CMP(setp_##n##_u64, u64, u64, op)
CMPS(MADE)
#undef MADE
#define ROW(n, op)                                                                                 \
    {setp_##n##_s16, setp_##n##_u16, setp_##n##_s32,                                               \
     setp_##n##_u32, setp_##n##_s64, setp_##n##_u64},
static const handler int_cmp[6][6] = {CMPS(ROW)};

/* imm: set of LT 1, EQ 2, GT 4, unordered 8 for which the answer is true */
static u32 class_of(double a, double b) {
    return a < b ? 1 : a == b ? 2 : a > b ? 4 : 8;
}
static int setp_f32(struct warp *w, const struct insn *i, u32 m) {
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    u32 want = (u32)i->imm, r = 0;
    bool ftz = i->flags;
    for (u32 l = 0; l < LANES; l++) {
        float a = pa[l], b = pb[l];
        a = ftz ? num_flush(a) : a;
        b = ftz ? num_flush(b) : b;
        u32 k = a < b ? 1 : a == b ? 2 : a > b ? 4 : 8;
        r |= (u32)((want & k) != 0) << l;
    }
    return setp_finish(w, i, m, r);
}
static int setp_f64(struct warp *w, const struct insn *i, u32 m) {
    const double *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    u32 r = 0;
    for (u32 l = 0; l < LANES; l++)
        r |= (u32)(((u32)i->imm & class_of(pa[l], pb[l])) != 0) << l;
    return setp_finish(w, i, m, r);
}
/* of the lower half of v: n tells the format, flags whether subnormals are flushed (f16 only) */
static double half_value(const struct insn *i, u32 v) {
    if (i->flags && !(v & 0x7c00))
        v &= 0x8000;
    return (double)(i->n ? num_bf16_f32(v & 0xffff) : num_f16_f32(v & 0xffff));
}
static bool half_compares(const struct insn *i, u32 a, u32 b) {
    return (u32)i->imm & class_of(half_value(i, a), half_value(i, b));
}
static int setp_half(struct warp *w, const struct insn *i, u32 m) {
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    u32 r = 0, hi = 0;
    for (u32 l = 0; l < LANES; l++) {
        r |= (u32)half_compares(i, pa[l], pb[l]) << l;
        hi |= (u32)half_compares(i, pa[l] >> 16, pb[l] >> 16) << l;
    }
    if (i->sem == 1)
        return setp_finish(w, i, m, r);
    pred_set(w, i->d, m, r);
    if (i->nops)
        pred_set(w, i->ops[0], m, hi);
    return NEXT;
}

static const char *const cmp_names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "lo",
                                        "ls",  "hi",  "hs",  "equ", "neu", "ltu", "leu",
                                        "gtu", "geu", "num", "nan", NULL};
static const u8 cmp_class[] = {2, 5, 1, 3, 4, 6, 1, 3, 4, 6, 10, 13, 9, 11, 12, 14, 7, 8};

/* Type of the operands is `t`; d->in gets handler, a, b. */
static void compare(struct dec *d, enum type t, struct opnd *a, struct opnd *b) {
    struct insn *in = d->in;
    int c = dec_one_of(d, cmp_names);
    if (c < 0)
        dec_fail(d, "a comparison is due");
    in->a = dec_src(d, a, t);
    in->b = dec_src(d, b, t);
    in->imm = cmp_class[c];
    in->flags = dec_has(d, "ftz");
    switch (t) {
    case T_F32:
        in->fn = setp_f32;
        return;
    case T_F64:
        in->fn = setp_f64;
        return;
    case T_F16:
    case T_BF16:
    case T_F16X2:
    case T_BF16X2:
        in->fn = setp_half;
        in->n = t == T_BF16 || t == T_BF16X2;
        in->sem = t == T_F16X2 || t == T_BF16X2 ? 2 : 1;
        return;
    default:
        break;
    }
    if (c > 9)
        dec_fail(d, "comparison '%s' needs a floating type", cmp_names[c]);
    bool uns = c >= 6;
    int k = c >= 6 ? c - 4 : c;
    int width = type_bytes(t) == 2 ? 0 : type_bytes(t) == 4 ? 2 : type_bytes(t) == 8 ? 4 : -1;
    if (width < 0)
        dec_fail(d, "type .%s cannot be compared", type_name(t));
    bool is_signed = (t == T_S16 || t == T_S32 || t == T_S64) && !uns;
    in->fn = int_cmp[k][width + !is_signed];
}

void dec_setp(struct dec *d) {
    static const char *const bools[] = {"and", "or", "xor", NULL};
    struct insn *in = d->in;
    int b = dec_one_of(d, bools);
    dec_nops(d, b < 0 ? 3 : 4, b < 0 ? 3 : 4);
    in->d = dec_pred(d, &d->op[0], true);
    if (d->op[0].pair)
        dec_refs(d, 1)[0] = dec_pred(d, d->op[0].pair, true);
    compare(d, dec_type(d, 0), &d->op[1], &d->op[2]);
    in->size = (u8)(b + 1);
    if (b >= 0)
        in->c = dec_pred(d, &d->op[3], false);
}

/* set: the answer as all ones or 1.0.  The comparison writes its mask to the function's scratch
 * predicate (see SCRATCH_PRED), i->imm and i->n as setp has them. */
struct set_extra {
    handler cmp;
    ref out;
    u32 yes, bytes;
};
static int op_set(struct warp *w, const struct insn *i, u32 m) {
    const struct set_extra *x = (const void *)i->ops;
    x->cmp(w, i, m);
    u32 p = pred_at(w, i->d);
    u32 *d = reg_at(w, x->out);
    EACH_LANE(m, { d[l] = p >> l & 1 ? x->yes : 0; });
    return NEXT;
}
static bool half_type(enum type t) {
    return t == T_F16 || t == T_BF16 || t == T_F16X2 || t == T_BF16X2;
}

/* 16-bit operands: halves of the result, or one result; n tells the format, sem the halves */
static int op_set_half(struct warp *w, const struct insn *i, u32 m) {
    const struct set_extra *x = (const void *)i->ops;
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    u32 *d = reg_at(w, x->out), c = i->c == REF_NONE ? 0 : pred_at(w, i->c);
    FOR_LANES(l, m) {
        u32 r = 0;
        for (u32 k = 0; k < i->sem; k++) {
            bool t = half_compares(i, pa[l] >> 16 * k, pb[l] >> 16 * k);
            bool cl = c >> l & 1;
            t = i->size == 1 ? t && cl : i->size == 2 ? t || cl : i->size == 3 ? t != cl : t;
            r |= (t ? x->yes : 0) << 16 * k;
        }
        d[l] = r;
    }
    return NEXT;
}

static u32 set_yes(enum type td, bool halves) {
    u32 one = td == T_F32                      ? 0x3f800000u
              : td == T_F16 || td == T_F16X2   ? 0x3c00u
              : td == T_BF16 || td == T_BF16X2 ? 0x3f80u
                                               : ~0u;
    return halves || type_bytes(td) == 2 ? one & 0xffff : one;
}

void dec_set(struct dec *d) {
    static const char *const bools[] = {"and", "or", "xor", NULL};
    enum type td = dec_type(d, 0), ts = dec_type(d, 1);
    struct insn *in = d->in;
    struct set_extra *x = dec_alloc(d, sizeof *x);
    int b = dec_one_of(d, bools);
    if (type_bytes(td) > 4 || type_bytes(ts) < 2)
        dec_fail(d, "these types are not supported");
    dec_nops(d, b < 0 ? 3 : 4, b < 0 ? 3 : 4);
    x->out = dec_dst(d, &d->op[0], td);
    compare(d, ts, &d->op[1], &d->op[2]);
    in->size = (u8)(b + 1);
    if (b >= 0)
        in->c = dec_pred(d, &d->op[3], false);
    x->cmp = in->fn;
    x->yes = set_yes(td, ts == T_F16X2 || ts == T_BF16X2);
    if (half_type(ts)) {
        in->ops = (const void *)x;
        in->fn = op_set_half;
        return;
    }
    in->d = REF(BANK_REG, SCRATCH_PRED);
    in->ops = (const void *)x;
    in->fn = op_set;
}

/* --- Selection --- */

#define SELECT(name, L)                                                                            \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        L *pd = reg_at(w, i->d);                                                                   \
        const L *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);                                      \
        u32 p = pred_at(w, i->c);                                                                  \
        EACH_LANE(m, { pd[l] = p >> l & 1 ? pa[l] : pb[l]; });                                     \
        return NEXT;                                                                               \
    }
SELECT(selp_32, u32)
SELECT(selp_64, u64)

void dec_selp(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 4, 4);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], t);
    d->in->c = dec_pred(d, &d->op[3], false);
    d->in->fn = type_bytes(t) <= 4 ? selp_32 : type_bytes(t) == 8 ? selp_64 : NULL;
}

static int op_slct(struct warp *w, const struct insn *i, u32 m) {
    const u32 *pc = reg_at(w, i->c);
    FOR_LANES(l, m) {
        bool first = i->n ? num_float(pc[l]) >= 0.0f : (s32)pc[l] >= 0;
        if (i->size == 8)
            ((u64 *)reg_at(w, i->d))[l] = ((const u64 *)reg_at(w, first ? i->a : i->b))[l];
        else
            ((u32 *)reg_at(w, i->d))[l] = ((const u32 *)reg_at(w, first ? i->a : i->b))[l];
    }
    return NEXT;
}
void dec_slct(struct dec *d) {
    enum type t = dec_type(d, 0), c = dec_type(d, 1);
    dec_nops(d, 4, 4);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], t);
    d->in->c = dec_src(d, &d->op[3], c);
    d->in->n = c == T_F32;
    d->in->size = (u8)type_bytes(t);
    d->in->fn = op_slct;
}

static int op_testp(struct warp *w, const struct insn *i, u32 m) {
    u32 r = 0;
    FOR_LANES(l, m) {
        double a = i->size == 8 ? ((const double *)reg_at(w, i->a))[l]
                                : (double)((const float *)reg_at(w, i->a))[l];
        int k = i->size == 8 ? fpclassify(a) : fpclassify((float)a);
        bool t = false;
        switch (i->n) {
        case 0:
            t = k != FP_NAN && k != FP_INFINITE;
            break;
        case 1:
            t = k == FP_INFINITE;
            break;
        case 2:
            t = k != FP_NAN;
            break;
        case 3:
            t = k == FP_NAN;
            break;
        case 4:
            t = k == FP_NORMAL || k == FP_ZERO;
            break;
        default:
            t = k == FP_SUBNORMAL;
            break;
        }
        r |= (u32)t << l;
    }
    pred_set(w, i->d, m, r);
    return NEXT;
}
void dec_testp(struct dec *d) {
    static const char *const names[] = {"finite", "infinite",  "number", "notanumber",
                                        "normal", "subnormal", NULL};
    enum type t = dec_type(d, 0);
    dec_nops(d, 2, 2);
    d->in->d = dec_pred(d, &d->op[0], true);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->n = (u8)dec_one_of(d, names);
    d->in->size = (u8)type_bytes(t);
    d->in->fn = op_testp;
}
