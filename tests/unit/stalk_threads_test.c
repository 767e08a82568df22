/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that others follow and unfollow while they run, that are started while followed, and several Stalkers. */
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk_util.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

struct worker {
    pthread_t thread;
    volatile int tid, stop;
    volatile unsigned long rounds, wrong;
};

static void *run(void *arg) {
    struct worker *w = arg;
    unsigned long expected = work(30);
    w->tid = (int)syscall(SYS_gettid);
    do {
        w->wrong += work(30) != expected;
        if (++w->rounds % 64 == 0)
            usleep(100); /* in system calls too */
    } while (!w->stop);
    return NULL;
}

static void start(struct worker *w) {
    memset(w, 0, sizeof *w);
    assert_int_equal(pthread_create(&w->thread, NULL, run, w), 0);
    while (!w->tid)
        usleep(100);
}

static void finish(struct worker *w) {
    w->stop = 1;
    pthread_join(w->thread, NULL);
    assert_int_equal(w->wrong, 0);
    assert_true(w->rounds > 0);
}

/* pthread_join comes back while the kernel is still at it. */
static void wait_until_gone(int tid) {
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        usleep(100);
}

static volatile unsigned long received;

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid, (void)events;
    received += count;
}

/* How often something is tried: less where the processor is emulated (scripts/arm64_guest.py). */
static int often(int times) {
    return getenv("CONTRAIL_TEST_EMULATED") ? times / 10 : times;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* In and out at every moment: the answer stays right. A machine that needs minutes for it does less. */
static void loop(int times, uint32_t mask, enum ct_stalker_memory memory) {
    struct worker w;
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .memory = memory};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = mask, .on_receive = receive};
    start(&w);
    assert_int_equal(ct_stalker_create(&stalker, &options), 0);
    double end = seconds() + 120;
    times = often(times);
    for (int i = 0; i < times && (i < 300 || seconds() < end); i++) {
        int status = ct_stalker_follow(stalker, w.tid, NULL, mask ? &sink : NULL);
        if (status)
            fail_msg("follow %d: %s", i, ct_status_text(status));
        if (i % 64 == 0)
            usleep(1000);
        for (volatile int k = 0; k < i % 50 * 100; k++)
            ;
        if (i % 100 == 0)
            assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, NULL), CT_ERR_BAD_STATE);
        status = ct_stalker_unfollow(stalker, w.tid);
        if (status)
            fail_msg("unfollow %d: %s", i, ct_status_text(status));
        assert_int_equal(ct_stalker_is_following(stalker, w.tid), 0);
    }
    finish(&w);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

static void test_loop(void **state) {
    (void)state;
    NEEDS_PTRACE();
    const char *text = getenv("STALK_LOOPS");
    loop(text ? atoi(text) : 2000, 0, CT_STALKER_MEMORY_AUTO);
}

static void test_loop_with_events(void **state) {
    (void)state;
    NEEDS_PTRACE();
    loop(300, CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_BLOCK, CT_STALKER_MEMORY_AUTO);
    assert_true(received > 0);
    loop(100, 0, CT_STALKER_MEMORY_DUAL);
    loop(100, 0, CT_STALKER_MEMORY_PROTECT);
}

/* Bytes below the records of a thread: they are of its own memory, mostly, and nobody's. */
enum { BELOW = 256, UNTOUCHED = 0xee };

static bool has_below(const struct stalk_thread *t) {
    return t->records >= t->records_memory + BELOW;
}

static bool is_untouched(const struct stalk_thread *t) {
    for (int i = 1; i <= BELOW; i++)
        if (t->records[-i] != UNTOUCHED)
            return false;
    return true;
}

/* Somebody wants the thread to leave while it runs, as ct_stalker_unfollow does when it finds it in the engine: it sees
 * that when it comes by with full records. */
