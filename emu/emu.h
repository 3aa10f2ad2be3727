/* emu.h: a PTX emulator for CPUs.
 *
 * It parses the PTX that ptxas assembles, runs it warp by warp under a seeded scheduler, and
 * reports broken ordering rules, bad addresses and hangs with the PTX and the source line.
 *
 *   struct emu *e = emu_new(&(struct emu_options){.part = "sm_100a", .seed = 1});
 *   struct module *m = emu_load(e, text, strlen(text), "kernel.ptx", err, sizeof err);
 *   u64 x = emu_alloc(e, n);                      device pointers are host pointers
 *   emu_launch(e, &(struct emu_launch){.fn = emu_function(m, "k"), .grid = {4,1,1}, ...});
 *   if (!emu_sync(e)) puts(emu_failure(e));
 *
 * Units: bytes.  Not thread-safe: one emu is used by one thread at a time; independent emus may run
 * in different threads or processes.  libcuda-emu.so (cuda.c) gives the same machine the CUDA
 * driver's interface.
 *
 * How it works: ir.h (decoded instructions), run.c (scheduler, divergence), launch.c (CTAs), mem.c
 * (spaces), op_*.c (instructions by chapter of the PTX ISA; list in ops.def), check.c (ordering).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_H
#define EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct emu;
struct module;
struct function;

/* --- Checks: each may be made lenient --- */

#define EMU_CHECKS(X)                                                                              \
    X(BOUNDS, "bounds", "access outside an allocation or misaligned")                              \
    X(RACE, "race", "two accesses without a happens-before order")                                 \
    X(PROXY, "proxy", "generic writes read by the async proxy without fence.proxy.async")          \
    X(TCGEN_FENCE, "tcgen05-fence",                                                                \
      "tcgen05 operations ordered by a barrier without tcgen05.fence")                             \
    X(UNINIT, "uninit", "read of a value that nothing wrote")                                      \
    X(PENDING, "pending", "register read before the asynchronous operation that fills it ended")   \
    X(MBARRIER, "mbarrier", "misuse of an mbarrier")                                               \
    X(PHASE, "phase", "a waiter can miss a phase")                                                 \
    X(BARRIER, "barrier", "mismatched bar or barrier.cluster")                                     \
    X(TMEM, "tmem", "tensor memory allocation and access rules")                                   \
    X(DSMEM, "dsmem", "shared memory of a CTA that has not started or has exited")                 \
    X(PDL, "pdl", "programmatic dependent launch rules")                                           \
    X(EXIT, "exit", "exit with asynchronous work outstanding")                                     \
    X(EXIT_STORE, "exit-store", "exit while a bulk store may still read shared memory")            \
    X(DESC, "descriptor", "illegal descriptor, shape or tensor map")                               \
    X(WARP, "warp", "warp-wide instruction executed by part of a warp")                            \
    X(RESOURCE, "resource", "launch needs more than the part has")                                 \
    X(LANES, "lanes", "lanes of one warp without a barrier between them")                          \
    X(BALANCE, "balance", "a phase of an mbarrier is part done at the end (option)")               \
    X(UNREAD, "unread", "data brought into shared or tensor memory that nothing read (option)")

enum emu_check {
#define X(n, s, t) EMU_##n,
    EMU_CHECKS(X)
#undef X
        EMU_CHECK_COUNT
};

/* Sets the checks that a list of names ("race,proxy") names, separated by commas or spaces.  "all":
 * every one; "shipped": those that programs known to run on GPUs break (docs/emulator.md).  Returns
 * where the first unknown name starts, NULL when all are known. */
const char *emu_checks_named(const char *list, bool set[EMU_CHECK_COUNT]);

/* --- Statistics --- */

#define EMU_STAT_LIST(X)                                                                           \
    X(INSNS, "warp instructions")                                                                  \
    X(CTAS, "CTAs")                                                                                \
    X(TMA_BYTES, "bytes moved by bulk copies")                                                     \
    X(MMAS, "tensor-core instructions")                                                            \
    X(LOCAL, "local memory accesses (warp instructions)")

enum emu_stat {
#define X(n, t) EMU_STAT_##n,
    EMU_STAT_LIST(X)
#undef X
        EMU_STATS
};

/* --- The part --- */

struct emu_part {
    const char *name; /* sm_100a */
    int major, minor;
    uint32_t sms;
    uint32_t smem_per_sm, smem_per_cta; /* bytes; per CTA: opt-in maximum */
    uint32_t regs_per_sm, warps_per_sm, ctas_per_sm;
    uint32_t cluster_max; /* non-portable */
    uint32_t l2_bytes;
    const char *product;
};

const struct emu_part *emu_part_find(const char *name); /* NULL when unknown */

/* --- Options --- */

