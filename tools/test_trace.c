/* SPDX-License-Identifier: Apache-2.0
 * The critical path and the roles of a trace made by hand; what the writers write is JSON, XML and
 * a page that say the same as the trace. */
#include "../tests/test.h"
#include "trace.h"

#include <jansson.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* A load warp and a multiply warp. Tile 1's copy is the late one; the wait for tile 0 is only as
 * long as asking takes, and the loader's wait for a slot ends with an earlier tile's product. */
static struct gqa_trace_span spans[] = {
    {"load_K", "", "", "decode", "load", GQA_TRACE_LOAD, 0, 5, 9, 0, 0, 50},
    {"wait_slot", "", "VP_issue KQ_issue", "decode", "load", GQA_TRACE_WAIT, 0, 5, 9, 1, 50, 500},
    {"load_K", "", "", "decode", "load", GQA_TRACE_LOAD, 0, 5, 9, 1, 500, 550},
    {"wait_exit", "", "", "decode", "load", GQA_TRACE_WAIT, 0, 5, 9, 1, 550, 1700},
    {"wait_K", "", "load_K", "decode", "multiply", GQA_TRACE_WAIT, 0, 5, 8, 0, 100, 400},
    {"KQ_issue", "", "", "decode", "multiply", GQA_TRACE_MULTIPLY, 0, 5, 8, 0, 400, 470},
    {"wait_K", "", "load_K", "decode", "multiply", GQA_TRACE_WAIT, 0, 5, 8, 1, 470, 1500},
    {"KQ_issue", "", "", "decode", "multiply", GQA_TRACE_MULTIPLY, 0, 5, 8, 1, 1500, 1600},
    {"other", "\"<&", "", "decode", "multiply", GQA_TRACE_OTHER, 0, 5, 8, 1, 1600, 1700},
};
enum { SPANS = sizeof spans / sizeof *spans };
static struct trace_lane lanes[] = {{spans, 4, true}, {spans + 4, 5, true}};

static struct trace by_hand(void) {
    /* Names are compared by address, as gqa_trace_read gives them. */
    for (int i = 0; i < SPANS; i++)
        for (int j = 0; j < i; j++) {
            if (!strcmp(spans[i].name, spans[j].name))
                spans[i].name = spans[j].name;
            if (!strcmp(spans[i].role, spans[j].role))
                spans[i].role = spans[j].role;
            spans[i].kernel = spans[0].kernel;
        }
    struct trace t = {.spans = spans, .lanes = lanes, .lane_count = 2, .end = 1700};
    t.info.spans = SPANS;
    t.decode_ctas = 1;
    t.kernel = "a \"kernel\" <&";
    t.device = "device";
    snprintf(t.shape, sizeof t.shape, "shape");
    return t;
}

static void check_step(const struct trace_step *s, const char *name, int tile, double begin,
                       double end, bool in_flight) {
    CHECK(!strcmp(s->span->name, name) && s->span->tile == tile);
    CHECK_NEAR(s->begin, begin, 1e-9);
    CHECK_NEAR(s->end, end, 1e-9);
    CHECK_INT(s->in_flight, in_flight);
}

TEST(the_path_follows_what_ended_each_wait) {
    const struct trace t = by_hand();
    struct trace_path p = trace_path_of(&t, 0);
    CHECK_INT(p.count, 7);
    if (p.count == 7) {
        check_step(&p.steps[0], "KQ_issue", 1, 1500, 1600, false);
        check_step(&p.steps[1], "load_K", 1, 550, 1500, true);
        check_step(&p.steps[2], "load_K", 1, 500, 550, false);
        check_step(&p.steps[3], "KQ_issue", 0, 470, 500, true);
        check_step(&p.steps[4], "KQ_issue", 0, 400, 470, false);
        check_step(&p.steps[5], "load_K", 0, 50, 400, true);
        check_step(&p.steps[6], "load_K", 0, 0, 50, false);
    }
    free(p.steps);
}

TEST(a_wait_that_was_over_when_it_began_is_the_warps_own) {
    const struct trace t = by_hand();
    spans[4].begin = 370; /* 30 ns: as long as asking takes */
    struct trace_path p = trace_path_of(&t, 0);
    CHECK(p.count == 6);
    if (p.count == 6)
        check_step(&p.steps[5], "wait_K", 0, 370, 400, false);
    spans[4].begin = 100;
    free(p.steps);
}

TEST(roles_add_up) {
    const struct trace t = by_hand();
    struct trace_path p = trace_path_of(&t, 0);
    struct trace_role r[4];
    CHECK_INT(trace_roles(&t, 0, &p, r, 4), 2);
    CHECK_NEAR(r[0].busy, 100, 1e-9);
    CHECK_NEAR(r[0].waiting, 1600, 1e-9);
    CHECK_NEAR(r[0].on_path, 100, 1e-9);
    CHECK(!strcmp(r[0].waits[0].name, "wait_exit") && !strcmp(r[0].waits[1].name, "wait_slot"));
    CHECK_NEAR(r[1].on_path, 170, 1e-9);
    CHECK_NEAR(r[1].waits[0].ns, 1330, 1e-9);
    free(p.steps);
}

/* --- Writers --- */

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    const size_t n = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f)
        fclose(f);
    CHECK(n > 0);
    unlink(path);
    return text;
}

/* What the Trace Event Format asks of an event: its phase; X: name, pid, tid, ts and dur >= 0, and
 * on one thread no two that overlap without one holding the other. What Perfetto asks besides:
 * whole nanoseconds, or it rounds two neighbours into each other and drops one; no thread 0. */
