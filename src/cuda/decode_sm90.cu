/* SPDX-License-Identifier: Apache-2.0
 * Hopper: one persistent CTA per SM, rings of bulk copies, warp specialisation.
 *
 *   load warp K --cp.async.bulk--> ring of K tiles --LDS.128--> attend warps --mma.sync--> S, P
 *   load warp V --cp.async.bulk--> ring of V tiles --LDS.64---> attend warps --mma.sync--> O^T
 *
 * Loading warps run ahead through all parts of the CTA's share, so the copy engine never waits
 * for a merge. Tiles are copied as they lie in memory, by runs: a whole tile where tokens are
 * adjacent, else one run per page; rows keep their pitch and no tensor map is needed (linear copies
 * stream 9 to 12 % faster than boxes here). Where runs are short, lanes copy 16 bytes each. Groups
 * of attend warps take tiles in turn, so that one computes while another waits, and meet once per
 * part.
 *
 * Within a group weights are exchanged, not accumulators. Each of its four warps scores a quarter
 * of the tile's tokens and leaves their weights in shared memory; then each reads all of them and
 * weights its own quarter of V's columns. So a group has one accumulator, a quarter in each warp:
 * two groups to merge, not eight warps, and registers to spare. A group's warps know the same
 * running maxima; they are raised together, when one of them votes for it at the barrier that the
 * exchange needs anyway: rarely (MAX_SLACK), but in a part's first tile.
 *
 * Rows lie a multiple of 128 bytes apart, so tokens differ in no bank; the lanes that load V
 * together want 32 neighbouring bytes of four tokens. V's quarters are therefore copied 32 bytes
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
 *   BAR_WEIGHTS + group (32 GROUP_WARPS)   the tile's weights are in shared memory, or maxima;
 * votes BAR_ATTEND (ATTEND_THREADS)     Q is in shared memory, or groups' results are; or have been
 * read barrier.cluster                                   all CTAs have started CTAs --inbox.full (1
 * + tx bytes)--> CTA           finish_sm90.cuh */
#include "decode_sm90.cuh"
#include "decode_sm90_load.cuh"

/* --- Attend --- */

/* What an attend warp knows of its part; view_of leaves out the scale, which may be in memory. */
struct view {
    struct score_scale scale;
    struct visible seen;
    int begin, end;           /* of the part */
    int full_begin, full_end; /* no masks inside */
    int k_bytes, v_bytes;     /* a row's */
    int k_dim, v_dim;
    bool wide;       /* heads are as wide as the kernel's */
    int group, warp; /* and the warp's place: of its group */
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
    return bytes == 16  ? ld_shared_v4(at)
           : bytes == 8 ? ld_shared_v2(at)
           : bytes == 4 ? ld_shared_u32(at)
                        : ld_shared_u16(at);
}

/* K of the step whose first token is `token`. `plain`: all rows are in the slot and as wide as the
 * kernel's, so that addresses differ by constants. */
