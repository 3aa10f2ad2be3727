/* op_atom.c: atom and red on memory, in every type (PTX ISA, atom, red).
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "num.h"

enum aop { A_ADD, A_MIN, A_MAX, A_INC, A_DEC, A_CAS, A_EXCH, A_AND, A_OR, A_XOR };
static const char *const aop_names[] = {"add",  "min", "max", "inc", "dec", "cas",
                                        "exch", "and", "or",  "xor", NULL};

static u64 int_op(enum aop op, enum type t, u64 old, u64 b, u64 c) {
    bool sgn = t == T_S32 || t == T_S64;
    s64 so = t == T_S32 ? (s32)old : (s64)old, sb = t == T_S32 ? (s32)b : (s64)b;
    switch (op) {
    case A_ADD:
        return old + b;
    case A_MIN:
        return sgn ? (u64)(so < sb ? so : sb) : old < b ? old : b;
    case A_MAX:
        return sgn ? (u64)(so > sb ? so : sb) : old > b ? old : b;
    case A_INC:
        return (u32)old >= (u32)b ? 0 : old + 1;
    case A_DEC:
        return !(u32)old || (u32)old > (u32)b ? b : old - 1;
    case A_CAS:
        return old == b ? c : old;
    case A_EXCH:
        return b;
    case A_AND:
        return old & b;
    case A_OR:
        return old | b;
    default:
        return old ^ b;
    }
}

static u32 half_one(enum aop op, enum num_fmt f, u32 a, u32 b) {
    if (op == A_ADD)
        return num_add_code(f, a, b, 0);
    float x = num_to_f32(f, a), y = num_to_f32(f, b);
    return num_from_f64(
        f, (double)(op == A_MIN ? num_min(x, y, false, false) : num_max(x, y, false, false)),
        NUM_RN, 0);
}

/* New value of one element. */
u64 atom_apply(struct warp *w, const struct insn *i, u32 op, enum type t, u64 old, u64 b, u64 c) {
    enum num_fmt f = t == T_BF16 || t == T_BF16X2 ? NUM_BF16 : NUM_F16;
    switch (t) {
    case T_F32:
        if (op == A_ADD)
            return num_bits32(num_add(num_float((u32)old), num_float((u32)b), NUM_RN, 0));
        break;
    case T_F64:
        if (op == A_ADD)
            return num_bits64(num_add64(num_double(old), num_double(b), NUM_RN));
        break;
    case T_F16X2:
    case T_BF16X2:
        return half_one(op, f, (u32)old & 0xffff, (u32)b & 0xffff) |
               half_one(op, f, (u32)(old >> 16) & 0xffff, (u32)(b >> 16) & 0xffff) << 16;
    case T_F16:
    case T_BF16:
        return half_one(op, f, (u32)old & 0xffff, (u32)b & 0xffff);
    default:
        return int_op(op, t, old, b, c);
    }
    emu_fault(w, i, "this operation does not exist for .%s", type_name(t));
}

/* space as in ld; target: the operation, c: type in `size`... see dec */
struct atom {
    u8 op, bytes, lane, n;
    enum type t;
};

static int op_atom(struct warp *w, const struct insn *i, u32 m) {
    struct atom x = {.op = (u8)(i->target & 15), .t = i->target >> 8, .n = i->n};
    x.bytes = (u8)type_bytes(x.t);
    const u32 lane = x.bytes == 8 ? 8 : 4, bytes = (u32)x.bytes * x.n;
    bool changed = false;
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        u8 *p = mem_at(w, i, l, i->space, a, bytes, ACC_READ | ACC_WRITE | ACC_ATOMIC);
        if (w->check)
            check_mem(w, i, l, i->space, a, bytes, ACC_READ | ACC_WRITE | ACC_ATOMIC);
        for (u32 k = 0; k < x.n; k++) {
            u64 old = 0, b = 0, c = 0;
            memcpy(&old, p + k * x.bytes, x.bytes);
            memcpy(&b, (const u8 *)reg_at(w, x.n == 1 ? i->b : i->ops[x.n + k]) + lane * l, lane);
            if (x.op == A_CAS)
                memcpy(&c, (const u8 *)reg_at(w, i->c) + lane * l, lane);
            u64 mask = x.bytes == 8 ? ~0ull : (1ull << 8 * x.bytes) - 1;
            u64 now = atom_apply(w, i, x.op, x.t, old, b & mask, c & mask) & mask;
            changed |= now != old;
            memcpy(p + k * x.bytes, &now, x.bytes);
            ref d = x.n == 1 ? i->d : i->ops[k];
            if (d != REF_NONE)
                memcpy((u8 *)reg_at(w, d) + lane * l, &old, lane);
        }
    }
    w->cta->grid->emu->progress += changed;
    return YIELD;
}

