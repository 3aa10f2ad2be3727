/* SPDX-License-Identifier: Apache-2.0
 * The tensor-core forms of the Blackwell kernels, one by one, on a device, before anything is built
 * on them: small integers, for which every product and sum is exact, so results must be equal.
 *
 *   test_forms_sm100 [--device cuda:0|emu:sm_100a] [--least-n 16] FOLDER
 *
 * FOLDER has forms_TYPE_dN_gN.ptx, compiled with -DGQA_LEAST_N=16 if so said. */
#include "../../oracle/memory_cuda.h"
#include "../../src/cuda/driver.h"
#include "../../src/cuda/shape.h"
#include "num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = GQA_SM100_K_TOKENS };

static const struct form {
    const char *type;
    int head_dim, rows;
    const char *what;
} forms[] = {
#define FORM(type, d, g, what) {#type, d, g, what},
#include "forms.def"
#undef FORM
};

enum { FORMS = sizeof forms / sizeof *forms };

struct matrices {
    int columns; /* N: rows of Q, columns of P */
    float k[TILE * 256], q[64 * 256], v[TILE * 256], p[TILE * 64];
    float s[TILE * 64], o[256 * 64];
};

struct forms_args {
    void *k, *q, *v, *p, *s, *o;
};

static struct driver driver;
static struct case_memory memory;
static int passed, failed, least_n = 8;

/* --- Numbers --- */

static void fill(float *x, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int)(seed >> 24) % 7 - 3);
    }
}

static enum gqa_type type_of(const char *name) {
    int type = GQA_F32;
    while (type < GQA_E5M2 && strcmp(gqa_type_name((enum gqa_type)type), name))
        type++;
    return (enum gqa_type)type;
}

static void *upload(const char *name, const float *x, int n) {
    static unsigned char bytes[TILE * 256 * 2];
    const enum gqa_type type = type_of(name);
    const size_t size = gqa_type_bytes(type) * (size_t)n;
    void *to = memory.alloc(memory.context, size, 256);
    for (int i = 0; i < n; i++)
        num_store(type, bytes, i, x[i]);
    return to && memory.upload(memory.context, to, bytes, size) ? to : NULL;
}

/* --- One form --- */

static bool launch(const char *path, struct forms_args *args) {
    FILE *f = fopen(path, "r");
    char *ptx = NULL;
    size_t room = 0;
    const ssize_t n = f ? getdelim(&ptx, &room, 0, f) : -1;
    if (f)
        fclose(f);
    if (n < 0)
        return printf("%s: cannot be read\n", path), false;
    cu_library library;
    cu_kernel kernel;
    cu_device device;
    void *parameters[] = {args, NULL};
    const struct cu_launch config = {.grid_x = 1,
                                     .grid_y = 1,
                                     .grid_z = 1,
                                     .block_x = 128,
                                     .block_y = 1,
                                     .block_z = 1,
                                     .smem_bytes = GQA_SMEM_sm100(2, 128, 8)};
    struct gqa_error err = {0};
    bool ok =
        !driver_check(&driver, driver.device_get(&device, 0), "cuDeviceGet", &err) &&
        !driver_check(&driver, driver.library_load(&library, ptx, NULL, NULL, 0, NULL, NULL, 0),
                      "cuLibraryLoadData", &err);
    free(ptx);
    if (!ok)
        return printf("%s: %s\n", path, err.message), false;
    ok = !driver_check(&driver, driver.library_kernel(&kernel, library, "gqa_forms"),
                       "cuLibraryGetKernel", &err) &&
         !driver_check(&driver,
                       driver.kernel_attribute(CU_FUNC_MAX_DYNAMIC_SMEM, (int)config.smem_bytes,
                                               kernel, device),
                       "cuKernelSetAttribute", &err) &&
         !driver_check(&driver, driver.launch(&config, kernel, parameters, NULL), "launch", &err);
    if (!ok)
        printf("%s: %s\n", path, err.message);
    return ok;
}

