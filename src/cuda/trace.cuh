/* SPDX-License-Identifier: Apache-2.0
 * Recording, in instances that instances.def lists as traced (GQA_TRACE 1). In all others the
 * functions are empty, struct trace is never touched, and the PTX is the same as without this file.
 * Lane 0 of a warp records; an event costs it a clock read and an 8-byte store. */
#ifndef GQA_TRACE_CUH
#define GQA_TRACE_CUH

#include "args.h"
#include "trace.h"

#ifndef GQA_TRACE
#define GQA_TRACE 0
#endif

#if GQA_TRACE
#include "ptx_trace.cuh"

/* A warp's recorder. Three registers: kernels that record should not spill either. */
struct trace {
    const struct gqa_args *args;
    uint64_t at;   /* of the next event; in a block's last one: no room; 0: does not record */
    uint32_t tile; /* shifted to its place in an event */
};

DEV struct trace_block *trace_block_at(const struct trace *t) {
    return (struct trace_block *)(t->at & -(uint64_t)TRACE_BLOCK_BYTES);
}

DEV uint32_t trace_used(const struct trace *t) {
    return (uint32_t)t->at % TRACE_BLOCK_BYTES;
}

DEV void trace_block_end(const struct trace *t) {
    struct trace_block *b = trace_block_at(t);
    b->count = (trace_used(t) - (TRACE_BLOCK_BYTES - 8 * TRACE_EVENTS)) / 8;
    b->end_clock = clock64_read();
    b->end_time = globaltimer_read();
}

DEV void trace_block_begin(struct trace *t, uint32_t who) {
    struct trace_block *head = (struct trace_block *)t->args->trace;
    const uint32_t i = 1 + atom_global_add_u32(&head->count, 1);
    struct trace_block *b = i < (uint32_t)t->args->trace_blocks ? head + i : head;
    t->at = (uint64_t)&b->events[b == head ? TRACE_EVENTS - 1 : 0];
    if (b == head)
        return;
    b->cta = blockIdx.x;
    b->sm = smid_read();
    b->who = who;
    b->clock = clock64_read();
    b->time = globaltimer_read();
}

/* All 32 lanes, as everything here. */
DEV struct trace trace_open(const struct gqa_args *a, int kernel, int role) {
    struct trace t;
    t.args = a;
    t.at = 0;
    t.tile = 0;
    if (threadIdx.x % 32 == 0 && a->trace_blocks)
        trace_block_begin(&t, kernel | role << 8 | threadIdx.x / 32 << 16);
    return t;
}

/* What is entered from now on is about this tile (or part, or step) of the CTA's. Here, so that it
 * does not disturb the tile, a block without room for TRACE_ROOM events more is replaced. */
DEV void trace_tile(struct trace *t, int tile) {
    t->tile = (uint32_t)tile << 8;
    if (!t->at || trace_used(t) < TRACE_BLOCK_BYTES - 8 * TRACE_ROOM ||
        trace_block_at(t) == t->args->trace)
        return;
    trace_block_end(t);
    trace_block_begin(t, trace_block_at(t)->who);
}

DEV void trace_enter(struct trace *t, int range) {
    if (!t->at)
        return;
    if (trace_used(t) < TRACE_BLOCK_BYTES - 8) {
        st_global_v2((void *)t->at, clock_read(), t->tile | range);
        t->at += 8;
    } else {
        red_global_add_u32(&trace_block_at(t)->lost, 1);
    }
}

DEV void trace_close(const struct trace *t) {
    if (t->at && trace_block_at(t) != t->args->trace)
        trace_block_end(t);
}

#else

struct trace {
    int nothing;
};

DEV struct trace trace_open(const struct gqa_args *a, int kernel, int role) {
    const struct trace t = {0};
    return t;
}

DEV void trace_tile(struct trace *t, int tile) {}

DEV void trace_enter(struct trace *t, int range) {}

DEV void trace_close(const struct trace *t) {}

#endif

#endif
