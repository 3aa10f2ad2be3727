/* SPDX-License-Identifier: Apache-2.0
 * Threads: many callers of one device and one plan, slices on the caller's own threads, and the
 * bits, which must not depend on any of it. Run it under SAN=thread too. */
#include "cases.h"
#include "test.h"

#include <pthread.h>

enum { CALLERS = 8, ROUNDS = 4 };

static gqa_device *cpu(int threads, int spin_us) {
    struct gqa_device_options options = gqa_device_options_init();
    struct gqa_error err;
    gqa_device *device = NULL;
    options.threads = threads;
    options.spin_us = spin_us;
    if (gqa_device_open("cpu", &options, &device, &err))
        FAIL("%s", err.message);
    return device;
}

/* Splits, several tokens, a window, unequal lengths: everything that work can be cut by. */
static bool build(struct case_instance *x, struct test_case *c, enum gqa_split_mode mode) {
    CHECK(case_find("queries/ragged", c));
    const int32_t lens[] = {500, 16, 800, 3, 0, 130, 64, 65};
    memcpy(c->lens, lens, sizeof lens);
    c->p.kv_len = 800;
    c->p.split_mode = mode;
    c->p.splits = mode == GQA_SPLIT_FIXED ? 5 : 0;
    c->p.o_type = GQA_F32;
    if (case_build(x, c, 11, &case_memory_host))
        return true;
    FAIL("%s", x->why);
    return false;
}

/* One caller's outputs and workspace. */
struct outputs {
    struct gqa_tensors t;
    size_t o_bytes, lse_bytes, workspace_bytes;
    char *o, *lse, *workspace;
};

static struct outputs outputs_of(const struct case_instance *x, size_t workspace_bytes) {
    struct outputs y = {.t = x->device,
                        .o_bytes = x->buffers[CASE_O].bytes,
                        .lse_bytes = x->buffers[CASE_LSE].bytes,
                        .workspace_bytes = workspace_bytes};
    y.o = malloc(y.o_bytes);
    y.lse = malloc(y.lse_bytes);
    y.workspace = aligned_alloc(256, workspace_bytes / 256 * 256 + 256);
    memset(y.o, 0xff, y.o_bytes);
    memset(y.lse, 0xff, y.lse_bytes);
    memset(y.workspace, 0xff, workspace_bytes);
    y.t.o = y.o;
    y.t.lse = (float *)(void *)y.lse;
    return y;
}

static void outputs_free(struct outputs *y) {
    free(y->o);
    free(y->lse);
    free(y->workspace);
}

static bool outputs_equal(const struct outputs *a, const struct outputs *b) {
    return !memcmp(a->o, b->o, a->o_bytes) && !memcmp(a->lse, b->lse, a->lse_bytes);
}

static gqa_plan *plan_of(gqa_device *device, const struct case_instance *x) {
    struct gqa_error err;
    gqa_plan *plan = NULL;
    if (gqa_plan_create(device, &x->p, &plan, &err))
        FAIL("%s", err.message);
    return plan;
}

/* --- Many callers --- */

struct caller {
    pthread_t thread;
    const gqa_plan *plan;
    struct outputs y;
    gqa_status status;
    int slice, slices;
    gqa_device *device; /* to merge on */
};

static void *call(void *arg) {
    struct caller *c = arg;
    for (int i = 0; i < ROUNDS && !c->status; i++)
        c->status = gqa_decode(c->plan, &c->y.t, c->y.workspace, c->y.workspace_bytes, NULL, NULL);
    return NULL;
}

