/* op_sync.c: barriers of the CTA and the cluster, fences, grid dependencies, register budgets.
 * mbarriers are in op_mbar.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "check.h"
#include <stdlib.h>

/* --- bar and barrier (PTX ISA, bar, barrier) --- */

enum { BAR_SYNC, BAR_ARRIVE, BAR_RED };

static void bar_release(struct cta *c, u32 id) {
    struct named_barrier *b = &c->bar[id];
    b->generation++;
    b->arrived = 0;
    b->expected = 0;
    b->warps = 0;
    b->out_and = b->red_and;
    b->out_or = b->red_or;
    b->out_popc = b->red_popc;
    b->red_and = 1;
    b->red_or = b->red_popc = 0;
    c->grid->emu->progress++;
    check_bar_release(c, b);
    cta_wake(c, wait_key(KEY_BAR, id));
}

static u32 bar_expected(const struct cta *c, const struct named_barrier *b) {
    return b->expected ? b->expected : c->live_warps * LANES;
}

static void bar_arrive(struct warp *w, const struct insn *i, u32 m, u32 id, u32 expected) {
    struct cta *c = w->cta;
    struct named_barrier *b = &c->bar[id];
    if (expected % LANES)
        emu_fault(w, i, "barrier %u: %u threads is not a multiple of the warp size", id, expected);
    if (expected > ((c->nthreads + 31u) & ~31u))
        emu_fault(w, i, "barrier %u expects %u threads, the CTA has %u", id, expected, c->nthreads);
    if (b->arrived && b->expected != expected)
        emu_report(w, i, EMU_BARRIER, "barrier %u: this warp expects %u threads, others %u", id,
                   expected ? expected : c->nthreads, b->expected ? b->expected : c->nthreads);
    if (!b->arrived) {
        b->red_and = 1;
        b->red_or = b->red_popc = 0;
    }
    b->expected = expected;
    b->arrived += m == w->live ? LANES : (u32)__builtin_popcount(m);
    b->warps |= 1u << w->id;
    c->grid->emu->progress++;
    check_bar_arrive(w, b);
}

/* sem: aligned form; n: kind; imm: 0 popc, 1 and, 2 or */
static int op_bar(struct warp *w, const struct insn *i, u32 m) {
    struct split *s = &w->splits[w->cur];
    struct cta *c = w->cta;
    u32 l = (u32)__builtin_ctz(m), id = ((const u32 *)reg_at(w, i->a))[l];
    u32 expected = i->b == REF_NONE ? 0 : ((const u32 *)reg_at(w, i->b))[l];
    if (id >= NAMED_BARRIERS)
        emu_fault(w, i, "barrier %u: there are %d", id, NAMED_BARRIERS);
    struct named_barrier *b = &c->bar[id];
    if (!s->token) {
        if (i->sem && m != w->live)
            emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x of 0x%08x", m, w->live);
        bar_arrive(w, i, m, id, expected);
        if (i->n == BAR_RED) {
            u32 p = pred_at(w, i->c) & m;
            b->red_and &= p == m;
            b->red_or |= p != 0;
            b->red_popc += (u32)__builtin_popcount(p);
        }
        s->token = b->generation + 1;
        if (b->arrived >= bar_expected(c, b)) {
            if (b->arrived > bar_expected(c, b))
                emu_report(w, i, EMU_BARRIER, "barrier %u: %u threads arrived, %u expected", id,
                           b->arrived, bar_expected(c, b));
            bar_release(c, id);
        }
    }
    if (i->n == BAR_ARRIVE) {
        s->token = 0;
        return NEXT;
    }
    if (b->generation == s->token - 1)
        return block_on(w, wait_key(KEY_BAR, id), "barrier");
    s->token = 0;
    check_bar_pass(w, b);
    if (i->n == BAR_RED) {
        if (i->imm == 0) {
            u32 *d = reg_at(w, i->d);
            FOR_LANES(k, m) d[k] = b->out_popc;
        } else {
            pred_set(w, i->d, m, (i->imm == 1 ? b->out_and : b->out_or) ? ~0u : 0);
        }
    }
    return NEXT;
}

