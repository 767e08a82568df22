/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and verifying traces: whole ones, cut ones, damaged ones. */
#include "random_util.h"
#include "tests/tools/place_of.h"
#include "trace_util.h"
#include <contrail/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char root[200], process[220];

static int set_up(void **state) {
    (void)state;
    make_directory(root, sizeof root);
    snprintf(process, sizeof process, "%s/pid_321", root);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_directory(root);
    return 0;
}

static struct ct_trace *open_trace(const char *path) {
    struct ct_trace *trace;
    char error[300];
    int status = ct_trace_open(&trace, path, error, sizeof error);
    if (status)
        print_error("%s\n", error);
    assert_int_equal(status, 0);
    assert_string_equal(error, "");
    return trace;
}

static void assert_event(const struct ct_trace_event *event, size_t thread, uint64_t sequence) {
    struct atf_index_event expected = sample_event(thread, sequence);
    assert_int_equal(event->thread, thread);
    assert_int_equal(event->sequence, sequence);
    assert_int_equal(event->timestamp_ns, expected.timestamp_ns);
    assert_int_equal(event->function_id, expected.function_id);
    assert_int_equal(event->kind, expected.event_kind);
    assert_int_equal(event->depth, expected.call_depth);
    assert_int_equal(event->detail, 0xffffffff);
}

/* The thread's events are the first `count` of the sample. */
static void assert_thread(struct ct_trace *trace, size_t thread, uint64_t count) {
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    assert_int_equal(ct_trace_thread_at(trace, thread)->event_count, count);
    assert_int_equal(ct_trace_cursor_open_thread(&cursor, trace, thread, 0), 0);
    for (uint64_t i = 0; i < count; i++) {
        assert_true(ct_trace_cursor_next(cursor, &event));
        assert_event(&event, thread, i);
    }
    assert_false(ct_trace_cursor_next(cursor, &event));
    assert_false(ct_trace_cursor_next(cursor, &event));
    ct_trace_cursor_close(cursor);
}

/* ---- whole traces ---- */

static void test_holds(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 3, .events = 2000});
    const char *const paths[] = {process, root, in("%s/", process), in("%s//", root)};
    for (size_t i = 0; i < 4; i++) {
        struct ct_trace *trace = open_trace(paths[i]);
        assert_int_equal(ct_trace_process_count(trace), 1);
        const struct ct_trace_process *p = ct_trace_process_at(trace, 0);
        assert_int_equal(p->pid, 321);
        assert_string_equal(p->directory, process);
        assert_true(p->complete);
        assert_int_equal(p->time_start_ns, 900);
        assert_int_equal(p->time_end_ns, 1 << 30);
        assert_int_equal(p->thread_count, 3);
        assert_int_equal(p->module_count, 1);
        assert_memory_equal(p->manifest, "{\n  \"format\": \"atf2\"", 20);
        assert_null(ct_trace_process_at(trace, 1));
        assert_int_equal(ct_trace_thread_count(trace), 3);
        const struct ct_trace_thread *t = ct_trace_thread_at(trace, 2);
        assert_int_equal(t->process, 0);
        assert_int_equal(t->id, 2);
        assert_int_equal(t->tid, 7002);
        assert_string_equal(t->name, "worker 2");
        assert_int_equal(t->lost, 6);
        assert_false(t->cut);
        assert_null(ct_trace_thread_at(trace, 3));
        assert_int_equal(ct_trace_module_count(trace), 1);
        const struct ct_trace_module *m = ct_trace_module_at(trace, 0);
        assert_int_equal(m->id, 1);
        assert_string_equal(m->path, "/opt/some\tdir/libsample.so");
        assert_string_equal(m->build_id, "abcdef");
        assert_int_equal(m->base, 0x7f0000001000);
        assert_int_equal(m->functions, 5);
        assert_int_equal(m->hooked, 4);
        assert_int_equal(m->entry_only, 1);
        assert_null(ct_trace_module_at(trace, 1));
        for (size_t k = 0; k < 3; k++)
            assert_thread(trace, k, 2000);
        ct_trace_close(trace);
    }
    struct ct_trace *trace = open_trace(process);
    struct ct_trace_cursor *cursor;
    assert_int_equal(ct_trace_cursor_open_thread(&cursor, trace, 3, 0), CT_ERR_INVALID_ARGUMENT);
    ct_trace_close(trace);
    ct_trace_close(NULL);
    ct_trace_cursor_close(NULL);
}

