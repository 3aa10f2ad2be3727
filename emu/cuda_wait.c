/* cuda_wait.c: streams that wait for a value that is not there yet, or for an event behind one.
 *
 * As long as no stream waits, operations run when they are called for.  One that waits keeps what
 * it is given, in order, until another stream, a kernel or the program has written the value: after
 * each operation of the others, and where the program asks, the waiting ones are looked at.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <stdlib.h>

static struct cu_stream defaults[2]; /* the legacy stream, the per-thread one */
static struct cu_stream *waiting;

static struct cu_stream *object(struct cu_stream *s) {
    return (uintptr_t)s > 2 ? s : &defaults[(uintptr_t)s == 2];
}
bool cu_stream_waits(struct cu_stream *s) {
    return object(s)->queue != NULL;
}

static void keep(struct cu_stream *s, const struct cu_op *op) {
    if (!s->queue) {
        s->queue = calloc(1, sizeof *s->queue);
        if (!s->queue)
            abort();
        s->next = waiting;
        waiting = s;
    }
    cu_graph_add(s->queue, op);
}

/* May op run? */
static cu_result may_run(const struct cu_op *op, bool *yes) {
    *yes = true;
    if (op->kind == CUOP_WAIT)
        return cu_value_there(op, yes);
    if (op->kind == CUOP_AFTER)
        *yes = !((const struct cu_event *)op->data)->pending;
    return CUE_SUCCESS;
}

/* Runs what a waiting stream may run. */
static cu_result go_on(struct cu_stream *s, bool *moved) {
    cu_result r = CUE_SUCCESS;
    for (struct cu_op *op = s->queue->first; op && !r; op = s->queue->first) {
        bool yes;
        r = may_run(op, &yes);
        if (r || !yes)
            break;
        r = cu_run_op(op);
        s->queue->first = op->next;
        cu_op_free(op);
        *moved = true;
    }
    return r;
}

cu_result cu_streams_go(void) {
    cu_result r = CUE_SUCCESS;
    for (bool moved = waiting != NULL; moved && !r;) {
        moved = false;
        for (struct cu_stream **at = &waiting; *at && !r;) {
            struct cu_stream *s = *at;
            r = go_on(s, &moved);
            if (s->queue->first) {
                at = &s->next;
                continue;
            }
            *at = s->next;
            cu_graph_free(s->queue);
            s->queue = NULL;
        }
        r = r || !moved ? r : cu_drain();
    }
    return r;
}

cu_result cu_stream_stuck(const char *who) {
    fprintf(stderr,
            "emu: %s: a stream waits for a value that no call so far writes; the emulator does not "
            "wait for other threads\n",
            who);
    return CUE_ERROR_NOT_SUPPORTED;
}

/* The legacy stream and the blocking ones wait for each other. */
static bool legacy_waits(struct cu_stream *s) {
    const bool legacy = (uintptr_t)s <= 1, made = (uintptr_t)s > 2;
    const bool blocking = made && !(s->flags & 1);
    for (const struct cu_stream *w = waiting; w; w = w->next) {
        const bool theirs = w != &defaults[0] && w != &defaults[1] && !(w->flags & 1);
        if ((legacy && theirs) || (blocking && w == &defaults[0]))
            return true;
    }
    return false;
}

cu_result cu_submit_waiting(struct cu_stream *s, const struct cu_op *op) {
    bool yes;
    if (cu_stream_waits(s)) {
        keep(object(s), op);
        return CUE_SUCCESS;
    }
    if (legacy_waits(s))
        return cu_stream_stuck("an operation that is ordered behind it by the legacy stream");
    cu_result r = may_run(op, &yes);
    if (!r && !yes)
        keep(object(s), op);
    else if (!r)
        r = cu_run_op(op);
    return r ? r : cu_streams_go();
}
bool cu_any_waits(void) {
    return waiting != NULL;
}

cu_result cu_wait_for_all(void) {
    cu_result r = cu_streams_go();
    return r || !waiting ? r : cu_stream_stuck("synchronisation");
}
