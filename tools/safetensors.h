/* SPDX-License-Identifier: Apache-2.0
 * Reading and writing safetensors files, the reader written for files that lie. The header is
 * parsed (by jansson) and checked completely when the file is opened: sizes against the file,
 * shapes against offsets, no overlap, no hole, no name twice. Data are read only when asked for,
 * into the caller's memory, so a file can neither crash a program nor choose an allocation.
 * Deliberately not here: memory mapping (a file that shrinks under it kills the process), types
 * narrower than a byte, big-endian hosts. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include "gqa.h"

#include <stddef.h>
#include <stdint.h>

enum {
    ST_MAX_DIMS = 8,
    ST_MAX_HEADER = 8 << 20, /* bytes; a shard with ten thousand tensors needs about one MiB */
};

/* name in the file, bytes per element */
#define ST_TYPE_LIST(X)                                                                            \
    X(ST_F32, "F32", 4)                                                                            \
    X(ST_BF16, "BF16", 2)                                                                          \
    X(ST_F16, "F16", 2)                                                                            \
    X(ST_E4M3, "F8_E4M3", 1)                                                                       \
    X(ST_E5M2, "F8_E5M2", 1)                                                                       \
    X(ST_I32, "I32", 4)                                                                            \
    X(ST_I64, "I64", 8)                                                                            \
    X(ST_F64, "F64", 8)                                                                            \
    X(ST_U8, "U8", 1)                                                                              \
    X(ST_I8, "I8", 1)                                                                              \
    X(ST_I16, "I16", 2)                                                                            \
    X(ST_U16, "U16", 2)                                                                            \
    X(ST_U32, "U32", 4)                                                                            \
    X(ST_U64, "U64", 8)                                                                            \
    X(ST_BOOL, "BOOL", 1)                                                                          \
    X(ST_E8M0, "F8_E8M0", 1)

/* The first five are enum gqa_type's, in its order. */
enum st_type {
#define ST_X(id, name, bytes) id,
    ST_TYPE_LIST(ST_X)
#undef ST_X
        ST_TYPES
};

struct st_tensor {
    char *name;
    enum st_type type;
    int dims; /* 0 .. ST_MAX_DIMS; a tensor of no dimension is one number */
    int64_t shape[ST_MAX_DIMS];
    uint64_t offset; /* in the file, bytes */
    size_t bytes;    /* = product of shape * bytes of an element; may be 0 */
};

struct st_file {
    int fd;
    int count;
    struct st_tensor *tensors; /* [count], in the order of their data */
};

/* The type's name in a file; "?" for a value that is none. Bytes of an element; 0 likewise. */
const char *st_type_name(enum st_type type);
size_t st_type_bytes(enum st_type type);

/* Open a file and read its header.
 * Owner:  *file is the caller's, for st_close, if GQA_OK; otherwise it is left alone.
 * Fails:  GQA_ERR_ARGUMENT with a sentence that names the file and what is wrong with it (not
 * there, not a regular file, not safetensors, inconsistent); GQA_ERR_MEMORY. */
gqa_status st_open(const char *path, struct st_file *file, struct gqa_error *err);

void st_close(struct st_file *file);

/* The tensor of that name, NULL if there is none. It lives as long as the file. */
const struct st_tensor *st_find(const struct st_file *file, const char *name);

/* Read a tensor's data, tensor->bytes of them, into `data`. Numbers are little-endian.
 * Fails:  GQA_ERR_ARGUMENT if the file has become shorter or cannot be read. */
gqa_status st_read(const struct st_file *file, const struct st_tensor *tensor, void *data,
                   struct gqa_error *err);

/* One tensor to be written. */
struct st_output {
    const char *name;
    enum st_type type;
    int dims;
    int64_t shape[ST_MAX_DIMS];
    const void *data; /* packed */
};

/* Write a file: under a temporary name in the same folder first, renamed when it is complete, so
 * that no failure leaves a partial file or damages an existing one.
 * Fails:  GQA_ERR_ARGUMENT, naming the file: it exists and is not a regular file, or the system
 *         refused; a shape is negative or too large; GQA_ERR_MEMORY. */
gqa_status st_write(const char *path, const struct st_output *tensors, int count,
                    struct gqa_error *err);

#endif
