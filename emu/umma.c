/* umma.c: instruction descriptors and legality of tcgen05.mma (see umma.h).  The product is in
 * umma_run.c.
 *
 * PTX ISA: Instruction Descriptor, Matrix Shape, Transpose and Negate operations.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "umma.h"
#include "tensormap.h"
#include "tmem.h"
#include "warp_matrix.h"
#include <stdio.h>
#include <string.h>

#define REFUSE(...)                                                                                \
    do {                                                                                           \
        snprintf(why, why_bytes, __VA_ARGS__);                                                     \
        return false;                                                                              \
    } while (0)

static uint32_t field(uint32_t word, int low, int bits) {
    return word >> low & ((1u << bits) - 1);
}

static bool operand_type(enum umma_kind kind, uint32_t code, enum num_fmt *f) {
    static const enum num_fmt small[] = {NUM_E4M3, NUM_E5M2, NUM_FMTS,
                                         NUM_E2M3, NUM_E3M2, NUM_E2M1};
    switch (kind) {
    case UMMA_F16:
        *f = code ? NUM_BF16 : NUM_F16;
        return code < 2;
    case UMMA_TF32:
        *f = NUM_TF32;
        return code == 2;
    case UMMA_F8F6F4:
    case UMMA_MXF8F6F4:
        if (code > 5 || small[code] == NUM_FMTS)
            return false;
        *f = small[code];
        return true;
    case UMMA_I8:
        return code < 2;
    default:
        *f = NUM_E2M1;
        return code == 1;
    }
}

static const char *const kinds[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};

static bool check_scaled_shape(const struct umma_shape *s, const struct umma_form *f, char *why,
                               size_t why_bytes) {
    const char *kind = kinds[s->kind];
    if (f->ws)
        REFUSE("kind::%s has no .ws form", kind);
    if (s->m != 128 && !(f->cta_group == 2 && s->m == 256))
        REFUSE("kind::%s cta_group::%u: M is %u, must be 128%s", kind, f->cta_group, s->m,
               f->cta_group == 2 ? " or 256" : "");
    const uint32_t step = f->cta_group == 1 ? 8 : 16;
    if (s->n < step || s->n > 256 || s->n % step)
        REFUSE("kind::%s cta_group::%u: N is %u, must be %u to 256 in steps of %u", kind,
               f->cta_group, s->n, step, step);
    return true;
}

static bool check_shape(const struct umma_shape *s, const struct umma_form *f, char *why,
                        size_t why_bytes) {
    const char *kind = kinds[s->kind];
    if (f->ws) {
        if (f->cta_group != 1)
            REFUSE("tcgen05.mma.ws exists for cta_group::1 only");
        if ((s->m != 32 && s->m != 64 && s->m != 128) || (s->n != 64 && s->n != 128 && s->n != 256))
            REFUSE("kind::%s .ws: M %u N %u; M must be 32, 64 or 128 and N 64, 128 or 256", kind,
                   s->m, s->n);
        return true;
    }
    const uint32_t m0 = f->cta_group == 1 ? 64 : 128;
    if (s->m != m0 && s->m != 2 * m0)
        REFUSE("kind::%s cta_group::%u: M is %u, must be %u or %u", kind, f->cta_group, s->m, m0,
               2 * m0);
    const uint32_t step = f->cta_group == 1 ? 8 : 16;
    if (s->n < step || s->n > 256 || s->n % step)
        REFUSE("kind::%s cta_group::%u: N is %u, must be %u to 256 in steps of %u", kind,
               f->cta_group, s->n, step, step);
    if (s->kind == UMMA_I8 && (f->cta_group == 1 ? s->n > 32 && s->n % 16 : s->n % 32))
        REFUSE("kind::i8 cta_group::%u: N is %u, must be %s", f->cta_group, s->n,
               f->cta_group == 1 ? "8, 16, 24, 32, then up to 256 in steps of 16"
                                 : "32 to 256 in steps of 32");
    const uint32_t step8 = f->cta_group == 1 ? 16 : 32;
    if (s->elem == 1 && s->b_mn && s->n % step8)
        REFUSE("kind::%s: an MN-major 8-bit B needs N in steps of %u, not %u", kind, step8, s->n);
    return true;
}

/* 4- and 6-bit operands have one order of elements only (Valid Combinations of Type-Size,
 * Major-ness and Swizzling). */
