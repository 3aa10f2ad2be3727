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

/* A stage that one box per slab fills, as in contiguous caches and in pages of whole stages. */
DEV void load_whole(const struct cta *c, const struct pipe *kv, const void *map,
                    const struct place *x, int kv_head, int element, int slabs) {
    const uint32_t stage = smem_addr(c->smem->kv[kv->slot]);
    if (c->lane == 0) {
        mbarrier_arrive_expect_tx(pipe_full(kv), STAGE_BYTES);
        for (int slab = 0; slab < slabs; slab++)
            cp_async_bulk_tensor_4d_g2s(stage + slab * SLAB_BYTES, map, element + slab * CHUNK,
                                        x->row, kv_head, x->entry, pipe_full(kv));
    }
    __syncwarp();
}

/* HALF tokens from `token`, CHUNK elements from `element`, by boxes. */
DEV void load_k_stage(const struct cta *c, const struct pipe *kv, const struct work *w, int token,
                      int element, int box) {
    const struct gqa_args *a = c->args;
    const uint32_t slab = smem_addr(c->smem->kv[kv->slot]);
    if (c->lane == 0)
        mbarrier_arrive_expect_tx(pipe_full(kv), STAGE_BYTES);
    for (int b = c->lane; b * box < HALF; b += 32) {
        const struct place x = place_of(a, w, token + b * box);
        cp_async_bulk_tensor_4d_g2s(slab + b * box * SPAN, &a->k_map, element, x.row, w->u.kv_head,
                                    x.entry, pipe_full(kv));
    }
    __syncwarp();
}

/* The tile's half from `token`. */
DEV void load_k_half(const struct cta *c, struct pipe *kv, const struct work *w, int token,
                     int box) {
    struct place x;
    if (box == HALF)
        x = place_of(c->args, w, token);
    for (int element = 0; element < HEAD_DIM; element += CHUNK, pipe_next(kv)) {
        trace_enter(c->trace, TRACE_wait_slot);
        pipe_acquire(kv);
        trace_enter(c->trace, TRACE_load_K);
        if (box == HALF)
            load_whole(c, kv, &c->args->k_map, &x, w->u.kv_head, element, 1);
        else
            load_k_stage(c, kv, w, token, element, box);
        trace_enter(c->trace, TRACE_other);
    }
}

DEV void load_k(const struct cta *c, struct pipe *kv, const struct tiles *t, int box) {
    trace_tile(c->trace, t->tile);
    for (int half = 0; half < tile_halves(t); half++)
        load_k_half(c, kv, &t->w, tile_token(t) + half * HALF, box);
}

/* V_TOKENS tokens from `token`, V_SLABS slabs from element `element`, by boxes: those that hold
 * tokens of the part. */
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

/* V_TOKENS tokens of the tile from `token`. */
DEV void load_v_tokens(const struct cta *c, struct pipe *kv, const struct work *w, int token,
                       int box) {
    const bool whole = box == V_TOKENS && token < w->p.end;
    struct place x;
    if (whole)
        x = place_of(c->args, w, token);
    for (int block = 0; block < V_BLOCKS; block++, pipe_next(kv)) {
        trace_enter(c->trace, TRACE_wait_slot);
        pipe_acquire(kv);
        trace_enter(c->trace, TRACE_load_V);
        if (whole)
            load_whole(c, kv, &c->args->v_map, &x, w->u.kv_head, block * V_ROWS, V_SLABS);
        else
            load_v_stage(c, kv, w, token, block * V_ROWS, box);
        trace_enter(c->trace, TRACE_other);
    }
}

DEV void load_v(const struct cta *c, struct pipe *kv, const struct tiles *t, int box) {
    trace_tile(c->trace, t->tile);
    for (int token = 0; token < tile_halves(t) * HALF; token += V_TOKENS)
        load_v_tokens(c, kv, &t->w, tile_token(t) + token, box);
}

/* Before a tile of K, and so before the same tile of V: with GQA_PDL_EARLY kernels in front may
 * still write the query tokens' own K and V, and nothing older. Boxes may reach beyond the part,
 * never beyond the tile. */
DEV void fresh_wait(const struct cta *c, const struct tiles *t) {
    if (c->args->early && tile_token(t) + TILE > t->w.u.len - t->w.u.queries) {
        trace_enter(c->trace, TRACE_griddepcontrol_wait);
        pdl_wait();
    }
}

DEV void load(const struct cta *c) {
    struct pipe kv = pipe_producer(c->smem->kv_full, c->smem->kv_empty, RING);
    const int k_box = box_tokens(c->args, HALF), v_box = box_tokens(c->args, V_TOKENS);
    struct tiles k = tiles_first(c->args, &c->first), v = k;
    for (int lead = 0; v.w.live;) {
        if (k_is_next(&k, &v, lead)) {
            fresh_wait(c, &k);
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
