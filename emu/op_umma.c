/* op_umma.c: the tensor pipe: tcgen05.mma, .commit, .cp, .shift.  The data paths are in umma.c and
 * tmem.c.
 *
 * Operations of a CTA (of a pair: of its even CTA) run in the order of issue, one item each, when
 * the scheduler lets them; operands are read then.  A commit arrives behind what its own thread
 * issued before; with nothing of that thread in flight it arrives at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "forms_note.h"
#include "tcgen05.h"
#include "tensormap.h"
#include "tmem.h"
#include <stdlib.h>

enum { U_PAIR = 1 << MEM_FLAGS, U_MULTICAST = 2 << MEM_FLAGS };

/* --- Items --- */

enum pipe_kind { PIPE_MMA, PIPE_CP, PIPE_SHIFT, PIPE_COMMIT };

struct pipe_op {
    enum pipe_kind kind;
    struct cta *cta[2]; /* [1] NULL without a pair */
    union {
        struct umma mma;
        struct {
            enum tmem_copy shape;
            enum tmem_decompress how;
            struct matrix_desc desc;
            u32 address;
        } cp;
        struct {
            u32 ctas, off; /* ranks, offset of the mbarrier */
        } commit;
    };
};

static struct cta *pipe_owner(struct cta *c, bool pair) {
    return pair ? c->cluster->cta[c->rank & ~1u] : c;
}

/* used: of the 16 bytes of a chunk; the rest is padding. */
static void read_view(struct emu *e, struct item *it, struct cta *c, const struct matrix_view *v,
                      u32 used) {
    for (u32 r = 0; r < v->rows; r++)
        for (u32 k = 0; k < v->chunks; k++)
            check_item_smem(e, it, c, desc_chunk(&v->desc, v->mn_major, r, k), used, false, true);
}

static u32 chunk_used(const struct umma *u, enum num_fmt f) {
    if (u->form.kind != UMMA_F8F6F4 && u->form.kind != UMMA_MXF8F6F4)
        return 16;
    return f == NUM_E2M1 ? 8 : f == NUM_E2M3 || f == NUM_E3M2 ? 12 : 16;
}

/* Lanes of D (and of A in tensor memory), and a number for the layout: see the table in umma.h. */
static u32 where_of(const struct umma *u, u32 quarters, bool is_d) {
    const bool ws = u->form.ws, pair = u->form.cta_group == 2;
    const u32 m = u->shape.m, layout = m == 256         ? 3
                                       : m == 128       ? pair ? 4 : 1
                                       : m == 64 && !ws ? 2
                                       : m == 64        ? 5
                                                        : 6;
    const u32 half = layout != 2 ? 0u : u->d >> 16 == 16 ? (u32)TC_UPPER : (u32)TC_LOWER;
    return quarters | half | (is_d ? layout << TC_LAYOUT : 0);
}

/* The words of scale factors, for CTA c. */
static void scale_checks(struct emu *e, struct item *it, struct cta *c, const struct umma *u) {
    struct tmem_span s;
    for (u32 w = 0; (s = umma_span_sfa(u, w)).columns; w++)
        check_item_tmem(e, it, c, s.quarters, s.column, s.columns, false);
    for (u32 w = 0; (s = umma_span_sfb(u, w)).columns; w++)
        check_item_tmem(e, it, c, s.quarters, s.column, s.columns, false);
}

