/* SPDX-License-Identifier: Apache-2.0
 * The algorithm, once, in vector extensions; included by one small file per instruction set.
 *
 * A block is up to 64 rows of K and V. Its query rows are taken 16 at a time: scores = q k for all
 * tokens, softmax in base 2 with a running maximum, acc = acc * shrink + weights v. Within that,
 * tiles of R query rows share every loaded row of K (T tokens at a time) and V.
 *
 * The including file defines
 *     V               floats of a vector
 *     EVEN, ODD       __builtin_shufflevector indices of the even and odd elements of two vectors
 *     LOW, HIGH       ... of the two interleaved halves (the inverse)
 *     vf, vi, vu16, vu8   vectors of V floats, int32, uint16, uint8
 *     vf from_f16(vu16)   IEEE half to float
 *     vf exp2_scale(vf p, vf n)   p * 2^n for n a whole number in [-127, 128]; 0 at n = -127
 *     float sum_v(vf)
 *
 * Order of elements: K and V come as pairs of vectors of 2V elements. bf16 splits a pair into even
 * and odd elements (a shift and a mask), the other types keep their order. q and acc follow. */
#include "cpu.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { TILE_ROWS = 16, SCORES = CPU_BLOCK + CPU_PAD, PAIR = 2 * V };

struct pair {
    vf a, b;
};

INLINE vf splat(float x) {
    return x - (vf){0};
}

