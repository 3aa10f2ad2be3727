/* SPDX-License-Identifier: Apache-2.0
 * The kernel for AVX512_BF16 and bf16 caches: dot products of pairs, vdpbf16ps.
 *
 * Scores: a tile's queries stay in registers, up to 128 columns at a time, and every line of K is
 * loaded once for all its rows. A 64-byte memory operand in the dot product would be free in the
 * first cache, but starves the fills when K comes from memory (docs/benchmarks.md, section CPU).
 * Values: two tokens' lines are interleaved, which makes pairs along the tokens, and multiplied by
 * pairs of weights rounded to bf16; their sum and the lse keep the float32 weights.
 * Up to two query rows, and where float32 weights are asked for, values are those of AVX-512. */
#include "avx512.inc.c"
#include "decode.inc.c"

enum { LINE = 32, CHUNK_LINES = 4, WEIGHTS = CPU_BLOCK + CPU_PAD };

typedef __m512i line;

/* Lanes of the first `elements` of a line; all of them from 32 on. */
INLINE __mmask32 mask_of(int elements) {
    return elements >= LINE ? (__mmask32)-1 : ((__mmask32)1 << elements) - 1;
}

/* The last line of a tile is always loaded under its mask: that costs nothing and saves a copy of
 * the code. */
INLINE line load_line(const char *p, const bool is_last, __mmask32 mask) {
    return is_last ? _mm512_maskz_loadu_epi16(mask, p) : _mm512_loadu_si512(p);
}

INLINE vf dot_add(vf sum, line a, line b) {
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* --- Queries --- */

/* Is every element of the row a bf16 number? */
static bool fits(const void *row, enum gqa_type type, int head_dim) {
    if (type == GQA_BF16)
        return true;
    if (type == GQA_F16) /* 11 bits of precision, 8 fit: the lowest 3 must be clear */
        return false;
    uint32_t low = 0;
    for (int d = 0; d < head_dim; d++) {
        uint32_t bits;
        memcpy(&bits, (const char *)row + 4 * d, sizeof bits);
        low |= bits;
    }
    return !(low & 0xffff);
}

/* bf16 in natural order, zeros up to a whole line. */
static void prepare(float *q, const void *row, enum gqa_type type, int head_dim) {
    char *const to = (char *)q;
    memset(to + head_dim / LINE * LINE * 2, 0, 2 * LINE);
    if (type == GQA_BF16) {
        memcpy(to, row, (size_t)head_dim * 2);
        return;
    }
    for (int d = 0; d < head_dim; d++)
        memcpy(to + 2 * d, (const char *)row + 4 * d + 2, 2);
}

/* --- Scores --- */

INLINE int dot_tokens(const int R) {
    return R == 4 ? 2 : R == 1 ? 8 : 4;
}

/* Columns [d, d + 32 L) of R rows against all tokens; the last line may be cut short. From the
 * second chunk of columns on the scores of earlier ones are there already. */
INLINE void dot_columns(const int R, const int L, const struct cpu_block *b, int row, int d,
                        float *s) {
    const char *const *const ahead = row ? b->k : b->v;
    const int T = dot_tokens(R);
    const __mmask32 mask = mask_of(b->head_dim - d - (L - 1) * LINE);
    line q[4 * CHUNK_LINES];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int l = 0; l < L; l++)
            q[r * L + l] = _mm512_loadu_si512(
                (const char *)(b->q + (int64_t)(row + r) * b->q_stride) + (d + l * LINE) * 2);
    for (int t = 0; t < b->tokens; t += T) {
        vf acc[4 * 8];
#pragma GCC unroll 8
        for (int i = 0; i < T; i++) {
            const char *const k = b->k[t + i] + 2 * d;
            const char *const next = ahead[t + i] + 2 * d;
#pragma GCC unroll 4
            for (int r = 0; r < R; r++)
                acc[r * T + i] = (vf){0};
#pragma GCC unroll 4
            for (int l = 0; l < L; l++) {
                const line x = load_line(k + l * 64, l == L - 1, mask);
                prefetch(next + l * 64);
#pragma GCC unroll 4
                for (int r = 0; r < R; r++)
                    acc[r * T + i] = dot_add(acc[r * T + i], q[r * L + l], x);
            }
        }
        if (!d) {
            store_sums(R, T, acc, s + t);
            continue;
        }
        float more[4 * SCORES];
        store_sums(R, T, acc, more);
        for (int r = 0; r < R; r++)
            for (int i = 0; i < T; i++)
                s[r * SCORES + t + i] += more[r * SCORES + i];
    }
}

