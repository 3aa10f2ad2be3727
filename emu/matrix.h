/* matrix.h: the product that every matrix instruction ends in.
 *
 * Operands are unpacked to f32 (all products of bf16, f16, fp8 and tf32 values are exact in f32
 * while they are normal numbers) and accumulated in f32, k ascending, each step rounded to nearest:
 * one legal instance of what the ISA leaves unspecified.  struct mma_model turns to others:
 *
 *   seed != 0    the order of k is a pseudo-random permutation, another for every row and column
 *   keep_bits    as published measurements of tensor cores describe them: all products of one
 *                instruction and the accumulator are aligned to the largest exponent, cut (not
 *                rounded) keep_bits below it, added exactly and cut to f32.  24 is near the
 *                observed f16 and bf16 behaviour, 13 that of fp8 on sm_90.  0: off.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_MATRIX_H
#define EMU_MATRIX_H

#include "num.h"

struct mma_model {
    uint64_t seed;
    int keep_bits;
};

/* f32 seen through memory that is declared as words. */
typedef float f32_cell __attribute__((may_alias));

struct product {
    int m, n, k;
    const float *a; /* a[i * a_row + kk * a_col] */
    int a_row, a_col;
    const float *b; /* b[kk * b_row + j] */
    int b_row;
    f32_cell *const *d; /* [m]: where row i of D lies, NULL: not written */
    bool accumulate;    /* D += A*B, else D = A*B */
};

/* n is a multiple of 8. */
void matrix_product(const struct product *p, const struct mma_model *model);

/* s32 accumulators; saturate: clamp instead of wrap. */
struct product_s32 {
    int m, n, k;
    const int32_t *a;
    int a_row, a_col;
    const int32_t *b;
    int b_row;
    int32_t *const *d;
    bool accumulate, saturate;
};
void matrix_product_s32(const struct product_s32 *p);

/* 8-bit integers to s32. */
void matrix_unpack_s8(const uint8_t *src, int32_t *dst, size_t n, bool is_signed);
/* dst[c][r] = src[r][c]. */
void matrix_transpose(const float *src, float *dst, int rows, int cols);

#endif
