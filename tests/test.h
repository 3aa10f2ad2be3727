/* SPDX-License-Identifier: Apache-2.0
 * The whole test framework. A test is TEST(name) { CHECK(...); }; TEST_MAIN ends the file. An
 * argument that is no option runs only the tests whose name contains it. */
#ifndef TEST_H
#define TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct test {
        const char *name;
        void (*run)(void);
    } tests[128];
    int count, passed, failed, skipped;
    bool is_bad, is_skip, is_counted, all;
} test_state;

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    __attribute__((constructor)) static void test_add_##name(void) {                               \
        test_state.tests[test_state.count++] = (struct test){#name, test_##name};                  \
    }                                                                                              \
    static void test_##name(void)

/* Say what went wrong; the test goes on. */
#define FAIL(...)                                                                                  \
    (test_state.is_bad = true, printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__),         \
     putchar('\n'))
#define CHECK(condition) ((condition) ? (void)0 : (void)FAIL("not true: %s", #condition))
#define CHECK_INT(got, expected)                                                                   \
    test_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(expected))
#define CHECK_NEAR(got, expected, bound)                                                           \
    test_near(__FILE__, __LINE__, #got, (double)(got), (double)(expected), (double)(bound))
/* This test cannot run here; it still has to return. */
#define SKIP(...) (test_state.is_skip = true, printf("skip: "), printf(__VA_ARGS__), putchar('\n'))

__attribute__((unused)) static void test_int(const char *file, int line, const char *what,
                                             long long got, long long expected) {
    if (got != expected)
        printf("%s:%d: %s is %lld, expected %lld\n", file, line, what, got, expected);
    test_state.is_bad |= got != expected;
}

__attribute__((unused)) static void test_near(const char *file, int line, const char *what,
                                              double got, double expected, double bound) {
    const bool ok = got == expected || fabs(got - expected) <= bound;
    if (!ok)
        printf("%s:%d: %s is %.12g, expected %.12g\n", file, line, what, got, expected);
    test_state.is_bad |= !ok;
}

/* A test that walks a table counts each row itself: 1 passed, 0 failed, -1 skipped. */
__attribute__((unused)) static void test_count(int result) {
    test_state.is_counted = true;
    *(result > 0 ? &test_state.passed : result < 0 ? &test_state.skipped : &test_state.failed) += 1;
}

static int test_main(int argc, char **argv) {
    const char *only = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--all"))
            test_state.all = true;
        else
            only = argv[i];
    for (int i = 0; i < test_state.count; i++) {
        if (only && !strstr(test_state.tests[i].name, only))
            continue;
        test_state.is_bad = test_state.is_skip = test_state.is_counted = false;
        test_state.tests[i].run();
        if (test_state.is_bad)
            printf("FAILED %s\n", test_state.tests[i].name);
        if (test_state.is_bad || !test_state.is_counted)
            test_count(test_state.is_bad ? 0 : test_state.is_skip ? -1 : 1);
    }
    printf("%d passed, %d failed, %d skipped\n", test_state.passed, test_state.failed,
           test_state.skipped);
    return test_state.failed || !(test_state.passed + test_state.skipped);
}

#define TEST_MAIN                                                                                  \
    int main(int argc, char **argv) {                                                              \
        return test_main(argc, argv);                                                              \
    }

#endif
