/* SPDX-License-Identifier: Apache-2.0
 * The CPU backend: opening a device, choosing a kernel, planning, and running a call on the
 * device's own threads or on the caller's. */
#include "cpu.h"
#include "pool.h"
#include "status.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cpu_device {
    struct gqa_device base;
    unsigned features;
    int threads;
    int kernel; /* forced by the options, or -1 */
    struct pool *pool;
};

/* --- Kernels --- */

/* Kernels of another architecture are listed too, so that the names are the same everywhere. */
#define TYPES(x)                                                                                   \
    { &x[GQA_F32], &x[GQA_BF16], &x[GQA_F16], &x[GQA_E4M3], &x[GQA_E5M2] }
#define ALL_OPS(x)                                                                                 \
    { TYPES(x), TYPES(x) }
#define BF16_OPS(x, rest)                                                                          \
    {                                                                                              \
        {&rest[GQA_F32], &x[GQA_PRECISION_FAST], &rest[GQA_F16], &rest[GQA_E4M3],                  \
         &rest[GQA_E5M2]},                                                                         \
            {&rest[GQA_F32], &x[GQA_PRECISION_EXACT], &rest[GQA_F16], &rest[GQA_E4M3],             \
             &rest[GQA_E5M2]},                                                                     \
    }
#define FOREIGN(kernel, text)                                                                      \
    { .name = kernel, .needs = CPU_FOREIGN, .needs_text = text, .block_bytes = 8192 }

/* block_bytes, segments: tuned on a Zen 3 (AVX2) and a Zen 5 (AVX-512), docs/benchmarks.md. */
const struct cpu_kernel cpu_kernels[] = {
#if defined(__x86_64__)
    {"avx512bf16", CPU_AVX512 | CPU_AVX512_BF16, "AVX-512 F, BW, DQ, VL and BF16",
     BF16_OPS(cpu_ops_avx512bf16, cpu_ops_avx512), 8192, 2},
    {"avx512", CPU_AVX512, "AVX-512 F, BW, DQ and VL", ALL_OPS(cpu_ops_avx512), 8192, 2},
    {"avx2", CPU_AVX2, "AVX2, FMA and F16C", ALL_OPS(cpu_ops_avx2), 4096, 1},
#else
    FOREIGN("avx512bf16", "an x86-64 CPU"),
    FOREIGN("avx512", "an x86-64 CPU"),
    FOREIGN("avx2", "an x86-64 CPU"),
#endif
#if defined(__aarch64__)
    {"neon", CPU_NEON, "Advanced SIMD", ALL_OPS(cpu_ops_neon), 8192, 1},
#else
    FOREIGN("neon", "a 64-bit ARM CPU"),
#endif
    {"c", 0, "nothing", ALL_OPS(cpu_ops_c), 4096, 1},
};

const int cpu_kernel_count = sizeof cpu_kernels / sizeof cpu_kernels[0];

/* Letters to insert, delete or change to get from a to b (Levenshtein), for short names. */
static int distance(const char *a, const char *b) {
    int row[64];
    const int n = (int)strlen(b);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            const int keep = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            row[j] = keep;
            if (diagonal + 1 < row[j])
                row[j] = diagonal + 1;
            if (row[j - 1] + 1 < row[j])
                row[j] = row[j - 1] + 1;
        }
    }
    return row[n];
}

static gqa_status find_kernel(const char *name, int *kernel, struct gqa_error *err) {
    int best = 0, best_distance = 1000;
    for (int i = 0; i < cpu_kernel_count; i++) {
        const int d = distance(name, cpu_kernels[i].name);
        if (d < best_distance) {
            best = i;
            best_distance = d;
        }
    }
    if (best_distance)
        return fail(err, GQA_ERR_NAME,
                    "no CPU kernel is named \"%.40s\"; the nearest is \"%s\" (there are "
                    "avx512bf16, avx512, avx2, neon and c)",
                    name, cpu_kernels[best].name);
    *kernel = best;
    return GQA_OK;
}

static bool is_available(const struct cpu_device *d, int kernel) {
    const struct cpu_kernel *k = &cpu_kernels[kernel];
    return k->ops[0][0] && (d->features & k->needs) == k->needs;
}

/* --- The device --- */

static const char *const prefixes[] = {"cpu", NULL};

static bool plans(const char *part) {
    return !strcmp(part, "cpu");
}

static int cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > GQA_MAX_SLICES ? GQA_MAX_SLICES : n;
}

static void cpu_close(gqa_device *device) {
    struct cpu_device *d = (struct cpu_device *)device;
    pool_destroy(d->pool);
    free(d);
}

