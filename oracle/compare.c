/* SPDX-License-Identifier: Apache-2.0
 * The one place with tolerances. They are derived, not tuned: see compare_limits. */
#include "compare.h"

#include "../src/num.h"

#include <stdarg.h>
#include <stdio.h>

/* Half the distance between 1 and the next value: the largest relative rounding error. */
static double unit_of(enum gqa_type type) {
    return type == GQA_F32 ? 0x1p-24 : type == GQA_F16 ? 0x1p-11 : 0x1p-8;
}

/* o = sum_j w[j] v[j], where w = softmax(s), is computed with three kinds of error.
 *
 * 1. Scores. A dot product of D products in any order has an error of a random walk: about
 *    u sqrt(D) of the size of its partial sums, certainly below u * 2 sqrt(D) * A, where u = 2^-24
 *    and A = scale * sum |q k|; scaling, changing base and subtracting the maximum add a few u A,
 *    softcap a few u * softcap. An error ds of a score is a relative error ds of its weight.
 * 2. Weights. exp has a few u; rounding to a 16-bit type a relative error w_unit at most (f32: 0).
 * 3. Sums over L keys: again a random walk, u sqrt(L) relative to the size of partial sums.
 *
 * Each gives every weight a relative error, at most e = ds + w_unit + u (8 + sqrt(L)). Errors of
 * different keys are independent, so their sum is about e * spread, where spread[d] =
 * sqrt(sum_j (w[j] v[j][d])^2): 6 spreads hold for every element of every test. Where weights are
 * equal their errors are equal too and only shift o, by e |o|, if the sum of weights is not rounded
 * the same way. Hence element = e * (|o| + 6 spread). Over a row, the RMS of independent errors is
 * e * rms(spread), doubled because few keys may count, and e * rms(o) again for the shift.
 *
 * Over all rows the RMS error is that of typical, not of greatest errors. Rounding a value to a
 * unit w_unit has an RMS of w_unit / sqrt(3) * sqrt(1/2) = 0.41 w_unit relative to it (uniform
 * error, uniform mantissa), two of them (weights and their shift) at most 0.5 w_unit; a dot
 * product's typical error is that of adding into a sum of its typical size, not A: u A.
 * These make 2e-3 for bf16 weights and up to 5e-6 for float32, as gqa.h promises.
 *
 * Beside an e4m3 cache a weight may be two e4m3 numbers, whose steps are of a fixed size where the
 * weight is small: it is wrong by REF_DUST of the row's largest, or lost whole. That shows where
 * the keys that count have a V of 0 in a dimension; o is then off by dust[d] at most.
 *
 * The output type rounds at the end, by up to out |o|; all by as much if o has few values (one key
 * of an 8-bit type, say).
 *
 * LSE is the logarithm of the sum of weights before any is rounded (gqa.h: sums in float32), so
 * that shards can be merged: wrong by ds and sums, by an exp that need not be better than rounded
 * weights do (a polynomial of degree 3 is off by 8e-5, w_unit / 32 allows 1.2e-4 where bf16 rounds
 * to 4e-3), and by a logarithm of 12 u. */
struct compare_limits compare_limits(const struct ref *ref, int64_t at, int head_dim,
                                     double softcap, enum gqa_type weights, bool dust,
                                     enum gqa_type out) {
    const double u = 0x1p-24, keys = (double)ref->keys[at], a = ref->score[at] + softcap;
    const double w_unit = weights == GQA_F32 ? 0 : unit_of(weights);
    const double ds = u * (2 * sqrt(head_dim) + 8) * a;
    const double sums = u * (8 + sqrt(keys));
    const double e = ds + w_unit + sums;
    const double lse = fabs(ref->lse[at]);
    return (struct compare_limits){
        .element = e,
        .dust = dust,
        .row = 2 * e,
        .all = 0.5 * w_unit + u * (8 + 0.5 * sqrt(keys) + 2 * a),
        .out = unit_of(out),
        .least = out == GQA_F16 ? 0x1p-25 : 0x1p-120,
        .most = out == GQA_F16 ? 65520 : 3.39e38,
        .lse = ds + sums + w_unit / 32 + 12 * u * (isfinite(lse) ? 1 + lse : 0),
    };
}

/* --- One row --- */

