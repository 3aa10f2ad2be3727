/* SPDX-License-Identifier: Apache-2.0
 * The formulas of gqa.h, one after the other, in float64. */
#include "ref.h"

#include "../src/num.h"

#include <stdlib.h>

/* --- Shapes --- */

int64_t ref_kv_len(const struct gqa_problem *p, const struct gqa_tensors *t, int64_t b) {
    if (t->kv_lens)
        return t->kv_lens[b];
    if (p->paging != GQA_PAGED_CSR)
        return p->kv_len;
    const int64_t entry = t->batch_index ? t->batch_index[b] : b;
    const int64_t pages = (int64_t)t->page_indptr[entry + 1] - t->page_indptr[entry];
    return pages ? (pages - 1) * p->page_size + t->last_page_len[b] : 0;
}

int ref_q_len(const struct gqa_problem *p, const struct gqa_tensors *t, int64_t b, int64_t *first) {
    if (!p->q_ragged) {
        *first = b * p->q_tokens;
        return p->q_tokens;
    }
    *first = t->cu_seqlens_q[b];
    return t->cu_seqlens_q[b + 1] - t->cu_seqlens_q[b];
}

void ref_visible(const struct gqa_problem *p, int64_t len, int i, int n, int64_t *begin,
                 int64_t *end) {
    const int64_t position = len - n + i;
    *begin = 0;
    *end = len;
    if (p->causal && *end > position + 1)
        *end = position + 1;
    if (p->window_left >= 0 && *begin < position - p->window_left)
        *begin = position - p->window_left;
    if (*end < *begin)
        *end = *begin;
}

/* index * stride, where a dimension of size 1 has no stride. */
static int64_t step(int64_t size, int64_t index, int64_t stride) {
    return size == 1 ? 0 : index * stride;
}

int64_t ref_cache_offset(const struct gqa_problem *p, const struct gqa_tensors *t,
                         const struct gqa_strides *s, int64_t b, int64_t j, int head) {
    const int64_t entry = t->batch_index ? t->batch_index[b] : b;
    const int64_t in_head = step(p->kv_heads, head, s->head);
    if (p->paging == GQA_CONTIGUOUS)
        return step(p->kv_batch ? p->kv_batch : p->batch, entry, s->batch) +
               step(p->kv_len, j, s->token) + in_head;

    const int64_t nth = j / p->page_size, slot = j % p->page_size;
    int64_t page;
    if (p->paging == GQA_PAGED_TABLE) {
        const int64_t columns =
            p->table_stride ? p->table_stride : (p->kv_len + p->page_size - 1) / p->page_size;
        page = t->block_table[entry * columns + nth];
    } else {
        page = t->page_indices[t->page_indptr[entry] + nth];
    }
    return step(p->num_pages, page, s->batch) + step(p->page_size, slot, s->token) + in_head;
}

int64_t ref_row_offset(const struct gqa_problem *p, const struct gqa_strides *s, int64_t row,
                       int head) {
    const int64_t in_head = step(p->q_heads, head, s->head);
    if (p->q_ragged)
        return step(p->q_total, row, s->token) + in_head;
    return step(p->batch, row / p->q_tokens, s->batch) +
           step(p->q_tokens, row % p->q_tokens, s->token) + in_head;
}

/* --- Attention --- */

static double scale_value(const struct gqa_problem *p, enum gqa_scales kind, const float *scale,
                          int64_t b, int head) {
    switch (kind) {
    case GQA_SCALE_NONE:
        return 1;
    case GQA_SCALE_TENSOR:
        return (double)scale[0];
    case GQA_SCALE_HEAD:
        return (double)scale[head];
    case GQA_SCALE_BATCH_HEAD:
        return (double)scale[b * p->kv_heads + head];
    }
    return 1;
}

/* One KV head of one sequence as plain arrays, and room for one row's weights. */
struct head_data {
    int64_t len;
    double *k;      /* [len][head_dim], k_scale included */
    double *v;      /* [len][head_dim_v], v_scale included */
    double *q;      /* [head_dim] */
    double *weight; /* [len] */
};

/* Tokens that no row of the sequence sees are left alone: their slots may hold anything. */
static void load_head(const struct gqa_problem *p, const struct gqa_tensors *t, int64_t b, int head,
                      int64_t begin, struct head_data *x) {
    const int dim = p->head_dim, dim_v = p->head_dim_v ? p->head_dim_v : dim;
    const double k_scale = scale_value(p, p->k_scales, t->k_scale, b, head);
    const double v_scale = scale_value(p, p->v_scales, t->v_scale, b, head);
    for (int64_t j = begin; j < x->len; j++) {
        const int64_t k_at = ref_cache_offset(p, t, &p->k, b, j, head);
        const int64_t v_at = ref_cache_offset(p, t, &p->v, b, j, head);
        for (int d = 0; d < dim; d++)
            x->k[j * dim + d] = k_scale * (double)num_load(p->kv_type, t->k, k_at + d);
        for (int d = 0; d < dim_v; d++)
            x->v[j * dim_v + d] = v_scale * (double)num_load(p->kv_type, t->v, v_at + d);
    }
}

