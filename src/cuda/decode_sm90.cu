/* SPDX-License-Identifier: Apache-2.0
 * Hopper, long KV: one persistent CTA per SM, a ring of bulk copies, warp specialisation.
 *
 *   load warp --cp.async.bulk--> ring of K and V tiles --LDS.128--> attend warps --mma.sync--> O^T
 *
 * The load warp runs ahead through all parts of the CTA's share, so the copy engine never waits
 * for a merge. Tiles are copied as they lie in memory, by runs: a whole tile where tokens are
 * adjacent, else one run per page, else one per token; rows keep their pitch and no tensor map is
 * needed (linear copies stream 9 to 12 % faster than boxes here). Groups of attend warps take tiles
 * in turn, so that one computes while another waits; the warps of a group take 16 tokens each and
 * keep their own softmax state. All meet once per part.
 *
 * Ceiling: 2 * head_dim * KV_BYTES bytes per token and KV head, once per row tile; 132 SMs stream
 * 4.6 TB/s (35 GB/s each, 20 bytes per clock). STAGES slots of about 16 KB cover the latency.
 *
 * Signal map (arrivals per phase)
 *   load --kv.full (1 + tx bytes)--> attend    the slot holds the part's rows of a K or V tile
 *   load <--kv.empty (GROUP_WARPS)-- attend    every warp of the tile's group has read the slot
 *   BAR_INIT (THREADS)                         load warp -> attend warps: mbarriers are ready
 *   BAR_ATTEND (ATTEND_THREADS)                warps' results are stored; or have been read
 *   barrier.cluster                            0: all CTAs have started; 1: all have pushed */
#define GQA_WARPS        GQA_ATTEND_WARPS_sm90(GQA_KV >= GQA_KV_e4m3 ? 1 : 2, GQA_HEAD_DIM, GQA_GROUP)
#define GQA_V_NEIGHBOURS 1
#define GQA_SPLIT_SCORES 1

#include "args.h"
#include "shape.h"
#include "finish_sm90.cuh"
#include "pipe.cuh"
#include "trace.cuh"

enum {
    ATTEND_WARPS = GQA_WARPS,
    ATTEND_THREADS = 32 * ATTEND_WARPS,
    LOAD_WARP = ATTEND_WARPS,
    THREADS = ATTEND_THREADS + 32,
    TILE = GQA_TILE_sm90(KV_BYTES, HEAD_DIM, ROWS), /* tokens */
    TILE_BYTES = TILE * HEAD_DIM * KV_BYTES,
    STAGES = GQA_STAGES_sm90(KV_BYTES, HEAD_DIM, ROWS),
    GROUPS = GQA_GROUPS_sm90(KV_BYTES, HEAD_DIM, ROWS), /* attend to tiles in turn */
    GROUP_WARPS = ATTEND_WARPS / GROUPS,
    GROUP_TEAMS = TEAMS / GROUPS,
    SUBS = TILE / (STEP * GROUP_TEAMS), /* steps of a warp per tile */
    EARLY_V = ROWS == 8, /* read V before the softmax: its latency hides there; needs registers */
    BAR_ATTEND = 1,
    BAR_INIT = 2,
    BAR_TEAM = 3, /* + team */
};

static_assert(STAGES % (2 * GROUPS) == 0 && STAGES > 0, "a slot belongs to one group");
static_assert(SLICES == 1 || (SLICES == 2 && SUBS == 1 && GROUPS == 1), "see add_partner");
static_assert(SUBS >= 1 && TILE % (STEP * GROUP_TEAMS) == 0, "teams share a tile evenly");

struct smem {
    alignas(128) unsigned char kv[STAGES][TILE_BYTES];
    struct merge_smem merge;
    struct inbox inbox;
    float half[2][SLICES > 1 ? TEAMS : 0][SLICES][M_TILES][2][32][4]; /* see add_partner */
    struct q_smem q[Q_IN_SMEM]; /* written and read by attend warps between BAR_ATTENDs */
    alignas(8) uint64_t full[STAGES], empty[STAGES];
};

struct cta {
    const struct gqa_args *args;
    struct smem *smem;
    struct trace *trace; /* the warp's */
};