static void test_functions(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 1});
    struct ct_trace *trace = open_trace(process);
    const struct ct_trace_function *f = ct_trace_function(trace, 0, SAMPLE_FUNCTION(1));
    assert_int_equal(f->id, SAMPLE_FUNCTION(1));
    assert_int_equal(f->offset, 0x120);
    assert_int_equal(f->length, 0x20);
    assert_string_equal(f->name, "inner\\one\ntwo\x01");
    assert_string_equal(f->module, "libsample.so");
    assert_string_equal(f->skip, "");
    assert_false(f->entry_only);
    assert_ptr_equal(ct_trace_function(trace, 0, SAMPLE_FUNCTION(1)), f);
    f = ct_trace_function(trace, 0, SAMPLE_FUNCTION(2));
    assert_true(f->entry_only);
    assert_string_equal(f->entry_only_reason, "setjmp");
    f = ct_trace_function(trace, 0, SAMPLE_FUNCTION(3));
    assert_string_equal(f->name, "libsample.so+0x160");
    f = ct_trace_function(trace, 0, SAMPLE_FUNCTION(4));
    assert_string_equal(f->skip, "too short");
    assert_null(ct_trace_function(trace, 0, SAMPLE_FUNCTION(5)));
    assert_null(ct_trace_function(trace, 0, 0));
    assert_null(ct_trace_function(trace, 0, UINT64_MAX));
    assert_null(ct_trace_function(trace, 1, SAMPLE_FUNCTION(1)));
    ct_trace_close(trace);
}

/* The file is what the documentation says. */
static void test_symbols_text(void **state) {
    (void)state;
    size_t size;
    make_sample(process, &(struct sample){.threads = 1});
    char *text = (char *)load(in("%s/symbols", process), &size);
    text[size] = 0;
    assert_string_equal(
        text, "contrail-symbols\t1\tfunction_id(hex)\toffset(hex)\tsize(hex)\tname\tskip\tentry_only\tfile:line\n"
              "module\t1\t7f0000001000\tabcdef\t/opt/some\\tdir/libsample.so\n"
              "100000000\t100\t20\touter\t\t\t\n"
              "100000001\t120\t20\tinner\\\\one\\ntwo\\x01\t\t\t\n"
              "100000002\t140\t20\tjump\t\tsetjmp\t\n"
              "100000003\t160\t20\t\t\t\t\n"
              "100000004\t180\t1\tskipped\ttoo short\t\t\n"
              "total\t5\n");
    free(text);
}

/* Modules that the manifest does not have are taken from the symbols. */
static void test_modules_of_symbols(void **state) {
    (void)state;
    static const char manifest[] = "{\"format\":\"atf2\",\"complete\":false}";
    make_sample(process, &(struct sample){.threads = 1});
    store(in("%s/manifest.json", process), manifest, strlen(manifest));
    struct ct_trace *trace = open_trace(process);
    assert_int_equal(ct_trace_module_count(trace), 1);
    assert_string_equal(ct_trace_module_at(trace, 0)->path, "/opt/some\tdir/libsample.so");
    assert_int_equal(ct_trace_module_at(trace, 0)->functions, 5);
    assert_int_equal(ct_trace_process_at(trace, 0)->pid, 321); /* by the directory's name */
    ct_trace_close(trace);
}

/* ---- order ---- */

