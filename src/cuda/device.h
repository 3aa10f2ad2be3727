/* SPDX-License-Identifier: Apache-2.0
 * A device that the driver table drives: the emulator, a GPU, or only its name to plan for. */
#ifndef GQA_CUDA_DEVICE_H
#define GQA_CUDA_DEVICE_H

#include "backend.h"
#include "driver.h"
#include "plan.h"

#include <pthread.h>
#include <stdbool.h>

/* A loaded image and its kernels; loaded once per device, kept until the device closes. */
struct loaded {
    cu_library library;
    cu_kernel decode;               /* of a kernel row */
    cu_kernel combine, merge, zero; /* of a helper row */
};

struct cuda_device {
    struct gqa_device head;
    struct driver driver;
    struct plan_part part;
    char family[16]; /* options.kernel, or "" */
    char product[128];
    cu_device ordinal;
    cu_context primary;
    int smem_optin;
    pthread_mutex_t lock; /* guards `rows` and `helpers` while they are filled */
    struct loaded *rows;  /* [kernel_row_count] */
    struct loaded helpers, traced_helpers;
};

/* Make a context of our device current: the stream's, else the current one if it is ours, else the
 * primary one. *pushed says whether context_leave has to restore. */
gqa_status context_enter(struct cuda_device *d, void *stream, bool *pushed, struct gqa_error *err);
void context_leave(struct cuda_device *d, bool pushed);

/* Members of struct backend. */
gqa_status device_open(const char *name, bool plan_only, const struct gqa_device_options *options,
                       gqa_device **device, struct gqa_error *err);
void device_close(gqa_device *device);
void device_describe(const gqa_device *device, struct gqa_device_info *info);
void device_kernel(const gqa_device *device, int index, struct gqa_kernel_info *info);

/* Load a kernel row, unless row < 0, and the helpers that belong to it. */
gqa_status device_load(struct cuda_device *d, int row, struct gqa_error *err);

#endif
