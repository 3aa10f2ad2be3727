/* SPDX-License-Identifier: Apache-2.0
 * The file's shapes become the problem; then every whole number in it that the computation would
 * follow (lengths, offsets, indices, page numbers) is checked on the host, for any device. */
#include "step.h"
#include "flags.h"
#include "safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The order is that of step->data. */
enum {
    Q,
    K,
    V,
    KV_LENS,
    CU_SEQLENS_Q,
    BATCH_INDEX,
    BLOCK_TABLE,
    PAGE_INDPTR,
    PAGE_INDICES,
    LAST_PAGE_LEN,
    K_SCALE,
    V_SCALE,
    SINKS
};

enum content { IS_FLOAT, IS_WHOLE, IS_F32 };

static const struct input {
    const char *name;
    enum content content;
    size_t field; /* offset in struct gqa_tensors */
} inputs[STEP_INPUTS] = {
    [Q] = {"q", IS_FLOAT, offsetof(struct gqa_tensors, q)},
    [K] = {"k", IS_FLOAT, offsetof(struct gqa_tensors, k)},
    [V] = {"v", IS_FLOAT, offsetof(struct gqa_tensors, v)},
    [KV_LENS] = {"kv_lens", IS_WHOLE, offsetof(struct gqa_tensors, kv_lens)},
    [CU_SEQLENS_Q] = {"cu_seqlens_q", IS_WHOLE, offsetof(struct gqa_tensors, cu_seqlens_q)},
    [BATCH_INDEX] = {"batch_index", IS_WHOLE, offsetof(struct gqa_tensors, batch_index)},
    [BLOCK_TABLE] = {"block_table", IS_WHOLE, offsetof(struct gqa_tensors, block_table)},
    [PAGE_INDPTR] = {"page_indptr", IS_WHOLE, offsetof(struct gqa_tensors, page_indptr)},
    [PAGE_INDICES] = {"page_indices", IS_WHOLE, offsetof(struct gqa_tensors, page_indices)},
    [LAST_PAGE_LEN] = {"last_page_len", IS_WHOLE, offsetof(struct gqa_tensors, last_page_len)},
    [K_SCALE] = {"k_scale", IS_F32, offsetof(struct gqa_tensors, k_scale)},
    [V_SCALE] = {"v_scale", IS_F32, offsetof(struct gqa_tensors, v_scale)},
    [SINKS] = {"sinks", IS_F32, offsetof(struct gqa_tensors, sinks)},
};

/* While reading: the file, its tensors by input (NULL: not there), whole numbers on the host. */
struct reading {
    const char *path;
    struct st_file file;
    const struct st_tensor *tensors[STEP_INPUTS];
    int32_t *whole[STEP_INPUTS];
    int64_t count[STEP_INPUTS]; /* elements */
    struct gqa_problem p;
    int q_dims;
    struct gqa_error *err;
};

__attribute__((format(printf, 3, 4))) static gqa_status
refuse(const struct reading *r, gqa_status status, const char *format, ...) {
    const size_t size = sizeof r->err->message;
    va_list args;
    va_start(args, format);
    r->err->status = status;
    const int n = snprintf(r->err->message, size, "%.200s: ", r->path);
    vsnprintf(r->err->message + n, size - (size_t)n, format, args);
    va_end(args);
    return status;
}

/* --- Which tensors there are ---------------------------------------------------------------- */

/* A name that is none of ours would be ignored in silence; it is more likely misspelt. */
static gqa_status match_tensors(struct reading *r) {
    const char *names[STEP_INPUTS];
    for (int i = 0; i < STEP_INPUTS; i++)
        names[i] = inputs[i].name;
    for (int t = 0; t < r->file.count; t++) {
        int i = 0;
        while (i < STEP_INPUTS && strcmp(r->file.tensors[t].name, names[i]))
            i++;
        if (i < STEP_INPUTS) {
            r->tensors[i] = &r->file.tensors[t];
            continue;
        }
        const char *nearest = flags_nearest(r->file.tensors[t].name, names, STEP_INPUTS);
        return refuse(r, GQA_ERR_ARGUMENT, "a tensor \"%.60s\" has no meaning here%s%s%s",
                      r->file.tensors[t].name, nearest ? "; is it " : "", nearest ? nearest : "",
                      nearest ? "?" : "");
    }
    for (int i = 0; i < 3; i++)
        if (!r->tensors[i])
            return refuse(r, GQA_ERR_ARGUMENT, "there is no tensor \"%s\"", inputs[i].name);
    return GQA_OK;
}

