/* test_umma_sparse.c: tcgen05.mma.sp: every width of element, one CTA and pairs, A in shared and in
 * tensor memory, exactly.  Metadata are laid out as rows of bits, row by row, after the layouts
 * that CUTLASS names (tmem_e_frg), apart from umma.c's formula.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "layouts.h"
#include "umma.h"
#include "unit.h"

enum { SMEM = 232448, CELLS = 128 * 512, MAX_K = 128 };

static uint8_t smem[2][SMEM];
static uint32_t tmem[2][CELLS];
static double ma[256][MAX_K], mb[256][MAX_K], md[256][256];

struct kase {
    enum umma_kind kind;
    enum num_fmt a, b;
    uint32_t elem_bits, idesc; /* of the types */
    bool a_tmem, b_mn, group2;
    uint32_t n, selector;
};

static uint64_t descriptor(const struct layout *l, uint32_t start, uint32_t lbo, uint32_t sbo) {
    return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           1ull << 46 | (uint64_t)l->code << 61;
}

static double value(const struct kase *k, bool is_a, uint8_t code[4]) {
    if (k->kind == UMMA_I8) {
        code[0] = (uint8_t)unit_random();
        return (int8_t)code[0];
    }
    const double v = (int)(unit_random() % 9) - 4;
    const uint32_t c = num_from_f64(is_a ? k->a : k->b, v, NUM_RN, 0);
    memcpy(code, &c, 4);
    return v;
}

/* Bit `at` of the row of 64 bits that lane `lane` has from column `column` on. */
static void put_bit(uint32_t *cells, uint32_t lane, uint32_t column, uint32_t at, uint32_t bit) {
    cells[lane * 512 + column + at / 32] |= bit << at % 32;
}

/* Four bits of row m's chunk. tmem_e_frg: one bit to an element of 16 bits, two to one of 32; of
 * those ((8,2,8),(16,2)) : ((1,16 columns,16),(1 column,8)) in lanes and bit columns. */
static void put_metadata(const struct kase *k, uint32_t *cells, uint32_t column, uint32_t m,
                         uint32_t chunk, uint32_t code) {
    const bool wide = k->elem_bits >= 16;
    for (uint32_t b = 0; b < 4; b++) {
        const uint32_t bit = 4 * chunk + b; /* of the row's 32 (wide) or 64 */
        if (wide)
            put_bit(cells, m % 8 + m / 16 * 16 + bit / 16 * 8, column + k->selector,
                    m / 8 % 2 * 16 + bit % 16, code >> b & 1);
        else
            put_bit(cells, m, column, bit, code >> b & 1);
    }
}

/* Which elements row m holds; returns how many. */
static uint32_t choose(const struct kase *k, uint32_t *cells, uint32_t column, uint32_t m,
                       uint32_t places[MAX_K / 2]) {
    const uint32_t chunks = k->elem_bits >= 16 ? 8 : 16;
    uint32_t n = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        if (k->elem_bits == 32) {
            const uint32_t odd = unit_random() % 2;
            put_metadata(k, cells, column, m, c, odd ? 14 : 4);
            places[n++] = 2 * c + odd;
            continue;
        }
        const uint32_t i = unit_random() % 3, j = i + 1 + unit_random() % (3 - i);
        const uint32_t run = k->elem_bits == 4 ? 2 : 1;
        put_metadata(k, cells, column, m, c, i | j << 2);
        for (uint32_t s = 0; s < 2 * run; s++)
            places[n++] = (4 * c + (s / run ? j : i)) * run + s % run;
    }
    return n;
}

static void put_code(const struct kase *k, uint8_t *row, uint32_t i, const uint8_t code[4]) {
    if (k->elem_bits == 4)
        row[i / 2] = (uint8_t)(row[i / 2] | code[0] << 4 * (i % 2));
    else
        memcpy(row + i * k->elem_bits / 8, code, k->elem_bits / 8);
}

enum { D_COLUMN = 32, A_COLUMN = 400, META = 448, SCALES = 480, START_A = 1024, START_B = 65536 };

