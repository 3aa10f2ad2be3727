/* cuda_graph.c: graphs of libcuda-emu.so, captured or built node by node.
 *
 * A graph here is a list of operations in an order that its edges allow (cuda_graph_order.c).
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <stdlib.h>

static bool real(const struct cu_stream *s) {
    return (uintptr_t)s > 2;
} /* 0, 1, 2: default streams */

enum { TYPE_EMPTY = 5, TYPE_ALLOC = 10, TYPE_FREE = 11 }; /* CUgraphNodeType; in cu_op.value */

/* --- Capture --- */

CU_API cu_result cuGraphCreate(struct cu_graph **g, unsigned flags) {
    if (!g || flags)
        return CUE_ERROR_INVALID_VALUE;
    *g = calloc(1, sizeof **g);
    if (*g)
        cu_handle_add(*g, CU_GRAPH);
    return *g ? CUE_SUCCESS : CUE_ERROR_OUT_OF_MEMORY;
}
CU_API cu_result cuStreamBeginCapture_v2(struct cu_stream *s, int mode) {
    if (!real(s))
        return CUE_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the legacy stream cannot be captured */
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    if (s->capture || mode < 0 || mode > 2)
        return CUE_ERROR_INVALID_VALUE;
    s->origin = true;
    return cuGraphCreate(&s->capture, 0);
}
CU_API cu_result cuStreamBeginCapture(struct cu_stream *s) {
    return cuStreamBeginCapture_v2(s, 0);
}
cu_result cuGraphDestroy(struct cu_graph *g);
CU_API cu_result cuStreamEndCapture(struct cu_stream *s, struct cu_graph **g) {
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    if (!real(s) || !s->capture || (!g && !s->given))
        return CUE_ERROR_INVALID_VALUE;
    if (!s->origin)
        return CUE_ERROR_STREAM_CAPTURE_UNMATCHED;
    struct cu_graph *made = s->capture;
    const bool given = s->given;
    cu_result r = cu_capture_ends(s, made);
    r = made->invalid ? CUE_ERROR_STREAM_CAPTURE_INVALIDATED : r;
    made->invalid = false;
    if (r && !given)
        cuGraphDestroy(made);
    if (g)
        *g = r ? NULL : made;
    return r;
}
CU_API cu_result cuStreamIsCapturing(struct cu_stream *s, int *state) {
    if (!state)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    *state = !real(s) || !s->capture ? 0 : s->capture->invalid ? 2 : 1;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamGetCaptureInfo_v2(struct cu_stream *s, int *state, uint64_t *id,
                                           struct cu_graph **g, const void **deps, size_t *ndeps) {
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    bool on = real(s) && s->capture;
    if (state)
        *state = on;
    if (id)
        *id = on ? (uint64_t)(uintptr_t)s->capture : 0;
    if (g)
        *g = on ? s->capture : NULL;
    if (deps)
        *deps = on && s->capture->captured ? &s->capture->captured : NULL;
    if (ndeps)
        *ndeps = on && s->capture->captured;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamGetCaptureInfo_v3(struct cu_stream *s, int *state, uint64_t *id,
                                           struct cu_graph **g, const void **deps,
                                           const void **edges, size_t *ndeps) {
    if (edges)
        *edges = NULL;
    return cuStreamGetCaptureInfo_v2(s, state, id, g, deps, ndeps);
}
CU_API cu_result cuThreadExchangeStreamCaptureMode(int *mode) {
    (void)mode;
    return CUE_SUCCESS;
}
CU_API cu_result cuGraphDestroy(struct cu_graph *g) {
    if (!cu_handle_drop(g, CU_GRAPH))
        return CUE_ERROR_INVALID_VALUE;
    cu_graph_free(g);
    return CUE_SUCCESS;
}
CU_API cu_result cuGraphInstantiateWithFlags(struct cu_graph **exec, struct cu_graph *g,
                                             unsigned long long flags) {
    (void)flags;
    if (!exec || !cu_handle_is(g, CU_GRAPH))
        return CUE_ERROR_INVALID_VALUE;
    *exec = cu_graph_copy(g);
    cu_handle_add(*exec, CU_GRAPH);
    return CUE_SUCCESS;
}
CU_API cu_result cuGraphInstantiate(struct cu_graph **exec, struct cu_graph *g,
                                    unsigned long long flags) {
    return cuGraphInstantiateWithFlags(exec, g, flags);
}
struct instantiate {
    unsigned long long flags;
    struct cu_stream *upload;
    struct cu_op *bad;
    int result;
};
CU_API cu_result cuGraphInstantiateWithParams(struct cu_graph **exec, struct cu_graph *g,
                                              struct instantiate *p) {
    if (!p)
        return CUE_ERROR_INVALID_VALUE;
    p->bad = NULL;
    p->result = 0;
    return cuGraphInstantiateWithFlags(exec, g, p->flags);
}
CU_API cu_result cuGraphExecDestroy(struct cu_graph *g) {
    return cuGraphDestroy(g);
}
CU_API cu_result cuGraphUpload(struct cu_graph *g, struct cu_stream *s) {
    (void)s;
    return g ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}
static cu_result submit_all(struct cu_stream *s, const struct cu_graph *g) {
    cu_result r = CUE_SUCCESS;
    for (struct cu_op *o = g->first; o && !r; o = o->next) {
        struct cu_op op = *o;
        op.entry = NULL;
        if (o == g->first)
            op.launch.pdl = false; /* no edge from what ran before the graph */
        r = cu_submit(s, &op);
    }
    return r;
}
cu_result cu_run_graph(const struct cu_graph *g) {
    return submit_all(NULL, g);
}
CU_API cu_result cuGraphLaunch(struct cu_graph *g, struct cu_stream *s) {
    if (!cu_handle_is(g, CU_GRAPH))
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_stream_takes(s);
    if (!r && real(s) && s->capture)
        cu_conditions_join(s->capture, g);
    else if (!r)
        r = cu_conditions_reset(g);
    r = r ? r : submit_all(s, g);
    cu_unlock();
    return r;
}
CU_API cu_result cuGraphExecUpdate_v2(struct cu_graph *exec, struct cu_graph *g, void *info) {
    (void)info;
    struct cu_graph *fresh;
    if (!cu_handle_is(exec, CU_GRAPH) || !cu_handle_is(g, CU_GRAPH) || exec->count != g->count)
        return 910;
    cu_result r = cuGraphInstantiateWithFlags(&fresh, g, 0);
    if (r)
        return r;
    struct cu_graph old = *exec;
    *exec = *fresh;
    *fresh = old;
    cu_graph_free(fresh);
    return CUE_SUCCESS;
}
CU_API cu_result cuGraphGetNodes(struct cu_graph *g, void **nodes, size_t *n) {
    if (!g || !n)
        return CUE_ERROR_INVALID_VALUE;
    size_t k = 0;
    for (struct cu_op *o = g->first; o && nodes && k < *n; o = o->next)
        nodes[k++] = o;
    *n = nodes ? k : g->count;
    return CUE_SUCCESS;
}
CU_API cu_result cuGraphNodeGetType(struct cu_op *node, int *type) {
    if (!node || !type)
        return CUE_ERROR_INVALID_VALUE;
    static const int types[] = {[CUOP_KERNEL] = 0, [CUOP_COPY] = 1,  [CUOP_SET] = 2,
                                [CUOP_HOST] = 3,   [CUOP_WAIT] = 12, [CUOP_CONDITIONAL] = 13};
    *type = node->kind == CUOP_HOST && !node->host ? (int)(node->value ? node->value : TYPE_EMPTY)
                                                   : types[node->kind];
    return CUE_SUCCESS;
}

/* --- Nodes --- */

struct kernel_node { /* CUDA_KERNEL_NODE_PARAMS; fn of version 2 may be in kernel */
    struct cu_kernel *fn;
    unsigned grid[3], block[3], smem;
    void **params, **extra;
};
struct kernel_node_2 {
    struct kernel_node old;
    struct cu_kernel *kernel;
    struct cu_context *context;
};
struct memset_node {
    cu_ptr dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
};
struct host_node {
    void (*fn)(void *);
    void *data;
};

/* A stream that gives what it is asked to g, as a capturing one does. */
static struct cu_stream *into(struct cu_graph *g) {
    struct cu_stream *s = cu_adding();
    *s = (struct cu_stream){.capture = g, .nodes = true};
    return s;
}
static cu_result added(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps, size_t n,
                       cu_result r) {
    struct cu_op *made = g->last;
    for (size_t k = 0; k < n && !r; k++)
        r = cu_graph_edge(g, deps[k], made);
    if (!r && node) /* may be one of deps */
        *node = made;
    return r;
}
static cu_result add_op(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                        size_t n, const struct cu_op *op) {
    struct cu_stream *s = into(g);
    cu_lock();
    cu_result r = cu_submit(s, op);
    cu_unlock();
    return added(node, g, deps, n, r);
}

cu_result cuLaunchKernelEx(const struct cu_config *c, struct cu_kernel *k, void **params,
                           void **extra);
static cu_result add_kernel(struct cu_graph *g, const struct kernel_node *n,
                            struct cu_kernel *kernel) {
    struct cu_stream *s = into(g);
    const struct cu_config c = {.grid = {n->grid[0], n->grid[1], n->grid[2]},
                                .block = {n->block[0], n->block[1], n->block[2]},
                                .smem = n->smem,
                                .stream = s};
    return cuLaunchKernelEx(&c, n->fn ? n->fn : kernel, n->params, n->extra);
}
CU_API cu_result cuGraphAddKernelNode(struct cu_op **node, struct cu_graph *g,
                                      struct cu_op *const *deps, size_t n,
                                      const struct kernel_node *what) {
    return g && what ? added(node, g, deps, n, add_kernel(g, what, NULL)) : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuGraphAddKernelNode_v2(struct cu_op **node, struct cu_graph *g,
                                         struct cu_op *const *deps, size_t n,
                                         const struct kernel_node_2 *what) {
    return g && what ? added(node, g, deps, n, add_kernel(g, &what->old, what->kernel))
                     : CUE_ERROR_INVALID_VALUE;
}
cu_result cuMemcpy3DAsync_v2(const struct cu_memcpy3d *c, struct cu_stream *s);
CU_API cu_result cuGraphAddMemcpyNode(struct cu_op **node, struct cu_graph *g,
                                      struct cu_op *const *deps, size_t n,
                                      const struct cu_memcpy3d *what, struct cu_context *c) {
    (void)c;
    if (!g || !what)
        return CUE_ERROR_INVALID_VALUE;
    if (what->depth > 1)
        return CUE_ERROR_NOT_SUPPORTED; /* it would be several nodes */
    struct cu_stream *s = into(g);
    return added(node, g, deps, n, cuMemcpy3DAsync_v2(what, s));
}
CU_API cu_result cuGraphAddMemsetNode(struct cu_op **node, struct cu_graph *g,
                                      struct cu_op *const *deps, size_t n,
                                      const struct memset_node *what, struct cu_context *c) {
    (void)c;
    if (!g || !what || (what->element != 1 && what->element != 2 && what->element != 4))
        return CUE_ERROR_INVALID_VALUE;
    return add_op(node, g, deps, n,
                  &(struct cu_op){.kind = CUOP_SET,
                                  .dst = what->dst,
                                  .width = what->width,
                                  .height = what->height ? what->height : 1,
                                  .dst_pitch = what->pitch,
                                  .value = what->value,
                                  .element = what->element});
}
CU_API cu_result cuGraphAddHostNode(struct cu_op **node, struct cu_graph *g,
                                    struct cu_op *const *deps, size_t n,
                                    const struct host_node *what) {
    if (!g || !what || !what->fn)
        return CUE_ERROR_INVALID_VALUE;
    return add_op(node, g, deps, n,
                  &(struct cu_op){.kind = CUOP_HOST, .host = what->fn, .data = what->data});
}
CU_API cu_result cuGraphAddEmptyNode(struct cu_op **node, struct cu_graph *g,
                                     struct cu_op *const *deps, size_t n) {
    return g ? add_op(node, g, deps, n, &(struct cu_op){.kind = CUOP_HOST})
             : CUE_ERROR_INVALID_VALUE;
}
static const struct cu_op nothing = {.kind = CUOP_HOST};
CU_API cu_result cuGraphAddChildGraphNode(struct cu_op **node, struct cu_graph *g,
                                          struct cu_op *const *deps, size_t n,
                                          struct cu_graph *child) {
    struct cu_stream *s = into(g);
    if (!g || !child)
        return CUE_ERROR_INVALID_VALUE;
    struct cu_op *last = g->last;
    cu_result r = child->first ? cuGraphLaunch(child, s) : add_op(NULL, g, NULL, 0, &nothing);
    struct cu_op *first = last ? last->next : g->first;
    for (struct cu_op *o = first; o && o->next && !r; o = o->next)
        r = cu_graph_edge(g, o, o->next);
    if (!r)
        g->last->entry = first;
    return added(node, g, deps, n, r);
}
struct alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS */
    char pool[88];
    const void *access;
    size_t naccess, bytes;
    cu_ptr memory;
};

cu_result cuMemAlloc_v2(cu_ptr *p, size_t bytes);
/* Memory of a graph is there from now on, and stays: see cuMemFreeAsync. */
CU_API cu_result cuGraphAddMemAllocNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n,
                                        struct alloc_node *what) {
    cu_result r = g && what ? cuMemAlloc_v2(&what->memory, what->bytes) : CUE_ERROR_INVALID_VALUE;
    return r ? r
             : add_op(node, g, deps, n, &(struct cu_op){.kind = CUOP_HOST, .value = TYPE_ALLOC});
}
CU_API cu_result cuGraphAddMemFreeNode(struct cu_op **node, struct cu_graph *g,
                                       struct cu_op *const *deps, size_t n, cu_ptr memory) {
    return g && memory
               ? add_op(node, g, deps, n, &(struct cu_op){.kind = CUOP_HOST, .value = TYPE_FREE})
               : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuDeviceGraphMemTrim(cu_device d) {
    return d ? CUE_ERROR_INVALID_DEVICE : CUE_SUCCESS;
}
CU_API cu_result cuGraphClone(struct cu_graph **to, struct cu_graph *from) {
    return cuGraphInstantiateWithFlags(to, from, 0);
}

/* --- Changed parameters --- */

static struct cu_op *node_of(struct cu_graph *exec, const struct cu_op *node) {
    for (struct cu_op *o = exec ? exec->first : NULL; o; o = o->next)
        if (o == node || o->origin == node)
            return o;
    return NULL;
}
static cu_result set_kernel(struct cu_op *o, const struct kernel_node *what,
                            struct cu_kernel *kernel) {
    struct cu_graph one = {0};
    if (!o || !what || o->kind != CUOP_KERNEL)
        return CUE_ERROR_INVALID_VALUE;
    cu_result r = add_kernel(&one, what, kernel);
    if (!r) { /* the new launch goes into the old node, the old one with the list of one */
        const struct emu_launch old = o->launch;
        o->launch = one.first->launch;
        one.first->launch = old;
        cu_op_free(one.first);
    }
    return r;
}
CU_API cu_result cuGraphExecKernelNodeSetParams(struct cu_graph *exec, struct cu_op *node,
                                                const struct kernel_node *what) {
    return set_kernel(node_of(exec, node), what, NULL);
}
CU_API cu_result cuGraphExecKernelNodeSetParams_v2(struct cu_graph *exec, struct cu_op *node,
                                                   const struct kernel_node_2 *what) {
    return what ? set_kernel(node_of(exec, node), &what->old, what->kernel)
                : CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuGraphKernelNodeSetParams(struct cu_op *node, const struct kernel_node *what) {
    return set_kernel(node, what, NULL);
}
CU_API cu_result cuGraphKernelNodeSetParams_v2(struct cu_op *node,
                                               const struct kernel_node_2 *what) {
    return what ? set_kernel(node, &what->old, what->kernel) : CUE_ERROR_INVALID_VALUE;
}
