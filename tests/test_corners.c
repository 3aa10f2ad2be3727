/* SPDX-License-Identifier: Apache-2.0
 * Corners of the kernels that the case list cannot hold, in the emulator with its checks: pages far
 * larger than the memory there is, and parts in which a row sees no key. V is 1, so every output is
 * 1 whatever the weights are. One emulator, and so one part, per process. */
#include "cases.h"
#include "gqa.h"
#include "memory_cuda.h"
#include "test.h"

#include <unistd.h>

enum { HEADS = 4, DIM = 64, TOKENS = 300, MOST_Q = 4, ONE = 0x3f80 /* bf16 */ };
enum { LONGEST_SECONDS = 300 }; /* a kernel that hangs ends the test */

static bool is_blackwell(void) {
    return getenv("CORNERS") && !strcmp(getenv("CORNERS"), "sm100");
}

/* One step; the memory is of the one cache entry. */
struct step {
    gqa_device *device;
    struct case_memory memory;
    struct gqa_problem p;
    struct gqa_tensors t;
    struct gqa_error err;
};

static void *filled(struct step *s, size_t count, uint16_t value) {
    uint16_t host[HEADS * DIM * TOKENS];
    void *device = s->memory.alloc(s->memory.context, count * sizeof *host, 256);
    for (size_t i = 0; i < count; i++)
        host[i] = value;
    CHECK(device && s->memory.upload(s->memory.context, device, host, count * sizeof *host));
    return device;
}

static bool step_open(struct step *s) {
    const char *path = getenv("GQA_CUDA_EMU") ? getenv("GQA_CUDA_EMU") : "build/libcuda-emu.so";
    char why[160];
    alarm(LONGEST_SECONDS);
    if (gqa_device_open(is_blackwell() ? "emu:sm_100a" : "emu:sm_90a", NULL, &s->device, &s->err)) {
        SKIP("%s", s->err.message);
        return false;
    }
    if (!case_memory_cuda(path, 0, &s->memory, why)) {
        FAIL("%s", why);
        gqa_device_close(s->device);
        return false;
    }
    s->p = gqa_problem_init();
    s->p.q_heads = HEADS;
    s->p.kv_heads = 1;
    s->p.head_dim = DIM;
    s->p.q_type = s->p.kv_type = s->p.o_type = GQA_BF16;
    s->t = gqa_tensors_init();
    s->t.q = filled(s, HEADS * DIM * MOST_Q, ONE);
    s->t.k = filled(s, DIM * TOKENS, 0);
    s->t.v = filled(s, DIM * TOKENS, ONE);
    s->t.o = filled(s, HEADS * DIM * MOST_Q, 0);
    return true;
}

static void step_close(struct step *s) {
    alarm(0);
    s->memory.release(s->memory.context, (void *)s->t.q, HEADS * DIM * MOST_Q * 2);
    s->memory.release(s->memory.context, (void *)s->t.k, DIM * TOKENS * 2);
    s->memory.release(s->memory.context, (void *)s->t.v, DIM * TOKENS * 2);
    s->memory.release(s->memory.context, s->t.o, HEADS * DIM * MOST_Q * 2);
    gqa_device_close(s->device);
}

static bool planned(struct step *s, gqa_plan **plan) {
    if (!gqa_plan_create(s->device, &s->p, plan, &s->err))
        return true;
    if (strstr(s->err.message, "has no image"))
        SKIP("%s", s->err.message);
    else
        FAIL("%s: %s", s->p.kernel, s->err.message);
    return false;
}

