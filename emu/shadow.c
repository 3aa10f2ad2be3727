/* shadow.c: the last accesses to every four bytes of shared and global memory.
 *
 * A write must know the last write and the last reads, a read the last write.  For global memory a
 * page has cells from its first device write in a group of overlapping grids until the group ends;
 * reads of pages that nothing writes leave no trace, so streaming over inputs costs nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include <stdlib.h>
#include <string.h>

/* --- Names for reports --- */

static const char *actor_name(struct emu *e, u32 who, char *buf, size_t n) {
    u32 a = (who & WHO_AGENT) % AGENTS, rank = (who & WHO_AGENT) / AGENTS;
    (void)e;
    if (a < MAX_WARPS)
        snprintf(buf, n, "warp %u of CTA rank %u", a, rank);
    else
        snprintf(buf, n, "%s of CTA rank %u",
                 a == PIPE_AGENT ? "the tensor pipe" : "an asynchronous copy", rank);
    return buf;
}

static void complain(struct actor *a, enum emu_check id, const char *what, const char *space,
                     u64 addr, u32 who, u32 loc, const char *verb) {
    char name[80], at[300];
    const u32 cluster = who >> WHO_BITS;
    const struct function *fn = a->cta->grid->fn, *other = fn;
    if (a->e->opt.lenient[id])
        return;
    if (cluster && cluster < a->e->checker->next_cluster) /* 0: the host */
        other = a->e->checker->cluster_fn[cluster];       /* whose lines loc counts */
    emu_report_at(a->e, a->cta, a->warp, a->loc, id, "%s: %s 0x%llx %s by %s at %s%s%.100s", what,
                  space, (unsigned long long)addr, verb, actor_name(a->e, who, name, sizeof name),
                  loc_text(a->e, other, loc & LOC_MASK, at, sizeof at),
                  other == fn ? "" : " of kernel ",
                  other == fn ? ""
                  : other     ? other->name
                              : "that was unloaded");
}

/* Is the earlier access (who, epoch, loc) ordered before this one?  Reports when not. */
static bool apart(const struct actor *a, u32 loc);

static void need_write_order(struct actor *a, const struct cell *c, const char *space, u64 addr,
                             bool write) {
    if (apart(a, c->w_loc))
        return;
    if (c->w_who == a->who && c->w_epoch <= a->epoch && !(a->async && !(c->w_loc & LOC_ASYNC))) {
        lanes_check_write(a, c, write, space, addr);
        return;
    }
    if (!clock_knows(a->clock, c->w_who, c->w_epoch, GENERIC) &&
        !(c->w_who == a->who && c->w_epoch <= a->epoch)) {
        if ((a->atomic && (c->w_loc & LOC_ATOMIC)) || (write && a->same))
            return;
        complain(a, EMU_RACE,
                 write ? "write not ordered after a write" : "read not ordered after a write",
                 space, addr, c->w_who, c->w_loc, "written");
        return;
    }
    lanes_check_write(a, c, write, space, addr);
    if (a->async && !(c->w_loc & LOC_ASYNC) &&
        !clock_knows(a->clock, c->w_who, c->w_epoch, a->global ? ASYNC_GLOBAL : ASYNC_SHARED))
        complain(a, EMU_PROXY,
                 write ? "async-proxy write after a generic write without fence.proxy.async"
                       : "async-proxy read of a generic write without fence.proxy.async",
                 space, addr, c->w_who, c->w_loc, "written");
}

static void need_read_order(struct actor *a, const struct cell *c, const char *space, u64 addr) {
    for (int k = 0; k < 2; k++) {
        if (!c->r_who[k] || !(c->r_bytes[k] & a->bytes))
            continue;
        if ((c->r_who[k] == a->who && c->r_epoch[k] <= a->epoch) ||
            clock_knows(a->clock, c->r_who[k], c->r_epoch[k], GENERIC)) {
            lanes_check_reads(a, c, k, space, addr);
            continue;
        }
        if (a->atomic && (c->r_loc & LOC_ATOMIC))
            continue;
        complain(a, EMU_RACE, "write not ordered after a read", space, addr, c->r_who[k], c->r_loc,
                 "read");
        return;
    }
}

/* Different bytes of one cell do not meet. */
static bool apart(const struct actor *a, u32 loc) {
    return !(loc >> LOC_BYTES & 15 & a->bytes);
}

