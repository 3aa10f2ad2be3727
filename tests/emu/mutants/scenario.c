/* SPDX-License-Identifier: Apache-2.0
 * Our kernels in the emulator, on shapes that are small but wrap every ring: what the mutants are
 * judged by, and what must stay clean under every schedule.
 *
 *   emu-scenario --list
 *   emu-scenario [--seeds A..B] [--conservative] [--policy NAME] [--time N] KERNEL SCENARIO...
 *
 * Each seed is a process of its own. A small kernel rewrites the inputs with what they are (EARLY:
 * Q, and K and V of the query tokens), and the scenario is decoded twice, all in one stream without
 * a synchronisation between, so that grids overlap where the plan says so. Seed s runs under policy
 * s modulo 5 unless one is named. The first seed that fails ends the program: its reports, then
 * "failed: KERNEL SCENARIO seed S policy P: WHY"; exit status 1. 3: the kernel cannot do it.
 * --time N: N decodes instead of two, and the processor time of one. */
#include "compare.h"
#include "memory_cuda.h"
#include "ref.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 1, REFUSED = 3, MAX_LENS = 8 };

/* Lengths are in tokens; a scenario without tails (WHOLE) has only full tiles of 128, so that
 * whatever is brought into shared memory is used. LARGE scores: maxima grow by much, and
 * accumulators are rescaled. FLAT: every tail counts. SCALES_N: flat, with what no other has: K's
 * scales of kind N and V's of the next, a softcap, a window, sinks, an LSE of base 2. RAGGED,
 * APART: shapes that no other has, see add_shape. EARLY: GQA_PDL_EARLY, for kernels that gain from
 * it. */
static const struct scenario {
    const char *name;
    int lens[MAX_LENS];
    int batch, kv_heads, q_tokens, page_size; /* pages < 0: page_indptr, page_indices */
    int splits;                               /* INVARIANT: their tokens */
    enum gqa_split_mode mode;
    enum gqa_reduction reduction;
    int sms; /* of the part: few make persistent CTAs take several parts */
    enum { WHOLE, LARGE, FLAT, SCALES_1, SCALES_2, SCALES_3, RAGGED, APART, EARLY, IDLE } kind;
} scenarios[] = {
    {"output", {1024}, 1, 1, 1, 0, 1, GQA_SPLIT_FIXED, GQA_REDUCE_NONE, 0, WHOLE},
    {"output-tails", {837, 45, 1, 0}, 4, 1, 2, 0, 1, GQA_SPLIT_FIXED, GQA_REDUCE_NONE, 0, FLAT},
    {"output-paged", {700, 45}, 2, 1, 1, 16, 1, GQA_SPLIT_FIXED, GQA_REDUCE_NONE, 0, LARGE},
    {"partial", {512, 512}, 2, 1, 1, 0, 2, GQA_SPLIT_FIXED, GQA_REDUCE_KERNEL, 0, WHOLE},
    {"partial-paged", {430, 77}, 2, 1, 1, 32, 3, GQA_SPLIT_FIXED, GQA_REDUCE_KERNEL, 0, LARGE},
    {"partial-csr", {430, 430}, 2, 1, 1, -32, 2, GQA_SPLIT_FIXED, GQA_REDUCE_KERNEL, 0, LARGE},
    {"shares", {256, 384, 128, 256}, 4, 2, 1, 0, 0, GQA_SPLIT_AUTO, GQA_REDUCE_KERNEL, 2, WHOLE},
    {"shares-tails", {250, 0, 301, 1}, 4, 2, 1, 0, 0, GQA_SPLIT_AUTO, GQA_REDUCE_KERNEL, 2, LARGE},
    {"shares-many",
     {17, 1, 0, 33, 2, 0, 0, 1},
     70,
     1,
     1,
     0,
     0,
     GQA_SPLIT_AUTO,
     GQA_REDUCE_KERNEL,
     3,
     LARGE},
    {"cluster", {2048}, 1, 1, 1, 0, 2, GQA_SPLIT_FIXED, GQA_REDUCE_CLUSTER, 0, WHOLE},
    {"cluster-paged", {820, 33}, 2, 1, 1, 16, 3, GQA_SPLIT_FIXED, GQA_REDUCE_CLUSTER, 0, LARGE},
    {"grid", {1024}, 1, 1, 1, 0, 4, GQA_SPLIT_FIXED, GQA_REDUCE_GRID, 0, WHOLE},
    {"grid-paged", {500, 33}, 2, 1, 1, 16, 3, GQA_SPLIT_FIXED, GQA_REDUCE_GRID, 0, LARGE},
    {"atomic", {1024}, 1, 1, 1, 0, 2, GQA_SPLIT_FIXED, GQA_REDUCE_ATOMIC, 0, WHOLE},
    {"atomic-paged", {500, 33}, 2, 1, 1, 16, 4, GQA_SPLIT_FIXED, GQA_REDUCE_ATOMIC, 0, LARGE},
    {"extras", {300, 45}, 2, 2, 2, 7, 1, GQA_SPLIT_FIXED, GQA_REDUCE_NONE, 0, SCALES_1},
    {"extras-cluster", {300, 45}, 2, 2, 1, 0, 2, GQA_SPLIT_FIXED, GQA_REDUCE_CLUSTER, 0, SCALES_2},
    {"extras-csr", {300, 45}, 2, 2, 1, -8, 96, GQA_SPLIT_INVARIANT, GQA_REDUCE_KERNEL, 0, SCALES_3},
    {"ragged", {300, 45, 77, 9}, 4, 1, 2, -16, 1, GQA_SPLIT_FIXED, GQA_REDUCE_NONE, 0, RAGGED},
    {"apart", {300, 45, 0}, 3, 2, 2, 0, 0, GQA_SPLIT_AUTO, GQA_REDUCE_KERNEL, 2, APART},
    {"early", {600, 45}, 2, 1, 2, 0, 2, GQA_SPLIT_FIXED, GQA_REDUCE_KERNEL, 0, EARLY},
    {"early-paged", {300, 45}, 2, 1, 2, 16, 0, GQA_SPLIT_AUTO, GQA_REDUCE_KERNEL, 2, EARLY},
    {"early-idle", {300, 45}, 2, 1, 2, 0, 1, GQA_SPLIT_FIXED, GQA_REDUCE_NONE, 0, IDLE},
    {"auto", {1100}, 1, 1, 1, 0, 0, GQA_SPLIT_AUTO, GQA_REDUCE_AUTO, 0, LARGE},
};

