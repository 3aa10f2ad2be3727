/* SPDX-License-Identifier: Apache-2.0
 * The planners of all devices, none of which need be here: every case of the list is planned, or
 * refused with a reason; sizes are monotone; what was asked for is done; long rows use the whole
 * device. No data is computed. */
#include "cases.h"
#include "test.h"

static const char *const devices[] = {"plan:cpu", "plan:sm_80", "plan:sm_90a", "plan:sm_100a",
                                      "plan:sm_120a"};

enum { DEVICES = sizeof devices / sizeof *devices };

/* A planner, or NULL (one skip) where this build does not know the part. */
static gqa_device *planner(const char *name) {
    gqa_device *device = NULL;
    struct gqa_error err;
    const gqa_status status = gqa_device_open(name, NULL, &device, &err);
    if (status == GQA_ERR_NAME)
        SKIP("%s: %s", name, err.message);
    else if (status)
        FAIL("%s: %s", name, err.message);
    return device;
}

static struct gqa_problem shape(int64_t batch, int q_heads, int kv_heads, int dim, int64_t len) {
    struct gqa_problem p = gqa_problem_init();
    p.batch = batch;
    p.q_heads = q_heads;
    p.kv_heads = kv_heads;
    p.head_dim = dim;
    p.kv_len = len;
    p.q_type = p.kv_type = p.o_type = GQA_BF16;
    gqa_problem_pack(&p, GQA_HND);
    return p;
}

/* Plan and describe; info->kernel is empty if the device refused. */
static struct gqa_plan_info plan(gqa_device *device, const struct gqa_problem *p) {
    struct gqa_plan_info info = gqa_plan_info_init();
    struct gqa_error err = {GQA_OK, ""};
    gqa_plan *made = NULL;
    const gqa_status status = gqa_plan_create(device, p, &made, &err);
    if (status && status != GQA_ERR_UNSUPPORTED)
        FAIL("%s: %s", gqa_status_name(status), err.message);
    if (status && strlen(err.message) < 20)
        FAIL("refused without saying which rule: \"%s\"", err.message);
    if (!status) {
        CHECK_INT(gqa_plan_describe(made, &info, NULL), GQA_OK);
        CHECK(info.workspace_bytes == gqa_plan_workspace(made));
        gqa_plan_destroy(made);
    }
    return info;
}

/* Plan one case on one device, twice. Returns whether it was planned. */
static bool plan_case(gqa_device *device, const char *name, const struct case_instance *x) {
    const struct gqa_plan_info info = plan(device, &x->p), again = plan(device, &x->p);
    if (memcmp(&info, &again, sizeof info))
        FAIL("%s: two plans of %s differ", name, x->c->name);
    if (info.kernel[0] && (info.splits < 1 || !info.reason[0] || info.split_tokens < 0))
        FAIL("%s: the plan of %s is not described", name, x->c->name);
    return info.kernel[0] != 0;
}

TEST(every_case_is_planned_or_refused_with_a_reason) {
    struct case_list list;
    gqa_device *opened[DEVICES];
    int planned[DEVICES] = {0}, cases = 0;
    CHECK(case_list_init(&list, 200));
    for (int d = 0; d < DEVICES; d++)
        opened[d] = planner(devices[d]);
    for (size_t i = 0; i < list.count; i++) {
        struct case_instance x;
        if (list.cases[i].level != CASE_QUICK || list.cases[i].may_refuse ||
            !case_build(&x, &list.cases[i], 1, &case_memory_host))
            continue;
        cases++;
        for (int d = 0; d < DEVICES; d++)
            planned[d] += opened[d] && plan_case(opened[d], devices[d], &x);
        case_free(&x);
    }
    for (int d = 0; d < DEVICES; d++) {
        if (opened[d])
            printf("%s: %d of %d cases planned\n", devices[d], planned[d], cases);
        CHECK(!opened[d] || planned[d] > 50);
        gqa_device_close(opened[d]);
    }
    case_list_free(&list);
}

