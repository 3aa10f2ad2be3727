/* tensormap.c: encoding and legality of tensor maps (see tensormap.h).
 *
 * Rules: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, Tensors and tensormap.replace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensormap.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0x3050414d52534e54ull /* "TNSRMAP0" */

/* The 128 bytes. Word 1 means nothing: of the maps of small tensors CUTLASS clears its bit 21, for
 * a driver of ours and older, since NVIDIA's encoding has there what a bug of that driver sets. */
struct stored {
    uint64_t magic, nothing, address, stride[4], sum;
    uint32_t dim_less_one[5];
    uint16_t box[5];
    uint8_t step[5], rank, type, interleave, swizzle, l2, fill, im2col;
    int16_t lower[3], upper[3];
    uint16_t pixels;
    uint8_t unused[8];
};
_Static_assert(sizeof(struct stored) == TENSORMAP_BYTES, "the driver's object has 128 bytes");

static bool refuse(char *why, size_t n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(char *why, size_t n, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    if (n)
        vsnprintf(why, n, format, ap);
    va_end(ap);
    return false;
}

static uint64_t sum_of(const struct stored *s) { /* FNV-1a over all but the sum */
    struct stored t = *s;
    t.sum = 0;
    uint64_t h = 0xcbf29ce484222325ull;
    const uint8_t *p = (const uint8_t *)&t;
    for (size_t i = 0; i < sizeof t; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

static uint32_t swizzle_span(uint32_t swizzle) {
    return swizzle == SWIZZLE_NONE  ? 0
           : swizzle == SWIZZLE_32B ? 32
           : swizzle == SWIZZLE_64B ? 64
                                    : 128;
}

static bool is_float(uint32_t t) {
    return t == ELEM_F16 || t == ELEM_F32 || t == ELEM_F64 || t == ELEM_BF16 ||
           (t >= ELEM_F32_FTZ && t <= ELEM_TF32_FTZ);
}

static bool check_head(const struct tensormap_args *a, char *why, size_t n) {
    if (a->type >= ELEM_TYPES)
        return refuse(why, n, "tensorDataType %u does not exist", a->type);
    if (a->rank < 1 || a->rank > TENSORMAP_RANK)
        return refuse(why, n, "tensorRank is %u, must be 1 to 5", a->rank);
    if (a->interleave > 2)
        return refuse(why, n, "interleave %u does not exist", a->interleave);
    if (a->interleave && a->rank < 3)
        return refuse(why, n, "tensorRank is %u, must be at least 3 with interleave", a->rank);
    if (a->swizzle >= SWIZZLES)
        return refuse(why, n, "swizzle %u does not exist", a->swizzle);
    if (a->interleave == 2 && a->swizzle != SWIZZLE_32B)
        return refuse(why, n, "interleave 32B needs swizzle 32B, not %u", a->swizzle);
    if (a->l2 > 3)
        return refuse(why, n, "l2Promotion %u does not exist", a->l2);
    if (a->fill > 1)
        return refuse(why, n, "oobFill %u does not exist", a->fill);
    if (a->fill && !is_float(a->type))
        return refuse(why, n, "oobFill NaN needs a floating type, not %s",
                      elem_name((enum elem_type)a->type));
    const uint64_t align = a->interleave == 2 || a->type >= ELEM_B4X16_P64 ? 32 : 16;
    if (a->address % align)
        return refuse(why, n, "globalAddress 0x%" PRIx64 " is not %" PRIu64 "-byte aligned",
                      a->address, align);
    for (uint32_t i = 0; i + 1 < a->rank; i++) {
        if (a->strides[i] % align)
            return refuse(why, n, "globalStrides[%u] is %" PRIu64 ", not a multiple of %" PRIu64, i,
                          a->strides[i], align);
        if (a->strides[i] >= 1ull << 40)
            return refuse(why, n, "globalStrides[%u] is %" PRIu64 ", must be below 2^40", i,
                          a->strides[i]);
    }
    return true;
}

/* Bytes of shared memory that n elements of a row take. */
static uint32_t smem_bytes(uint32_t type, uint32_t n) {
    return type > ELEM_B4X16 ? n : n * elem_bits((enum elem_type)type) / 8;
}

/* Types padded to 16 bytes (PTX ISA, Restriction on Tensor Copy instructions). */
static bool check_packed(const struct tensormap_args *a, char *why, size_t n) {
    const char *name = elem_name((enum elem_type)a->type);
    if (a->box[0] != 128)
        return refuse(why, n, "boxDim[0] is %u elements of %s, must be 128", a->box[0], name);
    if (a->dims[0] % 128)
        return refuse(why, n,
                      "globalDim[0] is %" PRIu64 " elements of %s, must be a multiple of 128",
                      a->dims[0], name);
    if (a->swizzle != SWIZZLE_NONE && a->swizzle != SWIZZLE_128B &&
        a->swizzle != SWIZZLE_128B_ATOM_32B && a->swizzle != SWIZZLE_128B_ATOM_64B)
        return refuse(why, n, "swizzle %u does not exist for %s", a->swizzle, name);
    return true;
}

static bool check_box(const struct tensormap_args *a, char *why, size_t n) {
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] < 1 || a->dims[i] > 1ull << 32)
            return refuse(why, n, "globalDim[%u] is %" PRIu64 ", must be 1 to 2^32", i, a->dims[i]);
        if (a->box[i] < 1 || a->box[i] > 256)
            return refuse(why, n, "boxDim[%u] is %u, must be 1 to 256", i, a->box[i]);
        if (a->element_steps[i] < 1 || a->element_steps[i] > 8)
            return refuse(why, n, "elementStrides[%u] is %u, must be 1 to 8", i,
                          a->element_steps[i]);
    }
    if (a->type > ELEM_B4X16 && !check_packed(a, why, n))
        return false;
    if (a->type == ELEM_B4X16 && a->dims[0] % 2)
        return refuse(why, n, "globalDim[0] is %" PRIu64 " elements of b4x16, must be even",
                      a->dims[0]);
    const uint32_t inner = smem_bytes(a->type, a->box[0]);
    if (!a->interleave && inner % 16)
        return refuse(why, n, "boxDim[0] is %u elements of %s: %u bytes, not a multiple of 16",
                      a->box[0], elem_name((enum elem_type)a->type), inner);
    if (!a->interleave && a->swizzle && inner > swizzle_span(a->swizzle))
        return refuse(why, n, "boxDim[0] is %u bytes, more than the %u bytes of the swizzle", inner,
                      swizzle_span(a->swizzle));
    if (a->interleave)
        return refuse(why, n, "interleaved layouts are not modelled by this emulator");
    return true;
}

