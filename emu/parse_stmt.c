/* parse_stmt.c: operands, statements and blocks of a body.
 *
 * A block that closes pops its names, after branches inside it have found their labels (a branch
 * that has not waits for the outer block).
 * SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200 };

/* --- Operands --- */

static struct opnd *opnd_array(struct parser *p, u32 n) {
    if (p->opnd_pool_used + n > sizeof p->opnd_pool / sizeof *p->opnd_pool)
        parse_fail(p, "too many operands");
    struct opnd *o = &p->opnd_pool[p->opnd_pool_used];
    memset(o, 0, n * sizeof *o);
    p->opnd_pool_used += n;
    return o;
}

static void parse_operand(struct parser *p, struct opnd *o, int depth);

static void parse_list(struct parser *p, struct opnd *o, const char *close, int depth) {
    struct opnd items[260];
    u32 n = 0;
    if (depth > 3)
        parse_fail(p, "operand nested too deeply");
    while (!tok_is(p, close)) {
        if (n == 260)
            parse_fail(p, "more than 260 elements in a list");
        memset(&items[n], 0, sizeof items[n]);
        parse_operand(p, &items[n++], depth + 1);
        if (!tok_accept(p, ","))
            break;
    }
    tok_expect(p, close);
    o->sub = opnd_array(p, n ? n : 1);
    memcpy(o->sub, items, n * sizeof *items);
    o->nsub = n;
}

static void reg_operand(struct parser *p, struct opnd *o, struct sym *s, const char *name,
                        size_t len) {
    u32 k = 0;
    if (s->kind == SYM_REGS)
        k = (u32)strtoul(name + strlen(s->name), NULL, 10);
    (void)len;
    o->kind = OP_REG;
    o->lane_bytes = s->lane_bytes;
    o->rtype = s->type;
    u32 each = s->lane_bytes ? s->lane_bytes * LANES : 4;
    if (s->vec > 1) { /* a vector register is the list of its elements */
        o->kind = OP_VEC;
        o->nsub = s->vec;
        o->sub = opnd_array(p, s->vec);
        for (u32 i = 0; i < s->vec; i++)
            o->sub[i] = (struct opnd){.kind = OP_REG,
                                      .lane_bytes = s->lane_bytes,
                                      .rtype = s->type,
                                      .r = REF(BANK_REG, s->reg + (k * s->vec + i) * each)};
        return;
    }
    o->r = REF(BANK_REG, s->reg + k * each);
}

static void part_operand(struct parser *p, struct opnd *o, const char *name) {
    static const char letters[] = "xyzwrgba";
    const char *k = strlen(name) == 1 ? strchr(letters, *name) : NULL;
    if (o->kind != OP_VEC) {
        o->part = name;
        return;
    }
    const u32 at = k ? (u32)(k - letters) % 4 : 4;
    if (at >= o->nsub)
        parse_fail(p, "a vector of %u has no element .%s", o->nsub, name);
    *o = o->sub[at];
}

static void name_operand(struct parser *p, struct opnd *o) {
    const char *start = p->x.start;
    size_t len = p->x.len;
    struct sym *s = parse_lookup(p, start, len);
    const char *dot = s ? NULL : memchr(start, '.', len);
    if (dot) /* part of a register: %r.b0, or %v.x of a vector */
        s = parse_lookup(p, start, (size_t)(dot - start));
    /* %tid.x is a special register also where %tid is declared */
    if (s && dot &&
        ((s->kind != SYM_REG && s->kind != SYM_REGS) ||
         (s->vec < 2 && len == (size_t)(dot - start) + 2)))
        s = NULL;
    if (len == 1 && *start == '_' && !s) {
        o->kind = OP_SINK;
        tok_next(p);
        return;
    }
    o->name = arena_str(p->mem, start, len);
    tok_next(p);
    if (!s) {
        o->kind = o->name[0] == '%' ? OP_SPECIAL : OP_LABEL;
        return;
    }
    if (s->kind == SYM_REG || s->kind == SYM_REGS) {
        reg_operand(p, o, s, start, dot ? (size_t)(dot - start) : len);
        if (dot)
            part_operand(p, o, arena_str(p->mem, dot + 1, (size_t)(start + len - dot - 1)));
    } else if (s->kind == SYM_LABEL) {
        o->kind = OP_LABEL;
    } else {
        o->kind = OP_SYM;
        o->sym = s;
    }
}

