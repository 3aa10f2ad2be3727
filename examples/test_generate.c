/* SPDX-License-Identifier: Apache-2.0
 * The model against what it is known to say: every kernel of the CPU, every type of cache, one
 * token per call and sixteen. Run from the project's root, or with the model folder as argument. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed, skipped;
static int quick; /* QUICK=1 in the environment: the best kernel only, fewer steps */

static void count(int pass, const struct gqa_error *err) {
    if (!pass && err->status)
        printf("FAIL: %s\n", err->message);
    pass ? passed++ : failed++;
}

static void expect(int pass, const char *what) {
    printf("%s: %s\n", pass ? "pass" : "FAIL", what);
    pass ? passed++ : failed++;
}

struct subject {
    struct model model;
    struct golden golden;
    float *expected; /* logits with keys and values in float32 and exact weights, one by one */
};

static gqa_status subject_cache(const struct subject *s, struct cache_options options,
                                struct cache *cache, struct gqa_error *err) {
    const struct config *c = &s->model.config;
    const struct cache_shape shape = {c->layers, c->q_heads, c->kv_heads, c->head_dim, c->context};
    if (!options.device)
        options.device = "cpu";
    return cache_open(&options, &shape, cache, err);
}

static void test_greedy(struct subject *s, struct cache_options options, int step) {
    struct gqa_error err = {0};
    struct cache cache;
    int pass = 0;
    if (!subject_cache(s, options, &cache, &err)) {
        pass = check_greedy(&s->model, &cache, &s->golden, step, &err);
        cache_close(&cache);
    }
    count(pass, &err);
}

static void test_forced(struct subject *s, struct cache_options options,
                        const struct forced *forced) {
    struct gqa_error err = {0};
    struct cache cache;
    int pass = 0;
    if (!subject_cache(s, options, &cache, &err)) {
        pass = check_forced(&s->model, &cache, &s->golden, forced, &err);
        cache_close(&cache);
    }
    count(pass, &err);
}

/* A narrow cache loses what rounding its values loses, and nothing else: against a float32 cache
 * that holds the same rounded values. Their float32 sums differ in order, by 1e-6 or so, and that
 * makes a few keys and values of the next layer in a thousand round the other way: rarely a whole
 * rounding error more, so the largest difference may be as large as rounding's, but the RMS is a
 * small part of it (measured 0.17 u, against 1.07 u for rounding itself; bound u / 2). */
static void test_narrow(struct subject *s, const char *kernel, enum gqa_type type) {
    char what[160];
    struct gqa_error err = {0};
    struct cache cache;
    const float bound = logit_bound(type);
    const size_t logits = (size_t)s->golden.count * s->model.config.vocab;
    float *same = malloc(sizeof *same * logits);
    struct cache_options o = {.kernel = kernel, .grid = type, .precision = GQA_PRECISION_EXACT};
    if (!same || subject_cache(s, o, &cache, &err)) {
        count(0, &err);
        free(same);
        return;
    }
    count(!model_score(&s->model, &cache, s->golden.tokens, s->golden.count, 1, same, &err), &err);
    cache_close(&cache);
    o.type = type;
    for (int step = quick ? 16 : 1; step <= 16; step += 15) {
        snprintf(what, sizeof what, "%s, %s, exact, %d per call, same rounded values", kernel,
                 gqa_type_name(type), step);
        test_forced(s, o, &(struct forced){what, step, same, bound, bound / 32});
    }
    for (int exact = 0; exact < (quick ? 1 : 2); exact++)
        for (int step = quick ? 16 : 1; step <= 16; step += 15) {
            o.precision = exact ? GQA_PRECISION_EXACT : GQA_PRECISION_FAST;
            snprintf(what, sizeof what, "%s, %s, %s, %d per call, float32 values", kernel,
                     gqa_type_name(type), exact ? "exact" : "fast", step);
            test_forced(s, o, &(struct forced){what, step, s->expected, bound, bound / 8});
        }
    free(same);
}

static void test_kernel(struct subject *s, const char *kernel) {
    struct cache_options o = {.kernel = kernel, .threads = 1};
    const float bound = logit_bound(GQA_F32);
    printf("kernel %s\n", kernel);
    if (!quick) {
        test_greedy(s, o, 1);
        test_greedy(s, o, 16);
    }
    o.threads = 2;
    test_greedy(s, o, 16);
    for (int step = quick ? 16 : 1; step <= 16; step += step < 4 ? 1 : 3) {
        char what[160];
        snprintf(what, sizeof what, "%s, f32, %d tokens per call", kernel, step);
        test_forced(s, o, &(struct forced){what, step, s->expected, bound, bound / 8});
    }
    test_narrow(s, kernel, GQA_BF16);
    if (!quick)
        test_narrow(s, kernel, GQA_F16);
}

