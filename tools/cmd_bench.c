/* SPDX-License-Identifier: Apache-2.0
 * gqa bench: how fast, beside how fast memory is. Named sets are the figures that the project
 * promises, with the promise beside each; without a set, the shape options say what is timed. */
#include "bench.h"
#include "commands.h"
#include "shape.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One row of a named set; it is timed on one thread and on all. */
struct bench_case {
    const char *name;
    int64_t batch;
    int q_heads, kv_heads, head_dim;
    int64_t kv_len;
    enum gqa_type type;
    enum gqa_layout layout;
    int page;
    double goal;        /* least share of the floor, with AVX-512 and its bf16 instructions */
    double goal_avx2;   /* ... of the AVX2 kernel, which converts each element; 0: none */
    const char *versus; /* a case whose time this one's is compared with, on as many threads; "1":
                           this case on one thread */
    double most;        /* ... and the most that the ratio may be */
};

/* clang-format off */
static const struct bench_case cpu_cases[] = {
    /* name          b   q   kv  dim  kv_len  type      layout  page goal  avx2  versus     most */
    {"group-1",      1,  16, 16, 64,  8192,   GQA_BF16, GQA_HND, 0,  0.85, 0.65, NULL,      0},
    {"group-1-d128", 1,  32, 32, 128, 8192,   GQA_BF16, GQA_HND, 0,  0.85, 0.65, NULL,      0},
    {"group-2",      1,  16, 8,  128, 8192,   GQA_BF16, GQA_HND, 0,  0.85, 0,    NULL,      0},
    {"group-4",      1,  32, 8,  128, 8192,   GQA_BF16, GQA_HND, 0,  0.82, 0.42, NULL,      0},
    {"group-4-long", 1,  32, 8,  128, 32768,  GQA_BF16, GQA_HND, 0,  0.82, 0.42, NULL,      0},
    {"group-8",      1,  64, 8,  128, 8192,   GQA_BF16, GQA_HND, 0,  0.66, 0.22, NULL,      0},
    {"group-8-d64",  1,  16, 2,  64,  32768,  GQA_BF16, GQA_HND, 0,  0.68, 0.22, NULL,      0},
    {"group-16",     1, 128, 8,  128, 8192,   GQA_BF16, GQA_HND, 0,  0.40, 0,    NULL,      0},
    {"token-major",  1,  32, 8,  128, 8192,   GQA_BF16, GQA_NHD, 0,  0.60, 0,    NULL,      0},
    {"paged-16",     1,  32, 8,  128, 8192,   GQA_BF16, GQA_HND, 16, 0,    0,    "group-4", 1.10},
    {"short",        1,  32, 8,  128, 128,    GQA_BF16, GQA_HND, 0,  0,    0,    "1",       1.10},
    {"f16-group-4",  1,  32, 8,  128, 8192,   GQA_F16,  GQA_HND, 0,  0.55, 0,    NULL,      0},
};
/* clang-format on */

static const struct bench_set {
    const char *name;
    const struct bench_case *cases;
    int count;
} sets[] = {
    {"cpu", cpu_cases, sizeof cpu_cases / sizeof *cpu_cases},
};
static const char *const clock_names[] = {"wall", "cpu", NULL};
static const char *const set_names[] = {"cpu", NULL};

/* --- Contenders ----------------------------------------------------------------------------- */

static struct gqa_problem case_problem(const struct bench_case *c, const struct shape *shape) {
    struct gqa_problem p = shape_problem(shape);
    p.batch = c->batch;
    p.q_heads = c->q_heads;
    p.kv_heads = c->kv_heads;
    p.head_dim = c->head_dim;
    p.head_dim_v = 0;
    p.kv_len = c->kv_len;
    p.kv_type = p.q_type = p.o_type = c->type;
    p.page_size = c->page;
    p.paging = c->page ? GQA_PAGED_TABLE : GQA_CONTIGUOUS;
    return p;
}

static int find_contender(const struct bench *b, const char *name, int threads) {
    for (int i = 0; i < b->count; i++)
        if (!strcmp(b->contenders[i].name, name) && b->contenders[i].threads == threads)
            return i;
    return -1;
}

static gqa_status add_set(struct bench *b, const struct bench_set *set, const struct shape *shape,
                          const int *threads, int thread_count, struct gqa_error *err) {
    for (int i = 0; i < set->count; i++)
        for (int t = 0; t < thread_count; t++) {
            const struct bench_case *row = &set->cases[i];
            const struct gqa_problem p = case_problem(row, shape);
            struct contender *c;
            const gqa_status status = bench_add(b, &p, row->layout, threads[t], &c, err);
            if (status)
                return status;
            c->name = row->name;
            c->goal = strncmp(c->info.kernel, "avx2", 4) ? row->goal : row->goal_avx2;
            c->most = row->most;
            if (!row->versus)
                continue;
            const bool is_itself = !strcmp(row->versus, "1");
            if (!is_itself || t > 0)
                c->versus = is_itself ? find_contender(b, row->name, 1)
                                      : find_contender(b, row->versus, threads[t]);
        }
    return GQA_OK;
}

