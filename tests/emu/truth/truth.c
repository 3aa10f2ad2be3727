/* SPDX-License-Identifier: Apache-2.0
 * The same PTX on a GPU and in the emulator. `truth record DRIVER PTX_DIR DIR` runs every program
 * of programs.def and writes what came out; `truth check DRIVER PTX_DIR DIR` runs them and compares
 * with what was recorded. Both talk to the driver library they are given, nothing else, so what an
 * H200 answered once is what the emulator must answer on any machine. */
#include <cuda.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER(X)                                                                                  \
    X(gpu_init, "cuInit", (unsigned))                                                              \
    X(gpu_device_get, "cuDeviceGet", (CUdevice *, int))                                            \
    X(gpu_device_get_name, "cuDeviceGetName", (char *, int, CUdevice))                             \
    X(gpu_primary_retain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                     \
    X(gpu_set_current, "cuCtxSetCurrent", (CUcontext))                                             \
    X(gpu_synchronize, "cuCtxSynchronize", (void))                                                 \
    X(gpu_load, "cuModuleLoadData", (CUmodule *, const void *))                                    \
    X(gpu_function, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))                 \
    X(gpu_alloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                         \
    X(gpu_upload, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t))                          \
    X(gpu_download, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))                              \
    X(gpu_launch, "cuLaunchKernelEx", (const CUlaunchConfig *, CUfunction, void **, void **))      \
    X(gpu_encode, "cuTensorMapEncodeTiled",                                                        \
      (CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,                 \
       const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,          \
       CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))

#define X(field, symbol, arguments) static CUresult(*field) arguments;
DRIVER(X)
#undef X

enum { INPUT_WORDS = 16384, OUTPUT_WORDS = 65536 };
enum rule { EXACT, APPROXIMATE, ROUGH };

struct program {
    const char *file, *kernel;
    int grid, cluster, block, row_words, rows;
    enum rule rule;
};

static const struct program programs[] = {
#define PROGRAM(...)                  {TO_STRINGS(__VA_ARGS__)},
#define TO_STRINGS(file, kernel, ...) #file, #kernel, __VA_ARGS__
#include "programs.def"
};

enum { PROGRAMS = sizeof programs / sizeof programs[0] };

/* Tensor-map variants: element type and bytes, swizzle, box, coordinates of the box's corner. */
struct variant {
    const char *name;
    CUtensorMapDataType type;
    unsigned bytes;
    CUtensorMapSwizzle swizzle;
    unsigned box[2];
    int at[2];
    int rank;
    unsigned ops; /* 1 load, 2 store, 4 reduce-add */
};

#define BF16 CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2
#define F32  CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4
#define U32  CU_TENSOR_MAP_DATA_TYPE_UINT32, 4
#define F16  CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2
#define U8   CU_TENSOR_MAP_DATA_TYPE_UINT8, 1
static const struct variant variants[] = {
    {"2d_plain", F32, CU_TENSOR_MAP_SWIZZLE_NONE, {32, 16}, {8, 3}, 2, 7},
    {"2d_swizzle32", BF16, CU_TENSOR_MAP_SWIZZLE_32B, {16, 64}, {16, 5}, 2, 7},
    {"2d_swizzle64", BF16, CU_TENSOR_MAP_SWIZZLE_64B, {32, 40}, {0, 0}, 2, 7},
    {"2d_swizzle128", BF16, CU_TENSOR_MAP_SWIZZLE_128B, {64, 64}, {64, 8}, 2, 7},
    {"2d_swizzle128_f16_edge", F16, CU_TENSOR_MAP_SWIZZLE_128B, {64, 32}, {96, 100}, 2, 7},
    {"4d_swizzle128", BF16, CU_TENSOR_MAP_SWIZZLE_128B, {64, 8}, {0, 1}, 4, 7},
    {"4d_swizzle32_bytes", U8, CU_TENSOR_MAP_SWIZZLE_32B, {32, 16}, {16, -2}, 4, 1},
    {"4d_plain_edge", U32, CU_TENSOR_MAP_SWIZZLE_NONE, {8, 8}, {4, 3}, 4, 7},
    {"2d_swizzle128_outside", F32, CU_TENSOR_MAP_SWIZZLE_128B, {32, 16}, {-32, 4}, 2, 1},
    {"2d_corner", F32, CU_TENSOR_MAP_SWIZZLE_NONE, {16, 8}, {-4, -3}, 2, 1},
    {"2d_words", U32, CU_TENSOR_MAP_SWIZZLE_NONE, {16, 8}, {4, 3}, 2, 7},
    {"2d_words_corner", U32, CU_TENSOR_MAP_SWIZZLE_NONE, {16, 8}, {-4, -3}, 2, 1},
    /* Loads may start at negative coordinates; an H200 refuses such a store or reduction as an
     * illegal instruction (715), in any dimension. Last, because the error stays. */
    {"2d_negative_store", F32, CU_TENSOR_MAP_SWIZZLE_NONE, {16, 8}, {4, -3}, 2, 2},
};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

