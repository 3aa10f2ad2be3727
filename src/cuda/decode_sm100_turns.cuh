/* SPDX-License-Identifier: Apache-2.0
 * Roles of the two-warpgroup pipeline: softmax by turns, and the correction that goes with it.
 *
 * Tiles of the stream alternate between two softmax warpgroups. Only one thing is ordered between
 * them, the running maximum: tile i's is max(tile i - 1's, its own tops), so a warp of its group
 * waits for the other group's, adds its own and publishes; everything else overlaps. Each tile's
 * partial sums go to correction through a column block of tensor memory per group. */
#ifndef GQA_DECODE_SM100_TURNS_CUH
#define GQA_DECODE_SM100_TURNS_CUH

#include "decode_sm100_correct.cuh"
#include "decode_sm100_exact.cuh"

enum { GROUPS = 2, BAR_TURN = 4 /* + group */ };

DEV uint32_t sums_tmem(const struct cta *c, int slot, int r) {
    return c->tmem + (c->warp % 4 << 21) + L_COLUMN + slot * ROWS + r;
}

/* --- Softmax --- */

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
    const struct side *side = &c->smem->side;
    struct turn_pipes x;
    x.s = pipe_consumer(side->s_full, side->s_empty, S_STAGES);
    x.q = pipe_consumer(side->q_full, side->q_empty, Q_STAGES);
    x.p = pipe_producer(side->p_full, side->p_empty, P_STAGES);
    x.l = pipe_producer(side->l_full, side->l_empty, L_STAGES);
    x.m = pipe_consumer(side->m_full, side->m_empty, M_STAGES);
    x.before = x.m;
    return x;
}

