/* parse.c: PTX text to a module: blocks, statements, functions, directives.
 *
 * A block that closes pops its names, after branches inside it have found their labels (a branch
 * that has not waits for the outer block).  Declarations are in decl.c, instructions in decode.c.
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

static void name_operand(struct parser *p, struct opnd *o) {
    const char *start = p->x.start;
    size_t len = p->x.len;
    struct sym *s = parse_lookup(p, start, len);
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
        reg_operand(p, o, s, start, len);
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

static void parse_loc(struct parser *p) {
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

static void parse_block(struct parser *p, int depth);

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
    } else if (tok_accept(p, ".pragma")) {
        while (!tok_accept(p, ";")) {
            if (p->x.kind == TK_END)
                parse_fail(p, ".pragma without end");
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

static void parse_block(struct parser *p, int depth) {
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

/* --- Functions --- */

static void parse_params(struct parser *p) {
    struct function *f = p->fn;
    u32 cap = 0;
    struct param *v = NULL;
    tok_expect(p, "(");
    while (!tok_is(p, ")")) {
        if (!tok_accept(p, ".param") && !tok_is(p, ".reg"))
            parse_fail(p, "expected .param");
        tok_accept(p, ".reg");
        struct var q = parse_variable(p);
        u64 off = (f->param_bytes + q.align - 1) & ~(q.align - 1);
        if (off + q.bytes > 32764)
            parse_fail(p, "more than 32764 bytes of parameters");
        if (f->nparams == cap) {
            struct param *more = arena_alloc(p->mem, (cap * 2 + 16) * sizeof *more);
            if (v)
                memcpy(more, v, cap * sizeof *v);
            v = more;
            cap = cap * 2 + 16;
        }
        v[f->nparams++] = (struct param){q.name, (u32)off, (u32)q.bytes, (u32)q.align};
        f->param_bytes = (u32)(off + q.bytes);
        struct sym *s = sym_declare(p, q.name, SYM_PARAM);
        s->addr = off;
        s->bytes = q.bytes;
        if (!tok_accept(p, ","))
            break;
    }
    tok_expect(p, ")");
    f->params = arena_alloc(p->mem, (f->nparams + 1) * sizeof *v);
    if (v)
        memcpy(f->params, v, f->nparams * sizeof *v);
}

static void numbers(struct parser *p, u32 *out, u32 n) {
    for (u32 i = 0; i < n; i++) {
        if (p->x.kind != TK_INT)
            parse_fail(p, "expected a number");
        out[i] = (u32)p->x.integer;
        tok_next(p);
        if (i + 1 < n && !tok_accept(p, ","))
            break;
    }
}

static void parse_performance(struct parser *p) {
    struct function *f = p->fn;
    while (p->x.kind == TK_DIRECTIVE) {
        u32 skip[3];
        if (tok_accept(p, ".maxntid"))
            numbers(p, f->max_ntid, 3);
        else if (tok_accept(p, ".reqntid"))
            numbers(p, f->req_ntid, 3);
        else if (tok_accept(p, ".minnctapersm"))
            numbers(p, &f->min_ctas, 1);
        else if (tok_accept(p, ".maxnctapersm") || tok_accept(p, ".maxclusterrank"))
            numbers(p, skip, 1);
        else if (tok_accept(p, ".maxnreg"))
            numbers(p, &f->max_nreg, 1);
        else if (tok_accept(p, ".reqnctapercluster"))
            numbers(p, f->req_cluster, 3);
        else if (tok_accept(p, ".explicitcluster") || tok_accept(p, ".blocksareclusters") ||
                 tok_accept(p, ".noreturn"))
            ;
        else if (tok_accept(p, ".pragma")) {
            tok_next(p);
            tok_expect(p, ";");
        } else {
            parse_fail(p, "directive '%.*s' is not supported here", (int)p->x.len, p->x.start);
        }
    }
    for (u32 i = 1; i < 3; i++) {
        if (f->req_ntid[0] && !f->req_ntid[i])
            f->req_ntid[i] = 1;
        if (f->req_cluster[0] && !f->req_cluster[i])
            f->req_cluster[i] = 1;
    }
}

static void keep(struct parser *p, void **to, const void *from, size_t bytes) {
    *to = arena_alloc(p->mem, bytes ? bytes : 1);
    if (bytes && from) /* nothing kept yet: the arena is zero */
        memcpy(*to, from, bytes);
}

