/* wgmma.c: see wgmma.h.  PTX ISA: wgmma.mma_async, its register fragments and matrix layouts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "wgmma.h"
#include "tensormap.h"
#include "warp_matrix.h"
#include <stdio.h>
#include <string.h>

enum { M = 64, MAX_N = 256, MAX_K = 64, LANES = 32 };

/* Elements of a row of A that are there: 32 bytes. */
static uint32_t held_of(const struct wgmma_form *f) {
    return f->sparse ? f->k / 2 : f->k;
}
static uint32_t elem_of(const struct wgmma_form *f) {
    return 32 / held_of(f);
}

const char *wgmma_check(const struct wgmma_form *f, int *d_regs, int *a_regs) {
    if (f->n < 8 || f->n > 256 || f->n % 8)
        return "N must be 8 to 256 in steps of 8";
    if (f->integer) {
        if (f->n > 32 && f->n % 16)
            return "integer N must be 8, 16, 24, 32, then up to 256 in steps of 16";
        if (held_of(f) != 32)
            return f->sparse ? "sparse 8-bit integers have k64" : "8-bit integers have k32";
    } else {
        const bool half = f->a == NUM_F16 || f->a == NUM_BF16,
                   fp8 = f->a == NUM_E4M3 || f->a == NUM_E5M2;
        if (!half && !fp8 && f->a != NUM_TF32)
            return "no wgmma of this type";
        if (fp8 ? f->b != NUM_E4M3 && f->b != NUM_E5M2 : f->a != f->b)
            return "no wgmma mixes these types";
        if (held_of(f) != (half ? 16u : fp8 ? 32u : 8u))
            return "k must be 32 bytes: k16 for 16-bit, k8 for tf32, k32 for 8-bit types, and "
                   "twice that with a sparse A";
        if (f->d_f16 && f->a != NUM_F16 && !fp8)
            return "D is f16 with f16 and 8-bit operands only";
    }
    *d_regs = (int)(f->d_f16 ? f->n / 4 : f->n / 2);
    *a_regs = 4;
    return NULL;
}

static struct matrix_view view(const struct matrix_desc *d, bool mn, uint32_t rows, uint32_t k,
                               uint32_t elem) {
    return mn ? (struct matrix_view){*d, true, k, rows * elem / 16}
              : (struct matrix_view){*d, false, rows, k * elem / 16};
}
struct matrix_view wgmma_view_a(const struct wgmma *w) {
    return view(&w->a, w->a_mn, M, held_of(&w->form), elem_of(&w->form));
}
struct matrix_view wgmma_view_b(const struct wgmma *w) {
    return view(&w->b, w->b_mn, w->form.n, w->form.k, elem_of(&w->form));
}

#define REFUSE(...)                                                                                \
    do {                                                                                           \
        snprintf(why, why_bytes, __VA_ARGS__);                                                     \
        return false;                                                                              \
    } while (0)

bool wgmma_prepare(struct wgmma *w, uint64_t word_a, uint64_t word_b, char *why, size_t why_bytes) {
    const struct wgmma_form *f = &w->form;
    if ((w->a_mn || w->b_mn) && elem_of(f) != 2)
        REFUSE("wgmma: transposed operands exist for 16-bit types only");
    if (w->a_mn && f->a_regs)
        REFUSE("wgmma: A in registers cannot be transposed");
    if ((w->neg_a || w->neg_b) && f->integer)
        REFUSE("wgmma: integers have no negation");
    if (!f->a_regs && !desc_decode_sm90(&w->a, word_a, why, why_bytes))
        return false;
    if (!desc_decode_sm90(&w->b, word_b, why, why_bytes))
        return false;
    const struct matrix_view a = wgmma_view_a(w), b = wgmma_view_b(w);
    const char *bad = f->a_regs ? NULL : view_refuse(&a);
    if (bad)
        REFUSE("A: %s", bad);
    bad = view_refuse(&b);
    if (bad)
        REFUSE("B: %s", bad);
    return true;
}

union numbers {
    float f[MAX_N * MAX_K];
    int32_t s[MAX_N * MAX_K];
};

static void unpack(const struct wgmma_form *f, bool is_a, bool negate, const uint8_t *raw,
                   uint32_t n, union numbers *out) {
    if (f->integer) {
        matrix_unpack_s8(raw, out->s, n, is_a ? f->a_signed : f->b_signed);
        return;
    }
    num_unpack(is_a ? f->a : f->b, raw, out->f, n);
    for (uint32_t i = 0; negate && i < n; i++)
        out->f[i] = -out->f[i];
}

/* A at the columns that the metadata name, zeros elsewhere; NULL, or what is wrong with them. */
static const char *expand_a(const struct wgmma *w, int row_step, int k_step, union numbers *a) {
    static _Thread_local union numbers held;
    const struct wgmma_form *f = &w->form;
    const struct mma_sync op = {.k = (int)f->k, .bits = (int)(8 * elem_of(f))};
    const uint32_t n = held_of(f);
    memcpy(&held, a, sizeof(float) * M * n);
    for (uint32_t warp = 0; warp < 4; warp++) {
        uint8_t column[16][MMA_SPARSE_K / 2];
        const char *bad = mma_sparse_columns(&op, true, w->meta[warp], w->selector, column);
        if (bad)
            return bad;
        for (uint32_t i = 0; i < 16 && !bad; i++) {
            const int row = (int)(16 * warp + i);
            bad = mma_sparse_row(column[i], held.s + row * row_step, k_step, (int)n, (int)f->k,
                                 a->s + row * (int)f->k);
        }
        if (bad)
            return bad;
    }
    return NULL;
}

