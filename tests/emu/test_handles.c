/* test_handles.c: wrong handles, sizes and orders of calls are answered by the codes that CUDA
 * documents, and never followed: the program goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit_calls.h"

typedef uintptr_t word;
typedef int (*call)(word, word, word, word, word, word);

static const char ptx[] = ".version 9.0\n.target sm_90\n.address_size 64\n"
                          ".visible .global .align 4 .u32 g[4];\n"
                          ".visible .entry nothing() { ret; }\n";
static void *kernel, *module;
static char room[256]; /* somewhere to write to */
#define ROOM ((word)room)

/* A call by name.  Every argument of those here is an integer or a pointer: they travel alike. */
static int named(const char *name, word a, word b, word c, word d, word e, word f) {
    call fn;
    void *p = dlsym(lib, name);
    CHECK(p != NULL, "%s is not exported", name);
    memcpy(&fn, &p, sizeof fn);
    return fn(a, b, c, d, e, f);
}

/* What W stands for is no handle: an address that nothing lies at, one of the program's memory, and
 * one that was freed. */
enum { W = 1 };
static const struct wrong {
    const char *name;
    word arg[6];
    int handle; /* which argument */
    int code;
} wrong[] = {
    {"cuStreamDestroy_v2", {W}, 0, 400},
    {"cuStreamSynchronize", {W}, 0, 400},
    {"cuStreamQuery", {W}, 0, 400},
    {"cuStreamBeginCapture_v2", {W, 0}, 0, 400},
    {"cuStreamIsCapturing", {W, 2}, 0, 400},
    {"cuStreamGetFlags", {W, 2}, 0, 400},
    {"cuStreamGetPriority", {W, 2}, 0, 400},
    {"cuEventDestroy_v2", {W}, 0, 400},
    {"cuEventQuery", {W}, 0, 400},
    {"cuEventSynchronize", {W}, 0, 400},
    {"cuEventRecord", {W, 0}, 0, 400},
    {"cuEventElapsedTime", {2, W, W}, 1, 400},
    {"cuStreamWaitEvent", {0, W, 0}, 1, 400},
    {"cuModuleUnload", {W}, 0, 400},
    {"cuModuleGetFunction", {2, W, 2}, 1, 400},
    {"cuModuleGetGlobal_v2", {2, 2, W, 2}, 2, 400},
    {"cuLibraryGetKernel", {2, W, 2}, 1, 400},
    {"cuLibraryGetModule", {2, W}, 1, 400},
    {"cuKernelGetFunction", {2, W}, 1, 400},
    {"cuFuncGetModule", {2, W}, 1, 400},
    {"cuFuncGetName", {2, W}, 1, 400},
    {"cuFuncGetAttribute", {2, 0, W}, 2, 400},
    {"cuFuncSetAttribute", {W, 8, 0}, 0, 400},
    {"cuFuncLoad", {W}, 0, 400},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", {2, W, 32, 0}, 1, 400},
    {"cuGraphDestroy", {W}, 0, 1},
    {"cuGraphExecDestroy", {W}, 0, 1},
    {"cuGraphLaunch", {W, 0}, 0, 1},
    {"cuGraphInstantiateWithFlags", {2, W, 0}, 1, 1},
    {"cuCtxDestroy_v2", {W}, 0, 201},
    {"cuCtxSetCurrent", {W}, 0, 201},
    {"cuCtxPushCurrent_v2", {W}, 0, 201},
    {"cuMemPoolDestroy", {W}, 0, 1},
    {"cuMemPoolTrimTo", {W, 0}, 0, 1},
    {"cuMemRelease", {W}, 0, 1},
    {"cuMemFree_v2", {W}, 0, 1},
    {"cuMemcpyHtoD_v2", {W, 2, 4}, 0, 1},
    {"cuMemcpyDtoH_v2", {2, W, 4}, 1, 1},
    {"cuDeviceTotalMem_v2", {0, 0}, 0, 1},
    {"cuDeviceGetUuid", {0, 0}, 0, 1},
    {"cuStreamCreate", {2, 77}, 0, 1},
    {"cuEventCreate", {2, 4}, 0, 1},
    {"cuEventCreate", {2, 256}, 0, 1},
    {"cuMemcpy2D_v2", {2}, 0, 1}, /* zeros: no kind of memory */
};