/* Scores of one query row into x->weight; returns the largest sum of |products|. */
static double score_row(const struct gqa_problem *p, const struct head_data *x, int64_t begin,
                        int64_t end) {
    const int dim = p->head_dim;
    const double scale = p->scale != 0 ? (double)p->scale : 1 / sqrt(dim);
    const double cap = (double)p->softcap;
    double most = 0;
    for (int64_t j = begin; j < end; j++) {
        double dot = 0, magnitude = 0;
        for (int d = 0; d < dim; d++) {
            dot += x->q[d] * x->k[j * dim + d];
            magnitude += fabs(x->q[d] * x->k[j * dim + d]);
        }
        const double s = scale * dot;
        x->weight[j] = cap > 0 ? cap * tanh(s / cap) : s;
        most = fmax(most, fabs(scale) * magnitude);
    }
    return most;
}

/* Softmax over x->weight[begin .. end) and the sink (NULL: none). Returns the natural LSE. */
static double softmax_row(const struct head_data *x, int64_t begin, int64_t end,
                          const float *sink) {
    double max = sink ? (double)*sink : -INFINITY;
    for (int64_t j = begin; j < end; j++)
        max = x->weight[j] > max || isnan(x->weight[j]) ? x->weight[j] : max;
    if (max == -INFINITY)
        return -INFINITY;
    double sum = sink ? exp((double)*sink - max) : 0;
    for (int64_t j = begin; j < end; j++)
        sum += x->weight[j] = exp(x->weight[j] - max);
    for (int64_t j = begin; j < end; j++)
        x->weight[j] /= sum;
    return max + log(sum);
}

/* Of column d of V: what is lost of o when weights have steps of a fixed size. */
static double dust_of(const struct head_data *x, int64_t begin, int64_t end, double top,
                      const double *v, int dim_v) {
    double sum = 0;
    for (int64_t j = begin; j < end; j++)
        sum += fmin(x->weight[j], REF_DUST * top) * fabs(v[j * dim_v]);
    return sum;
}

static void attend_row(const struct gqa_problem *p, const struct gqa_tensors *t,
                       const struct head_data *x, int64_t row, int head, int64_t begin, int64_t end,
                       struct ref *ref) {
    const int dim_v = ref->head_dim_v;
    const int64_t at = row * p->q_heads + head;
    const int64_t q_at = ref_row_offset(p, &p->q, row, head);
    for (int d = 0; d < p->head_dim; d++)
        x->q[d] = (double)num_load(p->q_type, t->q, q_at + d);

    ref->keys[at] = end - begin;
    ref->score[at] = score_row(p, x, begin, end);
    const double lse = softmax_row(x, begin, end, p->has_sinks ? &t->sinks[head] : NULL);
    ref->lse[at] = p->lse_base == GQA_BASE_2 ? lse / log(2) : lse;

    double *o = ref->o + at * dim_v, *spread = ref->spread + at * dim_v;
    double squares = 0, top = 0;
    for (int64_t j = begin; j < end; j++) {
        const double w = x->weight[j];
        squares += w * w;
        top = fmax(top, w);
        for (int d = 0; d < dim_v; d++) {
            o[d] += w * x->v[j * dim_v + d];
            spread[d] += w * w * x->v[j * dim_v + d] * x->v[j * dim_v + d];
        }
    }
    for (int d = 0; d < dim_v; d++) {
        spread[d] = sqrt(spread[d]);
        ref->dust[at * dim_v + d] = dust_of(x, begin, end, top, x->v + d, dim_v);
    }
    ref->weight[at] = sqrt(squares);
}

static bool ref_alloc(struct ref *ref, int64_t rows, int q_heads, int head_dim_v) {
    const size_t n = (size_t)rows * (size_t)q_heads + 1;
    *ref = (struct ref){.rows = rows, .q_heads = q_heads, .head_dim_v = head_dim_v};
    ref->o = calloc(n * (size_t)head_dim_v, sizeof *ref->o);
    ref->spread = calloc(n * (size_t)head_dim_v, sizeof *ref->spread);
    ref->dust = calloc(n * (size_t)head_dim_v, sizeof *ref->dust);
    ref->lse = calloc(n, sizeof *ref->lse);
    ref->weight = calloc(n, sizeof *ref->weight);
    ref->score = calloc(n, sizeof *ref->score);
    ref->keys = calloc(n, sizeof *ref->keys);
    ref->owner = malloc(2 * n * sizeof *ref->owner);
    if (ref->o && ref->spread && ref->dust && ref->lse && ref->weight && ref->score && ref->keys &&
        ref->owner) {
        memset(ref->owner, 0xff, 2 * n * sizeof *ref->owner);
        return true;
    }
    ref_free(ref);
    return false;
}

