/* SPDX-License-Identifier: Apache-2.0
 * Checks and shape arithmetic for one decode problem. Everything below the API works on a
 * *normal* problem, the one that problem_normalise returns: defaults resolved, all ranges checked.
 */
#ifndef GQA_PROBLEM_H
#define GQA_PROBLEM_H

#include "gqa.h"

#include <stdbool.h>

enum {
    GQA_MAX_HEAD_DIM = 512,
    GQA_MAX_Q_TOKENS = 16,
    GQA_MAX_SPLITS = 4096,
    GQA_MAX_SLICES = 1024,
    GQA_WORKSPACE_ALIGN = 256,
    GQA_TRACE_ALIGN = 2048,
};

/* Check `p` and write its normal form to *normal: head_dim_v, scale, kv_batch, table_stride,
 * kv_len_expected filled in; strides of dimensions of size 1 set to 0; q_total = batch * q_tokens
 * unless ragged; kernel = NULL. Fields that the caller's `size` does not reach keep their defaults.
 * Fails with a sentence and leaves *normal alone. */
gqa_status problem_normalise(const struct gqa_problem *p, struct gqa_problem *normal,
                             struct gqa_error *err);

/* Check the pointers of one step against a normal problem: presence, alignment of each to its own
 * type (kernels that want more check themselves), no output on top of an input or of another. */
gqa_status tensors_check(const struct gqa_problem *p, const struct gqa_tensors *t,
                         const void *workspace, size_t workspace_bytes, size_t workspace_needed,
                         struct gqa_error *err);

/* gqa_merge's arguments. */
gqa_status merge_check(const struct gqa_shards *m, struct gqa_error *err);

/* Rows of Q, O and LSE: batch * q_tokens, or q_total if ragged. */
static inline int64_t problem_rows(const struct gqa_problem *p) {
    return p->q_ragged ? p->q_total : p->batch * p->q_tokens;
}

static inline int problem_group(const struct gqa_problem *p) {
    return p->q_heads / p->kv_heads;
}

/* Keys that query token `i` of `n` sees in a sequence of `len` tokens: [*begin, *end), empty if
 * begin >= end. The one place where causal order and window are turned into numbers. */
static inline void problem_visible(const struct gqa_problem *p, int64_t len, int i, int n,
                                   int64_t *begin, int64_t *end) {
    const int64_t position = len - n + i;
    *end = p->causal && position + 1 < len ? position + 1 : len;
    *begin = p->window_left >= 0 && position > p->window_left ? position - p->window_left : 0;
    if (*end < 0)
        *end = 0;
}

#endif
