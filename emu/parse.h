/* parse.h: between the parser and the decoders of ops.def.
 *
 * A decoder gets the opcode's words and the operands of one statement and fills a struct insn.  It
 * asks for operands by the type the opcode gives them (registers have no type of their own: nvcc
 * writes `.reg .b32 %f<N>` for floats), so every access width is settled here, once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_PARSE_H
#define EMU_PARSE_H

#include "ir.h"
#include "lex.h"
#include <setjmp.h>

enum { MAX_WORDS = 24, MAX_OPS = 24, MAX_CODE = 4 << 20 };
/* The first bytes of bank 0: where sinks write, and a predicate for decoders. */
enum { SINK_BYTES = 512, SCRATCH_PRED = 512, RESERVED_REGS = 576 };

enum sym_kind {
    SYM_REG,
    SYM_REGS,
    SYM_SHARED,
    SYM_GLOBAL,
    SYM_LOCAL,
    SYM_PARAM,
    SYM_CALL,
    SYM_LABEL,
    SYM_FUNC
};

struct sym {
    const char *name;
    u32 hash, next; /* chain of the hash table, index + 1 */
    u8 kind;
    u8 lane_bytes; /* registers: 0 for predicates, else 4, 8, 16 */
    u8 type;
    u8 vec;
    u32 count; /* SYM_REGS */
    u32 reg;   /* offset in bank 0 */
    u64 addr;  /* of a variable in its space */
    u64 bytes;
    u32 shared; /* SYM_SHARED: index into module table */
};

enum opnd_kind {
    OP_NONE,
    OP_REG,
    OP_INT,
    OP_FLOAT,
    OP_SYM,
    OP_MEM,
    OP_VEC,
    OP_SINK,
    OP_SPECIAL,
    OP_LABEL
};

struct opnd {
    u8 kind;
    bool negated; /* !p or -r */
    bool is_f32;  /* 0f form: `integer` holds the bits */
    u8 lane_bytes;
    u8 rtype;
    ref r;       /* OP_REG */
    s64 integer; /* OP_INT; addend of OP_SYM, OP_MEM parts */
    double f;
    struct sym *sym;
    const char *name; /* label or special */
    struct opnd *sub; /* OP_VEC elements, OP_MEM parts */
    u32 nsub;
    struct opnd *pair; /* d|p */
    const char *part;  /* %r.b0: the name after the dot */
};

struct dec {
    struct parser *p;
    char *word[MAX_WORDS]; /* modifiers after the base name */
    bool used[MAX_WORDS];
    u32 nwords;
    const char *text; /* whole opcode */
    struct opnd op[MAX_OPS];
    u32 nops;
    struct insn *in;
    u32 row;
};

struct op_row {
    const char *base, *mods, *section;
    void (*decode)(struct dec *d);
};
extern const struct op_row op_rows[];
extern const u32 op_row_count;

struct fixup {
    const char *name;
    u32 insn, scope, line;
    u32 *slot; /* of an indexed branch's list; NULL: the instruction's target */
};

/* Labels of a .branchtargets. */
struct table {
    const char *name, **label;
    u32 n;
    struct table *next;
};

/* A parameter of a .func: .reg or .param. */
struct formal {
    const char *name;
    u8 type;
    bool reg;
    u32 bytes, align;
};
/* A function in the text: where its parameters start; `.func`s are expanded at each call. */
struct text_func {
    const char *name;
    struct lexer at; /* at the body's brace, or, of an entry, at its name */
    struct formal *formal;
    u32 nresults, nformals;    /* results come first */
    bool entry, defined, open; /* open: being expanded */
};

struct parser {
    struct lexer x;
    struct module *mod;
    struct arena *mem;
    u64 (*alloc_global)(void *ctx, size_t bytes, size_t align, bool is_const);
    void *ctx;
    char *err;
    size_t errlen;
    jmp_buf fail;
    /* symbols: a stack, chained by hash; closing a block pops */
    struct sym *syms;
    u32 nsyms, sym_cap;
    u32 bucket[4096];
    u32 scope;
    int depth; /* of a constant expression */
    /* module-level shared variables */
    struct shared_var *shared;
    u32 nshared, shared_cap;
    /* the function being read */
    struct function *fn;
    u32 reg_top, reg_max;
    struct insn *code;
    u32 ncode, code_cap;
    const char **texts; /* opcodes */
    u32 texts_cap;
    struct use *uses;
    u32 nuses, uses_cap;
    struct loc *locs;
    u32 nlocs, locs_cap;
    struct loc here;
    u8 *consts;
    u32 const_top, const_cap;
    u32 const_bucket[1024];
    u32 *const_next;
    struct bank_value *values;
    u32 nvalues, values_cap;
    struct fixup *fixups;
    u32 nfixups, fixups_cap;
    struct table *tables;
    struct text_func *func;
    u32 nfuncs, func_cap;
    u32 call_depth;
    u32 *returns; /* ret of expanded functions, to be patched */
    u32 nreturns, returns_cap;
    s32 *shared_index; /* per module shared variable: index in the function, -1 */
    u32 static_top, local_top;
    u32 local_max;
    u32 opnd_pool_used;
    struct opnd opnd_pool[4096];
    char words[512];
};