static void check_merged(uint64_t start_ns, size_t threads, uint64_t events) {
    struct ct_trace *trace = open_trace(process);
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event, last = {0};
    uint64_t *seen = calloc(threads, sizeof *seen), expected = 0, count = 0;
    for (size_t t = 0; t < threads; t++) {
        while (seen[t] < events && sample_event(t, seen[t]).timestamp_ns < start_ns)
            seen[t]++;
        expected += events - seen[t];
    }
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, start_ns), 0);
    for (; ct_trace_cursor_next(cursor, &event); count++) {
        assert_event(&event, event.thread, seen[event.thread]++);
        assert_true(event.timestamp_ns >= start_ns);
        assert_true(event.timestamp_ns >= last.timestamp_ns);
        if (count && event.timestamp_ns == last.timestamp_ns)
            assert_true(event.thread >= last.thread);
        last = event;
    }
    assert_int_equal(count, expected);
    free(seen);
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
}

static void test_merge(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 7, .events = 3000});
    check_merged(0, 7, 3000);
    check_merged(1, 7, 3000);
    check_merged(1000, 7, 3000);
    check_merged(1003, 7, 3000);
    check_merged(8888, 7, 3000);
    check_merged(1000 + 2999 * 5, 7, 3000);
    check_merged(1000 + 3000 * 5, 7, 3000);
    check_merged(UINT64_MAX, 7, 3000);
}

static void test_parts(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 2, .events = 1000, .part = 300});
    struct ct_trace *trace = open_trace(process);
    assert_thread(trace, 0, 1000);
    assert_false(ct_trace_thread_at(trace, 0)->cut);
    ct_trace_close(trace);
    for (uint64_t start = 900; start < 6200; start += 97)
        check_merged(start, 2, 1000);
}

/* All at one time: by thread, then by sequence. */
static void test_ties(void **state) {
    (void)state;
    struct atf_index_event events[40];
    make_sample(process, &(struct sample){.threads = 0});
    for (uint32_t t = 0; t < 5; t++) {
        struct ct_thread_writer *writer;
        assert_int_equal(ct_thread_writer_open(&writer, place_of(process), t * 3, t), 0);
        for (size_t i = 0; i < 40; i++)
            events[i] = event_of(77, i, t, ATF_CALL, 0);
        write_events(writer, events, 40);
        assert_int_equal(ct_thread_writer_close(writer), 0);
    }
    struct ct_trace *trace = open_trace(process);
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
    for (size_t i = 0; i < 200; i++) {
        assert_true(ct_trace_cursor_next(cursor, &event));
        assert_int_equal(event.thread, i / 40);
        assert_int_equal(event.sequence, i % 40);
        assert_int_equal(event.function_id, i % 40);
        assert_int_equal(ct_trace_thread_at(trace, event.thread)->id, i / 40 * 3);
    }
    assert_false(ct_trace_cursor_next(cursor, &event));
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
}

/* Threads of several processes, in the order of their numbers (not of their names). */
static void test_processes(void **state) {
    (void)state;
    make_sample(in("%s/pid_1000", root), &(struct sample){.threads = 2, .events = 10});
    make_sample(in("%s/pid_99", root), &(struct sample){.threads = 11, .events = 10});
    assert_int_equal(mkdir(in("%s/pid_5", root), 0777), 0); /* no manifest: not begun */
    assert_int_equal(mkdir(in("%s/pid_x", root), 0777), 0);
    make_sample(in("%s/pid_07", root), &(struct sample){.threads = 1}); /* not our name */
    struct ct_trace *trace = open_trace(root);
    assert_int_equal(ct_trace_process_count(trace), 2);
    assert_string_equal(ct_trace_process_at(trace, 0)->directory, in("%s/pid_99", root));
    assert_int_equal(ct_trace_thread_count(trace), 13);
    assert_int_equal(ct_trace_thread_at(trace, 10)->id, 10);
    assert_int_equal(ct_trace_thread_at(trace, 10)->process, 0);
    assert_int_equal(ct_trace_thread_at(trace, 11)->process, 1);
    assert_int_equal(ct_trace_module_at(trace, 1)->process, 1);
    assert_non_null(ct_trace_function(trace, 1, SAMPLE_FUNCTION(0)));
    ct_trace_close(trace);
    char text[300];
    assert_int_equal(verify_text(root, text, sizeof text), 0);
}

