/* SPDX-License-Identifier: Apache-2.0
 * Number formats, every value of them. The expected values are built here from the definition of
 * each format (sign, exponent, mantissa), and rounding from the list of all values: nothing of
 * num.h is used to check num.h. */
#include "../src/num.h"
#include "test.h"

struct format {
    const char *name;
    enum gqa_type type;
    int exponent, mantissa; /* bits */
    bool has_inf;           /* the largest exponent is for Inf and NaN alone */
    bool saturates;
};

static const struct format formats[] = {
    {"bf16", GQA_BF16, 8, 7, true, false},
    {"f16", GQA_F16, 5, 10, true, false},
    {"e4m3", GQA_E4M3, 4, 3, false, true},
    {"e5m2", GQA_E5M2, 5, 2, true, false},
};

enum { FORMATS = sizeof formats / sizeof *formats };

static int bits_of(const struct format *f) {
    return 1 + f->exponent + f->mantissa;
}

/* The value of a bit pattern, from the definition. */
static double value_of(const struct format *f, uint32_t bits) {
    const int bias = (1 << (f->exponent - 1)) - 1;
    const uint32_t m = bits & ((1u << f->mantissa) - 1);
    const int e = (int)(bits >> f->mantissa & ((1u << f->exponent) - 1));
    const double sign = bits >> (f->exponent + f->mantissa) & 1 ? -1 : 1;
    const double step = ldexp(1, -f->mantissa);
    if (e == (1 << f->exponent) - 1 && f->has_inf)
        return m ? (double)NAN : sign * (double)INFINITY;
    if (e == (1 << f->exponent) - 1 && m == (1u << f->mantissa) - 1)
        return (double)NAN; /* e4m3: the one NaN */
    return sign * (e ? ldexp(1 + m * step, e - bias) : ldexp(m * step, 1 - bias));
}

/* Little-endian: the low bytes of a word are the element. */
static double load(const struct format *f, uint32_t bits) {
    _Alignas(4) unsigned char at[4];
    memcpy(at, &bits, sizeof at);
    return (double)num_load(f->type, at, 0);
}

static uint32_t store(const struct format *f, float value) {
    _Alignas(4) unsigned char at[4] = {0};
    uint32_t bits;
    num_store(f->type, at, 0, value);
    memcpy(&bits, at, sizeof bits);
    return bits;
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

TEST(every_pattern_has_its_value) {
    for (int i = 0; i < FORMATS; i++)
        for (uint32_t bits = 0; bits < 1u << bits_of(&formats[i]); bits++) {
            const double got = load(&formats[i], bits), expected = value_of(&formats[i], bits);
            if (!same(got, expected))
                FAIL("%s 0x%x is %g, expected %g", formats[i].name, bits, got, expected);
        }
}

TEST(every_value_survives_a_round_trip) {
    for (int i = 0; i < FORMATS; i++)
        for (uint32_t bits = 0; bits < 1u << bits_of(&formats[i]); bits++) {
            const uint32_t back = store(&formats[i], (float)value_of(&formats[i], bits));
            if (back != bits && !isnan(value_of(&formats[i], bits)))
                FAIL("%s 0x%x came back as 0x%x", formats[i].name, bits, back);
            if (isnan(value_of(&formats[i], bits)) && !isnan(value_of(&formats[i], back)))
                FAIL("%s NaN 0x%x came back as 0x%x", formats[i].name, bits, back);
        }
}

/* What `x` between the values of pattern `low` and `low` + 1 must become: the nearer one, the even
 * pattern where both are as near. Values beyond the largest act as if the format went on. */
static uint32_t nearest(const struct format *f, uint32_t low, double x) {
    const double a = value_of(f, low);
    double b = value_of(f, low + 1);
    if (!isfinite(b)) /* one step past the largest */
        b = a + (a - value_of(f, low - 1));
    const double to_a = x - a, to_b = b - x;
    const bool up = to_b < to_a || (to_a == to_b && (low & 1));
    return up && !(f->saturates && !isfinite(value_of(f, low + 1))) ? low + 1 : low;
}

TEST(values_between_two_go_to_the_nearer_even_on_ties) {
    for (int i = 0; i < FORMATS; i++) {
        const struct format *f = &formats[i];
        for (uint32_t low = 0; isfinite(value_of(f, low)); low++) {
            const double a = value_of(f, low);
            double b = value_of(f, low + 1);
            if (!isfinite(b))
                b = a + (low ? a - value_of(f, low - 1) : 0);
            const float middle = (float)(a + (b - a) / 2);
            if (!isfinite(middle)) /* past the largest float */
                continue;
            const float near_[] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY),
                                   (float)(a + (b - a) / 8), (float)(a + (b - a) * 7 / 8)};
            for (int n = 0; n < 5; n++) {
                const uint32_t expected = nearest(f, low, (double)near_[n]);
                const uint32_t sign = 1u << (bits_of(f) - 1);
                if (store(f, near_[n]) != expected)
                    FAIL("%s of %a is 0x%x, expected 0x%x", f->name, (double)near_[n],
                         store(f, near_[n]), expected);
                if (store(f, -near_[n]) != (expected | sign))
                    FAIL("%s of %a is 0x%x, expected 0x%x", f->name, -(double)near_[n],
                         store(f, -near_[n]), expected | sign);
            }
        }
    }
}

