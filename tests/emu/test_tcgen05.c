/* test_tcgen05.c: programs with tcgen05 instructions, right ones under every policy and wrong ones
 * that must be named.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "emu.h"
#include "layouts.h"
#include "num.h"
#include "unit.h"

enum { IMAGE = 64 * 1024, OUT = 2 * 128 * 64 };

/* One kernel: copies an image of shared memory from global memory, allocates, multiplies once,
 * reads D and frees.  Lines between | marks are replaced by the variants below. */
static const char *const program =
    ".version 8.7\n.target sm_100a\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 buf[];\n"
    ".visible .entry k(.param .u64 image, .param .u64 out, .param .u64 da, .param .u64 db,\n"
    "                  .param .u32 idesc, .param .u32 bytes)\n{\n"
    ".reg .b32 %r<40>; .reg .b64 %d<20>; .reg .pred %p<8>; .reg .b16 %h<2>;\n"
    ".shared .align 8 .b64 bar; .shared .align 4 .b32 slot;\n"
    "mov.u32 %r0, %tid.x; mov.u32 %r1, buf; mov.u32 %r2, bar; mov.u32 %r3, slot;\n"
    "shr.u32 %r4, %r0, 5; mov.u32 %r20, %cluster_ctarank;\n"
    "ld.param.u64 %d0, [image]; ld.param.u32 %r5, [bytes]; mul.wide.u32 %d9, %r20, 65536;\n"
    "add.u64 %d0, %d0, %d9; shl.b32 %r6, %r0, 4;\n"
    "COPY: setp.ge.u32 %p1, %r6, %r5; @%p1 bra COPIED;\n"
    "cvt.u64.u32 %d1, %r6; add.u64 %d2, %d0, %d1; ld.global.v4.b32 {%r7, %r8, %r9, %r10}, [%d2];\n"
    "add.u32 %r11, %r1, %r6; st.shared.v4.b32 [%r11], {%r7, %r8, %r9, %r10};\n"
    "add.u32 %r6, %r6, 2048; bra COPY;\nCOPIED:\n"
    "setp.eq.u32 %p2, %r0, 0;\n"
    "@%p2 mbarrier.init.shared.b64 [%r2], 1;\n"
    "@%p2 fence.mbarrier_init.release.cluster;\n"
    "fence.proxy.async.shared::cta;\n"
    "setp.ne.u32 %p3, %r4, 0; @%p3 bra NOALLOC;\n"
    "tcgen05.alloc.cta_group::@G.sync.aligned.shared::cta.b32 [%r3], 64;\n"
    "|RELINQUISH|"
    "NOALLOC: bar.sync 0;\n"
    "|CLUSTER|"
    "tcgen05.fence::after_thread_sync;\n"
    "ld.shared.b32 %r12, [%r3];\n"
    "setp.eq.and.u32 %p4, %r0, 0, %p2;\n"
    "setp.eq.u32 %p5, %r20, 0; and.pred %p4, %p4, %p5;\n"
    "@!%p4 bra WAIT;\n"
    "ld.param.u64 %d3, [da]; ld.param.u64 %d4, [db]; ld.param.u32 %r13, [idesc];\n"
    "shr.u32 %r14, %r1, 4; cvt.u64.u32 %d5, %r14; add.u64 %d3, %d3, %d5; add.u64 %d4, %d4, %d5;\n"
    "setp.ne.u32 %p6, %r0, %r0;\n"
    "|MMA|"
    "|COMMIT|"
    "WAIT:\n|OTHER|"
    "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r2], 0; @!%p7 bra TRY;\n"
    "tcgen05.fence::after_thread_sync;\n"
    "shl.b32 %r15, %r4, 21; add.u32 %r16, %r12, %r15;\n"
    "ld.param.u64 %d6, [out]; mul.wide.u32 %d10, %r20, 32768; add.u64 %d6, %d6, %d10;\n"
    "mul.wide.u32 %d7, %r0, 256; add.u64 %d8, %d6, %d7; mov.u32 %r17, 0;\n"
    "|LOADADDR|"
    "LOOP: tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r21, %r22, %r23, %r24}, [%r16];\n"
    "tcgen05.wait::ld.sync.aligned;\n"
    "st.global.v4.b32 [%d8], {%r21, %r22, %r23, %r24};\n"
    "add.u32 %r16, %r16, 4; add.u64 %d8, %d8, 16; add.u32 %r17, %r17, 1;\n"
    "setp.lt.u32 %p1, %r17, 8; @%p1 bra LOOP;\n"
    "tcgen05.fence::before_thread_sync;\n"
    "bar.sync 0;\n"
    "|CLUSTER2|"
    "@%p3 bra END;\n"
    "|FREE|"
    "END: ret;\n}\n";

