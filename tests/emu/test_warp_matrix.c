/* test_warp_matrix.c: fragments against the formulas of the PTX ISA, element by element; products
 * against exact integer arithmetic (small values: every order of accumulation is exact).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "warp_matrix.h"
#include "unit.h"
#include <math.h>

enum { L = 32 };

struct at {
    int row, col;
};

/* Element i of lane l of the A fragment, as the sections of the ISA state it for each shape. */
static struct at a_at(int m, int k, int bits, int l, int i) {
    const int g = l >> 2, t = l % 4;
    if (bits == 16 && k == 8)
        return (struct at){i < 2 ? g : g + 8, t * 2 + (i & 1)};
    if (bits == 16)
        return (struct at){i < 2 || (i >= 4 && i < 6) ? g : g + 8,
                           t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
    if (bits == 32 && k == 4)
        return (struct at){i == 0 ? g : g + 8, t};
    if (bits == 32)
        return (struct at){i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
    if (bits == 8 && m == 8)
        return (struct at){g, t * 4 + i};
    if (bits == 8 && k == 16)
        return (struct at){i < 4 ? g : g + 8, t * 4 + (i & 3)};
    if (bits == 8)
        return (struct at){i < 4 || (i >= 8 && i < 12) ? g : g + 8,
                           t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
    if (bits == 4 && m == 8)
        return (struct at){g, t * 8 + i};
    if (bits == 4 && k == 32)
        return (struct at){i < 8 ? g : g + 8, t * 8 + (i & 7)};
    return (struct at){i < 8 || (i >= 16 && i < 24) ? g : g + 8,
                       t * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
}

/* Row is k, column is n. */
static struct at b_at(int bits, int l, int i) {
    const int g = l >> 2, t = l % 4;
    switch (bits) {
    case 16:
        return (struct at){t * 2 + (i & 1) + i / 2 * 8, g};
    case 32:
        return (struct at){t + i * 4, g};
    case 8:
        return (struct at){t * 4 + (i & 3) + i / 4 * 16, g};
    default:
        return (struct at){t * 8 + (i & 7) + i / 8 * 32, g};
    }
}

static struct at c_at(int l, int i) {
    return (struct at){i < 2 ? l >> 2 : (l >> 2) + 8, (l % 4) * 2 + (i & 1)};
}

static uint32_t A[8][L], B[8][L], C[8][L], D[8][L];
static double ma[16][128], mb[128][8], mc[16][8];

static void put(uint32_t regs[8][L], int bits, int l, int i, uint32_t code) {
    const int per = 32 / bits;
    regs[i / per][l] |= code << (bits * (i % per));
}

/* A random value that the format holds exactly, and its code. */
static double pick(const struct mma_sync *op, enum num_fmt f, bool is_signed, uint32_t *code) {
    if (op->kind == MMA_INT) {
        *code = unit_random() & ((1u << op->bits) - 1);
        return is_signed && *code >> (op->bits - 1) ? (double)*code - (1 << op->bits)
                                                    : (double)*code;
    }
    static const double few[] = {0, 1, -1, 2, -2, 0.5, -0.5, 1.5, -1.5, 3};
    const double v = few[unit_random() % 10];
    *code = num_from_f64(f, v, NUM_RN, 0);
    if (f == NUM_E2M1 && op->bits == 8)
        *code = *code << 2 | (unit_random() & 0xc3); /* padding is ignored */
    return v;
}

/* Factors of row i of A, column i - 16 of B, as the ISA places them: row g in the lower thread of
 * the pair that the selector names, row g + 8 in the upper one; column g in the thread named. */
static uint32_t SF[2][L], selector[2][2];
static enum num_fmt sf_format;
static void pick_scales(const struct mma_sync *op) {
    for (int l = 0; l < L; l++)
        for (int k = 0; k < 2; k++) {
            SF[k][l] = 0;
            for (int e = 0; e < 4; e++)
                SF[k][l] |=
                    (sf_format == NUM_UE8M0 ? 125 + unit_random() % 5 : 0x30 + unit_random() % 16)
                    << 8 * e;
        }
    for (int k = 0; k < 2; k++) {
        selector[k][0] = unit_random() % 4 / (uint32_t)op->scales * (uint32_t)op->scales;
        selector[k][1] = unit_random() % (k ? 4 : 2);
    }
}
static double scale_at(const struct mma_sync *op, bool is_b, int row, int k) {
    const int lane =
        is_b ? row * 4 + (int)selector[1][1] : row % 8 * 4 + 2 * (int)selector[0][1] + row / 8;
    const int byte = (int)selector[is_b][0] + k / (op->k / op->scales);
    return num_to_f64(sf_format, SF[is_b][lane] >> 8 * byte & 0xff);
}

static void multiply(const struct mma_sync *op, uint32_t *const d[], const uint32_t *const a[],
                     const uint32_t *const b[], const uint32_t *const c[],
                     const struct mma_model *model) {
    struct mma_scales s;
    if (!op->scales) {
        mma_sync(op, d, a, b, c, model);
        return;
    }
    const char *why = mma_scales_pick(op, sf_format, SF[0], selector[0], SF[1], selector[1], &s);
    CHECK(!why, "selectors: %s", why);
    mma_sync_scaled(op, &s, d, a, b, c, model);
}

/* Sparse A: which columns are held, and the metadata as the ISA's figures place them. */
static uint8_t held[16][MMA_SPARSE_K / 2];
static uint32_t META[L], meta_selector;
static void pick_sparsity(const struct mma_sync *op) {
    const int chunk = op->bits == 32 ? 2 : op->bits == 4 ? 8 : 4; /* columns */
    const int across = op->bits == 4 ? 64 : op->bits == 8 ? 32 : op->bits == 16 ? 16 : 8;
    const int threads = op->k / across * (op->bits < 16 ? 2 : 1);
    meta_selector = unit_random() % (4 / (uint32_t)threads);
    memset(META, 0, sizeof META);
    memset(ma, 0, sizeof ma);
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < op->k; col += chunk) {
            static const uint8_t codes[6] = {4, 8, 9, 12, 13, 14};
            const uint32_t code = codes[op->bits == 32 ? unit_random() % 2 * 5 : unit_random() % 6];
            uint8_t *h = &held[row][col / 2];
            for (int e = 0; e < chunk / 2; e++)
                h[e] = (uint8_t)(col + (op->bits == 32  ? code == 14
                                        : op->bits == 4 ? 2 * (int)(code >> e / 2 * 2 & 3) + e % 2
                                                        : (int)(code >> 2 * e & 3)));
            const int lane = row % 8 * 4 + (int)meta_selector * threads;
            const int shift = col % across / chunk * 4;
            if (op->bits >= 16)
                META[lane + col / across] |= code << (shift + row / 8 * 16);
            else
                META[lane + col / across * 2 + row / 8] |= code << shift;
        }
}

static void run(const struct mma_sync *form) {
    struct mma_sync now = *form, *op = &now;
    int na, nb, nc, nd;
    const char *why = mma_sync_check(op, &na, &nb, &nc, &nd);
    CHECK(!why, "m%dn%dk%d: %s", op->m, op->n, op->k, why);
    if (why)
        return;
    memset(A, 0, sizeof A);
    memset(B, 0, sizeof B);
    memset(C, 0, sizeof C);
    const bool half = op->kind == MMA_FLOAT && op->c == NUM_F16;
    uint8_t columns[16][MMA_SPARSE_K / 2];
    if (op->sparse) {
        pick_sparsity(op);
        why = mma_sparse_columns(op, true, META, meta_selector, columns);
        CHECK(!why, "metadata of k%d, %d bits: %s", op->k, op->bits, why);
        op->columns = (const uint8_t(*)[MMA_SPARSE_K / 2]) columns;
    }
    for (int l = 0; l < L; l++) {
        uint32_t code;
        for (int i = 0; i < na * 32 / op->bits; i++) {
            const struct at p = a_at(op->m, op->sparse ? op->k / 2 : op->k, op->bits, l, i);
            ma[p.row][op->sparse ? held[p.row][p.col] : p.col] =
                pick(op, op->a, op->a_signed, &code);
            put(A, op->bits, l, i, code);
        }
        for (int i = 0; i < nb * 32 / op->bits; i++) {
            const struct at p = b_at(op->bits, l, i);
            mb[p.row][p.col] = pick(op, op->b, op->b_signed, &code);
            put(B, op->bits, l, i, code);
        }
        for (int i = 0; i < op->m / 4; i++) {
            const struct at p = c_at(l, i);
            const int v = (int)(unit_random() % 41) - 20;
            mc[p.row][p.col] = v;
            if (op->kind == MMA_INT)
                C[i][l] = (uint32_t)v;
            else
                put(C, half ? 16 : 32, l, i, num_from_f64(half ? NUM_F16 : NUM_F32, v, NUM_RN, 0));
        }
    }
    if (op->scales)
        pick_scales(op);
    uint32_t *d[8];
    const uint32_t *a[8], *b[8], *c[8];
    for (int i = 0; i < 8; i++) {
        d[i] = i < nd ? D[i] : NULL;
        a[i] = i < na ? A[i] : NULL;
        b[i] = i < nb ? B[i] : NULL;
        c[i] = i < nc ? C[i] : NULL;
    }
    const struct mma_model models[] = {{0, 0}, {5, 0}, {5, 26}};
    for (int k = 0; k < 3; k++) {
        memset(D, 0xee, sizeof D);
        multiply(op, d, a, b, c, &models[k]);
        for (int l = 0; l < L; l++)
            for (int i = 0; i < op->m / 4; i++) {
                const struct at p = c_at(l, i);
                double want = mc[p.row][p.col];
                for (int kk = 0; kk < op->k; kk++)
                    want +=
                        ma[p.row][kk] * mb[kk][p.col] *
                        (op->scales ? scale_at(op, false, p.row, kk) * scale_at(op, true, p.col, kk)
                                    : 1);
                const double got = op->kind == MMA_INT ? (double)(int32_t)D[i][l]
                                   : half
                                       ? num_to_f64(NUM_F16, D[i / 2][l] >> 16 * (i & 1) & 0xffff)
                                       : (double)num_float(D[i][l]);
                CHECK(got == want, "m%dk%d %s lane %d element %d: %g, want %g", op->m, op->k,
                      op->kind == MMA_INT ? "int" : num_name(op->a), l, i, got, want);
            }
    }
}

static void test_mma(void) {
    static const struct mma_sync forms[] = {
        {16, 8, 8, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 8, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F16, NUM_F16, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F16, NUM_F16, 0, 0, false, NULL},
        {16, 8, 8, MMA_FLOAT, NUM_BF16, NUM_BF16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_BF16, NUM_BF16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 4, MMA_FLOAT, NUM_TF32, NUM_TF32, 0, 0, 32, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 8, MMA_FLOAT, NUM_TF32, NUM_TF32, 0, 0, 32, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E4M3, NUM_E5M2, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E5M2, NUM_E4M3, 0, 0, 8, NUM_F16, NUM_F16, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_E4M3, NUM_E4M3, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E2M1, NUM_E3M2, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E2M3, NUM_E2M1, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {8, 8, 16, MMA_INT, 0, 0, true, false, 8, 0, 0, 0, 0, false, NULL},
        {16, 8, 16, MMA_INT, 0, 0, true, true, 8, 0, 0, 0, 0, false, NULL},
        {16, 8, 32, MMA_INT, 0, 0, false, true, 8, 0, 0, 0, 0, false, NULL},
        {16, 8, 32, MMA_INT, 0, 0, true, true, 8, 0, 0, true, 0, false, NULL},
        {8, 8, 32, MMA_INT, 0, 0, true, true, 4, 0, 0, 0, 0, false, NULL},
        {16, 8, 32, MMA_INT, 0, 0, false, true, 4, 0, 0, 0, 0, false, NULL},
        {16, 8, 64, MMA_INT, 0, 0, true, false, 4, 0, 0, 0, 0, false, NULL},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        for (int n = 0; n < 4; n++)
            run(&forms[i]);
    static const struct mma_sync scaled[] = {
        {16, 8, 32, MMA_FLOAT, NUM_E4M3, NUM_E5M2, 0, 0, 8, NUM_F32, NUM_F32, 0, 1, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E2M1, NUM_E2M3, 0, 0, 8, NUM_F32, NUM_F32, 0, 1, false, NULL},
        {16, 8, 64, MMA_FLOAT, NUM_E2M1, NUM_E2M1, 0, 0, 4, NUM_F32, NUM_F32, 0, 2, false, NULL},
        {16, 8, 64, MMA_FLOAT, NUM_E2M1, NUM_E2M1, 0, 0, 4, NUM_F32, NUM_F32, 0, 4, false, NULL},
    };
    for (size_t i = 0; i < sizeof scaled / sizeof scaled[0]; i++)
        for (int n = 0; n < 12; n++) {
            sf_format = scaled[i].scales == 4 && n % 2 ? NUM_UE4M3 : NUM_UE8M0;
            run(&scaled[i]);
        }
    const uint32_t odd[2] = {1, 0}, zero[2] = {0, 0}, third[2] = {0, 2};
    struct mma_scales out;
    CHECK(mma_scales_pick(&scaled[2], NUM_UE8M0, SF[0], odd, SF[1], zero, &out) &&
              mma_scales_pick(&scaled[3], NUM_UE8M0, SF[0], zero, SF[1], odd, &out) &&
              mma_scales_pick(&scaled[0], NUM_UE8M0, SF[0], third, SF[1], zero, &out) &&
              !mma_scales_pick(&scaled[0], NUM_UE8M0, SF[0], odd, SF[1], third, &out),
          "selectors that the form lacks are refused");
    static const struct mma_sync bad[] = {
        {16, 8, 64, MMA_FLOAT, NUM_E2M1, NUM_E2M1, 0, 0, 4, NUM_F32, NUM_F32, 0, 1, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E4M3, NUM_E4M3, 0, 0, 8, NUM_F32, NUM_F32, 0, 2, false, NULL},
        {8, 8, 16, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_F16, NUM_BF16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_BF16, NUM_BF16, 0, 0, 16, NUM_F16, NUM_F16, 0, 0, false, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_TF32, NUM_TF32, 0, 0, 32, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 64, MMA_FLOAT, NUM_E4M3, NUM_E4M3, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, false, NULL},
        {16, 8, 64, MMA_INT, 0, 0, 0, 0, 8, 0, 0, 0, 0, false, NULL},
        {8, 8, 32, MMA_INT, 0, 0, 0, 0, 8, 0, 0, 0, 0, false, NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int n[4];
        CHECK(mma_sync_check(&bad[i], n, n + 1, n + 2, n + 3), "form %zu is refused", i);
    }
}

static void test_sparse(void) {
    static const struct mma_sync forms[] = {
        {16, 8, 16, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F16, NUM_F16, 0, 0, true, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_BF16, NUM_BF16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {16, 8, 8, MMA_FLOAT, NUM_TF32, NUM_TF32, 0, 0, 32, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {16, 8, 16, MMA_FLOAT, NUM_TF32, NUM_TF32, 0, 0, 32, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {16, 8, 64, MMA_FLOAT, NUM_E4M3, NUM_E5M2, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {16, 8, 64, MMA_FLOAT, NUM_E2M1, NUM_E3M2, 0, 0, 8, NUM_F16, NUM_F16, 0, 0, true, NULL},
        {16, 8, 64, MMA_FLOAT, NUM_E4M3, NUM_E2M1, 0, 0, 8, NUM_F32, NUM_F32, 0, 1, true, NULL},
        {16, 8, 128, MMA_FLOAT, NUM_E2M1, NUM_E2M1, 0, 0, 4, NUM_F32, NUM_F32, 0, 2, true, NULL},
        {16, 8, 128, MMA_FLOAT, NUM_E2M1, NUM_E2M1, 0, 0, 4, NUM_F32, NUM_F32, 0, 4, true, NULL},
        {16, 8, 32, MMA_INT, 0, 0, true, false, 8, 0, 0, 0, 0, true, NULL},
        {16, 8, 64, MMA_INT, 0, 0, true, true, 8, 0, 0, true, 0, true, NULL},
        {16, 8, 64, MMA_INT, 0, 0, false, true, 4, 0, 0, 0, 0, true, NULL},
        {16, 8, 128, MMA_INT, 0, 0, true, true, 4, 0, 0, 0, 0, true, NULL},
    };
    sf_format = NUM_UE8M0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        for (int n = 0; n < 4; n++)
            run(&forms[i]);
    static const struct mma_sync bad[] = {
        {16, 8, 8, MMA_FLOAT, NUM_F16, NUM_F16, 0, 0, 16, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {16, 8, 32, MMA_FLOAT, NUM_E4M3, NUM_E4M3, 0, 0, 8, NUM_F32, NUM_F32, 0, 0, true, NULL},
        {8, 8, 32, MMA_INT, 0, 0, 0, 0, 8, 0, 0, 0, 0, true, NULL},
    };
    int n[4];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(mma_sync_check(&bad[i], n, n + 1, n + 2, n + 3), "sparse form %zu is refused", i);
    uint8_t columns[16][MMA_SPARSE_K / 2];
    uint32_t meta[L];
    for (int l = 0; l < L; l++)
        meta[l] = 0x44444444; /* elements 0 and 1 of each four */
    CHECK(!mma_sparse_columns(&forms[2], true, meta, 1, columns) && columns[9][1] == 1 &&
              columns[9][2] == 4 && mma_sparse_columns(&forms[2], true, meta, 2, columns),
          "selectors 0 and 1 of a pair of threads");
    meta[5] = 0x44445444;
    uint32_t two[2] = {7, 0}, row[4];
    CHECK(!mma_sparse_columns(&forms[2], false, meta, 0, columns), "one element twice");
    const uint8_t *twice = memchr(columns, MMA_SPARSE_NOWHERE, sizeof columns);
    CHECK(twice && !mma_sparse_row((const uint8_t[]){1, MMA_SPARSE_NOWHERE}, two, 1, 2, 4, row) &&
              row[1] == 7 && !row[0] && !row[2] && !row[3],
          "the second is zero");
    two[1] = 1;
    CHECK(mma_sparse_row((const uint8_t[]){1, MMA_SPARSE_NOWHERE}, two, 1, 2, 4, row),
          "the second is not");
    meta[5] = 0x44441444;
    CHECK(!mma_sparse_columns(&forms[2], false, meta, 0, columns) &&
              mma_sparse_columns(&forms[2], true, meta, 0, columns),
          "only .sp may name the second first");
}

static void test_integer_overflow(void) {
    struct mma_sync op = {16, 8, 32, MMA_INT, 0, 0, true, true, 8, 0, 0, false, 0, false, NULL};
    memset(A, 0x7f, sizeof A);
    memset(B, 0x7f, sizeof B);
    uint32_t *d[4];
    const uint32_t *a[4], *b[4], *c[4];
    for (int i = 0; i < 4; i++) {
        d[i] = D[i];
        a[i] = A[i];
        b[i] = B[i];
        c[i] = C[i];
        for (int l = 0; l < L; l++)
            C[i][l] = 0x7fffffff;
    }
    mma_sync(&op, d, a, b, c, NULL);
    CHECK(D[0][0] == 0x7fffffffu + 127u * 127u * 32u, "wraps: %x", D[0][0]);
    op.saturate = true;
    mma_sync(&op, d, a, b, c, NULL);
    CHECK(D[3][31] == 0x7fffffffu, "saturates: %x", D[3][31]);
}

static void test_f64(void) {
    static const int shapes[4][2] = {{8, 4}, {16, 4}, {16, 8}, {16, 16}};
    static double fa[8][L], fb[4][L], fc[4][L], fd[4][L];
    for (int s = 0; s < 4; s++) {
        const int m = shapes[s][0], k = shapes[s][1];
        int na, nb, nc;
        CHECK(!mma_f64_check(m, 8, k, &na, &nb, &nc), "shape");
        for (int l = 0; l < L; l++) {
            const int g = l >> 2, t = l % 4;
            for (int i = 0; i < na; i++) {
                /* m16n8k16: col = 2i + t for even i, 2i - 2 + t for odd i */
                const int row = m == 8 || i % 2 == 0 ? g : g + 8,
                          col = (i % 2 ? 2 * i - 2 : 2 * i) + t;
                fa[i][l] = ma[row][col] = (int)(unit_random() % 19) - 9;
            }
            for (int i = 0; i < nb; i++)
                fb[i][l] = mb[t + i * 4][g] = (int)(unit_random() % 19) - 9;
            for (int i = 0; i < nc; i++)
                fc[i][l] = mc[c_at(l, i).row][c_at(l, i).col] = (int)(unit_random() % 19) - 9;
        }
        double *d[4];
        const double *a[8], *b[4], *c[4];
        for (int i = 0; i < 8; i++)
            a[i] = fa[i];
        for (int i = 0; i < 4; i++) {
            d[i] = fd[i];
            b[i] = fb[i];
            c[i] = fc[i];
        }
        mma_f64(m, k, d, a, b, c, NUM_RN);
        for (int l = 0; l < L; l++)
            for (int i = 0; i < nc; i++) {
                const struct at p = c_at(l, i);
                double want = mc[p.row][p.col];
                for (int kk = 0; kk < k; kk++)
                    want += ma[p.row][kk] * mb[kk][p.col];
                CHECK(fd[i][l] == want, "f64 m%dk%d lane %d", m, k, l);
            }
    }
}

static void test_moves(void) {
    uint8_t rows[32][16], back[32][16];
    uint8_t *p[32], *q[32];
    for (int r = 0; r < 32; r++) {
        for (int b = 0; b < 16; b++)
            rows[r][b] = (uint8_t)unit_random();
        p[r] = rows[r];
        q[r] = back[r];
    }
    uint32_t *d[4] = {D[0], D[1], D[2], D[3]};
    const uint32_t *s[4] = {D[0], D[1], D[2], D[3]};
    for (int count = 1; count <= 4; count *= 2)
        for (int trans = 0; trans < 2; trans++) {
            ldmatrix_b16(d, (const uint8_t *const *)p, count, trans);
            for (int i = 0; i < count; i++)
                for (int l = 0; l < L; l++)
                    for (int e = 0; e < 2; e++) {
                        const int g = l / 4, t = l % 4;
                        const int r = trans ? 2 * t + e : g, c = trans ? g : 2 * t + e;
                        uint16_t want;
                        memcpy(&want, &rows[8 * i + r][2 * c], 2);
                        CHECK((D[i][l] >> 16 * e & 0xffff) == want, "ldmatrix x%d trans %d", count,
                              trans);
                    }
            memset(back, 0, sizeof back);
            stmatrix_b16(q, s, count, trans);
            CHECK(memcmp(back, rows, (size_t)(8 * count * 16)) == 0, "stmatrix undoes it");
        }
    movmatrix_b16(D[1], D[0]);
    for (int l = 0; l < L; l++) {
        const int g = l / 4, t = l % 4;
        for (int e = 0; e < 2; e++) {
            const int from = (2 * t + e) * 4 + g / 2; /* lane that holds [2t+e][g] */
            CHECK((D[1][l] >> 16 * e & 0xffff) == (D[0][from] >> 16 * (g & 1) & 0xffff),
                  "movmatrix");
        }
    }
    stmatrix_b8_trans(q, s, 1);
    for (int m = 0; m < 16;
         m++) /* a thread holds rows g, g+8 and columns 2t, 2t+1, as an accumulator */
        for (int n = 0; n < 8; n++)
            CHECK(back[n][m] == (D[0][(m % 8) * 4 + n / 2] >> 8 * (2 * (m / 8) + n % 2) & 0xff),
                  "stmatrix b8");
    ldmatrix_b8_trans(d, (const uint8_t *const *)p, 2);
    for (int l = 0; l < L; l++) /* transposed: four columns of row g, then of row g + 8 */
        for (int e = 0; e < 16; e++)
            CHECK((D[e / 4][l] >> 8 * (e % 4) & 0xff) ==
                      rows[16 * (e / 8) + 4 * (l % 4) + e % 4][l / 4 + 8 * (e / 4 % 2)],
                  "ldmatrix.m16n16");
    ldmatrix_b8(d, (const uint8_t *const *)p, 4);
    for (int l = 0; l < L; l++)
        for (int e = 0; e < 16; e++)
            CHECK((D[e / 4][l] >> 8 * (e % 4) & 0xff) ==
                      rows[8 * (e / 4) + l / 4][4 * (l % 4) + e % 4],
                  "ldmatrix.m8n16");
    const uint8_t four[8] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    uint8_t six[12] = {0}, wide[16];
    for (int e = 0; e < 16; e++) /* the code of element e is 3 e + 1 */
        for (int bit = 0; bit < 6; bit++)
            six[(6 * e + bit) / 8] |= (uint8_t)(((3 * e + 1) >> bit & 1) << (6 * e + bit) % 8);
    ldmatrix_expand(wide, four, 4);
    for (int e = 0; e < 16; e++)
        CHECK(wide[e] == e << 2, "four bits to bits 5:2");
    ldmatrix_expand(wide, six, 6);
    for (int e = 0; e < 16; e++)
        CHECK(wide[e] == 3 * e + 1, "six bits");
}

/* --- The core product: shapes, strides, skipped rows, other models --- */

static void test_product(void) {
    static float a[128 * 32], b[32 * 64], d[128][64];
    for (int n = 0; n < 200; n++) {
        const int m = 1 + (int)(unit_random() % 128), k = 1 + (int)(unit_random() % 32);
        const int cols = 8 * (1 + (int)(unit_random() % 8)), by_k = unit_random() % 2;
        for (int i = 0; i < 128 * 32; i++)
            a[i] = (float)((int)(unit_random() % 9) - 4);
        for (int i = 0; i < 32 * 64; i++)
            b[i] = (float)((int)(unit_random() % 9) - 4);
        f32_cell *rows[128];
        for (int i = 0; i < 128; i++) {
            rows[i] = i % 7 == 3 ? NULL : d[i];
            for (int j = 0; j < 64; j++)
                d[i][j] = (float)(i + j);
        }
        struct product p = {m, cols, k, a, by_k ? 1 : 32, by_k ? 128 : 1, b, 64, rows, n % 3 != 0};
        const struct mma_model model = {.seed = n % 4 == 1 ? 9 : 0,
                                        .keep_bits = n % 4 == 2 ? 26 : 0};
        matrix_product(&p, &model);
        for (int i = 0; i < 128; i++)
            for (int j = 0; j < 64; j++) {
                double want = i + j;
                if (i < m && j < cols && rows[i]) {
                    want = p.accumulate ? want : 0;
                    for (int kk = 0; kk < k; kk++)
                        want += (double)a[i * p.a_row + kk * p.a_col] * (double)b[kk * 64 + j];
                }
                CHECK((double)d[i][j] == want, "product %d: [%d][%d] %g, want %g", n, i, j,
                      (double)d[i][j], want);
            }
    }
}

/* The models differ from each other and stay within the error of a sum of k terms. */
static void test_models(void) {
    float a[256], b[256 * 8];
    f32_cell d[8], *rows[1] = {d};
    const struct mma_model models[] = {{0, 0}, {1, 0}, {2, 0}, {0, 24}, {0, 13}};
    int changed[5] = {0};
    for (int n = 0; n < 200; n++) {
        double want[8] = {0}, size[8] = {0};
        for (int k = 0; k < 16; k++) {
            const float scale = ldexpf(1, -31 - (int)(unit_random() % 12));
            a[k] = num_to_f32(NUM_BF16, num_f32_bf16((float)((int)unit_random()) * scale));
            for (int j = 0; j < 8; j++) {
                b[k * 8 + j] =
                    num_to_f32(NUM_BF16, num_f32_bf16((float)((int)unit_random()) * 0x1p-31f));
                want[j] += (double)a[k] * (double)b[k * 8 + j];
                size[j] += fabs((double)a[k] * (double)b[k * 8 + j]);
            }
        }
        float first[8];
        for (int k = 0; k < 5; k++) {
            const struct product p = {1, 8, 16, a, 16, 1, b, 8, rows, false};
            matrix_product(&p, &models[k]);
            const double unit = models[k].keep_bits == 13 ? 0x1p-13 : 0x1p-23;
            for (int j = 0; j < 8; j++) {
                CHECK(fabs((double)d[j] - want[j]) <= 18 * unit * size[j], "model %d: %g, want %g",
                      k, (double)d[j], want[j]);
                changed[k] += k && d[j] != first[j];
            }
            if (!k)
                memcpy(first, d, sizeof first);
        }
    }
    CHECK(changed[1] > 100 && changed[2] > 100 && changed[3] > 100 && changed[4] > 1000,
          "models change %d %d %d %d of 1600", changed[1], changed[2], changed[3], changed[4]);
    /* One large term hides small ones that are cut, not rounded. */
    const float x[4] = {0x1p24f, 1, 1, 1}, ones[4 * 8] = {[0] = 1, [8] = 1, [16] = 1, [24] = 1};
    const struct product p = {1, 8, 4, x, 4, 1, ones, 8, rows, false};
    const struct mma_model cut = {0, 23};
    matrix_product(&p, &cut);
    CHECK(d[0] == 0x1p24f, "cut at 23 bits: %g", (double)d[0]);
    const struct mma_model keep = {0, 26};
    matrix_product(&p, &keep);
    CHECK(d[0] == 0x1p24f + 2, "kept at 26 bits: %g", (double)d[0]);
    const float inf[4] = {INFINITY, 1, 1, 1};
    const struct product q = {1, 8, 4, inf, 4, 1, ones, 8, rows, false};
    matrix_product(&q, &cut);
    CHECK(isinf(d[0]) && isnan(d[1]), "infinity and 0 * infinity");
}

int main(void) {
    test_mma();
    test_sparse();
    test_integer_overflow();
    test_f64();
    test_moves();
    test_product();
    test_models();
    return unit_end();
}
