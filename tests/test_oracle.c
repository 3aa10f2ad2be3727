/* SPDX-License-Identifier: Apache-2.0
 * The oracle itself: against examples small enough to work out by hand, and against faults that a
 * comparison must catch. An oracle that nothing can contradict proves nothing. */
#include "../src/num.h"
#include "cases.h"
#include "compare.h"
#include "ref.h"
#include "test.h"

/* --- By hand --- */

/* A problem of float32 and one head of `dim`, packed, and its tensors. */
struct tiny {
    struct gqa_problem p;
    struct gqa_tensors t;
    struct ref ref;
};

static struct tiny tiny(int dim, int64_t kv_len, const float *q, const float *k, const float *v) {
    struct tiny x = {.p = gqa_problem_init(), .t = gqa_tensors_init()};
    x.p.q_heads = x.p.kv_heads = 1;
    x.p.head_dim = dim;
    x.p.kv_len = kv_len;
    x.p.scale = 1;
    x.p.q = x.p.o = (struct gqa_strides){dim, dim, dim};
    x.p.k = x.p.v = (struct gqa_strides){kv_len * dim, dim, kv_len * dim};
    x.t.q = q;
    x.t.k = k;
    x.t.v = v;
    return x;
}

static const struct ref *solve(struct tiny *x) {
    ref_free(&x->ref);
    CHECK(ref_decode(&x->p, &x->t, &x->ref));
    return &x->ref;
}