static gqa_status check_types(struct reading *r) {
    for (int i = 0; i < STEP_INPUTS; i++) {
        const struct st_tensor *t = r->tensors[i];
        if (!t)
            continue;
        const bool good = inputs[i].content == IS_FLOAT   ? t->type <= ST_E5M2
                          : inputs[i].content == IS_WHOLE ? t->type == ST_I32 || t->type == ST_I64
                                                          : t->type == ST_F32;
        if (!good)
            return refuse(r, GQA_ERR_TYPE, "%s is %s, expected %s", inputs[i].name,
                          st_type_name(t->type),
                          inputs[i].content == IS_FLOAT   ? "F32, BF16, F16, F8_E4M3 or F8_E5M2"
                          : inputs[i].content == IS_WHOLE ? "I32 or I64"
                                                          : "F32");
        r->count[i] = (int64_t)(t->bytes / st_type_bytes(t->type));
    }
    if (r->tensors[K]->type != r->tensors[V]->type)
        return refuse(r, GQA_ERR_TYPE, "k is %s and v is %s; they must be of one type",
                      st_type_name(r->tensors[K]->type), st_type_name(r->tensors[V]->type));
    r->p.q_type = (enum gqa_type)r->tensors[Q]->type;
    r->p.kv_type = (enum gqa_type)r->tensors[K]->type;
    return GQA_OK;
}

/* --- What their shapes say ------------------------------------------------------------------ */

static const char *show_shape(const struct st_tensor *t, char text[160]) {
    size_t n = 0;
    text[0] = 0;
    for (int d = 0; d < t->dims && n < 140; d++)
        n += (size_t)snprintf(text + n, 160 - n, "[%lld]", (long long)t->shape[d]);
    return text;
}

static gqa_status refuse_shape(const struct reading *r, int i, const char *expected) {
    char text[160];
    return refuse(r, GQA_ERR_SHAPE, "%s is %s, expected %s", inputs[i].name,
                  r->tensors[i]->dims ? show_shape(r->tensors[i], text) : "a single number",
                  expected);
}

/* A dimension that the API counts in an int. */
static int as_int(int64_t n) {
    return n > INT32_MAX ? INT32_MAX : (int)n;
}

static gqa_status derive_rows(struct reading *r) {
    const struct st_tensor *q = r->tensors[Q];
    r->p.q_ragged = r->tensors[CU_SEQLENS_Q] != NULL;
    if (r->p.q_ragged ? q->dims != 3 : q->dims != 3 && q->dims != 4)
        return refuse_shape(r, Q, "[batch][q_tokens][q_heads][head_dim], or 3 dimensions");
    r->q_dims = q->dims;
    r->p.q_heads = as_int(q->shape[q->dims - 2]);
    r->p.head_dim = as_int(q->shape[q->dims - 1]);
    r->p.batch = q->shape[0];
    r->p.q_tokens = q->dims == 4 ? as_int(q->shape[1]) : 1;
    if (!r->p.q_ragged)
        return GQA_OK;
    if (r->tensors[CU_SEQLENS_Q]->dims != 1 || r->count[CU_SEQLENS_Q] < 1)
        return refuse_shape(r, CU_SEQLENS_Q, "[batch + 1]");
    r->p.batch = r->count[CU_SEQLENS_Q] - 1;
    r->p.q_total = q->shape[0];
    return GQA_OK;
}

