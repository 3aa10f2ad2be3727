/* SPDX-License-Identifier: Apache-2.0
 * A GPU's memory, or the emulator's, as case_memory: the few driver functions it takes, found by
 * dlopen. Nothing here is shared with the library's own seam. */
#ifndef MEMORY_CUDA_H
#define MEMORY_CUDA_H

#include "cases.h"

/* Open the memory of device `ordinal` of the driver library at `path`; NULL: the system's. Its
 * primary context becomes current. Returns false with why[160] set. *memory lives as long as the
 * process. */
bool case_memory_cuda(const char *path, int ordinal, struct case_memory *memory, char *why);

#endif
