/* op_mbar.c: mbarrier (PTX ISA, mbarrier and its sub-sections).
 *
 * The state lives beside shared memory, found by the barrier's address; the eight bytes themselves
 * are opaque and get a pattern.  Phase n is complete when pending arrivals and tx-count are zero;
 * then pending is set for the next phase.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include <stdlib.h>

enum { MAX_COUNT = (1 << 20) - 1 };

struct mbarrier *mbar_find(struct cta *c, u32 off) {
    if (!c->mbar_at || (off & 7) || off >= c->smem_hi)
        return NULL;
    u32 k = c->mbar_at[off / 8];
    return k && c->mbar[k - 1].live ? &c->mbar[k - 1] : NULL;
}

void mbar_forget(struct cta *c) {
    for (u32 k = 0; k < c->nmbar; k++) {
        clock_drop(c->mbar[k].clock);
        clock_drop(c->mbar[k].out_clock);
    }
    c->nmbar = 0;
    size_t need = c->smem_hi / 8 + 1;
    if (need > c->mbar_at_cap) {
        free(c->mbar_at);
        c->mbar_at = NULL;
        c->mbar_at_cap = 0;
    }
    if (c->mbar_at)
        memset(c->mbar_at, 0, need * sizeof *c->mbar_at);
}

static struct mbarrier *mbar_new(struct cta *c, u32 off) {
    if (!c->mbar_at) {
        c->mbar_at_cap = c->smem_hi / 8 + 1;
        c->mbar_at = calloc(c->mbar_at_cap, sizeof *c->mbar_at);
    }
    u32 k = c->mbar_at[off / 8];
    if (!k) {
        if (c->nmbar == c->mbar_cap) {
            c->mbar_cap = c->mbar_cap ? c->mbar_cap * 2 : 32;
            c->mbar = realloc(c->mbar, c->mbar_cap * sizeof *c->mbar);
            if (!c->mbar)
                abort();
        }
        memset(&c->mbar[c->nmbar], 0, sizeof *c->mbar);
        k = ++c->nmbar;
        c->mbar_at[off / 8] = (u16)k;
    }
    return &c->mbar[k - 1];
}

/* --- State changes --- */

static void show_state(struct cta *c, const struct mbarrier *b) {
    u64 v = 0x6d62000000000000ull | (b->phase & 0xffff) << 32 | (u32)b->pending;
    memcpy(c->smem + b->addr, &v, 8);
}

static void mbar_step(struct emu *e, struct cta *c, struct mbarrier *b) {
    e->progress++;
    if (b->pending == 0 && b->tx == 0) {
        check_mbar_flip(e, c, b);
        b->phase++;
        b->pending = b->expected = b->next_expected;
        cta_wake(c, wait_key(KEY_MBAR, b->addr));
    }
    show_state(c, b);
}

static struct mbarrier *need(struct emu *e, struct cta *c, u32 off, const char *what) {
    struct mbarrier *b = mbar_find(c, off);
    if (!b)
        emu_fault(e->running, e->at, "%s on shared address 0x%x, where no mbarrier is initialised",
                  what, off);
    return b;
}

void mbar_expect_tx(struct emu *e, struct cta *c, u32 off, s32 bytes) {
    struct mbarrier *b = need(e, c, off, "expect_tx");
    b->tx += bytes;
    if (b->tx > MAX_COUNT)
        emu_fault(e->running, e->at, "mbarrier at 0x%x: tx-count %d exceeds 2^20-1", off, b->tx);
    e->progress++;
}

void mbar_complete_tx(struct emu *e, struct cta *c, u32 off, s32 bytes, struct clock *release) {
    struct mbarrier *b = need(e, c, off, "complete_tx");
    check_mbar_release(e, b, release);
    b->tx -= bytes;
    if (b->tx < -MAX_COUNT)
        emu_fault(e->running, e->at, "mbarrier at 0x%x: tx-count %d below -(2^20-1)", off, b->tx);
    mbar_step(e, c, b);
}

void mbar_arrive(struct emu *e, struct cta *c, u32 off, s32 count, struct clock *release) {
    struct mbarrier *b = need(e, c, off, "arrive");
    check_mbar_release(e, b, release);
    if (count > b->pending)
        emu_fault(e->running, e->at, "mbarrier at 0x%x: %d arrivals where %d are pending (of %d)",
                  off, count, b->pending, b->expected);
    b->pending -= count;
    mbar_step(e, c, b);
}

/* --- Instructions --- */

