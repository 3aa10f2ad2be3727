/* SPDX-License-Identifier: Apache-2.0
 * A decode behind kernels that write its inputs, all by programmatic dependent launch, captured
 * once in a CUDA graph and replayed with other inputs: queries, keys, values, lengths and table are
 * what the kernels before left there, so nothing may be read before the dependent wait.
 *
 * The same kernels behind kernels that write no more than GQA_PDL_EARLY allows: queries, and K and
 * V of the query tokens. They lie there as NaN before.
 *
 *   test_relay [DEVICE [KERNEL...]]      emu:sm_100a, the Blackwell kernels
 *
 * An emulated DEVICE is that of GQA_CUDA_EMU, which `make check` sets. */
#include "../oracle/compare.h"
#include "../oracle/memory_cuda.h"
#include "../oracle/ref.h"
#include "../src/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 3, TOKENS = 300, EARLY_TOKENS = 3 };

typedef struct cu_graph *cu_graph;

static struct {
    cu_result (*stream_create)(cu_stream *, unsigned);
    cu_result (*begin)(cu_stream, int);
    cu_result (*end)(cu_stream, cu_graph *);
    cu_result (*instantiate)(cu_graph *, cu_graph, unsigned long long);
    cu_result (*replay)(cu_graph, cu_stream);
} cu;

static struct driver driver;
static struct case_memory memory;
static cu_kernel relay;

/* What the decode reads. */
static const enum case_tensor inputs[] = {CASE_Q, CASE_K, CASE_V, CASE_KV_LENS, CASE_TABLE};

enum { INPUTS = sizeof inputs / sizeof *inputs };

/* --- The driver --- */

static bool find(const char *name, void *function) {
    void **to = function;
    return (*to = dlsym(driver.handle, name)) != NULL;
}

static bool open_driver(const char *device, char *why) {
    struct gqa_error err = {0};
    const bool is_emulator = !strncmp(device, "emu:", 4);
    const char *path = is_emulator ? getenv("GQA_CUDA_EMU") : NULL;
    if (is_emulator && !path)
        path = "build/libcuda-emu.so";
    const gqa_status status = is_emulator ? driver_open_emulator(device + 4, path, &driver, &err)
                                          : driver_open(NULL, &driver, &err);
    snprintf(why, 160, "%.150s", err.message);
    return !status && case_memory_cuda(path, 0, &memory, why) &&
           find("cuStreamCreate", &cu.stream_create) &&
           find("cuStreamBeginCapture_v2", &cu.begin) && find("cuStreamEndCapture", &cu.end) &&
           find("cuGraphLaunch", &cu.replay) &&
           find("cuGraphInstantiateWithFlags", &cu.instantiate);
}

