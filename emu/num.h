/* num.h: the number formats of PTX and their arithmetic.
 *
 * Every narrow format is handled through double, which holds all of their values exactly; rounding
 * is done once, in one function (num_from_f64), for every format, mode and modifier.  Arithmetic
 * with directed rounding, and fma in the 16-bit formats, goes through round-to-odd doubles, which
 * makes the second rounding exact (Boldo and Melquiond, Emulation of FMA and correctly rounded
 * sums: proved algorithms using rounding to odd).
 *
 * A code is the bit pattern of a value in its format, right-aligned in a uint32_t; a tf32 code is
 * the 32-bit pattern whose low 13 bits are zero.
 *
 * NaNs: a result that is NaN is the format's canonical NaN (sign 0, all other bits 1), as PTX
 * cvt and arithmetic give; bf16 to f32 keeps the payload, since it is a shift.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_NUM_H
#define EMU_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum num_fmt {
    NUM_F16,
    NUM_BF16,
    NUM_TF32,
    NUM_E4M3,
    NUM_E5M2,
    NUM_E2M3,
    NUM_E3M2,
    NUM_E2M1,
    NUM_UE8M0,
    NUM_UE4M3,
    NUM_F32,
    NUM_FMTS
};

enum num_round { NUM_RN, NUM_RZ, NUM_RM, NUM_RP, NUM_RNA };

enum {                    /* modifiers, ORed */
       NUM_FTZ = 1,       /* subnormal inputs (the caller's f32) and outputs become zero */
       NUM_SAT = 2,       /* clamp to [0, 1], NaN becomes +0 */
       NUM_SATFINITE = 4, /* overflow and infinity become the largest finite value */
       NUM_RELU = 8       /* negative becomes +0 */
};

#define NUM_NAN32 0x7fffffffu
#define NUM_NAN64 0x7fffffffffffffffull

