/* SPDX-License-Identifier: Apache-2.0
 * Text from a small language model with grouped-query attention, every attention one call of gqa.
 * The text goes to standard output as it is produced; what it took goes to standard error. */
#include "check.h"

#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: generate [options] [MODEL_FOLDER]\n"
    "Write text with a Llama model whose tokens are bytes (default: examples/kjv-5m).\n\n"
    "  --prompt TEXT       what to begin with (default: the golden prompt)\n"
    "  --tokens N          bytes to produce (default 400)\n"
    "  --kv-type TYPE      f32, bf16 or f16: how keys and values are kept (default f32)\n"
    "  --exact             softmax weights in float32 also where K and V are narrower\n"
    "  --device NAME       as gqa_device_open takes it (default cpu)\n"
    "  --kernel NAME       the kernel family to use (see gqa info)\n"
    "  --threads N         CPU threads for attention (default 0: one per core)\n"
    "  --one-by-one        feed the prompt token by token, not 16 per call\n"
    "  --temperature T     sample at temperature T instead of taking the best (default 0)\n"
    "  --seed N            of the sampling (default 1)\n"
    "  --check             compare with golden.json instead of printing text; exit status 1 if\n"
    "                      it differs: greedy bytes and last logits with f32 keys and values,\n"
    "                      else as with --teacher-forced\n"
    "  --teacher-forced    with --check: feed the golden tokens, compare the logits everywhere\n"
    "                      with those of an f32 cache\n"
    "  --help\n";

struct options {
    struct cache_options cache;
    const char *folder, *prompt;
    int tokens, step, check, forced;
    double temperature;
    uint64_t seed;
};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- Options --- */

static int parse_int(const char *text, int min, int *out) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*end || end == text || value < min || value > INT_MAX)
        return 0;
    *out = (int)value;
    return 1;
}

static int parse_type(const char *text, enum gqa_type *out) {
    for (enum gqa_type type = GQA_F32; type <= GQA_F16; type++)
        if (!strcmp(text, gqa_type_name(type))) {
            *out = type;
            return 1;
        }
    return 0;
}

static int parse_option(struct options *o, int option, const char *text) {
    int value = 0;
    char *end;
    switch (option) {
    case 'p':
        o->prompt = text;
        return 1;
    case 'n':
        return parse_int(text, 0, &o->tokens);
    case 'k':
        return parse_type(text, &o->cache.type);
    case 'e':
        o->cache.precision = GQA_PRECISION_EXACT;
        return 1;
    case 'd':
        o->cache.device = text;
        return 1;
    case 'K':
        o->cache.kernel = text;
        return 1;
    case 't':
        return parse_int(text, 0, &o->cache.threads);
    case '1':
        o->step = 1;
        return 1;
    case 'T':
        o->temperature = strtod(text, &end);
        return !*end && end != text && o->temperature >= 0 && o->temperature <= 100;
    case 's':
        if (!parse_int(text, 0, &value))
            return 0;
        o->seed = (uint64_t)value;
        return 1;
    case 'c':
        return o->check = 1;
    case 'f':
        return o->forced = 1;
    }
    return 0;
}

/* Returns the exit status to end with, or -1 to go on. */
static int parse(int argc, char **argv, struct options *o) {
    static const struct option list[] = {
        {"prompt", 1, NULL, 'p'},         {"tokens", 1, NULL, 'n'},
        {"kv-type", 1, NULL, 'k'},        {"exact", 0, NULL, 'e'},
        {"device", 1, NULL, 'd'},         {"kernel", 1, NULL, 'K'},
        {"threads", 1, NULL, 't'},        {"one-by-one", 0, NULL, '1'},
        {"temperature", 1, NULL, 'T'},    {"seed", 1, NULL, 's'},
        {"check", 0, NULL, 'c'},          {"help", 0, NULL, 'h'},
        {"teacher-forced", 0, NULL, 'f'}, {NULL, 0, NULL, 0},
    };
    int option, index = 0;
    while ((option = getopt_long(argc, argv, "", list, &index)) != -1) {
        if (option == 'h')
            return fputs(help, stdout), 0;
        if (option == '?')
            return fprintf(stderr, "generate --help lists the options\n"), 2;
        if (!parse_option(o, option, optarg))
            return fprintf(stderr, "generate: --%s cannot be \"%s\"; see --help\n",
                           list[index].name, optarg),
                   2;
    }
    if (argc - optind > 1)
        return fprintf(stderr, "generate: one model folder, not %d\n", argc - optind), 2;
    if (optind < argc)
        o->folder = argv[optind];
    o->cache.grid = o->cache.type;
    return -1;
}

/* --- Generating --- */

/* xorshift64*, to [0, 1). Ref: Vigna, "An experimental exploration of Marsaglia's xorshift". */
static double uniform(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)(*state * 2685821657736338717u >> 11) * 0x1p-53;
}

static int choose(const float *logits, int n, double temperature, uint64_t *state) {
    const int best = argmax(logits, n);
    double sum = 0;
    if (temperature <= 0)
        return best;
    for (int i = 0; i < n; i++)
        sum += exp((logits[i] - logits[best]) / temperature);
    double left = uniform(state) * sum;
    for (int i = 0; i < n; i++) {
        left -= exp((logits[i] - logits[best]) / temperature);
        if (left < 0)
            return i;
    }
    return best;
}

struct timing {
    double prompt, prompt_attention, answer, answer_attention;
};

