/* desc.c: see desc.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "desc.h"
#include "tensormap.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t field(uint64_t word, int low, int bits) {
    return (uint32_t)(word >> low & ((1ull << bits) - 1));
}

static void addresses(struct matrix_desc *d, uint64_t word) {
    *d = (struct matrix_desc){.start = field(word, 0, 14) << 4,
                              .lbo = field(word, 16, 14) << 4,
                              .sbo = field(word, 32, 14) << 4,
                              .base_offset = field(word, 49, 3)};
}

#define REFUSE(...)                                                                                \
    do {                                                                                           \
        snprintf(why, why_bytes, __VA_ARGS__);                                                     \
        return false;                                                                              \
    } while (0)

bool desc_decode_sm90(struct matrix_desc *d, uint64_t word, char *why, size_t why_bytes) {
    static const uint8_t swizzles[4] = {SWIZZLE_NONE, SWIZZLE_128B, SWIZZLE_64B, SWIZZLE_32B};
    addresses(d, word);
    if (field(word, 14, 2) || field(word, 30, 2) || field(word, 46, 3) || field(word, 52, 10))
        REFUSE("wgmma descriptor 0x%016" PRIx64 ": reserved bits are set (46 is set in sm_100a "
               "descriptors only)",
               word);
    d->swizzle = swizzles[field(word, 62, 2)];
    return true;
}

bool desc_decode_sm100(struct matrix_desc *d, uint64_t word, char *why, size_t why_bytes) {
    static const uint8_t swizzles[8] = {
        SWIZZLE_NONE, SWIZZLE_128B_ATOM_32B, SWIZZLE_128B, 0xff, SWIZZLE_64B,
        0xff,         SWIZZLE_32B,           0xff};
    addresses(d, word);
    if (field(word, 46, 3) != 1)
        REFUSE("tcgen05 descriptor 0x%016" PRIx64 ": bits 46-48 are %u, must be 1", word,
               field(word, 46, 3));
    if (field(word, 14, 2) || field(word, 30, 2) || field(word, 53, 8))
        REFUSE("tcgen05 descriptor 0x%016" PRIx64 ": reserved bits are set", word);
    if (swizzles[field(word, 61, 3)] == 0xff)
        REFUSE("tcgen05 descriptor 0x%016" PRIx64 ": swizzle mode %u does not exist", word,
               field(word, 61, 3));
    d->swizzle = swizzles[field(word, 61, 3)];
    d->absolute = field(word, 52, 1);
    if (d->absolute && (d->swizzle != SWIZZLE_128B || d->base_offset))
        REFUSE("tcgen05 descriptor 0x%016" PRIx64
               ": an absolute leading-dimension address (bit 52) wants the swizzle 128B and base "
               "offset 0",
               word);
    return true;
}

static uint32_t span_of(uint32_t swizzle) {
    return swizzle == SWIZZLE_NONE  ? 16
           : swizzle == SWIZZLE_32B ? 32
           : swizzle == SWIZZLE_64B ? 64
                                    : 128;
}

uint32_t desc_chunk(const struct matrix_desc *d, bool mn_major, uint32_t r, uint32_t c) {
    const uint32_t w = span_of(d->swizzle);
    const uint32_t group = mn_major && d->swizzle == SWIZZLE_128B_ATOM_32B ? 4 : 8;
    const uint32_t column = d->start % 128 / 16 + c;
    if (d->absolute && column >= 8)
        return swizzle_address(d->swizzle,
                               d->lbo + r / 8 * d->sbo + r % 8 * 128 + 16 * (column - 8));
    uint32_t a = d->start + r % group * w;
    if (d->swizzle == SWIZZLE_NONE)
        a += mn_major ? c * d->sbo + r / group * d->lbo : r / group * d->sbo + c * d->lbo;
    else
        a += r / group * d->sbo + (mn_major ? 16 * c / w * d->lbo + 16 * c % w : 16 * c);
    /* The pattern starts base_offset lines of 128 bytes before where its address says. */
    const uint32_t shift = d->base_offset * 128;
    return swizzle_address(d->swizzle, a - shift) + shift;
}

const char *view_refuse(const struct matrix_view *v) {
    const uint32_t per = span_of(v->desc.swizzle) / 16;
    if (v->mn_major && v->chunks == 0)
        return "an MN-major operand needs at least 16 bytes along M or N";
    if (!v->mn_major && v->desc.swizzle != SWIZZLE_NONE && v->chunks > per)
        return "a K-major operand is wider than its swizzle";
    if (v->mn_major && v->desc.absolute)
        return "an absolute leading-dimension address is for K-major operands";
    if (!v->mn_major && v->chunks == 3 && v->desc.swizzle != SWIZZLE_NONE && !v->desc.absolute &&
        v->desc.start / 16 % per + 3 > per)
        return "48 bytes of K pass the end of a line: an absolute leading-dimension address is due";
    if (v->mn_major && v->chunks % per && v->desc.swizzle != SWIZZLE_NONE)
        return "an MN-major operand must fill whole swizzle spans along M or N";
    return NULL;
}

void view_range(const struct matrix_view *v, uint32_t *lo, uint32_t *hi) {
    *lo = UINT32_MAX;
    *hi = 0;
    for (uint32_t r = 0; r < v->rows; r++)
        for (uint32_t c = 0; c < v->chunks; c++) {
            const uint32_t a = desc_chunk(&v->desc, v->mn_major, r, c);
            *lo = a < *lo ? a : *lo;
            *hi = a + 16 > *hi ? a + 16 : *hi;
        }
}

/* The hot loop: the row's address once, chunks a constant step apart where the layout allows. */
void view_gather(const struct matrix_view *v, const uint8_t *smem, uint8_t *out) {
    const struct matrix_desc *d = &v->desc;
    const uint32_t w = span_of(d->swizzle);
    const bool plain = d->swizzle != SWIZZLE_128B_ATOM_32B && !d->base_offset && !d->absolute;
    const bool inside = d->swizzle != SWIZZLE_NONE && (!v->mn_major || 16 * v->chunks <= w);
    if (!plain || !(inside || d->swizzle == SWIZZLE_NONE)) {
        for (uint32_t r = 0; r < v->rows; r++)
            for (uint32_t c = 0; c < v->chunks; c++, out += 16)
                memcpy(out, smem + desc_chunk(d, v->mn_major, r, c), 16);
        return;
    }
    const bool swapped = d->swizzle == SWIZZLE_NONE && v->mn_major; /* LBO and SBO change roles */
    const uint32_t group = swapped ? d->lbo : d->sbo;
    const uint32_t step = inside ? 16 : swapped ? d->sbo : d->lbo, mask = w - 16;
    for (uint32_t r = 0; r < v->rows; r++) {
        uint32_t a = d->start + r / 8 * group + r % 8 * w;
        for (uint32_t c = 0; c < v->chunks; c++, a += step, out += 16)
            memcpy(out, smem + (a ^ (a >> 3 & mask)), 16);
    }
}
