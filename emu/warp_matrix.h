/* warp_matrix.h: matrix instructions of one warp: ldmatrix, stmatrix, movmatrix, mma.sync.
 *
 * A register is 32 lanes of uint32_t.  g = lane / 4, t = lane % 4.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_WARP_MATRIX_H
#define EMU_WARP_MATRIX_H

#include "matrix.h"

/* ldmatrix.m8n8.x{1,2,4}{.trans}.b16: rows[8 i + r] is row r (16 bytes) of matrix i; d[i] gets
 * elements 2t, 2t+1 of row g, or with trans row 2t, 2t+1 of column g. */
void ldmatrix_b16(uint32_t *const d[], const uint8_t *const rows[], int count, bool trans);
/* stmatrix.m8n8: the mirror image. */
void stmatrix_b16(uint8_t *const rows[], const uint32_t *const a[], int count, bool trans);
/* movmatrix.m8n8.trans.b16; d may be a. */
void movmatrix_b16(uint32_t *d, const uint32_t *a);
/* ldmatrix.m16n16.x{1,2}.trans.b8: rows[16 i + r]; registers 2i and 2i+1 belong to matrix i.
 * Byte e of register r: row 4t + e of column g + 8r.  (The copy traits of CUTLASS's C++ say
 * otherwise: they describe what its copy makes of the registers, and of other rows' addresses.) */
void ldmatrix_b8_trans(uint32_t *const d[], const uint8_t *const rows[], int count);
/* stmatrix.m16n8.x{1,2,4}.trans.b8: rows[8 i + r] is column r of matrix i, 16 bytes; byte e of the
 * register: row g + 8 (e/2), column 2t + e%2. */
void stmatrix_b8_trans(uint8_t *const rows[], const uint32_t *const a[], int count);

/* A type of elements as opcodes name it; fmt of floating ones. */
struct mma_element {
    const char *name;
    uint8_t fmt, bits, sgn, integer;
};
const struct mma_element *mma_element_named(const char *name); /* NULL: none */

enum mma_kind { MMA_FLOAT, MMA_INT };
enum { MMA_SPARSE_K = 128, MMA_SPARSE_NOWHERE = 255 };

/* One form of mma.sync.  Elements of A and B: formats, or signedness of integers. */
struct mma_sync {
    int m, n, k;
    enum mma_kind kind;
    enum num_fmt a, b;       /* MMA_FLOAT: F16 BF16 TF32 E4M3 E5M2 E2M3 E3M2 E2M1 */
    bool a_signed, b_signed; /* MMA_INT */
    int bits;                /* of an element of A and B: 4, 8, 16, 32 */
    enum num_fmt c, d;       /* F32 or F16; ignored for integers */
    bool saturate;           /* .satfinite */
    int scales;              /* block-scaled kinds: factors of a row, 1, 2 or 4 (scale_vec) */
    bool sparse;             /* mma.sp: A holds half of its k elements */
    /* mma.sp, of one execution: the column of each element of A that is held */
    const uint8_t (*columns)[MMA_SPARSE_K / 2];
};

/* Factors of the blocks of k elements, from k 0: of row i of A, of column j of B (PTX ISA, Block
 * Scaling for mma.sync). */
struct mma_scales {
    float a[16][4], b[8][4];
};

/* NULL and the register counts when the ISA has this form, else a sentence. */
const char *mma_sync_check(const struct mma_sync *op, int *a_regs, int *b_regs, int *c_regs,
                           int *d_regs);
/* d = a * b + c; d may be c.  NULL, or what is wrong with a sparse A. */
const char *mma_sync(const struct mma_sync *op, uint32_t *const d[], const uint32_t *const a[],
                     const uint32_t *const b[], const uint32_t *const c[],
                     const struct mma_model *model);
/* The same with op->scales factors to a row. */
const char *mma_sync_scaled(const struct mma_sync *op, const struct mma_scales *f,
                            uint32_t *const d[], const uint32_t *const a[],
                            const uint32_t *const b[], const uint32_t *const c[],
                            const struct mma_model *model);
/* Picks the factors from the words sa and sb of the lanes, as the selectors {byte, thread} say, in
 * format ue8m0 or ue4m3; NULL, or what is wrong with the selectors. */
const char *mma_scales_pick(const struct mma_sync *op, enum num_fmt format, const uint32_t *sa,
                            const uint32_t select_a[2], const uint32_t *sb,
                            const uint32_t select_b[2], struct mma_scales *out);

/* Reads the metadata of mma.sp (PTX ISA, Sparse matrix storage) from a register of the warp; NULL,
 * or what is wrong with it. */
const char *mma_sparse_columns(const struct mma_sync *op, bool ordered, const uint32_t *meta,
                               uint32_t selector, uint8_t columns[16][MMA_SPARSE_K / 2]);

/* The columns that four bits of metadata name, for the chunk-th chunk of a row of elements of so
 * many bits: 2 of 4, 1 of 2 (32 bits), 4 of 8 in pairs (4 bits); NULL, or what is wrong with them.
 * Where both name one column, as CUTLASS writes for a chunk of zeros, the second has
 * MMA_SPARSE_NOWHERE.
 */
const char *mma_sparse_chunk(int bits, uint32_t code, bool ordered, int chunk, uint8_t *out);
/* n words, `step` apart, to their columns among k, zeros elsewhere; NULL, or that one without a
 * column is not zero. */
const char *mma_sparse_row(const uint8_t *column, const void *held, int step, int n, int k,
                           void *out);

/* ldmatrix .m8n16 and .m16n16 with .b8x16.b4x16_p64 or .b6x16_p32: 16 codes of 4 bits (in the first
 * 8 bytes of the row) or 6 (in 12) to 16 bytes, 4-bit ones in bits 5:2. */
void ldmatrix_expand(uint8_t out[16], const uint8_t *row, int bits);
/* ldmatrix.m8n16: byte e of the register is column 4t + e of row g. */
void ldmatrix_b8(uint32_t *const d[], const uint8_t *const rows[], int count);

/* mma.sync f64, m8n8k4, m16n8k4, m16n8k8, m16n8k16: registers are 32 lanes of double. */
const char *mma_f64_check(int m, int n, int k, int *a_regs, int *b_regs, int *c_regs);
void mma_f64(int m, int k, double *const d[], const double *const a[], const double *const b[],
             const double *const c[], enum num_round round);

#endif
