/* check_regs.c: registers: values that nothing wrote, and values that an asynchronous operation
 * still writes or reads.  A copy (mov) hands both states on instead of being reported.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "parse.h"
#include <stdlib.h>
#include <string.h>

static bool is_copy(const struct insn *i) {
    const char *s = op_rows[i->op].base;
    return !strcmp(s, "mov") || !strcmp(s, "selp");
}

/* Nothing the reader does with it can be right; state of the destination of a copy. */
static void hand_on(struct warp *w, const struct use *first, u32 m, u8 pending) {
    struct warp_check *k = w->check;
    for (const struct use *u = first;; u++) {
        u32 at = REF_OFF(u->r) / 4;
        if (u->written && !pending)
            k->init[at] &= ~m;
        if (u->written && pending) {
            check_tc_poison(w, at);
            k->init[at] |= m;
        }
        if (u->last)
            return;
    }
}

static void pending_read(struct warp *w, const struct insn *i, u8 flag) {
    emu_report(w, i, EMU_PENDING,
               flag & PEND_TC ? "reads a register that tcgen05.ld fills before tcgen05.wait::ld"
                              : "reads an accumulator of wgmma before wgmma.wait_group");
}
static void pending_write(struct warp *w, const struct insn *i, u8 flag) {
    emu_report(w, i, EMU_PENDING,
               flag & PEND_TC ? "writes a register that tcgen05.ld is still to fill"
                              : "writes a register that wgmma still uses, before wgmma.wait_group");
}

void check_registers(struct warp *w, const struct insn *i, u32 m) {
    struct warp_check *k = w->check;
    k->insns++;
    if (i->uses == REF_NONE)
        return;
    const struct use *first = &w->cta->grid->fn->uses[i->uses];
    bool copy_uninit = false, copy_pending = false;
    for (const struct use *u = first;; u++) {
        u32 at = REF_OFF(u->r) / 4;
        if (!u->written) {
            if (m & ~k->init[at]) {
                if (is_copy(i))
                    copy_uninit = true;
                else
                    emu_report(w, i, EMU_UNINIT,
                               "reads a register that nothing wrote in lanes 0x%08x",
                               m & ~k->init[at]);
            }
            if (k->npending && k->pending[at] & (PEND_WRITE | PEND_TC)) {
                if (is_copy(i) && k->pending[at] & PEND_TC)
                    copy_pending = true;
                else
                    pending_read(w, i, k->pending[at]);
            }
        }
        if (u->last)
            break;
    }
    for (const struct use *u = first;; u++) {
        u32 at = REF_OFF(u->r) / 4;
        if (u->written) {
            k->init[at] |= m;
            if (k->npending && k->pending[at]) {
                if (k->pending[at] & PEND_TC && is_copy(i))
                    k->pending[at] &= (u8)~PEND_TC;
                else
                    pending_write(w, i, k->pending[at]);
            }
        }
        if (u->last)
            break;
    }
    if (copy_uninit)
        hand_on(w, first, m, 0);
    if (copy_pending)
        hand_on(w, first, m, PEND_TC);
}

/* --- wgmma --- */

static void set_flags(struct warp_check *k, const struct pending_regs *p, bool on) {
    for (u32 n = 0; n < p->n; n++) {
        u32 at = REF_OFF(p->r[n]) / 4;
        if (on)
            k->pending[at] |= p->flag;
        else
            k->pending[at] &= (u8)~p->flag;
        if (p->flag == PEND_WRITE)
            k->init[at] = ~0u;
    }
}

void check_pending_set(struct warp *w, const ref *r, u32 n, bool written, u64 group) {
    struct warp_check *k = w->check;
    if (!k || !n)
        return;
    if (k->nregs == k->regs_cap) {
        k->regs_cap = k->regs_cap ? k->regs_cap * 2 : 16;
        k->regs = realloc(k->regs, k->regs_cap * sizeof *k->regs);
        if (!k->regs)
            abort();
    }
    k->regs[k->nregs] = (struct pending_regs){r, n, group, written ? PEND_WRITE : PEND_READ};
    set_flags(k, &k->regs[k->nregs++], true);
    k->npending++;
}
/* Operations of groups below upto are complete. */
void check_pending_clear(struct warp *w, u64 upto) {
    struct warp_check *k = w->check;
    u32 kept = 0;
    if (!k)
        return;
    for (u32 n = 0; n < k->nregs; n++)
        set_flags(k, &k->regs[n], false);
    for (u32 n = 0; n < k->nregs; n++)
        if (k->regs[n].group >= upto) {
            k->regs[kept] = k->regs[n];
            set_flags(k, &k->regs[kept++], true);
        }
    k->npending -= k->nregs - kept;
    k->nregs = kept;
}

/* --- tcgen05.ld --- */

void check_tc_poison(struct warp *w, u32 at) {
    struct warp_check *k = w->check;
    if (k->pending[at] & PEND_TC)
        return;
    if (k->ntc == k->tc_cap) {
        k->tc_cap = k->tc_cap ? k->tc_cap * 2 : 64;
        k->tc_slot = realloc(k->tc_slot, k->tc_cap * sizeof *k->tc_slot);
        if (!k->tc_slot)
            abort();
    }
    k->tc_slot[k->ntc++] = at;
    k->pending[at] |= PEND_TC;
    k->npending++;
}
void check_tc_unpoison(struct warp *w) {
    struct warp_check *k = w->check;
    for (u32 n = 0; n < k->ntc; n++)
        k->pending[k->tc_slot[n]] &= (u8)~PEND_TC;
    k->npending -= k->ntc;
    k->ntc = 0;
}