static gqa_status derive_cache(struct reading *r, enum gqa_layout layout) {
    const struct st_tensor *k = r->tensors[K], *v = r->tensors[V];
    const int head = layout == GQA_HND ? 1 : 2, token = 3 - head;
    if (k->dims != 4)
        return refuse_shape(r, K, "4 dimensions");
    if (v->dims != 4 || memcmp(k->shape, v->shape, 3 * sizeof *k->shape))
        return refuse_shape(r, V, "k's shape but for the last dimension");
    if (k->shape[3] != r->p.head_dim)
        return refuse_shape(r, K, "head_dim elements last, as q has");
    if (v->shape[3] < 1)
        return refuse_shape(r, V, "at least one element last");
    r->p.head_dim_v = as_int(v->shape[3]);
    r->p.kv_heads = as_int(k->shape[head]);
    const bool table = r->tensors[BLOCK_TABLE], csr = r->tensors[PAGE_INDPTR];
    if (table && csr)
        return refuse(r, GQA_ERR_ARGUMENT, "both block_table and page_indptr are there");
    if (!csr != !r->tensors[PAGE_INDICES] || (!csr && r->tensors[LAST_PAGE_LEN]))
        return refuse(r, GQA_ERR_ARGUMENT,
                      "page_indptr and page_indices belong together, and "
                      "last_page_len to them");
    r->p.kv_batch = k->shape[0];
    r->p.kv_len = k->shape[token];
    if (!table && !csr)
        return GQA_OK;
    r->p.num_pages = k->shape[0];
    r->p.page_size = as_int(k->shape[token]);
    r->p.paging = table ? GQA_PAGED_TABLE : GQA_PAGED_CSR;
    if (r->p.page_size < 1)
        return refuse_shape(r, K, "pages of at least one token");
    if (table && r->tensors[BLOCK_TABLE]->dims != 2)
        return refuse_shape(r, BLOCK_TABLE, "[kv_batch][pages]");
    if (csr && (r->tensors[PAGE_INDPTR]->dims != 1 || r->count[PAGE_INDPTR] < 1))
        return refuse_shape(r, PAGE_INDPTR, "[kv_batch + 1]");
    r->p.kv_batch = table ? r->tensors[BLOCK_TABLE]->shape[0] : r->count[PAGE_INDPTR] - 1;
    r->p.table_stride = table ? r->tensors[BLOCK_TABLE]->shape[1] : 0;
    return GQA_OK;
}

static gqa_status derive_scales(struct reading *r, int i, enum gqa_scales *scales) {
    const struct st_tensor *t = r->tensors[i];
    if (!t)
        return GQA_OK;
    if (r->count[i] == 1 && t->dims <= 1)
        *scales = GQA_SCALE_TENSOR;
    else if (t->dims == 1 && t->shape[0] == r->p.kv_heads)
        *scales = GQA_SCALE_HEAD;
    else if (t->dims == 2 && t->shape[0] == r->p.batch && t->shape[1] == r->p.kv_heads)
        *scales = GQA_SCALE_BATCH_HEAD;
    else
        return refuse_shape(r, i, "[1], [kv_heads] or [batch][kv_heads]");
    return GQA_OK;
}

static gqa_status derive_problem(struct reading *r, enum gqa_layout layout) {
    gqa_status status;
    if ((status = derive_rows(r)) || (status = derive_cache(r, layout)) ||
        (status = derive_scales(r, K_SCALE, &r->p.k_scales)) ||
        (status = derive_scales(r, V_SCALE, &r->p.v_scales)))
        return status;
    const struct {
        int input;
        int64_t count;
        const char *shape;
    } vectors[] = {{KV_LENS, r->p.batch, "[batch]"},
                   {BATCH_INDEX, r->p.batch, "[batch]"},
                   {LAST_PAGE_LEN, r->p.batch, "[batch]"},
                   {PAGE_INDICES, -1, "one dimension"},
                   {SINKS, r->p.q_heads, "[q_heads]"}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const int input = vectors[i].input;
        if (r->tensors[input] && (r->tensors[input]->dims != 1 ||
                                  (vectors[i].count >= 0 && r->count[input] != vectors[i].count)))
            return refuse_shape(r, input, vectors[i].shape);
    }
    r->p.has_sinks = r->tensors[SINKS] != NULL;
    return GQA_OK;
}

/* --- The whole numbers in them -------------------------------------------------------------- */

/* Read one tensor of whole numbers as int32_t. */
static gqa_status load_whole(struct reading *r, int i) {
    const struct st_tensor *t = r->tensors[i];
    const int64_t n = r->count[i];
    gqa_status status = GQA_OK;
    if (!t)
        return GQA_OK;
    r->whole[i] = malloc((size_t)n * sizeof(int32_t) + 1);
    int64_t *wide = t->type == ST_I64 ? malloc(t->bytes + 1) : NULL;
    if (!r->whole[i] || (t->type == ST_I64 && !wide)) {
        status = refuse(r, GQA_ERR_MEMORY, "no memory for %s", inputs[i].name);
        goto out;
    }
    status = st_read(&r->file, t, wide ? (void *)wide : r->whole[i], r->err);
    for (int64_t e = 0; !status && wide && e < n; e++) {
        if (wide[e] < INT32_MIN || wide[e] > INT32_MAX)
            status = refuse(r, GQA_ERR_ARGUMENT, "%s[%lld] is %lld, which is no 32-bit number",
                            inputs[i].name, (long long)e, (long long)wide[e]);
        r->whole[i][e] = (int32_t)wide[e];
    }
out:
    free(wide);
    return status;
}

