/* cuda_query.c: what a program asks the driver: device and function attributes, occupancy, error
 * names, entry points.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "ir.h"
#include "tensormap.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { DRIVER_VERSION = 13000 };

CU_API cu_result cuDriverGetVersion(int *v) {
    if (!v)
        return CUE_ERROR_INVALID_VALUE;
    *v = DRIVER_VERSION;
    return CUE_SUCCESS;
}
CU_API cu_result cuDeviceGetCount(int *n) {
    if (!n)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_world.emu)
        return CUE_ERROR_NOT_INITIALIZED;
    *n = 1;
    return CUE_SUCCESS;
}
CU_API cu_result cuDeviceGet(cu_device *d, int ordinal) {
    if (!cu_world.emu)
        return CUE_ERROR_NOT_INITIALIZED;
    if (!d || ordinal)
        return d ? CUE_ERROR_INVALID_DEVICE : CUE_ERROR_INVALID_VALUE;
    *d = 0;
    return CUE_SUCCESS;
}
static cu_result device(cu_device d) {
    return !cu_world.emu ? CUE_ERROR_NOT_INITIALIZED : d ? CUE_ERROR_INVALID_DEVICE : CUE_SUCCESS;
}
CU_API cu_result cuDeviceGetName(char *name, int n, cu_device d) {
    cu_result r = device(d);
    if (r || !name || n <= 0)
        return r ? r : CUE_ERROR_INVALID_VALUE;
    const struct emu_part *p = emu_part(cu_world.emu);
    snprintf(name, (size_t)n, "%s (%s)", p->product, p->name);
    return CUE_SUCCESS;
}
CU_API cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device d) {
    cu_result r = bytes ? device(d) : CUE_ERROR_INVALID_VALUE;
    if (!r)
        *bytes = (size_t)80 << 30;
    return r;
}
CU_API cu_result cuDeviceGetUuid_v2(struct cu_uuid *u, cu_device d) {
    cu_result r = u ? device(d) : CUE_ERROR_INVALID_VALUE;
    if (!r)
        memcpy(u->bytes, "ptx-emulator-dev", 16);
    return r;
}
CU_API cu_result cuDeviceGetUuid(struct cu_uuid *u, cu_device d) {
    return cuDeviceGetUuid_v2(u, d);
}
CU_API cu_result cuDeviceGetPCIBusId(char *s, int n, cu_device d) {
    cu_result r = s && n > 0 ? device(d) : CUE_ERROR_INVALID_VALUE;
    if (!r)
        snprintf(s, (size_t)n, "0000:00:00.0");
    return r;
}
CU_API cu_result cuDeviceComputeCapability(int *major, int *minor, cu_device d) {
    cu_result r = device(d);
    if (!r) {
        *major = emu_part(cu_world.emu)->major;
        *minor = emu_part(cu_world.emu)->minor;
    }
    return r;
}
CU_API cu_result cuDeviceCanAccessPeer(int *yes, cu_device a, cu_device b) {
    (void)a, (void)b;
    *yes = 0;
    return CUE_SUCCESS;
}

static bool attribute(int *v, int what, const struct emu_part *p) {
    switch (what) {
    case 1:
        *v = 1024;
        break;
    case 2:
    case 3:
        *v = 1024;
        break;
    case 4:
        *v = 64;
        break;
    case 5:
        *v = 0x7fffffff;
        break;
    case 6:
    case 7:
        *v = 65535;
        break;
    case 8:
        *v = 49152;
        break;
    case 9:
        *v = 65536;
        break;
    case 10:
        *v = 32;
        break;
    case 11:
        *v = 0x7fffffff;
        break;
    case 12:
        *v = 65536;
        break;
    case 13:
        *v = 1965000;
        break; /* kHz */
    case 14:
        *v = 512;
        break;
    case 16:
        *v = (int)p->sms;
        break;
    case 30:
        *v = 512;
        break;
    case 31:
        *v = 1;
        break;
    case 36:
        *v = 3201000;
        break;
    case 37:
        *v = 8192;
        break;
    case 38:
        *v = (int)p->l2_bytes;
        break;
    case 39:
        *v = (int)p->warps_per_sm * 32;
        break;
    case 40:
        *v = 3;
        break;
    case 41:
        *v = 1;
        break;
    case 75:
        *v = p->major;
        break;
    case 76:
        *v = p->minor;
        break;
    case 78:
    case 79:
    case 80:
        *v = 1;
        break;
    case 81:
        *v = (int)p->smem_per_sm;
        break;
    case 82:
        *v = (int)p->regs_per_sm;
        break;
    case 83:
        *v = 1;
        break;
    case 89:
        *v = 0;
        break;
    case 90:
        *v = 1;
        break;
    case 95:
        *v = 1;
        break;
    case 92: /* values that streams wait for and write; 93, 94, 122, 123: of 64 bits, NOR */
    case 93:
    case 94:
    case 122:
    case 123:
    case 91:
    case 99:  /* host memory may be registered */
    case 102: /* virtual memory management */
        *v = 1;
        break;
    case 97:
        *v = (int)p->smem_per_cta;
        break;
    case 106:
        *v = (int)p->ctas_per_sm;
        break;
    case 108:
        *v = (int)p->l2_bytes / 2;
        break;
    case 111:
        *v = 1024;
        break;
    case 115:
        *v = 1;
        break;
    case 120:
        *v = p->major >= 9;
        break;
    case 127:
        *v = p->major >= 9;
        break;
    case 15:
    case 19:
        *v = 1;
        break;
    default:
        *v = 0;
        return what > 0 && what < 160;
    }
    return true;
}
CU_API cu_result cuDeviceGetAttribute(int *v, int what, cu_device d) {
    cu_result r = device(d);
    if (r || !v)
        return r ? r : CUE_ERROR_INVALID_VALUE;
    return attribute(v, what, emu_part(cu_world.emu)) ? CUE_SUCCESS : CUE_ERROR_INVALID_VALUE;
}

