/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries: what they say is what the events say, and nothing that is wrong with one matters. */
#include "trace/summary.h"
#include "abi/atf.h"
#include "process_util.h"
#include "random_util.h"
#include "summary_util.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include "trace_util.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- a reader that reads everything ---- */

/* Small spans, and a start in each. */
static const struct ct_summary_limits fine = {.least = 1, .span_events = 1000, .all_starts = true};

struct reader {
    struct ct_trace *trace;
    struct ct_facts facts;
    struct ct_trace_cursor *cursor;
    struct ct_frames frames;
    struct ct_trace_event event;
    size_t gap;
    uint64_t last_ns;
};

static void ignore(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

static void begin_reading(struct reader *r, const struct ct_summary_limits *limits) {
    *r = (struct reader){0};
    assert_int_equal(ct_trace_open(&r->trace, directory, NULL, 0), 0);
    r->trace->summary = *limits;
    assert_int_equal(ct_facts_load(&r->facts, r->trace), 0);
    assert_int_equal(ct_trace_cursor_open_thread(&r->cursor, r->trace, 0, 0), 0);
    ct_frames_begin(&r->frames, r->facts.threads[0].complete, ignore, NULL);
}

static void end_reading(struct reader *r) {
    ct_trace_cursor_close(r->cursor);
    ct_frames_free(&r->frames);
    ct_facts_free(&r->facts);
    ct_trace_close(r->trace);
}

static bool is_entry_only(const struct ct_trace_event *event) {
    return event->function_id >> 32 == 1 && (uint32_t)event->function_id < RANDOM_ENTRY_ONLY;
}

/* Handles the event; returns the duration of the call that it ends, or UINT64_MAX. */
static uint64_t handle_event(struct reader *r) {
    const struct ct_thread_facts *facts = &r->facts.threads[0];
    const struct ct_trace_event *event = &r->event;
    struct ct_frame closed;
    uint64_t duration = UINT64_MAX;
    if (r->gap < facts->gap_count && facts->gaps[r->gap].at <= event->sequence)
        ct_frames_gap(&r->frames, r->last_ns ? event->timestamp_ns - r->last_ns : 0);
    while (r->gap < facts->gap_count && facts->gaps[r->gap].at <= event->sequence)
        r->gap++;
    if (event->kind == CT_TRACE_CALL && is_entry_only(event))
        (void)ct_frames_entry(&r->frames, event);
    else if (event->kind == CT_TRACE_CALL)
        assert_non_null(ct_frames_call(&r->frames, event));
    else if (event->function_id && ct_frames_end(&r->frames, event, &closed))
        duration = ct_frames_duration(&r->frames, &closed, event->timestamp_ns);
    r->last_ns = event->timestamp_ns;
    return duration;
}

/* ---- open calls ---- */

static size_t number_of(const struct ct_frames *f, size_t place) {
    size_t number = 0;
    if (place >= f->used || !f->places[place].serial)
        return CT_NO_FRAME;
    while ((place = f->places[place].older) != CT_NO_FRAME)
        number++;
    return number;
}

static void expect_same_frame(const struct ct_frames *a, const struct ct_frame *x, const struct ct_frames *b,
                              const struct ct_frame *y) {
    assert_int_equal(x->function, y->function);
    assert_int_equal(x->start_ns, y->start_ns);
    assert_int_equal(x->began_ns, y->began_ns);
    assert_int_equal(x->sequence, y->sequence);
    assert_int_equal(x->skipped_ns, y->skipped_ns);
    assert_int_equal(x->self_ns, y->self_ns);
    assert_int_equal(x->unknown, y->unknown);
    assert_int_equal(x->depth, y->depth);
    assert_int_equal(x->detail, y->detail);
    assert_int_equal(x->called_at, y->called_at);
    assert_int_equal(number_of(a, ct_frames_caller(a, x)), number_of(b, ct_frames_caller(b, y)));
}

/* The frames are in the same state, whatever the places are. */
static void expect_same_frames(const struct ct_frames *a, const struct ct_frames *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->row_count, b->row_count);
    assert_int_equal(a->trusted, b->trusted);
    assert_int_equal(a->open, b->open);
    assert_int_equal(a->others.count, b->others.count);
    assert_int_equal(a->many, b->many);
    assert_int_equal(a->after_gap, b->after_gap);
    assert_int_equal(a->last_ns, b->last_ns);
    assert_int_equal(a->skipped_ns, b->skipped_ns);
    assert_int_equal(number_of(a, a->running), number_of(b, b->running));
    for (size_t i = a->newest, k = b->newest; i != CT_NO_FRAME; i = a->places[i].older, k = b->places[k].older)
        expect_same_frame(a, &a->places[i], b, &b->places[k]);
    for (size_t i = 0; i < a->row_count; i++)
        assert_int_equal(number_of(a, a->row[i]), number_of(b, b->row[i]));
    for (size_t i = 0; i < a->others.capacity; i++) {
        uint64_t place;
        if (a->others.slots[i].depth) {
            assert_true(ct_depths_get(&b->others, a->others.slots[i].depth, &place));
            assert_int_equal(number_of(a, a->others.slots[i].value), number_of(b, place));
        }
    }
}

