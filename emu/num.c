/* num.c: rounding and conversion between the formats of PTX (see num.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "num.h"
#include <fenv.h>
#include <math.h>

struct format {
    const char *name;
    int8_t storage, ebits, mbits;
    bool is_signed;
    uint32_t max;      /* code of the largest finite value, sign clear */
    uint32_t inf, nan; /* 0: the format has none */
};

static const struct format formats[NUM_FMTS] = {
    [NUM_F16] = {"f16", 16, 5, 10, true, 0x7bff, 0x7c00, 0x7fff},
    [NUM_BF16] = {"bf16", 16, 8, 7, true, 0x7f7f, 0x7f80, 0x7fff},
    [NUM_TF32] = {"tf32", 32, 8, 10, true, 0x3fbff, 0x3fc00, 0x3ffff},
    [NUM_E4M3] = {"e4m3", 8, 4, 3, true, 0x7e, 0, 0x7f},
    [NUM_E5M2] = {"e5m2", 8, 5, 2, true, 0x7b, 0x7c, 0x7f},
    [NUM_E2M3] = {"e2m3", 8, 2, 3, true, 0x1f, 0, 0},
    [NUM_E3M2] = {"e3m2", 8, 3, 2, true, 0x1f, 0, 0},
    [NUM_E2M1] = {"e2m1", 8, 2, 1, true, 0x7, 0, 0},
    [NUM_UE8M0] = {"ue8m0", 8, 8, 0, false, 0xfe, 0, 0xff},
    [NUM_UE4M3] = {"ue4m3", 8, 4, 3, false, 0x7e, 0, 0x7f},
    [NUM_F32] = {"f32", 32, 8, 23, true, 0x7f7fffff, 0x7f800000, 0x7fffffff},
};

const char *num_name(enum num_fmt f) {
    return formats[f].name;
}
int num_storage_bits(enum num_fmt f) {
    return formats[f].storage;
}

static int sign_shift(const struct format *t) {
    return t->ebits + t->mbits;
}

/* tf32 keeps its 19 bits at the top of the word. */
static uint32_t store(enum num_fmt f, uint32_t code) {
    return f == NUM_TF32 ? code << 13 : code;
}

/* m * 2^e, m below 2^53, to the code without sign; `extra`: random bits for .rs, or NULL. */
static uint32_t round_code(const struct format *t, uint64_t m, int e, enum num_round r,
                           bool negative, const uint32_t *extra) {
    if (m == 0)
        return 0;
    const int top = 63 - __builtin_clzll(m) + e; /* exponent of the leading bit */
    const int emin = 2 - (1 << (t->ebits - 1));
    const int base = top > emin ? top : emin;
    const int shift = base - t->mbits - e; /* bits of m to drop */
    uint64_t n, rest = 0, half = 1;
    if (shift <= 0) {
        n = m << -shift;
    } else if (shift > 62) {
        n = 0;
        rest = 1; /* below half of the last place, not zero */
        half = 2;
    } else {
        n = m >> shift;
        rest = m & ((1ull << shift) - 1);
        half = 1ull << (shift - 1);
    }
    if (extra) {
        const uint64_t frac = shift <= 0   ? 0
                              : shift > 62 ? 0
                              : shift > 32 ? rest >> (shift - 32)
                                           : rest << (32 - shift);
        n += (frac + *extra) >> 32;
    } else {
        switch (r) {
        case NUM_RN:
            n += rest > half || (rest == half && (n & 1));
            break;
        case NUM_RNA:
            n += rest >= half;
            break;
        case NUM_RP:
            n += rest && !negative;
            break;
        case NUM_RM:
            n += rest && negative;
            break;
        case NUM_RZ:
            break;
        }
    }
    const int step = base - emin; /* steps of the exponent field above the first binade */
    if (step > (1 << t->ebits))
        return 0xffffffffu;
    return (uint32_t)(((uint64_t)(uint32_t)step << t->mbits) + n);
}

static void split(double a, uint64_t *m, int *e) {
    const uint64_t u = num_bits64(a);
    const int field = (int)(u >> 52 & 0x7ff);
    *m = (u & 0xfffffffffffffull) | (field ? 1ull << 52 : 0);
    *e = (field ? field : 1) - 1075;
}

static uint32_t nan_code(const struct format *t) {
    return t->nan ? t->nan : t->max;
}

