/* SPDX-License-Identifier: Apache-2.0
 * Modelled times of decode steps: the real PTX in the emulator with its timing model, over the
 * shapes of the benchmarks. Nothing here is a measurement.
 *
 *   modelled [--device emu:sm_90a] [--ctas 32] [--only "16/2 128"] [--kernel NAME] [--every N]
 *            [--compare bench/results/2026-11-30-h200-chosen.csv] [--floor] [--early]
 *
 * A step's time is what each further step adds to a graph of steps: (3 steps - 1 step) / 2, each
 * step with K and V of its own. --compare prints what was measured beside it and closes with the
 * errors: the planner's choice from a file of bench/peers.py, or every forced way ("cluster splits
 * 8", "kernel splits 33") from one of bench/sweep, or with --floor its floors. K and V are zeros.
 * --ctas: so many CTAs of a grid are emulated, the rest is extrapolated (emu/timing.h). */
#include "space_cuda.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, MAX_SHAPES = 2048 };

static struct {
    const char *device, *ctas, *only, *kernel, *compare;
    int every;
    bool floor, early;
} options = {.device = "emu:sm_90a", .ctas = "32", .only = "", .every = 1};

struct shape {
    int batch, q_heads, kv_heads, head_dim;
    int64_t kv_len;
    double measured;
    int splits; /* 0: the planner's choice */
    enum gqa_reduction reduction;
    char kernel[96]; /* with how a grid is made, ":cluster=8" */
};

static struct {
    struct space space;
    gqa_device *device;
    gqa_plan *plan;
    char *pool, *small, *workspace;
    size_t half;
    struct shape shape[MAX_SHAPES];
    int count;
    double error[MAX_SHAPES];
    int errors;
} state;

static void die(const char *what, const struct gqa_error *err) {
    fprintf(stderr, "modelled: %s: %s\n", what, err->message);
    exit(1);
}

/* --- One shape --- */

static gqa_status step(void *context, int64_t run, void *stream, struct gqa_error *err) {
    struct gqa_tensors t = gqa_tensors_init();
    (void)context;
    t.q = state.small;
    t.o = state.small + (8 << 20);
    t.k = state.pool + (size_t)run * 2 * state.half;
    t.v = state.pool + (size_t)run * 2 * state.half + state.half;
    return gqa_decode(state.plan, &t, state.workspace, 64 << 20, stream, err);
}

static gqa_status floor_step(void *context, int64_t run, void *stream, struct gqa_error *err) {
    const struct space_pool pool = {state.pool, 2 * state.half, 2 * state.half, STEPS * 2};
    (void)context;
    (void)stream;
    return cuda_stream_step(&state.space, &pool, run, GQA_PDL_ON, err);
}

static double seconds_of(space_step what, int64_t first, int64_t runs) {
    struct gqa_error err;
    struct cuda_graph *graph;
    double seconds = 0;
    if (cuda_graph_make(&state.space, what, NULL, first, runs, &graph, &err) ||
        cuda_graph_time(&state.space, graph, &seconds, &err))
        die("a step", &err);
    cuda_graph_free(&state.space, graph);
    return seconds;
}

static double us_of(space_step what) {
    const double one = seconds_of(what, 0, 1), all = seconds_of(what, 1, STEPS);
    return 1e6 * (all - one) / (STEPS - 1);
}

static bool plan(const struct shape *s, struct gqa_plan_info *info) {
    struct gqa_problem p = gqa_problem_init();
    struct gqa_error err;
    p.batch = s->batch;
    p.q_heads = s->q_heads;
    p.kv_heads = s->kv_heads;
    p.head_dim = s->head_dim;
    p.kv_len = s->kv_len;
    p.q_type = p.kv_type = p.o_type = GQA_BF16;
    p.pdl = options.early ? GQA_PDL_EARLY : GQA_PDL_AUTO;
    p.kernel = options.kernel ? options.kernel : s->splits ? s->kernel : NULL;
    if (s->splits) {
        p.split_mode = GQA_SPLIT_FIXED;
        p.splits = s->splits;
        p.reduction = s->reduction;
    }
    gqa_problem_pack(&p, GQA_HND);
    if (gqa_plan_create(state.device, &p, &state.plan, &err)) {
        printf("%d %d/%d %d %lld: %s\n", s->batch, s->q_heads, s->kv_heads, s->head_dim,
               (long long)s->kv_len, err.message);
        return false;
    }
    *info = gqa_plan_info_init();
    gqa_plan_describe(state.plan, info, NULL);
    return true;
}

static void model_shape(const struct shape *s) {
    struct gqa_plan_info info;
    state.half =
        (size_t)s->batch * (size_t)s->kv_heads * (size_t)s->kv_len * (size_t)s->head_dim * 2;
    if (!plan(s, &info))
        return;
    state.pool = space_cuda.take(&state.space, state.half * 2 * (STEPS + 1));
    if (!state.pool) {
        fprintf(stderr, "modelled: no address space\n");
        exit(1);
    }
    const double us = us_of(options.floor ? floor_step : step);
    printf("%d %d/%d %d %lld,%s,%s %d,%.2f", s->batch, s->q_heads, s->kv_heads, s->head_dim,
           (long long)s->kv_len, options.floor ? "floor" : info.kernel,
           gqa_reduction_name(info.reduction), info.splits, us);
    if (s->measured > 0) {
        const double off = us / s->measured - 1;
        printf(",%.2f,%+.1f%%", s->measured, 100 * off);
        state.error[state.errors++] = fabs(off);
    }
    printf("\n");
    fflush(stdout);
    space_cuda.give(&state.space, state.pool, state.half * 2 * (STEPS + 1));
    gqa_plan_destroy(state.plan);
}

