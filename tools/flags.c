/* SPDX-License-Identifier: Apache-2.0
 * The one reader of command lines. */
#include "flags.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 32, HELP_COLUMN = 30, MAX_NAMES = 128 };

int flags_complain(const struct command *command, enum exit_code code, const char *format, ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "gqa %s: ", command->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

/* --- The nearest name ----------------------------------------------------------------------- */

/* Edits (insert, delete, replace, swap of neighbours) between two words shorter than WORD. */
static int distance(const char *a, const char *b) {
    const int n = (int)strlen(a), m = (int)strlen(b);
    int d[WORD + 1][WORD + 1];
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *flags_nearest(const char *word, const char *const *candidates, int count) {
    const size_t length = strlen(word);
    const char *nearest = NULL;
    int least = length < 4 ? 2 : 2 + (int)length / 4;
    for (int i = 0; length <= WORD && i < count; i++) {
        const int d = strlen(candidates[i]) <= WORD ? distance(word, candidates[i]) : WORD;
        if (d < least) {
            least = d;
            nearest = candidates[i];
        }
    }
    /* A word cut short ("head" for "head-dim") is near only to what it begins. */
    for (int i = 0; !nearest && length >= 2 && i < count; i++)
        if (!strncmp(word, candidates[i], length))
            nearest = candidates[i];
    return nearest;
}

/* --- Help ----------------------------------------------------------------------------------- */

/* "a|b|c" of a NULL-terminated list. */
static void join(char *text, size_t size, const char *const *words) {
    size_t n = 0;
    text[0] = 0;
    for (; *words && n < size; words++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", n ? "|" : "", *words);
}

static void print_flag(const struct flag *f) {
    char left[160], choices[120] = "";
    if (f->kind == FLAG_HEADING) {
        printf("\n%s\n", f->help);
        return;
    }
    if (f->kind == FLAG_CHOICE)
        join(choices, sizeof choices, f->choices);
    const char *argument = f->kind == FLAG_CHOICE ? choices : f->argument ? f->argument : "";
    const int n =
        snprintf(left, sizeof left, "  --%s%s%s", f->name, argument[0] ? " " : "", argument);
    printf("%s", left);
    int column = n;
    for (const char *line = f->help; line;) {
        const char *end = strchr(line, '\n');
        if (column > HELP_COLUMN - 2) {
            putchar('\n');
            column = 0;
        }
        printf("%*s%.*s\n", HELP_COLUMN - column, "", end ? (int)(end - line) : (int)strlen(line),
               line);
        column = 0;
        line = end ? end + 1 : NULL;
    }
}

static void print_help(const struct command *c, const struct flag_table *tables, int table_count) {
    printf("usage: gqa %s %s\n\n%s\n", c->name, c->usage, c->about);
    for (int t = 0; t < table_count; t++)
        for (int i = 0; i < tables[t].count; i++)
            print_flag(&tables[t].flags[i]);
    printf("\nExample:\n%s\n%s", c->example, EXIT_CODES_HELP);
}

/* --- Values --------------------------------------------------------------------------------- */

static bool parse_whole(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return !errno && end != text && !*end && text[0] != ' ' && text[0] != '+';
}

static bool set_whole(const struct command *c, const struct flag *f, const char *text) {
    const bool any = !f->least && !f->most;
    const int64_t type_least = f->kind == FLAG_INT ? INT32_MIN : INT64_MIN;
    const int64_t type_most = f->kind == FLAG_INT ? INT32_MAX : INT64_MAX;
    const int64_t least = any ? type_least : f->least, most = any ? type_most : f->most;
    int64_t value;
    if (!parse_whole(text, &value) || value < least || value > most) {
        flags_complain(c, EXIT_USAGE, "--%s is \"%s\", expected a whole number, %lld to %lld",
                       f->name, text, (long long)least, (long long)most);
        return false;
    }
    if (f->kind == FLAG_INT)
        *(int *)f->value = (int)value;
    else
        *(int64_t *)f->value = value;
    return true;
}

static bool set_float(const struct command *c, const struct flag *f, const char *text) {
    char *end;
    const float value = strtof(text, &end);
    if (end == text || *end || !isfinite(value)) {
        flags_complain(c, EXIT_USAGE, "--%s is \"%s\", expected a finite number", f->name, text);
        return false;
    }
    *(float *)f->value = value;
    return true;
}

static bool set_choice(const struct command *c, const struct flag *f, const char *text) {
    int count = 0;
    for (; f->choices[count]; count++)
        if (!strcmp(f->choices[count], text))
            return *(int *)f->value = count, true;
    char all[160];
    join(all, sizeof all, f->choices);
    const char *nearest = flags_nearest(text, f->choices, count);
    flags_complain(c, EXIT_USAGE, "--%s is \"%s\", expected %s%s%s%s", f->name, text, all,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return false;
}

static bool set_value(const struct command *c, const struct flag *f, const char *text) {
    switch (f->kind) {
    case FLAG_INT:
    case FLAG_INT64:
        return set_whole(c, f, text);
    case FLAG_FLOAT:
        return set_float(c, f, text);
    case FLAG_CHOICE:
        return set_choice(c, f, text);
    case FLAG_TEXT:
        if (!*text) {
            flags_complain(c, EXIT_USAGE, "--%s is empty, expected %s", f->name, f->argument);
            return false;
        }
        *(const char **)f->value = text;
        return true;
    case FLAG_YES:
    case FLAG_NO:
        *(bool *)f->value = f->kind == FLAG_YES;
        return true;
    case FLAG_HEADING:
        break;
    }
    return false;
}

/* --- Parsing -------------------------------------------------------------------------------- */

static const struct flag *find(const struct flag_table *tables, int table_count, const char *name,
                               size_t length) {
    for (int t = 0; t < table_count; t++)
        for (int i = 0; i < tables[t].count; i++) {
            const struct flag *f = &tables[t].flags[i];
            if (f->name && strlen(f->name) == length && !strncmp(f->name, name, length))
                return f;
        }
    return NULL;
}

static void complain_unknown(const struct command *c, const struct flag_table *tables,
                             int table_count, const char *name, size_t length) {
    const char *names[MAX_NAMES];
    char word[64];
    int count = 0;
    for (int t = 0; t < table_count; t++)
        for (int i = 0; i < tables[t].count && count < MAX_NAMES; i++)
            if (tables[t].flags[i].name)
                names[count++] = tables[t].flags[i].name;
    snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length : 60), name);
    const char *nearest = flags_nearest(word, names, count);
    if (nearest)
        flags_complain(c, EXIT_USAGE, "there is no option --%s; did you mean --%s?", word, nearest);
    else
        flags_complain(c, EXIT_USAGE, "there is no option --%s; `gqa %s --help` lists them", word,
                       c->name);
}

enum flag_result flags_parse(const struct command *c, const struct flag_table *tables,
                             int table_count, int argc, char **argv, const char **operands,
                             int *operand_count) {
    const int most_operands = *operand_count;
    *operand_count = 0;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            print_help(c, tables, table_count);
            return FLAGS_HELP;
        }
        if (arg[0] != '-' || !arg[1]) {
            if (*operand_count == most_operands) {
                flags_complain(c, EXIT_USAGE, "\"%s\" is one operand too many; usage: gqa %s %s",
                               arg, c->name, c->usage);
                return FLAGS_WRONG;
            }
            operands[(*operand_count)++] = arg;
            continue;
        }
        const char *name = arg + 1 + (arg[1] == '-');
        const size_t length = strcspn(name, "=");
        const struct flag *f = arg[1] == '-' ? find(tables, table_count, name, length) : NULL;
        if (!f) {
            complain_unknown(c, tables, table_count, name, length);
            return FLAGS_WRONG;
        }
        const bool takes_value = f->kind != FLAG_YES && f->kind != FLAG_NO;
        const char *text = name[length] ? name + length + 1 : NULL;
        if (takes_value && !text && i + 1 < argc)
            text = argv[++i];
        if (takes_value != (text != NULL)) {
            flags_complain(c, EXIT_USAGE, "--%s takes %s value", f->name, takes_value ? "a" : "no");
            return FLAGS_WRONG;
        }
        if (!set_value(c, f, text))
            return FLAGS_WRONG;
    }
    return FLAGS_RUN;
}