static gqa_status cpu_open(const char *name, bool plan_only,
                           const struct gqa_device_options *options, gqa_device **device,
                           struct gqa_error *err) {
    if (strcmp(name, "cpu"))
        return fail(err, GQA_ERR_NAME, "no device is named \"%.40s\"; expected \"cpu\"", name);
    struct cpu_device *d = calloc(1, sizeof *d);
    if (!d)
        return fail(err, GQA_ERR_MEMORY, "no %zu bytes for a device", sizeof *d);
    d->features = cpu_probe();
    d->threads = options->threads ? options->threads : cores();
    d->kernel = -1;
    gqa_status status = GQA_OK;
    if (options->kernel && (status = find_kernel(options->kernel, &d->kernel, err)))
        goto out;
    if (d->kernel >= 0 && !plan_only && !is_available(d, d->kernel)) {
        status = fail(err, GQA_ERR_DEVICE, "kernel %s needs %s, which is not here",
                      cpu_kernels[d->kernel].name, cpu_kernels[d->kernel].needs_text);
        goto out;
    }
    if (d->threads > 1 && !plan_only) {
        d->pool = pool_create(d->threads, options->spin_us);
        if (!d->pool)
            status = fail(err, GQA_ERR_MEMORY, "the system refused %d threads", d->threads);
    }
out:
    if (status)
        cpu_close(&d->base);
    else
        *device = &d->base;
    return status;
}

static void cpu_describe(const gqa_device *device, struct gqa_device_info *info) {
    const struct cpu_device *d = (const struct cpu_device *)device;
    cpu_probe_product(info->product, sizeof info->product);
    snprintf(
        info->features, sizeof info->features, "%s%s%s%s",
        d->features & CPU_AVX2 ? "avx2 fma f16c " : "", d->features & CPU_AVX512 ? "avx512 " : "",
        d->features & CPU_AVX512_BF16 ? "avx512_bf16 " : "", d->features & CPU_NEON ? "neon " : "");
    const size_t n = strlen(info->features);
    if (n)
        info->features[n - 1] = 0;
    info->units = d->threads;
    info->kernels = cpu_kernel_count;
}

static void cpu_kernel(const gqa_device *device, int index, struct gqa_kernel_info *info) {
    const struct cpu_device *d = (const struct cpu_device *)device;
    snprintf(info->name, sizeof info->name, "%s", cpu_kernels[index].name);
    info->available = is_available(d, index);
    if (!info->available)
        snprintf(info->why, sizeof info->why, "needs %s", cpu_kernels[index].needs_text);
}

/* --- Plans --- */

static gqa_status choose_kernel(const struct cpu_device *d, const char *name, int *kernel,
                                struct gqa_error *err) {
    const bool plan_only = d->base.plan_only;
    if (name) {
        const gqa_status status = find_kernel(name, kernel, err);
        if (status)
            return status;
        if (d->kernel >= 0 && d->kernel != *kernel)
            return fail(err, GQA_ERR_UNSUPPORTED,
                        "problem.kernel is %s, but the device was opened with kernel %s", name,
                        cpu_kernels[d->kernel].name);
    } else if (d->kernel >= 0) {
        *kernel = d->kernel;
    } else {
        for (*kernel = 0; !is_available(d, *kernel); ++*kernel)
            continue;
    }
    if (!plan_only && !is_available(d, *kernel))
        return fail(err, GQA_ERR_UNSUPPORTED, "kernel %s needs %s, which this CPU does not have",
                    cpu_kernels[*kernel].name, cpu_kernels[*kernel].needs_text);
    return GQA_OK;
}

static gqa_status cpu_plan(gqa_device *device, const char *kernel, gqa_plan *plan,
                           struct gqa_error *err) {
    const struct cpu_device *d = (const struct cpu_device *)device;
    const struct gqa_problem *p = &plan->problem;
    struct gqa_plan_info *info = &plan->info;
    struct cpu_layout l;
    const gqa_status status = choose_kernel(d, kernel, &plan->choice.kernel, err);
    if (status)
        return status;
    cpu_layout(p, &cpu_kernels[plan->choice.kernel], &l);
    if (l.workspace_bytes > PTRDIFF_MAX / 4)
        return fail(err, GQA_ERR_SHAPE,
                    "%lld splits of %lld sequences need more workspace than there is memory",
                    (long long)l.splits, (long long)p->batch);

    const int64_t shares = cpu_share_count(p, &l, cpu_full_tokens(p), d->threads);
    snprintf(info->kernel, sizeof info->kernel, "%s", cpu_kernels[plan->choice.kernel].name);
    info->reduction = GQA_REDUCE_KERNEL;
    info->splits = (int)(l.splits ? l.splits : shares);
    info->split_tokens = l.split_tokens;
    info->work_items = shares;
    info->workspace_bytes = l.workspace_bytes;
    plan->choice.splits = info->splits;
    plan->choice.tokens = info->split_tokens;
    snprintf(info->reason, sizeof info->reason,
             "%s: %s; lanes of %d of %d KV heads, blocks of %d tokens; %s", info->kernel,
             kernel || d->kernel >= 0 ? "named by the caller" : "best available", l.heads,
             p->kv_heads, l.block,
             l.splits ? "one work item per split" : "equal shares of all tokens per thread");
    return GQA_OK;
}

