/* SPDX-License-Identifier: Apache-2.0
 * Decode attention in float64, written for obviousness: the answer that every backend is held
 * against. It follows gqa.h from the text, shares no code with planner or kernels, and never
 * touches a slot, page or table entry that the header calls unused. Slow on purpose. */
#ifndef REF_H
#define REF_H

#include "gqa.h"

#include <stdbool.h>

/* What two e4m3 numbers leave out of a weight: this share of the row's largest, at most. */
#define REF_DUST 0x1p-21

/* What should come out, packed, and what is needed to say how wrong float32 may be. */
struct ref {
    int64_t rows; /* of Q, O and LSE: batch * q_tokens, or q_total */
    int q_heads, head_dim_v;
    double *o;      /* [rows][q_heads][head_dim_v] */
    double *spread; /* [rows][q_heads][head_dim_v] sqrt(sum_j (w[j] v[j])^2), sum of w and sink 1 */
    double *dust;   /* the same, sum_j of |v[j]| times w[j] or the largest w of the row times
                     * REF_DUST, the smaller of the two; a merge has none */
    double *lse;    /* [rows][q_heads] in the base that was asked for */
    double *weight; /* [rows][q_heads] sqrt(sum_j w[j]^2) */
    double *score;  /* [rows][q_heads] max_j scale * sum_i |q[i] k[j][i]|, before any softcap */
    int64_t *keys;  /* [rows][q_heads] how many keys the row sees */
    int32_t *owner; /* [rows][2] sequence and query token; -1: a row of none, to stay untouched */
};

/* Compute all of it from tensors in this process' memory. The problem may be normal or not, but
 * must be valid. Returns false, with *ref empty, if there is no memory. */
bool ref_decode(const struct gqa_problem *p, const struct gqa_tensors *t, struct ref *ref);

/* The merge of gqa_merge, likewise. spread, weight and score tell how far the parts may carry. */
bool ref_merge(const struct gqa_shards *m, struct ref *ref);

void ref_free(struct ref *ref);

/* The shape rules of gqa.h that more than one reader of a problem needs. */

/* Length of sequence b. */
int64_t ref_kv_len(const struct gqa_problem *p, const struct gqa_tensors *t, int64_t b);

/* Query tokens of sequence b; *first is the row of the first one. */
int ref_q_len(const struct gqa_problem *p, const struct gqa_tensors *t, int64_t b, int64_t *first);

/* Keys that query token i of n sees in a sequence of `len` tokens: begin <= j < end. */
void ref_visible(const struct gqa_problem *p, int64_t len, int i, int n, int64_t *begin,
                 int64_t *end);

/* Element offset in K (or V, with its strides) of KV head `head` of token j of sequence b. */
int64_t ref_cache_offset(const struct gqa_problem *p, const struct gqa_tensors *t,
                         const struct gqa_strides *s, int64_t b, int64_t j, int head);

/* Element offset of row `row`, head `head` of Q, O or LSE with strides s. */
int64_t ref_row_offset(const struct gqa_problem *p, const struct gqa_strides *s, int64_t row,
                       int head);

#endif
