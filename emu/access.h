/* access.h: addresses of the lanes, flags of memory instructions.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_ACCESS_H
#define EMU_ACCESS_H

#include "machine.h"
#include "check.h"

enum { /* insn.flags of memory instructions */
       MEM_WIDE_ADDR = 1,
       MEM_SEXT = 2,
       MEM_WIDE_REG = 4,
       MEM_NC = 8,
       MEM_REG16 = 16,
       MEM_FLAGS = 5 /* further flags start at this bit */
};

static inline u64 lane_value(const struct warp *w, ref r, u32 lane, bool wide) {
    const void *p = reg_at(w, r);
    return wide ? ((const u64 *)p)[lane] : ((const u32 *)p)[lane];
}
static inline u64 lane_address(const struct warp *w, const struct insn *i, ref r, u32 lane) {
    if (i->flags & MEM_WIDE_ADDR)
        return ((const u64 *)reg_at(w, r))[lane] + (u64)i->imm;
    return (u32)(((const u32 *)reg_at(w, r))[lane] + (u32)i->imm);
}

#endif