/* --- Calls --- */

static struct cpu_call call_of(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                               int threads) {
    struct cpu_call c = {.plan = plan, .p = &plan->problem, .t = t, .workspace = workspace};
    const struct cpu_kernel *kernel = &cpu_kernels[plan->choice.kernel];
    c.ops = kernel->ops[c.p->precision][c.p->kv_type];
    cpu_layout(c.p, kernel, &c.layout);
    cpu_call_begin(&c, threads);
    return c;
}

/* A job for the pool: `total` units, dealt out in `parts` equal pieces. */
struct job {
    const struct cpu_call *call;
    int64_t total, parts;
};

static void run_shares(void *arg, int64_t part, int worker) {
    const struct job *job = arg;
    const int64_t end = job->total * (part + 1) / job->parts;
    for (int64_t i = job->total * part / job->parts; i < end; i++)
        cpu_share_run(job->call, i, worker);
}

static void run_folds(void *arg, int64_t part, int worker) {
    const struct job *job = arg;
    (void)worker;
    const int64_t end = job->total * (part + 1) / job->parts;
    for (int64_t i = job->total * part / job->parts; i < end; i++)
        cpu_fold_run(job->call, i);
}

static struct job job_of(const struct cpu_call *c, int64_t total, int threads) {
    const int64_t most = (int64_t)threads * 16;
    return (struct job){c, total, total < most ? total : most};
}

static gqa_status cpu_decode(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                             void *stream, struct gqa_error *err) {
    const struct cpu_device *d = (const struct cpu_device *)plan->device;
    if (stream)
        return fail(err, GQA_ERR_ARGUMENT, "stream is not NULL, but a CPU has no streams");
    if (plan->problem.check_tables) {
        const gqa_status status = cpu_check_tables(&plan->problem, t, err);
        if (status)
            return status;
    }
    const struct cpu_call c = call_of(plan, t, workspace, d->threads);
    const bool wake = cpu_call_is_large(&c);
    struct job shares = job_of(&c, c.shares, d->threads);
    struct job folds = job_of(&c, cpu_fold_parts(&c), d->threads);
    pool_run(d->pool, run_shares, &shares, shares.parts, c.layout.workers, wake);
    pool_run(d->pool, run_folds, &folds, folds.parts, c.layout.workers, wake && c.layout.splits);
    return GQA_OK;
}

static gqa_status cpu_slice(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                            int slice, int slices, struct gqa_error *err) {
    if (plan->problem.check_tables) {
        const gqa_status status = cpu_check_tables(&plan->problem, t, err);
        if (status)
            return status;
    }
    const struct cpu_call c = call_of(plan, t, workspace, slices);
    const int64_t used = slices < c.layout.workers ? slices : c.layout.workers;
    if (slice < used)
        for (int64_t i = c.shares * slice / used; i < c.shares * (slice + 1) / used; i++)
            cpu_share_run(&c, i, slice);
    return GQA_OK;
}

static gqa_status cpu_finish(const gqa_plan *plan, const struct gqa_tensors *t, void *workspace,
                             int slices, struct gqa_error *err) {
    if (plan->problem.check_tables) {
        const gqa_status status = cpu_check_tables(&plan->problem, t, err);
        if (status)
            return status;
    }
    const struct cpu_call c = call_of(plan, t, workspace, slices);
    for (int64_t i = 0; i < cpu_fold_parts(&c); i++)
        cpu_fold_run(&c, i);
    return GQA_OK;
}

const struct backend cpu_backend = {
    .prefixes = prefixes,
    .plans = plans,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .kernel = cpu_kernel,
    .plan = cpu_plan,
    .decode = cpu_decode,
    .merge = cpu_merge,
    .slice = cpu_slice,
    .finish = cpu_finish,
};
