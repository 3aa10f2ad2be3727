/* SPDX-License-Identifier: Apache-2.0
 * Candidates -> refuse with a reason -> score by predicted time -> take the best. The prediction
 * is plan_model.c's; nothing is tuned here. */
#include "plan_model.h"
#include "problem.h"
#include "split_sm100.h"
#include "status.h"

#include "cuda/args.h"
#include "cuda/kernels.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CLUSTER = 16, NO_CLUSTER = -1, INVARIANT_TOKENS = 512 };

static const struct plan_part parts[] = {
    {"sm_80", 8, 0, 108},    {"sm_86", 8, 6, 84},     {"sm_87", 8, 7, 16},
    {"sm_89", 8, 9, 142},    {"sm_90", 9, 0, 132},    {"sm_90a", 9, 0, 132},
    {"sm_100", 10, 0, 148},  {"sm_100a", 10, 0, 148}, {"sm_103", 10, 3, 148},
    {"sm_103a", 10, 3, 148}, {"sm_120", 12, 0, 188},  {"sm_120a", 12, 0, 188},
};

/* --- Parts and rows --- */

bool plan_find_part(const char *name, struct plan_part *part) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, name)) {
            *part = parts[i];
            return true;
        }
    return false;
}

static bool no(char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool no(char *why, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return false;
}

bool plan_row_runs(const struct plan_part *part, int row, char *why, size_t size) {
    const struct family *f = &plan_families[kernel_rows[row].arch];
    const int have = part->major * 10 + part->minor, need = f->major * 10 + f->minor;
    const bool is_family = need == 100 && have == 103; /* sm_100f: B200 and B300 */
    if (f->exact ? have != need && !is_family : have < need)
        return no(why, size, "needs compute capability %d.%d%s; %s is %d.%d", f->major, f->minor,
                  f->exact ? "" : " or later", part->name, part->major, part->minor);
    return true;
}

/* --- Refusals --- */

static bool strides_fit(const struct gqa_strides *s, size_t bytes, int align) {
    const int64_t all[] = {s->batch, s->token, s->head};
    for (int i = 0; i < 3; i++)
        if (all[i] * (int64_t)bytes % align)
            return false;
    return true;
}

/* Rules that hold for every kernel on a GPU. */
static bool problem_fits(const struct gqa_problem *p, char *why, size_t size) {
    const size_t kv_bytes = gqa_type_bytes(p->kv_type), q_bytes = gqa_type_bytes(p->q_type);
    const int step = 16 / (int)kv_bytes;
    if (p->q_type != GQA_BF16 && p->q_type != GQA_F16)
        return no(why, size, "Q is %s; GPU kernels take bf16 and f16", gqa_type_name(p->q_type));
    if (p->q_type == GQA_F16 && p->kv_type == GQA_BF16)
        return no(why, size, "f16 Q would be rounded to the bf16 of K; GPU kernels take bf16 Q");
    if (p->precision == GQA_PRECISION_EXACT)
        return no(why, size, "GPU kernels round softmax weights to 16 bits; precision is EXACT");
    if (p->head_dim % step || p->head_dim_v % step)
        return no(why, size, "head_dim %d and head_dim_v %d; %s K and V need multiples of %d",
                  p->head_dim, p->head_dim_v, gqa_type_name(p->kv_type), step);
    if (!strides_fit(&p->k, kv_bytes, 16) || !strides_fit(&p->v, kv_bytes, 16))
        return no(why, size, "a stride of K or V is no multiple of 16 bytes");
    if (!strides_fit(&p->q, q_bytes, 8))
        return no(why, size, "a stride of Q is no multiple of 8 bytes");
    return true;
}

/* Can this row compute this problem at all? */
static bool row_fits(const struct kernel_row *row, const struct gqa_problem *p, char *why,
                     size_t size) {
    const int widest = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    if (row->kv_type != p->kv_type)
        return no(why, size, "it is for %s K and V, not %s", gqa_type_name(row->kv_type),
                  gqa_type_name(p->kv_type));
    const enum gqa_type q_wanted = gqa_type_bytes(p->kv_type) == 2 ? p->kv_type : GQA_BF16;
    if (row->arch >= KERNEL_sm100 && p->q_type != q_wanted)
        return no(why, size, "beside %s K it multiplies %s Q exactly, not %s",
                  gqa_type_name(p->kv_type), gqa_type_name(q_wanted), gqa_type_name(p->q_type));
    if (row->head_dim < widest)
        return no(why, size, "it holds heads up to %d wide, not %d", row->head_dim, widest);
    const int64_t most = (INT64_C(1) << 40) / (int64_t)gqa_type_bytes(row->kv_type) - 1;
    const struct gqa_strides *k = &p->k, *v = &p->v;
    if (row->arch >= KERNEL_sm100 && (k->batch > most || k->token > most || k->head > most ||
                                      v->batch > most || v->token > most || v->head > most))
        return no(why, size, "strides of K and V must be below 2^40 bytes in a tensor map");
    const int row_bytes = row->head_dim * (int)gqa_type_bytes(row->kv_type);
    if (row->arch >= KERNEL_sm100 && p->paging && p->page_size % 2 && row_bytes < 128)
        return no(why, size,
                  "pages of %d tokens: it would copy one row of %d bytes at a time, to "
                  "addresses that must be multiples of 128",
                  p->page_size, row_bytes);
    return true;
}

/* --- Candidates --- */

struct search {
    const struct plan_part *part;
    const struct gqa_problem *p;
    struct candidate best;
    bool found;
    int cluster;   /* only grids of clusters of so many CTAs, NO_CLUSTER: of shares; 0: any */
    char why[192]; /* the last refusal */
};

static void offer(struct search *s, struct candidate c) {
    c.us = plan_predict(s->part, s->p, &c);
    if (!s->found || c.us < s->best.us) {
        s->best = c;
        s->found = true;
    }
}

/* Split counts to try for a cluster. */
static const int cluster_sizes[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};

static bool reduction_allows(const struct gqa_problem *p, int finish) {
    switch (p->reduction) {
    case GQA_REDUCE_AUTO: /* never atomic: its last bits vary */
        return finish != GQA_FINISH_ATOMIC;
    case GQA_REDUCE_NONE:
        return finish == GQA_FINISH_OUTPUT;
    case GQA_REDUCE_KERNEL:
        return finish == GQA_FINISH_PARTIAL;
    case GQA_REDUCE_ATOMIC: /* 16-bit sums would be rounded at every addition */
        return finish == GQA_FINISH_ATOMIC && p->o_type == GQA_F32;
    case GQA_REDUCE_CLUSTER:
        return finish == GQA_FINISH_CLUSTER;
    case GQA_REDUCE_GRID:
        return finish == GQA_FINISH_GRID;
    }
    return false;
}

/* CTAs and rows are counted in 31 bits. */
static bool counts_fit(struct search *s, const struct candidate *c) {
    const int64_t rows = c->units * kernel_rows[c->row].group;
    if (c->ctas > INT32_MAX)
        return no(s->why, sizeof s->why, "%lld CTAs are more than a grid holds",
                  (long long)c->ctas);
    if (rows > INT32_MAX)
        return no(s->why, sizeof s->why, "%lld query rows are more than 2^31 - 1", (long long)rows);
    return true;
}

/* What the reduction asked for wants, in words. */
static bool no_reduction(struct search *s, int splits) {
    static const char *const wants[] = {
        [GQA_REDUCE_AUTO] = "splits that some reduction merges",
        [GQA_REDUCE_NONE] = "one split",
        [GQA_REDUCE_KERNEL] = "two splits or more",
        [GQA_REDUCE_ATOMIC] = "o_type f32 and 2, 4, 8 or 16 splits",
        [GQA_REDUCE_CLUSTER] = "2 to 16 splits",
        [GQA_REDUCE_GRID] = "two splits or more, and a kernel that has it",
    };
    return no(s->why, sizeof s->why, "reduction %s wants %s; not %d split%s with o_type %s",
              gqa_reduction_name(s->p->reduction), wants[s->p->reduction], splits,
              splits == 1 ? "" : "s", gqa_type_name(s->p->o_type));
}

/* Blackwell's kernels add whole rows by bulk copies (cp.reduce.async.bulk). */
static bool atomic_fits(struct search *s, const struct candidate *c) {
    const size_t bytes = gqa_type_bytes(s->p->o_type);
    if (c->finish != GQA_FINISH_ATOMIC || kernel_rows[c->row].arch < KERNEL_sm100 ||
        (strides_fit(&s->p->o, bytes, 16) && (size_t)s->p->head_dim_v * bytes % 16 == 0))
        return true;
    return no(s->why, sizeof s->why,
              "%s adds rows of O in place: they must be multiples of 16 bytes long and apart",
              kernel_rows[c->row].name);
}

static void offer_splits(struct search *s, struct candidate c, int splits, int finish) {
    c.schedule = GQA_SCHED_SPLITS;
    c.splits = splits;
    c.finish = finish;
    c.cluster = finish == GQA_FINISH_GRID ? c.cluster : finish >= GQA_FINISH_ATOMIC ? splits : 1;
    c.ctas = c.units * splits;
    c.slots = plan_merged_parts(&c) > 1 ? c.units * plan_merged_parts(&c) : 0;
    if (!counts_fit(s, &c) || !atomic_fits(s, &c))
        return;
    if (reduction_allows(s->p, finish) || (c.by_rule && s->p->reduction == GQA_REDUCE_AUTO))
        offer(s, c);
    else if (!s->why[0]) /* an earlier reason says more */
        no_reduction(s, splits);
}

/* `clusters` clusters, or CTAs, per unit, which meet in the last. */
static void offer_grid(struct search *s, struct candidate c, int clusters, int cluster) {
    if (s->cluster && cluster != s->cluster)
        return;
    c.cluster = cluster;
    offer_splits(s, c, clusters * cluster, GQA_FINISH_GRID);
}

static void offer_shares(struct search *s, struct candidate c) {
    const struct kernel_row *row = &kernel_rows[c.row];
    const int64_t per_sm = row->arch >= KERNEL_sm90 ? 1 : 2, most = s->part->sms * per_sm;
    c.schedule = GQA_SCHED_SHARES;
    c.splits = 1;
    c.finish = plan_families[row->arch].has_grid && s->p->reduction != GQA_REDUCE_KERNEL
                   ? GQA_FINISH_GRID
                   : GQA_FINISH_PARTIAL;
    c.cluster = 1;
    c.ctas = most;
    c.slots = 2 * c.ctas;
    if (!reduction_allows(s->p, c.finish) || !counts_fit(s, &c))
        return;
    if (s->cluster > 0 && c.finish == GQA_FINISH_GRID)
        return; /* a grid of clusters was asked for */
    offer(s, c);
    /* As many CTAs as share the units evenly. */
    c.ctas = plan_ceil_div(c.units, plan_ceil_div(c.units, most));
    c.is_whole = true;
    if (c.units >= most && c.units % c.ctas == 0)
        offer(s, c);
}

/* Every `split_tokens` tokens of a row's own length. */
static void offer_tokens(struct search *s, struct candidate c) {
    const int64_t tokens = s->p->split_tokens ? s->p->split_tokens : INVARIANT_TOKENS;
    c.schedule = GQA_SCHED_TOKENS;
    c.split_grains = plan_ceil_div(tokens, GQA_GRAIN);
    const int64_t splits = plan_ceil_div(s->p->kv_len, c.split_grains * GQA_GRAIN);
    c.splits = splits < 1 ? 1 : (int)splits;
    c.finish = c.splits > 1 ? GQA_FINISH_PARTIAL : GQA_FINISH_OUTPUT;
    c.cluster = 1;
    c.ctas = c.units * c.splits;
    c.slots = c.splits > 1 ? c.ctas : 0;
    if (!counts_fit(s, &c))
        return;
    const enum gqa_reduction asked = s->p->reduction; /* KERNEL: one split has nothing to merge */
    if (reduction_allows(s->p, c.finish) || asked == GQA_REDUCE_AUTO || asked == GQA_REDUCE_KERNEL)
        offer(s, c);
    else
        no(s->why, sizeof s->why, "batch-invariant splits are merged by the kernel reduction");
}

static void offer_fixed(struct search *s, struct candidate c, const struct family *f) {
    const int splits = s->p->splits;
    const bool has_cluster = f->has_cluster;
    if (splits == 1) {
        offer_splits(s, c, 1, GQA_FINISH_OUTPUT);
    } else {
        offer_splits(s, c, splits, GQA_FINISH_PARTIAL);
        if (has_cluster && splits <= MAX_CLUSTER)
            offer_splits(s, c, splits, GQA_FINISH_CLUSTER);
        for (int n = 1; f->has_grid && n <= MAX_CLUSTER && n < splits; n++)
            if (splits % n == 0)
                offer_grid(s, c, splits / n, n);
    }
    if (has_cluster && splits <= MAX_CLUSTER && s->p->reduction == GQA_REDUCE_ATOMIC &&
        !(splits & (splits - 1)))
        offer_splits(s, c, splits, GQA_FINISH_ATOMIC);
}

/* Partials of an automatic plan never outgrow this many slots, so that the workspace does not
 * depend on how it was split. */
static int64_t auto_slots(const struct plan_part *part) {
    return 4 * (int64_t)part->sms;
}

/* Are lengths expected to differ much? A plan sees none, but a caller who expects half of the
 * capacity says so. The longest row then needs as much of the machine as its length asks for, which
 * only equal shares give it. */
static bool is_ragged(const struct gqa_problem *p) {
    return p->reduction == GQA_REDUCE_AUTO && p->batch > 1 && p->kv_len_expected <= p->kv_len / 2 &&
           plan_tokens(p) == p->kv_len_expected;
}

static size_t largest_tile(void) {
    int rows = 0;
    for (int i = 0; i < kernel_row_count; i++)
        rows = kernel_rows[i].group > rows ? kernel_rows[i].group : rows;
    return (size_t)rows;
}

/* Rows of partials that letters take the space of. */
static int64_t letter_rows(const struct candidate *c, int64_t clusters) {
    return c->units * (clusters - 1) * kernel_rows[c->row].group * GQA_LETTER_WORDS / 4;
}

/* Several clusters per unit, where one does not fill the machine but all fit. */
static void offer_all_grids(struct search *s, struct candidate c, int64_t grains) {
    static const int sizes[] = {1, 2, 4, 8, 16};
    const int64_t room = auto_slots(s->part) * (int64_t)largest_tile();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t fit = plan_cluster_capacity(s->part, sizes[i]);
        for (int n = 2;
             n * sizes[i] <= grains && n * sizes[i] * c.units <= fit && letter_rows(&c, n) <= room;
             n++)
            if (n * sizes[i] * c.units * 9 >= s->part->sms * (int64_t)4) /* fewer: not measured */
                offer_grid(s, c, n, sizes[i]);
    }
    if (s->p->reduction == GQA_REDUCE_GRID && !s->found) {
        if (letter_rows(&c, 2) <= room)
            offer_grid(s, c, 2, 1);
        else
            no(s->why, sizeof s->why,
               "more than %lld rows of work meet in a grid only as equal shares, of at most 4096 "
               "sequences and 2^31 grains",
               (long long)(room * 4 / (GQA_LETTER_WORDS * kernel_rows[c.row].group)));
    }
}

