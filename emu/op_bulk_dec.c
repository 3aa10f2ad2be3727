/* op_bulk_dec.c: decoders of the bulk copies.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bulk.h"

static struct bulk *new_bulk(struct dec *d) {
    struct bulk *b = dec_alloc(d, sizeof *b);
    *b = (struct bulk){.dst = REF_NONE,
                       .src = REF_NONE,
                       .size = REF_NONE,
                       .mbar = REF_NONE,
                       .mask = REF_NONE,
                       .map = REF_NONE,
                       .bytes = REF_NONE};
    d->in->ops = (const void *)b;
    return b;
}

static void wide_flag(struct dec *d, bool wide, u32 flag) {
    d->in->flags |= wide ? flag : 0;
}

/* Trailing operands: the multicast mask, the cache policy. */
static void trailing(struct dec *d, struct bulk *b, u32 at) {
    if (dec_has(d, "multicast::cluster")) {
        if (at >= d->nops)
            dec_fail(d, "a multicast mask is due");
        b->mask = dec_src(d, &d->op[at++], T_U16);
        d->in->flags |= B_MULTICAST;
    }
    if (dec_has(d, "L2::cache_hint")) {
        if (at >= d->nops)
            dec_fail(d, "a cache policy is due");
        dec_src(d, &d->op[at++], T_B64);
    }
    if (dec_has(d, "cp_mask")) {
        if (at >= d->nops)
            dec_fail(d, "a byte mask is due");
        b->bytes = dec_src(d, &d->op[at++], T_U16);
    }
    if (at != d->nops)
        dec_fail(d, "%u operands too many", d->nops - at);
    if (dec_has(d, "cta_group::2"))
        d->in->flags |= B_PAIR;
}

