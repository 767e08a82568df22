/* SPDX-License-Identifier: Apache-2.0 */
/* The end of following, from two sides at once: a thread that is let go while it follows or unfollows itself, is in a
 * callback, starts others, ends, or runs natively in a storm of signals. When following is reported to be over, the
 * caller may free everything. */
#include "stalk_util.h"

#include <pthread.h>
#include <regex.h>
#include <sched.h>
#include <unwind.h>

static struct ct_stalker *stalker;
static volatile int tid, stage, starts, stops;
static volatile unsigned long received;

static void create(int follow_children) {
    struct ct_stalker_options options = {.size = sizeof options, .follow_children = follow_children};
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    tid = stage = starts = stops = 0;
    received = 0;
    signal(SIGUSR1, ignore_signal);
}

/* Nobody is followed, nobody less than that, and the program has its handlers. */
static void check_over(void) {
    assert_int_equal(handler_of(SIGUSR1), (uint64_t)ignore_signal);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    signal(SIGUSR1, SIG_DFL);
}

static void wait_for(volatile int *word, int value) {
    while (*word != value)
        usleep(100);
}

/* Callbacks that wait, so that somebody else is at work meanwhile: until `stage` says so, or for a moment. */
static void linger(void) {
    for (int i = 0; i < 100 && stage == 1; i++)
        usleep(1000);
}

static void slow_start(void *user, int of) {
    (void)user, (void)of;
    starts++;
    stage = 1;
    linger();
}

static void slow_stop(void *user, int of, int status) {
    (void)user, (void)of, (void)status;
    stage = 1;
    linger();
    stops++;
}

static void count_stop(void *user, int of, int status) {
    (void)user, (void)of, (void)status;
    stops++;
}

static void slow_receive(void *user, int of, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)of, (void)events;
    stage = 1;
    linger();
    received += count;
}

/* ---- asked, and in a loop ---- */

static volatile int released;

__attribute__((noinline, section("native_text"))) static void spin_natively(void) {
    while (!released)
        RELAX();
}
extern const char __start_native_text[], __stop_native_text[];

static void exclude_natives(void) {
    assert_int_equal(ct_stalker_exclude(stalker, (uint64_t)__start_native_text,
                                        (uint64_t)(__stop_native_text - __start_native_text)),
                     0);
}

__attribute__((noinline, section("native_text"))) static void raise_natively(void) {
    while (!released)
        syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
}

static void *raise_signals(void *arg) {
    tid = (int)syscall(SYS_gettid);
    if (ct_stalker_follow_me(stalker, NULL, NULL))
        return stalker;
    raise_natively();
    return arg;
}

/* A signal is being delivered to it when it is asked; afterwards it runs in excluded code, and does not come by any
 * more. */
static void test_natively_in_signals(void **state) {
    (void)state;
    NEEDS_PTRACE();
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        void *result = stalker;
        create(0);
        exclude_natives();
        released = 0;
        assert_int_equal(pthread_create(&thread, NULL, raise_signals, NULL), 0);
        while (!tid || ct_stalker_is_following(stalker, tid) != 1)
            usleep(10);
        usleep(i);
        int status = ct_stalker_unfollow(stalker, tid);
        released = 1;
        pthread_join(thread, &result);
        assert_null(result);
        assert_int_equal(status, 0);
        check_over();
    }
}

/* ---- by itself and by another ---- */

enum way { WAY_FOLLOW, WAY_UNFOLLOW, WAY_FLUSH, WAYS };
static enum way way;

/* What it does itself while it is let go is in a callback. */
static void *follow_itself(void *arg) {
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = CT_STALKER_CALL, .on_receive = way == WAY_FLUSH ? slow_receive : NULL};
    sink.start = way == WAY_FOLLOW ? slow_start : NULL;
    sink.stop = way == WAY_UNFOLLOW ? slow_stop : NULL;
    tid = (int)syscall(SYS_gettid);
    int status = ct_stalker_follow_me(stalker, NULL, &sink);
    work(2);
    if (way == WAY_UNFOLLOW)
        status |= ct_stalker_unfollow_me(stalker);
    if (way == WAY_FLUSH)
        status |= ct_stalker_flush(stalker);
    unsigned long result = work(2);
    return status || result != work(2) ? stalker : arg;
}

static void test_from_two_sides(void **state) {
    (void)state;
    NEEDS_PTRACE();
    for (int i = 0; i < 3 * WAYS; i++) {
        pthread_t thread;
        void *result = NULL;
        way = (enum way)(i % WAYS);
        create(0);
        assert_int_equal(pthread_create(&thread, NULL, follow_itself, NULL), 0);
        wait_for(&stage, 1);
        if (i % 2)
            assert_int_equal(ct_stalker_stop(stalker), 0);
        else
            assert_in_set(ct_stalker_unfollow(stalker, tid), ((unsigned long[]){0, (unsigned long)CT_ERR_NOT_FOUND}),
                          2);
        assert_int_equal(ct_stalker_is_following(stalker, tid), 0);
        if (way == WAY_UNFOLLOW)
            assert_int_equal(stops, 1);
        if (way == WAY_FLUSH)
            assert_true(received > 0);
        check_over(); /* it may still be in that function */
        stage = 2;
        pthread_join(thread, &result);
        assert_null(result);
    }
}