TEST(beyond_the_range) {
    const float huge[] = {1e6f, 3.4e38f, INFINITY};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(num_to_e4m3(huge[i]), 0x7e);
        CHECK_INT(num_to_e4m3(-huge[i]), 0xfe);
        CHECK_INT(num_to_e5m2(huge[i]), 0x7c);
        CHECK_INT(num_to_f16(-huge[i]), 0xfc00);
    }
    CHECK_INT(num_to_bf16(INFINITY), 0x7f80);
    CHECK_INT(num_to_bf16(num_from_bits(0x7f7fffff)), 0x7f80); /* rounds up to infinity */
    CHECK_INT(num_to_f16(65519.996f), 0x7bff);
    CHECK_INT(num_to_f16(65520), 0x7c00);
    CHECK_INT(num_to_e4m3(464), 0x7e); /* half way to what would be 480 */
    CHECK_INT(num_to_e5m2(61439.996f), 0x7b);
    CHECK_INT(num_to_e5m2(61440), 0x7c);
}

/* NaN stays NaN whatever its payload, also one that lies in the bits cut away. */
TEST(nan_stays_nan) {
    const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001,
                             0xff800001, 0x7fffffff, 0x7f80ffff};
    for (int i = 0; i < FORMATS; i++)
        for (int n = 0; n < 6; n++) {
            const uint32_t bits = store(&formats[i], num_from_bits(nans[n]));
            if (!isnan(value_of(&formats[i], bits)))
                FAIL("%s of NaN 0x%x is 0x%x", formats[i].name, nans[n], bits);
        }
}

TEST(f32_is_left_alone) {
    const uint32_t bits[] = {0, 0x80000000, 1, 0x7f7fffff, 0x7f800000, 0x3f800001, 0x807fffff};
    for (int i = 0; i < 7; i++) {
        float out = 0;
        num_store(GQA_F32, &out, 0, num_from_bits(bits[i]));
        CHECK_INT(num_to_bits(out), bits[i]);
        CHECK_INT(num_to_bits(num_load(GQA_F32, &out, 0)), bits[i]);
    }
}

TEST(indices_count_elements) {
    const uint16_t half[] = {0x3c00, 0x4000, 0x4200};
    const uint8_t byte[] = {0x38, 0x40, 0x44};
    CHECK_NEAR(num_load(GQA_F16, half, 2), 3, 0);
    CHECK_NEAR(num_load(GQA_E4M3, byte, 2), 3, 0);
    uint16_t out[2] = {0, 0};
    num_store(GQA_BF16, out, 1, 1);
    CHECK_INT(out[0], 0);
    CHECK_INT(out[1], 0x3f80);
}

TEST_MAIN
