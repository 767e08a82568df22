/* SPDX-License-Identifier: Apache-2.0 */
/* Critical sections of rseq(2) in followed threads: what the kernel begins again natively is begun again in the copy.
 * Threads that share processors count in words that belong to a processor, without atomic instructions: no count may be
 * lost. */
#include "stalk_util.h"

#include <pthread.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/time.h>

enum { CPUS = 8192, THREADS = 4, TIMES = 60000 };
static volatile long counts[CPUS][8];
static volatile long given_up __attribute__((used));
static volatile int tids[THREADS], ended;

static struct rseq *own_area(void) {
    return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Adds one to the word of the processor that it runs on, with a loop between load and store: nearly all of its time is
 * spent there. 0: it was interrupted, and has done nothing. */
__attribute__((noinline)) static int add_on(struct rseq *area, volatile long *word, uint32_t cpu) {
    int done = 0;
    ADD_IN_SECTION(done, area, word, cpu);
    return done;
}

static void *count(void *number) {
    struct rseq *area = own_area();
    cpu_set_t set;
    tids[(long)number] = (int)syscall(SYS_gettid);
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if ((long)number < 3)
        sched_setaffinity(0, sizeof set, &set); /* three on one processor, the last one everywhere */
    for (int i = 0; i < TIMES; i++) {
        uint32_t cpu;
        if ((long)number == 3 && i % 1000 == 0) {
            CPU_ZERO(&set);
            CPU_SET((unsigned)(i / 1000 % 2), &set);
            sched_setaffinity(0, sizeof set, &set); /* fails where there is one */
        }
        do
            cpu = __atomic_load_n(&area->cpu_id_start, __ATOMIC_RELAXED);
        while (!add_on(area, &counts[cpu][0], cpu));
    }
    __atomic_fetch_add(&ended, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static uint64_t events_seen;

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid, (void)events;
    __atomic_fetch_add(&events_seen, count, __ATOMIC_RELAXED);
}

static pthread_t threads[THREADS];

static void begin(void) {
    for (int i = 0; i < CPUS; i++)
        counts[i][0] = 0;
    given_up = ended = 0;
    for (long i = 0; i < THREADS; i++)
        tids[i] = 0;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, (void *)i);
}

static void check(void) {
    long sum = 0;
    for (int i = 0; i < CPUS; i++)
        sum += counts[i][0];
    assert_int_equal(sum, THREADS * TIMES);
}

/* How often the kernel has interrupted one. */
static long run(int trust, uint32_t mask) {
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .follow_children = 1};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = mask, .on_receive = receive};
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, trust), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, mask ? &sink : NULL), 0);
    begin();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    destroy_soon(stalker);
    check();
    return given_up;
}

static void repeat(int trust, uint32_t mask) {
    while (!run(trust, mask))
        ; /* nothing was shown yet */
}

static void test_counts(void **state) {
    (void)state;
    if (!__rseq_size)
        skip();
    repeat(1, 0);
    repeat(0, CT_STALKER_BLOCK | CT_STALKER_CALL);
    repeat(-1, 0);
}

static volatile long ticks;

static void on_tick(int signal) {
    (void)signal;
    __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
}

/* Signals interrupt sections too, and handlers return to where they are begun again. */
static void test_signals(void **state) {
    (void)state;
    if (!__rseq_size)
        skip();
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, old;
    struct itimerval timer = {{0, 100}, {0, 100}}, none = {{0, 0}, {0, 0}};
    assert_int_equal(sigaction(SIGPROF, &action, &old), 0);
    setitimer(ITIMER_PROF, &timer, NULL);
    do
        (void)run(1, CT_STALKER_CALL);
    while (!ticks);
    setitimer(ITIMER_PROF, &none, NULL);
    sigaction(SIGPROF, &old, NULL);
}

/* Threads that are followed and let go all the time, wherever they are. */
static void test_coming_and_going(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct ct_stalker *stalker;
    if (!__rseq_size)
        skip();
    int follows = 0;
    while (follows < 20) { /* threads may be through before they are found */
        assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
        begin();
        while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < THREADS)
            for (int i = 0; i < THREADS; i++)
                if (tids[i] && !ct_stalker_follow(stalker, tids[i], NULL, NULL)) {
                    follows++;
                    (void)ct_stalker_unfollow(stalker, tids[i]);
                }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        destroy_soon(stalker);
        check();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_coming_and_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