static const float one = 1, zeros[64], ln3 = 1.0986122886681098f;
static const float count[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

TEST(one_key_gives_its_value) {
    const float q[] = {1, 2}, k[] = {3, -1}, v[] = {5, -7};
    struct tiny x = tiny(2, 1, q, k, v);
    const struct ref *r = solve(&x);
    CHECK_NEAR(r->o[0], 5, 0);
    CHECK_NEAR(r->o[1], -7, 0);
    CHECK_NEAR(r->lse[0], 1, 0);
    CHECK_INT(r->keys[0], 1);
    CHECK_NEAR(r->score[0], 5, 0); /* |3| + |-2| */
    ref_free(&x.ref);
}

TEST(two_keys_weigh_as_their_exponentials) {
    const float k[] = {0, ln3}, v[] = {0, 4};
    struct tiny x = tiny(1, 2, &one, k, v);
    const struct ref *r = solve(&x);
    CHECK_NEAR(r->o[0], 3, 1e-7); /* weights 1/4 and 3/4 */
    CHECK_NEAR(r->lse[0], log(4), 1e-7);
    CHECK_NEAR(r->spread[0], 3, 1e-7);
    CHECK_NEAR(r->weight[0], sqrt(10) / 4, 1e-7);
    x.p.lse_base = GQA_BASE_2;
    CHECK_NEAR(solve(&x)->lse[0], 2, 1e-7);
    x.p.scale = 0.5f; /* weights 1 and sqrt(3) */
    CHECK_NEAR(solve(&x)->o[0], 4 * sqrt(3) / (1 + sqrt(3)), 1e-6);
    x.p.scale = 0; /* 1 / sqrt(head_dim) is 1 here */
    CHECK_NEAR(solve(&x)->o[0], 3, 1e-7);
    ref_free(&x.ref);
}

TEST(default_scale_is_one_over_root_of_dim) {
    const float q[] = {1, 1, 1, 1}, k[] = {0, 0, 0, 0, 2 * ln3, 0, 0, 0};
    const float v[] = {0, 0, 0, 0, 4, 4, 4, 4};
    struct tiny x = tiny(4, 2, q, k, v);
    x.p.scale = 0;
    CHECK_NEAR(solve(&x)->o[3], 3, 1e-6);
    ref_free(&x.ref);
}

TEST(sinks_count_once_in_logit_units) {
    const float k[] = {0, ln3}, v[] = {0, 4}, sink = 0, big = logf(4);
    struct tiny x = tiny(1, 2, &one, k, v);
    x.p.has_sinks = 1;
    x.t.sinks = &sink; /* weights 1/5, 3/5, sink 1/5 */
    CHECK_NEAR(solve(&x)->o[0], 12.0 / 5, 1e-6);
    CHECK_NEAR(x.ref.lse[0], log(5), 1e-6);
    x.t.sinks = &big; /* 1/8, 3/8, sink 4/8; scale does not touch it */
    x.p.scale = 1;
    CHECK_NEAR(solve(&x)->o[0], 1.5, 1e-6);
    CHECK_NEAR(x.ref.lse[0], log(8), 1e-6);
    ref_free(&x.ref);
}

TEST(a_row_without_keys_is_zero_and_minus_infinity) {
    const int32_t none = 0;
    const float sink = 1.5f, nan_[] = {NAN, NAN};
    struct tiny x = tiny(1, 2, &one, nan_, nan_);
    x.t.kv_lens = &none;
    CHECK_NEAR(solve(&x)->o[0], 0, 0);
    CHECK(x.ref.lse[0] == -INFINITY);
    CHECK_INT(x.ref.keys[0], 0);
    x.p.has_sinks = 1;
    x.t.sinks = &sink;
    CHECK_NEAR(solve(&x)->o[0], 0, 0);
    CHECK_NEAR(x.ref.lse[0], 1.5, 0);
    x.p.lse_base = GQA_BASE_2;
    CHECK_NEAR(solve(&x)->lse[0], 1.5 / log(2), 1e-12);
    ref_free(&x.ref);
}

TEST(unused_slots_are_not_read) {
    const float k[] = {0, ln3, NAN, INFINITY}, v[] = {0, 4, NAN, -INFINITY};
    const int32_t two = 2;
    struct tiny x = tiny(1, 4, &one, k, v);
    x.t.kv_lens = &two;
    CHECK_NEAR(solve(&x)->o[0], 3, 1e-7);
    ref_free(&x.ref);
}

TEST(a_window_of_left_three_sees_four_keys) {
    struct tiny x = tiny(1, 10, &one, zeros, count);
    x.p.window_left = 3;
    CHECK_NEAR(solve(&x)->o[0], (6 + 7 + 8 + 9) / 4.0, 1e-12);
    CHECK_INT(x.ref.keys[0], 4);
    x.p.window_left = 0;
    CHECK_NEAR(solve(&x)->o[0], 9, 1e-12);
    x.p.window_left = 9;
    CHECK_NEAR(solve(&x)->o[0], 4.5, 1e-12);
    ref_free(&x.ref);
}

TEST(causal_order_is_bottom_right) {
    const float q[] = {1, 1, 1};
    struct tiny x = tiny(1, 5, q, zeros, count);
    x.p.q_tokens = 3;
    solve(&x); /* token i sees keys 0 .. 2 + i */
    CHECK_NEAR(x.ref.o[0], 1, 1e-12);
    CHECK_NEAR(x.ref.o[1], 1.5, 1e-12);
    CHECK_NEAR(x.ref.o[2], 2, 1e-12);
    x.p.window_left = 1; /* keys 1, 2; 2, 3; 3, 4 */
    solve(&x);
    CHECK_NEAR(x.ref.o[0], 1.5, 1e-12);
    CHECK_NEAR(x.ref.o[1], 2.5, 1e-12);
    CHECK_NEAR(x.ref.o[2], 3.5, 1e-12);
    x.p.causal = 0; /* the window still ends where the row stands on the left only */
    solve(&x);
    CHECK_NEAR(x.ref.o[0], 2.5, 1e-12);
    CHECK_NEAR(x.ref.o[2], 3.5, 1e-12);
    const int32_t two = 2; /* fewer keys than queries: the first row sees none */
    x.p.causal = 1;
    x.p.window_left = -1;
    x.t.kv_lens = &two;
    solve(&x);
    CHECK_INT(x.ref.keys[0], 0);
    CHECK_INT(x.ref.keys[1], 1);
    CHECK_INT(x.ref.keys[2], 2);
    ref_free(&x.ref);
}

TEST(softcap_bends_scores) {
    const float k[] = {0, 2}, v[] = {0, 1};
    struct tiny x = tiny(1, 2, &one, k, v);
    x.p.softcap = 0.5f;
    const double s = 0.5 * tanh(4);
    CHECK_NEAR(solve(&x)->o[0], exp(s) / (1 + exp(s)), 1e-12);
    ref_free(&x.ref);
}

TEST(groups_share_kv_heads_in_order) {
    const float q[] = {0, 0, 0, 0, 0, 0}, v[] = {10, 20};
    struct tiny x = tiny(1, 1, q, zeros, v);
    x.p.q_heads = 6;
    x.p.kv_heads = 2;
    for (int h = 0; h < 6; h++)
        CHECK_NEAR(solve(&x)->o[h], h < 3 ? 10 : 20, 0);
    ref_free(&x.ref);
}

TEST(scales_have_four_shapes) {
    const float q[] = {1, 1, 1, 1}, k[] = {0, 1, 0, 1, 0, 1, 0, 1}, v[] = {0, 1, 0, 1, 0, 1, 0, 1};
    const float k_scale[] = {logf(1), logf(2), logf(3), logf(4)}, v_scale[] = {5, 6, 7, 8};
    static const int pick[4][4] = {{0}, {0, 0, 0, 0}, {0, 1, 0, 1}, {0, 1, 2, 3}};
    struct tiny x = tiny(1, 2, q, k, v);
    x.p.batch = x.p.q_heads = x.p.kv_heads = 2;
    x.p.q = x.p.o = (struct gqa_strides){2, 2, 1};
    x.p.k = x.p.v = (struct gqa_strides){4, 1, 2};
    x.t.k_scale = k_scale;
    x.t.v_scale = v_scale;
    for (int kind = GQA_SCALE_TENSOR; kind <= GQA_SCALE_BATCH_HEAD; kind++)
        for (int i = 0; i < 4; i++) {
            x.p.k_scales = x.p.v_scales = (enum gqa_scales)kind;
            const double w = exp((double)k_scale[pick[kind][i]]);
            CHECK_NEAR(solve(&x)->o[i], (double)v_scale[pick[kind][i]] * w / (1 + w), 1e-6);
        }
    x.p.k_scales = x.p.v_scales = GQA_SCALE_NONE;
    CHECK_NEAR(solve(&x)->o[3], exp(1) / (1 + exp(1)), 1e-6);
    ref_free(&x.ref);
}

TEST(pages_are_found_by_table_and_by_list) {
    const int32_t table[] = {2, 0, -1, INT32_MAX}, lens[] = {3, 1}, indptr[] = {0, 2, 3};
    const int32_t indices[] = {2, 0, 1}, last[] = {1, 1}, index[] = {1, 0};
    const int32_t wide[] = {2, 0, 7, 1, 7, 7};
    const float q[] = {1, 1};
    struct tiny x = tiny(1, 4, q, zeros, count);
    x.p.batch = 1;
    x.p.paging = GQA_PAGED_TABLE;
    x.p.page_size = 2; /* pages {0, 1}, {2, 3}, {4, 5} */
    x.p.k = x.p.v = (struct gqa_strides){2, 1, 2};
    x.t.block_table = table;
    x.t.kv_lens = lens;
    CHECK_NEAR(solve(&x)->o[0], (4 + 5 + 0) / 3.0, 1e-12);
    x.p.batch = 2;
    x.p.table_stride = 3;
    x.t.block_table = wide;
    CHECK_NEAR(solve(&x)->o[1], 2, 1e-12);
    x.p.table_stride = 0;
    x.p.paging = GQA_PAGED_CSR;
    x.t.kv_lens = NULL;
    x.t.page_indptr = indptr;
    x.t.page_indices = indices;
    x.t.last_page_len = last;
    CHECK_NEAR(solve(&x)->o[0], (4 + 5 + 0) / 3.0, 1e-12);
    CHECK_NEAR(x.ref.o[1], 2, 1e-12);
    x.t.batch_index = index; /* lengths stay with the sequence: one page then two */
    CHECK_NEAR(solve(&x)->o[0], 2, 1e-12);
    CHECK_NEAR(x.ref.o[1], (4 + 5 + 0) / 3.0, 1e-12);
    ref_free(&x.ref);
}

TEST(ragged_rows_are_packed_by_token) {
    const float q[] = {1, 1, 1, NAN}, v[] = {0, 1, 2, 10, 11, 12};
    const int32_t cu[] = {0, 2, 2, 3}, lens[] = {3, 3, 2}, index[] = {0, 0, 1};
    struct tiny x = tiny(1, 3, q, zeros, v);
    x.p.batch = 3;
    x.p.kv_batch = 2;
    x.p.q_ragged = 1;
    x.p.q_tokens = 2;
    x.p.q_total = 4;
    x.t.cu_seqlens_q = cu;
    x.t.kv_lens = lens;
    x.t.batch_index = index;
    const struct ref *r = solve(&x);
    CHECK_NEAR(r->o[0], 0.5, 1e-12);
    CHECK_NEAR(r->o[1], 1, 1e-12);
    CHECK_NEAR(r->o[2], 10.5, 1e-12);
    CHECK(r->owner[6] == -1 && r->owner[4] == 2); /* row 3 belongs to no sequence */
    ref_free(&x.ref);
}

TEST(merging_is_weighing_by_lse) {
    const float o[] = {0, 7, NAN, 4, NAN, NAN},
                lse[] = {0, 2, -INFINITY, ln3, -INFINITY, -INFINITY};
    struct gqa_shards m = gqa_shards_init();
    struct ref ref;
    m.parts = 2;
    m.rows = 3;
    m.q_heads = m.head_dim_v = 1;
    m.part_o = o;
    m.part_lse = lse;
    CHECK(ref_merge(&m, &ref));
    CHECK_NEAR(ref.o[0], 3, 1e-7); /* parts 0 and 4 with weights 1 and 3 */
    CHECK_NEAR(ref.lse[0], log(4), 1e-7);
    CHECK_NEAR(ref.o[1], 7, 0); /* the other part is empty, its NaN is not read */
    CHECK_NEAR(ref.lse[1], 2, 1e-12);
    CHECK(ref.o[2] == 0 && ref.lse[2] == -INFINITY);
    ref_free(&ref);
    m.part_base = GQA_BASE_2; /* weights 1 and 2^ln3; and out in base e */
    CHECK(ref_merge(&m, &ref));
    CHECK_NEAR(ref.o[0], 4 * exp2(log(3)) / (1 + exp2(log(3))), 1e-6);
    CHECK_NEAR(ref.lse[0], log(1 + exp2(log(3))), 1e-6);
    ref_free(&ref);
}

/* --- The comparison catches faults --- */

/* The reference as a perfect backend would leave it in the outputs of x. */
static void write_outputs(struct case_instance *x, const struct ref *ref) {
    for (int64_t at = 0; at < ref->rows * ref->q_heads; at++) {
        const int64_t row = at / ref->q_heads;
        const int head = (int)(at % ref->q_heads);
        if (ref->owner[2 * row] < 0)
            continue;
        for (int d = 0; d < ref->head_dim_v; d++)
            num_store(x->p.o_type, x->host.o, ref_row_offset(&x->p, &x->p.o, row, head) + d,
                      (float)ref->o[at * ref->head_dim_v + d]);
        if (x->p.has_lse)
            x->host.lse[ref_row_offset(&x->p, &x->p.lse, row, head)] = (float)ref->lse[at];
    }
}

static bool judged_right(struct case_instance *x, const struct ref *ref) {
    struct compare_result result;
    compare_decode(&x->p, &x->host, ref, &result);
    CHECK(result.ok == !result.message[0]);
    return result.ok;
}

/* The first (row, head) with at least `keys` keys, -1 if there is none. */
static int64_t row_with_keys(const struct ref *ref, int64_t keys) {
    for (int64_t at = 0; at < ref->rows * ref->q_heads; at++)
        if (ref->keys[at] >= keys)
            return at;
    return -1;
}

static bool build(struct case_instance *x, struct ref *ref, const char *name, struct test_case *c) {
    if (case_find(name, c) && case_build(x, c, 5, &case_memory_host) &&
        ref_decode(&x->p, &x->host, ref))
        return true;
    FAIL("cannot build %s: %s", name, x->why);
    return false;
}

/* The first one has logits so large that float32 itself is off by per cents. */
static const char *const samples[] = {
    "score/large-bf16",           "type/q-f32-kv-f32-o-f32",
    "type/q-bf16-kv-bf16-o-bf16", "type/q-f16-kv-e4m3-o-f16",
    "sink/zero-splits-1",         "queries/ragged",
    "layout/rows-heads-first",    "dim/bf16-192-128",
    "length/edges-bf16",          "empty/sinks",
    "window/left-63-q4",          "type/edge-values-e5m2",
};

TEST(a_perfect_answer_is_right) {
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct test_case c;
        struct case_instance x;
        struct ref ref;
        if (!build(&x, &ref, samples[i], &c))
            continue;
        CHECK(!judged_right(&x, &ref)); /* still 0xFF */
        write_outputs(&x, &ref);
        if (!judged_right(&x, &ref))
            FAIL("%s", samples[i]);
        ref_free(&ref);
        case_free(&x);
    }
}

