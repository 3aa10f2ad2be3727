/* op_bulk.c: bulk and tensor copies (PTX ISA, cp.async.bulk and its family).
 *
 * A load is an item that moves its bytes in a few random parts, each with its own complete_tx: the
 * tx-count may go negative before expect_tx.  A store reads shared memory first and writes global
 * memory later, as two steps: wait_group.read and wait_group can tell them apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "forms_note.h"
#include "groups.h"
#include "tensormap.h"
#include "timing.h"
#include <stdlib.h>

enum {
    B_MULTICAST = 1 << MEM_FLAGS,
    B_PAIR = 2 << MEM_FLAGS,
    B_WIDE_MBAR = 4 << MEM_FLAGS,
    B_WIDE_SRC = 8 << MEM_FLAGS,
    B_REMOTE = 16 << MEM_FLAGS
};

/* --- Loads --- */

struct load {
    bool tensor;
    struct tensormap_copy c; /* tensor */
    u64 src;                 /* linear; shared offset of the source when remote */
    bool remote;
    u32 dst, bytes, units, next, start; /* units: chunks, or 16-byte pieces */
    u32 mbar, mbar_rank;
    bool pair;
    u32 ctas; /* destinations by rank */
};

static void load_part(struct emu *e, struct item *it, struct load *x, struct cta *c, u32 first,
                      u32 n) {
    if (c->exited)
        emu_report(e->running, e->at, EMU_DSMEM,
                   "writes shared memory of CTA %u of the cluster, which has exited", c->rank);
    if (x->tensor) {
        for (u32 k = first; k < first + n; k++) {
            struct tensormap_chunk ch;
            tensormap_chunk(&x->c, k, &ch);
            if (ch.to > ch.from)
                check_item_global(e, it, ch.global + ch.from, (u64)ch.to - ch.from, false);
            check_item_smem(e, it, c, ch.smem, 16, true, true);
        }
        tensormap_load(&x->c, c->smem, first, n);
        return;
    }
    u32 off = first * 16, len = n * 16;
    check_item_smem(e, it, c, x->dst + off, len, true, true);
    if (x->remote) {
        check_item_smem(e, it, it->cta, (u32)x->src + off, len, false, true);
        memcpy(c->smem + x->dst + off, it->cta->smem + x->src + off, len);
    } else {
        check_item_global(e, it, x->src + off, len, false);
        memcpy(c->smem + x->dst + off, (const void *)(uintptr_t)(x->src + off), len);
    }
}

static u32 part_bytes(const struct load *x, u32 first, u32 n) {
    if (!x->tensor)
        return n * 16;
    u32 per_row = x->c.chunks / x->c.rows, sum = 0;
    if (x->c.row_bytes % 16 == 0)
        return n * 16;
    for (u32 k = first; k < first + n; k++) {
        u32 at = k % per_row * 16;
        sum += x->c.row_bytes - at < 16 ? x->c.row_bytes - at : 16;
    }
    return sum;
}

static bool load_step(struct emu *e, struct item *it) {
    struct load *x = it->payload;
    e->running = &it->cta->warps[it->warp];
    e->at = &it->grid->fn->code[it->pc];
    u32 left = x->units - x->next, n = left;
    if (left > 8 && e->opt.policy != EMU_INSTANT)
        n = 1 + rng_below(&e->rng, left);
    u32 first = (x->next + x->start) % x->units;
    if (first + n > x->units)
        n = x->units - first;
    bool last = n == left;
    struct clock *done = NULL;
    for (u32 r = 0; r < it->cta->cluster->n; r++)
        if (x->ctas >> r & 1)
            load_part(e, it, x, it->cta->cluster->cta[r], first, n);
    done = last ? check_item_done(e, it) : check_item_part(e, it);
    u32 bytes = part_bytes(x, first, n);
    for (u32 r = 0; r < it->cta->cluster->n; r++) {
        if (!(x->ctas >> r & 1))
            continue;
        u32 to = x->pair                   ? (r & ~1u) | (x->mbar_rank & 1)
                 : x->ctas & (x->ctas - 1) ? r
                                           : x->mbar_rank;
        e->stats[EMU_STAT_TMA_BYTES] += bytes;
        mbar_complete_tx(e, it->cta->cluster->cta[to], x->mbar, (s32)bytes, done);
        if (last)
            it->cta->cluster->cta[r]->outstanding--;
    }
    x->next += n;
    return last;
}

