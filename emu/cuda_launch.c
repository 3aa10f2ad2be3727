/* cuda_launch.c: launches, streams and events of libcuda-emu.so.
 *
 * All streams share one order of work, the order of submission, which is a legal one.  A capturing
 * stream gives its operations to a graph; replay submits them again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "ir.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* --- Operations --- */

static cu_result check_range(uint64_t p, size_t n) {
    uint64_t base, bytes;
    if (!emu_range(cu_world.emu, p, &base, &bytes))
        return CUE_SUCCESS; /* host memory of the program */
    return n <= bytes && p - base <= bytes - n ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}

/* All rows: a later one that lies outside would not be told from host memory. */
static cu_result check_rows(uint64_t p, size_t pitch, size_t width, size_t height) {
    size_t n;
    if (!height || __builtin_mul_overflow(height - 1, pitch, &n) ||
        __builtin_add_overflow(n, width, &n))
        return height ? CUE_ERROR_INVALID_VALUE : CUE_SUCCESS;
    return check_range(p, n);
}

static cu_result run_copy(const struct cu_op *op) {
    cu_result r = cu_drain();
    r = r ? r : check_rows(op->dst, op->dst_pitch, op->width, op->height);
    r = r ? r : check_rows(op->src, op->src_pitch, op->width, op->height);
    for (size_t y = 0; y < op->height && !r; y++) {
        uint64_t d = op->dst + y * op->dst_pitch, s = op->src + y * op->src_pitch;
        memmove((void *)(uintptr_t)d, (const void *)(uintptr_t)s, op->width);
        emu_host_write(cu_world.emu, d, op->width);
    }
    return r;
}
static cu_result run_set(const struct cu_op *op) {
    size_t row;
    cu_result r = cu_drain();
    if (!r && __builtin_mul_overflow(op->width, op->element, &row))
        r = CUE_ERROR_INVALID_VALUE;
    r = r ? r : check_rows(op->dst, op->dst_pitch, row, op->height);
    for (size_t y = 0; y < op->height && !r; y++) {
        uint8_t *d = (uint8_t *)(uintptr_t)(op->dst + y * op->dst_pitch);
        r = check_range((uint64_t)(uintptr_t)d, op->width * op->element);
        uint64_t base, bytes;
        if (!r && !emu_range(cu_world.emu, (uint64_t)(uintptr_t)d, &base, &bytes))
            r = CUE_ERROR_INVALID_VALUE;
        for (size_t x = 0; x < op->width && !r; x++)
            memcpy(d + x * op->element, &op->value, op->element);
        if (!r)
            emu_host_write(cu_world.emu, (uint64_t)(uintptr_t)d, op->width * op->element);
    }
    return r;
}
/* The lock is the caller's: the function may call the driver. */
static cu_result run_host(const struct cu_op *op) {
    cu_result r = cu_drain();
    if (!r && op->host) {
        cu_unlock();
        op->host(op->data);
        cu_lock();
    }
    return r;
}
static cu_result happen(struct cu_event *e) {
    cu_result r = cu_drain();
    e->ms = emu_opts(cu_world.emu)->timing ? emu_timing_ns(cu_world.emu) * 1e-6 : now_ms();
    e->recorded = true;
    e->pending = false;
    return r;
}
cu_result cu_run_op(const struct cu_op *op) {
    if (cu_world.failed)
        return cu_failure();
    switch (op->kind) {
    case CUOP_COPY:
        return run_copy(op);
    case CUOP_SET:
        return run_set(op);
    case CUOP_HOST:
        return run_host(op);
    case CUOP_WAIT:
    case CUOP_AFTER:
        return CUE_SUCCESS;
    case CUOP_EVENT:
        return happen(op->data);
    case CUOP_CONDITIONAL:
        return cu_run_conditional(op);
    default:
        break;
    }
    if (emu_launch(cu_world.emu, &op->launch))
        return CUE_SUCCESS;
    fprintf(stderr, "emu: launch refused: %s\n", emu_failure(cu_world.emu));
    if (!emu_report_count(cu_world.emu))
        emu_reset(cu_world.emu);
    return CUE_ERROR_INVALID_VALUE;
}

