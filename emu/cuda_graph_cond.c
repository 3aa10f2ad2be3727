/* cuda_graph_cond.c: conditional nodes, the general call that adds a node of any kind, and capture
 * into a graph.
 *
 * The value of a condition is a word of device memory and its handle the word's address, so that
 * cudaGraphSetConditional in a kernel (op_flow.c) is a store.  A value with a default gets it when
 * the whole graph is launched, not each time that the body it belongs to runs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <stdlib.h>
#include <string.h>

enum { COND_IF, COND_WHILE, COND_SWITCH };

struct cu_condition {
    uint64_t handle;
    uint32_t value; /* at a launch */
    bool assign;
};

static uint32_t *word(uint64_t handle) {
    uint64_t base, bytes;
    if (!handle || !emu_range(cu_world.emu, handle, &base, &bytes) || handle != base)
        return NULL;
    return (uint32_t *)(uintptr_t)handle;
}

static void join(struct cu_graph *g, const struct cu_condition *c, size_t n) {
    struct cu_condition *all = realloc(g->conditions, (g->nconditions + n + 1) * sizeof *all);
    if (!all)
        abort();
    if (n)
        memcpy(all + g->nconditions, c, n * sizeof *all);
    g->conditions = all;
    g->nconditions += n;
}
void cu_conditions_join(struct cu_graph *to, const struct cu_graph *from) {
    join(to, from->conditions, from->nconditions);
}
cu_result cu_conditions_reset(const struct cu_graph *g) {
    cu_result r = g->nconditions ? cu_drain() : CUE_SUCCESS;
    for (size_t k = 0; k < g->nconditions && !r; k++)
        if (g->conditions[k].assign && word(g->conditions[k].handle))
            *word(g->conditions[k].handle) = g->conditions[k].value;
    for (const struct cu_op *o = g->first; o; o = o->next)
        for (uint32_t k = 0; o->bodies && k < o->element && !r; k++)
            r = cu_conditions_reset(o->bodies[k]);
    return r;
}

CU_API cu_result cuGraphConditionalHandleCreate(uint64_t *handle, struct cu_graph *g,
                                                struct cu_context *c, unsigned value,
                                                unsigned flags) {
    (void)c;
    if (!handle || !g || flags > 1)
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = cu_ready();
    *handle = r ? 0 : emu_alloc(cu_world.emu, sizeof(uint32_t));
    r = r || *handle ? r : CUE_ERROR_OUT_OF_MEMORY;
    if (!r)
        emu_host_write(cu_world.emu, *handle, sizeof(uint32_t));
    cu_unlock();
    if (!r)
        join(g, &(struct cu_condition){*handle, value, flags == 1}, 1);
    return r;
}

struct conditional_node { /* CUDA_CONDITIONAL_NODE_PARAMS */
    uint64_t handle;
    unsigned type, size;
    struct cu_graph **bodies; /* out */
    struct cu_context *context;
};

static cu_result add_conditional(struct cu_op **node, struct cu_graph *g,
                                 struct conditional_node *what) {
    const unsigned most = what->type == COND_IF ? 2 : what->type == COND_WHILE ? 1 : 1u << 16;
    if (what->type > COND_SWITCH || !what->size || what->size > most || !word(what->handle))
        return CUE_ERROR_INVALID_VALUE;
    struct cu_op *o = cu_graph_add(g, &(struct cu_op){.kind = CUOP_CONDITIONAL,
                                                      .src = what->handle,
                                                      .value = what->type,
                                                      .element = what->size});
    o->bodies = calloc(what->size, sizeof(struct cu_graph *));
    for (unsigned k = 0; o->bodies && k < what->size; k++)
        o->bodies[k] = calloc(1, sizeof **o->bodies);
    what->bodies = o->bodies;
    *node = o;
    return o->bodies ? CUE_SUCCESS : CUE_ERROR_OUT_OF_MEMORY;
}

cu_result cu_run_conditional(const struct cu_op *op) {
    cu_result r = cu_drain();
    const uint32_t *v = word(op->src);
    if (!v)
        return CUE_ERROR_INVALID_VALUE;
    while (!r) {
        const uint32_t at = op->value == COND_SWITCH ? *v : *v == 0;
        if (at < op->element)
            r = cu_run_graph(op->bodies[at]);
        r = r ? r : cu_drain();
        if (op->value != COND_WHILE || at)
            break;
    }
    return r;
}

/* --- A node of any kind --- */

