/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks and the Stalker in one process: a followed thread fires each hook exactly once, whichever of them was there
 * first. */
#include <contrail/hook.h>
#include <contrail/stalker.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#if defined __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

NOINLINE static int inner(int x) {
    __asm__ volatile("");
    return x * 3 + 1;
}

NOINLINE static int outer(int x) {
    __asm__ volatile("");
    return inner(x) + 2;
}

static int work(int times) {
    int sum = 0;
    for (int i = 0; i < times; i++)
        sum += outer(i);
    return sum;
}

static int calls, returns;
static struct ct_stalker *stalker;

static void on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu, (void)call;
    calls++;
}

static void on_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu, (void)call;
    returns++;
}

static void follow_on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    on_call(cpu, call);
    if (calls == 1)
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
}

static const struct ct_hook_listener listener = {.size = sizeof listener, .on_call = on_call, .on_return = on_return};

static int set_up(void **state) {
    (void)state;
    calls = returns = 0;
    return ct_stalker_create(&stalker, NULL);
}

static int tear_down(void **state) {
    (void)state;
    return ct_stalker_destroy(stalker);
}

static void test_hooks_first(void **state) {
    (void)state;
    struct ct_hooks *hooks;
    int expected = work(10);
    assert_int_equal(ct_hooks_create(&hooks, NULL), 0);
    assert_true(ct_hooks_attach(hooks, (void *)inner, &listener, NULL) >= 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int result = work(10);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(result, expected);
    assert_int_equal(calls, 10);
    assert_int_equal(returns, 10);
    ct_hooks_destroy(hooks);
}

/* Code that was translated is patched, and patched back. */
static void test_following_first(void **state) {
    (void)state;
    struct ct_hooks *hooks;
    int expected = work(10);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    int before = work(10);
    assert_int_equal(ct_hooks_create(&hooks, NULL), 0);
    int hook = ct_hooks_attach(hooks, (void *)inner, &listener, NULL);
    assert_true(hook >= 0);
    int hooked = work(10);
    assert_int_equal(ct_stalker_is_following(stalker, 0), 1);
    assert_int_equal(calls, 10);
    assert_int_equal(ct_hooks_revert(hooks, hook), 0);
    int after = work(10);
    assert_int_equal(ct_stalker_is_following(stalker, 0), 1);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(before, expected);
    assert_int_equal(hooked, expected);
    assert_int_equal(after, expected);
    assert_int_equal(calls, 10);
    assert_int_equal(returns, 10);
    ct_hooks_destroy(hooks);
}

static size_t recorded;

static void sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    (void)arg, (void)tid, (void)events;
    recorded += count;
}

static void test_recorder(void **state) {
    (void)state;
    struct ct_hooks *hooks;
    for (int round = 0; round < 3; round++) {
        recorded = 0;
        assert_int_equal(ct_hooks_create(&hooks, NULL), 0);
        assert_int_equal(ct_hooks_set_sink(hooks, sink, NULL, 1024), 0);
        assert_true(ct_hooks_record(hooks, (void *)inner) >= 0);
        assert_true(ct_hooks_record(hooks, (void *)outer) >= 0);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        int result = work(5000);
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        assert_int_equal(ct_hooks_flush(hooks), 0);
        assert_int_equal(recorded, 20000);
        ct_hooks_destroy(hooks);
        assert_int_equal(result, work(5000));
    }
}

static void test_from_listener(void **state) {
    (void)state;
    struct ct_hooks *hooks;
    struct ct_hook_listener follower = {.size = sizeof follower, .on_call = follow_on_call, .on_return = on_return};
    int expected = work(10);
    assert_int_equal(ct_hooks_create(&hooks, NULL), 0);
    assert_true(ct_hooks_attach(hooks, (void *)inner, &follower, NULL) >= 0);
    int result = work(10);
    assert_int_equal(ct_stalker_is_following(stalker, 0), 1);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    assert_int_equal(result, expected);
    assert_int_equal(calls, 10);
    assert_int_equal(returns, 10);
    ct_hooks_destroy(hooks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hooks_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_following_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_recorder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_from_listener, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
