/* timing.h: the coarse timing layer (options.timing): a model, not a measurement.
 *
 * Off, it costs a null-pointer test here and there.  On, the scheduler is no longer random: every
 * warp has a clock in cycles of the SM, every asynchronous item a time at which it ends, and the
 * earliest event runs next, so that waiting costs what it should.  What is modelled:
 *
 *   issue      four schedulers per SM, one instruction a cycle each, fewer for wide operations;
 *              registers are ready after a latency by class; ptxas is taken to schedule perfectly
 *              between two operations with side effects, which wait for what stands before them
 *   pipes      MUFU, conversions, shared memory (with bank conflicts), tensor cores, tensor memory
 *   memory     one server each for DRAM and L2, a link and a copy engine per SM, first in first out
 *   grids      launch gaps, cold instruction lines, PDL, room on each SM (threads, shared memory)
 *
 * %clock64 is the warp's modelled cycle count, common to all SMs; %globaltimer is the same in
 * nanoseconds.  Both start at 0 with the emulator and grow over all launches.
 *
 * A grid of more CTAs than options.timing_ctas is sampled: a machine of a fraction of the SMs runs
 * that fraction of the clusters, spread evenly over the grid, and each of its bytes weighs as much
 * more at DRAM and L2.  The results of a sampled run are not the kernel's.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_TIME_H
#define EMU_TIME_H

#include "machine.h"

/* Constants of a part: cycles of the SM clock, bytes per cycle.  Sources: timing_part.c. */
struct time_part {
    const char *name;
    double ghz;
    double hbm, l2, link; /* bytes a cycle: DRAM, L2, from L2 to one SM */
    double hbm_latency;   /* load instruction to register, from DRAM */
    double l2_latency;    /* the same from L2 */
    double tma_latency;   /* added when a bulk copy does it */
    double tma_op;        /* the copy engine of an SM is busy at least so long with an operation */
    double tma_row;       /* and so long with each row of a box */
    double bulk_lane;     /* a bulk copy into shared memory holds its warp so long per lane */
    double bulk_issue;    /* and so long on top, before its next instruction */
    double store_latency; /* until a write is visible to the next grid */
    double smem_latency, dsmem_latency, dsmem; /* dsmem: bytes a cycle of one SM */
    double mbar_latency; /* from the last arrival to the waiter's next instruction */
    double try_limit;    /* a try_wait that fails answers after this */
    double bar_latency, cluster_latency;
    double alu, fp, mufu, cvt, shfl; /* latencies */
    double int_busy;                 /* cycles of a scheduler's pipe per integer warp instruction */
    double mma_sync_latency, mma_sync_busy; /* m16n8k16 */
    double tensor_latency;                  /* tcgen05.mma or wgmma to commit */
    double tmem_latency;                    /* tcgen05.ld, first column */
    double icache_line, const_miss;         /* cold, per grid and SM */
    double launch_gap;                      /* last CTA's end to first CTA's start */
    double launch_interval;                 /* between the starts of two grids at least */
    double pdl_gap,
        pdl_wait; /* trigger to start; end of the primary to griddepcontrol.wait's end */
    double cta_launch, cta_interval, cluster_gap;
    unsigned clusters[5]; /* resident at most, of 1, 2, 4, 8, 16 CTAs that fill an SM each */
};
const struct time_part *time_part_find(const char *name);

enum { TIME_WAITS = 10 };

/* What one warp of the CTA did, summed over the CTAs. */
struct time_count {
    u64 insns, mbar_arrive, mbar_wait, bars, tmem_ld, tmem_st, smem, mufu, mmas, tma_ops, tma_bytes;
    double slots, mma_busy, busy, life;
    double wait[TIME_WAITS]; /* by enum of wait keys; 0 unused */
};

/* --- Called by the machine when emu.timing is set --- */

