/* SPDX-License-Identifier: Apache-2.0
 * Ref: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", section 2.2 (RMSNorm
 * before each part, SwiGLU, rotary embeddings); Ainslie et al., "GQA". */
#include "model.h"
#include "num.h"
#include "safetensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Reading --- */

static gqa_status config_check(const struct config *c, const char *path, struct gqa_error *err) {
    const int sizes[] = {c->layers,   c->hidden,       c->q_heads, c->kv_heads,
                         c->head_dim, c->intermediate, c->vocab,   c->context};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > 1 << 20)
            return refuse(err, GQA_ERR_ARGUMENT, "%s: a size is %d, expected 1 to 2^20", path,
                          sizes[i]);
    if (c->head_dim % 2 || c->q_heads % c->kv_heads)
        return refuse(err, GQA_ERR_ARGUMENT,
                      "%s: head_dim %d must be even and kv_heads %d must divide q_heads %d", path,
                      c->head_dim, c->kv_heads, c->q_heads);
    return GQA_OK;
}

static gqa_status config_read(const char *folder, struct config *c, struct gqa_error *err) {
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/config.json", folder);
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        return refuse(err, GQA_ERR_ARGUMENT, "%s: %s", path, error.text);
    const char *kind = "", *act = "", *rope = "default", *dtype = "float32";
    int tied = 0;
    double eps = 0, theta = 0;
    const int bad = json_unpack_ex(
        json, &error, 0,
        "{s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:F, s:{s:F, s?s}, s?s}",
        "model_type", &kind, "hidden_act", &act, "tie_word_embeddings", &tied, "num_hidden_layers",
        &c->layers, "hidden_size", &c->hidden, "num_attention_heads", &c->q_heads,
        "num_key_value_heads", &c->kv_heads, "head_dim", &c->head_dim, "intermediate_size",
        &c->intermediate, "vocab_size", &c->vocab, "max_position_embeddings", &c->context,
        "rms_norm_eps", &eps, "rope_parameters", "rope_theta", &theta, "rope_type", &rope, "dtype",
        &dtype);
    c->norm_eps = (float)eps;
    c->rope_theta = (float)theta;
    c->rope_type = strcmp(dtype, "bfloat16") ? GQA_F32 : GQA_BF16;
    gqa_status status = GQA_OK;
    if (bad)
        status = refuse(err, GQA_ERR_ARGUMENT, "%s: %s", path, error.text);
    else if (strcmp(kind, "llama") || strcmp(act, "silu") || strcmp(rope, "default") || !tied)
        status =
            refuse(err, GQA_ERR_UNSUPPORTED,
                   "%s: model_type %s, hidden_act %s, rope_type %s, embeddings %stied; expected "
                   "llama, silu, default, tied",
                   path, kind, act, rope, tied ? "" : "not ");
    json_decref(json);
    return status ? status : config_check(c, path, err);
}

static gqa_status weight_read(const struct st_file *file, const char *name, int rows, int cols,
                              float **out, struct gqa_error *err) {
    const struct st_tensor *t = st_find(file, name);
    const int dims = cols ? 2 : 1;
    const size_t count = (size_t)rows * (cols ? cols : 1);
    if (!t || t->type > ST_F16 || t->dims != dims || t->shape[0] != rows ||
        (cols && t->shape[1] != cols))
        return refuse(err, GQA_ERR_ARGUMENT,
                      "weights: %s is %s, expected %d x %d numbers of type f32, bf16 or f16", name,
                      t ? "of another type or shape" : "missing", rows, cols ? cols : 1);
    void *raw = malloc(t->bytes);
    *out = malloc(count * sizeof **out);
    gqa_status status = GQA_OK;
    if (!raw || !*out)
        status = refuse(err, GQA_ERR_MEMORY, "no memory for %s", name);
    else
        status = st_read(file, t, raw, err);
    for (size_t i = 0; !status && i < count; i++)
        (*out)[i] = num_load((enum gqa_type)t->type, raw, (int64_t)i);
    free(raw);
    return status;
}

static gqa_status layer_read(const struct st_file *file, const struct config *c, int index,
                             struct layer *l, struct gqa_error *err) {
    const int q = c->q_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const struct {
        const char *name;
        int rows, cols;
        float **out;
    } list[] = {
        {"input_layernorm", c->hidden, 0, &l->attention_norm},
        {"self_attn.q_proj", q, c->hidden, &l->q_proj},
        {"self_attn.k_proj", kv, c->hidden, &l->k_proj},
        {"self_attn.v_proj", kv, c->hidden, &l->v_proj},
        {"self_attn.o_proj", c->hidden, q, &l->o_proj},
        {"post_attention_layernorm", c->hidden, 0, &l->mlp_norm},
        {"mlp.gate_proj", c->intermediate, c->hidden, &l->gate_proj},
        {"mlp.up_proj", c->intermediate, c->hidden, &l->up_proj},
        {"mlp.down_proj", c->hidden, c->intermediate, &l->down_proj},
    };
    gqa_status status = GQA_OK;
    for (size_t i = 0; !status && i < sizeof list / sizeof *list; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", index, list[i].name);
        status = weight_read(file, name, list[i].rows, list[i].cols, list[i].out, err);
    }
    return status;
}

