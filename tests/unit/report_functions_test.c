/* SPDX-License-Identifier: Apache-2.0 */
/* The report, on traces written from scripts: every number is exact. */
#include "report/functions.h"
#include "report/output.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a report as text: name:calls/timed total self avg max [x exceptions] [o open] [u unpaired] ---- */

static void put_extra(char *text, size_t size, char letter, uint64_t n) {
    size_t length = strlen(text);
    if (n)
        snprintf(text + length, size - length, " %c%llu", letter, (unsigned long long)n);
}

static void put_row(char *text, size_t size, const struct ct_report_row *row) {
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s:%llu/%llu %llu %llu %llu %llu", length ? "\n" : "", row->name,
             (unsigned long long)row->calls, (unsigned long long)row->timed, (unsigned long long)row->total_ns,
             (unsigned long long)row->self_ns, (unsigned long long)row->avg_ns, (unsigned long long)row->max_ns);
    put_extra(text, size, 'x', row->exceptions);
    put_extra(text, size, 'o', row->open);
    put_extra(text, size, 'u', row->unpaired);
}

struct check {
    struct sample sample;
    struct ct_report_options options;
    struct ct_report_row totals; /* exceptions, open, unpaired */
    uint64_t events, gaps, lost, gap_ns, threads;
};

/* Rows come in order of their names unless the options say otherwise. */
static void check_rows(struct check *c, const char *expected) {
    char *directory = sample_directory(), *path = sample_write(directory, &c->sample), text[8192] = "";
    struct ct_trace *trace;
    struct ct_report *report;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_report_make(&report, trace, &c->options), 0);
    for (size_t i = 0; i < report->row_count; i++)
        put_row(text, sizeof text, &report->rows[i]);
    assert_string_equal(text, expected);
    c->events = report->events;
    c->gaps = report->gaps;
    c->lost = report->lost;
    c->gap_ns = report->gap_ns;
    c->threads = report->threads;
    c->totals.exceptions = report->exceptions;
    c->totals.open = report->open;
    c->totals.unpaired = report->unpaired;
    ct_report_free(report);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

static struct check one_thread(struct sample_thread *thread, const char *script) {
    *thread = (struct sample_thread){.id = 1, .tid = 1000, .name = "sample", .script = script};
    return (struct check){.sample = {.threads = thread, .thread_count = 1}, .options = {.sort = CT_REPORT_BY_NAME}};
}

/* ---- times ---- */

static void self_is_total_without_calls(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 100+work 150+leaf 160-leaf 170+leaf 200-leaf 300-work 1000-main");
    check_rows(&c, "leaf:2/2 40 40 20 30\n"
                   "main:1/1 1000 800 1000 1000\n"
                   "work:1/1 200 160 200 200");
    assert_int_equal(c.events, 8);
}

/* The inner calls of a recursion are part of the outer one: they count once in total, each in avg and max. */
static void recursion_counts_once_in_total(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c =
        one_thread(&t, "0+main 10+recurse 20+recurse 30+recurse 40-recurse 60-recurse 100-recurse 200+recurse "
                       "210-recurse 300-main");
    check_rows(&c, "main:1/1 300 200 300 300\n"
                   "recurse:4/4 100 100 37 90");
}

/* ... also when another function is in between. */
static void mutual_recursion(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+recurse 10+work 20+recurse 30+work 35-work 40-recurse 50-work 60-recurse");
    check_rows(&c, "recurse:2/2 60 35 40 60\n"
                   "work:2/2 40 25 22 40");
}

/* A function that is open in two coroutines: as long as it is in one of them. leaf resumes them. */
static void coroutines_count_once_in_total(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c =
        one_thread(&t, "0+main@0 10+leaf@1 15+work@2147483648 20-leaf@1 25+leaf@1 30+work@2147487744 35-leaf@1 "
                       "40+leaf@1 45-work@2147483648 50-leaf@1 55+leaf@1 60-work@2147487744 65-leaf@1 100-main@0");
    check_rows(&c, "leaf:4/4 40 20 10 10\n"
                   "main:1/1 100 60 100 100\n"
                   "work:2/2 45 10 30 30");
}

