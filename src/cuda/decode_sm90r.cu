/* SPDX-License-Identifier: Apache-2.0
 * Hopper, short KV: the portable kernel's loop, with clusters and programmatic dependent launch.
 *
 * Where every CTA has a few hundred tokens, a ring only adds latency: a warp asks for its first
 * tokens as soon as it knows the length. The splits of a unit are one cluster and merge through
 * distributed shared memory (finish_sm90.cuh), in one launch.
 *
 * Ceiling: the launch, two dependent loads (length, then K), the merge: about 3 us; then memory.
 *
 * Signal map: __syncthreads after the warps' stores; barrier.cluster phase 0 "all have started",
 * phase 1 "all have pushed". */
#define GQA_WARPS GQA_WARPS_sm90r(GQA_KV >= GQA_KV_e4m3 ? 1 : 2, GQA_HEAD_DIM, GQA_GROUP)

#include "args.h"
#include "shape.h"
#include "registers.cuh"
#include "finish_sm90.cuh"

enum { WARPS = GQA_WARPS, THREADS = 32 * WARPS };

struct smem {
    struct merge_smem merge;
    struct inbox inbox;
    struct q_smem q[Q_IN_SMEM]; /* written before attending, read until the warps' stores */
};

/* The warps' results of one part are in shared memory afterwards. */
DEV void attend(const struct gqa_args *a, struct smem *smem, const struct unit *u,
                const struct part *p) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int team = warp / SLICES, slice = warp % SLICES;
    struct softmax x;
    struct q_frag q;
    softmax_init(&x);
    q_prepare(a, u, smem->q, &q, warp, lane);
    if (Q_IN_SMEM)
        __syncthreads();
    if (p->begin < p->end)
        attend_registers(a, u, p, &q, smem->q, &x, team, TEAMS, slice, lane);
    softmax_store(&x, smem_addr(&smem->merge.o[team][0][slice * SLICE_DIM]), PITCH,
                  smem_addr(smem->merge.ml[team]), lane);
    __syncthreads();
}

DEV void attend_share(const struct gqa_args *a, struct smem *smem) {
    const int cta = blockIdx.x;
    const struct shares all = shares_of(a);
    struct share x = share_of(a, &all, cta);
    struct unit u;
    struct part p;
    while (share_next(a, &x, cta, ROWS, &u, &p)) {
        attend(a, smem, &u, &p);
        finish_cta(a, &u, &p, &smem->merge, threadIdx.x, THREADS);
        __syncthreads();
    }
}

DEV void attend_split(const struct gqa_args *a, struct smem *smem) {
    const int index = blockIdx.x / a->splits, s = blockIdx.x - index * a->splits;
    const struct unit u = unit_of_index(a, index);
    int g0, g1;
    if (u.row_tile * ROWS >= unit_rows(a, &u) || !split_grains(a, &u, s, &g0, &g1))
        return;
    const struct part p = part_of_grains(a, &u, ROWS, g0, g1, blockIdx.x);
    attend(a, smem, &u, &p);
    finish_cta(a, &u, &p, &smem->merge, threadIdx.x, THREADS);
}

/* Every CTA of the cluster takes part, also one without tokens. */
DEV void attend_cluster(const struct gqa_args *a, struct smem *smem) {
    const int index = blockIdx.x / a->splits, s = blockIdx.x - index * a->splits;
    const struct unit u = unit_of_index(a, index);
    int g0, g1;
    split_grains(a, &u, s, &g0, &g1);
    const struct part p = part_of_grains(a, &u, ROWS, g0, g1, 0);
    attend(a, smem, &u, &p);
    if (a->finish == GQA_FINISH_CLUSTER)
        finish_cluster(a, &u, &smem->merge, &smem->inbox, threadIdx.x, THREADS);
    else
        finish_atomic(a, &u, &smem->merge, &smem->inbox, threadIdx.x, THREADS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(16) unsigned char raw[];
    struct smem *smem = (struct smem *)raw;
    static_assert(sizeof(struct smem) <= GQA_SMEM_sm90r(0, HEAD_DIM, ROWS), "shape.h is behind");
    const bool in_cluster = args.finish >= GQA_FINISH_ATOMIC;
    if (in_cluster)
        barrier_cluster_arrive_relaxed();
    pdl_launch_dependents();
    pdl_wait();
    if (in_cluster)
        attend_cluster(&args, smem);
    else if (args.schedule == GQA_SCHED_SHARES)
        attend_share(&args, smem);
    else
        attend_split(&args, smem);
}
