/* timing.c: the event loop of the timing model: warps and asynchronous items by their time.  See
 * timing.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"
#include "access.h"
#include "check.h"
#include "ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- The heap of events: one entry per warp that can run or times out, one per busy agent --- */

static s32 *slot_of(const struct time_event *v) {
    return v->w ? &v->w->ready_slot : &v->a->slot;
}
static bool before(const struct time_event *a, const struct time_event *b) {
    return a->at < b->at || (a->at <= b->at && a->order < b->order);
}
static void put(struct timing *t, u32 k, struct time_event v) {
    t->heap[k] = v;
    *slot_of(&v) = (s32)k;
}
static void sift(struct timing *t, u32 k) {
    struct time_event v = t->heap[k];
    for (; k && before(&v, &t->heap[(k - 1) / 2]); k = (k - 1) / 2)
        put(t, k, t->heap[(k - 1) / 2]);
    for (u32 c; (c = 2 * k + 1) < t->n; k = c) {
        if (c + 1 < t->n && before(&t->heap[c + 1], &t->heap[c]))
            c++;
        if (!before(&t->heap[c], &v))
            break;
        put(t, k, t->heap[c]);
    }
    put(t, k, v);
}
static void heap_remove(struct timing *t, s32 *slot) {
    u32 k = (u32)*slot;
    *slot = -1;
    if (k == --t->n)
        return;
    put(t, k, t->heap[t->n]);
    sift(t, k);
}
static void heap_set(struct timing *t, s32 slot, struct time_event v) {
    v.order = t->order++;
    if (slot >= 0) {
        put(t, (u32)slot, v);
        sift(t, (u32)slot);
        return;
    }
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 256;
        t->heap = realloc(t->heap, t->cap * sizeof *t->heap);
        if (!t->heap)
            abort();
    }
    put(t, t->n++, v);
    sift(t, t->n - 1);
}

/* --- Warps --- */

/* When the warp can go on; infinite when it cannot. */
static double warp_at(const struct timing *t, const struct warp *w) {
    double at = INFINITY;
    for (u32 k = 0; k < w->nsplits; k++) {
        const struct split *s = &w->splits[k];
        double x = INFINITY;
        if (s->state == SPLIT_RUN)
            x = s->t > w->time->t ? s->t : w->time->t;
        else if (s->state == SPLIT_BLOCKED && s->key >> 56 == KEY_MBAR)
            x = s->t + t->p->try_limit;
        if (x < at)
            at = x;
    }
    return at;
}
static void requeue(struct timing *t, struct warp *w) {
    double at = warp_at(t, w);
    if (!isinf(at))
        heap_set(t, w->ready_slot, (struct time_event){.at = at, .w = w});
    else if (w->ready_slot >= 0)
        heap_remove(t, &w->ready_slot);
}
void time_ready(struct emu *e, struct warp *w) {
    requeue(e->timing, w);
}
void time_unready(struct emu *e, struct warp *w) {
    if (w->ready_slot >= 0)
        heap_remove(e->timing, &w->ready_slot);
}

void time_woken(struct emu *e, struct warp *w, struct split *s) {
    struct timing *t = e->timing;
    const struct time_part *p = t->p;
    const double hop[] = {[KEY_BAR] = p->bar_latency,
                          [KEY_MBAR] = p->mbar_latency,
                          [KEY_CLUSTER] = p->cluster_latency,
                          [KEY_ASYNC] = 10,
                          [KEY_GRID] = p->pdl_wait,
                          [KEY_TMEM] = 40,
                          [KEY_COLLECT] = 0,
                          [KEY_REGS] = 10};
    u32 kind = (u32)(s->key >> 56);
    double at = t->now + (kind < sizeof hop / sizeof *hop ? hop[kind] : 0);
    if (kind < TIME_WAITS && at > s->t)
        w->cta->grid->time->count[w->id].wait[kind] += at - s->t;
    if (at > s->t)
        s->t = at;
}

