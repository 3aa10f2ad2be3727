/* test_tensormap_modes.c: tensor maps of packed 4- and 6-bit types, and im2col.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensormap.h"
#include "unit.h"

/* --- Packed types --- */

/* Element i of a row of 4- or 6-bit values, contiguous from its first bit. */
static uint32_t bits_at(const uint8_t *p, uint64_t bit, uint32_t n) {
    uint32_t v = 0;
    for (uint32_t k = 0; k < n; k++)
        v |= (uint32_t)(p[(bit + k) / 8] >> (bit + k) % 8 & 1) << k;
    return v;
}

static void test_packed(void) {
    static const struct {
        enum elem_type type;
        uint32_t bits, place; /* bits of an element in global memory; of 16 of them in shared */
    } t[] = {{ELEM_B4X16, 4, 64}, {ELEM_B4X16_P64, 4, 128}, {ELEM_B6X16_P32, 6, 128}};
    static _Alignas(1024) uint8_t global[64 * 1024], back[64 * 1024], shared[32 * 1024];
    for (size_t i = 0; i < 3; i++)
        for (uint32_t sw = 0; sw < 2; sw++) {
            const uint32_t swizzle = sw ? SWIZZLE_128B : SWIZZLE_NONE, rows = 8;
            const uint64_t dims[2] = {256, 20}, strides[1] = {384};
            const uint32_t box[2] = {128, rows}, steps[2] = {1, 1};
            _Alignas(64) uint8_t map[128];
            char why[200] = "";
            for (size_t b = 0; b < sizeof global; b++)
                global[b] = (uint8_t)unit_random();
            const struct tensormap_args a = {t[i].type, 2, (uintptr_t)global, dims, strides, box,
                                             steps,     0, swizzle,           0,    0};
            CHECK(tensormap_encode(map, &a, why, sizeof why), "%s", why);
            struct tensormap_copy c = {.coord = {128, 15}, .smem = 1024};
            CHECK(tensormap_decode(&c.map, map, why, sizeof why) &&
                      tensormap_prepare(&c, 2, false, why, sizeof why),
                  "%s", why);
            const uint32_t row_bytes = t[i].place == 64 ? 64 : 128, pitch = sw ? 128 : row_bytes;
            CHECK(c.bytes == rows * 128 * t[i].bits / 8 && c.pitch == pitch, "%u bytes", c.bytes);
            memset(shared, 0x11, sizeof shared);
            tensormap_load(&c, shared, 0, c.chunks);
            for (uint32_t r = 0; r < rows; r++)
                for (uint32_t e = 0; e < 128; e++) {
                    const uint32_t at =
                        e / 16 * t[i].place + e % 16 * t[i].bits; /* bit in the row */
                    uint32_t byte = 1024 + r * pitch + at / 8;
                    uint32_t v = 0; /* may lie in two bytes, never in two chunks of 16 */
                    for (uint32_t k = 0; k < t[i].bits; k++) {
                        byte = 1024 + r * pitch + (at + k) / 8;
                        byte = sw ? byte ^ (byte >> 3 & 0x70) : byte;
                        v |= (uint32_t)(shared[byte] >> (at + k) % 8 & 1) << k;
                    }
                    const uint32_t want = 15 + r < 20 ? bits_at(global + (15 + r) * 384,
                                                                (128 + e) * t[i].bits, t[i].bits)
                                                      : 0;
                    CHECK(v == want, "type %d swizzle %u row %u element %u: %u not %u",
                          (int)t[i].type, swizzle, r, e, v, want);
                }
            if (t[i].type == ELEM_B4X16_P64) {
                CHECK(!tensormap_prepare(&c, 2, true, why, sizeof why) && strstr(why, "loads only"),
                      "%s", why);
                continue;
            }
            /* A store puts it back; six-bit values then lie one in a byte. */
            if (t[i].type == ELEM_B6X16_P32)
                for (uint32_t r = 0; r < rows; r++)
                    for (uint32_t e = 0; e < 128; e++) {
                        uint32_t byte = 1024 + r * pitch + e;
                        byte = sw ? byte ^ (byte >> 3 & 0x70) : byte;
                        shared[byte] =
                            (uint8_t)(0xc0 | bits_at(global + (15 + r) * 384, (128 + e) * 6, 6));
                    }
            memcpy(back, global, sizeof back);
            for (uint32_t r = 15; r < 20; r++)
                memset(global + r * 384 + 128 * t[i].bits / 8, 0, 128 * t[i].bits / 8);
            CHECK(tensormap_prepare(&c, 2, true, why, sizeof why), "%s", why);
            tensormap_store(&c, shared, 0, c.chunks);
            CHECK(!memcmp(back, global, sizeof back), "type %d swizzle %u: stored", (int)t[i].type,
                  swizzle);
            c.coord[0] = 1;
            CHECK(!tensormap_prepare(&c, 2, false, why, sizeof why), "coordinate 1");
        }
}

