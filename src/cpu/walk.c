/* SPDX-License-Identifier: Apache-2.0
 * A lane's walk through the cache. Contiguous or paged, any strides: rows reach the kernel as
 * pointers, so no kernel knows about layouts. Tokens that all query rows of the lane see go in full
 * blocks with every row at once; the few that only some see (causal order or window among several
 * query tokens) go row by row, so that nothing unseen is ever multiplied. */
#include "cpu.h"

#include <math.h>
#include <string.h>

/* Rows of one block, and the tokens they are. */
struct rows {
    const char *k[CPU_BLOCK + CPU_PAD], *v[CPU_BLOCK + CPU_PAD];
    int tokens, head;
};

struct walk {
    const struct cpu_call *c;
    const struct cpu_row *row;
    const struct cpu_lane *lane;
    const struct cpu_ops *ops;
    struct cpu_state state;
    float *q;
    int rows; /* query rows of a head in this sequence */
    int64_t entry;
    const int32_t *pages;
    int64_t at, end;              /* tokens of the interior still to do */
    int head;                     /* next head at `at` */
    int64_t segment, segment_end; /* tokens of a segment; where the first one ends */
};

static const char zero_row[GQA_MAX_HEAD_DIM * 4] __attribute__((aligned(64)));

/* --- Addresses --- */

static void fill_run(const char **rows, const void *base, int64_t first, int64_t step, int n) {
    const char *at = (const char *)base + first;
    for (int i = 0; i < n; i++)
        rows[i] = at + i * step;
}

/* Rows at .. at + tokens - 1 of *r become tokens first .. of head r->head. */
static void fill_rows(const struct walk *w, struct rows *r, int at, int64_t first, int tokens) {
    const struct gqa_problem *p = w->c->p;
    const int64_t size = (int64_t)gqa_type_bytes(p->kv_type);
    const int64_t k_head = r->head * p->k.head, v_head = r->head * p->v.head;
    const int64_t k_step = p->k.token * size, v_step = p->v.token * size;
    const void *const k = w->c->t->k, *const v = w->c->t->v;
    if (p->paging == GQA_CONTIGUOUS) {
        fill_run(r->k + at, k, (w->entry * p->k.batch + first * p->k.token + k_head) * size, k_step,
                 tokens);
        fill_run(r->v + at, v, (w->entry * p->v.batch + first * p->v.token + v_head) * size, v_step,
                 tokens);
        return;
    }
    int64_t page = first / p->page_size, slot = first % p->page_size;
    for (const int end = at + tokens; at < end; page++, slot = 0) {
        const int64_t left = p->page_size - slot;
        const int n = left < end - at ? (int)left : end - at;
        const int64_t number = w->pages[page];
        fill_run(r->k + at, k, (number * p->k.batch + slot * p->k.token + k_head) * size, k_step,
                 n);
        fill_run(r->v + at, v, (number * p->v.batch + slot * p->v.token + v_head) * size, v_step,
                 n);
        at += n;
    }
}

static void end_rows(struct rows *r, int tokens) {
    r->tokens = tokens;
    for (int i = tokens; i < tokens + CPU_PAD; i++)
        r->k[i] = r->v[i] = zero_row;
}

/* --- Blocks --- */

static float k_scale_of(const struct walk *w, int head) {
    const struct gqa_problem *p = w->c->p;
    const float *s = w->c->t->k_scale;
    switch (p->k_scales) {
    case GQA_SCALE_NONE:
        return 1;
    case GQA_SCALE_TENSOR:
        return s[0];
    case GQA_SCALE_HEAD:
        return s[head];
    case GQA_SCALE_BATCH_HEAD:
        return s[w->lane->batch * p->kv_heads + head];
    }
    return 1;
}

/* Rows [first_row, first_row + rows) of the block's head against its tokens. */
static void run_block(const struct walk *w, const struct rows *r, const struct rows *next,
                      int first_row, int rows) {
    const struct gqa_problem *p = w->c->p;
    const struct cpu_layout *l = &w->c->layout;
    const int64_t at = (int64_t)(r->head - w->lane->head) * w->rows + first_row;
    const float scale = p->scale * k_scale_of(w, r->head) * w->ops->gain;
    const float log2_e = 1.44269504088896340736f;
    const struct cpu_block b = {
        .k = r->k,
        .v = r->v,
        .next_k = next ? next->k : NULL,
        .tokens = r->tokens,
        .next_tokens = next ? next->tokens : 0,
        .rows = rows,
        .head_dim = p->head_dim,
        .head_dim_v = p->head_dim_v,
        .q_stride = l->q_stride,
        .acc_stride = l->acc_stride,
        .q = w->q + at * l->q_stride,
        .acc = w->state.acc + at * l->acc_stride,
        .max = w->state.max + at,
        .sum = w->state.sum + at,
        .scale_log2 = scale * log2_e,
        .scale_cap = p->softcap > 0 ? scale / p->softcap : 0,
        .cap_log2 = p->softcap * log2_e,
    };
    w->ops->block(&b);
}

/* The next block of the interior, heads innermost; false at its end. While segments last, a block
 * takes an equal piece of each: softmax does not care about order, and the memory system gets
 * several streams. */
