/* SPDX-License-Identifier: Apache-2.0
 * gqa_merge: over the shards of a case's cache, and over made-up parts. */
#include "report.h"

#include "../src/num.h"

#include <stdio.h>
#include <stdlib.h>

/* --- Device buffers --- */

enum { SLOTS = 6 };

/* Device memory that lives as long as one check, and a copy of what was put there. */
struct slots {
    const struct case_memory *memory;
    struct slot {
        char *device;
        size_t bytes;
    } slots[SLOTS];
    bool ok;
};

static char *slot_take(struct slots *s, int i, size_t bytes, const void *host) {
    struct slot *slot = &s->slots[i];
    slot->bytes = bytes ? bytes : 4;
    slot->device = s->memory->alloc(s->memory->context, slot->bytes, 256);
    s->ok = s->ok && slot->device &&
            (!host || s->memory->upload(s->memory->context, slot->device, host, bytes));
    return slot->device;
}

static void slots_free(struct slots *s) {
    for (int i = 0; i < SLOTS; i++)
        if (s->slots[i].device)
            s->memory->release(s->memory->context, s->slots[i].device, s->slots[i].bytes);
}

/* --- Shards --- */

/* Plan and run one shard: tokens [begin, end) of every sequence, into float32 parts. */
static enum verify_outcome run_shard(struct verify_case *v, const struct verify_target *target,
                                     int64_t begin, int64_t end, float *o, float *lse,
                                     struct verify_report *report) {
    struct gqa_problem p = v->x.p;
    struct gqa_tensors t = v->x.device;
    struct gqa_error err = {0};
    struct slots s = {.memory = target->memory, .ok = true};
    gqa_plan *plan = NULL;
    int32_t *lens = malloc((size_t)p.batch * sizeof *lens);
    for (int64_t b = 0; lens && b < p.batch; b++) {
        const int64_t len = v->x.host.kv_lens[b] - begin;
        lens[b] = (int32_t)(len < 0 ? 0 : len < end - begin ? len : end - begin);
    }
    p.kernel = target->kernel;
    p.kv_len = end - begin;
    p.lse_base = p.lse_base == GQA_BASE_E ? GQA_BASE_2 : GQA_BASE_E;
    p.o_type = GQA_F32;
    const int64_t dim = p.head_dim_v ? p.head_dim_v : p.head_dim;
    p.o = (struct gqa_strides){p.q_heads * dim, p.q_heads * dim, dim};
    const size_t size = gqa_type_bytes(p.kv_type);
    t.k = (const char *)t.k + (size_t)(begin * (v->x.p.kv_len > 1 ? p.k.token : 0)) * size;
    t.v = (const char *)t.v + (size_t)(begin * (v->x.p.kv_len > 1 ? p.v.token : 0)) * size;
    t.o = o;
    t.lse = lse;
    gqa_status status = gqa_plan_create(target->device, &p, &plan, &err);
    if (!status) {
        const size_t bytes = gqa_plan_workspace(plan);
        t.kv_lens = (const int32_t *)slot_take(&s, 0, (size_t)p.batch * sizeof *lens, lens);
        void *workspace = slot_take(&s, 1, bytes, NULL);
        if (s.ok && lens)
            status = gqa_decode(plan, &t, workspace, bytes, target->stream, &err);
        else
            verify_say(report, VERIFY_SKIP, "no memory for a shard");
    }
    gqa_plan_destroy(plan);
    free(lens);
    if (status)
        verify_say(report, status == GQA_ERR_UNSUPPORTED ? VERIFY_SKIP : VERIFY_FAIL,
                   "shard [%lld, %lld): %s", (long long)begin, (long long)end, err.message);
    else if (!report->message[0])
        report->outcome = VERIFY_PASS;
    /* Releasing waits for the device, as download does. */
    float drain;
    target->memory->download(target->memory->context, &drain, o, sizeof drain);
    slots_free(&s);
    return report->outcome;
}

