/* SPDX-License-Identifier: Apache-2.0
 * What the Blackwell kernels share: tile shapes, descriptors, rings, shared and tensor memory, and
 * the stream of tiles that every role walks. The roles are in decode_sm100_*.cuh.
 *
 * Both products put the long dimension on the tensor core's 128 rows and the query rows on its
 * narrow side ("swap-AB"): S^T = K Q^T with tokens as rows, O^T = V^T P^T with head elements as
 * rows. N, the narrow side, is ROWS; with FP8 caches it is 2 ROWS (decode_sm100_query.cuh).
 *
 *              rows x cols      A (from TMA)                B
 *   S^T = K Q^T   128 x N       K tile, K-major             Q, K-major
 *   O^T = V^T P^T V_ROWS x N    V tile, MN-major            P, MN-major: one row per token
 *
 * K and V tiles are slabs of one SPAN-byte row per token, swizzled over SPAN bytes. A stage of the
 * ring is STAGE_BYTES: 128 tokens x one slab of K, or V_SLABS slabs x V_TOKENS tokens of V. */
#ifndef GQA_DECODE_SM100_CUH
#define GQA_DECODE_SM100_CUH

#include "args.h"
#include "ptx_sm100.cuh"
#include "schedule.cuh"
#include "shape.h"
#include "trace.cuh"

/* Products of 128 x 8 are what FlashInfer's decode does on B200s; older text of the ISA wants 16
 * columns beside 128 rows. With -DGQA_LEAST_N=16 all kernels do (tested; see docs/kernels.md). */
#ifndef GQA_LEAST_N
#define GQA_LEAST_N 8
#endif

/* Products of 128 tokens that softmax takes together; a kernel's file may say 2. */
#ifndef GQA_HALVES
#define GQA_HALVES 1
#endif

/* 26 stages are what fits beside the smallest instance; scripts/second-opinion has fewer, so that a
 * short launch wraps the ring. */
#ifndef GQA_MOST_STAGES
#define GQA_MOST_STAGES 26
#endif

enum {
    HEAD_DIM = GQA_HEAD_DIM,
    ROWS = GQA_GROUP, /* query rows of a tile */
    KV_TYPE = GQA_KV,
    KV_IS_FP8 = KV_TYPE == GQA_ARG_E4M3 || KV_TYPE == GQA_ARG_E5M2,
    KV_IS_BF16 = KV_TYPE == GQA_ARG_BF16,
    KV_BYTES = KV_IS_FP8 ? 1 : 2,
    N = KV_IS_FP8            ? 2 * ROWS /* columns of both products */
        : ROWS < GQA_LEAST_N ? GQA_LEAST_N
                             : ROWS,

    HALF = GQA_SM100_K_TOKENS, /* tokens of one product, of a stage of K */
    HALVES = GQA_HALVES,
    TILE = HALVES * HALF,
    SCORES = HALVES * ROWS,                    /* a thread's of a tile: [half][row] */
    SPAN = GQA_SM100_SPAN(KV_BYTES, HEAD_DIM), /* bytes of a row in a slab */
    CHUNK = SPAN / KV_BYTES,                   /* elements of it */
    STAGE_BYTES = HALF * SPAN,
    K_STAGES = HEAD_DIM / CHUNK,         /* of a half, as of V */
    V_ROWS = GQA_SM100_V_ROWS(HEAD_DIM), /* M of the second product */
    V_SLABS = V_ROWS / CHUNK,
    V_TOKENS = HALF / V_SLABS,
    V_BLOCKS = HEAD_DIM / V_ROWS,
    K_STEP_BYTES = 32,              /* one MMA contracts 32 bytes of each operand row */
    STEP = K_STEP_BYTES / KV_BYTES, /* tokens of one MMA of the second product */
    P_ROW = N * KV_BYTES,           /* bytes of a token's weights */
    P_BYTES = TILE * P_ROW,
    Q_BYTES = N * HEAD_DIM * KV_BYTES,

