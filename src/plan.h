/* SPDX-License-Identifier: Apache-2.0
 * The GPU planner: which kernel, how the KV range is cut, how parts are merged, where partials lie.
 * Pure functions of a normal problem and a description of the part; no device is touched. */
#ifndef GQA_PLAN_H
#define GQA_PLAN_H

#include "backend.h"

/* What the planner must know of a GPU. */
struct plan_part {
    char name[16]; /* "sm_90a" */
    int major, minor;
    int sms;
};

/* What `numbers` of a plan's choice hold. */
enum plan_number {
    PLAN_SCHEDULE, /* enum gqa_schedule */
    PLAN_FINISH,   /* enum gqa_finish */
    PLAN_CTAS,     /* the grid; a multiple of the cluster */
    PLAN_CLUSTER,  /* CTAs of a cluster, 1: none */
    PLAN_SPLIT_GRAINS,
    PLAN_ROW_TILES,
    PLAN_SLOTS, /* partial slots in the workspace */
    PLAN_WAYS,  /* warps per row in the combine */
    PLAN_NUMBERS
};

/* `offsets` of a choice: parts of the workspace, bytes. */
enum plan_offset { PLAN_PART_O, PLAN_PART_ML };

/* The part called `name` ("sm_90a"), with the SM count of its largest product; false if unknown. */
bool plan_find_part(const char *name, struct plan_part *part);

/* Can row `row` of the kernel table run on `part`? If not, why[192] says what is missing. */
bool plan_row_runs(const struct plan_part *part, int row, char *why, size_t size);

/* Do kernels that load by bulk copies copy this cache row by row instead? */
bool plan_copies_rows(const struct gqa_problem *p);

/* Choose. `kernel` NULL: any; else the one row's name. `family` NULL: any; else "sm80", ... .
 * Fills plan->choice and plan->info. Fails: GQA_ERR_NAME, GQA_ERR_UNSUPPORTED, GQA_ERR_SHAPE. */
gqa_status plan_cuda(const struct plan_part *part, const char *family, const char *kernel,
                     gqa_plan *plan, struct gqa_error *err);

#endif
