/* SPDX-License-Identifier: Apache-2.0
 * Times every way to run a shape on a GPU: kernels x splits x reductions, beside the stream floor.
 * The planner's numbers (struct family, src/plan_model.c) come from its CSV.
 *
 *   sweep [--only "16/2 128"] [--kernel sm90] [--auto] [--early] [--rounds 3] [--device cuda:0] >
 * sweep.csv sweep --shape "1 64/8 128 4096"    one shape, in the matrix or not sweep --features
 * pages, query tokens, FP8, ragged batches ... beside the plain step sweep --device emu:sm_100a
 * --pool-mib 4 --rounds 1 --replays 1 --only "1 16/2 64 1024" the same in the emulator: what it
 * prints are no times
 *
 * Method: per candidate one CUDA graph of as many decodes as there are K/V entries in the pool
 * (at least 512 MiB, so that nothing is served from L2), captured once. A round replays each
 * candidate's graph 7 times and takes the median; rounds interleave the candidates and alternate
 * their order; the best round median counts. --auto times the planner's choice alone. */
#include "space_cuda.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPLAYS = 7, MAX_CANDIDATES = 128, MAX_RUNS = 128, BLOCK = 4 << 20, MAX_ROUNDS = 16 };

/* Grids outside of these are never best on 132 SMs, unless a cluster can be no larger. */
enum { LEAST_CTAS = 60, MOST_CTAS = 264 };

static struct {
    const char *device, *only, *kernel, *shape;
    bool automatic, features;
    enum gqa_pdl pdl;
    int rounds, replays, pool_mib;
} options = {.device = "cuda:0",
             .only = "",
             .kernel = "",
             .rounds = 3,
             .replays = MAX_REPLAYS,
             .pool_mib = 6000};

struct shape {
    int batch, q_heads, kv_heads, head_dim;
    int64_t kv_len;
};

struct candidate {
    char name[160];
    gqa_plan *plan; /* NULL: the floor */
    enum gqa_pdl pdl;
    struct gqa_tensors tensors; /* but K and V */
    struct cuda_graph *graph;
    double us[MAX_ROUNDS];
};

static struct {
    struct space space;
    gqa_device *device;
    char *pool, *small, *workspace;
    size_t pool_bytes, workspace_bytes;
    struct space_pool entry; /* of the shape that is being timed */
    size_t v_offset;
    struct candidate list[MAX_CANDIDATES];
    int count;
} state;

static void die(const struct gqa_error *err) {
    fprintf(stderr, "sweep: %s\n", err->message);
    exit(1);
}

/* --- Steps --- */

static gqa_status step(void *context, int64_t run, void *stream, struct gqa_error *err) {
    const struct candidate *c = context;
    if (!c->plan)
        return cuda_stream_step(&state.space, &state.entry, run, c->pdl, err);
    struct gqa_tensors t = c->tensors;
    const char *entry =
        (const char *)state.entry.base + (size_t)(run % state.entry.entries) * state.entry.stride;
    t.k = entry;
    t.v = entry + state.v_offset;
    return gqa_decode(c->plan, &t, state.workspace, state.workspace_bytes, stream, err);
}

static const char *const pdl_names[] = {"", " plain", "", " early"};

static void add_floor(enum gqa_pdl pdl) {
    struct candidate *c = &state.list[state.count++];
    *c = (struct candidate){.pdl = pdl};
    snprintf(c->name, sizeof c->name, "floor,%s",
             pdl == GQA_PDL_OFF  ? "plain"
             : pdl == GQA_PDL_ON ? "pdl"
                                 : "early");
}

static struct gqa_tensors plain_tensors(void) {
    struct gqa_tensors t = gqa_tensors_init();
    t.q = state.small;
    t.o = state.small + (8 << 20);
    return t;
}

