/* SPDX-License-Identifier: Apache-2.0
 * Lanes, roles and the critical path of a trace. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct trace_colour trace_colours[] = {
    [GQA_TRACE_OTHER]    = {"#eef0f2", "#8a9199", "between ranges"},
    [GQA_TRACE_SETUP]    = {"#9aa5b1", "#ffffff", "set-up"},
    [GQA_TRACE_WAIT]     = {"#d9dde2", "#6b7480", "waiting"},
    [GQA_TRACE_LOAD]     = {"#2a9d8f", "#ffffff", "loads issued"},
    [GQA_TRACE_MULTIPLY] = {"#4361ee", "#ffffff", "products"},
    [GQA_TRACE_SOFTMAX]  = {"#f08a24", "#ffffff", "softmax"},
    [GQA_TRACE_PUBLISH]  = {"#f2c14e", "#4a3c0a", "handing on"},
    [GQA_TRACE_RESCALE]  = {"#d1495b", "#ffffff", "rescaling O"},
    [GQA_TRACE_STORE]    = {"#5a9e4b", "#ffffff", "storing"},
    [GQA_TRACE_COMBINE]  = {"#8e5bd0", "#ffffff", "merging splits"},
};
/* clang-format on */

static void *memory(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        fprintf(stderr, "gqa: out of memory\n");
        exit(1);
    }
    return p;
}

/* --- Lanes --- */

static bool same_cta(const struct gqa_trace_span *a, const struct gqa_trace_span *b) {
    return a->kernel == b->kernel && a->cta == b->cta;
}

static void make_lanes(struct trace *t) {
    t->lanes = memory(t->info.spans, sizeof *t->lanes);
    for (size_t i = 0; i < t->info.spans; i++) {
        const struct gqa_trace_span *s = &t->spans[i], *last = i ? s - 1 : NULL;
        if (!last || !same_cta(last, s) || last->warp != s->warp) {
            struct trace_lane *lane = &t->lanes[t->lane_count++];
            lane->spans = s;
            lane->leads = true;
            for (size_t j = t->lane_count - 1; j-- && same_cta(t->lanes[j].spans, s);)
                if (t->lanes[j].spans->role == s->role)
                    lane->leads = false;
            int *ctas = s->kernel[0] == 'c' ? &t->combine_ctas : &t->decode_ctas;
            *ctas = s->cta >= *ctas ? s->cta + 1 : *ctas;
        }
        t->lanes[t->lane_count - 1].count++;
        t->end = s->end > t->end ? s->end : t->end;
    }
}

gqa_status trace_make(struct trace *t, const void *buffer, size_t bytes, struct gqa_error *err) {
    t->info = gqa_trace_info_init();
    gqa_status status = gqa_trace_read(buffer, bytes, NULL, 0, &t->info, err);
    if (status)
        return status;
    t->spans = memory(t->info.spans, sizeof *t->spans);
    status = gqa_trace_read(buffer, bytes, t->spans, t->info.spans, &t->info, err);
    if (!status)
        make_lanes(t);
    return status;
}

void trace_free(struct trace *t) {
    free(t->spans);
    free(t->lanes);
    t->spans = NULL;
    t->lanes = NULL;
}

void trace_label(const struct trace_lane *lane, char *to, size_t size) {
    const struct gqa_trace_span *s = lane->spans;
    const char *turn = strchr(s->role, '_');
    if (turn)
        snprintf(to, size, "%.*s, %s tiles", (int)(turn - s->role), s->role, turn + 1);
    else
        snprintf(to, size, "%s", s->role);
}

/* --- The critical path --- */

