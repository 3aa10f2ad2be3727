/* test_tensormap.c: tensor maps against a reference that walks single elements, with the swizzle
 * tables of the PTX ISA (Swizzling modes) written out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensormap.h"
#include "num.h"
#include "unit.h"
#include <math.h>

enum { WINDOW = 64 * 1024 };

/* --- Reference swizzle: position p of line r holds 16-byte chunk table[r][p] --- */

static const uint8_t t128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6},
                                   {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4},
                                   {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                   {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
static const uint8_t t64[4][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                  {1, 0, 3, 2, 5, 4, 7, 6},
                                  {2, 3, 0, 1, 6, 7, 4, 5},
                                  {3, 2, 1, 0, 7, 6, 5, 4}};
static const uint8_t t32[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
static const uint8_t atom32[4][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                     {2, 3, 0, 1, 6, 7, 4, 5},
                                     {4, 5, 6, 7, 0, 1, 2, 3},
                                     {6, 7, 4, 5, 2, 3, 0, 1}};
static const uint8_t atom64[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}};

static uint32_t find(const uint8_t *line, uint32_t chunk) {
    for (uint32_t p = 0; p < 8; p++)
        if (line[p] == chunk)
            return p;
    abort();
}

static uint32_t ref_swizzle(uint32_t mode, uint32_t a) {
    const uint32_t line = a / 128, chunk = a / 16 % 8, in = a % 16;
    uint32_t p = chunk;
    switch (mode) {
    case SWIZZLE_32B:
        p = find(t32[line % 2], chunk);
        break;
    case SWIZZLE_64B:
        p = find(t64[line % 4], chunk);
        break;
    case SWIZZLE_128B:
        p = find(t128[line % 8], chunk);
        break;
    case SWIZZLE_128B_ATOM_32B:
        p = find(atom32[line % 4], chunk);
        break;
    case SWIZZLE_128B_ATOM_32B_FLIP_8B:
        return line * 128 + find(atom32[line % 4], chunk) * 16 + (line % 2 ? (in + 8) % 16 : in);
    case SWIZZLE_128B_ATOM_64B:
        p = find(atom64[line % 2], chunk);
        break;
    default:
        break;
    }
    return line * 128 + p * 16 + in;
}

/* --- Element by element --- */

struct world {
    uint8_t *global; /* guarded on both sides */
    size_t bytes;
    uint8_t smem[WINDOW], want_smem[WINDOW];
};
static struct world w;

typedef void (*visit)(const struct tensormap_copy *c, bool inside, uint64_t global, uint32_t smem);

static void walk(const struct tensormap_copy *c, visit fn) {
    const struct tensormap *m = &c->map;
    uint32_t n[5], i[5] = {0};
    for (uint32_t d = 0; d < 5; d++)
        n[d] = d >= m->rank ? 1 : d == 0 ? m->box[0] : (m->box[d] + m->step[d] - 1) / m->step[d];
    const uint32_t size = (uint32_t)m->stride[0], inner = m->box[0] * size;
    const uint32_t span[] = {inner, 32, 64, 128, 128, 128, 128};
    uint32_t row = 0;
    for (i[4] = 0; i[4] < n[4]; i[4]++)
        for (i[3] = 0; i[3] < n[3]; i[3]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++)
                for (i[1] = 0; i[1] < n[1]; i[1]++, row++)
                    for (i[0] = 0; i[0] < n[0]; i[0]++) {
                        bool inside = true;
                        uint64_t at = m->address;
                        for (uint32_t d = 0; d < m->rank; d++) {
                            const int64_t x =
                                (int64_t)c->coord[d] + (int64_t)i[d] * (d ? m->step[d] : 1);
                            inside = inside && x >= 0 && x < (int64_t)m->dim[d];
                            at += (uint64_t)x * m->stride[d];
                        }
                        fn(c, inside, at, c->smem + row * span[m->swizzle] + i[0] * size);
                    }
}

static void ref_load(const struct tensormap_copy *c, bool inside, uint64_t global, uint32_t smem) {
    const uint32_t size = (uint32_t)c->map.stride[0];
    const uint8_t nan16[] = {0xf7, 0x7f};
    for (uint32_t b = 0; b < size; b++)
        w.want_smem[ref_swizzle(c->map.swizzle, smem + b)] =
            inside        ? ((const uint8_t *)(uintptr_t)global)[b]
            : c->map.fill ? nan16[b % 2]
                          : 0;
}

static uint8_t *want_global;

static void ref_store(const struct tensormap_copy *c, bool inside, uint64_t global, uint32_t smem) {
    const size_t at = (size_t)(global - (uint64_t)(uintptr_t)w.global);
    for (uint32_t b = 0; inside && b < c->map.stride[0]; b++)
        want_global[at + b] = w.smem[ref_swizzle(c->map.swizzle, smem + b)];
}

static void ref_add(const struct tensormap_copy *c, bool inside, uint64_t global, uint32_t smem) {
    const size_t at = (size_t)(global - (uint64_t)(uintptr_t)w.global);
    uint8_t v[8];
    for (uint32_t b = 0; b < c->map.stride[0]; b++)
        v[b] = w.smem[ref_swizzle(c->map.swizzle, smem + b)];
    if (!inside)
        return;
    if (c->map.type == ELEM_U32) {
        uint32_t x, y;
        memcpy(&x, want_global + at, 4);
        memcpy(&y, v, 4);
        x += y;
        memcpy(want_global + at, &x, 4);
    } else if (c->map.type == ELEM_F32) {
        float x, y;
        memcpy(&x, want_global + at, 4);
        memcpy(&y, v, 4);
        x += y;
        memcpy(want_global + at, &x, 4);
    } else {
        uint16_t x, y;
        memcpy(&x, want_global + at, 2);
        memcpy(&y, v, 2);
        x = (uint16_t)num_from_f64(NUM_BF16, num_to_f64(NUM_BF16, x) + num_to_f64(NUM_BF16, y),
                                   NUM_RN, 0);
        memcpy(want_global + at, &x, 2);
    }
}

static uint32_t below(uint32_t n) {
    return unit_random() % n;
}

/* A random legal map over the world's global memory; false when this draw does not fit. */
static bool random_map(struct tensormap_copy *c, bool to_global) {
    static const uint8_t kinds[] = {ELEM_U8, ELEM_BF16, ELEM_F32, ELEM_U64, ELEM_U32, ELEM_F16};
    const enum elem_type type = (enum elem_type)kinds[below(to_global ? 6 : 6)];
    const uint32_t size = elem_bytes(type), rank = 1 + below(5), swizzle = below(SWIZZLES);
    const uint32_t span[] = {512, 32, 64, 128, 128, 128, 128};
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5] = {1, 1, 1, 1, 1};
    dims[0] = 1 + below(100);
    box[0] = 16 * (1 + below(span[swizzle] / 16)) / size;
    if (box[0] > 256 || (to_global && swizzle == SWIZZLE_128B_ATOM_32B_FLIP_8B))
        return false;
    uint64_t stride = (dims[0] * size + 15) / 16 * 16 + 16 * below(2), reach = stride;
    for (uint32_t d = 1; d < rank; d++) {
        dims[d] = 1 + below(d == 1 ? 30 : 4);
        box[d] = 1 + below(d == 1 ? 20 : 3);
        steps[d] = below(4) ? 1 : 1 + below(3);
        strides[d - 1] = stride;
        stride *= dims[d];
        stride += 16 * below(2);
        reach = stride;
    }
    if (reach + 64 > w.bytes)
        return false;
    _Alignas(64) uint8_t map[128];
    const struct tensormap_args a = {.type = type,
                                     .rank = rank,
                                     .address = (uint64_t)(uintptr_t)w.global + 32,
                                     .dims = dims,
                                     .strides = strides,
                                     .box = box,
                                     .element_steps = steps,
                                     .swizzle = swizzle,
                                     .fill = (type == ELEM_BF16 || type == ELEM_F32) && below(2)};
    char why[200] = "";
    CHECK(tensormap_encode(map, &a, why, sizeof why), "%s", why);
    CHECK(tensormap_decode(&c->map, map, why, sizeof why), "%s", why);
    c->mode = TENSORMAP_TILE;
    for (uint32_t d = 0; d < rank; d++) {
        const int32_t lo = to_global ? 0 : -(int32_t)below(box[d] + 1);
        c->coord[d] = lo + (int32_t)below((uint32_t)dims[d] + 2);
    }
    c->smem = 1024 + 128 * below(16);
    CHECK(tensormap_prepare(c, rank, to_global, why, sizeof why), "%s", why);
    return c->smem + c->span <= WINDOW;
}

static void randomise(void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)p)[i] = (uint8_t)unit_random();
}

