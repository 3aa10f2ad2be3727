/* timing_cost.c: pipes, shared memory, L2 and DRAM of the timing model.  See timing.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"
#include "access.h"
#include <stdlib.h>
#include <string.h>

enum { LINE = 128 };

static double max2(double a, double b) {
    return a > b ? a : b;
}
/* A server that is busy until *free takes `work` cycles more: the end. */
static double serve(double *free, double start, double work) {
    *free = max2(*free, start) + work;
    return *free;
}

/* The same of a pipe, for requests that do not come in the order of time. */
static double serve_lane(struct time_lane *l, double start, double work) {
    u64 s = (u64)(start / TIME_STRETCH);
    float left = (float)work;
    if (s < l->base)
        s = l->base;
    for (;; s++) {
        if (s >= l->base + 2 * TIME_STRETCHES) {
            memset(l->used, 0, sizeof l->used);
            l->base = s;
        }
        for (; s >= l->base + TIME_STRETCHES; l->base++)
            l->used[l->base % TIME_STRETCHES] = 0;
        float *used = &l->used[s % TIME_STRETCHES], room = TIME_STRETCH - *used;
        float take = room < left ? room : left;
        *used += take;
        left -= take;
        if (left <= 0)
            return max2(start + work, (double)(s * TIME_STRETCH) + (double)*used);
    }
}

/* --- Memory --- */

/* Bytes of [addr, addr + bytes) that L2 lacks; they are there afterwards. */
static double missing(struct timing *t, u64 addr, u64 bytes) {
    double miss = 0;
    for (u64 l = addr / LINE; l <= (addr + bytes - 1) / LINE; l++) {
        struct time_line *x = &t->line[(l * 0x9e3779b97f4a7c15ull >> 40) & t->line_mask];
        u64 from = l * LINE > addr ? l * LINE : addr;
        u64 to = (l + 1) * LINE < addr + bytes ? (l + 1) * LINE : addr + bytes;
        if (x->line != l + 1 || t->through - x->at > t->l2_bytes)
            miss += (double)(to - from < 32 ? 32 : to - from);
        *x = (struct time_line){.line = l + 1, .at = t->through};
    }
    return miss;
}

/* Bytes between global memory and an SM: the end, without latency. */
static double transfer(struct emu *e, struct cta *c, double start, double bytes, double miss) {
    struct timing *t = e->timing;
    const double weight = c->grid->time->weight;
    t->through += bytes * weight;
    c->grid->time->bytes += miss * weight;
    double end = serve(&t->sm[c->sm].link, start, bytes / t->p->link);
    end = max2(end, serve(&t->l2, start, bytes * weight / t->p->l2));
    if (miss > 0)
        end = max2(end, serve(&t->hbm, start, miss * weight / t->p->hbm));
    return end;
}
static double memory_latency(const struct timing *t, double miss) {
    return miss > 0 ? t->p->hbm_latency : t->p->l2_latency;
}

/* The lanes' accesses: distinct lines of global memory, or shared memory's bank conflicts. */
struct access {
    double bytes, miss;
    u32 waves; /* of shared memory */
    bool shared, remote;
};

static void global_lanes(struct timing *t, struct warp *w, const struct insn *i, u32 m, u32 bytes,
                         struct access *x) {
    u64 last = 0;
    FOR_LANES(l, m) {
        u64 a = lane_address(w, i, i->a, l);
        for (u64 sector = a / 32; sector <= (a + bytes - 1) / 32; sector++) {
            if (sector + 1 == last)
                continue;
            last = sector + 1;
            x->bytes += 32;
            x->miss += missing(t, sector * 32, 32);
        }
    }
}

/* Wavefronts of one access: words of the same bank that differ, a quarter of the warp at a time for
 * 16 bytes a lane, half of it for 8. */
