/* umma.h: tcgen05.mma: instruction descriptors, legality, where D and A lie, the product.
 *
 * K is 32 bytes of each operand row, 48 of dense mxf4 kinds with K = 96 (sm_103a).  4- and 6-bit
 * types lie 16 in 16 bytes of shared memory, padded behind (mxf4 kinds: two in a byte), and one in
 * a byte of tensor memory, 4-bit ones in bits 5:2.  Where row m, column n of D lie in tensor memory
 * (PTX ISA, Data Path Layout Organization):
 *
 *   M 128                 D   lane m, column n
 *   M 64                  F   lane 32 (m/16) + m%16 (+16 when the address says so), column n
 *   M 256, cta_group::2   A   CTA m/128, lane m%128, column n
 *   M 128, cta_group::2   B   CTA m/64, lane m%64 + 64 (n >= N/2), column n % (N/2)
 *   M 64 .ws              E   lane m + 64 (n >= N/2), column n % (N/2)
 *   M 32 .ws              G   lane m + 32 (n / (N/4)), column n % (N/4)
 *
 * A in tensor memory lies in the lanes of D, 32 bytes along 8 columns; layouts B, E and G read a
 * copy of A from each group of lanes.
 *
 * Sparse: k is twice 32 bytes, of which A holds half.  The metadata lie in tensor memory, four bits
 * to a chunk of elements (warp_matrix.h, mma_sparse_chunk); the ISA only draws where, CUTLASS says
 * it in words (tmem_e_frg), for 128 rows in a CTA:
 *
 *   16, 32 bits   lane 16 (m/16) + m%8 + 8 (chunk/4), column selector, bits 16 (m/8 % 2) + 4
 * (chunk%4) 4 to 8 bits   lane m, column chunk/8, bits 4 (chunk%8)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_UMMA_H
#define EMU_UMMA_H

#include "desc.h"
#include "matrix.h"

enum umma_kind {
    UMMA_F16,
    UMMA_TF32,
    UMMA_F8F6F4,
    UMMA_I8,
    UMMA_MXF8F6F4,
    UMMA_MXF4,
    UMMA_MXF4NVF4
};

struct umma_shape { /* a decoded instruction descriptor */
    enum umma_kind kind;
    uint32_t m, n, k;
    enum num_fmt a, b;       /* floating kinds */
    bool a_signed, b_signed; /* i8 */
    bool d_f16;              /* D is f16; otherwise f32, or s32 for i8 */
    bool a_mn, b_mn;         /* transposed: MN-major */
    bool neg_a, neg_b, saturate;
    uint32_t elem;           /* bytes of an element of A and B in memory; mxf4 kinds: two in one */
    uint32_t sfa_id, sfb_id; /* block-scaled kinds: byte of the word where the scales start */
    bool sf_ue4m3;           /* scales are ue4m3, else ue8m0 */
    uint32_t selector;       /* sparse: which column of metadata */
};

/* What the instruction itself says. */
struct umma_form {
    enum umma_kind kind;
    uint32_t cta_group; /* 1 or 2 */
    bool ws, a_tmem;
    uint32_t scales; /* of a row, block-scaled kinds: 1, 2 or 4 (scale_vec); K = 96: 3 for 2, 6
                      * for 4 */
    bool ashift;     /* row r of A is row r + 1 of tensor memory, but for the last */
    bool sparse;
};

/* False: `why` says which field is illegal, and what would be legal. */
bool umma_decode(struct umma_shape *s, uint32_t idesc, const struct umma_form *f, char *why,
                 size_t why_bytes);

struct umma_cta {
    const uint8_t *smem; /* address 0 of the CTA's shared window */
    uint32_t *tmem;      /* [128][512] */
};

struct umma {
    struct umma_form form;
    struct umma_shape shape;
    uint32_t d;              /* tensor memory address */
    uint32_t a_addr;         /* A in tensor memory */
    struct matrix_desc a, b; /* otherwise A; B */
    bool accumulate;         /* enable-input-d */
    uint32_t scale_d;        /* D * 2^-scale_d is added */
    uint32_t sfa, sfb;       /* scale factors in tensor memory */
    uint32_t meta;           /* sparse: metadata in tensor memory */
    uint64_t zero_columns;   /* .ws: zero-column mask descriptor */
    uint32_t lane_mask[8];   /* a set bit: the lane is not written; 4 words for each CTA */
    struct umma_cta cta[2];  /* the even CTA of the pair first */
};

/* Decodes both shared-memory descriptors (word_a ignored when A is in tensor memory) and checks
 * shape, layouts, tensor memory addresses; false with a sentence. */
bool umma_prepare(struct umma *u, uint32_t idesc, uint64_t word_a, uint64_t word_b, char *why,
                  size_t why_bytes);

/* Operands in the shared memory of CTA c, as views (c < cta_group). */
struct matrix_view umma_view_a(const struct umma *u);
struct matrix_view umma_view_b(const struct umma *u);

/* Tensor memory that CTA c's part of the instruction touches: quarters of 32 lanes (bit mask) and
 * columns. */
struct tmem_span {
    uint8_t quarters;
    uint16_t column, columns;
};
struct tmem_span umma_span_d(const struct umma *u);
struct tmem_span umma_span_a(const struct umma *u); /* columns 0 when A is in shared memory */

/* Block-scaled kinds: the words of scale factors; row r of A (column n of B) has word w in lane
 * r%32, column r/32 + 4 w (8 w of more than 128 columns of B), the same in all four quarters; but
 * where N is divided among groups of lanes, each group has those of its part of B (the ISA says
 * nothing of it; CuTe's ScaleFactorDuplicated2by2).  Bytes are counted from the id on; with K = 96
 * they may need a second and a third word.  Columns 0: there is no word w. */
struct tmem_span umma_span_sfa(const struct umma *u, uint32_t w);
struct tmem_span umma_span_sfb(const struct umma *u, uint32_t w);
uint32_t umma_scales(const struct umma *u); /* of a row */
/* NULL, or that the quarters of CTA c differ. */
const char *umma_scales_refuse(const struct umma *u, uint32_t c);
/* Sparse: the words of metadata; the columns of row's elements, NULL, or what is wrong with them.
 */
struct tmem_span umma_span_meta(const struct umma *u);
const char *umma_columns(const struct umma *u, uint32_t c, uint32_t row, uint8_t *columns);
/* Elements of a row of A that are there. */
uint32_t umma_held(const struct umma *u);
/* Bit n: column n of B counts as zero (PTX ISA, Zero-Column Mask Descriptor).  False: why. */
bool umma_zero_columns(uint64_t word, uint32_t m, uint32_t n, uint64_t mask[4], const char **why);

/* Where the product is (umma_run.c): rows of A and of B in one CTA's shared memory; the lanes of
 * layout F; groups of lanes among which N is divided. */
uint32_t umma_rows_a(const struct umma *u);
uint32_t umma_rows_b(const struct umma *u);
bool umma_half_lanes(const struct umma *u);
uint32_t umma_lane_groups(const struct umma *u);

/* NULL, or what is wrong with the metadata. */
const char *umma_run(const struct umma *u, const struct mma_model *model);

#endif