static bool check_small(const struct umma_shape *s, char *why, size_t why_bytes) {
    if ((s->a_mn && s->a > NUM_E5M2) || (s->b_mn && s->b > NUM_E5M2))
        REFUSE("an operand of type %s must be K-major",
               num_name(s->a_mn && s->a > NUM_E5M2 ? s->a : s->b));
    return true;
}

/* Valid scale factor ids: three factors may start at any byte, six at bytes 0 and 2. */
static bool scale_ids(uint32_t scales, bool k96, uint32_t id) {
    if (k96)
        return scales == 2 || id % 2 == 0;
    return id + scales <= 4 && (scales != 2 || id % 2 == 0);
}

/* The kinds with scale factors use the word differently. */
static bool decode_scaled(struct umma_shape *s, uint32_t idesc, const struct umma_form *f,
                          char *why, size_t why_bytes) {
    const bool wide = f->kind == UMMA_MXF8F6F4;
    s->m = field(idesc, 27, 2) * 128;
    s->saturate = false;
    s->sfa_id = field(idesc, 29, 2);
    s->sfb_id = field(idesc, 4, 2);
    s->sf_ue4m3 = !field(idesc, 23, 1);
    if (field(idesc, 2, 1) != f->sparse)
        REFUSE("instruction descriptor 0x%08x: bit 2 says %s, the instruction %s", idesc,
               f->sparse ? "dense" : "sparse", f->sparse ? "sparse" : "dense");
    /* Bit 12, reserved beside 4-bit operands, is set by the CuTe DSL's Tcgen05MxOmmaInstrDesc: a
     * version of sparsity, it says, that means nothing to sm_100. */
    if (field(idesc, 0, 2) || field(idesc, 3, 1) || field(idesc, 6, 1) || field(idesc, 24, 3))
        REFUSE("instruction descriptor 0x%08x: a reserved bit (0, 1, 3, 6, 24-26) is set", idesc);
    const bool k96 = field(idesc, 31, 1);
    if (k96 && (wide || f->sparse || f->a_tmem))
        REFUSE(
            "instruction descriptor 0x%08x: K = 96 (bit 31) is for dense kind::mxf4 and mxf4nvf4 "
            "with A in shared memory",
            idesc);
    const uint32_t a = field(idesc, 7, 3), b = field(idesc, 10, wide ? 3 : 2);
    if (!operand_type(f->kind, a, &s->a) || !operand_type(f->kind, b, &s->b))
        REFUSE("instruction descriptor 0x%08x: types A %u, B %u do not exist for kind::%s", idesc,
               a, b, kinds[f->kind]);
    if (s->sf_ue4m3 && (f->kind != UMMA_MXF4NVF4 || f->scales != 4))
        REFUSE("instruction descriptor 0x%08x: scale factors of type ue4m3 (bit 23 is 0) are for "
               "kind::mxf4nvf4 with four of them",
               idesc);
    s->elem = 1;
    s->k = k96 ? 96 : (wide ? 32u : 64u) << f->sparse;
    if (!scale_ids(f->scales, k96, s->sfa_id) || !scale_ids(f->scales, k96, s->sfb_id))
        REFUSE("instruction descriptor 0x%08x: scale factor ids %u and %u with %u scale factors",
               idesc, s->sfa_id, s->sfb_id, k96 ? f->scales * 3 / 2 : f->scales);
    if (!wide && (s->a_mn || s->b_mn))
        REFUSE("kind::%s: both operands are K-major", kinds[f->kind]);
    if (f->a_tmem && s->a_mn)
        REFUSE("A in tensor memory is K-major: transpose A (bit 15) must be 0");
    return check_small(s, why, why_bytes) && check_scaled_shape(s, f, why, why_bytes);
}

