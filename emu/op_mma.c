/* op_mma.c: matrix instructions of one warp: ldmatrix, stmatrix, movmatrix, mma.sync.  The data
 * paths are in warp_matrix.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "warp_matrix.h"
#include <stdio.h>
#include <stdlib.h>

static void whole_warp(struct warp *w, const struct insn *i, u32 m) {
    if (m != ~0u)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x, all 32 are due", m);
}

/* --- ldmatrix and stmatrix: n matrices, size 16 or 8 bits, flags MEM_* and M_TRANS; target: bits
 * of a packed element, 0 none --- */

enum { M_TRANS = 1 << MEM_FLAGS };

static u32 row_count(const struct insn *i, bool load) {
    return (u32)i->n * (i->size == 8 && load && i->flags & M_TRANS ? 16 : 8);
}

/* Packed rows are expanded into `wide`. */
static void load_rows(struct warp *w, const struct insn *i, u8 **rows, u8 (*wide)[16]) {
    const u32 used = i->target ? 2 * i->target : 16;
    for (u32 l = 0; l < row_count(i, true); l++) {
        u64 a = lane_address(w, i, i->a, l);
        rows[l] = mem_at(w, i, l, i->space, a, 16, ACC_READ);
        if (w->check)
            check_mem(w, i, l, i->space, a, used, ACC_READ);
        if (i->target) {
            ldmatrix_expand(wide[l], rows[l], (int)i->target);
            rows[l] = wide[l];
        }
    }
}

/* Lanes may name the same row, if they store the same there. */
static void store_rows(struct warp *w, const struct insn *i, u8 (*rows)[16]) {
    for (u32 l = 0; l < row_count(i, false); l++) {
        u64 a = lane_address(w, i, i->a, l);
        u8 *p = mem_at(w, i, l, i->space, a, 16, ACC_WRITE);
        if (w->check)
            check_mem(w, i, l, i->space, a, 16,
                      ACC_WRITE | (memcmp(p, rows[l], 16) ? 0u : (u32)ACC_SAME));
        memcpy(p, rows[l], 16);
    }
}

static int op_ldmatrix(struct warp *w, const struct insn *i, u32 m) {
    u8 *rows[LANES], wide[LANES][16];
    u32 *d[8], tmp[8][LANES];
    whole_warp(w, i, m);
    load_rows(w, i, rows, wide);
    for (u32 k = 0; k < i->nops; k++)
        d[k] = tmp[k];
    if (i->size == 16)
        ldmatrix_b16(d, (const u8 *const *)rows, i->n, i->flags & M_TRANS);
    else if (i->flags & M_TRANS)
        ldmatrix_b8_trans(d, (const u8 *const *)rows, i->n);
    else
        ldmatrix_b8(d, (const u8 *const *)rows, i->n);
    for (u32 k = 0; k < i->nops; k++)
        memcpy(reg_at(w, i->ops[k]), tmp[k], sizeof tmp[k]);
    return NEXT;
}

static int op_stmatrix(struct warp *w, const struct insn *i, u32 m) {
    u8 to[LANES][16], *rows[LANES];
    const u32 *a[4];
    whole_warp(w, i, m);
    for (u32 l = 0; l < LANES; l++)
        rows[l] = to[l];
    for (u32 k = 0; k < i->nops; k++)
        a[k] = reg_at(w, i->ops[k]);
    if (i->size == 16)
        stmatrix_b16(rows, a, i->n, i->flags & M_TRANS);
    else
        stmatrix_b8_trans(rows, a, i->n);
    store_rows(w, i, to);
    w->cta->grid->emu->progress++;
    return NEXT;
}

static void matrix_common(struct dec *d, struct opnd *addr, struct opnd *data, bool load) {
    struct insn *in = d->in;
    const bool packed = dec_has(d, "b8x16"), low = dec_has(d, "m8n16"), trans = dec_has(d, "trans"),
               big = dec_has(d, "m16n16"), b8 = dec_has(d, "b8") || packed;
    bool wide;
    in->n = dec_has(d, "x4") ? 4 : dec_has(d, "x2") ? 2 : 1;
    in->size = b8 ? 8 : 16;
    in->target = dec_has(d, "b4x16_p64") ? 4 : dec_has(d, "b6x16_p32") ? 6 : 0;
    if (b8 != (big || low || dec_has(d, "m16n8")) || (b8 && trans == low) ||
        (load && big && in->n == 4) || packed != (in->target != 0) || (low && !packed))
        dec_fail(d, "this combination of shape, count and type does not exist");
    u32 regs = load && big ? in->n * 2u : in->n;
    ref *r = dec_refs(d, regs);
    dec_vec(d, data, T_B32, load, r, regs);
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, addr, in->space, &in->imm, &wide);
    in->flags = (wide ? (u32)MEM_WIDE_ADDR : 0u) | (dec_has(d, "trans") ? (u32)M_TRANS : 0u);
}
void dec_ldmatrix(struct dec *d) {
    dec_nops(d, 2, 2);
    matrix_common(d, &d->op[1], &d->op[0], true);
    d->in->fn = op_ldmatrix;
}
void dec_stmatrix(struct dec *d) {
    dec_nops(d, 2, 2);
    matrix_common(d, &d->op[0], &d->op[1], false);
    d->in->fn = op_stmatrix;
}

