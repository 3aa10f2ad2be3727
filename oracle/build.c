/* SPDX-License-Identifier: Apache-2.0
 * From a case to tensors: strides, lengths and page tables on the host, the same bytes on the
 * device, and afterwards the proof that nothing was written that should not be. */
#include "cases.h"
#include "fill.h"
#include "ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, ALIGN = 64, SPARSE_BYTES = 1 << 30 };

static const char *const names[CASE_TENSORS] = {
    "q",
    "k",
    "v",
    "o",
    "lse",
    "kv_lens",
    "cu_seqlens_q",
    "batch_index",
    "block_table",
    "page_indptr",
    "page_indices",
    "last_page_len",
    "k_scale",
    "v_scale",
    "sinks",
};

static bool failed(struct case_instance *x, const char *what, const char *name) {
    snprintf(x->why, sizeof x->why, "%s %s", what, name);
    return false;
}

/* --- Strides --- */

static int64_t cache_tokens(const struct gqa_problem *p) {
    return p->paging == GQA_CONTIGUOUS ? p->kv_len : p->page_size;
}

/* Strides of K and V; returns where V starts in K's buffer, -1 if it has its own. */
static int64_t set_cache_strides(struct gqa_problem *p, enum case_layout layout) {
    const int64_t heads = p->kv_heads, tokens = cache_tokens(p), dk = p->head_dim;
    const int64_t dv = p->head_dim_v ? p->head_dim_v : dk;
    const int64_t gap = layout == CASE_SLICED ? 16 : layout == CASE_ODD ? 5 : 0;
    const int64_t rows = tokens + (gap ? 3 : 0), row_k = dk + gap, row_v = dv + gap;
    struct gqa_strides *k = &p->k, *v = &p->v;
    switch (layout) {
    case CASE_HND:
    case CASE_SLICED:
    case CASE_ODD:
        *k = (struct gqa_strides){rows * heads * row_k + gap, row_k, rows * row_k};
        *v = (struct gqa_strides){rows * heads * row_v + gap, row_v, rows * row_v};
        return -1;
    case CASE_NHD:
        *k = (struct gqa_strides){tokens * heads * dk, heads * dk, dk};
        *v = (struct gqa_strides){tokens * heads * dv, heads * dv, dv};
        return -1;
    case CASE_INTERLEAVED:
        *k = (struct gqa_strides){tokens * heads * (dk + dv), dk, tokens * dk};
        *v = (struct gqa_strides){tokens * heads * (dk + dv), dv, tokens * dv};
        return tokens * heads * dk;
    case CASE_FUSED:
        *k = (struct gqa_strides){tokens * heads * (dk + dv), heads * (dk + dv), dk};
        *v = (struct gqa_strides){tokens * heads * (dk + dv), heads * (dk + dv), dv};
        return heads * dk;
    case CASE_BROADCAST:
        *k = (struct gqa_strides){tokens * dk, dk, 0};
        *v = (struct gqa_strides){tokens * dv, dv, 0};
        return -1;
    case CASE_FAR:
        return -1; /* the case says */
    }
    return -1;
}

static void set_row_strides(const struct gqa_problem *p, enum case_rows rows, int64_t dim,
                            struct gqa_strides *s) {
    const int64_t total = p->q_ragged ? p->q_total : p->batch * p->q_tokens;
    const int64_t gap = rows == CASE_ROWS_FUSED   ? 24
                        : rows == CASE_ROWS_ODD   ? 5
                        : rows == CASE_ROWS_LOOSE ? 4
                                                  : 0;
    if (rows == CASE_ROWS_HEADS) {
        *s = (struct gqa_strides){p->q_tokens * dim, dim, total * dim};
        return;
    }
    s->head = dim;
    s->token = p->q_heads * dim + gap;
    s->batch = p->q_tokens * s->token + 2 * gap;
}

