/* SPDX-License-Identifier: Apache-2.0 */
/* How far back the detail lane reaches, both sides in one process: memory that grows with the pre-roll, records of open
 * calls that outlast it, and what is not overwritten while a mark is pending. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <unistd.h>
#include <cmocka.h>

#include "detail_util.h"
#include "session/mark.h"
#include <contrail/status.h>

static void drain(void) {
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(lane_finish_drain(&f), 0);
}

/* ---- tests ---- */

static size_t size_of_call; /* of its two records */

static size_t kept_with(size_t memory, bool grows) {
    start(memory, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, grows);
    ct_detail_publish_rolls(&f.drain);
    struct ct_block *b = begin();
    size_of_call = b->call_size + b->return_size;
    make_calls(b, 40000);
    mark(0);
    drain();
    size_t count = count_calls(1, UINT64_MAX);
    (void)clean(NULL);
    return count;
}

/* A thread has a mebibyte by default, and what the pre-roll needs if it is asked for. */
static void test_memory_is_used(void **state) {
    (void)state;
    size_t fixed = kept_with(32 << 20, false), few = kept_with(4 << 20, true), more = kept_with(8 << 20, true);
    assert_in_range(fixed, (1 << 20) / 10 * 9 / size_of_call, (1 << 20) / size_of_call);
    assert_in_range(few, (4 << 20) / 10 * 9 / size_of_call, (4 << 20) / size_of_call);
    assert_in_range(more, (8 << 20) / 10 * 9 / size_of_call, (8 << 20) / size_of_call);
    assert_int_equal(kept_with(32 << 20, true), 40000);
}

/* One busy thread may have nearly all of it. */
static void test_share_of_one(void **state) {
    (void)state;
    for (size_t memory = 4 << 20; memory <= 256 << 20; memory *= 8) {
        start(memory, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, true);
        ct_detail_publish_rolls(&f.drain);
        assert_in_range((size_t)f.lane.control->share * f.lane.chunks_of_class[0] * CT_SHM_DETAIL_CHUNK,
                        memory / 100 * 92, memory);
        (void)clean(NULL);
    }
}

/* Most and fewest large segments that a thread of these has. */
static void count_large(struct ct_block *const *threads, size_t count, uint32_t *fewest, uint32_t *most) {
    *fewest = UINT32_MAX;
    *most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t has = 0;
        for (uint32_t k = 0; k < f.lane.segments_of_class[0]; k++) {
            uint32_t word = __atomic_load_n(&f.lane.segments[k].word, __ATOMIC_RELAXED);
            has +=
                word && CT_SEGMENT_STATE(word) != CT_SEGMENT_FROZEN && CT_SEGMENT_SLOT(word) == threads[i]->lane_slot;
        }
        *fewest = has < *fewest ? has : *fewest;
        *most = has > *most ? has : *most;
    }
}

/* One thread has filled all memory and does nothing more. Then 200 come: they have equal parts, and it has one too. */
static void test_many_threads_share(void **state) {
    (void)state;
    enum { THREADS = 201 };
    struct ct_block *threads[THREADS];
    uint32_t fewest = 0, most = 0;
    start(32 << 20, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, true);
    assert_int_equal(ct_drain_start(&f.drain), 0);
    threads[0] = begin();
    make_calls(threads[0], 120000);
    count_large(threads, 1, &fewest, &most);
    assert_true(most > f.lane.segments_of_class[0] / 10 * 9);
    for (int i = 1; i < THREADS; i++)
        threads[i] = begin();
    for (uint64_t end = ct_clock_now() + 100 * NS; (fewest < 1 || most > 1) && ct_clock_now() < end;) {
        for (int i = 1; i < THREADS; i++) {
            assert_int_equal(ct_block_install(threads[i]), 0);
            make_calls(threads[i], 100);
        }
        count_large(threads, THREADS, &fewest, &most);
    }
    assert_int_equal(fewest, 1);
    assert_int_equal(most, 1);
    assert_int_equal(lane_finish_drain(&f), 0);
}

static void check_pre_roll(size_t events, size_t calls) {
    start(32 << 20, &(struct ct_windows_rolls){.pre_events = events}, true);
    ct_detail_publish_rolls(&f.drain);
    make_calls(begin(), calls);
    mark(0);
    drain();
    assert_int_equal(count_calls(1, UINT64_MAX), events / 2);
    assert_in_range(f.drain.detail ? f.drain.detail->most_bytes : 0, 3 << 20, 6 << 20);
    (void)clean(NULL);
}

/* No more than the pre-roll needs, and no less: wherever in a segment it begins. */
static void test_small_pre_roll(void **state) {
    (void)state;
    for (size_t events = 19200; events <= 20000; events += 200)
        for (size_t more = 0; more < 60; more += 20)
            check_pre_roll(events, 30000 + more);
    check_pre_roll(20000, 60000);
}

