/* SPDX-License-Identifier: Apache-2.0
 * Plain device allocations; the copies are synchronous, so they wait for the device's work. */
#include "memory_cuda.h"

#include <dlfcn.h>
#include <stdio.h>

enum { WHY = 160 };

static struct {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*synchronize)(void);
    int (*alloc)(uint64_t *, size_t);
    int (*release)(uint64_t);
    int (*upload)(uint64_t, const void *, size_t);
    int (*download)(void *, uint64_t, size_t);
} cu;

static bool find(void *library, const char *name, void *function, char *why) {
    void **to = function;
    *to = dlsym(library, name);
    if (!*to)
        snprintf(why, WHY, "the driver has no %s", name);
    return *to;
}

static bool find_all(void *library, char *why) {
    return find(library, "cuInit", &cu.init, why) &&
           find(library, "cuDeviceGet", &cu.device_get, why) &&
           find(library, "cuDevicePrimaryCtxRetain", &cu.retain, why) &&
           find(library, "cuCtxSetCurrent", &cu.set_current, why) &&
           find(library, "cuCtxSynchronize", &cu.synchronize, why) &&
           find(library, "cuMemAlloc_v2", &cu.alloc, why) &&
           find(library, "cuMemFree_v2", &cu.release, why) &&
           find(library, "cuMemcpyHtoD_v2", &cu.upload, why) &&
           find(library, "cuMemcpyDtoH_v2", &cu.download, why);
}

static void *cuda_alloc(void *context, size_t bytes, size_t align) {
    uint64_t p = 0;
    (void)context;
    (void)align;
    return cu.alloc(&p, bytes ? bytes : 1) ? NULL : (void *)(uintptr_t)p;
}

static void cuda_release(void *context, void *memory, size_t bytes) {
    (void)context;
    (void)bytes;
    cu.release((uintptr_t)memory);
}

static bool cuda_upload(void *context, void *device, const void *host, size_t bytes) {
    (void)context;
    return !cu.upload((uintptr_t)device, host, bytes);
}

static bool cuda_download(void *context, void *host, const void *device, size_t bytes) {
    (void)context;
    return !cu.synchronize() && !cu.download(host, (uintptr_t)device, bytes);
}

bool case_memory_cuda(const char *path, int ordinal, struct case_memory *memory, char *why) {
    void *primary = NULL;
    int device = 0;
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, WHY, "%s", dlerror());
        return false;
    }
    if (!find_all(library, why))
        return false;
    const int result = cu.init(0)                        ? 1
                       : cu.device_get(&device, ordinal) ? 2
                       : cu.retain(&primary, device)     ? 3
                       : cu.set_current(primary)         ? 4
                                                         : 0;
    if (result) {
        snprintf(why, WHY, "no CUDA device %d (step %d of opening failed)", ordinal, result);
        return false;
    }
    *memory = (struct case_memory){.alloc = cuda_alloc,
                                   .release = cuda_release,
                                   .upload = cuda_upload,
                                   .download = cuda_download};
    return true;
}
