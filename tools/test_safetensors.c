/* SPDX-License-Identifier: Apache-2.0
 * The reader against files that lie, the writer against disks that refuse. Every refusal must be a
 * sentence that names the file and what is wrong with it. */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int passed, failed, skipped;
static char folder[] = "/tmp/gqa-safetensors-XXXXXX";
static char file_path[64];

static void check(bool good, const char *what, const char *detail) {
    good ? passed++ : failed++;
    if (!good)
        printf("FAIL %s: %s\n", what, detail);
}

/* A file of a header size (-1: the header's own), a header and so many bytes of data. */
static void put_file(const char *header, size_t header_bytes, int64_t claim, size_t data) {
    const uint64_t size = claim < 0 ? header_bytes : (uint64_t)claim;
    FILE *f = fopen(file_path, "wb");
    fwrite(&size, sizeof size, 1, f);
    fwrite(header, 1, header_bytes, f);
    for (size_t i = 0; i < data; i++)
        fputc((int)(i * 37 + 11) & 255, f);
    fclose(f);
}

/* --- Headers -------------------------------------------------------------------------------- */

#define T(dtype, shape, begin, end)                                                                \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static const struct {
    const char *what, *header;
    size_t data;
    int64_t claim;
    const char *refusal; /* part of the message; NULL: the file is good */
} headers[] = {
    {"one tensor", "{\"a\":" T("F32", "[2,3]", 0, 24) "}", 24, -1, NULL},
    {"two tensors, second first",
     "{\"b\":" T("BF16", "[4]", 4, 12) ",\"a\":" T("F32", "[1]", 0, 4) "}", 12, -1, NULL},
    {"no tensor", "{}", 0, -1, NULL},
    {"padding after the header", "{\"a\":" T("U8", "[8]", 0, 8) "}      ", 8, -1, NULL},
    {"a single number", "{\"a\":" T("F32", "[]", 0, 4) "}", 4, -1, NULL},
    {"an empty tensor", "{\"a\":" T("F32", "[0,7]", 0, 0) "}", 0, -1, NULL},
    {"an empty tensor between two",
     "{\"a\":" T("U8", "[2]", 0, 2) ",\"e\":" T("U8", "[0]", 2, 2) ",\"b\":" T("U8", "[1]", 2,
                                                                               3) "}",
     3, -1, NULL},
    {"metadata", "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T("I64", "[1]", 0, 8) "}", 8, -1,
     NULL},
    {"escaped name", "{\"a\\u00e9\":" T("F8_E4M3", "[3]", 0, 3) "}", 3, -1, NULL},
    {"every width",
     "{\"a\":" T("F64", "[1]", 0, 8) ",\"b\":" T("F16", "[1]", 8, 10) ",\"c\":" T("F8_E5M2", "[1]",
                                                                                  10, 11) "}",
     11, -1, NULL},

    {"header longer than the file", "{}", 0, 3, "truncated"},
    {"header of 2^62 bytes", "{}", 0, (int64_t)1 << 62, "at most"},
    {"header of 2^63 - 1 bytes", "{}", 0, INT64_MAX, "at most"},
    {"header just over the limit", "{}", 0, ST_MAX_HEADER + 1, "at most"},
    {"header cut", "{\"a\":" T("F32", "[2,3]", 0, 24) "}", 24, 20, "not JSON"},
    {"empty header", "", 0, -1, "not JSON"},
    {"not JSON", "hello", 0, -1, "not JSON"},
    {"a list", "[]", 0, -1, "not a JSON object"},
    {"two values", "{}{}", 0, -1, "not JSON"},
    {"a name twice", "{\"a\":" T("U8", "[1]", 0, 1) ",\"a\":" T("U8", "[1]", 1, 2) "}", 2, -1,
     "duplicate"},
    {"a name twice, once escaped",
     "{\"a\":" T("U8", "[1]", 0, 1) ",\"\\u0061\":" T("U8", "[1]", 1, 2) "}", 2, -1, "duplicate"},
    {"a key twice in a tensor",
     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, -1,
     "duplicate"},
    {"a zero byte in a name", "{\"a\\u0000b\":" T("U8", "[1]", 0, 1) "}", 1, -1, "not JSON"},
    {"a name that is not UTF-8", "{\"a\xff\":" T("U8", "[1]", 0, 1) "}", 1, -1, "not JSON"},
    {"tensor is a number", "{\"a\":3}", 0, -1, "not described by an object"},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, -1, "no dtype"},
    {"unknown dtype", "{\"a\":" T("F4", "[2]", 0, 1) "}", 1, -1, "not one of those"},
    {"dtype in lower case", "{\"a\":" T("bf16", "[1]", 0, 2) "}", 2, -1, "not one of those"},
    {"dtype is a number", "{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, -1,
     "no dtype"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, -1, "shape"},
    {"negative dimension", "{\"a\":" T("U8", "[-1]", 0, 1) "}", 1, -1, "shape"},
    {"fraction of a dimension", "{\"a\":" T("U8", "[1.0]", 0, 1) "}", 1, -1, "shape"},
    {"dimension in words", "{\"a\":" T("U8", "[\"1\"]", 0, 1) "}", 1, -1, "shape"},
    {"nine dimensions", "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, -1, "shape"},
    {"product overflows", "{\"a\":" T("U8", "[4294967296,4294967296]", 0, 1) "}", 1, -1,
     "overflows"},
    {"product overflows to zero", "{\"a\":" T("F32", "[4611686018427387904]", 0, 0) "}", 0, -1,
     "overflows"},
    {"product overflows to the right size",
     "{\"a\":" T("U8", "[9223372036854775807,2,2]", 0, 8) "}", 8, -1, "overflows"},
    {"dimension over 2^63", "{\"a\":" T("U8", "[9223372036854775808]", 0, 1) "}", 1, -1,
     "not JSON"},
    {"offsets swapped", "{\"a\":" T("U8", "[1]", 1, 0) "}", 1, -1, "lies at"},
    {"offset past the end", "{\"a\":" T("U8", "[2]", 0, 2) "}", 1, -1, "lies at"},
    {"offset near 2^63", "{\"a\":" T("U8", "[1]", 9223372036854775806, 9223372036854775807) "}", 1,
     -1, "lies at"},
    {"negative offset", "{\"a\":" T("U8", "[1]", -1, 0) "}", 1, -1, "data_offsets"},
    {"one offset", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, -1,
     "data_offsets"},
    {"three offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, -1,
     "data_offsets"},
    {"too few bytes for the shape", "{\"a\":" T("F32", "[2]", 0, 4) "}", 4, -1, "needs 8 bytes"},
    {"two tensors on one byte", "{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 1, 3) "}",
     3, -1, "begins at"},
    {"two tensors on the same bytes",
     "{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 0, 2) "}", 2, -1, "begins at"},
    {"a hole", "{\"a\":" T("U8", "[1]", 0, 1) ",\"b\":" T("U8", "[1]", 2, 3) "}", 3, -1,
     "begins at"},
    {"a hole at the start", "{\"a\":" T("U8", "[1]", 1, 2) "}", 2, -1, "begins at"},
    {"bytes of nobody", "{\"a\":" T("U8", "[1]", 0, 1) "}", 5, -1, "belong to no tensor"},
    {"metadata is a list", "{\"__metadata__\":[]}", 0, -1, "__metadata__"},
    {"metadata holds a number", "{\"__metadata__\":{\"a\":1}}", 0, -1, "__metadata__"},
};