static bool load_relay(void) {
    static char text[4096];
    FILE *f = fopen("tests/relay.ptx", "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    cu_library library;
    if (f)
        fclose(f);
    return n && !driver.library_load(&library, text, NULL, NULL, 0, NULL, NULL, 0) &&
           !driver.library_kernel(&relay, library, "relay");
}

static bool launch_relay(void *to, const void *from, size_t bytes, cu_stream stream) {
    uint32_t halves = (uint32_t)(bytes / 2);
    void *parameters[] = {&to, &from, &halves, NULL};
    struct cu_launch_attribute pdl = {.id = CU_LAUNCH_PROGRAMMATIC, .value.programmatic = 1};
    const struct cu_launch config = {.grid_x = 4,
                                     .grid_y = 1,
                                     .grid_z = 1,
                                     .block_x = 128,
                                     .block_y = 1,
                                     .block_z = 1,
                                     .stream = stream,
                                     .attributes = &pdl,
                                     .attribute_count = 1};
    return !driver.launch(&config, relay, parameters, NULL);
}

/* --- One kernel --- */

/* Full of 0xFF: letters are looked for before they are there. */
static void *new_workspace(const gqa_plan *plan) {
    const size_t bytes = gqa_plan_workspace(plan) + 1;
    void *device = memory.alloc(memory.context, bytes, 256);
    return device && case_memory_poison(&memory, device, bytes) ? device : NULL;
}

static void make_case(struct test_case *c, const char *kernel, enum gqa_reduction reduction) {
    *c = (struct test_case){.p = gqa_problem_init(), .lens_kind = CASE_LENS_LIST};
    snprintf(c->name, sizeof c->name, "relay");
    c->p.batch = c->lens_count = 2;
    c->lens[0] = TOKENS;
    c->lens[1] = 45;
    c->p.q_heads = 8;
    c->p.kv_heads = 1;
    c->p.head_dim = 128;
    c->p.kv_len = TOKENS;
    c->p.kv_type = c->p.q_type = GQA_BF16;
    c->p.o_type = GQA_F32;
    c->p.paging = GQA_PAGED_TABLE;
    c->p.page_size = 32;
    c->p.table_stride = (TOKENS + 31) / 32;
    c->p.has_lse = 1;
    c->p.pdl = GQA_PDL_ON;
    c->p.kernel = kernel;
    c->p.split_mode = GQA_SPLIT_FIXED;
    c->p.splits = 2;
    c->p.reduction = reduction;
}

/* The graph: staging -> inputs of `x`, then the decode. */
static cu_graph capture(struct case_instance *x, void *const staging[INPUTS], gqa_plan *plan,
                        void *workspace, cu_stream stream, struct gqa_error *err) {
    cu_graph graph = NULL, ready = NULL;
    bool ok = !cu.begin(stream, 0);
    for (int i = 0; ok && i < INPUTS; i++) {
        const struct case_buffer *b = &x->buffers[inputs[i]];
        ok = launch_relay(b->device, staging[i], b->bytes, stream);
    }
    ok = ok && !gqa_decode(plan, &x->device, workspace, gqa_plan_workspace(plan), stream, err);
    if (cu.end(stream, &graph) || !ok || cu.instantiate(&ready, graph, 0))
        return NULL;
    return ready;
}

/* Replay with the inputs of seed `seed`; NULL if the answer is right. */
static const char *replay(struct case_instance *x, void *const staging[INPUTS], cu_graph graph,
                          cu_stream stream, uint64_t seed) {
    static struct compare_result result;
    struct case_instance other;
    struct ref ref;
    struct test_case c = *x->c; /* as many pages, but the other sequence is the long one */
    if (seed % 2)
        c.lens[0] = x->c->lens[1], c.lens[1] = x->c->lens[0];
    if (!case_build(&other, &c, seed, &memory))
        return "no memory";
    bool ok = case_reset(x);
    for (int i = 0; ok && i < INPUTS; i++) {
        struct case_buffer *from = &other.buffers[inputs[i]], *to = &x->buffers[inputs[i]];
        ok = from->bytes == to->bytes &&
             memory.upload(memory.context, staging[i], from->host, from->bytes);
        if (ok) /* case_collect expects to find this */
            memcpy(to->host, from->host, from->bytes);
    }
    const char *why = !ok                                  ? "upload"
                      : cu.replay(graph, stream)           ? "the graph was not launched"
                      : !case_collect(x)                   ? x->why
                      : !ref_decode(&x->p, &x->host, &ref) ? "no memory"
                                                           : NULL;
    if (!why) {
        compare_decode(&x->p, &x->host, &ref, &result);
        ref_free(&ref);
        why = result.ok ? NULL : result.message;
    }
    case_free(&other);
    return why;
}

static int run(gqa_device *device, const char *kernel, enum gqa_reduction reduction) {
    struct test_case c;
    struct case_instance x;
    struct gqa_error err = {0};
    gqa_plan *plan = NULL;
    void *staging[INPUTS];
    cu_stream stream = NULL;
    make_case(&c, kernel, reduction);
    if (!case_build(&x, &c, 100, &memory))
        return printf("FAILED %s: %s\n", kernel, x.why), 0;
    if (gqa_plan_create(device, &x.p, &plan, &err))
        return printf("skip: %s\n", err.message), case_free(&x), -1;
    for (int i = 0; i < INPUTS; i++)
        staging[i] = memory.alloc(memory.context, x.buffers[inputs[i]].bytes, 256);
    void *workspace = new_workspace(plan);
    cu_graph graph =
        cu.stream_create(&stream, 1) ? NULL : capture(&x, staging, plan, workspace, stream, &err);
    const char *why = graph ? NULL : "the graph was not captured";
    for (uint64_t n = 0; !why && n < REPLAYS; n++)
        why = replay(&x, staging, graph, stream, n + 1);
    if (why)
        printf("FAILED %s, reduction %d: %s %s\n", kernel, (int)reduction, why, err.message);
    gqa_plan_destroy(plan);
    case_free(&x);
    return !why;
}

/* --- Early --- */

/* Where the sequence's token `back` from its last lies in K or V. */
static size_t row_offset(const struct case_instance *x, const struct gqa_strides *s, int sequence,
                         int back) {
    const int last = x->host.kv_lens[sequence] - 1 - back;
    const int page = x->host.block_table[sequence * x->p.table_stride + last / x->p.page_size];
    return 2 * (size_t)(page * s->batch + last % x->p.page_size * s->token);
}

/* What kernels bring back. All is poisoned first and launched then, since what the host does to
 * memory in between would end the kernels before. */
struct relayed {
    char *at, *from;
    size_t bytes;
};

struct relays {
    struct relayed each[2 * 8 * EARLY_TOKENS + 1];
    int count;
};

static bool relays_add(struct relays *r, struct case_instance *x, enum case_tensor which,
                       size_t offset, size_t bytes) {
    struct case_buffer *b = &x->buffers[which];
    struct relayed *y = &r->each[r->count++];
    *y = (struct relayed){(char *)b->device + offset, memory.alloc(memory.context, bytes, 256),
                          bytes};
    return y->from && memory.upload(memory.context, y->from, (char *)b->host + offset, bytes) &&
           case_memory_poison(&memory, y->at, bytes);
}

/* The query tokens of all sequences, and Q. */
static bool relays_prepare(struct relays *r, struct case_instance *x) {
    bool ok = x->p.batch <= 8;
    r->count = 0;
    for (int i = 0; ok && i < x->p.batch * EARLY_TOKENS; i++) {
        const int sequence = i / EARLY_TOKENS, back = i % EARLY_TOKENS;
        ok = relays_add(r, x, CASE_K, row_offset(x, &x->p.k, sequence, back), 256) &&
             relays_add(r, x, CASE_V, row_offset(x, &x->p.v, sequence, back), 256);
    }
    return ok && relays_add(r, x, CASE_Q, 0, x->buffers[CASE_Q].bytes);
}

static bool relays_launch(const struct relays *r, cu_stream stream) {
    for (int i = 0; i < r->count; i++)
        if (!launch_relay(r->each[i].at, r->each[i].from, r->each[i].bytes, stream))
            return false;
    return true;
}

static int run_early(gqa_device *device, const char *kernel, enum gqa_reduction reduction) {
    static struct compare_result result;
    static struct relays relays;
    struct test_case c;
    struct case_instance x;
    struct gqa_error err = {0};
    struct ref ref;
    gqa_plan *plan = NULL;
    cu_stream stream = NULL;
    make_case(&c, kernel, reduction);
    c.p.pdl = GQA_PDL_EARLY;
    c.p.q_tokens = EARLY_TOKENS;
    if (!case_build(&x, &c, 200, &memory))
        return printf("FAILED %s: %s\n", kernel, x.why), 0;
    if (gqa_plan_create(device, &x.p, &plan, &err))
        return printf("skip: %s\n", err.message), case_free(&x), -1;
    void *workspace = new_workspace(plan);
    bool ok = !cu.stream_create(&stream, 1) && case_reset(&x) && relays_prepare(&relays, &x) &&
              relays_launch(&relays, stream);
    ok = ok && !gqa_decode(plan, &x.device, workspace, gqa_plan_workspace(plan), stream, &err) &&
         case_collect(&x) && ref_decode(&x.p, &x.host, &ref);
    if (ok) {
        compare_decode(&x.p, &x.host, &ref, &result);
        ref_free(&ref);
    }
    if (!ok || !result.ok)
        printf("FAILED %s, early, reduction %d: %s %s\n", kernel, (int)reduction, err.message,
               ok ? result.message : x.why);
    gqa_plan_destroy(plan);
    case_free(&x);
    return ok && result.ok;
}

static int passed, failed, skipped;

static void count(int result) {
    passed += result > 0;
    failed += result == 0;
    skipped += result < 0;
}

int main(int argc, char **argv) {
    static const char *const all[] = {"gqa_decode_sm100_bf16_d128_g8",
                                      "gqa_decode_sm100s_bf16_d128_g8",
                                      "gqa_decode_sm100o_bf16_d128_g8"};
    static const enum gqa_reduction reductions[] = {GQA_REDUCE_KERNEL, GQA_REDUCE_CLUSTER,
                                                    GQA_REDUCE_GRID};
    const char *name = argc > 1 ? argv[1] : "emu:sm_100a";
    const char *const *kernels = argc > 2 ? (const char *const *)argv + 2 : all;
    const int kernel_count = argc > 2 ? argc - 2 : (int)(sizeof all / sizeof *all);
    char why[160] = "";
    gqa_device *device = NULL;
    struct gqa_error err = {0};
    if (gqa_device_open(name, NULL, &device, &err) || !open_driver(name, why)) {
        printf("skip: %s: %s%s\n0 passed, 0 failed, 1 skipped\n", name, why, err.message);
        return 0;
    }
    if (!load_relay()) {
        printf("tests/relay.ptx was not loaded\n0 passed, 1 failed, 0 skipped\n");
        return 1;
    }
    for (int i = 0; i < kernel_count; i++)
        for (int r = 0; r < 3; r++)
            if (strstr(kernels[i], "_sm90_") || reductions[r] != GQA_REDUCE_GRID) {
                count(run(device, kernels[i], reductions[r]));
                count(run_early(device, kernels[i], reductions[r]));
            }
    gqa_device_close(device);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}
