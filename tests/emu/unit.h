/* unit.h: checks of one test program; include it once.
 *
 * A failed check prints its place and values and the program goes on; unit_end prints the closing
 * line and gives the exit status.  Only the first ten failures of a place are printed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EMU_UNIT_H
#define TESTS_EMU_UNIT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long unit_passed, unit_failed, unit_skipped;

#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        static int shown;                                                                          \
        if (cond) {                                                                                \
            unit_passed++;                                                                         \
        } else {                                                                                   \
            unit_failed++;                                                                         \
            if (shown++ < 10) {                                                                    \
                printf("%s:%d: %s: ", __FILE__, __LINE__, #cond);                                  \
                printf(__VA_ARGS__);                                                               \
                printf("\n");                                                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static inline int unit_end(void) {
    printf("%ld passed, %ld failed, %ld skipped\n", unit_passed, unit_failed, unit_skipped);
    return unit_failed != 0;
}

static uint64_t unit_state = 1;
static inline uint32_t unit_random(void) { /* splitmix64 */
    uint64_t z = (unit_state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

#endif
