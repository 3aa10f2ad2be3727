/* emu.c: life of an emulator, its parts and its public calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "check.h"
#include "forms.h"
#include "matrix.h"
#include "num.h"
#include "timing.h"
#include <stdlib.h>
#include <string.h>

/* CUDA C Programming Guide, Compute Capabilities; NVIDIA tuning guides of each generation. */
static const struct emu_part parts[] = {
    {"sm_100a", 10, 0, 148, 233472, 232448, 65536, 64, 32, 16, 126 << 20, "Emulated B200"},
    {"sm_103a", 10, 3, 148, 233472, 232448, 65536, 64, 32, 16, 126 << 20, "Emulated B300"},
    {"sm_90a", 9, 0, 132, 233472, 232448, 65536, 64, 32, 16, 60 << 20, "Emulated H200"},
    {"sm_80", 8, 0, 108, 167936, 166912, 65536, 64, 32, 1, 40 << 20, "Emulated A100"},
    {"sm_120a", 12, 0, 188, 102400, 101376, 65536, 48, 24, 8, 128 << 20, "Emulated RTX PRO 6000"},
};

const struct emu_part *emu_part_find(const char *name) {
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        size_t n = strlen(parts[k].name);
        if (!strcmp(parts[k].name, name) || (parts[k].name[n - 1] == 'a' && strlen(name) == n - 1 &&
                                             !strncmp(parts[k].name, name, n - 1)))
            return &parts[k];
    }
    return NULL;
}

struct emu *emu_new(const struct emu_options *o) {
    const struct emu_part *part = emu_part_find(o->part ? o->part : "sm_100a");
    struct emu *e = part ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return NULL;
    e->opt = *o;
    e->part = part;
    if (o->sms) {
        e->changed = *part;
        e->changed.sms = o->sms;
        e->part = &e->changed;
    }
    e->rng = o->seed;
    rng_next(&e->rng);
    if (!mem_init(e)) {
        free(e);
        return NULL;
    }
    if (o->perturb) {
        e->perturb_state = calloc(1, sizeof *e->perturb_state);
        *e->perturb_state = (struct num_perturb){.seed = o->seed, .amount = 1.0f};
        e->perturb = e->perturb_state;
        e->model_state = calloc(1, sizeof *e->model_state);
        *e->model_state =
            (struct mma_model){.seed = o->seed * 2 + 1, .keep_bits = o->seed % 2 ? 24 : 0};
        e->model = e->model_state;
    }
    e->forms = o->forms ? forms_new() : NULL;
    e->timing = o->timing ? time_new(part) : NULL;
    if (e->timing)
        e->opt.policy = EMU_INSTANT; /* an item moves its bytes in one step */
    check_new(e);
    return e;
}

void emu_free(struct emu *e) {
    if (!e)
        return;
    grid_abandon(e);
    cta_free_all(e);
    time_free(e);
    check_delete(e);
    mem_done(e);
    emu_reset(e);
    free(e->reports);
    free(e->clusters);
    free(e->ready);
    free(e->active);
    free(e->perturb_state);
    free(e->model_state);
    forms_free(e->forms);
    free(e);
}

static u64 alloc_global(void *ctx, size_t bytes, size_t align, bool is_const) {
    struct emu *e = ctx;
    u64 a = mem_alloc(e, bytes, align);
    if (a && is_const)
        mem_find(e, a)->read_only = true;
    check_host_write(e, a, bytes);
    return a;
}

struct module *emu_load(struct emu *e, const char *text, size_t len, const char *name, char *err,
                        size_t errlen) {
    return ptx_parse(text, len, name, alloc_global, e, err, errlen);
}

void emu_unload(struct emu *e, struct module *m) {
    if (!m)
        return;
    for (u32 k = m->nglobals; k-- > 0;)
        mem_free(e, m->globals[k].addr);
    check_forget(e, m);
    module_free(m);
}

struct function *emu_function(struct module *m, const char *name) {
    for (u32 k = 0; k < m->nfuncs; k++)
        if (!strcmp(m->funcs[k]->name, name))
            return m->funcs[k];
    return NULL;
}

uint64_t emu_alloc(struct emu *e, uint64_t bytes) {
    u64 a = mem_alloc(e, bytes, 256);
    check_alloc(e, a, bytes);
    return a;
}
bool emu_free_mem(struct emu *e, uint64_t addr) {
    check_free(e, addr);
    return mem_free(e, addr);
}
bool emu_register(struct emu *e, uint64_t addr, uint64_t bytes) {
    return mem_register(e, addr, bytes);
}
bool emu_unregister(struct emu *e, uint64_t addr) {
    return mem_unregister(e, addr);
}
bool emu_range(struct emu *e, uint64_t addr, uint64_t *base, uint64_t *bytes) {
    struct allocation *a = mem_find(e, addr);
    if (!a)
        return false;
    *base = a->addr;
    *bytes = a->bytes;
    return true;
}
void emu_host_write(struct emu *e, uint64_t addr, uint64_t bytes) {
    check_host_write(e, addr, bytes);
}

bool emu_sync(struct emu *e) {
    emu_run(e);
    return !e->failed;
}
const char *emu_failure(struct emu *e) {
    return e->failure;
}
bool emu_asserted(const struct emu *e) {
    return e->failed && e->asserted;
}
void emu_reset(struct emu *e) {
    for (u32 k = 0; k < e->nreports; k++)
        free(e->reports[k].text);
    e->nreports = 0;
    e->failed = e->asserted = false;
    e->failure[0] = 0;
}
uint32_t emu_report_count(struct emu *e) {
    return e->nreports;
}
const char *emu_report_text(struct emu *e, uint32_t i) {
    return i < e->nreports ? e->reports[i].text : NULL;
}
uint64_t emu_stat(struct emu *e, enum emu_stat s) {
    return e->stats[s];
}
void emu_forms(struct emu *e, FILE *out) {
    if (e->forms)
        forms_write(e->forms, out);
}
const struct emu_part *emu_part(const struct emu *e) {
    return e->part;
}
const struct emu_options *emu_opts(const struct emu *e) {
    return &e->opt;
}