/* The parts of this CTA, one after the other; every warp walks them by itself. Without lengths to
 * read that is pure arithmetic, done while earlier kernels still run. */
struct walk {
    struct share share;
    int single; /* 1: one part is to come; 0: it has been; -1: a share */
};

DEV struct walk walk_begin(const struct gqa_args *a) {
    struct walk w;
    w.single = a->schedule == GQA_SCHED_SHARES ? -1 : 1;
    if (a->reads_lengths)
        pdl_wait();
    if (w.single < 0) {
        const struct shares all = shares_of(a);
        w.share = share_of(a, &all, blockIdx.x);
    }
    return w;
}

DEV int walk_next(const struct gqa_args *a, struct walk *w, struct unit *u, struct part *p) {
    if (w->single < 0)
        return share_next(a, &w->share, blockIdx.x, ROWS, u, p);
    if (!w->single)
        return 0;
    w->single = 0;
    const int index = divide(blockIdx.x, a->by_splits), s = blockIdx.x - index * a->splits;
    int g0, g1;
    *u = unit_of_index(a, index);
    const int some = split_grains(a, u, s, &g0, &g1) && u->row_tile * ROWS < unit_rows(a, u);
    *p = part_of_grains(a, u, ROWS, g0, g1, blockIdx.x);
    return some || a->finish >= GQA_FINISH_ATOMIC;
}

/* --- Load --- */

/* Where rows of K or of V come from. */
struct source {
    const char *base; /* of the KV head in the cache entry, or in page 0 */
    int64_t page_bytes, token_bytes;
    int row_bytes;
};

/* A tile's rows in runs that are adjacent in memory, dealt to the lanes: RUNS each at most. */
enum { RUNS = TILE / 32 };

struct runs {
    const int32_t *pages; /* of the sequence; NULL: not paged */
    int tokens;           /* of a run: a page, 1, or without pages 0 for "all" */
    struct gqa_divisor by_run, by_page;
    int page_size;
};

DEV struct source source_of(const struct gqa_args *a, const struct unit *u, const void *base,
                            const struct gqa_arg_strides *s, int dim) {
    struct source x;
    x.page_bytes = s->batch * KV_BYTES;
    x.token_bytes = s->token * KV_BYTES;
    x.row_bytes = dim * KV_BYTES;
    x.base = (const char *)base + u->kv_head * s->head * KV_BYTES;
    if (!a->pages)
        x.base += u->entry * x.page_bytes;
    return x;
}

DEV struct runs runs_of(const struct gqa_args *a, const struct unit *u) {
    const int adjacent = a->k_stride.token == a->head_dim && a->v_stride.token == a->head_dim_v;
    struct runs x;
    x.pages = a->pages;
    x.page_size = a->page_size;
    x.by_page = a->by_page;
    x.tokens = adjacent ? a->page_size : 1;
    x.by_run = a->by_page;
    if (x.tokens == 1)
        x.by_run.multiply = 0;
    if (a->pages) {
        pdl_wait();
        x.pages += a->page_indptr ? a->page_indptr[u->entry] : u->entry * a->page_stride;
    }
    return x;
}

/* Page numbers of this lane's runs of tokens [begin, end): asked for one tile ahead. */
DEV void pages_fetch(const struct runs *x, int begin, int end, int32_t page[RUNS], int lane) {
    const int first = divide(begin, x->by_run) + lane;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int from = max_int(begin, (first + 32 * j) * x->tokens);
        page[j] = x->pages && from < end ? x->pages[divide(from, x->by_page)] : 0;
    }
}

/* Tokens [begin, end) into a slot, token `tile` at its start. All 32 lanes share the runs. */
DEV void copy_rows(const struct source *s, const struct runs *x, const int32_t page[RUNS], int tile,
                   int begin, int end, uint32_t slot, uint32_t full, int lane) {
    if (!x->tokens) {
        if (lane == 0)
            cp_async_bulk_g2s(slot + (begin - tile) * s->row_bytes,
                              s->base + begin * s->token_bytes, (end - begin) * s->row_bytes, full);
        return;
    }
    const int first = divide(begin, x->by_run) + lane;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int at = (first + 32 * j) * x->tokens;
        const int from = max_int(begin, at), to = min_int(end, at + x->tokens);
        if (from >= to)
            continue;
        const int in_page = x->pages ? from - divide(from, x->by_page) * x->page_size : from;
        cp_async_bulk_g2s(slot + (from - tile) * s->row_bytes,
                          s->base + page[j] * s->page_bytes + in_page * s->token_bytes,
                          (to - from) * s->row_bytes, full);
    }
}

