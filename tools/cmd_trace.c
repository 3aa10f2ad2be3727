/* SPDX-License-Identifier: Apache-2.0
 * gqa trace: one decode step with a kernel that records, as Chrome's JSON, as a page and as a
 * picture. The data is random; the step is described by the same options as everywhere. */
#include "commands.h"
#include "memory_cuda.h"
#include "shape.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 2048, MAX_ROLES = 16, NAME = 96, PATH = 4096 };

struct options {
    struct shape shape;
    const char *out;
    int cta, buffer_mib, warmups;
    int64_t seed;
    float from_us, to_us;
};

struct run {
    const struct command *self;
    const struct options *o;
    struct gqa_error err;
    struct case_memory memory;
    struct test_case c;
    struct case_instance x;
    bool has_data;
    gqa_device *device;
    gqa_plan *plan;
    struct gqa_plan_info info;
    struct gqa_device_info about;
    char kernel[NAME];
    char *buffer, *workspace; /* on the device */
    size_t buffer_bytes;
    void *host; /* the buffer's copy */
};

static gqa_status refuse(struct run *r, gqa_status status, const char *message) {
    r->err.status = status;
    snprintf(r->err.message, sizeof r->err.message, "%s", message);
    return status;
}

/* --- The kernel --- */

/* "kernel:rule" to "kernel_trace:rule". */
static void name_traced(char to[NAME], const char *kernel) {
    const int n = (int)strcspn(kernel, ":");
    const bool has = n > 6 && !strncmp(kernel + n - 6, "_trace", 6);
    snprintf(to, NAME, "%.*s%s%s", n, kernel, has ? "" : "_trace", kernel + n);
}

/* Kernels of the device that record, for a refusal. */
static gqa_status refuse_kernel(struct run *r) {
    char list[400] = "";
    for (int i = 0; i < r->about.kernels; i++) {
        struct gqa_kernel_info k = gqa_kernel_info_init();
        gqa_device_kernel(r->device, i, &k, NULL);
        const size_t n = strlen(list);
        if (k.available && strstr(k.name, "_trace") && n + strlen(k.name) + 2 < sizeof list)
            snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", k.name);
    }
    char text[500];
    snprintf(text, sizeof text, "%.*s does not exist; %s records with %s",
             (int)strcspn(r->kernel, ":"), r->kernel, r->o->shape.device,
             list[0] ? list : "no kernel of this build (make TRACES=all)");
    return refuse(r, GQA_ERR_UNSUPPORTED, text);
}

/* The kernel that the plan would take, or that was asked for, as it records. */
static gqa_status plan(struct run *r) {
    struct gqa_problem p = r->x.p;
    p.kernel = r->o->shape.p.kernel;
    gqa_plan *plain = NULL;
    gqa_status status = shape_open_device(&r->o->shape, &r->device, &r->err);
    if (!status)
        status = gqa_device_describe(r->device, &r->about, &r->err);
    if (!status && !p.kernel) {
        status = gqa_plan_create(r->device, &p, &plain, &r->err);
        if (!status)
            status = gqa_plan_describe(plain, &r->info, &r->err);
        p.kernel = r->info.kernel;
    }
    if (status)
        return status;
    name_traced(r->kernel, p.kernel);
    gqa_plan_destroy(plain);
    p.kernel = r->kernel;
    status = gqa_plan_create(r->device, &p, &r->plan, &r->err);
    if (status == GQA_ERR_NAME)
        return refuse_kernel(r);
    return status ? status : gqa_plan_describe(r->plan, &r->info, &r->err);
}

/* --- The step --- */

/* The emulator beside this program, if no other is named; its clock on, its checks, which are other
 * commands' business, off. The device and its memory must find the same. */