/* The size for the largest problem serves all smaller ones: a graph is captured with it. */
TEST(workspaces_only_grow) {
    static const int64_t batches[] = {1, 2, 3, 8, 31, 128, 129, 256, 1000};
    static const int64_t lens[] = {1, 2, 63, 100, 1000, 8192, 65536, 65537, 131072, 1000000};
    static const int heads[][2] = {{8, 1}, {32, 8}, {64, 4}, {16, 16}};
    for (int d = 0; d < DEVICES; d++) {
        gqa_device *device = planner(devices[d]);
        for (int h = 0; device && h < 4; h++)
            for (int mode = 0; mode < 3; mode++)
                for (int layout = GQA_HND; layout <= GQA_NHD; layout++) {
                    size_t before_batch[10] = {0};
                    for (int b = 0; b < 9; b++) {
                        size_t before_len = 0;
                        for (int l = 0; l < 10; l++) {
                            struct gqa_problem p =
                                shape(batches[b], heads[h][0], heads[h][1], 128, lens[l]);
                            p.split_mode = (enum gqa_split_mode)mode;
                            p.splits = mode == GQA_SPLIT_FIXED ? 7 : 0;
                            gqa_problem_pack(&p, (enum gqa_layout)layout);
                            const size_t bytes = plan(device, &p).workspace_bytes;
                            if (bytes < before_len || bytes < before_batch[l])
                                FAIL(
                                    "%s: mode %d, %d/%d heads, batch %lld, kv_len %lld: %zu bytes, "
                                    "less than for a smaller problem",
                                    devices[d], mode, heads[h][0], heads[h][1],
                                    (long long)batches[b], (long long)lens[l], bytes);
                            before_len = before_batch[l] = bytes;
                        }
                    }
                }
        gqa_device_close(device);
    }
}

TEST(what_was_asked_for_is_done) {
    for (int d = 0; d < DEVICES; d++) {
        gqa_device *device = planner(devices[d]);
        if (!device)
            continue;
        struct gqa_problem p = shape(4, 32, 8, 128, 4096);
        p.split_mode = GQA_SPLIT_FIXED;
        for (p.splits = 1; p.splits <= 64; p.splits *= 4) {
            const struct gqa_plan_info info = plan(device, &p);
            if (info.kernel[0] && info.splits != p.splits)
                FAIL("%s: %d splits asked for, %d planned", devices[d], p.splits, info.splits);
        }
        p = shape(4, 32, 8, 128, 4096);
        p.reduction = GQA_REDUCE_NONE;
        CHECK(plan(device, &p).splits <= 1 || !strcmp(devices[d], "plan:cpu"));
        for (int r = GQA_REDUCE_NONE; r <= GQA_REDUCE_CLUSTER && d > 0; r++) {
            p.reduction = (enum gqa_reduction)r;
            const struct gqa_plan_info info = plan(device, &p);
            if (info.kernel[0] && info.reduction != p.reduction && info.splits > 1)
                FAIL("%s: reduction %d asked for, %d planned", devices[d], r, info.reduction);
        }
        p = shape(4, 32, 8, 128, 4096);
        for (int pdl = GQA_PDL_OFF; pdl <= GQA_PDL_ON && d > 0; pdl++) {
            p.pdl = (enum gqa_pdl)pdl;
            const struct gqa_plan_info info = plan(device, &p);
            const bool has_pdl =
                !strncmp(devices[d], "plan:sm_90", 10) || !strncmp(devices[d], "plan:sm_100", 11);
            if (info.kernel[0] && info.pdl != (pdl == GQA_PDL_ON && has_pdl))
                FAIL("%s: pdl %d asked for, %d planned", devices[d], pdl, info.pdl);
        }
        p = shape(4, 32, 8, 128, 4096);
        p.split_mode = GQA_SPLIT_INVARIANT;
        p.split_tokens = 256;
        const struct gqa_plan_info few = plan(device, &p);
        p = shape(64, 32, 8, 128, 4096);
        p.split_mode = GQA_SPLIT_INVARIANT;
        p.split_tokens = 256;
        const struct gqa_plan_info many = plan(device, &p);
        if (few.kernel[0]) {
            CHECK_INT(few.split_tokens, 256);
            CHECK_INT(few.splits, 16);
            CHECK(few.splits == many.splits && !strcmp(few.kernel, many.kernel));
        }
        p.split_tokens = 0;
        const int64_t chosen = plan(device, &p).split_tokens;
        p.batch = 1; /* from head_dim alone */
        p.kv_len = 100000;
        gqa_problem_pack(&p, GQA_HND);
        CHECK_INT(plan(device, &p).split_tokens, chosen);
        gqa_device_close(device);
    }
}

