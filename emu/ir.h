/* ir.h: what a PTX module becomes.
 *
 * Text is decoded once.  An instruction holds a direct handler pointer and up to four operand
 * references; a reference is a byte offset into one of four banks of lane vectors, so that a
 * handler never asks what kind of operand it has:
 *
 *   bank 0  registers of the warp          32 lanes x 4, 8 or 16 bytes; predicates are one mask
 *   bank 1  constants of the function      immediates, broadcast to 32 lanes
 *   bank 2  values of the CTA              addresses of shared symbols, %ctaid, cluster ids
 *   bank 3  values of the warp             %tid, %laneid, lane masks, %warpid
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EMU_IR_H
#define EMU_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

enum { LANES = 32, ALL_LANES = -1 };

/* --- Types of the opcode (PTX ISA, Fundamental Types and Packed types) --- */

#define EMU_TYPES(X)                                                                               \
    X(NONE, "", 0)                                                                                 \
    X(PRED, "pred", 4)                                                                             \
    X(B8, "b8", 1)                                                                                 \
    X(U8, "u8", 1)                                                                                 \
    X(S8, "s8", 1)                                                                                 \
    X(B16, "b16", 2)                                                                               \
    X(U16, "u16", 2)                                                                               \
    X(S16, "s16", 2)                                                                               \
    X(B32, "b32", 4)                                                                               \
    X(U32, "u32", 4)                                                                               \
    X(S32, "s32", 4)                                                                               \
    X(B64, "b64", 8)                                                                               \
    X(U64, "u64", 8)                                                                               \
    X(S64, "s64", 8)                                                                               \
    X(B128, "b128", 16)                                                                            \
    X(F16, "f16", 2)                                                                               \
    X(BF16, "bf16", 2)                                                                             \
    X(F32, "f32", 4)                                                                               \
    X(F64, "f64", 8)                                                                               \
    X(F16X2, "f16x2", 4)                                                                           \
    X(BF16X2, "bf16x2", 4)                                                                         \
    X(F32X2, "f32x2", 8)                                                                           \
    X(TF32, "tf32", 4)                                                                             \
    X(E4M3, "e4m3", 1)                                                                             \
    X(E5M2, "e5m2", 1)                                                                             \
    X(E4M3X2, "e4m3x2", 2)                                                                         \
    X(E5M2X2, "e5m2x2", 2)                                                                         \
    X(UE8M0X2, "ue8m0x2", 2)                                                                       \
    X(E2M1X2, "e2m1x2", 1)                                                                         \
    X(E2M3X2, "e2m3x2", 2)                                                                         \
    X(E3M2X2, "e3m2x2", 2)                                                                         \
    X(S2F6X2, "s2f6x2", 2)                                                                         \
    X(E2M1X4, "e2m1x4", 2)                                                                         \
    X(E4M3X4, "e4m3x4", 4)                                                                         \
    X(E5M2X4, "e5m2x4", 4)                                                                         \
    X(E2M3X4, "e2m3x4", 4)                                                                         \
    X(E3M2X4, "e3m2x4", 4)                                                                         \
    X(U16X2, "u16x2", 4)                                                                           \
    X(S16X2, "s16x2", 4)

enum type {
#define X(n, s, b) T_##n,
    EMU_TYPES(X)
#undef X
        T_COUNT
};

int type_bytes(enum type t);
const char *type_name(enum type t);

/* --- Spaces --- */

enum space {
    SP_GENERIC,
    SP_GLOBAL,
    SP_SHARED,  /* own CTA's window; the address may carry the CTA's own rank */
    SP_CLUSTER, /* shared::cluster: rank in bits 24 and up */
    SP_LOCAL,
    SP_PARAM,
    SP_CONST,
    SP_CALL /* .param declared in a body: arguments of a call */
};

/* Windows of the 64-bit generic space; no host pointer lies there. */
#define WIN_SHARED 0x00e0000000000000ull
#define WIN_LOCAL  0x00e1000000000000ull
#define WIN_PARAM  0x00e2000000000000ull
#define WIN_FUNC   0x00e3000000000000ull /* addresses of functions: 16 bytes each */
#define WIN_MASK   0xffff000000000000ull

/* --- Operand references --- */

typedef u32 ref; /* bank:2, offset:28 (multiple of 4), sink:1, negated:1 */

#define REF_BANK(r)  ((r) >> 30)
#define REF_OFF(r)   ((r)&0x3ffffffcu)
#define REF_NEG      1u
#define REF_SINK     2u
#define REF_NONE     0xffffffffu
#define REF(bank, o) (((u32)(bank) << 30) | (u32)(o))
enum { BANK_REG, BANK_CONST, BANK_CTA, BANK_WARP };

/* --- Instructions --- */

struct warp;
struct insn;

enum outcome {
    NEXT,  /* go to the next instruction */
    JUMP,  /* the handler set the split's pc (or ended the split) */
    BLOCK, /* try this instruction again once woken */
    YIELD  /* next instruction, but let others run first */
};

typedef int (*handler)(struct warp *w, const struct insn *i, u32 mask);

struct insn {
    handler fn;
    ref d, a, b, c;
    ref guard;
    u32 loc;        /* index into function.locs */
    const ref *ops; /* further operands (vectors, lists) */
    s64 imm;
    u32 target; /* branch target, table index */
    u32 flags;  /* for the handler */
    u16 nops;
    u16 op;  /* row of ops.def */
    u8 n;    /* vector length or count */
    u8 size; /* bytes of an element */
    u8 space;
    u8 sem;     /* memory semantics: see SEM_* */
    u32 rejoin; /* branches: immediate post-dominator */
    u32 uses;   /* first entry in function.uses (registers read and written) */
};

