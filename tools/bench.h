/* SPDX-License-Identifier: Apache-2.0
 * Timing decode steps against the floor, a plain read of the same bytes. Method: all contenders
 * take turns in every round, each beside its own floor, forwards in even rounds and backwards in
 * odd ones; K and V come from a pool that no cache holds, every run from another place of it; what
 * is reported is the median over the rounds, and for ratios the median of the rounds' ratios,
 * because a machine's speed wanders more between rounds than within one. */
#ifndef BENCH_H
#define BENCH_H

#include "gqa.h"
#include "space.h"

#include <stdbool.h>

enum { BENCH_MAX_ROUNDS = 201, BENCH_MAX_CONTENDERS = 64 };

/* One thing to be timed. Filled by bench_add; the times by bench_run. */
struct contender {
    const char *name; /* of the case, "" if it has none */
    struct gqa_problem p;
    enum gqa_layout layout;
    int threads;
    double goal; /* least share of the floor's speed; 0: none */
    int versus;  /* the contender whose time this one's is divided by; -1: none */
    double most; /* ... and the most that may give */
    gqa_device *device;
    gqa_plan *plan;
    struct gqa_plan_info info;
    struct gqa_tensors tensors;
    size_t kv_bytes, bytes; /* K and V alone; with Q and O */
    size_t v_offset;        /* of V in an entry of the pool */
    struct space_pool pool;
    int64_t next, runs; /* the pool's entry for the next run; runs per round */
    void *memory, *workspace;
    size_t memory_bytes, workspace_bytes;
    double us[BENCH_MAX_ROUNDS], floor_us[BENCH_MAX_ROUNDS];
};

struct bench {
    const char *device;
    struct gqa_device_options device_options; /* `threads` is the contender's */
    struct space space;
    size_t pool_bytes;
    int rounds, round_ms;
    bool progress; /* on stderr */
    struct contender *contenders;
    int count;
};

/* Open the device's space. Fails: what space_open gives; GQA_ERR_MEMORY. */
gqa_status bench_open(struct bench *bench, const char *device,
                      const struct gqa_device_options *options, struct gqa_error *err);

/* Add a contender: plan it, with strides packed in the layout. *added may be completed (name, goal,
 * versus) until bench_run. Fails: what gqa_device_open and gqa_plan_create give. */
gqa_status bench_add(struct bench *bench, const struct gqa_problem *p, enum gqa_layout layout,
                     int threads, struct contender **added, struct gqa_error *err);

/* Time everything. Contenders of one K/V type share a pool and take turns. */
gqa_status bench_run(struct bench *bench, struct gqa_error *err);

void bench_close(struct bench *bench);

/* Median over the rounds of us, or of us / other where `other` is not NULL. */
double bench_median(const struct bench *bench, const double *us, const double *other);

#endif
