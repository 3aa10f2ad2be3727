/* SPDX-License-Identifier: Apache-2.0
 * Misuse: every function with null, negative, overflowing, aliased and unaligned arguments. Each
 * failing call must give the right status and a sentence, and change nothing else. */
#include "cases.h"
#include "test.h"

#include <limits.h>

static gqa_device *cpu(void) {
    gqa_device *device = NULL;
    struct gqa_error err;
    if (gqa_device_open("cpu", NULL, &device, &err))
        FAIL("%s", err.message);
    return device;
}

/* A failing call: the status, a sentence of its own, and nothing written to `out`. */
#define REFUSES(call, expected)                                                                    \
    do {                                                                                           \
        struct gqa_error err = {GQA_OK, ""};                                                       \
        const gqa_status status_ = (call);                                                         \
        if (status_ != (expected) || err.status != (expected) || strlen(err.message) < 8)          \
            FAIL("%s gives %s (%s), expected %s", #call, gqa_status_name(status_), err.message,    \
                 gqa_status_name(expected));                                                       \
    } while (0)

/* --- Statuses and version --- */

TEST(every_status_has_a_name_and_a_sentence) {
    for (int s = GQA_OK; s <= GQA_ERR_MEMORY; s++) {
        CHECK(!strncmp(gqa_status_name((gqa_status)s), s ? "GQA_ERR_" : "GQA_OK", s ? 8 : 7));
        CHECK(strcmp(gqa_status_name((gqa_status)s), "GQA_ERR_?"));
        CHECK(strlen(gqa_status_text((gqa_status)s)) > 3);
    }
    const int none[] = {-1, GQA_ERR_MEMORY + 1, INT_MAX, INT_MIN};
    for (int i = 0; i < 4; i++) {
        CHECK(!strcmp(gqa_status_name((gqa_status)none[i]), "GQA_ERR_?"));
        CHECK(gqa_status_text((gqa_status)none[i])[0]);
    }
    CHECK_INT(gqa_version(),
              GQA_VERSION_MAJOR * 10000 + GQA_VERSION_MINOR * 100 + GQA_VERSION_PATCH);
}

/* --- Devices --- */

TEST(device_names) {
    gqa_device *const mark = (gqa_device *)&test_state;
    gqa_device *device = mark;
    char endless[4000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = 0;
    const char *const wrong[] = {"",    "CPU",      "cpu ",  "cpu0",      "cpux",
                                 "gpu", "plan",     "plan:", "plan:nope", "plan:cpux",
                                 "emu", "cpu:%s%n", "cuda",  endless,     "plan:plan:cpu"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gqa_error err = {GQA_OK, ""};
        const gqa_status status = gqa_device_open(wrong[i], NULL, &device, &err);
        if (!status || err.status != status || !err.message[0] || device != mark)
            FAIL("device \"%.20s\" gives %s, or *device was written", wrong[i],
                 gqa_status_name(status));
    }
    REFUSES(gqa_device_open(NULL, NULL, &device, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_open("cpu", NULL, NULL, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_open("cpx", NULL, &device, &err), GQA_ERR_NAME);
    CHECK_INT(gqa_device_open("cpx", NULL, &device, NULL), GQA_ERR_NAME);
    CHECK(device == mark);
    gqa_device_close(NULL);
}

TEST(device_options) {
    gqa_device *const mark = (gqa_device *)&test_state;
    gqa_device *device = mark;
    struct gqa_device_options options = gqa_device_options_init();
    options.size = 0;
    REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_ARGUMENT);
    options.size = sizeof options + 8;
    REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_ARGUMENT);
    options = gqa_device_options_init();
    const int threads[] = {-1, INT_MIN, INT_MAX, 1025};
    for (int i = 0; i < 4; i++) {
        options.threads = threads[i];
        REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_ARGUMENT);
    }
    options = gqa_device_options_init();
    options.spin_us = -1;
    REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_ARGUMENT);
    options = gqa_device_options_init();
    options.kernel = "avx3";
    REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_NAME);
    options.kernel = "";
    REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_NAME);
    char long_name[200];
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    options.kernel = long_name;
    REFUSES(gqa_device_open("cpu", &options, &device, &err), GQA_ERR_NAME);
    CHECK(device == mark);
    options.kernel = "c";
    CHECK_INT(gqa_device_open("cpu", &options, &device, NULL), GQA_OK);
    gqa_device_close(device);
}