static void offer_auto(struct search *s, struct candidate c, const struct family *f) {
    const bool has_cluster = f->has_cluster;
    const int64_t grains = plan_ceil_div(plan_tokens(s->p), GQA_GRAIN);
    const int64_t room = auto_slots(s->part);
    const int sum = s->p->reduction == GQA_REDUCE_ATOMIC ? GQA_FINISH_ATOMIC : GQA_FINISH_CLUSTER;
    const int64_t most = c.units * (s->p->kv_len / GQA_GRAIN + 2 + GQA_UNIT_GRAINS);
    const bool can_share = s->p->batch <= 4096 && most < INT32_MAX;
    if (can_share && is_ragged(s->p)) {
        offer_shares(s, c);
        if (s->found)
            return;
    }
    offer_splits(s, c, 1, GQA_FINISH_OUTPUT);
    for (size_t i = 0; has_cluster && i < sizeof cluster_sizes / sizeof *cluster_sizes; i++) {
        const int n = cluster_sizes[i];
        if (sum == GQA_FINISH_ATOMIC && n & (n - 1))
            continue;
        if (n <= grains || i == 0)
            offer_splits(s, c, n, sum);
    }
    if (f->has_grid && sum == GQA_FINISH_CLUSTER)
        offer_all_grids(s, c, grains);
    const bool only_kernel = s->p->reduction == GQA_REDUCE_KERNEL; /* shares can do all */
    for (int64_t n = 2; !only_kernel && n <= room / c.units && n <= grains; n++)
        offer_splits(s, c, (int)n, GQA_FINISH_PARTIAL);
    if (can_share)
        offer_shares(s, c);
    else if (s->p->reduction == GQA_REDUCE_KERNEL)
        offer_tokens(s, c);
}