bool umma_decode(struct umma_shape *s, uint32_t idesc, const struct umma_form *f, char *why,
                 size_t why_bytes) {
    *s = (struct umma_shape){.kind = f->kind,
                             .m = field(idesc, 24, 5) * 16,
                             .n = field(idesc, 17, 6) * 8,
                             .a_mn = field(idesc, 15, 1),
                             .b_mn = field(idesc, 16, 1),
                             .neg_a = field(idesc, 13, 1),
                             .neg_b = field(idesc, 14, 1),
                             .saturate = field(idesc, 3, 1)};
    if (f->kind >= UMMA_MXF8F6F4)
        return decode_scaled(s, idesc, f, why, why_bytes);
    if (field(idesc, 2, 1) != f->sparse || (!f->sparse && field(idesc, 0, 2)))
        REFUSE("instruction descriptor 0x%08x: bits 0-2 are %u, the instruction is %s", idesc,
               field(idesc, 0, 3), f->sparse ? "sparse" : "dense");
    s->selector = field(idesc, 0, 2);
    if (s->selector > (f->kind <= UMMA_TF32))
        REFUSE("instruction descriptor 0x%08x: sparsity selector %u, must be %s for kind::%s",
               idesc, s->selector, f->kind <= UMMA_TF32 ? "0 or 1" : "0", kinds[f->kind]);
    if (field(idesc, 6, 1) || field(idesc, 23, 1) || field(idesc, 29, 1))
        REFUSE("instruction descriptor 0x%08x: a reserved bit (6, 23 or 29) is set", idesc);
    if (field(idesc, 30, 2) && !f->ws)
        REFUSE("instruction descriptor 0x%08x: a maximum shift (bits 30-31) without .ws", idesc);
    if (s->saturate && f->kind != UMMA_I8)
        REFUSE("instruction descriptor 0x%08x: saturate (bit 3) is for kind::i8", idesc);
    if ((s->neg_a || s->neg_b) && f->kind == UMMA_I8)
        REFUSE("instruction descriptor 0x%08x: kind::i8 has no negation (bits 13, 14)", idesc);
    const uint32_t d = field(idesc, 4, 2), a = field(idesc, 7, 3), b = field(idesc, 10, 3);
    if (!operand_type(f->kind, a, &s->a) || !operand_type(f->kind, b, &s->b))
        REFUSE("instruction descriptor 0x%08x: types A %u, B %u do not exist for kind::%s", idesc,
               a, b, kinds[f->kind]);
    if (f->kind == UMMA_F16 && a != b)
        REFUSE("instruction descriptor 0x%08x: A and B mix f16 and bf16", idesc);
    s->a_signed = a == 1;
    s->b_signed = b == 1;
    const bool half_d = d == 0 && (f->kind == UMMA_F8F6F4 || (f->kind == UMMA_F16 && a == 0));
    if (!half_d && d != (f->kind == UMMA_I8 ? 2 : 1))
        REFUSE("instruction descriptor 0x%08x: type %u of D does not exist for kind::%s with these "
               "A and "
               "B",
               idesc, d, kinds[f->kind]);
    s->d_f16 = half_d;
    if (f->kind == UMMA_F8F6F4 && !check_small(s, why, why_bytes))
        return false;
    s->elem = f->kind == UMMA_F16 ? 2 : f->kind == UMMA_TF32 ? 4 : 1;
    s->k = (32 / s->elem) << f->sparse;
    if (f->a_tmem && s->a_mn)
        REFUSE("A in tensor memory is K-major: transpose A (bit 15) must be 0");
    return check_shape(s, f, why, why_bytes);
}

/* --- Placement --- */

/* Rows of A and columns of B that one CTA's shared memory holds. */
uint32_t umma_rows_a(const struct umma *u) {
    return u->shape.m / u->form.cta_group;
}
uint32_t umma_rows_b(const struct umma *u) {
    return u->shape.n / u->form.cta_group;
}

static struct matrix_view view(const struct matrix_desc *d, bool mn, uint32_t rows, uint32_t k,
                               uint32_t elem, uint32_t chunks) {
    return mn ? (struct matrix_view){*d, true, k, rows * elem / 16}
              : (struct matrix_view){*d, false, rows, chunks};
}