/* One K or V tile, tokens [begin, end). Earlier kernels may still run until the first copy. */
DEV void load_tile(const struct cta *c, const struct source *s, const struct runs *x,
                   const int32_t page[RUNS], const struct pipe *kv, int tile, int begin, int end,
                   bool is_k, int lane) {
    trace_enter(c->trace, TRACE_wait_slot);
    pipe_acquire(kv);
    trace_enter(c->trace, is_k ? TRACE_load_K : TRACE_load_V);
    if (lane == 0)
        mbarrier_arrive_expect_tx(pipe_full(kv), (end - begin) * s->row_bytes);
    __syncwarp();
    if (tile <= begin) {
        trace_enter(c->trace, TRACE_griddepcontrol_wait);
        pdl_wait();
        trace_enter(c->trace, is_k ? TRACE_load_K : TRACE_load_V);
    }
    copy_rows(s, x, page, tile, begin, end, smem_addr(c->smem->kv[kv->slot]), pipe_full(kv), lane);
    trace_enter(c->trace, TRACE_other);
}

/* Role: one warp streams the tiles of every part into the ring, K before V. */
DEV void load(const struct cta *c, struct pipe kv, int lane) {
    const struct gqa_args *a = c->args;
    struct walk walk = walk_begin(a);
    struct unit u;
    struct part p;
    while (walk_next(a, &walk, &u, &p)) {
        const struct source k = source_of(a, &u, a->k, &a->k_stride, a->head_dim);
        const struct source v = source_of(a, &u, a->v, &a->v_stride, a->head_dim_v);
        const struct runs runs = runs_of(a, &u);
        int32_t page[RUNS], next[RUNS];
        int tile = p.begin / STEP * STEP;
        pages_fetch(&runs, p.begin, min_int(tile + TILE, p.end), page, lane);
        for (; tile < p.end; tile += TILE) {
            const int begin = max_int(tile, p.begin), end = min_int(tile + TILE, p.end);
            pages_fetch(&runs, end, min_int(end + TILE, p.end), next, lane);
            trace_tile(c->trace, (tile - p.begin / STEP * STEP) / TILE);
            load_tile(c, &k, &runs, page, &kv, tile, begin, end, true, lane);
            pipe_next(&kv);
            load_tile(c, &v, &runs, page, &kv, tile, begin, end, false, lane);
            pipe_next(&kv);
#pragma unroll
            for (int j = 0; j < RUNS; j++)
                page[j] = next[j];
        }
    }
}

/* --- Attend --- */

/* What an attend warp knows of its part; view_of leaves out the scale, which may be in memory. */
struct view {
    struct score_scale scale;
    struct visible seen;
    int begin, end;           /* of the part */
    int full_begin, full_end; /* no masks inside */
    int k_bytes, v_bytes;     /* a row's */
    int k_dim, v_dim;
};

DEV struct view view_of(const struct gqa_args *a, const struct unit *u, const struct part *p,
                        int lane) {
    struct view v;
    v.seen = visible_of(a, u, lane);
    v.begin = p->begin;
    v.end = p->end;
    v.full_begin = max_int(p->begin, v.seen.full_begin);
    v.full_end = min_int(p->end, v.seen.full_end);
    v.k_dim = a->head_dim;
    v.v_dim = a->head_dim_v;
    v.k_bytes = a->head_dim * KV_BYTES;
    v.v_bytes = a->head_dim_v * KV_BYTES;
    return v;
}

/* Row of `token` in the slot; tokens that were not loaded stand for the part's nearest. */
DEV int slot_row(const struct view *w, int tile, int token) {
    return max_int(w->begin, min_int(token, w->end - 1)) - tile;
}

DEV void k_read(const struct view *w, uint32_t slot, int tile, int token, int block,
                struct k_frag *k, int lane) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const uint32_t row = slot + slot_row(w, tile, token + lane / 4 + 8 * n) * w->k_bytes;
