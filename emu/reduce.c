/* reduce.c: see reduce.h.  PTX ISA: cp.reduce.async.bulk, cp.reduce.async.bulk.tensor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"
#include "num.h"
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes;
    bool tensor_add, tensor_minmax, bulk_add, bulk_minmax, logic;
} types[ELEM_TYPES] = {
    [ELEM_U8] = {"u8", 1, 0, 0, 0, 0, 0},
    [ELEM_U16] = {"u16", 2, 0, 0, 0, 0, 0},
    [ELEM_U32] = {"u32", 4, 1, 1, 1, 1, 1},
    [ELEM_S32] = {"s32", 4, 1, 1, 1, 1, 1},
    [ELEM_U64] = {"u64", 8, 1, 1, 1, 1, 1},
    [ELEM_S64] = {"s64", 8, 0, 1, 0, 1, 1},
    [ELEM_F16] = {"f16", 2, 1, 1, 1, 1, 0},
    [ELEM_F32] = {"f32", 4, 1, 0, 1, 0, 0},
    [ELEM_F64] = {"f64", 8, 0, 0, 1, 0, 0},
    [ELEM_BF16] = {"bf16", 2, 1, 1, 1, 1, 0},
    [ELEM_F32_FTZ] = {"f32.ftz", 4, 1, 0, 0, 0, 0},
    [ELEM_TF32] = {"tf32", 4, 0, 0, 0, 0, 0},
    [ELEM_TF32_FTZ] = {"tf32.ftz", 4, 0, 0, 0, 0, 0},
    [ELEM_B4X16] = {"b4x16", 0, 0, 0, 0, 0, 0},
    [ELEM_B4X16_P64] = {"b4x16_p64", 0, 0, 0, 0, 0, 0},
    [ELEM_B6X16_P32] = {"b6x16_p32", 0, 0, 0, 0, 0, 0},
};
static const char *const ops[REDUCE_OPS] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

uint32_t elem_bytes(enum elem_type t) {
    return types[t].bytes;
}
uint32_t elem_bits(enum elem_type t) {
    return t == ELEM_B6X16_P32 ? 6 : t >= ELEM_B4X16 ? 4 : 8u * types[t].bytes;
}
const char *elem_name(enum elem_type t) {
    return types[t].name;
}
const char *reduce_name(enum reduce_op op) {
    return ops[op];
}

const char *reduce_refuse(enum elem_type t, enum reduce_op op, bool tensor) {
    switch (op) {
    case REDUCE_ADD:
        return (tensor ? types[t].tensor_add : types[t].bulk_add)
                   ? NULL
                   : "add exists for u32, s32, u64, f32, f16 and bf16 (and f64 without a tensor "
                     "map)";
    case REDUCE_MIN:
    case REDUCE_MAX:
        return (tensor ? types[t].tensor_minmax : types[t].bulk_minmax)
                   ? NULL
                   : "min and max exist for u32, s32, u64, s64, f16 and bf16";
    case REDUCE_INC:
    case REDUCE_DEC:
        return t == ELEM_U32 ? NULL : "inc and dec exist for u32 only";
    default:
        return types[t].logic ? NULL : "and, or and xor exist for 32- and 64-bit integers only";
    }
}

static uint64_t integer(enum elem_type t, enum reduce_op op, uint64_t a, uint64_t b) {
    const bool is_signed = t == ELEM_S32 || t == ELEM_S64;
    if (t == ELEM_S32) {
        a = (uint64_t)(int64_t)(int32_t)a;
        b = (uint64_t)(int64_t)(int32_t)b;
    }
    const bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case REDUCE_ADD:
        return a + b;
    case REDUCE_MIN:
        return less ? a : b;
    case REDUCE_MAX:
        return less ? b : a;
    case REDUCE_INC:
        return a >= b ? 0 : a + 1;
    case REDUCE_DEC:
        return a == 0 || a > b ? b : a - 1;
    case REDUCE_AND:
        return a & b;
    case REDUCE_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static uint32_t half(enum num_fmt f, enum reduce_op op, uint32_t a, uint32_t b) {
    if (op == REDUCE_ADD)
        return num_add_code(f, a, b, 0);
    const float x = num_to_f32(f, a), y = num_to_f32(f, b);
    const float v = op == REDUCE_MIN ? num_min(x, y, false, false) : num_max(x, y, false, false);
    return num_from_f64(f, (double)v, NUM_RN, 0);
}

static void one(enum elem_type t, enum reduce_op op, uint8_t *dst, const uint8_t *src) {
    uint64_t a = 0, b = 0;
    const uint32_t n = types[t].bytes;
    memcpy(&a, dst, n);
    memcpy(&b, src, n);
    uint64_t v;
    if (t == ELEM_F16 || t == ELEM_BF16)
        v = half(t == ELEM_F16 ? NUM_F16 : NUM_BF16, op, (uint32_t)a, (uint32_t)b);
    else if (t == ELEM_F32 || t == ELEM_F32_FTZ) /* an H200 keeps subnormals of plain f32 maps */
        v = num_bits32(num_add(num_float((uint32_t)a), num_float((uint32_t)b), NUM_RN,
                               t == ELEM_F32 ? 0 : NUM_FTZ));
    else if (t == ELEM_F64)
        v = num_bits64(num_canon64(num_double(a) + num_double(b)));
    else
        v = integer(t, op, a, b);
    memcpy(dst, &v, n);
}

void reduce_elements(enum elem_type t, enum reduce_op op, void *dst, const void *src,
                     size_t bytes) {
    const uint32_t n = types[t].bytes;
    if (!n || (reduce_refuse(t, op, false) && reduce_refuse(t, op, true)))
        return; /* callers ask reduce_refuse first */
    for (size_t i = 0; i + n <= bytes; i += n)
        one(t, op, (uint8_t *)dst + i, (const uint8_t *)src + i);
}
