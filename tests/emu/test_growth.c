/* SPDX-License-Identifier: Apache-2.0
 * A launch of 10 000 CTAs takes no more memory than one of 1000: what belongs to a CTA (registers,
 * shared and tensor memory, clocks, shadow cells, copies under way) is used again by the next. Each
 * CTA fetches by bulk copy, waits on an mbarrier, uses tensor memory and writes one word. */
#include "unit.h"
#include "emu.h"
#include <malloc.h>

static const char text[] =
    ".version 9.0\n.target sm_100a\n.address_size 64\n"
    ".visible .entry k(.param .u64 p_out, .param .u64 p_in)\n{\n"
    ".shared .align 1024 .b8 buf[1024];\n.shared .align 8 .b8 bar[16];\n"
    ".reg .b64 %out, %in, %rd<9>;\n.reg .b32 %r<9>;\n.reg .pred %p<9>;\n"
    "ld.param.u64 %out, [p_out];\nld.param.u64 %in, [p_in];\n"
    "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+8], 64;\n"
    "@%p1 bra WAIT;\n"
    "mbarrier.init.shared.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n"
    "mbarrier.arrive.expect_tx.shared.b64 %rd1, [bar], 1024;\n"
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [buf], [%in], 1024, [bar];\n"
    "WAIT: bar.sync 0;\n"
    "LOOP: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra LOOP;\n"
    "ld.shared.u32 %r2, [bar+8];\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;\n"
    "ld.shared.u32 %r3, [buf+128];\n"
    "@%p1 bra END;\n"
    "mov.u32 %r4, %ctaid.x;\nmul.wide.u32 %rd2, %r4, 4;\nadd.u64 %rd2, %rd2, %out;\n"
    "st.global.u32 [%rd2], %r3;\n"
    "END: ret;\n}\n";

static size_t launch(struct emu *e, struct function *fn, uint32_t ctas, uint64_t out, uint64_t in) {
    const uint64_t params[2] = {out, in};
    CHECK(emu_launch(e, &(struct emu_launch){.fn = fn,
                                             .grid = {ctas, 1, 1},
                                             .block = {32, 1, 1},
                                             .params = params,
                                             .param_bytes = sizeof params}) &&
              emu_sync(e),
          "%s", emu_failure(e));
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

int main(void) {
    enum { CTAS = 10000 };
    char err[400] = "";
    struct emu *e = emu_new(&(struct emu_options){.seed = 1, .quiet = true});
    struct module *m = emu_load(e, text, sizeof text - 1, "growth", err, sizeof err);
    CHECK(m != NULL, "%s", err);
    if (!m)
        return unit_end();
    const uint64_t out = emu_alloc(e, 4 * CTAS), in = emu_alloc(e, 1024);
    for (uint32_t k = 0; k < 256; k++)
        ((uint32_t *)(uintptr_t)in)[k] = k;
    emu_host_write(e, in, 1024);
    const size_t small = launch(e, emu_function(m, "k"), CTAS / 10, out, in);
    const size_t large = launch(e, emu_function(m, "k"), CTAS, out, in);
    CHECK(((uint32_t *)(uintptr_t)out)[CTAS - 1] == 32, "the last CTA wrote %u",
          ((uint32_t *)(uintptr_t)out)[CTAS - 1]);
    CHECK(large < small + (1 << 19), "%zu bytes in use after 1000 CTAs, %zu after 10 000", small,
          large);
    printf("%zu KB in use after 1000 CTAs, %zu KB after 10 000\n", small >> 10, large >> 10);
    emu_unload(e, m);
    emu_free(e);
    return unit_end();
}
