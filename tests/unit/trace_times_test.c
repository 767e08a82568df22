/* SPDX-License-Identifier: Apache-2.0 */
/* Time that is not the program's own work: files of switches, waits for the recorder, and what both mean for the times
 * of calls; wall-clock times. */
#include "tests/tools/place_of.h"
#include "trace/frames.h"
#include "trace/wall.h"
#include "trace_util.h"
#include <contrail/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

static char root[200];

static int set_up(void **state) {
    (void)state;
    make_directory(root, sizeof root);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_directory(root);
    return 0;
}

/* ---- files of switches ---- */

static const struct ct_switch_span spans[] = {
    {1000, 1500, CT_SWITCHES_BLOCKED},
    {1500, 1501, CT_SWITCHES_PREEMPTED},
    {5000, 9000000000, CT_SWITCHES_UNKNOWN},
    {9000000001, 9000000300, CT_SWITCHES_PREEMPTED},
};
enum { SPANS = sizeof spans / sizeof spans[0] };

static struct ct_switches_writer *writer_of(uint64_t begins_ns, uint64_t limit) {
    struct ct_switches_writer *w;
    assert_int_equal(ct_switches_writer_open(&w, place_of(root), 1, 77, begins_ns, limit), 0);
    return w;
}

static void write_spans(uint64_t begins_ns) {
    struct ct_switches_writer *w = writer_of(begins_ns, CT_SWITCHES_LIMIT);
    for (size_t i = 0; i < SPANS; i++)
        ct_switches_writer_put(w, &spans[i]);
    assert_int_equal(ct_switches_writer_close(w), 0);
}

static const char *switches_path(void) {
    return in("%s/thread_1/" CT_SWITCHES_FILE, root);
}

static void assert_same(const struct ct_switch_span *a, const struct ct_switch_span *b) {
    assert_int_equal(a->from_ns, b->from_ns);
    assert_int_equal(a->to_ns, b->to_ns);
    assert_int_equal(a->kind, b->kind);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    struct ct_switches_reader *r;
    struct ct_switch_span span;
    assert_int_equal(ct_switches_reader_open(&r, root, 1), CT_ERR_NOT_FOUND);
    write_spans(900);
    assert_int_equal(ct_switches_reader_open(&r, root, 1), 0);
    assert_int_equal(ct_switches_reader_begins(r), 900);
    for (size_t i = 0; i < SPANS; i++) {
        assert_int_equal(ct_switches_reader_next(r, &span), 1);
        assert_same(&span, &spans[i]);
    }
    assert_int_equal(ct_switches_reader_next(r, &span), 0);
    assert_true(ct_switches_reader_finished(r));
    ct_switches_reader_close(r);
}

/* A recorder that was killed leaves a file that ends anywhere: spans before are read, and none is made up. */
static void cut_anywhere(void **state) {
    (void)state;
    size_t size;
    write_spans(900);
    uint8_t *bytes = load(switches_path(), &size);
    for (size_t cut = 0; cut < size; cut++) {
        struct ct_switches_reader *r;
        struct ct_switch_span span;
        store(switches_path(), bytes, cut);
        assert_int_equal(ct_switches_reader_open(&r, root, 1), 0);
        size_t count = 0;
        while (ct_switches_reader_next(r, &span) > 0)
            assert_same(&span, &spans[count++]);
        assert_false(ct_switches_reader_finished(r));
        ct_switches_reader_close(r);
    }
    free(bytes);
}

