/* SPDX-License-Identifier: Apache-2.0
 * Devices: whose context is current, opening and closing, and loading kernels when a plan needs
 * them. */
#include "device.h"

#include "kernels.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Contexts --- */

gqa_status context_enter(struct cuda_device *d, void *stream, bool *pushed, struct gqa_error *err) {
    cu_context current = NULL, wanted = d->primary;
    cu_device device = -1;
    *pushed = false;
    gqa_status status =
        driver_check(&d->driver, d->driver.context_current(&current), "cuCtxGetCurrent", err);
    if (status)
        return status;
    if (stream) {
        status = driver_check(&d->driver, d->driver.stream_context(stream, &wanted),
                              "cuStreamGetCtx", err);
        if (status)
            return status;
    } else if (current && !d->driver.context_device(&device) && device == d->ordinal) {
        wanted = current;
    }
    if (wanted == current)
        return GQA_OK;
    status = driver_check(&d->driver, d->driver.context_push(wanted), "cuCtxPushCurrent", err);
    *pushed = !status;
    return status;
}

void context_leave(struct cuda_device *d, bool pushed) {
    cu_context was;
    if (pushed)
        d->driver.context_pop(&was);
}

/* --- Opening --- */

static gqa_status read_attributes(struct cuda_device *d, struct gqa_error *err) {
    const struct {
        int attribute, *to;
    } wanted[] = {{CU_ATTR_CC_MAJOR, &d->part.major},
                  {CU_ATTR_CC_MINOR, &d->part.minor},
                  {CU_ATTR_SM_COUNT, &d->part.sms},
                  {CU_ATTR_SMEM_OPTIN, &d->smem_optin}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const cu_result r =
            d->driver.device_attribute(wanted[i].to, wanted[i].attribute, d->ordinal);
        if (r)
            return driver_check(&d->driver, r, "cuDeviceGetAttribute", err);
    }
    snprintf(d->part.name, sizeof d->part.name, "sm_%d%d", d->part.major, d->part.minor);
    return driver_check(&d->driver,
                        d->driver.device_name(d->product, sizeof d->product, d->ordinal),
                        "cuDeviceGetName", err);
}

static gqa_status open_driver(struct cuda_device *d, const char *name,
                              const struct gqa_device_options *options, int *ordinal,
                              struct gqa_error *err) {
    const char *after = strchr(name, ':');
    char *end = NULL;
    *ordinal = 0;
    if (!strncmp(name, "emu", 3)) {
        struct plan_part known;
        if (!after || !plan_find_part(after + 1, &known))
            return fail(err, GQA_ERR_NAME,
                        "\"%.40s\" is no device; expected emu:sm_100a, "
                        "emu:sm_90a, emu:sm_80, ...",
                        name);
        return driver_open_emulator(after + 1, options->driver, &d->driver, err);
    }
    if (after) {
        const long n = strtol(after + 1, &end, 10);
        if (end == after + 1 || *end || n < 0 || n > 4096)
            return fail(err, GQA_ERR_NAME, "\"%.40s\" is no device; expected cuda:N", name);
        *ordinal = (int)n;
    }
    return driver_open(options->driver, &d->driver, err);
}

static gqa_status open_hardware(struct cuda_device *d, const char *name,
                                const struct gqa_device_options *options, struct gqa_error *err) {
    int ordinal = 0, count = 0;
    gqa_status status = open_driver(d, name, options, &ordinal, err);
    if (status)
        return status;
    status = driver_check(&d->driver, d->driver.device_count(&count), "cuDeviceGetCount", err);
    if (!status && ordinal >= count)
        status =
            fail(err, GQA_ERR_DEVICE, "%s does not exist: the driver has %d devices", name, count);
    if (!status)
        status = driver_check(&d->driver, d->driver.device_get(&d->ordinal, ordinal), "cuDeviceGet",
                              err);
    if (!status)
        status = read_attributes(d, err);
    if (!status)
        status = driver_check(&d->driver, d->driver.primary_retain(&d->primary, d->ordinal),
                              "cuDevicePrimaryCtxRetain", err);
    return status;
}

