/* SPDX-License-Identifier: Apache-2.0
 * What the roles of decode_sm90.cu share: shapes, the CTA's shared memory, its parts. The includer
 * has said GQA_WARPS, GQA_TOKEN_STRIDE and GQA_SPLIT_SCORES. */
#ifndef GQA_DECODE_SM90_CUH
#define GQA_DECODE_SM90_CUH

#include "args.h"
#include "shape.h"
#include "finish_sm90.cuh"
#include "pipe.cuh"
#include "trace.cuh"

#include <stddef.h>

enum {
    ATTEND_WARPS = GQA_WARPS,
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
    GROUPS = GQA_GROUPS_sm90(KV_BYTES, HEAD_DIM, ROWS),    /* attend to tiles in turn */
    GROUP_WARPS = ATTEND_WARPS / GROUPS,
    GROUP_TEAMS = TEAMS / GROUPS,
    SUBS = TILE / (STEP * GROUP_TEAMS), /* steps of a warp per tile */
    EARLY_V = ROWS == 8, /* read V before the softmax: its latency hides there; needs registers */
    BAR_ATTEND = 1,
    BAR_INIT = 2,
    BAR_TEAM = 3, /* + team */
};

static_assert(DEPTH % GROUPS == 0 && DEPTH > 0, "a slot belongs to one group");
static_assert(SLICES == 1 || (SLICES == 2 && SUBS == 1 && GROUPS == 1), "see add_partner");
static_assert(SUBS >= 1 && TILE % (STEP * GROUP_TEAMS) == 0, "teams share a tile evenly");

struct smem {
    alignas(128) unsigned char k[DEPTH][SLOT_BYTES], v[DEPTH][SLOT_BYTES];
    struct merge_smem merge;
    struct inbox inbox;
    alignas(16) float half[2][SLICES > 1 ? TEAMS : 0][SLICES][BLOCKS][32][4]; /* see add_partner */
    struct q_smem q[Q_IN_SMEM]; /* written and read by attend warps between BAR_ATTENDs */
    alignas(8) uint64_t k_full[DEPTH], k_empty[DEPTH], v_full[DEPTH], v_empty[DEPTH];
};

struct cta {
    const struct gqa_args *args;
    struct smem *smem;
    struct trace *trace; /* the warp's */
};

/* The parts of this CTA, one after the other; every warp walks them by itself. Without lengths to
 * read that is pure arithmetic, done while earlier kernels still run. */
struct walk {
    struct share share;
    int single; /* 1: one part is to come; 0: it has been; -1: a share */
};

DEV struct walk walk_begin(const struct gqa_args *a) {
    struct walk w;
    w.single = a->schedule == GQA_SCHED_SHARES ? -1 : 1;
    if (a->reads_lengths)
        pdl_wait();
    if (w.single < 0) {
        const struct shares all = shares_of(a);
        w.share = share_of(a, &all, blockIdx.x);
    }
    return w;
}

DEV int walk_next(const struct gqa_args *a, struct walk *w, struct unit *u, struct part *p) {
    if (w->single < 0)
        return share_next(a, &w->share, blockIdx.x, ROWS, u, p);
    if (!w->single)
        return 0;
    w->single = 0;
    const int index = divide(blockIdx.x, a->by_splits), s = blockIdx.x - index * a->splits;
    int g0, g1;
    *u = unit_of_index(a, index);
    const int some = split_grains(a, u, s, &g0, &g1) && u->row_tile * ROWS < unit_rows(a, u);
    *p = part_of_grains(a, u, ROWS, g0, g1, blockIdx.x);
    return some || a->finish >= GQA_FINISH_ATOMIC;
}

#endif