static void damage_is_found(void **state) {
    (void)state;
    size_t size;
    write_spans(900);
    uint8_t *bytes = load(switches_path(), &size);
    for (size_t at = 0; at < size * 8; at++) {
        struct ct_switches_reader *r;
        struct ct_switch_span span;
        int status;
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        store(switches_path(), bytes, size);
        status = ct_switches_reader_open(&r, root, 1);
        if (!status) {
            while ((status = ct_switches_reader_next(r, &span)) > 0)
                assert_true(span.to_ns > span.from_ns);
            assert_true(status == CT_ERR_BAD_FILE || !ct_switches_reader_finished(r));
            ct_switches_reader_close(r);
        }
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    free(bytes);
}

/* The files stay below the limit, and have the newest spans without a hole. */
static void the_newest_are_kept(void **state) {
    (void)state;
    enum { COUNT = 100000, LIMIT = 64 << 10 };
    struct ct_switches_writer *w = writer_of(1, LIMIT);
    for (uint64_t i = 1; i <= COUNT; i++)
        ct_switches_writer_put(w, &(struct ct_switch_span){i * 1000, i * 1000 + 500, CT_SWITCHES_BLOCKED});
    assert_int_equal(ct_switches_writer_close(w), 0);
    struct stat now, old;
    assert_int_equal(stat(switches_path(), &now), 0);
    assert_int_equal(stat(in("%s/thread_1/" CT_SWITCHES_OLD, root), &old), 0);
    assert_true(now.st_size + old.st_size < LIMIT + 8192);
    struct ct_switches_reader *r;
    struct ct_switch_span span;
    uint64_t last = 0, count = 0;
    assert_int_equal(ct_switches_reader_open(&r, root, 1), 0);
    uint64_t begins = ct_switches_reader_begins(r);
    for (; ct_switches_reader_next(r, &span) > 0; count++) {
        assert_int_equal(span.from_ns, count ? last + 500 : begins + 500);
        last = span.to_ns;
    }
    assert_true(begins > 1 && count > 1000 && last == COUNT * 1000ull + 500);
    ct_switches_reader_close(r);
}

/* ---- the timeline ---- */

static struct ct_timeline timeline_of(struct ct_wait_span *waits, size_t count) {
    struct ct_timeline t = {.waits = {.spans = waits, .count = count}};
    assert_int_equal(ct_switches_reader_open(&t.switches, root, 1), 0);
    return t;
}

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char text[1000];
static void put(const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - length, format, arguments);
    va_end(arguments);
}

/* Where both have a span, it is a wait. */
static void waits_come_first(void **state) {
    (void)state;
    static const char kinds[] = {"bpuw"};
    struct ct_wait_span waits[] = {{50, 60, ""}, {150, 250, ""}, {320, 330, ""}, {390, 700, ""}};
    struct ct_switches_writer *w = writer_of(1, CT_SWITCHES_LIMIT);
    ct_switches_writer_put(w, &(struct ct_switch_span){100, 200, CT_SWITCHES_BLOCKED});
    ct_switches_writer_put(w, &(struct ct_switch_span){300, 400, CT_SWITCHES_PREEMPTED});
    ct_switches_writer_put(w, &(struct ct_switch_span){500, 600, CT_SWITCHES_UNKNOWN});
    ct_switches_writer_put(w, &(struct ct_switch_span){650, 800, CT_SWITCHES_BLOCKED});
    assert_int_equal(ct_switches_writer_close(w), 0);
    struct ct_timeline t = timeline_of(waits, 4);
    struct ct_off_span span;
    text[0] = 0;
    while (ct_timeline_next(&t, &span))
        put("%c%llu-%llu ", kinds[span.kind], (unsigned long long)span.from_ns, (unsigned long long)span.to_ns);
    assert_string_equal(text, "w50-60 b100-150 w150-250 p300-320 w320-330 p330-390 w390-700 b700-800 ");
    ct_switches_reader_close(t.switches);

    t = timeline_of(waits, 4);
    struct ct_off off = {{0}};
    assert_int_equal(ct_timeline_pass(&t, 120, &off), 10);
    assert_int_equal(off.ns[CT_OFF_BLOCKED], 20);
    assert_int_equal(ct_timeline_pass(&t, 160, &off), 10);
    assert_int_equal(ct_timeline_pass(&t, 10000, &off), 90 + 10 + 310);
    assert_int_equal(off.ns[CT_OFF_BLOCKED], 50 + 100);
    assert_int_equal(off.ns[CT_OFF_PREEMPTED], 80);
    assert_int_equal(off.ns[CT_OFF_UNKNOWN], 0);
    assert_int_equal(ct_timeline_pass(&t, 20000, &off), 0);
    ct_switches_reader_close(t.switches);
}

