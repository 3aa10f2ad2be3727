/* unit_programs.h: test programs that are kept in files of text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EMU_UNIT_PROGRAMS_H
#define TESTS_EMU_UNIT_PROGRAMS_H

#include "unit.h"

#include <glob.h>

/* Run `read` on every file *.ext of `folder`, or of the folder that the environment's `variable`
 * names; it returns how many programs the file held, and takes only those called `only` unless that
 * is NULL. */
static inline void unit_programs(const char *variable, const char *folder, const char *ext,
                                 int (*read)(const char *file, const char *only),
                                 const char *only) {
    char pattern[300];
    glob_t g;
    int n = 0;
    if (getenv(variable))
        folder = getenv(variable);
    snprintf(pattern, sizeof pattern, "%s/*.%s", folder, ext);
    if (!glob(pattern, 0, NULL, &g)) {
        for (size_t k = 0; k < g.gl_pathc; k++)
            n += read(g.gl_pathv[k], only);
        globfree(&g);
    }
    CHECK(n > 0, "no program in %s", pattern);
    printf("%d programs\n", n);
}

#endif
