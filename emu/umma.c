/* umma.c: instruction descriptors and legality of tcgen05.mma (see umma.h).
 *
 * PTX ISA: Instruction Descriptor, Matrix Shape, Transpose and Negate operations.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "umma.h"
#include "tensormap.h"
#include "tmem.h"
#include <stdio.h>
#include <string.h>

#define REFUSE(...)                                                                                \
    do {                                                                                           \
        snprintf(why, why_bytes, __VA_ARGS__);                                                     \
        return false;                                                                              \
    } while (0)

static uint32_t field(uint32_t word, int low, int bits) {
    return word >> low & ((1u << bits) - 1);
}

static bool operand_type(enum umma_kind kind, uint32_t code, enum num_fmt *f) {
    static const enum num_fmt small[] = {NUM_E4M3, NUM_E5M2, NUM_FMTS,
                                         NUM_E2M3, NUM_E3M2, NUM_E2M1};
    switch (kind) {
    case UMMA_F16:
        *f = code ? NUM_BF16 : NUM_F16;
        return code < 2;
    case UMMA_TF32:
        *f = NUM_TF32;
        return code == 2;
    case UMMA_F8F6F4:
        if (code > 5 || small[code] == NUM_FMTS)
            return false;
        *f = small[code];
        return true;
    case UMMA_I8:
        return code < 2;
    default:
        return false;
    }
}

static const char *const kinds[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};

static bool check_shape(const struct umma_shape *s, const struct umma_form *f, char *why,
                        size_t why_bytes) {
    const char *kind = kinds[s->kind];
    if (f->ws) {
        if (f->cta_group != 1)
            REFUSE("tcgen05.mma.ws exists for cta_group::1 only");
        if ((s->m != 32 && s->m != 64 && s->m != 128) || (s->n != 64 && s->n != 128 && s->n != 256))
            REFUSE("kind::%s .ws: M %u N %u; M must be 32, 64 or 128 and N 64, 128 or 256", kind,
                   s->m, s->n);
        return true;
    }
    const uint32_t m0 = f->cta_group == 1 ? 64 : 128;
    if (s->m != m0 && s->m != 2 * m0)
        REFUSE("kind::%s cta_group::%u: M is %u, must be %u or %u", kind, f->cta_group, s->m, m0,
               2 * m0);
    const uint32_t step = f->cta_group == 1 ? 8 : 16;
    if (s->n < step || s->n > 256 || s->n % step)
        REFUSE("kind::%s cta_group::%u: N is %u, must be %u to 256 in steps of %u", kind,
               f->cta_group, s->n, step, step);
    if (s->kind == UMMA_I8 && (f->cta_group == 1 ? s->n > 32 && s->n % 16 : s->n % 32))
        REFUSE("kind::i8 cta_group::%u: N is %u, must be %s", f->cta_group, s->n,
               f->cta_group == 1 ? "8, 16, 24, 32, then up to 256 in steps of 16"
                                 : "32 to 256 in steps of 32");
    const uint32_t step8 = f->cta_group == 1 ? 16 : 32;
    if (s->elem == 1 && s->b_mn && s->n % step8)
        REFUSE("kind::%s: an MN-major 8-bit B needs N in steps of %u, not %u", kind, step8, s->n);
    return true;
}

bool umma_decode(struct umma_shape *s, uint32_t idesc, const struct umma_form *f, char *why,
                 size_t why_bytes) {
    *s = (struct umma_shape){.kind = f->kind,
                             .m = field(idesc, 24, 5) * 16,
                             .n = field(idesc, 17, 6) * 8,
                             .a_mn = field(idesc, 15, 1),
                             .b_mn = field(idesc, 16, 1),
                             .neg_a = field(idesc, 13, 1),
                             .neg_b = field(idesc, 14, 1),
                             .saturate = field(idesc, 3, 1)};
    if (f->kind >= UMMA_MXF8F6F4)
        REFUSE("block-scaled kind::%s is not modelled by this emulator", kinds[f->kind]);
    if (field(idesc, 2, 1) || field(idesc, 0, 2))
        REFUSE("instruction descriptor 0x%08x: sparse (bits 0-2 are %u), in a dense instruction",
               idesc, field(idesc, 0, 3));
    if (field(idesc, 6, 1) || field(idesc, 23, 1) || field(idesc, 29, 1))
        REFUSE("instruction descriptor 0x%08x: a reserved bit (6, 23 or 29) is set", idesc);
    if (field(idesc, 30, 2) && !f->ws)
        REFUSE("instruction descriptor 0x%08x: a maximum shift (bits 30-31) without .ws", idesc);
    if (s->saturate && f->kind != UMMA_I8)
        REFUSE("instruction descriptor 0x%08x: saturate (bit 3) is for kind::i8", idesc);
    if ((s->neg_a || s->neg_b) && f->kind == UMMA_I8)
        REFUSE("instruction descriptor 0x%08x: kind::i8 has no negation (bits 13, 14)", idesc);
    const uint32_t d = field(idesc, 4, 2), a = field(idesc, 7, 3), b = field(idesc, 10, 3);
    if (!operand_type(f->kind, a, &s->a) || !operand_type(f->kind, b, &s->b))
        REFUSE("instruction descriptor 0x%08x: types A %u, B %u do not exist for kind::%s", idesc,
               a, b, kinds[f->kind]);
    if (f->kind == UMMA_F16 && a != b)
        REFUSE("instruction descriptor 0x%08x: A and B mix f16 and bf16", idesc);
    s->a_signed = a == 1;
    s->b_signed = b == 1;
    const bool half_d = d == 0 && (f->kind == UMMA_F8F6F4 || (f->kind == UMMA_F16 && a == 0));
    if (!half_d && d != (f->kind == UMMA_I8 ? 2 : 1))
        REFUSE("instruction descriptor 0x%08x: type %u of D does not exist for kind::%s with these "
               "A and "
               "B",
               idesc, d, kinds[f->kind]);
    s->d_f16 = half_d;
    if (f->kind == UMMA_F8F6F4 && (s->a > NUM_E5M2 || s->b > NUM_E5M2))
        REFUSE("6- and 4-bit operands (A %s, B %s) are not modelled by this emulator",
               num_name(s->a), num_name(s->b));
    s->elem = f->kind == UMMA_F16 ? 2 : f->kind == UMMA_TF32 ? 4 : 1;
    s->k = 32 / s->elem;
    if (f->a_tmem && s->a_mn)
        REFUSE("A in tensor memory is K-major: transpose A (bit 15) must be 0");
    return check_shape(s, f, why, why_bytes);
}

/* --- Placement --- */