/* One fault in the outputs for `at`; returns false if this case cannot have it. */
static bool inject(struct case_instance *x, const struct ref *ref, int fault, int64_t at) {
    const int64_t row = at / ref->q_heads, dim = ref->head_dim_v;
    const int head = (int)(at % ref->q_heads);
    const int64_t o = ref_row_offset(&x->p, &x->p.o, row, head);
    const int64_t lse = ref_row_offset(&x->p, &x->p.lse, row, head);
    const enum gqa_type type = x->p.o_type;
    void *out = x->host.o;
    const float old = num_load(type, out, o + dim / 2);
    switch (fault) {
    case 0: /* NaN in one element */
        num_store(type, out, o + dim / 2, NAN);
        return true;
    case 1: /* infinity */
        num_store(type, out, o, INFINITY);
        return true;
    case 2: /* the wrong sign */
        num_store(type, out, o + dim / 2, -old);
        return fabs(ref->o[at * dim + dim / 2]) > 0.05;
    case 3: /* a row of zeros */
        for (int d = 0; d < dim; d++)
            num_store(type, out, o + d, 0);
        return true;
    case 4: /* two elements exchanged */
        num_store(type, out, o + dim / 2, num_load(type, out, o));
        num_store(type, out, o, old);
        return fabs(ref->o[at * dim] - ref->o[at * dim + dim / 2]) > 0.05;
    case 5: /* lse in the other base */
        x->host.lse[lse] *= 1.442695f;
        return x->p.has_lse && fabs(ref->lse[at]) > 0.1;
    case 6: /* lse is not the sum but the maximum */
        x->host.lse[lse] -= 0.01f;
        return x->p.has_lse;
    case 7: /* the scale of V twice, nearly */
        for (int d = 0; d < dim; d++)
            num_store(type, out, o + d, 1.05f * num_load(type, out, o + d));
        return true;
    }
    return false;
}

