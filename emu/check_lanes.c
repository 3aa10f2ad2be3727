/* check_lanes.c: order between the lanes of a warp.
 *
 * Clocks are those of warps.  Lanes of a warp run on their own, though: what one wrote, another may
 * read only after a barrier that both took part in (bar.warp.sync, bar, barrier.cluster, or a
 * release by one that the other acquired), and an arrival or a copy that one lane issues covers
 * what the other lanes did before such a barrier only.  shfl, vote and the like order no memory
 * (PTX ISA, bar.warp.sync).
 *
 * met is the epoch of the last barrier; each snapshot of the warp's clock remembers it and the
 * lanes that gave it out.  Barriers of a part of the warp count as if all took part.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

void lanes_meet(struct warp *w) {
    struct warp_check *k = w->check;
    k->met = clk_g(k->clock)[k->agent];
    clock_bump(w);
    k->together++;
}

void lanes_snapshot(struct warp *w, u32 lanes) {
    struct warp_check *k = w->check;
    const u32 epoch = clk_g(k->clock)[k->agent];
    struct snapshot *s = &k->log[epoch % SNAPSHOTS];
    if (s->epoch != epoch)
        *s = (struct snapshot){.epoch = epoch};
    s->lanes |= lanes;
    s->met = k->met;
    s->together = k->together;
}

u32 lanes_left(const struct warp_check *k, u32 lanes, u32 epoch, u32 known) {
    for (u32 e = known; lanes && e && e >= epoch; e--) {
        const struct snapshot *s = &k->log[e % SNAPSHOTS];
        if (known - e >= SNAPSHOTS / 2 || s->epoch > e)
            return 0; /* forgotten: too long ago, or the warp has gone too far since */
        if (s->epoch < e)
            continue;
        if (epoch <= s->met)
            return 0;
        lanes &= ~s->lanes;
    }
    return lanes;
}

/* The warp behind `who`, when it is one of the actor's cluster. */
static const struct warp_check *warp_of(const struct actor *a, u32 who) {
    const u32 agent = who & WHO_AGENT, rank = agent / AGENTS, warp = agent % AGENTS;
    const struct cluster *cl = a->cta->cluster;
    if (warp >= MAX_WARPS || who >> WHO_BITS != a->clock->cluster || rank >= cl->n)
        return NULL;
    return cl->cta[rank]->check ? &cl->cta[rank]->check->warp[warp] : NULL;
}

/* Lanes of `lanes`, which accessed at `epoch`, that nothing orders before a. */
static u32 unordered(const struct actor *a, u32 who, u32 lanes, u32 epoch) {
    if (who == a->who)
        return a->lane == NO_LANE || epoch <= a->self->met ? 0 : lanes & ~(1u << a->lane);
    const struct warp_check *k = warp_of(a, who);
    return k ? lanes_left(k, lanes, epoch, clk_g((struct clock *)a->clock)[who & WHO_AGENT]) : 0;
}

static void say(struct actor *a, const char *what, const char *space, u64 addr, u32 who, u32 lanes,
                u32 loc) {
    char at[300];
    emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_LANES,
                  "%s: %s 0x%llx by lane %d of warp %u at %s: no bar.warp.sync lies between it and "
                  "this, or what this waited for",
                  what, space, (unsigned long long)addr, __builtin_ctz(lanes),
                  (who & WHO_AGENT) % AGENTS,
                  loc_text(a->e, a->cta->grid->fn, loc & LOC_MASK, at, sizeof at));
}

void lanes_check_write(struct actor *a, const struct cell *x, bool write, const char *space,
                       u64 addr) {
    if (x->w_lane == NO_LANE || (a->atomic && x->w_loc & LOC_ATOMIC) || (write && a->same))
        return;
    const u32 left = unordered(a, x->w_who, 1u << x->w_lane, x->w_epoch);
    if (left)
        say(a, write ? "write after a write" : "read after a write", space, addr, x->w_who, left,
            x->w_loc);
}

void lanes_check_reads(struct actor *a, const struct cell *x, int k, const char *space, u64 addr) {
    if (k || !x->r_lanes || (a->atomic && x->r_loc & LOC_ATOMIC))
        return;
    const u32 left = unordered(a, x->r_who[0], x->r_lanes, x->r_epoch[0]);
    if (left)
        say(a, "write after a read", space, addr, x->r_who[0], left, x->r_loc);
}
