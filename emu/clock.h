/* clock.h: vector clocks of the checker, and its state.
 *
 * Agents of a CTA: its warps, its tensor pipe, and a pool of slots for other asynchronous
 * operations.  A clock of a cluster has six parts:
 *
 *   g  what happened before, in the generic proxy
 *   a  what of each agent's writes to shared memory the async proxy may read (fence.proxy.async)
 *   b  the same for global memory
 *   K  tensor-memory accesses known through synchronisation
 *   T  those that tcgen05 operations of this warp may rely on (tcgen05.fence::after_thread_sync)
 *   L  K as it would be if fences and waits did not matter: tells a missing fence from a race
 *
 * K, T and L count the tensor-memory accesses of warps and pipes.  Knowledge about other clusters
 * is a short list of clocks of those clusters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_CLOCK_H
#define EMU_CLOCK_H

#include "machine.h"
#include "check.h"

enum {
    PIPE_AGENT = MAX_WARPS,     /* the tensor pipe */
    FIRST_SLOT = MAX_WARPS + 1, /* asynchronous operations */
    ASYNC_SLOTS = 47,
    AGENTS = FIRST_SLOT + ASYNC_SLOTS, /* of a CTA: 80 */
    TC_AGENTS = MAX_WARPS + 1          /* of a CTA, for tensor memory */
};

/* An access: who (cluster number above, agent below) and when. */
enum { WHO_BITS = 11, WHO_AGENT = (1 << WHO_BITS) - 1 };

struct foreign {
    u32 cluster;
    struct clock *clock;
};

struct clock {
    u32 references, serial;
    u32 cluster; /* number */
    u32 n, m;    /* agents, tensor agents */
    u32 nforeign;
    struct foreign *foreign;
    u32 v[]; /* g[n] a[n] b[n] K[m] T[m] L[m] */
};

static inline u32 *clk_g(struct clock *c) {
    return c->v;
}
static inline u32 *clk_a(struct clock *c) {
    return c->v + c->n;
}
static inline u32 *clk_b(struct clock *c) {
    return c->v + 2 * c->n;
}
static inline u32 *clk_K(struct clock *c) {
    return c->v + 3 * c->n;
}
static inline u32 *clk_T(struct clock *c) {
    return c->v + 3 * c->n + c->m;
}
static inline u32 *clk_L(struct clock *c) {
    return c->v + 3 * c->n + 2 * c->m;
}

struct clock *clock_new(struct emu *e, u32 cluster, u32 ctas);
struct clock *clock_copy(struct emu *e, const struct clock *c);
/* dst learns what src knows; acquire: also into L, K (T only by a fence). */
void clock_join(struct emu *e, struct clock *dst, const struct clock *src);
/* *dst may be NULL: becomes a copy. */
void clock_add(struct emu *e, struct clock **dst, const struct clock *src);
/* d keeps what s knows, too. */
void clock_meet(struct clock *d, const struct clock *s);
void clock_add_tensor(struct emu *e, struct clock **dst, const struct clock *src);
/* Does the clock know this access, in the generic proxy or, of a space, in the async proxy? */
enum proxy { GENERIC, ASYNC_SHARED, ASYNC_GLOBAL };
bool clock_knows(const struct clock *c, u32 who, u32 epoch, enum proxy proxy);

/* --- Shadow of memory: one cell for four bytes --- */

struct cell {
    u32 w_who, w_epoch, w_loc; /* last write; who 0: none */
    u32 r_who[2], r_epoch[2];  /* last two concurrent reads */
    u32 r_loc;
    u32 r_lanes;   /* lanes of r_who[0] that read */
    u8 w_lane;     /* of w_who, NO_LANE */
    u8 r_bytes[2]; /* which bytes of the four */
};
enum { NO_LANE = WHOLE_WARP };
enum { /* flags in loc */
       LOC_ASYNC = 1u << 31,
       LOC_ATOMIC = 1u << 30,
       LOC_MBAR = 1u << 29,
       LOC_BYTES = 25, /* four bits: which bytes of the four */
       LOC_MASK = (1u << LOC_BYTES) - 1,
       WHO_HOST = 1
};

/* The write before the last, when the last one wrote other bytes of the cell; kept beside the cells
 * from the first such write. */
struct older {
    u32 who, epoch, loc; /* who 0: none */
    u8 lane;
};

struct page { /* 4096 bytes of global memory */
    struct cell *cell;
    struct older *older;
    u64 *init; /* bit per 4 bytes, NULL: see all_init */
    bool all_init;
    u64 addr;
    u32 index; /* in checker.used */
};

/* Scopes of strong operations, .sys being .gpu. */
enum { IN_CTA, IN_CLUSTER, IN_GPU, SCOPES };

struct sync_loc { /* what was released at a location to the threads of one CTA, one cluster or all
                   */
    u64 key;
    u32 scope;  /* 0: all threads, see check_strong.c */
    u32 stores; /* stores to the location that this knows of: each begins anew */
    u64 who;    /* bit for each warp that released here */
    struct clock *clock;
};

enum { L1_BITS = 9, L2_BITS = 17, PAGE_SHIFT = 12 };

struct checker {
    struct page **dir[1 << L2_BITS]; /* [2 MB] -> 512 pages */
    struct page **used;
    u32 nused, used_cap;
    struct sync_loc *loc;
    u32 nloc, loc_cap;
    u32 next_cluster;
    u64 *cluster_grid; /* cluster number -> grid id */
    const struct function **cluster_fn;
    u32 cluster_cap;
    u32 serial;
    u8 *undefined; /* per row of ops.def, see check_regs.c */
};