/* The angles of every position. Ref: Su et al., "RoFormer", section 3.2.2. The frequencies are
 * rounded to the type that the model was saved in, as frameworks do that cast a whole module: with
 * exact ones the logits of kjv-5m move by 0.04, with these they match golden.json to 4e-6. */
static void rope_fill(const struct config *c, float *rotated) {
    const int half = c->head_dim / 2;
    for (int position = 0; position < c->context; position++, rotated += c->head_dim)
        for (int i = 0; i < half; i++) {
            float frequency = (float)pow(c->rope_theta, -2.0 * i / c->head_dim);
            if (c->rope_type == GQA_BF16)
                frequency = num_from_bf16(num_to_bf16(frequency));
            rotated[i] = cosf((float)position * frequency);
            rotated[half + i] = sinf((float)position * frequency);
        }
}

static gqa_status activations_alloc(struct model *m, struct gqa_error *err) {
    const struct config *c = &m->config;
    struct activations *a = &m->act;
    const struct {
        float **out;
        int rows, cols;
    } list[] = {
        {&a->x, MODEL_MAX_TOKENS, c->hidden},
        {&a->normed, MODEL_MAX_TOKENS, c->hidden},
        {&a->q, MODEL_MAX_TOKENS, c->q_heads * c->head_dim},
        {&a->o, MODEL_MAX_TOKENS, c->q_heads * c->head_dim},
        {&a->k, MODEL_MAX_TOKENS, c->kv_heads * c->head_dim},
        {&a->v, MODEL_MAX_TOKENS, c->kv_heads * c->head_dim},
        {&a->gate, MODEL_MAX_TOKENS, c->intermediate},
        {&a->up, MODEL_MAX_TOKENS, c->intermediate},
        {&a->rotated, c->context, c->head_dim},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!(*list[i].out = malloc(sizeof(float) * list[i].rows * list[i].cols)))
            return refuse(err, GQA_ERR_MEMORY, "no memory for activations");
    rope_fill(c, a->rotated);
    return GQA_OK;
}

gqa_status model_load(const char *folder, struct model *m, struct gqa_error *err) {
    char path[4096];
    struct st_file file;
    *m = (struct model){0};
    gqa_status status = config_read(folder, &m->config, err);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (status || (status = st_open(path, &file, err)))
        return status;
    const struct config *c = &m->config;
    m->layers = calloc(c->layers, sizeof *m->layers);
    if (!m->layers)
        status = refuse(err, GQA_ERR_MEMORY, "no memory for %d layers", c->layers);
    else if (!(status = weight_read(&file, "model.embed_tokens.weight", c->vocab, c->hidden,
                                    &m->embed, err)))
        status = weight_read(&file, "model.norm.weight", c->hidden, 0, &m->norm, err);
    for (int i = 0; !status && i < c->layers; i++)
        status = layer_read(&file, c, i, &m->layers[i], err);
    st_close(&file);
    if (!status)
        status = activations_alloc(m, err);
    if (status)
        model_free(m);
    return status;
}

void model_free(struct model *m) {
    for (int i = 0; m->layers && i < m->config.layers; i++) {
        const struct layer *l = &m->layers[i];
        float *const weights[] = {l->attention_norm, l->q_proj,  l->k_proj,
                                  l->v_proj,         l->o_proj,  l->mlp_norm,
                                  l->gate_proj,      l->up_proj, l->down_proj};
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
            free(weights[w]);
    }
    const struct activations *a = &m->act;
    float *const rest[] = {m->embed, m->norm, a->x,    a->normed, a->q,      a->o,
                           a->k,     a->v,    a->gate, a->up,     a->rotated};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        free(rest[i]);
    free(m->layers);
    *m = (struct model){0};
}

/* --- The forward pass --- */

/* The sum runs in LANES interleaved parts, always the same ones: a row's result does not depend on
 * how many tokens are computed together, and the compiler can use vector instructions. */
