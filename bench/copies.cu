/* SPDX-License-Identifier: Apache-2.0
 * What bulk copies cost: one or two warps of a CTA stream a range each through a ring in shared
 * memory and do nothing with it, as the load warps of decode_sm90.cu do with K and V. A slot is
 * filled in `pieces`, one a lane. A CTA leaves the cycles that each warp took. */
#include "args.h"
#include "pipe.cuh"
#include "ptx_trace.cuh"

enum { BARRIERS = 216000, GAP = 32 }; /* bytes: where they are; between pieces */

struct copies_args {
    const char *base;
    int64_t bytes; /* of a warp, a multiple of slot */
    int32_t slot, depth, pieces[2];
    uint32_t *cycles; /* [CTA][2] */
};

extern "C" __global__ void __launch_bounds__(64, 1)
    gqa_copies(const __grid_constant__ struct copies_args a) {
    extern __shared__ __align__(128) unsigned char raw[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int pieces = warp ? a.pieces[1] : a.pieces[0];
    const uint32_t full = smem_addr(raw) + BARRIERS + 256 * warp;
    for (int i = 0; lane == 0 && i < a.depth; i++)
        mbarrier_init(full + 8 * i, 1);
    fence_mbarrier_init();
    __syncthreads();
    if (pieces == 0)
        return;
    struct pipe in = pipe_consumer(full, 0, a.depth), out = in;
    const int size = a.slot / pieces, slot = a.slot + pieces * GAP;
    const char *from = a.base + (2 * blockIdx.x + warp) * a.bytes + lane * size;
    const uint32_t to = smem_addr(raw) + warp * a.depth * slot + lane * (size + GAP);
    const uint32_t begin = clock_read();
    int64_t next = 0;
    for (int64_t done = 0, ahead = 0; done < a.bytes; done += a.slot, ahead--) {
        for (; ahead < a.depth && next < a.bytes; ahead++, next += a.slot) {
            if (lane == 0)
                mbarrier_arrive_expect_tx(pipe_full(&in), a.slot);
            __syncwarp();
            if (lane < pieces)
                cp_async_bulk_g2s(to + in.slot * slot, from + next, size, pipe_full(&in));
            pipe_next(&in);
        }
        pipe_wait(&out);
        pipe_next(&out);
    }
    if (lane == 0)
        a.cycles[2 * blockIdx.x + warp] = clock_read() - begin;
}