enum item_kind { ITEM_CP_ASYNC, ITEM_BULK, ITEM_WGMMA };
struct pending_item { /* not yet waited for, of one warp */
    u32 group, who, epoch;
    u32 lanes;
    u8 kind;
};
struct pending_regs { /* of wgmma */
    const ref *r;
    u32 n;
    u64 group;
    u32 loc;
    u8 flag;
};
struct pending_tc { /* a register that a tcgen05.ld fills */
    u32 slot, loc;
};
enum { PEND_WRITE = 1, PEND_READ = 2, PEND_TC = 4 };

/* A snapshot of a warp's clock at some epoch: which lanes gave it out, and up to which epoch all
 * lanes had met before. */
struct snapshot {
    u32 epoch, lanes, met;
    u32 together; /* of the warp */
};
enum { SNAPSHOTS = 256 };

struct warp_check {
    struct clock *clock;
    struct clock *fence_release[SCOPES]; /* at the last releasing fence of a scope */
    struct clock *relaxed[SCOPES];       /* acquired relaxed, waiting for a fence of the scope */
    struct clock *released;              /* last snapshot given out */
    struct clock *loose;                 /* the same for relaxed operations */
    u64 insns, released_at;
    u32 who; /* of this warp */
    u32 agent, tc_agent;
    u32 mbar_fence;           /* epoch at the last fence that covers mbarrier.init */
    u32 tc_ld, tc_st;         /* last tensor-memory load and store */
    u32 ld_waited, st_waited; /* accesses made at the last waits */
    u32 tc_epoch, pipe_epoch;
    u32 active;   /* lanes of the instruction at hand */
    u32 met;      /* epoch at the last meeting of all lanes, see check_lanes.c */
    u32 together; /* instructions that all lanes executed together, see check_waits.c */
    struct snapshot log[SNAPSHOTS];
    u64 init_fence_gen, passed_gen; /* barrier.cluster generations */
    bool grid_acquired, cluster_passed;
    struct pending_item *item;
    u32 nitems, items_cap;
    struct pending_regs *regs;
    u32 nregs, regs_cap;
    struct pending_tc *tc;
    u32 ntc, tc_cap;
    u32 npending;
    const u32 *slots; /* of the function */
    u8 *pending;      /* per slot */
    u32 *init;        /* lanes that hold a value, per slot */
};

struct cta_check {
    struct cell *cell;
    size_t cells_cap;
    struct older *older;
    struct cell *tm; /* tensor memory: [16 lanes][column] */
    bool tm_used;
    u32 slot_epoch[AGENTS];
    u32 next_slot, pipe_issued;
    struct warp_check warp[MAX_WARPS];
    size_t regs_cap;
    u8 *pending;
    u32 *init;
};

struct item_check {
    u32 who, epoch, tc_agent;
    bool async, tensor, use_meet;
    struct clock *meet; /* what every issuing warp knows */
};

static inline struct checker *checker_of(struct warp *w) {
    return w->cta->grid->emu->checker;
}

/* What makes an access: the warp or the item. */
struct actor {
    struct emu *e;
    struct cta *cta; /* for reports */
    u32 warp, loc;
    u32 who, epoch;
    const struct clock *clock;
    bool async, atomic, nc;
    bool global; /* memory at hand, else shared */
    bool same;   /* writes the value that is there: no race with the write that put it there */
    u32 bytes;   /* of the cell at hand, a bit each */
    u32 lane;    /* of the warp, or that issued the item */
    const struct warp_check *self; /* the warp; NULL for items */
    const struct grid *grid;
    bool grid_acquired;
};

void warp_actor(struct warp *w, const struct insn *i, struct actor *a);
struct clock *clock_release(struct warp *w); /* a snapshot; the warp's epoch moves on */
void clock_bump(struct warp *w);
void clock_acquire(struct warp *w, const struct clock *c); /* what c knows; NULL: nothing */

void check_regs_new(struct checker *k);
/* Numbers the registers of a function, once. */
void check_slots(struct function *f);

/* --- check_lanes.c --- */

void lanes_meet(struct warp *w);
void lanes_snapshot(struct warp *w, u32 lanes);
/* check_strong.c */
void check_strong(struct warp *w, const struct insn *i, u64 key, u32 acc);
void check_memory_fence(struct warp *w, u32 sem);
/* Of `lanes` of warp k, those whose accesses at `epoch` no snapshot up to `known` gave out. */
u32 lanes_left(const struct warp_check *k, u32 lanes, u32 epoch, u32 known);
/* Reports when the access in the cell, which is ordered before a's as far as warps go, is not as
 * far as lanes go. */
void lanes_check_write(struct actor *a, const struct cell *x, bool write, const char *space,
                       u64 addr);
void lanes_check_reads(struct actor *a, const struct cell *x, int k, const char *space, u64 addr);

/* --- check_waits.c --- */

/* A wait by parity of the active lanes has succeeded; its barrier's next phase completes and knows
 * this. */
void check_wait_seen(struct warp *w, const struct insn *i, struct mbarrier *b);
void check_wait_flip(struct emu *e, struct cta *c, const struct mbarrier *b, struct clock *known);

/* --- shadow.c --- */

/* check_ends.c: an unread cell is about to be written, or its CTA has ended. */
void check_unread(struct actor *a, struct cta *c, u32 g, bool end);
void check_unread_tmem(struct actor *a, const struct cell *x, u32 column, bool end);
static inline bool unread(const struct cell *x) {
    return x->w_who && !(x->r_who[0] | x->r_who[1]);
}
void shadow_smem(struct actor *a, struct cta *c, u32 off, u32 bytes, bool write);
void shadow_global(struct actor *a, u64 addr, u64 bytes, bool write);
void shadow_init(struct emu *e, u64 addr, u64 bytes);
void shadow_drop(struct emu *e);

#endif