static void offer_row(struct search *s, int index) {
    const struct kernel_row *row = &kernel_rows[index];
    const struct gqa_problem *p = s->p;
    const struct family *f = &plan_families[row->arch];
    struct candidate c = {.row = index};
    if (p->reduction == GQA_REDUCE_GRID && !f->has_grid) {
        no(s->why, sizeof s->why, "%s has no grid reduction; Hopper's sm90 has", f->name);
        return;
    }
    c.row_tiles = (int)plan_ceil_div((int64_t)problem_group(p) * p->q_tokens, row->group);
    c.units = p->batch * p->kv_heads * c.row_tiles;
    if (c.units > INT32_MAX) {
        no(s->why, sizeof s->why, "%lld units are more than a grid holds", (long long)c.units);
        return;
    }
    if (c.units == 0)
        c.units = 1;
    if (p->split_mode == GQA_SPLIT_INVARIANT)
        offer_tokens(s, c);
    else if (p->split_mode == GQA_SPLIT_FIXED)
        offer_fixed(s, c, f);
    else
        offer_auto(s, c, f);
}

/* Of one family, the rows to try: narrowest head, and the smallest tile that holds all query rows,
 * or else the largest tile. */
static int family_row(const struct search *s, enum kernel_arch arch, char *why, size_t size) {
    const int64_t rows = (int64_t)problem_group(s->p) * s->p->q_tokens;
    int best = -1;
    for (int i = 0; i < kernel_row_count; i++) {
        const struct kernel_row *a = &kernel_rows[i];
        const struct kernel_row *b = best >= 0 ? &kernel_rows[best] : NULL;
        if (a->arch != arch || a->records || !row_fits(a, s->p, why, size))
            continue;
        const bool narrower = !b || a->head_dim < b->head_dim;
        const bool same = b && a->head_dim == b->head_dim;
        const bool better_tile =
            b && (b->group < rows ? a->group > b->group : a->group >= rows && a->group < b->group);
        if (narrower || (same && better_tile))
            best = i;
    }
    return best;
}

