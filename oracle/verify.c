/* SPDX-License-Identifier: Apache-2.0
 * Plan, run, compare; then once more, to see that nothing depended on what memory held. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 };

enum verify_outcome verify_say(struct verify_report *report, enum verify_outcome outcome,
                               const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(report->message, sizeof report->message, format, args);
    va_end(args);
    return report->outcome = outcome;
}

/* --- Opening --- */

bool verify_open(struct verify_case *v, const struct test_case *c, uint64_t seed,
                 const struct case_memory *memory, struct verify_report *report) {
    *v = (struct verify_case){.is_ready = false};
    *report = (struct verify_report){.outcome = VERIFY_SKIP};
    if (!case_build(&v->x, c, seed, memory)) {
        verify_say(report, VERIFY_SKIP, "%s", v->x.why);
        return false;
    }
    if (!ref_decode(&v->x.p, &v->x.host, &v->ref)) {
        case_free(&v->x);
        verify_say(report, VERIFY_SKIP, "no memory for the reference");
        return false;
    }
    return v->is_ready = true;
}

void verify_close(struct verify_case *v) {
    if (v->is_ready) {
        ref_free(&v->ref);
        case_free(&v->x);
    }
    v->is_ready = false;
}

/* --- One run --- */

/* A workspace with guards, on the device. */
struct workspace {
    const struct case_memory *memory;
    char *base;
    size_t bytes;
};

static size_t workspace_whole(const struct workspace *w) {
    return (w->bytes + 2 * GUARD + 255) / 256 * 256;
}

/* Everything to 0xFF, the guards too. */
static bool workspace_fill(struct workspace *w) {
    return case_memory_poison(w->memory, w->base, workspace_whole(w));
}

static bool workspace_open(struct workspace *w, const struct case_memory *memory, size_t bytes) {
    *w = (struct workspace){memory, NULL, bytes};
    w->base = memory->alloc(memory->context, workspace_whole(w), 256);
    return w->base && workspace_fill(w);
}

static void workspace_close(struct workspace *w) {
    if (w->base)
        w->memory->release(w->memory->context, w->base, workspace_whole(w));
}

/* The guards are still 0xFF. */
static bool workspace_is_sound(const struct workspace *w) {
    const size_t tail = workspace_whole(w) - GUARD - w->bytes;
    char band[3 * GUARD];
    const struct case_memory *m = w->memory;
    if (!m->download(m->context, band, w->base, GUARD) ||
        !m->download(m->context, band + GUARD, w->base + GUARD + w->bytes, tail))
        return false;
    for (size_t i = 0; i < GUARD + tail; i++)
        if (band[i] != (char)0xff)
            return false;
    return true;
}

/* How a run enters the library. */
enum entry { ENTRY_DECODE, ENTRY_SLICES };

static gqa_status enter(const struct verify_case *v, const struct verify_target *target,
                        const gqa_plan *plan, const struct workspace *w, enum entry entry,
                        struct gqa_error *err) {
    char *workspace = w->base + GUARD;
    const struct gqa_tensors *t = &v->x.device;
    if (entry == ENTRY_DECODE)
        return gqa_decode(plan, t, workspace, w->bytes, target->stream, err);
    for (int i = target->slices - 1; i >= 0; i--) {
        const gqa_status status =
            gqa_decode_slice(plan, t, workspace, w->bytes, i, target->slices, err);
        if (status)
            return status;
    }
    return gqa_decode_finish(plan, t, workspace, w->bytes, target->slices, err);
}

/* Run and look at the result. VERIFY_PASS leaves the outputs in the host arrays. */
static enum verify_outcome run_once(struct verify_case *v, const struct verify_target *target,
                                    const gqa_plan *plan, struct workspace *w, enum entry entry,
                                    struct verify_report *report) {
    struct gqa_error err = {0};
    const char *how = entry == ENTRY_DECODE ? "" : " (in slices)";
    if (!case_reset(&v->x))
        return verify_say(report, VERIFY_FAIL, "%s", v->x.why);
    const gqa_status status = enter(v, target, plan, w, entry, &err);
    if (status == GQA_ERR_ALIGNMENT && v->x.c->may_refuse)
        return verify_say(report, VERIFY_PASS, "refused: %s", err.message);
    if (status)
        return verify_say(report, VERIFY_FAIL, "gqa_decode%s: %s: %s", how, gqa_status_name(status),
                          err.message);
    if (!case_collect(&v->x))
        return verify_say(report, VERIFY_FAIL, "%s%s", v->x.why, how);
    if (!workspace_is_sound(w))
        return verify_say(report, VERIFY_FAIL, "bytes around the workspace (%zu) were written%s",
                          w->bytes, how);
    compare_decode(&v->x.p, &v->x.host, &v->ref, &report->compared);
    if (!report->compared.ok)
        return verify_say(report, VERIFY_FAIL, "%s%s", report->compared.message, how);
    return VERIFY_PASS;
}

/* A hash of the outputs, gaps and all. Ref: Fowler, Noll, Vo, FNV-1a. */
static uint64_t output_hash(const struct case_instance *x) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int w = 0; w < CASE_TENSORS; w++)
        for (size_t i = 0; x->buffers[w].is_output && i < x->buffers[w].bytes; i++)
            hash = (hash ^ (unsigned char)x->buffers[w].host[i]) * 0x100000001b3u;
    return hash;
}