/* ---- cut files ---- */

static uint64_t state = RANDOM_SEED;
static uint64_t random_number(void) {
    return random_next(&state);
}

/* The trace with thread 0's file cut to `size` bytes. */
static void check_cut(const uint8_t *bytes, size_t size, size_t whole, uint64_t events) {
    store(in("%s/thread_0/index.atf", process), bytes, size);
    struct ct_trace *trace = open_trace(process);
    uint64_t expected = size < 64 ? 0 : (size - 64) / 32;
    if (expected > events)
        expected = events;
    assert_thread(trace, 0, expected);
    assert_int_equal(ct_trace_thread_at(trace, 0)->cut, size < whole);
    assert_thread(trace, 1, events);
    int complaints = ct_trace_verify(trace, NULL, NULL);
    bool lacks = ct_trace_process_at(trace, 0)->complete ? size < whole : expected < events;
    assert_int_equal(complaints, lacks ? CT_ERR_BAD_FILE : 0);
    ct_trace_close(trace);
}

static void cut_everywhere(bool unfinished) {
    size_t whole;
    uint64_t events = 700;
    make_sample(process, &(struct sample){.threads = 2, .events = events, .unfinished = unfinished});
    uint8_t *bytes = load(in("%s/thread_0/index.atf", process), &whole);
    assert_int_equal(whole, 64 + events * 32 + (unfinished ? 0 : 64));
    size_t complete = unfinished ? whole + 1 : whole; /* an unfinished one is always cut */
    for (size_t size = 0; size < 200; size++)
        check_cut(bytes, size, complete, events);
    for (int i = 0; i < 1000; i++)
        check_cut(bytes, random_number() % (whole + 1), complete, events);
    for (size_t size = whole - 140; size <= whole; size++)
        check_cut(bytes, size, complete, events);
    free(bytes);
}

static void test_cut(void **s) {
    (void)s;
    cut_everywhere(false);
}

static void test_cut_unfinished(void **s) {
    (void)s;
    cut_everywhere(true);
}

static void test_symbols_cut(void **s) {
    (void)s;
    size_t whole;
    make_sample(process, &(struct sample){.threads = 1, .events = 9, .unfinished = true});
    char *bytes = (char *)load(in("%s/symbols", process), &whole);
    for (size_t size = 0; size <= whole; size++) {
        store(in("%s/symbols", process), bytes, size);
        struct ct_trace *trace = open_trace(process);
        for (unsigned n = 0; n < 5; n++) {
            char line[40];
            snprintf(line, sizeof line, "\n%llx\t", (unsigned long long)SAMPLE_FUNCTION(n));
            bool there = memmem(bytes, size, line, strlen(line)) &&
                         memchr((char *)memmem(bytes, size, line, strlen(line)) + 1, '\n',
                                size - (size_t)((char *)memmem(bytes, size, line, strlen(line)) + 1 - bytes));
            assert_int_equal(ct_trace_function(trace, 0, SAMPLE_FUNCTION(n)) != NULL, there);
        }
        ct_trace_verify(trace, NULL, NULL);
        ct_trace_close(trace);
    }
    free(bytes);
    assert_int_equal(unlink(in("%s/symbols", process)), 0);
    struct ct_trace *trace = open_trace(process);
    assert_null(ct_trace_function(trace, 0, SAMPLE_FUNCTION(0)));
    assert_int_equal(ct_trace_verify(trace, NULL, NULL), CT_ERR_BAD_FILE);
    ct_trace_close(trace);
}

