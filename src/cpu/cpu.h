/* SPDX-License-Identifier: Apache-2.0
 * Inside the CPU backend: who shares the work (share.c), who walks the cache (walk.c), what a
 * kernel is (decode_*.c) and how partial results are folded and stored (fold.c).
 *
 *   plan --> shares: contiguous runs of (sequence, head chunk, tokens)
 *        --> lanes: one sequence, `heads` KV heads, tokens [begin, end)   walk.c makes blocks of it
 *        --> blocks: up to 64 rows of K and V by pointer, all query rows  one call of a kernel
 */
#ifndef GQA_CPU_H
#define GQA_CPU_H

#include "backend.h"
#include "problem.h"

enum {
    CPU_BLOCK = 64,        /* most tokens of a block */
    CPU_PAD = 16,          /* zero rows past a block's last token, so that tiles need no tail */
    CPU_DIM_PAD = 32,      /* floats: rows of q and of the accumulator are padded to this */
    CPU_MAX_WORKERS = 256, /* threads or slices that get work; more stay idle */
    CPU_MAX_SHARES = 512,
};

/* CPU features that a kernel can need; probe_*.c finds them. */
enum cpu_feature {
    CPU_AVX2 = 1 << 0,   /* AVX2, FMA and F16C together */
    CPU_AVX512 = 1 << 1, /* F, BW, DQ and VL */
    CPU_AVX512_BF16 = 1 << 2,
    CPU_NEON = 1 << 3,
    CPU_FOREIGN = 1 << 30, /* an instruction set of another architecture */
};

unsigned cpu_probe(void);
/* The maker's name of the CPU, "unknown" if it does not say. */
void cpu_probe_product(char *name, size_t size);

/* One step of a kernel: `tokens` rows of K and V against `rows` query rows, all of which see all of
 * these tokens. State of a row: max and sum in base 2, acc not yet divided by the sum. */
struct cpu_block {
    const char *const *k, *const *v; /* [tokens + CPU_PAD], zeros past `tokens` */
    const char *const *next_k;       /* rows to prefetch while V is worked on */
    int tokens, next_tokens;
    int rows, head_dim, head_dim_v;
    int q_stride, acc_stride; /* floats */
    const float *q;           /* [rows][q_stride], as the kernel's `prepare` wrote it */
    float *acc;               /* [rows][acc_stride], in the kernel's own order */
    float *max, *sum;         /* [rows] */
    float scale_log2;         /* score in base 2 = dot * scale_log2, if cap is 0, */
    float scale_cap;          /* else cap_log2 * tanh(dot * scale_cap) */
    float cap_log2;
};

/* The functions of a kernel for one KV type. */
struct cpu_ops {
    float gain; /* the kernel reads K and V as 1 / gain of their value */
    /* NULL, or: can `block` take this query row? If one of a lane's cannot, `wide` is used for the
     * lane; it keeps the order of acc. */
    bool (*fits)(const void *row, enum gqa_type type, int head_dim);
    const struct cpu_ops *wide;
    void (*prepare)(float *q, const void *row, enum gqa_type type, int head_dim);
    void (*block)(const struct cpu_block *b);
    /* o[d] = acc * factor in natural order; o may not be acc */
    void (*unpack)(float *o, const float *acc, float factor, int head_dim_v);
};

struct cpu_kernel {
    const char *name;
    unsigned needs;
    const char *needs_text;
    /* By gqa_precision and gqa_type; NULL where this build cannot have the kernel. */
    const struct cpu_ops *ops[2][5];
    int block_bytes; /* of K in a block: what is fetched ahead must survive in the first cache */
    int segments;    /* distant pieces of a row that a block takes its tokens from */
};

extern const struct cpu_kernel cpu_kernels[]; /* best first (cpu.c) */
extern const int cpu_kernel_count;

