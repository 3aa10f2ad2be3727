/* SPDX-License-Identifier: Apache-2.0
 * The kernel for any machine: vectors of four, nothing but what the language and the compiler's
 * vector extensions give. Always there, and what the others are compared with. */
#include <stdint.h>

#define V        4
#define OPS_NAME cpu_ops_c
#define TOKENS_4 2
#define TOKENS_2 4
#define PAIRS_4  1
#define KEEP(x)  (void)(x)
#define FIRST    0, 2, 4, 6
#define SECOND   1, 3, 5, 7
#define LOW      0, 4, 1, 5
#define HIGH     2, 6, 3, 7

typedef float vf __attribute__((vector_size(16)));
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint16_t vu16 __attribute__((vector_size(8)));
typedef uint8_t vu8 __attribute__((vector_size(4)));

/* Exponent and mantissa moved into place are the value times 2^-112, subnormals too. */
static inline vf from_f16(vu16 h) {
    const vi x = __builtin_convertvector(h, vi);
    const vi magnitude = (x & 0x7fff) << 13;
    const vf f = (vf)magnitude * 0x1p112f;
    const vi special = magnitude >= 0x0f800000; /* infinity or NaN */
    return (vf)((vi)f | (special & 0x7f800000) | (x & 0x8000) << 16);
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
    return (x[0] + x[2]) + (x[1] + x[3]);
}

/* The sums of four vectors: twice two are interleaved and added. */
static inline v4 sum4(vf a, vf b, vf c, vf d) {
    const vf ab =
        __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const vf cd =
        __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

#include "decode.inc.c"
#include "decode_ops.inc.c"
