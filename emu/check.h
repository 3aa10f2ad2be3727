/* check.h: hooks of the checker; each does nothing when its object has no check state.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_CHECK_H
#define EMU_CHECK_H

#include "machine.h"

enum { WHOLE_WARP = 32 }; /* for `lane` below */
/* A lane's access through the generic proxy, after mem_at accepted it. */
void check_mem(struct warp *w, const struct insn *i, u32 lane, enum space sp, u64 addr, u32 bytes,
               u32 acc);
/* The other CTA's shared memory may be used: it is known to run. */
void check_peer(struct warp *w, const struct insn *i, struct cta *c);
enum fence_kind {
    FENCE_MEMORY,
    FENCE_ASYNC,
    FENCE_ASYNC_SHARED,
    FENCE_ASYNC_GLOBAL,
    FENCE_ALIAS,
    FENCE_TENSORMAP,
    FENCE_MBARRIER_INIT,
    FENCE_TCGEN_BEFORE,
    FENCE_TCGEN_AFTER,
    FENCE_WGMMA
};
void check_fence(struct warp *w, u32 m, enum fence_kind kind, u32 sem);
void check_warp_sync(struct warp *w, u32 m);
void check_together(struct warp *w); /* all lanes are here */
void check_bar_arrive(struct warp *w, struct named_barrier *b);
void check_bar_release(struct cta *c, struct named_barrier *b);
void check_bar_pass(struct warp *w, struct named_barrier *b);
void check_cluster_arrive(struct warp *w, bool release);
void check_cluster_release(struct cluster *cl);
void check_cluster_pass(struct warp *w);
void check_griddep_wait(struct warp *w);
void check_mbar_init(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b);
void check_mbar_inval(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b);
/* A generic-proxy operation on a barrier: its initialisation must be visible here. */
void check_mbar_use(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b);
void check_mbar_release(struct emu *e, struct mbarrier *b, struct clock *release);
void check_mbar_flip(struct emu *e, struct cta *c, struct mbarrier *b);
void check_mbar_wait(struct warp *w, const struct insn *i, struct mbarrier *b, bool done);
void check_mbar_acquire(struct warp *w, const struct insn *i, struct mbarrier *b, u32 sem);
/* What an operation of this warp with these semantics releases; NULL when unchecked or relaxed. */
struct clock *check_release_clock(struct warp *w, u32 sem, bool beyond_cta);
void check_lane_exit(struct warp *w, const struct insn *i, u32 m);
/* --- Asynchronous items --- */

/* Issued by warp w now; async: its accesses belong to the async proxy. */
void check_item_begin(struct warp *w, struct item *it, bool async);
void check_item_smem(struct emu *e, struct item *it, struct cta *c, u32 off, u32 bytes, bool write,
                     bool async);
void check_item_global(struct emu *e, struct item *it, u64 addr, u64 bytes, bool write);
void check_item_join(struct warp *w, struct item *it); /* another warp issued its share */
void check_item_meet(struct item *it, bool on);
/* Frees the item's check state and clock. */
void check_item_drop(struct item *it);
/* Registers that an asynchronous operation writes (or reads, written false) until cleared. */
void check_pending_set(struct warp *w, const ref *r, u32 n, bool written, u64 group, u32 loc);
void check_pending_clear(struct warp *w, u64 upto); /* groups below upto are complete */
void check_wgmma_done(struct warp *w, u32 upto);
void check_tc_poison(struct warp *w, u32 at, u32 loc);
void check_tc_unpoison(struct warp *w);
/* An operation of the tensor pipe of CTA `owner`. */
void check_item_tensor(struct warp *w, struct item *it, struct cta *owner, bool commit);
/* The item belongs to this group of the lanes: 0 cp.async, 1 bulk, 2 wgmma. */
void check_item_group(struct warp *w, struct item *it, u32 kind, u32 group, u32 lanes);
/* The barrier is used by the async proxy. */
void check_mbar_async(struct emu *e, struct cta *c, struct mbarrier *b);
/* What completing a part, or all, of the item releases. */
struct clock *check_item_part(struct emu *e, struct item *it);
struct clock *check_item_done(struct emu *e, struct item *it);
/* The lanes' copies of groups below upto are complete. */
void check_wait_group(struct warp *w, u32 m, bool bulk, bool read, u32 upto);
struct clock *check_cp_async_clock(struct warp *w, u32 m);
void check_registers(struct warp *w, const struct insn *i, u32 m);
void check_warp_exit(struct warp *w);
void check_cta_exit(struct cta *c);
void check_cta_end(struct cta *c); /* nothing of its cluster runs any more */
void check_new(struct emu *e);
void check_delete(struct emu *e);
void check_forget(struct emu *e, const struct module *m); /* before its functions are freed */
void check_alloc(struct emu *e, u64 addr, u64 bytes);
void check_free(struct emu *e, u64 addr);
void check_host_write(struct emu *e, u64 addr, u64 bytes);
void check_warp_start(struct warp *w);
void check_cta_start(struct cta *c);
void check_cta_free(struct cta *c);   /* the CTA object goes back to the pool */
void check_cta_delete(struct cta *c); /* and is freed */
void check_grid_start(struct grid *g);
void check_grid_end(struct grid *g);
void clock_drop(struct clock *c);

/* op_sync.c */
void barrier_thread_exit(struct warp *w);
void cluster_barrier_exit(struct cta *c);
void cluster_lanes_exit(struct warp *w, u32 m);
void cluster_barrier_start(struct cluster *cl);
void cluster_barrier_free(struct cluster *cl);
void emu_wake_grid(struct emu *e);
/* op_tcgen05.c */
void tmem_reset(struct cta *c);
void tmem_free(struct cta *c);
void tmem_exit(struct cta *c, u32 warp, u32 loc);
/* op_wgmma.c */
void wgmma_free(struct cta *c);
/* op_async.c */
void warp_free_parts(struct warp *w);
/* launch.c */
void grid_cta_launched(struct cta *c);
void grid_abandon(struct emu *e);
void cta_free_all(struct emu *e);
void warp_start(struct emu *e, struct warp *w);
void ready_remove(struct emu *e, struct warp *w);

#endif