/* A recorder that was killed: its manifest does not know the newest thread, nor the end. */
static void test_killed(void **s) {
    (void)s;
    char text[500];
    struct sample sample = {.threads = 3, .events = 90, .unfinished = true};
    make_sample(process, &sample);
    sample.threads = 1;
    sample.wrong_events = -50;
    make_manifest(process, &sample);
    assert_int_equal(mkdir(in("%s/thread_3", process), 0777), 0); /* its file was not there yet */
    assert_int_equal(mkdir(in("%s/thread_4", process), 0777), 0);
    store(in("%s/thread_4/index.atf", process), "", 0);
    struct ct_trace *trace = open_trace(process);
    assert_int_equal(ct_trace_thread_count(trace), 5);
    assert_int_equal(ct_trace_thread_at(trace, 2)->tid, 7002); /* from the file */
    assert_string_equal(ct_trace_thread_at(trace, 2)->name, "");
    assert_true(ct_trace_thread_at(trace, 2)->cut);
    assert_true(ct_trace_thread_at(trace, 3)->cut);
    assert_int_equal(ct_trace_thread_at(trace, 4)->event_count, 0);
    assert_thread(trace, 2, 90);
    assert_int_equal(ct_trace_process_at(trace, 0)->time_end_ns, 1000 + 89 * 5 + 4);
    ct_trace_close(trace);
    assert_int_equal(verify_text(process, text, sizeof text), 0);
    assert_string_equal(text, "");
}

/* A thread that recorded nothing may have no directory. */
static void test_no_directory(void **s) {
    (void)s;
    make_sample(process, &(struct sample){.threads = 2});
    remove_directory(in("%s/thread_1", process));
    assert_int_equal(mkdir(in("%s/thread_07", process), 0777), 0); /* not our name */
    assert_int_equal(mkdir(in("%s/thread_", process), 0777), 0);
    assert_int_equal(mkdir(in("%s/thread_4294967296", process), 0777), 0);
    struct ct_trace *trace = open_trace(process);
    assert_int_equal(ct_trace_thread_count(trace), 2);
    assert_int_equal(ct_trace_thread_at(trace, 1)->tid, 7001);
    assert_false(ct_trace_thread_at(trace, 1)->cut);
    assert_int_equal(ct_trace_verify(trace, NULL, NULL), 0);
    ct_trace_close(trace);
    make_manifest(process, &(struct sample){.threads = 2, .events = 5});
    trace = open_trace(process);
    assert_true(ct_trace_thread_at(trace, 1)->cut);
    ct_trace_close(trace);
}

/* A part that is missing its end does not hide the next. */
static void test_cut_part(void **s) {
    (void)s;
    make_sample(process, &(struct sample){.threads = 1, .events = 25, .part = 10});
    assert_int_equal(truncate(in("%s/thread_0/index.atf", process), 64 + 3 * 32 + 5), 0);
    struct ct_trace *trace = open_trace(process);
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    assert_int_equal(ct_trace_thread_at(trace, 0)->event_count, 18);
    assert_true(ct_trace_thread_at(trace, 0)->cut);
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
    for (uint64_t i = 0; i < 18; i++) {
        assert_true(ct_trace_cursor_next(cursor, &event));
        assert_int_equal(event.timestamp_ns, sample_event(0, i < 3 ? i : i + 7).timestamp_ns);
        assert_int_equal(event.sequence, i);
    }
    assert_false(ct_trace_cursor_next(cursor, &event));
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
}

/* A file that shrinks while it is being read ends there. */
static void test_shrinking(void **s) {
    (void)s;
    make_sample(process, &(struct sample){.threads = 1, .events = 20000});
    struct ct_trace *trace = open_trace(process);
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    uint64_t count = 0;
    assert_int_equal(ct_trace_cursor_open(&cursor, trace, 0), 0);
    assert_true(ct_trace_cursor_next(cursor, &event));
    assert_int_equal(truncate(in("%s/thread_0/index.atf", process), 1000), 0);
    for (count = 1; ct_trace_cursor_next(cursor, &event); count++)
        assert_event(&event, 0, count);
    assert_true(count < 20000);
    ct_trace_cursor_close(cursor);
    assert_int_equal(ct_trace_verify(trace, NULL, NULL), CT_ERR_BAD_FILE);
    ct_trace_close(trace);
}

/* ---- finding traces, and saying why not ---- */

