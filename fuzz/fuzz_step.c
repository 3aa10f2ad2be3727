/* SPDX-License-Identifier: Apache-2.0
 * Any bytes as the input of `gqa decode`: the first eight choose options, the rest is the file.
 * Refused with a sentence, or planned and computed inside the memory that belongs to the step. The
 * tensors lie in allocations of exactly their size, so a sanitizer sees a step outside. */
#include "bytes.h"
#include "step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPTIONS = 8, MOST_BYTES = 1 << 20, MOST_WORK = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "fuzz_step: %s\n", what);
        abort();
    }
}

/* A space that gives out exact allocations. */
static void *exact_take(struct space *space, size_t bytes) {
    (void)space;
    void *memory = NULL;
    return posix_memalign(&memory, 256, bytes ? bytes : 1) ? NULL : memory;
}

static void exact_give(struct space *space, void *memory, size_t bytes) {
    (void)space, (void)bytes;
    free(memory);
}

static struct gqa_problem choose_options(struct bytes *b, enum gqa_layout *layout) {
    struct gqa_problem p = gqa_problem_init();
    *layout = (enum gqa_layout)bytes_below(b, 2);
    p.causal = bytes_below(b, 2);
    p.window_left = bytes_below(b, 8) - 1;
    p.softcap = (float)bytes_below(b, 3);
    p.split_mode = (enum gqa_split_mode)bytes_below(b, 3);
    p.splits = p.split_mode == GQA_SPLIT_FIXED ? bytes_below(b, 9) : 0;
    p.split_tokens = p.split_mode == GQA_SPLIT_INVARIANT ? bytes_below(b, 4) : 0;
    p.precision = (enum gqa_precision)bytes_below(b, 2);
    p.has_lse = 1;
    return p;
}

static void compute(gqa_device *device, struct step *step) {
    const struct gqa_problem *p = &step->problem;
    struct gqa_error err = {0};
    gqa_plan *plan;
    step->problem.o_type = p->q_type <= GQA_F16 ? p->q_type : GQA_F32;
    if (gqa_plan_create(device, p, &plan, &err)) {
        demand(err.status != GQA_OK && err.message[0], "a refusal says nothing");
        return;
    }
    const size_t rows = (size_t)step_rows(p) * (size_t)p->q_heads;
    const size_t workspace_bytes = gqa_plan_workspace(plan);
    const double work = (double)rows * (double)p->kv_len * (p->head_dim + p->head_dim_v);
    if (work <= MOST_WORK && rows * (size_t)p->head_dim_v <= MOST_BYTES &&
        workspace_bytes <= 64 * MOST_BYTES) {
        void *o = exact_take(NULL, rows * (size_t)p->head_dim_v * gqa_type_bytes(p->o_type));
        float *lse = exact_take(NULL, rows * sizeof *lse);
        void *workspace = exact_take(NULL, workspace_bytes);
        step->tensors.o = o;
        step->tensors.lse = lse;
        if (gqa_decode(plan, &step->tensors, workspace, workspace_bytes, NULL, &err))
            demand(err.status != GQA_OK && err.message[0], "a refusal says nothing");
        free(o);
        free(lse);
        free(workspace);
    }
    gqa_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gqa_device *device;
    static struct space_kind exact;
    struct bytes b = {data, data + (size < OPTIONS ? size : OPTIONS)};
    struct gqa_device_options one = gqa_device_options_init();
    struct gqa_error err = {0};
    struct step step;
    enum gqa_layout layout;
    char path[64];
    one.threads = 1;
    exact = space_cpu;
    exact.take = exact_take;
    exact.give = exact_give;
    struct space space = {.kind = &exact};
    if (!device)
        demand(!gqa_device_open("cpu", &one, &device, NULL), "there is no CPU");

    const struct gqa_problem options = choose_options(&b, &layout);
    const size_t rest = size < OPTIONS ? 0 : size - OPTIONS;
    const int fd = memfd_create("input", MFD_CLOEXEC);
    demand(fd >= 0 && write(fd, data + size - rest, rest) == (ssize_t)rest, "no memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (step_read(path, &options, layout, MOST_BYTES, &space, &step, &err)) {
        demand(err.status != GQA_OK && err.message[0], "a refusal says nothing");
    } else {
        compute(device, &step);
        step_free(&step);
    }
    close(fd);
    return 0;
}
