/* ptx_emu.c: the command: run a kernel of a PTX file, or ask about the emulator.
 * SPDX-License-Identifier: Apache-2.0 */
#include "emu.h"
#include "forms.h"
#include "ir.h"
#include "num.h"
#include "parse.h"
#include "tensormap.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 64 };

static const char usage_text[] =
    "usage: ptx-emu FILE.ptx [--kernel NAME] [--grid X,Y,Z] [--block X,Y,Z] [option...] [--arg "
    "ARG]...\n"
    "       ptx-emu forms A [--minus B]      lines of the list A (that B lacks)\n"
    "       ptx-emu ops                      instructions that are understood\n"
    "\n"
    "  --arg ARG      one for each parameter, in order:\n"
    "                   u32:7  s32:-1  u64:7  f32:0.5      a number\n"
    "                   f32[1024]                          a buffer of zeros\n"
    "                   bf16[64]=rand  u32[8]=iota  f32[4]=1.5  f32[4]=nan  u8[99]=@file\n"
    "                   map:2:64,128:64,8:128B             tensor map of argument 2: sizes, box\n"
    "                                                      (innermost first), swizzle\n"
    "                   bytes:00ff...                      a structure, in hexadecimal\n"
    "  --print N[:COUNT]  print the elements of argument N afterwards\n"
    "  --cluster X,Y,Z    --smem BYTES    --pdl      (without: one CTA of 32 threads)\n"
    "  --smem: dynamic shared memory\n"
    "  --part NAME        sm_100a (default), sm_103a, sm_90a, sm_80, sm_120a\n"
    "  --seed N  --seeds N  --policy random|bursty|instant|late|starve\n"
    "  --lenient CHECK,...|shipped|all (names: emu/emu.h)    --unchecked    --conservative    "
    "--late-rejoin    "
    "--perturb\n"
    "  --in-order    clusters start by number\n"
    "  --timing      model time (docs/traces.md): prints the modelled nanoseconds of the launch\n"
    "  --unread    --balance\n"
    "  --slots N  --window N  --max-steps N\n"
    "  --coverage FILE    --forms FILE    --stats      (- is standard output)\n"
    "\n"
    "Exit status: 0 clean, 1 reports or a fault, 2 a wrong command line or PTX.\n";

static _Noreturn void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void stop(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    fputs("ptx-emu: ", stderr);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

/* --- Elements --- */

struct element {
    const char *name;
    enum { EL_INT, EL_SIGNED, EL_FLOAT, EL_F64 } kind;
    uint32_t bytes;
    enum num_fmt f;
    enum elem_type map;
};
static const struct element elements[] = {
    {"u8", EL_INT, 1, 0, ELEM_U8},
    {"s8", EL_SIGNED, 1, 0, ELEM_U8},
    {"u16", EL_INT, 2, 0, ELEM_U16},
    {"s16", EL_SIGNED, 2, 0, ELEM_U16},
    {"u32", EL_INT, 4, 0, ELEM_U32},
    {"s32", EL_SIGNED, 4, 0, ELEM_S32},
    {"u64", EL_INT, 8, 0, ELEM_U64},
    {"s64", EL_SIGNED, 8, 0, ELEM_S64},
    {"f16", EL_FLOAT, 2, NUM_F16, ELEM_F16},
    {"bf16", EL_FLOAT, 2, NUM_BF16, ELEM_BF16},
    {"f32", EL_FLOAT, 4, NUM_F32, ELEM_F32},
    {"f64", EL_F64, 8, 0, ELEM_F64},
    {"e4m3", EL_FLOAT, 1, NUM_E4M3, ELEM_U8},
    {"e5m2", EL_FLOAT, 1, NUM_E5M2, ELEM_U8},
};

static const struct element *element_named(const char *s, size_t n) {
    for (size_t k = 0; k < sizeof elements / sizeof *elements; k++)
        if (strlen(elements[k].name) == n && !memcmp(elements[k].name, s, n))
            return &elements[k];
    stop("'%.*s' is no type", (int)n, s);
}

/* A number and nothing after it but one of `ends`; *end: there. */
static uint64_t whole(const char *text, const char *ends, char **end) {
    char *stop_at;
    const bool digit = *text >= '0' && *text <= '9';
    errno = 0;
    const uint64_t v = strtoull(text, &stop_at, 0);
    if (!digit || errno || (*stop_at && !strchr(ends, *stop_at)))
        stop("'%s' is no number", text);
    if (end)
        *end = stop_at;
    return v;
}
static uint32_t whole32(const char *text) {
    const uint64_t v = whole(text, "", NULL);
    if (v > UINT32_MAX)
        stop("'%s' is too large", text);
    return (uint32_t)v;
}

static uint64_t encode(const struct element *t, const char *text) {
    if (t->kind == EL_INT || t->kind == EL_SIGNED) {
        const bool below = *text == '-';
        const uint64_t v = whole(text + below, "", NULL);
        const uint64_t most = ~0ull >> (64 - 8 * t->bytes);
        if (v > (below ? most / 2 + 1 : most))
            stop("'%s' does not fit in %s", text, t->name);
        return below ? 0 - v : v;
    }
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end)
        stop("'%s' is no number", text);
    return t->kind == EL_F64 ? num_bits64(v) : num_from_f64(t->f, v, NUM_RN, 0);
}

