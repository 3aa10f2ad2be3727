/* SPDX-License-Identifier: Apache-2.0
 * Decode kernel for Blackwell's data-centre parts (sm_100a, sm_103a): tcgen05, tensor memory, TMA.
 *
 * One CTA, ten warps, walks the tiles of its part (or of its share of all parts):
 *
 *     K, V --TMA--> ring --tcgen05--> S in tensor memory --> softmax --> P in shared memory
 *                      \--------------tcgen05 with P--> O in tensor memory --> finish --> output
 *
 *     warps 0-3  finish    queries in, accumulators out
 *     warps 4-7  softmax   scores to weights, maxima, sums; rescales O in the rare case
 *     warp  8    multiply  issues both products; owns tensor memory
 *     warp  9    load      K and V
 *
 * Ceiling: 2 HEAD_DIM KV_BYTES bytes per token and KV head; at 128 x bf16 a tile of 128 tokens is
 * 64 KiB, 2400 cycles of an SM's share of 8 TB/s, against 16 MMAs of some 34 cycles.
 *
 * Signal map (arrivals per phase; "+ tx" counts the bytes of bulk copies)
 *   load     --kv.full   (1 + tx)---> multiply  a stage of K or V is in the ring
 *   load     <--kv.empty (1 commit)-- multiply  the MMAs that read the stage are complete
 *   finish   --q.full    (4 warps)--> multiply, softmax   a part's queries and row facts
 *   finish   <--q.empty  (1 commit + 4 warps)-- multiply, softmax
 *   multiply --s.full    (1 commit)-> softmax   a tile's scores
 *   multiply <--s.empty  (4 warps)--- softmax   they are in registers
 *   softmax  --p.full    (4 warps)--> multiply  a tile's weights; O is scaled to their maxima
 *   softmax  <--p.empty  (1 commit)-- multiply  the tile is summed: O may be rescaled
 *   softmax  --stat.full (4 warps)--> finish    a part's maxima and sums
 *   softmax  <--stat.empty (4 warps)- finish
 *   multiply --o.full    (1 commit)-> finish    a part's accumulators are complete
 *   multiply <--o.empty  (4 warps)--- finish    they are in registers
 *   finish   --mail.full (1 + tx)---> finish    of all CTAs of a cluster: statistics; outputs */
#define GQA_O_STAGES   2 /* one part's accumulators leave while the next one's fill */
#define GQA_O_PER_TILE 0
#define GQA_L_STAGES   0
#ifndef GQA_HALVES
#define GQA_HALVES (N <= 16 && HEAD_DIM <= 128 ? 2 : 1)
#endif

#include "decode_sm100.cuh"
#include "decode_sm100_cluster.cuh"
#include "decode_sm100_softmax.cuh"

enum { M_READERS = 1 /* none: maxima do not leave softmax */ };

DEV void soften(const struct cta *c) {
    softmax(c);
}

DEV void deliver(const struct cta *c) {
    finish(c);
}

#include "decode_sm100_ten.cuh"
