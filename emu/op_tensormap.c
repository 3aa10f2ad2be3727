/* op_tensormap.c: tensor maps changed by the kernel: tensormap.replace, tensormap.cp_fenceproxy.
 * The fence is in op_sync.c, the use of a map in op_bulk.c. SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "access.h"
#include "tensormap.h"

/* 128 bytes at an aligned address, as host memory.  Of a map in the hardware's layout the second
 * half is not looked at: programs leave it as it is. */
static u8 *map_at(struct warp *w, const struct insn *i, u32 l, enum space sp, u64 a, u32 acc) {
    if (a & 127)
        emu_fault(w, i, "lane %u: a tensor map at 0x%llx is not aligned to 128 bytes", l,
                  (unsigned long long)a);
    u8 *p = mem_at(w, i, l, sp, a, TENSORMAP_BYTES, acc | ACC_NOALIGN);
    const u32 bytes = tensormap_bytes(p);
    for (u32 k = 0; w->check && k < bytes; k += 16)
        check_mem(w, i, l, sp, a + k, 16, acc);
    return p;
}

/* n: field; size: bytes of the new value; target: ordinal; a: address, b: value */
static int op_replace(struct warp *w, const struct insn *i, u32 m) {
    char why[300];
    FOR_LANES(l, m) {
        const u64 a = lane_address(w, i, i->a, l);
        const u64 v = lane_value(w, i->b, l, i->size == 8);
        map_at(w, i, l, i->space, a, ACC_READ);
        u8 *map = map_at(w, i, l, i->space, a, ACC_WRITE);
        if (!tensormap_replace(map, (enum tensormap_field)i->n, i->target, v, why, sizeof why))
            emu_fault(w, i, "lane %u: %s", l, why);
    }
    w->cta->grid->emu->progress++;
    return NEXT;
}

void dec_tensormap_replace(struct dec *d) {
    static const char *const fields[] = {
        "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
        "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
        "fill_mode",      NULL};
    struct insn *in = d->in;
    const int field = dec_one_of(d, fields);
    bool wide;
    if (field < 0 || !dec_has(d, "tile") || !dec_has(d, "b1024"))
        dec_fail(d, ".tile, a field and .b1024 are due");
    const bool array = field >= FIELD_BOX_DIM && field <= FIELD_ELEMENT_STRIDE;
    const bool eight = field == FIELD_ADDRESS || field == FIELD_GLOBAL_STRIDE;
    if (dec_has(d, "b64") != eight)
        dec_fail(d, "this field is a .b%d", eight ? 64 : 32);
    dec_nops(d, array ? 3 : 2, array ? 3 : 2);
    in->n = (u8)field;
    in->size = eight ? 8 : 4;
    in->space = (u8)dec_space(d);
    in->a = dec_addr(d, &d->op[0], in->space, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0u;
    in->target = array ? (u32)dec_imm(d, &d->op[1]) : 0;
    if (field >= FIELD_ELEMTYPE)
        dec_imm(d, &d->op[1]);
    in->b = dec_src(d, &d->op[array ? 2 : 1], eight ? T_B64 : T_B32);
    in->fn = op_replace;
}

/* a: global destination, b: shared source (its offset in ops[0]).  All lanes name the same bytes;
 * the warp copies once. */
static int op_cp_fence(struct warp *w, const struct insn *i, u32 m) {
    const u32 first = (u32)__builtin_ctz(m);
    if (m != ~0u)
        emu_report(w, i, EMU_WARP, "executed by lanes 0x%08x, all 32 are due", m);
    const u64 to = lane_address(w, i, i->a, first);
    const u64 from = lane_value(w, i->b, first, i->size == 8) + i->target;
    FOR_LANES(l, m)
    if (lane_address(w, i, i->a, l) != to)
        emu_fault(w, i, "lane %u: another destination than lane %u's", l, first);
    const u8 *src = map_at(w, i, first, SP_SHARED, from, ACC_READ);
    u8 *dst = map_at(w, i, first, SP_GLOBAL, to, ACC_WRITE);
    memcpy(dst, src, TENSORMAP_BYTES);
    w->cta->grid->emu->progress++;
    check_fence(w, m, FENCE_TENSORMAP, i->sem);
    return NEXT;
}

void dec_tensormap_cp(struct dec *d) {
    struct insn *in = d->in;
    bool wide;
    s64 off;
    dec_nops(d, 3, 3);
    if (!dec_has(d, "tensormap::generic") || !dec_has(d, "release") || !dec_has(d, "aligned"))
        dec_fail(d, ".tensormap::generic.release.scope.sync.aligned is due");
    if (dec_imm(d, &d->op[2]) != TENSORMAP_BYTES)
        dec_fail(d, "the size must be 128");
    in->a = dec_addr(d, &d->op[0], SP_GLOBAL, &in->imm, &wide);
    in->flags = wide ? MEM_WIDE_ADDR : 0u;
    in->b = dec_addr(d, &d->op[1], SP_SHARED, &off, &wide);
    in->size = wide ? 8 : 4;
    in->target = (u32)off;
    in->sem = dec_sem(d);
    in->fn = op_cp_fence;
}
