/* SPDX-License-Identifier: Apache-2.0
 * Role: a warpgroup turns scores into weights. Thread t holds the scores of token t of each
 * half of the tile for all rows. The row maxima are common to the warpgroup, because all its tokens
 * are summed into one accumulator, but they need not be exact: a weight may reach 2^8. So a tile
 * costs one barrier with a vote ("does any score exceed its maximum by too much?"), nearly always
 * "no"; only after a "yes" are maxima exchanged and O rescaled, here, between two weighted sums. */
#ifndef GQA_DECODE_SM100_SOFTMAX_CUH
#define GQA_DECODE_SM100_SOFTMAX_CUH

#include "decode_sm100.cuh"

enum { SOFTMAX_THREADS = 128, BAR_VOTE = 1, BAR_TOP = 2 };

/* A thread's softmax of one part. */
struct softmax {
    float factor;             /* scores -> log2 units, or, if capped, to the cap's argument */
    float cap;                /* log2 units, 0: off */
    bool late;                /* `factor` may wait until the maximum is subtracted */
    float sum[ROWS];          /* of this thread's weights */
    int full_begin, full_end; /* tokens that every row sees */
};

/* --- Scores --- */

DEV float k_scale_of(const struct gqa_args *a, const struct unit *u) {
    if (a->k_scales == GQA_ARG_SCALE_TENSOR)
        return a->k_scale[0];
    if (a->k_scales == GQA_ARG_SCALE_HEAD)
        return a->k_scale[u->kv_head];
    if (a->k_scales == GQA_ARG_SCALE_BATCH_HEAD)
        return a->k_scale[(int64_t)u->sequence * a->kv_heads + u->kv_head];
    return 1.0f;
}

DEV void softmax_begin(const struct cta *c, struct softmax *x, const struct work *w,
                       const struct query_facts *facts) {
    const struct gqa_args *a = c->args;
    const float k_scale = k_scale_of(a, &w->u);
    x->factor = (a->softcap > 0 ? a->scale / a->softcap * (2 * LOG2E) : a->scale_log2) * k_scale;
    x->cap = a->softcap * LOG2E;
    /* Neither zero nor negative, nor is their product: minus infinity stays what it is. */
    x->late = a->scale_log2 > 1e-15f && k_scale > 1e-15f && !(a->softcap > 0);
    x->full_begin = 0;
    x->full_end = w->p.end;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        x->sum[r] = 0;
        x->full_begin = max_int(x->full_begin, facts->begin[r]);
        x->full_end = min_int(x->full_end, facts->end[r]);
    }
}

/* The thread's products of the tile; the slot is free again. Those of a half that the part does not
 * reach are any numbers: they are masked. */
DEV void scores_take(const struct cta *c, const struct pipe *s, const struct query_facts *facts,
                     int halves, float y[SCORES]) {
    const uint32_t at = c->tmem + (c->warp % 4 << 21) + S_COLUMN + s->slot * S_COLUMNS;
    float raw[S_COLUMNS] = {};
    trace_enter(c->trace, TRACE_wait_S);
    pipe_wait(s);
    trace_enter(c->trace, TRACE_read_S);
    tcgen05_fence_after_thread_sync();
    if (halves == HALVES)
        tmem_load(raw, at, S_COLUMNS);
    else
        tmem_load(raw, at, N);
    tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (c->lane == 0)
        pipe_release(s);
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        const int r = i % ROWS, n = i / ROWS * N + r;
        y[i] = KV_IS_FP8
                   ? (raw[n] + raw[(n + ROWS) % S_COLUMNS] * (1 / LOW_SCALE)) * facts->scale[r]
                   : raw[n];
    }
}

/* Products -> log2 units, softly capped if that is asked for. */
DEV void scores_scale(const struct softmax *x, float y[SCORES]) {
#pragma unroll
    for (int i = 0; i < SCORES; i++)
        y[i] *= x->factor;
    if (x->cap > 0) {
#pragma unroll
        for (int i = 0; i < SCORES; i++) /* cap * tanh(z) where y = 2 log2(e) z */
            y[i] = x->cap * (1.0f - 2.0f * rcp_approx_ftz(1.0f + ex2_approx_ftz(y[i])));
    }
}

