/* cudart_api.c: the runtime's calls that are one call of the driver: device, memory, streams,
 * events, graphs, functions.  Codes of cudaError_t are those of CUresult.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <stdlib.h>
#include <string.h>

/* name of the runtime, name of the driver, parameters, arguments */
#define PASS(rt, drv, params, args)                                                                \
    cu_result drv params;                                                                          \
    CU_API cu_result rt params {                                                                   \
        cu_result r = rt_begin();                                                                  \
        return rt_done(r ? r : drv args);                                                          \
    }

/* --- Device --- */

PASS(cudaDeviceSynchronize, cuCtxSynchronize, (void), ())
PASS(cudaDriverGetVersion, cuDriverGetVersion, (int *v), (v))
PASS(cudaGetDeviceCount, cuDeviceGetCount, (int *n), (n))
PASS(cudaGetDevice, cuCtxGetDevice, (cu_device * d), (d))
PASS(cudaDeviceGetAttribute, cuDeviceGetAttribute, (int *v, int what, cu_device d), (v, what, d))
PASS(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *yes, cu_device a, cu_device b),
     (yes, a, b))
PASS(cudaDeviceSetLimit, cuCtxSetLimit, (int limit, size_t v), (limit, v))
PASS(cudaDeviceGetLimit, cuCtxGetLimit, (size_t * v, int limit), (v, limit))
PASS(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *s, int n, cu_device d), (s, n, d))
PASS(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest),
     (least, greatest))
PASS(cudaProfilerStart, cuProfilerStart, (void), ())
PASS(cudaProfilerStop, cuProfilerStop, (void), ())

CU_API cu_result cudaRuntimeGetVersion(int *v) {
    return cudaDriverGetVersion(v);
}
CU_API cu_result cudaSetDevice(int d) {
    return rt_done(d ? CUE_ERROR_INVALID_DEVICE : rt_begin());
}
CU_API cu_result cudaInitDevice(int d, unsigned flags, unsigned f) {
    (void)flags, (void)f;
    return cudaSetDevice(d);
}
CU_API cu_result cudaSetDeviceFlags(unsigned flags) {
    (void)flags;
    return CUE_SUCCESS;
}
CU_API cu_result cudaDeviceReset(void) {
    return cudaDeviceSynchronize();
}
CU_API cu_result cudaCtxResetPersistingL2Cache(void) {
    return CUE_SUCCESS;
}

static int attribute(int what) {
    int v = 0;
    cudaDeviceGetAttribute(&v, what, 0);
    return v;
}
cu_result cuDeviceGetName(char *name, int n, cu_device d);
cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device d);
cu_result cuDeviceGetUuid_v2(struct cu_uuid *u, cu_device d);
CU_API cu_result cudaGetDeviceProperties(struct rt_properties *p, int d) {
    cu_result r = rt_begin();
    if (r || d || !p)
        return rt_done(r ? r : d ? CUE_ERROR_INVALID_DEVICE : CUE_ERROR_INVALID_VALUE);
    *p = (struct rt_properties){.smem_per_block = (size_t)attribute(8),
                                .regs_per_block = attribute(12),
                                .warp = 32,
                                .pitch = 0x7fffffff,
                                .threads_per_block = attribute(1),
                                .threads_dim = {attribute(2), attribute(3), attribute(4)},
                                .grid_dim = {attribute(5), attribute(6), attribute(7)},
                                .const_bytes = 65536,
                                .major = attribute(75),
                                .minor = attribute(76),
                                .texture_alignment = 512,
                                .texture_pitch = 32,
                                .sms = attribute(16),
                                .map_host = 1,
                                .concurrent = 1,
                                .engines = attribute(40),
                                .unified = 1,
                                .bus_width = attribute(37),
                                .l2_bytes = attribute(38),
                                .threads_per_sm = attribute(39),
                                .priorities = 1,
                                .smem_per_sm = (size_t)attribute(81),
                                .regs_per_sm = attribute(82),
                                .managed = 1,
                                .cooperative = attribute(95),
                                .smem_optin = (size_t)attribute(97),
                                .blocks_per_sm = attribute(106),
                                .smem_reserved = (size_t)attribute(111),
                                .pools = attribute(115),
                                .cluster_launch = attribute(120)};
    cuDeviceGetName(p->name, sizeof p->name, 0);
    cuDeviceGetUuid_v2(&p->uuid, 0);
    return rt_done(cuDeviceTotalMem_v2(&p->global_bytes, 0));
}
CU_API cu_result cudaGetDeviceProperties_v2(struct rt_properties *p, int d) {
    return cudaGetDeviceProperties(p, d);
}

