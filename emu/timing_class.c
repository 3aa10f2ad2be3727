/* timing_class.c: what each instruction costs, by its opcode.  See timing.h.
 *
 * PTX is not what runs: moves, packing, parameter loads and address conversions vanish in ptxas and
 * cost nothing here; 64-bit integers become two instructions, divisions a subroutine.
 * SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"
#include "ops.h"
#include "parse.h"
#include <stdlib.h>
#include <string.h>

enum { SYNC = 1, FREE = 2, WIDE = 4 /* twice for 64 bits */ };

/* Branches over so few instructions are taken to become predicates. */
enum { PREDICATED = 32 };
enum lat { L_ALU, L_FP, L_MUFU, L_CVT, L_SHFL, L_SMEM, L_NONE, L_MMA, L_TMEM, L_MBAR };

/* Longest prefix of the opcode wins. */
static const struct row {
    const char *prefix;
    u8 kind, pipe, lat, units, flags;
    float busy;
} rows[] = {
    {"", TK_PLAIN, TP_ALU, L_ALU, 1, WIDE, 0},
    {"mov", TK_PLAIN, TP_NONE, L_NONE, 0, FREE, 0},
    {"cvta", TK_PLAIN, TP_NONE, L_NONE, 0, FREE, 0},
    {"ld.param", TK_PARAM, TP_NONE, L_NONE, 0, FREE, 0},
    {"add.f", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"sub.f", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"mul.f", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"fma", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"add.rn", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"add.rm", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"mul.rn", TK_PLAIN, TP_FP, L_FP, 1, 0, 1},
    {"mul.lo.s32", TK_PLAIN, TP_ALU, L_ALU, 1, 0, 0},
    {"mad.lo.s32", TK_PLAIN, TP_ALU, L_ALU, 1, 0, 0},
    {"mul.wide", TK_PLAIN, TP_ALU, L_ALU, 1, 0, 0},
    {"mul.lo.s64", TK_PLAIN, TP_ALU, L_ALU, 4, 0, 0},
    {"mul.lo.u64", TK_PLAIN, TP_ALU, L_ALU, 4, 0, 0},
    {"mad.lo.s64", TK_PLAIN, TP_ALU, L_ALU, 4, 0, 0},
    {"div.s32", TK_PLAIN, TP_ALU, L_ALU, 24, 0, 0},
    {"div.u32", TK_PLAIN, TP_ALU, L_ALU, 20, 0, 0},
    {"rem.s32", TK_PLAIN, TP_ALU, L_ALU, 26, 0, 0},
    {"rem.u32", TK_PLAIN, TP_ALU, L_ALU, 22, 0, 0},
    {"div.s64", TK_PLAIN, TP_ALU, L_ALU, 90, 0, 0},
    {"div.u64", TK_PLAIN, TP_ALU, L_ALU, 80, 0, 0},
    {"rem.s64", TK_PLAIN, TP_ALU, L_ALU, 90, 0, 0},
    {"rem.u64", TK_PLAIN, TP_ALU, L_ALU, 80, 0, 0},
    {"div.rn.f32", TK_PLAIN, TP_FP, L_MUFU, 10, 0, 1},
    {"rcp", TK_PLAIN, TP_MUFU, L_MUFU, 1, 0, 8},
    {"ex2", TK_PLAIN, TP_MUFU, L_MUFU, 1, 0, 8},
    {"lg2", TK_PLAIN, TP_MUFU, L_MUFU, 1, 0, 8},
    {"tanh", TK_PLAIN, TP_MUFU, L_MUFU, 1, 0, 8},
    {"rsqrt", TK_PLAIN, TP_MUFU, L_MUFU, 1, 0, 8},
    {"sqrt", TK_PLAIN, TP_MUFU, L_MUFU, 1, 0, 8},
    {"popc", TK_PLAIN, TP_CVT, L_CVT, 1, 0, 2},
    {"cvt", TK_PLAIN, TP_CVT, L_CVT, 1, 0, 2},
    {"cvt.u32.u64", TK_PLAIN, TP_NONE, L_NONE, 0, FREE, 0},
    {"cvt.u64.u32", TK_PLAIN, TP_NONE, L_NONE, 0, FREE, 0},
    {"cvt.u32.u16", TK_PLAIN, TP_NONE, L_NONE, 0, FREE, 0},
    {"cvt.u16.u32", TK_PLAIN, TP_NONE, L_NONE, 0, FREE, 0},
    {"cvt.s64.s32", TK_PLAIN, TP_ALU, L_ALU, 1, 0, 0},
    {"shfl", TK_PLAIN, TP_SM_LSU, L_SHFL, 1, 0, 1},
    {"vote", TK_PLAIN, TP_ALU, L_CVT, 1, 0, 1},
    {"match", TK_PLAIN, TP_SM_LSU, L_SHFL, 1, 0, 2},
    {"redux", TK_PLAIN, TP_CVT, L_MUFU, 1, 0, 2},
    {"elect", TK_PLAIN, TP_ALU, L_ALU, 2, 0, 0},
    {"movmatrix", TK_PLAIN, TP_SM_LSU, L_SHFL, 1, 0, 4},
    {"bra", TK_PLAIN, TP_NONE, L_NONE, 1, SYNC, 0},
    {"ret", TK_PLAIN, TP_NONE, L_NONE, 1, SYNC, 0},
    {"exit", TK_PLAIN, TP_NONE, L_NONE, 1, SYNC, 0},
    {"ld", TK_GLOBAL_LD, TP_NONE, L_NONE, 1, 0, 0},
    {"ld.acquire", TK_GLOBAL_LD, TP_NONE, L_NONE, 1, SYNC, 0},
    {"ld.relaxed", TK_GLOBAL_LD, TP_NONE, L_NONE, 1, SYNC, 0},
    {"ld.volatile", TK_GLOBAL_LD, TP_NONE, L_NONE, 1, SYNC, 0},
    {"st", TK_GLOBAL_ST, TP_NONE, L_NONE, 1, SYNC, 0},
    {"ld.shared", TK_SHARED, TP_NONE, L_SMEM, 1, 0, 0},
    {"st.shared", TK_SHARED, TP_NONE, L_NONE, 1, 0, 0},
    {"ld.local", TK_SHARED, TP_NONE, L_SMEM, 1, 0, 0},
    {"st.local", TK_SHARED, TP_NONE, L_NONE, 1, 0, 0},
    {"st.async", TK_PLAIN, TP_SM_LSU, L_NONE, 1, SYNC, 4},
    {"red.async", TK_PLAIN, TP_SM_LSU, L_NONE, 1, SYNC, 4},
    {"atom", TK_GLOBAL_ATOM, TP_NONE, L_NONE, 1, SYNC, 0},
    {"red", TK_GLOBAL_ATOM, TP_NONE, L_NONE, 1, SYNC, 0},
    {"ldmatrix", TK_MATRIX_LD, TP_NONE, L_SMEM, 1, 0, 0},
    {"stmatrix", TK_MATRIX_LD, TP_NONE, L_NONE, 1, 0, 0},
    {"mma.sync", TK_MMA_SYNC, TP_MMA, L_MMA, 1, 0, 0},
    {"cp.async", TK_PLAIN, TP_SM_LSU, L_NONE, 1, SYNC, 4},
    {"cp.reduce", TK_PLAIN, TP_SM_LSU, L_NONE, 1, SYNC, 1},
    {"cp.async.bulk", TK_PLAIN, TP_SM_LSU, L_NONE, 2, SYNC, 1},
    {"cp.async.wait", TK_WAIT, TP_NONE, L_NONE, 1, SYNC, 0},
    {"cp.async.commit", TK_PLAIN, TP_NONE, L_NONE, 1, SYNC, 0},
    {"bar", TK_BAR, TP_NONE, L_NONE, 1, SYNC, 0},
    {"barrier", TK_BAR, TP_NONE, L_NONE, 1, SYNC, 0},
    {"bar.warp", TK_PLAIN, TP_NONE, L_NONE, 1, SYNC, 0},
    {"mbarrier", TK_PLAIN, TP_SM_LSU, L_NONE, 1, SYNC, 1},
    {"mbarrier.arrive", TK_ARRIVE, TP_SM_LSU, L_SMEM, 1, SYNC, 1},
    {"mbarrier.try_wait", TK_WAIT, TP_SM_LSU, L_MBAR, 1, SYNC, 1},
    {"mbarrier.test_wait", TK_WAIT, TP_SM_LSU, L_MBAR, 1, SYNC, 1},
    {"fence", TK_PLAIN, TP_NONE, L_NONE, 4, SYNC, 0},
    {"membar", TK_PLAIN, TP_NONE, L_NONE, 40, SYNC, 0},
    {"griddepcontrol", TK_PLAIN, TP_NONE, L_NONE, 4, SYNC, 0},
    {"setmaxnreg", TK_PLAIN, TP_NONE, L_NONE, 4, SYNC, 0},
    {"tcgen05", TK_PLAIN, TP_NONE, L_NONE, 2, SYNC, 0},
    {"tcgen05.alloc", TK_PLAIN, TP_NONE, L_NONE, 40, SYNC, 0},
    {"tcgen05.ld", TK_TMEM_LD, TP_NONE, L_TMEM, 1, SYNC, 0},
    {"tcgen05.st", TK_TMEM_ST, TP_NONE, L_TMEM, 1, SYNC, 0},
    {"tcgen05.wait", TK_TMEM_WAIT, TP_NONE, L_NONE, 1, SYNC, 0},
    {"tcgen05.fence", TK_PLAIN, TP_NONE, L_NONE, 0, SYNC, 0},
    {"tcgen05.commit", TK_ARRIVE, TP_NONE, L_NONE, 2, SYNC, 0},
    {"wgmma", TK_PLAIN, TP_NONE, L_NONE, 1, SYNC, 0},
    {"wgmma.fence", TK_PLAIN, TP_NONE, L_NONE, 0, SYNC, 0},
};

