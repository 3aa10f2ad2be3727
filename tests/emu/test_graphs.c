/* test_graphs.c: the order that the edges of a graph ask for, and its conditional nodes.
 *
 * Nodes write their digit behind what is there: d = 10 d + digit, so that the result is the order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit_calls.h"

typedef uint64_t ptr;

static const char ptx[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry digit(.param .u64 d, .param .u32 v)\n{\n"
    "  .reg .b32 %r<3>; .reg .b64 %rd<2>;\n"
    "  ld.param.u64 %rd1, [d]; ld.param.u32 %r1, [v];\n"
    "  ld.global.u32 %r2, [%rd1]; mad.lo.u32 %r2, %r2, 10, %r1; st.global.u32 [%rd1], %r2;\n"
    "  ret;\n}\n"
    /* the value of the condition is --*count */
    ".visible .entry down(.param .u64 count, .param .u64 handle)\n{\n"
    "  .reg .b32 %r<3>; .reg .b64 %rd<3>;\n"
    "  ld.param.u64 %rd1, [count]; ld.param.u64 %rd2, [handle];\n"
    "  ld.global.u32 %r1, [%rd1]; sub.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;\n"
    "  { .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd2; st.param.b32 [p1], %r1;\n"
    "    call.uni cudaGraphSetConditional, (p0, p1); }\n"
    "  ret;\n}\n";

static void *digit, *down;
static ptr d, count;

struct kernel {
    void *fn;
    unsigned grid[3], block[3], smem;
    void **params, **extra;
    void *kernel, *context;
};
struct params { /* CUgraphNodeParams */
    int type, reserved[3];
    union {
        long long all[29];
        struct kernel kernel;
        void *child;
        struct {
            uint64_t handle;
            unsigned type, size;
            void **bodies, *context;
        } cond;
    };
    long long reserved2;
};
enum { KERNEL, CHILD = 4, EMPTY = 5, CONDITIONAL = 13 };
enum { IF, WHILE, SWITCH };

static void start(void) {
    CALL(cuInit, int, unsigned)
    CALL(cuDevicePrimaryCtxRetain, int, void *, int)
    CALL(cuCtxSetCurrent, int, void *)
    CALL(cuModuleLoadData, int, void *, const void *)
    CALL(cuModuleGetFunction, int, void *, void *, const char *)
    CALL(cuMemAlloc_v2, int, ptr *, size_t)
    void *context = NULL, *module = NULL;
    CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context) &&
              !cuModuleLoadData(&module, ptx) && !cuModuleGetFunction(&digit, module, "digit") &&
              !cuModuleGetFunction(&down, module, "down") && !cuMemAlloc_v2(&d, 4) &&
              !cuMemAlloc_v2(&count, 4),
          "start");
}

static void *new_graph(void) {
    CALL(cuGraphCreate, int, void *, unsigned)
    void *g = NULL;
    CHECK(!cuGraphCreate(&g, 0) && g, "graph");
    return g;
}
static void *add(void *g, void *after, struct params *p) {
    CALL(cuGraphAddNode_v2, int, void *, void *, const void *, const void *, size_t, void *)
    void *node = NULL;
    CHECK(!cuGraphAddNode_v2(&node, g, &after, NULL, after != NULL, p) && node, "node of type %d",
          p->type);
    return node;
}
static void *add_kernel(void *g, void *after, void *fn, void **args) {
    struct params p = {.type = KERNEL, .kernel = {fn, {1, 1, 1}, {1, 1, 1}, 0, args, NULL, 0, 0}};
    return add(g, after, &p);
}
static void *add_digit(void *g, void *after, unsigned v) {
    void *args[] = {&d, &v};
    return add_kernel(g, after, digit, args);
}
static void *add_down(void *g, void *after, uint64_t handle) {
    void *args[] = {&count, &handle};
    return add_kernel(g, after, down, args);
}
static int edge(void *g, void *from, void *to) {
    CALL(cuGraphAddDependencies_v2, int, void *, const void *, const void *, const void *, size_t)
    return cuGraphAddDependencies_v2(g, &from, &to, NULL, 1);
}

