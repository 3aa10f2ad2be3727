/* SPDX-License-Identifier: Apache-2.0
 * Is an output right? NaN and Inf must stand where the reference has them; then every element,
 * every row and the whole must be as close as float32 arithmetic and the types allow. */
#ifndef COMPARE_H
#define COMPARE_H

#include "ref.h"

/* How wrong one row of O (one query token, one head) may be. `compare_limits` derives them. */
struct compare_limits {
    double element; /* of |o| + 6 * spread: any one element */
    double dust;    /* of dust, likewise: 1 where weights may have steps of a fixed size */
    double row;     /* of rms(o) + rms(spread): RMS over the row */
    double all;     /* of hypot(o, spread): RMS over all rows */
    double out;     /* of |o|: rounding to the output type */
    double least;   /* half a step of the output type near 0 */
    double most;    /* the output type's largest value; beyond it: infinity */
    double lse;     /* absolute */
};

/* What was found. `message` is empty if all is right, else about the first wrong element. */
struct compare_result {
    bool ok;
    char message[320];
    double max_error; /* of O, absolute */
    double rms_error; /* of O, relative to the RMS of the reference */
    double lse_error; /* absolute */
    double used;      /* greatest share of an element's limit, 1 is the limit */
};

/* Limits for element `at` = row * q_heads + head of the reference. `weights` is the type that
 * softmax weights may be rounded to: GQA_F32 for not at all; `dust`: steps of a fixed size too. */
struct compare_limits compare_limits(const struct ref *ref, int64_t at, int head_dim,
                                     double softcap, enum gqa_type weights, bool dust,
                                     enum gqa_type out);

/* Compare the o and lse of t (in this process' memory) with the reference for p. */
void compare_decode(const struct gqa_problem *p, const struct gqa_tensors *t, const struct ref *ref,
                    struct compare_result *result);

/* The same for a merge. m->lse may be NULL. */
void compare_merge(const struct gqa_shards *m, const struct ref *ref,
                   struct compare_result *result);

#endif