static void print_element(const struct element *t, const uint8_t *p) {
    uint64_t v = 0;
    memcpy(&v, p, t->bytes);
    if (t->kind == EL_FLOAT)
        printf(" %.9g", num_to_f64(t->f, (uint32_t)v));
    else if (t->kind == EL_F64)
        printf(" %.17g", num_double(v));
    else if (t->kind == EL_SIGNED)
        printf(" %" PRId64, (int64_t)(v << (64 - 8 * t->bytes)) >> (64 - 8 * t->bytes));
    else
        printf(" %" PRIu64, v);
}

/* --- Arguments --- */

struct arg {
    const char *text;
    const struct element *type;
    uint64_t address, count; /* buffers */
    _Alignas(64) uint8_t value[4096];
    size_t bytes;
};

static void fill_file(struct arg *a, const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in)
        stop("%s cannot be read", path);
    const size_t n = fread((void *)(uintptr_t)a->address, 1, a->count * a->type->bytes, in);
    fclose(in);
    if (n != a->count * a->type->bytes)
        stop("%s has %zu bytes, %" PRIu64 " are due", path, n, a->count * a->type->bytes);
}

static void fill_buffer(struct arg *a, const char *how) {
    uint8_t *p = (uint8_t *)(uintptr_t)a->address;
    uint64_t state = 1;
    if (*how == '@') {
        fill_file(a, how + 1);
        return;
    }
    for (uint64_t k = 0; k < a->count; k++) {
        char number[40];
        uint64_t v;
        if (!strcmp(how, "iota")) {
            if (a->type->kind >= EL_FLOAT)
                snprintf(number, sizeof number, "%" PRIu64, k);
            v = a->type->kind >= EL_FLOAT ? encode(a->type, number) : k;
        } else if (!strcmp(how, "rand")) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            snprintf(number, sizeof number, "%.9g", (double)(int32_t)(state >> 32) * 0x1p-31);
            v = a->type->kind >= EL_FLOAT ? encode(a->type, number) : state >> 32;
        } else {
            v = encode(a->type, how);
        }
        memcpy(p + k * a->type->bytes, &v, a->type->bytes);
    }
}

static void list(const char *s, uint64_t *v, uint32_t *n) {
    *n = 0;
    for (char *end; *n < 5; s = end + 1) {
        v[(*n)++] = whole(s, ",:", &end);
        if (*end != ',')
            return;
    }
}