/* One long row must not leave most of a GPU idle: no cap of 8 or 32 splits, no SM count of another
 * part, splits also where heads alone do not fill it. */
TEST(long_rows_fill_the_device) {
    for (int d = 1; d < DEVICES; d++) {
        gqa_device *device = planner(devices[d]);
        if (!device)
            continue;
        struct gqa_device_info about = gqa_device_info_init();
        CHECK_INT(gqa_device_describe(device, &about, NULL), GQA_OK);
        static const int rows[][4] = {
            {1, 8, 1, 131072}, {1, 32, 8, 65536}, {1, 32, 8, 32768}, {1, 24, 24, 8192}};
        for (int i = 0; i < 4; i++) {
            const struct gqa_problem p = shape(rows[i][0], rows[i][1], rows[i][2], 128, rows[i][3]);
            const struct gqa_plan_info info = plan(device, &p);
            if (info.kernel[0] && (info.splits < 2 || info.work_items * 5 < about.units * 2))
                FAIL("%s: %d/%d heads, length %d: %lld work items on %d units", devices[d],
                     rows[i][1], rows[i][2], rows[i][3], (long long)info.work_items, about.units);
        }
        gqa_device_close(device);
    }
}

/* Kernels count rows in 31 bits, whichever way a batch is cut: 4096 x 17000 units of 32 rows are
 * too many, 4096 x 16000 are not. */
TEST(rows_beyond_31_bits_are_refused) {
    static const enum gqa_reduction reductions[] = {GQA_REDUCE_AUTO, GQA_REDUCE_NONE,
                                                    GQA_REDUCE_KERNEL};
    for (int d = 1; d < DEVICES; d++) {
        gqa_device *device = planner(devices[d]);
        for (int mode = GQA_SPLIT_AUTO; device && mode <= GQA_SPLIT_INVARIANT; mode++)
            for (int r = 0; r < 3; r++)
                for (int heads = 16000; heads <= 17000; heads += 1000) {
                    struct gqa_problem p = shape(4096, 2 * heads, heads, 64, 16);
                    p.q_tokens = 16;
                    p.split_mode = (enum gqa_split_mode)mode;
                    p.splits = mode == GQA_SPLIT_FIXED;
                    p.reduction = reductions[r];
                    gqa_problem_pack(&p, GQA_HND);
                    const bool planned = plan(device, &p).kernel[0] != 0;
                    if (planned && heads > 16384)
                        FAIL("%s: mode %d, reduction %d: %lld rows are planned", devices[d], mode,
                             reductions[r], 4096LL * heads * 32);
                    CHECK(planned || heads > 16384 || reductions[r] != GQA_REDUCE_AUTO);
                }
        gqa_device_close(device);
    }
}

/* Why the device refuses p, or what it is if it does not. */
static struct gqa_error refusal(const char *name, const struct gqa_problem *p) {
    gqa_device *device = planner(name);
    gqa_plan *made = NULL;
    struct gqa_error err = {GQA_OK, "it is planned"};
    if (device)
        gqa_plan_create(device, p, &made, &err);
    gqa_plan_destroy(made);
    gqa_device_close(device);
    return err;
}

