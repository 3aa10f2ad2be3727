/* test_driver.c: calls of the driver that larger programs make: registered and managed memory,
 * copies of three dimensions, values for streams, pools, virtual memory, the linker, graphs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit_calls.h"

typedef uint64_t ptr;

/* to[i] = from[i] + 1 for n words, one CTA */
static const char ptx[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry add1(.param .u64 to, .param .u64 from, .param .u32 n)\n{\n"
    "  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
    "  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %tid.x;\n"
    "LOOP: setp.ge.u32 %p, %r2, %r1;\n  @%p ret;\n"
    "  mul.wide.u32 %rd3, %r2, 4; add.s64 %rd0, %rd2, %rd3; ld.global.u32 %r3, [%rd0];\n"
    "  add.u32 %r3, %r3, 1; add.s64 %rd0, %rd1, %rd3; st.global.u32 [%rd0], %r3;\n"
    "  add.u32 %r2, %r2, 32; bra LOOP;\n}\n";
static void *kernel;

static int add1(void *stream, ptr to, ptr from, unsigned n) {
    CALL(cuLaunchKernel, int, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         unsigned, void *, void **, void **)
    void *args[] = {&to, &from, &n};
    return cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL);
}
static ptr at(const void *p) {
    return (ptr)(uintptr_t)p;
}

static void start(void) {
    CALL(cuInit, int, unsigned)
    CALL(cuDevicePrimaryCtxRetain, int, void *, int)
    CALL(cuCtxSetCurrent, int, void *)
    CALL(cuLinkCreate_v2, int, unsigned, int *, void **, void *)
    CALL(cuLinkAddData_v2, int, void *, int, const void *, size_t, const char *, unsigned, int *,
         void **)
    CALL(cuLinkComplete, int, void *, void *, size_t *)
    CALL(cuLinkDestroy, int, void *)
    CALL(cuModuleLoadData, int, void *, const void *)
    CALL(cuModuleGetFunction, int, void *, void *, const char *)
    CALL(cuOccupancyMaxPotentialBlockSize, int, int *, int *, void *, void *, size_t, int)
    void *context = NULL, *link = NULL, *image = NULL, *module = NULL;
    size_t n = 0;
    int grid = 0, block = 0;
    CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context),
          "init");
    CHECK(!cuLinkCreate_v2(0, NULL, NULL, &link) &&
              !cuLinkAddData_v2(link, 1, ptx, sizeof ptx, "a", 0, NULL, NULL) &&
              !cuLinkComplete(link, &image, &n) && n == sizeof ptx,
          "one input is linked");
    CHECK(!cuModuleLoadData(&module, image) && !cuLinkDestroy(link) &&
              !cuModuleGetFunction(&kernel, module, "add1"),
          "load");
    CHECK(!cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel, NULL, 0, 0) && block == 1024 &&
              grid == 2 * 148,
          "%d CTAs of %d threads", grid, block);
}

/* Three texts: functions and variables of the others, names that two keep to themselves, a weak
 * function twice; the second text's variable is used before it is defined.  p[0] = add(5), p[1] =
 * what the weak function says. */
#define TEXT ".version 9.0\n.target sm_90\n.address_size 64\n"
static const char link_main[] =
    TEXT "// a comment: .visible .global no;\n"
         ".extern .func (.param .b32 r) add(.param .b32 x);\n"
         ".extern .global .align 4 .u32 base;\n"
         ".extern .shared .align 16 .b8 area[];\n"
         ".global .align 4 .u32 own[2] = {100, 7};\n"
         ".weak .func (.param .b32 r) which() { st.param.b32 [r], 1; ret; }\n"
         ".visible .entry linked(.param .u64 p)\n{\n"
         "  .reg .b32 %r<5>; .reg .b64 %rd<3>;\n"
         "  ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [own]; ld.global.u32 %r2, [base];\n"
         "  add.u32 %r1, %r1, %r2;\n"
         "  { .param .b32 a; .param .b32 v; st.param.b32 [a], 5; call.uni (v), add, (a);\n"
         "    ld.param.b32 %r3, [v]; }\n"
         "  { .param .b32 v; call.uni (v), which, (); ld.param.b32 %r4, [v]; }\n"
         "  add.u32 %r1, %r1, %r3; st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r4;\n"
         "  ret;\n}\n";
