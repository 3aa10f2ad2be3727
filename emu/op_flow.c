/* op_flow.c: control flow, calls of built-in functions, time.  Branches are in split.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include "check.h"
#include "timing.h"
#include "ops.h"
#include <ctype.h>
#include <stdlib.h>

int op_exit(struct warp *w, const struct insn *i, u32 m) {
    check_lane_exit(w, i, m);
    cluster_lanes_exit(w, m);
    return warp_exit(w, m);
}

void dec_bra(struct dec *d) {
    dec_nops(d, 1, 1);
    dec_label(d, &d->op[0]);
    d->in->fn = op_bra;
}
void dec_brx(struct dec *d) {
    dec_nops(d, 2, 2);
    const struct table *t = d->p->tables;
    while (t && (!d->op[1].name || strcmp(t->name, d->op[1].name)))
        t = t->next;
    if (!t)
        dec_fail(d, "a .branchtargets before it is due");
    if (t->n > 65535)
        dec_fail(d, "more than 65535 targets");
    d->in->a = dec_src(d, &d->op[0], T_U32);
    ref *r = dec_refs(d, t->n);
    for (u32 k = 0; k < t->n; k++) {
        struct opnd label = {.kind = OP_LABEL, .name = t->label[k]};
        dec_label(d, &label);
        d->p->fixups[d->p->nfixups - 1].slot = &r[k];
    }
    d->in->fn = op_brx;
}
void dec_exit(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->fn = op_exit;
}

static int op_trap(struct warp *w, const struct insn *i, u32 m) {
    emu_fault(w, i, "trap executed by lanes 0x%08x", m);
}
void dec_trap(struct dec *d) {
    dec_nops(d, 0, 0);
    d->in->fn = op_trap;
}

static int op_nanosleep(struct warp *w, const struct insn *i, u32 m) {
    const u32 *t = reg_at(w, i->a);
    if (w->time)
        time_sleep(w, t[__builtin_ctz(m)] & 0xfffff);
    else
        w->cta->grid->emu->time_ns += t[__builtin_ctz(m)] & 0xfffff;
    return YIELD;
}
void dec_nanosleep(struct dec *d) {
    dec_nops(d, 1, 1);
    d->in->a = dec_src(d, &d->op[0], T_U32);
    d->in->fn = op_nanosleep;
}
static int op_pmevent(struct warp *w, const struct insn *i, u32 m) {
    (void)w;
    (void)i;
    (void)m;
    return NEXT; /* performance-monitor triggers: no monitor is attached */
}
void dec_pmevent(struct dec *d) {
    d->in->fn = op_pmevent;
}

/* --- vprintf(format, arguments) --- */

static const char *device_string(struct warp *w, const struct insn *i, u64 a) {
    struct allocation *al = mem_find(w->cta->grid->emu, a);
    if (!al || !memchr((const void *)(uintptr_t)a, 0, al->bytes - (a - al->addr)))
        emu_fault(w, i, "printf: the format at 0x%llx is not a string", (unsigned long long)a);
    return (const char *)(uintptr_t)a;
}

static void print_one(FILE *out, const char *spec, size_t n, const u8 *arg, char conv, bool wide,
                      struct warp *w, const struct insn *i) {
    char f[32];
    if (n > 20)
        n = 20;
    memcpy(f, spec, n);
    f[n] = 0;
    u64 v = 0;
    memcpy(&v, arg, 8);
    switch (conv) {
    case 'd':
    case 'i':
        strcat(f, wide ? "lld" : "d");
        if (wide)
            fprintf(out, f, (long long)v);
        else
            fprintf(out, f, (int)v);
        return;
    case 's':
        strcat(f, "s");
        fprintf(out, f, device_string(w, i, v));
        return;
    case 'p':
        fprintf(out, "0x%llx", (unsigned long long)v);
        return;
    case 'c':
        strcat(f, "c");
        fprintf(out, f, (int)v);
        return;
    case 'e':
    case 'f':
    case 'g':
    case 'a':
    case 'E':
    case 'F':
    case 'G':
    case 'A': {
        double x;
        memcpy(&x, arg, 8);
        size_t k = strlen(f);
        f[k] = conv;
        f[k + 1] = 0;
        fprintf(out, f, x);
        return;
    }
    default: {
        size_t k = strlen(f);
        if (wide)
            memcpy(f + k, "ll", 2), k += 2;
        f[k] = conv;
        f[k + 1] = 0;
        if (wide)
            fprintf(out, f, (unsigned long long)v);
        else
            fprintf(out, f, (unsigned)v);
    }
    }
}

