/* SPDX-License-Identifier: Apache-2.0
 * The kernel for AVX-512 F, BW, DQ and VL. */
#include <immintrin.h>
#include <stdint.h>

#define V        16
#define OPS_NAME cpu_ops_avx512
#define EVEN     0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD      1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW      0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint16_t vu16 __attribute__((vector_size(32)));
typedef uint8_t vu8 __attribute__((vector_size(16)));

static inline vf from_f16(vu16 h) {
    return (vf)_mm512_cvtph_ps((__m256i)h);
}

static inline vf exp2_scale(vf p, vf n) {
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
}

static inline float sum_v(vf x) {
    return _mm512_reduce_add_ps((__m512)x);
}

#include "decode.inc.c"