static int op_movmatrix(struct warp *w, const struct insn *i, u32 m) {
    whole_warp(w, i, m);
    movmatrix_b16(reg_at(w, i->d), reg_at(w, i->a));
    return NEXT;
}
void dec_movmatrix(struct dec *d) {
    dec_1(d, T_B32);
    d->in->fn = op_movmatrix;
}

/* --- mma.sync: ops hold D, A, B, C --- */

struct mma_form {
    struct mma_sync op;
    int a, b, c, d;
    enum num_fmt factors;       /* of block-scaled kinds */
    ref scale[2], select[2][2]; /* of A, of B: the words; byte and thread */
    bool f64, ordered;
    enum num_round round;
    ref meta; /* mma.sp */
    u32 selector;
    ref regs[];
};

static void scaled_product(struct warp *w, const struct insn *i, const struct mma_form *f,
                           u32 *const d[], const u32 *const a[], const u32 *const b[],
                           const u32 *const c[]) {
    struct mma_scales s;
    u32 select[2][2];
    for (int k = 0; k < 4; k++)
        select[k / 2][k % 2] = *(const u32 *)reg_at(w, f->select[k / 2][k % 2]) & 0xffff;
    const char *why = mma_scales_pick(&f->op, f->factors, reg_at(w, f->scale[0]), select[0],
                                      reg_at(w, f->scale[1]), select[1], &s);
    if (why)
        emu_fault(w, i, "%s", why);
    why = mma_sync_scaled(&f->op, &s, d, a, b, c, w->cta->grid->emu->model);
    if (why)
        emu_fault(w, i, "%s", why);
}

static void product(struct warp *w, const struct insn *i, const struct mma_form *f, u32 *const d[],
                    const u32 *const a[], const u32 *const b[], const u32 *const c[]) {
    const struct mma_model *model = w->cta->grid->emu->model;
    u8 columns[16][MMA_SPARSE_K / 2];
    if (f->f64) {
        mma_f64(f->op.m, f->op.k, (double *const *)d, (const double *const *)a,
                (const double *const *)b, (const double *const *)c, f->round);
        return;
    }
    struct mma_form one = *f;
    const char *bad = NULL;
    if (f->op.sparse) {
        const char *why =
            mma_sparse_columns(&f->op, f->ordered, reg_at(w, f->meta), f->selector, columns);
        if (why)
            emu_fault(w, i, "%s", why);
        one.op.columns = (const u8(*)[MMA_SPARSE_K / 2]) columns;
    }
    if (f->op.scales)
        scaled_product(w, i, &one, d, a, b, c);
    else
        bad = mma_sync(&one.op, d, a, b, c, model);
    if (bad)
        emu_fault(w, i, "%s", bad);
}

static int op_mma_sync(struct warp *w, const struct insn *i, u32 m) {
    const struct mma_form *f = (const void *)i->ops;
    struct emu *e = w->cta->grid->emu;
    u32 *d[16];
    const u32 *a[8], *b[8], *c[16];
    const ref *r = f->regs;
    whole_warp(w, i, m);
    e->stats[EMU_STAT_MMAS]++;
    for (int k = 0; k < f->d; k++)
        d[k] = reg_at(w, *r++);
    for (int k = 0; k < f->a; k++)
        a[k] = reg_at(w, *r++);
    for (int k = 0; k < f->b; k++)
        b[k] = reg_at(w, *r++);
    for (int k = 0; k < f->c; k++)
        c[k] = reg_at(w, *r++);
    product(w, i, f, d, a, b, c);
    return NEXT;
}

/* Types of D, A, B, C in the order of the opcode. */
static void mma_types(struct dec *d, const struct mma_element *t[4]) {
    u32 n = 0;
    for (u32 k = 0; k < d->nwords; k++) {
        const struct mma_element *e = mma_element_named(d->word[k]);
        if (e && n == 4)
            dec_fail(d, "more than four types");
        if (e)
            t[n++] = e;
    }
    if (n != 4)
        dec_fail(d, "the types of D, A, B and C are due");
}

