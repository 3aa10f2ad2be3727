/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"
#include "num.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

gqa_status refuse(struct gqa_error *err, gqa_status status, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The plan for n query tokens, made when first asked for. */
static gqa_status plan_for(struct cache *cache, int n, struct gqa_error *err) {
    if (cache->plans[n])
        return GQA_OK;
    struct gqa_problem problem = cache->problem;
    problem.q_tokens = n;
    gqa_problem_pack(&problem, GQA_HND);
    return gqa_plan_create(cache->device, &problem, &cache->plans[n], err);
}

static void describe(struct gqa_problem *p, const struct cache_options *options,
                     const struct cache_shape *shape) {
    *p = gqa_problem_init();
    p->q_heads = shape->q_heads;
    p->kv_heads = shape->kv_heads;
    p->head_dim = shape->head_dim;
    p->kv_len = shape->capacity;
    p->kv_type = options->type;
    p->q_type = p->o_type = GQA_F32;
    p->precision = options->precision;
    /* The same splits for one query token and for sixteen. */
    p->split_mode = GQA_SPLIT_INVARIANT;
}

static void *take(struct cache *cache, size_t bytes) {
    return cache->space.kind->take(&cache->space, bytes);
}

static void give(struct cache *cache, void *memory, size_t bytes) {
    if (memory)
        cache->space.kind->give(&cache->space, memory, bytes);
}

/* Slots beyond a length may hold anything, and a kernel's last tile may read them; zeros keep a
 * checker of uninitialised reads from asking. */
static void *take_zeroed(struct cache *cache, size_t bytes, struct gqa_error *err) {
    void *zeros = calloc(1, bytes), *memory = zeros ? take(cache, bytes) : NULL;
    if (memory && cache->space.kind->put(&cache->space, memory, zeros, bytes, err)) {
        give(cache, memory, bytes);
        memory = NULL;
    }
    free(zeros);
    return memory;
}

static gqa_status allocate(struct cache *cache, struct gqa_error *err) {
    const struct gqa_problem *p = &cache->problem;
    const size_t tokens = (size_t)p->kv_len, row = (size_t)p->kv_heads * p->head_dim;
    cache->q_bytes = (size_t)CACHE_MAX_TOKENS * p->q_heads * p->head_dim * sizeof(float);
    cache->pool_bytes = tokens * row * gqa_type_bytes(p->kv_type);
    cache->workspace_bytes = gqa_plan_workspace(cache->plans[CACHE_MAX_TOKENS]);
    cache->k = calloc(cache->layers, sizeof *cache->k);
    cache->v = calloc(cache->layers, sizeof *cache->v);
    cache->staging = malloc(cache->q_bytes);
    cache->q = take(cache, cache->q_bytes);
    cache->o = take(cache, cache->q_bytes);
    cache->kv_lens = take(cache, sizeof *cache->kv_lens);
    cache->workspace = take(cache, cache->workspace_bytes);
    int complete = cache->k && cache->v && cache->staging && cache->q && cache->o &&
                   cache->kv_lens && cache->workspace;
    for (int i = 0; complete && i < cache->layers; i++) {
        cache->k[i] = take_zeroed(cache, cache->pool_bytes, err);
        cache->v[i] = take_zeroed(cache, cache->pool_bytes, err);
        complete = cache->k[i] && cache->v[i];
    }
    return complete ? GQA_OK
                    : refuse(err, GQA_ERR_MEMORY, "no memory for %d layers of %lld tokens",
                             cache->layers, (long long)p->kv_len);
}

gqa_status cache_open(const struct cache_options *options, const struct cache_shape *shape,
                      struct cache *cache, struct gqa_error *err) {
    *cache = (struct cache){.grid = options->grid, .layers = shape->layers};
    describe(&cache->problem, options, shape);
    struct gqa_device_options device = gqa_device_options_init();
    device.threads = options->threads;
    device.kernel = options->kernel;
    gqa_status status = gqa_device_open(options->device, &device, &cache->device, err);
    if (!status)
        status = space_open(options->device, &cache->space, err);
    /* The plan of the most query tokens has the largest workspace: it serves them all. */
    if (!status)
        status = plan_for(cache, CACHE_MAX_TOKENS, err);
    if (status == GQA_ERR_UNSUPPORTED && options->type != GQA_F32) {
        /* Matrix units want queries of the keys' type. */
        cache->problem.q_type = options->type;
        status = plan_for(cache, CACHE_MAX_TOKENS, err);
    }
    if (!status)
        status = allocate(cache, err);
    if (status) {
        cache_close(cache);
        return status;
    }
    cache->tensors = gqa_tensors_init();
    cache->tensors.q = cache->q;
    cache->tensors.o = cache->o;
    cache->tensors.kv_lens = cache->kv_lens;
    return GQA_OK;
}

void cache_close(struct cache *cache) {
    for (int n = 0; n <= CACHE_MAX_TOKENS; n++)
        gqa_plan_destroy(cache->plans[n]);
    for (int i = 0; cache->k && cache->v && i < cache->layers; i++) {
        give(cache, cache->k[i], cache->pool_bytes);
        give(cache, cache->v[i], cache->pool_bytes);
    }
    give(cache, cache->q, cache->q_bytes);
    give(cache, cache->o, cache->q_bytes);
    give(cache, cache->kv_lens, sizeof *cache->kv_lens);
    give(cache, cache->workspace, cache->workspace_bytes);
    space_close(&cache->space);
    free(cache->k);
    free(cache->v);
    free(cache->staging);
    gqa_device_close(cache->device);
    *cache = (struct cache){0};
}

void cache_reset(struct cache *cache) {
    cache->length = 0;
    cache->seconds = 0;
}

void cache_advance(struct cache *cache, int n) {
    cache->length += n;
}

static gqa_status put(struct cache *cache, void *to, const void *from, size_t bytes,
                      struct gqa_error *err) {
    return cache->space.kind->put(&cache->space, to, from, bytes, err);
}

/* Write x [n][kv_heads][head_dim] behind the tokens that `pool` [kv_heads][capacity][head_dim]
 * holds, rounded to the grid and then kept as kv_type. */
static gqa_status append(struct cache *cache, char *pool, int n, const float *x,
                         struct gqa_error *err) {
    const struct gqa_problem *p = &cache->problem;
    const int dim = p->head_dim;
    const size_t element = gqa_type_bytes(p->kv_type);
    for (int head = 0; head < p->kv_heads; head++) {
        for (int i = 0; i < n * dim; i++) {
            const float exact = x[(i / dim * p->kv_heads + head) * dim + i % dim];
            uint32_t rounded;
            num_store(cache->grid, &rounded, 0, exact);
            num_store(p->kv_type, cache->staging, i, num_load(cache->grid, &rounded, 0));
        }
        const int64_t first = (head * p->kv_len + cache->length) * dim;
        const gqa_status status = put(cache, pool + first * (int64_t)element, cache->staging,
                                      (size_t)n * dim * element, err);
        if (status)
            return status;
    }
    return GQA_OK;
}

gqa_status cache_attend(struct cache *cache, int layer, int n, const float *q, const float *k,
                        const float *v, float *o, struct gqa_error *err) {
    const struct gqa_problem *p = &cache->problem;
    const size_t q_count = (size_t)n * p->q_heads * p->head_dim;
    const int32_t length = cache->length + n;
    if (n < 1 || n > CACHE_MAX_TOKENS || length > p->kv_len)
        return refuse(err, GQA_ERR_SHAPE, "%d tokens after %d do not fit a cache of %lld", n,
                      cache->length, (long long)p->kv_len);

    for (size_t i = 0; i < q_count; i++)
        num_store(p->q_type, cache->staging, (int64_t)i, q[i]);
    gqa_status status = plan_for(cache, n, err);
    if (status ||
        (status = put(cache, cache->q, cache->staging, q_count * gqa_type_bytes(p->q_type), err)) ||
        (status = put(cache, cache->kv_lens, &length, sizeof length, err)) ||
        (status = append(cache, cache->k[layer], n, k, err)) ||
        (status = append(cache, cache->v[layer], n, v, err)))
        return status;

    cache->tensors.k = cache->k[layer];
    cache->tensors.v = cache->v[layer];
    const double start = seconds();
    status = gqa_decode(cache->plans[n], &cache->tensors, cache->workspace, cache->workspace_bytes,
                        cache->space.stream, err);
    if (!status)
        status = cache->space.kind->get(&cache->space, o, cache->o, q_count * sizeof *o, err);
    cache->seconds += seconds() - start;
    return status;
}
