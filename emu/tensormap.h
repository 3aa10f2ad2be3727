/* tensormap.h: tensor maps and the boxes that the bulk tensor copies move.
 *
 * The driver's CUtensorMap is opaque, 128 bytes; here it holds our own encoding with a magic word
 * and a check sum, so that a kernel that hands over something else, or a torn copy, is told so.
 * Descriptors in the hardware's layout, which some host code writes by itself, are understood too.
 * Tiled mode, rank 1 to 5, the four-row modes tile::gather4 and tile::scatter4, and im2col. Refused
 * with a sentence: im2col::w, interleaved layouts, the 96-byte swizzle.
 *
 * A box is a list of rows along dimension 0, slowest dimension last, each cut into chunks of 16
 * bytes.  Memory is moved chunk by chunk or row by row, in any order, so that a caller can complete
 * a copy as slowly and as wildly as it likes.
 *
 * A chunk of the packed types holds 16 elements in 8 (b4x16_p64) or 12 bytes (b6x16_p32) of global
 * memory, or 32 in 16 (b4x16).  In im2col mode a row is the channels of one pixel.
 *
 *   row pitch in shared memory: inner-box bytes, or the swizzle span (32, 64, 128) when swizzled
 *   chunk address: pitch * row + 16 * chunk + base, then XOR of *absolute* shared address bits
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_TENSORMAP_H
#define EMU_TENSORMAP_H

#include "reduce.h"

enum { TENSORMAP_BYTES = 128, TENSORMAP_HW_BYTES = 64, TENSORMAP_RANK = 5 };

/* Values of the driver's enums. */
enum tensormap_swizzle {
    SWIZZLE_NONE,
    SWIZZLE_32B,
    SWIZZLE_64B,
    SWIZZLE_128B,
    SWIZZLE_128B_ATOM_32B,
    SWIZZLE_128B_ATOM_32B_FLIP_8B,
    SWIZZLE_128B_ATOM_64B,
    SWIZZLES
};

struct tensormap {
    uint64_t address;
    uint64_t dim[TENSORMAP_RANK];    /* elements */
    uint64_t stride[TENSORMAP_RANK]; /* bytes; [0] is the size of an element, 0 of a packed one */
    uint32_t box[TENSORMAP_RANK];    /* elements to traverse */
    uint32_t step[TENSORMAP_RANK];   /* element strides */
    uint32_t rank;
    enum elem_type type;
    uint32_t interleave, swizzle, l2, fill; /* driver enums; fill 1: NaN */
    bool im2col;                            /* box[0]: channels, pixels: rows */
    uint32_t pixels;
    int32_t lower[3], upper[3]; /* corners of the bounding box: W, H, D */
};

/* Arguments of cuTensorMapEncodeTiled. */
struct tensormap_args {
    uint32_t type, rank;
    uint64_t address;
    const uint64_t *dims;          /* [rank] */
    const uint64_t *strides;       /* [rank - 1], bytes */
    const uint32_t *box;           /* [rank] */
    const uint32_t *element_steps; /* [rank] */
    uint32_t interleave, swizzle, l2, fill;
};

/* Arguments of cuTensorMapEncodeIm2col that differ: rank - 2 corners, innermost (W) first. */
struct tensormap_im2col {
    const int *lower, *upper;
    uint32_t channels, pixels;
};

/* Checks every documented rule; false: `why` says which one, with the numbers. */
bool tensormap_encode(void *map, const struct tensormap_args *a, char *why, size_t why_bytes);
/* The same for im2col (a->box is not used). */
bool tensormap_encode_im2col(void *map, const struct tensormap_args *a,
                             const struct tensormap_im2col *im, char *why, size_t why_bytes);