static void ask_to_leave(struct stalk_thread *t) {
    if (has_below(t))
        memset(t->records - BELOW, UNTOUCHED, BELOW);
    double end = seconds() + 120;
    __atomic_store_n(&t->following, 2, __ATOMIC_RELEASE);
    while (__atomic_load_n(&t->following, __ATOMIC_ACQUIRE)) {
        if (seconds() > end)
            fail_msg("the thread is still followed");
        usleep(50);
    }
    if (has_below(t))
        assert_true(is_untouched(t));
}

/* A thread that leaves with full records writes no more of them. */
static void test_leave_when_full(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct worker w;
    struct ct_stalker *stalker;
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_BLOCK, .on_receive = receive};
    start(&w);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    for (int i = 0; i < often(80); i++) {
        unsigned long before = received;
        double end = seconds() + 120;
        assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, &sink), 0);
        while (received < before + 20000) {
            if (seconds() > end)
                fail_msg("%lu of 20,000 events", received - before);
            sched_yield();
        }
        assert_int_equal(stalker->threads->tid, w.tid);
        ask_to_leave(stalker->threads);
    }
    finish(&w);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* The code goes as soon as the thread was let go: it must have left it. */
static void test_destroy_at_once(void **state) {
    (void)state;
    NEEDS_PTRACE();
    const char *text = getenv("STALK_DESTROYS");
    struct worker w;
    start(&w);
    for (int i = 0, times = text ? atoi(text) : often(300); i < times; i++) {
        struct ct_stalker *stalker;
        assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
        assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, NULL), 0);
        for (volatile int k = 0; k < i % 50 * 100; k++)
            ;
        assert_int_equal(ct_stalker_unfollow(stalker, w.tid), 0);
        assert_int_equal(ct_stalker_destroy(stalker), 0);
    }
    finish(&w);
}

/* Several threads at once, and two Stalkers. */
static void test_several(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct worker workers[4];
    struct ct_stalker *stalkers[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(ct_stalker_create(&stalkers[i], NULL), 0);
    for (int i = 0; i < 4; i++)
        start(&workers[i]);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(ct_stalker_follow(stalkers[(i + round) % 2], workers[i].tid, NULL, NULL), 0);
        assert_int_equal(ct_stalker_follow_me(stalkers[0], NULL, NULL), 0);
        unsigned long mine = work(200);
        assert_int_equal(ct_stalker_unfollow_me(stalkers[0]), 0);
        assert_int_equal(mine, work(200));
        assert_int_equal(ct_stalker_stop(stalkers[0]), 0);
        assert_int_equal(ct_stalker_stop(stalkers[1]), 0);
    }
    for (int i = 0; i < 4; i++)
        finish(&workers[i]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ct_stalker_destroy(stalkers[i]), 0);
}

/* A thread that ends while it is followed. */
static void test_end(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct ct_stalker *stalker;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    for (int i = 0; i < 20; i++) {
        struct worker w;
        start(&w);
        assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, NULL), 0);
        finish(&w);
        wait_until_gone(w.tid);
        assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, NULL), CT_ERR_NOT_FOUND);
    }
    assert_int_equal(ct_stalker_stop(stalker), 0);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
}

/* However threads cease to be followed, the last one gives the program its handlers back. */
static void test_handlers(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct ct_stalker *stalkers[2];
    struct worker workers[3];
    signal(SIGUSR1, ignore_signal);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ct_stalker_create(&stalkers[i], NULL), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            start(&workers[i]);
            assert_int_equal(ct_stalker_follow(stalkers[i % 2], workers[i].tid, NULL, NULL), 0);
        }
        assert_true(handler_of(SIGUSR1) != (uint64_t)ignore_signal);
        assert_int_equal(ct_stalker_unfollow(stalkers[0], workers[0].tid), 0);
        finish(&workers[1]); /* it ends, followed */
        assert_true(handler_of(SIGUSR1) != (uint64_t)ignore_signal);
        assert_int_equal(ct_stalker_stop(stalkers[0]), 0);
        assert_int_equal(ct_stalker_stop(stalkers[1]), 0);
        assert_int_equal(handler_of(SIGUSR1), (uint64_t)ignore_signal);
        finish(&workers[0]);
        finish(&workers[2]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(ct_stalker_destroy(stalkers[i]), 0);
    signal(SIGUSR1, SIG_DFL);
}

