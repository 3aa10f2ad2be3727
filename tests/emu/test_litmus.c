/* test_litmus.c: one small program per rule of the checker, with its faults.
 *
 * tests/emu/litmus/NAME.lit holds programs; each is the body of a kernel k(out, in).
 *
 *   = name [maxnreg=N] [grid=N] [block=N] [cluster=N] [part=sm_X] [pdl] [balance] [unread]
 * [same-sm]    begins a program; balance and unread: options of the emulator; same-sm: a part of
 * one SM ! TAG check a fault and the check that must report it within five seeds; "fault" is a
 * stop, "hang" a hang = text #- TAG       the line is left out in fault TAG text #+ TAG         the
 * line is there only in fault TAG
 *
 * The program without its faults must be clean under every policy and seed.  Declared for it: %out,
 * %in (64-bit), %buf (4096 bytes of shared memory, aligned to 1024), %bar (4 words for mbarriers),
 * %tid, %lane, %warp, %cta, %rank, %r<100>, %rd<50>, %f<20>, %p<20>, %rs<10>.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "unit_programs.h"
#include "emu.h"

enum { WORDS = 4096, TEXT = 1 << 16, MAX_FAULTS = 8 };

static const char head[] =
    ".version 9.0\n.target %s\n.address_size 64\n"
    ".visible .entry k(.param .u64 p_out, .param .u64 p_in)%s\n{\n"
    ".shared .align 1024 .b8 s_buf[4096];\n.shared .align 8 .b8 s_bar[32];\n"
    ".reg .b64 %%out, %%in, %%rd<50>;\n.reg .b32 %%buf, %%bar, %%tid, %%lane, %%warp, %%cta, "
    "%%rank, %%r<100>;\n"
    ".reg .f32 %%f<20>;\n.reg .pred %%p<20>;\n.reg .b16 %%rs<10>;\n"
    "ld.param.u64 %%out, [p_out];\nld.param.u64 %%in, [p_in];\n"
    "mov.u32 %%buf, s_buf;\nmov.u32 %%bar, s_bar;\nmov.u32 %%tid, %%tid.x;\nand.b32 %%lane, %%tid, "
    "31;\n"
    "shr.u32 %%warp, %%tid, 5;\nmov.u32 %%cta, %%ctaid.x;\nmov.u32 %%rank, %%cluster_ctarank;\n";

struct program {
    char name[64], part[16];
    unsigned grid, block, cluster;
    unsigned maxnreg;
    bool pdl, balance, unread, same_sm;
    char body[TEXT];
    char tag[MAX_FAULTS][24], check[MAX_FAULTS][24];
    int faults;
};

/* The body for one fault (NULL: none). */
static void write_body(const struct program *p, const char *tag, char *to, size_t n) {
    char directive[40] = "";
    if (p->maxnreg)
        snprintf(directive, sizeof directive, " .maxnreg %u", p->maxnreg);
    size_t k = (size_t)snprintf(to, n, head, p->part, directive);
    for (const char *s = p->body; *s;) {
        const char *e = strchr(s, '\n');
        size_t len = (size_t)(e - s);
        char line[400];
        snprintf(line, sizeof line, "%.*s", (int)len, s);
        char *mark = strstr(line, "#-"), *only = strstr(line, "#+");
        char *note = mark ? mark : only;
        bool named = note && tag && strlen(note + 3) == strlen(tag) && !strcmp(note + 3, tag);
        bool keep = !note || (mark ? !named : named);
        if (note)
            *note = 0;
        if (keep)
            k += (size_t)snprintf(to + k, n - k, "%s\n", line);
        s = e + 1;
    }
    snprintf(to + k, n - k, "ret;\n}\n");
}

/* Ways to run in which the right programs must be clean, too. */
enum { CONSERVATIVE = 1, LATE_REJOIN = 2, PERTURB = 4 };
static int modes;