/* Each pass takes long: windows are over before all of a pre-roll is taken. */
static void sleep_long(void *arg, uint64_t now_ns) {
    unsigned *passes = arg;
    (void)now_ns;
    if ((*passes)++ < 3)
        usleep(1200000);
}

/* A crash whose pre-roll is more than one pass takes: its registers wait for all of it, however long that is. */
static void test_slow_crash(void **state) {
    (void)state;
    unsigned passes = 0;
    start(32 << 20, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, true);
    ct_detail_publish_rolls(&f.drain);
    f.drain.on_pass = sleep_long;
    f.drain.on_pass_arg = &passes;
    struct ct_block *b = begin();
    make_calls(b, 60000);
    open_call(b, 5, 77);
    const struct ct_signal_record record = {.tid = f.lane.threads[b->lane_slot].tid,
                                            .signal = SIGSEGV,
                                            .counter = ct_os_timestamp(),
                                            .fatal = true,
                                            .register_count = 1,
                                            .mark = "crash"};
    assert_int_equal(ct_drain_start(&f.drain), 0);
    assert_int_equal(ct_drain_signal(&f.drain, &record), 0);
    while (__atomic_load_n(&f.drain.pass, __ATOMIC_RELAXED) < 6)
        usleep(1000);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(count_calls(5, 77), 1);
    assert_int_equal(count_calls(1, UINT64_MAX), 60000);
}

/* Two busy threads have about the same. */
static void test_threads_share(void **state) {
    (void)state;
    start(16 << 20, &(struct ct_windows_rolls){.pre_ns = 600 * NS}, true);
    ct_detail_publish_rolls(&f.drain);
    struct ct_block *a = begin(), *b = begin();
    for (int i = 0; i < 400; i++) {
        f.lane.control->share = f.lane.segments_of_class[0] / (i < 100 ? 1 : 2); /* as the drain publishes it */
        assert_int_equal(ct_block_install(a), 0);
        make_calls(a, 200);
        assert_int_equal(ct_block_install(b), 0);
        make_calls(b, i < 100 ? 0 : 200);
        for (uint32_t k = 0; k < f.lane.segment_count; k++) /* the drain frees what was handed over */
            if (CT_SEGMENT_STATE(f.lane.segments[k].word) == CT_SEGMENT_FROZEN)
                ct_lane_free_segment(&f.lane, k);
    }
    uint32_t of_a = 0, of_b = 0;
    for (uint32_t k = 0; k < f.lane.segments_of_class[0]; k++) {
        of_a += CT_SEGMENT_SLOT(f.lane.segments[k].word) == a->lane_slot && f.lane.segments[k].word;
        of_b += CT_SEGMENT_SLOT(f.lane.segments[k].word) == b->lane_slot && f.lane.segments[k].word;
    }
    assert_in_range(of_a, f.lane.segments_of_class[0] / 2 - 1, f.lane.segments_of_class[0] / 2 + 1);
    assert_in_range(of_b, f.lane.segments_of_class[0] / 2 - 1, f.lane.segments_of_class[0] / 2 + 1);
}

/* Their records were overwritten long ago; calls that have returned are not among them. */
static void test_open_calls(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        start(round ? 1 << 20 : 32 << 20, &(struct ct_windows_rolls){.pre_ns = 1}, false);
        struct ct_block *b = begin();
        for (uint64_t i = 0; i < 40; i++)
            open_call(b, 10 + (uint32_t)i, 1000 + i);
        make_calls(b, 20000);
        for (uint32_t i = 39; i >= 20; i--)
            close_call(b, 10 + i, 0);
        make_calls(b, 20000);
        open_call(b, 60, 77);
        make_calls(b, 20000);
        mark(10);
        drain();
        for (uint32_t i = 0; i < 40; i++)
            assert_int_equal(count_calls(10 + i, UINT64_MAX), i < 20);
        assert_int_equal(count_calls(10, 1000), 1);
        assert_int_equal(count_calls(29, 1019), 1);
        assert_int_equal(count_calls(60, 77), 1);
        assert_int_equal(count_calls(1, UINT64_MAX), 5);
        (void)clean(NULL);
    }
}

/* The call whose return is marked, long after its record was overwritten, and before many more events. */
static void test_marked_call(void **state) {
    (void)state;
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 1, .post_ns = 1}, false);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_RETURN}; /* any value */
    struct ct_block *b = begin();
    open_call(b, 5, 4711);
    make_calls(b, 10000);
    close_call(b, 5, 9);
    make_calls(b, 20000); /* nobody has looked yet: what was there at the mark stays */
    drain();
    assert_int_equal(windows.marks, 1);
    assert_int_equal(count_calls(5, 4711), 1);
}

