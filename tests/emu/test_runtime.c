/* test_runtime.c: a program as nvcc makes it, without nvcc: a fat binary, its registration,
 * launches and symbols through the runtime's calls, all of them found in libcuda-emu.so.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit_calls.h"

struct dim3 {
    unsigned x, y, z;
};
static const char ptx[] = ".version 9.0\n.target sm_90\n.address_size 64\n"
                          ".const .align 4 .f32 factor = 0f40000000;\n"
                          ".global .align 4 .u32 count;\n"
                          ".visible .entry scale(.param .u64 p, .param .u32 n)\n{\n"
                          "  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<3>;\n"
                          "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
                          "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
                          "  ld.param.u64 %rd1, [p]; ld.param.u32 %r5, [n];\n"
                          "  setp.ge.u32 %p, %r4, %r5;\n  @%p ret;\n"
                          "  mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2;\n"
                          "  ld.global.f32 %f1, [%rd1]; ld.const.f32 %f2, [factor];\n"
                          "  mul.f32 %f1, %f1, %f2; st.global.f32 [%rd1], %f1;\n"
                          "  red.global.add.u32 [count], 1;\n  ret;\n}\n";

/* --- The fat binary --- */

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed, options;
    uint16_t minor, major;
    uint32_t arch, name_at, name_bytes;
    uint64_t flags, reserved, plain;
    uint8_t pad[8];
};
static uint8_t fat[8192];
static struct {
    uint32_t magic, version;
    const void *data;
    const char *name;
} wrapper = {0x466243b1, 1, fat, NULL};

/* LZ4: literals, then the text's last 16 bytes again as a match, and their true end as literals. */
static uint32_t compress(uint8_t *out) {
    const uint32_t n = sizeof ptx - 1;
    uint8_t *o = out;
    uint32_t left = n - 15;
    *o++ = 0xf4; /* 15 or more literals; a match of 4 + 4 */
    for (; left >= 255; left -= 255)
        *o++ = 255;
    *o++ = (uint8_t)left;
    memcpy(o, ptx, n);
    o += n;
    *o++ = 1; /* eight newlines: a match that overlaps itself */
    *o++ = 0;
    *o++ = 0x10; /* one literal, no match at the end */
    *o++ = '\n';
    return (uint32_t)(o - out);
}

static void add(uint64_t *at, uint32_t arch, const char *text, bool packed) {
    struct entry e = {.kind = 1, .header_bytes = sizeof e, .arch = arch, .flags = 0x11};
    uint8_t *data = fat + *at + sizeof e;
    if (packed) {
        e.flags |= 0x2000;
        e.plain = sizeof ptx - 1 + 9;
        e.compressed = compress(data);
        e.bytes = (e.compressed + 7) & ~7u;
    } else {
        e.bytes = (strlen(text) + 8) & ~7ull;
        memcpy(data, text, strlen(text));
    }
    memcpy(fat + *at, &e, sizeof e);
    *at += sizeof e + e.bytes;
}

static void make_fat(void) {
    uint64_t at = 16;
    add(&at, 75, ".version 9.0\n.target sm_75\nthis is older and must not be taken", false);
    add(&at, 90, NULL, true);
    add(&at, 120, ".version 9.0\n.target sm_120a\nthis part cannot run it", false);
    const uint64_t bytes = at - 16;
    const uint32_t head[2] = {0xba55ed50, 16u << 16 | 1};
    memcpy(fat, head, 8);
    memcpy(fat + 8, &bytes, 8);
}

/* --- The program --- */

static char stub, other, factor, count; /* addresses are what counts */

