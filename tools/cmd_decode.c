/* SPDX-License-Identifier: Apache-2.0
 * gqa decode: one step from a safetensors file to another. The output appears complete or not at
 * all. */
#include "commands.h"
#include "safetensors.h"
#include "shape.h"
#include "space.h"
#include "step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One run: what is open and what must be released. */
struct decode {
    const struct shape *shape;
    uint64_t most_bytes;
    struct gqa_error err;
    struct space space;
    gqa_device *device;
    struct step step;
    gqa_plan *plan;
    void *o, *lse, *workspace; /* in the space */
    size_t o_bytes, lse_bytes, workspace_bytes;
    void *host_o, *host_lse;
};

static gqa_status refuse(struct decode *d, gqa_status status, const char *message) {
    d->err.status = status;
    snprintf(d->err.message, sizeof d->err.message, "%s", message);
    return status;
}

static gqa_status plan(struct decode *d, const char *input) {
    struct gqa_problem options = shape_problem(d->shape);
    options.has_lse = 1;
    options.kv_len_expected = 0;
    gqa_status status;
    if ((status = shape_open_device(d->shape, &d->device, &d->err)) ||
        (status = space_open(d->shape->device, &d->space, &d->err)) ||
        (status = step_read(input, &options, (enum gqa_layout)d->shape->layout, d->most_bytes,
                            &d->space, &d->step, &d->err)))
        return status;
    d->step.problem.o_type =
        d->shape->o_type >= 0 ? (enum gqa_type)d->shape->o_type : d->step.problem.q_type;
    return gqa_plan_create(d->device, &d->step.problem, &d->plan, &d->err);
}

/* Memory for the results and the workspace. The planner has checked all sizes. */
static gqa_status take(struct decode *d) {
    const struct gqa_problem *p = &d->step.problem;
    const size_t rows = (size_t)step_rows(p) * (size_t)p->q_heads;
    d->lse_bytes = rows * sizeof(float);
    d->o_bytes = rows * (size_t)p->head_dim_v * gqa_type_bytes(p->o_type);
    d->workspace_bytes = gqa_plan_workspace(d->plan);
    if (d->o_bytes > d->most_bytes || d->workspace_bytes > d->most_bytes)
        return refuse(d, GQA_ERR_MEMORY, "the output or the workspace exceeds --max-memory-mib");
    d->o = d->space.kind->take(&d->space, d->o_bytes);
    d->lse = d->space.kind->take(&d->space, d->lse_bytes);
    d->workspace = d->space.kind->take(&d->space, d->workspace_bytes);
    d->host_o = malloc(d->o_bytes + 1);
    d->host_lse = malloc(d->lse_bytes + 1);
    if (!d->o || !d->lse || !d->workspace || !d->host_o || !d->host_lse)
        return refuse(d, GQA_ERR_MEMORY, "no memory for the output and the workspace");
    d->step.tensors.o = d->o;
    d->step.tensors.lse = d->lse;
    return GQA_OK;
}

static gqa_status compute(struct decode *d) {
    struct space *space = &d->space;
    gqa_status status = gqa_decode(d->plan, &d->step.tensors, d->workspace, d->workspace_bytes,
                                   space->stream, &d->err);
    if (!status)
        status = space->kind->get(space, d->host_o, d->o, d->o_bytes, &d->err);
    if (!status)
        status = space->kind->get(space, d->host_lse, d->lse, d->lse_bytes, &d->err);
    return status;
}

static gqa_status write_results(struct decode *d, const char *output) {
    const struct gqa_problem *p = &d->step.problem;
    struct st_output out[2] = {
        {.name = "o", .type = (enum st_type)p->o_type, .data = d->host_o},
        {.name = "lse", .type = ST_F32, .data = d->host_lse},
    };
    for (int i = 0; i < 2; i++) {
        int64_t *shape = out[i].shape;
        int n = 0;
        shape[n++] = p->q_ragged ? p->q_total : p->batch;
        if (d->step.q_dims == 4)
            shape[n++] = p->q_tokens;
        shape[n++] = p->q_heads;
        if (i == 0)
            shape[n++] = p->head_dim_v;
        out[i].dims = n;
    }
    return st_write(output, out, 2, &d->err);
}

static void release(struct decode *d) {
    free(d->host_o);
    free(d->host_lse);
    if (d->space.kind) {
        d->space.kind->give(&d->space, d->o, d->o_bytes);
        d->space.kind->give(&d->space, d->lse, d->lse_bytes);
        d->space.kind->give(&d->space, d->workspace, d->workspace_bytes);
    }
    step_free(&d->step);
    gqa_plan_destroy(d->plan);
    space_close(&d->space);
    gqa_device_close(d->device);
}

static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int run(const struct command *self, int argc, char **argv) {
    struct shape shape;
    struct decode d = {.shape = &shape};
    const char *files[2];
    int operands = 2, max_mib = 0;
    struct flag_table tables[4];
    const int n = shape_init(&shape, SHAPE_OPTIONS | SHAPE_DEVICE, tables);
    static const char *const layouts[] = {"hnd", "nhd", NULL};
    const struct flag own[] = {
        {NULL, FLAG_HEADING, NULL, NULL, "Files", NULL, 0, 0},
        {"layout", FLAG_CHOICE, &shape.layout, NULL, "of k and v (hnd)", layouts, 0, 0},
        {"max-memory-mib", FLAG_INT, &max_mib, "N",
         "refuse larger inputs and outputs (half of the memory)", NULL, 1, INT32_MAX},
    };
    tables[n] = (struct flag_table){own, sizeof own / sizeof *own};
    const enum flag_result parsed = flags_parse(self, tables, n + 1, argc, argv, files, &operands);
    if (parsed != FLAGS_RUN)
        return parsed == FLAGS_HELP ? EXIT_DONE : EXIT_USAGE;
    if (operands != 2)
        return flags_complain(self, EXIT_USAGE, "two files are needed: gqa decode %s", self->usage);
    if (is_same_file(files[0], files[1]))
        return flags_complain(self, EXIT_USAGE, "%s is input and output", files[0]);
    d.most_bytes = max_mib
                       ? (uint64_t)max_mib << 20
                       : (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE);

    gqa_status status;
    if (!(status = plan(&d, files[0])) && !(status = take(&d)) && !(status = compute(&d)))
        status = write_results(&d, files[1]);
    if (status)
        flags_complain(self, shape_exit(status), "%s: %s", gqa_status_name(status), d.err.message);
    release(&d);
    return shape_exit(status);
}

const struct command cmd_decode = {
    .name = "decode",
    .summary = "attention of one step: safetensors in, safetensors out",
    .usage = "[--option value ...] INPUT.safetensors OUTPUT.safetensors",
    .about =
        "Reads a decode step from a file and writes o and lse to another. The shapes of the\n"
        "tensors tell the problem; options tell the rest. Every length, offset and page\n"
        "number is checked before anything is computed; the output is written complete or not\n"
        "at all. Tensors:\n" STEP_TENSORS_HELP,
    .example = "  gqa decode --window-left 1023 --softcap 30 step.safetensors result.safetensors\n",
    .run = run,
};
