/* SPDX-License-Identifier: Apache-2.0
 * The small kernels beside decode, the same for every generation:
 *   gqa_combine  merges the float32 partials of units that were split, in ascending order of parts
 *   gqa_merge    the API's merge of shards
 *   gqa_zero     zeroes the output before the atomic finish
 *
 * gqa_combine finds the parts from the same lengths as the decode kernel did; nothing was written
 * for it but the partials. `ways` warps share a row: each sums every ways-th part, then they merge
 * in shared memory. Bound by the latency of two dependent loads (lengths, then partials). */
#include "schedule.cuh"
#include "trace.cuh"

enum { COMBINE_THREADS = 256, COMBINE_WARPS = COMBINE_THREADS / 32, DIMS = 128 };

#define NEG_LARGE (-1e30f)
#define LOG2E     1.4426950408889634f
#define LN2       0.6931471805599453f

struct combine_smem {
    float o[COMBINE_WARPS][DIMS];
    float ml[COMBINE_WARPS][2];
};

/* The parts of one unit, none of them empty: part i's partial is in slot `base + step * i`, the
 * first one's `extra` further. */
struct sources {
    int count, base, step, extra;
};

struct row_sum {
    float max, sum;
    float4 o;
};

DEV float load_float(int type, const void *p, int64_t i) {
    if (type == GQA_ARG_F32)
        return ((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return type == GQA_ARG_BF16 ? __uint_as_float((uint32_t)bits << 16) : cvt_f32_f16(bits);
}

DEV void store_float(int type, void *p, int64_t i, float x) {
    if (type == GQA_ARG_F32)
        ((float *)p)[i] = x;
    else if (type == GQA_ARG_BF16)
        ((uint16_t *)p)[i] = (uint16_t)cvt_rn_bf16x2_f32(x, 0);
    else
        ((uint16_t *)p)[i] = (uint16_t)cvt_rn_f16x2_f32(x, 0);
}

/* --- Combine --- */

/* count 1: the unit was output whole. All 32 lanes. */
DEV struct sources sources_of(const struct gqa_args *a, const struct unit *u) {
    struct sources x = {0, u->index * a->splits, 1, 0};
    if (a->schedule == GQA_SCHED_SPLITS) {
        x.count = min_int(u->grains, a->splits); /* the parts after these are empty */
    } else if (a->schedule == GQA_SCHED_TOKENS) {
        const int first = u->grain / a->split_grains;
        x.base += first;
        x.count = (u->grain + u->grains - 1) / a->split_grains - first + 1;
    } else {
        const struct shares all = shares_of(a);
        const int inner = u->index - u->sequence * a->kv_heads * a->row_tiles;
        const int at =
            grains_before(a, u->sequence) + inner * (GQA_UNIT_GRAINS + u->grains) + GQA_UNIT_GRAINS;
        const int first = share_owner(&all, at);
        x.count = share_owner(&all, at + u->grains - 1) - first + 1;
        x.base = 2 * first;
        x.step = 2;
        x.extra = 1;
    }
    return x;
}

DEV void row_sum_add(struct row_sum *x, float max, float sum, float4 o) {
    const bool used = sum != 0; /* NaN counts */
    const float top = fmaxf(x->max, used ? max : NEG_LARGE);
    const float keep = ex2_approx_ftz(x->max - top);
    const float weight = used ? ex2_approx_ftz(max - top) : 0.0f;
    x->max = top;
    x->sum = x->sum * keep + (used ? weight * sum : 0.0f);
    x->o.x = x->o.x * keep + (used ? weight * o.x : 0.0f);
    x->o.y = x->o.y * keep + (used ? weight * o.y : 0.0f);
    x->o.z = x->o.z * keep + (used ? weight * o.z : 0.0f);
    x->o.w = x->o.w * keep + (used ? weight * o.w : 0.0f);
}

/* Elements d .. d + 3 of row r (of the tile) over parts way, way + ways, ... */
DEV struct row_sum sum_parts(const struct gqa_args *a, const struct sources *x, int r, int d,
                             int way, int ways, struct trace *trace) {
    enum { BATCH = 4 }; /* parts in flight */
    struct row_sum sum;
    sum.max = NEG_LARGE;
    sum.sum = 0;
    sum.o = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int i = way; i < x->count; i += BATCH * ways) {
        float2 ml[BATCH];
        float4 o[BATCH];
        trace_tile(trace, i);
        trace_enter(trace, TRACE_split_load);
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int at = i + j * ways;
            ml[j] = make_float2(NEG_LARGE, 0);
            o[j] = make_float4(0, 0, 0, 0);
            if (at < x->count) {
                const int64_t slot = x->base + x->step * at + (at == 0 ? x->extra : 0);
                const int64_t row = slot * a->part_rows + r;
                ml[j] = *(const float2 *)&a->part_ml[2 * row];
                if (d < a->part_dim)
                    o[j] = *(const float4 *)&a->part_o[row * a->part_dim + d];
            }
        }
        trace_enter(trace, TRACE_weighted_merge);
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            row_sum_add(&sum, ml[j].x, ml[j].y, o[j]);
    }
    return sum;
}