/* gqa.h never reads the stride of a dimension of size 1: put nonsense there. */
static void spoil_strides(struct gqa_strides *s, int64_t batch, int64_t tokens, int64_t heads) {
    s->batch = batch == 1 ? INT64_MIN + 77 : s->batch;
    s->token = tokens == 1 ? -12345 : s->token;
    s->head = heads == 1 ? INT64_MAX - 5 : s->head;
}

static int64_t set_strides(struct case_instance *x) {
    struct gqa_problem *p = &x->p;
    const struct test_case *c = x->c;
    const int64_t dv = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t total = p->q_ragged ? p->q_total : p->batch * p->q_tokens;
    const int64_t v_at = set_cache_strides(p, c->layout);
    set_row_strides(p, c->rows, p->head_dim, &p->q);
    p->q.batch = c->rows == CASE_ROWS_SHARED ? 0 : p->q.batch;
    set_row_strides(p, c->rows == CASE_ROWS_LOOSE ? CASE_ROWS_ODD : c->rows, dv, &p->o);
    set_row_strides(p, c->rows == CASE_ROWS_FUSED ? CASE_ROWS_ODD : c->rows, 1, &p->lse);
    struct gqa_strides *rows[] = {&p->q, &p->o, &p->lse};
    for (int i = 0; i < 3; i++)
        spoil_strides(rows[i], p->q_ragged ? 1 : p->batch, p->q_ragged ? total : p->q_tokens,
                      p->q_heads);
    const int64_t entries = p->paging == GQA_CONTIGUOUS ? p->kv_batch : p->num_pages;
    spoil_strides(&p->k, entries, cache_tokens(p), p->kv_heads);
    spoil_strides(&p->v, entries, cache_tokens(p), p->kv_heads);
    return v_at;
}

/* Elements from the first to past the last, of a tensor whose dimensions have these sizes. */
static int64_t span(const struct gqa_strides *s, int64_t batch, int64_t tokens, int64_t heads,
                    int64_t dim) {
    if (batch < 1 || tokens < 1 || heads < 1)
        return 0;
    return (batch > 1 ? (batch - 1) * s->batch : 0) + (tokens > 1 ? (tokens - 1) * s->token : 0) +
           (heads > 1 ? (heads - 1) * s->head : 0) + dim;
}

/* --- Buffers --- */

/* Make room for a tensor in both memories; the host's is all 0xFF. A tensor of no bytes gets an
 * address all the same, of nothing but guards. */
static bool add_buffer(struct case_instance *x, enum case_tensor which, size_t bytes, size_t align,
                       bool is_output) {
    struct case_buffer *b = &x->buffers[which];
    const bool moves = which == CASE_Q || which == CASE_K || which == CASE_V || which == CASE_O;
    const size_t band = x->memory->fenced && !is_output && bytes ? 0 : GUARD;
    b->name = names[which];
    b->bytes = bytes;
    b->is_output = is_output;
    b->is_sparse = bytes >= SPARSE_BYTES;
    b->front = band + (moves ? (size_t)x->c->misalign : 0);
    b->back = band + (align - (b->front + bytes) % align) % align;
    const size_t all = b->front + bytes + b->back;
    char *host = case_memory_host.alloc(NULL, all, align);
    char *device = host ? x->memory->alloc(x->memory->context, all, align) : NULL;
    if (!device) {
        if (host)
            case_memory_host.release(NULL, host, all);
        return failed(x, "no memory for", b->name);
    }
    b->host = host + b->front;
    b->device = device + b->front;
    if (!b->is_sparse)
        memset(host, 0xff, all);
    return true;
}

static bool add_words(struct case_instance *x, enum case_tensor which, int64_t words) {
    return add_buffer(x, which, (size_t)words * 4, 4, false);
}

static bool upload(struct case_instance *x, enum case_tensor which) {
    struct case_buffer *b = &x->buffers[which];
    if (!b->host || b->is_view || b->is_sparse)
        return true;
    return x->memory->upload(x->memory->context, b->device - b->front, b->host - b->front,
                             b->front + b->bytes + b->back) ||
           failed(x, "upload failed for", b->name);
}