static struct cu_op *op_copy(const struct cu_op *op) {
    struct cu_op *c = malloc(sizeof *c);
    if (!c)
        abort();
    *c = *op;
    c->next = NULL;
    if (op->kind == CUOP_KERNEL) {
        void *p = malloc(op->launch.param_bytes + 1);
        if (!p)
            abort();
        memcpy(p, op->launch.params, op->launch.param_bytes);
        c->launch.params = p;
    }
    if (op->bodies) {
        c->bodies = calloc(op->element, sizeof(struct cu_graph *));
        for (uint32_t k = 0; c->bodies && k < op->element; k++)
            c->bodies[k] = cu_graph_copy(op->bodies[k]);
        if (!c->bodies)
            abort();
    }
    return c;
}
void cu_op_free(struct cu_op *op) {
    if (op->kind == CUOP_KERNEL)
        free((void *)(uintptr_t)op->launch.params);
    for (uint32_t k = 0; op->bodies && k < op->element; k++)
        cu_graph_free(op->bodies[k]);
    free(op->bodies);
    free(op);
}
struct cu_op *cu_graph_add(struct cu_graph *g, const struct cu_op *op) {
    struct cu_op *c = op_copy(op);
    if (g->last)
        g->last->next = c;
    else
        g->first = c;
    g->last = c;
    g->count++;
    return c;
}

cu_result cu_submit(struct cu_stream *s, const struct cu_op *op) {
    if (s && (uintptr_t)s > 2 && s->capture) {
        struct cu_graph *g = s->capture;
        struct cu_op *o = cu_graph_add(g, op);
        if (s->nodes)
            return CUE_SUCCESS;
        s->work++;
        s->unjoined = !s->origin;
        cu_result r = g->captured ? cu_graph_edge(g, g->captured, o) : CUE_SUCCESS;
        g->captured = o;
        return r;
    }
    if (op->kind == CUOP_WAIT || cu_any_waits())
        return cu_submit_waiting(s, op);
    return cu_run_op(op);
}

/* --- Launch --- */

/* Parameters from an array of pointers, or from one packed buffer. */
static cu_result gather(struct cu_kernel *k, void **params, void **extra, unsigned char *out) {
    const struct function *f = k->fn;
    if (extra && !params) {
        const void *buf = NULL;
        size_t bytes = 0;
        for (; *extra; extra += 2) {
            if ((uintptr_t)*extra == 1)
                buf = extra[1];
            else if ((uintptr_t)*extra == 2)
                bytes = *(const size_t *)extra[1];
            else
                return CUE_ERROR_INVALID_VALUE;
        }
        if (!buf || bytes < f->param_bytes)
            return CUE_ERROR_INVALID_VALUE;
        memcpy(out, buf, f->param_bytes);
        return CUE_SUCCESS;
    }
    for (uint32_t n = 0; n < f->nparams; n++) {
        if (!params || !params[n])
            return CUE_ERROR_INVALID_VALUE;
        memcpy(out + f->params[n].off, params[n], f->params[n].bytes);
    }
    return CUE_SUCCESS;
}

static cu_result read_attributes(const struct cu_config *c, struct emu_launch *l,
                                 struct cu_kernel *k, bool *coop) {
    for (unsigned n = 0; n < c->nattrs; n++) {
        const struct cu_attribute *a = &c->attrs[n];
        if (a->id == CU_LAUNCH_CLUSTER) {
            l->cluster[0] = a->value.cluster.x;
            l->cluster[1] = a->value.cluster.y;
            l->cluster[2] = a->value.cluster.z;
        } else if (a->id == CU_LAUNCH_PDL) {
            l->pdl = a->value.on != 0;
        } else if (a->id == CU_LAUNCH_COOPERATIVE) {
            *coop = a->value.on != 0;
        } else if (a->id < 0 || a->id > 16) {
            return CUE_ERROR_INVALID_VALUE;
        }
    }
    uint32_t ctas = l->cluster[0] * l->cluster[1] * l->cluster[2];
    if (ctas > 8 && !k->non_portable)
        return CUE_ERROR_INVALID_CLUSTER_SIZE;
    return CUE_SUCCESS;
}