/* What a published rule of split_sm100.h would do with row `index`. */
static void offer_rule(struct search *s, int index, const struct split_rule *rule) {
    const struct kernel_row *row = &kernel_rows[index];
    const struct gqa_problem *p = s->p;
    struct candidate c = {.row = index, .by_rule = true};
    c.row_tiles = (int)plan_ceil_div((int64_t)problem_group(p) * p->q_tokens, row->group);
    c.units = p->batch * p->kv_heads * c.row_tiles;
    if (c.units > INT32_MAX) {
        no(s->why, sizeof s->why, "%lld units are more than a grid holds", (long long)c.units);
        return;
    }
    if (c.units == 0)
        c.units = 1;
    const struct split_shape x = {s->part->sms, row->head_dim, c.units, plan_tokens(p)};
    const struct split_choice y = rule->choose(&x);
    offer_splits(s, c, y.splits,
                 y.splits == 1 ? GQA_FINISH_OUTPUT
                 : y.atomic    ? GQA_FINISH_ATOMIC
                               : GQA_FINISH_PARTIAL);
}

/* "kernel", on Blackwell "kernel:rule", on Hopper how a grid is made: "kernel:cluster=4",
 * "kernel:shares". */
static gqa_status search_named(struct search *s, const char *kernel, struct gqa_error *err) {
    const size_t length = strcspn(kernel, ":");
    const struct split_rule *rule = kernel[length] ? split_rule_find(kernel + length + 1) : NULL;
    char rest;
    if (!strcmp(kernel + length, ":shares"))
        s->cluster = NO_CLUSTER;
    else if (sscanf(kernel + length, ":cluster=%d%c", &s->cluster, &rest) != 1 || s->cluster < 0)
        s->cluster = 0;
    if (kernel[length] && !rule && !s->cluster)
        return fail(err, GQA_ERR_NAME, "no split rule is named \"%.40s\"; have simple, opt, blog",
                    kernel + length + 1);
    for (int i = 0; i < kernel_row_count; i++) {
        char why[192];
        if (strlen(kernel_rows[i].name) != length || strncmp(kernel_rows[i].name, kernel, length))
            continue;
        if (!plan_row_runs(s->part, i, why, sizeof why) ||
            !row_fits(&kernel_rows[i], s->p, why, sizeof why))
            return fail(err, GQA_ERR_UNSUPPORTED, "%s: %s", kernel, why);
        if (rule && kernel_rows[i].arch < KERNEL_sm100)
            return fail(err, GQA_ERR_UNSUPPORTED, "%s: split rules are for sm100 kernels", kernel);
        if (rule && s->p->split_mode != GQA_SPLIT_AUTO)
            return fail(err, GQA_ERR_UNSUPPORTED,
                        "%s: a split rule chooses the splits; split_mode must be auto", kernel);
        if (s->cluster && !plan_families[kernel_rows[i].arch].has_grid)
            return fail(err, GQA_ERR_UNSUPPORTED, "%s: grids are for sm90 kernels", kernel);
        if (rule)
            offer_rule(s, i, rule);
        else
            offer_row(s, i);
        return GQA_OK;
    }
    return fail(err, GQA_ERR_NAME, "no kernel is named \"%.60s\"; `gqa info` lists them", kernel);
}

