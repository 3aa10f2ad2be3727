/* test_dsl.c: what programs of the CuTe DSL need: machine code whose PTX lies in a folder, and the
 * names that their compiled host code calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit_calls.h"
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* *p += step */
static const char ptx[] = ".version 9.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry %s(.param .u64 p)\n{\n  .reg .b32 %%r; .reg .b64 %%p;\n"
                          "  ld.param.u64 %%p, [p]; ld.global.u32 %%r, [%%p];\n"
                          "  add.u32 %%r, %%r, %d; st.global.u32 [%%p], %%r; ret;\n}\n";
static char folder[] = "/tmp/test_dsl.XXXXXX";

/* Machine code as far as its section names say: the code of one kernel, and something else. */
struct cubin {
    Elf64_Ehdr head;
    Elf64_Shdr section[3];
    char names[64];
};
static struct cubin cubin_of(const char *kernel) {
    struct cubin c = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                               .e_shoff = offsetof(struct cubin, section),
                               .e_shentsize = sizeof(Elf64_Shdr),
                               .e_shnum = 3,
                               .e_shstrndx = 2},
                      .section = {{.sh_name = 1}, {.sh_name = 1}, {.sh_name = 1}}};
    c.section[1].sh_name = 8;
    c.section[2].sh_offset = offsetof(struct cubin, names);
    memcpy(c.names + 1, ".other", 7);
    snprintf(c.names + 8, sizeof c.names - 8, ".text.%s", kernel);
    return c;
}

static void write_ptx(const char *name, const char *kernel, int step, int age) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    CHECK(out != NULL, "%s", path);
    if (!out)
        return;
    fprintf(out, ptx, kernel, step);
    fclose(out);
    const struct timespec t[2] = {{1000000 - age, 0}, {1000000 - age, 0}};
    CHECK(!utimensat(AT_FDCWD, path, t, 0), "its time");
}
static void remove_ptx(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

/* A fat binary with machine code only. */
struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    uint16_t kind, entry_version;
    uint32_t entry_header_bytes;
    uint64_t entry_bytes;
    uint32_t rest[12];
    struct cubin code;
};
static struct fat fat_of(const char *kernel) {
    return (struct fat){.magic = 0xba55ed50,
                        .version = 1,
                        .header_bytes = 16,
                        .bytes = sizeof(struct fat) - 16,
                        .kind = 2,
                        .entry_header_bytes = offsetof(struct fat, code) - 16,
                        .entry_bytes = sizeof(struct cubin),
                        .code = cubin_of(kernel)};
}

/* A runtime that is in the program too, for all libraries to see, as torch's is (-rdynamic): ours
 * must not call it. */
__attribute__((visibility("default"))) int cudaLibraryLoadData(void);
int cudaLibraryLoadData(void) {
    return 999;
}

struct config { /* cudaLaunchConfig_t */
    unsigned grid[3], block[3];
    size_t smem;
    void *stream, *attrs;
    unsigned nattrs;
};
static uint32_t word;

static int launch(void *kernel) {
    CALL(_cudaLaunchKernelEx, int, const struct config *, const void *, void **)
    CALL(_cudaDeviceSynchronize, int, void)
    const struct config c = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 0};
    uint64_t p = (uint64_t)(uintptr_t)&word;
    void *args[] = {&p};
    const int r = _cudaLaunchKernelEx(&c, kernel, args);
    return r ? r : _cudaDeviceSynchronize();
}

/* The step of the kernel in `data`; -1: it cannot be launched. */
static int step_of(const void *data, const char *name) {
    CALL(_cudaLibraryLoadData, int, void *, const void *, void *, void *, unsigned, void *, void *,
         unsigned)
    CALL(_cudaLibraryGetKernel, int, void *, void *, const char *)
    CALL(_cudaLibraryUnload, int, void *)
    CALL(_cuKernelGetAttribute, int, int *, int, void *, int)
    CALL(_cudaKernelSetAttributeForDevice, int, void *, int, int, int)
    void *library = NULL, *kernel = NULL;
    int threads = 0;
    CHECK(!_cudaLibraryLoadData(&library, data, NULL, NULL, 0, NULL, NULL, 0) &&
              !_cudaLibraryGetKernel(&kernel, library, name),
          "load %s", name);
    CHECK(!_cuKernelGetAttribute(&threads, 0, kernel, 0) && threads > 0 &&
              !_cudaKernelSetAttributeForDevice(kernel, 8, 100000, 0),
          "attributes of %s: %d", name, threads);
    word = 0;
    const int r = launch(kernel);
    _cudaLibraryUnload(library);
    return r ? -1 : (int)word;
}