uint32_t umma_held(const struct umma *u) {
    return u->shape.k >> u->form.sparse;
}
struct matrix_view umma_view_a(const struct umma *u) {
    return view(&u->a, u->shape.a_mn, umma_rows_a(u), umma_held(u), u->shape.elem,
                u->shape.k == 96 ? 3 : 2);
}
struct matrix_view umma_view_b(const struct umma *u) {
    return view(&u->b, u->shape.b_mn, umma_rows_b(u), u->shape.k, u->shape.elem,
                u->shape.k == 96 ? 3
                : u->form.sparse ? 4
                                 : 2);
}

bool umma_half_lanes(const struct umma *u) { /* layout F */
    return u->shape.m == 64 && !u->form.ws && u->form.cta_group == 1;
}

/* Groups of lanes among which N is divided: layouts B and E 2, G 4. */
uint32_t umma_lane_groups(const struct umma *u) {
    if (u->form.ws)
        return 128 / u->shape.m;
    return u->form.cta_group == 2 && u->shape.m == 128 ? 2 : 1;
}

struct tmem_span umma_span_d(const struct umma *u) {
    return (struct tmem_span){15, (uint16_t)(u->d & 0xffff),
                              (uint16_t)(u->shape.n / umma_lane_groups(u))};
}

struct tmem_span umma_span_a(const struct umma *u) {
    return (struct tmem_span){15, (uint16_t)(u->a_addr & 0xffff), u->form.a_tmem ? 8 : 0};
}

uint32_t umma_scales(const struct umma *u) {
    return u->shape.k == 96 ? u->form.scales * 3 / 2 : u->form.scales;
}
static struct tmem_span span_scales(const struct umma *u, uint32_t address, uint32_t id,
                                    uint32_t rows, uint32_t w) {
    const bool there = 4 * w < id + umma_scales(u) && u->form.scales;
    return (struct tmem_span){15, (uint16_t)((address & 0xffff) + w * (rows > 128 ? 8 : 4)),
                              (uint16_t)(there ? (rows + 31) / 32 : 0)};
}
struct tmem_span umma_span_sfa(const struct umma *u, uint32_t w) {
    return span_scales(u, u->sfa, u->shape.sfa_id, umma_rows_a(u), w);
}
struct tmem_span umma_span_sfb(const struct umma *u, uint32_t w) {
    return span_scales(u, u->sfb, u->shape.sfb_id, u->shape.n / umma_lane_groups(u), w);
}

struct tmem_span umma_span_meta(const struct umma *u) {
    const bool wide = u->shape.kind <= UMMA_TF32; /* of 16 and 32 bits: one column of a pair */
    return (struct tmem_span){15, (uint16_t)((u->meta & 0xffff) + (wide ? u->shape.selector : 0)),
                              (uint16_t)(!u->form.sparse ? 0
                                         : wide          ? 1
                                                         : 2)};
}

const char *umma_columns(const struct umma *u, uint32_t c, uint32_t row, uint8_t *columns) {
    const bool wide = u->shape.kind <= UMMA_TF32, packed = u->shape.kind >= UMMA_MXF4;
    const int bits = packed ? 4 : (int)(8 * u->shape.elem);
    const uint32_t chunks = wide ? 8 : 16, held = umma_held(u) / chunks;
    const uint32_t *cells = u->cta[c].tmem + umma_span_meta(u).column;
    for (uint32_t k = 0; k < chunks; k++) {
        const uint32_t lane = wide ? row / 16 * 16 + row % 8 + k / 4 * 8 : row;
        const uint32_t word = cells[lane * TMEM_ROW + (wide ? 0 : k / 8)];
        const uint32_t at = wide ? row / 8 % 2 * 16 + k % 4 * 4 : k % 8 * 4;
        const uint32_t code = word >> at & 15;
        /* 0b0110 is among the values that the ISA lists, though not in order */
        const char *bad = mma_sparse_chunk(bits, code, code != 6, (int)k, columns + k * held);
        if (bad)
            return bad;
    }
    return NULL;
}