/* The reference as its output type would hold it: infinite beyond the type's range. */
static double in_range(double expected, const struct compare_limits *limits) {
    return fabs(expected) > limits->most ? copysign(INFINITY, expected) : expected;
}

struct sums {
    double error2, ref2, all2; /* squares: of errors, of the reference, of allowed errors */
    double row_error2, row_o2, row_spread2, row_dust2;
    int64_t elements;
};

/* The first wrong thing stays; `d` < 0: about the whole row. */
__attribute__((format(printf, 5, 6))) static void
wrong(struct compare_result *r, const struct ref *ref, int64_t at, int d, const char *format, ...) {
    char what[160], dim[24] = "";
    va_list args;
    if (!r->ok)
        return;
    r->ok = false;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const int64_t row = at / ref->q_heads;
    if (d >= 0)
        snprintf(dim, sizeof dim, ", dim %d", d);
    snprintf(r->message, sizeof r->message,
             "%s; row %lld (batch %d, query token %d), q_head %lld%s, %lld keys", what,
             (long long)row, (int)ref->owner[2 * row], (int)ref->owner[2 * row + 1],
             (long long)(at % ref->q_heads), dim, (long long)ref->keys[at]);
}

static bool same_kind(double a, double b) {
    return isnan(a) ? isnan(b) : isinf(a) ? a == b : isfinite(b);
}

/* NaN and infinities of o and lse stand exactly where the reference has them. */
static void compare_kinds(const struct ref *ref, int64_t at, const struct compare_limits *limits,
                          enum gqa_type type, const void *o, int64_t o_at, const float *lse,
                          struct compare_result *r) {
    for (int d = 0; r->ok && d < ref->head_dim_v; d++) {
        const double expected = in_range(ref->o[at * ref->head_dim_v + d], limits);
        const double got = (double)num_load(type, o, o_at + d);
        if (!same_kind(got, expected))
            wrong(r, ref, at, d, "o is %g, expected %g", got, expected);
    }
    if (r->ok && lse && !same_kind((double)*lse, ref->lse[at]))
        wrong(r, ref, at, -1, "lse is %g, expected %g", (double)*lse, ref->lse[at]);
}

/* `o` points at the row's first element, `lse` (or NULL) at its LSE; their kinds are right. */
static void compare_row(const struct ref *ref, int64_t at, const struct compare_limits *limits,
                        enum gqa_type type, const void *o, int64_t o_at, const float *lse,
                        struct sums *sums, struct compare_result *r) {
    sums->row_error2 = sums->row_o2 = sums->row_spread2 = sums->row_dust2 = 0;
    for (int d = 0; d < ref->head_dim_v; d++) {
        const double spread = ref->spread[at * ref->head_dim_v + d];
        const double expected = in_range(ref->o[at * ref->head_dim_v + d], limits);
        const double got = (double)num_load(type, o, o_at + d);
        if (!isfinite(expected))
            continue;
        const double dust = limits->dust * ref->dust[at * ref->head_dim_v + d];
        const double bound = !ref->keys[at]
                                 ? 0
                                 : limits->element * (fabs(expected) + 6 * spread) +
                                       limits->out * fabs(expected) + dust + limits->least;
        const double error = fabs(got - expected);
        if (error > bound)
            wrong(r, ref, at, d, "o is %.9g, expected %.9g +- %.3g", got, expected, bound);
        r->max_error = fmax(r->max_error, error);
        r->used = bound > 0 ? fmax(r->used, error / bound) : r->used;
        sums->row_error2 += error * error;
        sums->row_o2 += expected * expected;
        sums->row_spread2 += spread * spread;
        sums->row_dust2 += dust * dust;
    }
    if (!lse)
        return;
    const double got = (double)*lse, expected = ref->lse[at], error = fabs(got - expected);
    if (error > limits->lse)
        wrong(r, ref, at, -1, "lse is %.9g, expected %.9g +- %.3g", got, expected, limits->lse);
    r->lse_error = isfinite(error) ? fmax(r->lse_error, error) : r->lse_error;
}

