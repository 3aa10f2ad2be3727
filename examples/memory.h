/* SPDX-License-Identifier: Apache-2.0
 * Memory of the device that computes attention: allocate, release, and copy to and fro. The CPU's
 * is the program's own. */
#ifndef MEMORY_H
#define MEMORY_H

#include "gqa.h"

#include <stddef.h>

/* Copies are complete when they return, and come after all work enqueued before. */
struct memory {
    void *(*alloc)(size_t bytes); /* aligned to 256 bytes; NULL if there is none */
    void (*release)(void *device);
    gqa_status (*upload)(void *device, const void *host, size_t bytes, struct gqa_error *err);
    gqa_status (*download)(void *host, const void *device, size_t bytes, struct gqa_error *err);
};

/* The memory of an open device, by the name that opened it.
 * Fails:  GQA_ERR_UNSUPPORTED for a device whose memory this program cannot reach. */
gqa_status memory_of(const char *device, struct memory *memory, struct gqa_error *err);

/* Fill *err (which may be NULL) with a formatted sentence; returns the status. */
gqa_status refuse(struct gqa_error *err, gqa_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