static void assert_refused(const char *path, int expected, const char *part) {
    struct ct_trace *trace;
    char error[600];
    int status = ct_trace_open(&trace, path, error, sizeof error);
    assert_int_equal(status, expected);
    assert_null(trace);
    if (!strstr(error, part))
        print_error("%s\n", error);
    assert_non_null(strstr(error, part));
    assert_null(strchr(error, '\n'));
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), expected);
    char little[10];
    assert_int_equal(ct_trace_open(&trace, path, little, sizeof little), expected);
    assert_int_equal(strlen(little), 9);
}

static void test_newest(void **s) {
    (void)s;
    static const char *const names[] = {"session_20240101_000000", "session_20251231_235959", "session_20260101_000000",
                                        "session_20260101_000000_2", "session_20260101_000000_10"};
    char before[300];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(root), 0);
    assert_refused(NULL, CT_ERR_NOT_FOUND, "no trace found under ./traces; record one with contrail spawn PROG");
    assert_int_equal(mkdir("traces", 0777), 0);
    assert_refused(NULL, CT_ERR_NOT_FOUND, "no trace found under ./traces; record one with contrail spawn PROG");
    assert_int_equal(mkdir("traces/session_20270101_000000", 0777), 0); /* holds nothing yet */
    assert_int_equal(mkdir("traces/session_20270101_000000/pid_1", 0777), 0);
    assert_int_equal(mkdir("traces/session_99999999_99999", 0777), 0); /* not our name */
    assert_int_equal(mkdir("traces/session_20280101_000000x", 0777), 0);
    assert_int_equal(mkdir("traces/zzz", 0777), 0);
    assert_refused(NULL, CT_ERR_NOT_FOUND, "no trace found under ./traces");
    for (size_t i = 0; i < 5; i++) {
        char expected[100];
        assert_int_equal(mkdir(in("traces/%s", names[i]), 0777), 0);
        make_sample(in("traces/%s/pid_1", names[i]), &(struct sample){.threads = 1});
        struct ct_trace *trace = open_trace(NULL);
        snprintf(expected, sizeof expected, "./traces/%s", names[i]);
        assert_string_equal(ct_trace_path(trace), expected);
        ct_trace_close(trace);
    }
    assert_refused("traces", CT_ERR_NOT_FOUND, "session_20260101_000000_10");
    assert_int_equal(chdir(before), 0);
}

static void test_refused(void **s) {
    (void)s;
    char text[2000];
    assert_refused(in("%s/none", root), CT_ERR_NOT_FOUND, "there is no trace");
    assert_refused(root, CT_ERR_NOT_FOUND, "has no manifest.json");
    store(in("%s/file", root), "x", 1);
    assert_refused(in("%s/file", root), CT_ERR_BAD_FILE, "is not a directory");
    assert_refused(in("%s/file/x", root), CT_ERR_BAD_FILE, "cannot be read");
    assert_refused("", CT_ERR_NOT_FOUND, "there is no trace");
    make_sample(process, &(struct sample){.threads = 1, .events = 9});
    assert_int_equal(unlink(in("%s/manifest.json", process)), 0);
    assert_refused(process, CT_ERR_NOT_FOUND, "has no manifest.json");
    assert_int_equal(mkdir(in("%s/manifest.json", process), 0777), 0);
    assert_refused(process, CT_ERR_BAD_FILE, "cannot be read");
    assert_int_equal(rmdir(in("%s/manifest.json", process)), 0);
    /* Not JSON: the events are there all the same. */
    store(in("%s/manifest.json", process), "{\"pid\": 5,", 10);
    struct ct_trace *trace = open_trace(process);
    assert_string_equal(ct_trace_process_at(trace, 0)->manifest, "{}");
    assert_thread(trace, 0, 9);
    ct_trace_close(trace);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "manifest.json: it is not JSON at byte 10"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_holds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_functions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_symbols_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modules_of_symbols, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_merge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ties, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_processes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_unfinished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_symbols_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shrinking, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_newest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
