/* op_async.c: cp.async (Ampere's), its groups and its mbarrier arrivals; st.async and red.async.
 * Bulk and tensor copies are in op_bulk.c.
 *
 * One item is one warp instruction.  It completes at a time the scheduler chooses; until then the
 * destination keeps its old bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "groups.h"
#include "timing.h"
#include <stdlib.h>

struct group_ring *groups_of(struct warp *w, bool bulk) {
    struct group_ring **r = bulk ? &w->bulk : &w->cp_async;
    if (!*r)
        *r = calloc(LANES, sizeof **r);
    if (!*r)
        abort();
    return *r;
}

/* --- cp.async --- */

struct lane_copy {
    u8 *dst;
    const u8 *src;
    u64 dst_addr, src_addr;
    u32 bytes, group;
};
struct warp_copy {
    u32 mask, size;
    u64 seq;
    struct lane_copy lane[LANES];
};

/* An arrival that waits for a lane's earlier copies. */
struct deferred {
    struct deferred *next;
    struct cta *cta;
    u32 off[LANES], left[LANES];
    u64 seq;
    struct clock *clock;
};

static void copy_landed(struct emu *e, struct warp *w, u64 seq, u32 mask) {
    for (struct deferred **p = &w->deferred; *p;) {
        struct deferred *d = *p;
        u32 open = 0;
        for (u32 l = 0; l < LANES; l++) {
            if (d->left[l] && (mask >> l & 1) && seq < d->seq && --d->left[l] == 0)
                mbar_arrive(e, d->cta, d->off[l], 1, d->clock);
            open |= d->left[l];
        }
        if (open) {
            p = &d->next;
            continue;
        }
        *p = d->next;
        clock_drop(d->clock);
        free(d);
    }
}

static bool cp_async_step(struct emu *e, struct item *it) {
    struct warp_copy *c = it->payload;
    struct warp *w = &it->cta->warps[it->warp];
    e->running = w;
    e->at = &it->grid->fn->code[it->pc];
    FOR_LANES(l, c->mask) {
        struct lane_copy *x = &c->lane[l];
        check_item_global(e, it, x->src_addr, x->bytes, false);
        check_item_smem(e, it, it->cta, (u32)x->dst_addr & 0xffffff, c->size, true, false);
        memcpy(x->dst, x->src, x->bytes);
        memset(x->dst + x->bytes, 0, c->size - x->bytes);
        w->cp_async[l].pending[x->group % GROUP_SLOTS]--;
        w->cp_pending[l]--;
    }
    check_item_done(e, it);
    copy_landed(e, w, c->seq, c->mask);
    warp_wake(w, wait_key(KEY_ASYNC, 0));
    return true;
}

/* n: bytes; b: source size; c: predicate that ignores the source */
static int op_cp_async(struct warp *w, const struct insn *i, u32 m) {
    struct group_ring *r = groups_of(w, false);
    struct item *it = item_new(w, 0, sizeof(struct warp_copy));
    struct warp_copy *c = it->payload;
    u32 ignore = i->c == REF_NONE ? 0 : pred_at(w, i->c);
    c->mask = m;
    c->size = i->n;
    c->seq = w->async_seq++;
    FOR_LANES(l, m) {
        struct lane_copy *x = &c->lane[l];
        x->dst_addr = lane_address(w, i, i->a, l);
        x->src_addr = lane_value(w, i->ops[0], l, true) + (u64)(s64)(s32)i->target;
        x->bytes = i->n;
        if (i->b != REF_NONE)
            x->bytes = ((const u32 *)reg_at(w, i->b))[l];
        if (ignore >> l & 1)
            x->bytes = 0;
        if (x->bytes > i->n)
            emu_fault(w, i, "lane %u: source size %u of a copy of %u", l, x->bytes, i->n);
        x->dst = mem_at(w, i, l, i->space, x->dst_addr, i->n, ACC_WRITE | ACC_ASYNC);
        if (x->src_addr & (i->n - 1u))
            emu_fault(w, i, "lane %u: source 0x%llx is not aligned to %u bytes", l,
                      (unsigned long long)x->src_addr, i->n);
        x->src = x->bytes ? mem_at(w, i, l, SP_GLOBAL, x->src_addr, x->bytes,
                                   ACC_READ | ACC_ASYNC | ACC_NOALIGN)
                          : x->dst;
        if (w->time && x->bytes)
            time_touch(w->cta->grid->emu, it, x->src_addr, x->bytes);
        x->group = r[l].committed;
        r[l].pending[x->group % GROUP_SLOTS]++;
        w->cp_pending[l]++;
    }
    it->pc = (u32)(i - w->code);
    it->step = cp_async_step;
    it->loc = i->loc;
    check_item_begin(w, it, false);
    u32 first = (u32)__builtin_ctz(m), same = 0;
    FOR_LANES(k, m) same |= (u32)(r[k].committed == r[first].committed) << k;
    check_item_group(w, it, 0, r[first].committed, same);
    FOR_LANES(k, m & ~same) check_item_group(w, it, 0, r[k].committed, 1u << k);
    item_post(w->cta->grid->emu, it, NULL, AG_CP_ASYNC);
    return NEXT;
}

