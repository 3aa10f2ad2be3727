/* cuda_fatbin.c: the PTX of a fat binary, as nvcc puts it into a program.
 *
 * A fat binary is a header and entries, each PTX or machine code for one architecture, plain or
 * compressed: by LZ4 blocks (nvcc --compress-mode=speed and older compilers) or zstd (the default
 * of CUDA 13), which the system's libzstd.so.1 undoes, opened only then.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_abi.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRAPPER_MAGIC = 0x466243b1,
    HEADER_MAGIC = (int)0xba55ed50,
    KIND_PTX = 1,
    KIND_ELF = 2,
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000
};

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const char *name;
};
struct header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
};
struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes; /* padded */
    uint32_t compressed, options;
    uint16_t minor, major;
    uint32_t arch; /* 100 */
    uint32_t name_at, name_bytes;
    uint64_t flags, reserved, plain_bytes;
};

/* --- Decompression --- */

/* LZ4 block format: runs of literals and matches.  False: the data are broken. */
static bool lz4(const uint8_t *in, size_t n, uint8_t *out, size_t want) {
    const uint8_t *end = in + n;
    size_t have = 0;
    while (in < end) {
        const uint8_t token = *in++;
        size_t len = token >> 4;
        if (len == 15)
            do {
                if (in == end)
                    return false;
                len += *in;
            } while (*in++ == 255);
        if (len > (size_t)(end - in) || len > want - have)
            return false;
        memcpy(out + have, in, len);
        in += len;
        have += len;
        if (in == end || have == want)
            break;
        if (end - in < 2)
            return false;
        const size_t back = (size_t)in[0] | (size_t)in[1] << 8;
        in += 2;
        len = token & 15;
        if (len == 15)
            do {
                if (in == end)
                    return false;
                len += *in;
            } while (*in++ == 255);
        len += 4;
        if (!back || back > have || len > want - have)
            return false;
        for (; len; len--, have++)
            out[have] = out[have - back];
    }
    return have == want;
}

static bool zstd(const void *in, size_t n, void *out, size_t want) {
    static size_t (*decompress)(void *, size_t, const void *, size_t);
    if (!decompress) {
        void *lib = dlopen("libzstd.so.1", RTLD_NOW);
        void *f = lib ? dlsym(lib, "ZSTD_decompress") : NULL;
        memcpy(&decompress, &f, sizeof f);
    }
    if (!decompress) {
        fprintf(stderr, "emu: this program's PTX is compressed with zstd and there is no "
                        "libzstd.so.1; compile it with nvcc --no-compress\n");
        return false;
    }
    return decompress(out, want, in, n) == want;
}

/* With a zero behind it, for the caller to free. */
static char *entry_data(const struct entry *e) {
    const uint8_t *data = (const uint8_t *)e + e->header_bytes;
    const bool packed = e->flags & (FLAG_LZ4 | FLAG_ZSTD);
    const uint64_t plain = packed ? e->plain_bytes : e->bytes;
    if (plain > 1u << 30 || (packed && e->compressed > e->bytes))
        return NULL;
    char *text = calloc(1, plain + 1);
    if (!text)
        return NULL;
    bool good = true;
    if (e->flags & FLAG_ZSTD)
        good = zstd(data, e->compressed, text, plain);
    else if (e->flags & FLAG_LZ4)
        good = lz4(data, e->compressed, (uint8_t *)text, plain);
    else
        memcpy(text, data, plain);
    if (!good) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- Choice --- */

static const struct header *header_of(const void *data) {
    const struct wrapper *w = data;
    const struct header *h = w->magic == WRAPPER_MAGIC ? w->data : data;
    return (int)h->magic == HEADER_MAGIC ? h : NULL;
}

bool cu_is_fatbin(const void *data) {
    uint32_t magic;
    memcpy(&magic, data, 4);
    return magic == WRAPPER_MAGIC || (int)magic == HEADER_MAGIC;
}

static const struct entry *entry_at(const struct header *h, uint64_t at) {
    if (!h || at + sizeof(struct entry) > h->bytes)
        return NULL;
    const struct entry *e = (const struct entry *)((const uint8_t *)h + h->header_bytes + at);
    return e->header_bytes < sizeof *e || e->bytes > h->bytes - at ? NULL : e;
}

/* The first machine code in it, for the caller to free. */
char *cu_fatbin_elf(const void *data) {
    const struct header *h = header_of(data);
    const struct entry *e;
    for (uint64_t at = 0; (e = entry_at(h, at)); at += e->header_bytes + e->bytes)
        if (e->kind == KIND_ELF)
            return entry_data(e);
    return NULL;
}

/* PTX made for the newest architecture that the part can run; the caller frees it.  NULL: none. */
char *cu_fatbin_ptx(const void *data, bool (*fits)(const char *target)) {
    const struct header *h = header_of(data);
    char *best = NULL;
    uint32_t best_arch = 0;
    const struct entry *e;
    for (uint64_t at = 0; (e = entry_at(h, at)); at += e->header_bytes + e->bytes) {
        char *text = e->kind == KIND_PTX && e->arch >= best_arch ? entry_data(e) : NULL;
        const char *target = text ? strstr(text, ".target") : NULL;
        char name[16] = "";
        if (target && sscanf(target, ".target %15[a-z_0-9]", name) == 1 && fits(name) &&
            (e->arch > best_arch || strpbrk(name + 3, "af"))) {
            free(best);
            best = text;
            best_arch = e->arch;
        } else {
            free(text);
        }
    }
    return best;
}
