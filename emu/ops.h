/* ops.h: handlers that other files name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_OPS_H
#define EMU_OPS_H

#include "ir.h"

int op_bra(struct warp *w, const struct insn *i, u32 m);
int op_brx(struct warp *w, const struct insn *i, u32 m);
int op_exit(struct warp *w, const struct insn *i, u32 m);

#endif
