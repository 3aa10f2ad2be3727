/* SPDX-License-Identifier: Apache-2.0
 * Hopper, long KV: one persistent CTA per SM, a ring of bulk copies, warp specialisation.
 *
 *   load warp --cp.async.bulk--> ring of K and V tiles --LDS.128--> attend warps --mma.sync--> O^T
 *
 * The load warp runs ahead through all parts of the CTA's share, so the copy engine never waits
 * for a merge. Tiles are copied as they lie in memory, by runs: a whole tile where tokens are
 * adjacent, else one run per page, else one per token; rows keep their pitch and no tensor map is
 * needed (linear copies stream 9 to 12 % faster than boxes here). Attend warps take 16 tokens of a
 * tile each and keep their own softmax state; they meet once per part.
 *
 * Ceiling: 2 * head_dim * KV_BYTES bytes per token and KV head, once per row tile; 132 SMs stream
 * 4.6 TB/s (35 GB/s each, 20 bytes per clock). STAGES slots of about 16 KB cover the latency.
 *
 * Signal map (arrivals per phase)
 *   load --kv.full (1 + tx bytes)--> attend    the slot holds the part's rows of a K or V tile
 *   load <--kv.empty (ATTEND_WARPS)- attend    every attend warp has read the slot
 *   BAR_ATTEND (ATTEND_THREADS)                warps' results are stored; or have been read
 *   barrier.cluster                            0: all CTAs have started; 1: all have pushed */
#define GQA_WARPS GQA_ATTEND_WARPS_sm90(GQA_KV >= GQA_KV_e4m3 ? 1 : 2, GQA_HEAD_DIM, GQA_GROUP)

#include "args.h"
#include "shape.h"
#include "finish_sm90.cuh"
#include "pipe.cuh"

enum {
    ATTEND_WARPS = GQA_WARPS,
    ATTEND_THREADS = 32 * ATTEND_WARPS,
    LOAD_WARP = ATTEND_WARPS,
    THREADS = ATTEND_THREADS + 32,
    TILE = GQA_TILE_sm90(KV_BYTES, HEAD_DIM, ROWS), /* tokens */
    TILE_BYTES = TILE * HEAD_DIM * KV_BYTES,
    STAGES = GQA_STAGES_sm90(KV_BYTES, HEAD_DIM, ROWS),
    SUBS = TILE / (STEP * TEAMS), /* steps of a warp per tile */
    BAR_ATTEND = 1,
};

static_assert(SUBS >= 1 && TILE % (STEP * TEAMS) == 0, "teams share a tile evenly");

struct smem {
    alignas(128) unsigned char kv[STAGES][TILE_BYTES];
    struct merge_smem merge;
    struct inbox inbox;
    struct q_smem q[Q_IN_SMEM]; /* written and read by attend warps between BAR_ATTENDs */
    alignas(8) uint64_t full[STAGES], empty[STAGES];
};

struct cta {
    const struct gqa_args *args;
    struct smem *smem;
};

/* The parts of this CTA, one after the other; every warp walks them by itself. */
struct walk {
    struct share share;
    int single; /* 1: one part is to come; 0: it has been; -1: a share */
};

DEV struct walk walk_begin(const struct gqa_args *a) {
    struct walk w;
    w.single = a->schedule == GQA_SCHED_SHARES ? -1 : 1;
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
    const int index = blockIdx.x / a->splits, s = blockIdx.x - index * a->splits;
    int g0, g1;
    *u = unit_of_index(a, index);
    const int some = split_grains(a, u, s, &g0, &g1) && u->row_tile * ROWS < unit_rows(a, u);
    *p = part_of_grains(a, u, ROWS, g0, g1, blockIdx.x);
    return some || a->finish >= GQA_FINISH_ATOMIC;
}

/* --- Load --- */

/* Where rows of K or of V come from. */
struct source {
    const char *base; /* of the KV head in cache entry or page 0 */
    int64_t batch_bytes, token_bytes;
    int row_bytes;
    const int32_t *pages;
    int page_size; /* tokens per run that is adjacent in memory; 1: none is */
    int adjacent;
};

