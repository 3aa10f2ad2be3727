/* SPDX-License-Identifier: Apache-2.0
 * The algorithm, once, in vector extensions; included by one small file per instruction set, which
 * then takes its table of functions from decode_ops.inc.c.
 *
 * A block is up to 64 rows of K and V. Its query rows are taken 16 at a time: scores = q k for all
 * tokens, softmax in base 2 with a running maximum, acc = acc * shrink + weights v. Within that,
 * tiles of R query rows share every loaded row of K (T tokens at a time) and V.
 *
 * The including file defines
 *     V               floats of a vector
 *     load_bf16(p, vf *a, vf *b)   2V bf16 elements, dealt to a and b in whatever order is cheap:
 *     FIRST, SECOND   the __builtin_shufflevector indices that give a and b from natural order
 *     LOW, HIGH       ... and natural order from a and b
 *     vf, vi, vu16, vu8   vectors of V floats, int32, uint16, uint8
 *     vf from_f16(vu16)   IEEE half to float
 *     vf exp2_scale(vf p, vf n)   p * 2^n for n a whole number in [-127, 128]; 0 at n = -127
 *     v4, v4 sum4(vf, vf, vf, vf)   the sum of each
 *     float sum_v(vf)
 *     KEEP(vf)        keeps a loaded vector from being folded into each of its uses
 *     TOKENS_4, TOKENS_2, PAIRS_4   tile sizes, by the number of registers
 *
 * Order of elements: K and V come as pairs of vectors of 2V elements. bf16 deals its elements to
 * the two as load_bf16 does, the other types keep their order. q and acc follow. */
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
    struct pair x;
    load_bf16(p, &x.a, &x.b);
    return x;
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
    return (struct pair){__builtin_shufflevector(x.a, x.b, FIRST),
                         __builtin_shufflevector(x.a, x.b, SECOND)};
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

/* Query rows of a tile are taken by 4, the rest by 3, 2 or 1; fewer rows take more tokens or
 * columns, so that there are always enough independent sums for the multiply-add's latency. */
INLINE int tile_tokens(const int R) {
    return R == 4 ? TOKENS_4 : R == 3 ? 4 : R == 2 ? TOKENS_2 : 8;
}

INLINE int tile_pairs(const int R) {
    return R == 4 ? PAIRS_4 : R == 3 ? PAIRS_4 : R == 2 ? 2 * PAIRS_4 : 4;
}

/* Sums of the elements of R * T vectors to s[r][t]. */
INLINE void store_sums(const int R, const int T, const vf *acc, float *s) {
    if (T == 2) {
#pragma GCC unroll 2
        for (int r = 0; r < R; r += 2) {
            const v4 x = sum4(acc[2 * r], acc[2 * r + 1], acc[2 * r + 2], acc[2 * r + 3]);
            memcpy(s + r * SCORES, &x, 8);
            memcpy(s + (r + 1) * SCORES, (const char *)&x + 8, 8);
        }
        return;
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int t = 0; t < T; t += 4) {
            const vf *a = acc + r * T + t;
            const v4 x = sum4(a[0], a[1], a[2], a[3]);
            memcpy(s + r * SCORES + t, &x, sizeof x);
        }
}

/* s[r][t] = q[r] k[t] for R rows and T tokens; meanwhile the same bytes of `ahead` are fetched. */
INLINE void score_tile(const int type, const int R, const int T, const struct cpu_block *b,
                       const float *q, const char *const *k, const char *const *ahead, float *s) {
    const int size = type_bytes(type);
    const char *row[8], *next[8];
    vf acc[4 * 8];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
        row[t] = k[t];
        next[t] = ahead[t];
    }
#pragma GCC unroll 32
    for (int i = 0; i < R * T; i++)
        acc[i] = (vf){0};
    int d = 0;
    for (; d + PAIR <= b->head_dim; d += PAIR) {
        if ((d * size) % 64 == 0)
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                prefetch(next[t] + d * size);
        if (R == 4) {
            /* K in registers, each vector of q is loaded once for all tokens. */
            struct pair x[4];
#pragma GCC unroll 4
            for (int t = 0; t < T; t++)
                x[t] = load_pair(type, row[t] + d * size);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) {
                vf qa = load_f(q + r * b->q_stride + d);
                KEEP(qa);
#pragma GCC unroll 4
                for (int t = 0; t < T; t++)
                    acc[r * T + t] += qa * x[t].a;
                vf qb = load_f(q + r * b->q_stride + d + V);
                KEEP(qb);
#pragma GCC unroll 4
                for (int t = 0; t < T; t++)
                    acc[r * T + t] += qb * x[t].b;
            }
        } else {
#pragma GCC unroll 8
            for (int t = 0; t < T; t++) {
                const struct pair x = load_pair(type, row[t] + d * size);
#pragma GCC unroll 4
                for (int r = 0; r < R; r++) {
                    acc[r * T + t] += load_f(q + r * b->q_stride + d) * x.a;
                    acc[r * T + t] += load_f(q + r * b->q_stride + d + V) * x.b;
                }
            }
        }
    }
    if (d < b->head_dim)
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            const struct pair x = load_rest(type, row[t] + d * size, b->head_dim - d, 0);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++)
                acc[r * T + t] += load_f(q + r * b->q_stride + d) * x.a +
                                  load_f(q + r * b->q_stride + d + V) * x.b;
        }
    store_sums(R, T, acc, s);
}