/* ---- let go natively, and at once followed again ---- */

static void *follow_again(void *arg) {
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = CT_STALKER_CALL, .on_receive = slow_receive, .stop = slow_stop};
    tid = (int)syscall(SYS_gettid);
    int status = ct_stalker_follow_me(stalker, NULL, &sink);
    work(2);
    spin_natively();
    sink.on_receive = NULL;
    sink.stop = count_stop;
    while (ct_stalker_follow_me(stalker, NULL, &sink)) /* not before the other one is through */
        sched_yield();
    status |= stops != 1;
    status |= ct_stalker_unfollow_me(stalker);
    return status ? stalker : arg;
}

static void *unfollow_other(void *arg) {
    return ct_stalker_unfollow(stalker, tid) ? stalker : arg;
}

static void test_followed_again(void **state) {
    (void)state;
    NEEDS_PTRACE();
    for (int i = 0; i < 5; i++) {
        pthread_t threads[2];
        create(0);
        exclude_natives();
        released = 0;
        assert_int_equal(pthread_create(&threads[0], NULL, follow_again, NULL), 0);
        while (!tid || ct_stalker_is_following(stalker, tid) != 1)
            usleep(10);
        usleep(1000);
        assert_int_equal(pthread_create(&threads[1], NULL, unfollow_other, NULL), 0);
        wait_for(&stage, 1); /* its events are being delivered */
        released = 1;
        for (int k = 0; k < 2; k++) {
            void *result = stalker;
            pthread_join(threads[k], &result);
            assert_null(result);
        }
        assert_int_equal(stops, 2);
        check_over();
    }
}

/* ---- handlers, by two threads ---- */

static void *work_on(void *arg) {
    *(volatile int *)arg = (int)syscall(SYS_gettid);
    while (!released)
        work(1);
    return NULL;
}

/* Follows and lets go one thread all the time: its handlers are ours when it is followed, whatever another thread
 * does. */
static void *come_and_go(void *arg) {
    volatile int other = 0;
    pthread_t thread;
    int wrong = pthread_create(&thread, NULL, work_on, (void *)&other);
    while (!wrong && !other)
        usleep(100);
    for (int i = 0; i < 60 && !wrong; i++) {
        wrong = ct_stalker_follow(stalker, other, NULL, NULL);
        for (int k = 0; k < 200 && !wrong; k++) {
            uint64_t action[4] = {0};
            wrong = (int)syscall(SYS_rt_sigaction, SIGUSR1, NULL, action, 8) || action[0] == (uint64_t)ignore_signal;
        }
        wrong |= ct_stalker_unfollow(stalker, other);
    }
    __atomic_add_fetch(&stage, 1, __ATOMIC_ACQ_REL);
    wait_for(&stage, 2);
    released = 1;
    pthread_join(thread, NULL);
    return wrong ? stalker : arg;
}

static void test_handlers_of_two(void **state) {
    (void)state;
    NEEDS_PTRACE();
    pthread_t threads[2];
    create(0);
    released = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 2; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    check_over();
}

/* ---- let go in an unwinder ---- */

static volatile uint64_t behind_stub;

/* The unwinder knows by now what kind of frame it is at. */
static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *arg) {
    volatile bool *seen = arg;
    uint64_t pc = _Unwind_GetIP(context);
    Dl_info where;
    if (*seen && !behind_stub)
        behind_stub = pc;
    if (*seen || dladdr((void *)pc, &where))
        return _URC_NO_REASON;
    *seen = true; /* where the excluded call returns to */
    stage = 1;
    wait_for(&stage, 2);
    return _URC_NO_REASON;
}

__attribute__((noinline, section("native_text"))) static void unwind_natively(volatile bool *seen) {
    _Unwind_Backtrace(look, (void *)seen);
    __asm__ volatile("");
}

NOINLINE static void *unwind(void *arg) {
    volatile bool seen = false;
    tid = (int)syscall(SYS_gettid);
    int status = ct_stalker_follow_me(stalker, NULL, NULL);
    unwind_natively(&seen);
    return status || !seen ? stalker : arg;
}

/* The return address at which the unwinder is gets corrected meanwhile. */
static void test_in_unwinder(void **state) {
    (void)state;
    NEEDS_PTRACE();
    pthread_t thread;
    void *result = stalker;
    create(0);
    exclude_natives();
    behind_stub = 0;
    assert_int_equal(pthread_create(&thread, NULL, unwind, NULL), 0);
    wait_for(&stage, 1);
    assert_int_equal(ct_stalker_unfollow(stalker, tid), 0);
    stage = 2;
    pthread_join(thread, &result);
    assert_null(result);
    assert_in_range(behind_stub, (uint64_t)unwind, (uint64_t)unwind + 256);
    check_over();
}