void device_close(gqa_device *device) {
    struct cuda_device *d = (struct cuda_device *)device;
    for (int i = 0; d->rows && i < kernel_row_count; i++)
        if (d->rows[i].library)
            d->driver.library_unload(d->rows[i].library);
    if (d->helpers.library)
        d->driver.library_unload(d->helpers.library);
    if (d->traced_helpers.library)
        d->driver.library_unload(d->traced_helpers.library);
    if (d->primary)
        d->driver.primary_release(d->ordinal);
    driver_close(&d->driver);
    pthread_mutex_destroy(&d->lock);
    free(d->rows);
    free(d);
}

static bool is_family(const char *name) {
    for (int i = 0; i < kernel_row_count; i++) {
        const char *arch = kernel_rows[i].name + strlen("gqa_decode_");
        const size_t n = strcspn(arch, "_");
        if (n == strlen(name) && !strncmp(arch, name, n))
            return true;
    }
    return false;
}

gqa_status device_open(const char *name, bool plan_only, const struct gqa_device_options *options,
                       gqa_device **device, struct gqa_error *err) {
    if (options->kernel && !is_family(options->kernel))
        return fail(err, GQA_ERR_NAME, "no kernel family is named \"%.40s\"; expected sm80, ...",
                    options->kernel);
    struct cuda_device *d = calloc(1, sizeof *d);
    if (!d || !(d->rows = calloc((size_t)kernel_row_count, sizeof *d->rows)) ||
        pthread_mutex_init(&d->lock, NULL)) {
        if (d)
            free(d->rows);
        free(d);
        return fail(err, GQA_ERR_MEMORY, "no memory for a device");
    }
    if (options->kernel)
        snprintf(d->family, sizeof d->family, "%s", options->kernel);
    gqa_status status = GQA_OK;
    if (plan_only)
        plan_find_part(name, &d->part);
    else
        status = open_hardware(d, name, options, err);
    if (status) {
        device_close(&d->head);
        return status;
    }
    *device = &d->head;
    return GQA_OK;
}

void device_describe(const gqa_device *device, struct gqa_device_info *info) {
    const struct cuda_device *d = (const struct cuda_device *)device;
    snprintf(info->product, sizeof info->product, "%s", d->product[0] ? d->product : d->part.name);
    snprintf(info->features, sizeof info->features, "compute capability %d.%d, %d SMs",
             d->part.major, d->part.minor, d->part.sms);
    info->units = d->part.sms;
    info->kernels = kernel_row_count;
}

#define NO_IMAGE   "%s has no image: built %s"
#define NO_NVCC    "without nvcc"
#define NOT_TRACED "without TRACES=all"

static bool image_exists(const struct kernel_image *x) {
    return x->cubin != x->cubin_end || x->ptx != x->ptx_end;
}

void device_kernel(const gqa_device *device, int index, struct gqa_kernel_info *info) {
    const struct cuda_device *d = (const struct cuda_device *)device;
    snprintf(info->name, sizeof info->name, "%s", kernel_rows[index].name);
    info->available = plan_row_runs(&d->part, index, info->why, sizeof info->why);
    if (info->available && !image_exists(&kernel_rows[index].image)) {
        info->available = 0;
        snprintf(info->why, sizeof info->why, NO_IMAGE, "it",
                 kernel_rows[index].records ? NOT_TRACED : NO_NVCC);
    }
}

/* --- Loading --- */

static cu_result load_from(struct cuda_device *d, const void *image, const char *name,
                           cu_library *library, cu_kernel *kernel) {
    cu_result r = d->driver.library_load(library, image, NULL, NULL, 0, NULL, NULL, 0);
    if (r)
        return r;
    /* A driver that loads lazily says only here that it has no use for the image. */
    r = d->driver.library_kernel(kernel, *library, name);
    if (r) {
        d->driver.library_unload(*library);
        *library = NULL;
    }
    return r;
}