/* PTX ISA, im2col mode: corners are signed, of 16, 8 or 5 bits for 1, 2 or 3 dimensions. */
static bool check_im2col(const struct tensormap_args *a, const struct tensormap_im2col *im,
                         char *why, size_t n) {
    if (a->rank < 3)
        return refuse(why, n, "tensorRank is %u, must be 3 to 5 for im2col", a->rank);
    if (im->pixels < 1 || im->pixels > 1024)
        return refuse(why, n, "pixelsPerColumn is %u, must be 1 to 1024", im->pixels);
    const int limit = a->rank == 3 ? 1 << 15 : a->rank == 4 ? 1 << 7 : 1 << 4;
    for (uint32_t i = 0; i + 2 < a->rank; i++) {
        if (im->lower[i] < -limit || im->lower[i] >= limit || im->upper[i] < -limit ||
            im->upper[i] >= limit)
            return refuse(why, n, "pixel box corners %d and %d of dimension %u: must be %d to %d",
                          im->lower[i], im->upper[i], i + 1, -limit, limit - 1);
        if ((int64_t)a->dims[i + 1] - 1 + im->upper[i] < im->lower[i])
            return refuse(why, n, "the pixel box %d to %d is empty in dimension %u", im->lower[i],
                          im->upper[i], i + 1);
    }
    return true;
}

static void seal(struct stored *s) {
    s->sum = sum_of(s);
}

static bool store_map(void *map, const struct tensormap_args *a, const struct tensormap_im2col *im,
                      char *why, size_t n) {
    if ((uintptr_t)map % 64)
        return refuse(why, n, "the CUtensorMap lies at %p, not 64-byte aligned", map);
    if (!check_head(a, why, n) || !check_box(a, why, n) || (im && !check_im2col(a, im, why, n)))
        return false;
    struct stored s = {.magic = MAGIC,
                       .address = a->address,
                       .rank = (uint8_t)a->rank,
                       .type = (uint8_t)a->type,
                       .interleave = (uint8_t)a->interleave,
                       .swizzle = (uint8_t)a->swizzle,
                       .l2 = (uint8_t)a->l2,
                       .fill = (uint8_t)a->fill,
                       .im2col = im != NULL,
                       .pixels = (uint16_t)(im ? im->pixels : 0)};
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++) {
        const bool real = i < a->rank;
        s.dim_less_one[i] = real ? (uint32_t)(a->dims[i] - 1) : 0;
        s.box[i] = (uint16_t)(real ? a->box[i] : 1);
        s.step[i] = (uint8_t)(real && i > 0 ? a->element_steps[i] : 1);
        if (i + 1 < a->rank)
            s.stride[i] = a->strides[i];
    }
    for (uint32_t i = 0; im && i + 2 < a->rank; i++) {
        s.lower[i] = (int16_t)im->lower[i];
        s.upper[i] = (int16_t)im->upper[i];
    }
    seal(&s);
    memcpy(map, &s, sizeof s);
    return true;
}

