/* SPDX-License-Identifier: Apache-2.0 */
/* The ticker of the fast clock: what it stores, when it sleeps, and that no time is later than it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "drain/ticker.h"
#include "os/thread.h"
#include <time.h>

#define DEADLINE_S   20
#define OUT_OF_ORDER 1000 /* counts: the processor may load the tick before it reads the counter */

static uint64_t made, step; /* events; `step` more at each look */

static uint64_t count_events(void *arg) {
    (void)arg;
    return __atomic_add_fetch(&made, __atomic_load_n(&step, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static struct ct_ticker begin(struct ct_shm_clock *clock, uint64_t events) {
    made = 0;
    __atomic_store_n(&step, events, __ATOMIC_RELAXED);
    *clock = (struct ct_shm_clock){.tick = UINT64_MAX, .fast = 1};
    return (struct ct_ticker){.clock = clock, .events = count_events};
}

static uint64_t tick_of(const struct ct_shm_clock *clock) {
    return __atomic_load_n(&clock->tick, __ATOMIC_RELAXED);
}

static bool wait_until(const struct ct_shm_clock *clock, bool ticking) {
    time_t end = time(NULL) + DEADLINE_S;
    while ((tick_of(clock) != UINT64_MAX) != ticking) {
        if (time(NULL) > end)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return true;
}

/* Does what a stub does, without its 16th events: how late is the latest of many times? An event counts only if the
 * tick has not changed after it: this thread may stop for long at each instruction. */
static uint64_t latest_of(const struct ct_shm_clock *clock, uint64_t ticks) {
    uint64_t reading = 0, latest = 0, last = 0;
    while (ticks) {
        uint64_t tick = tick_of(clock), now = ct_os_timestamp();
        ticks -= tick != last;
        last = tick;
        if (reading < tick)
            reading = ct_os_timestamp();
        else if (now - reading > latest && tick_of(clock) == tick)
            latest = now - reading;
    }
    return latest;
}

static void test_no_time_is_later(void **state) {
    (void)state;
    struct ct_shm_clock clock;
    struct ct_ticker ticker = begin(&clock, 1u << 30);
    assert_int_equal(ct_ticker_start(&ticker), 0);
    assert_true(wait_until(&clock, true));
    uint64_t latest = latest_of(&clock, 500);
    ct_ticker_stop(&ticker);
    assert_int_equal(clock.tick, UINT64_MAX);
    assert_true(latest > 0);
    assert_true(latest <= ct_ticker_late(&ticker, 1) + OUT_OF_ORDER);
    assert_true(ct_ticker_late(&ticker, 0.5) <= ct_ticker_late(&ticker, 0.99));
    assert_true(ct_ticker_late(&ticker, 0.99) <= ct_ticker_late(&ticker, 1));
    uint64_t sum = 0;
    for (unsigned i = 0; i < CT_TICKER_BUCKETS; i++)
        sum += ticker.late[i];
    assert_true(sum == ticker.ticks && sum >= 400);
}

/* Begins with ticks, gives them up when there are few events, and begins again. */
static void test_sleeps(void **state) {
    (void)state;
    struct ct_shm_clock clock;
    struct ct_ticker ticker = begin(&clock, 0);
    assert_int_equal(ct_ticker_start(&ticker), 0);
    assert_true(wait_until(&clock, true));
    assert_true(wait_until(&clock, false));
    uint64_t ticks = __atomic_load_n(&ticker.ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&step, 1u << 30, __ATOMIC_RELAXED);
    assert_true(wait_until(&clock, true));
    assert_true(ticks > 0);
    ct_ticker_stop(&ticker);
    assert_int_equal(clock.tick, UINT64_MAX);
}

static void test_never_started(void **state) {
    (void)state;
    struct ct_ticker ticker = {0};
    ct_ticker_stop(&ticker);
    assert_int_equal(ct_ticker_late(&ticker, 1), 0);
    assert_int_equal(ct_ticker_late(&ticker, 0.5), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_time_is_later), cmocka_unit_test(test_sleeps),
                                       cmocka_unit_test(test_never_started)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
