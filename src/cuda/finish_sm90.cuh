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

struct inbox {
    float o[ITEMS + 4 * CLUSTER_MAX][4]; /* [source][owned item], owned = ceil(ITEMS / cluster) */
    float ml[CLUSTER_MAX][ROWS][2];
};

static_assert(ITEMS % 32 == 0, "the slack of 4 per source covers the rounding up");

/* Merge this CTA's warps and push: all elements to their owners, or with `ml_only` just max and sum
 * to everyone. Thread t of `threads`. */
DEV void cluster_push(const struct merge_smem *x, struct inbox *in, int cluster, int rank, int t,
                      int threads) {
    const int owned = (ITEMS + cluster - 1) / cluster;
    for (int i = t; i < ITEMS; i += threads) {
        const struct merged m = merge_warps(x, i / QUADS, i % QUADS);
        const int owner = i / owned;
        st_shared_cluster_v4(mapa(smem_addr(in->o[rank * owned + i - owner * owned]), owner),
                             m.o[0], m.o[1], m.o[2], m.o[3]);
        /* Whoever owns an element of the row needs its max and sum; one of its elements sends. */
        if (i % QUADS == 0 || i == owner * owned)
            st_shared_cluster_v2(mapa(smem_addr(in->ml[rank][i / QUADS]), owner), m.max, m.sum);
    }
}

DEV struct merged cluster_sum(const struct inbox *in, int cluster, int owned, int mine, int r) {
    struct merged m;
    m.max = NEG_LARGE;
    m.sum = 0;
    for (int j = 0; j < 4; j++)
        m.o[j] = 0;
    for (int s = 0; s < cluster; s++)
        m.max = fmaxf(m.max, in->ml[s][r][1] > 0 ? in->ml[s][r][0] : NEG_LARGE);
    for (int s = 0; s < cluster; s++) {
        const float sum = in->ml[s][r][1];
        const float weight = sum > 0 ? ex2_approx_ftz(in->ml[s][r][0] - m.max) : 0.0f;
        const float4 o = *(const float4 *)in->o[s * owned + mine];
        m.sum += weight * sum;
        m.o[0] += weight * o.x;
        m.o[1] += weight * o.y;
        m.o[2] += weight * o.z;
        m.o[3] += weight * o.w;
    }
    return m;
}

DEV void finish_cluster(const struct gqa_args *a, const struct unit *u, const struct merge_smem *x,
                        struct inbox *in, int t, int threads) {
    const int cluster = a->splits, rank = (int)cluster_ctarank();
    const int owned = (ITEMS + cluster - 1) / cluster;
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    barrier_cluster_wait(); /* everyone has started */
    cluster_push(x, in, cluster, rank, t, threads);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    for (int mine = t; mine < owned; mine += threads) {
        const int i = rank * owned + mine, r = i / QUADS;
        if (i >= ITEMS || r >= rows)
            continue;
        struct merged m = cluster_sum(in, cluster, owned, mine, r);
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
            all.max = fmaxf(all.max, in->ml[s][r][1] > 0 ? in->ml[s][r][0] : NEG_LARGE);
        for (int s = 0; s < cluster; s++)
            if (in->ml[s][r][1] > 0)
                all.sum += in->ml[s][r][1] * ex2_approx_ftz(in->ml[s][r][0] - all.max);
        merged_add_sink(a, u, row, &all);
        float o[4];
        const float factor =
            own.sum > 0 ? ex2_approx_ftz(own.max - all.max) * v_factor * rcp_approx_ftz(all.sum)
                        : 0.0f;
        for (int j = 0; j < 4; j++)
            o[j] = own.o[j] * factor;
        if (own.sum > 0 && d < a->head_dim_v)
            add_quad(a->o_type, a->o, row_offset(a, u, &a->o_stride, row) + d, o);
        if (rank == 0 && d == 0)
            lse_write(a, u, row, &all);
    }
}

#endif
