/* parse.c: PTX text to a module: directives, declarations, blocks and statements.
 *
 * Names live in blocks: inline assembly opens `{ }`, declares registers and labels whose names are
 * used again in the next block.  The symbol table is a stack; a closing block pops its names, after
 * branches inside it have found their labels (a branch that has not waits for the outer block).
 * Decoding of the instruction itself is in decode.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCTION_REGS_BYTES = 64 << 20, MAX_VAR_BYTES = 1 << 30, MAX_DEPTH = 200 };

void parse_fail(struct parser *p, const char *fmt, ...) {
    va_list ap;
    int n = snprintf(p->err, p->errlen, "%s: line %u: ", p->mod->name, p->x.tok_line);
    va_start(ap, fmt);
    if (n > 0 && (size_t)n < p->errlen)
        vsnprintf(p->err + n, p->errlen - (size_t)n, fmt, ap);
    va_end(ap);
    longjmp(p->fail, 1);
}

void *parse_grow(struct parser *p, void *v, u32 n, u32 *cap, size_t size) {
    if (n < *cap)
        return v;
    u32 more = *cap ? *cap * 2 : 64;
    void *q = realloc(v, more * size);
    if (!q)
        parse_fail(p, "out of memory");
    memset((u8 *)q + *cap * size, 0, (more - *cap) * size);
    *cap = more;
    return q;
}

static void next(struct parser *p) {
    lex_next(&p->x);
    if (p->x.error)
        parse_fail(p, "%s", p->x.error);
}
static bool at(struct parser *p, const char *s) {
    return lex_is(&p->x, s);
}
static bool accept(struct parser *p, const char *s) {
    if (!at(p, s))
        return false;
    next(p);
    return true;
}
static void expect(struct parser *p, const char *s) {
    if (!accept(p, s))
        parse_fail(p, "expected '%s' before '%.*s'", s, (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
}
static const char *ident(struct parser *p) {
    if (p->x.kind != TK_IDENT)
        parse_fail(p, "expected a name before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    const char *s = arena_str(p->mem, p->x.start, p->x.len);
    next(p);
    return s;
}

/* --- Symbols --- */

static u32 hash_name(const char *s, size_t n) {
    u32 h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (u8)s[i]) * 16777619u;
    return h;
}

static struct sym *find(struct parser *p, const char *name, size_t len) {
    u32 h = hash_name(name, len);
    for (u32 k = p->bucket[h % 4096]; k; k = p->syms[k - 1].next) {
        struct sym *s = &p->syms[k - 1];
        if (s->hash == h && strlen(s->name) == len && !memcmp(s->name, name, len))
            return s;
    }
    return NULL;
}

/* A register of a family `%r<10>` is found by its name without the number. */
struct sym *parse_lookup(struct parser *p, const char *name, size_t len) {
    struct sym *s = find(p, name, len);
    if (s && s->kind != SYM_REGS)
        return s;
    size_t n = len;
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n == len || len - n > 9)
        return NULL;
    /* `%r1<5>` declares %r10..%r14: digits may belong to the prefix */
    for (size_t k = n; k < len; k++) {
        s = find(p, name, k);
        if (s && s->kind == SYM_REGS && (name[k] != '0' || k + 1 == len) &&
            (u32)strtoul(name + k, NULL, 10) < s->count)
            return s;
    }
    return NULL;
}

static struct sym *declare(struct parser *p, const char *name, enum sym_kind kind) {
    p->syms = parse_grow(p, p->syms, p->nsyms, &p->sym_cap, sizeof *p->syms);
    struct sym *s = &p->syms[p->nsyms++];
    memset(s, 0, sizeof *s);
    s->name = name;
    s->kind = (u8)kind;
    s->hash = hash_name(name, strlen(name));
    s->next = p->bucket[s->hash % 4096];
    p->bucket[s->hash % 4096] = p->nsyms;
    return s;
}

