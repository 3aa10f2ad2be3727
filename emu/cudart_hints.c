/* cudart_hints.c: the runtime's calls about what the emulator has one of or none of: devices,
 * memory pools, caches, places of memory, attributes of streams.  Hints change nothing here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <string.h>

struct place { /* cudaMemLocation */
    int type, id;
};
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

struct cu_pool;
#define POOL(rt, drv, params, args)                                                                \
    cu_result drv params;                                                                          \
    CU_API cu_result rt params {                                                                   \
        cu_result r = rt_begin();                                                                  \
        return rt_done(r ? r : drv args);                                                          \
    }
POOL(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (struct cu_pool * *p, int d), (p, d))
POOL(cudaDeviceGetMemPool, cuDeviceGetMemPool, (struct cu_pool * *p, int d), (p, d))
POOL(cudaDeviceSetMemPool, cuDeviceSetMemPool, (int d, struct cu_pool *p), (d, p))
POOL(cudaMemPoolCreate, cuMemPoolCreate, (struct cu_pool * *p, const void *what), (p, what))
POOL(cudaMemPoolDestroy, cuMemPoolDestroy, (struct cu_pool * p), (p))
POOL(cudaMemPoolTrimTo, cuMemPoolTrimTo, (struct cu_pool * p, size_t bytes), (p, bytes))
POOL(cudaMemPoolSetAccess, cuMemPoolSetAccess, (struct cu_pool * p, const void *access, size_t n),
     (p, access, n))
POOL(cudaMemPoolGetAccess, cuMemPoolGetAccess, (int *flags, struct cu_pool *p, const void *where),
     (flags, p, where))
POOL(cudaMemPoolSetAttribute, cuMemPoolSetAttribute, (struct cu_pool * p, int what, const void *v),
     (p, what, v))
POOL(cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (struct cu_pool * p, int what, void *v),
     (p, what, v))
cu_result cudaMallocAsync(void **p, size_t n, struct cu_stream *s);
CU_API cu_result cudaMallocFromPoolAsync(void **p, size_t n, struct cu_pool *from,
                                         struct cu_stream *s) {
    return from ? cudaMallocAsync(p, n, s) : rt_done(CUE_ERROR_INVALID_VALUE);
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
cu_result cuStreamGetAttribute(struct cu_stream *s, int what, void *v);
CU_API cu_result cudaStreamGetAttribute(struct cu_stream *s, int what, void *v) {
    return rt_done(cuStreamGetAttribute(s, what, v));
}
CU_API cu_result cudaStreamCopyAttributes(struct cu_stream *to, struct cu_stream *from) {
    (void)to, (void)from;
    return rt_done(rt_begin());
}
