/* SPDX-License-Identifier: Apache-2.0
 * The case list: what is tested is what is timed. A case is a shape with a name and a subject; a
 * seed makes its data. Tests walk the list on every kernel of every device, `gqa verify` runs any
 * of it by name, `gqa bench` takes its shapes and its data.
 *
 * Names are paths, `group/bf16-d64-g7`; "random/N" is the N-th pseudo-random combination of
 * features, for any N. */
#ifndef CASES_H
#define CASES_H

#include "gqa.h"

#include <stdbool.h>

/* How much a run pays for a case. */
enum case_level {
    CASE_QUICK = 0, /* at most 2^20 multiply-adds: for slow devices and for --quick */
    CASE_NORMAL,
    CASE_SLOW, /* only with --all: big, or long */
};

/* Where K and V lie. */
enum case_layout {
    CASE_HND = 0,
    CASE_NHD,
    CASE_INTERLEAVED, /* [page or batch][K, V][kv_heads][token][dim]: one buffer */
    CASE_FUSED,       /* [page or batch][token][K heads, V heads][dim]: one buffer */
    CASE_SLICED,      /* HND inside of larger arrays: every stride has a gap */
    CASE_ODD,         /* the same with gaps of odd size: nothing but the elements is aligned */
    CASE_BROADCAST,   /* all KV heads are one: a head stride of 0 */
    CASE_FAR,         /* strides past 2^31 elements; only the rows in use are backed by memory */
};

/* Where Q and O lie. */
enum case_rows {
    CASE_ROWS_PACKED = 0,
    CASE_ROWS_FUSED,  /* Q, O and LSE rows are parts of longer ones: a larger token stride */
    CASE_ROWS_ODD,    /* the same, by an odd number of elements */
    CASE_ROWS_LOOSE,  /* the same, Q's by 8 bytes, O's by an odd number of elements */
    CASE_ROWS_HEADS,  /* head outermost: [heads][batch][tokens][dim] */
    CASE_ROWS_SHARED, /* packed, but all sequences have one Q: a batch stride of 0 */
};

enum case_data {
    CASE_NORMAL_DATA = 0, /* normal(0, 1): flat softmax, every key counts a little */
    CASE_PEAKED,          /* q six times as long: few keys count, a wrong row is a wrong answer */
    CASE_EDGE,            /* zeros, subnormals, powers of two, the type's large values */
    CASE_EQUAL_KEYS,      /* all scores of a row are the same */
    CASE_NAN_KEY,         /* one NaN in a key that is seen: its rows are NaN, others are not */
    CASE_NAN_VALUE,       /* one NaN and one infinity in values that are seen */
    CASE_LARGE_SCORES,    /* logits of +-10^4 and more: only the largest key counts */
};

/* Lengths of the sequences; those of LIST are cycled. */
enum case_lens {
    CASE_LENS_NULL = 0, /* kv_lens is NULL: all have kv_len */
    CASE_LENS_LIST,
    CASE_LENS_RAMP,   /* 0, 1, 2, ... kv_len, 0, 1, ... */
    CASE_LENS_RANDOM, /* uniform in 0 .. kv_len */
};

enum { CASE_NAME = 64, CASE_LIST = 24 };

struct test_case {
    char name[CASE_NAME];
    char subject[112];
    enum case_level level;
    struct gqa_problem p; /* strides are filled in when the case is built */
    enum case_layout layout;
    enum case_rows rows;
    enum case_data data;
    enum case_lens lens_kind;
    int lens_count, q_lens_count;
    int32_t lens[CASE_LIST];      /* CASE_LENS_LIST */
    int32_t q_lens[CASE_LIST];    /* ragged: query tokens of sequence b, cycled */
    int q_spare;                  /* ragged: rows of Q after the last sequence's */
    bool use_index;               /* batch_index: a permutation into a larger cache */
    bool share_entries;           /* with use_index: two sequences live in one cache entry */
    bool use_last_page;           /* CSR: last_page_len alone gives the lengths */
    bool no_last_page;            /* CSR: kv_lens alone gives the lengths */
    bool share_pages;             /* two sequences own the same first pages (a common prefix) */
    bool hide_pages;              /* num_pages stays 0: the library is not told */
    bool has_sink;                /* sinks are all `sink`, not random ones */
    bool may_refuse;              /* alignment: GQA_ERR_ALIGNMENT is as right as a right answer */
    float sink, k_scale, v_scale; /* scales 0: random in 0.5 .. 2 */
    int misalign;                 /* bytes added to the addresses of q, k, v and o */
    int shards;                   /* > 0: cut the cache in that many parts, merge their answers */
    int64_t first_page;           /* the lowest page number in use */
};

