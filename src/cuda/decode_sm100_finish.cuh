/* SPDX-License-Identifier: Apache-2.0
 * Role: a warpgroup at both ends of a part. It prepares a part's queries while the part before is
 * still computed, and takes the finished accumulators to the output or to a partial. Thread t
 * holds element t of all rows, so a warp's stores of one row are neighbours in memory. */
#ifndef GQA_DECODE_SM100_FINISH_CUH
#define GQA_DECODE_SM100_FINISH_CUH

#include "decode_sm100.cuh"
#include "decode_sm100_query.cuh"

enum { FINISH_THREADS = 128, BAR_FINISH = 3 };

/* --- Elements --- */

DEV void store_element(int type, void *p, int64_t i, float x) {
    if (type == GQA_ARG_F32)
        ((float *)p)[i] = x;
    else if (type == GQA_ARG_BF16)
        ((uint16_t *)p)[i] = (uint16_t)cvt_rn_bf16x2_f32(x, 0);
    else
        ((uint16_t *)p)[i] = (uint16_t)cvt_rn_f16x2_f32(x, 0);
}

DEV float v_scale_of(const struct gqa_args *a, const struct unit *u) {
    if (a->v_scales == GQA_ARG_SCALE_TENSOR)
        return a->v_scale[0];
    if (a->v_scales == GQA_ARG_SCALE_HEAD)
        return a->v_scale[u->kv_head];
    if (a->v_scales == GQA_ARG_SCALE_BATCH_HEAD)
        return a->v_scale[(int64_t)u->sequence * a->kv_heads + u->kv_head];
    return 1.0f;
}

/* Element of the head, within a block, that this thread's accumulators are; -1: none. With 64
 * rows the MMA leaves 16 of them in each warp's lanes 0 to 15. Ref: PTX ISA, "Data path layout". */
DEV int element_of(int thread) {
    if (V_ROWS == 128)
        return thread;
    return thread % 32 < 16 ? thread / 32 * 16 + thread % 32 : -1;
}

/* --- Rows --- */

struct row {
    float max, sum;
};

DEV struct row row_of(const struct stats *x, int r) {
    const struct row y = {x->max[r], (x->sum[0][r] + x->sum[1][r]) + (x->sum[2][r] + x->sum[3][r])};
    return y;
}

/* Let the sink join; what the row's accumulators are to be multiplied by on the way out. */
DEV float row_close(const struct gqa_args *a, const struct unit *u, int r, struct row *x) {
    float keep = 1;
    if (a->sinks) {
        const float sink = a->sinks[u->kv_head * a->group + r % a->group] * LOG2E;
        const float max = fmaxf(x->max, sink);
        keep = x->sum > 0 ? ex2_approx_ftz(x->max - max) : 0.0f;
        x->sum = x->sum * keep + ex2_approx_ftz(sink - max);
        x->max = max;
    }
    return x->sum > 0 || x->sum != x->sum ? keep * v_scale_of(a, u) / x->sum : 0.0f;
}

DEV void lse_put(const struct gqa_args *a, const struct unit *u, int r, const struct row *x) {
    if (!a->lse)
        return;
    const float log2_sum = x->max + lg2_approx_ftz(x->sum);
    a->lse[row_offset(a, u, &a->lse_stride, r)] = x->sum == 0     ? -INFINITY
                                                  : a->lse_base_2 ? log2_sum
                                                                  : log2_sum * LN2;
}

/* One thread per row: statistics to LSE or partial; where the row's elements go and times what. */
DEV void rows_close(const struct cta *c, const struct work *w, struct row x, int r,
                    bool to_output) {
    const struct gqa_args *a = c->args;
    struct side *side = &c->smem->side;
    const int at = w->u.row_tile * ROWS + r;
    side->row_at[r] = -1;
    side->row_factor[r] = 1;
    if (at >= unit_rows(a, &w->u))
        return;
    if (to_output) {
        side->row_factor[r] = row_close(a, &w->u, at, &x);
        side->row_at[r] = row_offset(a, &w->u, &a->o_stride, at);
        lse_put(a, &w->u, at, &x);
    } else {
        const int64_t row = (int64_t)w->p.slot * a->part_rows + r;
        side->row_at[r] = row * a->part_dim;
        a->part_ml[2 * row] = x.max;
        a->part_ml[2 * row + 1] = x.sum;
    }
}

/* --- Accumulators --- */

/* Where a part's elements go. */
struct target {
    void *to;
    int type, width;
};

DEV bool goes_to_output(const struct gqa_args *a, const struct work *w) {
    return a->finish == GQA_FINISH_OUTPUT || w->p.whole;
}

DEV struct target target_of(const struct gqa_args *a, const struct work *w) {
    const struct target output = {a->o, a->o_type, a->head_dim_v};
    const struct target partial = {a->part_o, GQA_ARG_F32, a->part_dim};
    return goes_to_output(a, w) ? output : partial;
}

