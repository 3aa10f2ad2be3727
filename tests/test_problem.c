/* SPDX-License-Identifier: Apache-2.0
 * What is refused, and what a normal problem looks like. Each rule of src/problem.c has a row that
 * breaks it and a row that just keeps it. */
#include "../src/problem.h"
#include "cases.h"
#include "test.h"

#include <limits.h>

static struct gqa_problem plain(void) {
    struct gqa_problem p = gqa_problem_init();
    p.batch = 3;
    p.q_heads = 8;
    p.kv_heads = 2;
    p.head_dim = 64;
    p.kv_len = 100;
    gqa_problem_pack(&p, GQA_HND);
    return p;
}

static struct gqa_problem paged(void) {
    struct gqa_problem p = plain();
    p.paging = GQA_PAGED_TABLE;
    p.page_size = 16;
    p.num_pages = 50;
    gqa_problem_pack(&p, GQA_HND);
    return p;
}

/* --- Refusals --- */

enum field_type { FIELD_INT, FIELD_INT64, FIELD_FLOAT };

/* Set one field to `value`; the status that must come back; and one of its neighbours that is
 * allowed (NAN: none to try). */
static const struct row {
    const char *field;
    size_t at;
    enum field_type type;
    double value;
    gqa_status status;
    bool is_paged;
} rows[] = {
#define I(name, value, status)                                                                     \
    { #name, offsetof(struct gqa_problem, name), FIELD_INT, value, status, false }
#define L(name, value, status)                                                                     \
    { #name, offsetof(struct gqa_problem, name), FIELD_INT64, value, status, false }
#define F(name, value, status)                                                                     \
    { #name, offsetof(struct gqa_problem, name), FIELD_FLOAT, value, status, false }
#define PI(name, value, status)                                                                    \
    { #name, offsetof(struct gqa_problem, name), FIELD_INT, value, status, true }
#define PL(name, value, status)                                                                    \
    { #name, offsetof(struct gqa_problem, name), FIELD_INT64, value, status, true }
    L(batch, -1, GQA_ERR_SHAPE),
    L(batch, 2147483648.0, GQA_ERR_SHAPE),
    L(batch, 0, GQA_OK),
    I(q_heads, 0, GQA_ERR_SHAPE),
    I(q_heads, -8, GQA_ERR_SHAPE),
    I(q_heads, 9, GQA_ERR_SHAPE), /* no multiple of kv_heads */
    I(q_heads, 6, GQA_OK),
    I(q_heads, INT_MAX - 1, GQA_ERR_SHAPE),
    I(kv_heads, 0, GQA_ERR_SHAPE),
    I(kv_heads, -1, GQA_ERR_SHAPE),
    I(kv_heads, 16, GQA_ERR_SHAPE), /* more than q_heads */
    I(kv_heads, 3, GQA_ERR_SHAPE),
    I(kv_heads, 8, GQA_OK),
    I(head_dim, 0, GQA_ERR_SHAPE),
    I(head_dim, 513, GQA_ERR_SHAPE),
    I(head_dim, INT_MIN, GQA_ERR_SHAPE),
    I(head_dim, 1, GQA_OK),
    I(head_dim_v, -1, GQA_ERR_SHAPE),
    I(head_dim_v, 513, GQA_ERR_SHAPE),
    I(head_dim_v, 8, GQA_OK),
    I(q_tokens, 0, GQA_ERR_SHAPE),
    I(q_tokens, 17, GQA_ERR_SHAPE),
    L(kv_len, -1, GQA_ERR_SHAPE),
    L(kv_len, 2147483648.0, GQA_ERR_SHAPE),
    L(kv_len, 9.2e18, GQA_ERR_SHAPE),
    L(kv_len, 0, GQA_OK),
    L(kv_len_expected, 101, GQA_ERR_SHAPE),
    L(kv_len_expected, -1, GQA_ERR_SHAPE),
    L(kv_len_expected, 100, GQA_OK),
    L(kv_batch, -1, GQA_ERR_SHAPE),
    L(kv_batch, 1000, GQA_OK),
    L(q_total, -1, GQA_ERR_SHAPE),
    I(page_size, 16, GQA_ERR_SHAPE), /* but the cache is contiguous */
    I(page_size, -1, GQA_ERR_SHAPE),
    PI(page_size, 0, GQA_ERR_SHAPE),
    PI(page_size, -16, GQA_ERR_SHAPE),
    PL(num_pages, -1, GQA_ERR_SHAPE),
    PL(num_pages, 2147483648.0, GQA_ERR_SHAPE),
    PL(num_pages, 0, GQA_OK),
    PL(table_stride, 6, GQA_ERR_SHAPE), /* 100 tokens are 7 pages of 16 */
    PL(table_stride, 7, GQA_OK),
    PL(table_stride, -1, GQA_ERR_SHAPE),
    L(window_left, -2, GQA_ERR_SHAPE),
    L(window_left, 9.2e18, GQA_OK),
    I(splits, -1, GQA_ERR_SHAPE),
    I(splits, 4097, GQA_ERR_SHAPE),
    I(split_mode, GQA_SPLIT_FIXED, GQA_ERR_SHAPE), /* splits is 0 */
    I(splits, 4, GQA_ERR_SHAPE),                   /* split_mode is auto */
    L(split_tokens, -1, GQA_ERR_SHAPE),
    L(split_tokens, 64, GQA_ERR_SHAPE), /* split_mode is auto */
    I(q_type, GQA_E4M3, GQA_ERR_TYPE),
    I(q_type, 77, GQA_ERR_TYPE),
    I(q_type, -1, GQA_ERR_TYPE),
    I(o_type, GQA_E5M2, GQA_ERR_TYPE),
    I(kv_type, 5, GQA_ERR_TYPE),
    I(kv_type, -1, GQA_ERR_TYPE),
    I(kv_type, GQA_E5M2, GQA_OK),
    I(paging, 3, GQA_ERR_ARGUMENT),
    I(paging, -1, GQA_ERR_ARGUMENT),
    I(k_scales, 4, GQA_ERR_ARGUMENT),
    I(v_scales, -1, GQA_ERR_ARGUMENT),
    I(lse_base, 2, GQA_ERR_ARGUMENT),
    I(split_mode, 3, GQA_ERR_ARGUMENT),
    I(reduction, 6, GQA_ERR_ARGUMENT),
    I(pdl, 4, GQA_ERR_ARGUMENT),
    I(precision, 2, GQA_ERR_ARGUMENT),
    F(scale, (double)NAN, GQA_ERR_ARGUMENT),
    F(scale, (double)INFINITY, GQA_ERR_ARGUMENT),
    F(scale, -1, GQA_OK),
    F(softcap, -1, GQA_ERR_ARGUMENT),
    F(softcap, (double)NAN, GQA_ERR_ARGUMENT),
    F(softcap, (double)INFINITY, GQA_ERR_ARGUMENT),
    L(q.head, -64, GQA_ERR_STRIDE),
    L(q.batch, -1, GQA_ERR_STRIDE),
    L(q.batch, 0, GQA_OK), /* every sequence asks the same */
    L(k.token, -1, GQA_ERR_STRIDE),
    L(k.head, 0, GQA_OK),
    L(k.batch, 9.2e18, GQA_ERR_STRIDE),
    L(v.head, 9.2e18, GQA_ERR_STRIDE),
    L(v.token, 9e16, GQA_ERR_STRIDE), /* times 99 tokens, beyond 2^62 bytes */
    L(o.head, 63, GQA_ERR_STRIDE),    /* rows overlap */
    L(o.head, 0, GQA_ERR_STRIDE),
    L(o.batch, 511, GQA_ERR_STRIDE),
    L(o.batch, 0, GQA_ERR_STRIDE),
    L(o.batch, -512, GQA_ERR_STRIDE),
    L(o.batch, 512, GQA_OK),
    PL(k.batch, -1, GQA_ERR_STRIDE),
    PL(v.batch, 9.2e18, GQA_ERR_STRIDE),
    PL(k.batch, 0, GQA_OK),
#undef I
#undef L
#undef F
#undef PI
#undef PL
};

static void set_field(struct gqa_problem *p, const struct row *row) {
    char *at = (char *)p + row->at;
    const int as_int = (int)row->value;
    const int64_t as_int64 = (int64_t)row->value;
    const float as_float = (float)row->value;
    if (row->type == FIELD_INT)
        memcpy(at, &as_int, sizeof as_int);
    else if (row->type == FIELD_INT64)
        memcpy(at, &as_int64, sizeof as_int64);
    else
        memcpy(at, &as_float, sizeof as_float);
}

TEST(each_rule_refuses_and_says_so) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gqa_problem p = rows[i].is_paged ? paged() : plain();
        struct gqa_problem normal, before;
        struct gqa_error err = {GQA_OK, ""};
        memset(&normal, 0x5a, sizeof normal);
        before = normal;
        set_field(&p, &rows[i]);
        const gqa_status status = problem_normalise(&p, &normal, &err);
        if (status != rows[i].status)
            FAIL("%s = %g gives %s (%s), expected %s", rows[i].field, rows[i].value,
                 gqa_status_name(status), err.message, gqa_status_name(rows[i].status));
        CHECK_INT(err.status, status);
        if (status && (!err.message[0] || memcmp(&before, &normal, sizeof normal)))
            FAIL("%s = %g: no message, or the output was written", rows[i].field, rows[i].value);
        /* The message names the field, or its partner: split_mode and splits, k.batch and k. */
        char name[32];
        snprintf(name, sizeof name, "%s", rows[i].field);
        name[strcspn(name, "._")] = 0;
        if (status && !strstr(err.message, name))
            FAIL("the message about %s does not name it: %s", rows[i].field, err.message);
        CHECK_INT(problem_normalise(&p, &normal, NULL), status); /* err may be NULL */
    }
}

TEST(struct_size_is_checked) {
    struct gqa_problem p = plain(), normal;
    CHECK_INT(problem_normalise(NULL, &normal, NULL), GQA_ERR_ARGUMENT);
    p.size = 0;
    CHECK_INT(problem_normalise(&p, &normal, NULL), GQA_ERR_ARGUMENT);
    p.size = sizeof p - 8;
    CHECK_INT(problem_normalise(&p, &normal, NULL), GQA_ERR_ARGUMENT);
    p.size = SIZE_MAX;
    CHECK_INT(problem_normalise(&p, &normal, NULL), GQA_ERR_ARGUMENT);
}

/* --- Normal problems --- */

TEST(defaults_are_filled_in) {
    struct gqa_problem p = plain(), n;
    p.causal = 7;
    p.has_lse = -1;
    p.kernel = "x";
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK_INT(n.head_dim_v, 64);
    CHECK_NEAR(n.scale, 0.125, 0);
    CHECK_INT(n.kv_batch, 3);
    CHECK_INT(n.kv_len_expected, 100);
    CHECK_INT(n.causal, 1);
    CHECK_INT(n.has_lse, 1);
    CHECK_INT(n.q_total, 3);
    CHECK(n.kernel == NULL);
    p = paged();
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK_INT(n.table_stride, 7);
    p.kv_len = 96;
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK_INT(n.table_stride, 6);
    CHECK_INT(problem_normalise(&n, &n, NULL), GQA_OK); /* normal stays normal */
    p.scale = 0.5f;                                     /* and what is given is kept */
    p.kv_batch = 9;
    p.table_stride = 11;
    p.kv_len_expected = 5;
    p.head_dim_v = 32;
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK(n.scale == 0.5f && n.kv_batch == 9 && n.table_stride == 11);
    CHECK(n.kv_len_expected == 5 && n.head_dim_v == 32);
}

TEST(strides_of_dimensions_of_size_one_are_not_read) {
    struct gqa_problem p = plain(), n;
    const int64_t nonsense[] = {-1, INT64_MIN, INT64_MAX, 1};
    p.batch = p.q_heads = p.kv_heads = 1;
    p.kv_len = 1;
    p.has_lse = 1;
    for (int i = 0; i < 4; i++) {
        const struct gqa_strides s = {nonsense[i], nonsense[i], nonsense[i]};
        p.q = p.k = p.v = p.o = p.lse = s;
        CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
        CHECK(!n.q.batch && !n.k.token && !n.v.head && !n.o.head && !n.lse.batch);
    }
    struct gqa_problem pool = paged();
    pool.num_pages = 1;
    for (int i = 0; i < 4; i++) {
        pool.k.batch = pool.v.batch = nonsense[i];
        CHECK_INT(problem_normalise(&pool, &n, NULL), GQA_OK);
    }
}

TEST(row_counts_must_fit) {
    struct gqa_problem p = plain(), n;
    p.batch = INT32_MAX;
    p.q_tokens = 2;
    gqa_problem_pack(&p, GQA_HND);
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_ERR_SHAPE);
    p.q_tokens = 1;
    p.q_heads = p.kv_heads = 1;
    p.head_dim = 8;
    gqa_problem_pack(&p, GQA_HND);
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
}

/* What cannot be multiplied must be refused, not wrapped round. */
TEST(sizes_that_overflow_are_refused) {
    struct gqa_problem p = plain(), n;
    p.batch = INT32_MAX;
    p.q_heads = p.kv_heads = 1 << 20;
    p.head_dim = 512;
    p.kv_len = INT32_MAX;
    gqa_problem_pack(&p, GQA_NHD);
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_ERR_STRIDE);
    gqa_problem_pack(&p, GQA_HND);
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_ERR_STRIDE);
    p.head_dim = INT_MAX; /* packing nonsense must not overflow either */
    p.q_heads = p.kv_heads = INT_MIN;
    gqa_problem_pack(&p, GQA_HND);
    CHECK(problem_normalise(&p, &n, NULL) != GQA_OK);
}

