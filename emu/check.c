/* check.c: happens-before.  Every warp has a vector clock; barriers, mbarriers, atomics and grid
 * boundaries pass clocks on; every access is compared with the shadow of what it touches.
 * clock.h tells what a clock holds, shadow.c keeps the last accesses; check_sync.c does barriers,
 * check_async.c asynchronous operations, check_tmem.c tensor memory, check_regs.c the registers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "access.h"
#include <stdlib.h>
#include <string.h>

/* --- Life --- */

void check_new(struct emu *e) {
    if (e->opt.unchecked)
        return;
    e->checker = calloc(1, sizeof *e->checker);
    if (!e->checker)
        abort();
    e->checker->next_cluster = 1;
    check_regs_new(e->checker);
}

static void dir_free(struct checker *k) {
    for (u32 d = 0; d < 1u << L2_BITS; d++) {
        for (u32 p = 0; k->dir[d] && p < 1u << L1_BITS; p++)
            if (k->dir[d][p]) {
                free(k->dir[d][p]->init);
                free(k->dir[d][p]);
            }
        free(k->dir[d]);
    }
}
void check_delete(struct emu *e) {
    struct checker *k = e->checker;
    if (!k)
        return;
    shadow_drop(e);
    dir_free(k);
    free(k->used);
    free(k->loc);
    free(k->cluster_grid);
    free(k->cluster_fn);
    free(k->undefined);
    free(k);
}

void check_alloc(struct emu *e, u64 addr, u64 bytes) {
    struct checker *k = e->checker;
    if (!k || !addr)
        return;
    /* fresh memory is uninitialised even where the address was used before */
    for (u64 p = addr >> PAGE_SHIFT; p <= (addr + bytes - 1) >> PAGE_SHIFT; p++) {
        u64 n = p - ((u64)(uintptr_t)e->arena >> PAGE_SHIFT);
        struct page **d = n >> L1_BITS < 1u << L2_BITS ? k->dir[n >> L1_BITS] : NULL;
        struct page *q = d ? d[n & ((1u << L1_BITS) - 1)] : NULL;
        if (!q)
            continue;
        u64 lo = p << PAGE_SHIFT > addr ? 0 : addr - (p << PAGE_SHIFT);
        u64 hi = (p + 1) << PAGE_SHIFT < addr + bytes ? 1u << PAGE_SHIFT
                                                      : addr + bytes - (p << PAGE_SHIFT);
        if (q->all_init && !q->init) {
            q->init = malloc(1u << (PAGE_SHIFT - 5));
            if (!q->init)
                abort();
            memset(q->init, 0xff, 1u << (PAGE_SHIFT - 5));
            q->all_init = false;
        }
        for (u64 g = lo / 4; q->init && g < (hi + 3) / 4; g++)
            q->init[g / 64] &= ~(1ull << g % 64);
    }
}
void check_free(struct emu *e, u64 addr) {
    (void)e;
    (void)addr;
}
void check_host_write(struct emu *e, u64 addr, u64 bytes) {
    if (e->checker && mem_find(e, addr))
        shadow_init(e, addr, bytes);
}

void check_grid_start(struct grid *g) {
    (void)g;
}
void check_grid_end(struct grid *g) {
    struct emu *e = g->emu;
    if (e->checker && !g->next && !e->nclusters)
        shadow_drop(e);
}

/* What the module's kernels wrote outlives them; their names and lines do not. */
void check_forget(struct emu *e, const struct module *m) {
    struct checker *k = e->checker;
    for (u32 n = 1; k && n < k->next_cluster && n < k->cluster_cap; n++)
        if (k->cluster_fn[n] && k->cluster_fn[n]->mod == m)
            k->cluster_fn[n] = NULL;
}

static u32 number_of(struct emu *e, struct cta *c) {
    struct checker *k = e->checker;
    if (c->rank == 0) {
        u32 n = k->next_cluster++;
        if (n >= k->cluster_cap) {
            u32 cap = n * 2 + 64;
            k->cluster_grid = realloc(k->cluster_grid, cap * sizeof *k->cluster_grid);
            k->cluster_fn = realloc(k->cluster_fn, cap * sizeof *k->cluster_fn);
            if (!k->cluster_grid || !k->cluster_fn)
                abort();
            k->cluster_cap = cap;
        }
        k->cluster_grid[n] = c->grid->id;
        k->cluster_fn[n] = c->grid->fn;
        c->cluster->number = n;
    }
    return c->cluster->number;
}