static void test_wrong(void) {
    void *freed = malloc(512);
    const word bad[] = {0x1234568, ROOM, (word)freed};
    free(freed);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        for (size_t n = 0; n < 3; n++) {
            const struct wrong *t = &wrong[k];
            word a[6];
            memset(room, 0, sizeof room);
            for (int i = 0; i < 6; i++)
                a[i] = t->arg[i] == W ? bad[n] : t->arg[i] == 2 ? ROOM : t->arg[i];
            int r = named(t->name, a[0], a[1], a[2], a[3], a[4], a[5]);
            CHECK(r == t->code, "%s with argument %d wrong (%zu): %d, not %d", t->name, t->handle,
                  n, r, t->code);
        }
}

static int launch(void *k, void *stream, unsigned block_z) {
    CALL(cuLaunchKernel, int, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         unsigned, void *, void **, void **)
    return cuLaunchKernel(k, 1, 1, 1, 1, 1, block_z, 0, stream, NULL, NULL);
}
static void test_launches(void) {
    CHECK(!launch(kernel, NULL, 64), "64 threads in z");
    CHECK(launch(kernel, NULL, 65) == 1, "65 threads in z");
    CHECK(launch(room, NULL, 1) == 400 && launch(NULL, NULL, 1) == 400, "no kernel");
    CHECK(launch(kernel, room, 1) == 400, "no stream");
    void *other = NULL, *k = NULL;
    CHECK(!named("cuModuleLoadData", (word)&other, (word)ptx, 0, 0, 0, 0) &&
              !named("cuModuleGetFunction", (word)&k, (word)other, (word) "nothing", 0, 0, 0) &&
              !named("cuModuleUnload", (word)other, 0, 0, 0, 0, 0),
          "a second module");
    CHECK(launch(k, NULL, 1) == 400, "a kernel of a module that is gone");
    CHECK(named("cuModuleUnload", (word)other, 0, 0, 0, 0, 0) == 400, "unloaded twice");
}

/* Rows past the end of an allocation are no host memory. */
static void test_rows(void) {
    struct {
        size_t src_x, src_y;
        unsigned src_type;
        const void *src_host;
        word src_device, src_array, src_pitch;
        size_t dst_x, dst_y;
        unsigned dst_type;
        void *dst_host;
        word dst_device, dst_array, dst_pitch, width, height;
    } c = {.src_type = 1, .src_host = room, .dst_type = 2, .width = 16, .height = 16};
    word p = 0;
    c.src_pitch = 16;
    c.dst_pitch = 512;
    CHECK(!named("cuMemAlloc_v2", (word)&p, 4096, 0, 0, 0, 0), "memory");
    c.dst_device = p;
    CHECK(named("cuMemcpy2D_v2", (word)&c, 0, 0, 0, 0, 0) == 1, "16 rows at a pitch of 512");
    c.height = 8;
    CHECK(!named("cuMemcpy2D_v2", (word)&c, 0, 0, 0, 0, 0), "8 rows");
    c.src_pitch = 8;
    CHECK(named("cuMemcpy2D_v2", (word)&c, 0, 0, 0, 0, 0) == 1, "a pitch below the width");
    CHECK(named("cuMemsetD2D8_v2", p, 512, 1, 16, 16, 0) == 1, "16 rows set");
    CHECK(named("cuMemcpyHtoD_v2", p, ROOM, ~(word)7, 0, 0, 0) == 1, "nearly all of memory");
    CHECK(!named("cuMemFree_v2", p, 0, 0, 0, 0, 0), "free");
}

/* --- Captures that go wrong, and what is left after one --- */

static void *make(const char *name, word flags) {
    void *p = NULL;
    CHECK(!named(name, (word)&p, flags, 0, 0, 0, 0), "%s", name);
    return p;
}
#define DO(name, ...) named(name, __VA_ARGS__)
static int begin(void *s) {
    return DO("cuStreamBeginCapture_v2", (word)s, 0, 0, 0, 0, 0);
}
static int end(void *s, void **g) {
    return DO("cuStreamEndCapture", (word)s, (word)g, 0, 0, 0, 0);
}
static int record(void *e, void *s) {
    return DO("cuEventRecord", (word)e, (word)s, 0, 0, 0, 0);
}
static int after(void *s, void *e) {
    return DO("cuStreamWaitEvent", (word)s, (word)e, 0, 0, 0, 0);
}

