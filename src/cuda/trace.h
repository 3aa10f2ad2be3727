/* SPDX-License-Identifier: Apache-2.0
 * What a kernel that records writes, shared by device and host: a buffer of blocks, aligned to
 * their size. A warp asks for a block, fills it with one event per range that it enters, and asks
 * for the next; so there is one atomic operation for some 200 events, and a buffer may be of any
 * size. Events for which there is no block are counted; nothing is written past the end. */
#ifndef GQA_CUDA_TRACE_H
#define GQA_CUDA_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_BLOCK_BYTES = 2048,
    TRACE_EVENTS = 248, /* of a block; the last one stays empty */
    TRACE_ROOM = 48,    /* events of a tile, at most */
};

enum trace_role {
#define GQA_TRACE_ROLE(name, says) TRACE_ROLE_##name,
#define GQA_TRACE_RANGE(name, kind, after, says)
#include "trace.def"
#undef GQA_TRACE_ROLE
#undef GQA_TRACE_RANGE
    TRACE_ROLES
};

enum trace_range {
#define GQA_TRACE_ROLE(name, says)
#define GQA_TRACE_RANGE(name, kind, after, says) TRACE_##name,
#include "trace.def"
#undef GQA_TRACE_ROLE
#undef GQA_TRACE_RANGE
    TRACE_RANGES
};

enum trace_kernel { TRACE_DECODE = 1, TRACE_COMBINE };

struct trace_event {
    uint32_t clock; /* low half of %clock64 */
    uint32_t what;  /* tile << 8 | range; the range is entered */
};

/* The warp leaves the last range at end_clock. Block 0 of a buffer is its head: `count` blocks have
 * been asked for, `lost` events had no block; the rest of it is not used. */
struct trace_block {
    uint32_t count, lost; /* events; those for which there was no room */
    uint32_t cta, sm;
    uint32_t who; /* kernel | role << 8 | warp << 16 */
    uint32_t unused;
    uint64_t clock, time;         /* %clock64 and %globaltimer (ns) when it was begun ... */
    uint64_t end_clock, end_time; /* ... and when it was done with */
    uint64_t reserved;
    struct trace_event events[TRACE_EVENTS];
};

/* Of a buffer of `bytes`, decode's blocks, and behind them the combine's, which may start before
 * decode has ended: a quarter, with a head of its own. Kernels count blocks in 31 bits. */
static inline uint32_t trace_decode_blocks(size_t bytes) {
    const size_t blocks = bytes / TRACE_BLOCK_BYTES;
    return (uint32_t)(blocks < INT32_MAX ? blocks : INT32_MAX) / 4 * 3;
}

static inline uint32_t trace_combine_blocks(uint32_t decode_blocks) {
    return decode_blocks / 3;
}

#ifdef __cplusplus
static_assert(sizeof(struct trace_block) == TRACE_BLOCK_BYTES, "no padding");
#else
_Static_assert(sizeof(struct trace_block) == TRACE_BLOCK_BYTES, "no padding");
#endif

#endif