DEV float combine_v_scale(const struct gqa_args *a, const struct unit *u) {
    float x = a->part_v_factor;
    if (a->v_scales == GQA_ARG_SCALE_TENSOR)
        x *= a->v_scale[0];
    else if (a->v_scales == GQA_ARG_SCALE_HEAD)
        x *= a->v_scale[u->kv_head];
    else if (a->v_scales == GQA_ARG_SCALE_BATCH_HEAD)
        x *= a->v_scale[(int64_t)u->sequence * a->kv_heads + u->kv_head];
    return x;
}

/* Row r of the sequence: sink, LSE, output elements d .. d + 3. */
DEV void write_row(const struct gqa_args *a, const struct unit *u, int r, int d,
                   struct row_sum *x) {
    if (a->sinks)
        row_sum_add(x, a->sinks[u->kv_head * a->group + r % a->group] * LOG2E, 1.0f,
                    make_float4(0, 0, 0, 0));
    const float factor = x->sum != 0 ? combine_v_scale(a, u) * rcp_approx_ftz(x->sum) : 0.0f;
    const float o[4] = {x->o.x, x->o.y, x->o.z, x->o.w};
    const int64_t at = row_offset(a, u, &a->o_stride, r) + d;
    for (int j = 0; j < 4 && d < a->head_dim_v; j++)
        store_float(a->o_type, a->o, at + j, o[j] * factor);
    if (d == 0 && a->lse) {
        const float log2_sum = x->max + lg2_approx_ftz(x->sum);
        a->lse[row_offset(a, u, &a->lse_stride, r)] =
            x->sum != 0 ? (a->lse_base_2 ? log2_sum : log2_sum * LN2) : -INFINITY;
    }
}