/* insn.flags: .aligned: lanes of the warp wait here for the others (warp_meet) */
#define INSN_MEET (1u << 31)

enum { /* insn.sem */
       SEM_WEAK = 0,
       SEM_RELAXED = 1,
       SEM_ACQUIRE = 2,
       SEM_RELEASE = 4,
       SEM_ACQ_REL = 6,
       SEM_VOLATILE = 8,
       SEM_SC = 16,
       SCOPE_CTA = 0,
       SCOPE_CLUSTER = 32,
       SCOPE_GPU = 64,
       SCOPE_SYS = 96,
       SCOPE_MASK = 96
};

/* One register access of an instruction, for the checks that look at registers. */
struct use {
    ref r;      /* bank 0 only */
    u8 bytes;   /* of one lane; 0 for predicates */
    u8 written; /* 1 written, 0 read */
    u8 last;    /* 1 on the last entry of an instruction */
    u32 slot;   /* of the checker, see check_regs.c */
};

struct loc {
    u32 ptx;          /* line of the PTX text */
    u16 file;         /* index into module.files, 0 none */
    u16 inlined_file; /* outermost place it was inlined to, 0 none */
    u32 line, inlined_line;
};

/* A value of bank 2 or 3: computed when the CTA or the warp starts. */
enum special {
    SV_SYMBOL, /* shared symbol + addend */
    SV_CTAID,
    SV_NCTAID,
    SV_CLUSTERID,
    SV_NCLUSTERID,
    SV_CLUSTER_CTAID,
    SV_CLUSTER_NCTAID,
    SV_CLUSTER_CTARANK,
    SV_CLUSTER_NCTARANK,
    SV_GRIDID,
    SV_SMID,
    SV_NSMID,
    SV_NTID,
    SV_DYN_SMEM,
    SV_TOTAL_SMEM,
    SV_ZERO,
    SV_EXPLICIT_CLUSTER,
    SV_WARP, /* the ones below belong to bank 3 */
    SV_TID = SV_WARP,
    SV_LANEID,
    SV_WARPID,
    SV_NWARPID,
    SV_LANEMASK_EQ,
    SV_LANEMASK_LT,
    SV_LANEMASK_LE,
    SV_LANEMASK_GT,
    SV_LANEMASK_GE
};

struct bank_value {
    u8 what; /* enum special */
    u8 dim;
    u8 bytes;   /* 4 or 8 */
    u8 generic; /* symbol address in the generic window */
    u32 off;    /* in the bank */
    u32 shared; /* SV_SYMBOL: index into function.shared */
    s64 addend;
};

struct shared_var {
    const char *name;
    u32 off; /* valid for static ones */
    u32 align;
    u64 bytes;
    bool dynamic;
};

struct param {
    const char *name;
    u32 off, bytes, align;
};

struct function {
    const char *name;
    struct module *mod;
    struct insn *code;
    u32 ncode;
    struct loc *locs;
    u32 nlocs;
    struct use *uses;
    u32 nuses;
    u32 *slots, nslots; /* of the checker: register -> its slot; how many */
    u8 *consts;         /* bank 1 */
    u32 const_bytes;
    u32 reg_bytes; /* bank 0 */
    u32 cta_bytes, warp_bytes;
    struct bank_value *values;
    u32 nvalues;
    struct shared_var *shared;
    u32 nshared;
    u32 static_smem; /* bytes used from offset 0 of the function's static area */
    u32 dyn_align;
    u32 local_bytes;
    struct param *params;
    u32 nparams, param_bytes;
    u32 max_ntid[3], req_ntid[3], min_ctas, max_nreg;
    u32 set_nreg; /* the largest setmaxnreg, 0 */
    u32 req_cluster[3];
    bool is_entry;
    const char *refused; /* why it cannot be launched, NULL */
    u32 nlabels;
    u64 *hits;          /* executions per instruction, when coverage is on */
    u8 *taken;          /* per branch: bit 0 fell through, bit 1 taken */
    const char **texts; /* opcode of each instruction */
};

struct global_var {
    const char *name;
    u64 addr, bytes;
    bool is_const;
};

struct module {
    char *text;
    size_t len;
    struct arena *mem;
    const char *name;
    char target[16];
    int version; /* 10 * major + minor */
    const char **files;
    u32 nfiles;
    struct function **funcs;
    u32 nfuncs;
    struct global_var *globals;
    u32 nglobals;
};

/* --- Arena: everything of a module is freed at once --- */

struct arena *arena_new(void);
void arena_free(struct arena *a);
void *arena_alloc(struct arena *a, size_t bytes); /* zeroed */
char *arena_str(struct arena *a, const char *s, size_t n);

/* Parses PTX text.  `alloc_global` gives device memory for .global and .const variables.  On
 * failure returns NULL and writes "line N: what" into err. */
struct module *ptx_parse(const char *text, size_t len, const char *name,
                         u64 (*alloc_global)(void *ctx, size_t bytes, size_t align, bool is_const),
                         void *ctx, char *err, size_t errlen);
void module_free(struct module *m);

/* Fills insn.rejoin of every branch with its immediate post-dominator. */
void cfg_postdominators(struct function *f, struct arena *a);

#endif
