/* SPDX-License-Identifier: Apache-2.0
 * Hopper, long KV: one persistent CTA per SM, rings of bulk copies, warp specialisation.
 *
 *   load warp K --cp.async.bulk--> ring of K tiles --LDS.128--> attend warps --mma.sync--> O^T
 *   load warp V --cp.async.bulk--> ring of V tiles --LDS.128--'
 *
 * Loading warps run ahead through all parts of the CTA's share, so the copy engine never waits
 * for a merge. Tiles are copied as they lie in memory, by runs: a whole tile where tokens are
 * adjacent, else one run per page; rows keep their pitch and no tensor map is needed (linear copies
 * stream 9 to 12 % faster than boxes here). Where runs are short, lanes copy 16 bytes each. Groups
 * of attend warps take tiles in turn, so that one computes while another waits; the warps of a
 * group take 16 tokens each, four from each quarter of the tile, and keep their own softmax state.
 * All meet once per part.
 *
 * Rows lie a multiple of 128 bytes apart, so tokens differ in no bank; eight lanes that load V want
 * four tokens and two neighbour chunks of 16 bytes. V's quarters are therefore copied 32 bytes
 * further apart than they lie in memory, and lane t takes its tokens from quarter t: no conflicts.
 *
 * Ceiling: 2 * head_dim * KV_BYTES bytes per token and KV head, once per row tile; 132 SMs stream
 * 4.6 TB/s (35 GB/s each), one alone 72 GB/s: 64 CTAs keep memory busy if they keep up with that,
 * 32 KB in 0.45 us. Each slot of about 16 KB; all of them together cover the latency.
 *
 * Signal map (arrivals per phase)
 *   load --k.full, v.full (1 + tx bytes; by rows 32)--> attend    the slot holds a tile's rows
 *   load <--k.empty, v.empty (GROUP_WARPS)-- attend   every warp of the tile's group has read it
 *   BAR_INIT (THREADS)                                mbarriers are ready
 *   BAR_ATTEND (ATTEND_THREADS)     Q is in shared memory, or warps' results are; or have been read
 *   barrier.cluster                                   all CTAs have started
 *   CTAs --inbox.full (1 + tx bytes)--> CTA           finish_sm90.cuh */
#define GQA_WARPS        GQA_ATTEND_WARPS_sm90(GQA_KV >= GQA_KV_e4m3 ? 1 : 2, GQA_HEAD_DIM, GQA_GROUP)
#define GQA_TOKEN_STRIDE (GQA_TILE_sm90(GQA_KV >= GQA_KV_e4m3 ? 1 : 2, GQA_HEAD_DIM, GQA_GROUP) / 4)
#define GQA_SPLIT_SCORES 1

#include "args.h"
#include "shape.h"
#include "finish_sm90.cuh"
#include "pipe.cuh"
#include "trace.cuh"

#include <stddef.h>

enum {
    ATTEND_WARPS = GQA_WARPS,
    ATTEND_THREADS = 32 * ATTEND_WARPS,
    LOAD_K_WARP = ATTEND_WARPS,
    LOAD_V_WARP,
    THREADS = ATTEND_THREADS + 2 * 32,
    TILE = GQA_TILE_sm90(KV_BYTES, HEAD_DIM, ROWS), /* tokens */
    QUARTER = TILE / 4,
    V_PIECES = 4, /* of a tile, SHIFT bytes apart: a copy for each */
    SHIFT = 128 / V_PIECES,
    SLOT_BYTES = GQA_SLOT_sm90(KV_BYTES, HEAD_DIM, ROWS),
    ROW_BYTES = HEAD_DIM * KV_BYTES,                       /* of heads as wide as the kernel's */
    DEPTH = GQA_STAGES_sm90(KV_BYTES, HEAD_DIM, ROWS) / 2, /* slots for K, and for V */
    GROUPS = GQA_GROUPS_sm90(KV_BYTES, HEAD_DIM, ROWS),    /* attend to tiles in turn */
    GROUP_WARPS = ATTEND_WARPS / GROUPS,
    GROUP_TEAMS = TEAMS / GROUPS,
    SUBS = TILE / (STEP * GROUP_TEAMS), /* steps of a warp per tile */
    EARLY_V = ROWS == 8, /* read V before the softmax: its latency hides there; needs registers */
    BAR_ATTEND = 1,
    BAR_INIT = 2,
    BAR_TEAM = 3, /* + team */
};