/* Who was let go has done so: not when it gets its next turn. */
static void test_handlers_at_once(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct ct_stalker *stalker;
    struct worker w;
    signal(SIGUSR1, ignore_signal);
    start(&w);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    for (int i = 0; i < often(1000); i++) {
        assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, NULL), 0);
        assert_int_equal(ct_stalker_unfollow(stalker, w.tid), 0);
        assert_int_equal(handler_of(SIGUSR1), (uint64_t)ignore_signal);
    }
    finish(&w);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    signal(SIGUSR1, SIG_DFL);
}

static volatile unsigned long handled;

static void *storm(void *arg) {
    struct worker *w = arg;
    for (int i = 0; !w->stop; i++) {
        syscall(SYS_tgkill, getpid(), w->tid, i % 2 ? SIGUSR1 : SIGUSR2);
        if (i % 4 == 0)
            usleep(10);
    }
    return NULL;
}

static void on_storm(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    if (++handled % 4 == 0)
        syscall(SYS_getpid);
}

/* Let go in the first instructions of a handler, between two handlers, and where a handler returns: each is counted
 * once. */
static void test_loop_in_signals(void **state) {
    (void)state;
    NEEDS_PTRACE();
    struct worker w;
    pthread_t thread;
    struct ct_stalker *stalker;
    struct sigaction action = {.sa_sigaction = on_storm, .sa_flags = SA_SIGINFO | SA_RESTART};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
    start(&w);
    assert_int_equal(pthread_create(&thread, NULL, storm, &w), 0);
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    struct ct_stalker_sink sink = {
        .size = sizeof sink, .mask = CT_STALKER_CALL | CT_STALKER_RET, .on_receive = receive};
    for (int i = 0; i < often(600); i++) {
        assert_int_equal(ct_stalker_follow(stalker, w.tid, NULL, i % 2 ? &sink : NULL), 0);
        for (volatile int k = 0; k < i % 50 * 100; k++)
            ;
        assert_int_equal(ct_stalker_unfollow(stalker, w.tid), 0);
    }
    while (!handled)
        usleep(100); /* the sender may not have run yet */
    w.stop = 1;
    pthread_join(thread, NULL);
    finish(&w);
    assert_int_equal(ct_stalker_destroy(stalker), 0); /* nobody is followed, and nobody less than that */
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
}

static int followed_children;

static void *child(void *arg) {
    struct ct_stalker *stalker = arg;
    if (ct_stalker_is_following(stalker, 0) == 1)
        __atomic_add_fetch(&followed_children, 1, __ATOMIC_RELAXED);
    return (void *)work(100);
}

/* Threads that a followed thread starts. */
static void test_children(void **state) {
    (void)state;
    for (int follow_them = 0; follow_them < 2; follow_them++) {
        struct ct_stalker *stalker;
        struct ct_stalker_options options = {.size = sizeof options, .follow_children = follow_them};
        pthread_t threads[8];
        void *results[8];
        followed_children = 0;
        assert_int_equal(ct_stalker_create(&stalker, &options), 0);
        assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 8; i++)
                pthread_create(&threads[i], NULL, child, stalker);
            for (int i = 0; i < 8; i++)
                pthread_join(threads[i], &results[i]);
        }
        assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
        for (int i = 0; i < 8; i++)
            assert_int_equal((unsigned long)results[i], work(100));
        assert_int_equal(followed_children, follow_them ? 40 : 0);
        destroy_soon(stalker);
    }
}

/* A function with its value where one store changes it: rewritten by another thread. */
static uint8_t *changing;
static volatile int changing_seen;

