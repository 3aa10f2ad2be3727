/* umma_run.c: the product of tcgen05.mma (see umma.h): operands to numbers, scale factors, D.
 *
 * A scale factor multiplies its operand before the product, in f32: exact unless the scaled operand
 * leaves the range of f32, which hardware need not do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "umma.h"
#include "tmem.h"
#include "warp_matrix.h"
#include <string.h>

/* --- The product --- */

enum { MAX_M = 128, MAX_N = 256, MAX_K = 128 };

/* One operand as numbers: value(row, k) = f[row * row_step + k * k_step]. */
struct operand {
    union {
        float f[MAX_N * MAX_K];
        int32_t s[MAX_N * MAX_K];
    };
    int row_step, k_step;
};

/* n codes of 4 or 6 bits to one in a byte, in place; they come in groups of 16 bytes. */
static void spread(const struct umma *u, enum num_fmt f, bool tmem, uint8_t *raw, uint32_t n) {
    uint8_t out[MAX_N * MAX_K];
    const bool four = f == NUM_E2M1, packed = u->shape.kind >= UMMA_MXF4;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *chunk = raw + (packed ? i / 2 : i / 16 * 16);
        const uint32_t at = i % 16 * 6;
        if (packed)
            out[i] = chunk[0] >> 4 * (i % 2) & 15;
        else if (tmem)
            out[i] = four ? raw[i] >> 2 & 15 : raw[i] & 63;
        else if (four)
            out[i] = chunk[i % 16 / 2] >> 4 * (i % 2) & 15;
        else
            out[i] = (uint8_t)((chunk[at / 8] | chunk[at / 8 + 1] << 8) >> at % 8 & 63);
    }
    memcpy(raw, out, n);
}

static void unpack(const struct umma *u, bool is_a, bool tmem, uint8_t *raw, uint32_t n,
                   struct operand *o) {
    const struct umma_shape *s = &u->shape;
    const enum num_fmt f = is_a ? s->a : s->b;
    const bool negate = is_a ? s->neg_a : s->neg_b;
    if (s->kind == UMMA_I8) {
        matrix_unpack_s8(raw, o->s, n, is_a ? s->a_signed : s->b_signed);
        return;
    }
    if (f == NUM_E2M1 || f == NUM_E2M3 || f == NUM_E3M2)
        spread(u, f, tmem, raw, n);
    num_unpack(f, raw, o->f, n);
    for (uint32_t i = 0; negate && i < n; i++)
        o->f[i] = -o->f[i];
}

static void steps(struct operand *o, bool mn, uint32_t rows, uint32_t k) {
    o->row_step = mn ? 1 : (int)k;
    o->k_step = mn ? (int)rows : 1;
}

static void load_view(const struct umma *u, const struct matrix_view *v, const struct umma_cta *c,
                      bool is_a, uint32_t rows, struct operand *o) {
    static _Thread_local uint8_t raw[MAX_N * MAX_K];
    const uint32_t k = is_a ? umma_held(u) : u->shape.k;
    view_gather(v, c->smem, raw);
    unpack(u, is_a, false, raw, rows * k, o);
    steps(o, v->mn_major, rows, k);
}

static uint32_t lane_of(const struct umma *u, uint32_t row) {
    return umma_half_lanes(u) ? (u->d >> 16) + 32 * (row / 16) + row % 16 : row;
}

/* A from the lanes of group g. */
static void load_a_tmem(const struct umma *u, const struct umma_cta *c, uint32_t rows, uint32_t g,
                        struct operand *o) {
    static _Thread_local uint8_t raw[MAX_M * MAX_K];
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t from = u->form.ashift && r + 1 < rows ? r + 1 : r;
        memcpy(raw + 32 * r,
               c->tmem + (lane_of(u, from) + rows * g) * TMEM_ROW + (u->a_addr & 0xffff), 32);
    }
    unpack(u, true, true, raw, rows * umma_held(u), o);
    steps(o, false, rows, umma_held(u));
}

