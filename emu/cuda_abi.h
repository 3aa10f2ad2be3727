/* cuda_abi.h: the part of the CUDA driver's C interface that libcuda-emu.so wears, in our own
 * declarations (after the CUDA Driver API reference), so that no CUDA header is needed to build.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_CUDA_ABI_H
#define EMU_CUDA_ABI_H

#include "emu.h"

#define CU_API __attribute__((visibility("default")))

/* --- Result codes --- */

#define CU_RESULTS(X)                                                                              \
    X(SUCCESS, 0, "no error")                                                                      \
    X(ERROR_INVALID_VALUE, 1, "invalid argument")                                                  \
    X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                     \
    X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                            \
    X(ERROR_INVALID_SYMBOL, 13, "invalid device symbol")                                           \
    X(ERROR_INVALID_FUNCTION, 98, "invalid device function")                                       \
    X(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                  \
    X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                         \
    X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                  \
    X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                        \
    X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")    \
    X(ERROR_PEER_ACCESS_UNSUPPORTED, 217,                                                          \
      "peer access is not supported between these two devices")                                    \
    X(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                      \
    X(ERROR_FILE_NOT_FOUND, 301, "file not found")                                                 \
    X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                        \
    X(ERROR_NOT_FOUND, 500, "named symbol not found")                                              \
    X(ERROR_NOT_READY, 600, "device not ready")                                                    \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")               \
    X(ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")                      \
    X(ERROR_ASSERT, 710, "device-side assert triggered")                                           \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the memory is registered")        \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "the memory is not registered")                       \
    X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                      \
    X(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")            \
    X(ERROR_NOT_PERMITTED, 800, "operation not permitted")                                         \
    X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                         \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")   \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901,                                                       \
      "operation failed due to a previous error in capture")                                       \
    X(ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not initiated in this stream")             \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                    \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                          \
      "dependency created on uncaptured work in a capturing stream")                               \
    X(ERROR_CAPTURED_EVENT, 907, "the event was last recorded in a capturing stream")              \
    X(ERROR_INVALID_CLUSTER_SIZE, 912, "misconfigured cluster size")

enum {
#define X(n, v, t) CUE_##n = v,
    CU_RESULTS(X)
#undef X
};

enum { /* attributes of a launch */
       CU_LAUNCH_COOPERATIVE = 2,
       CU_LAUNCH_CLUSTER = 4,
       CU_LAUNCH_PDL = 6
};

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_ptr;

struct cu_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int on;
    } value;
};
struct cu_config {
    unsigned grid[3], block[3], smem;
    struct cu_stream *stream;
    struct cu_attribute *attrs;
    unsigned nattrs;
};
struct cu_memcpy2d {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    cu_ptr src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    cu_ptr dst_device;
    void *dst_array;
    size_t dst_pitch, width, height;
};
struct cu_memcpy3d_side {
    size_t x, y, z, lod;
    unsigned type;
    union {
        const void *from_host;
        void *host;
    };
    cu_ptr device;
    void *array, *reserved;
    size_t pitch, height;
};
struct cu_memcpy3d {
    struct cu_memcpy3d_side src, dst;
    size_t width, height, depth;
};
struct cu_uuid {
    char bytes[16];
};

/* --- Objects --- */

struct cu_image {
    struct module *mod;
    struct cu_kernel *kernels;
    uint32_t nkernels;
    struct cu_image *next;
};
struct cu_kernel {
    struct function *fn;
    struct cu_image *image;
    int max_dyn, non_portable;
};
struct cu_op;
struct cu_stream {
    struct cu_graph *capture; /* NULL unless capturing */
    bool origin;
    bool nodes;    /* not a capture: nodes are added */
    bool given;    /* captures into a graph of the program's */
    bool unjoined; /* joined a capture; no other stream has waited for its last work */
    uint64_t work; /* captured operations */
    unsigned flags;
    int priority;
    struct cu_graph *queue; /* cuda_wait.c: what a waiting stream has still to do */
    struct cu_stream *next;
};
struct cu_event {
    double ms;
    bool recorded;
    bool pending; /* recorded in a stream that waits */
    unsigned flags;
    struct cu_graph *capture;
    struct cu_stream *from; /* capture: where it was recorded, after how much work */
    uint64_t work;
    bool was_captured; /* in a capture that has ended */
};
struct cu_context {
    int references;
    unsigned flags;
    bool primary, alive;
};

/* The one device. */
struct cu_world {
    struct emu *emu;
    bool failed; /* sticky */
    struct cu_context primary;
    struct cu_image *images;
};
extern struct cu_world cu_world;

