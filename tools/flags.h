/* SPDX-License-Identifier: Apache-2.0
 * Command-line options as tables: one row per option gives its name, its type, where its value
 * goes and its line of help. A command joins a few tables (its own, the shape's, the device's). A
 * name that is none gets the nearest one suggested. */
#ifndef FLAGS_H
#define FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What every command exits with. */
enum exit_code {
    EXIT_DONE = 0,        /* all is well */
    EXIT_FAILED = 1,      /* a check failed, a file or a call was refused */
    EXIT_USAGE = 2,       /* the command line is wrong; nothing was done */
    EXIT_UNSUPPORTED = 3, /* right, but the device named cannot do it or is not there */
};
#define EXIT_CODES_HELP                                                                            \
    "Exit status: 0 done; 1 a check failed, or a file or call was refused; 2 the command line\n"   \
    "is wrong; 3 the device cannot do this or is not there.\n"

enum flag_kind {
    FLAG_HEADING, /* no option: a line in the help */
    FLAG_YES,     /* bool, set to true; takes no value */
    FLAG_NO,      /* bool, set to false; takes no value */
    FLAG_INT,     /* int */
    FLAG_INT64,   /* int64_t */
    FLAG_FLOAT,   /* float, finite */
    FLAG_TEXT,    /* const char *, not empty; points into argv */
    FLAG_CHOICE,  /* int, the index in `choices` */
};

struct flag {
    const char *name; /* without the dashes */
    enum flag_kind kind;
    void *value;                /* what it points to holds the default */
    const char *argument;       /* in the help: "N", "FILE"; choices are listed by themselves */
    const char *help;           /* one line, or more with \n */
    const char *const *choices; /* NULL-terminated */
    int64_t least, most;        /* of whole numbers; both 0: any */
};

struct flag_table {
    const struct flag *flags;
    int count;
};

/* What a command is, for its help and its messages. */
struct command {
    const char *name, *summary;
    const char *usage;   /* what follows "gqa NAME " */
    const char *about;   /* paragraphs */
    const char *example; /* whole lines */
    int (*run)(const struct command *self, int argc, char **argv);
};

enum flag_result { FLAGS_RUN, FLAGS_HELP, FLAGS_WRONG };

/* Read argv[0 .. argc) into the tables' values. What is not an option goes to operands[0 ..
 * *operand_count), at most `*operand_count` of them. `--help` prints the help on stdout and gives
 * FLAGS_HELP; a mistake prints a sentence on stderr and gives FLAGS_WRONG. */
enum flag_result flags_parse(const struct command *command, const struct flag_table *tables,
                             int table_count, int argc, char **argv, const char **operands,
                             int *operand_count);

/* The candidate nearest to `word`, NULL if none is near enough to be what was meant. */
const char *flags_nearest(const char *word, const char *const *candidates, int count);

/* "gqa NAME: " and the sentence on stderr; returns `code`. */
int flags_complain(const struct command *command, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