static void percentiles(void **state) {
    (void)state;
    char script[8192] = "";
    uint64_t now = 0;
    for (uint64_t i = 1; i <= 100; i++) { /* 1000 .. 100000 ns */
        size_t length = strlen(script);
        snprintf(script + length, sizeof script - length, "%llu+leaf %llu-leaf ", (unsigned long long)now,
                 (unsigned long long)(now + 1000 * i));
        now += 1000 * i + 1;
    }
    struct sample_thread t;
    struct check c = one_thread(&t, script);
    char *directory = sample_directory(), *path = sample_write(directory, &c.sample);
    struct ct_trace *trace;
    struct ct_report *report;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_report_make(&report, trace, &c.options), 0);
    assert_int_equal(report->row_count, 1);
    const struct ct_report_row *row = report->rows;
    assert_in_range(row->p50_ns, 49000, 51000);
    assert_in_range(row->p95_ns, 93100, 96900);
    assert_in_range(row->p99_ns, 97020, 100000);
    assert_int_equal(row->max_ns, 100000);
    ct_report_free(report);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

/* ---- other ends ---- */

static void exceptions_end_calls(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 10+work 20+thrower 50!thrower 60!work 70+leaf 80-leaf 100-main");
    check_rows(&c, "leaf:1/1 10 10 10 10\n"
                   "main:1/1 100 40 100 100\n"
                   "thrower:1/1 30 30 30 30 x1\n"
                   "work:1/1 50 20 50 50 x1");
    assert_int_equal(c.totals.exceptions, 2);
}

/* Functions that are recorded on entry only open no frame: what follows is not in them. */
static void entry_only_has_calls_but_no_time(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 10+setjmp 20+leaf 30-leaf 40+setjmp 100-main");
    check_rows(&c, "leaf:1/1 10 10 10 10\n"
                   "main:1/1 100 90 100 100\n"
                   "setjmp:2/0 0 0 0 0");
}

static void open_calls_end_with_the_trace(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 100+work 200+leaf 250-leaf");
    c.sample.end_ns = 1000;
    check_rows(&c, "leaf:1/1 50 50 50 50\n"
                   "main:1/1 1000 100 1000 1000 o1\n"
                   "work:1/1 900 850 900 900 o1");
    assert_int_equal(c.totals.open, 2);
    /* A recorder that was killed did not say when: with the last event. */
    c.sample.unfinished = true;
    c.sample.end_ns = 0;
    check_rows(&c, "leaf:1/1 50 50 50 50\n"
                   "main:1/1 250 100 250 250 o1\n"
                   "work:1/1 150 100 150 150 o1");
}