/* Sizes that are allowed but multiply past 2^63 when the tensors of a step are looked at: a table
 * of 2^31 rows and columns, a broadcast cache whose elements could not be counted. Under a
 * sanitizer an overflow ends the program. */
TEST(tensors_of_sizes_that_overflow) {
    static float memory[4096];
    static int32_t table[64];
    struct gqa_tensors t = gqa_tensors_init();
    struct gqa_problem p = paged(), n;
    t.q = memory;
    t.k = t.v = memory + 2048;
    t.o = memory + 1024;
    t.block_table = table;
    p.batch = 1;
    p.kv_batch = p.table_stride = INT32_MAX;
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK_INT(tensors_check(&n, &t, NULL, 0, 0, NULL), GQA_ERR_ARGUMENT); /* o is in the table */

    p = plain();
    p.batch = 1;
    p.kv_heads = p.q_heads = 1 << 20;
    p.head_dim = 512;
    p.kv_len = p.kv_batch = INT32_MAX;
    gqa_problem_pack(&p, GQA_HND);
    p.k = p.v = (struct gqa_strides){0, 0, 0};
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK_INT(tensors_check(&n, &t, NULL, 0, 0, NULL), GQA_ERR_ARGUMENT); /* o reaches into k */
}

/* Strides of tensors without elements, or along dimensions of one, may be any number: they are
 * zero afterwards, so that nobody multiplies them. */
