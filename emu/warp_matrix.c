/* warp_matrix.c: see warp_matrix.h.  PTX ISA: ldmatrix, stmatrix, movmatrix, mma and the matrix
 * fragment sections of each shape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "warp_matrix.h"
#include <string.h>

enum { LANES = 32 };

static uint32_t u16_at(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

void ldmatrix_b16(uint32_t *const d[], const uint8_t *const rows[], int count, bool trans) {
    for (int i = 0; i < count; i++) {
        const uint8_t *const *row = rows + 8 * i;
        uint32_t out[LANES]; /* d may hold the addresses that rows were made from */
        for (int l = 0; l < LANES; l++) {
            const int g = l / 4, t = l % 4;
            if (trans)
                out[l] = u16_at(row[2 * t] + 2 * g) | u16_at(row[2 * t + 1] + 2 * g) << 16;
            else
                memcpy(&out[l], row[g] + 4 * t, 4);
        }
        memcpy(d[i], out, sizeof out);
    }
}

void stmatrix_b16(uint8_t *const rows[], const uint32_t *const a[], int count, bool trans) {
    for (int i = 0; i < count; i++) {
        uint8_t *const *row = rows + 8 * i;
        for (int l = 0; l < LANES; l++) {
            const int g = l / 4, t = l % 4;
            const uint32_t v = a[i][l];
            if (trans) {
                memcpy(row[2 * t] + 2 * g, &v, 2);
                const uint16_t high = (uint16_t)(v >> 16);
                memcpy(row[2 * t + 1] + 2 * g, &high, 2);
            } else {
                memcpy(row[g] + 4 * t, &v, 4);
            }
        }
    }
}

void movmatrix_b16(uint32_t *d, const uint32_t *a) {
    uint8_t matrix[8][16];
    uint8_t *rows[8];
    for (int r = 0; r < 8; r++)
        rows[r] = matrix[r];
    const uint32_t *const in[1] = {a};
    stmatrix_b16(rows, in, 1, false);
    uint32_t *const out[1] = {d};
    ldmatrix_b16(out, (const uint8_t *const *)rows, 1, true);
}

void ldmatrix_b8_trans(uint32_t *const d[], const uint8_t *const rows[], int count) {
    for (int i = 0; i < count; i++)
        for (int r = 0; r < 2; r++) {
            uint32_t out[LANES];
            for (int l = 0; l < LANES; l++) {
                const int g = l / 4, t = l % 4;
                out[l] = 0;
                for (int e = 0; e < 4; e++)
                    out[l] |= (uint32_t)rows[16 * i + 4 * t + e][g + 8 * r] << 8 * e;
            }
            memcpy(d[2 * i + r], out, sizeof out);
        }
}

void stmatrix_b8_trans(uint8_t *const rows[], const uint32_t *const a[], int count) {
    for (int i = 0; i < count; i++)
        for (int l = 0; l < LANES; l++)
            for (int e = 0; e < 4; e++)
                rows[8 * i + 2 * (l % 4) + e % 2][l / 4 + 8 * (e / 2)] =
                    (uint8_t)(a[i][l] >> 8 * e);
}

void ldmatrix_expand(uint8_t out[16], const uint8_t *row, int bits) {
    for (int i = 0; i < 16; i++) {
        const int at = i * bits;
        const uint32_t two = row[at / 8] | (at % 8 + bits > 8 ? (uint32_t)row[at / 8 + 1] << 8 : 0);
        const uint32_t code = two >> at % 8 & ((1u << bits) - 1);
        out[i] = (uint8_t)(bits == 4 ? code << 2 : code);
    }
}

void ldmatrix_b8(uint32_t *const d[], const uint8_t *const rows[], int count) {
    for (int i = 0; i < count; i++)
        for (int l = 0; l < LANES; l++)
            memcpy(&d[i][l], rows[8 * i + l / 4] + 4 * (l % 4), 4);
}

/* --- mma.sync --- */

const struct mma_element *mma_element_named(const char *name) {
    static const struct mma_element elements[] = {
        {"f16", NUM_F16, 16, 0, 0},  {"bf16", NUM_BF16, 16, 0, 0}, {"tf32", NUM_TF32, 32, 0, 0},
        {"e4m3", NUM_E4M3, 8, 0, 0}, {"e5m2", NUM_E5M2, 8, 0, 0},  {"e2m3", NUM_E2M3, 8, 0, 0},
        {"e3m2", NUM_E3M2, 8, 0, 0}, {"e2m1", NUM_E2M1, 8, 0, 0},  {"s8", 0, 8, 1, 1},
        {"u8", 0, 8, 0, 1},          {"s4", 0, 4, 1, 1},           {"u4", 0, 4, 0, 1},
        {"f32", NUM_F32, 32, 0, 0},  {"s32", 0, 32, 1, 1},         {"f64", 0, 64, 0, 0},
        {"b1", 0, 1, 0, 1}};
    for (size_t k = 0; k < sizeof elements / sizeof *elements; k++)
        if (!strcmp(name, elements[k].name))
            return &elements[k];
    return NULL;
}

