/* op_clc.c: cluster launch control (PTX ISA, clusterlaunchcontrol): a running cluster takes over
 * the work of one that has not started.
 *
 * The 16-byte answer: first ctaid x, y, z, then 1 when a cluster was taken, else 0.  It is opaque
 * to the program, which reads it with query_cancel. SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"

struct cancel {
    u32 off, mbar, ctas; /* ranks that get the answer */
};

/* Takes the next cluster of the grid; false when none is left. */
static bool take_cluster(struct grid *g, u32 out[4]) {
    if (g->next_cluster == g->nclusters)
        return false;
    u32 index = g->order[g->next_cluster++], nd[3];
    for (u32 k = 0; k < 3; k++)
        nd[k] = g->dim[k] / g->cluster_dim[k];
    out[0] = index % nd[0] * g->cluster_dim[0];
    out[1] = index / nd[0] % nd[1] * g->cluster_dim[1];
    out[2] = index / nd[0] / nd[1] * g->cluster_dim[2];
    out[3] = 1;
    g->done_clusters++;
    g->ctas_launched += (u64)g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
    return true;
}

static bool cancel_step(struct emu *e, struct item *it) {
    const struct cancel *x = it->payload;
    u32 answer[4] = {0, 0, 0, 0};
    e->running = &it->cta->warps[it->warp];
    e->at = &it->grid->fn->code[it->pc];
    take_cluster(it->grid, answer);
    for (u32 r = 0; r < it->cta->cluster->n; r++) {
        if (!(x->ctas >> r & 1))
            continue;
        struct cta *c = it->cta->cluster->cta[r];
        check_item_smem(e, it, c, x->off, 16, true, true);
        memcpy(c->smem + x->off, answer, 16);
        c->outstanding--;
    }
    struct clock *done = check_item_done(e, it);
    for (u32 r = 0; r < it->cta->cluster->n; r++)
        if (x->ctas >> r & 1)
            mbar_complete_tx(e, it->cta->cluster->cta[r], x->mbar, 16, done);
    return true;
}

/* n: multicast to the whole cluster */
static int op_try_cancel(struct warp *w, const struct insn *i, u32 m) {
    struct cluster *cl = w->cta->cluster;
    FOR_LANES(l, m) {
        u32 off, mbar;
        u64 a = lane_address(w, i, i->a, l),
            b = lane_value(w, i->b, l, i->flags & (1u << MEM_FLAGS)) + (u64)(s64)(s32)i->target;
        if ((a & WIN_MASK) == WIN_SHARED)
            a &= 0xffffffff;
        if ((b & WIN_MASK) == WIN_SHARED)
            b &= 0xffffffff;
        if (a >> 32 || b >> 32 || (a & 15) || (b & 7))
            emu_fault(
                w, i,
                "lane %u: answer at 0x%llx, mbarrier at 0x%llx: multiples of 16 and 8 are due", l,
                (unsigned long long)a, (unsigned long long)b);
        mem_shared(w, i, l, SP_SHARED, (u32)a, 16, &off);
        struct cta *c = mem_shared(w, i, l, SP_SHARED, (u32)b, 8, &mbar);
        struct mbarrier *bar = mbar_find(c, mbar);
        if (!bar)
            emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x", l, mbar);
        check_mbar_use(w, i, c, bar);
        check_mbar_async(w->cta->grid->emu, c, bar);
        struct item *it = item_new(w, l, sizeof(struct cancel));
        struct cancel *x = it->payload;
        *x = (struct cancel){off, mbar, i->n ? (1u << cl->n) - 1 : 1u << w->cta->rank};
        for (u32 r = 0; r < cl->n; r++)
            if (x->ctas >> r & 1)
                cl->cta[r]->outstanding++;
        it->step = cancel_step;
        it->pc = (u32)(i - w->code);
        it->loc = i->loc;
        check_item_begin(w, it, true);
        item_post(w->cta->grid->emu, it, NULL, AG_CLC);
    }
    return NEXT;
}
void dec_try_cancel(struct dec *d) {
    struct insn *in = d->in;
    bool wide;
    s64 off;
    dec_nops(d, 2, 2);
    in->a = dec_addr(d, &d->op[0], SP_SHARED, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0;
    in->b = dec_addr(d, &d->op[1], SP_SHARED, &off, &wide);
    in->flags |= wide ? 1u << MEM_FLAGS : 0u;
    in->target = (u32)(s32)off;
    in->n = dec_has(d, "multicast::cluster::all");
    in->fn = op_try_cancel;
}

static const u32 *answer_of(struct warp *w, const struct insn *i, u32 l) {
    const u32 *v = (const u32 *)reg_at(w, i->a) + 4 * l;
    if (v[3] > 1)
        emu_fault(w, i, "lane %u: this is not an answer of clusterlaunchcontrol.try_cancel", l);
    return v;
}
static int op_is_canceled(struct warp *w, const struct insn *i, u32 m) {
    u32 p = 0;
    FOR_LANES(l, m) p |= answer_of(w, i, l)[3] << l;
    pred_set(w, i->d, m, p);
    return NEXT;
}
/* n: 4 all of it, else one dimension at imm */
static int op_first_ctaid(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        const u32 *v = answer_of(w, i, l);
        if (!v[3])
            emu_report(w, i, EMU_UNINIT,
                       "lane %u: the request was not granted: its ctaid is undefined", l);
        if (i->n == 1)
            ((u32 *)reg_at(w, i->d))[l] = v[i->imm];
        for (u32 k = 0; i->n == 4 && k < 4; k++)
            ((u32 *)reg_at(w, i->ops[k]))[l] = k < 3 ? v[k] : 0;
    }
    return NEXT;
}
void dec_query_cancel(struct dec *d) {
    static const char *const dims[] = {"get_first_ctaid::x", "get_first_ctaid::y",
                                       "get_first_ctaid::z", NULL};
    struct insn *in = d->in;
    dec_nops(d, 2, 2);
    if (dec_has(d, "is_canceled")) {
        in->d = dec_pred(d, &d->op[0], true);
        in->fn = op_is_canceled;
    } else if (dec_has(d, "get_first_ctaid")) {
        in->n = 4;
        dec_vec(d, &d->op[0], T_B32, true, dec_refs(d, 4), 4);
        in->fn = op_first_ctaid;
    } else {
        int k = dec_one_of(d, dims);
        if (k < 0)
            dec_fail(d, "a query is due");
        in->n = 1;
        in->imm = k;
        in->d = dec_dst(d, &d->op[0], T_B32);
        in->fn = op_first_ctaid;
    }
    in->a = dec_src(d, &d->op[1], T_B128);
}
