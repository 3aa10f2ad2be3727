/* forms.c: see forms.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "forms.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct form {
    uint64_t key;
    char *text; /* NULL: free slot */
};
struct forms {
    struct form *slot;
    size_t n, cap; /* cap: a power of two */
};

struct forms *forms_new(void) {
    struct forms *f = calloc(1, sizeof *f);
    if (f)
        f->slot = calloc(f->cap = 256, sizeof *f->slot);
    if (!f || !f->slot)
        abort();
    return f;
}

void forms_free(struct forms *f) {
    for (size_t k = 0; f && k < f->cap; k++)
        free(f->slot[k].text);
    if (f)
        free(f->slot);
    free(f);
}

uint64_t forms_key(const void *fields, size_t bytes) { /* FNV-1a */
    const uint8_t *p = fields;
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

static struct form *find(const struct forms *f, uint64_t key) {
    size_t k = (size_t)(key ^ key >> 32) & (f->cap - 1);
    while (f->slot[k].text && f->slot[k].key != key)
        k = (k + 1) & (f->cap - 1);
    return &f->slot[k];
}

static void grow(struct forms *f) {
    struct forms bigger = {.cap = f->cap * 2, .n = f->n};
    bigger.slot = calloc(bigger.cap, sizeof *bigger.slot);
    if (!bigger.slot)
        abort();
    for (size_t k = 0; k < f->cap; k++)
        if (f->slot[k].text)
            *find(&bigger, f->slot[k].key) = f->slot[k];
    free(f->slot);
    *f = bigger;
}

void forms_note(struct forms *f, uint64_t key, const char *format, ...) {
    char text[400];
    if (!f || find(f, key)->text)
        return;
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (f->n * 2 >= f->cap)
        grow(f);
    struct form *slot = find(f, key);
    *slot = (struct form){key, strdup(text)};
    if (!slot->text)
        abort();
    f->n++;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void write_sorted(char **line, size_t n, FILE *out) {
    qsort(line, n, sizeof *line, by_text);
    for (size_t k = 0; k < n; k++)
        if (!k || strcmp(line[k], line[k - 1]))
            fprintf(out, "%s\n", line[k]);
}

void forms_write(const struct forms *f, FILE *out) {
    size_t n = 0;
    char **line = malloc((f->n + 1) * sizeof *line);
    if (!line)
        abort();
    for (size_t k = 0; k < f->cap; k++)
        if (f->slot[k].text)
            line[n++] = f->slot[k].text;
    write_sorted(line, n, out);
    free(line);
}

struct lines {
    char **line;
    size_t n, cap;
};

static bool read_lines(const char *path, struct lines *l) {
    FILE *in = fopen(path, "r");
    char buf[1024];
    if (!in)
        return false;
    while (fgets(buf, sizeof buf, in)) {
        buf[strcspn(buf, "\n")] = 0;
        if (l->n == l->cap)
            l->line = realloc(l->line, (l->cap = l->cap * 2 + 64) * sizeof *l->line);
        if (!l->line || !(l->line[l->n++] = strdup(buf)))
            abort();
    }
    fclose(in);
    if (l->n)
        qsort(l->line, l->n, sizeof *l->line, by_text);
    return true;
}

static void free_lines(struct lines *l) {
    for (size_t k = 0; k < l->n; k++)
        free(l->line[k]);
    free(l->line);
}

bool forms_minus(const char *a, const char *b, FILE *out) {
    struct lines x = {0}, y = {0};
    const bool ok = read_lines(a, &x) && read_lines(b, &y);
    for (size_t k = 0; ok && k < x.n; k++) {
        if (k && !strcmp(x.line[k], x.line[k - 1]))
            continue;
        if (!y.n || !bsearch(&x.line[k], y.line, y.n, sizeof *y.line, by_text))
            fprintf(out, "%s\n", x.line[k]);
    }
    free_lines(&x);
    free_lines(&y);
    return ok;
}
