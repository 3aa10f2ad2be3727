/* SPDX-License-Identifier: Apache-2.0
 * A GPU's memory, clock and floor, through driver functions found by dlopen. Timing is a CUDA
 * graph of all runs between two events; the floor is bench/stream.cu over the same bytes. */
#include "space_cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                               \
    X(cuInit, (unsigned))                                                                          \
    X(cuDeviceGet, (int *, int))                                                                   \
    X(cuDeviceGetAttribute, (int *, int, int))                                                     \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                         \
    X(cuCtxSetCurrent, (void *))                                                                   \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                         \
    X(cuMemFree_v2, (uint64_t))                                                                    \
    X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                           \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                 \
    X(cuStreamCreate, (void **, unsigned))                                                         \
    X(cuStreamDestroy_v2, (void *))                                                                \
    X(cuStreamSynchronize, (void *))                                                               \
    X(cuStreamBeginCapture_v2, (void *, int))                                                      \
    X(cuStreamEndCapture, (void *, void **))                                                       \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                          \
    X(cuGraphLaunch, (void *, void *))                                                             \
    X(cuGraphDestroy, (void *))                                                                    \
    X(cuGraphExecDestroy, (void *))                                                                \
    X(cuEventCreate, (void **, unsigned))                                                          \
    X(cuEventRecord, (void *, void *))                                                             \
    X(cuEventSynchronize, (void *))                                                                \
    X(cuEventElapsedTime, (float *, void *, void *))                                               \
    X(cuModuleLoadData, (void **, const void *))                                                   \
    X(cuModuleGetFunction, (void **, void *, const char *))                                        \
    X(cuFuncSetAttribute, (void *, int, int))                                                      \
    X(cuLaunchKernelEx, (const void *, void *, void **, void **))                                  \
    X(cuGetErrorName, (int, const char **))

/* CUlaunchAttribute and CUlaunchConfig. */
struct launch_attribute {
    int id, pad;
    union {
        char bytes[64];
        int on;
    } value;
};

struct launch_config {
    unsigned grid[3], block[3], smem;
    void *stream;
    struct launch_attribute *attributes;
    unsigned count;
};

enum {
    ATTRIBUTE_SMS = 16,
    MAX_SMEM = 8,
    PROGRAMMATIC = 6,
    STREAM_SMEM = 13 * 16384 + 256,
    CHUNK = 16384,
};

struct state {
    void *library;
    int device, sms;
    void *primary, *stream, *begin, *end, *module, *floor[2]; /* floor: plain, early */
#define X(name, args) int(*name) args;
    FUNCTIONS(X)
#undef X
};

struct cuda_graph {
    void *graph, *exec;
};

/* The floor kernel's parameters, as in bench/stream.cu. */
struct stream_args {
    const char *base;
    int64_t bytes;
    int32_t chunk;
};

extern const unsigned char space_stream_image[];
extern const char space_stream_text[];
__asm__(".section .rodata\n.balign 16\nspace_stream_image:\n"
        ".if " STREAM_SIZED "\n.incbin \"" STREAM_IMAGE "\"\n.endif\n.byte 0\n"
        "space_stream_text:\n"
        ".if " STREAM_SIZED "\n.incbin \"" STREAM_TEXT "\"\n.endif\n.byte 0\n.previous\n");

static gqa_status check(const struct state *s, int result, const char *what,
                        struct gqa_error *err) {
    const char *name = "?";
    if (!result)
        return GQA_OK;
    s->cuGetErrorName(result, &name);
    err->status = GQA_ERR_DRIVER;
    snprintf(err->message, sizeof err->message, "%s: the driver says %s (%d)", what, name, result);
    return GQA_ERR_DRIVER;
}

/* --- Opening --- */

static bool find_all(struct state *s, struct gqa_error *err) {
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define X(name, args) {#name, offsetof(struct state, name)},
        FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(s->library, functions[i].name);
        if (!f) {
            snprintf(err->message, sizeof err->message, "the driver has no %s", functions[i].name);
            return false;
        }
        memcpy((char *)s + functions[i].offset, &f, sizeof f);
    }
    return true;
}

static void cuda_close(struct space *space) {
    struct state *s = space->state;
    if (s->stream)
        s->cuStreamDestroy_v2(s->stream);
    if (s->primary)
        s->cuDevicePrimaryCtxRelease_v2(s->device);
    free(s);
}

