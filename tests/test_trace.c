/* SPDX-License-Identifier: Apache-2.0
 * Recording: what gqa_trace_read makes of a buffer, and what the kernels put there, in the
 * emulator: a step gives the same bits whether it records or not, every warp says what it did, and
 * a buffer that is too small loses events, counts them, and is not written past. */
#include "../src/cuda/trace.h"

#include "cases.h"
#include "gqa.h"
#include "memory_cuda.h"
#include "test.h"

enum { KERNEL_DECODE = TRACE_DECODE, MAX_SPANS = 1 << 16 };

/* --- Reading --- */

static struct trace_block made[17];

static struct trace_block *block_make(int i, int sm, int warp, uint64_t clock, uint64_t time) {
    struct trace_block *b = &made[i];
    *b = (struct trace_block){.cta = 3, .sm = (uint32_t)sm, .clock = clock, .time = time};
    b->who = TRACE_DECODE | TRACE_ROLE_load << 8 | (uint32_t)warp << 16;
    return b;
}

static void event(struct trace_block *b, enum trace_range range, int tile, uint64_t clock) {
    b->events[b->count++] =
        (struct trace_event){(uint32_t)clock, (uint32_t)tile << 8 | (uint32_t)range};
}

static void block_end(struct trace_block *b, uint64_t clock, uint64_t time) {
    b->end_clock = clock;
    b->end_time = time;
}

TEST(blocks_become_spans_on_one_axis) {
    struct gqa_trace_span s[8];
    struct gqa_trace_info info = gqa_trace_info_init();
    const uint64_t wrap = 0x2fffffff0;
    memset(made, 0, sizeof made);
    made[0].count = 2;
    struct trace_block *b = block_make(1, 1, 2, 1000, 500); /* 2 clocks are a nanosecond */
    event(b, TRACE_load_K, 7, 1000);
    event(b, TRACE_wait_slot, 8, 1200);
    block_end(b, 1600, 800);
    b = block_make(2, 0, 1, wrap, 600); /* another SM, whose low half overflows */
    event(b, TRACE_load_V, 1, wrap);
    event(b, TRACE_other, 1, wrap + 100);
    block_end(b, wrap + 200, 700);
    CHECK_INT(gqa_trace_read(made, sizeof made, s, 8, &info, NULL), GQA_OK);
    CHECK_INT(info.spans, 4);
    CHECK_INT(info.lost, 0);
    CHECK_NEAR(info.clock_ghz, 2.0, 1e-12);
    CHECK(!strcmp(s[0].name, "load_V") && s[0].warp == 1 && s[0].kind == GQA_TRACE_LOAD);
    CHECK_NEAR(s[0].begin, 100, 1e-6);
    CHECK_NEAR(s[0].end, 150, 1e-6);
    CHECK_NEAR(s[1].end, 200, 1e-6);
    CHECK(!strcmp(s[2].name, "load_K") && s[2].tile == 7 && s[2].cta == 3 && s[2].sm == 1);
    CHECK_NEAR(s[2].begin, 0, 1e-6);
    CHECK(!strcmp(s[3].name, "wait_slot") && s[3].kind == GQA_TRACE_WAIT && s[3].after[0]);
    CHECK(!strcmp(s[3].role, "load") && !strcmp(s[3].kernel, "decode"));
    CHECK_NEAR(s[3].end, 300, 1e-6);
}

/* Its steps are coarse: 32 ns here. The SM's latest offset is right, the others are early. */
TEST(a_coarse_timer_is_bettered_by_the_clock) {
    struct gqa_trace_span s[8];
    struct gqa_trace_info info = gqa_trace_info_init();
    memset(made, 0, sizeof made);
    made[0].count = 4;
    for (int i = 0; i < 4; i++) {
        const uint64_t at = 10000 + 37 * (uint64_t)i, end = at + 32 * 1000;
        struct trace_block *b = block_make(1 + i, 0, i, at, at / 32 * 32);
        event(b, TRACE_load_K, i, at);
        block_end(b, end, end / 32 * 32);
    }
    CHECK_INT(gqa_trace_read(made, sizeof made, s, 8, &info, NULL), GQA_OK);
    for (int i = 1; i < 4; i++)
        CHECK_NEAR(s[i].begin - s[0].begin, 37.0 * i, 0.2);
}

/* Decode and the combine share whole blocks of the buffer, three to one, and count them in 31 bits.
 */
TEST(blocks_are_those_that_fit) {
    static const size_t sizes[] = {
        0, TRACE_BLOCK_BYTES, 4 * TRACE_BLOCK_BYTES - 1, 4 * TRACE_BLOCK_BYTES, 1 << 20, SIZE_MAX};
    static const uint32_t decode[] = {0, 0, 0, 3, 384, (uint32_t)INT32_MAX / 4 * 3};
    for (int i = 0; i < 6; i++) {
        CHECK_INT(trace_decode_blocks(sizes[i]), decode[i]);
        CHECK_INT(trace_combine_blocks(decode[i]), decode[i] / 3);
        CHECK(decode[i] + trace_combine_blocks(decode[i]) <= sizes[i] / TRACE_BLOCK_BYTES);
        CHECK(decode[i] + trace_combine_blocks(decode[i]) <= INT32_MAX);
    }
}

