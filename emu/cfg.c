/* cfg.c: where diverged lanes meet again: the immediate post-dominator of each branch.
 *
 * PTX carries no reconvergence data; ptxas, too, places the join at the post-dominator.  Algorithm:
 * Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph of basic
 * blocks with one virtual exit.  Blocks that cannot reach the exit (endless loops) get no join.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir.h"
#include "machine.h"
#include "ops.h"
#include <stdlib.h>
#include <string.h>

struct graph {
    u32 n;               /* blocks, then the virtual exit as number n */
    u32 *first;          /* first instruction of a block; first[n] = ncode */
    u32 *block_of;       /* instruction -> block */
    u32 *succ;           /* 2 per block, REF_NONE none; tables have their own list */
    u32 *pred_at, *pred; /* predecessors in the reversed walk = successors */
    u32 *order, *number; /* reverse postorder on the reversed graph */
    u32 *idom;
};

static bool is_branch(const struct insn *i) {
    return i->fn == op_bra || i->fn == op_brx;
}
static bool is_exit(const struct insn *i) {
    return i->fn == op_exit;
}

static void find_blocks(struct function *f, struct graph *g) {
    u8 *lead = calloc(f->ncode + 1, 1);
    lead[0] = 1;
    for (u32 k = 0; k < f->ncode; k++) {
        const struct insn *i = &f->code[k];
        if (is_branch(i)) {
            if (i->target < f->ncode)
                lead[i->target] = 1;
            for (u32 j = 0; j < i->nops && i->fn == op_brx; j++)
                lead[i->ops[j]] = 1;
        }
        if (is_branch(i) || is_exit(i))
            lead[k + 1] = 1;
    }
    g->n = 0;
    for (u32 k = 0; k < f->ncode; k++) {
        if (lead[k])
            g->first[g->n++] = k;
        g->block_of[k] = g->n - 1;
    }
    g->first[g->n] = f->ncode;
    free(lead);
}

/* Successor number k of block b, REF_NONE after the last. */
static u32 successor(const struct function *f, const struct graph *g, u32 b, u32 k) {
    u32 last = g->first[b + 1] - 1;
    const struct insn *i = &f->code[last];
    u32 fall = last + 1 < f->ncode ? g->block_of[last + 1] : g->n;
    if (is_exit(i))
        return k == 0 ? g->n : k == 1 && i->guard != REF_NONE ? fall : REF_NONE;
    if (i->fn == op_bra) {
        u32 t = i->target < f->ncode ? g->block_of[i->target] : g->n;
        return k == 0 ? t : k == 1 && i->guard != REF_NONE ? fall : REF_NONE;
    }
    if (i->fn == op_brx)
        return k < i->nops                            ? g->block_of[i->ops[k]]
               : k == i->nops && i->guard != REF_NONE ? fall
                                                      : REF_NONE;
    return k == 0 ? fall : REF_NONE;
}

static void reverse_edges(const struct function *f, struct graph *g) {
    memset(g->pred_at, 0, (g->n + 2) * sizeof *g->pred_at);
    u32 total = 0;
    for (u32 b = 0; b < g->n; b++)
        for (u32 k = 0, s; (s = successor(f, g, b, k)) != REF_NONE; k++, total++)
            g->pred_at[s + 1]++;
    for (u32 b = 0; b <= g->n; b++)
        g->pred_at[b + 1] += g->pred_at[b];
    g->pred = malloc((total + 1) * sizeof *g->pred);
    u32 *fill = malloc((g->n + 2) * sizeof *fill);
    memcpy(fill, g->pred_at, (g->n + 2) * sizeof *fill);
    for (u32 b = 0; b < g->n; b++)
        for (u32 k = 0, s; (s = successor(f, g, b, k)) != REF_NONE; k++)
            g->pred[fill[s]++] = b;
    free(fill);
}

/* Postorder of the walk from the exit against the edges, without recursion. */
static u32 number_blocks(struct graph *g) {
    u32 *stack = malloc((g->n + 2) * sizeof *stack), *at = malloc((g->n + 2) * sizeof *at);
    u32 depth = 0, count = 0;
    memset(g->number, 0xff, (g->n + 1) * sizeof *g->number);
    stack[depth] = g->n;
    at[depth++] = g->pred_at[g->n];
    g->number[g->n] = 0;
    while (depth) {
        u32 b = stack[depth - 1];
        if (at[depth - 1] < g->pred_at[b + 1]) {
            u32 q = g->pred[at[depth - 1]++];
            if (g->number[q] == REF_NONE) {
                g->number[q] = 0;
                stack[depth] = q;
                at[depth++] = g->pred_at[q];
            }
        } else {
            g->order[count] = b;
            g->number[b] = count++;
            depth--;
        }
    }
    free(stack);
    free(at);
    return count;
}

static u32 meet(const struct graph *g, u32 a, u32 b) {
    while (a != b) {
        while (g->number[a] < g->number[b])
            a = g->idom[a];
        while (g->number[b] < g->number[a])
            b = g->idom[b];
    }
    return a;
}

static void dominate(const struct function *f, struct graph *g, u32 count) {
    memset(g->idom, 0xff, (g->n + 1) * sizeof *g->idom);
    g->idom[g->n] = g->n;
    for (bool changed = true; changed;) {
        changed = false;
        for (u32 k = count - 1; k-- > 0;) {
            u32 b = g->order[k], d = REF_NONE;
            for (u32 j = 0, s; (s = successor(f, g, b, j)) != REF_NONE; j++)
                if (g->number[s] != REF_NONE && g->idom[s] != REF_NONE)
                    d = d == REF_NONE ? s : meet(g, d, s);
            if (d != REF_NONE && g->idom[b] != d) {
                g->idom[b] = d;
                changed = true;
            }
        }
    }
}

void cfg_postdominators(struct function *f, struct arena *a) {
    (void)a;
    u32 n = f->ncode + 2;
    struct graph g = {.first = malloc(n * 4),
                      .block_of = malloc(n * 4),
                      .pred_at = malloc((n + 1) * 4),
                      .order = malloc(n * 4),
                      .number = malloc(n * 4),
                      .idom = malloc(n * 4)};
    find_blocks(f, &g);
    reverse_edges(f, &g);
    dominate(f, &g, number_blocks(&g));
    for (u32 b = 0; b < g.n; b++) {
        struct insn *i = &f->code[g.first[b + 1] - 1];
        if (!is_branch(i))
            continue;
        u32 d = g.idom[b];
        i->rejoin = d == REF_NONE || d == g.n ? REF_NONE : g.first[d];
    }
    free(g.first);
    free(g.block_of);
    free(g.pred_at);
    free(g.pred);
    free(g.order);
    free(g.number);
    free(g.idom);
}
