/* SPDX-License-Identifier: Apache-2.0
 * Reporting a failure: one call fills the caller's struct gqa_error and gives back the status. */
#ifndef GQA_STATUS_H
#define GQA_STATUS_H

#include "gqa.h"

/* Write the status and a formatted sentence to *err (which may be NULL); returns the status, so
 * that a refusal reads `return fail(err, GQA_ERR_SHAPE, "head_dim is %d, expected ...", d);`. */
gqa_status fail(struct gqa_error *err, gqa_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