static gqa_status add_shape(struct bench *b, const struct shape *shape, const int *threads,
                            int thread_count, struct gqa_error *err) {
    const struct gqa_problem p = shape_problem(shape);
    gqa_status status = GQA_OK;
    for (int t = 0; !status && t < thread_count; t++) {
        struct contender *c;
        status = bench_add(b, &p, (enum gqa_layout)shape->layout, threads[t], &c, err);
    }
    return status;
}

/* --- The table ------------------------------------------------------------------------------ */

static const struct column columns[] = {
    {"case", false},  {"shape", false},  {"device", false},    {"kernel", false},
    {"splits", true}, {"threads", true}, {"median_us", true},  {"min_us", true},
    {"max_us", true}, {"gb_s", true},    {"floor_gb_s", true}, {"of_floor", true},
    {"goal", false},  {"met", false},
};

/* "1 32/8/128 L8192 bf16 hnd", then only what is unusual. */
static void add_shape_cell(struct table *t, const struct contender *c) {
    const struct gqa_problem *p = &c->p;
    char dim_v[16] = "", page[24] = "", q[32] = "";
    if (p->head_dim_v && p->head_dim_v != p->head_dim)
        snprintf(dim_v, sizeof dim_v, ",%d", p->head_dim_v);
    if (p->page_size)
        snprintf(page, sizeof page, " page %d", p->page_size);
    if (p->q_tokens > 1)
        snprintf(q, sizeof q, " q %d%s", p->q_tokens, p->q_ragged ? " ragged" : "");
    table_add(t, "%lld %d/%d/%d%s L%lld %s %s%s%s", (long long)p->batch, p->q_heads, p->kv_heads,
              p->head_dim, dim_v, (long long)p->kv_len, gqa_type_name(p->kv_type),
              c->layout == GQA_HND ? "hnd" : "nhd", page, q);
}

/* The promise and whether it is kept; -1 where there is none. */
static int add_goal_cells(struct table *t, const struct bench *b, const struct contender *c,
                          double of_floor) {
    bool met;
    if (c->goal > 0) {
        table_add(t, ">= %.2f of floor", c->goal);
        met = of_floor >= c->goal;
    } else if (c->versus >= 0) {
        const struct contender *other = &b->contenders[c->versus];
        const double ratio = bench_median(b, c->us, other->us);
        table_add(t, "%.2f x %s/%dT <= %.2f", ratio, other->name, other->threads, c->most);
        met = ratio <= c->most;
    } else {
        table_add(t, "%s", "");
        table_add(t, "%s", "");
        return -1;
    }
    table_add(t, "%s", met ? "yes" : "no");
    return met;
}

/* Returns how many promises are not kept. Without a set there are neither names nor promises. */
static int print_bench(const struct bench *b, bool has_set, enum table_format format) {
    const int all = sizeof columns / sizeof *columns;
    struct table *t = has_set ? table_new(columns, all) : table_new(columns + 1, all - 3);
    int missed = 0;
    for (int i = 0; i < b->count; i++) {
        const struct contender *c = &b->contenders[i];
        const double median = bench_median(b, c->us, NULL);
        const double of_floor = bench_median(b, c->floor_us, c->us);
        double least = c->us[0], most = c->us[0];
        for (int r = 1; r < b->rounds; r++) {
            least = c->us[r] < least ? c->us[r] : least;
            most = c->us[r] > most ? c->us[r] : most;
        }
        if (has_set)
            table_add(t, "%s", c->name);
        add_shape_cell(t, c);
        table_add(t, "%s", b->device);
        table_add(t, "%s", c->info.kernel);
        table_add(t, "%d", c->info.splits);
        table_add(t, "%d", c->threads);
        table_add(t, "%.1f", median);
        table_add(t, "%.1f", least);
        table_add(t, "%.1f", most);
        table_add(t, "%.2f", (double)c->bytes / median * 1e-3);
        table_add(t, "%.2f", (double)c->kv_bytes / bench_median(b, c->floor_us, NULL) * 1e-3);
        table_add(t, "%.3f", of_floor);
        if (has_set)
            missed += add_goal_cells(t, b, c, of_floor) == 0;
    }
    table_print(t, format, stdout);
    table_free(t);
    return missed;
}

/* --- The command ---------------------------------------------------------------------------- */

