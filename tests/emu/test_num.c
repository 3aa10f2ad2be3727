/* test_num.c: number formats against tables that are enumerated and searched, not computed with the
 * code under test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "num.h"
#include "unit.h"
#include <fenv.h>
#include <math.h>

/* --- Reference: the value of a code from the definition of the format --- */

struct def {
    enum num_fmt f;
    int e, m, bias;
    int kind; /* 0: IEEE (inf, NaN)  1: only all-ones is NaN  2: finite only */
    bool has_sign;
};
static const struct def defs[] = {
    {NUM_F16, 5, 10, 15, 0, true}, {NUM_BF16, 8, 7, 127, 0, true}, {NUM_TF32, 8, 10, 127, 0, true},
    {NUM_E4M3, 4, 3, 7, 1, true},  {NUM_E5M2, 5, 2, 15, 0, true},  {NUM_E2M3, 2, 3, 1, 2, true},
    {NUM_E3M2, 3, 2, 3, 2, true},  {NUM_E2M1, 2, 1, 1, 2, true},
};
enum { DEFS = sizeof defs / sizeof defs[0] };

static double def_value(const struct def *d, uint32_t c) { /* c without sign */
    const int e = (int)(c >> d->m), frac = (int)(c & ((1u << d->m) - 1));
    const int all = (1 << d->e) - 1;
    if (d->kind == 0 && e == all)
        return frac ? NAN : INFINITY;
    if (d->kind == 1 && e == all && frac == (1 << d->m) - 1)
        return NAN;
    const double f = (double)frac / (1 << d->m);
    return e ? pow(2, e - d->bias) * (1 + f) : pow(2, 1 - d->bias) * f;
}

/* The code of |x| rounded: search in the list of finite magnitudes; one beyond the last is the
 * value the next step would have, so that overflow is decided as IEEE 754 says. */
static uint32_t def_round(const struct def *d, double x, enum num_round r, unsigned flags) {
    const bool neg = signbit(x) != 0;
    const uint32_t codes = 1u << (d->e + d->m);
    uint32_t last = codes - 1;
    while (!isfinite(def_value(d, last)))
        last--;
    const uint32_t sign = neg ? codes : 0;
    const uint32_t nan = d->kind == 2 ? last : codes - 1;
    if (isnan(x))
        return nan;
    const double a = fabs(x);
    const uint32_t over = (flags & NUM_SATFINITE) || d->kind == 2 ? last
                          : d->kind == 1                          ? codes - 1
                                                                  : last + 1;
    if (isinf(a))
        return over | sign;
    uint32_t lo = 0, hi = last;
    while (lo < hi) { /* greatest code with value <= a */
        const uint32_t mid = (lo + hi + 1) / 2;
        if (def_value(d, mid) <= a)
            lo = mid;
        else
            hi = mid - 1;
    }
    const double v = def_value(d, lo);
    if (v == a)
        return lo | sign;
    const double next = lo < last ? def_value(d, lo + 1) : 2 * v - def_value(d, lo - 1);
    const double below = a - v, above = next - a; /* exact here: x has few bits (see callers) */
    bool up = false;
    if (r == NUM_RN)
        up = below > above || (below == above && (lo & 1));
    else if (r == NUM_RNA)
        up = below >= above;
    else if (r == NUM_RP)
        up = !neg;
    else if (r == NUM_RM)
        up = neg;
    if (!up)
        return lo | sign;
    return (lo < last ? lo + 1 : over) | sign;
}

static uint32_t shown(const struct def *d, uint32_t code) {
    return d->f == NUM_TF32 ? code >> 13 : code;
}

static void test_decode(void) {
    for (int i = 0; i < DEFS; i++) {
        const struct def *d = &defs[i];
        const uint32_t codes = 1u << (d->e + d->m);
        for (uint32_t c = 0; c < 2 * codes; c++) {
            double want = def_value(d, c & (codes - 1));
            want = c >= codes ? -want : want;
            const uint32_t code = d->f == NUM_TF32 ? c << 13 : c;
            const double got = num_to_f64(d->f, code);
            CHECK(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want),
                  "%s code %x: %g, want %g", num_name(d->f), c, got, want);
            const float narrow = num_to_f32(d->f, code);
            CHECK(isnan(want) ? isnan(narrow) : (double)narrow == want, "%s code %x to f32",
                  num_name(d->f), c);
        }
    }
    CHECK(num_to_f64(NUM_UE8M0, 0) == 0x1p-127 && num_to_f64(NUM_UE8M0, 254) == 0x1p127 &&
              isnan(num_to_f64(NUM_UE8M0, 255)),
          "ue8m0");
}

