/* op_video.c: video instructions (PTX ISA, Scalar Video Instructions, SIMD Video Instructions):
 * parts of words, chosen by suffixes of the operands, to one or to two or four results.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"
#include <stdio.h>

enum video_op { VADD, VSUB, VABSDIFF, VMIN, VMAX, VAVRG, VSHL, VSHR, VMAD, VSET };

struct video {
    enum video_op op;
    u32 width;           /* bits of a part: 8, 16, 32 */
    u32 n;               /* parts of a SIMD instruction, 1 */
    bool sa, sb, sd, sc; /* signed */
    bool sat, wrap, po;
    u32 shift; /* vmad: 0, 7, 15 */
    bool neg_a, neg_b, neg_c;
    char second;             /* a: add, m: min, x: max, 0: merge or nothing */
    u32 cmp;                 /* vset: eq ne lt le gt ge */
    u8 from_a[4], from_b[4]; /* byte or half-word: of a, then of b (SIMD); bit offset / width */
    u32 wa, wb;              /* scalar: bits of the chosen part */
    u32 mask, wd, at_d;      /* results written; scalar merge: bits and bit offset of the part */
    bool merge;
};

static s64 part(u64 v, u32 at, u32 bits, bool sgn) {
    const u64 x = v >> at & (~0ull >> (64 - bits));
    return sgn && x >> (bits - 1) ? (s64)(x | ~0ull << (bits - 1) << 1) : (s64)x;
}

