/* SPDX-License-Identifier: Apache-2.0 */
/* Callers and callees, on traces written from scripts: every number is exact. */
#include "report/graph.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a graph as text: "name:calls/timed total self", then a line for each row: < caller, > callee ---- */

static void put(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(char *text, size_t size, const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

static void put_children(char *text, size_t size, const struct ct_graph_node *node, char sign, int level) {
    for (size_t i = 0; i < node->shown; i++) {
        const struct ct_graph_node *c = node->children[i];
        put(text, size, "\n%*s%c%s:%llu/%llu %llu", level, "", sign, c->known ? c->known->name : "",
            (unsigned long long)c->calls, (unsigned long long)c->timed, (unsigned long long)c->total_ns);
        put_children(text, size, c, sign, level + 1);
    }
}

static void put_function(char *text, size_t size, const struct ct_graph_function *f) {
    put(text, size, "%s%s:%llu/%llu %llu %llu", *text ? "\n" : "", f->callers.known->name,
        (unsigned long long)f->callers.calls, (unsigned long long)f->callers.timed,
        (unsigned long long)f->callers.total_ns, (unsigned long long)f->callers.self_ns);
    if (f->exceptions)
        put(text, size, " x%llu", (unsigned long long)f->exceptions);
    if (f->open)
        put(text, size, " o%llu", (unsigned long long)f->open);
    if (f->unpaired)
        put(text, size, " u%llu", (unsigned long long)f->unpaired);
    assert_int_equal(f->callees.calls, f->callers.calls);
    assert_int_equal(f->callees.total_ns, f->callers.total_ns);
    put_children(text, size, &f->callers, '<', 1);
    put_children(text, size, &f->callees, '>', 1);
}

static void check_path(const char *path, const struct ct_graph_options *options, const char *expected) {
    char text[8192] = "";
    struct ct_trace *trace;
    struct ct_graph *graph;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_graph_make(&graph, trace, options), 0);
    for (size_t i = 0; i < graph->shown; i++)
        put_function(text, sizeof text, graph->functions[i]);
    assert_string_equal(text, expected);
    ct_graph_free(graph);
    ct_trace_close(trace);
}

static void check_threads(const struct sample_thread *threads, size_t count, const struct ct_graph_options *options,
                          const char *expected) {
    char *directory = sample_directory();
    char *path = sample_write(directory, &(struct sample){.threads = threads, .thread_count = count});
    check_path(path, options, expected);
    free(path);
    sample_remove(directory);
}

static void check(const char *script, const char *function, uint64_t depth, const char *expected) {
    const char *functions[] = {function, NULL};
    struct sample_thread thread = {.id = 1, .tid = 1000, .name = "sample", .script = script};
    struct ct_graph_options options = {.select = {.functions = functions}, .depth = depth};
    check_threads(&thread, 1, &options, expected);
}

/* ---- rows ---- */

static const char plain[] = "0+main 100+work 110+leaf 130-leaf 140+leaf 150-leaf 200-work 300+leaf 305-leaf "
                            "400+other 410+work 420+leaf 421-leaf 450-work 500-other 1000-main";

static void callers_share_the_calls(void **state) {
    (void)state;
    check(plain, "leaf", 1, "leaf:4/4 36 36\n <work:3/3 31\n <main:1/1 5");
}

static void callees_have_their_own_time(void **state) {
    (void)state;
    check(plain, "work", 1, "work:2/2 140 109\n <main:1/1 100\n <other:1/1 40\n >leaf:3/3 31");
}

static void the_first_function_has_no_caller(void **state) {
    (void)state;
    check(plain, "main", 1, "main:1/1 1000 795\n <:1/1 1000\n >other:1/1 100\n >work:1/1 100\n >leaf:1/1 5");
}

/* Each way has its own rows: work from main and work from other are two. */
static void depth_follows_ways(void **state) {
    (void)state;
    check(plain, "leaf", 3,
          "leaf:4/4 36 36\n <work:3/3 31\n  <main:2/2 30\n  <other:1/1 1\n   <main:1/1 1\n <main:1/1 5");
    check(plain, "main", 3,
          "main:1/1 1000 795\n <:1/1 1000\n >other:1/1 100\n  >work:1/1 40\n   >leaf:1/1 1\n "
          ">work:1/1 100\n  >leaf:2/2 30\n >leaf:1/1 5");
}

/* Times and calls of main's callees: work 100 (self 70), other 100 (self 60), leaf 5; each order has its own first. */
static void rows_are_sorted(void **state) {
    (void)state;
    static const char script[] = "0+main 100+work 110+leaf 140-leaf 200-work 300+leaf 305-leaf 310+leaf 311-leaf "
                                 "400+other 410+leaf 450-leaf 500-other 1000-main";
    static const char *const expected[] = {
        [CT_GRAPH_BY_TOTAL] = " >other:1/1 100\n >work:1/1 100\n >leaf:2/2 6",
        [CT_GRAPH_BY_SELF] = " >work:1/1 100\n >other:1/1 100\n >leaf:2/2 6",
        [CT_GRAPH_BY_CALLS] = " >leaf:2/2 6\n >other:1/1 100\n >work:1/1 100",
        [CT_GRAPH_BY_NAME] = " >leaf:2/2 6\n >other:1/1 100\n >work:1/1 100",
    };
    const char *functions[] = {"main", NULL};
    struct sample_thread thread = {.id = 1, .tid = 1000, .name = "sample", .script = script};
    for (int sort = CT_GRAPH_BY_TOTAL; sort <= CT_GRAPH_BY_NAME; sort++) {
        char text[512];
        struct ct_graph_options options = {
            .select = {.functions = functions}, .depth = 1, .sort = (enum ct_graph_sort)sort};
        snprintf(text, sizeof text, "main:1/1 1000 794\n <:1/1 1000\n%s", expected[sort]);
        check_threads(&thread, 1, &options, text);
    }
}

static void functions_are_sorted(void **state) {
    (void)state;
    struct sample_thread thread = {.id = 1, .tid = 1000, .name = "sample", .script = plain};
    const char *functions[] = {"leaf", "work", "main", NULL};
    struct ct_graph_options options = {.select = {.functions = functions}, .depth = 1, .limit = 1};
    options.sort = CT_GRAPH_BY_CALLS;
    check_threads(&thread, 1, &options, "leaf:4/4 36 36\n <work:3/3 31");
    options.sort = CT_GRAPH_BY_SELF;
    check_threads(&thread, 1, &options, "main:1/1 1000 795\n <:1/1 1000\n >work:1/1 100");
}

static void several_functions_fit(void **state) {
    (void)state;
    check(plain, "[wo]*", 1,
          "work:2/2 140 109\n <main:1/1 100\n <other:1/1 40\n >leaf:3/3 31\n"
          "other:1/1 100 60\n <main:1/1 100\n >work:1/1 40");
    check(plain, "thrower", 1, "");
}

/* ---- recursion ---- */

static void a_function_is_its_own_caller(void **state) {
    (void)state;
    check("0+main 10+recurse 20+recurse 30+recurse 40-recurse 60-recurse 100-recurse 300-main", "recurse", 1,
          "recurse:3/3 90 90\n <main:1/1 90\n <recurse:2/2 40\n >recurse:2/2 40");
}

/* What is called by inner calls is there with all its time, once. */
static void recursion_over_another_function(void **state) {
    (void)state;
    check("0+main 10+work 20+recurse 30+work 40+leaf 45-leaf 60-work 80-recurse 90+leaf 95-leaf 100-work 300-main",
          "work", 2,
          "work:2/2 90 50\n <main:1/1 90\n <recurse:1/1 30\n  <work:1/1 30\n"
          " >recurse:1/1 60\n  >work:1/1 30\n >leaf:2/2 10");
}

/* ---- what is odd ---- */

static void entry_only_has_no_time(void **state) {
    (void)state;
    check("0+main 10+setjmp 20+work 30+setjmp 40-work 100-main", "setjmp", 2,
          "setjmp:2/0 0 0\n <main:1/0 0\n <work:1/0 0\n  <main:1/0 0");
    check("0+main 10+setjmp 20+work 30+setjmp 40-work 100-main", "main", 1,
          "main:1/1 100 80\n <:1/1 100\n >work:1/1 20\n >setjmp:1/0 0");
}

static void exceptions_and_open_calls(void **state) {
    (void)state;
    check("0+main 10+work 20+thrower 30!thrower 50!work 60+work 100+leaf 120-leaf", "work", 1,
          "work:2/2 100 70 x1 o1\n <main:2/2 100\n >leaf:1/1 20\n >thrower:1/1 10");
}

/* The end of work and the call of other were lost: work has a call without a time, other's callee no caller. */
static void gaps_leave_calls_without_time(void **state) {
    (void)state;
    const char *script = "0+main 10+work 20+leaf 30-leaf 50~2/DRAIN_LAG 100+leaf@1 110-leaf@1 200-main";
    check(script, "work", 1, "work:1/0 0 0 u1\n <main:1/0 0\n >leaf:1/1 10");
    check("0+main 10~2/DRAIN_LAG 100+leaf@3 110-leaf@3", "leaf", 2, "leaf:1/1 10 10\n <:1/1 10");
}

/* ---- selection ---- */

static const struct sample_thread two[] = {
    {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 10+leaf 20-leaf 30+recurse 100-main"},
    {.id = 2, .tid = 1001, .name = "worker", .script = "0+worker 10+leaf 40-leaf 50+other 55-other 100-worker"},
};

static void threads_and_modules(void **state) {
    (void)state;
    const char *leaf[] = {"leaf", NULL}, *tid[] = {"1001", NULL}, *module[] = {"libother*", NULL};
    check_threads(two, 2, &(struct ct_graph_options){.select = {.functions = leaf}, .depth = 1},
                  "leaf:2/2 40 40\n <worker:1/1 30\n <main:1/1 10");
    check_threads(two, 2, &(struct ct_graph_options){.select = {.functions = leaf, .threads = tid}, .depth = 1},
                  "leaf:1/1 30 30\n <worker:1/1 30");
    check_threads(two, 2, &(struct ct_graph_options){.select = {.modules = module}, .depth = 1},
                  "worker:1/1 100 65\n <:1/1 100\n >leaf:1/1 30\n >other:1/1 5\n"
                  "other:1/1 5 5\n <worker:1/1 5");
}

static void limit_cuts_functions_and_rows(void **state) {
    (void)state;
    const char *module[] = {"libother*", NULL};
    check_threads(two, 2, &(struct ct_graph_options){.select = {.modules = module}, .depth = 1, .limit = 1},
                  "worker:1/1 100 65\n <:1/1 100\n >leaf:1/1 30");
}

/* A function of two processes of one session is one. */
static void processes_are_united(void **state) {
    (void)state;
    struct sample_thread thread = {.id = 1, .tid = 1000, .name = "sample", .script = plain};
    const char *functions[] = {"work", NULL};
    char *directory = sample_directory(), session[512];
    for (int pid = 1000; pid < 1002; pid++)
        free(sample_write(directory, &(struct sample){.threads = &thread, .thread_count = 1, .pid = pid}));
    snprintf(session, sizeof session, "%s/session_20250102_030405", directory);
    check_path(session, &(struct ct_graph_options){.select = {.functions = functions}, .depth = 1},
               "work:4/4 280 218\n <main:2/2 200\n <other:2/2 80\n >leaf:6/6 62");
    sample_remove(directory);
}

static void depth_has_bounds(void **state) {
    (void)state;
    struct ct_graph *graph;
    assert_int_equal(ct_graph_make(&graph, NULL, &(struct ct_graph_options){.depth = 0}), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_graph_make(&graph, NULL, &(struct ct_graph_options){.depth = CT_GRAPH_MAX_DEPTH + 1}),
                     CT_ERR_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_share_the_calls),
        cmocka_unit_test(callees_have_their_own_time),
        cmocka_unit_test(the_first_function_has_no_caller),
        cmocka_unit_test(depth_follows_ways),
        cmocka_unit_test(rows_are_sorted),
        cmocka_unit_test(functions_are_sorted),
        cmocka_unit_test(several_functions_fit),
        cmocka_unit_test(a_function_is_its_own_caller),
        cmocka_unit_test(recursion_over_another_function),
        cmocka_unit_test(entry_only_has_no_time),
        cmocka_unit_test(exceptions_and_open_calls),
        cmocka_unit_test(gaps_leave_calls_without_time),
        cmocka_unit_test(threads_and_modules),
        cmocka_unit_test(limit_cuts_functions_and_rows),
        cmocka_unit_test(processes_are_united),
        cmocka_unit_test(depth_has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
