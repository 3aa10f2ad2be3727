/* SPDX-License-Identifier: Apache-2.0
 *
 * gqa: decode attention with grouped query heads, in C.
 *
 * One decode step of a language model asks, for every sequence and every query head,
 *
 *     s[j] = scale * k_scale * dot(q, k[j])         for the keys j that the query may see
 *     s[j] = softcap * tanh(s[j] / softcap)         if softcap > 0
 *     o    = v_scale * sum_j exp(s[j]) v[j] / (sum_j exp(s[j]) + exp(sink))
 *     lse  = log(sum_j exp(s[j]) + exp(sink))       the sink terms only where sinks are given
 *
 * where `group` = q_heads / kv_heads query heads share one key/value head. The whole K/V cache is
 * read once and hardly anything is computed, so time is memory traffic: every backend here streams
 * K and V once per KV head for the whole group and keeps all state in float32.
 *
 * The calls, in order: open a device, describe a problem, plan it, ask the plan for its workspace,
 * decode as often as you like. A complete program:
 *
 *     struct gqa_error err;
 *     gqa_device *device;
 *     gqa_plan *plan;
 *     struct gqa_problem p = gqa_problem_init();
 *     p.batch = 2; p.q_heads = 32; p.kv_heads = 8; p.head_dim = p.head_dim_v = 128;
 *     p.kv_len = 4096;                                   // capacity of the cache, in tokens
 *     p.q_type = p.kv_type = p.o_type = GQA_BF16;
 *     gqa_problem_pack(&p, GQA_HND);                     // K, V: [batch][kv_heads][kv_len][128]
 *     if (gqa_device_open("cpu", NULL, &device, &err) || gqa_plan_create(device, &p, &plan, &err))
 *         return fprintf(stderr, "%s\n", err.message), 1;
 *     size_t bytes = gqa_plan_workspace(plan);
 *     struct gqa_tensors t = gqa_tensors_init();
 *     t.q = q; t.k = k; t.v = v; t.o = o;
 *     t.kv_lens = (const int32_t[]){4096, 77};           // on the device, like every pointer here
 *     if (gqa_decode(plan, &t, malloc(bytes), bytes, NULL, &err))
 *         return fprintf(stderr, "%s\n", err.message), 1;
 *
 * Words, the same everywhere: batch, q_heads, kv_heads, group, head_dim, kv_len, page, tile, split.
 * Shapes are C arrays, slowest dimension first. Strides count elements, sizes count bytes.
 *
 * What holds for every function:
 * - No global state, nothing is printed, nothing aborts. A failing call changes nothing but *err.
 * - `err` may be NULL. It is the caller's; different threads use different ones.
 * - Structs start with `size`, set by their _init function, so that later versions can
 *   add fields.
 */
#ifndef GQA_H
#define GQA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GQA_API __attribute__((visibility("default")))
#else
#define GQA_API
#endif

#ifdef __cplusplus
#define GQA_ZERO                                                                                   \
    {}
#else
#define GQA_ZERO                                                                                   \
    { 0 }
#endif

#define GQA_VERSION_MAJOR 0
#define GQA_VERSION_MINOR 1
#define GQA_VERSION_PATCH 0

/* --- Status (src/status.c) ------------------------------------------------------------------ */

/* clang-format off */
#define GQA_STATUS_LIST(X)                                                                         \
    X(GQA_OK,              "success")                                                              \
    X(GQA_ERR_ARGUMENT,    "an argument is null, negative, aliased or inconsistent")               \
    X(GQA_ERR_SHAPE,       "a shape or a size is out of range")                                    \
    X(GQA_ERR_TYPE,        "an element type is not one this tensor can have")                      \
    X(GQA_ERR_STRIDE,      "a stride overflows or makes an output overlap itself")                 \
    X(GQA_ERR_ALIGNMENT,   "a pointer or a stride is not aligned as its type needs")               \
    X(GQA_ERR_UNSUPPORTED, "no kernel of this device can do this; the message names the rule")     \
    X(GQA_ERR_WORKSPACE,   "the workspace is missing, misaligned or too small")                    \
    X(GQA_ERR_NAME,        "no device or kernel has this name")                                    \
    X(GQA_ERR_DEVICE,      "the device is not there, or is for planning only")                     \
    X(GQA_ERR_DRIVER,      "the device driver reported an error")                                  \
    X(GQA_ERR_MEMORY,      "out of memory")