enum verify_outcome verify_shards(struct verify_case *v, const struct verify_target *target,
                                  struct verify_report *report) {
    const struct gqa_problem *p = &v->x.p;
    const int64_t n = v->x.c->shards, dim = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const size_t rows = (size_t)p->batch * (size_t)p->q_heads;
    struct slots s = {.memory = target->memory, .ok = true};
    float *o = (float *)slot_take(&s, 0, (size_t)n * rows * (size_t)dim * sizeof *o, NULL);
    float *lse = (float *)slot_take(&s, 1, (size_t)n * rows * sizeof *lse, NULL);
    enum verify_outcome outcome =
        s.ok ? VERIFY_PASS : verify_say(report, VERIFY_SKIP, "no memory for the parts");
    /* Unequal shards: the first fifth, then equal ones. */
    for (int64_t i = 0, begin = 0; outcome == VERIFY_PASS && i < n; i++) {
        const int64_t end = i + 1 == n ? p->kv_len : p->kv_len / 5 + i * p->kv_len / n;
        outcome = run_shard(v, target, begin, end, o + (size_t)i * rows * (size_t)dim,
                            lse + (size_t)i * rows, report);
        begin = end;
    }
    struct gqa_shards m = gqa_shards_init();
    struct gqa_error err = {0};
    m.parts = (int)n;
    m.rows = p->batch;
    m.q_heads = p->q_heads;
    m.head_dim_v = (int)dim;
    m.part_type = GQA_F32;
    m.o_type = p->o_type;
    m.o_base = p->lse_base;
    m.part_base = p->lse_base == GQA_BASE_E ? GQA_BASE_2 : GQA_BASE_E;
    m.part_o = o;
    m.part_lse = lse;
    m.o = v->x.device.o;
    m.lse = v->x.device.lse;
    if (outcome == VERIFY_PASS && !case_reset(&v->x))
        outcome = verify_say(report, VERIFY_FAIL, "%s", v->x.why);
    if (outcome == VERIFY_PASS && gqa_merge(target->device, &m, target->stream, &err))
        outcome = verify_say(report, err.status == GQA_ERR_UNSUPPORTED ? VERIFY_SKIP : VERIFY_FAIL,
                             "gqa_merge: %s", err.message);
    if (outcome == VERIFY_PASS && !case_collect(&v->x))
        outcome = verify_say(report, VERIFY_FAIL, "%s", v->x.why);
    if (outcome == VERIFY_PASS) {
        compare_decode(p, &v->x.host, &v->ref, &report->compared);
        if (!report->compared.ok)
            outcome = verify_say(report, VERIFY_FAIL, "%s", report->compared.message);
    }
    slots_free(&s);
    return report->outcome = outcome;
}

/* --- Made-up parts --- */

enum { MERGES = 72 };

static struct gqa_shards merge_shape(int n) {
    static const int parts[] = {1, 2, 3, 7, 64}, dims[] = {64, 128, 8, 96, 512, 1, 100};
    static const int rows[] = {1, 5, 33}, heads[] = {1, 3, 8, 2};
    struct gqa_shards m = gqa_shards_init();
    m.part_type = (enum gqa_type)(n % 3);
    m.o_type = (enum gqa_type)(n / 3 % 3);
    m.part_base = n / 9 % 2 ? GQA_BASE_2 : GQA_BASE_E;
    m.o_base = n / 18 % 2 ? GQA_BASE_2 : GQA_BASE_E;
    m.parts = parts[n % 5];
    m.rows = rows[n / 5 % 3];
    m.q_heads = heads[n / 7 % 4];
    m.head_dim_v = dims[n / 2 % 7];
    return m;
}

/* Each part is empty in a third of the rows, all parts are in every fourth row. */
static void fill_parts(const struct gqa_shards *m, struct case_random_state *r, void *o,
                       float *lse) {
    const int64_t all = m->rows * m->q_heads;
    for (int64_t i = 0; i < m->parts * all; i++) {
        const bool is_empty = (i % all) % 4 == 3 || case_below(r, 3) == 0;
        lse[i] =
            is_empty ? -INFINITY : (float)(8 * (case_unit(r) - 0.5) + (case_below(r, 8) ? 0 : 300));
        for (int d = 0; d < m->head_dim_v; d++)
            num_store(m->part_type, o, i * m->head_dim_v + d,
                      is_empty ? NAN : (float)(4 * (case_unit(r) - 0.5)));
    }
}

/* What a merge reads and writes, on the host. */
struct merge_data {
    char *parts, *parts_after, *o;
    float *lse, *lse_after, *o_lse;
    size_t parts_bytes, lse_bytes, o_bytes, o_lse_bytes;
};

