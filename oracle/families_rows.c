/* SPDX-License-Identifier: Apache-2.0
 * Named cases: what a query row sees and how it is weighed, split and merged; models. */
#include "families.h"

#include <math.h>

/* --- Query tokens, masks --- */

static void queries(struct families *f) {
    for (int n = 1; n <= 16; n++)
        for (int causal = 0; causal < 2; causal++) {
            struct test_case c = named("several query tokens, each with its own last key",
                                       "queries/%d%s", n, causal ? "" : "-not-causal");
            LENS(&c, 9, 77, 16, 200, 3);
            c.p.q_tokens = n;
            c.p.causal = causal;
            c.data = CASE_PEAKED;
            push(f, &c);
        }
    struct test_case c = named("1 to 16 query tokens in one batch, none too", "queries/ragged");
    LENS(&c, 9, 77, 16, 200, 3, 0, 130, 64, 65);
    QUERIES(&c, 1, 16, 4, 0, 3, 2, 7, 5);
    push(f, &c);
    c = named("ragged, paged, other rows of the table", "queries/ragged-paged");
    LENS(&c, 9, 77, 16, 200, 3, 0, 130, 64, 65);
    QUERIES(&c, 8, 1, 4, 2, 1, 16, 0, 5);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.use_index = true;
    push(f, &c);
    c = named("ragged, page lists", "queries/ragged-csr");
    LENS(&c, 9, 77, 16, 200, 3);
    QUERIES(&c, 2, 1, 4, 3);
    set_pages(&c, GQA_PAGED_CSR, 8);
    push(f, &c);
    c = named("ragged with one token each is the plain step", "queries/ragged-of-ones");
    QUERIES(&c, 1);
    push(f, &c);
    c = named("one query token: causal or not is the same", "queries/one-not-causal");
    LENS(&c, 4, 10);
    c.p.causal = 0;
    push(f, &c);
    for (int nhd = 0; nhd < 2; nhd++) {
        c = named("many rows per KV head", "queries/16-of-group-16%s", nhd ? "-nhd" : "");
        LENS(&c, 3, 130, 20);
        set_heads(&c, 32, 2, 64, 0);
        c.layout = nhd ? CASE_NHD : CASE_HND;
        c.p.q_tokens = 16;
        push(f, &c);
        c = named("very many rows per KV head", "queries/16-of-group-64%s", nhd ? "-nhd" : "");
        LENS(&c, 3, 70);
        set_heads(&c, 128, 2, 64, 0);
        c.layout = nhd ? CASE_NHD : CASE_HND;
        c.p.q_tokens = 16;
        push(f, &c);
    }
    c = named("no sequence has a query token", "queries/none");
    QUERIES(&c, 0);
    c.q_spare = 2;
    push(f, &c);
}

static void windows(struct families *f) {
    struct test_case c = named("length 10, left 3: keys 6 to 9", "window/ten-left-three");
    LENS(&c, 6, 10);
    c.p.window_left = 3;
    c.data = CASE_PEAKED;
    push(f, &c);
    static const int lefts[] = {0, 1, 3, 5, 63, 64, 127, 128, 2047};
    for (int i = 0; i < COUNT(lefts); i++)
        for (int q = 1; q <= 4; q += 3) {
            c = named("each query row has its own window", "window/left-%d-q%d", lefts[i], q);
            LENS(&c, 8, 200, 64, 2100, 5);
            set_heads(&c, 4, 2, 64, 0);
            c.p.q_tokens = q;
            c.p.window_left = lefts[i];
            push(f, &c);
        }
    c = named("lengths around the window", "window/lengths");
    LENS(&c, 8, 1, 3, 127, 128, 129, 130);
    c.p.window_left = 128;
    push(f, &c);
    c = named("a window without causal order", "window/not-causal");
    LENS(&c, 8, 100, 30);
    c.p.q_tokens = 5;
    c.p.window_left = 7;
    c.p.causal = 0;
    push(f, &c);
    c = named("a window in pages: the first ones are not needed", "window/paged");
    LENS(&c, 8, 200, 90);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.p.window_left = 40;
    push(f, &c);
    for (int causal = 0; causal < 2; causal++) {
        c = named("row tiles past a sequence's rows, past whose window nothing lies",
                  "window/ragged%s", causal ? "" : "-not-causal");
        LENS(&c, 161, 0, 45, 100);
        QUERIES(&c, 0, 4, 7, 11);
        set_heads(&c, 9, 1, 64, 0);
        c.p.window_left = 2;
        c.p.causal = causal;
        push(f, &c);
    }
    c = named("a window with splits: most are empty", "window/splits");
    LENS(&c, 8, 2000, 90);
    set_heads(&c, 4, 1, 64, 0);
    c.p.window_left = 100;
    c.p.split_mode = GQA_SPLIT_FIXED;
    c.p.splits = 8;
    push(f, &c);
    c = named("a window of 2^62", "window/endless");
    c.p.window_left = (int64_t)1 << 62;
    push(f, &c);
}

