/* launch.c: grids, clusters and CTAs: what is resident, and how a CTA begins and ends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "check.h"
#include "forms_note.h"
#include "timing.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(struct emu *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->failure, sizeof e->failure, fmt, ap);
    va_end(ap);
    return false;
}

static u32 align_up(u32 v, u32 a) {
    return (v + a - 1) & ~(a - 1);
}

static u32 smem_need(const struct function *f, u32 dyn) {
    return align_up(f->static_smem, f->dyn_align < 16 ? 16 : f->dyn_align) + dyn;
}

uint32_t emu_occupancy(struct emu *e, const struct function *f, uint32_t threads,
                       uint32_t dyn_smem) {
    const struct emu_part *p = e->part;
    u32 warps = (threads + LANES - 1) / LANES, need = smem_need(f, dyn_smem) + SMEM_RESERVED;
    if (!threads || threads > 1024 || need - SMEM_RESERVED > p->smem_per_cta)
        return 0;
    u32 n = p->ctas_per_sm;
    if (n > p->warps_per_sm / warps)
        n = p->warps_per_sm / warps;
    if (n > p->smem_per_sm / need)
        n = p->smem_per_sm / need;
    if (f->max_nreg) {
        u32 r = f->max_nreg * warps * LANES;
        if (n > p->regs_per_sm / r)
            n = p->regs_per_sm / r;
    }
    return n;
}

static bool check_launch(struct emu *e, const struct emu_launch *l, u32 cluster[3]) {
    const struct function *f = l->fn;
    u64 threads = 1, ctas = 1, cl = 1;
    if (f->refused)
        return refuse(e, "%s: %s", f->name, f->refused);
    for (u32 k = 0; k < 3; k++) {
        if (!l->grid[k] || !l->block[k])
            return refuse(e, "%s: a dimension of the launch is 0", f->name);
        threads *= l->block[k];
        ctas *= l->grid[k];
        cluster[k] = l->cluster[k] ? l->cluster[k] : f->req_cluster[0] ? f->req_cluster[k] : 1;
        if (l->cluster[0] && f->req_cluster[0] && l->cluster[k] != f->req_cluster[k])
            return refuse(e, "%s: cluster dimension %u is %u, the kernel requires %u", f->name, k,
                          l->cluster[k], f->req_cluster[k]);
        if (l->grid[k] % cluster[k])
            return refuse(e, "%s: grid dimension %u (%u) is not a multiple of the cluster's (%u)",
                          f->name, k, l->grid[k], cluster[k]);
        cl *= cluster[k];
        if (f->req_ntid[0] && f->req_ntid[k] != l->block[k])
            return refuse(e, "%s: block dimension %u is %u, .reqntid says %u", f->name, k,
                          l->block[k], f->req_ntid[k]);
        if (threads > 1024 || l->grid[k] > (k ? 65535u : 0x7fffffffu))
            return refuse(e,
                          "%s: more than 1024 threads in a block, or grid dimension %u too large",
                          f->name, k);
    }
    u64 most = 1;
    for (u32 k = 0; k < 3; k++)
        most *= f->max_ntid[k] ? f->max_ntid[k] : 1;
    if (f->max_ntid[0] && threads > most)
        return refuse(e, "%s: %llu threads, .maxntid allows %llu", f->name,
                      (unsigned long long)threads, (unsigned long long)most);
    if (cl > e->part->cluster_max)
        return refuse(e, "%s: cluster of %llu CTAs, %s holds %u", f->name, (unsigned long long)cl,
                      e->part->name, e->part->cluster_max);
    if (smem_need(f, l->dyn_smem) > e->part->smem_per_cta)
        return refuse(e, "%s: %u bytes of shared memory, %s has %u for a CTA", f->name,
                      smem_need(f, l->dyn_smem), e->part->name, e->part->smem_per_cta);
    if (l->param_bytes < f->param_bytes)
        return refuse(e, "%s: %zu bytes of parameters, the kernel declares %u", f->name,
                      l->param_bytes, f->param_bytes);
    if (ctas > 0xffffffffull)
        return refuse(e, "%s: too many CTAs", f->name);
    return true;
}

static bool any_unfinished(struct emu *e) {
    for (struct grid *g = e->grids; g; g = g->next)
        if (!g->done)
            return true;
    return false;
}

bool emu_launch(struct emu *e, const struct emu_launch *l) {
    u32 cluster[3];
    if (!check_launch(e, l, cluster))
        return false;
    if (!l->pdl && any_unfinished(e))
        emu_run(e);
    struct grid *g = calloc(1, sizeof *g);
    u64 n = 1;
    g->params = calloc(1, l->fn->param_bytes + 64u);
    memcpy(g->params, l->params, l->fn->param_bytes);
    g->emu = e;
    g->fn = l->fn;
    for (u32 k = 0; k < 3; k++) {
        g->dim[k] = l->grid[k];
        g->block[k] = l->block[k];
        g->cluster_dim[k] = cluster[k];
        n *= l->grid[k] / cluster[k];
    }
    g->nclusters = n;
    g->dyn_smem = l->dyn_smem;
    g->pdl = l->pdl;
    g->id = ++e->next_grid;
    g->primary = l->pdl ? e->grids_tail : NULL;
    g->oldest = g->primary ? g->primary->oldest : g->id;
    g->waited = !g->primary;
    g->order = malloc(n * sizeof *g->order);
    for (u64 k = 0; k < n; k++)
        g->order[k] = (u32)k;
    if (e->timing)
        time_grid_new(e, g);
    if ((e->opt.coverage || e->opt.forms) && !l->fn->hits) {
        l->fn->hits = arena_alloc(l->fn->mod->mem, l->fn->ncode * sizeof(u64));
        l->fn->taken = arena_alloc(l->fn->mod->mem, l->fn->ncode);
    }
    if (e->grids_tail)
        e->grids_tail->next = g;
    else
        e->grids = g;
    e->grids_tail = g;
    return true;
}

/* --- Bank contents --- */

