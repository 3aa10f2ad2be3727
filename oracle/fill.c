/* SPDX-License-Identifier: Apache-2.0
 * Values of a case. Rows are windows into a pool of 2^13 random values of the element type, at a
 * random place each: fast enough for gigabytes, and no two rows are alike. */
#include "fill.h"
#include "ref.h"

#include "../src/num.h"

#include <stdlib.h>

enum { POOL = 1 << 13, ROW_MOST = 512 };

/* --- Lengths --- */

void fill_lengths(const struct test_case *c, struct case_random_state *r, int32_t *kv_lens,
                  int32_t *cu_seqlens_q) {
    for (int64_t b = 0; b < c->p.batch; b++) {
        switch (c->lens_kind) {
        case CASE_LENS_NULL:
            kv_lens[b] = (int32_t)c->p.kv_len;
            break;
        case CASE_LENS_LIST:
            kv_lens[b] = c->lens[b % c->lens_count];
            break;
        case CASE_LENS_RAMP:
            kv_lens[b] = (int32_t)(b % (c->p.kv_len + 1));
            break;
        case CASE_LENS_RANDOM:
            kv_lens[b] = (int32_t)case_below(r, c->p.kv_len + 1);
            break;
        }
    }
    for (int64_t b = 0; cu_seqlens_q && b < c->p.batch; b++)
        cu_seqlens_q[b + 1] = cu_seqlens_q[b] + c->q_lens[b % c->q_lens_count];
}

bool fill_permutation(struct case_random_state *r, int32_t *out, int64_t count, int64_t n) {
    int32_t *all = malloc((size_t)(n + 1) * sizeof *all);
    if (!all)
        return false;
    for (int64_t i = 0; i < n; i++)
        all[i] = (int32_t)i;
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = i + case_below(r, n - i);
        out[i] = all[j];
        all[j] = all[i];
    }
    free(all);
    return true;
}

/* --- Values --- */

static double normal(struct case_random_state *r) {
    const double u = 1 - case_unit(r), angle = 6.283185307179586 * case_unit(r);
    return sqrt(-2 * log(u)) * cos(angle);
}

static float edge_value(struct case_random_state *r, enum gqa_type type, bool is_v) {
    static const float values[] = {0, 1, 1.5f, 2, 0.5f, 0x1p-3f, 0x1p-9f, 0x1p-14f, 3, 0.99f};
    static const float least[] = {0x1p-149f, 0x1p-133f, 0x1p-24f, 0x1p-9f, 0x1p-16f};
    static const float large[] = {3e4f, 3e4f, 3e4f, 448, 28672};
    const double sign = case_below(r, 2) ? 1 : -1;
    const int64_t pick = case_below(r, 40);
    if (pick == 0)
        return (float)sign * least[type];
    if (pick == 1)
        return is_v ? (float)sign * large[type] : 4;
    return (float)sign * values[pick % 10];
}

/* A pool of values; `role` is 'q', 'k' or 'v'. */
static void fill_pool(const struct test_case *c, struct case_random_state *r, enum gqa_type type,
                      char role, void *pool) {
    double gain = 1;
    if (role == 'q' && c->data == CASE_PEAKED)
        gain = 6;
    if (role == 'q' && c->data == CASE_LARGE_SCORES)
        gain = 3000;
    for (int i = 0; i < POOL + ROW_MOST; i++)
        num_store(type, pool, i,
                  c->data == CASE_EDGE ? edge_value(r, type, role == 'v')
                                       : (float)(gain * normal(r)));
}

void fill_garbage(enum gqa_type type, char *to, size_t bytes) {
    enum { PATTERN = 60 };
    const float huge[] = {[GQA_F32] = 3e38f,
                          [GQA_BF16] = 3e38f,
                          [GQA_F16] = 65504,
                          [GQA_E4M3] = 448,
                          [GQA_E5M2] = 57344};
    char pattern[PATTERN * 4];
    for (int i = 0; i < PATTERN; i++)
        num_store(type, pattern, i,
                  i % 5 == 0   ? INFINITY
                  : i % 5 == 1 ? -INFINITY
                  : i % 5 == 2 ? huge[type]
                               : NAN);
    if (type == GQA_E4M3) /* it has no infinities: the stores above saturate */
        for (int i = 0; i < PATTERN; i++)
            pattern[i] = i % 5 == 2 ? 0x7e : i % 2 ? 0x7f : (char)0xff;
    const size_t n = PATTERN * gqa_type_bytes(type);
    for (size_t at = 0; at < bytes; at += n)
        memcpy(to + at, pattern, bytes - at < n ? bytes - at : n);
}