static void map_operand(struct dec *d, struct bulk *b, struct opnd *o) {
    bool wide;
    if (o->kind != OP_MEM || o->nsub != 2 || o->sub[1].kind != OP_VEC || o->sub[1].nsub > 5)
        dec_fail(d, "[map, {coordinates}] is due");
    struct opnd one = *o;
    one.nsub = 1;
    b->map = dec_addr(d, &one, SP_GENERIC, &b->map_off, &wide);
    if (!wide)
        dec_fail(d, "a tensor map has a 64-bit address");
    b->ncoords = o->sub[1].nsub;
    for (u32 k = 0; k < b->ncoords; k++)
        b->coord[k] = dec_src(d, &o->sub[1].sub[k], T_S32);
    b->gather = dec_has(d, "tile::gather4") || dec_has(d, "tile::scatter4");
    static const char *const dims[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    b->dims = (u32)dec_one_of(d, dims) + 1;
    b->im2col = dec_has(d, "im2col") || dec_has(d, "im2col_no_offs");
    if (b->im2col && b->dims < 3)
        dec_fail(d, "im2col is for 3d to 5d");
    if (!b->dims || (!b->gather && b->ncoords != b->dims) || (b->gather && b->ncoords != 5))
        dec_fail(d, "%u coordinates do not fit", b->ncoords);
}

static void reduction(struct dec *d, struct bulk *b) {
    static const char *const names[] = {"add", "min", "max", "inc", "dec",
                                        "and", "or",  "xor", NULL};
    b->reduce = !strncmp(d->text, "cp.reduce", 9);
    if (!b->reduce)
        return;
    int k = dec_one_of(d, names);
    if (k < 0)
        dec_fail(d, "an operation is due");
    b->op = (enum reduce_op)k;
}

/* {offsets} of an im2col load: one for each of W, H and D. */
static u32 im2col_offsets(struct dec *d, struct bulk *b, u32 at) {
    if (!b->im2col)
        return at;
    if (at >= d->nops)
        dec_fail(d, "the im2col offsets are due");
    b->noffsets = b->dims - 2;
    dec_vec(d, &d->op[at], T_U16, false, b->offset, b->noffsets);
    return at + 1;
}

static void load_operands(struct dec *d, struct bulk *b) {
    bool wide;
    b->dst_space = dec_has(d, "shared::cluster") ? SP_CLUSTER : SP_SHARED;
    b->dst = dec_addr(d, &d->op[0], SP_SHARED, &b->dst_off, &wide);
    wide_flag(d, wide, MEM_WIDE_ADDR);
}

void dec_tensor(struct dec *d) {
    struct bulk *b = new_bulk(d);
    bool wide;
    if (dec_has(d, "bulk_group")) {
        dec_nops(d, 2, 3);
        b->to_global = true;
        map_operand(d, b, &d->op[0]);
        b->src = dec_addr(d, &d->op[1], SP_SHARED, &b->src_off, &wide);
        wide_flag(d, wide, B_WIDE_SRC);
        reduction(d, b);
        trailing(d, b, 2);
        d->in->fn = op_tensor_store;
        return;
    }
    if (!dec_has(d, "mbarrier::complete_tx::bytes"))
        dec_fail(d, "a completion mechanism is due");
    dec_nops(d, 3, 6);
    load_operands(d, b);
    map_operand(d, b, &d->op[1]);
    b->mbar = dec_addr(d, &d->op[2], SP_SHARED, &b->mbar_off, &wide);
    wide_flag(d, wide, B_WIDE_MBAR);
    trailing(d, b, im2col_offsets(d, b, 3));
    d->in->fn = op_tensor_load;
}

static enum elem_type bulk_type(struct dec *d) {
    switch (dec_type(d, 0)) {
    case T_U32:
    case T_B32:
        return ELEM_U32;
    case T_S32:
        return ELEM_S32;
    case T_U64:
    case T_B64:
        return ELEM_U64;
    case T_S64:
        return ELEM_S64;
    case T_F16:
        return ELEM_F16;
    case T_BF16:
        return ELEM_BF16;
    case T_F32:
        return ELEM_F32;
    case T_F64:
        return ELEM_F64;
    default:
        dec_fail(d, "an element type is due");
    }
}

void dec_bulk(struct dec *d) {
    struct bulk *b = new_bulk(d);
    bool wide;
    reduction(d, b);
    if (b->reduce) {
        b->type = bulk_type(d);
        const char *why = reduce_refuse(b->type, b->op, false);
        if (why)
            dec_fail(d, "%s", why);
    }
    if (dec_has(d, "bulk_group")) {
        dec_nops(d, 3, 5);
        b->dst = dec_addr(d, &d->op[0], SP_GLOBAL, &b->dst_off, &wide);
        b->src = dec_addr(d, &d->op[1], SP_SHARED, &b->src_off, &wide);
        wide_flag(d, wide, B_WIDE_SRC);
        b->size = dec_src(d, &d->op[2], T_U32);
        trailing(d, b, 3);
        d->in->fn = op_bulk_store;
        return;
    }
    if (!dec_has(d, "mbarrier::complete_tx::bytes"))
        dec_fail(d, "a completion mechanism is due");
    if (dec_has(d, "cp_mask"))
        dec_fail(d, ".cp_mask is for copies to global memory");
    dec_nops(d, 4, 6);
    load_operands(d, b);
    bool global = dec_has(d, "global");
    if (b->reduce && (global || b->type == ELEM_S64 || b->type > ELEM_S64))
        dec_fail(d, "a reduction to shared memory is of integers from shared memory");
    b->src = dec_addr(d, &d->op[1], global ? SP_GLOBAL : SP_SHARED, &b->src_off, &wide);
    wide_flag(d, wide, B_WIDE_SRC);
    if (!global)
        d->in->flags |= B_REMOTE;
    b->size = dec_src(d, &d->op[2], T_U32);
    b->mbar = dec_addr(d, &d->op[3], SP_SHARED, &b->mbar_off, &wide);
    wide_flag(d, wide, B_WIDE_MBAR);
    trailing(d, b, 4);
    d->in->fn = op_bulk_load;
}

void dec_bulk_prefetch(struct dec *d) {
    struct bulk *b = new_bulk(d);
    bool wide;
    b->prefetch = true;
    if (strstr(d->text, "tensor")) {
        dec_nops(d, 1, 3);
        map_operand(d, b, &d->op[0]);
        trailing(d, b, im2col_offsets(d, b, 1));
    } else {
        dec_nops(d, 2, 3);
        b->src = dec_addr(d, &d->op[0], SP_GLOBAL, &b->src_off, &wide);
        b->size = dec_src(d, &d->op[1], T_U32);
        trailing(d, b, 2);
    }
    d->in->fn = op_bulk_prefetch;
}
