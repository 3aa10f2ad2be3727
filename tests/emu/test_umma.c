/* test_umma.c: tcgen05 descriptors, layouts, products, tensor memory movement.
 *
 * Operands are written element by element through the canonical layouts of the PTX ISA in their own
 * notation (strides in elements, Swizzle<B,4,S> on bytes); results are looked for where the data
 * path layouts say.  Values are small integers, so that every product is exact.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "umma.h"
#include "tmem.h"
#include "layouts.h"
#include "unit.h"
#include <math.h>

enum { SMEM = 232448, CELLS = 128 * 512 };

static uint8_t smem[2][SMEM];
static uint32_t tmem[2][CELLS], before[2][CELLS];
static double ma[256][32], mb[256][32]; /* [m][k], [n][k] */

/* --- One case --- */

struct kase {
    enum umma_kind kind;
    enum num_fmt a, b;
    uint32_t m, n;
    int group;
    bool ws, a_tmem, a_mn, b_mn, d_f16, neg_a, neg_b;
    int la, lb; /* layouts */
};

static uint32_t elem_of(const struct kase *k) {
    return k->kind == UMMA_F16 ? 2 : k->kind == UMMA_TF32 ? 4 : 1;
}

static uint32_t type_code(const struct kase *k, enum num_fmt f, bool is_signed) {
    return k->kind == UMMA_F16    ? f == NUM_BF16
           : k->kind == UMMA_TF32 ? 2
           : k->kind == UMMA_I8   ? is_signed
                                  : f == NUM_E5M2;
}

static double value(const struct kase *k, enum num_fmt f, uint8_t out[4]) {
    if (k->kind == UMMA_I8) {
        out[0] = (uint8_t)unit_random();
        return f == NUM_F16 ? (double)out[0] : (double)(int8_t)out[0]; /* NUM_F16 stands for u8 */
    }
    const double v = (int)(unit_random() % 9) - 4;
    const uint32_t code = num_from_f64(f, v, NUM_RN, 0);
    memcpy(out, &code, 4);
    return v;
}

static uint64_t descriptor(const struct layout *l, uint32_t start, uint32_t lbo, uint32_t sbo) {
    return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           1ull << 46 | (uint64_t)l->code << 61;
}

static uint32_t idesc_of(const struct kase *k) {
    const uint32_t d = k->kind == UMMA_I8 ? 2 : k->d_f16 ? 0 : 1;
    return d << 4 | type_code(k, k->a, k->a != NUM_F16) << 7 |
           type_code(k, k->b, k->b != NUM_F16) << 10 | (uint32_t)k->neg_a << 13 |
           (uint32_t)k->neg_b << 14 | (uint32_t)k->a_mn << 15 | (uint32_t)k->b_mn << 16 |
           k->n / 8 << 17 | k->m / 16 << 24;
}

/* CTA, lane and column of D[m][n], by the data path layouts. */
static void place_d(const struct kase *k, uint32_t d, uint32_t m, uint32_t n, uint32_t *cta,
                    uint32_t *cell) {
    uint32_t lane = m, column = n;
    *cta = 0;
    if (k->ws && k->m == 64) { /* E */
        lane = m + (n >= k->n / 2 ? 64 : 0);
        column = n % (k->n / 2);
    } else if (k->ws && k->m == 32) { /* G */
        lane = m + 32 * (n / (k->n / 4));
        column = n % (k->n / 4);
    } else if (k->group == 1 && k->m == 64) { /* F */
        lane = m / 16 * 32 + m % 16 + (d >> 16);
    } else if (k->group == 2 && k->m == 256) { /* A */
        *cta = m / 128;
        lane = m % 128;
    } else if (k->group == 2) { /* B */
        *cta = m / 64;
        lane = m % 64 + (n >= k->n / 2 ? 64 : 0);
        column = n % (k->n / 2);
    }
    *cell = lane * 512 + (d & 0xffff) + column;
}

static double cell_value(const struct kase *k, uint32_t c) {
    return k->kind == UMMA_I8 ? (double)(int32_t)c
           : k->d_f16         ? num_to_f64(NUM_F16, c & 0xffff)
                              : (double)num_float(c);
}

