/* SPDX-License-Identifier: Apache-2.0
 * Host memory between two pages that fault: an access past either end of a buffer stops the
 * program at the instruction that made it. Lazily zeroed, so huge sparse buffers cost nothing. */
#include "cases.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

bool case_memory_poison(const struct case_memory *memory, void *device, size_t bytes) {
    void *ff = malloc(bytes);
    if (!ff)
        return false;
    memset(ff, 0xff, bytes);
    const bool ok = memory->upload(memory->context, device, ff, bytes);
    free(ff);
    return ok;
}

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static void *host_alloc(void *context, size_t bytes, size_t align) {
    (void)context;
    const size_t inner = round_up(bytes, PAGE);
    char *outer = mmap(NULL, inner + 2 * (size_t)PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (outer == MAP_FAILED)
        return NULL;
    if (mprotect(outer + PAGE, inner, PROT_READ | PROT_WRITE)) {
        munmap(outer, inner + 2 * (size_t)PAGE);
        return NULL;
    }
    return outer + PAGE + inner - round_up(bytes, align);
}

static void host_release(void *context, void *memory, size_t bytes) {
    (void)context;
    char *end = (char *)round_up((uintptr_t)memory + bytes, PAGE);
    const size_t inner = round_up(bytes, PAGE);
    munmap(end - inner - PAGE, inner + 2 * (size_t)PAGE);
}

static bool host_copy_in(void *context, void *device, const void *host, size_t bytes) {
    (void)context;
    memcpy(device, host, bytes);
    return true;
}

static bool host_copy_out(void *context, void *host, const void *device, size_t bytes) {
    (void)context;
    memcpy(host, device, bytes);
    return true;
}

const struct case_memory case_memory_host = {
    .alloc = host_alloc,
    .release = host_release,
    .upload = host_copy_in,
    .download = host_copy_out,
    .fenced = true,
};