    LOOKAHEAD = 2 / HALVES, /* tiles by which K runs ahead of V in the ring */
    P_STAGES = 2,
    S_STAGES = 4 / HALVES,
    S_COLUMNS = HALVES * N,
    Q_STAGES = 2,
    O_STAGES = GQA_O_STAGES,
    O_PER_TILE = GQA_O_PER_TILE, /* O changes hands after each tile, else after each part */
    L_STAGES = GQA_L_STAGES,     /* sums that softmax leaves to correction; 0: it keeps them */
    STAT_STAGES = 2,
    M_STAGES = 4, /* pipelines whose maxima are exact */
    MAX_CLUSTER = 16,
};

static_assert(HEAD_DIM == 64 || HEAD_DIM == 128 || HEAD_DIM == 256, "whole slabs and blocks");
static_assert(ROWS == 8 || ROWS == 16 || ROWS == 32, "widths of tcgen05.ld, rows of a warp");
static_assert(V_TOKENS == GQA_SM100_V_TOKENS(KV_BYTES, HEAD_DIM), "the host's boxes of V");
static_assert(K_STAGES == V_SLABS * V_BLOCKS, "K and V tiles fill as many stages");
static_assert(Q_BYTES % 1024 == 0 && P_BYTES % 1024 == 0, "swizzle patterns start at 1024");

#define NEG_LARGE (-1e30f)
#define LOG2E     1.4426950408889634f
#define LN2       0.6931471805599453f

/* A row's reference maximum is its largest score less MAX_BIAS, and is raised only when a score
 * exceeds it by MAX_LIMIT: weights reach 2^8 and O is rarely rescaled. With FP8 weights the bias
 * uses e4m3's range (448): what is 2^-17 of the largest weight is still a step of the grid. */
#define MAX_BIAS  (KV_IS_FP8 ? 7.0f : 0.0f)
#define MAX_LIMIT 8.0f

/* FP8: the second of a number's two e4m3 parts is kept times this. A first part is at most 448, its
 * rounding error at most 16, so this fills e4m3's range and moves the floor below which small
 * weights are lost by as much: it matters where large values meet small weights. */
#define LOW_SCALE 16.0f

/* --- Tensor memory, columns --- */

enum {
    S_COLUMN = 0,                                  /* [S_STAGES][HALVES][N] */
    O_COLUMN = S_COLUMN + S_STAGES * S_COLUMNS,    /* [O_STAGES][V_BLOCKS][N] */
    L_COLUMN = O_COLUMN + O_STAGES * V_BLOCKS * N, /* [L_STAGES][ROWS] */
    USED_COLUMNS = L_COLUMN + L_STAGES * ROWS,
    TMEM_COLUMNS = USED_COLUMNS <= 64    ? 64
                   : USED_COLUMNS <= 128 ? 128
                   : USED_COLUMNS <= 256 ? 256
                                         : 512,
};
static_assert(USED_COLUMNS <= TMEM_COLUMNS, "512 columns are all there are");

/* --- Descriptors. Ref: PTX ISA, "Instruction descriptor", "Shared memory descriptor" --- */

enum {
    TYPE_CODE = KV_IS_FP8 ? KV_TYPE == GQA_ARG_E5M2 : KV_IS_BF16,
    PQ_CODE = KV_IS_FP8 ? 0 : KV_IS_BF16, /* Q and P beside an FP8 cache are e4m3 */
    IDESC = 1 << 4 | TYPE_CODE << 7 | PQ_CODE << 10 | N / 8 << 17,
    IDESC_SCORE = IDESC | 128 / 16 << 24,
    IDESC_WEIGH = IDESC | V_ROWS / 16 << 24 | 1 << 15 | 1 << 16, /* A and B MN-major */
    SWIZZLE_128 = 2,
    SWIZZLE_64 = 4,
    SWIZZLE_32 = 6,
    SPAN_SWIZZLE = SPAN == 128 ? SWIZZLE_128 : SWIZZLE_64,
    P_SWIZZLE = P_ROW == 16   ? 0
                : P_ROW == 32 ? SWIZZLE_32
                              : SWIZZLE_64,
    SLAB_BYTES = V_TOKENS * SPAN,
};
static_assert(P_ROW >= 16 && P_ROW <= 64, "P's rows are one swizzle span");

