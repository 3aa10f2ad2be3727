/* SPDX-License-Identifier: Apache-2.0
 * The grid finish: a unit has several clusters, or CTAs without any, and what each has merged goes
 * by letters to the last of them, within one launch.
 *
 * A letter is one item (finish.cuh) with its row's maximum and sum: 32 bytes in the
 * workspace, every fourth word LETTER_TAG. 16 bytes are written and read whole, so those that bear
 * the tag have arrived; nothing needs a fence, a counter or a second kernel, which
 * costs 3 us where this costs 1 (H200). The reader wipes what it has read: the next launch, whose
 * writes wait for the end of this one, finds no tags again. A workspace that is new may hold
 * anything but the tag, a NaN that no arithmetic makes.
 *
 * The reader is the unit's last cluster, or CTA. It waits for CTAs with smaller numbers only,
 * which have been started before it, so it waits for nobody who waits for its SM. */
#ifndef GQA_FINISH_GRID_SM90_CUH
#define GQA_FINISH_GRID_SM90_CUH

#include "finish_sm90.cuh"

#define LETTER_TAG 0xffd15ea5u

/* A CTA's place among those of its unit. */
struct post {
    bool is_last;
    int slot;    /* of its own letters; of its first source's, if it is the last */
    int sources; /* whose letters it gets: slot, slot + 1, ... */
};

/* Part s of the unit, where parts are splits. */
DEV struct post post_of_split(const struct gqa_args *a, int unit, int s) {
    struct post x = {true, 0, 0};
    if (a->finish != GQA_FINISH_GRID)
        return x;
    const int others = divide(a->splits, a->by_cluster) - 1, mine = divide(s, a->by_cluster);
    x.is_last = mine == others;
    x.sources = x.is_last ? others : 0;
    x.slot = unit * others + (x.is_last ? 0 : mine);
    return x;
}

DEV uint32_t *letter_at(const struct gqa_args *a, int slot, int r, int quad) {
    const int64_t row = (int64_t)slot * a->part_rows + r;
    return (uint32_t *)a->part_o + (row * (a->part_dim / 4) + quad) * GQA_LETTER_WORDS;
}

struct letter {
    uint32_t w[GQA_LETTER_WORDS];
};

DEV void letter_write(uint32_t *at, const struct letter *x) {
    st_relaxed_gpu_b128(at, x->w);
    st_relaxed_gpu_b128(at + 4, x->w + 4);
}

DEV void letter_read(const uint32_t *at, struct letter *x) {
    ld_relaxed_gpu_b128(at, x->w);
    ld_relaxed_gpu_b128(at + 4, x->w + 4);
}

DEV void letter_send(uint32_t *at, const struct merged *m) {
    const struct letter x = {{__float_as_uint(m->max), __float_as_uint(m->sum),
                              __float_as_uint(m->o[0]), LETTER_TAG, __float_as_uint(m->o[1]),
                              __float_as_uint(m->o[2]), __float_as_uint(m->o[3]), LETTER_TAG}};
    letter_write(at, &x);
}

DEV bool letter_is_here(const struct letter *x) {
    return x->w[3] == LETTER_TAG && x->w[7] == LETTER_TAG;
}

DEV struct merged letter_content(const struct letter *x) {
    const struct merged m = {__uint_as_float(x->w[0]),
                             __uint_as_float(x->w[1]),
                             {__uint_as_float(x->w[2]), __uint_as_float(x->w[4]),
                              __uint_as_float(x->w[5]), __uint_as_float(x->w[6])}};
    return m;
}

/* A source joins m; see finish.cuh for its weight. */
DEV void merged_add(struct merged *m, const struct merged *x) {
    const bool used = x->sum != 0;
    const float max = used ? fmaxf(m->max, x->max) : m->max;
    const float keep = ex2_approx_ftz(m->max - max);
    const float weight = used ? ex2_approx_ftz(x->max - max) : 0.0f;
    m->max = max;
    m->sum = m->sum * keep + (used ? weight * x->sum : 0.0f);
#pragma unroll
    for (int j = 0; j < 4; j++)
        m->o[j] = m->o[j] * keep + (used ? weight * x->o[j] : 0.0f);
}