static const char *const policies[] = {"random", "bursty", "instant", "late", "starve"};

enum { SCENARIOS = sizeof scenarios / sizeof *scenarios, POLICIES = 5 };

static struct {
    const char *kernel, *policy;
    int from, to, decodes;
    bool conservative, time;
} options = {NULL, NULL, 1, 1, 2, false, false};

/* --- The case --- */

/* "gqa_decode_ARCH_TYPE_dN_gN" */
static bool read_name(const char *kernel, struct test_case *c, int *arch) {
    char type[8];
    int dim, group;
    const char *s = strstr(kernel, "_sm");
    if (!s || sscanf(s, "_sm%d%*[sdou]", arch) < 1)
        return false;
    s = strchr(s + 1, '_');
    if (!s || sscanf(s, "_%7[a-z0-9]_d%d_g%d", type, &dim, &group) != 3)
        return false;
    c->p.head_dim = dim;
    c->p.q_heads = group;
    for (int t = GQA_F32; t <= GQA_E5M2; t++)
        if (!strcmp(gqa_type_name((enum gqa_type)t), type))
            c->p.kv_type = (enum gqa_type)t;
    c->p.q_type = c->p.kv_type == GQA_F16 ? GQA_F16 : GQA_BF16;
    return c->p.kv_type != GQA_F32;
}

static void add_extras(struct gqa_problem *p, int scales) {
    p->k_scales = (enum gqa_scales)scales;
    p->v_scales = (enum gqa_scales)(scales % 3 + 1);
    p->softcap = 20;
    p->window_left = 100;
    p->has_sinks = 1;
    p->lse_base = GQA_BASE_2;
}

/* RAGGED: another number of query tokens in each sequence, other rows of the page lists, which
 * alone tell the lengths; heads narrower than the kernel's, V's more so; rows of Q and O that no
 * vector fits. APART: other entries of the cache, tokens of K and V apart, two row tiles, O in
 * float32. */
