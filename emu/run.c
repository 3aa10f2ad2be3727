/* run.c: the scheduler.  One thread, a discrete loop: pick a warp that can run and give it a few
 * instructions, then let asynchronous agents do a few steps.  Every choice comes from one seeded
 * generator, so (PTX, inputs, seed, policy) fix the run.
 *
 * Few CTAs are resident at first (they share the caches of the host); when all of them wait, more
 * are started, up to what the part holds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "check.h"
#include "ops.h"
#include "timing.h"
#include <stdlib.h>
#include <string.h>

enum {
    FRUITLESS_ROUNDS = 8,           /* try_waits woken in vain before a hang is called */
    STALE_DISPATCH = 4096,          /* steps without progress before another CTA starts */
    STALE_ITEMS = 1024,             /* the same before a late item runs */
    STALE_LIMIT = 200 * 1000 * 1000 /* and before spinning is called a hang */
};

/* --- Ready list --- */

static void ready_add(struct emu *e, struct warp *w) {
    if (e->timing) {
        time_ready(e, w);
        return;
    }
    if (w->ready_slot >= 0)
        return;
    if (e->nready == e->ready_cap) {
        e->ready_cap = e->ready_cap ? e->ready_cap * 2 : 256;
        e->ready = realloc(e->ready, e->ready_cap * sizeof *e->ready);
        if (!e->ready)
            abort();
    }
    w->ready_slot = (s32)e->nready;
    e->ready[e->nready++] = w;
}

void ready_remove(struct emu *e, struct warp *w) {
    if (e->timing) {
        time_unready(e, w);
        return;
    }
    if (w->ready_slot < 0)
        return;
    struct warp *last = e->ready[--e->nready];
    e->ready[w->ready_slot] = last;
    last->ready_slot = w->ready_slot;
    w->ready_slot = -1;
}

void warp_start(struct emu *e, struct warp *w) {
    ready_add(e, w);
}

void warp_wake(struct warp *w, u64 key) {
    for (u32 k = 0; k < w->nsplits; k++) {
        struct split *s = &w->splits[k];
        if (s->state == SPLIT_BLOCKED && s->key == key) {
            s->state = SPLIT_RUN;
            if (w->time)
                time_woken(w->cta->grid->emu, w, s);
            ready_add(w->cta->grid->emu, w);
        }
    }
}

void cta_wake(struct cta *c, u64 key) {
    for (u32 k = 0; k < c->nwarps; k++)
        if (c->warps[k].ready_slot < 0 || c->warps[k].nsplits > 1 || c->warps[k].time)
            warp_wake(&c->warps[k], key);
}

void emu_wake_all(struct emu *e) {
    for (u32 c = 0; c < e->nclusters; c++)
        for (u32 r = 0; r < e->clusters[c]->n; r++) {
            struct cta *cta = e->clusters[c]->cta[r];
            for (u32 k = 0; k < cta->nwarps; k++) {
                struct warp *w = &cta->warps[k];
                for (u32 s = 0; s < w->nsplits; s++)
                    if (w->splits[s].state == SPLIT_BLOCKED) {
                        w->splits[s].state = SPLIT_RUN;
                        ready_add(e, w);
                    }
            }
        }
}

/* Answers false to every parked try_wait; true when there was one. */
static bool wake_try_waits(struct emu *e) {
    bool any = false;
    for (u32 c = 0; c < e->nclusters; c++)
        for (u32 r = 0; r < e->clusters[c]->n; r++) {
            struct cta *cta = e->clusters[c]->cta[r];
            for (u32 k = 0; k < cta->nwarps; k++) {
                struct warp *w = &cta->warps[k];
                for (u32 s = 0; s < w->nsplits; s++)
                    if (w->splits[s].state == SPLIT_BLOCKED && w->splits[s].key >> 56 == KEY_MBAR) {
                        w->splits[s].state = SPLIT_RUN;
                        w->splits[s].wake_false = 1;
                        ready_add(e, w);
                        any = true;
                    }
            }
        }
    return any;
}

/* --- Agents --- */

struct item *item_new(struct warp *w, u32 lane, size_t payload) {
    struct item *it = calloc(1, sizeof *it + payload);
    if (!it)
        abort();
    it->payload = it + 1;
    it->cta = w->cta;
    it->grid = w->cta->grid;
    it->warp = w->id;
    it->lane = lane;
    w->cta->grid->emu->limbo = it;
    return it;
}

void item_post(struct emu *e, struct item *it, struct agent *queue, enum agent_kind kind) {
    e->limbo = NULL;
    if (!queue) {
        queue = &it->own;
        queue->slot = -1;
        queue->head = queue->tail = NULL;
    }
    if (e->timing) {
        time_post(e, it, queue, kind);
        return;
    }
    it->agent = queue;
    it->next = NULL;
    queue->kind = (u8)kind;
    it->cta->outstanding++;
    if (queue->tail)
        queue->tail->next = it;
    else
        queue->head = it;
    queue->tail = it;
    if (queue->slot < 0)
        agent_activate(e, queue);
}

