/* SPDX-License-Identifier: Apache-2.0 */
/* Readers that use summaries and readers that read everything show the same, on random programs and random ranges. */
#include "process_util.h"
#include "random_util.h"
#include "report/calls.h"
#include "report/fits.h"
#include "report/functions.h"
#include "report/replay.h"
#include "report/scan_skip.h"
#include "report/where.h"
#include "summary_util.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include "trace_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct ct_summary_limits slow = {.least = UINT64_MAX},
                                      fast = {.least = 1, .span_events = 1000, .all_starts = true};

/* ---- answers as numbers ---- */

struct answer {
    uint64_t lines, hash;
};

static void add_number(struct answer *answer, uint64_t value) {
    answer->hash = (answer->hash ^ value) * 0x100000001b3u;
}

static void add_text(struct answer *answer, const char *text) {
    for (; *text; text++)
        add_number(answer, (uint8_t)*text);
}

static int on_line(void *arg, const struct ct_replay_line *line) {
    struct answer *answer = arg;
    answer->lines++;
    add_number(answer, line->kind);
    add_number(answer, line->end);
    add_number(answer, line->thread);
    add_number(answer, line->time_ns);
    add_number(answer, line->kind == CT_REPLAY_LEAF || line->kind == CT_REPLAY_CLOSE ? line->duration_ns : 0);
    add_number(answer, line->indent);
    add_number(answer, line->detail);
    add_number(answer, line->end_detail);
    add_text(answer, line->name);
    return 0;
}

static struct answer replay(const struct ct_summary_limits *limits, const struct ct_replay_options *options) {
    struct answer answer = {0};
    struct ct_trace *trace;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->summary = *limits;
    assert_int_equal(ct_replay(trace, options, on_line, &answer), 0);
    ct_trace_close(trace);
    return answer;
}

static struct answer report(const struct ct_summary_limits *limits, const struct ct_report_options *options) {
    struct answer answer = {0};
    struct ct_trace *trace;
    struct ct_report *report;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->summary = *limits;
    assert_int_equal(ct_report_make(&report, trace, options), 0);
    add_number(&answer, report->events);
    add_number(&answer, report->calls);
    add_number(&answer, report->open);
    add_number(&answer, report->unpaired);
    add_number(&answer, report->gap_ns);
    for (size_t i = 0; i < report->row_count; i++) {
        const struct ct_report_row *row = &report->rows[i];
        add_number(&answer, row->function);
        add_number(&answer, row->calls);
        add_number(&answer, row->total_ns);
        add_number(&answer, row->self_ns);
        add_number(&answer, row->max_ns);
        answer.lines++;
    }
    ct_report_free(report);
    ct_trace_close(trace);
    return answer;
}

static struct answer slowest(const struct ct_summary_limits *limits, const struct ct_select *select, size_t most) {
    struct answer answer = {0};
    struct ct_trace *trace;
    struct ct_calls *calls;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->summary = *limits;
    assert_int_equal(ct_calls_find(&calls, trace, select, CT_CALLS_SLOWEST, most, NULL), 0);
    add_number(&answer, calls->fitting);
    for (size_t i = 0; i < calls->count; i++) {
        const struct ct_found_call *call = &calls->at[i];
        add_number(&answer, call->thread);
        add_number(&answer, call->sequence);
        add_number(&answer, call->began_ns);
        add_number(&answer, call->duration_ns);
        add_number(&answer, call->self_ns);
        add_number(&answer, call->open);
        add_text(&answer, call->known->name);
        answer.lines++;
    }
    ct_calls_free(calls);
    ct_trace_close(trace);
    return answer;
}

/* ---- the comparison ---- */

