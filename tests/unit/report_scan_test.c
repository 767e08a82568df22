/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of time: what readers see from the middle of a thread on is what they see from its beginning. */
#include "report/functions.h"
#include "report/graph.h"
#include "report/replay.h"
#include "report/scan.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 120, ROUNDS = 12, THREADS = 3, RANGES = 10, TEXT = 1 << 16 };

/* Calls and returns, with gaps where `gaps` is set, and some calls that stay open. *last: time of the last event. */
static char *random_script(uint32_t *random, bool gaps, int *last) {
    static const char *const names[] = {"main", "work", "leaf", "recurse", "setjmp"};
    char *script = calloc(1, 64 * (size_t)EVENTS), *at = script;
    int stack[64], depth = 0, now = 0;
    for (int i = 0; i < EVENTS; i++) {
        *random = *random * 1103515245 + 12345;
        now += 1 + (int)(*random >> 20) % 50;
        if (gaps && i && i % 40 == 0) {
            at += sprintf(at, "%d~7/DRAIN_LAG ", now);
            continue;
        }
        if (depth == 0 || (depth < 60 && (*random >> 16) % 2)) {
            int name = (int)(*random >> 24) % 5;
            at += sprintf(at, "%d+%s ", now, names[name]);
            if (name != 4) /* setjmp is recorded on entry only */
                stack[depth++] = name;
        } else {
            depth--;
            at += sprintf(at, "%d%c%s ", now, (*random >> 28) % 8 ? '-' : '!', names[stack[depth]]);
        }
    }
    *last = now;
    return script;
}

struct fixture {
    struct sample_thread threads[THREADS];
    struct ct_trace *trace;
    char *directory;
    int last;
};

static struct fixture open_random(uint32_t *random, bool gaps, size_t threads) {
    struct fixture f = {.directory = sample_directory()};
    for (size_t i = 0; i < threads; i++) {
        int last;
        f.threads[i] = (struct sample_thread){.id = (uint32_t)i + 1,
                                              .tid = 1000 + (uint32_t)i,
                                              .name = "t",
                                              .script = random_script(random, gaps, &last)};
        f.last = last > f.last ? last : f.last;
    }
    char *path = sample_write(
        f.directory, &(struct sample){.threads = f.threads, .thread_count = threads, .end_ns = (uint64_t)f.last + 100});
    assert_int_equal(ct_trace_open(&f.trace, path, NULL, 0), 0);
    free(path);
    return f;
}

static void close_random(struct fixture *f) {
    ct_trace_close(f->trace);
    for (size_t i = 0; i < THREADS; i++)
        free((char *)f->threads[i].script);
    sample_remove(f->directory);
}

/* ---- the replay ---- */

static int on_line(void *arg, const struct ct_replay_line *l) {
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, TEXT - used, "%d %d %zu %llu %llu %u %s\n", l->kind, l->end, l->thread,
             (unsigned long long)(l->time_ns - SAMPLE_START), (unsigned long long)l->duration_ns, l->indent, l->name);
    return 0;
}

/* With blocks of code, of which this trace has none, the replay reads from the beginning. */
static void replay_begins_in_the_middle(void **state) {
    (void)state;
    uint32_t random = 1;
    char *whole = malloc(TEXT), *part = malloc(TEXT);
    for (int round = 0; round < ROUNDS; round++) {
        struct fixture f = open_random(&random, round & 1, round & 2 ? 1 : THREADS);
        for (int i = 1; i < RANGES; i++) {
            struct ct_replay_options options = {
                .select.from_ns = SAMPLE_START + (uint64_t)(f.last * i / RANGES),
                .select.to_ns = i & 1 ? SAMPLE_START + (uint64_t)(f.last * (i + 2) / RANGES) : 0,
                .max_depth = i & 4 ? 3 : 0,
            };
            *whole = *part = 0;
            assert_int_equal(ct_replay(f.trace, &options, on_line, part), 0);
            options.blocks = true;
            assert_int_equal(ct_replay(f.trace, &options, on_line, whole), 0);
            assert_string_equal(part, whole);
            assert_true(*part);
        }
        close_random(&f);
    }
    free(whole);
    free(part);
}

/* ---- the report ---- */

static uint64_t self_between(struct ct_trace *trace, uint64_t from_ns, uint64_t to_ns, uint64_t *calls) {
    struct ct_report_options options = {.select = {.from_ns = from_ns, .to_ns = to_ns}};
    struct ct_report *report;
    uint64_t self_ns = 0;
    assert_int_equal(ct_report_make(&report, trace, &options), 0);
    for (size_t i = 0; i < report->row_count; i++) {
        const struct ct_report_row *row = &report->rows[i];
        assert_true(row->calls > 0);
        assert_true(row->self_ns <= row->total_ns);
        assert_true(!to_ns || row->max_ns <= to_ns - from_ns);
        self_ns += row->self_ns;
        *calls += row->calls;
    }
    ct_report_free(report);
    return self_ns;
}