/* After compare_row: the RMS of the row, and its part in the RMS of all. */
static void compare_row_rms(const struct ref *ref, int64_t at, const struct compare_limits *limits,
                            struct sums *sums, struct compare_result *r) {
    const double n = ref->head_dim_v, rms = sqrt(sums->row_error2 / n);
    const double o = sqrt(sums->row_o2 / n), spread = sqrt(sums->row_spread2 / n);
    const double least = limits->least + sqrt(sums->row_dust2 / n);
    const double bound = limits->row * (o + spread) + limits->out * o + least;
    const double typical = limits->all * hypot(o, spread) + limits->out * o + least;
    if (!(rms <= bound))
        wrong(r, ref, at, -1, "o of this row has an RMS error of %.3g, expected at most %.3g", rms,
              bound);
    sums->error2 += sums->row_error2;
    sums->ref2 += sums->row_o2;
    sums->all2 += typical * typical * n;
    sums->elements += ref->head_dim_v;
}

/* Typical errors need many of them: the RMS over fewer elements than this is not judged. */
enum { ENOUGH = 4096 };

static void finish(const struct sums *sums, struct compare_result *r) {
    r->rms_error = sums->ref2 > 0 ? sqrt(sums->error2 / sums->ref2) : 0;
    if (r->ok && sums->elements >= ENOUGH && !(sums->error2 <= sums->all2)) {
        r->ok = false;
        snprintf(r->message, sizeof r->message,
                 "the RMS error of all of o is %.3g of its RMS, expected at most %.3g",
                 r->rms_error, sqrt(sums->all2 / sums->ref2));
    }
}

/* --- Decode and merge --- */

/* What gqa.h lets a backend round softmax weights to. */
static enum gqa_type weights_of(const struct gqa_problem *p) {
    if (p->precision == GQA_PRECISION_EXACT || p->kv_type == GQA_F32)
        return GQA_F32;
    return p->kv_type == GQA_F16 ? GQA_F16 : GQA_BF16;
}

static bool may_have_dust(const struct gqa_problem *p) {
    return p->kv_type == GQA_E4M3 && p->precision == GQA_PRECISION_FAST;
}

/* Where element `at` of an output is, and what it may be. */
struct output {
    enum gqa_type type;
    const void *o;
    int64_t o_at;
    const float *lse;
    struct compare_limits limits;
};

static struct output decode_output(const struct gqa_problem *p, const struct gqa_tensors *t,
                                   const struct ref *ref, int64_t at) {
    const int64_t row = at / ref->q_heads;
    const int head = (int)(at % ref->q_heads);
    return (struct output){
        .type = p->o_type,
        .o = t->o,
        .o_at = ref_row_offset(p, &p->o, row, head),
        .lse = p->has_lse ? t->lse + ref_row_offset(p, &p->lse, row, head) : NULL,
        .limits = compare_limits(ref, at, p->head_dim, (double)p->softcap, weights_of(p),
                                 may_have_dust(p), p->o_type),
    };
}

static struct output merge_output(const struct gqa_shards *m, const struct ref *ref, int64_t at) {
    return (struct output){
        .type = m->o_type,
        .o = m->o,
        .o_at = at * ref->head_dim_v,
        .lse = m->lse ? m->lse + at : NULL,
        .limits = compare_limits(ref, at, 1, 0, GQA_F32, false, m->o_type),
    };
}

/* Twice over all rows: kinds first, then values. Exactly one of p and m is not NULL. */
static void compare(const struct gqa_problem *p, const struct gqa_tensors *t,
                    const struct gqa_shards *m, const struct ref *ref, struct compare_result *r) {
    struct sums sums = {0};
    *r = (struct compare_result){.ok = true};
    for (int pass = 0; pass < 2; pass++)
        for (int64_t at = 0; at < ref->rows * ref->q_heads && (pass || r->ok); at++) {
            if (ref->owner[2 * (at / ref->q_heads)] < 0)
                continue;
            const struct output x = p ? decode_output(p, t, ref, at) : merge_output(m, ref, at);
            if (pass == 0) {
                compare_kinds(ref, at, &x.limits, x.type, x.o, x.o_at, x.lse, r);
                continue;
            }
            compare_row(ref, at, &x.limits, x.type, x.o, x.o_at, x.lse, &sums, r);
            compare_row_rms(ref, at, &x.limits, &sums, r);
        }
    finish(&sums, r);
}

void compare_decode(const struct gqa_problem *p, const struct gqa_tensors *t, const struct ref *ref,
                    struct compare_result *result) {
    compare(p, t, NULL, ref, result);
}

void compare_merge(const struct gqa_shards *m, const struct ref *ref,
                   struct compare_result *result) {
    compare(NULL, NULL, m, ref, result);
}
