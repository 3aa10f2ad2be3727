/* attention.c: see attention.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static double uniform(void) { /* splitmix64, (-1, 1) */
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (double)(int64_t)(z ^ (z >> 31)) * 0x1p-63;
}

static float from_bf16(uint16_t c) {
    const uint32_t u = (uint32_t)c << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint16_t to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint16_t *tensor(long n) {
    uint16_t *t = malloc((size_t)n * sizeof *t);
    for (long i = 0; t && i < n; i++) /* about normal: a sum of three */
        t[i] = to_bf16((float)(uniform() + uniform() + uniform()));
    if (!t)
        abort();
    return t;
}

static void attend(const struct problem *p, int b, int h) {
    const int kh = h / (p->q_heads / p->kv_heads);
    const uint16_t *q = p->q + ((long)b * p->q_heads + h) * p->dim;
    const long row = (long)p->kv_heads * p->dim,
               at = ((long)b * p->keys * p->kv_heads + kh) * p->dim;
    double *o = p->o + ((long)b * p->q_heads + h) * p->dim,
           *score = malloc(sizeof(double) * (size_t)p->keys);
    double most = -INFINITY, sum = 0;
    for (int t = 0; t < p->lens[b]; t++) {
        score[t] = 0;
        for (int d = 0; d < p->dim; d++)
            score[t] += (double)from_bf16(q[d]) * (double)from_bf16(p->k[at + t * row + d]);
        score[t] *= (double)p->scale;
        most = score[t] > most ? score[t] : most;
    }
    for (int d = 0; d < p->dim; d++)
        o[d] = 0;
    for (int t = 0; t < p->lens[b]; t++) {
        const double w = exp(score[t] - most);
        sum += w;
        for (int d = 0; d < p->dim; d++)
            o[d] += w * (double)from_bf16(p->v[at + t * row + d]);
    }
    for (int d = 0; d < p->dim; d++)
        o[d] /= sum;
    p->lse[b * p->q_heads + h] = log(sum) + most;
    free(score);
}

void problem_fill(struct problem *p, uint64_t seed) {
    const long nq = (long)p->batch * p->q_heads * p->dim,
               nk = (long)p->batch * p->keys * p->kv_heads * p->dim;
    state = seed;
    p->scale = (float)(1 / sqrt((double)p->dim));
    p->q = tensor(nq);
    p->k = tensor(nk);
    p->v = tensor(nk);
    p->o = malloc(sizeof(double) * (size_t)nq);
    p->lse = malloc(sizeof(double) * (size_t)(p->batch * p->q_heads));
    for (int b = 0; b < p->batch; b++)
        for (int h = 0; h < p->q_heads; h++)
            attend(p, b, h);
}

void problem_free(struct problem *p) {
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->o);
    free(p->lse);
}

int page_of(int i, int total) {
    static const int primes[] = {7, 11, 13, 17, 19, 23};
    int k = 0; /* one that does not divide total makes i * prime + 3 a permutation */
    while (total % primes[k] == 0)
        k++;
    return (int)(((long)i * primes[k] + 3) % total);
}

static void worse(double *most, double got, double want) {
    const double e = fabs(got - want);
    if (!(e <= *most)) /* a NaN too */
        *most = e == e ? e : INFINITY;
}

double error_bf16(const uint16_t *got, const double *want, long n) {
    double e = 0;
    for (long i = 0; i < n; i++)
        worse(&e, (double)from_bf16(got[i]), want[i]);
    return e;
}

double error_f32(const float *got, const double *want, long n, double want_scale) {
    double e = 0;
    for (long i = 0; i < n; i++)
        worse(&e, (double)got[i], want[i] * want_scale);
    return e;
}
