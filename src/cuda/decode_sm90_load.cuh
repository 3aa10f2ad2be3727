/* SPDX-License-Identifier: Apache-2.0
 * The load role of decode_sm90.cu: one warp for K, one for V. */
#ifndef GQA_DECODE_SM90_LOAD_CUH
#define GQA_DECODE_SM90_LOAD_CUH

#include "decode_sm90.cuh"

/* Where rows of K or of V come from, and how they lie in a slot: `pieces` of a tile, 1 or a power
 * of two, SHIFT bytes between them. */
struct source {
    const char *base; /* of the KV head in the cache entry, or in page 0 */
    int64_t page_bytes, token_bytes;
    int row_bytes, pieces;
    int fresh; /* tokens from here on may come from kernels that still run */
};

/* A tile's rows in runs that are adjacent in memory, dealt to the lanes: RUNS each at most. */
enum { RUNS = TILE / 32 };

struct runs {
    const int32_t *pages; /* of the sequence; NULL: not paged */
    int tokens;           /* of a run: a page, 1, or without pages 0 for "all" */
    struct gqa_divisor by_run, by_page;
    int page_size;
};

DEV struct source source_of(const struct gqa_args *a, const struct unit *u, const void *base,
                            const struct gqa_arg_strides *s, int dim, int pieces) {
    struct source x;
    x.pieces = pieces;
    x.page_bytes = s->batch * KV_BYTES;
    x.token_bytes = s->token * KV_BYTES;
    x.row_bytes = dim * KV_BYTES;
    x.fresh = a->early ? u->len - u->queries : 0;
    x.base = (const char *)base + u->kv_head * s->head * KV_BYTES;
    if (!a->pages)
        x.base += u->entry * x.page_bytes;
    return x;
}

DEV struct runs runs_of(const struct gqa_args *a, const struct unit *u) {
    const int adjacent = a->k_stride.token == a->head_dim && a->v_stride.token == a->head_dim_v;
    struct runs x;
    x.pages = a->pages;
    x.page_size = a->page_size;
    x.by_page = a->by_page;
    x.tokens = adjacent && !a->by_rows ? a->page_size : 1;
    x.by_run = a->by_page;
    if (x.tokens == 1)
        x.by_run.multiply = 0;
    if (a->pages) {
        if (!a->early)
            pdl_wait();
        x.pages += a->page_indptr ? a->page_indptr[u->entry] : u->entry * a->page_stride;
    }
    return x;
}

/* Page numbers of this lane's runs of tokens [begin, end): asked for one tile ahead. */
DEV void pages_fetch(const struct runs *x, int begin, int end, int32_t page[RUNS], int lane) {
    const int first = divide(begin, x->by_run) + lane;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int from = max_int(begin, (first + 32 * j) * x->tokens);
        page[j] = from < end ? x->pages[divide(from, x->by_page)] : 0;
    }
}

/* Before a tile's copies, up to token `end`: its slot is free, and so are its tokens to be read. */
DEV void slot_acquire(const struct cta *c, const struct source *s, const struct part *p,
                      const struct pipe *ring, int tile, int end, int range) {
    trace_tile(c->trace, (tile - p->begin / STEP * STEP) / TILE);
    trace_enter(c->trace, TRACE_wait_slot);
    pipe_acquire(ring);
    if (end > s->fresh)
        pdl_wait();
    trace_enter(c->trace, range);
}

/* A part whose tokens are all adjacent. All 32 lanes: each copies one piece of a tile, so that
 * addresses are worked out side by side; issuing is one lane after the other in any case. */
DEV void load_adjacent(const struct cta *c, const struct source *s, const struct part *p,
                       struct pipe *ring, uint32_t slots, int range, int lane) {
    const int size = TILE / s->pieces;
    const uint32_t to = slots + lane * (size * s->row_bytes + SHIFT);
    int tile = p->begin / STEP * STEP;
    const char *from = s->base + (tile + lane * size) * s->token_bytes;
    for (; tile < p->end; tile += TILE) {
        const int begin = max_int(tile, p->begin), end = min_int(tile + TILE, p->end);
        const int first = max_int(0, begin - tile - lane * size);
        const int last = min_int(size, end - tile - lane * size);
        slot_acquire(c, s, p, ring, tile, end, range);
        if (lane == 0)
            mbarrier_arrive_expect_tx(pipe_full(ring), (end - begin) * s->row_bytes);
        __syncwarp();
        if (lane < s->pieces && first < last)
            cp_async_bulk_g2s(to + ring->slot * SLOT_BYTES + first * s->row_bytes,
                              from + first * s->row_bytes, (last - first) * s->row_bytes,
                              pipe_full(ring));
        from += TILE * s->row_bytes;
        pipe_next(ring);
    }
    trace_enter(c->trace, TRACE_other);
}

