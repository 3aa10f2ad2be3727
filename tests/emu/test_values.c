/* test_values.c: what instructions compute, as data.
 *
 * tests/emu/values/NAME.val holds programs; each is the body of a kernel k(out, in).
 *
 *   = name [block=N] [grid=N] [cluster=N] [part=sm_X]     begins a program
 *   ^ text           a line of module level, before the kernel
 *   > at: a b c      words of out from index `at`; 0x..., decimal, 1.5f or 2.5d (a double, two
 * words) ! text           the module or the launch is refused, or stopped, with this text
 *
 * Declared for it: what test_litmus.c declares.  out is 4096 words of zeros, in[k] is k, but for a
 * tensor map at in + 8192 (bytes) of in's first 1024 words: u32, 32 x 32, a box of 8 x 4.  The
 * expected words are written from the PTX ISA's text, not from the emulator's output.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "unit_programs.h"
#include "emu.h"
#include "tensormap.h"

enum { WORDS = 4096, TEXT = 1 << 17, MAX_WANT = 1024 };

static const char head[] =
    ".visible .entry k(.param .u64 p_out, .param .u64 p_in)\n{\n"
    ".shared .align 1024 .b8 s_buf[4096];\n.shared .align 8 .b8 s_bar[32];\n"
    ".reg .b64 %out, %in, %rd<50>;\n.reg .b32 %buf, %bar, %tid, %lane, %warp, %cta, "
    "%rank, %r<100>;\n"
    ".reg .f32 %f<20>;\n.reg .f64 %fd<20>;\n.reg .pred %p<20>;\n.reg .b16 %rs<20>;\n"
    "ld.param.u64 %out, [p_out];\nld.param.u64 %in, [p_in];\n"
    "mov.u32 %buf, s_buf;\nmov.u32 %bar, s_bar;\nmov.u32 %tid, %tid.x;\nand.b32 %lane, %tid, "
    "31;\n"
    "shr.u32 %warp, %tid, 5;\nmov.u32 %cta, %ctaid.x;\nmov.u32 %rank, %cluster_ctarank;\n";

struct program {
    char name[64], part[16], refused[200];
    unsigned grid, block, cluster;
    char top[TEXT], body[TEXT];
    struct {
        uint32_t at, value;
    } want[MAX_WANT];
    int wants;
};

static void compare(const struct program *p, const uint32_t *out, int policy) {
    for (int k = 0; k < p->wants; k++)
        CHECK(out[p->want[k].at] == p->want[k].value, "%s, policy %d: [%u] is 0x%08x, not 0x%08x",
              p->name, policy, p->want[k].at, out[p->want[k].at], p->want[k].value);
}

static void make_map(uint64_t in) {
    static const uint64_t dims[2] = {32, 32}, strides[1] = {128};
    static const uint32_t box[2] = {8, 4}, steps[2] = {1, 1};
    const struct tensormap_args a = {ELEM_U32, 2, in, dims, strides, box, steps, 0, 0, 0, 0};
    char why[200] = "";
    CHECK(tensormap_encode((void *)(uintptr_t)(in + 8192), &a, why, sizeof why), "%s", why);
}

static void run(const struct program *p, enum emu_policy policy) {
    static char text[2 * TEXT + 4096];
    char err[600] = "";
    struct emu *e = emu_new(&(struct emu_options){
        .part = p->part, .policy = policy, .quiet = true, .max_steps = 2000000});
    snprintf(text, sizeof text, ".version 9.0\n.target %s\n.address_size 64\n%s%s%sret;\n}\n",
             p->part, p->top, head, p->body);
    struct module *m = emu_load(e, text, strlen(text), p->name, err, sizeof err);
    const char *why = m ? NULL : err;
    uint64_t out = emu_alloc(e, 4 * WORDS), in = emu_alloc(e, 4 * WORDS), params[2] = {out, in};
    for (uint32_t k = 0; k < WORDS; k++)
        ((uint32_t *)(uintptr_t)in)[k] = k;
    memset((void *)(uintptr_t)out, 0, 4 * WORDS);
    make_map(in);
    emu_host_write(e, in, 4 * WORDS);
    emu_host_write(e, out, 4 * WORDS);
    if (m) {
        const bool ok = emu_launch(e, &(struct emu_launch){.fn = emu_function(m, "k"),
                                                           .grid = {p->grid, 1, 1},
                                                           .block = {p->block, 1, 1},
                                                           .cluster = {p->cluster, 1, 1},
                                                           .params = params,
                                                           .param_bytes = sizeof params});
        if (!emu_sync(e) || !ok)
            why = emu_report_count(e) ? emu_report_text(e, 0) : emu_failure(e);
    }
    if (p->refused[0])
        CHECK(why && strstr(why, p->refused), "%s: '%s', not '%s'", p->name, why ? why : "accepted",
              p->refused);
    else
        CHECK(!why, "%s, policy %d: %s", p->name, (int)policy, why);
    if (!why)
        compare(p, (const uint32_t *)(uintptr_t)out, (int)policy);
    if (m)
        emu_unload(e, m);
    emu_free(e);
}

static void check_program(const struct program *p) {
    run(p, EMU_RANDOM);
    run(p, EMU_LATE);
    if (!p->refused[0])
        CHECK(p->wants > 0, "%s expects nothing", p->name);
}

static void begin(struct program *p, char *line) {
    memset(p, 0, sizeof *p);
    p->grid = p->cluster = 1;
    p->block = 32;
    strcpy(p->part, "sm_100a");
    char *save, *w = strtok_r(line + 1, " \n", &save);
    snprintf(p->name, sizeof p->name, "%s", w ? w : "?");
    while ((w = strtok_r(NULL, " \n", &save))) {
        sscanf(w, "grid=%u", &p->grid);
        sscanf(w, "block=%u", &p->block);
        sscanf(w, "cluster=%u", &p->cluster);
        sscanf(w, "part=%15s", p->part);
    }
}

static void add_want(struct program *p, uint32_t *at, uint32_t v) {
    if (p->wants < MAX_WANT && *at < WORDS) {
        p->want[p->wants].at = (*at)++;
        p->want[p->wants++].value = v;
    }
}

static void expect(struct program *p, char *line) {
    char *save, *w = strtok_r(line + 1, " :\n", &save);
    uint32_t at = w ? (uint32_t)strtoul(w, NULL, 0) : 0;
    while ((w = strtok_r(NULL, " \n", &save))) {
        const char last = w[strlen(w) - 1];
        uint32_t v[2];
        if (w[0] != '0' || w[1] != 'x') {
            if (last == 'f') {
                const float f = strtof(w, NULL);
                memcpy(v, &f, 4);
                add_want(p, &at, v[0]);
                continue;
            }
            if (last == 'd') {
                const double f = strtod(w, NULL);
                memcpy(v, &f, 8);
                add_want(p, &at, v[0]);
                add_want(p, &at, v[1]);
                continue;
            }
        }
        add_want(p, &at, (uint32_t)strtoll(w, NULL, 0));
    }
}

static int read_file(const char *path, const char *only) {
    static struct program p;
    FILE *f = fopen(path, "r");
    char line[2000];
    bool open = false;
    int n = 0;
    if (!f)
        return 0;
    for (;;) {
        const bool more = fgets(line, sizeof line, f) != NULL;
        if (open && (!more || line[0] == '=')) {
            if (!only || !strcmp(only, p.name)) {
                check_program(&p);
                n++;
            }
            open = false;
        }
        if (!more)
            break;
        if (line[0] == '=') {
            begin(&p, line);
            open = true;
        } else if (line[0] == '^') {
            strncat(p.top, line + 1, sizeof p.top - strlen(p.top) - 1);
        } else if (line[0] == '>') {
            expect(&p, line);
        } else if (line[0] == '!') {
            snprintf(p.refused, sizeof p.refused, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
        } else if (open && line[0] != ';') {
            strncat(p.body, line, sizeof p.body - strlen(p.body) - 1);
        }
    }
    fclose(f);
    return n;
}

int main(int argc, char **argv) {
    unit_programs("VALUES", "tests/emu/values", "val", read_file, argc > 1 ? argv[1] : NULL);
    return unit_end();
}
