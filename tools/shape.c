/* SPDX-License-Identifier: Apache-2.0
 * Options to struct gqa_problem and to an open device. */
#include "shape.h"

#include <string.h>

static const char *const type_names[] = {"f32", "bf16", "f16", "e4m3", "e5m2", NULL};
static const char *const row_type_names[] = {"f32", "bf16", "f16", NULL};
static const char *const layout_names[] = {"hnd", "nhd", NULL};
static const char *const paging_names[] = {"contiguous", "table", "csr", NULL};
static const char *const scales_names[] = {"none", "tensor", "head", "batch-head", NULL};
static const char *const base_names[] = {"e", "2", NULL};
static const char *const split_names[] = {"auto", "fixed", "invariant", NULL};
static const char *reduction_names[GQA_REDUCE_GRID + 2]; /* of gqa_reduction_name */
static const char *const pdl_names[] = {"auto", "off", "on", "early", NULL};
static const char *const precision_names[] = {"fast", "exact", NULL};

#define HEADING(text)                                                                              \
    { NULL, FLAG_HEADING, NULL, NULL, text, NULL, 0, 0 }
#define WHOLE(name, kind, value, help)                                                             \
    { name, kind, value, "N", help, NULL, 0, 0 }
#define CHOICE(name, value, names, help)                                                           \
    { name, FLAG_CHOICE, value, NULL, help, names, 0, 0 }
#define YES(name, value, help)                                                                     \
    { name, FLAG_YES, value, NULL, help, NULL, 0, 0 }
#define NUMBER(name, value, help)                                                                  \
    { name, FLAG_FLOAT, value, "X", help, NULL, 0, 0 }

static int size_flags(struct shape *s, struct flag *out) {
    struct gqa_problem *p = &s->p;
    const struct flag flags[] = {
        HEADING("Shape (the words of gqa.h; group = q-heads / kv-heads)"),
        WHOLE("batch", FLAG_INT64, &p->batch, "sequences (1)"),
        WHOLE("q-heads", FLAG_INT, &p->q_heads, "query heads (32)"),
        WHOLE("kv-heads", FLAG_INT, &p->kv_heads, "key/value heads (8)"),
        WHOLE("head-dim", FLAG_INT, &p->head_dim, "elements per head of Q and K (128)"),
        WHOLE("head-dim-v", FLAG_INT, &p->head_dim_v, "of V and O (as head-dim)"),
        WHOLE("q-tokens", FLAG_INT, &p->q_tokens, "query tokens per sequence (1)"),
        YES("q-ragged", &s->is_ragged, "sequences have 0 .. q-tokens query tokens"),
        WHOLE("q-total", FLAG_INT64, &p->q_total, "rows of Q where ragged (batch x q-tokens)"),
        WHOLE("kv-len", FLAG_INT64, &p->kv_len, "capacity of the cache, in tokens (4096)"),
        WHOLE("kv-batch", FLAG_INT64, &p->kv_batch, "entries of the cache (batch)"),
        CHOICE("type", &s->kv_type, type_names, "element type of K and V (bf16)"),
        CHOICE("q-type", &s->q_type, row_type_names,
               "of Q (as K if it has 16 or 32 bits, or bf16)"),
        CHOICE("layout", &s->layout, layout_names, "of K and V (hnd: a head's tokens together)"),
        WHOLE("page", FLAG_INT, &p->page_size, "tokens per page; makes the cache paged"),
        CHOICE("paging", &s->paging, paging_names, "(table if --page is given)"),
        WHOLE("num-pages", FLAG_INT64, &p->num_pages, "pages of the pools (unknown)"),
        WHOLE("table-stride", FLAG_INT64, &p->table_stride, "columns of the block table"),
        CHOICE("k-scales", &s->k_scales, scales_names, "shape of k_scale (none)"),
        CHOICE("v-scales", &s->v_scales, scales_names, "shape of v_scale (none)"),
        YES("sinks", &s->has_sinks, "one attention sink per query head"),
    };
    memcpy(out, flags, sizeof flags);
    return sizeof flags / sizeof *flags;
}

static int option_flags(struct shape *s, struct flag *out) {
    struct gqa_problem *p = &s->p;
    for (int r = 0; r <= GQA_REDUCE_GRID; r++)
        reduction_names[r] = gqa_reduction_name((enum gqa_reduction)r);
    const struct flag flags[] = {
        HEADING("What is computed"),
        CHOICE("o-type", &s->o_type, row_type_names, "element type of the output (as Q)"),
        {"no-causal", FLAG_NO, &s->is_causal, NULL, "query tokens see all keys", NULL, 0, 0},
        WHOLE("window-left", FLAG_INT64, &p->window_left,
              "a query sees its own position and N keys before it (-1: all)"),
        NUMBER("scale", &p->scale, "multiplies q . k (1 / sqrt(head-dim))"),
        NUMBER("softcap", &p->softcap, "scores become X * tanh(score / X) (off)"),
        YES("lse", &s->has_lse, "also the log-sum-exp of every row"),
        CHOICE("lse-base", &s->lse_base, base_names, "of the logarithm (e)"),
        HEADING("How it is run"),
        CHOICE("split-mode", &s->split_mode, split_names,
               "how a row's keys are cut into parts (auto; fixed where\n"
               "--splits, invariant where --split-tokens is given)"),
        WHOLE("splits", FLAG_INT, &p->splits, "so many parts per row"),
        WHOLE("split-tokens", FLAG_INT64, &p->split_tokens, "parts of so many tokens"),
        WHOLE("kv-len-expected", FLAG_INT64, &p->kv_len_expected, "typical length (as kv-len)"),
        CHOICE("reduction", &s->reduction, reduction_names, "how a GPU merges parts (auto)"),
        CHOICE("pdl", &s->pdl, pdl_names, "programmatic dependent launch (auto)"),
        CHOICE("precision", &s->precision, precision_names, "of the softmax weights (fast)"),
        YES("check-tables", &s->check_tables, "CPU: look at lengths and page numbers first"),
        {"kernel", FLAG_TEXT, (void *)&p->kernel, "NAME", "use this kernel (`gqa info` lists them)",
         NULL, 0, 0},
    };
    memcpy(out, flags, sizeof flags);
    return sizeof flags / sizeof *flags;
}