static void test_folder(void) {
    CALL(cuModuleLoadData, int, void *, const void *)
    const struct cubin one = cubin_of("one"), ones = cubin_of("ones"), none = cubin_of("none");
    const struct fat fat = fat_of("one");
    void *module = NULL;
    unsetenv("EMU_REPLACE");
    CHECK(cuModuleLoadData(&module, &one) == 209 && cuModuleLoadData(&module, &fat) == 209,
          "machine code cannot run");
    setenv("EMU_REPLACE", folder, 1);
    write_ptx("a.ptx", "one", 5, 10);
    write_ptx("b.ptx", "ones", 6, 5);
    write_ptx("not", "one", 7, 0);
    CHECK(step_of(&one, "one") == 5 && step_of(&ones, "ones") == 6, "by the kernel's name");
    CHECK(step_of(&fat, "one") == 5, "in a fat binary");
    write_ptx("c.ptx", "one", 8, 20);
    CHECK(step_of(&one, "one") == 5, "the newest: a");
    write_ptx("c.ptx", "one", 8, 2);
    CHECK(step_of(&one, "one") == 8, "the newest: c");
    CHECK(step_of(&none, "none") == -1, "without PTX it is refused when launched");
}

static struct cubin code;
static int loads;
static int init(void **library) {
    CALL(_cudaLibraryLoadData, int, void *, const void *, void *, void *, unsigned, void *, void *,
         unsigned)
    loads++;
    return _cudaLibraryLoadData(library, &code, NULL, NULL, 0, NULL, NULL, 0);
}
static int load(void **library, int device) {
    return !*library || device;
}
static int fail(void **library, int device) {
    (void)library, (void)device;
    return 719;
}
static char raised[100];
static void raise_error(const char *kind, const char *message) {
    snprintf(raised, sizeof raised, "%s: %s", kind, message);
}

static void test_once(void) {
    CALL(cuda_dialect_init_library_once, int, void **, int (*)(void **), int (*)(void **, int),
         void (*)(const char *, const char *))
    CALL(cuda_dialect_unload_library_once, void, void **)
    void *state = NULL;
    code = cubin_of("one");
    CHECK(cuda_dialect_init_library_once(&state, init, fail, raise_error) && !state &&
              strstr(raised, "LAUNCH_FAILED"),
          "%s", raised);
    CHECK(!cuda_dialect_init_library_once(&state, init, load, raise_error) && state, "loaded");
    CHECK(!cuda_dialect_init_library_once(&state, init, load, raise_error) && loads == 2, "once");
    cuda_dialect_unload_library_once(&state);
    CHECK(!state, "unloaded");
}

/* Success goes on, an error ends the program. */
static void test_assert(void) {
    CALL(cuda_dialect_assert_success, void, int)
    int status = 0;
    cuda_dialect_assert_success(0);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        cuda_dialect_assert_success(719);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
              WTERMSIG(status) == SIGABRT,
          "status %d", status);
}

int main(int argc, char **argv) {
    if (!unit_library(argc, argv) || !mkdtemp(folder))
        return 1;
    CALL(cuInit, int, unsigned)
    CALL(cuDevicePrimaryCtxRetain, int, void *, int)
    CALL(cuCtxSetCurrent, int, void *)
    CALL(cuMemHostRegister_v2, int, void *, size_t, unsigned)
    void *context = NULL;
    CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context) &&
              !cuMemHostRegister_v2(&word, sizeof word, 0),
          "start");
    test_folder();
    test_once();
    test_assert();
    static const char *const files[] = {"a.ptx", "b.ptx", "c.ptx", "not"};
    for (size_t k = 0; k < 4; k++)
        remove_ptx(files[k]);
    rmdir(folder);
    return unit_end();
}