extern const struct cpu_ops cpu_ops_c[], cpu_ops_avx2[], cpu_ops_avx512[], cpu_ops_neon[];
extern const struct cpu_ops cpu_ops_avx512bf16[]; /* bf16 only, by gqa_precision */

/* Everything that a plan fixes; share.c computes it from a normal problem alone. */
struct cpu_layout {
    int heads;                /* KV heads of a lane (the last lane of a row may have fewer) */
    int lanes;                /* lanes per sequence: ceil(kv_heads / heads) */
    int rows;                 /* query rows of one KV head: group * q_tokens */
    int q_stride, acc_stride; /* floats */
    int block;                /* tokens per block */
    int segments;             /* pieces of a row that a block is made of */
    int workers;              /* scratch areas */
    int64_t splits;           /* per row in the fixed and invariant modes, else 0 */
    int64_t split_tokens;     /* invariant mode */
    int64_t slots;            /* partial results in the workspace */
    int64_t scratch_floats;   /* of one worker */
    int64_t slot_floats;      /* of one partial result */
    size_t slot_offset;       /* bytes from the workspace's start to the slots */
    size_t workspace_bytes;
};

/* One decode call. */
struct cpu_call {
    const struct gqa_plan *plan;
    const struct gqa_problem *p;
    const struct gqa_tensors *t;
    const struct cpu_ops *ops;
    struct cpu_layout layout;
    char *workspace;
    int64_t shares; /* auto mode: how many; else batch * lanes * splits */
    int64_t cost;   /* auto mode: of the whole call */
};

/* The lengths of one sequence. */
struct cpu_row {
    int64_t len;
    int64_t q_row; /* first row of Q, ragged only */
    int q_tokens;
    int64_t begin, end; /* tokens that any of its queries sees */
};

struct cpu_lane {
    int64_t batch;
    int head, heads;
    int64_t begin, end;
    float *slot; /* where the partial result goes; NULL: the lane is whole, store it */
};

/* share.c */
void cpu_layout(const struct gqa_problem *p, const struct cpu_kernel *kernel, struct cpu_layout *l);
struct cpu_row cpu_row(const struct cpu_call *c, int64_t batch);
/* How many shares `tokens` (of all sequences, their constants included) make on so many threads. */
int64_t cpu_share_count(const struct gqa_problem *p, const struct cpu_layout *l, int64_t tokens,
                        int threads);
/* The tokens of a call whose sequences all have the expected length. */
int64_t cpu_full_tokens(const struct gqa_problem *p);
void cpu_call_begin(struct cpu_call *c, int threads);
/* Is the call worth waking a sleeping thread for? */
bool cpu_call_is_large(const struct cpu_call *c);
void cpu_share_run(const struct cpu_call *c, int64_t share, int worker);
/* Parts 0 .. cpu_fold_parts - 1 of the merge, in any order, after all shares. */
int64_t cpu_fold_parts(const struct cpu_call *c);
void cpu_fold_run(const struct cpu_call *c, int64_t part);

/* walk.c */
void cpu_lane_run(const struct cpu_call *c, const struct cpu_row *row, const struct cpu_lane *lane,
                  float *scratch);

/* fold.c */
/* State of a lane inside a slot or a scratch area: [heads * rows] rows of acc, then max, then sum.
 */
struct cpu_state {
    float *acc, *max, *sum;
};
struct cpu_state cpu_state_at(const struct cpu_layout *l, float *memory);
void cpu_state_fold(const struct cpu_layout *l, struct cpu_state *into,
                    const struct cpu_state *from, int64_t rows);
void cpu_lane_store(const struct cpu_call *c, const struct cpu_row *row,
                    const struct cpu_lane *lane, const struct cpu_state *s);
gqa_status cpu_merge(gqa_device *device, const struct gqa_shards *m, void *stream,
                     struct gqa_error *err);

/* check.c: what check_tables asks for. */
gqa_status cpu_check_tables(const struct gqa_problem *p, const struct gqa_tensors *t,
                            struct gqa_error *err);

#endif
