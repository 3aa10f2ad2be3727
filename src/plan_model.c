/* SPDX-License-Identifier: Apache-2.0
 * What is measured and fitted of each family of kernels, and the prediction made of it: nothing
 * else of the planner is tuned. */
#include "plan_model.h"
#include "problem.h"

#include "cuda/args.h"
#include "cuda/shape.h"

#include <math.h>

/* clang-format off */
#define SM100                                                                                      \
    .major = 10, .exact = true, .has_cluster = true, .has_pdl = true, .has_early = true,           \
    .launch = 3.0, .tall = 0.63, .sm_rate = 100e3, .narrow = 0.82, .wide = 0.73,                   \
    .memory = 7.2e6, .power = 3.6, .wave = 3.5,                                                    \
    .cluster = 0.24, .combine = 1.1, .per_split = 0.031, .shares = 4.5

const struct family plan_families[] = {
    [KERNEL_sm80] = {
        .name = "sm80", .major = 8, .launch = 5.0, .tall = 0.8, .sm_rate = 40e3, .narrow = 0.84,
        .wide = 0.5, .memory = 3.4e6, .power = 3.6, .wave = 3.5, .combine = 2.2, .per_split = 0.027,
        .shares = 3.9,
    },
    [KERNEL_sm90] = {
        .name = "sm90", .major = 9, .exact = true, .has_cluster = true, .has_grid = true,
        .has_pdl = true, .has_early = true, .launch = 2.39, .tall = 0.73, .sm_rate = 100e3,
        .one_group = 0.6, .packed = 0.756, .narrow = 1.01, .wide = 0.91, .memory = 5.15e6,
        .few = 12.6, .power = 2.57, .wave = 2.52, .crowd = 0.98, .cluster = 0.93,
        .combine = 1.98, .per_split = 0.025, .shares = 3.57, .grid = 0.85, .per_letter = 0.32, .unit = 1.96, .uneven = 0.935,
    },
    [KERNEL_sm100] = {.name = "sm100", SM100},
    [KERNEL_sm100s] = {.name = "sm100s", SM100},
    [KERNEL_sm100d] = {.name = "sm100d", SM100},
    [KERNEL_sm100o] = {.name = "sm100o", SM100},
    [KERNEL_sm100u] = {.name = "sm100u", SM100},
};
/* clang-format on */

/* Tokens of a sequence that are read, at the expected length. */
int64_t plan_tokens(const struct gqa_problem *p) {
    int64_t n = p->kv_len_expected;
    if (p->window_left >= 0 && p->window_left < INT32_MAX && p->window_left + p->q_tokens < n)
        n = p->window_left + p->q_tokens;
    return n > 0 ? n : 1;
}

static int64_t token_bytes(const struct gqa_problem *p) {
    return (int64_t)gqa_type_bytes(p->kv_type) * (p->head_dim + p->head_dim_v);
}

int64_t plan_ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* CTAs in clusters of n that fit at one per SM. A cluster lies within a GPC; an H200's 132 SMs form
 * GPCs of these sizes, judged by the clusters of 4, 8 and 16 that fit (30, 15, 7). Others: as if
 * all GPCs had 16. */
int64_t plan_cluster_capacity(const struct plan_part *part, int n) {
    static const int gpcs[] = {18, 18, 18, 18, 18, 18, 16, 8};
    int64_t fit = 0;
    for (size_t i = 0; i < sizeof gpcs / sizeof *gpcs; i++)
        fit += gpcs[i] / n;
    if (part->sms != 132)
        fit = part->sms / 16 * (16 / n);
    return n * (fit > 0 ? fit : 1); /* a slice of a GPU may have fewer than 16 SMs */
}

/* What a bulk copy of sm90 costs its SM, however short; and what its lanes copy at most, row by
 * row, in bytes per us. */
#define COPY_US  0.040
#define ROW_RATE 45e3

/* Bytes that lie together in K: what one bulk copy moves. */
static double run_bytes(const struct gqa_problem *p) {
    const bool adjacent = p->k.token == p->head_dim && p->v.token == p->head_dim_v;
    const double tokens = !adjacent ? 1 : p->paging == GQA_CONTIGUOUS ? 1e9 : p->page_size;
    return tokens * p->head_dim * (double)gqa_type_bytes(p->kv_type);
}

/* a and b overlap, but not quite: the larger one and a bit of the other. */
static double overlap(double a, double b, double power) {
    return pow(pow(a, power) + pow(b, power), 1 / power);
}

/* Tokens that a CTA computes on at a time, whether it has them or not. */
static int tile_tokens(const struct kernel_row *row) {
    const int bytes = (int)gqa_type_bytes(row->kv_type);
    return row->arch == KERNEL_sm90 ? GQA_TILE_sm90(bytes, row->head_dim, row->group) : GQA_GRAIN;
}