INLINE vf load_f(const void *p) {
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE void store_f(float *p, vf x) {
    memcpy(p, &x, sizeof x);
}

INLINE vf choose(vi mask, vf yes, vf no) {
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

INLINE vf max_v(vf a, vf b) {
    return choose(a > b, a, b); /* b where a is NaN */
}

/* --- Element types --- */

INLINE vf load_u16_as_f(const int type, const char *p) {
    vu16 h;
    memcpy(&h, p, sizeof h);
    if (type == GQA_F16)
        return from_f16(h);
    return (vf)(__builtin_convertvector(h, vi) << 16);
}

/* fp8 by way of fp16: E5M2 is its upper byte. E4M3 has one exponent bit less, which makes every
 * value 2^-8 of what it is (gain), except that its NaN would look like a number. */
INLINE vf load_u8_as_f(const int type, const char *p) {
    vu8 x;
    memcpy(&x, p, sizeof x);
    vu16 h = __builtin_convertvector(x, vu16);
    if (type == GQA_E5M2)
        return from_f16(h << 8);
    const vu16 magnitude = h & 0x7f;
    const vu16 nan = (vu16)(magnitude == 0x7f) & 0x7e00;
    return from_f16((h & 0x80) << 8 | magnitude << 7 | nan);
}

/* 2V elements as they lie in memory. */
INLINE struct pair load_natural(const int type, const char *p) {
    switch (type) {
    case GQA_F32:
        return (struct pair){load_f(p), load_f(p + 4 * V)};
    case GQA_BF16:
    case GQA_F16:
        return (struct pair){load_u16_as_f(type, p), load_u16_as_f(type, p + 2 * V)};
    default:
        return (struct pair){load_u8_as_f(type, p), load_u8_as_f(type, p + V)};
    }
}

/* 2V elements of K or V, in the kernel's order. */
INLINE struct pair load_pair(const int type, const char *p) {
    if (type != GQA_BF16)
        return load_natural(type, p);
    vi x;
    memcpy(&x, p, sizeof x);
    return (struct pair){(vf)(x << 16), (vf)(x & (int)0xffff0000)};
}

INLINE int type_bytes(const int type) {
    return type == GQA_F32 ? 4 : type == GQA_BF16 || type == GQA_F16 ? 2 : 1;
}

/* The last, incomplete pair of a row, by way of a zeroed copy. */
INLINE struct pair load_rest(const int type, const char *p, int elements, const int natural) {
    char copy[PAIR * 4] = {0};
    memcpy(copy, p, (size_t)elements * (size_t)type_bytes(type));
    return natural ? load_natural(type, copy) : load_pair(type, copy);
}

INLINE struct pair split_order(const int type, struct pair x) {
    if (type != GQA_BF16)
        return x;
    return (struct pair){__builtin_shufflevector(x.a, x.b, EVEN),
                         __builtin_shufflevector(x.a, x.b, ODD)};
}

INLINE struct pair natural_order(const int type, struct pair x) {
    if (type != GQA_BF16)
        return x;
    return (struct pair){__builtin_shufflevector(x.a, x.b, LOW),
                         __builtin_shufflevector(x.a, x.b, HIGH)};
}

INLINE void prepare_as(const int kv_type, const int q_type, float *q, const char *row,
                       int head_dim) {
    const int size = type_bytes(q_type);
    int d = 0;
    for (; d + PAIR <= head_dim; d += PAIR) {
        const struct pair x = split_order(kv_type, load_natural(q_type, row + d * size));
        store_f(q + d, x.a);
        store_f(q + d + V, x.b);
    }
    if (d < head_dim) {
        const struct pair x =
            split_order(kv_type, load_rest(q_type, row + d * size, head_dim - d, 1));
        store_f(q + d, x.a);
        store_f(q + d + V, x.b);
    }
}

INLINE void prepare_row(const int kv_type, float *q, const void *row, enum gqa_type type,
                        int head_dim) {
    if (type == GQA_F32)
        prepare_as(kv_type, GQA_F32, q, row, head_dim);
    else if (type == GQA_BF16)
        prepare_as(kv_type, GQA_BF16, q, row, head_dim);
    else
        prepare_as(kv_type, GQA_F16, q, row, head_dim);
}

INLINE void unpack_row(const int type, float *o, const float *acc, float factor, int head_dim_v) {
    for (int d = 0; d < head_dim_v; d += PAIR) {
        const struct pair x = natural_order(
            type, (struct pair){load_f(acc + d) * factor, load_f(acc + d + V) * factor});
        store_f(o + d, x.a);
        store_f(o + d + V, x.b);
    }
}

/* --- exp2 and tanh --- */

/* 2^x for x <= 0, relative error 2.1e-7, by a degree-5 minimax polynomial on [-0.5, 0.5]. Below
 * -126.5 the result is 0; NaN stays NaN. */
INLINE vf exp2_v(vf x) {
    const float magic = 0x1.8p23f; /* adding it rounds to a whole number */
    x = choose(x < -127.0f, splat(-127.0f), x);
    const vf n = (x + magic) - magic;
    const vf r = x - n;
    vf p = r * 0.00132764723f + 0.00967554133f;
    p = p * r + 0.0555071327f;
    p = p * r + 0.240221197f;
    p = p * r + 0.693146967f;
    p = p * r + 1.00000007f;
    return exp2_scale(p, n);
}

/* tanh, absolute and relative error below 4e-7: an odd polynomial near 0 (its coefficients are
 * the Taylor series of tanh up to x^13), else 1 - 2 / (e^2|x| + 1) by way of e^-2|x|. */
INLINE vf tanh_v(vf x) {
    const vi sign = (vi)x & (int)0x80000000;
    const vf y = (vf)((vi)x & 0x7fffffff);
    const vf e = exp2_v(y * -2.88539008177792681472f);
    const vf far = (1.0f - e) / (1.0f + e);
    const vf z = x * x;
    vf p = z * 0.00359212803657f - 0.00886323552990f;
    p = p * z + 0.0218694885361f;
    p = p * z - 0.0539682539683f;
    p = p * z + 0.133333333333f;
    p = p * z - 0.333333333333f;
    const vf near = x + x * z * p;
    return choose(y < 0.4f, near, (vf)((vi)far | sign));
}

/* --- Scores --- */

INLINE void prefetch(const char *p) {
    __builtin_prefetch(p, 0, 3);
}

/* s[r][t] = q[r] k[t] for R rows and T tokens. */
INLINE void score_tile(const int type, const int R, const int T, const struct cpu_block *b,
                       const float *q, const char *const *k, const char *const *ahead, float *s) {
    const int size = type_bytes(type);
    vf acc[4 * 8];
#pragma GCC unroll 32
    for (int i = 0; i < R * T; i++)
        acc[i] = (vf){0};
    int d = 0;
    for (; d + PAIR <= b->head_dim; d += PAIR) {
        struct pair x[8];
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            x[t] = load_pair(type, k[t] + d * size);
        if (ahead && (d * size) % 64 == 0)
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                prefetch(ahead[t] + d * size);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const vf qa = load_f(q + r * b->q_stride + d);
            const vf qb = load_f(q + r * b->q_stride + d + V);
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                acc[r * T + t] += qa * x[t].a;
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                acc[r * T + t] += qb * x[t].b;
        }
    }
    if (d < b->head_dim)
        for (int t = 0; t < T; t++) {
            const struct pair x = load_rest(type, k[t] + d * size, b->head_dim - d, 0);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++)
                acc[r * T + t] += load_f(q + r * b->q_stride + d) * x.a +
                                  load_f(q + r * b->q_stride + d + V) * x.b;
        }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            s[r * SCORES + t] = sum_v(acc[r * T + t]);
}

