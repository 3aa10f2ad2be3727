/* SPDX-License-Identifier: Apache-2.0
 * See model.h. Rates are those of emu/timing_part.c for sm_100a, with their sources there; the
 * counts per tile and the fixed times are what the emulator's timing model gives for our kernels
 * (docs/traces.md). */
#include "model.h"

#include <string.h>

const char *const model_names[4] = {"DRAM", "link of an SM", "tensor pipe", "MMA warp's issue"};

enum {
    SMS = 148,
    TILE = 128,          /* tokens */
    ISSUE_CYCLES = 280,  /* of the MMA warp per tile: polls, hand-over ... */
    ISSUE_PER_64 = 200,  /* ... and per 64 of head_dim: issue, commits */
    K_BYTES = 32,        /* of a row, per MMA */
    OPERAND_BYTES = 128, /* that an MMA reads from shared memory per cycle */
    LINK_BYTES = 64      /* from L2 to an SM per cycle */
};

static const double cycles_per_us = 1965, dram_bytes_per_us = 7.26e6;

/* What is not streaming: launch, first bytes, merging. */
static double fixed_us(enum gqa_reduction reduction) {
    switch (reduction) {
    case GQA_REDUCE_KERNEL:
        return 4.2;
    case GQA_REDUCE_NONE:
        return 3.2;
    default:
        return 3.6;
    }
}

static double bytes_of(enum gqa_type type) {
    return type == GQA_E4M3 || type == GQA_E5M2 ? 1 : 2;
}

static double ceil_div(double a, double b) {
    const double n = (double)(long long)(a / b);
    return n * b < a ? n + 1 : n;
}

/* Cycles of the tensor pipe per tile: A is read from shared memory, 128 rows at a time. */
static double tensor_cycles(const struct gqa_problem *p, double rows) {
    const double k = bytes_of(p->kv_type), step = K_BYTES / k;
    const double n = k > 1 ? rows : 2 * rows; /* FP8: each weight is a sum of two */
    const double one = (128 + n) * K_BYTES / OPERAND_BYTES + 0.6;
    return one * (p->head_dim / step + TILE / step * ceil_div(p->head_dim, 128));
}

bool model_step(const char *device, const struct gqa_problem *p, const struct gqa_plan_info *info,
                struct model *m) {
    if (!strstr(device, "sm_10") || !strstr(info->kernel, "sm100") || info->work_items < 1)
        return false;
    const double token = 2.0 * p->head_dim * bytes_of(p->kv_type);
    const double bytes = (double)p->batch * (double)p->kv_heads * (double)p->kv_len * token;
    const double group = (double)p->q_heads / (double)p->kv_heads * (double)p->q_tokens;
    const double rows = group <= 8 ? 8 : group <= 16 ? 16 : 32;
    const double units = (double)p->batch * (double)p->kv_heads * ceil_div(group, 32);
    const double ctas = (double)info->work_items, waves = ceil_div(ctas, SMS);
    /* of one SM: equal splits in waves, or its share of everything */
    const double equal = (double)info->split_tokens * waves,
                 share = units * (double)p->kv_len / ctas;
    const double tokens = equal > share ? equal : share;
    const double tiles = ceil_div(tokens, TILE);
    m->shares[0] = m->floor_us = bytes / dram_bytes_per_us;
    m->shares[1] = tokens * token / LINK_BYTES / cycles_per_us;
    m->shares[2] = tiles * tensor_cycles(p, rows) / cycles_per_us;
    m->shares[3] = tiles * (ISSUE_CYCLES + ISSUE_PER_64 * p->head_dim / 64.0) / cycles_per_us;
    int most = 0;
    for (int i = 1; i < 4; i++)
        if (m->shares[i] > m->shares[most])
            most = i;
    const double fixed = fixed_us(info->reduction);
    m->us = m->shares[most] + fixed;
    m->bound = fixed > m->shares[most] ? "launch, first bytes and merge" : model_names[most];
    return true;
}