static void add_shape(struct test_case *c, bool is_ragged, int arch) {
    static const int32_t q_lens[] = {3, 1, 0, 2};
    const bool is_fp8 = gqa_type_bytes(c->p.kv_type) == 1;
    c->use_index = true;
    c->p.o_type = is_ragged && is_fp8 ? GQA_BF16 : GQA_F32;
    if (!is_ragged) {
        c->layout = CASE_NHD;
        c->p.q_tokens = 3;
        c->p.k_scales = is_fp8 ? GQA_SCALE_HEAD : GQA_SCALE_NONE;
        c->p.v_scales = is_fp8 ? GQA_SCALE_BATCH_HEAD : GQA_SCALE_NONE;
        return;
    }
    c->rows = CASE_ROWS_LOOSE;
    c->use_last_page = true;
    c->p.q_ragged = 1;
    c->q_lens_count = sizeof q_lens / sizeof *q_lens;
    memcpy(c->q_lens, q_lens, sizeof q_lens);
    c->p.head_dim_v = c->p.head_dim - 32;
    c->p.head_dim -= 16;
    if (c->p.kv_type == GQA_F16)
        c->p.o_type = GQA_F16;
    if (c->p.kv_type != GQA_BF16 &&
        arch < 100) /* the 16-bit type that has to be converted, or has not */
        c->p.q_type = is_fp8 ? GQA_F16 : GQA_BF16;
}

static bool make_case(const struct scenario *s, const char *kernel, struct test_case *c,
                      int *arch) {
    bool is_equal = true;
    *c = (struct test_case){.p = gqa_problem_init(), .lens_kind = CASE_LENS_LIST};
    snprintf(c->name, sizeof c->name, "%s", s->name);
    if (!read_name(kernel, c, arch))
        return false;
    c->p.o_type = s->reduction == GQA_REDUCE_ATOMIC ? GQA_F32 : c->p.q_type;
    c->p.has_lse = 1;
    c->p.kv_heads = s->kv_heads;
    c->p.q_heads = c->p.q_heads / s->q_tokens * s->kv_heads;
    c->p.q_tokens = s->q_tokens;
    c->p.paging = s->page_size > 0   ? GQA_PAGED_TABLE
                  : s->page_size < 0 ? GQA_PAGED_CSR
                                     : GQA_CONTIGUOUS;
    c->p.page_size = abs(s->page_size);
    c->p.split_mode = s->mode;
    if (s->mode == GQA_SPLIT_INVARIANT)
        c->p.split_tokens = s->splits;
    else
        c->p.splits = s->splits;
    c->p.reduction = s->reduction;
    c->p.kernel = kernel;
    if (s->kind >= SCALES_1 && s->kind <= SCALES_3)
        add_extras(&c->p, 1 + s->kind - SCALES_1);
    c->data = s->kind == LARGE ? CASE_LARGE_SCORES : CASE_NORMAL_DATA;
    c->p.batch = s->batch;
    c->lens_count = s->batch < MAX_LENS ? s->batch : MAX_LENS; /* and again from the first */
    for (int i = 0; i < c->lens_count; i++) {
        c->lens[i] = s->lens[i];
        c->p.kv_len = s->lens[i] > c->p.kv_len ? s->lens[i] : c->p.kv_len;
        is_equal = is_equal && s->lens[i] == s->lens[0];
    }
    if (s->kind == RAGGED || s->kind == APART)
        add_shape(c, s->kind == RAGGED, *arch);
    if (s->kind >= EARLY)
        c->p.pdl = GQA_PDL_EARLY;
    if (s->kind == IDLE) {
        c->p.q_ragged = c->q_lens_count = 1;
        c->q_lens[0] = s->q_tokens;
    }
    if (is_equal) /* then kernels need not wait for lengths */
        c->lens_kind = CASE_LENS_NULL;
    return true;
}

/* --- One run --- */

/* Writes every word of its ranges (address, words) with itself: the grid that the decode depends
 * on. */