bool tensormap_encode(void *map, const struct tensormap_args *a, char *why, size_t n) {
    if (!map || !a->dims || !a->box || !a->element_steps || (a->rank > 1 && !a->strides))
        return refuse(why, n, "a pointer argument is NULL");
    return store_map(map, a, NULL, why, n);
}

bool tensormap_encode_im2col(void *map, const struct tensormap_args *a,
                             const struct tensormap_im2col *im, char *why, size_t n) {
    if (!map || !a->dims || !im->lower || !im->upper || !a->element_steps || !a->strides)
        return refuse(why, n, "a pointer argument is NULL");
    const uint32_t box[TENSORMAP_RANK] = {im->channels, 1, 1, 1, 1};
    struct tensormap_args with_box = *a;
    with_box.box = box;
    return store_map(map, &with_box, im, why, n);
}

static struct stored stored_of(const struct tensormap *m) {
    struct stored s = {.magic = MAGIC,
                       .address = m->address,
                       .rank = (uint8_t)m->rank,
                       .type = (uint8_t)m->type,
                       .interleave = (uint8_t)m->interleave,
                       .swizzle = (uint8_t)m->swizzle,
                       .l2 = (uint8_t)m->l2,
                       .fill = (uint8_t)m->fill,
                       .im2col = m->im2col,
                       .pixels = (uint16_t)m->pixels};
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++) {
        s.dim_less_one[i] = (uint32_t)(m->dim[i] - 1);
        s.box[i] = (uint16_t)m->box[i];
        s.step[i] = (uint8_t)m->step[i];
        if (i)
            s.stride[i - 1] = m->stride[i];
    }
    for (uint32_t i = 0; i < 3; i++) {
        s.lower[i] = (int16_t)m->lower[i];
        s.upper[i] = (int16_t)m->upper[i];
    }
    return s;
}

static bool open_map(struct stored *s, const void *map, char *why, size_t n) {
    memcpy(s, map, sizeof *s);
    if (s->magic != MAGIC) {
        struct tensormap m;
        if (!tensormap_hw_decode(&m, map, why, n))
            return false;
        *s = stored_of(&m);
        return true;
    }
    if (s->sum != sum_of(s))
        return refuse(why, n, "the tensor map was changed after it was encoded, or is torn");
    return true;
}

/* A kernel may build a map from 128 bytes of zeros, field by field (Triton's device descriptors):
 * every field then starts at its least value. */
static bool open_to_replace(struct stored *s, const void *map, char *why, size_t n) {
    static const uint8_t zeros[TENSORMAP_BYTES];
    if (memcmp(map, zeros, sizeof zeros))
        return open_map(s, map, why, n);
    *s = (struct stored){.magic = MAGIC, .rank = 1};
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++)
        s->box[i] = s->step[i] = 1;
    return true;
}

static void map_of(struct tensormap *m, const struct stored *s) {
    *m = (struct tensormap){.address = s->address,
                            .rank = s->rank,
                            .type = (enum elem_type)s->type,
                            .interleave = s->interleave,
                            .swizzle = s->swizzle,
                            .l2 = s->l2,
                            .fill = s->fill,
                            .im2col = s->im2col,
                            .pixels = s->pixels};
    for (uint32_t i = 0; i < 3; i++) {
        m->lower[i] = s->lower[i];
        m->upper[i] = s->upper[i];
    }
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++) {
        m->dim[i] = (uint64_t)s->dim_less_one[i] + 1;
        m->stride[i] = i ? s->stride[i - 1] : elem_bytes(m->type);
        m->box[i] = s->box[i];
        m->step[i] = s->step[i];
    }
}

bool tensormap_decode(struct tensormap *m, const void *map, char *why, size_t n) {
    struct stored s;
    if (!open_map(&s, map, why, n))
        return false;
    map_of(m, &s);
    return true;
}

uint32_t tensormap_bytes(const void *map) {
    struct tensormap m;
    char why[1];
    uint64_t magic;
    memcpy(&magic, map, sizeof magic);
    return magic != MAGIC && tensormap_hw_decode(&m, map, why, 0) ? TENSORMAP_HW_BYTES
                                                                  : TENSORMAP_BYTES;
}

