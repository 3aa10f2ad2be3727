/* SPDX-License-Identifier: Apache-2.0
 * The published split rules, on the shapes for which their sources state the answer. */
#include "../src/split_sm100.h"
#include "test.h"

static struct split_choice choose(const char *rule, int head_dim, int64_t units, int64_t kv_len) {
    const struct split_shape x = {148, head_dim, units, kv_len};
    return split_rule_find(rule)->choose(&x);
}

TEST(rules_are_found_by_name) {
    CHECK(split_rule_find("blog") && split_rule_find("simple") && split_rule_find("opt"));
    CHECK(!split_rule_find("bloh") && !split_rule_find(""));
}

TEST(split_counts_on_148_sms) {
    static const struct {
        int64_t units, kv_len;
        int simple, opt, blog;
    } rows[] = {{8, 8192, 16, 18, 8}, {8, 1024, 2, 4, 2},      {32, 8192, 9, 9, 2},
                {256, 1024, 1, 1, 1}, {1, 32768, 64, 128, 32}, {8, 0, 1, 1, 1},
                {8, 1, 1, 1, 1},      {0, 4096, 8, 16, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(choose("simple", 128, rows[i].units, rows[i].kv_len).splits, rows[i].simple);
        CHECK_INT(choose("opt", 128, rows[i].units, rows[i].kv_len).splits, rows[i].opt);
        CHECK_INT(choose("blog", 128, rows[i].units, rows[i].kv_len).splits, rows[i].blog);
    }
}

TEST(blog_wants_twice_the_ctas_at_head_dim_64) {
    CHECK_INT(choose("blog", 64, 8, 65536).splits, 16);
    CHECK_INT(choose("blog", 128, 8, 65536).splits, 8);
    CHECK_INT(choose("blog", 64, 2, 1 << 20).splits, 32);
}

/* At most four splits, or eight with at most 64 CTAs. */
TEST(blog_adds_atomically_where_clusters_fit) {
    CHECK(!choose("blog", 128, 64, 65536).atomic);
    CHECK(choose("blog", 128, 32, 65536).atomic); /* 2 */
    CHECK(choose("blog", 128, 16, 65536).atomic); /* 4 */
    CHECK(choose("blog", 128, 8, 65536).atomic);  /* 8 x 8 = 64 CTAs */
    CHECK(!choose("blog", 64, 16, 65536).atomic); /* 8 x 16 = 128 CTAs */
    CHECK(!choose("blog", 128, 4, 65536).atomic); /* 16 */
    CHECK_INT(choose("blog", 64, 16, 65536).splits, 8);
    CHECK_INT(choose("blog", 128, 4, 65536).splits, 16);
}

TEST(no_rule_makes_an_empty_grid_or_needless_splits) {
    for (const struct split_rule *r = split_rules; r->name; r++)
        for (int64_t units = 0; units < 400; units += 7)
            for (int64_t len = 0; len < 70000; len = len * 3 + 1) {
                const struct split_shape x = {148, 128, units, len};
                const struct split_choice y = r->choose(&x);
                CHECK(y.splits >= 1);
                CHECK(y.splits == 1 || (int64_t)y.splits * 256 < len + 256);
                CHECK(!y.atomic ||
                      (y.splits > 1 && y.splits <= 16 && !(y.splits & (y.splits - 1))));
            }
}

TEST_MAIN
