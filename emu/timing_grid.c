/* timing_grid.c: when grids and CTAs begin and end in the timing model, sampling, the log.  See
 * timing.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SLOTS = 1 << 21 };

static void *zeroed(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

struct timing *time_new(const struct emu_part *part) {
    const struct time_part *p = time_part_find(part->name);
    if (!p)
        return NULL;
    struct timing *t = zeroed(1, sizeof *t);
    t->p = p;
    t->sms = part->sms;
    t->sm = zeroed(part->sms, sizeof *t->sm);
    t->line = zeroed(LINE_SLOTS, sizeof *t->line);
    t->line_mask = LINE_SLOTS - 1;
    t->l2_bytes = part->l2_bytes * 0.75; /* ways that others use, hashing: assumed */
    t->last_end = t->last_start = t->last_trigger = -1e9;
    return t;
}

void time_free(struct emu *e) {
    struct timing *t = e->timing;
    if (!t)
        return;
    for (struct time_fn *f = t->fns; f;) {
        struct time_fn *n = f->next;
        free(f->ops);
        free(f->use_id);
        free(f);
        f = n;
    }
    free(t->heap);
    free(t->line);
    free(t->sm);
    free(t->log);
    free(t);
    e->timing = NULL;
}

static struct time_fn *function_of(struct timing *t, const struct function *f) {
    for (struct time_fn *x = t->fns; x; x = x->next)
        if (x->f == f)
            return x;
    struct time_fn *x = zeroed(1, sizeof *x);
    x->f = f;
    x->ops = zeroed(f->ncode, sizeof *x->ops);
    x->use_id = zeroed(f->nuses + 1, sizeof *x->use_id);
    x->nregs = time_classify(t->p, f, x->ops, x->use_id);
    x->next = t->fns;
    t->fns = x;
    return x;
}

/* --- Grids --- */

/* SMs and clusters of the sampled machine: as near as possible to the grid's clusters per SM. */
static void sample(struct emu *e, struct grid *g, struct time_grid *x) {
    const u32 size = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
    const u64 all = g->nclusters;
    u64 most = e->opt.timing_ctas / size, n = all;
    x->sms = e->timing->sms;
    if (e->opt.timing_ctas && most < 1)
        most = 1;
    if (e->opt.timing_ctas && all > most) {
        double best = INFINITY, per = (double)(all * size) / x->sms;
        for (u32 s = e->timing->sms; s >= size; s--) {
            u64 k = (u64)(per * s / size + 0.5);
            double off = fabs((double)(k * size) / s / per - 1) + 0.02 / (double)s;
            if (k >= 1 && k <= most && off < best) {
                best = off;
                n = k;
                x->sms = s;
            }
        }
        if (isinf(best)) { /* more CTAs per SM than the sample may have: one cluster's SMs */
            x->sms = size;
            n = (u64)(per + 0.5);
        }
    }
    for (u64 k = 0; k < n; k++)
        g->order[k] = (u32)((2 * k + 1) * all / (2 * n));
    g->nclusters = n;
    x->clusters = (u32)n;
    x->weight = (double)all / (double)n;
    x->ctas_total = (u32)(all * size);
}

void time_grid_new(struct emu *e, struct grid *g) {
    struct timing *t = e->timing;
    struct time_grid *x = g->time = zeroed(1, sizeof *x);
    const struct function *f = g->fn;
    u32 threads = g->block[0] * g->block[1] * g->block[2];
    x->fn = function_of(t, f);
    x->lines = f->ncode / 8 + 1;
    x->line_ready = zeroed((size_t)t->sms * x->lines, sizeof(double));
    x->param_ready = zeroed(t->sms, sizeof(double));
    x->warps = (threads + LANES - 1) / LANES;
    x->smem = f->static_smem + g->dyn_smem + SMEM_RESERVED;
    u32 regs = f->max_nreg ? f->max_nreg : 64; /* ptxas would know; 64 is a guess */
    if (regs * x->warps * LANES > e->part->regs_per_sm)
        regs = e->part->regs_per_sm / (x->warps * LANES);
    x->regs = regs * x->warps * LANES;
    x->start = -1;
    sample(e, g, x);
}

void time_grid_triggered(struct emu *e, struct grid *g) {
    const u64 all = g->nclusters * g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
    if (g->ctas_launched < all || g->time->is_triggered)
        return;
    g->time->is_triggered = true;
    g->time->triggered = e->timing->last_trigger = e->timing->now;
}

/* --- Clusters --- */

static bool fits(const struct emu *e, const struct time_sm *s, const struct time_grid *x) {
    const struct emu_part *p = e->part;
    return s->ctas < p->ctas_per_sm && s->warps + x->warps <= p->warps_per_sm &&
           s->smem + x->smem <= p->smem_per_sm && s->regs + x->regs <= p->regs_per_sm;
}

/* Finds SMs for the CTAs of a cluster: the emptiest, different ones if possible. */
static bool find_room(const struct emu *e, const struct time_grid *x, u32 n, u32 *to) {
    const struct timing *t = e->timing;
    u32 found = 0;
    for (u32 load = 0; load < e->part->ctas_per_sm && found < n; load++)
        for (u32 s = 0; s < x->sms && found < n; s++)
            if (t->sm[s].ctas == load && fits(e, &t->sm[s], x))
                to[found++] = s;
    return found == n;
}