static u64 value_of(const struct cta *c, const struct bank_value *v) {
    const struct grid *g = c->grid;
    const struct function *f = g->fn;
    const u32 *cd = g->cluster_dim;
    switch (v->what) {
    case SV_SYMBOL: {
        const struct shared_var *s = &f->shared[v->shared];
        u32 dyn = SMEM_RESERVED + align_up(f->static_smem, f->dyn_align < 16 ? 16 : f->dyn_align);
        u64 a = (s->dynamic ? dyn : SMEM_RESERVED + s->off) + (u64)v->addend + ((u64)c->rank << 24);
        return v->generic ? a | WIN_SHARED : a;
    }
    case SV_CTAID:
        return c->id[v->dim];
    case SV_NCTAID:
        return g->dim[v->dim];
    case SV_CLUSTERID:
        return c->id[v->dim] / cd[v->dim];
    case SV_NCLUSTERID:
        return g->dim[v->dim] / cd[v->dim];
    case SV_CLUSTER_CTAID:
        return c->id[v->dim] % cd[v->dim];
    case SV_CLUSTER_NCTAID:
        return cd[v->dim];
    case SV_CLUSTER_CTARANK:
        return c->rank;
    case SV_CLUSTER_NCTARANK:
        return cd[0] * cd[1] * cd[2];
    case SV_EXPLICIT_CLUSTER:
        return cd[0] * cd[1] * cd[2] > 1;
    case SV_GRIDID:
        return g->id;
    case SV_SMID:
        return c->sm;
    case SV_NSMID:
        return g->emu->part->sms;
    case SV_NTID:
        return g->block[v->dim];
    case SV_DYN_SMEM:
        return g->dyn_smem;
    case SV_TOTAL_SMEM:
        return smem_need(f, g->dyn_smem);
    default:
        return 0;
    }
}

static u64 warp_value(const struct cta *c, u32 warp, u32 lane, const struct bank_value *v) {
    const u32 *b = c->grid->block;
    u32 t = warp * LANES + lane;
    switch (v->what) {
    case SV_TID:
        return v->dim == 0 ? t % b[0] : v->dim == 1 ? t / b[0] % b[1] : t / b[0] / b[1];
    case SV_LANEID:
        return lane;
    case SV_WARPID:
        return warp;
    case SV_NWARPID:
        return c->nwarps;
    case SV_LANEMASK_EQ:
        return 1u << lane;
    case SV_LANEMASK_LT:
        return (1u << lane) - 1;
    case SV_LANEMASK_LE:
        return (2u << lane) - 1;
    case SV_LANEMASK_GT:
        return ~((2u << lane) - 1);
    default:
        return ~((1u << lane) - 1);
    }
}