void time_warp_start(struct emu *e, struct warp *w) {
    const struct time_grid *g = w->cta->grid->time;
    w->time = calloc(1, sizeof *w->time + g->fn->nregs * sizeof(double));
    if (!w->time)
        abort();
    w->time->t = w->time->began = w->time->last_start = e->timing->now + e->timing->p->cta_launch;
    w->time->line = ~0u;
}
void time_warp_free(struct warp *w) {
    free(w->time);
    w->time = NULL;
}
void time_sleep(struct warp *w, u64 ns) {
    struct timing *t = w->cta->grid->emu->timing;
    w->splits[w->cur].t = t->now + (double)ns * t->p->ghz;
}
u64 time_clock(const struct warp *w) {
    return (u64)w->cta->grid->emu->timing->now;
}
u64 time_globaltimer(const struct warp *w) {
    const struct timing *t = w->cta->grid->emu->timing;
    return (u64)(t->now / t->p->ghz);
}

/* A cold line of instructions comes from L2; every warp of the SM that needs it waits. */
static double fetch(struct timing *t, struct warp *w, u32 pc, double at) {
    struct time_grid *g = w->cta->grid->time;
    u32 line = pc / 8;
    if (line == w->time->line)
        return at;
    w->time->line = line;
    double *r = &g->line_ready[(size_t)w->cta->sm * g->lines + line];
    if (*r <= 0)
        *r = at + t->p->icache_line;
    return *r > at ? *r : at;
}

static double operands(const struct warp *w, const struct insn *i) {
    const struct function *f = w->cta->grid->fn;
    const u16 *id = w->cta->grid->time->fn->use_id;
    double at = 0;
    if (i->uses == REF_NONE)
        return 0;
    for (u32 k = i->uses;; k++) {
        const struct use *u = &f->uses[k];
        if (!u->written && w->time->ready[id[k]] > at)
            at = w->time->ready[id[k]];
        if (u->last)
            return at;
    }
}
static void results(struct warp *w, const struct insn *i, double at) {
    const struct function *f = w->cta->grid->fn;
    const u16 *id = w->cta->grid->time->fn->use_id;
    if (i->uses == REF_NONE)
        return;
    for (u32 k = i->uses;; k++) {
        const struct use *u = &f->uses[k];
        if (u->written)
            w->time->ready[id[k]] = at;
        if (u->last)
            return;
    }
}

/* Charges the instruction; false when it cannot begin before other events (the split's clock says
 * when). */
static bool charge(struct emu *e, struct warp *w, struct split *s, const struct insn *i, u32 m) {
    struct timing *t = e->timing;
    struct warp_time *wt = w->time;
    struct time_grid *g = w->cta->grid->time;
    const u32 pc = (u32)(i - w->code);
    const struct time_op *o = &g->fn->ops[pc];
    struct time_sm *sm = &t->sm[w->cta->sm];
    double at = s->t > wt->t ? s->t : wt->t, dep = operands(w, i);
    at = fetch(t, w, pc, at);
    double *slot = &sm->slot[w->id & 3];
    if (o->sync) {
        at = at < dep ? dep : at;
        at = at < wt->last_start ? wt->last_start : at;
    }
    if (o->units && at < *slot)
        at = *slot;
    if (o->sync && t->n && at > t->heap[0].at) {
        s->t = at;
        return false;
    }
    double start = at < dep ? dep : at;
    if (o->units) {
        double issue = o->units;
        *slot = at + issue;
        wt->t = s->t = at + issue;
        g->count[w->id].slots += issue;
        g->count[w->id].insns++;
        if (start > wt->last_start)
            wt->last_start = start;
    }
    t->now = at;
    double done = m ? time_execute(e, w, i, o, m, start) : start;
    results(w, i, done);
    t->now = o->sync ? at : start;
    return true;
}

static bool pick(struct warp *w, const struct timing *t) {
    double best = INFINITY;
    for (u32 k = 0; k < w->nsplits; k++) {
        struct split *s = &w->splits[k];
        double at = s->t;
        if (s->state == SPLIT_BLOCKED && s->key >> 56 == KEY_MBAR)
            at += t->p->try_limit;
        else if (s->state != SPLIT_RUN)
            continue;
        if (at < best) {
            best = at;
            w->cur = k;
        }
    }
    return !isinf(best);
}

/* A try_wait that has waited long enough answers "no". Not before its time has come: until then a
 * completed phase may still wake it. */
static void give_up(struct warp *w, struct split *s, double at) {
    w->cta->grid->time->count[w->id].wait[KEY_MBAR] += at - s->t;
    s->t = at;
    s->state = SPLIT_RUN;
    s->wake_false = 1;
}