static void load_a(const struct wgmma *w, union numbers *a, int *row_step, int *k_step) {
    static _Thread_local uint8_t raw[M * 32];
    const struct matrix_view v = wgmma_view_a(w);
    if (w->form.a_regs) {
        for (int row = 0; row < M; row++)
            for (int word = 0; word < 8; word++) {
                const int r = (row % 16 >= 8) + 2 * (word / 4), lane = row % 8 * 4 + word % 4;
                memcpy(raw + row * 32 + word * 4, &w->a_reg[row / 16][r][lane], 4);
            }
    } else {
        view_gather(&v, w->smem, raw);
    }
    unpack(&w->form, true, w->neg_a, raw, M * held_of(&w->form), a);
    *row_step = w->a_mn ? 1 : (int)held_of(&w->form);
    *k_step = w->a_mn ? M : 1;
}

static void load_b(const struct wgmma *w, union numbers *b) {
    static _Thread_local uint8_t raw[MAX_N * 64];
    static _Thread_local union numbers rows;
    const struct matrix_view v = wgmma_view_b(w);
    const uint32_t n = w->form.n, k = w->form.k;
    view_gather(&v, w->smem, raw);
    if (w->b_mn) {
        unpack(&w->form, false, w->neg_b, raw, n * k, b);
        return;
    }
    unpack(&w->form, false, w->neg_b, raw, n * k, &rows);
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < k; i++)
            b->s[i * n + j] = rows.s[j * k + i];
}

/* Between registers and rows of D; words are moved as they are, f16 pairs converted. */
static void get_d(const struct wgmma *w, uint32_t d[M][MAX_N]) {
    const int regs = (int)(w->form.d_f16 ? w->form.n / 4 : w->form.n / 2);
    for (int warp = 0; warp < 4; warp++)
        for (int i = 0; i < regs; i++)
            for (int l = 0; l < LANES; l++) {
                const uint32_t v = w->d[warp][i][l];
                uint32_t *row = d[16 * warp + l / 4];
                if (w->form.d_f16) {
                    row += (i & 1) * 8 * MAX_N + 8 * (i >> 1) + 2 * (l % 4);
                    row[0] = num_bits32(num_f16_f32(v & 0xffff));
                    row[1] = num_bits32(num_f16_f32(v >> 16));
                } else {
                    row[(i >> 1 & 1) * 8 * MAX_N + 8 * (i >> 2) + 2 * (l % 4) + (i & 1)] = v;
                }
            }
}

static void put_d(const struct wgmma *w, uint32_t d[M][MAX_N]) {
    const int regs = (int)(w->form.d_f16 ? w->form.n / 4 : w->form.n / 2);
    for (int warp = 0; warp < 4; warp++)
        for (int i = 0; i < regs; i++)
            for (int l = 0; l < LANES; l++) {
                const uint32_t *row = d[16 * warp + l / 4];
                if (w->form.d_f16) {
                    row += (i & 1) * 8 * MAX_N + 8 * (i >> 1) + 2 * (l % 4);
                    w->d[warp][i][l] =
                        num_f32_f16(num_float(row[0])) | num_f32_f16(num_float(row[1])) << 16;
                } else {
                    w->d[warp][i][l] =
                        row[(i >> 1 & 1) * 8 * MAX_N + 8 * (i >> 2) + 2 * (l % 4) + (i & 1)];
                }
            }
}

const char *wgmma_run(const struct wgmma *w, const struct mma_model *model) {
    static _Thread_local union numbers a, b;
    static _Thread_local uint32_t d[M][MAX_N];
    const struct wgmma_form *f = &w->form;
    int row_step, k_step;
    load_a(w, &a, &row_step, &k_step);
    if (f->sparse) {
        const char *bad = expand_a(w, row_step, k_step, &a);
        if (bad)
            return bad;
        row_step = (int)f->k;
        k_step = 1;
    }
    load_b(w, &b);
    if (w->accumulate)
        get_d(w, d);
    uint32_t *rows[M];
    for (int i = 0; i < M; i++)
        rows[i] = d[i];
    if (f->integer) {
        const struct product_s32 p = {.m = M,
                                      .n = (int)f->n,
                                      .k = (int)f->k,
                                      .a = a.s,
                                      .a_row = row_step,
                                      .a_col = k_step,
                                      .b = b.s,
                                      .b_row = (int)f->n,
                                      .d = (int32_t *const *)rows,
                                      .accumulate = w->accumulate,
                                      .saturate = f->saturate};
        matrix_product_s32(&p);
    } else {
        f32_cell *cells[M];
        for (int i = 0; i < M; i++)
            cells[i] = (f32_cell *)rows[i];
        const struct product p = {.m = M,
                                  .n = (int)f->n,
                                  .k = (int)f->k,
                                  .a = a.f,
                                  .a_row = row_step,
                                  .a_col = k_step,
                                  .b = b.f,
                                  .b_row = (int)f->n,
                                  .d = cells,
                                  .accumulate = w->accumulate};
        matrix_product(&p, model);
    }
    put_d(w, d);
    return NULL;
}
