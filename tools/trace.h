/* SPDX-License-Identifier: Apache-2.0
 * A trace as pictures want it: one lane per warp, what each role did and waited for, and the chain
 * of ranges that decided when a CTA was done. Writers: trace_chrome.c, trace_svg.c, trace_html.c.
 */
#ifndef TRACE_H
#define TRACE_H

#include "gqa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The spans of one warp, by time. */
struct trace_lane {
    const struct gqa_trace_span *spans;
    size_t count;
    bool leads; /* the first warp of its role in its CTA: pictures show it, others do the same */
};

struct trace {
    struct gqa_trace_info info;
    struct gqa_trace_span *spans;
    struct trace_lane *lanes; /* by kernel, CTA, warp */
    size_t lane_count;
    double end; /* ns, of the last span */
    int decode_ctas, combine_ctas;
    const char *kernel, *device; /* of the plan */
    char shape[160];             /* in words */
    bool is_modelled;            /* the clock is an emulator's */
};

/* A step of the critical path: from `begin` to `end` the CTA's end depended on this. */
struct trace_step {
    const struct trace_lane *lane;
    const struct gqa_trace_span *span;
    double begin, end;
    bool in_flight; /* between the end of `span`, which issued it, and the wait that it ended */
};

struct trace_path {
    struct trace_step *steps; /* latest first */
    size_t count;
};

/* One role of a CTA, over its lifetime. */
struct trace_role {
    const struct trace_lane *lane;
    double life, busy, waiting, on_path; /* ns */
    struct trace_share {
        const char *name;
        double ns;
    } waits[8]; /* largest first; a NULL name ends them */
};

/* Turn a trace buffer into lanes. Fails: what gqa_trace_read gives; GQA_ERR_MEMORY. */
gqa_status trace_make(struct trace *trace, const void *buffer, size_t bytes, struct gqa_error *err);
void trace_free(struct trace *trace);

static inline bool trace_is_combine(const struct trace_lane *lane) {
    return lane->spans->kernel[0] == 'c';
}

/* Is the lane one of this CTA of decode? */
static inline bool trace_in_cta(const struct trace_lane *lane, int cta) {
    return !trace_is_combine(lane) && lane->spans->cta == cta;
}

/* The chain of ranges that ends with the CTA's last one, by `after` of what was waited for. The
 * steps are the caller's to free. Out of memory ends the program. */
struct trace_path trace_path_of(const struct trace *trace, int cta);

/* The roles of a CTA, and of the combine where there is one; at most `room`. Returns how many. */
int trace_roles(const struct trace *trace, int cta, const struct trace_path *path,
                struct trace_role *roles, int room);

/* Add a span's time to the share of its name. */
void trace_add_wait(struct trace_role *role, const struct gqa_trace_span *span);

/* "load", "softmax, odd tiles": a lane's label. */
void trace_label(const struct trace_lane *lane, char *to, size_t size);

/* The colour of a kind, "#rrggbb", and what it is. */
extern const struct trace_colour { const char *fill, *text, *says; } trace_colours[];

/* --- Writers: 0 on success, else errno is set --- */

/* Chrome's trace event format, which Perfetto and chrome://tracing read. */
int trace_write_chrome(const struct trace *trace, const char *path);

/* One CTA, `from` to `to` ns, and the combine if it is recorded. */
struct trace_view {
    int cta;
    double from, to;
};
int trace_write_svg(const struct trace *trace, const struct trace_view *view, const char *path);

/* A page that needs nothing but itself. */
int trace_write_html(const struct trace *trace, int cta, const char *path);

/* `text` as a JSON string, with its quotes. */
void trace_json_text(FILE *out, const char *text);

#endif