static s64 compute(const struct video *v, s64 a, s64 b, s64 c) {
    switch (v->op) {
    case VADD:
        return a + b;
    case VSUB:
        return a - b;
    case VABSDIFF:
        return a < b ? b - a : a - b;
    case VMIN:
        return a < b ? a : b;
    case VMAX:
        return a > b ? a : b;
    case VAVRG:
        return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case VSHL:
        return (s64)((u64)a << b);
    case VSHR:
        return a >> b;
    case VMAD: {
        const s64 p = (v->neg_a != v->neg_b ? -(a * b) : a * b) + (v->neg_c ? -c : c) + v->po;
        return p >> v->shift;
    }
    default:
        break;
    }
    const bool r[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    return r[v->cmp];
}

static s64 clamp(s64 x, u32 bits, bool sgn) {
    const s64 hi = (s64)(~0ull >> (64 - bits + sgn)), lo = sgn ? -hi - 1 : 0;
    return x < lo ? lo : x > hi ? hi : x;
}

static u32 simd(const struct video *v, u32 a, u32 b, u32 c) {
    const u64 both = (u64)b << 32 | a;
    u32 d = v->second ? c : 0;
    for (u32 k = 0; k < v->n; k++) {
        const s64 x = part(both, v->from_a[k] * v->width, v->width, v->sa);
        const s64 y = part(both, v->from_b[k] * v->width, v->width, v->sb);
        s64 t = compute(v, x, y, 0);
        if (v->sat)
            t = clamp(t, v->width, v->sd);
        const u32 low = (1u << v->width) - 1;
        const bool on = v->mask >> k & 1;
        if (v->second)
            d += on ? (u32)t : 0;
        else
            d |= (on ? (u32)t & low : c >> k * v->width & low) << k * v->width;
    }
    return d;
}

static u32 scalar(const struct video *v, u32 a, u32 b, u32 c) {
    const s64 x = part(a, v->from_a[0], v->wa, v->sa);
    s64 y = part(b, v->from_b[0], v->wb, v->sb);
    if (v->op == VSHL || v->op == VSHR)
        y = v->wrap ? y & 31 : y > 32 ? 32 : y;
    const s64 z = v->sc ? (s64)(s32)c : (s64)c;
    s64 t = compute(v, x, y, z);
    if (v->sat)
        t = clamp(t, v->wd, v->sd);
    if (v->merge) {
        const u32 low = (u32)(~0ull >> (64 - v->wd));
        return (c & ~(low << v->at_d)) | ((u32)t & low) << v->at_d;
    }
    t = v->sat && !v->sd ? (s64)(u32)t : t;
    switch (v->second) {
    case 'a':
        return (u32)(t + z);
    case 'm':
        return (u32)(t < z ? t : z);
    case 'x':
        return (u32)(t > z ? t : z);
    default:
        return (u32)t;
    }
}

static int op_video(struct warp *w, const struct insn *i, u32 m) {
    const struct video *v = (const void *)i->ops;
    u32 *d = reg_at(w, i->d);
    const u32 *a = reg_at(w, i->a), *b = reg_at(w, i->b), *c = reg_at(w, i->c);
    FOR_LANES(l, m) d[l] = v->n > 1 ? simd(v, a[l], b[l], c[l]) : scalar(v, a[l], b[l], c[l]);
    return NEXT;
}

/* --- Decoder --- */

/* .b0 to .b3, .h0, .h1 of a scalar operand. */
static void scalar_part(struct dec *d, const char *s, u32 *bits, u32 *at) {
    u32 k = 0;
    char kind = 'w', more;
    if (s && (sscanf(s, "%c%u%c", &kind, &k, &more) != 2 || (kind != 'b' && kind != 'h') ||
              k > (kind == 'b' ? 3u : 1u)))
        dec_fail(d, "a part .%s does not exist", s);
    *bits = kind == 'b' ? 8 : kind == 'h' ? 16 : 32;
    *at = k * *bits;
}

/* .hxy or .bxyzw, the last letter being part 0. */
static void simd_parts(struct dec *d, const char *s, const struct video *v, u8 *from, u32 first) {
    for (u32 k = 0; k < v->n; k++)
        from[k] = (u8)(first + k);
    if (!s)
        return;
    if (*s != (v->n == 2 ? 'h' : 'b') || strlen(s) != v->n + 1)
        dec_fail(d, "a selection .%s does not fit", s);
    for (u32 k = 0; k < v->n; k++) {
        const char c = s[v->n - k];
        if (c < '0' || c >= '0' + (char)(2 * v->n))
            dec_fail(d, "a selection .%s does not fit", s);
        from[k] = (u8)(c - '0');
    }
}

static void simd_mask(struct dec *d, const char *s, struct video *v) {
    v->mask = s ? 0 : (1u << v->n) - 1;
    for (u32 k = 1; s && s[k]; k++) {
        if (*s != (v->n == 2 ? 'h' : 'b') || s[k] < '0' || s[k] >= '0' + (char)v->n)
            dec_fail(d, "a mask .%s does not fit", s);
        v->mask |= 1u << (s[k] - '0');
    }
}

/* Types by position: dtype (but for vset), atype, btype. */
static void video_types(struct dec *d, struct video *v) {
    bool s[3] = {false, false, false};
    u32 n = 0;
    for (u32 k = 0; k < d->nwords; k++)
        if (!strcmp(d->word[k], "u32") || !strcmp(d->word[k], "s32")) {
            if (n == 3)
                dec_fail(d, "more than three types");
            s[n++] = d->word[k][0] == 's';
        }
    const u32 want = v->op == VSET ? 2 : 3;
    if (n != want)
        dec_fail(d, "%u types are due", want);
    v->sd = want == 3 && s[0];
    v->sa = s[want - 2];
    v->sb = s[want - 1];
    v->sc = v->op == VMAD ? v->sa || v->sb : v->sd;
}

static const char *take_part(struct opnd *o) {
    const char *s = o->part;
    o->part = NULL;
    return s;
}

static ref video_src(struct dec *d, struct opnd *o, bool *neg) {
    if (neg && o->negated) {
        *neg = true;
        o->negated = false;
    }
    return dec_src(d, o, T_B32);
}

void dec_video(struct dec *d) {
    static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg",
                                        "vshl", "vshr", "vmad",     "vset", NULL};
    static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};
    struct video *v = dec_alloc(d, sizeof *v);
    struct insn *in = d->in;
    const size_t len = strcspn(d->text, ".");
    const char digit = d->text[len - 1];
    v->n = digit == '2' ? 2 : digit == '4' ? 4 : 1;
    const size_t base = v->n > 1 ? len - 1 : len;
    for (u32 k = 0; names[k]; k++)
        if (strlen(names[k]) == base && !strncmp(names[k], d->text, base))
            v->op = (enum video_op)k;
    video_types(d, v);
    v->width = 32 / v->n;
    v->sat = dec_has(d, "sat");
    v->wrap = dec_has(d, "wrap");
    v->po = dec_has(d, "po");
    v->shift = dec_has(d, "shr7") ? 7 : dec_has(d, "shr15") ? 15 : 0;
    v->second = dec_has(d, "add") ? 'a' : dec_has(d, "min") ? 'm' : dec_has(d, "max") ? 'x' : 0;
    const int cmp = dec_one_of(d, compares);
    if ((v->op == VSET) != (cmp >= 0))
        dec_fail(d, "a comparison belongs to vset, and to it alone");
    v->cmp = cmp < 0 ? 0 : (u32)cmp;
    const char *part_d = take_part(&d->op[0]), *part_a = take_part(&d->op[1]),
               *part_b = take_part(&d->op[2]);
    if (v->n > 1) {
        dec_nops(d, 4, 4);
        simd_parts(d, part_a, v, v->from_a, 0);
        simd_parts(d, part_b, v, v->from_b, v->n);
        simd_mask(d, part_d, v);
        if (v->second && v->second != 'a')
            dec_fail(d, "the second operation is add");
    } else {
        u32 at;
        v->merge = part_d != NULL;
        const bool third = v->merge || v->second || v->op == VMAD;
        dec_nops(d, third ? 4 : 3, third ? 4 : 3);
        scalar_part(d, part_a, &v->wa, &at);
        v->from_a[0] = (u8)at;
        scalar_part(d, part_b, &v->wb, &at);
        v->from_b[0] = (u8)at;
        scalar_part(d, part_d, &v->wd, &v->at_d);
    }
    const bool mad = v->op == VMAD;
    in->d = dec_dst(d, &d->op[0], T_B32);
    in->a = video_src(d, &d->op[1], mad ? &v->neg_a : NULL);
    in->b = video_src(d, &d->op[2], mad ? &v->neg_b : NULL);
    in->c = d->nops == 4 ? video_src(d, &d->op[3], mad ? &v->neg_c : NULL) : dec_const32(d, 0);
    in->ops = (const void *)v;
    in->fn = op_video;
}