/* A refusal tells the rule of a kernel that runs there, not that another generation's does not. */
TEST(refused_grids_say_why) {
    static const char *const others[] = {"plan:sm_80", "plan:sm_100a", "plan:sm_120a"};
    struct gqa_problem p = shape(20000, 8, 1, 128, 4096);
    p.reduction = GQA_REDUCE_GRID;
    const struct gqa_error many = refusal("plan:sm_90a", &p);
    if (many.status != GQA_ERR_UNSUPPORTED || !strstr(many.message, "equal shares"))
        FAIL("20000 rows of work: %s", many.message);
    p = shape(1, 8, 1, 128, 4096);
    p.reduction = GQA_REDUCE_GRID;
    for (int i = 0; i < 3; i++) {
        const struct gqa_error none = refusal(others[i], &p);
        if (!strstr(none.message, "has no grid reduction"))
            FAIL("%s: %s", others[i], none.message);
    }
}

static void check_refusal(const char *device, const struct gqa_problem *p, const char *says) {
    const struct gqa_error e = refusal(device, p);
    if (e.status != GQA_ERR_UNSUPPORTED || !strstr(e.message, says))
        FAIL("expected \"%s\", not %s \"%s\"", says, gqa_status_name(e.status), e.message);
}

/* The rule that was broken is named, not another candidate's. */
TEST(refused_reductions_say_what_they_want) {
    struct gqa_problem p = shape(1, 8, 1, 128, 4096);
    p.reduction = GQA_REDUCE_ATOMIC;
    check_refusal("plan:sm_100a", &p, "o_type f32");
    p.o_type = GQA_F32;
    CHECK_INT(refusal("plan:sm_100a", &p).status, GQA_OK);
    p.o.head = 130; /* rows of 4-byte elements that a bulk copy cannot add to */
    p.o.token = p.o.batch = 8 * 130;
    check_refusal("plan:sm_100a", &p, "multiples of 16 bytes");
    CHECK_INT(refusal("plan:sm_90a", &p).status, GQA_OK);
    gqa_problem_pack(&p, GQA_HND);
    p.split_mode = GQA_SPLIT_FIXED;
    p.splits = 6;
    check_refusal("plan:sm_100a", &p, "2, 4, 8 or 16 splits");
    p.splits = 20;
    p.reduction = GQA_REDUCE_CLUSTER;
    check_refusal("plan:sm_100a", &p, "2 to 16 splits");
}

/* What follows a kernel's name does not overrule the problem, nor is it passed over. */
TEST(rules_behind_a_name_do_not_overrule_the_problem) {
    static const char *const rules[] = {"gqa_decode_sm100_bf16_d128_g8:opt",
                                        "gqa_decode_sm100_bf16_d128_g8:blog",
                                        "gqa_decode_sm100_bf16_d128_g8:simple"};
    struct gqa_problem p = shape(1, 8, 1, 128, 8192);
    for (int i = 0; i < 3; i++) {
        p.kernel = rules[i];
        p.split_mode = GQA_SPLIT_AUTO;
        p.splits = 0;
        CHECK_INT(refusal("plan:sm_100a", &p).status, GQA_OK);
        p.split_mode = GQA_SPLIT_INVARIANT;
        check_refusal("plan:sm_100a", &p, "split_mode must be auto");
        p.split_mode = GQA_SPLIT_FIXED;
        p.splits = 3;
        check_refusal("plan:sm_100a", &p, "split_mode must be auto");
    }
    p.kernel = "gqa_decode_sm100_bf16_d128_g8:cluster=4";
    check_refusal("plan:sm_100a", &p, "sm90");
    p.kernel = "gqa_decode_sm100_bf16_d128_g8:shares";
    check_refusal("plan:sm_100a", &p, "sm90");
}

/* A tensor map's strides end at 2^40 bytes; the portable kernel takes larger ones. */
TEST(strides_that_no_tensor_map_holds) {
    struct gqa_problem p = shape(2, 8, 1, 128, 4096);
    p.k.batch = p.v.batch = INT64_C(1) << 39;
    gqa_device *device = planner("plan:sm_100a");
    if (!device)
        return;
    CHECK(strstr(plan(device, &p).kernel, "sm80"));
    p.k.batch = p.v.batch = (INT64_C(1) << 39) - 8;
    CHECK(strstr(plan(device, &p).kernel, "sm100"));
    gqa_device_close(device);
}