TEST(what_no_kernel_wrote_is_refused) {
    struct gqa_trace_info info = gqa_trace_info_init();
    memset(made, 0, sizeof made);
    CHECK_INT(gqa_trace_read(made, sizeof made, NULL, 0, &info, NULL), GQA_OK);
    CHECK_INT(info.spans, 0);
    CHECK_INT(gqa_trace_read(NULL, 0, NULL, 0, &info, NULL), GQA_ERR_ARGUMENT);
    CHECK_INT(gqa_trace_read(made, sizeof made, NULL, 8, &info, NULL), GQA_ERR_ARGUMENT);
    CHECK_INT(gqa_trace_read(made, 0, NULL, 0, &info, NULL), GQA_OK);
    info.size--;
    CHECK_INT(gqa_trace_read(made, sizeof made, NULL, 0, &info, NULL), GQA_ERR_ARGUMENT);
    info.size++;
    for (int fault = 0; fault < 5; fault++) {
        made[0].count = 1;
        struct trace_block *b = block_make(1, 0, 0, 100, 100);
        event(b, fault == 0 ? (enum trace_range)TRACE_RANGES : TRACE_load_K, 0, 100);
        block_end(b, fault == 1 ? 99 : 200, fault == 2 ? 99 : 200);
        b->count = fault == 3 ? TRACE_EVENTS + 1 : b->count;
        b->who |= fault == 4 ? 0xff00u : 0;
        CHECK_INT(gqa_trace_read(made, sizeof made, NULL, 0, &info, NULL), GQA_ERR_ARGUMENT);
    }
    made[0].count = 0xffffffff; /* more was asked for than there is: only what is there is read */
    for (int i = 1; i < 17; i++)
        block_end(block_make(i, 0, i, 100, 100), 200, 200);
    made[12].who = 0; /* the combine's head */
    made[12].count = 0;
    CHECK_INT(gqa_trace_read(made, sizeof made, NULL, 0, &info, NULL), GQA_OK);
}

/* --- Recording --- */

/* One step in the emulator. */
struct step {
    struct case_memory memory;
    struct test_case c;
    struct case_instance x;
    gqa_device *device;
    struct gqa_error err;
};

static bool step_open(struct step *s, const char *part) {
    struct gqa_problem p = gqa_problem_init();
    const char *path = getenv("GQA_CUDA_EMU") ? getenv("GQA_CUDA_EMU") : "build/libcuda-emu.so";
    char why[160];
    p.q_heads = 8;
    p.kv_heads = 1;
    p.head_dim = 128;
    p.kv_len = 700;
    p.kv_type = p.q_type = p.o_type = GQA_BF16;
    p.split_mode = GQA_SPLIT_FIXED;
    p.splits = 2;
    p.reduction = GQA_REDUCE_KERNEL;
    case_from_problem(&p, CASE_HND, &s->c);
    if (gqa_device_open(part, NULL, &s->device, &s->err)) {
        SKIP("%s", s->err.message);
        return false;
    }
    if (case_memory_cuda(path, 0, &s->memory, why) && case_build(&s->x, &s->c, 1, &s->memory))
        return true;
    FAIL("%s", why);
    return false;
}

static void step_close(struct step *s) {
    case_free(&s->x);
    gqa_device_close(s->device);
}

/* The output of the kernel is left in the case; `trace` may be NULL. */
static gqa_status step_run(struct step *s, const char *kernel, void *trace, size_t bytes) {
    gqa_plan *plan = NULL;
    struct gqa_problem p = s->x.p;
    p.kernel = kernel;
    gqa_status status = gqa_plan_create(s->device, &p, &plan, &s->err);
    if (status)
        return status;
    const size_t size = gqa_plan_workspace(plan);
    void *workspace = s->memory.alloc(s->memory.context, size, 256);
    struct gqa_tensors t = s->x.device;
    t.trace = trace;
    t.trace_bytes = bytes;
    status = gqa_decode(plan, &t, workspace, size, NULL, &s->err);
    if (!status && !case_collect(&s->x)) {
        snprintf(s->err.message, sizeof s->err.message, "%s", s->x.why);
        status = GQA_ERR_DRIVER;
    }
    s->memory.release(s->memory.context, workspace, size);
    gqa_plan_destroy(plan);
    return status;
}

/* Run with a zeroed buffer of `blocks` in the middle of guard blocks of 0xA5; the buffer's copy
 * goes to `to`. Returns false where the guards were written to, or the step failed. */
