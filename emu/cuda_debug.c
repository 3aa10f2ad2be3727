/* cuda_debug.c: what the environment asks of libcuda-emu.so beside running programs.
 *
 *   EMU_PTX=prefix          the PTX of each module that is loaded goes to prefix.N.ptx: the lines
 * that reports count
 *   EMU_REPLACE=file.ptx    a module that has an entry named like the file's first one is taken
 * from the file instead: try an edited kernel without rebuilding its program EMU_FORMS=file at the
 * end: forms of instructions, descriptors and tensor maps used EMU_COVERAGE=file       at the end:
 * instructions and branches not executed, of modules that were not unloaded
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <stdlib.h>
#include <string.h>

/* With a zero behind it; NULL: it cannot be read. */
char *cu_read_file(const char *path, size_t *bytes) {
    FILE *in = fopen(path, "rb");
    char *text = NULL;
    long n = -1;
    if (in && !fseek(in, 0, SEEK_END) && (n = ftell(in)) >= 0 && !fseek(in, 0, SEEK_SET))
        text = calloc(1, (size_t)n + 1);
    if (text && fread(text, 1, (size_t)n, in) != (size_t)n) {
        free(text);
        text = NULL;
    }
    if (in)
        fclose(in);
    *bytes = (size_t)n;
    return text;
}
static char *read_text(const char *path) {
    size_t bytes;
    char *text = cu_read_file(path, &bytes);
    if (!text)
        fprintf(stderr, "emu: %s cannot be read\n", path);
    return text;
}

/* ".entry NAME" at s, with nothing after the name; 0: there is none. */
static size_t entry_length(const char *s) {
    return s ? 7 + strcspn(s + 7, "( \n") : 0;
}

const char *cu_replaced(const char *text) {
    static char *other; /* kept: modules are loaded once or a few times */
    const char *path = getenv("EMU_REPLACE");
    if (!path || cu_folder(path))
        return text;
    if (!other && !(other = read_text(path)))
        return text;
    const char *name = strstr(other, ".entry ");
    const size_t n = entry_length(name);
    for (const char *s = text; n && (s = strstr(s, ".entry ")); s += 7)
        if (entry_length(s) == n && !memcmp(s, name, n))
            return other;
    return text;
}

void cu_keep_text(const char *text) {
    static int count;
    char path[4096];
    const char *prefix = getenv("EMU_PTX");
    if (!prefix || !*prefix)
        return;
    snprintf(path, sizeof path, "%s.%d.ptx", prefix, count++);
    FILE *out = fopen(path, "w");
    if (!out || fputs(text, out) < 0)
        fprintf(stderr, "emu: %s cannot be written\n", path);
    if (out)
        fclose(out);
}

static FILE *open_named(const char *variable, const char *mode) {
    const char *path = getenv(variable);
    return cu_world.emu && path ? fopen(path, mode) : NULL;
}

void cu_module_coverage(const struct module *m) {
    static bool begun; /* the first module replaces the file, others are added */
    FILE *out = open_named("EMU_COVERAGE", begun ? "a" : "w");
    if (!out)
        return;
    begun = true;
    emu_coverage(m, out);
    fclose(out);
}

__attribute__((destructor)) static void write_files(void) {
    FILE *forms = open_named("EMU_FORMS", "w");
    if (forms) {
        emu_forms(cu_world.emu, forms);
        fclose(forms);
    }
    for (const struct cu_image *i = cu_world.images; i; i = i->next)
        cu_module_coverage(i->mod);
    emu_free(cu_world.emu); /* a program may unload this library and go on */
    cu_world.emu = NULL;
}