static const char link_add[] =
    TEXT ".extern .shared .align 16 .b8 area[];\n"
         ".global .align 4 .u32 own = 30;\n"
         ".visible .global .align 4 .u32 base = 1000;\n"
         ".visible .func (.param .b32 r) add(.param .b32 x)\n{\n"
         "  .reg .b32 %r<3>; ld.param.b32 %r1, [x]; ld.global.u32 %r2, [own];\n"
         "  add.u32 %r1, %r1, %r2; st.param.b32 [r], %r1; ret;\n}\n";
static const char link_weak[] =
    TEXT ".weak .func (.param .b32 r) which() { st.param.b32 [r], 2; ret; }\n";

static int link_of(const char *const *text, int n, void *module) {
    CALL(cuLinkCreate_v2, int, unsigned, int *, void **, void *)
    CALL(cuLinkAddData_v2, int, void *, int, const void *, size_t, const char *, unsigned, int *,
         void **)
    CALL(cuLinkComplete, int, void *, void *, size_t *)
    CALL(cuLinkDestroy, int, void *)
    CALL(cuModuleLoadData, int, void *, const void *)
    void *link = NULL, *image = NULL;
    size_t bytes = 0;
    CHECK(!cuLinkCreate_v2(0, NULL, NULL, &link), "linker");
    for (int k = 0; k < n; k++)
        CHECK(!cuLinkAddData_v2(link, 1, text[k], strlen(text[k]), "", 0, NULL, NULL), "input");
    int r = cuLinkComplete(link, &image, &bytes);
    if (!r)
        r = cuModuleLoadData(module, image);
    return r | cuLinkDestroy(link);
}

static void test_link(void) {
    CALL(cuModuleGetFunction, int, void *, void *, const char *)
    CALL(cuLaunchKernel, int, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         unsigned, void *, void **, void **)
    CALL(cuMemAlloc_v2, int, ptr *, size_t)
    CALL(cuMemcpyDtoH_v2, int, void *, ptr, size_t)
    const char *const orders[][3] = {{link_main, link_add, link_weak},
                                     {link_weak, link_add, link_main}};
    const char *const clash[] = {link_add, link_main, link_add};
    void *module = NULL, *fn = NULL;
    ptr p = 0;
    CHECK(!cuMemAlloc_v2(&p, 8), "memory");
    for (unsigned k = 0; k < 2; k++) {
        uint32_t h[2] = {0};
        void *args[] = {&p};
        CHECK(!link_of(orders[k], 3, &module) && !cuModuleGetFunction(&fn, module, "linked") &&
                  !cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL) &&
                  !cuMemcpyDtoH_v2(h, p, 8),
              "linked in order %u", k);
        CHECK(h[0] == 100 + 1000 + 5 + 30 && h[1] == k + 1, "order %u: %u, %u", k, h[0], h[1]);
    }
    CHECK(link_of(clash, 3, &module) == 218, "defined twice");
}

/* Memory of the program, here on the stack and at an odd address of a page. */
static void test_registered(void) {
    CALL(cuMemHostRegister_v2, int, void *, size_t, unsigned)
    CALL(cuMemHostUnregister, int, void *)
    CALL(cuMemHostGetDevicePointer_v2, int, ptr *, void *, unsigned)
    CALL(cuPointerGetAttribute, int, void *, int, ptr)
    CALL(cuCtxSynchronize, int, void)
    CALL(cuMemAllocManaged, int, ptr *, size_t, unsigned)
    uint32_t h[3000];
    unsigned type = 0, managed = 9;
    ptr d = 0, m = 0;
    for (uint32_t k = 0; k < 3000; k++)
        h[k] = k;
    CHECK(!cuMemHostRegister_v2(h + 1, 2998 * 4, 0), "register");
    CHECK(cuMemHostRegister_v2(h + 2000, 4, 0) == 712, "twice");
    CHECK(!cuMemHostGetDevicePointer_v2(&d, h + 1, 0) && d == at(h + 1), "its address");
    CHECK(!cuPointerGetAttribute(&type, 2, at(h + 7)) && type == 1, "host memory: %u", type);
    CHECK(!add1(NULL, d, d, 2000) && !cuCtxSynchronize(), "launch");
    CHECK(h[0] == 0 && h[1] == 2 && h[2000] == 2001 && h[2001] == 2001, "%u %u %u", h[1], h[2000],
          h[2001]);
    h[5] = 100; /* the host writes without a call */
    CHECK(!add1(NULL, d, d, 2000) && !cuCtxSynchronize() && h[5] == 101, "%u", h[5]);
    CHECK(!cuMemHostUnregister(h + 1) && cuMemHostUnregister(h + 1) == 713, "unregister");
    CHECK(cuPointerGetAttribute(&type, 2, at(h + 7)) == 1, "forgotten");
    CHECK(!cuMemAllocManaged(&m, 64, 1) && !cuPointerGetAttribute(&managed, 8, m) && managed == 1 &&
              !cuPointerGetAttribute(&type, 2, m) && type == 2,
          "managed %u, type %u", managed, type);
}

