/* tmem.c: see tmem.h.  PTX ISA: Data Movement Shape, tcgen05.ld, tcgen05.st, tcgen05.cp,
 * tcgen05.shift.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tmem.h"
#include <string.h>

enum { LANES = 32 };

static const struct {
    uint8_t regs, max, lanes, columns; /* for .x1; columns are packed cells */
} shapes[] = {
    [TMEM_32X32B] = {1, 128, 32, 1},   [TMEM_16X64B] = {1, 128, 16, 2},
    [TMEM_16X128B] = {2, 64, 16, 4},   [TMEM_16X256B] = {4, 32, 16, 8},
    [TMEM_16X32BX2] = {1, 128, 16, 1},
};

int tmem_registers(const struct tmem_access *t) {
    const bool power = t->num > 0 && (t->num & (t->num - 1)) == 0;
    return power && t->num <= shapes[t->shape].max ? shapes[t->shape].regs * t->num : 0;
}

int tmem_lanes(const struct tmem_access *t) {
    return shapes[t->shape].lanes;
}

int tmem_columns(const struct tmem_access *t) {
    return shapes[t->shape].columns * t->num * (t->pack ? 2 : 1);
}

const char *tmem_refuse(const struct tmem_access *t, uint32_t address, int quadrant) {
    const uint32_t lane = address >> 16, column = address & 0xffff;
    const int columns = tmem_columns(t);
    if (lane >= TMEM_ROWS)
        return "the lane is past 127";
    if ((int)(lane / 32) != quadrant)
        return "the warp may only touch the 32 lanes of its own quarter (warp id modulo 4)";
    if (lane % 32 != 0 && (t->shape == TMEM_32X32B || lane % 32 != 16))
        return t->shape == TMEM_32X32B ? "the lane must be the first of the warp's quarter"
                                       : "the lane must be 0 or 16 within the warp's quarter";
    if (column + (uint32_t)columns > TMEM_ROW)
        return "the columns run past 511";
    if (t->shape == TMEM_16X32BX2 && (int64_t)column + t->split_off + columns > TMEM_ROW)
        return "the columns of the second half run past 511";
    return NULL;
}

/* Lane and cell of register r of thread l, relative to the address. */
static inline void place(enum tmem_shape shape, int split, int l, int r, int *lane, int *cell) {
    switch (shape) {
    case TMEM_32X32B:
        *lane = l;
        *cell = r;
        return;
    case TMEM_16X64B:
        *lane = l / 4 + 8 * (l & 1);
        *cell = 2 * r + (l >> 1 & 1);
        return;
    case TMEM_16X128B:
        *lane = l / 4 + 8 * (r & 1);
        *cell = 4 * (r >> 1) + (l & 3);
        return;
    case TMEM_16X256B:
        *lane = l / 4 + 8 * (r >> 1 & 1);
        *cell = 8 * (r >> 2) + 2 * (l & 3) + (r & 1);
        return;
    case TMEM_16X32BX2:
        *lane = l % 16;
        *cell = r + (l >= 16 ? split : 0);
        return;
    }
}

/* With 16-bit packing a cell is two columns; the split offset counts columns either way. */
static int column_of(const struct tmem_access *t, int l, int cell) {
    if (!t->pack)
        return cell;
    const int split = t->shape == TMEM_16X32BX2 && l >= 16 ? t->split_off : 0;
    return 2 * (cell - split) + split;
}

void tmem_load(const struct tmem_access *t, const uint32_t *cells, uint32_t address,
               uint32_t *const regs[]) {
    const int n = tmem_registers(t);
    const uint32_t *base = cells + (address >> 16) * TMEM_ROW + (address & 0xffff);
    if (t->shape == TMEM_32X32B && !t->pack) {
        for (int l = 0; l < LANES; l++)
            for (int r = 0; r < n; r++)
                regs[r][l] = base[l * TMEM_ROW + r];
        return;
    }
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < n; r++) {
            int lane = 0, cell = 0;
            place(t->shape, t->split_off, l, r, &lane, &cell);
            const uint32_t *p = base + lane * TMEM_ROW + column_of(t, l, cell);
            regs[r][l] = t->pack ? (p[0] & 0xffff) | p[1] << 16 : p[0];
        }
}

void tmem_store(const struct tmem_access *t, uint32_t *cells, uint32_t address,
                const uint32_t *const regs[]) {
    const int n = tmem_registers(t);
    uint32_t *base = cells + (address >> 16) * TMEM_ROW + (address & 0xffff);
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < n; r++) {
            int lane = 0, cell = 0;
            place(t->shape, t->split_off, l, r, &lane, &cell);
            uint32_t *p = base + lane * TMEM_ROW + column_of(t, l, cell);
            if (t->pack) {
                p[0] = regs[r][l] & 0xffff;
                p[1] = regs[r][l] >> 16;
            } else {
                p[0] = regs[r][l];
            }
        }
}