/* The map behind 128 bytes that tensormap_encode wrote, or that the hardware would take. */
bool tensormap_decode(struct tensormap *m, const void *map, char *why, size_t why_bytes);
/* The hardware's layout (tensormap_hw.c), 64 bytes; false: it is not, or cannot be, in it. */
bool tensormap_hw_decode(struct tensormap *m, const void *map, char *why, size_t why_bytes);
bool tensormap_hw_encode(void *map, const struct tensormap *m);
/* How many of the 128 bytes mean something. */
uint32_t tensormap_bytes(const void *map);
/* Rewrites an encoded map's address (cuTensorMapReplaceAddress). */
bool tensormap_replace_address(void *map, uint64_t address, char *why, size_t why_bytes);

/* tensormap.replace: field as PTX numbers its values, ord where the field is an array.  The map is
 * an encoded one or 128 bytes of zeros. */
enum tensormap_field {
    FIELD_ADDRESS,
    FIELD_RANK,
    FIELD_BOX_DIM,
    FIELD_GLOBAL_DIM,
    FIELD_GLOBAL_STRIDE,
    FIELD_ELEMENT_STRIDE,
    FIELD_ELEMTYPE,
    FIELD_INTERLEAVE,
    FIELD_SWIZZLE,
    FIELD_ATOMICITY,
    FIELD_FILL
};
bool tensormap_replace(void *map, enum tensormap_field f, uint32_t ord, uint64_t value, char *why,
                       size_t why_bytes);

/* Absolute shared address after the swizzle; all modes but FLIP_8B move whole 16-byte chunks. */
uint32_t swizzle_address(uint32_t swizzle, uint32_t address);

/* --- Copies --- */

enum tensormap_mode {
    TENSORMAP_TILE,
    TENSORMAP_FOUR_ROWS, /* gather4, scatter4 */
    TENSORMAP_IM2COL
};

struct tensormap_copy {
    struct tensormap map;
    enum tensormap_mode mode;
    int32_t coord[TENSORMAP_RANK]; /* innermost first; four rows: column, then four rows */
    uint32_t offset[3];            /* im2col: W, H, D */
    uint32_t smem;                 /* shared address of the box */
    /* filled by tensormap_prepare */
    uint32_t count[TENSORMAP_RANK];  /* elements moved along each dimension */
    uint32_t rows, row_bytes, pitch; /* bytes of shared memory */
    uint32_t chunk_bytes;            /* of global memory in a chunk: 16, 8 or 12 */
    uint32_t chunks;                 /* of all rows */
    uint32_t bytes;                  /* what complete_tx counts: without padding */
    uint32_t span; /* bytes of shared memory from smem to the end of the last row */
};

/* Sets the derived fields; false: `why` names the broken rule (alignment of smem, a negative store
 * coordinate, a mode that the direction lacks, rank against `coords` given). */
bool tensormap_prepare(struct tensormap_copy *c, uint32_t coords, bool to_global, char *why,
                       size_t why_bytes);

/* One 16-byte chunk: bytes [from, to) of its chunk_bytes lie inside the tensor, at global +
 * from...; the rest is fill (loads) or not written (stores). */
struct tensormap_chunk {
    uint64_t global;
    uint32_t smem; /* absolute, swizzled, 16-byte aligned */
    uint8_t from, to;
    bool flip; /* the two 8-byte halves change places in shared memory */
};

void tensormap_chunk(const struct tensormap_copy *c, uint32_t index, struct tensormap_chunk *out);

/* In-bounds part of a row: `bytes` at `global`, `skip` bytes into the row, all of global memory;
 * bytes 0: all outside. */
struct tensormap_row {
    uint64_t global;
    uint32_t skip, bytes;
};
void tensormap_row(const struct tensormap_copy *c, uint32_t row, struct tensormap_row *out);

/* Moves chunks [first, first + n).  `smem` is the start of the shared window (address 0); global
 * addresses are host pointers.  Bounds are the caller's business (tensormap_row). */
void tensormap_load(const struct tensormap_copy *c, uint8_t *smem, uint32_t first, uint32_t n);
void tensormap_store(const struct tensormap_copy *c, const uint8_t *smem, uint32_t first,
                     uint32_t n);
void tensormap_reduce(const struct tensormap_copy *c, enum reduce_op op, const uint8_t *smem,
                      uint32_t first, uint32_t n);

#endif