TEST(callers_share_a_device_and_a_plan) {
    struct test_case c;
    struct case_instance x;
    if (!build(&x, &c, GQA_SPLIT_AUTO))
        return;
    for (int threads = 1; threads <= 4; threads += 2) {
        gqa_device *device = cpu(threads, threads == 3 ? 50 : 0);
        gqa_plan *plan = plan_of(device, &x);
        struct gqa_plan_info info = gqa_plan_info_init();
        CHECK_INT(gqa_plan_describe(plan, &info, NULL), GQA_OK);
        CHECK(info.work_items > 1 || threads == 1); /* else there is nothing to share */
        struct caller alone = {.plan = plan, .y = outputs_of(&x, gqa_plan_workspace(plan))};
        struct caller callers[CALLERS];
        call(&alone);
        CHECK_INT(alone.status, GQA_OK);
        for (int i = 0; i < CALLERS; i++) {
            callers[i] =
                (struct caller){.plan = plan, .y = outputs_of(&x, gqa_plan_workspace(plan))};
            CHECK_INT(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
        }
        for (int i = 0; i < CALLERS; i++) {
            pthread_join(callers[i].thread, NULL);
            CHECK_INT(callers[i].status, GQA_OK);
            if (!outputs_equal(&alone.y, &callers[i].y))
                FAIL("caller %d of a device with %d threads got other bits", i, threads);
            outputs_free(&callers[i].y);
        }
        outputs_free(&alone.y);
        gqa_plan_destroy(plan);
        gqa_device_close(device);
    }
    case_free(&x);
}

static void *open_and_close(void *arg) {
    struct case_instance *x = arg;
    for (int i = 0; i < ROUNDS; i++) {
        gqa_device *device = NULL;
        gqa_plan *plan = NULL;
        struct gqa_device_options options = gqa_device_options_init();
        options.threads = 1 + i % 3;
        if (gqa_device_open("cpu", &options, &device, NULL) ||
            gqa_plan_create(device, &x->p, &plan, NULL))
            return x;
        struct outputs y = outputs_of(x, gqa_plan_workspace(plan));
        const gqa_status status =
            gqa_decode(plan, &y.t, y.workspace, y.workspace_bytes, NULL, NULL);
        outputs_free(&y);
        gqa_plan_destroy(plan);
        gqa_device_close(device);
        if (status)
            return x;
    }
    return NULL;
}

TEST(devices_come_and_go_in_many_threads) {
    struct test_case c;
    struct case_instance x;
    pthread_t threads[CALLERS];
    void *failed;
    if (!build(&x, &c, GQA_SPLIT_FIXED))
        return;
    for (int i = 0; i < CALLERS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, open_and_close, &x), 0);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
    case_free(&x);
}

/* --- The same bits --- */

/* Decode once on a fresh device of so many threads. */
static struct outputs decode_on(const struct case_instance *x, int threads) {
    gqa_device *device = cpu(threads, 0);
    gqa_plan *plan = plan_of(device, x);
    struct outputs y = outputs_of(x, gqa_plan_workspace(plan));
    CHECK_INT(gqa_decode(plan, &y.t, y.workspace, y.workspace_bytes, NULL, NULL), GQA_OK);
    gqa_plan_destroy(plan);
    gqa_device_close(device);
    return y;
}

TEST(invariant_bits_do_not_depend_on_the_thread_count) {
    static const int counts[] = {2, 3, 4, 7, 16};
    struct test_case c;
    struct case_instance x;
    if (!build(&x, &c, GQA_SPLIT_INVARIANT))
        return;
    struct outputs one = decode_on(&x, 1);
    for (int i = 0; i < 5; i++) {
        struct outputs many = decode_on(&x, counts[i]);
        if (!outputs_equal(&one, &many))
            FAIL("%d threads give other bits than one", counts[i]);
        outputs_free(&many);
    }
    outputs_free(&one);
    case_free(&x);
}

TEST(every_mode_gives_the_same_bits_again) {
    struct test_case c;
    struct case_instance x;
    for (int mode = GQA_SPLIT_AUTO; mode <= GQA_SPLIT_INVARIANT; mode++) {
        if (!build(&x, &c, (enum gqa_split_mode)mode))
            return;
        struct outputs first = decode_on(&x, 3);
        for (int i = 0; i < 8; i++) {
            struct outputs again = decode_on(&x, 3);
            if (!outputs_equal(&first, &again))
                FAIL("split mode %d: run %d gives other bits", mode, i);
            outputs_free(&again);
        }
        outputs_free(&first);
        case_free(&x);
    }
}