void case_free(struct case_instance *x) {
    for (int i = 0; i < CASE_TENSORS; i++) {
        struct case_buffer *b = &x->buffers[i];
        if (b->host && !b->is_view) {
            const size_t all = b->front + b->bytes + b->back;
            case_memory_host.release(NULL, b->host - b->front, all);
            x->memory->release(x->memory->context, b->device - b->front, all);
        }
        *b = (struct case_buffer){0};
    }
}

/* --- Lengths and tables --- */

static int32_t *words_of(struct case_instance *x, enum case_tensor which) {
    return (int32_t *)x->buffers[which].host;
}

static bool add_lengths(struct case_instance *x, struct case_random_state *r) {
    const struct test_case *c = x->c;
    struct gqa_problem *p = &x->p;
    if (!add_words(x, CASE_KV_LENS, p->batch) ||
        (p->q_ragged && !add_words(x, CASE_CU_SEQLENS, p->batch + 1)))
        return false;
    int32_t *cu = words_of(x, CASE_CU_SEQLENS);
    if (cu)
        cu[0] = 0;
    fill_lengths(c, r, words_of(x, CASE_KV_LENS), cu);
    if (cu) {
        p->q_total = cu[p->batch] + c->q_spare;
        for (int i = 0; i < c->q_lens_count; i++)
            p->q_tokens = c->q_lens[i] > p->q_tokens ? c->q_lens[i] : p->q_tokens;
    }
    if (!c->use_index)
        return true;
    p->kv_batch = p->kv_batch ? p->kv_batch : p->batch + 3;
    if (!add_words(x, CASE_BATCH_INDEX, p->batch) ||
        !fill_permutation(r, words_of(x, CASE_BATCH_INDEX), p->batch, p->kv_batch))
        return false;
    int32_t *index = words_of(x, CASE_BATCH_INDEX);
    for (int64_t b = 1; c->share_entries && b < p->batch; b += 2)
        index[b] = index[b - 1];
    return true;
}

/* Pages that each cache entry (row of the table) owns, into pages[kv_batch]; returns their sum. */
static int64_t count_pages(struct case_instance *x, int32_t *pages) {
    const struct gqa_problem *p = &x->p;
    const int32_t *lens = words_of(x, CASE_KV_LENS), *index = words_of(x, CASE_BATCH_INDEX);
    int64_t sum = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        const int32_t need = (lens[b] + p->page_size - 1) / p->page_size;
        int32_t *at = &pages[index ? index[b] : b];
        sum += need > *at ? need - *at : 0;
        *at = need > *at ? need : *at;
    }
    return sum;
}

/* Page `nth` of entry `e`: the next of the shuffled ids, or the first entry's where shared. */
static int32_t next_page(const struct test_case *c, const int32_t *pages, int64_t e, int32_t nth,
                         const int32_t *first_row, const int32_t **id) {
    if (c->share_pages && e > 0 && nth < 2 && nth < pages[0])
        return first_row[nth];
    return (int32_t)c->first_page + *(*id)++;
}

static bool add_dense_table(struct case_instance *x, const int32_t *pages, const int32_t *id) {
    static const int32_t nonsense[] = {INT32_MAX, -1, INT32_MIN, 0x7f7f7f7f, 1 << 30};
    const struct gqa_problem *p = &x->p;
    const int64_t least = (p->kv_len + p->page_size - 1) / p->page_size;
    const int64_t columns = p->table_stride ? p->table_stride : least;
    if (!add_words(x, CASE_TABLE, p->kv_batch * columns))
        return false;
    int32_t *table = words_of(x, CASE_TABLE);
    for (int64_t i = 0; i < p->kv_batch * columns; i++)
        table[i] = nonsense[i % 5];
    for (int64_t e = 0; e < p->kv_batch; e++)
        for (int32_t i = 0; i < pages[e]; i++)
            table[e * columns + i] = next_page(x->c, pages, e, i, table, &id);
    return true;
}