static void touch_rows(struct emu *e, struct item *it, const struct tensormap_copy *c) {
    for (u32 r = 0; r < c->rows; r++) {
        struct tensormap_row row;
        tensormap_row(c, r, &row);
        if (row.bytes)
            time_touch(e, it, row.global, row.bytes);
    }
}

static void load_post(struct warp *w, const struct insn *i, struct item *it, struct load *x) {
    struct cluster *cl = w->cta->cluster;
    struct emu *e = w->cta->grid->emu;
    x->start = e->timing ? 0 : rng_below(&e->rng, x->units);
    for (u32 r = 0; r < cl->n; r++)
        if (x->ctas >> r & 1)
            cl->cta[r]->outstanding++;
    it->pc = (u32)(i - w->code);
    it->loc = i->loc;
    it->step = load_step;
    check_item_begin(w, it, true);
    it->remote = x->remote;
    if (e->timing && x->tensor)
        touch_rows(e, it, &x->c);
    else if (e->timing && x->remote)
        it->bytes = x->bytes;
    else if (e->timing)
        time_touch(e, it, x->src, x->bytes);
    item_post(e, it, NULL, AG_TMA_LOAD);
}

/* Shared address of lane l from operand r, as CTA and offset. */
static struct cta *smem_at(struct warp *w, const struct insn *i, u32 l, ref r, bool wide, s64 add,
                           enum space sp, u32 bytes, u32 align, u32 *off) {
    u64 a = lane_value(w, r, l, wide) + (u64)add;
    if (!wide)
        a = (u32)a;
    if ((a & WIN_MASK) == WIN_SHARED)
        a &= 0xffffffff;
    if (a >> 32)
        emu_fault(w, i, "lane %u: 0x%llx is not a shared address", l, (unsigned long long)a);
    if (a & (align - 1))
        emu_fault(w, i, "lane %u: shared address 0x%llx is not aligned to %u bytes", l,
                  (unsigned long long)a, align);
    return mem_shared(w, i, l, sp, (u32)a, bytes, off);
}

struct bulk { /* operands of all forms, kept with the instruction */
    ref dst, src, size, mbar, mask, map;
    s64 dst_off, src_off, mbar_off, map_off;
    ref coord[5];
    u32 ncoords, dims;
    enum space dst_space;
    enum reduce_op op;
    enum elem_type type;
    bool reduce, gather, to_global, prefetch;
};

static void destinations(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                         struct load *x, struct cta *dst) {
    struct cta *mc = smem_at(w, i, l, b->mbar, i->flags & B_WIDE_MBAR, b->mbar_off,
                             b->dst_space == SP_SHARED ? SP_SHARED : SP_CLUSTER, 8, 8, &x->mbar);
    x->mbar_rank = mc->rank;
    x->pair = i->flags & B_PAIR;
    x->ctas = 1u << dst->rank;
    if (i->flags & B_MULTICAST) {
        x->ctas = ((const u32 *)reg_at(w, b->mask))[l] & 0xffff;
        if (!x->ctas || x->ctas >> w->cta->cluster->n)
            emu_fault(w, i, "lane %u: multicast mask 0x%x in a cluster of %u", l, x->ctas,
                      w->cta->cluster->n);
    } else if (mc != dst && !(x->pair && (mc->rank ^ dst->rank) == 1)) {
        emu_fault(w, i, "lane %u: data go to CTA %u, the mbarrier is in CTA %u", l, dst->rank,
                  mc->rank);
    }
    u32 to = x->pair ? (dst->rank & ~1u) | (x->mbar_rank & 1) : mc->rank;
    struct mbarrier *mb =
        to < w->cta->cluster->n ? mbar_find(w->cta->cluster->cta[to], x->mbar) : NULL;
    if (!mb)
        emu_fault(w, i, "lane %u: no mbarrier is initialised at 0x%x of CTA %u", l, x->mbar, to);
    check_mbar_use(w, i, w->cta->cluster->cta[to], mb);
    check_mbar_async(w->cta->grid->emu, w->cta->cluster->cta[to], mb);
}

