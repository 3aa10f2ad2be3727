/* SPDX-License-Identifier: Apache-2.0
 * Every kernel of every driver that is present, on every case of the list that it can do, with
 * every way to cut and merge: on a GPU all cases of normal size, in the emulator the quick ones.
 *
 *   test_kernels --device cuda:0 --shard 2/8     a part of the work, for several processes
 *   test_kernels --kernel sm90_bf16 --case group kernels and cases whose name contains this; a case
 *                                                of just that name alone
 *   test_kernels --not far-                      no cases whose name contains this
 *   test_kernels --normal                        cases of normal size in the emulator too
 *   test_kernels --random 500                    how many random combinations of features
 *   test_kernels --pick 7                        each case once, on a kernel and a way to cut that
 *                                                the number picks: 7, 8, ... are different samples
 */
#include "../oracle/memory_cuda.h"
#include "../oracle/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *device, *kernel, *only, *except;
    int shard, shards, random, pick;
    bool normal, exact;
} options = {.kernel = "", .only = "", .shards = 1, .random = -1, .pick = -1};

static int passed, failed, skipped, refused;

/* What a kernel is asked to do with a case that leaves it open. */
static const struct variant {
    const char *name;
    enum gqa_split_mode mode;
    int splits;
    int64_t split_tokens;
    enum gqa_reduction reduction;
    const char *suffix; /* of the kernel's name */
    enum gqa_pdl pdl;
} variants[] = {
    {"auto", GQA_SPLIT_AUTO, 0, 0, GQA_REDUCE_AUTO, "", GQA_PDL_AUTO},
    {"none", GQA_SPLIT_FIXED, 1, 0, GQA_REDUCE_NONE, "", GQA_PDL_EARLY},
    {"kernel 3", GQA_SPLIT_FIXED, 3, 0, GQA_REDUCE_KERNEL, "", GQA_PDL_AUTO},
    {"shares", GQA_SPLIT_AUTO, 0, 0, GQA_REDUCE_KERNEL, "", GQA_PDL_EARLY},
    {"invariant 64", GQA_SPLIT_INVARIANT, 0, 64, GQA_REDUCE_AUTO, "", GQA_PDL_AUTO},
    {"cluster 2", GQA_SPLIT_FIXED, 2, 0, GQA_REDUCE_CLUSTER, "", GQA_PDL_AUTO},
    {"cluster 5", GQA_SPLIT_FIXED, 5, 0, GQA_REDUCE_CLUSTER, "", GQA_PDL_EARLY},
    {"cluster 16", GQA_SPLIT_FIXED, 16, 0, GQA_REDUCE_CLUSTER, "", GQA_PDL_AUTO},
    {"grid of 3", GQA_SPLIT_FIXED, 3, 0, GQA_REDUCE_GRID, "", GQA_PDL_AUTO},
    {"grid of 20 CTAs", GQA_SPLIT_FIXED, 20, 0, GQA_REDUCE_GRID, ":cluster=1", GQA_PDL_EARLY},
    {"two clusters of 10", GQA_SPLIT_FIXED, 20, 0, GQA_REDUCE_GRID, ":cluster=10", GQA_PDL_AUTO},
    {"grid of shares", GQA_SPLIT_AUTO, 0, 0, GQA_REDUCE_GRID, ":shares", GQA_PDL_AUTO},
    {"atomic 4", GQA_SPLIT_FIXED, 4, 0, GQA_REDUCE_ATOMIC, "", GQA_PDL_AUTO},
};

enum { VARIANTS = sizeof variants / sizeof *variants };

/* Returns false if the kernel does not do that. */
static bool run(struct verify_case *v, const struct verify_target *on, const struct variant *way) {
    const struct gqa_problem p = v->x.p;
    struct verify_target target = *on;
    struct verify_report report;
    char kernel[96];
    if (way) {
        snprintf(kernel, sizeof kernel, "%s%s", on->kernel, way->suffix);
        target.kernel = kernel;
        v->x.p.pdl = way->pdl;
        v->x.p.split_mode = way->mode;
        v->x.p.splits = way->splits;
        v->x.p.split_tokens = way->split_tokens;
        v->x.p.reduction = way->reduction;
    }
    const enum verify_outcome outcome = verify_run(v, &target, &report);
    switch (outcome) {
    case VERIFY_PASS:
        passed++;
        break;
    case VERIFY_SKIP:
        refused++;
        break;
    case VERIFY_FAIL:
        failed++;
        printf("FAILED %s on %s, %s, %s, seed %llu: %s\n", v->x.c->name, target.kernel, target.name,
               way ? way->name : "as the case says", (unsigned long long)v->x.seed, report.message);
        break;
    }
    v->x.p = p;
    return outcome != VERIFY_SKIP;
}

