/* op_float.c: floating-point arithmetic: f32, f64, f16, bf16 and the packed pairs.
 *
 * f32 results that are NaN are the canonical 0x7fffffff (PTX ISA, Floating Point Instructions).
 * Round-to-nearest f32 has fast loops; every other mode goes through double with one rounding.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "num.h"
#include <math.h>

/* A pair of f32 is stored as two floats in a row: the loops run over 64 elements. */
#define EACH_PAIR(m, ...)                                                                          \
    do {                                                                                           \
        if ((m) == ~0u) {                                                                          \
            IVDEP for (u32 l = 0; l < 2 * LANES; l++) __VA_ARGS__                                  \
        } else {                                                                                   \
            FOR_LANES(k_, m) for (u32 l = 2 * k_; l < 2 * k_ + 2; l++) __VA_ARGS__                 \
        }                                                                                          \
    } while (0)

#define FAST2(X) X(vfadd, a + b) X(vfsub, a - b) X(vfmul, a *b)
#define MADE_LOOP(name, loop, in, out, expr)                                                       \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        float *pd = reg_at(w, i->d);                                                               \
        const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);           \
        (void)pc;                                                                                  \
        loop(m, {                                                                                  \
            const float a = in(pa[l]), b = in(pb[l]);                                              \
            pd[l] = num_canon(out(expr));                                                          \
        });                                                                                        \
        return NEXT;                                                                               \
    }