static const char touch_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry touch(.param .u64 ranges[32])\n{\n"
    ".reg .b64 %rd<4>;\n.reg .b32 %r<9>;\n.reg .pred %p<4>;\n.reg .b64 %a<16>, %n<16>;\n"
    "mov.u32 %r1, %tid.x;\n"
#define RANGE(k)                                                                                   \
    "ld.param.u64 %a" #k ", [ranges+16*" #k "];\nld.param.u64 %n" #k ", [ranges+16*" #k "+8];\n"   \
    "cvt.u32.u64 %r2, %n" #k ";\nmov.u32 %r3, %r1;\n"                                              \
    "L" #k ": setp.ge.u32 %p1, %r3, %r2;\n@%p1 bra E" #k ";\nmul.wide.u32 %rd1, %r3, 4;\n"         \
    "add.u64 %rd1, %rd1, %a" #k ";\nld.global.u32 %r4, [%rd1];\nst.global.u32 [%rd1], %r4;\n"      \
    "add.u32 %r3, %r3, 256;\nbra.uni L" #k ";\nE" #k ":\n"
    RANGE(0) RANGE(1) RANGE(2) RANGE(3) RANGE(4) RANGE(5) RANGE(6) RANGE(7) RANGE(8) RANGE(9)
        RANGE(10) RANGE(11) RANGE(12) RANGE(13) RANGE(14) RANGE(15) "ret;\n}\n";

enum { RANGES = 16 };

struct ranges {
    uint64_t of[RANGES][2];
    int count;
};

static void range_add(struct ranges *r, const void *at, size_t bytes) {
    if (!at || r->count == RANGES)
        return;
    r->of[r->count][0] = (uint64_t)(uintptr_t)at;
    r->of[r->count++][1] = bytes / 4;
}

/* Every input. */
static void ranges_of_inputs(const struct case_instance *x, struct ranges *r) {
    for (int i = 0; i < CASE_TENSORS; i++) {
        const struct case_buffer *b = &x->buffers[i];
        if (!b->is_output && !b->is_view)
            range_add(r, b->device, b->bytes);
    }
}

/* What GQA_PDL_EARLY allows: Q, and K and V of the query tokens. */
static void ranges_of_step(const struct case_instance *x, struct ranges *r) {
    const size_t element = gqa_type_bytes(x->p.kv_type), row = element * (size_t)x->p.head_dim;
    range_add(r, x->device.q, x->buffers[CASE_Q].bytes);
    for (int64_t b = 0; b < x->p.batch; b++)
        for (int back = 1; back <= x->p.q_tokens; back++) {
            const int64_t token = ref_kv_len(&x->p, &x->host, b) - back;
            const int64_t k = ref_cache_offset(&x->p, &x->host, &x->p.k, b, token, 0);
            const int64_t v = ref_cache_offset(&x->p, &x->host, &x->p.v, b, token, 0);
            range_add(r, (const char *)x->device.k + k * (int64_t)element, row);
            range_add(r, (const char *)x->device.v + v * (int64_t)element, row);
        }
}

static bool touch_inputs(const struct case_instance *x) {
    void *driver = dlopen(getenv("GQA_CUDA_EMU"), RTLD_NOW), *module, *function;
    int (*load)(void **, const void *), (*get)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    struct ranges ranges = {.count = 0};
    void *params[] = {ranges.of};
    if (!driver)
        return false;
    *(void **)&load = dlsym(driver, "cuModuleLoadData");
    *(void **)&get = dlsym(driver, "cuModuleGetFunction");
    *(void **)&launch = dlsym(driver, "cuLaunchKernel");
    if (x->p.pdl == GQA_PDL_EARLY)
        ranges_of_step(x, &ranges);
    else
        ranges_of_inputs(x, &ranges);
    return !load(&module, touch_text) && !get(&function, module, "touch") &&
           !launch(function, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
}

static int fail(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    return FAILED;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* No sequence has query tokens: what the first decode of IDLE is told. */
static bool no_queries(const struct case_instance *x, struct gqa_tensors *t) {
    const size_t bytes = (size_t)(x->p.batch + 1) * sizeof(int32_t);
    int32_t *zeros = calloc(1, bytes);
    void *device = x->memory->alloc(x->memory->context, bytes, 256);
    const bool ok = zeros && device && x->memory->upload(x->memory->context, device, zeros, bytes);
    free(zeros);
    t->cu_seqlens_q = device;
    return ok;
}

static int decode_all(struct case_instance *x, gqa_plan *plan) {
    const bool is_idle = x->p.q_ragged && x->p.pdl == GQA_PDL_EARLY;
    struct gqa_tensors idle = x->device;
    struct gqa_error err = {0};
    const size_t bytes = gqa_plan_workspace(plan);
    void *workspace = x->memory->alloc(x->memory->context, bytes, 256);
    /* Letters are looked for before they are there, which is no fault; everybody else finds memory
     * that nothing wrote. */
    const bool has_letters = x->p.reduction == GQA_REDUCE_GRID;
    if (!workspace || (has_letters && !case_memory_poison(x->memory, workspace, bytes)))
        return fail("workspace", "no memory");
    if (is_idle && !no_queries(x, &idle))
        return fail("queries", "no memory");
    if (!options.time && !touch_inputs(x))
        return fail("touch", "the kernel before the decode cannot be launched");
    const double start = now();
    for (int n = 0; n < options.decodes; n++)
        if (gqa_decode(plan, is_idle && n == 0 ? &idle : &x->device, workspace, bytes, NULL, &err))
            return fail("gqa_decode", err.message);
    if (!case_collect(x))
        return fail("outputs", x->why);
    if (options.time)
        printf("%.2f ms of processor time a decode\n", 1e3 * (now() - start) / options.decodes);
    return 0;
}

static int run_case(const struct test_case *c, const char *device_name) {
    struct case_memory memory;
    struct case_instance x;
    struct compare_result result;
    struct ref ref;
    struct gqa_error err = {0};
    gqa_device *device;
    gqa_plan *plan;
    char why[160];
    if (gqa_device_open(device_name, NULL, &device, &err))
        return fail(device_name, err.message);
    if (!case_memory_cuda(getenv("GQA_CUDA_EMU"), 0, &memory, why))
        return fail("memory", why);
    if (!case_build(&x, c, 1, &memory))
        return fail("case", x.why);
    const gqa_status status = gqa_plan_create(device, &x.p, &plan, &err);
    if (status) {
        fail("plan", err.message);
        return status == GQA_ERR_UNSUPPORTED ? REFUSED : FAILED;
    }
    if (!case_reset(&x) || decode_all(&x, plan))
        return FAILED;
    if (!ref_decode(&x.p, &x.host, &ref))
        return fail("reference", "no memory");
    compare_decode(&x.p, &x.host, &ref, &result);
    return result.ok ? 0 : fail("numbers", result.message);
}

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int run_seed(const struct scenario *s, const struct test_case *c, int arch, int seed) {
    const char *policy = options.policy ? options.policy : policies[seed % POLICIES];
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(STDOUT_FILENO, STDERR_FILENO);
        set_number("EMU_SEED", seed);
        setenv("EMU_POLICY", policy, 1);
        setenv("EMU_MAX_STEPS", "30000000", 0);
        setenv("GQA_CUDA_EMU", "build/libcuda-emu.so", 0); /* the script sets it for other builds */
        if (options.conservative)
            setenv("EMU_CONSERVATIVE", "1", 1);
        if (s->sms)
            set_number("EMU_SMS", s->sms);
        if (s->kind == WHOLE)
            setenv("EMU_UNREAD", "1", 0);
        if (!strstr(options.kernel, "_sm100o_")) /* its last maxima have one reader less */
            setenv("EMU_BALANCE", "1", 0);
        const int status = run_case(c, arch == 80   ? "emu:sm_80"
                                       : arch == 90 ? "emu:sm_90a"
                                                    : "emu:sm_100a");
        fflush(stdout);
        exit(status);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return fail("fork", "no process");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
    if (code == FAILED)
        printf("failed: %s %s seed %d policy %s%s%s\n", options.kernel, s->name, seed, policy,
               options.conservative ? " conservative" : "",
               WIFSIGNALED(status) ? ", killed by a signal" : "");
    return code;
}

static int run_scenario(const char *name) {
    struct test_case c;
    int arch = 0, status = 0;
    const struct scenario *s = scenarios;
    while (s < scenarios + SCENARIOS && strcmp(s->name, name))
        s++;
    if (s == scenarios + SCENARIOS || !make_case(s, options.kernel, &c, &arch)) {
        fprintf(stderr, "emu-scenario: no scenario '%s', or no kernel '%s'\n", name,
                options.kernel);
        return 2;
    }
    if (s->kind >= EARLY && arch == 80)
        status = (printf("plan: the portable kernels read nothing early\n"), REFUSED);
    for (int seed = options.from; seed <= options.to && !status; seed++)
        status = run_seed(s, &c, arch, seed);
    if (!status)
        printf("clean: %s %s seeds %d..%d%s\n", options.kernel, name, options.from, options.to,
               options.conservative ? " conservative" : "");
    return status;
}

int main(int argc, char **argv) {
    int worst = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list")) {
            for (int k = 0; k < SCENARIOS; k++)
                puts(scenarios[k].name);
        } else if (!strcmp(argv[i], "--conservative")) {
            options.conservative = true;
        } else if (!strcmp(argv[i], "--time") && i + 1 < argc) {
            options.time = true;
            options.decodes = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--policy") && i + 1 < argc) {
            options.policy = argv[++i];
        } else if (!strcmp(argv[i], "--seeds") && i + 1 < argc) {
            if (sscanf(argv[++i], "%d..%d", &options.from, &options.to) == 1)
                options.to = options.from;
        } else if (!options.kernel) {
            options.kernel = argv[i];
        } else {
            const int status = run_scenario(argv[i]);
            worst = status && worst != FAILED ? status : worst;
        }
    }
    return worst;
}
