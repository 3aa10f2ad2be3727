/* fa4.c: FlashAttention-4's SM100 forward as a decode step (one query token, heads packed): split
 * with its combine, not split, and with pages of 16 keys.
 *
 * Parameters in the order of its kernels' arguments; a tensor argument is a pointer, its run-time
 * sizes (int32), padding to 8, its run-time strides (int64 elements); one behind a tensor map is
 * its sizes only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct buffers {
    uint64_t q, k, v, o, lse, o_part, lse_part, used, table;
};

static int next; /* parameter to set */

static void put(struct kernel *k, const void *v, size_t n) {
    gpu_param(k, next++, v, n);
}
static void word(struct kernel *k, uint32_t v) {
    gpu_param_u32(k, next++, v);
}

static bool is_pair(const struct problem *x) {
    return x->dim == 256;
}

static void zeros(struct kernel *k, const struct problem *x) {
    const uint8_t none[64] = {0};
    put(k, none, is_pair(x) ? 64 : 32);
}

static void sizes(struct kernel *k, int a, int b, int c, int d) {
    put(k, (const int32_t[]){a, b, c, d}, 16);
}

/* Pointer, n sizes, m strides. */
static void tensor(struct kernel *k, uint64_t p, int n, const int32_t *size, int m,
                   const int64_t *stride) {
    uint8_t b[128];
    const size_t at = 8 + ((size_t)n * 4 + 7) / 8 * 8;
    memset(b, 0xa5, sizeof b);
    memcpy(b, &p, 8);
    memcpy(b + 8, size, (size_t)n * 4);
    memcpy(b + at, stride, (size_t)m * 8);
    put(k, b, at + (size_t)m * 8);
}

/* A divisor by multiplication: 12 bytes, then the divisor again. */
static void divisor(struct kernel *k, uint32_t d) {
    uint32_t l = 0;
    while (1ull << l < d)
        l++;
    struct {
        uint32_t d, multiplier;
        uint8_t shift1, shift2, unused[2];
    } v = {d,
           (uint32_t)((1ull << 32) * ((1ull << l) - d) / d + 1),
           l < 1 ? (uint8_t)l : 1,
           (uint8_t)(l ? l - 1 : 0),
           {0xa5, 0xa5}};
    put(k, &v, sizeof v);
    word(k, d);
}

static void map(struct kernel *k, uint64_t p, int rank, const uint64_t *dim, const uint64_t *stride,
                const uint32_t *box) {
    struct gpu_map m = {.rank = rank, .address = p};
    memcpy(m.dim, dim, sizeof *dim * (size_t)rank);
    memcpy(m.stride, stride, sizeof *stride * (size_t)rank);
    memcpy(m.box, box, sizeof *box * (size_t)rank);
    gpu_param_map(k, next++, &m);
}

/* Q and O: d, group, q tokens, kv heads, batch. */
static void map_q(struct kernel *k, const struct problem *x, uint64_t p) {
    const uint64_t d = (uint64_t)x->dim, g = (uint64_t)(x->q_heads / x->kv_heads),
                   row = d * (uint64_t)x->q_heads;
    const uint64_t dim[5] = {d, g, 1, (uint64_t)x->kv_heads, (uint64_t)x->batch},
                   stride[5] = {1, d, row, d * g, row};
    const uint32_t box[5] = {64, 8, 16, 1, 1};
    map(k, p, 5, dim, stride, box);
}

/* Of a pair each CTA loads half of the 128 keys of K, and half of d of V. */
static void map_kv(struct kernel *k, const struct problem *x, uint64_t p, bool v) {
    const uint64_t d = (uint64_t)x->dim, h = (uint64_t)x->kv_heads, n = (uint64_t)x->keys;
    const uint64_t dim[4] = {d, n, h, (uint64_t)x->batch}, stride[4] = {1, d * h, d, d * h * n};
    const uint32_t box[4] = {64, is_pair(x) && !v ? 64 : 128, 1, 1};
    map(k, p, 4, dim, stride, box);
}

