/* forms_note.c: see forms_note.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "forms_note.h"
#include <stdlib.h>
#include <string.h>

static const char *const swizzles[] = {"none",     "32B",           "64B",     "128B",
                                       "128B/32B", "128B/32B flip", "128B/64B"};

static const char *layout(char *buf, size_t n, const struct matrix_desc *d, bool mn) {
    snprintf(buf, n, "smem %s %s%s", mn ? "MN-major" : "K-major", swizzles[d->swizzle],
             d->base_offset   ? " base offset"
             : d->start & 127 ? " inside a line"
                              : "");
    return buf;
}

void forms_umma(struct emu *e, const struct umma *u) {
    static const char *const kinds[] = {"f16",      "tf32", "f8f6f4",  "i8",
                                        "mxf8f6f4", "mxf4", "mxf4nvf4"};
    const struct umma_shape *s = &u->shape;
    char a[60] = "tmem", b[60];
    bool masked = false;
    for (int k = 0; k < 8; k++)
        masked = masked || u->lane_mask[k];
    const u32 lane = u->d >> 16;
    const u32 key[] = {1,
                       s->kind,
                       u->form.cta_group,
                       u->form.ws,
                       u->form.a_tmem,
                       s->m,
                       s->n,
                       s->k,
                       s->a,
                       s->b,
                       s->d_f16,
                       s->a_mn,
                       s->b_mn,
                       s->neg_a,
                       s->neg_b,
                       u->a.swizzle,
                       u->b.swizzle,
                       masked,
                       u->scale_d != 0,
                       u->a.start & 127,
                       u->b.start & 127,
                       u->a.base_offset,
                       u->b.base_offset,
                       lane,
                       s->a_signed,
                       s->b_signed,
                       u->form.scales,
                       s->sf_ue4m3,
                       s->sfa_id,
                       s->sfb_id,
                       u->form.ashift,
                       u->form.sparse,
                       s->selector,
                       u->zero_columns != 0};
    char extra[80] = "";
    if (!e->forms)
        return;
    if (u->form.scales)
        snprintf(extra, sizeof extra, ", %u scales%s %s at bytes %u and %u", umma_scales(u),
                 s->k == 96 ? " of K 96" : "", s->sf_ue4m3 ? "ue4m3" : "ue8m0", s->sfa_id,
                 s->sfb_id);
    if (!u->form.a_tmem)
        layout(a, sizeof a, &u->a, s->a_mn);
    layout(b, sizeof b, &u->b, s->b_mn);
    const bool i8 = s->kind == UMMA_I8;
    forms_note(
        e->forms, forms_key(key, sizeof key),
        "tcgen05.mma%s kind::%s cta_group::%u M%u N%u A %s %s%s, B %s %s%s, D %s%s%s%s%s%s%s",
        u->form.ws ? ".ws" : "", kinds[s->kind], u->form.cta_group, s->m, s->n,
        i8 ? (s->a_signed ? "s8" : "u8") : num_name(s->a), a, s->neg_a ? " negated" : "",
        i8 ? (s->b_signed ? "s8" : "u8") : num_name(s->b), b, s->neg_b ? " negated" : "",
        i8         ? "s32"
        : s->d_f16 ? "f16"
                   : "f32",
        lane ? " at lane 16" : "", masked ? " masked" : "", u->scale_d ? " scaled" : "",
        u->form.ashift ? ", A shifted" : "", u->zero_columns ? ", zero columns" : "", extra);
}

void forms_wgmma(struct emu *e, const struct wgmma *w) {
    const struct wgmma_form *f = &w->form;
    char a[60] = "registers", b[60];
    const u32 key[] = {2,
                       f->n,
                       f->k,
                       f->integer,
                       f->a,
                       f->b,
                       f->a_signed,
                       f->b_signed,
                       f->d_f16,
                       f->a_regs,
                       f->sparse,
                       w->a_mn,
                       w->b_mn,
                       w->neg_a,
                       w->neg_b,
                       w->a.swizzle,
                       w->b.swizzle,
                       w->a.start & 127,
                       w->b.start & 127,
                       w->a.base_offset,
                       w->b.base_offset};
    if (!e->forms)
        return;
    if (!f->a_regs)
        layout(a, sizeof a, &w->a, w->a_mn);
    layout(b, sizeof b, &w->b, w->b_mn);
    forms_note(
        e->forms, forms_key(key, sizeof key), "wgmma%s m64n%uk%u A %s %s%s, B %s %s%s, D %s",
        f->sparse ? ".sp" : "", f->n, f->k,
        f->integer ? (f->a_signed ? "s8" : "u8") : num_name(f->a), a, w->neg_a ? " negated" : "",
        f->integer ? (f->b_signed ? "s8" : "u8") : num_name(f->b), b, w->neg_b ? " negated" : "",
        f->integer ? "s32"
        : f->d_f16 ? "f16"
                   : "f32");
}

void forms_tensor(struct emu *e, const struct tensormap *m, const char *what) {
    bool steps = false;
    for (u32 k = 1; k < m->rank; k++)
        steps = steps || m->step[k] != 1;
    const u32 inner = m->box[0] * elem_bytes(m->type);
    u32 key[] = {3,     m->rank, m->type,           m->swizzle,  m->fill,
                 steps, inner,   (u32)strlen(what), (u8)what[0], (u8)what[1]};
    if (!e->forms)
        return;
    forms_note(e->forms, forms_key(key, sizeof key),
               "tensor %s rank %u %s swizzle %s inner box %u bytes%s%s", what, m->rank,
               elem_name(m->type), swizzles[m->swizzle], inner, m->fill ? " NaN fill" : "",
               steps ? " element strides" : "");
}

/* --- Opcodes --- */

static u32 opcode_length(const char *s) {
    u32 n = 0;
    while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
           (s[n] >= '0' && s[n] <= '9') || s[n] == '.' || s[n] == ':' || s[n] == '_')
        n++;
    return n;
}

void forms_opcodes(struct emu *e, const struct function *f) {
    if (!e->forms || !f->hits || !f->texts)
        return;
    for (u32 k = 0; k < f->ncode; k++) {
        const char *s = f->texts[k];
        if (!f->hits[k] || !s)
            continue;
        const u32 n = opcode_length(s);
        forms_note(e->forms, forms_key(s, n) ^ 4, "%.*s", (int)n, s);
    }
}