/* Whole number `at` of input i must lie in least .. most. */
static gqa_status check_whole(const struct reading *r, int i, int64_t at, int64_t least,
                              int64_t most) {
    const int32_t value = r->whole[i][at];
    if (value >= least && value <= most)
        return GQA_OK;
    if (most < least)
        return refuse(r, GQA_ERR_ARGUMENT, "%s[%lld] is %d, but nothing can be there",
                      inputs[i].name, (long long)at, value);
    return refuse(r, GQA_ERR_ARGUMENT, "%s[%lld] is %d, expected %lld to %lld", inputs[i].name,
                  (long long)at, value, (long long)least, (long long)most);
}

/* An ascending list of offsets from 0 to at most `end`, in steps of at most `step`. */
static gqa_status check_offsets(const struct reading *r, int i, int64_t step, int64_t end) {
    gqa_status status = check_whole(r, i, 0, 0, 0);
    for (int64_t e = 1; !status && e < r->count[i]; e++) {
        const int64_t before = r->whole[i][e - 1];
        status = check_whole(r, i, e, before, step < end - before ? before + step : end);
    }
    return status;
}

/* The queries of a ragged step: at most 16 per sequence, which is what the library takes. */
static gqa_status check_rows(struct reading *r) {
    const int32_t *cu = r->whole[CU_SEQLENS_Q];
    if (!cu)
        return GQA_OK;
    const gqa_status status = check_offsets(r, CU_SEQLENS_Q, 16, r->p.q_total);
    for (int64_t b = 0; !status && b < r->p.batch; b++)
        if (cu[b + 1] - cu[b] > r->p.q_tokens)
            r->p.q_tokens = cu[b + 1] - cu[b];
    return status;
}

/* The capacity of a paged cache, from its tables. */
static gqa_status check_capacity(struct reading *r) {
    const int32_t *indptr = r->whole[PAGE_INDPTR];
    int64_t pages = r->p.table_stride;
    if (r->p.paging == GQA_CONTIGUOUS)
        return GQA_OK;
    if (indptr) {
        const gqa_status status = check_offsets(r, PAGE_INDPTR, INT32_MAX, r->count[PAGE_INDICES]);
        if (status)
            return status;
        for (int64_t row = 0; row < r->p.kv_batch; row++)
            if (indptr[row + 1] - indptr[row] > pages)
                pages = indptr[row + 1] - indptr[row];
    }
    const int64_t tokens = pages * r->p.page_size; /* both fit in 32 bits, or nearly */
    r->p.kv_len = pages <= INT32_MAX && tokens <= INT32_MAX ? tokens : INT32_MAX;
    return GQA_OK;
}

/* Sequence b's pages: `used` of them, in one row of a table. */
static gqa_status check_pages(const struct reading *r, int table, int64_t begin, int64_t used) {
    gqa_status status = GQA_OK;
    for (int64_t j = 0; !status && j < used; j++)
        status = check_whole(r, table, begin + j, 0, r->p.num_pages - 1);
    return status;
}

static gqa_status check_csr_sequence(const struct reading *r, int64_t b, int64_t row) {
    const int32_t *indptr = r->whole[PAGE_INDPTR];
    const int64_t pages = indptr[row + 1] - indptr[row], page = r->p.page_size;
    int64_t length = 0;
    gqa_status status = GQA_OK;
    if (r->whole[KV_LENS]) {
        length = r->whole[KV_LENS][b];
        const int64_t room = pages * page;
        status = check_whole(r, KV_LENS, b, 0, room < INT32_MAX ? room : INT32_MAX);
    } else {
        status = check_whole(r, LAST_PAGE_LEN, b, pages ? 1 : 0, pages ? page : 0);
        length = pages ? (pages - 1) * page + r->whole[LAST_PAGE_LEN][b] : 0;
    }
    return status ? status : check_pages(r, PAGE_INDICES, indptr[row], (length + page - 1) / page);
}

static gqa_status check_sequence(const struct reading *r, int64_t b) {
    gqa_status status = GQA_OK;
    int64_t row = b, length = r->p.kv_len;
    if (r->whole[BATCH_INDEX]) {
        status = check_whole(r, BATCH_INDEX, b, 0, r->p.kv_batch - 1);
        row = r->whole[BATCH_INDEX][b];
    }
    if (status)
        return status;
    if (r->p.paging == GQA_PAGED_CSR)
        return check_csr_sequence(r, b, row);
    if (r->whole[KV_LENS]) {
        status = check_whole(r, KV_LENS, b, 0, r->p.kv_len);
        length = r->whole[KV_LENS][b];
    }
    if (status || r->p.paging == GQA_CONTIGUOUS)
        return status;
    const int64_t page = r->p.page_size;
    return check_pages(r, BLOCK_TABLE, row * r->p.table_stride, (length + page - 1) / page);
}