TEST(descriptions) {
    gqa_device *device = cpu();
    struct gqa_device_info info = gqa_device_info_init(), before;
    struct gqa_kernel_info kernel = gqa_kernel_info_init();
    CHECK_INT(gqa_device_describe(device, &info, NULL), GQA_OK);
    CHECK(!strcmp(info.name, "cpu") && info.product[0] && info.units >= 1 && info.kernels >= 1);
    before = info;
    REFUSES(gqa_device_describe(NULL, &info, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_describe(device, NULL, &err), GQA_ERR_ARGUMENT);
    info.size = before.size = 3;
    REFUSES(gqa_device_describe(device, &info, &err), GQA_ERR_ARGUMENT);
    CHECK(!memcmp(&info, &before, sizeof info));
    info = gqa_device_info_init();
    CHECK_INT(gqa_device_describe(device, &info, NULL), GQA_OK);
    int available = 0;
    for (int i = 0; i < info.kernels; i++) {
        CHECK_INT(gqa_device_kernel(device, i, &kernel, NULL), GQA_OK);
        CHECK(kernel.name[0] && (kernel.available || kernel.why[0]));
        available += kernel.available;
    }
    CHECK(available > 0);
    REFUSES(gqa_device_kernel(device, -1, &kernel, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_kernel(device, info.kernels, &kernel, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_kernel(device, INT_MAX, &kernel, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_kernel(device, 0, NULL, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_device_kernel(NULL, 0, &kernel, &err), GQA_ERR_ARGUMENT);
    kernel.size = 1;
    REFUSES(gqa_device_kernel(device, 0, &kernel, &err), GQA_ERR_ARGUMENT);
    gqa_device_close(device);
}

/* --- A step to misuse --- */

struct step {
    gqa_device *device;
    gqa_plan *plan;
    struct test_case c;
    struct case_instance x;
    char *workspace, *workspace_memory;
    size_t bytes;
};

static bool step_open_problem(struct step *s, const char *name, int check_tables) {
    struct gqa_error err = {GQA_OK, ""};
    *s = (struct step){.device = cpu()};
    if (!s->device || !case_find(name, &s->c)) {
        FAIL("no case %s", name);
        return false;
    }
    s->c.p.check_tables = check_tables;
    s->c.p.split_mode = GQA_SPLIT_FIXED; /* so that there is a workspace */
    s->c.p.splits = 4;
    if (!case_build(&s->x, &s->c, 3, &case_memory_host) ||
        gqa_plan_create(s->device, &s->x.p, &s->plan, &err)) {
        FAIL("%s: %s %s", name, s->x.why, err.message);
        return false;
    }
    s->bytes = gqa_plan_workspace(s->plan);
    s->workspace_memory = malloc(s->bytes + 512);
    s->workspace = s->workspace_memory + (256 - (uintptr_t)s->workspace_memory % 256);
    return true;
}

static void step_close(struct step *s) {
    gqa_plan_destroy(s->plan);
    case_free(&s->x);
    gqa_device_close(s->device);
    free(s->workspace_memory);
}

/* Decode with tensors `t` must be refused, with every output byte as it was. */
static void refuse(struct step *s, const struct gqa_tensors *t, gqa_status expected,
                   const char *what) {
    struct gqa_error err = {GQA_OK, ""};
    const gqa_status status = gqa_decode(s->plan, t, s->workspace, s->bytes, NULL, &err);
    if (status != expected || err.status != expected || !err.message[0])
        FAIL("%s gives %s (%s), expected %s", what, gqa_status_name(status), err.message,
             gqa_status_name(expected));
    CHECK_INT(gqa_decode(s->plan, t, s->workspace, s->bytes, NULL, NULL), expected);
    CHECK_INT(gqa_decode_slice(s->plan, t, s->workspace, s->bytes, 0, 2, NULL), expected);
    CHECK_INT(gqa_decode_finish(s->plan, t, s->workspace, s->bytes, 2, NULL), expected);
    if (!case_collect(&s->x))
        FAIL("%s: %s", what, s->x.why);
    for (size_t i = 0; i < s->x.buffers[CASE_O].bytes; i++)
        if (s->x.buffers[CASE_O].host[i] != (char)0xff) {
            FAIL("%s: o was written", what);
            break;
        }
}

TEST(missing_tensors) {
    struct step s;
    if (!step_open_problem(&s, "scale/with-sink-and-softcap", 0))
        return;
    struct gqa_tensors t;
    const void **const fields[] = {
        &t.q,
        &t.k,
        &t.v,
        (const void **)&t.o,
        (const void **)&t.lse,
        (const void **)&t.k_scale,
        (const void **)&t.v_scale,
        (const void **)&t.sinks,
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        t = s.x.device;
        *fields[i] = NULL;
        refuse(&s, &t, GQA_ERR_ARGUMENT, "a tensor that is NULL");
    }
    t = s.x.device;
    t.size = 8;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "tensors of another size");
    refuse(&s, NULL, GQA_ERR_ARGUMENT, "no tensors");
    REFUSES(gqa_decode(NULL, &s.x.device, s.workspace, s.bytes, NULL, &err), GQA_ERR_ARGUMENT);
    CHECK_INT(gqa_decode(s.plan, &s.x.device, s.workspace, s.bytes, NULL, NULL), GQA_OK);
    step_close(&s);

    if (!step_open_problem(&s, "queries/ragged-paged", 0))
        return;
    t = s.x.device;
    t.block_table = NULL;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "no block table");
    t = s.x.device;
    t.cu_seqlens_q = NULL;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "no cu_seqlens_q");
    step_close(&s);

    if (!step_open_problem(&s, "page/csr-last-page-len", 0))
        return;
    t = s.x.device;
    t.page_indptr = NULL;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "no page_indptr");
    t = s.x.device;
    t.page_indices = NULL;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "no page_indices");
    t = s.x.device;
    t.last_page_len = NULL;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "neither kv_lens nor last_page_len");
    step_close(&s);
}