static void put_a(const struct kase *k, uint32_t m, const struct layout *l, uint32_t sbo) {
    uint32_t places[MAX_K / 2];
    const uint32_t cta = m / 128, r = m % 128;
    const uint32_t n = choose(k, tmem[cta], META, r, places);
    uint8_t row[32] = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint8_t code[4] = {0};
        ma[m][places[i]] = value(k, true, code);
        put_code(k, row, i, code);
    }
    if (k->a_tmem)
        memcpy(&tmem[cta][r * 512 + A_COLUMN], row, 32);
    for (uint32_t c = 0; c < 32 && !k->a_tmem; c++) /* as bytes */
        smem[cta][layout_address(l, false, START_A, 16, sbo, r, c, 1)] = row[c];
}

static void put_b(const struct kase *k, uint32_t n, uint32_t depth, const struct layout *l,
                  uint32_t lbo, uint32_t sbo) {
    const uint32_t per = k->n / (k->group2 ? 2 : 1), cta = n / per, elem = k->elem_bits / 8;
    uint8_t row[64] = {0};
    for (uint32_t i = 0; i < depth; i++) {
        uint8_t code[4] = {0};
        mb[n][i] = value(k, false, code);
        put_code(k, row, i, code);
        if (k->b_mn)
            memcpy(&smem[cta][layout_address(l, true, START_B, lbo, sbo, n % per, i, elem)], code,
                   elem);
    }
    for (uint32_t c = 0; c < 64 && !k->b_mn; c++)
        smem[cta][layout_address(l, false, START_B, lbo, sbo, n % per, c, 1)] = row[c];
}

static void put_d(const struct kase *k, uint32_t rows) {
    for (uint32_t m = 0; m < rows; m++)
        for (uint32_t n = 0; n < k->n; n++) {
            const int v = (int)(unit_random() % 64) - 32;
            md[m][n] = v;
            tmem[m / 128][m % 128 * 512 + D_COLUMN + n] =
                k->kind == UMMA_I8 ? (uint32_t)v : num_from_f64(NUM_F32, v, NUM_RN, 0);
        }
}

static long differences(const struct kase *k, uint32_t rows, uint32_t depth) {
    long bad = 0;
    for (uint32_t m = 0; m < rows; m++)
        for (uint32_t n = 0; n < k->n; n++) {
            const uint32_t c = tmem[m / 128][m % 128 * 512 + D_COLUMN + n];
            double want = md[m][n];
            for (uint32_t i = 0; i < depth; i++)
                want += ma[m][i] * mb[n][i];
            bad += (k->kind == UMMA_I8 ? (double)(int32_t)c : (double)num_float(c)) != want;
        }
    return bad;
}

static void run(const struct kase *k) {
    const bool scaled = k->kind >= UMMA_MXF8F6F4;
    const uint32_t rows = k->group2 ? 256 : 128, depth = 512 / k->elem_bits;
    const struct layout *la = &layouts[2], *lb = &layouts[3];
    uint32_t lbo, sbo, sbo_a, none;
    layout_strides(la, false, 128, 1, &none, &sbo_a);
    layout_strides(lb, k->b_mn, k->n, k->elem_bits / 8 ? k->elem_bits / 8 : 1, &lbo, &sbo);
    lbo += k->b_mn ? 2 * sbo : 0; /* twice as many rows of K */
    memset(ma, 0, sizeof ma);
    memset(tmem, 0, sizeof tmem);
    for (int c = 0; scaled && c < 2; c++) /* ue8m0: 1.0 */
        for (uint32_t i = 0; i < CELLS; i++)
            if (i % 512 >= SCALES)
                tmem[c][i] = 0x7f7f7f7f;
    for (uint32_t m = 0; m < rows; m++)
        put_a(k, m, la, sbo_a);
    for (uint32_t n = 0; n < k->n; n++)
        put_b(k, n, depth, lb, lbo, sbo);
    put_d(k, rows);
    struct umma u = {.form = {.kind = k->kind,
                              .cta_group = k->group2 ? 2 : 1,
                              .a_tmem = k->a_tmem,
                              .scales = k->kind >= UMMA_MXF4 ? 2 : scaled,
                              .sparse = true},
                     .d = D_COLUMN,
                     .a_addr = A_COLUMN,
                     .meta = META,
                     .sfa = SCALES,
                     .sfb = SCALES + 16,
                     .accumulate = true,
                     .cta = {{smem[0], tmem[0]}, {smem[1], tmem[1]}}};
    const uint32_t shape =
        scaled ? k->n / 8 << 17 | rows / 128 << 27 | 1u << 23 : k->n / 8 << 17 | rows / 16 << 24;
    char why[200] = "";
    const bool ok = umma_prepare(&u, k->idesc | shape | 4 | k->selector | (uint32_t)k->b_mn << 16,
                                 descriptor(la, START_A, 16, sbo_a),
                                 descriptor(lb, START_B, lbo, sbo), why, sizeof why);
    CHECK(ok, "kind %d: %s", k->kind, why);
    if (!ok)
        return;
    const char *wrong = umma_run(&u, NULL);
    CHECK(!wrong, "%s", wrong);
    const long bad = differences(k, rows, depth);
    CHECK(bad == 0, "kind %d N %u group %d A %s B %s selector %u: %ld differ", k->kind, k->n,
          k->group2 + 1, k->a_tmem ? "tmem" : "smem", k->b_mn ? "MN" : "K", k->selector, bad);
}