static void test_kernels(struct subject *s) {
    struct gqa_error err = {0};
    struct gqa_device_info device = gqa_device_info_init();
    gqa_device *cpu;
    int tested = 0;
    if (gqa_device_open("cpu", NULL, &cpu, &err)) {
        count(0, &err);
        return;
    }
    count(!gqa_device_describe(cpu, &device, &err), &err);
    for (int i = 0; i < device.kernels; i++) {
        struct gqa_kernel_info kernel = gqa_kernel_info_init();
        count(!gqa_device_kernel(cpu, i, &kernel, &err), &err);
        if (kernel.available && quick && tested) {
            printf("skip: kernel %s: QUICK\n", kernel.name);
            skipped++;
        } else if (kernel.available) {
            test_kernel(s, kernel.name);
            tested++;
        } else {
            printf("skip: kernel %s: %s\n", kernel.name, kernel.why);
            skipped++;
        }
    }
    gqa_device_close(cpu);
}

/* A comparison that cannot fail proves nothing. */
static void test_checks_fail(struct subject *s) {
    struct gqa_error err = {0};
    struct cache cache;
    if (subject_cache(s, (struct cache_options){.threads = 1}, &cache, &err)) {
        count(0, &err);
        return;
    }
    struct golden *g = &s->golden;
    const int last = g->count - 1, token = g->tokens[last];
    printf("three comparisons that must fail:\n");
    g->tokens[last] = token ^ 1;
    expect(!check_greedy(&s->model, &cache, g, 16, &err), "one wrong byte is noticed");
    g->tokens[last] = token;
    const float logit = g->last[7];
    g->last[7] += 2e-3f;
    cache_reset(&cache);
    expect(!check_greedy(&s->model, &cache, g, 16, &err), "one wrong logit is noticed");
    g->last[7] = logit;
    const float before = s->expected[1234];
    const struct forced nan = {"a NaN", 16, s->expected, 1, 1};
    s->expected[1234] = NAN;
    expect(!check_forced(&s->model, &cache, g, &nan, &err), "a NaN is noticed");
    s->expected[1234] = before;
    cache_close(&cache);
}

static void test_refusals(struct subject *s) {
    struct gqa_error err = {0};
    struct model none;
    struct golden golden;
    struct cache cache;
    float logits[16 * 256];
    int tokens[17] = {0};
    expect(model_load("no/such/folder", &none, &err) == GQA_ERR_ARGUMENT &&
               strstr(err.message, "no/such/folder"),
           "a missing model is named");
    expect(golden_load("no/such/folder", &golden, &err) == GQA_ERR_ARGUMENT,
           "a missing golden.json is refused");
    expect(subject_cache(s, (struct cache_options){.device = "gpu"}, &cache, &err) == GQA_ERR_NAME,
           "an unknown device is refused");
    expect(subject_cache(s, (struct cache_options){.kernel = "avx3"}, &cache, &err) == GQA_ERR_NAME,
           "an unknown kernel is refused");
    if (subject_cache(s, (struct cache_options){.threads = 1}, &cache, &err)) {
        count(0, &err);
        return;
    }
    expect(model_forward(&s->model, &cache, tokens, 17, logits, &err) == GQA_ERR_SHAPE,
           "17 tokens in a call are refused");
    tokens[0] = 256;
    expect(model_forward(&s->model, &cache, tokens, 1, logits, &err) == GQA_ERR_ARGUMENT,
           "a token outside the vocabulary is refused");
    tokens[0] = 0;
    cache.length = s->model.config.context;
    expect(model_forward(&s->model, &cache, tokens, 1, logits, &err) == GQA_ERR_SHAPE,
           "a token beyond the context is refused");
    cache_close(&cache);
}

static int subject_open(struct subject *s, const char *folder, struct gqa_error *err) {
    struct cache cache;
    if (model_load(folder, &s->model, err) || golden_load(folder, &s->golden, err) ||
        subject_cache(s, (struct cache_options){.threads = 1, .precision = GQA_PRECISION_EXACT},
                      &cache, err))
        return 0;
    s->expected = malloc(sizeof(float) * s->golden.count * s->model.config.vocab);
    const int good = s->expected && !model_score(&s->model, &cache, s->golden.tokens,
                                                 s->golden.count, 1, s->expected, err);
    cache_close(&cache);
    return good;
}

int main(int argc, char **argv) {
    struct subject s = {0};
    struct gqa_error err = {0};
    quick = getenv("QUICK") != NULL;
    if (subject_open(&s, argc > 1 ? argv[1] : "examples/kjv-5m", &err)) {
        test_kernels(&s);
        test_checks_fail(&s);
        test_refusals(&s);
    } else {
        count(0, &err);
    }
    golden_free(&s.golden);
    model_free(&s.model);
    free(s.expected);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
