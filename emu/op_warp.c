/* op_warp.c: instructions of a whole warp: shfl, vote, match, redux, elect, activemask,
 * bar.warp.sync.  All wait until the lanes of the member mask are here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "check.h"
#include "num.h"

/* The lanes that are here, when all members are; else 0.  Lanes of one instruction may have
 * different masks (tiles of half a warp): all wait for all of them. */
static u32 gather(struct warp *w, const struct insn *i, u32 m, ref r, bool same_pc) {
    const u32 *v = reg_at(w, r);
    u32 all = 0, outside = 0;
    FOR_LANES(l, m) {
        all |= v[l];
        outside |= (~v[l] >> l & 1) << l;
    }
    if (!(all & m))
        emu_fault(w, i, "member mask 0x%08x has none of the executing lanes 0x%08x", all, m);
    if (outside)
        emu_report(w, i, EMU_WARP,
                   "lanes 0x%08x execute this but are not in the member mask 0x%08x", outside,
                   v[__builtin_ctz(outside)]);
    if (!warp_collect(w, i, all, same_pc))
        return 0;
    u32 here = w->splits[w->cur].mask;
    if (i->guard != REF_NONE)
        here &= pred_at(w, i->guard);
    return here;
}

/* Takes from *rest the lanes that have the mask of its first: they act together. */
static u32 group(struct warp *w, const struct insn *i, ref r, u32 *rest, bool same_pc) {
    const u32 *v = reg_at(w, r);
    const u32 mask = v[__builtin_ctz(*rest)];
    u32 same = 0;
    FOR_LANES(l, *rest) same |= (u32)(v[l] == mask) << l;
    *rest &= ~same;
    const u32 missing = mask & w->live & ~same;
    if (same_pc && missing) /* others may stand at another bar.warp.sync */
        emu_report(w, i, EMU_WARP,
                   "lanes 0x%08x of the member mask do not execute this with that mask", missing);
    return same & mask;
}

/* Runs `one` for the lanes of each mask. */
typedef void together(struct warp *w, const struct insn *i, u32 act);
static int each_group(struct warp *w, const struct insn *i, u32 m, ref r, together *one) {
    u32 rest = gather(w, i, m, r, true);
    if (!rest)
        return BLOCK;
    while (rest) {
        const u32 act = group(w, i, r, &rest, true);
        if (act)
            one(w, i, act);
    }
    return NEXT;
}

static int op_barwarp(struct warp *w, const struct insn *i, u32 m) {
    u32 rest = gather(w, i, m, i->a, false);
    if (!rest)
        return BLOCK;
    while (rest) {
        const u32 act = group(w, i, i->a, &rest, false);
        if (act)
            check_warp_sync(w, act); /* shfl, vote and the like order no memory */
    }
    return NEXT;
}
void dec_barwarp(struct dec *d) {
    dec_nops(d, 1, 1);
    d->in->a = dec_src(d, &d->op[0], T_B32);
    d->in->fn = op_barwarp;
}

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };
static void shfl_group(struct warp *w, const struct insn *i, u32 act) {
    u32 src[LANES], ok = 0, odd = 0, *d = reg_at(w, i->d);
    const u32 *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);
    memcpy(src, reg_at(w, i->a), sizeof src);
    FOR_LANES(l, act) {
        u32 b = pb[l] & 31, seg = pc[l] >> 8 & 31, clamp = pc[l] & 31;
        s32 max = (s32)((l & seg) | (clamp & ~seg)), min = (s32)(l & seg), j;
        bool p;
        switch (i->n) {
        case SHFL_UP:
            j = (s32)l - (s32)b;
            p = j >= max;
            break;
        case SHFL_DOWN:
            j = (s32)(l + b);
            p = j <= max;
            break;
        case SHFL_BFLY:
            j = (s32)(l ^ b);
            p = j <= max;
            break;
        default:
            j = min | (s32)(b & ~seg & 31);
            p = j <= max;
            break;
        }
        if (!p)
            j = (s32)l;
        ok |= (u32)p << l;
        if (!(act >> j & 1))
            odd |= 1u << l;
        d[l] = src[j];
    }
    if (odd)
        emu_report(w, i, EMU_WARP, "lanes 0x%08x read a lane that does not take part", odd);
    if (i->nops > 1)
        pred_set(w, i->ops[1], act, ok);
}
static int op_shfl(struct warp *w, const struct insn *i, u32 m) {
    return each_group(w, i, m, i->ops[0], shfl_group);
}
void dec_shfl(struct dec *d) {
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    struct opnd *pair = d->op[0].pair;
    int k = dec_one_of(d, modes);
    dec_nops(d, 5, 5);
    if (k < 0)
        dec_fail(d, "a mode is due");
    d->in->d = dec_dst(d, &d->op[0], T_B32);
    d->in->a = dec_src(d, &d->op[1], T_B32);
    d->in->b = dec_src(d, &d->op[2], T_B32);
    d->in->c = dec_src(d, &d->op[3], T_B32);
    ref *r = dec_refs(d, pair ? 2 : 1);
    r[0] = dec_src(d, &d->op[4], T_B32);
    if (pair)
        r[1] = dec_pred(d, pair, true);
    d->in->n = (u8)k;
    d->in->fn = op_shfl;
}

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };
static void vote_group(struct warp *w, const struct insn *i, u32 act) {
    u32 p = pred_at(w, i->a) & act;
    if (i->n == VOTE_BALLOT) {
        u32 *d = reg_at(w, i->d);
        FOR_LANES(l, act) d[l] = p;
        return;
    }
    bool r = i->n == VOTE_ALL ? p == act : i->n == VOTE_ANY ? p != 0 : p == act || p == 0;
    pred_set(w, i->d, act, r ? ~0u : 0);
}
static int op_vote(struct warp *w, const struct insn *i, u32 m) {
    return each_group(w, i, m, i->b, vote_group);
}
void dec_vote(struct dec *d) {
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    int k = dec_one_of(d, modes);
    dec_nops(d, 3, 3);
    if (k < 0)
        dec_fail(d, "a mode is due");
    d->in->d = k == VOTE_BALLOT ? dec_dst(d, &d->op[0], T_B32) : dec_pred(d, &d->op[0], true);
    d->in->a = dec_pred(d, &d->op[1], false);
    d->in->b = dec_src(d, &d->op[2], T_B32);
    d->in->n = (u8)k;
    d->in->fn = op_vote;
}