static void test_loads(void) {
    for (int n = 0; n < 3000; n++) {
        struct tensormap_copy c = {0};
        if (!random_map(&c, false))
            continue;
        memset(w.smem, 0xa5, WINDOW);
        memset(w.want_smem, 0xa5, WINDOW);
        walk(&c, ref_load);
        /* In two runs of chunks, the later first. */
        const uint32_t cut = below(c.chunks + 1);
        tensormap_load(&c, w.smem, cut, c.chunks - cut);
        tensormap_load(&c, w.smem, 0, cut);
        CHECK(memcmp(w.smem, w.want_smem, WINDOW) == 0, "load %d: rank %u type %s swizzle %u", n,
              c.map.rank, elem_name(c.map.type), c.map.swizzle);
        CHECK(c.bytes == c.rows * c.map.box[0] * c.map.stride[0], "bytes counted");
    }
}

static void test_stores(void) {
    want_global = malloc(w.bytes);
    for (int n = 0; n < 2000; n++) {
        struct tensormap_copy c = {0};
        if (!random_map(&c, true))
            continue;
        randomise(w.smem, WINDOW);
        randomise(w.global, w.bytes);
        memcpy(want_global, w.global, w.bytes);
        walk(&c, ref_store);
        tensormap_store(&c, w.smem, 0, c.chunks);
        CHECK(memcmp(w.global, want_global, w.bytes) == 0, "store %d: rank %u type %s swizzle %u",
              n, c.map.rank, elem_name(c.map.type), c.map.swizzle);
    }
    for (int n = 0; n < 2000; n++) {
        struct tensormap_copy c = {0};
        if (!random_map(&c, true))
            continue;
        if (c.map.type != ELEM_U32 && c.map.type != ELEM_F32 && c.map.type != ELEM_BF16)
            continue;
        for (size_t i = 0; i < w.bytes; i += 2) { /* values without NaN, inf or subnormals */
            const uint16_t v = (uint16_t)(0x3c00 + below(0x500));
            memcpy(w.global + i, &v, 2);
            if (i < WINDOW)
                memcpy(w.smem + i, &v, 2);
        }
        memcpy(want_global, w.global, w.bytes);
        walk(&c, ref_add);
        CHECK(!reduce_refuse(c.map.type, REDUCE_ADD, true), "add exists");
        tensormap_reduce(&c, REDUCE_ADD, w.smem, 0, c.chunks);
        CHECK(memcmp(w.global, want_global, w.bytes) == 0, "add %d: type %s swizzle %u", n,
              elem_name(c.map.type), c.map.swizzle);
    }
    free(want_global);
}