#define KEEP(x) (x)
#define MADE(n, e)                                                                                 \
    MADE_LOOP(n, EACH_LANE, KEEP, KEEP, e)                                                         \
    MADE_LOOP(n##_ftz, EACH_LANE, num_flush, num_flush, e)                                         \
    MADE_LOOP(n##_x2, EACH_PAIR, KEEP, KEEP, e)                                                    \
    MADE_LOOP(n##_x2_ftz, EACH_PAIR, num_flush, num_flush, e)
FAST2(MADE)
MADE_LOOP(vffma, EACH_LANE, KEEP, KEEP, fmaf(a, b, pc[l]))
MADE_LOOP(vffma_x2, EACH_PAIR, KEEP, KEEP, fmaf(a, b, pc[l]))
#undef MADE
static int vffma_ftz_in(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    EACH_LANE(m, {
        pd[l] = num_canon(num_flush(fmaf(num_flush(pa[l]), num_flush(pb[l]), num_flush(pc[l]))));
    });
    return NEXT;
}
static int vffma_x2_ftz_in(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    EACH_PAIR(m, {
        pd[l] = num_canon(num_flush(fmaf(num_flush(pa[l]), num_flush(pb[l]), num_flush(pc[l]))));
    });
    return NEXT;
}

/* --- Any format, any rounding: operation codes --- */

enum fop {
    F_ADD,
    F_SUB,
    F_MUL,
    F_FMA,
    F_DIV,
    F_MIN,
    F_MAX,
    F_NEG,
    F_ABS,
    F_RCP,
    F_SQRT,
    F_RSQRT,
    F_EX2,
    F_LG2,
    F_SIN,
    F_COS,
    F_TANH,
    F_COPYSIGN,
    F_MIN3,
    F_MAX3
};
enum {
    FL_FTZ = NUM_FTZ,
    FL_SAT = NUM_SAT,
    FL_RELU = NUM_RELU,
    FL_NAN = 16,
    FL_XORSIGN = 32,
    FL_APPROX = 64,
    FL_ABS = 128
};

static float minmax(const struct insn *i, float a, float b, bool max) {
    bool nan = i->flags & FL_NAN, xs = i->flags & FL_XORSIGN;
    if (i->flags & FL_ABS)
        a = fabsf(a), b = fabsf(b);
    return max ? num_max(a, b, nan, xs) : num_min(a, b, nan, xs);
}

static float f32_op(struct warp *w, const struct insn *i, float a, float b, float c) {
    const struct num_perturb *p = w->cta->grid->emu->perturb;
    const enum num_round r = (enum num_round)i->n;
    const unsigned fl = i->flags & (NUM_FTZ | NUM_SAT | NUM_RELU), ftz = i->flags & NUM_FTZ;
    const bool apx = i->flags & FL_APPROX;
    switch ((enum fop)i->size) {
    case F_ADD:
        return num_add(a, b, r, fl);
    case F_SUB:
        return num_add(a, -b, r, fl);
    case F_MUL:
        return num_mul(a, b, r, fl);
    case F_FMA:
        return num_fma(a, b, c, r, fl);
    case F_DIV:
        return apx ? num_div_approx(a, b, ftz, p) : num_div(a, b, r, ftz);
    case F_MIN:
        return minmax(i, a, b, false);
    case F_MAX:
        return minmax(i, a, b, true);
    case F_MIN3:
        return minmax(i, minmax(i, a, b, false), c, false);
    case F_MAX3:
        return minmax(i, minmax(i, a, b, true), c, true);
    case F_NEG:
        return num_float(num_bits32(a) ^ 0x80000000u);
    case F_ABS:
        return num_float(num_bits32(a) & 0x7fffffffu);
    case F_RCP:
        return apx ? num_rcp_approx(a, ftz, p) : num_div(1.0f, a, r, ftz);
    case F_SQRT:
        return apx ? num_sqrt_approx(a, ftz, p) : num_sqrt(a, r, ftz);
    case F_RSQRT:
        return num_rsqrt(a, ftz, p);
    case F_EX2:
        return num_ex2(a, ftz, p);
    case F_LG2:
        return num_lg2(a, ftz, p);
    case F_SIN:
        return num_sin(a, ftz, p);
    case F_COS:
        return num_cos(a, ftz, p);
    case F_TANH:
        return num_tanh(a, p);
    case F_COPYSIGN:
        return copysignf(b, a);
    }
    return 0;
}
static float f32_step(struct warp *w, const struct insn *i, float a, float b, float c) {
    if (i->flags & NUM_FTZ)
        a = num_flush(a), b = num_flush(b), c = num_flush(c);
    float r = f32_op(w, i, a, b, c);
    r = i->flags & NUM_FTZ ? num_flush(r) : r;
    return i->size == F_NEG || i->size == F_ABS || i->size == F_COPYSIGN ? r : num_canon(r);
}

static int f32_any(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    FOR_LANES(l, m) pd[l] = f32_step(w, i, pa[l], pb[l], pc[l]);
    return NEXT;
}
static int f32x2_any(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    FOR_LANES(k, m)
    for (u32 l = 2 * k; l < 2 * k + 2; l++)
        pd[l] = f32_step(w, i, pa[l], pb[l], pc[l]);
    return NEXT;
}

/* .approx.ftz.f64 takes and gives 1.11.20 bits, the words below are zero (PTX ISA,
 * rcp.approx.ftz.f64). */
static double f64_gross(double a) {
    u64 bits;
    memcpy(&bits, &a, sizeof bits);
    if (a != a)
        bits = 0x7fffffff00000000;
    else if (!(bits & 0x7ff0000000000000))
        bits &= 1ull << 63;
    bits &= 0xffffffff00000000;
    memcpy(&a, &bits, sizeof a);
    return a;
}

static double f64_op(const struct insn *i, double a, double b, double c) {
    const enum num_round r = (enum num_round)i->n;
    switch ((enum fop)i->size) {
    case F_ADD:
        return num_add64(a, b, r);
    case F_SUB:
        return num_add64(a, -b, r);
    case F_MUL:
        return num_mul64(a, b, r);
    case F_FMA:
        return num_fma64(a, b, c, r);
    case F_DIV:
        return num_div64(a, b, r);
    case F_RCP:
        return i->flags & FL_APPROX ? f64_gross(1.0 / f64_gross(a)) : num_div64(1.0, a, r);
    case F_SQRT:
        return num_sqrt64(a, r);
    case F_RSQRT:
        return i->flags & FL_FTZ ? f64_gross(1.0 / sqrt(f64_gross(a))) : 1.0 / sqrt(a);
    case F_MIN:
        return num_min64(a, b);
    case F_MAX:
        return num_max64(a, b);
    case F_NEG:
        return -a;
    case F_ABS:
        return fabs(a);
    case F_COPYSIGN:
        return copysign(b, a);
    default:
        return 0;
    }
}
static int f64_any(struct warp *w, const struct insn *i, u32 m) {
    double *pd = reg_at(w, i->d);
    const double *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    FOR_LANES(l, m) pd[l] = f64_op(i, pa[l], pb[l], pc[l]);
    return NEXT;
}

/* A code's sign counts for .xorsign also where it is that of a NaN, which f32 would not keep. */
static u32 half_minmax(const struct insn *i, enum num_fmt f, u32 a, u32 b, bool max) {
    float r = minmax(i, num_to_f32(f, a), num_to_f32(f, b), max);
    u32 code = num_from_f64(f, (double)r, NUM_RN, i->flags & (NUM_FTZ | NUM_RELU));
    return i->flags & FL_XORSIGN && r == r ? (code & 0x7fff) | ((a ^ b) & 0x8000) : code;
}

/* A subnormal f16 code as its zero; bf16 has no .ftz. */
static u32 half_flush(const struct insn *i, u32 a) {
    return i->flags & FL_FTZ && !(a & 0x7c00) ? a & 0x8000 : a;
}

static u32 half_op(struct warp *w, const struct insn *i, enum num_fmt f, u32 a, u32 b, u32 c) {
    const struct num_perturb *p = w->cta->grid->emu->perturb;
    const unsigned fl = i->flags & (NUM_FTZ | NUM_SAT | NUM_RELU);
    switch ((enum fop)i->size) {
    case F_ADD:
        return num_add_code(f, a, b, fl);
    case F_SUB:
        return num_add_code(f, a, b ^ 0x8000, fl);
    case F_MUL:
        return num_mul_code(f, a, b, fl);
    case F_FMA:
        return num_fma_code(f, a, b, c, fl);
    case F_MIN:
        return half_minmax(i, f, a, b, false);
    case F_MAX:
        return half_minmax(i, f, a, b, true);
    case F_MIN3:
        return half_minmax(i, f, half_minmax(i, f, a, b, false), c, false);
    case F_MAX3:
        return half_minmax(i, f, half_minmax(i, f, a, b, true), c, true);
    case F_NEG:
        return half_flush(i, a) ^ 0x8000;
    case F_ABS:
        return half_flush(i, a) & 0x7fff;
    case F_EX2:
        return num_ex2_code(f, a, fl, p);
    case F_TANH:
        return num_tanh_code(f, a, p);
    default:
        emu_fault(w, i, "this operation does not exist for 16-bit formats");
    }
}

/* space tells the format; sem counts the elements of a register */
static int half_any(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    const enum num_fmt f = (enum num_fmt)i->space;
    FOR_LANES(l, m) {
        u32 out = half_op(w, i, f, pa[l] & 0xffff, pb[l] & 0xffff, pc[l] & 0xffff);
        if (i->sem == 2)
            out |= half_op(w, i, f, pa[l] >> 16, pb[l] >> 16, pc[l] >> 16) << 16;
        pd[l] = out;
    }
    return NEXT;
}

/* f32 +,-,fma with 16-bit first operands (add.f32.bf16) */
static int mixed_any(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    const float *pc = reg_at(w, i->c);
    const enum num_fmt f = (enum num_fmt)i->space;
    FOR_LANES(l, m) {
        float b = i->size == F_FMA ? num_to_f32(f, pb[l] & 0xffff) : num_float(pb[l]);
        pd[l] = f32_step(w, i, num_to_f32(f, pa[l] & 0xffff), b, pc[l]);
    }
    return NEXT;
}

/* The common case of min and max. */
static int fmax_32(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    EACH_LANE(m, {
        const float a = pa[l], b = pb[l];
        float r = a > b ? a : b; /* b when either is NaN or they are equal */
        r = b != b ? a : r;
        r = (a == b) ? num_float(num_bits32(a) & num_bits32(b)) : r;
        pd[l] = num_canon(r);
    });
    return NEXT;
}
static int fmin_32(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);
    EACH_LANE(m, {
        const float a = pa[l], b = pb[l];
        float r = a < b ? a : b;
        r = b != b ? a : r;
        r = (a == b) ? num_float(num_bits32(a) | num_bits32(b)) : r;
        pd[l] = num_canon(r);
    });
    return NEXT;
}
static int fneg_32(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a);
    EACH_LANE(m, { pd[l] = pa[l] ^ 0x80000000u; });
    return NEXT;
}
static int fabs_32(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    const u32 *pa = reg_at(w, i->a);
    EACH_LANE(m, { pd[l] = pa[l] & 0x7fffffffu; });
    return NEXT;
}
static int fex2_32(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a);
    if (m == ~0u) {
        num_ex2_ftz_n(pd, pa, LANES);
    } else {
        float tmp[LANES];
        num_ex2_ftz_n(tmp, pa, LANES);
        FOR_LANES(l, m) pd[l] = tmp[l];
    }
    return NEXT;
}
static int frcp_32(struct warp *w, const struct insn *i, u32 m) {
    float *pd = reg_at(w, i->d);
    const float *pa = reg_at(w, i->a);
    EACH_LANE(m, { pd[l] = num_canon(num_flush(1.0f / num_flush(pa[l]))); });
    return NEXT;
}

