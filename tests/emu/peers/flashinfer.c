/* flashinfer.c: FlashInfer's SM100 GQA decode (dense and paged; reductions none, kernel, atomic).
 *
 * Parameters in the order of its kernels' arguments; a tensor argument is a pointer, its run-time
 * sizes (int32), padding to 8, its run-time strides (int64 elements).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"
#include <stdlib.h>
#include <string.h>

struct buffers {
    uint64_t q, k, v, o, lse, max, o_part, l_part, m_part, lens, offsets, table;
};

static int next; /* parameter to set */

static void put(struct kernel *k, const void *v, size_t n) {
    gpu_param(k, next++, v, n);
}

static void zeros(struct kernel *k) { /* a tiled MMA: no negation, no lane disabled */
    const uint8_t none[32] = {0};
    put(k, none, sizeof none);
}

static void map(struct kernel *k, bool f32, uint64_t p, int rank, const uint64_t *dim,
                const uint64_t *stride, const uint32_t *box) {
    struct gpu_map m = {.f32 = f32, .rank = rank, .address = p};
    memcpy(m.dim, dim, sizeof *dim * (size_t)rank);
    memcpy(m.stride, stride, sizeof *stride * (size_t)rank);
    memcpy(m.box, box, sizeof *box * (size_t)rank);
    gpu_param_map(k, next++, &m);
}

static void sizes(struct kernel *k, int n, const int32_t *v) {
    put(k, v, sizeof *v * (size_t)n);
}

/* [.., batch, q tokens = 1, heads]: run-time sizes 1, batch (, splits), strides of batch (,
 * splits). */
static void heads_tensor(struct kernel *k, uint64_t p, const struct problem *x, int splits,
                         long row) {
    struct {
        uint64_t p;
        int32_t n[4];
        int64_t stride[2];
    } parts = {p, {1, x->batch, splits, 0}, {row, row * x->batch}};
    struct {
        uint64_t p;
        int32_t n[2];
        int64_t stride;
    } whole = {p, {1, x->batch}, row};
    if (splits)
        put(k, &parts, sizeof parts);
    else
        put(k, &whole, sizeof whole);
}

static void q_param(struct kernel *k, const struct problem *x, const struct buffers *b) {
    const uint64_t d = (uint64_t)x->dim, g = (uint64_t)(x->q_heads / x->kv_heads);
    const uint64_t dim[5] = {d, g, 1, (uint64_t)x->kv_heads, (uint64_t)x->batch};
    const uint64_t stride[5] = {1, d, d * (uint64_t)x->q_heads, d * g, d * (uint64_t)x->q_heads};
    const uint32_t box[5] = {64, (uint32_t)g, 1, 1, 1};
    map(k, false, b->q, 5, dim, stride, box);
    sizes(k, 2, (const int32_t[]){1, x->batch});
}

static void kv_param(struct kernel *k, const struct problem *x, uint64_t p, uint32_t box_keys,
                     int page) {
    const uint64_t d = (uint64_t)x->dim, h = (uint64_t)x->kv_heads,
                   rows = (uint64_t)(page ? page : x->keys);
    const uint64_t outer = page ? (uint64_t)(x->batch * x->keys / page) : (uint64_t)x->batch;
    const uint64_t dim[4] = {d, rows, h, outer}, stride[4] = {1, d * h, d, d * h * rows};
    const uint32_t box[4] = {64, box_keys, 1, 1};
    map(k, false, p, 4, dim, stride, box);
    if (page)
        sizes(k, 1, (const int32_t[]){(int32_t)outer});
    else
        sizes(k, 2, (const int32_t[]){x->keys, x->batch});
}

static void o_param(struct kernel *k, const struct problem *x, uint64_t p, bool f32, int outer) {
    const uint64_t d = (uint64_t)x->dim, g = (uint64_t)(x->q_heads / x->kv_heads),
                   row = d * (uint64_t)x->q_heads;
    const uint64_t dim[5] = {d, g, 1, (uint64_t)x->kv_heads, (uint64_t)outer},
                   stride[5] = {1, d, row, d * g, row};
    const uint32_t box[5] = {f32 ? 32 : 64, (uint32_t)g, 1, 1, 1};
    map(k, f32, p, 5, dim, stride, box);
    sizes(k, 2, (const int32_t[]){1, outer});
}

static void decode_params(struct kernel *k, const struct problem *x, const struct buffers *b,
                          const struct peer *t, int splits) {
    const bool parts = t->reduction == REDUCE_KERNEL;
    next = 0;
    zeros(k);
    zeros(k);
    if (t->page) {
        put(k, &b->lens, 8);
        put(k, &b->offsets, 8);
        put(k, &b->table, 8);
        kv_param(k, x, b->k, (uint32_t)t->page, t->page);
        kv_param(k, x, b->v, (uint32_t)t->page, t->page);
        q_param(k, x, b);
    } else {
        q_param(k, x, b);
        kv_param(k, x, b->k, 128, 0);
        kv_param(k, x, b->v, 64, 0);
    }
    o_param(k, x, parts ? b->o_part : b->o, parts, parts ? x->batch * splits : x->batch);
    heads_tensor(k, b->lse, x, 0, x->q_heads);
    if (parts) {
        heads_tensor(k, b->max, x, 0, x->q_heads);
        heads_tensor(k, b->l_part, x, splits, x->q_heads);
        heads_tensor(k, b->m_part, x, splits, x->q_heads);
    }
    gpu_param_f32(k, next++, x->scale * 1.44269504088896341f);
    gpu_param_f32(k, next++, 1);
}