/* map:N:sizes:box:swizzle */
static void make_map(struct arg *args, struct arg *a) {
    static const char *const names[] = {"none",          "32B", "64B",          "128B",
                                        "128B_ATOM_32B", "",    "128B_ATOM_64B"};
    uint64_t dims[5], box64[5], strides[4];
    uint32_t rank, n, box[5], ones[5] = {1, 1, 1, 1, 1}, swizzle = 0;
    char *end, why[300];
    const long of = strtol(a->text + 4, &end, 0);
    const char *sizes = *end == ':' ? end + 1 : NULL, *boxes = sizes ? strchr(sizes, ':') : NULL;
    const char *last = boxes ? strchr(boxes + 1, ':') : NULL;
    if (!boxes || of < 0 || of >= a - args || !args[of].address)
        stop("--arg %s: map:BUFFER:sizes:box:swizzle, of a buffer before it", a->text);
    list(sizes, dims, &rank);
    list(boxes + 1, box64, &n);
    if (n != rank)
        stop("--arg %s: %u sizes and %u box sizes", a->text, rank, n);
    for (uint32_t k = 0; last && k < 7; k++)
        if (*names[k] && !strcmp(last + 1, names[k]))
            swizzle = k;
    for (uint32_t k = 0; k < rank; k++) {
        box[k] = (uint32_t)box64[k];
        if (k)
            strides[k - 1] = (k == 1 ? args[of].type->bytes : strides[k - 2]) * dims[k - 1];
    }
    const struct tensormap_args t = {.type = args[of].type->map,
                                     .rank = rank,
                                     .address = args[of].address,
                                     .dims = dims,
                                     .strides = strides,
                                     .box = box,
                                     .element_steps = ones,
                                     .swizzle = swizzle};
    if (!tensormap_encode(a->value, &t, why, sizeof why))
        stop("--arg %s: %s", a->text, why);
    a->bytes = TENSORMAP_BYTES;
}

static void make_bytes(struct arg *a) {
    const char *s = a->text + 6;
    unsigned v;
    for (; s[0] && s[1] && a->bytes < sizeof a->value && sscanf(s, "%2x", &v) == 1; s += 2)
        a->value[a->bytes++] = (uint8_t)v;
    if (*s)
        stop("--arg %s: pairs of hexadecimal digits are due", a->text);
}

static void make_arg(struct emu *e, struct arg *args, struct arg *a) {
    a->bytes = 0;
    a->address = 0;
    if (!strncmp(a->text, "map:", 4)) {
        make_map(args, a);
        return;
    }
    if (!strncmp(a->text, "bytes:", 6)) {
        make_bytes(a);
        return;
    }
    const size_t n = strcspn(a->text, ":[");
    a->type = element_named(a->text, n);
    uint64_t v;
    if (a->text[n] == ':') {
        v = encode(a->type, a->text + n + 1);
        a->bytes = a->type->bytes;
    } else {
        const char *how = strchr(a->text, '=');
        char *end;
        a->count = whole(a->text + n + 1, "]", &end);
        if (*end != ']' || (end[1] && end + 1 != how))
            stop("--arg %s: TYPE[COUNT] or TYPE[COUNT]=VALUES is due", a->text);
        v = a->address = a->count ? emu_alloc(e, a->count * a->type->bytes) : 0;
        if (!v)
            stop("--arg %s: no such buffer can be had", a->text);
        fill_buffer(a, how ? how + 1 : "0");
        emu_host_write(e, v, a->count * a->type->bytes);
        a->bytes = 8;
    }
    memcpy(a->value, &v, 8);
}

/* --- Options --- */

static struct {
    const char *file, *kernel, *coverage, *forms;
    uint32_t grid[3], block[3], cluster[3], smem, seeds;
    bool pdl, stats;
    struct emu_options emu;
    struct arg args[MAX_ARGS];
    uint32_t nargs, nprints;
    const char *prints[MAX_ARGS];
} o = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .seeds = 1};

static void three(const char *s, uint32_t v[3]) {
    uint64_t w[5];
    uint32_t n;
    list(s, w, &n);
    if (n > 3 || strchr(s, ':'))
        stop("'%s': at most three numbers", s);
    for (uint32_t k = 0; k < 3; k++) {
        v[k] = k < n ? (uint32_t)w[k] : 1;
        if (k < n && w[k] > UINT32_MAX)
            stop("'%s' is too large", s);
    }
}

static void set_lenient(const char *s) {
    const char *wrong = emu_checks_named(s, o.emu.lenient);
    if (wrong)
        stop("--lenient: there is no check '%.*s'", (int)strcspn(wrong, ", "), wrong);
}

static void set_policy(const char *s) {
    static const char *const names[] = {"random", "bursty", "instant", "late", "starve"};
    for (int k = 0; k < EMU_POLICIES; k++)
        if (!strcmp(s, names[k])) {
            o.emu.policy = (enum emu_policy)k;
            return;
        }
    stop("--policy: there is no policy '%s'", s);
}