/* Runs the warp while nothing else is due earlier. */
static void warp_turn(struct emu *e, struct warp *w) {
    struct timing *t = e->timing;
    while (pick(w, t)) {
        struct split *s = &w->splits[w->cur];
        const struct insn *i = &w->code[s->pc];
        u32 m = s->mask;
        const bool blocked = s->state == SPLIT_BLOCKED;
        const double due = s->t + (blocked ? t->p->try_limit : 0);
        double at = due > w->time->t ? due : w->time->t;
        if (t->n && at > t->heap[0].at)
            break;
        if (blocked)
            give_up(w, s, at);
        t->now = at;
        e->running = w;
        e->at = i;
        u64 *hits = w->cta->grid->fn->hits;
        if (i->guard != REF_NONE)
            m &= pred_at(w, i->guard);
        if (!charge(e, w, s, i, m))
            break;
        if (hits) {
            hits[s->pc]++;
            if (i->fn == op_bra && i->guard != REF_NONE)
                w->cta->grid->fn->taken[s->pc] |= (u8)((s->mask & ~m ? 1 : 0) | (m ? 2 : 0));
        }
        if (m && w->check)
            check_registers(w, i, m);
        int r = m ? i->fn(w, i, m) : NEXT;
        e->steps++;
        w->cta->grid->insns++;
        e->stats[EMU_STAT_INSNS]++;
        s = &w->splits[w->cur];
        if (r == NEXT || r == YIELD)
            s->pc++;
        else if (r == BLOCK && s->state == SPLIT_RUN) {
            s->state = SPLIT_BLOCKED;
            s->t = t->now;
        }
        if (w->done)
            return;
        splits_arrive(w);
    }
}

static void run_warp(struct emu *e, struct warp *w) {
    struct timing *t = e->timing;
    heap_remove(t, &w->ready_slot);
    warp_turn(e, w);
    if (!w->done) {
        requeue(t, w);
        return;
    }
    struct time_count *c = &w->cta->grid->time->count[w->id];
    if (w->ready_slot >= 0)
        heap_remove(t, &w->ready_slot);
    c->life += t->now - w->time->began;
    warp_finish(e, w);
}

/* --- Agents --- */

static void agent_queue(struct timing *t, struct agent *a) {
    heap_set(t, a->slot, (struct time_event){.at = a->head->at, .a = a});
}

void time_post(struct emu *e, struct item *it, struct agent *queue, enum agent_kind kind) {
    it->agent = queue;
    it->next = NULL;
    queue->kind = (u8)kind;
    it->cta->outstanding++;
    it->at = time_item(e, it, kind);
    if (queue->tail) {
        if (it->at < queue->tail->at)
            it->at = queue->tail->at;
        queue->tail->next = it;
        queue->tail = it;
        return;
    }
    queue->head = queue->tail = it;
    agent_queue(e->timing, queue);
}

static void run_agent(struct emu *e, struct agent *a) {
    struct timing *t = e->timing;
    struct item *it = a->head;
    if (!it->step(e, it)) {
        it->at = time_item_again(e, it, (enum agent_kind)a->kind);
        agent_queue(t, a);
        return;
    }
    a->head = it->next;
    if (a->head) {
        agent_queue(t, a);
    } else {
        a->tail = NULL;
        heap_remove(t, &a->slot);
    }
    item_finish(e, it);
}

void time_abandon(struct emu *e) {
    struct timing *t = e->timing;
    while (t->n) {
        struct time_event v = t->heap[0];
        heap_remove(t, slot_of(&v));
        if (v.a)
            agent_activate(e, v.a);
    }
}

/* --- The loop --- */

void time_loop(struct emu *e) {
    struct timing *t = e->timing;
    u64 limit = e->opt.max_steps ? e->steps + e->opt.max_steps : UINT64_MAX;
    while (e->grids) {
        double next = t->n ? t->heap[0].at : INFINITY, start = time_next_cluster(e);
        if (isinf(next) && isinf(start))
            emu_hang(e);
        if (start <= next) {
            if (start > t->now)
                t->now = start;
            grid_dispatch(e);
            continue;
        }
        struct time_event v = t->heap[0];
        t->now = v.at;
        if (v.a)
            run_agent(e, v.a);
        else
            run_warp(e, v.w);
        e->time_ns = (u64)(t->now / t->p->ghz);
        if (e->steps > limit)
            emu_hang(e);
    }
}