void dec_cp_async(struct dec *d) {
    struct insn *in = d->in;
    bool wide, wide_src, hint = dec_has(d, "L2::cache_hint");
    s64 off;
    dec_nops(d, 3, 5);
    in->space = SP_SHARED;
    in->a = dec_addr(d, &d->op[0], SP_SHARED, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0;
    ref *r = dec_refs(d, 1);
    r[0] = dec_addr(d, &d->op[1], SP_GLOBAL, &off, &wide_src);
    if (!wide_src)
        dec_fail(d, "a global address has 64 bits");
    in->target = (u32)(s32)off;
    in->n = (u8)dec_imm(d, &d->op[2]);
    bool cg = dec_has(d, "cg");
    if (cg ? in->n != 16 : in->n != 4 && in->n != 8 && in->n != 16)
        dec_fail(d, "%u bytes cannot be copied", in->n);
    u32 at = 3;
    if (at < d->nops && !(hint && at + 1 == d->nops)) {
        struct opnd *o = &d->op[at++];
        if (o->kind == OP_REG && !o->lane_bytes)
            in->c = dec_pred(d, o, false);
        else
            in->b = dec_src(d, o, T_U32);
    }
    if (hint)
        dec_src(d, &d->op[at++], T_B64);
    dec_nops(d, at, at);
    in->fn = op_cp_async;
}

/* --- Groups --- */

enum { GR_BULK = 1, GR_READ = 2, GR_ALL = 4 };

static int op_commit(struct warp *w, const struct insn *i, u32 m) {
    struct group_ring *r = groups_of(w, i->n & GR_BULK);
    FOR_LANES(l, m) {
        group_advance(&r[l]);
        if (group_full(&r[l]))
            return block_on(w, wait_key(KEY_ASYNC, 0), "a free group");
    }
    FOR_LANES(l, m) r[l].committed++;
    return NEXT;
}
static int op_wait_group(struct warp *w, const struct insn *i, u32 m) {
    struct group_ring *r = groups_of(w, i->n & GR_BULK);
    u32 keep = i->n & GR_ALL ? 0 : (u32)i->imm;
    FOR_LANES(l, m) {
        if (i->n & GR_ALL) { /* cp.async.wait_all: the open group too */
            if (w->cp_pending[l])
                return block_on(w, wait_key(KEY_ASYNC, 0), "cp.async copies");
            continue;
        }
        if (group_waits(&r[l], keep, i->n & GR_READ))
            return block_on(w, wait_key(KEY_ASYNC, 0),
                            i->n & GR_BULK ? "bulk copy groups" : "cp.async groups");
    }
    for (u32 rest = m, same; rest; rest &= ~same) {
        u32 first = (u32)__builtin_ctz(rest), n = r[first].committed;
        same = 0;
        FOR_LANES(l, rest) same |= (u32)(r[l].committed == n) << l;
        check_wait_group(w, same, i->n & GR_BULK, i->n & GR_READ,
                         i->n & GR_ALL ? ~0u
                         : n > keep    ? n - keep
                                       : 0);
    }
    return NEXT;
}
void dec_commit_group(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->n = strstr(d->text, ".bulk.") ? GR_BULK : 0;
    d->in->fn = op_commit;
}
void dec_wait_group(struct dec *d) {
    bool all = strstr(d->text, "wait_all") != NULL;
    dec_nops(d, !all, !all);
    d->in->n = (u8)((strstr(d->text, ".bulk.") ? GR_BULK : 0) | (dec_has(d, "read") ? GR_READ : 0) |
                    (all ? GR_ALL : 0));
    d->in->imm = all ? 0 : dec_imm(d, &d->op[0]);
    if (d->in->imm < 0)
        dec_fail(d, "a negative count");
    d->in->fn = op_wait_group;
}

/* --- cp.async.mbarrier.arrive --- */

static int op_cp_arrive(struct warp *w, const struct insn *i, u32 m) {
    struct emu *e = w->cta->grid->emu;
    struct deferred *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    groups_of(w, false);
    d->next = w->deferred; /* at once: a fault below leaves it to the warp's end */
    w->deferred = d;
    d->cta = w->cta;
    d->seq = w->async_seq++;
    d->clock = check_cp_async_clock(w, m);
    u32 open = 0;
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        u32 off;
        if (a & 7)
            emu_fault(w, i, "lane %u: mbarrier address 0x%llx is not a multiple of 8", l,
                      (unsigned long long)a);
        struct cta *c = mem_shared(w, i, l, SP_SHARED, (u32)a, 8, &off);
        struct mbarrier *b = mbar_find(c, off);
        if (!b)
            emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x", l, off);
        check_mbar_use(w, i, c, b);
        if (!i->n) /* the plain form counts itself */
            b->pending++;
        mbar_note_arrival(w, i, b);
        d->off[l] = off;
        d->left[l] = w->cp_pending[l];
        open |= d->left[l];
        if (!d->left[l])
            mbar_arrive(e, c, off, 1, d->clock);
    }
    if (!open) {
        w->deferred = d->next;
        clock_drop(d->clock);
        free(d);
    }
    return NEXT;
}
void dec_cp_arrive(struct dec *d) {
    bool wide;
    dec_nops(d, 1, 1);
    d->in->a = dec_addr(d, &d->op[0], SP_SHARED, &d->in->imm, &wide);
    d->in->flags = wide ? MEM_WIDE_ADDR : 0;
    d->in->n = dec_has(d, "noinc");
    d->in->fn = op_cp_arrive;
}