static void finish_function(struct parser *p) {
    struct function *f = p->fn;
    /* a body may end without ret */
    decode_statement(p, "exit", 4, REF_NONE, NULL, 0);
    keep(p, (void **)&f->code, p->code, p->ncode * sizeof *p->code);
    keep(p, (void **)&f->texts, p->texts, p->ncode * sizeof *p->texts);
    keep(p, (void **)&f->uses, p->uses, (p->nuses + 1) * sizeof *p->uses);
    keep(p, (void **)&f->locs, p->locs, p->nlocs * sizeof *p->locs);
    keep(p, (void **)&f->values, p->values, p->nvalues * sizeof *p->values);
    f->ncode = p->ncode;
    f->nuses = p->nuses;
    f->nlocs = p->nlocs;
    f->nvalues = p->nvalues;
    f->const_bytes = p->const_top;
    f->consts = arena_alloc(p->mem, (size_t)p->const_top + 64);
    f->consts += (64 - ((uintptr_t)f->consts & 63)) & 63;
    if (p->const_top)
        memcpy(f->consts, p->consts, p->const_top);
    f->reg_bytes = (p->reg_max + 127) & ~127u;
    f->local_bytes = (p->local_top + 15) & ~15u;
    f->static_smem = p->static_top;
    cfg_postdominators(f, p->mem);
    struct function **v = arena_alloc(p->mem, (p->mod->nfuncs + 1) * sizeof *v);
    if (p->mod->nfuncs)
        memcpy(v, p->mod->funcs, p->mod->nfuncs * sizeof *v);
    v[p->mod->nfuncs++] = f;
    p->mod->funcs = v;
}

static void start_function(struct parser *p, bool entry) {
    p->fn = arena_alloc(p->mem, sizeof *p->fn);
    p->fn->mod = p->mod;
    p->fn->is_entry = entry;
    p->fn->dyn_align = 16;
    p->reg_top = p->reg_max = RESERVED_REGS;
    p->ncode = p->nuses = p->nlocs = p->nvalues = p->nfixups = 0;
    p->const_top = 0;
    p->static_top = p->local_top = 0;
    memset(p->const_bucket, 0, sizeof p->const_bucket);
    memset(&p->here, 0, sizeof p->here);
    free(p->shared_index);
    p->shared_index = NULL;
}

static void skip_braces(struct parser *p) {
    u32 depth = 0;
    do {
        if (tok_is(p, "{") && p->x.kind == TK_PUNCT)
            depth++;
        if (tok_is(p, "}") && p->x.kind == TK_PUNCT)
            depth--;
        if (p->x.kind == TK_END)
            parse_fail(p, "a section without end");
        /* sections hold `.b8 1` and the like, and labels: any token is skipped */
        tok_next(p);
    } while (depth);
}

static void parse_function(struct parser *p, bool entry) {
    u32 mark = p->nsyms;
    start_function(p, entry);
    if (!entry && tok_is(p, "(")) { /* return values */
        while (!tok_accept(p, ")")) {
            if (p->x.kind == TK_END)
                parse_fail(p, "a function without end");
            tok_next(p);
        }
    }
    const char *name = tok_name(p);
    p->fn->name = name;
    if (!sym_find(p, name, strlen(name))) {
        sym_declare(p, name, SYM_FUNC);
        mark = p->nsyms;
    }
    if (tok_is(p, "("))
        parse_params(p);
    parse_performance(p);
    if (tok_accept(p, ";")) {
        sym_pop(p, mark);
        return;
    }
    if (!entry) { /* a device function: kept as a name; calling it is an error of the call */
        skip_braces(p);
        sym_pop(p, mark);
        return;
    }
    p->scope = p->nsyms;
    parse_block(p, 0);
    finish_function(p);
    sym_pop(p, mark);
}

/* --- Module --- */

static void parse_file(struct parser *p) {
    u64 k = p->x.integer;
    if (p->x.kind != TK_INT || k > 65534)
        parse_fail(p, ".file needs a number");
    tok_next(p);
    if (p->x.kind != TK_STRING)
        parse_fail(p, ".file needs a name");
    if (k >= p->mod->nfiles) {
        u32 n = (u32)k + 1;
        const char **v = arena_alloc(p->mem, n * sizeof *v);
        if (p->mod->nfiles)
            memcpy(v, p->mod->files, p->mod->nfiles * sizeof *v);
        p->mod->files = v;
        p->mod->nfiles = n;
    }
    p->mod->files[k] = arena_str(p->mem, p->x.start, p->x.len);
    tok_next(p);
    while (tok_accept(p, ","))
        tok_next(p);
}