/* Replace scores of tokens that a row does not see. */
DEV void scores_mask(float y[SCORES], const struct query_facts *facts, int token) {
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        const int r = i % ROWS, at = token + i / ROWS * HALF;
        const bool seen = (at >= facts->begin[r]) & (at < facts->end[r]); /* no branches */
        y[i] = seen ? y[i] : -INFINITY;
    }
}

/* The thread's scores of a tile in log2 units, masked; where `late` allows, before `factor`. */
DEV void tile_scores(const struct cta *c, const struct softmax *x, const struct pipe *s,
                     const struct query_facts *facts, const struct tiles *t, bool late,
                     float y[SCORES]) {
    const int token = tile_token(t);
    trace_tile(c->trace, t->tile);
    scores_take(c, s, facts, tile_halves(t), y);
    if (!late)
        scores_scale(x, y);
    if (token < x->full_begin || token + TILE > x->full_end)
        scores_mask(y, facts, token + threadIdx.x % SOFTMAX_THREADS);
}

/* The larger of the thread's scores of row r. */
DEV float row_most(const float y[SCORES], int r) {
    return HALVES == 1 ? y[r] : fmaxf(y[r], y[SCORES - ROWS + r]);
}

/* Lane r: the warp's maximum of row r in this tile. */
DEV float tile_maximum(const struct cta *c, const float y[SCORES]) {
    float mine = NEG_LARGE;
    trace_enter(c->trace, TRACE_softmax_local_max);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float m = redux_sync_max(row_most(y, r));
        mine = c->lane == r ? m : mine;
    }
    return mine;
}

/* --- Raising maxima --- */

/* New reference maxima, and what everything relative to the old ones is multiplied by. `factor`
 * brings y to log2 units. */
DEV void exchange_tops(const struct cta *c, const float y[SCORES], float factor, bool first) {
    struct side *side = &c->smem->side;
    const float mine = tile_maximum(c, y) * factor;
    if (c->lane < ROWS)
        side->top[c->warp % 4][c->lane] = mine;
    trace_enter(c->trace, TRACE_wait_warps);
    bar_sync(BAR_TOP, SOFTMAX_THREADS);
    trace_enter(c->trace, TRACE_max_publish);
    if (c->warp % 4 == 0 && c->lane < ROWS) {
        const int r = c->lane;
        const float old = first ? NEG_LARGE : side->max[r];
        const float top =
            fmaxf(fmaxf(side->top[0][r], side->top[1][r]), fmaxf(side->top[2][r], side->top[3][r]));
        const float max = fmaxf(old, top - MAX_BIAS);
        side->max[r] = max;
        side->rescale[r] = ex2_approx_ftz(old - max);
    }
    trace_enter(c->trace, TRACE_wait_max);
    bar_sync(BAR_TOP, SOFTMAX_THREADS);
}

/* O *= rescale, row by row. The weighted sum of the tile before has to be complete: its weights'
 * slot is empty again. */
DEV void rescale_output(const struct cta *c, const struct pipe *before, int o_slot) {
    trace_enter(c->trace, TRACE_wait_O);
    mbarrier_wait(pipe_empty(before), before->parity ^ 1);
    trace_enter(c->trace, TRACE_O_rescale);
    tcgen05_fence_after_thread_sync();
    for (int i = 0; i < V_BLOCKS * N; i += 8) {
        const uint32_t at = output_tmem(c, o_slot, i / N, i % N);
        float o[8];
        tmem_load_x8(o, at);
#pragma unroll
        for (int j = 0; j < 8; j++)
            o[j] *= c->smem->side.rescale[i % ROWS + j];
        tcgen05_st_32x32b_x8(at, o);
        tcgen05_wait_st();
    }
    tcgen05_fence_before_thread_sync();
}

DEV void raise_maxima(const struct cta *c, struct softmax *x, const float y[SCORES], float factor,
                      const struct pipe *before, int o_slot, bool first) {
    exchange_tops(c, y, factor, first);
    if (first)
        return;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        x->sum[r] *= c->smem->side.rescale[r];
    rescale_output(c, before, o_slot);
}

