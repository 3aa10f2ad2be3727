/* SPDX-License-Identifier: Apache-2.0
 * Contenders, their memory, and the rounds. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 4096, BLOCK = 4 << 20, WARM_UPS = 3, MAX_RUNS = 20000 };

static gqa_status refuse(struct gqa_error *err, gqa_status status, const char *message) {
    err->status = status;
    snprintf(err->message, sizeof err->message, "%s", message);
    return status;
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static double smallest(double a, double b) {
    return a < b ? a : b;
}

/* --- Data ----------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Nearly normal with variance 1: the sum of twelve uniform numbers. */
static float next_normal(uint64_t *state) {
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (float)(next_random(state) >> 40) * 0x1p-24f;
    return sum;
}

/* Elements of a narrow float by cutting mantissa bits off: as good as any for timing. */
static void store(enum gqa_type type, void *array, size_t i, float x) {
    static const struct {
        int exponent, mantissa;
    } forms[] = {
        [GQA_BF16] = {8, 7}, [GQA_F16] = {5, 10}, [GQA_E4M3] = {4, 3}, [GQA_E5M2] = {5, 2}};
    if (type == GQA_F32) {
        ((float *)array)[i] = x;
        return;
    }
    const int exponent = forms[type].exponent, mantissa = forms[type].mantissa;
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const int e = (int)(u >> 23 & 255) - 127 + (1 << (exponent - 1)) - 1;
    const uint32_t small = e <= 0 ? 0 : (uint32_t)e << mantissa | (u & 0x7fffff) >> (23 - mantissa);
    const uint32_t bits = u >> 31 << (exponent + mantissa) | small;
    if (gqa_type_bytes(type) == 2)
        ((uint16_t *)array)[i] = (uint16_t)bits;
    else
        ((uint8_t *)array)[i] = (uint8_t)bits;
}

/* Fill device memory with random elements: a block of them, again and again from another phase. */
static gqa_status fill(struct bench *b, enum gqa_type type, void *to, size_t bytes,
                       struct gqa_error *err) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    const size_t block = bytes < BLOCK ? bytes : BLOCK;
    char *host = malloc(block + 64);
    gqa_status status = host ? GQA_OK : refuse(err, GQA_ERR_MEMORY, "no memory for random data");
    for (size_t i = 0; host && i < block / gqa_type_bytes(type); i++)
        store(type, host, i, next_normal(&state));
    for (size_t at = 0; !status && at < bytes;) {
        const size_t phase = at ? next_random(&state) % (block / 2) / 64 * 64 : 0;
        const size_t n = block - phase < bytes - at ? block - phase : bytes - at;
        status = b->space.kind->put(&b->space, (char *)to + at, host + phase, n, err);
        at += n;
    }
    free(host);
    return status;
}

/* --- Contenders ----------------------------------------------------------------------------- */

static int64_t rows_of(const struct gqa_problem *p) {
    return p->q_ragged ? p->q_total : p->batch * p->q_tokens;
}

static int64_t pages_per_sequence(const struct gqa_problem *p) {
    return p->paging == GQA_CONTIGUOUS ? 0 : (p->kv_len + p->page_size - 1) / p->page_size;
}

/* Sizes of K and V; the planner has refused what does not fit. */
static void measure(struct contender *c) {
    const struct gqa_problem *p = &c->p;
    const size_t element = gqa_type_bytes(p->kv_type);
    const size_t dim_v = (size_t)(p->head_dim_v ? p->head_dim_v : p->head_dim);
    const size_t tokens =
        (size_t)p->batch *
        (size_t)(p->paging == GQA_CONTIGUOUS ? p->kv_len : pages_per_sequence(p) * p->page_size);
    const size_t k = tokens * (size_t)p->kv_heads * (size_t)p->head_dim * element;
    const size_t v = tokens * (size_t)p->kv_heads * dim_v * element;
    const size_t q_rows = (size_t)rows_of(p) * (size_t)p->q_heads;
    c->kv_bytes = k + v;
    c->bytes = k + v + q_rows * (size_t)p->head_dim * gqa_type_bytes(p->q_type) +
               q_rows * dim_v * gqa_type_bytes(p->o_type);
    c->v_offset = aligned(k);
    c->pool.stride = aligned(k) + aligned(v);
    c->pool.bytes = k + v < c->pool.stride ? k + v : c->pool.stride;
}

