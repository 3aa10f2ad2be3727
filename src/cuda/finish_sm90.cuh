/* SPDX-License-Identifier: Apache-2.0
 * Finishing in a cluster: each CTA of the cluster holds one part of the unit.
 *
 * cluster: elements of the row tile are dealt to the CTAs in slices. A CTA merges its teams and
 *   sends every element to the inbox of the CTA that owns it; each CTA waits until its inbox is
 *   full, sums it over the parts in a fixed tree, and writes its slice. Deterministic, nothing is
 *   zeroed.
 * atomic: CTAs send only max and sum to everyone, then add their scaled accumulators into the
 *   output, which gqa_zero has zeroed. Order, and so the last bits, vary.
 *
 * Inboxes are written only after every CTA of the cluster has started (the cluster barrier's arrive
 * is the kernel's first act, its wait is in cluster_begin). They count bytes on an mbarrier: a
 * second cluster barrier would cost a fence to GPU scope, some 500 ns. A CTA whose inbox is full
 * has nothing more to receive, so it may exit. */
#ifndef GQA_FINISH_SM90_CUH
#define GQA_FINISH_SM90_CUH

#include "finish.cuh"
#include "ptx_sm90.cuh"
#include "trace.cuh"

enum { CLUSTER_MAX = 16 };

/* Items (four neighbours of a row) [first(r), first(r + 1)) belong to CTA r. */
struct deal {
    int cluster, rank;
    int pitch;       /* of the inbox: items of a CTA, at most; odd, for the banks' sake */
    int first, last; /* of this CTA: [first, last) */
};

struct inbox {
    float o[ITEMS + 2 * CLUSTER_MAX][4]; /* [source][item - first] */
    float ml[CLUSTER_MAX][ROWS][2];
    alignas(16) struct deal deal; /* worked out before there is anything to wait for */
    alignas(8) uint64_t full;     /* one arrival, and what everyone sends */
};

DEV void inbox_wait(struct inbox *in) {
    while (!mbarrier_try_wait_parity_cluster(smem_addr(&in->full), 0)) {
    }
}

DEV int deal_first(const struct gqa_args *a, int rank) {
    return divide(rank * ITEMS + a->cluster - 1, a->by_cluster);
}

DEV struct deal deal_of(const struct gqa_args *a) {
    struct deal d;
    d.cluster = a->cluster;
    d.rank = (int)cluster_ctarank();
    d.pitch = divide(ITEMS + a->cluster - 1, a->by_cluster) | 1;
    d.first = deal_first(a, d.rank);
    d.last = deal_first(a, d.rank + 1);
    return d;
}

/* Merge this CTA's teams and send every item to its owner, with its row's max and sum. */
DEV void cluster_send(const struct gqa_args *a, const struct merge_smem *x, struct inbox *in,
                      const struct deal *d, int teams, int t, int threads) {
#pragma unroll(SLICES > 1 ? 1 : 2)
    for (int i = t; i < ITEMS; i += threads) {
        const int owner = i * d->cluster / ITEMS, mine = i - deal_first(a, owner);
        const struct merged m = merge_teams(x, teams, i / QUADS, i % QUADS);
        const uint32_t full = mapa(smem_addr(&in->full), owner);
        st_async_v4(mapa(smem_addr(in->o[d->rank * d->pitch + mine]), owner), full, m.o[0], m.o[1],
                    m.o[2], m.o[3]);
        if (i % QUADS == 0 || mine == 0)
            st_async_v2(mapa(smem_addr(in->ml[d->rank][i / QUADS]), owner), full, m.max, m.sum);
    }
}

/* Bytes that all CTAs send to this one. */
DEV int cluster_bytes(const struct deal *d) {
    const int rows = (d->last - 1) / QUADS - d->first / QUADS + 1;
    return d->cluster * ((d->last - d->first) * 16 + rows * 8);
}