TEST(unaligned_tensors) {
    struct step s;
    if (!step_open_problem(&s, "lse/base-e-sinks", 0))
        return;
    struct gqa_tensors t;
    const void **const fields[] = {&t.q,
                                   &t.k,
                                   &t.v,
                                   (const void **)&t.o,
                                   (const void **)&t.lse,
                                   (const void **)&t.kv_lens,
                                   (const void **)&t.sinks};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        t = s.x.device;
        *fields[i] = (const char *)*fields[i] + 1; /* every type here has 2 bytes or more */
        refuse(&s, &t, GQA_ERR_ALIGNMENT, "an odd address");
    }
    step_close(&s);
}

TEST(outputs_on_top_of_others) {
    struct step s;
    if (!step_open_problem(&s, "lse/base-e-sinks", 0))
        return;
    struct gqa_tensors t = s.x.device;
    t.o = (void *)t.q;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "o is q");
    t = s.x.device;
    t.o = (void *)((const char *)t.k + s.x.buffers[CASE_K].bytes - 64);
    refuse(&s, &t, GQA_ERR_ARGUMENT, "o begins inside of k");
    t = s.x.device;
    t.o = (void *)t.v;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "o is v");
    t = s.x.device;
    t.lse = (float *)t.o;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "lse is o");
    t = s.x.device;
    t.lse = (float *)(void *)(uintptr_t)t.sinks;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "lse is sinks");
    t = s.x.device;
    t.lse = (float *)(void *)(uintptr_t)t.kv_lens;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "lse is kv_lens");
    t = s.x.device;
    t.o = s.workspace;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "o is the workspace");
    t = s.x.device;
    t.q = s.workspace;
    refuse(&s, &t, GQA_ERR_ARGUMENT, "q is in the workspace");
    t = s.x.device;
    t.k = t.v; /* inputs may be one */
    CHECK_INT(gqa_decode(s.plan, &t, s.workspace, s.bytes, NULL, NULL), GQA_OK);
    step_close(&s);
}

