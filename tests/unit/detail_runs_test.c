/* SPDX-License-Identifier: Apache-2.0 */
/* Positions of numbered events (drain/detail_runs.c): in any order of arrival that handlers cause, and found fast. */
#include "drain/drain.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

static struct ct_drain_thread thread;
static struct ct_clock test_clock;

static int clean(void **state) {
    (void)state;
    free(thread.detail.runs);
    thread = (struct ct_drain_thread){0};
    return 0;
}

static void note(uint32_t number, uint64_t seq) {
    ct_detail_note_event(&thread, &test_clock, number, seq, seq, false);
}

static uint64_t position_of(uint64_t number) {
    const struct ct_detail_run *run = ct_detail_run_of(&thread.detail, number);
    return run ? run->seq + (number - run->number) : UINT64_MAX;
}

/* Stubs 10, 20 and 30 are interrupted by handlers, one in the other. Their events come last. */
static void test_handlers(void **state) {
    (void)state;
    uint64_t seq = 100;
    uint32_t number = 1;
    for (; number < 10; number++)
        note(number, seq++);
    for (number = 11; number <= 50; number++)
        if (number % 10 || number > 30)
            note(number, seq++);
    note(30, seq++);
    note(20, seq++);
    note(10, seq++);
    note(51, seq++);
    assert_int_equal(position_of(9), 108);
    assert_int_equal(position_of(11), 109);
    assert_int_equal(position_of(31), 127);
    assert_int_equal(position_of(30), 147);
    assert_int_equal(position_of(20), 148);
    assert_int_equal(position_of(10), 149);
    assert_int_equal(position_of(51), 150);
    assert_int_equal(position_of(52), UINT64_MAX);
}

/* A gap after each number. */
static void note_gaps(uint32_t count) {
    for (uint32_t i = 1; i <= count; i++)
        note(3 * i, i);
}

static double seconds_to_miss(uint32_t count) {
    enum { LOOKS = 200000 };
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (uint32_t i = 0; i < LOOKS; i++)
        assert_int_equal(position_of(3 * (i % count) + 1), UINT64_MAX);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

/* A target may have as many gaps as runs are kept, and records in all of them: what is not there is known as soon. */
static void test_gaps(void **state) {
    (void)state;
    note_gaps(8);
    double few = seconds_to_miss(8);
    (void)clean(NULL);
    note_gaps(8000);
    for (uint32_t i = 1; i <= 8000; i++)
        assert_int_equal(position_of(3 * i), i);
    assert_true(seconds_to_miss(8000) < 50 * few);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_handlers, clean),
        cmocka_unit_test_teardown(test_gaps, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