static void test_headers(void) {
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct st_file file;
        struct gqa_error err = {0};
        put_file(headers[i].header, strlen(headers[i].header), headers[i].claim, headers[i].data);
        const gqa_status status = st_open(file_path, &file, &err);
        if (!headers[i].refusal) {
            check(!status, headers[i].what, err.message);
        } else {
            check(status == GQA_ERR_ARGUMENT && strstr(err.message, headers[i].refusal) &&
                      strstr(err.message, file_path),
                  headers[i].what, status ? err.message : "accepted");
        }
        if (!status)
            st_close(&file);
    }
}

/* A header made of one piece repeated, as large as is accepted. */
static void test_repeated(const char *what, const char *before, const char *piece,
                          const char *refusal) {
    const size_t size = 1 << 20, n = strlen(piece);
    char *header = malloc(size + 1);
    size_t at = strlen(before);
    struct st_file file;
    struct gqa_error err = {0};
    memcpy(header, before, at);
    for (; at + n <= size; at += n)
        memcpy(header + at, piece, n);
    put_file(header, at, -1, 0);
    const gqa_status status = st_open(file_path, &file, &err);
    check(status && strstr(err.message, refusal), what, status ? err.message : "accepted");
    if (!status)
        st_close(&file);
    free(header);
}

