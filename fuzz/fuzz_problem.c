/* SPDX-License-Identifier: Apache-2.0
 * Any numbers as a problem, on every device that plans: refused with a sentence, or planned with a
 * workspace that does not shrink as the problem grows. Small accepted problems are decoded on the
 * CPU, in allocations of exactly the size that the strides span, filled with the rest of the input:
 * lengths and tables are lies as often as not, and check_tables must tell. */
#include "bytes.h"
#include "gqa.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 18, MOST_WORK = 1 << 21, MAX_BUFFERS = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "fuzz_problem: %s\n", what);
        abort();
    }
}

/* --- A problem out of bytes ----------------------------------------------------------------- */

static struct gqa_strides choose_strides(struct bytes *b) {
    struct gqa_strides s;
    s.batch = bytes_number(b, 200);
    s.token = bytes_number(b, 200);
    s.head = bytes_number(b, 200);
    return s;
}

static void choose_shape(struct bytes *b, struct gqa_problem *p) {
    p->batch = bytes_number(b, 5);
    p->kv_heads = bytes_int(b, 3);
    p->q_heads = bytes_next(b) < 230 && p->kv_heads > 0 && p->kv_heads < 1000
                     ? p->kv_heads * (1 + bytes_below(b, 9))
                     : bytes_int(b, 9);
    p->head_dim = bytes_next(b) < 230 ? 8 * (1 + bytes_below(b, 8)) : bytes_int(b, 255);
    p->head_dim_v = bytes_next(b) < 128 ? 0 : bytes_int(b, 64);
    p->q_tokens = 1 + bytes_int(b, 4) % 100;
    p->kv_len = bytes_number(b, 70);
    p->q_ragged = bytes_below(b, 4) == 0;
    p->q_total = bytes_number(b, 20);
    p->kv_len_expected = bytes_below(b, 2) ? 0 : bytes_number(b, 70);
    p->kv_batch = bytes_below(b, 2) ? 0 : bytes_number(b, 6);
    p->paging = (enum gqa_paging)bytes_below(b, 3);
    p->page_size = p->paging ? bytes_int(b, 20) : bytes_below(b, 16) == 0;
    p->num_pages = p->paging ? bytes_number(b, 30) : 0;
    p->table_stride = bytes_below(b, 2) ? 0 : bytes_number(b, 40);
}

static void choose_rest(struct bytes *b, struct gqa_problem *p) {
    static const float floats[] = {0, 1, 0.125f, -1, 1e38f, 1e-38f};
    p->kv_type = (enum gqa_type)bytes_below(b, 5 + (bytes_next(b) == 7));
    p->q_type = (enum gqa_type)bytes_below(b, 3 + (bytes_next(b) == 7));
    p->o_type = (enum gqa_type)bytes_below(b, 3 + (bytes_next(b) == 7));
    p->k_scales = (enum gqa_scales)bytes_below(b, 4 + (bytes_next(b) == 7));
    p->v_scales = (enum gqa_scales)bytes_below(b, 4);
    p->causal = bytes_below(b, 2);
    p->window_left = bytes_below(b, 3) ? -1 : bytes_number(b, 40);
    p->scale = floats[bytes_below(b, 6)];
    p->softcap = floats[bytes_below(b, 6)];
    p->has_sinks = bytes_below(b, 2);
    p->has_lse = bytes_below(b, 2);
    p->lse_base = (enum gqa_lse_base)bytes_below(b, 2 + (bytes_next(b) == 7));
    p->split_mode = (enum gqa_split_mode)bytes_below(b, 3 + (bytes_next(b) == 7));
    const int splits = bytes_int(b, 9);
    const int64_t split_tokens = bytes_number(b, 70);
    const bool is_odd = bytes_next(b) == 7; /* refused, both or the wrong one */
    p->splits = is_odd || p->split_mode == GQA_SPLIT_FIXED ? splits : 0;
    p->split_tokens = is_odd || p->split_mode == GQA_SPLIT_INVARIANT ? split_tokens : 0;
    p->reduction = (enum gqa_reduction)bytes_below(b, 6);
    p->pdl = (enum gqa_pdl)bytes_below(b, 4);
    p->precision = (enum gqa_precision)bytes_below(b, 2);
    p->check_tables = 1;
}

/* Most types are refused by GPUs at once; behind them there is more to be tried. */
static void choose_gpu(struct bytes *b, struct gqa_problem *p) {
    static const enum gqa_type types[] = {GQA_BF16, GQA_F16, GQA_E4M3};
    if (bytes_next(b) >= 230)
        return;
    p->q_type = p->o_type = types[bytes_below(b, 2)];
    p->kv_type = bytes_next(b) < 180 ? p->q_type : types[bytes_below(b, 3)];
    p->precision = GQA_PRECISION_FAST;
    p->scale = 0;
    p->softcap = 0;
}

