/* ptx_link.h: what the driver's linker does with several inputs, on their text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_PTX_LINK_H
#define EMU_PTX_LINK_H

#include <stddef.h>

/* One text of n; to be freed. NULL: `why` says what does not fit together. */
char *ptx_link(const char *const *text, size_t n, char *why, size_t why_bytes);

#endif
