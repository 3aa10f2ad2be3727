/* matrix.c: see matrix.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "matrix.h"
#include <math.h>

#if defined __x86_64__
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

typedef float v8 __attribute__((vector_size(32)));
typedef float v8_memory __attribute__((vector_size(32), aligned(4), may_alias));

enum { ROWS = 8 };

/* Four rows by 16 columns or eight by 8 stay in registers over k; where the CPU has fma a step is
 * one fma, else a product, exact for normal numbers, and a sum. */
static inline __attribute__((always_inline)) void tile(const struct product *p,
                                                       const float *const a[ROWS],
                                                       f32_cell *const d[ROWS], int j, int height,
                                                       int wide) {
    v8 acc[ROWS][2] = {0};
    for (int r = 0; r < height; r++)
        for (int c = 0; c < wide; c++)
            if (p->accumulate)
                acc[r][c] = *(const v8_memory *)(d[r] + j + 8 * c);
    for (int k = 0; k < p->k; k++) {
        const float *b = p->b + (size_t)k * (size_t)p->b_row + j;
        for (int r = 0; r < height; r++) {
            const float x = a[r][k * p->a_col];
            for (int c = 0; c < wide; c++)
                acc[r][c] = x * *(const v8_memory *)(b + 8 * c) + acc[r][c];
        }
    }
    for (int r = 0; r < height; r++)
        for (int c = 0; c < wide; c++)
            *(v8_memory *)(d[r] + j + 8 * c) = acc[r][c];
}

static inline __attribute__((always_inline)) void
tiles(const struct product *p, const float *const a[ROWS], f32_cell *const d[ROWS]) {
    int j = 0;
    for (; j + 16 <= p->n; j += 16)
        for (int r = 0; r < ROWS; r += 4)
            tile(p, a + r, d + r, j, 4, 2);
    if (j < p->n)
        tile(p, a, d, j, 8, 1);
}

static void tiles_plain(const struct product *p, const float *const a[ROWS],
                        f32_cell *const d[ROWS]) {
    tiles(p, a, d);
}

typedef void (*tiles_fn)(const struct product *, const float *const[ROWS], f32_cell *const[ROWS]);

#if defined __x86_64__
__attribute__((target("avx2,fma"))) static void
tiles_fma(const struct product *p, const float *const a[ROWS], f32_cell *const d[ROWS]) {
    tiles(p, a, d);
}
static tiles_fn tiles_best(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? tiles_fma
                                                                           : tiles_plain;
}
#else
static tiles_fn tiles_best(void) {
    return tiles_plain;
}
#endif

static void product_fast(const struct product *p) {
    static _Thread_local f32_cell waste[256];
    const tiles_fn rows = tiles_best();
    for (int i = 0; i < p->m; i += ROWS) {
        const float *a[ROWS];
        f32_cell *d[ROWS];
        bool any = false;
        for (int r = 0; r < ROWS; r++) {
            const int row = i + r < p->m ? i + r : p->m - 1;
            a[r] = p->a + (size_t)row * (size_t)p->a_row;
            d[r] = i + r < p->m && p->d[row] ? p->d[row] : waste;
            any = any || d[r] != waste;
        }
        if (any)
            rows(p, a, d);
    }
}

/* --- Other models of accumulation --- */

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static float sum_in_order(const float *term, int n, float acc) {
    for (int k = 0; k < n; k++)
        acc += term[k];
    return acc;
}

/* Exponent field of x; 255: infinity or NaN. */
static int exponent(float x) {
    return (int)(num_bits32(x) >> 23 & 0xff);
}

/* Terms in units of 2^(top - keep), cut towards zero by the conversion to integers: exact sums. */
static float sum_aligned(const float *term, int n, float acc, int keep) {
    int top = exponent(acc);
    for (int k = 0; k < n; k++)
        top = exponent(term[k]) > top ? exponent(term[k]) : top;
    if (top == 255 || top == 0)
        return sum_in_order(term, n, acc);
    const double scale = num_double((uint64_t)(1023 + 127 - top + keep) << 52);
    int64_t sum = (int64_t)((double)acc * scale);
    for (int k = 0; k < n; k++)
        sum += (int64_t)((double)term[k] * scale);
    return num_float(num_from_f64(NUM_F32, (double)sum / scale, NUM_RZ, 0));
}

static void product_model(const struct product *p, const struct mma_model *model) {
    for (int i = 0; i < p->m; i++)
        for (int j = 0; p->d[i] && j < p->n; j++) {
            float term[256];
            for (int k = 0; k < p->k; k++)
                term[k] = p->a[(size_t)i * (size_t)p->a_row + (size_t)k * (size_t)p->a_col] *
                          p->b[(size_t)k * (size_t)p->b_row + (size_t)j];
            uint64_t state = mix(model->seed ^ (uint64_t)i << 32 ^ (uint64_t)j);
            for (int k = p->k - 1; model->seed && k > 0; k--) { /* Fisher-Yates */
                state = mix(state);
                const int o = (int)(state % (uint64_t)(k + 1));
                const float t = term[k];
                term[k] = term[o];
                term[o] = t;
            }
            const float acc = p->accumulate ? p->d[i][j] : 0;
            p->d[i][j] = model->keep_bits ? sum_aligned(term, p->k, acc, model->keep_bits)
                                          : sum_in_order(term, p->k, acc);
        }
}

void matrix_product(const struct product *p, const struct mma_model *model) {
    if (model && (model->seed || model->keep_bits))
        product_model(p, model);
    else
        product_fast(p);
}

/* --- Integers --- */

/* clang 14 gives clones a symbol of their own: only static functions are cloned. */
CLONES static void product_s32(const struct product_s32 *p) {
    for (int i = 0; i < p->m; i++) {
        if (!p->d[i])
            continue;
        for (int j = 0; j < p->n; j++) {
            int64_t sum = p->accumulate ? p->d[i][j] : 0;
            for (int k = 0; k < p->k; k++)
                sum += (int64_t)p->a[i * p->a_row + k * p->a_col] * p->b[k * p->b_row + j];
            if (p->saturate)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            p->d[i][j] = (int32_t)(uint32_t)(uint64_t)sum;
        }
    }
}

void matrix_product_s32(const struct product_s32 *p) {
    product_s32(p);
}

void matrix_unpack_s8(const uint8_t *src, int32_t *dst, size_t n, bool is_signed) {
    for (size_t i = 0; i < n; i++)
        dst[i] = is_signed ? (int8_t)src[i] : src[i];
}

void matrix_transpose(const float *src, float *dst, int rows, int cols) {
    for (int r = 0; r < rows; r += 8)
        for (int c = 0; c < cols; c++)
            for (int i = r; i < r + 8 && i < rows; i++)
                dst[(size_t)c * (size_t)rows + (size_t)i] =
                    src[(size_t)i * (size_t)cols + (size_t)c];
}