/* A warp left the CTA: barriers without a count expect fewer. */
void barrier_thread_exit(struct warp *w) {
    struct cta *c = w->cta;
    for (u32 id = 0; id < NAMED_BARRIERS; id++) {
        struct named_barrier *b = &c->bar[id];
        if (b->arrived && !b->expected && b->arrived >= (c->live_warps - 1) * LANES)
            bar_release(c, id);
    }
}

void dec_bar(struct dec *d) {
    static const char *const ops[] = {"popc", "and", "or", NULL};
    struct insn *in = d->in;
    u32 at = 0;
    in->n = dec_has(d, "arrive") ? BAR_ARRIVE : dec_has(d, "red") ? BAR_RED : BAR_SYNC;
    in->sem = !strncmp(d->text, "bar.", 4) || dec_has(d, "aligned");
    if (in->n == BAR_RED) {
        in->imm = dec_one_of(d, ops);
        in->d = in->imm ? dec_pred(d, &d->op[0], true) : dec_dst(d, &d->op[0], T_U32);
        at = 1;
        in->c = dec_pred(d, &d->op[d->nops - 1], false);
        d->nops--;
    }
    dec_nops(d, at + 1, at + 2);
    in->a = dec_src(d, &d->op[at], T_U32);
    if (d->nops > at + 1)
        in->b = dec_src(d, &d->op[at + 1], T_U32);
    if (in->n == BAR_ARRIVE && in->b == REF_NONE)
        dec_fail(d, "arrive needs a thread count");
    in->fn = op_bar;
}

/* --- barrier.cluster --- */

void cluster_barrier_start(struct cluster *cl) {
    const struct grid *g = cl->cta[0]->grid;
    cl->expected = cl->n * g->block[0] * g->block[1] * g->block[2];
}

static void cluster_try(struct cluster *cl) {
    if (!cl->arrived || cl->arrived < cl->expected)
        return;
    cl->arrived = 0;
    cl->generation++;
    check_cluster_release(cl);
    cl->cta[0]->grid->emu->progress++;
    for (u32 r = 0; r < cl->n; r++)
        cta_wake(cl->cta[r], wait_key(KEY_CLUSTER, 0));
}

void cluster_lanes_exit(struct warp *w, u32 m) {
    struct cluster *cl = w->cta->cluster;
    cl->expected -= (u32)__builtin_popcount(m);
    if (w->cluster_arrived & m) /* arrived, then exited: neither counts any more */
        cl->arrived -=
            w->cluster_gen == cl->generation ? (u32)__builtin_popcount(w->cluster_arrived & m) : 0;
    cluster_try(cl);
}
void cluster_barrier_exit(struct cta *c) {
    (void)c;
}

static int op_cluster_arrive(struct warp *w, const struct insn *i, u32 m) {
    struct cluster *cl = w->cta->cluster;
    if (w->cluster_arrived & m)
        emu_report(w, i, EMU_BARRIER, "barrier.cluster: lanes 0x%08x arrive twice without waiting",
                   w->cluster_arrived & m);
    if (i->n && m != w->live)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x of 0x%08x", m, w->live);
    w->cluster_arrived |= m;
    w->cluster_gen = cl->generation;
    cl->arrived += (u32)__builtin_popcount(m);
    check_cluster_arrive(w, !(i->sem & SEM_RELAXED));
    w->cta->grid->emu->progress++;
    cluster_try(cl);
    return NEXT;
}
static int op_cluster_wait(struct warp *w, const struct insn *i, u32 m) {
    struct cluster *cl = w->cta->cluster;
    if (m & ~w->cluster_arrived)
        emu_fault(w, i, "barrier.cluster.wait: lanes 0x%08x have not arrived",
                  m & ~w->cluster_arrived);
    if (cl->generation == w->cluster_gen)
        return block_on(w, wait_key(KEY_CLUSTER, 0), "barrier.cluster");
    w->cluster_arrived &= ~m;
    check_cluster_pass(w);
    return NEXT;
}
void dec_barcluster(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->sem = dec_sem(d);
    d->in->n = dec_has(d, "aligned");
    d->in->fn = dec_has(d, "arrive") ? op_cluster_arrive
                : dec_has(d, "wait") ? op_cluster_wait
                                     : NULL;
}

