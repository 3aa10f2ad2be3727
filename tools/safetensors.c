/* SPDX-License-Identifier: Apache-2.0
 * The safetensors format: eight bytes of header size, little-endian; a JSON object that maps names
 * to {dtype, shape, data_offsets}, and "__metadata__" to strings; then the data, which the tensors
 * cover without holes. Ref: "Safetensors", section "Format", of the huggingface/safetensors README.
 *
 * Everything a file says is checked once, in st_open, against the size the system reports for it;
 * afterwards the numbers in struct st_tensor are facts. */
#include "safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data are used as they are in the file");
static_assert((int)ST_F32 == GQA_F32 && (int)ST_E5M2 == GQA_E5M2, "the float types are shared");

static const struct {
    const char *name;
    size_t bytes;
} types[ST_TYPES] = {
#define X(id, name, bytes) [id] = {name, bytes},
    ST_TYPE_LIST(X)
#undef X
};

const char *st_type_name(enum st_type type) {
    return (unsigned)type < ST_TYPES ? types[type].name : "?";
}

size_t st_type_bytes(enum st_type type) {
    return (unsigned)type < ST_TYPES ? types[type].bytes : 0;
}

__attribute__((format(printf, 3, 4))) static gqa_status
refuse(struct gqa_error *err, gqa_status status, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

/* --- Reading -------------------------------------------------------------------------------- */

/* Names come from the file: what is not printable ASCII is shown as '?', and only so much of it. */
static const char *shown(const char *name, char buffer[64]) {
    size_t n = 0;
    for (; name[n] && n < 60; n++)
        buffer[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    strcpy(buffer + n, name[n] ? "..." : "");
    return buffer;
}

/* Exactly `bytes` from `offset`; false with errno set, or 0 where the file ends before. */
static bool read_all(int fd, uint64_t offset, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(fd, (char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : 0;
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* What parsing one header needs to know and to report. */
struct parse {
    const char *path;
    uint64_t data_start, data_bytes; /* of the file */
    struct gqa_error *err;
};

#define BAD(p, ...) refuse((p)->err, GQA_ERR_ARGUMENT, __VA_ARGS__)

/* A JSON array of whole numbers >= 0; its length, or -1 if it is not one or longer than `most`. */
static int parse_numbers(const json_t *array, int64_t *numbers, size_t most) {
    if (!json_is_array(array) || json_array_size(array) > most)
        return -1;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *n = json_array_get(array, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return -1;
        numbers[i] = json_integer_value(n);
    }
    return (int)json_array_size(array);
}

static gqa_status parse_type(const struct parse *p, const char *name, const json_t *value,
                             enum st_type *type) {
    char show[64], show_type[64];
    if (!json_is_string(value))
        return BAD(p, "%s: tensor \"%s\" has no dtype", p->path, name);
    for (int i = 0; i < ST_TYPES; i++)
        if (!strcmp(json_string_value(value), types[i].name))
            return *type = (enum st_type)i, GQA_OK;
    return BAD(p,
               "%s: tensor \"%s\" has dtype \"%s\", which is not one of those this program reads",
               p->path, shown(name, show), shown(json_string_value(value), show_type));
}

/* One entry of the header. The name is taken over by the caller. */
static gqa_status parse_tensor(const struct parse *p, const char *raw_name, const json_t *entry,
                               struct st_tensor *t) {
    char name[64];
    shown(raw_name, name);
    if (!json_is_object(entry))
        return BAD(p, "%s: tensor \"%s\" is not described by an object", p->path, name);
    gqa_status status = parse_type(p, name, json_object_get(entry, "dtype"), &t->type);
    if (status)
        return status;
    t->dims = parse_numbers(json_object_get(entry, "shape"), t->shape, ST_MAX_DIMS);
    if (t->dims < 0)
        return BAD(p, "%s: the shape of tensor \"%s\" is not a list of up to %d whole numbers",
                   p->path, name, ST_MAX_DIMS);
    int64_t range[2];
    if (parse_numbers(json_object_get(entry, "data_offsets"), range, 2) != 2)
        return BAD(p, "%s: data_offsets of tensor \"%s\" is not a list of two whole numbers",
                   p->path, name);
    if (range[0] > range[1] || (uint64_t)range[1] > p->data_bytes)
        return BAD(p, "%s: tensor \"%s\" lies at bytes %lld to %lld of %llu bytes of data", p->path,
                   name, (long long)range[0], (long long)range[1],
                   (unsigned long long)p->data_bytes);
    size_t bytes = types[t->type].bytes;
    for (int i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(bytes, (size_t)t->shape[i], &bytes))
            return BAD(p, "%s: the size of tensor \"%s\" overflows", p->path, name);
    if (bytes != (uint64_t)(range[1] - range[0]))
        return BAD(p, "%s: tensor \"%s\" needs %zu bytes by its shape and has %lld", p->path, name,
                   bytes, (long long)(range[1] - range[0]));
    t->bytes = bytes;
    t->offset = p->data_start + (uint64_t)range[0];
    return GQA_OK;
}

static gqa_status parse_metadata(const struct parse *p, json_t *entry) {
    const char *key;
    json_t *value;
    if (!json_is_object(entry))
        return BAD(p, "%s: __metadata__ is not an object", p->path);
    json_object_foreach(entry, key, value) {
        if (!json_is_string(value))
            return BAD(p, "%s: a value in __metadata__ is not a string", p->path);
    }
    return GQA_OK;
}

static int by_offset(const void *a, const void *b) {
    const struct st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors, sorted, cover the data exactly: neither holes nor two tensors on one byte. */
static gqa_status check_cover(const struct parse *p, const struct st_file *file) {
    uint64_t end = p->data_start;
    char name[64];
    for (int i = 0; i < file->count; i++) {
        const struct st_tensor *t = &file->tensors[i];
        if (t->offset != end)
            return BAD(p,
                       "%s: tensor \"%s\" begins at byte %llu of the data, the one before it "
                       "ends at %llu",
                       p->path, shown(t->name, name),
                       (unsigned long long)(t->offset - p->data_start),
                       (unsigned long long)(end - p->data_start));
        end += t->bytes;
    }
    if (end - p->data_start != p->data_bytes)
        return BAD(p, "%s: %llu bytes of data belong to no tensor", p->path,
                   (unsigned long long)(p->data_bytes - (end - p->data_start)));
    return GQA_OK;
}

/* Fills file->tensors; what it allocates is in *file even where it fails. */
static gqa_status parse_header(const struct parse *p, json_t *root, struct st_file *file) {
    if (!json_is_object(root))
        return BAD(p, "%s: the header is not a JSON object", p->path);
    file->tensors = calloc(json_object_size(root) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return refuse(p->err, GQA_ERR_MEMORY, "%s: out of memory", p->path);
    const char *name;
    json_t *entry;
    json_object_foreach(root, name, entry) {
        gqa_status status;
        if (!strcmp(name, "__metadata__")) {
            status = parse_metadata(p, entry);
        } else {
            struct st_tensor *t = &file->tensors[file->count];
            status = parse_tensor(p, name, entry, t);
            if (!status && !(t->name = strdup(name)))
                status = refuse(p->err, GQA_ERR_MEMORY, "%s: out of memory", p->path);
            file->count += !status;
        }
        if (status)
            return status;
    }
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_offset);
    return check_cover(p, file);
}

/* The header's text, NUL-terminated, in memory that the caller frees; p's sizes filled in. */
static gqa_status read_header(struct parse *p, int fd, char **text, size_t *text_bytes) {
    struct stat st;
    if (fstat(fd, &st))
        return BAD(p, "%s: %s", p->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return BAD(p, "%s: not a regular file", p->path);
    const uint64_t size = (uint64_t)st.st_size;
    uint64_t header;
    if (size < sizeof header)
        return BAD(p, "%s: %llu bytes are too few for a safetensors file", p->path,
                   (unsigned long long)size);
    if (!read_all(fd, 0, &header, sizeof header))
        return BAD(p, "%s: %s", p->path, errno ? strerror(errno) : "ends early");
    if (header > ST_MAX_HEADER)
        return BAD(p,
                   "%s: a header of %llu bytes; at most %d are accepted (is this a safetensors "
                   "file?)",
                   p->path, (unsigned long long)header, ST_MAX_HEADER);
    if (header > size - sizeof header)
        return BAD(p, "%s: a header of %llu bytes in a file of %llu: truncated", p->path,
                   (unsigned long long)header, (unsigned long long)size);
    p->data_start = sizeof header + header;
    p->data_bytes = size - p->data_start;
    *text_bytes = (size_t)header;
    *text = calloc(1, (size_t)header + 1);
    if (!*text)
        return refuse(p->err, GQA_ERR_MEMORY, "%s: out of memory", p->path);
    if (!read_all(fd, sizeof header, *text, (size_t)header))
        return BAD(p, "%s: %s", p->path, errno ? strerror(errno) : "ends early");
    return GQA_OK;
}

gqa_status st_open(const char *path, struct st_file *file, struct gqa_error *err) {
    struct st_file f = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    struct parse p = {.path = path, .err = err};
    char *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    json_error_t why;
    if (f.fd < 0)
        return BAD(&p, "%s: %s", path, strerror(errno));
    gqa_status status = read_header(&p, f.fd, &text, &bytes);
    if (status)
        goto out;
    root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        char show[64];
        status = BAD(&p, "%s: the header is not JSON: %s (byte %d)", path, shown(why.text, show),
                     why.position);
        goto out;
    }
    status = parse_header(&p, root, &f);
out:
    json_decref(root);
    free(text);
    if (status)
        st_close(&f);
    else
        *file = f;
    return status;
}

void st_close(struct st_file *file) {
    for (int i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct st_file){.fd = -1};
}

const struct st_tensor *st_find(const struct st_file *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name))
            return &file->tensors[i];
    return NULL;
}

gqa_status st_read(const struct st_file *file, const struct st_tensor *tensor, void *data,
                   struct gqa_error *err) {
    char name[64];
    if (!read_all(file->fd, tensor->offset, data, tensor->bytes))
        return refuse(err, GQA_ERR_ARGUMENT, "tensor \"%s\" cannot be read: %s",
                      shown(tensor->name, name), errno ? strerror(errno) : "the file ends early");
    return GQA_OK;
}

/* --- Writing -------------------------------------------------------------------------------- */

/* Packed bytes of a tensor; false if its shape is negative or overflows. */
static bool output_bytes(const struct st_output *t, size_t *bytes) {
    *bytes = st_type_bytes(t->type);
    if (!*bytes || t->dims < 0 || t->dims > ST_MAX_DIMS)
        return false;
    for (int i = 0; i < t->dims; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)t->shape[i], bytes))
            return false;
    return *bytes <= INT64_MAX / 2;
}

/* The header as text (for free()), padded with spaces so that the data begin at a multiple of 64.
 * NULL: out of memory. The tensors have been checked. */
static char *compose_header(const struct st_output *tensors, int count) {
    json_t *root = json_object();
    json_int_t at = 0;
    for (int i = 0; root && i < count; i++) {
        json_t *shape = json_array();
        for (int d = 0; d < tensors[i].dims; d++)
            json_array_append_new(shape, json_integer(tensors[i].shape[d]));
        size_t bytes = 0;
        output_bytes(&tensors[i], &bytes);
        const json_int_t end = at + (json_int_t)bytes;
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", st_type_name(tensors[i].type),
                                  "shape", shape, "data_offsets", at, end);
        at = end;
        if (json_object_set_new(root, tensors[i].name, entry)) {
            json_decref(root);
            root = NULL;
        }
    }
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return NULL;
    const size_t n = strlen(text), padded = (n + 8 + 63) / 64 * 64 - 8;
    char *grown = realloc(text, padded + 1);
    if (!grown)
        return free(text), NULL;
    memset(grown + n, ' ', padded - n);
    grown[padded] = 0;
    return grown;
}

static bool write_all(int fd, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_tensors(int fd, const char *header, const struct st_output *tensors, int count) {
    const uint64_t n = strlen(header);
    if (!write_all(fd, &n, sizeof n) || !write_all(fd, header, n))
        return false;
    for (int i = 0; i < count; i++) {
        size_t bytes = 0;
        output_bytes(&tensors[i], &bytes);
        if (!write_all(fd, tensors[i].data, bytes))
            return false;
    }
    return true;
}

/* Write beside `path`, then rename. `temporary` has room for it; errno says what went wrong. */
static bool write_and_rename(const char *path, char *temporary, const char *header,
                             const struct st_output *tensors, int count) {
    const int fd = mkstemp(temporary);
    if (fd < 0)
        return false;
    const mode_t mask = umask(0);
    umask(mask);
    bool good = write_tensors(fd, header, tensors, count) && !fchmod(fd, 0666 & ~mask);
    int saved = errno;
    if (close(fd) && good) {
        saved = errno;
        good = false;
    }
    if (good && rename(temporary, path)) {
        saved = errno;
        good = false;
    }
    if (!good)
        unlink(temporary);
    errno = saved;
    return good;
}

gqa_status st_write(const char *path, const struct st_output *tensors, int count,
                    struct gqa_error *err) {
    struct stat st;
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes;
        if (!output_bytes(&tensors[i], &bytes) || (total += bytes) > INT64_MAX / 2)
            return refuse(err, GQA_ERR_ARGUMENT, "%s: the shape of tensor \"%s\" cannot be written",
                          path, tensors[i].name);
    }
    if (!stat(path, &st) && !S_ISREG(st.st_mode))
        return refuse(err, GQA_ERR_ARGUMENT, "%s: exists and is not a regular file", path);
    char *header = compose_header(tensors, count);
    char *temporary = malloc(strlen(path) + sizeof ".XXXXXX");
    gqa_status status = GQA_OK;
    if (!header || !temporary) {
        status = refuse(err, GQA_ERR_MEMORY, "%s: out of memory", path);
        goto out;
    }
    sprintf(temporary, "%s.XXXXXX", path);
    if (!write_and_rename(path, temporary, header, tensors, count))
        status = refuse(err, GQA_ERR_ARGUMENT, "%s: cannot be written: %s", path, strerror(errno));
out:
    free(temporary);
    free(header);
    return status;
}
