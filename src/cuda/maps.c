/* SPDX-License-Identifier: Apache-2.0
 * Tensor maps of K and V; see maps.h. */
#include "maps.h"
#include "shape.h"

#include <stdint.h>

enum { NO_INTERLEAVE = 0, FILL_ZEROS = 0 };

static int tensor_type(enum gqa_type type) {
    return type == GQA_BF16 ? CU_TENSOR_BF16 : type == GQA_F16 ? CU_TENSOR_F16 : CU_TENSOR_BYTES;
}

int32_t page_tokens(const struct gqa_problem *p) {
    const int64_t enough = (p->kv_len > 0 ? p->kv_len + 255 : 256) / 256 * 256;
    return enough < p->page_size ? (int32_t)enough : p->page_size;
}

/* The kernel's box_tokens. */
static uint32_t box_tokens(const struct gqa_problem *p, int most) {
    int box = most;
    while (p->paging && page_tokens(p) % box)
        box >>= 1;
    return (uint32_t)box;
}

static uint64_t at_least_one(int64_t n) {
    return n > 0 ? (uint64_t)n : 1;
}

struct map_shape map_shape_of(const struct gqa_problem *p, const struct kernel_row *row,
                              const void *address, int is_v) {
    const int bytes = (int)gqa_type_bytes(p->kv_type), d = row->head_dim;
    const int span = GQA_SM100_SPAN(bytes, d);
    const struct gqa_strides *s = is_v ? &p->v : &p->k;
    /* of a page larger than the cache only what may be in use */
    const int64_t tokens = !p->paging || p->kv_len < p->page_size ? p->kv_len : p->page_size;
    const int64_t entries = !p->paging ? p->kv_batch : p->num_pages ? p->num_pages : INT32_MAX;
    const struct map_shape x = {
        .type = tensor_type(p->kv_type),
        .swizzle = span == 128 ? CU_SWIZZLE_128 : CU_SWIZZLE_64,
        .address = address,
        .sizes = {(uint64_t)(is_v ? p->head_dim_v : p->head_dim), at_least_one(tokens),
                  (uint64_t)p->kv_heads, at_least_one(entries)},
        .strides = {(uint64_t)(s->token * bytes), (uint64_t)(s->head * bytes),
                    (uint64_t)(s->batch * bytes)},
        .box = {(uint32_t)(span / bytes),
                box_tokens(p, is_v ? GQA_SM100_V_TOKENS(bytes, d) : GQA_SM100_K_TOKENS), 1, 1},
    };
    return x;
}

static gqa_status encode(const struct driver *driver, const struct map_shape *x,
                         struct gqa_tensor_map *map, const char *what, struct gqa_error *err) {
    static const uint32_t steps[4] = {1, 1, 1, 1};
    return driver_check(driver,
                        driver->tensor_map(map, x->type, 4, x->address, x->sizes, x->strides,
                                           x->box, steps, NO_INTERLEAVE, x->swizzle, CU_PROMOTE_256,
                                           FILL_ZEROS),
                        what, err);
}

gqa_status maps_fill(const struct driver *driver, const struct gqa_problem *p,
                     const struct kernel_row *row, struct gqa_args *a, struct gqa_error *err) {
    const struct map_shape k = map_shape_of(p, row, a->k, 0), v = map_shape_of(p, row, a->v, 1);
    const gqa_status status = encode(driver, &k, &a->k_map, "the tensor map of K", err);
    return status ? status : encode(driver, &v, &a->v_map, "the tensor map of V", err);
}
