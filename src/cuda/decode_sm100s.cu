/* SPDX-License-Identifier: Apache-2.0
 * The published "simple" pipeline, for comparison: NVIDIA CUTLASS's gqa_decode_simple as changed in
 * "Building a Faster GQA Decode Kernel for Blackwell SM100". One softmax warpgroup with exact
 * running maxima, one correction warpgroup that rescales O before every sum, one accumulator;
 * denominators are summed in softmax after the weights are published. Tiles, ring and products are
 * decode_sm100.cu's, so are part and cluster handling.
 *
 *     warps 0-3  correct   queries in, O rescaled tile by tile, accumulators out
 *     warps 4-7  softmax
 *     warp  8    multiply
 *     warp  9    load
 *
 * Signal map: decode_sm100.cu's, but o per tile, and
 *   softmax  --m.full  (1)--------> correct   row maxima after a tile
 *   softmax  <--m.empty (4 warps)-- correct
 *   multiply --o.full  (1 commit)-> correct   a tile is summed
 *   multiply <--o.empty (4 warps)-- correct   O is scaled to the next tile's maxima */
#define GQA_O_STAGES   1
#define GQA_O_PER_TILE 1
#define GQA_L_STAGES   0

#include "decode_sm100.cuh"
#include "decode_sm100_correct.cuh"
#include "decode_sm100_exact.cuh"

enum { M_READERS = 4 /* correction's warps */ };

DEV void soften(const struct cta *c) {
    softmax_exact(c);
}

DEV void deliver(const struct cta *c) {
    correct(c);
}

#include "decode_sm100_ten.cuh"
