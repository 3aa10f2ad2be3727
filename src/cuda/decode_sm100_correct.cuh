/* SPDX-License-Identifier: Apache-2.0
 * Role: correction, for pipelines whose maxima move with every tile. Before tile j is summed into a
 * slot of O, the slot is brought from the maxima it was summed under to tile j's. With one slot
 * that is tile j - 1's; with two rolling slots tile j - 2's, and the next sum runs meanwhile in the
 * other slot; at the end of the part the older slot joins the newer. Then the part is finished. */
#ifndef GQA_DECODE_SM100_CORRECT_CUH
#define GQA_DECODE_SM100_CORRECT_CUH

#include "decode_sm100_cluster.cuh"
#include "decode_sm100_exact.cuh"

/* Eight columns at a time, stored before the next are loaded: whole blocks of 32 would spill. */
DEV void columns_store(uint32_t tmem, const float o[8]) {
    tcgen05_st_32x32b_x8(tmem, o);
    tcgen05_wait_st();
}

/* Slot *= factor; lane r holds row r's. All 32 lanes. */
DEV void slot_rescale(const struct cta *c, int o_slot, float factor) {
    for (int i = 0; i < V_BLOCKS * N; i += 8) {
        const uint32_t at = output_tmem(c, o_slot, i / N, i % N);
        float o[8];
        tmem_load_x8(o, at);
#pragma unroll
        for (int j = 0; j < 8; j++)
            o[j] *= __shfl_sync(0xffffffffu, factor, i % ROWS + j);
        columns_store(at, o);
    }
}

/* Slot `to` = to_factor * itself + from_factor * slot `from`. All 32 lanes. */
DEV void slot_merge(const struct cta *c, int to, float to_factor, int from, float from_factor) {
    for (int i = 0; i < V_BLOCKS * N; i += 8) {
        const uint32_t at = output_tmem(c, to, i / N, i % N);
        float o[8], older[8];
        tmem_load_x8(older, output_tmem(c, from, i / N, i % N));
        tmem_load_x8(o, at);
#pragma unroll
        for (int j = 0; j < 8; j++)
            o[j] = o[j] * __shfl_sync(0xffffffffu, to_factor, i % ROWS + j) +
                   older[j] * __shfl_sync(0xffffffffu, from_factor, i % ROWS + j);
        columns_store(at, o);
    }
}

DEV void slot_release(const struct cta *c, struct pipe *o) {
    tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (c->lane == 0)
        pipe_release(o);
    pipe_next(o);
}

/* Lane r: row r's maximum after the tile. */
DEV float maximum_take(const struct cta *c, struct pipe *m) {
    trace_enter(c->trace, TRACE_wait_M);
    pipe_wait(m);
    trace_enter(c->trace, TRACE_other);
    const float max = c->smem->side.maxima[m->slot][c->lane % ROWS];
    __syncwarp();
    if (c->lane == 0)
        pipe_release(m);
    pipe_next(m);
    return max;
}

/* Two rolling slots: the older joins the newer, at which `o` stands then. */
DEV void slots_join(const struct cta *c, const struct work *w, struct pipe *o, float newer_factor,
                    float older_factor) {
    struct pipe newer = *o;
    if (O_STAGES == 1 || w->tiles < 2)
        return;
    pipe_next(&newer);
    trace_enter(c->trace, TRACE_wait_O);
    pipe_wait(o);
    pipe_wait(&newer);
    trace_enter(c->trace, TRACE_O_join);
    tcgen05_fence_after_thread_sync();
    slot_merge(c, newer.slot, newer_factor, o->slot, older_factor);
    slot_release(c, o);
}

/* --- Denominators, where softmax leaves them here --- */

/* The thread's share of the row sums of each slot of O, newest first. */
struct rolling {
    float sum[O_STAGES][ROWS];
};

/* The slot that tile i - O_STAGES was summed in takes tile i: bring its sums to tile i's maxima. */
DEV void rolling_add(const struct cta *c, struct rolling *x, struct pipe *l, float factor) {
    trace_enter(c->trace, TRACE_wait_L);
    pipe_wait(l);
    trace_enter(c->trace, TRACE_sum_L);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int r = 0; r < ROWS; r += 8) {
        float w[8];
        tmem_load_x8(w, sums_tmem(c, l->slot, r));
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float *sum = &x->sum[O_STAGES - 1][r + j];
            const float newest = *sum * __shfl_sync(0xffffffffu, factor, r + j) + w[j];
            if (O_STAGES == 2)
                *sum = x->sum[0][r + j];
            x->sum[0][r + j] = newest;
        }
    }
    slot_release(c, l);
}