static void reduction_params(struct kernel *k, const struct problem *x, const struct buffers *b,
                             int splits) {
    next = 0;
    heads_tensor(k, b->o, x, 0, (long)x->q_heads * x->dim);
    heads_tensor(k, b->lse, x, 0, x->q_heads);
    heads_tensor(k, b->max, x, 0, x->q_heads);
    heads_tensor(k, b->o_part, x, splits, (long)x->q_heads * x->dim);
    heads_tensor(k, b->l_part, x, splits, x->q_heads);
    heads_tensor(k, b->m_part, x, splits, x->q_heads);
    gpu_param_f32(k, next++, 1);
}

/* A pool of pages in a scrambled order holds K and V. */
static void write_paged(const struct problem *x, const struct buffers *b, int page) {
    const bool data = x->k != NULL;
    const int per = x->keys / page, total = per * x->batch;
    const size_t bytes = (size_t)page * (size_t)x->kv_heads * (size_t)x->dim * 2;
    int32_t *table = malloc(sizeof *table * (size_t)total), offsets[MAX_BATCH], lens[MAX_BATCH];
    for (int i = 0; i < total; i++)
        table[i] = page_of(i, total);
    for (int i = 0; i < total; i++) {
        gpu_write(b->k + (size_t)table[i] * bytes,
                  data ? (const char *)x->k + (size_t)i * bytes : NULL, bytes);
        gpu_write(b->v + (size_t)table[i] * bytes,
                  data ? (const char *)x->v + (size_t)i * bytes : NULL, bytes);
    }
    for (int i = 0; i < x->batch; i++) {
        offsets[i] = i * per;
        lens[i] = x->lens[i];
    }
    gpu_write(b->table, table, sizeof *table * (size_t)total);
    gpu_write(b->offsets, offsets, sizeof offsets);
    gpu_write(b->lens, lens, sizeof lens);
    free(table);
}

static void fill(uint64_t p, size_t bytes, uint32_t v) {
    if (gpu_timing) /* zeros do, and a copy would wait for the queue */
        return;
    uint32_t *t = malloc(bytes);
    for (size_t i = 0; i < bytes / 4; i++)
        t[i] = v;
    gpu_write(p, t, bytes);
    free(t);
}

static struct buffers make_buffers(const struct problem *x, const struct peer *t, int splits) {
    const size_t o = (size_t)(x->batch * x->q_heads * x->dim),
                 rows = (size_t)(x->batch * x->q_heads),
                 kv = (size_t)x->batch * (size_t)x->keys * (size_t)(x->kv_heads * x->dim),
                 s = (size_t)splits;
    struct buffers b = {gpu_alloc(o * 2),         gpu_alloc(kv * 2),        gpu_alloc(kv * 2),
                        gpu_alloc(o * 2),         gpu_alloc(rows * 4),      gpu_alloc(rows * 4),
                        gpu_alloc(o * 4 * s),     gpu_alloc(rows * 4 * s),  gpu_alloc(rows * 4 * s),
                        gpu_alloc(4 * MAX_BATCH), gpu_alloc(4 * MAX_BATCH), gpu_alloc(kv)};
    gpu_write(b.q, x->q, o * 2);
    if (t->page) {
        write_paged(x, &b, t->page);
    } else {
        gpu_write(b.k, x->k, kv * 2);
        gpu_write(b.v, x->v, kv * 2);
    }
    const uint32_t nan = 0x7fff7fff, minus_inf = 0xff800000;
    fill(b.o, o * 2, t->reduction == REDUCE_ATOMIC ? 0 : nan);
    fill(b.lse, rows * 4, nan);
    fill(b.max, rows * 4, minus_inf);
    fill(b.o_part, o * 4 * s, nan);
    fill(b.l_part, rows * 4 * s, nan);
    fill(b.m_part, rows * 4 * s, nan);
    return b;
}

static void free_buffers(const struct buffers *b) {
    const uint64_t all[] = {b->q,      b->k,      b->v,      b->o,    b->lse,     b->max,
                            b->o_part, b->l_part, b->m_part, b->lens, b->offsets, b->table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(all[i]);
}

bool flashinfer_run(const struct peer *t, const char *path, const struct problem *x, int splits) {
    static struct kernel decode, reduction;
    const struct buffers b = make_buffers(x, t, splits);
    const long n = (long)x->batch * x->q_heads * x->dim, rows = (long)x->batch * x->q_heads;
    gpu_kernel(&decode, path, "decode");
    decode_params(&decode, x, &b, t, splits);
    const uint32_t wide = t->reduction == REDUCE_NONE ? 1 : (uint32_t)splits;
    gpu_launch(&decode,
               &(struct gpu_launch){.grid = {wide, 1, (uint32_t)(x->batch * x->kv_heads)},
                                    .block = t->page ? 384 : 512,
                                    .cluster = t->reduction == REDUCE_ATOMIC ? (uint32_t)splits : 1,
                                    .smem = t->smem,
                                    .pdl = true});
    if (t->reduction == REDUCE_KERNEL) {
        gpu_kernel(&reduction, path, "reduction");
        reduction_params(&reduction, x, &b, splits);
        gpu_launch(&reduction,
                   &(struct gpu_launch){.grid = {1, (uint32_t)x->q_heads, (uint32_t)x->batch},
                                        .block = (uint32_t)x->dim / 2,
                                        .cluster = 1,
                                        .smem = (uint32_t)(splits * 2 + 2) * 4,
                                        .pdl = true});
    }
    const int result = gpu_sync();
    uint16_t *o = malloc((size_t)n * 2);
    float *lse = malloc((size_t)rows * 4);
    gpu_read(o, b.o, (size_t)n * 2);
    gpu_read(lse, b.lse, (size_t)rows * 4);
    const bool ok = peer_verdict(t, x, splits, result, o, lse, 1.44269504088896340736);
    free(o);
    free(lse);
    free_buffers(&b);
    return ok;
}
