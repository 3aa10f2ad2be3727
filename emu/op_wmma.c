/* op_wmma.c: wmma.load, wmma.store, wmma.mma.  Where a fragment keeps which element is unspecified
 * (PTX ISA, Matrix Fragments for WMMA); here element (row, column) is number row * columns +
 * column, lane by lane; a fragment that has room for more holds every element again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "warp_matrix.h"
#include <stdio.h>

enum { W_COL = 1 << MEM_FLAGS, MAX_ELEMENTS = 1024 };

struct fragment {
    u32 rows, cols;
    const struct mma_element *type;
    u32 nregs;
    ref regs[8];
};

/* --- Elements of a fragment --- */

static u32 lane_elements(const struct fragment *f) {
    return f->nregs * (f->type->bits == 64 ? 64u : 32u) / f->type->bits;
}

static u64 get(const struct warp *w, const struct fragment *f, u32 n) {
    const u32 each = lane_elements(f), lane = n / each, at = n % each * f->type->bits;
    if (f->type->bits == 64)
        return ((const u64 *)reg_at(w, f->regs[at / 64]))[lane];
    const u32 word = ((const u32 *)reg_at(w, f->regs[at / 32]))[lane];
    return word >> at % 32 & (u32)((1ull << f->type->bits) - 1);
}

static void put(struct warp *w, const struct fragment *f, const u64 *value) {
    const u32 total = f->rows * f->cols, each = lane_elements(f), bits = f->type->bits;
    for (u32 lane = 0; lane < LANES; lane++)
        for (u32 r = 0; r < f->nregs; r++) {
            if (bits == 64) {
                ((u64 *)reg_at(w, f->regs[r]))[lane] = value[(lane * each + r) % total];
                continue;
            }
            u32 word = 0;
            for (u32 k = 0; k < 32 / bits; k++)
                word |= (u32)value[(lane * each + r * (32 / bits) + k) % total] << k * bits;
            ((u32 *)reg_at(w, f->regs[r]))[lane] = word;
        }
}

/* --- load and store --- */

static void whole_warp(struct warp *w, const struct insn *i, u32 m) {
    if (m != ~0u)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x, all 32 are due", m);
}

/* Moves one row (column) of the matrix between memory and line, in pieces of one lane each. */
static void move_line(struct warp *w, const struct insn *i, u64 address, u8 *line, u32 bytes,
                      u32 number, bool store) {
    for (u32 at = 0; at < bytes; at += 16) {
        const u32 n = bytes - at < 16 ? bytes - at : 16, lane = (number + at / 16) % LANES;
        u8 *p = mem_at(w, i, lane, i->space, address + at, n,
                       (store ? ACC_WRITE : ACC_READ) | ACC_NOALIGN);
        const bool same = store && !memcmp(p, line + at, n);
        if (w->check)
            check_mem(w, i, lane, i->space, address + at, n,
                      store ? ACC_WRITE | (same ? (u32)ACC_SAME : 0u) : (u32)ACC_READ);
        memcpy(store ? p : line + at, store ? line + at : p, n);
    }
}

/* The same address and stride in all lanes. */
static void uniform(struct warp *w, const struct insn *i, u64 address, u32 stride) {
    for (u32 l = 1; l < LANES; l++)
        if (lane_address(w, i, i->a, l) != address || ((const u32 *)reg_at(w, i->b))[l] != stride)
            emu_report(w, i, EMU_WARP, "lane %u has another address or stride than lane 0", l);
}

