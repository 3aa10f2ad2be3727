/* SPDX-License-Identifier: Apache-2.0
 * gqa verify: a device's kernels on the case list, against the float64 reference. What counts as
 * right is written in oracle/verify.h; here is only what to run and what to print. */
#include "commands.h"
#include "memory_cuda.h"
#include "shape.h"
#include "table.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_KERNELS = 512, MAX_MERGES = 1000, SLICES = 3 };

struct options {
    struct shape shape; /* only its device part */
    const char *only, *kernel;
    int64_t seed;
    int random, format;
    bool quick, all, list;
};

struct verify_run_state {
    const struct command *self;
    const struct options *o;
    struct case_list list;
    struct verify_target target;
    struct case_memory memory;
    char kernels[MAX_KERNELS][64]; /* that are to be run, by name */
    int kernel_count;
    bool has_named, progress;
    int passed, failed, skipped;
};

/* --- What to run ---------------------------------------------------------------------------- */

static enum case_level level_of(const struct options *o) {
    const bool is_slow_device = !strncmp(o->shape.device, "emu", 3);
    return o->all ? CASE_SLOW : o->quick || is_slow_device ? CASE_QUICK : CASE_NORMAL;
}

static bool is_named(const struct options *o, const struct test_case *c) {
    return o->only && !strcmp(c->name, o->only);
}

/* A case whose name is asked for runs alone, whatever it costs; a part of a name selects by level.
 */
static bool is_selected(const struct verify_run_state *s, const struct test_case *c) {
    if (s->has_named)
        return is_named(s->o, c);
    return c->level <= level_of(s->o) && (!s->o->only || strstr(c->name, s->o->only));
}

static int count_selected(const struct verify_run_state *s) {
    int n = 0;
    for (size_t i = 0; i < s->list.count; i++)
        n += is_selected(s, &s->list.cases[i]);
    return n;
}

static int complain_case(const struct verify_run_state *s) {
    const char **names = malloc((s->list.count + 1) * sizeof *names);
    for (size_t i = 0; names && i < s->list.count; i++)
        names[i] = s->list.cases[i].name;
    const char *nearest = names ? flags_nearest(s->o->only, names, (int)s->list.count) : NULL;
    free(names);
    return flags_complain(s->self, EXIT_USAGE, "no case is named \"%s\"%s%s%s", s->o->only,
                          nearest ? "; did you mean "
                                  : " (--list shows them; --all adds slow ones)",
                          nearest ? nearest : "", nearest ? "?" : "");
}

static int print_list(const struct verify_run_state *s) {
    static const struct column columns[] = {{"case", false}, {"level", false}, {"subject", false}};
    static const char *const levels[] = {"quick", "normal", "slow"};
    struct table *t = table_new(columns, 3);
    for (size_t i = 0; i < s->list.count; i++) {
        const struct test_case *c = &s->list.cases[i];
        if (s->o->only && !strstr(c->name, s->o->only))
            continue;
        table_add(t, "%s", c->name);
        table_add(t, "%s", levels[c->level]);
        table_add(t, "%s", c->subject);
    }
    table_print(t, (enum table_format)s->o->format, stdout);
    table_free(t);
    return EXIT_DONE;
}

/* The kernels of the device that can run here, or the one that was asked for. */
static int choose_kernels(struct verify_run_state *s) {
    struct gqa_device_info info = gqa_device_info_init();
    const char *names[MAX_KERNELS];
    gqa_device_describe(s->target.device, &info, NULL);
    const int count = info.kernels < MAX_KERNELS ? info.kernels : MAX_KERNELS;
    struct gqa_kernel_info *k = calloc((size_t)count + 1, sizeof *k);
    for (int i = 0; k && i < count; i++) {
        k[i] = gqa_kernel_info_init();
        gqa_device_kernel(s->target.device, i, &k[i], NULL);
        names[i] = k[i].name;
        const bool records = strstr(k[i].name, "_trace"); /* the same kernel, slower */
        const bool is_wanted = s->o->kernel ? !strcmp(k[i].name, s->o->kernel) : !records;
        if (is_wanted && k[i].available)
            strcpy(s->kernels[s->kernel_count++], k[i].name);
        else if (is_wanted) {
            printf("skip %s, kernel %s: %s\n", s->target.name, k[i].name, k[i].why);
            s->skipped++;
        }
    }
    const char *nearest = s->o->kernel ? flags_nearest(s->o->kernel, names, count) : NULL;
    int code = EXIT_DONE;
    if (!s->kernel_count && s->o->kernel && !s->skipped)
        code = flags_complain(s->self, EXIT_USAGE, "%s has no kernel \"%s\"%s%s%s", s->target.name,
                              s->o->kernel, nearest ? "; did you mean " : "; `gqa info` lists them",
                              nearest ? nearest : "", nearest ? "?" : "");
    free(k);
    return code;
}