static void check_round(const struct def *d, double x) {
    for (int r = NUM_RN; r <= NUM_RNA; r++)
        for (unsigned flags = 0; flags <= NUM_SATFINITE; flags += NUM_SATFINITE) {
            const uint32_t got = shown(d, num_from_f64(d->f, x, (enum num_round)r, flags));
            const uint32_t want = def_round(d, x, (enum num_round)r, flags);
            CHECK(got == want, "%s %a mode %d flags %u: %x, want %x", num_name(d->f), x, r, flags,
                  got, want);
        }
}

static void test_round(void) {
    for (int i = 0; i < DEFS; i++) {
        const struct def *d = &defs[i];
        const uint32_t codes = 1u << (d->e + d->m);
        const uint32_t step = codes > 40000 ? 97 : codes > 4096 ? 41 : 1;
        for (uint32_t c = 0; c + 1 < codes; c += c < 64 || c + 64 > codes ? 1 : step) {
            const double v = def_value(d, c), w = def_value(d, c + 1);
            if (!isfinite(v))
                continue;
            const double next = isfinite(w) ? w : 2 * v - def_value(d, c - 1);
            const double at[] = {0, 0.25, 0.4999, 0.5, 0.5001, 0.75, 1};
            for (size_t k = 0; k < sizeof at / sizeof at[0]; k++) {
                const double x = v + at[k] * (next - v);
                check_round(d, x);
                check_round(d, -x);
            }
        }
        const double special[] = {0, INFINITY, NAN, 1e300, 1e-300, 0x1p-1074, 0x1p-149};
        for (size_t k = 0; k < sizeof special / sizeof special[0]; k++) {
            check_round(d, special[k]);
            check_round(d, -special[k]);
        }
    }
}

/* f32 as a target: the processor's own conversion under each rounding mode. */
static void test_round_f32(void) {
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    for (int n = 0; n < 50000; n++) {
        uint64_t u = (uint64_t)unit_random() << 32 | unit_random();
        if (n & 1) /* near the range of f32, subnormals included */
            u = (u & 0x800fffffffffffffull) | (uint64_t)(1023 - 155 + unit_random() % 290) << 52;
        const double x = num_double(u);
        for (int r = NUM_RN; r <= NUM_RP; r++) {
            fesetround(modes[r]);
            volatile double v = x;
            volatile float want = (float)v;
            fesetround(FE_TONEAREST);
            const float got = num_float(num_from_f64(NUM_F32, x, (enum num_round)r, 0));
            CHECK(isnan(x) ? num_bits32(got) == NUM_NAN32 : num_bits32(got) == num_bits32(want),
                  "%a mode %d: %a, want %a", x, r, (double)got, (double)want);
        }
    }
}