void check_cta_start(struct cta *c) {
    struct emu *e = c->grid->emu;
    if (!e->checker)
        return;
    number_of(e, c);
    if (!c->check)
        c->check = calloc(1, sizeof *c->check);
    struct cta_check *k = c->check;
    if (!k)
        abort();
    check_slots(c->grid->fn);
    size_t cells = c->smem_hi / 4 + 16, regs = (size_t)c->grid->fn->nslots * c->nwarps + 16;
    if (cells > k->cells_cap) {
        free(k->cell);
        k->cell = malloc(cells * sizeof *k->cell);
        k->cells_cap = cells;
    }
    if (regs > k->regs_cap) {
        free(k->pending);
        free(k->init);
        k->pending = malloc(regs);
        k->init = malloc(regs * sizeof *k->init);
        k->regs_cap = regs;
    }
    if (!k->cell || !k->pending || !k->init)
        abort();
    memset(k->cell, 0, cells * sizeof *k->cell);
    free(k->older);
    k->older = NULL;
    memset(k->pending, 0, regs);
    memset(k->init, 0, regs * sizeof *k->init);
    memset(k->slot_epoch, 0, sizeof k->slot_epoch);
    if (k->tm && k->tm_used)
        memset(k->tm, 0, TMEM_LANES / 16 * TMEM_COLUMNS * sizeof *k->tm);
    k->tm_used = false;
    k->next_slot = k->pipe_issued = 0;
}

void check_warp_start(struct warp *w) {
    struct cta *c = w->cta;
    if (!c->check)
        return;
    struct emu *e = c->grid->emu;
    struct warp_check *k = &c->check->warp[w->id];
    struct pending_item *item = k->item;
    struct pending_regs *regs = k->regs;
    struct pending_tc *tcs = k->tc;
    u32 ic = k->items_cap, rc = k->regs_cap, tc = k->tc_cap;
    memset(k, 0, sizeof *k);
    k->item = item, k->items_cap = ic, k->regs = regs, k->regs_cap = rc, k->tc = tcs,
    k->tc_cap = tc;
    k->agent = c->rank * AGENTS + w->id;
    k->tc_agent = c->rank * TC_AGENTS + w->id;
    k->who = c->cluster->number << WHO_BITS | k->agent;
    k->clock = clock_new(e, c->cluster->number, c->cluster->n);
    clk_g(k->clock)[k->agent] = 1;
    size_t per = c->grid->fn->nslots;
    k->slots = c->grid->fn->slots;
    k->pending = c->check->pending + per * w->id;
    k->init = c->check->init + per * w->id;
    w->check = k;
}

static void warp_drop(struct warp_check *k) {
    for (u32 s = 0; s < SCOPES; s++) {
        clock_drop(k->fence_release[s]);
        clock_drop(k->relaxed[s]);
        k->fence_release[s] = k->relaxed[s] = NULL;
    }
    clock_drop(k->clock);
    clock_drop(k->released);
    clock_drop(k->loose);
    k->clock = k->released = k->loose = NULL;
}
void check_cta_free(struct cta *c) {
    for (u32 n = 0; c->check && n < c->nwarps; n++)
        if (c->warps[n].check) {
            warp_drop(c->warps[n].check);
            c->warps[n].check = NULL;
        }
    for (u32 b = 0; b < NAMED_BARRIERS; b++) {
        clock_drop(c->bar[b].clock);
        clock_drop(c->bar[b].out_clock);
        c->bar[b].clock = c->bar[b].out_clock = NULL;
    }
}
void check_cta_delete(struct cta *c) {
    struct cta_check *k = c->check;
    if (!k)
        return;
    for (u32 n = 0; n < MAX_WARPS; n++) {
        free(k->warp[n].item);
        free(k->warp[n].regs);
        free(k->warp[n].tc);
    }
    free(k->cell);
    free(k->older);
    free(k->tm);
    free(k->pending);
    free(k->init);
    free(k);
    c->check = NULL;
}

/* --- Clocks of warps --- */

void clock_bump(struct warp *w) {
    clk_g(w->check->clock)[w->check->agent]++;
}

struct clock *clock_release(struct warp *w) {
    struct warp_check *k = w->check;
    if (k->released && k->released_at == k->insns)
        return k->released;
    lanes_snapshot(w, k->active);
    clock_drop(k->released);
    k->released = clock_copy(w->cta->grid->emu, k->clock);
    k->released_at = k->insns;
    clock_bump(w);
    return k->released;
}

void clock_acquire(struct warp *w, const struct clock *c) {
    struct warp_check *k = w->check;
    if (!c)
        return;
    clock_join(w->cta->grid->emu, k->clock, c);
    if (c->cluster == k->clock->cluster && c->v[k->agent] > k->met)
        k->met = c->v[k->agent]; /* a lane acquires what another one released */
}

void warp_actor(struct warp *w, const struct insn *i, struct actor *a) {
    struct warp_check *k = w->check;
    *a = (struct actor){.e = w->cta->grid->emu,
                        .cta = w->cta,
                        .warp = w->id,
                        .loc = i->loc,
                        .who = k->who,
                        .epoch = clk_g(k->clock)[k->agent],
                        .clock = k->clock,
                        .lane = NO_LANE,
                        .self = k,
                        .grid = w->cta->grid,
                        .grid_acquired = k->grid_acquired};
}

/* --- Generic accesses --- */

void check_peer(struct warp *w, const struct insn *i, struct cta *c) {
    if (w->check && c != w->cta && !w->check->cluster_passed)
        emu_report(w, i, EMU_DSMEM,
                   "shared memory of CTA %u of the cluster before a barrier.cluster showed that it "
                   "runs",
                   c->rank);
}