static void fill_banks(struct cta *c) {
    const struct function *f = c->grid->fn;
    for (u32 k = 0; k < f->nvalues; k++) {
        const struct bank_value *v = &f->values[k];
        if (v->what < SV_WARP) {
            u64 x = value_of(c, v);
            for (u32 l = 0; l < LANES; l++)
                memcpy(c->cta_bank + v->off + l * v->bytes, &x, v->bytes);
            continue;
        }
        for (u32 w = 0; w < c->nwarps; w++)
            for (u32 l = 0; l < LANES; l++) {
                u64 x = warp_value(c, w, l, v);
                memcpy(c->warp_bank + (size_t)w * f->warp_bytes + v->off + l * v->bytes, &x,
                       v->bytes);
            }
    }
}

/* --- CTAs --- */

static void *fit(void *p, size_t *cap, size_t need) {
    if (need <= *cap && p)
        return p;
    free(p);
    size_t bytes = (need + 4159) & ~(size_t)4095;
    p = aligned_alloc(64, bytes);
    if (!p)
        abort();
    *cap = bytes;
    return p;
}

static struct cta *cta_get(struct emu *e) {
    struct cta *c = e->free_cta;
    if (c) {
        e->free_cta = c->next_free;
        return c;
    }
    c = calloc(1, sizeof *c);
    c->warps = calloc(MAX_WARPS, sizeof *c->warps);
    if (!c->warps)
        abort();
    return c;
}

/* Registers of a thread at entry, when the kernel says so (.maxnreg, or .minnctapersm with a thread
 * count); 0 otherwise, and then ptxas ignores setmaxnreg.  It assigns no more than the largest of
 * them (seen with ptxas 13.0: 232 registers for 256 threads and .inc 232). */
static u32 entry_registers(const struct function *f, u32 threads) {
    u32 r = f->max_nreg;
    if (!r && f->min_ctas && (f->max_ntid[0] || f->req_ntid[0]))
        r = 65536 / f->min_ctas / ((threads + LANES - 1) & ~31u) & ~7u;
    r = r > 255 ? 255 : r;
    return f->set_nreg && f->set_nreg < r ? f->set_nreg : r;
}

static void start_warps(struct emu *e, struct cta *c) {
    const struct function *f = c->grid->fn;
    const u32 registers = entry_registers(f, c->nthreads);
    c->reg_budget = registers != 0;
    c->regs_free = 0;
    for (u32 k = 0; k < c->nwarps; k++) {
        struct warp *w = &c->warps[k];
        memset(w, 0, sizeof *w);
        w->bank[BANK_REG] = c->regs + (size_t)k * f->reg_bytes;
        w->bank[BANK_CONST] = f->consts;
        w->bank[BANK_CTA] = c->cta_bank;
        w->bank[BANK_WARP] = c->warp_bank + (size_t)k * f->warp_bytes;
        w->cta = c;
        w->code = f->code;
        w->id = k;
        w->nreg = registers;
        w->local = c->locals + (size_t)k * f->local_bytes * LANES;
        u32 lanes = c->nthreads - k * LANES;
        w->live = lanes >= LANES ? ~0u : (1u << lanes) - 1;
        w->nsplits = 1;
        w->splits[0] = (struct split){.pc = 0, .mask = w->live, .join = -1, .join_pc = REF_NONE};
        w->ready_slot = -1;
        check_warp_start(w);
        if (e->timing)
            time_warp_start(e, w);
        warp_start(e, w);
    }
}

static void cta_start(struct emu *e, struct cta *c) {
    const struct grid *g = c->grid;
    const struct function *f = g->fn;
    u32 n = g->block[0] * g->block[1] * g->block[2], nw = (n + LANES - 1) / LANES;
    c->nthreads = n;
    c->nwarps = c->live_warps = nw;
    const size_t regs = (size_t)f->reg_bytes * nw + 64;
    const bool fresh = regs > c->regs_cap;
    c->regs = fit(c->regs, &c->regs_cap, regs);
    c->locals = fit(c->locals, &c->local_cap, (size_t)f->local_bytes * nw * LANES + 64);
    c->warp_bank = fit(c->warp_bank, &c->warp_cap, (size_t)f->warp_bytes * nw + 64);
    c->cta_bank = fit(c->cta_bank, &c->cta_cap, f->cta_bytes + 64u);
    c->smem_lo = SMEM_RESERVED;
    c->smem_hi = SMEM_RESERVED + smem_need(f, g->dyn_smem);
    c->smem = fit(c->smem, &c->smem_cap, c->smem_hi + 64u);
    memset(c->smem, 0xff, c->smem_hi + 64u);
    if (fresh && !e->checker) /* the checker knows what is not written */
        memset(c->regs, 0xff, (size_t)f->reg_bytes * nw);
    memset(c->locals, 0xff, (size_t)f->local_bytes * nw * LANES);
    memset(c->bar, 0, sizeof c->bar);
    mbar_forget(c);
    tmem_reset(c);
    memset(&c->tensor, 0, sizeof c->tensor);
    c->tensor.slot = -1;
    c->launched_dependents = c->exited = false;
    c->started = true;
    c->outstanding = 0;
    fill_banks(c);
    check_cta_start(c);
    e->stats[EMU_STAT_CTAS]++;
    start_warps(e, c);
}