static void test_products(void) {
    static const struct kase types[] = {
        {UMMA_F16, NUM_F16, NUM_F16, 16, 1u << 4, 0, 0, 0, 0, 0},
        {UMMA_F16, NUM_BF16, NUM_BF16, 16, 1u << 4 | 1u << 7 | 1u << 10, 0, 0, 0, 0, 0},
        {UMMA_TF32, NUM_TF32, NUM_TF32, 32, 1u << 4 | 2u << 7 | 2u << 10, 0, 0, 0, 0, 0},
        {UMMA_F8F6F4, NUM_E4M3, NUM_E5M2, 8, 1u << 4 | 1u << 10, 0, 0, 0, 0, 0},
        {UMMA_I8, NUM_E4M3, NUM_E4M3, 8, 2u << 4 | 1u << 7 | 1u << 10, 0, 0, 0, 0, 0},
        {UMMA_MXF8F6F4, NUM_E4M3, NUM_E4M3, 8, 0, 0, 0, 0, 0, 0},
        {UMMA_MXF4, NUM_E2M1, NUM_E2M1, 4, 1u << 7 | 1u << 10, 0, 0, 0, 0, 0}};
    static const uint32_t ns[] = {32, 128, 256};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int how = 0; how < 8; how++)
            for (size_t n = 0; n < 3; n++) {
                struct kase k = types[t];
                k.a_tmem = how & 1;
                k.group2 = how & 2;
                k.n = ns[n];
                k.b_mn = how & 4 && k.kind == UMMA_F16 && k.n / (k.group2 ? 2 : 1) >= 64;
                k.selector = k.elem_bits >= 16 && unit_random() % 2;
                run(&k);
            }
}

static void refused(struct umma u, uint32_t idesc, const char *says) {
    const uint64_t d = descriptor(&layouts[3], 1024, 16, 1024);
    char why[200] = "";
    CHECK(!umma_prepare(&u, idesc, d, d, why, sizeof why) && strstr(why, says), "'%s', not '%s'",
          why, says);
}
static void test_refusals(void) {
    const uint32_t word = 0x08200014; /* f16 to f32, M 128, N 128, sparse */
    struct umma u = {.form = {.kind = UMMA_F16, .cta_group = 1, .sparse = true},
                     .meta = 448,
                     .cta = {{smem[0], tmem[0]}, {smem[1], tmem[1]}}};
    refused(u, word & ~4u, "the instruction is sparse");
    refused(u, word | 2, "selector 2");
    refused(u, 0x04200014, "128 rows");
    u.meta = 449;
    refused(u, word, "even");
    u.meta = 1 << 16 | 448;
    refused(u, word, "lane");
    u.meta = 448;
    u.form.sparse = false;
    refused(u, word, "the instruction is dense");
    u.form.sparse = true;
    const uint64_t d = descriptor(&layouts[3], 1024, 16, 1024);
    char why[200] = "";
    memset(tmem, 0, sizeof tmem); /* indices 0 and 0: legal where the second element is zero */
    memset(smem, 0, sizeof smem);
    CHECK(umma_prepare(&u, word, d, d, why, sizeof why), "%s", why);
    CHECK(!umma_run(&u, NULL), "a chunk of zeros");
    memset(smem, 0x11, sizeof smem);
    const char *wrong = umma_run(&u, NULL);
    CHECK(wrong && strstr(wrong, "twice"), "metadata");
}

int main(void) {
    test_products();
    test_refusals();
    return unit_end();
}
