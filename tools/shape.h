/* SPDX-License-Identifier: Apache-2.0
 * The options that describe a decode step and a device, shared by the commands. Every field of
 * struct gqa_problem and of struct gqa_device_options has its option, under the same name. */
#ifndef SHAPE_H
#define SHAPE_H

#include "flags.h"
#include "gqa.h"

/* Where options put their values. Enums are ints here, as FLAG_CHOICE wants them; q_type, o_type,
 * paging, split_mode, p.splits and p.split_tokens are -1 until given. */
struct shape {
    struct gqa_problem p;
    int layout, kv_type, q_type, o_type;
    int k_scales, v_scales, paging, lse_base, split_mode, reduction, pdl, precision;
    bool is_causal, has_sinks, has_lse, is_ragged, check_tables;
    const char *device, *driver;
    int threads, spin_us;
    struct flag flags[56];
    int counts[3];
};

enum shape_part {
    SHAPE_SIZES = 1,   /* batch, heads, lengths, types, layout: what tensors would tell */
    SHAPE_OPTIONS = 2, /* masks, scale, split, results */
    SHAPE_DEVICE = 4,
};

/* Set everything to its default and make the tables of the parts asked for.
 * Returns how many tables were written to `tables` (at most 3); they point into *shape. */
int shape_init(struct shape *shape, int parts, struct flag_table *tables);

/* The problem that the options describe, strides packed in the layout they name. */
struct gqa_problem shape_problem(const struct shape *shape);

gqa_status shape_open_device(const struct shape *shape, gqa_device **device, struct gqa_error *err);

/* The exit code that a refusal deserves. */
enum exit_code shape_exit(gqa_status status);

#endif
