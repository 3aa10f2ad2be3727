/* SPDX-License-Identifier: Apache-2.0
 * A decode step read from a safetensors file: which tensors it may hold, what their shapes say
 * about the problem, and the checks that make the step safe to compute whatever the file says. */
#ifndef STEP_H
#define STEP_H

#include "gqa.h"
#include "space.h"

#include <stdbool.h>
#include <stdint.h>

enum { STEP_INPUTS = 13 };

struct step {
    struct gqa_problem problem;
    struct gqa_tensors tensors; /* inputs; o and lse are the caller's to add */
    struct space *space;        /* where the tensors are */
    void *data[STEP_INPUTS];
    size_t bytes[STEP_INPUTS];
    int q_dims; /* 3 where Q has no token dimension, or is ragged; o has as many */
};

/* For the help: the tensors and their shapes. */
#define STEP_TENSORS_HELP                                                                          \
    "  q             [batch][q_tokens][q_heads][head_dim]; [batch][q_heads][head_dim] for one\n"   \
    "                token; [q_total][q_heads][head_dim] with cu_seqlens_q\n"                      \
    "  k, v          [kv_batch][kv_heads][kv_len][head_dim | head_dim_v] (--layout hnd), or\n"     \
    "                [kv_batch][kv_len][kv_heads][...] (nhd); with pages the first is "            \
    "num_pages,\n"                                                                                 \
    "                and page_size takes the place of kv_len\n"                                    \
    "  kv_lens       [batch], tokens of each sequence (all have kv_len)\n"                         \
    "  batch_index   [batch], the cache entry or table row of each sequence (0, 1, 2 ...)\n"       \
    "  cu_seqlens_q  [batch + 1], where each sequence's queries begin\n"                           \
    "  block_table   [kv_batch][pages], page numbers\n"                                            \
    "  page_indptr [kv_batch + 1], page_indices [n], last_page_len [batch]: the CSR form\n"        \
    "  k_scale, v_scale   F32 [1], [kv_heads] or [batch][kv_heads]\n"                              \
    "  sinks         F32 [q_heads]\n"                                                              \
    "Whole numbers are I32 or I64. q is F32, BF16 or F16; k and v also F8_E4M3 or F8_E5M2."

/* Read the file's tensors into *space and complete `options` (what the file does not say) to the
 * problem that they describe.
 * Owner:  *step is the caller's, for step_free; the space must outlive it.
 * Fails:  GQA_ERR_ARGUMENT, _TYPE or _SHAPE with a sentence: what st_open refuses; a tensor that is
 *         missing, unknown, of a wrong type or shape; a length, offset, index or page out of
 *         range; more than `most_bytes` in all. GQA_ERR_MEMORY. */
gqa_status step_read(const char *path, const struct gqa_problem *options, enum gqa_layout layout,
                     uint64_t most_bytes, struct space *space, struct step *step,
                     struct gqa_error *err);

void step_free(struct step *step);

/* Rows of O and LSE: batch * q_tokens, or q_total where ragged. */
static inline int64_t step_rows(const struct gqa_problem *p) {
    return p->q_ragged ? p->q_total : p->batch * p->q_tokens;
}

#endif