#pragma unroll
        for (int j = 0; j < K_LOADS; j++) {
            const int d = block * SLICE_DIM + (4 * j + lane % 4) * K_CHUNK;
            if (d < w->k_dim)
                k->w[n][j] = ld_shared_v4(row + d * KV_BYTES);
            else
                k->w[n][j].w[0] = k->w[n][j].w[1] = k->w[n][j].w[2] = k->w[n][j].w[3] = 0;
        }
    }
}

DEV void swap_words(struct u32x4 *x, struct u32x4 *y, bool swap) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t a = x->w[i], b = y->w[i];
        x->w[i] = swap ? b : a;
        y->w[i] = swap ? a : b;
    }
}

/* Rows lie a multiple of 128 bytes apart, so the four rows of a quad collide in the banks; lanes of
 * odd t read their two chunks in the other order, which halves that. */
DEV void v_read(const struct view *w, uint32_t slot, int tile, int token, int slice,
                struct v_frag *v, int lane) {
    const bool swap = V_LOADS == 2 && lane % 2;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int at = token + 8 * (j / 2) + 2 * (lane % 4) + j % 2;
        const uint32_t row = slot + slot_row(w, tile, at) * w->v_bytes;
#pragma unroll
        for (int c = 0; c < V_LOADS; c++) {
            const int d = slice * SLICE_DIM + v_column(swap ? c ^ 1 : c, lane / 4);
            const uint32_t from = row + d * KV_BYTES;
            if (d >= w->v_dim)
                v->w[j][c].w[0] = v->w[j][c].w[1] = v->w[j][c].w[2] = v->w[j][c].w[3] = 0;
            else
                v->w[j][c] = V_CHUNK * KV_BYTES == 16 ? ld_shared_v4(from) : ld_shared_v2(from);
        }
        if (V_LOADS == 2)
            swap_words(&v->w[j][0], &v->w[j][V_LOADS - 1], swap);
    }
}

DEV bool is_full(const struct view *w, int token) {
    return token >= w->full_begin && token + STEP <= w->full_end;
}

/* Heads wider than 128: each warp of a team has scored its own half of the columns; the sum is the
 * same in both. Two buffers in turn: a third write follows a barrier that its readers have passed.
 */
DEV void add_partner(const struct cta *c, float s[M_TILES][2][4], int turn, int team, int slice,
                     int lane) {
    struct smem *smem = c->smem;
#pragma unroll
    for (int i = 0; i < 2 * M_TILES; i++) {
        const float *x = s[i / 2][i % 2];
        *(float4 *)smem->half[turn % 2][team][slice][i / 2][i % 2][lane] =
            make_float4(x[0], x[1], x[2], x[3]);
    }
    trace_enter(c->trace, TRACE_wait_partner);
    barrier_sync(BAR_TEAM + team, 64);
    trace_enter(c->trace, TRACE_QK_math);
#pragma unroll
    for (int i = 0; i < 2 * M_TILES; i++) {
        const float4 x = *(const float4 *)smem->half[turn % 2][team][slice ^ 1][i / 2][i % 2][lane];
        s[i / 2][i % 2][0] += x.x;
        s[i / 2][i % 2][1] += x.y;
        s[i / 2][i % 2][2] += x.z;
        s[i / 2][i % 2][3] += x.w;
    }
}

/* Scores of one step's columns of this slice, as they are. */
DEV void score_step(const struct cta *c, const struct view *w, struct q_frag *q, uint32_t slot,
                    int tile, int token, int slice, float s[M_TILES][2][4], int lane) {
    struct k_frag k;
    score_init(s);
    k_read(w, slot, tile, token, slice, &k, lane);
    if (Q_IN_SMEM)
        score_from_smem(c->smem->q, slice, &k, s, lane);
    else
        score(q, &k, s);
}

