/* SPDX-License-Identifier: Apache-2.0
 * Partial results: folding them together, storing the finished rows, and gqa_merge. */
#include "cpu.h"
#include "num.h"
#include "status.h"

#include <math.h>
#include <string.h>

static const float log2_e = 1.44269504088896340736f, ln_2 = 0.693147180559945309417f;

struct cpu_state cpu_state_at(const struct cpu_layout *l, float *memory) {
    const int64_t rows = (int64_t)l->heads * l->rows;
    float *const max = memory + rows * l->acc_stride;
    return (struct cpu_state){.acc = memory, .max = max, .sum = max + rows};
}

/* A sum of 0 says that a row has seen no key; NaN is not 0 and is passed on. */
void cpu_state_fold(const struct cpu_layout *l, struct cpu_state *into,
                    const struct cpu_state *from, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        float *const a = into->acc + r * l->acc_stride;
        const float *const b = from->acc + r * l->acc_stride;
        if (from->sum[r] == 0)
            continue;
        if (into->sum[r] == 0) {
            memcpy(a, b, (size_t)l->acc_stride * sizeof *a);
            into->max[r] = from->max[r];
            into->sum[r] = from->sum[r];
            continue;
        }
        const float max = into->max[r] > from->max[r] ? into->max[r] : from->max[r];
        const float x = exp2f(into->max[r] - max), y = exp2f(from->max[r] - max);
        for (int d = 0; d < l->acc_stride; d++)
            a[d] = a[d] * x + b[d] * y;
        into->max[r] = max;
        into->sum[r] = into->sum[r] * x + from->sum[r] * y;
    }
}

/* --- Storing --- */

