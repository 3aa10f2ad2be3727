/* SPDX-License-Identifier: Apache-2.0
 * The program as a user meets it: what it prints, what it exits with, and what it makes of decode
 * steps that lie. The program is the `gqa` beside this test. */
#include "ref.h"
#include "safetensors.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT = 1 << 16 };

static int passed, failed, skipped;
static char folder[] = "/tmp/gqa-cli-XXXXXX";
static char program[512], input[64], output[64];
static char out_text[TEXT], err_text[TEXT];

static void check(bool good, const char *what, const char *detail) {
    good ? passed++ : failed++;
    if (!good)
        printf("FAIL %s: %s\n", what, detail);
}

static void slurp(const char *name, char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    text[f ? fread(text, 1, TEXT - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    unlink(path);
}

/* Run the program; the exit status, or -1 if it ended by a signal. Fills out_text and err_text. */
static int run(const char *arguments) {
    char line[2048];
    snprintf(line, sizeof line, "%s >%s/out 2>%s/err </dev/null %s", program, folder, folder,
             arguments);
    const int status = system(line);
    slurp("out", out_text);
    slurp("err", err_text);
    return WIFEXITED(status) && WEXITSTATUS(status) < 126 ? WEXITSTATUS(status) : -1;
}

/* --- Command lines -------------------------------------------------------------------------- */

static const struct {
    const char *arguments;
    int code;
    const char *out, *err; /* parts; NULL: must be empty */
} lines[] = {
    {"", 2, NULL, "usage: gqa COMMAND"},
    {"--help", 0, "usage: gqa COMMAND", NULL},
    {"--version", 0, "gqa 0.", NULL},
    {"inof", 2, NULL, "did you mean info?"},
    {"benhc", 2, NULL, "did you mean bench?"},
    {"xyzzy", 2, NULL, "`gqa --help` lists them"},
    {"info --help", 0, "Example:", NULL},
    {"plan --help", 0, "Example:", NULL},
    {"decode --help", 0, "block_table", NULL},
    {"verify --help", 0, "Example:", NULL},
    {"bench --help", 0, "Exit status:", NULL},
    {"trace --help", 0, "Perfetto", NULL},
    {"plan -h", 0, "--kv-heads N", NULL},

    {"plan --kv-hedas 3", 2, NULL, "there is no option --kv-hedas; did you mean --kv-heads?"},
    {"plan --qheads 3", 2, NULL, "did you mean --q-heads?"},
    {"plan --kv_len 3", 2, NULL, "did you mean --kv-len?"},
    {"plan --frobnicate", 2, NULL, "`gqa plan --help` lists them"},
    {"plan -q", 2, NULL, "there is no option"},
    {"plan --type bf61", 2, NULL, "did you mean bf16?"},
    {"plan --layout ndh", 2, NULL, "expected hnd|nhd; did you mean nhd?"},
    {"plan --batch", 2, NULL, "--batch takes a value"},
    {"plan --batch two", 2, NULL, "--batch is \"two\", expected a whole number"},
    {"plan --batch 1.5", 2, NULL, "expected a whole number"},
    {"plan --batch 99999999999999999999", 2, NULL, "expected a whole number"},
    {"plan --head-dim 4294967424", 2, NULL, "expected a whole number"},
    {"plan --scale inf", 2, NULL, "expected a finite number"},
    {"plan --sinks=1", 2, NULL, "--sinks takes no value"},
    {"plan --kernel ''", 2, NULL, "--kernel is empty"},
    {"plan 7", 2, NULL, "operand too many"},

    {"plan", 0, "workspace", NULL},
    {"plan --device plan:cpu --batch 4 --kv-len 32768", 0, "reason", NULL},
    {"plan --device=plan:cpu --batch=0", 0, "kernel", NULL},
    {"plan --device plan:sm_100a --batch 64 --q-heads 64 --kv-heads 8 --kv-len 8192", 0,
     "bound: DRAM (not measured", NULL},
    {"plan --batch -4", 1, NULL, "batch is -4, expected 0 to"},
    {"plan --q-heads 7 --kv-heads 2", 1, NULL, "expected a multiple of kv_heads"},
    {"plan --head-dim 4096", 1, NULL, "GQA_ERR_SHAPE"},
    {"plan --splits 5000", 1, NULL, "GQA_ERR_SHAPE"},
    {"plan --splits 0", 1, NULL, "splits is 0, expected 1 to"},
    {"plan --splits 2 --split-tokens 64", 1, NULL, "as split_mode is not invariant"},
    {"plan --page 16 --paging contiguous", 1, NULL, "as paging is contiguous"},
    {"plan --kv-len 2147483648", 1, NULL, "GQA_ERR_SHAPE"},
    {"plan --num-pages 9 --page -3", 1, NULL, "GQA_ERR_SHAPE"},
    {"plan --device gpu", 1, NULL, "no device is named \"gpu\""},
    {"plan --kernel nonsense", 1, NULL, "nonsense"},
    {"plan --threads -1", 1, NULL, "threads is -1"},

    {"info", 0, "cpu", NULL},
    {"info --device plan:cpu --why --head-dim 64 --kv-len 100", 0, "usable", NULL},
    {"info --device nonsense", 3, "no device is named", NULL},
    {"info >/dev/full", 1, NULL, "could not be written"},

    {"verify --kernel nonsense", 2, NULL, "has no kernel \"nonsense\""},
    {"verify --case nonsense", 2, NULL, "no case is named"},
    {"verify --device plan:cpu", 3, NULL, "planning only"},
    {"verify --list --case random/3 --format csv", 0, "case,level,subject", NULL},
    {"verify --kernel c --case random/3", 0, "1 passed, 0 failed, 0 skipped", NULL},
    {"verify --kernel c --case random/3000 --seed 4", 0, "1 passed, 0 failed, 0 skipped", NULL},

    {"bench --batch 0", 1, NULL, "nothing to time"},
    {"bench --kv-len 32 --rounds 1 --round-ms 1 --pool-mib 1 --clock cpu", 0, "of_floor", NULL},
    {"bench --set cup", 2, NULL, "did you mean cpu?"},
    {"bench --rounds 0", 2, NULL, "--rounds is \"0\""},
    {"bench --device plan:cpu", 3, NULL, "planning only"},
    {"trace", 3, NULL, "GPU kernels record"},
    {"trace --cta -1", 2, NULL, "--cta is \"-1\""},

    {"decode", 2, NULL, "two files are needed"},
    {"decode a b c", 2, NULL, "operand too many"},
    {"decode /nowhere/in /nowhere/out", 1, NULL, "/nowhere/in: No such file"},
    {"decode /etc/passwd /nowhere/out", 1, NULL, "/etc/passwd: a header of"},
    {"decode /dev/zero /nowhere/out", 1, NULL, "not a regular file"},
    {"decode --max-memory-mib 0 a b", 2, NULL, "--max-memory-mib is \"0\""},
};

static bool contains(const char *text, const char *part) {
    return part ? strstr(text, part) != NULL : text[0] == 0;
}

static void test_lines(void) {
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char what[128], detail[512];
        const int code = run(lines[i].arguments);
        snprintf(what, sizeof what, "gqa %s", lines[i].arguments);
        snprintf(detail, sizeof detail, "exit %d, expected %d; out \"%.150s\", err \"%.200s\"",
                 code, lines[i].code, out_text, err_text);
        check(code == lines[i].code && contains(out_text, lines[i].out) &&
                  contains(err_text, lines[i].err),
              what, detail);
    }
}

/* --- Output that programs read -------------------------------------------------------------- */

static double number_of(const json_t *row, const char *key) {
    const json_t *n = json_object_get(row, key);
    return json_is_number(n) ? json_number_value(n) : NAN;
}

static void test_bench_json(void) {
    json_error_t why;
    const int code = run("bench --q-heads 4 --kv-heads 2 --head-dim 64 --kv-len 64 --page 16 "
                         "--threads 1 --rounds 3 --round-ms 1 --pool-mib 1 --format json");
    json_t *rows = json_loads(out_text, 0, &why);
    const json_t *row = json_array_get(rows, 0);
    check(code == 0 && json_array_size(rows) == 1, "gqa bench: JSON with one row", err_text);
    check(number_of(row, "median_us") > 0 &&
              number_of(row, "min_us") <= number_of(row, "median_us") &&
              number_of(row, "median_us") <= number_of(row, "max_us") &&
              number_of(row, "of_floor") > 0 && number_of(row, "gb_s") > 0 &&
              number_of(row, "threads") == 1,
          "gqa bench: the row's numbers", out_text);
    const json_t *shape = json_object_get(row, "shape");
    check(json_is_string(shape) &&
              !strcmp(json_string_value(shape), "1 4/2/64 L64 bf16 hnd page 16"),
          "gqa bench: the row's shape", out_text);
    json_decref(rows);
}

static void test_plan_formats(void) {
    json_error_t why;
    run("plan --format json");
    json_t *rows = json_loads(out_text, 0, &why);
    check(json_array_size(rows) == 1 && number_of(json_array_get(rows, 0), "splits") >= 1,
          "gqa plan: JSON", out_text);
    json_decref(rows);
    run("plan --format csv");
    int newlines = 0;
    for (const char *c = out_text; *c; c++)
        newlines += *c == '\n';
    check(newlines == 2 && !strncmp(out_text, "device,kernel,splits,", 21), "gqa plan: CSV",
          out_text);
    run("info --format json");
    json_t *info = json_loads(out_text, 0, &why);
    check(json_array_size(json_object_get(info, "devices")) > 0 &&
              json_array_size(json_object_get(info, "kernels")) > 0,
          "gqa info: JSON", out_text);
    json_decref(info);
}

/* --- Steps ---------------------------------------------------------------------------------- */

enum { MAX_TENSORS = 14, MAX_WORDS = 8, MAX_FLOATS = 4096 };

/* A tensor of a step: whole numbers where it has some, floats otherwise. */
struct piece {
    const char *name;
    enum st_type type;
    int dims;
    int64_t shape[5];
    int64_t words[MAX_WORDS];
};

static const struct piece contiguous[] = {
    {"q", ST_F32, 4, {2, 2, 4, 8}, {0}},
    {"k", ST_F32, 4, {3, 2, 5, 8}, {0}},
    {"v", ST_F32, 4, {3, 2, 5, 16}, {0}},
    {"kv_lens", ST_I32, 1, {2}, {5, 3}},
    {"batch_index", ST_I64, 1, {2}, {2, 0}},
    {"sinks", ST_F32, 1, {4}, {0}},
    {"k_scale", ST_F32, 1, {1}, {0}},
    {"v_scale", ST_F32, 2, {2, 2}, {0}},
    {NULL, 0, 0, {0}, {0}},
};

static const struct piece table[] = {
    {"q", ST_F32, 3, {2, 4, 8}, {0}},
    {"k", ST_F32, 4, {5, 2, 2, 8}, {0}},
    {"v", ST_F32, 4, {5, 2, 2, 8}, {0}},
    {"kv_lens", ST_I64, 1, {2}, {4, 3}},
    {"block_table", ST_I64, 2, {2, 2}, {4, 1, 0, 3}},
    {NULL, 0, 0, {0}, {0}},
};

static const struct piece csr[] = {
    {"q", ST_F32, 3, {4, 2, 8}, {0}},
    {"k", ST_F32, 4, {5, 1, 2, 8}, {0}},
    {"v", ST_F32, 4, {5, 1, 2, 8}, {0}},
    {"cu_seqlens_q", ST_I32, 1, {4}, {0, 1, 1, 4}},
    {"page_indptr", ST_I32, 1, {4}, {0, 2, 2, 4}},
    {"page_indices", ST_I32, 1, {4}, {4, 1, 0, 2}},
    {"last_page_len", ST_I32, 1, {3}, {1, 0, 2}},
    {NULL, 0, 0, {0}, {0}},
};

/* Write the pieces, `change` in the place of the one of its name (or added; type ST_TYPES: left
 * out), to the input file. `data` keeps what was written. */
static void write_step(const struct piece *pieces, const struct piece *change,
                       char data[MAX_TENSORS][MAX_FLOATS * 4]) {
    struct st_output out[MAX_TENSORS];
    struct gqa_error err;
    int count = 0;
    bool is_changed = change == NULL;
    for (const struct piece *p = pieces; p->name || !is_changed; p++) {
        const bool is_end = p->name == NULL,
                   is_it = change && p->name && !strcmp(p->name, change->name);
        const struct piece *t = is_it || is_end ? change : p;
        is_changed |= is_it || is_end;
        if (t->type == ST_TYPES) {
            if (is_end)
                break;
            continue;
        }
        size_t n = 1;
        for (int d = 0; d < t->dims; d++)
            n *= (size_t)t->shape[d];
        memset(data[count], 0, MAX_FLOATS * 4);
        for (size_t i = 0; i < n && i < MAX_FLOATS; i++)
            if (t->type == ST_F32)
                ((float *)data[count])[i] = sinf((float)(i * 7 + (size_t)count)) + 0.25f;
            else if (t->type == ST_I64)
                ((int64_t *)data[count])[i] = i < MAX_WORDS ? t->words[i] : 0;
            else if (t->type == ST_I32)
                ((int32_t *)data[count])[i] = i < MAX_WORDS ? (int32_t)t->words[i] : 0;
        out[count] = (struct st_output){t->name, t->type, t->dims, {0}, data[count]};
        memcpy(out[count].shape, t->shape, sizeof t->shape);
        count++;
        if (is_end)
            break;
    }
    if (st_write(input, out, count, &err))
        check(false, "the test's own file", err.message);
}

static const struct {
    const char *what;
    const struct piece *base;
    struct piece change;
    const char *refusal;
} lies[] = {
    {"no q", contiguous, {"q", ST_TYPES, 0, {0}, {0}}, "no tensor \"q\""},
    {"no v", table, {"v", ST_TYPES, 0, {0}, {0}}, "no tensor \"v\""},
    {"misspelt tensor", contiguous, {"kv_len", ST_I32, 1, {2}, {1, 1}}, "is it kv_lens?"},
    {"unknown tensor", contiguous, {"bias", ST_F32, 1, {2}, {0}}, "has no meaning"},
    {"q of whole numbers", contiguous, {"q", ST_I32, 4, {2, 2, 4, 8}, {0}}, "q is I32"},
    {"q in fp8", contiguous, {"q", ST_E4M3, 4, {2, 2, 4, 8}, {0}}, "q_type"},
    {"v of another type", contiguous, {"v", ST_BF16, 4, {3, 2, 5, 16}, {0}}, "one type"},
    {"lengths as floats", contiguous, {"kv_lens", ST_F32, 1, {2}, {0}}, "kv_lens is F32"},
    {"sinks as bf16", contiguous, {"sinks", ST_BF16, 1, {4}, {0}}, "sinks is BF16"},
    {"q of two dimensions", contiguous, {"q", ST_F32, 2, {2, 8}, {0}}, "q is [2][8]"},
    {"q as a number", contiguous, {"q", ST_F32, 0, {0}, {0}}, "single number"},
    {"k of three dimensions", contiguous, {"k", ST_F32, 3, {3, 2, 8}, {0}}, "4 dimensions"},
    {"k with another head_dim", contiguous, {"k", ST_F32, 4, {3, 2, 5, 16}, {0}}, "head_dim"},
    {"v with other heads", contiguous, {"v", ST_F32, 4, {3, 1, 5, 16}, {0}}, "k's shape"},
    {"v without elements", contiguous, {"v", ST_F32, 4, {3, 2, 5, 0}, {0}}, "at least one element"},
    {"three heads over two", table, {"q", ST_F32, 3, {2, 3, 8}, {0}}, "multiple of kv_heads"},
    {"seventeen query tokens", contiguous, {"q", ST_F32, 4, {2, 17, 4, 8}, {0}}, "q_tokens is 17"},
    {"lengths for one", contiguous, {"kv_lens", ST_I32, 1, {1}, {5}}, "kv_lens is [1]"},
    {"lengths in two dimensions", contiguous, {"kv_lens", ST_I32, 2, {2, 1}, {5, 5}}, "[batch]"},
    {"length over the capacity",
     contiguous,
     {"kv_lens", ST_I32, 1, {2}, {5, 6}},
     "kv_lens[1] is 6, expected 0 to 5"},
    {"negative length", contiguous, {"kv_lens", ST_I32, 1, {2}, {-1, 5}}, "kv_lens[0] is -1"},
    {"length over 32 bits",
     contiguous,
     {"kv_lens", ST_I64, 1, {2}, {4294967297, 5}},
     "no 32-bit number"},
    {"index past the cache",
     contiguous,
     {"batch_index", ST_I64, 1, {2}, {0, 3}},
     "batch_index[1] is 3, expected 0 to 2"},
    {"negative index",
     contiguous,
     {"batch_index", ST_I64, 1, {2}, {-1, 0}},
     "batch_index[0] is -1"},
    {"a cache too small", contiguous, {"q", ST_F32, 3, {9, 4, 8}, {0}}, "[batch]"},
    {"fewer entries than sequences",
     table,
     {"block_table", ST_I64, 2, {1, 2}, {0, 1}},
     "without batch_index"},
    {"sinks for one head", contiguous, {"sinks", ST_F32, 1, {1}, {0}}, "[q_heads]"},
    {"scale for three heads", contiguous, {"k_scale", ST_F32, 1, {3}, {0}}, "k_scale is [3]"},
    {"page past the pool",
     table,
     {"block_table", ST_I64, 2, {2, 2}, {4, 5, 0, 3}},
     "block_table[1] is 5, expected 0 to 4"},
    {"negative page", table, {"block_table", ST_I64, 2, {2, 2}, {4, 1, -1, 3}}, "block_table[2]"},
    {"table of one dimension",
     table,
     {"block_table", ST_I64, 1, {4}, {4, 1, 0, 3}},
     "[kv_batch][pages]"},
    {"pages of no token", table, {"block_table", ST_I64, 2, {2, 0}, {0}}, "kv_lens[0] is 4"},
    {"a table and offsets", table, {"page_indptr", ST_I32, 1, {3}, {0, 1, 2}}, "both block_table"},
    {"indices alone", table, {"page_indices", ST_I32, 1, {3}, {0, 1, 2}}, "belong together"},
    {"last pages alone", contiguous, {"last_page_len", ST_I32, 1, {2}, {1, 1}}, "belong together"},
    {"offsets without indices", csr, {"page_indices", ST_TYPES, 0, {0}, {0}}, "belong together"},
    {"offsets without lengths",
     csr,
     {"last_page_len", ST_TYPES, 0, {0}, {0}},
     "needs last_page_len"},
    {"offsets not from 0",
     csr,
     {"page_indptr", ST_I32, 1, {4}, {1, 2, 2, 4}},
     "page_indptr[0] is 1"},
    {"descending offsets",
     csr,
     {"page_indptr", ST_I32, 1, {4}, {0, 2, 1, 4}},
     "page_indptr[2] is 1"},
    {"offsets past the indices",
     csr,
     {"page_indptr", ST_I32, 1, {4}, {0, 2, 2, 5}},
     "page_indptr[3] is 5"},
    {"index past the pool", csr, {"page_indices", ST_I32, 1, {4}, {4, 1, 0, 5}}, "page_indices[3]"},
    {"last page of three",
     csr,
     {"last_page_len", ST_I32, 1, {3}, {3, 0, 2}},
     "last_page_len[0] is 3"},
    {"last page of none",
     csr,
     {"last_page_len", ST_I32, 1, {3}, {0, 0, 2}},
     "last_page_len[0] is 0"},
    {"last page where there is none",
     csr,
     {"last_page_len", ST_I32, 1, {3}, {1, 1, 2}},
     "last_page_len[1] is 1"},
    {"lengths past the pages", csr, {"kv_lens", ST_I32, 1, {3}, {5, 0, 2}}, "kv_lens[0] is 5"},
    {"queries descending", csr, {"cu_seqlens_q", ST_I32, 1, {4}, {0, 2, 1, 4}}, "cu_seqlens_q[2]"},
    {"queries past the rows",
     csr,
     {"cu_seqlens_q", ST_I32, 1, {4}, {0, 1, 1, 5}},
     "cu_seqlens_q[3]"},
    {"queries not from 0", csr, {"cu_seqlens_q", ST_I32, 1, {4}, {1, 1, 1, 4}}, "cu_seqlens_q[0]"},
    {"queries of nothing", csr, {"cu_seqlens_q", ST_I32, 1, {0}, {0}}, "[batch + 1]"},
};

static char step_data[MAX_TENSORS][MAX_FLOATS * 4];

static int files_in_folder(void) {
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int decode(const char *options) {
    char arguments[512];
    snprintf(arguments, sizeof arguments, "decode %s %s %s", options, input, output);
    return run(arguments);
}

static void test_lies(void) {
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char detail[512];
        write_step(lies[i].base, &lies[i].change, step_data);
        const int code = decode("");
        snprintf(detail, sizeof detail, "exit %d, \"%.300s\"", code, err_text);
        check(code == 1 && out_text[0] == 0 && contains(err_text, lies[i].refusal), lies[i].what,
              detail);
        check(files_in_folder() == 1, "a refused step leaves no file", lies[i].what);
    }
    write_step(contiguous, NULL, step_data);
    char arguments[512];
    snprintf(arguments, sizeof arguments, "decode %s %s", input, input);
    check(run(arguments) == 2 && contains(err_text, "input and output"), "in and out are one file",
          err_text);
    check(decode("--device plan:cpu") == 3, "decoding without a device", err_text);
    check(decode("--kernel nonsense") == 1 && files_in_folder() == 1, "an unknown kernel",
          err_text);
    snprintf(arguments, sizeof arguments, "decode %s /nowhere/out", input);
    check(run(arguments) == 1 && contains(err_text, "cannot be written"),
          "no folder for the output", err_text);
    snprintf(arguments, sizeof arguments, "decode %s %s", input, folder);
    check(run(arguments) == 1 && contains(err_text, "not a regular file"), "the output is a folder",
          err_text);
}

/* --- Right answers -------------------------------------------------------------------------- */

static int position(const struct piece *pieces, const char *name) {
    for (int i = 0; pieces[i].name; i++)
        if (!strcmp(pieces[i].name, name))
            return i;
    return -1;
}

/* The step's whole numbers as int32_t, NULL if it has none of that name. */
static const int32_t *words_of(const struct piece *pieces, const char *name) {
    static int32_t words[MAX_TENSORS][MAX_WORDS];
    const int at = position(pieces, name);
    for (int i = 0; at >= 0 && i < MAX_WORDS; i++)
        words[at][i] = (int32_t)pieces[at].words[i];
    return at >= 0 ? words[at] : NULL;
}

static const void *data_of(const struct piece *pieces, const char *name) {
    const int at = position(pieces, name);
    return at >= 0 ? step_data[at] : NULL;
}

/* The largest difference between a tensor of the output file and what it should be. */
static double difference(const char *name, const double *expected, size_t n) {
    static float got[MAX_FLOATS];
    struct st_file file;
    struct gqa_error err;
    double worst = 0;
    if (st_open(output, &file, &err))
        return INFINITY;
    const struct st_tensor *t = st_find(&file, name);
    if (!t || t->type != ST_F32 || t->bytes != n * sizeof *got || st_read(&file, t, got, &err))
        worst = INFINITY;
    for (size_t i = 0; isfinite(worst) && i < n; i++) {
        if (isinf(expected[i]) ? (double)got[i] != expected[i]
                               : !(fabs(got[i] - expected[i]) < INFINITY))
            worst = INFINITY;
        else if (!isinf(expected[i]) && fabs(got[i] - expected[i]) > worst)
            worst = fabs(got[i] - expected[i]);
    }
    st_close(&file);
    return worst;
}

/* p's shape must agree with the pieces; strides are packed here. */
static void test_answer(const char *what, const struct piece *pieces, struct gqa_problem p,
                        const char *options) {
    struct gqa_tensors t = gqa_tensors_init();
    struct ref ref;
    char detail[256];
    write_step(pieces, NULL, step_data);
    gqa_problem_pack(&p, GQA_HND);
    t.q = data_of(pieces, "q");
    t.k = data_of(pieces, "k");
    t.v = data_of(pieces, "v");
    t.sinks = data_of(pieces, "sinks");
    t.k_scale = data_of(pieces, "k_scale");
    t.v_scale = data_of(pieces, "v_scale");
    t.kv_lens = words_of(pieces, "kv_lens");
    t.batch_index = words_of(pieces, "batch_index");
    t.block_table = words_of(pieces, "block_table");
    t.cu_seqlens_q = words_of(pieces, "cu_seqlens_q");
    t.page_indptr = words_of(pieces, "page_indptr");
    t.page_indices = words_of(pieces, "page_indices");
    t.last_page_len = words_of(pieces, "last_page_len");
    const int code = decode(options);
    if (code || !ref_decode(&p, &t, &ref)) {
        check(false, what, err_text);
        return;
    }
    const size_t rows = (size_t)(ref.rows * ref.q_heads);
    const double o = difference("o", ref.o, rows * (size_t)ref.head_dim_v);
    const double lse = difference("lse", ref.lse, rows);
    snprintf(detail, sizeof detail, "o is off by %g, lse by %g", o, lse);
    check(o < 1e-5 && lse < 1e-5, what, detail);
    ref_free(&ref);
    unlink(output);
}

static void test_answers(void) {
    struct gqa_problem p = gqa_problem_init();
    p.batch = 2;
    p.q_tokens = 2;
    p.q_heads = 4;
    p.kv_heads = 2;
    p.head_dim = 8;
    p.head_dim_v = 16;
    p.kv_len = 5;
    p.kv_batch = 3;
    p.has_sinks = p.has_lse = 1;
    p.k_scales = GQA_SCALE_TENSOR;
    p.v_scales = GQA_SCALE_BATCH_HEAD;
    p.precision = GQA_PRECISION_EXACT;
    test_answer("decode: contiguous, sinks, scales", contiguous, p, "--precision exact");
    p.window_left = 1;
    p.softcap = 2;
    p.lse_base = GQA_BASE_2;
    test_answer("decode: window, softcap, base 2", contiguous, p,
                "--precision exact --window-left 1 --softcap 2 --lse-base 2 --splits 2");

    p = gqa_problem_init();
    p.batch = 2;
    p.q_heads = 4;
    p.kv_heads = 2;
    p.head_dim = p.head_dim_v = 8;
    p.kv_len = 4;
    p.page_size = 2;
    p.num_pages = 5;
    p.paging = GQA_PAGED_TABLE;
    p.has_lse = 1;
    p.scale = 0.5f;
    test_answer("decode: block table in 64 bits", table, p, "--precision exact --scale 0.5");

    p.batch = 3;
    p.q_heads = 2;
    p.kv_heads = 1;
    p.q_tokens = 3;
    p.q_ragged = 1;
    p.q_total = 4;
    p.paging = GQA_PAGED_CSR;
    p.scale = 0;
    p.causal = 0;
    test_answer("decode: CSR, ragged, an empty sequence", csr, p, "--precision exact --no-causal");
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    (void)argc;
    snprintf(program, sizeof program, "%.*s/gqa", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    if (!mkdtemp(folder))
        return perror(folder), 1;
    snprintf(input, sizeof input, "%s/in", folder);
    snprintf(output, sizeof output, "%s/result", folder);
    test_lines();
    test_bench_json();
    test_plan_formats();
    test_lies();
    test_answers();
    unlink(input);
    rmdir(folder);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