static void sinks(struct families *f) {
    static const int splits[] = {1, 2, 8};
    for (int i = 0; i < COUNT(splits); i++) {
        struct test_case c = named("a sink of 0 beside one key, in one and in many splits",
                                   "sink/zero-splits-%d", splits[i]);
        LENS(&c, 500, 1, 300);
        c.p.has_sinks = c.has_sink = true;
        c.p.split_mode = GQA_SPLIT_FIXED;
        c.p.splits = splits[i];
        push(f, &c);
    }
    static const struct {
        const char *name;
        float value;
    } values[] = {{"large", 25}, {"small", -40}, {"minus-infinity", -INFINITY}};
    for (int i = 0; i < COUNT(values); i++)
        for (int t = 0; t < COUNT(kv_types); t++) {
            struct test_case c = named("a sink that outweighs all keys, or counts nothing",
                                       "sink/%s-%s", values[i].name, gqa_type_name(kv_types[t]));
            set_types(&c, kv_types[t]);
            LENS(&c, 9, 77, 0, 300);
            c.p.has_sinks = c.has_sink = true;
            c.sink = values[i].value;
            push(f, &c);
        }
    struct test_case c = named("sinks, windows, group 8, head dim 64 (gpt-oss)", "sink/gpt-oss");
    LENS(&c, 16, 300, 100, 5);
    set_heads(&c, 64, 8, 64, 0);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.p.has_sinks = 1;
    c.p.window_left = 127;
    push(f, &c);
    c = named("sinks, K of 192, V of 128, window (MiMo)", "sink/mimo");
    LENS(&c, 16, 200, 50);
    set_heads(&c, 64, 8, 192, 128);
    c.p.has_sinks = 1;
    c.p.window_left = 127;
    push(f, &c);
    c = named("sinks with several query tokens", "sink/queries");
    c.p.q_tokens = 5;
    c.p.has_sinks = 1;
    push(f, &c);
}

