/* split.c: divergence.  A warp is a set of splits (pc, lanes).  Lanes that part at a branch leave a
 * join record at its immediate post-dominator; a split that gets there waits for the lanes that
 * still live.  Other splits of the warp go on meanwhile (independent thread scheduling), so lanes
 * of one warp may wait for each other.  With emu_options.late_rejoin there are no join records:
 * splits meet only at instructions with a member mask.
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "ops.h"
#include "check.h"

static void remove_split(struct warp *w, u32 k) {
    u32 last = --w->nsplits;
    if (k != last)
        w->splits[k] = w->splits[last];
    if (w->cur == last)
        w->cur = k;
}

static s32 new_join(struct warp *w, const struct insn *i) {
    for (s32 k = 0; k < MAX_JOINS; k++)
        if (!w->joins[k].used)
            return k;
    emu_fault(w, i, "control flow diverges more than %d levels deep", MAX_JOINS);
}

static void set_join(struct warp *w, struct split *s, s32 j) {
    s->join = j;
    s->join_pc = j < 0 ? REF_NONE : w->joins[j].pc;
}

/* The record is complete: its lanes go on as one split. */
static void join_complete(struct warp *w, s32 j) {
    struct join *jn = &w->joins[j];
    jn->used = false;
    if (!jn->have)
        return;
    struct split *s = &w->splits[w->nsplits++];
    *s = (struct split){.pc = jn->pc, .mask = jn->have};
    set_join(w, s, jn->parent);
}

static void join_check(struct warp *w, s32 j) {
    if (w->joins[j].used && w->joins[j].have == w->joins[j].want)
        join_complete(w, j);
}

/* The last split that is not at a join: nobody comes whom it could wait for. */
static void release_last(struct warp *w) {
    struct split *s = &w->splits[0];
    if (w->nsplits == 1 && s->state == SPLIT_COLLECT && w->code[s->pc].flags & INSN_MEET)
        s->state = SPLIT_RUN;
}

/* Splits standing at their join arrive there, until none does. */
void splits_arrive(struct warp *w) {
    for (u32 k = 0; k < w->nsplits;) {
        struct split *s = &w->splits[k];
        if (s->state != SPLIT_RUN || s->pc != s->join_pc) {
            k++;
            continue;
        }
        s32 j = s->join;
        w->joins[j].have |= s->mask;
        remove_split(w, k);
        join_check(w, j);
        k = 0;
    }
    release_last(w);
}

int op_bra(struct warp *w, const struct insn *i, u32 m) {
    struct split *s = &w->splits[w->cur];
    if (m == s->mask) {
        s->pc = i->target;
        return JUMP;
    }
    if (w->nsplits == LANES)
        emu_fault(w, i, "more splits than lanes");
    bool late = w->cta->grid->emu->opt.late_rejoin;
    if (i->rejoin != REF_NONE && s->join_pc != i->rejoin && !late) {
        s32 j = new_join(w, i);
        w->joins[j] = (struct join){
            .pc = i->rejoin, .want = s->mask, .have = 0, .parent = s->join, .used = true};
        set_join(w, s, j);
    }
    struct split *t = &w->splits[w->nsplits++];
    *t = *s;
    t->mask = m;
    t->pc = i->target;
    s->mask &= ~m;
    s->pc++;
    return JUMP;
}

/* Indexed branch: one split per distinct target. */
int op_brx(struct warp *w, const struct insn *i, u32 m) {
    const u32 *idx = reg_at(w, i->a);
    u32 rest = m;
    while (rest) {
        u32 l = (u32)__builtin_ctz(rest), same = 0;
        if (idx[l] >= i->nops)
            emu_fault(w, i, "lane %u: index %u of %u targets", l, idx[l], i->nops);
        FOR_LANES(k, rest) if (idx[k] == idx[l]) same |= 1u << k;
        rest &= ~same;
        struct insn one = *i;
        one.target = i->ops[idx[l]];
        struct split *s = &w->splits[w->cur];
        if (same == s->mask) {
            s->pc = one.target;
            return JUMP;
        }
        op_bra(w, &one, same);
        /* the remaining lanes are still at this instruction */
        w->splits[w->cur].pc--;
    }
    w->splits[w->cur].pc++;
    return JUMP;
}

