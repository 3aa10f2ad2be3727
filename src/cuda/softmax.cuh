/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of one warp on 16 tokens: scores, online softmax, weighted sum of V. Shared by
 * every kernel that computes with mma.sync; only where K and V come from differs.
 *
 * One warp holds a whole row tile (ROWS = 8, 16 or 32 query rows) and takes 16 tokens at a time.
 * The includer says GQA_TOKEN_STRIDE, GQA_K_BLOCK, GQA_V_DIM, GQA_Q_REGISTERS
 * and GQA_ACC_CHAINS.
 * With g = lane / 4, t = lane % 4:
 *
 *   S[row][token] = Q K^T    A = Q, B = K   C fragment: row g (+8), tokens 2t, 2t+1 of two n-tiles
 *   O^T[d][row]  += V^T P^T  A = V^T, B = P: P's B fragment *is* S's C fragment: no transpose
 *
 * Neither product needs its contraction index in memory order, as long as both sides agree, so a
 * lane loads 16 contiguous bytes of K and calls them its k indices {2t, 2t+1, 2t+8, 2t+9} of
 * consecutive MMAs; and 16 contiguous bytes of each of its four V rows, whose elements it pairs by
 * token with byte permutes. No shared memory is needed between memory and tensor core. Nor need
 * tokens be in order: lane t has the step's tokens t TOKEN_STRIDE + j, j = 0 .. 3, in both
 * products.
 *
 * Folding. With 8 query rows half of A's 16 rows would be padding; they hold other columns of the
 * same heads instead. B's columns 2r and 2r + 1 are one token, r = lane / 8, in those two sets of
 * columns, so that eight lanes load 128 neighbouring bytes of one row of K (no bank conflicts,
 * whole sectors); C[g][2t] + C[g + 8][2t + 1] is the score. As many MMAs, in chains half as long.
 *
 * Scores are in log2 units with the scale folded in. The running max is raised only when a score
 * exceeds it by far (MAX_SLACK), so that accumulators are rarely rescaled. */
#ifndef GQA_SOFTMAX_CUH
#define GQA_SOFTMAX_CUH

#include "args.h"
#include "ptx.cuh"
#include "schedule.cuh"

enum {
    HEAD_DIM = GQA_HEAD_DIM,
    ROWS = GQA_GROUP,
    BLOCKS = ROWS / 8,          /* blocks of 8 rows */
    M_TILES = (ROWS + 15) / 16, /* blocks of 16 rows: QK's m */
    KV_TYPE = GQA_KV,           /* GQA_ARG_BF16, ... */
    KV_IS_FP8 = KV_TYPE == GQA_ARG_E4M3 || KV_TYPE == GQA_ARG_E5M2,
    KV_BYTES = KV_IS_FP8 ? 1 : 2,
    COMPUTE_BF16 = KV_TYPE == GQA_ARG_BF16, /* else f16: every fp8 value is an f16 */
    /* K is scored in blocks of columns; V_DIM columns of V are a warp's to weight: accumulators
     * bound what it can hold. */
    SLICES = HEAD_DIM > GQA_K_BLOCK ? HEAD_DIM / GQA_K_BLOCK : 1,
    SLICE_DIM = HEAD_DIM / SLICES,
    V_DIM = GQA_V_DIM,
    FOLDED = ROWS == 8,
    K_LANES = FOLDED ? 8 : 4, /* share a row of K */
    K_TILES = FOLDED ? 4 : 2, /* n-tiles of 16 tokens */
    K_CHUNK = SLICE_DIM / K_LANES < 16 / KV_BYTES ? SLICE_DIM / K_LANES : 16 / KV_BYTES,
    K_LOADS = SLICE_DIM / (K_LANES * K_CHUNK), /* of a lane, per row and block */
    K_STEPS = SLICE_DIM / (4 * K_LANES),       /* MMAs per n-tile and block */
    V_CHUNK = V_DIM / 8 < 16 / KV_BYTES ? V_DIM / 8 : 16 / KV_BYTES,
    V_LOADS = V_DIM / 8 / V_CHUNK, /* per row */
    D_TILES = V_DIM / 16,
    /* A warp that scores in several blocks needs the whole head's Q at once. */
    Q_IN_SMEM = SLICES > 1 || M_TILES *K_STEPS * 4 > GQA_Q_REGISTERS,
    ACC_CHAINS = GQA_ACC_CHAINS, /* of MMAs: steps take turns */
    HAS_FP8_CVT = GQA_ARCH >= 90,
    STEP = 16, /* tokens */
};

