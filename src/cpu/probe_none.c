/* SPDX-License-Identifier: Apache-2.0
 * A CPU for which only the plain kernel exists. */
#include "cpu.h"

#include <stdio.h>

unsigned cpu_probe(void) {
    return 0;
}

void cpu_probe_product(char *name, size_t size) {
    snprintf(name, size, "unknown");
}
