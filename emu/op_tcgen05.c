/* op_tcgen05.c: tensor memory: allocation, tcgen05.ld and .st, waits and fences.  The tensor pipe
 * is in op_umma.c, the data paths in tmem.c.
 *
 * ld and st take effect when they are issued; that their results may not be used before the wait is
 * the checker's business, so that programs that skip the wait can still be run leniently.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "num.h"
#include "tcgen05.h"
#include "tmem.h"
#include <stdlib.h>

enum { T_PAIR = 1 << MEM_FLAGS, GRANULE = 32 };

/* A CTA's tensor memory and its side of an allocation by a pair. */
struct tmem_pool {
    struct tmem t; /* first: struct cta points to it */
    enum { PAIR_IDLE, PAIR_WAITING, PAIR_READY } pair;
    u32 waiter, want, got; /* warp, columns, first column */
    u32 last;              /* columns of the last allocation */
};

static struct tmem_pool *pool_of(struct cta *c) {
    return (struct tmem_pool *)tmem_of(c);
}

struct tmem *tmem_of(struct cta *c) {
    if (!c->tmem) {
        struct tmem_pool *p = calloc(1, sizeof *p);
        if (!p || !(p->t.cell = malloc(sizeof(u32) * TMEM_LANES * TMEM_COLUMNS)))
            abort();
        memset(p->t.cell, 0xff, sizeof(u32) * TMEM_LANES * TMEM_COLUMNS);
        c->tmem = &p->t;
    }
    return c->tmem;
}

/* The CTA object starts a new life. */
void tmem_reset(struct cta *c) {
    if (!c->tmem)
        return;
    u32 *cell = c->tmem->cell;
    *pool_of(c) = (struct tmem_pool){.t.cell = cell};
}

void tmem_free(struct cta *c) {
    if (c->tmem)
        free(c->tmem->cell);
    free(c->tmem);
    c->tmem = NULL;
}

/* The CTA's last warp has ended. */
void tmem_exit(struct cta *c, u32 warp, u32 loc) {
    u32 n = 0;
    for (u32 k = 0; c->tmem && k < TMEM_COLUMNS; k++)
        n += c->tmem->owner[k] != 0;
    if (n)
        emu_report_at(c->grid->emu, c, warp, loc, EMU_TMEM,
                      "the CTA ends with %u columns of tensor memory allocated", n);
}

struct cta *tcgen_peer(struct warp *w, const struct insn *i) {
    struct cta *c = w->cta;
    if ((c->rank ^ 1) >= c->cluster->n)
        emu_fault(w, i, "cta_group::2 in a cluster of %u: CTA %u has no peer", c->cluster->n,
                  c->rank);
    return c->cluster->cta[c->rank ^ 1];
}

void tmem_need(struct warp *w, const struct insn *i, struct cta *c, u32 column, u32 columns,
               const char *what) {
    const u16 *owner = tmem_of(c)->owner;
    for (u32 k = column; k < column + columns; k++)
        if (!owner[k] || owner[k] != owner[column]) {
            emu_report(w, i, EMU_TMEM, "%s: columns %u to %u of tensor memory, column %u is not %s",
                       what, column, column + columns - 1, k,
                       owner[k] ? "of the same allocation" : "allocated");
            return;
        }
}

static void whole_warp(struct warp *w, const struct insn *i, u32 m) {
    if (m != ~0u)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x, all 32 are due", m);
}

/* A value that all lanes must share. */
static u32 uniform(struct warp *w, const struct insn *i, u32 m, ref r, const char *what) {
    const u32 *v = reg_at(w, r);
    u32 first = v[__builtin_ctz(m)];
    FOR_LANES(l, m)
    if (v[l] != first)
        emu_report(w, i, EMU_WARP, "%s is 0x%x in lane %u and 0x%x in lane %d", what, v[l], l,
                   first, __builtin_ctz(m));
    return first;
}

/* --- alloc, dealloc, relinquish_alloc_permit --- */

/* CTAs on the same SM as c, c too: they share its tensor memory. */
static struct cta *next_on_sm(struct cta *c, u32 *at) {
    struct emu *e = c->grid->emu;
    for (; *at < e->nclusters * MAX_CLUSTER; ++*at) {
        struct cluster *cl = e->clusters[*at / MAX_CLUSTER];
        u32 rank = *at % MAX_CLUSTER;
        if (rank < cl->n && cl->cta[rank]->sm == c->sm)
            return cl->cta[(*at)++ % MAX_CLUSTER];
    }
    return NULL;
}

static bool range_free(struct cta *c, u32 column, u32 n) {
    u32 at = 0;
    for (struct cta *o; (o = next_on_sm(c, &at));)
        for (u32 k = column; o->tmem && k < column + n; k++)
            if (o->tmem->owner[k])
                return false;
    return true;
}