static int device_flags(struct shape *s, struct flag *out) {
    const struct flag flags[] = {
        HEADING("Device"),
        {"device", FLAG_TEXT, (void *)&s->device, "NAME",
         "cpu, cuda:N, emu:PART, plan:cpu, plan:PART (cpu)", NULL, 0, 0},
        WHOLE("threads", FLAG_INT, &s->threads, "CPU threads (0: one per core)"),
        WHOLE("spin-us", FLAG_INT, &s->spin_us, "CPU: idle threads poll so long (0)"),
        {"driver", FLAG_TEXT, (void *)&s->driver, "FILE", "the CUDA driver library to open", NULL,
         0, 0},
    };
    memcpy(out, flags, sizeof flags);
    return sizeof flags / sizeof *flags;
}

int shape_init(struct shape *s, int parts, struct flag_table *tables) {
    static int (*const makers[])(struct shape *, struct flag *) = {size_flags, option_flags,
                                                                   device_flags};
    *s = (struct shape){.p = gqa_problem_init(), .device = "cpu", .is_causal = true};
    s->p.q_heads = 32;
    s->p.kv_heads = 8;
    s->p.head_dim = 128;
    s->p.kv_len = 4096;
    s->kv_type = GQA_BF16;
    s->q_type = s->o_type = -1;
    s->split_mode = s->paging = s->p.splits = -1;
    s->p.split_tokens = -1;
    struct flag *next = s->flags;
    int count = 0;
    for (int i = 0; i < 3; i++) {
        if (!(parts >> i & 1))
            continue;
        const int n = makers[i](s, next);
        tables[count++] = (struct flag_table){next, n};
        next += n;
    }
    return count;
}

struct gqa_problem shape_problem(const struct shape *s) {
    struct gqa_problem p = s->p;
    const bool is_wide = s->kv_type <= GQA_F16;
    p.kv_type = (enum gqa_type)s->kv_type;
    p.q_type = s->q_type >= 0 ? (enum gqa_type)s->q_type : is_wide ? p.kv_type : GQA_BF16;
    p.o_type = s->o_type >= 0 ? (enum gqa_type)s->o_type : p.q_type;
    p.k_scales = (enum gqa_scales)s->k_scales;
    p.v_scales = (enum gqa_scales)s->v_scales;
    p.paging = s->paging >= 0 ? (enum gqa_paging)s->paging
               : p.page_size  ? GQA_PAGED_TABLE
                              : GQA_CONTIGUOUS;
    p.q_ragged = s->is_ragged;
    if (s->is_ragged && !p.q_total && p.batch >= 0 && p.batch <= INT32_MAX)
        p.q_total = p.batch * p.q_tokens;
    p.causal = s->is_causal;
    p.has_sinks = s->has_sinks;
    p.has_lse = s->has_lse;
    p.check_tables = s->check_tables;
    p.lse_base = (enum gqa_lse_base)s->lse_base;
    p.reduction = (enum gqa_reduction)s->reduction;
    p.pdl = (enum gqa_pdl)s->pdl;
    p.precision = (enum gqa_precision)s->precision;
    p.split_mode = s->split_mode >= 0    ? (enum gqa_split_mode)s->split_mode
                   : p.splits >= 0       ? GQA_SPLIT_FIXED
                   : p.split_tokens >= 0 ? GQA_SPLIT_INVARIANT
                                         : GQA_SPLIT_AUTO;
    p.splits = p.splits < 0 ? 0 : p.splits; /* of both, the library refuses one */
    p.split_tokens = p.split_tokens < 0 ? 0 : p.split_tokens;
    gqa_problem_pack(&p, (enum gqa_layout)s->layout);
    return p;
}

gqa_status shape_open_device(const struct shape *s, gqa_device **device, struct gqa_error *err) {
    struct gqa_device_options options = gqa_device_options_init();
    options.threads = s->threads;
    options.spin_us = s->spin_us;
    options.driver = s->driver;
    return gqa_device_open(s->device, &options, device, err);
}

enum exit_code shape_exit(gqa_status status) {
    switch (status) {
    case GQA_OK:
        return EXIT_DONE;
    case GQA_ERR_UNSUPPORTED:
    case GQA_ERR_DEVICE:
    case GQA_ERR_DRIVER:
        return EXIT_UNSUPPORTED;
    default:
        return EXIT_FAILED;
    }
}
