/* SPDX-License-Identifier: Apache-2.0
 * Named cases: lengths, empty rows, and what lies in unused memory. */
#include "families.h"

/* --- Lengths, empty rows, garbage --- */

static void lengths(struct families *f) {
    static const int dims[] = {64, 128};
    for (int t = 0; t < COUNT(kv_types); t++)
        for (int d = 0; d < COUNT(dims); d++) {
            struct test_case c = named("every length from 0 to a tile and one more",
                                       "length/ramp-%s-d%d", gqa_type_name(kv_types[t]), dims[d]);
            set_types(&c, kv_types[t]);
            set_heads(&c, 2, 1, dims[d], 0);
            c.p.kv_len = 129;
            c.p.batch = 130;
            c.lens_kind = CASE_LENS_RAMP;
            push(f, &c);
        }
    for (int t = 0; t < COUNT(kv_types); t++) {
        struct test_case c = named("lengths around every power of two", "length/edges-%s",
                                   gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        LENS(&c, 3, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511,
             512, 513, 1023, 1024, 1025);
        push(f, &c);
    }
    struct test_case c =
        named("lengths that are no multiple of a tile, not causal", "length/not-causal-tails");
    LENS(&c, 9, 1, 255, 257, 511);
    set_heads(&c, 16, 2, 128, 0);
    c.p.causal = 0;
    push(f, &c);
    c = named("kv_lens NULL: every sequence is full", "length/null");
    c.lens_kind = CASE_LENS_NULL;
    push(f, &c);
    c = named("one long sequence", "length/8192");
    LENS(&c, 100, 8192);
    set_heads(&c, 4, 1, 128, 0);
    push(f, &c);
    c = named("one very long sequence", "length/131072");
    LENS(&c, 0, 131072);
    set_heads(&c, 8, 1, 128, 0);
    c.level = CASE_SLOW;
    push(f, &c);
    c = named("a long one among short ones", "length/unequal");
    LENS(&c, 0, 3000, 1, 70, 0, 2, 129);
    set_heads(&c, 4, 2, 64, 0);
    push(f, &c);
    c = named("a small length in a cache of a large capacity", "length/capacity-131072");
    LENS(&c, 131000, 40, 72);
    set_heads(&c, 2, 1, 64, 0);
    push(f, &c);
}

static void empties(struct families *f) {
    struct test_case c = named("zero-length sequences between others", "empty/some-d256");
    LENS(&c, 8, 0, 1, 0);
    set_heads(&c, 8, 8, 256, 0);
    push(f, &c);
    c = named("a zero-length sequence and a short one", "empty/ragged-lengths");
    LENS(&c, 3, 0, 77);
    set_heads(&c, 32, 8, 128, 0);
    push(f, &c);
    c = named("padding rows of length 0 at the end of the batch", "empty/padded-batch");
    c.p.batch = 24;
    c.p.kv_len = 20;
    c.lens_count = 24;
    for (int i = 0; i < 24; i++)
        c.lens[i] = i < 21 ? 9 + i % 7 : 0;
    push(f, &c);
    c = named("padding rows of length 1", "empty/padded-batch-of-ones");
    LENS(&c, 2, 9, 9, 9, 5, 1, 1, 1, 1);
    push(f, &c);
    c = named("no sequence has a token", "empty/all");
    LENS(&c, 16, 0, 0, 0);
    push(f, &c);
    c = named("a cache without any capacity", "empty/no-capacity");
    LENS(&c, 0, 0, 0);
    push(f, &c);
    c = named("a batch of none", "empty/no-batch");
    c.p.batch = 0;
    push(f, &c);
    c = named("all empty, with sinks: lse is the sink", "empty/sinks");
    LENS(&c, 16, 0, 5, 0);
    c.p.has_sinks = 1;
    push(f, &c);
    c = named("all empty, paged", "empty/paged");
    LENS(&c, 33, 0, 0);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    push(f, &c);
    c = named("all empty, page lists", "empty/csr");
    LENS(&c, 33, 0, 0);
    set_pages(&c, GQA_PAGED_CSR, 16);
    push(f, &c);
    c = named("more query tokens than keys: the first rows see none", "empty/first-rows");
    LENS(&c, 4, 0, 1, 2, 3, 4, 5);
    c.p.q_tokens = 4;
    push(f, &c);
}

static void garbage(struct families *f) {
    for (int t = 0; t < COUNT(kv_types); t++) {
        struct test_case c = named("NaN and Inf in the slots past each length",
                                   "garbage/tail-slots-%s", gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        LENS(&c, 32, 32, 64, 96, 48);
        set_heads(&c, 8, 8, 64, 0);
        push(f, &c);
    }
    static const int tokens[] = {1, 8};
    for (int i = 0; i < COUNT(tokens); i++) {
        struct test_case c = named("a short last tile after a long sequence's full ones",
                                   "garbage/last-tile-q%d", tokens[i]);
        LENS(&c, 70, 191, 63, 65, 191);
        set_heads(&c, 8, 2, 128, 0);
        c.p.q_tokens = tokens[i];
        push(f, &c);
    }
    struct test_case c = named("NaN before the window", "garbage/before-window");
    LENS(&c, 40, 200, 130, 64);
    c.p.window_left = 31;
    push(f, &c);
    c = named("NaN in pages that no sequence owns, nonsense in the table's tail",
              "garbage/table-tail");
    LENS(&c, 200, 16, 32, 17, 1);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    push(f, &c);
    c = named("the table is exactly as wide as the pages", "garbage/table-width");
    LENS(&c, 0, 257);
    set_pages(&c, GQA_PAGED_TABLE, 64);
    push(f, &c);
    c = named("rows of Q past the last sequence: NaN there, and not written",
              "garbage/spare-query-rows");
    LENS(&c, 8, 20, 30, 0);
    QUERIES(&c, 2, 0, 3);
    c.q_spare = 5;
    push(f, &c);
}

bool families_lengths(struct case_list *list) {
    struct families f = {list, true};
    lengths(&f);
    empties(&f);
    garbage(&f);
    return f.ok;
}