static const struct random_trace traces[] = {
    {.seed = 101, .threads = 1, .events = MANY(20000), .calm = true},
    {.seed = 102, .threads = 3, .events = MANY(20000), .stacks = 4, .calm = true},
    {.seed = 103, .threads = 2, .events = MANY(20000), .stacks = 2, .gaps = 60, .calm = true},
    {.seed = 104, .threads = 2, .events = MANY(10000), .silent = 60, .unfinished = true, .calm = true},
    {.seed = 105, .threads = 1, .events = MANY(20000), .odd = 20, .gaps = 20, .calm = true},
    {.seed = 106, .threads = 2, .events = MANY(20000), .stacks = 2, .keep = 30000},
    {.seed = 107, .threads = 1, .events = MANY(30000), .raw = true},
    {.seed = 108, .threads = 1, .events = MANY(10000), .back = true},
    {.seed = 109, .threads = 2, .events = MANY(20000), .waits = 40, .calm = true},
};

static uint64_t next_random(void) {
    static uint64_t state = RANDOM_SEED;
    return random_next(&state) >> 20;
}

/* The time of all events, roughly. */
static uint64_t length_of(const struct random_trace *trace) {
    return trace->events * 250;
}

static void expect_same(struct answer a, struct answer b) {
    assert_int_equal(a.lines, b.lines);
    assert_int_equal(a.hash, b.hash);
}

static void ranges_are_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        uint64_t lines = 0, length = length_of(&traces[i]);
        write_random(directory, &traces[i]);
        for (int round = 0; round < 8; round++) {
            struct ct_replay_options options = {.select.from_ns = 1000 + next_random() % length};
            if (round % 4)
                options.select.to_ns = options.select.from_ns + next_random() % (length / 10);
            struct answer whole = replay(&slow, &options);
            expect_same(whole, replay(&fast, &options));
            lines += whole.lines;
            if (round % 2)
                continue;
            const struct ct_report_options rows = {.select = options.select};
            expect_same(report(&slow, &rows), report(&fast, &rows));
        }
        assert_true(lines > 100);
        assert_int_equal(access(in("%s/thread_1/" CTS_FILE, directory), F_OK), traces[i].unfinished ? -1 : 0);
        remove_directory(directory);
    }
}

/* A function that some part of the program calls: see summary_util.c. */
static unsigned function_of_part(unsigned random) {
    return RANDOM_ENTRY_ONLY + random % 4 * 49 + random / 4 % 12;
}

static void functions_are_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        uint64_t lines = 0, length = length_of(&traces[i]);
        write_random(directory, &traces[i]);
        for (int round = 0; round < 12; round++) {
            char glob[16];
            const char *const globs[] = {glob, NULL};
            snprintf(glob, sizeof glob, round % 3 ? "f%u" : "f%u*", function_of_part((unsigned)next_random()));
            struct ct_replay_options options = {.select.functions = globs};
            if (round % 4 == 3)
                options.select.from_ns = 1000 + next_random() % length;
            if (round % 4 == 2)
                options.select.to_ns = 1000 + next_random() % length;
            struct answer whole = replay(&slow, &options);
            expect_same(whole, replay(&fast, &options));
            lines += whole.lines;
        }
        assert_true(lines > 30);
        remove_directory(directory);
    }
}

static void slowest_calls_are_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        write_random(directory, &traces[i]);
        for (size_t most = 1; most < 200; most = 3 * most + 1) {
            struct ct_select select = {0};
            expect_same(slowest(&slow, &select, most), slowest(&fast, &select, most));
            select.from_ns = 1000 + next_random() % length_of(&traces[i]);
            expect_same(slowest(&slow, &select, most), slowest(&fast, &select, most));
        }
        remove_directory(directory);
    }
}

/* ---- conditions ---- */

static const char *const conditions[] = {
    "duration > 20us",
    "duration > 1s",
    "not duration < 30us",
    "function = f10 or function like 'f6?'",
    "function like 'f2*' and duration < 1us",
    "module = nothing",
    "depth > 12 or self >= 5us",
    "not (depth <= 9) and function != f7",
    "thread = 1 and duration > 5us",
    "function = f1",
    "result < 0 or duration > 40us",
};