DEV void k_read(const struct view *w, uint32_t slot, int tile, int token, bool plain,
                struct k_frag *k, int lane) {
    const int first = k_column(0, lane);
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

/* This warp's columns of V, of the step whose first token is `token`. */
DEV void v_read(const struct view *w, uint32_t slot, int tile, int token, bool plain,
                struct v_frag *v, int lane) {
    const int first = w->warp * V_DIM + v_column(0, lane / 4);
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

/* First token of a tile's step: it takes four tokens of each quarter. */
DEV int step_first(int tile, int step) {
    return tile + 4 * step;
}

/* Scores of one step, scaled and masked. */
DEV struct scores score_step(const struct view *w, const struct q_frag *q,
                             const struct q_smem *q_smem, uint32_t slot, int tile, int step,
                             bool plain, int lane) {
    const int token = step_first(tile, step);
    struct k_frag k;
    struct products x;
    products_init(&x);
    k_read(w, slot, tile, token, plain, &k, lane);
    if (Q_IN_SMEM)
        score_from_smem(q_smem, 0, &k, &x, lane);
    else
        score(q, &k, &x);
    struct scores y = scores_of(&x);
    scale_scores(&y, &w->scale);
    if (!plain)
        mask_scores(&y, &w->seen, token, w->begin, w->end, lane);
    return y;
}

/* V's ring stands where K's does; its barriers follow those of K (struct smem). */
DEV struct pipe v_ring(const struct pipe *k) {
    struct pipe v = *k;
    v.full += offsetof(struct smem, v_full) - offsetof(struct smem, k_full);
    v.empty += offsetof(struct smem, v_empty) - offsetof(struct smem, k_empty);
    return v;
}

/* V's part of some steps of a tile. */
DEV void v_take(const struct cta *c, const struct view *w, const struct pipe *ring, int tile,
                int step, int steps, bool plain, struct v_frag *v, int lane) {
#pragma unroll
    for (int i = 0; i < steps; i++) {
        const int token = step_first(tile, step + i);
        v_read(w, smem_addr(c->smem->v[ring->slot]), tile, token, plain, &v[i], lane);
        if (!plain)
            zero_unseen(&v[i], token, w->begin, w->end, lane);
    }
}

DEV void weights_store(uint32_t weights[STEPS][BLOCKS][32][2], int step,
                       const uint32_t p[BLOCKS][2], int lane) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        st_shared_v2_u32(smem_addr(weights[step][i][lane]), p[i][0], p[i][1]);
}

DEV void weights_fetch(uint32_t weights[STEPS][BLOCKS][32][2], int step, uint32_t p[BLOCKS][2],
                       int lane) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const struct u32x4 x = ld_shared_v2(smem_addr(weights[step][i][lane]));
        p[i][0] = x.w[0];
        p[i][1] = x.w[1];
    }
}

/* The warps of a group meet. Barriers by constant numbers: the kernel then holds four, not all. */
DEV void group_sync(int group) {
    if (GROUPS == 1 || group == 0)
        barrier_sync(BAR_WEIGHTS, 32 * GROUP_WARPS);
    else
        barrier_sync(BAR_WEIGHTS + 1, 32 * GROUP_WARPS);
}

/* The same; does one of their threads say so? */
DEV bool group_or(int group, bool x) {
    return GROUPS == 1 || group == 0 ? barrier_or(BAR_WEIGHTS, 32 * GROUP_WARPS, x)
                                     : barrier_or(BAR_WEIGHTS + 1, 32 * GROUP_WARPS, x);
}

/* The maxima of all warps' steps join the running ones, in all warps alike. */
DEV void raise_together(const struct cta *c, const struct view *w, struct softmax *x,
                        const struct scores *y, int lane) {
    float top[BLOCKS];
    trace_enter(c->trace, TRACE_softmax_local_max);
    scores_top(y, SUBS, top);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        if (lane % 4 == 0)
            c->smem->top[w->group][8 * i + lane / 4][w->warp] = top[i];
    trace_enter(c->trace, TRACE_wait_warps);
    group_sync(w->group);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const float4 all = *(const float4 *)c->smem->top[w->group][8 * i + lane / 4];
        top[i] = fmaxf(fmaxf(all.x, all.y), fmaxf(all.z, all.w));
    }
    softmax_rescale(x, top, lane);
}

/* This warp's scores of a tile -> weights, all warps' in shared memory. `first`: of the part. */
DEV void exchange(const struct cta *c, const struct view *w, struct softmax *x,
                  const struct scores y[SUBS], uint32_t weights[STEPS][BLOCKS][32][2], bool first,
                  int lane) {
    float sums[BLOCKS];
    if (first)
        raise_together(c, w, x, y, lane);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        sums[i] = x->sum[i];
    for (bool raised = first;; raised = true) {
        trace_enter(c->trace, TRACE_softmax_math);
#pragma unroll
        for (int sub = 0; sub < SUBS; sub++) {
            uint32_t p[BLOCKS][2];
            softmax_weights(x, &y[sub], p);
            weights_store(weights, w->warp + sub * GROUP_WARPS, p, lane);
        }
        trace_enter(c->trace, TRACE_wait_weights);
        if (raised) {
            group_sync(w->group);
            return;
        }
        if (!group_or(w->group, scores_exceed(x, y, SUBS)))
            return;
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
            x->sum[i] = sums[i];
        raise_together(c, w, x, y, lane);
    }
}

