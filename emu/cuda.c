/* cuda.c: libcuda-emu.so, contexts, modules, memory.  One device, whose part is named by EMU_PART;
 * other settings: EMU_SEED, EMU_POLICY (random, bursty, instant, late, starve), EMU_CHECK (off),
 * EMU_LENIENT (names of checks, or all), EMU_SLOTS, EMU_LATE_REJOIN, EMU_PERTURB, EMU_CONSERVATIVE,
 * and the files of cuda_debug.c.
 *
 * Work is done when it must be: a launch is queued, and everything that could see its effects runs
 * it first.  So a chain of launches with programmatic serialisation overlaps, and all else is in
 * order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "ir.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct cu_world cu_world;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct cu_context *stack[64];
static _Thread_local int depth;

void cu_lock(void) {
    pthread_mutex_lock(&mutex);
}
void cu_unlock(void) {
    pthread_mutex_unlock(&mutex);
}

/* --- Settings --- */

static bool env_on(const char *name) {
    const char *s = getenv(name);
    return s && *s && strcmp(s, "0");
}

static void env_lenient(struct emu_options *o) {
    const char *s = getenv("EMU_LENIENT");
    const char *wrong = s ? emu_checks_named(s, o->lenient) : NULL;
    if (wrong)
        fprintf(stderr, "emu: EMU_LENIENT: there is no check '%.*s'\n", (int)strcspn(wrong, ", "),
                wrong);
}

static enum emu_policy env_policy(void) {
    static const char *const names[] = {"random", "bursty", "instant", "late", "starve"};
    const char *s = getenv("EMU_POLICY");
    for (int k = 0; s && k < EMU_POLICIES; k++)
        if (!strcmp(s, names[k]))
            return (enum emu_policy)k;
    if (s && *s)
        fprintf(stderr, "emu: EMU_POLICY '%s' is not known; random is used\n", s);
    return EMU_RANDOM;
}

static uint64_t env_number(const char *name) {
    const char *s = getenv(name);
    return s ? strtoull(s, NULL, 0) : 0;
}

static cu_result world_start(void) {
    if (cu_world.emu)
        return CUE_SUCCESS;
    const char *check = getenv("EMU_CHECK");
    struct emu_options o = {.part = getenv("EMU_PART"),
                            .seed = env_number("EMU_SEED"),
                            .policy = env_policy(),
                            .unchecked = check && !strcmp(check, "off"),
                            .conservative_proxy = env_on("EMU_CONSERVATIVE"),
                            .unread = env_on("EMU_UNREAD"),
                            .balance = env_on("EMU_BALANCE"),
                            .late_rejoin = env_on("EMU_LATE_REJOIN"),
                            .in_order = env_on("EMU_IN_ORDER"),
                            .perturb = env_on("EMU_PERTURB"),
                            .sms = (uint32_t)env_number("EMU_SMS"),
                            .slots = (uint32_t)env_number("EMU_SLOTS"),
                            .window = (uint32_t)env_number("EMU_WINDOW"),
                            .forms = getenv("EMU_FORMS") != NULL,
                            .coverage = getenv("EMU_COVERAGE") != NULL,
                            .max_steps = env_number("EMU_MAX_STEPS"),
                            .timing = env_on("EMU_TIMING"),
                            .timing_ctas = (uint32_t)env_number("EMU_TIMING_CTAS")};
    const char *log = getenv("EMU_TIMING_LOG");
    if (o.timing && log && *log)
        o.timing_log = fopen(log, "a");
    env_lenient(&o);
    if (o.part && !*o.part)
        o.part = NULL;
    cu_world.emu = emu_new(&o);
    if (!cu_world.emu) {
        fprintf(stderr, "emu: part '%s' is not known, or no address space\n",
                o.part ? o.part : "sm_100a");
        return CUE_ERROR_NO_DEVICE;
    }
    return CUE_SUCCESS;
}

static void world_reset(void) {
    while (cu_world.images) {
        struct cu_image *i = cu_world.images;
        cu_world.images = i->next;
        free(i->kernels);
        free(i);
    }
    emu_free(
        cu_world.emu); /* modules' text is freed with the process: handles may still be around */
    cu_world.emu = NULL;
    cu_world.failed = false;
}

