/* SPDX-License-Identifier: Apache-2.0
 * The table of kernels: instances.def read three times, for the images, the rows, the helpers. */
#include "kernels.h"
#include "shape.h"

#include "images.h" /* made by part.mk: GQA_HAS_<name>: 1, PTX (no cubin) or 0 */

/* The assembler embeds what it is told at this address; the symbols are ours alone. */
#define EMBED_1(name)                                                                              \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 16\n" #name "_cubin:\n.incbin \"" GQA_IMAGES "/" #name ".cubin\"\n" #name     \
            "_cubin_end:\n.balign 16\n" #name "_ptx:\n.incbin \"" GQA_IMAGES "/" #name             \
            ".ptx\"\n" #name "_ptx_end:\n.byte 0\n.previous\n");
#define EMBED_0(name)                                                                              \
    __asm__(".section .rodata\n" #name "_cubin:\n" #name "_cubin_end:\n" #name "_ptx:\n" #name     \
            "_ptx_end:\n.byte 0\n.previous\n");
#define EMBED_PTX(name)                                                                            \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 16\n" #name "_cubin:\n" #name "_cubin_end:\n" #name                           \
            "_ptx:\n.incbin \"" GQA_IMAGES "/" #name ".ptx\"\n" #name                              \
            "_ptx_end:\n.byte 0\n.previous\n");
#define EMBED_IF(has, name)  EMBED_##has(name)
#define EMBED_HAS(has, name) EMBED_IF(has, name)
#define EMBED(name)                                                                                \
    EMBED_HAS(GQA_HAS_##name, name)                                                                \
    extern const unsigned char name##_cubin[], name##_cubin_end[];                                 \
    extern const char name##_ptx[], name##_ptx_end[];
#define IMAGE(name)                                                                                \
    { name##_cubin, name##_cubin_end, name##_ptx, name##_ptx_end }

#define GQA_INSTANCE(arch, kv, head_dim, group)                                                    \
    EMBED(gqa_decode_##arch##_##kv##_d##head_dim##_g##group)
#define GQA_TRACED(arch, kv, head_dim, group)                                                      \
    EMBED(gqa_decode_##arch##_##kv##_d##head_dim##_g##group##_trace)
#define GQA_HELPERS(arch)        EMBED(gqa_helpers_##arch)
#define GQA_TRACED_HELPERS(arch) EMBED(gqa_helpers_##arch##_trace)
#include "instances.def"
#undef GQA_INSTANCE
#undef GQA_TRACED
#undef GQA_HELPERS
#undef GQA_TRACED_HELPERS

/* clang-format off */
#define TYPE_bf16 GQA_BF16
#define TYPE_f16  GQA_F16
#define TYPE_e4m3 GQA_E4M3
#define TYPE_e5m2 GQA_E5M2
#define BYTES_bf16 2
#define BYTES_f16  2
#define BYTES_e4m3 1
#define BYTES_e5m2 1

#define ROW(name, arch, kv, d, g, records)                                                         \
    {#name, KERNEL_##arch, TYPE_##kv, d, g, GQA_WARPS_##arch(BYTES_##kv, d, g),                     \
     GQA_SMEM_##arch(BYTES_##kv, d, g), records, IMAGE(name)},

const struct kernel_row kernel_rows[] = {
#define GQA_INSTANCE(arch, kv, d, g) ROW(gqa_decode_##arch##_##kv##_d##d##_g##g, arch, kv, d, g, 0)
#define GQA_TRACED(arch, kv, d, g)                                                                 \
    ROW(gqa_decode_##arch##_##kv##_d##d##_g##g##_trace, arch, kv, d, g, 1)
#define GQA_HELPERS(arch)
#define GQA_TRACED_HELPERS(arch)
#include "instances.def"
#undef GQA_INSTANCE
#undef GQA_TRACED
#undef GQA_HELPERS
#undef GQA_TRACED_HELPERS
};
const int kernel_row_count = sizeof kernel_rows / sizeof *kernel_rows;

const struct helper_row helper_rows[] = {
#define GQA_INSTANCE(arch, kv, d, g)
#define GQA_TRACED(arch, kv, d, g)
#define GQA_HELPERS(arch)        {KERNEL_##arch, 0, IMAGE(gqa_helpers_##arch)},
#define GQA_TRACED_HELPERS(arch) {KERNEL_##arch, 1, IMAGE(gqa_helpers_##arch##_trace)},
#include "instances.def"
#undef GQA_INSTANCE
#undef GQA_TRACED
#undef GQA_HELPERS
#undef GQA_TRACED_HELPERS
};
/* clang-format on */
const int helper_row_count = sizeof helper_rows / sizeof *helper_rows;