void cu_lock(void);
void cu_unlock(void);
cu_result cu_failure(void);              /* what a failed run is answered with */
cu_result cu_ready(void);                /* a current context, no sticky failure */
cu_result cu_drain(void);                /* runs everything queued */
const char *cu_mutate(const char *text); /* cuda_mutate.c */
struct cu_context *cu_current(void);
const char *cu_env_file(void);
const char *cu_replaced(const char *text); /* cuda_debug.c */
void cu_keep_text(const char *text);
char *cu_read_file(const char *path, size_t *bytes);
bool cu_folder(const char *path); /* cuda_cubin.c */
bool cu_is_elf(const void *data);
/* Text for the caller to free; stubs: it has only the kernels' names.  NULL: why has been said. */
char *cu_cubin_ptx(const void *elf, bool *stubs);
char *cu_fatbin_elf(const void *data);
bool cu_is_fatbin(const void *data); /* cuda_fatbin.c */
char *cu_fatbin_ptx(const void *data, bool (*fits)(const char *target));
bool cu_target_fits(const char *target); /* cuda.c */
void cu_module_coverage(const struct module *m);

/* --- Operations: run at once, or kept by a graph --- */

enum cu_op_kind {
    CUOP_KERNEL,
    CUOP_COPY,
    CUOP_SET,
    CUOP_HOST,
    CUOP_WAIT,
    CUOP_CONDITIONAL,
    CUOP_EVENT, /* data: the event that happens */
    CUOP_AFTER  /* data: the event that must have happened */
};
struct cu_op {
    enum cu_op_kind kind;
    struct cu_op *next;
    /* kernel */
    struct emu_launch launch;
    /* copy: rows; set: value of `element` bytes */
    uint64_t dst, src;
    size_t width, height, dst_pitch, src_pitch;
    uint32_t value, element;
    uint64_t wanted; /* wait: until the `element` bytes at src compare so; value: how */
    /* host: a call, NULL: nothing */
    void (*host)(void *);
    void *data;
    const struct cu_op *origin; /* of a copied graph: the node it comes from */
    struct cu_op *entry;        /* of the node of a child graph, its last operation: the first */
    /* conditional: value: the type, src: the handle, element: the number of bodies */
    struct cu_graph **bodies;
};
struct cu_graph {
    struct cu_op *first, *last;
    size_t count;
    struct cu_edge *edges; /* cuda_graph_order.c */
    size_t nedges;
    struct cu_condition *conditions; /* cuda_graph_cond.c */
    size_t nconditions;
    bool invalid;           /* a capture that went wrong */
    struct cu_op *captured; /* what the next captured operation comes after */
};
/* cuda_handles.c */
enum cu_handle { CU_STREAM = 1, CU_EVENT, CU_GRAPH, CU_CONTEXT, CU_POOL };
void cu_handle_add(const void *p, enum cu_handle kind);
bool cu_handle_is(const void *p, enum cu_handle kind);
bool cu_handle_drop(const void *p, enum cu_handle kind); /* false: there was none */
bool cu_image_is(const struct cu_image *m);
bool cu_kernel_is(const struct cu_kernel *k);
struct cu_stream *cu_adding(void);
bool cu_stream_is(const struct cu_stream *s);
cu_result cu_stream_takes(const struct cu_stream *s); /* may work be given to it? */
cu_result cu_capture_ends(const struct cu_stream *origin, const struct cu_graph *g);
/* Runs or records; frees nothing of the caller's. */
cu_result cu_submit(struct cu_stream *s, const struct cu_op *op);
cu_result cu_run_op(const struct cu_op *op);
cu_result cu_value_there(const struct cu_op *op, bool *yes); /* cuda_stream.c */
/* cuda_wait.c */
bool cu_stream_waits(struct cu_stream *s);
bool cu_any_waits(void);
cu_result cu_submit_waiting(struct cu_stream *s, const struct cu_op *op);
cu_result cu_streams_go(void);   /* what may go on by now */
cu_result cu_wait_for_all(void); /* an error when one cannot */
cu_result cu_stream_stuck(const char *who);
void cu_op_free(struct cu_op *op);
struct cu_op *cu_graph_add(struct cu_graph *g, const struct cu_op *op); /* a copy, at the end */
struct cu_graph *cu_graph_copy(const struct cu_graph *g);               /* cuda_graph_order.c */
void cu_graph_free(struct cu_graph *g);
cu_result cu_graph_edge(struct cu_graph *g, struct cu_op *from, struct cu_op *to);
cu_result cu_run_graph(const struct cu_graph *g);
cu_result cu_run_conditional(const struct cu_op *op); /* cuda_graph_cond.c */
void cu_conditions_join(struct cu_graph *to, const struct cu_graph *from);
cu_result cu_conditions_reset(const struct cu_graph *g);

#endif
