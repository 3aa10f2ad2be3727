/* SPDX-License-Identifier: Apache-2.0
 * What verify.c and verify_merge.c share. */
#ifndef REPORT_H
#define REPORT_H

#include "verify.h"

/* Write the message and the outcome; returns the outcome. */
__attribute__((format(printf, 3, 4))) enum verify_outcome
verify_say(struct verify_report *report, enum verify_outcome outcome, const char *format, ...);

/* Run a case with `shards` > 0: each shard of the cache on its own, then one gqa_merge. */
enum verify_outcome verify_shards(struct verify_case *v, const struct verify_target *target,
                                  struct verify_report *report);

#endif
