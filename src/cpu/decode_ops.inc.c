/* SPDX-License-Identifier: Apache-2.0
 * The functions of a kernel for every type of K and V, as the table OPS_NAME. */

#define OPS(name, TYPE)                                                                            \
    static void name##_prepare(float *q, const void *row, enum gqa_type type, int head_dim) {      \
        prepare_row(TYPE, q, row, type, head_dim);                                                 \
    }                                                                                              \
    static void name##_block(const struct cpu_block *b) {                                          \
        block_of(TYPE, b);                                                                         \
    }                                                                                              \
    static void name##_unpack(float *o, const float *acc, float factor, int head_dim_v) {          \
        unpack_row(TYPE, o, acc, factor, head_dim_v);                                              \
    }

OPS(f32, GQA_F32)
OPS(bf16, GQA_BF16)
OPS(f16, GQA_F16)
OPS(e4m3, GQA_E4M3)
OPS(e5m2, GQA_E5M2)

const struct cpu_ops OPS_NAME[] = {
    [GQA_F32] = {.gain = 1, .prepare = f32_prepare, .block = f32_block, .unpack = f32_unpack},
    [GQA_BF16] = {.gain = 1, .prepare = bf16_prepare, .block = bf16_block, .unpack = bf16_unpack},
    [GQA_F16] = {.gain = 1, .prepare = f16_prepare, .block = f16_block, .unpack = f16_unpack},
    [GQA_E4M3] = {.gain = 256, .prepare = e4m3_prepare, .block = e4m3_block, .unpack = e4m3_unpack},
    [GQA_E5M2] = {.gain = 1, .prepare = e5m2_prepare, .block = e5m2_block, .unpack = e5m2_unpack},
};
