/* SPDX-License-Identifier: Apache-2.0
 * Launch shapes, per file of kernels: what host and kernel must agree on. The choice and its
 * reasons belong to the kernel; a static_assert there ties its shared memory to this. `bytes` is
 * the size of a K/V element, `d` the head dim, `g` the rows of a tile. */
#ifndef GQA_CUDA_SHAPE_H
#define GQA_CUDA_SHAPE_H

/* Warps that share a token range where heads are wider than 128; softmax.cuh's SLICES. */
#define GQA_SLICES(d) ((d) > 128 ? (d) / 128 : 1)

/* Bytes of finish.cuh's merge_smem. */
#define GQA_MERGE_BYTES(warps, d, g) ((warps) / GQA_SLICES(d) * (g) * ((d) + 6) * 4)

/* Bytes of softmax.cuh's q_smem. */
#define GQA_Q_BYTES(d, g) ((d) > 128 ? ((g) + 15) / 16 * ((d) / 16) * 512 : 0)

/* decode_sm80.cu: 200 registers at 128 x 8, so 8 warps an SM however they are grouped. */
#define GQA_WARPS_sm80(bytes, d, g)    ((d) > 128 ? 8 : 4)
#define GQA_MIN_CTAS_sm80(bytes, d, g) ((d) > 128 ? 1 : (d) * (g) <= 512 ? 4 : (d) == 64 ? 3 : 2)
#define GQA_SMEM_sm80(bytes, d, g)                                                                 \
    (GQA_MERGE_BYTES(GQA_WARPS_sm80(bytes, d, g), d, g) + GQA_Q_BYTES(d, g))

/* decode_sm100.cu: one CTA an SM takes all shared memory that a CTA may have. */
#define GQA_WARPS_sm100(bytes, d, g) 10
#define GQA_SMEM_sm100(bytes, d, g)  232448

/* Blackwell's tiles in shared memory: bytes of a row in one swizzled slab; rows of the second
 * product; tokens of K and of V in a stage. Boxes of the tensor maps hold at most so many. */
#define GQA_SM100_SPAN(bytes, d) ((d) * (bytes) < 128 ? (d) * (bytes) : 128)
#define GQA_SM100_V_ROWS(d)      ((d) < 128 ? (d) : 128)
#define GQA_SM100_K_TOKENS       128
#define GQA_SM100_V_TOKENS(bytes, d)                                                               \
    (GQA_SM100_K_TOKENS * GQA_SM100_SPAN(bytes, d) / (bytes) / GQA_SM100_V_ROWS(d))

#endif