/* V's part of all steps of this warp, from the slot where kv stands; kv moves on. */
DEV void v_take(const struct cta *c, const struct view *w, struct pipe *kv, int tile, int first,
                int slice, struct v_frag v[SUBS], int lane) {
    const uint32_t slot = smem_addr(c->smem->kv[kv->slot]);
    trace_enter(c->trace, TRACE_wait_V);
    pipe_wait(kv);
    trace_enter(c->trace, TRACE_read_V);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++) {
        const int token = first + sub * GROUP_TEAMS * STEP;
        v_read(w, slot, tile, token, slice, &v[sub], lane);
        if (!is_full(w, token))
            zero_unseen(&v[sub], token, w->begin, w->end, lane);
    }
    pipe_release(kv, lane);
    trace_enter(c->trace, TRACE_other);
    pipe_next(kv);
}

/* Scale the scores of all steps of this warp, and mask what is not seen. */
DEV void see_scores(const struct view *w, float s[SUBS][M_TILES][2][4], int first, int lane) {
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++) {
        const int token = first + sub * GROUP_TEAMS * STEP;
        scale_scores(s[sub], &w->scale);
        if (!is_full(w, token))
            mask_scores(s[sub], &w->seen, token, w->begin, w->end, lane);
    }
}

/* One tile: kv stands at its K slot, and behind its V slot afterwards. */
DEV void attend_tile(const struct cta *c, const struct view *w, struct q_frag *q, struct softmax *x,
                     struct pipe *kv, int tile, int turn, int team, int slice, int lane) {
    const int first = tile + team * STEP;
    float s[SUBS][M_TILES][2][4];
    uint32_t weights[SUBS][BLOCKS][2];
    struct v_frag v[SUBS];
    const uint32_t slot = smem_addr(c->smem->kv[kv->slot]);
    trace_enter(c->trace, TRACE_wait_K);
    pipe_wait(kv);
    trace_enter(c->trace, TRACE_QK_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        score_step(c, w, q, slot, tile, first + sub * GROUP_TEAMS * STEP, slice, s[sub], lane);
    if (SLICES == 1)
        see_scores(w, s, first, lane);
    pipe_release(kv, lane);
    pipe_next(kv);
    if (SLICES > 1) {
        add_partner(c, s[0], turn, team, slice, lane);
        see_scores(w, s, first, lane);
    }
    if (EARLY_V)
        v_take(c, w, kv, tile, first, slice, v, lane);
    trace_enter(c->trace, TRACE_softmax_local_max);
    softmax_raise(x, s, SUBS, lane);
    trace_enter(c->trace, TRACE_softmax_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        softmax_weights(x, s[sub], weights[sub]);
    if (!EARLY_V)
        v_take(c, w, kv, tile, first, slice, v, lane);
    trace_enter(c->trace, TRACE_PV_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        accumulate(x, &v[sub], weights[sub]);
    trace_enter(c->trace, TRACE_other);
}

/* The tiles of one part, those of this group: `turn` counts all tiles of the CTA. A warp without a
 * token in the last tile still computes, on masked scores: branches cost more. */
DEV void attend_tiles(const struct cta *c, const struct view *w, struct q_frag *q,
                      struct softmax *x, struct pipe *kv, int *turn, int warp, int lane) {
    const int group = warp / GROUP_WARPS, in_group = warp % GROUP_WARPS;
    for (int tile = w->begin / STEP * STEP; tile < w->end; tile += TILE, (*turn)++) {
        if (*turn % GROUPS == group) {
            trace_tile(c->trace, (tile - w->begin / STEP * STEP) / TILE);
            attend_tile(c, w, q, x, kv, tile, *turn, in_group / SLICES, in_group % SLICES, lane);
        } else {
            pipe_next(kv);
            pipe_next(kv);
        }
    }
}

DEV void finish(const struct cta *c, const struct unit *u, const struct part *p) {
    const struct gqa_args *a = c->args;
    struct smem *s = c->smem;
    trace_enter(c->trace, a->finish >= GQA_FINISH_ATOMIC               ? TRACE_cluster_merge
                          : a->finish == GQA_FINISH_OUTPUT || p->whole ? TRACE_output_store
                                                                       : TRACE_partial_store);
    if (a->finish == GQA_FINISH_CLUSTER)
        finish_cluster(a, u, &s->merge, &s->inbox, threadIdx.x, ATTEND_THREADS);
    else if (a->finish == GQA_FINISH_ATOMIC)
        finish_atomic(a, u, &s->merge, &s->inbox, threadIdx.x, ATTEND_THREADS);
    else
        finish_cta(a, u, p, &s->merge, threadIdx.x, ATTEND_THREADS);
}

/* Role: the attend warps compute every part and write what came out. */
DEV void attend(const struct cta *c, struct pipe kv, int warp, int lane) {
    const struct gqa_args *a = c->args;
    const int team = warp / SLICES, slice = warp % SLICES;
    struct walk walk = walk_begin(a);
    struct unit u;
    struct part p;
    int turn = 0;
    while (walk_next(a, &walk, &u, &p)) {
        struct softmax x;
        struct q_frag q;
        softmax_init(&x);
        const struct q_rows rows = q_rows_of(a, &u, lane);
        struct view w = view_of(a, &u, &p, lane);
        trace_enter(c->trace, TRACE_griddepcontrol_wait);
        pdl_wait();
        trace_enter(c->trace, TRACE_load_Q);
        w.scale = score_scale_of(a, &u);
        if (Q_IN_SMEM)
            q_prepare(a, &rows, c->smem->q, &q, warp, lane);
        else
            q = q_load(a, &rows, slice, lane);
        if (Q_IN_SMEM)
            barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        attend_tiles(c, &w, &q, &x, &kv, &turn, warp, lane);
        trace_enter(c->trace, TRACE_merge_store);
        softmax_store(&x, smem_addr(&c->smem->merge.o[team][0][slice * SLICE_DIM]), PITCH,
                      smem_addr(c->smem->merge.ml[team]), lane);
        trace_enter(c->trace, TRACE_wait_merge);
        barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        finish(c, &u, &p);
        trace_enter(c->trace, TRACE_wait_merge);
        barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        trace_enter(c->trace, TRACE_other);
    }
}

/* --- The kernel --- */

/* Parameters are cold in every launch's constant cache; fetch those that the finish will want now,
 * where nothing waits for them. */
DEV void args_touch(const struct gqa_args *a) {
    asm volatile("" ::"l"(a->o), "l"(a->lse), "l"(a->sinks), "l"(a->v_scale), "l"(a->part_o));
    asm volatile("" ::"l"(a->o_stride.batch), "l"(a->o_stride.head), "l"(a->lse_stride.head));
    asm volatile("" ::"r"(a->o_type), "r"(a->lse_base_2), "r"(a->by_group.shift));
}

DEV void init_barriers(struct smem *s) {
    for (int i = 0; i < STAGES; i++) {
        mbarrier_init(smem_addr(&s->full[i]), 1);
        mbarrier_init(smem_addr(&s->empty[i]), GROUP_WARPS);
    }
    fence_mbarrier_init();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(128) unsigned char raw[];
    struct smem *smem = (struct smem *)raw;
    static_assert(sizeof(struct smem) <= GQA_SMEM_sm90(KV_BYTES, HEAD_DIM, ROWS), "shape.h");
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    struct trace trace =
        trace_open(&args, TRACE_DECODE, warp == LOAD_WARP ? TRACE_ROLE_load : TRACE_ROLE_attend);
    const struct cta c = {&args, smem, &trace};
    const bool in_cluster = args.finish >= GQA_FINISH_ATOMIC;
    const uint32_t full = smem_addr(smem->full), empty = smem_addr(smem->empty);

    trace_enter(&trace, TRACE_producer_trigger);
    if (in_cluster)
        barrier_cluster_arrive_relaxed();
    pdl_launch_dependents();
    trace_enter(&trace, TRACE_prologue);
    if (warp == LOAD_WARP) {
        if (lane == 0)
            init_barriers(smem);
        __syncwarp();
        barrier_arrive(BAR_INIT, THREADS);
        load(&c, pipe_producer(full, empty, STAGES), lane);
        trace_enter(&trace, TRACE_wait_exit);
        if (in_cluster) {
            barrier_cluster_wait();
            barrier_cluster_arrive();
            barrier_cluster_wait();
        }
    } else {
        args_touch(&args);
        trace_enter(&trace, TRACE_wait_start);
        barrier_sync(BAR_INIT, THREADS);
        trace_enter(&trace, TRACE_plan_work);
        attend(&c, pipe_consumer(full, empty, STAGES), warp, lane);
    }
    trace_close(&trace);
}