/* --- Running it ----------------------------------------------------------------------------- */

static void clear_progress(const struct verify_run_state *s) {
    if (s->progress)
        fprintf(stderr, "\r%79s\r", "");
}

static void count(struct verify_run_state *s, const char *what, const struct verify_report *r) {
    s->passed += r->outcome == VERIFY_PASS;
    s->failed += r->outcome == VERIFY_FAIL;
    s->skipped += r->outcome == VERIFY_SKIP;
    if (r->outcome == VERIFY_PASS)
        return;
    clear_progress(s);
    printf("%s %s%s%s: %s\n", r->outcome == VERIFY_FAIL ? "FAIL" : "skip", what,
           s->target.kernel ? " on " : "", s->target.kernel ? s->target.kernel : "", r->message);
    if (r->outcome == VERIFY_FAIL && r->command[0])
        printf("     %s\n", r->command);
}

static void run_case(struct verify_run_state *s, const struct test_case *c) {
    struct verify_case v;
    struct verify_report report;
    s->target.kernel = NULL;
    if (!verify_open(&v, c, (uint64_t)s->o->seed, s->target.memory, &report)) {
        count(s, c->name, &report);
        return;
    }
    for (int i = 0; i < s->kernel_count; i++) {
        s->target.kernel = s->kernels[i];
        verify_run(&v, &s->target, &report);
        count(s, c->name, &report);
    }
    verify_close(&v);
}

/* Merges are named merge/0, merge/1, ...; they are no cases of the list. */
static bool is_merge_asked(const struct options *o) {
    return o->only && !strncmp(o->only, "merge/", 6);
}

static void run_merges(struct verify_run_state *s) {
    s->target.kernel = NULL;
    for (int n = 0;; n++) {
        struct verify_report report = {.outcome = VERIFY_SKIP};
        char what[32];
        snprintf(what, sizeof what, "merge/%d", n);
        if (is_merge_asked(s->o) && strcmp(what, s->o->only) && n < MAX_MERGES)
            continue;
        verify_merge(n, (uint64_t)s->o->seed, &s->target, &report);
        if (report.outcome == VERIFY_SKIP && !report.message[0])
            return;
        count(s, what, &report);
    }
}

static int run_all(struct verify_run_state *s) {
    const int total = count_selected(s);
    int done = 0;
    for (size_t i = 0; i < s->list.count; i++) {
        const struct test_case *c = &s->list.cases[i];
        if (!is_selected(s, c))
            continue;
        if (s->progress)
            fprintf(stderr, "\r%d of %d: %-50.50s", ++done, total, c->name);
        run_case(s, c);
    }
    clear_progress(s);
    if (!s->o->only || is_merge_asked(s->o))
        run_merges(s);
    printf("%d passed, %d failed, %d skipped\n", s->passed, s->failed, s->skipped);
    return s->failed ? EXIT_FAILED : s->passed ? EXIT_DONE : EXIT_UNSUPPORTED;
}

/* --- The device ----------------------------------------------------------------------------- */

/* The memory of the device: this process', a GPU's, or what the emulator has for one. */
static bool find_memory(struct verify_run_state *s, char *why) {
    const char *name = s->o->shape.device, *driver = s->o->shape.driver;
    if (!strcmp(name, "cpu")) {
        s->target.memory = &case_memory_host;
        return true;
    }
    s->target.memory = &s->memory;
    const bool is_emulator = !strncmp(name, "emu", 3);
    if (is_emulator && !driver)
        driver = getenv("GQA_CUDA_EMU") ? getenv("GQA_CUDA_EMU") : "build/libcuda-emu.so";
    const int ordinal =
        is_emulator ? 0 : atoi(name + strcspn(name, ":") + (strchr(name, ':') != NULL));
    return case_memory_cuda(driver, ordinal, &s->memory, why);
}

