/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying: each kind of damage is found and named, and what is no damage is not. */
#include "tests/tools/place_of.h"
#include "trace_util.h"
#include "trace/crc32.h"
#include <contrail/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char root[200], process[220], text[20000];

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

static void assert_clean(void) {
    int status = verify_text(process, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(status, 0);
}

/* One sentence, which holds `part`. */
static void assert_only(const char *part) {
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    if (!strstr(text, part))
        print_error("%s", text);
    assert_non_null(strstr(text, part));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

/* ---- scripts of events ---- */

struct step {
    uint32_t kind, function, depth;
};
#define CALL(f, d)                                                                                                     \
    { ATF_CALL, f, d }
#define RET(f, d)                                                                                                      \
    { ATF_RETURN, f, d }
#define THROW(f, d)                                                                                                    \
    { ATF_EXCEPTION, f, d }

/* One more thread of the process, with these events. */
static void add_thread(uint32_t id, const struct step *steps, size_t count) {
    struct ct_thread_writer *writer;
    assert_int_equal(ct_thread_writer_open(&writer, place_of(process), id, 7000 + id), 0);
    for (size_t i = 0; i < count; i++) {
        struct atf_index_event event =
            event_of(1000 + i, SAMPLE_FUNCTION(steps[i].function), 7000 + id, steps[i].kind, steps[i].depth);
        write_events(writer, &event, 1);
    }
    assert_int_equal(ct_thread_writer_close(writer), 0);
}

/* A trace of nothing but one thread with these steps. */
static void make_steps(const struct step *steps, size_t count, const char *gaps) {
    remove_directory(process);
    make_sample(process, &(struct sample){.threads = 0});
    add_thread(0, steps, count);
    make_manifest(process, &(struct sample){.threads = 1, .events = count, .gaps = gaps});
}

#define STEPS(gaps, ...)                                                                                               \
    do {                                                                                                               \
        static const struct step steps[] = {__VA_ARGS__};                                                              \
        make_steps(steps, sizeof steps / sizeof *steps, gaps);                                                         \
    } while (0)

static void test_balance(void **state) {
    (void)state;
    STEPS(NULL, CALL(0, 0), CALL(1, 1), CALL(1, 2), RET(1, 2), THROW(1, 1), RET(0, 0),
          CALL(0, 0)); /* open at the end */
    assert_clean();
    STEPS(NULL, CALL(2, 0), CALL(2, 0), CALL(0, 0), CALL(2, 1), RET(0, 0)); /* 2 is entry only */
    assert_clean();
    STEPS(NULL, CALL(0, 1));
    assert_only("event 0 is a call at depth 1 while 0 frames are open");
    STEPS(NULL, CALL(0, 0), CALL(1, 0));
    assert_only("event 1 is a call at depth 0 while 1 frames are open");
    STEPS(NULL, CALL(0, 0), CALL(1, 1), RET(1, 0));
    assert_only("event 2 is a return at depth 0 while 2 frames are open");
    STEPS(NULL, CALL(0, 0), THROW(1, 0));
    assert_only("event 1 is an exception of function 100000001, but the open one at its depth is 100000000");
    STEPS(NULL, CALL(2, 0), RET(2, 0)); /* there is no return of it */
    assert_only("1 returns have no call in any thread, one of function 100000002");
    STEPS(NULL, RET(0, 0), CALL(0, 0), RET(0, 0));
    assert_only("1 returns have no call");
    STEPS(NULL, RET(0, 0x7fffffff));
    assert_only("depth 2147483647");
    STEPS(NULL, CALL(0, 0x7fffffff), CALL(0, 0), CALL(0, 1)); /* and on */
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
}

static void test_coroutines(void **state) {
    (void)state;
    /* 0 is suspended inside 1's frames, and ends while 1 is open. */
    STEPS(NULL, CALL(0, 0), CALL(1, 1), RET(0, 0), CALL(3, 1), RET(3, 1), RET(1, 0));
    assert_clean();
    /* The innermost one of a function ends first. */
    STEPS(NULL, CALL(0, 0), CALL(0, 1), CALL(1, 2), RET(0, 1), RET(1, 1), RET(0, 0));
    assert_clean();
    STEPS(NULL, CALL(0, 0), CALL(0, 1), CALL(1, 2), RET(0, 0), RET(0, 0)); /* or the one at its depth */
    assert_clean();
    STEPS(NULL, CALL(0, 0), CALL(0, 1), CALL(1, 2), RET(3, 7));
    assert_only("event 3 is a return at depth 7 while 3 frames are open");
}

/* Stacks that are distinguished: depths in groups. */
static void test_stacks(void **state) {
    (void)state;
    const uint32_t a = ATF_DEPTH_OF_GROUP(0), b = ATF_DEPTH_OF_GROUP(1);
    STEPS(NULL, CALL(0, 0), CALL(1, a), CALL(1, a + 1), CALL(1, b), CALL(3, 1), RET(3, 1), RET(1, a + 1), RET(1, b),
          RET(1, a), RET(0, 0));
    assert_clean();
    STEPS(NULL, CALL(0, 0), CALL(1, a), CALL(1, b)); /* open at the end */
    assert_clean();
    STEPS(NULL, CALL(2, a), CALL(1, a), RET(1, a), CALL(2, b)); /* 2 is entry only */
    assert_clean();
    STEPS(NULL, CALL(1, a), CALL(1, a));
    assert_only("event 1 is a call at depth 2147483648, where a frame of function 100000001 is open");
    STEPS(NULL, CALL(1, a), CALL(1, a + 2));
    assert_only("event 1 is a call at depth 2147483650, and no frame is open at the one before");
    STEPS(NULL, CALL(1, a), RET(3, a));
    assert_only("event 1 is an end of function 100000003, but the open one at its depth is 100000001");
    STEPS(NULL, CALL(1, a), RET(1, a), RET(1, a));
    assert_only("1 returns have no call");
    STEPS("1", CALL(1, a), RET(1, a + 7), CALL(1, b + 3)); /* what was open before the gap is not known */
    assert_clean();
}

/* A call in one thread, its return in another. */
static void test_migration(void **state) {
    (void)state;
    static const struct step calls[] = {CALL(0, 0), CALL(1, 1)}, returns[] = {CALL(3, 0), RET(1, 1), RET(3, 0)};
    make_sample(process, &(struct sample){.threads = 0});
    add_thread(0, calls, 2);
    add_thread(1, returns, 3);
    make_manifest(process, &(struct sample){.threads = 2, .events = 2, .wrong_events = 0});
    verify_text(process, text, sizeof text); /* the manifest's counts are off, the returns are fine */
    assert_null(strstr(text, "no call"));
    remove_directory(in("%s/thread_0", process));
    verify_text(process, text, sizeof text);
    assert_non_null(strstr(text, "1 returns have no call in any thread, one of function 100000001"));
}

static void test_gaps(void **state) {
    (void)state;
    STEPS("2", CALL(0, 0), CALL(1, 1), RET(3, 7), RET(0, 6), CALL(1, 6));
    assert_clean();
    STEPS("2", CALL(0, 0), CALL(1, 1), CALL(3, 0), RET(3, 0), CALL(0, 0));
    assert_clean();
    STEPS("2", CALL(0, 0), CALL(1, 1), RET(3, 1), RET(3, 0)); /* same depth, other functions */
    assert_clean();
    STEPS("1", CALL(0, 0), CALL(1, 1), RET(1, 1), RET(3, 0)); /* what was open before is not what is now */
    assert_clean();
    STEPS("0,3", CALL(0, 5), RET(0, 5), RET(1, 4), CALL(0, 9), RET(0, 9));
    assert_clean();
    STEPS("1", CALL(0, 0), CALL(1, 1), CALL(1, 3)); /* not at the gap */
    assert_only("event 2 is a call at depth 3 while 2 frames are open");
    STEPS("3", CALL(0, 0), CALL(1, 1), CALL(1, 3));
    assert_only("event 2 is a call at depth 3");
}

/* The list of gaps is bounded: its last entry speaks for all later ones. */
static void test_many_gaps(void **state) {
    (void)state;
    static struct step steps[5000];
    char *gaps = malloc(50000), *to = gaps;
    for (uint32_t i = 0; i < 5000; i++)
        steps[i] = (struct step)CALL(0, i * 7 % 1000);
    for (unsigned i = 1; i <= 4096; i++)
        to += sprintf(to, "%u,", i);
    to[-1] = 0;
    make_steps(steps, 5000, gaps);
    assert_clean();
    *strrchr(gaps, ',') = 0;
    make_steps(steps, 5000, gaps);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    free(gaps);
}

/* What the manifest of a killed recorder has not heard of may hold gaps. */
static void test_unfinished(void **state) {
    (void)state;
    static const struct step steps[] = {CALL(0, 0), CALL(0, 5), RET(1, 9), CALL(0, 9)};
    for (int known = 0; known <= 4; known++) {
        make_steps(steps, 4, NULL);
        make_manifest(process, &(struct sample){.threads = 1, .events = (size_t)known, .unfinished = true});
        if (known < 2)
            assert_clean();
        else
            assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    }
}

/* Events that the recorder had counted before it was killed are not there any more. */
static void test_unfinished_and_cut(void **state) {
    (void)state;
    static const struct step steps[] = {CALL(0, 0), CALL(1, 1), RET(1, 1), RET(0, 0)};
    for (int known = 0; known <= 5; known++) {
        make_steps(steps, 4, NULL);
        make_manifest(process, &(struct sample){.threads = 1, .events = (size_t)known, .unfinished = true});
        if (known <= 4)
            assert_clean();
        else
            assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    }
}

/* ---- single fields ---- */

/* The sample with `size` bytes of thread 0's file changed; the checksum is made right again when `events` is set. */
static void spoil(size_t at, const void *bytes, size_t size, bool fix_checksum) {
    size_t whole;
    const char *path = in("%s/thread_0/index.atf", process);
    remove_directory(process);
    make_sample(process, &(struct sample){.threads = 2, .events = 90});
    uint8_t *file = load(path, &whole);
    memcpy(file + at, bytes, size);
    if (fix_checksum) {
        uint32_t crc = ct_crc32(0, file + 64, 90 * 32);
        memcpy(file + 64 + 90 * 32 + 4, &crc, 4);
    }
    store(path, file, whole);
    free(file);
}

static const uint8_t zeros[8] = {0}, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
#define AT(n, field) (64 + (n)*32 + offsetof(struct atf_index_event, field))
#define HEAD(field)  offsetof(struct atf_index_header, field)
#define FOOT(field)  (64 + 90 * 32 + offsetof(struct atf_index_footer, field))

static void test_fields(void **state) {
    (void)state;
    spoil(0, "A", 1, true);
    assert_clean();
    spoil(AT(5, detail_seq), zeros, 1, false);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "the checksum is"));
    assert_non_null(strstr(text, "event 5 names detail record 4294967040, but there is no detail file"));
    spoil(AT(5, timestamp_ns), zeros, 8, true);
    assert_only("event 5 is 1023 ns earlier than the one before it");
    spoil(AT(5, thread_id), zeros, 4, true);
    assert_only("event 5 is of thread 0 in a file of thread 7000");
    spoil(AT(2, event_kind), "\x09", 1, true); /* an entry-only call: nothing else notices */
    assert_only("event 2 is of kind 9, which does not exist");
    spoil(AT(2, function_id), "\x77", 1, true);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "event 2 names function 100000077, which symbols does not know"));
    spoil(HEAD(magic), "X", 1, false);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "it is not an ATF v2 index file"));
    spoil(HEAD(arch), "\x09", 1, false);
    assert_only("architecture 9");
    spoil(HEAD(os), "\x09", 1, false);
    assert_only("operating system 9");
    spoil(HEAD(clock_type), "\x09", 1, false);
    assert_only("clock 9");
    spoil(HEAD(flags), "\x02", 1, false);
    assert_only("unknown flags 2");
    spoil(HEAD(flags), "\x01", 1, false);
    assert_only("the header mentions a detail file, but there is none");
    store(in("%s/thread_0/detail.atf", process), "", 0);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_null(strstr(text, "mentions a detail file"));
    assert_int_equal(unlink(in("%s/thread_0/detail.atf", process)), 0);
    spoil(HEAD(reserved), ones, 1, false);
    assert_only("reserved bytes of the header");
    spoil(HEAD(event_count), ones, 4, false);
    assert_only("the header puts the footer at byte 2944 after 16843009 events");
    spoil(HEAD(footer_offset), ones, 8, false);
    assert_only("the header puts the footer at byte");
    spoil(HEAD(time_start_ns), ones, 8, false);
    assert_only("the header's times");
    spoil(HEAD(time_end_ns), ones, 8, false);
    assert_only("the header's times");
    spoil(FOOT(magic), "X", 1, false);
    assert_only("it has no footer after 90 events, although the recorder finished the trace");
    spoil(FOOT(crc32), ones, 4, false);
    assert_only("the checksum is 01010101");
    spoil(FOOT(event_count), ones, 8, false);
    assert_only("it has no footer");
    spoil(FOOT(time_start_ns), ones, 8, false);
    assert_only("the footer's times");
    spoil(FOOT(time_end_ns), ones, 8, false);
    assert_only("the footer's times");
    spoil(FOOT(bytes_written), ones, 8, false);
    assert_only("bytes of events; there are 2880");
    spoil(FOOT(reserved), ones, 8, false);
    assert_only("reserved bytes of the footer");
}