/* The workspace is as it comes: what no kernel wrote must not be read. */
static void run(struct step *s, const char *kernel) {
    uint16_t o[HEADS * DIM * MOST_Q] = {0};
    const size_t count = (size_t)(HEADS * DIM * s->p.q_tokens);
    gqa_plan *plan = NULL;
    s->p.kernel = kernel;
    gqa_problem_pack(&s->p, GQA_HND);
    if (!planned(s, &plan))
        return;
    const size_t size = gqa_plan_workspace(plan);
    void *workspace = size ? s->memory.alloc(s->memory.context, size, 256) : NULL;
    if (gqa_decode(plan, &s->t, workspace, size, NULL, &s->err))
        FAIL("%s: %s", kernel, s->err.message);
    else if (!s->memory.download(s->memory.context, o, s->t.o, count * sizeof *o))
        FAIL("%s: the emulator stopped it", kernel);
    for (size_t i = 0; i < count; i++)
        if (o[i] != ONE) {
            FAIL("%s: output %zu is 0x%04x", kernel, i, o[i]);
            break;
        }
    if (workspace)
        s->memory.release(s->memory.context, workspace, size);
    gqa_plan_destroy(plan);
}

static const char *kernel_of(int k) {
    return k                ? "gqa_decode_sm80_bf16_d64_g8"
           : is_blackwell() ? "gqa_decode_sm100_bf16_d64_g8"
                            : "gqa_decode_sm90_bf16_d64_g8";
}

/* A page of 2^26 tokens times the tokens of a tile was more than 31 bits hold. */
TEST(pages_may_be_larger_than_the_cache) {
    static const int32_t pages[] = {TOKENS, 1 << 26, 68 * 1000 * 1000, 1 << 30, INT32_MAX};
    const int32_t table[1] = {0};
    struct step s;
    if (!step_open(&s))
        return;
    void *on_device = s.memory.alloc(s.memory.context, sizeof table, 256);
    CHECK(s.memory.upload(s.memory.context, on_device, table, sizeof table));
    s.t.block_table = on_device;
    s.p.kv_len = TOKENS;
    s.p.paging = GQA_PAGED_TABLE;
    for (int i = 0; i < 5; i++) {
        s.p.page_size = pages[i];
        for (int k = 0; k < 2; k++)
            run(&s, kernel_of(k));
    }
    for (s.p.page_size = 256, s.p.kv_len = 1; s.p.kv_len <= 256;
         s.p.kv_len = s.p.kv_len * 3 / 2 + 1)
        for (int k = 0; k < 2; k++)
            run(&s, kernel_of(k));
    s.memory.release(s.memory.context, on_device, sizeof table);
    step_close(&s);
}

/* Of four query tokens the first sees nothing in the last part, which has two tokens. Not of
 * Blackwell's kernels: an empty part leaves statistics only, and what the combine kernel then loads
 * it drops (docs/kernels.md). */
TEST(parts_that_a_row_does_not_see_are_written) {
    struct step s;
    if (is_blackwell() || !step_open(&s))
        return;
    s.p.q_tokens = MOST_Q;
    s.p.causal = 1;
    s.p.kv_len = 98;
    s.p.split_mode = GQA_SPLIT_FIXED;
    s.p.splits = 7;
    s.p.reduction = GQA_REDUCE_KERNEL;
    for (int k = 0; k < 2; k++)
        run(&s, kernel_of(k));
    step_close(&s);
}

/* Blackwell's atomic finish adds rows by bulk copies, 16 bytes at a time. */
TEST(rows_that_are_added_to_are_aligned) {
    struct step s;
    gqa_plan *plan = NULL;
    if (!is_blackwell() || !step_open(&s))
        return;
    s.p.kv_len = 4;
    s.p.o_type = GQA_F32;
    s.p.reduction = GQA_REDUCE_ATOMIC;
    gqa_problem_pack(&s.p, GQA_HND);
    s.p.kernel = kernel_of(0);
    if (!planned(&s, &plan)) {
        step_close(&s);
        return;
    }
    void *const o = s.t.o;
    s.t.o = (char *)o + 4;
    CHECK_INT(gqa_decode(plan, &s.t, NULL, 0, NULL, &s.err), GQA_ERR_ALIGNMENT);
    s.t.o = o;
    gqa_plan_destroy(plan);
    step_close(&s);
}

TEST_MAIN
