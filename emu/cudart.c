/* cudart.c: the runtime's registration of a program's kernels and variables, and its launches.  A
 * module is loaded when something of it is first used.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <stdlib.h>
#include <string.h>

cu_result cuInit(unsigned flags);
cu_result cuCtxGetCurrent(struct cu_context **c);
cu_result cuCtxSetCurrent(struct cu_context *c);
cu_result cuDevicePrimaryCtxRetain(struct cu_context **c, cu_device d);
cu_result cuLibraryLoadData(struct cu_image **l, const void *data, int *jo, void **jv, unsigned jn,
                            int *o, void **v, unsigned n);
cu_result cuModuleGetFunction(struct cu_kernel **k, struct cu_image *m, const char *name);
cu_result cuModuleGetGlobal_v2(cu_ptr *p, size_t *bytes, struct cu_image *m, const char *name);
cu_result cuLaunchKernelEx(const struct cu_config *c, struct cu_kernel *k, void **params,
                           void **extra);

enum { NAMED = 4096 };

/* A registered fat binary; its address is the handle. */
struct rt_module {
    const void *data;
    struct cu_image *image;
    cu_result failed;
    struct rt_module *next;
};
/* A host stub or variable. */
struct rt_name {
    const void *host;
    const char *device;
    struct rt_module *module;
    struct cu_kernel *kernel;
    size_t bytes;
    void **managed; /* pointer of a managed variable, to be set */
    struct rt_name *next;
};

static struct rt_module *modules;
static struct rt_name *names[NAMED];
static _Thread_local cu_result last_error;
static _Thread_local struct rt_config pushed[16];
static _Thread_local int npushed;

cu_result rt_done(cu_result e) {
    if (e && e != CUE_ERROR_NOT_READY)
        last_error = e;
    return e;
}
CU_API cu_result cudaGetLastError(void) {
    cu_result e = last_error;
    last_error = CUE_SUCCESS;
    return e;
}
CU_API cu_result cudaPeekAtLastError(void) {
    return last_error;
}

cu_result rt_begin(void) {
    static struct cu_context *primary;
    struct cu_context *c = NULL;
    cu_result r = cuInit(0);
    if (r)
        return r;
    if (!cuCtxGetCurrent(&c) && c)
        return CUE_SUCCESS;
    if (!primary && (r = cuDevicePrimaryCtxRetain(&primary, 0)))
        return r;
    return cuCtxSetCurrent(primary);
}

/* --- Registration --- */

static struct rt_name **bucket(const void *host) {
    return &names[((uintptr_t)host >> 3) % NAMED];
}
static struct rt_name *find(const void *host) {
    for (struct rt_name *n = *bucket(host); n; n = n->next)
        if (n->host == host)
            return n;
    return NULL;
}
static struct rt_name *keep(void **handle, const void *host, const char *device) {
    struct rt_name *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    *n = (struct rt_name){.host = host,
                          .device = device,
                          .module = (struct rt_module *)(void *)handle,
                          .next = *bucket(host)};
    return *bucket(host) = n;
}

CU_API void **__cudaRegisterFatBinary(void *data) {
    struct rt_module *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->data = data;
    m->next = modules;
    modules = m;
    return (void **)(void *)m;
}
CU_API void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}
CU_API void __cudaUnregisterFatBinary(void **handle) {
    for (uint32_t b = 0; b < NAMED; b++)
        for (struct rt_name **p = &names[b], *n; (n = *p);)
            if ((void *)n->module == (void *)handle) {
                *p = n->next;
                free(n);
            } else {
                p = &n->next;
            }
    for (struct rt_module **p = &modules; *p; p = &(*p)->next)
        if ((void *)*p == (void *)handle) {
            struct rt_module *m = *p;
            *p = m->next;
            free(m);
            return;
        }
}
CU_API void __cudaRegisterFunction(void **handle, const char *host, char *stub, const char *device,
                                   int limit, void *tid, void *bid, void *block, void *grid,
                                   int *warp) {
    (void)stub, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    keep(handle, host, device);
}
CU_API void __cudaRegisterVar(void **handle, char *host, char *address, const char *device, int ext,
                              size_t bytes, int constant, int global) {
    (void)address, (void)ext, (void)constant, (void)global;
    keep(handle, host, device)->bytes = bytes;
}

/* --- Loading --- */

static cu_result load(struct rt_module *m) {
    if (m->image || m->failed)
        return m->failed;
    m->failed = cuLibraryLoadData(&m->image, m->data, NULL, NULL, 0, NULL, NULL, 0);
    for (uint32_t b = 0; b < NAMED && !m->failed; b++)
        for (struct rt_name *n = names[b]; n; n = n->next)
            if (n->module == m && n->managed) {
                cu_ptr p = 0;
                cuModuleGetGlobal_v2(&p, NULL, m->image, n->device);
                *n->managed = (void *)(uintptr_t)p;
            }
    return m->failed;
}
CU_API char __cudaInitModule(void **handle) {
    return !rt_begin() && !load((struct rt_module *)(void *)handle);
}
/* The variable's memory belongs to the module, so the module is loaded before the program asks. */
CU_API void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *device,
                                     int ext, size_t bytes, int constant, int global) {
    (void)address, (void)ext, (void)constant, (void)global;
    struct rt_name *n = keep(handle, host, device);
    n->bytes = bytes;
    n->managed = host;
}

