/* op_mem.c: loads, stores, moves and address arithmetic.  Atomics are in op_atom.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "timing.h"
#include "access.h"

/* --- ld and st --- */

static void put_lane(struct warp *w, const struct insn *i, ref r, u32 l, const u8 *p) {
    if (i->size == 16) {
        memcpy((u8 *)reg_at(w, r) + 16 * l, p, 16);
        return;
    }
    u64 v = 0;
    memcpy(&v, p, i->size);
    if (i->flags & MEM_SEXT)
        v = i->size == 1 ? (u64)(s64)(s8)v : i->size == 2 ? (u64)(s64)(s16)v : (u64)(s64)(s32)v;
    if (i->flags & MEM_WIDE_REG)
        ((u64 *)reg_at(w, r))[l] = v;
    else
        ((u32 *)reg_at(w, r))[l] = i->flags & MEM_REG16 ? (u16)v : (u32)v;
}

static int load_yield(const struct insn *i) {
    return i->sem & 15 ? YIELD : NEXT;
}

static int op_ld(struct warp *w, const struct insn *i, u32 m) {
    const u32 bytes = (u32)i->size * i->n;
    const u32 acc = ACC_READ | (i->flags & MEM_NC ? ACC_NC : 0u);
    if (i->space == SP_LOCAL)
        w->cta->grid->emu->stats[EMU_STAT_LOCAL]++;
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        const u8 *p = mem_at(w, i, l, i->space, a, bytes, acc);
        if (w->check)
            check_mem(w, i, l, i->space, a, bytes, acc);
        if (i->n == 1)
            put_lane(w, i, i->d, l, p);
        else
            for (u32 k = 0; k < i->n; k++)
                put_lane(w, i, i->ops[k], l, p + k * i->size);
    }
    return load_yield(i);
}

/* The common scalar load of 4 bytes. */
static int op_ld_4(struct warp *w, const struct insn *i, u32 m) {
    u32 *pd = reg_at(w, i->d);
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        const u32 *p = mem_at(w, i, l, i->space, a, 4, ACC_READ);
        if (w->check)
            check_mem(w, i, l, i->space, a, 4, ACC_READ);
        pd[l] = *p;
    }
    return NEXT;
}

/* Kernel parameters at a constant offset: the same for all lanes. */
static int op_ld_param(struct warp *w, const struct insn *i, u32 m) {
    const u8 *p = w->cta->grid->params + i->imm;
    FOR_LANES(l, m)
    for (u32 k = 0; k < i->n; k++)
        put_lane(w, i, i->n == 1 ? i->d : i->ops[k], l, p + k * i->size);
    return NEXT;
}

static int op_st(struct warp *w, const struct insn *i, u32 m) {
    const u32 bytes = (u32)i->size * i->n;
    bool changed = false;
    if (i->space == SP_LOCAL)
        w->cta->grid->emu->stats[EMU_STAT_LOCAL]++;
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        u8 *p = mem_at(w, i, l, i->space, a, bytes, ACC_WRITE), v[64];
        for (u32 k = 0; k < i->n; k++) {
            const u8 *r = reg_at(w, i->n == 1 ? i->d : i->ops[k]);
            u32 lane = i->size == 16 ? 16 : i->flags & MEM_WIDE_REG ? 8 : 4;
            memcpy(v + k * i->size, r + lane * l, i->size);
        }
        bool same = !memcmp(p, v, bytes);
        if (w->check)
            check_mem(w, i, l, i->space, a, bytes, ACC_WRITE | (same ? (u32)ACC_SAME : 0u));
        changed |= !same;
        memcpy(p, v, bytes);
    }
    w->cta->grid->emu->progress += changed && i->space != SP_LOCAL;
    if (i->sem & 15)
        return YIELD;
    return NEXT;
}