/* clang-format on */

typedef enum gqa_status {
#define GQA_X(name, text) name,
    GQA_STATUS_LIST(GQA_X)
#undef GQA_X
} gqa_status;

/* What went wrong: filled by a failing call, left alone by a successful one. */
struct gqa_error {
    gqa_status status;
    char message[500]; /* one sentence: what was wrong, with numbers, and what was expected */
};

/* The identifier of a status, "GQA_ERR_SHAPE"; "GQA_ERR_?" for a number that is none. */
GQA_API const char *gqa_status_name(gqa_status status);

/* The general sentence of a status, as in the list above. */
GQA_API const char *gqa_status_text(gqa_status status);

/* major * 10000 + minor * 100 + patch of the library that runs (the header's is GQA_VERSION_*). */
GQA_API int gqa_version(void);

/* --- Types (src/problem.c) ------------------------------------------------------------------ */

enum gqa_type {
    GQA_F32 = 0,
    GQA_BF16,
    GQA_F16,
    GQA_E4M3, /* OCP FP8 E4M3 (finite, one NaN pattern per sign): K and V only */
    GQA_E5M2, /* OCP FP8 E5M2 (IEEE-like, with infinities): K and V only */
};

/* How gqa_problem_pack lays out a cache (a page of one, if page_size > 0). */
enum gqa_layout {
    GQA_HND = 0, /* [batch | page][kv_heads][token][head_dim]: a head's rows are contiguous */
    GQA_NHD,     /* [batch | page][token][kv_heads][head_dim]: a token's heads are contiguous */
};

enum gqa_paging {
    GQA_CONTIGUOUS = 0, /* token j of sequence b is row j of K's batch entry b */
    GQA_PAGED_TABLE,    /* dense block table [batch][table_stride] of page numbers */
    GQA_PAGED_CSR,      /* page_indptr [batch + 1], page_indices [indptr[batch]], last_page_len */
};

/* Shape of k_scale and of v_scale (float32, on the device). */
enum gqa_scales {
    GQA_SCALE_NONE = 0,
    GQA_SCALE_TENSOR,     /* one number */
    GQA_SCALE_HEAD,       /* [kv_heads] */
    GQA_SCALE_BATCH_HEAD, /* [batch][kv_heads] */
};

enum gqa_lse_base { GQA_BASE_E = 0, GQA_BASE_2 };

/* How the KV range of a row is cut into splits that run in parallel and are merged. */
enum gqa_split_mode {
    GQA_SPLIT_AUTO = 0,  /* the planner chooses; the same problem always gives the same bits */
    GQA_SPLIT_FIXED,     /* exactly `splits` per row (some may be empty) */
    GQA_SPLIT_INVARIANT, /* every `split_tokens` tokens of the row's own length: a row's bits do not
                            depend on its batch mates, the batch size or the thread count */
};

/* How splits are merged on a GPU; a CPU ignores it. */
enum gqa_reduction {
    GQA_REDUCE_AUTO = 0,
    GQA_REDUCE_NONE,    /* one split per row */
    GQA_REDUCE_KERNEL,  /* float32 partials in the workspace, a second kernel merges, fixed order */
    GQA_REDUCE_ATOMIC,  /* one cluster per row adds into a zeroed output; order not fixed */
    GQA_REDUCE_CLUSTER, /* one cluster per row exchanges float32 partials; deterministic */
    GQA_REDUCE_GRID,    /* the same for any number of splits: clusters, or CTAs, of a row meet
                           through the workspace, within one launch. Hopper */
};

/* Programmatic dependent launch on a GPU: the step starts while kernels before it in the stream
 * finish, and waits for them before it reads or writes memory. */