void fill_scales(struct case_instance *x, struct case_random_state *r) {
    const struct test_case *c = x->c;
    float *k = (float *)x->buffers[CASE_K_SCALE].host, *v = (float *)x->buffers[CASE_V_SCALE].host;
    float *sinks = (float *)x->buffers[CASE_SINKS].host;
    for (size_t i = 0; k && i < x->buffers[CASE_K_SCALE].bytes / sizeof *k; i++)
        k[i] = c->k_scale != 0 ? c->k_scale : (float)(0.5 + 1.5 * case_unit(r));
    for (size_t i = 0; v && i < x->buffers[CASE_V_SCALE].bytes / sizeof *v; i++)
        v[i] = c->v_scale != 0 ? c->v_scale : (float)(0.5 + 1.5 * case_unit(r));
    for (int i = 0; sinks && i < x->p.q_heads; i++)
        sinks[i] = c->has_sink ? c->sink : (float)(2 * normal(r));
}

/* --- Rows --- */

struct filler {
    struct case_instance *x;
    struct case_random_state *r;
    char *q, *k, *v; /* pools */
};

static bool put_row(struct filler *f, enum case_tensor which, enum gqa_type type, int64_t at,
                    int dim, const char *pool, int64_t place) {
    struct case_buffer *b = &f->x->buffers[which];
    const size_t size = gqa_type_bytes(type), bytes = (size_t)dim * size;
    char *to = b->host + (size_t)at * size;
    memcpy(to, pool + (size_t)place * size, bytes);
    if (!b->is_sparse)
        return true;
    return f->x->memory->upload(f->x->memory->context, b->device + (to - b->host), to, bytes);
}

/* Put NaN (or infinity) into element 3 of a row in the middle of sequence b. */
static void fill_special(struct case_instance *x, int64_t b, int64_t len) {
    const struct gqa_problem *p = &x->p;
    const bool is_key = x->c->data == CASE_NAN_KEY;
    if ((!is_key && x->c->data != CASE_NAN_VALUE) || b > 1 || (is_key && b > 0) || len < 1)
        return;
    const int64_t at = ref_cache_offset(p, &x->host, is_key ? &p->k : &p->v, b, len / 2, 0);
    num_store(p->kv_type, x->buffers[is_key ? CASE_K : CASE_V].host, at + 3,
              b && p->kv_type != GQA_E4M3 ? INFINITY : NAN);
}

static bool fill_sequence(struct filler *f, int64_t b) {
    struct case_instance *x = f->x;
    const struct gqa_problem *p = &x->p;
    const int dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t len = ref_kv_len(p, &x->host, b);
    const bool equal = x->c->data == CASE_EQUAL_KEYS;
    int64_t first, begin, end;
    const int n = ref_q_len(p, &x->host, b, &first);
    bool ok = true;
    for (int64_t row = first; row < first + n; row++)
        for (int h = 0; h < p->q_heads; h++)
            ok &= put_row(f, CASE_Q, p->q_type, ref_row_offset(p, &p->q, row, h), p->head_dim, f->q,
                          case_below(f->r, POOL));
    ref_visible(p, len, 0, n, &begin, &end);
    for (int64_t j = begin; n && j < len; j++)
        for (int h = 0; h < p->kv_heads; h++) {
            ok &= put_row(f, CASE_K, p->kv_type, ref_cache_offset(p, &x->host, &p->k, b, j, h),
                          p->head_dim, f->k, equal ? 7 * h : case_below(f->r, POOL));
            ok &= put_row(f, CASE_V, p->kv_type, ref_cache_offset(p, &x->host, &p->v, b, j, h),
                          dim_v, f->v, case_below(f->r, POOL));
        }
    fill_special(x, b, len);
    return ok;
}

bool fill_rows(struct case_instance *x, struct case_random_state *r) {
    const size_t n = (POOL + ROW_MOST) * sizeof(float);
    struct filler f = {x, r, malloc(n), malloc(n), malloc(n)};
    bool ok = f.q && f.k && f.v;
    if (ok) {
        fill_pool(x->c, r, x->p.q_type, 'q', f.q);
        fill_pool(x->c, r, x->p.kv_type, 'k', f.k);
        fill_pool(x->c, r, x->p.kv_type, 'v', f.v);
    }
    for (int64_t b = 0; ok && b < x->p.batch; b++)
        ok = fill_sequence(&f, b);
    free(f.q);
    free(f.k);
    free(f.v);
    return ok;
}