static void expect_start(struct reader *r, const struct ct_summary *summary, size_t start) {
    struct ct_frames frames = {0};
    ct_frames_begin(&frames, r->facts.threads[0].complete, ignore, NULL);
    assert_int_equal(ct_summary_frames(summary, start, &frames), 0);
    expect_same_frames(&r->frames, &frames);
    assert_int_equal(ct_summary_start(summary, start)->gaps, r->gap);
    assert_int_equal(ct_summary_start_last_ns(summary, start), r->last_ns);
    ct_frames_free(&frames);
}

/* Reads everything and compares each start, and each span, with what was read. Returns the number of starts. */
static size_t compare_all(const struct ct_summary_limits *limits, bool in_memory) {
    struct reader r;
    struct ct_summary *summary;
    begin_reading(&r, limits);
    struct ct_summary_options options = {.facts = &r.facts, .in_memory = in_memory};
    assert_int_equal(ct_summary_open(&summary, r.trace, 0, &options), 0);
    size_t span = 0, start = 0, starts = 0, spans = ct_summary_span_count(summary);
    struct cts_span seen = {0};
    for (bool more = ct_trace_cursor_next(r.cursor, &r.event); more;) {
        const struct cts_span *said = ct_summary_span(summary, span);
        if (r.event.sequence == said->first_seq) {
            start = ct_summary_start_before(summary, span);
            seen = (struct cts_span){.time_first_ns = r.event.timestamp_ns};
            if (ct_summary_start_sequence(summary, start) == r.event.sequence) {
                expect_start(&r, summary, start);
                starts++;
            }
        }
        uint64_t duration = handle_event(&r);
        assert_true(ct_summary_may_have(summary, span, r.event.function_id));
        assert_int_equal(ct_summary_find(summary, r.event.sequence), span);
        seen.count++;
        seen.calls += r.event.kind == CT_TRACE_CALL;
        seen.ends += duration != UINT64_MAX;
        seen.signals += r.event.function_id == 0;
        seen.time_last_ns = r.event.timestamp_ns;
        if (duration != UINT64_MAX && duration > seen.longest_ns)
            seen.longest_ns = duration;
        more = ct_trace_cursor_next(r.cursor, &r.event);
        if (more && (span + 1 == spans || r.event.sequence < ct_summary_span(summary, span + 1)->first_seq))
            continue;
        assert_int_equal(said->time_first_ns, seen.time_first_ns);
        assert_int_equal(said->time_last_ns, seen.time_last_ns);
        assert_int_equal(said->count, seen.count);
        assert_int_equal(said->calls, seen.calls);
        assert_int_equal(said->ends, seen.ends);
        assert_int_equal(said->signals, seen.signals);
        assert_int_equal(said->longest_ns, seen.longest_ns);
        span++;
    }
    assert_int_equal(span, spans);
    ct_summary_close(summary);
    end_reading(&r);
    return starts;
}

static void open_calls_are_those_of_a_whole_reading(void **unused) {
    (void)unused;
    static const struct random_trace traces[] = {
        {.seed = 1, .threads = 1, .events = 40000},
        {.seed = 2, .threads = 1, .events = 40000, .stacks = 5},
        {.seed = 3, .threads = 1, .events = 40000, .stacks = 3, .gaps = 60},
        {.seed = 4, .threads = 1, .events = 40000, .silent = 60, .unfinished = true},
        {.seed = 5, .threads = 1, .events = 40000, .odd = 20},
        {.seed = 6, .threads = 1, .events = 40000, .odd = 20, .gaps = 40, .silent = 40, .stacks = 2},
        {.seed = 7, .threads = 1, .events = 40000, .stacks = 2, .keep = 30000},
        {.seed = 8, .threads = 1, .events = 60000, .raw = true},
        {.seed = 9, .threads = 1, .events = 20000, .back = true},
    };
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        write_random(directory, &traces[i]);
        assert_true(compare_all(&fine, true) >= 6);
        remove_directory(directory);
    }
}

/* ---- its size ---- */

static void its_size_is_bounded(void **unused) {
    (void)unused;
    struct stat index, summary;
    write_random(directory, &(struct random_trace){.seed = 11, .threads = 1, .events = 400000, .stacks = 2});
    assert_true(compare_all(&(struct ct_summary_limits){0}, false) > 1);
    assert_int_equal(stat(in("%s/thread_1/index.ctp", directory), &index), 0);
    assert_int_equal(stat(in("%s/thread_1/" CTS_FILE, directory), &summary), 0);
    assert_true(summary.st_size * 100 <= index.st_size * 3 + 100 * 4096);
}

