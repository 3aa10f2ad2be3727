/* test_wgmma.c: wgmma.mma_async over every type, major, swizzle and source of A, exactly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "wgmma.h"
#include "layouts.h"
#include "unit.h"

enum { SMEM = 232448, L = 32 };

static uint8_t smem[SMEM];
static double ma[64][64], mb[256][64], md[64][256];
static uint32_t D[4][128][L], A[4][4][L], meta[4][L];

static uint64_t descriptor(const struct layout *l, uint32_t start, uint32_t lbo, uint32_t sbo) {
    return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           (uint64_t)l->code90 << 62;
}

static double value(const struct wgmma_form *f, bool is_a, uint8_t out[4]) {
    if (f->integer) {
        out[0] = (uint8_t)unit_random();
        return (is_a ? f->a_signed : f->b_signed) ? (double)(int8_t)out[0] : (double)out[0];
    }
    const double v = (int)(unit_random() % 9) - 4;
    const uint32_t code = num_from_f64(is_a ? f->a : f->b, v, NUM_RN, 0);
    memcpy(out, &code, 4);
    return v;
}

/* Register fragment of A, as the ISA writes it for each type: elements a_i of lane l. */
static void put_a_register(uint32_t elem, int m, int k, const uint8_t *code) {
    const int warp = m / 16, row = m % 16, per = (int)(4 / elem);
    /* 16-bit: cols 2t + (i&1) (+8 for i >= 4); tf32: t (+4); 8-bit: 4t + (i&3) (+16) */
    const int block = k / (4 * per), t = k % (4 * per) / per, e = k % per;
    const int reg = (row >= 8) + 2 * block, lane = row % 8 * 4 + t;
    memcpy((uint8_t *)&A[warp][reg][lane] + (uint32_t)e * elem, code, elem);
}

/* D element d_i of lane l of warp w: row and column by the ISA's formula. */
static void d_place(int w, int l, int i, int *row, int *col) {
    *row = w * 16 + (l >> 2) + 8 * ((i >> 1) & 1);
    *col = (i / 4) * 8 + (l % 4) * 2 + (i & 1);
}

/* Sparse storage, as the ISA writes it: of a chunk of four elements (tf32: two) the places of those
 * that are held, and where those four bits lie in the registers of the row's warp. */
static void put_metadata(uint32_t elem, int m, int chunk, uint32_t selector, uint32_t code) {
    const int row = m % 16, g = row % 8, upper = row >= 8;
    uint32_t *word = meta[m / 16];
    if (elem > 1)
        word[4 * g + 2 * (int)selector + chunk / 4] |= code << (4 * (chunk % 4) + 16 * upper);
    else
        word[4 * g + 2 * (chunk / 8) + upper] |= code << 4 * (chunk % 8);
}
/* Column of the k-th element that row m holds. */
static int column_of(const struct wgmma_form *f, uint32_t elem, int m, int k, uint32_t selector) {
    static int pair[2]; /* of this chunk */
    if (!f->sparse)
        return k;
    if (elem == 4) {
        const uint32_t odd = unit_random() % 2;
        put_metadata(elem, m, k, selector, odd ? 14 : 4);
        return 2 * k + (int)odd;
    }
    if (k % 2 == 0) {
        pair[0] = (int)(unit_random() % 3);
        pair[1] = pair[0] + 1 + (int)(unit_random() % (uint32_t)(3 - pair[0]));
        put_metadata(elem, m, k / 2, selector, (uint32_t)(pair[0] | pair[1] << 2));
    }
    return k / 2 * 4 + pair[k % 2];
}