static void search_families(struct search *s, const char *family) {
    for (int arch = 0; arch < KERNEL_ARCHS; arch++) {
        char why[160] = "";
        if (family ? strcmp(plan_families[arch].name, family) != 0 : arch > KERNEL_sm100)
            continue;
        const int row = family_row(s, (enum kernel_arch)arch, why, sizeof why);
        if (row >= 0 && plan_row_runs(s->part, row, why, sizeof why))
            offer_row(s, row);
        else if (why[0] && !s->why[0]) /* what a family that runs here refused says more */
            snprintf(s->why, sizeof s->why, "%s: %s", plan_families[arch].name, why);
    }
}

/* --- The plan --- */

static enum gqa_reduction reduction_of(int finish) {
    static const enum gqa_reduction of[] = {[GQA_FINISH_OUTPUT] = GQA_REDUCE_NONE,
                                            [GQA_FINISH_PARTIAL] = GQA_REDUCE_KERNEL,
                                            [GQA_FINISH_ATOMIC] = GQA_REDUCE_ATOMIC,
                                            [GQA_FINISH_CLUSTER] = GQA_REDUCE_CLUSTER,
                                            [GQA_FINISH_GRID] = GQA_REDUCE_GRID};
    return of[finish];
}

/* The most rows that `rows` of one KV head become when they are filled up to whole tiles. */
static size_t largest_tiling(int64_t rows) {
    int64_t most = 0;
    for (int i = 0; i < kernel_row_count; i++) {
        const int64_t filled = plan_ceil_div(rows, kernel_rows[i].group) * kernel_rows[i].group;
        most = filled > most ? filled : most;
    }
    return (size_t)most;
}