TEST(faults_are_wrong) {
    for (size_t i = 1; i < sizeof samples / sizeof *samples; i++) {
        struct test_case c;
        struct case_instance x;
        struct ref ref;
        if (!build(&x, &ref, samples[i], &c))
            continue;
        const int64_t at = row_with_keys(&ref, 2);
        for (int fault = 0; at >= 0 && fault < 8; fault++) {
            write_outputs(&x, &ref);
            if (inject(&x, &ref, fault, at) && judged_right(&x, &ref))
                FAIL("fault %d of %s was not seen", fault, samples[i]);
        }
        ref_free(&ref);
        case_free(&x);
    }
}

TEST(a_row_without_keys_must_be_exact) {
    struct test_case c;
    struct case_instance x;
    struct ref ref;
    if (!build(&x, &ref, "empty/some-d256", &c))
        return;
    write_outputs(&x, &ref);
    CHECK(judged_right(&x, &ref));
    num_store(x.p.o_type, x.host.o, 7, 1e-30f);
    CHECK(!judged_right(&x, &ref));
    num_store(x.p.o_type, x.host.o, 7, 0);
    x.host.lse[0] = -1e30f;
    CHECK(!judged_right(&x, &ref));
    x.host.lse[0] = NAN;
    CHECK(!judged_right(&x, &ref));
    ref_free(&ref);
    case_free(&x);
}

