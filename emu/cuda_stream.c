/* cuda_stream.c: values in memory that a stream waits for or writes.
 *
 * A stream whose value is not there yet waits: cuda_wait.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <string.h>

enum { WAIT_GEQ, WAIT_EQ, WAIT_AND, WAIT_NOR, WAIT_FLUSH = 1 << 30 };

static bool holds(uint64_t have, uint64_t value, unsigned how, uint32_t bytes) {
    const uint64_t mask = bytes == 4 ? 0xffffffffull : ~0ull, sign = (mask >> 1) + 1;
    switch (how) {
    case WAIT_GEQ:
        return !((have - value) & sign);
    case WAIT_EQ:
        return have == value;
    case WAIT_AND:
        return (have & value) != 0;
    default:
        return (~(have | value) & mask) != 0;
    }
}

cu_result cu_value_there(const struct cu_op *op, bool *yes) {
    uint64_t have = 0, base, n;
    cu_result r = cu_drain();
    if (!r && (!emu_range(cu_world.emu, op->src, &base, &n) || n - (op->src - base) < op->element))
        r = CUE_ERROR_INVALID_VALUE;
    if (r)
        return r;
    memcpy(&have, (const void *)(uintptr_t)op->src, op->element);
    *yes = holds(have, op->wanted, op->value, op->element);
    return CUE_SUCCESS;
}

static cu_result submit(struct cu_stream *s, const struct cu_op *op) {
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_stream_takes(s);
    r = r ? r : cu_submit(s, op);
    cu_unlock();
    return r;
}
static cu_result wait_for(struct cu_stream *s, cu_ptr at, uint64_t v, unsigned how, uint32_t n) {
    how &= ~(unsigned)WAIT_FLUSH;
    if (!at || at % n || how > WAIT_NOR)
        return CUE_ERROR_INVALID_VALUE;
    const struct cu_op op = {.kind = CUOP_WAIT, .src = at, .wanted = v, .value = how, .element = n};
    return submit(s, &op);
}
static cu_result write_value(struct cu_stream *s, cu_ptr at, uint64_t v, unsigned flags,
                             uint32_t n) {
    if (!at || at % n || flags > 1)
        return CUE_ERROR_INVALID_VALUE;
    cu_result r = CUE_SUCCESS;
    for (uint32_t k = 0; k < n && !r; k += 4) {
        const struct cu_op op = {.kind = CUOP_SET,
                                 .dst = at + k,
                                 .dst_pitch = 4,
                                 .value = (uint32_t)(v >> 8 * k),
                                 .element = 4,
                                 .width = 1,
                                 .height = 1};
        r = submit(s, &op);
    }
    return r;
}

CU_API cu_result cuStreamWaitValue32_v2(struct cu_stream *s, cu_ptr at, uint32_t v, unsigned how) {
    return wait_for(s, at, v, how, 4);
}
CU_API cu_result cuStreamWaitValue64_v2(struct cu_stream *s, cu_ptr at, uint64_t v, unsigned how) {
    return wait_for(s, at, v, how, 8);
}
CU_API cu_result cuStreamWriteValue32_v2(struct cu_stream *s, cu_ptr at, uint32_t v,
                                         unsigned flags) {
    return write_value(s, at, v, flags, 4);
}
CU_API cu_result cuStreamWriteValue64_v2(struct cu_stream *s, cu_ptr at, uint64_t v,
                                         unsigned flags) {
    return write_value(s, at, v, flags, 8);
}
#define OLD(name, type)                                                                            \
    CU_API cu_result name(struct cu_stream *s, cu_ptr at, type v, unsigned flags) {                \
        return name##_v2(s, at, v, flags);                                                         \
    }
OLD(cuStreamWaitValue32, uint32_t)
OLD(cuStreamWaitValue64, uint64_t)
OLD(cuStreamWriteValue32, uint32_t)
OLD(cuStreamWriteValue64, uint64_t)

struct memory_op { /* CUstreamBatchMemOpParams */
    int what;
    cu_ptr at;
    uint64_t value;
    unsigned flags;
    cu_ptr alias;
    uint64_t pad;
};
_Static_assert(sizeof(struct memory_op) == 48, "CUstreamBatchMemOpParams has 48 bytes");
enum { OP_WAIT32 = 1, OP_WRITE32, OP_FLUSH, OP_WAIT64, OP_WRITE64, OP_BARRIER };

static cu_result memory_op(struct cu_stream *s, const struct memory_op *o) {
    switch (o->what) {
    case OP_WAIT32:
        return wait_for(s, o->at, (uint32_t)o->value, o->flags, 4);
    case OP_WAIT64:
        return wait_for(s, o->at, o->value, o->flags, 8);
    case OP_WRITE32:
        return write_value(s, o->at, (uint32_t)o->value, o->flags, 4);
    case OP_WRITE64:
        return write_value(s, o->at, o->value, o->flags, 8);
    case OP_FLUSH:
    case OP_BARRIER:
        return CUE_SUCCESS; /* operations run one after the other */
    default:
        return CUE_ERROR_INVALID_VALUE;
    }
}
CU_API cu_result cuStreamBatchMemOp_v2(struct cu_stream *s, unsigned n, const struct memory_op *o,
                                       unsigned flags) {
    cu_result r = o && !flags ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < n && !r; k++)
        r = memory_op(s, &o[k]);
    return r;
}
CU_API cu_result cuStreamBatchMemOp(struct cu_stream *s, unsigned n, const struct memory_op *o,
                                    unsigned flags) {
    return cuStreamBatchMemOp_v2(s, n, o, flags);
}
