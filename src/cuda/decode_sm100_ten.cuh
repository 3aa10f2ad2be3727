/* SPDX-License-Identifier: Apache-2.0
 * Ten warps: one softmax warpgroup and one that stands at both ends of a part. The pipeline's file
 * says which functions these are (`soften`, `deliver`) and how many warps read maxima. */
#ifndef GQA_DECODE_SM100_TEN_CUH
#define GQA_DECODE_SM100_TEN_CUH

#include "decode_sm100_load.cuh"
#include "decode_sm100_multiply.cuh"

enum {
    SOFTMAX_WARP = 4,
    SOFTMAX_WARPS = 4,
    MULTIPLY_WARP = 8,
    LOAD_WARP = 9,
    WARPS = 10,
    THREADS = 32 * WARPS,
};
static_assert(WARPS == GQA_WARPS_sm100(KV_BYTES, HEAD_DIM, ROWS), "shape.h is behind");

DEV void roles(const struct cta *c) {
    if (c->warp == LOAD_WARP)
        load(c);
    else if (c->warp == MULTIPLY_WARP)
        multiply(c);
    else if (c->warp >= SOFTMAX_WARP)
        soften(c);
    else
        deliver(c);
}

#include "decode_sm100_frame.cuh"

#endif
