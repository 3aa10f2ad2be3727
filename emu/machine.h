/* machine.h: the machine that runs the instructions: grids, clusters, CTAs, warps, barriers,
 * asynchronous agents.  Shared by run.c, launch.c, mem.c, check.c and the op_*.c files only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include "emu.h"
#include "ir.h"
#include <setjmp.h>

enum {
    MAX_WARPS = 32,
    MAX_CLUSTER = 16,
    MAX_JOINS = 64,
    NAMED_BARRIERS = 16,
    TMEM_LANES = 128,
    TMEM_COLUMNS = 512,
    SMEM_RESERVED = 1024 /* the system's part at the start of the shared window, sm_90 and up */
};

struct cta;
struct grid;
struct clock;
struct shadow;

/* --- Random numbers: splitmix64, the only source of chance --- */

static inline u64 rng_next(u64 *s) {
    u64 z = (*s += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
static inline u32 rng_below(u64 *s, u32 n) {
    return (u32)(((rng_next(s) >> 32) * n) >> 32);
}

/* --- Warps --- */

enum split_state { SPLIT_RUN, SPLIT_BLOCKED, SPLIT_COLLECT };

struct split {
    double t; /* timing: it cannot go on earlier */
    u32 pc, mask;
    u32 join_pc; /* of the record below, REF_NONE when there is none */
    s32 join;    /* record it will arrive at, -1 none */
    u8 state;
    u64 token;     /* barrier generation it arrived in, plus one */
    u8 wake_false; /* a try_wait that was woken without its phase: answer false once */
    u64 key;       /* what it waits for */
    const char *why;
};

/* Where diverged lanes meet again. */
struct join {
    u32 pc, want, have;
    s32 parent;
    bool used;
};

struct group_ring;
struct deferred;

struct warp {
    u8 *bank[4];
    struct cta *cta;
    const struct insn *code;
    struct split splits[LANES];
    u32 nsplits, cur;
    u32 live; /* lanes that have not exited */
    struct join joins[MAX_JOINS];
    u32 id; /* in the CTA */
    u8 *local;
    u64 steps;
    u64 alloc_lo, alloc_hi; /* last allocation hit by a generic or global access */
    u64 bar_seen;
    u32 cluster_arrived; /* lanes arrived, phase not yet waited for */
    u32 nreg;            /* registers of a thread, see setmaxnreg */
    u64 cluster_gen;
    u32 cc; /* carry flags, one lane a bit */
    s32 priority;
    struct group_ring *cp_async, *bulk; /* 32 each, allocated at first use (groups.h) */
    u32 cp_pending[LANES];              /* cp.async copies under way */
    u64 async_seq;
    struct deferred *deferred; /* arrivals that wait for cp.async copies */
    u32 tcgen_ld, tcgen_st;    /* asynchronous tcgen05.ld / st outstanding */
    struct wgmma_state *wgmma;
    struct warp_check *check; /* NULL when unchecked */
    struct warp_time *time;   /* NULL without timing */
    s32 ready_slot;           /* in emu.ready, -1 */
    bool done;
};

/* --- Barriers --- */

struct named_barrier {
    u32 expected; /* threads, 0 when idle */
    u32 arrived;
    u64 generation;
    u32 warps; /* warps that arrived in this generation */
    u32 red_and, red_or, red_popc;
    u32 out_and, out_or, out_popc;
    struct clock *clock, *out_clock;
    u32 waiting_split[MAX_WARPS];
};

/* A warp's last successful wait by parity, see check_waits.c. */
struct mbar_waiter {
    u32 phase; /* completed phases then */
    u32 lanes, epoch, together, loc;
};

struct mbarrier {
    u32 addr; /* offset in the CTA's shared memory */
    bool live;
    u64 phase; /* completed phases */
    s32 pending, expected, next_expected;
    s32 tx;
    u32 seen_mask;      /* unused bits free */
    u32 last_arrive[4]; /* warp id << 24 | ptx line, most recent first */
    u64 waited_phase;   /* highest phase that some wait observed */
    struct clock *clock, *out_clock;
    u32 last_serial, init_who, init_epoch, init_loc; /* for the checker */
    bool fence_seen;
    u32 parked;          /* warps whose last wait failed */
    u8 waits[MAX_WARPS]; /* phases waited for one after the other */
    u64 seen[MAX_WARPS];
    u64 wanted[MAX_WARPS]; /* phase that was open at the last failed wait: it is waited for */
    struct mbar_waiter waiter[MAX_WARPS];
    const char *name;
};

struct tmem {
    u32 *cell;               /* [lane][column] */
    u16 owner[TMEM_COLUMNS]; /* allocation number, 0 free */
    u32 nallocs;
    bool relinquished;
};

/* --- Asynchronous agents --- */

struct agent {
    struct item *head, *tail;
    s32 slot; /* in emu.active, -1 when idle */
    u8 kind;
};

enum agent_kind {
    AG_TMA_LOAD,
    AG_TMA_STORE,
    AG_TENSOR,
    AG_CP_ASYNC,
    AG_REMOTE,
    AG_TMEM_LD,
    AG_WGMMA,
    AG_CLC,
    AG_KINDS
};

struct item {
    struct item *next;
    struct agent *agent; /* own or shared in-order queue */
    struct agent own;
    struct cta *cta; /* issuing */
    struct grid *grid;
    bool (*step)(struct emu *e, struct item *it); /* true when finished */
    struct clock *clock;                          /* of the issuing thread */
    u32 warp, lane, loc, pc;
    double at, bytes, miss, busy; /* timing: end, global bytes, of these from DRAM, tensor cycles */
    u32 rows;                     /* timing: ranges touched */
    bool remote;   /* timing: within the cluster; of a store: another lane makes it too */
    bool atomic;   /* its global writes are element-wise atomic */
    bool has_read; /* a store that no longer needs its CTA's shared memory */
    struct item_check *check;
    u8 *copy;      /* what a store has read of shared memory, or NULL; freed with the item */
    void *payload; /* behind the item, in the same allocation */
};

/* --- CTAs, clusters, grids --- */

struct cta {
    struct grid *grid;
    struct cluster *cluster;
    u32 id[3];
    u32 rank;
    u32 nwarps, live_warps;
    struct warp *warps;
    u8 *smem;
    u32 smem_lo, smem_hi; /* valid offsets */
    u32 nthreads;
    u8 *cta_bank;
    u8 *regs;
    size_t regs_cap, smem_cap, local_cap, warp_cap, cta_cap;
    u8 *locals;
    u8 *warp_bank;
    struct named_barrier bar[NAMED_BARRIERS];
    struct mbarrier *mbar;
    u32 nmbar, mbar_cap;
    u16 *mbar_at; /* per 8 bytes of smem: index + 1 */
    size_t mbar_at_cap;
    struct tmem *tmem;
    struct agent tensor; /* tcgen05 pipe; of the even CTA for a pair */
    u32 sm;
    bool launched_dependents, exited, started;
    u32 outstanding; /* asynchronous items that touch this CTA */
    struct cta_check *check;
    struct cta *next_free;
    struct warpgroup **wg; /* op_wgmma.c */
    bool reg_budget;       /* setmaxnreg has an effect */
    u32 regs_free;
};

struct cluster {
    struct cta *cta[MAX_CLUSTER];
    u32 n, live;
    u32 id[3];
    u32 expected, arrived;
    u64 generation;
    struct clock *clock, *out_clock;
    u32 index;  /* in emu.clusters */
    u32 number; /* for the checker, from 1 */
};

struct grid {
    struct emu *emu;
    struct function *fn;
    u8 *params;
    u32 dim[3], block[3], cluster_dim[3];
    u32 dyn_smem;
    u64 nclusters, next_cluster, done_clusters;
    u64 ctas_launched; /* that executed launch_dependents or exited */
    u64 ctas_started;
    struct grid *primary; /* PDL: this grid may start before it ended */
    bool pdl, done, started;
    bool waited; /* some thread passed griddepcontrol.wait */
    u64 id;
    /* Grids that may still run when this one starts: older ones have ended. And, where the grid
     * before ended without a wait, those that may still run when it is waited for: [lo, hi). */
    u64 oldest, loose_lo, loose_hi;
    u32 *order; /* dispatch order */
    struct grid *next;
    u64 smid;
    struct clock *end_clock;
    struct time_grid *time;
    u64 insns;
    u64 workspace; /* of cooperative launches, made when %envreg1 or %envreg2 is read */
};

struct allocation {
    u64 addr, bytes;
    u64 shadow; /* 0: in the range of device memory; else registered memory of the program */
    bool live, read_only;
    bool host; /* the host writes it without a call: read as if written */
    bool managed, mapped;
    u32 serial;
};

struct report {
    char *text;
    u32 count;
};

struct emu {
    struct emu_options opt;
    const struct emu_part *part;
    struct emu_part changed; /* the part with options.sms */
    u64 rng;
    /* memory */
    u8 *arena;
    u64 arena_bytes, arena_top;
    struct allocation *alloc;
    u32 nalloc, alloc_cap;
    /* running */
    struct grid *grids, *grids_tail;
    struct cluster **clusters;
    u32 nclusters, clusters_cap, window;
    struct warp **ready; /* warps with a runnable split */
    u32 nready, ready_cap;
    u32 resident; /* CTAs */
    struct agent **active;
    u32 nactive, active_cap;
    u64 stale;    /* steps since the last progress */
    u64 progress; /* changes of synchronisation state or memory */
    u64 time_ns;
    u64 steps;
    struct cta *free_cta;
    struct warp *running;
    struct item *limbo; /* made, not yet posted: freed when a fault comes between */
    const struct insn *at;
    jmp_buf escape;
    bool failed;
    bool asserted;
    char failure[2048];
    struct report *reports;
    u32 nreports;
    u64 next_grid;
    u64 stats[EMU_STATS];
    const struct num_perturb *perturb; /* NULL: exact */
    struct num_perturb *perturb_state;
    const struct mma_model *model; /* NULL: products in order */
    struct mma_model *model_state;
    struct checker *checker;
    struct forms *forms;   /* NULL unless kept */
    struct timing *timing; /* NULL: time is not modelled (timing.h) */
};

/* --- run.c --- */

void emu_run(struct emu *e);
/* Parts of the scheduler that the timing model shares. */
void warp_finish(struct emu *e, struct warp *w);
void item_finish(struct emu *e, struct item *it);
void agent_activate(struct emu *e, struct agent *a);
void splits_arrive(struct warp *w);
void warp_wake(struct warp *w, u64 key);
void cta_wake(struct cta *c, u64 key);
void emu_wake_all(struct emu *e);
void item_post(struct emu *e, struct item *it, struct agent *queue, enum agent_kind kind);
struct item *item_new(struct warp *w, u32 lane, size_t payload);

/* The split's instruction cannot go on; `why` is for the hang report. */
static inline int block_on(struct warp *w, u64 key, const char *why) {
    struct split *s = &w->splits[w->cur];
    s->key = key;
    s->why = why;
    return BLOCK;
}
enum { KEY_BAR = 1, KEY_MBAR, KEY_CLUSTER, KEY_ASYNC, KEY_GRID, KEY_TMEM, KEY_COLLECT, KEY_REGS };
static inline u64 wait_key(u32 kind, u64 what) {
    return (u64)kind << 56 | (what & 0xffffffffffffffull);
}

/* Ends lanes; JUMP. */
int warp_exit(struct warp *w, u32 mask);
/* Waits until all lanes of `members` that live stand at this instruction and merges them; true
 * when they do (the caller then acts for split.mask). */
bool warp_collect(struct warp *w, const struct insn *i, u32 members, bool same_pc);
/* The same for all lanes at an .aligned instruction, as long as some may still come. */
bool warp_meet(struct warp *w, const struct insn *i);

/* --- launch.c --- */

bool grid_dispatch(struct emu *e);
bool grid_may_start(const struct grid *g);
void cta_retire(struct emu *e, struct cta *c);
void grid_free(struct grid *g);

/* --- mem.c --- */

/* Host address of `bytes` at a device address, checked; never returns NULL.  `what` says how it is
 * used: a set of ACC_* bits. */
enum {
    ACC_READ = 1,
    ACC_WRITE = 2,
    ACC_ATOMIC = 4,
    ACC_ASYNC = 8,
    ACC_NC = 16,
    ACC_NOALIGN = 32,
    ACC_SAME = 64 /* the bytes written are those that are there */
};
void *mem_at(struct warp *w, const struct insn *i, u32 lane, enum space sp, u64 addr, u32 bytes,
             u32 acc);
/* As above for global memory only, from an asynchronous item or the host; NULL when out of bounds.
 */
void *mem_global(struct emu *e, u64 addr, u64 bytes, bool write);
struct allocation *mem_find(struct emu *e, u64 addr);
u64 mem_alloc(struct emu *e, u64 bytes, u64 align);
bool mem_free(struct emu *e, u64 addr);
/* Addresses without memory; what of them may be read (access 1) or also written (3), 0: nothing. */
u64 mem_reserve(struct emu *e, u64 bytes, u64 align);
void mem_allow(struct emu *e, u64 addr, u64 bytes, int access);
/* Memory of the program that kernels may use (emu_register). */
bool mem_register(struct emu *e, u64 addr, u64 bytes);
bool mem_unregister(struct emu *e, u64 addr);
u64 mem_shadow(struct emu *e, u64 addr); /* where the checker keeps what it knows of it */
bool mem_init(struct emu *e);
void mem_done(struct emu *e);
/* CTA and offset behind a 32-bit shared::cta or shared::cluster address. */
struct cta *mem_shared(struct warp *w, const struct insn *i, u32 lane, enum space sp, u32 addr,
                       u32 bytes, u32 *off);

/* --- op_sync.c: mbarriers, used by every asynchronous agent --- */

struct mbarrier *mbar_find(struct cta *c, u32 off);
void mbar_arrive(struct emu *e, struct cta *c, u32 off, s32 count, struct clock *release);
void mbar_complete_tx(struct emu *e, struct cta *c, u32 off, s32 bytes, struct clock *release);
void mbar_expect_tx(struct emu *e, struct cta *c, u32 off, s32 bytes);
void mbar_forget(struct cta *c);
void mbar_note_arrival(struct warp *w, const struct insn *i, struct mbarrier *b);

/* --- report.c --- */

/* Stops the launch: the instruction cannot be carried out. */
_Noreturn void emu_fault(struct warp *w, const struct insn *i, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same from an asynchronous item. */
_Noreturn void emu_fault_item(struct emu *e, struct item *it, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Strict check `id` failed: reported once per place; execution goes on. */
void emu_report(struct warp *w, const struct insn *i, enum emu_check id, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void emu_report_at(struct emu *e, struct cta *c, u32 warp, u32 loc, enum emu_check id,
                   const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void emu_hang(struct emu *e);
/* "ptx 123 (file.cu:45)" of an instruction, for messages about other places. */
const char *loc_text(struct emu *e, const struct function *f, u32 loc, char *buf, size_t n);

/* --- Registers --- */

static inline void *reg_at(const struct warp *w, ref r) {
    return w->bank[REF_BANK(r)] + REF_OFF(r);
}
static inline u32 pred_at(const struct warp *w, ref r) {
    return *(const u32 *)reg_at(w, r) ^ -(u32)(r & REF_NEG);
}
static inline void pred_set(struct warp *w, ref r, u32 m, u32 value) {
    if (r & REF_SINK)
        return;
    u32 *p = reg_at(w, r);
    *p = (*p & ~m) | (value & m);
}
#define FOR_LANES(l, m)                                                                            \
    for (u32 m_##l = (m), l; m_##l && (l = (u32)__builtin_ctz(m_##l), 1); m_##l &= m_##l - 1)

#endif