static void test_modifiers(void) {
    CHECK(num_from_f64(NUM_F16, -1, NUM_RN, NUM_RELU) == 0, "relu");
    CHECK(num_from_f64(NUM_F16, -0.0, NUM_RN, NUM_RELU) == 0, "relu of -0");
    CHECK(num_from_f64(NUM_F16, NAN, NUM_RN, NUM_RELU) == 0x7fff, "relu of NaN");
    CHECK(num_from_f64(NUM_F32, NAN, NUM_RN, NUM_SAT) == 0, "sat of NaN");
    CHECK(num_from_f64(NUM_F32, -3, NUM_RN, NUM_SAT) == 0, "sat of -3");
    CHECK(num_from_f64(NUM_F32, 3, NUM_RN, NUM_SAT) == 0x3f800000, "sat of 3");
    CHECK(num_from_f64(NUM_F32, -0x1p-130, NUM_RN, NUM_FTZ) == 0x80000000, "ftz keeps the sign");
    CHECK(num_from_f64(NUM_E4M3, 464, NUM_RN, 0) == 0x7e, "464 is a tie, to even: 448");
    CHECK(num_from_f64(NUM_E4M3, 464.001, NUM_RN, 0) == 0x7f, "above the tie: NaN");
    CHECK(num_from_f64(NUM_E4M3, INFINITY, NUM_RN, NUM_SATFINITE) == 0x7e, "satfinite of inf");
    CHECK(num_from_f64(NUM_E5M2, -INFINITY, NUM_RN, NUM_SATFINITE) == 0xfb, "satfinite of -inf");
    CHECK(num_from_f64(NUM_UE8M0, 3, NUM_RZ, 0) == 128, "ue8m0 of 3 down");
    CHECK(num_from_f64(NUM_UE8M0, 3, NUM_RP, 0) == 129, "ue8m0 of 3 up");
    CHECK(num_from_f64(NUM_UE8M0, -4, NUM_RP, 0) == 129, "ue8m0 takes the magnitude");
    CHECK(num_from_f64(NUM_UE8M0, 0x1.8p127, NUM_RP, NUM_SATFINITE) == 254, "ue8m0 satfinite");
    CHECK(num_from_f64(NUM_UE8M0, 0x1.8p127, NUM_RP, 0) == 255, "ue8m0 overflow");
    CHECK(num_from_f64(NUM_UE8M0, 0, NUM_RZ, 0) == 0, "ue8m0 of 0");
    /* .rs: 1 + 1/4 of the last place goes up for a quarter of the random words. */
    long up = 0;
    for (uint32_t k = 0; k < 1024; k++)
        up += num_from_f64_rs(NUM_BF16, 1 + 0x1p-9, k << 22, 0) == 0x3f81;
    CHECK(up == 256, "rs went up %ld of 1024 times", up);
}

static void test_fast_paths(void) {
    for (uint64_t u = 0; u < 0x100000000ull; u += 16411) {
        const float x = num_float((uint32_t)u);
        CHECK(num_f32_bf16(x) == num_from_f64(NUM_BF16, (double)x, NUM_RN, 0), "bf16 of %a",
              (double)x);
        CHECK(num_f32_f16(x) == num_from_f64(NUM_F16, (double)x, NUM_RN, 0), "f16 of %a",
              (double)x);
    }
    uint16_t all[65536];
    static float out[65536];
    for (uint32_t c = 0; c < 65536; c++)
        all[c] = (uint16_t)c;
    num_unpack(NUM_F16, all, out, 65536);
    for (uint32_t c = 0; c < 65536; c++) {
        const float want = num_to_f32(NUM_F16, c);
        CHECK(isnan(want) ? isnan(out[c]) : num_bits32(out[c]) == num_bits32(want), "f16 %x", c);
    }
    num_unpack(NUM_BF16, all, out, 65536);
    for (uint32_t c = 0; c < 65536; c++)
        CHECK(num_bits32(out[c]) == c << 16, "bf16 %x", c);
    uint8_t bytes[256];
    for (uint32_t c = 0; c < 256; c++)
        bytes[c] = (uint8_t)c;
    const enum num_fmt small[] = {NUM_E4M3, NUM_E5M2};
    for (int k = 0; k < 2; k++) {
        num_unpack(small[k], bytes, out, 256);
        for (uint32_t c = 0; c < 256; c++) {
            const float want = num_to_f32(small[k], c);
            CHECK(isnan(want) ? isnan(out[c]) : out[c] == want, "%s %x", num_name(small[k]), c);
        }
    }
}

static void test_integers(void) {
    CHECK(num_to_int(2.5, NUM_RN, true, 32, false) == 2, "2.5 to even");
    CHECK(num_to_int(-2.5, NUM_RM, true, 32, false) == 0xfffffffdu, "-2.5 down");
    CHECK(num_to_int(3e9, NUM_RZ, true, 32, false) == 0x7fffffffu, "clamp");
    CHECK(num_to_int(-3e9, NUM_RZ, true, 32, false) == 0x80000000u, "clamp below");
    CHECK(num_to_int(-1, NUM_RZ, false, 32, false) == 0, "unsigned of -1");
    CHECK(num_to_int(300, NUM_RZ, false, 8, false) == 255, "u8");
    CHECK(num_to_int(1e30, NUM_RZ, false, 64, false) == ~0ull, "u64");
    CHECK(num_to_int(1e30, NUM_RZ, true, 64, false) == ~0ull >> 1, "s64");
    CHECK(num_to_int(NAN, NUM_RZ, true, 32, false) == 0, "NaN from f32");
    CHECK(num_to_int(NAN, NUM_RZ, true, 32, true) == 0x80000000u, "NaN from f64");
    CHECK(num_to_int(NAN, NUM_RZ, true, 64, false) == 1ull << 63, "NaN to s64");
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    for (int n = 0; n < 30000; n++) {
        const uint64_t v = ((uint64_t)unit_random() << 32 | unit_random()) >> (unit_random() % 64);
        const uint64_t w = n & 1 ? v : 0 - v;
        for (int r = 0; r < 4; r++) {
            fesetround(modes[r]);
            volatile uint64_t a = w;
            volatile int64_t b = (int64_t)w;
            volatile float fu = (float)a, fs = (float)b;
            volatile double ds = (double)b;
            fesetround(FE_TONEAREST);
            CHECK(num_int_f32(w, false, (enum num_round)r) == fu, "u64 %" PRIx64 " mode %d", w, r);
            CHECK(num_int_f32(w, true, (enum num_round)r) == fs, "s64 %" PRIx64 " mode %d", w, r);
            CHECK(num_int_f64(w, true, (enum num_round)r) == ds, "s64 %" PRIx64 " mode %d f64", w,
                  r);
        }
    }
}