/* The digits of one launch with `n` in count; what the graph was copied to is given back. */
static unsigned order(void *g, unsigned n, int launches) {
    CALL(cuMemsetD32_v2, int, ptr, unsigned, size_t)
    CALL(cuMemcpyDtoH_v2, int, void *, ptr, size_t)
    CALL(cuGraphInstantiateWithFlags, int, void *, void *, unsigned long long)
    CALL(cuGraphLaunch, int, void *, void *)
    CALL(cuGraphExecDestroy, int, void *)
    void *x = NULL;
    unsigned h = 0;
    CHECK(!cuMemsetD32_v2(d, 0, 1) && !cuGraphInstantiateWithFlags(&x, g, 0), "instantiate");
    for (int k = 0; k < launches; k++)
        CHECK(!cuMemsetD32_v2(count, n, 1) && !cuGraphLaunch(x, NULL), "launch");
    CHECK(!cuMemcpyDtoH_v2(&h, d, 4) && !cuGraphExecDestroy(x), "result");
    return h;
}
static void end_graph(void *g) {
    CALL(cuGraphDestroy, int, void *)
    CHECK(!cuGraphDestroy(g), "end");
}

static void test_order(void) {
    CALL(cuGraphRemoveDependencies_v2, int, void *, const void *, const void *, const void *,
         size_t)
    CALL(cuGraphClone, int, void *, void *)
    void *g = new_graph(), *n[5], *copy = NULL;
    for (unsigned k = 0; k < 4; k++)
        n[k] = add_digit(g, NULL, k + 1);
    CHECK(order(g, 0, 1) == 1234, "without edges: as added");
    CHECK(!edge(g, n[3], n[0]) && !edge(g, n[0], n[2]), "edges back and forth");
    CHECK(order(g, 0, 1) == 2413, "%u", order(g, 0, 1));
    CHECK(edge(g, n[2], n[3]) == 1 && edge(g, n[1], n[1]) == 1 && order(g, 0, 1) == 2413,
          "a circle changes nothing");
    CHECK(!cuGraphClone(&copy, g) && order(copy, 0, 1) == 2413, "a copy");
    CHECK(!cuGraphRemoveDependencies_v2(g, &n[3], &n[0], NULL, 1) && !edge(g, n[2], n[3]) &&
              order(g, 0, 1) == 2134,
          "one edge less: %u", order(g, 0, 1));
    CHECK(cuGraphRemoveDependencies_v2(g, &n[3], &n[0], NULL, 1) == 1, "it is gone");
    struct params child = {.type = CHILD, .child = copy};
    n[4] = add(g, NULL, &child);
    CHECK(order(g, 0, 1) == 21342413, "a child graph: %u", order(g, 0, 1));
    CHECK(!edge(g, n[4], n[1]) && order(g, 0, 1) == 13424132, "before the rest: %u",
          order(g, 0, 1));
    end_graph(copy);
    end_graph(g);
    g = new_graph();
    copy = new_graph();
    add_digit(copy, add_digit(copy, NULL, 7), 8);
    child.child = copy;
    n[0] = add(g, NULL, &child);
    n[1] = add_digit(g, NULL, 1);
    CHECK(!edge(g, n[1], n[0]) && order(g, 0, 1) == 178, "all of a child waits: %u",
          order(g, 0, 1));
    end_graph(copy);
    end_graph(g);
}

static uint64_t handle_of(void *g, unsigned value, unsigned flags) {
    CALL(cuGraphConditionalHandleCreate, int, uint64_t *, void *, void *, unsigned, unsigned)
    uint64_t h = 0;
    CHECK(!cuGraphConditionalHandleCreate(&h, g, NULL, value, flags) && h, "handle");
    return h;
}
static void *add_cond(void *g, void *after, uint64_t handle, unsigned type, unsigned size,
                      void ***bodies) {
    struct params p = {.type = CONDITIONAL, .cond = {handle, type, size, NULL, NULL}};
    void *node = add(g, after, &p);
    *bodies = p.cond.bodies;
    return node;
}

