/* SPDX-License-Identifier: Apache-2.0
 * Role: finish in a cluster, one CTA per split of a unit. Statistics go to every peer in one hop of
 * 16-byte messages; each message carries its bytes to the barrier that its reader waits for.
 *
 *   CLUSTER  float32 accumulators go to the peer that owns the element (a slice of the head each),
 *            which adds them in rank order: deterministic, any output type, any cluster size
 *   ATOMIC   each CTA scales its own accumulators by what it learnt from the statistics and adds
 *            them into the zeroed output, rounded to the output's type, in any order
 *
 * Nobody waits at the end: a CTA leaves when it has received all that is addressed to it, so no
 * message can find its reader gone. */
#ifndef GQA_DECODE_SM100_CLUSTER_CUH
#define GQA_DECODE_SM100_CLUSTER_CUH

#include "decode_sm100_finish.cuh"

enum { MAIL_STATS = 0, MAIL_OUTPUT = 1, ROW_BYTES = ROWS * 4 };

/* How the head's elements are dealt out, in fours: CTA `rank` owns [first, first + count). */
struct slice {
    int first, count, most;
};

DEV struct slice slice_of(int rank, int ctas) {
    enum { QUADS = HEAD_DIM / 4 };
    struct slice x;
    x.first = (rank * QUADS + ctas - 1) / ctas * 4;
    x.count = ((rank + 1) * QUADS + ctas - 1) / ctas * 4 - x.first;
    x.most = (QUADS + ctas - 1) / ctas * 4;
    return x;
}

/* The rank that owns element d. */
DEV int slice_owner(int d, int ctas) {
    return d / 4 * ctas / (HEAD_DIM / 4);
}

/* What will arrive; one thread, before the cluster barrier. */
DEV void mail_expect(const struct cta *c) {
    const int ctas = c->args->splits;
    const struct side *side = &c->smem->side;
    const int own = slice_of(cluster_ctarank(), ctas).count;
    mbarrier_arrive_expect_tx(smem_addr(&side->mail_full[MAIL_STATS]), ctas * 2 * ROW_BYTES);
    if (c->args->finish == GQA_FINISH_CLUSTER)
        mbarrier_arrive_expect_tx(smem_addr(&side->mail_full[MAIL_OUTPUT]), ctas * own * ROW_BYTES);
}

DEV void mail_wait(const struct cta *c, int which) {
    const uint32_t bar = smem_addr(&c->smem->side.mail_full[which]);
    while (!mbarrier_try_wait_parity_cluster(bar, 0)) {
    }
}

/* --- Statistics --- */

/* Four rows' maxima (kind 0) or sums (kind 1). */
DEV float4 stats_quad(const struct stats *x, int kind, int r) {
    if (!kind)
        return make_float4(x->max[r], x->max[r + 1], x->max[r + 2], x->max[r + 3]);
    return make_float4(row_of(x, r).sum, row_of(x, r + 1).sum, row_of(x, r + 2).sum,
                       row_of(x, r + 3).sum);
}

DEV void stats_send(const struct cta *c, const struct stats *x, bool any) {
    enum { QUADS = ROWS / 4 };
    struct side *side = &c->smem->side;
    const int rank = cluster_ctarank();
    for (int i = threadIdx.x % FINISH_THREADS; i < c->args->splits * 2 * QUADS;
         i += FINISH_THREADS) {
        const int peer = i / (2 * QUADS), kind = i / QUADS % 2, r = i % QUADS * 4;
        const float none = kind ? 0.0f : NEG_LARGE;
        const float4 v = any ? stats_quad(x, kind, r) : make_float4(none, none, none, none);
        st_async_v4(mapa(smem_addr(&side->mail_ml[rank][kind][r]), peer), v.x, v.y, v.z, v.w,
                    mapa(smem_addr(&side->mail_full[MAIL_STATS]), peer));
    }
}

/* Row r over all CTAs; mail_ml[i][0][r] becomes what CTA i's accumulators are multiplied by on the
 * way to the output, 0 where it saw nothing. One thread per row. */
