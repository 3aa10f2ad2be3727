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
#define GQA_L_STAGES 0
#define GQA_O_STAGES 1

#include "decode_sm100.cuh"
#include "decode_sm100_load.cuh"
#include "decode_sm100_multiply.cuh"
#include "decode_sm100_exact.cuh"
#include "decode_sm100_correct.cuh"

enum {
    SOFTMAX_WARP = 4,
    SOFTMAX_WARPS = 4,
    M_READERS = 4, /* correction's warps */
    MULTIPLY_WARP = 8,
    LOAD_WARP = 9,
    WARPS = 10,
    THREADS = 32 * WARPS,
};
static_assert(WARPS == GQA_WARPS_sm100s(KV_BYTES, HEAD_DIM, ROWS), "shape.h is behind");

#include "decode_sm100_frame.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const struct cta c = start(&args, raw);
    if (c.warp == LOAD_WARP)
        load(&c);
    else if (c.warp == MULTIPLY_WARP)
        multiply_each(&c);
    else if (c.warp >= SOFTMAX_WARP)
        softmax_exact(&c);
    else if (args.finish >= GQA_FINISH_ATOMIC)
        correct_in_cluster(&c);
    else
        correct(&c);
    stop(&c);
}