/* Rows of A and columns of B that one CTA's shared memory holds. */
static uint32_t rows_a(const struct umma *u) {
    return u->shape.m / u->form.cta_group;
}
static uint32_t rows_b(const struct umma *u) {
    return u->shape.n / u->form.cta_group;
}

static struct matrix_view view(const struct matrix_desc *d, bool mn, uint32_t rows, uint32_t k,
                               uint32_t elem) {
    return mn ? (struct matrix_view){*d, true, k, rows * elem / 16}
              : (struct matrix_view){*d, false, rows, 2};
}

struct matrix_view umma_view_a(const struct umma *u) {
    return view(&u->a, u->shape.a_mn, rows_a(u), u->shape.k, u->shape.elem);
}
struct matrix_view umma_view_b(const struct umma *u) {
    return view(&u->b, u->shape.b_mn, rows_b(u), u->shape.k, u->shape.elem);
}

static bool half_lanes(const struct umma *u) { /* layout F */
    return u->shape.m == 64 && !u->form.ws && u->form.cta_group == 1;
}

/* Groups of lanes among which N is divided: layouts B and E 2, G 4. */
static uint32_t lane_groups(const struct umma *u) {
    if (u->form.ws)
        return 128 / u->shape.m;
    return u->form.cta_group == 2 && u->shape.m == 128 ? 2 : 1;
}

struct tmem_span umma_span_d(const struct umma *u) {
    return (struct tmem_span){15, (uint16_t)(u->d & 0xffff),
                              (uint16_t)(u->shape.n / lane_groups(u))};
}

struct tmem_span umma_span_a(const struct umma *u) {
    return (struct tmem_span){15, (uint16_t)(u->a_addr & 0xffff), u->form.a_tmem ? 8 : 0};
}

static bool check_tmem(const struct umma *u, char *why, size_t why_bytes) {
    const uint32_t lane = u->d >> 16;
    const struct tmem_span d = umma_span_d(u), a = umma_span_a(u);
    if (half_lanes(u) ? lane != 0 && lane != 16 : lane != 0)
        REFUSE("D at tensor memory 0x%08x: lane %u, must be %s for M %u", u->d, lane,
               half_lanes(u) ? "0 or 16" : "0", u->shape.m);
    if (d.column + d.columns > TMEM_ROW)
        REFUSE("D at tensor memory 0x%08x: %u columns run past 511", u->d, d.columns);
    if (!u->form.a_tmem)
        return true;
    if (u->a_addr >> 16 != lane)
        REFUSE("A at tensor memory 0x%08x: lane %u, must be that of D, %u", u->a_addr,
               u->a_addr >> 16, lane);
    if (a.column + a.columns > TMEM_ROW)
        REFUSE("A at tensor memory 0x%08x: %u columns run past 511", u->a_addr, a.columns);
    return true;
}