/* Packed strides in *layout, or any, and then *layout is -1. */
static void choose_layout(struct bytes *b, struct gqa_problem *p, int *layout) {
    *layout = bytes_next(b) < 200 ? bytes_below(b, 2) : -1;
    if (*layout >= 0) {
        gqa_problem_pack(p, (enum gqa_layout) * layout);
        return;
    }
    p->q = choose_strides(b);
    p->k = choose_strides(b);
    p->v = choose_strides(b);
    p->o = choose_strides(b);
    p->lse = choose_strides(b);
}

/* --- Decoding a small one ------------------------------------------------------------------- */

/* Everything that one decode owns. `spent` is what it has cost. */
struct memory {
    void *pieces[MAX_BUFFERS];
    int count;
    double spent;
};

/* Exactly `bytes`, the input's own bytes as content where it is to be filled. */
static void *take(struct memory *m, double bytes, struct bytes *fill) {
    if (bytes < 0 || (m->spent += bytes) > MOST_BYTES)
        return NULL;
    uint8_t *piece = NULL;
    if (posix_memalign((void **)&piece, 256, (size_t)bytes ? (size_t)bytes : 1))
        return NULL;
    for (size_t i = 0; fill && i < (size_t)bytes; i++)
        piece[i] = (uint8_t)bytes_next(fill);
    return m->pieces[m->count++] = piece;
}

/* Bytes that strides span, as a double: it is only compared with a small number. */
static double span(const struct gqa_strides *s, double n0, double n1, double n2, double inner,
                   enum gqa_type type) {
    if (n0 < 1 || n1 < 1 || n2 < 1)
        return 0;
    return ((n0 > 1 ? (n0 - 1) * (double)s->batch : 0) +
            (n1 > 1 ? (n1 - 1) * (double)s->token : 0) + (n2 > 1 ? (n2 - 1) * (double)s->head : 0) +
            inner) *
           (double)gqa_type_bytes(type);
}

/* Whole numbers, mostly in 0 .. most, sometimes not. */
static const int32_t *take_whole(struct memory *m, double count, int64_t most, struct bytes *b) {
    int32_t *words = take(m, count * 4, NULL);
    for (size_t i = 0; words && i < (size_t)count; i++)
        words[i] = bytes_int(b, most < 0 ? 0 : most > 200 ? 200 : (int)most);
    return words;
}

/* Offsets that ascend, unless a byte says otherwise. */
static const int32_t *take_offsets(struct memory *m, double count, int step, struct bytes *b) {
    int32_t *words = take(m, count * 4, NULL);
    int64_t at = 0;
    for (size_t i = 0; words && i < (size_t)count; i++) {
        words[i] = (int32_t)at;
        at += bytes_next(b) < 225 ? bytes_below(b, step + 1) : bytes_int(b, 9);
        at = at < INT32_MIN ? INT32_MIN : at > INT32_MAX ? INT32_MAX : at;
    }
    return words;
}

/* What could not be had is NULL, and gqa_decode will say so. */
static struct gqa_tensors take_tensors(struct memory *m, const struct gqa_problem *p,
                                       struct bytes *b) {
    struct gqa_tensors t = gqa_tensors_init();
    const int dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const double n0 = p->q_ragged ? 1 : (double)p->batch;
    const double n1 = p->q_ragged ? (double)p->q_total : p->q_tokens;
    const double entries = p->kv_batch ? (double)p->kv_batch : (double)p->batch;
    const double pool = p->paging ? (double)p->num_pages : entries;
    const double tokens = p->paging ? p->page_size : (double)p->kv_len;
    const int64_t pages = p->page_size > 0 ? (p->kv_len + p->page_size - 1) / p->page_size : 0;
    const double columns = (double)(p->table_stride ? p->table_stride : pages);
    t.q = take(m, span(&p->q, n0, n1, p->q_heads, p->head_dim, p->q_type), b);
    t.k = take(m, span(&p->k, pool, tokens, p->kv_heads, p->head_dim, p->kv_type), b);
    t.v = take(m, span(&p->v, pool, tokens, p->kv_heads, dim_v, p->kv_type), b);
    t.o = take(m, span(&p->o, n0, n1, p->q_heads, dim_v, p->o_type), NULL);
    t.lse = p->has_lse ? take(m, span(&p->lse, n0, n1, p->q_heads, 1, GQA_F32), NULL) : NULL;
    t.kv_lens = bytes_below(b, 4) ? take_whole(m, (double)p->batch, p->kv_len, b) : NULL;
    t.cu_seqlens_q = take_offsets(m, (double)p->batch + 1, p->q_tokens, b);
    t.batch_index = p->kv_batch && bytes_below(b, 4)
                        ? take_whole(m, (double)p->batch, p->kv_batch - 1, b)
                        : NULL;
    t.block_table = take_whole(m, entries * columns, p->num_pages - 1, b);
    t.page_indptr = take_offsets(m, entries + 1, (int)(pages < 99 ? pages : 99), b);
    const int32_t last = t.page_indptr ? t.page_indptr[(size_t)entries] : 0;
    t.page_indices = take_whole(m, last > 0 ? last : 0, p->num_pages - 1, b);
    t.last_page_len = take_whole(m, (double)p->batch, p->page_size, b);
    t.k_scale = take(m, (double)p->batch * p->kv_heads * 4 + 4, b);
    t.v_scale = take(m, (double)p->batch * p->kv_heads * 4 + 4, b);
    t.sinks = take(m, p->q_heads * 4.0, b);
    return t;
}