static cu_result launch(const struct cu_config *c, struct cu_kernel *k, void **params, void **extra,
                        bool coop) {
    cu_result r = cu_ready();
    if (r)
        return r;
    if (!c || (c->nattrs && !c->attrs))
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_kernel_is(k))
        return CUE_ERROR_INVALID_HANDLE;
    r = c->block[2] > 64 ? CUE_ERROR_INVALID_VALUE : cu_stream_takes(c->stream);
    if (r)
        return r;
    unsigned char *packed = calloc(1, k->fn->param_bytes + 16u);
    struct emu_launch l = {
        .fn = k->fn, .dyn_smem = c->smem, .params = packed, .param_bytes = k->fn->param_bytes};
    memcpy(l.grid, c->grid, sizeof l.grid);
    memcpy(l.block, c->block, sizeof l.block);
    r = gather(k, params, extra, packed);
    if (!r)
        r = read_attributes(c, &l, k, &coop);
    if (!r && c->smem + k->fn->static_smem > 49152 && (int)c->smem > k->max_dyn) {
        fprintf(stderr,
                "emu: %s: %u bytes of dynamic shared memory; set the function's attribute first\n",
                k->fn->name, c->smem);
        r = CUE_ERROR_INVALID_VALUE;
    }
    uint32_t threads = c->block[0] * c->block[1] * c->block[2];
    uint32_t per = emu_occupancy(cu_world.emu, k->fn, threads, c->smem);
    if (!r && coop &&
        (uint64_t)c->grid[0] * c->grid[1] * c->grid[2] >
            (uint64_t)per * emu_part(cu_world.emu)->sms)
        r = CUE_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    if (!r)
        r = cu_submit(c->stream, &(struct cu_op){.kind = CUOP_KERNEL, .launch = l});
    free(packed);
    return r;
}
static cu_result launch_locked(const struct cu_config *c, struct cu_kernel *k, void **params,
                               void **extra, bool coop) {
    cu_lock();
    cu_result r = launch(c, k, params, extra, coop);
    cu_unlock();
    return r;
}
CU_API cu_result cuLaunchKernel(struct cu_kernel *k, unsigned gx, unsigned gy, unsigned gz,
                                unsigned bx, unsigned by, unsigned bz, unsigned smem,
                                struct cu_stream *s, void **params, void **extra) {
    struct cu_config c = {{gx, gy, gz}, {bx, by, bz}, smem, s, NULL, 0};
    return launch_locked(&c, k, params, extra, false);
}
CU_API cu_result cuLaunchCooperativeKernel(struct cu_kernel *k, unsigned gx, unsigned gy,
                                           unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                           unsigned smem, struct cu_stream *s, void **params) {
    struct cu_config c = {{gx, gy, gz}, {bx, by, bz}, smem, s, NULL, 0};
    return launch_locked(&c, k, params, NULL, true);
}
CU_API cu_result cuLaunchKernelEx(const struct cu_config *c, struct cu_kernel *k, void **params,
                                  void **extra) {
    return launch_locked(c, k, params, extra, false);
}
CU_API cu_result cuLaunchHostFunc(struct cu_stream *s, void (*fn)(void *), void *data) {
    if (!fn)
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_stream_takes(s);
    if (!r)
        r = cu_submit(s, &(struct cu_op){.kind = CUOP_HOST, .host = fn, .data = data});
    cu_unlock();
    return r;
}