struct options {
    struct shape shape;
    int set, rounds, round_ms, pool_mib, clock, format;
    bool strict;
};

/* One thread and all of them, unless one number is asked for. A GPU has no such choice. */
static int thread_counts(const struct shape *shape, int counts[2]) {
    struct gqa_device_info info = gqa_device_info_init();
    gqa_device *device;
    counts[0] = shape->threads;
    if (shape->threads || strcmp(shape->device, "cpu"))
        return 1;
    counts[0] = 1;
    if (gqa_device_open(shape->device, NULL, &device, NULL))
        return 1;
    gqa_device_describe(device, &info, NULL);
    gqa_device_close(device);
    counts[1] = info.units;
    return info.units > 1 ? 2 : 1;
}

static int bench(const struct command *self, const struct options *o) {
    struct gqa_device_options device = gqa_device_options_init();
    struct gqa_error err;
    struct bench b;
    int counts[2], missed = 0;
    const int n = thread_counts(&o->shape, counts);
    device.spin_us = o->shape.spin_us;
    device.driver = o->shape.driver;
    gqa_status status = bench_open(&b, o->shape.device, &device, &err);
    if (!status) {
        b.rounds = o->rounds;
        b.round_ms = o->round_ms;
        b.space.clock = (enum space_clock)o->clock;
        b.pool_bytes = (size_t)o->pool_mib << 20;
        b.progress = isatty(STDERR_FILENO);
        status = o->set >= 0 ? add_set(&b, &sets[o->set], &o->shape, counts, n, &err)
                             : add_shape(&b, &o->shape, counts, n, &err);
    }
    if (!status)
        status = bench_run(&b, &err);
    if (status)
        flags_complain(self, shape_exit(status), "%s: %s", gqa_status_name(status), err.message);
    else
        missed = print_bench(&b, o->set >= 0, (enum table_format)o->format);
    bench_close(&b);
    return status ? (int)shape_exit(status) : missed && o->strict ? EXIT_FAILED : EXIT_DONE;
}

static int run(const struct command *self, int argc, char **argv) {
    struct options o = {.set = -1, .rounds = 15, .round_ms = 8, .pool_mib = 512};
    int operands = 0;
    const struct flag own[] = {
        {NULL, FLAG_HEADING, NULL, NULL, "Measuring", NULL, 0, 0},
        {"set", FLAG_CHOICE, &o.set, NULL, "the project's own figures; instead of a shape",
         set_names, 0, 0},
        {"rounds", FLAG_INT, &o.rounds, "N", "of which medians are taken (15)", NULL, 1,
         BENCH_MAX_ROUNDS},
        {"round-ms", FLAG_INT, &o.round_ms, "N", "milliseconds per contender and round (8)", NULL,
         1, 10000},
        {"pool-mib", FLAG_INT, &o.pool_mib, "N", "K and V rotate through so much (512)", NULL, 1,
         1 << 20},
        {"clock", FLAG_CHOICE, &o.clock, NULL,
         "CPU: of the wall, or CPU time per thread, as if threads\n"
         "shared evenly: for a machine busy with other work (wall)",
         clock_names, 0, 0},
        {"strict", FLAG_YES, &o.strict, NULL, "exit with 1 if a goal of the set is missed", NULL, 0,
         0},
        {"format", FLAG_CHOICE, &o.format, NULL, "(text)", table_formats, 0, 0},
    };
    struct flag_table tables[4];
    const int n = shape_init(&o.shape, SHAPE_SIZES | SHAPE_OPTIONS | SHAPE_DEVICE, tables);
    tables[n] = (struct flag_table){own, sizeof own / sizeof *own};
    const enum flag_result parsed = flags_parse(self, tables, n + 1, argc, argv, NULL, &operands);
    if (parsed != FLAGS_RUN)
        return parsed == FLAGS_HELP ? EXIT_DONE : EXIT_USAGE;
    return bench(self, &o);
}

const struct command cmd_bench = {
    .name = "bench",
    .summary = "time per step, beside the speed of memory",
    .usage = "[--set NAME | --option value ...]",
    .about =
        "Times decode steps and, in the same rounds, a plain read of the same K and V: the\n"
        "floor, in four interleaved streams per thread on a CPU. Contenders take turns, K and\n"
        "V rotate through a pool that no cache holds, and medians are reported. gb_s counts\n"
        "Q, K, V and O once; of_floor is the floor's time divided by the step's, 1 being the\n"
        "speed of memory. On a CPU every shape is timed on one thread and on all of them,\n"
        "unless --threads says how many.",
    .example = "  gqa bench --q-heads 32 --kv-heads 8 --head-dim 128 --kv-len 8192 --rounds 9\n"
               "  gqa bench --set cpu --format csv > figures.csv\n",
    .run = run,
};
