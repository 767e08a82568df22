/* SPDX-License-Identifier: Apache-2.0 */
/* Inline caches of indirect calls: one call site with few and many targets, targets that are given up, several threads,
 * signals. */
#include <contrail/stalker.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <cmocka.h>

#include "stalk_code.h"

#if defined __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#endif

static volatile unsigned one = 1;

#define TARGET_LIST(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define DEFINE_TARGET(n)                                                                                               \
    NOINLINE static unsigned target_##n(unsigned x) {                                                                  \
        __asm__ volatile("");                                                                                          \
        return x * (2 * n + 1) + n;                                                                                    \
    }
TARGET_LIST(DEFINE_TARGET)
typedef unsigned function(unsigned x);
#define NAME_TARGET(n) target_##n,
static function *const targets[16] = {TARGET_LIST(NAME_TARGET)};

/* The call site. */
NOINLINE static unsigned call(function *f, unsigned x) {
    return f(x) + one;
}

NOINLINE static unsigned run(function *const *list, unsigned count, unsigned times) {
    unsigned sum = 0;
    for (unsigned i = 0; i < times; i++)
        sum = sum * 31 + call(list[i % count], i);
    return sum;
}

static struct ct_stalker *make(enum ct_stalker_memory memory, int entries) {
    struct ct_stalker_options options = {.size = sizeof options, .memory = memory, .inline_cache_entries = entries};
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    return stalker;
}

/* ---- numbers of targets ---- */