static u32 loc_of(const struct actor *a) {
    return a->loc | a->bytes << LOC_BYTES | (a->async ? LOC_ASYNC : 0) |
           (a->atomic ? LOC_ATOMIC : 0);
}

static struct older *older_new(size_t cells) {
    struct older *o = calloc(cells, sizeof *o);
    if (!o)
        abort();
    return o;
}

/* The write before the last, to other bytes of cell g. */
static void need_older_order(struct actor *a, const struct older *o, const char *space, u64 addr,
                             bool write) {
    if (!o->who || (o->who == a->who && o->epoch == a->epoch && o->lane == a->lane && !a->async))
        return;
    const struct cell x = {
        .w_who = o->who, .w_epoch = o->epoch, .w_loc = o->loc, .w_lane = o->lane};
    need_write_order(a, &x, space, addr, write);
}

static bool repeats(const struct actor *a, const struct cell *c) {
    return c->w_who == a->who && c->w_epoch == a->epoch && c->w_lane == a->lane &&
           !((c->w_loc ^ loc_of(a)) & (LOC_ASYNC | LOC_ATOMIC));
}

/* of: the cells' older writes, of `cells` of them. */
static void note_write(struct actor *a, struct cell *c, struct older **of, u32 g, size_t cells) {
    u32 also = 0;
    if (c->w_who && apart(a, c->w_loc)) {
        if (repeats(a, c)) {
            also = c->w_loc & 15u << LOC_BYTES;
        } else {
            if (!*of)
                *of = older_new(cells);
            (*of)[g] = (struct older){c->w_who, c->w_epoch, c->w_loc, c->w_lane};
        }
    } else if (*of && !((*of)[g].loc >> LOC_BYTES & 15 & ~a->bytes)) {
        (*of)[g].who = 0;
    }
    c->w_who = a->who;
    c->w_epoch = a->epoch;
    c->w_loc = loc_of(a) | also;
    c->w_lane = (u8)a->lane;
    c->r_who[0] = c->r_who[1] = 0;
    c->r_lanes = 0;
}
/* The newest read of slot 0 is a's. Lanes that read before and were given out since are dropped. */
static void note_lane(struct actor *a, struct cell *c, bool again) {
    const u32 lane = a->lane == NO_LANE ? 0 : 1u << a->lane;
    u32 others = again && a->self ? c->r_lanes : 0;
    if (others && c->r_epoch[0] <= a->self->met)
        others = 0;
    else if (others && c->r_epoch[0] != a->epoch)
        others = lanes_left(a->self, others, c->r_epoch[0], a->epoch - 1);
    c->r_lanes = others | lane;
}
static void note_read(struct actor *a, struct cell *c) {
    int k = c->r_who[0] == a->who || !c->r_who[0] ||
                    clock_knows(a->clock, c->r_who[0], c->r_epoch[0], GENERIC)
                ? 0
                : 1;
    if (k == 0 && c->r_who[1] &&
        (c->r_who[1] == a->who || clock_knows(a->clock, c->r_who[1], c->r_epoch[1], GENERIC)))
        c->r_who[1] = 0;
    if (k == 0)
        note_lane(a, c, c->r_who[0] == a->who);
    c->r_who[k] = a->who;
    c->r_epoch[k] = a->epoch;
    c->r_bytes[k] = (u8)a->bytes;
    c->r_loc = loc_of(a);
}

/* --- Shared memory --- */

