/* SPDX-License-Identifier: Apache-2.0
 * Any bytes as PTX: refused with a line and a reason, or understood; and what is understood may run
 * for a while with any result but a crash. */
#include "emu.h"
#include "ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096, STEPS = 3000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct emu *emulator(void) {
    static struct emu *e;
    static unsigned used;
    if (e && ++used % 64 == 0) {
        emu_free(e);
        e = NULL;
    }
    if (!e)
        e = emu_new(&(struct emu_options){
            .seed = used, .quiet = true, .max_steps = STEPS, .out = fopen("/dev/null", "w")});
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct emu *e = emulator();
    char err[500] = "";
    struct module *m = emu_load(e, (const char *)data, size, "fuzz", err, sizeof err);
    if (!m) {
        if (!err[0]) {
            fputs("fuzz_ptx: refused without a reason\n", stderr);
            abort();
        }
        return 0;
    }
    uint64_t buffer = emu_alloc(e, BYTES), params[4200];
    for (size_t k = 0; k < sizeof params / sizeof *params; k++)
        params[k] = buffer;
    for (uint32_t f = 0; f < m->nfuncs && f < 2; f++) {
        const struct function *fn = m->funcs[f];
        const uint32_t threads = fn->req_ntid[0] ? fn->req_ntid[0] : 64;
        emu_launch(e, &(struct emu_launch){.fn = m->funcs[f],
                                           .grid = {2, 1, 1},
                                           .block = {threads, 1, 1},
                                           .params = params,
                                           .param_bytes = sizeof params});
        emu_sync(e);
        emu_reset(e);
    }
    emu_free_mem(e, buffer);
    emu_unload(e, m);
    return 0;
}