/* In each of `groups` groups of lanes. */
static bool quarters_equal(const uint32_t *cells, struct tmem_span s, uint32_t rows,
                           uint32_t groups) {
    const uint32_t lanes = 128 / groups;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t q = 0; q < 4; q++)
            if (cells[(r % 32 + 32 * q) * TMEM_ROW + s.column + r / 32] !=
                cells[(r % 32 + 32 * q / lanes * lanes) * TMEM_ROW + s.column + r / 32])
                return false;
    return true;
}
const char *umma_scales_refuse(const struct umma *u, uint32_t c) {
    const uint32_t groups = umma_lane_groups(u);
    for (uint32_t w = 0; umma_span_sfa(u, w).columns; w++)
        if (!quarters_equal(u->cta[c].tmem, umma_span_sfa(u, w), umma_rows_a(u), 1))
            return "the scale factors of A differ between the four quarters of lanes";
    for (uint32_t w = 0; umma_span_sfb(u, w).columns; w++)
        if (!quarters_equal(u->cta[c].tmem, umma_span_sfb(u, w), u->shape.n / groups, groups))
            return groups == 1
                       ? "the scale factors of B differ between the four quarters of lanes"
                       : "the scale factors of a half of B differ between the two quarters of "
                         "lanes that compute with it";
    return NULL;
}

bool umma_zero_columns(uint64_t word, uint32_t m, uint32_t n, uint64_t mask[4], const char **why) {
    const uint32_t parts = 128 / m, width = n / parts;
    const uint32_t zeros = (uint32_t)(word >> 48 & 0xff) + 1,
                   ones = (uint32_t)(word >> 40 & 0xff) + 1;
    const uint32_t shift = (uint32_t)(word >> 56 & 63);
    memset(mask, 0, 4 * sizeof *mask);
    *why = word >> 36 & 7 ? "reserved bits (36-38) are set"
           : word >> 62   ? "reserved bits (62, 63) are set"
           : shift        ? "a column shift is not modelled"
                          : NULL;
    if (*why)
        return false;
    if (!(word >> 39 & 1))
        return true;
    for (uint32_t p = 0; p < parts; p++) {
        /* a run of zero bits (columns used), a run of ones, and so on; fs: it begins with ones */
        const bool ones_first = word >> (32 + p) & 1;
        const uint32_t start = (uint32_t)(word >> (8 * p) & 0xff);
        for (uint32_t j = 0; j < width; j++) {
            const uint32_t at = (j + start) % (zeros + ones);
            const bool set = ones_first ? at < ones : at >= zeros;
            const uint32_t col = p * width + j;
            mask[col / 64] |= (uint64_t)set << col % 64;
        }
    }
    return true;
}

static struct tmem_span last_word(struct tmem_span (*span)(const struct umma *, uint32_t),
                                  const struct umma *u) {
    uint32_t w = 0;
    while (span(u, w + 1).columns)
        w++;
    return span(u, w);
}

/* Lane 0 is due.  CUTLASS leaves the byte of the word, which the instruction descriptor has too, in
 * the two upper bits. */
static bool in_lane_0(uint32_t address, uint32_t id) {
    return !(address >> 16 & 0x3fff) && (!(address >> 30) || address >> 30 == id);
}

static bool check_scales(const struct umma *u, char *why, size_t why_bytes) {
    const struct tmem_span a = last_word(umma_span_sfa, u), b = last_word(umma_span_sfb, u);
    if (!in_lane_0(u->sfa, u->shape.sfa_id) || !in_lane_0(u->sfb, u->shape.sfb_id))
        REFUSE("scale factors at tensor memory 0x%08x and 0x%08x: the lane must be 0", u->sfa,
               u->sfb);
    if (a.column + a.columns > TMEM_ROW || b.column + b.columns > TMEM_ROW)
        REFUSE("scale factors at tensor memory 0x%08x and 0x%08x run past column 511", u->sfa,
               u->sfb);
    return true;
}

