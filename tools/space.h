/* SPDX-License-Identifier: Apache-2.0
 * A device's memory and clock, as the commands need them: gqa.h computes on memory that the caller
 * owns and says nothing of how to get it. One table of functions per kind of device; only "cpu" is
 * its own process. Everything works on one stream and is complete on return. */
#ifndef SPACE_H
#define SPACE_H

#include "gqa.h"

#include <stddef.h>

/* What `time` and `read` count. CPU time is for machines that are busy with other work: it leaves
 * out what others took, though not what they did to caches and memory. */
enum space_clock { SPACE_WALL = 0, SPACE_CPU_TIME };

struct space {
    const struct space_kind *kind;
    void *stream;           /* for gqa_decode; NULL on a CPU */
    void *state;            /* the kind's own */
    enum space_clock clock; /* CPU; a GPU has its own */
};

/* Enqueue run number `run` of something to be timed. */
typedef gqa_status (*space_step)(void *context, int64_t run, void *stream, struct gqa_error *err);

/* Memory to be read at the speed of memory: `entries` of `bytes` each, `stride` bytes apart. */
struct space_pool {
    const void *base;
    size_t bytes, stride;
    int64_t entries;
};

struct space_kind {
    const char *prefix; /* of device names: up to ':' or the end */
    gqa_status (*open)(const char *device, struct space *space, struct gqa_error *err);
    void (*close)(struct space *space);
    /* At least 256-byte aligned, at most zeroed lazily; NULL if there is no memory. */
    void *(*take)(struct space *space, size_t bytes);
    void (*give)(struct space *space, void *memory, size_t bytes);
    gqa_status (*put)(struct space *space, void *to, const void *from, size_t bytes,
                      struct gqa_error *err);
    gqa_status (*get)(struct space *space, void *to, const void *from, size_t bytes,
                      struct gqa_error *err);
    /* Seconds that runs first .. first + runs - 1 take back to back, on the device's clock. Of CPU
     * time they are the sum over all threads of the process. */
    gqa_status (*time)(struct space *space, space_step step, void *context, int64_t first,
                       int64_t runs, double *seconds, struct gqa_error *err);
    /* The floor: seconds to read entries first .. first + runs - 1 (modulo pool->entries), each
     * once, with `threads` threads (CPU) or all of the device, and do nothing with them. */
    gqa_status (*read)(struct space *space, const struct space_pool *pool, int threads,
                       int64_t first, int64_t runs, double *seconds, struct gqa_error *err);
};

extern const struct space_kind space_cpu;      /* space_cpu.c */
extern const struct space_kind space_cuda;     /* space_cuda.c */
extern const struct space_kind space_emulator; /* space_cuda.c, on the emulator */

/* The space of a device of that name.
 * Fails: GQA_ERR_DEVICE where this build cannot reach the device's memory; what `open` gives. */
gqa_status space_open(const char *device, struct space *space, struct gqa_error *err);

static inline void space_close(struct space *space) {
    if (space->kind)
        space->kind->close(space);
    space->kind = NULL;
}

#endif