/* The common store: n words of 4 bytes. */
static inline int store_words(struct warp *w, const struct insn *i, u32 m, u32 n) {
    const u32 *r[4];
    bool changed = false;
    for (u32 k = 0; k < n; k++)
        r[k] = reg_at(w, n == 1 ? i->d : i->ops[k]);
    FOR_LANES(l, m) {
        const u64 a = lane_address(w, i, i->a, l);
        u32 *p = mem_at(w, i, l, i->space, a, 4 * n, ACC_WRITE), differ = 0;
        for (u32 k = 0; k < n; k++)
            differ |= p[k] ^ r[k][l];
        if (w->check)
            check_mem(w, i, l, i->space, a, 4 * n, ACC_WRITE | (differ ? 0u : (u32)ACC_SAME));
        changed |= differ != 0;
        for (u32 k = 0; k < n; k++)
            p[k] = r[k][l];
    }
    w->cta->grid->emu->progress += changed;
    return NEXT;
}
static int op_st_4(struct warp *w, const struct insn *i, u32 m) {
    return store_words(w, i, m, 1);
}
static int op_st_16(struct warp *w, const struct insn *i, u32 m) {
    return store_words(w, i, m, 4);
}
static int op_ld_16(struct warp *w, const struct insn *i, u32 m) {
    u32 *r[4];
    for (u32 k = 0; k < 4; k++)
        r[k] = reg_at(w, i->ops[k]);
    FOR_LANES(l, m) {
        const u64 a = lane_address(w, i, i->a, l);
        const u32 *p = mem_at(w, i, l, i->space, a, 16, ACC_READ);
        if (w->check)
            check_mem(w, i, l, i->space, a, 16, ACC_READ);
        const u32 v[4] = {p[0], p[1], p[2], p[3]}; /* a register may hold the address */
        for (u32 k = 0; k < 4; k++)
            r[k][l] = v[k];
    }
    return NEXT;
}

/* Arguments of a call. */
static int op_ld_call(struct warp *w, const struct insn *i, u32 m) {
    const u8 *base = reg_at(w, i->a);
    FOR_LANES(l, m)
    for (u32 k = 0; k < i->n; k++)
        put_lane(w, i, i->n == 1 ? i->d : i->ops[k], l,
                 base + l * i->target + i->imm + k * i->size);
    return NEXT;
}
static int op_st_call(struct warp *w, const struct insn *i, u32 m) {
    u8 *base = reg_at(w, i->a);
    u32 lane = i->size == 16 ? 16 : i->flags & MEM_WIDE_REG ? 8 : 4;
    FOR_LANES(l, m)
    for (u32 k = 0; k < i->n; k++)
        memcpy(base + l * i->target + i->imm + k * i->size,
               (const u8 *)reg_at(w, i->n == 1 ? i->d : i->ops[k]) + lane * l, i->size);
    return NEXT;
}

static u32 vec_count(struct dec *d) {
    return dec_has(d, "v8") ? 8 : dec_has(d, "v4") ? 4 : dec_has(d, "v2") ? 2 : 1;
}

/* Data registers may be wider than the type. */
static ref data_reg(struct dec *d, struct opnd *o, enum type t, bool write) {
    u32 lane;
    if (o->kind != OP_REG) {
        lane = type_bytes(t) > 4 ? (u32)type_bytes(t) : 4;
        if (lane == 8)
            d->in->flags |= MEM_WIDE_REG;
        return write ? dec_dst(d, o, t) : dec_src(d, o, t);
    }
    ref r = dec_any(d, o, write, &lane);
    if ((int)lane < type_bytes(t) || (lane == 16) != (t == T_B128))
        dec_fail(d, "a .%s register does not fit .%s", type_name(o->rtype), type_name(t));
    if (lane == 8)
        d->in->flags |= MEM_WIDE_REG;
    if (type_bytes(o->rtype) == 2)
        d->in->flags |= MEM_REG16;
    return r;
}

static void data_operands(struct dec *d, struct opnd *o, enum type t, bool write) {
    struct insn *in = d->in;
    in->n = (u8)vec_count(d);
    in->size = (u8)type_bytes(t);
    if (!in->size)
        dec_fail(d, "a type is due");
    if ((u32)in->n * in->size > 32)
        dec_fail(d, "more than 32 bytes in one access");
    if (t == T_S8 || t == T_S16 || t == T_S32)
        in->flags |= MEM_SEXT;
    if (in->n == 1) {
        in->d = data_reg(d, dec_only(o), t, write);
        return;
    }
    if (o->kind != OP_VEC || o->nsub != in->n)
        dec_fail(d, "a list of %u registers is due", in->n);
    ref *r = dec_refs(d, in->n);
    for (u32 k = 0; k < in->n; k++)
        r[k] = data_reg(d, &o->sub[k], t, write);
}

