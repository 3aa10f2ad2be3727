/* SPDX-License-Identifier: Apache-2.0
 * A trace as a picture: the roles of one CTA, a lane each, and the combine's below. Colours say
 * what kind of work it is, grey is waiting, numbers are tiles; the dark line is the critical path.
 * Everything is inside the file: no fonts, no scripts. */
#include "trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1280,
    LEFT = 140, /* labels */
    RIGHT = 96, /* busy */
    TOP = 74,   /* title, axis */
    LANE = 34,  /* and the gap below it */
    BLOCK = 24, /* of it */
    LEGEND = 62,
    PLOT = WIDTH - LEFT - RIGHT,
    MAX_LANES = 24,
};

struct drawing {
    FILE *out;
    const struct trace *trace;
    const struct trace_view *view;
    double scale; /* pixels per ns */
    struct trace_role roles[MAX_LANES];
    int lanes;
    struct trace_path path;
};

static double x_of(const struct drawing *d, double t) {
    const double x = LEFT + (t - d->view->from) * d->scale;
    return x < LEFT ? LEFT : x > LEFT + PLOT ? LEFT + PLOT : x;
}

static int y_of(int lane) {
    return TOP + lane * LANE;
}

static void put_text(FILE *out, double x, double y, const char *attributes, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    for (; *text; text++)
        if (*text == '<' || *text == '&')
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    fprintf(out, "</text>\n");
}

/* --- Around the lanes --- */