/* Back to where it came from, in the layout that it had. */
static void close_map(void *map, struct stored *s) {
    struct tensormap m;
    if (tensormap_bytes(map) == TENSORMAP_HW_BYTES) {
        map_of(&m, s);
        if (tensormap_hw_encode(map, &m))
            return;
    }
    seal(s);
    memcpy(map, s, sizeof *s);
}

/* Checks a map that was put together field by field, as the encoder would. */
static bool check_stored(const struct stored *s, char *why, size_t n) {
    uint64_t dims[5];
    uint32_t box[5], steps[5];
    for (int i = 0; i < 5; i++) {
        dims[i] = (uint64_t)s->dim_less_one[i] + 1;
        box[i] = s->box[i];
        steps[i] = s->step[i];
    }
    const struct tensormap_args a = {.type = s->type,
                                     .rank = s->rank,
                                     .address = s->address,
                                     .dims = dims,
                                     .strides = s->stride,
                                     .box = box,
                                     .element_steps = steps,
                                     .interleave = s->interleave,
                                     .swizzle = s->swizzle,
                                     .l2 = s->l2,
                                     .fill = s->fill};
    return check_head(&a, why, n) && check_box(&a, why, n);
}

bool tensormap_replace_address(void *map, uint64_t address, char *why, size_t n) {
    struct stored s;
    if (!open_map(&s, map, why, n))
        return false;
    s.address = address;
    if (!check_stored(&s, why, n))
        return false;
    close_map(map, &s);
    return true;
}

/* .elemtype of tensormap.replace numbers its types otherwise than the driver does. */
static const uint8_t elemtype_of_ptx[] = {
    ELEM_U8,       ELEM_U16,   ELEM_U32,       ELEM_S32,      ELEM_U64,  ELEM_S64,
    ELEM_F16,      ELEM_F32,   ELEM_F32_FTZ,   ELEM_F64,      ELEM_BF16, ELEM_TF32,
    ELEM_TF32_FTZ, ELEM_B4X16, ELEM_B4X16_P64, ELEM_B6X16_P32};

static bool set_swizzle(struct stored *s, uint64_t mode, uint64_t atom, char *why, size_t n) {
    if (mode > 3 || atom > 3 || (atom && mode != 3))
        return refuse(why, n, "swizzle mode %" PRIu64 " with atomicity %" PRIu64 " does not exist",
                      mode, atom);
    s->swizzle = (uint8_t)(mode + atom);
    return true;
}

bool tensormap_replace(void *map, enum tensormap_field f, uint32_t ord, uint64_t v, char *why,
                       size_t n) {
    struct stored s;
    if (!open_to_replace(&s, map, why, n))
        return false;
    const uint64_t mode = s.swizzle > 3 ? 3 : s.swizzle, atom = s.swizzle > 3 ? s.swizzle - 3u : 0;
    const bool is_array = f >= FIELD_BOX_DIM && f <= FIELD_ELEMENT_STRIDE;
    if (is_array && ord >= (f == FIELD_GLOBAL_STRIDE ? 4u : 5u))
        return refuse(why, n, "tensormap.replace: ordinal %u is past the last dimension", ord);
    switch (f) {
    case FIELD_ADDRESS:
        s.address = v;
        break;
    case FIELD_RANK:
        if (v > 4)
            return refuse(why, n, "tensormap.replace: rank field %" PRIu64 ", must be 0 to 4", v);
        s.rank = (uint8_t)(v + 1);
        break;
    case FIELD_BOX_DIM:
        s.box[ord] = (uint16_t)(v > 0xffff ? 0xffff : v);
        break;
    case FIELD_GLOBAL_DIM:
        s.dim_less_one[ord] = (uint32_t)v - 1;
        break;
    case FIELD_GLOBAL_STRIDE:
        s.stride[ord] = v;
        break;
    case FIELD_ELEMENT_STRIDE:
        s.step[ord] = (uint8_t)(v > 255 ? 255 : v);
        break;
    case FIELD_ELEMTYPE:
        if (v >= sizeof elemtype_of_ptx)
            return refuse(why, n, "tensormap.replace: elemtype %" PRIu64 " does not exist", v);
        s.type = elemtype_of_ptx[v];
        break;
    case FIELD_INTERLEAVE:
        s.interleave = (uint8_t)v;
        break;
    case FIELD_SWIZZLE:
        if (!set_swizzle(&s, v, v == 3 ? atom : 0, why, n))
            return false;
        break;
    case FIELD_ATOMICITY:
        if (!set_swizzle(&s, mode, v, why, n))
            return false;
        break;
    case FIELD_FILL:
        s.fill = (uint8_t)v;
        break;
    }
    /* Fields change one at a time and may pass through states that do not fit together; the copy
     * that uses the map checks the whole (tensormap_prepare). */
    close_map(map, &s);
    return true;
}