static inline uint32_t num_bits32(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float num_float(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline uint64_t num_bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
static inline double num_double(uint64_t u) {
    double x;
    memcpy(&x, &u, 8);
    return x;
}
static inline float num_canon(float x) {
    return x == x ? x : num_float(NUM_NAN32);
}
static inline double num_canon64(double x) {
    return x == x ? x : num_double(NUM_NAN64);
}
/* Subnormal to zero of the same sign. */
static inline float num_flush(float x) {
    const uint32_t u = num_bits32(x);
    return (u & 0x7f800000u) ? x : num_float(u & 0x80000000u);
}

/* --- Conversions --- */

/* Name as PTX spells it ("bf16"), bits of storage. */
const char *num_name(enum num_fmt f);
int num_storage_bits(enum num_fmt f);

/* Code of x in format f.  Formats without infinity or NaN (e2m1, e2m3, e3m2) always saturate and
 * turn NaN into the largest finite value; ue8m0 takes |x|. */
uint32_t num_from_f64(enum num_fmt f, double x, enum num_round r, unsigned flags);
/* The stochastic mode .rs: adds the random bits below the last kept bit, then truncates; random is
 * left-aligned in 32 bits. */
uint32_t num_from_f64_rs(enum num_fmt f, double x, uint32_t random, unsigned flags);
double num_to_f64(enum num_fmt f, uint32_t code);
static inline float num_to_f32(enum num_fmt f, uint32_t code);

static inline float num_bf16_f32(uint32_t c) {
    return num_float(c << 16);
}
float num_f16_f32(uint32_t c);
static inline float num_to_f32(enum num_fmt f, uint32_t code) {
    switch (f) {
    case NUM_F32:
        return num_float(code);
    case NUM_BF16:
        return num_bf16_f32(code);
    case NUM_F16:
        return num_f16_f32(code);
    default:
        return num_canon((float)num_to_f64(f, code));
    }
}
/* cvt.rn.bf16.f32 and cvt.rn.f16.f32 without modifiers: the common cases, fast. */
uint32_t num_f32_bf16(float x);
uint32_t num_f32_f16(float x);

/* n codes, packed in memory, to float.  Sub-byte formats lie one in a byte (as tcgen05 f8f6f4 keeps
 * them in shared memory). */
void num_unpack(enum num_fmt f, const void *src, float *dst, size_t n);

/* Floating to integer of `bits` bits (8..64): rounds to an integral value, clamps to the range.
 * NaN gives 0, except to or from 64 bits, where it gives the value with only the top bit set. */
uint64_t num_to_int(double x, enum num_round r, bool is_signed, int bits, bool from_f64);
/* Integral value in the floating format (cvt.rni.f32.f32 and its like). */
double num_round_integral(double x, enum num_round r);
/* Integer to floating, correctly rounded. */
float num_int_f32(uint64_t v, bool is_signed, enum num_round r);
double num_int_f64(uint64_t v, bool is_signed, enum num_round r);
uint32_t num_int_code(enum num_fmt f, uint64_t v, bool is_signed, enum num_round r);

/* --- Arithmetic --- */

/* f32, any rounding mode; flags: NUM_FTZ, NUM_SAT. */
float num_add(float a, float b, enum num_round r, unsigned flags);
float num_mul(float a, float b, enum num_round r, unsigned flags);
float num_fma(float a, float b, float c, enum num_round r, unsigned flags);
float num_div(float a, float b, enum num_round r, unsigned flags);
float num_sqrt(float a, enum num_round r, unsigned flags);

double num_add64(double a, double b, enum num_round r);
double num_mul64(double a, double b, enum num_round r);
double num_fma64(double a, double b, double c, enum num_round r);
double num_div64(double a, double b, enum num_round r);
double num_sqrt64(double a, enum num_round r);

/* Codes of one narrow format (f16, bf16): rounded once to nearest even; flags: FTZ, SAT, RELU. */
uint32_t num_add_code(enum num_fmt f, uint32_t a, uint32_t b, unsigned flags);
uint32_t num_mul_code(enum num_fmt f, uint32_t a, uint32_t b, unsigned flags);
uint32_t num_fma_code(enum num_fmt f, uint32_t a, uint32_t b, uint32_t c, unsigned flags);

/* PTX min and max: -0 < +0; one NaN gives the other operand, or NaN when `nan` (.NaN); xorsign
 * takes the sign of a*b and compares magnitudes (.xorsign.abs). */
float num_min(float a, float b, bool nan, bool xorsign);
float num_max(float a, float b, bool nan, bool xorsign);
double num_min64(double a, double b);
double num_max64(double a, double b);

/* --- Approximate functions --- */

/* The value is the correctly rounded one.  amount moves it, by a pseudo-random fraction in
 * [-amount, amount] of the bound that the ISA documents for the function, a function of (seed, x):
 * the same input always gives the same output, as on hardware.  NULL: no perturbation. */
struct num_perturb {
    uint64_t seed;
    float amount; /* 0..1 */
};

/* flags: NUM_FTZ.  Bounds (PTX ISA, each instruction): ex2 2 ulp with ftz or not (stated as 2^-22
 * relative), lg2 2^-22 absolute for x in (0.5, 2) and relative elsewhere, rcp 1 ulp, rsqrt 2^-22.9,
 * sqrt 2^-23 relative, div 2 ulp, sin and cos 2^-20.5 absolute, tanh 2^-11 relative. */
float num_ex2(float x, unsigned flags, const struct num_perturb *p);
float num_lg2(float x, unsigned flags, const struct num_perturb *p);
float num_rcp_approx(float x, unsigned flags, const struct num_perturb *p);
float num_rsqrt(float x, unsigned flags, const struct num_perturb *p);
float num_sqrt_approx(float x, unsigned flags, const struct num_perturb *p);
float num_div_approx(float a, float b, unsigned flags, const struct num_perturb *p);
float num_sin(float x, unsigned flags, const struct num_perturb *p);
float num_cos(float x, unsigned flags, const struct num_perturb *p);
float num_tanh(float x, const struct num_perturb *p);
/* ex2.approx and tanh.approx of f16 and bf16 codes: 2^-9.9 (f16), 2^-7 (bf16) for ex2;
 * 2^-10.987 (f16), 2^-8 (bf16) for tanh. */
uint32_t num_ex2_code(enum num_fmt f, uint32_t x, unsigned flags, const struct num_perturb *p);
uint32_t num_tanh_code(enum num_fmt f, uint32_t x, const struct num_perturb *p);
/* ex2.approx.ftz.f32 of n values, unperturbed; bit-equal to num_ex2, many times faster. */
void num_ex2_ftz_n(float *dst, const float *src, size_t n);

#endif