struct node_params { /* CUgraphNodeParams, and what of the runtime's has the same layout */
    int type, reserved[3];
    union {
        long long reserved1[29];
        struct {
            int flags, reserved;
            struct cu_context *context;
            struct cu_memcpy3d what;
        } copy;
        struct cu_graph *child;
        cu_ptr memory;
        struct conditional_node conditional;
    };
    long long reserved2;
};
_Static_assert(sizeof(struct node_params) == 256, "CUgraphNodeParams has 256 bytes");

typedef cu_result adder(struct cu_op **, struct cu_graph *, struct cu_op *const *, size_t,
                        const void *);
adder cuGraphAddKernelNode_v2, cuGraphAddHostNode;
cu_result cuGraphAddMemsetNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                               size_t n, const void *what, struct cu_context *c);
cu_result cuGraphAddMemcpyNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                               size_t n, const struct cu_memcpy3d *what, struct cu_context *c);
cu_result cuGraphAddChildGraphNode(struct cu_op **node, struct cu_graph *g,
                                   struct cu_op *const *deps, size_t n, struct cu_graph *child);
cu_result cuGraphAddEmptyNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                              size_t n);
cu_result cuGraphAddMemAllocNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                                 size_t n, void *what);
cu_result cuGraphAddMemFreeNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                                size_t n, cu_ptr memory);

CU_API cu_result cuGraphAddNode_v2(struct cu_op **node, struct cu_graph *g,
                                   struct cu_op *const *deps, const void *edges, size_t n,
                                   struct node_params *p) {
    (void)edges;
    struct cu_op *made;
    cu_result r;
    if (!g || !p)
        return CUE_ERROR_INVALID_VALUE;
    switch (p->type) {
    case 0:
        return cuGraphAddKernelNode_v2(node, g, deps, n, p->reserved1);
    case 1:
        return cuGraphAddMemcpyNode(node, g, deps, n, &p->copy.what, p->copy.context);
    case 2:
        return cuGraphAddMemsetNode(node, g, deps, n, p->reserved1, NULL);
    case 3:
        return cuGraphAddHostNode(node, g, deps, n, p->reserved1);
    case 4:
        return cuGraphAddChildGraphNode(node, g, deps, n, p->child);
    case 5:
        return cuGraphAddEmptyNode(node, g, deps, n);
    case 10:
        return cuGraphAddMemAllocNode(node, g, deps, n, p->reserved1);
    case 11:
        return cuGraphAddMemFreeNode(node, g, deps, n, p->memory);
    case 13:
        r = add_conditional(&made, g, &p->conditional);
        for (size_t k = 0; k < n && !r; k++)
            r = cu_graph_edge(g, deps[k], made);
        if (!r && node)
            *node = made;
        return r;
    default:
        fprintf(stderr, "emu: cuGraphAddNode: nodes of type %d are not modelled\n", p->type);
        return CUE_ERROR_NOT_SUPPORTED;
    }
}
CU_API cu_result cuGraphAddNode(struct cu_op **node, struct cu_graph *g, struct cu_op *const *deps,
                                size_t n, struct node_params *p) {
    return cuGraphAddNode_v2(node, g, deps, NULL, n, p);
}

/* --- Capture into a graph --- */

/* What is captured goes behind all that the graph has. */
CU_API cu_result cuStreamBeginCaptureToGraph(struct cu_stream *s, struct cu_graph *g,
                                             struct cu_op *const *deps, const void *edges, size_t n,
                                             int mode) {
    (void)edges, (void)mode;
    if ((uintptr_t)s <= 2)
        return CUE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture || !g || (n && !deps))
        return CUE_ERROR_INVALID_VALUE;
    s->origin = s->given = true;
    s->capture = g;
    g->captured = n ? g->last : NULL; /* the last of all comes after these */
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamUpdateCaptureDependencies_v2(struct cu_stream *s,
                                                      struct cu_op *const *deps, const void *edges,
                                                      size_t n, unsigned flags) {
    (void)edges;
    if ((uintptr_t)s <= 2 || !s->capture || flags > 1 || (n && !deps))
        return CUE_ERROR_INVALID_VALUE;
    if (n || flags)
        s->capture->captured = n ? s->capture->last : NULL;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamUpdateCaptureDependencies(struct cu_stream *s, struct cu_op *const *deps,
                                                   size_t n, unsigned flags) {
    return cuStreamUpdateCaptureDependencies_v2(s, deps, NULL, n, flags);
}
