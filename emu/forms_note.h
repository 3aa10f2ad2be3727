/* forms_note.h: the forms of the machine's operations (forms.h); each call does nothing unless
 * forms are kept.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_FORMS_NOTE_H
#define EMU_FORMS_NOTE_H

#include "forms.h"
#include "machine.h"
#include "tensormap.h"
#include "umma.h"
#include "wgmma.h"

void forms_umma(struct emu *e, const struct umma *u);
void forms_wgmma(struct emu *e, const struct wgmma *w);
void forms_tensor(struct emu *e, const struct tensormap *m, const char *what);
/* Opcodes of the instructions that ran (insn hits). */
void forms_opcodes(struct emu *e, const struct function *f);

#endif
