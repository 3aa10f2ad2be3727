/* test_timing.c: the timing model (emu/timing.h): what waits must cost, what launches must cost,
 * and that a sampled grid takes the time of the whole one.  The constants themselves are tested
 * against measurements: docs/traces.md.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "emu.h"
#include "unit.h"

#define HEAD                                                                                       \
    ".version 8.0\n.target sm_90a\n.address_size 64\n"                                             \
    ".visible .entry k(.param .u64 out, .param .u32 n)\n{\n"                                       \
    ".reg .u64 %o, %a, %b, %s;\n.reg .u32 %t, %n, %x;\n.reg .pred %p, %q;\n"                       \
    ".shared .align 8 .b64 bar;\n"                                                                 \
    "ld.param.u64 %o, [out];\nld.param.u32 %n, [n];\nmov.u32 %t, %tid.x;\n"

/* 256 additions, each of the one before. */
static const char chain[] = HEAD "mov.u64 %a, %clock64;\nmov.u32 %x, 0;\nsetp.ne.u32 %p, %n, 0;\n"
                                 "LOOP:\nadd.u32 %x, %x, %n;\nadd.u32 %x, %x, %n;\n"
                                 "add.u32 %x, %x, %n;\nadd.u32 %x, %x, %n;\n"
                                 "setp.lt.u32 %p, %x, 256;\n@%p bra LOOP;\n"
                                 "mov.u64 %b, %clock64;\nsub.u64 %b, %b, %a;\n"
                                 "st.global.u64 [%o], %b;\nret;\n}\n";

/* Warp 0 sleeps n ns and arrives; warp 1 says how many cycles it waited. */
static const char hop[] =
    HEAD "setp.eq.u32 %p, %t, 0;\nmov.u64 %s, bar;\n"
         "@%p mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n"
         "@%p nanosleep.u32 %n;\n@%p mbarrier.arrive.shared.b64 %b, [bar];\n"
         "setp.ne.u32 %p, %t, 32;\n@%p ret;\nmov.u64 %a, %clock64;\n"
         "WAIT:\nmbarrier.try_wait.parity.shared.b64 %q, [bar], 0;\n@!%q bra WAIT;\n"
         "mov.u64 %b, %clock64;\nsub.u64 %b, %b, %a;\nst.global.u64 [%o], %b;\nret;\n}\n";

/* Lets its dependents start, sleeps, and waits for the grid before it. */
static const char sleeper[] = HEAD "griddepcontrol.launch_dependents;\n"
                                   "nanosleep.u32 %n;\ngriddepcontrol.wait;\nret;\n}\n";

struct run {
    struct emu *e;
    struct module *m;
    uint64_t out;
};

static struct run begin(const char *text, bool timing, uint32_t ctas) {
    char err[300] = "";
    struct run r = {0};
    r.e = emu_new(&(struct emu_options){
        .part = "sm_90a", .unchecked = true, .timing = timing, .timing_ctas = ctas, .quiet = true});
    r.m = emu_load(r.e, text, strlen(text), "t.ptx", err, sizeof err);
    if (!r.m) {
        printf("%s\n", err);
        exit(1);
    }
    r.out = emu_alloc(r.e, 64);
    return r;
}
static void launch(struct run *r, uint32_t grid, uint32_t block, uint32_t n, bool pdl) {
    struct {
        uint64_t out;
        uint32_t n;
    } params = {r->out, n};
    const struct emu_launch l = {.fn = emu_function(r->m, "k"),
                                 .grid = {grid, 1, 1},
                                 .block = {block, 1, 1},
                                 .pdl = pdl,
                                 .params = &params,
                                 .param_bytes = sizeof params};
    CHECK(emu_launch(r->e, &l), "%s", emu_failure(r->e));
}
static uint64_t finish(struct run *r) {
    uint64_t v = 0;
    CHECK(emu_sync(r->e), "%s", emu_failure(r->e));
    memcpy(&v, (const void *)(uintptr_t)r->out, 8);
    return v;
}
static void end(struct run *r) {
    emu_unload(r->e, r->m);
    emu_free(r->e);
}

static void test_chain(void) {
    struct run r = begin(chain, true, 0);
    launch(&r, 1, 32, 1, false);
    const double cycles = (double)finish(&r);
    CHECK(cycles > 256 * 4 && cycles < 256 * 10, "256 dependent additions: %g cycles", cycles);
    end(&r);
}

static void test_hop(void) {
    for (uint32_t ns = 100; ns < 3000; ns += 370) {
        struct run r = begin(hop, true, 0);
        launch(&r, 1, 64, ns, false);
        const double cycles = (double)finish(&r), want = ns * 1.98;
        CHECK(cycles > want - 60 && cycles < want + 150, "waited %g cycles for %g", cycles, want);
        end(&r);
    }
}

static double two_grids(bool pdl) {
    const struct emu_timing_grid *g;
    struct run r = begin(sleeper, true, 0);
    launch(&r, 132, 128, 2000, false);
    launch(&r, 132, 128, 2000, pdl);
    finish(&r);
    CHECK(emu_timing_grids(r.e, &g) == 2, "two grids");
    const double apart = g[1].start_ns - g[0].end_ns;
    end(&r);
    return apart;
}

static void test_launches(void) {
    const double plain = two_grids(false), pdl = two_grids(true);
    CHECK(plain > 200 && plain < 1000, "%g ns between two grids", plain);
    CHECK(pdl < -500, "the dependent starts %g ns after the first grid's end", pdl);
}

static double many(uint32_t ctas) {
    struct run r = begin(sleeper, true, ctas);
    launch(&r, 132 * 16 * 3, 128, 1000, false); /* three waves of 16 CTAs an SM */
    finish(&r);
    const double ns = emu_timing_ns(r.e);
    end(&r);
    return ns;
}

static void test_sample(void) {
    const double all = many(0), some = many(100);
    CHECK(some > 0.9 * all && some < 1.1 * all, "sampled %g ns, all %g", some, all);
}

static void test_off(void) {
    const struct emu_timing_grid *g;
    struct run r = begin(chain, false, 0);
    launch(&r, 1, 32, 1, false);
    finish(&r);
    CHECK(emu_timing_ns(r.e) == 0 && emu_timing_grids(r.e, &g) == 0, "time is not modelled");
    end(&r);
}

int main(void) {
    test_chain();
    test_hop();
    test_launches();
    test_sample();
    test_off();
    return unit_end();
}
