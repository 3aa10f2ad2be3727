/* gpu.c: see gpu.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"
#include "cuda_abi.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*current)(void *);
    int (*load)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*attribute)(void *, int, int);
    int (*alloc)(uint64_t *, size_t);
    int (*release)(uint64_t);
    int (*h2d)(uint64_t, const void *, size_t);
    int (*d2h)(void *, uint64_t, size_t);
    int (*launch)(const struct cu_config *, void *, void **, void **);
    int (*sync)(void);
    int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                  const uint32_t *, const uint32_t *, int, int, int, int);
    int (*name)(int, const char **);
} cu;

bool gpu_timing, gpu_no_pdl;

static _Noreturn void stop(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

static void check(int result, const char *what) {
    const char *name = "?";
    if (!result)
        return;
    cu.name(result, &name);
    stop("%s: %s", what, name);
}

void gpu_open(const char *library) {
    void *h = dlopen(library, RTLD_NOW), *context;
    if (!h)
        stop("%s", dlerror());
    const struct {
        void **to;
        const char *name;
    } table[] = {{(void **)&cu.init, "cuInit"},
                 {(void **)&cu.retain, "cuDevicePrimaryCtxRetain"},
                 {(void **)&cu.current, "cuCtxSetCurrent"},
                 {(void **)&cu.load, "cuModuleLoadData"},
                 {(void **)&cu.function, "cuModuleGetFunction"},
                 {(void **)&cu.attribute, "cuFuncSetAttribute"},
                 {(void **)&cu.alloc, "cuMemAlloc_v2"},
                 {(void **)&cu.release, "cuMemFree_v2"},
                 {(void **)&cu.h2d, "cuMemcpyHtoD_v2"},
                 {(void **)&cu.d2h, "cuMemcpyDtoH_v2"},
                 {(void **)&cu.launch, "cuLaunchKernelEx"},
                 {(void **)&cu.sync, "cuCtxSynchronize"},
                 {(void **)&cu.encode, "cuTensorMapEncodeTiled"},
                 {(void **)&cu.name, "cuGetErrorName"}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!(*table[k].to = dlsym(h, table[k].name)))
            stop("%s has no %s", library, table[k].name);
    check(cu.init(0), "cuInit");
    check(cu.retain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cu.current(context), "cuCtxSetCurrent");
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f)
        stop("%s cannot be read", path);
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    if (!text || fread(text, 1, (size_t)n, f) != (size_t)n)
        stop("%s cannot be read", path);
    text[n] = 0;
    fclose(f);
    return text;
}

/* ".param .align 64 .b8 name[128]" or ".param .u32 name". */
static void read_param(struct kernel *k, const char *s, const char *end) {
    unsigned align = 0, count = 1, width = 0;
    if (k->params == MAX_PARAMS)
        stop("%s has more than %d parameters", k->name, MAX_PARAMS);
    for (const char *p = s; p < end; p++) {
        if (!strncmp(p, ".align", 6) && !align)
            align = (unsigned)atoi(p + 6);
        if (*p == '.' && strchr("bufs", p[1]) && p[2] >= '1' && p[2] <= '9' && !width)
            width = (unsigned)atoi(p + 2) / 8;
        if (*p == '[')
            count = (unsigned)atoi(p + 1);
    }
    k->param[k->params].bytes = width * count;
    k->param[k->params].align = strstr(s, ".ptr") && strstr(s, ".ptr") < end ? width
                                : align                                      ? align
                                                                             : width;
    if (!width || width * count > MAX_PARAM_BYTES)
        stop("%s: parameter %d cannot be read", k->name, k->params);
    k->params++;
}

/* The name of the first entry of text that contains part; false: none. */
static bool find_entry(struct kernel *k, const char *text, const char *part) {
    for (const char *s = text; (s = strstr(s, ".entry "));) {
        s += 7;
        snprintf(k->name, sizeof k->name, "%.*s", (int)strcspn(s, "( \n"), s);
        if (strstr(k->name, part))
            return true;
    }
    return false;
}