static void add(const struct shape *s, const char *kernel, enum gqa_split_mode mode, int splits,
                enum gqa_reduction reduction, enum gqa_pdl pdl) {
    struct gqa_problem p = gqa_problem_init();
    struct candidate *c = &state.list[state.count];
    if (state.count == MAX_CANDIDATES)
        return;
    p.batch = s->batch;
    p.q_heads = s->q_heads;
    p.kv_heads = s->kv_heads;
    p.head_dim = s->head_dim;
    p.kv_len = s->kv_len;
    p.q_type = p.kv_type = p.o_type = GQA_BF16;
    p.kernel = kernel;
    p.split_mode = mode;
    p.splits = mode == GQA_SPLIT_FIXED ? splits : 0;
    p.reduction = reduction;
    p.pdl = pdl;
    gqa_problem_pack(&p, GQA_HND);
    *c = (struct candidate){.pdl = pdl, .tensors = plain_tensors()};
    if (gqa_plan_create(state.device, &p, &c->plan, NULL))
        return;
    struct gqa_plan_info info = gqa_plan_info_init();
    gqa_plan_describe(c->plan, &info, NULL);
    if (info.workspace_bytes > state.workspace_bytes) {
        gqa_plan_destroy(c->plan);
        return;
    }
    snprintf(c->name, sizeof c->name, "%s,%s%s %s %d%s%s", info.kernel,
             mode == GQA_SPLIT_AUTO && reduction == GQA_REDUCE_AUTO ? "auto=" : "",
             gqa_reduction_name(info.reduction), mode == GQA_SPLIT_FIXED ? "splits" : "shares",
             info.splits, kernel && strchr(kernel, ':') ? strchr(kernel, ':') : "", pdl_names[pdl]);
    state.count++;
}

static void add_kernel(const struct shape *s, const char *kernel) {
    static const int clusters[] = {2, 3, 4, 5, 6, 8, 10, 12, 14, 16};
    static const int sizes[] = {1, 2, 4, 8, 16};
    static const int clusters_of_unit[] = {2,  3,  4,  5,  6,  7,  8,  10, 12,
                                           14, 15, 16, 24, 32, 33, 48, 64};
    static const int splits[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 66, 99, 132};
    const int units = s->batch * s->kv_heads;
    if (units >= LEAST_CTAS)
        add(s, kernel, GQA_SPLIT_FIXED, 1, GQA_REDUCE_NONE, options.pdl);
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++)
        if (units * clusters[i] <= MOST_CTAS &&
            (units * clusters[i] >= LEAST_CTAS || clusters[i] > 7))
            add(s, kernel, GQA_SPLIT_FIXED, clusters[i], GQA_REDUCE_CLUSTER, options.pdl);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (units * splits[i] <= MOST_CTAS && units * splits[i] >= LEAST_CTAS &&
            splits[i] * 64 <= s->kv_len)
            add(s, kernel, GQA_SPLIT_FIXED, splits[i], GQA_REDUCE_KERNEL, options.pdl);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof clusters_of_unit / sizeof *clusters_of_unit; j++) {
            const int n = sizes[i] * clusters_of_unit[j];
            char name[96];
            snprintf(name, sizeof name, "%s:cluster=%d", kernel, sizes[i]);
            if (units * n <= 132 && units * n >= LEAST_CTAS && n * 16 <= s->kv_len)
                add(s, name, GQA_SPLIT_FIXED, n, GQA_REDUCE_GRID, options.pdl);
        }
    add(s, kernel, GQA_SPLIT_AUTO, 0, GQA_REDUCE_KERNEL, options.pdl);
    char shares[96];
    snprintf(shares, sizeof shares, "%s:shares", kernel);
    add(s, shares, GQA_SPLIT_AUTO, 0, GQA_REDUCE_GRID, options.pdl);
}

