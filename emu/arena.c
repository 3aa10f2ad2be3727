/* arena.c: memory of a module, freed at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir.h"
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

struct block {
    struct block *next;
    size_t used, cap;
};
struct arena {
    struct block *head;
};

struct arena *arena_new(void) {
    return calloc(1, sizeof(struct arena));
}

void arena_free(struct arena *a) {
    for (struct block *b = a->head; b;) {
        struct block *n = b->next;
        free(b);
        b = n;
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    struct block *b = a->head;
    if (!b || b->used + bytes > b->cap) {
        size_t cap = bytes > (1u << 16) ? bytes : 1u << 16;
        struct block *n = calloc(1, sizeof *n + cap + 16);
        if (!n) {
            fputs("emu: out of memory\n", stderr);
            abort();
        }
        n->cap = cap;
        n->next = b;
        a->head = b = n;
    }
    u8 *p = (u8 *)(b + 1) + b->used;
    p += (16 - ((uintptr_t)p & 15)) & 15;
    b->used += bytes;
    return p;
}

char *arena_str(struct arena *a, const char *s, size_t n) {
    char *p = arena_alloc(a, n + 1);
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}
