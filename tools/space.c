/* SPDX-License-Identifier: Apache-2.0
 * The kinds of memory that this build can reach. */
#include "space.h"

#include <stdio.h>
#include <string.h>

static const struct space_kind *const kinds[] = {
    &space_cpu,
    &space_cuda,
    &space_emulator,
};

gqa_status space_open(const char *device, struct space *space, struct gqa_error *err) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i]->prefix);
        if (strncmp(device, kinds[i]->prefix, n) || (device[n] && device[n] != ':'))
            continue;
        struct space opened = {.kind = kinds[i]};
        const gqa_status status = kinds[i]->open(device, &opened, err);
        if (!status)
            *space = opened;
        return status;
    }
    err->status = GQA_ERR_DEVICE;
    snprintf(err->message, sizeof err->message,
             "%.60s has no memory that this program can reach: it is for planning only, or this "
             "build has no support for it",
             device);
    return GQA_ERR_DEVICE;
}
