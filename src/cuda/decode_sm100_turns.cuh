/* SPDX-License-Identifier: Apache-2.0
 * Role: softmax by turns under one maximum. Tiles of the stream alternate between two softmax
 * warpgroups. Only one thing is ordered between them, the running maximum: tile i's is max(tile
 * i - 1's, its own tops), so a warp of its group waits for the other group's, adds its own and
 * publishes; everything else overlaps. */
#ifndef GQA_DECODE_SM100_TURNS_CUH
#define GQA_DECODE_SM100_TURNS_CUH

#include "decode_sm100_exact.cuh"

struct turn_pipes {
    struct pipe s, q, p, l;
    struct pipe m, before; /* this tile's maxima, the last one's */
};

DEV void turn_pipes_next(struct turn_pipes *x) {
    pipe_next(&x->s);
    pipe_next(&x->p);
    pipe_next(&x->l);
    x->before = x->m;
    pipe_next(&x->m);
}

DEV struct turn_pipes turn_pipes_of(const struct cta *c) {
    const struct exact_pipes y = exact_pipes_of(c);
    const struct side *side = &c->smem->side;
    const struct pipe m = pipe_consumer(side->m_full, side->m_empty, M_STAGES);
    const struct turn_pipes x = {y.s, y.q, y.p, y.l, m, m};
    return x;
}

/* The group's first warp: the last tile's maxima and this group's tops make this tile's. */
DEV void turn_take(const struct cta *c, const struct turn_pipes *y, float (*top)[ROWS],
                   const struct tiles *t, bool has_before) {
    struct side *side = &c->smem->side;
    const int r = c->lane % ROWS;
    float max = NEG_LARGE;
    if (has_before) {
        trace_enter(c->trace, TRACE_mutex);
        pipe_wait(&y->before);
        trace_enter(c->trace, TRACE_max_publish);
        max = t->tile ? side->maxima[y->before.slot][r] : NEG_LARGE;
        __syncwarp();
        if (c->lane == 0)
            pipe_release(&y->before);
    }
    const float most = fmaxf(fmaxf(top[0][r], top[1][r]), fmaxf(top[2][r], top[3][r]));
    max = fmaxf(max, most - MAX_BIAS);
    mbarrier_wait(pipe_empty(&y->m), y->m.parity ^ 1); /* as its producer */
    if (c->lane < ROWS)
        side->maxima[y->m.slot][r] = max;
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(&y->m);
}

DEV void turn_tile(const struct cta *c, const struct softmax *x, const struct turn_pipes *y,
                   const struct tiles *t, int group, bool has_before) {
    struct side *side = &c->smem->side;
    float(*top)[ROWS] = side->tops[y->s.slot];
    float w[ROWS];
    tile_scores(c, x, &y->s, &side->facts[y->q.slot], t, false, w);
    const float mine = tile_maximum(c, w);
    if (c->lane < ROWS)
        top[c->warp % 4][c->lane] = mine;
    trace_enter(c->trace, TRACE_wait_warps);
    bar_sync(BAR_GROUP + group, SOFTMAX_THREADS);
    if (c->warp % 4 == 0)
        turn_take(c, y, top, t, has_before);
    trace_enter(c->trace, TRACE_wait_max);
    pipe_wait(&y->m);
    const float max = side->maxima[y->m.slot][c->lane % ROWS];
    __syncwarp();
    if (c->lane == 0)
        pipe_release(&y->m);
    trace_enter(c->trace, TRACE_softmax_math);
    weights_of(w, max);
    weights_send(c, &y->p, w);
    sums_send(c, &y->l, w);
}

/* The tiles of the stream whose number is group, group + 2, ... */
DEV void softmax_turns(const struct cta *c, int group) {
    struct turn_pipes y = turn_pipes_of(c);
    struct softmax x;
    struct tiles t = tiles_first(c->args, &c->first);
    for (int i = 0; t.w.live; i++) {
        if (t.tile == 0) {
            trace_enter(c->trace, TRACE_wait_Q);
            pipe_wait(&y.q);
            trace_enter(c->trace, TRACE_other);
            softmax_begin(c, &x, &t.w, &c->smem->side.facts[y.q.slot]);
        }
        if (i % 2 == group)
            turn_tile(c, &x, &y, &t, group, i > 0);
        if (t.tile == t.w.tiles - 1) {
            __syncwarp();
            if (c->lane == 0)
                pipe_release(&y.q);
            pipe_next(&y.q);
        }
        turn_pipes_next(&y);
        tiles_next(c->args, &t);
    }
}

#endif