static void scores(struct families *f) {
    static const float caps[] = {1, 30, 50};
    for (int t = 0; t < COUNT(kv_types); t++)
        for (int i = 0; i < COUNT(caps); i++) {
            struct test_case c = named("scores bent by softcap", "score/cap-%d-%s", (int)caps[i],
                                       gqa_type_name(kv_types[t]));
            set_types(&c, kv_types[t]);
            c.p.softcap = caps[i];
            c.data = i ? CASE_PEAKED : CASE_NORMAL_DATA;
            push(f, &c);
        }
    for (int t = 0; t < COUNT(kv_types); t++) {
        struct test_case c =
            named("logits of tens of thousands", "score/large-%s", gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        LENS(&c, 9, 77, 300);
        c.data = CASE_LARGE_SCORES;
        push(f, &c);
        /* The running maxima are raised in later tiles too, whole ones and the last. */
        c = named("logits of tens of thousands over many tiles", "score/large-long-%s",
                  gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        LENS(&c, 1000, 700);
        c.data = CASE_LARGE_SCORES;
        push(f, &c);
        c = named("all scores equal", "score/equal-%s", gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        c.data = CASE_EQUAL_KEYS;
        LENS(&c, 9, 77, 300);
        push(f, &c);
    }
    for (int t = 0; t < COUNT(kv_types); t++)
        for (int v = 0; v < 2; v++) {
            struct test_case c =
                named("a NaN that is seen stays NaN, where it belongs", "score/nan-%s-%s",
                      v ? "value" : "key", gqa_type_name(kv_types[t]));
            set_types(&c, kv_types[t]);
            c.data = v ? CASE_NAN_VALUE : CASE_NAN_KEY;
            LENS(&c, 9, 77, 300, 20);
            push(f, &c);
        }
    struct test_case c = named("softcap of logits of tens of thousands", "score/large-cap");
    c.data = CASE_LARGE_SCORES;
    c.p.softcap = 50;
    push(f, &c);
    for (int base = 0; base < 2; base++) {
        c = named("lse in base e and in base 2", "lse/base-%s", base ? "2" : "e");
        c.p.lse_base = base ? GQA_BASE_2 : GQA_BASE_E;
        LENS(&c, 9, 77, 0, 300);
        push(f, &c);
        c = named("lse with sinks", "lse/base-%s-sinks", base ? "2" : "e");
        c.p.lse_base = base ? GQA_BASE_2 : GQA_BASE_E;
        c.p.has_sinks = 1;
        LENS(&c, 9, 77, 0, 300);
        push(f, &c);
    }
    c = named("no lse asked for", "lse/none");
    c.p.has_lse = 0;
    push(f, &c);
}

/* --- Splits, shards, models --- */

static void splits(struct families *f) {
    static const int counts[] = {1, 2, 3, 8, 64, 4096};
    for (int i = 0; i < COUNT(counts); i++) {
        struct test_case c =
            named("a fixed number of splits, also more than tokens", "split/fixed-%d", counts[i]);
        LENS(&c, 40, 1, 63, 300, 0, 1000);
        set_heads(&c, 4, 2, 64, 0);
        c.p.split_mode = GQA_SPLIT_FIXED;
        c.p.splits = counts[i];
        push(f, &c);
    }
    static const int tokens[] = {0, 1, 16, 100, 256};
    for (int i = 0; i < COUNT(tokens); i++) {
        struct test_case c =
            named("splits from the row's own length", "split/invariant-%d", tokens[i]);
        LENS(&c, 40, 1, 63, 300, 0, 1000);
        set_heads(&c, 4, 2, 64, 0);
        c.p.split_mode = GQA_SPLIT_INVARIANT;
        c.p.split_tokens = tokens[i];
        push(f, &c);
    }
    struct test_case c = named("splits of several query tokens with a window", "split/queries");
    LENS(&c, 40, 300, 17, 1000);
    c.p.q_tokens = 4;
    c.p.window_left = 400;
    c.p.split_mode = GQA_SPLIT_FIXED;
    c.p.splits = 5;
    push(f, &c);
    c = named("the hint of a length far below the real one", "split/wrong-hint");
    LENS(&c, 0, 3000);
    set_heads(&c, 4, 1, 64, 0);
    c.p.kv_len_expected = 1;
    push(f, &c);
    for (enum gqa_reduction r = GQA_REDUCE_NONE; r <= GQA_REDUCE_GRID; r++) {
        c = named("every way to merge splits", "split/reduce-%s", gqa_reduction_name(r));
        LENS(&c, 0, 1000, 0, 70);
        set_heads(&c, 8, 2, 128, 0);
        c.p.reduction = r;
        push(f, &c);
    }
}

static void shards(struct families *f) {
    static const int parts[] = {1, 2, 5};
    for (int i = 0; i < COUNT(parts); i++)
        for (int base = 0; base < 2; base++) {
            struct test_case c = named("a cache cut in shards, their answers merged",
                                       "shard/%d-base-%s", parts[i], base ? "2" : "e");
            LENS(&c, 3, 40, 3, 200, 0, 1);
            c.shards = parts[i];
            c.p.lse_base = base ? GQA_BASE_2 : GQA_BASE_E;
            c.data = CASE_PEAKED;
            push(f, &c);
        }
}

static void models(struct families *f) {
    static const struct {
        const char *name;
        int q_heads, kv_heads, dim, dim_v;
        float softcap;
    } all[] = {
        {"llama-8b", 32, 8, 128, 0, 0},   {"llama-70b", 64, 8, 128, 0, 0},
        {"qwen3-4b", 32, 8, 128, 0, 0},   {"qwen2-7b", 28, 4, 128, 0, 0},
        {"gemma2-9b", 16, 8, 256, 0, 50}, {"gemma3-1b", 4, 1, 256, 0, 0},
        {"phi3-mini", 32, 32, 96, 0, 0},  {"smollm", 9, 3, 64, 0, 0},
        {"kjv-5m", 8, 2, 32, 0, 0},
    };
    for (int i = 0; i < COUNT(all); i++)
        for (int how = 0; how < 4; how++) {
            static const char *const hows[] = {"", "-paged", "-nhd", "-nhd-paged"};
            struct test_case c =
                named("shapes of models in use", "model/%s%s", all[i].name, hows[how]);
            c.layout = how < 2 ? CASE_HND : CASE_NHD;
            LENS(&c, 10, 500, 333);
            set_heads(&c, all[i].q_heads, all[i].kv_heads, all[i].dim, all[i].dim_v);
            c.p.softcap = all[i].softcap;
            if (how % 2)
                set_pages(&c, GQA_PAGED_TABLE, 16);
            push(f, &c);
        }
}

bool families_rows(struct case_list *list) {
    struct families f = {list, true};
    queries(&f);
    windows(&f);
    sinks(&f);
    scores(&f);
    splits(&f);
    shards(&f);
    models(&f);
    return f.ok;
}