DEV struct source source_of(const struct gqa_args *a, const struct unit *u, const void *base,
                            const struct gqa_arg_strides *s, int dim) {
    struct source x;
    x.batch_bytes = s->batch * KV_BYTES;
    x.token_bytes = s->token * KV_BYTES;
    x.row_bytes = dim * KV_BYTES;
    x.base = (const char *)base + u->kv_head * s->head * KV_BYTES;
    x.pages = a->pages;
    x.page_size = a->page_size;
    x.adjacent = s->token == dim;
    if (a->pages)
        x.pages += a->page_indptr ? a->page_indptr[u->entry] : u->entry * a->page_stride;
    else
        x.base += u->entry * x.batch_bytes;
    return x;
}

/* Tokens [begin, end) into a slot, token `tile` at its start. All 32 lanes share the runs. */
DEV void copy_rows(const struct source *s, int tile, int begin, int end, uint32_t slot,
                   uint32_t full, int lane) {
    if (!s->pages && s->adjacent) {
        if (lane == 0)
            cp_async_bulk_g2s(slot + (begin - tile) * s->row_bytes,
                              s->base + begin * s->token_bytes, (end - begin) * s->row_bytes, full);
        return;
    }
    const int run = s->adjacent ? s->page_size : 1;
    for (int i = begin / run + lane; i * run < end; i += 32) {
        const int from = max_int(begin, i * run), to = min_int(end, i * run + run);
        const char *at = s->base;
        if (s->pages) {
            const int page = from / s->page_size;
            at += s->pages[page] * s->batch_bytes + (from - page * s->page_size) * s->token_bytes;
        } else {
            at += from * s->token_bytes;
        }
        cp_async_bulk_g2s(slot + (from - tile) * s->row_bytes, at, (to - from) * s->row_bytes,
                          full);
    }
}

/* One K or V tile of the part. */
DEV void load_tile(const struct cta *c, const struct source *s, const struct pipe *kv, int tile,
                   const struct part *p, int lane) {
    const int begin = max_int(tile, p->begin), end = min_int(tile + TILE, p->end);
    pipe_acquire(kv);
    if (lane == 0)
        mbarrier_arrive_expect_tx(pipe_full(kv), (end - begin) * s->row_bytes);
    __syncwarp();
    copy_rows(s, tile, begin, end, smem_addr(c->smem->kv[kv->slot]), pipe_full(kv), lane);
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
        for (int tile = p.begin / STEP * STEP; tile < p.end; tile += TILE) {
            load_tile(c, &k, &kv, tile, &p, lane);
            pipe_next(&kv);
            load_tile(c, &v, &kv, tile, &p, lane);
            pipe_next(&kv);
        }
    }
}

/* --- Attend --- */

/* What an attend warp knows of its part. */
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
    v.scale = score_scale_of(a, u);
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

DEV void v_read(const struct view *w, uint32_t slot, int tile, int token, int slice,
                struct v_frag *v, int lane) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int at = token + 8 * (j / 2) + 2 * (lane % 4) + j % 2;
        const uint32_t row = slot + slot_row(w, tile, at) * w->v_bytes;
#pragma unroll
        for (int c = 0; c < V_LOADS; c++) {
            const int d = slice * SLICE_DIM + (8 * c + lane / 4) * V_CHUNK;
            const uint32_t from = row + d * KV_BYTES;
            if (d >= w->v_dim)
                v->w[j][c].w[0] = v->w[j][c].w[1] = v->w[j][c].w[2] = v->w[j][c].w[3] = 0;
            else
                v->w[j][c] = V_CHUNK * KV_BYTES == 16 ? ld_shared_v4(from) : ld_shared_v2(from);
        }
    }
}

DEV bool is_full(const struct view *w, int token) {
    return token >= w->full_begin && token + STEP <= w->full_end;
}

