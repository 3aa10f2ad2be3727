/* cuda_mem.c: memory, copies and sets of libcuda-emu.so.  Host memory is host memory; a device
 * pointer is a host address inside the emulator's arena, so copies are memcpy.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "machine.h"
#include <stdlib.h>
#include <string.h>

static cu_result alloc(cu_ptr *p, size_t bytes) {
    cu_result r = cu_ready();
    if (r)
        return r;
    if (!p || !bytes)
        return CUE_ERROR_INVALID_VALUE;
    *p = emu_alloc(cu_world.emu, bytes);
    return *p ? CUE_SUCCESS : CUE_ERROR_OUT_OF_MEMORY;
}
CU_API cu_result cuMemAlloc_v2(cu_ptr *p, size_t bytes) {
    cu_lock();
    cu_result r = alloc(p, bytes);
    cu_unlock();
    return r;
}
CU_API cu_result cuMemAlloc(cu_ptr *p, size_t bytes) {
    return cuMemAlloc_v2(p, bytes);
}
/* In a stream that captures, too, at once: a graph's memory has one address for all its launches.
 */
CU_API cu_result cuMemAllocAsync(cu_ptr *p, size_t bytes, struct cu_stream *s) {
    (void)s;
    return cuMemAlloc_v2(p, bytes);
}
CU_API cu_result cuMemAllocPitch_v2(cu_ptr *p, size_t *pitch, size_t width, size_t height,
                                    unsigned element) {
    (void)element;
    if (!pitch)
        return CUE_ERROR_INVALID_VALUE;
    *pitch = (width + 511) & ~(size_t)511;
    return cuMemAlloc_v2(p, *pitch * height);
}
CU_API cu_result cuMemFree_v2(cu_ptr p) {
    if (!p)
        return CUE_SUCCESS;
    cu_lock();
    cu_result r = cu_world.failed ? CUE_SUCCESS : cu_drain();
    if (!emu_free_mem(cu_world.emu, p) && !r)
        r = CUE_ERROR_INVALID_VALUE;
    cu_unlock();
    return r;
}
CU_API cu_result cuMemFree(cu_ptr p) {
    return cuMemFree_v2(p);
}
/* What a graph frees stays, since the graph may be launched again: freed with the context. */
CU_API cu_result cuMemFreeAsync(cu_ptr p, struct cu_stream *s) {
    if (!cu_stream_is(s))
        return CUE_ERROR_INVALID_HANDLE;
    return (uintptr_t)s > 2 && s->capture ? CUE_SUCCESS : cuMemFree_v2(p);
}
CU_API cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    if (!cu_world.emu)
        return CUE_ERROR_NOT_INITIALIZED;
    if (free_bytes)
        *free_bytes = (size_t)64 << 30;
    if (total)
        *total = (size_t)80 << 30;
    return CUE_SUCCESS;
}
CU_API cu_result cuMemGetAddressRange_v2(cu_ptr *base, size_t *bytes, cu_ptr p) {
    uint64_t b, n;
    if (!cu_world.emu || !emu_range(cu_world.emu, p, &b, &n))
        return CUE_ERROR_NOT_FOUND;
    if (base)
        *base = b;
    if (bytes)
        *bytes = n;
    return CUE_SUCCESS;
}

/* Pinned host memory is device memory too: kernels may use its address. */
static cu_result host_alloc(void **p, size_t bytes) {
    cu_ptr d;
    if (!p)
        return CUE_ERROR_INVALID_VALUE;
    cu_result r = cuMemAlloc_v2(&d, bytes);
    if (r)
        return r;
    *p = (void *)(uintptr_t)d;
    cu_lock();
    mem_find(cu_world.emu, d)->host = true;
    cu_unlock();
    return CUE_SUCCESS;
}
/* The host writes managed memory without a call that the emulator sees, as it does pinned memory.
 */
