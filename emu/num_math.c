/* num_math.c: arithmetic and approximate functions on the formats of num.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "num.h"
#include <fenv.h>
#include <math.h>

/* --- f32 through round-to-odd double --- */

/* s is the nearest double to s + err exactly: make it the odd neighbour if anything was lost. */
static double to_odd(double s, double err) {
    if (err == 0 || !isfinite(s))
        return s;
    const uint64_t u = num_bits64(s);
    if (u & 1)
        return s;
    const bool away = (err > 0) == !signbit(s); /* the true value lies further from zero */
    return num_double(away ? u + 1 : u - 1);
}

/* a + b in round-to-odd; exact error by Knuth's two-sum. */
static double add_odd(double a, double b) {
    const double s = a + b, t = s - a;
    const double err = (a - (s - t)) + (b - t);
    return to_odd(s, err);
}

static float input(float x, unsigned flags) {
    return (flags & NUM_FTZ) ? num_flush(x) : x;
}

static float finish(double x, enum num_round r, unsigned flags) {
    return num_float(num_from_f64(NUM_F32, x, r, flags));
}

/* A sum that is exactly zero has the sign that the mode asks for: -0 when rounding down. */
static double exact_zero(double a, double b, double s, enum num_round r) {
    if (s != 0 || (a == 0 && b == 0 && signbit(a) == signbit(b)))
        return s;
    return r == NUM_RM ? -0.0 : 0.0;
}

static float quick(float x, unsigned flags) {
    if (flags & NUM_FTZ)
        x = num_flush(x);
    if (flags & NUM_SAT)
        x = x > 0 ? (x < 1 ? x : 1) : 0;
    return num_canon(x);
}

float num_add(float a, float b, enum num_round r, unsigned flags) {
    a = input(a, flags);
    b = input(b, flags);
    if (r == NUM_RN)
        return quick(a + b, flags);
    return finish(exact_zero(a, b, add_odd(a, b), r), r, flags);
}

float num_mul(float a, float b, enum num_round r, unsigned flags) {
    a = input(a, flags);
    b = input(b, flags);
    if (r == NUM_RN)
        return quick(a * b, flags);
    return finish((double)a * b, r, flags);
}

float num_fma(float a, float b, float c, enum num_round r, unsigned flags) {
    a = input(a, flags);
    b = input(b, flags);
    c = input(c, flags);
    if (r == NUM_RN)
        return quick(fmaf(a, b, c), flags);
    const double p = (double)a * b; /* exact */
    return finish(exact_zero(p, c, add_odd(p, c), r), r, flags);
}

float num_div(float a, float b, enum num_round r, unsigned flags) {
    a = input(a, flags);
    b = input(b, flags);
    if (r == NUM_RN)
        return quick(a / b, flags);
    const double q = (double)a / b;
    if (!isfinite(q) || b == 0 || isinf(b))
        return finish(q, r, flags);
    /* The remainder a - q*b has one sign and, with q near a/b, is exact under fma. */
    const double rest = fma(-q, b, a);
    return finish(to_odd(q, (b < 0) ? -rest : rest), r, flags);
}

float num_sqrt(float a, enum num_round r, unsigned flags) {
    a = input(a, flags);
    if (r == NUM_RN)
        return quick(sqrtf(a), flags);
    const double q = sqrt((double)a);
    return finish(isfinite(q) ? to_odd(q, fma(-q, q, (double)a)) : q, r, flags);
}

/* --- f64: the processor's own rounding modes --- */

static int enter(enum num_round r) {
    static const int modes[] = {[NUM_RN] = FE_TONEAREST,
                                [NUM_RZ] = FE_TOWARDZERO,
                                [NUM_RM] = FE_DOWNWARD,
                                [NUM_RP] = FE_UPWARD,
                                [NUM_RNA] = FE_TONEAREST};
    const int old = fegetround();
    fesetround(modes[r]);
    return old;
}

/* volatile keeps the operation between the two changes of mode. */
#define ROUNDED(expr)                                                                              \
    const int old = enter(r);                                                                      \
    volatile double z = (expr);                                                                    \
    fesetround(old);                                                                               \
    return num_canon64(z)

double num_add64(double a, double b, enum num_round r) {
    volatile double x = a, y = b;
    ROUNDED(x + y);
}
double num_mul64(double a, double b, enum num_round r) {
    volatile double x = a, y = b;
    ROUNDED(x * y);
}
double num_fma64(double a, double b, double c, enum num_round r) {
    volatile double x = a, y = b, w = c;
    ROUNDED(fma(x, y, w));
}
double num_div64(double a, double b, enum num_round r) {
    volatile double x = a, y = b;
    ROUNDED(x / y);
}
double num_sqrt64(double a, enum num_round r) {
    volatile double x = a;
    ROUNDED(sqrt(x));
}