/* Does any kernel of this part send letters? */
static bool part_has_grid(const struct plan_part *part) {
    for (int arch = 0; arch < KERNEL_ARCHS; arch++) {
        const struct family *f = &plan_families[arch];
        if (f->has_grid && f->major == part->major && f->minor == part->minor)
            return true;
    }
    return false;
}

/* Rows of partials, an upper bound that grows with batch, kv_len and q_tokens and with nothing that
 * was chosen: a larger problem may well get a kernel that needs none. */
static size_t partial_rows(const struct search *s, const struct candidate *c) {
    const struct gqa_problem *p = s->p;
    const bool is_auto = p->split_mode == GQA_SPLIT_AUTO;
    const bool is_invariant = p->split_mode == GQA_SPLIT_INVARIANT; /* merged by a kernel always */
    if (!is_invariant && (p->reduction == GQA_REDUCE_NONE || p->reduction == GQA_REDUCE_ATOMIC))
        return 0;
    const size_t shared = is_auto ? (size_t)auto_slots(s->part) * largest_tile() : 0;
    const bool has_letters = !is_invariant && part_has_grid(s->part) &&
                             (p->reduction == GQA_REDUCE_AUTO || p->reduction == GQA_REDUCE_GRID);
    const int merged = p->reduction == GQA_REDUCE_CLUSTER
                           ? 1
                           : c->splits * (has_letters ? GQA_LETTER_WORDS / 4 : 1);
    if (c->splits == 1 || merged == 1 || (is_auto && c->schedule != GQA_SCHED_TOKENS))
        return shared;
    const size_t heads = (size_t)(p->batch ? p->batch * p->kv_heads : 1);
    const size_t split =
        heads * largest_tiling((int64_t)problem_group(p) * p->q_tokens) * (size_t)merged;
    return split > shared ? split : shared;
}