static void walk(struct warp *w, const struct insn *i, const struct fragment *f, u64 *value,
                 bool store) {
    const bool col = i->flags & W_COL;
    const u32 lines = col ? f->cols : f->rows, inner = col ? f->rows : f->cols;
    const u32 bits = f->type->bits, stride = ((const u32 *)reg_at(w, i->b))[0];
    const u64 base = lane_address(w, i, i->a, 0);
    u8 line[256];
    uniform(w, i, base, stride);
    /* the base to the fragment's size (ISA), lines to 16 bytes (C++ guide, load_matrix_sync) */
    const u32 align = f->nregs * (bits == 64 ? 8 : 4);
    if (base % align || (u64)stride * bits / 8 % 16)
        emu_report(w, i, EMU_BOUNDS, "address 0x%llx must be aligned to %u bytes, stride %u to 16",
                   (unsigned long long)base, align, stride);
    for (u32 n = 0; n < lines; n++) {
        memset(line, 0, sizeof line);
        for (u32 k = 0; store && k < inner; k++) {
            const u64 v = value[col ? k * f->cols + n : n * f->cols + k];
            memcpy(line + k * bits / 8, &v, bits / 8);
        }
        move_line(w, i, base + (u64)n * stride * bits / 8, line, inner * bits / 8, n, store);
        for (u32 k = 0; !store && k < inner; k++) {
            u64 v = 0;
            memcpy(&v, line + k * bits / 8, (bits + 7) / 8);
            v = bits == 64 ? v : v >> k * bits % 8 & ((1ull << bits) - 1);
            value[col ? k * f->cols + n : n * f->cols + k] = v;
        }
    }
}

static int op_wmma_load(struct warp *w, const struct insn *i, u32 m) {
    const struct fragment *f = (const void *)i->ops;
    u64 value[MAX_ELEMENTS];
    whole_warp(w, i, m);
    walk(w, i, f, value, false);
    put(w, f, value);
    return NEXT;
}

static int op_wmma_store(struct warp *w, const struct insn *i, u32 m) {
    const struct fragment *f = (const void *)i->ops;
    u64 value[MAX_ELEMENTS];
    whole_warp(w, i, m);
    for (u32 k = 0; k < f->rows * f->cols; k++)
        value[k] = get(w, f, k);
    walk(w, i, f, value, true);
    w->cta->grid->emu->progress++;
    return NEXT;
}

/* --- mma --- */

struct wmma_form {
    struct fragment d, a, b, c;
    bool saturate, is_xor;
    enum num_round round;
};

static void product_float(struct warp *w, const struct wmma_form *f, u64 *out) {
    const u32 m = f->a.rows, n = f->b.cols, k = f->a.cols;
    float a[32 * 16], b[16 * 32], d[32 * 32];
    f32_cell *rows[32];
    for (u32 x = 0; x < m * k; x++)
        a[x] = num_to_f32((enum num_fmt)f->a.type->fmt, (u32)get(w, &f->a, x));
    for (u32 x = 0; x < k * n; x++)
        b[x] = num_to_f32((enum num_fmt)f->b.type->fmt, (u32)get(w, &f->b, x));
    for (u32 x = 0; x < m * n; x++)
        d[x] = num_to_f32((enum num_fmt)f->c.type->fmt, (u32)get(w, &f->c, x));
    for (u32 r = 0; r < m; r++)
        rows[r] = d + r * n;
    const struct product p = {.m = (int)m,
                              .n = (int)n,
                              .k = (int)k,
                              .a = a,
                              .a_row = (int)k,
                              .a_col = 1,
                              .b = b,
                              .b_row = (int)n,
                              .d = rows,
                              .accumulate = true};
    matrix_product(&p, w->cta->grid->emu->model);
    for (u32 x = 0; x < m * n; x++)
        out[x] = f->d.type->bits == 16 ? num_f32_f16(d[x]) : num_bits32(num_canon(d[x]));
}

static s64 integer(const struct warp *w, const struct fragment *f, u32 n) {
    const u64 v = get(w, f, n);
    const u32 up = 64 - f->type->bits;
    return f->type->sgn ? (s64)(v << up) >> up : (s64)v;
}