CU_API cu_result cuMemAllocManaged(cu_ptr *p, size_t bytes, unsigned flags) {
    void *h = NULL;
    (void)flags;
    cu_result r = p ? host_alloc(&h, bytes) : CUE_ERROR_INVALID_VALUE;
    if (r)
        return r;
    *p = (cu_ptr)(uintptr_t)h;
    cu_lock();
    mem_find(cu_world.emu, *p)->managed = true;
    cu_unlock();
    return r;
}
CU_API cu_result cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    return host_alloc(p, bytes);
}
CU_API cu_result cuMemAllocHost_v2(void **p, size_t bytes) {
    return host_alloc(p, bytes);
}
CU_API cu_result cuMemFreeHost(void *p) {
    return cuMemFree_v2((cu_ptr)(uintptr_t)p);
}
CU_API cu_result cuMemHostGetDevicePointer_v2(cu_ptr *d, void *p, unsigned flags) {
    (void)flags;
    uint64_t b, n;
    if (!d || !cu_world.emu || !emu_range(cu_world.emu, (cu_ptr)(uintptr_t)p, &b, &n))
        return CUE_ERROR_INVALID_VALUE;
    *d = (cu_ptr)(uintptr_t)p;
    return CUE_SUCCESS;
}
CU_API cu_result cuMemHostGetFlags(unsigned *flags, void *p) {
    (void)p;
    if (flags)
        *flags = 0;
    return CUE_SUCCESS;
}
/* Whole pages are not asked for: the driver has not since 4.1. */
CU_API cu_result cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
    (void)flags;
    if (!p || !bytes)
        return CUE_ERROR_INVALID_VALUE;
    cu_lock();
    cu_result r = cu_ready();
    if (!r && !emu_register(cu_world.emu, (uint64_t)(uintptr_t)p, bytes))
        r = CUE_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    cu_unlock();
    return r;
}
CU_API cu_result cuMemHostUnregister(void *p) {
    cu_lock();
    cu_result r = cu_world.failed ? CUE_SUCCESS : cu_drain();
    if (!emu_unregister(cu_world.emu, (uint64_t)(uintptr_t)p) && !r)
        r = CUE_ERROR_HOST_MEMORY_NOT_REGISTERED;
    cu_unlock();
    return r;
}

/* --- Copies --- */

static cu_result submit(struct cu_stream *s, const struct cu_op *op, bool wait) {
    cu_lock();
    cu_result r = cu_ready();
    r = r ? r : cu_stream_takes(s);
    if (!r)
        r = cu_submit(s, op);
    if (!r && wait && !(s && s->capture))
        r = cu_drain();
    cu_unlock();
    return r;
}
static cu_result copy(uint64_t dst, uint64_t src, size_t n, struct cu_stream *s, bool wait) {
    if (!n)
        return CUE_SUCCESS;
    if (!dst || !src)
        return CUE_ERROR_INVALID_VALUE;
    return submit(s,
                  &(struct cu_op){.kind = CUOP_COPY,
                                  .dst = dst,
                                  .src = src,
                                  .width = n,
                                  .height = 1,
                                  .dst_pitch = n,
                                  .src_pitch = n},
                  wait);
}
#define ADDR(p) ((uint64_t)(uintptr_t)(p))
/* As cuMemcpy, but one side is said to be the device's. */
static cu_result one_sided(uint64_t dst, uint64_t src, cu_ptr device, size_t n, struct cu_stream *s,
                           bool wait) {
    uint64_t base, bytes;
    if (n && cu_world.emu && !emu_range(cu_world.emu, device, &base, &bytes))
        return CUE_ERROR_INVALID_VALUE;
    return copy(dst, src, n, s, wait);
}
CU_API cu_result cuMemcpyHtoD_v2(cu_ptr d, const void *h, size_t n) {
    return one_sided(d, ADDR(h), d, n, NULL, true);
}
CU_API cu_result cuMemcpyDtoH_v2(void *h, cu_ptr d, size_t n) {
    return one_sided(ADDR(h), d, d, n, NULL, true);
}
CU_API cu_result cuMemcpyDtoD_v2(cu_ptr d, cu_ptr s, size_t n) {
    return copy(d, s, n, NULL, true);
}
CU_API cu_result cuMemcpy(cu_ptr d, cu_ptr s, size_t n) {
    return copy(d, s, n, NULL, true);
}
CU_API cu_result cuMemcpyHtoDAsync_v2(cu_ptr d, const void *h, size_t n, struct cu_stream *s) {
    return one_sided(d, ADDR(h), d, n, s, false);
}
CU_API cu_result cuMemcpyDtoHAsync_v2(void *h, cu_ptr d, size_t n, struct cu_stream *s) {
    return one_sided(ADDR(h), d, d, n, s, false);
}
CU_API cu_result cuMemcpyDtoDAsync_v2(cu_ptr d, cu_ptr f, size_t n, struct cu_stream *s) {
    return copy(d, f, n, s, false);
}
CU_API cu_result cuMemcpyAsync(cu_ptr d, cu_ptr f, size_t n, struct cu_stream *s) {
    return copy(d, f, n, s, false);
}

