/* test_umma_scaled.c: tcgen05.mma with scale factors, 4- and 6-bit operands, zero-column masks, A
 * shifted: operands are written element by element as the PTX ISA packs them, the answer is summed
 * in double.  Values and scales are such that f32 sums are exact.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "umma.h"
#include "tmem.h"
#include "layouts.h"
#include "unit.h"

enum { SMEM = 232448, CELLS = 128 * 512, D = 32, A_TMEM = 400, SFA = 440, SFB = 460 };

static uint8_t smem[2][SMEM];
static uint32_t tmem[2][CELLS], before[2][CELLS];
static double ma[256][96], mb[256][96], sa[256][6], sb[256][6];

struct kase {
    enum umma_kind kind;
    enum num_fmt a, b;
    uint32_t m, n, group, scales, sfa_id, sfb_id;
    bool ue4m3, a_tmem;
    int layout;
    uint64_t zero;
    bool ws, ashift;
    bool k96;        /* scales: 3 or 6 */
    uint32_t column; /* K = 96: 16-byte column of the 128-byte line where it starts */
};

static bool small(enum num_fmt f) {
    return f == NUM_E2M1 || f == NUM_E2M3 || f == NUM_E3M2;
}
static uint32_t depth(const struct kase *k) {
    return k->k96 ? 96 : k->kind >= UMMA_MXF4 ? 64 : 32;
}
static uint32_t type_code(const struct kase *k, enum num_fmt f) {
    return k->kind >= UMMA_MXF4 ? 1
           : f == NUM_E4M3      ? 0
           : f == NUM_E5M2      ? 1
           : f == NUM_E2M3      ? 3
           : f == NUM_E3M2      ? 4
                                : 5;
}

/* Codes of small numbers. */
static uint32_t pick(enum num_fmt f, double *v) {
    static const double choice[] = {0, 0.5, 1, 1.5, 2, 3, 4};
    *v = choice[unit_random() % 7] * (unit_random() % 2 ? 1 : -1);
    return num_from_f64(f, *v, NUM_RN, 0);
}

static void put_bits(uint8_t *p, uint32_t bit, uint32_t bits, uint32_t code) {
    for (uint32_t i = 0; i < bits; i++, bit++)
        p[bit / 8] = (uint8_t)((p[bit / 8] & ~(1u << bit % 8)) | (code >> i & 1) << bit % 8);
}

/* The 32 or 48 bytes of one row of K elements, as memory packs them. */
static void pack_row(const struct kase *k, enum num_fmt f, bool in_tmem, const uint32_t *codes,
                     uint8_t *row) {
    for (uint32_t i = 0; i < depth(k); i++) {
        if (k->kind >= UMMA_MXF4) /* two in a byte */
            put_bits(row, 4 * i, 4, codes[i]);
        else if (!small(f))
            row[i] = (uint8_t)codes[i];
        else if (in_tmem) /* one in a byte; a 4-bit one in the middle */
            row[i] = (uint8_t)(codes[i] << (f == NUM_E2M1 ? 2 : 0));
        else /* 16 elements contiguous, then padding to 16 bytes */
            put_bits(row + i / 16 * 16, i % 16 * (f == NUM_E2M1 ? 4 : 6), f == NUM_E2M1 ? 4 : 6,
                     codes[i]);
    }
}

static void fill(void) {
    for (int c = 0; c < 2; c++) {
        for (uint32_t i = 0; i < SMEM; i++)
            smem[c][i] = (uint8_t)unit_random();
        for (uint32_t i = 0; i < CELLS; i++)
            tmem[c][i] = num_bits32((float)((int)(unit_random() % 64) - 32));
    }
}

static uint64_t put_operand(const struct kase *k, bool is_a, uint32_t start) {
    const struct layout *l = &layouts[k->layout];
    const uint32_t rows = is_a ? k->m : k->n, per = rows / k->group;
    uint32_t lbo, sbo;
    layout_strides(l, false, rows, 1, &lbo, &sbo);
    const uint32_t next = start + 64 * 1024, bytes = k->k96 ? 48 : 32;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t codes[96];
        uint8_t row[48];
        for (uint32_t i = 0; i < bytes; i++)
            row[i] = (uint8_t)unit_random(); /* padding may hold anything */
        for (uint32_t i = 0; i < depth(k); i++)
            codes[i] = pick(is_a ? k->a : k->b, &(is_a ? ma : mb)[r][i]);
        pack_row(k, is_a ? k->a : k->b, is_a && k->a_tmem, codes, row);
        for (uint32_t i = 0; i < bytes; i++) {
            const uint32_t at = 16 * k->column + i, line = at / 128;
            if (is_a && k->a_tmem)
                ((uint8_t *)&tmem[r / per][r % per * 512 + A_TMEM])[i] = row[i];
            else
                smem[r / per][layout_address(l, false, line ? next : start, lbo, sbo, r % per,
                                             at % 128, 1)] = row[i];
        }
    }
    if (k->k96 && k->layout == 3) /* the line that K goes on in, by address */
        return (uint64_t)(start / 16 + k->column) | (uint64_t)(next >> 4) << 16 |
               (uint64_t)(sbo >> 4) << 32 | 1ull << 46 | 1ull << 52 | 2ull << 61;
    return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           1ull << 46 | (uint64_t)l->code << 61;
}

