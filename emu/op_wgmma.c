/* op_wgmma.c: wgmma (PTX ISA, Asynchronous Warpgroup Level Matrix Instructions).
 *
 * The four warps of a group issue one after the other; when the last has, the operation enters the
 * group's queue.  It reads its operands when it runs: registers and shared memory that were touched
 * too early give wrong numbers, as on hardware.  The data path is in wgmma.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "forms_note.h"
#include "lanes.h"
#include "check.h"
#include "wgmma.h"
#include <stdio.h>
#include <stdlib.h>

enum { GROUP_WARPS = 4, COMMITS = 64 };

struct wg_form { /* kept with the instruction */
    struct wgmma_form form;
    int nd, na;
    bool trans_a, trans_b, neg_a, neg_b;
    u32 selector;
    ref desc_a, desc_b, scale_d;
    ref regs[]; /* D, then A, then metadata; na counts both */
};

/* One operation on its way. */
struct wg_op {
    struct wgmma run;
    struct matrix_view a, b;
    const struct wg_form *form;
    u32 joined;
    u64 word_a, word_b;
    bool accumulate;
    u32 *d[GROUP_WARPS][132];
    const u32 *areg[GROUP_WARPS][8];
};

struct warpgroup {
    struct agent agent;
    struct item *open[COMMITS]; /* issued by some warps, by number % COMMITS */
    u64 done;
};

/* One warp's part. */
struct wgmma_state {
    u64 issued, committed;
    u64 upto[COMMITS]; /* operations issued at each commit */
};

static struct warpgroup *group_of(struct warp *w) {
    struct cta *c = w->cta;
    if (!c->wg)
        c->wg = calloc(MAX_WARPS / GROUP_WARPS, sizeof *c->wg);
    struct warpgroup **g = &c->wg[w->id / GROUP_WARPS];
    if (!*g) {
        *g = calloc(1, sizeof **g);
        if (!*g)
            abort();
        (*g)->agent.slot = -1;
    }
    return *g;
}
static struct wgmma_state *state_of(struct warp *w) {
    if (!w->wgmma)
        w->wgmma = calloc(1, sizeof *w->wgmma);
    if (!w->wgmma)
        abort();
    return w->wgmma;
}
void wgmma_free(struct cta *c) {
    for (u32 k = 0; k < c->nwarps; k++) {
        free(c->warps[k].wgmma);
        c->warps[k].wgmma = NULL;
    }
    for (u32 k = 0; c->wg && k < MAX_WARPS / GROUP_WARPS; k++) {
        for (u32 j = 0; c->wg[k] && j < COMMITS; j++) {
            if (c->wg[k]->open[j])
                check_item_drop(c->wg[k]->open[j]);
            free(c->wg[k]->open[j]);
        }
        free(c->wg[k]);
    }
    free(c->wg);
    c->wg = NULL;
}

static void read_view(struct emu *e, struct item *it, const struct matrix_view *v) {
    u32 lo, hi;
    view_range(v, &lo, &hi);
    struct cta *c = it->cta;
    if (lo < c->smem_lo || hi > c->smem_hi)
        emu_fault_item(e, it,
                       "the operand occupies 0x%x..0x%x of shared memory, the CTA has 0x%x..0x%x",
                       lo, hi, c->smem_lo, c->smem_hi);
    if (!it->check)
        return;
    for (u32 r = 0; r < v->rows; r++)
        for (u32 k = 0; k < v->chunks; k++)
            check_item_smem(e, it, c, desc_chunk(&v->desc, v->mn_major, r, k), 16, false, true);
}

static bool wg_step(struct emu *e, struct item *it) {
    struct wg_op *o = it->payload;
    struct warpgroup *g = it->cta->wg[it->warp / GROUP_WARPS];
    e->running = &it->cta->warps[it->warp];
    e->at = &it->grid->fn->code[it->pc];
    if (!o->form->form.a_regs)
        read_view(e, it, &o->a);
    check_item_meet(it, true); /* B is read for each of the four warps */
    read_view(e, it, &o->b);
    check_item_meet(it, false);
    const char *bad = wgmma_run(&o->run, e->model);
    if (bad)
        emu_fault_item(e, it, "%s", bad);
    e->stats[EMU_STAT_MMAS]++;
    check_item_done(e, it);
    g->done++;
    for (u32 k = 0; k < GROUP_WARPS && it->warp / GROUP_WARPS * GROUP_WARPS + k < it->cta->nwarps;
         k++)
        warp_wake(&it->cta->warps[it->warp / GROUP_WARPS * GROUP_WARPS + k],
                  wait_key(KEY_ASYNC, 1));
    return true;
}