/* A key too few, one too many, one in the place of another: what off-by-one errors do. Lengths are
 * changed under the reference, which then is the faulty backend. */
TEST(one_key_too_few_is_wrong) {
    static const char *const names[] = {"length/edges-f32", "length/edges-bf16", "length/edges-f16",
                                        "length/edges-e4m3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct test_case c;
        struct case_instance x;
        struct ref ref, faulty;
        if (!build(&x, &ref, names[i], &c))
            continue;
        for (int64_t b = 1; b < x.p.batch; b++) { /* b 0 has one key */
            ((int32_t *)x.buffers[CASE_KV_LENS].host)[b] -= 1;
            CHECK(ref_decode(&x.p, &x.host, &faulty));
            ((int32_t *)x.buffers[CASE_KV_LENS].host)[b] += 1;
            write_outputs(&x, &faulty);
            if (judged_right(&x, &ref))
                FAIL("%s: a key too few of %d was not seen", names[i], x.host.kv_lens[b]);
            ref_free(&faulty);
        }
        ref_free(&ref);
        case_free(&x);
    }
}

TEST(an_error_in_all_rows_is_wrong_though_no_element_is) {
    struct test_case c;
    struct case_instance x;
    struct ref ref;
    struct compare_result result;
    if (!build(&x, &ref, "type/exact-f32", &c))
        return;
    write_outputs(&x, &ref);
    for (int64_t i = 0; i < ref.rows * ref.q_heads * ref.head_dim_v; i++)
        ((float *)x.host.o)[i] *= 1 + 1.5e-5f;
    compare_decode(&x.p, &x.host, &ref, &result);
    CHECK(!result.ok && strstr(result.message, "RMS error of all"));
    CHECK_NEAR(result.rms_error, 1.5e-5, 1e-6);
    ref_free(&ref);
    case_free(&x);
}