static void *run_slice(void *arg) {
    struct caller *c = arg;
    c->status = gqa_decode_slice(c->plan, &c->y.t, c->y.workspace, c->y.workspace_bytes, c->slice,
                                 c->slices, NULL);
    return NULL;
}

/* Slices on the caller's threads, all in one workspace and one output, then the finish. */
TEST(slices_give_the_bits_of_as_many_threads) {
    static const int counts[] = {1, 2, 3, 5, 8, 64};
    struct test_case c;
    struct case_instance x;
    for (int mode = GQA_SPLIT_AUTO; mode <= GQA_SPLIT_INVARIANT; mode++) {
        if (!build(&x, &c, (enum gqa_split_mode)mode))
            return;
        gqa_device *device = cpu(1, 0);
        gqa_plan *plan = plan_of(device, &x);
        for (int k = 0; k < 6; k++) {
            const int n = counts[k];
            struct outputs expected = decode_on(&x, n);
            struct outputs y = outputs_of(&x, gqa_plan_workspace(plan));
            struct caller callers[64];
            for (int i = 0; i < n; i++) {
                callers[i] = (struct caller){.plan = plan, .y = y, .slice = i, .slices = n};
                CHECK_INT(pthread_create(&callers[i].thread, NULL, run_slice, &callers[i]), 0);
            }
            for (int i = 0; i < n; i++) {
                pthread_join(callers[i].thread, NULL);
                CHECK_INT(callers[i].status, GQA_OK);
            }
            CHECK_INT(gqa_decode_finish(plan, &y.t, y.workspace, y.workspace_bytes, n, NULL),
                      GQA_OK);
            if (!outputs_equal(&expected, &y))
                FAIL("split mode %d: %d slices give other bits than %d threads", mode, n, n);
            outputs_free(&y);
            outputs_free(&expected);
        }
        gqa_plan_destroy(plan);
        gqa_device_close(device);
        case_free(&x);
    }
}

/* One device works for callers of different plans, and for merges, at the same time. */
static void *merge_often(void *arg) {
    struct caller *c = arg;
    float parts[4 * 3 * 8], lse[4 * 3], o[3 * 8];
    struct gqa_shards m = gqa_shards_init();
    for (int i = 0; i < 96; i++)
        parts[i] = (float)i;
    memset(lse, 0, sizeof lse);
    m.parts = 4;
    m.rows = 3;
    m.q_heads = 1;
    m.head_dim_v = 8;
    m.part_o = parts;
    m.part_lse = lse;
    m.o = o;
    for (int i = 0; i < 200 && !c->status; i++) {
        c->status = gqa_merge(c->device, &m, NULL, NULL);
        if (fabsf(o[5] - (5 + 36)) > 1e-3f)
            c->status = GQA_ERR_DEVICE;
    }
    return NULL;
}

TEST(merges_and_decodes_share_a_device) {
    struct test_case c;
    struct case_instance x;
    if (!build(&x, &c, GQA_SPLIT_FIXED))
        return;
    gqa_device *device = cpu(3, 0);
    gqa_plan *plan = plan_of(device, &x);
    struct caller decoder = {.plan = plan, .y = outputs_of(&x, gqa_plan_workspace(plan))};
    struct caller merger = {.device = device};
    CHECK_INT(pthread_create(&decoder.thread, NULL, call, &decoder), 0);
    CHECK_INT(pthread_create(&merger.thread, NULL, merge_often, &merger), 0);
    pthread_join(decoder.thread, NULL);
    pthread_join(merger.thread, NULL);
    CHECK_INT(decoder.status, GQA_OK);
    CHECK_INT(merger.status, GQA_OK);
    outputs_free(&decoder.y);
    gqa_plan_destroy(plan);
    gqa_device_close(device);
    case_free(&x);
}

TEST_MAIN