/* [argument + offset] of a call; false when it is another address. */
static bool call_address(struct dec *d, struct opnd *o) {
    if (o->kind != OP_MEM || !o->nsub || o->sub[0].kind != OP_SYM ||
        o->sub[0].sym->kind != SYM_CALL)
        return false;
    struct sym *s = o->sub[0].sym;
    struct insn *in = d->in;
    in->a = REF(BANK_REG, s->reg);
    in->imm = o->sub[0].integer;
    in->target = (u32)s->bytes;
    if (in->imm < 0 || (u64)in->imm + (u64)in->n * in->size > s->bytes)
        dec_fail(d, "outside the argument '%s'", s->name);
    return true;
}

static void cache_operand(struct dec *d, u32 plain) {
    bool hint = dec_has(d, "L2::cache_hint");
    dec_nops(d, plain + hint, plain + hint);
    if (hint)
        dec_src(d, &d->op[plain], T_B64);
}

static void address(struct dec *d, struct opnd *o) {
    struct insn *in = d->in;
    bool wide;
    if (o->kind != OP_MEM || o->nsub != 1)
        dec_fail(d, "an address in brackets is due");
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, o, in->space, &in->imm, &wide);
    in->flags |= wide ? MEM_WIDE_ADDR : 0u;
}

/* Plain accesses of words: no conversion, no order, not local memory (which is counted). */
static bool plain_words(const struct insn *in) {
    return in->size == 4 && !(in->flags & (MEM_WIDE_REG | MEM_NC)) && !(in->sem & 15) &&
           in->space != SP_LOCAL;
}

void dec_ld(struct dec *d) {
    struct insn *in = d->in;
    enum type t = dec_type(d, 0);
    cache_operand(d, 2);
    in->sem = dec_sem(d);
    data_operands(d, &d->op[0], t, true);
    if (call_address(d, &d->op[1])) {
        in->fn = op_ld_call;
        return;
    }
    address(d, &d->op[1]);
    if (dec_has(d, "nc"))
        in->flags |= MEM_NC;
    in->fn = op_ld;
    if (plain_words(in))
        in->fn = in->n == 1 ? op_ld_4 : in->n == 4 ? op_ld_16 : op_ld;
    struct opnd *a = &d->op[1].sub[0];
    if (in->space == SP_PARAM && a->kind == OP_SYM && a->sym->kind == SYM_PARAM) {
        s64 off = (s64)a->sym->addr + a->integer;
        if (off < 0 || (u64)off + (u64)in->n * in->size > d->p->fn->param_bytes)
            dec_fail(d, "outside the parameters");
        if (off % ((s64)in->n * in->size))
            dec_fail(d, "a parameter load that is not aligned");
        in->imm = off;
        in->fn = op_ld_param;
    }
}

void dec_st(struct dec *d) {
    enum type t = dec_type(d, 0);
    cache_operand(d, 2);
    d->in->sem = dec_sem(d);
    data_operands(d, &d->op[1], t, false);
    if (call_address(d, &d->op[0])) {
        d->in->fn = op_st_call;
        return;
    }
    address(d, &d->op[0]);
    if (d->in->space == SP_PARAM || d->in->space == SP_CONST)
        dec_fail(d, "this space cannot be written");
    d->in->fn = op_st;
    if (plain_words(d->in))
        d->in->fn = d->in->n == 1 ? op_st_4 : d->in->n == 4 ? op_st_16 : op_st;
}

/* --- mov --- */

DEF1(mov_32, u32, u32, u32, a)
DEF1(mov_64, u64, u64, u64, a)
static int mov_128(struct warp *w, const struct insn *i, u32 m) {
    u8 *d = reg_at(w, i->d);
    const u8 *a = reg_at(w, i->a);
    FOR_LANES(l, m) memmove(d + 16 * l, a + 16 * l, 16);
    return NEXT;
}

