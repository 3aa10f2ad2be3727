/* SPDX-License-Identifier: Apache-2.0
 * Decode kernel for Blackwell's data-centre parts (sm_100a, sm_103a): tcgen05, tensor memory, TMA.
 *
 * One CTA, ten warps, walks the tiles of its part (or of its share of all parts):
 *
 *     K, V --TMA--> ring --tcgen05--> S in tensor memory --> softmax --> P in shared memory
 *                      \--------------tcgen05 with P--> O in tensor memory --> finish --> output
 *
 *     warps 0-3  finish    queries in, accumulators out
 *     warps 4-7  softmax   scores to weights, maxima, sums; rescales O in the rare case
 *     warp  8    multiply  issues both products; owns tensor memory
 *     warp  9    load      K and V
 *
 * Ceiling: 2 HEAD_DIM KV_BYTES bytes per token and KV head; at 128 x bf16 a tile of 128 tokens is
 * 64 KiB, 2400 cycles of an SM's share of 8 TB/s, against 16 MMAs of some 34 cycles.
 *
 * Signal map (arrivals per phase; "+ tx" counts the bytes of bulk copies)
 *   load     --kv.full   (1 + tx)---> multiply  a stage of K or V is in the ring
 *   load     <--kv.empty (1 commit)-- multiply  the MMAs that read the stage are complete
 *   finish   --q.full    (4 warps)--> multiply, softmax   a part's queries and row facts
 *   finish   <--q.empty  (1 commit + 4 warps)-- multiply, softmax
 *   multiply --s.full    (1 commit)-> softmax   a tile's scores
 *   multiply <--s.empty  (4 warps)--- softmax   they are in registers
 *   softmax  --p.full    (4 warps)--> multiply  a tile's weights; O is scaled to their maxima
 *   softmax  <--p.empty  (1 commit)-- multiply  the tile is summed: O may be rescaled
 *   softmax  --stat.full (4 warps)--> finish    a part's maxima and sums
 *   softmax  <--stat.empty (4 warps)- finish
 *   multiply --o.full    (1 commit)-> finish    a part's accumulators are complete
 *   multiply <--o.empty  (4 warps)--- finish    they are in registers
 *   finish   --mail.full (1 + tx)---> finish    of all CTAs of a cluster: statistics; outputs */
#include "decode_sm100.cuh"
#include "decode_sm100_load.cuh"
#include "decode_sm100_multiply.cuh"
#include "decode_sm100_softmax.cuh"
#include "decode_sm100_finish.cuh"
#include "decode_sm100_cluster.cuh"

enum {
    FINISH_WARP = 0,
    SOFTMAX_WARP = 4,
    MULTIPLY_WARP = 8,
    LOAD_WARP = 9,
    WARPS = 10,
    THREADS = 32 * WARPS,
};
static_assert(WARPS == GQA_WARPS_sm100(KV_BYTES, HEAD_DIM, ROWS), "shape.h is behind");

DEV void init_pipe(const uint64_t *full, int full_count, const uint64_t *empty, int empty_count,
                   int depth) {
    for (int i = 0; i < depth; i++) {
        mbarrier_init(smem_addr(full + i), full_count);
        mbarrier_init(smem_addr(empty + i), empty_count);
    }
}

DEV void init_barriers(struct smem *smem) {
    struct side *x = &smem->side;
    init_pipe(smem->kv_full, 1, smem->kv_empty, 1, RING);
    init_pipe(x->q_full, 4, x->q_empty, 1 + 4, Q_STAGES);
    init_pipe(x->s_full, 1, x->s_empty, 4, S_STAGES);
    init_pipe(x->p_full, 4, x->p_empty, 1, P_STAGES);
    init_pipe(x->stat_full, 4, x->stat_empty, 4, STAT_STAGES);
    init_pipe(x->o_full, 1, x->o_empty, 4, O_STAGES);
    init_pipe(&x->mail_full[0], 1, &x->mail_full[1], 1, 1);
    fence_mbarrier_init();
}

DEV void start(const struct cta *c) {
    if (c->warp == FINISH_WARP && c->lane == 0)
        init_barriers(c->smem);
    if (c->warp == LOAD_WARP && c->lane == 0) {
        prefetch_tensormap(&c->args->k_map);
        prefetch_tensormap(&c->args->v_map);
    }
    if (c->warp == MULTIPLY_WARP) {
        tcgen05_alloc(smem_addr(&c->smem->side.tmem), TMEM_COLUMNS);
        tcgen05_relinquish_alloc_permit();
    }
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
}

/* Peers may write here from now on. */
DEV void open_mail(const struct cta *c) {
    if (threadIdx.x == 0)
        mail_expect(c);
    __syncwarp();
    barrier_cluster_arrive();
}

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
    const bool in_cluster = args.finish >= GQA_FINISH_ATOMIC;
    struct cta c;
    c.args = &args;
    c.smem = (struct smem *)raw;
    c.warp = threadIdx.x / 32;
    c.lane = threadIdx.x % 32;
    start(&c);
    if (in_cluster)
        open_mail(&c);
    c.tmem = c.smem->side.tmem;
    pdl_wait();
    c.first = work_first(&args);
    c.tiles = tiles_first(&args, &c.first);
    if (in_cluster)
        barrier_cluster_wait();
    if (c.warp == LOAD_WARP)
        load(&c);
    else if (c.warp == MULTIPLY_WARP)
        multiply(&c);
    else if (c.warp >= SOFTMAX_WARP)
        softmax(&c);
    else if (in_cluster)
        finish_in_cluster(&c);
    else
        finish(&c);
    stop(&c);
}
