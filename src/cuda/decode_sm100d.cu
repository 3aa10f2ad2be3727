/* SPDX-License-Identifier: Apache-2.0
 * decode_sm100s.cu with the denominators left to correction, as NVIDIA CUTLASS's gqa_decode_simple
 * had it: softmax stores each tile's weights in tensor memory as float32 a second time, correction
 * loads them and sums. "Building a Faster GQA Decode Kernel for Blackwell SM100" moved the sums
 * into softmax to save this.
 *
 * Signal map: decode_sm100s.cu's, and
 *   softmax  --l.full  (4 warps)----> correct   a tile's weights as sums
 *   softmax  <--l.empty (4 warps)---- correct
 *   correct  --stat.full (4 warps)--> correct   */
#define GQA_O_STAGES   1
#define GQA_O_PER_TILE 1
#define GQA_L_STAGES   2

#include "decode_sm100.cuh"
#include "decode_sm100_correct.cuh"
#include "decode_sm100_exact.cuh"

enum { M_READERS = 4 /* correction's warps */ };

DEV void soften(const struct cta *c) {
    softmax_mailed(c, 0, 1);
}

DEV void deliver(const struct cta *c) {
    correct(c);
}

#include "decode_sm100_ten.cuh"