/* Parts of `size` bytes to and from one register of n * size bytes. */
static int mov_pack(struct warp *w, const struct insn *i, u32 m) {
    u32 bytes = (u32)i->n * i->size, part = i->size < 4 ? 4 : i->size;
    u32 lane = bytes < 4 ? 4 : bytes; /* of a register */
    u8 *d = reg_at(w, i->d);
    FOR_LANES(l, m) {
        u8 v[16] = {0};
        for (u32 k = 0; k < i->n; k++)
            memcpy(v + k * i->size, (const u8 *)reg_at(w, i->ops[k]) + l * part, i->size);
        memcpy(d + l * lane, v, lane);
    }
    return NEXT;
}
static int mov_unpack(struct warp *w, const struct insn *i, u32 m) {
    u32 bytes = (u32)i->n * i->size, part = i->size < 4 ? 4 : i->size;
    u32 lane = bytes < 4 ? 4 : bytes;
    const u8 *a = reg_at(w, i->a);
    FOR_LANES(l, m) {
        u8 v[16];
        memcpy(v, a + l * lane, lane);
        for (u32 k = 0; k < i->n; k++) {
            u32 x = 0;
            u8 *to = (u8 *)reg_at(w, i->ops[k]) + l * part;
            memcpy(&x, v + k * i->size, i->size < 4 ? i->size : 4);
            if (i->size <= 4)
                memcpy(to, &x, 4);
            else
                memcpy(to, v + k * i->size, i->size);
        }
    }
    return NEXT;
}
static int mov_pack_64(struct warp *w, const struct insn *i, u32 m) {
    u64 *d = reg_at(w, i->d);
    const u32 *lo = reg_at(w, i->ops[0]), *hi = reg_at(w, i->ops[1]);
    EACH_LANE(m, { d[l] = (u64)hi[l] << 32 | lo[l]; });
    return NEXT;
}
static int mov_unpack_64(struct warp *w, const struct insn *i, u32 m) {
    const u64 *a = reg_at(w, i->a);
    u32 *lo = reg_at(w, i->ops[0]), *hi = reg_at(w, i->ops[1]);
    EACH_LANE(m, {
        const u64 v = a[l];
        lo[l] = (u32)v;
        hi[l] = (u32)(v >> 32);
    });
    return NEXT;
}

enum clock_kind {
    CK_CLOCK,
    CK_CLOCK_HI,
    CK_CLOCK64,
    CK_TIMER,
    CK_TIMER_LO,
    CK_TIMER_HI,
    CK_ZERO,
    CK_WORK_HI,
    CK_WORK_LO
};
/* What cooperative groups synchronise a grid with: the workspace's bytes, then a barrier word of
 * zero. */
static u64 workspace(struct grid *g) {
    if (!g->workspace) {
        g->workspace = emu_alloc(g->emu, 64);
        if (!g->workspace)
            return 0;
        memset((void *)(uintptr_t)g->workspace, 0, 64);
        *(u32 *)(uintptr_t)g->workspace = 64;
        emu_host_write(g->emu, g->workspace, 64);
    }
    return g->workspace;
}

static int mov_clock(struct warp *w, const struct insn *i, u32 m) {
    struct emu *e = w->cta->grid->emu;
    u64 t = w->time ? time_globaltimer(w) : e->time_ns, cycles = w->time ? time_clock(w) : t * 2;
    u64 v = i->n == CK_TIMER || i->n == CK_TIMER_LO  ? t
            : i->n == CK_CLOCK || i->n == CK_CLOCK64 ? cycles
            : i->n == CK_ZERO                        ? 0
            : i->n == CK_WORK_HI                     ? workspace(w->cta->grid) >> 32
            : i->n == CK_WORK_LO                     ? (u32)workspace(w->cta->grid)
            : i->n == CK_CLOCK_HI                    ? cycles >> 32
                                                     : t >> 32;
    e->time_ns += w->time ? 0 : 20;
    FOR_LANES(l, m) {
        if (i->size == 8)
            ((u64 *)reg_at(w, i->d))[l] = v;
        else
            ((u32 *)reg_at(w, i->d))[l] = (u32)v;
    }
    return NEXT;
}
static bool mov_special(struct dec *d, enum type t) {
    static const char *const names[] = {
        "%clock",          "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo",
        "%globaltimer_hi", "%envreg0",  "%envreg1", "%envreg2",     NULL};
    if (d->op[1].kind != OP_SPECIAL)
        return false;
    for (int k = 0; names[k]; k++)
        if (!strcmp(d->op[1].name, names[k])) {
            d->in->n = (u8)k;
            d->in->size = (u8)type_bytes(t);
            d->in->d = dec_dst(d, &d->op[0], t);
            d->in->fn = mov_clock;
            return true;
        }
    return false;
}