static void mma_checks(struct emu *e, struct item *it, const struct pipe_op *x) {
    const struct umma *u = &x->mma;
    const struct matrix_view a = umma_view_a(u), b = umma_view_b(u);
    const struct tmem_span d = umma_span_d(u), t = umma_span_a(u), meta = umma_span_meta(u);
    const u32 where = where_of(u, d.quarters, true);
    for (u32 k = 0; k < u->form.cta_group; k++) {
        if (!u->form.a_tmem)
            read_view(e, it, x->cta[k], &a, chunk_used(u, u->shape.a));
        read_view(e, it, x->cta[k], &b, chunk_used(u, u->shape.b));
        if (t.columns)
            check_item_tmem(e, it, x->cta[k], where_of(u, t.quarters, false), t.column, t.columns,
                            false);
        scale_checks(e, it, x->cta[k], u);
        if (meta.columns)
            check_item_tmem(e, it, x->cta[k], meta.quarters, meta.column, meta.columns, false);
        if (u->accumulate)
            check_item_tmem(e, it, x->cta[k], where, d.column, d.columns, false);
        check_item_tmem(e, it, x->cta[k], where, d.column, d.columns, true);
    }
}

static void cp_checks(struct emu *e, struct item *it, const struct pipe_op *x, struct cta *c) {
    const struct matrix_view v = tmem_copy_view(x->cp.shape, &x->cp.desc);
    read_view(e, it, c, &v,
              x->cp.how == TMEM_CP_B4X16_P64   ? 8
              : x->cp.how == TMEM_CP_B6X16_P32 ? 12
                                               : 16);
    check_item_tmem(e, it, c, 15, x->cp.address & 0xffff, (u32)tmem_copy_columns(x->cp.shape),
                    true);
}

static void pipe_commit(struct emu *e, struct item *it, const struct pipe_op *x,
                        struct clock *done) {
    for (u32 r = 0; r < it->cta->cluster->n; r++)
        if (x->commit.ctas >> r & 1)
            mbar_arrive(e, it->cta->cluster->cta[r], x->commit.off, 1, done);
}

static bool pipe_step(struct emu *e, struct item *it) {
    struct pipe_op *x = it->payload;
    e->running = &it->cta->warps[it->warp];
    e->at = &it->grid->fn->code[it->pc];
    switch (x->kind) {
    case PIPE_MMA:
        e->stats[EMU_STAT_MMAS]++;
        if (it->check)
            mma_checks(e, it, x);
        for (u32 k = 0; k < x->mma.form.cta_group; k++) {
            const char *bad = umma_scales_refuse(&x->mma, k);
            if (bad)
                emu_report(e->running, e->at, EMU_TMEM, "%s", bad);
        }
        const char *wrong = umma_run(&x->mma, e->model);
        if (wrong)
            emu_fault_item(e, it, "%s", wrong);
        break;
    case PIPE_CP:
        for (int k = 0; k < 2 && x->cta[k]; k++) {
            if (it->check)
                cp_checks(e, it, x, x->cta[k]);
            tmem_copy(x->cp.shape, x->cp.how, &x->cp.desc, x->cta[k]->smem,
                      tmem_of(x->cta[k])->cell, x->cp.address);
        }
        break;
    case PIPE_SHIFT:
        for (int k = 0; k < 2 && x->cta[k]; k++) {
            if (it->check)
                check_item_tmem(e, it, x->cta[k], (u8)(1u << (x->cp.address >> 21 & 3)),
                                x->cp.address & 0xffff, 8, true);
            tmem_shift(tmem_of(x->cta[k])->cell, x->cp.address);
        }
        break;
    case PIPE_COMMIT:
        pipe_commit(e, it, x, check_item_done(e, it));
        return true;
    }
    check_item_done(e, it);
    return true;
}

/* Filled on the stack: a fault before it is posted leaves nothing behind. */
static struct pipe_op pipe_new(struct warp *w, const struct insn *i, enum pipe_kind kind) {
    struct pipe_op x = {.kind = kind, .cta = {w->cta}};
    if (i->flags & U_PAIR) {
        struct cta *peer = tcgen_peer(w, i);
        if (peer->exited)
            emu_report(w, i, EMU_DSMEM, "CTA %u of the pair has exited", peer->rank);
        x.cta[0] = w->cta->rank & 1 ? peer : w->cta;
        x.cta[1] = w->cta->rank & 1 ? w->cta : peer;
    }
    return x;
}