TEST(workspaces) {
    struct step s;
    if (!step_open_problem(&s, "lse/base-e-sinks", 0))
        return;
    const struct gqa_tensors *t = &s.x.device;
    if (s.bytes == 0) {
        SKIP("this plan needs no workspace");
    } else {
        REFUSES(gqa_decode(s.plan, t, NULL, s.bytes, NULL, &err), GQA_ERR_WORKSPACE);
        REFUSES(gqa_decode(s.plan, t, s.workspace, s.bytes - 1, NULL, &err), GQA_ERR_WORKSPACE);
        REFUSES(gqa_decode(s.plan, t, s.workspace, 0, NULL, &err), GQA_ERR_WORKSPACE);
        REFUSES(gqa_decode(s.plan, t, s.workspace + 128, s.bytes, NULL, &err), GQA_ERR_WORKSPACE);
        CHECK(case_collect(&s.x));
    }
    CHECK_INT(gqa_decode(s.plan, t, s.workspace, s.bytes, NULL, NULL), GQA_OK);
    REFUSES(gqa_decode(s.plan, t, s.workspace, s.bytes, &s, &err), GQA_ERR_ARGUMENT); /* a stream */
    CHECK_INT((long long)gqa_plan_workspace(NULL), 0);
    step_close(&s);
}