bool grid_may_start(const struct grid *g) {
    const struct grid *p = g->primary;
    return !p || p->done ||
           p->ctas_launched ==
               p->nclusters * (u64)p->cluster_dim[0] * p->cluster_dim[1] * p->cluster_dim[2];
}

static u32 residency_limit(struct emu *e, const struct grid *g) {
    u32 per = emu_occupancy(e, g->fn, g->block[0] * g->block[1] * g->block[2], g->dyn_smem);
    u32 most = (per ? per : 1) * e->part->sms;
    u32 cl = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
    if (e->opt.slots && e->opt.slots < most)
        most = e->opt.slots;
    return most < cl ? cl : most;
}

static u32 ctas_on_sm(const struct emu *e, u32 sm) {
    u32 n = 0;
    for (u32 k = 0; k < e->nclusters; k++)
        for (u32 r = 0; r < e->clusters[k]->n; r++)
            n += e->clusters[k]->cta[r] && e->clusters[k]->cta[r]->sm == sm;
    return n;
}

/* The next SM, or, where another CTA fits on it, the one before: some CTAs then share an SM, though
 * few are resident. */
static u32 place_on_sm(struct emu *e, struct grid *g) {
    const u32 threads = g->block[0] * g->block[1] * g->block[2], sms = e->part->sms;
    const u32 before = (u32)((g->smid + sms - 1) % sms);
    const bool alone = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2] == 1;
    if (g->smid && alone && !e->timing && rng_below(&e->rng, 2) &&
        ctas_on_sm(e, before) < emu_occupancy(e, g->fn, threads, g->dyn_smem))
        return before;
    return (u32)(g->smid++ % sms);
}

static void place_cluster(struct emu *e, struct grid *g, u32 index) {
    struct cluster *cl = calloc(1, sizeof *cl);
    u32 nd[3], at[3];
    for (u32 k = 0; k < 3; k++)
        nd[k] = g->dim[k] / g->cluster_dim[k];
    at[0] = index % nd[0];
    at[1] = index / nd[0] % nd[1];
    at[2] = index / nd[0] / nd[1];
    cl->n = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
    if (e->nclusters == e->clusters_cap) {
        e->clusters_cap = e->clusters_cap ? e->clusters_cap * 2 : 64;
        e->clusters = realloc(e->clusters, e->clusters_cap * sizeof *e->clusters);
        if (!e->clusters)
            abort();
    }
    cl->index = e->nclusters;
    e->clusters[e->nclusters++] = cl;
    cl->live = cl->n;
    for (u32 r = 0; r < cl->n; r++) {
        struct cta *c = cta_get(e);
        c->sm = place_on_sm(e, g);
        c->grid = g;
        c->cluster = cl;
        cl->cta[r] = c;
        c->rank = r;
        u32 in[3] = {r % g->cluster_dim[0], r / g->cluster_dim[0] % g->cluster_dim[1],
                     r / g->cluster_dim[0] / g->cluster_dim[1]};
        for (u32 k = 0; k < 3; k++)
            c->id[k] = at[k] * g->cluster_dim[k] + in[k];
    }
    if (e->timing)
        time_place(e, g, cl);
    cluster_barrier_start(cl);
    for (u32 r = 0; r < cl->n; r++)
        cta_start(e, cl->cta[r]);
    e->resident += cl->n;
}