static bool flag(const char *a) {
    const struct {
        const char *name;
        bool *to;
    } flags[] = {{"--pdl", &o.pdl},
                 {"--stats", &o.stats},
                 {"--unchecked", &o.emu.unchecked},
                 {"--conservative", &o.emu.conservative_proxy},
                 {"--unread", &o.emu.unread},
                 {"--balance", &o.emu.balance},
                 {"--late-rejoin", &o.emu.late_rejoin},
                 {"--in-order", &o.emu.in_order},
                 {"--perturb", &o.emu.perturb},
                 {"--timing", &o.emu.timing}};
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        if (!strcmp(a, flags[k].name))
            return *flags[k].to = true;
    return false;
}

static bool valued(const char *a, const char *v) {
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"--kernel", &o.kernel},
                 {"--coverage", &o.coverage},
                 {"--forms", &o.forms},
                 {"--part", &o.emu.part}};
    const struct {
        const char *name;
        uint32_t *to;
    } numbers[] = {{"--smem", &o.smem},
                   {"--seeds", &o.seeds},
                   {"--slots", &o.emu.slots},
                   {"--window", &o.emu.window}};
    const struct {
        const char *name;
        uint32_t *to;
    } triples[] = {{"--grid", o.grid}, {"--block", o.block}, {"--cluster", o.cluster}};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        if (!strcmp(a, texts[k].name))
            return *texts[k].to = v, true;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!strcmp(a, numbers[k].name))
            return *numbers[k].to = whole32(v), true;
    for (size_t k = 0; k < sizeof triples / sizeof *triples; k++)
        if (!strcmp(a, triples[k].name))
            return three(v, triples[k].to), true;
    if (!strcmp(a, "--seed"))
        return o.emu.seed = whole(v, "", NULL), true;
    if (!strcmp(a, "--max-steps"))
        return o.emu.max_steps = whole(v, "", NULL), true;
    if (!strcmp(a, "--policy"))
        return set_policy(v), true;
    if (!strcmp(a, "--lenient"))
        return set_lenient(v), true;
    if (!strcmp(a, "--arg") && o.nargs < MAX_ARGS)
        return o.args[o.nargs++].text = v, true;
    if (!strcmp(a, "--print") && o.nprints < MAX_ARGS)
        return o.prints[o.nprints++] = v, true;
    return false;
}

static void read_options(int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        if (argv[k][0] != '-') {
            if (o.file)
                stop("two files: %s and %s", o.file, argv[k]);
            o.file = argv[k];
        } else if (!flag(argv[k]) && (k + 1 == argc || !valued(argv[k], argv[k + 1]))) {
            stop("'%s' is no option, or lacks its value", argv[k]);
        } else if (!flag(argv[k])) {
            k++;
        }
    }
    if (!o.file)
        stop("a PTX file is due; ptx-emu --help says more");
    o.emu.coverage = o.coverage != NULL;
    o.emu.forms = o.forms != NULL;
}

/* --- Running --- */

static char *read_all(const char *path, size_t *n) {
    FILE *in = fopen(path, "rb");
    char *text = NULL;
    size_t cap = 0;
    *n = 0;
    if (!in)
        stop("%s cannot be read", path);
    do {
        cap = cap * 2 + 65536;
        text = realloc(text, cap);
        if (!text)
            stop("no memory for %s", path);
        *n += fread(text + *n, 1, cap - *n, in);
    } while (*n == cap);
    fclose(in);
    return text;
}

static struct function *choose(struct module *m) {
    struct function *found = NULL;
    for (uint32_t k = 0; k < m->nfuncs; k++) {
        struct function *f = m->funcs[k];
        if (!f->is_entry || (o.kernel && !strstr(f->name, o.kernel)))
            continue;
        if (o.kernel && !strcmp(f->name, o.kernel))
            return f;
        if (found)
            stop("%s and %s: --kernel NAME is due", found->name, f->name);
        found = f;
    }
    if (!found)
        stop("%s has no kernel%s%s", o.file, o.kernel ? " named like " : "",
             o.kernel ? o.kernel : "");
    return found;
}

static void pack(struct emu *e, const struct function *f, uint8_t *params) {
    if (f->nparams != o.nargs)
        stop("%s has %u parameters, %u --arg are given", f->name, f->nparams, o.nargs);
    for (uint32_t k = 0; k < o.nargs; k++) {
        make_arg(e, o.args, &o.args[k]);
        if (o.args[k].bytes != f->params[k].bytes)
            stop("--arg %s has %zu bytes, parameter %u (%s) has %u", o.args[k].text,
                 o.args[k].bytes, k, f->params[k].name, f->params[k].bytes);
        memcpy(params + f->params[k].off, o.args[k].value, o.args[k].bytes);
    }
}