/* ---- threads that begin and end ---- */

static void *calls(void *arg) {
    work(2);
    return arg;
}

static void use_one_processor(cpu_set_t *before) {
    cpu_set_t one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, before)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

/* A thread that was started, and has not had its turn, when its creator's Stalker goes. */
static void test_started_before_destroy(void **state) {
    (void)state;
    NEEDS_PTRACE();
    cpu_set_t before;
    use_one_processor(&before);
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        create(i & 1);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, calls, NULL), 0);
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        if (i & 2)
            assert_true(ct_stalker_garbage_collect(stalker) >= 0);
        assert_int_equal(ct_stalker_stop(stalker), 0);
        check_over();
        pthread_join(thread, NULL);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void *start_others(void *arg) {
    pthread_t threads[4];
    tid = (int)syscall(SYS_gettid);
    while (!released) {
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, calls, NULL);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    return arg;
}

/* Nobody whom a followed thread has started is followed when all of them have been let go. */
static void test_stop_of_starters(void **state) {
    (void)state;
    NEEDS_PTRACE();
    pthread_t thread;
    create(1);
    released = 0;
    assert_int_equal(pthread_create(&thread, NULL, start_others, NULL), 0);
    while (!tid)
        usleep(10);
    int first = tid;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(ct_stalker_follow(stalker, first, NULL, NULL), 0);
        usleep(i % 10 * 50);
        assert_int_equal(ct_stalker_stop(stalker), 0);
        assert_int_equal(handler_of(SIGUSR1), (uint64_t)ignore_signal);
        assert_int_equal(ct_stalker_destroy(stalker), 0);
        create(1);
    }
    released = 1;
    pthread_join(thread, NULL);
    check_over();
}

static pthread_barrier_t barrier;

static void *meet_and_end(void *arg) {
    work(2);
    pthread_barrier_wait(&barrier);
    return arg;
}

NOINLINE static int other_code(void) {
    regex_t expression;
    int status = regcomp(&expression, "^(a|b+)*[x-z]{2,3}$", REG_EXTENDED);
    status |= regexec(&expression, "abbaxyz", 0, NULL, 0);
    regfree(&expression);
    return status;
}

/* Code that was translated goes while threads make their last steps, and other code takes its place. */
static void test_collected_at_the_end(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        pthread_t threads[3];
        create(1);
        assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        for (int k = 0; k < 3; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, meet_and_end, NULL), 0);
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < 5; k++) {
            assert_true(ct_stalker_garbage_collect(stalker) >= 0);
            assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
            int status = other_code();
            assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
            assert_int_equal(status, 0);
        }
        for (int k = 0; k < 3; k++)
            pthread_join(threads[k], NULL);
        pthread_barrier_destroy(&barrier);
        check_over();
    }
}

/* ---- probes ---- */

static volatile int destroyed, used_afterwards;

NOINLINE static int probed(int x) {
    __asm__ volatile("");
    return x + 1;
}

static void on_probe(struct ct_cpu_context *cpu, void *data) {
    (void)cpu, (void)data;
    stage = 1;
    linger();
    used_afterwards += destroyed;
}

static void on_destroy(void *data) {
    (void)data;
    destroyed++;
}

static void *call_probed(void *arg) {
    tid = (int)syscall(SYS_gettid);
    int status = ct_stalker_follow_me(stalker, NULL, NULL);
    probed(1);
    status |= ct_stalker_unfollow_me(stalker);
    return status ? stalker : arg;
}

/* Its owner is called when the thread that is in it has left it. */
static void test_probe_in_use(void **state) {
    (void)state;
    pthread_t thread;
    void *result = stalker;
    create(0);
    int probe = ct_stalker_add_call_probe(stalker, (uint64_t)probed, on_probe, NULL, on_destroy);
    assert_true(probe >= 0);
    assert_int_equal(pthread_create(&thread, NULL, call_probed, NULL), 0);
    wait_for(&stage, 1);
    assert_int_equal(ct_stalker_remove_call_probe(stalker, probe), 0);
    stage = 2;
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(destroyed, 1);
    assert_int_equal(used_afterwards, 0);
    check_over();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_natively_in_signals), cmocka_unit_test(test_from_two_sides),
        cmocka_unit_test(test_followed_again),      cmocka_unit_test(test_handlers_of_two),
        cmocka_unit_test(test_in_unwinder),         cmocka_unit_test(test_started_before_destroy),
        cmocka_unit_test(test_stop_of_starters),    cmocka_unit_test(test_collected_at_the_end),
        cmocka_unit_test(test_probe_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
