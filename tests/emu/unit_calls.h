/* unit_calls.h: libcuda-emu.so of this build and its calls by name; include it once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EMU_UNIT_CALLS_H
#define TESTS_EMU_UNIT_CALLS_H

#include "unit.h"
#include <dlfcn.h>

static void *lib;

/* Declare `var`, a pointer to the call of that name: memcpy, since ISO C forbids the cast. */
#define CALL(var, ret, ...)                                                                        \
    ret (*var)(__VA_ARGS__);                                                                       \
    {                                                                                              \
        void *f_ = dlsym(lib, #var);                                                               \
        CHECK(f_ != NULL, "%s is not exported", #var);                                             \
        memcpy(&var, &f_, sizeof f_);                                                              \
    }

/* The library lies at BUILD, the program, argv[0], at BUILD/tests/emu/NAME. If it cannot be opened
 * the closing line is printed. */
static bool unit_library(int argc, char **argv) {
    char path[600];
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    snprintf(path, sizeof path, "%.*s/../../libcuda-emu.so", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    lib = dlopen(path, RTLD_NOW);
    if (!lib)
        printf("%s\n0 passed, 1 failed, 0 skipped\n", dlerror());
    return lib != NULL;
}

#endif
