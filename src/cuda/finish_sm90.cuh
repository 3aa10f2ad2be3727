/* SPDX-License-Identifier: Apache-2.0
 * Finishing in a cluster: each CTA of the cluster holds one part of the unit.
 *
 * cluster: elements of the row tile are dealt to the CTAs in slices. A CTA merges its warps and
 *   pushes every element to the inbox of the CTA that owns it; one cluster barrier; each CTA sums
 *   its inbox in ascending order of parts and writes its slice. Deterministic, nothing is zeroed,
 *   nobody reads remote memory, so nobody waits before it exits.
 * atomic: CTAs push only max and sum to everyone, then add their scaled accumulators into the
 *   output, which gqa_zero has zeroed. Order, and so the last bits, vary.
 *
 * The inbox is written only after every CTA of the cluster has started (the first cluster
 * barrier's arrive is the kernel's first act, its wait is here). */
#ifndef GQA_FINISH_SM90_CUH
#define GQA_FINISH_SM90_CUH

#include "finish.cuh"
#include "ptx_sm90.cuh"

enum { CLUSTER_MAX = 16, ITEMS = ROWS * QUADS };

/* Items (four neighbours of a row) [first(r), first(r + 1)) belong to CTA r. */
struct deal {
    int cluster, rank;
    int most;        /* items of a CTA, at most: the inbox's pitch */
    int first, last; /* of this CTA: [first, last) */
};

struct inbox {
    float o[ITEMS + CLUSTER_MAX][4]; /* [source][item - first] */
    float ml[CLUSTER_MAX][ROWS][2];
};

DEV int deal_first(const struct gqa_args *a, int rank) {
    return divide(rank * ITEMS + a->splits - 1, a->by_splits);
}

DEV struct deal deal_of(const struct gqa_args *a) {
    struct deal d;
    d.cluster = a->splits;
    d.rank = (int)cluster_ctarank();
    d.most = divide(ITEMS + a->splits - 1, a->by_splits);
    d.first = deal_first(a, d.rank);
    d.last = deal_first(a, d.rank + 1);
    return d;
}

/* Merge this CTA's warps and push every item to its owner, with its row's max and sum. */
DEV void cluster_push(const struct gqa_args *a, const struct merge_smem *x, struct inbox *in,
                      const struct deal *d, int t, int threads) {
    for (int i = t; i < ITEMS; i += threads) {
        const int owner = i * d->cluster / ITEMS, mine = i - deal_first(a, owner);
        const struct merged m = merge_warps(x, i / QUADS, i % QUADS);
        st_shared_cluster_v4(mapa(smem_addr(in->o[d->rank * d->most + mine]), owner), m.o[0],
                             m.o[1], m.o[2], m.o[3]);
        if (i % QUADS == 0 || mine == 0)
            st_shared_cluster_v2(mapa(smem_addr(in->ml[d->rank][i / QUADS]), owner), m.max, m.sum);
    }
}

/* One item over all sources, four at a time so that their loads overlap; in ascending order. */
DEV struct merged cluster_sum(const struct inbox *in, const struct deal *d, int mine, int r) {
    enum { AT_ONCE = 4 };
    struct merged m = {NEG_LARGE, 0, {0, 0, 0, 0}};
    for (int s = 0; s < d->cluster; s += AT_ONCE) {
        float2 ml[AT_ONCE];
        float4 o[AT_ONCE];
        float max = m.max;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int from = min_int(s + j, d->cluster - 1);
            ml[j] = *(const float2 *)in->ml[from][r];
            o[j] = *(const float4 *)in->o[from * d->most + mine];
            ml[j].y = s + j < d->cluster ? ml[j].y : 0.0f;
            max = ml[j].y != 0 ? fmaxf(max, ml[j].x) : max;
        }
        const float keep = ex2_approx_ftz(m.max - max);
        m.max = max;
        m.sum *= keep;
#pragma unroll
        for (int j = 0; j < 4; j++)
            m.o[j] *= keep;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const float weight = ml[j].y != 0 ? ex2_approx_ftz(ml[j].x - max) : 0.0f;
            m.sum += weight * ml[j].y;
            m.o[0] += weight * o[j].x;
            m.o[1] += weight * o[j].y;
            m.o[2] += weight * o[j].z;
            m.o[3] += weight * o[j].w;
        }
    }
    return m;
}

DEV void finish_cluster(const struct gqa_args *a, const struct unit *u, const struct merge_smem *x,
                        struct inbox *in, int t, int threads) {
    const struct deal d = deal_of(a);
    barrier_cluster_wait(); /* everyone has started */
    cluster_push(a, x, in, &d, t, threads);
    barrier_cluster_arrive();
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    barrier_cluster_wait();
    for (int i = d.first + t; i < d.last; i += threads) {
        const int r = i / QUADS;
        if (r >= rows)
            break;
        struct merged m = cluster_sum(in, &d, i - d.first, r);
        merged_write(a, u, u->row_tile * ROWS + r, 4 * (i % QUADS), &m, v_factor);
    }
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

DEV void finish_atomic(const struct gqa_args *a, const struct unit *u, const struct merge_smem *x,
                       struct inbox *in, int t, int threads) {
    const int cluster = a->splits, rank = (int)cluster_ctarank();
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    barrier_cluster_wait();
    for (int i = t; i < ROWS * cluster; i += threads) {
        const int r = i / cluster, to = i % cluster;
        const struct merged m = merge_warps(x, r, 0);
        st_shared_cluster_v2(mapa(smem_addr(in->ml[rank][r]), to), m.max, m.sum);
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    for (int i = t; i < rows * QUADS; i += threads) {
        const int r = i / QUADS, d = 4 * (i % QUADS), row = u->row_tile * ROWS + r;
        const struct merged own = merge_warps(x, r, i % QUADS);
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
            add_quad(a->o_type, a->o, row_offset(a, u, &a->o_stride, row) + d, o);
        if (rank == 0 && d == 0)
            lse_write(a, u, row, &all);
    }
}

#endif
