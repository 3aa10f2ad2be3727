/* tensormap_copy.c: the rows and chunks of a box, and the copies over them (see tensormap.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensormap.h"
#include <string.h>

static int64_t bytes_of(const struct tensormap *m, int64_t elements) {
    return elements * elem_bits(m->type) / 8;
}

/* Steps from x by `step` within [lower, upper], n times, coming back to lower; *carry: how often.
 */
static int64_t walk(int64_t x, int64_t n, int64_t step, int64_t lower, int64_t upper,
                    int64_t *carry) {
    const int64_t first = x > upper ? 1 : (upper - x) / step + 1; /* from x to the end */
    *carry = 0;
    if (n < first)
        return x + n * step;
    const int64_t whole = (upper - lower) / step + 1;
    *carry = 1 + (n - first) / whole;
    return lower + (n - first) % whole * step;
}

/* Pixel `row` of an im2col box: W, H, D run through the bounding box, then N.  The offsets of the
 * filter are added after; what they lead out of the tensor is fill. */
static bool pixel_base(const struct tensormap_copy *c, uint32_t row, uint64_t *at) {
    const struct tensormap *m = &c->map;
    int64_t n = row;
    bool inside = true;
    for (uint32_t i = 1; i < m->rank; i++) {
        int64_t x = c->coord[i], carry = 0;
        if (i + 1 < m->rank) {
            x = walk(x, n, m->step[i], m->lower[i - 1], (int64_t)m->dim[i] - 1 + m->upper[i - 1],
                     &carry);
            x += c->offset[i - 1];
        } else {
            x += n;
        }
        n = carry;
        inside = inside && x >= 0 && (uint64_t)x < m->dim[i];
        *at += (uint64_t)x * m->stride[i];
    }
    return inside;
}

/* Global address of the row's first element, box coordinate 0; false: the row lies outside in some
 * dimension above 0. */
static bool row_base(const struct tensormap_copy *c, uint32_t row, uint64_t *base) {
    const struct tensormap *m = &c->map;
    uint64_t at = m->address;
    bool inside = true;
    if (c->mode == TENSORMAP_FOUR_ROWS) {
        const int64_t y = c->coord[1 + row];
        inside = y >= 0 && (uint64_t)y < m->dim[1];
        at += (uint64_t)y * m->stride[1];
    } else if (c->mode == TENSORMAP_IM2COL) {
        inside = pixel_base(c, row, &at);
    } else {
        for (uint32_t i = 1; i < m->rank; i++) {
            const int64_t x = c->coord[i] + (int64_t)(row % c->count[i]) * m->step[i];
            row /= c->count[i];
            inside = inside && x >= 0 && (uint64_t)x < m->dim[i];
            at += (uint64_t)x * m->stride[i];
        }
    }
    *base = at + (uint64_t)bytes_of(m, c->coord[0]);
    return inside;
}

void tensormap_row(const struct tensormap_copy *c, uint32_t row, struct tensormap_row *out) {
    const struct tensormap *m = &c->map;
    uint64_t base;
    *out = (struct tensormap_row){0};
    if (!row_base(c, row, &base))
        return;
    const int64_t first = c->coord[0] < 0 ? -(int64_t)c->coord[0] : 0;
    int64_t last = (int64_t)m->dim[0] - c->coord[0]; /* elements of the row before the edge */
    if (last > (int64_t)m->box[0])
        last = (int64_t)m->box[0];
    if (last <= first)
        return;
    out->skip = (uint32_t)bytes_of(m, first);
    out->bytes = (uint32_t)bytes_of(m, last - first);
    out->global = base + out->skip;
}

void tensormap_chunk(const struct tensormap_copy *c, uint32_t index, struct tensormap_chunk *out) {
    const uint32_t per_row = c->row_bytes / 16, row = index / per_row, k = index % per_row;
    const uint32_t size = c->chunk_bytes, at = k * size;
    struct tensormap_row r;
    tensormap_row(c, row, &r);
    const uint32_t begin = r.skip > at ? r.skip - at : 0;
    const uint32_t end = r.skip + r.bytes > at ? r.skip + r.bytes - at : 0;
    out->from = (uint8_t)(begin < size ? begin : size);
    out->to = (uint8_t)(end < size ? end : size);
    if (out->to <= out->from)
        out->from = out->to = 0;
    out->global = r.global - r.skip + at;
    const uint32_t linear = c->smem + row * c->pitch + 16 * k;
    const uint32_t s = swizzle_address(c->map.swizzle, linear);
    out->flip = (s & 8) != 0;
    out->smem = s & ~15u;
}