/* --- Shapes --- */

static void add_shape(struct shape s) {
    char name[64];
    snprintf(name, sizeof name, "%d %d/%d %d %lld", s.batch, s.q_heads, s.kv_heads, s.head_dim,
             (long long)s.kv_len);
    if (strstr(name, options.only) && state.count < MAX_SHAPES)
        state.shape[state.count++] = s;
}

/* The blog post's matrix: one sequence with 16 query heads, then batches with head dim 128. */
static void add_matrix(void) {
    static const int pairs[][2] = {{16, 1}, {16, 2}, {16, 16}};
    static const int batches[] = {1, 4, 8, 16, 32, 64};
    for (int d = 64; d <= 128; d += 64)
        for (int i = 0; i < 3; i++)
            for (int64_t n = 1024; n <= 65536; n *= 2)
                add_shape((struct shape){1, pairs[i][0], pairs[i][1], d, n, 0, 0, 0, ""});
    for (int b = 0; b < 6; b++)
        for (int64_t n = 1024; n <= 8192; n *= 8)
            add_shape((struct shape){batches[b], 64, 8, 128, n, 0, 0, 0, ""});
}

/* A row of a sweep: what is forced, or the floor; false when it is neither. */
static bool sweep_row(const char *line, struct shape *s) {
    char way[96], reduction[16];
    if (sscanf(line, "%*[^,],%63[^,],%95[^,],%lf", s->kernel, way, &s->measured) != 3)
        return false;
    if (options.floor)
        return !strcmp(s->kernel, "floor") && !strcmp(way, "pdl");
    if (strncmp(s->kernel, "gqa_decode_sm", 13) || strstr(s->kernel, "sm80") ||
        strstr(way, "plain") || strstr(way, "early") ||
        sscanf(way, "%15s splits %d", reduction, &s->splits) != 2)
        return false;
    if (strchr(way, ':'))
        strncat(s->kernel, strchr(way, ':'), sizeof s->kernel - strlen(s->kernel) - 1);
    s->reduction = GQA_REDUCE_GRID;
    while (s->reduction > GQA_REDUCE_NONE && strcmp(reduction, gqa_reduction_name(s->reduction)))
        s->reduction--;
    return true;
}

static void add_measured(const char *path) {
    char line[512];
    FILE *f = fopen(path, "r");
    bool peers = false;
    if (!f) {
        fprintf(stderr, "modelled: %s cannot be read\n", path);
        exit(1);
    }
    while (fgets(line, sizeof line, f)) {
        struct shape s = {0};
        long long n;
        peers |= !strncmp(line, "shape,kv_bytes", 14);
        if (sscanf(line, "%d %d/%d %d %lld,", &s.batch, &s.q_heads, &s.kv_heads, &s.head_dim, &n) !=
            5)
            continue;
        s.kv_len = n;
        if (peers ? sscanf(line, "%*[^,],%*[^,],%*[^,],%lf", &s.measured) == 1
                  : sweep_row(line, &s))
            add_shape(s);
    }
    fclose(f);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void close_errors(void) {
    double within = 0;
    const int n = state.errors;
    if (!n)
        return;
    for (int i = 0; i < n; i++)
        within += state.error[i] <= 0.25;
    qsort(state.error, (size_t)n, sizeof *state.error, by_value);
    printf("# %d shapes: |error| median %.1f%%, largest %.1f%%, within 25%%: %.0f\n", n,
           100 * state.error[n / 2], 100 * state.error[n - 1], within);
}

static void open_all(void) {
    struct gqa_error err;
    setenv("EMU_TIMING", "1", 1);
    setenv("EMU_TIMING_CTAS", options.ctas, 1);
    setenv("EMU_CHECK", "off", 1);
    if (space_emulator.open(options.device, &state.space, &err))
        die("the emulator", &err);
    if (gqa_device_open(options.device, NULL, &state.device, &err))
        die("the device", &err);
    state.space.kind = &space_emulator;
    state.small = space_cuda.take(&state.space, 32 << 20);
    state.workspace = space_cuda.take(&state.space, 64 << 20);
}

static void read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        options.early |= !strcmp(argv[i], "--early");
        options.floor |= !strcmp(argv[i], "--floor");
        if (!strcmp(argv[i], "--early") || !strcmp(argv[i], "--floor"))
            continue;
        i++;
        if (!strcmp(argv[i - 1], "--device"))
            options.device = next;
        else if (!strcmp(argv[i - 1], "--ctas"))
            options.ctas = next;
        else if (!strcmp(argv[i - 1], "--only"))
            options.only = next;
        else if (!strcmp(argv[i - 1], "--kernel"))
            options.kernel = next;
        else if (!strcmp(argv[i - 1], "--compare"))
            options.compare = next;
        else if (!strcmp(argv[i - 1], "--every"))
            options.every = atoi(next) > 0 ? atoi(next) : 1;
        else {
            fprintf(stderr, "modelled: %s is no option; see bench/modelled.c\n", argv[i - 1]);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    open_all();
    if (options.compare)
        add_measured(options.compare);
    else
        add_matrix();
    printf("shape,kernel,way,modelled us%s\n", options.compare ? ",measured us,error" : "");
    for (int i = 0; i < state.count; i += options.every)
        model_shape(&state.shape[i]);
    close_errors();
    return 0;
}