/* ---- files ---- */

static const struct random_trace plain = {.seed = 21, .threads = 1, .events = 30000, .stacks = 1};

/* Opens the summary; true when it came from the file. */
static bool opens_stored(void) {
    struct reader r;
    struct ct_summary *summary;
    begin_reading(&r, &fine);
    const struct ct_summary_options options = {.facts = &r.facts, .stored_only = true};
    int status = ct_summary_open(&summary, r.trace, 0, &options);
    if (!status)
        ct_summary_close(summary);
    end_reading(&r);
    return !status;
}

static void make_stored(void) {
    assert_true(compare_all(&fine, false) > 3);
    assert_true(opens_stored());
}

static void it_is_kept_and_used_again(void **unused) {
    (void)unused;
    struct stat before, after;
    write_random(directory, &plain);
    assert_false(opens_stored());
    make_stored();
    assert_int_equal(stat(in("%s/thread_1/" CTS_FILE, directory), &before), 0);
    make_stored();
    assert_int_equal(stat(in("%s/thread_1/" CTS_FILE, directory), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mode & 0777, 0600);
}

static void small_threads_have_none(void **unused) {
    (void)unused;
    struct reader r;
    struct ct_summary *summary;
    write_random(directory, &plain);
    begin_reading(&r, &(struct ct_summary_limits){0});
    assert_int_equal(ct_summary_open(&summary, r.trace, 0, &(struct ct_summary_options){.facts = &r.facts}),
                     CT_ERR_NOT_FOUND);
    end_reading(&r);
    assert_int_not_equal(access(in("%s/thread_1/" CTS_FILE, directory), F_OK), 0);
}

static void no_file_in_directories_that_others_can_write(void **unused) {
    (void)unused;
    write_random(directory, &plain);
    assert_int_equal(chmod(in("%s/thread_1", directory), 0777), 0);
    assert_true(compare_all(&fine, false) > 3);
    assert_false(opens_stored());
}

/* A file without an end: the recorder may still be writing it. */
static void an_unfinished_file_is_kept_when_it_is_quiet(void **unused) {
    (void)unused;
    struct random_trace cut = plain;
    cut.unfinished = true;
    write_random(directory, &cut);
    assert_true(compare_all(&fine, false) > 3);
    assert_false(opens_stored());
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}}, older[2] = {{.tv_sec = 900}, {.tv_sec = 900}};
    assert_int_equal(utimensat(AT_FDCWD, in("%s/thread_1/index.ctp", directory), old, 0), 0);
    make_stored();
    assert_int_equal(utimensat(AT_FDCWD, in("%s/thread_1/index.ctp", directory), older, 0), 0);
    assert_false(opens_stored());
}

/* Another trace with the same number of events, in the place of the one that the summary was made from. */
static void one_of_another_trace_is_not_used(void **unused) {
    (void)unused;
    size_t size;
    struct random_trace other = plain;
    write_random(directory, &plain);
    make_stored();
    uint8_t *bytes = load(in("%s/thread_1/" CTS_FILE, directory), &size);
    remove_directory(directory);
    other.seed++;
    write_random(directory, &other);
    store(in("%s/thread_1/" CTS_FILE, directory), bytes, size);
    free(bytes);
    assert_false(opens_stored());
    make_stored();
}