/* Times of neighbouring ranges add up to the time of both. */
static void times_are_those_in_the_range(void **state) {
    (void)state;
    uint32_t random = 7;
    for (int round = 0; round < ROUNDS; round++) {
        struct fixture f = open_random(&random, false, THREADS);
        uint64_t all_calls = 0, part_calls = 0, sum = 0;
        uint64_t all = self_between(f.trace, 0, 0, &all_calls), from = 0;
        for (int i = 1; i <= RANGES; i++) {
            uint64_t to = i < RANGES ? SAMPLE_START + (uint64_t)(f.last * i / RANGES) : 0;
            sum += self_between(f.trace, from, to, &part_calls);
            from = to;
        }
        assert_int_equal(sum, all);
        assert_true(part_calls > all_calls); /* calls over a limit count in both */
        close_random(&f);
    }
}

static uint64_t total_of(struct ct_trace *trace, const char *name, uint64_t from_ns, uint64_t to_ns, uint64_t *calls) {
    const char *const names[] = {name, NULL};
    struct ct_graph_options options = {.select = {.functions = names, .from_ns = from_ns, .to_ns = to_ns}, .depth = 2};
    struct ct_graph *graph;
    assert_int_equal(ct_graph_make(&graph, trace, &options), 0);
    uint64_t total = 0;
    for (size_t i = 0; i < graph->function_count; i++) {
        total += graph->functions[i]->callers.total_ns;
        *calls += graph->functions[i]->callers.calls;
    }
    ct_graph_free(graph);
    return total;
}

static uint64_t reported_total(struct ct_trace *trace, const char *name, uint64_t from_ns, uint64_t to_ns,
                               uint64_t *calls) {
    const char *const names[] = {name, NULL};
    struct ct_report_options options = {.select = {.functions = names, .from_ns = from_ns, .to_ns = to_ns}};
    struct ct_report *report;
    assert_int_equal(ct_report_make(&report, trace, &options), 0);
    uint64_t total = report->row_count ? report->rows[0].total_ns : 0;
    *calls += report->row_count ? report->rows[0].calls : 0;
    ct_report_free(report);
    return total;
}

static void graph_and_report_agree(void **state) {
    (void)state;
    uint32_t random = 3;
    for (int round = 0; round < ROUNDS; round++) {
        struct fixture f = open_random(&random, round & 1, 1);
        uint64_t from = SAMPLE_START + (uint64_t)(f.last / 3), to = SAMPLE_START + (uint64_t)(f.last / 2);
        uint64_t graph_calls = 0, report_calls = 0;
        assert_int_equal(total_of(f.trace, "work", from, to, &graph_calls),
                         reported_total(f.trace, "work", from, to, &report_calls));
        assert_int_equal(graph_calls, report_calls);
        close_random(&f);
    }
}

/* ---- the scan itself ---- */

static void ignore_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

static bool never(void *arg, size_t process, uint64_t function) {
    (void)arg, (void)process, (void)function;
    return false;
}

static void open_calls_are_known(void **state) {
    (void)state;
    struct sample_thread t = {.id = 1,
                              .tid = 1000,
                              .name = "t",
                              .script = "0+main%1 10+work 20+leaf 30-leaf 40+leaf 60-leaf 70-work 90-main"};
    char *directory = sample_directory();
    char *path = sample_write(directory, &(struct sample){.threads = &t, .thread_count = 1});
    struct ct_trace *trace;
    struct ct_facts facts;
    struct ct_frames frames = {0};
    struct ct_scan scan;
    struct ct_trace_event event;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    assert_int_equal(ct_facts_load(&facts, trace), 0);
    struct ct_scan_setup setup = {.trace = trace,
                                  .facts = &facts,
                                  .from_ns = SAMPLE_START + 35,
                                  .to_ns = SAMPLE_START + 65,
                                  .frames = &frames,
                                  .lost = ignore_lost,
                                  .entry_only = never};
    assert_int_equal(ct_scan_open(&scan, &setup), 0);
    assert_int_equal(scan.next, 4);
    assert_int_equal(frames.count, 2);
    struct ct_frame *frame = ct_frames_next(&frames, NULL);
    assert_int_equal(frame->began_ns, SAMPLE_START);
    assert_int_equal(frame->start_ns, SAMPLE_START + 35);
    assert_int_equal(frame->detail, 0);
    frame = ct_frames_next(&frames, frame);
    assert_int_equal(frame->began_ns, SAMPLE_START + 10);
    assert_int_equal(frame->sequence, 1);
    assert_int_equal(frame->called_at, 1);
    assert_null(ct_frames_next(&frames, frame));
    assert_true(ct_scan_next(&scan, &event));
    assert_int_equal(event.sequence, 4);
    assert_true(ct_scan_next(&scan, &event));
    assert_false(ct_scan_next(&scan, &event));
    assert_false(ct_scan_next(&scan, &event));
    assert_true(scan.past);
    assert_int_equal(ct_scan_end(&scan), SAMPLE_START + 65);
    ct_scan_close(&scan);
    setup.from_ns = SAMPLE_START + 95; /* after its end */
    setup.to_ns = 0;
    assert_int_equal(ct_scan_open(&scan, &setup), 0);
    assert_int_equal(frames.count, 0);
    assert_false(ct_scan_next(&scan, &event));
    ct_scan_close(&scan);
    ct_frames_free(&frames);
    ct_facts_free(&facts);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_begins_in_the_middle),
        cmocka_unit_test(times_are_those_in_the_range),
        cmocka_unit_test(graph_and_report_agree),
        cmocka_unit_test(open_calls_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
