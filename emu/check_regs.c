/* check_regs.c: registers: values that nothing wrote, and values that an asynchronous operation
 * still writes or reads.  A copy (mov) hands both states on instead of being reported.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "parse.h"
#include <stdlib.h>
#include <string.h>

/* What an undefined source means to an instruction: compilers leave values undefined where nothing
 * depends on them, so most only hand it on. */
enum undefined { HAND_ON, IS_AND, IS_OR, IS_SELECT, IS_COPY, NEEDS_ALL, NEEDS_LAST, NEEDS_GUARD };

static const struct {
    const char *base;
    u8 kind;
} kinds[] = {{"and", IS_AND},
             {"or", IS_OR},
             {"selp", IS_SELECT},
             {"mov", IS_COPY},
             {"bra", NEEDS_ALL},
             {"ld", NEEDS_ALL},
             {"st", NEEDS_LAST},
             {"stmatrix", NEEDS_LAST},
             {"tcgen05.st", NEEDS_LAST},
             {"call", NEEDS_GUARD}};

void check_regs_new(struct checker *k) {
    static const char *const strict[] = {
        "bar",   "barrier",  "mbarrier", "cp.",  "atom", "red.",     "red",           "tcgen05.",
        "wgmma", "ldmatrix", "fence",    "exit", "ret",  "st.async", "griddepcontrol"};
    k->undefined = calloc(op_row_count, 1);
    if (!k->undefined)
        abort();
    for (u32 r = 0; r < op_row_count; r++) {
        const char *b = op_rows[r].base;
        for (u32 n = 0; n < sizeof strict / sizeof *strict; n++)
            if (!strncmp(b, strict[n], strlen(strict[n])) && strcmp(b, "redux.sync"))
                k->undefined[r] = NEEDS_ALL;
        for (u32 n = 0; n < sizeof kinds / sizeof *kinds; n++)
            if (!strcmp(b, kinds[n].base))
                k->undefined[r] = kinds[n].kind;
    }
}

/* Registers lie 128 bytes apart and more; the checker keeps its words side by side. Slot 0 is for
 * what no instruction names. */
void check_slots(struct function *f) {
    if (f->slots)
        return;
    f->slots = arena_alloc(f->mod->mem, (f->reg_bytes / 4 + 1) * sizeof *f->slots);
    f->nslots = 1;
    for (u32 k = 0; k < f->nuses; k++) {
        u32 *s = &f->slots[REF_OFF(f->uses[k].r) / 4];
        if (!*s)
            *s = f->nslots++;
        f->uses[k].slot = *s;
    }
}

static u32 init_of(const struct warp_check *k, ref r) {
    return REF_BANK(r) == BANK_REG && r != REF_NONE ? k->init[k->slots[REF_OFF(r) / 4]] : ~0u;
}

/* Lanes of the result that are defined, when some source is not. */
static u32 defined_lanes(const struct warp *w, const struct insn *i, u32 kind, bool pred, u32 all) {
    const struct warp_check *k = w->check;
    u32 a = init_of(k, i->a), b = init_of(k, i->b);
    if (kind == IS_SELECT) {
        u32 p = pred_at(w, i->c);
        return init_of(k, i->c) & ((p & a) | (~p & b));
    }
    if (pred && kind == IS_AND)
        return all | (a & ~pred_at(w, i->a)) | (b & ~pred_at(w, i->b));
    if (pred && kind == IS_OR)
        return all | (a & pred_at(w, i->a)) | (b & pred_at(w, i->b));
    return all;
}

/* Where the operation is that holds the register of this slot. */
static u32 pending_loc(const struct warp_check *k, u32 slot, u8 flag) {
    for (u32 n = k->ntc; flag & PEND_TC && n--;)
        if (k->tc[n].slot == slot)
            return k->tc[n].loc;
    for (u32 n = k->nregs; n--;)
        for (u32 r = 0; r < k->regs[n].n; r++)
            if (k->slots[REF_OFF(k->regs[n].r[r]) / 4] == slot)
                return k->regs[n].loc;
    return 0;
}

/* One report for each operation, however many instructions are too early. */
static void pending_report(struct warp *w, const struct insn *i, u32 slot, bool written) {
    const u8 flag = w->check->pending[slot];
    struct emu *e = w->cta->grid->emu;
    char at[300];
    emu_report_at(e, w->cta, w->id, pending_loc(w->check, slot, flag), EMU_PENDING,
                  "a register that this %s is %s at %s, before %s",
                  flag & PEND_TC      ? "tcgen05.ld fills"
                  : flag & PEND_WRITE ? "wgmma fills"
                                      : "wgmma reads",
                  written ? "written" : "read",
                  loc_text(e, w->cta->grid->fn, i->loc, at, sizeof at),
                  flag & PEND_TC ? "tcgen05.wait::ld" : "wgmma.wait_group");
}

