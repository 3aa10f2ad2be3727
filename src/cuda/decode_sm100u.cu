/* SPDX-License-Identifier: Apache-2.0
 * decode_sm100o.cu without the order between its softmax warpgroups: each keeps the maxima of its
 * own tiles, so neither waits for the other, and the two slots of O, which are relative to
 * different maxima, meet when the part ends. The change that "Building a Faster GQA Decode Kernel
 * for Blackwell SM100" tried and dropped (conclusion): no gain on a B200.
 *
 * Signal map: decode_sm100o.cu's, but
 *   softmax  --m.full  (1)----------> correct   row maxima of the group's tiles
 *   softmax  <--m.empty (4 warps)---- correct   */
#define GQA_O_STAGES   2
#define GQA_O_PER_TILE 1
#define GQA_L_STAGES   2

#include "decode_sm100.cuh"
#include "decode_sm100_exact.cuh"

enum { M_READERS = 4 /* correction's warps */ };

DEV void soften_group(const struct cta *c, int group) {
    softmax_mailed(c, group, 2);
}

#include "decode_sm100_sixteen.cuh"