/* Is `name` one of the words of `names`? */
static bool is_among(const char *name, const char *names) {
    const size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

struct found {
    const struct trace_lane *lane;
    const struct gqa_trace_span *span;
};

/* What ended a wait: of the ranges it waits for, the last that ended before it did; those of its
 * own tile first, unless it waits for a slot, which an earlier tile leaves. Other CTAs are looked
 * at only where a cluster or letters are waited for. */
static struct found find_cause(const struct trace *t, const struct trace_lane *at,
                               const struct gqa_trace_span *wait) {
    struct found best = {NULL, NULL}, own = {NULL, NULL};
    const bool any_cta = !strcmp(wait->name, "wait_cluster") || !strcmp(wait->name, "wait_letters");
    for (size_t i = 0; i < t->lane_count; i++) {
        const struct trace_lane *lane = &t->lanes[i];
        if (lane->spans->kernel != wait->kernel || (!any_cta && lane->spans->cta != wait->cta))
            continue;
        for (size_t j = 0; j < lane->count && lane->spans[j].end <= wait->end; j++) {
            const struct gqa_trace_span *s = &lane->spans[j];
            if (!is_among(s->name, wait->after) || (lane == at && s->end > wait->begin))
                continue;
            if (!best.span || s->end > best.span->end)
                best = (struct found){lane, s};
            if (s->tile == wait->tile && (!own.span || s->end > own.span->end))
                own = (struct found){lane, s};
        }
    }
    const size_t n = strlen(wait->name);
    const bool is_slot = n > 5 && !strcmp(wait->name + n - 5, "_slot");
    return own.span && !is_slot ? own : best;
}

/* Did it wait at all? Asking a barrier that is ready takes time too: about as long as the shortest
 * wait of the name, so what is not clearly longer, or not 100 ns, went on by itself. */
static bool is_held_up(const struct trace_lane *lane, const struct gqa_trace_span *wait) {
    double least = 40;
    const double length = wait->end - wait->begin;
    for (size_t i = 0; i < lane->count; i++) {
        const struct gqa_trace_span *s = &lane->spans[i];
        if (s->name == wait->name && s->end - s->begin < least)
            least = s->end - s->begin;
    }
    return length > 2 * least + 20 && length > 100;
}

/* The span of the lane that was on at time t, or ended then. */
static const struct gqa_trace_span *span_at(const struct trace_lane *lane, double t) {
    size_t lo = 0, hi = lane->count;
    while (lo < hi) {
        const size_t middle = (lo + hi) / 2;
        if (lane->spans[middle].begin < t)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo ? &lane->spans[lo - 1] : NULL;
}

/* Where the path ends: with what the CTA did last that was no waiting. */
static struct found last_of(const struct trace *t, int cta) {
    struct found last = {NULL, NULL};
    for (size_t i = 0; i < t->lane_count; i++)
        for (size_t j = 0; trace_in_cta(&t->lanes[i], cta) && j < t->lanes[i].count; j++) {
            const struct gqa_trace_span *s = &t->lanes[i].spans[j];
            if (s->kind != GQA_TRACE_WAIT && s->kind != GQA_TRACE_OTHER &&
                (!last.span || s->end > last.span->end))
                last = (struct found){&t->lanes[i], s};
        }
    return last;
}

struct trace_path trace_path_of(const struct trace *t, int cta) {
    struct trace_path path = {NULL, 0};
    struct found at = last_of(t, cta);
    double now = at.span ? at.span->end : 0;
    size_t room = 0;
    while (at.span && now > 0) {
        if (path.count + 2 > room) {
            struct trace_step *more = memory(room = 2 * room + 64, sizeof *more);
            if (path.count)
                memcpy(more, path.steps, path.count * sizeof *more);
            free(path.steps);
            path.steps = more;
        }
        const struct gqa_trace_span *s = at.span;
        struct found cause = {NULL, NULL};
        if (s->kind == GQA_TRACE_WAIT && s->after[0] && is_held_up(at.lane, s))
            cause = find_cause(t, at.lane, s);
        if (cause.span && cause.span->end <= now) {
            path.steps[path.count++] = (struct trace_step){.lane = cause.lane,
                                                           .span = cause.span,
                                                           .begin = cause.span->end,
                                                           .end = now,
                                                           .in_flight = true};
            now = cause.span->end;
            path.steps[path.count++] =
                (struct trace_step){cause.lane, cause.span, cause.span->begin, now, false};
            now = cause.span->begin;
            at.lane = cause.lane;
        } else {
            path.steps[path.count++] = (struct trace_step){at.lane, s, s->begin, now, false};
            now = s->begin;
        }
        at.span = span_at(at.lane, now);
    }
    return path;
}

/* --- Roles --- */

void trace_add_wait(struct trace_role *r, const struct gqa_trace_span *s) {
    enum { WAITS = sizeof r->waits / sizeof *r->waits };
    int i = 0;
    while (i < WAITS - 1 && r->waits[i].name && r->waits[i].name != s->name)
        i++;
    if (!r->waits[i].name || r->waits[i].name != s->name)
        r->waits[i] = (struct trace_share){s->name, 0};
    r->waits[i].ns += s->end - s->begin;
    for (; i && r->waits[i].ns > r->waits[i - 1].ns; i--) {
        const struct trace_share swap = r->waits[i];
        r->waits[i] = r->waits[i - 1];
        r->waits[i - 1] = swap;
    }
}

static struct trace_role role_of(const struct trace_lane *lane, const struct trace_path *path) {
    struct trace_role r = {.lane = lane};
    r.life = lane->spans[lane->count - 1].end - lane->spans->begin;
    for (size_t i = 0; i < lane->count; i++) {
        const struct gqa_trace_span *s = &lane->spans[i];
        if (s->kind == GQA_TRACE_WAIT) {
            r.waiting += s->end - s->begin;
            trace_add_wait(&r, s);
        } else {
            r.busy += s->end - s->begin;
        }
    }
    for (size_t i = 0; i < path->count; i++)
        if (same_cta(path->steps[i].lane->spans, lane->spans) &&
            path->steps[i].lane->spans->role == lane->spans->role && !path->steps[i].in_flight)
            r.on_path += path->steps[i].end - path->steps[i].begin;
    return r;
}

int trace_roles(const struct trace *t, int cta, const struct trace_path *path,
                struct trace_role *roles, int room) {
    int n = 0;
    bool has_combine = false;
    for (size_t i = 0; i < t->lane_count && n < room; i++) {
        const struct trace_lane *lane = &t->lanes[i];
        const bool is_combine = trace_is_combine(lane) && !has_combine;
        if (!lane->leads || !strcmp(lane->spans->role, "idle") ||
            !(is_combine || trace_in_cta(lane, cta)))
            continue;
        has_combine |= is_combine;
        roles[n++] = role_of(lane, path);
    }
    return n;
}