static bool check_meta(const struct umma *u, char *why, size_t why_bytes) {
    const struct tmem_span m = umma_span_meta(u);
    if (u->form.ws || umma_rows_a(u) != 128)
        REFUSE("sparse products are modelled for 128 rows of A in a CTA, without .ws");
    if (u->meta >> 16)
        REFUSE("metadata at tensor memory 0x%08x: the lane must be 0", u->meta);
    if (u->shape.kind <= UMMA_TF32 && u->meta & 1)
        REFUSE("metadata at tensor memory 0x%08x: the column must be even, the selector says which "
               "of the pair",
               u->meta);
    if (m.column + m.columns > TMEM_ROW)
        REFUSE("metadata at tensor memory 0x%08x run past column 511", u->meta);
    return true;
}

static bool check_tmem(const struct umma *u, char *why, size_t why_bytes) {
    const uint32_t lane = u->d >> 16;
    const struct tmem_span d = umma_span_d(u), a = umma_span_a(u);
    if (umma_half_lanes(u) ? lane != 0 && lane != 16 : lane != 0)
        REFUSE("D at tensor memory 0x%08x: lane %u, must be %s for M %u", u->d, lane,
               umma_half_lanes(u) ? "0 or 16" : "0", u->shape.m);
    if (d.column + d.columns > TMEM_ROW)
        REFUSE("D at tensor memory 0x%08x: %u columns run past 511", u->d, d.columns);
    if (!u->form.a_tmem)
        return true;
    if (u->a_addr >> 16 != lane)
        REFUSE("A at tensor memory 0x%08x: lane %u, must be that of D, %u", u->a_addr,
               u->a_addr >> 16, lane);
    if (a.column + a.columns > TMEM_ROW)
        REFUSE("A at tensor memory 0x%08x: %u columns run past 511", u->a_addr, a.columns);
    return true;
}

static bool check_layout(const struct umma *u, const struct matrix_view *v, char name, char *why,
                         size_t why_bytes) {
    const bool atom32 = v->desc.swizzle == SWIZZLE_128B_ATOM_32B;
    if (v->mn_major && (u->shape.kind == UMMA_TF32) != atom32)
        REFUSE("%c: MN-major %s the swizzle 128B with 32-byte atoms", name,
               atom32 ? "of this type does not exist with" : "tf32 needs");
    const char *bad = view_refuse(v);
    if (bad)
        REFUSE("%c: %s", name, bad);
    if (v->desc.absolute && u->shape.k != 96)
        REFUSE("%c: an absolute leading-dimension address (bit 52) is for K = 96", name);
    return true;
}

bool umma_prepare(struct umma *u, uint32_t idesc, uint64_t word_a, uint64_t word_b, char *why,
                  size_t why_bytes) {
    if (!umma_decode(&u->shape, idesc, &u->form, why, why_bytes))
        return false;
    if (!desc_decode_sm100(&u->b, word_b, why, why_bytes))
        return false;
    if (!u->form.a_tmem && !desc_decode_sm100(&u->a, word_a, why, why_bytes))
        return false;
    const struct matrix_view a = umma_view_a(u), b = umma_view_b(u);
    if (!u->form.a_tmem && !check_layout(u, &a, 'A', why, why_bytes))
        return false;
    if (!check_layout(u, &b, 'B', why, why_bytes) || !check_tmem(u, why, why_bytes))
        return false;
    if (u->scale_d > 15 || (u->scale_d && u->shape.kind > UMMA_TF32))
        REFUSE("scale-input-d is %u: 0 to 15, for kind::f16 and kind::tf32 only", u->scale_d);
    if (u->form.scales && !check_scales(u, why, why_bytes))
        return false;
    if (u->form.sparse && !check_meta(u, why, why_bytes))
        return false;
    if (u->form.ashift && u->shape.m / u->form.cta_group != 128)
        REFUSE(".ashift is for M 128, and 256 of a pair, not %u", u->shape.m);
    uint64_t mask[4];
    const char *bad;
    if (u->form.ws && !umma_zero_columns(u->zero_columns, u->shape.m, u->shape.n, mask, &bad))
        REFUSE("zero-column mask 0x%016llx: %s", (unsigned long long)u->zero_columns, bad);
    return true;
}