/* --- One shape --- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double round_median(struct candidate *c, int64_t runs) {
    double seconds[MAX_REPLAYS];
    struct gqa_error err;
    for (int i = 0; i < options.replays; i++)
        if (cuda_graph_time(&state.space, c->graph, &seconds[i], &err))
            die(&err);
    qsort(seconds, (size_t)options.replays, sizeof *seconds, by_value);
    return 1e6 * seconds[options.replays / 2] / (double)runs;
}

static void place(const struct shape *s) {
    const size_t half =
        (size_t)s->batch * (size_t)s->kv_heads * (size_t)s->kv_len * (size_t)s->head_dim * 2;
    const size_t rotated = (size_t)512 << 20;
    int64_t entries = (int64_t)(rotated / (2 * half));
    entries = entries < 2 ? 2 : entries;
    while ((size_t)entries * 2 * half > state.pool_bytes && entries > 1)
        entries--;
    state.entry = (struct space_pool){state.pool, 2 * half, 2 * half, entries};
    state.v_offset = half;
}

/* Runs of a graph: at least 16, since starting a graph takes as long as a short step; at most
 * MAX_RUNS, spread over the pool, which would hold thousands of short steps. */
static int64_t runs_of(void) {
    const int64_t n = state.entry.entries;
    return n < 16 ? (n < 8 ? 16 / n * n : 2 * n) : n < MAX_RUNS ? n : MAX_RUNS;
}

static void time_shape(const struct shape *s) {
    struct gqa_error err;
    const int64_t runs = runs_of();
    if (state.entry.entries > MAX_RUNS) { /* keep the distance between reuses above 512 MiB */
        state.entry.stride = state.entry.stride * (size_t)(state.entry.entries / MAX_RUNS);
        state.entry.entries = MAX_RUNS;
    }
    for (int i = 0; i < state.count; i++)
        if (cuda_graph_make(&state.space, step, &state.list[i], 0, runs, &state.list[i].graph,
                            &err))
            die(&err);
    for (int round = 0; round < options.rounds; round++)
        for (int k = 0; k < state.count; k++) {
            struct candidate *c = &state.list[round % 2 ? state.count - 1 - k : k];
            c->us[round] = round_median(c, runs);
        }
    for (int i = 0; i < state.count; i++) {
        struct candidate *c = &state.list[i];
        qsort(c->us, (size_t)options.rounds, sizeof *c->us, by_value);
        printf("%d %d/%d %d %lld,%s,%.2f\n", s->batch, s->q_heads, s->kv_heads, s->head_dim,
               (long long)s->kv_len, c->name, c->us[0]);
        cuda_graph_free(&state.space, c->graph);
        gqa_plan_destroy(c->plan);
    }
    fflush(stdout);
}

static void sweep_shape(const struct shape *s) {
    char name[64];
    struct gqa_device_info info = gqa_device_info_init();
    snprintf(name, sizeof name, "%d %d/%d %d %lld", s->batch, s->q_heads, s->kv_heads, s->head_dim,
             (long long)s->kv_len);
    if (!strstr(name, options.only))
        return;
    place(s);
    state.count = 0;
    add_floor(GQA_PDL_OFF);
    add_floor(GQA_PDL_ON);
    add_floor(GQA_PDL_EARLY);
    add(s, NULL, GQA_SPLIT_AUTO, 0, GQA_REDUCE_AUTO, GQA_PDL_AUTO);
    add(s, NULL, GQA_SPLIT_AUTO, 0, GQA_REDUCE_AUTO, GQA_PDL_OFF);
    add(s, NULL, GQA_SPLIT_AUTO, 0, GQA_REDUCE_AUTO, GQA_PDL_EARLY);
    gqa_device_describe(state.device, &info, NULL);
    const int group = s->q_heads / s->kv_heads, tile = group <= 8 ? 8 : group <= 16 ? 16 : 32;
    for (int i = 0; i < info.kernels && !options.automatic; i++) {
        struct gqa_kernel_info kernel = gqa_kernel_info_init();
        char fits[64];
        gqa_device_kernel(state.device, i, &kernel, NULL);
        snprintf(fits, sizeof fits, "_bf16_d%d_g%d", s->head_dim, tile);
        const size_t n = strlen(kernel.name), m = strlen(fits);
        if (kernel.available && n > m && !strcmp(kernel.name + n - m, fits) &&
            strstr(kernel.name, options.kernel))
            add_kernel(s, kernel.name);
    }
    time_shape(s);
}

