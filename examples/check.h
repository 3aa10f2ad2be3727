/* SPDX-License-Identifier: Apache-2.0
 * golden.json, what the model is known to say, and the comparisons against it. */
#ifndef CHECK_H
#define CHECK_H

#include "model.h"

struct golden {
    int prompt, count; /* tokens of the prompt, and of prompt and answer together */
    int *tokens;       /* [count] */
    float *last;       /* [vocab]: the logits after the last token */
    int vocab;
    float margin; /* the smallest gap between the best and the second-best logit along the way */
};

/* Owner: *golden is the caller's, for golden_free, if GQA_OK. */
gqa_status golden_load(const char *folder, struct golden *golden, struct gqa_error *err);

void golden_free(struct golden *golden);

/* The logits after each of `count` tokens, `step` of them per call, from an empty cache.
 * Shapes: logits [count][vocab]. */
gqa_status model_score(struct model *model, struct cache *cache, const int *tokens, int count,
                       int step, float *logits, struct gqa_error *err);

/* The index of the largest of n logits. */
int argmax(const float *logits, int n);

/* The largest |a[i] - b[i]|; infinite if any of them is NaN. */
float max_difference(const float *a, const float *b, size_t n);

/* What keeping the cache as `type` may do to the logits, teacher-forced: no more than 16 u at any
 * position and 2 u RMS, where u is the type's unit roundoff (bf16 2^-8, f16 2^-11). Returns 16 u;
 * 1e-4 for f32, where the order of summation is all that differs. Derivation in check.c. */
float logit_bound(enum gqa_type type);

/* Generate from the prompt, greedily, and compare all bytes and the last logits (bound 1e-3, for
 * an f32 cache). Prints one line; returns 1 if it agrees, 0 if not, with *err set if it failed. */
int check_greedy(struct model *model, struct cache *cache, const struct golden *golden, int step,
                 struct gqa_error *err);

/* A comparison with all of golden's tokens fed, `step` per call: at every position the logits
 * differ from `expected` [count][vocab] by at most `bound`, and by at most `bound_rms` RMS. */
struct forced {
    const char *what;
    int step;
    const float *expected;
    float bound, bound_rms;
};

/* Prints one line; returns as check_greedy. */
int check_forced(struct model *model, struct cache *cache, const struct golden *golden,
                 const struct forced *forced, struct gqa_error *err);

#endif