TEST(strides_that_nothing_lies_at) {
    const struct gqa_strides any = {INT64_MAX / 2 + 1, INT64_MAX, INT64_MAX - 1};
    struct gqa_problem p = plain(), n;
    p.kv_len = 0; /* batch and heads are many */
    p.k = p.v = any;
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK(!n.k.batch && !n.k.token && !n.k.head && !n.v.batch && !n.v.token && !n.v.head);

    p = plain();
    p.batch = 0;
    p.q = p.o = any;
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK(!n.q.batch && !n.q.token && !n.q.head && !n.o.batch && !n.o.token && !n.o.head);

    p = plain();
    p.kv_heads = p.q_heads = p.q_tokens = 1;
    p.batch = p.kv_len = 1;
    p.q = p.k = p.v = p.o = p.lse = any;
    CHECK_INT(problem_normalise(&p, &n, NULL), GQA_OK);
    CHECK(!n.q.batch && !n.q.token && !n.q.head && !n.k.batch && !n.k.token && !n.k.head);
}

/* --- Packing, against the strides that the case builder works out by itself --- */

TEST(packed_strides) {
    static const char *const names[] = {"layout/hnd-bf16", "layout/nhd-bf16", "page/16-table-hnd",
                                        "page/16-table-nhd", "dim/bf16-192-128"};
    for (int i = 0; i < 5; i++) {
        struct test_case c;
        struct case_instance x;
        CHECK(case_find(names[i], &c));
        c.p.q_tokens = 3;
        if (!case_build(&x, &c, 1, &case_memory_host)) {
            FAIL("%s", x.why);
            continue;
        }
        struct gqa_problem p = x.p;
        p.q = p.k = p.v = p.o = p.lse = (struct gqa_strides){0};
        gqa_problem_pack(&p, c.layout == CASE_NHD ? GQA_NHD : GQA_HND);
        CHECK(!memcmp(&p.q, &x.p.q, sizeof p.q) && !memcmp(&p.k, &x.p.k, sizeof p.k));
        CHECK(!memcmp(&p.v, &x.p.v, sizeof p.v) && !memcmp(&p.o, &x.p.o, sizeof p.o));
        CHECK(!memcmp(&p.lse, &x.p.lse, sizeof p.lse));
        p.q = p.k = p.v = p.o = p.lse = x.p.q;
        x.p.q = x.p.k = x.p.v = x.p.o = x.p.lse = p.q;
        CHECK(!memcmp(&p, &x.p, sizeof p)); /* nothing else was touched */
        case_free(&x);
    }
}