static int count_wrong(const float *got, const float *rows, const float *columns, int m, int n,
                       int inner, bool contiguous, const char *what) {
    int wrong = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int x = 0; x < inner; x++)
                sum += contiguous ? rows[i * inner + x] * columns[j * inner + x]
                                  : rows[x * m + i] * columns[x * n + j];
            if (got[i * n + j] == sum)
                continue;
            if (!wrong++)
                printf("  %s[%d][%d] is %g, expected %g\n", what, i, j, (double)got[i * n + j],
                       (double)sum);
        }
    return wrong;
}

static bool run(const struct form *x, const char *folder, struct matrices *m) {
    const bool is_fp8 = x->type[0] == 'e';
    const int d = x->head_dim, n = m->columns = is_fp8              ? 2 * x->rows
                                                : x->rows < least_n ? least_n
                                                                    : x->rows;
    const char *narrow = is_fp8 ? "e4m3" : x->type; /* of Q and P */
    char path[400];
    fill(m->k, TILE * d, 1);
    fill(m->q, n * d, 2);
    fill(m->v, TILE * d, 3);
    fill(m->p, TILE * n, 4);
    memset(m->s, 0xff, sizeof m->s);
    memset(m->o, 0xff, sizeof m->o);
    struct forms_args args = {upload(x->type, m->k, TILE * d),
                              upload(narrow, m->q, n * d),
                              upload(x->type, m->v, TILE * d),
                              upload(narrow, m->p, TILE * n),
                              memory.alloc(memory.context, sizeof m->s, 256),
                              memory.alloc(memory.context, sizeof m->o, 256)};
    snprintf(path, sizeof path, "%s/forms_%s_d%d_g%d.ptx", folder, x->type, d, x->rows);
    if (!args.k || !args.q || !args.v || !args.p || !args.s || !args.o)
        return printf("no memory\n"), false;
    if (!launch(path, &args) ||
        !memory.download(memory.context, m->s, args.s, sizeof(float) * (size_t)(TILE * n)) ||
        !memory.download(memory.context, m->o, args.o, sizeof(float) * (size_t)(d * n)))
        return printf("the launch failed\n"), false;
    const int s = count_wrong(m->s, m->k, m->q, TILE, n, d, true, "S");
    const int o = count_wrong(m->o, m->v, m->p, d, n, TILE, false, "O");
    if (s || o)
        printf("  %d of %d scores, %d of %d sums are wrong\n", s, TILE * n, o, d * n);
    return !s && !o;
}

/* --- All --- */

static bool open_device(const char *name, char *why) {
    struct gqa_error err = {0};
    const bool is_emulator = !strncmp(name, "emu:", 4);
    const char *path = is_emulator ? getenv("GQA_CUDA_EMU") : NULL;
    const gqa_status status = is_emulator ? driver_open_emulator(name + 4, path, &driver, &err)
                                          : driver_open(NULL, &driver, &err);
    snprintf(why, 160, "%.150s", err.message);
    return !status && case_memory_cuda(path, 0, &memory, why);
}

int main(int argc, char **argv) {
    const char *device = "cuda:0", *folder = "build/tests/forms";
    char why[160] = "";
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--device") && i + 1 < argc)
            device = argv[++i];
        else if (!strcmp(argv[i], "--least-n") && i + 1 < argc)
            least_n = atoi(argv[++i]);
        else
            folder = argv[i];
    if (!open_device(device, why)) {
        printf("skip: %s: %s\n0 passed, 0 failed, 1 skipped\n", device, why);
        return 0;
    }
    struct matrices *m = malloc(sizeof *m);
    for (int i = 0; m && i < FORMS; i++) {
        const bool ok = run(&forms[i], folder, m);
        passed += ok;
        failed += !ok;
        printf("%s %s d%d, N = %d: %s\n", ok ? "ok    " : "FAILED", forms[i].type,
               forms[i].head_dim, m->columns, forms[i].what);
    }
    free(m);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed || !passed;
}
