/* check_tmem.c: order of accesses to tensor memory, by 16 lanes and column.
 *
 * tcgen05.ld and .st are asynchronous: they are complete for others only after the wait, a
 * before_thread_sync fence, a synchronisation, and an after_thread_sync fence (PTX ISA, tcgen05
 * Memory Consistency Model).  The pipe's own operations follow one another in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "tcgen05.h"
#include <stdlib.h>
#include <string.h>

enum { HALVES = TMEM_LANES / 16, LAYOUT = 25 /* of a cell's w_loc, three bits */ };

struct tc_actor {
    struct emu *e;
    struct cta *cta;
    u32 warp, loc, agent, epoch, cluster;
    struct clock *clock;
};

static bool ordered(struct tc_actor *a, u32 who, u32 epoch, bool *fence_only) {
    u32 agent = who - 1;
    *fence_only = false;
    if (agent == a->agent && agent % TC_AGENTS == PIPE_AGENT)
        return true; /* in order */
    if (clk_T(a->clock)[agent] >= epoch)
        return true;
    *fence_only = clk_L(a->clock)[agent] >= epoch || clk_K(a->clock)[agent] >= epoch;
    return false;
}

static const char *name_of(u32 who, char *buf, size_t n) {
    u32 a = (who - 1) % TC_AGENTS;
    if (a == PIPE_AGENT)
        snprintf(buf, n, "the tensor pipe");
    else
        snprintf(buf, n, "warp %u", a);
    return buf;
}

static void need(struct tc_actor *a, u32 who, u32 epoch, u32 loc, u32 column, const char *what) {
    bool fence;
    char name[40], at[300];
    if (!who || ordered(a, who, epoch, &fence))
        return;
    if (fence)
        emu_report_at(
            a->e, a->cta, a->warp, a->loc, EMU_TCGEN_FENCE,
            "%s, tensor memory column %u (%s at %s): synchronised, but without tcgen05.wait, "
            "tcgen05.fence::before_thread_sync or tcgen05.fence::after_thread_sync",
            what, column, name_of(who, name, sizeof name),
            loc_text(a->e, a->cta->grid->fn, loc & LOC_MASK, at, sizeof at));
    else
        emu_report_at(a->e, a->cta, a->warp, a->loc,
                      strncmp(what, "freed", 5) ? EMU_RACE : EMU_TMEM,
                      "%s, tensor memory column %u, by %s at %s, not ordered", what, column,
                      name_of(who, name, sizeof name),
                      loc_text(a->e, a->cta->grid->fn, loc & LOC_MASK, at, sizeof at));
}

static struct cell *cells_of(struct cta *c) {
    struct cta_check *k = c->check;
    if (!k->tm)
        k->tm = calloc(HALVES * TMEM_COLUMNS, sizeof *k->tm);
    if (!k->tm)
        abort();
    k->tm_used = true;
    return k->tm;
}

/* The 16-lane groups of `where` (see tcgen05.h), a bit each. */
static u32 halves_of(u32 where) {
    u32 halves = 0;
    for (u32 q = 0; q < 4; q++)
        if (where >> q & 1)
            halves |= (where & TC_LOWER ? 1u : where & TC_UPPER ? 2u : 3u) << 2 * q;
    return halves;
}

/* other: the other 16 lanes of a quarter that is read whole, or x.  Products with M 64 write only
 * one of the two, and loads of all 32 lanes are in use: what they give to the others is undefined,
 * and no fault. */
static void touch_read(struct tc_actor *a, struct cell *x, const struct cell *other, u32 h,
                       u32 column, u32 layout) {
    u32 me = a->agent + 1, had = x->w_loc >> LAYOUT;
    if (!x->w_who && !other->w_who)
        emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_UNINIT,
                      "read of tensor memory, lanes %u to %u, column %u, that nothing wrote",
                      16 * h, 16 * h + 15, column);
    else if (layout && had && layout != had)
        emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_DESC,
                      "accumulates on column %u, which a product of another M or CTA group wrote",
                      column);
    need(a, x->w_who, x->w_epoch, x->w_loc, column, "read after a write");
    int slot = x->r_who[0] && x->r_who[0] != me ? 1 : 0;
    x->r_who[slot] = me;
    x->r_epoch[slot] = a->epoch;
    x->r_loc = a->loc;
}

static void touch_write(struct tc_actor *a, struct cell *x, u32 column, u32 layout) {
    need(a, x->w_who, x->w_epoch, x->w_loc, column, "write after a write");
    need(a, x->r_who[0], x->r_epoch[0], x->r_loc, column, "write after a read");
    need(a, x->r_who[1], x->r_epoch[1], x->r_loc, column, "write after a read");
    if (a->e->opt.unread && unread(x)) {
        struct actor b = {.e = a->e, .cta = a->cta, .warp = a->warp, .loc = a->loc};
        check_unread_tmem(&b, x, column, false);
    }
    *x = (struct cell){
        .w_who = a->agent + 1, .w_epoch = a->epoch, .w_loc = a->loc | layout << LAYOUT};
}