static void test_launch(void) {
    CALL(__cudaRegisterFatBinary, void **, void *)
    CALL(__cudaRegisterFunction, void, void **, const void *, char *, const char *, int, void *,
         void *, void *, void *, int *)
    CALL(__cudaRegisterVar, void, void **, char *, char *, const char *, int, size_t, int, int)
    CALL(__cudaRegisterFatBinaryEnd, void, void **)
    CALL(__cudaUnregisterFatBinary, void, void **)
    CALL(__cudaPushCallConfiguration, unsigned, struct dim3, struct dim3, size_t, void *)
    CALL(__cudaPopCallConfiguration, int, struct dim3 *, struct dim3 *, size_t *, void *)
    CALL(cudaLaunchKernel, int, const void *, struct dim3, struct dim3, void **, size_t, void *)
    CALL(cudaMalloc, int, void *, size_t)
    CALL(cudaMemcpy, int, void *, const void *, size_t, int)
    CALL(cudaMemcpyToSymbol, int, const void *, const void *, size_t, size_t, int)
    CALL(cudaMemcpyFromSymbol, int, void *, const void *, size_t, size_t, int)
    CALL(cudaDeviceSynchronize, int, void)
    CALL(cudaGetLastError, int, void)
    CALL(cudaFree, int, void *)
    float h[100], three = 3;
    void *d = NULL;
    unsigned n = 100, seen = 0;
    make_fat();
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &stub, NULL, "scale", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &other, NULL, "absent", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, &factor, NULL, "factor", 0, 4, 1, 0);
    __cudaRegisterVar(handle, &count, NULL, "count", 0, 4, 0, 1);
    __cudaRegisterFatBinaryEnd(handle);
    for (int i = 0; i < 100; i++)
        h[i] = (float)i;
    CHECK(!cudaMalloc(&d, sizeof h), "cudaMalloc");
    CHECK(!cudaMemcpy(d, h, sizeof h, 1), "to the device");
    struct dim3 grid = {4, 1, 1}, block = {32, 1, 1};
    size_t smem = 0;
    void *stream = NULL, *args[] = {&d, &n};
    CHECK(!__cudaPushCallConfiguration(grid, block, 0, NULL), "push");
    CHECK(!__cudaPopCallConfiguration(&grid, &block, &smem, &stream) && grid.x == 4, "pop");
    CHECK(!cudaLaunchKernel(&stub, grid, block, args, smem, stream), "launch");
    CHECK(!cudaMemcpyToSymbol(&factor, &three, 4, 0, 1), "symbol");
    CHECK(!cudaLaunchKernel(&stub, grid, block, args, smem, stream), "second launch");
    CHECK(!cudaDeviceSynchronize(), "synchronise");
    CHECK(!cudaMemcpy(h, d, sizeof h, 2), "to the host");
    CHECK(!cudaMemcpyFromSymbol(&seen, &count, 4, 0, 2) && seen == 200, "counted %u", seen);
    CHECK(cudaMemcpyToSymbol(&factor, &three, 4, 1, 1) == 1, "beyond the symbol");
    CHECK(cudaGetLastError() == 1 && cudaGetLastError() == 0, "the last error is told once");
    for (int i = 0; i < 100; i++)
        CHECK(h[i] == (float)i * 6, "[%d] is %g", i, (double)h[i]);
    CHECK(cudaLaunchKernel(&other, grid, block, args, 0, NULL) == 98, "a kernel that is not there");
    CHECK(!cudaFree(d), "free");
    __cudaUnregisterFatBinary(handle);
}

static void note(void *p) {
    ++*(int *)p;
}
static void change_arguments(void *exec, void *node, const void *kernel) {
    CALL(cudaGraphExecKernelNodeSetParams, int, void *, void *, const void *)
    CALL(cudaGraphLaunch, int, void *, void *)
    CALL(cudaDeviceSynchronize, int, void)
    CHECK(!cudaGraphExecKernelNodeSetParams(exec, node, kernel), "other arguments");
    CHECK(!cudaGraphLaunch(exec, NULL) && !cudaDeviceSynchronize(), "launch again");
}
static int give_back(void *graph, void *exec, void *memory) {
    CALL(cudaGraphDestroy, int, void *)
    CALL(cudaGraphExecDestroy, int, void *)
    CALL(cudaFree, int, void *)
    return cudaGraphDestroy(graph) | cudaGraphExecDestroy(exec) | cudaFree(memory);
}
/* A graph that is built node by node: set, scale, host call, copy; then scaled by other arguments.
 */