struct side {
    size_t x, y, z, lod;
    unsigned type;
    const void *host;
    ptr device;
    void *array, *reserved;
    size_t pitch, height;
};
static void test_copies(void) {
    CALL(cuMemAllocAsync, int, ptr *, size_t, void *)
    CALL(cuMemFreeAsync, int, ptr, void *)
    CALL(cuMemcpy3D_v2, int, const void *)
    CALL(cuMemsetD2D16_v2, int, ptr, size_t, unsigned short, size_t, size_t)
    CALL(cuMemcpyDtoH_v2, int, void *, ptr, size_t)
    uint8_t in[2 * 3 * 8], out[2 * 4 * 16];
    ptr d = 0;
    for (size_t k = 0; k < sizeof in; k++)
        in[k] = (uint8_t)k;
    CHECK(!cuMemAllocAsync(&d, sizeof out, NULL) && !cuMemsetD2D16_v2(d, 16, 0xeeee, 8, 8), "set");
    /* 2 x 2 x 5 bytes from (1, 1, 0) of 2 x 3 x 8 to (2, 1, 0) of 2 x 4 x 16 */
    const struct {
        struct side src, dst;
        size_t width, height, depth;
    } c = {{.x = 1, .y = 1, .type = 1, .host = in, .pitch = 8, .height = 3},
           {.x = 2, .y = 1, .type = 2, .device = d, .pitch = 16, .height = 4},
           5,
           2,
           2};
    CHECK(!cuMemcpy3D_v2(&c) && !cuMemcpyDtoH_v2(out, d, sizeof out), "copy");
    for (size_t k = 0; k < sizeof out; k++) {
        const size_t x = k % 16, y = k / 16 % 4, z = k / 64;
        const bool inside = x >= 2 && x < 7 && y >= 1 && y < 3;
        const unsigned want = inside ? (unsigned)(z * 24 + y * 8 + x - 1) : 0xee;
        CHECK(out[k] == want, "byte %zu is %u, not %u", k, out[k], want);
    }
    CHECK(!cuMemFreeAsync(d, NULL), "free");
}

static void test_values(void) {
    CALL(cuMemAlloc_v2, int, ptr *, size_t)
    CALL(cuStreamWriteValue32_v2, int, void *, ptr, uint32_t, unsigned)
    CALL(cuStreamWriteValue64_v2, int, void *, ptr, uint64_t, unsigned)
    CALL(cuStreamWaitValue32_v2, int, void *, ptr, uint32_t, unsigned)
    CALL(cuStreamWaitValue64_v2, int, void *, ptr, uint64_t, unsigned)
    ptr d = 0;
    CHECK(!cuMemAlloc_v2(&d, 64) && !cuStreamWriteValue32_v2(NULL, d, 7, 0) &&
              !cuStreamWriteValue64_v2(NULL, d + 8, 1ull << 40 | 1, 0),
          "write");
    CHECK(!cuStreamWaitValue32_v2(NULL, d, 7, 1) && !cuStreamWaitValue32_v2(NULL, d, 5, 0) &&
              !cuStreamWaitValue32_v2(NULL, d, 3, 2) && !cuStreamWaitValue32_v2(NULL, d, 8, 3) &&
              !cuStreamWaitValue64_v2(NULL, d + 8, 1ull << 40, 2),
          "what holds");
    CHECK(cuStreamWaitValue32_v2(NULL, d + 2, 8, 0) == 1, "misaligned");
}

/* A waits for the value 1 that B writes later, C for A's event; the program writes what B waits
 * for.  d = 0; C: d = d + 1, A: d = 5. */