static void test_signal(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 0});
    struct ct_thread_writer *writer;
    assert_int_equal(ct_thread_writer_open(&writer, place_of(process), 0, 7000), 0);
    const struct atf_index_event events[] = {event_of(5, SAMPLE_FUNCTION(0), 7000, ATF_CALL, 0),
                                             event_of(6, 0, 7000, ATF_EXCEPTION, 1),
                                             event_of(7, SAMPLE_FUNCTION(0), 7000, ATF_RETURN, 0)};
    write_events(writer, events, 3);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    make_manifest(process, &(struct sample){.threads = 1, .events = 3});
    assert_clean();
}

/* Every byte of a small trace, changed: no crash, and verify notices (names in symbols apart, which are anything). */
static void test_every_byte(void **state) {
    (void)state;
    size_t whole;
    make_sample(process, &(struct sample){.threads = 2, .events = 20});
    const char *path = in("%s/thread_0/index.atf", process);
    char kept[300];
    snprintf(kept, sizeof kept, "%s", path);
    uint8_t *file = load(kept, &whole);
    for (size_t i = 0; i < whole; i++) {
        static const uint8_t changes[] = {0x01, 0x80, 0xff};
        for (size_t k = 0; k < sizeof changes; k++) {
            file[i] ^= changes[k];
            store(kept, file, whole);
            file[i] ^= changes[k];
            int status = verify_text(process, text, sizeof text);
            if (status != CT_ERR_BAD_FILE)
                print_error("byte %zu changed by %x is not noticed\n", i, changes[k]);
            assert_int_equal(status, CT_ERR_BAD_FILE);
        }
    }
    free(file);
}

