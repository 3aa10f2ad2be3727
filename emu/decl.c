/* decl.c: the parser's tokens, names, constant expressions and declarations.
 *
 * Names live in blocks: inline assembly opens `{ }`, declares registers and labels whose names are
 * used again in the next block.  The symbol table is a stack; a closing block pops its names.
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

void tok_next(struct parser *p) {
    lex_next(&p->x);
    if (p->x.error)
        parse_fail(p, "%s", p->x.error);
}
bool tok_is(struct parser *p, const char *s) {
    return lex_is(&p->x, s);
}
bool tok_accept(struct parser *p, const char *s) {
    if (!tok_is(p, s))
        return false;
    tok_next(p);
    return true;
}
void tok_expect(struct parser *p, const char *s) {
    if (!tok_accept(p, s))
        parse_fail(p, "expected '%s' before '%.*s'", s, (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
}
const char *tok_name(struct parser *p) {
    if (p->x.kind != TK_IDENT)
        parse_fail(p, "expected a name before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    const char *s = arena_str(p->mem, p->x.start, p->x.len);
    tok_next(p);
    return s;
}

/* --- Symbols --- */

static u32 hash_name(const char *s, size_t n) {
    u32 h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (u8)s[i]) * 16777619u;
    return h;
}

struct sym *sym_find(struct parser *p, const char *name, size_t len) {
    u32 h = hash_name(name, len);
    for (u32 k = p->bucket[h % 4096]; k; k = p->syms[k - 1].next) {
        struct sym *s = &p->syms[k - 1];
        if (s->kind != SYM_REGS && s->hash == h && strlen(s->name) == len &&
            !memcmp(s->name, name, len))
            return s;
    }
    return NULL;
}

/* The newest family of this name that has a member of this number: `%r<10>` in an inner block hides
 * %r0 to %r9 of the outer one's, not its %r10. */
static struct sym *family_find(struct parser *p, const char *name, size_t len, u32 number) {
    u32 h = hash_name(name, len);
    for (u32 k = p->bucket[h % 4096]; k; k = p->syms[k - 1].next) {
        struct sym *s = &p->syms[k - 1];
        if (s->kind == SYM_REGS && number < s->count && s->hash == h && strlen(s->name) == len &&
            !memcmp(s->name, name, len))
            return s;
    }
    return NULL;
}

/* A register of a family is found by its name without the number; `a` and `a<2>` are different
 * names.  Of two that fit, the later declaration. */
struct sym *parse_lookup(struct parser *p, const char *name, size_t len) {
    struct sym *best = sym_find(p, name, len);
    size_t n = len;
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (len - n > 9)
        return best;
    /* `%r1<5>` declares %r10..%r14: digits may belong to the prefix */
    for (size_t k = n; k < len; k++) {
        struct sym *s = family_find(p, name, k, (u32)strtoul(name + k, NULL, 10));
        if (s && (name[k] != '0' || k + 1 == len) && s > best)
            best = s;
    }
    return best;
}