static bool add_csr(struct case_instance *x, const int32_t *pages, const int32_t *id) {
    const struct gqa_problem *p = &x->p;
    int64_t sum = 0;
    for (int64_t e = 0; e < p->kv_batch; e++)
        sum += pages[e];
    if (!add_words(x, CASE_INDPTR, p->kv_batch + 1) || !add_words(x, CASE_INDICES, sum) ||
        !add_words(x, CASE_LAST_PAGE, p->batch))
        return false;
    int32_t *indptr = words_of(x, CASE_INDPTR), *indices = words_of(x, CASE_INDICES);
    int32_t *last = words_of(x, CASE_LAST_PAGE);
    const int32_t *lens = words_of(x, CASE_KV_LENS);
    indptr[0] = 0;
    for (int64_t e = 0; e < p->kv_batch; e++) {
        indptr[e + 1] = indptr[e] + pages[e];
        for (int32_t i = 0; i < pages[e]; i++)
            indices[indptr[e] + i] = next_page(x->c, pages, e, i, indices, &id);
    }
    for (int64_t b = 0; b < p->batch; b++)
        last[b] = lens[b] ? (lens[b] - 1) % p->page_size + 1 : 0;
    return true;
}

static bool add_tables(struct case_instance *x, struct case_random_state *r) {
    struct gqa_problem *p = &x->p;
    if (p->paging == GQA_CONTIGUOUS)
        return true;
    int32_t *pages = calloc((size_t)p->kv_batch + 1, sizeof *pages);
    const int64_t sum = pages ? count_pages(x, pages) : 0, ids = sum + 2 + sum / 8;
    int32_t *id = malloc((size_t)ids * sizeof *id);
    bool ok = pages && id && fill_permutation(r, id, sum, ids);
    x->pages = x->c->first_page + ids;
    ok = ok &&
         (p->paging == GQA_PAGED_TABLE ? add_dense_table(x, pages, id) : add_csr(x, pages, id));
    free(pages);
    free(id);
    if (!ok && !x->why[0])
        failed(x, "no memory for", "the pages");
    return ok;
}

/* --- The whole --- */

static int64_t scale_count(const struct gqa_problem *p, enum gqa_scales kind) {
    return kind == GQA_SCALE_NONE     ? 0
           : kind == GQA_SCALE_TENSOR ? 1
           : kind == GQA_SCALE_HEAD   ? p->kv_heads
                                      : p->batch * p->kv_heads;
}

static bool add_cache(struct case_instance *x, int64_t v_at) {
    const struct gqa_problem *p = &x->p;
    const size_t size = gqa_type_bytes(p->kv_type);
    const int64_t dv = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t entries = p->paging == GQA_CONTIGUOUS ? p->kv_batch : x->pages;
    const int64_t k_span = span(&p->k, entries, cache_tokens(p), p->kv_heads, p->head_dim);
    const int64_t v_span = span(&p->v, entries, cache_tokens(p), p->kv_heads, dv);
    if (v_at < 0)
        return add_buffer(x, CASE_K, (size_t)k_span * size, ALIGN, false) &&
               add_buffer(x, CASE_V, (size_t)v_span * size, ALIGN, false);
    if (!add_buffer(x, CASE_K, (size_t)(v_at + v_span) * size, ALIGN, false))
        return false;
    x->buffers[CASE_V] = x->buffers[CASE_K];
    x->buffers[CASE_V].name = names[CASE_V];
    x->buffers[CASE_V].is_view = true;
    x->buffers[CASE_V].host += (size_t)v_at * size;
    x->buffers[CASE_V].device += (size_t)v_at * size;
    return true;
}