enum emu_policy { EMU_RANDOM, EMU_BURSTY, EMU_INSTANT, EMU_LATE, EMU_STARVE, EMU_POLICIES };

struct emu_options {
    const char *part; /* NULL: sm_100a */
    uint64_t seed;
    enum emu_policy policy;
    bool unchecked;                /* no happens-before, no shadow state */
    bool lenient[EMU_CHECK_COUNT]; /* report nothing for these */
    bool conservative_proxy;       /* want the proxy fence in the writing thread */
    bool unread, balance;          /* checks of what is no fault by itself, see check_ends.c */
    bool late_rejoin;              /* diverged lanes meet only at .sync instructions */
    bool in_order;                 /* clusters start by number, not each among the next eight */
    bool perturb;                  /* approximate functions vary within their error bound */
    bool coverage;                 /* count executions per instruction */
    bool forms;                    /* keep the forms of instructions used (emu_forms) */
    uint32_t window;               /* CTAs resident at first, 0: 4; grows when all wait */
    uint32_t sms;                  /* SMs of the part, 0: as many as the real one has */
    uint32_t slots;                /* most CTAs resident, 0: as many as the part holds */
    uint64_t max_steps;            /* instructions of one run, 0: no limit */
    bool timing;                   /* model time: see emu_timing_ns */
    uint32_t timing_ctas;          /* most CTAs of a grid that are emulated, 0: all */
    FILE *timing_log;              /* a line for each grid and each of its warps, NULL: none */
    FILE *out;                     /* printf of kernels, NULL: stdout */
    FILE *log;                     /* reports, NULL: stderr */
    bool quiet;                    /* do not print reports, only keep them */
};

/* --- Life --- */

struct emu *emu_new(const struct emu_options *o); /* NULL: unknown part or no memory */
void emu_free(struct emu *e);
struct module *emu_load(struct emu *e, const char *text, size_t len, const char *name, char *err,
                        size_t errlen);
void emu_unload(struct emu *e, struct module *m);
struct function *emu_function(struct module *m, const char *name);

uint64_t emu_alloc(struct emu *e, uint64_t bytes); /* 256-byte aligned, 0 when out of memory */
bool emu_free_mem(struct emu *e, uint64_t addr);
/* Memory of the program, which kernels then may use and the host writes without a call.  False:
 * some of it is known already, or it is not. */
bool emu_register(struct emu *e, uint64_t addr, uint64_t bytes);
bool emu_unregister(struct emu *e, uint64_t addr);
/* Bounds of the live allocation that holds addr. */
bool emu_range(struct emu *e, uint64_t addr, uint64_t *base, uint64_t *bytes);
/* The host wrote or read these bytes (orders them before and after every kernel). */
void emu_host_write(struct emu *e, uint64_t addr, uint64_t bytes);

struct emu_launch {
    struct function *fn;
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0: as the PTX says */
    uint32_t dyn_smem;
    bool pdl;           /* programmatic stream serialisation */
    const void *params; /* laid out as the PTX declares them */
    size_t param_bytes;
};

/* Queues a grid; false: the launch is refused (see emu_failure).  The grid runs at emu_sync, or
 * when a later launch without pdl is queued. */
bool emu_launch(struct emu *e, const struct emu_launch *l);
bool emu_sync(struct emu *e); /* false: a fault, a hang or a strict report since the last reset */
const char *emu_failure(struct emu *e);
bool emu_asserted(const struct emu *e); /* the failure is an assertion of the kernel's */
void emu_reset(struct emu *e);
uint32_t emu_report_count(struct emu *e);
const char *emu_report_text(struct emu *e, uint32_t i);
uint64_t emu_stat(struct emu *e, enum emu_stat s);
/* Forms of opcodes, descriptors, layouts and tensor maps used so far, one a line (see forms.h). */
void emu_forms(struct emu *e, FILE *out);
/* Instructions that did not run and branches that went one way, of every function that was launched
 * (options.coverage). */
void emu_coverage(const struct module *m, FILE *out);
/* Resident CTAs of this shape on one SM, 0 when it does not fit. */
uint32_t emu_occupancy(struct emu *e, const struct function *f, uint32_t threads,
                       uint32_t dyn_smem);
/* Modelled time (options.timing): a coarse model, documented in timing.h, never a measurement. */
struct emu_timing_grid {
    char name[96];
    double start_ns, end_ns; /* first CTA's start, end of the last one */
    uint32_t ctas, emulated; /* of the grid, of these run */
    double dram_bytes;
};
double emu_timing_ns(const struct emu *e); /* now; 0 when time is not modelled */
uint32_t emu_timing_grids(const struct emu *e, const struct emu_timing_grid **grids);
const struct emu_part *emu_part(const struct emu *e);
const struct emu_options *emu_opts(const struct emu *e);

#endif