static struct item *pipe_item(struct warp *w, const struct insn *i, u32 lane,
                              const struct pipe_op *x) {
    struct item *it = item_new(w, lane, sizeof *x);
    *(struct pipe_op *)it->payload = *x;
    it->pc = (u32)(i - w->code);
    it->loc = i->loc;
    it->step = pipe_step;
    check_item_tensor(w, it, pipe_owner(w->cta, i->flags & U_PAIR), x->kind == PIPE_COMMIT);
    return it;
}

/* Cycles of the tensor pipe, for the timing model: the product's, or the reading of A and B at 128
 * bytes a cycle when that takes longer; both measured on a B200 for shapes with N of 64 and more.
 */
static double pipe_cycles(const struct pipe_op *x) {
    if (x->kind != PIPE_MMA)
        return x->kind == PIPE_COMMIT ? 0 : 32;
    const struct umma_shape *s = &x->mma.shape;
    const double m = (double)s->m / x->mma.form.cta_group, product = s->n / 2.0,
                 read = ((x->mma.form.a_tmem ? 0 : m) + s->n) * 32.0 / 128 + 0.6;
    return product > read ? product : read;
}

static void pipe_post(struct warp *w, const struct insn *i, u32 lane, const struct pipe_op *x) {
    struct item *it = pipe_item(w, i, lane, x);
    it->busy = w->time ? pipe_cycles(x) : 0;
    item_post(w->cta->grid->emu, it, &pipe_owner(w->cta, i->flags & U_PAIR)->tensor, AG_TENSOR);
}

/* One thread is to issue these; k threads issue k operations. */
static void one_lane(struct warp *w, const struct insn *i, u32 m) {
    if (m & (m - 1))
        emu_report(w, i, EMU_WARP, "issued by %d lanes: that many operations, one lane is meant",
                   __builtin_popcount(m));
}

/* Is something of this thread still in the pipe? */
static bool thread_busy(struct warp *w, const struct insn *i, u32 lane) {
    for (struct item *it = pipe_owner(w->cta, i->flags & U_PAIR)->tensor.head; it; it = it->next)
        if (it->cta == w->cta && it->warp == w->id && it->lane == lane)
            return true;
    return false;
}

const char *umma_in_flight(struct cta *c, struct cta *of, u32 column, u32 columns) {
    for (u32 k = 0; k < 2; k++) {
        if (k && !(c->rank & 1))
            break;
        for (struct item *it = c->cluster->cta[c->rank - k]->tensor.head; it; it = it->next) {
            const struct pipe_op *x = it->payload;
            if (x->cta[0] != of && x->cta[1] != of)
                continue;
            u32 at = 0, n = 0;
            if (x->kind == PIPE_MMA) {
                const struct tmem_span d = umma_span_d(&x->mma);
                at = d.column;
                n = d.columns;
            } else if (x->kind == PIPE_CP) {
                at = x->cp.address & 0xffff;
                n = 8;
            }
            if (n && at < column + columns && column < at + n)
                return x->kind == PIPE_MMA ? "a tcgen05.mma in flight" : "a tcgen05.cp in flight";
        }
    }
    return NULL;
}

/* --- mma --- */

struct mma_form { /* kept with the instruction */
    struct umma_form form;
    ref d, a, b, meta, idesc, pred, sfa, sfb, zero, mask[8];
    s64 d_off, a_off, meta_off, sfa_off, sfb_off;
    u32 nmask, scale;
};

/* The operand lies in the CTA's shared memory. */
static void check_range(struct warp *w, const struct insn *i, const struct matrix_view *v,
                        char name) {
    u32 lo, hi;
    const struct cta *c = w->cta;
    u32 last = desc_chunk(&v->desc, v->mn_major, v->rows - 1, v->chunks - 1) | 127;
    if (!v->desc.absolute && (v->desc.start & ~127u) >= c->smem_lo && last < c->smem_hi)
        return; /* addresses grow with both indices, and the swizzle stays in lines of 128 bytes */
    view_range(v, &lo, &hi);
    if (lo < c->smem_lo || hi > c->smem_hi)
        emu_fault(w, i, "%c: shared memory 0x%x to 0x%x, the CTA has 0x%x to 0x%x", name, lo, hi,
                  c->smem_lo, c->smem_hi);
}

