/* SPDX-License-Identifier: Apache-2.0
 * Who computes what. A lane is one sequence and some of its KV heads; the cost of a lane is the
 * tokens it reads plus a constant. In the automatic mode all lanes stand in one line and every
 * share gets an equal piece of it: a lane may be cut, and at most two lanes of a share are, so two
 * slots per share hold all partial results. In the fixed and invariant modes a share is one split
 * of one lane and has its own slot. Everything here follows from the problem, the lengths and the
 * number of threads asked for, never from which thread comes first. */
#include "cpu.h"

#include <string.h>

enum {
    LANE_COST = 16,         /* tokens that starting a lane is worth: prepare, store */
    CUT_ALIGN = 64,         /* cuts fall on multiples of this many tokens */
    LANE_FLOATS = 32768,    /* state and queries of a multi-head lane: 128 KiB, a part of L2 */
    SHARE_WORK = 64 << 10,  /* least work of a share, in bytes of cache */
    CHUNK_WORK = 512 << 10, /* a thread with more than this takes several shares */
    CHUNKS = 4,             /* at most, so that a slow thread can be helped */
    WAKE_WORK = 1536 << 10, /* waking a thread costs 10 to 80 us, some MB of streaming */
    ROW_RUN_BYTES = 2048,   /* contiguous bytes per head below which heads are done together */
    ROWS_PER_STREAM = 4,    /* query rows that are still free next to the memory traffic */
};

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

/* a * b, at most `most`; a, b >= 0. */
static int64_t times_upto(int64_t a, int64_t b, int64_t most) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) || r > most ? most : r;
}

/* --- Layout --- */

/* Are the rows of one head too scattered to be streamed alone? */
static bool is_token_major(const struct gqa_problem *p) {
    const int64_t row = p->head_dim * (int64_t)gqa_type_bytes(p->kv_type);
    if (p->kv_heads == 1)
        return false;
    if (p->paging != GQA_CONTIGUOUS && p->page_size * row < ROW_RUN_BYTES)
        return true;
    return p->k.token > p->k.head;
}

/* Work of `tokens` tokens of all KV heads: bytes, weighted where arithmetic takes longer. */
static int64_t work_of(const struct gqa_problem *p, int64_t tokens) {
    const int64_t bytes = (p->head_dim + p->head_dim_v) * (int64_t)gqa_type_bytes(p->kv_type);
    const int64_t rows = (int64_t)problem_group(p) * p->q_tokens;
    const int64_t weight = max64(1, rows / ROWS_PER_STREAM);
    return times_upto(tokens, p->kv_heads * bytes * weight, INT64_MAX / 4);
}

static int64_t invariant_tokens(const struct gqa_problem *p) {
    if (p->split_tokens)
        return p->split_tokens;
    return p->head_dim <= 64 ? 2048 : p->head_dim <= 128 ? 1024 : 512;
}

static void layout_splits(const struct gqa_problem *p, struct cpu_layout *l) {
    const int64_t lanes = p->batch * l->lanes;
    if (p->split_mode == GQA_SPLIT_AUTO) {
        const int64_t cost = times_upto(p->batch, p->kv_len + LANE_COST, INT64_MAX / 4);
        const int64_t shares = max64(1, min64(CPU_MAX_SHARES, work_of(p, cost) / SHARE_WORK));
        l->workers = (int)min64(CPU_MAX_WORKERS, shares);
        l->slots = shares > 1 ? 2 * shares : 0;
        return;
    }
    if (p->split_mode == GQA_SPLIT_FIXED) {
        l->splits = p->splits;
    } else {
        l->split_tokens = invariant_tokens(p);
        l->splits = max64(1, (p->kv_len + l->split_tokens - 1) / l->split_tokens);
    }
    l->workers = (int)max64(1, times_upto(lanes, l->splits, CPU_MAX_WORKERS));
    l->slots = l->splits > 1 ? times_upto(lanes, l->splits, INT64_MAX / 4) : 0;
}

/* Sizes of scratch and slots for lanes of so many rows; returns bytes in all. */
static size_t layout_workspace(const struct gqa_problem *p, int64_t most_rows,
                               struct cpu_layout *l) {
    layout_splits(p, l);
    l->scratch_floats = round_up(most_rows * (l->q_stride + l->acc_stride + 2), 64);
    l->slot_floats = round_up(most_rows * (l->acc_stride + 2), 64);
    l->slot_offset = (size_t)l->workers * (size_t)l->scratch_floats * sizeof(float);
    return l->slot_offset + (size_t)times_upto(l->slots, l->slot_floats * 4, INT64_MAX / 2);
}