/* Of two marks that are pending, each has its record, although there is no memory left. */
static void test_pending_marks(void **state) {
    (void)state;
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 1, .post_ns = 1}, false);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_CALL};
    struct ct_block *b = begin();
    for (uint64_t i = 0; i < 3; i++) {
        open_call(b, 5, 100 + i);
        close_call(b, 5, 0);
        make_calls(b, 20000);
    }
    drain();
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(count_calls(5, 100 + i), 1);
}

/* A mark is pending, and memory is used up: later marks have their own records and those of their calls, however much
 * was called in them and after them. So have calls that are open at the end. */
static void test_marks_without_memory(void **state) {
    (void)state;
    enum { MARKS = 60 };
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 1, .post_ns = 1}, false);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_RETURN};
    struct ct_block *b = begin();
    open_call(b, 5, 99);
    close_call(b, 5, 99);
    make_calls(b, 20000);
    for (uint64_t i = 0; i < MARKS; i++) {
        open_call(b, 7, i);
        open_call(b, 5, 100 + i);
        make_calls(b, 100);
        record(b, 8, CT_EVENT_ENTRY, i, NULL); /* has no frame */
        close_call(b, 5, 200 + i);
        make_calls(b, 100);
        close_call(b, 7, 0);
    }
    open_call(b, 9, 77);
    mark(0);
    drain();
    assert_int_equal(windows.marks, MARKS + 2);
    for (uint64_t i = 0; i < MARKS; i++) {
        assert_int_equal(count_calls(5, 100 + i), 1);
        assert_int_equal(count_records(ATF_DETAIL_RETURN, 5, 200 + i), 1);
    }
    assert_int_equal(count_calls(9, 77), 1);
}

/* A thread for which there is no segment at all. */
static void test_marks_of_latecomers(void **state) {
    (void)state;
    start(1 << 20, &(struct ct_windows_rolls){.pre_ns = 1, .post_ns = 1}, false);
    f.lane.rules[5] = 1;
    f.lane.control->triggers[0] = (struct ct_shm_trigger){.kind = CT_SHM_ON_RETURN};
    struct ct_block *last = begin(); /* the first in the trace */
    record(last, 8, CT_EVENT_ENTRY, 0, NULL);
    for (uint32_t i = 0; i < f.lane.segment_count; i++)
        f.lane.segments[i].word = CT_SEGMENT_WORD(CT_SEGMENT_OWNED, 9999);
    f.lane.control->free_segments = 0;
    last->detail_cursor = 1ull << 63;
    open_call(last, 5, 33);
    make_calls(last, 1000);
    close_call(last, 5, 44);
    drain();
    assert_int_equal(count_calls(5, 33), 1);
    assert_int_equal(count_records(ATF_DETAIL_RETURN, 5, 44), 1);
}

static void test_operand_of_mark(void **state) {
    (void)state;
    char error[256];
    struct ct_windows_ask a = {.rolls = {.pre_ns = 1, .post_ns = 2, .post_most = 3}};
    assert_int_equal(ct_mark_parse("", &a, error, sizeof error), 0);
    assert_true(a.rolls.pre_ns == 1 && a.rolls.post_ns == 2 && a.rolls.post_most == 3 && !a.label[0]);
    assert_int_equal(ct_mark_parse("pre-ms=2000 post-ms=0 pre-events=7 label=before = deploy", &a, error, sizeof error),
                     0);
    assert_true(a.rolls.pre_ns == 2 * NS && a.rolls.post_ns == 0 && a.rolls.pre_events == 7 && !a.rolls.post_most);
    assert_string_equal(a.label, "before = deploy");
    assert_int_equal(ct_mark_parse("pre-events=5", &a, error, sizeof error), 0);
    assert_true(a.rolls.pre_ns == 0 && a.rolls.pre_events == 5);
    static const char *const wrong[] = {"pre-ms=",        "pre-ms=x",
                                        "pre-ms=3600001", "pre-ms=-1",
                                        "pre-ms=1x",      "pre-events=4294967297",
                                        "label=",         "label=a\nb",
                                        "other",          "pre-ms=99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ct_mark_parse(wrong[i], &a, error, sizeof error), CT_ERR_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_memory_is_used, clean),
        cmocka_unit_test_teardown(test_share_of_one, clean),
        cmocka_unit_test_teardown(test_many_threads_share, clean),
        cmocka_unit_test_teardown(test_small_pre_roll, clean),
        cmocka_unit_test_teardown(test_slow_crash, clean),
        cmocka_unit_test_teardown(test_threads_share, clean),
        cmocka_unit_test_teardown(test_open_calls, clean),
        cmocka_unit_test_teardown(test_marked_call, clean),
        cmocka_unit_test_teardown(test_pending_marks, clean),
        cmocka_unit_test_teardown(test_marks_without_memory, clean),
        cmocka_unit_test_teardown(test_marks_of_latecomers, clean),
        cmocka_unit_test(test_operand_of_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