static void test_counts(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 2, .events = 50, .wrong_events = 1});
    assert_only("thread_0: the manifest says 51 events, the file has 50");
    make_manifest(process, &(struct sample){.threads = 1, .events = 50});
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "thread_1: the manifest does not know this thread"));
    assert_non_null(strstr(text, "pid_321: the manifest says 50 events, the files have 100"));
    make_manifest(process, &(struct sample){.threads = 3, .events = 50});
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "thread_2: the manifest says 50 events, the file has 0"));
    /* Bytes after the footer. */
    make_manifest(process, &(struct sample){.threads = 2, .events = 50});
    assert_clean();
    FILE *file = fopen(in("%s/thread_1/index.atf", process), "ab");
    fwrite("x", 1, 1, file);
    fclose(file);
    assert_only("thread_1/index.atf: 1 bytes follow the footer");
}

/* A full disk has no room for footers; what was written before it was full is there all the same. */
static void test_disk(void **state) {
    (void)state;
    make_sample(process, &(struct sample){.threads = 1, .events = 50, .reason = "disk"});
    assert_int_equal(truncate(in("%s/thread_0/index.atf", process), 64 + 50 * 32), 0);
    assert_clean();
    assert_int_equal(truncate(in("%s/thread_0/index.atf", process), 64 + 49 * 32), 0);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    make_manifest(process, &(struct sample){.threads = 1, .events = 49, .reason = "exit"});
    assert_only("it has no footer after 49 events");
}

