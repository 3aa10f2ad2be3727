/* SPDX-License-Identifier: Apache-2.0
 * Published rules for cutting the KV range on Blackwell, by name, next to our own (plan.c predicts
 * times instead). Pure arithmetic; `units` is batch x KV heads x row tiles. */
#ifndef GQA_SPLIT_SM100_H
#define GQA_SPLIT_SM100_H

#include <stdbool.h>
#include <stdint.h>

struct split_choice {
    int splits;
    bool atomic; /* in a cluster, adding into the output; else a second kernel merges */
};

struct split_shape {
    int sms, head_dim;
    int64_t units, kv_len;
};

/* A rule takes a shape and answers for it; a choice of one split is merged by nobody. */
struct split_rule {
    const char *name, *source;
    struct split_choice (*choose)(const struct split_shape *x);
};

/* Ends with a NULL name. "simple" and "opt": NVIDIA CUTLASS's gqa_decode examples; "blog":
 * "Building a Faster GQA Decode Kernel for Blackwell SM100". */
extern const struct split_rule split_rules[];

/* NULL if there is none of this name. */
const struct split_rule *split_rule_find(const char *name);

#endif