static int op_bulk_load(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        u32 bytes = ((const u32 *)reg_at(w, b->size))[l], off;
        if (bytes % 16)
            emu_fault(w, i, "lane %u: %u bytes is not a multiple of 16", l, bytes);
        if (!bytes)
            continue;
        struct item *it = item_new(w, l, sizeof(struct load));
        struct load *x = it->payload;
        struct cta *dst = smem_at(w, i, l, b->dst, i->flags & MEM_WIDE_ADDR, b->dst_off,
                                  b->dst_space, bytes, 16, &off);
        x->dst = off;
        x->bytes = bytes;
        x->units = bytes / 16;
        x->remote = i->flags & B_REMOTE;
        if (x->remote) {
            smem_at(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, bytes, 16, &off);
            x->src = off;
        } else {
            x->src = lane_value(w, b->src, l, true) + (u64)b->src_off;
            mem_at(w, i, l, SP_GLOBAL, x->src, bytes, ACC_READ | ACC_NOALIGN);
            if (x->src & 15)
                emu_fault(w, i, "lane %u: global address 0x%llx is not aligned to 16 bytes", l,
                          (unsigned long long)x->src);
        }
        destinations(w, i, l, b, x, dst);
        load_post(w, i, it, x);
    }
    return NEXT;
}

/* --- Tensor coordinates --- */

static void tensor_copy(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                        struct tensormap_copy *c) {
    char why[300];
    u64 a = lane_value(w, b->map, l, true) + (u64)b->map_off;
    if (a & 63)
        emu_fault(w, i, "lane %u: tensor map at 0x%llx is not aligned to 64 bytes", l,
                  (unsigned long long)a);
    const void *map = mem_at(w, i, l, SP_GENERIC, a, 128, ACC_READ | ACC_NOALIGN);
    if (!tensormap_decode(&c->map, map, why, sizeof why))
        emu_fault(w, i, "lane %u: tensor map at 0x%llx: %s", l, (unsigned long long)a, why);
    c->mode = b->gather ? TENSORMAP_FOUR_ROWS : TENSORMAP_TILE;
    for (u32 k = 0; k < b->ncoords; k++)
        c->coord[k] = ((const s32 *)reg_at(w, b->coord[k]))[l];
}

/* Every byte of the tensor that the box touches is allocated. */
static void check_rows(struct warp *w, const struct insn *i, u32 l,
                       const struct tensormap_copy *c) {
    for (u32 r = 0; r < c->rows; r++) {
        struct tensormap_row row;
        tensormap_row(c, r, &row);
        if (row.bytes)
            mem_at(w, i, l, SP_GLOBAL, row.global, row.bytes, ACC_READ | ACC_NOALIGN);
    }
}

static void tensor_prepare(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                           struct tensormap_copy *c) {
    char why[300];
    if (!b->gather && c->map.rank != b->dims)
        emu_fault(w, i, "lane %u: a %uD copy with a tensor map of rank %u", l, b->dims,
                  c->map.rank);
    if (!tensormap_prepare(c, b->ncoords, b->to_global, why, sizeof why))
        emu_fault(w, i, "lane %u: %s", l, why);
    forms_tensor(w->cta->grid->emu, &c->map,
                 b->gather       ? "four rows"
                 : !b->to_global ? "load"
                 : b->reduce     ? reduce_name(b->op)
                                 : "store");
    check_rows(w, i, l, c);
}