TEST(slices) {
    struct step s;
    if (!step_open_problem(&s, "lse/base-e-sinks", 0))
        return;
    static const int wrong[][2] = {
        {-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, 1025}, {INT_MAX, INT_MAX}, {INT_MIN, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        REFUSES(gqa_decode_slice(s.plan, &s.x.device, s.workspace, s.bytes, wrong[i][0],
                                 wrong[i][1], &err),
                GQA_ERR_ARGUMENT);
    REFUSES(gqa_decode_finish(s.plan, &s.x.device, s.workspace, s.bytes, 0, &err),
            GQA_ERR_ARGUMENT);
    REFUSES(gqa_decode_finish(s.plan, &s.x.device, s.workspace, s.bytes, 1025, &err),
            GQA_ERR_ARGUMENT);
    step_close(&s);
}

/* --- Plans --- */

TEST(plans) {
    gqa_device *device = cpu();
    gqa_plan *const mark = (gqa_plan *)&test_state;
    gqa_plan *plan = mark;
    struct gqa_problem p = gqa_problem_init();
    p.q_heads = p.kv_heads = 1;
    p.head_dim = 64;
    p.kv_len = 16;
    gqa_problem_pack(&p, GQA_HND);
    REFUSES(gqa_plan_create(NULL, &p, &plan, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_plan_create(device, NULL, &plan, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_plan_create(device, &p, NULL, &err), GQA_ERR_ARGUMENT);
    p.kernel = "no-such-kernel";
    REFUSES(gqa_plan_create(device, &p, &plan, &err), GQA_ERR_NAME);
    p.kernel = NULL;
    p.head_dim = -1;
    REFUSES(gqa_plan_create(device, &p, &plan, &err), GQA_ERR_SHAPE);
    CHECK(plan == mark);
    p.head_dim = 64;
    CHECK_INT(gqa_plan_create(device, &p, &plan, NULL), GQA_OK);

    struct gqa_plan_info info = gqa_plan_info_init(), before;
    CHECK_INT(gqa_plan_describe(plan, &info, NULL), GQA_OK);
    CHECK(info.kernel[0] && info.reason[0] && info.splits >= 1 && info.work_items >= 1);
    CHECK(info.workspace_bytes == gqa_plan_workspace(plan));
    info.size = 5;
    before = info;
    REFUSES(gqa_plan_describe(plan, &info, &err), GQA_ERR_ARGUMENT);
    CHECK(!memcmp(&before, &info, sizeof info));
    REFUSES(gqa_plan_describe(plan, NULL, &err), GQA_ERR_ARGUMENT);
    info = gqa_plan_info_init();
    REFUSES(gqa_plan_describe(NULL, &info, &err), GQA_ERR_ARGUMENT);
    gqa_plan_destroy(plan);
    gqa_plan_destroy(NULL);
    gqa_device_close(device);
}

/* A plan keeps nothing of the problem that the caller may change: names, pointers. */
TEST(plans_copy_the_problem) {
    struct step s;
    if (!step_open_problem(&s, "group/bf16-d64-g7", 0))
        return;
    char *name = strdup("c");
    struct gqa_problem p = s.x.p;
    gqa_plan *plan;
    p.kernel = name;
    CHECK_INT(gqa_plan_create(s.device, &p, &plan, NULL), GQA_OK);
    memset(name, 'z', 1);
    free(name);
    memset(&p, 0x5a, sizeof p);
    const size_t bytes = gqa_plan_workspace(plan);
    void *workspace = aligned_alloc(256, bytes / 256 * 256 + 256);
    CHECK_INT(gqa_decode(plan, &s.x.device, workspace, bytes, NULL, NULL), GQA_OK);
    CHECK(case_collect(&s.x));
    free(workspace);
    gqa_plan_destroy(plan);
    step_close(&s);
}

TEST(planning_only) {
    gqa_device *device = NULL;
    CHECK_INT(gqa_device_open("plan:cpu", NULL, &device, NULL), GQA_OK);
    if (!device)
        return;
    struct step s;
    gqa_plan *plan;
    if (step_open_problem(&s, "group/bf16-d64-g7", 0)) {
        CHECK_INT(gqa_plan_create(device, &s.x.p, &plan, NULL), GQA_OK);
        REFUSES(gqa_decode(plan, &s.x.device, s.workspace, s.bytes, NULL, &err), GQA_ERR_DEVICE);
        CHECK(case_collect(&s.x));
        gqa_plan_destroy(plan);
        struct gqa_shards m = gqa_shards_init();
        float x[2] = {0, 0}, y[2];
        m.parts = m.q_heads = m.head_dim_v = 1;
        m.rows = 1;
        m.part_o = m.part_lse = x;
        m.o = y;
        REFUSES(gqa_merge(device, &m, NULL, &err), GQA_ERR_DEVICE);
        step_close(&s);
    }
    gqa_device_close(device);
}

/* --- Checked tables --- */

/* Put `value` into word `at` of a table; decoding must be refused; put the old one back. */
static void spoil(struct step *s, enum case_tensor tensor, int64_t at, int32_t value) {
    int32_t *words = (int32_t *)s->x.buffers[tensor].device;
    int32_t *host = (int32_t *)s->x.buffers[tensor].host;
    char what[100];
    const int32_t old = words[at];
    snprintf(what, sizeof what, "%s[%lld] = %d", s->x.buffers[tensor].name, (long long)at, value);
    words[at] = host[at] = value; /* both: an input must look unchanged */
    refuse(s, &s->x.device, GQA_ERR_ARGUMENT, what);
    words[at] = host[at] = old;
}

TEST(checked_tables) {
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
    struct step s;
    if (!step_open_problem(&s, "page/checked", 1))
        return;
    for (int i = 0; i < 4; i++) {
        spoil(&s, CASE_TABLE, 0, bad[i]);
        spoil(&s, CASE_TABLE, 2, bad[i]);
        spoil(&s, CASE_KV_LENS, 1, bad[i]);
    }
    spoil(&s, CASE_TABLE, 1, (int32_t)s.x.pages); /* one past the last page */
    spoil(&s, CASE_KV_LENS, 2, (int32_t)s.x.p.kv_len + 1);
    CHECK_INT(gqa_decode(s.plan, &s.x.device, s.workspace, s.bytes, NULL, NULL), GQA_OK);
    step_close(&s);

    if (!step_open_problem(&s, "queries/ragged-paged", 1))
        return;
    for (int i = 0; i < 4; i++) {
        spoil(&s, CASE_BATCH_INDEX, 0, bad[i]);
        spoil(&s, CASE_CU_SEQLENS, 3, bad[i]);
    }
    spoil(&s, CASE_BATCH_INDEX, 1, (int32_t)s.x.p.kv_batch);
    spoil(&s, CASE_CU_SEQLENS, 0, 1);
    spoil(&s, CASE_CU_SEQLENS, s.x.p.batch, (int32_t)s.x.p.q_total + 1);
    CHECK_INT(gqa_decode(s.plan, &s.x.device, s.workspace, s.bytes, NULL, NULL), GQA_OK);
    step_close(&s);

    if (!step_open_problem(&s, "page/csr-last-page-len", 1))
        return;
    for (int i = 0; i < 4; i++) {
        spoil(&s, CASE_INDICES, 0, bad[i]);
        spoil(&s, CASE_LAST_PAGE, 0, bad[i]);
        spoil(&s, CASE_INDPTR, 1, bad[i]);
    }
    /* Two offsets that take sequence 3 past the array, each sequence with no more than its
     * capacity; only the offset after them tells. */
    int32_t *const indptr = (int32_t *)s.x.buffers[CASE_INDPTR].device;
    const int32_t old = indptr[3];
    indptr[3] = ((int32_t *)s.x.buffers[CASE_INDPTR].host)[3] = old + 2;
    spoil(&s, CASE_INDPTR, 4, old + 5);
    indptr[3] = ((int32_t *)s.x.buffers[CASE_INDPTR].host)[3] = old;
    spoil(&s, CASE_LAST_PAGE, 0, 0); /* a page, but nothing in it */
    spoil(&s, CASE_LAST_PAGE, 0, 17);
    CHECK_INT(gqa_decode(s.plan, &s.x.device, s.workspace, s.bytes, NULL, NULL), GQA_OK);
    step_close(&s);

    /* The same as a batch that fits its capacity by the lengths alone. */
    if (!step_open_problem(&s, "length/edges-bf16", 1))
        return;
    spoil(&s, CASE_KV_LENS, 0, (int32_t)s.x.p.kv_len + 1);
    spoil(&s, CASE_KV_LENS, 5, -1);
    step_close(&s);
}

/* --- Merging --- */

TEST(merges) {
    gqa_device *device = cpu();
    float parts[2 * 3 * 2 * 4], lse[2 * 3 * 2], o[3 * 2 * 4], o_lse[3 * 2];
    struct gqa_shards good = gqa_shards_init(), m;
    for (int i = 0; i < 48; i++)
        parts[i] = (float)i;
    for (int i = 0; i < 12; i++)
        lse[i] = 0;
    memset(o, 0x5a, sizeof o);
    memset(o_lse, 0x5a, sizeof o_lse);
    good.parts = 2;
    good.rows = 3;
    good.q_heads = 2;
    good.head_dim_v = 4;
    good.part_o = parts;
    good.part_lse = lse;
    good.o = o;
    good.lse = o_lse;
#define WITH(change, expected)                                                                     \
    m = good;                                                                                      \
    change;                                                                                        \
    REFUSES(gqa_merge(device, &m, NULL, &err), expected)
    WITH(m.size = 0, GQA_ERR_ARGUMENT);
    WITH(m.parts = 0, GQA_ERR_SHAPE);
    WITH(m.parts = -1, GQA_ERR_SHAPE);
    WITH(m.parts = 4097, GQA_ERR_SHAPE);
    WITH(m.rows = -1, GQA_ERR_SHAPE);
    WITH(m.rows = INT64_MAX, GQA_ERR_SHAPE);
    WITH(m.q_heads = 0, GQA_ERR_SHAPE);
    WITH(m.q_heads = INT_MAX, GQA_ERR_SHAPE);
    WITH(m.head_dim_v = 0, GQA_ERR_SHAPE);
    WITH(m.head_dim_v = 513, GQA_ERR_SHAPE);
    WITH(m.part_type = GQA_E4M3, GQA_ERR_TYPE);
    WITH(m.o_type = (enum gqa_type)9, GQA_ERR_TYPE);
    WITH(m.part_base = (enum gqa_lse_base)2, GQA_ERR_SHAPE);
    WITH(m.part_o = NULL, GQA_ERR_ARGUMENT);
    WITH(m.part_lse = NULL, GQA_ERR_ARGUMENT);
    WITH(m.o = NULL, GQA_ERR_ARGUMENT);
    WITH(m.o = (char *)o + 2, GQA_ERR_ALIGNMENT);
    WITH(m.part_o = (char *)parts + 1, GQA_ERR_ALIGNMENT);
    WITH(m.o = parts + 24, GQA_ERR_ARGUMENT); /* onto part 1 */
    WITH(m.o = parts + 1, GQA_ERR_ARGUMENT);
    WITH(m.lse = lse + 6, GQA_ERR_ARGUMENT);
    WITH(m.lse = (float *)m.o, GQA_ERR_ARGUMENT);
    WITH((m.o = parts, m.o_type = GQA_BF16), GQA_ERR_ARGUMENT); /* in place, another type */
    WITH((m.parts = 4096, m.rows = INT32_MAX, m.q_heads = 1 << 20, m.head_dim_v = 512),
         GQA_ERR_SHAPE);
#undef WITH
    REFUSES(gqa_merge(NULL, &good, NULL, &err), GQA_ERR_ARGUMENT);
    REFUSES(gqa_merge(device, NULL, NULL, &err), GQA_ERR_ARGUMENT);
    for (size_t i = 0; i < sizeof o; i++)
        CHECK(((char *)o)[i] == 0x5a);
    CHECK_INT(gqa_merge(device, &good, NULL, NULL), GQA_OK);
    CHECK_NEAR(o[0], 12, 1e-5); /* (0 + 24) / 2 */
    CHECK_NEAR(o_lse[5], log(2), 1e-6);
    m = good;
    m.rows = 0;
    m.part_o = m.part_lse = m.o = NULL;
    CHECK_INT(gqa_merge(device, &m, NULL, NULL), GQA_OK);
    gqa_device_close(device);
}

/* --- Empty steps --- */

/* Ragged with room for rows, too: no sequence owns them. Every form of cache, tables checked or
 * not. */
TEST(an_empty_batch_needs_nothing) {
    gqa_device *device = cpu();
    for (int kind = 0; kind < 12; kind++) {
        struct gqa_problem p = gqa_problem_init();
        struct gqa_tensors t = gqa_tensors_init();
        struct gqa_error err = {GQA_OK, ""};
        gqa_plan *plan = NULL;
        p.batch = 0;
        p.q_heads = p.kv_heads = 1;
        p.head_dim = 64;
        p.kv_len = 16;
        p.has_lse = 1;
        p.paging = (enum gqa_paging)(kind % 3);
        p.page_size = p.paging ? 16 : 0;
        p.q_ragged = kind / 3 % 2;
        p.check_tables = kind / 6;
        gqa_problem_pack(&p, GQA_HND);
        CHECK_INT(gqa_plan_create(device, &p, &plan, NULL), GQA_OK);
        const size_t bytes = gqa_plan_workspace(plan);
        void *workspace = aligned_alloc(256, bytes / 256 * 256 + 256);
        if (gqa_decode(plan, &t, workspace, bytes, NULL, &err))
            FAIL("paging %d, ragged %d: %s", p.paging, p.q_ragged, err.message);
        free(workspace);
        gqa_plan_destroy(plan);
    }
    gqa_device_close(device);
}

TEST_MAIN
