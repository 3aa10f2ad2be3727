/* lanes.h: loops over the lanes of a warp.  With all lanes active the loop has no condition and the
 * compiler vectorises it; source and destination may be the same register, never overlap otherwise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_LANES_H
#define EMU_LANES_H

#include "machine.h"
#include "parse.h"
#include <string.h>

#if defined __clang__
/* below -O2 it says that it did not vectorise */
#pragma clang diagnostic ignored "-Wpass-failed"
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined __GNUC__
#define IVDEP _Pragma("GCC ivdep")
#endif

#define EACH_LANE(m, ...)                                                                          \
    do {                                                                                           \
        if ((m) == ~0u) {                                                                          \
            IVDEP for (u32 l = 0; l < LANES; l++) __VA_ARGS__                                      \
        } else {                                                                                   \
            FOR_LANES(l, m) __VA_ARGS__                                                            \
        }                                                                                          \
    } while (0)

/* d = f(a), f(a, b), f(a, b, c).  L: how a lane is stored; T: how it is read; U: how the result is
 * cut before it is stored. */
#define DEF1(name, L, T, U, expr)                                                                  \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        L *pd = reg_at(w, i->d);                                                                   \
        const L *pa = reg_at(w, i->a);                                                             \
        EACH_LANE(m, {                                                                             \
            const T a = (T)pa[l];                                                                  \
            pd[l] = (L)(U)(expr);                                                                  \
        });                                                                                        \
        return NEXT;                                                                               \
    }
#define DEF2(name, L, T, U, expr)                                                                  \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        L *pd = reg_at(w, i->d);                                                                   \
        const L *pa = reg_at(w, i->a), *pb = reg_at(w, i->b);                                      \
        EACH_LANE(m, {                                                                             \
            const T a = (T)pa[l], b = (T)pb[l];                                                    \
            pd[l] = (L)(U)(expr);                                                                  \
        });                                                                                        \
        return NEXT;                                                                               \
    }
#define DEF3(name, L, T, U, expr)                                                                  \
    static int name(struct warp *w, const struct insn *i, u32 m) {                                 \
        L *pd = reg_at(w, i->d);                                                                   \
        const L *pa = reg_at(w, i->a), *pb = reg_at(w, i->b), *pc = reg_at(w, i->c);               \
        EACH_LANE(m, {                                                                             \
            const T a = (T)pa[l], b = (T)pb[l], c = (T)pc[l];                                      \
            pd[l] = (L)(U)(expr);                                                                  \
        });                                                                                        \
        return NEXT;                                                                               \
    }

/* Operands of the common shapes. */
static inline void dec_1(struct dec *d, enum type t) {
    dec_nops(d, 2, 2);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
}
static inline void dec_2(struct dec *d, enum type t) {
    dec_nops(d, 3, 3);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], t);
}
static inline void dec_3(struct dec *d, enum type t) {
    dec_nops(d, 4, 4);
    d->in->d = dec_dst(d, &d->op[0], t);
    d->in->a = dec_src(d, &d->op[1], t);
    d->in->b = dec_src(d, &d->op[2], t);
    d->in->c = dec_src(d, &d->op[3], t);
}

/* name, expression; made for 16, 32 and 64 bits, with a table by type */
#define WRAP2(n, e)                                                                                \
    DEF2(n##_16, u32, u32, u16, e)                                                                 \
    DEF2(n##_32, u32, u32, u32, e)                                                                 \
    DEF2(n##_64, u64, u64, u64, e)                                                                 \
    WRAP_TABLE(n)
#define WRAP1(n, e)                                                                                \
    DEF1(n##_16, u32, u16, u16, e)                                                                 \
    DEF1(n##_32, u32, u32, u32, e)                                                                 \
    DEF1(n##_64, u64, u64, u64, e)                                                                 \
    WRAP_TABLE(n)
#define WRAP_TABLE(n)                                                                              \
    static const handler t_##n[T_COUNT] = {                                                        \
        [T_B16] = n##_16, [T_U16] = n##_16, [T_S16] = n##_16, [T_B32] = n##_32, [T_U32] = n##_32,  \
        [T_S32] = n##_32, [T_B64] = n##_64, [T_U64] = n##_64, [T_S64] = n##_64};

/* The handler by type out of such a table. */
static inline void dec_table2(struct dec *d, const handler *table) {
    enum type t = dec_type(d, 0);
    dec_2(d, t);
    d->in->fn = table[t];
}
static inline void dec_table1(struct dec *d, const handler *table) {
    enum type t = dec_type(d, 0);
    dec_1(d, t);
    d->in->fn = table[t];
}

#endif
