/* SPDX-License-Identifier: Apache-2.0 */
/* Following a trace that grows: the same trace is written again and again, each time with more in it. */
#include "report/replay.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fixture {
    char *directory;
    char place[512];
    struct ct_follow *follow;
    struct ct_replay_stream *stream;
    struct ct_replay_options options;
    char text[4096];
};

static const struct ct_trace_function *find(void *arg, size_t process, uint64_t id) {
    return ct_follow_function(((struct fixture *)arg)->follow, process, id);
}

static int on_line(void *arg, const struct ct_replay_line *l) {
    static const char *const forms[] = {
        [CT_REPLAY_LEAF] = "%s=", [CT_REPLAY_OPEN] = "%s{",   [CT_REPLAY_CLOSE] = "}%s",   [CT_REPLAY_ENTRY] = "%s-",
        [CT_REPLAY_END] = "}%s?", [CT_REPLAY_GAP] = "~%sgap", [CT_REPLAY_SIGNAL] = "%s!!",
    };
    struct fixture *f = arg;
    char form[64];
    snprintf(form, sizeof form, forms[l->kind], l->name);
    size_t used = strlen(f->text);
    snprintf(f->text + used, sizeof f->text - used, "%s%llu/%u %s%s", used ? "\n" : "",
             (unsigned long long)(l->time_ns - SAMPLE_START), ct_follow_thread_at(f->follow, l->thread)->tid, form,
             l->kind == CT_REPLAY_GAP ? l->reason : "");
    return 0;
}

static void begin(struct fixture *f, uint64_t from_ns) {
    f->directory = sample_directory();
    snprintf(f->place, sizeof f->place, "%s/traces", f->directory);
    char session[600];
    snprintf(session, sizeof session, "%s/session_20250102_030405", f->place);
    assert_int_equal(ct_follow_open(&f->follow, session, from_ns, false), 0);
    struct ct_replay_stream_setup setup = {
        .options = &f->options, .find = find, .find_arg = f, .show = on_line, .arg = f};
    assert_int_equal(ct_replay_stream_open(&f->stream, &setup), 0);
}

static void end(struct fixture *f) {
    ct_replay_stream_close(f->stream);
    ct_follow_close(f->follow);
    sample_remove(f->directory);
}

static int on_event(void *arg, const struct ct_trace_event *event) {
    return ct_replay_stream_event(((struct fixture *)arg)->stream, event);
}

/* What the trace holds now, and the lines that this makes. */
static void round_of(struct fixture *f, const struct sample_thread *threads, size_t count, uint64_t until,
                     const char *expected) {
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", f->place);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(f->place, 0700), 0);
    struct sample sample = {.threads = threads, .thread_count = count, .unfinished = true};
    free(sample_write(f->place, &sample));
    assert_int_equal(ct_follow_look(f->follow, false), 0);
    for (size_t i = 0; i < ct_follow_thread_count(f->follow); i++)
        assert_int_equal(ct_replay_stream_thread(f->stream, i, ct_follow_thread_at(f->follow, i)), 0);
    f->text[0] = 0;
    uint64_t until_ns = until ? SAMPLE_START + until : UINT64_MAX;
    assert_int_equal(ct_follow_events(f->follow, until_ns, on_event, f), 0);
    assert_int_equal(ct_replay_stream_rest(f->stream, until_ns), 0);
    assert_string_equal(f->text, expected);
}

static void one(struct fixture *f, const char *script, uint64_t until, const char *expected) {
    struct sample_thread t = {.id = 1, .tid = 1000, .name = "sample", .script = script, .cut = true};
    round_of(f, &t, 1, until, expected);
}

static void test_events_come_once(void **state) {
    (void)state;
    struct fixture f = {0};
    begin(&f, 0);
    one(&f, "0+main 10+work 20-work", 0, "0/1000 main{\n10/1000 work=");
    one(&f, "0+main 10+work 20-work", 0, "");
    one(&f, "0+main 10+work 20-work 30+work", 0, "30/1000 work{");
    one(&f, "0+main 10+work 20-work 30+work 40-work 50-main", 0, "40/1000 }work\n50/1000 }main");
    end(&f);
}

static void test_up_to_a_time(void **state) {
    (void)state;
    struct fixture f = {0};
    const char *script = "0+main 10+work 20-work 30-main";
    begin(&f, 0);
    one(&f, script, 10, "0/1000 main{\n10/1000 work{");
    one(&f, script, 19, "");
    one(&f, script, 20, "20/1000 }work");
    one(&f, script, 0, "30/1000 }main");
    end(&f);
}

static void test_from_a_time(void **state) {
    (void)state;
    struct fixture f = {0};
    begin(&f, SAMPLE_START + 15);
    one(&f, "0+main 5~3/DRAIN_LAG 10+work 20-work", 0, "20/1000 }work?");
    one(&f, "0+main 5~3/DRAIN_LAG 10+work 20-work 30+work 40-work 50-main", 0, "30/1000 work=\n50/1000 }main?");
    end(&f);
}

/* A thread that is new lies before the others, and its events are older than what was shown. */
static void test_new_threads(void **state) {
    (void)state;
    struct fixture f = {0};
    struct sample_thread first = {.id = 2, .tid = 1002, .name = "b", .script = "0+main 10+work 20-work", .cut = true};
    begin(&f, 0);
    round_of(&f, &first, 1, 0, "0/1002 main{\n10/1002 work=");
    struct sample_thread both[] = {
        {.id = 1, .tid = 1001, .name = "a", .script = "15+work 25-work 35+work", .cut = true},
        {.id = 2, .tid = 1002, .name = "b", .script = "0+main 10+work 20-work 30-main", .cut = true},
    };
    round_of(&f, both, 2, 0, "15/1001 work=\n30/1002 }main\n35/1001 work{");
    end(&f);
}

/* Shown once, and late when the manifest has it late. */
static void test_gaps(void **state) {
    (void)state;
    struct fixture f = {0};
    begin(&f, 0);
    one(&f, "0+main 10+work 20-work", 0, "0/1000 main{\n10/1000 work=");
    one(&f, "0+main 10+work 20-work 25~7/DRAIN_LAG 30+work@1 40-work", 0, "30/1000 ~gapDRAIN_LAG\n30/1000 work=");
    one(&f, "0+main 10+work 20-work 25~7/DRAIN_LAG 30+work@1 40-work 50-main", 0, "50/1000 }main");
    end(&f);
}

static void test_filters(void **state) {
    (void)state;
    struct fixture f = {0};
    f.options.select.only = (const char *const[]){"work", NULL};
    f.options.separate_ends = true;
    begin(&f, 0);
    one(&f, "0+main 10+work 20-work", 0, "10/1000 work{\n20/1000 }work");
    end(&f);
    f = (struct fixture){0};
    f.options.select.exclude = (const char *const[]){"work", NULL};
    begin(&f, 0);
    one(&f, "0+main 10+work 20-work 30-main", 0, "0/1000 main=");
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_once),
        cmocka_unit_test(test_up_to_a_time),
        cmocka_unit_test(test_from_a_time),
        cmocka_unit_test(test_new_threads),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