static_assert(DEPTH % GROUPS == 0 && DEPTH > 0, "a slot belongs to one group");
static_assert(SLICES == 1 || (SLICES == 2 && SUBS == 1 && GROUPS == 1), "see add_partner");
static_assert(SUBS >= 1 && TILE % (STEP * GROUP_TEAMS) == 0, "teams share a tile evenly");

struct smem {
    alignas(128) unsigned char k[DEPTH][SLOT_BYTES], v[DEPTH][SLOT_BYTES];
    struct merge_smem merge;
    struct inbox inbox;
    alignas(16) float half[2][SLICES > 1 ? TEAMS : 0][SLICES][BLOCKS][32][4]; /* see add_partner */
    struct q_smem q[Q_IN_SMEM]; /* written and read by attend warps between BAR_ATTENDs */
    alignas(8) uint64_t k_full[DEPTH], k_empty[DEPTH], v_full[DEPTH], v_empty[DEPTH];
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

/* Where rows of K or of V come from, and how they lie in a slot: `pieces` of a tile, 1 or a power
 * of two, SHIFT bytes between them. */
struct source {
    const char *base; /* of the KV head in the cache entry, or in page 0 */
    int64_t page_bytes, token_bytes;
    int row_bytes, pieces;
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
                            const struct gqa_arg_strides *s, int dim, int pieces) {
    struct source x;
    x.pieces = pieces;
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
    x.tokens = adjacent && !a->by_rows ? a->page_size : 1;
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
        page[j] = from < end ? x->pages[divide(from, x->by_page)] : 0;
    }
}

/* A part whose tokens are all adjacent. All 32 lanes: each copies one piece of a tile, so that
 * addresses are worked out side by side; issuing is one lane after the other in any case. */
DEV void load_adjacent(const struct cta *c, const struct source *s, const struct part *p,
                       struct pipe *ring, uint32_t slots, int range, int lane) {
    const int size = TILE / s->pieces;
    const uint32_t to = slots + lane * (size * s->row_bytes + SHIFT);
    int tile = p->begin / STEP * STEP;
    const char *from = s->base + (tile + lane * size) * s->token_bytes;
    for (; tile < p->end; tile += TILE) {
        const int begin = max_int(tile, p->begin), end = min_int(tile + TILE, p->end);
        const int first = max_int(0, begin - tile - lane * size);
        const int last = min_int(size, end - tile - lane * size);
        trace_tile(c->trace, (tile - p->begin / STEP * STEP) / TILE);
        trace_enter(c->trace, TRACE_wait_slot);
        pipe_acquire(ring);
        trace_enter(c->trace, range);
        if (lane == 0)
            mbarrier_arrive_expect_tx(pipe_full(ring), (end - begin) * s->row_bytes);
        __syncwarp();
        if (lane < s->pieces && first < last)
            cp_async_bulk_g2s(to + ring->slot * SLOT_BYTES + first * s->row_bytes,
                              from + first * s->row_bytes, (last - first) * s->row_bytes,
                              pipe_full(ring));
        from += TILE * s->row_bytes;
        pipe_next(ring);
    }
    trace_enter(c->trace, TRACE_other);
}

/* Tokens [begin, end) into a slot, token `tile` at its start. All 32 lanes share the runs. */
DEV void copy_runs(const struct source *s, const struct runs *x, const int32_t page[RUNS], int tile,
                   int begin, int end, uint32_t slot, uint32_t full, int lane) {
    const int first = divide(begin, x->by_run) + lane, size = TILE / s->pieces;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int at = (first + 32 * j) * x->tokens, end_of_run = min_int(end, at + x->tokens);
        int from = max_int(begin, at);
        if (from >= end_of_run)
            continue;
        const int in_page = x->pages ? from - divide(from, x->by_page) * x->page_size : from;
        const char *run = s->base + page[j] * s->page_bytes + in_page * s->token_bytes;
        while (from < end_of_run) {
            const int piece = (from - tile) / size, bytes_per = s->row_bytes;
            const int to = min_int(end_of_run, tile + (piece + 1) * size);
            cp_async_bulk_g2s(slot + (from - tile) * bytes_per + piece * SHIFT, run,
                              (to - from) * bytes_per, full);
            run += (to - from) * bytes_per;
            from = to;
        }
    }
}