static uint32_t input[INPUT_WORDS], output[OUTPUT_WORDS];
static CUdeviceptr d_input, d_output;
static int passed, failed, skipped;

static void die(const char *what, int code) {
    fprintf(stderr, "truth: %s (error %d)\n", what, code);
    exit(2);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const int code_ = (int)(call);                                                             \
        if (code_)                                                                                 \
            die(#call, code_);                                                                     \
    } while (0)

static void load_driver(const char *path) {
    void *lib = dlopen(path, RTLD_NOW);
    if (!lib)
        die(dlerror(), 0);
#define X(field, symbol, arguments)                                                                \
    *(void **)&field = dlsym(lib, symbol);                                                         \
    if (!field)                                                                                    \
        die("missing " symbol, 0);
    DRIVER(X)
#undef X
}

/* Edge cases of float32, halves and integers first, then random words; the same on every machine.
 */
static void make_input(void) {
    static const uint32_t edges[] = {
        0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
        0xffc00001, 0x7f800001, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
        0xff7fffff, 0x33800000, 0x34000000, 0x4b000000, 0x4b800001, 0x4f000000, 0xcf000000,
        0x4effffff, 0x5f000000, 0x477fe000, 0x477ff000, 0x33000001, 0x387fc000, 0x38800000,
        0x43e00000, 0x43e80000, 0x43f00000, 0x3b000000, 0x3a800000, 0x47600000, 0x47700000,
        0x3f000000, 0xbf000000, 0x3fc00000, 0x40200000, 0xc0200000, 0x7fffffff, 0xffffffff,
        0x00007fff, 0x00008000, 0x0000ffff, 0x7c007c00, 0xfc00fc00, 0x7e007e00, 0x04000400,
        0x03ff03ff, 0x7bff7bff, 0x00010001, 0x7f807f80, 0xff80ff80, 0x7fc07fc0, 0x3f803f80,
        0x3c003c00, 0x42f00000, 0xc2fc0000, 0xc3160000, 0x43000000, 0x0000007f, 0x00000080};
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < INPUT_WORDS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        input[i] = (uint32_t)(x >> 16);
        if (i < 1536 && i % 256 < 64) /* edges, each block of 256 rotated against the others */
            input[i] = edges[(i % 256 + i / 256 * 17) % (sizeof edges / sizeof *edges)];
    }
}

static CUfunction get_kernel(const char *dir, const char *file, const char *kernel) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.ptx", dir, file);
    FILE *f = fopen(path, "rb");
    if (!f)
        die(path, 0);
    static char text[1 << 21];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    CUmodule module;
    CUfunction function;
    const int code = (int)gpu_load(&module, text);
    if (code || gpu_function(&function, module, kernel))
        return NULL;
    return function;
}

static void poison(void) {
    for (size_t i = 0; i < OUTPUT_WORDS; i++)
        output[i] = 0xcdcdcdcd;
    MUST(gpu_upload(d_output, output, sizeof output));
}

static bool launch(CUfunction f, int grid, int cluster, int block, bool dependent, void **args) {
    CUlaunchAttribute attrs[2] = {{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {(unsigned)cluster, 1, 1}},
                                  {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig config = {.gridDimX = (unsigned)grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = (unsigned)block,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = cluster > 1 ? attrs : attrs + 1,
                             .numAttrs = (cluster > 1) + dependent};
    return gpu_launch(&config, f, args, NULL) == 0;
}

static bool finish(void) {
    return gpu_synchronize() == 0 && gpu_download(output, d_output, sizeof output) == 0;
}

/* TRUTH_RAW=DIR keeps every word as well, to look at a row that differs. */
static void keep_raw(const char *name) {
    const char *dir = getenv("TRUTH_RAW");
    char path[512];
    if (!dir)
        return;
    snprintf(path, sizeof path, "%s/%s.bin", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(output, sizeof output, 1, f) != 1)
        die(path, 0);
    fclose(f);
}

/* --- Records --- */

static uint64_t hash_words(const uint32_t *w, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < 4 * n; i++)
        h = (h ^ ((const uint8_t *)w)[i]) * 0x100000001b3u;
    return h;
}

static void record(const char *dir, const char *name, int row_words, int rows, enum rule rule,
                   const char *device) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", dir, name);
    FILE *f = fopen(path, "w");
    if (!f)
        die(path, 0);
    fprintf(f, "# %s, %d rows of %d words, recorded on %s\n", name, rows, row_words, device);
    for (int r = 0; r < rows; r++) {
        const uint32_t *row = output + (size_t)r * (size_t)row_words;
        if (rule == EXACT)
            fprintf(f, "%016llx\n", (unsigned long long)hash_words(row, (size_t)row_words));
        for (int i = 0; rule != EXACT && i < row_words; i++)
            fprintf(f, "%08x%c", row[i], i % 12 == 11 || i + 1 == row_words ? '\n' : ' ');
    }
    fclose(f);
    passed++;
}

