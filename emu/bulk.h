/* bulk.h: what the files of the bulk copies share: op_bulk.c (loads, tensor coordinates),
 * op_bulk_store.c (stores, reductions), op_bulk_dec.c (decoders).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_BULK_H
#define EMU_BULK_H

#include "lanes.h"
#include "access.h"
#include "tensormap.h"

enum { /* insn.flags */
       B_MULTICAST = 1 << MEM_FLAGS,
       B_PAIR = 2 << MEM_FLAGS,
       B_WIDE_MBAR = 4 << MEM_FLAGS,
       B_WIDE_SRC = 8 << MEM_FLAGS,
       B_REMOTE = 16 << MEM_FLAGS
};

struct bulk { /* operands of all forms, kept with the instruction */
    ref dst, src, size, mbar, mask, map, bytes; /* bytes: of cp_mask */
    s64 dst_off, src_off, mbar_off, map_off;
    ref coord[5], offset[3];
    u32 ncoords, dims, noffsets;
    enum space dst_space;
    enum reduce_op op;
    enum elem_type type;
    bool reduce, gather, im2col, to_global, prefetch;
};

int op_bulk_load(struct warp *w, const struct insn *i, u32 m);
int op_bulk_store(struct warp *w, const struct insn *i, u32 m);
int op_bulk_prefetch(struct warp *w, const struct insn *i, u32 m);
int op_tensor_load(struct warp *w, const struct insn *i, u32 m);
int op_tensor_store(struct warp *w, const struct insn *i, u32 m);

/* Shared address of lane l from operand r, as CTA and offset. */
struct cta *bulk_smem(struct warp *w, const struct insn *i, u32 l, ref r, bool wide, s64 add,
                      enum space sp, u32 bytes, u32 align, u32 *off);
/* Map and coordinates; then the box, every byte of which is checked. */
void bulk_tensor(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                 struct tensormap_copy *c);
void bulk_prepare(struct warp *w, const struct insn *i, u32 l, const struct bulk *b,
                  struct tensormap_copy *c);
void bulk_touch_rows(struct emu *e, struct item *it, const struct tensormap_copy *c);

#endif