INLINE void dot_rows(const int R, const struct cpu_block *b, int row, float *s) {
    for (int d = 0; d < b->head_dim; d += CHUNK_LINES * LINE)
        switch ((b->head_dim - d + LINE - 1) / LINE) {
        case 1:
            dot_columns(R, 1, b, row, d, s);
            break;
        case 2:
            dot_columns(R, 2, b, row, d, s);
            break;
        case 3:
            dot_columns(R, 3, b, row, d, s);
            break;
        default:
            dot_columns(R, 4, b, row, d, s);
            break;
        }
}

static void dot_rows_4(const struct cpu_block *b, int row, float *s) {
    dot_rows(4, b, row, s);
}

static void dot_rows_3(const struct cpu_block *b, int row, float *s) {
    dot_rows(3, b, row, s);
}

static void dot_rows_2(const struct cpu_block *b, int row, float *s) {
    dot_rows(2, b, row, s);
}

static void dot_rows_1(const struct cpu_block *b, int row, float *s) {
    dot_rows(1, b, row, s);
}

static void dot_scores(const struct cpu_block *b, int first, int rows, float *s) {
    static void (*const rest[])(const struct cpu_block *, int, float *) = {NULL, dot_rows_1,
                                                                           dot_rows_2, dot_rows_3};
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        dot_rows_4(b, first + r, s + r * SCORES);
    if (r < rows)
        rest[rows - r](b, first + r, s + r * SCORES);
}

/* --- Weights and values --- */

/* Weights of one row to bf16; softmax_row has left zeros up to a whole vector. The sum stays that
 * of the float32 weights, so that the lse is exact. */
static void round_weights(const float *w, int tokens, uint16_t *to) {
    for (int t = 0; t < tokens; t += V)
        _mm256_storeu_si256((__m256i *)(to + t),
                            (__m256i)_mm512_cvtneps_pbh((__m512)load_f(w + t)));
}

