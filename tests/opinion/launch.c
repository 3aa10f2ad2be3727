/* SPDX-License-Identifier: Apache-2.0
 * One launch of a Blackwell kernel in the words of SentryWard's input (its docs/input-json.md):
 * grid, parameters by offset, tensor maps. One sequence, one KV head, bf16.
 *
 *   launch KERNEL TOKENS FINISH     FINISH: output, partial or cluster (two CTAs)
 *
 * Further arguments LINE=0 or LINE=1 say which way a branch of the PTX goes that depends on data.
 */
#include "../../src/cuda/args.h"
#include "../../src/cuda/shape.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gqa_args a;

/* --- The launch --- */

struct launch {
    const char *kernel;
    int head_dim, rows, warps, ctas, cluster;
};

static struct gqa_arg_strides packed(int tokens, int heads, int dim) {
    return (struct gqa_arg_strides){(int64_t)tokens * heads * dim, dim, (int64_t)tokens * dim};
}

static void fill(const struct launch *x, int tokens, const char *finish) {
    a.kv_len = tokens;
    a.batch = a.kv_heads = a.row_tiles = a.units = a.q_tokens = 1;
    a.q_heads = a.group = x->rows;
    a.head_dim = a.head_dim_v = x->head_dim;
    a.q_stride = a.o_stride = packed(1, x->rows, x->head_dim);
    a.k_stride = a.v_stride = packed(tokens, 1, x->head_dim);
    a.window_left = -1;
    a.q_type = a.o_type = GQA_ARG_BF16;
    a.scale = 0.125f;
    a.scale_log2 = 0.125f * 1.44269504f;
    a.schedule = GQA_SCHED_SPLITS;
    a.finish = !strcmp(finish, "cluster")   ? GQA_FINISH_CLUSTER
               : !strcmp(finish, "partial") ? GQA_FINISH_PARTIAL
                                            : GQA_FINISH_OUTPUT;
    a.splits = a.ctas = x->ctas;
    a.by_splits = gqa_divisor_of((uint32_t)a.splits);
    a.by_row_tiles = a.by_sequence = a.by_page = gqa_divisor_of(1);
    a.by_group = gqa_divisor_of((uint32_t)a.group);
    a.part_rows = x->rows;
    a.part_dim = x->head_dim;
    a.part_v_factor = 1;
    a.combine_ways = 1;
}

/* --- JSON --- */

static const char *separator = "";

static void scalar(const char *type, size_t offset, long long value) {
    printf("%s\n  {\"parameter\": 0, \"offset\": %zu, \"type\": \"%s\", \"value\": %lld}",
           separator, offset, type, value);
    separator = ",";
}

static void number(size_t offset) {
    float x;
    memcpy(&x, (const char *)&a + offset, sizeof x);
    printf("%s\n  {\"parameter\": 0, \"offset\": %zu, \"type\": \"f32\", \"value\": %.9g}",
           separator, offset, (double)x);
    separator = ",";
}

/* Four-byte fields from one member to another. */
static void words(size_t from, size_t to) {
    for (size_t at = from; at < to; at += 4) {
        int32_t x;
        memcpy(&x, (const char *)&a + at, sizeof x);
        scalar("s32", at, x);
    }
}

static void strides(size_t offset) {
    for (size_t at = offset; at < offset + sizeof(struct gqa_arg_strides); at += 8) {
        int64_t x;
        memcpy(&x, (const char *)&a + at, sizeof x);
        scalar("s64", at, x);
    }
}

#define AT(member) offsetof(struct gqa_args, member)

static const struct {
    const char *name;
    size_t offset;
} pointers[] = {{"q", AT(q)}, {"k", AT(k)},           {"v", AT(v)},
                {"o", AT(o)}, {"part_o", AT(part_o)}, {"part_ml", AT(part_ml)}},
  nulls[] = {{NULL, AT(lse)},          {NULL, AT(kv_lens)}, {NULL, AT(cu_seqlens_q)},
             {NULL, AT(batch_index)},  {NULL, AT(pages)},   {NULL, AT(page_indptr)},
             {NULL, AT(k_scale)},      {NULL, AT(v_scale)}, {NULL, AT(sinks)},
             {NULL, AT(last_page_len)}};

enum { POINTERS = sizeof pointers / sizeof *pointers, NULLS = sizeof nulls / sizeof *nulls };

