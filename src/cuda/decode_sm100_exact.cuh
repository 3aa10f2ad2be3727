/* SPDX-License-Identifier: Apache-2.0
 * Role: softmax with exact running maxima, as in the published pipelines: after each tile the
 * maxima are those of all tokens so far, and correction is told each time. Lane r of every warp
 * holds row r's; the four warps exchange theirs through shared memory and one barrier. */
#ifndef GQA_DECODE_SM100_EXACT_CUH
#define GQA_DECODE_SM100_EXACT_CUH

#include "decode_sm100_softmax.cuh"

/* Lane r: the warp's maximum of row r in this tile. */
DEV float tile_maximum(const struct cta *c, const float y[ROWS]) {
    float mine = NEG_LARGE;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float m = redux_sync_max(y[r]);
        mine = c->lane == r ? m : mine;
    }
    return mine;
}

/* Lane r: row r's maximum over the warpgroup's tile and `old`. `top` alternates between tiles, so
 * that the next tile's exchange does not overtake this one's readers. */
DEV float exchange_maximum(const struct cta *c, float (*top)[ROWS], const float y[ROWS], float old,
                           int barrier) {
    const float mine = tile_maximum(c, y);
    const int r = c->lane % ROWS;
    if (c->lane < ROWS)
        top[c->warp % 4][r] = mine;
    bar_sync(barrier, SOFTMAX_THREADS);
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
    struct pipe s, q, p, m, stat;
};

DEV float exact_tile(const struct cta *c, struct softmax *x, const struct exact_pipes *y,
                     const struct tiles *t, float old) {
    const struct query_facts *facts = &c->smem->side.facts[y->q.slot];
    const int token = tile_token(t);
    float w[ROWS];
    scores_take(c, x, &y->s, facts, w);
    if (token < x->full_begin || token + TILE > x->full_end)
        scores_mask(w, facts, token + threadIdx.x % SOFTMAX_THREADS);
    const float max = exchange_maximum(c, c->smem->side.tops[y->p.slot], w, old, BAR_TOP);
    if (c->warp % 4 == 0)
        maximum_publish(c, &y->m, max);
    weights_of(w, max);
    weights_send(c, &y->p, w);
    const float factor = ex2_approx_ftz(old - max);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        x->sum[r] = x->sum[r] * __shfl_sync(0xffffffffu, factor, r) + w[r];
    return max;
}

/* One warpgroup, every tile; sums stay with the threads until the part ends. */
DEV void softmax_exact(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct exact_pipes y;
    y.s = pipe_consumer(side->s_full, side->s_empty, S_STAGES);
    y.q = pipe_consumer(side->q_full, side->q_empty, Q_STAGES);
    y.p = pipe_producer(side->p_full, side->p_empty, P_STAGES);
    y.m = pipe_producer(side->m_full, side->m_empty, M_STAGES);
    y.stat = pipe_producer(side->stat_full, side->stat_empty, STAT_STAGES);
    struct softmax x;
    float max = NEG_LARGE;
    struct tiles t = tiles_first(c->args, &c->first);
    while (t.w.live) {
        const bool last = t.tile == t.w.tiles - 1;
        if (t.tile == 0) {
            pipe_wait(&y.q);
            softmax_begin(c, &x, &t.w, &side->facts[y.q.slot]);
            max = NEG_LARGE;
        }
        max = exact_tile(c, &x, &y, &t, max);
        if (last) {
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

#endif
