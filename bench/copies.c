/* SPDX-License-Identifier: Apache-2.0
 * GB/s per SM of bulk copies by size of a slot, slots, pieces of a slot, warps and CTAs, on a GPU
 * or in the emulator's model (bench/copies.cu says what is run).
 *
 *   copies libcuda.so.1 build/bench/copies.ptx
 *   EMU_PART=sm_90a EMU_TIMING=1 EMU_CHECK=off copies build/libcuda-emu.so build/bench/copies.ptx
 * FILE
 *
 * FILE: what a GPU said, to compare with. The clock is taken to run at 1.98 GHz. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGE = 1 << 20, SMEM = 217088, MAX_CTAS = 132, MAX_ROWS = 256, RUNS = 3, SMEM_OPTIN = 8 };

struct copies_args {
    uint64_t base;
    int64_t bytes;
    int32_t slot, depth, pieces[2];
    uint64_t cycles;
};

#define DRIVER(X)                                                                                  \
    X(cuInit, (unsigned))                                                                          \
    X(cuDeviceGet, (int *, int))                                                                   \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    X(cuCtxSetCurrent, (void *))                                                                   \
    X(cuModuleLoad, (void **, const char *))                                                       \
    X(cuModuleGetFunction, (void **, void *, const char *))                                        \
    X(cuFuncSetAttribute, (void *, int, int))                                                      \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                         \
    X(cuMemsetD8_v2, (uint64_t, unsigned char, size_t))                                            \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                 \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                       unsigned, void *, void **, void **))

static struct {
#define MEMBER(name, types) int(*name) types;
    DRIVER(MEMBER)
#undef MEMBER
    void *kernel;
    uint64_t pool, cycles;
    size_t at, bytes;
} gpu;

static void must(int result, const char *what) {
    if (!result)
        return;
    fprintf(stderr, "copies: %s gives %d\n", what, result);
    exit(1);
}

static void *symbol(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    must(!found, name);
    return found;
}

static void gpu_open(const char *path, const char *ptx) {
    void *library = dlopen(path, RTLD_NOW), *context, *module;
    int device = 0;
#define FIND(name, types) *(void **)&gpu.name = symbol(library, #name);
    DRIVER(FIND)
#undef FIND
    must(gpu.cuInit(0) || gpu.cuDeviceGet(&device, 0), "cuInit");
    must(gpu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(gpu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(gpu.cuModuleLoad(&module, ptx), ptx);
    must(gpu.cuModuleGetFunction(&gpu.kernel, module, "gqa_copies"), "cuModuleGetFunction");
    must(gpu.cuFuncSetAttribute(gpu.kernel, SMEM_OPTIN, SMEM), "cuFuncSetAttribute");
    gpu.bytes = (size_t)4 * MAX_CTAS * RANGE; /* each half is more than L2 holds */
    must(gpu.cuMemAlloc_v2(&gpu.pool, gpu.bytes), "cuMemAlloc");
    must(gpu.cuMemsetD8_v2(gpu.pool, 0, gpu.bytes), "cuMemsetD8");
    must(gpu.cuMemAlloc_v2(&gpu.cycles, 2 * MAX_CTAS * sizeof(uint32_t)), "cuMemAlloc");
}

/* Nanoseconds that a warp took, on average over CTAs. */
static double run(struct copies_args *a, int ctas) {
    const size_t all = (size_t)2 * RANGE * (size_t)ctas;
    uint32_t cycles[2 * MAX_CTAS];
    void *parameters[] = {a};
    double sum = 0;
    int warps = 0;
    gpu.at = gpu.at + all > gpu.bytes ? 0 : gpu.at;
    a->base = gpu.pool + gpu.at;
    gpu.at += all;
    must(gpu.cuMemsetD8_v2(gpu.cycles, 0, sizeof cycles), "cuMemsetD8");
    must(gpu.cuLaunchKernel(gpu.kernel, (unsigned)ctas, 1, 1, 64, 1, 1, SMEM, NULL, parameters,
                            NULL),
         "cuLaunchKernel");
    must(gpu.cuCtxSynchronize(), "the kernel");
    must(gpu.cuMemcpyDtoH_v2(cycles, gpu.cycles, sizeof cycles), "cuMemcpyDtoH");
    for (int i = 0; i < 2 * ctas; i++) {
        sum += cycles[i];
        warps += cycles[i] > 0;
    }
    return sum / warps / 1.98;
}

/* The rows of a file as this program writes it: what stands before the last comma, and after. */
static struct row {
    char name[32];
    double rate;
} rows[MAX_ROWS];
static int row_count;

static void read_rows(const char *path) {
    FILE *f = fopen(path, "r");
    must(!f, path);
    for (char line[256]; fgets(line, sizeof line, f);) {
        char *comma = strrchr(line, ',');
        struct row *r = &rows[row_count];
        if (row_count == MAX_ROWS || !comma || line[0] < '0' || line[0] > '9')
            continue;
        *comma = 0;
        snprintf(r->name, sizeof r->name, "%.31s", line);
        r->rate = strtod(comma + 1, NULL);
        row_count++;
    }
    fclose(f);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double errors[MAX_ROWS];
static int error_count;

static void say(const struct copies_args *a, int ctas) {
    const int runs = row_count ? 1 : RUNS; /* the model always says the same */
    char name[32];
    double ns[RUNS];
    for (int i = 0; i < runs; i++)
        ns[i] = run((struct copies_args *)a, ctas);
    qsort(ns, (size_t)runs, sizeof *ns, by_value);
    const double rate = (a->pieces[1] ? 2 : 1) * (double)RANGE / ns[runs / 2];
    snprintf(name, sizeof name, "%d,%d,%d,%d,%d", a->slot, a->depth, a->pieces[0], a->pieces[1],
             ctas);
    printf("%s,%.1f", name, rate);
    for (int i = 0; i < row_count; i++)
        if (!strcmp(rows[i].name, name)) {
            const double off = rate / rows[i].rate - 1;
            printf(",%.1f,%+.1f%%", rows[i].rate, 100 * off);
            errors[error_count++] = fabs(off);
        }
    printf("\n");
}

int main(int argc, char **argv) {
    static const int rings[][2] = {{8192, 4}, {8192, 8}, {16384, 4}, {16384, 6}, {32768, 3}};
    static const int pieces[][2] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0},
                                    {1, 1}, {1, 2}, {1, 4}, {4, 4}};
    static const int ctas[] = {1, 64, MAX_CTAS};
    if (argc < 3) {
        fprintf(stderr, "usage: copies LIBRARY PTX [FILE]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    gpu_open(argv[1], argv[2]);
    if (argc > 3)
        read_rows(argv[3]);
    printf("slot,slots,pieces,pieces of a second warp,CTAs,GB/s per SM%s\n",
           argc > 3 ? ",measured,error" : "");
    for (int r = 0; r < 5; r++)
        for (int p = 0; p < 9; p++)
            for (int c = 0; c < 3; c++) {
                const struct copies_args a = {.bytes = RANGE,
                                              .slot = rings[r][0],
                                              .depth = rings[r][1],
                                              .pieces = {pieces[p][0], pieces[p][1]},
                                              .cycles = gpu.cycles};
                say(&a, ctas[c]);
            }
    qsort(errors, (size_t)error_count, sizeof *errors, by_value);
    if (error_count)
        printf("# %d ways: |error| median %.1f%%, of nine in ten at most %.1f%%, largest %.1f%%\n",
               error_count, 100 * errors[error_count / 2], 100 * errors[error_count * 9 / 10],
               100 * errors[error_count - 1]);
    return 0;
}