/* A thread that is back in its first function was ending; one that is said to have ended did so then. */
static void threads_that_ended_end_their_calls(void **state) {
    (void)state;
    struct sample_thread threads[] = {
        {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 900-main"},
        {.id = 2, .tid = 1001, .name = "w", .script = "100+worker 110+leaf 120-leaf"},
        {.id = 3, .tid = 1002, .name = "w", .script = "100+work 110+other", .end_ns = 400},
    };
    struct check c = {.sample = {.threads = threads, .thread_count = 3, .end_ns = 1000},
                      .options = {.sort = CT_REPORT_BY_NAME}};
    check_rows(&c, "leaf:1/1 10 10 10 10\n"
                   "main:1/1 900 900 900 900\n"
                   "other:1/1 290 290 290 290 o1\n"
                   "work:1/1 300 10 300 300 o1\n"
                   "worker:1/1 20 10 20 20 o1");
}

/* ---- events that are missing ---- */

/* The call of work and the return of leaf are missing: neither has a time. The gap's 400 ns are nobody's,
 * and what passed in work is not main's. */
static void gaps_make_unpaired_calls(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 100+leaf 500~3/DRAIN_LAG 500+other@2 510-other 600-work 700-main");
    check_rows(&c, "leaf:1/0 0 0 0 0 u1\n"
                   "main:1/1 300 200 300 300\n"
                   "other:1/1 10 10 10 10\n"
                   "work:0/0 0 0 0 0 u1");
    assert_int_equal(c.totals.unpaired, 2);
    assert_int_equal(c.gaps, 1);
    assert_int_equal(c.lost, 3);
    assert_int_equal(c.gap_ns, 400);
}

/* A gap in which calls were made and ended: the frames around it go on. */
static void gaps_inside_a_call(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 100+work 300~8/DRAIN_LAG 350-work 400-main");
    check_rows(&c, "main:1/1 150 150 150 150\n"
                   "work:1/1 0 0 0 0");
    assert_int_equal(c.gap_ns, 250);
}

/* A gap after the last event: the frames that were open end with that event. */
static void gaps_at_the_end(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 100+work 300~8/DRAIN_LAG");
    c.sample.end_ns = 1000;
    check_rows(&c, "main:1/1 100 100 100 100 o1\n"
                   "work:1/1 0 0 0 0 o1");
    assert_int_equal(c.gaps, 1);
    assert_int_equal(c.lost, 8);
}

/* A recorder that was killed does not know its last gap: depths show it. */
static void gaps_that_nobody_told_of(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 100+work 200+leaf 300+other@1 400-other 500-main");
    c.sample.unfinished = true;
    check_rows(&c, "leaf:1/0 0 0 0 0 u1\n"
                   "main:1/1 500 200 500 500\n"
                   "other:1/1 100 100 100 100\n"
                   "work:1/0 0 0 0 0 u1");
}

/* Coroutines: calls end in another order than they began. Nothing is missing, so all are paired, and no time is counted
 * twice. Here work resumes a coroutine that runs other and leaf, and is left and resumed in the middle of leaf. */
static void coroutines_pair_by_function(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c =
        one_thread(&t, "0+main 10+work 20+other 30+leaf 40-work 50+work 60-leaf 70-other 80-work 100-main");
    check_rows(&c, "leaf:1/1 30 10 30 30\n"
                   "main:1/1 100 40 100 100\n"
                   "other:1/1 50 20 50 50\n"
                   "work:2/2 60 30 30 30");
    assert_int_equal(c.totals.unpaired, 0);
}

static void functions_without_symbols_are_numbered(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+unknown 10+? 20-? 30-unknown");
    check_rows(&c, "function_9_7:1/1 30 20 30 30\n"
                   "sample+0x1600:1/1 10 10 10 10");
}

/* ---- threads ---- */

static struct check three_threads(void) {
    static const struct sample_thread threads[] = {
        {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 100+leaf 110-leaf 200-main"},
        {.id = 2, .tid = 1001, .name = "worker-1", .script = "50+worker 60+leaf 80-leaf 90-worker"},
        {.id = 3, .tid = 1002, .name = "worker-2", .script = "55+worker 65+leaf 95-leaf 99-worker"},
    };
    return (struct check){.sample = {.threads = threads, .thread_count = 3}, .options = {.sort = CT_REPORT_BY_NAME}};
}

static void threads_are_merged(void **state) {
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct check c = three_threads();
        c.options.workers = workers;
        check_rows(&c, "leaf:3/3 60 60 20 30\n"
                       "main:1/1 200 190 200 200\n"
                       "worker:2/2 84 34 42 44");
        assert_int_equal(c.threads, 3);
    }
}

/* The same function of two processes of a session is one row. */
static void processes_are_merged(void **state) {
    (void)state;
    static const struct sample_thread parent = {
        .id = 1, .tid = 1000, .name = "a", .script = "0+main 10+leaf 20-leaf 90-main"};
    static const struct sample_thread child = {
        .id = 1, .tid = 1001, .name = "b", .script = "5+main 15+leaf 45-leaf 50-main"};
    char *directory = sample_directory(), text[1024] = "", *session;
    char *one = sample_write(directory, &(struct sample){.threads = &parent, .thread_count = 1, .pid = 1000});
    char *two = sample_write(directory, &(struct sample){.threads = &child, .thread_count = 1, .pid = 1001});
    struct ct_trace *trace;
    struct ct_report *report;
    assert_true(asprintf(&session, "%s/session_20250102_030405", directory) > 0);
    assert_int_equal(ct_trace_open(&trace, session, NULL, 0), 0);
    assert_int_equal(ct_report_make(&report, trace, &(struct ct_report_options){.sort = CT_REPORT_BY_NAME}), 0);
    for (size_t i = 0; i < report->row_count; i++)
        put_row(text, sizeof text, &report->rows[i]);
    assert_string_equal(text, "leaf:2/2 40 40 20 30\nmain:2/2 135 95 67 90");
    ct_report_free(report);
    ct_trace_close(trace);
    free(session);
    free(one);
    free(two);
    sample_remove(directory);
}

static void or_told_apart(void **state) {
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct check c = three_threads();
        c.options.workers = workers;
        c.options.per_thread = true;
        check_rows(&c, "leaf:1/1 10 10 10 10\n"
                       "leaf:1/1 20 20 20 20\n"
                       "leaf:1/1 30 30 30 30\n"
                       "main:1/1 200 190 200 200\n"
                       "worker:1/1 40 20 40 40\n"
                       "worker:1/1 44 14 44 44");
    }
}

