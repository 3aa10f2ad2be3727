/* check_async.c: asynchronous operations: what they know, and who knows of them when.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include <stdlib.h>

/* --- Asynchronous items --- */

static void remember(struct warp *w, enum item_kind kind, u32 group, u32 lanes, u32 who,
                     u32 epoch) {
    struct warp_check *k = w->check;
    if (k->nitems == k->items_cap) {
        k->items_cap = k->items_cap ? k->items_cap * 2 : 32;
        k->item = realloc(k->item, k->items_cap * sizeof *k->item);
        if (!k->item)
            abort();
    }
    k->item[k->nitems++] = (struct pending_item){
        .group = group, .who = who, .epoch = epoch, .lanes = lanes, .kind = (u8)kind};
}

void check_item_begin(struct warp *w, struct item *it, bool async) {
    if (!w->check)
        return;
    struct cta_check *c = w->cta->check;
    struct item_check *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    u32 slot = FIRST_SLOT + c->next_slot++ % ASYNC_SLOTS;
    c->slot_epoch[slot] += 2; /* the earlier one: its reads */
    k->who = w->cta->cluster->number << WHO_BITS | (w->cta->rank * AGENTS + slot);
    k->epoch = c->slot_epoch[slot];
    k->async = async;
    it->check = k;
    lanes_snapshot(w, w->check->active);
    it->clock = clock_copy(w->cta->grid->emu, w->check->clock);
    clock_bump(w);
}
void check_item_join(struct warp *w, struct item *it) {
    if (!w->check)
        return;
    if (!it->check->meet)
        it->check->meet = clock_copy(w->cta->grid->emu, it->clock);
    lanes_snapshot(w, w->check->active);
    clock_meet(it->check->meet, w->check->clock);
    clock_join(w->cta->grid->emu, it->clock, w->check->clock);
    clock_bump(w);
}
/* The next reads are made for every issuing warp, and must be ordered after what each knows. */
void check_item_meet(struct item *it, bool on) {
    if (it->check)
        it->check->use_meet = on;
}
void check_item_group(struct warp *w, struct item *it, u32 kind, u32 group, u32 lanes) {
    if (w->check)
        remember(w, (enum item_kind)kind, group, lanes, it->check->who, it->check->epoch);
}

static void item_actor(struct emu *e, struct item *it, struct actor *a, bool write) {
    struct warp *w = &it->cta->warps[it->warp];
    *a = (struct actor){.e = e,
                        .cta = it->cta,
                        .warp = it->warp,
                        .loc = it->loc,
                        .who = it->check->who,
                        .epoch = it->check->epoch - (write || it->check->tensor ? 0 : 1),
                        .clock =
                            it->check->use_meet && it->check->meet ? it->check->meet : it->clock,
                        .async = it->check->async,
                        .lane = NO_LANE,
                        .grid = it->grid,
                        .grid_acquired = !w->check || w->check->grid_acquired};
}

void check_item_smem(struct emu *e, struct item *it, struct cta *c, u32 off, u32 bytes, bool write,
                     bool async) {
    struct actor a;
    (void)async;
    if (!it->check || !bytes)
        return;
    item_actor(e, it, &a, write);
    a.atomic = write && it->atomic;
    shadow_smem(&a, c, off, bytes, write);
}
void check_item_global(struct emu *e, struct item *it, u64 addr, u64 bytes, bool write) {
    struct actor a;
    if (!it->check || !bytes)
        return;
    item_actor(e, it, &a, write);
    a.atomic = it->atomic;
    shadow_global(&a, addr, bytes, write);
}

/* The clock that completion releases: what the issuer knew, and the item itself. */
struct clock *check_item_part(struct emu *e, struct item *it) {
    if (!it->check)
        return NULL;
    (void)e;
    struct clock *c = it->clock;
    u32 *g = &clk_g(c)[it->check->who & WHO_AGENT];
    *g = *g > it->check->epoch ? *g : it->check->epoch;
    if (it->check->async)
        clk_a(c)[it->check->who & WHO_AGENT] = clk_b(c)[it->check->who & WHO_AGENT] = *g;
    if (it->check->tensor) {
        clk_K(c)[it->check->tc_agent] = it->check->epoch;
        clk_L(c)[it->check->tc_agent] = it->check->epoch;
    }
    c->serial = ++e->checker->serial;
    return c;
}
void check_item_drop(struct item *it) {
    if (it->check)
        clock_drop(it->check->meet);
    free(it->check);
    it->check = NULL;
    clock_drop(it->clock);
    it->clock = NULL;
}
struct clock *check_item_done(struct emu *e, struct item *it) {
    struct clock *c = check_item_part(e, it);
    if (it->check)
        clock_drop(it->check->meet);
    free(it->check);
    it->check = NULL;
    return c;
}

/* Items of groups below `upto` are known to lanes m from now on. */
static void know_items(struct warp *w, enum item_kind kind, u32 upto, bool read, u32 m) {
    struct warp_check *k = w->check;
    u32 kept = 0, cluster = k->clock->cluster;
    for (u32 n = 0; n < k->nitems; n++) {
        struct pending_item *p = &k->item[n];
        if (p->kind != (u8)kind || p->group >= upto || !(p->lanes & m)) {
            k->item[kept++] = *p;
            continue;
        }
        if (p->who >> WHO_BITS == cluster) {
            u32 *g = &clk_g(k->clock)[p->who & WHO_AGENT], e = p->epoch - (read ? 1 : 0);
            *g = *g > e ? *g : e;
        }
        if (read)
            k->item[kept++] = *p;
    }
    k->nitems = kept;
}
void check_wait_group(struct warp *w, u32 m, bool bulk, bool read, u32 upto) {
    if (w->check)
        know_items(w, bulk ? ITEM_BULK : ITEM_CP_ASYNC, upto, read, m);
}
void check_wgmma_done(struct warp *w, u32 upto) {
    if (w->check)
        know_items(w, ITEM_WGMMA, upto, false, ~0u);
}
struct clock *check_cp_async_clock(struct warp *w, u32 m) {
    struct warp_check *k = w->check;
    if (!k)
        return NULL;
    struct clock *c = clock_new(w->cta->grid->emu, k->clock->cluster, w->cta->cluster->n);
    for (u32 n = 0; n < k->nitems; n++)
        if (k->item[n].kind == ITEM_CP_ASYNC && (k->item[n].lanes & m))
            clk_g(c)[k->item[n].who & WHO_AGENT] = k->item[n].epoch;
    return c;
}

void check_cta_exit(struct cta *c) {
    struct emu *e = c->grid->emu;
    for (u32 k = 0; c->check && k < e->nactive; k++)
        for (struct item *it = e->active[k]->head; it; it = it->next)
            /* st.async (AG_REMOTE) carries its data in registers: it outlives its CTA, not its
             * reader, as in FlashInfer's cluster reduction. */
            if (it->cta == c && e->active[k]->kind == AG_TMA_LOAD)
                emu_report_at(e, c, it->warp, it->loc, EMU_EXIT,
                              "the CTA exits while this asynchronous operation is under way");
            else if (it->cta == c && e->active[k]->kind == AG_TMA_STORE && !it->has_read)
                emu_report_at(e, c, it->warp, it->loc, EMU_EXIT_STORE,
                              "the CTA exits while this store may still read its shared memory");
}
