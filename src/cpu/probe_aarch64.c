/* SPDX-License-Identifier: Apache-2.0
 * Advanced SIMD is part of the 64-bit ARM architecture as Linux uses it; the kernel is asked all
 * the same. */
#include "cpu.h"

#include <stdio.h>
#include <sys/auxv.h>

unsigned cpu_probe(void) {
    const unsigned long asimd = 1 << 1; /* HWCAP_ASIMD */
    return getauxval(AT_HWCAP) & asimd ? CPU_NEON : 0;
}

void cpu_probe_product(char *name, size_t size) {
    snprintf(name, size, "unknown");
}