/* --- Functions --- */

static cu_result function_get(int *v, int what, struct cu_kernel *k) {
    if (!v || what < 0 || what > 15)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_kernel_is(k))
        return CUE_ERROR_INVALID_HANDLE;
    const struct function *f = k->fn;
    switch (what) {
    case 0: {
        uint32_t n =
            f->req_ntid[0] ? f->req_ntid[0] * f->req_ntid[1] * f->req_ntid[2] : f->max_ntid[0];
        for (int d = 1; d < 3 && !f->req_ntid[0] && f->max_ntid[0]; d++)
            n *= f->max_ntid[d] ? f->max_ntid[d] : 1;
        *v = n ? (int)n : 1024;
        break;
    }
    case 1:
        *v = (int)f->static_smem;
        break;
    case 2:
        *v = 0;
        break;
    case 3:
        *v = (int)f->local_bytes;
        break;
    case 4:
        *v = f->max_nreg ? (int)f->max_nreg : 32;
        break; /* ptxas knows; the emulator does not */
    case 5:
        *v = atoi(f->mod->target + strcspn(f->mod->target, "0123456789"));
        break; /* the virtual architecture, sm_90 is 90 */
    case 6:
        *v = emu_part(cu_world.emu)->major * 10 + emu_part(cu_world.emu)->minor;
        break;
    case 8:
        *v = k->max_dyn ? k->max_dyn : 49152 - (int)f->static_smem;
        break;
    case 9:
        *v = -1;
        break;
    case 10:
        *v = f->req_cluster[0] != 0;
        break;
    case 11:
    case 12:
    case 13:
        *v = (int)f->req_cluster[what - 11];
        break;
    case 14:
        *v = k->non_portable;
        break;
    default:
        *v = 0;
        break;
    }
    return CUE_SUCCESS;
}
static cu_result function_set(struct cu_kernel *k, int what, int v) {
    if (!cu_kernel_is(k))
        return CUE_ERROR_INVALID_HANDLE;
    if (what == 8) {
        if (v < 0 || (uint32_t)v + k->fn->static_smem > emu_part(cu_world.emu)->smem_per_cta)
            return CUE_ERROR_INVALID_VALUE;
        k->max_dyn = v;
    } else if (what == 14) {
        k->non_portable = v;
    } else if (what != 9 && what != 15) {
        return CUE_ERROR_INVALID_VALUE;
    }
    return CUE_SUCCESS;
}
CU_API cu_result cuFuncGetAttribute(int *v, int what, struct cu_kernel *k) {
    return function_get(v, what, k);
}
CU_API cu_result cuFuncSetAttribute(struct cu_kernel *k, int what, int v) {
    return function_set(k, what, v);
}
CU_API cu_result cuKernelGetAttribute(int *v, int what, struct cu_kernel *k, cu_device d) {
    (void)d;
    return function_get(v, what, k);
}
CU_API cu_result cuKernelSetAttribute(int what, int v, struct cu_kernel *k, cu_device d) {
    (void)d;
    return function_set(k, what, v);
}
CU_API cu_result cuFuncSetCacheConfig(struct cu_kernel *k, int c) {
    (void)c;
    return cu_kernel_is(k) ? CUE_SUCCESS : CUE_ERROR_INVALID_HANDLE;
}
CU_API cu_result cuKernelSetCacheConfig(struct cu_kernel *k, int c, cu_device d) {
    (void)c, (void)d;
    return cu_kernel_is(k) ? CUE_SUCCESS : CUE_ERROR_INVALID_HANDLE;
}
CU_API cu_result cuFuncLoad(struct cu_kernel *k) {
    return cu_kernel_is(k) ? CUE_SUCCESS : CUE_ERROR_INVALID_HANDLE;
}