static void parse_operand(struct parser *p, struct opnd *o, int depth) {
    if (tok_accept(p, "{")) {
        o->kind = OP_VEC;
        parse_list(p, o, "}", depth);
        return;
    }
    if (tok_accept(p, "[")) {
        o->kind = OP_MEM;
        parse_list(p, o, "]", depth);
        return;
    }
    if (tok_is(p, "(") && lex_peek(&p->x) != '-' &&
        !(lex_peek(&p->x) >= '0' && lex_peek(&p->x) <= '9') && lex_peek(&p->x) != '(' &&
        lex_peek(&p->x) != '~') {
        tok_next(p);
        o->kind = OP_VEC;
        parse_list(p, o, ")", depth);
        return;
    }
    if (tok_is(p, "!") || (tok_is(p, "-") && lex_peek(&p->x) == '%')) {
        tok_next(p);
        parse_operand(p, o, depth);
        o->negated = !o->negated;
        return;
    }
    if (p->x.kind == TK_FLOAT || (tok_is(p, "-") && p->x.kind == TK_PUNCT)) {
        struct lexer save = p->x;
        bool neg = tok_is(p, "-") && p->x.kind == TK_PUNCT;
        if (neg)
            tok_next(p);
        if (p->x.kind == TK_FLOAT) {
            o->kind = OP_FLOAT;
            o->f = neg ? -p->x.f : p->x.f;
            o->integer = (s64)p->x.integer ^ (neg && p->x.float_bits == 32 ? 0x80000000ll : 0);
            o->is_f32 = p->x.float_bits == 32;
            tok_next(p);
            return;
        }
        p->x = save;
    }
    if (p->x.kind == TK_IDENT && !tok_is(p, "WARP_SZ")) {
        name_operand(p, o);
        if (p->x.kind == TK_PUNCT && (tok_is(p, "+") || tok_is(p, "-")))
            o->integer = parse_constant(p, 5);
    } else {
        o->kind = OP_INT;
        o->integer = parse_constant(p, 0);
    }
    if (p->x.kind == TK_PUNCT && tok_is(p, "|")) {
        tok_next(p);
        o->pair = opnd_array(p, 1);
        parse_operand(p, o->pair, depth + 1);
    }
}

/* --- Statements --- */

/* Branches of this block and of blocks inside it take the labels of this block. */
static void resolve_labels(struct parser *p, u32 mark, u32 first_fixup, bool outermost) {
    u32 kept = first_fixup;
    for (u32 i = first_fixup; i < p->nfixups; i++) {
        struct fixup *f = &p->fixups[i];
        struct sym *s = sym_find(p, f->name, strlen(f->name));
        if (s && s->kind == SYM_LABEL && (u32)(s - p->syms) >= mark) {
            if (f->slot)
                *f->slot = s->reg;
            else
                p->code[f->insn].target = s->reg;
        } else if (outermost) {
            p->x.tok_line = f->line;
            parse_fail(p, "label '%s' is not defined here", f->name);
        } else {
            p->fixups[kept++] = *f;
        }
    }
    p->nfixups = kept;
}

void parse_loc(struct parser *p) {
    tok_next(p);
    struct loc *h = &p->here;
    h->file = (u16)p->x.integer;
    if (p->x.kind != TK_INT)
        parse_fail(p, ".loc needs a file number");
    tok_next(p);
    h->line = (u32)p->x.integer;
    tok_next(p);
    tok_next(p); /* column */
    h->inlined_file = 0;
    h->inlined_line = 0;
    while (tok_accept(p, ",")) {
        if (tok_accept(p, "function_name")) {
            tok_next(p);
            if (p->x.kind == TK_PUNCT && tok_is(p, "+")) {
                tok_next(p);
                tok_next(p);
            }
        } else if (tok_accept(p, "inlined_at")) {
            h->inlined_file = (u16)p->x.integer;
            tok_next(p);
            h->inlined_line = (u32)p->x.integer;
            tok_next(p);
            tok_next(p);
        }
    }
}

static ref parse_guard(struct parser *p) {
    bool neg = tok_accept(p, "!");
    struct opnd o = {0};
    parse_operand(p, &o, 0);
    if (o.kind != OP_REG || o.lane_bytes)
        parse_fail(p, "a guard must be a predicate register");
    return o.r | (neg ? REF_NEG : 0);
}

