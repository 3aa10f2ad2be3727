/* tensormap_hw.c: tensor maps in the layout of the hardware.
 *
 * Host code that the CuTe DSL compiles does not ask the driver for a tensor map: it writes the
 * descriptor itself.  No document gives the layout; this one was found by having the DSL encode
 * known shapes, one field changed at a time (tests/emu/test_tensormap_hw.c has them).  Words of 32
 * bits; the second 64 bytes mean nothing:
 *
 *   0-1    address
 *   2      see below
 *   3-6    strides / 16 of dimensions 1 to 4
 *   7      their bits 32 to 35, four each
 *   8-12   sizes less one
 *   13     element strides less one, three bits each; the top byte: box of dimension 0 less one
 *   14     boxes of dimensions 1 to 4 less one; im2col: corners, lower and upper half,
 *          16, 8 or 5 bits each for rank 3, 4, 5
 *   15     0; im2col: pixels less one
 *
 *   word 2: bit 0 im2col, bit 1 set, 4-6 rank less one, 7-10 type, 13-14 swizzle, 16 f32 becomes
 *   tf32, 17-18 L2 promotion, 19-20 swizzle atomicity, 21 set where a tensor has 128 KiB or more.
 *   Nothing sets the others here (interleave, fill and more): they are refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensormap.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KNOWN = 0x3f67f3, FIXED = 1u << 1, IM2COL = 1, TO_TF32 = 1u << 16, NO_TYPE = ELEM_TYPES };

static const uint8_t type_of_hw[16] = {ELEM_U8,        ELEM_U16,       ELEM_U32,  ELEM_S32,
                                       ELEM_U64,       ELEM_S64,       ELEM_F16,  ELEM_F32,
                                       ELEM_F32_FTZ,   ELEM_F64,       ELEM_BF16, ELEM_B4X16,
                                       ELEM_B4X16_P64, ELEM_B6X16_P32, NO_TYPE,   NO_TYPE};

static uint32_t bits(uint32_t word, uint32_t at, uint32_t n) {
    return word >> at & ((1u << n) - 1);
}

/* Bits that no field has; what lies past the rank may be anything. */
static bool rest_is_zero(const uint32_t *w) {
    return !(w[7] >> 16 | bits(w[13], 15, 9) | (w[2] & IM2COL ? w[15] >> 10 : w[15]));
}

/* Signed corners, W first; `half` has those of the lower or of the upper side. */
static void corners(int32_t *out, uint32_t half, uint32_t rank) {
    const uint32_t n = rank == 3 ? 16 : rank == 4 ? 8 : 5;
    for (uint32_t i = 0; i + 2 < rank; i++)
        out[i] = (int32_t)(bits(half, n * i, n) << (32 - n)) >> (32 - n);
}

static void decode_boxes(struct tensormap *m, const uint32_t *w) {
    m->box[0] = (w[13] >> 24) + 1;
    for (uint32_t i = 1; i < TENSORMAP_RANK; i++)
        m->box[i] = m->im2col ? 1 : bits(w[14], 8 * (i - 1), 8) + 1;
    if (m->im2col) {
        m->pixels = w[15] + 1;
        corners(m->lower, w[14] & 0xffff, m->rank);
        corners(m->upper, w[14] >> 16, m->rank);
    }
}

