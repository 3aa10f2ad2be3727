/* attention.h: one decode problem, its data in bf16 and its answer in double.
 *
 * q [batch][q_heads][dim]; k, v [batch][keys][kv_heads][dim], keys the longest; row b uses its
 * first lens[b] keys.  Query head h reads key head h / (q_heads / kv_heads).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_ATTENTION_H
#define PEERS_ATTENTION_H

#include <stdint.h>

enum { MAX_BATCH = 64 };

struct problem {
    int batch, q_heads, kv_heads, dim, keys, lens[MAX_BATCH];
    float scale;
    uint16_t *q, *k, *v;
    double *o, *lse; /* [batch][q_heads][dim], natural log [batch][q_heads] */
};

void problem_fill(struct problem *p, uint64_t seed);
void problem_free(struct problem *p);
/* A permutation of total pages. */
int page_of(int i, int total);
/* Largest absolute difference; a NaN counts as infinite. */
double error_bf16(const uint16_t *got, const double *want, long n);
double error_f32(const float *got, const double *want, long n, double want_scale);

#endif