/* A at the columns that the metadata name, zeros elsewhere. */
static const char *expand_a(const struct umma *u, uint32_t c, uint32_t rows, struct operand *a) {
    static _Thread_local struct operand held;
    const int k = (int)u->shape.k, n = (int)umma_held(u);
    const char *bad = NULL;
    if (!u->form.sparse)
        return NULL;
    memcpy(held.s, a->s, sizeof *a->s * rows * (uint32_t)n);
    for (uint32_t r = 0; r < rows && !bad; r++) {
        uint8_t column[MAX_K / 2];
        bad = umma_columns(u, c, r, column);
        if (!bad)
            bad = mma_sparse_row(column, held.s + (int)r * a->row_step, a->k_step, n, k,
                                 a->s + (int)r * k);
    }
    steps(a, false, rows, (uint32_t)k);
    return bad;
}

/* B of both CTAs as [k][n], which the product reads along n. */
static void load_b(const struct umma *u, struct operand *b) {
    static _Thread_local struct operand part;
    const struct matrix_view v = umma_view_b(u);
    const uint32_t rows = umma_rows_b(u), k = u->shape.k, n = u->shape.n;
    for (uint32_t c = 0; c < u->form.cta_group; c++) {
        load_view(u, &v, &u->cta[c], false, rows, &part);
        if (u->shape.b_mn) {
            for (uint32_t i = 0; i < k; i++)
                memcpy(b->s + i * n + c * rows, part.s + i * rows, 4 * rows);
        } else {
            for (uint32_t j = 0; j < rows; j++)
                for (uint32_t i = 0; i < k; i++)
                    b->s[i * n + c * rows + j] = part.s[j * k + i];
        }
    }
    b->k_step = (int)n;
}

/* Columns that count as zero. */
static void clear_columns(const struct umma *u, struct operand *b) {
    uint64_t mask[4];
    const char *why;
    umma_zero_columns(u->zero_columns, u->shape.m, u->shape.n, mask, &why);
    for (uint32_t j = 0; j < u->shape.n; j++)
        for (uint32_t i = 0; mask[j / 64] >> j % 64 & 1 && i < u->shape.k; i++)
            b->s[i * u->shape.n + j] = 0;
}

/* --- Scale factors --- */

/* Factor `at` of a row, counted from the byte `id` of the first word; from `lane` on. */
static float scale(const struct umma *u, const uint32_t *cells, bool is_a, uint32_t lane,
                   uint32_t row, uint32_t at) {
    const uint32_t byte = at + (is_a ? u->shape.sfa_id : u->shape.sfb_id);
    const struct tmem_span s = is_a ? umma_span_sfa(u, byte / 4) : umma_span_sfb(u, byte / 4);
    const uint32_t word = cells[(lane + row % 32) * TMEM_ROW + s.column + row / 32];
    const uint32_t code = word >> 8 * (byte % 4) & 0xff;
    return (float)num_to_f64(u->shape.sf_ue4m3 ? NUM_UE4M3 : NUM_UE8M0, code);
}

static void scale_a(const struct umma *u, const struct umma_cta *c, uint32_t rows,
                    struct operand *a) {
    const uint32_t block = u->shape.k / umma_scales(u);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < u->shape.k; k += block) {
            const float f = scale(u, c->tmem, true, 0, r, k / block);
            for (uint32_t i = k; i < k + block; i++)
                a->f[(int)r * a->row_step + (int)i * a->k_step] *= f;
        }
}

static void scale_b(const struct umma *u, const struct umma_cta *c, const struct operand *from,
                    struct operand *b) {
    const uint32_t block = u->shape.k / umma_scales(u), n = u->shape.n;
    const uint32_t groups = umma_lane_groups(u), part = n / groups, lanes = 128 / groups;
    b->k_step = from->k_step;
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t k = 0; k < u->shape.k; k += block) {
            const float f = scale(u, c->tmem, false, j / part * lanes, j % part, k / block);
            for (uint32_t i = k; i < k + block; i++)
                b->f[i * n + j] = from->f[i * n + j] * f;
        }
}

/* --- Blocks of D --- */

/* One group of lanes of one CTA. */
struct block {
    uint32_t cta, rows, group, first_n, n;
};

static bool masked(const struct umma *u, uint32_t cta, uint32_t lane) {
    return u->lane_mask[4 * cta + lane / 32] >> lane % 32 & 1;
}

