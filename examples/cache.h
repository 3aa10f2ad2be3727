/* SPDX-License-Identifier: Apache-2.0
 * The attention of one sequence: a KV cache for every layer, and the one place that calls gqa.
 * Queries, keys, values and results cross from the program's memory to the device's and back
 * through struct space (tools/space.h), so a GPU differs from a CPU in nothing but its name. */
#ifndef CACHE_H
#define CACHE_H

#include "gqa.h"
#include "space.h"

#include <stddef.h>

enum { CACHE_MAX_TOKENS = 16 };

struct cache_options {
    const char *device; /* as gqa_device_open takes it */
    const char *kernel; /* NULL, or the kernel family to use */
    int threads;        /* CPU; 0: one per core */
    enum gqa_type type; /* of the K and V kept: f32, bf16 or f16 */
    enum gqa_type grid; /* keys and values are first rounded to this type: `type`, or a narrower
                           one that `type` holds exactly, which tells the error of rounding the
                           cache from the error of attention over it */
    enum gqa_precision precision;
};

struct cache {
    enum gqa_type grid;
    int layers, length; /* tokens that every layer holds */
    double seconds;     /* spent in gqa_decode and in waiting for its result */
    struct space space; /* the device's memory */
    gqa_device *device;
    struct gqa_problem problem;
    gqa_plan *plans[CACHE_MAX_TOKENS + 1]; /* by q_tokens; made when first needed */
    struct gqa_tensors tensors;            /* all but k and v */
    char **k, **v;    /* [layers]: device memory, [kv_heads][capacity][head_dim] */
    void *q, *o;      /* device memory, [CACHE_MAX_TOKENS][q_heads][head_dim] */
    int32_t *kv_lens; /* device memory, [1] */
    void *workspace;  /* device memory, enough for every plan */
    size_t workspace_bytes;
    void *staging;              /* host memory, one upload */
    size_t q_bytes, pool_bytes; /* of q or o, and of k[i] or v[i] */
};

struct cache_shape {
    int layers, q_heads, kv_heads, head_dim, capacity;
};

/* Open the device and allocate an empty cache on it.
 * Owner:  *cache is the caller's, for cache_close, if GQA_OK.
 * Fails:  as gqa_device_open and gqa_plan_create; GQA_ERR_ARGUMENT, GQA_ERR_MEMORY. */
gqa_status cache_open(const struct cache_options *options, const struct cache_shape *shape,
                      struct cache *cache, struct gqa_error *err);

void cache_close(struct cache *cache);

/* Forget the sequence; the memory stays. */
void cache_reset(struct cache *cache);

/* One layer of one step: append the keys and values of n tokens (after those that cache->length
 * counts) and attend to everything that the layer then holds.
 * Shapes: q, o [n][q_heads][head_dim]; k, v [n][kv_heads][head_dim]; all float32, host memory. */
gqa_status cache_attend(struct cache *cache, int layer, int n, const float *q, const float *k,
                        const float *v, float *o, struct gqa_error *err);

/* Fill *err (which may be NULL) with a formatted sentence; returns the status. */
gqa_status refuse(struct gqa_error *err, gqa_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* All layers have attended: the n tokens now belong to the sequence. */
void cache_advance(struct cache *cache, int n);

#endif