CU_API cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, struct cu_kernel *k,
                                                             int threads, size_t smem) {
    if (!n || threads <= 0)
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_kernel_is(k))
        return CUE_ERROR_INVALID_HANDLE;
    *n = (int)emu_occupancy(cu_world.emu, k->fn, (uint32_t)threads, (uint32_t)smem);
    return CUE_SUCCESS;
}
CU_API cu_result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, struct cu_kernel *k,
                                                                      int threads, size_t smem,
                                                                      unsigned flags) {
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(n, k, threads, smem);
}
CU_API cu_result cuOccupancyMaxActiveClusters(int *n, struct cu_kernel *k,
                                              const struct cu_config *c) {
    if (!n || !c || (c->nattrs && !c->attrs))
        return CUE_ERROR_INVALID_VALUE;
    if (!cu_kernel_is(k))
        return CUE_ERROR_INVALID_HANDLE;
    uint32_t size = 1;
    for (unsigned a = 0; a < c->nattrs; a++)
        if (c->attrs[a].id == CU_LAUNCH_CLUSTER)
            size = c->attrs[a].value.cluster.x * c->attrs[a].value.cluster.y *
                   c->attrs[a].value.cluster.z;
    if (!size || size > emu_part(cu_world.emu)->cluster_max || (size > 8 && !k->non_portable))
        return CUE_ERROR_INVALID_CLUSTER_SIZE;
    uint32_t per =
        emu_occupancy(cu_world.emu, k->fn, c->block[0] * c->block[1] * c->block[2], c->smem);
    *n = (int)(per * emu_part(cu_world.emu)->sms / size);
    return CUE_SUCCESS;
}
CU_API cu_result cuOccupancyMaxPotentialClusterSize(int *n, struct cu_kernel *k,
                                                    const struct cu_config *c) {
    (void)c;
    if (!n || !cu_kernel_is(k))
        return n ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    *n = k->non_portable ? (int)emu_part(cu_world.emu)->cluster_max : 8;
    return CUE_SUCCESS;
}
CU_API cu_result cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, struct cu_kernel *k,
                                                         int blocks, int threads) {
    (void)threads;
    if (!bytes || !cu_kernel_is(k))
        return bytes ? CUE_ERROR_INVALID_HANDLE : CUE_ERROR_INVALID_VALUE;
    const struct emu_part *p = emu_part(cu_world.emu);
    size_t n = p->smem_per_sm / (unsigned)(blocks > 0 ? blocks : 1) - 1024;
    *bytes = (n < p->smem_per_cta ? n : p->smem_per_cta) - k->fn->static_smem;
    return CUE_SUCCESS;
}

/* --- Errors and entry points --- */

