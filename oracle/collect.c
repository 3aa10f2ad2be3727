/* SPDX-License-Identifier: Apache-2.0
 * After a run: what came out, and that nothing else changed. */
#include "cases.h"
#include "ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t whole(const struct case_buffer *b) {
    return b->front + b->bytes + b->back;
}

/* Where two runs of bytes differ first; n if nowhere. */
static size_t first_difference(const char *a, const char *b, size_t n) {
    if (!memcmp(a, b, n))
        return n;
    size_t i = 0;
    while (a[i] == b[i])
        i++;
    return i;
}

static size_t first_not_ff(const char *a, size_t n) {
    size_t i = 0;
    while (i < n && a[i] == (char)0xff)
        i++;
    return i;
}

static bool check_input(struct case_instance *x, const struct case_buffer *b, const char *now) {
    const size_t n = whole(b), at = first_difference(now, b->host - b->front, n);
    if (at == n)
        return true;
    snprintf(x->why, sizeof x->why, "input %s was written at byte %lld of %zu (guards: %zu, %zu)",
             b->name, (long long)at - (long long)b->front, b->bytes, b->front, b->back);
    return false;
}

/* `copy` holds the output with its guards. All but the rows of
 * sequences must still be 0xFF. */
static bool check_output(struct case_instance *x, const struct case_buffer *b, char *copy,
                         const struct gqa_strides *s, size_t size, int dim) {
    const struct gqa_problem *p = &x->p;
    int64_t rows = p->q_ragged ? x->host.cu_seqlens_q[p->batch] : p->batch * p->q_tokens;
    if (p->q_ragged && (rows < 0 || rows > p->q_total)) /* a test of misuse */
        rows = p->q_total;
    for (int64_t row = 0; row < rows; row++)
        for (int h = 0; h < p->q_heads; h++)
            memset(copy + b->front + (size_t)ref_row_offset(p, s, row, h) * size, 0xff,
                   (size_t)dim * size);
    const size_t at = first_not_ff(copy, whole(b));
    if (at == whole(b))
        return true;
    snprintf(x->why, sizeof x->why,
             "%s was written outside of its rows, at byte %lld of %zu (guards: %zu, %zu)", b->name,
             (long long)at - (long long)b->front, b->bytes, b->front, b->back);
    return false;
}

bool case_reset(struct case_instance *x) {
    for (int w = 0; w < CASE_TENSORS; w++) {
        const struct case_buffer *b = &x->buffers[w];
        if (!b->host || !b->is_output)
            continue;
        memset(b->host - b->front, 0xff, whole(b));
        if (!x->memory->upload(x->memory->context, b->device - b->front, b->host - b->front,
                               whole(b))) {
            snprintf(x->why, sizeof x->why, "upload failed for %s", b->name);
            return false;
        }
    }
    return true;
}

bool case_collect(struct case_instance *x) {
    const int dim_v = x->p.head_dim_v ? x->p.head_dim_v : x->p.head_dim;
    bool ok = true;
    for (int w = 0; ok && w < CASE_TENSORS; w++) {
        const struct case_buffer *b = &x->buffers[w];
        if (!b->host || b->is_view || b->is_sparse)
            continue;
        char *now = malloc(whole(b));
        if (!now || !x->memory->download(x->memory->context, now, b->device - b->front, whole(b))) {
            snprintf(x->why, sizeof x->why, "%s for %s", now ? "download failed" : "no memory",
                     b->name);
            ok = false;
        } else if (!b->is_output) {
            ok = check_input(x, b, now);
        } else {
            memcpy(b->host, now + b->front, b->bytes);
            ok = w == CASE_O ? check_output(x, b, now, &x->p.o, gqa_type_bytes(x->p.o_type), dim_v)
                             : check_output(x, b, now, &x->p.lse, 4, 1);
        }
        free(now);
    }
    return ok;
}