/* All sums of the part, to where finish_rows looks for them; lane r's `max` is row r's. */
DEV void rolling_put(const struct cta *c, const struct rolling *x, float max, float newer_factor,
                     float older_factor, struct pipe *stat) {
    struct softmax all;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        all.sum[r] = x->sum[0][r] * __shfl_sync(0xffffffffu, newer_factor, r);
        if (O_STAGES == 2)
            all.sum[r] += x->sum[O_STAGES - 1][r] * __shfl_sync(0xffffffffu, older_factor, r);
    }
    stats_put(c, &all, max, stat);
    pipe_next(stat);
}

/* --- A part --- */

struct correct_pipes {
    struct pipe q, stat, o, m;
    struct pipe l, stat_in; /* where denominators are kept here */
};

DEV struct correct_pipes correct_pipes_of(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct correct_pipes x;
    x.q = pipe_producer(side->q_full, side->q_empty, Q_STAGES);
    x.stat = pipe_consumer(side->stat_full, side->stat_empty, STAT_STAGES);
    x.o = pipe_consumer(side->o_full, side->o_empty, O_STAGES);
    x.m = pipe_consumer(side->m_full, side->m_empty, M_STAGES);
    x.l = pipe_consumer(side->l_full, side->l_empty, L_STAGES);
    x.stat_in = pipe_producer(side->stat_full, side->stat_empty, STAT_STAGES);
    return x;
}

/* Every tile of a part. On return all sums are in the slot at which `o` stands. The two slots'
 * maxima are different histories where each softmax warpgroup keeps its own. */
DEV void correct_tiles(const struct cta *c, const struct work *w, struct correct_pipes *y) {
    struct rolling x;
    float max[O_STAGES + 1]; /* maxima of the newest tiles, newest first */
#pragma unroll
    for (int i = 0; i <= O_STAGES; i++)
        max[i] = NEG_LARGE;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        x.sum[0][r] = x.sum[O_STAGES - 1][r] = 0;
    for (int tile = 0; tile < w->tiles; tile++) {
#pragma unroll
        for (int i = O_STAGES; i > 0; i--)
            max[i] = max[i - 1];
        trace_tile(c->trace, tile);
        max[0] = maximum_take(c, &y->m);
        const float factor = ex2_approx_ftz(max[O_STAGES] - max[0]);
        if (L_STAGES)
            rolling_add(c, &x, &y->l, factor);
        if (tile < O_STAGES)
            continue;
        trace_enter(c->trace, TRACE_wait_O);
        pipe_wait(&y->o);
        trace_enter(c->trace, TRACE_O_rescale);
        tcgen05_fence_after_thread_sync();
        slot_rescale(c, y->o.slot, factor);
        slot_release(c, &y->o);
        trace_enter(c->trace, TRACE_other);
    }
    if (!w->tiles)
        return;
    const float top = O_STAGES == 2 ? fmaxf(max[0], max[1]) : max[0];
    const float newer = ex2_approx_ftz(max[0] - top), older = ex2_approx_ftz(max[1] - top);
    slots_join(c, w, &y->o, newer, older);
    if (L_STAGES)
        rolling_put(c, &x, top, newer, older, &y->stat_in);
}

/* --- The role --- */

/* Parts wait in shared memory: rolling sums need the registers. */
DEV void part_keep(const struct cta *c, int slot, const struct work *w) {
    struct work *to = &c->smem->side.parts[slot];
    if (threadIdx.x % FINISH_THREADS == 0 && w->live)
        *to = *w;
    else if (threadIdx.x % FINISH_THREADS == 0)
        to->live = 0;
    bar_sync(BAR_FINISH, FINISH_THREADS);
}

DEV void correct_parts(const struct cta *c) {
    struct correct_pipes y = correct_pipes_of(c);
    query_prepare(c, &c->first, &y.q);
    part_keep(c, 0, &c->first);
    for (int slot = 0; c->smem->side.parts[slot].live; slot ^= 1) {
        const struct work *w = &c->smem->side.parts[slot];
        struct work ahead = *w;
        work_next(c->args, &ahead);
        query_prepare(c, &ahead, &y.q);
        part_keep(c, slot ^ 1, &ahead);
        correct_tiles(c, w, &y);
        finish_rows(c, w, &y.stat);
        trace_enter(c->trace, TRACE_producer_trigger);
        if (!c->smem->side.parts[slot ^ 1].live)
            pdl_launch_dependents();
        finish_elements(c, w, &y.o);
    }
}

DEV void correct_in_cluster(const struct cta *c) {
    struct correct_pipes y = correct_pipes_of(c);
    if (!c->first.live)
        return;
    query_prepare(c, &c->first, &y.q);
    correct_tiles(c, &c->first, &y);
    cluster_close(c, &c->first, &y.stat, &y.o);
}

DEV void correct(const struct cta *c) {
    if (c->args->finish >= GQA_FINISH_ATOMIC)
        correct_in_cluster(c);
    else
        correct_parts(c);
}

#endif
