/* clock.c: vector clocks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include <stdlib.h>
#include <string.h>

static size_t words(u32 n, u32 m) {
    return 3 * (size_t)n + 3 * (size_t)m;
}

struct clock *clock_new(struct emu *e, u32 cluster, u32 ctas) {
    struct checker *k = e->checker;
    u32 n = ctas * AGENTS, m = ctas * TC_AGENTS;
    struct clock *c = malloc(sizeof *c + words(n, m) * 4);
    if (!c)
        abort();
    memset(c->v, 0, words(n, m) * 4);
    c->references = 1;
    c->serial = ++k->serial;
    c->cluster = cluster;
    c->n = n;
    c->m = m;
    c->nforeign = 0;
    c->foreign = NULL;
    return c;
}

void clock_drop(struct clock *c) {
    if (!c || --c->references)
        return;
    for (u32 k = 0; k < c->nforeign; k++)
        clock_drop(c->foreign[k].clock);
    free(c->foreign);
    free(c);
}

struct clock *clock_copy(struct emu *e, const struct clock *c) {
    struct clock *d = clock_new(e, c->cluster, c->n / AGENTS);
    memcpy(d->v, c->v, words(c->n, c->m) * 4);
    if (c->nforeign) {
        d->foreign = malloc(c->nforeign * sizeof *d->foreign);
        if (!d->foreign)
            abort();
        memcpy(d->foreign, c->foreign, c->nforeign * sizeof *d->foreign);
        d->nforeign = c->nforeign;
        for (u32 k = 0; k < c->nforeign; k++)
            d->foreign[k].clock->references++;
    }
    return d;
}

static void max_into(u32 *d, const u32 *s, size_t n) {
    for (size_t k = 0; k < n; k++)
        d[k] = d[k] > s[k] ? d[k] : s[k];
}

/* Numbers of dst know those of src: g, a, b, K, L; T stays. */
static void join_numbers(struct clock *d, const struct clock *s) {
    max_into(d->v, s->v, 3 * (size_t)d->n + d->m);
    max_into(clk_L(d), s->v + 3 * (size_t)s->n + 2 * (size_t)s->m, d->m);
}

static void join_foreign(struct emu *e, struct clock *d, u32 cluster, struct clock *c) {
    for (u32 k = 0; k < d->nforeign; k++) {
        struct foreign *f = &d->foreign[k];
        if (f->cluster != cluster)
            continue;
        if (f->clock == c)
            return;
        if (f->clock->references > 1) {
            struct clock *own = clock_copy(e, f->clock);
            clock_drop(f->clock);
            f->clock = own;
        }
        join_numbers(f->clock, c);
        return;
    }
    d->foreign = realloc(d->foreign, (d->nforeign + 1) * sizeof *d->foreign);
    if (!d->foreign)
        abort();
    d->foreign[d->nforeign++] = (struct foreign){cluster, c};
    c->references++;
}

void clock_join(struct emu *e, struct clock *d, const struct clock *s) {
    if (d == s)
        return;
    if (d->cluster == s->cluster) {
        join_numbers(d, s);
    } else {
        struct clock *c = clock_copy(e, s); /* without its own list: flattened below */
        for (u32 k = 0; k < c->nforeign; k++)
            clock_drop(c->foreign[k].clock);
        c->nforeign = 0;
        join_foreign(e, d, s->cluster, c);
        clock_drop(c);
    }
    for (u32 k = 0; k < s->nforeign; k++)
        if (s->foreign[k].cluster == d->cluster)
            join_numbers(d, s->foreign[k].clock);
        else
            join_foreign(e, d, s->foreign[k].cluster, s->foreign[k].clock);
}

void clock_add(struct emu *e, struct clock **d, const struct clock *s) {
    if (!*d)
        *d = clock_copy(e, s);
    else
        clock_join(e, *d, s);
}

bool clock_knows(const struct clock *c, u32 who, u32 epoch, enum proxy proxy) {
    u32 cluster = who >> WHO_BITS, agent = who & WHO_AGENT;
    if (cluster == c->cluster)
        return epoch <= c->v[proxy * c->n + agent];
    for (u32 k = 0; k < c->nforeign; k++)
        if (c->foreign[k].cluster == cluster) {
            const struct clock *f = c->foreign[k].clock;
            return agent < f->n && epoch <= f->v[proxy * f->n + agent];
        }
    return false;
}

/* Tensor memory needs execution order only: relaxed synchronisation carries K and L. */
void clock_add_tensor(struct emu *e, struct clock **d, const struct clock *s) {
    if (!*d)
        *d = clock_new(e, s->cluster, s->n / AGENTS);
    if ((*d)->cluster != s->cluster)
        return;
    max_into(clk_K(*d), s->v + 3 * (size_t)s->n, s->m);
    max_into(clk_L(*d), s->v + 3 * (size_t)s->n + 2 * (size_t)s->m, s->m);
}

void clock_meet(struct clock *d, const struct clock *s) {
    for (size_t k = 0; k < words(d->n, d->m); k++)
        d->v[k] = d->v[k] < s->v[k] ? d->v[k] : s->v[k];
}
