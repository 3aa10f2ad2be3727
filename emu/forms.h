/* forms.h: which forms of instructions, descriptors, layouts and tensor maps a run used.
 *
 * A form is a line of text such as "tcgen05.mma kind::f16 cta_group::1 M128 N8 A smem K-major 128B
 * B smem MN-major none".  Two runs' lists can be compared: what a kernel uses that no kernel proven
 * on a GPU uses is what remains to be proven.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_FORMS_H
#define EMU_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct forms;

struct forms *forms_new(void);
void forms_free(struct forms *f);
/* One use; key tells forms apart (forms_key of their fields), the text is made when the key is new.
 * f NULL: nothing is kept. */
void forms_note(struct forms *f, uint64_t key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t forms_key(const void *fields, size_t bytes);
/* Lines "form", sorted, each once. */
void forms_write(const struct forms *f, FILE *out);
/* Lines of file a that file b lacks; false when a file cannot be read. */
bool forms_minus(const char *a, const char *b, FILE *out);

#endif