static bool is_fp8(enum num_fmt f) {
    return f == NUM_E4M3 || f == NUM_E5M2;
}
static bool is_small(enum num_fmt f) {
    return is_fp8(f) || f == NUM_E2M3 || f == NUM_E3M2 || f == NUM_E2M1;
}

static const char *check_float(const struct mma_sync *op) {
    if (op->m != 16 || op->n != 8)
        return "floating mma.sync exists for m16n8 (m8n8k4 of f16 is not modelled)";
    if (op->c != op->d)
        return "types of C and D differ";
    if (op->a == NUM_F16 || op->a == NUM_BF16) {
        if (op->a != op->b)
            return "16-bit A and B must have the same type";
        if (op->k != 8 && op->k != 16)
            return "16-bit types exist for k8 and k16";
        return op->a == NUM_BF16 && op->d != NUM_F32 ? "bf16 accumulates in f32 only" : NULL;
    }
    if (op->a == NUM_TF32) {
        if (op->b != NUM_TF32 || op->d != NUM_F32)
            return "tf32 needs tf32 for B and f32 accumulators";
        return op->k == 4 || op->k == 8 ? NULL : "tf32 exists for k4 and k8";
    }
    if (!is_small(op->a) || !is_small(op->b))
        return "no mma.sync of these types";
    if (op->bits == 4) /* kinds mxf4 and mxf4nvf4 */
        return op->k == 64 && op->a == NUM_E2M1 && op->b == NUM_E2M1 && op->scales > 1
                   ? NULL
                   : "packed e2m1 exists for k64 with 2 or 4 scale factors";
    if (op->scales > 1)
        return "kind::mxf8f6f4 has one scale factor";
    if (op->k == 32)
        return NULL;
    return op->k == 16 && is_fp8(op->a) && is_fp8(op->b) ? NULL
                                                         : "8-bit types exist for k16 and k32";
}

static const char *check_int(const struct mma_sync *op) {
    if (op->n != 8 || (op->m != 8 && op->m != 16))
        return "integer mma.sync exists for m8n8 and m16n8";
    const int k0 = op->bits == 8 ? 16 : 32;
    if (op->bits != 8 && op->bits != 4)
        return "integer mma.sync exists for 8- and 4-bit elements (b1 is not modelled)";
    return op->k == k0 || (op->m == 16 && op->k == 2 * k0) ? NULL : "no such k for this type";
}

/* Elements of a row of A that are held. */
static int a_elements(const struct mma_sync *op) {
    return op->sparse ? op->k / 2 : op->k;
}

/* A sparse form exists where a dense one of half its k does, with few exceptions. */
static const char *check_sparse(const struct mma_sync *op) {
    struct mma_sync half = *op;
    half.k = op->k / 2;
    if (op->m != 16 || (op->bits == 8 && op->kind == MMA_FLOAT && op->k != 64))
        return "mma.sp has no such shape for this type";
    return op->kind == MMA_INT ? check_int(&half) : check_float(&half);
}

const char *mma_sync_check(const struct mma_sync *op, int *a_regs, int *b_regs, int *c_regs,
                           int *d_regs) {
    const char *why = op->sparse            ? check_sparse(op)
                      : op->kind == MMA_INT ? check_int(op)
                                            : check_float(op);
    if (why)
        return why;
    *a_regs = op->m * a_elements(op) * op->bits / 32 / LANES;
    *b_regs = op->n * op->k * op->bits / 32 / LANES;
    const int wide = op->m * op->n / LANES;
    *c_regs = op->kind == MMA_FLOAT && op->c == NUM_F16 ? wide / 2 : wide;
    *d_regs = op->kind == MMA_FLOAT && op->d == NUM_F16 ? wide / 2 : wide;
    return NULL;
}

/* Elements per register lie next to each other along k; register i of A covers rows g or g + 8
 * (i odd, m16), and the k block i/2 (i, m8); register i of B covers k block i of column g. */