/* ---- times of calls ---- */

static void ignore(void *arg, struct ct_frame *frame) {
    (void)arg;
    (void)frame;
}

static struct ct_trace_event event(uint64_t ns, uint64_t function, enum ct_trace_kind kind, uint32_t depth) {
    return (struct ct_trace_event){.timestamp_ns = ns, .function_id = function, .kind = kind, .depth = depth};
}

/* outer from 100 to 1000 calls inner from 200 to 600. The recorder made the thread wait from 300 to 400, in inner; it
 * was blocked from 500 to 550 in inner, and preempted from 590 to 620: in both. */
static void calls_without_waits(void **state) {
    (void)state;
    struct ct_wait_span waits[] = {{300, 400, "libraries"}};
    struct ct_switches_writer *w = writer_of(1, CT_SWITCHES_LIMIT);
    ct_switches_writer_put(w, &(struct ct_switch_span){310, 390, CT_SWITCHES_BLOCKED});
    ct_switches_writer_put(w, &(struct ct_switch_span){500, 550, CT_SWITCHES_BLOCKED});
    ct_switches_writer_put(w, &(struct ct_switch_span){590, 620, CT_SWITCHES_PREEMPTED});
    assert_int_equal(ct_switches_writer_close(w), 0);
    struct ct_timeline t = timeline_of(waits, 1);
    struct ct_frames f = {0};
    struct ct_frame closed;
    struct ct_open_time set = {0};
    struct ct_trace_event e = event(100, 1, CT_TRACE_CALL, 0);
    ct_frames_begin(&f, true, ignore, NULL);
    f.timeline = &t;
    struct ct_frame *outer = ct_frames_call(&f, &e);
    ct_frames_open_time(&f, outer, &set);
    e = event(200, 2, CT_TRACE_CALL, 1);
    assert_non_null(ct_frames_call(&f, &e));
    e = event(600, 2, CT_TRACE_RETURN, 1);
    assert_true(ct_frames_end(&f, &e, &closed));
    assert_int_equal(closed.self_ns, 300);
    assert_int_equal(ct_frames_duration(&f, &closed, 600), 300);
    assert_int_equal(closed.off_self.ns[CT_OFF_BLOCKED], 50);
    assert_int_equal(closed.off_self.ns[CT_OFF_PREEMPTED], 10);
    e = event(1000, 1, CT_TRACE_RETURN, 0);
    assert_true(ct_frames_end(&f, &e, &closed));
    assert_int_equal(closed.self_ns, 100 + 400);
    assert_int_equal(ct_frames_duration(&f, &closed, 1000), 800);
    assert_int_equal(closed.off_self.ns[CT_OFF_PREEMPTED], 20);
    struct ct_off total = ct_frames_off(&f, &closed), sum = {{0}};
    assert_int_equal(total.ns[CT_OFF_BLOCKED], 50);
    assert_int_equal(total.ns[CT_OFF_PREEMPTED], 30);
    assert_int_equal(ct_frames_close_time(&f, &set, 1000), 800);
    ct_frames_close_off(&f, &set, &sum);
    assert_memory_equal(&sum, &total, sizeof sum);
    ct_frames_free(&f);
    ct_switches_reader_close(t.switches);
}

