/* SPDX-License-Identifier: Apache-2.0
 * Chrome's trace event format: a process per CTA, a thread per warp, a complete event ("X") per
 * span, microseconds. Ref: "Trace Event Format", the Chromium project.
 *
 * Perfetto counts in whole nanoseconds and drops an event that overlaps its neighbour, which the
 * rounded end of one and the rounded length of the next do; so ends are rounded here. It takes
 * thread 0 for one and the same idle thread of all processes; so numbers start at 1, and no two
 * warps share one. */
#include "trace.h"

#include <errno.h>
#include <math.h>

enum { WARPS_OF_A_CTA = 64 };

/* CTAs of the combine are numbered on from decode's. */
static int process_of(const struct trace *t, const struct gqa_trace_span *s) {
    return 1 + (s->kernel[0] == 'c' ? t->decode_ctas + s->cta : s->cta);
}

static int thread_of(const struct trace *t, const struct gqa_trace_span *s) {
    return process_of(t, s) * WARPS_OF_A_CTA + s->warp;
}

static const char *const kinds[] = {"other",   "setup",   "wait",    "load",  "multiply",
                                    "softmax", "publish", "rescale", "store", "combine"};

void trace_json_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text < 32)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void write_names(FILE *out, const struct trace *t, const struct trace_lane *lane) {
    const struct gqa_trace_span *s = lane->spans;
    const int process = process_of(t, s), thread = thread_of(t, s);
    char label[64];
    trace_label(lane, label, sizeof label);
    fprintf(out,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":"
            "\"%s CTA %d (SM %d)\"}},\n"
            "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":"
            "{\"sort_index\":%d}},\n"
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":"
            "\"%s, warp %d\"}},\n",
            process, thread, s->kernel, s->cta, s->sm, process, thread, process, process, thread,
            label, s->warp);
}

int trace_write_chrome(const struct trace *t, const char *path) {
    FILE *out = fopen(path, "w");
    if (!out)
        return -1;
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"kernel\":");
    trace_json_text(out, t->kernel);
    fprintf(out, ",\"device\":");
    trace_json_text(out, t->device);
    fprintf(out, ",\"shape\":");
    trace_json_text(out, t->shape);
    fprintf(out, ",\"clock\":\"%s\",\"lost_events\":%zu},\n\"traceEvents\":[\n",
            t->is_modelled ? "modelled" : "measured", t->info.lost);
    for (size_t i = 0; i < t->lane_count; i++)
        write_names(out, t, &t->lanes[i]);
    for (size_t i = 0; i < t->info.spans; i++) {
        const struct gqa_trace_span *s = &t->spans[i];
        const double begin = rint(s->begin), end = rint(s->end);
        fprintf(out,
                "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
                "\"dur\":%.3f,\"args\":{\"tile\":%d}}%s\n",
                s->name, kinds[s->kind], process_of(t, s), thread_of(t, s), begin / 1000,
                (end - begin) / 1000, s->tile, i + 1 < t->info.spans ? "," : "");
    }
    fprintf(out, "]}\n");
    const int failed = ferror(out);
    return fclose(out) || failed ? (errno = errno ? errno : EIO, -1) : 0;
}
