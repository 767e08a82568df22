/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors, summaries and verify see the same events whether somebody reads ahead or not, and notice the same damage. */
#include "process_util.h"
#include "summary_util.h"
#include "trace/ahead.h"
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

#define SECONDS 30

static const struct random_trace traces[] = {
    {.seed = 301, .threads = 1, .events = 60000},
    {.seed = 302, .threads = 3, .events = 20000, .stacks = 4},
    {.seed = 303, .threads = 2, .events = 30000, .gaps = 60, .unfinished = true},
    {.seed = 304, .threads = 2, .events = 40000, .keep = 60000},
    {.seed = 305, .threads = 1, .events = 30000, .raw = true, .odd = 20, .back = true},
};

/* ---- what readers see ---- */

struct seen {
    uint64_t events, hash, damaged;
    char sentences[8192]; /* of verify */
};

static void add_number(struct seen *seen, uint64_t value) {
    seen->hash = (seen->hash ^ value) * 0x100000001b3u;
}

static struct ct_trace *open_trace(bool ahead) {
    struct ct_trace *trace;
    assert_int_equal(ct_trace_open(&trace, directory, NULL, 0), 0);
    trace->jobs = ahead ? 0 : 1;
    trace->ahead_least = ahead ? 1 : 0;
    trace->summary.least = 1;
    return trace;
}

static void read_all(struct seen *seen, struct ct_trace_cursor *cursor) {
    struct ct_trace_event event;
    while (ct_trace_cursor_next(cursor, &event)) {
        seen->events++;
        add_number(seen, event.timestamp_ns);
        add_number(seen, event.function_id);
        add_number(seen, event.thread);
        add_number(seen, event.sequence);
        add_number(seen, event.kind);
        add_number(seen, event.depth);
        add_number(seen, event.detail);
    }
    ct_trace_cursor_close(cursor);
}

static void read_threads(struct seen *seen, struct ct_trace *trace) {
    struct ct_trace_cursor *cursor;
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
    read_all(seen, cursor);
    for (size_t i = 0; i < trace->thread_count; i++) {
        struct ct_trace_event event;
        assert_int_equal(ct_trace_cursor_open_thread(&cursor, trace, i, 0), 0);
        for (int k = 0; k < 20000 && ct_trace_cursor_next(cursor, &event); k++) { /* then some are left out */
        }
        ct_trace_cursor_skip(cursor, i, trace->threads[i].index.first + 25001);
        read_all(seen, cursor);
    }
    for (size_t i = 0; i < trace->thread_count; i++)
        seen->damaged += trace->threads[i].index.damaged;
}

static void add_sentence(void *arg, const char *sentence) {
    struct seen *seen = arg;
    size_t used = strlen(seen->sentences);
    snprintf(seen->sentences + used, sizeof seen->sentences - used, "%s\n", sentence);
}

static void add_summaries(struct seen *seen, struct ct_trace *trace) {
    struct ct_facts facts;
    assert_int_equal(ct_facts_load(&facts, trace), 0);
    for (size_t i = 0; i < trace->thread_count; i++) {
        struct ct_summary *summary;
        const struct ct_summary_options options = {.facts = &facts, .in_memory = true};
        if (ct_summary_open(&summary, trace, i, &options) != 0)
            continue;
        for (size_t k = 0; k < ct_summary_span_count(summary); k++) {
            const struct cts_span *span = ct_summary_span(summary, k);
            add_number(seen, span->first_seq);
            add_number(seen, span->longest_ns);
            add_number(seen, span->calls);
        }
        ct_summary_close(summary);
    }
    ct_facts_free(&facts);
}

static struct seen *look(bool ahead) {
    struct seen *seen = calloc(1, sizeof *seen);
    assert_non_null(seen);
    struct ct_trace *trace = open_trace(ahead);
    read_threads(seen, trace);
    add_summaries(seen, trace);
    (void)ct_trace_verify(trace, add_sentence, seen);
    ct_trace_close(trace);
    return seen;
}

/* Returns the blocks that were found damaged. */
static uint64_t compare(void) {
    struct seen *alone = look(false), *ahead = look(true);
    assert_true(alone->events > 10000);
    assert_int_equal(alone->events, ahead->events);
    assert_int_equal(alone->hash, ahead->hash);
    assert_int_equal(alone->damaged, ahead->damaged);
    assert_string_equal(alone->sentences, ahead->sentences);
    uint64_t damaged = alone->damaged;
    free(alone);
    free(ahead);
    return damaged;
}

/* ---- tests ---- */

static void readers_see_the_same(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        write_random(directory, &traces[i]);
        assert_int_equal(compare(), 0);
        remove_directory(directory);
    }
}

/* Blocks are unpacked by others: the cursor gets a whole block at a time, in memory that is not its own. */
static void somebody_reads_ahead(void **unused) {
    (void)unused;
    struct ct_ahead_block block = {0};
    write_random(directory, &traces[0]);
    struct ct_trace *trace = open_trace(true);
    struct ct_ahead *ahead = ct_ahead_open(trace, 0, 0);
    assert_non_null(ahead);
    uint64_t at = 0;
    while (ct_ahead_take(ahead, at, &block)) {
        assert_true(block.clean);
        at += block.count;
    }
    assert_int_equal(at, traces[0].events);
    ct_ahead_close(ahead);
    ahead = ct_ahead_open(trace, 0, 0); /* and nobody takes anything */
    ct_ahead_close(ahead);
    free(block.events);
    ct_trace_close(trace);
    trace = open_trace(false);
    assert_null(ct_ahead_open(trace, 0, 0));
    ct_trace_close(trace);
}

static void spoil(size_t at_percent, size_t percent) {
    char path[400];
    size_t size;
    snprintf(path, sizeof path, "%s/thread_1/index.ctp", directory);
    uint8_t *bytes = load(path, &size);
    memset(bytes + size / 100 * at_percent, 0x55, size / 100 * percent);
    store(path, bytes, size);
    free(bytes);
}

static void damage_is_the_same(void **unused) {
    (void)unused;
    for (size_t percent = 10; percent < 97; percent += 22) {
        write_random(directory, &traces[0]);
        spoil(percent, 3);
        assert_true(compare() > 0);
        remove_directory(directory);
    }
}

/* A file that becomes shorter after the trace was opened: helpers see an end that is before the reader's. */
static void files_may_become_shorter(void **unused) {
    (void)unused;
    const struct random_trace *kinds[] = {&traces[0], &traces[4]};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct seen seen = {0};
        struct ct_trace_cursor *cursor;
        char path[400];
        size_t size;
        write_random(directory, kinds[i]);
        struct ct_trace *trace = open_trace(true);
        snprintf(path, sizeof path, "%s/thread_1/index.%s", directory, kinds[i]->raw ? "atf" : "ctp");
        free(load(path, &size));
        assert_int_equal(truncate(path, (off_t)size / 2), 0);
        alarm(SECONDS); /* it must end */
        assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
        read_all(&seen, cursor);
        alarm(0);
        assert_true(seen.events > 1000 && seen.events < kinds[i]->events);
        ct_trace_close(trace);
        remove_directory(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(readers_see_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(somebody_reads_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(files_may_become_shorter, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