static_assert(HEAD_DIM % 64 == 0 && ROWS % 8 == 0, "fragments cover whole quads");
static_assert(STEP == GQA_GRAIN, "a part is whole steps, its ends apart");

#define NEG_LARGE (-1e30f)
#define LOG2E     1.4426950408889634f
#define LN2       0.6931471805599453f

/* The running "max" is kept MAX_BELOW under the largest score seen, and raised when a score is
 * MAX_SLACK above it: weights lie around 2^7 in f16, which keeps those of 2^-21 from being
 * subnormal, and end at 2^15; in bf16 they start at 1. */
#define MAX_BELOW (COMPUTE_BF16 ? 0.0f : 7.0f)
#define MAX_SLACK (COMPUTE_BF16 ? 8.0f : 15.0f)

struct k_frag {
    struct u32x4 w[K_TILES][K_LOADS]; /* n-tile, one block */
};

struct v_frag {
    struct u32x4 w[4][V_LOADS]; /* token j of this lane */
};

/* Scores of this lane: row 8 i + g, token j; then weights. */
struct scores {
    float s[BLOCKS][4];
};

/* Of one block. Where there are several they wait in shared memory, in fragment order. */
struct q_frag {
    uint32_t a[M_TILES][K_STEPS][4];
};

struct q_smem {
    alignas(16) uint32_t a[SLICES][M_TILES][K_STEPS][32][4];
};

struct softmax {
    float max[BLOCKS], sum[BLOCKS];            /* of row 8 i + g; sums of this lane's tokens only */
    float acc[ACC_CHAINS][BLOCKS][D_TILES][4]; /* a step adds to one chain, see chains_join */
};

/* Which tokens this lane's rows see: [begin, end) per row; [full_begin, full_end) by all rows. */
struct visible {
    int begin[BLOCKS], end[BLOCKS];
    int full_begin, full_end;
};

struct score_scale {
    float to_log2; /* score -> log2 units, or to the softcap's argument */
    float cap;     /* softcap in log2 units, 0: off */
};

/* What the portable unpacking of e4m3 leaves out of each value: folded into scales. */
#define FP8_FACTOR (KV_TYPE == GQA_ARG_E4M3 && !HAS_FP8_CVT ? 256.0f : 1.0f)

/* --- FP8 to f16 pairs --- */

/* Bytes 0 and 1 of w -> the two halves. */
DEV uint32_t fp8x2_to_f16x2(uint32_t w) {
#if GQA_ARCH >= 90
    return KV_TYPE == GQA_ARG_E4M3 ? cvt_rn_f16x2_e4m3x2(w) : cvt_rn_f16x2_e5m2x2(w);
#else
    const uint32_t high = prmt(w, 0, 0x1404);
    if (KV_TYPE == GQA_ARG_E5M2)
        return high;
    const uint32_t mag = high & 0x7f007f00u;
    const uint32_t nan = (mag + 0x01000100u) & 0x80008000u;
    return (high & 0x80008000u) | mag >> 1 | (nan - (nan >> 5));
#endif
}

DEV uint32_t fp8x2_high_to_f16x2(uint32_t w) {
    return fp8x2_to_f16x2(w >> 16);
}

/* --- Q --- */

DEV float float_of(int type, uint16_t bits) {
    return type == GQA_ARG_BF16 ? __uint_as_float((uint32_t)bits << 16) : cvt_f32_f16(bits);
}

DEV uint32_t pack(float low, float high) {
    return COMPUTE_BF16 ? cvt_rn_bf16x2_f32(low, high) : cvt_rn_f16x2_f32(low, high);
}

/* Two elements of Q, of the other 16-bit type, as the MMA wants them. */
DEV uint32_t q_pair(int type, uint32_t raw) {
    return pack(float_of(type, (uint16_t)raw), float_of(type, (uint16_t)(raw >> 16)));
}

/* Token j of lane t within a step. */
DEV int step_token(int j, int t) {
    return t * GQA_TOKEN_STRIDE + j;
}

/* The same for column g of n-tile n of K. */
DEV int k_token(int n, int lane) {
    return step_token(FOLDED ? n : 2 * n + lane / 4 % 2, lane / 8);
}

/* First element of a lane's load `load` of a row of K, within the block. */
DEV int k_column(int load, int lane) {
    return (K_LANES * load + lane % K_LANES) * K_CHUNK;
}

/* k index -> element of the head: MMA `step` of lane t takes 4 elements from here; `half`: 8 .. 15
 * of A's rows, if folded. */
