/* SPDX-License-Identifier: Apache-2.0
 * What a CTA works on: lengths and visible ranges, units, and the three ways to cut them into
 * parts (args.h has the words). Every kernel and the combine compute the same numbers from the
 * same device-side lengths, so no plan travels between them and nothing needs initialising. */
#ifndef GQA_SCHEDULE_CUH
#define GQA_SCHEDULE_CUH

#include "args.h"
#include "ptx.cuh"

struct unit {
    int index; /* of the unit */
    int sequence, kv_head, row_tile;
    int64_t entry;     /* cache entry or table row */
    int len;           /* tokens of the sequence */
    int queries;       /* query tokens of the sequence */
    int64_t q_row;     /* ragged: row of its first token; else 0 */
    int grain, grains; /* visible grains of the whole sequence: [grain, grain + grains) */
};

struct part {
    int begin, end; /* visible tokens of the row tile in this part; begin >= end: none */
    int slot;
    int whole; /* the part is the whole unit */
};

DEV int min_int(int a, int b) {
    return a < b ? a : b;
}

DEV int max_int(int a, int b) {
    return a > b ? a : b;
}

DEV int divide(int x, struct gqa_divisor d) {
    return d.multiply ? (int)(__umulhi((unsigned)x, d.multiply) >> d.shift) : x;
}

/* --- Lengths and visibility --- */

/* Before lengths, tables and batch_index are read: kernels in front may have written them. */
DEV void lengths_wait(const struct gqa_args *a) {
    if (a->reads_lengths && !a->early)
        pdl_wait();
}

DEV int64_t cache_entry(const struct gqa_args *a, int sequence) {
    return a->batch_index ? a->batch_index[sequence] : sequence;
}

DEV int kv_length(const struct gqa_args *a, int sequence) {
    int len = a->kv_len;
    if (a->kv_lens) {
        len = a->kv_lens[sequence];
    } else if (a->page_indptr) {
        const int64_t entry = cache_entry(a, sequence);
        const int pages = a->page_indptr[entry + 1] - a->page_indptr[entry];
        len = pages > 0 ? (pages - 1) * a->page_size + a->last_page_len[sequence] : 0;
    }
    return max_int(0, min_int(len, a->kv_len));
}

DEV int query_count(const struct gqa_args *a, int sequence) {
    return a->cu_seqlens_q
               ? min_int(a->cu_seqlens_q[sequence + 1] - a->cu_seqlens_q[sequence], a->q_tokens)
               : a->q_tokens;
}

/* Keys that query token i of n sees in a sequence of len tokens: [begin, end). */
DEV int visible_begin(const struct gqa_args *a, int len, int n, int i) {
    const int position = len - n + i;
    return a->window_left >= 0 && position > a->window_left ? position - a->window_left : 0;
}

DEV int visible_end(const struct gqa_args *a, int len, int n, int i) {
    const int end = a->causal ? min_int(len, len - n + i + 1) : len;
    return max_int(end, 0);
}

/* Visible grains of a sequence, at least one, so that somebody writes the rows that see nothing. */
DEV void sequence_grains(const struct gqa_args *a, int len, int n, int *grain, int *grains) {
    const int begin = visible_begin(a, len, n, 0) / GQA_GRAIN;
    const int end = (visible_end(a, len, n, n - 1) + GQA_GRAIN - 1) / GQA_GRAIN;
    *grain = begin;
    *grains = max_int(1, end - begin);
}

/* --- Units --- */

/* Make u the inner-th unit of its sequence. */
DEV void unit_set_inner(const struct gqa_args *a, struct unit *u, int inner) {
    u->kv_head = divide(inner, a->by_row_tiles);
    u->row_tile = inner - u->kv_head * a->row_tiles;
    u->index = u->sequence * a->kv_heads * a->row_tiles + inner;
}

