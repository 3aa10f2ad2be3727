/* SPDX-License-Identifier: Apache-2.0
 * The frame of every Blackwell pipeline: barriers, tensor memory, the cluster, the way in and out,
 * and the kernel itself, which hands each warp to its role (`roles`, of decode_sm100_ten.cuh or
 * decode_sm100_sixteen.cuh). Arrivals per phase are those of the signal maps in the kernel files;
 * barriers that a pipeline does not use are initialised all the same. */
#ifndef GQA_DECODE_SM100_FRAME_CUH
#define GQA_DECODE_SM100_FRAME_CUH

#include "decode_sm100_cluster.cuh"

DEV void init_pipe(const uint64_t *full, int full_count, const uint64_t *empty, int empty_count,
                   int depth) {
    for (int i = 0; i < depth; i++) {
        mbarrier_init(smem_addr(full + i), full_count);
        mbarrier_init(smem_addr(empty + i), empty_count);
    }
}

/* One thread. */
DEV void init_barriers(struct smem *smem) {
    struct side *x = &smem->side;
    init_pipe(smem->kv_full, 1, smem->kv_empty, 1, RING);
    init_pipe(x->q_full, 4, x->q_empty, 1 + SOFTMAX_WARPS, Q_STAGES);
    init_pipe(x->s_full, 1, x->s_empty, 4, S_STAGES);
    init_pipe(x->p_full, 4, x->p_empty, 1, P_STAGES);
    init_pipe(x->m_full, 1, x->m_empty, M_READERS, M_STAGES);
    init_pipe(x->l_full, 4, x->l_empty, 4, L_STAGES);
    init_pipe(x->stat_full, 4, x->stat_empty, 4, STAT_STAGES);
    init_pipe(x->o_full, 1, x->o_empty, 4, O_STAGES);
    init_pipe(&x->mail_full[0], 1, &x->mail_full[1], 1, 1);
    fence_mbarrier_init();
}

/* Peers may write here from now on. */
DEV void open_mail(const struct cta *c) {
    if (threadIdx.x == 0)
        mail_expect(c);
    __syncwarp();
    barrier_cluster_arrive();
}

/* All threads. Everything before pdl_wait overlaps with the kernel before. */
DEV struct cta start(const struct gqa_args *a, void *raw) {
    const bool in_cluster = a->finish >= GQA_FINISH_ATOMIC;
    struct cta c;
    c.args = a;
    c.smem = (struct smem *)raw;
    c.warp = threadIdx.x / 32;
    c.lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        init_barriers(c.smem);
    if (c.warp == LOAD_WARP && c.lane == 0) {
        prefetch_tensormap(&a->k_map);
        prefetch_tensormap(&a->v_map);
    }
    if (c.warp == MULTIPLY_WARP) {
        tcgen05_alloc(smem_addr(&c.smem->side.tmem), TMEM_COLUMNS);
        tcgen05_relinquish_alloc_permit();
    }
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
    if (in_cluster)
        open_mail(&c);
    c.tmem = c.smem->side.tmem;
    pdl_wait();
    c.first = work_first(a);
    if (in_cluster)
        barrier_cluster_wait();
    return c;
}

/* All threads. */
DEV void stop(const struct cta *c) {
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
    if (c->warp == MULTIPLY_WARP)
        tcgen05_dealloc(c->tmem, TMEM_COLUMNS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(1024) unsigned char raw[];
    const struct cta c = start(&args, raw);
    roles(&c);
    stop(&c);
}

#endif
