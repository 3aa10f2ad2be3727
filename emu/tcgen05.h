/* tcgen05.h: what the handlers of tensor memory (op_tcgen05.c) and of the tensor pipe (op_umma.c)
 * share, and the checker's hooks for tensor memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_TCGEN05_H
#define EMU_TCGEN05_H

#include "machine.h"
#include "check.h"
#include "umma.h"

/* The other CTA of the pair; a fault when the cluster has none. */
struct cta *tcgen_peer(struct warp *w, const struct insn *i);
/* Tensor memory of the CTA; made when first needed. */
struct tmem *tmem_of(struct cta *c);
/* Reports columns that no allocation holds. */
void tmem_need(struct warp *w, const struct insn *i, struct cta *c, u32 column, u32 columns,
               const char *what);
/* A description of an operation in flight that touches these columns, or NULL. */
const char *umma_in_flight(struct cta *c, struct cta *of, u32 column, u32 columns);

/* --- Checker hooks (called only where the object has check state) --- */

/* An asynchronous item touches these columns. where: quarters of 32 lanes (bit mask); of each only
 * the lower or upper 16 lanes; which data path layout a product has. */
enum { TC_LOWER = 16, TC_UPPER = 32, TC_LAYOUT = 8 };
void check_item_tmem(struct emu *e, struct item *it, struct cta *c, u32 where, u32 column,
                     u32 columns, bool write);
/* tcgen05.ld or .st of this warp, issued now; ends at the wait. */
void check_tmem(struct warp *w, const struct insn *i, u32 lane, u32 lanes, u32 column, u32 columns,
                bool write);
/* Registers that tcgen05.ld fills: not to be read before tcgen05.wait::ld. */
void check_tcgen_pending(struct warp *w, const struct insn *i, const ref *regs, u32 n);
void check_tcgen_wait(struct warp *w, bool loads);
void check_tmem_free(struct warp *w, const struct insn *i, u32 column, u32 columns);

#endif