void check_mem(struct warp *w, const struct insn *i, u32 lane, enum space sp, u64 addr, u32 bytes,
               u32 acc) {
    struct actor a;
    if (acc & ACC_ASYNC)
        return;
    if (sp == SP_GENERIC) {
        u64 win = addr & WIN_MASK;
        sp = win == WIN_SHARED  ? SP_CLUSTER
             : win == WIN_LOCAL ? SP_LOCAL
             : win == WIN_PARAM ? SP_PARAM
                                : SP_GLOBAL;
        if (sp != SP_GLOBAL)
            addr &= 0xffffffff;
    }
    if (sp == SP_LOCAL || sp == SP_PARAM || sp == SP_CONST)
        return;
    warp_actor(w, i, &a);
    a.lane = lane;
    a.atomic = acc & ACC_ATOMIC || (i->sem & 15);
    a.nc = acc & ACC_NC;
    a.same = acc & ACC_SAME;
    if (sp == SP_GLOBAL) {
        if (a.atomic)
            check_strong(w, i, addr, acc);
        a.epoch = clk_g(w->check->clock)[w->check->agent];
        if (acc & ACC_READ)
            shadow_global(&a, addr, bytes, false);
        if (acc & ACC_WRITE)
            shadow_global(&a, addr, bytes, true);
        return;
    }
    u32 rank = (u32)addr >> 24, off = (u32)addr & 0xffffff;
    struct cta *c = sp == SP_SHARED || rank == w->cta->rank ? w->cta : w->cta->cluster->cta[rank];
    if (a.atomic)
        check_strong(w, i, 1ull << 63 | (u64)c->cluster->number << 32 | (u64)c->rank << 24 | off,
                     acc);
    a.epoch = clk_g(w->check->clock)[w->check->agent];
    check_peer(w, i, c);
    if (acc & ACC_READ)
        shadow_smem(&a, c, off, bytes, false);
    if (acc & ACC_WRITE)
        shadow_smem(&a, c, off, bytes, true);
}

/* --- Fences --- */

/* What the clock knows of the generic proxy's writes, the async proxy may see from now on. */
static void for_async(struct clock *c, enum fence_kind kind, u32 at, u32 n) {
    if (kind != FENCE_ASYNC_GLOBAL)
        memcpy(clk_a(c) + at, clk_g(c) + at, n * sizeof(u32));
    if (kind != FENCE_ASYNC_SHARED)
        memcpy(clk_b(c) + at, clk_g(c) + at, n * sizeof(u32));
}
static void async_fence(struct warp *w, enum fence_kind kind) {
    struct warp_check *k = w->check;
    struct emu *e = w->cta->grid->emu;
    struct clock *c = k->clock;
    if (kind != FENCE_ASYNC_GLOBAL)
        k->mbar_fence = clk_g(c)[k->agent];
    if (e->opt.conservative_proxy) {
        for_async(c, kind, k->agent, 1);
        /* st.async of another CTA has no thread that could fence behind it: who waited does */
        for (u32 rank = 0; rank < w->cta->cluster->n; rank++)
            if (rank != w->cta->rank)
                for_async(c, kind, rank * AGENTS + FIRST_SLOT, ASYNC_SLOTS);
    } else {
        for_async(c, kind, 0, c->n);
        for (u32 f = 0; f < c->nforeign; f++) {
            struct clock *own = clock_copy(e, c->foreign[f].clock);
            for_async(own, kind, 0, own->n);
            clock_drop(c->foreign[f].clock);
            c->foreign[f].clock = own;
        }
    }
    clock_bump(w);
}

void check_fence(struct warp *w, u32 m, enum fence_kind kind, u32 sem) {
    struct warp_check *k = w->check;
    (void)m;
    if (!k)
        return;
    struct clock *c = k->clock;
    switch (kind) {
    case FENCE_MEMORY:
        check_memory_fence(w, sem);
        break;
    case FENCE_ASYNC:
    case FENCE_ASYNC_SHARED:
    case FENCE_ASYNC_GLOBAL:
        async_fence(w, kind);
        break;
    case FENCE_MBARRIER_INIT:
        k->mbar_fence = clk_g(c)[k->agent];
        k->init_fence_gen = w->cta->cluster->generation;
        clock_bump(w);
        break;
    case FENCE_TCGEN_BEFORE:
        for (u32 n = 0; n < c->m; n++)
            clk_K(c)[n] = clk_K(c)[n] > clk_T(c)[n] ? clk_K(c)[n] : clk_T(c)[n];
        break;
    case FENCE_TCGEN_AFTER:
        for (u32 n = 0; n < c->m; n++)
            clk_T(c)[n] = clk_T(c)[n] > clk_K(c)[n] ? clk_T(c)[n] : clk_K(c)[n];
        break;
    default:
        break;
    }
}

/* --- Ends --- */

void check_lane_exit(struct warp *w, const struct insn *i, u32 m) {
    (void)w;
    (void)i;
    (void)m;
}
void check_warp_exit(struct warp *w) {
    (void)w;
}