static void test_graph(void) {
    CALL(__cudaRegisterFatBinary, void **, void *)
    CALL(__cudaRegisterFunction, void, void **, const void *, char *, const char *, int, void *,
         void *, void *, void *, int *)
    CALL(__cudaUnregisterFatBinary, void, void **)
    CALL(cudaMalloc, int, void *, size_t)
    CALL(cudaGraphCreate, int, void *, unsigned)
    CALL(cudaGraphAddMemsetNode, int, void *, void *, const void *, size_t, const void *)
    CALL(cudaGraphAddKernelNode, int, void *, void *, const void *, size_t, const void *)
    CALL(cudaGraphAddHostNode, int, void *, void *, const void *, size_t, const void *)
    CALL(cudaGraphAddEmptyNode, int, void *, void *, const void *, size_t)
    CALL(cudaGraphAddMemcpyNode1D, int, void *, void *, const void *, size_t, void *, const void *,
         size_t, int)
    CALL(cudaGraphAddDependencies, int, void *, const void *, const void *, const void *, size_t)
    CALL(cudaGraphInstantiate, int, void *, void *, unsigned long long)
    CALL(cudaGraphGetNodes, int, void *, void *, size_t *)
    CALL(cudaGraphLaunch, int, void *, void *)
    CALL(cudaDeviceSynchronize, int, void)
    void *d = NULL, *g = NULL, *x = NULL, *n[5] = {NULL};
    float h[100];
    unsigned all = 100, some = 10;
    int calls = 0;
    size_t nodes = 0;
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &stub, NULL, "scale", -1, NULL, NULL, NULL, NULL, NULL);
    CHECK(!cudaMalloc(&d, sizeof h) && !cudaGraphCreate(&g, 0), "memory, graph");
    void *args[] = {&d, &all}, *fewer[] = {&d, &some};
    struct {
        const void *fn;
        struct dim3 grid, block;
        unsigned smem;
        void **params, **extra;
    } kernel = {&stub, {4, 1, 1}, {32, 1, 1}, 0, args, NULL};
    const struct {
        void *dst;
        size_t pitch;
        unsigned value, element;
        size_t width, height;
    } set = {d, 0, 0x40400000, 4, 100, 1}; /* 3.0 */
    const struct {
        void (*fn)(void *);
        void *data;
    } host = {note, &calls};
    CHECK(!cudaGraphAddMemsetNode(&n[0], g, NULL, 0, &set), "set");
    CHECK(!cudaGraphAddKernelNode(&n[1], g, &n[0], 1, &kernel), "kernel");
    CHECK(!cudaGraphAddHostNode(&n[2], g, &n[1], 1, &host), "host");
    CHECK(!cudaGraphAddMemcpyNode1D(&n[3], g, &n[1], 1, h, d, sizeof h, 2) &&
              !cudaGraphAddEmptyNode(&n[4], g, NULL, 0),
          "copy, empty");
    CHECK(!cudaGraphAddDependencies(g, &n[3], &n[4], NULL, 1), "an edge in the order of adding");
    CHECK(cudaGraphAddDependencies(g, &n[4], &n[0], NULL, 1) == 1, "a circle");
    CHECK(!cudaGraphGetNodes(g, NULL, &nodes) && nodes == 5, "%zu nodes", nodes);
    CHECK(!cudaGraphInstantiate(&x, g, 0) && !calls, "nothing runs before the launch");
    CHECK(!cudaGraphLaunch(x, NULL) && !cudaDeviceSynchronize(), "launch");
    CHECK(calls == 1 && h[0] == 6 && h[99] == 6, "%d calls, %g, %g", calls, (double)h[0],
          (double)h[99]);
    kernel.params = fewer;
    change_arguments(x, n[1], &kernel);
    CHECK(calls == 2 && h[9] == 6 && h[10] == 3, "%d calls, %g, %g", calls, (double)h[9],
          (double)h[10]);
    CHECK(!give_back(g, x, d), "destroyed");
    __cudaUnregisterFatBinary(handle);
}

static void test_device(void) {
    CALL(cudaGetDeviceProperties, int, void *, int)
    CALL(cudaGetDriverEntryPointByVersion, int, const char *, void *, unsigned, unsigned long long,
         int *)
    uint8_t p[1008];
    int sms, status;
    void *fn = NULL;
    CHECK(!cudaGetDeviceProperties(p, 0), "properties");
    memcpy(&sms, p + 384, 4);
    CHECK(sms == 148, "%d SMs", sms);
    CHECK(!cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, 0, &status) &&
              fn && status == 0,
          "entry point");
    CHECK(!cudaGetDriverEntryPointByVersion("cuNoSuchCall", &fn, 12000, 0, &status) && status == 1,
          "an entry point that is not there");
}

int main(int argc, char **argv) {
    if (!unit_library(argc, argv))
        return 1;
    test_launch();
    test_graph();
    test_device();
    return unit_end();
}