enum gqa_pdl {
    GQA_PDL_AUTO = 0,
    GQA_PDL_OFF,
    GQA_PDL_ON,
    /* A promise of the caller's: kernels that may still be running write neither kv_lens,
     * cu_seqlens_q, batch_index, tables and page lists, nor K and V of tokens before a sequence's
     * own query tokens (the cache as earlier steps left it; where sequences share entries or pages,
     * before those of each). Those may be read at once; Q, scales, sinks and the query tokens' K
     * and V are waited for, and nothing is written before. In a chain of dependent launches not
     * only the kernel just before may still be running, but all that have not been waited for.
     * Kernels that cannot gain from it do as with GQA_PDL_ON. */
    GQA_PDL_EARLY,
};

enum gqa_precision {
    GQA_PRECISION_FAST = 0, /* softmax weights may be rounded to K/V's 16-bit type (<= 2e-3 RMS),
                             * beside e4m3 also to 2^-21 of the row's largest */
    GQA_PRECISION_EXACT,    /* float32 weights everywhere (<= 5e-6 RMS before the output type) */
};

/* Strides in elements. The head_dim elements of one head are always contiguous. A stride of a
 * dimension of size 1 is never read. A stride of 0 is allowed for inputs (broadcast). */
struct gqa_strides {
    int64_t batch; /* from one sequence to the next; for paged K and V from one page to the next */
    int64_t token;
    int64_t head;
};

/* Everything about a decode step but its pointers. Set up with gqa_problem_init, then fill in. */
struct gqa_problem {
    size_t size;

    /* Shape. group = q_heads / kv_heads may be any whole number >= 1. */
    int64_t batch; /* sequences, 0 .. 2^31 - 1; 0 is a valid, empty step */
    int q_heads;   /* 1 .. 2^20 */
    int kv_heads;
    int head_dim;            /* of Q and K, 1 .. 512; GPUs want a multiple of 8 (of 16 bytes
                                of K and V), a CPU takes any */
    int head_dim_v;          /* of V and O; 0 means head_dim */
    int q_tokens;            /* query tokens per sequence, 1 .. 16; the longest one where ragged */
    int q_ragged;            /* nonzero: lengths from cu_seqlens_q, Q/O/LSE rows packed by token */
    int64_t q_total;         /* ragged: rows of Q, that is, an upper bound of cu_seqlens_q[batch];
                                rows past that are neither read nor written */
    int64_t kv_len;          /* capacity: no sequence is ever longer; 0 .. 2^31 - 1 */
    int64_t kv_len_expected; /* a hint for the split count; 0 means kv_len */
    int64_t kv_batch; /* batch entries of K and V (contiguous) or rows of the table; 0: batch */

    /* Types. q: f32 (CPU), bf16, fp16. kv: also e4m3, e5m2. o: f32, bf16, fp16. */
    enum gqa_type q_type, kv_type, o_type;
    enum gqa_scales k_scales, v_scales;

    /* Layout: gqa_problem_pack fills the usual ones.
     *   q  [batch][q_tokens][q_heads][head_dim]     ragged: [q_total][q_heads][head_dim]
     *   o  [batch][q_tokens][q_heads][head_dim_v]   ragged: [q_total][q_heads][head_dim_v]
     *   lse [batch][q_tokens][q_heads] float32      ragged: [q_total][q_heads]
     * Ragged Q, O and LSE use only token and head strides. */
    struct gqa_strides q, k, v, o, lse;

    /* Paging. Any page_size >= 1; page p holds tokens at k + p * k.batch + t * k.token + ... */
    enum gqa_paging paging;
    int page_size;        /* tokens per page; 0 for contiguous caches */
    int64_t num_pages;    /* pages of the pools; 0: unknown, then page numbers are not checked */
    int64_t table_stride; /* columns of the block table; 0 means ceil(kv_len / page_size) */

    /* Which keys a query sees. Query token i of n in a sequence of length L stands at position
     * L - n + i (bottom-right); causal: keys <= its position. window_left >= 0: keys >= position -
     * window_left, so window_left + 1 keys in all (Hugging Face's sliding_window is one more). */
    int causal;
    int64_t window_left; /* -1: no window */
    float scale;         /* multiplies q . k; 0 means 1 / sqrt(head_dim) */
    float softcap;       /* 0: off */
    int has_sinks;       /* nonzero: tensors.sinks, one logit per query head, counted once */

