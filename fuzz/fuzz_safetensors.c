/* SPDX-License-Identifier: Apache-2.0
 * Any bytes as a safetensors file: refused with a sentence, or consistent, and then everything in
 * it can be read, written again and found unchanged. */
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_TENSORS = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "fuzz_safetensors: %s\n", what);
        abort();
    }
}

static void compare(const struct st_file *a, const struct st_tensor *x, const struct st_file *b) {
    const struct st_tensor *y = st_find(b, x->name);
    demand(y && x->type == y->type && x->dims == y->dims && x->bytes == y->bytes &&
               !memcmp(x->shape, y->shape, (size_t)x->dims * sizeof *x->shape),
           "a tensor changed by being written");
    char *one = malloc(x->bytes + 1), *two = malloc(x->bytes + 1);
    demand(!st_read(a, x, one, NULL) && !st_read(b, y, two, NULL), "a tensor cannot be read");
    demand(!memcmp(one, two, x->bytes), "data changed by being written");
    free(one);
    free(two);
}

static void write_again(const struct st_file *file) {
    static char path[64];
    static struct st_output out[MAX_TENSORS];
    struct gqa_error err;
    struct st_file again;
    snprintf(path, sizeof path, "/tmp/fuzz_safetensors.%d", (int)getpid());
    for (int i = 0; i < file->count; i++) {
        const struct st_tensor *t = &file->tensors[i];
        char *data = malloc(t->bytes + 1);
        demand(!st_read(file, t, data, &err), "a tensor cannot be read");
        out[i] = (struct st_output){t->name, t->type, t->dims, {0}, data};
        memcpy(out[i].shape, t->shape, sizeof t->shape);
    }
    demand(!st_write(path, out, file->count, &err) && !st_open(path, &again, &err),
           "what was read cannot be written and read again");
    demand(again.count == file->count, "the number of tensors changed");
    for (int i = 0; i < file->count; i++) {
        compare(file, &file->tensors[i], &again);
        free((void *)out[i].data);
    }
    st_close(&again);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned turn;
    struct st_file file;
    struct gqa_error err = {0};
    char path[64];
    const int fd = memfd_create("input", MFD_CLOEXEC);
    demand(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no memory for the input");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (st_open(path, &file, &err)) {
        demand(err.status != GQA_OK && strlen(err.message) > strlen(path),
               "a refusal says nothing");
    } else {
        for (int i = 0; i < file.count; i++)
            demand(file.tensors[i].offset + file.tensors[i].bytes <= size, "data past the end");
        if (file.count <= MAX_TENSORS && turn++ % 16 == 0) /* files are slow */
            write_again(&file);
        st_close(&file);
    }
    close(fd);
    return 0;
}
