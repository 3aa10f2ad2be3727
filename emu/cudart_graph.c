/* cudart_graph.c: graphs that a program builds node by node.
 *
 * A graph here is a list of operations in an order that its edges allow.  A node is added behind
 * the nodes that it depends on, since they exist already, so the order of adding is such an order;
 * an edge that is added later must agree with it, or is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <string.h>

cu_result cuLaunchKernelEx(const struct cu_config *c, struct cu_kernel *k, void **params,
                           void **extra);
cu_result cuMemcpyAsync(cu_ptr to, cu_ptr from, size_t n, struct cu_stream *s);
cu_result cuMemcpy2DAsync_v2(const struct cu_memcpy2d *c, struct cu_stream *s);
cu_result cuGraphLaunch(struct cu_graph *g, struct cu_stream *s);
cu_result cuGraphNodeGetType(struct cu_op *node, int *type);
cu_result cuGraphInstantiateWithFlags(struct cu_graph **exec, struct cu_graph *g,
                                      unsigned long long flags);

struct kernel_node {
    const void *fn;
    struct rt_dim3 grid, block;
    unsigned smem;
    void **params, **extra;
};
struct memset_node {
    void *dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
};
struct host_node {
    void (*fn)(void *);
    void *data;
};
struct pitched {
    void *p;
    size_t pitch, width, height;
};
struct copy_node { /* cudaMemcpy3DParms */
    void *src_array;
    size_t src_pos[3];
    struct pitched src;
    void *dst_array;
    size_t dst_pos[3];
    struct pitched dst;
    size_t width, height, depth;
    int kind;
};

/* A stream that gives what it is asked to g, as a capturing one does. */
static struct cu_stream into(struct cu_graph *g) {
    return (struct cu_stream){.capture = g};
}
static cu_result added(struct cu_op **node, struct cu_graph *g, cu_result r) {
    if (!r && node)
        *node = g->last;
    return rt_done(r);
}

static cu_result add_kernel(struct cu_graph *g, const struct kernel_node *n) {
    struct cu_stream s = into(g);
    struct cu_kernel *k;
    cu_result r = rt_kernel(&k, n->fn);
    const struct cu_config c = {.grid = {n->grid.x, n->grid.y, n->grid.z},
                                .block = {n->block.x, n->block.y, n->block.z},
                                .smem = n->smem,
                                .stream = &s};
    return r ? r : cuLaunchKernelEx(&c, k, n->params, n->extra);
}
CU_API cu_result cudaGraphAddKernelNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n,
                                        const struct kernel_node *what) {
    (void)deps, (void)n;
    return g && what ? added(node, g, add_kernel(g, what)) : rt_done(CUE_ERROR_INVALID_VALUE);
}

static cu_result add_copy(struct cu_graph *g, const struct copy_node *n) {
    struct cu_stream s = into(g);
    if (n->src_array || n->dst_array || n->depth > 1)
        return CUE_ERROR_NOT_SUPPORTED;
    const struct cu_memcpy2d c = {.src_x = n->src_pos[0],
                                  .src_y = n->src_pos[1],
                                  .src_type = 4, /* unified: the address says */
                                  .src_device = (cu_ptr)(uintptr_t)n->src.p,
                                  .src_pitch = n->src.pitch,
                                  .dst_x = n->dst_pos[0],
                                  .dst_y = n->dst_pos[1],
                                  .dst_type = 4,
                                  .dst_device = (cu_ptr)(uintptr_t)n->dst.p,
                                  .dst_pitch = n->dst.pitch,
                                  .width = n->width,
                                  .height = n->height};
    return cuMemcpy2DAsync_v2(&c, &s);
}
CU_API cu_result cudaGraphAddMemcpyNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n,
                                        const struct copy_node *what) {
    (void)deps, (void)n;
    cu_result r = rt_begin();
    return g && what ? added(node, g, r ? r : add_copy(g, what)) : rt_done(CUE_ERROR_INVALID_VALUE);
}
CU_API cu_result cudaGraphAddMemcpyNode1D(struct cu_op **node, struct cu_graph *g,
                                          struct cu_op *const *deps, size_t n, void *to,
                                          const void *from, size_t bytes, int kind) {
    (void)deps, (void)n, (void)kind;
    struct cu_stream s = into(g);
    cu_result r = g ? rt_begin() : CUE_ERROR_INVALID_VALUE;
    return added(node, g,
                 r ? r : cuMemcpyAsync((cu_ptr)(uintptr_t)to, (cu_ptr)(uintptr_t)from, bytes, &s));
}

