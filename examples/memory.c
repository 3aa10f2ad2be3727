/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gqa_status refuse(struct gqa_error *err, gqa_status status, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

static void *host_alloc(size_t bytes) {
    return aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
}

static gqa_status host_copy(void *to, const void *from, size_t bytes, struct gqa_error *err) {
    (void)err;
    memcpy(to, from, bytes);
    return GQA_OK;
}

gqa_status memory_of(const char *device, struct memory *memory, struct gqa_error *err) {
    if (strcmp(device, "cpu"))
        return refuse(err, GQA_ERR_UNSUPPORTED, "this program cannot reach the memory of \"%s\"",
                      device);
    *memory = (struct memory){host_alloc, free, host_copy, host_copy};
    return GQA_OK;
}
