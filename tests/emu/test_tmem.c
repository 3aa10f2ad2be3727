/* test_tmem.c: movement to and from tensor memory: tcgen05.ld, .st, .cp, .shift.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tmem.h"
#include "layouts.h"
#include "unit.h"

enum { SMEM = 232448, CELLS = 128 * 512 };

static uint8_t smem[1][SMEM];
static uint32_t tmem[1][CELLS], before[1][CELLS];

static uint64_t descriptor(const struct layout *l, uint32_t start, uint32_t lbo, uint32_t sbo) {
    return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           1ull << 46 | (uint64_t)l->code << 61;
}

static void fill(void) {
    for (uint32_t i = 0; i < SMEM; i += 4) {
        const uint32_t v = unit_random();
        memcpy(&smem[0][i], &v, 4);
    }
    for (uint32_t i = 0; i < CELLS; i++)
        tmem[0][i] = unit_random();
}

/* --- tcgen05.ld, .st --- */

/* Reads as the figures of Data Movement Shape show: 16x64b: a row of 64 bits belongs to two threads
 * of one pair... written as where cell (lane, column) goes. */
static void owner(enum tmem_shape s, int lane, int column, int split, int *thread, int *reg) {
    switch (s) {
    case TMEM_32X32B:
        *thread = lane;
        *reg = column;
        return;
    case TMEM_16X64B: /* lanes 0-7: even threads, 8-15: odd; two columns to a pair of threads */
        *thread = lane % 8 * 4 + column % 2 * 2 + lane / 8;
        *reg = column / 2;
        return;
    case TMEM_16X128B: /* the 16-bit A fragment: registers alternate between lanes l and l + 8 */
        *thread = lane % 8 * 4 + column % 4;
        *reg = column / 4 * 2 + lane / 8;
        return;
    case TMEM_16X256B: /* the f32 accumulator fragment */
        *thread = lane % 8 * 4 + column % 8 / 2;
        *reg = column / 8 * 4 + lane / 8 * 2 + column % 2;
        return;
    case TMEM_16X32BX2:
        *thread = lane + (column >= split ? 16 : 0);
        *reg = column >= split ? column - split : column;
        return;
    }
}

static void test_ld_st(void) {
    static const int most[] = {128, 128, 64, 32, 128};
    static uint32_t regs[128][32];
    uint32_t *w[128];
    const uint32_t *r[128];
    for (int i = 0; i < 128; i++)
        r[i] = w[i] = regs[i];
    for (int shape = 0; shape < 5; shape++)
        for (int num = 1; num <= 128; num *= 2)
            for (int pack = 0; pack < 2; pack++) {
                struct tmem_access t = {(enum tmem_shape)shape, num, pack, 0};
                const int n = tmem_registers(&t);
                CHECK((n > 0) == (num <= most[shape]), "shape %d x%d", shape, num);
                if (!n)
                    continue;
                const int cols = tmem_columns(&t), cells = cols / (pack ? 2 : 1);
                const bool two = shape == TMEM_16X32BX2;
                t.split_off = two ? cols + (cols < 256 ? 32 : 0) : 0;
                const int reach = cols + t.split_off;
                const int lanes = tmem_lanes(&t), quadrant = (int)(unit_random() % 4);
                const uint32_t lane0 =
                    (uint32_t)(quadrant * 32) + (lanes == 16 ? unit_random() % 2 * 16 : 0);
                const uint32_t column0 = unit_random() % (reach < 448 ? 64 : 1),
                               address = lane0 << 16 | column0;
                const char *why = tmem_refuse(&t, address, quadrant);
                CHECK(!why, "shape %d x%d pack %d: %s", shape, num, pack, why);
                CHECK(tmem_refuse(&t, address, (quadrant + 1) % 4), "other quarter");
                fill();
                memcpy(before, tmem, sizeof tmem);
                tmem_load(&t, tmem[0], address, w);
                long bad = 0;
                for (int half = 0; half <= two; half++)
                    for (int lane = 0; lane < lanes; lane++)
                        for (int cell = 0; cell < cells; cell++) {
                            int thread = 0, reg = 0;
                            owner(t.shape, lane, cell + (half ? 10000 : 0), two ? 10000 : 0,
                                  &thread, &reg);
                            const uint32_t *p = &tmem[0][(lane0 + (uint32_t)lane) * 512 + column0 +
                                                         (uint32_t)(half ? t.split_off : 0)];
                            const uint32_t want =
                                pack ? (p[2 * cell] & 0xffff) | p[2 * cell + 1] << 16 : p[cell];
                            bad += regs[reg][thread] != want;
                        }
                CHECK(bad == 0, "ld shape %d x%d pack %d: %ld differ", shape, num, pack, bad);
                /* st puts the same back, and nothing else. */
                for (int lane = 0; lane < lanes; lane++)
                    for (int c = 0; c < cols; c++) {
                        const uint32_t at = (lane0 + (uint32_t)lane) * 512 + column0 + (uint32_t)c;
                        tmem[0][at] = 0xdeadbeef;
                        if (two)
                            tmem[0][at + (uint32_t)t.split_off] = 0xdeadbeef;
                        if (pack) {
                            before[0][at] &= 0xffff;
                            if (two)
                                before[0][at + (uint32_t)t.split_off] &= 0xffff;
                        }
                    }
                tmem_store(&t, tmem[0], address, r);
                CHECK(memcmp(tmem[0], before[0], sizeof tmem[0]) == 0, "st shape %d x%d pack %d",
                      shape, num, pack);
            }
    const struct tmem_access t = {TMEM_32X32B, 32, false, 0}, half = {TMEM_16X64B, 1, false, 0};
    CHECK(tmem_refuse(&t, 0x00100000, 0) && tmem_refuse(&t, 481, 0) && !tmem_refuse(&t, 480, 0),
          "addresses");
    CHECK(tmem_refuse(&half, 0x00080000, 0) && !tmem_refuse(&half, 0x00300000, 1),
          "lane 16 of a quarter");
    CHECK(tmem_refuse(&t, 0x00800000, 0), "lane 128");
}

