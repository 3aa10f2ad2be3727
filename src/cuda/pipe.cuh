/* SPDX-License-Identifier: Apache-2.0
 * A ring of slots in shared memory between a producer and consumers. A role holds its end by
 * value; there is no shared phase variable.
 *
 *   producer: pipe_acquire, expect bytes and copy (that is the commit), pipe_next
 *   consumer: pipe_wait, read, pipe_release, pipe_next */
#ifndef GQA_PIPE_CUH
#define GQA_PIPE_CUH

#include "ptx_sm90.cuh"

struct pipe {
    uint32_t full, empty; /* addresses of `depth` mbarriers each */
    int slot, depth;
    uint32_t parity; /* of the phase that the next acquire or wait is for */
};

/* A fresh barrier passes a wait for parity 1 and blocks one for parity 0: the producer finds every
 * slot empty, the consumer none full. */
DEV struct pipe pipe_producer(uint32_t full, uint32_t empty, int depth) {
    struct pipe p = {full, empty, 0, depth, 1};
    return p;
}

DEV struct pipe pipe_consumer(uint32_t full, uint32_t empty, int depth) {
    struct pipe p = {full, empty, 0, depth, 0};
    return p;
}

DEV uint32_t pipe_full(const struct pipe *p) {
    return p->full + 8 * p->slot;
}

DEV void pipe_acquire(const struct pipe *p) {
    while (!mbarrier_try_wait_parity(p->empty + 8 * p->slot, p->parity)) {
    }
}

DEV void pipe_wait(const struct pipe *p) {
    while (!mbarrier_try_wait_parity(p->full + 8 * p->slot, p->parity)) {
    }
}

/* This warp has read the slot. All 32 lanes: the barrier orders their reads before the arrival. */
DEV void pipe_release(const struct pipe *p, int lane) {
    __syncwarp();
    if (lane == 0)
        mbarrier_arrive(p->empty + 8 * p->slot);
}

DEV void pipe_next(struct pipe *p) {
    if (++p->slot == p->depth) {
        p->slot = 0;
        p->parity ^= 1;
    }
}

#endif