/* A wait inside a gap is part of the gap. */
static void a_wait_in_a_gap_counts_once(void **state) {
    (void)state;
    struct ct_wait_span waits[] = {{300, 400, ""}};
    struct ct_timeline t = {.waits = {.spans = waits, .count = 1}, .over = true};
    struct ct_frames f = {0};
    struct ct_frame closed;
    struct ct_trace_event e = event(100, 1, CT_TRACE_CALL, 0);
    ct_frames_begin(&f, false, ignore, NULL);
    f.timeline = &t;
    assert_non_null(ct_frames_call(&f, &e));
    e = event(200, 2, CT_TRACE_CALL, 1);
    assert_non_null(ct_frames_call(&f, &e));
    ct_frames_gap(&f, 600 - 200);
    e = event(600, 2, CT_TRACE_RETURN, 1);
    assert_true(ct_frames_end(&f, &e, &closed));
    e = event(1000, 1, CT_TRACE_RETURN, 0);
    assert_true(ct_frames_end(&f, &e, &closed));
    assert_int_equal(ct_frames_duration(&f, &closed, 1000), 900 - 400);
    ct_frames_free(&f);
}

/* ---- wall-clock times ---- */

#define SECOND 1000000000ull
#define NOON   (1735819445ull * SECOND) /* 2025-01-02T12:04:05Z */

static void wall_times(void **state) {
    (void)state;
    struct ct_wall_pair pairs[] = {{100 * SECOND, NOON, 3600}, {200 * SECOND, NOON + 100 * SECOND, 3600}};
    const struct ct_wall w = {pairs, 2};
    char wall[CT_WALL_TEXT];
    uint64_t ns;
    ct_wall_text(&w, 100 * SECOND + 123456789, wall);
    assert_string_equal(wall, "2025-01-02T13:04:05.123456789+01:00");
    ct_wall_text(&w, 99 * SECOND, wall);
    assert_string_equal(wall, "2025-01-02T13:04:04.000000000+01:00");
    static const char *const same[] = {
        "2025-01-02T13:04:05.5",  "2025-01-02 13:04:05.500000000+01:00", "13:04:05.5",
        "2025-01-02T12:04:05.5Z", "2025-01-02T05:34:05,5-06:30",         "12:04:05.5+0000"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_int_equal(ct_clock_parse_wall(&w, same[i], &ns), 0);
        assert_int_equal(ns, 100 * SECOND + SECOND / 2);
    }
    static const char *const wrong[] = {"",          "5",          "2025-01-02", "25:00:00",
                                        "13:04:05x", "13:04:05+1", "1.5s",       "2025-13-02T00:00:00"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(ct_clock_parse_wall(&w, wrong[i], &ns), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_clock_parse_wall(&(struct ct_wall){0}, "12:00:00", &ns), CT_ERR_NOT_FOUND);
    ct_wall_text(&(struct ct_wall){0}, 1, wall);
    assert_string_equal(wall, "");
}

/* Somebody set the clock back by a minute between 150 s and 160 s. */
static void the_clock_was_set(void **state) {
    (void)state;
    struct ct_wall_pair pairs[] = {{100 * SECOND, NOON, 0},
                                   {150 * SECOND, NOON + 50 * SECOND, 0},
                                   {160 * SECOND, NOON, 0},
                                   {200 * SECOND, NOON + 40 * SECOND, 0}};
    const struct ct_wall w = {pairs, 4};
    char wall[CT_WALL_TEXT];
    uint64_t ns;
    ct_wall_text(&w, 155 * SECOND, wall);
    assert_string_equal(wall, "2025-01-02T12:05:00.000000000+00:00");
    ct_wall_text(&w, 170 * SECOND, wall);
    assert_string_equal(wall, "2025-01-02T12:04:15.000000000+00:00");
    assert_int_equal(ct_clock_parse_wall(&w, "12:04:15", &ns), 0);
    assert_int_equal(ns, 110 * SECOND); /* it was there twice */
    assert_int_equal(ct_clock_parse_wall(&w, "12:06:15", &ns), 0);
    assert_int_equal(ns, 290 * SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_without_waits, set_up, tear_down),
        cmocka_unit_test(a_wait_in_a_gap_counts_once),
        cmocka_unit_test(wall_times),
        cmocka_unit_test(the_clock_was_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
