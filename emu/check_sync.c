/* check_sync.c: what barriers, mbarriers and grid dependencies pass on, and their misuse.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

/* --- bar, barrier.cluster --- */

void check_warp_sync(struct warp *w, u32 m) {
    (void)m;
    if (w->check)
        lanes_meet(w);
}
void check_bar_arrive(struct warp *w, struct named_barrier *b) {
    if (!w->check)
        return;
    lanes_meet(w);
    clock_add(w->cta->grid->emu, &b->clock, clock_release(w));
}
void check_bar_release(struct cta *c, struct named_barrier *b) {
    (void)c;
    clock_drop(b->out_clock);
    b->out_clock = b->clock;
    b->clock = NULL;
}
void check_bar_pass(struct warp *w, struct named_barrier *b) {
    if (w->check)
        clock_acquire(w, b->out_clock);
}
void check_cluster_arrive(struct warp *w, bool release) {
    if (!w->check)
        return;
    lanes_meet(w);
    clock_add(w->cta->grid->emu, &w->cta->cluster->clock,
              check_release_clock(w, release ? SEM_RELEASE : 0, true));
}
void check_cluster_release(struct cluster *cl) {
    clock_drop(cl->out_clock);
    cl->out_clock = cl->clock;
    cl->clock = NULL;
}
void check_cluster_pass(struct warp *w) {
    if (!w->check)
        return;
    clock_acquire(w, w->cta->cluster->out_clock);
    w->check->cluster_passed = true;
    w->check->passed_gen = w->cta->cluster->generation;
}
void cluster_barrier_free(struct cluster *cl) {
    clock_drop(cl->clock);
    clock_drop(cl->out_clock);
    cl->clock = cl->out_clock = NULL;
}

void check_griddep_wait(struct warp *w) {
    w->cta->grid->waited = true;
    if (w->check)
        w->check->grid_acquired = true;
}

/* --- mbarrier --- */

void check_mbar_init(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b) {
    struct actor a;
    if (!w->check)
        return;
    warp_actor(w, i, &a);
    shadow_smem(&a, c, b->addr, 8, true);
    for (u32 g = 0; g < 2; g++)
        c->check->cell[b->addr / 4 + g].w_loc |= LOC_MBAR;
    b->init_who = a.who;
    b->init_epoch = a.epoch;
    b->init_loc = i->loc;
}
void check_mbar_inval(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b) {
    struct actor a;
    if (!w->check)
        return;
    warp_actor(w, i, &a);
    for (u32 g = 0; g < 2; g++) {
        struct cell *x = &c->check->cell[b->addr / 4 + g];
        *x = (struct cell){.w_who = a.who,
                           .w_epoch = a.epoch,
                           .w_loc = i->loc | 15u << LOC_BYTES,
                           .w_lane = NO_LANE};
    }
}
void check_mbar_use(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b) {
    if (!w->check || !b->init_who)
        return;
    /* the fence orders the initialisation before a relaxed barrier.cluster, too */
    const struct warp_check *init = &c->check->warp[(b->init_who & WHO_AGENT) % AGENTS];
    bool by_fence =
        init->mbar_fence >= b->init_epoch && w->check->passed_gen > init->init_fence_gen;
    if (b->init_who != w->check->who && !by_fence &&
        !clock_knows(w->check->clock, b->init_who, b->init_epoch, GENERIC))
        emu_report(w, i, EMU_MBARRIER,
                   "mbarrier at 0x%x of CTA %u: its initialisation is not ordered before this use",
                   b->addr, c->rank);
    if (c != w->cta && !w->check->cluster_passed)
        emu_report(w, i, EMU_DSMEM,
                   "mbarrier of CTA %u of the cluster before a barrier.cluster showed that it runs",
                   c->rank);
}
/* The async proxy or another CTA uses it: the initialising thread must have fenced. */
void check_mbar_async(struct emu *e, struct cta *c, struct mbarrier *b) {
    if (!b->init_who || b->fence_seen || !c->check)
        return;
    struct warp_check *k = &c->check->warp[(b->init_who & WHO_AGENT) % AGENTS];
    b->fence_seen = true;
    if (k->mbar_fence < b->init_epoch)
        emu_report(e->running, e->at, EMU_MBARRIER,
                   "mbarrier at 0x%x of CTA %u: used by an asynchronous operation, but no "
                   "fence.mbarrier_init or "
                   "fence.proxy.async follows its initialisation",
                   b->addr, c->rank);
}
void check_mbar_release(struct emu *e, struct mbarrier *b, struct clock *c) {
    if (!c || (b->clock && b->last_serial == c->serial))
        return;
    clock_add(e, &b->clock, c);
    b->last_serial = c->serial;
}
void check_mbar_flip(struct emu *e, struct cta *c, struct mbarrier *b) {
    if (!c->check)
        return;
    clock_drop(b->out_clock);
    b->out_clock = b->clock;
    b->clock = NULL;
    b->last_serial = 0;
    check_wait_flip(e, c, b, b->out_clock);
    /* phase b->phase completes now: who waits for every phase must have seen the one before,
     * unless its parity says that it waits for this one (warps that take turns) */
    for (u32 k = 0; b->phase >= 1 && k < c->nwarps; k++)
        if (b->waits[k] >= 2 && b->wanted[k] + 1 == b->phase && b->parked >> k & 1)
            emu_report(e->running, e->at, EMU_PHASE,
                       "mbarrier at 0x%x: phase %llu completes while warp %u, which waits for "
                       "every phase, still waits for phase %llu",
                       b->addr, (unsigned long long)b->phase, k, (unsigned long long)b->phase - 1);
}
/* waits: successful waits of each warp; seen: completed phases at the last of them. */
void check_mbar_wait(struct warp *w, const struct insn *i, struct mbarrier *b, bool done) {
    if (!w->check)
        return;
    if (!done) {
        if (i->n && b->waits[w->id] >= 2 && b->phase >= b->seen[w->id] + 2)
            emu_report(w, i, EMU_PHASE,
                       "mbarrier at 0x%x: the phase that warp %u waits for has come and gone (%llu "
                       "phases since its last wait)",
                       b->addr, w->id, (unsigned long long)(b->phase - b->seen[w->id]));
        b->parked |= 1u << w->id;
        b->wanted[w->id] = b->phase;
        return;
    }
    b->parked &= ~(1u << w->id);
    if (i->n)
        check_wait_seen(w, i, b);
    if (b->phase != b->seen[w->id]) {
        b->waits[w->id] = b->phase == b->seen[w->id] + 1
                              ? (u8)(b->waits[w->id] < 250 ? b->waits[w->id] + 1 : 250)
                              : 1;
        b->seen[w->id] = b->phase;
    }
}
void check_mbar_acquire(struct warp *w, const struct insn *i, struct mbarrier *b, u32 sem) {
    (void)i;
    if (!w->check || !b->out_clock)
        return;
    if (sem & SEM_ACQUIRE) {
        clock_acquire(w, b->out_clock);
    } else {
        clock_add(w->cta->grid->emu, &w->check->relaxed[IN_CTA], b->out_clock);
        clock_add_tensor(w->cta->grid->emu, &w->check->clock, b->out_clock);
    }
}