/* CTA and offset of lane l's barrier. */
static struct cta *where(struct warp *w, const struct insn *i, u32 l, u32 *off) {
    enum space sp = i->space;
    u64 a = lane_address(w, i, i->a, l);
    if (sp == SP_GENERIC) {
        if ((a & WIN_MASK) != WIN_SHARED)
            emu_fault(w, i, "lane %u: generic address 0x%llx is not in shared memory", l,
                      (unsigned long long)a);
        a &= 0xffffffffu;
        sp = SP_CLUSTER;
    }
    if ((a & WIN_MASK) == WIN_SHARED) {
        emu_report(w, i, EMU_BOUNDS,
                   "lane %u: generic address 0x%llx where one of shared memory is due", l,
                   (unsigned long long)a);
        a &= 0xffffffffu;
    }
    if (a >> 32)
        emu_fault(w, i, "lane %u: shared address 0x%llx needs more than 32 bits", l,
                  (unsigned long long)a);
    if (a & 7)
        emu_fault(w, i, "lane %u: mbarrier address 0x%llx is not a multiple of 8", l,
                  (unsigned long long)a);
    return mem_shared(w, i, l, sp, (u32)a, 8, off);
}

static int op_mbar_init(struct warp *w, const struct insn *i, u32 m) {
    struct emu *e = w->cta->grid->emu;
    const u32 *count = reg_at(w, i->b);
    FOR_LANES(l, m) {
        u32 off;
        struct cta *c = where(w, i, l, &off);
        if (count[l] < 1 || count[l] > MAX_COUNT)
            emu_fault(w, i, "lane %u: count %u is not in 1..2^20-1", l, count[l]);
        if (mbar_find(c, off))
            emu_report(w, i, EMU_MBARRIER,
                       "lane %u: mbarrier at 0x%x is initialised again without inval", l, off);
        struct mbarrier *b = mbar_new(c, off);
        clock_drop(b->clock);
        clock_drop(b->out_clock);
        const char *name = b->name;
        *b = (struct mbarrier){.addr = off,
                               .live = true,
                               .pending = (s32)count[l],
                               .expected = (s32)count[l],
                               .next_expected = (s32)count[l],
                               .name = name};
        check_mbar_init(w, i, c, b);
        show_state(c, b);
        e->progress++;
    }
    return NEXT;
}
static int op_mbar_inval(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        u32 off;
        struct cta *c = where(w, i, l, &off);
        struct mbarrier *b = mbar_find(c, off);
        if (!b)
            emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x", l, off);
        check_mbar_inval(w, i, c, b);
        b->live = false;
        w->cta->grid->emu->progress++;
    }
    return NEXT;
}

/* flags beyond MEM_*: */
enum {
    MB_EXPECT = 1 << MEM_FLAGS,
    MB_DROP = 2 << MEM_FLAGS,
    MB_COUNT = 4 << MEM_FLAGS,
    MB_NO_ARRIVE = 8 << MEM_FLAGS,
    MB_NO_COMPLETE = 16 << MEM_FLAGS,
    MB_COMPLETE = 32 << MEM_FLAGS
};

void mbar_note_arrival(struct warp *w, const struct insn *i, struct mbarrier *b) {
    memmove(b->last_arrive + 1, b->last_arrive, sizeof b->last_arrive - sizeof *b->last_arrive);
    b->last_arrive[0] = (w->id + 1) << 24 | (w->cta->grid->fn->locs[i->loc].ptx & 0xffffff);
}

static int op_mbar_arrive(struct warp *w, const struct insn *i, u32 m) {
    struct emu *e = w->cta->grid->emu;
    struct clock *release = check_release_clock(w, i->sem, i->space == SP_CLUSTER);
    const u32 *n = i->b == REF_NONE ? NULL : reg_at(w, i->b);
    FOR_LANES(l, m) {
        u32 off;
        struct cta *c = where(w, i, l, &off);
        struct mbarrier *b = mbar_find(c, off);
        if (!b)
            emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x", l, off);
        s32 count = i->flags & MB_COUNT && n ? (s32)n[l] : 1;
        check_mbar_use(w, i, c, b);
        if (i->flags & MB_COMPLETE) {
            mbar_complete_tx(e, c, off, n ? (s32)n[l] : 0, release);
            continue;
        }
        if (i->flags & MB_EXPECT)
            mbar_expect_tx(e, c, off, n ? (s32)n[l] : 0);
        if (i->flags & MB_NO_ARRIVE)
            continue;
        if (count < 1 || count > MAX_COUNT)
            emu_fault(w, i, "lane %u: arrival count %d is not in 1..2^20-1", l, count);
        if (i->d != REF_NONE && !(i->d & REF_SINK))
            ((u64 *)reg_at(w, i->d))[l] = (b->phase & 0xffffffff) << 32 | (u32)b->pending;
        if (i->flags & MB_DROP)
            b->next_expected -= count;
        mbar_note_arrival(w, i, b);
        if ((i->flags & MB_NO_COMPLETE) && b->pending == count && b->tx == 0)
            emu_report(w, i, EMU_MBARRIER, "lane %u: arrive.noComplete completes the phase of 0x%x",
                       l, off);
        mbar_arrive(e, c, off, count, release);
    }
    return NEXT;
}

