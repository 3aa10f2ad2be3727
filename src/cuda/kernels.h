/* SPDX-License-Identifier: Apache-2.0
 * The table of kernels, one row per line of instances.def: plain data for the planner, and the
 * images that the build embedded. Rows exist where no image was built. */
#ifndef GQA_CUDA_KERNELS_H
#define GQA_CUDA_KERNELS_H

#include "gqa.h"

#include <stddef.h>

/* Families of kernels, by the file they come from. */
enum kernel_arch {
    KERNEL_sm80,   /* decode_sm80.cu */
    KERNEL_sm90,   /* decode_sm90.cu */
    KERNEL_sm100,  /* decode_sm100.cu */
    KERNEL_sm100s, /* decode_sm100s.cu: only when asked for by name, as are those below */
    KERNEL_sm100d, /* decode_sm100d.cu */
    KERNEL_sm100o, /* decode_sm100o.cu */
    KERNEL_sm100u, /* decode_sm100u.cu */
    KERNEL_ARCHS
};

struct kernel_image {
    const unsigned char *cubin, *cubin_end; /* or several, as a fat binary; equal: not built */
    const char *ptx, *ptx_end;              /* likewise; NUL-terminated text */
};

struct kernel_row {
    const char *name;
    enum kernel_arch arch;
    enum gqa_type kv_type;
    int head_dim, group; /* widest head, query rows of a tile */
    int warps, smem_bytes;
    int records; /* events, if given a trace buffer; only when asked for by name */
    struct kernel_image image;
};

struct helper_row {
    enum kernel_arch arch;
    int records;
    struct kernel_image image; /* gqa_combine, gqa_merge, gqa_zero */
};

extern const struct kernel_row kernel_rows[];
extern const int kernel_row_count;
extern const struct helper_row helper_rows[];
extern const int helper_row_count;

#endif
