/* SPDX-License-Identifier: Apache-2.0
 * Beyond space.h: a CUDA graph of many runs, captured once and replayed as often as wanted. */
#ifndef SPACE_CUDA_H
#define SPACE_CUDA_H

#include "space.h"

struct cuda_graph;

/* Capture runs first .. first + runs - 1 and instantiate. Fails: what the step gives,
 * GQA_ERR_DRIVER. */
gqa_status cuda_graph_make(struct space *space, space_step step, void *context, int64_t first,
                           int64_t runs, struct cuda_graph **graph, struct gqa_error *err);

/* Replay once; seconds between events around it. */
gqa_status cuda_graph_time(struct space *space, struct cuda_graph *graph, double *seconds,
                           struct gqa_error *err);

void cuda_graph_free(struct space *space, struct cuda_graph *graph);

/* A step that reads one entry of a pool as fast as the device can; context: a struct space_pool. */
gqa_status cuda_stream_step(struct space *space, const struct space_pool *pool, int64_t run,
                            enum gqa_pdl pdl, struct gqa_error *err);

#endif