/* z = y * factor - maxima, two at a time. */
DEV void relative(const float y[SCORES], float factor, const float max[ROWS], float z[SCORES]) {
    const uint64_t factors = pack_f32x2(factor, factor);
#pragma unroll
    for (int i = 0; i < SCORES; i += 2)
        unpack_f32x2(fma_rn_f32x2(pack_f32x2(y[i], y[i + 1]), factors,
                                  pack_f32x2(-max[i % ROWS], -max[i % ROWS + 1])),
                     &z[i], &z[i + 1]);
}

DEV bool exceeds(const float z[SCORES]) {
    float most = fmaxf(z[0], z[1]);
#pragma unroll
    for (int i = 2; i < SCORES; i += 2)
        most = max_f32(most, z[i], z[i + 1]);
    return most > MAX_LIMIT;
}

/* --- Weights --- */

DEV uint32_t pack_weights(float low, float high) {
    return KV_IS_BF16 ? cvt_rn_bf16x2_f32(low, high) : cvt_rn_f16x2_f32(low, high);
}

/* Four weights as e4m3, and what that leaves, as e4m3 again. */
DEV void split_weights(const float y[4], uint32_t *high, uint32_t *low) {
    uint32_t h[2], l[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        h[i] = cvt_rn_e4m3x2_f32(y[2 * i], y[2 * i + 1]);
        const uint32_t back = cvt_rn_f16x2_e4m3x2(h[i]);
        l[i] = cvt_rn_e4m3x2_f32((y[2 * i] - cvt_f32_f16((uint16_t)back)) * LOW_SCALE,
                                 (y[2 * i + 1] - cvt_f32_f16((uint16_t)(back >> 16))) * LOW_SCALE);
    }
    *high = h[0] | h[1] << 16;
    *low = l[0] | l[1] << 16;
}

/* The thread's row of P: P_ROW bytes, rounded (FP8: in two parts, columns r and ROWS + r). */
DEV void weights_put(uint32_t p_smem, int token, const float y[ROWS]) {
    uint32_t w[P_ROW / 4];
    if (KV_IS_FP8) {
#pragma unroll
        for (int i = 0; i < ROWS / 4; i++)
            split_weights(y + 4 * i, &w[i], &w[ROWS / 4 + i]);
    } else {
#pragma unroll
        for (int i = 0; i < P_ROW / 4; i++)
            w[i] = pack_weights(y[2 * i % ROWS], y[(2 * i + 1) % ROWS]);
    }
#pragma unroll
    for (int i = 0; i < P_ROW / 4; i += 4)
        st_shared_v4(swizzled(p_smem + token * P_ROW + 4 * i, P_SWIZZLE), __uint_as_float(w[i]),
                     __uint_as_float(w[i + 1]), __uint_as_float(w[i + 2]),
                     __uint_as_float(w[i + 3]));
}

/* The thread's weights to the next slot of P. */
DEV void weights_send(const struct cta *c, const struct pipe *p, const float y[SCORES]) {
    trace_enter(c->trace, TRACE_wait_P_slot);
    pipe_acquire(p);
    trace_enter(c->trace, TRACE_P_publish);
#pragma unroll
    for (int half = 0; half < HALVES; half++)
        weights_put(smem_addr(c->smem->side.p[p->slot]),
                    half * HALF + threadIdx.x % SOFTMAX_THREADS, y + half * ROWS);
    fence_proxy_async();
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(p);
}

/* Scores less their maxima -> weights; the sums join after the weights are on their way. */
DEV void weights_publish(const struct cta *c, struct softmax *x, const struct pipe *p,
                         float z[SCORES]) {
    trace_enter(c->trace, TRACE_softmax_math);
#pragma unroll
    for (int i = 0; i < SCORES; i++)
        z[i] = ex2_approx_ftz(z[i]);
    weights_send(c, p, z);
    trace_enter(c->trace, TRACE_softmax_sum);
#pragma unroll
    for (int i = 0; i < SCORES; i += 2) {
        float *sum = &x->sum[i % ROWS];
        unpack_f32x2(add_rn_f32x2(pack_f32x2(sum[0], sum[1]), pack_f32x2(z[i], z[i + 1])), &sum[0],
                     &sum[1]);
    }
}

/* --- A part's statistics --- */