DEV int k_element(int step, int t, int half) {
    const int load = step / (K_CHUNK / 4);
    return k_column(load, FOLDED ? 4 * half + t : t) + step % (K_CHUNK / 4) * 4;
}

/* 16 bytes of a row of Q, zeros beyond `end` (a multiple of 8 elements) and without a row. */
DEV uint4 q_chunk(const uint16_t *row, int d, int end, bool vectors) {
    uint4 x = make_uint4(0, 0, 0, 0);
    if (!row || d >= end)
        return x;
    if (vectors)
        return *(const uint4 *)(row + d);
    const uint2 low = *(const uint2 *)(row + d), high = *(const uint2 *)(row + d + 4);
    x = make_uint4(low.x, low.y, high.x, high.y);
    return x;
}

/* 8-row block i of A for this lane, one block of K's columns; zeros where there is no row or no
 * column. `raw`: the type needs no conversion, which keeps the common path short. */
DEV void q_load_rows(const struct gqa_args *a, const uint16_t *row, int i, int block, bool raw,
                     struct q_frag *q, int lane) {
#pragma unroll
    for (int s = 0; s < K_STEPS; s += 2) {
        const int d = block * SLICE_DIM + k_element(s, lane % 4, i);
        const uint4 x = q_chunk(row, d, a->head_dim, a->q_vectors);
        q->a[i / 2][s][i % 2] = raw ? x.x : q_pair(a->q_type, x.x);
        q->a[i / 2][s][i % 2 + 2] = raw ? x.y : q_pair(a->q_type, x.y);
        q->a[i / 2][s + 1][i % 2] = raw ? x.z : q_pair(a->q_type, x.z);
        q->a[i / 2][s + 1][i % 2 + 2] = raw ? x.w : q_pair(a->q_type, x.w);
    }
}

/* Addresses of this lane's rows of Q, NULL where there is none: pure arithmetic, to be done while
 * earlier kernels still run. */
struct q_rows {
    const uint16_t *row[2 * M_TILES];
};

DEV struct q_rows q_rows_of(const struct gqa_args *a, const struct unit *u, int lane) {
    const int rows = unit_rows(a, u);
    struct q_rows x;
#pragma unroll
    for (int i = 0; i < 2 * M_TILES; i++) {
        const int r = u->row_tile * ROWS + (FOLDED ? 0 : 8 * i) + lane / 4;
        x.row[i] = r < rows ? (const uint16_t *)a->q + row_offset(a, u, &a->q_stride, r) : NULL;
    }
    return x;
}

/* A wide load fills neighbouring registers, but an MMA wants the words of several loads side by
 * side; moved where they are used they cost an instruction each per tile. Adding a zero that the
 * compiler does not know moves them once. */
DEV void q_settle(const struct gqa_args *a, struct q_frag *q) {
    const uint32_t zero = (uint32_t)a->kv_heads >> 31;
#pragma unroll
    for (int i = 0; i < M_TILES * K_STEPS * 4; i++)
        q->a[i / (4 * K_STEPS)][i / 4 % K_STEPS][i % 4] ^= zero;
}

DEV struct q_frag q_load(const struct gqa_args *a, const struct q_rows *rows, int block, int lane) {
    const bool raw = a->q_type == (COMPUTE_BF16 ? GQA_ARG_BF16 : GQA_ARG_F16);
    struct q_frag q;
#pragma unroll
    for (int i = 0; i < 2 * M_TILES; i++) {
        if (raw)
            q_load_rows(a, rows->row[i], i, block, true, &q, lane);
        else
            q_load_rows(a, rows->row[i], i, block, false, &q, lane);
    }
    q_settle(a, &q);
    return q;
}

DEV void q_fetch(const struct q_smem *smem, int block, struct q_frag *q, int lane) {
#pragma unroll
    for (int i = 0; i < M_TILES * K_STEPS; i++) {
        const struct u32x4 x =
            ld_shared_v4(smem_addr(smem->a[block][i / K_STEPS][i % K_STEPS][lane]));
#pragma unroll
        for (int j = 0; j < 4; j++)
            q->a[i / K_STEPS][i % K_STEPS][j] = x.w[j];
    }
}

/* Two steps of an m-tile's fragments, of 8-row blocks i and i + 1, to shared memory. */
DEV void q_store(struct q_smem *smem, int slice, int m, int step, const uint32_t a[2][4],
                 int lane) {
#pragma unroll
    for (int s = 0; s < 2; s++)
        *(uint4 *)smem->a[slice][m][step + s][lane] =
            make_uint4(a[0][2 * s], a[1][2 * s], a[0][2 * s + 1], a[1][2 * s + 1]);
}