/* A tile's rows, tokens [begin, end), 16 bytes a lane; `page` as pages_fetch leaves it for runs of
 * one token. As many lanes share a row as have a part of it, up to a power of two. Addresses of
 * several rows are worked out before the first is copied: they wait for shuffles. */
DEV void copy_rows(const struct source *s, const struct runs *x, const int32_t page[RUNS], int tile,
                   int begin, int end, uint32_t slot, int lane) {
    enum { BATCH = 8 };
    const int chunks = s->row_bytes / 16, gap = s->pieces > 1 ? SHIFT : 0;
    const int shift = chunks > 16 ? 5 : chunks > 8 ? 4 : chunks > 4 ? 3 : 2;
    const int row = lane >> shift, chunk = lane & ((1 << shift) - 1), rows = 32 >> shift;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int mine = begin + 32 * j + lane;
        const int in_page = x->pages ? mine - divide(mine, x->by_page) * x->page_size : mine;
        const char *from = s->base + page[j] * s->page_bytes + in_page * s->token_bytes;
        const int last = chunk < chunks ? end - begin - 32 * j : 0;
        const int in_tile = begin - tile + 32 * j;
#pragma unroll 1
        for (int first = row; first < 32 && begin + 32 * j + first - row < end;
             first += BATCH * rows) {
            const char *at[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                at[k] = (const char *)__shfl_sync(0xffffffffu, (uint64_t)from,
                                                  (first + k * rows) % 32) +
                        16 * chunk;
#pragma unroll
            for (int k = 0; k < BATCH; k++) {
                const int r = first + k * rows;
                if (r < 32 && r < last)
                    cp_async_16(slot + (in_tile + r) * s->row_bytes +
                                    (in_tile + r) / QUARTER * gap + 16 * chunk,
                                at[k]);
            }
        }
    }
}

/* A part that lies in runs. All 32 lanes. */
DEV void load_runs(const struct cta *c, const struct source *s, const struct runs *runs,
                   const struct part *p, bool by_rows, struct pipe *ring, uint32_t slots, int range,
                   int lane) {
    int32_t page[RUNS] = {0}, next[RUNS] = {0};
    int tile = p->begin / STEP * STEP;
    if (runs->pages)
        pages_fetch(runs, p->begin, min_int(tile + TILE, p->end), page, lane);
    for (; tile < p->end; tile += TILE) {
        const int begin = max_int(tile, p->begin), end = min_int(tile + TILE, p->end);
        if (runs->pages)
            pages_fetch(runs, end, min_int(end + TILE, p->end), next, lane);
        trace_tile(c->trace, (tile - p->begin / STEP * STEP) / TILE);
        trace_enter(c->trace, TRACE_wait_slot);
        pipe_acquire(ring);
        trace_enter(c->trace, range);
        if (by_rows) {
            copy_rows(s, runs, page, tile, begin, end, slots + ring->slot * SLOT_BYTES, lane);
            cp_async_mbarrier_arrive(pipe_full(ring));
        } else {
            if (lane == 0)
                mbarrier_arrive_expect_tx(pipe_full(ring), (end - begin) * s->row_bytes);
            __syncwarp();
            copy_runs(s, runs, page, tile, begin, end, slots + ring->slot * SLOT_BYTES,
                      pipe_full(ring), lane);
        }
        trace_enter(c->trace, TRACE_other);
        pipe_next(ring);
#pragma unroll
        for (int j = 0; j < RUNS; j++)
            page[j] = next[j];
    }
}

