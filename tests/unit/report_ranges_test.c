/* SPDX-License-Identifier: Apache-2.0 */
/* Reports that count ranges of threads by themselves, with one worker and with several, show what a report shows that
 * reads event after event: on random programs with open calls, coroutines, gaps, waits, exceptions, and damage. */
#include "report/functions.h"
#include "report/where.h"
#include "process_util.h"
#include "summary_util.h"
#include "tests/tools/place_of.h"
#include "trace/reader.h"
#include "trace/switches_file.h"
#include "trace_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

/* ---- comparing ---- */

/* What a report says, but for the memory that it says it in. */
static struct ct_report_row plain_row(const struct ct_report_row *row) {
    struct ct_report_row copy = *row;
    copy.name = copy.module = NULL;
    copy.known = NULL;
    copy.times = NULL;
    return copy;
}

static int by_key(const void *a, const void *b) {
    const struct ct_report_row *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

static void expect_same(struct ct_report *a, struct ct_report *b) {
    assert_int_equal(a->row_count, b->row_count);
    assert_int_equal(a->events, b->events);
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->exceptions, b->exceptions);
    assert_int_equal(a->open, b->open);
    assert_int_equal(a->unpaired, b->unpaired);
    assert_int_equal(a->gaps, b->gaps);
    assert_int_equal(a->lost, b->lost);
    assert_int_equal(a->gap_ns, b->gap_ns);
    assert_int_equal(a->waited_ns, b->waited_ns);
    assert_int_equal(a->cpu_threads, b->cpu_threads);
    qsort(a->rows, a->row_count, sizeof *a->rows, by_key);
    qsort(b->rows, b->row_count, sizeof *b->rows, by_key);
    for (size_t i = 0; i < a->row_count; i++) {
        struct ct_report_row x = plain_row(&a->rows[i]), y = plain_row(&b->rows[i]);
        assert_memory_equal(&x, &y, sizeof x);
    }
}

/* Reads the trace; returns how many blocks were found damaged. */
static uint64_t make_report(struct ct_report **report, const struct ct_report_options *options) {
    struct ct_trace *trace;
    uint64_t damaged = 0;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    assert_int_equal(ct_report_make(report, trace, options), 0);
    for (size_t i = 0; i < trace->thread_count; i++)
        damaged += trace->threads[i].index.damaged;
    ct_trace_close(trace);
    return damaged;
}

/* Returns how many ranges were counted by themselves, of all sizes together. */
static uint64_t compare(const struct ct_report_options *asked) {
    static const uint64_t sizes[] = {1, 2, 13, 300, 5000};
    struct ct_report_options options = *asked;
    struct ct_report *whole, *parts;
    uint64_t ranges = 0;
    options.workers = 1;
    options.range_events = UINT64_MAX;
    uint64_t damaged = make_report(&whole, &options);
    assert_int_equal(whole->ranges, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        options.range_events = sizes[i];
        options.workers = i % 2 ? 3 : 1;
        assert_int_equal(make_report(&parts, &options), damaged);
        expect_same(whole, parts);
        ranges += parts->ranges;
        ct_report_free(parts);
    }
    ct_report_free(whole);
    return ranges;
}

/* ---- traces ---- */

static const struct random_trace traces[] = {
    {.seed = 201, .threads = 1, .events = 20000, .calm = true},
    {.seed = 202, .threads = 3, .events = 8000, .stacks = 4},
    {.seed = 203, .threads = 2, .events = 10000, .stacks = 1, .gaps = 60},
    {.seed = 204, .threads = 2, .events = 10000, .silent = 60, .unfinished = true},
    {.seed = 205, .threads = 1, .events = 20000, .odd = 20, .gaps = 20},
    {.seed = 206, .threads = 2, .events = 10000, .keep = 30000},
    {.seed = 207, .threads = 1, .events = 10000, .raw = true},
    {.seed = 208, .threads = 1, .events = 10000, .back = true, .waits = 20},
    {.seed = 209, .threads = 2, .events = 10000, .waits = 40},
    {.seed = 210, .threads = 1, .events = 10000, .gaps = 100, .waits = 10, .unfinished = true},
};

/* Some events are on other stacks, or not plain in another way. */
static bool is_plain(const struct random_trace *trace) {
    return !trace->stacks && !trace->odd && !trace->silent && !trace->back;
}

