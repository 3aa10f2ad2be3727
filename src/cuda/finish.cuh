/* SPDX-License-Identifier: Apache-2.0
 * From a CTA's warps to the output: merge the warps in shared memory, then write the output, write
 * a partial, or finish in the cluster (finish_sm90.cuh).
 *
 * Weight of a source with maximum m and sum l, over sources: 2^(m - M), 0 where l is 0; what such a
 * source holds cannot reach a result. A NaN score makes l NaN, and so everything that it belongs
 * to. */
#ifndef GQA_FINISH_CUH
#define GQA_FINISH_CUH

#include "softmax.cuh"

/* Teams attend to tokens of their own; the warps of a team have columns of their own, and at most
 * SUM_WARPS of them each a part of the sums. */
enum {
    TEAMS = GQA_TEAMS,
    SUM_WARPS = GQA_SUM_WARPS,
    QUADS = HEAD_DIM / 4,
    ITEMS = ROWS * QUADS,
};

static_assert((TEAMS & (TEAMS - 1)) == 0 && TEAMS <= QUADS, "see merge_teams");

struct merge_smem {
    float o[TEAMS][ROWS][HEAD_DIM]; /* quads moved */
    float max[TEAMS][ROWS];
    alignas(4 * SUM_WARPS) float sum[TEAMS][ROWS][SUM_WARPS];
};

/* Where a quad of row r lies within the row's quads in shared memory: moved so that neither storing
 * by fragments nor reading by rows meets bank conflicts. */
DEV int quad_moved(int r, int quad) {
    return quad ^ ((r >> 1 & 1) | (r >> 2 & 1) << 2);
}

/* This warp's accumulators to its team's rows, from column `first` on. `part`: which part of the
 * sums it has; the first stores maxima. All 32 lanes. */
DEV void softmax_store(const struct softmax *x, struct merge_smem *to, int team, int first,
                       int part, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        float sum = x->sum[i];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (t == 0 && part < SUM_WARPS)
            to->sum[team][8 * i + g][part] = sum;
        if (t == 0 && part == 0)
            to->max[team][8 * i + g] = x->max[i];
        const int r = 8 * i + 2 * t; /* r + 1 is moved as r is */
        const uint32_t rows = smem_addr(to->o[team][r]);
#pragma unroll
        for (int q = 0; q < D_TILES / 2; q++) {
            const float *a = x->acc[0][i][2 * q], *b = x->acc[0][i][2 * q + 1];
            const uint32_t at = rows + 16 * quad_moved(r, (first + acc_element(q, g)) / 4);
            st_shared_v4(at, a[0], a[2], b[0], b[2]);
            st_shared_v4(at + 4 * HEAD_DIM, a[1], a[3], b[1], b[3]);
        }
        if (D_TILES == 1) {
            const float *a = x->acc[0][i][0];
            const int d = first + v_column(0, g);
            const uint32_t at = rows + 16 * quad_moved(r, d / 4) + d % 4 * 4;
            st_shared_v2(at, a[0], a[2]);
            st_shared_v2(at + 4 * HEAD_DIM, a[1], a[3]);
        }
    }
}

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

/* Four neighbours at `at`; `vectors`: in one store. */
DEV void store_quad(int type, void *at, bool vectors, const float x[4]) {
    if (!vectors) {
#pragma unroll 1
        for (int j = 0; j < 4; j++)
            store_element(type, at, j, j == 0 ? x[0] : j == 1 ? x[1] : j == 2 ? x[2] : x[3]);
    } else if (type == GQA_ARG_BF16) {
        *(uint2 *)at = make_uint2(cvt_rn_bf16x2_f32(x[0], x[1]), cvt_rn_bf16x2_f32(x[2], x[3]));
    } else if (type == GQA_ARG_F32) {
        *(float4 *)at = make_float4(x[0], x[1], x[2], x[3]);
    } else {
        *(uint2 *)at = make_uint2(cvt_rn_f16x2_f32(x[0], x[1]), cvt_rn_f16x2_f32(x[2], x[3]));
    }
}

/* Where the rows of a unit go: its sequence's first row in its KV head's first query head. Worked
 * out before there is anything to write. */
struct place {
    char *o;
    float *lse;
};

DEV struct place place_of(const struct gqa_args *a, const struct unit *u) {
    const int head = u->kv_head * a->group, o_bytes = a->o_type == GQA_ARG_F32 ? 4 : 2;
    const int sequence = a->cu_seqlens_q ? 0 : u->sequence;
    const int64_t o =
        sequence * a->o_stride.batch + u->q_row * a->o_stride.token + head * a->o_stride.head;
    const int64_t lse =
        sequence * a->lse_stride.batch + u->q_row * a->lse_stride.token + head * a->lse_stride.head;
    struct place x = {(char *)a->o + o * o_bytes, a->lse + lse};
    asm volatile("" : "+l"(x.o), "+l"(x.lse)); /* here, not where it is needed */
    return x;
}