struct place {
    int row, k;
};
static struct place a_place(int m, int per_reg, int reg, int lane) {
    const int half = m == 16 ? reg & 1 : 0, block = m == 16 ? reg >> 1 : reg;
    return (struct place){lane / 4 + 8 * half, (block * 4 + lane % 4) * per_reg};
}

/* The operand's elements as they lie in memory, row by row along k: a register is one word of it.
 */
static void gather(int m, int row_bytes, const uint32_t *const regs[], int count, bool is_a,
                   uint8_t *out) {
    for (int r = 0; r < count; r++)
        for (int l = 0; l < LANES; l++) {
            const struct place p =
                is_a ? a_place(m, 4, r, l) : (struct place){l / 4, (r * 4 + l % 4) * 4};
            memcpy(out + p.row * row_bytes + p.k, &regs[r][l], 4);
        }
}

static void unpack(const struct mma_sync *op, enum num_fmt f, uint8_t *raw, float *out, size_t n) {
    if (op->bits == 4)
        for (size_t i = n; i--;)
            raw[i] = raw[i / 2] >> 4 * (i % 2) & 15;
    else if (f == NUM_E2M1) /* in the middle four bits of its byte */
        for (size_t i = 0; i < n; i++)
            raw[i] = raw[i] >> 2 & 15;
    num_unpack(f, raw, out, n);
}

const char *mma_sparse_row(const uint8_t *column, const void *held, int step, int n, int k,
                           void *out) {
    const uint8_t *from = held;
    memset(out, 0, 4 * (size_t)k);
    for (int i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, from + 4 * i * step, 4);
        if (column[i] != MMA_SPARSE_NOWHERE)
            memcpy((uint8_t *)out + 4 * column[i], &v, 4);
        else if (v << 1) /* neither 0 nor -0 */
            return "the metadata name a column twice, and the second element is not zero";
    }
    return NULL;
}

/* Of `held` elements to a row, each goes to its column; the others are zero. */
static const char *spread(const struct mma_sync *op, const float *held, float *out) {
    const char *bad = NULL;
    for (int i = 0; i < 16 && !bad; i++)
        bad = mma_sparse_row(op->columns[i], held + i * op->k / 2, 1, op->k / 2, op->k,
                             out + i * op->k);
    return bad;
}

/* rows x k elements, each times its block's factor. */
static void scale_rows(const struct mma_sync *op, const float (*factor)[4], float *x, int rows) {
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < op->k; k++)
            x[i * op->k + k] *= factor[i][k * op->scales / op->k];
}

/* C register i: rows g + 8 (i/2), columns 2t + i%2; f16: two columns to a register. */
static void get_c(const struct mma_sync *op, const uint32_t *const c[], float out[16][8]) {
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < op->m / 4; i++) {
            const uint32_t code = op->c == NUM_F16 ? c[i / 2][l] >> 16 * (i & 1) & 0xffff : c[i][l];
            out[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)] = num_to_f32(op->c, code);
        }
}

static void put_d(const struct mma_sync *op, uint32_t *const d[], const float in[16][8]) {
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < op->m / 4; i += 2) {
            const float *pair = &in[l / 4 + 8 * (i >> 1)][2 * (l % 4)];
            if (op->d == NUM_F16) {
                d[i / 2][l] = num_f32_f16(pair[0]) | num_f32_f16(pair[1]) << 16;
            } else {
                d[i][l] = num_bits32(num_canon(pair[0]));
                d[i + 1][l] = num_bits32(num_canon(pair[1]));
            }
        }
}

static const char *mma_float(const struct mma_sync *op, const struct mma_scales *scales,
                             uint32_t *const d[], const uint32_t *const a[],
                             const uint32_t *const b[], const uint32_t *const c[],
                             const struct mma_model *model) {
    enum { K = MMA_SPARSE_K };
    const int b_bytes = op->k * op->bits / 8, a_bytes = a_elements(op) * op->bits / 8;
    _Alignas(4) uint8_t ra[16 * K], rb[8 * K];
    float fa[16 * K], held[16 * K / 2], fb[8 * K], bt[K * 8], fd[16][8];
    gather(16, a_bytes, a, a_bytes / 8, true, ra);
    gather(16, b_bytes, b, b_bytes / 16, false, rb);
    unpack(op, op->a, ra, op->sparse ? held : fa, (size_t)(16 * a_elements(op)));
    const char *bad = op->sparse ? spread(op, held, fa) : NULL;
    if (bad)
        return bad;
    unpack(op, op->b, rb, fb, (size_t)(8 * op->k));
    if (scales) {
        scale_rows(op, scales->a, fa, 16);
        scale_rows(op, scales->b, fb, 8);
    }
    matrix_transpose(fb, bt, 8, op->k);
    get_c(op, c, fd);
    f32_cell *rows[16];
    for (int i = 0; i < 16; i++)
        rows[i] = fd[i];
    const struct product p = {.m = 16,
                              .n = 8,
                              .k = op->k,
                              .a = fa,
                              .a_row = op->k,
                              .a_col = 1,
                              .b = bt,
                              .b_row = 8,
                              .d = rows,
                              .accumulate = true};
    matrix_product(&p, model);
    put_d(op, d, (const float(*)[8])fd);
    return NULL;
}

