/* ptx_link.c: several texts of PTX as one module (see ptx_link.h).
 *
 * A text is cut into the statements of its module scope.  What a text keeps to itself is renamed
 * where another text has the name too; a variable that another text declares .extern moves to the
 * front; of weak definitions the first stays.  Functions may be defined after their use.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ptx_link.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum linkage { LINK_LOCAL, LINK_VISIBLE, LINK_EXTERN, LINK_WEAK };

struct piece { /* a statement of module scope */
    const char *at;
    size_t bytes;
    enum linkage linkage;
    bool head;     /* .version, .target, .address_size */
    bool function; /* .func, .entry */
    bool body;     /* a function with one, a variable that is not .extern */
    char name[256];
    size_t text; /* which text it is of */
};
struct link {
    struct piece *piece;
    size_t n, room, texts;
};

/* --- Cutting --- */

static const char *skip_blank(const char *p) {
    for (;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (!strncmp(p, "//", 2)) {
            while (*p && *p != '\n')
                p++;
        } else if (!strncmp(p, "/*", 2)) {
            const char *end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else {
            return p;
        }
    }
}

static bool word_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

/* The end of the token that begins at p. */
static const char *token_end(const char *p) {
    if (*p == '"') {
        for (p++; *p && *p != '"'; p++)
            p += *p == '\\' && p[1];
        return *p ? p + 1 : p;
    }
    const char *q = *p == '.' ? p + 1 : p;
    while (word_char(*q) || (q > p && q[0] == ':' && q[1] == ':'))
        q += *q == ':' ? 2 : 1;
    return q > p ? q : p + 1;
}

static bool is_word(const char *p, const char *end, const char *word) {
    return (size_t)(end - p) == strlen(word) && !memcmp(p, word, (size_t)(end - p));
}

/* One token of a statement. */
static void note_token(struct piece *s, const char *p, const char *end, int depth, bool number) {
    if (is_word(p, end, ".visible") || is_word(p, end, ".common"))
        s->linkage = LINK_VISIBLE;
    else if (is_word(p, end, ".extern"))
        s->linkage = LINK_EXTERN;
    else if (is_word(p, end, ".weak"))
        s->linkage = LINK_WEAK;
    else if (is_word(p, end, ".func") || is_word(p, end, ".entry"))
        s->function = true;
    else if (is_word(p, end, ".version") || is_word(p, end, ".target") ||
             is_word(p, end, ".address_size"))
        s->head = true;
    else if (!s->name[0] && !depth && word_char(*p) && !isdigit((unsigned char)*p) && !number)
        snprintf(s->name, sizeof s->name, "%.*s", (int)(end - p), p);
    if (is_word(p, end, ".entry") && s->linkage == LINK_LOCAL)
        s->linkage = LINK_VISIBLE;
}

/* Directives that end with their line. */
static bool of_a_line(const char *p, const char *end) {
    static const char *const words[] = {".version", ".target", ".address_size", ".file", ".loc"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (is_word(p, end, words[k]))
            return true;
    return false;
}

/* The statement at p; its end. */
static const char *cut(struct piece *s, const char *p) {
    int depth = 0;
    bool number = false, braces = false;
    s->at = p;
    const char *end = token_end(p);
    if (of_a_line(p, end)) {
        note_token(s, p, end, 1, false);
        s->bytes = strcspn(p, "\n");
        return p + s->bytes;
    }
    const bool section = is_word(p, end, ".section");
    while (*p) {
        end = token_end(p);
        note_token(s, p, end, depth, number);
        number = is_word(p, end, ".align");
        depth += *p == '(' || *p == '{' || *p == '[';
        depth -= *p == ')' || *p == '}' || *p == ']';
        braces = braces || *p == '{';
        if (!depth && (*p == ';' || (*p == '}' && (s->function || section))))
            break;
        p = skip_blank(end);
    }
    s->body = s->function ? braces : s->linkage != LINK_EXTERN;
    p = *p ? p + 1 : p;
    s->bytes = (size_t)(p - s->at);
    return p;
}

static void cut_all(struct link *l, const char *text) {
    for (const char *p = skip_blank(text); *p; p = skip_blank(p)) {
        if (l->n == l->room) {
            l->room = l->room * 2 + 64;
            l->piece = realloc(l->piece, l->room * sizeof *l->piece);
            if (!l->piece)
                abort();
        }
        struct piece *s = &l->piece[l->n++];
        *s = (struct piece){.text = l->texts};
        p = cut(s, p);
    }
    l->texts++;
}

/* --- Putting together --- */

/* Another text has a statement of this name. */
static const struct piece *elsewhere(const struct link *l, const char *name, size_t text,
                                     bool want_extern) {
    for (size_t k = 0; k < l->n; k++)
        if (l->piece[k].text != text && !strcmp(l->piece[k].name, name) &&
            (!want_extern || l->piece[k].linkage == LINK_EXTERN))
            return &l->piece[k];
    return NULL;
}

static const struct piece *definition(const struct link *l, const char *name) {
    const struct piece *weak = NULL;
    for (size_t k = 0; k < l->n; k++) {
        const struct piece *s = &l->piece[k];
        if (!s->body || s->linkage == LINK_LOCAL || strcmp(s->name, name))
            continue;
        if (s->linkage == LINK_VISIBLE)
            return s;
        weak = weak ? weak : s;
    }
    return weak;
}

static bool is_local(const struct link *l, const char *p, size_t n, size_t text) {
    for (size_t k = 0; k < l->n; k++) {
        const struct piece *s = &l->piece[k];
        if (s->text == text && s->linkage == LINK_LOCAL && !s->head && strlen(s->name) == n &&
            !memcmp(s->name, p, n) && elsewhere(l, s->name, text, false))
            return true;
    }
    return false;
}

/* The statement with the names that its text keeps to itself. */
static void put(FILE *out, const struct link *l, const struct piece *s) {
    for (const char *p = s->at; p < s->at + s->bytes;) {
        const char *blank = skip_blank(p);
        const char *from = blank < s->at + s->bytes ? blank : s->at + s->bytes;
        fwrite(p, 1, (size_t)(from - p), out);
        if (from == s->at + s->bytes)
            break;
        p = token_end(from);
        fwrite(from, 1, (size_t)(p - from), out);
        if (word_char(*from) && is_local(l, from, (size_t)(p - from), s->text))
            fprintf(out, "__text%zu", s->text);
    }
    fputc('\n', out);
}

static const struct piece *first_of(const struct link *l, const char *name) {
    for (size_t k = 0; k < l->n; k++)
        if (l->piece[k].linkage != LINK_LOCAL && !strcmp(l->piece[k].name, name))
            return &l->piece[k];
    return NULL;
}

static bool kept(const struct link *l, const struct piece *s, bool front) {
    const bool named = s->name[0] && s->linkage != LINK_LOCAL;
    const struct piece *def = named ? definition(l, s->name) : NULL;
    if (s->head)
        return front && s->text == 0;
    if (named && s->body && def != s)
        return false; /* weak, and another one is taken */
    if (named && !s->body && !s->function && (def || first_of(l, s->name) != s))
        return false; /* declared .extern, defined elsewhere or declared before */
    return front == (named && s->body && !s->function && elsewhere(l, s->name, s->text, true));
}

/* Of a name that two texts define, neither of them weak. */
static const char *twice(const struct link *l) {
    for (size_t k = 0; k < l->n; k++) {
        const struct piece *s = &l->piece[k];
        if (s->name[0] && s->body && s->linkage == LINK_VISIBLE && definition(l, s->name) != s)
            return s->name;
    }
    return NULL;
}

char *ptx_link(const char *const *text, size_t n, char *why, size_t why_bytes) {
    struct link l = {0};
    char *all = NULL;
    size_t bytes = 0;
    for (size_t k = 0; k < n; k++)
        cut_all(&l, text[k]);
    const char *name = twice(&l);
    FILE *out = name ? NULL : open_memstream(&all, &bytes);
    if (name)
        snprintf(why, why_bytes, "'%s' is defined in two of the inputs", name);
    for (int front = 1; out && front >= 0; front--)
        for (size_t k = 0; k < l.n; k++)
            if (kept(&l, &l.piece[k], front))
                put(out, &l, &l.piece[k]);
    if (out)
        fclose(out);
    free(l.piece);
    return all;
}