/* One tile, where the rings stand; `count` of this group's. */
DEV void attend_tile(const struct cta *c, const struct view *w, const struct q_frag *q,
                     struct softmax *x, const struct pipe *k_ring, int tile, int count, bool first,
                     bool plain, int lane) {
    struct scores y[SUBS];
    struct v_frag v[STEPS];
    uint32_t(*weights)[BLOCKS][32][2] = c->smem->weights[w->group][count % 2];
    const struct pipe v_pipe = v_ring(k_ring);
    trace_enter(c->trace, TRACE_wait_K);
    pipe_wait(k_ring);
    trace_enter(c->trace, TRACE_QK_math);
#pragma unroll
    for (int sub = 0; sub < SUBS; sub++)
        y[sub] = score_step(w, q, c->smem->q, smem_addr(c->smem->k[k_ring->slot]), tile,
                            w->warp + sub * GROUP_WARPS, plain, lane);
    pipe_release(k_ring, lane);
    if (EARLY_V) {
        trace_enter(c->trace, TRACE_wait_V);
        pipe_wait(&v_pipe);
        trace_enter(c->trace, TRACE_read_V);
        v_take(c, w, &v_pipe, tile, 0, STEPS, plain, v, lane);
        pipe_release(&v_pipe, lane);
    }
    exchange(c, w, x, y, weights, first, lane);
    if (!EARLY_V) {
        trace_enter(c->trace, TRACE_wait_V);
        pipe_wait(&v_pipe);
    }
    trace_enter(c->trace, TRACE_PV_math);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        uint32_t p[BLOCKS][2];
        weights_fetch(weights, step, p, lane);
        if (!EARLY_V)
            v_take(c, w, &v_pipe, tile, step, 1, plain, &v[step], lane);
        accumulate(x, &v[step], p, step);
    }
    if (!EARLY_V)
        pipe_release(&v_pipe, lane);
    trace_enter(c->trace, TRACE_other);
}

/* The tiles of one part, those of this group: `turn` counts all tiles of the CTA. A warp without a
 * token in the last tile still computes, on masked scores: branches cost more. */
DEV void attend_tiles(const struct cta *c, const struct view *w, const struct q_frag *q,
                      struct softmax *x, struct pipe *in, int *turn, int lane) {
    const int begin = w->begin / STEP * STEP;
    for (int tile = begin; tile < w->end; tile += TILE, (*turn)++) {
        if (*turn % GROUPS == w->group) {
            const int count = *turn / GROUPS;
            const bool first = tile - begin < GROUPS * TILE;
            trace_tile(c->trace, (tile - begin) / TILE);
            if (w->wide && tile >= w->full_begin && tile + TILE <= w->full_end)
                attend_tile(c, w, q, x, in, tile, count, first, true, lane);
            else
                attend_tile(c, w, q, x, in, tile, count, first, false, lane);
        }
        pipe_next(in);
    }
    chains_join(x);
}

DEV void finish(const struct cta *c, const struct unit *u, const struct part *p,
                const struct post *post, const struct place *to, int teams) {
    const struct gqa_args *a = c->args;
    struct smem *s = c->smem;
    trace_enter(c->trace, a->finish >= GQA_FINISH_ATOMIC               ? TRACE_cluster_merge
                          : a->finish == GQA_FINISH_OUTPUT || p->whole ? TRACE_output_store
                                                                       : TRACE_partial_store);
    if (a->finish == GQA_FINISH_CLUSTER)
        finish_cluster(a, u, to, &s->merge, teams, &s->inbox, c->trace, threadIdx.x,
                       ATTEND_THREADS);
    else if (a->finish == GQA_FINISH_GRID)
        finish_grid(a, u, post, to, &s->merge, teams, &s->inbox, c->trace, threadIdx.x,
                    ATTEND_THREADS);
    else if (a->finish == GQA_FINISH_ATOMIC)
        finish_atomic(a, u, to, &s->merge, teams, &s->inbox, threadIdx.x, ATTEND_THREADS);
    else
        finish_cta(a, u, p, to, &s->merge, teams, threadIdx.x, ATTEND_THREADS);
}