static int op_tensor_load(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        struct item *it = item_new(w, l, sizeof(struct load));
        struct load *x = it->payload;
        u32 off;
        tensor_copy(w, i, l, b, &x->c);
        struct cta *dst = smem_at(w, i, l, b->dst, i->flags & MEM_WIDE_ADDR, b->dst_off,
                                  b->dst_space, 1, 1, &off);
        x->c.smem = off;
        tensor_prepare(w, i, l, b, &x->c);
        smem_at(w, i, l, b->dst, i->flags & MEM_WIDE_ADDR, b->dst_off, b->dst_space, x->c.span, 1,
                &off);
        x->tensor = true;
        x->bytes = x->c.bytes;
        x->units = x->c.chunks;
        destinations(w, i, l, b, x, dst);
        load_post(w, i, it, x);
    }
    return NEXT;
}

/* --- Stores and reductions --- */

struct store {
    bool tensor, reduce, have_read, twin;
    struct tensormap_copy c;
    u64 dst;
    u32 src, bytes, span, group, next, units;
    enum reduce_op op;
    enum elem_type type;
    u8 *copy; /* of the source */
};

/* A twin writes what another lane of the same instruction writes: reported at issue, no race. */
static void store_check(struct emu *e, struct item *it, const struct store *x, u64 addr,
                        u64 bytes) {
    if (!x->twin)
        check_item_global(e, it, addr, bytes, true);
}

static void store_write(struct emu *e, struct item *it, struct store *x, u32 first, u32 n) {
    if (x->tensor) {
        for (u32 k = first; k < first + n; k++) {
            struct tensormap_chunk ch;
            tensormap_chunk(&x->c, k, &ch);
            if (ch.to > ch.from)
                store_check(e, it, x, ch.global + ch.from, (u64)ch.to - ch.from);
        }
        const u8 *base = x->copy - x->c.smem;
        if (x->reduce)
            tensormap_reduce(&x->c, x->op, base, first, n);
        else
            tensormap_store(&x->c, base, first, n);
        return;
    }
    u64 to = x->dst + first * 16ull;
    store_check(e, it, x, to, n * 16ull);
    if (x->reduce)
        reduce_elements(x->type, x->op, (void *)(uintptr_t)to, x->copy + first * 16, n * 16ull);
    else
        memcpy((void *)(uintptr_t)to, x->copy + first * 16, n * 16ull);
}

static bool store_step(struct emu *e, struct item *it) {
    struct store *x = it->payload;
    struct warp *w = &it->cta->warps[it->warp];
    struct group_ring *r = &w->bulk[it->lane];
    e->running = w;
    e->at = &it->grid->fn->code[it->pc];
    if (!x->have_read) {
        x->have_read = true;
        x->copy = malloc(x->span);
        if (!x->copy)
            abort();
        if (x->tensor) {
            for (u32 k = 0; k < x->c.chunks; k++) {
                struct tensormap_chunk ch;
                tensormap_chunk(&x->c, k, &ch);
                check_item_smem(e, it, it->cta, ch.smem, 16, false, true);
            }
        } else {
            check_item_smem(e, it, it->cta, x->src, x->bytes, false, true);
        }
        memcpy(x->copy, it->cta->smem + x->src, x->span);
        check_item_part(e, it);
        r->pending_read[x->group % GROUP_SLOTS]--;
        e->progress++;
        warp_wake(w, wait_key(KEY_ASYNC, 0));
        return false;
    }
    u32 left = x->units - x->next, n = left > 8 && !e->timing ? 1 + rng_below(&e->rng, left) : left;
    store_write(e, it, x, x->next, n);
    x->next += n;
    if (x->next < x->units)
        return false;
    e->stats[EMU_STAT_TMA_BYTES] += x->bytes;
    check_item_done(e, it);
    free(x->copy);
    x->copy = NULL;
    r->pending[x->group % GROUP_SLOTS]--;
    warp_wake(w, wait_key(KEY_ASYNC, 0));
    return true;
}