static uint32_t cell_code(const struct kase *k, double v) {
    return k->kind == UMMA_I8 ? (uint32_t)(int32_t)v
           : k->d_f16         ? num_from_f64(NUM_F16, v, NUM_RN, 0)
                              : num_from_f64(NUM_F32, v, NUM_RN, 0);
}

static void fill(void) {
    for (int c = 0; c < 2; c++) {
        for (uint32_t i = 0; i < SMEM; i += 4) {
            const uint32_t v = unit_random();
            memcpy(&smem[c][i], &v, 4);
        }
        for (uint32_t i = 0; i < CELLS; i++)
            tmem[c][i] = unit_random();
    }
}

static void put_operand(const struct kase *k, bool is_a, const struct layout *l, uint32_t start,
                        uint32_t lbo, uint32_t sbo) {
    const uint32_t elem = elem_of(k), rows = is_a ? k->m : k->n, per = rows / (uint32_t)k->group;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t kk = 0; kk < 32 / elem; kk++) {
            uint8_t code[4] = {0};
            (is_a ? ma : mb)[r][kk] = value(k, is_a ? k->a : k->b, code);
            const uint32_t at =
                layout_address(l, is_a ? k->a_mn : k->b_mn, start, lbo, sbo, r % per, kk, elem);
            CHECK(at + elem <= SMEM, "test layout fits: %u", at);
            memcpy(&smem[r / per][at], code, elem);
        }
}

/* A[m][k] in every group of lanes that holds rows of D for m, 8 columns. */
static void put_a_tmem(const struct kase *k, uint32_t d, uint32_t a_addr) {
    const uint32_t elem = elem_of(k), per = 4 / elem;
    for (uint32_t m = 0; m < k->m; m++) {
        uint8_t row[32] = {0};
        for (uint32_t kk = 0; kk < 32 / elem; kk++) {
            uint8_t code[4] = {0};
            ma[m][kk] = value(k, k->a, code);
            memcpy(row + kk / per * 4 + kk % per * elem, code, elem);
        }
        for (uint32_t n = 0; n < k->n; n += 8) {
            uint32_t cta, cell;
            place_d(k, d, m, n, &cta, &cell);
            memcpy(&tmem[cta][cell / 512 * 512 + (a_addr & 0xffff)], row, 32);
        }
    }
}

static void run(const struct kase *k, bool accumulate, uint32_t scale, bool mask) {
    const uint32_t lane = k->m == 64 && !k->ws && k->group == 1 ? unit_random() % 2 * 16 : 0;
    const uint32_t d = lane << 16 | 32, a_addr = lane << 16 | 400;
    const struct layout *la = &layouts[k->la], *lb = &layouts[k->lb];
    const uint32_t elem = elem_of(k), start_a = 1024, start_b = 128 * 1024;
    uint32_t lbo_a = 16, sbo_a = 16, lbo_b, sbo_b;
    fill();
    layout_strides(lb, k->b_mn, k->n, elem, &lbo_b, &sbo_b);
    put_operand(k, false, lb, start_b, lbo_b, sbo_b);
    if (k->a_tmem) {
        put_a_tmem(k, d, a_addr);
    } else {
        layout_strides(la, k->a_mn, k->m, elem, &lbo_a, &sbo_a);
        put_operand(k, true, la, start_a, lbo_a, sbo_a);
    }
    for (uint32_t m = 0; m < k->m; m++)
        for (uint32_t n = 0; n < k->n; n++) {
            uint32_t cta, cell;
            place_d(k, d, m, n, &cta, &cell);
            tmem[cta][cell] =
                cell_code(k, (int)(unit_random() % 64) - 32) | (k->d_f16 ? 0xabcd0000u : 0);
        }
    struct umma u = {.form = {k->kind, (uint32_t)k->group, k->ws, k->a_tmem, 0, false},
                     .d = d,
                     .a_addr = a_addr,
                     .accumulate = accumulate,
                     .scale_d = scale,
                     .cta = {{smem[0], tmem[0]}, {smem[1], tmem[1]}}};
    for (int i = 0; mask && i < 8; i++)
        u.lane_mask[i] = unit_random();
    char why[200] = "";
    const bool ok = umma_prepare(&u, idesc_of(k), descriptor(la, start_a, lbo_a, sbo_a),
                                 descriptor(lb, start_b, lbo_b, sbo_b), why, sizeof why);
    CHECK(ok, "kind %d M %u N %u group %d: %s", k->kind, k->m, k->n, k->group, why);
    if (!ok)
        return;
    memcpy(before, tmem, sizeof tmem);
    umma_run(&u, NULL);
    static uint8_t seen[2][CELLS];
    memset(seen, 0, sizeof seen);
    long bad = 0;
    for (uint32_t m = 0; m < k->m; m++)
        for (uint32_t n = 0; n < k->n; n++) {
            uint32_t cta, cell;
            place_d(k, d, m, n, &cta, &cell);
            seen[cta][cell] = 1;
            const uint32_t l = cell / 512;
            if (u.lane_mask[4 * cta + l / 32] >> l % 32 & 1) {
                bad += tmem[cta][cell] != before[cta][cell];
                continue;
            }
            double want = accumulate ? cell_value(k, before[cta][cell]) * ldexp(1, -(int)scale) : 0;
            for (uint32_t kk = 0; kk < 32 / elem; kk++)
                want += ma[m][kk] * mb[n][kk] * (k->neg_a ? -1 : 1) * (k->neg_b ? -1 : 1);
            bad += cell_value(k, tmem[cta][cell]) != want;
        }
    CHECK(bad == 0, "kind %d %s M %u N %u group %d ws %d A %s%s B %s%s: %ld cells differ", k->kind,
          num_name(k->a), k->m, k->n, k->group, k->ws, k->a_tmem ? "tmem" : la->name,
          k->a_mn ? " MN" : "", lb->name, k->b_mn ? " MN" : "", bad);
    long stray = 0;
    for (int c = 0; c < 2; c++)
        for (uint32_t i = 0; i < CELLS; i++)
            stray += !seen[c][i] && tmem[c][i] != before[c][i];
    CHECK(stray == 0, "%ld cells outside D were written", stray);
}