/* The group's first warp: the last tile's maxima and this group's tops make this tile's. */
DEV void turn_take(const struct cta *c, const struct turn_pipes *y, float (*top)[ROWS],
                   const struct tiles *t, bool has_before) {
    struct side *side = &c->smem->side;
    const int r = c->lane % ROWS;
    float max = NEG_LARGE;
    if (has_before) {
        pipe_wait(&y->before);
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

/* This thread's weights, as its share of the row sums, to correction. */
DEV void sums_send(const struct cta *c, const struct pipe *l, const float w[ROWS]) {
    pipe_acquire(l);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int r = 0; r < ROWS; r += 8)
        tcgen05_st_32x32b_x8(sums_tmem(c, l->slot, r), w + r);
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(l);
}

DEV void turn_tile(const struct cta *c, const struct softmax *x, const struct turn_pipes *y,
                   const struct tiles *t, int group, bool has_before) {
    struct side *side = &c->smem->side;
    const struct query_facts *facts = &side->facts[y->q.slot];
    float(*top)[ROWS] = side->tops[group];
    const int token = tile_token(t);
    float w[ROWS];
    scores_take(c, x, &y->s, facts, w);
    if (token < x->full_begin || token + TILE > x->full_end)
        scores_mask(w, facts, token + threadIdx.x % SOFTMAX_THREADS);
    const float mine = tile_maximum(c, w);
    if (c->lane < ROWS)
        top[c->warp % 4][c->lane] = mine;
    bar_sync(BAR_TURN + group, SOFTMAX_THREADS);
    if (c->warp % 4 == 0)
        turn_take(c, y, top, t, has_before);
    pipe_wait(&y->m);
    const float max = side->maxima[y->m.slot][c->lane % ROWS];
    __syncwarp();
    if (c->lane == 0)
        pipe_release(&y->m);
    weights_of(w, max);
    weights_send(c, &y->p, w);
    sums_send(c, &y->l, w);
}

/* Group `group` of two: tiles of the stream whose number is group, group + 2, ... */
DEV void softmax_turns(const struct cta *c, int group) {
    const struct side *side = &c->smem->side;
    struct turn_pipes y = turn_pipes_of(c);
    struct softmax x;
    struct tiles t = tiles_first(c->args, &c->first);
    for (int i = 0; t.w.live; i++) {
        if (t.tile == 0) {
            pipe_wait(&y.q);
            softmax_begin(c, &x, &t.w, &side->facts[y.q.slot]);
        }
        if (i % GROUPS == group)
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

/* --- Correction --- */

/* Thread's sums under the newest maxima of the slot's tiles: of the newest tile's slot of O, and of
 * the other. */
struct rolling {
    float newer[ROWS], older[ROWS];
};

/* The slot that tile i - 2 was summed in takes tile i: bring it to tile i's maxima. */
DEV void rolling_add(const struct cta *c, struct rolling *x, struct pipe *l, float factor) {
    pipe_wait(l);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int r = 0; r < ROWS; r += 8) {
        float w[8];
        tmem_load_x8(w, sums_tmem(c, l->slot, r));
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float sum = x->older[r + j] * __shfl_sync(0xffffffffu, factor, r + j) + w[j];
            x->older[r + j] = x->newer[r + j];
            x->newer[r + j] = sum;
        }
    }
    slot_release(c, l);
}

struct correct_pipes {
    struct pipe q, stat_in, stat, o, m, l;
};

DEV struct correct_pipes correct_pipes_of(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct correct_pipes x;
    x.q = pipe_producer(side->q_full, side->q_empty, Q_STAGES);
    x.stat_in = pipe_producer(side->stat_full, side->stat_empty, STAT_STAGES);
    x.stat = pipe_consumer(side->stat_full, side->stat_empty, STAT_STAGES);
    x.o = pipe_consumer(side->o_full, side->o_empty, O_STAGES);
    x.m = pipe_consumer(side->m_full, side->m_empty, M_STAGES);
    x.l = pipe_consumer(side->l_full, side->l_empty, L_STAGES);
    return x;
}

/* Every tile of a part; all sums end in the slot at which `o` stands, statistics in theirs. */
DEV void correct_turns_tiles(const struct cta *c, const struct work *w, struct correct_pipes *y) {
    struct rolling x;
    float last = NEG_LARGE, before = NEG_LARGE; /* maxima of tiles i - 1 and i - 2 */
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        x.newer[r] = x.older[r] = 0;
    for (int tile = 0; tile < w->tiles; tile++) {
        const float max = maximum_take(c, &y->m);
        const float factor = ex2_approx_ftz(before - max);
        rolling_add(c, &x, &y->l, factor);
        before = last;
        last = max;
        if (tile < O_STAGES)
            continue;
        pipe_wait(&y->o);
        tcgen05_fence_after_thread_sync();
        slot_rescale(c, y->o.slot, factor);
        slot_release(c, &y->o);
    }
    if (!w->tiles)
        return;
    const float factor = ex2_approx_ftz(before - last);
    slots_join(c, w, &y->o, factor);
    struct softmax sums;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        sums.sum[r] = x.newer[r] + x.older[r] * __shfl_sync(0xffffffffu, factor, r);
    stats_put(c, &sums, last, &y->stat_in);
    pipe_next(&y->stat_in);
}

/* Parts wait in shared memory: rolling sums need the registers. */
DEV void part_keep(const struct cta *c, int slot, const struct work *w) {
    struct work *to = &c->smem->side.parts[slot];
    if (threadIdx.x % FINISH_THREADS == 0 && w->live)
        *to = *w;
    else if (threadIdx.x % FINISH_THREADS == 0)
        to->live = 0;
    bar_sync(BAR_FINISH, FINISH_THREADS);
}

DEV void correct_turns(const struct cta *c) {
    struct correct_pipes y = correct_pipes_of(c);
    query_prepare(c, &c->first, &y.q);
    part_keep(c, 0, &c->first);
    for (int slot = 0; c->smem->side.parts[slot].live; slot ^= 1) {
        const struct work *w = &c->smem->side.parts[slot];
        struct work ahead = *w;
        work_next(c->args, &ahead);
        query_prepare(c, &ahead, &y.q);
        part_keep(c, slot ^ 1, &ahead);
        correct_turns_tiles(c, w, &y);
        finish_rows(c, w, &y.stat);
        if (!c->smem->side.parts[slot ^ 1].live)
            pdl_launch_dependents();
        finish_elements(c, w, &y.o);
    }
}

DEV void correct_turns_in_cluster(const struct cta *c) {
    struct correct_pipes y = correct_pipes_of(c);
    if (!c->first.live)
        return;
    query_prepare(c, &c->first, &y.q);
    correct_turns_tiles(c, &c->first, &y);
    cluster_close(c, &c->first, &y.stat, &y.o);
}

#endif