/* Row r of each CTA: byte id.. of lane r%32, column r/32, the same in all quarters; every four
 * bytes fill a column for each 32 of 128 or 256 rows.  Of 128 rows over a pair each half of the
 * lanes has its half of B. */
static void put_scales(const struct kase *k, bool is_a) {
    const uint32_t rows = is_a ? k->m : k->n;
    const bool halves = !is_a && k->group == 2 && k->m == 128;
    const uint32_t per = is_a ? k->m / k->group : halves ? k->n / 2 : k->n;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t s = 0; s < k->scales; s++) {
            double *v = &(is_a ? sa : sb)[r][s];
            uint32_t code = 125 + unit_random() % 5;
            *v = num_to_f64(NUM_UE8M0, code);
            if (k->ue4m3) {
                static const double choice[] = {0.5, 1, 1.5, 2};
                *v = choice[unit_random() % 4];
                code = num_from_f64(NUM_UE4M3, *v, NUM_RN, 0);
            }
            const uint32_t at = (is_a ? k->sfa_id : k->sfb_id) + s, byte = at % 4;
            const uint32_t word = at / 4 * (is_a || per <= 128 ? 4 : 8);
            for (uint32_t c = 0; c < k->group; c++)
                for (uint32_t q = 0; q < 4; q++) {
                    const uint32_t in = r % per;
                    if (is_a ? r / per == c : !halves || r / per == q / 2)
                        ((uint8_t *)&tmem[c][(in % 32 + 32 * q) * 512 + (is_a ? SFA : SFB) + word +
                                             in / 32])[byte] = (uint8_t)code;
                }
        }
    /* Bytes that are not chosen hold anything, the same in all quarters (of a half). */
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t i = 32; i < 128; i++)
            for (uint32_t col = is_a ? SFA : SFB; col < (is_a ? SFA + 8u : SFB + 16u); col++)
                tmem[c][i * 512 + col] =
                    tmem[c][(halves ? i % 32 + i / 64 * 64 : i % 32) * 512 + col];
}

static double product(const struct kase *k, uint32_t m, uint32_t n) {
    const uint32_t per = k->m / k->group, blk = k->scales ? depth(k) / k->scales : 1;
    const uint32_t row = k->ashift && m % per + 1 < per ? m + 1 : m;
    double sum = 0;
    for (uint32_t i = 0; i < depth(k); i++)
        sum += ma[row][i] * mb[n][i] * (k->scales ? sa[m][i / blk] * sb[n][i / blk] : 1);
    return sum;
}

