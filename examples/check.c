/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- golden.json --- */

static gqa_status golden_fill(struct golden *g, json_t *tokens, json_t *last) {
    g->count = (int)json_array_size(tokens);
    g->vocab = (int)json_array_size(last);
    g->tokens = calloc(g->count + 1, sizeof *g->tokens);
    g->last = calloc(g->vocab + 1, sizeof *g->last);
    if (!g->tokens || !g->last)
        return GQA_ERR_MEMORY;
    for (int i = 0; i < g->count; i++)
        g->tokens[i] = (int)json_integer_value(json_array_get(tokens, i));
    for (int i = 0; i < g->vocab; i++)
        g->last[i] = (float)json_number_value(json_array_get(last, i));
    return GQA_OK;
}

gqa_status golden_load(const char *folder, struct golden *g, struct gqa_error *err) {
    char path[4096];
    json_error_t error;
    json_t *tokens, *last;
    size_t prompt;
    const char *text;
    double margin;
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *json = json_load_file(path, 0, &error);
    if (!json)
        return refuse(err, GQA_ERR_ARGUMENT, "%s: %s", path, error.text);
    *g = (struct golden){0};
    gqa_status status = GQA_ERR_ARGUMENT;
    if (!json_unpack_ex(json, &error, 0, "{s:s%, s:o, s:o, s:F}", "prompt", &text, &prompt,
                        "tokens", &tokens, "logits_last", &last, "margin_min", &margin)) {
        g->prompt = (int)prompt;
        g->margin = (float)margin;
        status = golden_fill(g, tokens, last);
    }
    json_decref(json);
    if (status || g->prompt < 1 || g->count <= g->prompt || g->vocab < 1) {
        golden_free(g);
        return refuse(err, GQA_ERR_ARGUMENT, "%s: not what golden.json should hold", path);
    }
    return GQA_OK;
}

void golden_free(struct golden *g) {
    free(g->tokens);
    free(g->last);
    *g = (struct golden){0};
}

/* --- Comparing --- */

int argmax(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

float max_difference(const float *a, const float *b, size_t n) {
    float max = 0;
    for (size_t i = 0; i < n; i++) {
        const float d = fabsf(a[i] - b[i]);
        if (!(d <= max))
            max = isnan(d) ? INFINITY : d;
    }
    return max;
}

/* Rounding a key or value to a type of p significand bits changes it by at most u = 2^-p of its
 * size. A logit depends on many of them smoothly, and their errors are independent, so to first
 * order its error is a sum of many small terms, each proportional to u: RMS = A u, with a constant
 * A that belongs to the model and to the text, not to the type. Measured by rounding the values of
 * a float32 cache, all 467 x 256 logits: A = 1.07 for bf16 (largest 11.0 u) and 1.06 for f16
 * (largest 8.3 u); that the two agree says that the first order is enough. Softmax weights rounded
 * to the same type (GQA_PRECISION_FAST) err by u each and independently as well, like V: the
 * variance at most doubles, the RMS grows to 1.5 u. The bounds are 2 u RMS and 16 u for the
 * largest. In float32 (u = 2^-24) sums of n = 256 to 1024 terms in another order differ by about
 * sqrt(n) u, and a logit of size 16 after 5 layers by some 1e-5. */
float logit_bound(enum gqa_type type) {
    return type == GQA_BF16 ? 16.0f / 256 : type == GQA_F16 ? 16.0f / 2048 : 1e-4f;
}

gqa_status model_score(struct model *model, struct cache *cache, const int *tokens, int count,
                       int step, float *logits, struct gqa_error *err) {
    gqa_status status = GQA_OK;
    cache_reset(cache);
    for (int i = 0; !status && i < count; i += step)
        status = model_forward(model, cache, tokens + i, count - i < step ? count - i : step,
                               logits + (size_t)i * model->config.vocab, err);
    return status;
}

int check_greedy(struct model *model, struct cache *cache, const struct golden *g, int step,
                 struct gqa_error *err) {
    const int vocab = model->config.vocab;
    if (g->vocab != vocab)
        return refuse(err, GQA_ERR_ARGUMENT, "golden.json has %d logits, the model %d", g->vocab,
                      vocab),
               0;
    float *logits = malloc(sizeof *logits * vocab * g->count);
    if (!logits)
        return refuse(err, GQA_ERR_MEMORY, "no memory for logits"), 0;
    gqa_status status = model_score(model, cache, g->tokens, g->prompt, step, logits, err);
    float *row = logits + (size_t)(g->prompt - 1) * vocab;
    int right = 0;
    for (int i = g->prompt; !status && i < g->count; i++) {
        const int token = argmax(row, vocab);
        if (token != g->tokens[i])
            break;
        right++;
        status = model_forward(model, cache, &token, 1, row, err);
    }
    const float last = status ? INFINITY : max_difference(row, g->last, vocab);
    free(logits);
    if (status)
        return 0;
    const int pass = right == g->count - g->prompt && last <= 1e-3f;
    printf("%s: greedy: %d of %d bytes as expected, last logits differ by %.2g (bound 1e-3, "
           "smallest margin %.2g)\n",
           pass ? "agrees" : "DIFFERS", right, g->count - g->prompt, last, g->margin);
    return pass;
}

int check_forced(struct model *model, struct cache *cache, const struct golden *g,
                 const struct forced *f, struct gqa_error *err) {
    const size_t n = (size_t)g->count * model->config.vocab;
    float *logits = malloc(sizeof *logits * n);
    if (!logits)
        return refuse(err, GQA_ERR_MEMORY, "no memory for logits"), 0;
    const gqa_status status = model_score(model, cache, g->tokens, g->count, f->step, logits, err);
    int pass = 0;
    if (!status) {
        const float d = max_difference(logits, f->expected, n);
        double square = 0;
        for (size_t i = 0; i < n; i++)
            square += (logits[i] - f->expected[i]) * (logits[i] - f->expected[i]);
        const double rms = sqrt(square / (double)n);
        pass = d <= f->bound && rms <= f->bound_rms;
        printf("%s: %s: %d x %d logits differ by at most %.2g (bound %.2g), RMS %.2g (%.2g)\n",
               pass ? "agrees" : "DIFFERS", f->what, g->count, model->config.vocab, d, f->bound,
               rms, f->bound_rms);
    }
    free(logits);
    return pass;
}
