/* peers.c: other people's SM100 decode kernels through a CUDA driver library, against float64.
 *
 *   peers LIBRARY PTX_FOLDER [--only NAME] [--seed N]
 *   peers LIBRARY PTX_FOLDER --only NAME --time BATCH,Q_HEADS,KV_HEADS,KEYS,SPLITS [--pdl off]
 *
 * --time queues three steps on zeros, each with K and V of its own, and compares nothing: with
 * EMU_TIMING=1 and EMU_TIMING_LOG=file the emulator writes down when each grid began and ended.
 *
 * The kernels' PTX is not ours and not part of this project: scripts/peers-ptx makes it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds: O is bf16 after P in bf16 (a few 2^-9 of values about 1); LSE is f32, through ex2.approx.
 */
static const struct peer peers[] = {
    {"fi-d128-kernel", flashinfer_run, 128, 0, 4, REDUCE_KERNEL, 215584, 1e-2, 1e-4},
    {"fi-d128-none", flashinfer_run, 128, 0, 1, REDUCE_NONE, 215584, 1e-2, 1e-4},
    {"fi-d128-atomic", flashinfer_run, 128, 0, 4, REDUCE_ATOMIC, 215968, 1e-2, 1e-4},
    {"fi-d64-kernel", flashinfer_run, 64, 0, 4, REDUCE_KERNEL, 214560, 1e-2, 1e-4},
    {"fi-d64-none", flashinfer_run, 64, 0, 1, REDUCE_NONE, 214560, 1e-2, 1e-4},
    {"fi-d64-atomic", flashinfer_run, 64, 0, 4, REDUCE_ATOMIC, 214944, 1e-2, 1e-4},
    {"fi-d128-kernel-page64", flashinfer_run, 128, 64, 4, REDUCE_KERNEL, 215664, 1e-2, 1e-4},
    {"fi-d128-kernel-g16", flashinfer_run, 128, 0, 4, REDUCE_KERNEL, 232448, 1e-2, 1e-4},
    {"fi-d128-kernel-g32", flashinfer_run, 128, 0, 4, REDUCE_KERNEL, 232448, 1e-2, 1e-4},
    {"fa4-d128-split8", fa4_run, 128, 0, 8, REDUCE_NONE, 231424, 1e-2, 1e-4},
    {"fa4-d64-split8", fa4_run, 64, 0, 8, REDUCE_NONE, 231424, 1e-2, 1e-4},
    {"fa4-d128-nosplit", fa4_run, 128, 0, 1, REDUCE_NONE, 232448, 1e-2, 1e-4},
    {"fa4-d64-nosplit", fa4_run, 64, 0, 1, REDUCE_NONE, 232448, 1e-2, 1e-4},
    {"fa4-d256-pair", fa4_run, 256, 0, 1, REDUCE_NONE, 232448, 1e-2, 1e-4},
    {"fa4-d128-page16", fa4_run, 128, 16, 8, REDUCE_NONE, 231424, 1e-2, 1e-4},
};

bool peer_verdict(const struct peer *t, const struct problem *x, int splits, int result,
                  const uint16_t *o, const float *lse, double lse_unit) {
    const long rows = (long)x->batch * x->q_heads;
    if (gpu_timing)
        return true;
    const double eo = error_bf16(o, x->o, rows * x->dim),
                 el = error_f32(lse, x->lse, rows, lse_unit);
    const bool ok = !result && eo <= t->o_bound && el <= t->lse_bound;
    printf("%s %s: splits %d, keys", ok ? "ok" : "FAILED", t->name, splits);
    for (int i = 0; i < x->batch; i++)
        printf(" %d", x->lens[i]);
    printf(": O error %.2g (at most %.2g), LSE error %.2g (%.2g)%s\n", eo, t->o_bound, el,
           t->lse_bound, result ? ", the launch failed" : "");
    return ok;
}

/* Query heads of a KV head: "-g16" in the name, or 8. */
static int group_of(const struct peer *t) {
    const char *g = strstr(t->name, "-g");
    return g ? atoi(g + 2) : 8;
}

static bool run(const struct peer *t, const char *folder, uint64_t seed, int keys) {
    char stem[1024];
    struct problem x = {.batch = 2,
                        .q_heads = 64,
                        .kv_heads = 64 / group_of(t),
                        .dim = t->dim,
                        .keys = keys,
                        .lens = {keys, keys}};
    if (t->page) { /* ragged; the pool holds whole pages */
        x.keys = (keys + t->page - 1) / t->page * t->page;
        x.lens[1] = keys / 3 + 1;
    }
    problem_fill(&x, seed + (uint64_t)keys);
    snprintf(stem, sizeof stem, "%s/%s", folder, t->name);
    const bool ok = t->run(t, stem, &x, t->splits);
    problem_free(&x);
    fflush(stdout);
    return ok;
}

static int time_steps(const struct peer *t, const char *folder, const char *shape) {
    struct problem x = {.dim = t->dim, .scale = 0.1f};
    char stem[1024];
    int splits;
    if (sscanf(shape, "%d,%d,%d,%d,%d", &x.batch, &x.q_heads, &x.kv_heads, &x.keys, &splits) != 5 ||
        x.batch > MAX_BATCH)
        return 2;
    for (int i = 0; i < x.batch; i++)
        x.lens[i] = x.keys;
    if (t->page)
        x.keys = (x.keys + t->page - 1) / t->page * t->page;
    snprintf(stem, sizeof stem, "%s/%s", folder, t->name);
    gpu_timing = true;
    for (int step = 0; step < 3; step++) {
        t->run(t, stem, &x, splits);
        if (t->page) /* its tables are copied, which waits for the queue in any case */
            gpu_drain();
    }
    gpu_drain();
    return 0;
}

int main(int argc, char **argv) {
    static const int keys[] = {1000, 1, 300, 64};
    const char *only = "", *shape = NULL;
    uint64_t seed = 1;
    int count = 4, passed = 0, failed = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: peers LIBRARY PTX_FOLDER [--only NAME] [--seed N] [--lengths N]\n");
        return 2;
    }
    for (int i = 3; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--only"))
            only = argv[i + 1];
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--lengths"))
            count = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--time"))
            shape = argv[i + 1];
        else if (!strcmp(argv[i], "--pdl"))
            gpu_no_pdl = !strcmp(argv[i + 1], "off");
    }
    gpu_open(argv[1]);
    for (size_t k = 0; shape && k < sizeof peers / sizeof *peers; k++)
        if (!strcmp(peers[k].name, only))
            return time_steps(&peers[k], argv[2], shape);
    for (size_t k = 0; k < sizeof peers / sizeof *peers; k++)
        for (int n = 0; (!*only || !strcmp(peers[k].name, only)) && n < count && n < 4; n++)
            *(run(&peers[k], argv[2], seed, keys[n]) ? &passed : &failed) += 1;
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed || !passed;
}
