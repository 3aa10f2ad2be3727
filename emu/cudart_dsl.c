/* cudart_dsl.c: what the host code that NVIDIA's CuTe DSL compiles calls: functions of the runtime
 * and the driver with an underscore before their names, and helpers of its own.  The DSL takes them
 * from the library that CUTE_DSL_LIBS names; with this one there a program of the DSL runs on the
 * emulator.  Only what programs were seen to ask for; signatures after the DSL's Python source.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"
#include <pthread.h>
#include <stdlib.h>

#define SAME(name, params, args)                                                                   \
    cu_result name params;                                                                         \
    CU_API cu_result _##name params;                                                               \
    CU_API cu_result _##name params {                                                              \
        return name args;                                                                          \
    }

SAME(cudaGetDevice, (int *d), (d))
SAME(cudaGetDeviceCount, (int *n), (n))
SAME(cudaSetDevice, (int d), (d))
SAME(cudaDeviceGetAttribute, (int *v, int what, int d), (v, what, d))
SAME(cudaDeviceSynchronize, (void), ())
SAME(cudaStreamSynchronize, (struct cu_stream * s), (s))
SAME(cudaLibraryLoadData,
     (struct cu_image * *l, const void *data, int *jo, void **jv, unsigned jn, int *o, void **v,
      unsigned n),
     (l, data, jo, jv, jn, o, v, n))
SAME(cudaLibraryUnload, (struct cu_image * l), (l))
SAME(cudaLibraryGetKernel, (struct cu_kernel * *k, struct cu_image *l, const char *name),
     (k, l, name))
SAME(cudaLibraryGetKernelCount, (unsigned *n, struct cu_image *l), (n, l))
SAME(cudaFuncSetAttribute, (const void *fn, int what, int v), (fn, what, v))
SAME(cudaKernelSetAttributeForDevice, (struct cu_kernel * k, int what, int v, int d),
     (k, what, v, d))
SAME(cuKernelGetAttribute, (int *v, int what, struct cu_kernel *k, cu_device d), (v, what, k, d))
SAME(cuTensorMapEncodeTiled,
     (void *map, unsigned type, unsigned rank, void *address, const uint64_t *dims,
      const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned interleave,
      unsigned swizzle, unsigned l2, unsigned fill),
     (map, type, rank, address, dims, strides, box, steps, interleave, swizzle, l2, fill))

cu_result cudaLaunchKernelExC(const struct rt_config *c, const void *fn, void **args);
CU_API cu_result _cudaLaunchKernelEx(const struct rt_config *c, const void *fn, void **args);
CU_API cu_result _cudaLaunchKernelEx(const struct rt_config *c, const void *fn, void **args) {
    return cudaLaunchKernelExC(c, fn, args);
}

/* --- Errors, handed to TVM's foreign function interface --- */

typedef void set_raised(const char *kind, const char *message);
typedef void set_raised_parts(const char *kind, const char **parts, int32_t nparts);

const char *cudaGetErrorName(cu_result e);
CU_API const char *cuda_dialect_get_error_name(cu_result e);
CU_API const char *cuda_dialect_get_error_name(cu_result e) {
    return cudaGetErrorName(e);
}
/* Host code has no way to go on here. */
CU_API void cuda_dialect_assert_success(cu_result e);
CU_API void cuda_dialect_assert_success(cu_result e) {
    if (e == CUE_SUCCESS)
        return;
    fprintf(stderr, "emu: a call that the program takes to succeed: %s\n", cudaGetErrorName(e));
    abort();
}
CU_API void CuteDSLRT_TVMFFISetRaisedCudaError(set_raised_parts *raise, cu_result e);
CU_API void CuteDSLRT_TVMFFISetRaisedCudaError(set_raised_parts *raise, cu_result e) {
    const char *parts[] = {"CUDA error: ", cudaGetErrorName(e)};
    raise("RuntimeError", parts, 2);
}
/* Its other arguments are the launch's dimensions and their limits. */
CU_API void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(set_raised_parts *raise);
CU_API void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(set_raised_parts *raise) {
    const char *parts[] = {"a dimension or the shared memory of a launch is over its limit"};
    raise("RuntimeError", parts, 1);
}

/* --- A library for each compiled function, loaded when it is first called --- */

static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

CU_API int cuda_dialect_init_library_once(struct cu_image **state,
                                          cu_result (*init)(struct cu_image **),
                                          cu_result (*load)(struct cu_image **, int),
                                          set_raised *raise);
CU_API int cuda_dialect_init_library_once(struct cu_image **state,
                                          cu_result (*init)(struct cu_image **),
                                          cu_result (*load)(struct cu_image **, int),
                                          set_raised *raise) {
    struct cu_image *library = NULL;
    cu_result r = CUE_SUCCESS;
    pthread_mutex_lock(&once);
    if (!*state) {
        r = init(&library);
        if (!r)
            r = load(&library, 0);
        if (!r)
            *state = library;
    }
    pthread_mutex_unlock(&once);
    if (r)
        raise("RuntimeError", cudaGetErrorName(r));
    return r;
}
CU_API void cuda_dialect_unload_library_once(struct cu_image **state);
CU_API void cuda_dialect_unload_library_once(struct cu_image **state) {
    pthread_mutex_lock(&once);
    if (*state)
        cudaLibraryUnload(*state);
    *state = NULL;
    pthread_mutex_unlock(&once);
}
