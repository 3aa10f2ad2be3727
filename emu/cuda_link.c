/* cuda_link.c: the driver's linker.  What cuLinkComplete gives, to be loaded as a module, is the
 * one input as it is, or the PTX of several as one text (ptx_link.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include "ptx_link.h"
#include <stdlib.h>
#include <string.h>

enum { INPUT_CUBIN, INPUT_PTX, INPUT_FATBIN };

enum { INPUTS = 64 };

struct cu_link {
    char *data[INPUTS]; /* with a zero behind it */
    size_t bytes[INPUTS], n;
    char *linked;
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
    if (l->n == INPUTS)
        return CUE_ERROR_NOT_SUPPORTED;
    char *copy = calloc(1, bytes + 1);
    if (!copy)
        return CUE_ERROR_OUT_OF_MEMORY;
    l->data[l->n] = memcpy(copy, data, bytes);
    l->bytes[l->n++] = bytes;
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
static cu_result join(struct cu_link *l) {
    char *unpacked[INPUTS] = {NULL}, why[300] = "no PTX for this part in an input";
    const char *text[INPUTS];
    bool whole = true;
    for (size_t k = 0; k < l->n; k++) {
        if (cu_is_fatbin(l->data[k]))
            unpacked[k] = cu_fatbin_ptx(l->data[k], cu_target_fits);
        text[k] = cu_is_fatbin(l->data[k]) ? unpacked[k] : l->data[k];
        whole = whole && text[k];
    }
    l->linked = whole ? ptx_link(text, l->n, why, sizeof why) : NULL;
    for (size_t k = 0; k < l->n; k++)
        free(unpacked[k]);
    if (!l->linked)
        fprintf(stderr, "emu: cuLinkComplete: %s\n", why);
    return l->linked ? CUE_SUCCESS : CUE_ERROR_INVALID_PTX;
}
CU_API cu_result cuLinkComplete(struct cu_link *l, void **out, size_t *bytes) {
    if (!l || !l->n || !out)
        return CUE_ERROR_INVALID_VALUE;
    cu_result r = l->n > 1 && !l->linked ? join(l) : CUE_SUCCESS;
    if (r)
        return r;
    *out = l->linked ? l->linked : l->data[0];
    if (bytes)
        *bytes = l->linked ? strlen(l->linked) + 1 : l->bytes[0];
    return CUE_SUCCESS;
}
CU_API cu_result cuLinkDestroy(struct cu_link *l) {
    for (size_t k = 0; l && k < l->n; k++)
        free(l->data[k]);
    if (l)
        free(l->linked);
    free(l);
    return l ? CUE_SUCCESS : CUE_ERROR_INVALID_HANDLE;
}