static gqa_status open_state(struct state *s, int ordinal, struct gqa_error *err) {
    gqa_status status = check(s, s->cuInit(0), "cuInit", err);
    status = status ? status : check(s, s->cuDeviceGet(&s->device, ordinal), "cuDeviceGet", err);
    status = status ? status
                    : check(s, s->cuDeviceGetAttribute(&s->sms, ATTRIBUTE_SMS, s->device),
                            "cuDeviceGetAttribute", err);
    status = status ? status
                    : check(s, s->cuDevicePrimaryCtxRetain(&s->primary, s->device),
                            "cuDevicePrimaryCtxRetain", err);
    status = status ? status : check(s, s->cuCtxSetCurrent(s->primary), "cuCtxSetCurrent", err);
    status = status ? status : check(s, s->cuStreamCreate(&s->stream, 1), "cuStreamCreate", err);
    status = status ? status : check(s, s->cuEventCreate(&s->begin, 0), "cuEventCreate", err);
    status = status ? status : check(s, s->cuEventCreate(&s->end, 0), "cuEventCreate", err);
    if (status)
        return status;
    /* Without an image for this GPU there is no floor; cuda_stream_step says so. */
    if ((!s->cuModuleLoadData(&s->module, space_stream_image) ||
         !s->cuModuleLoadData(&s->module, space_stream_text)) &&
        !s->cuModuleGetFunction(&s->floor[0], s->module, "gqa_stream") &&
        !s->cuModuleGetFunction(&s->floor[1], s->module, "gqa_stream_early"))
        for (int i = 0; i < 2; i++)
            s->cuFuncSetAttribute(s->floor[i], MAX_SMEM, STREAM_SMEM);
    return GQA_OK;
}

static gqa_status open_library(const char *path, int ordinal, struct space *space,
                               struct gqa_error *err) {
    struct state *s = calloc(1, sizeof *s);
    err->status = GQA_ERR_DEVICE;
    if (!s) {
        snprintf(err->message, sizeof err->message, "out of memory");
        return GQA_ERR_MEMORY;
    }
    s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!s->library)
        snprintf(err->message, sizeof err->message, "no CUDA driver: %s", dlerror());
    if (!s->library || !find_all(s, err)) {
        free(s);
        return GQA_ERR_DEVICE;
    }
    space->state = s;
    const gqa_status status = open_state(s, ordinal, err);
    if (status) {
        cuda_close(space);
        return status;
    }
    space->stream = s->stream;
    return GQA_OK;
}

static gqa_status cuda_open(const char *device, struct space *space, struct gqa_error *err) {
    const char *colon = strchr(device, ':');
    return open_library("libcuda.so.1", colon ? atoi(colon + 1) : 0, space, err);
}

/* The emulator's library is the one that gqa_device_open finds: named by GQA_CUDA_EMU, or beside
 * this program. The same file is one library to the loader, so both see the same memory. */
static gqa_status emulator_open(const char *device, struct space *space, struct gqa_error *err) {
    const char *colon = strchr(device, ':'), *named = getenv("GQA_CUDA_EMU");
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "libcuda-emu.so");
    if (!named && n > 0) {
        path[n] = 0;
        strcpy(strrchr(path, '/') + 1, "libcuda-emu.so");
        named = path;
    }
    if (!named || setenv("EMU_PART", colon ? colon + 1 : "sm_100a", 1)) {
        err->status = GQA_ERR_DEVICE;
        snprintf(err->message, sizeof err->message, "no emulator: set GQA_CUDA_EMU");
        return GQA_ERR_DEVICE;
    }
    return open_library(named, 0, space, err);
}

/* --- Memory --- */

static void *cuda_take(struct space *space, size_t bytes) {
    const struct state *s = space->state;
    uint64_t p = 0;
    return s->cuMemAlloc_v2(&p, bytes ? bytes : 256) ? NULL : (void *)(uintptr_t)p;
}

static void cuda_give(struct space *space, void *memory, size_t bytes) {
    const struct state *s = space->state;
    (void)bytes;
    s->cuMemFree_v2((uintptr_t)memory);
}

static gqa_status cuda_put(struct space *space, void *to, const void *from, size_t bytes,
                           struct gqa_error *err) {
    const struct state *s = space->state;
    return bytes ? check(s, s->cuMemcpyHtoD_v2((uintptr_t)to, from, bytes), "copy to the GPU", err)
                 : GQA_OK;
}

static gqa_status cuda_get(struct space *space, void *to, const void *from, size_t bytes,
                           struct gqa_error *err) {
    const struct state *s = space->state;
    const gqa_status status = check(s, s->cuStreamSynchronize(s->stream), "waiting", err);
    return status || !bytes
               ? status
               : check(s, s->cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes), "copy from the GPU", err);
}

/* --- Graphs --- */

