/* parse_call.c: calls of device functions (PTX ISA, call; Kernel and Function Directives).
 *
 * A call is expanded: the body of the .func is read again in the place of the call, its parameters
 * being other names of the arguments, its ret a branch to the end.  So a call needs no stack, and
 * divergence and checks see one body.  A call through a register becomes a choice between all
 * functions whose parameters have those sizes.  A function that calls itself is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include "machine.h"
#include <stdio.h>
#include <string.h>

enum { MAX_CALLS = 64, MAX_FORMALS = 128 };

/* --- Headers --- */

static void formals(struct parser *p, struct formal *v, u32 *n) {
    tok_expect(p, "(");
    while (!tok_is(p, ")")) {
        if (*n == MAX_FORMALS)
            parse_fail(p, "more than %d parameters", MAX_FORMALS);
        struct formal *f = &v[(*n)++];
        f->reg = tok_is(p, ".reg");
        if (!tok_accept(p, ".reg"))
            tok_expect(p, ".param");
        struct var q = parse_variable(p);
        f->name = q.name;
        f->type = (u8)q.t;
        f->bytes = (u32)q.bytes;
        f->align = (u32)q.align;
        if (q.bytes > 65536)
            parse_fail(p, "parameter '%s' is too large", q.name);
        if (!tok_accept(p, ","))
            break;
    }
    tok_expect(p, ")");
}

struct text_func *func_header(struct parser *p) {
    struct formal v[MAX_FORMALS] = {{0}};
    u32 results = 0, n = 0;
    while (tok_accept(p, ".attribute"))
        while (!tok_accept(p, ")"))
            if (p->x.kind == TK_END)
                parse_fail(p, "a function without end");
            else
                tok_next(p);
    if (tok_is(p, "("))
        formals(p, v, &results);
    n = results;
    const char *name = tok_name(p);
    if (tok_is(p, "("))
        formals(p, v, &n);
    while (!tok_is(p, "{") && !tok_is(p, ";")) {
        if (p->x.kind == TK_END)
            parse_fail(p, "a function without end");
        tok_next(p); /* performance directives say nothing about what it computes */
    }
    u32 k = 0;
    while (k < p->nfuncs && (p->func[k].entry || strcmp(p->func[k].name, name)))
        k++;
    if (k == p->nfuncs) {
        p->func = parse_grow(p, p->func, p->nfuncs, &p->func_cap, sizeof *p->func);
        p->func[p->nfuncs++] = (struct text_func){.name = name};
        struct sym *s = sym_find(p, name, strlen(name));
        if (!s)
            s = sym_declare(p, name, SYM_FUNC);
        s->addr = WIN_FUNC + 16 * (k + 1);
    }
    struct text_func *t = &p->func[k];
    if (t->defined)
        return t;
    t->formal = arena_alloc(p->mem, (n + 1) * sizeof *v);
    memcpy(t->formal, v, n * sizeof *v);
    t->nresults = results;
    t->nformals = n;
    return t;
}

/* --- Statements made here --- */

static struct opnd reg_opnd(const struct sym *s) {
    return (struct opnd){
        .kind = OP_REG, .lane_bytes = s->lane_bytes, .rtype = s->type, .r = REF(BANK_REG, s->reg)};
}

static void emit(struct parser *p, const char *what, enum type t, ref guard, struct opnd *ops,
                 u32 n) {
    char text[64];
    int len = snprintf(text, sizeof text, t ? "%s.%s" : "%s", what, t ? type_name(t) : "");
    decode_statement(p, text, (u32)len, guard, ops, n);
}

/* A branch whose target is set later: its number. */
static u32 emit_branch(struct parser *p, ref guard) {
    struct opnd to = {.kind = OP_LABEL, .name = "end of call"};
    emit(p, "bra", T_NONE, guard, &to, 1);
    p->nfixups--;
    return p->ncode - 1;
}

static struct sym *new_area(struct parser *p, const char *name, u32 bytes) {
    struct sym *s = sym_declare(p, name, SYM_CALL);
    p->reg_top = (p->reg_top + 63) & ~63u;
    s->reg = p->reg_top;
    s->bytes = (bytes + 15) & ~15u;
    p->reg_top += (u32)s->bytes * LANES;
    if (p->reg_top > p->reg_max)
        p->reg_max = p->reg_top;
    return s;
}

static struct sym *new_reg(struct parser *p, const char *name, enum type t) {
    u32 lane = t == T_PRED ? 0 : type_bytes(t) <= 4 ? 4u : (u32)type_bytes(t);
    p->reg_top = (p->reg_top + 63) & ~63u;
    struct sym *s = sym_declare(p, name, SYM_REG);
    s->type = (u8)t;
    s->lane_bytes = (u8)lane;
    s->count = s->vec = 1;
    s->reg = p->reg_top;
    p->reg_top += lane ? lane * LANES : 4;
    if (p->reg_top > p->reg_max)
        p->reg_max = p->reg_top;
    return s;
}