static struct ct_where *compile(const char *text) {
    struct ct_where_error error;
    struct ct_where *where;
    assert_int_equal(ct_where_compile(&where, text, &error), 0);
    return where;
}

/* Which events are marked. */
static struct answer marks(const struct ct_summary_limits *limits, const struct ct_select *select,
                           enum ct_fits_words words) {
    struct answer answer = {0};
    struct ct_trace *trace;
    struct ct_facts facts;
    struct ct_fits *fits;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->summary = *limits;
    assert_int_equal(ct_facts_load(&facts, trace), 0);
    assert_int_equal(ct_fits_make(&fits, trace, &facts, select, words, NULL), 0);
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        for (uint64_t at = 0, end = trace->threads[i].index.end; at < end; at++) {
            bool fit = ct_fits_call(fits, i, at);
            add_number(&answer, fit | (unsigned)ct_fits_keeps(fits, i, at) << 1);
            answer.lines += fit;
            assert_int_equal(ct_fits_between(fits, i, at, at + 1), fit);
        }
    ct_fits_free(fits);
    ct_facts_free(&facts);
    ct_trace_close(trace);
    return answer;
}

static void conditions_mark_the_same(void **unused) {
    (void)unused;
    static const char *const globs[] = {"f1*", NULL};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        uint64_t fitting = 0;
        write_random(directory, &traces[i]);
        for (size_t k = 0; k < sizeof conditions / sizeof *conditions; k++) {
            struct ct_where *where = compile(conditions[k]);
            struct ct_select select = {.where = where, .functions = k % 2 ? globs : NULL};
            if (k % 3 == 2)
                select.to_ns = 1000 + next_random() % length_of(&traces[i]);
            struct answer whole = marks(&slow, &select, (enum ct_fits_words)(k % 4));
            expect_same(whole, marks(&fast, &select, (enum ct_fits_words)(k % 4)));
            fitting += whole.lines;
            ct_where_free(where);
        }
        assert_true(fitting > 100);
        remove_directory(directory);
    }
}

static void conditions_show_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        write_random(directory, &traces[i]);
        for (size_t k = i % 3; k < sizeof conditions / sizeof *conditions; k += 3) {
            struct ct_where *where = compile(conditions[k]);
            const struct ct_replay_options lines = {.select.where = where};
            const struct ct_report_options rows = {.select.where = where};
            expect_same(replay(&slow, &lines), replay(&fast, &lines));
            expect_same(report(&slow, &rows), report(&fast, &rows));
            expect_same(slowest(&slow, &rows.select, 10), slowest(&fast, &rows.select, 10));
            ct_where_free(where);
        }
        remove_directory(directory);
    }
}

/* Spoils some bytes in the middle of the file: the blocks there cannot be read any more. */
static void damage_middle(size_t from_percent, size_t to_percent) {
    size_t size;
    char path[400];
    snprintf(path, sizeof path, "%s/thread_1/index.ctp", directory);
    uint8_t *bytes = load(path, &size);
    memset(bytes + size / 100 * from_percent, 0x55, size / 100 * (to_percent - from_percent));
    store(path, bytes, size);
    free(bytes);
}

/* Blocks without a call that fits are damaged, after the summary was made: nobody notices. */
static void what_cannot_fit_is_not_read(void **unused) {
    (void)unused;
    static const struct random_trace trace = {.seed = 111, .threads = 1, .events = 60000, .calm = true};
    struct ct_where *where = compile("function = f10 and depth > 2"); /* of the first part: see summary_util.c */
    const struct ct_replay_options lines = {.select.where = where};
    const struct ct_report_options rows = {.select.where = where};
    write_random(directory, &trace);
    struct answer of_lines = replay(&fast, &lines), of_rows = report(&fast, &rows);
    struct answer of_slowest = slowest(&fast, &rows.select, 3);
    assert_true(of_lines.lines > 10);
    assert_int_equal(of_slowest.lines, 3);
    damage_middle(62, 80);
    expect_same(of_lines, replay(&fast, &lines));
    expect_same(of_rows, report(&fast, &rows));
    expect_same(of_slowest, slowest(&fast, &rows.select, 3));
    ct_where_free(where);
}

