/* SPDX-License-Identifier: Apache-2.0
 * Reading what kernels recorded (cuda/trace.h): blocks of events to spans on one time axis. */
#include "gqa.h"
#include "problem.h"
#include "status.h"

#include "cuda/trace.h"

#include <stdbool.h>
#include <stdlib.h>

_Static_assert((int)TRACE_BLOCK_BYTES == (int)GQA_TRACE_ALIGN, "what tensors_check asks for");

/* clang-format off */
static const char *const roles[] = {
#define GQA_TRACE_ROLE(name, says) #name,
#define GQA_TRACE_RANGE(name, kind, after, says)
#include "cuda/trace.def"
#undef GQA_TRACE_ROLE
#undef GQA_TRACE_RANGE
};

static const struct {
    const char *name;
    enum gqa_trace_kind kind;
    const char *after, *says;
} ranges[] = {
#define GQA_TRACE_ROLE(name, says)
#define GQA_TRACE_RANGE(name, kind, after, says) {#name, GQA_TRACE_##kind, after, says},
#include "cuda/trace.def"
#undef GQA_TRACE_ROLE
#undef GQA_TRACE_RANGE
};
/* clang-format on */

/* What was recorded, heads left out. */
struct blocks {
    const struct trace_block **all;
    uint32_t n;
    size_t lost, events;
};

/* Both clocks of an SM: time = (clock + offset) / ghz. The timer moves in steps, so a reading of it
 * is early by less than a step: the latest offset over an SM's readings is the best. */
struct axis {
    uint64_t base; /* ns: times are of today, too large for a double's nanoseconds */
    double ghz;
    double *offset; /* [sms] */
    uint32_t sms;
    double first; /* ns, of the earliest event */
};

/* A block that its warp did not live to close has no count. */
static bool is_whole(const struct trace_block *b) {
    const bool is_known = (b->who >> 8 & 255) < TRACE_ROLES && b->sm < 4096;
    if (!is_known || b->count > TRACE_EVENTS || b->end_clock < b->clock || b->end_time < b->time)
        return false;
    for (uint32_t i = 0; i < b->count; i++)
        if ((b->events[i].what & 255) >= TRACE_RANGES)
            return false;
    return true;
}

/* The blocks of one kernel: `head` and what follows. */
static gqa_status blocks_add(struct blocks *x, const struct trace_block *head, uint32_t room,
                             struct gqa_error *err) {
    if (!room)
        return GQA_OK;
    x->lost += head->lost;
    for (uint32_t i = 1; i < room && i <= head->count; i++) {
        if (!is_whole(&head[i]))
            return fail(err, GQA_ERR_ARGUMENT, "block %u of the trace was not written by a kernel",
                        i);
        x->all[x->n++] = &head[i];
        x->events += head[i].count;
        x->lost += head[i].lost;
    }
    return GQA_OK;
}

/* The low half of a clock, read after `from`. */
static uint64_t unwrap(uint64_t from, uint32_t low) {
    return from + (uint32_t)(low - (uint32_t)from);
}

static double at(const struct axis *x, const struct trace_block *b, uint64_t clock) {
    return ((double)clock + x->offset[b->sm]) / x->ghz - x->first;
}

static void axis_offsets(const struct blocks *all, struct axis *x) {
    for (uint32_t i = 0; i < x->sms; i++)
        x->offset[i] = -1e300;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct trace_block *b = all->all[i];
        const double begin = (double)(b->time - x->base) * x->ghz - (double)b->clock;
        const double end = (double)(b->end_time - x->base) * x->ghz - (double)b->end_clock;
        double *most = &x->offset[b->sm];
        *most = begin > *most ? begin : *most;
        *most = end > *most ? end : *most;
    }
}