struct case_list {
    struct test_case *cases;
    size_t count, room;
};

/* All named cases, then `random` random ones. Returns false if there is no memory. */
bool case_list_init(struct case_list *list, int random);
void case_list_free(struct case_list *list);

/* The case of that name, "random/N" included. */
bool case_find(const char *name, struct test_case *found);

/* The N-th random combination. */
void case_random(uint64_t n, struct test_case *c);

/* A case from a plain problem, for callers with their own shapes (bench): all lengths are kv_len.
 */
void case_from_problem(const struct gqa_problem *p, enum case_layout layout, struct test_case *c);

/* Multiply-adds of one run, roughly: what an emulator or an oracle must do. */
double case_work(const struct test_case *c);

/* --- Building: from a case and a seed to tensors on a device (build.c) --- */

/* A device's memory. All calls are complete on return; download waits for the device's work. */
struct case_memory {
    void *context;
    /* `bytes` (> 0) whose END is as close to an inaccessible page as `align` allows, if the device
     * can do that (`fenced`); otherwise anything aligned to 256. NULL: no memory. */
    void *(*alloc)(void *context, size_t bytes, size_t align);
    void (*release)(void *context, void *memory, size_t bytes);
    bool (*upload)(void *context, void *device, const void *host, size_t bytes);
    bool (*download)(void *context, void *host, const void *device, size_t bytes);
    bool fenced;
};

/* `bytes` of it to 0xFF: NaN in every type. */
bool case_memory_poison(const struct case_memory *memory, void *device, size_t bytes);

/* This process' memory; every buffer ends at a page that faults when touched. */
extern const struct case_memory case_memory_host;

enum case_tensor {
    CASE_Q,
    CASE_K,
    CASE_V,
    CASE_O,
    CASE_LSE,
    CASE_KV_LENS,
    CASE_CU_SEQLENS,
    CASE_BATCH_INDEX,
    CASE_TABLE,
    CASE_INDPTR,
    CASE_INDICES,
    CASE_LAST_PAGE,
    CASE_K_SCALE,
    CASE_V_SCALE,
    CASE_SINKS,
    CASE_TENSORS,
};

/* One tensor in both memories: `front` guard bytes, `bytes` of data, `back` guard bytes. */
struct case_buffer {
    const char *name;
    char *host, *device; /* the data; NULL: the case has no such tensor */
    size_t bytes, front, back;
    bool is_output, is_sparse;
    bool is_view; /* V inside K's buffer: not a buffer of its own */
};

/* A case with data. Its problem and tensors are what the caller of gqa.h passes. */
struct case_instance {
    const struct test_case *c; /* the caller's */
    const struct case_memory *memory;
    uint64_t seed;
    struct gqa_problem p; /* with strides */
    struct case_buffer buffers[CASE_TENSORS];
    struct gqa_tensors host, device;
    int64_t pages; /* of the pools, where paged */
    char why[160]; /* what failed */
};

/* Allocate and fill all tensors. Every slot, page and table entry that gqa.h calls unused holds
 * NaN, Inf or nonsense; outputs hold 0xFF; stride gaps and guard bands too.
 * Returns false with x->why set, and nothing to free, if there is not enough memory. */
bool case_build(struct case_instance *x, const struct test_case *c, uint64_t seed,
                const struct case_memory *memory);
void case_free(struct case_instance *x);

/* Fill the outputs (and their guards) with 0xFF again, on the device. */
bool case_reset(struct case_instance *x);

/* After a run: fetch the outputs into the host arrays; see that inputs, guards and the gaps between
 * output rows are as they were. Returns false with x->why set. */
bool case_collect(struct case_instance *x);

/* --- Random numbers --- */

struct case_random_state {
    uint64_t s;
};

/* The next 64 bits (SplitMix64). Ref: Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", 2014. */
static inline uint64_t case_bits(struct case_random_state *r) {
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform in 0 .. n - 1. */
static inline int64_t case_below(struct case_random_state *r, int64_t n) {
    return n > 0 ? (int64_t)(case_bits(r) >> 1) % n : 0;
}

/* Uniform in [0, 1). */
static inline double case_unit(struct case_random_state *r) {
    return (double)(case_bits(r) >> 11) * 0x1p-53;
}

#endif
