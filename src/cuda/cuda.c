/* SPDX-License-Identifier: Apache-2.0
 * The CUDA backend: plan, build arguments, launch; device.c opens and loads. A decode is at most
 * three launches on the caller's stream (zero, decode, combine); nothing is allocated, copied or
 * waited for. Whatever context was current is current again afterwards. */
#include "args.h"
#include "backend.h"
#include "device.h"
#include "kernels.h"
#include "maps.h"
#include "plan.h"
#include "problem.h"
#include "status.h"
#include "trace.h"

#include <string.h>

enum { COMBINE_THREADS = 256, COMBINE_WARPS = 8, MAX_GRID = INT32_MAX };

#define LOG2E 1.4426950408889634f

static const char *const prefixes[] = {"cuda", "emu", NULL};

static bool plans(const char *part) {
    struct plan_part found;
    return plan_find_part(part, &found);
}

static gqa_status cuda_plan(gqa_device *device, const char *kernel, gqa_plan *plan,
                            struct gqa_error *err) {
    struct cuda_device *d = (struct cuda_device *)device;
    const gqa_status status =
        plan_cuda(&d->part, d->family[0] ? d->family : NULL, kernel, plan, err);
    if (status || device->plan_only)
        return status;
    return device_load(d, plan->choice.kernel, err);
}

/* --- Arguments --- */

static struct gqa_arg_strides arg_strides(const struct gqa_strides *s) {
    return (struct gqa_arg_strides){s->batch, s->token, s->head};
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
    a->trace_blocks = (int32_t)trace_decode_blocks(t->trace ? t->trace_bytes : 0);
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
    a->page_size = page_tokens(p);
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
    const bool adds_rows = plan->choice.numbers[PLAN_FINISH] == GQA_FINISH_ATOMIC &&
                           kernel_rows[plan->choice.kernel].arch >= KERNEL_sm100;
    const struct {
        const char *name;
        const void *p;
        uintptr_t align;
    } wanted[] = {
        {"q", t->q, 8}, {"k", t->k, 16}, {"v", t->v, 16}, {"o", t->o, adds_rows ? 16 : 1}};
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
        a->trace_blocks = (int32_t)trace_combine_blocks((uint32_t)a->trace_blocks);
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
    gqa_status status = device_load(d, -1, err);
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
    .open = device_open,
    .close = device_close,
    .describe = device_describe,
    .kernel = device_kernel,
    .plan = cuda_plan,
    .decode = cuda_decode,
    .merge = cuda_merge,
};