struct sym *sym_declare(struct parser *p, const char *name, enum sym_kind kind) {
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

void sym_pop(struct parser *p, u32 mark) {
    while (p->nsyms > mark) {
        struct sym *s = &p->syms[--p->nsyms];
        p->bucket[s->hash % 4096] = s->next;
    }
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
            tok_next(p);
            continue;
        }
        for (u32 t = 1; t < T_COUNT; t++)
            if (strlen(type_name(t)) == n && !memcmp(type_name(t), s, n)) {
                tok_next(p);
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

void declare_regs(struct parser *p) {
    u32 vec;
    tok_next(p); /* .reg */
    while (p->x.kind == TK_DIRECTIVE && tok_is(p, ".align")) {
        tok_next(p);
        tok_next(p);
    }
    enum type t = decl_type(p, &vec);
    do {
        const char *name = tok_name(p);
        u64 count = 1;
        bool family = tok_accept(p, "<");
        if (family) {
            count = p->x.integer;
            if (p->x.kind != TK_INT)
                parse_fail(p, "expected a count of registers");
            tok_next(p);
            tok_expect(p, ">");
        }
        u32 lane = lane_size(t);
        u64 bytes = count * vec * (lane ? lane * LANES : 4);
        if (count > 1 << 20 || bytes + p->reg_top > MAX_FUNCTION_REGS_BYTES)
            parse_fail(p, "more registers than the emulator takes");
        struct sym *s = sym_declare(p, name, family ? SYM_REGS : SYM_REG);
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
    } while (tok_accept(p, ","));
    tok_expect(p, ";");
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
        tok_next(p);
        return;
    }
    bool neg = false;
    if (p->x.kind == TK_PUNCT && tok_is(p, "-")) {
        struct lexer save = p->x;
        tok_next(p);
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
        tok_next(p);
        return;
    }
    if (p->x.kind == TK_IDENT && !tok_is(p, "WARP_SZ")) {
        bool generic = tok_is(p, "generic");
        if (generic) {
            tok_next(p);
            tok_expect(p, "(");
        }
        const char *name = tok_name(p);
        struct sym *s = parse_lookup(p, name, strlen(name));
        if (!s || (s->kind != SYM_GLOBAL && s->kind != SYM_FUNC))
            parse_fail(p, "'%s' is not a variable that can initialise another", name);
        if (generic)
            tok_expect(p, ")");
        s64 add = 0;
        if (p->x.kind == TK_PUNCT && (tok_is(p, "+") || tok_is(p, "-")))
            add = parse_constant(p, 5);
        put_bytes(image, bytes, pos, s->addr + (u64)add, n);
        return;
    }
    put_bytes(image, bytes, pos, (u64)parse_constant(p, 0), n);
}

static void init_value(struct parser *p, enum type t, u8 *image, u64 bytes, u64 *pos, int depth) {
    if (depth > 16)
        parse_fail(p, "initialiser nested too deeply");
    if (!tok_accept(p, "{")) {
        init_scalar(p, t, image, bytes, pos);
        return;
    }
    while (!tok_is(p, "}")) {
        init_value(p, t, image, bytes, pos, depth + 1);
        if (!tok_accept(p, ","))
            break;
    }
    tok_expect(p, "}");
}

/* `.align 4 .b8 name[2][3]` up to the initialiser. */
struct var parse_variable(struct parser *p) {
    struct var v = {.align = 0};
    u32 vec = 1;
    for (;;) {
        if (tok_accept(p, ".align")) {
            v.align = p->x.integer;
            if (p->x.kind != TK_INT || !v.align || (v.align & (v.align - 1)) || v.align > 65536)
                parse_fail(p, ".align needs a power of two");
            tok_next(p);
        } else if (tok_accept(p, ".attribute")) {
            tok_expect(p, "(");
            while (!tok_accept(p, ")")) {
                if (p->x.kind == TK_END)
                    parse_fail(p, "'.attribute(' without end");
                tok_next(p);
            }
        } else if (tok_is(p, ".ptr") || tok_is(p, ".global") || tok_is(p, ".const") ||
                   tok_is(p, ".shared") || tok_is(p, ".local")) {
            tok_next(p);
        } else {
            if (v.t)
                break;
            v.t = decl_type(p, &vec);
        }
        if (v.t && p->x.kind != TK_DIRECTIVE)
            break;
    }
    v.name = tok_name(p);
    u64 n = vec;
    while (tok_accept(p, "[")) {
        if (tok_accept(p, "]")) {
            v.unsized = true;
            continue;
        }
        s64 k = parse_constant(p, 0);
        if (k < 0 || k > MAX_VAR_BYTES || (n && (u64)k * n > MAX_VAR_BYTES))
            parse_fail(p, "array '%s' is larger than the emulator takes", v.name);
        n *= (u64)k;
        tok_expect(p, "]");
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

void declare_global(struct parser *p, bool is_const, bool is_extern) {
    do {
        struct var v = parse_variable(p);
        u64 bytes = v.bytes ? v.bytes : 1;
        u8 *image = NULL;
        bool has_init = tok_accept(p, "=");
        if (v.unsized && has_init)
            bytes = 1 << 20;
        u64 pos = 0;
        if (has_init) {
            image = arena_alloc(p->mem, bytes);
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
        struct sym *s = sym_declare(p, v.name, SYM_GLOBAL);
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
    } while (tok_accept(p, ","));
    tok_expect(p, ";");
}

void declare_shared(struct parser *p, bool is_extern) {
    do {
        struct var v = parse_variable(p);
        p->shared = parse_grow(p, p->shared, p->nshared, &p->shared_cap, sizeof *p->shared);
        if (p->nshared > 65535)
            parse_fail(p, "too many shared variables");
        p->shared[p->nshared] =
            (struct shared_var){.name = v.name,
                                .align = (u32)v.align,
                                .bytes = v.bytes,
                                .dynamic = v.unsized || (is_extern && !v.bytes)};
        struct sym *s = sym_declare(p, v.name, SYM_SHARED);
        s->shared = p->nshared++;
        s->bytes = v.bytes;
    } while (tok_accept(p, ","));
    tok_expect(p, ";");
}

void declare_local(struct parser *p) {
    do {
        struct var v = parse_variable(p);
        u64 at_byte = (p->local_top + v.align - 1) & ~(v.align - 1);
        if (at_byte + v.bytes > 512 << 10)
            parse_fail(p, "more than 512 KB of local memory for a thread");
        struct sym *s = sym_declare(p, v.name, SYM_LOCAL);
        s->addr = at_byte;
        s->bytes = v.bytes;
        p->local_top = (u32)(at_byte + v.bytes);
        p->local_max = p->local_top > p->local_max ? p->local_top : p->local_max;
    } while (tok_accept(p, ","));
    tok_expect(p, ";");
}

/* .param in a body: the argument area of a call, [lane][bytes] in the register file. */
void declare_call_param(struct parser *p) {
    do {
        struct var v = parse_variable(p);
        u64 bytes = (v.bytes + 15) & ~15ull;
        if (bytes > 65536)
            parse_fail(p, "argument '%s' is too large", v.name);
        p->reg_top = (p->reg_top + 63) & ~63u;
        struct sym *s = sym_declare(p, v.name, SYM_CALL);
        s->reg = p->reg_top;
        s->bytes = bytes;
        p->reg_top += (u32)bytes * LANES;
        if (p->reg_top > MAX_FUNCTION_REGS_BYTES)
            parse_fail(p, "more registers than the emulator takes");
        if (p->reg_top > p->reg_max)
            p->reg_max = p->reg_top;
    } while (tok_accept(p, ","));
    tok_expect(p, ";");
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
    if (tok_accept(p, "-"))
        return (s64)(0 - (u64)const_unary(p));
    if (tok_accept(p, "~"))
        return ~const_unary(p);
    if (tok_accept(p, "!"))
        return !const_unary(p);
    if (tok_accept(p, "+"))
        return const_unary(p);
    if (tok_accept(p, "(")) {
        if (p->x.kind == TK_DIRECTIVE && (tok_is(p, ".s64") || tok_is(p, ".u64"))) {
            tok_next(p);
            tok_expect(p, ")");
            return const_unary(p);
        }
        s64 v = parse_constant(p, 0);
        tok_expect(p, ")");
        return v;
    }
    if (tok_accept(p, "WARP_SZ"))
        return LANES;
    if (p->x.kind != TK_INT)
        parse_fail(p, "expected a constant before '%.*s'", (int)(p->x.len > 40 ? 40 : p->x.len),
                   p->x.start);
    s64 v = (s64)p->x.integer;
    tok_next(p);
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
s64 parse_constant(struct parser *p, int level) {
    if (++p->depth > MAX_DEPTH)
        parse_fail(p, "expression nested too deeply");
    s64 v = level == 5 ? 0 : const_unary(p);
    int l;
    int floor = level == 5 ? 4 : level;
    while ((l = binary_level(p)) > floor) {
        char op = *p->x.start;
        tok_next(p);
        if (op == '<' || op == '>')
            tok_next(p);
        s64 b = l == 6 ? const_unary(p) : parse_constant(p, l == 5 ? 6 : l);
        v = const_binary(p, op, v, b);
    }
    p->depth--;
    return v;
}