static void store_post(struct warp *w, const struct insn *i, u32 l, struct item *it,
                       struct store *x, const struct bulk *b) {
    struct group_ring *r = &groups_of(w, true)[l];
    x->reduce = it->atomic = b->reduce;
    x->op = b->op;
    x->group = r->committed;
    r->pending[x->group % GROUP_SLOTS]++;
    r->pending_read[x->group % GROUP_SLOTS]++;
    it->pc = (u32)(i - w->code);
    it->loc = i->loc;
    it->step = store_step;
    check_item_begin(w, it, true);
    check_item_group(w, it, 1, x->group, 1u << l);
    if (w->time && x->tensor)
        touch_rows(w->cta->grid->emu, it, &x->c);
    else if (w->time)
        time_touch(w->cta->grid->emu, it, x->dst, x->bytes);
    item_post(w->cta->grid->emu, it, NULL, AG_TMA_STORE);
}

static int op_bulk_store(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        u32 bytes = ((const u32 *)reg_at(w, b->size))[l];
        if (bytes % 16)
            emu_fault(w, i, "lane %u: %u bytes is not a multiple of 16", l, bytes);
        if (!bytes)
            continue;
        struct item *it = item_new(w, l, sizeof(struct store));
        struct store *x = it->payload;
        smem_at(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, bytes, 16, &x->src);
        x->dst = lane_value(w, b->dst, l, true) + (u64)b->dst_off;
        mem_at(w, i, l, SP_GLOBAL, x->dst, bytes, ACC_WRITE | ACC_NOALIGN);
        if (x->dst & 15)
            emu_fault(w, i, "lane %u: global address 0x%llx is not aligned to 16 bytes", l,
                      (unsigned long long)x->dst);
        x->bytes = x->span = bytes;
        x->units = bytes / 16;
        x->type = b->type;
        store_post(w, i, l, it, x, b);
    }
    return NEXT;
}

static bool same_box(const struct tensormap_copy *a, const struct tensormap_copy *b) {
    return a->map.address == b->map.address && a->smem == b->smem &&
           !memcmp(a->coord, b->coord, sizeof a->coord);
}

static int op_tensor_store(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    struct tensormap_copy first = {0};
    u32 twins = 0;
    FOR_LANES(l, m) {
        struct item *it = item_new(w, l, sizeof(struct store));
        struct store *x = it->payload;
        tensor_copy(w, i, l, b, &x->c);
        smem_at(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, 1, 1, &x->c.smem);
        tensor_prepare(w, i, l, b, &x->c);
        if (b->reduce) {
            const char *why = reduce_refuse(x->c.map.type, b->op, true);
            if (why)
                emu_fault(w, i, "lane %u: %s", l, why);
        }
        smem_at(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, x->c.span, 1,
                &x->src);
        x->tensor = true;
        x->bytes = x->c.bytes;
        x->span = x->c.span;
        x->units = x->c.chunks;
        if (l == (u32)__builtin_ctz(m))
            first = x->c;
        else
            twins += x->twin = !b->reduce && same_box(&x->c, &first);
        store_post(w, i, l, it, x, b);
    }
    if (twins)
        emu_report(w, i, EMU_WARP, "%u lanes store the same box", twins + 1);
    return NEXT;
}