void ref_free(struct ref *ref) {
    free(ref->o);
    free(ref->spread);
    free(ref->dust);
    free(ref->lse);
    free(ref->weight);
    free(ref->score);
    free(ref->keys);
    free(ref->owner);
    *ref = (struct ref){0};
}

static void attend_sequence(const struct gqa_problem *p, const struct gqa_tensors *t, int64_t b,
                            struct head_data *x, struct ref *ref) {
    int64_t first, begin, end, least;
    const int n = ref_q_len(p, t, b, &first), group = p->q_heads / p->kv_heads;
    x->len = ref_kv_len(p, t, b);
    ref_visible(p, x->len, 0, n, &least, &end);
    for (int i = 0; i < n; i++) {
        ref->owner[2 * (first + i)] = (int32_t)b;
        ref->owner[2 * (first + i) + 1] = i;
    }
    for (int head = 0; n && head < p->kv_heads; head++) {
        load_head(p, t, b, head, least, x);
        for (int i = 0; i < n; i++) {
            ref_visible(p, x->len, i, n, &begin, &end);
            for (int g = 0; g < group; g++)
                attend_row(p, t, x, first + i, head * group + g, begin, end, ref);
        }
    }
}

bool ref_decode(const struct gqa_problem *p, const struct gqa_tensors *t, struct ref *ref) {
    const int64_t rows = p->q_ragged ? p->q_total : p->batch * p->q_tokens;
    const int dim = p->head_dim, dim_v = p->head_dim_v ? p->head_dim_v : dim;
    if (!ref_alloc(ref, rows, p->q_heads, dim_v))
        return false;

    int64_t longest = 1;
    for (int64_t b = 0; b < p->batch; b++)
        longest = ref_kv_len(p, t, b) > longest ? ref_kv_len(p, t, b) : longest;
    struct head_data x = {
        .k = malloc((size_t)longest * (size_t)dim * sizeof(double)),
        .v = malloc((size_t)longest * (size_t)dim_v * sizeof(double)),
        .q = malloc((size_t)dim * sizeof(double)),
        .weight = malloc((size_t)longest * sizeof(double)),
    };
    const bool ok = x.k && x.v && x.q && x.weight;
    for (int64_t b = 0; ok && b < p->batch; b++)
        attend_sequence(p, t, b, &x, ref);
    free(x.k);
    free(x.v);
    free(x.q);
    free(x.weight);
    if (!ok)
        ref_free(ref);
    return ok;
}

/* --- Merging --- */

static void merge_row(const struct gqa_shards *m, int64_t at, struct ref *ref) {
    const int64_t all = m->rows * m->q_heads;
    const double in_base = m->part_base == GQA_BASE_2 ? log(2) : 1;
    const double out_base = m->o_base == GQA_BASE_2 ? log(2) : 1;
    double max = -INFINITY, sum = 0, squares = 0;
    for (int r = 0; r < m->parts; r++)
        max = fmax(max, in_base * (double)m->part_lse[r * all + at]);
    if (max == -INFINITY) {
        ref->lse[at] = -INFINITY;
        return;
    }
    for (int r = 0; r < m->parts; r++)
        sum += exp(in_base * (double)m->part_lse[r * all + at] - max);
    ref->lse[at] = (max + log(sum)) / out_base;
    for (int r = 0; r < m->parts; r++) {
        const double lse = in_base * (double)m->part_lse[r * all + at];
        const double w = exp(lse - max) / sum;
        if (lse == -INFINITY)
            continue;
        ref->keys[at]++;
        ref->score[at] = fmax(ref->score[at], fabs(lse));
        squares += w * w;
        for (int d = 0; d < m->head_dim_v; d++) {
            const int64_t i = at * m->head_dim_v + d;
            const double part =
                w * (double)num_load(m->part_type, m->part_o, r * all * m->head_dim_v + i);
            ref->o[i] += part;
            ref->spread[i] += part * part;
        }
    }
    for (int d = 0; d < m->head_dim_v; d++)
        ref->spread[at * m->head_dim_v + d] = sqrt(ref->spread[at * m->head_dim_v + d]);
    ref->weight[at] = sqrt(squares);
}

bool ref_merge(const struct gqa_shards *m, struct ref *ref) {
    if (!ref_alloc(ref, m->rows, m->q_heads, m->head_dim_v))
        return false;
    for (int64_t at = 0; at < m->rows * m->q_heads; at++)
        merge_row(m, at, ref);
    for (int64_t row = 0; row < m->rows; row++) {
        ref->owner[2 * row] = (int32_t)row;
        ref->owner[2 * row + 1] = 0;
    }
    return true;
}
