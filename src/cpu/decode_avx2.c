/* SPDX-License-Identifier: Apache-2.0
 * The kernel for AVX2 with FMA and F16C. */
#include <immintrin.h>
#include <stdint.h>

#define V        8
#define OPS_NAME cpu_ops_avx2
#define EVEN     0, 2, 4, 6, 8, 10, 12, 14
#define ODD      1, 3, 5, 7, 9, 11, 13, 15
#define LOW      0, 8, 1, 9, 2, 10, 3, 11
#define HIGH     4, 12, 5, 13, 6, 14, 7, 15

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint16_t vu16 __attribute__((vector_size(16)));
typedef uint8_t vu8 __attribute__((vector_size(8)));

static inline vf from_f16(vu16 h) {
    return (vf)_mm256_cvtph_ps((__m128i)h);
}

static inline vf exp2_scale(vf p, vf n) {
    return p * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
}

static inline float sum_v(vf x) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

#include "decode.inc.c"