static int op_bulk_prefetch(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        struct tensormap_copy c = {0};
        if (b->map != REF_NONE) {
            tensor_copy(w, i, l, b, &c);
            if (!b->gather && c.map.rank != b->dims)
                emu_fault(w, i, "lane %u: a %uD prefetch with a tensor map of rank %u", l, b->dims,
                          c.map.rank);
        } else {
            u32 bytes = ((const u32 *)reg_at(w, b->size))[l];
            u64 a = lane_value(w, b->src, l, true) + (u64)b->src_off;
            if (bytes % 16 || (a & 15))
                emu_fault(w, i, "lane %u: prefetch of %u bytes at 0x%llx: multiples of 16 are due",
                          l, bytes, (unsigned long long)a);
        }
    }
    return NEXT;
}

/* --- Decoders --- */

static struct bulk *new_bulk(struct dec *d) {
    struct bulk *b = dec_alloc(d, sizeof *b);
    *b = (struct bulk){.dst = REF_NONE,
                       .src = REF_NONE,
                       .size = REF_NONE,
                       .mbar = REF_NONE,
                       .mask = REF_NONE,
                       .map = REF_NONE};
    d->in->ops = (const void *)b;
    return b;
}

static void wide_flag(struct dec *d, bool wide, u32 flag) {
    d->in->flags |= wide ? flag : 0;
}

/* Trailing operands: the multicast mask, the cache policy. */
static void trailing(struct dec *d, struct bulk *b, u32 at) {
    if (dec_has(d, "multicast::cluster")) {
        if (at >= d->nops)
            dec_fail(d, "a multicast mask is due");
        b->mask = dec_src(d, &d->op[at++], T_U16);
        d->in->flags |= B_MULTICAST;
    }
    if (dec_has(d, "L2::cache_hint")) {
        if (at >= d->nops)
            dec_fail(d, "a cache policy is due");
        dec_src(d, &d->op[at++], T_B64);
    }
    if (at != d->nops)
        dec_fail(d, "%u operands too many", d->nops - at);
    if (dec_has(d, "cta_group::2"))
        d->in->flags |= B_PAIR;
}