/* A type without sign of the same width, for copies. */
static enum type bits_of(enum type t) {
    switch (type_bytes(t)) {
    case 1:
        return T_B8;
    case 2:
        return T_B16;
    case 8:
        return T_B64;
    case 16:
        return T_B128;
    default:
        return t == T_PRED ? T_PRED : T_B32;
    }
}

/* --- One expansion --- */

struct call {
    ref guard;
    struct opnd actual[MAX_FORMALS]; /* results, then arguments */
    u32 nresults, n;
};

static bool is_area(const struct opnd *o) {
    return o->kind == OP_SYM && o->sym->kind == SYM_CALL;
}

static void copy_param(struct parser *p, const struct formal *f, struct sym *s, struct opnd *reg,
                       bool store) {
    struct opnd part = {.kind = OP_SYM, .sym = s}, mem = {.kind = OP_MEM, .sub = &part, .nsub = 1};
    struct opnd ops[2] = {store ? mem : *reg, store ? *reg : mem};
    emit(p, store ? "st.param" : "ld.param", bits_of((enum type)f->type), REF_NONE, ops, 2);
}

/* Gives the formal its name; a result's copy back is made by unbind. */
static void bind(struct parser *p, const struct formal *f, struct opnd *a, bool result) {
    if (f->reg) {
        if (is_area(a))
            parse_fail(p, "parameter '%s' is a register, the argument is not", f->name);
        struct opnd ops[2] = {reg_opnd(new_reg(p, f->name, (enum type)f->type)), *a};
        if (!result)
            emit(p, "mov", bits_of((enum type)f->type), REF_NONE, ops, 2);
        return;
    }
    if (is_area(a)) {
        const u32 reg = a->sym->reg;
        const u64 bytes = a->sym->bytes;
        if (bytes < f->bytes)
            parse_fail(p, "parameter '%s' has %u bytes, the argument fewer", f->name, f->bytes);
        struct sym *s = sym_declare(p, f->name, SYM_CALL);
        s->reg = reg;
        s->bytes = bytes;
        return;
    }
    if (f->bytes > 8)
        parse_fail(p, "parameter '%s' needs a .param argument", f->name);
    struct sym *s = new_area(p, f->name, f->bytes);
    if (!result)
        copy_param(p, f, s, a, true);
}

static void unbind(struct parser *p, const struct formal *f, struct opnd *a) {
    if (is_area(a) || a->kind == OP_SINK)
        return;
    struct sym *s = sym_find(p, f->name, strlen(f->name));
    if (!f->reg) {
        copy_param(p, f, s, a, false);
        return;
    }
    struct opnd ops[2] = {*a, reg_opnd(s)};
    emit(p, "mov", bits_of((enum type)f->type), REF_NONE, ops, 2);
}

static void expand(struct parser *p, u32 index, struct call *c) {
    struct text_func *t = &p->func[index];
    if (t->open)
        parse_fail(p, "'%s' calls itself: recursion is not supported", t->name);
    if (c->nresults != t->nresults || c->n != t->nformals)
        parse_fail(p, "'%s' has %u results and %u parameters, the call %u and %u", t->name,
                   t->nresults, t->nformals - t->nresults, c->nresults, c->n - c->nresults);
    if (p->call_depth == MAX_CALLS)
        parse_fail(p, "calls nested more than %d deep", MAX_CALLS);
    if (p->ncode > MAX_CODE)
        parse_fail(p, "more than %d instructions after calls are expanded", MAX_CODE);
    const struct lexer back = p->x;
    const struct loc here = p->here;
    const u32 mark = p->nsyms, regs = p->reg_top, first = p->nreturns, local = p->local_top,
              scope = p->scope;
    t->open = true;
    p->call_depth++;
    for (u32 k = 0; k < c->n; k++)
        bind(p, &t->formal[k], &c->actual[k], k < c->nresults);
    p->x = t->at;
    p->scope = p->nsyms;
    parse_block(p, 0);
    t = &p->func[index];
    for (u32 k = first; k < p->nreturns; k++)
        p->code[p->returns[k]].target = p->ncode;
    p->nreturns = first;
    p->here = here;
    for (u32 k = 0; k < c->nresults; k++)
        unbind(p, &t->formal[k], &c->actual[k]);
    sym_pop(p, mark);
    p->x = back;
    p->reg_top = regs;
    p->local_top = local;
    p->scope = scope;
    p->call_depth--;
    t->open = false;
}