/* --- Features: each beside what it is compared with --- */

/* Device copy of host numbers, from a small arena behind Q and O. */
static const int32_t *ints_on_device(const int32_t *host, int64_t n) {
    static size_t used = 16 << 20;
    struct gqa_error err;
    char *at = state.small + used;
    if (state.space.kind->put(&state.space, at, host, (size_t)n * sizeof *host, &err))
        die(&err);
    used += ((size_t)n * sizeof *host + 4095) / 4096 * 4096;
    return (const int32_t *)(void *)at;
}

static struct gqa_problem plain_problem(int64_t batch, int64_t kv_len) {
    struct gqa_problem p = gqa_problem_init();
    p.batch = batch;
    p.q_heads = 64;
    p.kv_heads = 8;
    p.head_dim = 128;
    p.kv_len = kv_len;
    p.q_type = p.kv_type = p.o_type = GQA_BF16;
    return p;
}

static void add_laid(const char *name, struct gqa_problem p, struct gqa_tensors t,
                     enum gqa_layout layout) {
    struct candidate *c = &state.list[state.count];
    struct gqa_error err;
    struct gqa_plan_info info = gqa_plan_info_init();
    gqa_problem_pack(&p, layout);
    *c = (struct candidate){.tensors = t};
    if (gqa_plan_create(state.device, &p, &c->plan, &err)) {
        fprintf(stderr, "%s: %s\n", name, err.message);
        return;
    }
    gqa_plan_describe(c->plan, &info, NULL);
    if (info.workspace_bytes > state.workspace_bytes) {
        fprintf(stderr, "%s: workspace of %zu bytes\n", name, info.workspace_bytes);
        return;
    }
    snprintf(c->name, sizeof c->name, "%s,%s %d", name, info.kernel, info.splits);
    state.count++;
}

static void add_problem(const char *name, struct gqa_problem p, struct gqa_tensors t) {
    add_laid(name, p, t, GQA_HND);
}

/* Pages of a problem in shuffled order. */
static void add_paged(const char *name, struct gqa_problem p, int page) {
    const int64_t per = (p.kv_len + page - 1) / page, all = per * p.batch;
    int32_t *table = malloc((size_t)all * sizeof *table);
    struct gqa_tensors t = plain_tensors();
    uint64_t x = 1;
    for (int64_t i = 0; table && i < all; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const int64_t j = (int64_t)((x >> 33) % (uint64_t)(i + 1));
        table[i] = table[j];
        table[j] = (int32_t)i;
    }
    p.paging = GQA_PAGED_TABLE;
    p.page_size = page;
    p.num_pages = all;
    t.block_table = ints_on_device(table, all);
    free(table);
    add_problem(name, p, t);
}

/* Lengths spread evenly in their logarithm over 128 .. 65536, in shuffled order; and as many
 * tokens in equal rows. Returns the pool that both need. */
static int64_t add_ragged(int64_t batch) {
    int32_t lens[256];
    int64_t total = 0;
    struct gqa_tensors t = plain_tensors();
    for (int64_t i = 0; i < batch; i++) {
        double x = 128;
        for (int64_t j = 0; j < 90 * (i * 37 % batch) / (batch - 1); j++)
            x *= 1.0717734625362931; /* 2^(1/10) */
        lens[i] = (int32_t)x;
        total += lens[i];
    }
    struct gqa_problem p = plain_problem(batch, (total + batch - 1) / batch);
    t.kv_lens = NULL;
    add_problem("uniform", p, t);
    /* Rows of different lengths lie packed one after the other: pages of one kind of stride. */
    p.kv_len = 65536;
    p.kv_len_expected = (total + batch - 1) / batch;
    t.kv_lens = ints_on_device(lens, batch);
    int32_t *table = calloc((size_t)batch * 1024, sizeof *table);
    int32_t next = 0;
    for (int64_t i = 0; table && i < batch; i++)
        for (int32_t j = 0; j * 64 < lens[i]; j++)
            table[i * 1024 + j] = next++;
    p.paging = GQA_PAGED_TABLE;
    p.page_size = 64;
    p.num_pages = next;
    t.block_table = ints_on_device(table, batch * 1024);
    free(table);
    add_problem("ragged", p, t);
    return (int64_t)next * 64;
}