/* --- tcgen05.cp --- */

struct matrix_view tmem_copy_view(enum tmem_copy shape, const struct matrix_desc *d) {
    static const uint8_t rows[] = {128, 4, 128, 64, 64, 32}, chunks[] = {2, 2, 1, 1, 1, 1};
    return (struct matrix_view){.desc = *d, .rows = rows[shape], .chunks = chunks[shape]};
}

int tmem_copy_columns(enum tmem_copy shape) {
    return shape == TMEM_CP_128X256B || shape == TMEM_CP_4X256B ? 8 : 4;
}

const char *tmem_copy_refuse(enum tmem_copy shape, uint32_t address) {
    const uint32_t lane = address >> 16, column = address & 0xffff;
    if (column + (uint32_t)tmem_copy_columns(shape) > TMEM_ROW)
        return "tcgen05.cp: the columns run past 511";
    if (shape == TMEM_CP_4X256B ? lane >= 32 : lane != 0)
        return shape == TMEM_CP_4X256B ? "tcgen05.cp.4x256b: the lane must be below 32"
                                       : "tcgen05.cp: the lane must be 0";
    return NULL;
}

/* 16 elements of one chunk to 16 bytes: 4-bit values into bits 5:2 of their byte, 6-bit into 5:0.
 */
static void expand(enum tmem_decompress how, const uint8_t *chunk, uint8_t *out) {
    for (int i = 0; i < 16; i++) {
        if (how == TMEM_CP_B4X16_P64) {
            out[i] = (uint8_t)((chunk[i / 2] >> 4 * (i % 2) & 15) << 2);
        } else {
            uint32_t pair;
            const int bit = 6 * i;
            memcpy(&pair, chunk + (bit / 8 > 12 ? 12 : bit / 8), 4); /* stay inside the chunk */
            out[i] = (uint8_t)(pair >> (bit - 8 * (bit / 8 > 12 ? 12 : bit / 8)) & 63);
        }
    }
}

void tmem_copy(enum tmem_copy shape, enum tmem_decompress how, const struct matrix_desc *d,
               const uint8_t *smem, uint32_t *cells, uint32_t address) {
    const struct matrix_view v = tmem_copy_view(shape, d);
    uint32_t *base = cells + (address >> 16) * TMEM_ROW + (address & 0xffff);
    for (uint32_t r = 0; r < v.rows; r++)
        for (uint32_t c = 0; c < v.chunks; c++) {
            uint8_t data[16];
            memcpy(data, smem + desc_chunk(d, false, r, c), 16);
            if (how != TMEM_CP_PLAIN) {
                uint8_t packed[16];
                memcpy(packed, data, 16);
                expand(how, packed, data);
            }
            uint32_t lane[4] = {r}, copies = 1;
            switch (shape) {
            case TMEM_CP_4X256B: /* one lane in each quarter */
                lane[0] = 32 * r;
                break;
            case TMEM_CP_64X128B_02_13:
                lane[1] = r + 64;
                copies = 2;
                break;
            case TMEM_CP_64X128B_01_23:
                lane[0] = r / 32 * 64 + r % 32;
                lane[1] = lane[0] + 32;
                copies = 2;
                break;
            case TMEM_CP_32X128B_WARPX4:
                for (copies = 0; copies < 4; copies++)
                    lane[copies] = r + 32 * copies;
                break;
            default:
                break;
            }
            for (uint32_t k = 0; k < copies; k++)
                memcpy(base + lane[k] * TMEM_ROW + 4 * c, data, 16);
        }
}

/* --- tcgen05.shift --- */

const char *tmem_shift_refuse(uint32_t address) {
    if (address >> 16 & 31)
        return "tcgen05.shift: the lane must be a multiple of 32";
    if ((address & 0xffff) + 8 > TMEM_ROW || address >> 16 >= TMEM_ROWS)
        return "tcgen05.shift: the 8 columns run past the tensor memory";
    return NULL;
}

void tmem_shift(uint32_t *cells, uint32_t address) {
    /* Rows of the warp's quarter move down by one, that is, lane l takes lane l + 1; the last row
     * stays. */
    uint32_t *base = cells + (address >> 16) * TMEM_ROW + (address & 0xffff);
    for (int l = 0; l + 1 < LANES; l++)
        memcpy(base + l * TMEM_ROW, base + (l + 1) * TMEM_ROW, 32);
}
