/* SPDX-License-Identifier: Apache-2.0
 * Filling the table of driver functions. Opening is the only moment that looks at the environment
 * (GQA_CUDA_EMU); nothing on the decode path does. */
#include "driver.h"
#include "status.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gqa_status fill(const char *path, struct driver *driver, struct gqa_error *err) {
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define X(field, symbol, args) {#symbol, offsetof(struct driver, field)},
        CU_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *f = dlsym(driver->handle, symbols[i].name);
        if (!f) {
            dlclose(driver->handle);
            return fail(err, GQA_ERR_DRIVER,
                        "%s has no function %s; expected a CUDA driver of 12.0 or later", path,
                        symbols[i].name);
        }
        memcpy((char *)driver + symbols[i].offset, &f, sizeof f);
    }
    return GQA_OK;
}

gqa_status driver_open(const char *path, struct driver *driver, struct gqa_error *err) {
    struct driver opened = {0};
    const char *name = path ? path : "libcuda.so.1";
    opened.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!opened.handle)
        return fail(err, GQA_ERR_DEVICE, "no CUDA driver: %s", dlerror());
    gqa_status status = fill(name, &opened, err);
    if (status)
        return status;
    status = driver_check(&opened, opened.init(0), "cuInit", err);
    if (status) {
        dlclose(opened.handle);
        return status;
    }
    *driver = opened;
    return GQA_OK;
}

void driver_close(struct driver *driver) {
    if (driver->handle)
        dlclose(driver->handle);
    driver->handle = NULL;
}

gqa_status driver_check(const struct driver *driver, cu_result result, const char *what,
                        struct gqa_error *err) {
    const char *name = NULL;
    if (!result)
        return GQA_OK;
    if (!driver->error_name || driver->error_name(result, &name) || !name)
        name = "?";
    return fail(err, GQA_ERR_DRIVER, "%s: the driver says %s (%d)", what, name, result);
}

/* DIR/libcuda-emu.so or DIR/../lib/libcuda-emu.so, where DIR holds this library or the program that
 * it is linked into: as they are built, and as they are installed. */
static bool beside_us(char *path, size_t size) {
    static const char *const places[] = {"", "../lib/"};
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)&driver_open, &info) || !info.dli_fname)
        return false;
    const char *const slash = strrchr(info.dli_fname, '/');
    const int dir = slash ? (int)(slash - info.dli_fname) : 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int n = snprintf(path, size, "%.*s/%slibcuda-emu.so", dir,
                               slash ? info.dli_fname : ".", places[i]);
        if (n > 0 && (size_t)n < size && !access(path, R_OK))
            return true;
    }
    return false;
}

gqa_status driver_open_emulator(const char *part, const char *path, struct driver *driver,
                                struct gqa_error *err) {
    char beside[4096];
    if (!path)
        path = getenv("GQA_CUDA_EMU");
    if (!path && beside_us(beside, sizeof beside))
        path = beside;
    if (!path)
        return fail(err, GQA_ERR_DEVICE,
                    "libcuda-emu.so is not beside this library: set GQA_CUDA_EMU to where it is");
    if (setenv("EMU_PART", part, 1))
        return fail(err, GQA_ERR_MEMORY, "no memory to name the part %s", part);
    return driver_open(path, driver, err);
}