/* K or V as pages: (rows of a page, d, kv heads, pages). */
static void pages(struct kernel *k, const struct problem *x, uint64_t p, int page, bool v) {
    const int n = x->batch * x->keys / page;
    const int64_t d = x->dim, h = x->kv_heads;
    const int32_t ks[4] = {page, x->dim, x->kv_heads, n}, vs[4] = {x->dim, page, x->kv_heads, n};
    tensor(k, p, 4, v ? vs : ks, 3, (const int64_t[]){d * h, d, d * h * page});
}

static void forward_params(struct kernel *k, const struct problem *x, const struct buffers *b,
                           const struct peer *t, int splits) {
    const int g = x->q_heads / x->kv_heads, d = x->dim;
    const int64_t row = (int64_t)x->q_heads * d, rows = x->q_heads;
    next = 0;
    sizes(k, 1, d, x->kv_heads, x->batch);
    if (t->page) {
        pages(k, x, b->k, t->page, false);
        pages(k, x, b->v, t->page, true);
    } else {
        sizes(k, x->keys, d, x->kv_heads, x->batch);
        sizes(k, d, x->keys, x->kv_heads, x->batch);
    }
    if (splits > 1) {
        tensor(k, b->o_part, 5, (const int32_t[]){1, d, x->kv_heads, x->batch, splits}, 5,
               (const int64_t[]){d, row, (int64_t)d * g, row, row * x->batch});
        tensor(k, b->lse_part, 4, (const int32_t[]){1, x->kv_heads, x->batch, splits}, 4,
               (const int64_t[]){1, g, rows, rows * x->batch});
    } else {
        sizes(k, 1, d, x->kv_heads, x->batch);
        tensor(k, b->lse, 3, (const int32_t[]){1, x->kv_heads, x->batch}, 3,
               (const int64_t[]){1, g, rows});
    }
    if (t->page) {
        tensor(k, b->used, 1, (const int32_t[]){x->batch}, 0, NULL);
        tensor(k, b->table, 2, (const int32_t[]){x->batch, x->keys / t->page}, 1,
               (const int64_t[]){x->keys / t->page});
    }
    map_q(k, x, b->q);
    if (!t->page) {
        map_kv(k, x, b->k, false);
        map_kv(k, x, b->v, true);
    }
    if (splits == 1)
        map_q(k, x, b->o);
    gpu_param_f32(k, next++, x->scale * 1.44269504088896341f);
    zeros(k, x);
    zeros(k, x);
    if (splits > 1) {
        word(k, 1);
        word(k, (uint32_t)x->kv_heads);
        word(k, (uint32_t)x->batch);
        word(k, (uint32_t)splits);
        divisor(k, (uint32_t)splits);
    } else {
        divisor(k, 1);
        divisor(k, (uint32_t)x->kv_heads);
        word(k, (uint32_t)(x->kv_heads * x->batch));
    }
    word(k, (uint32_t)splits);
    divisor(k, (uint32_t)x->q_heads);
}

static void combine_params(struct kernel *k, const struct problem *x, const struct buffers *b,
                           int splits) {
    const int32_t h = x->q_heads, n = x->batch;
    const int64_t d = x->dim, row = d * h;
    const uint32_t tile = x->dim == 64 ? 16 : 8;
    next = 0;
    tensor(k, b->o_part, 4, (const int32_t[]){1, splits, h, n}, 4,
           (const int64_t[]){row, row * n, d, row});
    tensor(k, b->lse_part, 4, (const int32_t[]){1, splits, h, n}, 3,
           (const int64_t[]){(int64_t)h * n, 1, h});
    tensor(k, b->o, 3, (const int32_t[]){1, h, n}, 3, (const int64_t[]){row, d, row});
    tensor(k, b->lse, 3, (const int32_t[]){1, h, n}, 2, (const int64_t[]){1, h});
    divisor(k, 1);
    divisor(k, (uint32_t)h);
    word(k, ((uint32_t)h + tile - 1) / tile);
    word(k, (uint32_t)n);
    divisor(k, 1);
}

static void fill(uint64_t p, size_t bytes) {
    if (gpu_timing) /* zeros do, and a copy would wait for the queue */
        return;
    uint8_t *t = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        t[i] = i % 2 ? 0x7f : 0xff; /* a NaN in either format */
    gpu_write(p, t, bytes);
    free(t);
}