/* Role: one warp streams the K tiles of every part into their ring, another one the V tiles. */
DEV void load(const struct cta *c, struct pipe ring, bool is_k, int lane) {
    const struct gqa_args *a = c->args;
    const uint32_t slots = smem_addr(is_k ? c->smem->k : c->smem->v);
    const int range = is_k ? TRACE_load_K : TRACE_load_V;
    struct walk walk = walk_begin(a);
    struct unit u;
    struct part p;
    while (walk_next(a, &walk, &u, &p)) {
        const struct source source =
            source_of(a, &u, is_k ? a->k : a->v, is_k ? &a->k_stride : &a->v_stride,
                      is_k ? a->head_dim : a->head_dim_v, is_k ? 1 : V_PIECES);
        const struct runs runs = runs_of(a, &u);
        trace_enter(c->trace, TRACE_griddepcontrol_wait);
        pdl_wait();
        if (runs.tokens)
            load_runs(c, &source, &runs, &p, a->by_rows, &ring, slots, range, lane);
        else
            load_adjacent(c, &source, &p, &ring, slots, range, lane);
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
    bool wide; /* heads are as wide as the kernel's */
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
    v.wide = v.k_dim == HEAD_DIM && v.v_dim == HEAD_DIM;
    return v;
}

/* Row of `token` in the slot; tokens that were not loaded stand for the part's nearest. */
DEV int slot_row(const struct view *w, int tile, int token) {
    return max_int(w->begin, min_int(token, w->end - 1)) - tile;
}

DEV struct u32x4 lane_read(uint32_t at, int bytes) {
    return bytes == 16 ? ld_shared_v4(at) : ld_shared_v2(at);
}

/* K of the step whose first token is `token`. `plain`: all rows are in the slot and as wide as the
 * kernel's, so that addresses differ by constants. */
DEV void k_read(const struct view *w, uint32_t slot, int tile, int token, int block, bool plain,
                struct k_frag *k, int lane) {
    const int first = block * SLICE_DIM + k_column(0, lane);
    const uint32_t base = slot + (token - tile + k_token(0, lane)) * ROW_BYTES + first * KV_BYTES;
#pragma unroll
    for (int n = 0; n < K_TILES; n++) {
        const int row = plain ? 0 : slot_row(w, tile, token + k_token(n, lane));
#pragma unroll
        for (int j = 0; j < K_LOADS; j++) {
            const int d = first + j * K_LANES * K_CHUNK;
            if (plain)
                k->w[n][j] =
                    lane_read(base + (k_token(n, 0) * ROW_BYTES) + j * K_LANES * K_CHUNK * KV_BYTES,
                              K_CHUNK * KV_BYTES);
            else if (d < w->k_dim)
                k->w[n][j] = lane_read(slot + row * w->k_bytes + d * KV_BYTES, K_CHUNK * KV_BYTES);
            else
                k->w[n][j].w[0] = k->w[n][j].w[1] = k->w[n][j].w[2] = k->w[n][j].w[3] = 0;
        }
    }
}

DEV void v_read(const struct view *w, uint32_t slot, int tile, int token, int slice, bool plain,
                struct v_frag *v, int lane) {
    const int first = slice * SLICE_DIM + v_column(0, lane / 4);
    const uint32_t base = slot + (token - tile + step_token(0, lane % 4)) * ROW_BYTES +
                          lane % 4 * V_PIECES / 4 * SHIFT + first * KV_BYTES;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int row = plain ? 0 : slot_row(w, tile, token + step_token(j, lane % 4));
#pragma unroll
        for (int c = 0; c < V_LOADS; c++) {
            const int d = first + 8 * c * V_CHUNK;
            if (plain)
                v->w[j][c] = lane_read(base + j * ROW_BYTES + 8 * c * V_CHUNK * KV_BYTES,
                                       V_CHUNK * KV_BYTES);
            else if (d < w->v_dim)
                v->w[j][c] = lane_read(slot + row * w->v_bytes + row / (TILE / V_PIECES) * SHIFT +
                                           d * KV_BYTES,
                                       V_CHUNK * KV_BYTES);
            else
                v->w[j][c].w[0] = v->w[j][c].w[1] = v->w[j][c].w[2] = v->w[j][c].w[3] = 0;
        }
    }
}

