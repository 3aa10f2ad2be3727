/* SPDX-License-Identifier: Apache-2.0
 * Role: one warp issues both products, in ring order. The order is total, so there is nothing to
 * hand over between two issuers, and no cursor skips stages that it does not own. Lane 0 issues
 * and commits; the other lanes keep it company for the scrub. */
#ifndef GQA_DECODE_SM100_MULTIPLY_CUH
#define GQA_DECODE_SM100_MULTIPLY_CUH

#include "decode_sm100.cuh"

/* S^T[slot] = K Q^T for one stage: CHUNK elements of the contraction. Lane 0. */
DEV void score_stage(const struct cta *c, uint32_t s_tmem, int kv_slot, int q_slot, int chunk) {
    const uint64_t k = descriptor(smem_addr(c->smem->kv[kv_slot]), 16, 8 * SPAN, SPAN_SWIZZLE);
    const uint64_t q = descriptor(smem_addr(c->smem->side.q[q_slot]) + chunk * N * SPAN, 16,
                                  8 * SPAN, SPAN_SWIZZLE);
    mma(s_tmem, k, q, IDESC_SCORE, chunk > 0);
#pragma unroll
    for (int i = K_STEP_BYTES; i < SPAN; i += K_STEP_BYTES)
        mma_more(s_tmem, descriptor_at(k, i), descriptor_at(q, i), IDESC_SCORE);
}

/* Scores of one tile. */
DEV void score(const struct cta *c, struct pipe *kv, struct pipe *q, struct pipe *s,
               const struct tiles *t) {
    const bool last = t->tile == t->w.tiles - 1;
    trace_tile(c->trace, t->tile);
    trace_enter(c->trace, TRACE_wait_Q);
    if (t->tile == 0)
        pipe_wait(q);
    trace_enter(c->trace, TRACE_wait_S_slot);
    pipe_acquire(s);
    tcgen05_fence_after_thread_sync();
    for (int half = 0; half < tile_halves(t); half++)
        for (int chunk = 0; chunk < K_STAGES; chunk++, pipe_next(kv)) {
            trace_enter(c->trace, TRACE_wait_K);
            pipe_wait(kv);
            trace_enter(c->trace, TRACE_KQ_issue);
            if (c->lane == 0) {
                score_stage(c, c->tmem + S_COLUMN + s->slot * S_COLUMNS + half * N, kv->slot,
                            q->slot, chunk);
                tcgen05_commit(pipe_empty(kv));
            }
            __syncwarp();
        }
    if (c->lane == 0) {
        tcgen05_commit(pipe_full(s));
        if (last)
            tcgen05_commit(pipe_empty(q));
    }
    __syncwarp();
    trace_enter(c->trace, TRACE_other);
    pipe_next(s);
    if (last)
        pipe_next(q);
}

/* Rows of a tile that the part covers: [lo, hi). */
struct cover {
    int lo, hi;
};

DEV struct cover cover_of(const struct tiles *t) {
    const struct cover x = {max_int(0, t->w.p.begin - tile_token(t)),
                            min_int(TILE, t->w.p.end - tile_token(t))};
    return x;
}

DEV void zero_rows(uint32_t stage, int from, int to, int lane) {
    enum { PIECES = SPAN / 16 };
    for (int i = lane; i < (to - from) * PIECES * V_SLABS; i += 32) {
        const int slab = i % V_SLABS, at = i / V_SLABS;
        st_shared_v4(stage + slab * SLAB_BYTES + from * SPAN + at * 16, 0, 0, 0, 0);
    }
}

/* V rows that share an MMA with covered rows but are not covered may hold NaN, and 0 * NaN is NaN:
 * make them zeros. Rows count from `token` of the tile. All 32 lanes. */
DEV void scrub(const struct cta *c, int kv_slot, const struct cover *x, int token) {
    const uint32_t stage = smem_addr(c->smem->kv[kv_slot]);
    const int lo = x->lo - token, hi = x->hi - token;
    if (lo > 0 && lo < V_TOKENS)
        zero_rows(stage, lo / STEP * STEP, lo, c->lane);
    if (hi > 0 && hi < V_TOKENS)
        zero_rows(stage, hi, (hi + STEP - 1) / STEP * STEP, c->lane);
    fence_proxy_async();
    __syncwarp();
}

/* O^T[block] += V^T P^T for one stage; steps outside the cover are left out, and nearly every stage
 * has none. Lane 0. */