/* --- The guards catch writes --- */

TEST(writes_outside_of_rows_are_found) {
    struct test_case c;
    struct case_instance x;
    struct ref ref;
    if (!build(&x, &ref, "layout/rows-fused", &c))
        return;
    write_outputs(&x, &ref);
    memcpy(x.device.o, x.host.o, x.buffers[CASE_O].bytes);
    memcpy(x.device.lse, x.host.lse, x.buffers[CASE_LSE].bytes);
    CHECK(case_collect(&x));
    const struct {
        enum case_tensor tensor;
        long long byte;
    } writes[] = {
        {CASE_O, -1},
        {CASE_O, (long long)x.buffers[CASE_O].bytes},
        {CASE_O, (x.p.q_heads * 64 + 1) * 2}, /* the gap after a token's heads */
        {CASE_LSE, -256},
        {CASE_LSE, (x.p.q_heads + 1) * 4},
        {CASE_Q, 5},
        {CASE_K, (long long)x.buffers[CASE_K].bytes - 1},
        {CASE_V, 0},
        {CASE_KV_LENS, 4},
    };
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        char *at = x.buffers[writes[i].tensor].device + writes[i].byte;
        *at ^= 0x10;
        if (case_collect(&x))
            FAIL("a write to %s at byte %lld was not found", x.buffers[writes[i].tensor].name,
                 writes[i].byte);
        *at ^= 0x10;
        CHECK(case_collect(&x));
    }
    ref_free(&ref);
    case_free(&x);
}

/* --- The list --- */

TEST(names_are_unique_and_found_again) {
    struct case_list list;
    CHECK(case_list_init(&list, 20));
    for (size_t i = 0; i < list.count; i++) {
        const struct test_case *c = &list.cases[i];
        if (strlen(c->name) >= sizeof c->name - 1 || strlen(c->subject) >= sizeof c->subject - 1 ||
            !c->subject[0])
            FAIL("%s: the name or the subject is cut", c->name);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(c->name, list.cases[j].name))
                FAIL("%s is there twice", c->name);
    }
    for (size_t i = 0; i < list.count; i += 37) {
        struct test_case found;
        CHECK(case_find(list.cases[i].name, &found));
        CHECK(!memcmp(&found.p, &list.cases[i].p, sizeof found.p));
    }
    struct test_case none;
    CHECK(!case_find("no/such-case", &none));
    CHECK(!case_find("random/1x", &none));
    case_list_free(&list);
}

TEST(the_same_seed_makes_the_same_data) {
    struct test_case c;
    struct case_instance a, b, other;
    CHECK(case_find("queries/ragged-paged", &c));
    if (!case_build(&a, &c, 9, &case_memory_host) || !case_build(&b, &c, 9, &case_memory_host) ||
        !case_build(&other, &c, 10, &case_memory_host)) {
        FAIL("no memory");
        return;
    }
    for (int w = 0; w < CASE_TENSORS; w++)
        if (a.buffers[w].bytes)
            CHECK(!memcmp(a.buffers[w].host, b.buffers[w].host, a.buffers[w].bytes));
    CHECK(memcmp(a.buffers[CASE_Q].host, other.buffers[CASE_Q].host, a.buffers[CASE_Q].bytes));
    case_free(&a);
    case_free(&b);
    case_free(&other);
}

TEST_MAIN