/* Sum x[] over the warp; lane l ends with row l / (32 / ROWS). Each step halves the rows that a
 * lane keeps, so ROWS rows cost about ROWS shuffles. All 32 lanes. */
DEV float warp_row_sum(float x[ROWS], int lane) {
    enum { HALVINGS = ROWS == 8 ? 3 : ROWS == 16 ? 4 : 5 };
#pragma unroll
    for (int k = 0; k < HALVINGS; k++) {
        const int rows = ROWS >> (k + 1), step = 16 >> k;
        const bool upper = lane & step;
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) {
            if (i < rows) {
                const float give = upper ? x[i] : x[i + rows], keep = upper ? x[i + rows] : x[i];
                x[i] = keep + __shfl_xor_sync(0xffffffffu, give, step);
            }
        }
    }
#pragma unroll
    for (int k = HALVINGS; k < 5; k++)
        x[0] += __shfl_xor_sync(0xffffffffu, x[0], 16 >> k);
    return x[0];
}

/* `max` is lane r's row r's reference maximum. */
DEV void stats_put(const struct cta *c, struct softmax *x, float max, const struct pipe *stat) {
    enum { LANES_PER_ROW = 32 / ROWS };
    struct stats *to = &c->smem->side.stats[stat->slot];
    trace_enter(c->trace, TRACE_stats_publish);
    const float sum = warp_row_sum(x->sum, c->lane);
    pipe_acquire(stat);
    if (c->lane % LANES_PER_ROW == 0)
        to->sum[c->warp % 4][c->lane / LANES_PER_ROW] = sum;
    if (c->warp % 4 == 0 && c->lane < ROWS)
        to->max[c->lane] = max;
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(stat);
    trace_enter(c->trace, TRACE_other);
}

/* --- The role --- */

DEV void softmax_tile(const struct cta *c, struct softmax *x, const struct pipe *s,
                      const struct pipe *p, const struct pipe *before, int o_slot,
                      const struct query_facts *facts, const struct tiles *t) {
    const float factor = x->late ? x->factor : 1.0f;
    const bool first = t->tile == 0;
    float y[SCORES], z[SCORES];
    tile_scores(c, x, s, facts, t, x->late, y);
    trace_enter(c->trace, TRACE_softmax_local_max);
    if (!first)
        relative(y, factor, c->smem->side.max, z);
    trace_enter(c->trace, TRACE_wait_warps);
    const bool raise = bar_red_or(BAR_VOTE, SOFTMAX_THREADS, first || exceeds(z));
    if (raise)
        raise_maxima(c, x, y, factor, before, o_slot, first);
    if (raise || N > 32) /* both at once would be too many registers then */
        relative(y, factor, c->smem->side.max, z);
    weights_publish(c, x, p, z);
    trace_enter(c->trace, TRACE_other);
}

DEV void softmax(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct pipe s = pipe_consumer(side->s_full, side->s_empty, S_STAGES);
    struct pipe q = pipe_consumer(side->q_full, side->q_empty, Q_STAGES);
    struct pipe p = pipe_producer(side->p_full, side->p_empty, P_STAGES), before = p;
    struct pipe stat = pipe_producer(side->stat_full, side->stat_empty, STAT_STAGES);
    struct softmax x;
    int o_slot = 0;
    struct tiles t = tiles_first(c->args, &c->first);
    while (t.w.live) {
        const bool last = t.tile == t.w.tiles - 1;
        if (t.tile == 0) {
            trace_enter(c->trace, TRACE_wait_Q);
            pipe_wait(&q);
            trace_enter(c->trace, TRACE_other);
            softmax_begin(c, &x, &t.w, &side->facts[q.slot]);
        }
        softmax_tile(c, &x, &s, &p, &before, o_slot, &side->facts[q.slot], &t);
        if (last) {
            if (c->lane == 0)
                pipe_release(&q);
            stats_put(c, &x, side->max[c->lane % ROWS], &stat);
            pipe_next(&q);
            pipe_next(&stat);
            o_slot = (o_slot + 1) % O_STAGES;
        }
        before = p;
        pipe_next(&s);
        pipe_next(&p);
        tiles_next(c->args, &t);
    }
}

#endif