static float random_f32(int n) {
    uint32_t u = unit_random();
    if (n % 3 == 0) /* close exponents: cancellation and ties */
        u = (u & 0x807fffffu) | (125 + u % 5) << 23;
    if (n % 7 == 0)
        u &= 0xfff00000u;
    if (n % 11 == 0)
        u &= 0x80ffffffu;
    return num_float(u);
}

static void test_arithmetic(void) {
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    for (int n = 0; n < 40000; n++) {
        const float a = random_f32(n), b = random_f32(n / 2), c = random_f32(n / 3);
        for (int r = 0; r < 4; r++) {
            fesetround(modes[r]);
            volatile float x = a, y = b, z = c;
            volatile float want[5] = {x + y, x * y, fmaf(x, y, z), x / y, sqrtf(x)};
            fesetround(FE_TONEAREST);
            const enum num_round m = (enum num_round)r;
            const float got[5] = {num_add(a, b, m, 0), num_mul(a, b, m, 0), num_fma(a, b, c, m, 0),
                                  num_div(a, b, m, 0), num_sqrt(a, m, 0)};
            for (int k = 0; k < 5; k++)
                CHECK(isnan(want[k]) ? num_bits32(got[k]) == NUM_NAN32
                                     : num_bits32(got[k]) == num_bits32(want[k]),
                      "op %d mode %d of %a %a %a: %a, want %a", k, r, (double)a, (double)b,
                      (double)c, (double)got[k], (double)want[k]);
        }
    }
    CHECK(num_bits32(num_add(1, -1, NUM_RM, 0)) == 0x80000000u, "1 - 1 rounding down is -0");
    CHECK(num_bits32(num_add(0x1p-130f, 0, NUM_RN, NUM_FTZ)) == 0, "ftz input");
    CHECK(num_bits32(num_mul(-0x1p-100f, 0x1p-40f, NUM_RN, NUM_FTZ)) == 0x80000000u, "ftz result");
    CHECK(num_add64(1, 0x1p-60, NUM_RP) == 1 + 0x1p-52 && num_add64(1, 0x1p-60, NUM_RZ) == 1,
          "f64");
    CHECK(num_fma64(0x1p-600, 0x1p-600, 1, NUM_RP) == 1 + 0x1p-52, "fma f64 up");
}

