/* SPDX-License-Identifier: Apache-2.0
 * A fuzzer's input as a source of numbers. When it has run dry every number is 0. */
#ifndef BYTES_H
#define BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    const uint8_t *at, *end;
};

static inline int bytes_next(struct bytes *b) {
    return b->at < b->end ? *b->at++ : 0;
}

static inline int bytes_below(struct bytes *b, int n) {
    return bytes_next(b) % n;
}

static inline uint64_t bytes_word(struct bytes *b) {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word = word << 8 | (uint64_t)bytes_next(b);
    return word;
}

/* Mostly a small number; now and then an edge of int32_t or int64_t, or anything at all. */
static inline int64_t bytes_number(struct bytes *b, int small) {
    static const int64_t edges[] = {-1,        0,         1,         INT32_MIN, INT32_MAX,
                                    INT64_MIN, INT64_MAX, 1LL << 30, 1LL << 31, 1LL << 32,
                                    1LL << 40, 1LL << 62, 65536,     -65536};
    const int kind = bytes_next(b);
    if (kind < 236)
        return bytes_below(b, small + 1);
    if (kind < 252)
        return edges[bytes_below(b, sizeof edges / sizeof *edges)];
    return (int64_t)bytes_word(b);
}

/* The same for an int. */
static inline int bytes_int(struct bytes *b, int small) {
    const int64_t n = bytes_number(b, small);
    return n < INT32_MIN ? INT32_MIN : n > INT32_MAX ? INT32_MAX : (int)n;
}

#endif