DEV struct unit unit_of_sequence(const struct gqa_args *a, int sequence, int inner) {
    struct unit u;
    u.sequence = sequence;
    unit_set_inner(a, &u, inner);
    u.entry = cache_entry(a, sequence);
    u.len = kv_length(a, sequence);
    u.queries = query_count(a, sequence);
    u.q_row = a->cu_seqlens_q ? a->cu_seqlens_q[sequence] : 0;
    sequence_grains(a, u.len, u.queries, &u.grain, &u.grains);
    return u;
}

DEV struct unit unit_of_index(const struct gqa_args *a, int index) {
    const int per_sequence = a->kv_heads * a->row_tiles;
    const int sequence = divide(index, a->by_sequence);
    return unit_of_sequence(a, sequence, index - sequence * per_sequence);
}

/* Query rows of the unit's sequence, before cutting into row tiles. */
DEV int unit_rows(const struct gqa_args *a, const struct unit *u) {
    return a->group * u->queries;
}

/* Element offset of row r (of all of the sequence's rows) in q, o or lse. */
DEV int64_t row_offset(const struct gqa_args *a, const struct unit *u,
                       const struct gqa_arg_strides *s, int r) {
    const int token = divide(r, a->by_group);
    const int head = u->kv_head * a->group + r - token * a->group;
    return (a->cu_seqlens_q ? 0 : u->sequence * s->batch) + (u->q_row + token) * s->token +
           head * s->head;
}

/* --- Parts --- */

/* The tokens of grains [g0, g1) that some row of the row tile (tile_rows rows) sees. */
DEV struct part part_of_grains(const struct gqa_args *a, const struct unit *u, int tile_rows,
                               int g0, int g1, int slot) {
    const int first = divide(u->row_tile * tile_rows, a->by_group);
    const int last =
        min_int(u->queries - 1, divide(u->row_tile * tile_rows + tile_rows - 1, a->by_group));
    struct part p;
    p.begin = max_int(g0 * GQA_GRAIN, visible_begin(a, u->len, u->queries, first));
    p.end = min_int(g1 * GQA_GRAIN, visible_end(a, u->len, u->queries, last));
    p.slot = slot;
    p.whole = g0 <= u->grain && g1 >= u->grain + u->grains;
    return p;
}

/* SPLITS: part s of the unit is grains [split_begin(s), split_begin(s + 1)). */
DEV int split_begin(const struct gqa_args *a, const struct unit *u, int s) {
    const int each = divide(u->grains, a->by_splits), longer = u->grains - each * a->splits;
    return u->grain + each * s + min_int(s, longer);
}

/* SPLITS or TOKENS: the grains of part s; returns 0 if there are none. */
DEV int split_grains(const struct gqa_args *a, const struct unit *u, int s, int *g0, int *g1) {
    if (a->schedule == GQA_SCHED_SPLITS) {
        *g0 = split_begin(a, u, s);
        *g1 = split_begin(a, u, s + 1);
    } else {
        *g0 = max_int(u->grain, s * a->split_grains);
        *g1 = min_int(u->grain + u->grains, (s + 1) * a->split_grains);
    }
    return *g0 < *g1;
}

/* --- Equal shares: all counts fit 31 bits, the planner sees to it --- */

/* The grains of the batch, with GQA_UNIT_GRAINS in front of each unit's, over `ctas` CTAs: the
 * first `longer` CTAs take one more than `each`. */
struct shares {
    int total, each, longer;
};

/* Where a CTA stands in its share: the next grain is `next`, in `sequence`, whose grains start at
 * `base` in the order of the whole batch. */
struct share {
    int next, end;
    int base, sequence;
    int units; /* of a sequence */
};