void shadow_smem(struct actor *a, struct cta *c, u32 off, u32 bytes, bool write) {
    struct cta_check *k = c->check;
    u32 first = off / 4, last = (off + bytes - 1) / 4;
    a->global = false;
    for (u32 g = first; g <= last; g++) {
        struct cell *x = &k->cell[g];
        a->bytes = 15;
        if (g == first)
            a->bytes &= 15u << off % 4;
        if (g == last)
            a->bytes &= 15u >> (3 - (off + bytes - 1) % 4);
        if (x->w_loc & LOC_MBAR && x->w_who) {
            if (mbar_find(c, g * 4 & ~7u)) {
                complain(a, EMU_MBARRIER,
                         write ? "write to a live mbarrier" : "read of a live mbarrier", "shared",
                         g * 4, x->w_who, x->w_loc & ~LOC_MBAR, "initialised");
                continue;
            }
        }
        if (!x->w_who) {
            if (!write)
                emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_UNINIT,
                              "read of shared memory at 0x%x (CTA rank %u) that nothing wrote",
                              g * 4, c->rank);
        } else if (x->w_who != a->who || x->w_epoch != a->epoch || x->w_lane != a->lane ||
                   a->async) {
            need_write_order(a, x, "shared", g * 4, write);
        }
        if (k->older)
            need_older_order(a, &k->older[g], "shared", g * 4, write);
        if (write) {
            if (x->r_who[0] | x->r_who[1])
                need_read_order(a, x, "shared", g * 4);
            else if (a->e->opt.unread && x->w_who && !apart(a, x->w_loc))
                check_unread(a, c, g, false);
            note_write(a, x, &k->older, g, k->cells_cap);
        } else if (x->r_who[0] == a->who && !x->r_who[1]) {
            note_lane(a, x, true);
            x->r_epoch[0] = a->epoch;
            x->r_bytes[0] = (u8)a->bytes;
            x->r_loc = loc_of(a);
        } else {
            note_read(a, x);
        }
    }
}

/* --- Global memory --- */

static struct page *page_at(struct emu *e, u64 addr, bool make) {
    struct checker *k = e->checker;
    u64 at = addr - (u64)(uintptr_t)e->arena;
    if (at >= e->arena_bytes)
        at = mem_shadow(e, addr) - (u64)(uintptr_t)e->arena;
    const u64 p = at >> PAGE_SHIFT;
    if (p >> L1_BITS >= 1u << L2_BITS)
        return NULL;
    struct page ***d = &k->dir[p >> L1_BITS];
    if (!*d) {
        if (!make)
            return NULL;
        *d = calloc(1u << L1_BITS, sizeof **d);
    }
    struct page **q = &(*d)[p & ((1u << L1_BITS) - 1)];
    if (!*q && make) {
        *q = calloc(1, sizeof **q);
        if (!*q)
            abort();
        (*q)->addr = addr & ~(u64)((1 << PAGE_SHIFT) - 1);
    }
    return *q;
}

static void page_cells(struct checker *k, struct page *p) {
    p->cell = calloc(1 << (PAGE_SHIFT - 2), sizeof *p->cell);
    if (k->nused == k->used_cap) {
        k->used_cap = k->used_cap ? k->used_cap * 2 : 256;
        k->used = realloc(k->used, k->used_cap * sizeof *k->used);
    }
    if (!p->cell || !k->used)
        abort();
    k->used[k->nused++] = p;
}

static void page_init(struct page *p, u32 first, u32 n) {
    if (p->all_init)
        return;
    if (n == 1 << (PAGE_SHIFT - 2)) {
        p->all_init = true;
        free(p->init);
        p->init = NULL;
        return;
    }
    if (!p->init)
        p->init = calloc(1 << (PAGE_SHIFT - 8), sizeof *p->init);
    if (!p->init)
        abort();
    for (u32 g = first; g < first + n; g++)
        p->init[g / 64] |= 1ull << g % 64;
}

void shadow_init(struct emu *e, u64 addr, u64 bytes) {
    while (bytes) {
        u32 in = (u32)(addr & ((1 << PAGE_SHIFT) - 1));
        u64 n = (1u << PAGE_SHIFT) - in < bytes ? (1u << PAGE_SHIFT) - in : bytes;
        struct page *p = page_at(e, addr, true);
        if (p)
            page_init(p, in / 4, (u32)((in + n + 3) / 4 - in / 4));
        addr += n;
        bytes -= n;
    }
}

static u64 grid_of(const struct actor *a, u32 who) {
    return a->e->checker->cluster_grid[who >> WHO_BITS];
}

/* What another grid did: has this one waited for it, and the grid between them too? `what` says how
 * it was not, `verb` what the other did. */
static void need_grid_order(struct actor *a, u64 other, bool write, u64 addr, u32 who, u32 loc,
                            const char *verb) {
    const struct grid *g = a->grid;
    char text[100];
    const bool loose = other >= g->loose_lo && other < g->loose_hi;
    if (a->grid_acquired && !loose)
        return;
    snprintf(text, sizeof text, "%s by a grid that may still run%s,", verb,
             a->grid_acquired ? ", since the one after it ended without griddepcontrol.wait" : "");
    complain(a, EMU_PDL,
             a->grid_acquired ? write ? "write" : "read"
             : write          ? "write before griddepcontrol.wait"
                              : "read before griddepcontrol.wait",
             "global", addr, who, loc, text);
}

