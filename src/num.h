/* SPDX-License-Identifier: Apache-2.0
 * bf16, fp16 and fp8 to and from float32, portable C, round to nearest even. Exact in every
 * direction that can be; subnormals, infinities and NaN included. The CPU kernels have faster
 * forms; these are what tests and tools use, and the plain C kernel. */
#ifndef GQA_NUM_H
#define GQA_NUM_H

#include "gqa.h"

#include <math.h>
#include <string.h>

static inline float num_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t num_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float num_from_bf16(uint16_t h) {
    return num_from_bits((uint32_t)h << 16);
}

static inline uint16_t num_to_bf16(float f) {
    const uint32_t b = num_to_bits(f);
    if ((b & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(b >> 16 | 0x40); /* keep NaN a NaN */
    return (uint16_t)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}

/* An IEEE-like small float of `exponent` and `mantissa` bits with bias 2^(exponent-1) - 1. */
static inline float num_from_small(uint32_t bits, int exponent, int mantissa) {
    const int bias = (1 << (exponent - 1)) - 1;
    const uint32_t sign = bits >> (exponent + mantissa) & 1;
    const int e = (int)(bits >> mantissa & ((1u << exponent) - 1));
    const uint32_t m = bits & ((1u << mantissa) - 1);
    float f;
    if (e == (1 << exponent) - 1)
        f = num_from_bits(0x7f800000u | m << (23 - mantissa));
    else if (e == 0)
        f = ldexpf((float)m, 1 - bias - mantissa);
    else
        f = num_from_bits((uint32_t)(e - bias + 127) << 23 | m << (23 - mantissa));
    return num_from_bits(num_to_bits(f) | sign << 31);
}

static inline float num_from_f16(uint16_t h) {
    return num_from_small(h, 5, 10);
}

static inline float num_from_e5m2(uint8_t h) {
    return num_from_small(h, 5, 2);
}

static inline float num_from_e4m3(uint8_t h) {
    const uint32_t e = h >> 3 & 15, m = h & 7;
    float f;
    if (e == 15 && m == 7)
        f = num_from_bits(0x7fc00000u);
    else if (e == 0)
        f = ldexpf((float)m, -9);
    else
        f = num_from_bits((e - 7 + 127) << 23 | m << 20);
    return num_from_bits(num_to_bits(f) | (uint32_t)(h >> 7) << 31);
}

/* |f| rounded to a grid of `mantissa` bits with smallest normal exponent `e_min`, ties to even. */
static inline float num_round_grid(float f, int mantissa, int e_min) {
    int e;
    if (f == 0 || !isfinite(f))
        return f;
    frexpf(f, &e);
    e = e - 1 < e_min ? e_min : e - 1;
    return ldexpf(nearbyintf(ldexpf(f, mantissa - e)), e - mantissa);
}

static inline uint32_t num_to_small(float f, int exponent, int mantissa) {
    const uint32_t sign = num_to_bits(f) >> 31 << (exponent + mantissa);
    const uint32_t inf = ((1u << exponent) - 1) << mantissa;
    const int bias = (1 << (exponent - 1)) - 1;
    if (isnan(f))
        return sign | inf | 1u << (mantissa - 1);
    const float r = num_round_grid(fabsf(f), mantissa, 1 - bias);
    if (r >= ldexpf(1, bias + 1))
        return sign | inf;
    if (r < ldexpf(1, 1 - bias))
        return sign | (uint32_t)ldexpf(r, bias - 1 + mantissa);
    const uint32_t b = num_to_bits(r);
    return sign | ((b >> 23) - 127 + (uint32_t)bias) << mantissa |
           (b >> (23 - mantissa) & ((1u << mantissa) - 1));
}

static inline uint16_t num_to_f16(float f) {
    return (uint16_t)num_to_small(f, 5, 10);
}

static inline uint8_t num_to_e5m2(float f) {
    return (uint8_t)num_to_small(f, 5, 2);
}

/* Saturates at 448, as the FP8 formats of OCP and the GPUs' satfinite conversions do. */
static inline uint8_t num_to_e4m3(float f) {
    const uint8_t sign = (uint8_t)(num_to_bits(f) >> 31 << 7);
    if (isnan(f))
        return sign | 0x7f;
    const float r = num_round_grid(fabsf(f), 3, -6);
    if (r >= 448)
        return sign | 0x7e;
    if (r < 0.015625f)
        return sign | (uint8_t)ldexpf(r, 9);
    const uint32_t b = num_to_bits(r);
    return sign | (uint8_t)(((b >> 23) - 127 + 7) << 3 | (b >> 20 & 7));
}

/* Element i of an array of `type`, as float32. */
static inline float num_load(enum gqa_type type, const void *array, int64_t i) {
    switch (type) {
    case GQA_F32:
        return ((const float *)array)[i];
    case GQA_BF16:
        return num_from_bf16(((const uint16_t *)array)[i]);
    case GQA_F16:
        return num_from_f16(((const uint16_t *)array)[i]);
    case GQA_E4M3:
        return num_from_e4m3(((const uint8_t *)array)[i]);
    case GQA_E5M2:
        return num_from_e5m2(((const uint8_t *)array)[i]);
    }
    return NAN;
}

static inline void num_store(enum gqa_type type, void *array, int64_t i, float f) {
    switch (type) {
    case GQA_F32:
        ((float *)array)[i] = f;
        break;
    case GQA_BF16:
        ((uint16_t *)array)[i] = num_to_bf16(f);
        break;
    case GQA_F16:
        ((uint16_t *)array)[i] = num_to_f16(f);
        break;
    case GQA_E4M3:
        ((uint8_t *)array)[i] = num_to_e4m3(f);
        break;
    case GQA_E5M2:
        ((uint8_t *)array)[i] = num_to_e5m2(f);
        break;
    }
}

#endif
