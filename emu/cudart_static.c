/* cudart_static.c: programs with the static runtime in them, nvcc's default, started with
 * LD_PRELOAD=libcuda-emu.so: every runtime function that was linked into the program becomes a jump
 * to ours, before the program's constructors register its kernels.
 *
 * The runtime's own way to a driver leads through tables that NVIDIA does not document, one of
 * which must prove that the driver is NVIDIA's; we do not pretend to be that.  What is replaced
 * here is the documented interface, found by name in the symbol table of the file, so a stripped
 * program cannot be helped, nor a library that is loaded later.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JUMP = 14, STUB = 32, NAME_MAX_BYTES = 128 };

/* An ELF file of the process, and where it lies in memory. */
struct object {
    const uint8_t *file;
    size_t bytes;
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *strings;
    size_t count, string_bytes;
    uintptr_t low, high; /* of the functions that we replace: the runtime is linked in one piece */
};
static void *self;

/* --- The symbol table --- */

static bool inside(const struct object *o, uint64_t off, uint64_t bytes) {
    return off <= o->bytes && bytes <= o->bytes - off;
}

static bool read_symbols(struct object *o) {
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)o->file;
    if (o->bytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
        h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(o, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(o->file + h->e_shoff);
    for (int k = 0; k < h->e_shnum; k++) {
        if (s[k].sh_type != SHT_SYMTAB || s[k].sh_link >= h->e_shnum)
            continue;
        const Elf64_Shdr *t = &s[s[k].sh_link];
        if (!inside(o, s[k].sh_offset, s[k].sh_size) || !inside(o, t->sh_offset, t->sh_size))
            return false;
        o->symbols = (const Elf64_Sym *)(const void *)(o->file + s[k].sh_offset);
        o->count = s[k].sh_size / sizeof *o->symbols;
        o->strings = (const char *)o->file + t->sh_offset;
        o->string_bytes = t->sh_size;
        return o->string_bytes && !o->strings[o->string_bytes - 1];
    }
    return false;
}

/* The name, if the symbol is a function that may be one of the runtime's; else NULL. */
static const char *runtime_name(const struct object *o, const Elf64_Sym *s) {
    if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !s->st_value || s->st_name >= o->string_bytes)
        return NULL;
    const char *name = o->strings + s->st_name;
    const char *tail = strncmp(name, "__cuda", 6) ? name : name + 2;
    return !strncmp(tail, "cuda", 4) && tail[4] >= 'A' && tail[4] <= 'Z' &&
                   strlen(name) < NAME_MAX_BYTES
               ? name
               : NULL;
}

/* Ours of that name.  The variants for a default stream of each thread are the plain call, since
 * the emulator's streams run in the order of their calls. */
static void *ours(const char *name) {
    char plain[NAME_MAX_BYTES];
    size_t n = strlen(name);
    memcpy(plain, name, n + 1);
    if (n > 5 && (!strcmp(plain + n - 5, "_ptsz") || !strcmp(plain + n - 5, "_ptds")))
        plain[n - 5] = 0;
    return dlsym(self, plain);
}

/* --- Code --- */

/* jmp *0(%rip), and the address behind it */
static void put_jump(uint8_t *at, const void *to) {
    static const uint8_t code[6] = {0xff, 0x25};
    memcpy(at, code, sizeof code);
    memcpy(at + sizeof code, &to, sizeof to);
}

static cu_result refuse(const char *name) {
    fprintf(stderr, "emu: %s: the emulator does not have this call of the runtime\n", name);
    return rt_done(CUE_ERROR_NOT_SUPPORTED);
}
/* movabs $name, %rdi, and a jump to refuse */
static void put_refusal(uint8_t *at, const char *name) {
    at[0] = 0x48;
    at[1] = 0xbf;
    memcpy(at + 2, &name, sizeof name);
    put_jump(at + 10, (const void *)(uintptr_t)refuse);
}

static bool set_protection(uint8_t *at, size_t bytes, int how) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)at & ~(page - 1);
    return !mprotect((void *)first, (uintptr_t)at + bytes - first, how);
}
static void redirect(const struct object *o, const Elf64_Sym *s, const void *to) {
    uint8_t *at = (uint8_t *)(o->base + s->st_value);
    if (set_protection(at, JUMP, PROT_READ | PROT_WRITE)) {
        put_jump(at, to);
        set_protection(at, JUMP, PROT_READ | PROT_EXEC);
    }
}

/* --- One object --- */

static bool has_runtime(struct object *o) {
    bool found = false;
    o->low = UINTPTR_MAX;
    for (size_t k = 0; k < o->count; k++) {
        const char *name = runtime_name(o, &o->symbols[k]);
        if (!name || !ours(name))
            continue;
        found |= !strcmp(name, "__cudaRegisterFatBinary");
        if (o->symbols[k].st_value < o->low)
            o->low = o->symbols[k].st_value;
        if (o->symbols[k].st_value > o->high)
            o->high = o->symbols[k].st_value;
    }
    return found;
}

/* What we lack is answered with an error, and said; a function of the program's own that has such a
 * name lies elsewhere. */
static void replace(const struct object *o) {
    uint8_t *stubs = mmap(NULL, o->count * STUB, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stubs == MAP_FAILED)
        return;
    uint8_t *next = stubs;
    for (size_t k = 0; k < o->count; k++) {
        const Elf64_Sym *s = &o->symbols[k];
        const char *name = runtime_name(o, s);
        const void *to = name ? ours(name) : NULL;
        if (!name || s->st_value < o->low || s->st_value > o->high)
            continue;
        if (!to) {
            put_refusal(next, strdup(name));
            to = next;
            next += STUB;
        }
        redirect(o, s, to);
    }
    mprotect(stubs, o->count * STUB, PROT_READ | PROT_EXEC);
}

static int visit(struct dl_phdr_info *info, size_t bytes, void *data) {
    (void)bytes, (void)data;
    const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    struct stat st;
    Dl_info me;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct object o = {.base = info->dlpi_addr};
    if (!fstat(fd, &st) && st.st_size > 0 && dladdr((void *)(uintptr_t)visit, &me) &&
        (uintptr_t)me.dli_fbase != info->dlpi_addr) {
        o.bytes = (size_t)st.st_size;
        void *p = mmap(NULL, o.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            o.file = p;
            if (read_symbols(&o) && has_runtime(&o))
                replace(&o);
            munmap(p, o.bytes);
        }
    }
    close(fd);
    return 0;
}

/* Only a preloaded library comes before the constructors of the program. */
static bool preloaded(void) {
    const char *list = getenv("LD_PRELOAD");
    Dl_info me;
    if (!list || !dladdr((void *)(uintptr_t)visit, &me))
        return false;
    const char *name = strrchr(me.dli_fname, '/');
    self = dlopen(me.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return self && strstr(list, name ? name + 1 : me.dli_fname);
}

#if defined(__x86_64__)
__attribute__((constructor)) static void replace_runtime(void) {
    if (preloaded())
        dl_iterate_phdr(visit, NULL);
}
#endif
