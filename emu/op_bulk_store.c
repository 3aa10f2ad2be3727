/* op_bulk_store.c: bulk and tensor copies and reductions to global memory.  A store reads shared
 * memory first and writes global memory later, as two steps: wait_group.read and wait_group can
 * tell them apart. SPDX-License-Identifier: Apache-2.0 */
#include "bulk.h"
#include "groups.h"
#include "timing.h"
#include <stdlib.h>

struct store {
    bool tensor, reduce, have_read, twin, masked;
    u16 bytes_on; /* cp_mask: bytes of each 16 that are written */
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
    if (x->masked) {
        for (u32 k = 0; k < n * 16; k++)
            if (x->bytes_on >> k % 16 & 1) {
                store_check(e, it, x, to + k, 1);
                *(u8 *)(uintptr_t)(to + k) = x->copy[first * 16 + k];
            }
        return;
    }
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
        x->have_read = it->has_read = true;
        x->copy = it->copy = malloc(x->span);
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
    it->remote = x->twin; /* a GPU issues the same store of all lanes once */
    if (w->time && x->twin)
        it->rows = 0;
    else if (w->time && x->tensor)
        bulk_touch_rows(w->cta->grid->emu, it, &x->c);
    else if (w->time)
        time_touch(w->cta->grid->emu, it, x->dst, x->bytes);
    item_post(w->cta->grid->emu, it, NULL, AG_TMA_STORE);
}

int op_bulk_store(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    FOR_LANES(l, m) {
        u32 bytes = ((const u32 *)reg_at(w, b->size))[l];
        if (bytes % 16)
            emu_fault(w, i, "lane %u: %u bytes is not a multiple of 16", l, bytes);
        if (!bytes)
            continue;
        struct item *it = item_new(w, l, sizeof(struct store));
        struct store *x = it->payload;
        bulk_smem(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, bytes, 16,
                  &x->src);
        x->dst = lane_value(w, b->dst, l, true) + (u64)b->dst_off;
        mem_at(w, i, l, SP_GLOBAL, x->dst, bytes, ACC_WRITE | ACC_NOALIGN);
        if (x->dst & 15)
            emu_fault(w, i, "lane %u: global address 0x%llx is not aligned to 16 bytes", l,
                      (unsigned long long)x->dst);
        x->bytes = x->span = bytes;
        x->units = bytes / 16;
        x->type = b->type;
        x->masked = b->bytes != REF_NONE;
        if (x->masked)
            x->bytes_on = (u16)((const u32 *)reg_at(w, b->bytes))[l];
        store_post(w, i, l, it, x, b);
    }
    return NEXT;
}

static bool same_box(const struct tensormap_copy *a, const struct tensormap_copy *b) {
    return a->map.address == b->map.address && a->smem == b->smem &&
           !memcmp(a->coord, b->coord, sizeof a->coord);
}

int op_tensor_store(struct warp *w, const struct insn *i, u32 m) {
    const struct bulk *b = (const void *)i->ops;
    struct tensormap_copy first = {0};
    u32 twins = 0;
    FOR_LANES(l, m) {
        struct item *it = item_new(w, l, sizeof(struct store));
        struct store *x = it->payload;
        bulk_tensor(w, i, l, b, &x->c);
        bulk_smem(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, 1, 1, &x->c.smem);
        bulk_prepare(w, i, l, b, &x->c);
        if (b->reduce) {
            const char *why = reduce_refuse(x->c.map.type, b->op, true);
            if (why)
                emu_fault(w, i, "lane %u: %s", l, why);
        }
        bulk_smem(w, i, l, b->src, i->flags & B_WIDE_SRC, b->src_off, SP_SHARED, x->c.span, 1,
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