/* --- Every cut, every flip ------------------------------------------------------------------ */

static const char good_header[] =
    "{\"q\":" T("BF16", "[1,2,4]", 0, 16) ",\"k\":" T("F32", "[3]", 16, 28) "}";

static void test_cuts(void) {
    int accepted = 0;
    put_file(good_header, strlen(good_header), -1, 28);
    for (off_t size = 8 + (off_t)strlen(good_header) + 28 - 1; size >= 0; size--) {
        struct st_file file;
        struct gqa_error err = {0};
        if (truncate(file_path, size))
            break;
        if (!st_open(file_path, &file, &err)) {
            accepted++;
            st_close(&file);
        }
    }
    check(!accepted, "a file cut at any byte", "accepted");
}

/* What a flipped bit leaves is either refused or consistent: then all its data can be read. */
static void test_flips(void) {
    const size_t n = 8 + strlen(good_header);
    char data[64];
    bool good = true;
    for (size_t i = 0; i < n * 8; i++) {
        struct st_file file;
        struct gqa_error err = {0};
        put_file(good_header, strlen(good_header), -1, 28);
        const int fd = open(file_path, O_RDWR);
        char c;
        good &= pread(fd, &c, 1, (off_t)(i / 8)) == 1;
        c ^= (char)(1 << i % 8);
        good &= pwrite(fd, &c, 1, (off_t)(i / 8)) == 1;
        close(fd);
        if (st_open(file_path, &file, &err)) {
            good &= err.status == GQA_ERR_ARGUMENT && err.message[0];
            continue;
        }
        for (int t = 0; t < file.count; t++)
            good &= file.tensors[t].bytes <= sizeof data &&
                    !st_read(&file, &file.tensors[t], data, &err);
        st_close(&file);
    }
    check(good, "a file with any bit flipped", "inconsistent");
}

static void test_shrinking(void) {
    struct st_file file;
    struct gqa_error err = {0};
    char data[64];
    put_file(good_header, strlen(good_header), -1, 28);
    if (st_open(file_path, &file, &err)) {
        check(false, "a file that shrinks after it was opened", err.message);
        return;
    }
    check(!truncate(file_path, 8 + (off_t)strlen(good_header) + 20) &&
              !st_read(&file, st_find(&file, "q"), data, &err) &&
              st_read(&file, st_find(&file, "k"), data, &err) == GQA_ERR_ARGUMENT &&
              strstr(err.message, "ends early"),
          "a file that shrinks after it was opened", err.message);
    st_close(&file);
}

/* --- What is no file ------------------------------------------------------------------------ */

static void test_not_files(void) {
    static const char *const paths[] = {"/dev/null", "/dev/zero", "/proc/self", "/nowhere/at/all"};
    struct st_file file;
    struct gqa_error err;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        err = (struct gqa_error){0};
        check(st_open(paths[i], &file, &err) == GQA_ERR_ARGUMENT && strstr(err.message, paths[i]),
              paths[i], err.message);
    }
    unlink(file_path);
    check(!mkfifo(file_path, 0600) && st_open(file_path, &file, &err) == GQA_ERR_ARGUMENT &&
              strstr(err.message, "regular"),
          "a pipe does not block", err.message);
    unlink(file_path);
}

/* A tensor of a tebibyte in a file that is nearly all hole: opening it must cost nothing. */
static void test_sparse(void) {
    static const char header[] = "{\"a\":" T("U8", "[1099511627776]", 0, 1099511627776) "}";
    struct st_file file;
    struct gqa_error err = {0};
    put_file(header, strlen(header), -1, 0);
    if (truncate(file_path, 8 + (off_t)strlen(header) + ((off_t)1 << 40))) {
        printf("SKIP a sparse file of 1 TiB: %s\n", strerror(errno));
        skipped++;
        return;
    }
    const gqa_status status = st_open(file_path, &file, &err);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    check(!status && file.tensors[0].bytes == (size_t)1 << 40 && usage.ru_maxrss < 1 << 20,
          "a sparse file of 1 TiB", err.message);
    if (!status)
        st_close(&file);
    unlink(file_path);
}

/* --- Writing -------------------------------------------------------------------------------- */