static bool add_rows(struct case_instance *x) {
    const struct gqa_problem *p = &x->p;
    const int64_t dv = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t batch = p->q_ragged ? 1 : p->batch;
    const int64_t tokens = p->q_ragged ? p->q_total : p->q_tokens;
    return add_buffer(x, CASE_Q,
                      (size_t)span(&p->q, batch, tokens, p->q_heads, p->head_dim) *
                          gqa_type_bytes(p->q_type),
                      ALIGN, false) &&
           add_buffer(x, CASE_O,
                      (size_t)span(&p->o, batch, tokens, p->q_heads, dv) *
                          gqa_type_bytes(p->o_type),
                      ALIGN, true) &&
           (!p->has_lse ||
            add_buffer(x, CASE_LSE, (size_t)span(&p->lse, batch, tokens, p->q_heads, 1) * 4, 4,
                       true));
}

static void point(struct case_instance *x) {
    const struct test_case *c = x->c;
    const bool by_last_page = c->use_last_page || c->lens_kind == CASE_LENS_NULL;
    struct gqa_tensors *const sides[2] = {&x->host, &x->device};
    for (int i = 0; i < 2; i++) {
        struct gqa_tensors *t = sides[i];
        char *at[CASE_TENSORS];
        for (int w = 0; w < CASE_TENSORS; w++)
            at[w] = i ? x->buffers[w].device : x->buffers[w].host;
        *t = gqa_tensors_init();
        t->q = at[CASE_Q];
        t->k = at[CASE_K];
        t->v = at[CASE_V];
        t->o = at[CASE_O];
        t->lse = (float *)at[CASE_LSE];
        t->kv_lens = by_last_page ? NULL : (int32_t *)at[CASE_KV_LENS];
        t->cu_seqlens_q = (int32_t *)at[CASE_CU_SEQLENS];
        t->batch_index = (int32_t *)at[CASE_BATCH_INDEX];
        t->block_table = (int32_t *)at[CASE_TABLE];
        t->page_indptr = (int32_t *)at[CASE_INDPTR];
        t->page_indices = (int32_t *)at[CASE_INDICES];
        t->last_page_len = c->no_last_page ? NULL : (int32_t *)at[CASE_LAST_PAGE];
        t->k_scale = (float *)at[CASE_K_SCALE];
        t->v_scale = (float *)at[CASE_V_SCALE];
        t->sinks = (float *)at[CASE_SINKS];
    }
}

bool case_build(struct case_instance *x, const struct test_case *c, uint64_t seed,
                const struct case_memory *memory) {
    *x = (struct case_instance){.c = c, .memory = memory, .seed = seed, .p = c->p};
    struct case_random_state r = {seed * 0x2545f4914f6cdd1du + 1};
    bool ok = add_lengths(x, &r);
    x->p.kv_batch = x->p.kv_batch ? x->p.kv_batch : x->p.batch;
    ok = ok && add_tables(x, &r);
    x->p.num_pages = c->hide_pages ? 0 : x->pages;
    const int64_t v_at = ok ? set_strides(x) : 0;
    ok = ok && add_rows(x) && add_cache(x, v_at);
    for (int side = 0; ok && side < 2; side++) {
        const enum gqa_scales kind = side ? x->p.v_scales : x->p.k_scales;
        if (kind != GQA_SCALE_NONE)
            ok = add_words(x, side ? CASE_V_SCALE : CASE_K_SCALE, scale_count(&x->p, kind));
    }
    if (ok && x->p.has_sinks)
        ok = add_words(x, CASE_SINKS, x->p.q_heads);
    if (ok) {
        point(x);
        for (int w = CASE_Q; w <= CASE_V; w++)
            if (!x->buffers[w].is_sparse && !x->buffers[w].is_view)
                fill_garbage(w == CASE_Q ? x->p.q_type : x->p.kv_type, x->buffers[w].host,
                             x->buffers[w].bytes);
        fill_scales(x, &r);
        ok = fill_rows(x, &r) || failed(x, "no memory for", "the data");
    }
    for (int w = 0; ok && w < CASE_TENSORS; w++)
        ok = upload(x, (enum case_tensor)w);
    if (!ok)
        case_free(x);
    return ok;
}