/* --- Decoders --- */

void dec_int_add(struct dec *d, bool sub);
void dec_int_neg(struct dec *d);
void dec_int_abs(struct dec *d);
void dec_int_minmax(struct dec *d, bool max);
void dec_int_div(struct dec *d);
void dec_int_mul(struct dec *d);
void dec_int_mad(struct dec *d, bool with_carry);

static bool is_float(enum type t) {
    return t == T_F16 || t == T_BF16 || t == T_F32 || t == T_F64 || t == T_F16X2 || t == T_BF16X2 ||
           t == T_F32X2;
}

static u32 float_flags(struct dec *d) {
    return (dec_has(d, "ftz") ? FL_FTZ : 0u) | (dec_has(d, "sat") ? FL_SAT : 0u) |
           (dec_has(d, "NaN") ? FL_NAN : 0u) | (dec_has(d, "relu") ? FL_RELU : 0u) |
           (dec_has(d, "approx") || dec_has(d, "full") ? FL_APPROX : 0u) |
           (dec_has(d, "xorsign") ? FL_XORSIGN
            : dec_has(d, "abs")   ? FL_ABS
                                  : 0u);
}

/* General handler of a floating type. */
static void any_float(struct dec *d, enum fop op, u32 nsrc) {
    static const char *const modes[] = {"rn", "rz", "rm", "rp", NULL};
    enum type t = dec_type(d, 0);
    int mode = dec_one_of(d, modes);
    struct insn *in = d->in;
    dec_nops(d, nsrc + 1, nsrc + 1);
    in->size = (u8)op;
    in->n = mode < 0 ? NUM_RN : (u8)mode;
    in->flags = float_flags(d);
    in->d = dec_dst(d, &d->op[0], t);
    in->a = dec_src(d, &d->op[1], t);
    in->b = nsrc > 1 ? dec_src(d, &d->op[2], t) : in->a;
    in->c = nsrc > 2 ? dec_src(d, &d->op[3], t) : in->a;
    in->space = t == T_BF16 || t == T_BF16X2 ? NUM_BF16 : NUM_F16;
    in->sem = t == T_F16X2 || t == T_BF16X2 ? 2 : 1;
    switch (t) {
    case T_F32:
        in->fn = f32_any;
        break;
    case T_F32X2:
        in->fn = f32x2_any;
        break;
    case T_F64:
        in->fn = f64_any;
        break;
    case T_F16:
    case T_BF16:
    case T_F16X2:
    case T_BF16X2:
        in->fn = half_any;
        break;
    default:
        break;
    }
}

