/* SPDX-License-Identifier: Apache-2.0
 * Tensor maps of K and V: how the sm100 kernels' bulk copies see a cache. Both are 4-D, innermost
 * first: element, token (of the sequence or of the page), KV head, cache entry or page. A box is
 * one swizzled slab of as many tokens as a stage holds, or fewer where pages are smaller, so that
 * no box straddles a page. */
#ifndef GQA_CUDA_MAPS_H
#define GQA_CUDA_MAPS_H

#include "args.h"
#include "driver.h"
#include "kernels.h"

/* Tokens per page as kernels and maps count them. A page larger than the cache is as good as one
 * that holds it, and its multiples fit 31 bits; one of whole stages, so that boxes stay whole and
 * are the same on both sides (sm100's hung when the kernel counted kv_len tokens, the map all). */
int32_t page_tokens(const struct gqa_problem *p);

/* What is asked of the driver for one map. */
struct map_shape {
    int type, swizzle;
    const void *address;
    uint64_t sizes[4], strides[3]; /* elements; bytes */
    uint32_t box[4];
};

/* K's map (is_v 0) or V's for `row`. Pure. */
struct map_shape map_shape_of(const struct gqa_problem *p, const struct kernel_row *row,
                              const void *address, int is_v);

/* Fill a->k_map and a->v_map. Fails: GQA_ERR_DRIVER with the driver's reason. */
gqa_status maps_fill(const struct driver *driver, const struct gqa_problem *p,
                     const struct kernel_row *row, struct gqa_args *a, struct gqa_error *err);

#endif