/* Lane `lane` of an item's `lanes` reads the letters of sources lane, lane + lanes, ...; several
 * are asked for at once. m, the item of this CTA, counts in lane 0. */
DEV void letters_add(const struct gqa_args *a, const struct post *post, int r, int quad,
                     struct merged *m, int lane, int lanes) {
    enum { AT_ONCE = ROWS == 8 ? 2 : 1 }; /* what registers allow */
    const struct merged none = {NEG_LARGE, 0, {0, 0, 0, 0}};
    const struct letter wiped = {{0}};
    const int pitch = a->part_rows * (a->part_dim / 4) * GQA_LETTER_WORDS; /* of a source */
    uint32_t *at = letter_at(a, post->slot + lane, r, quad);
    if (lane)
        *m = none;
#pragma unroll 1
    for (int left = post->sources - lane; left > 0; left -= AT_ONCE * lanes) {
        struct letter x[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (j * lanes < left)
                letter_read(at + j * lanes * pitch, &x[j]);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (j * lanes < left) {
                while (!letter_is_here(&x[j]))
                    letter_read(at, &x[j]);
                letter_write(at, &wiped);
                const struct merged source = letter_content(&x[j]);
                merged_add(m, &source);
                at += lanes * pitch;
            }
    }
}

/* An item of this CTA's slice: from its teams, or from the inbox, then in all of the item's lanes.
 * All 32 lanes. */
DEV struct merged grid_item(const struct merge_smem *s, int teams, const struct inbox *in,
                            const struct deal *d, const struct collector *x, int i) {
    if (d->cluster == 1)
        return merge_teams(s, teams, i / QUADS, i % QUADS);
    struct merged m = inbox_sum(in, d, i - d->first, i / QUADS, x->lane, x->lanes);
    merged_join(&m, x->lanes);
    return m;
}

/* This CTA's slice to the unit's last cluster, or there to memory. All threads as often. */
DEV void grid_collect(const struct gqa_args *a, const struct unit *u, const struct post *post,
                      const struct place *to, const struct merge_smem *s, int teams,
                      const struct inbox *in, const struct deal *d, const struct collector *x,
                      struct trace *trace) {
    const int rows = min_int(ROWS, unit_rows(a, u) - u->row_tile * ROWS);
    const float v_factor = v_scale_of(a, u) * FP8_FACTOR;
#pragma unroll 1
    for (int item = x->item; item - x->item + d->first < d->last; item += x->step) {
        const int i = min_int(item, d->last - 1), r = i / QUADS, quad = i % QUADS;
        struct merged m = grid_item(s, teams, in, d, x, i);
        const bool wanted = item < d->last && r < rows && 4 * quad < a->part_dim;
        if (!post->is_last) {
            trace_enter(trace, TRACE_letters_send);
            if (wanted && !x->lane)
                letter_send(letter_at(a, post->slot, r, quad), &m);
            continue;
        }
        trace_enter(trace, TRACE_wait_letters);
        if (wanted)
            letters_add(a, post, r, quad, &m, x->lane, x->lanes);
        trace_enter(trace, TRACE_cluster_merge);
        merged_join(&m, x->lanes);
        if (wanted && !x->lane)
            merged_write(a, u, to, u->row_tile * ROWS + r, 4 * quad, &m, v_factor);
    }
}

DEV void finish_grid(const struct gqa_args *a, const struct unit *u, const struct post *post,
                     const struct place *to, const struct merge_smem *x, int teams,
                     struct inbox *in, struct trace *trace, int t, int threads) {
    const struct deal d = in->deal;
    const struct collector mine = collector_of(&d, max_int(d.cluster, post->sources), t, threads);
    if (d.cluster > 1) {
        trace_enter(trace, TRACE_cluster_send);
        cluster_send(a, x, in, &d, teams, t, threads);
        trace_enter(trace, TRACE_wait_cluster);
        inbox_wait(in);
    }
    trace_enter(trace, TRACE_cluster_merge);
    grid_collect(a, u, post, to, x, teams, in, &d, &mine, trace);
}

#endif