/* Runs it once; the first report or "" comes back. */
static void run(const struct program *p, const char *text, enum emu_policy policy, uint64_t seed,
                char *report, size_t n) {
    char err[400] = "";
    struct emu *e = emu_new(&(struct emu_options){.part = p->part,
                                                  .seed = seed,
                                                  .policy = policy,
                                                  .balance = p->balance,
                                                  .unread = p->unread,
                                                  .sms = p->same_sm,
                                                  .conservative_proxy = modes & CONSERVATIVE,
                                                  .late_rejoin = modes & LATE_REJOIN,
                                                  .perturb = modes & PERTURB,
                                                  .quiet = true,
                                                  .max_steps = 2000000});
    struct module *m = emu_load(e, text, strlen(text), p->name, err, sizeof err);
    report[0] = 0;
    if (!m) {
        snprintf(report, n, "parse: %s", err);
        emu_free(e);
        return;
    }
    uint64_t out = emu_alloc(e, 4 * WORDS), in = emu_alloc(e, 4 * WORDS), params[2] = {out, in};
    for (uint32_t k = 0; k < WORDS; k++) {
        ((uint32_t *)(uintptr_t)in)[k] = k;
        ((uint32_t *)(uintptr_t)out)[k] = 0;
    }
    emu_host_write(e, in, 4 * WORDS);
    emu_host_write(e, out, 4 * WORDS);
    struct emu_launch l = {.fn = emu_function(m, "k"),
                           .grid = {p->grid, 1, 1},
                           .block = {p->block, 1, 1},
                           .cluster = {p->cluster, 1, 1},
                           .params = params,
                           .param_bytes = sizeof params};
    bool ok = emu_launch(e, &l);
    if (p->pdl) {
        l.pdl = true;
        ok = ok && emu_launch(e, &l);
    }
    ok = emu_sync(e) && ok;
    for (uint32_t k = 0; k < emu_report_count(e); k++)
        snprintf(report + strlen(report), n - strlen(report), "%s\n", emu_report_text(e, k));
    if (!ok && !report[0])
        snprintf(report, n, "%s", emu_failure(e));
    emu_unload(e, m);
    emu_free(e);
}

static void check_program(const struct program *p) {
    static char text[TEXT + 4096], report[8192], want[40];
    write_body(p, NULL, text, sizeof text);
    for (int policy = 0; policy < EMU_POLICIES; policy++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            run(p, text, (enum emu_policy)policy, seed, report, sizeof report);
            CHECK(!report[0], "%s, policy %d, seed %d: %s", p->name, policy, (int)seed, report);
        }
    for (modes = CONSERVATIVE; modes <= PERTURB; modes *= 2)
        for (int policy = 0; policy < EMU_POLICIES; policy++) {
            run(p, text, (enum emu_policy)policy, 99, report, sizeof report);
            CHECK(!report[0], "%s, policy %d, mode %d: %s", p->name, policy, modes, report);
        }
    modes = 0;
    for (int f = 0; f < p->faults; f++) {
        bool found = false;
        write_body(p, p->tag[f], text, sizeof text);
        snprintf(want, sizeof want, "emu: %s: ", p->check[f]);
        char first[600] = "";
        for (int k = 0; k < 5 * EMU_POLICIES && !found; k++) {
            run(p, text, (enum emu_policy)(k % EMU_POLICIES), (uint64_t)k / EMU_POLICIES, report,
                sizeof report);
            found = strstr(report, want) != NULL;
            if (report[0] && !first[0])
                snprintf(first, sizeof first, "%.590s", report);
        }
        CHECK(found, "%s without %s: no '%s' (%s)", p->name, p->tag[f], want,
              first[0] ? first : "nothing reported");
    }
}

static void begin(struct program *p, char *line) {
    *p = (struct program){.grid = 1, .block = 64, .cluster = 1, .part = "sm_100a"};
    char *save, *w = strtok_r(line + 1, " \n", &save);
    snprintf(p->name, sizeof p->name, "%s", w ? w : "?");
    while ((w = strtok_r(NULL, " \n", &save))) {
        sscanf(w, "grid=%u", &p->grid);
        sscanf(w, "block=%u", &p->block);
        sscanf(w, "maxnreg=%u", &p->maxnreg);
        sscanf(w, "cluster=%u", &p->cluster);
        sscanf(w, "part=%15s", p->part);
        p->pdl |= !strcmp(w, "pdl");
        p->balance |= !strcmp(w, "balance");
        p->unread |= !strcmp(w, "unread");
        p->same_sm |= !strcmp(w, "same-sm");
    }
}

static int read_file(const char *path, const char *only) {
    static struct program p;
    FILE *f = fopen(path, "r");
    char line[500];
    bool open = false;
    int n = 0;
    if (!f)
        return 0;
    for (;;) {
        bool more = fgets(line, sizeof line, f) != NULL;
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
        } else if (line[0] == '!') {
            if (p.faults < MAX_FAULTS &&
                sscanf(line + 1, "%23s %23s", p.tag[p.faults], p.check[p.faults]) == 2)
                p.faults++;
        } else if (open && line[0] != ';') {
            strncat(p.body, line, sizeof p.body - strlen(p.body) - 1);
        }
    }
    fclose(f);
    return n;
}