static int verify(struct verify_run_state *s) {
    struct gqa_error err;
    char why[160] = "";
    const struct options *o = s->o;
    if (!count_selected(s) && !is_merge_asked(o))
        return complain_case(s);
    s->target.name = o->shape.device;
    s->target.slices = strcmp(o->shape.device, "cpu") ? 0 : SLICES;
    const gqa_status status = shape_open_device(&o->shape, &s->target.device, &err);
    if (status)
        return flags_complain(s->self, shape_exit(status), "%s: %s", gqa_status_name(status),
                              err.message);
    int code = EXIT_UNSUPPORTED;
    if (!strncmp(o->shape.device, "plan", 4))
        flags_complain(s->self, EXIT_UNSUPPORTED, "%s is for planning only", o->shape.device);
    else if (!find_memory(s, why))
        flags_complain(s->self, EXIT_UNSUPPORTED, "%s: %s", o->shape.device, why);
    else if (!(code = choose_kernels(s)))
        code = run_all(s);
    gqa_device_close(s->target.device);
    return code;
}

/* The list, and a case that is asked for by a name that the list does not reach. */
static bool make_list(struct verify_run_state *s) {
    if (!case_list_init(&s->list, s->o->random))
        return false;
    for (size_t i = 0; i < s->list.count; i++)
        s->has_named |= is_named(s->o, &s->list.cases[i]);
    struct test_case found;
    if (s->has_named || !s->o->only || !case_find(s->o->only, &found))
        return true;
    case_list_free(&s->list);
    s->list = (struct case_list){.cases = malloc(sizeof found), .count = 1, .room = 1};
    if (!s->list.cases)
        return false;
    s->list.cases[0] = found;
    return s->has_named = true;
}

static int run(const struct command *self, int argc, char **argv) {
    struct options o = {.seed = 1, .random = -1};
    int operands = 0;
    const struct flag own[] = {
        {NULL, FLAG_HEADING, NULL, NULL, "What is run", NULL, 0, 0},
        {"quick", FLAG_YES, &o.quick, NULL, "small cases only: under a minute", NULL, 0, 0},
        {"all", FLAG_YES, &o.all, NULL, "slow cases too", NULL, 0, 0},
        {"case", FLAG_TEXT, (void *)&o.only, "NAME", "this case, or all whose name has NAME in it",
         NULL, 0, 0},
        {"kernel", FLAG_TEXT, (void *)&o.kernel, "NAME", "this kernel (all that run here)", NULL, 0,
         0},
        {"seed", FLAG_INT64, &o.seed, "N", "of the data (1)", NULL, 0, INT64_MAX},
        {"random", FLAG_INT, &o.random, "N",
         "random combinations after the named cases (200;\n"
         "20 if --quick)",
         NULL, 0, 1 << 20},
        {"list", FLAG_YES, &o.list, NULL, "only print the cases", NULL, 0, 0},
        {"format", FLAG_CHOICE, &o.format, NULL, "of --list (text)", table_formats, 0, 0},
    };
    struct flag_table tables[2];
    shape_init(&o.shape, SHAPE_DEVICE, tables + 1);
    tables[0] = (struct flag_table){own, sizeof own / sizeof *own};
    const enum flag_result parsed = flags_parse(self, tables, 2, argc, argv, NULL, &operands);
    if (parsed != FLAGS_RUN)
        return parsed == FLAGS_HELP ? EXIT_DONE : EXIT_USAGE;
    if (o.random < 0)
        o.random = o.quick ? 20 : 200;

    struct verify_run_state *s = calloc(1, sizeof *s);
    if (!s)
        return flags_complain(self, EXIT_FAILED, "out of memory");
    s->self = self;
    s->o = &o;
    s->progress = isatty(STDERR_FILENO);
    const int code = !make_list(s) ? flags_complain(self, EXIT_FAILED, "out of memory")
                     : o.list      ? print_list(s)
                                   : verify(s);
    case_list_free(&s->list);
    free(s);
    return code;
}

const struct command cmd_verify = {
    .name = "verify",
    .summary = "kernels against a float64 reference, on named and random cases",
    .usage = "[--quick | --all] [--case NAME] [--kernel NAME] [--seed N] [--device NAME]",
    .about =
        "Runs every kernel of a device on a list of cases and compares O and LSE with a\n"
        "reference in float64, within bounds that follow from the types; NaN and Inf in unused\n"
        "memory must not show, and nothing but the outputs may be written. A failure prints\n"
        "the command that repeats it. The last line is \"N passed, N failed, N skipped\";\n"
        "every skip is printed with its reason.",
    .example = "  gqa verify --quick\n"
               "  gqa verify --case random/17 --seed 3 --threads 2\n",
    .run = run,
};
