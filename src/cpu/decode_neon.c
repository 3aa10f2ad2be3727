/* SPDX-License-Identifier: Apache-2.0
 * The kernel for 64-bit ARM: Advanced SIMD, which every such CPU has. */
#include <arm_neon.h>
#include <stdint.h>

#define V        4
#define OPS_NAME cpu_ops_neon
#define EVEN     0, 2, 4, 6
#define ODD      1, 3, 5, 7
#define LOW      0, 4, 1, 5
#define HIGH     2, 6, 3, 7

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint16_t vu16 __attribute__((vector_size(8)));
typedef uint8_t vu8 __attribute__((vector_size(4)));

static inline vf from_f16(vu16 h) {
    return (vf)vcvt_f32_f16((float16x4_t)h);
}

static inline vf exp2_scale(vf p, vf n) {
    return p * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
}

static inline float sum_v(vf x) {
    return vaddvq_f32((float32x4_t)x);
}

#include "decode.inc.c"
