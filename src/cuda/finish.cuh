/* SPDX-License-Identifier: Apache-2.0
 * From a CTA's warps to the output: merge the warps in shared memory, then write the output, write
 * a partial, or finish in the cluster (finish_sm90.cuh).
 *
 * Weight of a source with maximum m and sum l, over sources: 2^(m - M), 0 where l is 0; such a
 * source is not read, so partials that nobody wrote cannot reach a result. A NaN score makes l NaN,
 * and so everything that it belongs to. */
#ifndef GQA_FINISH_CUH
#define GQA_FINISH_CUH

#include "softmax.cuh"

/* +4: rows of a warp's store land in different banks. */
enum { PITCH = HEAD_DIM + 4, QUADS = HEAD_DIM / 4 };

struct merge_smem {
    float o[TEAMS][ROWS][PITCH];
    float ml[TEAMS][ROWS][2];
};

/* One row's result: max and sum are complete, o[] is four of its elements. */
struct merged {
    float max, sum;
    float o[4];
};

DEV void store_element(int type, void *p, int64_t i, float x) {
    if (type == GQA_ARG_F32)
        ((float *)p)[i] = x;
    else if (type == GQA_ARG_BF16)
        ((uint16_t *)p)[i] = (uint16_t)cvt_rn_bf16x2_f32(x, 0);
    else
        ((uint16_t *)p)[i] = (uint16_t)cvt_rn_f16x2_f32(x, 0);
}

/* Four neighbours, in one store where the address allows it. */
DEV void store_quad(int type, void *p, int64_t i, const float x[4]) {
    const int bytes = type == GQA_ARG_F32 ? 4 : 2;
    char *at = (char *)p + i * bytes;
    if ((uintptr_t)at % (4 * bytes)) {
#pragma unroll
        for (int j = 0; j < 4; j++)
            store_element(type, p, i + j, x[j]);
    } else if (type == GQA_ARG_F32) {
        *(float4 *)at = make_float4(x[0], x[1], x[2], x[3]);
    } else if (type == GQA_ARG_BF16) {
        *(uint2 *)at = make_uint2(cvt_rn_bf16x2_f32(x[0], x[1]), cvt_rn_bf16x2_f32(x[2], x[3]));
    } else {
        *(uint2 *)at = make_uint2(cvt_rn_f16x2_f32(x[0], x[1]), cvt_rn_f16x2_f32(x[2], x[3]));
    }
}

DEV float v_scale_of(const struct gqa_args *a, const struct unit *u) {
    if (a->v_scales == GQA_ARG_SCALE_TENSOR)
        return a->v_scale[0];
    if (a->v_scales == GQA_ARG_SCALE_HEAD)
        return a->v_scale[u->kv_head];
    if (a->v_scales == GQA_ARG_SCALE_BATCH_HEAD)
        return a->v_scale[(int64_t)u->sequence * a->kv_heads + u->kv_head];
    return 1.0f;
}

/* Let the sink join a row's max and sum: once, in logit units. */
DEV void merged_add_sink(const struct gqa_args *a, const struct unit *u, int r, struct merged *m) {
    if (!a->sinks)
        return;
    const float sink = a->sinks[u->kv_head * a->group + r % a->group] * LOG2E;
    const float max = fmaxf(m->max, sink);
    const float factor = m->sum != 0 ? ex2_approx_ftz(m->max - max) : 0.0f;
    m->sum = m->sum * factor + ex2_approx_ftz(sink - max);
    for (int j = 0; j < 4; j++)
        m->o[j] *= factor;
    m->max = max;
}

/* The row's LSE, if it is wanted; the sink is in m. */
DEV void lse_write(const struct gqa_args *a, const struct unit *u, int r, const struct merged *m) {
    if (!a->lse)
        return;
    const float log2_sum = m->max + lg2_approx_ftz(m->sum);
    a->lse[row_offset(a, u, &a->lse_stride, r)] =
        m->sum != 0 ? (a->lse_base_2 ? log2_sum : log2_sum * LN2) : -INFINITY;
}

/* Output elements [d, d + 4) of row r of the sequence, and its LSE where d is 0. `v_factor` is
 * V's scale, FP8_FACTOR included. */
DEV void merged_write(const struct gqa_args *a, const struct unit *u, int r, int d,
                      struct merged *m, float v_factor) {
    merged_add_sink(a, u, r, m);
    if (d < a->head_dim_v) {
        const float factor = m->sum != 0 ? v_factor * rcp_approx_ftz(m->sum) : 0.0f;
        float o[4];
        for (int j = 0; j < 4; j++)
            o[j] = m->o[j] * factor;
        store_quad(a->o_type, a->o, row_offset(a, u, &a->o_stride, r) + d, o);
    }
    if (d == 0)
        lse_write(a, u, r, m);
}

/* Row r, elements 4 quad .. + 3, over the warps of this CTA. */
DEV struct merged merge_warps(const struct merge_smem *x, int r, int quad) {
    struct merged m;
    m.max = NEG_LARGE;
    m.sum = 0;
    for (int j = 0; j < 4; j++)
        m.o[j] = 0;
#pragma unroll
    for (int w = 0; w < TEAMS; w++)
        m.max = fmaxf(m.max, x->ml[w][r][1] != 0 ? x->ml[w][r][0] : NEG_LARGE);
#pragma unroll
    for (int w = 0; w < TEAMS; w++) {
        if (x->ml[w][r][1] != 0) {
            const float weight = ex2_approx_ftz(x->ml[w][r][0] - m.max);
            const float4 o = *(const float4 *)&x->o[w][r][4 * quad];
            m.sum += weight * x->ml[w][r][1];
            m.o[0] += weight * o.x;
            m.o[1] += weight * o.y;
            m.o[2] += weight * o.z;
            m.o[3] += weight * o.w;
        }
    }
    return m;
}

/* Elements of a merged row to the partial slot; see args.h. */
DEV void partial_write(const struct gqa_args *a, int slot, int r, int quad,
                       const struct merged *m) {
    const int64_t row = (int64_t)slot * a->part_rows + r;
    if (quad == 0)
        *(float2 *)&a->part_ml[2 * row] = make_float2(m->max, m->sum);
    if (m->sum != 0)
        *(float4 *)&a->part_o[row * a->part_dim + 4 * quad] =
            make_float4(m->o[0], m->o[1], m->o[2], m->o[3]);
}

/* OUTPUT or PARTIAL. `thread` of `threads` share the work; the warps' stores are visible. */
DEV void finish_cta(const struct gqa_args *a, const struct unit *u, const struct part *p,
                    const struct merge_smem *x, int thread, int threads) {
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const int to_output = a->finish == GQA_FINISH_OUTPUT || p->whole;
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    for (int i = thread; i < rows * QUADS; i += threads) {
        const int r = i / QUADS, quad = i % QUADS;
        struct merged m = merge_warps(x, r, quad);
        if (to_output)
            merged_write(a, u, u->row_tile * ROWS + r, 4 * quad, &m, v_factor);
        else if (4 * quad < a->part_dim)
            partial_write(a, p->slot, r, quad, &m);
    }
}

#endif
