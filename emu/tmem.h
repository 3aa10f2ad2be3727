/* tmem.h: movement between tensor memory and registers or shared memory: tcgen05.ld, .st, .cp,
 * .shift.
 *
 * Tensor memory is uint32_t cell[128][512], lane by column; an address is lane << 16 | column.
 * A warp whose id is w modulo 4 reaches lanes 32w to 32w+31.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_TMEM_H
#define EMU_TMEM_H

#include "desc.h"

enum { TMEM_ROW = 512, TMEM_ROWS = 128 };

enum tmem_shape { TMEM_32X32B, TMEM_16X64B, TMEM_16X128B, TMEM_16X256B, TMEM_16X32BX2 };

struct tmem_access {
    enum tmem_shape shape;
    int num;       /* .xN */
    bool pack;     /* pack::16b or unpack::16b: a register holds the low halves of two columns */
    int split_off; /* 16x32bx2: column distance of the second half */
};

/* Registers of the instruction, 0 when the ISA has no such .num. */
int tmem_registers(const struct tmem_access *t);
/* Lanes and columns it covers from its address (16x32bx2: of each half). */
int tmem_lanes(const struct tmem_access *t);
int tmem_columns(const struct tmem_access *t);
/* NULL, or why the address is wrong for a warp of this quadrant (0..3). */
const char *tmem_refuse(const struct tmem_access *t, uint32_t address, int quadrant);

/* regs[r][lane of the warp] */
void tmem_load(const struct tmem_access *t, const uint32_t *cells, uint32_t address,
               uint32_t *const regs[]);
void tmem_store(const struct tmem_access *t, uint32_t *cells, uint32_t address,
                const uint32_t *const regs[]);

/* --- tcgen05.cp --- */

enum tmem_copy {
    TMEM_CP_128X256B,
    TMEM_CP_4X256B,
    TMEM_CP_128X128B,
    TMEM_CP_64X128B_02_13,
    TMEM_CP_64X128B_01_23,
    TMEM_CP_32X128B_WARPX4
};
enum tmem_decompress { TMEM_CP_PLAIN, TMEM_CP_B6X16_P32, TMEM_CP_B4X16_P64 };

/* The source as a view (K-major), for ranges and checks. */
struct matrix_view tmem_copy_view(enum tmem_copy shape, const struct matrix_desc *d);
int tmem_copy_columns(enum tmem_copy shape);
const char *tmem_copy_refuse(enum tmem_copy shape, uint32_t address);
void tmem_copy(enum tmem_copy shape, enum tmem_decompress how, const struct matrix_desc *d,
               const uint8_t *smem, uint32_t *cells, uint32_t address);

/* tcgen05.shift.down: 8 columns, the 32 lanes from the address: lane l takes lane l + 1's data, the
 * last lane keeps its own (tcgen05.cp.4x256b then refreshes it). */
const char *tmem_shift_refuse(uint32_t address);
void tmem_shift(uint32_t *cells, uint32_t address);

#endif