static void decode(const struct gqa_problem *p, const gqa_plan *plan, struct bytes *b) {
    struct memory m = {.count = 0};
    struct gqa_error err = {0};
    const double work = (double)p->batch * p->q_tokens * p->q_heads * (double)p->kv_len *
                        (p->head_dim + p->head_dim_v);
    const size_t bytes = gqa_plan_workspace(plan);
    const int is_unchecked = p->paging && !p->num_pages; /* by gqa.h; then lies are not told */
    if (is_unchecked || work > MOST_WORK || bytes > 16 * MOST_BYTES)
        return;
    struct gqa_tensors t = take_tensors(&m, p, b);
    void *workspace = NULL;
    if (!posix_memalign(&workspace, 256, bytes ? bytes : 1)) {
        if (gqa_decode(plan, &t, workspace, bytes, NULL, &err))
            demand(err.status != GQA_OK && err.message[0], "a refusal says nothing");
    }
    free(workspace);
    for (int i = 0; i < m.count; i++)
        free(m.pieces[i]);
}

/* --- Planning ------------------------------------------------------------------------------- */

/* The problem, as `gqa plan` takes it. */
static void show(const struct gqa_problem *p, int layout, size_t bytes, size_t least) {
    fprintf(stderr,
            "--batch %lld --q-heads %d --kv-heads %d --head-dim %d --head-dim-v %d --q-tokens %d "
            "--kv-len %lld --kv-len-expected %lld --type %s --page %d --window-left %lld "
            "--split-mode %d --splits %d --split-tokens %lld --reduction %d, layout %d: %zu bytes, "
            "before it grew %zu\n",
            (long long)p->batch, p->q_heads, p->kv_heads, p->head_dim, p->head_dim_v, p->q_tokens,
            (long long)p->kv_len, (long long)p->kv_len_expected, gqa_type_name(p->kv_type),
            p->page_size, (long long)p->window_left, p->split_mode, p->splits,
            (long long)p->split_tokens, p->reduction, layout, bytes, least);
}

static void plan_larger(gqa_device *device, struct gqa_problem p, int layout, size_t least,
                        struct bytes *b) {
    struct gqa_error err = {0};
    gqa_plan *plan;
    switch (bytes_below(b, 3)) {
    case 0:
        p.batch += 1 + bytes_below(b, 40);
        break;
    case 1:
        p.kv_len += 1 + (bytes_next(b) << bytes_below(b, 12));
        p.table_stride = 0;
        break;
    case 2:
        p.q_tokens += 1 + bytes_below(b, 4);
        break;
    }
    if (layout >= 0)
        gqa_problem_pack(&p, (enum gqa_layout)layout);
    if (gqa_plan_create(device, &p, &plan, &err))
        return;
    if (gqa_plan_workspace(plan) < least)
        show(&p, layout, gqa_plan_workspace(plan), least);
    demand(gqa_plan_workspace(plan) >= least, "a larger problem has a smaller workspace");
    gqa_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"cpu", "plan:cpu", "plan:sm_80", "plan:sm_90a",
                                        "plan:sm_100a"};
    static gqa_device *devices[5];
    struct gqa_device_options one = gqa_device_options_init();
    struct bytes b = {data, data + size};
    struct gqa_problem p = gqa_problem_init();
    struct gqa_plan_info info = gqa_plan_info_init();
    struct gqa_error err = {0};
    gqa_plan *plan;
    int layout;
    one.threads = 1;
    for (int i = devices[0] ? 5 : 0; i < 5; i++)
        if (gqa_device_open(names[i], &one, &devices[i], NULL))
            demand(i > 1, "there is no CPU");
    const int which = bytes_next(&b) < 128 ? 0 : bytes_below(&b, 5);
    if (!devices[which])
        return -1;
    choose_shape(&b, &p);
    choose_rest(&b, &p);
    if (which > 1)
        choose_gpu(&b, &p);
    choose_layout(&b, &p, &layout);
    if (gqa_plan_create(devices[which], &p, &plan, &err)) {
        demand(err.status != GQA_OK && err.message[0], "a refusal says nothing");
        return 0;
    }
    demand(!gqa_plan_describe(plan, &info, &err) && info.kernel[0] && info.splits >= 1,
           "a plan without a kernel");
    plan_larger(devices[which], p, layout, gqa_plan_workspace(plan), &b);
    if (which == 0)
        decode(&p, plan, &b);
    gqa_plan_destroy(plan);
    return 0;
}
