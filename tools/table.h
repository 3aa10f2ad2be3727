/* SPDX-License-Identifier: Apache-2.0
 * One table, printed as aligned text, Markdown, CSV (RFC 4180) or JSON (a list of objects). */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stdio.h>

struct column {
    const char *name;
    bool is_number; /* right-aligned; without quotes in JSON */
};

enum table_format { TABLE_TEXT, TABLE_CSV, TABLE_JSON, TABLE_MARKDOWN };

/* For a FLAG_CHOICE in the order of enum table_format. */
extern const char *const table_formats[];

struct table;

/* The columns are kept by address. Free with table_free. Out of memory ends the program. */
struct table *table_new(const struct column *columns, int count);
void table_free(struct table *table);

/* The next cell, row by row. An empty one in a number column is null in JSON. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

void table_print(const struct table *table, enum table_format format, FILE *out);

#endif