/* Heads wider than 128: each warp of a team has scored its own half of the columns; the sum is the
 * same in both. Two buffers in turn: a third write follows a barrier that its readers have passed.
 */
DEV void add_partner(const struct cta *c, struct scores *y, int turn, int team, int slice,
                     int lane) {
    struct smem *smem = c->smem;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        *(float4 *)smem->half[turn % 2][team][slice][i][lane] =
            make_float4(y->s[i][0], y->s[i][1], y->s[i][2], y->s[i][3]);
    trace_enter(c->trace, TRACE_wait_partner);
    barrier_sync(BAR_TEAM + team, 64);
    trace_enter(c->trace, TRACE_QK_math);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const float4 x = *(const float4 *)smem->half[turn % 2][team][slice ^ 1][i][lane];
        y->s[i][0] += x.x;
        y->s[i][1] += x.y;
        y->s[i][2] += x.z;
        y->s[i][3] += x.w;
    }
}

/* Scores of one step's columns of this slice, as they are. */
DEV struct scores score_step(const struct view *w, const struct q_frag *q,
                             const struct q_smem *q_smem, uint32_t slot, int tile, int token,
                             int slice, bool plain, int lane) {
    struct k_frag k;
    struct products x;
    products_init(&x);
    k_read(w, slot, tile, token, slice, plain, &k, lane);
    if (Q_IN_SMEM)
        score_from_smem(q_smem, slice, &k, &x, lane);
    else
        score(q, &k, &x);
    return scores_of(&x);
}

/* First token of step `sub` of a team: it takes four tokens of each quarter. */
DEV int step_first(int tile, int team, int sub) {
    return tile + 4 * (team + sub * GROUP_TEAMS);
}

/* The ends of an attend warp. */
struct pipes {
    struct pipe k, v;
};

/* V's part of all steps of this warp. */
DEV void v_take(const struct cta *c, const struct view *w, struct pipe *ring, int tile, int team,
                int slice, bool plain, struct v_frag v[SUBS], int lane) {
    const uint32_t slot = smem_addr(c->smem->v[ring->slot]);
    trace_enter(c->trace, TRACE_wait_V);
    pipe_wait(ring);
    trace_enter(c->trace, TRACE_read_V);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++) {
        const int token = step_first(tile, team, sub);
        v_read(w, slot, tile, token, slice, plain, &v[sub], lane);
        if (!plain)
            zero_unseen(&v[sub], token, w->begin, w->end, lane);
    }
    pipe_release(ring, lane);
    trace_enter(c->trace, TRACE_other);
}

/* Scale the scores of all steps of this warp, and mask what is not seen. */
DEV void see_scores(const struct view *w, struct scores s[SUBS], int tile, int team, bool plain,
                    int lane) {
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++) {
        scale_scores(&s[sub], &w->scale);
        if (!plain)
            mask_scores(&s[sub], &w->seen, step_first(tile, team, sub), w->begin, w->end, lane);
    }
}