static void print_lane(struct warp *w, const struct insn *i, u64 fmt, const u8 *args) {
    struct emu *e = w->cta->grid->emu;
    FILE *out = e->opt.out ? e->opt.out : stdout;
    const char *s = device_string(w, i, fmt);
    for (; *s; s++) {
        if (*s != '%') {
            fputc(*s, out);
            continue;
        }
        if (s[1] == '%') {
            fputc(*s++, out);
            continue;
        }
        const char *b = s++;
        while (*s && strchr("-+ #0123456789.", *s))
            s++;
        size_t n = (size_t)(s - b);
        u32 longs = 0;
        while (*s == 'l' || *s == 'h' || *s == 'z' || *s == 'j')
            longs += *s++ != 'h';
        if (!*s)
            break;
        bool eight = longs || strchr("spefgaEFGA", *s);
        args = (const u8 *)(((uintptr_t)args + (eight ? 7 : 3)) & ~(uintptr_t)(eight ? 7 : 3));
        print_one(out, b, n, args, *s, longs > 0, w, i);
        args += eight ? 8 : 4;
    }
}

/* ops: result area, first argument area, second */
static u64 call_arg(struct warp *w, ref r, u32 stride, u32 l) {
    u64 v;
    memcpy(&v, (const u8 *)reg_at(w, r) + (size_t)l * stride, 8);
    return v;
}
static int op_vprintf(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        u64 fmt = call_arg(w, i->a, 16, l), args = call_arg(w, i->b, 16, l);
        const u8 *p = args ? mem_at(w, i, l, SP_GENERIC, args, 1, ACC_READ) : NULL;
        print_lane(w, i, fmt, p);
        if (i->d != REF_NONE) {
            int n = 0;
            memcpy((u8 *)reg_at(w, i->d) + (size_t)l * 16, &n, 4);
        }
    }
    return NEXT;
}
static int op_assertfail(struct warp *w, const struct insn *i, u32 m) {
    u32 l = (u32)__builtin_ctz(m), line;
    memcpy(&line, (const u8 *)reg_at(w, i->c) + (size_t)l * 16, 4);
    w->cta->grid->emu->asserted = true;
    emu_fault(w, i, "%s:%u: assertion `%s' failed in lane %u",
              device_string(w, i, call_arg(w, i->b, 16, l)), line,
              device_string(w, i, call_arg(w, i->a, 16, l)), l);
}

/* Device-side malloc and free: of the same memory as the driver's. */
static int op_malloc(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        u64 p = emu_alloc(w->cta->grid->emu, call_arg(w, i->a, 16, l));
        memcpy((u8 *)reg_at(w, i->d) + (size_t)l * 16, &p, 8);
    }
    return NEXT;
}
static int op_free(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        u64 p = call_arg(w, i->a, 16, l);
        if (p && !emu_free_mem(w->cta->grid->emu, p))
            emu_fault(w, i, "lane %u: 0x%llx is no allocation", l, (unsigned long long)p);
    }
    return NEXT;
}

/* cudaGraphSetConditional(handle, value): the handle is the address of the value. */
static int op_set_conditional(struct warp *w, const struct insn *i, u32 m) {
    FOR_LANES(l, m) {
        u8 *p = mem_at(w, i, l, SP_GENERIC, call_arg(w, i->a, 16, l), 4, ACC_WRITE);
        memcpy(p, (const u8 *)reg_at(w, i->b) + (size_t)l * 16, 4);
    }
    return NEXT;
}

static ref call_operand(struct dec *d, struct opnd *o) {
    if (o->kind != OP_SYM || o->sym->kind != SYM_CALL || o->sym->bytes != 16)
        dec_fail(d, "an argument must be a .param of at most 16 bytes");
    return REF(BANK_REG, o->sym->reg);
}

void dec_call(struct dec *d) {
    u32 at = 0;
    struct insn *in = d->in;
    if (d->nops && d->op[0].kind == OP_VEC) {
        if (d->op[0].nsub)
            in->d = call_operand(d, &d->op[0].sub[0]);
        at = 1;
    }
    if (at >= d->nops || !d->op[at].name)
        dec_fail(d, "indirect calls are not supported");
    const char *name = d->op[at].name;
    struct opnd *args = at + 1 < d->nops ? &d->op[at + 1] : NULL;
    u32 n = args && args->kind == OP_VEC ? args->nsub : 0;
    if (!strcmp(name, "vprintf") && n == 2) {
        in->a = call_operand(d, &args->sub[0]);
        in->b = call_operand(d, &args->sub[1]);
        in->fn = op_vprintf;
    } else if (!strcmp(name, "__assertfail") && n == 5) {
        in->a = call_operand(d, &args->sub[0]);
        in->b = call_operand(d, &args->sub[1]);
        in->c = call_operand(d, &args->sub[2]);
        in->fn = op_assertfail;
    } else if (!strcmp(name, "malloc") && n == 1 && in->d != REF_NONE) {
        in->a = call_operand(d, &args->sub[0]);
        in->fn = op_malloc;
    } else if (!strcmp(name, "free") && n == 1) {
        in->a = call_operand(d, &args->sub[0]);
        in->fn = op_free;
    } else if (!strcmp(name, "cudaGraphSetConditional") && n == 2) {
        in->a = call_operand(d, &args->sub[0]);
        in->b = call_operand(d, &args->sub[1]);
        in->fn = op_set_conditional;
    } else {
        dec_fail(d,
                 "'%s' is not defined in this module (vprintf, __assertfail, malloc, free and "
                 "cudaGraphSetConditional are)",
                 name);
    }
}