DEV void weigh_stage(const struct cta *c, uint32_t o_tmem, int kv_slot, int p_slot, int token,
                     const struct cover *x, bool first) {
    const uint64_t v =
        descriptor(smem_addr(c->smem->kv[kv_slot]), SLAB_BYTES, 8 * SPAN, SPAN_SWIZZLE);
    const uint64_t p = descriptor(smem_addr(c->smem->side.p[p_slot]) + token * P_ROW, 8 * P_ROW,
                                  P_SWIZZLE ? 8 * P_ROW : 0, P_SWIZZLE);
    const int all = token / STEP + V_TOKENS / STEP, from = x->lo / STEP;
    const int begin = max_int(from, token / STEP), end = min_int((x->hi + STEP - 1) / STEP, all);
    const bool accumulate = !first || begin > from;
    if (end - begin == V_TOKENS / STEP) {
        mma(o_tmem, v, p, IDESC_WEIGH, accumulate);
#pragma unroll
        for (int i = STEP; i < V_TOKENS; i += STEP)
            mma_more(o_tmem, descriptor_at(v, i * SPAN), descriptor_at(p, i * P_ROW), IDESC_WEIGH);
        return;
    }
#pragma unroll 1
    for (int i = begin; i < end; i++) {
        const int at = i * STEP - token;
        mma(o_tmem, descriptor_at(v, at * SPAN), descriptor_at(p, at * P_ROW), IDESC_WEIGH,
            accumulate || i > begin);
    }
}

/* One tile's weighted sum into O's slot `o_slot`, which it clears if `first`. */
DEV void weigh(const struct cta *c, struct pipe *kv, struct pipe *p, int o_slot, bool first,
               const struct tiles *t) {
    const struct cover x = cover_of(t);
    const bool ragged = x.lo % STEP || x.hi % STEP;
    trace_enter(c->trace, TRACE_wait_P);
    pipe_wait(p);
    tcgen05_fence_after_thread_sync();
    for (int token = 0; token < tile_halves(t) * HALF; token += V_TOKENS)
        for (int block = 0; block < V_BLOCKS; block++, pipe_next(kv)) {
            trace_enter(c->trace, TRACE_wait_V);
            pipe_wait(kv);
            trace_enter(c->trace, TRACE_VP_issue);
            if (ragged)
                scrub(c, kv->slot, &x, token);
            if (c->lane == 0) {
                weigh_stage(c, c->tmem + O_COLUMN + (o_slot * V_BLOCKS + block) * N, kv->slot,
                            p->slot, token, &x, first);
                tcgen05_commit(pipe_empty(kv));
            }
            __syncwarp();
        }
    if (c->lane == 0)
        tcgen05_commit(pipe_empty(p));
    __syncwarp();
    trace_enter(c->trace, TRACE_other);
    pipe_next(p);
}

/* The issuer's rings. */
struct multiply_pipes {
    struct pipe kv, q, s, p, o;
};

DEV struct multiply_pipes multiply_pipes_of(const struct cta *c) {
    const struct side *x = &c->smem->side;
    struct multiply_pipes y;
    y.kv = pipe_consumer(c->smem->kv_full, c->smem->kv_empty, RING);
    y.q = pipe_consumer(x->q_full, x->q_empty, Q_STAGES);
    y.s = pipe_producer(x->s_full, x->s_empty, S_STAGES);
    y.p = pipe_consumer(x->p_full, x->p_empty, P_STAGES);
    y.o = pipe_producer(x->o_full, x->o_empty, O_STAGES);
    return y;
}

/* One tile into O. A slot is acquired, cleared and handed over once per part, or, where correction
 * sees every tile, once per tile; then it is cleared by the first tile of a part that meets it. */
DEV void weigh_tile(const struct cta *c, struct multiply_pipes *x, const struct tiles *t) {
    const bool first = t->tile == 0, last = t->tile == t->w.tiles - 1;
    trace_tile(c->trace, t->tile);
    trace_enter(c->trace, TRACE_wait_O_slot);
    if (O_PER_TILE || first)
        pipe_acquire(&x->o);
    weigh(c, &x->kv, &x->p, x->o.slot, O_PER_TILE ? t->tile < O_STAGES : first, t);
    if (!O_PER_TILE && !last)
        return;
    if (c->lane == 0)
        tcgen05_commit(pipe_full(&x->o));
    __syncwarp();
    pipe_next(&x->o);
}

DEV void multiply(const struct cta *c) {
    struct multiply_pipes x = multiply_pipes_of(c);
    struct tiles k = tiles_first(c->args, &c->first), v = k;
    for (int lead = 0; v.w.live;) {
        if (k_is_next(&k, &v, lead)) {
            score(c, &x.kv, &x.q, &x.s, &k);
            tiles_next(c->args, &k);
            lead++;
        } else {
            weigh_tile(c, &x, &v);
            tiles_next(c->args, &v);
            lead--;
        }
    }
}

#endif