static void run(const struct kase *k, const char *zero_bits) {
    fill();
    const uint64_t da = put_operand(k, true, 1024), db = put_operand(k, false, 128 * 1024);
    if (k->scales) {
        put_scales(k, true);
        put_scales(k, false);
    }
    const uint32_t m_field = k->scales ? k->m / 128 << 27 : k->m / 16 << 24;
    const uint32_t idesc =
        type_code(k, k->a) << 7 | type_code(k, k->b) << 10 | k->n / 8 << 17 | m_field |
        (k->scales ? k->sfa_id << 29 | k->sfb_id << 4 | (k->ue4m3 ? 0u : 1u << 23) : 1u << 4) |
        (uint32_t)k->k96 << 31;
    const uint32_t vector = k->k96 ? k->scales / 3 * 2 : k->scales;
    struct umma u = {.form = {k->kind, k->group, k->ws, k->a_tmem, vector, k->ashift},
                     .d = D,
                     .a_addr = A_TMEM,
                     .sfa = SFA | (k->layout & 1 ? k->sfa_id << 30 : 0), /* as CUTLASS has it */
                     .sfb = SFB | (k->layout & 1 ? k->sfb_id << 30 : 0),
                     .zero_columns = k->zero,
                     .accumulate = true,
                     .cta = {{smem[0], tmem[0]}, {smem[1], tmem[1]}}};
    char why[200] = "";
    CHECK(umma_prepare(&u, idesc, da, db, why, sizeof why), "kind %d: %s", k->kind, why);
    struct umma other = u;
    other.sfa = SFA | (k->sfa_id ^ 1) << 30 | 1u << 30;
    CHECK(!k->scales || k->sfa_id == (other.sfa >> 30) ||
              !umma_prepare(&other, idesc, da, db, why, sizeof why),
          "another byte in the address than in the descriptor");
    memcpy(before, tmem, sizeof tmem);
    umma_run(&u, NULL);
    const bool halves = k->group == 2 && k->m == 128;
    long bad = 0;
    for (uint32_t m = 0; m < k->m; m++)
        for (uint32_t n = 0; n < k->n; n++) {
            const uint32_t per = k->m / k->group, cta = m / per;
            const uint32_t lane = m % per + (halves && n >= k->n / 2 ? 64 : 0);
            const uint32_t cell = lane * 512 + D + (halves ? n % (k->n / 2) : n);
            double want = (double)num_float(before[cta][cell]);
            if (!zero_bits || zero_bits[n] == '0')
                want += product(k, m, n);
            bad += (double)num_float(tmem[cta][cell]) != want;
        }
    CHECK(bad == 0, "kind %d A %s B %s M %u N %u group %u scales %u%s: %ld differ", k->kind,
          num_name(k->a), num_name(k->b), k->m, k->n, k->group, k->scales,
          k->a_tmem ? " A in tmem" : "", bad);
}

static void test_scaled(void) {
    static const enum num_fmt f[] = {NUM_E4M3, NUM_E5M2, NUM_E2M3, NUM_E3M2, NUM_E2M1};
    static const uint32_t shapes[][3] = {{128, 8, 1},   {128, 128, 1}, {128, 256, 1}, {256, 64, 2},
                                         {256, 256, 2}, {128, 32, 2},  {128, 256, 2}};
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < 5; b++)
            for (int t = 0; t < 2; t++) {
                const uint32_t *s = shapes[unit_random() % (t ? 5 : 7)];
                const struct kase k = {.kind = UMMA_MXF8F6F4,
                                       .a = f[a],
                                       .b = f[b],
                                       .m = s[0],
                                       .n = s[1],
                                       .group = s[2],
                                       .scales = 1,
                                       .sfa_id = unit_random() % 4,
                                       .sfb_id = unit_random() % 4,
                                       .a_tmem = t,
                                       .layout = (int)(unit_random() % 4)};
                run(&k, NULL);
                struct kase plain = k;
                plain.kind = UMMA_F8F6F4;
                plain.scales = plain.sfa_id = plain.sfb_id = 0;
                run(&plain, NULL);
            }
    for (uint32_t i = 0; i < 56; i++) {
        const uint32_t *s = shapes[i % 7];
        struct kase k = {.kind = i % 4 == 0 ? UMMA_MXF4 : UMMA_MXF4NVF4,
                         .a = NUM_E2M1,
                         .b = NUM_E2M1,
                         .m = s[0],
                         .n = s[1],
                         .group = s[2],
                         .scales = i % 4 < 2 ? 2 : 4,
                         .ue4m3 = i % 4 == 3,
                         .a_tmem = i % 14 < 5,
                         .layout = (int)(i / 7 % 4)};
        if (k.scales == 2) {
            k.sfa_id = unit_random() % 2 * 2;
            k.sfb_id = unit_random() % 2 * 2;
        }
        run(&k, NULL);
    }
}

/* K = 96 of sm_103a: six scale factors from bytes 0 or 2 on, or three from any; each column of a
 * 128-byte line as the first. */
static void test_k96(void) {
    static const uint32_t shapes[][3] = {{128, 64, 1}, {128, 192, 1}, {256, 256, 2}, {256, 128, 2}};
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t *s = shapes[i / 8 % 4];
        const bool six = i & 1;
        run(&(struct kase){.kind = six || i & 2 ? UMMA_MXF4NVF4 : UMMA_MXF4,
                           .a = NUM_E2M1,
                           .b = NUM_E2M1,
                           .m = s[0],
                           .n = s[1],
                           .group = s[2],
                           .scales = six ? 6 : 3,
                           .sfa_id = six ? i / 2 % 2 * 2 : i / 2 % 4,
                           .sfb_id = six ? i / 4 % 2 * 2 : i / 8 % 4,
                           .ue4m3 = six && i & 4,
                           .k96 = true,
                           .layout = i < 56 ? 3 : 2 * (int)(i % 2), /* 128B; none, 64B */
                           .column = i < 56 ? (i + i / 8) % 8 : 0},
            NULL);
    }
}

