/* SPDX-License-Identifier: Apache-2.0
 * The kernel for AVX2 with FMA and F16C. */
#include <immintrin.h>
#include <stdint.h>

#define V        8
#define OPS_NAME cpu_ops_avx2
#define TOKENS_4 2
#define TOKENS_2 4
#define PAIRS_4  1
#define KEEP(x)  __asm__("" : "+x"(x))
#define FIRST    0, 2, 4, 6, 8, 10, 12, 14
#define SECOND   1, 3, 5, 7, 9, 11, 13, 15
#define LOW      0, 8, 1, 9, 2, 10, 3, 11
#define HIGH     4, 12, 5, 13, 6, 14, 7, 15

typedef float vf __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint16_t vu16 __attribute__((vector_size(16)));
typedef uint8_t vu8 __attribute__((vector_size(8)));

static inline vf from_f16(vu16 h) {
    return (vf)_mm256_cvtph_ps((__m128i)h);
}

/* Even elements, then odd ones: a shift and a mask. */
static inline void load_bf16(const char *p, vf *a, vf *b) {
    vi x;
    __builtin_memcpy(&x, p, sizeof x);
    *a = (vf)(x << 16);
    *b = (vf)(x & (int)0xffff0000);
}

static inline vf exp2_scale(vf p, vf n) {
    return p * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
}

static inline float sum_v(vf x) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

static inline v4 sum4(vf a, vf b, vf c, vf d) {
    const __m256 p = (__m256)a, q = (__m256)b, r = (__m256)c, s = (__m256)d;
    const __m256d pq = (__m256d)_mm256_add_ps(_mm256_unpacklo_ps(p, q), _mm256_unpackhi_ps(p, q));
    const __m256d rs = (__m256d)_mm256_add_ps(_mm256_unpacklo_ps(r, s), _mm256_unpackhi_ps(r, s));
    const __m256 all =
        _mm256_add_ps((__m256)_mm256_unpacklo_pd(pq, rs), (__m256)_mm256_unpackhi_pd(pq, rs));
    return (v4)_mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

#include "decode.inc.c"
#include "decode_ops.inc.c"