static size_t workspace(const struct search *s, const struct candidate *c, gqa_plan *plan) {
    const size_t rows = partial_rows(s, c);
    const size_t dim = (size_t)plan_ceil_div(s->p->head_dim_v, 4) * 4;
    const size_t ml = (rows * 2 * sizeof(float) + GQA_WORKSPACE_ALIGN - 1) / GQA_WORKSPACE_ALIGN *
                      GQA_WORKSPACE_ALIGN;
    plan->choice.offsets[PLAN_PART_ML] = 0;
    plan->choice.offsets[PLAN_PART_O] = ml;
    return ml + rows * dim * sizeof(float);
}

static int combine_ways(const struct candidate *c) {
    const int64_t most = c->schedule == GQA_SCHED_SHARES ? c->ctas / (c->units ? c->units : 1) + 2
                                                         : plan_merged_parts(c);
    return most > 16 ? 8 : most > 8 ? 4 : most > 4 ? 2 : 1;
}

static void fill(const struct search *s, gqa_plan *plan) {
    const struct candidate *c = &s->best;
    const struct gqa_problem *p = s->p;
    const struct kernel_row *row = &kernel_rows[c->row];
    const struct family *f = &plan_families[row->arch];
    int64_t *n = plan->choice.numbers;
    plan->choice.kernel = c->row;
    plan->records = row->records;
    plan->choice.splits = c->splits;
    plan->choice.tokens = c->split_grains * GQA_GRAIN;
    n[PLAN_SCHEDULE] = c->schedule;
    n[PLAN_FINISH] = c->finish;
    n[PLAN_CTAS] = c->ctas;
    n[PLAN_CLUSTER] = c->cluster;
    n[PLAN_SPLIT_GRAINS] = c->split_grains;
    n[PLAN_ROW_TILES] = c->row_tiles;
    n[PLAN_SLOTS] = c->slots;
    n[PLAN_WAYS] = combine_ways(c);

    struct gqa_plan_info *info = &plan->info;
    snprintf(info->kernel, sizeof info->kernel, "%s", row->name);
    info->reduction = reduction_of(c->finish);
    const int64_t most = c->schedule == GQA_SCHED_SHARES ? c->ctas : c->splits;
    info->splits = (int)most;
    info->split_tokens = c->schedule == GQA_SCHED_TOKENS
                             ? c->split_grains * GQA_GRAIN
                             : plan_ceil_div(p->kv_len_expected, c->splits);
    info->work_items = c->ctas;
    info->pdl = !f->has_pdl || p->pdl == GQA_PDL_OFF      ? 0
                : p->pdl == GQA_PDL_EARLY && f->has_early ? 2
                                                          : 1;
    info->workspace_bytes = workspace(s, c, plan);
    static const char *const cut[] = {"equal splits of each row", "splits of fixed length",
                                      "equal shares of the batch"};
    char clusters[32] = "";
    if (c->cluster > 1)
        snprintf(clusters, sizeof clusters, " in clusters of %d", c->cluster);
    snprintf(info->reason, sizeof info->reason,
             "%lld row%s of work, %s: %lld CTAs%s on %d SMs, predicted %.1f us",
             (long long)c->units, c->units == 1 ? "" : "s", cut[c->schedule], (long long)c->ctas,
             clusters, s->part->sms, c->us);
}

gqa_status plan_cuda(const struct plan_part *part, const char *family, const char *kernel,
                     gqa_plan *plan, struct gqa_error *err) {
    struct search s = {.part = part, .p = &plan->problem};
    if (!problem_fits(s.p, s.why, sizeof s.why))
        return fail(err, GQA_ERR_UNSUPPORTED, "%s", s.why);
    if (kernel) {
        const gqa_status status = search_named(&s, kernel, err);
        if (status)
            return status;
    } else {
        search_families(&s, family);
    }
    if (!s.found)
        return fail(err, GQA_ERR_UNSUPPORTED, "no kernel for %s can do this: %s", part->name,
                    s.why[0] ? s.why : "no row of instances.def fits");
    fill(&s, plan);
    return GQA_OK;
}
