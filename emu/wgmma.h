/* wgmma.h: wgmma.mma_async of one warpgroup (sm_90a).
 *
 * m64nNk(32 bytes).  Warp w of the group holds rows 16w to 16w+15.  With g = lane/4, t = lane%4:
 *   D, f32 or s32   register i: row g + 8 (i/2 % 2), column 8 (i/4) + 2t + i%2
 *   D, f16          register i: row g + 8 (i%2), columns 8 (i/2) + 2t and + 1
 *   A in registers  register r: row g + 8 (r%2), bytes 4t + 16 (r/2) of K
 *
 * Sparse: k is twice that, of which A holds half; warp w's metadata say of rows 16w to 16w+15 which
 * half, as those of mma.sp.m16n8 of that k do (warp_matrix.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_WGMMA_H
#define EMU_WGMMA_H

#include "desc.h"
#include "matrix.h"

struct wgmma_form { /* from the opcode */
    uint32_t n, k;
    bool integer;
    enum num_fmt a, b;       /* F16, BF16, TF32, E4M3, E5M2 */
    bool a_signed, b_signed; /* integer: s8 or u8 */
    bool d_f16;
    bool a_regs;
    bool saturate;
    bool sparse;
};

/* NULL and the numbers of registers of D and of A in registers, else a sentence. */
const char *wgmma_check(const struct wgmma_form *f, int *d_regs, int *a_regs);

struct wgmma {
    struct wgmma_form form;
    struct matrix_desc a, b;
    bool a_mn, b_mn;       /* imm-trans-a, imm-trans-b */
    bool neg_a, neg_b;     /* imm-scale is -1 */
    bool accumulate;       /* scale-d */
    const uint8_t *smem;   /* address 0 */
    uint32_t *const *d[4]; /* [warp][register] -> 32 lanes */
    const uint32_t *const *a_reg[4];
    const uint32_t *meta[4]; /* [warp] -> 32 lanes */
    uint32_t selector;
};

/* Decodes the descriptors (word_a ignored with A in registers); false with a sentence. */
bool wgmma_prepare(struct wgmma *w, uint64_t word_a, uint64_t word_b, char *why, size_t why_bytes);
struct matrix_view wgmma_view_a(const struct wgmma *w);
struct matrix_view wgmma_view_b(const struct wgmma *w);
/* NULL, or what is wrong with the metadata. */
const char *wgmma_run(const struct wgmma *w, const struct mma_model *model);

#endif