static gqa_status answer(const struct options *o, struct model *m, struct cache *cache,
                         const int *prompt, int count, float *logits, struct timing *timing,
                         struct gqa_error *err) {
    const int vocab = m->config.vocab;
    uint64_t state = o->seed * 0x9e3779b97f4a7c15u + 1;
    double start = seconds();
    gqa_status status = model_score(m, cache, prompt, count, o->step, logits, err);
    timing->prompt = seconds() - start;
    timing->prompt_attention = cache->seconds;
    float *row = logits + (size_t)(count - 1) * vocab;
    start = seconds();
    for (int i = 0; !status && i < o->tokens; i++) {
        const int token = choose(row, vocab, o->temperature, &state);
        putchar(token);
        fflush(stdout);
        status = model_forward(m, cache, &token, 1, row, err);
    }
    timing->answer = seconds() - start;
    timing->answer_attention = cache->seconds - timing->prompt_attention;
    return status;
}

static gqa_status generate(const struct options *o, struct model *m, struct cache *cache,
                           const int *prompt, int count, struct gqa_error *err) {
    struct timing t;
    if (count < 1 || count > m->config.context - o->tokens)
        return refuse(err, GQA_ERR_SHAPE, "%d bytes of prompt and %d more; expected 1 to %d in all",
                      count, o->tokens, m->config.context);
    float *logits = malloc(sizeof *logits * count * m->config.vocab);
    if (!logits)
        return refuse(err, GQA_ERR_MEMORY, "no memory for logits");
    for (int i = 0; i < count; i++)
        putchar(prompt[i]);
    const gqa_status status = answer(o, m, cache, prompt, count, logits, &t, err);
    putchar('\n');
    fflush(stdout);
    free(logits);
    if (!status)
        fprintf(stderr,
                "\nprompt  %5d tokens, %7.1f tokens/s, %4.1f %% of the time in attention\n"
                "answer  %5d tokens, %7.1f tokens/s, %4.1f %% of the time in attention\n",
                count, count / t.prompt, 100 * t.prompt_attention / t.prompt, o->tokens,
                o->tokens / t.answer, 100 * t.answer_attention / t.answer);
    return status;
}

/* --- Checking --- */

static struct cache_shape shape_of(const struct config *c) {
    return (struct cache_shape){c->layers, c->q_heads, c->kv_heads, c->head_dim, c->context};
}

/* The logits over golden's tokens with keys and values in float32, on the CPU. */
static gqa_status expect(struct model *m, const struct golden *g, float *logits,
                         struct gqa_error *err) {
    const struct cache_options exact = {.device = "cpu", .precision = GQA_PRECISION_EXACT};
    const struct cache_shape shape = shape_of(&m->config);
    struct cache cache;
    gqa_status status = cache_open(&exact, &shape, &cache, err);
    if (status)
        return status;
    status = model_score(m, &cache, g->tokens, g->count, 1, logits, err);
    cache_close(&cache);
    return status;
}

static int check(const struct options *o, struct model *m, struct cache *cache,
                 const struct golden *g, struct gqa_error *err) {
    if (o->cache.type == GQA_F32 && !o->forced)
        return check_greedy(m, cache, g, o->step, err);
    float *expected = malloc(sizeof *expected * g->count * m->config.vocab);
    if (!expected)
        return refuse(err, GQA_ERR_MEMORY, "no memory for logits"), 0;
    const gqa_status status = expect(m, g, expected, err);
    const float bound = logit_bound(o->cache.type);
    const struct forced forced = {gqa_type_name(o->cache.type), o->step, expected, bound,
                                  bound / 8};
    const int pass = !status && check_forced(m, cache, g, &forced, err);
    free(expected);
    return pass;
}

static int run(const struct options *o, struct model *m, struct cache *cache,
               struct gqa_error *err) {
    struct golden g = {0};
    gqa_status status = GQA_OK;
    if (o->check || !o->prompt)
        status = golden_load(o->folder, &g, err);
    int pass = 0;
    if (!status && o->check) {
        pass = check(o, m, cache, &g, err);
    } else if (!status) {
        const int count = o->prompt ? (int)strlen(o->prompt) : g.prompt;
        int *prompt = calloc((size_t)count + 1, sizeof *prompt);
        for (int i = 0; prompt && i < count; i++)
            prompt[i] = o->prompt ? (unsigned char)o->prompt[i] : g.tokens[i];
        pass = prompt && !generate(o, m, cache, prompt, count, err);
        free(prompt);
    }
    golden_free(&g);
    return pass;
}

int main(int argc, char **argv) {
    struct options o = {.cache = {.device = "cpu"},
                        .folder = "examples/kjv-5m",
                        .tokens = 400,
                        .step = MODEL_MAX_TOKENS,
                        .seed = 1};
    struct gqa_error err = {0};
    struct model model;
    struct cache cache;
    const int end = parse(argc, argv, &o);
    if (end >= 0)
        return end;
    int pass = 0;
    if (!model_load(o.folder, &model, &err)) {
        const struct cache_shape shape = shape_of(&model.config);
        if (!cache_open(&o.cache, &shape, &cache, &err)) {
            pass = run(&o, &model, &cache, &err);
            cache_close(&cache);
        }
        model_free(&model);
    }
    if (!pass && err.status)
        fprintf(stderr, "generate: %s\n", err.message);
    return !pass;
}