static float as_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Bounds of the approximate functions, by row of `approximate`, as the PTX ISA documents them:
 * relative 2^-22 (ex2), absolute 2^-22 near one and relative elsewhere (lg2), 1 ulp (rcp),
 * relative 2^-22.9 (rsqrt), 2^-23 (sqrt), 2^-11 (tanh). Both sides may err: twice the bound. */
static bool is_close(enum rule rule, int row, uint32_t got, uint32_t want) {
    static const float bounds[] = {2.4e-7f, 2.4e-7f, 2.4e-7f, 2.4e-7f, 1.2e-7f,
                                   1.2e-7f, 1.3e-7f, 1.3e-7f, 1.2e-7f, 4.9e-4f};
    const float a = as_float(got), b = as_float(want);
    if (got == want || (isnan(a) && isnan(b)))
        return true;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return false;
    if (rule == APPROXIMATE) {
        const float absolute = row == 2 || row == 3 ? 2.4e-7f : 1.2e-38f * 4.8e-7f;
        return fabsf(a - b) <= 2 * bounds[row] * fabsf(b) + 2 * absolute;
    }
    return fabsf(a - b) <= 16 * 3e-7f * 8; /* up to 64 products below 1 summed in float32 */
}

/* A row of recorded text against the output; *bad counts rows that differ. */
static void compare(FILE *f, const char *name, int row_words, int rows, enum rule rule) {
    int bad = 0;
    for (int r = 0; r < rows; r++) {
        const uint32_t *row = output + (size_t)r * (size_t)row_words;
        unsigned long long want;
        unsigned word;
        if (rule == EXACT) {
            if (fscanf(f, "%llx", &want) != 1 || want != hash_words(row, (size_t)row_words)) {
                printf("%s: row %d differs from the GPU\n", name, r);
                bad++;
            }
            continue;
        }
        int reported = 0;
        for (int i = 0; i < row_words; i++)
            if (fscanf(f, "%x", &word) != 1 || !is_close(rule, r, row[i], word)) {
                if (!reported++)
                    printf("%s: row %d word %d is %08x, GPU %08x\n", name, r, i, row[i], word);
                bad += reported == 1;
            }
    }
    passed += !bad;
    failed += bad > 0;
    printf("%s %s: %d of %d rows as on the GPU\n", bad ? "FAILED" : "ok", name, rows - bad, rows);
}

static void check(const char *dir, const char *name, int row_words, int rows, enum rule rule) {
    char path[512], header[256];
    snprintf(path, sizeof path, "%s/%s.txt", dir, name);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(header, sizeof header, f)) {
        printf("skipped %s: nothing recorded in %s\n", name, path);
        skipped++;
        if (f)
            fclose(f);
        return;
    }
    compare(f, name, row_words, rows, rule);
    fclose(f);
}

/* --- Programs --- */

struct mode {
    bool recording;
    const char *ptx, *dir, *only; /* only: one program by name, or NULL */
    char device[128];
};

static bool is_wanted(const struct mode *m, const char *name) {
    return !m->only || !strcmp(m->only, name);
}

static void settle(const struct mode *m, bool ran, const char *name, int row_words, int rows,
                   enum rule rule) {
    if (ran)
        keep_raw(name);
    if (!ran) {
        printf("FAILED %s: did not run\n", name);
        failed++;
    } else if (m->recording) {
        record(m->dir, name, row_words, rows, rule, m->device);
    } else {
        check(m->dir, name, row_words, rows, rule);
    }
}

static void run_program(const struct mode *m, const struct program *p) {
    void *args[] = {&d_input, &d_output};
    if (!is_wanted(m, p->kernel))
        return;
    poison();
    CUfunction f = get_kernel(m->ptx, p->file, p->kernel);
    const bool ran = f && launch(f, p->grid, p->cluster, p->block, false, args) && finish();
    settle(m, ran, p->kernel, p->row_words, p->rows, p->rule);
}