static void product_int(struct warp *w, const struct wmma_form *f, u64 *out) {
    const u32 m = f->a.rows, n = f->b.cols, k = f->a.cols;
    for (u32 r = 0; r < m; r++)
        for (u32 c = 0; c < n; c++) {
            s64 sum = integer(w, &f->c, r * n + c);
            for (u32 x = 0; x < k; x++) {
                const s64 a = integer(w, &f->a, r * k + x), b = integer(w, &f->b, x * n + c);
                sum += f->a.type->bits > 1 ? a * b : f->is_xor ? a ^ b : a & b;
            }
            if (f->saturate)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            out[r * n + c] = (u32)sum;
        }
}

static void product_f64(struct warp *w, const struct wmma_form *f, u64 *out) {
    const u32 m = f->a.rows, n = f->b.cols, k = f->a.cols;
    for (u32 r = 0; r < m; r++)
        for (u32 c = 0; c < n; c++) {
            double sum = num_double(get(w, &f->c, r * n + c));
            for (u32 x = 0; x < k; x++)
                sum = num_fma64(num_double(get(w, &f->a, r * k + x)),
                                num_double(get(w, &f->b, x * n + c)), sum, f->round);
            out[r * n + c] = num_bits64(sum);
        }
}

static int op_wmma_mma(struct warp *w, const struct insn *i, u32 m) {
    const struct wmma_form *f = (const void *)i->ops;
    u64 out[MAX_ELEMENTS];
    whole_warp(w, i, m);
    w->cta->grid->emu->stats[EMU_STAT_MMAS]++;
    if (f->a.type->bits == 64)
        product_f64(w, f, out);
    else if (f->a.type->integer)
        product_int(w, f, out);
    else
        product_float(w, f, out);
    put(w, &f->d, out);
    return NEXT;
}

/* --- Decoders --- */

struct shape {
    u32 m, n, k;
};

/* The types of multiplicands that a shape has. */
static struct shape shape_for(struct dec *d, const struct mma_element *a) {
    const char *text = dec_prefix(d, "m");
    struct shape s;
    if (!text || sscanf(text, "%un%uk%u", &s.m, &s.n, &s.k) != 3)
        dec_fail(d, "a shape is due");
    const u32 k = a->bits == 64   ? 4
                  : a->bits == 4  ? 32
                  : a->bits == 1  ? 128
                  : a->bits == 32 ? 8
                                  : 16;
    const bool small = s.m == 8 && s.n == 8, square = s.m == 16 && s.n == 16;
    const bool wide = (s.m == 8 && s.n == 32) || (s.m == 32 && s.n == 8);
    const bool fits = a->bits == 64 || a->bits < 8 ? small : square || (wide && a->bits != 32);
    if (s.k != k || !fits)
        dec_fail(d, "this shape does not exist for %s", a->name);
    return s;
}

static struct fragment fragment_of(struct dec *d, char which, struct shape s,
                                   const struct mma_element *t) {
    const bool f16 = !strcmp(t->name, "f16");
    struct fragment f = {
        .rows = which == 'b' ? s.k : s.m, .cols = which == 'a' ? s.k : s.n, .type = t};
    f.nregs = f.rows * f.cols * t->bits / (t->bits == 64 ? 64 : 32) / LANES;
    if (f16 && (which == 'a' || which == 'b'))
        f.nregs = 8;
    if (!f.nregs || f.nregs > 8)
        dec_fail(d, "this shape does not exist for %s", t->name);
    return f;
}

static void fragment_regs(struct dec *d, struct opnd *o, struct fragment *f, bool write) {
    dec_vec(d, o, f->type->bits == 64 ? T_F64 : T_B32, write, f->regs, f->nregs);
}

static const struct mma_element *element_word(struct dec *d, u32 n) {
    for (u32 k = 0; k < d->nwords; k++) {
        const struct mma_element *t = mma_element_named(d->word[k]);
        if (t && n-- == 0)
            return t;
    }
    return NULL;
}

