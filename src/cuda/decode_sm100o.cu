/* SPDX-License-Identifier: Apache-2.0
 * The published "opt" pipeline, for comparison: NVIDIA CUTLASS's gqa_decode_opt as used in
 * "Building a Faster GQA Decode Kernel for Blackwell SM100". Two softmax warpgroups take tiles by
 * turns under one ordered running maximum; O has two slots that take turns too, so that one is
 * rescaled while the next sum runs in the other; denominators are correction's. Tiles are 128
 * tokens here, not 256. Warps: decode_sm100_sixteen.cuh.
 *
 * Signal map: decode_sm100.cu's, with softmax's barriers per group, o per tile, and
 *   softmax  --m.full  (1)----------------> softmax of the next tile, correct: row maxima
 *   softmax  <--m.empty (4 own + 1 next group's + 4 correct's warps)
 *   softmax  --l.full  (4 warps)----------> correct   a tile's weights as sums
 *   softmax  <--l.empty (4 warps)---------- correct
 *   multiply --o.full  (1 commit)---------> correct   a tile is summed
 *   multiply <--o.empty (4 warps)---------- correct   the slot is scaled to tile + 2's maxima
 *   correct  --stat.full (4 warps)--------> correct   */
#define GQA_O_STAGES   2
#define GQA_O_PER_TILE 1
#define GQA_L_STAGES   2

#include "decode_sm100.cuh"
#include "decode_sm100_turns.cuh"

enum { M_READERS = 4 + 1 + 4 };

DEV void soften_group(const struct cta *c, int group) {
    softmax_turns(c, group);
}

#include "decode_sm100_sixteen.cuh"
