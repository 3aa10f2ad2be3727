/* SPDX-License-Identifier: Apache-2.0
 * Status names and sentences, from the one list in gqa.h, and the writer of error messages. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *text;
} statuses[] = {
#define X(name, text) {#name, text},
    GQA_STATUS_LIST(X)
#undef X
};

enum { STATUSES = sizeof statuses / sizeof statuses[0] };

const char *gqa_status_name(gqa_status status) {
    return (unsigned)status < STATUSES ? statuses[status].name : "GQA_ERR_?";
}

const char *gqa_status_text(gqa_status status) {
    return (unsigned)status < STATUSES ? statuses[status].text : "not a status of this library";
}

int gqa_version(void) {
    return GQA_VERSION_MAJOR * 10000 + GQA_VERSION_MINOR * 100 + GQA_VERSION_PATCH;
}

gqa_status fail(struct gqa_error *err, gqa_status status, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}