/* --- Streams --- */

static bool real(const struct cu_stream *s) {
    return (uintptr_t)s > 2;
} /* 0, 1, 2: default streams */

CU_API cu_result cuStreamCreateWithPriority(struct cu_stream **s, unsigned flags, int priority) {
    if (!s || flags > 1)
        return CUE_ERROR_INVALID_VALUE;
    cu_result r = cu_ready();
    if (r)
        return r;
    *s = calloc(1, sizeof **s);
    if (!*s)
        return CUE_ERROR_OUT_OF_MEMORY;
    cu_handle_add(*s, CU_STREAM);
    (*s)->flags = flags;
    (*s)->priority = priority;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamCreate(struct cu_stream **s, unsigned flags) {
    return cuStreamCreateWithPriority(s, flags, 0);
}
CU_API cu_result cuStreamSynchronize(struct cu_stream *s) {
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    if (real(s) && s->capture) {
        s->capture->invalid = true;
        return CUE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_drain();
    r = r ? r : cu_streams_go();
    if (!r && cu_stream_waits(s))
        r = cu_stream_stuck("cuStreamSynchronize");
    cu_unlock();
    return r;
}
CU_API cu_result cuStreamQuery(struct cu_stream *s) {
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_streams_go();
    cu_unlock();
    return r || !cu_stream_waits(s) ? (r ? r : cuStreamSynchronize(s)) : CUE_ERROR_NOT_READY;
}
CU_API cu_result cuStreamDestroy_v2(struct cu_stream *s) {
    if (!real(s) || !cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    if (s->capture && s->origin) {
        struct cu_graph *g = s->capture;
        cu_capture_ends(s, g);
        if (cu_handle_drop(g, CU_GRAPH))
            cu_graph_free(g);
    }
    cu_handle_drop(s, CU_STREAM);
    cu_lock();
    if (cu_world.emu && !cu_world.failed && !cu_drain())
        cu_streams_go();
    cu_unlock();
    if (!s->queue)
        free(s);
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamDestroy(struct cu_stream *s) {
    return cuStreamDestroy_v2(s);
}
CU_API cu_result cuStreamGetCtx(struct cu_stream *s, struct cu_context **c) {
    (void)s;
    if (!c)
        return CUE_ERROR_INVALID_VALUE;
    *c = cu_current();
    return *c ? CUE_SUCCESS : CUE_ERROR_INVALID_CONTEXT;
}
CU_API cu_result cuStreamGetFlags(struct cu_stream *s, unsigned *flags) {
    if (!flags || !cu_stream_is(s))
        return flags ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *flags = real(s) ? s->flags : 0;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamGetPriority(struct cu_stream *s, int *p) {
    if (!p || !cu_stream_is(s))
        return p ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *p = real(s) ? s->priority : 0;
    return CUE_SUCCESS;
}
CU_API cu_result cuStreamGetDevice(struct cu_stream *s, cu_device *d) {
    (void)s;
    *d = 0;
    return CUE_SUCCESS;
}
/* The stream joins the event's capture; what the event's stream had done by then is waited for. */
static void join_capture(struct cu_stream *s, const struct cu_event *e) {
    struct cu_stream *from = cu_handle_is(e->from, CU_STREAM) ? e->from : NULL;
    if (!s->capture)
        s->capture = e->capture;
    s->unjoined = !s->origin;
    if (from && from != s && from->capture == s->capture && from->work == e->work)
        from->unjoined = false;
}
CU_API cu_result cuStreamWaitEvent(struct cu_stream *s, struct cu_event *e, unsigned flags) {
    (void)flags;
    if (!cu_handle_is(e, CU_EVENT) || !cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    if (e->was_captured)
        return CUE_ERROR_CAPTURED_EVENT;
    if (e->capture && real(s))
        join_capture(s, e);
    if (!e->pending)
        return CUE_SUCCESS;
    cu_lock();
    cu_result r = cu_submit(s, &(struct cu_op){.kind = CUOP_AFTER, .data = e});
    cu_unlock();
    return r;
}
CU_API cu_result cuStreamAddCallback(struct cu_stream *s,
                                     void (*fn)(struct cu_stream *, cu_result, void *), void *data,
                                     unsigned flags) {
    (void)flags;
    cu_result r = cuStreamSynchronize(s);
    fn(s, r, data);
    return CUE_SUCCESS;
}

/* --- Events --- */

enum { EVENT_NO_TIMING = 2, EVENT_INTERPROCESS = 4 }; /* the latter wants the former, too */

CU_API cu_result cuEventCreate(struct cu_event **e, unsigned flags) {
    cu_result r = cu_ready();
    if (r || !e || flags > 7 || (flags & 6) == EVENT_INTERPROCESS)
        return r ? r : CUE_ERROR_INVALID_VALUE;
    *e = calloc(1, sizeof **e);
    if (!*e)
        return CUE_ERROR_OUT_OF_MEMORY;
    (*e)->flags = flags;
    cu_handle_add(*e, CU_EVENT);
    return CUE_SUCCESS;
}
CU_API cu_result cuEventRecord(struct cu_event *e, struct cu_stream *s) {
    if (!cu_handle_is(e, CU_EVENT))
        return CUE_ERROR_INVALID_HANDLE;
    cu_result takes = cu_stream_takes(s);
    if (takes)
        return takes;
    e->was_captured = false;
    if (real(s) && s->capture) {
        e->capture = s->capture;
        e->from = s;
        e->work = s->work;
        return CUE_SUCCESS;
    }
    e->capture = NULL;
    cu_lock();
    cu_result r = cu_ready();
    e->pending = !r;
    r = r ? r : cu_submit(s, &(struct cu_op){.kind = CUOP_EVENT, .data = e});
    cu_unlock();
    return r;
}
CU_API cu_result cuEventRecordWithFlags(struct cu_event *e, struct cu_stream *s, unsigned flags) {
    (void)flags;
    return cuEventRecord(e, s);
}
CU_API cu_result cuEventQuery(struct cu_event *e) {
    if (!cu_handle_is(e, CU_EVENT))
        return CUE_ERROR_INVALID_HANDLE;
    if (e->capture)
        e->capture->invalid = true;
    if (e->capture || e->was_captured)
        return CUE_ERROR_CAPTURED_EVENT;
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_drain();
    r = r ? r : cu_streams_go();
    cu_unlock();
    return r || !e->pending ? r : CUE_ERROR_NOT_READY;
}
CU_API cu_result cuEventSynchronize(struct cu_event *e) {
    cu_result r = cuEventQuery(e);
    return r == CUE_ERROR_NOT_READY ? cu_stream_stuck("cuEventSynchronize") : r;
}
CU_API cu_result cuEventElapsedTime(float *ms, struct cu_event *a, struct cu_event *b) {
    if (!ms)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_handle_is(a, CU_EVENT) || !cu_handle_is(b, CU_EVENT) || !a->recorded || !b->recorded ||
        (a->flags | b->flags) & EVENT_NO_TIMING)
        return CUE_ERROR_INVALID_HANDLE;
    *ms = (float)(b->ms - a->ms);
    return CUE_SUCCESS;
}
CU_API cu_result cuEventElapsedTime_v2(float *ms, struct cu_event *a, struct cu_event *b) {
    return cuEventElapsedTime(ms, a, b);
}
CU_API cu_result cuEventDestroy_v2(struct cu_event *e) {
    if (!cu_handle_drop(e, CU_EVENT))
        return CUE_ERROR_INVALID_HANDLE;
    if (!e->pending)
        free(e);
    return CUE_SUCCESS;
}
CU_API cu_result cuEventDestroy(struct cu_event *e) {
    return cuEventDestroy_v2(e);
}
