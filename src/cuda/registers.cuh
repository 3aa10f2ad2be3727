/* SPDX-License-Identifier: Apache-2.0
 * One warp's loop straight from global memory to registers: no shared memory, no barrier. Each
 * load is 16 bytes a lane, K's next step is requested as soon as its registers have been
 * multiplied, V's likewise, so about one step (8 KB for 128-wide bf16 heads) per warp is always in
 * flight.
 *
 * Paged caches: lane i < 16 looks up token i's page one step ahead and computes its row offset;
 * the others get it by shuffle. Slots beyond the part are never read. */
#ifndef GQA_REGISTERS_CUH
#define GQA_REGISTERS_CUH

#include "softmax.cuh"

/* Offsets of 16 tokens' rows, in elements from the KV head's first element: lane i has token
 * i % 16. Tokens outside the part get a row inside it. */
struct step_rows {
    int64_t k, v;
};

struct kv_source {
    const char *k, *v; /* the sequence and KV head */
    const int32_t *pages;
    int begin, end; /* of the part */
};

DEV struct kv_source kv_source_of(const struct gqa_args *a, const struct unit *u,
                                  const struct part *p) {
    struct kv_source s;
    const int64_t entry = a->pages ? 0 : u->entry;
    s.k =
        (const char *)a->k + KV_BYTES * (entry * a->k_stride.batch + u->kv_head * a->k_stride.head);
    s.v =
        (const char *)a->v + KV_BYTES * (entry * a->v_stride.batch + u->kv_head * a->v_stride.head);
    s.pages = a->pages;
    if (a->pages)
        s.pages += a->page_indptr ? a->page_indptr[u->entry] : u->entry * a->page_stride;
    s.begin = p->begin;
    s.end = p->end;
    return s;
}

DEV struct step_rows step_rows_of(const struct gqa_args *a, const struct kv_source *s, int step,
                                  int lane) {
    const int token = max_int(s->begin, min_int(step + lane % STEP, s->end - 1));
    struct step_rows x;
    if (s->pages) {
        const int page = divide(token, a->by_page), slot = token - page * a->page_size;
        const int64_t number = s->pages[page];
        x.k = number * a->k_stride.batch + slot * a->k_stride.token;
        x.v = number * a->v_stride.batch + slot * a->v_stride.token;
    } else {
        x.k = token * a->k_stride.token;
        x.v = token * a->v_stride.token;
    }
    return x;
}

DEV void k_load(const struct gqa_args *a, const struct kv_source *s, const struct step_rows *rows,
                int block, struct k_frag *k, int lane) {
#pragma unroll
    for (int n = 0; n < K_TILES; n++) {
        const int64_t row = __shfl_sync(0xffffffffu, rows->k, k_token(n, lane));
#pragma unroll
        for (int j = 0; j < K_LOADS; j++) {
            const int d = block * SLICE_DIM + k_column(j, lane);
            if (d < a->head_dim)
                k->w[n][j] = ld_global_nc_v4(s->k + KV_BYTES * (row + d));
            else
                k->w[n][j].w[0] = k->w[n][j].w[1] = k->w[n][j].w[2] = k->w[n][j].w[3] = 0;
        }
    }
}

DEV void v_load(const struct gqa_args *a, const struct kv_source *s, const struct step_rows *rows,
                int slice, struct v_frag *v, int lane) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int64_t row = __shfl_sync(0xffffffffu, rows->v, step_token(j, lane % 4));
#pragma unroll
        for (int c = 0; c < V_LOADS; c++) {
            const int d = slice * SLICE_DIM + v_column(c, lane / 4);
            const char *at = s->v + KV_BYTES * (row + d);
            if (d >= a->head_dim_v)
                v->w[j][c].w[0] = v->w[j][c].w[1] = v->w[j][c].w[2] = v->w[j][c].w[3] = 0;
            else
                v->w[j][c] = V_CHUNK * KV_BYTES == 16 ? ld_global_nc_v4(at) : ld_global_nc_v2(at);
        }
    }
}

/* Attend to the steps first, first + stride, ... of the part; V columns of `slice`. All 32 lanes.
 */
DEV void attend_registers(const struct gqa_args *a, const struct unit *u, const struct part *p,
                          struct q_frag *q, const struct q_smem *q_smem, struct softmax *x,
                          int first, int stride, int slice, int lane) {
    const struct kv_source source = kv_source_of(a, u, p);
    const struct score_scale scale = score_scale_of(a, u);
    const struct visible seen = visible_of(a, u, lane);
    const int full_begin = max_int(p->begin, seen.full_begin);
    const int full_end = min_int(p->end, seen.full_end);
    struct step_rows rows, next;
    struct k_frag k;
    struct v_frag v;
    int step = p->begin / STEP * STEP + first * STEP;
    if (step >= p->end)
        return;
    rows = step_rows_of(a, &source, step, lane);
    k_load(a, &source, &rows, 0, &k, lane);
    v_load(a, &source, &rows, slice, &v, lane);
    next = step_rows_of(a, &source, step + stride * STEP, lane);
    for (; step < p->end; step += stride * STEP) {
        const bool more = step + stride * STEP < p->end;
        struct products products;
        uint32_t weights[BLOCKS][2];
        products_init(&products);
#pragma unroll
        for (int block = 0; block < SLICES; block++) {
            if (Q_IN_SMEM)
                q_fetch(q_smem, block, q, lane);
            score(q, &k, &products);
            if (block + 1 < SLICES)
                k_load(a, &source, &rows, block + 1, &k, lane);
            else if (more)
                k_load(a, &source, &next, 0, &k, lane);
        }
        struct scores s = scores_of(&products);
        scale_scores(&s, &scale);
        const bool full = step >= full_begin && step + STEP <= full_end;
        if (!full) {
            mask_scores(&s, &seen, step, p->begin, p->end, lane);
            zero_unseen(&v, step, p->begin, p->end, lane);
        }
        softmax_raise(x, &s, 1, lane);
        softmax_weights(x, &s, weights);
        accumulate(x, &v, weights, 0);
        if (more)
            v_load(a, &source, &next, slice, &v, lane);
        rows = next;
        next = step_rows_of(a, &source, step + 2 * stride * STEP, lane);
    }
}

#endif