static void test_quarters(void) {
    struct umma u = {.form = {UMMA_MXF4, 1, false, false, 2, false},
                     .shape = {.m = 128, .n = 64},
                     .sfa = SFA,
                     .sfb = SFB,
                     .cta = {{smem[0], tmem[0]}, {NULL, NULL}}};
    memset(tmem, 0, sizeof tmem);
    CHECK(!umma_scales_refuse(&u, 0), "equal quarters");
    tmem[0][(64 + 5) * 512 + SFA + 3] = 1;
    CHECK(umma_scales_refuse(&u, 0) && strstr(umma_scales_refuse(&u, 0), "of A"), "SFA differs");
    memset(tmem, 0, sizeof tmem);
    tmem[0][(96 + 31) * 512 + SFB + 1] = 1;
    CHECK(umma_scales_refuse(&u, 0) && strstr(umma_scales_refuse(&u, 0), "of B"), "SFB differs");
    tmem[0][(96 + 31) * 512 + SFB + 1] = 0;
    tmem[0][(96 + 31) * 512 + SFB + 2] = 1;
    CHECK(!umma_scales_refuse(&u, 0), "column 2 holds no scale of 64 columns");

    u.form.cta_group = 2; /* N / 2 columns in lanes 0 to 63, the others in 64 to 127 */
    memset(tmem, 0, sizeof tmem);
    for (uint32_t lane = 64; lane < 128; lane++)
        tmem[0][lane * 512 + SFB] = 7;
    CHECK(!umma_scales_refuse(&u, 0), "each half has its own");
    tmem[0][(32 + 3) * 512 + SFB] = 1;
    CHECK(umma_scales_refuse(&u, 0) && strstr(umma_scales_refuse(&u, 0), "half of B"), "in a half");
}

/* The examples of the section Zero-Column Mask Descriptor, least significant bit first. */
static void test_zero_columns(void) {
    static const struct {
        uint32_t m, sc[4], fs[4];
        const char *bits[4];
    } t[] = {{128, {0}, {0}, {"00001110000111"}},
             {64, {0, 0}, {1, 0}, {"11100001110000111", "00001110000111"}},
             {32,
              {0, 1, 2, 1},
              {1, 1, 0, 0},
              {"1110000111", "110000111", "001110000111", "0001110000111"}}};
    const char *why = NULL;
    uint64_t mask[4];
    for (size_t i = 0; i < 3; i++) {
        uint64_t word = 1ull << 39 | 2ull << 40 | 3ull << 48;
        const uint32_t parts = 128 / t[i].m, n = 128;
        for (uint32_t p = 0; p < 4; p++)
            word |= (uint64_t)t[i].sc[p] << 8 * p | (uint64_t)t[i].fs[p] << (32 + p);
        CHECK(umma_zero_columns(word, t[i].m, n, mask, &why), "%s", why);
        for (uint32_t p = 0; p < parts; p++)
            for (uint32_t j = 0; t[i].bits[p][j]; j++) {
                const uint32_t col = p * (n / parts) + j;
                CHECK((mask[col / 64] >> col % 64 & 1) == (uint64_t)(t[i].bits[p][j] == '1'),
                      "M %u mask %u bit %u", t[i].m, p, j);
            }
    }
    CHECK(umma_zero_columns(2ull << 40, 128, 64, mask, &why) && !mask[0], "non-zero mask 0");
    CHECK(!umma_zero_columns(1ull << 57, 128, 64, mask, &why) && strstr(why, "shift"), "shift");
    char bits[65];
    for (int j = 0; j < 64; j++)
        bits[j] = "0000111"[j % 7];
    bits[64] = 0;
    run(&(struct kase){.kind = UMMA_F8F6F4,
                       .a = NUM_E4M3,
                       .b = NUM_E4M3,
                       .m = 128,
                       .n = 64,
                       .group = 1,
                       .ws = true,
                       .zero = 1ull << 39 | 2ull << 40 | 3ull << 48},
        bits);
}

static void test_ashift(void) {
    for (uint32_t group = 1; group <= 2; group++)
        run(&(struct kase){.kind = UMMA_F8F6F4,
                           .a = NUM_E4M3,
                           .b = NUM_E5M2,
                           .m = 128 * group,
                           .n = 32,
                           .group = group,
                           .a_tmem = true,
                           .ashift = true},
            NULL);
}

int main(void) {
    test_scaled();
    test_k96();
    test_quarters();
    test_zero_columns();
    test_ashift();
    return unit_end();
}
