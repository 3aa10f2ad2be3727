/* op_bulk.c: bulk and tensor copies (PTX ISA, cp.async.bulk and its family).
 *
 * A load is an item that moves its bytes in a few random parts, each with its own complete_tx: the
 * tx-count may go negative before expect_tx.  A store reads shared memory first and writes global
 * memory later, as two steps: wait_group.read and wait_group can tell them apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bulk.h"
#include "forms_note.h"
#include "groups.h"
#include "timing.h"
#include <stdlib.h>

/* --- Loads --- */

struct load {
    bool tensor;
    struct tensormap_copy c; /* tensor */
    u64 src;                 /* linear; shared offset of the source when remote */
    bool remote;
    u32 dst, bytes, units, next, start; /* units: chunks, or 16-byte pieces */
    u32 mbar, mbar_rank;
    bool pair;
    u32 ctas;    /* destinations by rank */
    bool reduce; /* to shared memory */
    enum reduce_op op;
    enum elem_type type;
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
        if (x->reduce)
            reduce_elements(x->type, x->op, c->smem + x->dst + off, it->cta->smem + x->src + off,
                            len);
        else
            memcpy(c->smem + x->dst + off, it->cta->smem + x->src + off, len);
    } else {
        check_item_global(e, it, x->src + off, len, false);
        memcpy(c->smem + x->dst + off, (const void *)(uintptr_t)(x->src + off), len);
    }
}

static u32 part_bytes(const struct load *x, u32 n) {
    if (!x->tensor)
        return n * 16;
    return n * x->c.chunk_bytes; /* CUTLASS and DeepGEMM expect no padding */
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
    u32 bytes = part_bytes(x, n);
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

void bulk_touch_rows(struct emu *e, struct item *it, const struct tensormap_copy *c) {
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
        bulk_touch_rows(e, it, &x->c);
    else if (e->timing && x->remote)
        it->bytes = x->bytes;
    else if (e->timing)
        time_touch(e, it, x->src, x->bytes);
    item_post(e, it, NULL, AG_TMA_LOAD);
}

struct cta *bulk_smem(struct warp *w, const struct insn *i, u32 l, ref r, bool wide, s64 add,
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

static void destinations(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                         struct load *x, struct cta *dst) {
    /* of a pair the mbarrier may be the other CTA's, whichever space the data go to */
    const bool own = b->dst_space == SP_SHARED && !(i->flags & B_PAIR);
    struct cta *mc = bulk_smem(w, i, l, b->mbar, i->flags & B_WIDE_MBAR, b->mbar_off,
                               own ? SP_SHARED : SP_CLUSTER, 8, 8, &x->mbar);
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

int op_bulk_load(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        u32 bytes = ((const u32 *)reg_at(w, b->size))[l], off;
        if (bytes % 16)
            emu_fault(w, i, "lane %u: %u bytes is not a multiple of 16", l, bytes);
        if (!bytes)
            continue;
        struct item *it = item_new(w, l, sizeof(struct load));
        struct load *x = it->payload;
        struct cta *dst = bulk_smem(w, i, l, b->dst, i->flags & MEM_WIDE_ADDR, b->dst_off,
                                    b->dst_space, bytes, 16, &off);
        x->dst = off;
        x->bytes = bytes;
        x->units = bytes / 16;
        x->remote = i->flags & B_REMOTE;
        x->reduce = it->atomic = b->reduce;
        x->op = b->op;
        x->type = b->type;
        if (x->remote) {
            bulk_smem(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, bytes, 16,
                      &off);
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

void bulk_tensor(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                 struct tensormap_copy *c) {
    char why[300];
    u64 a = lane_value(w, b->map, l, true) + (u64)b->map_off;
    if (a & 63)
        emu_fault(w, i, "lane %u: tensor map at 0x%llx is not aligned to 64 bytes", l,
                  (unsigned long long)a);
    const void *map = mem_at(w, i, l, SP_GENERIC, a, 128, ACC_READ | ACC_NOALIGN);
    if (!tensormap_decode(&c->map, map, why, sizeof why))
        emu_fault(w, i, "lane %u: tensor map at 0x%llx: %s", l, (unsigned long long)a, why);
    c->mode = b->gather ? TENSORMAP_FOUR_ROWS : b->im2col ? TENSORMAP_IM2COL : TENSORMAP_TILE;
    for (u32 k = 0; k < b->noffsets; k++)
        c->offset[k] = ((const u32 *)reg_at(w, b->offset[k]))[l] & 0xffff;
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

void bulk_prepare(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                  struct tensormap_copy *c) {
    char why[300];
    if (!b->gather && c->map.rank != b->dims)
        emu_fault(w, i, "lane %u: a %uD copy with a tensor map of rank %u", l, b->dims,
                  c->map.rank);
    if (!tensormap_prepare(c, b->ncoords, b->to_global, why, sizeof why))
        emu_fault(w, i, "lane %u: %s", l, why);
    forms_tensor(w->cta->grid->emu, &c->map,
                 b->gather       ? "four rows"
                 : b->im2col     ? b->to_global ? "im2col store" : "im2col load"
                 : !b->to_global ? "load"
                 : b->reduce     ? reduce_name(b->op)
                                 : "store");
    check_rows(w, i, l, c);
}

int op_tensor_load(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        struct item *it = item_new(w, l, sizeof(struct load));
        struct load *x = it->payload;
        u32 off;
        bulk_tensor(w, i, l, b, &x->c);
        struct cta *dst = bulk_smem(w, i, l, b->dst, i->flags & MEM_WIDE_ADDR, b->dst_off,
                                    b->dst_space, 1, 1, &off);
        x->c.smem = off;
        bulk_prepare(w, i, l, b, &x->c);
        bulk_smem(w, i, l, b->dst, i->flags & MEM_WIDE_ADDR, b->dst_off, b->dst_space, x->c.span, 1,
                  &off);
        x->tensor = true;
        x->bytes = x->c.bytes;
        x->units = x->c.chunks;
        destinations(w, i, l, b, x, dst);
        load_post(w, i, it, x);
    }
    return NEXT;
}

int op_bulk_prefetch(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        struct tensormap_copy c = {0};
        if (b->map != REF_NONE) {
            bulk_tensor(w, i, l, b, &c);
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