DEV void stats_merge(const struct cta *c, const struct work *w, int r) {
    const struct gqa_args *a = c->args;
    struct side *side = &c->smem->side;
    const int at = w->u.row_tile * ROWS + r;
    struct row x = {NEG_LARGE, 0};
    side->row_at[r] = -1;
    if (at >= unit_rows(a, &w->u))
        return;
    for (int i = 0; i < a->splits; i++)
        x.max = side->mail_ml[i][1][r] == 0 ? x.max : fmaxf(x.max, side->mail_ml[i][0][r]);
    const float max = x.max;
    for (int i = 0; i < a->splits; i++)
        if (side->mail_ml[i][1][r] != 0)
            x.sum += side->mail_ml[i][1][r] * ex2_approx_ftz(side->mail_ml[i][0][r] - max);
    const float factor = row_close(a, &w->u, at, &x);
    for (int i = 0; i < a->splits; i++)
        side->mail_ml[i][0][r] = side->mail_ml[i][1][r] != 0
                                     ? factor * ex2_approx_ftz(side->mail_ml[i][0][r] - max)
                                     : 0.0f;
    side->row_at[r] = row_offset(a, &w->u, &a->o_stride, at);
    if (cluster_ctarank() == 0)
        lse_put(a, &w->u, at, &x);
}

/* --- CLUSTER --- */

/* Element d of rows r .. r + 7 to the CTA that owns it. */
DEV void element_send(const struct cta *c, int d, int r, const float o[8]) {
    struct side *side = &c->smem->side;
    const int ctas = c->args->splits, peer = slice_owner(d, ctas);
    const struct slice x = slice_of(peer, ctas);
    const int at = (cluster_ctarank() * x.most + d - x.first) * ROWS + r;
    const uint32_t to = mapa(smem_addr(&side->mail_o[at]), peer);
    const uint32_t bar = mapa(smem_addr(&side->mail_full[MAIL_OUTPUT]), peer);
    st_async_v4(to, o[0], o[1], o[2], o[3], bar);
    st_async_v4(to + 16, o[4], o[5], o[6], o[7], bar);
}

DEV void output_send(const struct cta *c, const struct pipe *o, bool any) {
    const int element = element_of(threadIdx.x % FINISH_THREADS);
    if (any) {
        trace_enter(c->trace, TRACE_wait_O);
        pipe_wait(o);
        tcgen05_fence_after_thread_sync();
    }
    trace_enter(c->trace, TRACE_cluster_send);
    for (int i = 0; i < V_BLOCKS * ROWS; i += 8) {
        float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (any)
            output_take(c, o->slot, i / ROWS, i % ROWS, x);
        if (element >= 0)
            element_send(c, i / ROWS * V_ROWS + element, i % ROWS, x);
    }
}

/* The own slice: accumulators of all CTAs in rank order. */
DEV void output_merge(const struct cta *c) {
    const struct gqa_args *a = c->args;
    const struct side *side = &c->smem->side;
    const struct slice own = slice_of(cluster_ctarank(), a->splits);
    for (int i = threadIdx.x % FINISH_THREADS; i < own.count * ROWS; i += FINISH_THREADS) {
        const int r = i / own.count, e = i - r * own.count;
        float sum = 0;
        for (int peer = 0; peer < a->splits; peer++) {
            const float factor = side->mail_ml[peer][0][r];
            if (factor != 0)
                sum += factor * side->mail_o[(peer * own.most + e) * ROWS + r];
        }
        if (side->row_at[r] >= 0 && own.first + e < a->head_dim_v)
            store_element(a->o_type, a->o, side->row_at[r] + own.first + e, sum);
    }
}

DEV void finish_cluster(const struct cta *c, const struct work *w, const struct pipe *o) {
    const int r = threadIdx.x % FINISH_THREADS;
    output_send(c, o, w->tiles);
    trace_enter(c->trace, TRACE_wait_cluster);
    mail_wait(c, MAIL_STATS);
    trace_enter(c->trace, TRACE_stats_store);
    if (r < ROWS)
        stats_merge(c, w, r);
    bar_sync(BAR_FINISH, FINISH_THREADS);
    trace_enter(c->trace, TRACE_wait_cluster);
    mail_wait(c, MAIL_OUTPUT);
    trace_enter(c->trace, TRACE_cluster_merge);
    output_merge(c);
}