/* Can kernel i run here, and was it asked for? Its name stays where the report may keep it. */
static const char *kernel_name(const struct verify_target *target, int i) {
    static char name[sizeof((struct gqa_kernel_info *)0)->name];
    struct gqa_kernel_info kernel = gqa_kernel_info_init();
    gqa_device_kernel(target->device, i, &kernel, NULL);
    memcpy(name, kernel.name, sizeof name);
    const bool records = strstr(name, "_trace") && !strstr(options.kernel, "trace");
    return kernel.available && !records && strstr(name, options.kernel) ? name : NULL;
}

/* The case on every kernel of the device that was asked for, or on the one that `pick` meets. */
static void run_case(struct verify_case *v, struct verify_target *target, size_t number) {
    struct gqa_device_info info = gqa_device_info_init();
    const struct gqa_problem *p = &v->x.p;
    const bool is_open =
        p->split_mode == GQA_SPLIT_AUTO && p->reduction == GQA_REDUCE_AUTO && !v->x.c->shards;
    gqa_device_describe(target->device, &info, NULL);
    const int ways = is_open ? VARIANTS : 1, count = info.kernels * ways;
    const int first =
        options.pick < 0 ? 0 : (int)((number + (size_t)options.pick) * 7919 % (size_t)count);
    for (int n = 0; n < count; n++) {
        const int at = (first + n) % count;
        target->kernel = kernel_name(target, at / ways);
        if (target->kernel && run(v, target, is_open ? &variants[at % ways] : NULL) &&
            options.pick >= 0)
            break;
    }
}

static bool is_asked_for(const struct test_case *c) {
    return (options.exact ? !strcmp(c->name, options.only) : !!strstr(c->name, options.only)) &&
           !(options.except && strstr(c->name, options.except));
}

static void walk(struct verify_target *target, enum case_level level) {
    struct case_list list;
    struct test_case found;
    options.exact = case_find(options.only, &found);
    if (!case_list_init(&list, options.random)) {
        failed++;
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct test_case *c = &list.cases[i];
        struct verify_case v;
        struct verify_report report;
        if (c->level > level || !is_asked_for(c) ||
            (int)(i % (size_t)options.shards) != options.shard)
            continue;
        if (!verify_open(&v, c, 1, target->memory, &report)) {
            skipped++;
            printf("skip: %s: %s\n", c->name, report.message);
            continue;
        }
        run_case(&v, target, i);
        verify_close(&v);
    }
    case_list_free(&list);
    for (int n = 0; options.shard == 0 && !options.only[0]; n++) {
        struct verify_report report;
        target->kernel = NULL;
        const enum verify_outcome outcome = verify_merge(n, 1, target, &report);
        if (outcome == VERIFY_SKIP && !report.message[0])
            break;
        passed += outcome == VERIFY_PASS;
        refused += outcome == VERIFY_SKIP;
        failed += outcome == VERIFY_FAIL;
        if (outcome == VERIFY_FAIL)
            printf("FAILED merge %d on %s: %s\n", n, target->name, report.message);
    }
}

static void test_device(const char *name) {
    struct case_memory memory;
    struct gqa_error err;
    char why[160];
    struct verify_target target = {.name = name, .memory = &memory};
    const bool is_emulator = !strncmp(name, "emu", 3);
    const char *path = is_emulator ? getenv("GQA_CUDA_EMU") : NULL;
    if (is_emulator && !path)
        path = "build/libcuda-emu.so";
    const gqa_status status = gqa_device_open(name, NULL, &target.device, &err);
    if (status) {
        skipped++;
        printf("skip: %s: %s\n", name, err.message);
        return;
    }
    if (!case_memory_cuda(path, is_emulator ? 0 : atoi(name + strcspn(name, ":") + 1), &memory,
                          why)) {
        skipped++;
        printf("skip: the memory of %s: %s\n", name, why);
    } else {
        if (options.random < 0)
            options.random = is_emulator ? 4 : 200;
        walk(&target, is_emulator && !options.normal ? CASE_QUICK : CASE_NORMAL);
    }
    gqa_device_close(target.device);
}

static const char *value(int argc, char **argv, int *i) {
    return *i + 1 < argc ? argv[++*i] : "";
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--device"))
            options.device = value(argc, argv, &i);
        else if (!strcmp(a, "--kernel"))
            options.kernel = value(argc, argv, &i);
        else if (!strcmp(a, "--case"))
            options.only = value(argc, argv, &i);
        else if (!strcmp(a, "--not"))
            options.except = value(argc, argv, &i);
        else if (!strcmp(a, "--random"))
            options.random = atoi(value(argc, argv, &i));
        else if (!strcmp(a, "--normal"))
            options.normal = true;
        else if (!strcmp(a, "--pick"))
            options.pick = atoi(value(argc, argv, &i));
        else if (!strcmp(a, "--shard"))
            sscanf(value(argc, argv, &i), "%d/%d", &options.shard, &options.shards);
    }
    if (options.device)
        test_device(options.device);
    else
        test_device("cuda:0");
    printf("%d combinations that a kernel does not do were refused\n", refused);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || !(passed + skipped);
}