/* of CUmemorytype: host, device, unified; arrays are not supported */
static bool memory_type(unsigned t) {
    return t == 1 || t == 2 || t == 4;
}
static cu_result copy_2d(const struct cu_memcpy2d *c, struct cu_stream *s, bool wait) {
    if (!c || !memory_type(c->src_type) || !memory_type(c->dst_type) ||
        (c->src_pitch && c->src_pitch < c->width) || (c->dst_pitch && c->dst_pitch < c->width))
        return CUE_ERROR_INVALID_VALUE;
    uint64_t src = c->src_type == 1 ? ADDR(c->src_host) : c->src_device;
    uint64_t dst = c->dst_type == 1 ? ADDR(c->dst_host) : c->dst_device;
    if (!c->width || !c->height)
        return CUE_SUCCESS;
    struct cu_op op = {.kind = CUOP_COPY,
                       .dst_pitch = c->dst_pitch ? c->dst_pitch : c->width,
                       .src_pitch = c->src_pitch ? c->src_pitch : c->width,
                       .width = c->width,
                       .height = c->height};
    op.src = src + c->src_y * op.src_pitch + c->src_x;
    op.dst = dst + c->dst_y * op.dst_pitch + c->dst_x;
    return submit(s, &op, wait);
}
CU_API cu_result cuMemcpy2D_v2(const struct cu_memcpy2d *c) {
    return copy_2d(c, NULL, true);
}
CU_API cu_result cuMemcpy2DUnaligned_v2(const struct cu_memcpy2d *c) {
    return copy_2d(c, NULL, true);
}
CU_API cu_result cuMemcpy2DAsync_v2(const struct cu_memcpy2d *c, struct cu_stream *s) {
    return copy_2d(c, s, false);
}

/* Slice by slice: several operations, in order. */
static cu_result copy_3d(const struct cu_memcpy3d *c, struct cu_stream *s, bool wait) {
    cu_result r = CUE_SUCCESS;
    if (!c)
        return CUE_ERROR_INVALID_VALUE;
    for (size_t z = 0; z < c->depth && !r; z++) {
        const struct cu_memcpy2d slice = {.src_x = c->src.x,
                                          .src_y = c->src.y + (c->src.z + z) * c->src.height,
                                          .src_type = c->src.type,
                                          .src_host = c->src.from_host,
                                          .src_device = c->src.device,
                                          .src_pitch = c->src.pitch,
                                          .dst_x = c->dst.x,
                                          .dst_y = c->dst.y + (c->dst.z + z) * c->dst.height,
                                          .dst_type = c->dst.type,
                                          .dst_host = c->dst.host,
                                          .dst_device = c->dst.device,
                                          .dst_pitch = c->dst.pitch,
                                          .width = c->width,
                                          .height = c->height};
        r = copy_2d(&slice, s, wait);
    }
    return r;
}
CU_API cu_result cuMemcpy3D_v2(const struct cu_memcpy3d *c) {
    return copy_3d(c, NULL, true);
}
CU_API cu_result cuMemcpy3DAsync_v2(const struct cu_memcpy3d *c, struct cu_stream *s) {
    return copy_3d(c, s, false);
}
CU_API cu_result cuMemcpyPeer(cu_ptr d, struct cu_context *dc, cu_ptr s, struct cu_context *sc,
                              size_t n) {
    (void)dc, (void)sc;
    return copy(d, s, n, NULL, true);
}
CU_API cu_result cuMemcpyPeerAsync(cu_ptr d, struct cu_context *dc, cu_ptr from,
                                   struct cu_context *sc, size_t n, struct cu_stream *s) {
    (void)dc, (void)sc;
    return copy(d, from, n, s, false);
}

/* --- Sets --- */