static void test_symbols(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *problem;
    } cases[] = {
        {"total\t5", "total\t6", "functions are missing in it"},
        {"total\t5\n", "total\t5", "it is cut"},
        {"100000004", "100000003", "a function is in it twice"},
        {"100000004", "100000044", "a function's number is too large"},
        {"100000004", "200000004", "a function's module is not in it"},
        {"100000004", "1000000g4", "a line of a function is damaged"},
        {"module\t1", "module\tz", "a line of a module is damaged"},
        {"contrail-symbols\t1", "contrail-symbols\t2", "it is not a symbols file of version 1"},
    };
    size_t size;
    make_sample(process, &(struct sample){.threads = 1, .events = 1});
    char *good = (char *)load(in("%s/symbols", process), &size);
    good[size] = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bad[4096];
        char *at = strstr(good, cases[i].from);
        assert_non_null(at);
        snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - good), good, cases[i].to, at + strlen(cases[i].from));
        store(in("%s/symbols", process), bad, strlen(bad));
        assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
        if (!strstr(text, cases[i].problem))
            print_error("%s instead of %s\n", text, cases[i].problem);
        assert_non_null(strstr(text, cases[i].problem));
    }
    /* Kinds of lines and columns of later versions are left out. */
    char *at = strstr(good, "module"), later[4096];
    snprintf(later, sizeof later, "%.*sweather\tfine\n%s", (int)(at - good), good, at);
    store(in("%s/symbols", process), later, strlen(later));
    assert_clean();
    free(good);
}

/* Many problems of one kind are counted. */
static void test_flood(void **state) {
    (void)state;
    static struct step steps[1000];
    for (uint32_t i = 0; i < 1000; i++)
        steps[i] = (struct step)CALL(0, 7);
    make_steps(steps, 1000, NULL);
    assert_int_equal(verify_text(process, text, sizeof text), CT_ERR_BAD_FILE);
    assert_non_null(strstr(text, "thread_0: 995 more events with the wrong depth"));
    size_t lines = 0;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_balance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_coroutines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_migration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unfinished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unfinished_and_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_symbols, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flood, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