static void time_features(const char *title, int64_t tokens, size_t head_bytes) {
    const size_t half = (size_t)tokens * 8 * head_bytes;
    int64_t entries = (int64_t)(((size_t)512 << 20) / (2 * half));
    entries = entries < 1 ? 1 : entries > MAX_RUNS ? MAX_RUNS : entries;
    while (entries > 1 && (size_t)entries * 2 * half > state.pool_bytes)
        entries--;
    state.entry = (struct space_pool){state.pool, 2 * half, 2 * half, entries};
    state.v_offset = half;
    add_floor(GQA_PDL_ON);
    const struct shape none = {0, 0, 0, 0, 0};
    printf("# %s\n", title);
    time_shape(&none);
    state.count = 0;
}

static void sweep_features(void) {
    static const int64_t shapes[][2] = {{1, 1024}, {1, 8192}, {16, 8192}, {64, 1024}};
    char title[64];
    for (int i = 0; i < 4; i++) {
        struct gqa_problem p = plain_problem(shapes[i][0], shapes[i][1]);
        const int64_t tokens = p.batch * p.kv_len;
        snprintf(title, sizeof title, "%lld 64/8 128 %lld", (long long)p.batch,
                 (long long)p.kv_len);
        if (!strstr(title, options.only))
            continue;
        add_problem("contiguous", p, plain_tensors());
        add_paged("page 64", p, 64);
        add_paged("page 16", p, 16);
        add_paged("page 1", p, 1);
        add_laid("token-major", p, plain_tensors(), GQA_NHD);
        p.q_tokens = 4;
        add_problem("4 query tokens", p, plain_tensors());
        p.q_tokens = 1;
        p.split_mode = GQA_SPLIT_INVARIANT;
        add_problem("invariant", p, plain_tensors());
        p = plain_problem(p.batch, p.kv_len);
        p.window_left = 127;
        add_problem("window 128", p, plain_tensors());
        p = plain_problem(p.batch, p.kv_len);
        p.kv_type = GQA_E4M3;
        add_problem("e4m3", p, plain_tensors());
        p = plain_problem(p.batch, p.kv_len);
        p.kernel = "gqa_decode_sm80_bf16_d128_g8";
        add_problem("portable", p, plain_tensors());
        time_features(title, tokens, 256);
    }
    for (int64_t batch = 8; batch <= 128; batch *= 4) {
        snprintf(title, sizeof title, "ragged %lld", (long long)batch);
        if (!strstr(title, options.only))
            continue;
        const int64_t tokens = add_ragged(batch);
        time_features(title, tokens, 256);
    }
}

/* --- Everything --- */

static void fill_pool(void) {
    struct gqa_error err;
    uint16_t *block = malloc(BLOCK);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; block && i < BLOCK / 2; i++) {
        float sum = -6;
        uint32_t bits;
        for (int j = 0; j < 12; j++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            sum += (float)(x >> 40) * 0x1p-24f;
        }
        memcpy(&bits, &sum, sizeof bits);
        block[i] = (uint16_t)(bits >> 16);
    }
    for (size_t at = 0; at < state.pool_bytes; at += BLOCK) {
        const size_t phase = at ? (at / BLOCK * 2654435761u) % (BLOCK / 2) / 64 * 64 : 0;
        if (state.space.kind->put(&state.space, state.pool + at, (char *)block + phase,
                                  BLOCK - phase, &err) ||
            state.space.kind->put(&state.space, state.pool + at + BLOCK - phase, block, phase,
                                  &err))
            die(&err);
    }
    if (state.space.kind->put(&state.space, state.small, block, BLOCK, &err))
        die(&err);
    free(block);
}