static void choose_emulator(struct options *o, char beside[PATH]) {
    const char *slash, *named = getenv("GQA_CUDA_EMU");
    if (strncmp(o->shape.device, "emu", 3))
        return;
    setenv("EMU_PART", o->shape.device + 3 + (o->shape.device[3] == ':'), 1);
    setenv("EMU_TIMING", "1", 0);
    setenv("EMU_CHECK", "off", 0);
    if (o->shape.driver)
        return;
    const ssize_t n = readlink("/proc/self/exe", beside, PATH - 32);
    beside[n > 0 ? n : 0] = 0;
    slash = strrchr(beside, '/');
    if (!named && slash)
        strcpy(beside + (slash - beside), "/libcuda-emu.so");
    o->shape.driver = named ? named : beside;
}

static gqa_status find_memory(struct run *r) {
    const char *name = r->o->shape.device, *driver = r->o->shape.driver;
    const bool is_emulator = !strncmp(name, "emu", 3);
    char why[160];
    if (!is_emulator && strncmp(name, "cuda", 4))
        return refuse(r, GQA_ERR_UNSUPPORTED, "GPU kernels record: --device cuda:N or emu:PART");
    const char *ordinal = strchr(name, ':');
    if (!case_memory_cuda(driver, is_emulator || !ordinal ? 0 : atoi(ordinal + 1), &r->memory, why))
        return refuse(r, GQA_ERR_DEVICE, why);
    return GQA_OK;
}

static gqa_status take(struct run *r) {
    static const enum case_layout layouts[] = {[GQA_HND] = CASE_HND, [GQA_NHD] = CASE_NHD};
    const struct gqa_problem p = shape_problem(&r->o->shape);
    case_from_problem(&p, layouts[r->o->shape.layout], &r->c);
    gqa_status status = find_memory(r);
    if (!status && !case_build(&r->x, &r->c, (uint64_t)r->o->seed, &r->memory))
        status = refuse(r, GQA_ERR_MEMORY, r->x.why);
    r->has_data = !status;
    return status;
}

static gqa_status record(struct run *r) {
    const size_t workspace = gqa_plan_workspace(r->plan);
    r->buffer_bytes = (size_t)r->o->buffer_mib << 20;
    r->host = calloc(r->buffer_bytes, 1);
    r->buffer = r->memory.alloc(r->memory.context, r->buffer_bytes + ALIGN, 256);
    r->workspace = r->memory.alloc(r->memory.context, workspace + 256, 256);
    if (!r->host || !r->buffer || !r->workspace)
        return refuse(r, GQA_ERR_MEMORY, "no memory for the trace");
    char *aligned = r->buffer + (ALIGN - (uintptr_t)r->buffer % ALIGN) % ALIGN;
    struct gqa_tensors t = r->x.device;
    for (int i = 0; i <= r->o->warmups; i++) {
        const bool is_last = i == r->o->warmups;
        t.trace = is_last ? aligned : NULL;
        t.trace_bytes = is_last ? r->buffer_bytes : 0;
        if (!r->memory.upload(r->memory.context, aligned, r->host, r->buffer_bytes))
            return refuse(r, GQA_ERR_DRIVER, "the device failed");
        const gqa_status status = gqa_decode(r->plan, &t, r->workspace, workspace, NULL, &r->err);
        if (status)
            return status;
    }
    if (!r->memory.download(r->memory.context, r->host, aligned, r->buffer_bytes))
        return refuse(r, GQA_ERR_DRIVER, "the step failed on the device");
    return GQA_OK;
}

static void release(struct run *r) {
    if (r->buffer)
        r->memory.release(r->memory.context, r->buffer, r->buffer_bytes + ALIGN);
    if (r->workspace)
        r->memory.release(r->memory.context, r->workspace, gqa_plan_workspace(r->plan) + 256);
    if (r->has_data)
        case_free(&r->x);
    free(r->host);
    gqa_plan_destroy(r->plan);
    gqa_device_close(r->device);
}

/* --- What comes out --- */