/* --- tcgen05.cp, .shift --- */

static void test_cp(void) {
    static const struct {
        enum tmem_copy shape;
        uint32_t rows, columns, copies;
    } t[] = {{TMEM_CP_128X256B, 128, 8, 1},     {TMEM_CP_4X256B, 4, 8, 1},
             {TMEM_CP_128X128B, 128, 4, 1},     {TMEM_CP_64X128B_02_13, 64, 4, 2},
             {TMEM_CP_64X128B_01_23, 64, 4, 2}, {TMEM_CP_32X128B_WARPX4, 32, 4, 4}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        for (int l = 0; l < 4; l++) {
            const struct layout *y = &layouts[l];
            const uint32_t sbo = 8 * y->span + 1024, lbo = 20000;
            struct matrix_desc d;
            char why[200] = "";
            CHECK(desc_decode_sm100(&d, descriptor(y, 2048, lbo, sbo), why, sizeof why), "%s", why);
            fill();
            memcpy(before, tmem, sizeof tmem);
            const uint32_t lane0 = t[i].shape == TMEM_CP_4X256B ? 31 : 0,
                           address = lane0 << 16 | 24;
            CHECK(!tmem_copy_refuse(t[i].shape, address), "address");
            tmem_copy(t[i].shape, TMEM_CP_PLAIN, &d, smem[0], tmem[0], address);
            for (uint32_t r = 0; r < t[i].rows; r++)
                for (uint32_t c = 0; c < t[i].columns; c++) {
                    const uint32_t at = layout_address(y, false, 2048, lbo, sbo, r, c, 4);
                    for (uint32_t k = 0; k < t[i].copies; k++) {
                        uint32_t lane = r; /* warps 0..3 hold lanes 32w.. */
                        if (t[i].shape == TMEM_CP_4X256B)
                            lane = 31 + 32 * r;
                        else if (t[i].shape ==
                                 TMEM_CP_64X128B_02_13) /* warps 0,2 and 1,3 are equal */
                            lane = r + 64 * k;
                        else if (t[i].shape == TMEM_CP_64X128B_01_23)
                            lane = (r < 32 ? 0 : 64) + r % 32 + 32 * k;
                        else if (t[i].shape == TMEM_CP_32X128B_WARPX4)
                            lane = r + 32 * k;
                        uint32_t want;
                        memcpy(&want, &smem[0][at], 4);
                        CHECK(tmem[0][lane * 512 + 24 + c] == want, "cp %zu layout %s row %u", i,
                              y->name, r);
                        before[0][lane * 512 + 24 + c] = want;
                    }
                }
            CHECK(memcmp(tmem[0], before[0], sizeof tmem[0]) == 0, "cp %zu writes nothing else", i);
        }
    CHECK(tmem_copy_refuse(TMEM_CP_128X128B, 0x00100000) && tmem_copy_refuse(TMEM_CP_128X256B, 505),
          "refusals");
    /* Decompression: element i of the chunk to byte i. */
    struct matrix_desc d;
    char why[200];
    desc_decode_sm100(&d, descriptor(&layouts[0], 0, 16, 128), why, sizeof why);
    fill();
    tmem_copy(TMEM_CP_32X128B_WARPX4, TMEM_CP_B4X16_P64, &d, smem[0], tmem[0], 0);
    for (int i = 0; i < 16; i++)
        CHECK((tmem[0][i / 4] >> 8 * (i % 4) & 0xff) == (smem[0][i / 2] >> 4 * (i % 2) & 15u) << 2,
              "b4 %d", i);
    tmem_copy(TMEM_CP_32X128B_WARPX4, TMEM_CP_B6X16_P32, &d, smem[0], tmem[0], 0);
    for (int i = 0; i < 16; i++) {
        uint32_t want = 0;
        for (int b = 0; b < 6; b++)
            want |= (uint32_t)(smem[0][(6 * i + b) / 8] >> (6 * i + b) % 8 & 1) << b;
        CHECK((tmem[0][i / 4] >> 8 * (i % 4) & 0xff) == want, "b6 %d", i);
    }
}

static void test_shift(void) {
    fill();
    memcpy(before, tmem, sizeof tmem);
    CHECK(tmem_shift_refuse(0x00100000) && !tmem_shift_refuse(0x00200010), "addresses");
    tmem_shift(tmem[0], 0x00200010);
    for (int lane = 0; lane < 128; lane++)
        for (int c = 0; c < 512; c++) {
            const bool moved = lane >= 32 && lane < 63 && c >= 16 && c < 24;
            CHECK(tmem[0][lane * 512 + c] == before[0][(moved ? lane + 1 : lane) * 512 + c],
                  "shift %d %d", lane, c);
        }
}

int main(void) {
    test_ld_st();
    test_cp();
    test_shift();
    return unit_end();
}
