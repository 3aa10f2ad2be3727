/* SPDX-License-Identifier: Apache-2.0
 * gqa info: which devices are here, what they can do, and why not what they cannot. */
#include "commands.h"
#include "shape.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>

/* What the tables are filled from. */
struct report {
    const struct shape *shape;
    bool why;     /* ask every kernel about the shape */
    bool is_list; /* of all devices: those that only plan are not given with all their kernels */
    struct table *devices, *kernels;
    int opened;
};

/* Kernels of a device that can be used as the device is. */
static int count_usable(gqa_device *device, int kernels) {
    int usable = 0;
    for (int i = 0; i < kernels; i++) {
        struct gqa_kernel_info k = gqa_kernel_info_init();
        usable += !gqa_device_kernel(device, i, &k, NULL) && k.available;
    }
    return usable;
}

static void add_kernel(struct report *r, gqa_device *device, const char *name, int index) {
    struct gqa_kernel_info k = gqa_kernel_info_init();
    struct gqa_error err = {0};
    gqa_plan *plan = NULL;
    struct gqa_problem p = shape_problem(r->shape);
    if (gqa_device_kernel(device, index, &k, &err))
        return;
    table_add(r->kernels, "%s", name);
    table_add(r->kernels, "%s", k.name);
    p.kernel = k.name;
    if (!k.available) {
        table_add(r->kernels, "no");
        table_add(r->kernels, "%s", k.why);
    } else if (!r->why) {
        table_add(r->kernels, "yes");
        table_add(r->kernels, "%s", k.why);
    } else if (gqa_plan_create(device, &p, &plan, &err)) {
        table_add(r->kernels, "no");
        table_add(r->kernels, "%s", err.message);
    } else {
        struct gqa_plan_info info = gqa_plan_info_init();
        gqa_plan_describe(plan, &info, NULL);
        table_add(r->kernels, "yes");
        table_add(r->kernels, "%s", info.reason);
        gqa_plan_destroy(plan);
    }
}

/* One device: a row of the first table, and its kernels in the second. */
static gqa_status add_device(struct report *r, const char *name) {
    struct shape shape = *r->shape;
    struct gqa_error err = {0};
    gqa_device *device;
    struct gqa_device_info info = gqa_device_info_init();
    shape.device = name;
    const gqa_status status = shape_open_device(&shape, &device, &err);
    table_add(r->devices, "%s", name);
    table_add(r->devices, "%s", status ? "no" : "yes");
    if (status) {
        table_add(r->devices, "%s", "");
        table_add(r->devices, "%s", "");
        table_add(r->devices, "%s", err.message);
        return status;
    }
    r->opened++;
    gqa_device_describe(device, &info, NULL);
    table_add(r->devices, "%d", info.units);
    table_add(r->devices, "%d of %d", count_usable(device, info.kernels), info.kernels);
    table_add(r->devices, "%s%s%s", info.product, info.features[0] ? ": " : "", info.features);
    const bool is_short = r->is_list && !r->why && !strncmp(name, "plan", 4);
    for (int i = 0; i < info.kernels && !is_short; i++)
        add_kernel(r, device, name, i);
    gqa_device_close(device);
    return GQA_OK;
}

static void add_all(struct report *r) {
    static const char *const parts[] = {"sm_80", "sm_90a", "sm_100a"};
    char name[32];
    r->is_list = true;
    add_device(r, "cpu");
    for (int i = 0; i < 16; i++) {
        snprintf(name, sizeof name, "cuda:%d", i);
        if (add_device(r, name))
            break;
    }
    for (int emulated = 1; emulated >= 0; emulated--)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "%s:%s", emulated ? "emu" : "plan", parts[i]);
            add_device(r, name);
        }
}

static void print_report(const struct report *r, enum table_format format) {
    if (format == TABLE_JSON)
        printf("{\"devices\": ");
    table_print(r->devices, format, stdout);
    printf(format == TABLE_JSON ? ", \"kernels\": " : "\n");
    table_print(r->kernels, format, stdout);
    if (format == TABLE_JSON)
        printf("}\n");
    if (format == TABLE_TEXT && r->is_list && !r->why)
        printf("\n`gqa info --device NAME` lists the kernels of one that only plans.\n");
}

static int run(const struct command *self, int argc, char **argv) {
    static const struct column device_columns[] = {
        {"device", false}, {"here", false}, {"units", true}, {"kernels", false}, {"what", false}};
    static const struct column kernel_columns[] = {
        {"device", false}, {"kernel", false}, {"usable", false}, {"why", false}};
    struct shape shape;
    struct report report = {.shape = &shape};
    int format = TABLE_TEXT, operands = 0;
    const struct flag own[] = {
        {NULL, FLAG_HEADING, NULL, NULL, "Output", NULL, 0, 0},
        {"why", FLAG_YES, &report.why, NULL,
         "ask every kernel about the shape that the options say", NULL, 0, 0},
        {"format", FLAG_CHOICE, &format, NULL, "(text)", table_formats, 0, 0},
    };
    struct flag_table tables[4];
    const int n = shape_init(&shape, SHAPE_SIZES | SHAPE_OPTIONS | SHAPE_DEVICE, tables);
    tables[n] = (struct flag_table){own, sizeof own / sizeof *own};
    shape.device = NULL;
    const enum flag_result parsed = flags_parse(self, tables, n + 1, argc, argv, NULL, &operands);
    if (parsed != FLAGS_RUN)
        return parsed == FLAGS_HELP ? EXIT_DONE : EXIT_USAGE;

    report.devices = table_new(device_columns, 5);
    report.kernels = table_new(kernel_columns, 4);
    if (shape.device)
        add_device(&report, shape.device);
    else
        add_all(&report);
    print_report(&report, (enum table_format)format);
    table_free(report.devices);
    table_free(report.kernels);
    return report.opened ? EXIT_DONE : EXIT_UNSUPPORTED;
}

const struct command cmd_info = {
    .name = "info",
    .summary = "devices, their features and kernels, and why one is not usable",
    .usage = "[--device NAME] [--why --option value ...]",
    .about =
        "Lists the devices that this machine and this build know, and every kernel of each\n"
        "with the reason where it cannot be used. With --why, every kernel is asked about one\n"
        "shape, and the rule that refuses it is shown.",
    .example = "  gqa info\n"
               "  gqa info --device plan:sm_90a --why --head-dim 96 --type e4m3\n",
    .run = run,
};