static u32 wavefronts(const u32 *addr, u32 m, u32 bytes) {
    u32 lanes = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32, waves = 0;
    for (u32 base = 0; base < LANES; base += lanes) {
        u8 depth[32] = {0};
        u32 word[32], most = 0;
        for (u32 l = base; l < base + lanes; l++) {
            if (!(m >> l & 1))
                continue;
            for (u32 k = 0; k < (bytes + 3) / 4; k++) {
                u32 a = addr[l] / 4 + k, bank = a % 32;
                if (depth[bank] && word[bank] == a)
                    continue;
                word[bank] = a;
                if (++depth[bank] > most)
                    most = depth[bank];
            }
        }
        waves += most;
    }
    return waves ? waves : 1;
}

static void examine(struct emu *e, struct warp *w, const struct insn *i, const struct time_op *o,
                    u32 m, struct access *x) {
    u32 addr[LANES] = {0}, bytes = o->bytes ? o->bytes : 4;
    u64 first = lane_address(w, i, i->a, (u32)__builtin_ctz(m));
    x->shared = o->kind == TK_SHARED || (first & WIN_MASK) == WIN_SHARED;
    if ((first & WIN_MASK) == WIN_LOCAL || i->space == SP_LOCAL) {
        x->shared = true;
        x->waves = 1;
        return;
    }
    if (!x->shared) {
        global_lanes(e->timing, w, i, m, bytes, x);
        return;
    }
    FOR_LANES(l, m) addr[l] = (u32)lane_address(w, i, i->a, l);
    x->remote = i->space == SP_CLUSTER && addr[__builtin_ctz(m)] >> 24 != w->cta->rank;
    x->waves = wavefronts(addr, m, bytes);
    x->bytes = bytes * (u32)__builtin_popcount(m);
}

/* --- Instructions --- */

static double run_access(struct emu *e, struct warp *w, const struct insn *i,
                         const struct time_op *o, u32 m, double start) {
    struct timing *t = e->timing;
    struct time_sm *sm = &t->sm[w->cta->sm];
    struct access x = {0};
    examine(e, w, i, o, m, &x);
    if (x.shared) {
        double end = serve_lane(&sm->lsu, start, x.waves);
        w->cta->grid->time->count[w->id].smem += (u64)x.bytes;
        if (x.remote)
            end = serve(&sm->dsmem, end, x.bytes / t->p->dsmem) + t->p->dsmem_latency;
        return end + (o->latency > 0 ? (double)o->latency : t->p->smem_latency);
    }
    /* queued when it is issued, though its address may come later: servers see time in order */
    double latency = memory_latency(t, o->kind == TK_GLOBAL_LD ? x.miss : 0), now = t->now;
    double end = transfer(e, w->cta, now, x.bytes, o->kind == TK_GLOBAL_ATOM ? 0 : x.miss);
    end += start > now ? start - now : 0;
    if (o->kind == TK_GLOBAL_ST)
        return start;
    return end + latency;
}

static double run_tmem(struct emu *e, struct warp *w, const struct time_op *o, double start) {
    struct timing *t = e->timing;
    struct time_count *c = &w->cta->grid->time->count[w->id];
    struct time_lane *pipe = &t->sm[w->cta->sm].pipe[w->id & 3][TP_NONE];
    double end = serve_lane(pipe, start, o->bytes) + t->p->tmem_latency;
    *(o->kind == TK_TMEM_LD ? &c->tmem_ld : &c->tmem_st) += o->bytes * 4u * LANES;
    w->time->tmem = max2(w->time->tmem, end);
    return o->kind == TK_TMEM_LD ? end : start;
}

static double run_param(struct emu *e, struct warp *w, double start) {
    struct time_grid *g = w->cta->grid->time;
    double *r = &g->param_ready[w->cta->sm];
    if (*r <= 0)
        *r = start + e->timing->p->const_miss;
    return max2(*r, start);
}