/* 16-bit fma: exact value as a long double where it fits 64 bits of significand, otherwise skip. */
static void test_narrow_arithmetic(void) {
    const struct def *const d[2] = {&defs[0], &defs[1]};
    for (int n = 0; n < 60000; n++) {
        const struct def *t = d[n & 1];
        const uint32_t a = unit_random() & 0xffff, b = unit_random() & 0xffff;
        uint32_t c = unit_random() & 0xffff;
        const double x = num_to_f64(t->f, a), y = num_to_f64(t->f, b), z = num_to_f64(t->f, c);
        const double p = x * y;
        if (!isfinite(p) || !isfinite(z) || p == 0 || z == 0)
            continue;
        if (abs(ilogb(p) - ilogb(z)) > 30)
            continue;
        const double s = p + z; /* at most 30 + 22 bits: exact */
        if (s == 0)
            continue;
        const uint32_t want = def_round(t, s, NUM_RN, 0), got = num_fma_code(t->f, a, b, c, 0);
        CHECK(got == want, "%s fma %x %x %x: %x, want %x", num_name(t->f), a, b, c, got, want);
        CHECK(num_mul_code(t->f, a, b, 0) == def_round(t, p, NUM_RN, 0), "mul %x %x", a, b);
        const double q = x + z;
        if (abs(ilogb(x) - ilogb(z)) < 30 && q != 0)
            CHECK(num_add_code(t->f, a, c, 0) == def_round(t, q, NUM_RN, 0), "add %x %x", a, c);
    }
    /* A far addend decides a tie: 1.5 + 3 * 2^-8 lies between two bf16 values. */
    CHECK(num_fma_code(NUM_BF16, 0x3f81, 0x3fc0, 0, 0) == 0x3fc2, "a tie goes to even");
    CHECK(num_fma_code(NUM_BF16, 0x3f81, 0x3fc0, 0xa180, 0) == 0x3fc1, "less 2^-60 goes down");
    CHECK(num_fma_code(NUM_BF16, 0x4300, 0x3f80, 0x3f00, 0) == 0x4300, "128.5 is a tie to even");
    CHECK(num_fma_code(NUM_BF16, 0x4301, 0x3f80, 0x3f00, 0) == 0x4302, "129.5 is a tie to even");
}

static void test_min_max(void) {
    const float nan = num_float(0x7fc00001);
    CHECK(num_bits32(num_min(0.0f, -0.0f, false, false)) == 0x80000000u, "min of zeros");
    CHECK(num_bits32(num_max(-0.0f, 0.0f, false, false)) == 0, "max of zeros");
    CHECK(num_max(nan, 1, false, false) == 1 && num_min(1, nan, false, false) == 1, "one NaN");
    CHECK(num_bits32(num_max(nan, 1, true, false)) == NUM_NAN32, "max.NaN");
    CHECK(num_bits32(num_max(nan, nan, false, false)) == NUM_NAN32, "two NaNs");
    CHECK(num_max(-3, 2, false, true) == -3 && num_min(-3, -2, false, true) == 2, "xorsign.abs");
    CHECK(num_min64(NAN, 2) == 2 && num_max64(1, 2) == 2 && signbit(num_min64(0, -0.0)), "f64");
}

struct approx {
    const char *name;
    float (*fn)(float, unsigned, const struct num_perturb *);
    double (*exact)(double);
    double lo, hi, rel, absolute;
};
static double ref_rcp(double x) {
    return 1 / x;
}
static double ref_rsqrt(double x) {
    return 1 / sqrt(x);
}

static void test_approx(void) {
    static const struct approx list[] = {
        {"ex2", num_ex2, exp2, -126, 127, 0x1p-22, 0},
        {"lg2 near one", num_lg2, log2, 0.5001, 1.9999, 0, 0x1p-22},
        {"lg2", num_lg2, log2, 2, 1e30, 0x1p-22, 0},
        {"rcp", num_rcp_approx, ref_rcp, 1e-30, 1e30, 0x1p-23, 0},
        {"rsqrt", num_rsqrt, ref_rsqrt, 1e-30, 1e30, 0x1.13p-23, 0},
        {"sqrt", num_sqrt_approx, sqrt, 1e-30, 1e30, 0x1p-23, 0},
        {"sin", num_sin, sin, -3.14, 3.14, 0, 0x1.6bp-21},
        {"cos", num_cos, cos, -3.14, 3.14, 0, 0x1.6bp-21},
    };
    const struct num_perturb on = {.seed = 7, .amount = 1};
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
        const struct approx *t = &list[k];
        long moved = 0;
        double worst = 0;
        for (int n = 0; n < 10000; n++) {
            const double u = unit_random() * 0x1p-32;
            const float x =
                (float)(t->hi > 1e20 ? t->lo * pow(t->hi / t->lo, u) : t->lo + u * (t->hi - t->lo));
            const double want = t->exact((double)x);
            const float exact = t->fn(x, NUM_FTZ, NULL), varied = t->fn(x, NUM_FTZ, &on);
            const double room = t->rel * fabs(want) + t->absolute;
            CHECK(fabs((double)exact - want) <= fabs(want) * 0x1.0001p-24, "%s(%a)", t->name,
                  (double)x);
            CHECK(fabs((double)varied - want) <= room, "%s(%a) leaves its bound", t->name,
                  (double)x);
            CHECK(varied == t->fn(x, NUM_FTZ, &on), "%s is a function", t->name);
            moved += varied != exact;
            const double e = fabs((double)varied - want) / room;
            worst = e > worst ? e : worst;
        }
        CHECK(moved > 400, "%s moved %ld of 10000", t->name, moved);
        CHECK(worst > 0.7, "%s uses %g of its bound", t->name, worst);
    }
    for (int n = 0; n < 20000; n++) {
        const float x = (float)(unit_random() * 0x1p-28 - 8);
        CHECK(fabs((double)num_tanh(x, &on) - tanh((double)x)) <= 0x1p-11 * fabs(tanh((double)x)),
              "tanh %a", (double)x);
        const uint32_t h = num_f32_f16(x);
        const double v = num_to_f64(NUM_F16, num_ex2_code(NUM_F16, h, 0, &on));
        const double w = exp2(num_to_f64(NUM_F16, h));
        CHECK(fabs(v - w) <= 0x1.12p-10 * w, "ex2 f16 %x", h);
    }
}