static int files_in_folder(void) {
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void test_round_trip(void) {
    const float numbers[6] = {1, -2, 3.5f, 0, 1e30f, -0.0f};
    const uint16_t halves[3] = {0x3f80, 0x7fc0, 0xffff};
    const struct st_output out[] = {
        {"o \"quoted\" \xc3\xa9", ST_F32, 3, {1, 2, 3}, numbers},
        {"empty", ST_BF16, 2, {0, 5}, NULL},
        {"lse", ST_BF16, 1, {3}, halves},
        {"scalar", ST_F32, 0, {0}, numbers + 2},
    };
    struct st_file file;
    struct gqa_error err = {0};
    char data[64];
    gqa_status status = st_write(file_path, out, 4, &err);
    check(!status, "writing", err.message);
    if (status || st_open(file_path, &file, &err)) {
        check(false, "reading back", err.message);
        return;
    }
    for (int i = 0; i < 4; i++) {
        const struct st_tensor *t = st_find(&file, out[i].name);
        const bool good = t && t->type == out[i].type && t->dims == out[i].dims &&
                          !memcmp(t->shape, out[i].shape, (size_t)t->dims * sizeof *t->shape) &&
                          !st_read(&file, t, data, &err) &&
                          (!t->bytes || !memcmp(data, out[i].data, t->bytes));
        check(good, "read back", out[i].name);
    }
    check(file.tensors[0].offset % 64 == 0, "data are aligned", "");
    check(st_find(&file, "missing") == NULL, "a name that is not there", "found");
    st_close(&file);
}

/* A write that fails in the middle leaves the old file and no other. */
static void test_full_disk(void) {
    static char big[1 << 16];
    const struct st_output out = {"o", ST_U8, 1, {sizeof big}, big};
    const struct st_output small = {"o", ST_U8, 1, {4}, "old"};
    const struct rlimit limit = {4096, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    struct st_file file;
    struct gqa_error err = {0};
    char data[4] = "";
    signal(SIGXFSZ, SIG_IGN);
    check(!st_write(file_path, &small, 1, &err), "writing the old file", err.message);
    const int before = files_in_folder();
    setrlimit(RLIMIT_FSIZE, &limit);
    const gqa_status status = st_write(file_path, &out, 1, &err);
    setrlimit(RLIMIT_FSIZE, &none);
    check(status == GQA_ERR_ARGUMENT && strstr(err.message, "cannot be written"),
          "a disk that is full", err.message);
    check(files_in_folder() == before, "a failed write leaves nothing", "another file");
    const bool opened = !st_open(file_path, &file, &err);
    check(opened && !st_read(&file, st_find(&file, "o"), data, &err) && !strcmp(data, "old"),
          "a failed write keeps the old file", err.message);
    if (opened)
        st_close(&file);
}

static void test_bad_outputs(void) {
    static const struct st_output bad[] = {
        {"negative", ST_U8, 1, {-1}, ""},
        {"overflow", ST_F32, 2, {INT64_MAX, INT64_MAX}, ""},
        {"many dimensions", ST_U8, 9, {0}, ""},
        {"no type", ST_TYPES, 1, {1}, ""},
    };
    struct gqa_error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(st_write(file_path, &bad[i], 1, &err) == GQA_ERR_ARGUMENT, bad[i].name, "written");
    check(st_write(folder, bad, 0, &err) && strstr(err.message, "not a regular file"),
          "writing over a folder", err.message);
    check(st_write("/dev/full", bad, 0, &err) && strstr(err.message, "not a regular file"),
          "writing to a device", err.message);
    check(st_write("/nowhere/x", bad, 0, &err) && strstr(err.message, "No such file"),
          "writing to a folder that is not there", err.message);
}

int main(void) {
    if (!mkdtemp(folder))
        return perror(folder), 1;
    snprintf(file_path, sizeof file_path, "%s/file", folder);
    test_headers();
    test_repeated("a million brackets", "", "[", "not JSON");
    test_repeated("a million objects", "{\"a\":", "{\"a\":", "not JSON");
    test_repeated("a tensor of very many dimensions",
                  "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":[1", ",1", "not JSON");
    test_cuts();
    test_flips();
    test_shrinking();
    test_not_files();
    test_sparse();
    test_round_trip();
    test_full_disk();
    test_bad_outputs();
    unlink(file_path);
    rmdir(folder);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
