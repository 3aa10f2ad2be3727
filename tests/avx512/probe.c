/* SPDX-License-Identifier: Apache-2.0
 * In place of src/cpu/probe_x86.c where AVX-512 is emulated: everything is there. */
#include "cpu.h"

#include <stdio.h>

unsigned cpu_probe(void) {
    return CPU_AVX2 | CPU_AVX512 | CPU_AVX512_BF16;
}

void cpu_probe_product(char *name, size_t size) {
    snprintf(name, size, "emulated");
}