/* What another kernel wrote is told by that kernel's line. */
static void test_other_kernel(void) {
    static const char text[] =
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry first(.param .u64 p)\n{\n.reg .b64 %rd<2>;\n"
        "griddepcontrol.launch_dependents;\nld.param.u64 %rd1, [p];\n"
        "\n\n\nst.global.u32 [%rd1], 1;\nret;\n}\n"
        ".visible .entry second(.param .u64 p)\n{\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\n"
        "ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nret;\n}\n";
    bool found = false;
    for (uint64_t seed = 0; seed < 20 && !found; seed++) {
        char err[600] = "";
        struct emu *e =
            emu_new(&(struct emu_options){.part = "sm_90a", .seed = seed, .quiet = true});
        struct module *m = emu_load(e, text, strlen(text), "two", err, sizeof err);
        CHECK(m != NULL, "%s", err);
        uint64_t out = emu_alloc(e, 64);
        *(uint32_t *)(uintptr_t)out = 0;
        emu_host_write(e, out, 64);
        struct emu_launch l = {.fn = emu_function(m, "first"),
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1},
                               .params = &out,
                               .param_bytes = sizeof out};
        CHECK(emu_launch(e, &l), "first");
        l.fn = emu_function(m, "second");
        l.pdl = true;
        CHECK(emu_launch(e, &l), "second");
        emu_sync(e);
        for (uint32_t k = 0; k < emu_report_count(e); k++)
            found |= strstr(emu_report_text(e, k), "at two:12 of kernel first") != NULL;
        emu_unload(e, m);
        emu_free(e);
    }
    CHECK(found, "a report names the line and the kernel of the write");
}

/* A grid that ends without griddepcontrol.wait says nothing of those before it. */
static int chain_reports(const char *wait, uint64_t seed, char *report, size_t n) {
    char text[1200], err[600] = "";
    snprintf(text, sizeof text,
             ".version 9.0\n.target sm_90\n.address_size 64\n"
             ".visible .entry first(.param .u64 p)\n{\n.reg .b64 %%rd<2>;\n"
             "griddepcontrol.launch_dependents;\nld.param.u64 %%rd1, [p];\n"
             "st.global.u32 [%%rd1], 1;\nret;\n}\n"
             ".visible .entry idle(.param .u64 p)\n{\n"
             "griddepcontrol.launch_dependents;\n%s\nret;\n}\n"
             ".visible .entry last(.param .u64 p)\n{\n.reg .b64 %%rd<2>; .reg .b32 %%r<2>;\n"
             "ld.param.u64 %%rd1, [p];\ngriddepcontrol.wait;\nld.global.u32 %%r1, [%%rd1];\n"
             "ret;\n}\n",
             wait);
    struct emu *e = emu_new(&(struct emu_options){.part = "sm_90a", .seed = seed, .quiet = true});
    struct module *m = emu_load(e, text, strlen(text), "chain", err, sizeof err);
    CHECK(m != NULL, "%s", err);
    uint64_t out = emu_alloc(e, 64);
    for (int k = 0; k < 4; k++) {
        static const char *const names[] = {"first", "idle", "idle", "last"};
        struct emu_launch l = {.fn = emu_function(m, names[k]),
                               .grid = {1, 1, 1},
                               .block = {32, 1, 1},
                               .params = &out,
                               .param_bytes = sizeof out,
                               .pdl = k > 0};
        CHECK(emu_launch(e, &l), "%s", names[k]);
    }
    emu_sync(e);
    const int count = (int)emu_report_count(e);
    snprintf(report, n, "%s", count ? emu_report_text(e, 0) : "");
    emu_unload(e, m);
    emu_free(e);
    return count;
}

static void test_chain(void) {
    char report[800];
    for (uint64_t seed = 0; seed < 8; seed++) {
        CHECK(!chain_reports("griddepcontrol.wait;", seed, report, sizeof report), "%s", report);
        CHECK(chain_reports("", seed, report, sizeof report) == 1 &&
                  strstr(report, "since the one after it ended without griddepcontrol.wait"),
              "seed %d: '%s'", (int)seed, report);
    }
}

int main(int argc, char **argv) {
    test_other_kernel();
    test_chain();
    unit_programs("LITMUS", "tests/emu/litmus", "lit", read_file, argc > 1 ? argv[1] : NULL);
    return unit_end();
}