/* --- Errors --- */

cu_result cuGetErrorName(cu_result e, const char **s);
cu_result cuGetErrorString(cu_result e, const char **s);
CU_API const char *cudaGetErrorName(cu_result e) {
    const char *s = NULL;
    cuGetErrorName(e, &s);
    return s ? s : "cudaErrorUnknown";
}
CU_API const char *cudaGetErrorString(cu_result e) {
    const char *s = NULL;
    cuGetErrorString(e, &s);
    return s ? s : "unrecognized error code";
}

/* --- Memory --- */

PASS(cudaMallocHost, cuMemAllocHost_v2, (void **p, size_t n), (p, n))
PASS(cudaHostAlloc, cuMemHostAlloc, (void **p, size_t n, unsigned f), (p, n, f))
PASS(cudaFreeHost, cuMemFreeHost, (void *p), (p))
PASS(cudaHostRegister, cuMemHostRegister_v2, (void *p, size_t n, unsigned f), (p, n, f))
PASS(cudaHostUnregister, cuMemHostUnregister, (void *p), (p))
PASS(cudaMemGetInfo, cuMemGetInfo_v2, (size_t * f, size_t *t), (f, t))

#define P(x) ((cu_ptr)(uintptr_t)(x))
#define PASS_PTR(rt, drv, params, types, args)                                                     \
    cu_result drv types;                                                                           \
    CU_API cu_result rt params {                                                                   \
        cu_result r = rt_begin();                                                                  \
        return rt_done(r ? r : drv args);                                                          \
    }
PASS_PTR(cudaMallocManaged, cuMemAllocManaged, (void **p, size_t n, unsigned f),
         (cu_ptr * p, size_t n, unsigned f), ((cu_ptr *)(void *)p, n, f))
PASS_PTR(cudaMallocPitch, cuMemAllocPitch_v2, (void **p, size_t *pitch, size_t w, size_t h),
         (cu_ptr * p, size_t *pitch, size_t w, size_t h, unsigned e),
         ((cu_ptr *)(void *)p, pitch, w, h, 16))
PASS_PTR(cudaFree, cuMemFree_v2, (void *p), (cu_ptr p), (P(p)))
PASS_PTR(cudaFreeAsync, cuMemFreeAsync, (void *p, struct cu_stream *s),
         (cu_ptr p, struct cu_stream *s), (P(p), s))
PASS_PTR(cudaHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (void **p, void *h, unsigned f),
         (cu_ptr * p, void *h, unsigned f), ((cu_ptr *)(void *)p, h, f))
PASS_PTR(cudaMemset, cuMemsetD8_v2, (void *p, int v, size_t n),
         (cu_ptr p, unsigned char v, size_t n), (P(p), (unsigned char)v, n))
PASS_PTR(cudaMemsetAsync, cuMemsetD8Async, (void *p, int v, size_t n, struct cu_stream *s),
         (cu_ptr p, unsigned char v, size_t n, struct cu_stream *s), (P(p), (unsigned char)v, n, s))
PASS_PTR(cudaMemset2DAsync, cuMemsetD2D8Async,
         (void *p, size_t pitch, int v, size_t w, size_t h, struct cu_stream *s),
         (cu_ptr p, size_t pitch, unsigned char v, size_t w, size_t h, struct cu_stream *s),
         (P(p), pitch, (unsigned char)v, w, h, s))