static void test_waiting(void) {
    CALL(cuStreamCreate, int, void *, unsigned)
    CALL(cuStreamDestroy_v2, int, void *)
    CALL(cuStreamQuery, int, void *)
    CALL(cuStreamSynchronize, int, void *)
    CALL(cuCtxSynchronize, int, void)
    CALL(cuEventCreate, int, void *, unsigned)
    CALL(cuEventDestroy_v2, int, void *)
    CALL(cuEventRecord, int, void *, void *)
    CALL(cuEventQuery, int, void *)
    CALL(cuEventSynchronize, int, void *)
    CALL(cuStreamWaitEvent, int, void *, void *, unsigned)
    CALL(cuStreamWriteValue32_v2, int, void *, ptr, uint32_t, unsigned)
    CALL(cuStreamWaitValue32_v2, int, void *, ptr, uint32_t, unsigned)
    CALL(cuMemsetD32Async, int, ptr, unsigned, size_t, void *)
    CALL(cuMemHostAlloc, int, void *, size_t, unsigned)
    CALL(cuMemFreeHost, int, void *)
    void *a = NULL, *b = NULL, *c = NULL, *e = NULL, *blocking = NULL;
    uint32_t *h = NULL;
    CHECK(!cuMemHostAlloc(&h, 16, 0) && !cuStreamCreate(&a, 1) && !cuStreamCreate(&b, 1) &&
              !cuStreamCreate(&c, 1) && !cuStreamCreate(&blocking, 0) && !cuEventCreate(&e, 0),
          "streams");
    memset(h, 0, 16);
    CHECK(!cuStreamWaitValue32_v2(a, at(h), 1, 1) && !cuMemsetD32Async(at(h + 1), 5, 1, a) &&
              !cuEventRecord(e, a),
          "A waits");
    CHECK(!cuStreamWaitEvent(c, e, 0) && !add1(c, at(h + 1), at(h + 1), 1), "C waits for A");
    CHECK(!cuStreamWaitValue32_v2(b, at(h + 2), 9, 1) && !cuStreamWriteValue32_v2(b, at(h), 1, 0),
          "B waits for the program");
    CHECK(cuStreamQuery(a) == 600 && cuStreamQuery(c) == 600 && cuEventQuery(e) == 600 && !h[1],
          "none is ready");
    CHECK(cuStreamSynchronize(c) == 801 && cuCtxSynchronize() == 801 &&
              cuEventSynchronize(e) == 801,
          "nobody can write it");
    h[2] = 9;
    CHECK(!cuStreamSynchronize(c) && h[0] == 1 && h[1] == 6, "all went on: %u %u", h[0], h[1]);
    CHECK(!cuEventQuery(e) && !cuStreamQuery(a) && !cuCtxSynchronize(), "ready");
    CHECK(!cuStreamWaitValue32_v2(a, at(h), 2, 1) && !cuStreamWriteValue32_v2(NULL, at(h), 2, 0) &&
              !cuStreamSynchronize(a),
          "the legacy stream does not wait for others");
    CHECK(!cuStreamWaitValue32_v2(blocking, at(h), 3, 1) &&
              cuStreamWriteValue32_v2(NULL, at(h), 3, 0) == 801 &&
              !cuStreamWriteValue32_v2(b, at(h), 3, 0) && !cuStreamSynchronize(blocking),
          "but for a blocking one");
    CHECK(!cuStreamDestroy_v2(a) && !cuStreamDestroy_v2(b) && !cuStreamDestroy_v2(c) &&
              !cuStreamDestroy_v2(blocking) && !cuEventDestroy_v2(e) && !cuMemFreeHost(h),
          "end");
}

/* Two pieces of memory side by side are one range; where only reading is allowed, a write is a
 * fault (not tried: it would end the context). */