static void run(const struct wgmma_form *f, const struct layout *la, bool a_mn,
                const struct layout *lb, bool b_mn, bool accumulate, bool neg_a, bool neg_b) {
    const uint32_t held = f->sparse ? f->k / 2 : f->k, elem = 32 / held;
    const uint32_t start_a = 1024, start_b = 100 * 1024, selector = elem > 1 ? f->n / 8 % 2 : 0;
    uint32_t lbo_a, sbo_a, lbo_b, sbo_b;
    layout_strides(la, a_mn, 64, elem, &lbo_a, &sbo_a);
    layout_strides(lb, b_mn, f->n, elem, &lbo_b, &sbo_b);
    if (f->sparse && b_mn && lb->span > 16)
        lbo_b += 2 * sbo_b; /* twice as many rows of K */
    memset(ma, 0, sizeof ma);
    memset(meta, 0, sizeof meta);
    for (int m = 0; m < 64; m++)
        for (int k = 0; k < (int)held; k++) {
            uint8_t code[4] = {0};
            ma[m][column_of(f, elem, m, k, selector)] = value(f, true, code);
            if (f->a_regs)
                put_a_register(elem, m, k, code);
            else
                memcpy(&smem[layout_address(la, a_mn, start_a, lbo_a, sbo_a, (uint32_t)m,
                                            (uint32_t)k, elem)],
                       code, elem);
        }
    for (uint32_t n = 0; n < f->n; n++)
        for (uint32_t k = 0; k < f->k; k++) {
            uint8_t code[4] = {0};
            mb[n][k] = value(f, false, code);
            const uint32_t at = layout_address(lb, b_mn, start_b, lbo_b, sbo_b, n, k, elem);
            CHECK(at + elem <= SMEM, "fits");
            memcpy(&smem[at], code, elem);
        }
    int d_regs, a_regs;
    const char *no = wgmma_check(f, &d_regs, &a_regs);
    CHECK(!no, "%s", no);
    struct wgmma w = {.form = *f,
                      .a_mn = a_mn,
                      .b_mn = b_mn,
                      .neg_a = neg_a,
                      .neg_b = neg_b,
                      .accumulate = accumulate,
                      .selector = selector,
                      .smem = smem};
    uint32_t *d[4][128];
    const uint32_t *a[4][4];
    for (int warp = 0; warp < 4; warp++) {
        for (int i = 0; i < 128; i++)
            d[warp][i] = i < d_regs ? D[warp][i] : NULL;
        for (int i = 0; i < 4; i++)
            a[warp][i] = A[warp][i];
        w.d[warp] = d[warp];
        w.a_reg[warp] = a[warp];
        w.meta[warp] = meta[warp];
        for (int l = 0; l < L; l++)
            for (int i = 0; i < (int)f->n / 2; i++) {
                int row, col;
                d_place(warp, l, i, &row, &col);
                const int v = (int)(unit_random() % 64) - 32;
                md[row][col] = v;
                if (f->integer) {
                    D[warp][i][l] = (uint32_t)v;
                } else if (f->d_f16) {
                    const uint32_t h = num_from_f64(NUM_F16, v, NUM_RN, 0);
                    uint32_t *p = &D[warp][i / 2][l];
                    *p = i & 1 ? (*p & 0xffff) | h << 16 : h;
                } else {
                    D[warp][i][l] = num_from_f64(NUM_F32, v, NUM_RN, 0);
                }
            }
    }
    char why[200] = "";
    const bool ok = wgmma_prepare(&w, descriptor(la, start_a, lbo_a, sbo_a),
                                  descriptor(lb, start_b, lbo_b, sbo_b), why, sizeof why);
    CHECK(ok, "%s", why);
    if (!ok)
        return;
    no = wgmma_run(&w, NULL);
    CHECK(!no, "%s", no);
    long bad = 0;
    for (int warp = 0; warp < 4; warp++)
        for (int l = 0; l < L; l++)
            for (int i = 0; i < (int)f->n / 2; i++) {
                int row, col;
                d_place(warp, l, i, &row, &col);
                double want = accumulate ? md[row][col] : 0;
                for (uint32_t k = 0; k < f->k; k++)
                    want += ma[row][k] * mb[col][k] * (neg_a ? -1 : 1) * (neg_b ? -1 : 1);
                const double got =
                    f->integer ? (double)(int32_t)D[warp][i][l]
                    : f->d_f16 ? num_to_f64(NUM_F16, D[warp][i / 2][l] >> 16 * (i & 1) & 0xffff)
                               : (double)num_float(D[warp][i][l]);
                bad += got != want;
            }
    CHECK(bad == 0, "%s%s n%u A %s%s B %s%s: %ld differ", f->integer ? "int" : num_name(f->a),
          f->sparse ? " sparse" : "", f->n, f->a_regs ? "registers" : la->name, a_mn ? " MN" : "",
          lb->name, b_mn ? " MN" : "", bad);
}