gqa_status bench_open(struct bench *b, const char *device, const struct gqa_device_options *options,
                      struct gqa_error *err) {
    *b = (struct bench){.device = device,
                        .device_options = *options,
                        .pool_bytes = (size_t)512 << 20,
                        .rounds = 15,
                        .round_ms = 8};
    b->contenders = calloc(BENCH_MAX_CONTENDERS, sizeof *b->contenders);
    if (!b->contenders)
        return refuse(err, GQA_ERR_MEMORY, "out of memory");
    return space_open(device, &b->space, err);
}

gqa_status bench_add(struct bench *b, const struct gqa_problem *p, enum gqa_layout layout,
                     int threads, struct contender **added, struct gqa_error *err) {
    if (b->count == BENCH_MAX_CONTENDERS)
        return refuse(err, GQA_ERR_ARGUMENT, "too many contenders");
    struct contender *c = &b->contenders[b->count];
    *c = (struct contender){.name = "", .p = *p, .layout = layout, .threads = threads};
    c->versus = -1;
    c->info = gqa_plan_info_init();
    if (c->p.paging != GQA_CONTIGUOUS && c->p.page_size > 0 && c->p.batch > 0)
        c->p.num_pages = c->p.batch * pages_per_sequence(&c->p);
    gqa_problem_pack(&c->p, layout);
    struct gqa_device_options options = b->device_options;
    options.threads = threads;
    gqa_status status = gqa_device_open(b->device, &options, &c->device, err);
    if (!status)
        status = gqa_plan_create(c->device, &c->p, &c->plan, err);
    if (status) {
        gqa_device_close(c->device);
        return status;
    }
    gqa_plan_describe(c->plan, &c->info, NULL);
    c->workspace_bytes = gqa_plan_workspace(c->plan);
    measure(c);
    b->count++;
    *added = c;
    return GQA_OK;
}

/* Whole numbers of a contender on the host: a shuffled table, offsets of ragged queries, lengths of
 * last pages; then scales of one and sinks of zero. One allocation, in this order. */
struct small {
    size_t table, indptr, last, cu, ones, zeros, bytes; /* offsets */
};

static struct small lay_out(const struct gqa_problem *p) {
    const size_t batch = (size_t)p->batch;
    struct small s = {.table = 0};
    s.indptr = s.table + aligned(batch * (size_t)pages_per_sequence(p) * 4);
    s.last = s.indptr + aligned((batch + 1) * 4);
    s.cu = s.last + aligned(batch * 4);
    s.ones = s.cu + aligned((batch + 1) * 4);
    s.zeros = s.ones + aligned(batch * (size_t)p->kv_heads * 4);
    s.bytes = s.zeros + aligned((size_t)p->q_heads * 4);
    return s;
}

static void fill_small(const struct gqa_problem *p, const struct small *s, char *host) {
    const int64_t pages = pages_per_sequence(p), all = p->batch * pages;
    int32_t *table = (int32_t *)(host + s->table), *indptr = (int32_t *)(host + s->indptr);
    int32_t *last = (int32_t *)(host + s->last), *cu = (int32_t *)(host + s->cu);
    float *ones = (float *)(host + s->ones);
    uint64_t state = 88172645463325252u;
    for (int64_t i = 0; i < all; i++) {
        const int64_t j = (int64_t)(next_random(&state) % (uint64_t)(i + 1));
        table[i] = table[j];
        table[j] = (int32_t)i;
    }
    for (int64_t i = 0; i <= p->batch; i++) {
        indptr[i] = (int32_t)(i * pages);
        cu[i] = (int32_t)(i * p->q_tokens);
        if (i < p->batch && pages)
            last[i] = (int32_t)(p->kv_len - (pages - 1) * p->page_size);
    }
    for (int64_t i = 0; i < p->batch * p->kv_heads; i++)
        ones[i] = 1;
}