static void test_four_rows(void) {
    const uint64_t dims[] = {64, 50}, strides[] = {256};
    const uint32_t box[] = {64, 1}, ones[] = {1, 1};
    _Alignas(64) uint8_t map[128];
    char why[200] = "";
    const struct tensormap_args a = {.type = ELEM_BF16,
                                     .rank = 2,
                                     .address = (uint64_t)(uintptr_t)w.global,
                                     .dims = dims,
                                     .strides = strides,
                                     .box = box,
                                     .element_steps = ones,
                                     .swizzle = SWIZZLE_128B};
    CHECK(tensormap_encode(map, &a, why, sizeof why), "%s", why);
    struct tensormap_copy c = {
        .mode = TENSORMAP_FOUR_ROWS, .coord = {0, 7, 3, 60, -1}, .smem = 2048};
    CHECK(tensormap_decode(&c.map, map, why, sizeof why), "%s", why);
    CHECK(tensormap_prepare(&c, 5, false, why, sizeof why) && c.bytes == 512, "gather4: %s", why);
    randomise(w.global, 50 * 256);
    tensormap_load(&c, w.smem, 0, c.chunks);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t b = 0; b < 128; b++) {
            const int y = c.coord[1 + r];
            const uint8_t want = y >= 0 && y < 50 ? w.global[y * 256 + (int)b] : 0;
            CHECK(w.smem[ref_swizzle(SWIZZLE_128B, 2048 + r * 128 + b)] == want, "gather row %u",
                  r);
        }
    CHECK(!tensormap_prepare(&c, 4, false, why, sizeof why), "four coordinates are too few");
    c.mode = TENSORMAP_TILE;
    CHECK(!tensormap_prepare(&c, 5, false, why, sizeof why), "five are too many for a tile");
}