_Noreturn void parse_fail(struct parser *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
struct sym *parse_lookup(struct parser *p, const char *name, size_t len);
void decode_statement(struct parser *p, const char *opcode, u32 len, ref guard, struct opnd *ops,
                      u32 nops);
ref parse_shared_ref(struct parser *p, struct sym *s, s64 addend, u32 bytes, bool generic);
ref parse_value(struct parser *p, enum special what, u32 dim, u32 bytes);
ref parse_const(struct parser *p, u64 lo, u64 hi, u32 lane_bytes);
bool parse_special(struct parser *p, const char *name, u32 bytes, ref *out);
void *parse_grow(struct parser *p, void *v, u32 n, u32 *cap, size_t size);

/* --- decl.c: tokens, names, declarations --- */

void tok_next(struct parser *p);
bool tok_is(struct parser *p, const char *s);
bool tok_accept(struct parser *p, const char *s);
void tok_expect(struct parser *p, const char *s);
const char *tok_name(struct parser *p);
struct sym *sym_find(struct parser *p, const char *name, size_t len);
struct sym *sym_declare(struct parser *p, const char *name, enum sym_kind kind);
void sym_pop(struct parser *p, u32 mark);
/* level 0: a whole expression; 5: what follows a name, `+ 4` */
s64 parse_constant(struct parser *p, int level);
struct var {
    const char *name;
    u64 bytes, align;
    enum type t;
    bool unsized;
};
struct var parse_variable(struct parser *p);
void declare_regs(struct parser *p);
void declare_global(struct parser *p, bool is_const, bool is_extern);
void declare_shared(struct parser *p, bool is_extern);
void declare_local(struct parser *p);
void declare_call_param(struct parser *p);

/* --- parse_stmt.c, parse_call.c --- */

void parse_block(struct parser *p, int depth);
void parse_loc(struct parser *p);
void skip_braces(struct parser *p);
/* Reads `(results) name (parameters)` and attributes of a .func into a new or known entry. */
struct text_func *func_header(struct parser *p);
/* A call of a .func, or a ret inside one; false: an ordinary instruction. */
bool call_expand(struct parser *p, const char *opcode, u32 len, ref guard, struct opnd *ops,
                 u32 nops);

/* --- For decoders --- */

_Noreturn void dec_fail(struct dec *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool dec_has(struct dec *d, const char *word);
/* The n-th word that is a type; T_NONE when there is none. */
enum type dec_type(struct dec *d, u32 n);
/* The word that starts with prefix, without it; NULL when there is none. */
const char *dec_prefix(struct dec *d, const char *prefix);
/* Index of the first word out of a NULL-terminated list, -1 none. */
int dec_one_of(struct dec *d, const char *const *list);
void dec_nops(struct dec *d, u32 lo, u32 hi);
/* A list of one is its element: `ld.global.b32 {%r1}, [%rd1]`. */
static inline struct opnd *dec_only(struct opnd *o) {
    return o->kind == OP_VEC && o->nsub == 1 ? &o->sub[0] : o;
}
ref dec_dst(struct dec *d, struct opnd *o, enum type t);
ref dec_src(struct dec *d, struct opnd *o, enum type t);
ref dec_pred(struct dec *d, struct opnd *o, bool write);
/* Any register width; the width comes back. */
ref dec_any(struct dec *d, struct opnd *o, bool write, u32 *lane_bytes);
s64 dec_imm(struct dec *d, struct opnd *o);
/* Address: register or symbol in a, constant offset in *off; the 64-bit-ness in *wide. */
ref dec_addr(struct dec *d, struct opnd *o, enum space sp, s64 *off, bool *wide);
/* Space words of the opcode (SP_GENERIC when none). */
enum space dec_space(struct dec *d);
u8 dec_sem(struct dec *d); /* weak, relaxed, acquire ... and scope */
/* List of refs kept with the module. */
ref *dec_refs(struct dec *d, u32 n);
void dec_vec(struct dec *d, struct opnd *o, enum type t, bool write, ref *out, u32 n);
ref dec_const32(struct dec *d, u32 v);
ref dec_const64(struct dec *d, u64 v);
ref dec_pred_const(struct dec *d, bool v);
void dec_label(struct dec *d, struct opnd *o); /* fills in->target at the end */
void dec_keep_use(struct dec *d, ref r, u32 lane_bytes, bool write);
void *dec_alloc(struct dec *d, size_t bytes);

#define OP(base, mods, fn, section) void fn(struct dec *d);
#include "ops.def"
#undef OP

#endif
