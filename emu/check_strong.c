/* check_strong.c: what fences, atomics and other strong accesses pass on, and to whom.
 *
 * A release reaches the threads of its scope.  So a location has up to three clocks for a thread:
 * that of its CTA, of its cluster and of all; a release writes those within its scope, an acquire
 * reads those within its own, and they meet where each scope holds the other thread (PTX ISA,
 * Memory Consistency Model: morally strong).  The same with a fence beside a relaxed access.
 *
 * An atomic operation carries on what was released before it; a store does not, but for what its
 * own thread released there (PTX ISA, Release and Acquire Patterns; observation order).
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include <stdlib.h>

static u32 hash_of(u64 key, u32 scope) {
    return (u32)((key + ((u64)scope << 20)) * 0x9e3779b97f4a7c15ull >> 32);
}

static void grow(struct checker *k) {
    struct sync_loc *old = k->loc;
    u32 n = k->loc_cap;
    k->loc_cap = n ? n * 2 : 256;
    k->loc = calloc(k->loc_cap, sizeof *k->loc);
    if (!k->loc)
        abort();
    for (u32 j = 0; j < n; j++)
        if (old[j].key) {
            u32 h = hash_of(old[j].key, old[j].scope) & (k->loc_cap - 1);
            while (k->loc[h].key)
                h = (h + 1) & (k->loc_cap - 1);
            k->loc[h] = old[j];
        }
    free(old);
}

/* Valid until the next call. */
static struct sync_loc *location(struct emu *e, u64 key, u32 scope) {
    struct checker *k = e->checker;
    if (k->nloc * 2 >= k->loc_cap)
        grow(k);
    u32 h = hash_of(key, scope) & (k->loc_cap - 1);
    while (k->loc[h].key && (k->loc[h].key != key || k->loc[h].scope != scope))
        h = (h + 1) & (k->loc_cap - 1);
    if (!k->loc[h].key) {
        k->loc[h].key = key;
        k->loc[h].scope = scope;
        k->nloc++;
    }
    return &k->loc[h];
}

/* A cluster of one CTA has no scope of its own. */
static u32 narrowest(const struct warp *w) {
    return w->cta->cluster->n == 1 ? IN_CLUSTER : IN_CTA;
}
static u32 scope_of(const struct warp *w, u32 sem) {
    const u32 s = sem & SCOPE_MASK;
    const u32 in = s == SCOPE_CTA ? IN_CTA : s == SCOPE_CLUSTER ? IN_CLUSTER : IN_GPU;
    return in < narrowest(w) ? narrowest(w) : in;
}
/* The part of a location that this warp shares with its CTA, its cluster or all. */
static struct sync_loc *shared_with(struct warp *w, u64 key, u32 in) {
    const u32 number = (w->cta->cluster->number + 1) << 5;
    return location(w->cta->grid->emu, key,
                    in == IN_GPU       ? 0
                    : in == IN_CLUSTER ? number
                                       : number + 1 + w->cta->rank);
}

static u64 who_bit(const struct warp *w) {
    return 1ull << ((w->check->agent + w->cta->cluster->number * 7) & 63);
}

/* A store: what others released here is out of sight, what this warp did stays.  Where it is mixed
 * with that of others, this warp's last release stands for it. */
static void begin_anew(struct warp *w, struct sync_loc *l, bool current) {
    if (current && l->who == who_bit(w))
        return;
    struct clock *own = current && l->who & who_bit(w) ? w->check->released : NULL;
    struct clock *kept = own ? clock_copy(w->cta->grid->emu, own) : NULL;
    clock_drop(l->clock);
    l->clock = kept;
    l->who = kept ? who_bit(w) : 0;
}

static void strong_read(struct warp *w, u64 key, u32 sem, u32 stores) {
    const u32 scope = scope_of(w, sem);
    for (u32 s = narrowest(w); s <= scope; s++) {
        const struct sync_loc *l = shared_with(w, key, s);
        if (!l->clock || l->stores != stores)
            continue;
        if (sem & SEM_ACQUIRE)
            clock_acquire(w, l->clock);
        else
            clock_add(w->cta->grid->emu, &w->check->relaxed[s], l->clock);
    }
}

static void strong_write(struct warp *w, u64 key, u32 sem, u32 stores, bool store) {
    struct emu *e = w->cta->grid->emu;
    const u32 scope = scope_of(w, sem);
    struct clock *mine = sem & SEM_RELEASE ? clock_release(w) : NULL;
    for (u32 s = narrowest(w); s < SCOPES; s++) {
        struct sync_loc *l = shared_with(w, key, s);
        if (store || l->stores != stores)
            begin_anew(w, l, l->stores + store == stores);
        l->stores = stores;
        if (s > scope)
            continue;
        if (mine) {
            clock_add(e, &l->clock, mine);
            l->who |= who_bit(w);
        }
        for (u32 f = s; f < SCOPES; f++)
            if (w->check->fence_release[f]) {
                clock_add(e, &l->clock, w->check->fence_release[f]);
                l->who |= who_bit(w);
            }
    }
}

void check_strong(struct warp *w, const struct insn *i, u64 key, u32 acc) {
    const u32 sem = i->sem & SEM_VOLATILE ? i->sem | SCOPE_SYS : i->sem;
    struct sync_loc *all = shared_with(w, key, IN_GPU);
    const bool store = !(acc & ACC_READ);
    const u32 stores = all->stores;
    if (acc & ACC_READ)
        strong_read(w, key, sem, stores);
    if (acc & ACC_WRITE)
        strong_write(w, key, sem, stores + store, store);
}

/* --- Fences, relaxed arrivals --- */

void check_memory_fence(struct warp *w, u32 sem) {
    struct warp_check *k = w->check;
    const u32 scope = scope_of(w, sem);
    for (u32 s = 0; s <= scope && sem & SEM_ACQUIRE; s++) {
        clock_acquire(w, k->relaxed[s]);
        clock_drop(k->relaxed[s]);
        k->relaxed[s] = NULL;
    }
    if (!(sem & SEM_RELEASE))
        return;
    lanes_snapshot(w, k->active);
    for (u32 s = 0; s <= scope; s++) {
        clock_drop(k->fence_release[s]);
        k->fence_release[s] = NULL;
    }
    k->fence_release[scope] = clock_copy(w->cta->grid->emu, k->clock);
    clock_bump(w);
}

/* What an arrival passes on: everything if it releases, else what fences released to the CTA, or
 * to the cluster if the barrier is one of the cluster or of another CTA. */
struct clock *check_release_clock(struct warp *w, u32 sem, bool beyond_cta) {
    if (!w->check)
        return NULL;
    struct warp_check *k = w->check;
    if (sem & SEM_RELEASE)
        return clock_release(w);
    clock_drop(k->loose);
    k->loose = NULL;
    for (u32 s = beyond_cta ? IN_CLUSTER : IN_CTA; s < SCOPES; s++)
        if (k->fence_release[s])
            clock_add(w->cta->grid->emu, &k->loose, k->fence_release[s]);
    clock_add_tensor(w->cta->grid->emu, &k->loose, k->clock);
    return k->loose;
}
