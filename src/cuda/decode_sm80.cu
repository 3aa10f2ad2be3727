/* SPDX-License-Identifier: Apache-2.0
 * Portable decode kernel, sm_80 and later: registers and mma.sync.
 *
 * A CTA of WARPS warps attends to one part (or to a share of several); its warps take the part's
 * 16-token steps in turn, each with its own softmax state, straight from global memory; the warps
 * are merged once per part through shared memory. Nothing is synchronised in between.
 *
 *      K, V rows --16 B loads--> registers --mma.sync--> O^T per warp --smem--> output | partial
 *
 * Ceiling: 2 * head_dim * KV_BYTES bytes per token and KV head, read once per row tile. In flight:
 * one step per warp. Bound by memory once 12 warps per SM are resident; by latency below.
 *
 * Signal map: one __syncthreads after the warps' stores, one before the store area is reused. */
#define GQA_WARPS        GQA_WARPS_sm80(GQA_KV >= GQA_KV_e4m3 ? 1 : 2, GQA_HEAD_DIM, GQA_GROUP)
#define GQA_TOKEN_STRIDE 4
#define GQA_K_BLOCK      128
#define GQA_V_DIM        (GQA_HEAD_DIM < 128 ? GQA_HEAD_DIM : 128)
#define GQA_Q_REGISTERS  16
#define GQA_ACC_CHAINS   1
#define GQA_TEAMS        (GQA_WARPS / SLICES)
#define GQA_SUM_WARPS    1

#include "args.h"
#include "shape.h"
#include "registers.cuh"
#include "finish.cuh"

static_assert(GQA_WARPS % SLICES == 0, "whole teams");

enum { WARPS = GQA_WARPS, THREADS = 32 * WARPS };

struct smem {
    struct merge_smem merge;
    struct q_smem q[Q_IN_SMEM]; /* written before attending, read until the warps' stores */
};

DEV void attend(const struct gqa_args *a, struct smem *smem, const struct unit *u,
                const struct part *p) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int team = warp / SLICES, slice = warp % SLICES;
    struct softmax x;
    softmax_init(&x);
    const struct place to = place_of(a, u);
    struct q_frag q;
    const struct q_rows rows = q_rows_of(a, u, lane);
    if (Q_IN_SMEM) {
        q_prepare(a, &rows, smem->q, warp, WARPS, lane);
        __syncthreads();
    } else {
        q = q_load(a, &rows, 0, lane);
    }
    if (p->begin < p->end)
        attend_registers(a, u, p, &q, smem->q, &x, team, TEAMS, slice, lane);
    softmax_store(&x, &smem->merge, team, slice * SLICE_DIM, slice, lane);
    __syncthreads();
    finish_cta(a, u, p, &to, &smem->merge, TEAMS, threadIdx.x, THREADS);
}

DEV void attend_share(const struct gqa_args *a, struct smem *smem) {
    const int cta = blockIdx.x;
    const struct shares all = shares_of(a);
    struct share x = share_of(a, &all, cta);
    struct unit u;
    struct part p;
    while (share_next(a, &x, cta, ROWS, &u, &p)) {
        attend(a, smem, &u, &p);
        __syncthreads();
    }
}

DEV void attend_split(const struct gqa_args *a, struct smem *smem) {
    const int index = divide(blockIdx.x, a->by_splits), s = blockIdx.x - index * a->splits;
    const struct unit u = unit_of_index(a, index);
    int g0, g1;
    if (u.row_tile * ROWS >= unit_rows(a, &u) || !split_grains(a, &u, s, &g0, &g1))
        return;
    const struct part p = part_of_grains(a, &u, ROWS, g0, g1, blockIdx.x);
    attend(a, smem, &u, &p);
}

extern "C" __global__ void __launch_bounds__(THREADS, GQA_MIN_CTAS_sm80(0, HEAD_DIM, ROWS))
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(16) unsigned char raw[];
    struct smem *smem = (struct smem *)raw;
    static_assert(sizeof(struct smem) <= GQA_SMEM_sm80(0, HEAD_DIM, ROWS), "shape.h is behind");
    if (args.schedule == GQA_SCHED_SHARES)
        attend_share(&args, smem);
    else
        attend_split(&args, smem);
}