static float dot(const float *a, const float *b, int n) {
    enum { LANES = 16 };
    float part[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            part[lane] += a[i + lane] * b[i + lane];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            part[lane] += part[lane + width];
    return sum + part[0];
}

/* y [n][rows] = x [n][cols] times the transpose of w [rows][cols], added to y if `add`. */
static void linear(const float *w, int rows, int cols, const float *x, int n, float *y, int add) {
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < n; i++) {
            const float sum = dot(w + (size_t)row * cols, x + (size_t)i * cols, cols);
            y[(size_t)i * rows + row] = add ? y[(size_t)i * rows + row] + sum : sum;
        }
}

/* y = weight * x / rms(x), for each of n rows. Ref: Zhang and Sennrich, "RMSNorm". */
static void rms_norm(const float *weight, float eps, int size, const float *x, int n, float *y) {
    for (int i = 0; i < n; i++, x += size, y += size) {
        const float inverse = 1 / sqrtf(dot(x, x, size) / (float)size + eps);
        for (int j = 0; j < size; j++)
            y[j] = weight[j] * (x[j] * inverse);
    }
}

/* Turn each pair (x[i], x[i + half]) of each head by its position's angle i. */
static void rope(const float *rotated, int position, int heads, int head_dim, int n, float *x) {
    const int half = head_dim / 2;
    for (int token = 0; token < n; token++)
        for (int head = 0; head < heads; head++, x += head_dim) {
            const float *turn = rotated + (size_t)(position + token) * head_dim;
            for (int i = 0; i < half; i++) {
                const float a = x[i], b = x[i + half], c = turn[i], s = turn[half + i];
                x[i] = a * c - b * s;
                x[i + half] = b * c + a * s;
            }
        }
}

static gqa_status attention(struct model *m, int index, struct cache *cache, int n,
                            struct gqa_error *err) {
    const struct config *c = &m->config;
    const struct layer *l = &m->layers[index];
    const struct activations *a = &m->act;
    const int q = c->q_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    rms_norm(l->attention_norm, c->norm_eps, c->hidden, a->x, n, a->normed);
    linear(l->q_proj, q, c->hidden, a->normed, n, a->q, 0);
    linear(l->k_proj, kv, c->hidden, a->normed, n, a->k, 0);
    linear(l->v_proj, kv, c->hidden, a->normed, n, a->v, 0);
    rope(a->rotated, cache->length, c->q_heads, c->head_dim, n, a->q);
    rope(a->rotated, cache->length, c->kv_heads, c->head_dim, n, a->k);
    const gqa_status status = cache_attend(cache, index, n, a->q, a->k, a->v, a->o, err);
    if (!status)
        linear(l->o_proj, c->hidden, q, a->o, n, a->x, 1);
    return status;
}

static void mlp(struct model *m, int index, int n) {
    const struct config *c = &m->config;
    const struct layer *l = &m->layers[index];
    const struct activations *a = &m->act;
    rms_norm(l->mlp_norm, c->norm_eps, c->hidden, a->x, n, a->normed);
    linear(l->gate_proj, c->intermediate, c->hidden, a->normed, n, a->gate, 0);
    linear(l->up_proj, c->intermediate, c->hidden, a->normed, n, a->up, 0);
    for (int i = 0; i < n * c->intermediate; i++)
        a->gate[i] = a->gate[i] / (1 + expf(-a->gate[i])) * a->up[i];
    linear(l->down_proj, c->hidden, c->intermediate, a->gate, n, a->x, 1);
}

gqa_status model_forward(struct model *m, struct cache *cache, const int *tokens, int n,
                         float *logits, struct gqa_error *err) {
    const struct config *c = &m->config;
    if (n < 1 || n > MODEL_MAX_TOKENS || cache->length + n > c->context)
        return refuse(err, GQA_ERR_SHAPE, "%d tokens after %d; expected 1 to %d, %d in all", n,
                      cache->length, MODEL_MAX_TOKENS, c->context);
    for (int i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= c->vocab)
            return refuse(err, GQA_ERR_ARGUMENT, "token %d is not in a vocabulary of %d", tokens[i],
                          c->vocab);
        memcpy(m->act.x + (size_t)i * c->hidden, m->embed + (size_t)tokens[i] * c->hidden,
               sizeof(float) * c->hidden);
    }
    for (int layer = 0; layer < c->layers; layer++) {
        const gqa_status status = attention(m, layer, cache, n, err);
        if (status)
            return status;
        mlp(m, layer, n);
    }
    cache_advance(cache, n);
    rms_norm(m->norm, c->norm_eps, c->hidden, m->act.x, n, m->act.normed);
    linear(m->embed, c->vocab, c->hidden, m->act.normed, n, logits, 0);
    return GQA_OK;
}