/* Q of this unit to shared memory, which nobody may still be reading; all warps share the work.
 * Heads that are not as wide as the kernel's end in zeros. */
DEV void q_prepare(const struct gqa_args *a, const struct q_rows *rows, struct q_smem *smem,
                   int warp, int warps, int lane) {
    enum { PAIRS = K_STEPS / 2 };
    const bool raw = a->q_type == (COMPUTE_BF16 ? GQA_ARG_BF16 : GQA_ARG_F16);
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll 1
        for (int j = warp; j < SLICES * PAIRS; j += warps) {
            const int slice = j / PAIRS, step = j % PAIRS * 2;
            uint32_t w[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int d = slice * SLICE_DIM + k_element(step, lane % 4, i);
                const uint4 x = q_chunk(rows->row[2 * m + i], d, a->head_dim, a->q_vectors);
                w[i][0] = raw ? x.x : q_pair(a->q_type, x.x);
                w[i][1] = raw ? x.y : q_pair(a->q_type, x.y);
                w[i][2] = raw ? x.z : q_pair(a->q_type, x.z);
                w[i][3] = raw ? x.w : q_pair(a->q_type, x.w);
            }
            q_store(smem, slice, m, step, w, lane);
        }
}

/* --- Scores --- */

DEV void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    if (COMPUTE_BF16)
        mma_m16n8k16_bf16(d, a, b0, b1);
    else
        mma_m16n8k16_f16(d, a, b0, b1);
}

/* K's B fragment of MMA `step`, n-tile n. */
DEV void k_operand(const struct k_frag *k, int n, int step, uint32_t b[2]) {
    const struct u32x4 *w = &k->w[n][step / (K_CHUNK / 4)];
    const int i = step % (K_CHUNK / 4);
    if (KV_IS_FP8) {
        b[0] = fp8x2_to_f16x2(w->w[i]);
        b[1] = fp8x2_high_to_f16x2(w->w[i]);
    } else {
        b[0] = w->w[2 * i % 4];
        b[1] = w->w[(2 * i + 1) % 4];
    }
}

/* What the MMAs of one step accumulate: C fragments of Q K^T. Two chains of MMAs wait half as long
 * for each other; where there are four without that, one each is enough. */
enum { CHAINS = FOLDED || M_TILES > 1 ? 1 : 2 };

struct products {
    float c[CHAINS][M_TILES][K_TILES][4];
};

DEV void products_init(struct products *x) {
    float *c = &x->c[0][0][0][0];
#pragma unroll
    for (int i = 0; i < CHAINS * M_TILES * K_TILES * 4; i++)
        c[i] = 0;
}

/* += the part of Q K^T that MMA `step` of n-tile m makes. */
DEV void multiply(struct products *x, const uint32_t a[4], const struct k_frag *k, int m,
                  int step) {
#pragma unroll
    for (int n = 0; n < K_TILES; n++) {
        uint32_t b[2];
        k_operand(k, n, step, b);
        mma(x->c[step % CHAINS][m][n], a, b[0], b[1]);
    }
}

/* Products += one block's. */
DEV void score(const struct q_frag *q, const struct k_frag *k, struct products *x) {
#pragma unroll
    for (int i = 0; i < K_STEPS * M_TILES; i++)
        multiply(x, q->a[i % M_TILES][i / M_TILES], k, i % M_TILES, i / M_TILES);
}

/* The same with Q fetched from shared memory where it is used. */
DEV void score_from_smem(const struct q_smem *smem, int block, const struct k_frag *k,
                         struct products *x, int lane) {
#pragma unroll
    for (int i = 0; i < K_STEPS * M_TILES; i++) {
        const int m = i % M_TILES, step = i / M_TILES;
        const struct u32x4 q = ld_shared_v4(smem_addr(smem->a[block][m][step][lane]));
        multiply(x, q.w, k, m, step);
    }
}

DEV float products_sum(const struct products *x, int m, int n, int i) {
    float sum = x->c[0][m][n][i];
#pragma unroll
    for (int chain = 1; chain < CHAINS; chain++)
        sum += x->c[chain][m][n][i];
    return sum;
}

DEV struct scores scores_of(const struct products *x) {
    struct scores y;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            y.s[i][j] = FOLDED ? products_sum(x, 0, j, 0) + products_sum(x, 0, j, 3)
                               : products_sum(x, i / 2, j / 2, 2 * (i % 2) + j % 2);
    return y;
}