/* --- st.async and red.async --- */

enum { REMOTE_STORE = 99 };

struct remote {
    struct cta *dst;
    u32 off, bytes, mbar;
    u32 op, type, n, size;
    u8 data[16];
};

u64 atom_apply(struct warp *w, const struct insn *i, u32 op, enum type t, u64 old, u64 b, u64 c);

static bool remote_step(struct emu *e, struct item *it) {
    struct remote *r = it->payload;
    e->running = &it->cta->warps[it->warp];
    e->at = &it->grid->fn->code[it->pc];
    if (r->dst->exited)
        emu_report(e->running, e->at, EMU_DSMEM,
                   "arrives at CTA %u of the cluster, which has exited", r->dst->rank);
    u8 *p = r->dst->smem + r->off;
    check_item_smem(e, it, r->dst, r->off, r->bytes, true, r->op != REMOTE_STORE);
    if (r->op == REMOTE_STORE) {
        memcpy(p, r->data, r->bytes);
    } else {
        for (u32 k = 0; k < r->n; k++) {
            u64 old = 0, b = 0;
            memcpy(&old, p + k * r->size, r->size);
            memcpy(&b, r->data + k * r->size, r->size);
            old = atom_apply(e->running, e->at, r->op, r->type, old, b, 0);
            memcpy(p + k * r->size, &old, r->size);
        }
    }
    struct clock *done = check_item_done(e, it);
    mbar_complete_tx(e, r->dst, r->mbar, (s32)r->bytes, done);
    r->dst->outstanding--;
    return true;
}

static struct cta *cluster_at(struct warp *w, const struct insn *i, u32 l, u64 a, u32 bytes,
                              u32 *off) {
    if (i->space == SP_GENERIC) {
        if ((a & WIN_MASK) != WIN_SHARED)
            emu_fault(w, i, "lane %u: generic address 0x%llx is not in shared memory", l,
                      (unsigned long long)a);
        a &= 0xffffffff;
    }
    if (a & (bytes - 1))
        emu_fault(w, i, "lane %u: address 0x%llx is not aligned to %u bytes", l,
                  (unsigned long long)a, bytes);
    return mem_shared(w, i, l, SP_CLUSTER, (u32)a, bytes, off);
}