/* --- ATOMIC --- */

/* Scaled accumulators, in the output's type, as rows in shared memory: the K/V ring, which every
 * MMA has left. */
DEV void output_stage(const struct cta *c, const struct pipe *o, void *rows) {
    const int element = element_of(threadIdx.x % FINISH_THREADS);
    const struct side *side = &c->smem->side;
    trace_enter(c->trace, TRACE_wait_O);
    pipe_wait(o);
    trace_enter(c->trace, TRACE_output_store);
    tcgen05_fence_after_thread_sync();
    for (int i = 0; i < V_BLOCKS * ROWS; i += 8) {
        const int block = i / ROWS, r = i % ROWS;
        float x[8];
        output_take(c, o->slot, block, r, x);
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (element >= 0)
                store_element(c->args->o_type, rows, (r + j) * HEAD_DIM + block * V_ROWS + element,
                              x[j] * side->mail_ml[cluster_ctarank()][0][r + j]);
    }
    fence_proxy_async();
}

DEV void row_add(const struct gqa_args *a, int64_t at, uint32_t row_smem) {
    const int bytes = a->o_type == GQA_ARG_F32 ? 4 : 2;
    void *to = (char *)a->o + at * bytes;
    if (a->o_type == GQA_ARG_F32)
        cp_reduce_async_bulk_add_f32(to, row_smem, a->head_dim_v * bytes);
    else if (a->o_type == GQA_ARG_BF16)
        cp_reduce_async_bulk_add_bf16(to, row_smem, a->head_dim_v * bytes);
    else
        cp_reduce_async_bulk_add_f16(to, row_smem, a->head_dim_v * bytes);
}

DEV void finish_atomic(const struct cta *c, const struct work *w, const struct pipe *o) {
    const int r = threadIdx.x % FINISH_THREADS;
    const struct side *side = &c->smem->side;
    const int bytes = c->args->o_type == GQA_ARG_F32 ? 4 : 2;
    trace_enter(c->trace, TRACE_wait_cluster);
    mail_wait(c, MAIL_STATS);
    trace_enter(c->trace, TRACE_stats_store);
    if (r < ROWS)
        stats_merge(c, w, r);
    bar_sync(BAR_FINISH, FINISH_THREADS);
    if (!w->tiles)
        return;
    output_stage(c, o, c->smem->kv);
    bar_sync(BAR_FINISH, FINISH_THREADS);
    if (r < ROWS && side->row_at[r] >= 0 && side->mail_ml[cluster_ctarank()][0][r] != 0) {
        row_add(c->args, side->row_at[r], smem_addr(c->smem->kv) + r * HEAD_DIM * bytes);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_0();
    }
}

/* --- The role --- */

/* A part whose tiles are all summed into the slot at which `o` stands. */
DEV void cluster_close(const struct cta *c, const struct work *w, const struct pipe *stat,
                       const struct pipe *o) {
    trace_tile(c->trace, w->tiles - 1);
    trace_enter(c->trace, TRACE_wait_stats);
    if (w->tiles)
        pipe_wait(stat);
    trace_enter(c->trace, TRACE_cluster_send);
    stats_send(c, &c->smem->side.stats[stat->slot], w->tiles);
    trace_enter(c->trace, TRACE_producer_trigger);
    pdl_launch_dependents();
    if (c->args->finish == GQA_FINISH_CLUSTER)
        finish_cluster(c, w, o);
    else
        finish_atomic(c, w, o);
}

DEV void finish_in_cluster(const struct cta *c) {
    const struct side *side = &c->smem->side;
    struct pipe q = pipe_producer(side->q_full, side->q_empty, Q_STAGES);
    const struct pipe stat = pipe_consumer(side->stat_full, side->stat_empty, STAT_STAGES);
    const struct pipe o = pipe_consumer(side->o_full, side->o_empty, O_STAGES);
    if (!c->first.live)
        return;
    query_prepare(c, &c->first, &q);
    cluster_close(c, &c->first, &stat, &o);
}

DEV void finish(const struct cta *c) {
    if (c->args->finish >= GQA_FINISH_ATOMIC)
        finish_in_cluster(c);
    else
        finish_parts(c);
}

#endif