static void threads_by_number_or_name(void **state) {
    (void)state;
    struct check c = three_threads();
    static const char *const number[] = {"1001", NULL}, *const glob[] = {"worker-*", NULL}, *const none[] = {"x", NULL};
    c.options.select.threads = number;
    check_rows(&c, "leaf:1/1 20 20 20 20\nworker:1/1 40 20 40 40");
    c.options.select.threads = glob;
    check_rows(&c, "leaf:2/2 50 50 25 30\nworker:2/2 84 34 42 44");
    c.options.select.threads = none;
    check_rows(&c, "");
}

/* ---- order and filters ---- */

static void order_and_limit(void **state) {
    (void)state;
    struct check c = three_threads();
    c.options.sort = CT_REPORT_BY_TOTAL;
    check_rows(&c, "main:1/1 200 190 200 200\nworker:2/2 84 34 42 44\nleaf:3/3 60 60 20 30");
    c.options.sort = CT_REPORT_BY_SELF;
    check_rows(&c, "main:1/1 200 190 200 200\nleaf:3/3 60 60 20 30\nworker:2/2 84 34 42 44");
    c.options.sort = CT_REPORT_BY_CALLS;
    c.options.limit = 1;
    check_rows(&c, "leaf:3/3 60 60 20 30");
    c.options.limit = 0;
    c.options.min_calls = 2;
    check_rows(&c, "leaf:3/3 60 60 20 30\nworker:2/2 84 34 42 44");
}

static void functions_by_glob(void **state) {
    (void)state;
    struct check c = three_threads();
    static const char *const names[] = {"m*", "leaf", NULL}, *const modules[] = {"libother*", NULL};
    c.options.select.functions = names;
    check_rows(&c, "leaf:3/3 60 60 20 30\nmain:1/1 200 190 200 200");
    c.options.select.modules = modules;
    check_rows(&c, "");
    c.options.select.functions = NULL;
    check_rows(&c, "worker:2/2 84 34 42 44");
}

/* ---- texts ---- */

static void csv(void **state) {
    (void)state;
    struct sample_thread t;
    struct check c = one_thread(&t, "0+main 10+" /* a name with commas is quoted */
                                    "worker 20-worker 25+setjmp 30-main");
    char *directory = sample_directory(), *path = sample_write(directory, &c.sample);
    struct ct_trace *trace;
    struct ct_report *report;
    struct ct_output text = {0};
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_report_make(&report, trace, &c.options), 0);
    report->rows[2].name = "f<a, b>(\"c\")";
    ct_report_csv(report, false, trace, &text);
    ct_output_bytes(&text, "", 1);
    assert_false(text.failed);
    assert_string_equal(
        text.data, "name,module,calls,total_ns,self_ns,avg_ns,max_ns,p50_ns,p95_ns,p99_ns,exceptions,open,unpaired\n"
                   "main,sample,1,30,20,30,30,30,30,30,0,0,0\n"
                   "setjmp,sample,1,,,,,,,,0,0,0\n"
                   "\"f<a, b>(\"\"c\"\")\",libother.so.1,1,10,10,10,10,10,10,10,0,0,0\n");
    ct_output_free(&text);
    ct_report_free(report);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_is_total_without_calls),
        cmocka_unit_test(recursion_counts_once_in_total),
        cmocka_unit_test(mutual_recursion),
        cmocka_unit_test(coroutines_count_once_in_total),
        cmocka_unit_test(percentiles),
        cmocka_unit_test(exceptions_end_calls),
        cmocka_unit_test(entry_only_has_calls_but_no_time),
        cmocka_unit_test(open_calls_end_with_the_trace),
        cmocka_unit_test(threads_that_ended_end_their_calls),
        cmocka_unit_test(gaps_make_unpaired_calls),
        cmocka_unit_test(gaps_inside_a_call),
        cmocka_unit_test(gaps_at_the_end),
        cmocka_unit_test(gaps_that_nobody_told_of),
        cmocka_unit_test(processes_are_merged),
        cmocka_unit_test(coroutines_pair_by_function),
        cmocka_unit_test(functions_without_symbols_are_numbered),
        cmocka_unit_test(threads_are_merged),
        cmocka_unit_test(or_told_apart),
        cmocka_unit_test(threads_by_number_or_name),
        cmocka_unit_test(order_and_limit),
        cmocka_unit_test(functions_by_glob),
        cmocka_unit_test(csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
