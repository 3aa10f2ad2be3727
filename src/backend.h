/* SPDX-License-Identifier: Apache-2.0
 * The seam between the API and what computes: one table of functions per backend. api.c checks
 * arguments once; a backend may rely on a normal problem, on checked tensors and on non-null
 * arguments. Backends say what they cannot do in plan(), never later. */
#ifndef GQA_BACKEND_H
#define GQA_BACKEND_H

#include "gqa.h"

#include <stdbool.h>

/* The head of every backend's own device struct (its first member). */
struct gqa_device {
    const struct backend *backend;
    char name[64];
    bool plan_only; /* opened as "plan:..."; decode is refused by api.c */
};

/* What a plan holds. `problem` is normal; plan() fills `info` (but info.size) and its `choice`. */
struct gqa_plan {
    gqa_device *device;
    struct gqa_problem problem;
    struct gqa_plan_info info;
    bool records; /* the kernel writes to tensors.trace */
    struct {
        int kernel;          /* row of the backend's kernel table */
        int splits;          /* grid's split dimension; 1 = no merge */
        int64_t tokens;      /* tokens per split where that is constant, else 0 */
        size_t offsets[6];   /* of the backend's parts of the workspace, bytes */
        int64_t numbers[10]; /* anything else the backend decided; it names them itself */
    } choice;
};

struct backend {
    /* Device names start with one of these, up to ':' or the end; NULL-terminated. "plan:X" goes to
     * the first backend whose `plans` accepts X. */
    const char *const *prefixes;
    bool (*plans)(const char *part);

    gqa_status (*open)(const char *name, bool plan_only, const struct gqa_device_options *options,
                       gqa_device **device, struct gqa_error *err);
    void (*close)(gqa_device *device);
    void (*describe)(const gqa_device *device, struct gqa_device_info *info);
    void (*kernel)(const gqa_device *device, int index, struct gqa_kernel_info *info);

    gqa_status (*plan)(gqa_device *device, const char *kernel, gqa_plan *plan,
                       struct gqa_error *err);
    gqa_status (*decode)(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                         void *stream, struct gqa_error *err);
    gqa_status (*merge)(gqa_device *device, const struct gqa_shards *merge, void *stream,
                        struct gqa_error *err);
    /* NULL where the backend has none. */
    gqa_status (*slice)(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                        int slice, int slices, struct gqa_error *err);
    gqa_status (*finish)(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                         int slices, struct gqa_error *err);
};

extern const struct backend cpu_backend;  /* src/cpu/cpu.c */
extern const struct backend cuda_backend; /* src/cuda/cuda.c */

#endif
