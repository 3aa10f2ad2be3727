/* SPDX-License-Identifier: Apache-2.0
 * Cells are kept as text and printed when the table is complete: only then are widths known. */
#include "table.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const table_formats[] = {"text", "csv", "json", "markdown", NULL};

struct table {
    const struct column *columns;
    int column_count;
    char **cells;
    int cell_count;
};

static void *kept(void *memory) {
    if (!memory) {
        fprintf(stderr, "gqa: out of memory\n");
        exit(1);
    }
    return memory;
}

struct table *table_new(const struct column *columns, int count) {
    struct table *t = kept(calloc(1, sizeof *t));
    t->columns = columns;
    t->column_count = count;
    return t;
}

void table_free(struct table *t) {
    for (int i = 0; i < t->cell_count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

void table_add(struct table *t, const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    t->cells = kept(realloc(t->cells, (size_t)(t->cell_count + 1) * sizeof *t->cells));
    t->cells[t->cell_count++] = kept(text);
}

static void print_line(const struct table *t, char *const *cells, const int *widths,
                       bool is_markdown, FILE *out) {
    const int last = t->column_count - 1;
    fputs(is_markdown ? "| " : "", out);
    for (int c = 0; c <= last; c++) {
        const char *cell = cells ? cells[c] : t->columns[c].name;
        const bool is_padded = is_markdown || c < last;
        if (t->columns[c].is_number)
            fprintf(out, "%*s", widths[c], cell);
        else
            fprintf(out, "%-*s", is_padded ? widths[c] : 0, cell);
        fputs(c < last ? (is_markdown ? " | " : "  ") : is_markdown ? " |\n" : "\n", out);
    }
}

static void print_aligned(const struct table *t, bool is_markdown, FILE *out) {
    int *widths = kept(calloc((size_t)t->column_count, sizeof *widths));
    for (int i = -t->column_count; i < t->cell_count; i++) {
        const int c = (i + t->column_count) % t->column_count;
        const int n = (int)strlen(i < 0 ? t->columns[c].name : t->cells[i]);
        widths[c] = n > widths[c] ? n : widths[c];
    }
    print_line(t, NULL, widths, is_markdown, out);
    if (is_markdown)
        for (int c = 0; c < t->column_count; c++)
            fprintf(out, "%s%s%s", c ? "" : "|", t->columns[c].is_number ? " ---: |" : " --- |",
                    c == t->column_count - 1 ? "\n" : "");
    for (int i = 0; i + t->column_count <= t->cell_count; i += t->column_count)
        print_line(t, t->cells + i, widths, is_markdown, out);
    free(widths);
}

static void print_csv_cell(const char *cell, FILE *out) {
    if (!strpbrk(cell, ",\"\r\n")) {
        fputs(cell, out);
        return;
    }
    fputc('"', out);
    for (; *cell; cell++)
        fputs((char[]){*cell, *cell == '"' ? '"' : 0, 0}, out);
    fputc('"', out);
}

static void print_csv(const struct table *t, FILE *out) {
    for (int i = -t->column_count; i < t->cell_count; i++) {
        const int c = (i + t->column_count) % t->column_count;
        print_csv_cell(i < 0 ? t->columns[c].name : t->cells[i], out);
        fputc(c == t->column_count - 1 ? '\n' : ',', out);
    }
}

static void print_json_text(const char *text, FILE *out) {
    json_t *string = kept(json_stringn_nocheck(text, strlen(text)));
    json_dumpf(string, out, JSON_ENCODE_ANY);
    json_decref(string);
}

static void print_json(const struct table *t, FILE *out) {
    fputs("[", out);
    for (int i = 0; i < t->cell_count; i++) {
        const int c = i % t->column_count;
        fputs(c ? ", " : i ? ",\n {" : "\n {", out);
        print_json_text(t->columns[c].name, out);
        fputs(": ", out);
        if (t->columns[c].is_number)
            fputs(t->cells[i][0] ? t->cells[i] : "null", out);
        else
            print_json_text(t->cells[i], out);
        fputs(c == t->column_count - 1 ? "}" : "", out);
    }
    fputs("\n]\n", out);
}

void table_print(const struct table *t, enum table_format format, FILE *out) {
    switch (format) {
    case TABLE_TEXT:
    case TABLE_MARKDOWN:
        print_aligned(t, format == TABLE_MARKDOWN, out);
        break;
    case TABLE_CSV:
        print_csv(t, out);
        break;
    case TABLE_JSON:
        print_json(t, out);
        break;
    }
}
