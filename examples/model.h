/* SPDX-License-Identifier: Apache-2.0
 * A Llama-style language model read from a Hugging Face folder (config.json, model.safetensors),
 * and its forward pass, in float32. Everything but attention is plain loops, written to be read;
 * attention is the cache's (cache.h), which hands it to gqa. Deliberately not here: quantised
 * weights, biases, scaled RoPE, tokenizers (the model at hand reads bytes). */
#ifndef MODEL_H
#define MODEL_H

#include "cache.h"
#include "gqa.h"

/* The longest run of tokens that one forward pass takes: what gqa takes as q_tokens. */
enum { MODEL_MAX_TOKENS = CACHE_MAX_TOKENS };

struct config {
    int layers, hidden, q_heads, kv_heads, head_dim, intermediate, vocab;
    int context; /* tokens, prompt and answer together */
    float norm_eps, rope_theta;
    enum gqa_type rope_type; /* of the rotary frequencies: f32 or bf16 */
};

struct layer {
    float *attention_norm; /* [hidden] */
    float *q_proj;         /* [q_heads * head_dim][hidden] */
    float *k_proj;         /* [kv_heads * head_dim][hidden] */
    float *v_proj;         /* [kv_heads * head_dim][hidden] */
    float *o_proj;         /* [hidden][q_heads * head_dim] */
    float *mlp_norm;       /* [hidden] */
    float *gate_proj;      /* [intermediate][hidden] */
    float *up_proj;        /* [intermediate][hidden] */
    float *down_proj;      /* [hidden][intermediate] */
};

/* What the forward pass computes in; rows are tokens. */
struct activations {
    float *x;       /* [MODEL_MAX_TOKENS][hidden]: the residual stream */
    float *normed;  /* [MODEL_MAX_TOKENS][hidden] */
    float *q, *o;   /* [MODEL_MAX_TOKENS][q_heads][head_dim] */
    float *k, *v;   /* [MODEL_MAX_TOKENS][kv_heads][head_dim] */
    float *gate;    /* [MODEL_MAX_TOKENS][intermediate] */
    float *up;      /* [MODEL_MAX_TOKENS][intermediate] */
    float *rotated; /* [context][2][head_dim / 2]: cosines, sines of a position's angles */
};

struct model {
    struct config config;
    struct layer *layers; /* [config.layers] */
    float *embed;         /* [vocab][hidden]; also the output matrix (tied) */
    float *norm;          /* [hidden] */
    struct activations act;
};

/* Read a model folder. Weights may be bf16, f16 or f32 in the file.
 * Owner:  *model is the caller's, for model_free, if GQA_OK.
 * Fails:  GQA_ERR_ARGUMENT with a sentence naming the file and what is wrong; GQA_ERR_MEMORY. */
gqa_status model_load(const char *folder, struct model *model, struct gqa_error *err);

void model_free(struct model *model);

/* Append `n` tokens (1 .. MODEL_MAX_TOKENS) to the cache's sequence.
 * Shapes: tokens [n]; logits [n][vocab], row i is what the model expects after token i. */
gqa_status model_forward(struct model *model, struct cache *cache, const int *tokens, int n,
                         float *logits, struct gqa_error *err);

#endif
