/* check_tmem.c: the checker's hooks for tensor memory.
 *
 * Not yet: they accept everything.  See tcgen05.h for what each is told.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tcgen05.h"

void check_item_tmem(struct emu *e, struct item *it, struct cta *c, u32 quarters, u32 column,
                     u32 columns, bool write) {
    (void)e, (void)it, (void)c, (void)quarters, (void)column, (void)columns, (void)write;
}
void check_tmem(struct warp *w, const struct insn *i, u32 lane, u32 lanes, u32 column, u32 columns,
                bool write) {
    (void)w, (void)i, (void)lane, (void)lanes, (void)column, (void)columns, (void)write;
}
void check_tcgen_pending(struct warp *w, const struct insn *i, const ref *regs, u32 n) {
    (void)w, (void)i, (void)regs, (void)n;
}
void check_tcgen_wait(struct warp *w, bool loads) {
    (void)w, (void)loads;
}
void check_tmem_free(struct warp *w, const struct insn *i, u32 column, u32 columns) {
    (void)w, (void)i, (void)column, (void)columns;
}
