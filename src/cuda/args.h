/* SPDX-License-Identifier: Apache-2.0
 * The parameters of every kernel: plain C, shared by host and device. A kernel takes one struct by
 * value (`const __grid_constant__`), so that a CUDA graph holds a complete copy and nothing has to
 * be uploaded. Shapes, strides and schedules are decided by the host; lengths, tables and scales
 * stay on the device and are read when the kernel runs.
 *
 * Words of the schedule. A *unit* is what shares one pass over K and V: (sequence, KV head, row
 * tile), where the rows of a sequence and KV head are its q_tokens x group query rows (row r is
 * token r / group, head r % group) and a row tile is TILE_ROWS of them. Its visible tokens are
 * measured in *grains* of 16 tokens. A *part* is a range of grains of one unit that one CTA
 * attends to; a unit with several parts is merged from float32 partials. Units are numbered
 * (sequence * kv_heads + kv_head) * row_tiles + row_tile. */
#ifndef GQA_CUDA_ARGS_H
#define GQA_CUDA_ARGS_H

#include <stdint.h>

enum { GQA_GRAIN = 16 };

/* Equal shares count a unit's fixed work as so many grains before its first: queries, the merge,
 * the output. Without that a CTA with many short units ends late (H200, 32 rows of 128 to 65536
 * tokens: 392 us with 0, 378 with 4, 358 with 8, 350 with 16, 348 with 24, 350 with 32). */
enum { GQA_UNIT_GRAINS = 24 };

/* How parts are cut. See schedule.cuh. */
enum gqa_schedule {
    GQA_SCHED_SPLITS = 0, /* `splits` equal parts of each unit; one CTA each */
    GQA_SCHED_TOKENS,     /* a part per `split_grains` grains, counted from token 0; one CTA each */
    GQA_SCHED_SHARES, /* `ctas` equal shares of all grains of the batch; a CTA walks its share */
};

/* What a CTA does with its part. Values of gqa_reduction, without "auto". */
enum gqa_finish {
    GQA_FINISH_OUTPUT = 1, /* the part is the unit: write the output */
    GQA_FINISH_PARTIAL,    /* write a partial; gqa_combine merges (whole units are still output) */
    GQA_FINISH_ATOMIC,     /* agree on max and sum in the cluster, add into a zeroed output */
    GQA_FINISH_CLUSTER,    /* exchange partials in the cluster, each CTA writes a slice */
    GQA_FINISH_GRID,       /* the same, then the unit's clusters meet in its last one, by letters */
};

enum { GQA_LETTER_WORDS = 8 };

/* Numbers of gqa_type, for kernels (they may not include gqa.h). */
enum { GQA_ARG_F32 = 0, GQA_ARG_BF16, GQA_ARG_F16, GQA_ARG_E4M3, GQA_ARG_E5M2 };

/* The same by their names in instances.def. */
enum {
    GQA_KV_bf16 = GQA_ARG_BF16,
    GQA_KV_f16 = GQA_ARG_F16,
    GQA_KV_e4m3 = GQA_ARG_E4M3,
    GQA_KV_e5m2 = GQA_ARG_E5M2
};

/* Numbers of gqa_scales. */
enum { GQA_ARG_SCALE_NONE = 0, GQA_ARG_SCALE_TENSOR, GQA_ARG_SCALE_HEAD, GQA_ARG_SCALE_BATCH_HEAD };

/* An opaque CUtensorMap; only kernels that load through tensor maps (sm100) get them. The copy
 * engine wants 64-byte alignment, in parameters too. */
struct gqa_tensor_map {
    uint64_t opaque[16];
} __attribute__((aligned(64)));

struct gqa_arg_strides {
    int64_t batch, token, head; /* elements; batch is the page's stride for paged K and V */
};

/* x / d for 0 <= x < 2^31: multiply ? (x * multiply >> 32) >> shift : x. */
struct gqa_divisor {
    uint32_t multiply, shift;
};

/* Ref: Granlund, Montgomery, "Division by invariant integers using multiplication": with l =
 * ceil(log2 d) and m = ceil(2^(31 + l) / d), x m / 2^(31 + l) errs by less than 1 / d. */