static int32_t int_element(const uint8_t *row, int bits, int e, bool is_signed) {
    const uint32_t code = (uint32_t)row[e * bits / 8] >> (e * bits % 8) & ((1u << bits) - 1);
    return is_signed ? (int32_t)(code << (32 - bits)) >> (32 - bits) : (int32_t)code;
}

static const char *mma_int(const struct mma_sync *op, uint32_t *const d[],
                           const uint32_t *const a[], const uint32_t *const b[],
                           const uint32_t *const c[]) {
    enum { K = MMA_SPARSE_K };
    const int b_bytes = op->k * op->bits / 8, a_bytes = a_elements(op) * op->bits / 8;
    uint8_t ra[16 * 32], rb[8 * 64];
    int32_t ia[16][K], ib[K][8], id[16][8];
    gather(op->m, a_bytes, a, op->m * a_bytes / 128, true, ra);
    gather(op->m, b_bytes, b, b_bytes / 16, false, rb);
    for (int i = 0; i < op->m; i++) {
        int32_t held[K];
        for (int k = 0; k < a_elements(op); k++)
            (op->sparse ? held : ia[i])[k] =
                int_element(ra + i * a_bytes, op->bits, k, op->a_signed);
        const char *bad =
            op->sparse ? mma_sparse_row(op->columns[i], held, 1, op->k / 2, op->k, ia[i]) : NULL;
        if (bad)
            return bad;
    }
    for (int k = 0; k < op->k; k++)
        for (int j = 0; j < 8; j++)
            ib[k][j] = int_element(rb + j * b_bytes, op->bits, k, op->b_signed);
    int32_t *rows[16];
    for (int i = 0; i < op->m; i++)
        rows[i] = id[i];
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < op->m / 4; i++)
            id[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)] = (int32_t)c[i][l];
    const struct product_s32 p = {.m = op->m,
                                  .n = 8,
                                  .k = op->k,
                                  .a = ia[0],
                                  .a_row = K,
                                  .a_col = 1,
                                  .b = ib[0],
                                  .b_row = 8,
                                  .d = rows,
                                  .accumulate = true,
                                  .saturate = op->saturate};
    matrix_product_s32(&p);
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < op->m / 4; i++)
            d[i][l] = (uint32_t)id[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)];
    return NULL;
}

const char *mma_sync(const struct mma_sync *op, uint32_t *const d[], const uint32_t *const a[],
                     const uint32_t *const b[], const uint32_t *const c[],
                     const struct mma_model *model) {
    return op->kind == MMA_INT ? mma_int(op, d, a, b, c) : mma_float(op, NULL, d, a, b, c, model);
}

const char *mma_sync_scaled(const struct mma_sync *op, const struct mma_scales *f,
                            uint32_t *const d[], const uint32_t *const a[],
                            const uint32_t *const b[], const uint32_t *const c[],
                            const struct mma_model *model) {
    return mma_float(op, f, d, a, b, c, model);
}

/* Bits of metadata to a row of A: four to a chunk of four elements of 16 or 8 bits, of two tf32, of
 * eight of 4 bits. */
static int meta_row_bits(const struct mma_sync *op) {
    return op->bits == 32 ? 2 * op->k : op->bits == 4 ? op->k / 2 : op->k;
}

/* The four bits of row i's chunk.  The word of a thread has, of types of 16 bits and more, 16 bits
 * of row g and 16 of row g + 8; of smaller ones 32 of row g, and the next thread those of g + 8. */
static uint32_t meta_code(const struct mma_sync *op, const uint32_t *words, int i, int chunk) {
    const int at = 4 * chunk, low = i / 8;
    if (op->bits >= 16)
        return words[at / 16] >> (at % 16 + 16 * low) & 15;
    return words[at / 32 * 2 + low] >> at % 32 & 15;
}