/* Bulk tensor copies go to multiples of 128 bytes; a kernel for wider heads takes such pages. */
TEST(odd_pages_of_narrow_rows_go_to_wider_kernels) {
    struct gqa_problem p = shape(1, 8, 1, 64, 4096);
    p.kv_type = GQA_E4M3;
    p.paging = GQA_PAGED_TABLE;
    p.table_stride = 4096;
    gqa_device *device = planner("plan:sm_100a");
    for (p.page_size = 1; device && p.page_size <= 4; p.page_size++) {
        gqa_problem_pack(&p, GQA_HND);
        const struct gqa_plan_info info = plan(device, &p);
        if (!strstr(info.kernel, p.page_size % 2 ? "sm100_e4m3_d128" : "sm100_e4m3_d64"))
            FAIL("pages of %d: %s", p.page_size, info.kernel);
    }
    gqa_device_close(device);
}

/* Caches that fit one split are planned like longer ones, where the second kernel is asked for. */
TEST(short_invariant_rows_are_planned) {
    for (int d = 1; d < DEVICES; d++)
        for (int mode = 0; mode < 2; mode++) {
            struct gqa_problem p = shape(mode ? 1 : 5000, 8, 1, 128, 100);
            p.split_mode = mode ? GQA_SPLIT_INVARIANT : GQA_SPLIT_AUTO;
            p.reduction = GQA_REDUCE_KERNEL;
            const struct gqa_error err = refusal(devices[d], &p);
            if (err.status)
                FAIL("%s, split mode %d: %s", devices[d], (int)p.split_mode, err.message);
        }
}

/* Letters take twice a partial's space. Nobody pays for them who cannot get any. */
TEST(only_grids_have_room_for_letters) {
    for (int d = 1; d < DEVICES; d++) {
        gqa_device *device = planner(devices[d]);
        for (int mode = GQA_SPLIT_FIXED; device && mode <= GQA_SPLIT_INVARIANT; mode++) {
            struct gqa_problem p = shape(4, 32, 8, 128, 4096);
            p.split_mode = (enum gqa_split_mode)mode;
            p.splits = mode == GQA_SPLIT_FIXED ? 20 : 0;
            const size_t open = plan(device, &p).workspace_bytes;
            p.reduction = GQA_REDUCE_KERNEL;
            const size_t partials = plan(device, &p).workspace_bytes;
            const bool may_be_letters = mode == GQA_SPLIT_FIXED && strstr(devices[d], "sm_90");
            if ((open > partials) != may_be_letters)
                FAIL("%s, split mode %d: %zu bytes, %zu of partials", devices[d], mode, open,
                     partials);
        }
        gqa_device_close(device);
    }
}

/* "kernel:cluster=4" is a grid of such clusters, or none. */
TEST(named_grids_keep_their_cluster) {
    gqa_device *device = planner("plan:sm_90a");
    static const int batches[] = {1, 4, 200};
    for (int i = 0; device && i < 3; i++) {
        struct gqa_problem p = shape(batches[i], 8, 1, 128, 65536);
        p.reduction = GQA_REDUCE_GRID;
        p.kernel = "gqa_decode_sm90_bf16_d128_g8:cluster=4";
        const struct gqa_plan_info info = plan(device, &p);
        if (info.kernel[0] && !strstr(info.reason, "clusters of 4"))
            FAIL("batch %d: %s", batches[i], info.reason);
        CHECK(info.kernel[0] || i == 2);
    }
    gqa_device_close(device);
}

TEST(unknown_names_are_errors) {
    for (int d = 0; d < DEVICES; d++) {
        gqa_device *device = planner(devices[d]);
        gqa_plan *made = NULL;
        struct gqa_error err = {GQA_OK, ""};
        if (!device)
            continue;
        struct gqa_problem p = shape(1, 8, 2, 128, 100);
        p.kernel = "gqa_decode_sm91_bf16_d128_g8x";
        CHECK_INT(gqa_plan_create(device, &p, &made, &err), GQA_ERR_NAME);
        CHECK(err.message[0] && !made);
        gqa_device_close(device);
    }
}

TEST_MAIN