static void check_site(enum ct_stalker_memory memory, int entries, unsigned count) {
    struct ct_stalker *stalker = make(memory, entries);
    struct ct_stalker_statistics s[4];
    unsigned expected = run(targets, count, 128), sums[3];
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        s[i].size = sizeof s[i];
    for (unsigned i = 0; i < 3; i++) {
        ct_stalker_statistics(stalker, &s[i]);
        sums[i] = run(targets, count, 128);
    }
    ct_stalker_statistics(stalker, &s[3]);
    ct_stalker_unfollow_me(stalker);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(sums[i], expected);
    unsigned most = entries < 0 ? 0 : entries ? (unsigned)entries : 4;
    assert_int_equal(s[3].cached - s[0].cached, count < most ? count : most);
    assert_int_equal(s[3].crowded - s[0].crowded, most && count > most);
    /* Everything is known: the engine is not asked, but for targets that may share a place in a table, by where the
     * program lies. */
    assert_true(s[3].lookups - s[2].lookups <= 32);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void test_sites(void **state) {
    static const int entries[] = {-1, 0, 1, 2, 3, 4, 8};
    static const unsigned counts[] = {1, 2, 4, 16};
    (void)state;
    for (unsigned e = 0; e < sizeof entries / sizeof *entries; e++)
        for (unsigned n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int memory = CT_STALKER_MEMORY_RWX; memory <= last_memory(); memory++)
                check_site((enum ct_stalker_memory)memory, entries[e], counts[n]);
}

/* Never trusted: never cached, right all the same. */
static void test_distrust(void **state) {
    (void)state;
    struct ct_stalker *stalker = make(CT_STALKER_MEMORY_AUTO, 4);
    struct ct_stalker_statistics s = {.size = sizeof s};
    unsigned expected = run(targets, 4, 64);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, -1), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    unsigned sum = run(targets, 4, 64);
    ct_stalker_unfollow_me(stalker);
    ct_stalker_statistics(stalker, &s);
    assert_int_equal(sum, expected);
    assert_int_equal(s.cached, 0);
    assert_int_equal(s.crowded, 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void test_bad_input(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .inline_cache_entries = 9};
    assert_int_equal(ct_stalker_create(&stalker, &options), CT_ERR_INVALID_ARGUMENT);
    options.inline_cache_entries = -2;
    assert_int_equal(ct_stalker_create(&stalker, &options), CT_ERR_INVALID_ARGUMENT);
}

/* ---- targets that change ---- */

enum { PAGE = 4096 };

static void write_target(uint8_t *at, unsigned value) {
    assert_int_equal(mprotect(at, PAGE, PROT_READ | PROT_WRITE), 0);
    put_leaf(at, (int)value);
    assert_int_equal(mprotect(at, PAGE, PROT_READ | PROT_EXEC), 0);
}

static uint8_t *make_targets(function **list) {
    uint8_t *pages = map_code(3 * PAGE);
    for (unsigned i = 0; i < 3; i++) {
        write_target(pages + i * PAGE, i * 1000);
        list[i] = (function *)(void *)(pages + i * PAGE);
    }
    return pages;
}

/* Often enough that the cache is not filled again. */
static void test_changing_targets(void **state) {
    (void)state;
    for (int memory = CT_STALKER_MEMORY_RWX; memory <= last_memory(); memory++) {
        function *list[3];
        uint8_t *pages = make_targets(list);
        struct ct_stalker *stalker = make((enum ct_stalker_memory)memory, 4);
        struct ct_stalker_statistics s = {.size = sizeof s};
        unsigned wrong = 0;
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        for (unsigned round = 0; round < 40; round++) {
            unsigned values[3] = {0, 1000, 2000};
            unsigned which = round % 3;
            values[which] += round;
            write_target(pages + which * PAGE, values[which]);
            for (unsigned i = 0; i < 12; i++)
                wrong += call(list[i % 3], 0) != values[i % 3] + 1;
            write_target(pages + which * PAGE, which * 1000);
        }
        ct_stalker_unfollow_me(stalker);
        ct_stalker_statistics(stalker, &s);
        assert_int_equal(wrong, 0);
        assert_true(s.cached > 3);
        assert_true(s.crowded >= 1);
        assert_int_equal(ct_stalker_destroy(stalker), 0);
        munmap(pages, 3 * PAGE);
    }
}

/* ---- threads ---- */

struct worker {
    pthread_t thread;
    struct ct_stalker *stalker;
    unsigned first, sum;
    volatile int *ended;
};

static void *work(void *arg) {
    struct worker *w = arg;
    ct_stalker_follow_me(w->stalker, NULL, NULL);
    w->sum = run(targets + w->first, 3, 30000);
    ct_stalker_unfollow_me(w->stalker);
    __atomic_add_fetch(w->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Their targets overlap, and are given up by a third one all the time. */
static void test_threads(void **state) {
    (void)state;
    for (int memory = CT_STALKER_MEMORY_RWX; memory <= last_memory(); memory++) {
        struct ct_stalker *stalker = make((enum ct_stalker_memory)memory, 8);
        struct worker workers[2];
        volatile int ended = 0;
        for (unsigned i = 0; i < 2; i++) {
            workers[i] = (struct worker){.stalker = stalker, .first = i, .ended = &ended};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; ended < 2; i++) {
            assert_int_equal(ct_stalker_invalidate(stalker, (uint64_t)targets[i % 5]), 0);
            struct timespec moment = {0, 20000};
            nanosleep(&moment, NULL);
        }
        for (unsigned i = 0; i < 2; i++) {
            pthread_join(workers[i].thread, NULL);
            assert_int_equal(workers[i].sum, run(targets + i, 3, 30000));
        }
        assert_int_equal(ct_stalker_destroy(stalker), 0);
    }
}

/* ---- signals ---- */

static volatile unsigned signals;

static void on_signal(int signal) {
    (void)signal;
    signals++;
}

static void test_signals(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGVTALRM, &action, &old);
    for (int entries = 1; entries <= 4; entries++) {
        struct ct_stalker *stalker = make(CT_STALKER_MEMORY_AUTO, entries);
        unsigned expected = run(targets, 3, 1000), wrong = 0;
        signals = 0;
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        setitimer(ITIMER_VIRTUAL, &often, NULL);
        for (unsigned round = 0; round < 2000 || signals < 5; round++)
            wrong += run(targets, 3, 1000) != expected;
        setitimer(ITIMER_VIRTUAL, &never, NULL);
        ct_stalker_unfollow_me(stalker);
        assert_int_equal(wrong, 0);
        assert_int_equal(ct_stalker_destroy(stalker), 0);
    }
    sigaction(SIGVTALRM, &old, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sites),     cmocka_unit_test(test_distrust),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_changing_targets),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
