/* SPDX-License-Identifier: Apache-2.0 */
/* What the budget decides (session/budget.h), with made-up numbers of calls. */
#include "base/percent.h"
#include "drain/drain_count.h"
#include "drain/clock.h"
#include "session/budget.h"
#include "session/budget_price.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { HOOKS = 8, PAIR = 100 };
#define MS 1000000ull

static struct ct_budget budget;
static struct ct_drain_count counts[HOOKS];
static uint64_t now_ns;

static int setup(void **state) {
    (void)state;
    memset(counts, 0, sizeof counts);
    budget = (struct ct_budget){.limit = 0.1};
    now_ns = 1000 * MS;
    assert_int_equal(ct_budget_grow(&budget, HOOKS), 0);
    for (int i = 0; i < HOOKS; i++) {
        budget.hooks[i].state = CT_BUDGET_IN;
        budget.hooks[i].pair_ns = PAIR;
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ct_budget_free(&budget);
    return 0;
}

/* A look after 50 ms of the program's own time, and what its calls have cost beside. */
static void look(void) {
    uint64_t cost = 0;
    for (int i = 0; i < HOOKS; i++)
        cost += (counts[i].calls - budget.hooks[i].seen) * PAIR;
    now_ns += 50 * MS;
    const struct ct_budget_look l = {
        .now_ns = now_ns, .cpu_ns = 50 * MS + cost, .scale = 1, .ns_per_count = 1, .counts = counts, .count = HOOKS};
    ct_budget_look(&budget, &l);
}

/* So that the hook costs this many percent of the program's own time. */
static void call(int hook, unsigned percent) {
    counts[hook].calls += 50 * MS / PAIR * percent / 100;
}

static size_t take_out(uint32_t *numbers) {
    size_t count = ct_budget_choose_out(&budget, now_ns, numbers, HOOKS);
    for (size_t i = 0; i < count; i++)
        ct_budget_take_out(&budget, numbers[i], now_ns);
    return count;
}

static void test_within(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    for (int i = 0; i < 20; i++) {
        call(0, 5);
        call(1, 4);
        look();
        assert_int_equal(take_out(numbers), 0);
    }
    assert_true(budget.share > 0.08 && budget.share < 0.1);
}

/* The dearest goes; what is left fits. */
static void test_dearest(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    call(0, 3);
    call(1, 50);
    call(2, 2);
    look();
    assert_int_equal(take_out(numbers), 1);
    assert_int_equal(numbers[0], 1);
    call(0, 3);
    call(2, 2);
    look();
    assert_int_equal(take_out(numbers), 0);
}

/* 200 ms are some looks: in that many after a change of load all that is too dear is out, however quiet it was. */
static void test_change_of_load(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    for (int i = 0; i < 100; i++) {
        call(0, 8);
        look();
        assert_int_equal(take_out(numbers), 0);
    }
    for (int hot = 1; hot < HOOKS; hot++) {
        size_t out = 0;
        for (int looks = 0; looks < CT_BUDGET_LOOKS; looks++) {
            call(0, budget.hooks[0].state == CT_BUDGET_IN ? 8 : 0);
            call(hot, budget.hooks[hot].state == CT_BUDGET_IN ? 30 : 0);
            look();
            out += take_out(numbers);
        }
        assert_true(out >= 1);
        assert_int_equal(budget.hooks[hot].state, CT_BUDGET_OUT);
        assert_true(budget.share_now <= budget.limit);
    }
    assert_int_equal(budget.hooks[0].state, CT_BUDGET_IN);
}

/* The same for one function whose load grows, from whatever within the limit to whatever is clearly more. */
static void test_growing_load(void **state) {
    uint32_t numbers[HOOKS];
    for (unsigned before = 0; before < 10; before++)
        for (unsigned after = 13; after < 40; after++) {
            for (int looks = 0; looks < 30; looks++) {
                call(0, before);
                look();
                assert_int_equal(take_out(numbers), 0);
                assert_int_equal(budget.over, 0);
            }
            for (unsigned looks = 1; budget.hooks[0].state == CT_BUDGET_IN; looks++) {
                assert_in_range(looks, 1, CT_BUDGET_LOOKS);
                call(0, after);
                look();
                assert_int_equal(budget.over, looks);
                (void)take_out(numbers);
            }
            teardown(state);
            setup(state);
        }
}

/* A leaf says less than a function that calls others, unless it takes long. */
static void test_leaves(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    call(0, 8);
    call(1, 7);
    counts[1].leaves = counts[1].calls;
    look();
    assert_int_equal(take_out(numbers), 1);
    assert_int_equal(numbers[0], 1);
    teardown(NULL);
    setup(NULL);
    call(0, 8);
    call(1, 7);
    counts[1].leaves = counts[1].calls;
    counts[1].leaf_counts = counts[1].calls * 100000;
    look();
    assert_int_equal(take_out(numbers), 1);
    assert_int_equal(numbers[0], 0);
}

/* What the user has named goes last; what must stay stays. */
static void test_named(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    budget.hooks[0].named = true;
    budget.hooks[3].state = CT_BUDGET_FIXED;
    call(0, 50);
    call(1, 5);
    call(2, 5);
    call(3, 50);
    look();
    assert_int_equal(take_out(numbers), 3);
    assert_int_equal(numbers[2], 0);
}

/* Comes back by a trial that shows that it is cheap now, and stays. */
static void test_comes_back(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    call(0, 50);
    look();
    assert_int_equal(take_out(numbers), 1);
    size_t looks = 0;
    do
        look();
    while (!ct_budget_choose_back(&budget, now_ns, numbers, HOOKS) && ++looks < 1000);
    assert_in_range(looks, 5, 999); /* not at once */
    assert_int_equal(numbers[0], 0);
    ct_budget_bring_back(&budget, 0, now_ns);
    assert_true(ct_budget_tries(&budget));
    for (int i = 0; i < 10; i++) {
        call(0, 1);
        look();
        assert_int_equal(take_out(numbers), 0);
    }
    assert_false(ct_budget_tries(&budget));
}

/* Trials of a hook that is still too dear become rarer. */
static void test_back_off(void **state) {
    (void)state;
    uint32_t numbers[HOOKS];
    size_t waits[4];
    call(0, 50);
    look();
    assert_int_equal(take_out(numbers), 1);
    for (int trial = 0; trial < 4; trial++) {
        for (waits[trial] = 0; !ct_budget_choose_back(&budget, now_ns, numbers, HOOKS) && waits[trial] < 10000;
             waits[trial]++)
            look();
        ct_budget_bring_back(&budget, 0, now_ns);
        call(0, 50);
        look();
        assert_int_equal(take_out(numbers), 1);
        assert_int_equal(numbers[0], 0);
    }
    assert_true(waits[1] > waits[0] && waits[2] > waits[1] && waits[3] > waits[2] && waits[3] < 10000);
}

/* Stops are our time too. */
static void test_stops(void **state) {
    (void)state;
    const struct ct_budget_look l = {
        .now_ns = now_ns, .cpu_ns = 50 * MS, .stopped_ns = 3 * MS, .scale = 1, .counts = counts, .count = HOOKS};
    ct_budget_look(&budget, &l);
    assert_true(budget.share > 0.05 && budget.share < 0.07);
}

/* Lost events were calls too. */
static void test_lost_events(void **state) {
    (void)state;
    call(0, 5);
    const struct ct_budget_look l = {
        .now_ns = now_ns, .cpu_ns = 70 * MS, .scale = 4, .ns_per_count = 1, .counts = counts, .count = HOOKS};
    ct_budget_look(&budget, &l);
    assert_true(budget.share > 0.15);
}

static void test_text(void **state) {
    (void)state;
    unsigned value;
    assert_true(ct_percent_parse("10%", &value) && value == 1000);
    assert_true(ct_percent_parse("2.5 %", &value) && value == 250);
    assert_true(ct_percent_parse("3", &value) && value == 300);
    assert_true(ct_percent_parse("off", &value) && value == 0);
    const char *const wrong[] = {"", "%", "0", "-3%", "10%x", "ten", "2000%", "0.01%", "nan", "inf"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(ct_percent_parse(wrong[i], &value));
}

/* What is done while the processor waits for the counter costs little. With the fast clock it does not wait. */
static void test_prices(void **state) {
    (void)state;
    const struct ct_budget_price seen = {.stamp_ns = 10, .visible = 1}, hidden = {.stamp_ns = 10, .visible = 0};
    assert_int_equal(ct_budget_price_pair(&seen, true, false), 56);
    assert_int_equal(ct_budget_price_pair(&seen, false, false), 32);
    assert_int_equal(ct_budget_price_pair(&hidden, true, false), 29);
    assert_int_equal(ct_budget_price_pair(&hidden, false, false), 23);
    assert_true(ct_budget_price_pair(&hidden, false, true) == ct_budget_price_pair(&seen, false, true));
}

static void test_price_of_this_machine(void **state) {
    (void)state;
    struct ct_clock clock = {0};
    ct_clock_start(&clock);
    ct_clock_calibrate(&clock);
    struct ct_budget_price price = ct_budget_price_measure(&clock);
    assert_true(price.stamp_ns > 0);
    assert_true(price.visible >= 0 && price.visible <= 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(within),
        TEST(dearest),
        TEST(change_of_load),
        TEST(growing_load),
        TEST(leaves),
        TEST(named),
        TEST(comes_back),
        TEST(back_off),
        TEST(stops),
        TEST(lost_events),
        TEST(text),
        TEST(prices),
        TEST(price_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
