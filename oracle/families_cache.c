/* SPDX-License-Identifier: Apache-2.0
 * Named cases: pages, strides, addresses, large batches. */
#include "families.h"

/* --- Caches --- */

static void pages(struct families *f) {
    static const int sizes[] = {1, 7, 8, 16, 32, 64, 128};
    static const enum case_layout layouts[] = {CASE_HND, CASE_NHD, CASE_INTERLEAVED, CASE_FUSED};
    static const char *const layout_names[] = {"hnd", "nhd", "interleaved", "fused"};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int l = 0; l < COUNT(layouts); l++)
            for (int csr = 0; csr < 2; csr++) {
                struct test_case c = named("lengths around one and two pages", "page/%d-%s-%s",
                                           sizes[i], csr ? "csr" : "table", layout_names[l]);
                const int n = sizes[i];
                LENS(&c, n + 3, 2 * n, n, n + 1, n > 1 ? n - 1 : 3, 2 * n + 1, 0);
                set_pages(&c, csr ? GQA_PAGED_CSR : GQA_PAGED_TABLE, n);
                c.layout = layouts[l];
                c.data = CASE_PEAKED;
                push(f, &c);
            }
    struct test_case c = named("lengths that fill their last page", "page/exact");
    LENS(&c, 0, 16, 32);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    push(f, &c);
    c = named("rows of 64 bytes in pages of an odd number", "page/7-e4m3");
    LENS(&c, 0, 20, 33, 16);
    set_pages(&c, GQA_PAGED_TABLE, 7);
    c.p.kv_type = GQA_E4M3;
    push(f, &c);
    c = named("lengths from last_page_len alone", "page/csr-last-page-len");
    LENS(&c, 20, 33, 16, 1, 0, 47);
    set_pages(&c, GQA_PAGED_CSR, 16);
    c.use_last_page = true;
    push(f, &c);
    c = named("lengths from kv_lens alone", "page/csr-kv-lens");
    LENS(&c, 20, 33, 16, 1, 0, 47);
    set_pages(&c, GQA_PAGED_CSR, 16);
    c.no_last_page = true;
    push(f, &c);
    c = named("sequences that share their first pages", "page/shared-prefix");
    LENS(&c, 0, 40, 50, 33, 35);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.share_pages = true;
    push(f, &c);
    c = named("a table wider than it must be, page count not told", "page/wide-table");
    LENS(&c, 0, 40, 50, 33);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.p.table_stride = 13;
    c.hide_pages = true;
    push(f, &c);
    c = named("tables looked at before computing: nonsense past a length is no error",
              "page/checked");
    LENS(&c, 60, 40, 50, 0);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.p.check_tables = 1;
    push(f, &c);
    static const enum gqa_paging pagings[] = {GQA_CONTIGUOUS, GQA_PAGED_TABLE, GQA_PAGED_CSR};
    static const char *const names[] = {"contiguous", "table", "csr"};
    for (int i = 0; i < COUNT(pagings); i++) {
        c = named("sequences live in other entries of a larger cache", "page/index-%s", names[i]);
        LENS(&c, 10, 40, 50, 33, 1);
        set_pages(&c, pagings[i], pagings[i] ? 8 : 0);
        c.use_index = true;
        c.p.kv_batch = 9;
        push(f, &c);
        snprintf(c.name, sizeof c.name, "page/index-shared-%s", names[i]);
        snprintf(c.subject, sizeof c.subject, "two sequences, of other lengths, in one entry");
        c.share_entries = true;
        push(f, &c);
    }
    c = named("one page holds more than any sequence", "page/larger-than-cache");
    LENS(&c, 0, 10, 3);
    set_pages(&c, GQA_PAGED_TABLE, 256);
    push(f, &c);
}

static void layouts(struct families *f) {
    static const enum case_layout all[] = {CASE_HND,   CASE_NHD,    CASE_INTERLEAVED,
                                           CASE_FUSED, CASE_SLICED, CASE_BROADCAST};
    static const char *const names[] = {"hnd",   "nhd",    "interleaved",
                                        "fused", "sliced", "broadcast"};
    for (int i = 0; i < COUNT(all); i++)
        for (int t = 0; t < COUNT(kv_types); t++) {
            struct test_case c = named("strides of the cache are honoured", "layout/%s-%s",
                                       names[i], gqa_type_name(kv_types[t]));
            set_types(&c, kv_types[t]);
            set_heads(&c, 8, 4, 64, i % 2 ? 128 : 0);
            c.layout = all[i];
            c.data = CASE_PEAKED;
            push(f, &c);
        }
    static const enum case_rows rows[] = {CASE_ROWS_FUSED, CASE_ROWS_HEADS};
    for (int i = 0; i < COUNT(rows); i++)
        for (int ragged = 0; ragged < 2; ragged++) {
            struct test_case c =
                named("strides of Q, O and LSE are honoured, gaps stay untouched",
                      "layout/rows-%s%s", i ? "heads-first" : "fused", ragged ? "-ragged" : "");
            c.rows = rows[i];
            c.p.q_tokens = 3;
            if (ragged)
                QUERIES(&c, 2, 3);
            push(f, &c);
        }
    struct test_case c = named("all sequences ask the same: a stride of 0", "layout/rows-shared");
    c.rows = CASE_ROWS_SHARED;
    push(f, &c);
    c = named("one token, one head, one sequence: no stride is ever read", "layout/all-ones");
    LENS(&c, 0, 1);
    set_heads(&c, 1, 1, 64, 0);
    push(f, &c);
}