/* --- Visible keys, against the definition --- */

TEST(visible_keys_are_those_of_the_definition) {
    struct gqa_problem p = plain();
    for (int causal = 0; causal < 2; causal++)
        for (int left = -1; left < 6; left++)
            for (int len = 0; len < 9; len++)
                for (int n = 1; n <= 5; n++)
                    for (int i = 0; i < n; i++) {
                        int64_t begin, end;
                        p.causal = causal;
                        p.window_left = left;
                        problem_visible(&p, len, i, n, &begin, &end);
                        for (int64_t j = 0; j < len; j++) {
                            const int64_t position = len - n + i;
                            const bool sees =
                                (!causal || j <= position) && (left < 0 || j >= position - left);
                            if (sees != (begin <= j && j < end))
                                FAIL("len %d, token %d of %d, causal %d, left %d: key %lld", len, i,
                                     n, causal, left, (long long)j);
                        }
                    }
}

TEST(reduction_names) {
    CHECK(!strcmp(gqa_reduction_name(GQA_REDUCE_AUTO), "auto") &&
          !strcmp(gqa_reduction_name(GQA_REDUCE_GRID), "grid") &&
          !strcmp(gqa_reduction_name((enum gqa_reduction)(GQA_REDUCE_GRID + 1)), "?"));
}

