/* SPDX-License-Identifier: Apache-2.0
 * The threads of a CPU device. A pool runs one job at a time: parts 0 .. n - 1 are taken from a
 * counter by the caller and by every thread that wakes in time. Who finds the pool busy computes
 * alone; the parts, and so the results, are the same. */
#ifndef GQA_CPU_POOL_H
#define GQA_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* `threads` counts the caller. Never pinned; signals stay with the program's own threads. Returns
 * NULL if there is no memory or the system refuses a thread. */
struct pool *pool_create(int threads, int spin_us);
void pool_destroy(struct pool *pool);

/* Run part(arg, i, worker) for all i; worker < workers names the thread, 0 the caller. `wake`:
 * worth waking sleeping threads; those that still poll join anyway. pool may be NULL. */
void pool_run(struct pool *pool, void (*part)(void *arg, int64_t i, int worker), void *arg,
              int64_t parts, int workers, bool wake);

#endif
