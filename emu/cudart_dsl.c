/* cudart_dsl.c: what the host code that NVIDIA's CuTe DSL compiles calls: functions of the runtime
 * with an underscore before their names.  The DSL takes them from the library that CUTE_DSL_LIBS
 * names; with this one there a program of the DSL runs on the emulator.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cudart.h"

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

cu_result cudaLaunchKernelExC(const struct rt_config *c, const void *fn, void **args);
CU_API cu_result _cudaLaunchKernelEx(const struct rt_config *c, const void *fn, void **args);
CU_API cu_result _cudaLaunchKernelEx(const struct rt_config *c, const void *fn, void **args) {
    return cudaLaunchKernelExC(c, fn, args);
}