static void describe(const struct run *r, struct trace *t) {
    const struct gqa_problem *p = &r->x.p;
    t->kernel = r->info.kernel;
    t->is_modelled = !strncmp(r->o->shape.device, "emu", 3);
    t->device = t->is_modelled ? r->o->shape.device : r->about.product;
    snprintf(t->shape, sizeof t->shape, "batch %lld, heads %d/%d × %d, %lld tokens, %d split%s%s",
             (long long)p->batch, p->q_heads, p->kv_heads, p->head_dim, (long long)p->kv_len,
             r->info.splits, r->info.splits == 1 ? "" : "s", r->info.pdl ? ", PDL" : "");
}

/* Between a range that set something going and the wait that it ended: a copy, a product, a barrier
 * under way. */
static void print_flights(const struct trace_path *path, double end) {
    struct trace_role all = {.life = 0};
    for (size_t i = 0; i < path->count; i++)
        if (path->steps[i].in_flight) {
            struct gqa_trace_span s = *path->steps[i].span;
            s.begin = path->steps[i].begin;
            s.end = path->steps[i].end;
            all.life += s.end - s.begin;
            trace_add_wait(&all, &s);
        }
    printf("%-22s %6s %4.0f %%   ", "in flight", "", 100 * all.life / end);
    for (int j = 0; j < 4 && all.waits[j].name && all.waits[j].ns > end / 200; j++)
        printf("%safter %s %.0f %%", j ? ", " : "", all.waits[j].name, 100 * all.waits[j].ns / end);
    printf("\n");
}

static void print_roles(const struct run *r, const struct trace *t) {
    struct trace_path path = trace_path_of(t, r->o->cta);
    struct trace_role roles[MAX_ROLES];
    const int n = trace_roles(t, r->o->cta, &path, roles, MAX_ROLES);
    printf("%s, %s\n%s on %s: %.2f us, %s\nCTA %d of %d\n\n", t->kernel, t->shape,
           t->is_modelled ? "modelled" : "measured", t->device, t->end / 1000, r->info.reason,
           r->o->cta, t->decode_ctas);
    printf("%-22s %6s %6s   %s\n", "role", "busy", "path", "waits for");
    for (int i = 0; i < n; i++) {
        const struct trace_role *x = &roles[i];
        char label[64];
        trace_label(x->lane, label, sizeof label);
        printf("%-22s %4.0f %% %4.0f %%   ", label, 100 * x->busy / x->life,
               100 * x->on_path / t->end);
        for (int j = 0; j < 4 && x->waits[j].name && x->waits[j].ns > x->life / 200; j++)
            printf("%s%s %.0f %%", j ? ", " : "", x->waits[j].name, 100 * x->waits[j].ns / x->life);
        printf("\n");
    }
    print_flights(&path, t->end);
    free(path.steps);
}

static int write_one(const struct run *r, const struct trace *t, const char *suffix) {
    const char *out = r->o->out;
    const size_t n = strlen(out);
    const int stem = (int)(n > 5 && !strcmp(out + n - 5, ".json") ? n - 5 : n);
    char path[PATH];
    snprintf(path, sizeof path, "%.*s.%s", stem, out, suffix);
    const struct trace_view view = {.cta = r->o->cta,
                                    .from = r->o->from_us * 1000.0,
                                    .to = r->o->to_us > 0 ? r->o->to_us * 1000.0 : t->end};
    const int failed = suffix[0] == 'j'   ? trace_write_chrome(t, path)
                       : suffix[0] == 's' ? trace_write_svg(t, &view, path)
                                          : trace_write_html(t, view.cta, path);
    if (failed)
        perror(path);
    else
        printf("wrote %s\n", path);
    return failed;
}