static void wake_sm(struct cta *c) {
    u32 at = 0;
    for (struct cta *o; (o = next_on_sm(c, &at));)
        cta_wake(o, wait_key(KEY_TMEM, 0));
}

/* First place where n columns are free here and for the other CTA (or NULL); -1 none. */
static s32 find_columns(struct cta *c, struct cta *other, u32 n) {
    for (u32 at = 0; at + n <= TMEM_COLUMNS; at += GRANULE)
        if (range_free(c, at, n) && (!other || range_free(other, at, n)))
            return (s32)at;
    return -1;
}

/* Contents of a fresh allocation are undefined: a pattern that is a NaN. */
static void take(struct tmem *t, u32 at, u32 n) {
    t->nallocs++;
    for (u32 k = at; k < at + n; k++)
        t->owner[k] = (u16)t->nallocs;
    for (u32 l = 0; l < TMEM_LANES; l++)
        memset(t->cell + (size_t)l * TMEM_COLUMNS + at, 0xff, n * sizeof(u32));
}

static void check_alloc_rules(struct warp *w, const struct insn *i, struct tmem_pool *p, u32 n) {
    if (n < 32 || n > TMEM_COLUMNS || (n & (n - 1)))
        emu_fault(w, i, "%u columns: a power of two from 32 to 512 is due", n);
    if (p->t.relinquished)
        emu_report(w, i, EMU_TMEM, "allocation after relinquish_alloc_permit");
    if (p->last && n > p->last)
        emu_report(w, i, EMU_TMEM, "%u columns after an allocation of %u: sizes may not grow", n,
                   p->last);
}

static int alloc_pair(struct warp *w, const struct insn *i, struct tmem_pool *p, u32 n) {
    struct cta *peer = tcgen_peer(w, i);
    struct tmem_pool *q = pool_of(peer);
    if (p->pair == PAIR_READY && p->waiter == w->id) {
        p->pair = PAIR_IDLE;
        return (int)p->got;
    }
    p->pair = PAIR_WAITING;
    p->waiter = w->id;
    p->want = n;
    if (q->pair != PAIR_WAITING)
        return -1;
    if (q->want != n)
        emu_fault(w, i, "the CTAs of the pair ask for %u and %u columns", n, q->want);
    s32 at = find_columns(w->cta, peer, n);
    if (at < 0)
        return -1;
    take(&p->t, (u32)at, n);
    take(&q->t, (u32)at, n);
    p->pair = PAIR_IDLE;
    q->pair = PAIR_READY;
    q->got = (u32)at;
    cta_wake(peer, wait_key(KEY_TMEM, 0));
    return at;
}

static int op_alloc(struct warp *w, const struct insn *i, u32 m) {
    struct tmem_pool *p = pool_of(w->cta);
    u32 l = (u32)__builtin_ctz(m), n = uniform(w, i, m, i->b, "the number of columns");
    whole_warp(w, i, m);
    check_alloc_rules(w, i, p, n);
    s32 at;
    if (i->flags & T_PAIR) {
        at = alloc_pair(w, i, p, n);
    } else {
        at = find_columns(w->cta, NULL, n);
        if (at >= 0)
            take(&p->t, (u32)at, n);
    }
    if (at < 0)
        return block_on(w, wait_key(KEY_TMEM, 0), "tensor memory");
    p->last = n;
    u64 a = lane_address(w, i, i->a, l);
    void *to = mem_at(w, i, l, i->space, a, 4, ACC_WRITE);
    if (w->check)
        check_mem(w, i, WHOLE_WARP, i->space, a, 4, ACC_WRITE);
    u32 address = (u32)at;
    memcpy(to, &address, 4);
    w->cta->grid->emu->progress++;
    return NEXT;
}

static int op_dealloc(struct warp *w, const struct insn *i, u32 m) {
    struct cta *c = w->cta;
    struct tmem *t = tmem_of(c);
    u32 a = uniform(w, i, m, i->a, "the address"),
        n = uniform(w, i, m, i->b, "the number of columns");
    whole_warp(w, i, m);
    u16 id = a < TMEM_COLUMNS ? t->owner[a] : 0;
    u32 have = 0;
    for (u32 k = a; id && k < TMEM_COLUMNS && t->owner[k] == id; k++)
        have++;
    if (!id || have != n || (a && t->owner[a - 1] == id)) {
        emu_report(w, i, EMU_TMEM, "0x%x, %u columns: no allocation starts there with that size", a,
                   n);
        return NEXT;
    }
    const char *busy = umma_in_flight(c, c, a, n);
    if (busy)
        emu_report(w, i, EMU_TMEM, "columns %u to %u are freed while %s uses them", a, a + n - 1,
                   busy);
    if (w->check)
        check_tmem_free(w, i, a, n);
    for (u32 k = a; k < a + n; k++)
        t->owner[k] = 0;
    c->grid->emu->progress++;
    wake_sm(c);
    if (i->flags & T_PAIR) /* its other half may wait for both */
        wake_sm(tcgen_peer(w, i));
    return NEXT;
}