/* The other ways' sums, through shared memory; only way 0's result counts. */
DEV void sum_ways(struct combine_smem *smem, struct row_sum *x, int warp, int lane, int way,
                  int ways, struct trace *trace) {
    *(float4 *)&smem->o[warp][4 * lane] = x->o;
    if (lane == 0) {
        smem->ml[warp][0] = x->max;
        smem->ml[warp][1] = x->sum;
    }
    trace_enter(trace, TRACE_wait_ways);
    __syncthreads();
    trace_enter(trace, TRACE_weighted_merge);
#pragma unroll 1
    for (int w = 1; w < ways && way == 0; w++)
        row_sum_add(x, smem->ml[warp + w][0], smem->ml[warp + w][1],
                    *(const float4 *)&smem->o[warp + w][4 * lane]);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(COMBINE_THREADS)
    gqa_combine(const __grid_constant__ struct gqa_args args) {
    __shared__ struct combine_smem smem;
    const struct gqa_args *a = &args;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int ways = a->combine_ways, way = warp % ways;
    struct trace trace = trace_open(a, TRACE_COMBINE, TRACE_ROLE_combine);
    trace_enter(&trace, TRACE_producer_trigger);
    pdl_launch_dependents();
    trace_enter(&trace, a->reads_lengths ? TRACE_griddepcontrol_wait : TRACE_combine_prologue);
    if (a->reads_lengths)
        pdl_wait();
    trace_enter(&trace, TRACE_combine_prologue);
    /* Rows of all units, which fit 31 bits (launch_combine). */
    const int row = blockIdx.x * (COMBINE_WARPS / ways) + warp / ways, index = row / a->part_rows;
    const bool exists = index < a->units;
    const struct unit u = unit_of_index(a, exists ? index : 0);
    const int r = row - index * a->part_rows, at = u.row_tile * a->part_rows + r;
    struct sources x = sources_of(a, &u);
    const bool used = exists && at < unit_rows(a, &u) && x.count > 1;
    if (!used)
        x.count = 0;
    trace_enter(&trace, TRACE_griddepcontrol_wait);
    pdl_wait();
#pragma unroll 1
    for (int d = 4 * lane; d - 4 * lane < a->part_dim; d += DIMS) {
        struct row_sum sum = sum_parts(a, &x, r, d, way, ways, &trace);
        if (ways > 1)
            sum_ways(&smem, &sum, warp, lane, way, ways, &trace);
        trace_enter(&trace, TRACE_output_store);
        if (used && way == 0)
            write_row(a, &u, at, d, &sum);
    }
    trace_close(&trace);
}

/* --- Merge of shards --- */

/* One warp per row. All lanes have read the row's parts before anything is written in place. */
extern "C" __global__ void __launch_bounds__(COMBINE_THREADS)
    gqa_merge(const __grid_constant__ struct gqa_merge_args args) {
    const struct gqa_merge_args *a = &args;
    const int lane = threadIdx.x % 32;
    const int64_t row = (int64_t)blockIdx.x * COMBINE_WARPS + threadIdx.x / 32;
    pdl_wait();
    if (row >= a->rows)
        return;
    const float to_log2 = a->part_base_2 ? 1.0f : LOG2E;
    float max = -INFINITY, sum = 0;
    for (int i = 0; i < a->parts; i++)
        max = fmaxf(max, a->part_lse[i * a->rows + row] * to_log2);
    for (int i = 0; i < a->parts && max > -INFINITY; i++)
        sum += ex2_approx_ftz(a->part_lse[i * a->rows + row] * to_log2 - max);
    const float factor = rcp_approx_ftz(sum);
    for (int d = lane; d < a->head_dim_v; d += 32) {
        float o = 0;
        for (int i = 0; i < a->parts; i++) {
            const float lse = a->part_lse[i * a->rows + row] * to_log2;
            if (lse > -INFINITY)
                o += ex2_approx_ftz(lse - max) * factor *
                     load_float(a->part_type, a->part_o, (i * a->rows + row) * a->head_dim_v + d);
        }
        store_float(a->o_type, a->o, row * a->head_dim_v + d, o);
    }
    __syncwarp();
    if (lane == 0 && a->lse) {
        const float log2_sum = max + lg2_approx_ftz(sum);
        a->lse[row] = sum != 0 ? (a->o_base_2 ? log2_sum : log2_sum * LN2) : -INFINITY;
    }
}

/* --- Zero the output --- */

/* One warp per query row. */
extern "C" __global__ void __launch_bounds__(COMBINE_THREADS)
    gqa_zero(const __grid_constant__ struct gqa_zero_args args) {
    const struct gqa_zero_args *a = &args;
    const int lane = threadIdx.x % 32;
    const int64_t row = (int64_t)blockIdx.x * COMBINE_WARPS + threadIdx.x / 32;
    pdl_launch_dependents();
    pdl_wait();
    const int head = (int)(row % a->q_heads);
    const int64_t rest = row / a->q_heads;
    const int token = (int)(rest % a->q_tokens), sequence = (int)(rest / a->q_tokens);
    if (sequence >= a->batch)
        return;
    int64_t at = token * a->o_stride.token + head * a->o_stride.head;
    if (a->cu_seqlens_q) {
        const int first = a->cu_seqlens_q[sequence];
        if (token >= a->cu_seqlens_q[sequence + 1] - first)
            return;
        at += first * a->o_stride.token;
    } else {
        at += sequence * a->o_stride.batch;
    }
    char *o = (char *)a->o + at * a->o_bytes;
    for (int i = 0; i < a->row_elements; i++)
        if (i % 32 == lane)
            store_float(a->o_bytes == 4 ? GQA_ARG_F32 : GQA_ARG_F16, o, i, 0.0f);
}