static void global_cell(struct actor *a, struct page *p, u32 g, u64 addr, bool write) {
    struct cell *x = &p->cell[g];
    const u64 self = a->grid->id;
    if (p->older && p->older[g].who && grid_of(a, p->older[g].who) == self)
        need_older_order(a, &p->older[g], "global", addr, write);
    if (x->w_who &&
        (x->w_who != a->who || x->w_epoch != a->epoch || x->w_lane != a->lane || a->async)) {
        if (grid_of(a, x->w_who) != self)
            need_grid_order(a, grid_of(a, x->w_who), write, addr, x->w_who, x->w_loc, "written");
        else
            need_write_order(a, x, "global", addr, write);
        if (a->nc && x->w_who != a->who)
            complain(a, EMU_PDL, "ld.global.nc of bytes written during the lifetime of the kernel",
                     "global", addr, x->w_who, x->w_loc, "written");
    }
    if (a->nc && x->w_who == a->who) {
        complain(a, EMU_PDL, "ld.global.nc of bytes that this kernel wrote", "global", addr,
                 x->w_who, x->w_loc, "written");
    }
    if (!write) {
        note_read(a, x);
        return;
    }
    for (int k = 0; k < 2; k++)
        if (x->r_who[k] && grid_of(a, x->r_who[k]) != self) {
            need_grid_order(a, grid_of(a, x->r_who[k]), true, addr, x->r_who[k], x->r_loc, "read");
            x->r_who[k] = 0;
        }
    if (x->r_who[0] | x->r_who[1])
        need_read_order(a, x, "global", addr);
    note_write(a, x, &p->older, g, 1 << (PAGE_SHIFT - 2));
}

/* The first of cells first .. first + n of a page that nothing wrote; first + n: all are written.
 */
static u32 first_unwritten(const struct page *p, u32 first, u32 n) {
    if (p && p->all_init)
        return first + n;
    u32 g = first;
    while (p && p->init && g < first + n && p->init[g / 64] >> g % 64 & 1)
        g++;
    return g;
}

void shadow_global(struct actor *a, u64 addr, u64 bytes, bool write) {
    u64 end = addr + bytes, begin = addr;
    addr &= ~3ull;
    a->global = true;
    while (addr < end) {
        u64 page_end = (addr | ((1 << PAGE_SHIFT) - 1)) + 1, stop = page_end < end ? page_end : end;
        struct page *p = page_at(a->e, addr, write);
        u32 first = (u32)(addr & ((1 << PAGE_SHIFT) - 1)) / 4, n = (u32)((stop - addr + 3) / 4);
        const u32 raw = write ? first + n : first_unwritten(p, first, n);
        struct allocation *al = raw < first + n ? mem_find(a->e, addr) : NULL;
        if (al && !al->host)
            emu_report_at(a->e, a->cta, a->warp, a->loc, EMU_UNINIT,
                          "read of global memory at 0x%llx that nothing wrote",
                          (unsigned long long)(addr + (raw - first) * 4ull));
        if (write) {
            page_init(p, first, n);
            if (!p->cell)
                page_cells(a->e->checker, p);
        }
        if (p && p->cell)
            for (u32 g = first; g < first + n; g++) {
                u64 at = addr + (g - first) * 4ull;
                a->bytes = 15;
                if (at < begin)
                    a->bytes &= 15u << (begin - at);
                if (at + 4 > end)
                    a->bytes &= 15u >> (at + 4 - end);
                global_cell(a, p, g, at, write);
            }
        addr = stop;
    }
}

/* A group of grids ended: everything is ordered before what comes. */
void shadow_drop(struct emu *e) {
    struct checker *k = e->checker;
    for (u32 i = 0; i < k->nused; i++) {
        free(k->used[i]->cell);
        free(k->used[i]->older);
        k->used[i]->cell = NULL;
        k->used[i]->older = NULL;
    }
    k->nused = 0;
    for (u32 i = 0; i < k->loc_cap; i++)
        if (k->loc[i].key) {
            clock_drop(k->loc[i].clock);
            k->loc[i] = (struct sync_loc){0};
        }
    k->nloc = 0;
    k->next_cluster = 1;
}