static void parse_instruction(struct parser *p) {
    struct opnd ops[MAX_OPS];
    u32 nops = 0;
    ref guard = REF_NONE;
    p->opnd_pool_used = 0;
    if (tok_accept(p, "@"))
        guard = parse_guard(p);
    if (p->x.kind != TK_IDENT)
        parse_fail(p, "expected an instruction before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    lex_opcode(&p->x);
    const char *opcode = p->x.start;
    u32 len = p->x.len, line = p->x.tok_line;
    p->here.ptx = line;
    tok_next(p);
    while (!tok_is(p, ";")) {
        if (nops == MAX_OPS || p->x.kind == TK_END)
            parse_fail(p, "an instruction without end");
        memset(&ops[nops], 0, sizeof ops[nops]);
        parse_operand(p, &ops[nops++], 0);
        if (!tok_accept(p, ","))
            break;
    }
    if (!tok_is(p, ";"))
        parse_fail(p, "expected ';' before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    p->x.tok_line = line;
    if (!call_expand(p, opcode, len, guard, ops, nops))
        decode_statement(p, opcode, len, guard, ops, nops);
    tok_next(p);
}

static void parse_label(struct parser *p) {
    const char *name = tok_name(p);
    tok_expect(p, ":");
    struct sym *old = sym_find(p, name, strlen(name));
    if (old && old->kind == SYM_LABEL && (u32)(old - p->syms) >= p->scope)
        parse_fail(p, "label '%s' is defined twice in a block", name);
    struct sym *s = sym_declare(p, name, SYM_LABEL);
    s->reg = p->ncode;
    p->fn->nlabels++;
}

static bool at_label(struct parser *p) {
    if (p->x.kind != TK_IDENT)
        return false;
    const char *q = p->x.p;
    while (q < p->x.end && (*q == ' ' || *q == '\t'))
        q++;
    return q < p->x.end && *q == ':' && (q + 1 >= p->x.end || q[1] != ':');
}

/* `name: .branchtargets a, b;` after the label. */
static void branch_targets(struct parser *p) {
    struct sym *label = p->nsyms ? &p->syms[p->nsyms - 1] : NULL;
    if (!label || label->kind != SYM_LABEL)
        parse_fail(p, ".branchtargets needs a label");
    struct table *t = arena_alloc(p->mem, sizeof *t);
    u32 cap = 0;
    *t = (struct table){.name = label->name, .next = p->tables};
    do {
        if (t->n == cap) {
            const char **more = arena_alloc(p->mem, (cap * 2 + 16) * sizeof *more);
            if (t->n)
                memcpy(more, t->label, t->n * sizeof *more);
            t->label = more;
            cap = cap * 2 + 16;
        }
        t->label[t->n++] = tok_name(p);
    } while (tok_accept(p, ","));
    tok_expect(p, ";");
    p->tables = t;
}

static void parse_statement(struct parser *p, int depth) {
    if (tok_is(p, "{") && p->x.kind == TK_PUNCT) {
        parse_block(p, depth + 1);
    } else if (at_label(p)) {
        parse_label(p);
    } else if (p->x.kind != TK_DIRECTIVE) {
        if (tok_accept(p, ";"))
            return;
        parse_instruction(p);
    } else if (tok_is(p, ".reg")) {
        declare_regs(p);
    } else if (tok_is(p, ".loc")) {
        parse_loc(p);
    } else if (tok_accept(p, ".branchtargets")) {
        branch_targets(p);
    } else if (tok_accept(p, ".pragma") || tok_accept(p, ".callprototype") ||
               tok_accept(p, ".calltargets")) {
        while (!tok_accept(p, ";")) {
            if (p->x.kind == TK_END)
                parse_fail(p, "a directive without end");
            tok_next(p);
        }
    } else if (tok_accept(p, ".shared")) {
        declare_shared(p, false);
    } else if (tok_is(p, ".extern")) {
        tok_next(p);
        tok_expect(p, ".shared");
        declare_shared(p, true);
    } else if (tok_accept(p, ".local")) {
        declare_local(p);
    } else if (tok_accept(p, ".param")) {
        declare_call_param(p);
    } else if (tok_accept(p, ".global")) {
        declare_global(p, false, false);
    } else if (tok_accept(p, ".const")) {
        declare_global(p, true, false);
    } else {
        parse_fail(p, "directive '%.*s' is not supported in a function", (int)p->x.len, p->x.start);
    }
}

void parse_block(struct parser *p, int depth) {
    if (depth > MAX_DEPTH)
        parse_fail(p, "blocks nested too deeply");
    tok_expect(p, "{");
    u32 mark = p->nsyms, first = p->nfixups, regs = p->reg_top, scope = p->scope;
    p->scope = mark;
    while (!tok_is(p, "}")) {
        if (p->x.kind == TK_END)
            parse_fail(p, "a block without end");
        parse_statement(p, depth);
    }
    resolve_labels(p, mark, first, depth == 0);
    sym_pop(p, mark);
    p->scope = scope;
    p->reg_top = regs;
    tok_next(p);
}
