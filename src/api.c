/* SPDX-License-Identifier: Apache-2.0
 * The public entry points: check arguments once, find the backend, hand over. Nothing is computed
 * here. */
#include "backend.h"
#include "problem.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Best answer to "is there a device of this kind" first; src/cuda/ adds itself where it is built.
 */
static const struct backend *const backends[] = {
    &cpu_backend,
#ifdef GQA_WITH_CUDA
    &cuda_backend,
#endif
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

#define DEVICE_NAMES                                                                               \
    "\"cpu\", \"cuda:N\", \"emu:PART\", \"plan:cpu\" or \"plan:PART\" (PART: sm_90a, ...)"

/* --- Devices --- */

static bool has_prefix(const char *name, const char *prefix) {
    const size_t n = strlen(prefix);
    return !strncmp(name, prefix, n) && (name[n] == ':' || name[n] == 0);
}

static const struct backend *find_backend(const char *name, bool plan_only) {
    for (int i = 0; i < BACKENDS; i++) {
        if (plan_only && backends[i]->plans(name))
            return backends[i];
        for (const char *const *p = backends[i]->prefixes; !plan_only && *p; p++)
            if (has_prefix(name, *p))
                return backends[i];
    }
    return NULL;
}

gqa_status gqa_device_open(const char *name, const struct gqa_device_options *options,
                           gqa_device **device, struct gqa_error *err) {
    const struct gqa_device_options defaults = gqa_device_options_init();
    if (!name || !device)
        return fail(err, GQA_ERR_ARGUMENT, "%s is NULL", name ? "device" : "name");
    if (options && options->size != sizeof *options)
        return fail(err, GQA_ERR_ARGUMENT,
                    "options.size is %zu, expected %zu: set it up with gqa_device_options_init()",
                    options->size, sizeof *options);
    options = options ? options : &defaults;
    if (options->threads < 0 || options->threads > GQA_MAX_SLICES || options->spin_us < 0)
        return fail(err, GQA_ERR_ARGUMENT,
                    "threads is %d and spin_us is %d; expected 0 to %d threads, spin_us >= 0",
                    options->threads, options->spin_us, GQA_MAX_SLICES);

    const bool plan_only = has_prefix(name, "plan") && name[4] == ':';
    const char *part = plan_only ? name + 5 : name;
    const struct backend *backend = find_backend(part, plan_only);
    if (!backend || strlen(name) >= sizeof(*device)->name)
        return fail(err, GQA_ERR_NAME, "no device is named \"%.40s\"; expected " DEVICE_NAMES,
                    name);
    gqa_device *opened = NULL;
    const gqa_status status = backend->open(part, plan_only, options, &opened, err);
    if (status)
        return status;
    opened->backend = backend;
    opened->plan_only = plan_only;
    snprintf(opened->name, sizeof opened->name, "%s", name);
    *device = opened;
    return GQA_OK;
}

void gqa_device_close(gqa_device *device) {
    if (device)
        device->backend->close(device);
}

/* The caller's struct must be of this library's size: a larger one would stay half unwritten. */
static gqa_status check_out(const char *what, const void *out, size_t size, size_t expected,
                            struct gqa_error *err) {
    if (!out)
        return fail(err, GQA_ERR_ARGUMENT, "%s is NULL", what);
    if (size != expected)
        return fail(err, GQA_ERR_ARGUMENT, "%s.size is %zu, expected %zu: use gqa_%s_init()", what,
                    size, expected, what);
    return GQA_OK;
}

gqa_status gqa_device_describe(const gqa_device *device, struct gqa_device_info *info,
                               struct gqa_error *err) {
    const gqa_status status =
        check_out("device_info", info, info ? info->size : 0, sizeof *info, err);
    if (status)
        return status;
    if (!device)
        return fail(err, GQA_ERR_ARGUMENT, "device is NULL");
    struct gqa_device_info filled = gqa_device_info_init();
    snprintf(filled.name, sizeof filled.name, "%s", device->name);
    device->backend->describe(device, &filled);
    *info = filled;
    return GQA_OK;
}

gqa_status gqa_device_kernel(const gqa_device *device, int index, struct gqa_kernel_info *info,
                             struct gqa_error *err) {
    struct gqa_device_info described = gqa_device_info_init();
    gqa_status status = check_out("kernel_info", info, info ? info->size : 0, sizeof *info, err);
    if (status || (status = gqa_device_describe(device, &described, err)))
        return status;
    if (index < 0 || index >= described.kernels)
        return fail(err, GQA_ERR_ARGUMENT, "kernel %d does not exist; %s has %d", index,
                    described.name, described.kernels);
    struct gqa_kernel_info filled = gqa_kernel_info_init();
    device->backend->kernel(device, index, &filled);
    *info = filled;
    return GQA_OK;
}

/* --- Plans --- */

gqa_status gqa_plan_create(gqa_device *device, const struct gqa_problem *p, gqa_plan **plan,
                           struct gqa_error *err) {
    if (!device || !plan)
        return fail(err, GQA_ERR_ARGUMENT, "%s is NULL", device ? "plan" : "device");
    struct gqa_plan made = {.device = device, .info = gqa_plan_info_init()};
    gqa_status status = problem_normalise(p, &made.problem, err);
    if (status || (status = device->backend->plan(device, p->kernel, &made, err)))
        return status;
    gqa_plan *kept = malloc(sizeof *kept);
    if (!kept)
        return fail(err, GQA_ERR_MEMORY, "no %zu bytes for a plan", sizeof *kept);
    *kept = made;
    *plan = kept;
    return GQA_OK;
}

void gqa_plan_destroy(gqa_plan *plan) {
    free(plan);
}

size_t gqa_plan_workspace(const gqa_plan *plan) {
    return plan ? plan->info.workspace_bytes : 0;
}

gqa_status gqa_plan_describe(const gqa_plan *plan, struct gqa_plan_info *info,
                             struct gqa_error *err) {
    const gqa_status status =
        check_out("plan_info", info, info ? info->size : 0, sizeof *info, err);
    if (status)
        return status;
    if (!plan)
        return fail(err, GQA_ERR_ARGUMENT, "plan is NULL");
    *info = plan->info;
    return GQA_OK;
}

/* --- Decoding --- */

/* Nothing to compute: no sequence (then pointers may be NULL, and rows that a ragged step has room
 * for belong to nobody) or no row. */
static bool is_empty(const gqa_plan *plan) {
    return plan->problem.batch == 0 || problem_rows(&plan->problem) == 0;
}

static gqa_status check_decode(const gqa_plan *plan, const struct gqa_tensors *t,
                               const void *workspace, size_t workspace_bytes,
                               struct gqa_error *err) {
    if (!plan)
        return fail(err, GQA_ERR_ARGUMENT, "plan is NULL");
    if (plan->device->plan_only)
        return fail(err, GQA_ERR_DEVICE, "%s is for planning only", plan->device->name);
    if (t && t->size == sizeof *t && t->trace && !plan->records)
        return fail(err, GQA_ERR_UNSUPPORTED,
                    "%s does not record: tensors.trace needs a kernel whose name ends in _trace",
                    plan->info.kernel);
    return tensors_check(&plan->problem, t, workspace, workspace_bytes, plan->info.workspace_bytes,
                         err);
}

gqa_status gqa_decode(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                      size_t workspace_bytes, void *stream, struct gqa_error *err) {
    const gqa_status status = check_decode(plan, t, workspace, workspace_bytes, err);
    if (status || is_empty(plan))
        return status;
    return plan->device->backend->decode(plan, t, workspace, stream, err);
}

/* The common part of a slice and of the finish. */
static gqa_status check_slices(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                               size_t workspace_bytes, int slice, int slices,
                               struct gqa_error *err) {
    const gqa_status status = check_decode(plan, t, workspace, workspace_bytes, err);
    if (status)
        return status;
    if (!plan->device->backend->slice)
        return fail(err, GQA_ERR_UNSUPPORTED, "%s does not compute in slices; only a CPU does",
                    plan->device->name);
    if (slices < 1 || slices > GQA_MAX_SLICES || slice < 0 || slice >= slices)
        return fail(err, GQA_ERR_ARGUMENT, "slice %d of %d; expected 0 <= slice < slices <= %d",
                    slice, slices, GQA_MAX_SLICES);
    return GQA_OK;
}

gqa_status gqa_decode_slice(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                            size_t workspace_bytes, int slice, int slices, struct gqa_error *err) {
    const gqa_status status = check_slices(plan, t, workspace, workspace_bytes, slice, slices, err);
    if (status || is_empty(plan))
        return status;
    return plan->device->backend->slice(plan, t, workspace, slice, slices, err);
}

gqa_status gqa_decode_finish(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                             size_t workspace_bytes, int slices, struct gqa_error *err) {
    const gqa_status status = check_slices(plan, t, workspace, workspace_bytes, 0, slices, err);
    if (status || is_empty(plan))
        return status;
    return plan->device->backend->finish(plan, t, workspace, slices, err);
}

/* --- Merging --- */

gqa_status gqa_merge(gqa_device *device, const struct gqa_shards *merge, void *stream,
                     struct gqa_error *err) {
    if (!device)
        return fail(err, GQA_ERR_ARGUMENT, "device is NULL");
    const gqa_status status = merge_check(merge, err);
    if (status)
        return status;
    if (device->plan_only)
        return fail(err, GQA_ERR_DEVICE, "%s is for planning only", device->name);
    if (merge->rows == 0)
        return GQA_OK;
    return device->backend->merge(device, merge, stream, err);
}
