/* SPDX-License-Identifier: Apache-2.0
 * The list of cases and the random ones; the named ones are in families_*.c. */
#include "cases.h"
#include "families.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Size --- */

double case_work(const struct test_case *c) {
    const struct gqa_problem *p = &c->p;
    const double dims = p->head_dim + (p->head_dim_v ? p->head_dim_v : p->head_dim);
    double len = (double)p->kv_len, tokens = p->q_tokens;
    if (c->lens_kind == CASE_LENS_LIST) {
        len = 0;
        for (int i = 0; i < c->lens_count; i++)
            len += (double)c->lens[i] / c->lens_count;
    } else if (c->lens_kind != CASE_LENS_NULL) {
        len /= 2;
    }
    if (p->q_ragged) {
        tokens = 0;
        for (int i = 0; i < c->q_lens_count; i++)
            tokens += (double)c->q_lens[i] / c->q_lens_count;
    }
    return (double)p->batch * len * tokens * p->q_heads * dims;
}

static enum case_level level_of(const struct test_case *c) {
    const double work = case_work(c);
    const enum case_level by_work = work <= 0x1p20   ? CASE_QUICK
                                    : work <= 0x1p25 ? CASE_NORMAL
                                                     : CASE_SLOW;
    return c->level > by_work ? c->level : by_work;
}

/* --- Random combinations --- */

static int pick(struct case_random_state *r, const int *values, int n) {
    return values[case_below(r, n)];
}

