/* SPDX-License-Identifier: Apache-2.0
 * What a decode step should take on a Blackwell that nobody here has: a closed form over a plan.
 * Modelled, never measured. */
#ifndef MODEL_H
#define MODEL_H

#include "gqa.h"

#include <stdbool.h>

struct model {
    double us;         /* of the whole step, in a graph of steps */
    double floor_us;   /* the bytes of K and V at the rate of DRAM */
    double shares[4];  /* us that each candidate for the bound takes by itself */
    const char *bound; /* what takes longest */
};

/* Names of shares[]. */
extern const char *const model_names[4];

/* False where there is no model: for devices and kernels other than Blackwell's. */
bool model_step(const char *device, const struct gqa_problem *p, const struct gqa_plan_info *info,
                struct model *m);

#endif