TEST(type_names_and_sizes) {
    CHECK_INT(gqa_type_bytes(GQA_F32), 4);
    CHECK_INT(gqa_type_bytes(GQA_BF16), 2);
    CHECK_INT(gqa_type_bytes(GQA_F16), 2);
    CHECK_INT(gqa_type_bytes(GQA_E4M3), 1);
    CHECK_INT(gqa_type_bytes(GQA_E5M2), 1);
    CHECK_INT(gqa_type_bytes((enum gqa_type)5), 0);
    CHECK_INT(gqa_type_bytes((enum gqa_type) - 1), 0);
    CHECK(!strcmp(gqa_type_name(GQA_E5M2), "e5m2") &&
          !strcmp(gqa_type_name((enum gqa_type)9), "?"));
}

/* Every case of the list is a problem that the API takes. */
TEST(all_cases_are_problems) {
    struct case_list list;
    CHECK(case_list_init(&list, 100));
    for (size_t i = 0; i < list.count; i++) {
        struct case_instance x;
        struct gqa_problem n;
        struct gqa_error err;
        if (list.cases[i].level != CASE_QUICK)
            continue;
        if (!case_build(&x, &list.cases[i], 1, &case_memory_host)) {
            FAIL("%s: %s", list.cases[i].name, x.why);
            continue;
        }
        if (problem_normalise(&x.p, &n, &err))
            FAIL("%s: %s", list.cases[i].name, err.message);
        case_free(&x);
    }
    case_list_free(&list);
}

TEST_MAIN