static void map_operand(struct dec *d, struct bulk *b, struct opnd *o) {
    bool wide;
    if (o->kind != OP_MEM || o->nsub != 2 || o->sub[1].kind != OP_VEC || o->sub[1].nsub > 5)
        dec_fail(d, "[map, {coordinates}] is due");
    struct opnd one = *o;
    one.nsub = 1;
    b->map = dec_addr(d, &one, SP_GENERIC, &b->map_off, &wide);
    if (!wide)
        dec_fail(d, "a tensor map has a 64-bit address");
    b->ncoords = o->sub[1].nsub;
    for (u32 k = 0; k < b->ncoords; k++)
        b->coord[k] = dec_src(d, &o->sub[1].sub[k], T_S32);
    b->gather = dec_has(d, "tile::gather4") || dec_has(d, "tile::scatter4");
    static const char *const dims[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    b->dims = (u32)dec_one_of(d, dims) + 1;
    if (!b->dims || (!b->gather && b->ncoords != b->dims) || (b->gather && b->ncoords != 5))
        dec_fail(d, "%u coordinates do not fit", b->ncoords);
}

static void reduction(struct dec *d, struct bulk *b) {
    static const char *const names[] = {"add", "min", "max", "inc", "dec",
                                        "and", "or",  "xor", NULL};
    b->reduce = !strncmp(d->text, "cp.reduce", 9);
    if (!b->reduce)
        return;
    int k = dec_one_of(d, names);
    if (k < 0)
        dec_fail(d, "an operation is due");
    b->op = (enum reduce_op)k;
}

static void load_operands(struct dec *d, struct bulk *b) {
    bool wide;
    b->dst_space = dec_has(d, "shared::cluster") ? SP_CLUSTER : SP_SHARED;
    b->dst = dec_addr(d, &d->op[0], SP_SHARED, &b->dst_off, &wide);
    wide_flag(d, wide, MEM_WIDE_ADDR);
}

void dec_tensor(struct dec *d) {
    struct bulk *b = new_bulk(d);
    bool wide;
    if (dec_has(d, "bulk_group")) {
        dec_nops(d, 2, 3);
        b->to_global = true;
        map_operand(d, b, &d->op[0]);
        b->src = dec_addr(d, &d->op[1], SP_SHARED, &b->src_off, &wide);
        wide_flag(d, wide, B_WIDE_SRC);
        reduction(d, b);
        trailing(d, b, 2);
        d->in->fn = op_tensor_store;
        return;
    }
    if (!dec_has(d, "mbarrier::complete_tx::bytes"))
        dec_fail(d, "a completion mechanism is due");
    dec_nops(d, 3, 5);
    load_operands(d, b);
    map_operand(d, b, &d->op[1]);
    b->mbar = dec_addr(d, &d->op[2], SP_SHARED, &b->mbar_off, &wide);
    wide_flag(d, wide, B_WIDE_MBAR);
    trailing(d, b, 3);
    d->in->fn = op_tensor_load;
}

static enum elem_type bulk_type(struct dec *d) {
    switch (dec_type(d, 0)) {
    case T_U32:
    case T_B32:
        return ELEM_U32;
    case T_S32:
        return ELEM_S32;
    case T_U64:
    case T_B64:
        return ELEM_U64;
    case T_S64:
        return ELEM_S64;
    case T_F16:
        return ELEM_F16;
    case T_BF16:
        return ELEM_BF16;
    case T_F32:
        return ELEM_F32;
    case T_F64:
        return ELEM_F64;
    default:
        dec_fail(d, "an element type is due");
    }
}

void dec_bulk(struct dec *d) {
    struct bulk *b = new_bulk(d);
    bool wide;
    reduction(d, b);
    if (b->reduce) {
        b->type = bulk_type(d);
        const char *why = reduce_refuse(b->type, b->op, false);
        if (why)
            dec_fail(d, "%s", why);
    }
    if (dec_has(d, "bulk_group")) {
        dec_nops(d, 3, 4);
        b->dst = dec_addr(d, &d->op[0], SP_GLOBAL, &b->dst_off, &wide);
        b->src = dec_addr(d, &d->op[1], SP_SHARED, &b->src_off, &wide);
        wide_flag(d, wide, B_WIDE_SRC);
        b->size = dec_src(d, &d->op[2], T_U32);
        trailing(d, b, 3);
        d->in->fn = op_bulk_store;
        return;
    }
    if (!dec_has(d, "mbarrier::complete_tx::bytes"))
        dec_fail(d, "a completion mechanism is due");
    if (b->reduce)
        dec_fail(d, "reduction to shared memory is not supported");
    dec_nops(d, 4, 6);
    load_operands(d, b);
    bool global = dec_has(d, "global");
    b->src = dec_addr(d, &d->op[1], global ? SP_GLOBAL : SP_SHARED, &b->src_off, &wide);
    wide_flag(d, wide, B_WIDE_SRC);
    if (!global)
        d->in->flags |= B_REMOTE;
    b->size = dec_src(d, &d->op[2], T_U32);
    b->mbar = dec_addr(d, &d->op[3], SP_SHARED, &b->mbar_off, &wide);
    wide_flag(d, wide, B_WIDE_MBAR);
    trailing(d, b, 4);
    d->in->fn = op_bulk_load;
}

void dec_bulk_prefetch(struct dec *d) {
    struct bulk *b = new_bulk(d);
    bool wide;
    b->prefetch = true;
    if (strstr(d->text, "tensor")) {
        dec_nops(d, 1, 2);
        map_operand(d, b, &d->op[0]);
        trailing(d, b, 1);
    } else {
        dec_nops(d, 2, 3);
        b->src = dec_addr(d, &d->op[0], SP_GLOBAL, &b->src_off, &wide);
        b->size = dec_src(d, &d->op[1], T_U32);
        trailing(d, b, 2);
    }
    d->in->fn = op_bulk_prefetch;
}