PASS_PTR(cudaMemset2D, cuMemsetD2D8_v2, (void *p, size_t pitch, int v, size_t w, size_t h),
         (cu_ptr p, size_t pitch, unsigned char v, size_t w, size_t h),
         (P(p), pitch, (unsigned char)v, w, h))

cu_result cuMemAlloc_v2(cu_ptr *p, size_t n);
CU_API cu_result cudaMalloc(void **p, size_t n) {
    cu_result r = rt_begin();
    if (!r && p && !n) {
        *p = NULL;
        return CUE_SUCCESS;
    }
    return rt_done(r ? r : cuMemAlloc_v2((cu_ptr *)(void *)p, n));
}
cu_result cuMemAllocAsync(cu_ptr *p, size_t n, struct cu_stream *s);
CU_API cu_result cudaMallocAsync(void **p, size_t n, struct cu_stream *s) {
    cu_result r = rt_begin();
    if (!r && p && !n) {
        *p = NULL;
        return CUE_SUCCESS;
    }
    return rt_done(r ? r : cuMemAllocAsync((cu_ptr *)(void *)p, n, s));
}

cu_result cuMemcpy(cu_ptr to, cu_ptr from, size_t n);
cu_result cuMemcpyAsync(cu_ptr to, cu_ptr from, size_t n, struct cu_stream *s);
cu_result cuMemcpy2DAsync_v2(const struct cu_memcpy2d *c, struct cu_stream *s);
CU_API cu_result cudaMemcpy(void *to, const void *from, size_t n, int kind) {
    cu_result r = rt_begin();
    (void)kind;
    return rt_done(r || !n ? r : cuMemcpy(P(to), P(from), n));
}
CU_API cu_result cudaMemcpyAsync(void *to, const void *from, size_t n, int kind,
                                 struct cu_stream *s) {
    cu_result r = rt_begin();
    (void)kind;
    return rt_done(r || !n ? r : cuMemcpyAsync(P(to), P(from), n, s));
}
CU_API cu_result cudaMemcpyPeerAsync(void *to, int a, const void *from, int b, size_t n,
                                     struct cu_stream *s) {
    return a || b ? rt_done(CUE_ERROR_INVALID_DEVICE) : cudaMemcpyAsync(to, from, n, 4, s);
}
CU_API cu_result cudaMemcpyPeer(void *to, int a, const void *from, int b, size_t n) {
    return a || b ? rt_done(CUE_ERROR_INVALID_DEVICE) : cudaMemcpy(to, from, n, 4);
}
CU_API cu_result cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                   size_t width, size_t height, int kind, struct cu_stream *s) {
    cu_result r = rt_begin();
    (void)kind;
    const struct cu_memcpy2d c = {.src_type = 4, /* unified: the address says */
                                  .src_device = P(from),
                                  .src_pitch = from_pitch,
                                  .dst_type = 4,
                                  .dst_device = P(to),
                                  .dst_pitch = to_pitch,
                                  .width = width,
                                  .height = height};
    return rt_done(r ? r : cuMemcpy2DAsync_v2(&c, s));
}
CU_API cu_result cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, int kind) {
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}
/* *p: the address of a symbol whose bytes off .. off + n exist. */
static cu_result symbol_part(cu_ptr *p, const void *var, size_t off, size_t n) {
    size_t bytes = 0;
    cu_result r = rt_symbol(p, &bytes, var);
    return !r && (off > bytes || n > bytes - off) ? CUE_ERROR_INVALID_VALUE : r;
}
CU_API cu_result cudaMemcpyToSymbolAsync(const void *var, const void *from, size_t n, size_t off,
                                         int kind, struct cu_stream *s) {
    cu_ptr p = 0;
    cu_result r = symbol_part(&p, var, off, n);
    (void)kind;
    return rt_done(r || !n ? r : cuMemcpyAsync(p + off, P(from), n, s));
}
CU_API cu_result cudaMemcpyToSymbol(const void *var, const void *from, size_t n, size_t off,
                                    int kind) {
    return cudaMemcpyToSymbolAsync(var, from, n, off, kind, NULL);
}
CU_API cu_result cudaMemcpyFromSymbolAsync(void *to, const void *var, size_t n, size_t off,
                                           int kind, struct cu_stream *s) {
    cu_ptr p = 0;
    cu_result r = symbol_part(&p, var, off, n);
    (void)kind;
    return rt_done(r || !n ? r : cuMemcpyAsync(P(to), p + off, n, s));
}
CU_API cu_result cudaMemcpyFromSymbol(void *to, const void *var, size_t n, size_t off, int kind) {
    return cudaMemcpyFromSymbolAsync(to, var, n, off, kind, NULL);
}
cu_result cuPointerGetAttribute(void *out, int what, cu_ptr p);
CU_API cu_result cudaPointerGetAttributes(struct rt_pointer *a, const void *p) {
    cu_result r = rt_begin();
    if (r || !a)
        return rt_done(r ? r : CUE_ERROR_INVALID_VALUE);
    enum { UNREGISTERED, HOST, DEVICE, MANAGED }; /* cudaMemoryType */
    unsigned type = UNREGISTERED;
    int managed = 0;
    if (!cuPointerGetAttribute(&type, 2, P(p)))
        cuPointerGetAttribute(&managed, 8, P(p));
    void *at = (void *)(uintptr_t)p;
    *a = (struct rt_pointer){.type = managed ? MANAGED : (int)type,
                             .device = type ? 0 : -2,
                             .on_device = type ? at : NULL,
                             .on_host = type == DEVICE && !managed ? NULL : at};
    return CUE_SUCCESS;
}