static void parse_version(struct parser *p) {
    if (p->x.kind != TK_FLOAT && p->x.kind != TK_INT)
        parse_fail(p, ".version needs a number");
    double v = p->x.kind == TK_FLOAT ? p->x.f : (double)p->x.integer;
    p->mod->version = (int)(v * 10 + 0.5);
    tok_next(p);
}

static void parse_directive(struct parser *p) {
    bool is_extern = false;
    while (tok_is(p, ".visible") || tok_is(p, ".extern") || tok_is(p, ".weak") ||
           tok_is(p, ".common")) {
        is_extern |= tok_is(p, ".extern");
        tok_next(p);
    }
    if (tok_accept(p, ".version")) {
        parse_version(p);
    } else if (tok_accept(p, ".target")) {
        snprintf(p->mod->target, sizeof p->mod->target, "%.*s", (int)p->x.len, p->x.start);
        tok_next(p);
        while (tok_accept(p, ","))
            tok_next(p);
    } else if (tok_accept(p, ".address_size")) {
        if (p->x.integer != 64)
            parse_fail(p, "only .address_size 64 is supported");
        tok_next(p);
    } else if (tok_accept(p, ".file")) {
        parse_file(p);
    } else if (tok_accept(p, ".section")) {
        tok_next(p);
        skip_braces(p);
    } else if (tok_accept(p, ".global")) {
        declare_global(p, false, is_extern);
    } else if (tok_accept(p, ".const")) {
        declare_global(p, true, is_extern);
    } else if (tok_accept(p, ".shared")) {
        declare_shared(p, is_extern);
    } else if (tok_accept(p, ".entry")) {
        parse_function(p, true);
    } else if (tok_accept(p, ".func")) {
        parse_function(p, false);
    } else if (tok_is(p, ".loc")) {
        parse_loc(p);
    } else if (tok_accept(p, ".pragma") || tok_accept(p, ".alias")) {
        while (!tok_accept(p, ";")) {
            if (p->x.kind == TK_END)
                parse_fail(p, "a directive without end");
            tok_next(p);
        }
    } else {
        parse_fail(p, "'%.*s' is not supported at module level",
                   (int)(p->x.len > 40 ? 40 : p->x.len), p->x.kind == TK_END ? "" : p->x.start);
    }
}

static void parser_free(struct parser *p) {
    free(p->syms);
    free(p->shared);
    free(p->code);
    free(p->texts);
    free(p->uses);
    free(p->locs);
    free(p->consts);
    free(p->const_next);
    free(p->values);
    free(p->fixups);
    free(p->shared_index);
    free(p);
}

struct module *ptx_parse(const char *text, size_t len, const char *name,
                         u64 (*alloc_global)(void *, size_t, size_t, bool), void *ctx, char *err,
                         size_t errlen) {
    struct parser *p = calloc(1, sizeof *p);
    struct arena *mem = arena_new();
    if (!p || !mem) {
        free(p);
        snprintf(err, errlen, "out of memory");
        return NULL;
    }
    const char *nul = memchr(text, 0, len);
    p->mem = mem;
    p->mod = arena_alloc(mem, sizeof *p->mod);
    p->mod->mem = mem;
    p->mod->len = nul ? (size_t)(nul - text) : len;
    p->mod->text = arena_str(mem, text, p->mod->len);
    p->mod->name = arena_str(mem, name, strlen(name));
    p->alloc_global = alloc_global;
    p->ctx = ctx;
    p->err = err;
    p->errlen = errlen;
    p->x = (struct lexer){.p = p->mod->text, .end = p->mod->text + p->mod->len, .line = 1};
    struct module *m = p->mod;
    if (setjmp(p->fail)) {
        parser_free(p);
        module_free(m);
        return NULL;
    }
    tok_next(p);
    while (p->x.kind != TK_END)
        parse_directive(p);
    parser_free(p);
    return m;
}

void module_free(struct module *m) {
    if (m)
        arena_free(m->mem);
}