static void test_products(void) {
    static const struct kase types[] = {
        {.kind = UMMA_F16, .a = NUM_BF16, .b = NUM_BF16},
        {.kind = UMMA_F16, .a = NUM_F16, .b = NUM_F16},
        {.kind = UMMA_F16, .a = NUM_F16, .b = NUM_F16, .d_f16 = true},
        {.kind = UMMA_TF32, .a = NUM_TF32, .b = NUM_TF32},
        {.kind = UMMA_F8F6F4, .a = NUM_E4M3, .b = NUM_E5M2},
        {.kind = UMMA_F8F6F4, .a = NUM_E5M2, .b = NUM_E4M3, .d_f16 = true},
        {.kind = UMMA_I8, .a = NUM_BF16, .b = NUM_F16}};
    static const struct {
        uint32_t m, n;
        int group;
        bool ws;
    } shapes[] = {{128, 8, 1, 0},  {128, 16, 1, 0},  {128, 128, 1, 0}, {64, 8, 1, 0},
                  {64, 48, 1, 0},  {128, 256, 1, 0}, {256, 32, 2, 0},  {256, 256, 2, 0},
                  {128, 32, 2, 0}, {128, 128, 2, 0}, {32, 64, 1, 1},   {64, 128, 1, 1},
                  {128, 64, 1, 1}, {32, 256, 1, 1},  {128, 40, 1, 0}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int n = 0; n < 3; n++) {
                struct kase k = types[t];
                k.m = shapes[s].m;
                k.n = shapes[s].n;
                k.group = shapes[s].group;
                k.ws = shapes[s].ws;
                k.a_tmem = n == 2;
                k.a_mn = !k.a_tmem && unit_random() % 2;
                k.b_mn = unit_random() % 2;
                k.neg_a = k.kind != UMMA_I8 && unit_random() % 4 == 0;
                k.neg_b = k.kind != UMMA_I8 && unit_random() % 4 == 0;
                if (elem_of(&k) == 1 && k.n / (uint32_t)k.group % 16)
                    k.b_mn = false;
                if (k.kind == UMMA_I8 && k.n > 32 && k.n % 16)
                    continue;
                const bool tf32 = k.kind == UMMA_TF32;
                k.la = (int)(unit_random() % 4);
                k.lb = (int)(unit_random() % 4);
                if (tf32 && k.a_mn)
                    k.la = 4;
                if (tf32 && k.b_mn)
                    k.lb = 4;
                /* MN-major operands fill whole spans. */
                const uint32_t bytes = k.n / (uint32_t)k.group * elem_of(&k);
                while (k.b_mn && bytes % layouts[k.lb].span)
                    k.lb = tf32 ? (k.b_mn = false, 0) : k.lb - 1;
                const uint32_t bytes_a = k.m / (uint32_t)k.group * elem_of(&k);
                while (k.a_mn && bytes_a % layouts[k.la].span)
                    k.la--;
                run(&k, n != 1, k.kind <= UMMA_TF32 && n == 0 ? unit_random() % 4 : 0, n == 1);
            }
}

