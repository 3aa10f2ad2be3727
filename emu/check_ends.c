/* check_ends.c: what a CTA leaves behind.  Neither is a fault by itself, so both are options.
 *
 * balance: a phase with some of its arrivals, or with bytes still due, when nothing of the cluster
 * runs any more.  An arrival count is wrong, or an arrival or a copy is missing: another round of
 * the ring would hang or run ahead.  Some pipelines end like that on purpose.
 *
 * unread: data that nothing read before it was written over or its CTA ended: what a bulk copy
 * brought, tensor memory, and what threads wrote into a 1024-byte block of which the async proxy
 * read a part, that is, an operand.  A wrong shape, layout or stride and a missing product show so.
 * Kernels load tails that they do not use: it is for launches that use all they load.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include <string.h>

/* Did the async proxy read something of the 1024 bytes around cell g? */
static bool in_operand(const struct cta *c, u32 g) {
    const u32 first = g & ~255u;
    for (u32 k = first; k < first + 256 && k < c->smem_hi / 4; k++) {
        const struct cell *x = &c->check->cell[k];
        if ((x->r_who[0] | x->r_who[1]) && x->r_loc & LOC_ASYNC)
            return true;
    }
    return false;
}

static void say_unread(struct actor *a, const struct cell *x, const char *space, u32 at, bool end) {
    char here[300];
    if (end)
        a->loc = x->w_loc & LOC_MASK;
    if (end)
        emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_UNREAD,
                      "%s 0x%x: nothing reads what is written here", space, at);
    else
        emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_UNREAD,
                      "%s 0x%x: written over, but nothing read what was written at %s", space, at,
                      loc_text(a->e, a->cta->grid->fn, x->w_loc & LOC_MASK, here, sizeof here));
}

void check_unread(struct actor *a, struct cta *c, u32 g, bool end) {
    const struct cell *x = &c->check->cell[g];
    if (x->w_loc & (LOC_MBAR | LOC_ATOMIC) || (!(x->w_loc & LOC_ASYNC) && !in_operand(c, g)))
        return;
    say_unread(a, x, "shared memory at", g * 4, end);
}
void check_unread_tmem(struct actor *a, const struct cell *x, u32 column, bool end) {
    say_unread(a, x, "tensor memory, column", column, end);
}

static void unread_at_end(struct cta *c) {
    struct actor a = {.e = c->grid->emu, .cta = c};
    for (u32 g = c->smem_lo / 4; g < c->smem_hi / 4; g++)
        if (unread(&c->check->cell[g])) {
            a.warp = (c->check->cell[g].w_who & WHO_AGENT) % AGENTS;
            check_unread(&a, c, g, true);
        }
}

void check_cta_end(struct cta *c) {
    struct emu *e = c->grid->emu;
    if (!c->check)
        return;
    for (u32 k = 0; e->opt.balance && k < c->nmbar; k++) {
        const struct mbarrier *b = &c->mbar[k];
        if (b->live && b->init_who && (b->pending != b->expected || b->tx))
            emu_report_at(e, c, (b->init_who & WHO_AGENT) % AGENTS, b->init_loc, EMU_BALANCE,
                          "mbarrier at 0x%x: phase %llu is part done at the end: %d of %d arrivals "
                          "and %d bytes are due (last arrival: warp %u at ptx %u)",
                          b->addr, (unsigned long long)b->phase, b->pending, b->expected, b->tx,
                          b->last_arrive[0] ? (b->last_arrive[0] >> 24) - 1 : 0,
                          b->last_arrive[0] & 0xffffff);
    }
    if (e->opt.unread)
        unread_at_end(c);
}