INLINE void score_rows(const int type, const int R, const int T, const struct cpu_block *b, int row,
                       float *s, bool is_first) {
    const float *q = b->q + (int64_t)row * b->q_stride;
    for (int t = 0; t < b->tokens; t += T)
        score_tile(type, R, T, b, q, b->k + t, is_first ? b->v + t : NULL, s + t);
}

INLINE void scores(const int type, const struct cpu_block *b, int first, int rows, float *s) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        score_rows(type, 4, 2, b, first + r, s + r * SCORES, first + r == 0);
    s += r * SCORES;
    switch (rows - r) {
    case 3:
        score_rows(type, 3, 3, b, first + r, s, first + r == 0);
        break;
    case 2:
        score_rows(type, 2, 4, b, first + r, s, first + r == 0);
        break;
    case 1:
        score_rows(type, 1, 8, b, first + r, s, first + r == 0);
        break;
    default:
        break;
    }
}

/* --- Softmax --- */

/* Scores of one row become weights; returns what acc and sum must shrink by. */
INLINE float softmax_row(const struct cpu_block *b, int row, float *s) {
    vf most = splat(-INFINITY);
    for (int t = b->tokens; t % V; t++)
        s[t] = -INFINITY;
    for (int t = 0; t < b->tokens; t += V) {
        vf x = load_f(s + t);
        if (b->cap_log2 > 0)
            x = tanh_v(x * b->scale_cap) * b->cap_log2;
        else
            x = x * b->scale_log2;
        if (t + V > b->tokens) {
            /* a negative scale has turned the filler round, a cap has made it finite */
            store_f(s + t, x);
            for (int i = b->tokens; i < t + V; i++)
                s[i] = -INFINITY;
            x = load_f(s + t);
        }
        store_f(s + t, x);
        most = max_v(x, most);
    }
    float max = b->max[row];
    for (int i = 0; i < V; i++)
        max = most[i] > max ? most[i] : max;
    const float top = max == -INFINITY ? 0 : max;
    vf sum = {0};
    for (int t = 0; t < b->tokens; t += V) {
        const vf w = exp2_v(load_f(s + t) - top);
        store_f(s + t, w);
        sum += w;
    }
    const float shrink = exp2_v(splat(b->max[row] - top))[0];
    b->sum[row] = b->sum[row] * shrink + sum_v(sum);
    b->max[row] = max;
    return shrink;
}

/* --- Values --- */

/* Rows of the next block to fetch while this one is multiplied, one line at a time. */
struct ahead {
    const char *const *rows;
    int left, offset, bytes;
};

INLINE void ahead_step(struct ahead *a) {
    if (a->left <= 0)
        return;
    prefetch(*a->rows + a->offset);
    a->offset += 64;
    if (a->offset >= a->bytes) {
        a->offset = 0;
        a->rows++;
        a->left--;
    }
}

