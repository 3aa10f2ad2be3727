/* SPDX-License-Identifier: Apache-2.0
 * trace_view.html with a trace inside: a page that needs neither network nor other files. */
#include "trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The page. Its mark stands where the trace goes. */
extern const char trace_view_page[];
__asm__(
    ".section .rodata\ntrace_view_page:\n.incbin \"tools/trace_view.html\"\n.byte 0\n.previous\n");
#define MARK "/*TRACE*/null/*TRACE*/"

enum { MAX_RANGES = 256, MAX_PATHS = 16, COMBINE_SHOWN = 2 };

struct names {
    const struct gqa_trace_span *of[MAX_RANGES];
    int count;
};

static int name_index(struct names *names, const struct gqa_trace_span *s) {
    for (int i = 0; i < names->count; i++)
        if (names->of[i]->name == s->name)
            return i;
    if (names->count == MAX_RANGES)
        return 0;
    names->of[names->count] = s;
    return names->count++;
}

/* Tenths of a nanosecond. */
static long long tenths(double ns) {
    return llround(ns * 10);
}

/* Begins as differences: small numbers. Spans of no length are left out. */
static void put_lane(FILE *out, const struct trace_lane *lane, struct names *names) {
    const struct gqa_trace_span *s = lane->spans;
    char label[64];
    long long last = 0;
    trace_label(lane, label, sizeof label);
    fprintf(out, "{\"k\":\"%s\",\"r\":\"%s\",\"c\":%d,\"s\":%d,\"w\":%d,\"l\":%d,\"e\":[",
            s->kernel, label, s->cta, s->sm, s->warp, lane->leads);
    bool any = false;
    for (size_t i = 0; i < lane->count; i++, s++) {
        const long long begin = tenths(s->begin), length = tenths(s->end) - begin;
        if (length <= 0)
            continue;
        fprintf(out, "%s%d,%d,%lld,%lld", any ? "," : "", name_index(names, s), s->tile,
                begin - last, length);
        last = begin;
        any = true;
    }
    fprintf(out, "]}");
}

static void put_path(FILE *out, const struct trace *t, int cta) {
    struct trace_path path = trace_path_of(t, cta);
    bool any = false;
    fprintf(out, "\"%d\":[", cta);
    for (size_t i = 0; i < path.count; i++) {
        const struct trace_step *s = &path.steps[i];
        if (s->in_flight)
            continue;
        fprintf(out, "%s%zu,%lld,%lld", any ? "," : "", (size_t)(s->lane - t->lanes),
                tenths(s->begin), tenths(s->end));
        any = true;
    }
    fprintf(out, "]");
    free(path.steps);
}

static void put_kinds(FILE *out) {
    static const char *const kinds[] = {"OTHER",   "SETUP",   "WAIT",    "LOAD",  "MULTIPLY",
                                        "SOFTMAX", "PUBLISH", "RESCALE", "STORE", "COMBINE"};
    fprintf(out, "\"kinds\":[");
    for (int i = 0; i <= GQA_TRACE_COMBINE; i++)
        fprintf(out, "%s{\"n\":\"%s\",\"fill\":\"%s\",\"text\":\"%s\",\"says\":\"%s\"}",
                i ? "," : "", kinds[i], trace_colours[i].fill, trace_colours[i].text,
                trace_colours[i].says);
    fprintf(out, "],\n");
}

static void put_trace(FILE *out, const struct trace *t, int cta) {
    struct names names = {.count = 0};
    fprintf(out, "{\"kernel\":");
    trace_json_text(out, t->kernel);
    fprintf(out, ",\"shape\":");
    trace_json_text(out, t->shape);
    fprintf(out, ",\"clock\":");
    trace_json_text(out, t->is_modelled ? "modelled, not measured" : t->device);
    fprintf(out, ",\"measured\":%s,\"cta\":%d,\"end\":%.1f,\"lost\":%zu,\"combine_shown\":%d,\n",
            t->is_modelled ? "false" : "true", cta, t->end, t->info.lost, COMBINE_SHOWN);
    put_kinds(out);
    fprintf(out, "\"paths\":{");
    for (int i = 0; i < t->decode_ctas; i++)
        if (i == cta || t->decode_ctas <= MAX_PATHS) {
            fputs(i && t->decode_ctas <= MAX_PATHS ? "," : "", out);
            put_path(out, t, i);
        }
    fprintf(out, "},\n\"lanes\":[");
    for (size_t i = 0; i < t->lane_count; i++) {
        fputs(i ? ",\n" : "", out);
        put_lane(out, &t->lanes[i], &names);
    }
    fprintf(out, "],\n\"ranges\":[");
    for (int i = 0; i < names.count; i++) {
        fprintf(out, "%s{\"n\":\"%s\",\"k\":%d,\"a\":\"%s\",\"s\":", i ? "," : "",
                names.of[i]->name, names.of[i]->kind, names.of[i]->after);
        trace_json_text(out, names.of[i]->says);
        fprintf(out, "}");
    }
    fprintf(out, "]}");
}

int trace_write_html(const struct trace *trace, int cta, const char *path) {
    const char *mark = strstr(trace_view_page, MARK);
    FILE *out = fopen(path, "w");
    if (!out)
        return -1;
    fwrite(trace_view_page, 1, (size_t)(mark - trace_view_page), out);
    put_trace(out, trace, cta);
    fputs(mark + strlen(MARK), out);
    const int failed = ferror(out);
    return fclose(out) || failed ? (errno = errno ? errno : EIO, -1) : 0;
}
