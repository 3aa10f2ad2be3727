/* SPDX-License-Identifier: Apache-2.0
 * Checks and shape arithmetic for one decode problem: the one place where a caller's numbers are
 * doubted. Everything below the API relies on what is refused here. */
#include "problem.h"
#include "status.h"

#include <limits.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { MAX_HEADS = 1 << 20, DIMS = 3 };

/* One strided tensor as the checks see it: up to three counted dimensions around `inner`
 * contiguous elements. */
struct shape {
    const char *name;
    enum gqa_type type;
    int64_t inner;
    int64_t count[DIMS];
    int64_t stride[DIMS];
};

static const char *const stride_names[DIMS] = {"batch", "token", "head"};

/* --- Types and packed layouts --- */

size_t gqa_type_bytes(enum gqa_type type) {
    static const size_t bytes[] = {
        [GQA_F32] = 4, [GQA_BF16] = 2, [GQA_F16] = 2, [GQA_E4M3] = 1, [GQA_E5M2] = 1};
    return (unsigned)type <= GQA_E5M2 ? bytes[type] : 0;
}

const char *gqa_type_name(enum gqa_type type) {
    static const char *const names[] = {"f32", "bf16", "f16", "e4m3", "e5m2"};
    return (unsigned)type <= GQA_E5M2 ? names[type] : "?";
}

const char *gqa_reduction_name(enum gqa_reduction reduction) {
    static const char *const names[] = {"auto", "none", "kernel", "atomic", "cluster", "grid"};
    return (unsigned)reduction <= GQA_REDUCE_GRID ? names[reduction] : "?";
}

