/* check.c: stub */
#include "check.h"
void check_mem(struct warp *w, const struct insn *i, u32 lane, enum space sp, u64 addr, u32 bytes,
               u32 acc) {
    (void)w;
    (void)i;
    (void)lane;
    (void)sp;
    (void)addr;
    (void)bytes;
    (void)acc;
}
void check_fence(struct warp *w, u32 m, enum fence_kind kind, u32 sem) {
    (void)w;
    (void)m;
    (void)kind;
    (void)sem;
}
void check_warp_sync(struct warp *w, u32 m) {
    (void)w;
    (void)m;
}
void check_bar_arrive(struct warp *w, struct named_barrier *b) {
    (void)w;
    (void)b;
}
void check_bar_release(struct cta *c, struct named_barrier *b) {
    (void)c;
    (void)b;
}
void check_bar_pass(struct warp *w, struct named_barrier *b) {
    (void)w;
    (void)b;
}
void check_cluster_arrive(struct warp *w, bool release) {
    (void)w;
    (void)release;
}
void check_cluster_release(struct cluster *cl) {
    (void)cl;
}
void check_cluster_pass(struct warp *w) {
    (void)w;
}
void check_griddep_wait(struct warp *w) {
    (void)w;
}
void check_mbar_init(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b) {
    (void)w;
    (void)i;
    (void)c;
    (void)b;
}
void check_mbar_inval(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b) {
    (void)w;
    (void)i;
    (void)c;
    (void)b;
}
void check_mbar_use(struct warp *w, const struct insn *i, struct cta *c, struct mbarrier *b) {
    (void)w;
    (void)i;
    (void)c;
    (void)b;
}
void check_mbar_release(struct emu *e, struct mbarrier *b, struct clock *release) {
    (void)e;
    (void)b;
    (void)release;
}
void check_mbar_flip(struct emu *e, struct cta *c, struct mbarrier *b) {
    (void)e;
    (void)c;
    (void)b;
}
void check_mbar_wait(struct warp *w, const struct insn *i, struct mbarrier *b, bool done) {
    (void)w;
    (void)i;
    (void)b;
    (void)done;
}
void check_mbar_acquire(struct warp *w, const struct insn *i, struct mbarrier *b, u32 sem) {
    (void)w;
    (void)i;
    (void)b;
    (void)sem;
}
struct clock *check_release_clock(struct warp *w, u32 sem) {
    (void)w;
    (void)sem;
    return NULL;
}
void check_lane_exit(struct warp *w, const struct insn *i, u32 m) {
    (void)w;
    (void)i;
    (void)m;
}
void check_registers(struct warp *w, const struct insn *i, u32 m) {
    (void)w;
    (void)i;
    (void)m;
}
void check_warp_exit(struct warp *w) {
    (void)w;
}
void check_cta_exit(struct cta *c) {
    (void)c;
}
void check_new(struct emu *e) {
    (void)e;
}
void check_delete(struct emu *e) {
    (void)e;
}
void check_alloc(struct emu *e, u64 addr, u64 bytes) {
    (void)e;
    (void)addr;
    (void)bytes;
}
void check_free(struct emu *e, u64 addr) {
    (void)e;
    (void)addr;
}
void check_host_write(struct emu *e, u64 addr, u64 bytes) {
    (void)e;
    (void)addr;
    (void)bytes;
}
void check_warp_start(struct warp *w) {
    (void)w;
}
void check_cta_start(struct cta *c) {
    (void)c;
}
void check_cta_free(struct cta *c) {
    (void)c;
}
void check_cta_delete(struct cta *c) {
    (void)c;
}
void check_grid_start(struct grid *g) {
    (void)g;
}
void check_grid_end(struct grid *g) {
    (void)g;
}
void clock_drop(struct clock *c) {
    (void)c;
}
void cluster_barrier_free(struct cluster *cl) {
    (void)cl;
}

void check_item_begin(struct warp *w, struct item *it, bool async) {
    (void)w;
    (void)it;
    (void)async;
}
void check_item_smem(struct emu *e, struct item *it, struct cta *c, u32 off, u32 bytes, bool write,
                     bool async) {
    (void)e;
    (void)it;
    (void)c;
    (void)off;
    (void)bytes;
    (void)write;
    (void)async;
}
void check_item_global(struct emu *e, struct item *it, u64 addr, u64 bytes, bool write) {
    (void)e;
    (void)it;
    (void)addr;
    (void)bytes;
    (void)write;
}
struct clock *check_item_part(struct emu *e, struct item *it) {
    (void)e;
    (void)it;
    return NULL;
}
struct clock *check_item_done(struct emu *e, struct item *it) {
    (void)e;
    (void)it;
    return NULL;
}
void check_wait_group(struct warp *w, u32 m, bool bulk, bool read, u32 keep) {
    (void)w;
    (void)m;
    (void)bulk;
    (void)read;
    (void)keep;
}
struct clock *check_cp_async_clock(struct warp *w, u32 m) {
    (void)w;
    (void)m;
    return NULL;
}

void check_item_join(struct warp *w, struct item *it) {
    (void)w;
    (void)it;
}
void check_pending_set(struct warp *w, const ref *r, u32 n, bool written) {
    (void)w;
    (void)r;
    (void)n;
    (void)written;
}
void check_pending_clear(struct warp *w) {
    (void)w;
}
void check_wgmma_wait(struct warp *w) {
    (void)w;
}