/* All 32 lanes; the sum is the same in each. */
DEV int warp_sum(int x) {
    for (int lane = 16; lane; lane >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

DEV int sequence_grain_count(const struct gqa_args *a, int sequence) {
    int grain, grains;
    sequence_grains(a, kv_length(a, sequence), query_count(a, sequence), &grain, &grains);
    return GQA_UNIT_GRAINS + grains;
}

/* Grains, counted so, of the units of sequences before `sequence`. All 32 lanes. */
DEV int grains_before(const struct gqa_args *a, int sequence) {
    int sum = 0;
    for (int s = threadIdx.x % 32; s < sequence; s += 32)
        sum += sequence_grain_count(a, s);
    return warp_sum(sum) * a->kv_heads * a->row_tiles;
}

/* All 32 lanes; one pass over the lengths. */
DEV struct shares shares_of(const struct gqa_args *a) {
    struct shares x;
    x.total = grains_before(a, a->batch);
    x.each = x.total / a->ctas;
    x.longer = x.total - x.each * a->ctas;
    return x;
}

DEV int share_begin(const struct shares *x, int cta) {
    return x->each * cta + min_int(cta, x->longer);
}

/* The CTA whose share holds a grain. */
DEV int share_owner(const struct shares *x, int grain) {
    const int in_longer = x->longer * (x->each + 1);
    return grain < in_longer ? grain / (x->each + 1) : x->longer + (grain - in_longer) / x->each;
}

/* The sequence that holds grain `at`, and in `base` the grains before that. All 32 lanes. */
DEV int sequence_at(const struct gqa_args *a, int at, int *base) {
    const int lane = threadIdx.x % 32, units = a->kv_heads * a->row_tiles;
    int sequence;
    *base = 0;
    for (sequence = 0; sequence < a->batch; sequence += 32) {
        const int s = sequence + lane;
        const int own = s < a->batch ? sequence_grain_count(a, s) * units : 0;
        int upto = own;
        for (int step = 1; step < 32; step <<= 1) {
            const int below = __shfl_up_sync(0xffffffffu, upto, step);
            upto += lane >= step ? below : 0;
        }
        const unsigned beyond = __ballot_sync(0xffffffffu, *base + upto > at);
        if (beyond) {
            const int found = __ffs(beyond) - 1;
            *base += __shfl_sync(0xffffffffu, upto - own, found);
            return sequence + found;
        }
        *base += __shfl_sync(0xffffffffu, upto, 31);
    }
    return sequence;
}

/* The share of `cta`, standing at its first grain. All 32 lanes; a second pass over the lengths. */
DEV struct share share_of(const struct gqa_args *a, const struct shares *all, int cta) {
    struct share x;
    x.next = share_begin(all, cta);
    x.end = share_begin(all, cta + 1);
    x.units = a->kv_heads * a->row_tiles;
    x.sequence = sequence_at(a, x.next, &x.base);
    return x;
}

/* The next part of the share; returns 0 at its end. Any subset of threads. */
DEV int share_next(const struct gqa_args *a, struct share *x, int cta, int tile_rows,
                   struct unit *u, struct part *p) {
    while (x->next < x->end) {
        *u = unit_of_sequence(a, x->sequence, 0);
        while (x->next - x->base >= x->units * (GQA_UNIT_GRAINS + u->grains)) {
            x->base += x->units * (GQA_UNIT_GRAINS + u->grains);
            x->sequence++;
            *u = unit_of_sequence(a, x->sequence, 0);
        }
        const int all = GQA_UNIT_GRAINS + u->grains, inner = (x->next - x->base) / all;
        const int start = x->base + inner * all + GQA_UNIT_GRAINS; /* its first grain */
        const int from = max_int(0, x->next - start), to = min_int(x->end - start, u->grains);
        x->next = start + max_int(to, 0);
        if (from >= to) { /* the share ends in front of the unit's first grain */
            x->next = x->end;
            continue;
        }
        unit_set_inner(a, u, inner);
        *p = part_of_grains(a, u, tile_rows, u->grain + from, u->grain + to, 2 * cta + (from == 0));
        return 1;
    }
    return 0;
}

#endif