static uint16_t to_f16(float f) {
    const uint32_t bits = num_to_bits(f), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
    if (x > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (x >= 0x477ff000) /* 65520, where rounding reaches infinity */
        return (uint16_t)(sign | 0x7c00);
    if (x < 0x38800000) /* subnormal: adding 0.5 rounds to its last place, 2^-24 */
        return (uint16_t)(sign | (num_to_bits(num_from_bits(x) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13);
}

static void store_floats(enum gqa_type type, void *to, const float *from, int64_t n) {
    if (type == GQA_F32) {
        memcpy(to, from, (size_t)n * sizeof *from);
    } else if (type == GQA_BF16) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = num_to_bf16(from[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = to_f16(from[i]);
    }
}

static float scale_of(enum gqa_scales kind, const float *scale, const struct gqa_problem *p,
                      int64_t batch, int head) {
    switch (kind) {
    case GQA_SCALE_NONE:
        return 1;
    case GQA_SCALE_TENSOR:
        return scale[0];
    case GQA_SCALE_HEAD:
        return scale[head];
    case GQA_SCALE_BATCH_HEAD:
        return scale[batch * p->kv_heads + head];
    }
    return 1;
}

/* What a row's state comes to: o = acc * factor, and its lse in base 2. */
struct result {
    float factor, lse_log2;
};

static struct result finish_row(float max, float sum, float sink_log2) {
    if (sum == 0)
        return (struct result){0, sink_log2};
    const float top = max > sink_log2 ? max : sink_log2;
    const float scale = exp2f(max - top), total = sum * scale + exp2f(sink_log2 - top);
    return (struct result){scale / total, top + log2f(total)};
}

void cpu_lane_store(const struct cpu_call *c, const struct cpu_row *row,
                    const struct cpu_lane *lane, const struct cpu_state *s) {
    const struct gqa_problem *p = c->p;
    const struct gqa_tensors *t = c->t;
    const int group = problem_group(p);
    const int64_t o_bytes = (int64_t)gqa_type_bytes(p->o_type);
    const float base = p->lse_base == GQA_BASE_2 ? 1 : ln_2;
    const int64_t q_row = p->q_ragged ? row->q_row : 0, batch = p->q_ragged ? 0 : lane->batch;
    float natural[GQA_MAX_HEAD_DIM + CPU_DIM_PAD];
    int64_t r = 0;
    for (int h = lane->head; h < lane->head + lane->heads; h++) {
        const float v_scale = c->ops->gain * scale_of(p->v_scales, t->v_scale, p, lane->batch, h);
        for (int i = 0; i < row->q_tokens; i++)
            for (int g = 0; g < group; g++, r++) {
                const int q_head = h * group + g;
                const float sink = p->has_sinks ? t->sinks[q_head] * log2_e : -INFINITY;
                const struct result x = finish_row(s->max[r], s->sum[r], sink);
                if (s->sum[r] == 0)
                    memset(natural, 0, sizeof natural);
                else
                    c->ops->unpack(natural, s->acc + r * c->layout.acc_stride, x.factor * v_scale,
                                   p->head_dim_v);
                const int64_t at =
                    batch * p->o.batch + (q_row + i) * p->o.token + q_head * p->o.head;
                store_floats(p->o_type, (char *)t->o + at * o_bytes, natural, p->head_dim_v);
                if (p->has_lse)
                    t->lse[batch * p->lse.batch + (q_row + i) * p->lse.token +
                           q_head * p->lse.head] = x.lse_log2 * base;
            }
    }
}

/* --- gqa_merge --- */

enum { MERGE_CHUNK = 256 };

/* o[0 .. n) += weight * part_o[at .. at + n). */
static void add_part(float *o, const struct gqa_shards *m, int64_t at, int n, float weight) {
    if (m->part_type == GQA_F32) {
        const float *from = (const float *)m->part_o + at;
        for (int i = 0; i < n; i++)
            o[i] += weight * from[i];
    } else {
        for (int i = 0; i < n; i++)
            o[i] += weight * num_load(m->part_type, m->part_o, at + i);
    }
}

static void merge_row(const struct gqa_shards *m, int64_t row, int64_t rows) {
    const float to_log2 = m->part_base == GQA_BASE_2 ? 1 : log2_e;
    const float base = m->o_base == GQA_BASE_2 ? 1 : ln_2;
    const int64_t bytes = (int64_t)gqa_type_bytes(m->o_type);
    float max = -INFINITY, sum = 0;
    for (int part = 0; part < m->parts; part++) {
        const float lse = m->part_lse[part * rows + row];
        max = lse > max ? lse : max;
    }
    max *= to_log2;
    const float top = max == -INFINITY ? 0 : max;
    for (int part = 0; part < m->parts; part++)
        sum += exp2f(m->part_lse[part * rows + row] * to_log2 - top);
    const float factor = sum == 0 ? 0 : 1 / sum;
    for (int d = 0; d < m->head_dim_v; d += MERGE_CHUNK) {
        const int n = m->head_dim_v - d < MERGE_CHUNK ? m->head_dim_v - d : MERGE_CHUNK;
        float o[MERGE_CHUNK] = {0};
        for (int part = 0; part < m->parts; part++) {
            const float lse = m->part_lse[part * rows + row];
            if (lse != -INFINITY)
                add_part(o, m, (part * rows + row) * m->head_dim_v + d, n,
                         exp2f(lse * to_log2 - top) * factor);
        }
        store_floats(m->o_type, (char *)m->o + (row * m->head_dim_v + d) * bytes, o, n);
    }
    if (m->lse)
        m->lse[row] = sum == 0 ? -INFINITY : (top + log2f(sum)) * base;
}

gqa_status cpu_merge(gqa_device *device, const struct gqa_shards *m, void *stream,
                     struct gqa_error *err) {
    (void)device;
    if (stream)
        return fail(err, GQA_ERR_ARGUMENT, "stream is not NULL, but a CPU has no streams");
    const int64_t rows = m->rows * m->q_heads;
    for (int64_t row = 0; row < rows; row++)
        merge_row(m, row, rows);
    return GQA_OK;
}
