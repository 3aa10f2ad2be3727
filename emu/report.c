/* report.c: what the emulator says: faults, failed checks, hangs.  Every message names the PTX line
 * and, when the module has .loc, the line of the .cu file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "parse.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPORTS = 200 };

static const char *const check_names[] = {
#define X(n, s, t) s,
    EMU_CHECKS(X)
#undef X
};

static const char *base_name(const char *s) {
    const char *b = strrchr(s, '/');
    return b ? b + 1 : s;
}

const char *loc_text(struct emu *e, const struct function *f, u32 loc, char *buf, size_t n) {
    (void)e;
    if (!f || loc >= f->nlocs) {
        snprintf(buf, n, "%s", "unknown place");
        return buf;
    }
    const struct loc *l = &f->locs[loc];
    const struct module *m = f->mod;
    const char *file =
        l->file < m->nfiles && l->file && m->files[l->file] ? m->files[l->file] : NULL;
    const char *outer = l->inlined_file < m->nfiles && l->inlined_file && m->files[l->inlined_file]
                            ? m->files[l->inlined_file]
                            : NULL;
    if (file && outer)
        snprintf(buf, n, "%s:%u (%s:%u from %s:%u)", m->name, l->ptx, base_name(file), l->line,
                 base_name(outer), l->inlined_line);
    else if (file)
        snprintf(buf, n, "%s:%u (%s:%u)", m->name, l->ptx, base_name(file), l->line);
    else
        snprintf(buf, n, "%s:%u", m->name, l->ptx);
    return buf;
}

static void keep_report(struct emu *e, const char *text) {
    e->reports = realloc(e->reports, (e->nreports + 1) * sizeof *e->reports);
    if (!e->reports)
        abort();
    e->reports[e->nreports++] = (struct report){strdup(text), 1};
    e->failed = true;
    if (!e->failure[0])
        snprintf(e->failure, sizeof e->failure, "%s", text);
    if (!e->opt.quiet)
        fprintf(e->opt.log ? e->opt.log : stderr, "%s\n", text);
}

static const char *op_name(const struct insn *i) {
    return op_rows[i->op].base;
}

void emu_fault(struct warp *w, const struct insn *i, const char *fmt, ...) {
    char what[1024], at[300], text[1600];
    struct emu *e = w->cta->grid->emu;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(text, sizeof text,
             "emu: fault: %s: %s: %s [kernel %.100s, CTA %u,%u,%u, warp %u, seed %llu]",
             loc_text(e, w->cta->grid->fn, i->loc, at, sizeof at), op_name(i), what,
             w->cta->grid->fn->name, w->cta->id[0], w->cta->id[1], w->cta->id[2], w->id,
             (unsigned long long)e->opt.seed);
    keep_report(e, text);
    longjmp(e->escape, 1);
}

const char *emu_checks_named(const char *list, bool set[EMU_CHECK_COUNT]) {
    static const char shipped[] = "tcgen05-fence,pending,mbarrier,warp,tmem,exit-store";
    const char *wrong = NULL;
    for (const char *s = list; *s; s += strspn(s, ", ")) {
        const size_t n = strcspn(s, ", ");
        const bool all = n == 3 && !memcmp(s, "all", 3);
        bool known = all || (n == 7 && !memcmp(s, "shipped", 7));
        if (known && !all)
            emu_checks_named(shipped, set);
        for (int k = 0; k < EMU_CHECK_COUNT; k++)
            if (all || (strlen(check_names[k]) == n && !memcmp(check_names[k], s, n)))
                known = set[k] = true;
        if (n && !known && !wrong)
            wrong = s;
        s += n;
    }
    return wrong;
}

void emu_report_at(struct emu *e, struct cta *c, u32 warp, u32 loc, enum emu_check id,
                   const char *fmt, ...) {
    char what[1024], at[300], text[1600], key[340];
    if (e->opt.lenient[id])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(key, sizeof key, "emu: %s: %s: ", check_names[id],
             loc_text(e, c->grid->fn, loc, at, sizeof at));
    for (u32 k = 0; k < e->nreports; k++)
        if (!strncmp(e->reports[k].text, key, strlen(key))) {
            e->reports[k].count++;
            return;
        }
    e->failed = true;
    if (e->nreports >= MAX_REPORTS)
        return;
    snprintf(text, sizeof text, "%s%s [kernel %.100s, CTA %u,%u,%u, warp %u, seed %llu]", key, what,
             c->grid->fn->name, c->id[0], c->id[1], c->id[2], warp,
             (unsigned long long)e->opt.seed);
    keep_report(e, text);
}

void emu_report(struct warp *w, const struct insn *i, enum emu_check id, const char *fmt, ...) {
    char what[1024];
    if (w->cta->grid->emu->opt.lenient[id])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    emu_report_at(w->cta->grid->emu, w->cta, w->id, i->loc, id, "%s: %s", op_name(i), what);
}

void emu_fault_item(struct emu *e, struct item *it, const char *fmt, ...) {
    char what[1024], at[300], text[1600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(text, sizeof text,
             "emu: fault: %s: asynchronous operation: %s [kernel %.100s, CTA %u,%u,%u, warp %u, "
             "seed %llu]",
             loc_text(e, it->grid->fn, it->loc, at, sizeof at), what, it->grid->fn->name,
             it->cta->id[0], it->cta->id[1], it->cta->id[2], it->warp,
             (unsigned long long)e->opt.seed);
    keep_report(e, text);
    longjmp(e->escape, 1);
}

/* --- Hang --- */