const char *mma_sparse_chunk(int bits, uint32_t code, bool ordered, int chunk, uint8_t *out) {
    const uint32_t index[2] = {code & 3, code >> 2};
    if (bits == 32) { /* the two halves of one element */
        out[0] = (uint8_t)(2 * chunk + (code == 14));
        return code == 4 || code == 14 ? NULL : "metadata of tf32 are 0b0100 and 0b1110";
    }
    if (ordered && index[0] > index[1])
        return "the metadata are not in order";
    const int run = bits == 4 ? 2 : 1; /* elements that an index stands for */
    for (int s = 0; s < 2 * run; s++)
        out[s] = (uint8_t)((4 * chunk + (int)index[s / run]) * run + s % run);
    if (index[0] == index[1])
        memset(out + run, MMA_SPARSE_NOWHERE, (size_t)run);
    return NULL;
}

const char *mma_sparse_columns(const struct mma_sync *op, bool ordered, const uint32_t *meta,
                               uint32_t selector, uint8_t columns[16][MMA_SPARSE_K / 2]) {
    const uint32_t threads = (uint32_t)meta_row_bits(op) / 16; /* that give metadata, of four */
    const int chunks = meta_row_bits(op) / 4, held = op->k / 2 / chunks;
    if (selector >= 4 / threads)
        return "the sparsity selector is past the threads that this shape has";
    for (int i = 0; i < 16; i++)
        for (int c = 0; c < chunks; c++) {
            const uint32_t code = meta_code(op, meta + i % 8 * 4 + selector * threads, i, c);
            const char *why = mma_sparse_chunk(op->bits, code, ordered, c, &columns[i][c * held]);
            if (why)
                return why;
        }
    return NULL;
}

const char *mma_scales_pick(const struct mma_sync *op, enum num_fmt format, const uint32_t *sa,
                            const uint32_t select_a[2], const uint32_t *sb,
                            const uint32_t select_b[2], struct mma_scales *out) {
    const uint32_t step = (uint32_t)op->scales;
    if (select_a[0] > 3 || select_b[0] > 3 || select_a[0] % step || select_b[0] % step)
        return "a byte selector is not one that this scale_vec has";
    if (select_a[1] > 1 || select_b[1] > 3)
        return "a thread selector is past 1 (A) or 3 (B)";
    for (int i = 0; i < 24; i++) {
        const bool is_a = i < 16;
        const int row = is_a ? i : i - 16;
        /* the pair's lower thread has row g, the upper one row g + 8 */
        const uint32_t word = is_a ? sa[row % 8 * 4 + (int)select_a[1] * 2 + row / 8]
                                   : sb[row * 4 + (int)select_b[1]];
        for (int k = 0; k < op->scales; k++) {
            const uint32_t at = (is_a ? select_a : select_b)[0] + (uint32_t)k;
            const float f = (float)num_to_f64(format, word >> 8 * at & 0xff);
            *(is_a ? &out->a[row][k] : &out->b[row][k]) = f;
        }
    }
    return NULL;
}

const char *mma_f64_check(int m, int n, int k, int *a_regs, int *b_regs, int *c_regs) {
    const bool ok = n == 8 && ((m == 8 && k == 4) || (m == 16 && (k == 4 || k == 8 || k == 16)));
    if (!ok)
        return "f64 mma.sync exists for m8n8k4, m16n8k4, m16n8k8 and m16n8k16";
    *a_regs = m * k / LANES;
    *b_regs = n * k / LANES;
    *c_regs = m * n / LANES;
    return NULL;
}

void mma_f64(int m, int k, double *const d[], const double *const a[], const double *const b[],
             const double *const c[], enum num_round round) {
    double fa[16][16], fb[16][8], fd[16][8];
    for (int r = 0; r < m * k / LANES; r++)
        for (int l = 0; l < LANES; l++) {
            const struct place p = a_place(m, 1, r, l);
            fa[p.row][p.k] = a[r][l];
        }
    for (int r = 0; r < k / 4; r++)
        for (int l = 0; l < LANES; l++)
            fb[r * 4 + l % 4][l / 4] = b[r][l];
    for (int i = 0; i < m / 4; i++)
        for (int l = 0; l < LANES; l++)
            fd[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)] = c[i][l];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < 8; j++)
            for (int kk = 0; kk < k; kk++)
                fd[i][j] = num_fma64(fa[i][kk], fb[kk][j], fd[i][j], round);
    for (int i = 0; i < m / 4; i++)
        for (int l = 0; l < LANES; l++)
            d[i][l] = fd[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)];
}
