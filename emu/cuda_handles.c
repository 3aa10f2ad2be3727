/* cuda_handles.c: which handles of libcuda-emu.so live, so that a wrong one is answered and not
 * followed; what becomes of a capture's streams and events when it ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <pthread.h>
#include <stdlib.h>

struct entry {
    const void *p;
    enum cu_handle kind;
};
static struct entry *entries; /* power of two, half full at most; p of a dropped one is GONE */
static size_t capacity, used;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char gone;
#define GONE ((const void *)&gone)

static size_t start_of(const void *p) {
    return (size_t)((uintptr_t)p * 0x9e3779b97f4a7c15ull >> 20) & (capacity - 1);
}
static struct entry *find(const void *p) {
    for (size_t k = capacity ? start_of(p) : 0; capacity && entries[k].p;
         k = (k + 1) & (capacity - 1))
        if (entries[k].p == p)
            return &entries[k];
    return NULL;
}
static void insert(const void *p, enum cu_handle kind) {
    size_t k = start_of(p);
    while (entries[k].p)
        k = (k + 1) & (capacity - 1);
    entries[k] = (struct entry){p, kind};
    used++;
}
static void grow(void) {
    struct entry *old = entries;
    const size_t n = capacity;
    capacity = n ? 2 * n : 64;
    used = 0;
    entries = calloc(capacity, sizeof *entries);
    if (!entries)
        abort();
    for (size_t k = 0; k < n; k++)
        if (old[k].p && old[k].p != GONE)
            insert(old[k].p, old[k].kind);
    free(old);
}

void cu_handle_add(const void *p, enum cu_handle kind) {
    pthread_mutex_lock(&mutex);
    if (2 * used >= capacity)
        grow();
    insert(p, kind);
    pthread_mutex_unlock(&mutex);
}
bool cu_handle_is(const void *p, enum cu_handle kind) {
    pthread_mutex_lock(&mutex);
    const struct entry *e = p ? find(p) : NULL;
    const bool is = e && e->kind == kind;
    pthread_mutex_unlock(&mutex);
    return is;
}
bool cu_handle_drop(const void *p, enum cu_handle kind) {
    pthread_mutex_lock(&mutex);
    struct entry *e = p ? find(p) : NULL;
    const bool is = e && e->kind == kind;
    if (is)
        e->p = GONE;
    pthread_mutex_unlock(&mutex);
    return is;
}

/* --- Kernels and modules: the list of images says --- */

bool cu_image_is(const struct cu_image *m) {
    const struct cu_image *i = cu_world.images;
    while (i && i != m)
        i = i->next;
    return i;
}
bool cu_kernel_is(const struct cu_kernel *k) {
    for (const struct cu_image *i = cu_world.images; i; i = i->next)
        for (uint32_t n = 0; n < i->nkernels; n++)
            if (k == &i->kernels[n])
                return true;
    return false;
}

/* --- Streams --- */

/* The stream that adds nodes to a graph, see cuda_graph.c. */
struct cu_stream *cu_adding(void) {
    static _Thread_local struct cu_stream s;
    return &s;
}
static bool real(const struct cu_stream *s) {
    return (uintptr_t)s > 2;
}
bool cu_stream_is(const struct cu_stream *s) {
    return !real(s) || s == cu_adding() || cu_handle_is(s, CU_STREAM);
}

static struct cu_stream *stream_at(size_t k) {
    const bool is = entries[k].p && entries[k].p != GONE && entries[k].kind == CU_STREAM;
    return is ? (struct cu_stream *)(uintptr_t)entries[k].p : NULL;
}
/* Work in the legacy stream waits for every blocking stream: not while one of them captures. */
static bool legacy_breaks_a_capture(void) {
    bool broken = false;
    pthread_mutex_lock(&mutex);
    for (size_t k = 0; k < capacity; k++) {
        struct cu_stream *t = stream_at(k);
        if (t && t->capture && !(t->flags & 1))
            broken = t->capture->invalid = true;
    }
    pthread_mutex_unlock(&mutex);
    return broken;
}
cu_result cu_stream_takes(const struct cu_stream *s) {
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    if (real(s))
        return s->capture && s->capture->invalid ? CUE_ERROR_STREAM_CAPTURE_INVALIDATED
                                                 : CUE_SUCCESS;
    return legacy_breaks_a_capture() ? CUE_ERROR_STREAM_CAPTURE_IMPLICIT : CUE_SUCCESS;
}

/* The streams that joined leave, the events of the capture are of no more use.  An error when one
 * has work that the origin did not wait for. */
cu_result cu_capture_ends(const struct cu_stream *origin, const struct cu_graph *g) {
    cu_result r = CUE_SUCCESS;
    pthread_mutex_lock(&mutex);
    for (size_t k = 0; k < capacity; k++) {
        struct cu_stream *t = stream_at(k);
        if (t && t->capture == g) {
            if (t != origin && t->unjoined)
                r = CUE_ERROR_STREAM_CAPTURE_UNJOINED;
            t->capture = NULL;
            t->unjoined = t->origin = t->given = false;
        }
        if (entries[k].p && entries[k].p != GONE && entries[k].kind == CU_EVENT) {
            struct cu_event *e = (struct cu_event *)(uintptr_t)entries[k].p;
            if (e->capture == g)
                e->capture = NULL, e->was_captured = true;
        }
    }
    pthread_mutex_unlock(&mutex);
    return r;
}