/* --- Fences --- */

static int op_fence(struct warp *w, const struct insn *i, u32 m) {
    check_fence(w, m, (enum fence_kind)i->n, i->sem);
    return NEXT;
}
void dec_fence(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->sem = dec_sem(d);
    if (!(d->in->sem & 15))
        d->in->sem |= SEM_ACQ_REL;
    d->in->n = FENCE_MEMORY;
    d->in->fn = op_fence;
}
void dec_membar(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->sem = (u8)(SEM_ACQ_REL | (dec_has(d, "gl")    ? SCOPE_GPU
                                     : dec_has(d, "sys") ? SCOPE_SYS
                                                         : SCOPE_CTA));
    d->in->n = FENCE_MEMORY;
    d->in->fn = op_fence;
}
void dec_fence_proxy(struct dec *d) {
    dec_nops(d, 0, 2);
    d->in->n = dec_prefix(d, "tensormap")                                   ? FENCE_TENSORMAP
               : dec_has(d, "alias")                                        ? FENCE_ALIAS
               : dec_has(d, "shared::cta") || dec_has(d, "shared::cluster") ? FENCE_ASYNC_SHARED
               : dec_has(d, "global")                                       ? FENCE_ASYNC_GLOBAL
                                                                            : FENCE_ASYNC;
    d->in->fn = op_fence;
}
void dec_fence_init(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->n = FENCE_MBARRIER_INIT;
    d->in->fn = op_fence;
}

/* --- griddepcontrol --- */

static int op_launch_dependents(struct warp *w, const struct insn *i, u32 m) {
    (void)i;
    (void)m;
    grid_cta_launched(w->cta);
    w->cta->grid->emu->progress++;
    return NEXT;
}
void emu_wake_grid(struct emu *e) {
    for (u32 c = 0; c < e->nclusters; c++)
        for (u32 r = 0; r < e->clusters[c]->n; r++)
            cta_wake(e->clusters[c]->cta[r], wait_key(KEY_GRID, 0));
}
static int op_griddep_wait(struct warp *w, const struct insn *i, u32 m) {
    (void)i;
    (void)m;
    if (w->cta->grid->primary)
        return block_on(w, wait_key(KEY_GRID, 0), "the end of the primary grid");
    check_griddep_wait(w);
    return NEXT;
}
void dec_griddep(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->fn = dec_has(d, "wait")                ? op_griddep_wait
                : dec_has(d, "launch_dependents") ? op_launch_dependents
                                                  : NULL;
}

/* --- setmaxnreg --- */

static int op_setmaxnreg(struct warp *w, const struct insn *i, u32 m) {
    struct cta *c = w->cta;
    u32 n = (u32)i->imm;
    if (m != w->live)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x of 0x%08x", m, w->live);
    if (!c->reg_budget)
        return NEXT; /* ptxas ignores it without a register bound (.maxnreg, .minnctapersm) */
    if (i->n ? n < w->nreg : n > w->nreg)
        emu_fault(w, i, "setmaxnreg.%s %u, the warp has %u registers a thread",
                  i->n ? "inc" : "dec", n, w->nreg);
    if (i->n && (n - w->nreg) * LANES > c->regs_free)
        return block_on(w, wait_key(KEY_REGS, 0), "registers that other warps give back");
    c->regs_free += (w->nreg - n) * LANES;
    w->nreg = n;
    c->grid->emu->progress++;
    cta_wake(c, wait_key(KEY_REGS, 0));
    return NEXT;
}
void dec_setmaxnreg(struct dec *d) {
    dec_nops(d, 1, 1);
    d->in->imm = dec_imm(d, &d->op[0]);
    if (d->in->imm < 24 || d->in->imm > 256 || d->in->imm % 8)
        dec_fail(d, "%lld is not a multiple of 8 from 24 to 256", (long long)d->in->imm);
    d->in->n = dec_has(d, "inc");
    struct function *f = d->p->fn;
    if (f->set_nreg < (u32)d->in->imm)
        f->set_nreg = (u32)d->in->imm;
    d->in->fn = op_setmaxnreg;
}
