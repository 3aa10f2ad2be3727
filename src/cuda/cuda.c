/* SPDX-License-Identifier: Apache-2.0
 * The CUDA backend: open a device, load kernels when a plan needs them, build arguments, launch.
 * A decode is at most three launches on the caller's stream (zero, decode, combine); nothing is
 * allocated, copied or waited for. Whatever context was current is current again afterwards. */
#include "args.h"
#include "backend.h"
#include "driver.h"
#include "kernels.h"
#include "maps.h"
#include "plan.h"
#include "problem.h"
#include "status.h"
#include "trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMBINE_THREADS = 256, COMBINE_WARPS = 8, MAX_GRID = INT32_MAX };

#define LOG2E 1.4426950408889634f

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

static const char *const prefixes[] = {"cuda", "emu", NULL};

static bool plans(const char *part) {
    struct plan_part found;
    return plan_find_part(part, &found);
}

/* --- Contexts --- */

/* Make a context of our device current: the stream's, else the current one if it is ours, else the
 * primary one. *pushed says whether context_leave has to restore. */
static gqa_status context_enter(struct cuda_device *d, void *stream, bool *pushed,
                                struct gqa_error *err) {
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

static void context_leave(struct cuda_device *d, bool pushed) {
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

static void cuda_close(gqa_device *device) {
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

static gqa_status cuda_open(const char *name, bool plan_only,
                            const struct gqa_device_options *options, gqa_device **device,
                            struct gqa_error *err) {
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
        cuda_close(&d->head);
        return status;
    }
    *device = &d->head;
    return GQA_OK;
}

static void cuda_describe(const gqa_device *device, struct gqa_device_info *info) {
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

static void cuda_kernel(const gqa_device *device, int index, struct gqa_kernel_info *info) {
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

static gqa_status load(struct cuda_device *d, int row, struct gqa_error *err) {
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

static gqa_status cuda_plan(gqa_device *device, const char *kernel, gqa_plan *plan,
                            struct gqa_error *err) {
    struct cuda_device *d = (struct cuda_device *)device;
    const gqa_status status =
        plan_cuda(&d->part, d->family[0] ? d->family : NULL, kernel, plan, err);
    if (status || device->plan_only)
        return status;
    return load(d, plan->choice.kernel, err);
}

/* --- Arguments --- */

static struct gqa_arg_strides arg_strides(const struct gqa_strides *s) {
    return (struct gqa_arg_strides){s->batch, s->token, s->head};
}

static uint32_t trace_blocks(const struct gqa_tensors *t) {
    const size_t blocks = t->trace ? t->trace_bytes / TRACE_BLOCK_BYTES : 0;
    return blocks < INT32_MAX ? (uint32_t)blocks : INT32_MAX;
}

static void fill_tensors(struct gqa_args *a, const struct gqa_problem *p,
                         const struct gqa_tensors *t) {
    a->q = t->q;
    a->k = t->k;
    a->v = t->v;
    a->o = t->o;
    a->lse = p->has_lse ? t->lse : NULL;
    a->kv_lens = t->kv_lens;
    a->cu_seqlens_q = p->q_ragged ? t->cu_seqlens_q : NULL;
    a->batch_index = t->batch_index;
    a->pages = p->paging == GQA_PAGED_TABLE ? t->block_table
               : p->paging == GQA_PAGED_CSR ? t->page_indices
                                            : NULL;
    a->page_indptr = p->paging == GQA_PAGED_CSR ? t->page_indptr : NULL;
    a->last_page_len = p->paging == GQA_PAGED_CSR ? t->last_page_len : NULL;
    a->reads_lengths = a->kv_lens || a->cu_seqlens_q || a->batch_index || a->page_indptr;
    a->k_scale = t->k_scale;
    a->v_scale = t->v_scale;
    a->sinks = p->has_sinks ? t->sinks : NULL;
    a->trace = t->trace;
    a->trace_blocks = (int32_t)trace_decode_blocks(trace_blocks(t));
}

static bool rows_aligned(const void *base, const struct gqa_strides *s, enum gqa_type type,
                         size_t align) {
    const size_t bytes = gqa_type_bytes(type);
    return (uintptr_t)base % align == 0 && (size_t)s->batch * bytes % align == 0 &&
           (size_t)s->token * bytes % align == 0 && (size_t)s->head * bytes % align == 0;
}

static void fill_problem(struct gqa_args *a, const struct gqa_problem *p) {
    a->q_stride = arg_strides(&p->q);
    a->k_stride = arg_strides(&p->k);
    a->v_stride = arg_strides(&p->v);
    a->o_stride = arg_strides(&p->o);
    a->lse_stride = arg_strides(&p->lse);
    a->page_stride = p->table_stride;
    a->batch = (int32_t)p->batch;
    a->q_heads = p->q_heads;
    a->kv_heads = p->kv_heads;
    a->group = problem_group(p);
    a->head_dim = p->head_dim;
    a->head_dim_v = p->head_dim_v;
    a->q_tokens = p->q_tokens;
    a->kv_len = (int32_t)p->kv_len;
    /* A page larger than the cache is as good as one that just holds it, and its multiples fit 31
     * bits. */
    a->page_size =
        p->kv_len < p->page_size ? (int32_t)(p->kv_len > 0 ? p->kv_len : 1) : p->page_size;
    a->causal = p->causal;
    a->window_left = p->window_left > INT32_MAX / 2 ? -1 : (int32_t)p->window_left;
    a->q_type = (int32_t)p->q_type;
    a->o_type = (int32_t)p->o_type;
    a->q_vectors = rows_aligned(a->q, &p->q, p->q_type, 16);
    a->o_vectors = rows_aligned(a->o, &p->o, p->o_type, 4 * gqa_type_bytes(p->o_type));
    a->k_scales = (int32_t)p->k_scales;
    a->v_scales = (int32_t)p->v_scales;
    a->lse_base_2 = p->lse_base == GQA_BASE_2;
    a->scale = p->scale;
    a->scale_log2 = p->scale * LOG2E;
    a->softcap = p->softcap;
}

static void fill_schedule(struct gqa_args *a, const gqa_plan *plan, void *workspace) {
    const int64_t *n = plan->choice.numbers;
    const struct kernel_row *row = &kernel_rows[plan->choice.kernel];
    a->row_tiles = (int32_t)n[PLAN_ROW_TILES];
    a->units = (int32_t)(plan->problem.batch * plan->problem.kv_heads * n[PLAN_ROW_TILES]);
    a->schedule = (int32_t)n[PLAN_SCHEDULE];
    a->finish = (int32_t)n[PLAN_FINISH];
    a->splits = plan->choice.splits;
    a->split_grains = (int32_t)n[PLAN_SPLIT_GRAINS];
    a->ctas = (int32_t)n[PLAN_CTAS];
    a->by_rows = plan_copies_rows(&plan->problem);
    a->early = plan->problem.pdl == GQA_PDL_EARLY;
    a->cluster = (int32_t)n[PLAN_CLUSTER];
    a->by_splits = gqa_divisor_of((uint32_t)a->splits);
    a->by_cluster = gqa_divisor_of((uint32_t)a->cluster);
    a->by_row_tiles = gqa_divisor_of((uint32_t)a->row_tiles);
    a->by_sequence = gqa_divisor_of((uint32_t)(a->kv_heads * a->row_tiles));
    a->by_group = gqa_divisor_of((uint32_t)a->group);
    a->by_page = gqa_divisor_of((uint32_t)(a->page_size ? a->page_size : 1));
    a->part_rows = row->group;
    a->part_dim = (plan->problem.head_dim_v + 3) / 4 * 4;
    a->part_v_factor = row->arch == KERNEL_sm80 && row->kv_type == GQA_E4M3 ? 256.0f : 1.0f;
    a->combine_ways = (int32_t)n[PLAN_WAYS];
    a->part_o = (float *)(void *)((char *)workspace + plan->choice.offsets[PLAN_PART_O]);
    a->part_ml = (float *)(void *)((char *)workspace + plan->choice.offsets[PLAN_PART_ML]);
}

static gqa_status check_alignment(const gqa_plan *plan, const struct gqa_tensors *t,
                                  struct gqa_error *err) {
    const struct {
        const char *name;
        const void *p;
        uintptr_t align;
    } wanted[] = {{"q", t->q, 8}, {"k", t->k, 16}, {"v", t->v, 16}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if ((uintptr_t)wanted[i].p % wanted[i].align)
            return fail(err, GQA_ERR_ALIGNMENT, "%s is at %p; %s wants it aligned to %d bytes",
                        wanted[i].name, wanted[i].p, plan->info.kernel, (int)wanted[i].align);
    return GQA_OK;
}

/* --- Launching --- */

struct launch {
    cu_kernel kernel;
    int64_t grid;
    int threads, smem_bytes, cluster;
    bool pdl;
    void *args;
};

static gqa_status launch(struct cuda_device *d, const struct launch *x, cu_stream stream,
                         const char *name, struct gqa_error *err) {
    struct cu_launch_attribute attributes[2];
    memset(attributes, 0, sizeof attributes);
    unsigned count = 0;
    if (x->cluster > 1) {
        attributes[count].id = CU_LAUNCH_CLUSTER;
        attributes[count].value.cluster.x = (unsigned)x->cluster;
        attributes[count].value.cluster.y = attributes[count].value.cluster.z = 1;
        count++;
    }
    if (x->pdl) {
        attributes[count].id = CU_LAUNCH_PROGRAMMATIC;
        attributes[count].value.programmatic = 1;
        count++;
    }
    if (x->grid > MAX_GRID)
        return fail(err, GQA_ERR_SHAPE, "%s: a grid of %lld is too large", name,
                    (long long)x->grid);
    const struct cu_launch config = {
        .grid_x = (unsigned)x->grid,
        .grid_y = 1,
        .grid_z = 1,
        .block_x = (unsigned)x->threads,
        .block_y = 1,
        .block_z = 1,
        .smem_bytes = (unsigned)x->smem_bytes,
        .stream = stream,
        .attributes = count ? attributes : NULL,
        .attribute_count = count,
    };
    void *parameters[] = {x->args, NULL};
    return driver_check(&d->driver, d->driver.launch(&config, x->kernel, parameters, NULL), name,
                        err);
}

/* Zero what the atomic finish adds into. */
static gqa_status launch_zero(struct cuda_device *d, const gqa_plan *plan, const struct gqa_args *a,
                              cu_stream stream, struct gqa_error *err) {
    struct gqa_zero_args z = {
        .o = a->o,
        .o_stride = a->o_stride,
        .cu_seqlens_q = a->cu_seqlens_q,
        .batch = a->batch,
        .q_tokens = a->q_tokens,
        .q_heads = a->q_heads,
        .row_elements = a->head_dim_v,
        .o_bytes = (int32_t)gqa_type_bytes(plan->problem.o_type),
    };
    const int64_t rows = (int64_t)a->batch * a->q_tokens * a->q_heads;
    const struct loaded *helpers = plan->records ? &d->traced_helpers : &d->helpers;
    const struct launch x = {.kernel = helpers->zero,
                             .grid = (rows + COMBINE_WARPS - 1) / COMBINE_WARPS,
                             .threads = COMBINE_THREADS,
                             .cluster = 1,
                             .pdl = plan->info.pdl,
                             .args = &z};
    return launch(d, &x, stream, "gqa_zero", err);
}

static gqa_status launch_combine(struct cuda_device *d, const gqa_plan *plan, struct gqa_args *a,
                                 cu_stream stream, struct gqa_error *err) {
    const int64_t per_cta = COMBINE_WARPS / a->combine_ways;
    if (a->trace) {
        a->trace = (char *)a->trace + (size_t)a->trace_blocks * TRACE_BLOCK_BYTES;
        a->trace_blocks /= 3; /* trace_combine_blocks */
    }
    const struct loaded *helpers = plan->records ? &d->traced_helpers : &d->helpers;
    const struct launch x = {.kernel = helpers->combine,
                             .grid = ((int64_t)a->units * a->part_rows + per_cta - 1) / per_cta,
                             .threads = COMBINE_THREADS,
                             .cluster = 1,
                             .pdl = plan->info.pdl,
                             .args = a};
    return launch(d, &x, stream, "gqa_combine", err);
}

/* Equal lengths, a whole number of units per CTA: nothing was split. */
static bool shares_are_whole(const struct gqa_args *a) {
    return a->schedule == GQA_SCHED_SHARES && !a->kv_lens && !a->cu_seqlens_q && !a->page_indptr &&
           a->units % a->ctas == 0;
}

static gqa_status launch_decode(struct cuda_device *d, const gqa_plan *plan, struct gqa_args *a,
                                cu_stream stream, struct gqa_error *err) {
    const struct kernel_row *row = &kernel_rows[plan->choice.kernel];
    const struct launch x = {.kernel = d->rows[plan->choice.kernel].decode,
                             .grid = plan->choice.numbers[PLAN_CTAS],
                             .threads = 32 * row->warps,
                             .smem_bytes = row->smem_bytes,
                             .cluster = (int)plan->choice.numbers[PLAN_CLUSTER],
                             .pdl = plan->info.pdl,
                             .args = a};
    gqa_status status = GQA_OK;
    if (a->finish == GQA_FINISH_ATOMIC)
        status = launch_zero(d, plan, a, stream, err);
    if (!status)
        status = launch(d, &x, stream, row->name, err);
    if (!status && a->finish == GQA_FINISH_PARTIAL && !shares_are_whole(a))
        status = launch_combine(d, plan, a, stream, err);
    return status;
}

static gqa_status cuda_decode(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                              void *stream, struct gqa_error *err) {
    struct cuda_device *d = (struct cuda_device *)plan->device;
    struct gqa_args a;
    bool pushed;
    gqa_status status = check_alignment(plan, t, err);
    if (status)
        return status;
    memset(&a, 0, sizeof a);
    fill_tensors(&a, &plan->problem, t);
    fill_problem(&a, &plan->problem);
    fill_schedule(&a, plan, workspace);
    const struct kernel_row *row = &kernel_rows[plan->choice.kernel];
    if (row->arch >= KERNEL_sm100)
        status = maps_fill(&d->driver, &plan->problem, row, &a, err);
    if (status)
        return status;
    status = context_enter(d, stream, &pushed, err);
    if (status)
        return status;
    status = launch_decode(d, plan, &a, stream, err);
    context_leave(d, pushed);
    return status;
}

static gqa_status cuda_merge(gqa_device *device, const struct gqa_shards *m, void *stream,
                             struct gqa_error *err) {
    struct cuda_device *d = (struct cuda_device *)device;
    struct gqa_merge_args a = {
        .part_o = m->part_o,
        .part_lse = m->part_lse,
        .o = m->o,
        .lse = m->lse,
        .rows = m->rows * m->q_heads,
        .parts = m->parts,
        .head_dim_v = m->head_dim_v,
        .part_type = (int32_t)m->part_type,
        .o_type = (int32_t)m->o_type,
        .part_base_2 = m->part_base == GQA_BASE_2,
        .o_base_2 = m->o_base == GQA_BASE_2,
    };
    bool pushed;
    gqa_status status = load(d, -1, err);
    if (status || (status = context_enter(d, stream, &pushed, err)))
        return status;
    const struct launch x = {.kernel = d->helpers.merge,
                             .grid = (a.rows + COMBINE_WARPS - 1) / COMBINE_WARPS,
                             .threads = COMBINE_THREADS,
                             .cluster = 1,
                             .args = &a};
    status = launch(d, &x, stream, "gqa_merge", err);
    context_leave(d, pushed);
    return status;
}

const struct backend cuda_backend = {
    .prefixes = prefixes,
    .plans = plans,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .kernel = cuda_kernel,
    .plan = cuda_plan,
    .decode = cuda_decode,
    .merge = cuda_merge,
};