/* --- Refusals: each rule has a value that passes and one that does not --- */

struct rule {
    const char *name, *says;
    uint32_t type, rank;
    uint64_t address, dim0, dim1, stride0;
    uint32_t box0, box1, step0, step1, interleave, swizzle, l2, fill;
};

static void test_refusals(void) {
#define GOOD                                                                                       \
    .type = ELEM_BF16, .rank = 2, .address = 4096, .dim0 = 128, .dim1 = 64, .stride0 = 256,        \
    .box0 = 64, .box1 = 8, .step0 = 1, .step1 = 1, .swizzle = SWIZZLE_128B
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"");
#ifdef __clang__
    _Pragma("GCC diagnostic ignored \"-Winitializer-overrides\"");
#endif
    static const struct rule rules[] = {
        {"good", NULL, GOOD},
        {"type", "tensorDataType", GOOD, .type = 16},
        {"rank 0", "tensorRank", GOOD, .rank = 0},
        {"rank 6", "tensorRank", GOOD, .rank = 6},
        {"address", "16-byte aligned", GOOD, .address = 4104},
        {"dim 0", "globalDim[0]", GOOD, .dim0 = 0},
        {"dim big", "globalDim[1]", GOOD, .dim1 = (1ull << 32) + 1},
        {"dim at the limit", NULL, GOOD, .dim1 = 1ull << 32},
        {"stride", "globalStrides[0]", GOOD, .stride0 = 264},
        {"stride big", "2^40", GOOD, .stride0 = 1ull << 40},
        {"box 0", "boxDim[1]", GOOD, .box1 = 0},
        {"box 257", "boxDim[1]", GOOD, .box1 = 257},
        {"box 256", NULL, GOOD, .box1 = 256},
        {"inner bytes", "multiple of 16", GOOD, .box0 = 12},
        {"inner over swizzle", "bytes of the swizzle", GOOD, .box0 = 72},
        {"inner over 64B", "bytes of the swizzle", GOOD, .swizzle = SWIZZLE_64B},
        {"inner free", NULL, GOOD, .swizzle = SWIZZLE_NONE, .box0 = 256},
        {"step 0", "elementStrides[1]", GOOD, .step1 = 0},
        {"step 9", "elementStrides[1]", GOOD, .step1 = 9},
        {"step 8", NULL, GOOD, .step1 = 8},
        {"interleave rank", "at least 3", GOOD, .interleave = 1},
        {"interleave", "does not exist", GOOD, .interleave = 3},
        {"swizzle", "does not exist", GOOD, .swizzle = 7},
        {"l2", "l2Promotion", GOOD, .l2 = 4},
        {"fill", "oobFill", GOOD, .fill = 2},
        {"fill of ints", "floating type", GOOD, .type = ELEM_U16, .fill = 1},
        {"fill of floats", NULL, GOOD, .fill = 1},
        {"b4x16", NULL, GOOD, .type = ELEM_B4X16, .box0 = 256},
        {"b4x16 odd", "even", GOOD, .type = ELEM_B4X16, .dim0 = 127},
        {"b4x16 inner", "multiple of 16", GOOD, .type = ELEM_B4X16, .box0 = 48},
        {"b4x16_p64", NULL, GOOD, .type = ELEM_B4X16_P64, .box0 = 128},
        {"b4x16_p64 box", "must be 128", GOOD, .type = ELEM_B4X16_P64},
        {"b6x16_p32 size", "multiple of 128", GOOD, .type = ELEM_B6X16_P32, .box0 = 128,
         .dim0 = 192},
        {"b6x16_p32 swizzle", "swizzle 2", GOOD, .type = ELEM_B6X16_P32, .box0 = 128,
         .swizzle = SWIZZLE_64B},
        {"b6x16_p32 stride", "multiple of 32", GOOD, .type = ELEM_B6X16_P32, .box0 = 128,
         .stride0 = 272},
        {"b4x16 NaN", "floating type", GOOD, .type = ELEM_B4X16, .fill = 1},
    };
    _Pragma("GCC diagnostic pop");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *r = &rules[i];
        const uint64_t dims[6] = {r->dim0, r->dim1, 1, 1, 1, 1},
                       strides[5] = {r->stride0, 0, 0, 0, 0};
        const uint32_t box[6] = {r->box0, r->box1, 1, 1, 1, 1},
                       steps[6] = {r->step0, r->step1, 1, 1, 1, 1};
        const struct tensormap_args a = {r->type, r->rank,       r->address, dims,  strides, box,
                                         steps,   r->interleave, r->swizzle, r->l2, r->fill};
        _Alignas(64) uint8_t map[128];
        char why[200] = "";
        const bool ok = tensormap_encode(map, &a, why, sizeof why);
        CHECK(ok == !r->says, "%s: %s", r->name, why);
        CHECK(!r->says || strstr(why, r->says), "%s says: %s", r->name, why);
    }
}

