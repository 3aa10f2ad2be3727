/* SPDX-License-Identifier: Apache-2.0
 * A part's queries: Q in shared memory as the MMA wants it, and what softmax must know of its rows.
 *
 * Beside 16-bit caches Q has their type; the planner refuses any other. Beside FP8 caches each
 * element of Q is the sum of two e4m3 numbers, in columns r and ROWS + r, after scaling the row so
 * that its largest element is in [128, 256): a bf16 element within 2^-10 of the largest is then
 * exact. The same is done to the weights, so nothing but the cache itself is FP8-coarse. */
#ifndef GQA_DECODE_SM100_QUERY_CUH
#define GQA_DECODE_SM100_QUERY_CUH

#include "decode_sm100.cuh"

enum {
    PIECE = 8, /* elements a thread handles at once */
    PIECES = HEAD_DIM / PIECE,
    /* Columns beyond ROWS repeat rows; nobody reads their products. */
    Q_ROWS = KV_IS_FP8 ? ROWS : N,
};

DEV float float_of(int type, uint32_t bits) {
    return type == GQA_ARG_BF16 ? __uint_as_float(bits << 16) : cvt_f32_f16((uint16_t)bits);
}

/* Elements [d, d + 8) of row r of the sequence; zeros beyond its ends. */
DEV struct u32x4 query_read(const struct gqa_args *a, const struct unit *u, int r, int d) {
    struct u32x4 x = {{0, 0, 0, 0}};
    if (r < unit_rows(a, u) && d < a->head_dim) {
        const uint2 *from =
            (const uint2 *)((const uint16_t *)a->q + row_offset(a, u, &a->q_stride, r) + d);
        const uint2 low = from[0], high = from[1];
        x.w[0] = low.x;
        x.w[1] = low.y;
        x.w[2] = high.x;
        x.w[3] = high.y;
    }
    return x;
}

/* Shared-memory address of element d of column n. */
DEV uint32_t query_address(uint32_t q_smem, int n, int d) {
    return swizzled(q_smem + d / CHUNK * (N * SPAN) + n * SPAN + d % CHUNK * KV_BYTES,
                    SPAN_SWIZZLE);
}

/* 2^k such that k brings a row whose largest magnitude is `most` into [128, 256). NaN and infinity
 * give NaN: e4m3 could not say infinity. */
DEV float row_scale_up(float most) {
    const uint32_t e = __float_as_uint(most) >> 23;
    return e == 255 ? __uint_as_float(0x7fffffffu)
                    : __uint_as_float((uint32_t)(261 - (e < 8 ? 8 : (int)e)) << 23);
}

/* Eight elements as two e4m3 parts; the row's 2^-k. The PIECES lanes of the row act together. */
DEV float query_split(int type, const struct u32x4 *x, uint32_t high[2], uint32_t low[2]) {
    float f[PIECE], most = 0;
#pragma unroll
    for (int i = 0; i < PIECE; i++) {
        f[i] = float_of(type, i % 2 ? x->w[i / 2] >> 16 : x->w[i / 2] & 0xffff);
        most = __uint_as_float(umax(__float_as_uint(most), __float_as_uint(f[i]) & 0x7fffffffu));
    }
#pragma unroll
    for (int step = PIECES / 2; step; step /= 2)
        most = __uint_as_float(
            umax(__float_as_uint(most), __shfl_xor_sync(0xffffffffu, __float_as_uint(most), step)));
    const float up = row_scale_up(most);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t h[2], l[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float a = f[4 * i + 2 * j] * up, b = f[4 * i + 2 * j + 1] * up;
            h[j] = cvt_rn_e4m3x2_f32(a, b);
            const uint32_t back = cvt_rn_f16x2_e4m3x2(h[j]);
            l[j] = cvt_rn_e4m3x2_f32((a - cvt_f32_f16((uint16_t)back)) * LOW_SCALE,
                                     (b - cvt_f32_f16((uint16_t)(back >> 16))) * LOW_SCALE);
        }
        high[i] = h[0] | h[1] << 16;
        low[i] = l[0] | l[1] << 16;
    }
    return 1.0f / up;
}

/* Row r's facts; rows past the end repeat the last one. */
DEV void query_facts_put(const struct gqa_args *a, const struct work *w, struct query_facts *facts,
                         int r) {
    const struct unit *u = &w->u;
    const int token = min_int(u->row_tile * ROWS + r, unit_rows(a, u) - 1) / a->group;
    facts->begin[r] = max_int(w->p.begin, visible_begin(a, u->len, u->queries, token));
    facts->end[r] = min_int(w->p.end, visible_end(a, u->len, u->queries, token));
}

DEV void query_put(const struct cta *c, const struct work *w, int slot, int thread, int threads) {
    const struct gqa_args *a = c->args;
    struct query_facts *facts = &c->smem->side.facts[slot];
    const uint32_t q_smem = smem_addr(c->smem->side.q[slot]);
    if (thread < ROWS)
        query_facts_put(a, w, facts, thread);
    for (int i = thread; i < Q_ROWS * PIECES; i += threads) {
        const int r = i / PIECES, d = i % PIECES * PIECE;
        const struct u32x4 x = query_read(a, &w->u, w->u.row_tile * ROWS + r % ROWS, d);
        if (KV_IS_FP8) {
            uint32_t high[2], low[2];
            const float scale = query_split(a->q_type, &x, high, low);
            st_shared_v2(query_address(q_smem, r, d), high[0], high[1]);
            st_shared_v2(query_address(q_smem, ROWS + r, d), low[0], low[1]);
            if (d == 0)
                facts->scale[r] = scale;
        } else {
            st_shared_v4(query_address(q_smem, r, d), __uint_as_float(x.w[0]),
                         __uint_as_float(x.w[1]), __uint_as_float(x.w[2]), __uint_as_float(x.w[3]));
        }
    }
    fence_proxy_async();
}

#endif