/* Load map over the input, store map over the second half of the output; both of one shape. */
static void run_variant(const struct mode *m, const struct variant *v) {
    const cuuint64_t inner = 512 / v->bytes;
    const cuuint64_t dims2[] = {inner - 4 / v->bytes, 120}, strides2[] = {512};
    const cuuint64_t dims4[] = {inner / 4 - 16 / v->bytes, 3, 10, 4}, strides4[] = {128, 384, 3840};
    const cuuint32_t box4[] = {v->box[0], 2, v->box[1] / 2, 2}, ones[] = {1, 1, 1, 1, 1};
    const bool flat = v->rank == 2;
    CUtensorMap load, store;
    const CUdeviceptr target = d_output + 4 * 32768;
    char name[64];
    snprintf(name, sizeof name, "tensor_%s", v->name);
    if (!is_wanted(m, name))
        return;
    unsigned bytes = v->box[0] * v->box[1] * v->bytes * (flat ? 1 : 2);
    unsigned ops = v->ops;
    int x = v->at[0], y = v->at[1];
    void *args[] = {&d_input, &d_output, &load, &store, &x, &y, &bytes, &ops};
    const CUdeviceptr bases[] = {d_input, target};
    CUtensorMap *const maps[] = {&load, &store};
    for (int i = 0; i < 2; i++)
        MUST(gpu_encode(maps[i], v->type, (cuuint32_t)v->rank, (void *)(uintptr_t)bases[i],
                        flat ? dims2 : dims4, flat ? strides2 : strides4, flat ? v->box : box4,
                        ones, CU_TENSOR_MAP_INTERLEAVE_NONE, v->swizzle,
                        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    poison();
    /* Quiet numbers where the reduce-add goes, so that sums are exact in every type. */
    for (size_t i = 32768; i < OUTPUT_WORDS; i++)
        output[i] = 0;
    MUST(gpu_upload(d_output, output, sizeof output));
    CUfunction f = get_kernel(m->ptx, "async", flat ? "tensor_2d" : "tensor_4d");
    const bool ran = f && launch(f, 1, 1, 128, false, args) && finish();
    if (v->ops == 1 || v->at[1] >= 0) {
        settle(m, ran, name, 1024, 48, EXACT);
        return;
    }
    const bool refused = f && !ran;
    printf("%s %s: a store to negative coordinates %s\n", refused ? "ok" : "FAILED", name,
           !f        ? "could not be loaded"
           : refused ? "is refused, as on the GPU"
                     : "went through");
    passed += refused;
    failed += !refused;
}

static void run_dependent_pair(const struct mode *m) {
    void *args[] = {&d_input, &d_output};
    if (!is_wanted(m, "dependent_launch"))
        return;
    poison();
    CUfunction first = get_kernel(m->ptx, "async", "first");
    CUfunction second = get_kernel(m->ptx, "async", "second");
    bool ran = first && second;
    for (int i = 0; ran && i < 3; i++)
        ran = launch(first, 8, 1, 256, false, args) && launch(second, 8, 1, 256, true, args);
    ran = ran && finish();
    settle(m, ran, "dependent_launch", 256, 16, EXACT);
}

static int list(void) {
    for (int i = 0; i < PROGRAMS; i++)
        puts(programs[i].kernel);
    for (int i = 0; i < VARIANTS; i++)
        printf("tensor_%s\n", variants[i].name);
    puts("dependent_launch");
    return 0;
}

int main(int argc, char **argv) {
    struct mode m = {0};
    if (argc == 2 && !strcmp(argv[1], "list"))
        return list();
    if (argc < 5 || argc > 6 || (strcmp(argv[1], "record") && strcmp(argv[1], "check"))) {
        fprintf(stderr, "usage: truth record|check DRIVER_LIBRARY PTX_DIR RECORDED_DIR [PROGRAM]\n"
                        "       truth list\n");
        return 2;
    }
    m.only = argv[5];
    m.recording = !strcmp(argv[1], "record");
    m.ptx = argv[3];
    m.dir = argv[4];
    load_driver(argv[2]);
    CUdevice device;
    CUcontext context;
    MUST(gpu_init(0));
    MUST(gpu_device_get(&device, 0));
    MUST(gpu_device_get_name(m.device, sizeof m.device, device));
    MUST(gpu_primary_retain(&context, device));
    MUST(gpu_set_current(context));
    make_input();
    MUST(gpu_alloc(&d_input, sizeof input));
    MUST(gpu_alloc(&d_output, sizeof output));
    MUST(gpu_upload(d_input, input, sizeof input));
    for (int i = 0; i < PROGRAMS; i++)
        run_program(&m, &programs[i]);
    run_dependent_pair(&m);
    for (int i = 0; i < VARIANTS; i++)
        run_variant(&m, &variants[i]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