/* The part's queries: to registers, or to shared memory with the warps sharing the work. */
DEV void q_take(const struct cta *c, const struct q_rows *rows, struct q_frag *q, int warp,
                int lane) {
    if (!Q_IN_SMEM) {
        *q = q_load(c->args, rows, 0, lane);
        return;
    }
    q_prepare(c->args, rows, c->smem->q, warp, ATTEND_WARPS, lane);
    barrier_sync(BAR_ATTEND, ATTEND_THREADS);
}

/* walk_next for an attend warp. All 32 lanes. */
DEV int walk_on(const struct cta *c, struct walk *w, struct unit *u, struct part *p,
                struct post *post, int warp, int lane) {
    if (!WALK_IN_SMEM)
        return walk_next(c->args, w, u, p, post);
    struct walk now = c->smem->walk[warp];
    const int some = walk_next(c->args, &now, u, p, post);
    __syncwarp();
    if (lane == 0)
        c->smem->walk[warp] = now;
    __syncwarp();
    return some;
}

/* Role: the attend warps compute every part and write what came out. */
DEV void attend(const struct cta *c, struct pipe in, int warp, int lane) {
    const struct gqa_args *a = c->args;
    const int group = warp / GROUP_WARPS, in_group = warp % GROUP_WARPS;
    struct walk walk = walk_begin(a);
    if (WALK_IN_SMEM && lane == 0)
        c->smem->walk[warp] = walk;
    __syncwarp();
    struct unit u;
    struct part p;
    int turn = 0;
    struct post post;
    for (int parts = 0; walk_on(c, &walk, &u, &p, &post, warp, lane); parts++) {
        struct softmax x;
        struct q_frag q;
        softmax_init(&x);
        const struct q_rows rows = q_rows_of(a, &u, lane);
        const struct place to = place_of(a, &u);
        struct view w = view_of(a, &u, &p, lane);
        w.group = group;
        w.warp = in_group;
        if (a->finish >= GQA_FINISH_ATOMIC && parts == 0)
            cluster_begin(a, &c->smem->inbox, threadIdx.x);
        trace_enter(c->trace, TRACE_griddepcontrol_wait);
        pdl_wait();
        trace_enter(c->trace, TRACE_load_Q);
        w.scale = score_scale_of(a, &u);
        q_take(c, &rows, &q, warp, lane);
        const int first_turn = turn;
        attend_tiles(c, &w, &q, &x, &in, &turn, lane);
        trace_enter(c->trace, TRACE_merge_store);
        /* The group that takes this part's first tile comes first. */
        const int team = (group + GROUPS - first_turn % GROUPS) % GROUPS;
        if (parts)
            barrier_sync(BAR_ATTEND, ATTEND_THREADS); /* the last part's have been read */
        /* Groups without a tile have nothing to say; of empty parts the first says so. */
        const int groups = GROUPS == 1 || p.end - w.begin / STEP * STEP > TILE ? GROUPS : 1;
        if (team < groups)
            softmax_store(&x, &c->smem->merge, team, in_group * V_DIM, in_group, lane);
        trace_enter(c->trace, TRACE_wait_merge);
        barrier_sync(BAR_ATTEND, ATTEND_THREADS);
        finish(c, &u, &p, &post, &to, groups);
        trace_enter(c->trace, TRACE_other);
    }
    if (a->early) /* kernels that wait for this one wait for those before it, had it parts or not */
        pdl_wait();
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
    if (args.cluster > 1)
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
        attend(&c, pipe_consumer(k_full, k_empty, DEPTH), warp, lane);
    }
    trace_close(&trace);
}