static void write_paged(const struct problem *x, const struct buffers *b, int page) {
    const bool data = x->k != NULL;
    const int total = x->keys / page * x->batch;
    const size_t bytes = (size_t)page * (size_t)x->kv_heads * (size_t)x->dim * 2;
    int32_t *table = malloc(sizeof *table * (size_t)total), used[MAX_BATCH];
    for (int i = 0; i < total; i++) {
        table[i] = page_of(i, total);
        gpu_write(b->k + (size_t)table[i] * bytes,
                  data ? (const char *)x->k + (size_t)i * bytes : NULL, bytes);
        gpu_write(b->v + (size_t)table[i] * bytes,
                  data ? (const char *)x->v + (size_t)i * bytes : NULL, bytes);
    }
    for (int i = 0; i < x->batch; i++)
        used[i] = x->lens[i];
    gpu_write(b->table, table, sizeof *table * (size_t)total);
    gpu_write(b->used, used, sizeof *used * (size_t)x->batch);
    free(table);
}

static struct buffers make_buffers(const struct problem *x, const struct peer *t, int splits) {
    const size_t o = (size_t)(x->batch * x->q_heads * x->dim),
                 rows = (size_t)(x->batch * x->q_heads),
                 kv = (size_t)x->batch * (size_t)x->keys * (size_t)(x->kv_heads * x->dim),
                 s = (size_t)splits;
    const struct buffers b = {
        gpu_alloc(o * 2),        gpu_alloc(kv * 2),        gpu_alloc(kv * 2),
        gpu_alloc(o * 2),        gpu_alloc(rows * 4),      gpu_alloc(o * 4 * s),
        gpu_alloc(rows * 4 * s), gpu_alloc(4 * MAX_BATCH), gpu_alloc(kv)};
    gpu_write(b.q, x->q, o * 2);
    if (t->page) {
        write_paged(x, &b, t->page);
    } else {
        gpu_write(b.k, x->k, kv * 2);
        gpu_write(b.v, x->v, kv * 2);
    }
    fill(b.o, o * 2);
    fill(b.lse, rows * 4);
    fill(b.o_part, o * 4 * s);
    fill(b.lse_part, rows * 4 * s);
    return b;
}

bool fa4_run(const struct peer *t, const char *path, const struct problem *x, int splits) {
    static struct kernel forward, combine;
    const struct buffers b = make_buffers(x, t, splits);
    const long n = (long)x->batch * x->q_heads * x->dim, rows = (long)x->batch * x->q_heads;
    const uint32_t tiles = (uint32_t)(x->kv_heads * x->batch);
    gpu_kernel(&forward, path, "FlashAttentionForwardSm100");
    forward_params(&forward, x, &b, t, splits);
    struct gpu_launch l = {.grid = {1, (uint32_t)(x->kv_heads * splits), (uint32_t)x->batch},
                           .block = 512,
                           .cluster = 1,
                           .smem = t->smem};
    if (splits == 1) {
        l.grid[0] = tiles < 148 ? tiles : 148;
        l.grid[1] = l.grid[2] = 1;
        l.cluster = is_pair(x) ? 2 : 1;
        l.grid[0] *= l.cluster;
    }
    gpu_launch(&forward, &l);
    if (splits > 1) {
        gpu_kernel(&combine, path, "FlashAttentionForwardCombine");
        combine_params(&combine, x, &b, splits);
        gpu_launch(&combine,
                   &(struct gpu_launch){.grid = {x->dim == 64 ? 4 : 8, 1, (uint32_t)x->batch},
                                        .block = 256,
                                        .cluster = 1,
                                        .smem = 17536});
    }
    const int result = gpu_sync();
    uint16_t *o = malloc((size_t)n * 2);
    float *lse = malloc((size_t)rows * 4);
    gpu_read(o, b.o, (size_t)n * 2);
    gpu_read(lse, b.lse, (size_t)rows * 4);
    const bool ok = peer_verdict(t, x, splits, result, o, lse, 1);
    free(o);
    free(lse);
    const uint64_t all[] = {b.q, b.k, b.v, b.o, b.lse, b.o_part, b.lse_part, b.used, b.table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(all[i]);
    return ok;
}