static void start_op(struct warp *w, const struct insn *i, struct item *it) {
    const struct wg_form *f = (const void *)i->ops;
    struct wg_op *o = it->payload;
    char why[300];
    o->form = f;
    o->run.form = f->form;
    o->run.a_mn = f->trans_a;
    o->run.b_mn = f->trans_b;
    o->run.neg_a = f->neg_a;
    o->run.neg_b = f->neg_b;
    o->run.accumulate = o->accumulate;
    o->run.smem = w->cta->smem;
    if (!wgmma_prepare(&o->run, o->word_a, o->word_b, why, sizeof why))
        emu_fault(w, i, "%s", why);
    forms_wgmma(w->cta->grid->emu, &o->run);
    if (!f->form.a_regs)
        o->a = wgmma_view_a(&o->run);
    o->b = wgmma_view_b(&o->run);
    o->run.selector = f->selector;
    for (u32 k = 0; k < GROUP_WARPS; k++) {
        o->run.d[k] = o->d[k];
        o->run.a_reg[k] = (const u32 *const *)o->areg[k];
    }
}

static u64 uniform_desc(struct warp *w, const struct insn *i, ref r) {
    const u64 *p = reg_at(w, r);
    for (u32 l = 1; l < LANES; l++)
        if (p[l] != p[0])
            emu_report(w, i, EMU_DESC, "the descriptor differs between lanes 0 and %u", l);
    return p[0];
}

static int op_wgmma(struct warp *w, const struct insn *i, u32 m) {
    const struct wg_form *f = (const void *)i->ops;
    struct wgmma_state *s = state_of(w);
    struct warpgroup *g = group_of(w);
    if (m != ~0u)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x, all 32 are due", m);
    if (s->issued - g->done >= COMMITS - 1)
        return block_on(w, wait_key(KEY_ASYNC, 1), "room in the wgmma queue");
    struct item **slot = &g->open[s->issued % COMMITS], *it = *slot;
    u32 k = w->id % GROUP_WARPS, p = pred_at(w, f->scale_d);
    bool accumulate = p & 1, fresh = !it;
    u64 da = f->form.a_regs ? 0 : uniform_desc(w, i, f->desc_a), db = uniform_desc(w, i, f->desc_b);
    if (fresh) {
        it = *slot = item_new(w, 0, sizeof(struct wg_op));
        w->cta->grid->emu->limbo = NULL; /* the slot owns it */
        struct wg_op *o = it->payload;
        o->word_a = da;
        o->word_b = db;
        o->accumulate = accumulate;
        it->step = wg_step;
        it->pc = (u32)(i - w->code);
        it->loc = i->loc;
        start_op(w, i, it);
        check_item_begin(w, it, true);
    }
    struct wg_op *o = it->payload;
    if (!fresh)
        check_item_join(w, it);
    if (o->form != f)
        emu_fault(w, i, "the warps of the group execute different wgmma instructions");
    if (o->word_a != da || o->word_b != db || o->accumulate != accumulate)
        emu_report(w, i, EMU_DESC, "descriptors or scale-d differ between the warps of the group");
    for (int r = 0; r < f->nd; r++)
        o->d[k][r] = reg_at(w, f->regs[r]);
    for (int r = 0; r < f->na; r++)
        o->areg[k][r] = reg_at(w, f->regs[f->nd + r]);
    if (f->form.sparse)
        o->run.meta[k] = o->areg[k][f->na - 1];
    check_pending_set(w, f->regs, (u32)f->nd, true, s->committed, i->loc);
    check_item_group(w, it, 2, (u32)s->committed, ~0u);
    check_pending_set(w, f->regs + f->nd, (u32)f->na, false, s->committed, i->loc);
    o->joined |= 1u << k;
    s->issued++;
    w->cta->grid->emu->progress++;
    if (o->joined == (1u << GROUP_WARPS) - 1) {
        *slot = NULL;
        if (w->time) { /* the product, or the reading of A and B at 128 bytes a cycle */
            const double n = f->form.n, read = (f->form.a_regs ? 0 : 16) + n / 4;
            it->busy = n / 2 > read ? n / 2 : read;
        }
        item_post(w->cta->grid->emu, it, &g->agent, AG_WGMMA);
    }
    return NEXT;
}

static int op_wg_commit(struct warp *w, const struct insn *i, u32 m) {
    struct wgmma_state *s = state_of(w);
    (void)i;
    (void)m;
    s->upto[s->committed++ % COMMITS] = s->issued;
    return NEXT;
}
static int op_wg_wait(struct warp *w, const struct insn *i, u32 m) {
    struct wgmma_state *s = state_of(w);
    struct warpgroup *g = group_of(w);
    u64 keep = (u64)i->imm;
    (void)m;
    if (s->committed > keep && g->done < s->upto[(s->committed - keep - 1) % COMMITS])
        return block_on(w, wait_key(KEY_ASYNC, 1), "wgmma groups");
    if (s->committed > keep) {
        check_pending_clear(w, s->committed - keep);
        check_wgmma_done(w, (u32)(s->committed - keep));
    }
    return NEXT;
}
static int op_wg_fence(struct warp *w, const struct insn *i, u32 m) {
    (void)i;
    check_fence(w, m, FENCE_WGMMA, 0);
    return NEXT;
}