static void pop_to(struct parser *p, u32 mark) {
    while (p->nsyms > mark) {
        struct sym *s = &p->syms[--p->nsyms];
        p->bucket[s->hash % 4096] = s->next;
    }
}

/* Branches of this block and of blocks inside it take the labels of this block. */
static void resolve_labels(struct parser *p, u32 mark, u32 first_fixup, bool outermost) {
    u32 kept = first_fixup;
    for (u32 i = first_fixup; i < p->nfixups; i++) {
        struct fixup *f = &p->fixups[i];
        struct sym *s = find(p, f->name, strlen(f->name));
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

/* --- Types and sizes of declarations --- */

static enum type decl_type(struct parser *p, u32 *vec) {
    *vec = 1;
    for (;;) {
        if (p->x.kind != TK_DIRECTIVE)
            parse_fail(p, "expected a type");
        const char *s = p->x.start + 1;
        u32 n = p->x.len - 1;
        if (n == 2 && s[0] == 'v' && (s[1] == '2' || s[1] == '4' || s[1] == '8')) {
            *vec = (u32)(s[1] - '0');
            next(p);
            continue;
        }
        for (u32 t = 1; t < T_COUNT; t++)
            if (strlen(type_name(t)) == n && !memcmp(type_name(t), s, n)) {
                next(p);
                return t;
            }
        if (n == 7 && !memcmp(s, "texref", 6))
            parse_fail(p, "textures are not supported");
        parse_fail(p, "type '.%.*s' is not known", (int)n, s);
    }
}

static u32 lane_size(enum type t) {
    int b = type_bytes(t);
    return t == T_PRED ? 0 : b <= 4 ? 4 : (u32)b;
}

static s64 const_expr(struct parser *p, int level);

static void declare_regs(struct parser *p) {
    u32 vec;
    next(p); /* .reg */
    while (p->x.kind == TK_DIRECTIVE && at(p, ".align")) {
        next(p);
        next(p);
    }
    enum type t = decl_type(p, &vec);
    do {
        const char *name = ident(p);
        u64 count = 1;
        bool family = accept(p, "<");
        if (family) {
            count = p->x.integer;
            if (p->x.kind != TK_INT)
                parse_fail(p, "expected a count of registers");
            next(p);
            expect(p, ">");
        }
        u32 lane = lane_size(t);
        u64 bytes = count * vec * (lane ? lane * LANES : 4);
        if (count > 1 << 20 || bytes + p->reg_top > MAX_FUNCTION_REGS_BYTES)
            parse_fail(p, "more registers than the emulator takes");
        struct sym *s = declare(p, name, family ? SYM_REGS : SYM_REG);
        s->type = (u8)t;
        s->lane_bytes = (u8)lane;
        s->count = (u32)count;
        s->vec = (u8)vec;
        if (lane)
            p->reg_top = (p->reg_top + 63) & ~63u;
        s->reg = p->reg_top;
        p->reg_top += (u32)bytes;
        if (p->reg_top > p->reg_max)
            p->reg_max = p->reg_top;
    } while (accept(p, ","));
    expect(p, ";");
}

/* --- Variables --- */

static void put_bytes(u8 *image, u64 bytes, u64 *at_byte, u64 v, u32 n) {
    for (u32 i = 0; i < n && *at_byte < bytes; i++)
        image[(*at_byte)++] = (u8)(v >> 8 * i);
}

static void init_value(struct parser *p, enum type t, u8 *image, u64 bytes, u64 *pos, int depth);

static void init_scalar(struct parser *p, enum type t, u8 *image, u64 bytes, u64 *pos) {
    u32 n = (u32)type_bytes(t);
    if (p->x.kind == TK_STRING) {
        for (u32 i = 0; i < p->x.len; i++)
            put_bytes(image, bytes, pos, (u8)p->x.start[i], 1);
        put_bytes(image, bytes, pos, 0, 1);
        next(p);
        return;
    }
    bool neg = false;
    if (p->x.kind == TK_PUNCT && at(p, "-")) {
        struct lexer save = p->x;
        next(p);
        if (p->x.kind == TK_FLOAT)
            neg = true;
        else
            p->x = save;
    }
    if (p->x.kind == TK_FLOAT) {
        u64 bits = p->x.integer;
        double f = neg ? -p->x.f : p->x.f;
        if (t == T_F32) {
            float g = (float)f;
            u32 b;
            memcpy(&b, &g, 4);
            bits = p->x.float_bits == 32 && !neg ? bits : b;
        } else if (t == T_F64) {
            memcpy(&bits, &f, 8);
        }
        put_bytes(image, bytes, pos, bits, n);
        next(p);
        return;
    }
    if (p->x.kind == TK_IDENT && !at(p, "WARP_SZ")) {
        bool generic = at(p, "generic");
        if (generic) {
            next(p);
            expect(p, "(");
        }
        const char *name = ident(p);
        struct sym *s = parse_lookup(p, name, strlen(name));
        if (!s || (s->kind != SYM_GLOBAL && s->kind != SYM_FUNC))
            parse_fail(p, "'%s' is not a variable that can initialise another", name);
        if (generic)
            expect(p, ")");
        s64 add = 0;
        if (p->x.kind == TK_PUNCT && (at(p, "+") || at(p, "-")))
            add = const_expr(p, 5);
        put_bytes(image, bytes, pos, s->addr + (u64)add, n);
        return;
    }
    put_bytes(image, bytes, pos, (u64)const_expr(p, 0), n);
}

static void init_value(struct parser *p, enum type t, u8 *image, u64 bytes, u64 *pos, int depth) {
    if (depth > 16)
        parse_fail(p, "initialiser nested too deeply");
    if (!accept(p, "{")) {
        init_scalar(p, t, image, bytes, pos);
        return;
    }
    while (!at(p, "}")) {
        init_value(p, t, image, bytes, pos, depth + 1);
        if (!accept(p, ","))
            break;
    }
    expect(p, "}");
}

struct var {
    const char *name;
    u64 bytes, align;
    enum type t;
    bool unsized;
};

/* `.align 4 .b8 name[2][3]` up to the initialiser. */
static struct var parse_var(struct parser *p) {
    struct var v = {.align = 0};
    u32 vec = 1;
    for (;;) {
        if (accept(p, ".align")) {
            v.align = p->x.integer;
            if (p->x.kind != TK_INT || !v.align || (v.align & (v.align - 1)) || v.align > 65536)
                parse_fail(p, ".align needs a power of two");
            next(p);
        } else if (accept(p, ".attribute")) {
            expect(p, "(");
            while (!accept(p, ")")) {
                if (p->x.kind == TK_END)
                    parse_fail(p, "'.attribute(' without end");
                next(p);
            }
        } else if (at(p, ".ptr") || at(p, ".global") || at(p, ".const") || at(p, ".shared") ||
                   at(p, ".local")) {
            next(p);
        } else {
            if (v.t)
                break;
            v.t = decl_type(p, &vec);
        }
        if (v.t && p->x.kind != TK_DIRECTIVE)
            break;
    }
    v.name = ident(p);
    u64 n = vec;
    while (accept(p, "[")) {
        if (accept(p, "]")) {
            v.unsized = true;
            continue;
        }
        s64 k = const_expr(p, 0);
        if (k < 0 || k > MAX_VAR_BYTES || (n && (u64)k * n > MAX_VAR_BYTES))
            parse_fail(p, "array '%s' is larger than the emulator takes", v.name);
        n *= (u64)k;
        expect(p, "]");
    }
    v.bytes = n * (u64)(type_bytes(v.t) ? type_bytes(v.t) : 1);
    if (v.bytes > MAX_VAR_BYTES)
        parse_fail(p, "array '%s' is larger than the emulator takes", v.name);
    u64 natural = (u64)type_bytes(v.t) * vec;
    if (v.align < natural)
        v.align = natural;
    if (!v.align)
        v.align = 1;
    return v;
}

static void declare_global(struct parser *p, bool is_const, bool is_extern) {
    do {
        struct var v = parse_var(p);
        u64 bytes = v.bytes ? v.bytes : 1;
        u8 *image = NULL;
        bool has_init = accept(p, "=");
        if (v.unsized && has_init)
            bytes = 1 << 20;
        u64 pos = 0;
        if (has_init) {
            image = calloc(1, bytes);
            if (!image)
                parse_fail(p, "out of memory");
            init_value(p, v.t, image, bytes, &pos, 0);
            if (v.unsized)
                bytes = pos;
        }
        (void)is_extern;
        u64 addr = p->alloc_global(p->ctx, bytes, v.align, is_const);
        if (!addr)
            parse_fail(p, "no device memory for '%s'", v.name);
        if (image)
            memcpy((void *)(uintptr_t)addr, image, bytes);
        else
            memset((void *)(uintptr_t)addr, 0, bytes);
        free(image);
        struct sym *s = declare(p, v.name, SYM_GLOBAL);
        s->addr = addr;
        s->bytes = bytes;
        struct global_var *g = arena_alloc(p->mem, (p->mod->nglobals + 1) * sizeof *g);
        if ((p->mod->nglobals & (p->mod->nglobals - 1)) == 0) {
            g = arena_alloc(p->mem, (p->mod->nglobals * 2 + 1) * sizeof *g);
            if (p->mod->nglobals)
                memcpy(g, p->mod->globals, p->mod->nglobals * sizeof *g);
            p->mod->globals = g;
        }
        p->mod->globals[p->mod->nglobals++] = (struct global_var){v.name, addr, bytes, is_const};
    } while (accept(p, ","));
    expect(p, ";");
}

static void declare_shared(struct parser *p, bool is_extern) {
    do {
        struct var v = parse_var(p);
        p->shared = parse_grow(p, p->shared, p->nshared, &p->shared_cap, sizeof *p->shared);
        if (p->nshared > 65535)
            parse_fail(p, "too many shared variables");
        p->shared[p->nshared] =
            (struct shared_var){.name = v.name,
                                .align = (u32)v.align,
                                .bytes = v.bytes,
                                .dynamic = v.unsized || (is_extern && !v.bytes)};
        struct sym *s = declare(p, v.name, SYM_SHARED);
        s->shared = p->nshared++;
        s->bytes = v.bytes;
    } while (accept(p, ","));
    expect(p, ";");
}

static void declare_local(struct parser *p) {
    do {
        struct var v = parse_var(p);
        u64 at_byte = (p->local_top + v.align - 1) & ~(v.align - 1);
        if (at_byte + v.bytes > 512 << 10)
            parse_fail(p, "more than 512 KB of local memory for a thread");
        struct sym *s = declare(p, v.name, SYM_LOCAL);
        s->addr = at_byte;
        s->bytes = v.bytes;
        p->local_top = (u32)(at_byte + v.bytes);
    } while (accept(p, ","));
    expect(p, ";");
}

/* .param in a body: the argument area of a call, [lane][bytes] in the register file. */
static void declare_call_param(struct parser *p) {
    do {
        struct var v = parse_var(p);
        u64 bytes = (v.bytes + 15) & ~15ull;
        if (bytes > 65536)
            parse_fail(p, "argument '%s' is too large", v.name);
        p->reg_top = (p->reg_top + 63) & ~63u;
        struct sym *s = declare(p, v.name, SYM_CALL);
        s->reg = p->reg_top;
        s->bytes = bytes;
        p->reg_top += (u32)bytes * LANES;
        if (p->reg_top > MAX_FUNCTION_REGS_BYTES)
            parse_fail(p, "more registers than the emulator takes");
        if (p->reg_top > p->reg_max)
            p->reg_max = p->reg_top;
    } while (accept(p, ","));
    expect(p, ";");
}

/* --- Constant expressions --- */

static s64 const_primary(struct parser *p);

static s64 const_unary(struct parser *p) {
    if (++p->depth > MAX_DEPTH)
        parse_fail(p, "expression nested too deeply");
    s64 v = const_primary(p);
    p->depth--;
    return v;
}

static s64 const_primary(struct parser *p) {
    if (accept(p, "-"))
        return (s64)(0 - (u64)const_unary(p));
    if (accept(p, "~"))
        return ~const_unary(p);
    if (accept(p, "!"))
        return !const_unary(p);
    if (accept(p, "+"))
        return const_unary(p);
    if (accept(p, "(")) {
        if (p->x.kind == TK_DIRECTIVE && (at(p, ".s64") || at(p, ".u64"))) {
            next(p);
            expect(p, ")");
            return const_unary(p);
        }
        s64 v = const_expr(p, 0);
        expect(p, ")");
        return v;
    }
    if (accept(p, "WARP_SZ"))
        return LANES;
    if (p->x.kind != TK_INT)
        parse_fail(p, "expected a constant before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    s64 v = (s64)p->x.integer;
    next(p);
    return v;
}

static int binary_level(struct parser *p) {
    if (p->x.kind != TK_PUNCT)
        return 0;
    switch (*p->x.start) {
    case '|':
        return 1;
    case '^':
        return 2;
    case '&':
        return 3;
    case '<':
    case '>':
        return p->x.p < p->x.end && *p->x.p == *p->x.start ? 4 : 0;
    case '+':
    case '-':
        return 5;
    case '*':
    case '/':
    case '%':
        return 6;
    default:
        return 0;
    }
}

static s64 const_binary(struct parser *p, char op, s64 a, s64 b) {
    switch (op) {
    case '|':
        return a | b;
    case '^':
        return a ^ b;
    case '&':
        return a & b;
    case '<':
        return (s64)((u64)a << (b & 63));
    case '>':
        return a >> (b & 63);
    case '+':
        return (s64)((u64)a + (u64)b);
    case '-':
        return (s64)((u64)a - (u64)b);
    case '*':
        return (s64)((u64)a * (u64)b);
    default:
        break;
    }
    if (!b || (b == -1 && a == INT64_MIN))
        parse_fail(p, "division by zero in a constant");
    return op == '/' ? a / b : a % b;
}

/* level 5: the leading value is taken as 0 (for `sym + 4`). */
static s64 const_expr(struct parser *p, int level) {
    if (++p->depth > MAX_DEPTH)
        parse_fail(p, "expression nested too deeply");
    s64 v = level == 5 ? 0 : const_unary(p);
    int l;
    int floor = level == 5 ? 4 : level;
    while ((l = binary_level(p)) > floor) {
        char op = *p->x.start;
        next(p);
        if (op == '<' || op == '>')
            next(p);
        s64 b = l == 6 ? const_unary(p) : const_expr(p, l == 5 ? 6 : l);
        v = const_binary(p, op, v, b);
    }
    p->depth--;
    return v;
}

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
    while (!at(p, close)) {
        if (n == 260)
            parse_fail(p, "more than 260 elements in a list");
        memset(&items[n], 0, sizeof items[n]);
        parse_operand(p, &items[n++], depth + 1);
        if (!accept(p, ","))
            break;
    }
    expect(p, close);
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
        next(p);
        return;
    }
    o->name = arena_str(p->mem, start, len);
    next(p);
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
    if (accept(p, "{")) {
        o->kind = OP_VEC;
        parse_list(p, o, "}", depth);
        return;
    }
    if (accept(p, "[")) {
        o->kind = OP_MEM;
        parse_list(p, o, "]", depth);
        return;
    }
    if (at(p, "(") && lex_peek(&p->x) != '-' &&
        !(lex_peek(&p->x) >= '0' && lex_peek(&p->x) <= '9') && lex_peek(&p->x) != '(' &&
        lex_peek(&p->x) != '~') {
        next(p);
        o->kind = OP_VEC;
        parse_list(p, o, ")", depth);
        return;
    }
    if (at(p, "!") || (at(p, "-") && lex_peek(&p->x) == '%')) {
        next(p);
        parse_operand(p, o, depth);
        o->negated = !o->negated;
        return;
    }
    if (p->x.kind == TK_FLOAT || (at(p, "-") && p->x.kind == TK_PUNCT)) {
        struct lexer save = p->x;
        bool neg = at(p, "-") && p->x.kind == TK_PUNCT;
        if (neg)
            next(p);
        if (p->x.kind == TK_FLOAT) {
            o->kind = OP_FLOAT;
            o->f = neg ? -p->x.f : p->x.f;
            o->integer = (s64)p->x.integer ^ (neg && p->x.float_bits == 32 ? 0x80000000ll : 0);
            o->is_f32 = p->x.float_bits == 32;
            next(p);
            return;
        }
        p->x = save;
    }
    if (p->x.kind == TK_IDENT && !at(p, "WARP_SZ")) {
        name_operand(p, o);
        if (p->x.kind == TK_PUNCT && (at(p, "+") || at(p, "-")))
            o->integer = const_expr(p, 5);
    } else {
        o->kind = OP_INT;
        o->integer = const_expr(p, 0);
    }
    if (p->x.kind == TK_PUNCT && at(p, "|")) {
        next(p);
        o->pair = opnd_array(p, 1);
        parse_operand(p, o->pair, depth + 1);
    }
}

/* --- Statements --- */

static void parse_loc(struct parser *p) {
    next(p);
    struct loc *h = &p->here;
    h->file = (u16)p->x.integer;
    if (p->x.kind != TK_INT)
        parse_fail(p, ".loc needs a file number");
    next(p);
    h->line = (u32)p->x.integer;
    next(p);
    next(p); /* column */
    h->inlined_file = 0;
    h->inlined_line = 0;
    while (accept(p, ",")) {
        if (accept(p, "function_name")) {
            next(p);
            if (p->x.kind == TK_PUNCT && at(p, "+")) {
                next(p);
                next(p);
            }
        } else if (accept(p, "inlined_at")) {
            h->inlined_file = (u16)p->x.integer;
            next(p);
            h->inlined_line = (u32)p->x.integer;
            next(p);
            next(p);
        }
    }
}

static ref parse_guard(struct parser *p) {
    bool neg = accept(p, "!");
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
    if (accept(p, "@"))
        guard = parse_guard(p);
    if (p->x.kind != TK_IDENT)
        parse_fail(p, "expected an instruction before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    lex_opcode(&p->x);
    const char *opcode = p->x.start;
    u32 len = p->x.len, line = p->x.tok_line;
    p->here.ptx = line;
    next(p);
    while (!at(p, ";")) {
        if (nops == MAX_OPS || p->x.kind == TK_END)
            parse_fail(p, "an instruction without end");
        memset(&ops[nops], 0, sizeof ops[nops]);
        parse_operand(p, &ops[nops++], 0);
        if (!accept(p, ","))
            break;
    }
    if (!at(p, ";"))
        parse_fail(p, "expected ';' before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    p->x.tok_line = line;
    decode_statement(p, opcode, len, guard, ops, nops);
    next(p);
}

static void parse_label(struct parser *p) {
    const char *name = ident(p);
    expect(p, ":");
    struct sym *old = find(p, name, strlen(name));
    if (old && old->kind == SYM_LABEL && (u32)(old - p->syms) >= p->scope)
        parse_fail(p, "label '%s' is defined twice in a block", name);
    struct sym *s = declare(p, name, SYM_LABEL);
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
    if (at(p, "{") && p->x.kind == TK_PUNCT) {
        parse_block(p, depth + 1);
    } else if (at_label(p)) {
        parse_label(p);
    } else if (p->x.kind != TK_DIRECTIVE) {
        if (accept(p, ";"))
            return;
        parse_instruction(p);
    } else if (at(p, ".reg")) {
        declare_regs(p);
    } else if (at(p, ".loc")) {
        parse_loc(p);
    } else if (accept(p, ".pragma")) {
        while (!accept(p, ";")) {
            if (p->x.kind == TK_END)
                parse_fail(p, ".pragma without end");
            next(p);
        }
    } else if (accept(p, ".shared")) {
        declare_shared(p, false);
    } else if (at(p, ".extern")) {
        next(p);
        expect(p, ".shared");
        declare_shared(p, true);
    } else if (accept(p, ".local")) {
        declare_local(p);
    } else if (accept(p, ".param")) {
        declare_call_param(p);
    } else if (accept(p, ".global")) {
        declare_global(p, false, false);
    } else if (accept(p, ".const")) {
        declare_global(p, true, false);
    } else {
        parse_fail(p, "directive '%.*s' is not supported in a function", (int)p->x.len, p->x.start);
    }
}

static void parse_block(struct parser *p, int depth) {
    if (depth > MAX_DEPTH)
        parse_fail(p, "blocks nested too deeply");
    expect(p, "{");
    u32 mark = p->nsyms, first = p->nfixups, regs = p->reg_top, scope = p->scope;
    p->scope = mark;
    while (!at(p, "}")) {
        if (p->x.kind == TK_END)
            parse_fail(p, "a block without end");
        parse_statement(p, depth);
    }
    resolve_labels(p, mark, first, depth == 0);
    pop_to(p, mark);
    p->scope = scope;
    p->reg_top = regs;
    next(p);
}

/* --- Functions --- */

static void parse_params(struct parser *p) {
    struct function *f = p->fn;
    u32 cap = 0;
    struct param *v = NULL;
    expect(p, "(");
    while (!at(p, ")")) {
        if (!accept(p, ".param") && !at(p, ".reg"))
            parse_fail(p, "expected .param");
        accept(p, ".reg");
        struct var q = parse_var(p);
        u64 off = (f->param_bytes + q.align - 1) & ~(q.align - 1);
        if (off + q.bytes > 32764)
            parse_fail(p, "more than 32764 bytes of parameters");
        v = parse_grow(p, v, f->nparams, &cap, sizeof *v);
        v[f->nparams++] = (struct param){q.name, (u32)off, (u32)q.bytes, (u32)q.align};
        f->param_bytes = (u32)(off + q.bytes);
        struct sym *s = declare(p, q.name, SYM_PARAM);
        s->addr = off;
        s->bytes = q.bytes;
        if (!accept(p, ","))
            break;
    }
    expect(p, ")");
    f->params = arena_alloc(p->mem, (f->nparams + 1) * sizeof *v);
    if (v)
        memcpy(f->params, v, f->nparams * sizeof *v);
    free(v);
}

static void numbers(struct parser *p, u32 *out, u32 n) {
    for (u32 i = 0; i < n; i++) {
        if (p->x.kind != TK_INT)
            parse_fail(p, "expected a number");
        out[i] = (u32)p->x.integer;
        next(p);
        if (i + 1 < n && !accept(p, ","))
            break;
    }
}

static void parse_performance(struct parser *p) {
    struct function *f = p->fn;
    while (p->x.kind == TK_DIRECTIVE) {
        u32 skip[3];
        if (accept(p, ".maxntid"))
            numbers(p, f->max_ntid, 3);
        else if (accept(p, ".reqntid"))
            numbers(p, f->req_ntid, 3);
        else if (accept(p, ".minnctapersm"))
            numbers(p, &f->min_ctas, 1);
        else if (accept(p, ".maxnctapersm") || accept(p, ".maxclusterrank"))
            numbers(p, skip, 1);
        else if (accept(p, ".maxnreg"))
            numbers(p, &f->max_nreg, 1);
        else if (accept(p, ".reqnctapercluster"))
            numbers(p, f->req_cluster, 3);
        else if (accept(p, ".explicitcluster") || accept(p, ".blocksareclusters") ||
                 accept(p, ".noreturn"))
            ;
        else if (accept(p, ".pragma")) {
            next(p);
            expect(p, ";");
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
    if (bytes)
        memcpy(*to, from, bytes);
}

static void finish_function(struct parser *p) {
    struct function *f = p->fn;
    /* a body may end without ret */
    decode_statement(p, "exit", 4, REF_NONE, NULL, 0);
    keep(p, (void **)&f->code, p->code, p->ncode * sizeof *p->code);
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
        if (at(p, "{") && p->x.kind == TK_PUNCT)
            depth++;
        if (at(p, "}") && p->x.kind == TK_PUNCT)
            depth--;
        if (p->x.kind == TK_END)
            parse_fail(p, "a section without end");
        /* sections hold `.b8 1` and the like, and labels: any token is skipped */
        next(p);
    } while (depth);
}

static void parse_function(struct parser *p, bool entry) {
    u32 mark = p->nsyms;
    start_function(p, entry);
    if (!entry && at(p, "(")) { /* return values */
        while (!accept(p, ")")) {
            if (p->x.kind == TK_END)
                parse_fail(p, "a function without end");
            next(p);
        }
    }
    const char *name = ident(p);
    p->fn->name = name;
    if (!find(p, name, strlen(name))) {
        declare(p, name, SYM_FUNC);
        mark = p->nsyms;
    }
    if (at(p, "("))
        parse_params(p);
    parse_performance(p);
    if (accept(p, ";")) {
        pop_to(p, mark);
        return;
    }
    if (!entry) { /* a device function: kept as a name; calling it is an error of the call */
        skip_braces(p);
        pop_to(p, mark);
        return;
    }
    p->scope = p->nsyms;
    parse_block(p, 0);
    finish_function(p);
    pop_to(p, mark);
}

/* --- Module --- */

static void parse_file(struct parser *p) {
    u64 k = p->x.integer;
    if (p->x.kind != TK_INT || k > 65534)
        parse_fail(p, ".file needs a number");
    next(p);
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
    next(p);
    while (accept(p, ","))
        next(p);
}

static void parse_version(struct parser *p) {
    if (p->x.kind != TK_FLOAT && p->x.kind != TK_INT)
        parse_fail(p, ".version needs a number");
    double v = p->x.kind == TK_FLOAT ? p->x.f : (double)p->x.integer;
    p->mod->version = (int)(v * 10 + 0.5);
    next(p);
}

static void parse_directive(struct parser *p) {
    bool is_extern = false;
    while (at(p, ".visible") || at(p, ".extern") || at(p, ".weak") || at(p, ".common")) {
        is_extern |= at(p, ".extern");
        next(p);
    }
    if (accept(p, ".version")) {
        parse_version(p);
    } else if (accept(p, ".target")) {
        snprintf(p->mod->target, sizeof p->mod->target, "%.*s", (int)p->x.len, p->x.start);
        next(p);
        while (accept(p, ","))
            next(p);
    } else if (accept(p, ".address_size")) {
        if (p->x.integer != 64)
            parse_fail(p, "only .address_size 64 is supported");
        next(p);
    } else if (accept(p, ".file")) {
        parse_file(p);
    } else if (accept(p, ".section")) {
        next(p);
        skip_braces(p);
    } else if (accept(p, ".global")) {
        declare_global(p, false, is_extern);
    } else if (accept(p, ".const")) {
        declare_global(p, true, is_extern);
    } else if (accept(p, ".shared")) {
        declare_shared(p, is_extern);
    } else if (accept(p, ".entry")) {
        parse_function(p, true);
    } else if (accept(p, ".func")) {
        parse_function(p, false);
    } else if (at(p, ".loc")) {
        parse_loc(p);
    } else if (accept(p, ".pragma") || accept(p, ".alias")) {
        while (!accept(p, ";")) {
            if (p->x.kind == TK_END)
                parse_fail(p, "a directive without end");
            next(p);
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
    next(p);
    while (p->x.kind != TK_END)
        parse_directive(p);
    parser_free(p);
    return m;
}

void module_free(struct module *m) {
    if (m)
        arena_free(m->mem);
}