struct timing *time_new(const struct emu_part *p);
void time_free(struct emu *e);
void time_loop(struct emu *e);
/* A split can run again (woken now), or a warp starts. */
void time_woken(struct emu *e, struct warp *w, struct split *s);
void time_ready(struct emu *e, struct warp *w);
void time_unready(struct emu *e, struct warp *w);
void time_abandon(struct emu *e);
void time_warp_start(struct emu *e, struct warp *w);
void time_warp_free(struct warp *w);
void time_sleep(struct warp *w, u64 ns);
u64 time_clock(const struct warp *w);
u64 time_globaltimer(const struct warp *w);
/* An item: global bytes that it reads or writes (call before it is posted), and its post. */
void time_touch(struct emu *e, struct item *it, u64 addr, u64 bytes);
void time_post(struct emu *e, struct item *it, struct agent *queue, enum agent_kind kind);
/* Grids. */
void time_grid_new(struct emu *e, struct grid *g);
void time_grid_triggered(struct emu *e, struct grid *g);
void time_grid_end(struct emu *e, struct grid *g);
void time_grid_free(struct grid *g);
void time_place(struct emu *e, struct grid *g, struct cluster *cl);
void time_cluster_end(struct emu *e, struct cluster *cl);
void time_write(struct emu *e, const struct grid *g, const struct emu_timing_grid *l);

/* --- Inside --- */

enum time_kind {
    TK_PLAIN,
    TK_GLOBAL_LD,
    TK_GLOBAL_ST,
    TK_GLOBAL_ATOM,
    TK_SHARED,
    TK_MATRIX_LD,
    TK_TMEM_LD,
    TK_TMEM_ST,
    TK_TMEM_WAIT,
    TK_PARAM,
    TK_MMA_SYNC,
    TK_ARRIVE,
    TK_WAIT,
    TK_BAR
};
enum time_pipe { TP_NONE, TP_ALU, TP_FP, TP_MUFU, TP_CVT, TP_MMA, TP_SM_LSU, TIME_PIPES };

/* How an instruction is charged; one per instruction of a function. */
struct time_op {
    u8 kind, pipe;
    bool sync; /* waits for everything before it */
    u8 units;  /* instructions of the machine that it becomes, 0: none */
    u16 bytes; /* of one lane: shared or global access; columns of a tensor memory access */
    float busy, latency;
};
/* Fills ops[ncode] and, for each use, a dense register number; returns the count of numbers. */
u32 time_classify(const struct time_part *p, const struct function *f, struct time_op *ops,
                  u16 *use_id);

/* A pipe that is asked in any order of time: cycles taken of each stretch, from `base` on. */
enum { TIME_STRETCH = 16, TIME_STRETCHES = 128 };
struct time_lane {
    u64 base;
    float used[TIME_STRETCHES]; /* of stretch s at s % TIME_STRETCHES */
};

struct time_sm {
    double slot[4], link, tma, tensor, dsmem;
    struct time_lane pipe[4][TIME_PIPES], lsu;
    u32 smem, warps, ctas, regs;
};

/* Lines of 128 bytes last moved, and when, in bytes that went through L2. */
struct time_line {
    u64 line;
    double at;
};

struct time_event {
    double at;
    u64 order;
    struct warp *w;
    struct agent *a;
};

struct time_fn { /* per function */
    const struct function *f;
    struct time_op *ops;
    u16 *use_id;
    u32 nregs;
    struct time_fn *next;
};

struct time_grid {
    struct time_fn *fn;
    double *line_ready;  /* [sm][line] */
    double *param_ready; /* [sm] */
    u32 lines, sms, clusters, live_clusters, ctas_total;
    u32 smem, warps, regs; /* of a CTA */
    double weight;         /* CTAs of the grid for one emulated */
    double start, triggered, first, bytes;
    bool is_triggered;
    struct time_count count[MAX_WARPS];
};

struct timing {
    const struct time_part *p;
    struct time_sm *sm;
    u32 sms;
    double now, hbm, l2, through, l2_bytes;
    double last_end, last_start, last_trigger, cta_engine;
    u64 order;
    struct time_event *heap;
    u32 n, cap;
    struct time_line *line;
    u32 line_mask;
    struct time_fn *fns;
    struct emu_timing_grid *log;
    u32 nlog, log_cap;
};

struct warp_time {
    double t, last_start, tmem, began, blocked_at;
    double bulk; /* until then lanes issue bulk copies */
    u32 line;    /* instruction line last fetched */
    double ready[];
};

/* timing_cost.c: pipes and memory.  The time at which the instruction's results are ready. */
double time_execute(struct emu *e, struct warp *w, const struct insn *i, const struct time_op *o,
                    u32 m, double start);
/* When an item that is posted now ends; when its next step ends. */
double time_item(struct emu *e, struct item *it, enum agent_kind kind);
double time_item_again(struct emu *e, struct item *it, enum agent_kind kind);

/* timing_grid.c: when the next cluster can start; infinite when none can. */
double time_next_cluster(struct emu *e);

#endif
