/* SPDX-License-Identifier: Apache-2.0
 * The whole case table on every kernel of this CPU. A case is built once and run on each kernel;
 * --all adds the slow ones and ten times as many random ones. QUICK=1 in the environment (set for
 * sanitizers, which are slow) keeps the quick ones and fewer random ones. */
#include "test.h"
#include "verify.h"

#include <time.h>

enum { SEED = 1, KERNELS = 8 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_quick(void) {
    const char *quick = getenv("QUICK");
    return quick && quick[0];
}

/* Two threads: splits are made and merged even where the machine has one core. */
static gqa_device *open_cpu(int threads) {
    struct gqa_device_options options = gqa_device_options_init();
    struct gqa_error err;
    gqa_device *device = NULL;
    options.threads = threads;
    if (gqa_device_open("cpu", &options, &device, &err))
        FAIL("%s", err.message);
    return device;
}

/* Names of the kernels that can run here; the others are one skip each. */
static int kernels_here(const gqa_device *device, char names[][64]) {
    struct gqa_device_info info = gqa_device_info_init();
    int n = 0;
    CHECK_INT(gqa_device_describe(device, &info, NULL), GQA_OK);
    for (int i = 0; i < info.kernels; i++) {
        struct gqa_kernel_info kernel = gqa_kernel_info_init();
        CHECK_INT(gqa_device_kernel(device, i, &kernel, NULL), GQA_OK);
        if (kernel.available && n < KERNELS) {
            snprintf(names[n++], 64, "%s", kernel.name);
        } else {
            printf("skip: kernel %s: %s\n", kernel.name, kernel.why);
            test_count(-1);
        }
    }
    return n;
}

/* What a kernel did over the table. */
struct tally {
    int passed, skipped;
    double used; /* greatest share of a tolerance */
    char used_by[CASE_NAME];
};

static void judge(const struct test_case *c, const struct verify_report *report,
                  struct tally *tally) {
    switch (report->outcome) {
    case VERIFY_PASS:
        tally->passed++;
        if (report->compared.used > tally->used) {
            tally->used = report->compared.used;
            snprintf(tally->used_by, sizeof tally->used_by, "%s", c->name);
        }
        test_count(1);
        break;
    case VERIFY_SKIP:
        tally->skipped++;
        printf("skip: %s: %s\n", c->name, report->message);
        test_count(-1);
        break;
    case VERIFY_FAIL:
        printf("FAILED %s (%s)\n  %s\n  %s\n", c->name, c->subject, report->message,
               report->command);
        test_count(0);
        break;
    }
}

static void run_case(const struct test_case *c, int slices, gqa_device *device, char kernels[][64],
                     int n, struct tally *tallies) {
    struct verify_case v;
    struct verify_report report;
    if (!verify_open(&v, c, SEED, &case_memory_host, &report)) {
        judge(c, &report, &tallies[0]);
        return;
    }
    for (int i = 0; i < n; i++) {
        const struct verify_target target = {
            .name = "cpu",
            .device = device,
            .memory = &case_memory_host,
            .kernel = kernels[i],
            .slices = c->level == CASE_QUICK ? slices : 0,
        };
        verify_run(&v, &target, &report);
        judge(c, &report, &tallies[i]);
    }
    verify_close(&v);
}

TEST(every_case_on_every_kernel) {
    const double start = now();
    char kernels[KERNELS][64];
    struct tally tallies[KERNELS] = {0};
    struct case_list list;
    gqa_device *device = open_cpu(2);
    if (!device)
        return;
    const int n = kernels_here(device, kernels);
    CHECK(n > 0);
    if (!case_list_init(&list, test_state.all ? 4000 : is_quick() ? 100 : 400)) {
        FAIL("no memory for the list");
        gqa_device_close(device);
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct test_case *c = &list.cases[i];
        if (c->level == CASE_SLOW && !test_state.all)
            continue;
        if (c->level != CASE_QUICK && is_quick())
            continue;
        run_case(c, 1 + (int)(i % 11), device, kernels, n, tallies);
    }
    for (int i = 0; i < n; i++)
        printf("kernel %s: %d cases right, %d skipped, closest to its limit %s (%.2f)\n",
               kernels[i], tallies[i].passed, tallies[i].skipped, tallies[i].used_by,
               tallies[i].used);
    printf("%zu cases in %.1f s\n", list.count, now() - start);
    case_list_free(&list);
    gqa_device_close(device);
}

TEST(merges_of_made_up_parts) {
    gqa_device *device = open_cpu(2);
    if (!device)
        return;
    const struct verify_target target = {
        .name = "cpu", .device = device, .memory = &case_memory_host};
    struct verify_report report;
    struct tally tally = {0};
    struct test_case c = {.subject = "parts made up from a seed"};
    for (int n = 0; verify_merge(n, SEED, &target, &report) != VERIFY_SKIP || report.message[0];
         n++) {
        snprintf(c.name, sizeof c.name, "merge/%d", n);
        judge(&c, &report, &tally);
    }
    CHECK(tally.passed > 0);
    gqa_device_close(device);
}

/* The same bits for a row alone and among others, in the batch-invariant mode: what makes a model's
 * answers independent of who else is served. */
static void row_alone_and_among(gqa_device *device, const char *kernel, int group) {
    enum { BATCHES = 4, MOST = 64, DIM = 64, HEADS = 2, CAP = 700 };
    static const int batches[BATCHES] = {1, 2, 7, MOST};
    const int q_heads = HEADS * group;
    const size_t kv = (size_t)MOST * HEADS * CAP * DIM, rows = (size_t)MOST * (size_t)q_heads * DIM;
    float *q = malloc(rows * sizeof *q), *k = malloc(kv * sizeof *k), *v = malloc(kv * sizeof *v);
    float *o = malloc(rows * sizeof *o), *first = malloc(rows * sizeof *o);
    struct case_random_state r = {33};
    CHECK(q && k && v && o && first);
    for (size_t i = 0; i < rows; i++)
        q[i] = (float)(4 * case_unit(&r) - 2);
    for (size_t i = 0; i < kv; i++) {
        k[i] = (float)(4 * case_unit(&r) - 2);
        v[i] = (float)(4 * case_unit(&r) - 2);
    }
    for (int i = 0; i < BATCHES; i++) {
        struct gqa_problem p = gqa_problem_init();
        struct gqa_tensors t = gqa_tensors_init();
        struct gqa_error err;
        gqa_plan *plan;
        p.batch = batches[i];
        p.q_heads = q_heads;
        p.kv_heads = HEADS;
        p.head_dim = DIM;
        p.kv_len = CAP;
        p.split_mode = GQA_SPLIT_INVARIANT;
        p.kernel = kernel;
        gqa_problem_pack(&p, GQA_HND);
        int32_t lens[MOST];
        for (int b = 0; b < MOST; b++)
            lens[b] = b ? (int32_t)case_below(&r, CAP + 1) : 600;
        t.q = q;
        t.k = k;
        t.v = v;
        t.o = o;
        t.kv_lens = lens;
        if (gqa_plan_create(device, &p, &plan, &err)) {
            FAIL("%s", err.message);
            break;
        }
        const size_t bytes = gqa_plan_workspace(plan);
        void *workspace = aligned_alloc(256, (bytes + 511) / 256 * 256);
        if (gqa_decode(plan, &t, workspace, bytes, NULL, &err))
            FAIL("%s", err.message);
        if (i == 0)
            memcpy(first, o, (size_t)q_heads * DIM * sizeof *o);
        else if (memcmp(first, o, (size_t)q_heads * DIM * sizeof *o))
            FAIL("kernel %s, group %d: the first row changed in a batch of %d", kernel, group,
                 batches[i]);
        free(workspace);
        gqa_plan_destroy(plan);
    }
    free(q);
    free(k);
    free(v);
    free(o);
    free(first);
}

TEST(invariant_rows_do_not_depend_on_batch_mates) {
    for (int threads = 1; threads <= 3; threads += 2) {
        char kernels[KERNELS][64];
        gqa_device *device = open_cpu(threads);
        if (!device)
            return;
        struct gqa_device_info info = gqa_device_info_init();
        CHECK_INT(gqa_device_describe(device, &info, NULL), GQA_OK);
        for (int i = 0, n = 0; i < info.kernels; i++) {
            struct gqa_kernel_info kernel = gqa_kernel_info_init();
            CHECK_INT(gqa_device_kernel(device, i, &kernel, NULL), GQA_OK);
            if (!kernel.available || n == KERNELS)
                continue;
            snprintf(kernels[n], 64, "%s", kernel.name);
            row_alone_and_among(device, kernels[n], 1);
            row_alone_and_among(device, kernels[n], 6);
            n++;
        }
        gqa_device_close(device);
    }
}

/* A cache of larger capacity, of which the same part is used: with a fixed number of splits the
 * same bits. */
TEST(capacity_does_not_change_the_bits) {
    static const int64_t capacities[] = {300, 512, 40960};
    gqa_device *device = open_cpu(2);
    uint64_t first = 0;
    for (int i = 0; device && i < 3; i++) {
        struct test_case c;
        struct case_instance x;
        struct gqa_error err;
        gqa_plan *plan;
        CHECK(case_find("split/fixed-3", &c));
        c.p.batch = 1; /* the seed then gives the same data, whatever the capacity */
        c.lens[0] = 300;
        c.p.kv_len = capacities[i];
        c.p.o_type = GQA_F32;
        if (!case_build(&x, &c, 4, &case_memory_host)) {
            FAIL("%s", x.why);
            continue;
        }
        if (gqa_plan_create(device, &x.p, &plan, &err)) {
            FAIL("%s", err.message);
            case_free(&x);
            continue;
        }
        const size_t bytes = gqa_plan_workspace(plan);
        void *workspace = aligned_alloc(256, bytes / 256 * 256 + 256);
        CHECK_INT(gqa_decode(plan, &x.device, workspace, bytes, NULL, NULL), GQA_OK);
        CHECK(case_collect(&x));
        uint64_t hash = 0;
        for (size_t at = 0; at < x.buffers[CASE_O].bytes; at++)
            hash = hash * 31 + (unsigned char)x.buffers[CASE_O].host[at];
        if (i == 0)
            first = hash;
        else if (hash != first)
            FAIL("a capacity of %lld gives other bits than one of %lld", (long long)capacities[i],
                 (long long)capacities[0]);
        free(workspace);
        gqa_plan_destroy(plan);
        case_free(&x);
    }
    gqa_device_close(device);
}

TEST_MAIN
