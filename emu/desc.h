/* desc.h: shared-memory matrix descriptors (wgmma and tcgen05) and the addresses they mean.
 *
 * A matrix is read in chunks of 16 bytes.  K-major: chunk (r, c) holds bytes 16c.. of row r, along
 * K.  MN-major: chunk (r, c) holds bytes 16c.. along M or N of k index r.  Before the swizzle the
 * address is, with S the start and W the swizzle span (32, 64, 128):
 *
 *   K-major,  none       S + (r/8) SBO + (r%8) 16 + c LBO
 *   K-major,  swizzled   S + (r/8) SBO + (r%8) W + 16 c              (LBO unused)
 *   MN-major, none       S + c SBO + (r/8) LBO + (r%8) 16
 *   MN-major, swizzled   S + (16c/W) LBO + (r/8) SBO + (r%8) W + 16c%W
 *   MN-major, 128B with 32-byte atoms: as swizzled, groups of 4 k instead of 8
 *
 * and the swizzle XORs bits of that absolute address, as the tensor copies do.  With an absolute
 * leading-dimension address (sm_103a, 48 bytes of K) a chunk that would pass the end of its line of
 * 128 bytes lies at the beginning of the line there instead.  PTX ISA: Shared Memory Descriptor,
 * Leading Dimension Stride, Canonical Layouts (tcgen05); Matrix Descriptor (wgmma).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_DESC_H
#define EMU_DESC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct matrix_desc {
    uint32_t start, lbo, sbo; /* bytes */
    uint32_t swizzle;         /* enum tensormap_swizzle: NONE, 32B, 64B, 128B, 128B_ATOM_32B */
    uint32_t base_offset;
    bool absolute; /* lbo is the address where K goes on, see above */
};

/* False: `why` names the field.  sm_90a (wgmma) and sm_100a (tcgen05) words differ. */
bool desc_decode_sm90(struct matrix_desc *d, uint64_t word, char *why, size_t why_bytes);
bool desc_decode_sm100(struct matrix_desc *d, uint64_t word, char *why, size_t why_bytes);

/* Absolute shared address of chunk (r, c). */
uint32_t desc_chunk(const struct matrix_desc *d, bool mn_major, uint32_t r, uint32_t c);

/* A matrix seen through a descriptor: rows by chunks. */
struct matrix_view {
    struct matrix_desc desc;
    bool mn_major;
    uint32_t rows,
        chunks; /* K-major: M or N rows, chunks along K; MN-major: k rows, chunks along MN */
};
/* NULL, or why the shape cannot lie in this layout. */
const char *view_refuse(const struct matrix_view *v);
/* Lowest and highest byte (exclusive) of shared memory that the matrix occupies. */
void view_range(const struct matrix_view *v, uint32_t *lo, uint32_t *hi);
/* Copies the chunks, row by row, to out: rows * chunks * 16 bytes.  smem: address 0. */
void view_gather(const struct matrix_view *v, const uint8_t *smem, uint8_t *out);

#endif