static bool record(struct step *s, const char *kernel, size_t blocks, unsigned char *to) {
    enum { SIZE = TRACE_BLOCK_BYTES };
    const size_t all = (blocks + 3) * SIZE;
    unsigned char *host = malloc(all), *device = s->memory.alloc(s->memory.context, all, 256);
    unsigned char *aligned = device + (SIZE - (uintptr_t)device % SIZE) % SIZE;
    memset(host, 0xa5, all);
    memset(host + SIZE, 0, blocks * SIZE);
    bool ok = s->memory.upload(s->memory.context, aligned, host, (blocks + 2) * SIZE);
    const gqa_status status = step_run(s, kernel, aligned + SIZE, blocks * SIZE);
    if (status)
        FAIL("%s: %s", kernel, s->err.message);
    ok = ok && !status && s->memory.download(s->memory.context, host, aligned, (blocks + 2) * SIZE);
    for (size_t i = 0; ok && i < SIZE; i++)
        ok = host[i] == 0xa5 && host[(blocks + 1) * SIZE + i] == 0xa5;
    memcpy(to, host + SIZE, blocks * SIZE);
    s->memory.release(s->memory.context, device, all);
    free(host);
    return ok;
}

static int count_spans(const struct gqa_trace_span *s, size_t n, int cta, const char *role,
                       const char *name) {
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found += s[i].cta == cta && !strcmp(s[i].role, role) && !strcmp(s[i].name, name);
    return found;
}

/* Spans of a warp follow each other without a gap, and the tiles of a CTA's part are all there. */
static void check_spans(const struct gqa_trace_span *s, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (s[i].kernel == s[i - 1].kernel && s[i].cta == s[i - 1].cta &&
            s[i].warp == s[i - 1].warp)
            CHECK(s[i].begin >= s[i - 1].end - 1e-6 && s[i].end >= s[i].begin);
    for (int cta = 0; cta < 2; cta++) { /* 352 and 348 tokens: 2 tiles of 3 halves, of 2 stages */
        CHECK_INT(count_spans(s, n, cta, "load", "load_K"), 6);
        CHECK_INT(count_spans(s, n, cta, "load", "load_V"), 6);
        CHECK_INT(count_spans(s, n, cta, "multiply", "KQ_issue"), 6);
        CHECK_INT(count_spans(s, n, cta, "multiply", "VP_issue"), 6);
        CHECK_INT(count_spans(s, n, cta, "softmax", "P_publish"), 4 * 2);
        CHECK_INT(count_spans(s, n, cta, "softmax", "stats_publish"), 4);
        CHECK_INT(count_spans(s, n, cta, "finish", "partial_store"), 4);
        CHECK_INT(count_spans(s, n, cta, "finish", "producer_trigger"), 4);
    }
    CHECK_INT(count_spans(s, n, 0, "combine", "griddepcontrol_wait"), 8);
    CHECK(count_spans(s, n, 0, "combine", "weighted_merge") > 0);
}

#define KERNEL "gqa_decode_sm100_bf16_d128_g8"

static bool has_image(struct step *s, const char *kernel) {
    struct gqa_kernel_info k = gqa_kernel_info_init();
    for (int i = 0; !gqa_device_kernel(s->device, i, &k, NULL); i++)
        if (!strcmp(k.name, kernel))
            return k.available || (SKIP("%s: %s", kernel, k.why), false);
    FAIL("%s is not in the list", kernel);
    return false;
}

TEST(a_blackwell_step_is_recorded) {
    enum { BLOCKS = 64 };
    struct step s;
    if (!step_open(&s, "emu:sm_100a"))
        return;
    if (has_image(&s, KERNEL "_trace") && has_image(&s, KERNEL)) {
        unsigned char *buffer = malloc(BLOCKS * TRACE_BLOCK_BYTES);
        struct gqa_trace_span *spans = calloc(MAX_SPANS, sizeof *spans);
        struct gqa_trace_info info = gqa_trace_info_init();
        char plain[8 * 128 * 2];
        CHECK_INT(step_run(&s, KERNEL, NULL, 0), GQA_OK);
        memcpy(plain, s.x.buffers[CASE_O].host, sizeof plain);
        CHECK(case_reset(&s.x) && record(&s, KERNEL "_trace", BLOCKS, buffer));
        CHECK(!memcmp(plain, s.x.buffers[CASE_O].host, sizeof plain));
        CHECK_INT(
            gqa_trace_read(buffer, BLOCKS * TRACE_BLOCK_BYTES, spans, MAX_SPANS, &info, &s.err),
            GQA_OK);
        CHECK_INT(info.lost, 0);
        CHECK(info.spans > 0 && info.spans < MAX_SPANS);
        check_spans(spans, info.spans);

        /* Decode's 20 warps get 5 blocks, the combine's 8 get 1: the rest is counted. */
        const size_t all = info.spans;
        CHECK(case_reset(&s.x) && record(&s, KERNEL "_trace", 8, buffer));
        CHECK(!memcmp(plain, s.x.buffers[CASE_O].host, sizeof plain));
        CHECK_INT(gqa_trace_read(buffer, 8 * TRACE_BLOCK_BYTES, NULL, 0, &info, &s.err), GQA_OK);
        CHECK(info.spans > 0 && info.lost > 0);
        CHECK_INT(info.spans + info.lost, all);

        CHECK_INT(step_run(&s, KERNEL "_trace", NULL, 0), GQA_OK);
        CHECK_INT(step_run(&s, KERNEL, buffer, 4096), GQA_ERR_UNSUPPORTED);
        free(buffer);
        free(spans);
    }
    step_close(&s);
}

TEST_MAIN