double time_execute(struct emu *e, struct warp *w, const struct insn *i, const struct time_op *o,
                    u32 m, double start) {
    struct timing *t = e->timing;
    struct time_sm *sm = &t->sm[w->cta->sm];
    struct time_count *c = &w->cta->grid->time->count[w->id];
    switch ((enum time_kind)o->kind) {
    case TK_GLOBAL_LD:
    case TK_GLOBAL_ST:
    case TK_GLOBAL_ATOM:
    case TK_SHARED:
        return run_access(e, w, i, o, m, start);
    case TK_MATRIX_LD:
        c->smem += i->n * 128u;
        return serve_lane(&sm->lsu, start, i->n) + t->p->smem_latency;
    case TK_TMEM_LD:
    case TK_TMEM_ST:
        return run_tmem(e, w, o, start);
    case TK_TMEM_WAIT:
        w->splits[w->cur].t = max2(w->splits[w->cur].t, w->time->tmem);
        return start;
    case TK_PARAM:
        return run_param(e, w, start);
    case TK_ARRIVE:
        c->mbar_arrive++;
        break;
    case TK_WAIT:
        c->mbar_wait++;
        w->splits[w->cur].t = max2(w->splits[w->cur].t, start + (double)o->latency);
        break;
    case TK_BAR:
        c->bars++;
        break;
    default:
        break;
    }
    c->mufu += o->pipe == TP_MUFU;
    if (o->pipe == TP_MMA)
        c->mmas++, c->mma_busy += (double)o->busy;
    struct time_lane *pipe = o->pipe == TP_SM_LSU ? &sm->lsu : &sm->pipe[w->id & 3][o->pipe];
    double end = o->pipe == TP_NONE ? start : serve_lane(pipe, start, (double)o->busy);
    return max2(start, end - (double)o->busy) + (double)o->latency;
}

/* --- Items --- */

void time_touch(struct emu *e, struct item *it, u64 addr, u64 bytes) {
    it->miss += missing(e->timing, addr, bytes);
    it->bytes += (double)bytes;
    it->rows++;
}

/* Lanes issue one after the other, and the warp waits: when this lane has. */
static double bulk_issue(const struct timing *t, const struct item *it, double start) {
    struct warp_time *w = it->cta->warps[it->warp].time;
    double end = serve(&w->bulk, start, t->p->bulk_lane);
    w->t = max2(w->t, end + t->p->bulk_issue);
    return end;
}

static double copy_in(struct emu *e, struct item *it, double now) {
    struct timing *t = e->timing;
    double start = bulk_issue(t, it, now);
    struct time_sm *sm = &t->sm[it->cta->sm];
    struct time_count *c = &it->cta->grid->time->count[it->warp];
    c->tma_ops++;
    c->tma_bytes += (u64)it->bytes;
    double at = serve(&sm->tma, start, max2(t->p->tma_op, it->rows * t->p->tma_row));
    if (it->remote)
        return serve(&sm->dsmem, at, it->bytes / t->p->dsmem) + t->p->dsmem_latency;
    at -= t->p->tma_op;
    return transfer(e, it->cta, at, it->bytes, it->miss) + memory_latency(t, it->miss) +
           t->p->tma_latency;
}

double time_item(struct emu *e, struct item *it, enum agent_kind kind) {
    struct timing *t = e->timing;
    struct time_sm *sm = &t->sm[it->cta->sm];
    struct time_count *c = &it->cta->grid->time->count[it->warp];
    double now = t->now;
    switch (kind) {
    case AG_TMA_LOAD:
        return copy_in(e, it, now);
    case AG_TMA_STORE:
        if (it->remote)
            return now + t->p->tma_latency;
        return serve(&sm->tma, now, t->p->tma_op) + it->bytes / 128 + t->p->tma_latency;
    case AG_CP_ASYNC:
        return transfer(e, it->cta, now, it->bytes, it->miss) + memory_latency(t, it->miss);
    case AG_REMOTE:
        return serve(&sm->dsmem, now, it->bytes / t->p->dsmem) + t->p->dsmem_latency;
    case AG_TENSOR:
    case AG_WGMMA:
        if (it->busy <= 0) /* a commit */
            return now;
        c->mmas++;
        c->mma_busy += it->busy;
        return serve(&sm->tensor, now, it->busy) + t->p->tensor_latency;
    default:
        return now + 500;
    }
}

/* The write of a store, after it has read shared memory. */
double time_item_again(struct emu *e, struct item *it, enum agent_kind kind) {
    struct timing *t = e->timing;
    (void)kind;
    return transfer(e, it->cta, t->now, it->bytes, 0) + t->p->l2_latency;
}
