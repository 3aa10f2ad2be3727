/* SPDX-License-Identifier: Apache-2.0
 * One case on one device, through gqa.h and against the reference. What counts as right is written
 * here once; tests and `gqa verify` only choose what to run.
 *
 * A run passes if O and LSE are as close to the reference as compare.h allows, if nothing but the
 * rows of O and LSE was written, if the answer is the same from a workspace of 0xFF bytes as from
 * the one that the run before left, and if the plan keeps the promises of gqa.h about it. */
#ifndef VERIFY_H
#define VERIFY_H

#include "cases.h"
#include "compare.h"

enum verify_outcome { VERIFY_PASS, VERIFY_FAIL, VERIFY_SKIP };

/* Where to run. The device is open already; memory is its memory. */
struct verify_target {
    const char *name; /* of the device, as --device takes it */
    gqa_device *device;
    const struct case_memory *memory;
    void *stream;       /* for gqa_decode; NULL on a CPU */
    const char *kernel; /* NULL: the planner's choice */
    int slices;         /* > 0: also by gqa_decode_slice and _finish with that many */
};

struct verify_report {
    enum verify_outcome outcome;
    char kernel[64];                /* that ran; empty if none did */
    char message[700];              /* why it failed or was skipped */
    char command[256];              /* fails: the line that does it again */
    struct compare_result compared; /* ok is false where nothing was compared */
};

/* A case built once, with its reference, to be run on several kernels of one memory. */
struct verify_case {
    struct case_instance x;
    struct ref ref;
    bool is_ready;
};

/* Build the case and compute its reference. Returns false, with report->outcome VERIFY_SKIP, if
 * there is not enough memory; nothing is to be freed then. */
bool verify_open(struct verify_case *v, const struct test_case *c, uint64_t seed,
                 const struct case_memory *memory, struct verify_report *report);

/* Run it on a target. The report says all; the outcome is returned too. */
enum verify_outcome verify_run(struct verify_case *v, const struct verify_target *target,
                               struct verify_report *report);

void verify_close(struct verify_case *v);

/* All three at once. */
enum verify_outcome verify_one(const struct test_case *c, uint64_t seed,
                               const struct verify_target *target, struct verify_report *report);

/* gqa_merge alone, with parts made up from the seed: empty parts whose O is NaN, rows that are
 * empty in all parts, every type and base, in place. `n` counts them from 0; returns VERIFY_SKIP
 * with an empty message past the last one. */
enum verify_outcome verify_merge(int n, uint64_t seed, const struct verify_target *target,
                                 struct verify_report *report);

#endif