/* target: operation and type as in atom, or REMOTE_STORE; ops: data, then the mbarrier */
static int op_remote(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        struct item *it = item_new(w, l, sizeof(struct remote));
        struct remote *r = it->payload;
        r->op = i->target & 0xff;
        r->type = i->target >> 8;
        r->n = i->n;
        r->size = i->size;
        r->bytes = (u32)i->n * i->size;
        r->dst = cluster_at(w, i, l, lane_address(w, i, i->a, l), r->bytes, &r->off);
        u64 mb = lane_value(w, i->b, l, i->flags & (1u << MEM_FLAGS)) + (u64)(s64)(s32)i->rejoin;
        struct cta *c = cluster_at(w, i, l, mb, 8, &r->mbar);
        if (c != r->dst)
            emu_fault(w, i, "lane %u: data go to CTA %u, the mbarrier is in CTA %u", l,
                      r->dst->rank, c->rank);
        check_peer(w, i, c);
        for (u32 k = 0; k < i->n; k++)
            memcpy(r->data + k * i->size, (const u8 *)reg_at(w, i->ops[k]) + l * i->size, i->size);
        it->pc = (u32)(i - w->code);
        it->loc = i->loc;
        it->step = remote_step;
        it->atomic = r->op != REMOTE_STORE;
        check_item_begin(w, it, false); /* another thread's access, in the generic proxy */
        r->dst->outstanding++;
        it->bytes = r->bytes;
        item_post(w->cta->grid->emu, it, NULL, AG_REMOTE);
    }
    return NEXT;
}

static void remote(struct dec *d, u32 op) {
    struct insn *in = d->in;
    enum type t = dec_type(d, 0);
    bool wide;
    s64 off;
    dec_nops(d, 3, 3);
    in->space = (u8)dec_space(d);
    in->n = dec_has(d, "v4") ? 4 : dec_has(d, "v2") ? 2 : 1;
    in->size = (u8)type_bytes(t);
    if ((u32)in->n * in->size > 16 || in->size < 4)
        dec_fail(d, "4, 8 or 16 bytes can be sent");
    in->a = dec_addr(d, &d->op[0], in->space, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0;
    dec_vec(d, &d->op[1], t, false, dec_refs(d, in->n), in->n);
    in->b = dec_addr(d, &d->op[2], in->space, &off, &wide);
    in->flags |= wide ? 1u << MEM_FLAGS : 0u;
    in->rejoin = (u32)(s32)off;
    in->target = op | (u32)t << 8;
    in->fn = op_remote;
}
/* .release: an ordinary store or reduction, done at once: one legal moment of many. */
void dec_st_async(struct dec *d) {
    if (dec_has(d, "release")) {
        dec_st(d);
        return;
    }
    remote(d, 99);
}
void dec_red_async(struct dec *d) {
    static const char *const names[] = {"add",  "min", "max", "inc", "dec", "cas",
                                        "exch", "and", "or",  "xor", NULL};
    int k = dec_one_of(d, names);
    enum type t = dec_type(d, 0);
    if (dec_has(d, "release")) {
        if (k)
            dec_fail(d, "the operation is add");
        dec_red(d);
        return;
    }
    if (k < 0 || t == T_F32 || t == T_F64)
        dec_fail(d, "an integer operation is due");
    remote(d, (u32)k);
}

/* --- st.bulk --- */

static int op_st_bulk(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        const u64 a = lane_address(w, i, i->a, l), bytes = lane_value(w, i->b, l, i->size == 8);
        if (bytes % 8 || a % 8 || bytes > 16777216)
            emu_fault(w, i, "lane %u: %llu bytes at 0x%llx: multiples of 8, at most 16777216", l,
                      (unsigned long long)bytes, (unsigned long long)a);
        for (u64 k = 0; k < bytes; k += 8) {
            u8 *p = mem_at(w, i, l, i->space, a + k, 8, ACC_WRITE);
            if (w->check)
                check_mem(w, i, l, i->space, a + k, 8, ACC_WRITE);
            memset(p, 0, 8);
        }
    }
    w->cta->grid->emu->progress++;
    return NEXT;
}
void dec_st_bulk(struct dec *d) {
    struct insn *in = d->in;
    bool wide;
    u32 lane = 8;
    dec_nops(d, 3, 3);
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, &d->op[0], in->space, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0u;
    in->b = d->op[1].kind == OP_REG ? dec_any(d, &d->op[1], false, &lane)
                                    : dec_src(d, &d->op[1], T_B64);
    in->size = (u8)lane;
    if (dec_imm(d, &d->op[2]))
        dec_fail(d, "the value must be 0");
    in->fn = op_st_bulk;
}

void warp_free_parts(struct warp *w) {
    free(w->cp_async);
    free(w->bulk);
    w->cp_async = w->bulk = NULL;
    while (w->deferred) {
        struct deferred *d = w->deferred;
        w->deferred = d->next;
        clock_drop(d->clock);
        free(d);
    }
}