gqa_status cuda_graph_make(struct space *space, space_step step, void *context, int64_t first,
                           int64_t runs, struct cuda_graph **graph, struct gqa_error *err) {
    const struct state *s = space->state;
    struct cuda_graph *g = calloc(1, sizeof *g);
    if (!g) {
        err->status = GQA_ERR_MEMORY;
        snprintf(err->message, sizeof err->message, "out of memory");
        return GQA_ERR_MEMORY;
    }
    gqa_status status = check(s, s->cuStreamBeginCapture_v2(s->stream, 2), "begin capture", err);
    if (!status) {
        for (int64_t i = 0; i < runs && !status; i++)
            status = step(context, first + i, s->stream, err);
        const int result = s->cuStreamEndCapture(s->stream, &g->graph);
        if (!status)
            status = check(s, result, "end capture", err);
    }
    if (!status)
        status = check(s, s->cuGraphInstantiateWithFlags(&g->exec, g->graph, 0), "graph", err);
    if (status) {
        cuda_graph_free(space, g);
        return status;
    }
    *graph = g;
    return GQA_OK;
}

gqa_status cuda_graph_time(struct space *space, struct cuda_graph *g, double *seconds,
                           struct gqa_error *err) {
    const struct state *s = space->state;
    float ms = 0;
    gqa_status status = check(s, s->cuEventRecord(s->begin, s->stream), "event", err);
    if (!status)
        status = check(s, s->cuGraphLaunch(g->exec, s->stream), "graph launch", err);
    if (!status)
        status = check(s, s->cuEventRecord(s->end, s->stream), "event", err);
    if (!status)
        status = check(s, s->cuEventSynchronize(s->end), "running", err);
    if (!status)
        status = check(s, s->cuEventElapsedTime(&ms, s->begin, s->end), "event", err);
    *seconds = 1e-3 * (double)ms;
    return status;
}

void cuda_graph_free(struct space *space, struct cuda_graph *g) {
    const struct state *s = space->state;
    if (g && g->exec)
        s->cuGraphExecDestroy(g->exec);
    if (g && g->graph)
        s->cuGraphDestroy(g->graph);
    free(g);
}

static gqa_status cuda_time(struct space *space, space_step step, void *context, int64_t first,
                            int64_t runs, double *seconds, struct gqa_error *err) {
    struct cuda_graph *g;
    gqa_status status = cuda_graph_make(space, step, context, first, runs, &g, err);
    if (status)
        return status;
    status = cuda_graph_time(space, g, seconds, err); /* uploads it */
    if (!status)
        status = cuda_graph_time(space, g, seconds, err);
    cuda_graph_free(space, g);
    return status;
}

/* --- The floor --- */

gqa_status cuda_stream_step(struct space *space, const struct space_pool *pool, int64_t run,
                            enum gqa_pdl pdl, struct gqa_error *err) {
    const struct state *s = space->state;
    int64_t chunk = ((int64_t)pool->bytes / s->sms + 15) / 16 * 16;
    chunk = chunk > CHUNK ? CHUNK : chunk < 512 ? 512 : chunk;
    struct stream_args args = {(const char *)pool->base +
                                   (size_t)(run % pool->entries) * pool->stride,
                               (int64_t)pool->bytes / 16 * 16, (int32_t)chunk};
    struct launch_attribute attribute = {.id = PROGRAMMATIC};
    attribute.value.on = 1;
    const struct launch_config config = {.grid = {(unsigned)s->sms, 1, 1},
                                         .block = {32, 1, 1},
                                         .smem = STREAM_SMEM,
                                         .stream = s->stream,
                                         .attributes = &attribute,
                                         .count = pdl == GQA_PDL_OFF ? 0 : 1};
    void *parameters[] = {&args, NULL};
    void *floor = s->floor[pdl == GQA_PDL_EARLY];
    if (!floor) {
        err->status = GQA_ERR_UNSUPPORTED;
        snprintf(err->message, sizeof err->message, "the floor kernel has no image for this GPU");
        return GQA_ERR_UNSUPPORTED;
    }
    return check(s, s->cuLaunchKernelEx(&config, floor, parameters, NULL), "gqa_stream", err);
}

struct floor_step {
    struct space *space;
    const struct space_pool *pool;
};

static gqa_status floor_run(void *context, int64_t run, void *stream, struct gqa_error *err) {
    const struct floor_step *f = context;
    (void)stream;
    return cuda_stream_step(f->space, f->pool, run, GQA_PDL_ON, err);
}

static gqa_status cuda_read(struct space *space, const struct space_pool *pool, int threads,
                            int64_t first, int64_t runs, double *seconds, struct gqa_error *err) {
    struct floor_step f = {space, pool};
    (void)threads;
    return cuda_time(space, floor_run, &f, first, runs, seconds, err);
}

const struct space_kind space_cuda = {
    .prefix = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .take = cuda_take,
    .give = cuda_give,
    .put = cuda_put,
    .get = cuda_get,
    .time = cuda_time,
    .read = cuda_read,
};

const struct space_kind space_emulator = {
    .prefix = "emu",
    .open = emulator_open,
    .close = cuda_close,
    .take = cuda_take,
    .give = cuda_give,
    .put = cuda_put,
    .get = cuda_get,
    .time = cuda_time,
    .read = cuda_read,
};
