/* SPDX-License-Identifier: Apache-2.0
 * The planner's model on parts of any size: a slice of a GPU may report a handful of SMs. */
#include "../src/plan_model.h"
#include "test.h"

#include <math.h>

TEST(some_cluster_fits_on_every_part) {
    for (int sms = 1; sms <= 200; sms++)
        for (int n = 1; n <= 16; n++) {
            const struct plan_part part = {"sm_90a", 9, 0, sms};
            const int64_t fit = plan_cluster_capacity(&part, n);
            CHECK(fit >= n && fit % n == 0);
        }
}

/* Every way to cut a row has a finite, positive time, however few SMs there are. */
TEST(predictions_are_times) {
    struct gqa_problem p = gqa_problem_init();
    p.batch = 1;
    p.q_heads = p.kv_heads = 8;
    p.head_dim = p.head_dim_v = 128;
    p.kv_len = p.kv_len_expected = 4096;
    p.q_type = p.kv_type = p.o_type = GQA_BF16;
    gqa_problem_pack(&p, GQA_HND);
    for (int sms = 1; sms <= 160; sms += 3)
        for (int splits = 1; splits <= 64; splits++) {
            const struct plan_part part = {"sm_90a", 9, 0, sms};
            const struct candidate c = {.row = 0,
                                        .row_tiles = 1,
                                        .units = 8,
                                        .schedule = 0,
                                        .finish = splits > 1 && splits <= 16 ? 4 : 2,
                                        .splits = splits,
                                        .cluster = splits <= 16 ? splits : 1,
                                        .ctas = 8 * splits};
            const double us = plan_predict(&part, &p, &c);
            CHECK(isfinite(us) && us > 0);
        }
}

TEST_MAIN