/* --- 16-bit formats --- */

static double code_in(enum num_fmt f, uint32_t c, unsigned flags) {
    const double x = num_to_f64(f, c);
    const double least = f == NUM_F16 ? 0x1p-14 : 0x1p-126;
    return (flags & NUM_FTZ) && fabs(x) < least ? copysign(0, x) : x;
}

uint32_t num_add_code(enum num_fmt f, uint32_t a, uint32_t b, unsigned flags) {
    return num_from_f64(f, add_odd(code_in(f, a, flags), code_in(f, b, flags)), NUM_RN, flags);
}

uint32_t num_mul_code(enum num_fmt f, uint32_t a, uint32_t b, unsigned flags) {
    return num_from_f64(f, code_in(f, a, flags) * code_in(f, b, flags), NUM_RN, flags);
}

uint32_t num_fma_code(enum num_fmt f, uint32_t a, uint32_t b, uint32_t c, unsigned flags) {
    const double p = code_in(f, a, flags) * code_in(f, b, flags);
    return num_from_f64(f, add_odd(p, code_in(f, c, flags)), NUM_RN, flags);
}

/* --- min and max --- */

static uint32_t order_key(float x) { /* unsigned order of keys = order of values, -0 below +0 */
    const uint32_t u = num_bits32(x);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static float pick(float a, float b, bool nan, bool xorsign, bool larger) {
    if (nan ? (a != a || b != b) : (a != a && b != b))
        return num_float(NUM_NAN32);
    const uint32_t sign = (num_bits32(a) ^ num_bits32(b)) & 0x80000000u;
    if (xorsign) {
        a = fabsf(a);
        b = fabsf(b);
    }
    const float v = a != a ? b : b != b ? a : (order_key(a) > order_key(b)) == larger ? a : b;
    return xorsign ? num_float((num_bits32(v) & 0x7fffffffu) | sign) : v;
}

float num_min(float a, float b, bool nan, bool xorsign) {
    return pick(a, b, nan, xorsign, false);
}
float num_max(float a, float b, bool nan, bool xorsign) {
    return pick(a, b, nan, xorsign, true);
}

double num_min64(double a, double b) {
    if (a != a)
        return num_canon64(b);
    if (b != b)
        return a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

double num_max64(double a, double b) {
    if (a != a)
        return num_canon64(b);
    if (b != b)
        return a;
    return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

/* --- Approximate functions --- */

enum fn { FN_EX2 = 1, FN_LG2, FN_RCP, FN_RSQRT, FN_SQRT, FN_DIV, FN_SIN, FN_COS, FN_TANH, FN_H };

/* Uniform in [-amount, amount], a function of seed, function and input. */
static double chance(const struct num_perturb *p, enum fn fn, uint64_t x) {
    uint64_t z = p->seed + 0x9e3779b97f4a7c15ull * (x + ((uint64_t)fn << 40) + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return ((double)(z >> 11) * 0x1p-52 - 1) * (double)p->amount;
}

/* v, moved by at most rel*|v| + abs, then rounded.  Rounding itself costs up to half an ulp, which
 * the allowance leaves room for; zeros, infinities and NaNs stay. */
static float vary(double v, double rel, double absolute, unsigned flags,
                  const struct num_perturb *p, enum fn fn, uint64_t x) {
    if (p && p->amount != 0 && isfinite(v) && v != 0) {
        const double room = rel * fabs(v) + absolute - fabs(v) * 0x1p-24;
        if (room > 0)
            v += chance(p, fn, x) * room;
    }
    return num_float(num_from_f64(NUM_F32, v, NUM_RN, flags));
}

/* 2^x for x in [-200, 200]: the fraction in [-1/2, 1/2] by Taylor's polynomial of degree 11, whose
 * remainder is below 2^-44.  Rounded to float this is the correctly rounded value but for about one
 * input in 2^19 (tests/emu/test_num.c counts them). */
static inline double ex2_wide(double c) {
    const double k = (c + 0x1.8p52) - 0x1.8p52, y = (c - k) * 0x1.62e42fefa39efp-1;
    double v = 0x1.ae64567f544e4p-26;
    v = v * y + 0x1.27e4fb7789f5cp-22;
    v = v * y + 0x1.71de3a556c734p-19;
    v = v * y + 0x1.a01a01a01a01ap-16;
    v = v * y + 0x1.a01a01a01a01ap-13;
    v = v * y + 0x1.6c16c16c16c17p-10;
    v = v * y + 0x1.1111111111111p-7;
    v = v * y + 0x1.5555555555555p-5;
    v = v * y + 0x1.5555555555555p-3;
    v = v * y + 0.5;
    v = v * y + 1;
    v = v * y + 1;
    const uint64_t scale = num_bits64(k + 0x1.8p52) + 1023; /* exponent in the low bits */
    return v * num_double(scale << 52);
}

static inline double clamp200(float x) {
    return x > 200 ? 200 : x < -200 ? -200 : (double)x;
}

float num_ex2(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    const double v = x != x ? (double)x : ex2_wide(clamp200(x));
    return vary(v, 0x1p-22, 0, flags, p, FN_EX2, num_bits32(x));
}

float num_lg2(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    const bool near_one = x > 0.5f && x < 2;
    return vary(log2((double)x), near_one ? 0 : 0x1p-22, near_one ? 0x1p-22 : 0, flags, p, FN_LG2,
                num_bits32(x));
}

float num_rcp_approx(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    return vary(1 / (double)x, 0x1p-23, 0, flags, p, FN_RCP, num_bits32(x));
}

float num_rsqrt(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    return vary(1 / sqrt((double)x), 0x1.125p-23, 0, flags, p, FN_RSQRT, num_bits32(x));
}

float num_sqrt_approx(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    return vary(sqrt((double)x), 0x1p-23, 0, flags, p, FN_SQRT, num_bits32(x));
}

float num_div_approx(float a, float b, unsigned flags, const struct num_perturb *p) {
    a = input(a, flags);
    b = input(b, flags);
    /* Divisors of 2^126 and more: the ISA defines 0, or NaN for an infinite dividend. */
    if (fabsf(b) > 0x1p126f && !isinf(b) && b == b)
        return isinf(a) ? num_float(NUM_NAN32)
                        : quick((float)copysign(0, (double)a * b), flags) * (a == a ? 1 : a);
    return vary((double)a / b, 0x1p-22, 0, flags, p, FN_DIV,
                num_bits32(a) ^ (uint64_t)num_bits32(b) << 7);
}

float num_sin(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    return vary(sin((double)x), 0, 0x1.6ap-21, flags, p, FN_SIN, num_bits32(x));
}

float num_cos(float x, unsigned flags, const struct num_perturb *p) {
    x = input(x, flags);
    return vary(cos((double)x), 0, 0x1.6ap-21, flags, p, FN_COS, num_bits32(x));
}

float num_tanh(float x, const struct num_perturb *p) {
    return vary(tanh((double)x), 0x1p-11, 0, 0, p, FN_TANH, num_bits32(x));
}

static uint32_t vary_code(enum num_fmt f, double v, double rel, unsigned flags,
                          const struct num_perturb *p, uint64_t x) {
    if (p && p->amount != 0 && isfinite(v) && v != 0) {
        const double room = rel - (f == NUM_F16 ? 0x1p-11 : 0x1p-8);
        if (room > 0)
            v *= 1 + chance(p, FN_H, x) * room;
    }
    return num_from_f64(f, v, NUM_RN, flags);
}

uint32_t num_ex2_code(enum num_fmt f, uint32_t x, unsigned flags, const struct num_perturb *p) {
    return vary_code(f, exp2(code_in(f, x, flags)), f == NUM_F16 ? 0x1.1p-10 : 0x1p-7, flags, p, x);
}

uint32_t num_tanh_code(enum num_fmt f, uint32_t x, const struct num_perturb *p) {
    return vary_code(f, tanh(num_to_f64(f, x)), f == NUM_F16 ? 0x1.02p-11 : 0x1p-8, 0, p, x);
}

#if defined __x86_64__
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* clang 14 gives clones a symbol of their own: only static functions are cloned. */
CLONES static void ex2_ftz_n(float *restrict dst, const float *restrict src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float x = src[i];
        const double wide = ex2_wide(clamp200(x));
        float f = (float)wide;
        f = f < 0x1p-126f ? 0 : f;
        dst[i] = x == x ? f : num_float(NUM_NAN32);
    }
}

void num_ex2_ftz_n(float *dst, const float *src, size_t n) {
    ex2_ftz_n(dst, src, n);
}
