/* SPDX-License-Identifier: Apache-2.0
 * gqa plan: a shape in; the kernel, the splits, the workspace and the reason out. Needs no data,
 * and with a plan: device no hardware. */
#include "commands.h"
#include "model.h"
#include "shape.h"
#include "table.h"

static const char *const pdl_names[] = {"off", "on", "early"};

static void print_plan(const struct gqa_plan_info *info, const char *device,
                       enum table_format format) {
    static const struct column columns[] = {
        {"device", false},      {"kernel", false},         {"splits", true},
        {"split_tokens", true}, {"work_items", true},      {"reduction", false},
        {"pdl", false},         {"workspace_bytes", true}, {"reason", false},
    };
    if (format == TABLE_TEXT) {
        char length[40] = "";
        if (info->split_tokens)
            snprintf(length, sizeof length, " of %lld tokens", (long long)info->split_tokens);
        printf("device       %s\nkernel       %s\nsplits       %d%s\n"
               "work items   %lld\nreduction    %s\nPDL          %s\nworkspace    %zu bytes\n"
               "reason       %s\n",
               device, info->kernel, info->splits, length, (long long)info->work_items,
               gqa_reduction_name(info->reduction), pdl_names[info->pdl], info->workspace_bytes,
               info->reason);
        return;
    }
    struct table *t = table_new(columns, sizeof columns / sizeof *columns);
    table_add(t, "%s", device);
    table_add(t, "%s", info->kernel);
    table_add(t, "%d", info->splits);
    table_add(t, "%lld", (long long)info->split_tokens);
    table_add(t, "%lld", (long long)info->work_items);
    table_add(t, "%s", gqa_reduction_name(info->reduction));
    table_add(t, "%s", pdl_names[info->pdl]);
    table_add(t, "%zu", info->workspace_bytes);
    table_add(t, "%s", info->reason);
    table_print(t, format, stdout);
    table_free(t);
}

/* Where no GPU answers, a model does. */
static void print_model(const char *device, const struct gqa_problem *p,
                        const struct gqa_plan_info *info) {
    struct model m;
    if (!model_step(device, p, info, &m))
        return;
    printf("modelled     %.1f us; bound: %s (not measured: docs/traces.md)\n", m.us, m.bound);
    for (int i = 0; i < 4; i++)
        printf("  %-18s %.2f us\n", model_names[i], m.shares[i]);
}

static int run(const struct command *self, int argc, char **argv) {
    struct shape shape;
    int format = TABLE_TEXT, operands = 0;
    const struct flag own[] = {
        {NULL, FLAG_HEADING, NULL, NULL, "Output", NULL, 0, 0},
        {"format", FLAG_CHOICE, &format, NULL, "(text)", table_formats, 0, 0},
    };
    struct flag_table tables[4];
    const int n = shape_init(&shape, SHAPE_SIZES | SHAPE_OPTIONS | SHAPE_DEVICE, tables);
    tables[n] = (struct flag_table){own, 2};
    const enum flag_result parsed = flags_parse(self, tables, n + 1, argc, argv, NULL, &operands);
    if (parsed != FLAGS_RUN)
        return parsed == FLAGS_HELP ? EXIT_DONE : EXIT_USAGE;

    struct gqa_error err;
    gqa_device *device = NULL;
    gqa_plan *plan = NULL;
    struct gqa_plan_info info = gqa_plan_info_init();
    const struct gqa_problem p = shape_problem(&shape);
    gqa_status status = shape_open_device(&shape, &device, &err);
    if (!status)
        status = gqa_plan_create(device, &p, &plan, &err);
    if (!status)
        status = gqa_plan_describe(plan, &info, &err);
    if (status)
        flags_complain(self, shape_exit(status), "%s: %s", gqa_status_name(status), err.message);
    else
        print_plan(&info, shape.device, (enum table_format)format);
    if (!status && format == TABLE_TEXT)
        print_model(shape.device, &p, &info);
    gqa_plan_destroy(plan);
    gqa_device_close(device);
    return shape_exit(status);
}

const struct command cmd_plan = {
    .name = "plan",
    .summary = "a shape in; the kernel, splits, workspace and reason out",
    .usage = "[--option value ...]",
    .about = "Says how a decode step of this shape would be run on a device, and why, or which\n"
             "rule refuses it. The device need not be there: \"plan:sm_90a\" plans for a GPU of\n"
             "that architecture, \"plan:cpu\" for a CPU.",
    .example = "  gqa plan --device plan:cpu --batch 4 --q-heads 64 --kv-heads 8 --kv-len 32768\n",
    .run = run,
};