/* The tensor memory that the product uses in CTA c is allocated. */
static void mma_need(struct warp *w, const struct insn *i, struct cta *c, const struct umma *u) {
    const struct tmem_span d = umma_span_d(u), t = umma_span_a(u), meta = umma_span_meta(u);
    struct tmem_span s;
    tmem_need(w, i, c, d.column, d.columns, "D");
    if (meta.columns)
        tmem_need(w, i, c, meta.column, meta.columns, "metadata");
    for (u32 k = 0; (s = umma_span_sfa(u, k)).columns; k++)
        tmem_need(w, i, c, s.column, s.columns, "scale factors of A");
    for (u32 k = 0; (s = umma_span_sfb(u, k)).columns; k++)
        tmem_need(w, i, c, s.column, s.columns, "scale factors of B");
    if (t.columns)
        tmem_need(w, i, c, t.column, t.columns, "A");
}

static void mma_issue(struct warp *w, const struct insn *i, u32 l, const struct mma_form *f) {
    struct pipe_op x = pipe_new(w, i, PIPE_MMA);
    struct umma *u = &x.mma;
    char why[300];
    u->form = f->form;
    u->d = ((const u32 *)reg_at(w, f->d))[l] + (u32)f->d_off;
    if (f->form.a_tmem)
        u->a_addr = ((const u32 *)reg_at(w, f->a))[l] + (u32)f->a_off;
    u->accumulate = pred_at(w, f->pred) >> l & 1;
    u->scale_d = f->scale;
    if (f->form.scales) {
        u->sfa = ((const u32 *)reg_at(w, f->sfa))[l] + (u32)f->sfa_off;
        u->sfb = ((const u32 *)reg_at(w, f->sfb))[l] + (u32)f->sfb_off;
    }
    if (f->form.sparse)
        u->meta = ((const u32 *)reg_at(w, f->meta))[l] + (u32)f->meta_off;
    if (f->zero != REF_NONE)
        u->zero_columns = ((const u64 *)reg_at(w, f->zero))[l];
    for (u32 k = 0; k < f->nmask; k++)
        u->lane_mask[k] = ((const u32 *)reg_at(w, f->mask[k]))[l];
    for (u32 k = 0; k < f->form.cta_group; k++)
        u->cta[k] = (struct umma_cta){x.cta[k]->smem, tmem_of(x.cta[k])->cell};
    u64 word_a = f->form.a_tmem ? 0 : ((const u64 *)reg_at(w, f->a))[l];
    u64 word_b = ((const u64 *)reg_at(w, f->b))[l];
    if (!umma_prepare(u, ((const u32 *)reg_at(w, f->idesc))[l], word_a, word_b, why, sizeof why))
        emu_fault(w, i, "lane %u: %s", l, why);
    const struct emu_part *part = w->cta->grid->emu->part;
    if (u->shape.k == 96 && (part->major != 10 || part->minor != 3))
        emu_fault(w, i, "lane %u: K = 96 exists on sm_103a, not on %s", l, part->name);
    const struct matrix_view a = umma_view_a(u), b = umma_view_b(u);
    if (!f->form.a_tmem)
        check_range(w, i, &a, 'A');
    check_range(w, i, &b, 'B');
    forms_umma(w->cta->grid->emu, u);
    for (u32 k = 0; k < f->form.cta_group; k++)
        mma_need(w, i, x.cta[k], u);
    pipe_post(w, i, l, &x);
}

static int op_mma(struct warp *w, const struct insn *i, u32 m) {
    const struct mma_form *f = (const void *)i->ops;
    one_lane(w, i, m);
    FOR_LANES(l, m) mma_issue(w, i, l, f);
    return NEXT;
}

