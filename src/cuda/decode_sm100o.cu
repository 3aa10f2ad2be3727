/* SPDX-License-Identifier: Apache-2.0
 * The published "opt" pipeline, for comparison: NVIDIA CUTLASS's gqa_decode_opt as used in
 * "Building a Faster GQA Decode Kernel for Blackwell SM100". Two softmax warpgroups take tiles by
 * turns under one ordered running maximum; O has two slots that take turns too, so that one is
 * rescaled while the next sum runs in the other; denominators are correction's. For 32 query rows
 * registers move between roles. Tiles are 128 tokens here, not 256.
 *
 *     warp  0      load                      warps 4-7    softmax, even tiles
 *     warp  1      multiply                  warps 8-11   softmax, odd tiles
 *     warps 2-3    none                      warps 12-15  correct
 *
 * Signal map: decode_sm100.cu's, with softmax's barriers per group, o per tile, and
 *   softmax  --m.full  (1)----------------> softmax of the next tile, correct: row maxima
 *   softmax  <--m.empty (4 own + 1 next group's + 4 correct's warps)
 *   softmax  --l.full  (4 warps)----------> correct   a tile's weights as sums
 *   softmax  <--l.empty (4 warps)---------- correct
 *   multiply --o.full  (1 commit)---------> correct   a tile is summed
 *   multiply <--o.empty (4 warps)---------- correct   the slot is scaled to tile + 2's maxima
 *   correct  --stat.full (4 warps)--------> correct   */
#define GQA_O_STAGES 2
#define GQA_L_STAGES 2

#include "decode_sm100.cuh"
#include "decode_sm100_load.cuh"
#include "decode_sm100_multiply.cuh"
#include "decode_sm100_turns.cuh"

enum {
    LOAD_WARP = 0,
    MULTIPLY_WARP = 1,
    SOFTMAX_WARP = 4,
    SOFTMAX_WARPS = 8,
    CORRECT_WARP = 12,
    M_READERS = 4 + 1 + 4,
    WARPS = 16,
    THREADS = 32 * WARPS,
    MOVES_REGISTERS = ROWS == 32,
    FEW_REGISTERS = 64,
    SOFTMAX_REGISTERS = 120,
    CORRECT_REGISTERS = 208,
};
static_assert(WARPS == GQA_WARPS_sm100o(KV_BYTES, HEAD_DIM, ROWS), "shape.h is behind");
static_assert(FEW_REGISTERS + 2 * SOFTMAX_REGISTERS + CORRECT_REGISTERS <= 512, "64 K registers");

#include "decode_sm100_frame.cuh"

DEV void issue(const struct cta *c) {
    if (MOVES_REGISTERS)
        setmaxnreg_dec<FEW_REGISTERS>();
    if (c->warp == LOAD_WARP)
        load(c);
    else if (c->warp == MULTIPLY_WARP)
        multiply_each(c);
}

DEV void soften(const struct cta *c) {
    if (MOVES_REGISTERS)
        setmaxnreg_dec<SOFTMAX_REGISTERS>();
    softmax_turns(c, (c->warp - SOFTMAX_WARP) / 4);
}

DEV void close(const struct cta *c) {
    if (MOVES_REGISTERS)
        setmaxnreg_inc<CORRECT_REGISTERS>();
    if (c->args->finish >= GQA_FINISH_ATOMIC)
        correct_turns_in_cluster(c);
    else
        correct_turns(c);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const struct cta c = start(&args, raw);
    if (c.warp < SOFTMAX_WARP)
        issue(&c);
    else if (c.warp < CORRECT_WARP)
        soften(&c);
    else
        close(&c);
    stop(&c);
}
