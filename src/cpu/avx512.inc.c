/* SPDX-License-Identifier: Apache-2.0
 * What decode.inc.c needs, for AVX-512 F, BW, DQ and VL; shared by the two AVX-512 kernels. */
#include <immintrin.h>
#include <stdint.h>

#define V        16
#define TOKENS_4 4
#define TOKENS_2 8
#define PAIRS_4  2
#ifndef KEEP /* a test without AVX-512 has no such registers */
#define KEEP(x) __asm__("" : "+v"(x))
#endif
#define FIRST  0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define SECOND 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#define LOW    0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23
#define HIGH   8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31

typedef float vf __attribute__((vector_size(64)));
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint16_t vu16 __attribute__((vector_size(32)));
typedef uint8_t vu8 __attribute__((vector_size(16)));

static inline vf from_f16(vu16 h) {
    return (vf)_mm512_cvtph_ps((__m256i)h);
}

/* Groups of four, as interleaving two rows inside 128-bit lanes leaves them: the order in which the
 * dot-product kernel accumulates, so that both kernels share it. */
static inline void load_bf16(const char *p, vf *a, vf *b) {
    const __m512i x = _mm512_loadu_si512(p), zero = _mm512_setzero_si512();
    *a = (vf)_mm512_unpacklo_epi16(zero, x);
    *b = (vf)_mm512_unpackhi_epi16(zero, x);
}

static inline vf exp2_scale(vf p, vf n) {
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
}

static inline float sum_v(vf x) {
    return _mm512_reduce_add_ps((__m512)x);
}

static inline v4 sum4(vf a, vf b, vf c, vf d) {
    const __m512 p = (__m512)a, q = (__m512)b, r = (__m512)c, s = (__m512)d;
    const __m512d pq = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(p, q), _mm512_unpackhi_ps(p, q));
    const __m512d rs = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(r, s), _mm512_unpackhi_ps(r, s));
    const __m512 all =
        _mm512_add_ps((__m512)_mm512_unpacklo_pd(pq, rs), (__m512)_mm512_unpackhi_pd(pq, rs));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return (v4)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