static void test_every_layout(void) {
    for (int mn = 0; mn < 4; mn++)
        for (int la = 0; la < 4; la++)
            for (int lb = 0; lb < 4; lb++) {
                const struct kase k = {.kind = UMMA_F16,
                                       .a = NUM_BF16,
                                       .b = NUM_BF16,
                                       .m = 128,
                                       .n = 64,
                                       .group = 1,
                                       .a_mn = mn & 1,
                                       .b_mn = mn >> 1,
                                       .la = la,
                                       .lb = lb};
                run(&k, true, 0, false);
            }
}

/* --- Descriptors --- */

/* Worked values for bf16 x bf16 to f32, also found as constants in shipped kernels. */
static void test_idesc(void) {
    static const struct {
        uint32_t word, m, n;
        bool a_mn, b_mn;
        int group;
    } known[] = {{0x08020490, 128, 8, 0, 0, 1},   {0x08040490, 128, 16, 0, 0, 1},
                 {0x08200490, 128, 128, 0, 0, 1}, {0x08210490, 128, 128, 0, 1, 1},
                 {0x08050490, 128, 16, 0, 1, 1},  {0x08038490, 128, 8, 1, 1, 1},
                 {0x04020490, 64, 8, 0, 0, 1},    {0x10400490, 256, 256, 0, 0, 2}};
    char why[200] = "";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct umma_form f = {UMMA_F16, (uint32_t)known[i].group, false, false, 0, false,
                                    false};
        struct umma_shape s;
        CHECK(umma_decode(&s, known[i].word, &f, why, sizeof why), "%08x: %s", known[i].word, why);
        CHECK(s.m == known[i].m && s.n == known[i].n && s.a_mn == known[i].a_mn &&
                  s.b_mn == known[i].b_mn && s.a == NUM_BF16 && s.b == NUM_BF16 && !s.d_f16 &&
                  s.k == 16,
              "%08x decodes", known[i].word);
    }
}