/* Item `mine`, a quad of row r, over the sources lane, lane + lanes, ...; two at a time. */
DEV struct merged inbox_sum(const struct inbox *in, const struct deal *d, int mine, int r, int lane,
                            int lanes) {
    enum { AT_ONCE = 2 };
    struct merged m = {NEG_LARGE, 0, {0, 0, 0, 0}};
    for (int first = lane; first < d->cluster; first += AT_ONCE * lanes) {
        float2 ml[AT_ONCE];
        float4 o[AT_ONCE];
        float max = m.max;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int s = first + j * lanes;
            ml[j] = make_float2(NEG_LARGE, 0);
            o[j] = make_float4(0, 0, 0, 0);
            if (s < d->cluster) {
                ml[j] = *(const float2 *)in->ml[s][r];
                o[j] = *(const float4 *)in->o[s * d->pitch + mine];
            }
            max = ml[j].y != 0 ? fmaxf(max, ml[j].x) : max;
        }
        const float keep = ex2_approx_ftz(m.max - max);
        m.max = max;
        m.sum *= keep;
#pragma unroll
        for (int i = 0; i < 4; i++)
            m.o[i] *= keep;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const bool used = ml[j].y != 0;
            const float weight = used ? ex2_approx_ftz(ml[j].x - max) : 0.0f;
            m.sum += used ? weight * ml[j].y : 0.0f;
            m.o[0] += used ? weight * o[j].x : 0.0f;
            m.o[1] += used ? weight * o[j].y : 0.0f;
            m.o[2] += used ? weight * o[j].z : 0.0f;
            m.o[3] += used ? weight * o[j].w : 0.0f;
        }
    }
    return m;
}

/* Over `lanes` neighbours, 1, 2, 4 or 8; the result is in all of them. All 32 lanes. */
DEV void merged_join(struct merged *m, int lanes) {
    if (lanes == 1)
        return;
    float max = m->max;
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
        if (step < lanes)
            max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, step));
    const float keep = ex2_approx_ftz(m->max - max);
    m->max = max;
    m->sum *= keep;
#pragma unroll
    for (int j = 0; j < 4; j++)
        m->o[j] *= keep;
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
        if (step < lanes) {
            m->sum += __shfl_xor_sync(0xffffffffu, m->sum, step);
#pragma unroll
            for (int j = 0; j < 4; j++)
                m->o[j] += __shfl_xor_sync(0xffffffffu, m->o[j], step);
        }
}

/* What of this CTA's slice a thread writes: several lanes share an item's sources. */
struct collector {
    int lane, lanes; /* of the item */
    int step;        /* items that all threads take at a time */
    int item;        /* of the row tile: this thread's first */
};

/* For so many sources of an item. */
DEV struct collector collector_of(const struct deal *d, int sources, int t, int threads) {
    int shift = sources > 4 ? 3 : sources > 2 ? 2 : 1;
    while (shift && (d->last - d->first) << shift > threads)
        shift--;
    const struct collector x = {t & ((1 << shift) - 1), 1 << shift, threads >> shift,
                                d->first + (t >> shift)};
    return x;
}

/* This CTA's slice from the inbox to memory. All threads as often. */
DEV void cluster_collect(const struct gqa_args *a, const struct unit *u, const struct inbox *in,
                         const struct deal *d, const struct place *to, const struct collector *x,
                         float v_factor) {
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    for (int item = x->item; item - x->item + d->first < d->last; item += x->step) {
        const int i = min_int(item, d->last - 1), r = i / QUADS, quad = i % QUADS;
        struct merged m = inbox_sum(in, d, i - d->first, r, x->lane, x->lanes);
        merged_join(&m, x->lanes);
        if (x->lane || item >= d->last || r >= rows)
            continue;
        merged_write(a, u, to, u->row_tile * ROWS + r, 4 * quad, &m, v_factor);
    }
}

/* Before there is anything to send, in the CTA's first part: everyone has started, and thread 0's
 * inbox knows what comes. `t`: of the attend warps. */
