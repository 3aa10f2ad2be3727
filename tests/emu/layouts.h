/* layouts.h: the canonical shared-memory layouts of the PTX ISA, in its own notation: strides in
 * elements, Swizzle<B,M,S> on bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EMU_LAYOUTS_H
#define TESTS_EMU_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>

struct layout {
    const char *name;
    uint32_t code;   /* tcgen05 descriptor, bits 61-63 */
    uint32_t code90; /* wgmma descriptor, bits 62-63 */
    int b, shift;    /* Swizzle<b, M, shift>; M below */
    int base;        /* bits that stay: 4, or 5 with 32-byte atoms */
    uint32_t span;   /* bytes of the swizzle, 16 for none */
};
__attribute__((unused)) static const struct layout layouts[] = {
    {"none", 0, 0, 0, 3, 4, 16},
    {"32B", 6, 3, 1, 3, 4, 32},
    {"64B", 4, 2, 2, 3, 4, 64},
    {"128B", 2, 1, 3, 3, 4, 128},
    {"128B/32B atom", 1, 9, 2, 2, 5, 128},
};

static inline uint32_t layout_swizzle(const struct layout *l, uint32_t x) {
    const uint32_t mask = ((1u << l->b) - 1) << (l->base + l->shift);
    return x ^ ((x & mask) >> l->shift);
}

/* Byte address of element (mn, k). */
static inline uint32_t layout_address(const struct layout *l, bool mn_major, uint32_t start,
                                      uint32_t lbo, uint32_t sbo, uint32_t mn, uint32_t k,
                                      uint32_t elem) {
    const uint32_t T = 16 / elem,
                   U = l->span / 16; /* elements of 16 bytes; 16-byte units of the span */
    uint32_t e;                      /* offset in elements, and LBO, SBO in elements */
    const uint32_t L = lbo / elem, S = sbo / elem;
    if (!mn_major) /* ((8,m),(T,2k)) : ((U*T,SBO),(1,LBO or T)) */
        e = mn % 8 * U * T + mn / 8 * S + k % T + k / T * (l->span == 16 ? L : T);
    else if (l->span == 16) /* ((T,1,m),(8,k)) : ((1,T,SBO),(T,LBO)) */
        e = mn % T + mn / T * S + k % 8 * T + k / 8 * L;
    else { /* ((T,U,m),(8,k)) : ((1,T,LBO),(U*T,SBO)); 4 in place of 8 with 32-byte atoms */
        const uint32_t g = l->base == 5 ? 4 : 8;
        e = mn % T + mn / T % U * T + mn / (T * U) * L + k % g * U * T + k / g * S;
    }
    return layout_swizzle(l, start + e * elem);
}

/* LBO and SBO that leave holes, so that a mixed-up stride is seen. */
static inline void layout_strides(const struct layout *l, bool mn, uint32_t rows, uint32_t elem,
                                  uint32_t *lbo, uint32_t *sbo) {
    if (!mn) {
        *sbo = 8 * l->span + (l->span == 16 ? 64 : l->span * 8);
        *lbo = l->span == 16 ? (rows / 8 + 1) * *sbo : 16;
    } else if (l->span == 16) {
        *lbo = 128 + 32;
        *sbo = 4 * *lbo + 48;
    } else {
        const uint32_t group = (l->base == 5 ? 4 : 8) * l->span;
        *sbo = group + 1024;
        *lbo = (32 / elem) / (l->base == 5 ? 4 : 8) * *sbo + 2048;
    }
}

#endif