static bool check_layout(const struct umma *u, const struct matrix_view *v, char name, char *why,
                         size_t why_bytes) {
    const bool atom32 = v->desc.swizzle == SWIZZLE_128B_ATOM_32B;
    if (v->mn_major && (u->shape.kind == UMMA_TF32) != atom32)
        REFUSE("%c: MN-major %s the swizzle 128B with 32-byte atoms", name,
               atom32 ? "of this type does not exist with" : "tf32 needs");
    const char *bad = view_refuse(v);
    if (bad)
        REFUSE("%c: %s", name, bad);
    return true;
}

bool umma_prepare(struct umma *u, uint32_t idesc, uint64_t word_a, uint64_t word_b, char *why,
                  size_t why_bytes) {
    if (!umma_decode(&u->shape, idesc, &u->form, why, why_bytes))
        return false;
    if (!desc_decode_sm100(&u->b, word_b, why, why_bytes))
        return false;
    if (!u->form.a_tmem && !desc_decode_sm100(&u->a, word_a, why, why_bytes))
        return false;
    const struct matrix_view a = umma_view_a(u), b = umma_view_b(u);
    if (!u->form.a_tmem && !check_layout(u, &a, 'A', why, why_bytes))
        return false;
    if (!check_layout(u, &b, 'B', why, why_bytes) || !check_tmem(u, why, why_bytes))
        return false;
    if (u->scale_d > 15 || (u->scale_d && u->shape.kind > UMMA_TF32))
        REFUSE("scale-input-d is %u: 0 to 15, for kind::f16 and kind::tf32 only", u->scale_d);
    return true;
}

/* --- The product --- */

enum { MAX_M = 128, MAX_N = 256, MAX_K = 32 };

/* One operand as numbers: value(row, k) = f[row * row_step + k * k_step]. */
struct operand {
    union {
        float f[MAX_N * MAX_K];
        int32_t s[MAX_N * MAX_K];
    };
    int row_step, k_step;
};

static void unpack(const struct umma *u, enum num_fmt f, bool is_signed, bool negate,
                   const uint8_t *raw, uint32_t n, struct operand *o) {
    if (u->shape.kind == UMMA_I8) {
        matrix_unpack_s8(raw, o->s, n, is_signed);
        return;
    }
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
    static _Thread_local uint8_t raw[MAX_N * 32];
    const struct umma_shape *s = &u->shape;
    view_gather(v, c->smem, raw);
    unpack(u, is_a ? s->a : s->b, is_a ? s->a_signed : s->b_signed, is_a ? s->neg_a : s->neg_b, raw,
           rows * s->k, o);
    steps(o, v->mn_major, rows, s->k);
}

static uint32_t lane_of(const struct umma *u, uint32_t row) {
    return half_lanes(u) ? (u->d >> 16) + 32 * (row / 16) + row % 16 : row;
}

/* A from the lanes of group g. */
static void load_a_tmem(const struct umma *u, const struct umma_cta *c, uint32_t rows, uint32_t g,
                        struct operand *o) {
    static _Thread_local uint8_t raw[MAX_M * 32];
    for (uint32_t r = 0; r < rows; r++)
        memcpy(raw + 32 * r, c->tmem + (lane_of(u, r) + rows * g) * TMEM_ROW + (u->a_addr & 0xffff),
               32);
    unpack(u, u->shape.a, u->shape.a_signed, u->shape.neg_a, raw, rows * u->shape.k, o);
    steps(o, false, rows, u->shape.k);
}

/* B of both CTAs as [k][n], which the product reads along n. */
static void load_b(const struct umma *u, struct operand *b) {
    static _Thread_local struct operand part;
    const struct matrix_view v = umma_view_b(u);
    const uint32_t rows = rows_b(u), k = u->shape.k, n = u->shape.n;
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

void umma_run(const struct umma *u, const struct mma_model *model) {
    static _Thread_local struct operand a, b;
    const uint32_t groups = lane_groups(u), rows = rows_a(u);
    const struct matrix_view va = umma_view_a(u);
    load_b(u, &b);
    for (uint32_t c = 0; c < u->form.cta_group; c++) {
        if (!u->form.a_tmem)
            load_view(u, &va, &u->cta[c], true, rows, &a);
        for (uint32_t g = 0; g < groups; g++) {
            if (u->form.a_tmem)
                load_a_tmem(u, &u->cta[c], rows, g, &a);
            const struct block k = {c, rows, g, g * (u->shape.n / groups), u->shape.n / groups};
            run_block(u, &k, &a, &b, model);
        }
    }
}