/* 1, 2 or 5 times a power of ten, for about `ticks` ticks. */
static double tick_step(double range, int ticks) {
    const double rough = range / ticks, power = pow(10, floor(log10(rough)));
    const double mantissa = rough / power;
    return power * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

static void put_axis(const struct drawing *d) {
    const double step = tick_step(d->view->to - d->view->from, 10);
    char text[32];
    for (double t = ceil(d->view->from / step) * step; t <= d->view->to; t += step) {
        const double x = x_of(d, t);
        fprintf(d->out, "<path d=\"M%.1f %d V%d\" class=\"grid\"/>\n", x, TOP - 8,
                y_of(d->lanes) - 4);
        snprintf(text, sizeof text, "%.*f µs", step < 100 ? 2 : step < 1000 ? 1 : 0, t / 1000);
        if (x < LEFT + PLOT - 16) /* there stands "busy" */
            put_text(d->out, x, TOP - 13, "class=\"tick\" text-anchor=\"middle\"", text);
    }
}

static void put_title(const struct drawing *d) {
    char text[400];
    const struct trace *t = d->trace;
    snprintf(text, sizeof text, "%s", t->kernel);
    put_text(d->out, 16, 26, "class=\"title\"", text);
    snprintf(text, sizeof text, "%s · CTA %d of %d · %s", t->shape, d->view->cta, t->decode_ctas,
             t->is_modelled ? "modelled, not measured" : t->device);
    put_text(d->out, WIDTH - 16, 26, "class=\"tick\" text-anchor=\"end\"", text);
    put_text(d->out, WIDTH - 16, TOP - 13, "class=\"tick\" text-anchor=\"end\"", "busy · path");
}

static void put_legend(const struct drawing *d) {
    const int y = y_of(d->lanes) + 18;
    double x = LEFT;
    for (int kind = GQA_TRACE_SETUP; kind <= GQA_TRACE_COMBINE; kind++) {
        const struct trace_colour *c = &trace_colours[kind];
        if (kind == GQA_TRACE_COMBINE && !d->trace->combine_ctas)
            continue;
        fprintf(d->out,
                "<rect x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" "
                "fill=\"%s\"/>\n",
                x, y, c->fill);
        put_text(d->out, x + 17, y + 10.5, "class=\"tick\"", c->says);
        x += 34 + 6.3 * (double)strlen(c->says);
    }
    fprintf(d->out, "<path d=\"M%.1f %d h22\" class=\"path\"/>\n", x, y + 6);
    put_text(d->out, x + 28, y + 10.5, "class=\"tick\"", "critical path");
}

/* --- Lanes --- */

static bool says_tile(const struct gqa_trace_span *s) {
    return s->kind != GQA_TRACE_SETUP && s->kind != GQA_TRACE_STORE && s->kind != GQA_TRACE_OTHER &&
           s->kind != GQA_TRACE_COMBINE;
}

/* "KQ_issue 3", "3" or nothing, by the room. */
static void put_name(const struct drawing *d, const struct gqa_trace_span *s, double x, double w,
                     int y) {
    char text[64], attributes[96];
    if (says_tile(s) && s->kind != GQA_TRACE_WAIT)
        snprintf(text, sizeof text, "%s %d", s->name, s->tile);
    else
        snprintf(text, sizeof text, "%s", s->name);
    if (6.0 * (double)strlen(text) + 4 > w) {
        if (!says_tile(s) || s->kind == GQA_TRACE_WAIT)
            return;
        snprintf(text, sizeof text, "%d", s->tile);
    }
    if (6.0 * (double)strlen(text) + 3 > w)
        return;
    snprintf(attributes, sizeof attributes, "class=\"name\" text-anchor=\"middle\" fill=\"%s\"",
             trace_colours[s->kind].text);
    put_text(d->out, x + w / 2, y + BLOCK / 2.0 + 3.8, attributes, text);
}

static void put_span(const struct drawing *d, const struct gqa_trace_span *s, int y) {
    const double x = x_of(d, s->begin), w = x_of(d, s->end) - x;
    const bool waits = s->kind == GQA_TRACE_WAIT;
    if (s->end <= d->view->from || s->begin >= d->view->to || w < 0.15 ||
        s->kind == GQA_TRACE_OTHER)
        return;
    fprintf(d->out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" rx=\"%s\" fill=\"%s\">",
            x, y + (waits ? 5 : 0), w > 0.9 ? w - 0.4 : w, BLOCK - (waits ? 10 : 0),
            w > 6 ? "2.5" : "0", trace_colours[s->kind].fill);
    fprintf(d->out, "<title>%s, tile %d: %.0f to %.0f ns (%.0f)&#10;%s</title></rect>\n", s->name,
            s->tile, s->begin, s->end, s->end - s->begin, s->says);
    put_name(d, s, x, w, y);
}

static void put_lane(const struct drawing *d, int i) {
    const struct trace_role *r = &d->roles[i];
    const struct trace_lane *lane = r->lane;
    const int y = y_of(i);
    char text[64];
    fprintf(d->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"lane\"/>\n", LEFT,
            y, PLOT, BLOCK);
    trace_label(lane, text, sizeof text);
    put_text(d->out, LEFT - 10, y + 12, "class=\"role\" text-anchor=\"end\"", text);
    snprintf(text, sizeof text, trace_is_combine(lane) ? "CTA %d" : "warp %d",
             trace_is_combine(lane) ? lane->spans->cta : lane->spans->warp);
    put_text(d->out, LEFT - 10, y + 23, "class=\"small\" text-anchor=\"end\"", text);
    for (size_t j = 0; j < lane->count; j++)
        put_span(d, &lane->spans[j], y);
    snprintf(text, sizeof text, "%.0f %%", r->life > 0 ? 100 * r->busy / r->life : 0);
    put_text(d->out, LEFT + PLOT + 44, y + 16, "class=\"role\" text-anchor=\"end\"", text);
    snprintf(text, sizeof text, "%.0f %%",
             d->trace->end > 0 ? 100 * r->on_path / d->trace->end : 0);
    if (!trace_is_combine(lane))
        put_text(d->out, WIDTH - 16, y + 16, "class=\"tick\" text-anchor=\"end\"", text);
}

/* --- The path --- */

static int lane_of(const struct drawing *d, const struct trace_lane *lane) {
    for (int i = 0; i < d->lanes; i++)
        if (d->roles[i].lane->spans->role == lane->spans->role &&
            trace_is_combine(d->roles[i].lane) == trace_is_combine(lane))
            return i;
    return 0;
}

/* Along the bottom of the lanes: what a role did (`own`); between them what was in flight. */
static void put_path(const struct drawing *d, bool own) {
    int last_y = -1;
    double last_x = 0;
    fprintf(d->out, "<path class=\"%s\" d=\"", own ? "path" : "flight");
    for (size_t i = 0; i < d->path.count; i++) {
        const struct trace_step *s = &d->path.steps[i];
        if (s->in_flight || s->end <= d->view->from || s->begin >= d->view->to)
            continue;
        const int y = y_of(lane_of(d, s->lane)) + BLOCK + 3;
        const double x = x_of(d, s->begin), end = x_of(d, s->end);
        const double bend = fmin((last_x - end) / 2, 60);
        if (own)
            fprintf(d->out, "M%.1f %d H%.1f ", end, y, x);
        else if (last_y >= 0 && last_x > end)
            fprintf(d->out, "M%.1f %d C%.1f %d %.1f %d %.1f %d ", end, y, end + bend, y,
                    last_x - bend, last_y, last_x, last_y);
        last_y = y;
        last_x = x;
    }
    fprintf(d->out, "M0 0\"/>\n");
}

static const char style[] =
    "<style>text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    ".title{font-size:15px;font-weight:600;fill:#1f2933}.role{font-size:12px;fill:#1f2933}"
    ".tick{font-size:11px;fill:#6b7480}.small{font-size:9.5px;fill:#9aa5b1}"
    ".name{font-size:10px}.lane{fill:#f7f8fa}.grid{stroke:#e4e7eb;fill:none}"
    ".path{stroke:#1f2933;stroke-width:2.6;fill:none}"
    ".flight{stroke:#1f2933;stroke-width:1.1;stroke-dasharray:4 3;opacity:.6;fill:none}</style>\n";

/* Leave out lanes of which the view shows nothing. */
static void keep_visible(struct drawing *d) {
    int kept = 0;
    for (int i = 0; i < d->lanes; i++) {
        const struct trace_lane *lane = d->roles[i].lane;
        if (lane->spans->begin < d->view->to && lane->spans[lane->count - 1].end > d->view->from)
            d->roles[kept++] = d->roles[i];
    }
    d->lanes = kept;
}

int trace_write_svg(const struct trace *trace, const struct trace_view *view, const char *path) {
    struct drawing d = {.trace = trace, .view = view};
    if (!(d.out = fopen(path, "w")))
        return -1;
    d.scale = PLOT / (view->to > view->from ? view->to - view->from : 1);
    d.path = trace_path_of(trace, view->cta);
    d.lanes = trace_roles(trace, view->cta, &d.path, d.roles, MAX_LANES);
    keep_visible(&d);
    const int height = y_of(d.lanes) + LEGEND - 12;
    fprintf(d.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n%s<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height, style, WIDTH, height);
    put_title(&d);
    put_axis(&d);
    for (int i = 0; i < d.lanes; i++)
        put_lane(&d, i);
    put_path(&d, false);
    put_path(&d, true);
    put_legend(&d);
    fprintf(d.out, "</svg>\n");
    free(d.path.steps);
    const int failed = ferror(d.out);
    return fclose(d.out) || failed ? (errno = errno ? errno : EIO, -1) : 0;
}
