/* cuda_graph_order.c: the edges of graphs, and copies of graphs.
 *
 * A graph is a list of operations in an order that its edges allow: a node goes to the end, which
 * is right as long as edges lead from earlier nodes to later ones.  One that leads back sorts the
 * list anew.  Operations that were captured, and those of a child graph, are a chain.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <stdlib.h>

struct cu_edge {
    struct cu_op *from, *to;
};

static bool has(const struct cu_graph *g, const struct cu_op *op) {
    for (const struct cu_op *o = g->first; o; o = o->next)
        if (o == op)
            return true;
    return false;
}
static bool before(const struct cu_op *a, const struct cu_op *b) {
    for (a = a->next; a; a = a->next)
        if (a == b)
            return true;
    return false;
}

/* Is an operation that is still to be placed due before op?  Placed ones have no `next` in `rest`.
 */
static bool waits(const struct cu_graph *g, const struct cu_op *op, const struct cu_op *rest) {
    for (size_t k = 0; k < g->nedges; k++)
        if (g->edges[k].to == op)
            for (const struct cu_op *o = rest; o; o = o->next)
                if (o == g->edges[k].from)
                    return true;
    return false;
}

/* The first of the rest that waits for none, again and again: the order changes no more than it
 * must.  False: the edges form a circle, and the order is as it was. */
static bool sort(struct cu_graph *g) {
    struct cu_op **was = calloc(g->count + 1, sizeof(struct cu_op *)), *first = NULL,
                 **end = &first, *rest = g->first;
    size_t n = 0;
    if (!was)
        abort();
    for (struct cu_op *o = g->first; o; o = o->next)
        was[n++] = o;
    while (rest) {
        struct cu_op **at = &rest;
        while (*at && waits(g, *at, rest))
            at = &(*at)->next;
        if (!*at)
            break;
        struct cu_op *o = *at;
        *at = o->next;
        o->next = NULL;
        *end = g->last = o;
        end = &o->next;
    }
    const bool sorted = !rest;
    for (size_t k = 0; !sorted && k < n; k++)
        was[k]->next = was[k + 1];
    g->first = sorted || !n ? first : was[0];
    g->last = sorted || !n ? g->last : was[n - 1];
    free(was);
    return sorted;
}

/* Where an edge to a node leads. */
static struct cu_op *entry(struct cu_op *node) {
    return node && node->entry ? node->entry : node;
}

static void keep(struct cu_graph *g, struct cu_op *from, struct cu_op *to) {
    struct cu_edge *e = realloc(g->edges, (g->nedges + 1) * sizeof *e);
    if (!e)
        abort();
    g->edges = e;
    g->edges[g->nedges++] = (struct cu_edge){from, to};
}

cu_result cu_graph_edge(struct cu_graph *g, struct cu_op *from, struct cu_op *to) {
    if (!from || !to || from == to || !has(g, from) || !has(g, to))
        return CUE_ERROR_INVALID_VALUE;
    keep(g, from, entry(to));
    if (before(from, entry(to)) || sort(g))
        return CUE_SUCCESS;
    g->nedges--;
    return CUE_ERROR_INVALID_VALUE;
}

CU_API cu_result cuGraphAddDependencies(struct cu_graph *g, struct cu_op *const *from,
                                        struct cu_op *const *to, size_t n) {
    cu_result r = g && (!n || (from && to)) ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n && !r; k++)
        r = cu_graph_edge(g, from[k], to[k]);
    return r;
}
CU_API cu_result cuGraphAddDependencies_v2(struct cu_graph *g, struct cu_op *const *from,
                                           struct cu_op *const *to, const void *edges, size_t n) {
    (void)edges;
    return cuGraphAddDependencies(g, from, to, n);
}
CU_API cu_result cuGraphRemoveDependencies(struct cu_graph *g, struct cu_op *const *from,
                                           struct cu_op *const *to, size_t n) {
    if (!g || (n && (!from || !to)))
        return CUE_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++) {
        size_t e = 0;
        while (e < g->nedges && (g->edges[e].from != from[k] || g->edges[e].to != entry(to[k])))
            e++;
        if (e == g->nedges)
            return CUE_ERROR_INVALID_VALUE;
        g->edges[e] = g->edges[--g->nedges];
    }
    return CUE_SUCCESS;
}
CU_API cu_result cuGraphRemoveDependencies_v2(struct cu_graph *g, struct cu_op *const *from,
                                              struct cu_op *const *to, const void *data, size_t n) {
    (void)data;
    return cuGraphRemoveDependencies(g, from, to, n);
}

/* --- Copies --- */

static struct cu_op *copy_of(const struct cu_graph *g, const struct cu_op *node) {
    for (struct cu_op *o = g->first; o; o = o->next)
        if (o->origin == node)
            return o;
    return NULL;
}

struct cu_graph *cu_graph_copy(const struct cu_graph *g) {
    struct cu_graph *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    for (struct cu_op *o = g->first; o; o = o->next)
        cu_graph_add(c, o)->origin = o;
    for (struct cu_op *o = c->first; o; o = o->next)
        o->entry = o->entry ? copy_of(c, o->entry) : NULL;
    for (size_t k = 0; k < g->nedges; k++)
        keep(c, copy_of(c, g->edges[k].from), copy_of(c, g->edges[k].to));
    cu_conditions_join(c, g);
    return c;
}

void cu_graph_free(struct cu_graph *g) {
    for (struct cu_op *o = g->first; o;) {
        struct cu_op *n = o->next;
        cu_op_free(o);
        o = n;
    }
    free(g->edges);
    free(g->conditions);
    free(g);
}