static uint32_t overflow_code(const struct format *t, enum num_round r, bool negative,
                              unsigned flags) {
    const bool to_max = (flags & NUM_SATFINITE) || r == NUM_RZ || (r == NUM_RM && !negative) ||
                        (r == NUM_RP && negative);
    if (to_max)
        return t->max;
    return t->inf ? t->inf : nan_code(t);
}

static uint32_t convert(enum num_fmt f, double x, enum num_round r, unsigned flags,
                        const uint32_t *extra) {
    const struct format *t = &formats[f];
    if (flags & NUM_SAT) {
        if (!(x > 0))
            return 0;
        if (x > 1)
            x = 1;
    }
    if (x != x)
        return store(f, nan_code(t));
    bool negative = signbit(x) != 0;
    if ((flags & NUM_RELU) && negative)
        return 0;
    if (!t->is_signed)
        negative = false;
    const uint32_t sign = negative ? 1u << sign_shift(t) : 0;
    uint32_t code;
    if (isinf(x)) {
        code = (flags & NUM_SATFINITE) || (!t->inf && !t->nan) ? t->max
               : t->inf                                        ? t->inf
                                                               : nan_code(t);
    } else if (f == NUM_UE8M0) {
        uint64_t m;
        int e;
        split(fabs(x), &m, &e);
        /* Codes are powers of two, 2^-127 at 0; nothing lies below it. */
        int p = -127;
        bool rest = false;
        if (m) {
            const int top = 63 - __builtin_clzll(m);
            p = top + e;
            rest = m != 1ull << top;
        }
        p += rest && r == NUM_RP;
        code = p < -127 ? 0 : p > 127 ? overflow_code(t, r, false, flags) : (uint32_t)(p + 127);
    } else {
        uint64_t m;
        int e;
        split(fabs(x), &m, &e);
        code = round_code(t, m, e, r, negative, extra);
        if (code > t->max)
            code = overflow_code(t, r, negative, flags);
        else if ((flags & NUM_FTZ) && code >> t->mbits == 0)
            code = 0;
    }
    return store(f, code | sign);
}

uint32_t num_from_f64(enum num_fmt f, double x, enum num_round r, unsigned flags) {
    return convert(f, x, r, flags, NULL);
}

uint32_t num_from_f64_rs(enum num_fmt f, double x, uint32_t random, unsigned flags) {
    return convert(f, x, NUM_RZ, flags | NUM_SATFINITE, &random);
}

double num_to_f64(enum num_fmt f, uint32_t code) {
    const struct format *t = &formats[f];
    if (f == NUM_TF32)
        code >>= 13;
    if (f == NUM_UE8M0)
        return (code & 0xff) == 0xff ? num_double(NUM_NAN64) : ldexp(1, (int)(code & 0xff) - 127);
    const uint32_t low = (1u << sign_shift(t)) - 1;
    const uint32_t c = code & low;
    const bool negative = t->is_signed && (code >> sign_shift(t) & 1);
    double v;
    if (c > t->max)
        v = c == t->inf && t->inf ? INFINITY : num_double(NUM_NAN64);
    else {
        const int field = (int)(c >> t->mbits);
        const uint32_t frac = c & ((1u << t->mbits) - 1);
        const int emin = 2 - (1 << (t->ebits - 1));
        v = ldexp((double)(frac | (field ? 1u << t->mbits : 0)),
                  (field ? field - 1 : 0) + emin - t->mbits);
    }
    return v != v ? v : negative ? -v : v;
}

float num_f16_f32(uint32_t c) {
    const uint32_t em = (c & 0x7fff) << 13, sign = (c & 0x8000) << 16;
    if (em > 0x0f800000u)
        return num_float(NUM_NAN32);
    if (em == 0x0f800000u)
        return num_float(sign | 0x7f800000u);
    return num_float(num_bits32(num_float(em) * 0x1p112f) | sign);
}

uint32_t num_f32_bf16(float x) {
    const uint32_t u = num_bits32(x);
    return x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

uint32_t num_f32_f16(float x) {
    const uint32_t u = num_bits32(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000u)
        return 0x7fff;
    if (a >= 0x477ff000u) /* 65520 and above round to infinity */
        return sign | 0x7c00;
    if (a < 0x38800000u) /* below 2^-14: let an addition align and round at 2^-24 */
        return sign | ((num_bits32(num_float(a) + 0.5f) - 0x3f000000u) & 0xffff);
    return sign | ((a - 0x38000000u + 0xfff + (a >> 13 & 1)) >> 13);
}

#if defined __x86_64__
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

CLONES static void unpack_f16(const uint16_t *s, float *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t em = (uint32_t)(s[i] & 0x7fff) << 13, sign = (uint32_t)(s[i] & 0x8000) << 16;
        const uint32_t v =
            num_bits32(num_float(em) * 0x1p112f) | (em >= 0x0f800000u ? 0x7f800000u : 0);
        d[i] = num_float(v | sign);
    }
}