static enum verify_outcome run_all(struct verify_case *v, const struct verify_target *target,
                                   const gqa_plan *plan, const struct gqa_plan_info *info,
                                   struct verify_report *report) {
    struct workspace w;
    if (!workspace_open(&w, target->memory, info->workspace_bytes)) {
        workspace_close(&w);
        return verify_say(report, VERIFY_SKIP, "no memory for a workspace of %zu bytes",
                          info->workspace_bytes);
    }
    enum verify_outcome outcome = run_once(v, target, plan, &w, ENTRY_DECODE, report);
    if (outcome == VERIFY_PASS && !report->message[0]) {
        const uint64_t first = output_hash(&v->x);
        outcome = run_once(v, target, plan, &w, ENTRY_DECODE, report);
        if (outcome == VERIFY_PASS && output_hash(&v->x) != first &&
            info->reduction != GQA_REDUCE_ATOMIC)
            outcome =
                verify_say(report, VERIFY_FAIL,
                           "the second run, from the workspace of the first, gave other bits");
        if (outcome == VERIFY_PASS && target->slices > 0)
            outcome = run_once(v, target, plan, &w, ENTRY_SLICES, report);
    }
    workspace_close(&w);
    return report->outcome = outcome;
}

/* --- The plan --- */

/* What gqa.h promises about workspaces: never more for a smaller problem, no less without LSE. */
/* The problem with one dimension less, or has_lse inverted; false if it has no such neighbour. */
static bool neighbour(const struct gqa_problem *p, int which, struct gqa_problem *less,
                      const char **what) {
    static const char *const names[] = {"half the batch",  "one sequence less", "half of kv_len",
                                        "a kv_len less 1", "half the q_tokens", "one q_token less",
                                        "has_lse inverted"};
    *less = *p;
    *what = names[which];
    switch (which) {
    case 0:
    case 1:
        less->batch = which ? p->batch - 1 : p->batch / 2;
        return p->batch > 1;
    case 2:
    case 3:
        less->kv_len = which == 3 ? p->kv_len - 1 : p->kv_len / 2;
        if (less->kv_len_expected > less->kv_len)
            less->kv_len_expected = less->kv_len;
        return p->kv_len > 1;
    case 4:
    case 5:
        less->q_tokens = which == 5 ? p->q_tokens - 1 : p->q_tokens / 2;
        return p->q_tokens > 1;
    default:
        less->has_lse = !p->has_lse;
        less->lse = (struct gqa_strides){(int64_t)p->q_heads * p->q_tokens, p->q_heads, 1};
        return true;
    }
}

static enum verify_outcome check_workspace(const struct verify_target *target,
                                           const struct gqa_problem *p, size_t bytes,
                                           struct verify_report *report) {
    for (int i = 0; i < 7; i++) {
        gqa_plan *plan;
        struct gqa_problem less;
        const char *what;
        if (!neighbour(p, i, &less, &what) || gqa_plan_create(target->device, &less, &plan, NULL))
            continue; /* a kernel need not take the smaller problem */
        const size_t now = gqa_plan_workspace(plan);
        gqa_plan_destroy(plan);
        if (now > bytes || (i == 6 && now != bytes))
            return verify_say(report, VERIFY_FAIL, "the workspace is %zu bytes, but %zu with %s",
                              bytes, now, what);
    }
    return VERIFY_PASS;
}

static enum verify_outcome verify_plan(struct verify_case *v, const struct verify_target *target,
                                       struct verify_report *report) {
    struct gqa_error err = {0};
    struct gqa_plan_info info = gqa_plan_info_init();
    struct gqa_problem p = v->x.p;
    gqa_plan *plan = NULL;
    p.kernel = target->kernel;
    const gqa_status status = gqa_plan_create(target->device, &p, &plan, &err);
    if (status == GQA_ERR_UNSUPPORTED)
        return verify_say(report, VERIFY_SKIP, "%s", err.message);
    if (status == GQA_ERR_ALIGNMENT && v->x.c->may_refuse)
        return verify_say(report, VERIFY_PASS, "refused: %s", err.message);
    if (status)
        return verify_say(report, VERIFY_FAIL, "gqa_plan_create: %s: %s", gqa_status_name(status),
                          err.message);
    enum verify_outcome outcome = VERIFY_PASS;
    if (gqa_plan_describe(plan, &info, &err))
        outcome = verify_say(report, VERIFY_FAIL, "gqa_plan_describe: %s", err.message);
    snprintf(report->kernel, sizeof report->kernel, "%s", info.kernel);
    if (outcome == VERIFY_PASS)
        outcome = check_workspace(target, &p, info.workspace_bytes, report);
    if (outcome == VERIFY_PASS)
        outcome = run_all(v, target, plan, &info, report);
    gqa_plan_destroy(plan);
    return outcome;
}

enum verify_outcome verify_run(struct verify_case *v, const struct verify_target *target,
                               struct verify_report *report) {
    *report = (struct verify_report){.outcome = VERIFY_FAIL};
    const enum verify_outcome outcome =
        v->x.c->shards ? verify_shards(v, target, report) : verify_plan(v, target, report);
    if (outcome == VERIFY_FAIL)
        snprintf(report->command, sizeof report->command,
                 "gqa verify --device %s --case %s --seed %llu%s%s", target->name, v->x.c->name,
                 (unsigned long long)v->x.seed, target->kernel ? " --kernel " : "",
                 target->kernel ? target->kernel : "");
    return report->outcome = outcome;
}

enum verify_outcome verify_one(const struct test_case *c, uint64_t seed,
                               const struct verify_target *target, struct verify_report *report) {
    struct verify_case v;
    if (!verify_open(&v, c, seed, target->memory, report))
        return report->outcome;
    verify_run(&v, target, report);
    verify_close(&v);
    return report->outcome;
}