void agent_activate(struct emu *e, struct agent *queue) {
    if (e->nactive == e->active_cap) {
        e->active_cap = e->active_cap ? e->active_cap * 2 : 256;
        e->active = realloc(e->active, e->active_cap * sizeof *e->active);
        if (!e->active)
            abort();
    }
    queue->slot = (s32)e->nactive;
    e->active[e->nactive++] = queue;
}

static void agent_retire(struct emu *e, struct agent *a) {
    struct agent *last = e->active[--e->nactive];
    e->active[a->slot] = last;
    last->slot = a->slot;
    a->slot = -1;
}

/* The last step of an item is done. */
void item_finish(struct emu *e, struct item *it) {
    struct cta *c = it->cta;
    check_item_drop(it);
    free(it->copy);
    free(it);
    c->outstanding--;
    e->progress++;
    if (!c->outstanding && c->cluster->live == 0)
        cta_retire(e, c);
}

/* One step of one agent. */
static void agent_step(struct emu *e, u32 k) {
    struct agent *a = e->active[k];
    struct item *it = a->head;
    if (!it->step(e, it))
        return;
    a->head = it->next;
    if (!a->head)
        a->tail = NULL;
    if (!a->head)
        agent_retire(e, a);
    item_finish(e, it);
}

static void agents_random(struct emu *e, u32 steps) {
    while (steps-- && e->nactive)
        agent_step(e, rng_below(&e->rng, e->nactive));
}

static bool starved(struct emu *e, u32 what) {
    u64 h = e->opt.seed * 0x9e3779b97f4a7c15ull + what * 0xbf58476d1ce4e5b9ull;
    return rng_next(&h) & 1;
}

static void agents_turn(struct emu *e) {
    if (!e->nactive)
        return;
    switch (e->opt.policy) {
    case EMU_INSTANT:
        while (e->nactive)
            agent_step(e, rng_below(&e->rng, e->nactive));
        break;
    case EMU_LATE:
        if (e->stale > STALE_ITEMS)
            agents_random(e, 1);
        break;
    case EMU_BURSTY:
        if (rng_below(&e->rng, 64) == 0)
            agents_random(e, 1 + rng_below(&e->rng, 200));
        break;
    case EMU_STARVE: {
        u32 k = rng_below(&e->rng, e->nactive);
        if (!starved(e, 100u + e->active[k]->kind) || rng_below(&e->rng, 256) == 0)
            agent_step(e, k);
        break;
    }
    default:
        agents_random(e, rng_below(&e->rng, 3));
        break;
    }
}

/* --- Warps --- */

/* Chooses a split that can run; false when none can. */
static bool pick_split(struct emu *e, struct warp *w) {
    u32 can[LANES], n = 0;
    if (w->nsplits == 1) {
        w->cur = 0;
        return w->splits[0].state == SPLIT_RUN;
    }
    for (u32 k = 0; k < w->nsplits; k++)
        if (w->splits[k].state == SPLIT_RUN)
            can[n++] = k;
    if (!n)
        return false;
    w->cur = can[rng_below(&e->rng, n)];
    return true;
}

/* Runs the current split until it blocks, ends, yields or the quantum is over. */
static void warp_run(struct emu *e, struct warp *w, u32 quantum) {
    struct split *s = &w->splits[w->cur];
    const struct insn *code = w->code;
    u64 *hits = w->cta->grid->fn->hits;
    bool checked = w->check != NULL;
    u32 left = quantum;
    e->running = w;
    while (left--) {
        const struct insn *i = &code[s->pc];
        u32 m = s->mask;
        e->at = i;
        if (hits)
            hits[s->pc]++;
        if (i->guard != REF_NONE) {
            u32 g = pred_at(w, i->guard);
            if (hits && i->fn == op_bra)
                w->cta->grid->fn->taken[s->pc] |= (u8)((m & ~g ? 1 : 0) | (m & g ? 2 : 0));
            m &= g;
        }
        int r = NEXT;
        if (i->flags & INSN_MEET && m != w->live && !s->token && !warp_meet(w, i)) {
            r = BLOCK;
        } else if (m) {
            s = &w->splits[w->cur];
            m = i->flags & INSN_MEET ? s->mask : m;
            if (checked)
                check_registers(w, i, m);
            r = i->fn(w, i, m);
            s = &w->splits[w->cur]; /* splits may have merged */
        }
        if (r == NEXT) {
            if (++s->pc != s->join_pc)
                continue;
        } else if (r == BLOCK) {
            if (s->state == SPLIT_RUN)
                s->state = SPLIT_BLOCKED;
            break;
        } else if (r == YIELD) {
            s->pc++;
            left = 0;
        }
        if (w->done)
            break;
        splits_arrive(w);
        if (w->nsplits == 1) {
            w->cur = 0;
            s = &w->splits[0];
            if (s->state != SPLIT_RUN)
                break;
        } else {
            if (!pick_split(e, w))
                break;
            s = &w->splits[w->cur];
        }
    }
    u32 done = quantum - left;
    w->steps += done;
    e->steps += done;
    e->stale += done;
    e->time_ns += done;
    w->cta->grid->insns += done;
    e->stats[EMU_STAT_INSNS] += done;
}