CLONES static void unpack_bf16(const uint16_t *s, float *d, size_t n) {
    for (size_t i = 0; i < n; i++)
        d[i] = num_float((uint32_t)s[i] << 16);
}

CLONES static void unpack_tf32(const uint32_t *s, float *d, size_t n) {
    for (size_t i = 0; i < n; i++)
        d[i] = num_float(s[i] & 0xffffe000u);
}

void num_unpack(enum num_fmt f, const void *src, float *dst, size_t n) {
    static float table[NUM_FMTS][256];
    static bool ready[NUM_FMTS];
    switch (f) {
    case NUM_F16:
        unpack_f16(src, dst, n);
        return;
    case NUM_BF16:
        unpack_bf16(src, dst, n);
        return;
    case NUM_TF32:
        unpack_tf32(src, dst, n);
        return;
    case NUM_F32:
        memcpy(dst, src, 4 * n);
        return;
    default:
        break;
    }
    if (!__atomic_load_n(&ready[f], __ATOMIC_ACQUIRE)) {
        /* Threads that race here write the same values. */
        const uint32_t mask = (1u << (sign_shift(&formats[f]) + formats[f].is_signed)) - 1;
        for (uint32_t c = 0; c < 256; c++)
            table[f][c] = num_canon((float)num_to_f64(f, c & mask));
        __atomic_store_n(&ready[f], true, __ATOMIC_RELEASE);
    }
    const uint8_t *s = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = table[f][s[i]];
}

/* --- Integers --- */

double num_round_integral(double x, enum num_round r) {
    switch (r) {
    case NUM_RZ:
        return trunc(x);
    case NUM_RM:
        return floor(x);
    case NUM_RP:
        return ceil(x);
    case NUM_RNA:
        return round(x);
    case NUM_RN:
        break;
    }
    return rint(x);
}

uint64_t num_to_int(double x, enum num_round r, bool is_signed, int bits, bool from_f64) {
    const uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    if (x != x)
        return from_f64 || bits == 64 ? 1ull << (bits - 1) : 0;
    const double v = num_round_integral(x, r);
    if (is_signed) {
        const double lim = ldexp(1, bits - 1);
        if (v >= lim)
            return mask >> 1;
        if (v < -lim)
            return 1ull << (bits - 1);
        return (uint64_t)(int64_t)v & mask;
    }
    if (v >= ldexp(1, bits))
        return mask;
    return v > 0 ? (uint64_t)v & mask : 0;
}

/* Drops bits of m below `keep` significant ones, keeping the lost part as a sticky last bit: any
 * rounding to fewer than keep-1 bits then sees the right side. */
static uint64_t sticky(uint64_t m, int keep, int *e) {
    const int top = m ? 64 - __builtin_clzll(m) : 0;
    *e = 0;
    if (top <= keep)
        return m;
    *e = top - keep;
    return m >> *e | ((m & ((1ull << *e) - 1)) != 0);
}

uint32_t num_int_code(enum num_fmt f, uint64_t v, bool is_signed, enum num_round r) {
    const bool negative = is_signed && (int64_t)v < 0;
    int e;
    const uint64_t m = sticky(negative ? 0 - v : v, 52, &e);
    const double x = ldexp((double)m, e);
    return num_from_f64(f, negative ? -x : x, r, 0);
}

float num_int_f32(uint64_t v, bool is_signed, enum num_round r) {
    return num_float(num_int_code(NUM_F32, v, is_signed, r));
}

double num_int_f64(uint64_t v, bool is_signed, enum num_round r) {
    const bool negative = is_signed && (int64_t)v < 0;
    uint64_t m = negative ? 0 - v : v;
    const int top = m ? 64 - __builtin_clzll(m) : 0, drop = top > 53 ? top - 53 : 0;
    const uint64_t rest = drop ? m & ((1ull << drop) - 1) : 0, half = drop ? 1ull << (drop - 1) : 1;
    m >>= drop;
    m += r == NUM_RN    ? rest > half || (rest == half && (m & 1))
         : r == NUM_RNA ? rest >= half
         : r == NUM_RP  ? rest && !negative
         : r == NUM_RM  ? rest && negative
                        : 0;
    const double x = ldexp((double)m, drop);
    return negative ? -x : x;
}
