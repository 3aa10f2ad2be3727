/* mem.c: the memory spaces.  Device memory is one reserved range of host addresses, so a device
 * pointer is a host pointer; allocations have gaps between them, and every access must fall into
 * one.  Shared and local memory have windows in the 64-bit generic space (ir.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GAP = 512 };

bool mem_init(struct emu *e) {
    e->arena_bytes = 256ull << 30;
    for (; e->arena_bytes >= 1ull << 30; e->arena_bytes /= 2) {
        void *p = mmap((void *)0x200000000000, e->arena_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            e->arena = p;
            e->arena_top = GAP;
            return true;
        }
    }
    return false;
}

void mem_done(struct emu *e) {
    if (e->arena)
        munmap(e->arena, e->arena_bytes);
    free(e->alloc);
}

/* Index of the first allocation that starts after addr. */
static u32 upper(const struct emu *e, u64 addr) {
    u32 lo = 0, hi = e->nalloc;
    while (lo < hi) {
        u32 mid = (lo + hi) / 2;
        if (e->alloc[mid].addr > addr)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

struct allocation *mem_find(struct emu *e, u64 addr) {
    u32 k = upper(e, addr);
    if (!k)
        return NULL;
    struct allocation *a = &e->alloc[k - 1];
    return addr - a->addr < a->bytes ? a : NULL;
}

static void insert(struct emu *e, struct allocation a) {
    if (e->nalloc == e->alloc_cap) {
        e->alloc_cap = e->alloc_cap ? e->alloc_cap * 2 : 64;
        e->alloc = realloc(e->alloc, e->alloc_cap * sizeof *e->alloc);
        if (!e->alloc)
            abort();
    }
    u32 k = upper(e, a.addr);
    memmove(&e->alloc[k + 1], &e->alloc[k], (e->nalloc - k) * sizeof *e->alloc);
    e->alloc[k] = a;
    e->nalloc++;
}

static u32 next_serial(void) {
    static _Thread_local u32 serial;
    return ++serial;
}

/* Addresses at the top of the range; 0: it is full. */
static u64 take(struct emu *e, u64 bytes, u64 align) {
    if (!bytes || bytes > e->arena_bytes / 2)
        return 0;
    u64 at = ((u64)(uintptr_t)e->arena + e->arena_top + align - 1) & ~(align - 1);
    u64 end = at + bytes + GAP - (u64)(uintptr_t)e->arena;
    if (end > e->arena_bytes)
        return 0;
    e->arena_top = end;
    return at;
}

u64 mem_alloc(struct emu *e, u64 bytes, u64 align) {
    const u64 at = take(e, bytes, align < 256 ? 256 : align);
    if (at)
        insert(e, (struct allocation){
                      .addr = at, .bytes = bytes, .live = true, .serial = next_serial()});
    return at;
}

/* Pages go back to the host; addresses are used again only at the top, so that a pointer to freed
 * memory stays an error. */
static void give_back(struct emu *e, u64 at, u64 bytes) {
    u64 lo = (at + 4095) & ~4095ull, hi = (at + bytes) & ~4095ull;
    if (hi > lo)
        madvise((void *)(uintptr_t)lo, hi - lo, MADV_DONTNEED);
    u64 begin = at - (u64)(uintptr_t)e->arena;
    if (begin + bytes + GAP == e->arena_top)
        e->arena_top = begin > GAP ? begin : GAP;
}

static void forget(struct emu *e, struct allocation *a) {
    memmove(a, a + 1, (e->nalloc - (u32)(a - e->alloc) - 1) * sizeof *a);
    e->nalloc--;
}

bool mem_free(struct emu *e, u64 addr) {
    struct allocation *a = mem_find(e, addr);
    if (!a || a->addr != addr || a->shadow || a->mapped)
        return false;
    give_back(e, a->addr, a->bytes);
    forget(e, a);
    return true;
}

u64 mem_reserve(struct emu *e, u64 bytes, u64 align) {
    return take(e, bytes, align);
}

/* Cuts [addr, addr + bytes) out of the allocations that it meets. */
static void cut(struct emu *e, u64 addr, u64 bytes) {
    for (u32 k = 0; k < e->nalloc;) {
        struct allocation a = e->alloc[k];
        if (a.addr >= addr + bytes || a.addr + a.bytes <= addr) {
            k++;
            continue;
        }
        forget(e, &e->alloc[k]);
        struct allocation before = a, behind = a;
        before.bytes = addr > a.addr ? addr - a.addr : 0;
        behind.addr = addr + bytes;
        behind.bytes = a.addr + a.bytes > behind.addr ? a.addr + a.bytes - behind.addr : 0;
        if (before.bytes)
            insert(e, before);
        if (behind.bytes)
            insert(e, behind);
        k += before.bytes != 0;
    }
}

void mem_allow(struct emu *e, u64 addr, u64 bytes, int access) {
    struct allocation a = {.addr = addr,
                           .bytes = bytes,
                           .live = true,
                           .mapped = true,
                           .read_only = access == 1,
                           .serial = next_serial()};
    cut(e, addr, bytes);
    if (!access)
        return;
    const u32 k = upper(e, addr);
    const struct allocation *b = k ? &e->alloc[k - 1] : NULL;
    const struct allocation *c = k < e->nalloc ? &e->alloc[k] : NULL;
    const bool joins_b =
        b && b->mapped && b->read_only == a.read_only && b->addr + b->bytes == addr;
    const bool joins_c = c && c->mapped && c->read_only == a.read_only && c->addr == addr + bytes;
    if (joins_c)
        a.bytes += c->bytes;
    if (joins_b) {
        a.addr = b->addr;
        a.bytes += b->bytes;
    }
    if (joins_c)
        forget(e, &e->alloc[k]);
    if (joins_b)
        forget(e, &e->alloc[k - 1]);
    insert(e, a);
}

/* Memory of the program; what the checker keeps of it has addresses of the range that nobody else
 * gets, the same in a page. */
bool mem_register(struct emu *e, u64 addr, u64 bytes) {
    const u32 k = upper(e, addr);
    if (!bytes || addr + bytes < addr || mem_find(e, addr) ||
        (k < e->nalloc && e->alloc[k].addr < addr + bytes))
        return false;
    const u64 in = addr & 4095, shadow = take(e, in + bytes, 4096);
    if (shadow)
        insert(e, (struct allocation){.addr = addr,
                                      .bytes = bytes,
                                      .shadow = shadow + in,
                                      .live = true,
                                      .host = true,
                                      .serial = next_serial()});
    return shadow != 0;
}

bool mem_unregister(struct emu *e, u64 addr) {
    struct allocation *a = mem_find(e, addr);
    if (!a || a->addr != addr || !a->shadow)
        return false;
    const u64 in = addr & 4095;
    give_back(e, a->shadow - in, in + a->bytes);
    forget(e, a);
    return true;
}

u64 mem_shadow(struct emu *e, u64 addr) {
    const struct allocation *a = mem_find(e, addr);
    return a && a->shadow ? a->shadow + (addr - a->addr) : addr;
}

void *mem_global(struct emu *e, u64 addr, u64 bytes, bool write) {
    struct allocation *a = mem_find(e, addr);
    if (!a || bytes > a->bytes - (addr - a->addr) || (write && a->read_only))
        return NULL;
    return (void *)(uintptr_t)addr;
}

struct cta *mem_shared(struct warp *w, const struct insn *i, u32 lane, enum space sp, u32 addr,
                       u32 bytes, u32 *off) {
    u32 rank = addr >> 24, o = addr & 0xffffff;
    struct cta *c = w->cta;
    if (sp == SP_SHARED) {
        if (rank && rank != c->rank)
            emu_fault(w, i,
                      "lane %u: shared::cta address 0x%08x belongs to CTA %u of the cluster, this "
                      "is CTA %u",
                      lane, addr, rank, c->rank);
    } else if (rank != c->rank) {
        if (rank >= c->cluster->n)
            emu_fault(w, i,
                      "lane %u: shared::cluster address 0x%08x names CTA %u of a cluster of %u",
                      lane, addr, rank, c->cluster->n);
        c = c->cluster->cta[rank];
        if (c->exited)
            emu_report(w, i, EMU_DSMEM,
                       "lane %u: shared memory of CTA %u of the cluster, which has exited", lane,
                       rank);
    }
    if (o < c->smem_lo || (u64)o + bytes > c->smem_hi)
        emu_fault(w, i, "lane %u: %u bytes at shared address 0x%x, outside 0x%x..0x%x", lane, bytes,
                  addr, c->smem_lo, c->smem_hi);
    *off = o;
    return c;
}

static void *at_local(struct warp *w, const struct insn *i, u32 lane, u64 addr, u32 bytes) {
    u32 n = w->cta->grid->fn->local_bytes;
    if (addr > n || bytes > n - addr)
        emu_fault(w, i, "lane %u: %u bytes at local address 0x%llx, the thread has %u", lane, bytes,
                  (unsigned long long)addr, n);
    return w->local + (size_t)lane * n + addr;
}

static void *at_param(struct warp *w, const struct insn *i, u32 lane, u64 addr, u32 bytes) {
    u32 n = w->cta->grid->fn->param_bytes;
    if (addr > n || bytes > n - addr)
        emu_fault(w, i, "lane %u: %u bytes at parameter offset 0x%llx of %u", lane, bytes,
                  (unsigned long long)addr, n);
    return w->cta->grid->params + addr;
}

static void *at_global(struct warp *w, const struct insn *i, u32 lane, u64 addr, u32 bytes,
                       u32 acc) {
    if (addr - w->alloc_lo < w->alloc_hi - w->alloc_lo && bytes <= w->alloc_hi - addr)
        return (void *)(uintptr_t)addr;
    struct emu *e = w->cta->grid->emu;
    struct allocation *a = mem_find(e, addr);
    if (!a || bytes > a->bytes - (addr - a->addr)) {
        if (!a && e->nalloc) {
            u32 k = upper(e, addr);
            a = &e->alloc[k ? k - 1 : 0];
        }
        emu_fault(w, i,
                  "lane %u: %s of %u bytes at 0x%llx is outside every allocation (nearest: 0x%llx, "
                  "%llu bytes)",
                  lane, acc & ACC_WRITE ? "write" : "read", bytes, (unsigned long long)addr,
                  a ? (unsigned long long)a->addr : 0, a ? (unsigned long long)a->bytes : 0);
    }
    if (a->read_only && (acc & ACC_WRITE))
        emu_fault(w, i, "lane %u: write to constant memory at 0x%llx", lane,
                  (unsigned long long)addr);
    if (!a->read_only) {
        w->alloc_lo = a->addr;
        w->alloc_hi = a->addr + a->bytes;
    }
    return (void *)(uintptr_t)addr;
}

void *mem_at(struct warp *w, const struct insn *i, u32 lane, enum space sp, u64 addr, u32 bytes,
             u32 acc) {
    if (!(acc & ACC_NOALIGN) && (addr & (bytes - 1)) && !(bytes & (bytes - 1)))
        emu_fault(w, i, "lane %u: address 0x%llx is not aligned to %u bytes", lane,
                  (unsigned long long)addr, bytes);
    if (sp == SP_GENERIC) {
        switch (addr & WIN_MASK) {
        case WIN_SHARED:
            sp = SP_CLUSTER;
            break;
        case WIN_LOCAL:
            sp = SP_LOCAL;
            break;
        case WIN_PARAM:
            sp = SP_PARAM;
            break;
        default:
            return at_global(w, i, lane, addr, bytes, acc);
        }
        addr &= 0xffffffffu;
    }
    u32 off;
    struct cta *c;
    switch (sp) {
    case SP_SHARED:
    case SP_CLUSTER:
        if (addr >> 32) {
            /* hardware takes the low half, and a generic address's is the shared one */
            if ((addr & WIN_MASK) != WIN_SHARED)
                emu_fault(w, i, "lane %u: shared address 0x%llx needs more than 32 bits", lane,
                          (unsigned long long)addr);
            emu_report(w, i, EMU_BOUNDS,
                       "lane %u: generic address 0x%llx where one of shared memory is due", lane,
                       (unsigned long long)addr);
            addr &= 0xffffffffu;
        }
        c = mem_shared(w, i, lane, sp, (u32)addr, bytes, &off);
        return c->smem + off;
    case SP_LOCAL:
        return at_local(w, i, lane, addr, bytes);
    case SP_PARAM:
        if (acc & ACC_WRITE)
            emu_fault(w, i, "lane %u: write to a parameter", lane);
        return at_param(w, i, lane, addr, bytes);
    default:
        return at_global(w, i, lane, addr, bytes, acc);
    }
}