static void addresses(struct families *f) {
    for (int t = 0; t < COUNT(kv_types); t++) {
        const int size = (int)gqa_type_bytes(kv_types[t]);
        static const int shifts[] = {1, 2, 4, 8};
        for (int i = 0; i < COUNT(shifts); i++) {
            if (shifts[i] < 4 && shifts[i] < size)
                continue;
            struct test_case c = named("addresses aligned to little: right, or refused",
                                       "address/%s-plus-%d", gqa_type_name(kv_types[t]), shifts[i]);
            set_types(&c, kv_types[t]);
            c.misalign = shifts[i] * (shifts[i] < (int)gqa_type_bytes(c.p.q_type) ? 2 : 1);
            c.may_refuse = true;
            push(f, &c);
        }
        struct test_case c = named("odd strides: right, or refused", "address/%s-odd-strides",
                                   gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        c.layout = CASE_ODD;
        c.rows = CASE_ROWS_ODD;
        c.may_refuse = true;
        push(f, &c);
    }
    static const enum gqa_type far_types[] = {GQA_BF16, GQA_E4M3, GQA_F32};
    for (int t = 0; t < COUNT(far_types); t++) {
        const char *type = gqa_type_name(far_types[t]);
        struct test_case c =
            named("a page whose offset passes 2^31 elements", "address/%s-far-page", type);
        set_types(&c, far_types[t]);
        set_heads(&c, 8, 8, 128, 0);
        set_pages(&c, GQA_PAGED_TABLE, 16);
        LENS(&c, 0, 33, 20);
        c.first_page = 131072;
        c.data = CASE_PEAKED;
        push(f, &c);
        c = named("offsets of sequences, heads and tokens past 2^31 elements",
                  "address/%s-far-strides", type);
        set_types(&c, far_types[t]);
        set_heads(&c, 4, 2, 64, 0);
        LENS(&c, 0, 5, 4);
        c.layout = CASE_FAR;
        c.p.k = c.p.v = (struct gqa_strides){2560000000, 64, 536871040};
        c.data = CASE_PEAKED;
        push(f, &c);
        c = named("tokens so far apart that the fifth lies past 2^31", "address/%s-far-tokens",
                  type);
        set_types(&c, far_types[t]);
        set_heads(&c, 4, 2, 64, 0);
        LENS(&c, 0, 5);
        c.layout = CASE_FAR;
        c.p.k = c.p.v = (struct gqa_strides){0, 600000000, 128};
        c.data = CASE_PEAKED;
        push(f, &c);
    }
}

static void batches(struct families *f) {
    static const int sizes[] = {65535, 65536, 70000};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int paged = 0; paged <= i / 2; paged++) {
            struct test_case c = named("more sequences than a grid dimension holds", "batch/%d%s",
                                       sizes[i], paged ? "-paged" : "");
            c.lens_count = 2;
            c.lens[0] = 1;
            c.lens[1] = 2;
            c.p.kv_len = 2;
            c.p.batch = sizes[i];
            set_heads(&c, 1, 1, 64, 0);
            if (paged)
                set_pages(&c, GQA_PAGED_TABLE, 2);
            push(f, &c);
        }
    struct test_case c = named("65536 heads", "batch/heads-65536");
    LENS(&c, 0, 2, 1);
    set_heads(&c, 65536, 65536, 8, 0);
    push(f, &c);
    c = named("1000 query heads of one KV head", "batch/group-1000");
    LENS(&c, 0, 2);
    set_heads(&c, 1000, 1, 8, 0);
    push(f, &c);
    c = named("a batch of many lengths", "batch/random-lengths");
    c.p.batch = 64;
    c.p.kv_len = 300;
    c.lens_kind = CASE_LENS_RANDOM;
    set_heads(&c, 4, 1, 64, 0);
    push(f, &c);
}

bool families_cache(struct case_list *list) {
    struct families f = {list, true};
    pages(&f);
    layouts(&f);
    addresses(&f);
    batches(&f);
    return f.ok;
}
