/* cudart_hints.c: the runtime's calls about what the emulator has one of or none of: devices,
 * memory pools, caches, places of memory, attributes of streams.  Hints change nothing here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <string.h>

enum { POOL_ATTRIBUTES = 16 };

struct place { /* cudaMemLocation */
    int type, id;
};
/* The one pool: all memory comes from it, so what is set is only given back. */
struct pool {
    uint64_t attribute[POOL_ATTRIBUTES];
};
static struct pool the_pool;

/* --- Device --- */

CU_API cu_result cudaDeviceSetCacheConfig(int config) {
    (void)config;
    return rt_done(rt_begin());
}
CU_API cu_result cudaDeviceGetCacheConfig(int *config) {
    *config = 0;
    return CUE_SUCCESS;
}
CU_API cu_result cudaDeviceSetSharedMemConfig(int config) {
    (void)config;
    return rt_done(rt_begin());
}
CU_API cu_result cudaDeviceGetSharedMemConfig(int *config) {
    *config = 1; /* banks of four bytes */
    return CUE_SUCCESS;
}
CU_API cu_result cudaFuncSetSharedMemConfig(const void *fn, int config) {
    struct cu_kernel *k;
    (void)config;
    return rt_done(rt_kernel(&k, fn));
}
CU_API cu_result cudaGetDeviceFlags(unsigned *flags) {
    *flags = 0;
    return CUE_SUCCESS;
}
CU_API cu_result cudaChooseDevice(int *d, const struct rt_properties *p) {
    (void)p;
    *d = 0;
    return CUE_SUCCESS;
}
CU_API cu_result cudaDeviceGetByPCIBusId(int *d, const char *id) {
    *d = 0;
    return rt_done(id && strstr(id, "00:00.0") ? CUE_SUCCESS : CUE_ERROR_INVALID_DEVICE);
}
CU_API cu_result cudaDeviceGetP2PAttribute(int *v, int what, int a, int b) {
    (void)v, (void)what, (void)a, (void)b;
    return rt_done(CUE_ERROR_INVALID_DEVICE);
}
CU_API cu_result cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    (void)peer, (void)flags;
    return rt_done(CUE_ERROR_PEER_ACCESS_UNSUPPORTED);
}
CU_API cu_result cudaDeviceDisablePeerAccess(int peer) {
    (void)peer;
    return rt_done(CUE_ERROR_PEER_ACCESS_NOT_ENABLED);
}

/* --- Pools --- */

CU_API cu_result cudaDeviceGetDefaultMemPool(struct pool **p, int d) {
    *p = &the_pool;
    return rt_done(d ? CUE_ERROR_INVALID_DEVICE : CUE_SUCCESS);
}
CU_API cu_result cudaDeviceGetMemPool(struct pool **p, int d) {
    return cudaDeviceGetDefaultMemPool(p, d);
}
CU_API cu_result cudaDeviceSetMemPool(int d, struct pool *p) {
    (void)p;
    return rt_done(d ? CUE_ERROR_INVALID_DEVICE : CUE_SUCCESS);
}
CU_API cu_result cudaMemPoolCreate(struct pool **p, const void *properties) {
    (void)properties;
    *p = &the_pool;
    return CUE_SUCCESS;
}
CU_API cu_result cudaMemPoolDestroy(struct pool *p) {
    (void)p;
    return CUE_SUCCESS;
}
CU_API cu_result cudaMemPoolTrimTo(struct pool *p, size_t bytes) {
    (void)p, (void)bytes;
    return CUE_SUCCESS;
}
CU_API cu_result cudaMemPoolSetAccess(struct pool *p, const void *access, size_t n) {
    (void)p, (void)access, (void)n;
    return CUE_SUCCESS;
}
/* The first three are int, the others uint64_t (CUDA Runtime API, cudaMemPoolAttr). */
static size_t attribute_bytes(int what) {
    return what <= 3 ? sizeof(int) : sizeof(uint64_t);
}
CU_API cu_result cudaMemPoolSetAttribute(struct pool *p, int what, const void *v) {
    if (!p || !v || what < 1 || what >= POOL_ATTRIBUTES)
        return rt_done(CUE_ERROR_INVALID_VALUE);
    memcpy(&p->attribute[what], v, attribute_bytes(what));
    return CUE_SUCCESS;
}
CU_API cu_result cudaMemPoolGetAttribute(struct pool *p, int what, void *v) {
    if (!p || !v || what < 1 || what >= POOL_ATTRIBUTES)
        return rt_done(CUE_ERROR_INVALID_VALUE);
    memcpy(v, &p->attribute[what], attribute_bytes(what));
    return CUE_SUCCESS;
}
cu_result cudaMallocAsync(void **p, size_t n, struct cu_stream *s);
CU_API cu_result cudaMallocFromPoolAsync(void **p, size_t n, struct pool *from,
                                         struct cu_stream *s) {
    (void)from;
    return cudaMallocAsync(p, n, s);
}

/* --- Where memory lies --- */

CU_API cu_result cudaMemPrefetchAsync(const void *p, size_t n, struct place where, unsigned flags,
                                      struct cu_stream *s) {
    (void)p, (void)n, (void)where, (void)flags, (void)s;
    return rt_done(rt_begin());
}
CU_API cu_result cudaMemAdvise(const void *p, size_t n, int advice, struct place where) {
    (void)p, (void)n, (void)advice, (void)where;
    return rt_done(rt_begin());
}
CU_API cu_result cudaStreamAttachMemAsync(struct cu_stream *s, void *p, size_t n, unsigned flags) {
    (void)s, (void)p, (void)n, (void)flags;
    return rt_done(rt_begin());
}
CU_API cu_result cudaHostGetFlags(unsigned *flags, void *p) {
    (void)p;
    *flags = 0;
    return CUE_SUCCESS;
}

/* --- Streams --- */

CU_API cu_result cudaStreamGetDevice(struct cu_stream *s, int *d) {
    (void)s;
    *d = 0;
    return CUE_SUCCESS;
}
CU_API cu_result cudaStreamGetId(struct cu_stream *s, unsigned long long *id) {
    *id = (unsigned long long)(uintptr_t)s;
    return CUE_SUCCESS;
}
CU_API cu_result cudaStreamSetAttribute(struct cu_stream *s, int what, const void *v) {
    (void)s, (void)what, (void)v;
    return rt_done(rt_begin());
}
CU_API cu_result cudaStreamCopyAttributes(struct cu_stream *to, struct cu_stream *from) {
    (void)to, (void)from;
    return rt_done(rt_begin());
}
