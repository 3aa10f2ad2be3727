/* SPDX-License-Identifier: Apache-2.0
 * gqa.h promises that the workspace never shrinks as batch, kv_len or q_tokens grow, all else
 * equal, and that has_lse does not change it. Here every chain of one dimension over a grid of
 * problems, on every device that plans. */
#include "gqa.h"
#include "test.h"

#include <stdlib.h>

static const char *const devices[] = {"plan:cpu", "plan:sm_80", "plan:sm_90a", "plan:sm_100a"};
static const int heads[][2] = {{4, 2}, {32, 8}, {8, 8}, {71, 1}, {128, 8}};
static const int dims[] = {16, 64, 128, 256};
static const int64_t batches[] = {0, 1, 2, 3, 7, 8, 64, 500, 5000};
static const int64_t lengths[] = {0, 1, 2, 3, 15, 16, 17, 100, 127, 128, 1000, 5000, 100000};
static const int64_t tokens[] = {1, 2, 3, 4, 5, 8, 15, 16};

static const enum gqa_reduction reductions[] = {GQA_REDUCE_AUTO, GQA_REDUCE_KERNEL,
                                                GQA_REDUCE_GRID};

enum { DIMENSIONS = 3 };
static const struct chain {
    const char *name;
    const int64_t *values;
    int count;
} chains[DIMENSIONS] = {
    {"batch", batches, sizeof batches / sizeof *batches},
    {"kv_len", lengths, sizeof lengths / sizeof *lengths},
    {"q_tokens", tokens, sizeof tokens / sizeof *tokens},
};

/* The split modes that the grid tries: automatic, fixed, invariant. */
static void set_mode(struct gqa_problem *p, int mode) {
    p->split_mode = (enum gqa_split_mode)mode;
    p->splits = mode == GQA_SPLIT_FIXED ? 3 : 0;
    p->split_tokens = mode == GQA_SPLIT_INVARIANT ? 100 : 0;
}

/* Workspace, or -1 where the device refuses. */
static int64_t workspace(gqa_device *device, struct gqa_problem p, enum gqa_layout layout) {
    gqa_plan *plan;
    gqa_problem_pack(&p, layout);
    if (gqa_plan_create(device, &p, &plan, NULL))
        return -1;
    const int64_t bytes = (int64_t)gqa_plan_workspace(plan);
    gqa_plan_destroy(plan);
    return bytes;
}

/* Walk one dimension of p; returns how many steps were compared. */
static int walk(gqa_device *device, const char *name, struct gqa_problem p, enum gqa_layout layout,
                int dimension) {
    const struct chain *c = &chains[dimension];
    int64_t before = -1;
    int compared = 0;
    for (int i = 0; i < c->count; i++) {
        if (dimension == 0)
            p.batch = c->values[i];
        else if (dimension == 1)
            p.kv_len = c->values[i];
        else
            p.q_tokens = (int)c->values[i];
        const int64_t bytes = workspace(device, p, layout);
        if (bytes < 0)
            continue;
        if (bytes < before)
            FAIL("%s, %d/%d/%d, %s, split mode %d, reduction %d, page %d: workspace falls from "
                 "%lld to %lld as %s "
                 "reaches %lld (batch %lld, kv_len %lld, q_tokens %d)",
                 name, p.q_heads, p.kv_heads, p.head_dim, layout == GQA_HND ? "hnd" : "nhd",
                 p.split_mode, p.reduction, p.page_size, (long long)before, (long long)bytes,
                 c->name, (long long)c->values[i], (long long)p.batch, (long long)p.kv_len,
                 p.q_tokens);
        compared += before >= 0;
        before = bytes;
        p.has_lse = 1;
        CHECK(workspace(device, p, layout) == bytes);
        p.has_lse = 0;
    }
    return compared;
}

/* All chains through one point of the grid. */
static int walk_all(gqa_device *device, const char *name, const struct gqa_problem *base,
                    enum gqa_layout layout) {
    static const int64_t starts[][DIMENSIONS] = {{1, 100, 1}, {3, 5000, 4}, {8, 1000, 2}};
    int compared = 0;
    for (int s = 0; s < 3; s++)
        for (int d = 0; d < DIMENSIONS; d++) {
            struct gqa_problem p = *base;
            p.batch = starts[s][0];
            p.kv_len = starts[s][1];
            p.q_tokens = (int)starts[s][2];
            compared += walk(device, name, p, layout, d);
        }
    return compared;
}

static int walk_device(gqa_device *device, const char *name) {
    int compared = 0;
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (int variant = 0; variant < 3 * 2 * 2 * 3; variant++) {
                struct gqa_problem p = gqa_problem_init();
                p.q_type = p.kv_type = p.o_type = GQA_BF16;
                p.q_heads = heads[h][0];
                p.kv_heads = heads[h][1];
                p.head_dim = dims[d];
                set_mode(&p, variant % 3);
                if (variant / 3 % 2) {
                    p.paging = GQA_PAGED_TABLE;
                    p.page_size = 16;
                }
                p.reduction = reductions[variant / 12];
                compared += walk_all(device, name, &p, variant / 6 % 2 ? GQA_NHD : GQA_HND);
            }
    return compared;
}

TEST(workspace_never_shrinks) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        gqa_device *device;
        if (gqa_device_open(devices[i], NULL, &device, NULL)) {
            SKIP("%s is not in this build", devices[i]);
            continue;
        }
        CHECK(walk_device(device, devices[i]) > 1000);
        gqa_device_close(device);
    }
}

TEST_MAIN