    /* Results. */
    int has_lse; /* nonzero: tensors.lse is written */
    enum gqa_lse_base lse_base;

    /* How to run it. All zero is right nearly always. */
    enum gqa_split_mode split_mode;
    int splits;           /* GQA_SPLIT_FIXED: 1 .. 4096; else 0 */
    int64_t split_tokens; /* GQA_SPLIT_INVARIANT: 1 .. 2^31 - 1, or 0: the device chooses, from
                             head_dim alone; else 0 */
    enum gqa_reduction reduction;
    enum gqa_pdl pdl;
    enum gqa_precision precision;
    int check_tables;   /* CPU: look at every length, offset and page number before computing */
    const char *kernel; /* NULL, or the one kernel to use (gqa_device_kernel lists them), with
                           ":simple", ":opt" or ":blog" (sm100: a published rule chooses the splits;
                           "blog" may choose atomic), ":shares" or ":cluster=N" (sm90: how a grid is
                           made). The string is read by gqa_plan_create only */
};

static inline struct gqa_problem gqa_problem_init(void) {
    struct gqa_problem p = GQA_ZERO;
    p.size = sizeof p;
    p.batch = 1;
    p.q_tokens = 1;
    p.causal = 1;
    p.window_left = -1;
    return p;
}

/* Fill p's strides for packed Q, O and LSE and for a packed cache in the given layout.
 * Shapes: read from p: q_tokens, heads, head dims, kv_len, page_size (> 0: K and V are pools
 *   [num_pages][...page_size...]). Values out of range give strides that gqa_plan_create refuses.
 * Owner:  writes p->q, k, v, o, lse and nothing else. */
GQA_API void gqa_problem_pack(struct gqa_problem *p, enum gqa_layout layout);

/* Bytes of one element; 0 for a value that is no type. */
GQA_API size_t gqa_type_bytes(enum gqa_type type);

/* "f32", "bf16", "f16", "e4m3", "e5m2"; "?" for a value that is no type. */
GQA_API const char *gqa_type_name(enum gqa_type type);

/* "auto", "none", "kernel", "atomic", "cluster", "grid"; "?" for a value that is no reduction. */
GQA_API const char *gqa_reduction_name(enum gqa_reduction reduction);

/* --- Devices (src/api.c) -------------------------------------------------------------------- */

typedef struct gqa_device gqa_device;

struct gqa_device_options {
    size_t size;
    int threads; /* CPU: threads of the pool, the caller's included; 0: one per core this
                    process may run on; 1: none but the caller's */
    int spin_us; /* CPU: how long an idle pool thread polls before it sleeps; 0: not at all */
    const char *kernel; /* NULL, or the one kernel family to use ("avx2"), else GQA_ERR_NAME */
    const char *driver; /* NULL, or the CUDA driver library to open instead of the default one */
};