struct part {
    const char *name, *text;
};
static const struct part right[] = {
    {"RELINQUISH", "tcgen05.relinquish_alloc_permit.cta_group::@G.sync.aligned;\n"},
    {"CLUSTER", ""},
    {"MMA", "tcgen05.mma.cta_group::@G.kind::f16 [%r12], %d3, %d4, %r13, %p6;\n"},
    {"COMMIT", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n"},
    {"OTHER", ""},
    {"LOADADDR", ""},
    {"CLUSTER2", ""},
    {"FREE", "tcgen05.dealloc.cta_group::@G.sync.aligned.b32 %r12, 64;\n"},
};
static const char *const sync_cluster =
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";

/* The program with some parts replaced; pair: two CTAs. */
static char *write_program(const struct part *changes, bool pair) {
    char *text = malloc(16384), *to = text;
    for (const char *s = program; *s;) {
        if (*s != '|') {
            *to++ = *s++;
            continue;
        }
        const char *end = strchr(++s, '|');
        const size_t n = (size_t)(end - s);
        const char *body = NULL;
        for (size_t k = 0; k < sizeof right / sizeof *right; k++)
            if (strlen(right[k].name) == n && !memcmp(right[k].name, s, n))
                body = right[k].text;
        if (pair && !memcmp(s, "CLUSTER", 7))
            body = sync_cluster;
        if (pair && n == 6 && !memcmp(s, "COMMIT", 6))
            body =
                "mov.b16 %h0, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                ".multicast::cluster.b64 [%r2], %h0;\n";
        for (const struct part *c = changes; c && c->name; c++)
            if (strlen(c->name) == n && !memcmp(c->name, s, n))
                body = c->text;
        to += sprintf(to, "%s", body);
        s = end + 1;
    }
    *to = 0;
    for (char *g; (g = strstr(text, "@G"));) {
        g[0] = pair ? '2' : '1';
        memmove(g + 1, g + 2, strlen(g + 2) + 1);
    }
    return text;
}

struct outcome {
    bool ok;
    char reports[2000];
    uint32_t out[OUT];
};

static uint8_t image[2 * IMAGE];

static void run(const char *text, bool pair, uint64_t seed, enum emu_policy policy, uint64_t da,
                uint64_t db, uint32_t idesc, struct outcome *o) {
    char err[400] = "";
    struct emu *e = emu_new(&(struct emu_options){
        .part = "sm_100a", .seed = seed, .policy = policy, .quiet = true, .max_steps = 10000000});
    struct module *m = emu_load(e, text, strlen(text), "tcgen05.ptx", err, sizeof err);
    memset(o, 0, sizeof *o);
    if (!m) {
        snprintf(o->reports, sizeof o->reports, "%s", err);
        emu_free(e);
        return;
    }
    struct {
        uint64_t image, out, da, db;
        uint32_t idesc, bytes;
    } p = {emu_alloc(e, sizeof image), emu_alloc(e, sizeof o->out), da, db, idesc, IMAGE};
    memcpy((void *)(uintptr_t)p.image, image, sizeof image);
    emu_host_write(e, p.image, sizeof image);
    memset((void *)(uintptr_t)p.out, 0xee, sizeof o->out);
    emu_host_write(e, p.out, sizeof o->out);
    const uint32_t n = pair ? 2 : 1;
    const struct emu_launch l = {.fn = emu_function(m, "k"),
                                 .grid = {n, 1, 1},
                                 .block = {128, 1, 1},
                                 .cluster = {n, 1, 1},
                                 .dyn_smem = IMAGE,
                                 .params = &p,
                                 .param_bytes = sizeof p};
    o->ok = emu_launch(e, &l) && emu_sync(e);
    const char *why = emu_failure(e);
    snprintf(o->reports, sizeof o->reports, "%.900s", why ? why : "");
    for (uint32_t k = 0; k < emu_report_count(e); k++) {
        strncat(o->reports, "\n", sizeof o->reports - strlen(o->reports) - 1);
        strncat(o->reports, emu_report_text(e, k), sizeof o->reports - strlen(o->reports) - 1);
    }
    memcpy(o->out, (const void *)(uintptr_t)p.out, sizeof o->out);
    emu_unload(e, m);
    emu_free(e);
}

static double ma[256][16], mb[64][16];
static const struct layout *const sw = &layouts[3];

/* Both operands K-major, 128B swizzle, A at 0 and B at 32768 of each CTA's buffer. */
static void operands(uint32_t rows_m, uint32_t rows_n, uint32_t ctas) {
    memset(image, 0, sizeof image);
    for (uint32_t m = 0; m < rows_m * ctas; m++)
        for (uint32_t k = 0; k < 16; k++) {
            ma[m][k] = (int)(unit_random() % 9) - 4;
            const uint16_t c = (uint16_t)num_from_f64(NUM_BF16, ma[m][k], NUM_RN, 0);
            memcpy(image + m / rows_m * IMAGE +
                       layout_address(sw, false, 0, 0, 1024, m % rows_m, k, 2),
                   &c, 2);
        }
    for (uint32_t n = 0; n < rows_n * ctas; n++)
        for (uint32_t k = 0; k < 16; k++) {
            mb[n][k] = (int)(unit_random() % 9) - 4;
            const uint16_t c = (uint16_t)num_from_f64(NUM_BF16, mb[n][k], NUM_RN, 0);
            memcpy(image + n / rows_n * IMAGE + 32768 +
                       layout_address(sw, false, 0, 0, 1024, n % rows_n, k, 2),
                   &c, 2);
        }
}

static long wrong(const struct outcome *o, uint32_t m, uint32_t n) {
    long bad = 0;
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j < n; j++) {
            double want = 0;
            for (uint32_t k = 0; k < 16; k++)
                want += ma[i][k] * mb[j][k];
            bad += (double)num_float(o->out[(i / 128 * 128 + i % 128) * 64 + j]) != want;
        }
    return bad;
}