static const struct {
    int code;
    const char *name, *text;
} results[] = {
#define X(n, v, t) {v, "CUDA_" #n, t},
    CU_RESULTS(X)
#undef X
};
CU_API cu_result cuGetErrorName(cu_result e, const char **s) {
    for (size_t k = 0; s && k < sizeof results / sizeof *results; k++)
        if (results[k].code == e) {
            *s = results[k].name;
            return CUE_SUCCESS;
        }
    if (s)
        *s = NULL;
    return CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuGetErrorString(cu_result e, const char **s) {
    for (size_t k = 0; s && k < sizeof results / sizeof *results; k++)
        if (results[k].code == e) {
            *s = results[k].text;
            return CUE_SUCCESS;
        }
    if (s)
        *s = NULL;
    return CUE_ERROR_INVALID_VALUE;
}

/* A name's newest version that a program of an older CUDA knows: arguments changed then. */
static int newest_version(const char *name, int cuda) {
    static const struct {
        const char *name;
        int since, before; /* from that CUDA on the newest; until then this one */
    } changed[] = {{"cuCtxCreate", 13000, 2},
                   {"cuStreamGetCaptureInfo", 12030, 2},
                   {"cuMemPrefetchAsync", 13000, 1},
                   {"cuMemAdvise", 13000, 1},
                   {"cuGraphAddKernelNode", 12000, 1},
                   {"cuGraphKernelNodeSetParams", 12000, 1},
                   {"cuGraphAddDependencies", 13000, 1},
                   {"cuGraphExecKernelNodeSetParams", 12000, 1}};
    for (size_t k = 0; k < sizeof changed / sizeof *changed; k++)
        if (!strcmp(name, changed[k].name) && cuda < changed[k].since)
            return changed[k].before;
    return 4;
}

/* The newest version of a name that this library has: name_v4 ... name_v2, name. */
CU_API cu_result cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
                                     int *status) {
    (void)flags;
    char buf[128];
    static void *self;
    if (!name || !fn)
        return CUE_ERROR_INVALID_VALUE;
    if (!self) {
        Dl_info info;
        if (dladdr((void *)(uintptr_t)&cuGetErrorName, &info))
            self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    *fn = NULL;
    for (int v = newest_version(name, version); v >= 1 && !*fn && self; v--) {
        snprintf(buf, sizeof buf, v > 1 ? "%s_v%d" : "%s", name, v);
        *fn = dlsym(self, buf);
    }
    if (status)
        *status = *fn ? 0 : 1;
    return *fn ? CUE_SUCCESS : CUE_ERROR_NOT_FOUND;
}
CU_API cu_result cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, fn, version, flags, NULL);
}
/* What the runtime asks for first; see cudart_static.c. */
CU_API cu_result cuGetExportTable(const void **table, const struct cu_uuid *id) {
    static bool said;
    (void)id;
    if (!said)
        fprintf(stderr,
                "emu: this program has NVIDIA's runtime in it, which wants undocumented tables"
                " of the driver: start it with LD_PRELOAD=libcuda-emu.so (docs/emulator.md)\n");
    said = true;
    if (table)
        *table = NULL;
    return CUE_ERROR_NOT_FOUND;
}
CU_API cu_result cuProfilerStart(void) {
    return CUE_SUCCESS;
}
CU_API cu_result cuProfilerStop(void) {
    return CUE_SUCCESS;
}

/* --- Tensor maps --- */

CU_API cu_result cuTensorMapEncodeTiled(void *map, unsigned type, unsigned rank, void *address,
                                        const uint64_t *dims, const uint64_t *strides,
                                        const uint32_t *box, const uint32_t *steps,
                                        unsigned interleave, unsigned swizzle, unsigned l2,
                                        unsigned fill) {
    char why[300];
    struct tensormap_args a = {
        type, rank, (uint64_t)(uintptr_t)address, dims, strides, box, steps, interleave, swizzle,
        l2,   fill};
    if (!map || !dims || !box || !steps || (rank > 1 && !strides))
        return CUE_ERROR_INVALID_VALUE;
    if (tensormap_encode(map, &a, why, sizeof why))
        return CUE_SUCCESS;
    fprintf(stderr, "emu: cuTensorMapEncodeTiled: %s\n", why);
    return CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuTensorMapEncodeIm2col(void *map, unsigned type, unsigned rank, void *address,
                                         const uint64_t *dims, const uint64_t *strides,
                                         const int *lower, const int *upper, unsigned channels,
                                         unsigned pixels, const uint32_t *steps,
                                         unsigned interleave, unsigned swizzle, unsigned l2,
                                         unsigned fill) {
    char why[300];
    struct tensormap_args a = {
        type, rank, (uint64_t)(uintptr_t)address, dims, strides, NULL, steps, interleave, swizzle,
        l2,   fill};
    const struct tensormap_im2col im = {lower, upper, channels, pixels};
    if (tensormap_encode_im2col(map, &a, &im, why, sizeof why))
        return CUE_SUCCESS;
    fprintf(stderr, "emu: cuTensorMapEncodeIm2col: %s\n", why);
    return CUE_ERROR_INVALID_VALUE;
}
CU_API cu_result cuTensorMapReplaceAddress(void *map, void *address) {
    char why[300];
    return map && tensormap_replace_address(map, (uint64_t)(uintptr_t)address, why, sizeof why)
               ? CUE_SUCCESS
               : CUE_ERROR_INVALID_VALUE;
}