/* --- Streams and events --- */

PASS(cudaStreamCreateWithPriority, cuStreamCreateWithPriority,
     (struct cu_stream * *s, unsigned f, int p), (s, f, p))
PASS(cudaStreamCreateWithFlags, cuStreamCreate, (struct cu_stream * *s, unsigned f), (s, f))
CU_API cu_result cudaStreamCreate(struct cu_stream **s) {
    return cudaStreamCreateWithFlags(s, 0);
}
PASS(cudaStreamDestroy, cuStreamDestroy_v2, (struct cu_stream * s), (s))
PASS(cudaStreamSynchronize, cuStreamSynchronize, (struct cu_stream * s), (s))
PASS(cudaStreamQuery, cuStreamQuery, (struct cu_stream * s), (s))
PASS(cudaStreamGetFlags, cuStreamGetFlags, (struct cu_stream * s, unsigned *f), (s, f))
PASS(cudaStreamGetPriority, cuStreamGetPriority, (struct cu_stream * s, int *p), (s, p))
PASS(cudaStreamWaitEvent, cuStreamWaitEvent, (struct cu_stream * s, struct cu_event *e, unsigned f),
     (s, e, f))
PASS(cudaStreamIsCapturing, cuStreamIsCapturing, (struct cu_stream * s, int *state), (s, state))
PASS(cudaStreamBeginCapture, cuStreamBeginCapture_v2, (struct cu_stream * s, int mode), (s, mode))
PASS(cudaStreamEndCapture, cuStreamEndCapture, (struct cu_stream * s, struct cu_graph **g), (s, g))
PASS(cudaStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3,
     (struct cu_stream * s, int *state, uint64_t *id, struct cu_graph **g, const void **deps,
      const void **edges, size_t *n),
     (s, state, id, g, deps, edges, n))
PASS(cudaThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode), (mode))
PASS(cudaLaunchHostFunc, cuLaunchHostFunc, (struct cu_stream * s, void (*fn)(void *), void *data),
     (s, fn, data))
PASS(cudaStreamAddCallback, cuStreamAddCallback,
     (struct cu_stream * s, void (*fn)(struct cu_stream *, cu_result, void *), void *data,
      unsigned flags),
     (s, fn, data, flags))
