/* SPDX-License-Identifier: Apache-2.0
 * The rules; see split_sm100.h. */
#include "split_sm100.h"

#include <stddef.h>
#include <string.h>

static int64_t at_least(int64_t x, int64_t least) {
    return x > least ? x : least;
}

static int64_t at_most(int64_t x, int64_t most) {
    return x < most ? x : most;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t power_of_2_below(int64_t x) {
    int64_t n = 1;
    while (2 * n <= x)
        n *= 2;
    return n;
}

/* One wave of SMs, at least 512 tokens each; 9 rather than 4 where 32 units meet 148 SMs. */
static struct split_choice choose_simple(const struct split_shape *x) {
    int64_t n = at_least(x->sms / at_least(x->units, 1), 1);
    if (x->sms == 148 && x->units == 32)
        n = 9;
    return (struct split_choice){(int)at_most(n, at_least(ceil_div(x->kv_len, 512), 1)), false};
}

/* One wave, at least 256 tokens each; 1, 2, 4 and 8 splits add atomically. */
static struct split_choice choose_opt(const struct split_shape *x) {
    int64_t n = at_least(x->sms / at_least(x->units, 1), 1);
    if (x->sms == 148 && x->units == 32)
        n = 9;
    n = at_most(n, at_least(ceil_div(x->kv_len, 256), 1));
    return (struct split_choice){(int)n, n == 2 || n == 4 || n == 8};
}

/* Enough CTAs to fill the memory system (64; 128 at head_dim 64, whose CTAs keep half as much in
 * flight), a power of two, at most 32, at least 512 tokens each. Atomic up to four splits, or eight
 * with at most 64 CTAs: more clusters of eight than that do not fit at once. */
static struct split_choice choose_blog(const struct split_shape *x) {
    const int64_t target = x->head_dim <= 64 ? 128 : 64;
    int64_t n = power_of_2_below(at_least(target / at_least(x->units, 1), 1));
    n = at_most(at_most(n, 32), at_least(x->kv_len / 512, 1));
    n = power_of_2_below(n);
    const bool atomic = n > 1 && (n <= 4 || (n == 8 && n * x->units <= 64));
    return (struct split_choice){(int)n, atomic};
}

const struct split_rule split_rules[] = {
    {"simple", "NVIDIA CUTLASS, gqa_decode_simple", choose_simple},
    {"opt", "NVIDIA CUTLASS, gqa_decode_opt", choose_opt},
    {"blog", "Building a Faster GQA Decode Kernel for Blackwell SM100", choose_blog},
    {NULL, NULL, NULL},
};

const struct split_rule *split_rule_find(const char *name) {
    for (const struct split_rule *r = split_rules; r->name; r++)
        if (!strcmp(r->name, name))
            return r;
    return NULL;
}
