/* decode.c: one statement to one instruction.  Finds the row of ops.def, checks that every word of
 * the opcode is one the row allows, and gives the decoders their operands as references.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include "machine.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Word groups of ops.def. */
#define INT  " u16 s16 u32 s32 u64 s64 "
#define BITS " b16 b32 b64 "
#define MEMT " b8 u8 s8 b16 u16 s16 b32 u32 s32 b64 u64 s64 b128 f32 f64 f16 bf16 f16x2 bf16x2 "
#define RND  " rn rz rm rp "
#define SEM  " weak relaxed acquire release acq_rel sc volatile mmio cta cluster gpu sys "
#define SPACE                                                                                      \
    " global shared shared::cta shared::cluster local param param::entry param::func const "
#define CACHE                                                                                      \
    " ca cg cs lu cv wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first "               \
    "L1::evict_last "                                                                              \
    "L1::no_allocate L2::cache_hint L2::evict_last L2::evict_normal L2::evict_first L2::64B "      \
    "L2::128B L2::256B unified "
#define VEC " v2 v4 v8 "
#define BULK                                                                                       \
    " shared::cluster shared::cta global mbarrier::complete_tx::bytes bulk_group "                 \
    "multicast::cluster "                                                                          \
    "L2::cache_hint "
#define WMMA                                                                                       \
    " sync aligned m16n16k16 m8n32k16 m32n8k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128 global shared "    \
    "shared::cta"
#define TENSOR                                                                                     \
    " 1d 2d 3d 4d 5d tile tile::gather4 tile::scatter4 im2col im2col_no_offs cta_group::1 "        \
    "cta_group::2 "

const struct op_row op_rows[] = {
#define OP(base, mods, fn, section) {base, mods, section, fn},
#include "ops.def"
#undef OP
};
const u32 op_row_count = sizeof op_rows / sizeof *op_rows;

static const struct {
    const char *name;
    int bytes;
} types[] = {
#define X(n, s, b) {s, b},
    EMU_TYPES(X)
#undef X
};
int type_bytes(enum type t) {
    return types[t].bytes;
}
const char *type_name(enum type t) {
    return types[t].name;
}

