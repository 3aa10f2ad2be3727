/* cuda_pool.c: memory pools and the driver's virtual memory management.
 *
 * All memory comes from one range, so a pool only keeps what was set.  An address range that is
 * reserved is taken from it; what is mapped there becomes an allocation when an access is allowed,
 * and one with its neighbours in the same reservation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "machine.h"
#include <stdlib.h>
#include <string.h>

enum { POOL_ATTRIBUTES = 16, GRANULARITY = 2 << 20 };

struct cu_pool {
    uint64_t attribute[POOL_ATTRIBUTES];
};
static struct cu_pool the_pool; /* the device's */

static bool pool_is(const struct cu_pool *p) {
    return p == &the_pool || cu_handle_is(p, CU_POOL);
}

/* --- Pools --- */

CU_API cu_result cuDeviceGetDefaultMemPool(struct cu_pool **p, cu_device d) {
    if (!p || d)
        return d ? CUE_ERROR_INVALID_DEVICE : CUE_ERROR_INVALID_VALUE;
    *p = &the_pool;
    return CUE_SUCCESS;
}
static struct cu_pool *current = &the_pool;
CU_API cu_result cuDeviceGetMemPool(struct cu_pool **p, cu_device d) {
    cu_result r = cuDeviceGetDefaultMemPool(p, d);
    if (!r)
        *p = current;
    return r;
}
CU_API cu_result cuDeviceSetMemPool(cu_device d, struct cu_pool *p) {
    if (!pool_is(p) || d)
        return d ? CUE_ERROR_INVALID_DEVICE : CUE_ERROR_INVALID_VALUE;
    current = p;
    return CUE_SUCCESS;
}
CU_API cu_result cuMemPoolCreate(struct cu_pool **p, const void *properties) {
    if (!p || !properties)
        return CUE_ERROR_INVALID_VALUE;
    *p = calloc(1, sizeof **p);
    if (*p)
        cu_handle_add(*p, CU_POOL);
    return *p ? CUE_SUCCESS : CUE_ERROR_OUT_OF_MEMORY;
}
CU_API cu_result cuMemPoolDestroy(struct cu_pool *p) {
    if (!cu_handle_drop(p, CU_POOL))
        return CUE_ERROR_INVALID_VALUE;
    if (current == p)
        current = &the_pool;
    free(p);
    return CUE_SUCCESS;
}
CU_API cu_result cuMemPoolTrimTo(struct cu_pool *p, size_t bytes) {
    (void)bytes;
    return pool_is(p) ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuMemPoolSetAccess(struct cu_pool *p, const void *access, size_t n) {
    (void)n;
    return pool_is(p) && access ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuMemPoolGetAccess(int *flags, struct cu_pool *p, const void *where) {
    if (!flags || !pool_is(p) || !where)
        return CUE_ERROR_INVALID_VALUE;
    *flags = 3; /* read and write */
    return CUE_SUCCESS;
}
/* The first three are int, the others uint64_t (CUDA Driver API, CUmemPool_attribute). */
static size_t attribute_bytes(int what) {
    return what <= 3 ? sizeof(int) : sizeof(uint64_t);
}
CU_API cu_result cuMemPoolSetAttribute(struct cu_pool *p, int what, const void *v) {
    if (!pool_is(p) || !v || what < 1 || what >= POOL_ATTRIBUTES)
        return CUE_ERROR_INVALID_VALUE;
    memcpy(&p->attribute[what], v, attribute_bytes(what));
    return CUE_SUCCESS;
}
CU_API cu_result cuMemPoolGetAttribute(struct cu_pool *p, int what, void *v) {
    if (!pool_is(p) || !v || what < 1 || what >= POOL_ATTRIBUTES)
        return CUE_ERROR_INVALID_VALUE;
    memcpy(v, &p->attribute[what], attribute_bytes(what));
    return CUE_SUCCESS;
}
cu_result cuMemAllocAsync(cu_ptr *p, size_t bytes, struct cu_stream *s);
CU_API cu_result cuMemAllocFromPoolAsync(cu_ptr *p, size_t bytes, struct cu_pool *pool,
                                         struct cu_stream *s) {
    return pool_is(pool) ? cuMemAllocAsync(p, bytes, s) : CUE_ERROR_INVALID_VALUE;
}

/* --- Virtual memory --- */

/* Physical memory: its bytes lie where it is mapped, and stay there until it is mapped elsewhere
 * or released. */
struct cu_physical {
    size_t bytes;
    uint64_t at, last; /* where it is mapped, 0: nowhere; where it was */
    bool released;
    struct cu_physical *next;
};
static struct cu_physical *physicals;

static struct cu_physical **physical_at(uint64_t address) {
    struct cu_physical **p = &physicals;
    while (*p && (!(*p)->at || address < (*p)->at || address - (*p)->at >= (*p)->bytes))
        p = &(*p)->next;
    return p;
}
static bool physical_is(const struct cu_physical *h) { /* one that the program still has */
    const struct cu_physical *p = physicals;
    while (p && p != h)
        p = p->next;
    return p && !p->released;
}
static void physical_free(struct cu_physical *h) {
    struct cu_physical **p = &physicals;
    while (*p && *p != h)
        p = &(*p)->next;
    if (*p)
        *p = h->next;
    free(h);
}

CU_API cu_result cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
    (void)option;
    if (!bytes || !properties)
        return CUE_ERROR_INVALID_VALUE;
    *bytes = GRANULARITY;
    return CUE_SUCCESS;
}
CU_API cu_result cuMemCreate(struct cu_physical **h, size_t bytes, const void *properties,
                             unsigned long long flags) {
    if (!h || !properties || flags || !bytes || bytes % GRANULARITY)
        return CUE_ERROR_INVALID_VALUE;
    *h = calloc(1, sizeof **h);
    if (!*h)
        return CUE_ERROR_OUT_OF_MEMORY;
    cu_lock();
    **h = (struct cu_physical){.bytes = bytes, .next = physicals};
    physicals = *h;
    cu_unlock();
    return CUE_SUCCESS;
}
CU_API cu_result cuMemRelease(struct cu_physical *h) {
    if (!physical_is(h))
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    h->released = true;
    if (!h->at)
        physical_free(h);
    cu_unlock();
    return CUE_SUCCESS;
}
CU_API cu_result cuMemAddressReserve(cu_ptr *p, size_t bytes, size_t align, cu_ptr at,
                                     unsigned long long flags) {
    (void)at; /* a wish */
    if (!p || flags || !bytes || bytes % GRANULARITY || (align & (align - 1)))
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = cu_ready();
    if (!r) {
        *p = mem_reserve(cu_world.emu, bytes, align > GRANULARITY ? align : GRANULARITY);
        r = *p ? CUE_SUCCESS : CUE_ERROR_OUT_OF_MEMORY;
    }
    cu_unlock();
    return r;
}
/* The addresses are not given out again: a pointer into them stays an error. */
CU_API cu_result cuMemAddressFree(cu_ptr p, size_t bytes) {
    return p && bytes ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuMemMap(cu_ptr p, size_t bytes, size_t offset, struct cu_physical *h,
                          unsigned long long flags) {
    if (!p || !physical_is(h) || offset || flags || bytes != h->bytes || p % GRANULARITY)
        return CUE_ERROR_INVALID_VALUE;
    if (h->at) {
        fprintf(stderr, "emu: cuMemMap: memory at two addresses at once is not modelled\n");
        return CUE_ERROR_NOT_SUPPORTED;
    }
    cu_lock();
    cu_result r = *physical_at(p) ? CUE_ERROR_INVALID_VALUE : CUE_SUCCESS;
    if (!r && h->last && h->last != p)
        memcpy((void *)(uintptr_t)p, (const void *)(uintptr_t)h->last, bytes);
    if (!r)
        h->at = h->last = p;
    cu_unlock();
    return r;
}
/* CUmemAccessDesc: where, and 0 none, 1 reading, 3 reading and writing. */
struct access {
    int type, id, flags;
};
CU_API cu_result cuMemSetAccess(cu_ptr p, size_t bytes, const struct access *what, size_t n) {
    if (!p || !bytes || bytes % GRANULARITY || !what || n != 1)
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = cu_ready();
    for (uint64_t at = p; !r && at < p + bytes; at += GRANULARITY)
        if (!*physical_at(at))
            r = CUE_ERROR_INVALID_VALUE;
    if (!r)
        r = cu_drain();
    if (!r)
        mem_allow(cu_world.emu, p, bytes, what->flags);
    cu_unlock();
    return r;
}
CU_API cu_result cuMemUnmap(cu_ptr p, size_t bytes) {
    cu_lock();
    cu_result r = cu_world.failed ? CUE_SUCCESS : cu_drain();
    for (uint64_t at = p; !r && at < p + bytes;) {
        struct cu_physical *h = *physical_at(at);
        if (!h || h->at != at)
            r = CUE_ERROR_INVALID_VALUE;
        else {
            mem_allow(cu_world.emu, at, h->bytes, 0);
            at += h->bytes;
            h->at = 0;
            if (h->released)
                physical_free(h);
        }
    }
    cu_unlock();
    return r;
}