/* Starts one cluster; false when there is none to start or no room. */
bool grid_dispatch(struct emu *e) {
    for (struct grid *g = e->grids; g; g = g->next) {
        if (g->next_cluster == g->nclusters)
            continue;
        if (!grid_may_start(g))
            return false;
        u32 cl = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
        if (!e->timing && e->resident && e->resident + cl > residency_limit(e, g))
            return false;
        const u64 left = g->nclusters - g->next_cluster;
        const bool by_number = e->timing || e->opt.in_order;
        u64 j = g->next_cluster + (by_number ? 0 : rng_below(&e->rng, left < 8 ? (u32)left : 8u));
        u32 pick = g->order[j];
        g->order[j] = g->order[g->next_cluster];
        g->next_cluster++;
        if (!g->started) {
            g->started = true;
            check_grid_start(g);
        }
        place_cluster(e, g, pick);
        e->progress++;
        return true;
    }
    return false;
}

/* A CTA executed launch_dependents or exited. */
void grid_cta_launched(struct cta *c) {
    if (c->launched_dependents)
        return;
    c->launched_dependents = true;
    c->grid->ctas_launched++;
    if (c->grid->time)
        time_grid_triggered(c->grid->emu, c->grid);
}

void grid_free(struct grid *g) {
    if (g->workspace)
        emu_free_mem(g->emu, g->workspace);
    free(g->params);
    free(g->order);
    time_grid_free(g);
    free(g);
}

/* `g` has ended, and with it what it waited for; so `next` may go on from its wait. In a GPU a grid
 * that waits for nothing may end before those in front of it, here all end in order. */
static void grid_follow(struct grid *next, const struct grid *g) {
    next->loose_lo = g->waited ? g->loose_lo : g->oldest;
    next->loose_hi = g->waited ? g->loose_hi : g->id;
    next->primary = NULL;
}

static void retire_grids(struct emu *e) {
    while (e->grids && e->grids->done) {
        struct grid *g = e->grids;
        e->grids = g->next;
        if (e->grids && e->grids->primary == g)
            grid_follow(e->grids, g);
        if (!e->grids)
            e->grids_tail = NULL;
        grid_free(g);
    }
}

static void cta_put(struct emu *e, struct cta *c) {
    for (u32 k = 0; k < c->nwarps; k++)
        warp_free_parts(&c->warps[k]), time_warp_free(&c->warps[k]);
    wgmma_free(c);
    check_cta_free(c);
    c->next_free = e->free_cta;
    e->free_cta = c;
}

/* The last warp of a cluster is gone; frees it once no asynchronous work touches it. */
void cta_retire(struct emu *e, struct cta *c) {
    struct cluster *cl = c->cluster;
    struct grid *g = c->grid;
    for (u32 r = 0; r < cl->n; r++)
        if (!cl->cta[r]->exited || cl->cta[r]->outstanding)
            return;
    struct cluster *last = e->clusters[--e->nclusters];
    e->clusters[cl->index] = last;
    last->index = cl->index;
    e->resident -= cl->n;
    if (e->timing)
        time_cluster_end(e, cl);
    for (u32 r = 0; r < cl->n; r++)
        check_cta_end(cl->cta[r]);
    for (u32 r = 0; r < cl->n; r++)
        cta_put(e, cl->cta[r]);
    cluster_barrier_free(cl);
    free(cl);
    e->progress++;
    if (++g->done_clusters == g->nclusters) {
        g->done = true;
        if (e->timing)
            time_grid_end(e, g);
        forms_opcodes(e, g->fn);
        check_grid_end(g);
        retire_grids(e);
        emu_wake_grid(e);
    }
}

/* After a fault: everything resident and queued is dropped. */
void grid_abandon(struct emu *e) {
    while (e->nclusters) {
        struct cluster *cl = e->clusters[--e->nclusters];
        for (u32 r = 0; r < cl->n; r++)
            cta_put(e, cl->cta[r]);
        cluster_barrier_free(cl);
        free(cl);
    }
    e->resident = 0;
    while (e->grids) {
        struct grid *g = e->grids;
        e->grids = g->next;
        grid_free(g);
    }
    e->grids_tail = NULL;
}

void cta_free_all(struct emu *e) {
    while (e->free_cta) {
        struct cta *c = e->free_cta;
        e->free_cta = c->next_free;
        mbar_forget(c);
        free(c->warps);
        free(c->regs);
        free(c->locals);
        free(c->warp_bank);
        free(c->cta_bank);
        free(c->smem);
        free(c->mbar);
        free(c->mbar_at);
        tmem_free(c);
        check_cta_delete(c);
        free(c);
    }
}