uint32_t swizzle_address(uint32_t swizzle, uint32_t a) {
    switch (swizzle) {
    case SWIZZLE_32B:
        return a ^ (a >> 3 & 0x10);
    case SWIZZLE_64B:
        return a ^ (a >> 3 & 0x30);
    case SWIZZLE_128B:
        return a ^ (a >> 3 & 0x70);
    case SWIZZLE_128B_ATOM_32B:
        return a ^ (a >> 2 & 0x60);
    case SWIZZLE_128B_ATOM_32B_FLIP_8B:
        return a ^ (a >> 2 & 0x60) ^ (a >> 4 & 8);
    case SWIZZLE_128B_ATOM_64B:
        return a ^ (a >> 1 & 0x40);
    default:
        return a;
    }
}

static bool check_map(const struct tensormap *m, char *why, size_t n) {
    const struct tensormap_args a = {.type = m->type,
                                     .rank = m->rank,
                                     .address = m->address,
                                     .dims = m->dim,
                                     .strides = m->stride + 1,
                                     .box = m->box,
                                     .element_steps = m->step,
                                     .interleave = m->interleave,
                                     .swizzle = m->swizzle,
                                     .l2 = m->l2,
                                     .fill = m->fill};
    return check_head(&a, why, n) && check_box(&a, why, n);
}

bool tensormap_prepare(struct tensormap_copy *c, uint32_t coords, bool to_global, char *why,
                       size_t n) {
    const struct tensormap *m = &c->map;
    const bool four = c->mode == TENSORMAP_FOUR_ROWS;
    if (!check_map(m, why, n))
        return false;
    if (four && (m->rank != 2 || m->box[1] != 1))
        return refuse(why, n,
                      "gather4 and scatter4 need a rank-2 map with boxDim[1] 1, not rank %u and %u",
                      m->rank, m->box[1]);
    if (coords != (four ? 5 : m->rank))
        return refuse(why, n, "the instruction gives %u coordinates, the tensor map has rank %u",
                      coords, m->rank);
    if (to_global && m->swizzle == SWIZZLE_128B_ATOM_32B_FLIP_8B)
        return refuse(why, n, "swizzle 128B_ATOM_32B_FLIP_8B exists for loads only");
    if (m->im2col != (c->mode == TENSORMAP_IM2COL))
        return refuse(why, n,
                      m->im2col ? "an im2col tensor map needs an instruction with .im2col"
                                : ".im2col needs an im2col tensor map");
    if (to_global && m->type == ELEM_B4X16_P64)
        return refuse(why, n, "type b4x16_p64 exists for loads only");
    if (m->type > ELEM_B4X16 && c->coord[0] % 128)
        return refuse(why, n, "coordinate 0 is %d, must be a multiple of 128 for %s", c->coord[0],
                      elem_name(m->type));
    if (m->type == ELEM_B4X16 && c->coord[0] % 2)
        return refuse(why, n, "coordinate 0 is %d: an odd element of b4x16 is inside a byte",
                      c->coord[0]);
    /* Coordinates of a store must not be negative (PTX ISA, restrictions on tensor copy). */
    for (uint32_t i = 0; to_global && i < coords; i++)
        if (c->coord[i] < 0)
            return refuse(why, n, "coordinate %u of a store is %d: it must not be negative", i,
                          c->coord[i]);
    if (c->smem % 128)
        return refuse(why, n, "shared address 0x%x is not 128-byte aligned", c->smem);
    c->rows = 1;
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++) {
        c->count[i] = i < m->rank ? (m->box[i] + m->step[i] - 1) / m->step[i] : 1;
        if (i)
            c->rows *= c->count[i];
    }
    c->count[0] = m->box[0]; /* dimension 0 has no stride without interleave */
    if (four)
        c->rows = 4;
    if (m->im2col)
        c->rows = m->pixels;
    c->row_bytes = smem_bytes(m->type, m->box[0]);
    c->chunk_bytes = m->type == ELEM_B4X16_P64 ? 8 : m->type == ELEM_B6X16_P32 ? 12 : 16;
    const uint32_t span = swizzle_span(m->swizzle);
    c->pitch = span ? span : c->row_bytes;
    c->chunks = c->rows * (c->row_bytes / 16);
    c->bytes = c->chunks * c->chunk_bytes;
    c->span = (c->rows - 1) * c->pitch + (span ? span : c->row_bytes);
    return true;
}