/* Everything of a contender but K and V: one piece of device memory. */
static gqa_status prepare(struct bench *b, struct contender *c, struct gqa_error *err) {
    const struct gqa_problem *p = &c->p;
    const struct small s = lay_out(p);
    const size_t rows = (size_t)rows_of(p) * (size_t)p->q_heads;
    const size_t q_bytes = rows * (size_t)p->head_dim * gqa_type_bytes(p->q_type);
    const size_t o_bytes =
        rows * (size_t)(p->head_dim_v ? p->head_dim_v : p->head_dim) * gqa_type_bytes(p->o_type);
    const size_t q_at = s.bytes, o_at = q_at + aligned(q_bytes), lse_at = o_at + aligned(o_bytes);
    char *host = calloc(1, s.bytes);
    c->memory_bytes = lse_at + aligned(rows * sizeof(float));
    char *device = c->memory = b->space.kind->take(&b->space, c->memory_bytes);
    c->workspace = b->space.kind->take(&b->space, c->workspace_bytes);
    if (!host || !device || !c->workspace) {
        free(host);
        return refuse(err, GQA_ERR_MEMORY, "no memory for queries and the workspace");
    }
    fill_small(p, &s, host);
    gqa_status status = b->space.kind->put(&b->space, device, host, s.bytes, err);
    free(host);
    if (!status)
        status = fill(b, p->q_type, device + q_at, q_bytes, err);

    struct gqa_tensors *t = &c->tensors;
    *t = gqa_tensors_init();
    t->q = device + q_at;
    t->o = device + o_at;
    t->lse = (float *)(device + lse_at);
    t->block_table = t->page_indices = (const int32_t *)(device + s.table);
    t->page_indptr = (const int32_t *)(device + s.indptr);
    t->last_page_len = (const int32_t *)(device + s.last);
    t->cu_seqlens_q = (const int32_t *)(device + s.cu);
    t->k_scale = t->v_scale = (const float *)(device + s.ones);
    t->sinks = (const float *)(device + s.zeros);
    return status;
}

static void release(struct bench *b, struct contender *c) {
    if (c->memory)
        b->space.kind->give(&b->space, c->memory, c->memory_bytes);
    if (c->workspace)
        b->space.kind->give(&b->space, c->workspace, c->workspace_bytes);
    c->memory = c->workspace = NULL;
}

void bench_close(struct bench *b) {
    for (int i = 0; i < b->count; i++) {
        release(b, &b->contenders[i]);
        gqa_plan_destroy(b->contenders[i].plan);
        gqa_device_close(b->contenders[i].device);
    }
    free(b->contenders);
    space_close(&b->space);
    b->count = 0;
}

/* --- Rounds --------------------------------------------------------------------------------- */

static gqa_status step(void *context, int64_t run, void *stream, struct gqa_error *err) {
    const struct contender *c = context;
    struct gqa_tensors t = c->tensors;
    const char *entry =
        (const char *)c->pool.base + (size_t)(run % c->pool.entries) * c->pool.stride;
    t.k = entry;
    t.v = entry + c->v_offset;
    return gqa_decode(c->plan, &t, c->workspace, c->workspace_bytes, stream, err);
}

static gqa_status time_step(struct bench *b, struct contender *c, double *seconds,
                            struct gqa_error *err) {
    const gqa_status status =
        b->space.kind->time(&b->space, step, c, c->next, c->runs, seconds, err);
    if (b->space.clock == SPACE_CPU_TIME && c->threads > 1)
        *seconds /= c->threads;
    c->next += c->runs;
    return status;
}

