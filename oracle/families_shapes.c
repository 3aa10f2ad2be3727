/* SPDX-License-Identifier: Apache-2.0
 * Named cases: element types, scales, group sizes and head dims. */
#include "families.h"

/* --- Types and scales --- */

static void types(struct families *f) {
    static const enum gqa_type row_types[] = {GQA_F32, GQA_BF16, GQA_F16};
    for (int q = 0; q < 3; q++)
        for (int kv = 0; kv < COUNT(kv_types); kv++)
            for (int o = 0; o < 3; o++) {
                struct test_case c = named("every mix of element types", "type/q-%s-kv-%s-o-%s",
                                           gqa_type_name(row_types[q]), gqa_type_name(kv_types[kv]),
                                           gqa_type_name(row_types[o]));
                c.p.q_type = row_types[q];
                c.p.kv_type = kv_types[kv];
                c.p.o_type = row_types[o];
                c.data = CASE_PEAKED;
                push(f, &c);
            }
    for (int t = 0; t < COUNT(kv_types); t++) {
        struct test_case c = named("zeros, subnormals, large values", "type/edge-values-%s",
                                   gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        c.data = CASE_EDGE;
        c.p.o_type = GQA_F32;
        push(f, &c);
        c = named("float32 weights everywhere", "type/exact-%s", gqa_type_name(kv_types[t]));
        set_types(&c, kv_types[t]);
        c.p.o_type = GQA_F32;
        c.p.precision = GQA_PRECISION_EXACT;
        LENS(&c, 9, 300, 77, 1000);
        set_heads(&c, 16, 4, 128, 0);
        push(f, &c);
    }
}

static void scales(struct families *f) {
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < 4; v++) {
            static const char *const kinds[] = {"none", "tensor", "head", "batch-head"};
            struct test_case c = named("a scale for K, another for V, of every shape",
                                       "scale/k-%s-v-%s", kinds[k], kinds[v]);
            set_types(&c, k % 2 ? GQA_E4M3 : GQA_E5M2);
            c.p.k_scales = (enum gqa_scales)k;
            c.p.v_scales = (enum gqa_scales)v;
            push(f, &c);
        }
    struct test_case c = named("k_scale and v_scale are not the same", "scale/k-half-v-two");
    set_types(&c, GQA_E4M3);
    c.p.k_scales = c.p.v_scales = GQA_SCALE_TENSOR;
    c.k_scale = 0.5f;
    c.v_scale = 2;
    push(f, &c);
    c = named("a scale that is not 1", "scale/three");
    set_types(&c, GQA_E4M3);
    c.p.k_scales = c.p.v_scales = GQA_SCALE_TENSOR;
    c.k_scale = c.v_scale = 3;
    push(f, &c);
    c = named("scales that are negative", "scale/minus");
    set_types(&c, GQA_E5M2);
    c.p.k_scales = GQA_SCALE_HEAD;
    c.p.v_scales = GQA_SCALE_TENSOR;
    c.k_scale = -0.7f;
    c.v_scale = -2;
    push(f, &c);
    c = named("scales with 16-bit K and V", "scale/bf16");
    c.p.k_scales = c.p.v_scales = GQA_SCALE_HEAD;
    push(f, &c);
    c = named("scale, sink, softcap and k_scale together: the sink is not scaled",
              "scale/with-sink-and-softcap");
    set_types(&c, GQA_E4M3);
    c.p.k_scales = c.p.v_scales = GQA_SCALE_BATCH_HEAD;
    c.p.has_sinks = 1;
    c.p.softcap = 20;
    c.p.scale = 0.5f;
    push(f, &c);
    c = named("a negative softmax scale", "scale/negative");
    c.p.scale = -0.2f;
    push(f, &c);
}

/* --- Heads and dims --- */

static void groups(struct families *f) {
    static const int sizes[] = {1,  2,  3,  5,  6,  7,  8,  9,  12, 14,
                                15, 16, 24, 32, 48, 64, 71, 96, 128};
    static const int models[][2] = {{40, 8}, {28, 4}, {24, 4}, {12, 2}, {64, 4}, {32, 32}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int t = 0; t < COUNT(kv_types); t++) {
            struct test_case c = named("any number of query heads per KV head", "group/%s-d64-g%d",
                                       gqa_type_name(kv_types[t]), sizes[i]);
            set_types(&c, kv_types[t]);
            set_heads(&c, sizes[i], 1, 64, 0);
            c.data = t % 2 ? CASE_PEAKED : CASE_NORMAL_DATA;
            push(f, &c);
        }
    for (int i = 0; i < COUNT(models); i++) {
        struct test_case c = named("head counts of models in use", "group/%d-of-%d-d128",
                                   models[i][0], models[i][1]);
        set_heads(&c, models[i][0], models[i][1], 128, 0);
        push(f, &c);
    }
}

static void dims(struct families *f) {
    static const int sizes[] = {8,   40,  56,  64,  72,  80,  96,  100, 104,
                                112, 120, 128, 160, 192, 224, 256, 512};
    static const int pairs[][2] = {{192, 128}, {128, 64}, {64, 128}, {96, 8}, {8, 96}, {576, 512}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int t = 0; t < COUNT(kv_types); t++) {
            struct test_case c =
                named("any head dim", "dim/%s-%d", gqa_type_name(kv_types[t]), sizes[i]);
            set_types(&c, kv_types[t]);
            set_heads(&c, 4, 1, sizes[i], 0);
            if (t % 2)
                set_pages(&c, GQA_PAGED_TABLE, 16);
            push(f, &c);
        }
    for (int i = 0; i < COUNT(pairs) - 1; i++)
        for (int t = 0; t < COUNT(kv_types); t++) {
            struct test_case c = named("V with a head dim of its own", "dim/%s-%d-%d",
                                       gqa_type_name(kv_types[t]), pairs[i][0], pairs[i][1]);
            set_types(&c, kv_types[t]);
            set_heads(&c, 8, 2, pairs[i][0], pairs[i][1]);
            push(f, &c);
        }
    static const int odd[] = {1, 2, 7, 33, 130, 511};
    for (int i = 0; i < COUNT(odd); i++) {
        struct test_case c = named("head dims that are no multiple of 8", "dim/odd-%d", odd[i]);
        set_heads(&c, 3, 1, odd[i], 0);
        push(f, &c);
    }
    struct test_case c = named("head dim 512, 1000 keys", "dim/512-long");
    LENS(&c, 5, 1000);
    set_heads(&c, 16, 1, 512, 0);
    push(f, &c);
    c = named("head dim 256 with sink, window, softcap and pages of 16", "dim/256-everything");
    LENS(&c, 20, 300, 45);
    set_heads(&c, 8, 4, 256, 0);
    set_pages(&c, GQA_PAGED_TABLE, 16);
    c.p.has_sinks = 1;
    c.p.window_left = 127;
    c.p.softcap = 30;
    push(f, &c);
}

bool families_shapes(struct case_list *list) {
    struct families f = {list, true};
    types(&f);
    scales(&f);
    groups(&f);
    dims(&f);
    return f.ok;
}