/* n: 0 state, 1 parity; size: 1 try, 0 test */
static int op_mbar_wait(struct warp *w, const struct insn *i, u32 m) {
    struct split *s = &w->splits[w->cur];
    u32 p = 0, key = 0;
    FOR_LANES(l, m) {
        u32 off;
        struct cta *c = where(w, i, l, &off);
        struct mbarrier *b = mbar_find(c, off);
        if (!b)
            emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x", l, off);
        if (c != w->cta)
            emu_fault(w, i, "lane %u: a wait on another CTA's mbarrier", l);
        check_mbar_use(w, i, c, b);
        bool done;
        if (i->n) {
            u32 parity = ((const u32 *)reg_at(w, i->b))[l] & 1;
            done = (b->phase & 1) != parity;
        } else {
            u64 state = ((const u64 *)reg_at(w, i->b))[l];
            done = (u32)b->phase != (u32)(state >> 32);
        }
        key = b->addr;
        check_mbar_wait(w, i, b, done);
        if (done)
            check_mbar_acquire(w, i, b, i->sem);
        p |= (u32)done << l;
    }
    struct emu *e = w->cta->grid->emu;
    if (i->size && !p && !s->wake_false && (e->timing || rng_below(&e->rng, 64)))
        return block_on(w, wait_key(KEY_MBAR, key), "mbarrier");
    s->wake_false = 0;
    pred_set(w, i->d, m, p);
    return p ? NEXT : YIELD;
}

static int op_pending_count(struct warp *w, const struct insn *i, u32 m) {
    u32 *d = reg_at(w, i->d);
    const u64 *a = reg_at(w, i->a);
    FOR_LANES(l, m) d[l] = (u32)a[l];
    return NEXT;
}

/* --- Decoders --- */

static void barrier_address(struct dec *d, struct opnd *o) {
    struct insn *in = d->in;
    bool wide;
    if (o->kind != OP_MEM || o->nsub != 1)
        dec_fail(d, "an address in brackets is due");
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, o, in->space, &in->imm, &wide);
    in->flags |= wide ? MEM_WIDE_ADDR : 0u;
    in->sem = dec_sem(d);
}

void dec_mbar_init(struct dec *d) {
    dec_nops(d, 2, 2);
    barrier_address(d, &d->op[0]);
    d->in->b = dec_src(d, &d->op[1], T_U32);
    d->in->fn = op_mbar_init;
}
void dec_mbar_inval(struct dec *d) {
    dec_nops(d, 1, 1);
    barrier_address(d, &d->op[0]);
    d->in->fn = op_mbar_inval;
}
void dec_mbar_tx(struct dec *d) { /* expect_tx, complete_tx: no arrival */
    dec_nops(d, 2, 2);
    barrier_address(d, &d->op[0]);
    d->in->sem |= SEM_RELAXED;
    d->in->b = dec_src(d, &d->op[1], T_U32);
    d->in->flags |=
        strstr(d->text, "complete_tx") ? (u32)MB_COMPLETE : (u32)MB_EXPECT | MB_NO_ARRIVE;
    d->in->fn = op_mbar_arrive;
}
void dec_mbar_arrive(struct dec *d) {
    struct insn *in = d->in;
    u32 at = d->nops && d->op[0].kind == OP_MEM ? 0 : 1;
    bool expect = dec_has(d, "expect_tx"), no_complete = dec_has(d, "noComplete");
    dec_nops(d, at + 1, at + 2);
    barrier_address(d, &d->op[at]);
    if (!(in->sem & 15))
        in->sem |= SEM_RELEASE;
    if (at)
        in->d = dec_dst(d, &d->op[0], T_B64);
    if (in->space == SP_CLUSTER && at && d->op[0].kind != OP_SINK)
        dec_fail(d, "a remote arrive has no state: use _");
    if (d->nops > at + 1) {
        in->b = dec_src(d, &d->op[at + 1], T_U32);
        in->flags |= expect ? 0u : (u32)MB_COUNT;
    } else if (expect || no_complete) {
        dec_fail(d, "a count is due");
    }
    in->flags |= (expect ? (u32)MB_EXPECT : 0u) | (no_complete ? (u32)MB_NO_COMPLETE : 0u) |
                 (strstr(d->text, "arrive_drop") ? (u32)MB_DROP : 0u);
    in->fn = op_mbar_arrive;
}
void dec_mbar_wait(struct dec *d) {
    struct insn *in = d->in;
    bool try_form = strstr(d->text, "try_wait") != NULL;
    dec_nops(d, 3, try_form ? 4 : 3);
    in->d = dec_pred(d, &d->op[0], true);
    barrier_address(d, &d->op[1]);
    if (in->space == SP_CLUSTER)
        dec_fail(d, "a wait is for the CTA's own barriers");
    in->n = dec_has(d, "parity");
    in->b = dec_src(d, &d->op[2], in->n ? T_U32 : T_B64);
    if (d->nops == 4)
        dec_src(d, &d->op[3], T_U32);
    in->size = try_form;
    if (!(in->sem & 15))
        in->sem |= SEM_ACQUIRE;
    in->fn = op_mbar_wait;
}
void dec_mbar_pending(struct dec *d) {
    dec_nops(d, 2, 2);
    d->in->d = dec_dst(d, &d->op[0], T_U32);
    d->in->a = dec_src(d, &d->op[1], T_B64);
    d->in->fn = op_pending_count;
}
