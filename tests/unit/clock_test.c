/* SPDX-License-Identifier: Apache-2.0 */
/* From the CPU's counter to CLOCK_BOOTTIME. Each check brackets a counter value between two readings of the clock, so
 * that being interrupted in between does no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "drain/clock.h"
#include "os/thread.h"

#define TOLERANCE 20000 /* ns, as far from the two calibrations as these are from each other */

struct sample {
    uint64_t before, counter, after;
};

static struct sample take_sample(void) {
    struct sample s;
    s.before = ct_clock_now();
    s.counter = ct_os_timestamp();
    s.after = ct_clock_now();
    return s;
}

/* A line through two points is the less exact the farther from them: we may be held up between calibration and
 * sample. */
static uint64_t tolerance_at(const struct ct_clock *clock, uint64_t ns) {
    uint64_t from = clock->before.ns, to = clock->newest.ns, length = to - from;
    uint64_t distance = ns < from ? from - ns : ns > to ? ns - to : 0;
    return TOLERANCE * (1 + distance / length);
}

static void check(const struct ct_clock *clock, const struct sample *s) {
    uint64_t ns = ct_clock_ns(clock, s->counter), tolerance = tolerance_at(clock, s->before);
    if (ns + tolerance < s->before || ns > s->after + tolerance)
        fail_msg("%lld ns off", ns < s->before ? (long long)(ns - s->before) : (long long)(ns - s->after));
}

static void start(struct ct_clock *clock) {
    ct_clock_start(clock);
    usleep(20000);
    ct_clock_calibrate(clock);
}

/* As the drain does it: what happened since the last calibration is converted after the next one, or before. */
static void test_over_a_second(void **state) {
    (void)state;
    struct ct_clock clock;
    struct sample samples[10];
    start(&clock);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 10; i++) {
            usleep(10000);
            samples[i] = take_sample();
        }
        ct_clock_calibrate(&clock);
        for (unsigned i = 0; i < 10; i++)
            check(&clock, &samples[i]);
        struct sample now = take_sample();
        check(&clock, &now);
    }
    assert_int_equal(clock.count, 12);
}

/* Within a calibration later is never earlier; across one the line does not jump. */
static void test_monotonic(void **state) {
    (void)state;
    struct ct_clock clock;
    start(&clock);
    for (unsigned round = 0; round < 20; round++) {
        uint64_t counter = ct_os_timestamp(), last = ct_clock_ns(&clock, counter);
        for (unsigned i = 0; i < 1000; i++) {
            uint64_t next = ct_os_timestamp(), ns = ct_clock_ns(&clock, next);
            assert_true(next < counter || ns >= last);
            counter = next;
            last = ns;
        }
        uint64_t tolerance = tolerance_at(&clock, last);
        usleep(5000);
        ct_clock_calibrate(&clock);
        uint64_t again = ct_clock_ns(&clock, counter);
        assert_true(again + tolerance > last && again < last + tolerance);
    }
}

static void test_before_the_beginning(void **state) {
    (void)state;
    struct sample early = take_sample();
    struct ct_clock clock;
    start(&clock);
    check(&clock, &early);
}

/* The shortest of many: nobody interrupts all of them. */
static struct sample take_short_sample(void) {
    struct sample best = take_sample();
    for (int i = 0; i < 100; i++) {
        struct sample s = take_sample();
        if (s.after - s.before < best.after - best.before)
            best = s;
    }
    return best;
}

static void test_frequency(void **state) {
    (void)state;
    struct ct_clock clock;
    ct_clock_start(&clock);
    assert_true(ct_clock_hz(&clock) == 0);
    struct sample first = take_short_sample();
    usleep(100000);
    ct_clock_calibrate(&clock);
    struct sample last = take_short_sample();
    double hz = (double)(last.counter - first.counter) * 1e9 / (double)(last.before - first.before);
    assert_true(ct_clock_hz(&clock) > hz * 0.99 && ct_clock_hz(&clock) < hz * 1.01);
}

static void test_now_is_boottime(void **state) {
    (void)state;
    struct timespec a, b;
    clock_gettime(CLOCK_BOOTTIME, &a);
    uint64_t ns = ct_clock_now();
    clock_gettime(CLOCK_BOOTTIME, &b);
    assert_true(ns >= (uint64_t)a.tv_sec * 1000000000u + (uint64_t)a.tv_nsec);
    assert_true(ns <= (uint64_t)b.tv_sec * 1000000000u + (uint64_t)b.tv_nsec);
}

/* The first and the last pair are kept, and those around a step of the clock; the list is bounded. */
static void test_pairs(void **state) {
    (void)state;
    struct ct_clock_wall w = {0};
    uint64_t ahead = 1000000000000000000u;
    for (uint64_t i = 1; i <= 1000; i++) {
        ahead += i == 500 ? 60000000000u : 0;
        ct_clock_add_pair(&w, &(struct ct_clock_pair){i * 1000000000u, i * 1000000000u + ahead + i % 7, 0});
    }
    assert_int_equal(w.count, 4);
    assert_int_equal(w.pairs[0].boot_ns, 1000000000u);
    assert_int_equal(w.pairs[1].boot_ns, 499000000000u);
    assert_int_equal(w.pairs[2].boot_ns, 500000000000u);
    assert_int_equal(w.pairs[3].boot_ns, 1000000000000u);
    for (uint64_t i = 1001; i <= 2000; i++) {
        ahead += 60000000000u;
        ct_clock_add_pair(&w, &(struct ct_clock_pair){i * 1000000000u, i * 1000000000u + ahead, 0});
    }
    assert_int_equal(w.count, CT_CLOCK_PAIRS);
    assert_int_equal(w.pairs[CT_CLOCK_PAIRS - 1].boot_ns, 2000000000000u);
    struct ct_clock_wall now = {0};
    ct_clock_note_wall(&now);
    ct_clock_note_wall(&now);
    ct_clock_note_wall(&now);
    assert_int_equal(now.count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_a_second),        cmocka_unit_test(test_monotonic),
        cmocka_unit_test(test_before_the_beginning), cmocka_unit_test(test_frequency),
        cmocka_unit_test(test_now_is_boottime),      cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