static void test_approx_special(void) {
    const float inf = INFINITY;
    CHECK(num_ex2(-inf, 0, NULL) == 0 && num_ex2(inf, 0, NULL) == inf && num_ex2(0, 0, NULL) == 1,
          "ex2");
    CHECK(num_bits32(num_ex2(NAN, 0, NULL)) == NUM_NAN32, "ex2 NaN");
    CHECK(num_ex2(-130, 0, NULL) == 0x1p-130f && num_ex2(-130, NUM_FTZ, NULL) == 0,
          "ex2 subnormal");
    CHECK(num_ex2(-149, 0, NULL) == 0x1p-149f && num_ex2(-151, 0, NULL) == 0, "ex2 least");
    CHECK(num_ex2(128, 0, NULL) == inf, "ex2 overflow");
    CHECK(num_lg2(0, 0, NULL) == -inf && num_lg2(inf, 0, NULL) == inf, "lg2");
    CHECK(num_bits32(num_lg2(-1, 0, NULL)) == NUM_NAN32, "lg2 of a negative");
    CHECK(num_lg2(0x1p-130f, NUM_FTZ, NULL) == -inf, "lg2 ftz");
    CHECK(num_rcp_approx(0, 0, NULL) == inf && num_rcp_approx(-0.0f, 0, NULL) == -inf, "rcp");
    CHECK(num_bits32(num_rcp_approx(-inf, 0, NULL)) == 0x80000000u, "rcp -inf");
    CHECK(num_rsqrt(0, 0, NULL) == inf && num_rsqrt(inf, 0, NULL) == 0, "rsqrt");
    CHECK(num_bits32(num_rsqrt(-1, 0, NULL)) == NUM_NAN32, "rsqrt of a negative");
    CHECK(num_div_approx(1, 0x1.8p126f, 0, NULL) == 0, "div by a huge number");
    CHECK(num_bits32(num_div_approx(inf, 0x1.8p126f, 0, NULL)) == NUM_NAN32,
          "inf by a huge number");
    CHECK(num_div_approx(6, 3, 0, NULL) == 2, "div");
    float in[4096], out[4096];
    long rounded = 0, differ = 0;
    for (uint64_t u = 0; u < 0x100000000ull; u += 4096ull * 997 * 4) {
        for (uint32_t k = 0; k < 4096; k++)
            in[k] = num_float((uint32_t)u + k * 997);
        num_ex2_ftz_n(out, in, 4096);
        for (int k = 0; k < 4096; k++) {
            const float want = num_ex2(in[k], NUM_FTZ, NULL);
            CHECK(num_bits32(out[k]) == num_bits32(want), "ex2 batch of %a", (double)in[k]);
            const double true_value = exp2((double)in[k]);
            if (fabsf(in[k]) < 126 && fabsf(in[k]) > 0x1p-20f) {
                rounded++;
                differ += want != (float)true_value;
            }
        }
    }
    CHECK(differ * 100000 < rounded, "ex2 misrounds %ld of %ld", differ, rounded);
}

int main(void) {
    test_decode();
    test_round();
    test_round_f32();
    test_modifiers();
    test_fast_paths();
    test_integers();
    test_arithmetic();
    test_narrow_arithmetic();
    test_min_max();
    test_approx();
    test_approx_special();
    return unit_end();
}