/* Tokens [begin, end) into a slot, token `tile` at its start. All 32 lanes share the runs. */
DEV void copy_runs(const struct source *s, const struct runs *x, const int32_t page[RUNS], int tile,
                   int begin, int end, uint32_t slot, uint32_t full, int lane) {
    const int first = divide(begin, x->by_run) + lane, size = TILE / s->pieces;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int at = (first + 32 * j) * x->tokens, end_of_run = min_int(end, at + x->tokens);
        int from = max_int(begin, at);
        if (from >= end_of_run)
            continue;
        const int in_page = x->pages ? from - divide(from, x->by_page) * x->page_size : from;
        const char *run = s->base + page[j] * s->page_bytes + in_page * s->token_bytes;
        while (from < end_of_run) {
            const int piece = (from - tile) / size, bytes_per = s->row_bytes;
            const int to = min_int(end_of_run, tile + (piece + 1) * size);
            cp_async_bulk_g2s(slot + (from - tile) * bytes_per + piece * SHIFT, run,
                              (to - from) * bytes_per, full);
            run += (to - from) * bytes_per;
            from = to;
        }
    }
}

/* A tile's rows, tokens [begin, end), 16 bytes a lane; `page` as pages_fetch leaves it for runs of
 * one token. As many lanes share a row as have a part of it, up to a power of two. Addresses of
 * several rows are worked out before the first is copied: they wait for shuffles. */
DEV void copy_rows(const struct source *s, const struct runs *x, const int32_t page[RUNS], int tile,
                   int begin, int end, uint32_t slot, int lane) {
    enum { BATCH = 8 };
    const int chunks = s->row_bytes / 16, gap = s->pieces > 1 ? SHIFT : 0;
    const int shift = chunks > 16 ? 5 : chunks > 8 ? 4 : chunks > 4 ? 3 : 2;
    const int row = lane >> shift, chunk = lane & ((1 << shift) - 1), rows = 32 >> shift;
#pragma unroll
    for (int j = 0; j < RUNS; j++) {
        const int mine = begin + 32 * j + lane;
        const int in_page = x->pages ? mine - divide(mine, x->by_page) * x->page_size : mine;
        const char *from = s->base + page[j] * s->page_bytes + in_page * s->token_bytes;
        const int last = chunk < chunks ? end - begin - 32 * j : 0;
        const int in_tile = begin - tile + 32 * j;
#pragma unroll 1
        for (int first = row; first < 32 && begin + 32 * j + first - row < end;
             first += BATCH * rows) {
            const char *at[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                at[k] = (const char *)__shfl_sync(0xffffffffu, (uint64_t)from,
                                                  (first + k * rows) % 32) +
                        16 * chunk;
#pragma unroll
            for (int k = 0; k < BATCH; k++) {
                const int r = first + k * rows;
                if (r < 32 && r < last)
                    cp_async_16(slot + (in_tile + r) * s->row_bytes +
                                    (in_tile + r) / QUARTER * gap + 16 * chunk,
                                at[k]);
            }
        }
    }
}

/* A part that lies in runs. All 32 lanes. */
DEV void load_runs(const struct cta *c, const struct source *s, const struct runs *runs,
                   const struct part *p, bool by_rows, struct pipe *ring, uint32_t slots, int range,
                   int lane) {
    int32_t page[RUNS] = {0}, next[RUNS] = {0};
    int tile = p->begin / STEP * STEP;
    if (runs->pages)
        pages_fetch(runs, p->begin, min_int(tile + TILE, p->end), page, lane);
    for (; tile < p->end; tile += TILE) {
        const int begin = max_int(tile, p->begin), end = min_int(tile + TILE, p->end);
        if (runs->pages)
            pages_fetch(runs, end, min_int(end + TILE, p->end), next, lane);
        slot_acquire(c, s, p, ring, tile, end, range);
        if (by_rows) {
            copy_rows(s, runs, page, tile, begin, end, slots + ring->slot * SLOT_BYTES, lane);
            cp_async_mbarrier_arrive(pipe_full(ring));
        } else {
            if (lane == 0)
                mbarrier_arrive_expect_tx(pipe_full(ring), (end - begin) * s->row_bytes);
            __syncwarp();
            copy_runs(s, runs, page, tile, begin, end, slots + ring->slot * SLOT_BYTES,
                      pipe_full(ring), lane);
        }
        trace_enter(c->trace, TRACE_other);
        pipe_next(ring);
#pragma unroll
        for (int j = 0; j < RUNS; j++)
            page[j] = next[j];
    }
}

/* Role: one warp streams the K tiles of every part into their ring, another one the V tiles. */
DEV void load(const struct cta *c, struct pipe ring, bool is_k, int lane) {
    const struct gqa_args *a = c->args;
    const uint32_t slots = smem_addr(is_k ? c->smem->k : c->smem->v);
    const int range = is_k ? TRACE_load_K : TRACE_load_V;
    struct walk walk = walk_begin(a);
    struct unit u;
    struct part p;
    struct post post;
    while (walk_next(a, &walk, &u, &p, &post)) {
        const struct source source =
            source_of(a, &u, is_k ? a->k : a->v, is_k ? &a->k_stride : &a->v_stride,
                      is_k ? a->head_dim : a->head_dim_v, is_k ? 1 : V_PIECES);
        const struct runs runs = runs_of(a, &u);
        if (runs.tokens)
            load_runs(c, &source, &runs, &p, a->by_rows, &ring, slots, range, lane);
        else
            load_adjacent(c, &source, &p, &ring, slots, range, lane);
    }
}

#endif