/* acc[r] = acc[r] * shrink[r] + sum over tokens of w[r][t] v[t], for R rows and C pairs. */
INLINE void value_tile(const int type, const int R, const int C, const struct cpu_block *b,
                       float *acc, int d, const float *w, const float *shrink, int elements,
                       struct ahead *ahead) {
    const int size = type_bytes(type);
    vf a[4 * 4 * 2];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int c = 0; c < 2 * C; c++)
            a[r * 2 * C + c] = load_f(acc + r * b->acc_stride + d + c * V) * shrink[r];
    for (int t = 0; t < b->tokens; t++) {
        struct pair x[4];
        if (elements)
            x[0] = load_rest(type, b->v[t] + d * size, elements, 0);
        else
#pragma GCC unroll 4
            for (int c = 0; c < C; c++)
                x[c] = load_pair(type, b->v[t] + (d + c * PAIR) * size);
        if (ahead)
            ahead_step(ahead);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const vf weight = splat(w[r * SCORES + t]);
#pragma GCC unroll 4
            for (int c = 0; c < C; c++) {
                a[(r * C + c) * 2] += weight * x[c].a;
                a[(r * C + c) * 2 + 1] += weight * x[c].b;
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int c = 0; c < 2 * C; c++)
            store_f(acc + r * b->acc_stride + d + c * V, a[r * 2 * C + c]);
}

INLINE void value_rows(const int type, const int R, const int C, const struct cpu_block *b, int row,
                       const float *w, const float *shrink, bool is_first) {
    float *acc = b->acc + (int64_t)row * b->acc_stride;
    struct ahead ahead = {b->next_k, b->next_tokens, 0, b->head_dim * type_bytes(type)};
    struct ahead *a = is_first && b->next_tokens ? &ahead : NULL;
    int d = 0;
    for (; d + C * PAIR <= b->head_dim_v; d += C * PAIR)
        value_tile(type, R, C, b, acc, d, w, shrink, 0, a);
    for (; d + PAIR <= b->head_dim_v; d += PAIR)
        value_tile(type, R, 1, b, acc, d, w, shrink, 0, a);
    if (d < b->head_dim_v)
        value_tile(type, R, 1, b, acc, d, w, shrink, b->head_dim_v - d, NULL);
}

INLINE void values(const int type, const struct cpu_block *b, int first, int rows, const float *w,
                   const float *shrink) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        value_rows(type, 4, 1, b, first + r, w + r * SCORES, shrink + r, first + r == 0);
    w += r * SCORES;
    shrink += r;
    switch (rows - r) {
    case 3:
        value_rows(type, 3, 1, b, first + r, w, shrink, first + r == 0);
        break;
    case 2:
        value_rows(type, 2, 2, b, first + r, w, shrink, first + r == 0);
        break;
    case 1:
        value_rows(type, 1, 4, b, first + r, w, shrink, first + r == 0);
        break;
    default:
        break;
    }
}

/* --- One block --- */

INLINE void block_of(const int type, const struct cpu_block *b) {
    float s[TILE_ROWS * SCORES] __attribute__((aligned(64)));
    float shrink[TILE_ROWS];
    for (int first = 0; first < b->rows; first += TILE_ROWS) {
        const int rows = b->rows - first < TILE_ROWS ? b->rows - first : TILE_ROWS;
        scores(type, b, first, rows, s);
        for (int r = 0; r < rows; r++)
            shrink[r] = softmax_row(b, first + r, s + r * SCORES);
        values(type, b, first, rows, s, shrink);
    }
}

#define OPS(name, TYPE)                                                                            \
    static void name##_prepare(float *q, const void *row, enum gqa_type type, int head_dim) {      \
        prepare_row(TYPE, q, row, type, head_dim);                                                 \
    }                                                                                              \
    static void name##_block(const struct cpu_block *b) {                                          \
        block_of(TYPE, b);                                                                         \
    }                                                                                              \
    static void name##_unpack(float *o, const float *acc, float factor, int head_dim_v) {          \
        unpack_row(TYPE, o, acc, factor, head_dim_v);                                              \
    }

OPS(f32, GQA_F32)
OPS(bf16, GQA_BF16)
OPS(f16, GQA_F16)
OPS(e4m3, GQA_E4M3)
OPS(e5m2, GQA_E5M2)

const struct cpu_ops OPS_NAME[] = {
    [GQA_F32] = {1, f32_prepare, f32_block, f32_unpack},
    [GQA_BF16] = {1, bf16_prepare, bf16_block, bf16_unpack},
    [GQA_F16] = {1, f16_prepare, f16_block, f16_unpack},
    [GQA_E4M3] = {256, e4m3_prepare, e4m3_block, e4m3_unpack},
    [GQA_E5M2] = {1, e5m2_prepare, e5m2_block, e5m2_unpack},
};