/* Fill of elements outside the tensor: zero, or the quiet NaN that an H200 was seen to write. */
static void fill_bytes(const struct tensormap *m, uint8_t *chunk) {
    if (!m->fill) {
        memset(chunk, 0, 16);
        return;
    }
    for (uint32_t i = 0; i < 16; i += 4) {
        const uint32_t v = 0x7ff77ff7;
        memcpy(chunk + i, &v, 4);
    }
}

static void flip_halves(uint8_t *chunk) {
    uint8_t t[8];
    memcpy(t, chunk, 8);
    memcpy(chunk, chunk + 8, 8);
    memcpy(chunk + 8, t, 8);
}

/* A row that is whole, without swizzle or with one of the plain XOR modes, moves fast. */
static bool whole_row(const struct tensormap_copy *c, uint32_t first, uint32_t n,
                      struct tensormap_row *r) {
    const uint32_t per_row = c->row_bytes / 16;
    if (c->chunk_bytes != 16)
        return false;
    if (first % per_row || n < per_row || c->map.swizzle == SWIZZLE_128B_ATOM_32B_FLIP_8B)
        return false;
    tensormap_row(c, first / per_row, r);
    return r->bytes == c->row_bytes;
}

void tensormap_load(const struct tensormap_copy *c, uint8_t *smem, uint32_t first, uint32_t n) {
    const uint32_t per_row = c->row_bytes / 16;
    for (uint32_t i = first, end = first + n; i < end;) {
        struct tensormap_row r;
        if (whole_row(c, i, end - i, &r)) {
            const uint8_t *src = (const uint8_t *)(uintptr_t)r.global;
            const uint32_t base = c->smem + i / per_row * c->pitch;
            for (uint32_t k = 0; k < c->row_bytes; k += 16)
                memcpy(smem + swizzle_address(c->map.swizzle, base + k), src + k, 16);
            i += per_row;
            continue;
        }
        struct tensormap_chunk k;
        tensormap_chunk(c, i++, &k);
        uint8_t buf[16];
        fill_bytes(&c->map, buf);
        /* padding is uninitialised (PTX ISA, Padding and alignment of the sub-byte types) */
        memset(buf + c->chunk_bytes, 0xa5, 16 - c->chunk_bytes);
        if (k.to > k.from)
            memcpy(buf + k.from, (const uint8_t *)(uintptr_t)(k.global + k.from),
                   (size_t)(k.to - k.from));
        if (k.flip)
            flip_halves(buf);
        memcpy(smem + k.smem, buf, 16);
    }
}

/* b6p2x16: the low six bits of 16 bytes, contiguous in 12. */
static void pack_6(uint8_t *dst, const uint8_t *src, uint32_t from, uint32_t to) {
    uint8_t out[12] = {0};
    for (uint32_t bit = 0; bit < 96; bit++)
        out[bit / 8] |= (uint8_t)((src[bit / 6] >> bit % 6 & 1) << bit % 8);
    memcpy(dst + from, out + from, to - from);
}

void tensormap_store(const struct tensormap_copy *c, const uint8_t *smem, uint32_t first,
                     uint32_t n) {
    const uint32_t per_row = c->row_bytes / 16;
    for (uint32_t i = first, end = first + n; i < end;) {
        struct tensormap_row r;
        if (whole_row(c, i, end - i, &r)) {
            uint8_t *dst = (uint8_t *)(uintptr_t)r.global;
            const uint32_t base = c->smem + i / per_row * c->pitch;
            for (uint32_t k = 0; k < c->row_bytes; k += 16)
                memcpy(dst + k, smem + swizzle_address(c->map.swizzle, base + k), 16);
            i += per_row;
            continue;
        }
        struct tensormap_chunk k;
        tensormap_chunk(c, i++, &k);
        if (k.to > k.from && c->map.type == ELEM_B6X16_P32)
            pack_6((uint8_t *)(uintptr_t)k.global, smem + k.smem, k.from, k.to);
        else if (k.to > k.from)
            memcpy((uint8_t *)(uintptr_t)(k.global + k.from), smem + k.smem + k.from,
                   (size_t)(k.to - k.from));
    }
}

void tensormap_reduce(const struct tensormap_copy *c, enum reduce_op op, const uint8_t *smem,
                      uint32_t first, uint32_t n) {
    for (uint32_t i = first; i < first + n; i++) {
        struct tensormap_chunk k;
        tensormap_chunk(c, i, &k);
        if (k.to > k.from)
            reduce_elements(c->map.type, op, (uint8_t *)(uintptr_t)(k.global + k.from),
                            smem + k.smem + k.from, (size_t)(k.to - k.from));
    }
}
