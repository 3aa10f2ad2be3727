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

/* The role of a warp, for traces. */
DEV int role_of(int warp) {
    if (warp == LOAD_WARP)
        return TRACE_ROLE_load;
    if (warp == MULTIPLY_WARP)
        return TRACE_ROLE_multiply;
    if (warp >= SOFTMAX_WARP && warp < SOFTMAX_WARP + SOFTMAX_WARPS)
        return SOFTMAX_WARPS == 4               ? TRACE_ROLE_softmax
               : (warp - SOFTMAX_WARP) / 4 == 0 ? TRACE_ROLE_softmax_even
                                                : TRACE_ROLE_softmax_odd;
    if (SOFTMAX_WARPS == 8 && warp < SOFTMAX_WARP)
        return TRACE_ROLE_idle;
    return O_PER_TILE ? TRACE_ROLE_correct : TRACE_ROLE_finish;
}

/* The CTA's first part, and the dependent wait: after the schedule where it reads no lengths. Of
 * what follows only the loader may read early, what the caller says is older; see fresh_wait. */
DEV struct work first_part(const struct gqa_args *a, int warp, struct trace *trace) {
    trace_enter(trace, TRACE_griddepcontrol_wait);
    lengths_wait(a);
    trace_enter(trace, TRACE_plan_work);
    const struct work first = work_first(a);
    trace_enter(trace, TRACE_griddepcontrol_wait);
    if (!(a->early && warp == LOAD_WARP))
        pdl_wait();
    trace_enter(trace, TRACE_wait_start);
    return first;
}

/* All threads. Everything before pdl_wait overlaps with the kernel before. */
DEV struct cta start(const struct gqa_args *a, void *raw, struct trace *trace) {
    const bool in_cluster = a->finish >= GQA_FINISH_ATOMIC;
    struct cta c;
    *trace = trace_open(a, TRACE_DECODE, role_of(threadIdx.x / 32));
    trace_enter(trace, TRACE_prologue);
    c.trace = trace;
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
    trace_enter(trace, TRACE_wait_start);
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
    if (in_cluster)
        open_mail(&c);
    c.tmem = c.smem->side.tmem;
    c.first = first_part(a, c.warp, trace);
    if (in_cluster)
        barrier_cluster_wait();
    trace_enter(trace, TRACE_other);
    return c;
}

/* All threads. */
DEV void stop(const struct cta *c) {
    trace_enter(c->trace, TRACE_wait_exit);
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
    if (c->warp == MULTIPLY_WARP)
        tcgen05_dealloc(c->tmem, TMEM_COLUMNS);
    trace_close(c->trace);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    GQA_KERNEL_NAME(const __grid_constant__ struct gqa_args args) {
    extern __shared__ __align__(1024) unsigned char raw[];
    struct trace trace;
    const struct cta c = start(&args, raw, &trace);
    roles(&c);
    stop(&c);
}

#endif