TEST(chrome_json_is_of_the_trace_event_format) {
    const struct trace t = by_hand();
    char path[] = "/tmp/test_trace.json.XXXXXX";
    close(mkstemp(path));
    CHECK_INT(trace_write_chrome(&t, path), 0);
    char *text = read_file(path);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error), *event;
    CHECK(root && json_is_array(json_object_get(root, "traceEvents")));
    CHECK(!strcmp(json_string_value(json_object_get(json_object_get(root, "otherData"), "kernel")),
                  t.kernel));
    size_t i, complete = 0, named = 0;
    double last[16] = {0};
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        const json_t *pid = json_object_get(event, "pid"), *tid = json_object_get(event, "tid");
        CHECK(phase && json_is_integer(pid) && json_is_integer(tid));
        CHECK(json_integer_value(pid) > 0 && json_integer_value(tid) > 0);
        CHECK(json_is_string(json_object_get(event, "name")));
        if (!strcmp(phase, "M")) {
            named += json_is_object(json_object_get(event, "args"));
            continue;
        }
        const double ts = json_number_value(json_object_get(event, "ts")),
                     dur = json_number_value(json_object_get(event, "dur"));
        double *end = &last[json_integer_value(tid) % 16];
        CHECK(fabs(remainder(1000 * ts, 1)) < 1e-6 && fabs(remainder(1000 * dur, 1)) < 1e-6);
        CHECK(!strcmp(phase, "X") && ts >= *end - 1e-9 && dur >= 0);
        *end = ts + dur;
        complete++;
    }
    CHECK_INT(complete, SPANS);
    CHECK_INT(named, 6);
    json_decref(root);
    free(text);
}

TEST(the_page_holds_the_trace_and_needs_no_network) {
    const struct trace t = by_hand();
    char path[] = "/tmp/test_trace.html.XXXXXX";
    close(mkstemp(path));
    CHECK_INT(trace_write_html(&t, 0, path), 0);
    char *text = read_file(path), *data = strstr(text, "const T = ");
    CHECK(data && !strstr(text, "http://") && !strstr(text, "https://") && !strstr(text, "src="));
    json_error_t error;
    json_t *root = data ? json_loads(data + 10, JSON_DISABLE_EOF_CHECK, &error) : NULL;
    CHECK(root && json_array_size(json_object_get(root, "lanes")) == 2);
    const json_t *lane = json_array_get(json_object_get(root, "lanes"), 1);
    CHECK_INT(json_array_size(json_object_get(lane, "e")), 5 * 4);
    CHECK_INT(json_array_size(json_object_get(json_object_get(root, "paths"), "0")), 4 * 3);
    json_decref(root);
    free(text);
}

/* Tags that are opened are closed, and text is escaped. */
TEST(the_picture_is_xml) {
    const struct trace t = by_hand();
    const struct trace_view view = {.cta = 0, .from = 0, .to = 1700};
    char path[] = "/tmp/test_trace.svg.XXXXXX";
    close(mkstemp(path));
    CHECK_INT(trace_write_svg(&t, &view, path), 0);
    char *text = read_file(path);
    int depth = 0, rects = 0;
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>'), *other = strchr(at + 1, '<');
        CHECK(end && (!other || end < other));
        rects += !strncmp(at, "<rect", 5);
        depth += at[1] == '/' ? -1 : end && end[-1] == '/' ? 0 : 1;
        CHECK(depth >= 0);
    }
    CHECK_INT(depth, 0);
    CHECK(rects > 8 && !strstr(text, "<&") && strstr(text, "KQ_issue"));
    free(text);
}

/* --- The command --- */

/* A step in the emulator, written in all three forms; the spans of the JSON are the kernel's. */
TEST(the_command_traces_a_blackwell_step) {
    char beside[4096], folder[] = "/tmp/gqa-trace-XXXXXX", line[8192], json[64], html[64], svg[64];
    const ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - 1);
    CHECK(n > 0 && mkdtemp(folder));
    beside[n > 0 ? n : 0] = 0;
    *strrchr(beside, '/') = 0;
    snprintf(json, sizeof json, "%s/t.json", folder);
    snprintf(html, sizeof html, "%s/t.html", folder);
    snprintf(svg, sizeof svg, "%s/t.svg", folder);
    snprintf(line, sizeof line,
             "%s/gqa trace --device emu:sm_100a --q-heads 8 --kv-heads 1 --kv-len 700 --splits 2 "
             "--reduction kernel --buffer-mib 1 --out %s >/dev/null 2>%s",
             beside, json, svg);
    const int status = system(line);
    if (WEXITSTATUS(status) == 3) {
        char *why = read_file(svg);
        SKIP("%s", why);
        free(why);
        rmdir(folder);
        return;
    }
    CHECK_INT(status, 0);
    char *page = read_file(html), *picture = read_file(svg);
    json_error_t error;
    json_t *root = json_load_file(json, 0, &error), *event;
    size_t i;
    int issues = 0, merges = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        issues += name && !strcmp(name, "KQ_issue");
        merges += name && !strcmp(name, "weighted_merge");
    }
    CHECK_INT(issues, 2 * 3 * 2); /* splits x tiles x stages */
    CHECK(merges > 0 && strstr(page, "KQ_issue") && strstr(picture, "not measured"));
    CHECK(!strcmp(json_string_value(json_object_get(json_object_get(root, "otherData"), "clock")),
                  "modelled"));
    json_decref(root);
    free(page);
    free(picture);
    unlink(json);
    rmdir(folder);
}

TEST_MAIN
