/* lex.c: tokens of PTX (PTX ISA, Syntax).  Comments and line ends are blank; `%tid.x` and
 * `%r1` are one identifier each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lex.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_start(char c) {
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}
static bool is_ident(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static void skip_blank(struct lexer *x) {
    while (x->p < x->end) {
        char c = *x->p;
        if (c == '\n') {
            x->line++;
            x->p++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            x->p++;
        } else if (c == '/' && x->p + 1 < x->end && x->p[1] == '/') {
            while (x->p < x->end && *x->p != '\n')
                x->p++;
        } else if (c == '/' && x->p + 1 < x->end && x->p[1] == '*') {
            x->p += 2;
            while (x->p + 1 < x->end && !(x->p[0] == '*' && x->p[1] == '/')) {
                if (*x->p == '\n')
                    x->line++;
                x->p++;
            }
            x->p = x->p + 2 <= x->end ? x->p + 2 : x->end;
        } else {
            break;
        }
    }
}

char lex_peek(const struct lexer *x) {
    struct lexer y = *x;
    skip_blank(&y);
    return y.p < y.end ? *y.p : 0;
}

static u64 hex_bits(const char *p, u32 n, bool *ok) {
    u64 v = 0;
    for (u32 i = 0; i < n; i++) {
        char c = p[i];
        u32 d = c >= '0' && c <= '9'   ? (u32)(c - '0')
                : c >= 'a' && c <= 'f' ? (u32)(c - 'a' + 10)
                : c >= 'A' && c <= 'F' ? (u32)(c - 'A' + 10)
                                       : 99u;
        if (d > 15)
            *ok = false;
        v = v << 4 | (d & 15);
    }
    return v;
}

static void lex_float_bits(struct lexer *x, u32 digits) {
    bool ok = x->end - x->p >= 2 + (ptrdiff_t)digits;
    u64 bits = ok ? hex_bits(x->p + 2, digits, &ok) : 0;
    if (!ok) {
        x->error = "a floating-point bit pattern needs 8 (0f) or 16 (0d) hex digits";
        x->kind = TK_END;
        return;
    }
    x->kind = TK_FLOAT;
    x->integer = bits;
    x->float_bits = (u8)(digits * 4);
    if (digits == 8) {
        float f;
        u32 b = (u32)bits;
        memcpy(&f, &b, 4);
        x->f = (double)f;
    } else {
        memcpy(&x->f, &bits, 8);
    }
    x->p += 2 + digits;
}

static void lex_number(struct lexer *x) {
    const char *s = x->p;
    if (s + 1 < x->end && s[0] == '0' && (s[1] == 'f' || s[1] == 'F')) {
        lex_float_bits(x, 8);
        return;
    }
    if (s + 1 < x->end && s[0] == '0' && (s[1] == 'd' || s[1] == 'D')) {
        lex_float_bits(x, 16);
        return;
    }
    char buf[80];
    u32 n = 0;
    bool hex = s + 1 < x->end && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'), real = false;
    while (x->p < x->end && n < sizeof buf - 1) {
        char c = *x->p;
        bool exponent_sign =
            !hex && (c == '+' || c == '-') && n && (buf[n - 1] == 'e' || buf[n - 1] == 'E');
        if (!isalnum((unsigned char)c) && c != '.' && !exponent_sign)
            break;
        real |= !hex && (c == '.' || c == 'e' || c == 'E');
        buf[n++] = c;
        x->p++;
    }
    buf[n] = 0;
    char *stop;
    if (real) {
        x->kind = TK_FLOAT;
        x->float_bits = 0;
        x->f = strtod(buf, &stop);
    } else {
        x->kind = TK_INT;
        bool binary = buf[0] == '0' && (buf[1] == 'b' || buf[1] == 'B');
        x->integer = binary ? strtoull(buf + 2, &stop, 2) : strtoull(buf, &stop, 0);
        if (*stop == 'U' || *stop == 'u')
            stop++;
    }
    if (*stop) {
        x->error = "a number that is not a number";
        x->kind = TK_END;
    }
}

static void lex_string(struct lexer *x) {
    x->start = ++x->p;
    while (x->p < x->end && *x->p != '"') {
        if (*x->p == '\\' && x->p + 1 < x->end)
            x->p++;
        if (*x->p == '\n')
            x->line++;
        x->p++;
    }
    x->kind = TK_STRING;
    x->len = (u32)(x->p - x->start);
    if (x->p < x->end)
        x->p++;
    else
        x->error = "a string without end";
}

/* `.b0`, `.h10`, `.b7654` after a register: bytes or half-words of it. */
static void lex_part(struct lexer *x) {
    const char *p = x->p;
    if (x->end - p < 3 || *p != '.' || (p[1] != 'b' && p[1] != 'h'))
        return;
    for (p += 2; p < x->end && isdigit((unsigned char)*p); p++)
        ;
    if (p > x->p + 2 && (p == x->end || !is_ident(*p)))
        x->p = p;
}

void lex_next(struct lexer *x) {
    skip_blank(x);
    x->start = x->p;
    x->tok_line = x->line;
    x->len = 0;
    if (x->p >= x->end) {
        x->kind = TK_END;
        return;
    }
    char c = *x->p;
    if (isdigit((unsigned char)c)) {
        lex_number(x);
        x->len = (u32)(x->p - x->start);
    } else if (is_start(c)) {
        x->kind = TK_IDENT;
        while (x->p < x->end && is_ident(*x->p))
            x->p++;
        if (x->p + 1 < x->end && *x->p == '.' && strchr("xyzwrgba", x->p[1]) &&
            (x->p + 2 >= x->end || !is_ident(x->p[2])))
            x->p += 2;
        else if (c == '%')
            lex_part(x);
        x->len = (u32)(x->p - x->start);
    } else if (c == '.' && x->p + 1 < x->end && is_start(x->p[1])) {
        x->kind = TK_DIRECTIVE;
        x->p++;
        while (x->p < x->end &&
               (is_ident(*x->p) || (*x->p == ':' && x->p + 1 < x->end && x->p[1] == ':') ||
                (*x->p == ':' && x->p[-1] == ':')))
            x->p++;
        x->len = (u32)(x->p - x->start);
    } else if (c == '"') {
        lex_string(x);
    } else {
        x->kind = TK_PUNCT;
        x->p++;
        x->len = 1;
    }
}

void lex_opcode(struct lexer *x) {
    while (x->p < x->end && (is_ident(*x->p) || *x->p == '.' || *x->p == ':'))
        x->p++;
    x->len = (u32)(x->p - x->start);
}

bool lex_is(const struct lexer *x, const char *s) {
    size_t n = strlen(s);
    return x->len == n && x->kind != TK_STRING && x->kind != TK_END && !memcmp(x->start, s, n);
}

bool lex_skip_braces(struct lexer *x) {
    u32 depth = 1;
    while (depth) {
        skip_blank(x);
        if (x->p >= x->end)
            return false;
        const char c = *x->p++;
        depth += c == '{';
        depth -= c == '}';
        if (c != '"')
            continue;
        while (x->p < x->end && *x->p != '"' && *x->p != '\n')
            x->p += *x->p == '\\' && x->p + 1 < x->end ? 2 : 1;
        if (x->p < x->end && *x->p == '"')
            x->p++;
    }
    lex_next(x);
    return true;
}
