/* SPDX-License-Identifier: Apache-2.0
 * Tensor maps of K and V for the Blackwell kernels: boxes never straddle pages, sizes are what may
 * be read, strides are the problem's in bytes. */
#include "../src/cuda/maps.h"
#include "../src/problem.h"
#include "test.h"

static struct map_shape shape(struct gqa_problem p, int d, int is_v) {
    const struct kernel_row row = {.kv_type = p.kv_type, .head_dim = d, .group = 8};
    struct gqa_problem normal;
    struct gqa_error err;
    gqa_problem_pack(&p, GQA_HND);
    if (problem_normalise(&p, &normal, &err))
        FAIL("%s", err.message);
    return map_shape_of(&normal, &row, NULL, is_v);
}

static struct gqa_problem problem(enum gqa_type kv, int head_dim, int page_size) {
    struct gqa_problem p = gqa_problem_init();
    p.batch = 3;
    p.q_heads = 16;
    p.kv_heads = 2;
    p.head_dim = p.head_dim_v = head_dim;
    p.kv_len = 1000;
    p.q_type = p.o_type = kv == GQA_F16 ? GQA_F16 : GQA_BF16;
    p.kv_type = kv;
    p.page_size = page_size;
    p.paging = page_size ? GQA_PAGED_TABLE : GQA_CONTIGUOUS;
    return p;
}

TEST(contiguous_sizes_and_strides) {
    const struct map_shape k = shape(problem(GQA_BF16, 128, 0), 128, 0);
    CHECK_INT(k.sizes[0], 128);
    CHECK_INT(k.sizes[1], 1000);
    CHECK_INT(k.sizes[2], 2);
    CHECK_INT(k.sizes[3], 3);
    CHECK_INT(k.strides[0], 256);
    CHECK_INT(k.strides[1], 1000 * 256);
    CHECK_INT(k.strides[2], 2 * 1000 * 256);
    CHECK_INT(k.box[0], 64);
    CHECK_INT(k.box[1], 128);
    CHECK_INT(k.swizzle, CU_SWIZZLE_128);
}

TEST(a_stage_of_v_is_two_slabs_of_64_tokens_or_one_of_128) {
    CHECK_INT(shape(problem(GQA_BF16, 128, 0), 128, 1).box[1], 64);
    CHECK_INT(shape(problem(GQA_F16, 256, 0), 256, 1).box[1], 64);
    CHECK_INT(shape(problem(GQA_BF16, 64, 0), 64, 1).box[1], 128);
    CHECK_INT(shape(problem(GQA_E4M3, 128, 0), 128, 1).box[1], 128);
    CHECK_INT(shape(problem(GQA_E4M3, 128, 0), 128, 1).box[0], 128);
}

TEST(fp8_heads_of_64_use_the_narrow_swizzle) {
    const struct map_shape k = shape(problem(GQA_E5M2, 64, 0), 64, 0);
    CHECK_INT(k.swizzle, CU_SWIZZLE_64);
    CHECK_INT(k.box[0], 64);
    CHECK_INT(k.type, CU_TENSOR_BYTES);
}

TEST(boxes_divide_pages) {
    static const int pages[] = {1, 2, 3, 8, 16, 24, 48, 64, 100, 128, 192, 256, 1024};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        for (int is_v = 0; is_v < 2; is_v++) {
            const struct map_shape x = shape(problem(GQA_BF16, 128, pages[i]), 128, is_v);
            CHECK_INT(pages[i] % (int)x.box[1], 0);
            CHECK_INT((is_v ? 64 : 128) % (int)x.box[1], 0);
            CHECK_INT(x.sizes[1], pages[i] < 1000 ? pages[i] : 1000);
        }
}

/* Boxes divide the page that the kernel counts with, which lies in the caller's and holds what is
 * in use. */
TEST(pages_larger_than_the_cache) {
    static const int pages[] = {1, 7, 16, 64, 100, 128, 256, 300, 4096, INT32_MAX};
    static const int64_t lens[] = {0, 1, 10, 127, 128, 255, 256, 257, 300, 5000, INT32_MAX};
    const struct kernel_row row = {.kv_type = GQA_BF16, .head_dim = 64, .group = 8};
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 11; j++) {
            struct gqa_problem p = problem(GQA_BF16, 64, pages[i]);
            p.kv_len = lens[j];
            const int32_t used = page_tokens(&p);
            const struct map_shape k = map_shape_of(&p, &row, NULL, 0);
            const struct map_shape v = map_shape_of(&p, &row, NULL, 1);
            CHECK(used > 0 && used <= pages[i] && (used == pages[i] || used >= lens[j]));
            CHECK(used % (int)k.box[1] == 0 && used % (int)v.box[1] == 0);
            const int64_t rows = lens[j] < pages[i] ? lens[j] : pages[i];
            CHECK_INT(k.sizes[1], rows > 0 ? rows : 1);
            CHECK(used == pages[i] || k.box[1] == 128);
        }
}

TEST(unknown_page_counts_and_empty_caches_have_a_size) {
    struct gqa_problem p = problem(GQA_BF16, 128, 16);
    CHECK_INT(shape(p, 128, 0).sizes[3], INT32_MAX);
    p.num_pages = 77;
    CHECK_INT(shape(p, 128, 0).sizes[3], 77);
    p = problem(GQA_BF16, 128, 0);
    p.kv_len = 0;
    CHECK_INT(shape(p, 128, 0).sizes[1], 1);
}

/* Narrower heads than the kernel's: what lies beyond is out of bounds and so reads as zeros. */
TEST(narrow_heads_end_where_they_end) {
    CHECK_INT(shape(problem(GQA_BF16, 80, 0), 128, 0).sizes[0], 80);
    CHECK_INT(shape(problem(GQA_BF16, 80, 0), 128, 0).box[0], 64);
}

TEST_MAIN