static void test_object(void) {
    const uint64_t dims[] = {128, 64, 3}, strides[] = {256, 16384};
    const uint32_t box[] = {64, 8, 1}, ones[] = {1, 1, 1};
    const struct tensormap_args a = {.type = ELEM_BF16,
                                     .rank = 3,
                                     .address = 4096,
                                     .dims = dims,
                                     .strides = strides,
                                     .box = box,
                                     .element_steps = ones,
                                     .swizzle = SWIZZLE_128B};
    _Alignas(64) uint8_t map[192], copy[128];
    char why[200] = "";
    CHECK(!tensormap_encode(map + 32, &a, why, sizeof why) && strstr(why, "64-byte"), "%s", why);
    CHECK(tensormap_encode(map, &a, why, sizeof why), "%s", why);
    struct tensormap_copy c = {.smem = 64};
    CHECK(tensormap_decode(&c.map, map, why, sizeof why), "%s", why);
    CHECK(!tensormap_prepare(&c, 3, false, why, sizeof why) && strstr(why, "128-byte"), "%s", why);
    c.smem = 128;
    CHECK(tensormap_prepare(&c, 3, false, why, sizeof why), "%s", why);
    c.coord[1] = -1;
    CHECK(tensormap_prepare(&c, 3, false, why, sizeof why), "loads may start outside");
    CHECK(!tensormap_prepare(&c, 3, true, why, sizeof why) && strstr(why, "negative"), "%s", why);
    CHECK(!tensormap_prepare(&c, 2, false, why, sizeof why) && strstr(why, "rank 3"), "%s", why);
    for (int bit = 0; bit < 1024; bit += 5) { /* any flipped bit is noticed */
        memcpy(copy, map, 128);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct tensormap m;
        CHECK(!tensormap_decode(&m, copy, why, sizeof why), "bit %d", bit);
    }
    struct tensormap m;
    struct tensormap_args high = a; /* CUTLASS clears bit 21 of word 1 of a small tensor's map */
    high.address = 0x2000003ff000;
    CHECK(tensormap_encode(map, &high, why, sizeof why), "%s", why);
    ((uint64_t *)(void *)map)[1] &= ~(1ull << 21);
    CHECK(tensormap_decode(&m, map, why, sizeof why) && m.address == high.address, "%s", why);
    CHECK(tensormap_replace_address(map, 8192, why, sizeof why) &&
              tensormap_decode(&m, map, why, sizeof why) && m.address == 8192,
          "%s", why);
    CHECK(!tensormap_replace_address(map, 8193, why, sizeof why), "misaligned address");
    CHECK(tensormap_replace(map, FIELD_GLOBAL_DIM, 1, 10, why, sizeof why) &&
              tensormap_replace(map, FIELD_GLOBAL_STRIDE, 1, 32768, why, sizeof why) &&
              tensormap_replace(map, FIELD_RANK, 0, 1, why, sizeof why) &&
              tensormap_replace(map, FIELD_ATOMICITY, 0, 1, why, sizeof why) &&
              tensormap_decode(&m, map, why, sizeof why) && m.dim[1] == 10 &&
              m.stride[2] == 32768 && m.rank == 2 && m.swizzle == SWIZZLE_128B_ATOM_32B,
          "%s", why);
    CHECK(!tensormap_replace(map, FIELD_BOX_DIM, 5, 1, why, sizeof why), "ordinal");
}