/* Replaces a text in a file of the process. */
static void change_file(const char *name, const char *from, const char *to) {
    size_t size;
    char path[400];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    uint8_t *bytes = load(path, &size);
    char *at = memmem(bytes, size, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    store(path, bytes, size);
    free(bytes);
}

static void gaps_and_entry_only_functions_belong_to_it(void **unused) {
    (void)unused;
    struct random_trace gaps = plain;
    gaps.gaps = 100;
    write_random(directory, &gaps);
    make_stored();
    change_file("manifest.json", "\"at\": ", "\"at\":7");
    assert_false(opens_stored());
    change_file("manifest.json", "\"at\":7", "\"at\": ");
    assert_true(opens_stored());
    change_file("symbols", "\tf9\t\t\t", "\tf\t9\tx\t");
    assert_false(opens_stored());
}

/* ---- damage ---- */

/* Reads all of it. */
static void use_everything(struct reader *r, const struct ct_summary *summary) {
    struct ct_frames frames = {0};
    size_t spans = ct_summary_span_count(summary);
    for (size_t i = 0; i < spans; i++) {
        (void)ct_summary_may_have(summary, i, i);
        assert_true(ct_summary_span_end(summary, i) > ct_summary_span(summary, i)->first_seq);
        assert_true(ct_summary_find(summary, i * 1000) < spans);
        assert_true(ct_summary_find_time(summary, i * 1000) <= spans);
        size_t start = ct_summary_start_before(summary, i);
        struct ct_trace_event event = {.timestamp_ns = 1, .kind = CT_TRACE_RETURN, .depth = (uint32_t)i};
        struct ct_frame closed;
        ct_frames_begin(&frames, r->facts.threads[0].complete, ignore, NULL);
        if (ct_summary_frames(summary, start, &frames) != 0)
            continue;
        for (size_t k = 0; k < 100; k++, event.depth++)
            (void)ct_frames_end(&frames, &event, &closed);
        event.kind = CT_TRACE_CALL;
        assert_non_null(ct_frames_call(&frames, &event));
        while (ct_frames_take(&frames, 5, &closed)) {
        }
    }
    ct_frames_free(&frames);
}

static bool open_damaged(const uint8_t *bytes, size_t size) {
    struct reader r;
    struct ct_summary *summary;
    store(in("%s/thread_1/" CTS_FILE, directory), bytes, size);
    begin_reading(&r, &fine);
    const struct ct_summary_options options = {.facts = &r.facts, .stored_only = true};
    bool opened = ct_summary_open(&summary, r.trace, 0, &options) == 0;
    if (opened) {
        use_everything(&r, summary);
        ct_summary_close(summary);
    }
    end_reading(&r);
    return opened;
}

static uint32_t next_random(uint64_t *state) {
    return (uint32_t)(random_next(state) >> 33);
}

/* With a right checksum the numbers are what a hostile writer wants: reading must survive them. */
static void damage_is_noticed_and_lies_are_survived(void **unused) {
    (void)unused;
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    size_t size, opened = 0;
    uint64_t random = 88172645463325252u;
    struct random_trace small = plain;
    small.events = 8000;
    small.gaps = 50;
    write_random(directory, &small);
    make_stored();
    uint8_t *bytes = load(in("%s/thread_1/" CTS_FILE, directory), &size);
    for (size_t cut = 0; cut < 200; cut += 9)
        assert_false(open_damaged(bytes, cut));
    for (size_t i = 0; i < 600; i++) {
        size_t at = i < 128 ? i : next_random(&random) % size, covered = offsetof(struct cts_header, version);
        uint8_t old = bytes[at];
        bytes[at] = values[next_random(&random) % sizeof values];
        if (bytes[at] == old)
            bytes[at] ^= 1;
        if (i % 4 == 0)
            assert_false(open_damaged(bytes, size));
        uint32_t crc = ct_crc32(0, bytes + covered, size - covered), kept;
        memcpy(&kept, bytes + 4, sizeof kept);
        memcpy(bytes + 4, &crc, sizeof crc);
        opened += open_damaged(bytes, size);
        bytes[at] = old;
        memcpy(bytes + 4, &kept, sizeof kept);
    }
    assert_true(opened > 20);
    free(bytes);
}

static void verify_compares_it_with_the_events(void **unused) {
    (void)unused;
    size_t size;
    char text[2000];
    write_random(directory, &(struct random_trace){.seed = 31, .threads = 1, .events = 30000});
    assert_true(compare_all(&(struct ct_summary_limits){.least = 1}, false) >= 1);
    assert_int_equal(verify_text(directory, text, sizeof text), 0);
    uint8_t *bytes = load(in("%s/thread_1/" CTS_FILE, directory), &size);
    struct cts_span *span = (struct cts_span *)(bytes + sizeof(struct cts_header));
    span->longest_ns++;
    uint32_t crc = ct_crc32(0, bytes + 8, size - 8);
    memcpy(bytes + 4, &crc, sizeof crc);
    store(in("%s/thread_1/" CTS_FILE, directory), bytes, size);
    assert_int_equal(verify_text(directory, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, CTS_FILE ": it does not say what the events say; delete it"));
    bytes[size - 1] ^= 1; /* the checksum is wrong: nobody uses it */
    store(in("%s/thread_1/" CTS_FILE, directory), bytes, size);
    assert_int_equal(verify_text(directory, text, sizeof text), 0);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(open_calls_are_those_of_a_whole_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(its_size_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_kept_and_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(small_threads_have_none, setup, teardown),
        cmocka_unit_test_setup_teardown(no_file_in_directories_that_others_can_write, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unfinished_file_is_kept_when_it_is_quiet, setup, teardown),
        cmocka_unit_test_setup_teardown(one_of_another_trace_is_not_used, setup, teardown),
        cmocka_unit_test_setup_teardown(gaps_and_entry_only_functions_belong_to_it, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_noticed_and_lies_are_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(verify_compares_it_with_the_events, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