/* --- Decoders --- */

static const struct {
    const char *name;
    u8 fmt;
    bool integer, sgn;
} types[] = {{"f16", NUM_F16, false, false},
             {"bf16", NUM_BF16, false, false},
             {"tf32", NUM_TF32, false, false},
             {"e4m3", NUM_E4M3, false, false},
             {"e5m2", NUM_E5M2, false, false},
             {"s8", 0, true, true},
             {"u8", 0, true, false},
             {"f32", NUM_F32, false, false},
             {"s32", 0, true, true}};

static int type_word(struct dec *d, u32 n) {
    for (u32 k = 0; k < d->nwords; k++)
        for (u32 t = 0; t < sizeof types / sizeof *types; t++)
            if (!strcmp(d->word[k], types[t].name) && n-- == 0)
                return (int)t;
    dec_fail(d, "three types are due");
}
static s64 imm_at(struct dec *d, u32 k, s64 otherwise) {
    return k < d->nops ? dec_imm(d, &d->op[k]) : otherwise;
}

/* Metadata and selector behind A and B. */
static void sparse_operands(struct dec *d, struct wg_form *f, ref *meta) {
    *meta = dec_src(d, &d->op[3], T_B32);
    const s64 selector = dec_imm(d, &d->op[4]);
    const s64 most = f->form.integer || f->form.a == NUM_E4M3 || f->form.a == NUM_E5M2 ? 0 : 1;
    if (selector < 0 || selector > most)
        dec_fail(d, "the sparsity selector is past the threads that this shape has");
    f->selector = (u32)selector;
}

static struct wgmma_form form_of(struct dec *d) {
    u32 m, n, k;
    const char *shape = dec_prefix(d, "m64");
    if (!shape || sscanf(shape - 3, "m%un%uk%u", &m, &n, &k) != 3)
        dec_fail(d, "a shape m64nNkK is due");
    const int td = type_word(d, 0), ta = type_word(d, 1), tb = type_word(d, 2);
    return (struct wgmma_form){.n = n,
                               .k = k,
                               .integer = types[ta].integer,
                               .a = types[ta].fmt,
                               .b = types[tb].fmt,
                               .a_signed = types[ta].sgn,
                               .b_signed = types[tb].sgn,
                               .d_f16 = types[td].fmt == NUM_F16 && !types[td].integer,
                               .a_regs = d->op[1].kind == OP_VEC,
                               .saturate = dec_has(d, "satfinite"),
                               .sparse = dec_has(d, "sp")};
}

void dec_wgmma(struct dec *d) {
    struct wg_form f = {.form = form_of(d)};
    const u32 at = f.form.sparse ? 5 : 3; /* scale-d */
    dec_nops(d, at + 1, at + 5);
    const char *why = wgmma_check(&f.form, &f.nd, &f.na);
    if (why)
        dec_fail(d, "%s", why);
    if (f.nd > 132 || f.na > 8)
        dec_fail(d, "too many registers");
    struct wg_form *p = dec_alloc(d, sizeof f + (size_t)(f.nd + f.na + 1) * sizeof(ref));
    u32 pending = d->p->nuses;
    dec_vec(d, &d->op[0], T_B32, true, p->regs, (u32)f.nd);
    d->p->nuses = pending; /* wgmma orders its own accumulators: no register check */
    if (f.form.a_regs) {
        dec_vec(d, &d->op[1], T_B32, false, p->regs + f.nd, (u32)f.na);
    } else {
        f.desc_a = dec_src(d, &d->op[1], T_B64);
        f.na = 0;
    }
    f.desc_b = dec_src(d, &d->op[2], T_B64);
    if (f.form.sparse)
        sparse_operands(d, &f, p->regs + f.nd + f.na++);
    f.scale_d = dec_pred(d, &d->op[at], false);
    f.neg_a = imm_at(d, at + 1, 1) < 0;
    f.neg_b = imm_at(d, at + 2, 1) < 0;
    f.trans_a = f.form.a_regs ? false : imm_at(d, at + 3, 0) != 0;
    f.trans_b = imm_at(d, f.form.a_regs ? at + 3 : at + 4, 0) != 0;
    for (int r = 0; r < f.nd + f.na; r++)
        p->regs[r] &= ~3u;
    size_t tail = offsetof(struct wg_form, regs);
    memcpy(p, &f, tail);
    d->in->ops = (const void *)p;
    d->in->fn = op_wgmma;
}
void dec_wgmma_commit(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->fn = op_wg_commit;
}
void dec_wgmma_wait(struct dec *d) {
    dec_nops(d, 1, 1);
    d->in->imm = dec_imm(d, &d->op[0]);
    if (d->in->imm < 0 || d->in->imm > 7)
        dec_fail(d, "a count from 0 to 7 is due");
    d->in->fn = op_wg_wait;
}
void dec_wgmma_fence(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->fn = op_wg_fence;
}