static inline struct gqa_device_options gqa_device_options_init(void) {
    struct gqa_device_options x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

struct gqa_device_info {
    size_t size;
    char name[64];     /* as it was opened */
    char product[128]; /* as its maker calls it */
    char features[256];
    int units;   /* CPU: threads of the pool; GPU: SMs */
    int kernels; /* how many gqa_device_kernel knows */
};

static inline struct gqa_device_info gqa_device_info_init(void) {
    struct gqa_device_info x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

struct gqa_kernel_info {
    size_t size;
    char name[64];
    int available; /* 0: `why` says what is missing */
    char why[192];
};

static inline struct gqa_kernel_info gqa_kernel_info_init(void) {
    struct gqa_kernel_info x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

/* Open a device by name.
 * Names:  "cpu"; "cuda:N" (N as the driver counts); "emu:PART" (sm_100a, sm_90a, ...), the PTX
 *         emulator; "plan:cpu", "plan:PART", which can plan but not decode and need no hardware.
 *         PARTs: sm_80, 86, 87, 89, 90, 100, 103, 120, those from 90 on with or without an "a";
 *         the emulator has sm_80, 90a, 100a, 103a and 120a.
 * Owner:  *device is the caller's, for gqa_device_close. options may be NULL; it is not kept.
 * Threads: opening is synchronous and may allocate and start threads. An open device may be used
 *         by many threads at once. A CPU device's pool works for one decode at a time; a second
 *         caller meanwhile computes on its own thread alone, with the same result.
 * Fails:  GQA_ERR_NAME, GQA_ERR_ARGUMENT, GQA_ERR_DEVICE, GQA_ERR_DRIVER, GQA_ERR_MEMORY. */
GQA_API gqa_status gqa_device_open(const char *name, const struct gqa_device_options *options,
                                   gqa_device **device, struct gqa_error *err);

/* Release a device (NULL is allowed). Its plans must be destroyed and its work finished before. */
GQA_API void gqa_device_close(gqa_device *device);

/* What the device is. Fails: GQA_ERR_ARGUMENT. */
GQA_API gqa_status gqa_device_describe(const gqa_device *device, struct gqa_device_info *info,
                                       struct gqa_error *err);

/* Kernel number `index` (0 .. info.kernels - 1), best first. Fails: GQA_ERR_ARGUMENT. */
GQA_API gqa_status gqa_device_kernel(const gqa_device *device, int index,
                                     struct gqa_kernel_info *info, struct gqa_error *err);

/* --- Planning (src/api.c) ------------------------------------------------------------------- */

typedef struct gqa_plan gqa_plan;

struct gqa_plan_info {
    size_t size;
    char kernel[64];
    enum gqa_reduction reduction;
    int splits;           /* most splits a row can have */
    int64_t split_tokens; /* tokens per split of a row of kv_len_expected tokens; 0 where splits
                             are not all of one length */
    int64_t work_items;   /* CTAs, or CPU work items, at full length */
    int pdl;              /* 0, 1, or 2: early */
    size_t workspace_bytes;
    char reason[256]; /* why this kernel and this many splits, in words */
};

static inline struct gqa_plan_info gqa_plan_info_init(void) {
    struct gqa_plan_info x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

/* Check a problem, choose a kernel and a split of the work: pure host arithmetic, no device work.
 * Owner:  *plan is the caller's, for gqa_plan_destroy; p is copied. The device must outlive it.
 * Threads: synchronous. A plan never changes, so any number of threads and streams may share it.
 * Fails:  GQA_ERR_ARGUMENT, _SHAPE, _TYPE, _STRIDE, _ALIGNMENT for a problem that is wrong;
 *         GQA_ERR_UNSUPPORTED for one that this device cannot do, the message naming the rule;
 *         GQA_ERR_NAME for an unknown p->kernel; GQA_ERR_MEMORY. *plan is then untouched. */
GQA_API gqa_status gqa_plan_create(gqa_device *device, const struct gqa_problem *p, gqa_plan **plan,
                                   struct gqa_error *err);

/* Release a plan (NULL is allowed). Work already enqueued does not need it any more. */
GQA_API void gqa_plan_destroy(gqa_plan *plan);

/* Workspace that gqa_decode needs, in bytes. It needs no initial value, is the caller's, and is
 * free again when the decode has run; one after the other, decodes of any plans may use the same.
 * Decodes that may run at the same time (two streams) need one each, or they may never end. It
 * never shrinks as batch, kv_len or q_tokens grow, all else equal, so the size for the largest
 * problem serves all smaller ones. has_lse does not change it. */
GQA_API size_t gqa_plan_workspace(const gqa_plan *plan);

/* What was chosen and why. Fails: GQA_ERR_ARGUMENT. */
GQA_API gqa_status gqa_plan_describe(const gqa_plan *plan, struct gqa_plan_info *info,
                                     struct gqa_error *err);

/* --- Decoding (src/api.c) ------------------------------------------------------------------- */

/* The pointers of one step, all on the plan's device. Inputs are never written. */
struct gqa_tensors {
    size_t size;
    const void *q; /* [batch][q_tokens][q_heads][head_dim] by p.q; ragged [q_total][...] */
    const void *k; /* [kv_batch | num_pages] x token x head x head_dim by p.k */
    const void *v; /* ... x head_dim_v by p.v. Slots beyond a length may hold anything, NaN too */
    void *o;       /* every row of a sequence is written; rows that see no key get zeros */
    float *lse;    /* if has_lse; a row that sees no key gets -inf, or its sink */
    const int32_t *kv_lens;         /* [batch], 0 .. kv_len; NULL: every sequence has kv_len (with
                                       GQA_PAGED_CSR: lengths follow from last_page_len) */
    const int32_t *cu_seqlens_q;    /* [batch + 1], ascending from 0, if q_ragged */
    const int32_t *batch_index;     /* [batch] or NULL: sequence b lives in cache entry (or table
                                       row) batch_index[b] of kv_batch; lengths stay with b */
    const int32_t *block_table;     /* GQA_PAGED_TABLE: [kv_batch][table_stride]; entries beyond
                                       a sequence's last page may hold anything */
    const int32_t *page_indptr;     /* GQA_PAGED_CSR: [kv_batch + 1] */
    const int32_t *page_indices;    /* GQA_PAGED_CSR: [page_indptr[kv_batch]] */
    const int32_t *last_page_len;   /* GQA_PAGED_CSR: [batch], 1 .. page_size (0 with no page);
                                       may be NULL where kv_lens is given, which then decides */
    const float *k_scale, *v_scale; /* as p.k_scales, p.v_scales say */
    const float *sinks;             /* [q_heads], logit units, if has_sinks */
    void *trace;                    /* NULL, or where a kernel that records (its name ends in
                                       _trace) leaves events for gqa_trace_read: aligned to
                                       2048 and zeroed by the caller before each step */
    size_t trace_bytes;             /* of it; a Blackwell kernel fills some 700 per tile of 128 */
};

static inline struct gqa_tensors gqa_tensors_init(void) {
    struct gqa_tensors x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

/* Compute o (and lse) for one step.
 * Numbers: products and sums in float32; o is rounded once, to o_type. A score that is masked is
 *         replaced, never added to, and V rows that no query token of the sequence sees are never
 *         multiplied, so NaN or Inf in unused slots, pages or table entries cannot reach an
 *         output. (One that only a later query token sees may reach an earlier one on GPUs.)
 * Owner:  pointers must stay valid until the stream has run this call (CPU: until it returns).
 *         o, lse and the workspace overlap neither each other nor any input. The workspace is
 *         aligned to 256 bytes; it may be NULL if gqa_plan_workspace is 0.
 * Stream: GPU: a CUstream; kernels are enqueued, nothing is synchronised, allocated or copied; it
 *         may be captured in a graph, and the lengths are read when it runs. CPU: must be NULL;
 *         returns when o is complete.
 *         On GPUs K and V, and their strides, are multiples of 16 bytes, Q's of 8; with
 *         reduction atomic on sm100 O's of 16.
 * Fails:  GQA_ERR_ARGUMENT, _ALIGNMENT, _WORKSPACE, _DEVICE, _DRIVER, _SHAPE (more CTAs than a
 *         grid holds), _UNSUPPORTED (a trace, and a kernel that does not record); nothing is
 *         enqueued then. With check_tables (CPU) also GQA_ERR_ARGUMENT for a bad length, offset or
 * page. */
GQA_API gqa_status gqa_decode(const gqa_plan *plan, const struct gqa_tensors *tensors,
                              void *workspace, size_t workspace_bytes, void *stream,
                              struct gqa_error *err);

/* CPU, for engines with their own threads: compute slice `slice` of `slices`, on this thread.
 * All slices 0 .. slices - 1 (1 .. 1024), in any order and on any threads, with the same arguments;
 * then, after all of them, one call of gqa_decode_finish. slices = the number of your threads.
 * The bits are those of gqa_decode on a device with `slices` threads.
 * Fails: as gqa_decode; GQA_ERR_UNSUPPORTED on a GPU. */
GQA_API gqa_status gqa_decode_slice(const gqa_plan *plan, const struct gqa_tensors *tensors,
                                    void *workspace, size_t workspace_bytes, int slice, int slices,
                                    struct gqa_error *err);

/* Merge what the slices left in the workspace; every row of o and lse is complete afterwards. */
GQA_API gqa_status gqa_decode_finish(const gqa_plan *plan, const struct gqa_tensors *tensors,
                                     void *workspace, size_t workspace_bytes, int slices,
                                     struct gqa_error *err);

/* --- Tracing (src/trace.c) ------------------------------------------------------------------ */

/* What kind of thing a warp does in a range. */
enum gqa_trace_kind {
    GQA_TRACE_OTHER = 0, /* bookkeeping between ranges */
    GQA_TRACE_SETUP,
    GQA_TRACE_WAIT, /* for a barrier, a copy, another kernel */
    GQA_TRACE_LOAD,
    GQA_TRACE_MULTIPLY,
    GQA_TRACE_SOFTMAX,
    GQA_TRACE_PUBLISH, /* results are handed to another role */
    GQA_TRACE_RESCALE,
    GQA_TRACE_STORE,
    GQA_TRACE_COMBINE, /* partials of splits are merged */
};

/* A warp was in the range `name` from begin to end, ns since the trace's first event. The strings
 * are constants. On hardware SMs are aligned by their %globaltimer, which may move in steps. */
struct gqa_trace_span {
    const char *name;
    const char *says;  /* one line: what the range is */
    const char *after; /* WAIT: the ranges, separated by spaces, an end of which it waits for */
    const char *kernel, *role;
    enum gqa_trace_kind kind;
    int cta, sm, warp;
    int tile; /* of the CTA's part; or a step */
    double begin, end;
};

struct gqa_trace_info {
    size_t size;
    size_t spans;     /* in the buffer, whatever the capacity was */
    size_t lost;      /* events for which the buffer was too small */
    double clock_ghz; /* of the SMs, by the two clocks; 0: too short to say */
};

static inline struct gqa_trace_info gqa_trace_info_init(void) {
    struct gqa_trace_info x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

/* Turn a trace buffer, copied to the host, into spans: warp by warp, in each by time.
 * Shapes: spans [capacity]; the first min(capacity, info->spans) are written. Call with capacity 0
 *         to learn how many there are.
 * Fails:  GQA_ERR_ARGUMENT, also for bytes that no kernel wrote. Threads: pure. */
GQA_API gqa_status gqa_trace_read(const void *trace, size_t bytes, struct gqa_trace_span *spans,
                                  size_t capacity, struct gqa_trace_info *info,
                                  struct gqa_error *err);

/* --- Merging (src/api.c) -------------------------------------------------------------------- */

/* Attention over shards of a cache, merged: parts r = 0 .. parts - 1, each with its own o and lse.
 *     m = max_r lse[r];  w[r] = exp(lse[r] - m);  o = sum_r w[r] o[r] / sum_r w[r];
 *     lse = m + log(sum_r w[r]);  all lse[r] = -inf gives o = 0 and lse = -inf.
 * A part whose lse is -inf is never read into the sum, whatever its o holds. */
struct gqa_shards {
    size_t size;
    int parts; /* 1 .. 4096 */
    int64_t rows;
    int q_heads;
    int head_dim_v;
    enum gqa_type part_type, o_type;     /* f32, bf16 or fp16 each */
    enum gqa_lse_base part_base, o_base; /* base of the parts' lse, and of the merged one */
    const void *part_o;                  /* [parts][rows][q_heads][head_dim_v], packed */
    const float *part_lse;               /* [parts][rows][q_heads], packed */
    void *o;    /* [rows][q_heads][head_dim_v], packed; may be part_o itself */
    float *lse; /* [rows][q_heads], packed, or NULL; may be part_lse itself */
};

static inline struct gqa_shards gqa_shards_init(void) {
    struct gqa_shards x = GQA_ZERO;
    x.size = sizeof x;
    return x;
}

/* Merge partial results. Ref: FlashDecoding's reduction; Dao et al., "Flash-Decoding".
 * Numbers: float32, parts in ascending order, so the result does not depend on threads.
 * Stream, Owner: as gqa_decode. In place is allowed only onto part 0 (same address and type).
 * Fails:  GQA_ERR_ARGUMENT, _SHAPE, _TYPE, _ALIGNMENT, _UNSUPPORTED, _DEVICE, _DRIVER. */
GQA_API gqa_status gqa_merge(gqa_device *device, const struct gqa_shards *merge, void *stream,
                             struct gqa_error *err);

#ifdef __cplusplus
}
#endif
#endif