DEV void cluster_begin(const struct gqa_args *a, struct inbox *in, int t) {
    const struct deal d = deal_of(a);
    if (t == 0)
        in->deal = d;
    if (a->cluster == 1)
        return;
    barrier_cluster_wait();
    if (t == 0)
        mbarrier_arrive_expect_tx(smem_addr(&in->full), a->finish == GQA_FINISH_ATOMIC
                                                            ? a->cluster * ROWS * 8
                                                            : cluster_bytes(&d));
}

DEV void finish_cluster(const struct gqa_args *a, const struct unit *u, const struct place *to,
                        const struct merge_smem *x, int teams, struct inbox *in,
                        struct trace *trace, int t, int threads) {
    const struct deal d = in->deal;
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    const struct collector mine = collector_of(&d, d.cluster, t, threads);
    trace_enter(trace, TRACE_cluster_send);
    cluster_send(a, x, in, &d, teams, t, threads);
    trace_enter(trace, TRACE_wait_cluster);
    inbox_wait(in);
    trace_enter(trace, TRACE_cluster_merge);
    cluster_collect(a, u, in, &d, to, &mine, v_factor);
}

/* --- Atomic --- */

DEV void add_quad(int type, void *p, int64_t i, const float x[4]) {
    if (type == GQA_ARG_F32) {
        for (int j = 0; j < 4; j++)
            red_global_add_f32((float *)p + i + j, x[j]);
        return;
    }
    uint16_t *at = (uint16_t *)p + i;
    for (int j = 0; j < 4; j += 2) {
        if (type == GQA_ARG_BF16)
            red_global_add_bf16x2(at + j, cvt_rn_bf16x2_f32(x[j], x[j + 1]));
        else
            red_global_add_f16x2(at + j, cvt_rn_f16x2_f32(x[j], x[j + 1]));
    }
}

DEV void finish_atomic(const struct gqa_args *a, const struct unit *u, const struct place *to,
                       const struct merge_smem *x, int teams, struct inbox *in, int t,
                       int threads) {
    const int cluster = a->cluster, rank = (int)cluster_ctarank();
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    for (int i = t; i < ITEMS; i += threads) {
        const int r = i / QUADS, peer = i % QUADS;
        const struct merged m = merge_teams(x, teams, r, 0);
        if (peer < cluster)
            st_async_v2(mapa(smem_addr(in->ml[rank][r]), peer), mapa(smem_addr(&in->full), peer),
                        m.max, m.sum);
    }
    inbox_wait(in);
    for (int i = t; i < ITEMS; i += threads) {
        const int r = i / QUADS, d = 4 * (i % QUADS), row = u->row_tile * ROWS + r;
        const struct merged own = merge_teams(x, teams, r, i % QUADS);
        if (r >= rows)
            continue;
        struct merged all = {NEG_LARGE, 0, {0, 0, 0, 0}};
        for (int s = 0; s < cluster; s++)
            all.max = fmaxf(all.max, in->ml[s][r][1] != 0 ? in->ml[s][r][0] : NEG_LARGE);
        for (int s = 0; s < cluster; s++)
            if (in->ml[s][r][1] != 0)
                all.sum += in->ml[s][r][1] * ex2_approx_ftz(in->ml[s][r][0] - all.max);
        merged_add_sink(a, u, row, &all);
        float o[4];
        const float factor =
            own.sum != 0 ? ex2_approx_ftz(own.max - all.max) * v_factor * rcp_approx_ftz(all.sum)
                         : 0.0f;
        for (int j = 0; j < 4; j++)
            o[j] = own.o[j] * factor;
        if (own.sum != 0 && d < a->head_dim_v)
            add_quad(a->o_type, to->o, place_offset(a, &a->o_stride, row) + d, o);
        if (rank == 0 && d == 0)
            lse_write(a, to, row, &all);
    }
}

#endif