static const struct row *find_row(const char *op) {
    const struct row *best = &rows[0];
    size_t most = 0;
    for (size_t k = 1; k < sizeof rows / sizeof *rows; k++) {
        size_t n = strlen(rows[k].prefix);
        if (n > most && !strncmp(op, rows[k].prefix, n) &&
            (op[n] == 0 || op[n] == '.' || rows[k].prefix[n - 1] < 'a' ||
             !strcmp(rows[k].prefix, "add.f") || !strcmp(rows[k].prefix, "sub.f") ||
             !strcmp(rows[k].prefix, "mul.f"))) {
            best = &rows[k];
            most = n;
        }
    }
    return best;
}

static bool wide_type(const char *op) {
    return strstr(op, ".s64") || strstr(op, ".u64") || strstr(op, ".b64");
}

static float latency_of(const struct time_part *p, u32 lat) {
    const double v[] = {p->alu,  p->fp,           p->mufu, p->cvt,
                        p->shfl, p->smem_latency, 0,       p->mma_sync_latency,
                        0,       p->mbar_latency};
    return (float)v[lat];
}

static void classify(const struct time_part *p, const struct insn *i, const char *op,
                     struct time_op *o) {
    const struct row *r = find_row(op);
    *o = (struct time_op){.kind = r->kind,
                          .pipe = r->pipe,
                          .sync = (r->flags & SYNC) != 0,
                          .units = r->units,
                          .busy = r->busy,
                          .latency = latency_of(p, r->lat)};
    if (r->kind == TK_GLOBAL_LD || r->kind == TK_GLOBAL_ST || r->kind == TK_SHARED ||
        r->kind == TK_GLOBAL_ATOM)
        o->bytes = (u16)((i->n ? i->n : 1u) * i->size);
    if ((r->flags & WIDE) && wide_type(op))
        o->units = 2;
    if (r->pipe == TP_ALU)
        o->busy = (float)p->int_busy * (o->units ? o->units : 1);
    if (r->pipe == TP_FP && strstr(op, "f32x2"))
        o->busy = 2;
    if (r->kind == TK_GLOBAL_LD && i->space == SP_SHARED) {
        o->kind = TK_SHARED;
        o->latency = (float)p->smem_latency;
    }
    if (r->kind == TK_GLOBAL_LD && (i->space == SP_PARAM || i->space == SP_CONST))
        o->kind = TK_PARAM;
    if (strstr(op, ".shared") && r->kind == TK_GLOBAL_ATOM)
        o->kind = TK_SHARED, o->latency = (float)p->smem_latency * 2;
    if (r->kind == TK_MMA_SYNC)
        o->busy = (float)(p->mma_sync_busy * (strstr(op, "m16n8k8") ? 0.5 : 1));
    if (r->kind == TK_TMEM_LD || r->kind == TK_TMEM_ST)
        o->bytes = i->nops;
    if (!strncmp(op, "fence.proxy", 11))
        o->units = 8;
}

u32 time_classify(const struct time_part *p, const struct function *f, struct time_op *ops,
                  u16 *use_id) {
    for (u32 k = 0; k < f->ncode; k++) {
        const struct insn *i = &f->code[k];
        classify(p, i, f->texts[k], &ops[k]);
        if (i->fn == op_bra && i->target > k && i->target - k <= PREDICATED)
            ops[k].sync = false;
    }
    u32 n = 0, words = f->reg_bytes / 4 + 1;
    u16 *id = calloc(words, sizeof *id);
    if (!id)
        abort();
    for (u32 k = 0; k < f->nuses; k++) {
        u32 at = REF_OFF(f->uses[k].r) / 4;
        if (at >= words || REF_BANK(f->uses[k].r) != BANK_REG)
            continue;
        if (!id[at] && n < 65000)
            id[at] = (u16)++n;
        use_id[k] = id[at];
    }
    free(id);
    return n + 1;
}