static void mov_vector(struct dec *d, enum type t) {
    static const enum type part[] = {[1] = T_B8, [2] = T_B16, [4] = T_B32, [8] = T_B64};
    struct insn *in = d->in;
    bool pack = d->op[1].kind == OP_VEC;
    struct opnd *v = pack ? &d->op[1] : &d->op[0];
    u32 n = v->nsub, bytes = (u32)type_bytes(t);
    if ((n != 2 && n != 4) || bytes % n || bytes / n > 8)
        dec_fail(d, "%u parts of a .%s", n, type_name(t));
    in->n = (u8)n;
    in->size = (u8)(bytes / n);
    ref *r = dec_refs(d, n);
    dec_vec(d, v, part[in->size], !pack, r, n);
    if (pack)
        in->d = dec_dst(d, &d->op[0], t);
    else
        in->a = dec_src(d, &d->op[1], t);
    bool sink = false;
    for (u32 k = 0; k < n; k++)
        sink |= (r[k] & REF_SINK) != 0;
    for (u32 k = 0; k < n; k++)
        r[k] &= ~3u;
    in->fn = pack ? mov_pack : mov_unpack;
    if (bytes == 4 && n == 2)
        return;
    if (n == 2 && in->size == 4)
        in->fn = pack ? mov_pack_64 : sink ? mov_unpack : mov_unpack_64;
}

void dec_mov_pred(struct dec *d);
void dec_mov(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 2, 2);
    if (t == T_PRED) {
        dec_mov_pred(d);
    } else if (d->op[0].kind == OP_VEC || d->op[1].kind == OP_VEC) {
        mov_vector(d, t);
    } else if (!mov_special(d, t)) {
        dec_1(d, t);
        d->in->flags = 1; /* a copy: see check_registers */
        d->in->fn = type_bytes(t) <= 4 ? mov_32 : type_bytes(t) == 8 ? mov_64 : mov_128;
    }
}

/* --- Address spaces --- */

static u64 window(enum space sp) {
    return sp == SP_SHARED || sp == SP_CLUSTER ? WIN_SHARED
           : sp == SP_LOCAL                    ? WIN_LOCAL
           : sp == SP_PARAM                    ? WIN_PARAM
                                               : 0;
}
static int op_cvta(struct warp *w, const struct insn *i, u32 m) {
    u64 *d = reg_at(w, i->d);
    const u64 *a = reg_at(w, i->a);
    const u64 win = (u64)i->imm;
    EACH_LANE(m, { d[l] = a[l] + win; });
    return NEXT;
}
static int op_cvta_to(struct warp *w, const struct insn *i, u32 m) {
    u64 *d = reg_at(w, i->d);
    const u64 *a = reg_at(w, i->a);
    const u64 win = (u64)i->imm;
    FOR_LANES(l, m) {
        if (win && a[l] && (a[l] & WIN_MASK) != win)
            emu_fault(w, i, "lane %u: generic address 0x%llx is not in this space", l,
                      (unsigned long long)a[l]);
        d[l] = a[l] ? a[l] - win : 0;
    }
    return NEXT;
}
void dec_cvta(struct dec *d) {
    dec_nops(d, 2, 2);
    d->in->d = dec_dst(d, &d->op[0], T_U64);
    d->in->a = dec_src(d, &d->op[1], T_U64);
    d->in->imm = (s64)window(dec_space(d));
    bool to = dec_has(d, "to");
    d->in->fn = to && d->in->imm ? op_cvta_to : op_cvta;
}

