/* SPDX-License-Identifier: Apache-2.0
 * Role: softmax with exact running maxima, as in the published pipelines: after each tile the
 * maxima are those of all tokens so far, and correction is told each time. Lane r of every warp
 * holds row r's; the four warps exchange theirs through shared memory and one barrier.
 *
 *   softmax_exact   one warpgroup; its threads keep the denominators until the part ends
 *   softmax_mailed  one warpgroup, or two by turns, each with maxima of its own; every tile's
 *                   weights, as shares of the row sums, go to correction through tensor memory */
#ifndef GQA_DECODE_SM100_EXACT_CUH
#define GQA_DECODE_SM100_EXACT_CUH

#include "decode_sm100_softmax.cuh"

enum { BAR_GROUP = 4 /* + group */ };
static_assert(HALVES == 1, "a thread has one token of a tile");

/* Lane r: row r's maximum over the warpgroup's tile and `old`. `top` differs between neighbouring
 * tiles, so that the next tile's exchange does not overtake this one's readers. */
DEV float exchange_maximum(const struct cta *c, float (*top)[ROWS], const float y[ROWS], float old,
                           int barrier) {
    const float mine = tile_maximum(c, y);
    const int r = c->lane % ROWS;
    if (c->lane < ROWS)
        top[c->warp % 4][r] = mine;
    trace_enter(c->trace, TRACE_wait_warps);
    bar_sync(barrier, SOFTMAX_THREADS);
    trace_enter(c->trace, TRACE_max_publish);
    const float most = fmaxf(fmaxf(top[0][r], top[1][r]), fmaxf(top[2][r], top[3][r]));
    return fmaxf(old, most - MAX_BIAS);
}

DEV void maximum_publish(const struct cta *c, const struct pipe *m, float max) {
    pipe_acquire(m);
    if (c->lane < ROWS)
        c->smem->side.maxima[m->slot][c->lane] = max;
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(m);
}

/* y -> weights relative to the lanes' maxima. All 32 lanes. */
DEV void weights_of(float y[ROWS], float max) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        y[r] = ex2_approx_ftz(y[r] - __shfl_sync(0xffffffffu, max, r));
}

struct exact_pipes {
    struct pipe s, q, p, m;
    struct pipe stat; /* softmax_exact */
    struct pipe l;    /* softmax_mailed */
};

DEV struct exact_pipes exact_pipes_of(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct exact_pipes x;
    x.s = pipe_consumer(side->s_full, side->s_empty, S_STAGES);
    x.q = pipe_consumer(side->q_full, side->q_empty, Q_STAGES);
    x.p = pipe_producer(side->p_full, side->p_empty, P_STAGES);
    x.m = pipe_producer(side->m_full, side->m_empty, M_STAGES);
    x.stat = pipe_producer(side->stat_full, side->stat_empty, STAT_STAGES);
    x.l = pipe_producer(side->l_full, side->l_empty, L_STAGES);
    return x;
}

/* A tile's weights, published and in `w`; the maxima that they are relative to. */
DEV float exact_tile(const struct cta *c, const struct softmax *x, const struct exact_pipes *y,
                     const struct tiles *t, float old, int barrier, float w[ROWS]) {
    struct side *side = &c->smem->side;
    tile_scores(c, x, &y->s, &side->facts[y->q.slot], t, false, w);
    const float max = exchange_maximum(c, side->tops[y->s.slot], w, old, barrier);
    if (c->warp % 4 == 0)
        maximum_publish(c, &y->m, max);
    trace_enter(c->trace, TRACE_softmax_math);
    weights_of(w, max);
    weights_send(c, &y->p, w);
    trace_enter(c->trace, TRACE_softmax_sum);
    return max;
}

/* --- Sums stay here --- */

DEV void softmax_exact(const struct cta *c) {
    struct exact_pipes y = exact_pipes_of(c);
    struct softmax x;
    float max = NEG_LARGE;
    struct tiles t = tiles_first(c->args, &c->first);
    while (t.w.live) {
        const float old = t.tile ? max : NEG_LARGE;
        if (t.tile == 0) {
            trace_enter(c->trace, TRACE_wait_Q);
            pipe_wait(&y.q);
            trace_enter(c->trace, TRACE_other);
            softmax_begin(c, &x, &t.w, &c->smem->side.facts[y.q.slot]);
        }
        float w[ROWS];
        max = exact_tile(c, &x, &y, &t, old, BAR_GROUP, w);
        const float factor = ex2_approx_ftz(old - max);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            x.sum[r] = x.sum[r] * __shfl_sync(0xffffffffu, factor, r) + w[r];
        trace_enter(c->trace, TRACE_other);
        if (t.tile == t.w.tiles - 1) {
            if (c->lane == 0)
                pipe_release(&y.q);
            stats_put(c, &x, max, &y.stat);
            pipe_next(&y.q);
            pipe_next(&y.stat);
        }
        pipe_next(&y.s);
        pipe_next(&y.p);
        pipe_next(&y.m);
        tiles_next(c->args, &t);
    }
}

/* --- Sums go to correction --- */

DEV uint32_t sums_tmem(const struct cta *c, int slot, int r) {
    return c->tmem + (c->warp % 4 << 21) + L_COLUMN + slot * ROWS + r;
}

/* This thread's weights, as its share of the row sums, to correction. */
DEV void sums_send(const struct cta *c, const struct pipe *l, const float w[ROWS]) {
    trace_enter(c->trace, TRACE_wait_L_slot);
    pipe_acquire(l);
    trace_enter(c->trace, TRACE_softmax_sum);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int r = 0; r < ROWS; r += 8)
        tcgen05_st_32x32b_x8(sums_tmem(c, l->slot, r), w + r);
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(l);
    trace_enter(c->trace, TRACE_other);
}

/* The tiles of the stream whose number is group, group + groups, ... */
DEV void softmax_mailed(const struct cta *c, int group, int groups) {
    struct exact_pipes y = exact_pipes_of(c);
    struct softmax x;
    float max = NEG_LARGE;
    struct tiles t = tiles_first(c->args, &c->first);
    for (int i = 0; t.w.live; i++) {
        if (t.tile == 0) {
            trace_enter(c->trace, TRACE_wait_Q);
            pipe_wait(&y.q);
            trace_enter(c->trace, TRACE_other);
            softmax_begin(c, &x, &t.w, &c->smem->side.facts[y.q.slot]);
            max = NEG_LARGE;
        }
        if (i % groups == group) {
            float w[ROWS];
            max = exact_tile(c, &x, &y, &t, max, BAR_GROUP + group, w);
            sums_send(c, &y.l, w);
        }
        if (t.tile == t.w.tiles - 1) {
            __syncwarp();
            if (c->lane == 0)
                pipe_release(&y.q);
            pipe_next(&y.q);
        }
        pipe_next(&y.s);
        pipe_next(&y.p);
        pipe_next(&y.m);
        pipe_next(&y.l);
        tiles_next(c->args, &t);
    }
}

#endif
