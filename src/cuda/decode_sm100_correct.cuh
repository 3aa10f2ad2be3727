/* SPDX-License-Identifier: Apache-2.0
 * Role: correction, for pipelines whose maxima move with every tile. Before tile j is summed into a
 * slot of O, the slot is brought from the maxima it was summed under to tile j's. With one slot
 * that is tile j - 1's; with two rolling slots tile j - 2's, and the next sum runs meanwhile in the
 * other slot; at the end of the part the older slot joins the newer. Then the part is finished. */
#ifndef GQA_DECODE_SM100_CORRECT_CUH
#define GQA_DECODE_SM100_CORRECT_CUH

#include "decode_sm100_cluster.cuh"

/* Slot *= factor; lane r holds row r's. All 32 lanes. */
DEV void slot_rescale(const struct cta *c, int o_slot, float factor) {
    for (int i = 0; i < V_BLOCKS * N; i += 8) {
        const uint32_t at = output_tmem(c, o_slot, i / N, i % N);
        float o[8];
        tmem_load_x8(o, at);
#pragma unroll
        for (int j = 0; j < 8; j++)
            o[j] *= __shfl_sync(0xffffffffu, factor, i % ROWS + j);
        tcgen05_st_32x32b_x8(at, o);
    }
    tcgen05_wait_st();
}

/* Slot `to` += factor * slot `from`. All 32 lanes. */
DEV void slot_merge(const struct cta *c, int to, int from, float factor) {
    for (int i = 0; i < V_BLOCKS * N; i += 8) {
        const uint32_t at = output_tmem(c, to, i / N, i % N);
        float o[8], older[8];
        tmem_load_x8(older, output_tmem(c, from, i / N, i % N));
        tmem_load_x8(o, at);
#pragma unroll
        for (int j = 0; j < 8; j++)
            o[j] += older[j] * __shfl_sync(0xffffffffu, factor, i % ROWS + j);
        tcgen05_st_32x32b_x8(at, o);
    }
    tcgen05_wait_st();
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
    pipe_wait(m);
    const float max = c->smem->side.maxima[m->slot][c->lane % ROWS];
    __syncwarp();
    if (c->lane == 0)
        pipe_release(m);
    pipe_next(m);
    return max;
}

/* Two rolling slots: the older joins the newer, at which `o` stands then. */
DEV void slots_join(const struct cta *c, const struct work *w, struct pipe *o, float factor) {
    struct pipe newer = *o;
    if (O_STAGES == 1 || w->tiles < 2)
        return;
    pipe_next(&newer);
    pipe_wait(o);
    pipe_wait(&newer);
    tcgen05_fence_after_thread_sync();
    slot_merge(c, newer.slot, o->slot, factor);
    slot_release(c, o);
}

/* Every tile of a part. On return all sums are in the slot at which `o` stands. */
DEV void correct_tiles(const struct cta *c, const struct work *w, struct pipe *m, struct pipe *o) {
    float max[O_STAGES + 1]; /* maxima of the newest tiles, newest first */
#pragma unroll
    for (int i = 0; i <= O_STAGES; i++)
        max[i] = NEG_LARGE;
    for (int tile = 0; tile < w->tiles; tile++) {
#pragma unroll
        for (int i = O_STAGES; i > 0; i--)
            max[i] = max[i - 1];
        max[0] = maximum_take(c, m);
        if (tile < O_STAGES)
            continue;
        pipe_wait(o);
        tcgen05_fence_after_thread_sync();
        slot_rescale(c, o->slot, ex2_approx_ftz(max[O_STAGES] - max[0]));
        slot_release(c, o);
    }
    slots_join(c, w, o, ex2_approx_ftz(max[1] - max[0]));
}

DEV void correct(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct pipe q = pipe_producer(side->q_full, side->q_empty, Q_STAGES);
    struct pipe stat = pipe_consumer(side->stat_full, side->stat_empty, STAT_STAGES);
    struct pipe o = pipe_consumer(side->o_full, side->o_empty, O_STAGES);
    struct pipe m = pipe_consumer(side->m_full, side->m_empty, M_STAGES);
    struct work w = c->first, ahead = w;
    query_prepare(c, &ahead, &q);
    while (w.live) {
        work_next(c->args, &ahead);
        query_prepare(c, &ahead, &q);
        correct_tiles(c, &w, &m, &o);
        finish_rows(c, &w, &stat);
        if (!ahead.live)
            pdl_launch_dependents();
        finish_elements(c, &w, &o);
        w = ahead;
    }
}

DEV void correct_in_cluster(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct pipe q = pipe_producer(side->q_full, side->q_empty, Q_STAGES);
    struct pipe stat = pipe_consumer(side->stat_full, side->stat_empty, STAT_STAGES);
    struct pipe o = pipe_consumer(side->o_full, side->o_empty, O_STAGES);
    struct pipe m = pipe_consumer(side->m_full, side->m_empty, M_STAGES);
    if (!c->first.live)
        return;
    query_prepare(c, &c->first, &q);
    correct_tiles(c, &c->first, &m, &o);
    cluster_close(c, &c->first, &stat, &o);
}

#endif
