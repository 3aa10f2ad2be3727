/* cuda_cubin.c: the PTX of machine code.  The emulator cannot run a cubin; where EMU_REPLACE names
 * a folder, a file *.ptx in it whose kernels are the cubin's, by name, runs in its place. Compilers
 * that hand over machine code can leave the PTX that it was made from (the CuTe DSL:
 * CUTE_DSL_KEEP=ptx, CUTE_DSL_DUMP_DIR=folder).  Of several such files the newest is taken: a
 * program that compiles the same kernel twice loads each when it has just been written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <dirent.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cu_is_elf(const void *data) {
    return !memcmp(data, ELFMAG, SELFMAG);
}

static const Elf64_Shdr *sections(const void *elf) {
    const Elf64_Ehdr *e = elf;
    return (const Elf64_Shdr *)(const void *)((const char *)elf + e->e_shoff);
}

/* The code of kernel NAME lies in section .text.NAME; NULL: section k is another. */
static const char *kernel_name(const void *elf, uint32_t k) {
    const Elf64_Ehdr *e = elf;
    const Elf64_Shdr *s = sections(elf);
    const char *name = (const char *)elf + s[e->e_shstrndx].sh_offset + s[k].sh_name;
    return strncmp(name, ".text.", 6) ? NULL : name + 6;
}

static bool elf_has_kernel(const void *elf, const char *name, size_t n) {
    const Elf64_Ehdr *e = elf;
    for (uint32_t k = 0; k < e->e_shnum; k++) {
        const char *have = kernel_name(elf, k);
        if (have && strlen(have) == n && !memcmp(have, name, n))
            return true;
    }
    return false;
}

/* Has entries, and the cubin has them all. */
static bool text_is_of(const char *text, const void *elf) {
    bool any = false;
    for (const char *s = text; (s = strstr(s, ".entry ")); any = true) {
        s += 7;
        if (!elf_has_kernel(elf, s, strcspn(s, "( \n")))
            return false;
    }
    return any;
}

/* --- The folder --- */

static int ptx_files(const struct dirent *d) {
    const size_t n = strlen(d->d_name);
    return n > 4 && !strcmp(d->d_name + n - 4, ".ptx");
}

static bool newer(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec >= b->tv_nsec;
}

static char *newest_of(const char *folder, struct dirent **files, int n, const void *elf) {
    char *best = NULL;
    struct timespec when = {0, 0};
    for (int k = 0; k < n; k++) {
        char path[4096];
        struct stat st;
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, files[k]->d_name);
        if (stat(path, &st) || !newer(&st.st_mtim, &when))
            continue;
        char *text = cu_read_file(path, &bytes);
        if (text && text_is_of(text, elf)) {
            free(best);
            best = text;
            when = st.st_mtim;
        } else {
            free(text);
        }
    }
    return best;
}

/* Empty kernels of the cubin's names. */
static char *names_only(const void *elf) {
    const Elf64_Ehdr *e = elf;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputs(".version 8.0\n.target sm_80\n.address_size 64\n", out);
    for (uint32_t k = 0; k < e->e_shnum; k++)
        if (kernel_name(elf, k))
            fprintf(out, ".visible .entry %s() { ret; }\n", kernel_name(elf, k));
    fclose(out);
    return text;
}

bool cu_folder(const char *path) {
    struct stat st;
    return path && !stat(path, &st) && S_ISDIR(st.st_mode);
}

char *cu_cubin_ptx(const void *elf, bool *stubs) {
    const Elf64_Ehdr *e = elf;
    const char *folder = getenv("EMU_REPLACE");
    struct dirent **files = NULL;
    if (!cu_folder(folder) || e->e_ident[EI_CLASS] != ELFCLASS64 ||
        e->e_shentsize != sizeof(Elf64_Shdr))
        return NULL;
    const int n = scandir(folder, &files, ptx_files, alphasort);
    char *text = newest_of(folder, files, n, elf);
    for (int k = 0; k < n; k++)
        free(files[k]);
    free(files);
    *stubs = !text;
    return text ? text : names_only(elf);
}
