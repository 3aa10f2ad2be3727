/* timing_part.c: the constants of the timing model, with their sources.
 *
 *   M   measured on an H200 by this project: docs/benchmarks-gpu.md, docs/traces.md
 *   F   fitted to whole-kernel times of an H200 (docs/traces.md)
 *   P   published: [H] arXiv 2402.13499 (Hopper microbenchmarks), [B] measurements of tcgen05 and
 *       TMA on a B200 that NVIDIA kernel authors published, [G] CUDA C Programming Guide,
 *       throughput tables and compute capabilities
 *   A   assumed: nothing was found
 * SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"
#include <string.h>

static const struct time_part parts[] = {
    {.name = "sm_90a",
     .ghz = 1.98,            /* M */
     .hbm = 4700 / 1.98,     /* M: 4.68 TB/s, bulk copies of 1 GiB */
     .l2 = 5500 / 1.98,      /* P [H], about 2.6 times the rate of DRAM of an H100 */
     .link = 98,             /* M: 194 GB/s, two warps' bulk copies */
     .hbm_latency = 750,     /* M: a bulk copy of 16 KB, one at a time, in 0.60 us */
     .l2_latency = 263,      /* P [H] */
     .tma_latency = 80,      /* M: 2 KB from L2 in 322 to 344 */
     .tma_op = 28,           /* M: at most; two warps that issue do not hold each other up */
     .tma_row = 1,           /* A */
     .bulk_lane = 56,        /* M: 28 ns */
     .bulk_issue = 124,      /* M: 0.16 us from copy to copy of a warp */
     .store_latency = 400,   /* A */
     .smem_latency = 29,     /* P [H] */
     .dsmem_latency = 180,   /* P [H] */
     .dsmem = 32,            /* A */
     .mbar_latency = 20,     /* M: arrive and own try_wait 51 to 56, less both instructions */
     .try_limit = 1000,      /* A */
     .bar_latency = 20,      /* A */
     .cluster_latency = 190, /* P [H], as one hop */
     .alu = 4.5,             /* P [H] 4 to 5 */
     .fp = 4,                /* P [H] */
     .mufu = 18,             /* A */
     .cvt = 8,               /* A */
     .shfl = 23,             /* P [H] */
     .int_busy = 3,          /* F: 2 by [G], more for what ptxas adds to the PTX */
     .mma_sync_latency = 33, /* P [H] */
     .mma_sync_busy = 6.5,   /* P [H]: 62 % of wgmma's rate */
     .tensor_latency = 60,   /* A */
     .tmem_latency = 0,
     .icache_line = 25, /* F */
     .const_miss = 300, /* A */
     .launch_gap = 850, /* M: 0.51 to 0.56 us from node to node, less the empty kernel itself */
     .launch_interval = 800, /* M: 0.41 us a node in a chain of PDL edges */
     .pdl_gap = 300,         /* A */
     .pdl_wait = 1000,       /* F: the floor with PDL at 4 and 8 MB */
     .cta_launch = 150,      /* A */
     .cta_interval = 0.75,   /* M: 132 CTAs cost 0.05 to 0.1 us more than one */
     .cluster_gap = 380,     /* M: 0.19 us more for clusters of 8 or 16 */
     .clusters = {132, 66, 30, 15, 7} /* M */},
    {.name = "sm_100a",
     .ghz = 1.965,         /* P [B] */
     .hbm = 7260 / 1.965,  /* P [B]: 128 KB in flight per SM */
     .l2 = 10000 / 1.965,  /* A */
     .link = 64,           /* P [G] */
     .hbm_latency = 850,   /* P [B]: 930 for a box, less tma_latency */
     .l2_latency = 270,    /* A: as Hopper's */
     .tma_latency = 80,    /* A: as Hopper's */
     .tma_op = 79,         /* A: as Hopper's */
     .tma_row = 1,         /* A */
     .store_latency = 400, /* A */
     .smem_latency = 29,   /* A: as Hopper's, and so on */
     .dsmem_latency = 180,
     .dsmem = 32,
     .mbar_latency = 20,
     .try_limit = 1000,
     .bar_latency = 20,
     .cluster_latency = 190,
     .alu = 4.5,
     .fp = 4,
     .mufu = 18,
     .cvt = 8,
     .shfl = 23,
     .int_busy = 1.5, /* A: 1 (unified pipes), and the H200's surplus */
     .mma_sync_latency = 33,
     .mma_sync_busy = 6.5,
     .tensor_latency = 110, /* P [B]: N/2 + 136 for M 128 from issue to the end of the wait */
     .tmem_latency = 30,    /* A: no trustworthy public number */
     .icache_line = 25,
     .const_miss = 300,
     .launch_gap = 850,
     .launch_interval = 800,
     .pdl_gap = 300,
     .pdl_wait = 500,
     .cta_launch = 150,
     .cta_interval = 0.75,
     .cluster_gap = 380,
     .clusters = {148, 74, 34, 16, 8} /* A: 8 GPCs of 18 to 20 SMs */},
};

const struct time_part *time_part_find(const char *name) {
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (!strcmp(parts[k].name, name))
            return &parts[k];
    return !strcmp(name, "sm_103a") ? &parts[1] : NULL;
}