void warp_finish(struct emu *e, struct warp *w) {
    struct cta *c = w->cta;
    ready_remove(e, w);
    e->progress++;
    check_warp_exit(w);
    barrier_thread_exit(w);
    if (--c->live_warps)
        return;
    c->exited = true;
    check_cta_exit(c);
    tmem_exit(c, w->id, e->at->loc);
    struct cluster *cl = c->cluster;
    cl->live--;
    cluster_barrier_exit(c);
    grid_cta_launched(c);
    if (cl->live == 0)
        cta_retire(e, c);
}

static void turn(struct emu *e) {
    u32 k = rng_below(&e->rng, e->nready);
    struct warp *w = e->ready[k];
    if (e->opt.policy == EMU_STARVE && starved(e, w->id) && rng_below(&e->rng, 128)) {
        for (u32 j = 1; j < 4; j++) { /* prefer another */
            struct warp *o = e->ready[(k + j) % e->nready];
            if (!starved(e, o->id)) {
                w = o;
                break;
            }
        }
    }
    u32 quantum = 1 + rng_below(&e->rng, 48);
    if (e->opt.policy == EMU_BURSTY)
        quantum = rng_below(&e->rng, 8) ? 1 + rng_below(&e->rng, 8) : 1 + rng_below(&e->rng, 2000);
    if (!pick_split(e, w)) {
        ready_remove(e, w);
        return;
    }
    u64 before = e->progress;
    warp_run(e, w, quantum);
    if (e->progress != before)
        e->stale = 0;
    if (w->done) {
        warp_finish(e, w);
        return;
    }
    for (u32 s = 0; s < w->nsplits; s++)
        if (w->splits[s].state == SPLIT_RUN)
            return;
    ready_remove(e, w);
}

/* Nothing can run: an item, a parked try_wait, a new CTA, or the end. */
static bool unstick(struct emu *e, u32 *fruitless, u64 *progress_at) {
    if (e->nactive) {
        agent_step(e, rng_below(&e->rng, e->nactive));
        return true;
    }
    if (e->progress != *progress_at) {
        *progress_at = e->progress;
        *fruitless = 0;
    }
    if (*fruitless == 0 && wake_try_waits(e)) {
        ++*fruitless;
        return true;
    }
    if (grid_dispatch(e)) {
        *fruitless = 0;
        return true;
    }
    if (*fruitless && *fruitless < FRUITLESS_ROUNDS && wake_try_waits(e)) {
        ++*fruitless;
        return true;
    }
    return false;
}

static void emu_abandon(struct emu *e) {
    if (e->timing)
        time_abandon(e);
    if (e->limbo)
        check_item_drop(e->limbo);
    free(e->limbo);
    e->limbo = NULL;
    while (e->nactive) {
        struct agent *a = e->active[e->nactive - 1];
        while (a->head) {
            struct item *it = a->head;
            a->head = it->next;
            check_item_drop(it);
            bool own = a == &it->own;
            if (own)
                e->nactive--;
            free(it->copy);
            free(it);
            if (own)
                break;
            if (!a->head) {
                a->tail = NULL;
                a->slot = -1;
                e->nactive--;
                break;
            }
        }
    }
    e->nready = 0;
    grid_abandon(e);
}

static void loop(struct emu *e) {
    u32 fruitless = 0;
    u64 progress_at = e->progress;
    u64 limit = e->opt.max_steps ? e->steps + e->opt.max_steps : UINT64_MAX;
    for (;;) {
        while (e->resident < e->window && grid_dispatch(e))
            ;
        if (!e->grids)
            break;
        if (e->nready) {
            turn(e);
            agents_turn(e);
            if (e->stale > STALE_DISPATCH && e->stale % STALE_DISPATCH < 64 && grid_dispatch(e))
                e->stale = 0;
            if (e->stale > STALE_LIMIT || e->steps > limit)
                emu_hang(e);
        } else if (!unstick(e, &fruitless, &progress_at)) {
            if (!e->grids)
                break;
            emu_hang(e);
        }
    }
}

void emu_run(struct emu *e) {
    if (!e->grids)
        return;
    e->stale = 0;
    e->window = e->opt.window ? e->opt.window : 4;
    if (setjmp(e->escape))
        emu_abandon(e);
    else if (e->timing)
        time_loop(e);
    else
        loop(e);
    e->running = NULL;
}