/* A register that some asynchronous operation still fills or reads.  A copy hands that on. */
static void check_pending(struct warp *w, const struct insn *i, const struct use *first,
                          bool copy) {
    struct warp_check *k = w->check;
    bool poison = false;
    u32 from = 0;
    for (const struct use *u = first;; u++) {
        u8 *p = &k->pending[u->slot];
        if (!u->written && *p & (PEND_WRITE | PEND_TC)) {
            if (copy && *p & PEND_TC)
                poison = true, from = pending_loc(k, u->slot, *p);
            else
                pending_report(w, i, u->slot, false);
        }
        if (u->last)
            break;
    }
    for (const struct use *u = first;; u++) {
        u32 at = u->slot;
        if (u->written && k->pending[at]) {
            if (copy && k->pending[at] == PEND_TC)
                k->pending[at] = 0;
            else
                pending_report(w, i, at, true);
        }
        if (u->written && poison)
            check_tc_poison(w, at, from);
        if (u->last)
            return;
    }
}

void check_registers(struct warp *w, const struct insn *i, u32 m) {
    struct warp_check *k = w->check;
    k->insns++;
    k->active = m;
    if (i->flags & INSN_MEET)
        k->together++;
    if (i->uses == REF_NONE)
        return;
    const struct use *first = &w->cta->grid->fn->uses[i->uses];
    const u32 kind = checker_of(w)->undefined[i->op];
    u32 all = ~0u, last = ~0u, guard = ~0u;
    bool pred = false;
    if (k->npending)
        check_pending(w, i, first, kind == IS_COPY);
    for (const struct use *u = first;; u++) {
        if (u->written) {
            pred = !u->bytes;
        } else {
            last = k->init[u->slot];
            if (u == first && i->guard != REF_NONE)
                guard = last;
            all &= last;
        }
        if (u->last)
            break;
    }
    u32 bad = m & ~(kind == NEEDS_ALL ? all : kind == NEEDS_LAST ? last & guard : guard);
    if (bad)
        emu_report(w, i, EMU_UNINIT, "depends on a register that nothing wrote, lanes 0x%08x", bad);
    u32 def = m;
    if (all != ~0u && kind < NEEDS_ALL)
        def = m & defined_lanes(w, i, kind, pred, all);
    for (const struct use *u = first;; u++) {
        u32 *x = &k->init[u->slot];
        if (u->written)
            *x = (*x & ~m) | def;
        if (u->last)
            return;
    }
}

/* --- wgmma --- */

static void set_flags(struct warp_check *k, const struct pending_regs *p, bool on) {
    for (u32 n = 0; n < p->n; n++) {
        u32 at = k->slots[REF_OFF(p->r[n]) / 4];
        if (on)
            k->pending[at] |= p->flag;
        else
            k->pending[at] &= (u8)~p->flag;
        if (p->flag == PEND_WRITE)
            k->init[at] = ~0u;
    }
}

void check_pending_set(struct warp *w, const ref *r, u32 n, bool written, u64 group, u32 loc) {
    struct warp_check *k = w->check;
    if (!k || !n)
        return;
    if (k->nregs == k->regs_cap) {
        k->regs_cap = k->regs_cap ? k->regs_cap * 2 : 16;
        k->regs = realloc(k->regs, k->regs_cap * sizeof *k->regs);
        if (!k->regs)
            abort();
    }
    k->regs[k->nregs] = (struct pending_regs){
        .r = r, .n = n, .group = group, .loc = loc, .flag = written ? PEND_WRITE : PEND_READ};
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

void check_tc_poison(struct warp *w, u32 at, u32 loc) {
    struct warp_check *k = w->check;
    if (k->pending[at] & PEND_TC)
        return;
    if (k->ntc == k->tc_cap) {
        k->tc_cap = k->tc_cap ? k->tc_cap * 2 : 64;
        k->tc = realloc(k->tc, k->tc_cap * sizeof *k->tc);
        if (!k->tc)
            abort();
    }
    k->tc[k->ntc++] = (struct pending_tc){at, loc};
    k->pending[at] |= PEND_TC;
    k->npending++;
}
void check_tc_unpoison(struct warp *w) {
    struct warp_check *k = w->check;
    for (u32 n = 0; n < k->ntc; n++)
        k->pending[k->tc[n].slot] &= (u8)~PEND_TC;
    k->npending -= k->ntc;
    k->ntc = 0;
}