/* f16 D: low half of each cell, through f32 rows. */
static void run_half(const struct umma *u, const struct block *k, uint32_t *const cells[],
                     struct product *p, const struct mma_model *model) {
    static _Thread_local float d[MAX_M][MAX_N];
    f32_cell *rows[MAX_M];
    for (uint32_t r = 0; r < k->rows; r++) {
        rows[r] = cells[r] ? d[r] : NULL;
        for (uint32_t j = 0; cells[r] && j < k->n; j++)
            d[r][j] = num_f16_f32(cells[r][j] & 0xffff) * (1.0f / (float)(1u << u->scale_d));
    }
    p->d = rows;
    matrix_product(p, model);
    for (uint32_t r = 0; r < k->rows; r++)
        for (uint32_t j = 0; cells[r] && j < k->n; j++)
            cells[r][j] = num_f32_f16(d[r][j]);
}

static void run_single(const struct umma *u, const struct block *k, uint32_t *const cells[],
                       struct product *p, const struct mma_model *model) {
    f32_cell *rows[MAX_M];
    for (uint32_t r = 0; r < k->rows; r++) {
        rows[r] = (f32_cell *)cells[r];
        for (uint32_t j = 0; u->scale_d && cells[r] && j < k->n; j++)
            rows[r][j] *= 1.0f / (float)(1u << u->scale_d);
    }
    p->d = rows;
    matrix_product(p, model);
}

static void run_block(const struct umma *u, const struct block *k, const struct operand *a,
                      const struct operand *b, const struct mma_model *model) {
    uint32_t *cells[MAX_M];
    for (uint32_t r = 0; r < k->rows; r++) {
        const uint32_t lane = lane_of(u, r) + k->group * k->rows;
        cells[r] = masked(u, k->cta, lane)
                       ? NULL
                       : u->cta[k->cta].tmem + lane * TMEM_ROW + (u->d & 0xffff);
    }
    const int m = (int)k->rows, n = (int)k->n, depth = (int)u->shape.k;
    if (u->shape.kind == UMMA_I8) {
        const struct product_s32 p = {.m = m,
                                      .n = n,
                                      .k = depth,
                                      .a = a->s,
                                      .a_row = a->row_step,
                                      .a_col = a->k_step,
                                      .b = b->s + k->first_n,
                                      .b_row = b->k_step,
                                      .d = (int32_t *const *)cells,
                                      .accumulate = u->accumulate,
                                      .saturate = u->shape.saturate};
        matrix_product_s32(&p);
        return;
    }
    struct product p = {.m = m,
                        .n = n,
                        .k = depth,
                        .a = a->f,
                        .a_row = a->row_step,
                        .a_col = a->k_step,
                        .b = b->f + k->first_n,
                        .b_row = b->k_step,
                        .accumulate = u->accumulate};
    if (u->shape.d_f16)
        run_half(u, k, cells, &p, model);
    else
        run_single(u, k, cells, &p, model);
}

/* A of CTA c, as the lanes of group g see it. */
static const char *load_a(const struct umma *u, uint32_t c, uint32_t g, struct operand *a) {
    const uint32_t rows = umma_rows_a(u);
    const struct matrix_view v = umma_view_a(u);
    if (u->form.a_tmem)
        load_a_tmem(u, &u->cta[c], rows, g, a);
    else if (!g)
        load_view(u, &v, &u->cta[c], true, rows, a);
    else
        return NULL; /* the same */
    const char *bad = expand_a(u, c, rows, a);
    if (u->form.scales && !bad)
        scale_a(u, &u->cta[c], rows, a);
    return bad;
}

const char *umma_run(const struct umma *u, const struct mma_model *model) {
    static _Thread_local struct operand a, b, scaled;
    const uint32_t groups = umma_lane_groups(u), n = u->shape.n / groups;
    load_b(u, &b);
    if (u->zero_columns)
        clear_columns(u, &b);
    for (uint32_t c = 0; c < u->form.cta_group; c++) {
        if (u->form.scales)
            scale_b(u, &u->cta[c], &b, &scaled);
        for (uint32_t g = 0; g < groups; g++) {
            const char *bad = load_a(u, c, g, &a);
            if (bad)
                return bad;
            const struct block k = {c, umma_rows_a(u), g, g * n, n};
            run_block(u, &k, &a, u->form.scales ? &scaled : &b, model);
        }
    }
    return NULL;
}