enum { WORD_HI_A = 0x40004040 };
static const uint64_t desc_a = (uint64_t)WORD_HI_A << 32,
                      desc_b = ((uint64_t)WORD_HI_A << 32) + (32768 >> 4);
static const uint32_t idesc_128x32 = 0x08080490, idesc_256x32 = 0x10080490;

static void test_right(void) {
    static struct outcome o;
    char *one = write_program(NULL, false), *two = write_program(NULL, true);
    for (int policy = 0; policy < EMU_POLICIES; policy++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            operands(128, 32, 1);
            run(one, false, seed, (enum emu_policy)policy, desc_a, desc_b, idesc_128x32, &o);
            CHECK(o.ok && wrong(&o, 128, 32) == 0, "one CTA, policy %d seed %d: %ld wrong, %s",
                  policy, (int)seed, wrong(&o, 128, 32), o.reports);
            operands(128, 16, 2);
            run(two, true, seed, (enum emu_policy)policy, desc_a, desc_b, idesc_256x32, &o);
            CHECK(o.ok && wrong(&o, 256, 32) == 0, "a pair, policy %d seed %d: %ld wrong, %s",
                  policy, (int)seed, wrong(&o, 256, 32), o.reports);
        }
    free(one);
    free(two);
}

/* Each has one fault; `says` is what some report or the hang must say. */
static void test_wrong(void) {
    static const struct {
        const char *name, *says;
        struct part change[3];
        uint64_t da;
        uint32_t idesc;
    } t[] = {
        {.name = "no dealloc",
         .says = "64 columns of tensor memory allocated",
         .change = {{"FREE", ""}}},
        {.name = "dealloc of too little",
         .says = "no allocation starts there",
         .change = {{"FREE", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 32;\n"}}},
        {.name = "wrong quarter",
         .says = "own quarter",
         .change = {{"LOADADDR", "xor.b32 %r16, %r16, 0x00200000;\n"}}},
        {.name = "columns not allocated",
         .says = "is not allocated",
         .change = {{"LOADADDR", "add.u32 %r16, %r16, 64;\n"}}},
        {.name = "D not allocated",
         .says = "D: columns",
         .change = {{"MMA",
                     "tcgen05.mma.cta_group::1.kind::f16 [%r12 + 0x40], %d3, %d4, %r13, %p6;\n"}}},
        {.name = "no commit", .says = "mbarrier", .change = {{"COMMIT", ""}}},
        {.name = "alloc after relinquish",
         .says = "after relinquish",
         .change = {{"RELINQUISH",
                     "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
                     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;\n"}}},
        {.name = "sizes grow",
         .says = "may not grow",
         .change = {{"RELINQUISH",
                     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 128;\n"}}},
        {.name = "M 32", .says = "M is 32", .idesc = 0x02080490},
        {.name = "no version", .says = "bits 46-48", .da = 0x4000004000000000ull},
        {.name = "A outside", .says = "the CTA has", .da = 0x4000404000003800ull},
        {.name = "no peer",
         .says = "has no peer",
         .change = {{"MMA", "tcgen05.mma.cta_group::2.kind::f16 [%r12], %d3, %d4, %r13, %p6;\n"}}},
        {.name = "freed while used",
         .says = "are freed while",
         .change = {{"OTHER", "bar.sync 0; @%p3 bra W;\n"
                              "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 64;\nW:\n"}}},
    };
    static struct outcome o;
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        char *text = write_program(t[k].change, false);
        operands(128, 32, 1);
        run(text, false, 3, EMU_LATE, t[k].da ? t[k].da : desc_a, desc_b,
            t[k].idesc ? t[k].idesc : idesc_128x32, &o);
        CHECK(!o.ok && strstr(o.reports, t[k].says), "%s: %s", t[k].name, o.reports);
        free(text);
    }
}

/* Two products add to one D only if both lay it out alike: M 64 puts its rows elsewhere. */
static void test_two_shapes(void) {
    static const char *const twice =
        "tcgen05.mma.cta_group::1.kind::f16 [%r12], %d3, %d4, %r13, %p6;\n"
        "setp.eq.u32 %p6, %r0, %r0; mov.b32 %r14, IDESC;\n"
        "tcgen05.mma.cta_group::1.kind::f16 [%r12], %d3, %d4, %r14, %p6;\n";
    static const char *const second[] = {"0x08080490", "0x04080490"};
    static struct outcome o;
    for (int k = 0; k < 2; k++) {
        char body[400], *at;
        snprintf(body, sizeof body, "%s", twice);
        at = strstr(body, "IDESC");
        char rest[300];
        snprintf(rest, sizeof rest, "%s", at + 5);
        snprintf(at, sizeof body - (size_t)(at - body), "%s%s", second[k], rest);
        const struct part change[] = {{"MMA", body}, {NULL, NULL}};
        char *text = write_program(change, false);
        operands(128, 32, 1);
        run(text, false, 1, EMU_LATE, desc_a, desc_b, idesc_128x32, &o);
        if (k == 0)
            CHECK(o.ok, "128 rows twice: %s", o.reports);
        else
            CHECK(!o.ok && strstr(o.reports, "a product of another M"), "128, then 64 rows: %s",
                  o.reports);
        free(text);
    }
}

/* A commit covers what its own thread issued: from another thread it arrives at once, so the reader
 * meets an unfinished product when the pipe is late. */
static void test_commit_of_another(void) {
    static const struct part change[] = {
        {"COMMIT", ""},
        {"OTHER",
         "bar.sync 0; setp.eq.u32 %p6, %r0, 64;\n"
         "@%p6 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n"},
        {NULL, NULL}};
    static struct outcome o;
    char *text = write_program(change, false);
    operands(128, 32, 1);
    run(text, false, 1, EMU_LATE, desc_a, desc_b, idesc_128x32, &o);
    CHECK(!o.ok || wrong(&o, 128, 32) > 0, "a foreign commit is noticed");
    free(text);
}

int main(void) {
    test_right();
    test_wrong();
    test_two_shapes();
    test_commit_of_another();
    return unit_end();
}