static void match_group(struct warp *w, const struct insn *i, u32 act) {
    u32 *d = reg_at(w, i->d), out[LANES] = {0}, all = ~0u;
    bool wide = i->size == 8;
    FOR_LANES(l, act) {
        u64 v = wide ? ((const u64 *)reg_at(w, i->a))[l] : ((const u32 *)reg_at(w, i->a))[l];
        FOR_LANES(k, act) {
            u64 u = wide ? ((const u64 *)reg_at(w, i->a))[k] : ((const u32 *)reg_at(w, i->a))[k];
            out[l] |= (u32)(u == v) << k;
        }
        if (out[l] != act)
            all = 0;
    }
    FOR_LANES(l, act) d[l] = i->n ? (all ? act : 0) : out[l];
    if (i->nops)
        pred_set(w, i->ops[0], act, all);
}
static int op_match(struct warp *w, const struct insn *i, u32 m) {
    return each_group(w, i, m, i->b, match_group);
}
void dec_match(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 3, 3);
    d->in->d = dec_dst(d, &d->op[0], T_B32);
    if (d->op[0].pair)
        dec_refs(d, 1)[0] = dec_pred(d, d->op[0].pair, true);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], T_B32);
    d->in->size = (u8)type_bytes(t);
    d->in->n = dec_has(d, "all");
    d->in->fn = op_match;
}

enum { RX_ADD, RX_MIN, RX_MAX, RX_AND, RX_OR, RX_XOR };
static u32 redux_int(u32 op, bool sgn, u32 a, u32 b) {
    switch (op) {
    case RX_ADD:
        return a + b;
    case RX_MIN:
        return sgn ? ((s32)a < (s32)b ? a : b) : a < b ? a : b;
    case RX_MAX:
        return sgn ? ((s32)a > (s32)b ? a : b) : a > b ? a : b;
    case RX_AND:
        return a & b;
    case RX_OR:
        return a | b;
    default:
        return a ^ b;
    }
}
/* flags: 1 signed, 2 f32, 4 abs, 8 NaN */
static void redux_group(struct warp *w, const struct insn *i, u32 act) {
    u32 *d = reg_at(w, i->d), r = 0;
    const u32 *a = reg_at(w, i->a);
    bool first = true;
    FOR_LANES(l, act) {
        u32 v = i->flags & 4 ? a[l] & 0x7fffffff : a[l];
        if (first)
            r = v;
        else if (i->flags & 2)
            r = num_bits32(i->n == RX_MIN
                               ? num_min(num_float(r), num_float(v), i->flags & 8, false)
                               : num_max(num_float(r), num_float(v), i->flags & 8, false));
        else
            r = redux_int(i->n, i->flags & 1, r, v);
        first = false;
    }
    if ((i->flags & 2) && num_float(r) != num_float(r))
        r = NUM_NAN32;
    FOR_LANES(l, act) d[l] = r;
}
static int op_redux(struct warp *w, const struct insn *i, u32 m) {
    return each_group(w, i, m, i->b, redux_group);
}
void dec_redux(struct dec *d) {
    static const char *const names[] = {"add", "min", "max", "and", "or", "xor", NULL};
    enum type t = dec_type(d, 0);
    int k = dec_one_of(d, names);
    dec_nops(d, 3, 3);
    if (k < 0)
        dec_fail(d, "an operation is due");
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], T_B32);
    d->in->flags = (t == T_S32) | (t == T_F32 ? 2u : 0u) | (dec_has(d, "abs") ? 4u : 0u) |
                   (dec_has(d, "NaN") ? 8u : 0u);
    d->in->n = (u8)k;
    d->in->fn = op_redux;
}

static void elect_group(struct warp *w, const struct insn *i, u32 act) {
    u32 lead = (u32)__builtin_ctz(act);
    if (i->d != REF_NONE) {
        u32 *d = reg_at(w, i->d);
        FOR_LANES(l, act) d[l] = lead;
    }
    pred_set(w, i->ops[0], act, 1u << lead);
}
static int op_elect(struct warp *w, const struct insn *i, u32 m) {
    return each_group(w, i, m, i->a, elect_group);
}
void dec_elect(struct dec *d) {
    dec_nops(d, 2, 2);
    if (!d->op[0].pair)
        dec_fail(d, "d|p is due");
    if (d->op[0].kind != OP_SINK)
        d->in->d = dec_dst(d, &d->op[0], T_B32);
    dec_refs(d, 1)[0] = dec_pred(d, d->op[0].pair, true);
    d->in->a = dec_src(d, &d->op[1], T_B32);
    d->in->fn = op_elect;
}

static int op_activemask(struct warp *w, const struct insn *i, u32 m) {
    u32 *d = reg_at(w, i->d);
    FOR_LANES(l, m) d[l] = m;
    return NEXT;
}
void dec_activemask(struct dec *d) {
    dec_nops(d, 1, 1);
    d->in->d = dec_dst(d, &d->op[0], T_B32);
    d->in->fn = op_activemask;
}