/* a * b, or INT64_MAX where it does not fit: a stride that problem_normalise refuses. */
static int64_t times(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

void gqa_problem_pack(struct gqa_problem *p, enum gqa_layout layout) {
    if (!p)
        return;
    const int dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t tokens = p->page_size > 0 ? p->page_size : p->kv_len;

    p->q.head = p->head_dim;
    p->q.token = times(p->q_heads, p->head_dim);
    p->q.batch = times(p->q_tokens, p->q.token);
    p->o.head = dim_v;
    p->o.token = times(p->q_heads, dim_v);
    p->o.batch = times(p->q_tokens, p->o.token);
    p->lse.head = 1;
    p->lse.token = p->q_heads;
    p->lse.batch = times(p->q_tokens, p->q_heads);

    const bool by_token = layout == GQA_NHD;
    p->k.token = by_token ? times(p->kv_heads, p->head_dim) : p->head_dim;
    p->v.token = by_token ? times(p->kv_heads, dim_v) : dim_v;
    p->k.head = by_token ? p->head_dim : times(tokens, p->head_dim);
    p->v.head = by_token ? dim_v : times(tokens, dim_v);
    p->k.batch = times(tokens, times(p->kv_heads, p->head_dim));
    p->v.batch = times(tokens, times(p->kv_heads, dim_v));
}

/* --- Strided shapes --- */

static struct shape shape_of_rows(const char *name, enum gqa_type type, const struct gqa_problem *p,
                                  const struct gqa_strides *s, int inner) {
    struct shape x = {name, type, inner, {0}, {s->batch, s->token, s->head}};
    x.count[0] = p->q_ragged ? 1 : p->batch;
    x.count[1] = p->q_ragged ? p->q_total : p->q_tokens;
    x.count[2] = p->q_heads;
    return x;
}

static struct shape shape_of_cache(const char *name, const struct gqa_problem *p,
                                   const struct gqa_strides *s, int inner) {
    struct shape x = {name, p->kv_type, inner, {0}, {s->batch, s->token, s->head}};
    x.count[0] = p->paging == GQA_CONTIGUOUS ? p->kv_batch : p->num_pages ? p->num_pages : 1;
    x.count[1] = p->paging == GQA_CONTIGUOUS ? p->kv_len : p->page_size;
    x.count[2] = p->kv_heads;
    return x;
}

static bool shape_is_empty(const struct shape *x) {
    return !x->count[0] || !x->count[1] || !x->count[2];
}

/* Bytes from the first to past the last element; -1 if that does not fit in 2^62. */
static int64_t shape_span(const struct shape *x) {
    int64_t last = x->inner, step, bytes;
    if (shape_is_empty(x))
        return 0;
    for (int d = 0; d < DIMS; d++)
        if (x->count[d] > 1 && (__builtin_mul_overflow(x->count[d] - 1, x->stride[d], &step) ||
                                __builtin_add_overflow(last, step, &last)))
            return -1;
    if (__builtin_mul_overflow(last, (int64_t)gqa_type_bytes(x->type), &bytes) || bytes >> 62)
        return -1;
    return bytes;
}

/* No two elements at one address: sorted by stride, each dimension steps over all inside it. */
static bool shape_is_injective(const struct shape *x) {
    int order[DIMS] = {0, 1, 2};
    for (int i = 0; i < DIMS; i++)
        for (int j = i + 1; j < DIMS; j++)
            if (x->stride[order[j]] < x->stride[order[i]]) {
                const int t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
    int64_t extent = x->inner;
    for (int i = 0; i < DIMS; i++) {
        const int d = order[i];
        if (x->count[d] <= 1)
            continue;
        if (x->stride[d] < extent)
            return false;
        extent += (x->count[d] - 1) * x->stride[d];
    }
    return true;
}

static bool shape_is_packed(const struct shape *x) {
    int64_t elements = x->inner;
    for (int d = 0; d < DIMS; d++)
        elements = times(elements, x->count[d]);
    return shape_span(x) == times(elements, (int64_t)gqa_type_bytes(x->type));
}

static gqa_status shape_check(const struct shape *x, bool is_output, struct gqa_error *err) {
    for (int d = 0; d < DIMS; d++)
        if (x->count[d] > 1 && x->stride[d] < 0)
            return fail(err, GQA_ERR_STRIDE, "%s.%s is %lld; strides must not be negative", x->name,
                        stride_names[d], (long long)x->stride[d]);
    if (shape_span(x) < 0)
        return fail(err, GQA_ERR_STRIDE,
                    "%s spans more than 2^62 bytes (strides %lld, %lld, %lld for batch, token, "
                    "head)",
                    x->name, (long long)x->stride[0], (long long)x->stride[1],
                    (long long)x->stride[2]);
    if (is_output && !shape_is_empty(x) && !shape_is_injective(x))
        return fail(err, GQA_ERR_STRIDE,
                    "%s overlaps itself: strides %lld, %lld, %lld (batch, token, head) over "
                    "[%lld][%lld][%lld] rows of %lld elements",
                    x->name, (long long)x->stride[0], (long long)x->stride[1],
                    (long long)x->stride[2], (long long)x->count[0], (long long)x->count[1],
                    (long long)x->count[2], (long long)x->inner);
    return GQA_OK;
}

/* --- The problem --- */

struct range {
    const char *name;
    int64_t value, least, most;
    const char *rule; /* NULL, or which other field the range comes from */
};

static gqa_status check_ranges(const struct range *ranges, size_t n, struct gqa_error *err) {
    for (size_t i = 0; i < n; i++) {
        const struct range *r = &ranges[i];
        if (r->value < r->least || r->value > r->most)
            return r->least == r->most
                       ? fail(err, GQA_ERR_SHAPE, "%s is %lld, expected %lld %s", r->name,
                              (long long)r->value, (long long)r->least, r->rule ? r->rule : "")
                       : fail(err, GQA_ERR_SHAPE, "%s is %lld, expected %lld to %lld%s%s", r->name,
                              (long long)r->value, (long long)r->least, (long long)r->most,
                              r->rule ? " " : "", r->rule ? r->rule : "");
    }
    return GQA_OK;
}

static gqa_status check_shape(const struct gqa_problem *p, struct gqa_error *err) {
    const bool is_paged = p->paging != GQA_CONTIGUOUS;
    const bool is_fixed = p->split_mode == GQA_SPLIT_FIXED;
    const bool is_invariant = p->split_mode == GQA_SPLIT_INVARIANT;
    const struct range ranges[] = {
        {"batch", p->batch, 0, INT32_MAX, NULL},
        {"q_heads", p->q_heads, 1, MAX_HEADS, NULL},
        {"kv_heads", p->kv_heads, 1, MAX_HEADS, NULL},
        {"head_dim", p->head_dim, 1, GQA_MAX_HEAD_DIM, NULL},
        {"head_dim_v", p->head_dim_v, 0, GQA_MAX_HEAD_DIM, NULL},
        {"q_tokens", p->q_tokens, 1, GQA_MAX_Q_TOKENS, NULL},
        {"q_total", p->q_total, 0, INT32_MAX, NULL},
        {"kv_len", p->kv_len, 0, INT32_MAX, NULL},
        {"kv_len_expected", p->kv_len_expected, 0, p->kv_len, "(kv_len)"},
        {"kv_batch", p->kv_batch, 0, INT32_MAX, NULL},
        {"page_size", p->page_size, is_paged, is_paged ? INT32_MAX : 0,
         is_paged ? "in a paged cache" : "as paging is contiguous"},
        {"num_pages", p->num_pages, 0, INT32_MAX, NULL},
        {"table_stride", p->table_stride, 0, INT32_MAX, NULL},
        {"window_left", p->window_left, -1, INT64_MAX, NULL},
        {"splits", p->splits, is_fixed, is_fixed ? GQA_MAX_SPLITS : 0,
         is_fixed ? NULL : "as split_mode is not fixed"},
        {"split_tokens", p->split_tokens, 0, is_invariant ? INT32_MAX : 0,
         is_invariant ? NULL : "as split_mode is not invariant"},
    };
    const gqa_status status = check_ranges(ranges, sizeof ranges / sizeof *ranges, err);
    if (status)
        return status;
    if (p->q_heads % p->kv_heads)
        return fail(err, GQA_ERR_SHAPE,
                    "q_heads is %d, expected a multiple of kv_heads, which is %d", p->q_heads,
                    p->kv_heads);
    if (!isfinite(p->scale) || !isfinite(p->softcap) || p->softcap < 0)
        return fail(err, GQA_ERR_ARGUMENT,
                    "scale is %g and softcap is %g; both must be finite, softcap not negative",
                    (double)p->scale, (double)p->softcap);
    return GQA_OK;
}

static gqa_status check_enums(const struct gqa_problem *p, struct gqa_error *err) {
    const struct range ranges[] = {
        {"paging", p->paging, GQA_CONTIGUOUS, GQA_PAGED_CSR, NULL},
        {"k_scales", p->k_scales, GQA_SCALE_NONE, GQA_SCALE_BATCH_HEAD, NULL},
        {"v_scales", p->v_scales, GQA_SCALE_NONE, GQA_SCALE_BATCH_HEAD, NULL},
        {"lse_base", p->lse_base, GQA_BASE_E, GQA_BASE_2, NULL},
        {"split_mode", p->split_mode, GQA_SPLIT_AUTO, GQA_SPLIT_INVARIANT, NULL},
        {"reduction", p->reduction, GQA_REDUCE_AUTO, GQA_REDUCE_GRID, NULL},
        {"pdl", p->pdl, GQA_PDL_AUTO, GQA_PDL_EARLY, NULL},
        {"precision", p->precision, GQA_PRECISION_FAST, GQA_PRECISION_EXACT, NULL},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return fail(err, GQA_ERR_ARGUMENT, "%s is %lld, which is none of its enum's values",
                        ranges[i].name, (long long)ranges[i].value);
    if ((unsigned)p->q_type > GQA_F16 || (unsigned)p->o_type > GQA_F16)
        return fail(err, GQA_ERR_TYPE, "q_type is %s and o_type is %s; expected f32, bf16 or f16",
                    gqa_type_name(p->q_type), gqa_type_name(p->o_type));
    if ((unsigned)p->kv_type > GQA_E5M2)
        return fail(err, GQA_ERR_TYPE, "kv_type is %d; expected f32, bf16, f16, e4m3 or e5m2",
                    (int)p->kv_type);
    return GQA_OK;
}

/* Nothing multiplies a stride later that no element lies at: it may be any number. */
static void clear_unused_strides(struct gqa_strides *s, const struct shape *x) {
    const bool is_empty = shape_is_empty(x);
    s->batch = !is_empty && x->count[0] > 1 ? s->batch : 0;
    s->token = !is_empty && x->count[1] > 1 ? s->token : 0;
    s->head = !is_empty && x->count[2] > 1 ? s->head : 0;
}

/* The pool of a paged cache has as many pages as the tables say, which the host may not know; its
 * page stride is kept whatever num_pages is. */
static gqa_status check_strides(struct gqa_problem *p, struct gqa_error *err) {
    const struct shape shapes[] = {
        shape_of_rows("q", p->q_type, p, &p->q, p->head_dim),
        shape_of_cache("k", p, &p->k, p->head_dim),
        shape_of_cache("v", p, &p->v, p->head_dim_v),
        shape_of_rows("o", p->o_type, p, &p->o, p->head_dim_v),
        shape_of_rows("lse", GQA_F32, p, &p->lse, 1),
    };
    struct gqa_strides *const strides[] = {&p->q, &p->k, &p->v, &p->o, &p->lse};
    for (int i = 0; i < 5; i++) {
        if (i == 4 && !p->has_lse)
            break;
        const gqa_status status = shape_check(&shapes[i], i >= 3, err);
        if (status)
            return status;
        const int64_t page_stride = strides[i]->batch;
        clear_unused_strides(strides[i], &shapes[i]);
        if ((i == 1 || i == 2) && p->paging != GQA_CONTIGUOUS && p->num_pages != 1) {
            strides[i]->batch = page_stride;
            if (page_stride < 0 || page_stride >> 60)
                return fail(err, GQA_ERR_STRIDE, "%s.batch is %lld; a page stride is 0 to 2^60 - 1",
                            shapes[i].name, (long long)page_stride);
        }
    }
    return GQA_OK;
}

gqa_status problem_normalise(const struct gqa_problem *p, struct gqa_problem *normal,
                             struct gqa_error *err) {
    gqa_status status;
    if (!p)
        return fail(err, GQA_ERR_ARGUMENT, "the problem is NULL");
    if (p->size != sizeof *p)
        return fail(err, GQA_ERR_ARGUMENT,
                    "problem.size is %zu, expected %zu: set the struct up with gqa_problem_init()",
                    p->size, sizeof *p);
    struct gqa_problem n = *p;
    if ((status = check_enums(&n, err)) || (status = check_shape(&n, err)))
        return status;

    const int64_t pages = n.page_size ? (n.kv_len + n.page_size - 1) / n.page_size : 0;
    n.head_dim_v = n.head_dim_v ? n.head_dim_v : n.head_dim;
    n.scale = n.scale != 0 ? n.scale : 1 / sqrtf((float)n.head_dim);
    const float log2_e = 1.44269504088896340736f;
    if (!isfinite(n.scale * log2_e) || !isfinite(n.softcap * log2_e) ||
        (n.softcap > 0 && (n.softcap < FLT_MIN || !isfinite(n.scale / n.softcap))))
        return fail(err, GQA_ERR_ARGUMENT,
                    "scale %g and softcap %g are beyond what float32 arithmetic can hold",
                    (double)n.scale, (double)n.softcap);
    n.kv_batch = n.kv_batch ? n.kv_batch : n.batch;
    n.kv_len_expected = n.kv_len_expected ? n.kv_len_expected : n.kv_len;
    n.table_stride = n.table_stride ? n.table_stride : pages;
    n.q_ragged = n.q_ragged != 0;
    n.q_total = n.q_ragged ? n.q_total : n.batch * n.q_tokens;
    n.causal = n.causal != 0;
    n.has_sinks = n.has_sinks != 0;
    n.has_lse = n.has_lse != 0;
    n.kernel = NULL;
    if (n.window_left > n.kv_len + n.q_tokens)
        n.window_left = -1;

    if (n.q_total > INT32_MAX)
        return fail(err, GQA_ERR_SHAPE,
                    "batch %lld x q_tokens %d gives %lld query rows, expected at most 2^31 - 1",
                    (long long)n.batch, n.q_tokens, (long long)n.q_total);
    if (n.paging == GQA_PAGED_TABLE && n.table_stride < pages)
        return fail(err, GQA_ERR_SHAPE,
                    "table_stride is %lld, but kv_len %lld needs %lld pages of %d tokens",
                    (long long)n.table_stride, (long long)n.kv_len, (long long)pages, n.page_size);
    if ((status = check_strides(&n, err)))
        return status;
    *normal = n;
    return GQA_OK;
}

/* --- The tensors of one step --- */

struct buffer {
    const char *name;
    const void *data;
    size_t align;
    int64_t bytes; /* span; -1: unknown */
    bool is_output, is_needed, is_packed;
};

static struct buffer buffer_of(const void *data, const struct shape *x, bool is_output) {
    return (struct buffer){.name = x->name,
                           .data = data,
                           .align = gqa_type_bytes(x->type),
                           .bytes = shape_span(x),
                           .is_output = is_output,
                           .is_needed = !shape_is_empty(x),
                           .is_packed = shape_is_packed(x)};
}

static struct buffer buffer_of_words(const char *name, const void *data, int64_t words,
                                     bool is_needed) {
    return (struct buffer){.name = name,
                           .data = data,
                           .align = 4,
                           .bytes = words < 0 ? -1 : times(words, 4),
                           .is_needed = is_needed && words != 0,
                           .is_packed = true};
}

static int64_t scale_words(const struct gqa_problem *p, enum gqa_scales scales) {
    switch (scales) {
    case GQA_SCALE_NONE:
        return 0;
    case GQA_SCALE_TENSOR:
        return 1;
    case GQA_SCALE_HEAD:
        return p->kv_heads;
    case GQA_SCALE_BATCH_HEAD:
        return p->batch * p->kv_heads;
    }
    return 0;
}

static bool buffers_overlap(const struct buffer *a, const struct buffer *b) {
    const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (!a->data || !b->data || !a->bytes || !b->bytes)
        return false;
    if (a->bytes < 0 || b->bytes < 0)
        return x == y;
    return x < y + (uintptr_t)b->bytes && y < x + (uintptr_t)a->bytes;
}

static gqa_status check_buffer(const struct buffer *b, struct gqa_error *err) {
    if (!b->data && b->is_needed)
        return fail(err, GQA_ERR_ARGUMENT, "tensors.%s is NULL, but the problem needs it", b->name);
    if ((uintptr_t)b->data % b->align)
        return fail(err, GQA_ERR_ALIGNMENT,
                    "tensors.%s is at address %p, expected a multiple of %zu", b->name, b->data,
                    b->align);
    return GQA_OK;
}

/* Two strided tensors may interleave in one allocation (a fused Q/K/V/O row), so only packed ones
 * and equal addresses are called an overlap. */
static gqa_status check_overlaps(const struct buffer *b, int n, struct gqa_error *err) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (i == j || !b[i].is_output || (b[j].is_output && j < i))
                continue;
            const bool can_interleave = !b[i].is_packed && !b[j].is_packed;
            if (buffers_overlap(&b[i], &b[j]) && !(can_interleave && b[i].data != b[j].data))
                return fail(err, GQA_ERR_ARGUMENT, "output %s overlaps %s in memory", b[i].name,
                            b[j].name);
        }
    return GQA_OK;
}

gqa_status tensors_check(const struct gqa_problem *p, const struct gqa_tensors *t,
                         const void *workspace, size_t workspace_bytes, size_t workspace_needed,
                         struct gqa_error *err) {
    if (!t)
        return fail(err, GQA_ERR_ARGUMENT, "the tensors are NULL");
    if (t->size != sizeof *t)
        return fail(err, GQA_ERR_ARGUMENT,
                    "tensors.size is %zu, expected %zu: set the struct up with gqa_tensors_init()",
                    t->size, sizeof *t);
    if (!t->batch_index && p->kv_batch < p->batch)
        return fail(err, GQA_ERR_ARGUMENT,
                    "%lld sequences share a cache of kv_batch %lld, but batch_index is NULL",
                    (long long)p->batch, (long long)p->kv_batch);
    const struct shape q = shape_of_rows("q", p->q_type, p, &p->q, p->head_dim);
    const struct shape k = shape_of_cache("k", p, &p->k, p->head_dim);
    const struct shape v = shape_of_cache("v", p, &p->v, p->head_dim_v);
    const struct shape o = shape_of_rows("o", p->o_type, p, &p->o, p->head_dim_v);
    const struct shape lse = shape_of_rows("lse", GQA_F32, p, &p->lse, 1);
    const bool table = p->paging == GQA_PAGED_TABLE, csr = p->paging == GQA_PAGED_CSR;
    const bool work = p->batch > 0;
    struct buffer b[] = {
        buffer_of(t->q, &q, false),
        buffer_of(t->k, &k, false),
        buffer_of(t->v, &v, false),
        buffer_of(t->o, &o, true),
        buffer_of(p->has_lse ? t->lse : NULL, &lse, true),
        buffer_of_words(csr ? "kv_lens or last_page_len" : "kv_lens", t->kv_lens, p->batch,
                        csr && !t->last_page_len),
        buffer_of_words("cu_seqlens_q", p->q_ragged ? t->cu_seqlens_q : NULL, p->batch + 1,
                        p->q_ragged && work),
        buffer_of_words("batch_index", t->batch_index, p->batch, false),
        buffer_of_words("block_table", table ? t->block_table : NULL,
                        times(p->kv_batch, p->table_stride), table && work),
        buffer_of_words("page_indptr", csr ? t->page_indptr : NULL, p->kv_batch + 1, csr && work),
        buffer_of_words("page_indices", csr ? t->page_indices : NULL, -1,
                        csr && work && p->kv_len > 0),
        buffer_of_words("last_page_len", csr ? t->last_page_len : NULL, p->batch,
                        csr && !t->kv_lens),
        buffer_of_words("k_scale", t->k_scale, scale_words(p, p->k_scales), true),
        buffer_of_words("v_scale", t->v_scale, scale_words(p, p->v_scales), true),
        buffer_of_words("sinks", p->has_sinks ? t->sinks : NULL, p->q_heads, p->has_sinks),
        {.name = "workspace",
         .data = workspace_needed ? workspace : NULL,
         .align = 1,
         .bytes = (int64_t)workspace_needed,
         .is_output = true,
         .is_packed = true},
        {.name = "trace",
         .data = t->trace,
         .align = GQA_TRACE_ALIGN,
         .bytes = (int64_t)t->trace_bytes,
         .is_output = true,
         .is_packed = true},
    };
    const int n = sizeof b / sizeof *b;
    b[1].bytes = p->paging != GQA_CONTIGUOUS && !p->num_pages ? -1 : b[1].bytes;
    b[2].bytes = p->paging != GQA_CONTIGUOUS && !p->num_pages ? -1 : b[2].bytes;
    b[4].is_needed = b[4].is_needed && p->has_lse;

    for (int i = 0; i < n; i++) {
        const bool skip = !work && i < 5;
        const gqa_status status = skip ? GQA_OK : check_buffer(&b[i], err);
        if (status)
            return status;
    }
    if (workspace_needed && (!workspace || workspace_bytes < workspace_needed))
        return fail(err, GQA_ERR_WORKSPACE, "the workspace is %s%zu bytes, expected at least %zu",
                    workspace ? "" : "NULL, ", workspace_bytes, workspace_needed);
    if (workspace_needed && (uintptr_t)workspace % GQA_WORKSPACE_ALIGN)
        return fail(err, GQA_ERR_WORKSPACE,
                    "the workspace is at address %p, expected a multiple of %d", workspace,
                    GQA_WORKSPACE_ALIGN);
    return check_overlaps(b, n, err);
}

/* --- Merges --- */

gqa_status merge_check(const struct gqa_shards *m, struct gqa_error *err) {
    if (!m)
        return fail(err, GQA_ERR_ARGUMENT, "merge is NULL");
    if (m->size != sizeof *m)
        return fail(err, GQA_ERR_ARGUMENT,
                    "merge.size is %zu, expected %zu: set the struct up with gqa_shards_init()",
                    m->size, sizeof *m);
    const struct range ranges[] = {
        {"parts", m->parts, 1, 4096, NULL},
        {"rows", m->rows, 0, INT32_MAX, NULL},
        {"q_heads", m->q_heads, 1, MAX_HEADS, NULL},
        {"head_dim_v", m->head_dim_v, 1, GQA_MAX_HEAD_DIM, NULL},
        {"part_base", m->part_base, GQA_BASE_E, GQA_BASE_2, NULL},
        {"o_base", m->o_base, GQA_BASE_E, GQA_BASE_2, NULL},
    };
    const gqa_status status = check_ranges(ranges, sizeof ranges / sizeof *ranges, err);
    if (status)
        return status;
    if ((unsigned)m->part_type > GQA_F16 || (unsigned)m->o_type > GQA_F16)
        return fail(err, GQA_ERR_TYPE,
                    "part_type is %s and o_type is %s; expected f32, bf16 or f16",
                    gqa_type_name(m->part_type), gqa_type_name(m->o_type));
    if (m->rows == 0)
        return GQA_OK;
    if (!m->part_o || !m->part_lse || !m->o)
        return fail(err, GQA_ERR_ARGUMENT, "merge.%s is NULL",
                    !m->part_o     ? "part_o"
                    : !m->part_lse ? "part_lse"
                                   : "o");
    const size_t part_bytes = gqa_type_bytes(m->part_type), o_bytes = gqa_type_bytes(m->o_type);
    if ((uintptr_t)m->part_o % part_bytes || (uintptr_t)m->o % o_bytes ||
        (uintptr_t)m->part_lse % 4 || (uintptr_t)m->lse % 4)
        return fail(err, GQA_ERR_ALIGNMENT, "a merge pointer is not a multiple of its type's size");

    const int64_t words = times(m->rows, m->q_heads), all = times(words, m->parts);
    const struct buffer b[] = {
        {"merge.part_o", m->part_o, 1, times(times(all, m->head_dim_v), (int64_t)part_bytes), false,
         true, true},
        {"merge.part_lse", m->part_lse, 1, times(all, 4), false, true, true},
        {"merge.o", m->o, 1, times(times(words, m->head_dim_v), (int64_t)o_bytes), true, true,
         true},
        {"merge.lse", m->lse, 1, times(words, 4), true, false, true},
    };
    for (int i = 0; i < 4; i++)
        if (b[i].bytes >> 62)
            return fail(err, GQA_ERR_SHAPE, "%s has more than 2^62 bytes", b[i].name);
    const bool o_in_place = m->o == m->part_o && m->o_type == m->part_type;
    const bool lse_in_place = m->lse == m->part_lse;
    for (int out = 2; out < 4; out++)
        for (int in = 0; in < 4; in++)
            if (in != out && buffers_overlap(&b[out], &b[in]) &&
                !(out == 2 && in == 0 && o_in_place) && !(out == 3 && in == 1 && lse_in_place))
                return fail(err, GQA_ERR_ARGUMENT, "output %s overlaps %s in memory", b[out].name,
                            b[in].name);
    return GQA_OK;
}