static void test_virtual(void) {
    CALL(cuMemGetAllocationGranularity, int, size_t *, const void *, int)
    CALL(cuMemAddressReserve, int, ptr *, size_t, size_t, ptr, unsigned long long)
    CALL(cuMemCreate, int, void *, size_t, const void *, unsigned long long)
    CALL(cuMemMap, int, ptr, size_t, size_t, void *, unsigned long long)
    CALL(cuMemSetAccess, int, ptr, size_t, const void *, size_t)
    CALL(cuMemUnmap, int, ptr, size_t)
    CALL(cuMemRelease, int, void *)
    CALL(cuMemAddressFree, int, ptr, size_t)
    CALL(cuMemsetD32_v2, int, ptr, unsigned, size_t)
    CALL(cuMemcpyDtoH_v2, int, void *, ptr, size_t)
    CALL(cuMemGetAddressRange_v2, int, ptr *, size_t *, ptr)
    const int properties[8] = {1, 0, 1}, both[3] = {1, 0, 3};
    size_t g = 0, n = 0;
    ptr p = 0, base = 0;
    void *a = NULL, *b = NULL;
    uint32_t h[2] = {0};
    CHECK(!cuMemGetAllocationGranularity(&g, properties, 0) && g == 2 << 20, "%zu", g);
    CHECK(!cuMemAddressReserve(&p, 4 * g, 0, 0, 0) && !cuMemCreate(&a, g, properties, 0) &&
              !cuMemCreate(&b, g, properties, 0),
          "reserve, create");
    CHECK(!cuMemMap(p + g, g, 0, b, 0) && cuMemMap(p + g, g, 0, a, 0) == 1 &&
              !cuMemMap(p, g, 0, a, 0),
          "map");
    CHECK(cuMemsetD32_v2(p, 1, 4) == 1, "no access yet");
    CHECK(!cuMemSetAccess(p, g, both, 1) && !cuMemSetAccess(p + g, g, both, 1) &&
              cuMemSetAccess(p + 2 * g, g, both, 1) == 1,
          "access");
    CHECK(!cuMemGetAddressRange_v2(&base, &n, p + g) && base == p && n == 2 * g, "one range");
    CHECK(!cuMemsetD32_v2(p, 41, g / 2) && !add1(NULL, p + g - 128, p + g - 128, 64), "use");
    CHECK(!cuMemcpyDtoH_v2(h, p + g - 4, 8) && h[0] == 42 && h[1] == 42, "%u %u", h[0], h[1]);
    CHECK(!cuMemUnmap(p, g) && cuMemsetD32_v2(p, 1, 4) == 1 &&
              !cuMemGetAddressRange_v2(&base, &n, p + g) && base == p + g && n == g,
          "half of it unmapped");
    CHECK(!cuMemMap(p + 3 * g, g, 0, a, 0) && !cuMemSetAccess(p + 3 * g, g, both, 1) &&
              !cuMemcpyDtoH_v2(h, p + 4 * g - 4, 4) && h[0] == 42,
          "mapped elsewhere, with what it held: %u", h[0]);
    CHECK(!cuMemRelease(a) && !cuMemRelease(b) && !cuMemUnmap(p + g, g) &&
              !cuMemUnmap(p + 3 * g, g) && !cuMemAddressFree(p, 4 * g),
          "given back");
}

static void test_pools(void) {
    CALL(cuDeviceGetDefaultMemPool, int, void *, int)
    CALL(cuMemPoolCreate, int, void *, const void *)
    CALL(cuMemPoolSetAttribute, int, void *, int, const void *)
    CALL(cuMemPoolGetAttribute, int, void *, int, void *)
    CALL(cuMemPoolDestroy, int, void *)
    CALL(cuMemAllocFromPoolAsync, int, ptr *, size_t, void *, void *)
    void *pool = NULL, *own = NULL;
    const char properties[88] = {1};
    const uint64_t most = 1 << 20;
    uint64_t got = 0;
    ptr d = 0;
    CHECK(!cuDeviceGetDefaultMemPool(&pool, 0) && !cuMemPoolCreate(&own, properties) && own != pool,
          "pools");
    CHECK(!cuMemPoolSetAttribute(own, 4, &most) && !cuMemPoolGetAttribute(own, 4, &got) &&
              got == most && !cuMemPoolGetAttribute(pool, 4, &got) && got == 0,
          "each has its own threshold");
    CHECK(!cuMemAllocFromPoolAsync(&d, 100, own, NULL) && d, "memory");
    CHECK(!cuMemPoolDestroy(own) && cuMemPoolDestroy(pool) == 1, "not the device's");
}