static bool pair_words(struct dec *d) {
    bool one = dec_has(d, "cta_group::1"), two = dec_has(d, "cta_group::2");
    if (one == two)
        dec_fail(d, "cta_group::1 or cta_group::2 is due");
    d->in->flags |= two ? (u32)U_PAIR : 0u;
    return two;
}

/* [address] of tensor memory. */
static ref tmem_operand(struct dec *d, struct opnd *o, s64 *off) {
    bool wide;
    ref r = dec_addr(d, o, SP_SHARED, off, &wide);
    if (wide)
        dec_fail(d, "a tensor memory address is a 32-bit register");
    return r;
}

/* Scale factors of a row: .scale_vec::NX or .blockN (PTX ISA, Valid combinations of
 * scale_vectorsize with types and MMA-Kind). */
static u32 scale_count(struct dec *d, enum umma_kind kind) {
    static const char *const words[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X",
                                        "block32",       "block16",       NULL};
    const int k = dec_one_of(d, words);
    u32 n = k < 0 ? 0 : k < 3 ? 1u << k : k == 4 ? 4 : kind == UMMA_MXF8F6F4 ? 1 : 2;
    if (kind < UMMA_MXF8F6F4) {
        if (n || dec_has(d, "block_scale"))
            dec_fail(d, "this kind has no scale factors");
        return 0;
    }
    if (!dec_has(d, "block_scale"))
        dec_fail(d, ".block_scale is due");
    if (!n && kind != UMMA_MXF4NVF4)
        n = kind == UMMA_MXF8F6F4 ? 1 : 2;
    if (!n || (kind == UMMA_MXF8F6F4) != (n == 1) || (kind == UMMA_MXF4 && n != 2))
        dec_fail(d, "this kind and this number of scale factors do not go together");
    return n;
}

/* The operands after idesc, from the at-th on. */
static void mma_tail(struct dec *d, struct mma_form *f, u32 at) {
    if (f->form.scales) {
        dec_nops(d, at + 3, at + 3);
        f->sfa = tmem_operand(d, &d->op[at], &f->sfa_off);
        f->sfb = tmem_operand(d, &d->op[at + 1], &f->sfb_off);
        f->pred = dec_pred(d, &d->op[at + 2], false);
        return;
    }
    if (at < d->nops && d->op[at].kind == OP_VEC) {
        f->nmask = f->form.cta_group == 2 ? 8 : 4;
        if (f->form.ws)
            dec_fail(d, ".ws has no lane mask");
        dec_vec(d, &d->op[at++], T_B32, false, f->mask, f->nmask);
    }
    if (at >= d->nops)
        dec_fail(d, "the predicate enable-input-d is due");
    f->pred = dec_pred(d, &d->op[at++], false);
    if (at < d->nops && f->form.ws) {
        f->zero = dec_src(d, &d->op[at++], T_B64);
    } else if (at < d->nops) {
        s64 v = dec_imm(d, &d->op[at++]);
        if (v < 0 || v > 15)
            dec_fail(d, "scale-input-d is 0 to 15");
        f->scale = (u32)v;
    }
    if (at < d->nops)
        dec_fail(d, "too many operands");
}