/* `lead`: K-major unused; MN-major: between spans along MN, or, without swizzle, between groups
 * of 8 tokens. `stride`: between groups of 8 rows (K-major) or of 8 tokens (MN-major). */
DEV uint64_t descriptor(uint32_t addr, int lead, int stride, int swizzle) {
    return (uint64_t)((uint32_t)swizzle << 29 | 1u << 14 | (uint32_t)stride >> 4) << 32 |
           (uint32_t)lead << 12 | (addr & 0x3ffff) >> 4;
}

/* The descriptor of what lies `bytes` further; the upper word, which has no address, stays. */
DEV uint64_t descriptor_at(uint64_t d, int bytes) {
    return pack_b64((uint32_t)d + bytes / 16, (uint32_t)(d >> 32));
}

/* The address at which a swizzled tile keeps what it would keep at `addr` unswizzled. */
DEV uint32_t swizzled(uint32_t addr, int swizzle) {
    if (swizzle == SWIZZLE_128)
        return addr ^ (addr >> 3 & 0x70);
    if (swizzle == SWIZZLE_64)
        return addr ^ (addr >> 3 & 0x30);
    if (swizzle == SWIZZLE_32)
        return addr ^ (addr >> 3 & 0x10);
    return addr;
}

DEV void mma(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, bool accumulate) {
    if (KV_IS_FP8)
        tcgen05_mma_f8f6f4(d, a, b, idesc, accumulate);
    else
        tcgen05_mma_f16(d, a, b, idesc, accumulate);
}

DEV void mma_more(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc) {
    if (KV_IS_FP8)
        tcgen05_mma_f8f6f4_more(d, a, b, idesc);
    else
        tcgen05_mma_f16_more(d, a, b, idesc);
}

/* 8, 16, 32 or 64 columns of the warp's 32 lanes; complete and usable on return. All 32 lanes. */
DEV void tmem_load(float *r, uint32_t tmem, int columns) {
    if (columns == 8)
        tcgen05_ld_32x32b_x8(r, tmem);
    else if (columns == 16)
        tcgen05_ld_32x32b_x16(r, tmem);
    else
        for (int i = 0; i < columns; i += 32)
            tcgen05_ld_32x32b_x32(r + i, tmem + i);
    tcgen05_wait_ld();
#pragma unroll
    for (int i = 0; i < columns; i += 8)
        tcgen05_loaded_x8(r + i);
}

/* Eight of them. */
DEV void tmem_load_x8(float r[8], uint32_t tmem) {
    tcgen05_ld_32x32b_x8(r, tmem);
    tcgen05_wait_ld();
    tcgen05_loaded_x8(r);
}

/* --- Rings --- */

/* One end of a ring of slots, held by value by its role. Slot i's barriers are full + 8 i and
 * empty + 8 i. A fresh barrier counts as having completed parity 1, so a producer starts there:
 * its first turn finds every slot empty; a consumer starts at 0. */
struct pipe {
    uint32_t full, empty;
    int slot, parity, depth;
};

DEV struct pipe pipe_producer(const uint64_t *full, const uint64_t *empty, int depth) {
    const struct pipe x = {smem_addr(full), smem_addr(empty), 0, 1, depth};
    return x;
}

DEV struct pipe pipe_consumer(const uint64_t *full, const uint64_t *empty, int depth) {
    const struct pipe x = {smem_addr(full), smem_addr(empty), 0, 0, depth};
    return x;
}

DEV uint32_t pipe_full(const struct pipe *x) {
    return x->full + 8 * x->slot;
}

DEV uint32_t pipe_empty(const struct pipe *x) {
    return x->empty + 8 * x->slot;
}

/* All 32 lanes. None goes on before each has seen the phase: lane 0 alone speaks for the warp in
 * what lets the other side go on, and a lane that asked after that might find the barrier one phase
 * further, where its parity means a phase that needs this warp. */