static void test_products(void) {
    static const struct wgmma_form forms[] = {
        {.k = 16, .a = NUM_BF16, .b = NUM_BF16},
        {.k = 16, .a = NUM_F16, .b = NUM_F16},
        {.k = 16, .a = NUM_F16, .b = NUM_F16, .d_f16 = true},
        {.k = 8, .a = NUM_TF32, .b = NUM_TF32},
        {.k = 32, .a = NUM_E4M3, .b = NUM_E4M3},
        {.k = 32, .a = NUM_E5M2, .b = NUM_E4M3, .d_f16 = true},
        {.k = 32, .integer = true, .a_signed = true, .b_signed = true},
        {.k = 32, .integer = true, .a_signed = false, .b_signed = true},
    };
    static const uint32_t ns[] = {8, 16, 64, 128, 176, 256};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        for (size_t j = 0; j < sizeof ns / sizeof ns[0]; j++)
            for (int layout = 0; layout < 4; layout++)
                for (int how = 0; how < 4; how++) {
                    struct wgmma_form f = forms[i];
                    f.n = ns[j];
                    f.a_regs = how & 1;
                    f.sparse = how & 2;
                    const bool half = f.k == 16;
                    f.k *= f.sparse ? 2 : 1;
                    const bool a_mn = half && !f.a_regs && unit_random() % 2;
                    const bool b_mn =
                        half && f.n * 2 % layouts[layout].span == 0 && unit_random() % 2;
                    if (f.sparse && !b_mn && layouts[layout].span == 32)
                        continue; /* 64 bytes of K in a swizzle of 32 */
                    run(&f, &layouts[unit_random() % 4], a_mn, &layouts[layout], b_mn,
                        unit_random() % 4 != 0, !f.integer && unit_random() % 3 == 0,
                        !f.integer && unit_random() % 3 == 0);
                }
}

static void test_refusals(void) {
    static const struct wgmma_form bad[] = {
        {.n = 12, .k = 16, .a = NUM_BF16, .b = NUM_BF16},
        {.n = 264, .k = 16, .a = NUM_BF16, .b = NUM_BF16},
        {.n = 8, .k = 32, .a = NUM_BF16, .b = NUM_BF16},
        {.n = 8, .k = 16, .a = NUM_BF16, .b = NUM_F16},
        {.n = 8, .k = 16, .a = NUM_BF16, .b = NUM_BF16, .d_f16 = true},
        {.n = 8, .k = 16, .a = NUM_E4M3, .b = NUM_E4M3},
        {.n = 8, .k = 32, .a = NUM_E2M1, .b = NUM_E2M1},
        {.n = 40, .k = 32, .integer = true},
        {.n = 8, .k = 16, .a = NUM_BF16, .b = NUM_BF16, .sparse = true},
        {.n = 8, .k = 32, .integer = true, .sparse = true},
    };
    int x, y;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(wgmma_check(&bad[i], &x, &y), "form %zu", i);
    struct wgmma w = {.form = {.n = 8, .k = 32, .a = NUM_E4M3, .b = NUM_E4M3}, .b_mn = true};
    const uint64_t d = descriptor(&layouts[3], 0, 0, 1024);
    char why[200] = "";
    CHECK(!wgmma_prepare(&w, d, d, why, sizeof why) && strstr(why, "16-bit"), "%s", why);
    w = (struct wgmma){.form = {.n = 8, .k = 16, .a = NUM_F16, .b = NUM_F16, .a_regs = true},
                       .a_mn = true};
    CHECK(!wgmma_prepare(&w, d, d, why, sizeof why) && strstr(why, "registers"), "%s", why);
    w = (struct wgmma){.form = {.n = 8, .k = 16, .a = NUM_F16, .b = NUM_F16}, .b_mn = true};
    CHECK(!wgmma_prepare(&w, d, d, why, sizeof why) && strstr(why, "whole swizzle"), "%s", why);
    w.form = (struct wgmma_form){.n = 8, .k = 32, .a = NUM_F16, .b = NUM_F16, .sparse = true};
    w.b_mn = false;
    const uint64_t narrow = descriptor(&layouts[1], 0, 0, 256);
    CHECK(!wgmma_prepare(&w, d, narrow, why, sizeof why) && strstr(why, "wider"), "%s", why);
    static const uint32_t twice[L]; /* index 0 and 0 */
    w.meta[0] = twice;
    w.smem = smem;
    memset(smem, 0x11, sizeof smem);
    const char *wrong = wgmma_run(&w, NULL);
    CHECK(wrong && strstr(wrong, "twice"), "metadata");
    CHECK(!wgmma_prepare(&w, d, 0x4000404000000040ull, why, sizeof why) && strstr(why, "reserved"),
          "%s", why);
}

int main(void) {
    test_products();
    test_refusals();
    return unit_end();
}