void dec_tcgen_mma(struct dec *d) {
    static const char *const kinds[] = {
        "kind::f16",      "kind::tf32", "kind::f8f6f4",   "kind::i8",
        "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4", NULL};
    struct mma_form *f = dec_alloc(d, sizeof *f);
    int kind = dec_one_of(d, kinds);
    if (kind < 0)
        dec_fail(d, "a kind is due");
    const bool sparse = dec_has(d, "sp");
    dec_nops(d, 5 + sparse, 7 + sparse);
    f->zero = REF_NONE;
    f->form = (struct umma_form){.kind = (enum umma_kind)kind,
                                 .cta_group = pair_words(d) ? 2 : 1,
                                 .ws = !strncmp(d->text, "tcgen05.mma.ws", 14),
                                 .a_tmem = d->op[1].kind == OP_MEM,
                                 .scales = scale_count(d, (enum umma_kind)kind),
                                 .ashift = dec_has(d, "ashift"),
                                 .sparse = sparse};
    if (f->form.ashift &&
        (!f->form.a_tmem || dec_has(d, "collector::a::fill") || dec_has(d, "collector::a::use")))
        dec_fail(d, ".ashift needs A in tensor memory, without collector::a::fill and ::use");
    f->d = tmem_operand(d, &d->op[0], &f->d_off);
    f->a = f->form.a_tmem ? tmem_operand(d, &d->op[1], &f->a_off) : dec_src(d, &d->op[1], T_B64);
    f->b = dec_src(d, &d->op[2], T_B64);
    if (sparse)
        f->meta = tmem_operand(d, &d->op[3], &f->meta_off);
    f->idesc = dec_src(d, &d->op[3 + sparse], T_B32);
    mma_tail(d, f, 4 + sparse);
    d->in->ops = (const void *)f;
    d->in->fn = op_mma;
}

/* --- commit --- */

static int op_commit(struct warp *w, const struct insn *i, u32 m) {
    struct emu *e = w->cta->grid->emu;
    one_lane(w, i, m);
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        if ((a & WIN_MASK) == WIN_SHARED)
            a &= 0xffffffff;
        if (a >> 32 || a & 7)
            emu_fault(w, i, "lane %u: 0x%llx is not the shared address of an mbarrier", l,
                      (unsigned long long)a);
        struct pipe_op op = {.kind = PIPE_COMMIT};
        struct cta *c = mem_shared(w, i, l, SP_CLUSTER, (u32)a, 8, &op.commit.off);
        op.commit.ctas = 1u << c->rank;
        if (i->flags & U_MULTICAST) {
            op.commit.ctas = ((const u32 *)reg_at(w, i->b))[l] & 0xffff;
            if (!op.commit.ctas || op.commit.ctas >> w->cta->cluster->n)
                emu_fault(w, i, "lane %u: multicast mask 0x%x in a cluster of %u", l,
                          op.commit.ctas, w->cta->cluster->n);
        }
        for (u32 r = 0; r < w->cta->cluster->n; r++) {
            struct cta *t = w->cta->cluster->cta[r];
            struct mbarrier *b = op.commit.ctas >> r & 1 ? mbar_find(t, op.commit.off) : NULL;
            if (!(op.commit.ctas >> r & 1))
                continue;
            if (!b)
                emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x of CTA %u", l,
                          op.commit.off, r);
            check_mbar_use(w, i, t, b);
            mbar_note_arrival(w, i, b);
        }
        struct pipe_op x = pipe_new(w, i, PIPE_COMMIT);
        x.commit = op.commit;
        if (thread_busy(w, i, l)) {
            pipe_post(w, i, l, &x);
            continue;
        }
        struct item *it = pipe_item(w, i, l, &x);
        pipe_commit(e, it, &x, check_item_done(e, it));
        clock_drop(it->clock);
        free(it);
        e->limbo = NULL;
    }
    return NEXT;
}

void dec_tcgen_commit(struct dec *d) {
    struct insn *in = d->in;
    bool wide, multi = dec_has(d, "multicast::cluster");
    u32 width;
    dec_nops(d, multi ? 2 : 1, multi ? 2 : 1);
    pair_words(d);
    in->space = SP_CLUSTER;
    in->a = dec_addr(d, &d->op[0], dec_has(d, "shared::cluster") ? SP_CLUSTER : SP_GENERIC,
                     &in->imm, &wide);
    in->flags |= (wide ? (u32)MEM_WIDE_ADDR : 0u) | (multi ? (u32)U_MULTICAST : 0u);
    if (multi)
        in->b = dec_any(d, &d->op[1], false, &width);
    if (multi && width != 4)
        dec_fail(d, "the mask is a 16-bit register");
    in->fn = op_commit;
}

/* --- cp, shift --- */