static void touch(struct tc_actor *a, struct cta *c, u32 where, u32 column, u32 columns,
                  bool write) {
    struct cell *cells = cells_of(c);
    u32 halves = halves_of(where), layout = where >> TC_LAYOUT;
    const bool pipe = a->agent % TC_AGENTS == PIPE_AGENT;
    for (u32 h = 0; h < HALVES; h++)
        for (u32 k = column; halves >> h & 1 && k < column + columns && k < TMEM_COLUMNS; k++) {
            struct cell *x = &cells[h * TMEM_COLUMNS + k];
            const bool whole = halves >> (h ^ 1) & 1;
            if (write)
                touch_write(a, x, k, layout);
            else
                touch_read(a, x, whole && !pipe ? &cells[(h ^ 1) * TMEM_COLUMNS + k] : x, h, k,
                           layout);
        }
}

void check_item_tmem(struct emu *e, struct item *it, struct cta *c, u32 where, u32 column,
                     u32 columns, bool write) {
    if (!it->check || !c->check)
        return;
    struct tc_actor a = {.e = e,
                         .cta = it->cta,
                         .warp = it->warp,
                         .loc = it->loc,
                         .agent = it->check->tc_agent,
                         .epoch = it->check->epoch,
                         .clock = it->clock};
    touch(&a, c, where, column, columns, write);
}

void check_tmem(struct warp *w, const struct insn *i, u32 lane, u32 lanes, u32 column, u32 columns,
                bool write) {
    struct warp_check *k = w->check;
    const u32 part = lanes == 32 ? 0u : lane & 16 ? (u32)TC_UPPER : (u32)TC_LOWER;
    struct tc_actor a = {.e = w->cta->grid->emu,
                         .cta = w->cta,
                         .warp = w->id,
                         .loc = i->loc,
                         .agent = k->tc_agent,
                         .epoch = ++k->tc_epoch,
                         .clock = k->clock};
    touch(&a, w->cta, 1u << (lane / 32 & 3) | part, column, columns, write);
    clk_L(k->clock)[k->tc_agent] = k->tc_epoch;
    if (write)
        k->tc_st = k->tc_epoch;
    else
        k->tc_ld = k->tc_epoch;
    /* program order of one warp's loads needs no wait; a later access of its own after a store does
     */
}

void check_tcgen_pending(struct warp *w, const struct insn *i, const ref *regs, u32 n) {
    for (u32 k = 0; k < n; k++)
        if (!(regs[k] & REF_SINK))
            check_tc_poison(w, w->check->slots[REF_OFF(regs[k]) / 4], i->loc);
}

/* Epochs up to the last load (or store) are complete, provided that nothing of the other kind is
 * outstanding below it. */
void check_tcgen_wait(struct warp *w, bool loads) {
    struct warp_check *k = w->check;
    u32 *t = &clk_T(k->clock)[k->tc_agent];
    if (loads) {
        check_tc_unpoison(w);
        k->ld_waited = k->tc_epoch;
    } else {
        k->st_waited = k->tc_epoch;
    }
    u32 limit = k->tc_epoch;
    if (k->tc_ld > k->ld_waited && k->ld_waited < limit)
        limit = k->ld_waited;
    if (k->tc_st > k->st_waited && k->st_waited < limit)
        limit = k->st_waited;
    *t = *t > limit ? *t : limit;
}

void check_tmem_free(struct warp *w, const struct insn *i, u32 column, u32 columns) {
    struct warp_check *k = w->check;
    struct tc_actor a = {.e = w->cta->grid->emu,
                         .cta = w->cta,
                         .warp = w->id,
                         .loc = i->loc,
                         .agent = k->tc_agent,
                         .epoch = k->tc_epoch,
                         .clock = k->clock};
    struct cell *cells = cells_of(w->cta);
    for (u32 h = 0; h < HALVES; h++)
        for (u32 n = column; n < column + columns; n++) {
            struct cell *x = &cells[h * TMEM_COLUMNS + n];
            bool fence;
            if (w->cta->grid->emu->opt.unread && unread(x)) {
                struct actor b = {
                    .e = w->cta->grid->emu, .cta = w->cta, .warp = w->id, .loc = i->loc};
                check_unread_tmem(&b, x, n, true);
            }
            if (x->w_who && !ordered(&a, x->w_who, x->w_epoch, &fence) && !fence)
                need(&a, x->w_who, x->w_epoch, x->w_loc, n, "freed after a write");
            for (int s = 0; s < 2; s++)
                if (x->r_who[s] && x->r_who[s] != a.agent + 1 &&
                    !ordered(&a, x->r_who[s], x->r_epoch[s], &fence) && !fence)
                    need(&a, x->r_who[s], x->r_epoch[s], x->r_loc, n, "freed after a read");
            memset(x, 0, sizeof *x);
        }
}

/* An operation of the tensor pipe of CTA `owner`; a commit has no accesses of its own. */
void check_item_tensor(struct warp *w, struct item *it, struct cta *owner, bool commit) {
    if (!w->check || !owner->check)
        return;
    struct item_check *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    u32 *seq = &owner->check->pipe_issued;
    if (!commit)
        w->check->pipe_epoch = ++*seq;
    k->who = owner->cluster->number << WHO_BITS | (owner->rank * AGENTS + PIPE_AGENT);
    k->tc_agent = owner->rank * TC_AGENTS + PIPE_AGENT;
    k->epoch = w->check->pipe_epoch;
    k->async = true;
    k->tensor = true;
    it->check = k;
    lanes_snapshot(w, w->check->active);
    it->clock = clock_copy(w->cta->grid->emu, w->check->clock);
    clock_bump(w);
}
