/* SPDX-License-Identifier: Apache-2.0
 * The floor: one launch that brings `bytes` into shared memory and does nothing with them. One CTA
 * per SM, a ring of bulk copies of one warp; what no attention kernel can beat. */
#include "args.h"
#include "pipe.cuh"

enum { STAGES = 13, CHUNK = 16384 };

struct stream_args {
    const char *base;
    int64_t bytes; /* multiple of 16 */
    int32_t chunk; /* at most CHUNK, a multiple of 16 */
};

struct smem {
    alignas(128) unsigned char slot[STAGES][CHUNK];
    alignas(8) uint64_t full[STAGES];
};

DEV void stream(const struct stream_args *args, bool early) {
    extern __shared__ __align__(128) unsigned char raw[];
    struct smem *s = (struct smem *)raw;
    pdl_launch_dependents();
    if (threadIdx.x)
        return;
    for (int i = 0; i < STAGES; i++)
        mbarrier_init(smem_addr(&s->full[i]), 1);
    fence_mbarrier_init();
    if (!early)
        pdl_wait();
    const int64_t step = (int64_t)gridDim.x * args->chunk;
    struct pipe in = pipe_consumer(smem_addr(s->full), 0, STAGES);
    struct pipe out = in;
    int64_t next = (int64_t)blockIdx.x * args->chunk, done = next;
    for (int ahead = 0; done < args->bytes; done += step) {
        for (; ahead < STAGES && next < args->bytes; ahead++, next += step) {
            const int64_t rest = args->bytes - next;
            const uint32_t n = rest < args->chunk ? (uint32_t)rest : (uint32_t)args->chunk;
            mbarrier_arrive_expect_tx(pipe_full(&in), n);
            cp_async_bulk_g2s(smem_addr(s->slot[in.slot]), args->base + next, n, pipe_full(&in));
            pipe_next(&in);
        }
        pipe_wait(&out);
        pipe_next(&out);
        ahead--;
    }
}

extern "C" __global__ void __launch_bounds__(32, 1)
    gqa_stream(const __grid_constant__ struct stream_args args) {
    stream(&args, false);
}

/* The same, starting before the kernel in front has ended. */
extern "C" __global__ void __launch_bounds__(32, 1)
    gqa_stream_early(const __grid_constant__ struct stream_args args) {
    stream(&args, true);
}