/* One tile, where the rings stand. */
DEV void attend_tile(const struct cta *c, const struct view *w, const struct q_frag *q,
                     struct softmax *x, struct pipes *in, int tile, int turn, int team, int slice,
                     bool plain, int lane) {
    struct scores s[SUBS];
    uint32_t weights[SUBS][BLOCKS][2];
    struct v_frag v[SUBS];
    const uint32_t slot = smem_addr(c->smem->k[in->k.slot]);
    trace_enter(c->trace, TRACE_wait_K);
    pipe_wait(&in->k);
    trace_enter(c->trace, TRACE_QK_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        s[sub] = score_step(w, q, c->smem->q, slot, tile, step_first(tile, team, sub), slice, plain,
                            lane);
    if (SLICES == 1)
        see_scores(w, s, tile, team, plain, lane);
    pipe_release(&in->k, lane);
    if (SLICES > 1) {
        add_partner(c, &s[0], turn, team, slice, lane);
        see_scores(w, s, tile, team, plain, lane);
    }
    if (EARLY_V)
        v_take(c, w, &in->v, tile, team, slice, plain, v, lane);
    trace_enter(c->trace, TRACE_softmax_local_max);
    softmax_raise(x, s, SUBS, lane);
    trace_enter(c->trace, TRACE_softmax_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        softmax_weights(x, &s[sub], weights[sub]);
    if (!EARLY_V)
        v_take(c, w, &in->v, tile, team, slice, plain, v, lane);
    trace_enter(c->trace, TRACE_PV_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        accumulate(x, &v[sub], weights[sub]);
    trace_enter(c->trace, TRACE_other);
}

/* The tiles of one part, those of this group: `turn` counts all tiles of the CTA. A warp without a
 * token in the last tile still computes, on masked scores: branches cost more. */
DEV void attend_tiles(const struct cta *c, const struct view *w, const struct q_frag *q,
                      struct softmax *x, struct pipes *in, int *turn, int warp, int lane) {
    const int group = warp / GROUP_WARPS, in_group = warp % GROUP_WARPS;
    const int team = in_group / SLICES, slice = in_group % SLICES;
    for (int tile = w->begin / STEP * STEP; tile < w->end; tile += TILE, (*turn)++) {
        if (*turn % GROUPS == group) {
            trace_tile(c->trace, (tile - w->begin / STEP * STEP) / TILE);
            if (w->wide && tile >= w->full_begin && tile + TILE <= w->full_end)
                attend_tile(c, w, q, x, in, tile, *turn, team, slice, true, lane);
            else
                attend_tile(c, w, q, x, in, tile, *turn, team, slice, false, lane);
        }
        pipe_next(&in->k);
        pipe_next(&in->v);
    }
}

DEV void finish(const struct cta *c, const struct unit *u, const struct part *p,
                const struct place *to, int teams) {
    const struct gqa_args *a = c->args;
    struct smem *s = c->smem;
    trace_enter(c->trace, a->finish >= GQA_FINISH_ATOMIC               ? TRACE_cluster_merge
                          : a->finish == GQA_FINISH_OUTPUT || p->whole ? TRACE_output_store
                                                                       : TRACE_partial_store);
    if (a->finish >= GQA_FINISH_CLUSTER)
        finish_cluster(a, u, to, &s->merge, teams, &s->inbox, c->trace, threadIdx.x,
                       ATTEND_THREADS);
    else if (a->finish == GQA_FINISH_ATOMIC)
        finish_atomic(a, u, to, &s->merge, teams, &s->inbox, threadIdx.x, ATTEND_THREADS);
    else
        finish_cta(a, u, p, to, &s->merge, teams, threadIdx.x, ATTEND_THREADS);
}

/* The part's queries: to registers, or to shared memory with the warps sharing the work. */
DEV void q_take(const struct cta *c, const struct q_rows *rows, int slice, struct q_frag *q,
                int warp, int lane) {
    if (!Q_IN_SMEM) {
        *q = q_load(c->args, rows, slice, lane);
        return;
    }
    q_prepare(c->args, rows, c->smem->q, warp, ATTEND_WARPS, lane);
    barrier_sync(BAR_ATTEND, ATTEND_THREADS);
}

/* Role: the attend warps compute every part and write what came out. */
DEV void attend(const struct cta *c, struct pipes in, int warp, int lane) {
    const struct gqa_args *a = c->args;
    const int team = warp / SLICES, slice = warp % SLICES;
    struct walk walk = walk_begin(a);
    struct unit u;
    struct part p;
    int turn = 0;
    for (int parts = 0; walk_next(a, &walk, &u, &p); parts++) {
        struct softmax x;
        struct q_frag q;
        softmax_init(&x);
        const struct q_rows rows = q_rows_of(a, &u, lane);
        const struct place to = place_of(a, &u);
        struct view w = view_of(a, &u, &p, lane);
        if (a->finish >= GQA_FINISH_ATOMIC)
            cluster_begin(a, &c->smem->inbox, threadIdx.x);
        trace_enter(c->trace, TRACE_griddepcontrol_wait);
        pdl_wait();
        trace_enter(c->trace, TRACE_load_Q);
        w.scale = score_scale_of(a, &u);
        q_take(c, &rows, slice, &q, warp, lane);
        const int first_turn = turn;
        attend_tiles(c, &w, &q, &x, &in, &turn, warp, lane);
        trace_enter(c->trace, TRACE_merge_store);
        /* The group that takes this part's first tile comes first. */
        const int store_team = (team + TEAMS - first_turn % GROUPS * GROUP_TEAMS) % TEAMS;
        if (parts)
            barrier_sync(BAR_ATTEND, ATTEND_THREADS); /* the last part's have been read */
        /* Groups without a tile have nothing to say; of empty parts the first says so. */
        const int groups = GROUPS == 1 || p.end - w.begin / STEP * STEP > TILE ? GROUPS : 1;
        if (store_team / GROUP_TEAMS < groups)
            softmax_store(&x, smem_addr(c->smem->merge.o[store_team]), HEAD_DIM, slice * SLICE_DIM,
                          smem_addr(c->smem->merge.ml[store_team]), lane);
        trace_enter(c->trace, TRACE_wait_merge);
        barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        finish(c, &u, &p, &to, groups * GROUP_TEAMS);
        trace_enter(c->trace, TRACE_other);
    }
}

/* --- The kernel --- */

/* Parameters are cold in every launch's constant cache: fetch all lines at once, while nothing
 * waits for them. */
DEV void args_touch(const struct gqa_args *a) {
    const int *words = (const int *)a;
#pragma unroll
    for (int i = offsetof(struct gqa_args, q) / 4; i < (int)sizeof *a / 4; i += 16)
        asm volatile("" ::"r"(words[i]));
}

DEV void init_barriers(struct smem *s, int loaders) {
    for (int i = 0; i < DEPTH; i++) {
        mbarrier_init(smem_addr(&s->k_full[i]), loaders);
        mbarrier_init(smem_addr(&s->v_full[i]), loaders);
        mbarrier_init(smem_addr(&s->k_empty[i]), GROUP_WARPS);
        mbarrier_init(smem_addr(&s->v_empty[i]), GROUP_WARPS);
    }
    mbarrier_init(smem_addr(&s->inbox.full), 1);
    fence_mbarrier_init();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(128) unsigned char raw[];
    struct smem *smem = (struct smem *)raw;
    static_assert(sizeof(struct smem) <= GQA_SMEM_sm90(KV_BYTES, HEAD_DIM, ROWS), "shape.h");
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    struct trace trace =
        trace_open(&args, TRACE_DECODE, warp < ATTEND_WARPS ? TRACE_ROLE_attend : TRACE_ROLE_load);
    const struct cta c = {&args, smem, &trace};
    const uint32_t k_full = smem_addr(smem->k_full), k_empty = smem_addr(smem->k_empty);
    const uint32_t v_full = smem_addr(smem->v_full), v_empty = smem_addr(smem->v_empty);

    trace_enter(&trace, TRACE_producer_trigger);
    pdl_launch_dependents();
    trace_enter(&trace, TRACE_prologue);
    if (warp == LOAD_K_WARP) {
        if (lane == 0)
            init_barriers(smem, args.by_rows ? 32 : 1);
        __syncwarp();
    }
    if (args.finish >= GQA_FINISH_ATOMIC)
        barrier_cluster_arrive_relaxed();
    if (warp < ATTEND_WARPS)
        args_touch(&args);
    trace_enter(&trace, TRACE_wait_start);
    barrier_sync(BAR_INIT, THREADS);
    trace_enter(&trace, TRACE_plan_work);
    if (warp == LOAD_K_WARP) {
        load(&c, pipe_producer(k_full, k_empty, DEPTH), true, lane);
    } else if (warp == LOAD_V_WARP) {
        load(&c, pipe_producer(v_full, v_empty, DEPTH), false, lane);
    } else {
        const struct pipes in = {pipe_consumer(k_full, k_empty, DEPTH),
                                 pipe_consumer(v_full, v_empty, DEPTH)};
        attend(&c, in, warp, lane);
    }
    trace_close(&trace);
}
