/* cudart_graph.c: the runtime's graphs: nodes described its way, given to the driver's calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"

struct kernel_node {
    const void *fn;
    struct rt_dim3 grid, block;
    unsigned smem;
    void **params, **extra;
};
struct driver_kernel_node { /* CUDA_KERNEL_NODE_PARAMS, version 1 */
    struct cu_kernel *fn;
    unsigned grid[3], block[3], smem;
    void **params, **extra;
};

#define DRIVER(rt, drv, params, args)                                                              \
    cu_result drv params;                                                                          \
    CU_API cu_result rt params {                                                                   \
        cu_result r = rt_begin();                                                                  \
        return rt_done(r ? r : drv args);                                                          \
    }
DRIVER(cudaGraphAddHostNode, cuGraphAddHostNode,
       (struct cu_op * *node, struct cu_graph *g, struct cu_op *const *deps, size_t n,
        const void *what),
       (node, g, deps, n, what))
DRIVER(cudaGraphAddEmptyNode, cuGraphAddEmptyNode,
       (struct cu_op * *node, struct cu_graph *g, struct cu_op *const *deps, size_t n),
       (node, g, deps, n))
DRIVER(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode,
       (struct cu_op * *node, struct cu_graph *g, struct cu_op *const *deps, size_t n,
        struct cu_graph *child),
       (node, g, deps, n, child))
DRIVER(cudaGraphAddDependencies, cuGraphAddDependencies_v2,
       (struct cu_graph * g, struct cu_op *const *from, struct cu_op *const *to, const void *edges,
        size_t n),
       (g, from, to, edges, n))
DRIVER(cudaGraphRemoveDependencies, cuGraphRemoveDependencies_v2,
       (struct cu_graph * g, struct cu_op *const *from, struct cu_op *const *to, const void *edges,
        size_t n),
       (g, from, to, edges, n))
DRIVER(cudaStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph,
       (struct cu_stream * s, struct cu_graph *g, struct cu_op *const *deps, const void *edges,
        size_t n, int mode),
       (s, g, deps, edges, n, mode))
DRIVER(cudaStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2,
       (struct cu_stream * s, struct cu_op *const *deps, const void *edges, size_t n, unsigned f),
       (s, deps, edges, n, f))
cu_result cuGraphConditionalHandleCreate(uint64_t *handle, struct cu_graph *g, struct cu_context *c,
                                         unsigned value, unsigned flags);
CU_API cu_result cudaGraphConditionalHandleCreate(uint64_t *handle, struct cu_graph *g,
                                                  unsigned value, unsigned flags) {
    cu_result r = rt_begin();
    return rt_done(r ? r : cuGraphConditionalHandleCreate(handle, g, NULL, value, flags));
}
DRIVER(cudaGraphNodeGetType, cuGraphNodeGetType, (struct cu_op * node, int *type), (node, type))
DRIVER(cudaGraphClone, cuGraphClone, (struct cu_graph * *to, struct cu_graph *from), (to, from))
DRIVER(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams,
       (struct cu_graph * *exec, struct cu_graph *g, void *params), (exec, g, params))

DRIVER(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode,
       (struct cu_op * *node, struct cu_graph *g, struct cu_op *const *deps, size_t n, void *what),
       (node, g, deps, n, what))
DRIVER(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim, (int d), (d))
cu_result cuGraphAddMemFreeNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                                size_t n, cu_ptr memory);
CU_API cu_result cudaGraphAddMemFreeNode(struct cu_op **node, struct cu_graph *g,
                                         struct cu_op *const *deps, size_t n, void *memory) {
    cu_result r = rt_begin();
    return rt_done(r ? r : cuGraphAddMemFreeNode(node, g, deps, n, (cu_ptr)(uintptr_t)memory));
}

cu_result cuGraphAddMemsetNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                               size_t n, const void *what, struct cu_context *c);
CU_API cu_result cudaGraphAddMemsetNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n, const void *what) {
    cu_result r = rt_begin();
    return rt_done(r ? r : cuGraphAddMemsetNode(node, g, deps, n, what, NULL));
}

cu_result cuGraphAddMemcpyNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                               size_t n, const struct cu_memcpy3d *what, struct cu_context *c);
CU_API cu_result cudaGraphAddMemcpyNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n,
                                        const struct rt_copy3d *what) {
    struct cu_memcpy3d c;
    cu_result r = rt_begin();
    r = r ? r : rt_copy(&c, what);
    return rt_done(r ? r : cuGraphAddMemcpyNode(node, g, deps, n, &c, NULL));
}
CU_API cu_result cudaGraphAddMemcpyNode1D(struct cu_op **node, struct cu_graph *g,
                                          struct cu_op *const *deps, size_t n, void *to,
                                          const void *from, size_t bytes, int kind) {
    const struct cu_memcpy3d c = {
        .src = {.type = 4, .device = (cu_ptr)(uintptr_t)from, .pitch = bytes},
        .dst = {.type = 4, .device = (cu_ptr)(uintptr_t)to, .pitch = bytes},
        .width = bytes,
        .height = 1,
        .depth = 1};
    (void)kind;
    cu_result r = rt_begin();
    return rt_done(r ? r : cuGraphAddMemcpyNode(node, g, deps, n, &c, NULL));
}

static cu_result driver_node(struct driver_kernel_node *to, const struct kernel_node *n) {
    if (!n)
        return CUE_ERROR_INVALID_VALUE;
    *to = (struct driver_kernel_node){.grid = {n->grid.x, n->grid.y, n->grid.z},
                                      .block = {n->block.x, n->block.y, n->block.z},
                                      .smem = n->smem,
                                      .params = n->params,
                                      .extra = n->extra};
    return rt_kernel(&to->fn, n->fn);
}
cu_result cuGraphAddKernelNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                               size_t n, const struct driver_kernel_node *what);
CU_API cu_result cudaGraphAddKernelNode(struct cu_op **node, struct cu_graph *g,
                                        struct cu_op *const *deps, size_t n,
                                        const struct kernel_node *what) {
    struct driver_kernel_node d;
    cu_result r = driver_node(&d, what);
    return rt_done(r ? r : cuGraphAddKernelNode(node, g, deps, n, &d));
}
cu_result cuGraphExecKernelNodeSetParams(struct cu_graph *exec, struct cu_op *node,
                                         const struct driver_kernel_node *what);
CU_API cu_result cudaGraphExecKernelNodeSetParams(struct cu_graph *exec, struct cu_op *node,
                                                  const struct kernel_node *what) {
    struct driver_kernel_node d;
    cu_result r = driver_node(&d, what);
    return rt_done(r ? r : cuGraphExecKernelNodeSetParams(exec, node, &d));
}
cu_result cuGraphKernelNodeSetParams(struct cu_op *node, const struct driver_kernel_node *what);
CU_API cu_result cudaGraphKernelNodeSetParams(struct cu_op *node, const struct kernel_node *what) {
    struct driver_kernel_node d;
    cu_result r = driver_node(&d, what);
    return rt_done(r ? r : cuGraphKernelNodeSetParams(node, &d));
}

/* A node of any kind: kernels and copies are described the runtime's way, the rest is the driver's.
 */
struct node_params {
    int type, reserved[3];
    union {
        struct kernel_node kernel;
        struct {
            int flags, reserved[3];
            struct rt_copy3d what;
        } copy;
        long long all[29];
    };
    long long reserved2;
};
cu_result cuGraphAddNode_v2(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                            const void *edges, size_t n, struct node_params *p);
CU_API cu_result cudaGraphAddNode(struct cu_op **node, struct cu_graph *g,
                                  struct cu_op *const *deps, const void *edges, size_t n,
                                  struct node_params *p) {
    cu_result r = p ? rt_begin() : CUE_ERROR_INVALID_VALUE;
    if (!r && p->type == 0)
        return cudaGraphAddKernelNode(node, g, deps, n, &p->kernel);
    if (!r && p->type == 1)
        return cudaGraphAddMemcpyNode(node, g, deps, n, &p->copy.what);
    return rt_done(r ? r : cuGraphAddNode_v2(node, g, deps, edges, n, p));
}
