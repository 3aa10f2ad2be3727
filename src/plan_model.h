/* SPDX-License-Identifier: Apache-2.0
 * The planner's prediction: how long a way to run a problem takes. */
#ifndef GQA_PLAN_MODEL_H
#define GQA_PLAN_MODEL_H

#include "plan.h"

#include "cuda/kernels.h"

/* What is known of a family of kernels; times in us, rates in bytes per us, measured on an H200 by
 * bench/sweep (2026-11-30) and fitted. sm90: 7 % RMS over the ways to run 70 shapes. The numbers of
 * sm100 are an earlier sm90's, scaled where memory says so: nobody has timed it. */
struct family {
    const char *name;
    int major, minor; /* needs this part ... */
    bool exact;       /* ... and no other */
    bool has_cluster; /* cluster and atomic finishes */
    bool has_grid;    /* the grid finish */
    bool has_pdl;     /* launch attribute and instructions */
    bool has_early;   /* gains from GQA_PDL_EARLY */
    double launch;    /* until the first bytes, and after the last */
    double tall;      /* more of that, for row tiles above 8 */
    double one_group; /* of sm_rate, for tiles of 32 rows; 0: the same */
    double packed;  /* of sm_rate, in clusters of 4 and more, which lie side by side; 0: the same */
    double sm_rate; /* what one SM reads at most; less by `narrow` for heads up to 64 wide, by */
    double narrow, wide, memory; /* `wide` above 128; `memory`: what all SMs read */
    double few;                  /* CTAs: with so many, memory takes twice as long */
    double power;                /* how sharply the slower of the two decides */
    double wave;                 /* a second wave of CTAs */
    double crowd;                /* the next kernel's CTAs do not fit beside these */
    double uneven;               /* a part that ends within a tile */
    double cluster;              /* the exchange in a cluster */
    double grid, per_letter;     /* letters; more of that, per letter that waits for another */
    double unit;                 /* a further whole unit of a CTA */
    double combine, per_split, shares; /* the second kernel; more of that with equal shares */
};

extern const struct family plan_families[]; /* by enum kernel_arch */

/* One way to run a problem. */
struct candidate {
    int row;
    int row_tiles;
    int64_t units;
    int schedule, finish, splits, cluster;
    int64_t ctas, slots, split_grains;
    bool is_whole; /* shares are whole units if all sequences are equally long */
    bool by_rule;  /* a published rule's: it may add 16-bit outputs, which we never choose */
    double us;     /* predicted */
};

/* Tokens of a sequence that are read, at the expected length. */
int64_t plan_tokens(const struct gqa_problem *p);

/* CTAs in clusters of n that fit at one per SM. */
int64_t plan_cluster_capacity(const struct plan_part *part, int n);

/* Partials of a unit that the second kernel merges (SHARES: not known here), or 1. */
int plan_merged_parts(const struct candidate *c);

/* Predicted us. */
double plan_predict(const struct plan_part *part, const struct gqa_problem *p,
                    const struct candidate *c);

int64_t plan_ceil_div(int64_t a, int64_t b);

#endif