/* --- Calls --- */

static bool fits(const struct text_func *t, const struct call *c) {
    if (t->entry || !t->defined || t->open || t->nresults != c->nresults || t->nformals != c->n)
        return false;
    for (u32 k = 0; k < c->n; k++) {
        const struct opnd *a = &c->actual[k];
        if (t->formal[k].reg == is_area(a) ||
            (is_area(a) && ((t->formal[k].bytes + 15) & ~15u) != a->sym->bytes))
            return false;
    }
    return true;
}

/* Compares the address with every function that the call may mean. */
static void expand_choice(struct parser *p, const struct opnd *address, struct call *c) {
    u32 ends[256], n = 0;
    const u32 mark = p->nsyms, regs = p->reg_top;
    struct sym *differs = new_reg(p, "call target differs", T_PRED);
    const ref other = REF(BANK_REG, differs->reg);
    for (u32 k = 0; k < p->nfuncs; k++) {
        if (!fits(&p->func[k], c))
            continue;
        if (n == 256)
            parse_fail(p, "a call of more than 256 possible functions");
        struct opnd ops[3] = {{.kind = OP_REG, .rtype = T_PRED, .r = other},
                              *address,
                              {.kind = OP_INT, .integer = (s64)(WIN_FUNC + 16 * (k + 1))}};
        emit(p, "setp.ne", T_B64, REF_NONE, ops, 3);
        u32 next = emit_branch(p, other);
        expand(p, k, c);
        ends[n++] = emit_branch(p, REF_NONE);
        p->code[next].target = p->ncode;
    }
    emit(p, "trap", T_NONE, REF_NONE, NULL, 0); /* the address of no such function */
    for (u32 k = 0; k < n; k++)
        p->code[ends[k]].target = p->ncode;
    sym_pop(p, mark);
    p->reg_top = regs;
}

static void keep_actuals(struct parser *p, struct call *c, const struct opnd *list) {
    if (list->kind != OP_VEC)
        parse_fail(p, "the arguments of a call stand in parentheses");
    for (u32 k = 0; k < list->nsub; k++) {
        if (c->n == MAX_FORMALS)
            parse_fail(p, "more than %d arguments", MAX_FORMALS);
        struct opnd *a = &c->actual[c->n++];
        *a = list->sub[k];
        if (is_area(a)) { /* the table of names moves when it grows */
            struct sym *s = arena_alloc(p->mem, sizeof *s);
            *s = *a->sym;
            a->sym = s;
        }
    }
}

static bool find_func(struct parser *p, const char *name, u32 *index) {
    for (u32 k = 0; k < p->nfuncs; k++)
        if (!p->func[k].entry && p->func[k].defined && !strcmp(p->func[k].name, name)) {
            *index = k;
            return true;
        }
    return false;
}

static void expand_call(struct parser *p, ref guard, struct opnd *ops, u32 nops) {
    struct call c = {.guard = guard};
    u32 at = 0, index = 0, skip = 0;
    if (ops[0].kind == OP_VEC) {
        keep_actuals(p, &c, &ops[0]);
        at = 1;
    }
    c.nresults = c.n;
    const struct opnd target = ops[at++];
    if (at < nops && ops[at].kind == OP_VEC)
        keep_actuals(p, &c, &ops[at]);
    const bool direct = target.kind != OP_REG;
    if (direct && !find_func(p, target.name, &index))
        return;
    if (guard != REF_NONE)
        skip = emit_branch(p, guard ^ REF_NEG);
    if (direct)
        expand(p, index, &c);
    else
        expand_choice(p, &target, &c);
    if (guard != REF_NONE)
        p->code[skip].target = p->ncode;
}

bool call_expand(struct parser *p, const char *opcode, u32 len, ref guard, struct opnd *ops,
                 u32 nops) {
    u32 index;
    if (p->call_depth && len >= 3 && !memcmp(opcode, "ret", 3) && (len == 3 || opcode[3] == '.') &&
        !nops) {
        u32 at = emit_branch(p, guard);
        p->returns = parse_grow(p, p->returns, p->nreturns, &p->returns_cap, sizeof *p->returns);
        p->returns[p->nreturns++] = at;
        return true;
    }
    if (len < 4 || memcmp(opcode, "call", 4) || (len > 4 && opcode[4] != '.') || !nops)
        return false;
    const struct opnd *target = ops[0].kind == OP_VEC ? nops > 1 ? &ops[1] : NULL : &ops[0];
    if (!target ||
        (target->kind != OP_REG && (!target->name || !find_func(p, target->name, &index))))
        return false;
    expand_call(p, guard, ops, nops);
    return true;
}