static int op_relinquish(struct warp *w, const struct insn *i, u32 m) {
    whole_warp(w, i, m);
    tmem_of(w->cta)->relinquished = true;
    return NEXT;
}

static void group_flag(struct dec *d) {
    bool one = dec_has(d, "cta_group::1"), two = dec_has(d, "cta_group::2");
    if (one == two)
        dec_fail(d, "cta_group::1 or cta_group::2 is due");
    d->in->flags |= two ? (u32)T_PAIR : 0u;
}

void dec_tcgen_alloc(struct dec *d) {
    struct insn *in = d->in;
    bool wide;
    dec_nops(d, 2, 2);
    group_flag(d);
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, &d->op[0], in->space, &in->imm, &wide);
    in->flags |= wide ? (u32)MEM_WIDE_ADDR : 0u;
    in->b = dec_src(d, &d->op[1], T_U32);
    in->fn = op_alloc;
}
void dec_tcgen_dealloc(struct dec *d) {
    dec_nops(d, 2, 2);
    group_flag(d);
    d->in->a = dec_src(d, &d->op[0], T_U32);
    d->in->b = dec_src(d, &d->op[1], T_U32);
    d->in->fn = op_dealloc;
}
void dec_tcgen_relinquish(struct dec *d) {
    dec_nops(d, 0, 0);
    group_flag(d);
    d->in->fn = op_relinquish;
}

/* --- ld, st --- */

struct move { /* kept with the instruction */
    struct tmem_access t;
    ref regs[128];
};

/* The address, checked. */
static u32 move_address(struct warp *w, const struct insn *i, u32 m, const struct tmem_access *t) {
    u32 a = uniform(w, i, m, i->a, "the address") + (u32)i->imm;
    whole_warp(w, i, m);
    if (a >> 16 >= TMEM_LANES && a >> 16 < 256) {
        /* sm_100 hardware ignores the bit: kernels that ran there add 128 for the odd CTA */
        emu_report(w, i, EMU_TMEM, "address 0x%08x: lane %u, there are %d", a, a >> 16, TMEM_LANES);
        a &= ~((u32)TMEM_LANES << 16);
    }
    int quarter = (int)(w->id % 4);
    const char *why = tmem_refuse(t, a, quarter);
    if (why && !tmem_refuse(t, a, (int)(a >> 21 & 3)) && a >> 16 < TMEM_LANES) {
        /* shipped kernels give all warps the first quarter's address: each reaches its own */
        emu_report(w, i, EMU_TMEM, "address 0x%08x in warp %u: %s", a, w->id, why);
        a = (a & ~(3u << 21)) | (u32)quarter << 21;
        why = NULL;
    }
    if (why)
        emu_fault(w, i, "address 0x%08x: %s", a, why);
    u32 columns = (u32)tmem_columns(t);
    tmem_need(w, i, w->cta, a & 0xffff, columns, "access");
    if (t->shape == TMEM_16X32BX2)
        tmem_need(w, i, w->cta, (a & 0xffff) + (u32)t->split_off, columns, "access");
    return a;
}

static void move_check(struct warp *w, const struct insn *i, const struct tmem_access *t, u32 a,
                       bool write) {
    u32 lanes = (u32)tmem_lanes(t), columns = (u32)tmem_columns(t);
    if (!w->check)
        return;
    check_tmem(w, i, a >> 16, lanes, a & 0xffff, columns, write);
    if (t->shape == TMEM_16X32BX2)
        check_tmem(w, i, a >> 16, lanes, (a & 0xffff) + (u32)t->split_off, columns, write);
}

static int op_ld(struct warp *w, const struct insn *i, u32 m) {
    const struct move *v = (const void *)i->ops;
    u32 a = move_address(w, i, m, &v->t), *regs[128];
    for (u32 k = 0; k < i->nops; k++)
        regs[k] = reg_at(w, v->regs[k]);
    move_check(w, i, &v->t, a, false);
    tmem_load(&v->t, tmem_of(w->cta)->cell, a, regs);
    w->tcgen_ld++;
    if (w->check)
        check_tcgen_pending(w, i, v->regs, i->nops);
    return NEXT;
}