static cu_result set(cu_ptr d, size_t pitch, uint32_t v, uint32_t element, size_t w, size_t h,
                     struct cu_stream *s, bool wait) {
    if (!w || !h)
        return CUE_SUCCESS;
    if (!d || d % element)
        return CUE_ERROR_INVALID_VALUE;
    struct cu_op op = {.kind = CUOP_SET,
                       .dst = d,
                       .dst_pitch = pitch ? pitch : w * element,
                       .value = v,
                       .element = element,
                       .width = w,
                       .height = h};
    return submit(s, &op, wait);
}
CU_API cu_result cuMemsetD8_v2(cu_ptr d, unsigned char v, size_t n) {
    return set(d, 0, v, 1, n, 1, NULL, true);
}
CU_API cu_result cuMemsetD16_v2(cu_ptr d, unsigned short v, size_t n) {
    return set(d, 0, v, 2, n, 1, NULL, true);
}
CU_API cu_result cuMemsetD32_v2(cu_ptr d, unsigned v, size_t n) {
    return set(d, 0, v, 4, n, 1, NULL, true);
}
CU_API cu_result cuMemsetD8Async(cu_ptr d, unsigned char v, size_t n, struct cu_stream *s) {
    return set(d, 0, v, 1, n, 1, s, false);
}
CU_API cu_result cuMemsetD16Async(cu_ptr d, unsigned short v, size_t n, struct cu_stream *s) {
    return set(d, 0, v, 2, n, 1, s, false);
}
CU_API cu_result cuMemsetD32Async(cu_ptr d, unsigned v, size_t n, struct cu_stream *s) {
    return set(d, 0, v, 4, n, 1, s, false);
}
CU_API cu_result cuMemsetD2D8_v2(cu_ptr d, size_t pitch, unsigned char v, size_t w, size_t h) {
    return set(d, pitch, v, 1, w, h, NULL, true);
}
CU_API cu_result cuMemsetD2D32_v2(cu_ptr d, size_t pitch, unsigned v, size_t w, size_t h) {
    return set(d, pitch, v, 4, w, h, NULL, true);
}
CU_API cu_result cuMemsetD2D16_v2(cu_ptr d, size_t pitch, unsigned short v, size_t w, size_t h) {
    return set(d, pitch, v, 2, w, h, NULL, true);
}
CU_API cu_result cuMemsetD2D16Async(cu_ptr d, size_t pitch, unsigned short v, size_t w, size_t h,
                                    struct cu_stream *s) {
    return set(d, pitch, v, 2, w, h, s, false);
}
CU_API cu_result cuMemsetD2D32Async(cu_ptr d, size_t pitch, unsigned v, size_t w, size_t h,
                                    struct cu_stream *s) {
    return set(d, pitch, v, 4, w, h, s, false);
}
CU_API cu_result cuMemsetD2D8Async(cu_ptr d, size_t pitch, unsigned char v, size_t w, size_t h,
                                   struct cu_stream *s) {
    return set(d, pitch, v, 1, w, h, s, false);
}

/* --- Pointers --- */

static cu_result pointer_attribute(void *out, int what, cu_ptr p) {
    uint64_t base, bytes;
    if (!out)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_world.emu || !emu_range(cu_world.emu, p, &base, &bytes))
        return CUE_ERROR_INVALID_VALUE;
    const struct allocation *a = mem_find(cu_world.emu, p);
    const bool host = a->host;
    switch (what) {
    case 1:
        *(struct cu_context **)out = cu_current();
        break;
    case 2:
        *(unsigned *)out = host && !a->managed ? 1 : 2;
        break;
    case 3:
        *(cu_ptr *)out = p;
        break;
    case 4:
        if (!host)
            return CUE_ERROR_INVALID_VALUE;
        *(void **)out = (void *)(uintptr_t)p;
        break;
    case 6:
        *(int *)out = 0;
        break;
    case 7:
        *(unsigned long long *)out = a->serial;
        break;
    case 8:
        *(int *)out = a->managed;
        break;
    case 9:
        *(int *)out = 0;
        break;
    case 11:
        *(cu_ptr *)out = base;
        break;
    case 12:
        *(size_t *)out = bytes;
        break;
    case 13:
        *(int *)out = 1;
        break;
    default:
        return CUE_ERROR_NOT_SUPPORTED;
    }
    return CUE_SUCCESS;
}
CU_API cu_result cuPointerGetAttribute(void *out, int what, cu_ptr p) {
    cu_lock();
    cu_result r = pointer_attribute(out, what, p);
    cu_unlock();
    return r;
}
CU_API cu_result cuPointerGetAttributes(unsigned n, int *what, void **out, cu_ptr p) {
    for (unsigned k = 0; k < n; k++)
        if (cuPointerGetAttribute(out[k], what[k], p))
            memset(out[k], 0, what[k] == 2 || what[k] == 8 || what[k] == 9 ? 4 : 8);
    return CUE_SUCCESS;
}
CU_API cu_result cuPointerSetAttribute(const void *v, int what, cu_ptr p) {
    (void)v, (void)what, (void)p;
    return CUE_SUCCESS;
}
