/* static_program.c: what a program with the static runtime in it looks like to the emulator,
 * without nvcc: functions with the runtime's names, one after the other, which must not be
 * reached when the emulator is preloaded.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

enum { NOT_REPLACED = 999, NOT_SUPPORTED = 801 };

/* The program's own, outside the runtime. */
__attribute__((noinline, visibility("hidden"))) int cudaMine(void) {
    return 7;
}

/* Compiled without optimisation, so that arguments are passed; the jump takes 14 bytes. */
static volatile int told;
#define RUNTIME(name, ...)                                                                         \
    __attribute__((noinline, visibility("hidden"))) int name(__VA_ARGS__) {                        \
        told++;                                                                                    \
        return told > 1000 ? 0 : NOT_REPLACED;                                                     \
    }
RUNTIME(__cudaRegisterFatBinary, void)
RUNTIME(cudaMalloc, void **p, size_t n)
RUNTIME(cudaTestOfWhatNobodyHas, int x)
RUNTIME(cudaMemcpy_ptds, void *to, const void *from, size_t n, int kind)
RUNTIME(cudaGetLastError, void)
RUNTIME(cudaFree, void *p)

int main(void) {
    static const char text[] = "through the device";
    char back[sizeof text] = "";
    void *p = NULL;
    const int a = cudaMalloc(&p, 64), b = cudaMemcpy_ptds(p, text, sizeof text, 1);
    const int c = cudaMemcpy_ptds(back, p, sizeof text, 2), d = cudaFree(p);
    const int lacking = cudaTestOfWhatNobodyHas(1), last = cudaGetLastError();
    printf("calls %d %d %d %d, '%s', lacking %d %d, mine %d, reached %d\n", a, b, c, d, back,
           lacking, last, cudaMine(), told);
    if (told > 1000) /* never: only so that the registration is not left out */
        return __cudaRegisterFatBinary();
    return a || b || c || d || strcmp(back, text) || lacking != NOT_SUPPORTED ||
           last != NOT_SUPPORTED || cudaMine() != 7 || told;
}