static void test_conditions(void) {
    CALL(cuGraphNodeGetType, int, void *, int *)
    void **body, *g = new_graph();
    int type = 0;
    uint64_t h = handle_of(g, 1, 1);
    void *loop = add_cond(g, add_digit(g, NULL, 1), h, WHILE, 1, &body);
    add_digit(g, loop, 3);
    add_down(body[0], add_digit(body[0], NULL, 2), h);
    CHECK(!cuGraphNodeGetType(loop, &type) && type == CONDITIONAL, "type %d", type);
    CHECK(order(g, 3, 2) == 1222312223u % (1ull << 32), "while, twice from its default: %u",
          order(g, 3, 2));
    end_graph(g);
    for (unsigned size = 1; size <= 2; size++)
        for (unsigned v = 0; v < 3; v++) {
            g = new_graph();
            h = handle_of(g, 5, 0);
            add_digit(g, add_cond(g, add_down(g, NULL, h), h, IF, size, &body), 9);
            for (unsigned k = 0; k < size; k++)
                add_digit(body[k], NULL, k + 1);
            const unsigned want = v ? 19 : size == 2 ? 29 : 9;
            CHECK(order(g, v + 1, 1) == want, "if %u of %u bodies", v, size);
            end_graph(g);
        }
    for (unsigned v = 0; v < 4; v++) {
        g = new_graph();
        h = handle_of(g, 0, 0);
        add_digit(g, add_cond(g, add_down(g, NULL, h), h, SWITCH, 3, &body), 9);
        for (unsigned k = 0; k < 3; k++)
            add_digit(body[k], NULL, k + 1);
        CHECK(order(g, v + 1, 1) == (v < 3 ? v * 10 + 19 : 9), "switch %u", v);
        end_graph(g);
    }
}

/* A loop whose body is captured and has an `if`: three rounds, the last without it. */
static void test_capture(void) {
    CALL(cuStreamCreate, int, void *, unsigned)
    CALL(cuStreamDestroy_v2, int, void *)
    CALL(cuStreamBeginCaptureToGraph, int, void *, void *, const void *, const void *, size_t, int)
    CALL(cuStreamGetCaptureInfo_v3, int, void *, int *, uint64_t *, void *, void *, void *,
         size_t *)
    CALL(cuStreamUpdateCaptureDependencies_v2, int, void *, const void *, const void *, size_t,
         unsigned)
    CALL(cuStreamEndCapture, int, void *, void *)
    CALL(cuLaunchKernel, int, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         unsigned, void *, void **, void **)
    void *g = new_graph(), *s = NULL, *to = NULL, **deps = NULL, *node, **body, **inner;
    int state = 0;
    size_t n = 9;
    unsigned four = 4;
    const uint64_t h = handle_of(g, 1, 1);
    void *args[] = {&count, (void *)(uintptr_t)&h}, *last[] = {&d, &four};
    add_cond(g, NULL, h, WHILE, 1, &body);
    CHECK(!cuStreamCreate(&s, 1) && !cuStreamBeginCaptureToGraph(s, body[0], NULL, NULL, 0, 0),
          "capture");
    CHECK(!cuStreamGetCaptureInfo_v3(s, &state, NULL, &to, &deps, NULL, &n) && state == 1 &&
              to == body[0] && n == 0,
          "into the body");
    CHECK(!cuLaunchKernel(down, 1, 1, 1, 1, 1, 1, 0, s, args, NULL), "launch");
    CHECK(!cuStreamGetCaptureInfo_v3(s, &state, NULL, &to, &deps, NULL, &n) && n == 1, "%zu", n);
    node = add_cond(to, deps[0], h, IF, 1, &inner);
    add_digit(inner[0], NULL, 3);
    CHECK(!cuStreamUpdateCaptureDependencies_v2(s, &node, NULL, 1, 1), "goes on after it");
    CHECK(!cuLaunchKernel(digit, 1, 1, 1, 1, 1, 1, 0, s, last, NULL), "launch");
    CHECK(!cuStreamEndCapture(s, NULL) && !cuStreamDestroy_v2(s), "end of capture");
    CHECK(order(g, 3, 1) == 34344, "%u", order(g, 3, 1));
    end_graph(g);
}

int main(int argc, char **argv) {
    if (!unit_library(argc, argv))
        return 1;
    start();
    test_order();
    test_conditions();
    test_capture();
    return unit_end();
}