/* acc[r] = acc[r] * shrink[r] + weights v for R rows and L lines of columns, two tokens a step. */
INLINE void pair_tile(const int R, const int L, const struct cpu_block *b, float *acc, int d,
                      const uint16_t *w, const float *shrink, struct ahead *ahead) {
    const __mmask32 mask = mask_of(b->head_dim_v - d - (L - 1) * LINE);
    const int lines = (b->tokens + 1) / 2 * 2 * L;
    const bool fetch = ahead->lines >= lines;
    struct ahead next = *ahead;
    vf a[8 * 4];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 2 * L; i++)
            a[r * 2 * L + i] = load_f(acc + r * b->acc_stride + d + i * V) * shrink[r];
    for (int t = 0; t < b->tokens; t += 2) {
        const char *const v0 = b->v[t] + 2 * d, *const v1 = b->v[t + 1] + 2 * d;
        line low[2], high[2];
#pragma GCC unroll 2
        for (int l = 0; l < L; l++) {
            const line x = load_line(v0 + l * 64, l == L - 1, mask);
            const line y = load_line(v1 + l * 64, l == L - 1, mask);
            low[l] = _mm512_unpacklo_epi16(x, y);
            high[l] = _mm512_unpackhi_epi16(x, y);
        }
        if (fetch)
            ahead_fetch(&next, 2 * L);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            int32_t two;
            memcpy(&two, w + r * WEIGHTS + t, sizeof two);
            const line weight = _mm512_set1_epi32(two);
#pragma GCC unroll 2
            for (int l = 0; l < L; l++) {
                a[(r * L + l) * 2] = dot_add(a[(r * L + l) * 2], weight, low[l]);
                a[(r * L + l) * 2 + 1] = dot_add(a[(r * L + l) * 2 + 1], weight, high[l]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 2 * L; i++)
            store_f(acc + r * b->acc_stride + d + i * V, a[r * 2 * L + i]);
    if (fetch) {
        next.lines -= lines;
        *ahead = next;
    }
}

INLINE void pair_rows(const int R, const int L, const struct cpu_block *b, int row,
                      const uint16_t *w, const float *shrink) {
    float *const acc = b->acc + (int64_t)row * b->acc_stride;
    const int row_lines = (b->head_dim * 2 + 63) / 64;
    struct ahead ahead = {b->next_k, 0, b->head_dim * 2, row ? 0 : b->next_tokens * row_lines};
    int d = 0;
    for (; d + L * LINE <= b->head_dim_v || (L == 1 && d < b->head_dim_v); d += L * LINE)
        pair_tile(R, L, b, acc, d, w, shrink, &ahead);
    if (L > 1)
        for (; d < b->head_dim_v; d += LINE)
            pair_tile(R, 1, b, acc, d, w, shrink, &ahead);
    for (; ahead.lines > 0; ahead.lines--)
        ahead_fetch(&ahead, 1);
}

static void pair_values(const struct cpu_block *b, int first, int rows, const uint16_t *w,
                        const float *shrink) {
    int r = 0;
    for (; r + 8 <= rows; r += 8)
        pair_rows(8, 1, b, first + r, w + r * WEIGHTS, shrink + r);
    for (; r + 4 <= rows; r += 4)
        pair_rows(4, 2, b, first + r, w + r * WEIGHTS, shrink + r);
    for (; r + 2 <= rows; r += 2)
        pair_rows(2, 2, b, first + r, w + r * WEIGHTS, shrink + r);
    if (r < rows)
        pair_rows(1, 2, b, first + r, w + r * WEIGHTS, shrink + r);
}

/* --- Blocks --- */

INLINE void dot_block(const bool is_exact, const struct cpu_block *b) {
    float s[TILE_ROWS * SCORES] __attribute__((aligned(64)));
    uint16_t w[TILE_ROWS * WEIGHTS] __attribute__((aligned(64)));
    float shrink[TILE_ROWS];
    for (int first = 0; first < b->rows; first += TILE_ROWS) {
        const int rows = b->rows - first < TILE_ROWS ? b->rows - first : TILE_ROWS;
        dot_scores(b, first, rows, s);
        for (int r = 0; r < rows; r++)
            shrink[r] = softmax_row(b, first + r, s + r * SCORES);
        if (is_exact || b->rows <= 2) {
            values(GQA_BF16, b, first, rows, s, shrink);
            continue;
        }
        for (int r = 0; r < rows; r++)
            round_weights(s + r * SCORES, b->tokens, w + r * WEIGHTS);
        pair_values(b, first, rows, w, shrink);
    }
}

static void block_fast(const struct cpu_block *b) {
    dot_block(false, b);
}

static void block_exact(const struct cpu_block *b) {
    dot_block(true, b);
}

static void unpack(float *o, const float *acc, float factor, int head_dim_v) {
    unpack_row(GQA_BF16, o, acc, factor, head_dim_v);
}

const struct cpu_ops cpu_ops_avx512bf16[] = {
    [GQA_PRECISION_FAST] = {.gain = 1,
                            .fits = fits,
                            .wide = &cpu_ops_avx512[GQA_BF16],
                            .prepare = prepare,
                            .block = block_fast,
                            .unpack = unpack},
    [GQA_PRECISION_EXACT] = {.gain = 1,
                             .fits = fits,
                             .wide = &cpu_ops_avx512[GQA_BF16],
                             .prepare = prepare,
                             .block = block_exact,
                             .unpack = unpack},
};