static void open_all(void) {
    struct gqa_error err;
    const struct space_kind *kind =
        strncmp(options.device, "emu", 3) ? &space_cuda : &space_emulator;
    if (kind->open(options.device, &state.space, &err) ||
        gqa_device_open(options.device, NULL, &state.device, &err))
        die(&err);
    state.space.kind = kind;
    state.pool_bytes = (size_t)options.pool_mib << 20;
    state.workspace_bytes = (size_t)64 << 20;
    state.pool = state.space.kind->take(&state.space, state.pool_bytes);
    state.small = state.space.kind->take(&state.space, 32 << 20);
    state.workspace = state.space.kind->take(&state.space, state.workspace_bytes);
    if (!state.pool || !state.small || !state.workspace) {
        fprintf(stderr, "sweep: no memory on the GPU\n");
        exit(1);
    }
    fill_pool();
}

static void sweep_all(void) {
    static const int pairs[][2] = {{16, 1}, {16, 2}, {16, 16}};
    static const int batches[] = {1, 4, 8, 16, 32, 64};
    for (int d = 64; d <= 128; d += 64)
        for (int i = 0; i < 3; i++)
            for (int64_t n = 1024; n <= 65536; n *= 2)
                sweep_shape(&(struct shape){1, pairs[i][0], pairs[i][1], d, n});
    for (int heads = 64; heads >= 32; heads /= 2)
        for (int b = 0; b < 6; b++)
            for (int64_t n = 1024; n <= 8192; n *= 8)
                sweep_shape(&(struct shape){batches[b], heads, 8, 128, n});
    for (int heads = 16; heads <= 32; heads *= 2)
        for (int64_t n = 4096; n <= 32768; n *= 8)
            sweep_shape(&(struct shape){1, heads, 1, 256, n});
}

/* "1 64/8 128 4096": any shape, also one that the matrix lacks. */
static void sweep_named(const char *name) {
    struct shape s;
    if (sscanf(name, "%d %d/%d %d %" SCNd64, &s.batch, &s.q_heads, &s.kv_heads, &s.head_dim,
               &s.kv_len) != 5) {
        fprintf(stderr, "sweep: --shape wants \"batch q_heads/kv_heads head_dim kv_len\"\n");
        exit(2);
    }
    sweep_shape(&s);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--auto"))
            options.automatic = true;
        else if (!strcmp(argv[i], "--features"))
            options.features = true;
        else if (!strcmp(argv[i], "--early"))
            options.pdl = GQA_PDL_EARLY;
        else if (!strcmp(argv[i], "--only"))
            options.only = next, i++;
        else if (!strcmp(argv[i], "--shape"))
            options.shape = next, i++;
        else if (!strcmp(argv[i], "--kernel"))
            options.kernel = next, i++;
        else if (!strcmp(argv[i], "--device"))
            options.device = next, i++;
        else if (!strcmp(argv[i], "--rounds"))
            options.rounds = atoi(next), i++;
        else if (!strcmp(argv[i], "--replays"))
            options.replays = atoi(next), i++;
        else if (!strcmp(argv[i], "--pool-mib"))
            options.pool_mib = atoi(next), i++;
    }
    options.replays = options.replays < 1             ? 1
                      : options.replays > MAX_REPLAYS ? MAX_REPLAYS
                                                      : options.replays;
    options.pool_mib = options.pool_mib < 4 ? 4 : options.pool_mib / 4 * 4; /* whole blocks */
    options.rounds = options.rounds < 1            ? 1
                     : options.rounds > MAX_ROUNDS ? MAX_ROUNDS
                                                   : options.rounds;
    printf("shape,kernel,way,us\n");
    open_all();
    if (options.features)
        sweep_features();
    else if (options.shape)
        sweep_named(options.shape);
    else
        sweep_all();
    return 0;
}