/* A fast loop instead of the general handler: plain, ftz, x2, x2 ftz. */
static void prefer(struct dec *d, const handler fast[4]) {
    struct insn *in = d->in;
    enum type t = dec_type(d, 0);
    if (in->n != NUM_RN || (in->flags & ~(u32)FL_FTZ) || (t != T_F32 && t != T_F32X2))
        return;
    handler h = fast[(t == T_F32X2 ? 2 : 0) + (in->flags & FL_FTZ ? 1 : 0)];
    if (h)
        in->fn = h;
}

static bool dec_mixed(struct dec *d, enum fop op) {
    enum type t0 = dec_type(d, 0), t1 = dec_type(d, 1);
    if (t0 != T_F32 || (t1 != T_F16 && t1 != T_BF16))
        return false;
    static const char *const modes[] = {"rn", "rz", "rm", "rp", NULL};
    int mode = dec_one_of(d, modes);
    struct insn *in = d->in;
    dec_nops(d, op == F_FMA ? 4 : 3, op == F_FMA ? 4 : 3);
    in->size = (u8)op;
    in->n = mode < 0 ? NUM_RN : (u8)mode;
    in->flags = float_flags(d);
    in->d = dec_dst(d, &d->op[0], T_F32);
    in->a = dec_src(d, &d->op[1], t1);
    in->b = dec_src(d, &d->op[2], op == F_FMA ? t1 : T_F32);
    in->c = op == F_FMA ? dec_src(d, &d->op[3], T_F32) : in->b;
    in->space = t1 == T_BF16 ? NUM_BF16 : NUM_F16;
    in->fn = mixed_any;
    return true;
}