/* exch and cas of 16 bytes */
static int op_atom_128(struct warp *w, const struct insn *i, u32 m) {
    bool changed = false;
    FOR_LANES(l, m) {
        const u64 a = lane_address(w, i, i->a, l);
        u8 *p = mem_at(w, i, l, i->space, a, 16, ACC_READ | ACC_WRITE | ACC_ATOMIC), old[16];
        if (w->check)
            check_mem(w, i, l, i->space, a, 16, ACC_READ | ACC_WRITE | ACC_ATOMIC);
        const u8 *b = (const u8 *)reg_at(w, i->b) + 16 * l;
        memcpy(old, p, 16);
        if (i->c == REF_NONE)
            memcpy(p, b, 16);
        else if (!memcmp(p, b, 16))
            memcpy(p, (const u8 *)reg_at(w, i->c) + 16 * l, 16);
        changed |= memcmp(old, p, 16) != 0;
        memcpy((u8 *)reg_at(w, i->d) + 16 * l, old, 16);
    }
    w->cta->grid->emu->progress += changed;
    return YIELD;
}

static void atomic(struct dec *d, bool has_dst) {
    struct insn *in = d->in;
    enum type t = dec_type(d, 0);
    int op = -1;
    bool wide;
    for (u32 k = 0; k < d->nwords && op < 0; k++) /* ".and" is unique, ".add" too */
        for (int j = 0; aop_names[j]; j++)
            if (!strcmp(d->word[k], aop_names[j]))
                op = j;
    if (op < 0 || (t == T_B128 && ((op != A_CAS && op != A_EXCH) || !has_dst)))
        dec_fail(d, "this operation is not supported");
    u32 at = has_dst ? 1 : 0, n = dec_has(d, "v8")   ? 8
                                  : dec_has(d, "v4") ? 4
                                  : dec_has(d, "v2") ? 2
                                                     : 1;
    u32 need = at + 2 + (op == A_CAS) + dec_has(d, "L2::cache_hint");
    dec_nops(d, need, need);
    if (d->op[at].kind != OP_MEM)
        dec_fail(d, "an address in brackets is due");
    in->sem = dec_sem(d);
    if (!(in->sem & SCOPE_MASK) && !dec_has(d, "cta"))
        in->sem |= SCOPE_GPU; /* the default */
    if (!(in->sem & 15))
        in->sem |= SEM_RELAXED;
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, &d->op[at], in->space, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0;
    in->target = (u32)op | (u32)t << 8;
    in->n = (u8)n;
    if (n == 1) {
        if (has_dst)
            in->d = dec_dst(d, &d->op[0], t);
        in->b = dec_src(d, &d->op[at + 1], t);
        if (op == A_CAS)
            in->c = dec_src(d, &d->op[at + 2], t);
    } else {
        ref *r = dec_refs(d, 2 * n);
        for (u32 k = 0; k < n; k++)
            r[k] = REF_NONE;
        if (has_dst)
            dec_vec(d, &d->op[0], t, true, r, n);
        dec_vec(d, &d->op[at + 1], t, false, r + n, n);
    }
    in->fn = t == T_B128 ? op_atom_128 : op_atom;
}
void dec_atom(struct dec *d) {
    atomic(d, true);
}
void dec_red(struct dec *d) {
    atomic(d, false);
}