/* --- im2col --- */

/* Pixels in the order of a convolution's output: W, then H, then N of the bounding box; the example
 * of the PTX ISA, im2col mode, with corners, offsets and traversal strides. */
static void im2col_case(int lw, int uw, int lh, int uh, uint32_t sw, uint32_t sh, uint32_t ow,
                        uint32_t oh, int w0, int h0, int n0) {
    enum { C = 16, W = 9, H = 7, N = 3, PIXELS = 64 };
    static _Alignas(1024) uint16_t global[N][H][W][C];
    static _Alignas(1024) uint8_t shared[32 * 1024];
    uint16_t *g = &global[0][0][0][0];
    for (uint32_t i = 0; i < N * H * W * C; i++)
        g[i] = (uint16_t)(i + 1);
    const uint64_t dims[4] = {C, W, H, N}, strides[3] = {2 * C, 2 * C * W, 2 * C * W * H};
    const uint32_t steps[4] = {1, sw, sh, 1};
    const int lower[2] = {lw, lh}, upper[2] = {uw, uh};
    const struct tensormap_args a = {ELEM_U16, 4, (uintptr_t)g, dims, strides, NULL, steps, 0, 0,
                                     0,        0};
    const struct tensormap_im2col im = {lower, upper, 8, PIXELS};
    _Alignas(64) uint8_t map[128];
    char why[200] = "";
    CHECK(tensormap_encode_im2col(map, &a, &im, why, sizeof why), "%s", why);
    struct tensormap_copy c = {
        .mode = TENSORMAP_IM2COL, .coord = {8, w0, h0, n0}, .offset = {ow, oh, 0}, .smem = 0};
    CHECK(tensormap_decode(&c.map, map, why, sizeof why) &&
              tensormap_prepare(&c, 4, false, why, sizeof why),
          "%s", why);
    CHECK(c.bytes == PIXELS * 16, "%u bytes", c.bytes);
    memset(shared, 0xee, sizeof shared);
    tensormap_load(&c, shared, 0, c.chunks);
    int w = w0, h = h0, n = n0;
    for (uint32_t p = 0; p < PIXELS; p++) {
        for (uint32_t k = 0; k < 8; k++) {
            const int x = w + (int)ow, y = h + (int)oh;
            const bool in = x >= 0 && x < W && y >= 0 && y < H && n < N;
            const uint16_t want = in ? global[n][y][x][8 + k] : 0;
            uint16_t got;
            memcpy(&got, shared + p * 16 + k * 2, 2);
            CHECK(got == want, "pixel %u channel %u: %u not %u", p, k, got, want);
        }
        w += (int)sw; /* one step of the nest of loops */
        if (w > W - 1 + uw) {
            w = lw;
            h += (int)sh;
            if (h > H - 1 + uh) {
                h = lh;
                n++;
            }
        }
    }
}

static void test_im2col(void) {
    im2col_case(-1, -1, -1, -1, 1, 1, 0, 0, 4, 3, 0);
    im2col_case(-1, -1, -1, -1, 1, 1, 2, 2, 7, 5, 0);
    im2col_case(0, -2, 0, -2, 1, 1, 2, 1, 0, 0, 1);
    im2col_case(-1, -1, -1, -1, 2, 2, 1, 1, -1, -1, 0);
    im2col_case(-2, 1, -1, 0, 3, 2, 0, 0, 1, 2, 2);
    _Alignas(64) uint8_t map[128];
    char why[200] = "";
    const uint64_t dims[3] = {16, 9, 7}, strides[2] = {32, 288};
    const uint32_t steps[3] = {1, 1, 1};
    int lower[1] = {5}, upper[1] = {-5};
    const struct tensormap_args a = {ELEM_U16, 3, 4096, dims, strides, NULL, steps, 0, 0, 0, 0};
    CHECK(!tensormap_encode_im2col(map, &a, &(struct tensormap_im2col){lower, upper, 8, 64}, why,
                                   sizeof why) &&
              strstr(why, "empty"),
          "%s", why);
    lower[0] = 0;
    CHECK(!tensormap_encode_im2col(map, &a, &(struct tensormap_im2col){lower, upper, 8, 1025}, why,
                                   sizeof why) &&
              strstr(why, "pixelsPerColumn"),
          "%s", why);
    CHECK(tensormap_encode_im2col(map, &a, &(struct tensormap_im2col){lower, upper, 8, 64}, why,
                                  sizeof why),
          "%s", why);
    struct tensormap_copy c = {.mode = TENSORMAP_TILE};
    tensormap_decode(&c.map, map, why, sizeof why);
    CHECK(!tensormap_prepare(&c, 3, false, why, sizeof why) && strstr(why, ".im2col"), "%s", why);
}

int main(void) {
    test_packed();
    test_im2col();
    return unit_end();
}
