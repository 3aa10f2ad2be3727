/* cuda_link.c: the driver's linker, for one input: its PTX is what cuLinkComplete gives, to be
 * loaded as a module.  Several inputs would have to be linked, and are refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <stdlib.h>
#include <string.h>

enum { INPUT_CUBIN, INPUT_PTX, INPUT_FATBIN };

struct cu_link {
    char *data;
    size_t bytes;
};

CU_API cu_result cuLinkCreate_v2(unsigned n, int *options, void **values, struct cu_link **out) {
    (void)n, (void)options, (void)values;
    if (!out)
        return CUE_ERROR_INVALID_VALUE;
    *out = calloc(1, sizeof **out);
    return *out ? CUE_SUCCESS : CUE_ERROR_OUT_OF_MEMORY;
}
CU_API cu_result cuLinkAddData_v2(struct cu_link *l, int type, void *data, size_t bytes,
                                  const char *name, unsigned n, int *options, void **values) {
    (void)name, (void)n, (void)options, (void)values;
    if (!l || !data || !bytes)
        return CUE_ERROR_INVALID_VALUE;
    if (type != INPUT_PTX && type != INPUT_FATBIN)
        return CUE_ERROR_NO_BINARY_FOR_GPU;
    if (l->data) {
        fprintf(stderr, "emu: cuLinkAddData: linking of several inputs is not modelled\n");
        return CUE_ERROR_NOT_SUPPORTED;
    }
    l->data = calloc(1, bytes + 1);
    if (!l->data)
        return CUE_ERROR_OUT_OF_MEMORY;
    memcpy(l->data, data, bytes);
    l->bytes = bytes;
    return CUE_SUCCESS;
}
CU_API cu_result cuLinkAddFile_v2(struct cu_link *l, int type, const char *path, unsigned n,
                                  int *options, void **values) {
    size_t bytes = 0;
    char *text = path ? cu_read_file(path, &bytes) : NULL;
    if (!text)
        return CUE_ERROR_FILE_NOT_FOUND;
    cu_result r = cuLinkAddData_v2(l, type, text, bytes, path, n, options, values);
    free(text);
    return r;
}
CU_API cu_result cuLinkComplete(struct cu_link *l, void **out, size_t *bytes) {
    if (!l || !l->data || !out)
        return CUE_ERROR_INVALID_VALUE;
    *out = l->data;
    if (bytes)
        *bytes = l->bytes;
    return CUE_SUCCESS;
}
CU_API cu_result cuLinkDestroy(struct cu_link *l) {
    if (l)
        free(l->data);
    free(l);
    return l ? CUE_SUCCESS : CUE_ERROR_INVALID_HANDLE;
}