static inline struct gqa_divisor gqa_divisor_of(uint32_t d) {
    struct gqa_divisor x = {0, 0};
    uint32_t l = 0;
    while (l < 31 && (1u << l) < d)
        l++;
    if (l) {
        x.multiply = (uint32_t)((((uint64_t)1 << (31 + l)) + d - 1) / d);
        x.shift = l - 1;
    }
    return x;
}

struct gqa_args {
    struct gqa_tensor_map k_map, v_map;

    const void *q, *k, *v;
    void *o;
    float *lse;                   /* or NULL */
    const int32_t *kv_lens;       /* or NULL */
    const int32_t *cu_seqlens_q;  /* or NULL */
    const int32_t *batch_index;   /* or NULL */
    const int32_t *pages;         /* block table or page_indices; NULL: contiguous */
    const int32_t *page_indptr;   /* NULL: pages is a table with page_stride columns */
    const int32_t *last_page_len; /* CSR without kv_lens */
    const float *k_scale, *v_scale;
    const float *sinks; /* or NULL */

    /* Partials: slot s, row r of the tile: part_o[(s * part_rows + r) * part_dim + d], not
     * normalised, relative to part_ml[(s * part_rows + r) * 2] (max, in log2 units); [.. + 1] is
     * the sum. Slot: SPLITS and TOKENS unit * splits + part; SHARES 2 * cta, + 1 if the part
     * holds the unit's first grain. Parts with no visible token write nothing. GRID: part_o holds
     * letters instead (finish_grid_sm90.cuh), uint32[unit][cluster, but the last][part_rows]
     * [part_dim / 4][GQA_LETTER_WORDS]. */
    float *part_o, *part_ml;
    int32_t part_rows, part_dim;
    float part_v_factor;  /* what the kernel's partials leave out of V's scale */
    int32_t combine_ways; /* warps per row in gqa_combine: 1, 2, 4 or 8 */

    struct gqa_arg_strides q_stride, k_stride, v_stride, o_stride, lse_stride;
    int64_t page_stride; /* columns of the block table */

    int32_t batch, q_heads, kv_heads, group;
    int32_t head_dim, head_dim_v; /* at most the kernel's HEAD_DIM */
    int32_t q_tokens;             /* of the longest sequence */
    int32_t reads_lengths;        /* units depend on device memory: lengths, indices */
    int32_t row_tiles, units;     /* units = batch * kv_heads * row_tiles */
    int32_t kv_len;               /* capacity: lengths are clamped to it */
    int32_t page_size;            /* 0: contiguous */
    int32_t causal;
    int32_t window_left; /* -1: none; at most INT32_MAX */
    int32_t q_type, o_type;
    int32_t q_vectors, o_vectors; /* rows are aligned to 16 bytes; to four elements */
    int32_t k_scales, v_scales;
    int32_t lse_base_2;

    float scale_log2; /* scale * log2(e): scores become log2 units (softcap: 0 < softcap) */
    float softcap;    /* 0: off */
    float scale;

    int32_t schedule; /* enum gqa_schedule */
    int32_t finish;   /* enum gqa_finish */
    int32_t splits;   /* parts per unit (TOKENS: at most) */
    int32_t cluster;  /* CTAs of a cluster: splits, but for GRID a divisor of it; or 1 */
    int32_t split_grains;
    int32_t ctas;    /* SHARES: the grid */
    int32_t by_rows; /* sm90: too little lies together for bulk copies */
    int32_t early;   /* lengths, tables and older K and V may be read before pdl_wait */

    struct gqa_divisor by_splits, by_cluster, by_row_tiles;
    struct gqa_divisor by_sequence; /* kv_heads * row_tiles */
    struct gqa_divisor by_group, by_page;

    /* Kernels that record: struct trace_block[trace_blocks], zeroed; 0: none. */
    void *trace;
    int32_t trace_blocks;
};

/* gqa_merge's parameters; rows counts rows * q_heads. */
struct gqa_merge_args {
    const void *part_o;
    const float *part_lse;
    void *o;
    float *lse;
    int64_t rows;
    int32_t parts, head_dim_v;
    int32_t part_type, o_type;
    int32_t part_base_2, o_base_2;
};

/* gqa_zero's: the output of the atomic finish, row by row. */
struct gqa_zero_args {
    void *o;
    struct gqa_arg_strides o_stride;
    const int32_t *cu_seqlens_q;
    int32_t batch, q_tokens, q_heads, row_elements, o_bytes;
};

#endif
