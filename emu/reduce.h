/* reduce.h: element-wise reductions of the bulk copies (cp.reduce.async.bulk and its tensor form).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_REDUCE_H
#define EMU_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum elem_type { /* in the order of CUtensorMapDataType */
                 ELEM_U8,
                 ELEM_U16,
                 ELEM_U32,
                 ELEM_S32,
                 ELEM_U64,
                 ELEM_S64,
                 ELEM_F16,
                 ELEM_F32,
                 ELEM_F64,
                 ELEM_BF16,
                 ELEM_F32_FTZ,
                 ELEM_TF32,
                 ELEM_TF32_FTZ,
                 ELEM_B4X16,     /* 16U4_ALIGN8B */
                 ELEM_B4X16_P64, /* 16U4_ALIGN16B */
                 ELEM_B6X16_P32, /* 16U6_ALIGN16B */
                 ELEM_TYPES
};

enum reduce_op {
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_INC,
    REDUCE_DEC,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR,
    REDUCE_OPS
};

uint32_t elem_bytes(enum elem_type t); /* 0 for the packed types */
uint32_t elem_bits(enum elem_type t);  /* in global memory */
const char *elem_name(enum elem_type t);
const char *reduce_name(enum reduce_op op);

/* NULL, or why the combination does not exist.  tensor: the table of the tensor form, whose element
 * type comes from the map; otherwise that of cp.reduce.async.bulk to global memory. */
const char *reduce_refuse(enum elem_type t, enum reduce_op op, bool tensor);

/* dst[i] = dst[i] op src[i] over `bytes` bytes.  f32 addition flushes subnormals, f16 and bf16 do
 * not; all round to nearest even.  Both sides may be unaligned here: alignment is the caller's
 * check. */
void reduce_elements(enum elem_type t, enum reduce_op op, void *dst, const void *src, size_t bytes);

#endif
