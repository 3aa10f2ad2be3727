/* cudart.h: the CUDA runtime's C interface over the driver's (cudart.c, cudart_api.c): a program
 * that links to the shared runtime (nvcc -cudart shared) runs with libcuda-emu.so in the place of
 * libcudart.so.13.  Own declarations, after the CUDA Runtime API reference and crt/host_runtime.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_CUDART_H
#define EMU_CUDART_H

#include "cuda_abi.h"

struct rt_dim3 {
    unsigned x, y, z;
};
struct rt_config {
    struct rt_dim3 grid, block;
    size_t smem;
    struct cu_stream *stream;
    struct cu_attribute *attrs;
    unsigned nattrs;
};
struct rt_function_attributes {
    size_t shared, constant, local;
    int threads, regs, ptx, binary, cache, max_dynamic, carveout, cluster_must, cluster[3], policy,
        non_portable, reserved[16];
};
struct rt_pointer {
    int type, device;
    void *on_device, *on_host;
    long reserved[8];
};
struct rt_pitched {
    void *p;
    size_t pitch, width, height;
};
struct rt_extent {
    size_t width, height, depth;
};
struct rt_copy3d { /* cudaMemcpy3DParms */
    void *src_array;
    size_t src_pos[3];
    struct rt_pitched src;
    void *dst_array;
    size_t dst_pos[3];
    struct rt_pitched dst;
    struct rt_extent extent;
    int kind;
};
struct rt_properties {
    char name[256];
    struct cu_uuid uuid;
    char luid[8];
    unsigned luid_mask;
    size_t global_bytes, smem_per_block;
    int regs_per_block, warp;
    size_t pitch;
    int threads_per_block, threads_dim[3], grid_dim[3];
    size_t const_bytes;
    int major, minor;
    size_t texture_alignment, texture_pitch;
    int sms, integrated, map_host;
    int textures[38]; /* maxTexture1D to maxSurfaceCubemapLayered */
    size_t surface_alignment;
    int concurrent, ecc, pci_bus, pci_device, pci_domain, tcc, engines, unified, bus_width,
        l2_bytes, persisting_l2, threads_per_sm, priorities, l1_global, l1_local;
    size_t smem_per_sm;
    int regs_per_sm, managed, multi_gpu, multi_gpu_group, host_atomics, pageable,
        concurrent_managed, preemption, registered_host, cooperative;
    size_t smem_optin;
    int host_page_tables, managed_from_host, blocks_per_sm, policy_window;
    size_t smem_reserved;
    int host_register, sparse_arrays, host_register_ro, timeline, pools, rdma;
    unsigned rdma_flush;
    int rdma_order;
    unsigned pool_handles;
    int deferred_arrays, ipc_event, cluster_launch, rest[64];
};

/* The last error of this thread, as cudaGetLastError gives it; returns e. */
cu_result rt_done(cu_result e);
/* A current context on this thread. */
cu_result rt_begin(void);
/* Kernel of a host stub, of a cudaKernel_t or of a cudaFunction_t. */
cu_result rt_kernel(struct cu_kernel **k, const void *fn);
/* What the runtime describes, as the driver does. */
cu_result rt_copy(struct cu_memcpy3d *to, const struct rt_copy3d *n);
cu_result rt_symbol(cu_ptr *p, size_t *bytes, const void *var);

#endif
