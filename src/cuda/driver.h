/* SPDX-License-Identifier: Apache-2.0
 * The one seam to a GPU: a table of CUDA driver functions filled by dlopen, from libcuda or from
 * our emulator, which wears the same ABI. No CUDA header and no CUDA library is needed to build.
 * Declarations are our own, after the CUDA Driver API reference. */
#ifndef GQA_CUDA_DRIVER_H
#define GQA_CUDA_DRIVER_H

#include "gqa.h"

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_pointer;
typedef struct cu_context *cu_context;
typedef struct cu_stream *cu_stream;
typedef struct cu_library *cu_library;
typedef struct cu_kernel *cu_kernel;

enum {
    CU_OK = 0,
    CU_INVALID_PTX = 218,
    CU_NO_BINARY = 209,
    CU_NOT_SUPPORTED = 801,
    CU_ATTR_SM_COUNT = 16, /* cuDeviceGetAttribute */
    CU_ATTR_CC_MAJOR = 75,
    CU_ATTR_CC_MINOR = 76,
    CU_ATTR_SMEM_OPTIN = 97,
    CU_FUNC_MAX_DYNAMIC_SMEM = 8, /* cuKernelSetAttribute */
    CU_FUNC_NON_PORTABLE_CLUSTER = 14,
    CU_LAUNCH_CLUSTER = 4, /* launch attributes */
    CU_LAUNCH_PROGRAMMATIC = 6,
    CU_TENSOR_BYTES = 0, /* cuTensorMapEncodeTiled: types, swizzles, promotions */
    CU_TENSOR_F16 = 6,
    CU_TENSOR_BF16 = 9,
    CU_SWIZZLE_NONE = 0,
    CU_SWIZZLE_64 = 2,
    CU_SWIZZLE_128 = 3,
    CU_PROMOTE_256 = 3,
};

/* CUlaunchAttribute: 4 bytes of id, 4 of padding, a 64-byte union. */
struct cu_launch_attribute {
    int id, pad;
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int programmatic;
    } value;
};

/* CUlaunchConfig. */
struct cu_launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, smem_bytes;
    cu_stream stream;
    struct cu_launch_attribute *attributes;
    unsigned attribute_count;
};

/* clang-format off */
#define CU_FUNCTIONS(X)                                                                            \
    X(init,              cuInit,                   (unsigned flags))                               \
    X(device_get,        cuDeviceGet,              (cu_device *device, int ordinal))               \
    X(device_count,      cuDeviceGetCount,         (int *count))                                   \
    X(device_name,       cuDeviceGetName,          (char *name, int len, cu_device device))        \
    X(device_attribute,  cuDeviceGetAttribute,     (int *value, int attribute, cu_device device))  \
    X(primary_retain,    cuDevicePrimaryCtxRetain, (cu_context *context, cu_device device))        \
    X(primary_release,   cuDevicePrimaryCtxRelease_v2, (cu_device device))                         \
    X(context_current,   cuCtxGetCurrent,          (cu_context *context))                          \
    X(context_device,    cuCtxGetDevice,           (cu_device *device))                            \
    X(context_push,      cuCtxPushCurrent_v2,      (cu_context context))                           \
    X(context_pop,       cuCtxPopCurrent_v2,       (cu_context *context))                          \
    X(stream_context,    cuStreamGetCtx,           (cu_stream stream, cu_context *context))        \
    X(library_load,      cuLibraryLoadData,        (cu_library *library, const void *image,        \
                                                    int *jit_options, void **jit_values,           \
                                                    unsigned jit_count, int *options,              \
                                                    void **values, unsigned count))                \
    X(library_unload,    cuLibraryUnload,          (cu_library library))                           \
    X(library_kernel,    cuLibraryGetKernel,       (cu_kernel *kernel, cu_library library,         \
                                                    const char *name))                             \
    X(kernel_attribute,  cuKernelSetAttribute,     (int attribute, int value, cu_kernel kernel,    \
                                                    cu_device device))                             \
    X(launch,            cuLaunchKernelEx,         (const struct cu_launch *config,                \
                                                    cu_kernel kernel, void **parameters,           \
                                                    void **extra))                                 \
    X(tensor_map,        cuTensorMapEncodeTiled,   (void *map, int type, unsigned rank,            \
                                                    const void *address, const uint64_t *sizes,    \
                                                    const uint64_t *strides, const uint32_t *box,  \
                                                    const uint32_t *steps, int interleave,         \
                                                    int swizzle, int promotion, int fill))         \
    X(error_name,        cuGetErrorName,           (cu_result result, const char **text))
/* clang-format on */

struct driver {
    void *handle;
#define X(field, symbol, args) cu_result(*field) args;
    CU_FUNCTIONS(X)
#undef X
};

/* Fill the table from the library at `path`; NULL: the system's libcuda. Fails: GQA_ERR_DEVICE
 * where there is none, GQA_ERR_DRIVER where it lacks a function (older than CUDA 12.0). */
gqa_status driver_open(const char *path, struct driver *driver, struct gqa_error *err);

void driver_close(struct driver *driver);

/* GQA_OK for result 0; else GQA_ERR_DRIVER with what was tried and the driver's name for it. */
gqa_status driver_check(const struct driver *driver, cu_result result, const char *what,
                        struct gqa_error *err);

/* The emulator of `part` ("sm_100a"): at `path`, else at $GQA_CUDA_EMU, else libcuda-emu.so beside
 * this library or program. It is told the part before it is opened. */
gqa_status driver_open_emulator(const char *part, const char *path, struct driver *driver,
                                struct gqa_error *err);

#endif