static void drop_lanes(struct warp *w, u32 mask) {
    for (s32 j = 0; j < MAX_JOINS; j++) {
        if (!w->joins[j].used)
            continue;
        w->joins[j].want &= ~mask;
        w->joins[j].have &= ~mask;
        join_check(w, j);
    }
}

int warp_exit(struct warp *w, u32 mask) {
    struct split *s = &w->splits[w->cur];
    w->live &= ~mask;
    s->mask &= ~mask;
    s->pc++;
    if (!s->mask)
        remove_split(w, w->cur);
    drop_lanes(w, mask);
    for (u32 k = 0; k < w->nsplits; k++)
        if (w->splits[k].state == SPLIT_COLLECT)
            w->splits[k].state = SPLIT_RUN;
    if (!w->live)
        w->done = true;
    return JUMP;
}

/* Lanes leave the joins below `to`: they merged outside of them. */
static void leave_joins(struct warp *w, s32 from, s32 to, u32 mask) {
    while (from >= 0 && from != to) {
        s32 parent = w->joins[from].parent;
        w->joins[from].want &= ~mask;
        join_check(w, from);
        from = parent;
    }
}

static s32 common_join(struct warp *w, s32 a, s32 b) {
    for (s32 x = a; x >= 0; x = w->joins[x].parent)
        for (s32 y = b; y >= 0; y = w->joins[y].parent)
            if (x == y)
                return x;
    return -1;
}

static bool collect(struct warp *w, const struct insn *i, u32 members, bool same_pc) {
    struct split *s = &w->splits[w->cur];
    u32 need = members & w->live;
    if (!(need & ~s->mask))
        return true;
    u32 here = s->mask;
    for (u32 k = 0; k < w->nsplits; k++) {
        struct split *t = &w->splits[k];
        if (k != w->cur && t->state == SPLIT_COLLECT && (!same_pc || t->pc == s->pc) &&
            (t->mask & need))
            here |= t->mask;
    }
    if (need & ~here) {
        s->state = SPLIT_COLLECT;
        s->key = wait_key(KEY_COLLECT, s->pc);
        s->why = "lanes of the member mask";
        return false;
    }
    u32 pc = s->pc;
    for (u32 k = 0; k < w->nsplits;) {
        struct split *t = &w->splits[k];
        s = &w->splits[w->cur];
        if (k == w->cur || t->state != SPLIT_COLLECT || !(t->mask & need)) {
            k++;
            continue;
        }
        if (t->pc != pc) { /* another bar.warp.sync: each goes on from its own place */
            t->state = SPLIT_RUN;
            t->pc++;
            k++;
            continue;
        }
        s32 to = common_join(w, s->join, t->join), s_join = s->join, t_join = t->join;
        u32 s_mask = s->mask, t_mask = t->mask;
        s->mask |= t->mask;
        set_join(w, s, to);
        remove_split(w, k);
        leave_joins(w, s_join, to, s_mask);
        leave_joins(w, t_join, to, t_mask);
        k = 0;
    }
    (void)i;
    return true;
}

bool warp_collect(struct warp *w, const struct insn *i, u32 members, bool same_pc) {
    if (!collect(w, i, members, same_pc))
        return false;
    if (!(w->live & ~members))
        check_together(w);
    return true;
}

/* Lanes that come by different ways to one .aligned instruction are not always together there: the
 * ways may have no common post-dominator before it (a branch on a uniform value behind a branch on
 * the lane, threaded by the compiler).  The ISA asks only that all execute the same instruction. */
bool warp_meet(struct warp *w, const struct insn *i) {
    return w->nsplits == 1 || warp_collect(w, i, w->live, true);
}