static void test_broken_captures(void) {
    void *s = make("cuStreamCreate", 0), *apart = make("cuStreamCreate", 1), *g = room;
    CHECK(!begin(s) && DO("cuStreamSynchronize", (word)s, 0, 0, 0, 0, 0) == 900, "synchronised");
    CHECK(launch(kernel, s, 1) == 901 && end(s, &g) == 901 && !g, "a synchronised capture ends");
    CHECK(!begin(s) && launch(kernel, NULL, 1) == 906 && end(s, &g) == 901, "the legacy stream");
    CHECK(!begin(apart) && !launch(kernel, NULL, 1) && !launch(kernel, apart, 1) &&
              !end(apart, &g) && g,
          "the legacy stream beside one that does not block");
    CHECK(!DO("cuGraphDestroy", (word)g, 0, 0, 0, 0, 0) &&
              DO("cuGraphDestroy", (word)g, 0, 0, 0, 0, 0) == 1,
          "a graph is destroyed once");
    CHECK(DO("cuStreamBeginCapture_v2", (word)s, 17, 0, 0, 0, 0) == 1, "no such mode");
    CHECK(!begin(s) && !DO("cuStreamDestroy_v2", (word)s, 0, 0, 0, 0, 0) &&
              DO("cuStreamDestroy_v2", (word)s, 0, 0, 0, 0, 0) == 400,
          "a stream goes while it captures");
    DO("cuStreamDestroy_v2", (word)apart, 0, 0, 0, 0, 0);
}

static void test_forked_captures(void) {
    void *s = make("cuStreamCreate", 1), *t = make("cuStreamCreate", 1), *g = NULL;
    void *fork = make("cuEventCreate", 2), *join = make("cuEventCreate", 2);
    int state = 9;
    CHECK(!begin(s) && !record(fork, s) && !after(t, fork) && !launch(kernel, t, 1) &&
              end(s, &g) == 904,
          "a stream that is not joined");
    CHECK(!begin(s) && !record(fork, s) && !after(t, fork) && !record(join, t) &&
              !launch(kernel, t, 1) && !after(s, join) && end(s, &g) == 904,
          "joined before its last work");
    CHECK(!begin(s) && !record(fork, s) && !after(t, fork) && !launch(kernel, t, 1) &&
              !record(join, t) && DO("cuEventQuery", (word)join, 0, 0, 0, 0, 0) == 907 &&
              end(s, &g) == 901,
          "an event of a capture is asked");
    CHECK(!begin(s) && !record(fork, s) && !after(t, fork) && !launch(kernel, t, 1) &&
              !record(join, t) && !after(s, join) && !end(s, &g),
          "joined");
    CHECK(!DO("cuStreamIsCapturing", (word)t, (word)&state, 0, 0, 0, 0) && state == 0,
          "the other stream has left the capture");
    CHECK(after(t, join) == 907 && !record(join, t) && !after(s, join),
          "an event of an ended capture");
    CHECK(!DO("cuGraphDestroy", (word)g, 0, 0, 0, 0, 0) && !launch(kernel, t, 1) &&
              !DO("cuStreamSynchronize", (word)t, 0, 0, 0, 0, 0),
          "work after the capture");
    float ms;
    CHECK(DO("cuEventElapsedTime", (word)&ms, (word)join, (word)join, 0, 0, 0) == 400,
          "an event without timing");
    CHECK(!DO("cuEventDestroy_v2", (word)fork, 0, 0, 0, 0, 0) &&
              DO("cuEventDestroy_v2", (word)fork, 0, 0, 0, 0, 0) == 400,
          "an event is destroyed once");
}

int main(int argc, char **argv) {
    void *context = NULL;
    if (!unit_library(argc, argv))
        return 1;
    CHECK(!named("cuInit", 0, 0, 0, 0, 0, 0) &&
              !named("cuDevicePrimaryCtxRetain", (word)&context, 0, 0, 0, 0, 0) &&
              !named("cuCtxSetCurrent", (word)context, 0, 0, 0, 0, 0) &&
              !named("cuModuleLoadData", (word)&module, (word)ptx, 0, 0, 0, 0) &&
              !named("cuModuleGetFunction", (word)&kernel, (word)module, (word) "nothing", 0, 0, 0),
          "start");
    test_wrong();
    test_launches();
    test_rows();
    test_broken_captures();
    test_forked_captures();
    return unit_end();
}
