/* SPDX-License-Identifier: Apache-2.0
 * The command line: a table of commands. Each lives in cmd_<name>.c; all of them use nothing but
 * gqa.h (and the oracle, to verify), so they are also examples of its use. */
#include "commands.h"

#include "gqa.h"

#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
    &cmd_info, &cmd_plan, &cmd_decode, &cmd_verify, &cmd_bench, &cmd_trace,
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_commands(FILE *out) {
    fprintf(out, "gqa: decode attention with grouped query heads\n\n"
                 "usage: gqa COMMAND [--option value ...]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n`gqa COMMAND --help` explains one, with an example; `gqa --version`.\n"
                 "Start with `gqa info`.\n\n" EXIT_CODES_HELP);
}

static int complain_command(const char *word) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i]->name;
    const char *nearest = flags_nearest(word, names, COMMANDS);
    fprintf(stderr, "gqa: there is no command \"%s\"; ", word);
    if (nearest)
        fprintf(stderr, "did you mean %s?\n", nearest);
    else
        fprintf(stderr, "`gqa --help` lists them\n");
    return EXIT_USAGE;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return !strcmp(word, a) || !strcmp(word, b) || !strcmp(word, c);
}

int main(int argc, char **argv) {
    int code = EXIT_USAGE;
    const struct command *command = NULL;
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    if (is_one_of(argv[1], "--help", "-h", "help")) {
        print_commands(stdout);
        code = EXIT_DONE;
    } else if (is_one_of(argv[1], "--version", "-V", "version")) {
        const int v = gqa_version();
        printf("gqa %d.%d.%d\n", v / 10000, v / 100 % 100, v % 100);
        code = EXIT_DONE;
    } else {
        for (int i = 0; i < COMMANDS; i++)
            if (!strcmp(argv[1], commands[i]->name))
                command = commands[i];
        code = command ? command->run(command, argc - 2, argv + 2) : complain_command(argv[1]);
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "gqa: the output could not be written\n");
        return EXIT_FAILED;
    }
    return code;
}