/* The first thread has been off the processor now and then. */
static void write_switches(const struct random_trace *trace) {
    struct ct_switches_writer *writer;
    uint64_t end_ns = trace->events * 250;
    assert_int_equal(ct_switches_writer_open(&writer, place_of(directory), 1, 321, 1000, CT_SWITCHES_LIMIT), 0);
    for (uint64_t at = 5000; at < end_ns; at += 7001)
        ct_switches_writer_put(writer, &(struct ct_switch_span){at, at + 900 + at % 701,
                                                                at % 3 ? CT_SWITCHES_BLOCKED : CT_SWITCHES_PREEMPTED});
    assert_int_equal(ct_switches_writer_close(writer), 0);
}

static void ranges_count_what_events_count(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        write_random(directory, &traces[i]);
        uint64_t length = traces[i].events * 250;
        uint64_t ranges = compare(&(struct ct_report_options){0});
        if (is_plain(&traces[i]))
            assert_true(ranges > traces[i].events * 3 / 2);
        compare(&(struct ct_report_options){.per_thread = true, .spread = CT_REPORT_SPREAD_SELF});
        compare(&(struct ct_report_options){.select = {.from_ns = 1000 + length / 3, .to_ns = 1000 + length / 2}});
        compare(&(struct ct_report_options){.select = {.from_ns = 1000 + length / 7}});
        remove_directory(directory);
    }
}

static void time_off_the_processor_is_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i += 4) { /* plain, odd, and with waits */
        write_random(directory, &traces[i]);
        write_switches(&traces[i]);
        compare(&(struct ct_report_options){.spread = CT_REPORT_SPREAD_CPU});
        compare(&(struct ct_report_options){.select = {.from_ns = 1000 + traces[i].events * 50}});
        remove_directory(directory);
    }
}

static void conditions_hold_in_ranges(void **unused) {
    (void)unused;
    struct ct_where *where;
    struct ct_where_error error;
    assert_int_equal(ct_where_compile(&where, "duration > 2us", &error), 0);
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i += 3) {
        write_random(directory, &traces[i]);
        compare(&(struct ct_report_options){.select = {.where = where}});
        remove_directory(directory);
    }
    ct_where_free(where);
}

/* A block in the middle is damaged: its events are missing in both, and both notice it once. */
static void damage_is_noticed_in_ranges(void **unused) {
    (void)unused;
    static const struct random_trace trace = {.seed = 220, .threads = 1, .events = 60000, .calm = true};
    struct ct_report *report;
    char path[400];
    size_t size;
    write_random(directory, &trace);
    snprintf(path, sizeof path, "%s/thread_1/index.ctp", directory);
    uint8_t *bytes = load(path, &size);
    memset(bytes + size / 2, 0x55, size / 10);
    store(path, bytes, size);
    free(bytes);
    assert_true(make_report(&report, &(struct ct_report_options){.range_events = 500}) > 0);
    assert_true(report->events < trace.events);
    ct_report_free(report);
    compare(&(struct ct_report_options){0});
}

/* Makes a report with this many files open at most. */
static int make_with_files(struct ct_report **report, const struct ct_report_options *options, rlim_t files) {
    struct rlimit all, few;
    struct ct_trace *trace;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = (struct rlimit){files, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int status = ct_trace_open(&trace, directory, NULL, 0);
    if (!status) {
        status = ct_report_make(report, trace, options);
        ct_trace_close(trace);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    return status;
}

/* With just enough files for one reader. */
static void ranges_need_no_files(void **unused) {
    (void)unused;
    struct ct_report_options whole_options = {.workers = 1, .range_events = UINT64_MAX};
    struct ct_report_options parts_options = {.workers = 1, .range_events = 300};
    struct ct_report *whole, *parts;
    rlim_t files = 3;
    write_random(directory, &traces[0]);
    while (make_with_files(&whole, &whole_options, files))
        assert_true(files++ < 100);
    assert_int_equal(make_with_files(&parts, &parts_options, files), 0);
    expect_same(whole, parts);
    assert_int_equal(parts->ranges, 0);
    ct_report_free(whole);
    ct_report_free(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges_count_what_events_count, setup, teardown),
        cmocka_unit_test_setup_teardown(time_off_the_processor_is_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(conditions_hold_in_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_noticed_in_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_need_no_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
