/* coverage.c: which instructions and branches of a function did not run (emu_options.coverage).
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "ops.h"

static void missing(FILE *out, const struct function *f, u32 k, const char *what) {
    char at[300];
    fprintf(out, "%s: %s: %s\n", loc_text(NULL, f, f->code[k].loc, at, sizeof at), what,
            f->texts && f->texts[k] ? f->texts[k] : "?");
}

static void function_coverage(FILE *out, const struct function *f) {
    u32 run = 0, branches = 0, both = 0;
    if (!f->hits)
        return;
    const u32 all = f->ncode - 1; /* behind the body the parser puts an exit of its own */
    for (u32 k = 0; k < all; k++) {
        const struct insn *i = &f->code[k];
        const bool conditional = i->fn == op_bra && i->guard != REF_NONE;
        if (!f->hits[k]) {
            missing(out, f, k, "not executed");
            continue;
        }
        run++;
        branches += conditional;
        both += conditional && f->taken[k] == 3;
        if (conditional && f->taken[k] != 3)
            missing(out, f, k, f->taken[k] == 2 ? "always taken" : "never taken");
    }
    fprintf(out, "%s: %u of %u instructions executed, %u of %u executed branches went both ways\n",
            f->name, run, all, both, branches);
}

void emu_coverage(const struct module *m, FILE *out) {
    for (u32 k = 0; k < m->nfuncs; k++)
        function_coverage(out, m->funcs[k]);
}