void cpu_layout(const struct gqa_problem *p, const struct cpu_kernel *kernel,
                struct cpu_layout *l) {
    *l = (struct cpu_layout){.rows = problem_group(p) * p->q_tokens};
    l->q_stride = (int)round_up(p->head_dim, CPU_DIM_PAD);
    l->acc_stride = (int)round_up(p->head_dim_v, CPU_DIM_PAD);

    /* Sizes are taken from an upper bound over the heads of a lane that only grows with rows, so
     * that the workspace is monotone although `heads` falls as rows grow. */
    const int64_t row_floats = l->q_stride + l->acc_stride + 2;
    const bool is_by_token = is_token_major(p);
    const int most_heads = (int)max64(1, min64(p->kv_heads, LANE_FLOATS / (l->rows * row_floats)));
    const int64_t more_rows =
        max64(l->rows, min64((int64_t)p->kv_heads * l->rows, LANE_FLOATS / row_floats));
    l->heads = is_by_token ? most_heads : 1;
    l->lanes = (p->kv_heads + l->heads - 1) / l->heads;
    l->heads = (p->kv_heads + l->lanes - 1) / l->lanes;

    const int row_bytes = (p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v) *
                          (int)gqa_type_bytes(p->kv_type);
    l->block = (int)max64(16, min64(CPU_BLOCK, kernel->block_bytes / row_bytes / 16 * 16));
    l->segments = kernel->segments;

    l->workspace_bytes = layout_workspace(p, is_by_token ? more_rows : l->rows, l);

    /* Strides decide between lanes of one head and of several, and a cache of one token has no
     * token stride: what is needed must not depend on it, or it could shrink as kv_len grows. */
    struct cpu_layout other = *l;
    const int heads = is_by_token ? 1 : most_heads;
    other.lanes = (p->kv_heads + heads - 1) / heads;
    const size_t bytes = layout_workspace(p, is_by_token ? l->rows : more_rows, &other);
    l->workspace_bytes = bytes > l->workspace_bytes ? bytes : l->workspace_bytes;
}

/* --- Lengths --- */

static int64_t row_length(const struct cpu_call *c, int64_t batch) {
    const struct gqa_problem *p = c->p;
    const struct gqa_tensors *t = c->t;
    int64_t len = p->kv_len;
    if (t->kv_lens) {
        len = t->kv_lens[batch];
    } else if (p->paging == GQA_PAGED_CSR) {
        const int64_t entry = t->batch_index ? t->batch_index[batch] : batch;
        const int64_t pages = (int64_t)t->page_indptr[entry + 1] - t->page_indptr[entry];
        len = pages > 0 ? (pages - 1) * p->page_size + t->last_page_len[batch] : 0;
    }
    return max64(0, min64(len, p->kv_len));
}

struct cpu_row cpu_row(const struct cpu_call *c, int64_t batch) {
    const struct gqa_problem *p = c->p;
    struct cpu_row row = {.len = row_length(c, batch), .q_tokens = p->q_tokens};
    if (p->q_ragged) {
        const int32_t *cu = c->t->cu_seqlens_q;
        row.q_row = cu[batch];
        row.q_tokens = (int)max64(0, min64((int64_t)cu[batch + 1] - cu[batch], p->q_tokens));
    }
    if (row.q_tokens > 0) {
        int64_t ignored;
        problem_visible(p, row.len, 0, row.q_tokens, &row.begin, &ignored);
        problem_visible(p, row.len, row.q_tokens - 1, row.q_tokens, &ignored, &row.end);
        row.begin = min64(row.begin, row.end);
    }
    return row;
}

/* --- Places on the line of lanes --- */

/* The line is ordered by sequence, then lane, then token. */
struct place {
    int64_t batch;
    int lane;
    int64_t token;
    bool is_inside; /* past the lane's first token: the lane is cut here */
};

/* A walk along the line; `before` is the cost of the sequences before `batch`. */
struct cursor {
    int64_t batch, before;
};