/* --- Softmax --- */

DEV struct score_scale score_scale_of(const struct gqa_args *a, const struct unit *u) {
    float k_scale = FP8_FACTOR;
    if (a->k_scales == GQA_ARG_SCALE_TENSOR)
        k_scale *= a->k_scale[0];
    else if (a->k_scales == GQA_ARG_SCALE_HEAD)
        k_scale *= a->k_scale[u->kv_head];
    else if (a->k_scales == GQA_ARG_SCALE_BATCH_HEAD)
        k_scale *= a->k_scale[(int64_t)u->sequence * a->kv_heads + u->kv_head];
    struct score_scale x;
    x.cap = a->softcap * LOG2E;
    x.to_log2 =
        a->softcap > 0 ? a->scale * k_scale / a->softcap * (2 * LOG2E) : a->scale_log2 * k_scale;
    return x;
}

/* cap * tanh(y) where x = 2 log2(e) y: 1 - 2 / (1 + e^2y), exact at both ends. */
DEV float cap_score(float x, float cap) {
    return cap * (1.0f - 2.0f * rcp_approx_ftz(1.0f + ex2_approx_ftz(x)));
}

DEV void scale_scores(struct scores *y, const struct score_scale *x) {
#pragma unroll
    for (int i = 0; i < 4 * BLOCKS; i++)
        y->s[i / 4][i % 4] *= x->to_log2;
    if (x->cap > 0) {
#pragma unroll
        for (int i = 0; i < 4 * BLOCKS; i++)
            y->s[i / 4][i % 4] = cap_score(y->s[i / 4][i % 4], x->cap);
    }
}

DEV struct visible visible_of(const struct gqa_args *a, const struct unit *u, int lane) {
    struct visible v;
    const int rows = unit_rows(a, u);
    v.full_begin = 0;
    v.full_end = u->len;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const int r = min_int(u->row_tile * ROWS + 8 * i + lane / 4, rows - 1);
        v.begin[i] = visible_begin(a, u->len, u->queries, divide(r, a->by_group));
        v.end[i] = visible_end(a, u->len, u->queries, divide(r, a->by_group));
    }
    /* The tile's first row ends first, its last row begins last. */
    const int first = divide(min_int(u->row_tile * ROWS, rows - 1), a->by_group);
    const int last = divide(min_int(u->row_tile * ROWS + ROWS - 1, rows - 1), a->by_group);
    v.full_end = visible_end(a, u->len, u->queries, first);
    v.full_begin = visible_begin(a, u->len, u->queries, last);
    return v;
}

/* Replace the scores of tokens that a row does not see. `token` is the step's first, and [begin,
 * end) the part. */
DEV void mask_scores(struct scores *y, const struct visible *v, int token, int begin, int end,
                     int lane) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const int from = max_int(v->begin[i], begin), to = min_int(v->end[i], end);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int at = token + step_token(j, lane % 4);
            y->s[i][j] = at >= from && at < to ? y->s[i][j] : -INFINITY;
        }
    }
}

DEV void softmax_init(struct softmax *x) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        x->max[i] = NEG_LARGE;
        x->sum[i] = 0;
#pragma unroll
        for (int d = 0; d < 4 * D_TILES; d++) {
#pragma unroll
            for (int c = 0; c < ACC_CHAINS; c++)
                x->acc[c][i][d / 4][d % 4] = 0;
        }
    }
}

/* Raise the maxima to at least `top` and rescale. All 32 lanes. */
DEV void softmax_rescale(struct softmax *x, const float top[BLOCKS], int lane) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        const float max = fmaxf(x->max[i], top[i] - MAX_BELOW);
        const float factor = ex2_approx_ftz(x->max[i] - max);
        x->max[i] = max;
        x->sum[i] *= factor;
        const float even = __shfl_sync(0xffffffffu, factor, lane % 4 * 8);
        const float odd = __shfl_sync(0xffffffffu, factor, lane % 4 * 8 + 4);
#pragma unroll
        for (int d = 0; d < 4 * D_TILES; d++) {
#pragma unroll
            for (int c = 0; c < ACC_CHAINS; c++)
                x->acc[c][i][d / 4][d % 4] *= d % 2 ? odd : even;
        }
    }
}

