/* cudart_3d.c: the runtime's memory of three dimensions.  Arrays are refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"

static struct cu_memcpy3d_side side(const size_t pos[3], const struct rt_pitched *p) {
    return (struct cu_memcpy3d_side){.x = pos[0],
                                     .y = pos[1],
                                     .z = pos[2],
                                     .type = 4, /* unified: the address says */
                                     .device = (cu_ptr)(uintptr_t)p->p,
                                     .pitch = p->pitch,
                                     .height = p->height};
}
cu_result rt_copy(struct cu_memcpy3d *to, const struct rt_copy3d *n) {
    if (!n)
        return CUE_ERROR_INVALID_VALUE;
    if (n->src_array || n->dst_array)
        return CUE_ERROR_NOT_SUPPORTED;
    *to = (struct cu_memcpy3d){.src = side(n->src_pos, &n->src),
                               .dst = side(n->dst_pos, &n->dst),
                               .width = n->extent.width,
                               .height = n->extent.height,
                               .depth = n->extent.depth};
    return CUE_SUCCESS;
}

cu_result cuMemcpy3D_v2(const struct cu_memcpy3d *c);
cu_result cuMemcpy3DAsync_v2(const struct cu_memcpy3d *c, struct cu_stream *s);
CU_API cu_result cudaMemcpy3D(const struct rt_copy3d *n) {
    struct cu_memcpy3d c;
    cu_result r = rt_begin();
    r = r ? r : rt_copy(&c, n);
    return rt_done(r ? r : cuMemcpy3D_v2(&c));
}
CU_API cu_result cudaMemcpy3DAsync(const struct rt_copy3d *n, struct cu_stream *s) {
    struct cu_memcpy3d c;
    cu_result r = rt_begin();
    r = r ? r : rt_copy(&c, n);
    return rt_done(r ? r : cuMemcpy3DAsync_v2(&c, s));
}

cu_result cuMemsetD2D8Async(cu_ptr p, size_t pitch, unsigned char v, size_t w, size_t h,
                            struct cu_stream *s);
CU_API cu_result cudaMemset3DAsync(struct rt_pitched p, int v, struct rt_extent e,
                                   struct cu_stream *s) {
    cu_result r = rt_begin();
    for (size_t z = 0; z < e.depth && !r; z++)
        r = cuMemsetD2D8Async((cu_ptr)(uintptr_t)p.p + z * p.pitch * p.height, p.pitch,
                              (unsigned char)v, e.width, e.height, s);
    return rt_done(r);
}
cu_result cuStreamSynchronize(struct cu_stream *s);
CU_API cu_result cudaMemset3D(struct rt_pitched p, int v, struct rt_extent e) {
    cu_result r = cudaMemset3DAsync(p, v, e, NULL);
    return rt_done(r ? r : cuStreamSynchronize(NULL));
}
cu_result cuMemAllocPitch_v2(cu_ptr *p, size_t *pitch, size_t w, size_t h, unsigned element);
CU_API cu_result cudaMalloc3D(struct rt_pitched *p, struct rt_extent e) {
    cu_ptr at = 0;
    size_t pitch = 0;
    cu_result r = rt_begin();
    r = r   ? r
        : p ? cuMemAllocPitch_v2(&at, &pitch, e.width, e.height * e.depth, 16)
            : CUE_ERROR_INVALID_VALUE;
    if (!r)
        *p = (struct rt_pitched){(void *)(uintptr_t)at, pitch, e.width, e.height};
    return rt_done(r);
}