PASS(cudaEventCreateWithFlags, cuEventCreate, (struct cu_event * *e, unsigned f), (e, f))
CU_API cu_result cudaEventCreate(struct cu_event **e) {
    return cudaEventCreateWithFlags(e, 0);
}
PASS(cudaEventRecord, cuEventRecord, (struct cu_event * e, struct cu_stream *s), (e, s))
PASS(cudaEventRecordWithFlags, cuEventRecordWithFlags,
     (struct cu_event * e, struct cu_stream *s, unsigned f), (e, s, f))
PASS(cudaEventSynchronize, cuEventSynchronize, (struct cu_event * e), (e))
PASS(cudaEventQuery, cuEventQuery, (struct cu_event * e), (e))
PASS(cudaEventDestroy, cuEventDestroy_v2, (struct cu_event * e), (e))
PASS(cudaEventElapsedTime, cuEventElapsedTime, (float *ms, struct cu_event *a, struct cu_event *b),
     (ms, a, b))

/* --- Graphs --- */

PASS(cudaGraphCreate, cuGraphCreate, (struct cu_graph * *g, unsigned f), (g, f))
PASS(cudaGraphDestroy, cuGraphDestroy, (struct cu_graph * g), (g))
PASS(cudaGraphInstantiate, cuGraphInstantiateWithFlags,
     (struct cu_graph * *x, struct cu_graph *g, unsigned long long f), (x, g, f))
CU_API cu_result cudaGraphInstantiateWithFlags(struct cu_graph **x, struct cu_graph *g,
                                               unsigned long long f) {
    return cudaGraphInstantiate(x, g, f);
}
PASS(cudaGraphExecDestroy, cuGraphExecDestroy, (struct cu_graph * g), (g))
PASS(cudaGraphUpload, cuGraphUpload, (struct cu_graph * g, struct cu_stream *s), (g, s))
PASS(cudaGraphLaunch, cuGraphLaunch, (struct cu_graph * g, struct cu_stream *s), (g, s))
PASS(cudaGraphGetNodes, cuGraphGetNodes, (struct cu_graph * g, void **nodes, size_t *n),
     (g, nodes, n))
PASS(cudaGraphExecUpdate, cuGraphExecUpdate_v2,
     (struct cu_graph * x, struct cu_graph *g, void *info), (x, g, info))

/* --- Functions --- */

cu_result cuFuncGetAttribute(int *v, int what, struct cu_kernel *k);
cu_result cuFuncSetAttribute(struct cu_kernel *k, int what, int v);
cu_result cuFuncGetName(const char **name, struct cu_kernel *k);
CU_API cu_result cudaFuncSetAttribute(const void *fn, int what, int v) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    return rt_done(r ? r : cuFuncSetAttribute(k, what, v));
}
cu_result cuKernelSetAttribute(int what, int v, struct cu_kernel *k, cu_device d);
CU_API cu_result cudaKernelSetAttributeForDevice(struct cu_kernel *k, int what, int v, int d) {
    cu_result r = rt_begin();
    return rt_done(r ? r : cuKernelSetAttribute(what, v, k, d));
}
CU_API cu_result cudaFuncSetCacheConfig(const void *fn, int config) {
    struct cu_kernel *k;
    (void)config;
    return rt_done(rt_kernel(&k, fn));
}
CU_API cu_result cudaFuncGetName(const char **name, const void *fn) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    return rt_done(r ? r : cuFuncGetName(name, k));
}
cu_result cuFuncGetParamInfo(struct cu_kernel *k, size_t n, size_t *off, size_t *bytes);
CU_API cu_result cudaFuncGetParamInfo(const void *fn, size_t n, size_t *off, size_t *bytes) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    return rt_done(r ? r : cuFuncGetParamInfo(k, n, off, bytes));
}
static int of(struct cu_kernel *k, int what) {
    int v = 0;
    cuFuncGetAttribute(&v, what, k);
    return v;
}
CU_API cu_result cudaFuncGetAttributes(struct rt_function_attributes *a, const void *fn) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    if (r)
        return rt_done(r);
    *a = (struct rt_function_attributes){.shared = (size_t)of(k, 1),
                                         .constant = (size_t)of(k, 2),
                                         .local = (size_t)of(k, 3),
                                         .threads = of(k, 0),
                                         .regs = of(k, 4),
                                         .ptx = of(k, 5),
                                         .binary = of(k, 6),
                                         .max_dynamic = of(k, 8),
                                         .carveout = of(k, 9),
                                         .cluster_must = of(k, 10),
                                         .cluster = {of(k, 11), of(k, 12), of(k, 13)},
                                         .non_portable = of(k, 14)};
    return CUE_SUCCESS;
}

cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, struct cu_kernel *k, int threads,
                                                      size_t smem);
cu_result cuOccupancyMaxActiveClusters(int *n, struct cu_kernel *k, const struct cu_config *c);
cu_result cuOccupancyMaxPotentialClusterSize(int *n, struct cu_kernel *k,
                                             const struct cu_config *c);
CU_API cu_result cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *fn, int threads,
                                                               size_t smem) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    return rt_done(r ? r : cuOccupancyMaxActiveBlocksPerMultiprocessor(n, k, threads, smem));
}
CU_API cu_result cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *fn,
                                                                        int threads, size_t smem,
                                                                        unsigned flags) {
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, fn, threads, smem);
}
cu_result cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, struct cu_kernel *k, int blocks,
                                                  int threads);
CU_API cu_result cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *fn,
                                                           int blocks, int threads) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    return rt_done(r ? r : cuOccupancyAvailableDynamicSMemPerBlock(bytes, k, blocks, threads));
}
static struct cu_config driver_config(const struct rt_config *c) {
    return (struct cu_config){{c->grid.x, c->grid.y, c->grid.z},
                              {c->block.x, c->block.y, c->block.z},
                              (unsigned)c->smem,
                              c->stream,
                              c->attrs,
                              c->nattrs};
}
CU_API cu_result cudaOccupancyMaxActiveClusters(int *n, const void *fn, const struct rt_config *c) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    const struct cu_config d = driver_config(c);
    return rt_done(r ? r : cuOccupancyMaxActiveClusters(n, k, &d));
}
CU_API cu_result cudaOccupancyMaxPotentialClusterSize(int *n, const void *fn,
                                                      const struct rt_config *c) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    const struct cu_config d = driver_config(c);
    return rt_done(r ? r : cuOccupancyMaxPotentialClusterSize(n, k, &d));
}

/* --- Libraries --- */

PASS(cudaLibraryLoadData, cuLibraryLoadData,
     (struct cu_image * *l, const void *data, int *jo, void **jv, unsigned jn, int *o, void **v,
      unsigned n),
     (l, data, jo, jv, jn, o, v, n))
PASS(cudaLibraryUnload, cuLibraryUnload, (struct cu_image * l), (l))
PASS(cudaLibraryGetKernel, cuLibraryGetKernel,
     (struct cu_kernel * *k, struct cu_image *l, const char *name), (k, l, name))
PASS(cudaLibraryGetKernelCount, cuLibraryGetKernelCount, (unsigned *n, struct cu_image *l), (n, l))

/* --- The driver's entry points --- */

cu_result cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
                              int *status);
CU_API cu_result cudaGetDriverEntryPointByVersion(const char *name, void **fn, unsigned version,
                                                  unsigned long long flags, int *status) {
    cu_result r = rt_begin();
    int found = 1;
    if (!r && cuGetProcAddress_v2(name, fn, (int)version, flags, &found))
        found = 1; /* cudaDriverEntryPointSymbolNotFound, no error */
    if (status)
        *status = found;
    return rt_done(r);
}
CU_API cu_result cudaGetDriverEntryPoint(const char *name, void **fn, unsigned long long flags,
                                         int *status) {
    return cudaGetDriverEntryPointByVersion(name, fn, 13000, flags, status);
}