static int op_cp(struct warp *w, const struct insn *i, u32 m) {
    one_lane(w, i, m);
    FOR_LANES(l, m) {
        struct pipe_op x = pipe_new(w, i, PIPE_CP);
        char why[300];
        x.cp.shape = (enum tmem_copy)i->n;
        x.cp.how = (enum tmem_decompress)i->size;
        x.cp.address = ((const u32 *)reg_at(w, i->a))[l] + (u32)i->imm;
        if (!desc_decode_sm100(&x.cp.desc, ((const u64 *)reg_at(w, i->b))[l], why, sizeof why))
            emu_fault(w, i, "lane %u: %s", l, why);
        if (x.cp.desc.absolute)
            emu_fault(w, i, "lane %u: an absolute leading-dimension address is for tcgen05.mma", l);
        const char *bad = tmem_copy_refuse(x.cp.shape, x.cp.address);
        if (bad)
            emu_fault(w, i, "lane %u: address 0x%08x: %s", l, x.cp.address, bad);
        const struct matrix_view v = tmem_copy_view(x.cp.shape, &x.cp.desc);
        check_range(w, i, &v, 'S');
        for (int k = 0; k < 2 && x.cta[k]; k++)
            tmem_need(w, i, x.cta[k], x.cp.address & 0xffff, (u32)tmem_copy_columns(x.cp.shape),
                      "copy");
        pipe_post(w, i, l, &x);
    }
    return NEXT;
}

void dec_tcgen_cp(struct dec *d) {
    static const char *const shapes[] = {"128x256b", "4x256b",  "128x128b",
                                         "64x128b",  "32x128b", NULL};
    static const u8 index[] = {TMEM_CP_128X256B, TMEM_CP_4X256B, TMEM_CP_128X128B,
                               TMEM_CP_64X128B_02_13, TMEM_CP_32X128B_WARPX4};
    struct insn *in = d->in;
    int shape = dec_one_of(d, shapes);
    dec_nops(d, 2, 2);
    pair_words(d);
    if (shape < 0)
        dec_fail(d, "a shape is due");
    bool x2a = dec_has(d, "warpx2::02_13"), x2b = dec_has(d, "warpx2::01_23"),
         x4 = dec_has(d, "warpx4");
    if ((shape == 3) != (x2a || x2b) || (shape == 4) != x4 || (x2a && x2b))
        dec_fail(d, "64x128b needs warpx2, 32x128b warpx4, the others neither");
    in->n = x2b ? (u8)TMEM_CP_64X128B_01_23 : index[shape];
    in->size = dec_has(d, "b6x16_p32")   ? (u8)TMEM_CP_B6X16_P32
               : dec_has(d, "b4x16_p64") ? (u8)TMEM_CP_B4X16_P64
                                         : (u8)TMEM_CP_PLAIN;
    in->a = tmem_operand(d, &d->op[0], &in->imm);
    in->b = dec_src(d, &d->op[1], T_B64);
    in->fn = op_cp;
}

static int op_shift(struct warp *w, const struct insn *i, u32 m) {
    one_lane(w, i, m);
    FOR_LANES(l, m) {
        struct pipe_op x = pipe_new(w, i, PIPE_SHIFT);
        x.cp.address = ((const u32 *)reg_at(w, i->a))[l] + (u32)i->imm;
        const char *bad = tmem_shift_refuse(x.cp.address);
        if (bad)
            emu_fault(w, i, "lane %u: address 0x%08x: %s", l, x.cp.address, bad);
        for (int k = 0; k < 2 && x.cta[k]; k++)
            tmem_need(w, i, x.cta[k], x.cp.address & 0xffff, 8, "shift");
        pipe_post(w, i, l, &x);
    }
    return NEXT;
}

void dec_tcgen_shift(struct dec *d) {
    dec_nops(d, 1, 1);
    pair_words(d);
    d->in->a = tmem_operand(d, &d->op[0], &d->in->imm);
    d->in->fn = op_shift;
}