bool tensormap_hw_decode(struct tensormap *m, const void *map, char *why, size_t why_bytes) {
    uint32_t w[16];
    memcpy(w, map, sizeof w);
    const uint32_t flags = w[2], rank = bits(flags, 4, 3) + 1, swizzle = bits(flags, 13, 2);
    const uint32_t atom = bits(flags, 19, 2), type = type_of_hw[bits(flags, 7, 4)];
    const bool rounds = flags & TO_TF32;
    if (flags & ~(uint32_t)KNOWN || !(flags & FIXED) || rank > TENSORMAP_RANK ||
        ((flags & IM2COL) && rank < 3) || (atom && swizzle != SWIZZLE_128B) || type == NO_TYPE ||
        (rounds && type != ELEM_F32) || !rest_is_zero(w)) {
        snprintf(
            why, why_bytes,
            "these 128 bytes are not a tensor map of this emulator's cuTensorMapEncodeTiled, "
            "nor one in the hardware's layout as far as it is known (words 0, 1, 2, 7, 13, 15: "
            "0x%08" PRIx32 " 0x%08" PRIx32 " 0x%08" PRIx32 " 0x%08" PRIx32 " 0x%08" PRIx32
            " 0x%08" PRIx32 ")",
            w[0], w[1], flags, w[7], w[13], w[15]);
        return false;
    }
    *m = (struct tensormap){.address = w[0] | (uint64_t)w[1] << 32,
                            .rank = rank,
                            .type = rounds ? ELEM_TF32 : (enum elem_type)type,
                            .swizzle = swizzle + atom,
                            .l2 = bits(flags, 17, 2),
                            .im2col = flags & IM2COL};
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++) {
        m->dim[i] = (uint64_t)w[8 + i] + 1;
        m->step[i] = i ? bits(w[13], 3 * i, 3) + 1 : 1;
        m->stride[i] =
            i ? (w[2 + i] | (uint64_t)bits(w[7], 4 * (i - 1), 4) << 32) << 4 : elem_bytes(m->type);
    }
    decode_boxes(m, w);
    return true;
}

/* --- Back --- */

static bool hw_type(enum elem_type type, uint32_t *out) {
    for (*out = 0; *out < 16; ++*out)
        if (type_of_hw[*out] == (type == ELEM_TF32 ? ELEM_F32 : type))
            return true;
    return false;
}

static uint32_t corner_bits(const int32_t *in, uint32_t rank) {
    const uint32_t n = rank == 3 ? 16 : rank == 4 ? 8 : 5;
    uint32_t half = 0;
    for (uint32_t i = 0; i + 2 < rank; i++)
        half |= bits((uint32_t)in[i], 0, n) << n * i;
    return half;
}

/* Values that their fields can hold. */
static bool fits(const struct tensormap *m) {
    bool good = !m->interleave && !m->fill && m->pixels <= 1024;
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++)
        good = good && m->box[i] - 1 < 256 && m->step[i] - 1 < 8 && m->dim[i] - 1 < 1ull << 32 &&
               (!i || (m->stride[i] % 16 == 0 && m->stride[i] < 1ull << 40));
    return good;
}

static uint32_t flags_of(const struct tensormap *m, uint32_t type) {
    const uint32_t atom = m->swizzle > SWIZZLE_128B ? m->swizzle - SWIZZLE_128B : 0;
    uint64_t bytes = m->dim[0] * elem_bits(m->type) / 8; /* along the slowest dimension */
    if (m->rank > 1)
        bytes = m->dim[m->rank - 1] * m->stride[m->rank - 1];
    return FIXED | (m->im2col ? IM2COL : 0) | (m->rank - 1) << 4 | type << 7 |
           (m->swizzle - atom) << 13 | (m->type == ELEM_TF32 ? TO_TF32 : 0) | m->l2 << 17 |
           atom << 19 | (bytes >= 1 << 17 ? 1u << 21 : 0);
}

bool tensormap_hw_encode(void *map, const struct tensormap *m) {
    uint32_t w[TENSORMAP_HW_BYTES / 4] = {(uint32_t)m->address, (uint32_t)(m->address >> 32)}, type;
    if (!fits(m) || !hw_type(m->type, &type))
        return false;
    w[2] = flags_of(m, type);
    w[8] = (uint32_t)(m->dim[0] - 1);
    w[13] = (m->box[0] - 1) << 24;
    for (uint32_t i = 1; i < TENSORMAP_RANK; i++) {
        w[2 + i] = (uint32_t)(m->stride[i] >> 4);
        w[7] |= (uint32_t)(m->stride[i] >> 36) << 4 * (i - 1);
        w[8 + i] = (uint32_t)(m->dim[i] - 1);
        w[13] |= (m->step[i] - 1) << 3 * i;
        w[14] |= (m->box[i] - 1) << 8 * (i - 1);
    }
    if (m->im2col) {
        w[14] = corner_bits(m->lower, m->rank) | corner_bits(m->upper, m->rank) << 16;
        w[15] = m->pixels - 1;
    }
    memcpy(map, w, sizeof w);
    return true;
}