cu_result rt_kernel(struct cu_kernel **k, const void *fn) {
    cu_result r = rt_begin();
    struct rt_name *n = find(fn);
    if (r || !n) { /* else it is a kernel already */
        *k = r ? NULL : (struct cu_kernel *)(uintptr_t)fn;
        return r ? r : fn ? CUE_SUCCESS : CUE_ERROR_INVALID_FUNCTION;
    }
    if (!n->kernel && (r = load(n->module)))
        return r;
    if (!n->kernel && cuModuleGetFunction(&n->kernel, n->module->image, n->device))
        return CUE_ERROR_INVALID_FUNCTION;
    *k = n->kernel;
    return CUE_SUCCESS;
}
cu_result rt_symbol(cu_ptr *p, size_t *bytes, const void *var) {
    cu_result r = rt_begin();
    struct rt_name *n = find(var);
    if (!r && !n)
        r = CUE_ERROR_INVALID_SYMBOL;
    if (!r)
        r = load(n->module);
    return r ? r : cuModuleGetGlobal_v2(p, bytes, n->module->image, n->device);
}
CU_API cu_result cudaGetSymbolAddress(void **p, const void *var) {
    cu_ptr a = 0;
    cu_result r = rt_symbol(&a, NULL, var);
    *p = (void *)(uintptr_t)a;
    return rt_done(r);
}
CU_API cu_result cudaGetSymbolSize(size_t *bytes, const void *var) {
    cu_ptr a;
    return rt_done(rt_symbol(&a, bytes, var));
}

/* --- Launches --- */

CU_API unsigned __cudaPushCallConfiguration(struct rt_dim3 grid, struct rt_dim3 block, size_t smem,
                                            struct cu_stream *s) {
    if (npushed == 16)
        return 1;
    pushed[npushed++] = (struct rt_config){grid, block, smem, s, NULL, 0};
    return 0;
}
CU_API cu_result __cudaPopCallConfiguration(struct rt_dim3 *grid, struct rt_dim3 *block,
                                            size_t *smem, void *stream) {
    if (!npushed)
        return rt_done(CUE_ERROR_INVALID_VALUE);
    const struct rt_config *c = &pushed[--npushed];
    *grid = c->grid;
    *block = c->block;
    *smem = c->smem;
    memcpy(stream, &c->stream, sizeof c->stream);
    return CUE_SUCCESS;
}

static cu_result launch(const struct rt_config *c, const void *fn, void **args) {
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, fn);
    const struct cu_config d = {{c->grid.x, c->grid.y, c->grid.z},
                                {c->block.x, c->block.y, c->block.z},
                                (unsigned)c->smem,
                                c->stream,
                                c->attrs,
                                c->nattrs};
    return rt_done(r ? r : cuLaunchKernelEx(&d, k, args, NULL));
}
CU_API cu_result cudaLaunchKernelExC(const struct rt_config *c, const void *fn, void **args) {
    return c ? launch(c, fn, args) : rt_done(CUE_ERROR_INVALID_VALUE);
}
CU_API cu_result cudaLaunchKernel(const void *fn, struct rt_dim3 grid, struct rt_dim3 block,
                                  void **args, size_t smem, struct cu_stream *s) {
    return launch(&(struct rt_config){grid, block, smem, s, NULL, 0}, fn, args);
}
CU_API cu_result __cudaLaunchKernel(struct cu_kernel *k, struct rt_dim3 grid, struct rt_dim3 block,
                                    void **args, size_t smem, struct cu_stream *s) {
    return cudaLaunchKernel(k, grid, block, args, smem, s);
}
CU_API cu_result cudaLaunchCooperativeKernel(const void *fn, struct rt_dim3 grid,
                                             struct rt_dim3 block, void **args, size_t smem,
                                             struct cu_stream *s) {
    struct cu_attribute a = {.id = CU_LAUNCH_COOPERATIVE, .value.on = 1};
    return launch(&(struct rt_config){grid, block, smem, s, &a, 1}, fn, args);
}
CU_API cu_result __cudaGetKernel(struct cu_kernel **k, const void *fn) {
    return rt_done(rt_kernel(k, fn));
}
CU_API cu_result cudaGetKernel(struct cu_kernel **k, const void *fn) {
    return rt_done(rt_kernel(k, fn));
}
CU_API cu_result cudaGetFuncBySymbol(struct cu_kernel **k, const void *fn) {
    return rt_done(rt_kernel(k, fn));
}
