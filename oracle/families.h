/* SPDX-License-Identifier: Apache-2.0
 * What the families of named cases are built from. Each families*.c holds some of them; cases.c
 * owns the list. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "cases.h"

#include <stdarg.h>
#include <stdio.h>

/* Put a case at the end of the list. Returns false if there is no memory. */
bool case_push(struct case_list *list, const struct test_case *c);

/* Add the cases of one file. Return false if there is no memory. */
bool families_lengths(struct case_list *list);
bool families_shapes(struct case_list *list);
bool families_cache(struct case_list *list);
bool families_rows(struct case_list *list);

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

struct families {
    struct case_list *list;
    bool ok;
};

/* --- Building blocks --- */

/* The plainest case of all; families change what they are about. */
__attribute__((format(printf, 2, 3))) static inline struct test_case
named(const char *subject, const char *format, ...) {
    struct test_case c = {.p = gqa_problem_init()};
    va_list args;
    va_start(args, format);
    vsnprintf(c.name, sizeof c.name, format, args);
    va_end(args);
    snprintf(c.subject, sizeof c.subject, "%s", subject);
    c.p.batch = 2;
    c.p.q_heads = 8;
    c.p.kv_heads = 2;
    c.p.head_dim = 64;
    c.p.kv_len = 96;
    c.p.q_type = c.p.kv_type = c.p.o_type = GQA_BF16;
    c.p.has_lse = 1;
    c.lens_kind = CASE_LENS_LIST;
    c.lens_count = 2;
    c.lens[0] = 77;
    c.lens[1] = 40;
    return c;
}

static inline void push(struct families *f, const struct test_case *c) {
    f->ok = f->ok && case_push(f->list, c);
}

/* Lengths, one sequence each; capacity is the longest and `spare` slots more. */
#define LENS(c, spare, ...)                                                                        \
    set_lens(c, spare, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static inline void set_lens(struct test_case *c, int spare, const int *lens, int n) {
    c->p.batch = n;
    c->p.kv_len = 0;
    c->lens_kind = CASE_LENS_LIST;
    c->lens_count = n;
    for (int i = 0; i < n; i++) {
        c->lens[i] = lens[i];
        c->p.kv_len = lens[i] > c->p.kv_len ? lens[i] : c->p.kv_len;
    }
    c->p.kv_len += spare;
}

/* Query tokens of the sequences, ragged. */
#define QUERIES(c, ...)                                                                            \
    set_queries(c, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static inline void set_queries(struct test_case *c, const int *lens, int n) {
    c->p.q_ragged = 1;
    c->q_lens_count = n;
    for (int i = 0; i < n; i++)
        c->q_lens[i] = lens[i];
}

static inline void set_heads(struct test_case *c, int q_heads, int kv_heads, int dim, int dim_v) {
    c->p.q_heads = q_heads;
    c->p.kv_heads = kv_heads;
    c->p.head_dim = dim;
    c->p.head_dim_v = dim_v;
}

static inline void set_types(struct test_case *c, enum gqa_type kv) {
    c->p.kv_type = kv;
    c->p.q_type = c->p.o_type = kv == GQA_F32 || kv == GQA_F16 ? kv : GQA_BF16;
}

static inline void set_pages(struct test_case *c, enum gqa_paging paging, int page_size) {
    c->p.paging = paging;
    c->p.page_size = page_size;
}

static const enum gqa_type kv_types[] = {GQA_F32, GQA_BF16, GQA_F16, GQA_E4M3, GQA_E5M2};

#endif