struct text {
    char *s;
    size_t n, cap;
};
static void say(struct text *t, const char *fmt, ...) {
    va_list ap;
    char line[800];
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    size_t k = strlen(line);
    if (t->n + k + 1 > t->cap) {
        t->cap = (t->n + k + 1) * 2;
        t->s = realloc(t->s, t->cap);
        if (!t->s)
            abort();
    }
    memcpy(t->s + t->n, line, k + 1);
    t->n += k;
}

static void say_mbarrier(struct text *t, struct cta *c, u32 off) {
    struct mbarrier *b = mbar_find(c, off);
    if (!b) {
        say(t, ", mbarrier at 0x%x (not initialised)", off);
        return;
    }
    say(t, ", mbarrier %s%s0x%x: phase %llu, pending %d of %d, tx %d", b->name ? b->name : "",
        b->name ? " at " : "at ", off, (unsigned long long)b->phase, b->pending, b->expected,
        b->tx);
    if (b->last_arrive[0])
        say(t, ", last arrivals:");
    for (u32 k = 0; k < 4 && b->last_arrive[k]; k++)
        say(t, " warp %u at ptx %u", (b->last_arrive[k] >> 24) - 1, b->last_arrive[k] & 0xffffff);
}

static void say_split(struct text *t, struct emu *e, struct warp *w, const struct split *s) {
    char at[300];
    const struct insn *i = &w->code[s->pc];
    say(t, "\n    warp %2u lanes %08x at %s: %s", w->id, s->mask,
        loc_text(e, w->cta->grid->fn, i->loc, at, sizeof at), op_name(i));
    if (s->state == SPLIT_RUN) {
        say(t, " (running)");
        return;
    }
    say(t, " waits for %s", s->why ? s->why : "something");
    u32 what = (u32)s->key & 0xffffff;
    if (s->key >> 56 == KEY_MBAR)
        say_mbarrier(t, w->cta, what);
    if (s->key >> 56 == KEY_BAR) {
        struct named_barrier *b = &w->cta->bar[what];
        say(t, " %u: %u of %u threads, warps 0x%x arrived", what, b->arrived,
            b->expected ? b->expected : w->cta->live_warps * LANES, b->warps);
    }
    if (s->key >> 56 == KEY_CLUSTER)
        say(t, ": %u of %u threads arrived", w->cta->cluster->arrived, w->cta->cluster->expected);
}

void emu_hang(struct emu *e) {
    struct text t = {0};
    say(&t, "emu: hang: nothing can go on (seed %llu, %llu instructions)",
        (unsigned long long)e->opt.seed, (unsigned long long)e->steps);
    u32 shown = 0;
    for (u32 c = 0; c < e->nclusters; c++)
        for (u32 r = 0; r < e->clusters[c]->n && shown < 4; r++) {
            struct cta *cta = e->clusters[c]->cta[r];
            if (cta->exited)
                continue;
            shown++;
            say(&t, "\n  CTA %u,%u,%u of %s (%u warps live)", cta->id[0], cta->id[1], cta->id[2],
                cta->grid->fn->name, cta->live_warps);
            for (u32 k = 0; k < cta->nwarps; k++)
                for (u32 s = 0; s < cta->warps[k].nsplits; s++)
                    say_split(&t, e, &cta->warps[k], &cta->warps[k].splits[s]);
        }
    u64 left = 0;
    for (struct grid *g = e->grids; g; g = g->next)
        left += g->nclusters - g->next_cluster;
    say(&t, "\n  %u CTAs resident, %llu clusters not started", e->resident,
        (unsigned long long)left);
    keep_report(e, t.s);
    free(t.s);
    longjmp(e->escape, 1);
}