static bool next_rows(struct walk *w, struct rows *r) {
    const int block = w->c->layout.block, segments = w->c->layout.segments;
    if (w->at >= w->end)
        return false;
    int step;
    r->head = w->head;
    if (w->at < w->segment_end) {
        step = block / segments;
        for (int i = 0; i < segments; i++)
            fill_rows(w, r, i * step, w->at + i * w->segment, step);
        end_rows(r, segments * step);
    } else {
        step = w->end - w->at < block ? (int)(w->end - w->at) : block;
        fill_rows(w, r, 0, w->at, step);
        end_rows(r, step);
    }
    if (++w->head == w->lane->head + w->lane->heads) {
        w->head = w->lane->head;
        w->at += step;
        if (w->at == w->segment_end)
            w->at += (segments - 1) * w->segment;
    }
    return true;
}

static void run_interior(struct walk *w, int64_t begin, int64_t end) {
    const int segments = w->c->layout.segments, step = w->c->layout.block / segments;
    struct rows rows[2];
    w->at = begin;
    w->end = end;
    w->head = w->lane->head;
    w->segment = segments > 1 ? (end - begin) / segments / step * step : 0;
    w->segment_end = begin + w->segment;
    int now = 0;
    bool more = next_rows(w, &rows[0]);
    while (more) {
        more = next_rows(w, &rows[!now]);
        run_block(w, &rows[now], more ? &rows[!now] : NULL, 0, w->rows);
        now = !now;
    }
}

/* Tokens [begin, end), each query token against those of them that it sees. */
static void run_edge(const struct walk *w, int64_t begin, int64_t end) {
    const struct gqa_problem *p = w->c->p;
    const int group = problem_group(p), block = w->c->layout.block;
    struct rows rows;
    for (int64_t at = begin; at < end; at += block)
        for (int h = w->lane->head; h < w->lane->head + w->lane->heads; h++)
            for (int i = 0; i < w->row->q_tokens; i++) {
                int64_t from, to;
                problem_visible(p, w->row->len, i, w->row->q_tokens, &from, &to);
                from = from > at ? from : at;
                to = to < end ? to : end;
                to = to < at + block ? to : at + block;
                if (from >= to)
                    continue;
                rows.head = h;
                fill_rows(w, &rows, 0, from, (int)(to - from));
                end_rows(&rows, (int)(to - from));
                run_block(w, &rows, NULL, i * group, group);
            }
}

/* --- The lane --- */

/* The query row of head h, query token i, row g of the group. */
static const char *query(const struct walk *w, int h, int i, int g) {
    const struct gqa_problem *p = w->c->p;
    const int64_t start = p->q_ragged ? w->row->q_row * p->q.token : w->lane->batch * p->q.batch;
    const int64_t head = (int64_t)h * problem_group(p) + g;
    const int64_t at = start + i * p->q.token + head * p->q.head;
    return (const char *)w->c->t->q + at * (int64_t)gqa_type_bytes(p->q_type);
}

/* The lane's functions, from its own queries alone, so that all pieces of a lane agree. */
static const struct cpu_ops *choose_ops(const struct walk *w) {
    const struct gqa_problem *p = w->c->p;
    const struct cpu_ops *ops = w->c->ops;
    if (!ops->fits)
        return ops;
    for (int h = w->lane->head; h < w->lane->head + w->lane->heads; h++)
        for (int i = 0; i < w->row->q_tokens; i++)
            for (int g = 0; g < problem_group(p); g++)
                if (!ops->fits(query(w, h, i, g), p->q_type, p->head_dim))
                    return ops->wide;
    return ops;
}

static void prepare(const struct walk *w) {
    const struct gqa_problem *p = w->c->p;
    const struct cpu_layout *l = &w->c->layout;
    const int64_t rows = (int64_t)w->lane->heads * w->rows;
    float *q = w->q;
    for (int h = w->lane->head; h < w->lane->head + w->lane->heads; h++)
        for (int i = 0; i < w->row->q_tokens; i++)
            for (int g = 0; g < problem_group(p); g++, q += l->q_stride)
                w->ops->prepare(q, query(w, h, i, g), p->q_type, p->head_dim);
    memset(w->state.acc, 0, (size_t)(rows * l->acc_stride) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        w->state.max[r] = -INFINITY;
        w->state.sum[r] = 0;
    }
}

void cpu_lane_run(const struct cpu_call *c, const struct cpu_row *row, const struct cpu_lane *lane,
                  float *scratch) {
    const struct gqa_problem *p = c->p;
    const struct cpu_layout *l = &c->layout;
    const int64_t q_floats = (int64_t)l->heads * l->rows * l->q_stride;
    struct walk w = {
        .c = c,
        .row = row,
        .lane = lane,
        .state = cpu_state_at(l, lane->slot ? lane->slot : scratch + q_floats),
        .q = scratch,
        .rows = row->q_tokens * problem_group(p),
        .entry = c->t->batch_index ? c->t->batch_index[lane->batch] : lane->batch,
    };
    if (p->paging == GQA_PAGED_TABLE)
        w.pages = c->t->block_table + w.entry * p->table_stride;
    else if (p->paging == GQA_PAGED_CSR)
        w.pages = c->t->page_indices + c->t->page_indptr[w.entry];
    w.ops = choose_ops(&w);
    prepare(&w);

    if (lane->begin < lane->end) {
        int64_t from, to, ignored;
        problem_visible(p, row->len, row->q_tokens - 1, row->q_tokens, &from, &ignored);
        problem_visible(p, row->len, 0, row->q_tokens, &ignored, &to);
        from = from < lane->begin ? lane->begin : from > lane->end ? lane->end : from;
        to = to < from ? from : to > lane->end ? lane->end : to;
        run_edge(&w, lane->begin, from);
        run_interior(&w, from, to);
        run_edge(&w, to, lane->end);
    }
    if (!lane->slot)
        cpu_lane_store(c, row, lane, &w.state);
}
