/* SPDX-License-Identifier: Apache-2.0
 * Between build.c, which lays a case out, and fill.c, which puts values there. */
#ifndef FILL_H
#define FILL_H

#include "cases.h"

#include <stddef.h>

/* Fill the host arrays of x: lengths, tables, scales, Q, K and V. Buffers of tables and lengths
 * are filled by fill_lengths and fill_tables, which only need the host arrays themselves. */

/* Lengths of all sequences, [batch]; and cu_seqlens_q, [batch + 1], if the case is ragged. */
void fill_lengths(const struct test_case *c, struct case_random_state *r, int32_t *kv_lens,
                  int32_t *cu_seqlens_q);

/* A permutation of 0 .. n - 1, cut to its first `count`. Returns false if there is no memory. */
bool fill_permutation(struct case_random_state *r, int32_t *out, int64_t count, int64_t n);

/* `bytes` of what unused memory holds: NaN, Inf and huge values of the type. */
void fill_garbage(enum gqa_type type, char *to, size_t bytes);

/* Q of every row that belongs to a sequence; K and V of every token that a row sees. Returns false
 * if an upload fails (sparse buffers go to the device row by row). */
bool fill_rows(struct case_instance *x, struct case_random_state *r);

void fill_scales(struct case_instance *x, struct case_random_state *r);

#endif
