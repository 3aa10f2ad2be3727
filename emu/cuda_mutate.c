/* cuda_mutate.c: break a program on purpose, to see whether its tests and our checks notice.
 *
 *   EMU_MUTATE=OPCODE#K     drop the K-th statement (from 0) whose opcode starts with OPCODE; of a
 *                           wait (mbarrier.try_wait) the answer becomes "yes"
 *   EMU_MUTATE=A=>B#K       put B in the place of the K-th occurrence of A
 *   EMU_MUTATE_IN=TEXT      only in modules that contain TEXT
 *
 * What was changed is said on stderr; a module without a K-th match is left alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The opcode of the statement on this line, past a guard; NULL for labels and directives. */
static const char *opcode_of(const char *line) {
    while (*line == ' ' || *line == '\t')
        line++;
    if (*line == '@') {
        line += strcspn(line, " \t\n");
        line += strspn(line, " \t");
    }
    return islower((unsigned char)*line) ? line : NULL;
}

static const char *nth_opcode(const char *text, const char *opcode, size_t n, long k) {
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *op = opcode_of(line);
        if (op && !strncmp(op, opcode, n) && k-- == 0)
            return op;
    }
    return NULL;
}

static const char *nth_string(const char *text, const char *what, size_t n, long k) {
    char word[160];
    if (!n || n >= sizeof word)
        return NULL;
    memcpy(word, what, n);
    word[n] = 0;
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
        if (k-- == 0)
            return p;
    return NULL;
}

static char *splice(const char *text, const char *at, size_t drop, const char *in, size_t n) {
    size_t before = (size_t)(at - text), after = strlen(at + drop);
    char *s = malloc(before + n + after + 1);
    if (!s)
        abort();
    memcpy(s, text, before);
    memcpy(s + before, in, n);
    memcpy(s + before + n, at + drop, after + 1);
    return s;
}

static char *drop_statement(const char *text, const char *at) {
    char yes[200];
    size_t n = strcspn(at, ";") + 1, op = strcspn(at, " \t"), gap = op + strspn(at + op, " \t");
    if (strncmp(at, "mbarrier.try_wait", 17))
        return splice(text, at, n, ";", 1);
    int m =
        snprintf(yes, sizeof yes, "setp.eq.u32 %.*s, 0, 0;", (int)strcspn(at + gap, ","), at + gap);
    return splice(text, at, n, yes, (size_t)m);
}

const char *cu_mutate(const char *text) {
    const char *spec = getenv("EMU_MUTATE"), *in = getenv("EMU_MUTATE_IN");
    const char *hash = spec ? strrchr(spec, '#') : NULL;
    if (!hash || (in && !strstr(text, in)))
        return text;
    const char *arrow = strstr(spec, "=>");
    const long k = strtol(hash + 1, NULL, 10);
    const size_t n = (size_t)((arrow ? arrow : hash) - spec);
    const char *at = arrow ? nth_string(text, spec, n, k) : nth_opcode(text, spec, n, k);
    if (!at)
        return text;
    int line = 1;
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    fprintf(stderr, "emu: mutated ptx:%d: %.*s\n", line, (int)strcspn(at, "\n"), at);
    if (arrow)
        return splice(text, at, n, arrow + 2, (size_t)(hash - arrow - 2));
    return drop_statement(text, at);
}
