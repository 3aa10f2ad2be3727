/* parse.c: PTX text to a module: directives and functions.  Statements are in parse_stmt.c, calls
 * in parse_call.c, declarations in decl.c, instructions in decode.c.
 *
 * The text is read twice: first everything of module level, with the place of each body; then the
 * bodies of the entries, so that a body may use what is declared after it.  An entry that cannot be
 * read is refused when it is launched, unless no entry can be read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void add_function(struct parser *p) {
    struct function **v = arena_alloc(p->mem, (p->mod->nfuncs + 1) * sizeof *v);
    if (p->mod->nfuncs)
        memcpy(v, p->mod->funcs, p->mod->nfuncs * sizeof *v);
    v[p->mod->nfuncs++] = p->fn;
    p->mod->funcs = v;
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
    f->local_bytes = (p->local_max + 15) & ~15u;
    f->static_smem = p->static_top;
    cfg_postdominators(f, p->mem);
    add_function(p);
}

static void start_function(struct parser *p) {
    p->fn = arena_alloc(p->mem, sizeof *p->fn);
    p->fn->mod = p->mod;
    p->fn->is_entry = true;
    p->fn->dyn_align = 16;
    p->reg_top = p->reg_max = RESERVED_REGS;
    p->ncode = p->nuses = p->nlocs = p->nvalues = p->nfixups = 0;
    p->const_top = 0;
    p->static_top = p->local_top = p->local_max = 0;
    p->tables = NULL;
    p->nreturns = 0;
    memset(p->const_bucket, 0, sizeof p->const_bucket);
    memset(&p->here, 0, sizeof p->here);
    free(p->shared_index);
    p->shared_index = NULL;
}

void skip_braces(struct parser *p) {
    if (!tok_is(p, "{") || p->x.kind != TK_PUNCT)
        parse_fail(p, "a brace is due");
    if (!lex_skip_braces(&p->x))
        parse_fail(p, "a block without end");
    if (p->x.error)
        parse_fail(p, "%s", p->x.error);
}

/* First reading: `(results) name (parameters) directives` and a body or a semicolon. */
static void note_func(struct parser *p) {
    struct text_func *t = func_header(p);
    if (tok_accept(p, ";"))
        return;
    if (t->defined)
        parse_fail(p, "function '%s' is defined twice", t->name);
    t->defined = true;
    t->at = p->x;
    skip_braces(p);
}

static struct text_func *func_of(struct parser *p, const char *name, bool defined) {
    for (u32 k = 0; k < p->nfuncs; k++)
        if (!p->func[k].entry && !strcmp(p->func[k].name, name) && p->func[k].defined >= defined)
            return &p->func[k];
    parse_fail(p, ".alias: no function '%s' is %s before it", name,
               defined ? "defined" : "declared");
}
/* `.alias name, function;`: the name has the function's body, with its names of the parameters. */
static void note_alias(struct parser *p) {
    struct text_func *t = func_of(p, tok_name(p), false);
    tok_expect(p, ",");
    const struct text_func *of = func_of(p, tok_name(p), true);
    tok_expect(p, ";");
    if (t->defined || t->nformals != of->nformals || t->nresults != of->nresults)
        parse_fail(p, ".alias: '%s' and '%s' do not go together", t->name, of->name);
    const char *name = t->name;
    *t = *of;
    t->name = name;
}

static void note_entry(struct parser *p) {
    struct lexer at = p->x;
    const char *name = tok_name(p);
    while (!tok_is(p, "{") && !tok_is(p, ";")) {
        if (p->x.kind == TK_END)
            parse_fail(p, "a function without end");
        tok_next(p);
    }
    if (!sym_find(p, name, strlen(name)))
        sym_declare(p, name, SYM_FUNC);
    if (tok_accept(p, ";"))
        return;
    p->func = parse_grow(p, p->func, p->nfuncs, &p->func_cap, sizeof *p->func);
    p->func[p->nfuncs++] = (struct text_func){.name = name, .at = at, .entry = true};
    skip_braces(p);
}

static void parse_entry(struct parser *p, struct text_func *t) {
    start_function(p);
    p->x = t->at;
    p->fn->name = tok_name(p);
    if (tok_is(p, "("))
        parse_params(p);
    parse_performance(p);
    p->scope = p->nsyms;
    parse_block(p, 0);
    finish_function(p);
}

/* A failure of one entry is kept with it. */
static bool try_entry(struct parser *p, struct text_func *t) {
    jmp_buf outer;
    const u32 mark = p->nsyms;
    memcpy(&outer, &p->fail, sizeof outer);
    volatile bool failed = true;
    if (!setjmp(p->fail)) {
        parse_entry(p, t);
        failed = false;
    }
    memcpy(&p->fail, &outer, sizeof outer);
    sym_pop(p, mark);
    p->depth = 0;
    p->call_depth = 0;
    for (u32 k = 0; k < p->nfuncs; k++)
        p->func[k].open = false;
    if (!failed)
        return true;
    struct function *f = p->fn;
    f->refused = arena_str(p->mem, p->err, strlen(p->err));
    f->ncode = 0;
    add_function(p);
    return false;
}

static void parse_entries(struct parser *p) {
    u32 good = 0, bad = 0;
    char first[600];
    for (u32 k = 0; k < p->nfuncs; k++) {
        if (!p->func[k].entry)
            continue;
        if (try_entry(p, &p->func[k]))
            good++;
        else if (!bad++)
            snprintf(first, sizeof first, "%s", p->err);
    }
    if (bad && !good) {
        snprintf(p->err, p->errlen, "%s", first);
        longjmp(p->fail, 1);
    }
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
    if (!(v >= 1 && v < 100))
        parse_fail(p, ".version is no version of PTX");
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
        note_entry(p);
    } else if (tok_accept(p, ".func")) {
        note_func(p);
    } else if (tok_is(p, ".loc")) {
        parse_loc(p);
    } else if (tok_accept(p, ".alias")) {
        note_alias(p);
    } else if (tok_accept(p, ".pragma")) {
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
    free(p->func);
    free(p->returns);
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
    parse_entries(p);
    parser_free(p);
    return m;
}

void module_free(struct module *m) {
    if (m)
        arena_free(m->mem);
}