void gpu_kernel(struct kernel *k, const char *stem, const char *part) {
    char path[1024], *text = NULL;
    void *module;
    memset(k, 0, sizeof *k);
    for (int n = 1; n <= 4; n++) {
        snprintf(path, sizeof path, "%s-%d.ptx", stem, n);
        if (access(path, R_OK))
            break;
        text = read_file(path);
        if (find_entry(k, text, part))
            break;
        free(text);
        text = NULL;
    }
    if (!text)
        stop("%s-N.ptx: no entry is named like %s", stem, part);
    const char *s = strchr(strstr(text, k->name), '('), *end = strchr(s, ')');
    while ((s = strstr(s, ".param")) && s < end) {
        const char *stop_at = s + strcspn(s, ",)");
        read_param(k, s, stop_at);
        s = stop_at;
    }
    check(cu.load(&module, text), path);
    check(cu.function(&k->function, module, k->name), k->name);
    free(text);
}

void gpu_print_params(const struct kernel *k) {
    for (int i = 0; i < k->params; i++)
        printf("  parameter %2d: %3u bytes, aligned to %u\n", i, k->param[i].bytes,
               k->param[i].align);
}

uint64_t gpu_alloc(size_t bytes) {
    uint64_t p = 0;
    check(cu.alloc(&p, bytes), "cuMemAlloc");
    return p;
}
void gpu_free(uint64_t p) {
    if (gpu_timing)
        return;
    check(cu.release(p), "cuMemFree");
}
void gpu_write(uint64_t to, const void *from, size_t bytes) {
    if (gpu_timing && !from)
        return;
    check(cu.h2d(to, from, bytes), "copy to the device");
}
void gpu_read(void *to, uint64_t from, size_t bytes) {
    if (gpu_timing)
        return;
    check(cu.d2h(to, from, bytes), "copy from the device");
}

void gpu_param(struct kernel *k, int i, const void *value, size_t bytes) {
    if (i >= k->params || bytes > k->param[i].bytes)
        stop("%s: parameter %d does not take %zu bytes", k->name, i, bytes);
    memset(k->param[i].value, 0xa5, sizeof k->param[i].value);
    memcpy(k->param[i].value, value, bytes);
    k->param[i].set = true;
}
void gpu_param_u32(struct kernel *k, int i, uint32_t v) {
    gpu_param(k, i, &v, sizeof v);
}
void gpu_param_f32(struct kernel *k, int i, float v) {
    gpu_param(k, i, &v, sizeof v);
}

void gpu_param_map(struct kernel *k, int i, const struct gpu_map *m) {
    _Alignas(64) uint8_t map[128];
    uint64_t strides[4];
    const uint32_t ones[5] = {1, 1, 1, 1, 1};
    const unsigned bytes = m->f32 ? 4 : 2;
    for (int d = 1; d < m->rank; d++)
        strides[d - 1] = m->stride[d] * bytes;
    enum { BF16 = 9, F32 = 7, SWIZZLE_128 = 3 };
    check(cu.encode(map, m->f32 ? F32 : BF16, (uint32_t)m->rank, (void *)(uintptr_t)m->address,
                    m->dim, strides, m->box, ones, 0, SWIZZLE_128, 0, 0),
          "cuTensorMapEncodeTiled");
    gpu_param(k, i, map, sizeof map);
}

void gpu_launch(struct kernel *k, const struct gpu_launch *l) {
    enum { MAX_DYNAMIC_SMEM = 8, NON_PORTABLE_CLUSTER = 14 };
    void *args[MAX_PARAMS];
    struct cu_attribute attrs[2] = {{.id = CU_LAUNCH_CLUSTER}, {.id = CU_LAUNCH_PDL}};
    attrs[0].value.cluster.x = l->cluster;
    attrs[0].value.cluster.y = attrs[0].value.cluster.z = 1;
    attrs[1].value.on = l->pdl && !gpu_no_pdl;
    for (int i = 0; i < k->params; i++) {
        if (!k->param[i].set)
            stop("%s: parameter %d is not set", k->name, i);
        args[i] = k->param[i].value;
    }
    check(cu.attribute(k->function, MAX_DYNAMIC_SMEM, 232448), "shared memory limit");
    check(cu.attribute(k->function, NON_PORTABLE_CLUSTER, 1), "cluster size");
    struct cu_config c = {.block = {l->block, 1, 1}, .smem = l->smem, .attrs = attrs, .nattrs = 2};
    memcpy(c.grid, l->grid, sizeof c.grid);
    check(cu.launch(&c, k->function, args, NULL), k->name);
}

int gpu_sync(void) {
    return gpu_timing ? 0 : cu.sync();
}

void gpu_drain(void) {
    check(cu.sync(), "the kernels");
}