static void test_idesc_refusals(void) {
    static const struct {
        uint32_t word;
        struct umma_form f;
        const char *says; /* NULL: legal */
    } t[] = {
        {0x08020490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, NULL},
        {0x08020490, {UMMA_F16, 2, 0, 0, 0, 0, 0}, "N is 8"},
        {0x10020490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "M is 256"},
        {0x02020490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "M is 32"},
        {0x08000490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "N is 0"},
        {0x08420490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "N is 264"},
        {0x080204d0, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "reserved"},
        {0x08820490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "reserved"},
        {0x28020490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "reserved"},
        {0x48020490, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "maximum shift"},
        {0x08020494, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "instruction is dense"},
        {0x08020498, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "saturate"},
        {0x08020090, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "mix"},
        {0x08020480, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "type 0 of D"},
        {0x08020000, {UMMA_F16, 1, 0, 0, 0, 0, 0}, NULL},
        {0x080204a0, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "type 2 of D"},
        {0x08020510, {UMMA_F16, 1, 0, 0, 0, 0, 0}, "do not exist"},
        {0x08020910, {UMMA_TF32, 1, 0, 0, 0, 0, 0}, NULL},
        {0x08020490, {UMMA_TF32, 1, 0, 0, 0, 0, 0}, "do not exist"},
        {0x08020010, {UMMA_F8F6F4, 1, 0, 0, 0, 0, 0}, NULL},
        {0x08020110, {UMMA_F8F6F4, 1, 0, 0, 0, 0, 0}, "do not exist"},
        {0x08020290, {UMMA_F8F6F4, 1, 0, 0, 0, 0, 0}, NULL},
        {0x08048290, {UMMA_F8F6F4, 1, 0, 0, 0, 0, 0}, "K-major"},
        {0x08030010, {UMMA_F8F6F4, 1, 0, 0, 0, 0, 0}, "MN-major 8-bit"},
        {0x080204a0, {UMMA_I8, 1, 0, 0, 0, 0, 0}, NULL},
        {0x080a04a0, {UMMA_I8, 1, 0, 0, 0, 0, 0}, "N is 40"},
        {0x080224a0, {UMMA_I8, 1, 0, 0, 0, 0, 0}, "negation"},
        {0x08100490, {UMMA_F16, 1, 1, 0, 0, 0, 0}, NULL},
        {0x02100490, {UMMA_F16, 1, 1, 0, 0, 0, 0}, NULL},
        {0x08080490, {UMMA_F16, 1, 1, 0, 0, 0, 0}, ".ws"},
        {0x08100490, {UMMA_F16, 2, 1, 0, 0, 0, 0}, "cta_group::1 only"},
        {0x08028490, {UMMA_F16, 1, 0, 1, 0, 0, 0}, "K-major"},
        {0x08820000, {UMMA_MXF8F6F4, 1, 0, 0, 1, 0, 0}, NULL},
        {0x08020000, {UMMA_MXF8F6F4, 1, 0, 0, 1, 0, 0}, "ue4m3"},
        {0x09820000, {UMMA_MXF8F6F4, 1, 0, 0, 1, 0, 0}, "reserved"},
        {0x10820000, {UMMA_MXF8F6F4, 1, 0, 0, 1, 0, 0}, "M is 256"},
        {0x68820030, {UMMA_MXF8F6F4, 1, 0, 0, 1, 0, 0}, NULL},
        {0x08820480, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, NULL},
        {0x08820490, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, "scale factor ids"},
        {0x08820080, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, "do not exist"},
        {0x08821480, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, NULL}, /* bit 12, as the CuTe DSL has it */
        {0x08820488, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, "reserved"},
        {0x08830480, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, "K-major"},
        {0x88820480, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, NULL}, /* K = 96 */
        {0xe8820490, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, NULL}, /* scale factor ids 3 and 1 */
        {0xa8020480, {UMMA_MXF4NVF4, 1, 0, 0, 4, 0, 0}, "scale factor ids"},
        {0xc8020480, {UMMA_MXF4NVF4, 1, 0, 0, 4, 0, 0}, NULL},
        {0x88820480, {UMMA_MXF4, 1, 0, 1, 2, 0, 0}, "K = 96"},
        {0x88820484, {UMMA_MXF4, 1, 0, 0, 2, 0, 1}, "K = 96"},
        {0x88820000, {UMMA_MXF8F6F4, 1, 0, 0, 1, 0, 0}, "K = 96"},
        {0x08820484, {UMMA_MXF4, 1, 0, 0, 2, 0, 0}, "sparse"},
        {0x08020480, {UMMA_MXF4NVF4, 1, 0, 0, 4, 0, 0}, NULL},
        {0x080204a0, {UMMA_MXF4NVF4, 1, 0, 0, 4, 0, 0}, "scale factor ids"},
        {0x08820480, {UMMA_MXF4NVF4, 1, 1, 0, 4, 0, 0}, ".ws"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct umma_shape s;
        char why[200] = "";
        const bool ok = umma_decode(&s, t[i].word, &t[i].f, why, sizeof why);
        CHECK(ok == !t[i].says && (ok || strstr(why, t[i].says)), "%08x: %s", t[i].word, why);
    }
}

static void test_desc(void) {
    struct matrix_desc d;
    char why[200] = "";
    CHECK(desc_decode_sm100(&d, 0x4000404000000123ull, why, sizeof why) && d.start == 0x1230 &&
              d.sbo == 1024 && d.swizzle == 3,
          "%s", why);
    CHECK(!desc_decode_sm100(&d, 0x4000004000000123ull, why, sizeof why) && strstr(why, "46-48"),
          "%s", why);
    CHECK(!desc_decode_sm100(&d, 0x6000404000000123ull, why, sizeof why) &&
              strstr(why, "swizzle mode 3"),
          "%s", why);
    CHECK(!desc_decode_sm100(&d, 0x4020404000000123ull, why, sizeof why) && strstr(why, "reserved"),
          "%s", why);
    CHECK(desc_decode_sm100(&d, 0x4010404000400123ull, why, sizeof why) && d.absolute, "%s", why);
    CHECK(desc_chunk(&d, false, 0, 4) == (0x1270 ^ 0x40) && desc_chunk(&d, false, 0, 5) == 0x400 &&
              desc_chunk(&d, false, 9, 6) == 0x400 + 1024 + 128,
          "K goes on at the absolute address");
    CHECK(!desc_decode_sm100(&d, 0x8010404000000123ull, why, sizeof why) && strstr(why, "bit 52"),
          "64B: %s", why);
    CHECK(!desc_decode_sm100(&d, 0x4012404000000123ull, why, sizeof why) && strstr(why, "bit 52"),
          "base offset: %s", why);
    CHECK(!desc_decode_sm100(&d, 0x4000404000004123ull, why, sizeof why) && strstr(why, "reserved"),
          "%s", why);
    CHECK(desc_decode_sm90(&d, 0x4000004000000123ull, why, sizeof why) && d.swizzle == 3, "%s",
          why);
    CHECK(desc_decode_sm90(&d, 0xc000004000000123ull, why, sizeof why) && d.swizzle == 1, "%s",
          why);
    CHECK(!desc_decode_sm90(&d, 0x4000404000000123ull, why, sizeof why) && strstr(why, "sm_100a"),
          "%s", why);
    /* P[kv][8 heads], N-major without swizzle: row kv is 16 bytes. */
    CHECK(desc_decode_sm100(&d, 0x0000400000080000ull, why, sizeof why), "%s", why);
    for (uint32_t kv = 0; kv < 16; kv++)
        CHECK(desc_chunk(&d, true, kv, 0) == 16 * kv, "row %u", kv);
    /* Data whose pattern starts at its own address, 512 bytes into an atom, needs base offset 4. */
    CHECK(desc_decode_sm100(&d, 0x4008404000000020ull, why, sizeof why) && d.base_offset == 4, "%s",
          why);
    for (uint32_t r = 0; r < 8; r++)
        CHECK(desc_chunk(&d, false, r, 1) == 512 + 128 * r + 16 * (1 ^ r), "base offset row %u", r);
}

static void test_prepare(void) {
    const struct layout *sw = &layouts[3], *none = &layouts[0];
    const uint64_t k_major = descriptor(sw, 1024, 0, 1024),
                   n_major = descriptor(none, 2048, 128, 16);
    struct umma u = {.form = {UMMA_F16, 1, false, false, 0, false}, .d = 0x00100000};
    char why[200] = "";
    CHECK(!umma_prepare(&u, 0x08020490, k_major, k_major, why, sizeof why) &&
              strstr(why, "lane 16"),
          "%s", why);
    CHECK(umma_prepare(&u, 0x04020490, k_major, k_major, why, sizeof why), "M 64 at lane 16: %s",
          why);
    u.d = 505;
    CHECK(!umma_prepare(&u, 0x08020490, k_major, k_major, why, sizeof why) &&
              strstr(why, "past 511"),
          "%s", why);
    u.d = 0;
    CHECK(!umma_prepare(&u, 0x08030490, k_major, k_major, why, sizeof why) &&
              strstr(why, "whole swizzle"),
          "%s", why);
    CHECK(umma_prepare(&u, 0x08030490, k_major, n_major, why, sizeof why), "%s", why);
    CHECK(!umma_prepare(&u, 0x08218490, descriptor(&layouts[4], 1024, 0, 1024), k_major, why,
                        sizeof why) &&
              strstr(why, "32-byte atoms"),
          "%s", why);
    u.form.a_tmem = true;
    u.a_addr = 0x00100100;
    CHECK(!umma_prepare(&u, 0x08200490, 0, k_major, why, sizeof why) && strstr(why, "lane 16"),
          "%s", why);
    u.a_addr = 508;
    CHECK(!umma_prepare(&u, 0x08200490, 0, k_major, why, sizeof why) && strstr(why, "past 511"),
          "%s", why);
    u.a_addr = 504;
    CHECK(umma_prepare(&u, 0x08200490, 0, k_major, why, sizeof why), "%s", why);
    u.scale_d = 16;
    CHECK(!umma_prepare(&u, 0x08200490, 0, k_major, why, sizeof why) && strstr(why, "scale"), "%s",
          why);
}

int main(void) {
    test_desc();
    test_idesc();
    test_idesc_refusals();
    test_prepare();
    test_products();
    test_every_layout();
    return unit_end();
}
