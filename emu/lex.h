/* lex.h: characters of PTX text to tokens.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_LEX_H
#define EMU_LEX_H

#include "ir.h"

enum token { TK_END, TK_IDENT, TK_DIRECTIVE, TK_INT, TK_FLOAT, TK_STRING, TK_PUNCT };

struct lexer {
    const char *p, *end;
    u32 line;
    /* the token */
    enum token kind;
    const char *start;
    u32 len;
    u32 tok_line;
    u64 integer;
    double f;
    u8 float_bits; /* 32 for 0f, 64 for 0d, 0 decimal */
    const char *error;
};

void lex_next(struct lexer *x);
/* Whole opcode with its dots and colons, starting at the current identifier token. */
void lex_opcode(struct lexer *x);
/* From an opening brace, the current token, to the token after its closing one; what lies between
 * may be anything.  False: it does not close. */
bool lex_skip_braces(struct lexer *x);
bool lex_is(const struct lexer *x, const char *s);
/* Next character that is not blank, without moving. */
char lex_peek(const struct lexer *x);

#endif