/* Offset of row r from there, in elements. */
DEV int64_t place_offset(const struct gqa_args *a, const struct gqa_arg_strides *s, int r) {
    const int token = a->q_tokens > 1 ? divide(r, a->by_group) : 0;
    return token * s->token + (r - token * a->group) * s->head;
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
DEV void lse_write(const struct gqa_args *a, const struct place *to, int r,
                   const struct merged *m) {
    if (!a->lse)
        return;
    const float log2_sum = m->max + lg2_approx_ftz(m->sum);
    to->lse[place_offset(a, &a->lse_stride, r)] =
        m->sum != 0 ? (a->lse_base_2 ? log2_sum : log2_sum * LN2) : -INFINITY;
}

/* Output elements [d, d + 4) of row r of the sequence, and its LSE where d is 0. `v_factor` is
 * V's scale, FP8_FACTOR included. */
DEV void merged_write(const struct gqa_args *a, const struct unit *u, const struct place *to, int r,
                      int d, struct merged *m, float v_factor) {
    merged_add_sink(a, u, r, m);
    if (d < a->head_dim_v) {
        const float factor = m->sum != 0 ? v_factor * rcp_approx_ftz(m->sum) : 0.0f;
        const float o[4] = {m->o[0] * factor, m->o[1] * factor, m->o[2] * factor, m->o[3] * factor};
        const int64_t at = place_offset(a, &a->o_stride, r) + d;
        store_quad(a->o_type, to->o + at * (a->o_type == GQA_ARG_F32 ? 4 : 2), a->o_vectors, o);
    }
    if (d == 0)
        lse_write(a, to, r, m);
}

/* Row r, elements 4 quad .. + 3, over the first `teams` teams of this CTA, the same number in all
 * threads. All 32 lanes, TEAMS neighbours of the same row: each works out one team's weight. */
DEV struct merged merge_teams(const struct merge_smem *x, int teams, int r, int quad) {
    const int mine = threadIdx.x % TEAMS, team = mine < teams ? mine : 0;
    const float max = x->max[team][r];
    float sum = x->sum[team][r][0];
#pragma unroll
    for (int i = 1; i < SUM_WARPS; i++)
        sum += x->sum[team][r][i];
    const bool used = mine < teams && sum != 0;
    struct merged m = {used ? max : NEG_LARGE, 0, {0, 0, 0, 0}};
    float4 o[TEAMS];
#pragma unroll
    for (int w = 0; w < TEAMS; w++)
        o[w] = w < teams ? *(const float4 *)&x->o[w][r][4 * quad_moved(r, quad)]
                         : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int step = TEAMS / 2; step; step /= 2)
        m.max = fmaxf(m.max, __shfl_xor_sync(0xffffffffu, m.max, step));
    const float weight = used ? ex2_approx_ftz(max - m.max) : -1.0f; /* -1: not to be read */
    m.sum = used ? weight * sum : 0.0f;
#pragma unroll
    for (int step = TEAMS / 2; step; step /= 2)
        m.sum += __shfl_xor_sync(0xffffffffu, m.sum, step);
#pragma unroll
    for (int w = 0; w < TEAMS; w++) {
        const float f = __shfl_sync(0xffffffffu, weight, w, TEAMS);
        m.o[0] += f < 0 ? 0.0f : f * o[w].x;
        m.o[1] += f < 0 ? 0.0f : f * o[w].y;
        m.o[2] += f < 0 ? 0.0f : f * o[w].z;
        m.o[3] += f < 0 ? 0.0f : f * o[w].w;
    }
    return m;
}

/* Elements of a merged row to the partial slot; see args.h. */
DEV void partial_write(const struct gqa_args *a, int slot, int r, int quad,
                       const struct merged *m) {
    const int64_t row = (int64_t)slot * a->part_rows + r;
    if (quad == 0)
        *(float2 *)&a->part_ml[2 * row] = make_float2(m->max, m->sum);
    /* Also where the sum is 0: the combine reads before it knows. */
    *(float4 *)&a->part_o[row * a->part_dim + 4 * quad] =
        make_float4(m->o[0], m->o[1], m->o[2], m->o[3]);
}

/* OUTPUT or PARTIAL. `threads` (whole warps) share the work; the warps' stores are visible. */
DEV void finish_cta(const struct gqa_args *a, const struct unit *u, const struct part *p,
                    const struct place *to, const struct merge_smem *x, int teams, int thread,
                    int threads) {
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const int to_output = a->finish == GQA_FINISH_OUTPUT || p->whole;
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
    for (int i = thread; i < ITEMS; i += threads) {
        const int r = i / QUADS, quad = i % QUADS;
        struct merged m = merge_teams(x, teams, r, quad);
        if (r >= rows)
            continue;
        if (to_output)
            merged_write(a, u, to, u->row_tile * ROWS + r, 4 * quad, &m, v_factor);
        else if (4 * quad < a->part_dim)
            partial_write(a, p->slot, r, quad, &m);
    }
}

#endif