static gqa_status axis_make(const struct blocks *all, struct axis *x, double *ghz,
                            struct gqa_error *err) {
    double clocks = 0, times = 0, first = 1e300;
    x->sms = 1;
    x->base = all->n ? all->all[0]->time : 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct trace_block *b = all->all[i];
        x->base = b->time < x->base ? b->time : x->base;
        clocks += (double)(b->end_clock - b->clock);
        times += (double)(b->end_time - b->time);
        x->sms = b->sm >= x->sms ? b->sm + 1 : x->sms;
    }
    *ghz = times > 0 ? clocks / times : 0;
    x->ghz = *ghz > 0 ? *ghz : 1;
    x->offset = malloc(x->sms * sizeof *x->offset);
    if (!x->offset)
        return fail(err, GQA_ERR_MEMORY, "no memory for %u SMs", x->sms);
    axis_offsets(all, x);
    x->first = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const double t = at(x, all->all[i], all->all[i]->clock);
        first = t < first ? t : first;
    }
    x->first = all->n ? first : 0;
    return GQA_OK;
}

static struct gqa_trace_span span_of(const struct axis *x, const struct trace_block *b,
                                     uint32_t i) {
    const struct trace_event *e = &b->events[i];
    const uint32_t range = e->what & 255;
    const uint64_t begin = unwrap(b->clock, e->clock);
    const uint64_t end = i + 1 < b->count ? unwrap(begin, e[1].clock) : b->end_clock;
    return (struct gqa_trace_span){
        .name = ranges[range].name,
        .says = ranges[range].says,
        .after = ranges[range].after,
        .kernel = (b->who & 255) == TRACE_COMBINE ? "combine" : "decode",
        .role = roles[b->who >> 8 & 255],
        .kind = ranges[range].kind,
        .cta = (int)b->cta,
        .sm = (int)b->sm,
        .warp = (int)(b->who >> 16 & 255),
        .tile = (int)(e->what >> 8),
        .begin = at(x, b, begin),
        .end = at(x, b, end),
    };
}

static uint64_t warp_of(const struct trace_block *b) {
    return (uint64_t)(b->who & 255) << 40 | (uint64_t)b->cta << 8 | (b->who >> 16 & 255);
}

/* By kernel, CTA, warp, time. */
static int compare_blocks(const void *a, const void *b) {
    const struct trace_block *x = *(const struct trace_block *const *)a;
    const struct trace_block *y = *(const struct trace_block *const *)b;
    const uint64_t v = warp_of(x), w = warp_of(y);
    if (v != w)
        return v < w ? -1 : 1;
    return x->clock < y->clock ? -1 : x->clock > y->clock;
}

gqa_status gqa_trace_read(const void *trace, size_t bytes, struct gqa_trace_span *spans,
                          size_t capacity, struct gqa_trace_info *info, struct gqa_error *err) {
    if (!trace || (uintptr_t)trace % sizeof(uint64_t) || (capacity && !spans) || !info ||
        info->size != sizeof *info)
        return fail(err, GQA_ERR_ARGUMENT,
                    "the trace, the spans or the info is NULL or not set up; expected a copy of "
                    "tensors.trace and gqa_trace_info_init()");
    const struct trace_block *head = trace;
    const uint32_t decode = trace_decode_blocks(bytes), combine = trace_combine_blocks(decode);
    const uint32_t room = decode + combine;
    struct blocks x = {.all = malloc((room + 1) * sizeof *x.all)};
    struct axis axis = {0};
    struct gqa_trace_info found = gqa_trace_info_init();
    gqa_status status = x.all ? GQA_OK : fail(err, GQA_ERR_MEMORY, "no memory for %u blocks", room);
    if (!status)
        status = blocks_add(&x, head, decode, err);
    if (!status)
        status = blocks_add(&x, head + decode, combine, err);
    if (!status)
        status = axis_make(&x, &axis, &found.clock_ghz, err);
    if (!status) {
        size_t written = 0;
        qsort(x.all, x.n, sizeof *x.all, compare_blocks);
        for (uint32_t i = 0; i < x.n; i++)
            for (uint32_t j = 0; j < x.all[i]->count && written < capacity; j++)
                spans[written++] = span_of(&axis, x.all[i], j);
        found.spans = x.events;
        found.lost = x.lost;
        *info = found;
    }
    free(axis.offset);
    free(x.all);
    return status;
}