static gqa_status time_floor(struct bench *b, struct contender *c, double *seconds,
                             struct gqa_error *err) {
    const gqa_status status =
        b->space.kind->read(&b->space, &c->pool, c->threads, c->next, c->runs, seconds, err);
    c->next += c->runs;
    return status;
}

/* Warm up, then as many runs as take round_ms. */
static gqa_status calibrate(struct bench *b, struct contender *c, struct gqa_error *err) {
    double seconds = 0, best = 1e9;
    c->runs = 1;
    for (int i = 0; i < WARM_UPS; i++) {
        const gqa_status status = time_step(b, c, &seconds, err);
        if (status)
            return status;
        best = smallest(best, seconds);
    }
    const double runs = 1e-3 * b->round_ms / (best > 1e-7 ? best : 1e-7);
    c->runs = runs < 1 ? 1 : runs > MAX_RUNS ? MAX_RUNS : (int64_t)runs;
    return GQA_OK;
}

static gqa_status time_contender(struct bench *b, struct contender *c, int round,
                                 struct gqa_error *err) {
    double floor = 0, seconds = 0;
    gqa_status status = time_floor(b, c, &floor, err);
    if (!status)
        status = time_step(b, c, &seconds, err);
    c->floor_us[round] = 1e6 * floor / (double)c->runs;
    c->us[round] = 1e6 * seconds / (double)c->runs;
    return status;
}

/* All contenders of one type, round by round. */
static gqa_status run_type(struct bench *b, enum gqa_type type, struct gqa_error *err) {
    size_t bytes = b->pool_bytes;
    gqa_status status = GQA_OK;
    for (int i = 0; i < b->count; i++)
        if (b->contenders[i].p.kv_type == type && b->contenders[i].pool.stride > bytes)
            bytes = b->contenders[i].pool.stride;
    char *pool = b->space.kind->take(&b->space, bytes);
    if (!pool)
        return refuse(err, GQA_ERR_MEMORY, "no memory for the pool of K and V");
    status = fill(b, type, pool, bytes, err);
    for (int i = 0; !status && i < b->count; i++) {
        struct contender *c = &b->contenders[i];
        if (c->p.kv_type != type)
            continue;
        c->pool.base = pool;
        c->pool.entries = (int64_t)(bytes / c->pool.stride);
        if (!(status = prepare(b, c, err)))
            status = calibrate(b, c, err);
    }
    for (int round = 0; !status && round < b->rounds; round++) {
        if (b->progress)
            fprintf(stderr, "\r%s: round %d of %d ", gqa_type_name(type), round + 1, b->rounds);
        for (int k = 0; !status && k < b->count; k++) {
            struct contender *c = &b->contenders[round % 2 ? b->count - 1 - k : k];
            if (c->p.kv_type == type)
                status = time_contender(b, c, round, err);
        }
    }
    if (b->progress)
        fprintf(stderr, "\r%40s\r", "");
    b->space.kind->give(&b->space, pool, bytes);
    return status;
}

gqa_status bench_run(struct bench *b, struct gqa_error *err) {
    gqa_status status = GQA_OK;
    for (int type = GQA_F32; !status && type <= GQA_E5M2; type++) {
        bool any = false;
        for (int i = 0; i < b->count; i++) {
            any |= b->contenders[i].p.kv_type == (enum gqa_type)type;
            if (b->contenders[i].p.kv_type == (enum gqa_type)type && !b->contenders[i].pool.stride)
                return refuse(err, GQA_ERR_SHAPE, "there is nothing to time in an empty step");
        }
        if (any)
            status = run_type(b, (enum gqa_type)type, err);
    }
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(const struct bench *b, const double *us, const double *other) {
    double sorted[BENCH_MAX_ROUNDS];
    for (int i = 0; i < b->rounds; i++)
        sorted[i] = other ? us[i] / other[i] : us[i];
    qsort(sorted, (size_t)b->rounds, sizeof *sorted, by_value);
    return b->rounds % 2 ? sorted[b->rounds / 2]
                         : (sorted[b->rounds / 2 - 1] + sorted[b->rounds / 2]) / 2;
}