/* flags: 1 signed, 2 f32, 4 abs, 8 NaN; size: 1 max; d: the reduction over a lane's registers */
static int op_ld_red(struct warp *w, const struct insn *i, u32 m) {
    const struct move *v = (const void *)i->ops;
    u32 *d = reg_at(w, i->d);
    op_ld(w, i, m);
    FOR_LANES(l, m) {
        u32 r = 0;
        for (u32 k = 0; k < i->nops; k++) {
            u32 x = ((const u32 *)reg_at(w, v->regs[k]))[l];
            x = i->flags & 4 ? x & 0x7fffffff : x;
            const bool less = i->flags & 1 ? (s32)x < (s32)r : x < r;
            if (!k)
                r = x;
            else if (i->flags & 2)
                r = num_bits32(
                    (i->size ? num_max : num_min)(num_float(r), num_float(x), i->flags & 8, false));
            else
                r = less != (i->size != 0) ? x : r;
        }
        d[l] = r;
    }
    if (w->check)
        check_tcgen_pending(w, i, &i->d, 1);
    return NEXT;
}

static int op_st(struct warp *w, const struct insn *i, u32 m) {
    const struct move *v = (const void *)i->ops;
    const u32 *regs[128];
    u32 a = move_address(w, i, m, &v->t);
    for (u32 k = 0; k < i->nops; k++)
        regs[k] = reg_at(w, v->regs[k]);
    move_check(w, i, &v->t, a, true);
    tmem_store(&v->t, tmem_of(w->cta)->cell, a, regs);
    w->tcgen_st++;
    return NEXT;
}

static struct move *dec_move(struct dec *d, struct opnd *addr, struct opnd *data,
                             struct opnd *split, bool load) {
    static const char *const names[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2", NULL};
    struct insn *in = d->in;
    struct move *v = dec_alloc(d, sizeof *v);
    int shape = dec_one_of(d, names);
    const char *num = dec_prefix(d, "x");
    bool wide;
    if (shape < 0 || !num)
        dec_fail(d, "a shape and a count are due");
    v->t = (struct tmem_access){.shape = (enum tmem_shape)shape,
                                .num = atoi(num),
                                .pack = dec_has(d, "pack::16b") || dec_has(d, "unpack::16b")};
    if ((shape == TMEM_16X32BX2) != (split != NULL))
        dec_fail(d, "16x32bx2, and it alone, takes the offset of the second half");
    if (split)
        v->t.split_off = (int)dec_imm(d, split);
    int n = tmem_registers(&v->t);
    if (!n)
        dec_fail(d, "this count does not exist for this shape");
    dec_vec(d, data, T_B32, load, v->regs, (u32)n);
    in->a = dec_addr(d, addr, SP_SHARED, &in->imm, &wide);
    if (wide)
        dec_fail(d, "a tensor memory address is a 32-bit register");
    in->ops = (const void *)v;
    in->nops = (u16)n;
    return v;
}
void dec_tcgen_ld(struct dec *d) {
    dec_nops(d, 2, 3);
    dec_move(d, &d->op[1], &d->op[0], d->nops == 3 ? &d->op[2] : NULL, true);
    d->in->fn = op_ld;
}
void dec_tcgen_ld_red(struct dec *d) {
    const enum type t = dec_type(d, 0);
    dec_nops(d, 3, 4);
    if (dec_has(d, "min") == dec_has(d, "max") || t == T_NONE)
        dec_fail(d, "min or max, and a type, are due");
    dec_move(d, &d->op[2], &d->op[0], d->nops == 4 ? &d->op[3] : NULL, true);
    d->in->d = dec_dst(d, &d->op[1], T_B32);
    d->in->size = dec_has(d, "max");
    d->in->flags = (t == T_S32) | (t == T_F32 ? 2u : 0u) | (dec_has(d, "abs") ? 4u : 0u) |
                   (dec_has(d, "NaN") ? 8u : 0u);
    d->in->fn = op_ld_red;
}
void dec_tcgen_st(struct dec *d) {
    dec_nops(d, 2, 3);
    dec_move(d, &d->op[0], &d->op[d->nops - 1], d->nops == 3 ? &d->op[1] : NULL, false);
    d->in->fn = op_st;
}

/* --- wait, fence --- */

static int op_wait_ld(struct warp *w, const struct insn *i, u32 m) {
    whole_warp(w, i, m);
    w->tcgen_ld = 0;
    if (w->check)
        check_tcgen_wait(w, true);
    return NEXT;
}
static int op_wait_st(struct warp *w, const struct insn *i, u32 m) {
    whole_warp(w, i, m);
    w->tcgen_st = 0;
    if (w->check)
        check_tcgen_wait(w, false);
    return NEXT;
}
void dec_tcgen_wait(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->fn = strstr(d->text, "wait::ld") ? op_wait_ld : op_wait_st;
}

static int op_tcgen_fence(struct warp *w, const struct insn *i, u32 m) {
    check_fence(w, m, i->n ? FENCE_TCGEN_AFTER : FENCE_TCGEN_BEFORE, 0);
    return NEXT;
}
void dec_tcgen_fence(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->n = strstr(d->text, "after_thread_sync") != NULL;
    d->in->fn = op_tcgen_fence;
}