static cu_result submit(struct cu_graph *g, const struct cu_op *op) {
    struct cu_stream s = into(g);
    cu_result r = rt_begin();
    cu_lock();
    r = r ? r : cu_submit(&s, op);
    cu_unlock();
    return r;
}
CU_API cu_result cudaGraphAddMemsetNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n,
                                        const struct memset_node *what) {
    (void)deps, (void)n;
    if (!g || !what || (what->element != 1 && what->element != 2 && what->element != 4))
        return rt_done(CUE_ERROR_INVALID_VALUE);
    const struct cu_op op = {.kind = CUOP_SET,
                             .dst = (uint64_t)(uintptr_t)what->dst,
                             .width = what->width,
                             .height = what->height ? what->height : 1,
                             .dst_pitch = what->pitch,
                             .value = what->value,
                             .element = what->element};
    return added(node, g, submit(g, &op));
}
CU_API cu_result cudaGraphAddHostNode(struct cu_op **node, struct cu_graph *g,
                                      struct cu_op *const *deps, size_t n,
                                      const struct host_node *what) {
    (void)deps, (void)n;
    if (!g || !what || !what->fn)
        return rt_done(CUE_ERROR_INVALID_VALUE);
    const struct cu_op op = {.kind = CUOP_HOST, .host = what->fn, .data = what->data};
    return added(node, g, submit(g, &op));
}
CU_API cu_result cudaGraphAddEmptyNode(struct cu_op **node, struct cu_graph *g,
                                       struct cu_op *const *deps, size_t n) {
    (void)deps, (void)n;
    return g ? added(node, g, submit(g, &(struct cu_op){.kind = CUOP_HOST}))
             : rt_done(CUE_ERROR_INVALID_VALUE);
}
CU_API cu_result cudaGraphAddChildGraphNode(struct cu_op **node, struct cu_graph *g,
                                            struct cu_op *const *deps, size_t n,
                                            struct cu_graph *child) {
    (void)deps, (void)n;
    struct cu_stream s = into(g);
    cu_result r = g && child ? rt_begin() : CUE_ERROR_INVALID_VALUE;
    return added(node, g, r ? r : cuGraphLaunch(child, &s));
}

static bool before(const struct cu_op *a, const struct cu_op *b) {
    for (a = a ? a->next : NULL; a; a = a->next)
        if (a == b)
            return true;
    return false;
}
CU_API cu_result cudaGraphAddDependencies(struct cu_graph *g, struct cu_op *const *from,
                                          struct cu_op *const *to, const void *edges, size_t n) {
    (void)g, (void)edges;
    for (size_t k = 0; k < n; k++)
        if (!before(from[k], to[k])) {
            fprintf(stderr, "emu: cudaGraphAddDependencies: the node that waits was added first; "
                            "the emulator runs nodes in the order of adding\n");
            return rt_done(CUE_ERROR_NOT_SUPPORTED);
        }
    return CUE_SUCCESS;
}
CU_API cu_result cudaGraphNodeGetType(struct cu_op *node, int *type) {
    return rt_done(cuGraphNodeGetType(node, type));
}
CU_API cu_result cudaGraphClone(struct cu_graph **to, struct cu_graph *from) {
    return rt_done(cuGraphInstantiateWithFlags(to, from, 0));
}

/* --- Changed parameters --- */

static struct cu_op *node_of(struct cu_graph *exec, const struct cu_op *node) {
    for (struct cu_op *o = exec ? exec->first : NULL; o; o = o->next)
        if (o == node || o->origin == node)
            return o;
    return NULL;
}
CU_API cu_result cudaGraphExecKernelNodeSetParams(struct cu_graph *exec, struct cu_op *node,
                                                  const struct kernel_node *what) {
    struct cu_op *o = node_of(exec, node);
    struct cu_graph one = {0};
    if (!o || !what || o->kind != CUOP_KERNEL)
        return rt_done(CUE_ERROR_INVALID_VALUE);
    cu_result r = add_kernel(&one, what);
    if (!r) { /* the new launch goes into the old node, the old one with the list of one */
        const struct emu_launch old = o->launch;
        o->launch = one.first->launch;
        one.first->launch = old;
        cu_op_free(one.first);
    }
    return rt_done(r);
}
CU_API cu_result cudaGraphKernelNodeSetParams(struct cu_op *node, const struct kernel_node *what) {
    struct cu_graph alone = {.first = node, .last = node, .count = 1};
    return cudaGraphExecKernelNodeSetParams(&alone, node, what);
}
