/* SPDX-License-Identifier: Apache-2.0
 * Launch shapes, per file of kernels: what host and kernel must agree on. The choice and its
 * reasons belong to the kernel; a static_assert there ties its shared memory to this. `bytes` is
 * the size of a K/V element, `d` the head dim, `g` the rows of a tile. */
#ifndef GQA_CUDA_SHAPE_H
#define GQA_CUDA_SHAPE_H

/* Warps that share a token range where heads are wider than 128; softmax.cuh's SLICES. */
#define GQA_SLICES(d) ((d) > 128 ? (d) / 128 : 1)

/* Bytes of finish.cuh's merge_smem. */
#define GQA_MERGE_BYTES(warps, d, g) ((warps) / GQA_SLICES(d) * (g) * ((d) + 2) * 4)

/* Fragments of a block of queries, 4 registers a lane each, and bytes of softmax.cuh's q_smem. */
#define GQA_Q_FRAGMENTS(d, g) (((g) + 15) / 16 * ((d) / ((g) == 8 ? 32 : 16)))
#define GQA_Q_BYTES(d, g)     ((d) > 128 || (d) * (g) >= 2048 ? GQA_Q_FRAGMENTS(d, g) * 512 : 0)

/* Bytes of finish_sm90.cuh's inbox. */
#define GQA_INBOX_BYTES(d, g) ((g) * (d)*4 + 2 * 16 * 16 + 16 * (g)*8)

/* decode_sm80.cu: 200 registers at 128 x 8, so 8 warps an SM however they are grouped. */
#define GQA_WARPS_sm80(bytes, d, g)    ((d) > 128 ? 8 : 4)
#define GQA_MIN_CTAS_sm80(bytes, d, g) ((d) > 128 ? 1 : (d) * (g) <= 512 ? 4 : (d) == 64 ? 3 : 2)
#define GQA_SMEM_sm80(bytes, d, g)                                                                 \
    (GQA_MERGE_BYTES(GQA_WARPS_sm80(bytes, d, g), d, g) + GQA_Q_BYTES(d, g))

/* decode_sm100.cu: one CTA an SM; what it leaves of 228 KiB lets a CTA of the combine start. */
#define GQA_WARPS_sm100(bytes, d, g) 10
#define GQA_SMEM_sm100(bytes, d, g)  227264

/* The published pipelines: one softmax warpgroup, or two. */
#define GQA_WARPS_sm100s(bytes, d, g) GQA_WARPS_sm100(bytes, d, g)
#define GQA_SMEM_sm100s(bytes, d, g)  GQA_SMEM_sm100(bytes, d, g)
#define GQA_WARPS_sm100d(bytes, d, g) GQA_WARPS_sm100(bytes, d, g)
#define GQA_SMEM_sm100d(bytes, d, g)  GQA_SMEM_sm100(bytes, d, g)
#define GQA_WARPS_sm100o(bytes, d, g) 16
#define GQA_SMEM_sm100o(bytes, d, g)  GQA_SMEM_sm100(bytes, d, g)
#define GQA_WARPS_sm100u(bytes, d, g) GQA_WARPS_sm100o(bytes, d, g)
#define GQA_SMEM_sm100u(bytes, d, g)  GQA_SMEM_sm100(bytes, d, g)

/* Blackwell's tiles in shared memory: bytes of a row in one swizzled slab; rows of the second
 * product; tokens of K and of V in a stage. Boxes of the tensor maps hold at most so many. */
#define GQA_SM100_SPAN(bytes, d) ((d) * (bytes) < 128 ? (d) * (bytes) : 128)
#define GQA_SM100_V_ROWS(d)      ((d) < 128 ? (d) : 128)
#define GQA_SM100_K_TOKENS       128
#define GQA_SM100_V_TOKENS(bytes, d)                                                               \
    (GQA_SM100_K_TOKENS * GQA_SM100_SPAN(bytes, d) / (bytes) / GQA_SM100_V_ROWS(d))
/* A bulk copy costs its SM 40 ns however short (H200: 64 of 256 bytes took 2.6 us): rows of which
 * fewer bytes lie together are copied by threads, 16 bytes at a time. */
#define GQA_LEAST_RUN_sm90 2048

/* decode_sm90.cu: tiles of about 16 KB (16-bit heads above 128: 32 KB); two groups of four attend
 * warps where registers allow; as many slots as fit beside a CTA of the combine, which then waits
 * on the same SM, at most 8. */
#define GQA_GROUPS_sm90(bytes, d, g)       ((d) <= 128 && (g) <= 16 ? 2 : 1)
#define GQA_ATTEND_WARPS_sm90(bytes, d, g) (4 * GQA_GROUPS_sm90(bytes, d, g))
#define GQA_WARPS_sm90(bytes, d, g)        (GQA_ATTEND_WARPS_sm90(bytes, d, g) + 2)
#define GQA_TILE_sm90(bytes, d, g)         ((d) * (bytes) > 128 || ((bytes) == 1 && (g) > 8) ? 64 : 128)
#define GQA_SLOT_sm90(bytes, d, g)         (GQA_TILE_sm90(bytes, d, g) * (d) * (bytes) + 128)
/* Weights of two tiles of each group, and maxima of its warps. */
#define GQA_WEIGHTS_sm90(bytes, d, g)                                                              \
    (GQA_GROUPS_sm90(bytes, d, g) * (g) * (GQA_TILE_sm90(bytes, d, g) * 4 + 16))
#define GQA_Q_REGISTERS_sm90(d) ((d) > 128 ? 64 : 32)
#define GQA_Q_SMEM_sm90(d, g)                                                                      \
    (GQA_Q_FRAGMENTS(d, g) * 4 > GQA_Q_REGISTERS_sm90(d) ? GQA_Q_FRAGMENTS(d, g) * 512 : 0)
#define GQA_FIXED_sm90(bytes, d, g)                                                                \
    (GQA_GROUPS_sm90(bytes, d, g) * (g) * ((d) + 5) * 4 + GQA_INBOX_BYTES(d, g) +                  \
     GQA_WEIGHTS_sm90(bytes, d, g) + GQA_Q_SMEM_sm90(d, g) + 1024)
#define GQA_FIT_sm90(bytes, d, g)                                                                  \
    ((232448 - 6144 - GQA_FIXED_sm90(bytes, d, g)) / GQA_SLOT_sm90(bytes, d, g))
/* Whole turns: a slot then always belongs to one group, which waits for each of its phases. A
 * group that skipped a phase could take the one before it for its own. */
#define GQA_TURN_sm90(bytes, d, g) (2 * GQA_GROUPS_sm90(bytes, d, g))
#define GQA_STAGES_sm90(bytes, d, g)                                                               \
    ((GQA_FIT_sm90(bytes, d, g) > 8 ? 8 : GQA_FIT_sm90(bytes, d, g)) /                             \
     GQA_TURN_sm90(bytes, d, g) * GQA_TURN_sm90(bytes, d, g))
#define GQA_SMEM_sm90(bytes, d, g)                                                                 \
    (GQA_STAGES_sm90(bytes, d, g) * GQA_SLOT_sm90(bytes, d, g) + GQA_FIXED_sm90(bytes, d, g))

#endif