/* ---- scans ---- */

static void ignore_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    (void)arg, (void)process;
    return (uint32_t)function < RANDOM_ENTRY_ONLY;
}

/* Calls that a scan for calls of a second leaves out. */
static uint64_t left_out(const struct random_trace *setup_of) {
    struct ct_trace *trace;
    struct ct_facts facts;
    struct ct_frames frames = {0};
    struct ct_trace_event event;
    struct ct_scan scan;
    write_random(directory, setup_of);
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->summary = fast;
    assert_int_equal(ct_facts_load(&facts, trace), 0);
    const struct ct_scan_setup how = {.trace = trace,
                                      .facts = &facts,
                                      .frames = &frames,
                                      .lost = ignore_lost,
                                      .entry_only = is_entry_only,
                                      .least_ns = 1000000000};
    assert_int_equal(ct_scan_open(&scan, &how), 0);
    while (ct_scan_next(&scan, &event)) {
    }
    uint64_t count = scan.left_out;
    ct_scan_close(&scan);
    ct_frames_free(&frames);
    ct_facts_free(&facts);
    ct_trace_close(trace);
    remove_directory(directory);
    return count;
}

/* Spans do not count the time of gaps and waits, but the duration of a call may. */
static void short_calls_are_left_out_where_all_time_counts(void **unused) {
    (void)unused;
    assert_true(left_out(&(struct random_trace){.seed = 1, .threads = 1, .events = 20000}) > 1000);
    assert_int_equal(left_out(&(struct random_trace){.seed = 1, .threads = 1, .events = 20000, .waits = 5}), 0);
    assert_int_equal(left_out(&(struct random_trace){.seed = 1, .threads = 1, .events = 20000, .gaps = 100}), 0);
}

/* Blocks that the answer does not need are damaged, after the summary was made: nobody notices. */
static void what_is_not_needed_is_not_read(void **unused) {
    (void)unused;
    static const struct random_trace trace = {.seed = 111, .threads = 1, .events = 60000, .calm = true};
    static const char *const globs[] = {"f10", NULL}; /* of the first part: see summary_util.c */
    uint64_t late = 1000 + length_of(&trace) / 10 * 9;
    struct ct_replay_options range = {.select.from_ns = late}, function = {.select.functions = globs};
    write_random(directory, &trace);
    struct answer of_range = replay(&fast, &range), of_function = replay(&fast, &function);
    struct answer of_slowest = slowest(&fast, &(struct ct_select){0}, 1);
    assert_true(of_range.lines > 10);
    assert_true(of_function.lines > 10);
    damage_middle(62, 80);
    expect_same(of_range, replay(&fast, &range));
    expect_same(of_function, replay(&fast, &function));
    expect_same(of_slowest, slowest(&fast, &(struct ct_select){0}, 1));
    assert_int_not_equal(of_range.hash, replay(&slow, &range).hash);
}

/* Damage that was there before is noticed by all who read: there is no short way around it. */
static void damage_is_not_hidden(void **unused) {
    (void)unused;
    static const struct random_trace setup_of = {.seed = 112, .threads = 1, .events = 60000, .calm = true};
    const struct ct_replay_options range = {.select.from_ns = 1000 + length_of(&setup_of) / 10 * 9};
    struct answer answer = {0};
    struct ct_trace *trace;
    write_random(directory, &setup_of);
    damage_middle(62, 80);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
        trace->summary = fast;
        assert_int_equal(ct_replay(trace, &range, on_line, &answer), 0);
        assert_true(trace->threads[0].index.damaged > 0);
        ct_trace_close(trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(functions_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(slowest_calls_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(conditions_mark_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(conditions_show_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_fit_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(short_calls_are_left_out_where_all_time_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_needed_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_not_hidden, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