/* It does not get ahead of the thread that executes it by more than 1,000 changes. */
static void *rewrite(void *arg) {
    for (int i = 1; i <= 20000; i++) {
        change_value(changing, i);
        if (i % 64 == 0)
            usleep(1);
        while (changing_seen < i - 1000)
            sched_yield();
    }
    return arg;
}

static void test_changed_by_another(void **state) {
    (void)state;
    struct ct_stalker *stalker;
    pthread_t thread;
    changing = map_code(4096);
    put_value(changing);
    int (*function)(void) = (int (*)(void))(void *)changing;
    assert_int_equal(ct_stalker_create(&stalker, NULL), 0);
    assert_int_equal(ct_stalker_set_trust_threshold(stalker, -1), 0);
    assert_int_equal(ct_stalker_follow_me(stalker, NULL, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, rewrite, NULL), 0);
    int last = 0, backward = 0, different = 0;
    while (last < 20000) {
        int now = function();
        backward += now < last;
        different += now != last;
        changing_seen = last = now;
    }
    assert_int_equal(ct_stalker_unfollow_me(stalker), 0);
    pthread_join(thread, NULL);
    assert_int_equal(backward, 0);
    assert_true(different >= 20);
    assert_int_equal(ct_stalker_destroy(stalker), 0);
    munmap(changing, 4096);
}

/* ---- the end of a process ---- */

static volatile unsigned long *marks; /* shared with the parent */

NOINLINE static void mark(void) {
    __asm__ volatile("");
}

static void count_marks(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++)
        marks[0] += events[i].kind == CT_STALKER_CALL && events[i].target == (uint64_t)mark;
}

static void *mark_and_wait(void *arg) {
    struct ct_stalker *stalker = arg;
    if (ct_stalker_is_following(stalker, 0) != 1)
        _exit(97);
    for (int i = 0; i < 7; i++)
        mark();
    __atomic_add_fetch(&marks[1], 1, __ATOMIC_RELEASE);
    for (;;) {
        if (marks[2])
            mark(); /* still at it */
        else
            pause();
    }
}

enum ending { BY_EXIT, BY_EXEC, BY_FAILED_EXEC, BY_SIGNAL, BY_EXIT_OF_BUSY, ENDINGS };

__attribute__((noreturn)) static void end_process(enum ending ending) {
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .drain_interval_ms = 100000, .follow_children = 1};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = CT_STALKER_CALL, .on_receive = count_marks};
    pthread_t thread;
    marks[2] = ending == BY_EXIT_OF_BUSY;
    if (ct_stalker_create(&stalker, &options) || ct_stalker_follow_me(stalker, NULL, &sink))
        _exit(98);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, mark_and_wait, stalker);
    while (__atomic_load_n(&marks[1], __ATOMIC_ACQUIRE) < 3)
        usleep(100);
    char *const arguments[] = {"true", NULL};
    if (ending == BY_FAILED_EXEC)
        execv("/nowhere/true", arguments); /* nothing is reported twice */
    if (ending == BY_EXEC)
        execv("/bin/true", arguments);
    if (ending == BY_SIGNAL)
        raise(SIGSEGV);
    _exit(0);
}

/* The thread that ends it reports what the others have recorded. */
static void test_end_of_process(void **state) {
    (void)state;
    marks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(marks != MAP_FAILED);
    for (int ending = 0; ending < ENDINGS; ending++) {
        marks[0] = marks[1] = 0;
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            end_process((enum ending)ending);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : status, ending == BY_SIGNAL ? SIGSEGV : 0);
        if (ending == BY_EXIT_OF_BUSY)
            assert_true(marks[0] >= 21);
        else
            assert_int_equal(marks[0], 21);
    }
    munmap((void *)marks, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_loop_with_events),
        cmocka_unit_test(test_leave_when_full),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_changed_by_another),
        cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_handlers_at_once),
        cmocka_unit_test(test_loop_in_signals),
        cmocka_unit_test(test_end_of_process),
        cmocka_unit_test(test_destroy_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