/* The cubin, or where the driver has no use for it (another GPU, the emulator) the PTX; and the
 * kernel called `name` in it. */
static gqa_status load_image(struct cuda_device *d, const struct kernel_image *image, bool records,
                             const char *name, cu_library *library, cu_kernel *kernel,
                             struct gqa_error *err) {
    cu_result r = CU_NO_BINARY;
    if (!image_exists(image))
        return fail(err, GQA_ERR_UNSUPPORTED, NO_IMAGE, name, records ? NOT_TRACED : NO_NVCC);
    if (image->cubin != image->cubin_end)
        r = load_from(d, image->cubin, name, library, kernel);
    if (r == CU_NO_BINARY && image->ptx != image->ptx_end)
        r = load_from(d, image->ptx, name, library, kernel);
    return driver_check(&d->driver, r, name, err);
}

static gqa_status get_kernel(struct cuda_device *d, cu_library library, const char *name,
                             cu_kernel *kernel, struct gqa_error *err) {
    return driver_check(&d->driver, d->driver.library_kernel(kernel, library, name), name, err);
}

static gqa_status load_row(struct cuda_device *d, int index, struct gqa_error *err) {
    const struct kernel_row *row = &kernel_rows[index];
    struct loaded x = {0};
    if (d->rows[index].decode)
        return GQA_OK;
    gqa_status status =
        load_image(d, &row->image, row->records, row->name, &x.library, &x.decode, err);
    if (!status && row->smem_bytes > 0)
        status = driver_check(&d->driver,
                              d->driver.kernel_attribute(CU_FUNC_MAX_DYNAMIC_SMEM, row->smem_bytes,
                                                         x.decode, d->ordinal),
                              "shared memory", err);
    if (!status && row->arch != KERNEL_sm80)
        status = driver_check(
            &d->driver,
            d->driver.kernel_attribute(CU_FUNC_NON_PORTABLE_CLUSTER, 1, x.decode, d->ordinal),
            "clusters of 16", err);
    if (!status)
        d->rows[index] = x;
    else if (x.library)
        d->driver.library_unload(x.library);
    return status;
}

static gqa_status load_helpers(struct cuda_device *d, bool records, struct gqa_error *err) {
    struct loaded *to = records ? &d->traced_helpers : &d->helpers;
    const enum kernel_arch arch = d->part.major >= 10  ? KERNEL_sm100
                                  : d->part.major == 9 ? KERNEL_sm90
                                                       : KERNEL_sm80;
    const bool exact =
        d->part.major == 10 ? d->part.minor == 0 || d->part.minor == 3 : d->part.major == 9;
    struct loaded x = {0};
    if (to->combine)
        return GQA_OK;
    for (int i = 0; i < helper_row_count; i++) {
        if (helper_rows[i].arch != (exact ? arch : KERNEL_sm80) ||
            helper_rows[i].records != records)
            continue;
        gqa_status status = load_image(d, &helper_rows[i].image, records, "gqa_combine", &x.library,
                                       &x.combine, err);
        if (!status)
            status = get_kernel(d, x.library, "gqa_merge", &x.merge, err);
        if (!status)
            status = get_kernel(d, x.library, "gqa_zero", &x.zero, err);
        if (!status)
            *to = x;
        return status;
    }
    return fail(err, GQA_ERR_UNSUPPORTED, "no helper kernels for %s", d->part.name);
}

gqa_status device_load(struct cuda_device *d, int row, struct gqa_error *err) {
    bool pushed;
    gqa_status status = context_enter(d, NULL, &pushed, err);
    if (status)
        return status;
    pthread_mutex_lock(&d->lock);
    status = row >= 0 ? load_row(d, row, err) : GQA_OK;
    if (!status)
        status = load_helpers(d, row >= 0 && kernel_rows[row].records, err);
    pthread_mutex_unlock(&d->lock);
    context_leave(d, pushed);
    return status;
}
