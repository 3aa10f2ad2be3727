/* test_tensormap_hw.c: tensor maps in the layout of the hardware.  The words are what the CuTe
 * DSL's host code wrote for these tensors (release 4.8.1), one field after the other changed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "tensormap.h"

struct kase {
    const char *what;
    uint32_t w[16];
    struct tensormap m;
};

#define ADDRESS 0x7f1200340000ull
#define A       0x00340000, 0x00007f12
#define K(n)    (n) * 1024ull

static const struct kase kases[] = {
    {"two dimensions",
     {A, 0x240312, 0x10, 0, 0, 0, 0, 0x7f, 0x1ff, 0, 0, 0, 0x3f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_F16, .dim = {128, 512}, .stride = {2, 256}, .box = {64, 32}}},
    {"one dimension, small",
     {A, 0x40302, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0x3f000000, 0, 0},
     {.rank = 1, .type = ELEM_F16, .dim = {128}, .stride = {2}, .box = {64}}},
    {"five dimensions",
     {A, 0x240342, 0x10, 0x2000, 0x10000, 0xa0000, 0, 0x7f, 0x1ff, 6, 8, 0xa, 0x3f000000, 0x4021f,
      0},
     {.rank = 5,
      .type = ELEM_F16,
      .dim = {128, 512, 7, 9, 11},
      .stride = {2, 256, K(128), K(1024), K(10240)},
      .box = {64, 32, 3, 5, 1}}},
    {"strides over 32 bits",
     {A, 0x240332, 0x10, 1, 2, 0, 0x420, 0x7f, 0x1ff, 4, 3, 0, 0x3f000000, 0x1011f, 0},
     {.rank = 4,
      .type = ELEM_F16,
      .dim = {128, 512, 5, 4},
      .stride = {2, 256, (1ull << 37) + 16, (1ull << 38) + 32},
      .box = {64, 32, 2, 2}}},
    {"box of 256",
     {A, 0x240012, 0x20, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0xff000000, 0xff, 0},
     {.rank = 2, .type = ELEM_U8, .dim = {512, 512}, .stride = {1, 512}, .box = {256, 256}}},
    {"swizzle 32B",
     {A, 0x242312, 0x80, 0, 0, 0, 0, 0x3ff, 0x1ff, 0, 0, 0, 0x0f000000, 0x1f, 0},
     {.rank = 2,
      .type = ELEM_F16,
      .swizzle = SWIZZLE_32B,
      .dim = {1024, 512},
      .stride = {2, 2048},
      .box = {16, 32}}},
    {"swizzle 64B",
     {A, 0x244312, 0x80, 0, 0, 0, 0, 0x3ff, 0x1ff, 0, 0, 0, 0x1f000000, 0x1f, 0},
     {.rank = 2,
      .type = ELEM_F16,
      .swizzle = SWIZZLE_64B,
      .dim = {1024, 512},
      .stride = {2, 2048},
      .box = {32, 32}}},
    {"swizzle 128B",
     {A, 0x246312, 0x80, 0, 0, 0, 0, 0x3ff, 0x1ff, 0, 0, 0, 0x3f000000, 0x1f, 0},
     {.rank = 2,
      .type = ELEM_F16,
      .swizzle = SWIZZLE_128B,
      .dim = {1024, 512},
      .stride = {2, 2048},
      .box = {64, 32}}},
    {"atoms of 32 bytes",
     {A, 0x2c6392, 0x100, 0, 0, 0, 0, 0x3ff, 0x1ff, 0, 0, 0, 0x1f000000, 0x1f, 0},
     {.rank = 2,
      .type = ELEM_F32,
      .swizzle = SWIZZLE_128B_ATOM_32B,
      .dim = {1024, 512},
      .stride = {4, 4096},
      .box = {32, 32}}},
    {"atoms of 64 bytes",
     {A, 0x3c6012, 0x40, 0, 0, 0, 0, 0x3ff, 0x1ff, 0, 0, 0, 0x7f000000, 0x1f, 0},
     {.rank = 2,
      .type = ELEM_U8,
      .swizzle = SWIZZLE_128B_ATOM_64B,
      .dim = {1024, 512},
      .stride = {1, 1024},
      .box = {128, 32}}},
    {"bf16",
     {A, 0x240512, 0x40, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x7f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_BF16, .dim = {512, 512}, .stride = {2, 1024}, .box = {128, 32}}},
    {"u16",
     {A, 0x240092, 0x40, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x7f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_U16, .dim = {512, 512}, .stride = {2, 1024}, .box = {128, 32}}},
    {"u32",
     {A, 0x240112, 0x80, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x3f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_U32, .dim = {512, 512}, .stride = {4, 2048}, .box = {64, 32}}},
    {"u64",
     {A, 0x240212, 0x100, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x1f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_U64, .dim = {512, 512}, .stride = {8, 4096}, .box = {32, 32}}},
    {"f64",
     {A, 0x240492, 0x100, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x1f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_F64, .dim = {512, 512}, .stride = {8, 4096}, .box = {32, 32}}},
    {"f32 as tf32",
     {A, 0x250392, 0x80, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x1f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_TF32, .dim = {512, 512}, .stride = {4, 2048}, .box = {32, 32}}},
    {"four bits",
     {A, 0x240592, 0x10, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0xff000000, 0, 0},
     {.rank = 2, .type = ELEM_B4X16, .dim = {512, 512}, .stride = {0, 256}, .box = {256, 1}}},
    {"four bits, padded",
     {A, 0x240612, 0x10, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x7f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_B4X16_P64, .dim = {512, 512}, .stride = {0, 256}, .box = {128, 32}}},
    {"six bits, padded",
     {A, 0x240692, 0x18, 0, 0, 0, 0, 0x1ff, 0x1ff, 0, 0, 0, 0x7f000000, 0x1f, 0},
     {.rank = 2, .type = ELEM_B6X16_P32, .dim = {512, 512}, .stride = {0, 384}, .box = {128, 32}}},
    {"im2col, W",
     {A, 0x46323, 8, 0x100, 0, 0, 0, 0x3f, 0x1f, 3, 0, 0, 0x3f000008, 0xfffeffff, 0xff},
     {.rank = 3,
      .type = ELEM_F16,
      .swizzle = SWIZZLE_128B,
      .im2col = true,
      .dim = {64, 32, 4},
      .stride = {2, 128, 4096},
      .step = {1, 2, 1},
      .box = {64},
      .pixels = 256,
      .lower = {-1},
      .upper = {-2}}},
    {"im2col, W and H",
     {A, 0x246333, 8, 0x100, 0x2000, 0, 0, 0x3f, 0x1f, 0x1f, 3, 0, 0x3f000088, 0xfffefdff, 0x3f},
     {.rank = 4,
      .type = ELEM_F16,
      .swizzle = SWIZZLE_128B,
      .im2col = true,
      .dim = {64, 32, 32, 4},
      .stride = {2, 128, 4096, K(128)},
      .step = {1, 2, 3, 1},
      .box = {64},
      .pixels = 64,
      .lower = {-1, -3},
      .upper = {-2, -1}}},
    {"im2col, W, H and D",
     {A, 0x246343, 8, 0x100, 0x2000, 0x10000, 0, 0x3f, 0x1f, 0x1f, 7, 3, 0x3f000000, 0x6b7c77df,
      0x3f},
     {.rank = 5,
      .type = ELEM_F16,
      .swizzle = SWIZZLE_128B,
      .im2col = true,
      .dim = {64, 32, 32, 8, 4},
      .stride = {2, 128, 4096, K(128), K(1024)},
      .box = {64},
      .pixels = 64,
      .lower = {-1, -2, -3},
      .upper = {-4, -5, -6}}}};

static void test_decode(const struct kase *k) {
    _Alignas(64) uint8_t bytes[TENSORMAP_BYTES];
    struct tensormap m;
    char why[400] = "";
    memset(bytes, 0xa5, sizeof bytes); /* the second half means nothing */
    memcpy(bytes, k->w, sizeof k->w);
    CHECK(tensormap_decode(&m, bytes, why, sizeof why), "%s: %s", k->what, why);
    CHECK(tensormap_bytes(bytes) == 64, "%s: 64 bytes", k->what);
    CHECK(m.address == ADDRESS && m.rank == k->m.rank && m.type == k->m.type &&
              m.swizzle == k->m.swizzle && m.l2 == 2 && !m.interleave && !m.fill,
          "%s: address, rank, type, swizzle", k->what);
    CHECK(m.im2col == k->m.im2col && m.pixels == k->m.pixels &&
              !memcmp(m.lower, k->m.lower, sizeof m.lower) &&
              !memcmp(m.upper, k->m.upper, sizeof m.upper),
          "%s: im2col", k->what);
    for (uint32_t i = 0; i < TENSORMAP_RANK; i++) {
        const bool real = i < m.rank;
        CHECK(m.dim[i] == (real ? k->m.dim[i] : 1) && m.stride[i] == k->m.stride[i], "%s: size %u",
              k->what, i);
        CHECK(m.step[i] == (k->m.step[i] ? k->m.step[i] : 1) &&
                  m.box[i] == (real && k->m.box[i] ? k->m.box[i] : 1),
              "%s: box %u", k->what, i);
    }
    uint32_t w[16];
    CHECK(tensormap_hw_encode(w, &m) && !memcmp(w, k->w, sizeof w), "%s: and back", k->what);
}