/* --- Reductions --- */

static uint32_t reduce_u32(enum elem_type t, enum reduce_op op, uint32_t a, uint32_t b) {
    reduce_elements(t, op, &a, &b, 4);
    return a;
}

static void test_reduce(void) {
    CHECK(reduce_u32(ELEM_U32, REDUCE_ADD, 0xffffffff, 2) == 1, "add wraps");
    CHECK(reduce_u32(ELEM_S32, REDUCE_MIN, 0xffffffff, 1) == 0xffffffff, "min s32");
    CHECK(reduce_u32(ELEM_U32, REDUCE_MIN, 0xffffffff, 1) == 1, "min u32");
    CHECK(reduce_u32(ELEM_S32, REDUCE_MAX, 0xffffffff, 1) == 1, "max s32");
    CHECK(reduce_u32(ELEM_U32, REDUCE_INC, 5, 5) == 0 &&
              reduce_u32(ELEM_U32, REDUCE_INC, 4, 5) == 5,
          "inc");
    CHECK(reduce_u32(ELEM_U32, REDUCE_DEC, 0, 5) == 5 &&
              reduce_u32(ELEM_U32, REDUCE_DEC, 4, 5) == 3 &&
              reduce_u32(ELEM_U32, REDUCE_DEC, 9, 5) == 5,
          "dec");
    CHECK(reduce_u32(ELEM_U32, REDUCE_XOR, 12, 10) == 6 &&
              reduce_u32(ELEM_U32, REDUCE_AND, 12, 10) == 8 &&
              reduce_u32(ELEM_U32, REDUCE_OR, 12, 10) == 14,
          "logic");
    CHECK(reduce_u32(ELEM_F32, REDUCE_ADD, 0x00400000, 0x00400000) == 0x00800000 &&
              reduce_u32(ELEM_F32_FTZ, REDUCE_ADD, 0x00400000, 0x00400000) == 0,
          "f32 add keeps subnormals (seen on an H200), f32.ftz flushes");
    CHECK(reduce_u32(ELEM_F32, REDUCE_ADD, num_bits32(1.5f), num_bits32(2)) == num_bits32(3.5f),
          "f32 add");
    CHECK((reduce_u32(ELEM_F16, REDUCE_ADD, 0x00010001, 0x00010002)) == 0x00020003,
          "f16 keeps subnormals");
    CHECK(reduce_u32(ELEM_BF16, REDUCE_MAX, 0x3f80bf80, 0x40000000) == 0x40000000, "bf16 max");
    CHECK(reduce_u32(ELEM_F16, REDUCE_MIN, 0x7fff3c00, 0x3c007fff) == 0x3c003c00, "min skips NaN");
    int64_t a = -5, b = 3;
    reduce_elements(ELEM_S64, REDUCE_MAX, &a, &b, 8);
    CHECK(a == 3, "s64 max");
    double x = 1, y = 0.5;
    reduce_elements(ELEM_F64, REDUCE_ADD, &x, &y, 8);
    CHECK(x == 1.5, "f64 add");
    CHECK(reduce_refuse(ELEM_F32, REDUCE_MIN, true) && reduce_refuse(ELEM_F64, REDUCE_ADD, true) &&
              !reduce_refuse(ELEM_F64, REDUCE_ADD, false) &&
              reduce_refuse(ELEM_S32, REDUCE_INC, true) &&
              reduce_refuse(ELEM_BF16, REDUCE_AND, true) &&
              !reduce_refuse(ELEM_BF16, REDUCE_ADD, true),
          "tables");
}

int main(void) {
    w.bytes = 1 << 18;
    w.global = aligned_alloc(4096, w.bytes);
    randomise(w.global, w.bytes);
    test_loads();
    test_stores();
    test_four_rows();
    test_refusals();
    test_object();
    test_reduce();
    free(w.global);
    return unit_end();
}