cu_result cu_failure(void) {
    return emu_asserted(cu_world.emu) ? CUE_ERROR_ASSERT : CUE_ERROR_LAUNCH_FAILED;
}
cu_result cu_drain(void) {
    if (cu_world.failed)
        return cu_failure();
    if (!emu_sync(cu_world.emu))
        cu_world.failed = true;
    return cu_world.failed ? cu_failure() : CUE_SUCCESS;
}

struct cu_context *cu_current(void) {
    return depth ? stack[depth - 1] : NULL;
}

cu_result cu_ready(void) {
    if (!cu_world.emu)
        return CUE_ERROR_NOT_INITIALIZED;
    if (!cu_current())
        return CUE_ERROR_INVALID_CONTEXT;
    return cu_world.failed ? cu_failure() : CUE_SUCCESS;
}

/* --- Initialisation and contexts --- */

CU_API cu_result cuInit(unsigned flags) {
    if (flags)
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = world_start();
    cu_unlock();
    return r;
}

static cu_result retain_primary(struct cu_context **c) {
    cu_result r = world_start();
    if (r)
        return r;
    cu_world.primary.references++;
    cu_world.primary.primary = cu_world.primary.alive = true;
    *c = &cu_world.primary;
    return CUE_SUCCESS;
}
CU_API cu_result cuDevicePrimaryCtxRetain(struct cu_context **c, cu_device d) {
    if (!c || d)
        return d ? CUE_ERROR_INVALID_DEVICE : CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = retain_primary(c);
    cu_unlock();
    return r;
}
static cu_result release_primary(void) {
    if (!cu_world.primary.references)
        return CUE_ERROR_INVALID_CONTEXT;
    if (--cu_world.primary.references == 0) {
        cu_world.primary.alive = false;
        world_reset();
        return world_start();
    }
    return CUE_SUCCESS;
}
CU_API cu_result cuDevicePrimaryCtxRelease_v2(cu_device d) {
    if (d)
        return CUE_ERROR_INVALID_DEVICE;
    cu_lock();
    cu_result r = release_primary();
    cu_unlock();
    return r;
}
CU_API cu_result cuDevicePrimaryCtxRelease(cu_device d) {
    return cuDevicePrimaryCtxRelease_v2(d);
}
CU_API cu_result cuDevicePrimaryCtxReset_v2(cu_device d) {
    if (d)
        return CUE_ERROR_INVALID_DEVICE;
    cu_lock();
    world_reset();
    cu_result r = world_start();
    cu_unlock();
    return r;
}
CU_API cu_result cuDevicePrimaryCtxReset(cu_device d) {
    return cuDevicePrimaryCtxReset_v2(d);
}
CU_API cu_result cuDevicePrimaryCtxSetFlags_v2(cu_device d, unsigned flags) {
    (void)flags;
    return d ? CUE_ERROR_INVALID_DEVICE : CUE_SUCCESS;
}
CU_API cu_result cuDevicePrimaryCtxSetFlags(cu_device d, unsigned f) {
    return cuDevicePrimaryCtxSetFlags_v2(d, f);
}
CU_API cu_result cuDevicePrimaryCtxGetState(cu_device d, unsigned *flags, int *active) {
    if (d)
        return CUE_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUE_ERROR_INVALID_VALUE;
    *flags = 0;
    *active = cu_world.primary.references > 0;
    return CUE_SUCCESS;
}
static cu_result ctx_push(struct cu_context *c) {
    if (depth == 64 || (c != &cu_world.primary && !cu_handle_is(c, CU_CONTEXT)))
        return CUE_ERROR_INVALID_CONTEXT;
    stack[depth++] = c;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxCreate_v2(struct cu_context **c, unsigned flags, cu_device d) {
    if (!c || d)
        return d ? CUE_ERROR_INVALID_DEVICE : CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = world_start();
    cu_unlock();
    if (r)
        return r;
    *c = calloc(1, sizeof **c);
    if (!*c)
        return CUE_ERROR_OUT_OF_MEMORY;
    cu_handle_add(*c, CU_CONTEXT);
    (*c)->alive = true;
    (*c)->flags = flags;
    return ctx_push(*c);
}
CU_API cu_result cuCtxCreate(struct cu_context **c, unsigned f, cu_device d) {
    return cuCtxCreate_v2(c, f, d);
}
CU_API cu_result cuCtxCreate_v4(struct cu_context **c, void *params, unsigned f, cu_device d) {
    (void)params;
    return cuCtxCreate_v2(c, f, d);
}
CU_API cu_result cuCtxDestroy_v2(struct cu_context *c) {
    if (!cu_handle_drop(c, CU_CONTEXT)) /* the primary one is none of these */
        return CUE_ERROR_INVALID_CONTEXT;
    if (cu_current() == c)
        depth--;
    cu_lock();
    cu_result r = cu_world.failed ? CUE_SUCCESS : cu_drain();
    cu_unlock();
    free(c);
    return r;
}
CU_API cu_result cuCtxDestroy(struct cu_context *c) {
    return cuCtxDestroy_v2(c);
}
CU_API cu_result cuCtxPushCurrent_v2(struct cu_context *c) {
    return ctx_push(c);
}
CU_API cu_result cuCtxPushCurrent(struct cu_context *c) {
    return ctx_push(c);
}
CU_API cu_result cuCtxPopCurrent_v2(struct cu_context **c) {
    if (!depth)
        return CUE_ERROR_INVALID_CONTEXT;
    depth--;
    if (c)
        *c = stack[depth];
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxPopCurrent(struct cu_context **c) {
    return cuCtxPopCurrent_v2(c);
}
CU_API cu_result cuCtxSetCurrent(struct cu_context *c) {
    if (c && c != &cu_world.primary && !cu_handle_is(c, CU_CONTEXT))
        return CUE_ERROR_INVALID_CONTEXT;
    if (depth)
        depth--;
    return c ? ctx_push(c) : CUE_SUCCESS;
}
CU_API cu_result cuCtxGetCurrent(struct cu_context **c) {
    if (!c)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_world.emu)
        return CUE_ERROR_NOT_INITIALIZED;
    *c = cu_current();
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxGetDevice(cu_device *d) {
    if (!d)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_current())
        return CUE_ERROR_INVALID_CONTEXT;
    *d = 0;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxGetFlags(unsigned *f) {
    if (!f || !cu_current())
        return CUE_ERROR_INVALID_CONTEXT;
    *f = cu_current()->flags;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxGetApiVersion(struct cu_context *c, unsigned *v) {
    (void)c;
    if (!v)
        return CUE_ERROR_INVALID_VALUE;
    *v = 3020;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxSynchronize(void) {
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_drain();
    r = r ? r : cu_wait_for_all();
    cu_unlock();
    return r;
}
CU_API cu_result cuCtxSetLimit(int limit, size_t v) {
    (void)limit;
    (void)v;
    return cu_current() ? CUE_SUCCESS : CUE_ERROR_INVALID_CONTEXT;
}
CU_API cu_result cuCtxGetLimit(size_t *v, int limit) {
    (void)limit;
    if (!v)
        return CUE_ERROR_INVALID_VALUE;
    *v = 1 << 20;
    return CUE_SUCCESS;
}
CU_API cu_result cuCtxSetCacheConfig(int c) {
    (void)c;
    return CUE_SUCCESS;
}

/* --- Modules and libraries --- */

/* An architecture-specific target (sm_90a) fits that part only; a family target (sm_100f) its major
 * version; a plain one every later part (PTX ISA, .target). */
bool cu_target_fits(const char *s) {
    const struct emu_part *p = emu_part(cu_world.emu);
    if (strncmp(s, "sm_", 3))
        return false;
    char *end;
    int cc = (int)strtoul(s + 3, &end, 10), have = p->major * 10 + p->minor;
    if (*end == 'a')
        return cc == have;
    if (*end == 'f')
        return cc / 10 == p->major && cc <= have;
    return cc <= have;
}

/* PTX out of a fat binary, or in the place of machine code, in `text`, to be freed; NULL if the
 * data are PTX. */
static bool unpack(const void *data, char **text, bool *stubs) {
    if (cu_is_elf(data))
        return (*text = cu_cubin_ptx(data, stubs));
    if (!cu_is_fatbin(data) || (*text = cu_fatbin_ptx(data, cu_target_fits)))
        return true;
    char *code = cu_fatbin_elf(data);
    *text = code ? cu_cubin_ptx(code, stubs) : NULL;
    free(code);
    return *text;
}

static cu_result load_image(struct cu_image **out, const void *data) {
    char err[600];
    if (!out || !data)
        return CUE_ERROR_INVALID_VALUE;
    char *unpacked = NULL;
    bool stubs = false;
    if (!unpack(data, &unpacked, &stubs))
        return CUE_ERROR_NO_BINARY_FOR_GPU;
    struct cu_image *i = calloc(1, sizeof *i);
    if (!i) {
        free(unpacked);
        return CUE_ERROR_OUT_OF_MEMORY;
    }
    const char *text = cu_mutate(cu_replaced(unpacked ? unpacked : data));
    const char *name = getenv("EMU_NAME");
    cu_keep_text(text);
    i->mod = emu_load(cu_world.emu, text, strlen(text), name ? name : "ptx", err, sizeof err);
    free(unpacked);
    if (!i->mod) {
        fprintf(stderr, "emu: %s\n", err);
        free(i);
        return CUE_ERROR_INVALID_PTX;
    }
    if (!cu_target_fits(i->mod->target)) {
        emu_unload(cu_world.emu, i->mod);
        free(i);
        return CUE_ERROR_NO_BINARY_FOR_GPU;
    }
    for (uint32_t k = 0; stubs && k < i->mod->nfuncs; k++)
        i->mod->funcs[k]->refused = "machine code, and EMU_REPLACE's folder has no PTX of it";
    i->nkernels = i->mod->nfuncs;
    i->kernels = calloc(i->nkernels + 1, sizeof *i->kernels);
    for (uint32_t k = 0; k < i->nkernels; k++)
        i->kernels[k] = (struct cu_kernel){.fn = i->mod->funcs[k], .image = i};
    i->next = cu_world.images;
    cu_world.images = i;
    *out = i;
    return CUE_SUCCESS;
}

static cu_result unload_image(struct cu_image *i) {
    for (struct cu_image **p = &cu_world.images; *p; p = &(*p)->next)
        if (*p == i) {
            cu_result r = cu_world.failed ? CUE_SUCCESS : cu_drain();
            *p = i->next;
            cu_module_coverage(i->mod);
            emu_unload(cu_world.emu, i->mod);
            free(i->kernels);
            free(i);
            return r;
        }
    return CUE_ERROR_INVALID_HANDLE;
}

static cu_result find_kernel(struct cu_kernel **k, struct cu_image *i, const char *name) {
    if (!k || !name)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_image_is(i))
        return CUE_ERROR_INVALID_HANDLE;
    for (uint32_t n = 0; n < i->nkernels; n++)
        if (!strcmp(i->kernels[n].fn->name, name)) {
            *k = &i->kernels[n];
            return CUE_SUCCESS;
        }
    return CUE_ERROR_NOT_FOUND;
}

CU_API cu_result cuModuleLoadData(struct cu_image **m, const void *data) {
    cu_lock();
    cu_result r = cu_ready();
    if (!r)
        r = load_image(m, data);
    cu_unlock();
    return r;
}
CU_API cu_result cuModuleLoadDataEx(struct cu_image **m, const void *data, unsigned n, int *opts,
                                    void **vals) {
    (void)n;
    (void)opts;
    (void)vals;
    return cuModuleLoadData(m, data);
}
CU_API cu_result cuModuleLoadFatBinary(struct cu_image **m, const void *data) {
    return cuModuleLoadData(m, data);
}
CU_API cu_result cuModuleLoad(struct cu_image **m, const char *path) {
    size_t bytes;
    char *text = path ? cu_read_file(path, &bytes) : NULL;
    if (!text)
        return CUE_ERROR_FILE_NOT_FOUND;
    cu_result r = cuModuleLoadData(m, text);
    free(text);
    return r;
}
CU_API cu_result cuLibraryLoadFromFile(struct cu_image **l, const char *path, int *jo, void **jv,
                                       unsigned jn, int *o, void **v, unsigned n) {
    (void)jo, (void)jv, (void)jn, (void)o, (void)v, (void)n;
    return cuModuleLoad(l, path);
}
CU_API cu_result cuModuleUnload(struct cu_image *m) {
    cu_lock();
    cu_result r = unload_image(m);
    cu_unlock();
    return r;
}
CU_API cu_result cuModuleGetFunction(struct cu_kernel **k, struct cu_image *m, const char *name) {
    return find_kernel(k, m, name);
}
CU_API cu_result cuModuleGetFunctionCount(unsigned *n, struct cu_image *m) {
    if (!n || !cu_image_is(m))
        return n ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *n = m->nkernels;
    return CUE_SUCCESS;
}
CU_API cu_result cuModuleGetGlobal_v2(cu_ptr *p, size_t *bytes, struct cu_image *m,
                                      const char *name) {
    if (!name)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_image_is(m))
        return CUE_ERROR_INVALID_HANDLE;
    for (uint32_t k = 0; k < m->mod->nglobals; k++)
        if (!strcmp(m->mod->globals[k].name, name)) {
            if (p)
                *p = m->mod->globals[k].addr;
            if (bytes)
                *bytes = m->mod->globals[k].bytes;
            return CUE_SUCCESS;
        }
    return CUE_ERROR_NOT_FOUND;
}
CU_API cu_result cuLibraryLoadData(struct cu_image **l, const void *data, int *jo, void **jv,
                                   unsigned jn, int *o, void **v, unsigned n) {
    (void)jo, (void)jv, (void)jn, (void)o, (void)v, (void)n;
    cu_lock();
    cu_result r = cu_world.emu ? load_image(l, data) : CUE_ERROR_NOT_INITIALIZED;
    cu_unlock();
    return r;
}
CU_API cu_result cuLibraryUnload(struct cu_image *l) {
    return cuModuleUnload(l);
}
CU_API cu_result cuLibraryGetKernel(struct cu_kernel **k, struct cu_image *l, const char *name) {
    return find_kernel(k, l, name);
}
CU_API cu_result cuLibraryGetModule(struct cu_image **m, struct cu_image *l) {
    if (!m || !cu_image_is(l))
        return m ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *m = l;
    return CUE_SUCCESS;
}
CU_API cu_result cuLibraryGetGlobal(cu_ptr *p, size_t *bytes, struct cu_image *l,
                                    const char *name) {
    return cuModuleGetGlobal_v2(p, bytes, l, name);
}
CU_API cu_result cuLibraryGetKernelCount(unsigned *n, struct cu_image *l) {
    return cuModuleGetFunctionCount(n, l);
}
CU_API cu_result cuKernelGetFunction(struct cu_kernel **f, struct cu_kernel *k) {
    if (!f || !cu_kernel_is(k))
        return f ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *f = k;
    return CUE_SUCCESS;
}
CU_API cu_result cuKernelGetLibrary(struct cu_image **l, struct cu_kernel *k) {
    if (!l || !cu_kernel_is(k))
        return l ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *l = k->image;
    return CUE_SUCCESS;
}
CU_API cu_result cuFuncGetModule(struct cu_image **m, struct cu_kernel *k) {
    if (!m || !cu_kernel_is(k))
        return m ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *m = k->image;
    return CUE_SUCCESS;
}
CU_API cu_result cuFuncGetName(const char **name, struct cu_kernel *k) {
    if (!name || !cu_kernel_is(k))
        return name ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *name = k->fn->name;
    return CUE_SUCCESS;
}
CU_API cu_result cuKernelGetName(const char **name, struct cu_kernel *k) {
    return cuFuncGetName(name, k);
}
CU_API cu_result cuFuncGetParamInfo(struct cu_kernel *k, size_t n, size_t *off, size_t *bytes) {
    if (!cu_kernel_is(k))
        return CUE_ERROR_INVALID_HANDLE;
    if (n >= k->fn->nparams)
        return CUE_ERROR_INVALID_VALUE;
    if (off)
        *off = k->fn->params[n].off;
    if (bytes)
        *bytes = k->fn->params[n].bytes;
    return CUE_SUCCESS;
}
CU_API cu_result cuKernelGetParamInfo(struct cu_kernel *k, size_t n, size_t *off, size_t *bytes) {
    return cuFuncGetParamInfo(k, n, off, bytes);
}