static bool cluster_slots(const struct timing *t, const struct grid *g, u32 size) {
    u32 k = 0;
    while (k < 4 && 1u << k < size)
        k++;
    if (size < 2 || g->time->smem < 100000)
        return true;
    u32 most = (u32)(t->p->clusters[k] * (double)g->time->sms / t->sms + 0.5);
    return g->time->live_clusters < (most ? most : 1);
}

static double grid_start(const struct timing *t, const struct grid *g) {
    const struct time_part *p = t->p;
    const u32 size = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
    double at = g->pdl ? t->last_trigger + p->pdl_gap : t->last_end + p->launch_gap;
    if (at < t->last_start + p->launch_interval)
        at = t->last_start + p->launch_interval;
    if (size > 1)
        at += p->cluster_gap;
    return at < t->now ? t->now : at;
}

double time_next_cluster(struct emu *e) {
    struct timing *t = e->timing;
    u32 to[MAX_CLUSTER];
    for (struct grid *g = e->grids; g; g = g->next) {
        if (g->next_cluster == g->nclusters)
            continue;
        if (!grid_may_start(g))
            return INFINITY;
        struct time_grid *x = g->time;
        const u32 size = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
        if (x->start < 0)
            x->start = grid_start(t, g);
        if (!cluster_slots(t, g, size) || !find_room(e, x, size, to))
            return INFINITY;
        double at = x->start > t->cta_engine ? x->start : t->cta_engine;
        return at > t->now ? at : t->now;
    }
    return INFINITY;
}

/* Places the cluster that is being made. */
void time_place(struct emu *e, struct grid *g, struct cluster *cl) {
    struct timing *t = e->timing;
    struct time_grid *x = g->time;
    u32 to[MAX_CLUSTER];
    if (!find_room(e, x, cl->n, to))
        emu_hang(e);
    if (!x->live_clusters && x->first == 0)
        t->last_start = x->first = t->now;
    x->live_clusters++;
    t->cta_engine = t->now + t->p->cta_interval * x->weight * cl->n;
    for (u32 r = 0; r < cl->n; r++) {
        struct time_sm *s = &t->sm[to[r]];
        cl->cta[r]->sm = to[r];
        s->ctas++;
        s->warps += x->warps;
        s->smem += x->smem;
        s->regs += x->regs;
    }
}

void time_cluster_end(struct emu *e, struct cluster *cl) {
    struct timing *t = e->timing;
    struct time_grid *x = cl->cta[0]->grid->time;
    x->live_clusters--;
    for (u32 r = 0; r < cl->n; r++) {
        struct time_sm *s = &t->sm[cl->cta[r]->sm];
        s->ctas--;
        s->warps -= x->warps;
        s->smem -= x->smem;
        s->regs -= x->regs;
    }
}

/* --- The log --- */

void time_grid_end(struct emu *e, struct grid *g) {
    struct timing *t = e->timing;
    struct time_grid *x = g->time;
    t->last_end = t->now;
    if (t->nlog == t->log_cap) {
        t->log_cap = t->log_cap ? t->log_cap * 2 : 16;
        t->log = realloc(t->log, t->log_cap * sizeof *t->log);
        if (!t->log)
            abort();
    }
    struct emu_timing_grid *l = &t->log[t->nlog++];
    *l = (struct emu_timing_grid){
        .start_ns = x->first / t->p->ghz,
        .end_ns = t->now / t->p->ghz,
        .ctas = x->ctas_total,
        .emulated = (u32)(g->nclusters * g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2]),
        .dram_bytes = x->bytes};
    snprintf(l->name, sizeof l->name, "%s", g->fn->name);
    if (e->opt.timing_log)
        time_write(e, g, l);
}
void time_grid_free(struct grid *g) {
    if (!g->time)
        return;
    free(g->time->line_ready);
    free(g->time->param_ready);
    free(g->time);
    g->time = NULL;
}

double emu_timing_ns(const struct emu *e) {
    return e->timing ? e->timing->now / e->timing->p->ghz : 0;
}
uint32_t emu_timing_grids(const struct emu *e, const struct emu_timing_grid **grids) {
    *grids = e->timing ? e->timing->log : NULL;
    return e->timing ? e->timing->nlog : 0;
}

/* One line for the grid, then one for each warp of the CTA, divided by the CTAs. */
void time_write(struct emu *e, const struct grid *g, const struct emu_timing_grid *l) {
    FILE *out = e->opt.timing_log;
    const double n = l->emulated, ghz = e->timing->p->ghz;
    fprintf(out, "grid,%s,%u,%u,%.1f,%.1f,%.3f,%.0f\n", l->name, l->ctas, l->emulated, l->start_ns,
            l->end_ns, (l->end_ns - l->start_ns) * 1e-3, l->dram_bytes);
    for (u32 k = 0; k < g->time->warps && k < MAX_WARPS; k++) {
        const struct time_count *c = &g->time->count[k];
        fprintf(out, "warp,%u,%.1f,%.1f", k, c->life / n / ghz, c->slots / n);
        const u64 v[] = {c->insns,   c->mbar_arrive, c->mbar_wait, c->bars, c->tmem_ld,
                         c->tmem_st, c->smem,        c->mufu,      c->mmas, c->tma_ops};
        for (size_t j = 0; j < sizeof v / sizeof *v; j++)
            fprintf(out, ",%.2f", (double)v[j] / n);
        fprintf(out, ",%.1f,%.1f,%.1f,%.1f,%.1f\n", c->mma_busy / n, c->wait[KEY_MBAR] / n,
                c->wait[KEY_BAR] / n, c->wait[KEY_ASYNC] / n, c->wait[KEY_GRID] / n);
    }
    fflush(out);
}
