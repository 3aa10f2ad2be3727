/* SPDX-License-Identifier: Apache-2.0
 * The few AVX-512 intrinsics that src/cpu uses, in plain C, so that a machine without AVX-512 can
 * test the two kernels' logic (make check-avx512). Written from the operation sections of Intel's
 * Intrinsics Guide; the compiler's own header is included for everything narrower. */
#ifndef TEST_AVX512_IMMINTRIN_H
#define TEST_AVX512_IMMINTRIN_H

#include_next <immintrin.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EMULATED static inline __attribute__((always_inline, unused))

typedef union {
    float f[16];
    double d[8];
    uint16_t h[32];
    uint32_t u[16];
    __m512 ps;
    __m512d pd;
    __m512i si;
    __m256 half[2];
} emulated_512;

#define LANEWISE(name, type, member, view, per_lane, first)                                        \
    EMULATED type name(type a, type b) {                                                           \
        emulated_512 x = {.view = a}, y = {.view = b}, z;                                          \
        for (int lane = 0; lane < 4; lane++)                                                       \
            for (int i = 0; i < per_lane / 2; i++) {                                               \
                z.member[lane * per_lane + 2 * i] = x.member[lane * per_lane + first + i];         \
                z.member[lane * per_lane + 2 * i + 1] = y.member[lane * per_lane + first + i];     \
            }                                                                                      \
        return z.view;                                                                             \
    }

LANEWISE(emulated_unpacklo_ps, __m512, f, ps, 4, 0)
LANEWISE(emulated_unpackhi_ps, __m512, f, ps, 4, 2)
LANEWISE(emulated_unpacklo_pd, __m512d, d, pd, 2, 0)
LANEWISE(emulated_unpackhi_pd, __m512d, d, pd, 2, 1)
LANEWISE(emulated_unpacklo_epi16, __m512i, h, si, 8, 0)
LANEWISE(emulated_unpackhi_epi16, __m512i, h, si, 8, 4)

EMULATED __m512 emulated_add_ps(__m512 a, __m512 b) {
    return a + b;
}

EMULATED __m256 emulated_extractf32x8_ps(__m512 a, int i) {
    const emulated_512 x = {.ps = a};
    return x.half[i];
}

EMULATED __m512 emulated_cvtph_ps(__m256i a) {
    emulated_512 z;
    z.half[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
    z.half[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
    return z.ps;
}

EMULATED __m512 emulated_scalef_ps(__m512 a, __m512 b) {
    emulated_512 x = {.ps = a}, y = {.ps = b};
    for (int i = 0; i < 16; i++)
        x.f[i] = x.f[i] * exp2f(floorf(y.f[i]));
    return x.ps;
}

EMULATED float emulated_reduce_add_ps(__m512 a) {
    const emulated_512 x = {.ps = a};
    float sum = 0;
    for (int i = 0; i < 16; i++)
        sum += x.f[i];
    return sum;
}

EMULATED __m512i emulated_loadu_si512(const void *p) {
    emulated_512 x;
    memcpy(&x, p, sizeof x);
    return x.si;
}

/* Reads the bytes under the mask only, as the instruction does. */
EMULATED __m512i emulated_maskz_loadu_epi16(uint32_t mask, const void *p) {
    emulated_512 x;
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            memcpy(&x.h[i], (const char *)p + 2 * i, 2);
        else
            x.h[i] = 0;
    return x.si;
}

EMULATED __m512i emulated_set1_epi32(int32_t v) {
    emulated_512 x;
    for (int i = 0; i < 16; i++)
        x.u[i] = (uint32_t)v;
    return x.si;
}

EMULATED __m512i emulated_slli_epi32(__m512i a, unsigned n) {
    emulated_512 x = {.si = a};
    for (int i = 0; i < 16; i++)
        x.u[i] <<= n;
    return x.si;
}

EMULATED __m512i emulated_cvtepu16_epi32(__m256i a) {
    uint16_t h[16];
    emulated_512 x;
    memcpy(h, &a, sizeof h);
    for (int i = 0; i < 16; i++)
        x.u[i] = h[i];
    return x.si;
}

EMULATED float emulated_bf16(uint16_t h) {
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

EMULATED __m512 emulated_dpbf16_ps(__m512 sum, __m512i a, __m512i b) {
    emulated_512 z = {.ps = sum}, x = {.si = a}, y = {.si = b};
    for (int i = 0; i < 16; i++) {
        z.f[i] += emulated_bf16(x.h[2 * i + 1]) * emulated_bf16(y.h[2 * i + 1]);
        z.f[i] += emulated_bf16(x.h[2 * i]) * emulated_bf16(y.h[2 * i]);
    }
    return z.ps;
}

EMULATED __m256i emulated_cvtneps_pbh(__m512 a) {
    const emulated_512 x = {.ps = a};
    uint16_t h[16];
    __m256i z;
    for (int i = 0; i < 16; i++)
        h[i] = (uint16_t)(x.f[i] != x.f[i] ? x.u[i] >> 16 | 0x40
                                           : (x.u[i] + 0x7fff + (x.u[i] >> 16 & 1)) >> 16);
    memcpy(&z, h, sizeof z);
    return z;
}

#define __m512bh                    __m512i
#define _mm512_unpacklo_ps(a, b)    emulated_unpacklo_ps(a, b)
#define _mm512_unpackhi_ps(a, b)    emulated_unpackhi_ps(a, b)
#define _mm512_unpacklo_pd(a, b)    emulated_unpacklo_pd(a, b)
#define _mm512_unpackhi_pd(a, b)    emulated_unpackhi_pd(a, b)
#define _mm512_unpacklo_epi16(a, b) emulated_unpacklo_epi16(a, b)
#define _mm512_unpackhi_epi16(a, b) emulated_unpackhi_epi16(a, b)
#define _mm512_add_ps(a, b)         emulated_add_ps(a, b)
#define _mm512_castps512_ps256(a)   emulated_extractf32x8_ps(a, 0)
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(a, i) emulated_extractf32x8_ps(a, i)
#define _mm512_cvtph_ps(a)           emulated_cvtph_ps(a)
#undef _mm512_scalef_ps
#define _mm512_scalef_ps(a, b)         emulated_scalef_ps(a, b)
#define _mm512_reduce_add_ps(a)        emulated_reduce_add_ps(a)
#define _mm512_loadu_si512(p)          emulated_loadu_si512(p)
#define _mm512_maskz_loadu_epi16(m, p) emulated_maskz_loadu_epi16(m, p)
#define _mm512_setzero_si512()         emulated_set1_epi32(0)
#define _mm512_set1_epi32(v)           emulated_set1_epi32(v)
#define _mm512_slli_epi32(a, n)        emulated_slli_epi32(a, n)
#define _mm512_cvtepu16_epi32(a)       emulated_cvtepu16_epi32(a)
#define _mm512_dpbf16_ps(s, a, b)      emulated_dpbf16_ps(s, a, b)
#define _mm512_cvtneps_pbh(a)          emulated_cvtneps_pbh(a)

#endif
