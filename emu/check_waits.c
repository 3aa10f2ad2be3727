/* check_waits.c: lanes that may come late to an mbarrier.
 *
 * Lanes of a warp wait for a phase by its parity, each on its own.  When the next phase completes
 * too before a lane has asked, the parity means a phase further on, which often needs this very
 * warp: a hang that only independent lanes show.  So whatever lets the next phase complete must
 * come after the wait of every lane: after an instruction with .sync that all of them executed, or
 * from each lane itself.  (This is about when lanes run, not about memory: shfl, vote and the
 * tensor-core instructions count.)
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

void check_together(struct warp *w) {
    if (w->check)
        w->check->together++;
}

/* Lanes of `lanes`, which waited at x, that nothing known up to epoch `known` comes after. */
static u32 lanes_behind(const struct warp_check *k, const struct mbar_waiter *x, u32 known) {
    u32 lanes = x->lanes;
    for (u32 e = known; lanes && e && e >= x->epoch; e--) {
        const struct snapshot *s = &k->log[e % SNAPSHOTS];
        if (known - e >= SNAPSHOTS / 2 || s->epoch > e)
            return 0; /* forgotten */
        if (s->epoch < e)
            continue;
        if (s->together != x->together)
            return 0;
        lanes &= ~s->lanes;
    }
    return lanes;
}

void check_wait_seen(struct warp *w, const struct insn *i, struct mbarrier *b) {
    const struct warp_check *k = w->check;
    struct mbar_waiter *x = &b->waiter[w->id];
    const u32 epoch = clk_g(k->clock)[k->agent];
    u32 before = 0;
    if (x->lanes && x->phase == (u32)b->phase) /* other lanes came earlier */
        before = x->together == k->together ? lanes_behind(k, x, epoch) : 0;
    *x = (struct mbar_waiter){.phase = (u32)b->phase,
                              .lanes = before | k->active,
                              .epoch = epoch,
                              .together = k->together,
                              .loc = i->loc};
}

/* The phase that follows the one that warps have seen completes. */
void check_wait_flip(struct emu *e, struct cta *c, const struct mbarrier *b, struct clock *known) {
    for (u32 n = 0; known && n < c->nwarps; n++) {
        const struct mbar_waiter *x = &b->waiter[n];
        const struct warp_check *k = &c->check->warp[n];
        if (!x->lanes || x->phase != (u32)b->phase || known->cluster != k->clock->cluster ||
            clk_g(known)[k->agent] < x->epoch)
            continue;
        const u32 left = lanes_behind(k, x, clk_g(known)[k->agent]);
        char at[300];
        if (left)
            emu_report_at(e, c, n, x->loc, EMU_WARP,
                          "mbarrier at 0x%x: the phase after this wait completes (at %s) although "
                          "lane %d may not have asked yet: what let it came after other lanes' "
                          "wait, with no bar.warp.sync between",
                          b->addr, loc_text(e, c->grid->fn, e->at->loc, at, sizeof at),
                          __builtin_ctz(left));
    }
}