/* Scores of one step, scaled and masked. */
DEV void score_step(const struct cta *c, const struct view *w, struct q_frag *q, uint32_t slot,
                    int tile, int token, float s[M_TILES][2][4], int lane) {
    struct k_frag k;
    score_init(s);
#pragma unroll
    for (int block = 0; block < SLICES; block++) {
        if (Q_IN_SMEM)
            q_fetch(c->smem->q, block, q, lane);
        k_read(w, slot, tile, token, block, &k, lane);
        score(q, &k, s);
    }
    scale_scores(s, &w->scale);
    if (!is_full(w, token))
        mask_scores(s, &w->seen, token, w->begin, w->end, lane);
}

/* The tiles of one part. */
DEV void attend_tiles(const struct cta *c, const struct view *w, struct q_frag *q,
                      struct softmax *x, struct pipe *kv, int team, int slice, int lane) {
    for (int tile = w->begin / STEP * STEP; tile < w->end; tile += TILE) {
        uint32_t weights[SUBS][BLOCKS][2];
        const int first = tile + team * STEP;
        uint32_t slot = smem_addr(c->smem->kv[kv->slot]);
        pipe_wait(kv);
#pragma unroll
        for (int sub = 0; sub < SUBS; sub++) {
            const int token = first + sub * TEAMS * STEP;
            if (token < w->end) {
                float s[M_TILES][2][4];
                score_step(c, w, q, slot, tile, token, s, lane);
                softmax_step(x, s, weights[sub], lane);
            }
        }
        pipe_release(kv, lane);
        pipe_next(kv);
        slot = smem_addr(c->smem->kv[kv->slot]);
        pipe_wait(kv);
#pragma unroll
        for (int sub = 0; sub < SUBS; sub++) {
            const int token = first + sub * TEAMS * STEP;
            if (token < w->end) {
                struct v_frag v;
                v_read(w, slot, tile, token, slice, &v, lane);
                if (!is_full(w, token))
                    zero_unseen(&v, token, w->begin, w->end, lane);
                accumulate(x, &v, weights[sub]);
            }
        }
        pipe_release(kv, lane);
        pipe_next(kv);
    }
}

DEV void finish(const struct cta *c, const struct unit *u, const struct part *p) {
    const struct gqa_args *a = c->args;
    struct smem *s = c->smem;
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
    while (walk_next(a, &walk, &u, &p)) {
        struct softmax x;
        struct q_frag q;
        softmax_init(&x);
        q_prepare(a, &u, c->smem->q, &q, warp, lane);
        if (Q_IN_SMEM)
            barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        const struct view w = view_of(a, &u, &p, lane);
        attend_tiles(c, &w, &q, &x, &kv, team, slice, lane);
        softmax_store(&x, smem_addr(&c->smem->merge.o[team][0][slice * SLICE_DIM]), PITCH,
                      smem_addr(c->smem->merge.ml[team]), lane);
        barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        finish(c, &u, &p);
        barrier_sync(BAR_ATTEND, ATTEND_THREADS);
    }
}

/* --- The kernel --- */

DEV void init_barriers(struct smem *s) {
    for (int i = 0; i < STAGES; i++) {
        mbarrier_init(smem_addr(&s->full[i]), 1);
        mbarrier_init(smem_addr(&s->empty[i]), ATTEND_WARPS);
    }
    fence_mbarrier_init();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(128) unsigned char raw[];
    struct smem *smem = (struct smem *)raw;
    static_assert(sizeof(struct smem) <= GQA_SMEM_sm90(KV_BYTES, HEAD_DIM, ROWS), "shape.h");
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct cta c = {&args, smem};
    const bool in_cluster = args.finish >= GQA_FINISH_ATOMIC;
    const uint32_t full = smem_addr(smem->full), empty = smem_addr(smem->empty);

    if (in_cluster)
        barrier_cluster_arrive_relaxed();
    pdl_launch_dependents();
    if (threadIdx.x == 0)
        init_barriers(smem);
    __syncthreads();
    pdl_wait();
    if (warp == LOAD_WARP) {
        load(&c, pipe_producer(full, empty, STAGES), lane);
        if (in_cluster) {
            barrier_cluster_wait();
            barrier_cluster_arrive();
            barrier_cluster_wait();
        }
    } else {
        attend(&c, pipe_consumer(full, empty, STAGES), warp, lane);
    }
}