bool plan_copies_rows(const struct gqa_problem *p) {
    return run_bytes(p) < GQA_LEAST_RUN_sm90;
}

/* Partials of a unit that the second kernel merges (SHARES: not known here), or 1. */
int plan_merged_parts(const struct candidate *c) {
    return c->finish == GQA_FINISH_PARTIAL ? c->splits + (c->schedule == GQA_SCHED_SHARES) : 1;
}

/* Letters that a lane of the grid finish waits for, one after the other, beyond the first. */
static double late_letters(const struct candidate *c) {
    const struct kernel_row *row = &kernel_rows[c->row];
    const int64_t others = c->schedule == GQA_SCHED_SHARES ? plan_ceil_div(c->ctas, c->units)
                                                           : c->splits / c->cluster - 1;
    const int64_t sources = others > c->cluster ? others : c->cluster;
    const int64_t items = (int64_t)row->group * row->head_dim / 4 / c->cluster;
    const int64_t threads = 32 * (row->warps - 2);
    int64_t lanes = sources > 4 ? 8 : sources > 2 ? 4 : 2;
    while (lanes > 1 && items * lanes > threads)
        lanes /= 2;
    const int64_t passes = items * lanes > threads ? plan_ceil_div(items * lanes, threads) : 1;
    return (double)(passes * (plan_ceil_div(others, lanes) - 1));
}

/* What follows the last byte, beyond a whole unit's merge. */
static double finish_us(const struct family *f, const struct candidate *c) {
    const bool shares = c->schedule == GQA_SCHED_SHARES;
    double us = 0;
    if (c->finish >= GQA_FINISH_ATOMIC && c->cluster > 1)
        us += f->cluster;
    if (shares && c->units > c->ctas)
        us += f->unit * ((double)c->units / (double)c->ctas - 1);
    if (c->is_whole)
        return us;
    if (c->finish == GQA_FINISH_GRID)
        us += f->grid + f->per_letter * late_letters(c);
    if (plan_merged_parts(c) > 1)
        us += f->combine + f->per_split * plan_merged_parts(c) + (shares ? f->shares : 0);
    return us;
}

/* Predicted us: launch, the busiest SM's bytes beside all bytes, the finish. */
double plan_predict(const struct plan_part *part, const struct gqa_problem *p,
                    const struct candidate *c) {
    const struct kernel_row *row = &kernel_rows[c->row];
    const struct family *f = &plan_families[row->arch];
    const double total = (double)c->units * (double)plan_tokens(p) * (double)token_bytes(p);
    double rate = f->sm_rate * (row->head_dim <= 64    ? f->narrow
                                : row->head_dim <= 128 ? 1
                                                       : f->wide);
    if (row->arch == KERNEL_sm90) {
        const double most = plan_copies_rows(p) ? ROW_RATE : run_bytes(p) / COPY_US;
        rate = most < rate ? most : rate;
    }
    if (f->packed > 0 && c->cluster >= 4)
        rate *= f->packed;
    if (f->one_group > 0 && row->group > 16)
        rate *= f->one_group;
    const int64_t fit = c->cluster > 1 ? plan_cluster_capacity(part, c->cluster) : part->sms;
    const double memory = f->memory * part->sms / (f->exact && f->major == 10 ? 148 : 132) /
                          (1 + f->few / (double)(c->ctas < part->sms ? c->ctas : part->sms));
    int64_t waves = 1;
    double busy = total / (double)c->ctas;
    bool uneven = false;
    if (c->schedule != GQA_SCHED_SHARES) {
        const int64_t grains = plan_ceil_div(plan_tokens(p), GQA_GRAIN);
        waves = plan_ceil_div(c->ctas, fit);
        const int64_t tokens = plan_ceil_div(grains, c->splits) * GQA_GRAIN,
                      tile = tile_tokens(row);
        busy = (double)(waves * plan_ceil_div(tokens, tile) * tile * token_bytes(p));
        uneven = tokens % tile || tokens * c->splits != plan_tokens(p);
    }
    /* Of the next kernel's CTAs, those that find no SM beside these. */
    const double left = (double)(2 * c->ctas - fit) / (double)c->ctas;
    const double homeless = left < 0 ? 0 : left > 1 ? 1 : left;
    return f->launch + (row->group > 8 ? f->tall : 0) +
           overlap(busy / rate, total / memory, f->power) + f->wave * (double)(waves - 1) +
           f->crowd * homeless + (uneven ? f->uneven : 0) + finish_us(f, c);
}