void dec_add(struct dec *d) {
    static const handler f[4] = {vfadd, vfadd_ftz, vfadd_x2, vfadd_x2_ftz};
    if (!is_float(dec_type(d, 0))) {
        dec_int_add(d, false);
    } else if (!dec_mixed(d, F_ADD)) {
        any_float(d, F_ADD, 2);
        prefer(d, f);
    }
}
void dec_sub(struct dec *d) {
    static const handler f[4] = {vfsub, vfsub_ftz, vfsub_x2, vfsub_x2_ftz};
    if (!is_float(dec_type(d, 0))) {
        dec_int_add(d, true);
    } else if (!dec_mixed(d, F_SUB)) {
        any_float(d, F_SUB, 2);
        prefer(d, f);
    }
}
void dec_mul(struct dec *d) {
    static const handler f[4] = {vfmul, vfmul_ftz, vfmul_x2, vfmul_x2_ftz};
    if (!is_float(dec_type(d, 0))) {
        dec_int_mul(d);
        return;
    }
    any_float(d, F_MUL, 2);
    prefer(d, f);
}
void dec_fma(struct dec *d) {
    static const handler f[4] = {vffma, vffma_ftz_in, vffma_x2, vffma_x2_ftz_in};
    if (dec_mixed(d, F_FMA))
        return;
    any_float(d, F_FMA, 3);
    prefer(d, f);
}
void dec_mad(struct dec *d) {
    if (is_float(dec_type(d, 0)))
        dec_fma(d);
    else
        dec_int_mad(d, false);
}
void dec_div(struct dec *d) {
    if (is_float(dec_type(d, 0)))
        any_float(d, F_DIV, 2);
    else
        dec_int_div(d);
}
static void min_max_dec(struct dec *d, bool max) {
    if (!is_float(dec_type(d, 0))) {
        dec_int_minmax(d, max);
        return;
    }
    bool three = d->nops == 4;
    any_float(d, three ? (max ? F_MAX3 : F_MIN3) : max ? F_MAX : F_MIN, three ? 3 : 2);
    if (dec_type(d, 0) == T_F32 && !d->in->flags && !three)
        d->in->fn = max ? fmax_32 : fmin_32;
}
void dec_min(struct dec *d) {
    min_max_dec(d, false);
}
void dec_max(struct dec *d) {
    min_max_dec(d, true);
}
void dec_neg(struct dec *d) {
    if (!is_float(dec_type(d, 0))) {
        dec_int_neg(d);
        return;
    }
    any_float(d, F_NEG, 1);
    if (dec_type(d, 0) == T_F32 && !d->in->flags)
        d->in->fn = fneg_32;
}
void dec_abs(struct dec *d) {
    if (!is_float(dec_type(d, 0))) {
        dec_int_abs(d);
        return;
    }
    any_float(d, F_ABS, 1);
    d->in->flags &= ~(u32)FL_ABS;
    if (dec_type(d, 0) == T_F32 && !d->in->flags)
        d->in->fn = fabs_32;
}
static bool plain_approx(struct dec *d) {
    return dec_type(d, 0) == T_F32 && d->in->flags == (FL_APPROX | FL_FTZ);
}
static int maybe_perturbed(struct warp *w, const struct insn *i, u32 m, handler fast) {
    return w->cta->grid->emu->perturb ? f32_any(w, i, m) : fast(w, i, m);
}
static int ex2_fast(struct warp *w, const struct insn *i, u32 m) {
    return maybe_perturbed(w, i, m, fex2_32);
}
static int rcp_fast(struct warp *w, const struct insn *i, u32 m) {
    return maybe_perturbed(w, i, m, frcp_32);
}
void dec_rcp(struct dec *d) {
    any_float(d, F_RCP, 1);
    if (plain_approx(d))
        d->in->fn = rcp_fast;
}
void dec_sqrt(struct dec *d) {
    any_float(d, F_SQRT, 1);
}
void dec_rsqrt(struct dec *d) {
    any_float(d, F_RSQRT, 1);
}
void dec_ex2(struct dec *d) {
    any_float(d, F_EX2, 1);
    if (plain_approx(d))
        d->in->fn = ex2_fast;
}
void dec_lg2(struct dec *d) {
    any_float(d, F_LG2, 1);
}
void dec_sin(struct dec *d) {
    any_float(d, F_SIN, 1);
}
void dec_cos(struct dec *d) {
    any_float(d, F_COS, 1);
}
void dec_tanh(struct dec *d) {
    any_float(d, F_TANH, 1);
}
void dec_copysign(struct dec *d) {
    any_float(d, F_COPYSIGN, 2);
}