static void print_results(void) {
    for (uint32_t k = 0; k < o.nprints; k++) {
        char *end;
        const uint64_t n = whole(o.prints[k], ":", &end);
        if (n >= o.nargs || !o.args[n].address)
            stop("--print %s: no such buffer", o.prints[k]);
        const struct arg *a = &o.args[n];
        uint64_t count = *end == ':' ? whole(end + 1, "", NULL) : a->count;
        count = count < a->count ? count : a->count;
        printf("argument %" PRIu64 ":", n);
        for (uint64_t i = 0; i < count; i++)
            print_element(a->type, (const uint8_t *)(uintptr_t)(a->address + i * a->type->bytes));
        printf("\n");
    }
}

static void print_stats(struct emu *e) {
    static const char *const names[] = {
#define X(n, t) t,
        EMU_STAT_LIST(X)
#undef X
    };
    for (int k = 0; k < EMU_STATS; k++)
        printf("%s: %" PRIu64 "\n", names[k], emu_stat(e, (enum emu_stat)k));
}

static FILE *open_out(const char *path) {
    FILE *f = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (!f)
        stop("%s cannot be written", path);
    return f;
}

static void close_out(FILE *f) {
    if (f != stdout)
        fclose(f);
}

/* One run; the last one prints. */
static bool run_once(const char *text, size_t n, bool last) {
    char err[600] = "";
    struct emu *e = emu_new(&o.emu);
    if (!e)
        stop("part '%s' is not known", o.emu.part ? o.emu.part : "");
    struct module *m = emu_load(e, text, n, o.file, err, sizeof err);
    if (!m)
        stop("%s: %s", o.file, err);
    struct function *f = choose(m);
    uint8_t *params = calloc(1, f->param_bytes + 64u);
    pack(e, f, params);
    struct emu_launch l = {
        .fn = f, .dyn_smem = o.smem, .pdl = o.pdl, .params = params, .param_bytes = f->param_bytes};
    memcpy(l.grid, o.grid, sizeof l.grid);
    memcpy(l.block, o.block, sizeof l.block);
    memcpy(l.cluster, o.cluster, sizeof l.cluster);
    bool ok = emu_launch(e, &l);
    if (!ok)
        fprintf(stderr, "ptx-emu: the launch is refused: %s\n", emu_failure(e));
    ok = ok && emu_sync(e);
    if (last) {
        print_results();
        if (o.emu.timing)
            printf("modelled: %.0f ns\n", emu_timing_ns(e));
        if (o.stats)
            print_stats(e);
        if (o.coverage) {
            FILE *out = open_out(o.coverage);
            emu_coverage(m, out);
            close_out(out);
        }
        if (o.forms) {
            FILE *out = open_out(o.forms);
            emu_forms(e, out);
            close_out(out);
        }
    }
    free(params);
    emu_unload(e, m);
    emu_free(e);
    return ok;
}

static int run(int argc, char **argv) {
    size_t n;
    uint32_t bad = 0;
    read_options(argc, argv);
    char *text = read_all(o.file, &n);
    for (uint32_t k = 0; k < o.seeds; k++, o.emu.seed++)
        bad += !run_once(text, n, k + 1 == o.seeds);
    if (o.seeds > 1)
        printf("%u of %u seeds clean\n", o.seeds - bad, o.seeds);
    free(text);
    return bad != 0;
}

/* --- Questions --- */

static int forms(int argc, char **argv) {
    if (argc == 3)
        return forms_minus(argv[2], "/dev/null", stdout) ? 0 : 2;
    if (argc != 5 || strcmp(argv[3], "--minus"))
        stop("forms A [--minus B]");
    if (!forms_minus(argv[2], argv[4], stdout))
        stop("%s or %s cannot be read", argv[2], argv[4]);
    return 0;
}

static int ops(void) {
    for (uint32_t k = 0; k < op_row_count; k++)
        printf("%-34s PTX ISA: %s\n", op_rows[k].base, op_rows[k].section);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        fputs(usage_text, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (!strcmp(argv[1], "forms"))
        return forms(argc, argv);
    if (!strcmp(argv[1], "ops"))
        return ops();
    return run(argc, argv);
}