DEV void mbarrier_wait(uint32_t bar, int parity) {
    while (!mbarrier_try_wait_parity(bar, parity)) {
    }
    __syncwarp();
}

DEV void pipe_acquire(const struct pipe *x) {
    mbarrier_wait(pipe_empty(x), x->parity);
}

DEV void pipe_wait(const struct pipe *x) {
    mbarrier_wait(pipe_full(x), x->parity);
}

DEV void pipe_commit(const struct pipe *x) {
    mbarrier_arrive(pipe_full(x));
}

DEV void pipe_release(const struct pipe *x) {
    mbarrier_arrive(pipe_empty(x));
}

DEV void pipe_next(struct pipe *x) {
    if (++x->slot == x->depth) {
        x->slot = 0;
        x->parity ^= 1;
    }
}

/* --- Work --- */

/* A part and how it is cut into tiles: tile t holds tokens [start + t * TILE, ...). */
struct work {
    struct unit u;
    struct part p;
    int start, tiles;
    struct share share;
    int live;
};

/* --- Shared memory --- */

struct query_facts {
    int begin[ROWS], end[ROWS]; /* tokens the row sees in this part */
    float scale[ROWS];          /* FP8: what the row's scores are multiplied by */
};

struct stats {
    float max[ROWS]; /* reference maximum, log2 units */
    float sum[4][ROWS];
};

/* Everything but the K/V ring. */
struct side {
    unsigned char p[P_STAGES][P_BYTES]; /* 1024-aligned, as is q */
    unsigned char q[Q_STAGES][Q_BYTES];
    float mail_o[(HEAD_DIM + 4 * MAX_CLUSTER) * ROWS]; /* from peers: [peer][element][row] */
    float mail_ml[MAX_CLUSTER][2][ROWS];               /* from peers: reference maximum, sum */
    float maxima[M_STAGES][ROWS];                      /* exact: after each tile, for correction */
    float tops[S_STAGES][4][ROWS]; /* exact: per tile and warp, while maxima are exchanged */
    float max[ROWS];               /* softmax: reference maxima of the part, log2 units */
    float top[4][ROWS];            /* softmax, raising maxima: per warp */
    float rescale[ROWS];           /* ... what sums and accumulators are multiplied by */
    struct query_facts facts[Q_STAGES];
    struct work parts[2]; /* correction: this part and the next */
    struct stats stats[STAT_STAGES];
    int64_t row_at[ROWS];   /* element offset of the row in O, -1: not a row */
    float row_factor[ROWS]; /* what its accumulators are multiplied by */
    uint64_t p_full[P_STAGES], p_empty[P_STAGES];
    uint64_t q_full[Q_STAGES], q_empty[Q_STAGES];
    uint64_t s_full[S_STAGES], s_empty[S_STAGES];
    uint64_t o_full[O_STAGES], o_empty[O_STAGES];
    uint64_t m_full[M_STAGES], m_empty[M_STAGES];
    uint64_t l_full[L_STAGES + 1], l_empty[L_STAGES + 1];
    uint64_t stat_full[STAT_STAGES], stat_empty[STAT_STAGES];
    uint64_t mail_full[2]; /* statistics; outputs */
    uint32_t tmem;
};

enum {
    SMEM_BYTES = GQA_SMEM_sm100(KV_BYTES, HEAD_DIM, ROWS),
    RING_FIT = (SMEM_BYTES - (int)sizeof(struct side) - 16 * 32) / STAGE_BYTES,
    RING = RING_FIT < GQA_MOST_STAGES ? RING_FIT : GQA_MOST_STAGES,
};
static_assert(RING >= K_STAGES + 2, "a tile and the next one's start");

struct smem {
    unsigned char kv[RING][STAGE_BYTES];
    struct side side;
    uint64_t kv_full[RING], kv_empty[RING];
};
static_assert(sizeof(struct smem) <= SMEM_BYTES, "what the host asks for");

/* --- Walking the work --- */