static void move_common(struct dec *d, struct opnd *addr, struct opnd *data, char which) {
    struct insn *in = d->in;
    bool wide;
    const struct mma_element *t = element_word(d, 0);
    struct fragment *f = dec_alloc(d, sizeof *f);
    dec_nops(d, 2, 3);
    if (!t)
        dec_fail(d, "a type is due");
    struct shape s;
    if (which == 'c') { /* any shape whose accumulator has this type */
        const char *text = dec_prefix(d, "m");
        if (!text || sscanf(text, "%un%uk%u", &s.m, &s.n, &s.k) != 3 || s.m * s.n > 256)
            dec_fail(d, "a shape is due");
    } else {
        s = shape_for(d, t);
    }
    *f = fragment_of(d, which, s, t);
    if (dec_has(d, "row") == dec_has(d, "col"))
        dec_fail(d, ".row or .col is due");
    fragment_regs(d, data, f, which != 'c' || data == &d->op[0]);
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, addr, in->space, &in->imm, &wide);
    in->flags = (wide ? (u32)MEM_WIDE_ADDR : 0u) | (dec_has(d, "col") ? (u32)W_COL : 0u);
    in->b = d->nops == 3 ? dec_src(d, &d->op[2], T_U32)
                         : dec_const32(d, dec_has(d, "col") ? f->rows : f->cols);
    in->ops = (const void *)f;
}

void dec_wmma_load(struct dec *d) {
    const char which = d->text[strlen("wmma.load.")];
    dec_nops(d, 2, 3);
    move_common(d, &d->op[1], &d->op[0], which);
    d->in->fn = op_wmma_load;
}

void dec_wmma_store(struct dec *d) {
    dec_nops(d, 2, 3);
    move_common(d, &d->op[0], &d->op[1], 'c');
    d->in->fn = op_wmma_store;
}

void dec_wmma_mma(struct dec *d) {
    static const char *const modes[] = {"rn", "rz", "rm", "rp", NULL};
    const struct mma_element *t[4];
    struct wmma_form *f = dec_alloc(d, sizeof *f);
    dec_nops(d, 4, 4);
    for (u32 k = 0; k < 4; k++)
        t[k] = element_word(d, k);
    if (!t[1] || (t[2] && !t[3]))
        dec_fail(d, "the types of D and C, or of D, A, B and C, are due");
    if (!t[2]) { /* d, c: f16 multiplicands */
        t[3] = t[1];
        t[1] = t[2] = mma_element_named("f16");
    }
    const struct shape s = shape_for(d, t[1]);
    const bool half = t[1]->bits == 16 && !strcmp(t[1]->name, "f16");
    const char *acc = t[1]->bits == 64 ? "f64" : t[1]->integer ? "s32" : "f32";
    for (u32 k = 0; k < 4; k += 3)
        if (strcmp(t[k]->name, acc) && !(half && !strcmp(t[k]->name, "f16")))
            dec_fail(d, "%s accumulates in %s", t[1]->name, acc);
    if (t[1] != t[2])
        dec_fail(d, "types of A and B differ");
    if (t[1]->bits == 1 && (dec_has(d, "xor") == dec_has(d, "and") || !dec_has(d, "popc")))
        dec_fail(d, ".xor.popc or .and.popc is due");
    const int round = dec_one_of(d, modes);
    f->round = round < 0 ? NUM_RN : (enum num_round)round;
    f->saturate = dec_has(d, "satfinite");
    f->is_xor = dec_has(d, "xor");
    f->d = fragment_of(d, 'c', s, t[0]);
    f->a = fragment_of(d, 'a', s, t[1]);
    f->b = fragment_of(d, 'b', s, t[2]);
    f->c = fragment_of(d, 'c', s, t[3]);
    fragment_regs(d, &d->op[0], &f->d, true);
    fragment_regs(d, &d->op[1], &f->a, false);
    fragment_regs(d, &d->op[2], &f->b, false);
    fragment_regs(d, &d->op[3], &f->c, false);
    d->in->ops = (const void *)f;
    d->in->fn = op_wmma_mma;
}