static enum verify_outcome merge_on_device(struct gqa_shards *m, bool o_in_place, bool lse_in_place,
                                           bool has_lse, struct merge_data *x,
                                           const struct verify_target *target,
                                           struct verify_report *report) {
    const struct case_memory *memory = target->memory;
    struct slots s = {.memory = memory, .ok = true};
    struct gqa_error err = {0};
    char *parts = slot_take(&s, 0, x->parts_bytes, x->parts);
    char *lse = slot_take(&s, 1, x->lse_bytes, x->lse);
    char *o = o_in_place ? parts : slot_take(&s, 2, x->o_bytes, x->o);
    char *o_lse = lse_in_place ? lse : slot_take(&s, 3, x->o_lse_bytes, x->o_lse);
    m->part_o = parts;
    m->part_lse = (float *)lse;
    m->o = o;
    m->lse = has_lse ? (float *)o_lse : NULL;
    gqa_status status = GQA_OK;
    if (s.ok)
        status = gqa_merge(target->device, m, target->stream, &err);
    s.ok = s.ok && memory->download(memory->context, x->o, o, x->o_bytes) &&
           memory->download(memory->context, x->o_lse, o_lse, x->o_lse_bytes) &&
           memory->download(memory->context, x->parts_after, parts, x->parts_bytes) &&
           memory->download(memory->context, x->lse_after, lse, x->lse_bytes);
    slots_free(&s);
    if (status)
        return verify_say(report, status == GQA_ERR_UNSUPPORTED ? VERIFY_SKIP : VERIFY_FAIL,
                          "gqa_merge: %s", err.message);
    if (!s.ok)
        return verify_say(report, VERIFY_SKIP, "no memory for a merge");
    /* In place, part 0 is the output; the other parts are inputs still. */
    const size_t o_from = o_in_place ? x->o_bytes : 0;
    const size_t lse_from = lse_in_place ? x->o_lse_bytes : 0;
    if (memcmp(x->parts + o_from, x->parts_after + o_from, x->parts_bytes - o_from) ||
        memcmp((char *)x->lse + lse_from, (char *)x->lse_after + lse_from, x->lse_bytes - lse_from))
        return verify_say(report, VERIFY_FAIL, "an input of gqa_merge was written");
    return VERIFY_PASS;
}

static enum verify_outcome merge_check_one(struct gqa_shards *m, int n, struct merge_data *x,
                                           const struct verify_target *target,
                                           struct verify_report *report) {
    struct ref ref;
    const bool o_in_place = m->part_type == m->o_type && n % 2;
    const bool has_lse = n % 6 != 5, lse_in_place = has_lse && n % 4 == 3;
    m->part_o = x->parts;
    m->part_lse = x->lse;
    if (!ref_merge(m, &ref))
        return verify_say(report, VERIFY_SKIP, "no memory for the reference");
    enum verify_outcome outcome =
        merge_on_device(m, o_in_place, lse_in_place, has_lse, x, target, report);
    if (outcome == VERIFY_PASS) {
        m->o = x->o;
        m->lse = has_lse ? x->o_lse : NULL;
        compare_merge(m, &ref, &report->compared);
        if (!report->compared.ok)
            outcome = verify_say(report, VERIFY_FAIL, "%s", report->compared.message);
    }
    ref_free(&ref);
    return outcome;
}

enum verify_outcome verify_merge(int n, uint64_t seed, const struct verify_target *target,
                                 struct verify_report *report) {
    *report = (struct verify_report){.outcome = VERIFY_SKIP};
    if (n < 0 || n >= MERGES)
        return VERIFY_SKIP;
    struct gqa_shards m = merge_shape(n);
    struct case_random_state r = {seed + (uint64_t)n * 7919};
    const size_t rows = (size_t)m.rows * (size_t)m.q_heads, dim = (size_t)m.head_dim_v;
    struct merge_data x = {
        .parts_bytes = (size_t)m.parts * rows * dim * gqa_type_bytes(m.part_type),
        .lse_bytes = (size_t)m.parts * rows * sizeof(float),
        .o_bytes = rows * dim * gqa_type_bytes(m.o_type),
        .o_lse_bytes = rows * sizeof(float),
    };
    x.parts = malloc(x.parts_bytes);
    x.parts_after = malloc(x.parts_bytes);
    x.o = calloc(1, x.o_bytes);
    x.lse = malloc(x.lse_bytes);
    x.lse_after = malloc(x.lse_bytes);
    x.o_lse = calloc(1, x.o_lse_bytes);
    if (x.parts && x.parts_after && x.o && x.lse && x.lse_after && x.o_lse) {
        fill_parts(&m, &r, x.parts, x.lse);
        report->outcome = merge_check_one(&m, n, &x, target, report);
    } else {
        verify_say(report, VERIFY_SKIP, "no memory for a merge");
    }
    if (report->outcome == VERIFY_FAIL)
        snprintf(report->command, sizeof report->command,
                 "gqa verify --device %s --case merge/%d --seed %llu", target->name, n,
                 (unsigned long long)seed);
    free(x.parts);
    free(x.parts_after);
    free(x.o);
    free(x.lse);
    free(x.lse_after);
    free(x.o_lse);
    return report->outcome;
}