static void declarations(void) {
    printf("\"declarations\": [\n"
           "  {\"parameter\": 0, \"offset\": %zu, \"type\": \"tensor_map\", \"object\": \"k\"},\n"
           "  {\"parameter\": 0, \"offset\": %zu, \"type\": \"tensor_map\", \"object\": \"v\"}",
           AT(k_map), AT(v_map));
    for (size_t i = 0; i < POINTERS; i++)
        printf(",\n  {\"parameter\": 0, \"offset\": %zu, \"type\": \"pointer\", \"space\": "
               "\"global\", \"object\": \"%s\"}",
               pointers[i].offset, pointers[i].name);
    puts("],");
}

static void arguments(void) {
    printf("\"arguments\": [");
    for (size_t i = 0; i < NULLS; i++) {
        printf("%s\n  {\"parameter\": 0, \"offset\": %zu, \"type\": \"pointer\", \"value\": null}",
               separator, nulls[i].offset);
        separator = ",";
    }
    words(AT(part_rows), AT(part_v_factor));
    number(AT(part_v_factor));
    words(AT(combine_ways), AT(combine_ways) + 4);
    strides(AT(q_stride));
    strides(AT(k_stride));
    strides(AT(v_stride));
    strides(AT(o_stride));
    strides(AT(lse_stride));
    scalar("s64", AT(page_stride), a.page_stride);
    words(AT(batch), AT(scale_log2));
    number(AT(scale_log2));
    number(AT(softcap));
    number(AT(scale));
    words(AT(schedule), AT(by_page) + sizeof a.by_page);
    puts("],");
}

static void map(const struct launch *x, const char *object, size_t offset, int box_tokens) {
    const int d = x->head_dim, span = GQA_SM100_SPAN(2, d);
    printf(
        "%s\n  {\"parameter\": 0, \"offset\": %zu, \"object\": \"%s\", \"element_type\": \"bf16\", "
        "\"rank\": 4, \"base_byte_offset\": 0,\n"
        "   \"global_shape\": [%d, %d, 1, 1], \"box_shape\": [%d, %d, 1, 1],\n"
        "   \"global_strides_bytes\": [%d, %d, %d], \"element_strides\": [1, 1, 1, 1],\n"
        "   \"swizzle\": \"%dB\", \"interleave\": \"none\", \"oob_fill\": \"zero\"}",
        offset ? "," : "", offset, object, d, a.kv_len, span / 2, box_tokens, d * 2,
        a.kv_len * d * 2, a.kv_len * d * 2, span);
}

int main(int argc, char **argv) {
    struct launch x = {.ctas = 1};
    char arch[8];
    if (argc < 4 ||
        sscanf(argv[1], "gqa_decode_%7[a-z0-9]_bf16_d%d_g%d", arch, &x.head_dim, &x.rows) != 3) {
        fprintf(stderr, "usage: launch KERNEL TOKENS output|partial|cluster\n");
        return 2;
    }
    x.kernel = argv[1];
    x.warps = strchr("ou", arch[5]) && arch[5] ? GQA_WARPS_sm100o(2, x.head_dim, x.rows)
                                               : GQA_WARPS_sm100(2, x.head_dim, x.rows);
    x.ctas = x.cluster = strcmp(argv[3], "output") ? 2 : 1;
    fill(&x, atoi(argv[2]), argv[3]);
    printf("{\"schema\": \"spverify.kernel-input/v1\", \"entry\": \"%s\",\n"
           "\"launch\": {\"grid_dim\": [%d, 1, 1], \"block_dim\": [%d, 1, 1], "
           "\"dynamic_shared_bytes\": %d%s},\n",
           x.kernel, x.ctas, 32 * x.warps, GQA_SMEM_sm100(2, x.head_dim, x.rows),
           strcmp(argv[3], "cluster") ? "" : ", \"cluster_dim\": [2, 1, 1]");
    declarations();
    arguments();
    printf("\"tma_descriptors\": [");
    map(&x, "k", AT(k_map), GQA_SM100_K_TOKENS);
    map(&x, "v", AT(v_map), GQA_SM100_V_TOKENS(2, x.head_dim));
    puts("],");
    /* Branches on data (a row without weight, a raised maximum) fall through. */
    puts("\"assumptions\": {\"representative_branches\": true}}");
    return 0;
}