static int show(struct run *r) {
    struct trace t = {.end = 0};
    if (trace_make(&t, r->host, r->buffer_bytes, &r->err))
        return flags_complain(r->self, EXIT_FAILED, "%s", r->err.message);
    describe(r, &t);
    int code = EXIT_DONE;
    if (r->o->cta >= t.decode_ctas)
        code = flags_complain(r->self, EXIT_USAGE, "CTA %d of %d does not exist", r->o->cta,
                              t.decode_ctas);
    else
        print_roles(r, &t);
    if (!code && r->o->out)
        code = write_one(r, &t, "json") || write_one(r, &t, "html") || write_one(r, &t, "svg")
                   ? EXIT_FAILED
                   : EXIT_DONE;
    if (!code && t.info.lost)
        printf("%zu events had no room: --buffer-mib\n", t.info.lost);
    trace_free(&t);
    return code;
}

static int run(const struct command *self, int argc, char **argv) {
    struct options o = {.buffer_mib = 64, .warmups = -1, .seed = 1};
    int operands = 0;
    const struct flag own[] = {
        {NULL, FLAG_HEADING, NULL, NULL, "Trace", NULL, 0, 0},
        {"out", FLAG_TEXT, (void *)&o.out, "FILE",
         "FILE.json (Perfetto, chrome://tracing), .html, .svg", NULL, 0, 0},
        {"cta", FLAG_INT, &o.cta, "N", "the CTA to show (0)", NULL, 0, INT32_MAX},
        {"from", FLAG_FLOAT, &o.from_us, "US", "where the .svg begins (0)", NULL, 0, 0},
        {"to", FLAG_FLOAT, &o.to_us, "US", "where it ends (the end)", NULL, 0, 0},
        {"buffer-mib", FLAG_INT, &o.buffer_mib, "N", "for events (64)", NULL, 1, 4096},
        {"warmups", FLAG_INT, &o.warmups, "N", "steps before (GPU: 3; emulator: 0)", NULL, 0, 1000},
        {"seed", FLAG_INT64, &o.seed, "N", "of the data (1)", NULL, 0, INT64_MAX},
    };
    struct flag_table tables[4];
    const int n = shape_init(&o.shape, SHAPE_SIZES | SHAPE_OPTIONS | SHAPE_DEVICE, tables + 1);
    tables[0] = (struct flag_table){own, sizeof own / sizeof *own};
    const enum flag_result parsed = flags_parse(self, tables, n + 1, argc, argv, NULL, &operands);
    if (parsed != FLAGS_RUN)
        return parsed == FLAGS_HELP ? EXIT_DONE : EXIT_USAGE;
    if (o.warmups < 0)
        o.warmups = strncmp(o.shape.device, "emu", 3) ? 3 : 0;
    char beside[PATH];
    choose_emulator(&o, beside);
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        return flags_complain(self, EXIT_FAILED, "out of memory");
    r->self = self;
    r->o = &o;
    r->info = gqa_plan_info_init();
    r->about = gqa_device_info_init();
    gqa_status status = take(r);
    if (!status)
        status = plan(r);
    if (!status)
        status = record(r);
    const int code = status ? flags_complain(self, shape_exit(status), "%s: %s",
                                             gqa_status_name(status), r->err.message)
                            : show(r);
    release(r);
    free(r);
    return code;
}

const struct command cmd_trace = {
    .name = "trace",
    .summary = "what every warp of a GPU kernel does, when, and what it waits for",
    .usage = "--device NAME [--out FILE] [--option value ...]",
    .about =
        "Runs one decode step with an instance of the kernel that records when its warps enter\n"
        "which range of work or waiting, and prints a line per role: busy, on the critical\n"
        "path, waiting for what. --out writes a trace for Perfetto, a page with the timeline\n"
        "(no network needed) and a picture. On emu: devices the times are modelled.",
    .example =
        "  gqa trace --device emu:sm_100a --q-heads 8 --kv-heads 1 --kv-len 4096 --splits 2\\\n"
        "      --reduction kernel --out trace.json\n",
    .run = run,
};
