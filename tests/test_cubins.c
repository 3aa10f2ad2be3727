/* SPDX-License-Identifier: Apache-2.0
 * What the assembler made of every kernel: registers, local memory, shared memory, tensor memory,
 * against the limits of a multiprocessor; and the table of docs/kernels.md, against the images.
 *
 *   test_cubins --table    print that table
 *
 * A cubin is an ELF file. Its section .nv.info lists, per function, registers and stack frame;
 * .nv.info.KERNEL has the largest block. These attributes are what `cuobjdump -res-usage` prints;
 * their numbers are nowhere documented, so one that is missing fails. */
#include "../src/cuda/kernels.h"
#include "test.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    ATTR_MAX_THREADS = 0x05,
    ATTR_FRAME_SIZE = 0x11,
    ATTR_REGISTERS = 0x2f,
    FORMAT_SIZED = 4, /* a record with a payload; others are 4 bytes */
    SM_REGISTERS = 65536,
    SM_SMEM = 227 * 1024, /* of a CTA, without the 1 KiB that the system takes */
    SM_TMEM_COLUMNS = 512,
};

/* CHECK with a sentence. */
#define EXPECT(condition, ...) ((condition) ? (void)0 : (void)FAIL(__VA_ARGS__))

struct usage {
    unsigned registers, frame, threads, tmem_columns;
    bool has_registers, has_frame;
};

/* --- Reading a cubin --- */