void dec_fail(struct dec *d, const char *fmt, ...) {
    char buf[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    parse_fail(d->p, "%.100s: %s", d->text, buf);
}

bool dec_has(struct dec *d, const char *word) {
    for (u32 i = 0; i < d->nwords; i++)
        if (!strcmp(d->word[i], word))
            return true;
    return false;
}

enum type dec_type(struct dec *d, u32 n) {
    for (u32 i = 0; i < d->nwords; i++)
        for (u32 t = 1; t < T_COUNT; t++)
            if (!strcmp(d->word[i], types[t].name) && n-- == 0)
                return t;
    return T_NONE;
}

const char *dec_prefix(struct dec *d, const char *prefix) {
    size_t n = strlen(prefix);
    for (u32 i = 0; i < d->nwords; i++)
        if (!strncmp(d->word[i], prefix, n))
            return d->word[i] + n;
    return NULL;
}

int dec_one_of(struct dec *d, const char *const *list) {
    for (int k = 0; list[k]; k++)
        if (dec_has(d, list[k]))
            return k;
    return -1;
}

void dec_nops(struct dec *d, u32 lo, u32 hi) {
    if (d->nops < lo || d->nops > hi)
        dec_fail(d,
                 lo == hi ? "%u operands where %u are due" : "%u operands where %u to %u are due",
                 d->nops, lo, hi);
}

void *dec_alloc(struct dec *d, size_t bytes) {
    return arena_alloc(d->p->mem, bytes);
}
ref *dec_refs(struct dec *d, u32 n) {
    ref *r = arena_alloc(d->p->mem, n * sizeof *r);
    d->in->ops = r;
    d->in->nops = (u16)n;
    return r;
}

/* --- Constants (bank 1) --- */

ref parse_const(struct parser *p, u64 lo, u64 hi, u32 lane_bytes) {
    u64 key = (lo * 0x9e3779b97f4a7c15ull) ^ (hi * 31) ^ lane_bytes;
    u32 b = (u32)(key >> 40) % 1024;
    u32 bytes = lane_bytes ? lane_bytes * LANES : 64;
    for (u32 k = p->const_bucket[b]; k;) {
        u8 *at = p->consts + k - 64; /* header of 64 bytes before the lanes: lo, hi, width, next */
        u64 h[4];
        memcpy(h, at, sizeof h);
        if (h[0] == lo && h[1] == hi && h[2] == lane_bytes)
            return REF(BANK_CONST, k);
        k = (u32)h[3];
    }
    u32 need = p->const_top + 64 + bytes;
    if (need > p->const_cap) {
        u32 cap = need * 2 + 4096;
        u8 *q = realloc(p->consts, cap);
        if (!q)
            parse_fail(p, "out of memory");
        p->consts = q;
        p->const_cap = cap;
    }
    u8 *at = p->consts + p->const_top;
    u64 h[8] = {lo, hi, lane_bytes, p->const_bucket[b]};
    memcpy(at, h, sizeof h);
    at += 64;
    for (u32 l = 0; l < LANES && lane_bytes; l++) {
        if (lane_bytes == 16) {
            memcpy(at + 16 * l, &lo, 8);
            memcpy(at + 16 * l + 8, &hi, 8);
        } else {
            memcpy(at + lane_bytes * l, &lo, lane_bytes);
        }
    }
    if (!lane_bytes)
        memcpy(at, &lo, 4);
    p->const_bucket[b] = p->const_top + 64;
    p->const_top = need;
    return REF(BANK_CONST, need - bytes);
}

ref dec_const32(struct dec *d, u32 v) {
    return parse_const(d->p, v, 0, 4);
}
ref dec_const64(struct dec *d, u64 v) {
    return parse_const(d->p, v, 0, 8);
}
ref dec_pred_const(struct dec *d, bool v) {
    return parse_const(d->p, v ? 0xffffffffu : 0, 0, 0);
}

/* --- Values of the CTA and the warp (banks 2 and 3) --- */

ref parse_value(struct parser *p, enum special what, u32 dim, u32 bytes) {
    u32 cta_top = 0, warp_top = 0;
    for (u32 i = 0; i < p->nvalues; i++) {
        struct bank_value *v = &p->values[i];
        u32 *top = v->what < SV_WARP ? &cta_top : &warp_top;
        *top = v->off + v->bytes * LANES > *top ? v->off + v->bytes * LANES : *top;
        if (v->what == what && v->dim == dim && v->bytes == bytes && what != SV_SYMBOL)
            return REF(what < SV_WARP ? BANK_CTA : BANK_WARP, v->off);
    }
    p->values = parse_grow(p, p->values, p->nvalues, &p->values_cap, sizeof *p->values);
    u32 off = what < SV_WARP ? cta_top : warp_top;
    p->values[p->nvalues++] =
        (struct bank_value){.what = (u8)what, .dim = (u8)dim, .bytes = (u8)bytes, .off = off};
    *(what < SV_WARP ? &p->fn->cta_bytes : &p->fn->warp_bytes) = off + bytes * LANES;
    return REF(what < SV_WARP ? BANK_CTA : BANK_WARP, off);
}

/* Shared variables get their place in a function when it first names them. */
ref parse_shared_ref(struct parser *p, struct sym *s, s64 addend, u32 bytes, bool generic) {
    struct function *f = p->fn;
    u32 k = 0;
    struct shared_var *v = &p->shared[s->shared];
    while (k < f->nshared && f->shared[k].name != v->name)
        k++;
    if (k == f->nshared) {
        struct shared_var *n = arena_alloc(p->mem, (f->nshared + 1) * sizeof *n);
        if (f->nshared)
            memcpy(n, f->shared, f->nshared * sizeof *n);
        n[k] = *v;
        f->shared = n;
        f->nshared++;
        if (v->dynamic) {
            f->dyn_align = v->align > f->dyn_align ? v->align : f->dyn_align;
        } else {
            u64 off = (p->static_top + (u64)v->align - 1) & ~((u64)v->align - 1);
            if (off + v->bytes > 256 << 10)
                parse_fail(p, "more than 256 KB of shared variables");
            n[k].off = (u32)off;
            p->static_top = (u32)(off + v->bytes);
        }
    }
    for (u32 i = 0; i < p->nvalues; i++) {
        struct bank_value *b = &p->values[i];
        if (b->what == SV_SYMBOL && b->shared == k && b->addend == addend && b->bytes == bytes &&
            b->generic == generic)
            return REF(BANK_CTA, b->off);
    }
    ref r = parse_value(p, SV_SYMBOL, 0, bytes);
    struct bank_value *b = &p->values[p->nvalues - 1];
    b->shared = k;
    b->addend = addend;
    b->generic = generic;
    return r;
}

static const struct {
    const char *name;
    u8 what, dims;
} specials[] = {
    {"%tid", SV_TID, 3},
    {"%ntid", SV_NTID, 3},
    {"%ctaid", SV_CTAID, 3},
    {"%nctaid", SV_NCTAID, 3},
    {"%clusterid", SV_CLUSTERID, 3},
    {"%nclusterid", SV_NCLUSTERID, 3},
    {"%cluster_ctaid", SV_CLUSTER_CTAID, 3},
    {"%cluster_nctaid", SV_CLUSTER_NCTAID, 3},
    {"%cluster_ctarank", SV_CLUSTER_CTARANK, 0},
    {"%cluster_nctarank", SV_CLUSTER_NCTARANK, 0},
    {"%is_explicit_cluster", SV_EXPLICIT_CLUSTER, 0},
    {"%laneid", SV_LANEID, 0},
    {"%warpid", SV_WARPID, 0},
    {"%nwarpid", SV_NWARPID, 0},
    {"%smid", SV_SMID, 0},
    {"%nsmid", SV_NSMID, 0},
    {"%gridid", SV_GRIDID, 0},
    {"%lanemask_eq", SV_LANEMASK_EQ, 0},
    {"%lanemask_lt", SV_LANEMASK_LT, 0},
    {"%lanemask_le", SV_LANEMASK_LE, 0},
    {"%lanemask_gt", SV_LANEMASK_GT, 0},
    {"%lanemask_ge", SV_LANEMASK_GE, 0},
    {"%dynamic_smem_size", SV_DYN_SMEM, 0},
    {"%total_smem_size", SV_TOTAL_SMEM, 0},
};

bool parse_special(struct parser *p, const char *name, u32 bytes, ref *out) {
    for (u32 i = 0; i < sizeof specials / sizeof *specials; i++) {
        size_t n = strlen(specials[i].name);
        if (strncmp(name, specials[i].name, n))
            continue;
        u32 dim = 0;
        if (specials[i].dims) {
            if (name[n] != '.' || name[n + 1] < 'w' || name[n + 1] > 'z' || name[n + 2])
                continue;
            dim = name[n + 1] == 'w' ? 3 : (u32)(name[n + 1] - 'x');
        } else if (name[n]) {
            continue;
        }
        *out = parse_value(p, dim == 3 ? SV_ZERO : specials[i].what, dim, bytes);
        return true;
    }
    return false;
}

/* --- Operands --- */

static u32 lane_bytes_of(enum type t) {
    int b = type_bytes(t);
    return t == T_PRED ? 0 : b <= 4 ? 4u : (u32)b;
}

void dec_keep_use(struct dec *d, ref r, u32 lane_bytes, bool write) {
    struct parser *p = d->p;
    if (REF_BANK(r) != BANK_REG || r == REF_NONE)
        return;
    p->uses = parse_grow(p, p->uses, p->nuses, &p->uses_cap, sizeof *p->uses);
    p->uses[p->nuses++] = (struct use){.r = r & ~3u, .bytes = (u8)lane_bytes, .written = write};
}

ref dec_any(struct dec *d, struct opnd *o, bool write, u32 *lane_bytes) {
    o = dec_only(o);
    if (o->part)
        dec_fail(d, "part .%s of a register: not in this instruction", o->part);
    if (o->kind != OP_REG || !o->lane_bytes)
        dec_fail(d, "a register is due here");
    *lane_bytes = o->lane_bytes;
    dec_keep_use(d, o->r, o->lane_bytes, write);
    return o->r;
}

ref dec_dst(struct dec *d, struct opnd *o, enum type t) {
    if (t == T_PRED)
        return dec_pred(d, o, true);
    o = dec_only(o);
    if (o->kind == OP_SINK)
        return REF(BANK_REG, 0) | REF_SINK;
    if (o->kind != OP_REG)
        dec_fail(d, "the destination must be a register");
    if (o->part)
        dec_fail(d, "part .%s of a register: not in this instruction", o->part);
    if (o->lane_bytes != lane_bytes_of(t))
        dec_fail(d, "a .%s register cannot take a .%s result", type_name(o->rtype), type_name(t));
    dec_keep_use(d, o->r, o->lane_bytes, true);
    return o->r;
}

static u64 float_bits(struct dec *d, struct opnd *o, enum type t) {
    if (t == T_F64 || t == T_B64 || t == T_U64 || t == T_S64) {
        u64 b;
        memcpy(&b, &o->f, 8);
        return b;
    }
    if (type_bytes(t) == 4) {
        if (o->is_f32)
            return (u64)o->integer & 0xffffffffu;
        float f = (float)o->f;
        u32 b;
        memcpy(&b, &f, 4);
        return b;
    }
    dec_fail(d, "a floating-point constant cannot be a .%s", type_name(t));
}

static ref sym_ref(struct dec *d, struct opnd *o, u32 bytes) {
    struct sym *s = o->sym;
    switch (s->kind) {
    case SYM_SHARED:
        return parse_shared_ref(d->p, s, o->integer, bytes, false);
    case SYM_GLOBAL:
    case SYM_LOCAL:
    case SYM_PARAM:
    case SYM_FUNC:
        return parse_const(d->p, s->addr + (u64)o->integer, 0, bytes);
    default:
        dec_fail(d, "'%s' has no address here", s->name);
    }
}

ref dec_src(struct dec *d, struct opnd *o, enum type t) {
    if (t == T_PRED)
        return dec_pred(d, o, false);
    u32 lane = lane_bytes_of(t);
    ref r;
    o = dec_only(o);
    switch (o->kind) {
    case OP_REG:
        if (o->lane_bytes != lane)
            dec_fail(d, "a .%s register cannot be a .%s operand", type_name(o->rtype),
                     type_name(t));
        if (o->negated)
            dec_fail(d, "a negated register is not supported here");
        if (o->part)
            dec_fail(d, "part .%s of a register: not in this instruction", o->part);
        dec_keep_use(d, o->r, lane, false);
        return o->r;
    case OP_INT: {
        u64 v = (u64)o->integer;
        int b = type_bytes(t);
        if (b < 8)
            v &= (1ull << 8 * b) - 1;
        return parse_const(d->p, v, lane == 16 && o->integer < 0 ? ~0ull : 0, lane);
    }
    case OP_FLOAT:
        return parse_const(d->p, float_bits(d, o, t), 0, lane);
    case OP_SYM:
        return sym_ref(d, o, lane);
    case OP_SPECIAL:
        if (lane <= 8 && lane && parse_special(d->p, o->name, lane, &r))
            return r;
        dec_fail(d, "special register '%s' is not supported here", o->name);
    default:
        break;
    }
    if (o->name)
        dec_fail(d, "'%s' is not declared", o->name);
    dec_fail(d, "this operand cannot be a .%s source", type_name(t));
}

ref dec_pred(struct dec *d, struct opnd *o, bool write) {
    if (write && o->kind == OP_SINK)
        return REF(BANK_REG, SCRATCH_PRED) | REF_SINK;
    if (!write && o->kind == OP_INT)
        return dec_pred_const(d, o->integer != 0);
    if (o->kind != OP_REG || o->lane_bytes || o->part || (write && o->negated)) {
        if (o->name && o->kind == OP_LABEL)
            dec_fail(d, "'%s' is not declared", o->name);
        dec_fail(d, "a predicate is due here");
    }
    dec_keep_use(d, o->r, 0, write);
    return o->r | (o->negated ? REF_NEG : 0);
}

s64 dec_imm(struct dec *d, struct opnd *o) {
    if (o->kind != OP_INT)
        dec_fail(d, "an integer constant is due here");
    return o->integer;
}

void dec_vec(struct dec *d, struct opnd *o, enum type t, bool write, ref *out, u32 n) {
    if (o->kind != OP_VEC) {
        if (n != 1)
            dec_fail(d, "a list of %u operands is due", n);
        out[0] = write ? dec_dst(d, o, t) : dec_src(d, o, t);
        return;
    }
    if (o->nsub != n)
        dec_fail(d, "%u elements where %u are due", o->nsub, n);
    for (u32 i = 0; i < n; i++)
        out[i] = write ? dec_dst(d, &o->sub[i], t) : dec_src(d, &o->sub[i], t);
}

/* `[reg + imm]`, `[symbol + imm]`, `[imm]`. */
ref dec_addr(struct dec *d, struct opnd *o, enum space sp, s64 *off, bool *wide) {
    struct opnd *a = o->kind == OP_MEM ? (o->nsub ? &o->sub[0] : NULL) : o;
    if (!a)
        dec_fail(d, "an empty address");
    *off = 0;
    switch (a->kind) {
    case OP_REG:
        if (a->lane_bytes != 4 && a->lane_bytes != 8)
            dec_fail(d, "an address must be a 32- or 64-bit register");
        *wide = a->lane_bytes == 8;
        *off = a->integer;
        dec_keep_use(d, a->r, a->lane_bytes, false);
        return a->r;
    case OP_INT:
        *wide = true;
        return parse_const(d->p, (u64)a->integer, 0, 8);
    case OP_SYM:
        *wide = true;
        if (a->sym->kind == SYM_SHARED)
            return parse_shared_ref(d->p, a->sym, a->integer, 8, sp == SP_GENERIC);
        if (sp == SP_GENERIC && (a->sym->kind == SYM_LOCAL || a->sym->kind == SYM_PARAM))
            return parse_const(d->p,
                               a->sym->addr + (u64)a->integer +
                                   (a->sym->kind == SYM_LOCAL ? WIN_LOCAL : WIN_PARAM),
                               0, 8);
        return sym_ref(d, a, 8);
    default:
        break;
    }
    if (a->name)
        dec_fail(d, "'%s' is not declared", a->name);
    dec_fail(d, "this is not an address");
}

enum space dec_space(struct dec *d) {
    if (dec_has(d, "global"))
        return SP_GLOBAL;
    if (dec_has(d, "shared") || dec_has(d, "shared::cta"))
        return SP_SHARED;
    if (dec_has(d, "shared::cluster"))
        return SP_CLUSTER;
    if (dec_has(d, "local"))
        return SP_LOCAL;
    if (dec_has(d, "param") || dec_has(d, "param::entry") || dec_has(d, "param::func"))
        return SP_PARAM;
    if (dec_has(d, "const"))
        return SP_CONST;
    return SP_GENERIC;
}

u8 dec_sem(struct dec *d) {
    u8 s = 0;
    if (dec_has(d, "relaxed"))
        s = SEM_RELAXED;
    else if (dec_has(d, "acquire"))
        s = SEM_ACQUIRE;
    else if (dec_has(d, "release"))
        s = SEM_RELEASE;
    else if (dec_has(d, "acq_rel"))
        s = SEM_ACQ_REL;
    else if (dec_has(d, "sc"))
        s = SEM_ACQ_REL | SEM_SC;
    else if (dec_has(d, "volatile"))
        s = SEM_VOLATILE;
    if (dec_has(d, "sys"))
        s |= SCOPE_SYS;
    else if (dec_has(d, "gpu"))
        s |= SCOPE_GPU;
    else if (dec_has(d, "cluster"))
        s |= SCOPE_CLUSTER;
    return s;
}

void dec_label(struct dec *d, struct opnd *o) {
    struct parser *p = d->p;
    if (!o->name)
        dec_fail(d, "a label is due here");
    p->fixups = parse_grow(p, p->fixups, p->nfixups, &p->fixups_cap, sizeof *p->fixups);
    p->fixups[p->nfixups++] = (struct fixup){o->name, p->ncode, p->scope, p->x.tok_line, NULL};
}

/* --- The statement --- */

/* Longest base name wins: `cp.async.bulk.tensor` before `cp.async`. */
static u32 find_row(const char *opcode, u32 len) {
    u32 best = op_row_count;
    size_t best_len = 0;
    for (u32 r = 0; r < op_row_count; r++) {
        size_t n = strlen(op_rows[r].base);
        if (n > len || n <= best_len || memcmp(op_rows[r].base, opcode, n) ||
            (n < len && opcode[n] != '.'))
            continue;
        best = r;
        best_len = n;
    }
    return best;
}

static bool allowed(const char *mods, const char *word) {
    size_t n = strlen(word);
    for (const char *s = mods; *s;) {
        while (*s == ' ')
            s++;
        const char *e = s;
        while (*e && *e != ' ')
            e++;
        size_t k = (size_t)(e - s);
        if (k == n && !memcmp(s, word, n))
            return true;
        if (k && s[k - 1] == '*' && n >= k - 1 && !memcmp(s, word, k - 1))
            return true;
        s = e;
    }
    return false;
}

static void split_words(struct dec *d, const char *opcode, u32 len, size_t base) {
    struct parser *p = d->p;
    if (len >= sizeof p->words)
        parse_fail(p, "an opcode of %u characters", len);
    memcpy(p->words, opcode, len);
    p->words[len] = 0;
    for (char *s = p->words + base; *s;) {
        if (*s != '.')
            parse_fail(p, "opcode '%s' cannot be read", d->text);
        *s++ = 0;
        if (d->nwords == MAX_WORDS)
            parse_fail(p, "too many modifiers in '%s'", d->text);
        d->word[d->nwords++] = s;
        while (*s && *s != '.')
            s++;
    }
}

void decode_statement(struct parser *p, const char *opcode, u32 len, ref guard, struct opnd *ops,
                      u32 nops) {
    struct dec d = {.p = p, .text = arena_str(p->mem, opcode, len > 120 ? 120 : len)};
    d.row = find_row(opcode, len);
    if (d.row == op_row_count)
        parse_fail(p, "instruction '%s' is not known (%s:%u)", d.text,
                   p->here.file < p->mod->nfiles && p->mod->files[p->here.file]
                       ? p->mod->files[p->here.file]
                       : "no .loc",
                   p->here.line);
    split_words(&d, opcode, len, strlen(op_rows[d.row].base));
    for (u32 i = 0; i < d.nwords; i++)
        if (!allowed(op_rows[d.row].mods, d.word[i]))
            dec_fail(&d, "modifier '.%s' is not known here", d.word[i]);
    if (nops)
        memcpy(d.op, ops, nops * sizeof *ops);
    d.nops = nops;
    struct insn in = {.d = REF_NONE,
                      .a = REF_NONE,
                      .b = REF_NONE,
                      .c = REF_NONE,
                      .guard = guard,
                      .op = (u16)d.row,
                      .target = REF_NONE,
                      .rejoin = REF_NONE};
    d.in = &in;
    in.uses = p->nuses;
    if (guard != REF_NONE)
        dec_keep_use(&d, guard, 0, false);
    op_rows[d.row].decode(&d);
    if (!in.fn)
        dec_fail(&d, "this form is not supported");
    if (guard == REF_NONE && (dec_has(&d, "aligned") || !strcmp(op_rows[d.row].base, "bar")))
        in.flags |= INSN_MEET;
    if (p->nuses > in.uses) {
        p->uses[p->nuses - 1].last = 1;
    } else {
        in.uses = REF_NONE;
    }
    p->locs = parse_grow(p, p->locs, p->nlocs, &p->locs_cap, sizeof *p->locs);
    in.loc = p->nlocs;
    p->locs[p->nlocs++] = p->here;
    p->code = parse_grow(p, p->code, p->ncode, &p->code_cap, sizeof *p->code);
    p->texts = parse_grow(p, p->texts, p->ncode, &p->texts_cap, sizeof *p->texts);
    p->texts[p->ncode] = d.text;
    p->code[p->ncode++] = in;
}