/* scale_vec of the block-scaled kinds, 0 for the others. */
static int scale_count(struct dec *d, enum num_fmt *format) {
    static const char *const words[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", NULL};
    const bool eight = dec_has(d, "kind::mxf8f6f4"), four = dec_has(d, "kind::mxf4"),
               both = dec_has(d, "kind::mxf4nvf4"), ue4m3 = dec_has(d, "ue4m3");
    const int k = dec_one_of(d, words);
    int n = k < 0 ? 0 : 1 << k;
    if (!eight && !four && !both) {
        if (n || dec_has(d, "block_scale"))
            dec_fail(d, "this kind has no scale factors");
        return 0;
    }
    if (!dec_has(d, "block_scale") || ue4m3 == dec_has(d, "ue8m0"))
        dec_fail(d, ".block_scale and one type of scale factors are due");
    if (!n && !both)
        n = eight ? 1 : 2;
    if (!n || eight != (n == 1) || (four && n != 2) || (ue4m3 && (!both || n != 4)))
        dec_fail(d, "this kind, scale_vec and type of scale factors do not go together");
    *format = ue4m3 ? NUM_UE4M3 : NUM_UE8M0;
    return n;
}

/* The word of factors and {byte, thread}. */
static void scale_operands(struct dec *d, struct mma_form *f, u32 first) {
    for (u32 k = 0; k < 2; k++) {
        f->scale[k] = dec_src(d, &d->op[first + 2 * k], T_B32);
        dec_vec(d, &d->op[first + 1 + 2 * k], T_U16, false, f->select[k], 2);
    }
}

/* Metadata and selector of mma.sp behind A, B, C. */
static void sparse_operands(struct dec *d, struct mma_form *f) {
    f->meta = dec_src(d, &d->op[4], T_B32);
    f->selector = (u32)dec_imm(d, &d->op[5]);
}

void dec_mma(struct dec *d) {
    const struct mma_element *t[4];
    int m, n, k;
    const char *shape = dec_prefix(d, "m");
    struct mma_form f = {.round = NUM_RN};
    const int scales = scale_count(d, &f.factors);
    const bool sparse = dec_has(d, "sp") || dec_has(d, "sp::ordered_metadata");
    const u32 nops = 4 + (sparse ? 2 : 0) + (scales ? 4 : 0);
    dec_nops(d, nops, nops);
    if (!shape || sscanf(shape, "%dn%dk%d", &m, &n, &k) != 3)
        dec_fail(d, "a shape is due");
    mma_types(d, t);
    f.f64 = t[0]->bits == 64;
    const char *why;
    f.op = (struct mma_sync){.m = m,
                             .n = n,
                             .k = k,
                             .kind = t[1]->integer ? MMA_INT : MMA_FLOAT,
                             .a = (enum num_fmt)t[1]->fmt,
                             .b = (enum num_fmt)t[2]->fmt,
                             .a_signed = t[1]->sgn,
                             .b_signed = t[2]->sgn,
                             .bits = t[1]->bits,
                             .c = (enum num_fmt)t[3]->fmt,
                             .d = (enum num_fmt)t[0]->fmt,
                             .saturate = dec_has(d, "satfinite"),
                             .scales = scales,
                             .sparse = sparse};
    f.ordered = dec_has(d, "sp::ordered_metadata");
    if (scales > 1)
        f.op.bits = 4;
    if (f.f64) {
        static const char *const modes[] = {"rn", "rz", "rm", "rp", NULL};
        int r = dec_one_of(d, modes);
        f.round = r < 0 ? NUM_RN : (enum num_round)r;
        why = mma_f64_check(m, n, k, &f.a, &f.b, &f.c);
        f.d = f.c;
    } else {
        why = mma_sync_check(&f.op, &f.a, &f.b, &f.c, &f.d);
    }
    if (why)
        dec_fail(d, "%s", why);
    if (!dec_has(d, "row") || !dec_has(d, "col"))
        dec_fail(d, "only .row.col is supported");
    int total = f.a + f.b + f.c + f.d;
    if (scales)
        scale_operands(d, &f, sparse ? 6 : 4);
    if (sparse)
        sparse_operands(d, &f);
    struct mma_form *p = dec_alloc(d, sizeof f + (size_t)total * sizeof(ref));
    *p = f;
    enum type rt = f.f64 ? T_F64 : T_B32;
    dec_vec(d, &d->op[0], rt, true, p->regs, (u32)f.d);
    dec_vec(d, &d->op[1], rt, false, p->regs + f.d, (u32)f.a);
    dec_vec(d, &d->op[2], rt, false, p->regs + f.d + f.a, (u32)f.b);
    dec_vec(d, &d->op[3], rt, false, p->regs + f.d + f.a + f.b, (u32)f.c);
    d->in->ops = (const void *)p;
    d->in->fn = op_mma_sync;
}