static gqa_status check_numbers(struct reading *r) {
    gqa_status status = GQA_OK;
    for (int i = 0; !status && i < STEP_INPUTS; i++)
        if (inputs[i].content == IS_WHOLE)
            status = load_whole(r, i);
    if (status || (status = check_rows(r)) || (status = check_capacity(r)))
        return status;
    if (!r->tensors[BATCH_INDEX] && r->p.kv_batch < r->p.batch)
        return refuse(r, GQA_ERR_SHAPE, "%lld sequences share a cache of %lld without batch_index",
                      (long long)r->p.batch, (long long)r->p.kv_batch);
    if (r->p.paging == GQA_PAGED_CSR && !r->whole[KV_LENS] && !r->whole[LAST_PAGE_LEN])
        return refuse(r, GQA_ERR_ARGUMENT, "page_indptr needs last_page_len or kv_lens");
    for (int64_t b = 0; !status && b < r->p.batch; b++)
        status = check_sequence(r, b);
    return status;
}

/* --- Into the device's memory --------------------------------------------------------------- */

static gqa_status place(struct reading *r, int i, struct step *step) {
    struct space *space = step->space;
    const struct st_tensor *t = r->tensors[i];
    const size_t bytes = r->whole[i] ? (size_t)r->count[i] * sizeof(int32_t) : t->bytes;
    void *data = space->kind->take(space, bytes);
    if (!data)
        return refuse(r, GQA_ERR_MEMORY, "no %zu bytes for %s", bytes, inputs[i].name);
    step->data[i] = data;
    step->bytes[i] = bytes;
    memcpy((char *)&step->tensors + inputs[i].field, &data, sizeof data);
    if (r->whole[i])
        return space->kind->put(space, data, r->whole[i], bytes, r->err);
    if (space->kind == &space_cpu)
        return st_read(&r->file, t, data, r->err);
    void *staging = malloc(bytes + 1);
    if (!staging)
        return refuse(r, GQA_ERR_MEMORY, "no %zu bytes for %s", bytes, inputs[i].name);
    gqa_status status = st_read(&r->file, t, staging, r->err);
    if (!status)
        status = space->kind->put(space, data, staging, bytes, r->err);
    free(staging);
    return status;
}

static gqa_status check_total(const struct reading *r, uint64_t most_bytes) {
    uint64_t total = 0;
    for (int i = 0; i < STEP_INPUTS; i++)
        total += r->tensors[i] ? r->tensors[i]->bytes : 0;
    if (total > most_bytes)
        return refuse(r, GQA_ERR_MEMORY, "its tensors have %llu bytes, at most %llu are allowed",
                      (unsigned long long)total, (unsigned long long)most_bytes);
    return GQA_OK;
}

gqa_status step_read(const char *path, const struct gqa_problem *options, enum gqa_layout layout,
                     uint64_t most_bytes, struct space *space, struct step *step,
                     struct gqa_error *err) {
    struct reading r = {.path = path, .p = *options, .err = err};
    struct step s = {.tensors = gqa_tensors_init(), .space = space};
    gqa_status status = st_open(path, &r.file, err);
    if (status)
        return status;
    if ((status = match_tensors(&r)) || (status = check_types(&r)) ||
        (status = check_total(&r, most_bytes)) || (status = derive_problem(&r, layout)) ||
        (status = check_numbers(&r)))
        goto out;
    gqa_problem_pack(&r.p, layout);
    s.problem = r.p;
    s.q_dims = r.q_dims;
    for (int i = 0; !status && i < STEP_INPUTS; i++)
        if (r.tensors[i])
            status = place(&r, i, &s);
out:
    for (int i = 0; i < STEP_INPUTS; i++)
        free(r.whole[i]);
    st_close(&r.file);
    if (status)
        step_free(&s);
    else
        *step = s;
    return status;
}

void step_free(struct step *step) {
    for (int i = 0; i < STEP_INPUTS; i++)
        if (step->data[i])
            step->space->kind->give(step->space, step->data[i], step->bytes[i]);
    *step = (struct step){.space = NULL};
}
