/* cuda_hints.c: the driver's calls about what the emulator has one of or none of: devices, caches,
 * places of memory, attributes of streams, the loading of functions.  Hints change nothing here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "ir.h"
#include <string.h>

/* --- Devices and contexts --- */

CU_API cu_result cuDeviceGetByPCIBusId(cu_device *d, const char *id) {
    if (!d || !id)
        return CUE_ERROR_INVALID_VALUE;
    *d = 0;
    return strstr(id, "00:00.0") ? CUE_SUCCESS : CUE_ERROR_INVALID_DEVICE;
}
CU_API cu_result cuDeviceGetLuid(char *luid, unsigned *mask, cu_device d) {
    (void)luid, (void)mask, (void)d;
    return CUE_ERROR_NOT_SUPPORTED; /* Windows only */
}
CU_API cu_result cuDeviceGetP2PAttribute(int *v, int what, cu_device a, cu_device b) {
    (void)v, (void)what, (void)a, (void)b;
    return CUE_ERROR_INVALID_DEVICE; /* two devices are meant */
}
CU_API cu_result cuCtxEnablePeerAccess(struct cu_context *c, unsigned flags) {
    (void)c, (void)flags;
    return CUE_ERROR_PEER_ACCESS_UNSUPPORTED;
}
CU_API cu_result cuCtxDisablePeerAccess(struct cu_context *c) {
    (void)c;
    return CUE_ERROR_PEER_ACCESS_NOT_ENABLED;
}
CU_API cu_result cuCtxGetId(struct cu_context *c, unsigned long long *id) {
    if (!id)
        return CUE_ERROR_INVALID_VALUE;
    *id = (unsigned long long)(uintptr_t)(c ? c : cu_current());
    return *id ? CUE_SUCCESS : CUE_ERROR_INVALID_CONTEXT;
}
CU_API cu_result cuCtxResetPersistingL2Cache(void) {
    return cu_current() ? CUE_SUCCESS : CUE_ERROR_INVALID_CONTEXT;
}
CU_API cu_result cuCtxGetCacheConfig(int *config) {
    if (!config)
        return CUE_ERROR_INVALID_VALUE;
    *config = 0;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxSetSharedMemConfig(int config) {
    (void)config;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxGetSharedMemConfig(int *config) {
    if (!config)
        return CUE_ERROR_INVALID_VALUE;
    *config = 1; /* banks of four bytes */
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxSetFlags(unsigned flags) {
    if (!cu_current())
        return CUE_ERROR_INVALID_CONTEXT;
    cu_current()->flags = flags;
    return CUE_SUCCESS;
}

/* --- Functions --- */

CU_API cu_result cuFuncSetSharedMemConfig(struct cu_kernel *k, int config) {
    (void)config;
    return k ? CUE_SUCCESS : CUE_ERROR_INVALID_HANDLE;
}
CU_API cu_result cuFuncIsLoaded(int *loaded, struct cu_kernel *k) {
    if (!loaded || !k)
        return CUE_ERROR_INVALID_VALUE;
    *loaded = 1;
    return CUE_SUCCESS;
}
CU_API cu_result cuModuleGetLoadingMode(int *mode) {
    if (!mode)
        return CUE_ERROR_INVALID_VALUE;
    *mode = 2; /* lazy */
    return CUE_SUCCESS;
}
CU_API cu_result cuModuleEnumerateFunctions(struct cu_kernel **k, unsigned n, struct cu_image *m) {
    if (!k || !m)
        return CUE_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n && i < m->nkernels; i++)
        k[i] = &m->kernels[i];
    return CUE_SUCCESS;
}
CU_API cu_result cuLibraryEnumerateKernels(struct cu_kernel **k, unsigned n, struct cu_image *m) {
    return cuModuleEnumerateFunctions(k, n, m);
}

/* The most threads that fill an SM best, of the CTA sizes that the function may have. */
CU_API cu_result cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                                           struct cu_kernel *k,
                                                           size_t (*smem_of)(int), size_t smem,
                                                           int limit, unsigned flags) {
    (void)flags;
    if (!grid || !block || !k)
        return CUE_ERROR_INVALID_VALUE;
    uint32_t most = limit > 0 && limit < 1024 ? (uint32_t)limit : 1024, best = 0;
    const struct function *f = k->fn;
    if (f->max_ntid[0]) {
        uint32_t n = f->max_ntid[0];
        for (int d = 1; d < 3; d++)
            n *= f->max_ntid[d] ? f->max_ntid[d] : 1;
        most = n < most ? n : most;
    }
    *block = *grid = 0;
    for (uint32_t t = most; t; t = t % 32 ? t / 32 * 32 : t - 32) {
        const size_t need = smem_of ? smem_of((int)t) : smem;
        const uint32_t n = emu_occupancy(cu_world.emu, f, t, (uint32_t)need);
        if (n * t > best) {
            best = n * t;
            *block = (int)t;
            *grid = (int)(n * emu_part(cu_world.emu)->sms);
        }
    }
    return best ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuOccupancyMaxPotentialBlockSize(int *grid, int *block, struct cu_kernel *k,
                                                  size_t (*smem_of)(int), size_t smem, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, k, smem_of, smem, limit, 0);
}

/* --- Where memory lies --- */

struct place { /* CUmemLocation */
    int type, id;
};
CU_API cu_result cuMemPrefetchAsync(cu_ptr p, size_t n, cu_device d, struct cu_stream *s) {
    (void)p, (void)n, (void)d, (void)s;
    return cu_ready();
}
CU_API cu_result cuMemPrefetchAsync_v2(cu_ptr p, size_t n, struct place where, unsigned flags,
                                       struct cu_stream *s) {
    (void)p, (void)n, (void)where, (void)flags, (void)s;
    return cu_ready();
}
CU_API cu_result cuMemAdvise(cu_ptr p, size_t n, int advice, cu_device d) {
    (void)p, (void)n, (void)advice, (void)d;
    return cu_ready();
}
CU_API cu_result cuMemAdvise_v2(cu_ptr p, size_t n, int advice, struct place where) {
    (void)p, (void)n, (void)advice, (void)where;
    return cu_ready();
}

/* --- Streams --- */

CU_API cu_result cuStreamAttachMemAsync(struct cu_stream *s, cu_ptr p, size_t n, unsigned flags) {
    (void)s, (void)p, (void)n, (void)flags;
    return cu_ready();
}
CU_API cu_result cuStreamGetId(struct cu_stream *s, unsigned long long *id) {
    if (!id)
        return CUE_ERROR_INVALID_VALUE;
    *id = (unsigned long long)(uintptr_t)s;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamSetAttribute(struct cu_stream *s, int what, const void *v) {
    (void)s, (void)what;
    return v ? cu_ready() : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuStreamGetAttribute(struct cu_stream *s, int what, void *v) {
    (void)s, (void)what;
    if (!v)
        return CUE_ERROR_INVALID_VALUE;
    memset(v, 0, sizeof((struct cu_attribute *)0)->value);
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamCopyAttributes(struct cu_stream *to, struct cu_stream *from) {
    (void)to, (void)from;
    return cu_ready();
}