#define PICK(r, ...)                                                                               \
    pick(r, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static bool chance(struct case_random_state *r, int percent) {
    return case_below(r, 100) < percent;
}

static void random_shape(struct case_random_state *r, struct test_case *c) {
    struct gqa_problem *p = &c->p;
    p->batch = PICK(r, 1, 1, 2, 3, 5, 8, 17);
    p->kv_heads = PICK(r, 1, 1, 2, 3, 4, 8);
    p->q_heads = p->kv_heads * PICK(r, 1, 1, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 24, 32);
    p->head_dim = PICK(r, 64, 64, 128, 128, 128, 256, 8, 40, 72, 80, 96, 112, 192);
    p->head_dim_v = chance(r, 15) ? PICK(r, 64, 128, 8, 96) : 0;
    p->kv_len = PICK(r, 1, 7, 64, 65, 128, 200, 300, 513, 1030, 2200);
    p->kv_len_expected = chance(r, 20) ? 1 + case_below(r, p->kv_len) : 0;
    c->lens_kind =
        (enum case_lens)PICK(r, CASE_LENS_NULL, CASE_LENS_RANDOM, CASE_LENS_RANDOM, CASE_LENS_RAMP);
    if (chance(r, 60))
        return;
    p->q_tokens = 1 + (int)case_below(r, 16);
    if (!chance(r, 40))
        return;
    p->q_ragged = 1;
    c->q_lens_count = 1 + (int)case_below(r, 6);
    for (int i = 0; i < c->q_lens_count; i++)
        c->q_lens[i] = (int32_t)case_below(r, p->q_tokens + 1);
    c->q_spare = (int)case_below(r, 3);
}

static void random_types(struct case_random_state *r, struct test_case *c) {
    struct gqa_problem *p = &c->p;
    p->q_type = (enum gqa_type)PICK(r, GQA_F32, GQA_BF16, GQA_BF16, GQA_F16);
    p->kv_type =
        (enum gqa_type)PICK(r, GQA_F32, GQA_BF16, GQA_BF16, GQA_F16, GQA_F16, GQA_E4M3, GQA_E5M2);
    p->o_type = (enum gqa_type)PICK(r, GQA_F32, GQA_BF16, GQA_F16);
    if (chance(r, 50) && p->kv_type != GQA_F32)
        p->q_type = p->o_type = p->kv_type == GQA_F16 ? GQA_F16 : GQA_BF16;
    if (chance(r, 40)) {
        p->k_scales = (enum gqa_scales)case_below(r, 4);
        p->v_scales = (enum gqa_scales)case_below(r, 4);
    }
    p->precision = (enum gqa_precision)chance(r, 30);
}

static void random_layout(struct case_random_state *r, struct test_case *c) {
    struct gqa_problem *p = &c->p;
    p->paging = (enum gqa_paging)PICK(r, GQA_CONTIGUOUS, GQA_PAGED_TABLE, GQA_PAGED_CSR);
    c->layout = (enum case_layout)PICK(r, CASE_HND, CASE_HND, CASE_NHD, CASE_NHD, CASE_INTERLEAVED,
                                       CASE_FUSED, CASE_SLICED, CASE_BROADCAST);
    c->rows = (enum case_rows)PICK(r, CASE_ROWS_PACKED, CASE_ROWS_PACKED, CASE_ROWS_FUSED,
                                   CASE_ROWS_HEADS, CASE_ROWS_SHARED);
    if (p->paging != GQA_CONTIGUOUS) {
        p->page_size = PICK(r, 16, 16, 64, 128, 1, 7, 8, 32);
        c->hide_pages = chance(r, 30);
        c->share_pages = chance(r, 20);
        p->check_tables = chance(r, 20);
    }
    if (p->paging == GQA_PAGED_TABLE && chance(r, 50))
        p->table_stride = (p->kv_len + p->page_size - 1) / p->page_size + 3;
    if (p->paging == GQA_PAGED_CSR) {
        c->use_last_page = chance(r, 30);
        c->no_last_page = !c->use_last_page && c->lens_kind != CASE_LENS_NULL && chance(r, 30);
    }
    c->use_index = chance(r, 25);
    c->share_entries =
        c->use_index && !c->use_last_page && chance(r, 30) && c->lens_kind != CASE_LENS_NULL;
}

static void random_meaning(struct case_random_state *r, struct test_case *c) {
    struct gqa_problem *p = &c->p;
    p->causal = chance(r, 70);
    p->window_left = chance(r, 30) ? PICK(r, 0, 1, 5, 31, 63, 64, 127, 128) : -1;
    p->scale = chance(r, 20) ? 0.3f : 0;
    p->softcap = chance(r, 20) ? (float)PICK(r, 5, 30, 50) : 0;
    p->has_sinks = chance(r, 25);
    p->has_lse = chance(r, 70);
    p->lse_base = (enum gqa_lse_base)chance(r, 40);
    p->split_mode = (enum gqa_split_mode)PICK(r, GQA_SPLIT_AUTO, GQA_SPLIT_AUTO, GQA_SPLIT_FIXED,
                                              GQA_SPLIT_INVARIANT);
    p->splits = p->split_mode == GQA_SPLIT_FIXED ? PICK(r, 1, 2, 3, 7, 16) : 0;
    p->split_tokens = p->split_mode == GQA_SPLIT_INVARIANT ? PICK(r, 0, 64, 100, 256) : 0;
    c->data = (enum case_data)PICK(r, CASE_NORMAL_DATA, CASE_NORMAL_DATA, CASE_PEAKED, CASE_PEAKED,
                                   CASE_EDGE, CASE_EQUAL_KEYS);
}

void case_random(uint64_t n, struct test_case *c) {
    struct case_random_state r = {n * 0x9e3779b97f4a7c15u + 99};
    do {
        *c = (struct test_case){.p = gqa_problem_init()};
        random_shape(&r, c);
        random_types(&r, c);
        random_layout(&r, c);
        random_meaning(&r, c);
    } while (case_work(c) > 0x1p23);
    snprintf(c->name, sizeof c->name, "random/%llu", (unsigned long long)n);
    snprintf(c->subject, sizeof c->subject, "a random combination of features");
    c->level = level_of(c);
}

/* --- The list --- */

bool case_push(struct case_list *list, const struct test_case *c) {
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 256;
        struct test_case *more = realloc(list->cases, room * sizeof *more);
        if (!more)
            return false;
        list->cases = more;
        list->room = room;
    }
    list->cases[list->count] = *c;
    list->cases[list->count++].level = level_of(c);
    return true;
}

bool case_list_init(struct case_list *list, int random) {
    *list = (struct case_list){0};
    bool ok = families_lengths(list) && families_shapes(list) && families_cache(list) &&
              families_rows(list);
    for (int n = 0; ok && n < random; n++) {
        struct test_case c;
        case_random((uint64_t)n, &c);
        ok = case_push(list, &c);
    }
    if (!ok)
        case_list_free(list);
    return ok;
}

void case_list_free(struct case_list *list) {
    free(list->cases);
    *list = (struct case_list){0};
}

bool case_find(const char *name, struct test_case *found) {
    unsigned long long n;
    char end;
    if (sscanf(name, "random/%llu%c", &n, &end) == 1) {
        case_random(n, found);
        return true;
    }
    struct case_list list;
    bool is_there = false;
    if (!case_list_init(&list, 0))
        return false;
    for (size_t i = 0; i < list.count && !is_there; i++)
        if (!strcmp(list.cases[i].name, name)) {
            *found = list.cases[i];
            is_there = true;
        }
    case_list_free(&list);
    return is_there;
}

void case_from_problem(const struct gqa_problem *p, enum case_layout layout, struct test_case *c) {
    *c = (struct test_case){.p = *p, .layout = layout};
    snprintf(c->name, sizeof c->name, "custom");
    snprintf(c->subject, sizeof c->subject, "a shape of the caller's");
    c->level = level_of(c);
}
