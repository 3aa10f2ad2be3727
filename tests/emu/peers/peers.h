/* peers.h: the kernels that peers.c knows how to run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_H
#define PEERS_H

#include "attention.h"
#include "gpu.h"

enum reduction { REDUCE_NONE, REDUCE_KERNEL, REDUCE_ATOMIC };

struct peer {
    const char *name; /* of the PTX file, without "-N.ptx" */
    bool (*run)(const struct peer *t, const char *path, const struct problem *x, int splits);
    int dim, page, splits;
    enum reduction reduction;
    uint32_t smem;
    double o_bound, lse_bound;
};

bool flashinfer_run(const struct peer *t, const char *path, const struct problem *x, int splits);
bool fa4_run(const struct peer *t, const char *path, const struct problem *x, int splits);

/* Compares with the float64 answer and prints a line; lse_unit: what one nat is in the kernel's
 * LSE. */
bool peer_verdict(const struct peer *t, const struct problem *x, int splits, int result,
                  const uint16_t *o, const float *lse, double lse_unit);

#endif