static int op_isspacep(struct warp *w, const struct insn *i, u32 m) {
    const u64 *a = reg_at(w, i->a);
    u32 r = 0;
    FOR_LANES(l, m) {
        u64 win = a[l] & WIN_MASK;
        bool is_win = win == WIN_SHARED || win == WIN_LOCAL || win == WIN_PARAM, t;
        switch ((enum space)i->space) {
        case SP_SHARED:
            t = win == WIN_SHARED && (a[l] >> 24 & 0xff) == w->cta->rank;
            break;
        case SP_CLUSTER:
            t = win == WIN_SHARED;
            break;
        case SP_LOCAL:
            t = win == WIN_LOCAL;
            break;
        case SP_PARAM:
            t = win == WIN_PARAM;
            break;
        case SP_CONST: {
            struct allocation *al = mem_find(w->cta->grid->emu, a[l]);
            t = al && al->read_only;
            break;
        }
        default:
            t = !is_win;
            break;
        }
        r |= (u32)t << l;
    }
    pred_set(w, i->d, m, r);
    return NEXT;
}
void dec_isspacep(struct dec *d) {
    dec_nops(d, 2, 2);
    d->in->d = dec_pred(d, &d->op[0], true);
    d->in->a = dec_src(d, &d->op[1], T_U64);
    d->in->space = (u8)dec_space(d);
    d->in->fn = op_isspacep;
}

/* A rank that the cluster lacks gives an address that faults where it is used: whole warps compute
 * it where some lanes use it. */
static int op_mapa(struct warp *w, const struct insn *i, u32 m) {
    const u32 *ranks = reg_at(w, i->b);
    FOR_LANES(l, m) {
        const u32 rank = ranks[l] < w->cta->cluster->n ? ranks[l] : 0xff;
        if (i->size == 8) {
            u64 a = ((const u64 *)reg_at(w, i->a))[l];
            ((u64 *)reg_at(w, i->d))[l] = (a & ~0xff000000ull) | (u64)rank << 24;
        } else {
            u32 a = ((const u32 *)reg_at(w, i->a))[l];
            ((u32 *)reg_at(w, i->d))[l] = (a & 0xffffff) | rank << 24;
        }
    }
    return NEXT;
}
void dec_mapa(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 3, 3);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], T_U32);
    d->in->size = (u8)type_bytes(t);
    d->in->fn = op_mapa;
}
static int op_getctarank(struct warp *w, const struct insn *i, u32 m) {
    u32 *d = reg_at(w, i->d);
    FOR_LANES(l, m) {
        u64 a =
            i->size == 8 ? ((const u64 *)reg_at(w, i->a))[l] : ((const u32 *)reg_at(w, i->a))[l];
        d[l] = (u32)(a >> 24) & 0xff;
    }
    return NEXT;
}
void dec_getctarank(struct dec *d) {
    enum type t = dec_type(d, 0);
    dec_nops(d, 2, 2);
    d->in->d = dec_dst(d, &d->op[0], T_U32);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->size = (u8)type_bytes(t);
    d->in->fn = op_getctarank;
}

/* --- Cache control: the address must be good, nothing moves --- */

static int op_prefetch(struct warp *w, const struct insn *i, u32 m) {
    (void)w;
    (void)i;
    (void)m;
    return NEXT; /* a prefetch of any address is legal (PTX ISA, prefetch) */
}
void dec_prefetch(struct dec *d) {
    bool wide;
    if (!d->nops)
        dec_fail(d, "an address is due");
    d->in->a = dec_addr(d, &d->op[0], SP_GENERIC, &d->in->imm, &wide);
    d->in->fn = op_prefetch;
}
static int op_policy(struct warp *w, const struct insn *i, u32 m) {
    u64 *d = reg_at(w, i->d);
    FOR_LANES(l, m) d[l] = 0x12f0000000000000ull;
    return NEXT;
}
void dec_createpolicy(struct dec *d) {
    dec_nops(d, 1, 5);
    d->in->d = dec_dst(d, &d->op[0], T_B64);
    d->in->fn = op_policy;
}