/* Only the first tile of a block fetches V; for the others K stands in, which is there already. One
 * body for both halves the code. */
INLINE void score_rows(const int type, const int R, const struct cpu_block *b, int row, float *s) {
    const float *q = b->q + (int64_t)row * b->q_stride;
    const char *const *ahead = row ? b->k : b->v;
    const int T = tile_tokens(R);
    for (int t = 0; t < b->tokens; t += T)
        score_tile(type, R, T, b, q, b->k + t, ahead + t, s + t);
}

INLINE void scores(const int type, const struct cpu_block *b, int first, int rows, float *s) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        score_rows(type, 4, b, first + r, s + r * SCORES);
    s += r * SCORES;
    switch (rows - r) {
    case 3:
        score_rows(type, 3, b, first + r, s);
        break;
    case 2:
        score_rows(type, 2, b, first + r, s);
        break;
    case 1:
        score_rows(type, 1, b, first + r, s);
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

/* Lines of the next block's rows that are fetched while V is multiplied, row after row. */
struct ahead {
    const char *const *rows;
    int offset, bytes, lines; /* lines left */
};

INLINE void ahead_fetch(struct ahead *a, const int lines) {
#pragma GCC unroll 8
    for (int i = 0; i < lines; i++) {
        prefetch(*a->rows + a->offset);
        a->offset += 64;
        const bool is_done = a->offset >= a->bytes;
        a->rows += is_done;
        a->offset = is_done ? 0 : a->offset;
    }
}

/* One token for R rows and C pairs of columns. */
INLINE void value_step(const int type, const int R, const int C, vf *a, const char *v,
                       const float *w, int elements) {
    const int size = type_bytes(type);
    vf weight[4];
    if (C > 1)
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
            weight[r] = splat(w[r * SCORES]);
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) {
        const struct pair x = C == 1 && elements < PAIR ? load_rest(type, v, elements, 0)
                                                        : load_pair(type, v + c * PAIR * size);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const vf p = C > 1 ? weight[r] : splat(w[r * SCORES]);
            a[(r * C + c) * 2] += p * x.a;
            a[(r * C + c) * 2 + 1] += p * x.b;
        }
    }
}

/* acc[r] = acc[r] * shrink[r] + sum over tokens of w[r][t] v[t], for R rows and C pairs from
 * column d on. The share of the next rows that belongs to so many columns is fetched, if so much is
 * left. `elements` is less than a pair only at the end of an odd row, and only with C = 1. */
INLINE void value_tile(const int type, const int R, const int C, const struct cpu_block *b,
                       float *acc, int d, const float *w, const float *shrink, int elements,
                       struct ahead *ahead) {
    const int size = type_bytes(type), lines_of_4 = C * PAIR * size / 16;
    const char *const *const v = b->v;
    const int tokens = b->tokens;
    const int lines = tokens / 4 * lines_of_4;
    const bool fetch = ahead->lines >= lines;
    struct ahead next = *ahead;
    vf a[4 * 4 * 2];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int c = 0; c < 2 * C; c++)
            a[r * 2 * C + c] = load_f(acc + r * b->acc_stride + d + c * V) * shrink[r];
    int t = 0;
    for (; t + 4 <= tokens; t += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            value_step(type, R, C, a, v[t + i] + d * size, w + t + i, elements);
            if (fetch)
                ahead_fetch(&next, lines_of_4 * (i + 1) / 4 - lines_of_4 * i / 4);
        }
    for (; t < tokens; t++)
        value_step(type, R, C, a, v[t] + d * size, w + t, elements);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int c = 0; c < 2 * C; c++)
            store_f(acc + r * b->acc_stride + d + c * V, a[r * 2 * C + c]);
    if (fetch) {
        next.lines -= lines;
        *ahead = next;
    }
}

INLINE void value_rows(const int type, const int R, const struct cpu_block *b, int row,
                       const float *w, const float *shrink) {
    const int C = tile_pairs(R), row_bytes = b->head_dim * type_bytes(type);
    float *acc = b->acc + (int64_t)row * b->acc_stride;
    struct ahead ahead = {b->next_k, 0, row_bytes,
                          row ? 0 : b->next_tokens * ((row_bytes + 63) / 64)};
    int d = 0;
    for (; C > 1 && d + C * PAIR <= b->head_dim_v; d += C * PAIR)
        value_tile(type, R, C, b, acc, d, w, shrink, PAIR, &ahead);
    for (; d < b->head_dim_v; d += PAIR) {
        const int left = b->head_dim_v - d;
        value_tile(type, R, 1, b, acc, d, w, shrink, left < PAIR ? left : PAIR, &ahead);
    }
    for (; ahead.lines > 0; ahead.lines--)
        ahead_fetch(&ahead, 1);
}

INLINE void values(const int type, const struct cpu_block *b, int first, int rows, const float *w,
                   const float *shrink) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        value_rows(type, 4, b, first + r, w + r * SCORES, shrink + r);
    w += r * SCORES;
    shrink += r;
    switch (rows - r) {
    case 3:
        value_rows(type, 3, b, first + r, w, shrink);
        break;
    case 2:
        value_rows(type, 2, b, first + r, w, shrink);
        break;
    case 1:
        value_rows(type, 1, b, first + r, w, shrink);
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