static int give_back(void *graph, void *exec, void *stream) {
    CALL(cuGraphDestroy, int, void *)
    CALL(cuGraphExecDestroy, int, void *)
    CALL(cuStreamDestroy_v2, int, void *)
    return cuGraphDestroy(graph) | cuGraphExecDestroy(exec) | cuStreamDestroy_v2(stream);
}
/* Memory that a captured stream allocates and frees serves every launch of the graph. */
static void test_graph(void) {
    CALL(cuStreamCreate, int, void *, unsigned)
    CALL(cuStreamBeginCapture_v2, int, void *, int)
    CALL(cuStreamEndCapture, int, void *, void *)
    CALL(cuMemAlloc_v2, int, ptr *, size_t)
    CALL(cuMemAllocAsync, int, ptr *, size_t, void *)
    CALL(cuMemFreeAsync, int, ptr, void *)
    CALL(cuMemsetD32Async, int, ptr, unsigned, size_t, void *)
    CALL(cuGraphInstantiateWithParams, int, void *, void *, void *)
    CALL(cuGraphLaunch, int, void *, void *)
    CALL(cuGraphAddKernelNode_v2, int, void *, void *, const void *, size_t, const void *)
    CALL(cuMemcpyDtoH_v2, int, void *, ptr, size_t)
    CALL(cuGraphAddMemAllocNode, int, void *, void *, const void *, size_t, void *)
    CALL(cuGraphAddMemFreeNode, int, void *, void *, const void *, size_t, ptr)
    CALL(cuGraphNodeGetType, int, void *, int *)
    void *s = NULL, *g = NULL, *x = NULL, *node = NULL;
    ptr d = 0, t = 0;
    uint32_t h = 0, n = 1;
    struct {
        unsigned long long flags;
        void *upload, *bad;
        int result;
    } how = {0, NULL, &h, 9};
    CHECK(!cuStreamCreate(&s, 1) && !cuMemAlloc_v2(&d, 4) && !cuStreamBeginCapture_v2(s, 0),
          "capture");
    CHECK(!cuMemAllocAsync(&t, 4, s) && !cuMemsetD32Async(t, 5, 1, s) && !add1(s, d, t, 1) &&
              !cuMemFreeAsync(t, s) && !cuStreamEndCapture(s, &g),
          "captured");
    void *args[] = {&d, &d, &n};
    const struct {
        void *fn;
        unsigned grid[3], block[3], smem;
        void **params, **extra;
        void *kernel, *context;
    } again = {NULL, {1, 1, 1}, {32, 1, 1}, 0, args, NULL, kernel, NULL};
    CHECK(!cuGraphAddKernelNode_v2(&node, g, NULL, 0, &again) && node, "a node");
    struct {
        char pool[88];
        const void *access;
        size_t naccess, bytes;
        ptr memory;
    } alloc = {.bytes = 64};
    int type = 0;
    CHECK(!cuGraphAddMemAllocNode(&node, g, NULL, 0, &alloc) && alloc.memory &&
              !cuGraphNodeGetType(node, &type) && type == 10,
          "memory node: type %d", type);
    CHECK(!cuGraphAddMemFreeNode(&node, g, &node, 1, alloc.memory) &&
              !cuGraphNodeGetType(node, &type) && type == 11,
          "its end: type %d", type);
    CHECK(!cuGraphInstantiateWithParams(&x, g, &how) && how.result == 0 && !how.bad, "instantiate");
    for (int k = 0; k < 2; k++)
        CHECK(!cuGraphLaunch(x, s) && !cuMemcpyDtoH_v2(&h, d, 4) && h == 7, "launch %d: %u", k, h);
    CHECK(!give_back(g, x, s), "given back");
}

/* A program of an older CUDA gets the call whose arguments it knows. */
static void test_versions(void) {
    CALL(cuGetProcAddress_v2, int, const char *, void *, int, uint64_t, int *)
    void *old = NULL, *now = NULL;
    int status = 9;
    CHECK(!cuGetProcAddress_v2("cuStreamGetCaptureInfo", &old, 11030, 0, &status) && !status &&
              old == dlsym(lib, "cuStreamGetCaptureInfo_v2"),
          "without edges");
    CHECK(!cuGetProcAddress_v2("cuStreamGetCaptureInfo", &now, 13000, 0, &status) &&
              now == dlsym(lib, "cuStreamGetCaptureInfo_v3"),
          "with edges");
    CHECK(!cuGetProcAddress_v2("cuMemPrefetchAsync", &old, 12080, 0, &status) &&
              old == dlsym(lib, "cuMemPrefetchAsync"),
          "a device");
}

int main(int argc, char **argv) {
    if (!unit_library(argc, argv))
        return 1;
    start();
    test_link();
    test_registered();
    test_copies();
    test_values();
    test_waiting();
    test_virtual();
    test_pools();
    test_graph();
    test_versions();
    return unit_end();
}