/* Rows r .. r + 7 of block `block`, merged where FP8 split them. All 128 threads. */
DEV void output_take(const struct cta *c, int o_slot, int block, int r, float o[8]) {
    tmem_load_x8(o, output_tmem(c, o_slot, block, r));
    if (KV_IS_FP8) {
        float low[8];
        tmem_load_x8(low, output_tmem(c, o_slot, block, (ROWS + r) % N));
#pragma unroll
        for (int j = 0; j < 8; j++)
            o[j] += low[j] * (1 / LOW_SCALE);
    }
}

/* Element d of rows r .. r + 7. */
DEV void output_put(const struct cta *c, const struct target *x, int r, int d, const float o[8]) {
    const struct side *side = &c->smem->side;
    if (d >= x->width)
        return;
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (side->row_at[r + j] >= 0)
            store_element(x->type, x->to, side->row_at[r + j] + d, o[j] * side->row_factor[r + j]);
}

/* All of a part that has tiles: tensor memory to its target; then the slot is free. */
DEV void output_copy(const struct cta *c, const struct pipe *o, const struct target *x) {
    const int element = element_of(threadIdx.x % FINISH_THREADS);
    trace_enter(c->trace, TRACE_wait_O);
    pipe_wait(o);
    trace_enter(c->trace, x->to == c->args->part_o ? TRACE_partial_store : TRACE_output_store);
    tcgen05_fence_after_thread_sync();
    for (int i = 0; i < V_BLOCKS * ROWS; i += 8) {
        const int block = i / ROWS, r = i % ROWS;
        float y[8];
        output_take(c, o->slot, block, r, y);
        if (element >= 0)
            output_put(c, x, r, block * V_ROWS + element, y);
    }
    tcgen05_fence_before_thread_sync();
    __syncwarp();
    if (c->lane == 0)
        pipe_release(o);
}

DEV void output_zero(const struct cta *c, const struct target *x) {
    const float zeros[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int r = 0; r < ROWS; r += 8)
        for (int d = threadIdx.x % FINISH_THREADS; d < x->width; d += FINISH_THREADS)
            output_put(c, x, r, d, zeros);
}

/* --- The role --- */

/* A part's statistics. A part without tiles has neither scores nor accumulators. */
DEV void finish_rows(const struct cta *c, const struct work *w, struct pipe *stat) {
    const int r = threadIdx.x % FINISH_THREADS;
    struct row x = {NEG_LARGE, 0};
    trace_enter(c->trace, TRACE_wait_stats);
    if (w->tiles)
        pipe_wait(stat);
    trace_enter(c->trace, TRACE_stats_store);
    if (r < ROWS) {
        if (w->tiles)
            x = row_of(&c->smem->side.stats[stat->slot], r);
        rows_close(c, w, x, r, goes_to_output(c->args, w));
    }
    bar_sync(BAR_FINISH, FINISH_THREADS);
    if (!w->tiles)
        return;
    if (c->lane == 0)
        pipe_release(stat);
    pipe_next(stat);
}

/* A part's elements. An empty part of several leaves only statistics. */
DEV void finish_elements(const struct cta *c, const struct work *w, struct pipe *o) {
    const struct target x = target_of(c->args, w);
    if (w->tiles) {
        output_copy(c, o, &x);
        pipe_next(o);
    } else if (goes_to_output(c->args, w)) {
        output_zero(c, &x);
    }
    bar_sync(BAR_FINISH, FINISH_THREADS);
    trace_enter(c->trace, TRACE_other);
}

/* The part's queries, if it has tiles. */
DEV void query_prepare(const struct cta *c, const struct work *w, struct pipe *q) {
    if (!w->live || !w->tiles)
        return;
    trace_enter(c->trace, TRACE_wait_Q_slot);
    pipe_acquire(q);
    trace_enter(c->trace, TRACE_load_Q);
    query_put(c, w, q->slot, threadIdx.x % FINISH_THREADS, FINISH_THREADS);
    __syncwarp();
    if (c->lane == 0)
        pipe_commit(q);
    trace_enter(c->trace, TRACE_other);
    pipe_next(q);
}

DEV void finish_parts(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct pipe q = pipe_producer(side->q_full, side->q_empty, Q_STAGES);
    struct pipe stat = pipe_consumer(side->stat_full, side->stat_empty, STAT_STAGES);
    struct pipe o = pipe_consumer(side->o_full, side->o_empty, O_STAGES);
    struct work w = c->first, ahead = w;
    query_prepare(c, &ahead, &q);
    while (w.live) {
        trace_tile(c->trace, w.tiles - 1); /* what it waits for is the last one */
        work_next(c->args, &ahead);
        query_prepare(c, &ahead, &q);
        finish_rows(c, &w, &stat);
        trace_enter(c->trace, TRACE_producer_trigger);
        if (!ahead.live)
            pdl_launch_dependents();
        finish_elements(c, &w, &o);
        w = ahead;
    }
}

#endif
