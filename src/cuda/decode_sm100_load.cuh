/* SPDX-License-Identifier: Apache-2.0
 * Role: one warp streams K and V tiles into the ring, in the order in which they are multiplied:
 *
 *     K0 K1 K2 V0 K3 V1 ... V(n-2) V(n-1)
 *
 * and on across parts, though K never enters a part before V has left the part two before it. A
 * tile is fetched in boxes that lie within a page; lanes issue boxes side by side. Boxes without a
 * visible token are zero-filled for K (its scores are replaced) and left out for V (its rows are
 * not multiplied). */
#ifndef GQA_DECODE_SM100_LOAD_CUH
#define GQA_DECODE_SM100_LOAD_CUH

#include "decode_sm100.cuh"

/* Where a token's box starts in the tensor: row, and cache entry or page. */
struct place {
    int row, entry;
};

DEV struct place place_of(const struct gqa_args *a, const struct work *w, int token) {
    struct place x = {token, (int)w->u.entry};
    if (!a->pages)
        return x;
    const int page = token / a->page_size;
    x.row = token - page * a->page_size;
    x.entry = -1; /* out of bounds: zeros */
    if (token < w->p.end)
        x.entry = a->page_indptr ? a->pages[a->page_indptr[w->u.entry] + page]
                                 : a->pages[w->u.entry * a->page_stride + page];
    return x;
}

DEV void load_k(const struct cta *c, struct pipe *kv, const struct tiles *t, int box) {
    const struct gqa_args *a = c->args;
    trace_tile(c->trace, t->tile);
    for (int stage = 0; stage < K_STAGES; stage++, pipe_next(kv)) {
        const uint32_t slab = smem_addr(c->smem->kv[kv->slot]);
        trace_enter(c->trace, TRACE_wait_slot);
        pipe_acquire(kv);
        trace_enter(c->trace, TRACE_load_K);
        if (c->lane == 0)
            mbarrier_arrive_expect_tx(pipe_full(kv), STAGE_BYTES);
        for (int b = c->lane; b * box < TILE; b += 32) {
            const struct place x = place_of(a, &t->w, tile_token(t) + b * box);
            cp_async_bulk_tensor_4d_g2s(slab + b * box * SPAN, &a->k_map, stage * CHUNK, x.row,
                                        t->w.u.kv_head, x.entry, pipe_full(kv));
        }
        __syncwarp();
        trace_enter(c->trace, TRACE_other);
    }
}

/* One stage: V_TOKENS tokens from `token`, V_SLABS slabs from element `element`. */
DEV void load_v_stage(const struct cta *c, const struct pipe *kv, const struct work *w, int token,
                      int element, int box) {
    const struct gqa_args *a = c->args;
    const int rows = min_int(V_TOKENS, max_int(0, w->p.end - token));
    const int boxes = (rows + box - 1) / box;
    const uint32_t stage = smem_addr(c->smem->kv[kv->slot]);
    if (c->lane == 0)
        mbarrier_arrive_expect_tx(pipe_full(kv), boxes * box * SPAN * V_SLABS);
    for (int i = c->lane; i < boxes * V_SLABS; i += 32) {
        const int slab = i % V_SLABS, b = i / V_SLABS;
        const struct place x = place_of(a, w, token + b * box);
        cp_async_bulk_tensor_4d_g2s(stage + slab * SLAB_BYTES + b * box * SPAN, &a->v_map,
                                    element + slab * CHUNK, x.row, w->u.kv_head, x.entry,
                                    pipe_full(kv));
    }
    __syncwarp();
}

DEV void load_v(const struct cta *c, struct pipe *kv, const struct tiles *t, int box) {
    trace_tile(c->trace, t->tile);
    for (int token = 0; token < TILE; token += V_TOKENS)
        for (int block = 0; block < V_BLOCKS; block++, pipe_next(kv)) {
            trace_enter(c->trace, TRACE_wait_slot);
            pipe_acquire(kv);
            trace_enter(c->trace, TRACE_load_V);
            load_v_stage(c, kv, &t->w, tile_token(t) + token, block * V_ROWS, box);
            trace_enter(c->trace, TRACE_other);
        }
}

DEV void load(const struct cta *c) {
    struct pipe kv = pipe_producer(c->smem->kv_full, c->smem->kv_empty, RING);
    const int k_box = box_tokens(c->args, TILE), v_box = box_tokens(c->args, V_TOKENS);
    struct tiles k = tiles_first(c->args, &c->first), v = k;
    for (int lead = 0; v.w.live;) {
        if (k_is_next(&k, &v, lead)) {
            load_k(c, &kv, &k, k_box);
            tiles_next(c->args, &k);
            lead++;
        } else {
            load_v(c, &kv, &v, v_box);
            tiles_next(c->args, &v);
            lead--;
        }
    }
}

#endif