static uint32_t word(const unsigned char *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Attributes of one .nv.info section. The frame is the largest of all functions'. */
static void read_attributes(const unsigned char *p, const unsigned char *end, struct usage *u) {
    while (end - p >= 4) {
        const int format = p[0], attr = p[1], bytes = format == FORMAT_SIZED ? p[2] | p[3] << 8 : 0;
        const unsigned char *payload = p + 4;
        if (end - payload < bytes)
            return;
        p = payload + bytes;
        if (attr == ATTR_REGISTERS && bytes == 8) {
            u->has_registers = true;
            u->registers = word(payload + 4) > u->registers ? word(payload + 4) : u->registers;
        } else if (attr == ATTR_FRAME_SIZE && bytes == 8) {
            u->has_frame = true;
            u->frame = word(payload + 4) > u->frame ? word(payload + 4) : u->frame;
        } else if (attr == ATTR_MAX_THREADS && bytes == 12) {
            u->threads = word(payload) * word(payload + 4) * word(payload + 8);
        }
    }
}

/* Has the row an image that can be read? A fat binary (one for several parts) is not taken apart:
 * of those only ptxas, which fails on spills, has looked at local memory. */
static bool is_elf(const struct kernel_image *image) {
    return image->cubin_end - image->cubin > SELFMAG && !memcmp(image->cubin, ELFMAG, SELFMAG);
}

static bool read_cubin(const struct kernel_image *image, struct usage *u) {
    const unsigned char *d = image->cubin;
    const size_t bytes = (size_t)(image->cubin_end - d);
    Elf64_Ehdr head;
    if (bytes < sizeof head)
        return false;
    memcpy(&head, d, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_shentsize != sizeof(Elf64_Shdr) ||
        head.e_shoff > bytes || head.e_shnum > (bytes - head.e_shoff) / sizeof(Elf64_Shdr) ||
        head.e_shstrndx >= head.e_shnum)
        return false;
    Elf64_Shdr s, names;
    memcpy(&names, d + head.e_shoff + head.e_shstrndx * sizeof s, sizeof names);
    for (int i = 0; i < head.e_shnum; i++) {
        memcpy(&s, d + head.e_shoff + (size_t)i * sizeof s, sizeof s);
        if (s.sh_type == SHT_NOBITS || s.sh_offset > bytes || s.sh_size > bytes - s.sh_offset ||
            s.sh_name >= names.sh_size)
            continue;
        const char *name = (const char *)d + names.sh_offset + s.sh_name;
        if (!strncmp(name, ".nv.info", 8))
            read_attributes(d + s.sh_offset, d + s.sh_offset + s.sh_size, u);
    }
    return u->has_registers && u->has_frame;
}

/* Columns that the kernel's tcgen05.alloc asks for: a register that is set to a constant. */
static unsigned tmem_columns(const char *ptx) {
    char reg[16], move[40];
    const char *at = strstr(ptx, "\ttcgen05.alloc."), *set = NULL;
    if (!at || sscanf(at, "%*[^]]], %15[^;]", reg) != 1)
        return 0;
    snprintf(move, sizeof move, "mov.b32 \t%s, ", reg);
    for (const char *p = strstr(ptx, move); p && p < at; p = strstr(p + 1, move))
        set = p;
    return set ? (unsigned)atoi(set + strlen(move)) : 0;
}

/* --- Limits --- */

static bool is_blackwell(const struct kernel_row *row) {
    return row->arch >= KERNEL_sm100;
}

static void check_row(const struct kernel_row *row) {
    struct usage used = {0}, *u = &used;
    EXPECT(read_cubin(&row->image, u), "%s: attributes not understood", row->name);
    u->tmem_columns = tmem_columns(row->image.ptx);
    EXPECT(u->frame == 0, "%s: %u bytes of stack in local memory", row->name, u->frame);
    EXPECT(u->threads == (unsigned)row->warps * 32, "%s: %u threads, the host launches %d warps",
           row->name, u->threads, row->warps);
    EXPECT(u->registers * u->threads <= SM_REGISTERS, "%s: %u x %u registers", row->name,
           u->registers, u->threads);
    EXPECT(row->smem_bytes <= SM_SMEM, "%s: %d bytes of shared memory", row->name, row->smem_bytes);
    EXPECT(u->tmem_columns <= SM_TMEM_COLUMNS, "%s: %u columns", row->name, u->tmem_columns);
    EXPECT(is_blackwell(row) == (u->tmem_columns >= 32), "%s: %u columns of tensor memory",
           row->name, u->tmem_columns);
}

/* --- The table --- */

static const char title[] =
    "| kernel | registers × threads | of 64 K | local | shared memory | tensor memory columns |\n"
    "|---|---|---|---|---|---|\n";

static void put_row(FILE *f, const struct kernel_row *row, const struct usage *u) {
    fprintf(f, "| `%s` | %u × %u | %u %% | %u | %d | %u |\n", row->name + strlen("gqa_decode_"),
            u->registers, u->threads, u->registers * u->threads * 100 / SM_REGISTERS, u->frame,
            row->smem_bytes, u->tmem_columns);
}

/* The Blackwell rows; NULL if one has no image. */
static char *make_table(void) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    bool complete = f != NULL;
    if (f)
        fputs(title, f);
    for (int i = 0; complete && i < kernel_row_count; i++) {
        const struct kernel_row *row = &kernel_rows[i];
        struct usage u = {0};
        if (!is_blackwell(row) || row->records)
            continue;
        complete = is_elf(&row->image) && read_cubin(&row->image, &u);
        u.tmem_columns = complete ? tmem_columns(row->image.ptx) : 0;
        put_row(f, row, &u);
    }
    if (f)
        fclose(f);
    if (!complete)
        free(text);
    return complete ? text : NULL;
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    const ssize_t n = f ? getdelim(&text, &room, 0, f) : -1;
    if (f)
        fclose(f);
    if (n < 0)
        free(text);
    return n < 0 ? NULL : text;
}

/* --- Tests --- */

TEST(limits) {
    int images = 0;
    for (int i = 0; i < kernel_row_count; i++) {
        if (!is_elf(&kernel_rows[i].image))
            continue;
        images++;
        check_row(&kernel_rows[i]);
    }
    if (!images)
        SKIP("no images: built without nvcc");
}

TEST(helpers) {
    int images = 0;
    for (int i = 0; i < helper_row_count; i++) {
        struct usage u = {0};
        if (!is_elf(&helper_rows[i].image))
            continue;
        images++;
        EXPECT(read_cubin(&helper_rows[i].image, &u), "helpers %d: not understood", i);
        EXPECT(u.frame == 0, "helpers %d: %u bytes of stack", i, u.frame);
    }
    if (!images)
        SKIP("no images: built without nvcc");
}

TEST(docs) {
    char *table = make_table(), *docs = read_file("docs/kernels.md");
    if (!table)
        SKIP("not all Blackwell images were built");
    else
        EXPECT(docs && strstr(docs, table),
               "docs/kernels.md has another table than test_cubins --table");
    free(table);
    free(docs);
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--table"))
        return test_main(argc, argv);
    char *table = make_table();
    if (!table)
        fprintf(stderr, "test_cubins: not all Blackwell images were built\n");
    fputs(table ? table : "", stdout);
    free(table);
    return !table;
}