/* Bits that nothing was seen to set, and combinations that do not exist. */
static void test_refused(void) {
    static const struct {
        int word;
        uint32_t flip;
    } t[] = {{2, 1 << 1},  {2, 1 << 2},   {2, 1 << 3},  {2, 1 << 11},
             {2, 1 << 12}, {2, 1 << 15},  {2, 1 << 22}, {2, 1u << 31},
             {7, 1 << 16}, {13, 1 << 15}, {15, 1},      {2, 7 << 4},
             {2, 1},       {2, 1 << 16},  {2, 1 << 19}, {2, (6 ^ 14) << 7}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        _Alignas(64) uint32_t w[32] = {0};
        struct tensormap m;
        char why[400] = "";
        memcpy(w, kases[0].w, sizeof kases[0].w);
        w[t[i].word] ^= t[i].flip;
        CHECK(!tensormap_decode(&m, w, why, sizeof why) && strstr(why, "not a tensor map"),
              "word %d, 0x%x", t[i].word, t[i].flip);
    }
}

/* A kernel copies 64 bytes and changes them: they stay in this layout. */
static void test_replaced(void) {
    _Alignas(64) uint32_t w[32];
    struct tensormap m;
    char why[400] = "";
    memset(w, 0xa5, sizeof w);
    memcpy(w, kases[0].w, sizeof kases[0].w);
    CHECK(tensormap_replace(w, FIELD_ADDRESS, 0, 0x1234567800ull, why, sizeof why) &&
              tensormap_replace(w, FIELD_GLOBAL_DIM, 1, 77, why, sizeof why) &&
              tensormap_replace(w, FIELD_GLOBAL_STRIDE, 0, 1ull << 38, why, sizeof why),
          "replace: %s", why);
    CHECK(w[0] == 0x34567800 && w[1] == 0x12 && w[9] == 76 && w[3] == 0 && w[7] == 4, "the fields");
    CHECK(w[16] == 0xa5a5a5a5 && w[31] == 0xa5a5a5a5, "the second half is left alone");
    CHECK(tensormap_decode(&m, w, why, sizeof why) && m.dim[1] == 77 && m.stride[1] == 1ull << 38,
          "%s", why);
    CHECK(tensormap_replace(w, FIELD_FILL, 0, 1, why, sizeof why) &&
              tensormap_decode(&m, w, why, sizeof why) && m.fill == 1 && tensormap_bytes(w) == 128,
          "what has no known place: our own layout");
}

int main(void) {
    for (size_t i = 0; i < sizeof kases / sizeof *kases; i++)
        test_decode(&kases[i]);
    test_refused();
    test_replaced();
    return unit_end();
}