static struct place place_at(const struct cpu_call *c, struct cursor *cursor, int64_t at) {
    for (; cursor->batch < c->p->batch; cursor->batch++) {
        const struct cpu_row row = cpu_row(c, cursor->batch);
        const int64_t cost = row.end - row.begin + LANE_COST;
        const int64_t rest = at - cursor->before;
        if (rest >= cost * c->layout.lanes) {
            cursor->before += cost * c->layout.lanes;
            continue;
        }
        struct place place = {cursor->batch, (int)(rest / cost), row.begin, false};
        const int64_t token = (row.begin + rest % cost - LANE_COST) / CUT_ALIGN * CUT_ALIGN;
        if (token - row.begin < CUT_ALIGN)
            return place;
        if (row.end - token >= CUT_ALIGN) {
            place.token = token;
            place.is_inside = true;
        } else if (++place.lane == c->layout.lanes) {
            place = (struct place){cursor->batch + 1, 0, 0, false};
        }
        return place;
    }
    return (struct place){c->p->batch, 0, 0, false};
}

static struct place share_begin(const struct cpu_call *c, struct cursor *cursor, int64_t share) {
    if (share >= c->shares)
        return (struct place){c->p->batch, 0, 0, false};
    return place_at(c, cursor, (int64_t)((__int128)c->cost * share / c->shares));
}

static bool same_lane(const struct place *a, const struct place *b) {
    return a->batch == b->batch && a->lane == b->lane;
}

/* --- Shares --- */

int64_t cpu_share_count(const struct gqa_problem *p, const struct cpu_layout *l, int64_t tokens,
                        int threads) {
    if (l->splits)
        return p->batch * l->lanes * l->splits;
    const int64_t work = work_of(p, tokens), used = min64(threads, l->workers);
    const int64_t chunks = max64(1, min64(CHUNKS, work / used / CHUNK_WORK));
    const int64_t wanted = used == 1 ? 1 : used * chunks;
    return max64(1, min64(min64(wanted, l->slots / 2), work / SHARE_WORK));
}

int64_t cpu_full_tokens(const struct gqa_problem *p) {
    const int64_t seen = p->window_left < 0
                             ? p->kv_len_expected
                             : min64(p->kv_len_expected, p->window_left + p->q_tokens);
    return p->batch * (seen + LANE_COST);
}

void cpu_call_begin(struct cpu_call *c, int threads) {
    int64_t tokens = 0;
    for (int64_t b = 0; b < c->p->batch; b++) {
        const struct cpu_row row = cpu_row(c, b);
        tokens += row.end - row.begin + LANE_COST;
    }
    c->cost = tokens * c->layout.lanes;
    c->shares = cpu_share_count(c->p, &c->layout, tokens, threads);
}

bool cpu_call_is_large(const struct cpu_call *c) {
    return work_of(c->p, c->cost / c->layout.lanes) >= WAKE_WORK;
}

static float *slot_at(const struct cpu_call *c, int64_t slot) {
    return (float *)(c->workspace + c->layout.slot_offset) + slot * c->layout.slot_floats;
}

static float *scratch_at(const struct cpu_call *c, int worker) {
    return (float *)c->workspace + worker * c->layout.scratch_floats;
}

static struct cpu_lane lane_of(const struct cpu_call *c, int64_t batch, int lane) {
    const int head = lane * c->layout.heads;
    return (struct cpu_lane){
        .batch = batch,
        .head = head,
        .heads = (int)min64(c->layout.heads, c->p->kv_heads - head),
    };
}

static void share_run_auto(const struct cpu_call *c, int64_t share, int worker) {
    struct cursor cursor = {0, 0};
    struct place at = share_begin(c, &cursor, share);
    const struct place end = share_begin(c, &cursor, share + 1);
    while (at.batch < end.batch || (at.batch == end.batch && at.lane <= end.lane)) {
        const bool is_last = same_lane(&at, &end);
        if (is_last && (!end.is_inside || (at.is_inside && at.token >= end.token)))
            break;
        const struct cpu_row row = cpu_row(c, at.batch);
        struct cpu_lane lane = lane_of(c, at.batch, at.lane);
        lane.begin = at.is_inside ? at.token : row.begin;
        lane.end = is_last ? end.token : row.end;
        if (at.is_inside)
            lane.slot = slot_at(c, 2 * share);
        else if (is_last)
            lane.slot = slot_at(c, 2 * share + 1);
        cpu_lane_run(c, &row, &lane, scratch_at(c, worker));
        at.is_inside = false;
        if (++at.lane == c->layout.lanes)
            at = (struct place){at.batch + 1, 0, 0, false};
    }
}