/* Tokens a box of the tensor maps holds: boxes never straddle pages. The host encodes the same. */
DEV int box_tokens(const struct gqa_args *a, int most) {
    int box = most;
    while (a->pages && a->page_size % box)
        box >>= 1;
    return box;
}

DEV void work_cut(const struct gqa_args *a, struct work *w) {
    const int box = box_tokens(a, HALF);
    w->start = a->pages ? w->p.begin / box * box : w->p.begin;
    w->tiles = w->p.begin < w->p.end ? (w->p.end - w->start + TILE - 1) / TILE : 0;
}

/* The first part of this CTA. All 32 lanes. */
DEV struct work work_first(const struct gqa_args *a) {
    const struct share none = {0, 0, 0, 0, 0};
    struct work w;
    w.start = w.tiles = 0;
    w.share = none;
    if (a->schedule == GQA_SCHED_SHARES) {
        const struct shares all = shares_of(a);
        w.share = share_of(a, &all, blockIdx.x);
        w.live = share_next(a, &w.share, blockIdx.x, ROWS, &w.u, &w.p);
    } else {
        const int index = blockIdx.x / a->splits, s = blockIdx.x - index * a->splits;
        const bool in_cluster = a->finish >= GQA_FINISH_ATOMIC;
        int g0, g1;
        w.u = unit_of_index(a, index);
        const int any = split_grains(a, &w.u, s, &g0, &g1);
        w.p = part_of_grains(a, &w.u, ROWS, g0, any ? g1 : g0, blockIdx.x);
        w.live = w.u.row_tile * ROWS < unit_rows(a, &w.u) && (any || in_cluster);
    }
    if (w.live)
        work_cut(a, &w);
    return w;
}

DEV void work_next(const struct gqa_args *a, struct work *w) {
    w->live =
        a->schedule == GQA_SCHED_SHARES && share_next(a, &w->share, blockIdx.x, ROWS, &w->u, &w->p);
    if (w->live)
        work_cut(a, w);
}

/* The CTA's tiles in order, across parts; parts without tiles do not occur here. */
struct tiles {
    struct work w;
    int tile;
    int part; /* grows with every part, those without tiles too */
};

DEV struct tiles tiles_first(const struct gqa_args *a, const struct work *first) {
    struct tiles t;
    t.w = *first;
    t.tile = t.part = 0;
    while (t.w.live && !t.w.tiles)
        work_next(a, &t.w);
    return t;
}

DEV void tiles_next(const struct gqa_args *a, struct tiles *t) {
    if (++t->tile < t->w.tiles)
        return;
    t->tile = 0;
    do {
        work_next(a, &t->w);
        t->part++;
    } while (t->w.live && !t->w.tiles);
}

/* Is K's next tile `k` due before V's next one `v`, which is `lead` tiles behind? The ring's order:
 * loader and issuer ask alike. K stays within the part after V's: queries are prepared one part
 * ahead, and later ones only when V's part is finished. */
DEV bool k_is_next(const struct tiles *k, const struct tiles *v, int lead) {
    return k->w.live && lead <= LOOKAHEAD && k->part <= v->part + 1;
}

DEV int tile_token(const struct tiles *t) {
    return t->w.start + t->tile * TILE;
}

/* Halves of the tile that hold tokens of the part. */
DEV int tile_halves(const struct tiles *t) {
    return HALVES == 1 || t->w.p.end - tile_token(t) <= HALF ? 1 : HALVES;
}

/* --- A CTA --- */

struct cta {
    const struct gqa_args *args;
    struct smem *smem;
    uint32_t tmem;
    int warp, lane;
    struct work first;   /* its first part */
    struct trace *trace; /* the warp's */
};

/* Column `n` of accumulator block `block` in O's slot, for this warp's lanes. */
DEV uint32_t output_tmem(const struct cta *c, int o_slot, int block, int n) {
    return c->tmem + (c->warp % 4 << 21) + O_COLUMN + (o_slot * V_BLOCKS + block) * N + n;
}

#endif