/* Each row's largest score of `steps` steps, in all of its lanes. All 32 lanes. */
DEV void scores_top(const struct scores *y, int steps, float top[BLOCKS]) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        top[i] = NEG_LARGE;
#pragma unroll
        for (int j = 0; j < 4 * steps; j++)
            top[i] = fmaxf(top[i], y[j / 4].s[i][j % 4]);
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2));
    }
}

/* Does one of this lane's scores want the maxima raised? */
DEV bool scores_exceed(const struct softmax *x, const struct scores *y, int steps) {
    bool exceeds = false;
#pragma unroll
    for (int i = 0; i < 4 * steps * BLOCKS; i++)
        exceeds |=
            y[i / (4 * BLOCKS)].s[i / 4 % BLOCKS][i % 4] > x->max[i / 4 % BLOCKS] + MAX_SLACK;
    return exceeds;
}

/* The maxima of `steps` steps' scores join the running ones. All 32 lanes. */
DEV void softmax_raise(struct softmax *x, const struct scores *y, int steps, int lane) {
    float top[BLOCKS];
    bool raise = false;
    scores_top(y, steps, top);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        raise |= top[i] > x->max[i] + MAX_SLACK;
    if (__any_sync(0xffffffffu, raise))
        softmax_rescale(x, top, lane);
}

/* Scores of one step -> weights under the running maxima, packed as B fragments. */
DEV void softmax_weights(struct softmax *x, const struct scores *y, uint32_t p[BLOCKS][2]) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float p0 = ex2_approx_ftz(y->s[i][2 * n] - x->max[i]);
            const float p1 = ex2_approx_ftz(y->s[i][2 * n + 1] - x->max[i]);
            x->sum[i] += p0 + p1;
            p[i][n] = pack(p0, p1);
        }
}

/* --- Weighted sum of V --- */

/* First column of a lane's V chunk c within its slice. */
DEV int v_column(int c, int g) {
    return (8 * c + g) * V_CHUNK;
}

/* V^T's A fragment of d-tile `tile`: rows g and g + 8 are elements 2i and 2i + 1 of the lane. */
DEV void v_operand(const struct v_frag *v, int tile, uint32_t a[4]) {
    const int chunk = tile / (V_CHUNK / 2), i = tile % (V_CHUNK / 2);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const struct u32x4 *x = &v->w[2 * half][chunk], *y = &v->w[2 * half + 1][chunk];
        if (KV_IS_FP8) {
            const uint32_t pair = prmt(x->w[i / 2], y->w[i / 2], i % 2 ? 0x7362 : 0x5140);
            a[2 * half] = fp8x2_to_f16x2(pair);
            a[2 * half + 1] = fp8x2_high_to_f16x2(pair);
        } else {
            a[2 * half] = prmt(x->w[i % 4], y->w[i % 4], 0x5410);
            a[2 * half + 1] = prmt(x->w[i % 4], y->w[i % 4], 0x7632);
        }
    }
}

DEV void accumulate(struct softmax *x, const struct v_frag *v, const uint32_t p[BLOCKS][2],
                    int step) {
#pragma unroll
    for (int tile = 0; tile < D_TILES; tile++) {
        uint32_t a[4];
        v_operand(v, tile, a);
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
            mma(x->acc[step % ACC_CHAINS][i][tile], a, p[i][0], p[i][1]);
    }
}

/* Zero the V rows outside [begin, end): what lies there must not be multiplied, even by 0. */
DEV void zero_unseen(struct v_frag *v, int token, int begin, int end, int lane) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int at = token + step_token(j, lane % 4);
        if (at < begin || at >= end) {
#pragma unroll
            for (int c = 0; c < 4 * V_LOADS; c++)
                v->w[j][c / 4].w[c % 4] = 0;
        }
    }
}

/* --- Leaving registers --- */

/* After the last tokens: both chains in one. */
DEV void chains_join(struct softmax *x) {
#pragma unroll
    for (int i = 0; ACC_CHAINS == 2 && i < BLOCKS * D_TILES * 4; i++)
        x->acc[0][i / (4 * D_TILES)][i / 4 % D_TILES][i % 4] +=
            x->acc[ACC_CHAINS - 1][i / (4 * D_TILES)][i / 4 % D_TILES][i % 4];
}

/* First element of the head that accumulator tile `2 q` holds, for lanes of this g: tiles 2q and
 * 2q + 1 hold four neighbours. */
DEV int acc_element(int q, int g) {
    const int chunk = 2 * q / (V_CHUNK / 2), i = 2 * q % (V_CHUNK / 2);
    return v_column(chunk, g) + 2 * i;
}

#endif