/* Tokens of split `split` of a row, empty if begin >= end. */
static void split_range(const struct cpu_layout *l, const struct cpu_row *row, int64_t split,
                        int64_t *begin, int64_t *end) {
    if (l->split_tokens) {
        *begin = max64(row->begin, split * l->split_tokens);
        *end = min64(row->end, (split + 1) * l->split_tokens);
    } else {
        const int64_t tokens = row->end - row->begin;
        *begin = row->begin + tokens * split / l->splits;
        *end = row->begin + tokens * (split + 1) / l->splits;
    }
}

static void share_run_split(const struct cpu_call *c, int64_t share, int worker) {
    const struct cpu_layout *l = &c->layout;
    const int64_t at = share / l->splits, split = share % l->splits;
    const struct cpu_row row = cpu_row(c, at / l->lanes);
    struct cpu_lane lane = lane_of(c, at / l->lanes, (int)(at % l->lanes));
    split_range(l, &row, split, &lane.begin, &lane.end);
    if (l->splits > 1) {
        if (lane.begin >= lane.end)
            return;
        lane.slot = slot_at(c, share);
    }
    cpu_lane_run(c, &row, &lane, scratch_at(c, worker));
}

void cpu_share_run(const struct cpu_call *c, int64_t share, int worker) {
    if (c->layout.splits)
        share_run_split(c, share, worker);
    else
        share_run_auto(c, share, worker);
}

/* --- Folding what was cut --- */

static void fold_slot(const struct cpu_call *c, struct cpu_state *sum, bool *is_first, int64_t slot,
                      int64_t rows) {
    const struct cpu_state next = cpu_state_at(&c->layout, slot_at(c, slot));
    if (*is_first)
        *sum = next;
    else
        cpu_state_fold(&c->layout, sum, &next, rows);
    *is_first = false;
}

/* The lane that the start of share `share` cuts first, if it does. */
static void fold_auto(const struct cpu_call *c, int64_t share) {
    struct cursor cursor = {0, 0};
    const struct place before = share_begin(c, &cursor, share - 1);
    struct place cut = share_begin(c, &cursor, share);
    if (!cut.is_inside || (before.is_inside && same_lane(&before, &cut)))
        return;
    const struct cpu_row row = cpu_row(c, cut.batch);
    const struct cpu_lane lane = lane_of(c, cut.batch, cut.lane);
    const int64_t rows = (int64_t)lane.heads * row.q_tokens * problem_group(c->p);
    struct cpu_state sum;
    bool is_first = true;
    fold_slot(c, &sum, &is_first, 2 * (share - 1) + 1, rows);
    for (bool more = true; more; share++) {
        const struct place next = share_begin(c, &cursor, share + 1);
        more = next.is_inside && same_lane(&next, &cut);
        if (!more || next.token > cut.token)
            fold_slot(c, &sum, &is_first, 2 * share, rows);
        cut = more ? next : cut;
    }
    cpu_lane_store(c, &row, &lane, &sum);
}

static void fold_splits(const struct cpu_call *c, int64_t at) {
    const struct cpu_layout *l = &c->layout;
    const struct cpu_row row = cpu_row(c, at / l->lanes);
    const struct cpu_lane lane = lane_of(c, at / l->lanes, (int)(at % l->lanes));
    const int64_t rows = (int64_t)lane.heads * row.q_tokens * problem_group(c->p);
    struct cpu_state sum;
    bool is_first = true;
    for (int64_t s = 0; s < l->splits; s++) {
        int64_t begin, end;
        split_range(l, &row, s, &begin, &end);
        if (begin < end)
            fold_slot(c, &sum, &is_first, at * l->splits + s, rows);
    }
    if (is_first) {
        sum = cpu_state_at(l, slot_at(c, at * l->splits));
        for (int64_t r = 0; r < rows; r++)
            sum.sum[r] = 0;
    }
    cpu_lane_store(c, &row, &lane, &sum);
}

int64_t cpu_fold_parts(const struct cpu_call *c) {
    if (c->layout.splits)
        return c->layout.splits > 1 ? c->p->batch * c->layout.lanes : 0;
    return c->shares - 1;
}

void cpu_fold_run(const struct cpu_call *c, int64_t part) {
    if (c->layout.splits)
        fold_splits(c, part);
    else
        fold_auto(c, part + 1);
}
