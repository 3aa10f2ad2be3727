/* SPDX-License-Identifier: Apache-2.0
 * What this x86 CPU can do. The compiler's probe asks cpuid, and the system by way of xgetbv
 * whether it saves the wide registers. */
#include "cpu.h"

#include <cpuid.h>
#include <stdio.h>
#include <string.h>

/* clang 14 does not know "f16c" by name. The registers are AVX's. */
static unsigned has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) ? c & bit_F16C : 0;
}

unsigned cpu_probe(void) {
    unsigned found = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        found |= CPU_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        found |= CPU_AVX512;
    if ((found & CPU_AVX512) && __builtin_cpu_supports("avx512bf16"))
        found |= CPU_AVX512_BF16;
    return found;
}

void cpu_probe_product(char *name, size_t size) {
    unsigned words[12] = {0}, most = __get_cpuid_max(0x80000000u, NULL);
    char text[sizeof words + 1] = {0};
    if (most >= 0x80000004u)
        for (unsigned i = 0; i < 3; i++)
            __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                        &words[4 * i + 3]);
    memcpy(text, words, sizeof words);
    snprintf(name, size, "%s", text[0] ? text + strspn(text, " ") : "unknown");
}
