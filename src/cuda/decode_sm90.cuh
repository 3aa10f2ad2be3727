/* SPDX-License-Identifier: Apache-2.0
 * What the roles of decode_sm90.cu share: shapes, the CTA's shared memory, its parts. */
#ifndef GQA_DECODE_SM90_CUH
#define GQA_DECODE_SM90_CUH

#include "args.h"
#include "shape.h"

#define GQA_KV_BYTES     (GQA_KV >= GQA_KV_e4m3 ? 1 : 2)
#define GQA_TOKEN_STRIDE (GQA_TILE_sm90(GQA_KV_BYTES, GQA_HEAD_DIM, GQA_GROUP) / 4)
#define GQA_K_BLOCK      256
#define GQA_V_DIM        (GQA_HEAD_DIM / 4) /* a warp's of its group */
#define GQA_Q_REGISTERS  GQA_Q_REGISTERS_sm90(GQA_HEAD_DIM)
#define GQA_ACC_CHAINS   (GQA_HEAD_DIM * GQA_GROUP <= 1024 ? 2 : 1) /* what registers allow */
#define GQA_TEAMS        GQA_GROUPS_sm90(GQA_KV_BYTES, GQA_HEAD_DIM, GQA_GROUP)
#define GQA_SUM_WARPS    4

#include "finish_grid_sm90.cuh"
#include "pipe.cuh"
#include "trace.cuh"

#include <stddef.h>

enum {
    GROUPS = TEAMS, /* attend to tiles in turn */
    GROUP_WARPS = 4,
    ATTEND_WARPS = GROUPS * GROUP_WARPS,
    ATTEND_THREADS = 32 * ATTEND_WARPS,
    LOAD_K_WARP = ATTEND_WARPS,
    LOAD_V_WARP,
    THREADS = ATTEND_THREADS + 2 * 32,
    TILE = GQA_TILE_sm90(KV_BYTES, HEAD_DIM, ROWS), /* tokens */
    QUARTER = TILE / 4,
    V_PIECES = 4, /* of a tile, SHIFT bytes apart: a copy for each */
    SHIFT = 128 / V_PIECES,
    SLOT_BYTES = GQA_SLOT_sm90(KV_BYTES, HEAD_DIM, ROWS),
    ROW_BYTES = HEAD_DIM * KV_BYTES,                       /* of heads as wide as the kernel's */
    DEPTH = GQA_STAGES_sm90(KV_BYTES, HEAD_DIM, ROWS) / 2, /* slots for K, and for V */
    STEPS = TILE / STEP,                                   /* of a tile */
    SUBS = STEPS / GROUP_WARPS,                            /* those that a warp scores */
    /* Read V before the softmax: its latency hides there; needs registers. */
    EARLY_V = BLOCKS * D_TILES <= 2,
    WALK_IN_SMEM = ROWS > 8 || HEAD_DIM > 128, /* while a part is worked on; likewise */
    BAR_ATTEND = 1,
    BAR_INIT,
    BAR_WEIGHTS, /* + group */
};

static_assert(DEPTH % GROUPS == 0 && DEPTH > 0, "a slot belongs to one group");
static_assert(STEPS % GROUP_WARPS == 0, "warps share a tile evenly");

/* The parts of this CTA, one after the other; every warp walks them by itself. Without lengths to
 * read that is pure arithmetic, done while earlier kernels still run. Shares are walked backwards:
 * the piece of a unit that goes on in the next CTA comes first, so whoever merges the unit, its
 * last CTA, waits for what was done long ago. */
struct walk {
    int begin, end;     /* grains left, counted as in schedule.cuh; splits: 0, 1 */
    int base, sequence; /* of grain end - 1 */
    int each, longer;   /* struct shares */
};

struct smem {
    alignas(128) unsigned char k[DEPTH][SLOT_BYTES], v[DEPTH][SLOT_BYTES];
    struct merge_smem merge;
    struct inbox inbox;
    /* A group's weights as lanes hold them, of two tiles in turn; and its warps' maxima. */
    alignas(16) uint32_t weights[GROUPS][2][STEPS][BLOCKS][32][2];
    alignas(16) float top[GROUPS][ROWS][GROUP_WARPS];
    struct q_smem q[Q_IN_SMEM]; /* written and read by attend warps between BAR_ATTENDs */
    struct walk walk[WALK_IN_SMEM ? ATTEND_WARPS : 0]; /* see walk_on */
    alignas(8) uint64_t k_full[DEPTH], k_empty[DEPTH], v_full[DEPTH], v_empty[DEPTH];
};

struct cta {
    const struct gqa_args *args;
    struct smem *smem;
    struct trace *trace; /* the warp's */
};

DEV struct walk walk_begin(const struct gqa_args *a) {
    struct walk w = {0, 1, 0, 0, 0, 0};
    lengths_wait(a);
    if (a->schedule == GQA_SCHED_SHARES) {
        const struct shares all = shares_of(a);
        w.begin = share_begin(&all, blockIdx.x);
        w.end = share_begin(&all, blockIdx.x + 1);
        w.sequence = sequence_at(a, w.end - 1, &w.base);
        w.each = all.each;
        w.longer = all.longer;
    }
    return w;
}

/* Loops over tiles start at the step that holds a part's first token: where there is none, as for
 * row tiles past a sequence's rows, the end may lie in that step too. */
DEV void part_skip_empty(struct part *p) {
    if (p->begin >= p->end)
        p->end = 0;
}

/* The share's last part that is left. */
DEV int walk_share(const struct gqa_args *a, struct walk *w, struct unit *u, struct part *p,
                   struct post *post) {
    const int units = a->kv_heads * a->row_tiles, cta = blockIdx.x;
    while (w->begin < w->end) {
        *u = unit_of_sequence(a, w->sequence, 0);
        while (w->end <= w->base) {
            w->sequence--;
            *u = unit_of_sequence(a, w->sequence, 0);
            w->base -= units * (GQA_UNIT_GRAINS + u->grains);
        }
        const int all = GQA_UNIT_GRAINS + u->grains, inner = (w->end - 1 - w->base) / all;
        const int start = w->base + inner * all + GQA_UNIT_GRAINS; /* the unit's first grain */
        const int from = max_int(0, w->begin - start), to = w->end - start;
        w->end = max_int(w->begin, start - GQA_UNIT_GRAINS);
        if (from >= to) /* the share ends in front of that */
            continue;
        unit_set_inner(a, u, inner);
        *p = part_of_grains(a, u, ROWS, u->grain + from, u->grain + to, 2 * cta + (from == 0));
        part_skip_empty(p);
        const struct shares shares = {0, w->each, w->longer};
        post->is_last = to == u->grains;
        post->slot = post->is_last && from ? share_owner(&shares, start) : cta;
        post->sources = cta - post->slot;
        return 1;
    }
    return 0;
}

DEV int walk_next(const struct gqa_args *a, struct walk *w, struct unit *u, struct part *p,
                  struct post *post) {
    if (a->schedule == GQA_SCHED_SHARES)
        return walk_share(a, w, u, p, post);
    if (w->begin == w->end)
        return 0;
    w->begin = w->end;
    const int index = divide(blockIdx.x, a->by_splits), s = blockIdx.x - index * a->splits;
    int g0, g1;
    *u = unit_of_index(a, index);
    const int some = split_grains(a, u, s, &g0, &g1) && u->row_tile * ROWS < unit_rows(a, u);
    *p = part_of_grains(a, u, ROWS, g0, g1, blockIdx.x);
    part_skip_empty(p);
    *post = post_of_split(a, index, s);
    return some || a->finish >= GQA_FINISH_ATOMIC;
}

#endif
