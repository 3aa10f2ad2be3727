/* SPDX-License-Identifier: Apache-2.0
 * Sixteen warps: two softmax warpgroups and correction. For 32 query rows registers move between
 * warpgroups. The pipeline's file says what a softmax group does (`soften_group`) and how many
 * warps read maxima.
 *
 *     warp  0      load                      warps 4-7    softmax, even tiles
 *     warp  1      multiply                  warps 8-11   softmax, odd tiles
 *     warps 2-3    none                      warps 12-15  correct */
#ifndef GQA_DECODE_SM100_SIXTEEN_CUH
#define GQA_DECODE_SM100_SIXTEEN_CUH

#include "decode_sm100_correct.cuh"
#include "decode_sm100_load.cuh"
#include "decode_sm100_multiply.cuh"

enum {
    LOAD_WARP = 0,
    MULTIPLY_WARP = 1,
    SOFTMAX_WARP = 4,
    SOFTMAX_WARPS = 8,
    CORRECT_WARP = 12,
    WARPS = 16,
    THREADS = 32 * WARPS,
    MOVES_REGISTERS = ROWS == 32,
    FEW_REGISTERS = 64,
    SOFTMAX_REGISTERS = 120,
    CORRECT_REGISTERS = 208,
};
static_assert(WARPS == GQA_WARPS_sm100o(KV_BYTES, HEAD_DIM, ROWS), "shape.h is behind");
static_assert(FEW_REGISTERS + 2 * SOFTMAX_REGISTERS + CORRECT_REGISTERS <= 512, "64 K registers");

DEV void issue(const struct cta *c) {
    if (MOVES_REGISTERS)
        setmaxnreg_dec<FEW_REGISTERS>();
    if (c->warp == LOAD_WARP)
        load(c);
    else if (c->warp == MULTIPLY_WARP)
        multiply(c);
}

DEV void soften(const struct cta *c) {
    if (MOVES_REGISTERS)
        setmaxnreg_dec<SOFTMAX_REGISTERS>();
    soften_group(c, (c->warp - SOFTMAX_WARP) / 4);
}

DEV void deliver(const struct cta *c) {
    if (MOVES_REGISTERS)
        setmaxnreg_inc<CORRECT_REGISTERS>();
    correct(c);
}

DEV void roles(const struct cta *c) {
    if (c->warp < SOFTMAX_WARP)
        issue(c);
    else if (c->warp < CORRECT_WARP)
        soften(c);
    else
        deliver(c);
}

#include "decode_sm100_frame.cuh"

#endif
