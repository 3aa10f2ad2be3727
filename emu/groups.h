/* groups.h: groups of cp.async and of bulk copies: per thread, complete in order.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_GROUPS_H
#define EMU_GROUPS_H

#include "machine.h"

enum { GROUP_SLOTS = 64 };

/* Group g lives in slot g % GROUP_SLOTS; `committed` is the open one; groups below `done` are
 * complete, below `read` have read their sources. */
struct group_ring {
    u32 committed, done, read;
    u16 pending[GROUP_SLOTS], pending_read[GROUP_SLOTS];
};

static inline void group_advance(struct group_ring *r) {
    while (r->done < r->committed && !r->pending[r->done % GROUP_SLOTS])
        r->done++;
    while (r->read < r->committed && !r->pending_read[r->read % GROUP_SLOTS])
        r->read++;
}
/* Can another group be opened? */
static inline bool group_full(const struct group_ring *r) {
    return r->committed - r->done >= GROUP_SLOTS - 2;
}
static inline bool group_waits(struct group_ring *r, u32 keep, bool read) {
    group_advance(r);
    u32 done = read ? r->read : r->done;
    return r->committed > keep && done < r->committed - keep;
}
/* The lane's operations in slot g are all finished, committed or not. */
static inline bool group_idle(const struct group_ring *r) {
    for (u32 k = 0; k < GROUP_SLOTS; k++)
        if (r->pending[k])
            return false;
    return true;
}

struct group_ring *groups_of(struct warp *w, bool bulk); /* 32 rings */

#endif
