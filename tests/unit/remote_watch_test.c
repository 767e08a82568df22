/* SPDX-License-Identifier: Apache-2.0 */
/* A process that stays traced while it runs: every signal is reported before it is delivered, and the program behaves
 * as if nobody watched. The programs are functions of this file that run in a child. Every test runs twice: with a
 * tracer that is a process of its own, and with one that is a thread. */
#include "remote_util.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/resource.h>

/* ---- the watched process ---- */

struct program {
    int pid;
    int go, out; /* a byte lets it begin; what it says */
};

static int said, gate; /* in the child */

static void say(char what) {
    if (write(said, &what, 1) != 1)
        _exit(98);
}

static void wait_at_gate(void) {
    char byte;
    while (read(gate, &byte, 1) < 0)
        ;
}

static void start(struct program *p, void (*run)(void)) {
    int go[2], out[2];
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    p->pid = fork();
    if (p->pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        setpgid(0, 0); /* not in an orphaned group, which SIGTSTP does not stop */
        for (int i = 1; i < 32; i++)
            signal(i, SIG_DFL); /* cmocka's */
        said = out[1];
        gate = go[0];
        close(go[1]);
        close(out[0]);
        wait_at_gate();
        run();
        _exit(0);
    }
    close(go[0]);
    close(out[1]);
    p->go = go[1];
    p->out = out[0];
}

static char heard(struct program *p) {
    char byte = 0;
    struct pollfd ready = {p->out, POLLIN, 0};
    if (poll(&ready, 1, LIMIT_MS) != 1 || read(p->out, &byte, 1) != 1)
        return 0;
    return byte;
}

/* Where the tracer is a thread of ours, stops would be reported to a wait of ours too: so, only when it has ended. */
static int finish(struct program *p) {
    int status = 0, fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    struct pollfd ended = {fd, POLLIN, 0};
    assert_int_equal(poll(&ended, 1, LIMIT_MS), 1);
    close(fd);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(p->go);
    close(p->out);
    return status;
}

/* ---- what is reported ---- */

struct told {
    int count, fatal, handled;
    struct ct_remote_signal last;
    int others;
};

static void note(void *arg, const struct ct_remote_signal *signal) {
    struct told *told = arg;
    told->fatal += signal->fatal;
    told->handled += signal->handled;
    told->last = *signal;
    told->others = (int)signal->other_count;
    __atomic_fetch_add(&told->count, 1, __ATOMIC_RELEASE);
}

/* Stopped, watched and running again. */
static struct ct_remote *watch(struct program *p, struct told *told, uint64_t signals) {
    struct ct_remote *remote = open_remote(p->pid);
    const struct ct_remote_watch what = {.signals = signals, .crashes = signals == 0, .report = note, .arg = told};
    memset(told, 0, sizeof *told);
    assert_int_equal(ct_remote_watch(remote, &what), CT_OK);
    stop_remote(remote);
    assert_int_equal(ct_remote_resume(remote), CT_OK);
    assert_true(ct_remote_is_watched(remote));
    return remote;
}

static void let_begin(struct program *p) {
    assert_int_equal(write(p->go, "x", 1), 1);
}

static int tracer_of(int pid) {
    char path[64], line[128];
    int tracer = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    if (file)
        fclose(file);
    return tracer;
}

/* ---- crashes ---- */

static int *volatile nowhere = (int *)8;

/* Small, with every compiler option. */
__attribute__((no_sanitize("address", "undefined"))) static void write_null(void) {
    *(volatile int *)nowhere = 1;
}

static void test_crash(void **state) {
    (void)state;
    struct program p;
    struct told told;
    start(&p, write_null);
    struct ct_remote *remote = watch(&p, &told, 0);
    assert_int_not_equal(tracer_of(p.pid), 0);
    let_begin(&p);
    int status = finish(&p);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.fatal, 1);
    assert_int_equal(told.last.signal, SIGSEGV);
    assert_int_equal(told.last.code, SEGV_MAPERR);
    assert_int_equal(told.last.fault_address, 8);
    assert_int_equal(told.last.thread.tid, p.pid);
    uint64_t pc = ct_registers_pc(&told.last.thread.regs); /* a fork: our own code */
    assert_true(pc >= (uint64_t)(uintptr_t)write_null && pc < (uint64_t)(uintptr_t)write_null + 64);
    if (!ct_remote_never_vfork) /* else we have waited for it ourselves */
        assert_int_equal(ct_remote_exit_status(remote), status);
    ct_remote_close(remote);
}

static sigjmp_buf back;

static void jump_back(int number) {
    (void)number;
    siglongjmp(back, 1);
}

static void fault_and_recover(void) {
    struct sigaction action = {.sa_handler = jump_back};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < 100; i++)
        if (!sigsetjmp(back, 1))
            *(volatile int *)nowhere = 1;
    say('r');
}

static void test_own_handler(void **state) {
    (void)state;
    struct program p;
    struct told told;
    start(&p, fault_and_recover);
    struct ct_remote *remote = watch(&p, &told, 0);
    let_begin(&p);
    assert_int_equal(heard(&p), 'r');
    assert_int_equal(finish(&p), 0);
    assert_int_equal(told.count, 100);
    assert_int_equal(told.handled, 100);
    assert_int_equal(told.fatal, 0);
    ct_remote_close(remote);
}

static void *wait_forever(void *arg) {
    (void)arg;
    while (pause() < 0)
        ;
    return NULL;
}

static void *abort_soon(void *arg) {
    (void)arg;
    abort();
    return NULL;
}

static void abort_among_threads(void) {
    pthread_t thread;
    for (int i = 0; i < 8; i++)
        pthread_create(&thread, NULL, wait_forever, NULL);
    pthread_create(&thread, NULL, abort_soon, NULL);
    wait_forever(NULL);
}

static void test_threads(void **state) {
    (void)state;
    struct program p;
    struct told told;
    start(&p, abort_among_threads);
    struct ct_remote *remote = watch(&p, &told, 0);
    let_begin(&p);
    int status = finish(&p);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.fatal, 1);
    assert_int_equal(told.others, 9);
    assert_int_not_equal(told.last.thread.tid, p.pid);
    ct_remote_close(remote);
}

static void wait_for_ever(void) {
    say('w');
    wait_forever(NULL);
}

/* Other signals that kill are crashes too; SIGKILL is known from the end. */
static void test_killed(void **state) {
    (void)state;
    static const int signals[] = {SIGTERM, SIGKILL};
    for (int i = 0; i < 2; i++) {
        struct program p;
        struct told told;
        start(&p, wait_for_ever);
        struct ct_remote *remote = watch(&p, &told, 0);
        let_begin(&p);
        assert_int_equal(heard(&p), 'w');
        kill(p.pid, signals[i]);
        wait_for_state(p.pid, "Z");
        assert_int_equal(ct_remote_exit_status(remote), signals[i]);
        assert_int_equal(WTERMSIG(finish(&p)), signals[i]);
        assert_int_equal(told.fatal, i == 0);
        if (i == 0)
            assert_int_equal(told.last.sender, getpid());
        ct_remote_close(remote);
    }
}

/* ---- nothing else is to be noticed ---- */

static volatile sig_atomic_t counted;

static void count(int number) {
    (void)number;
    counted++;
}

/* An emulated machine takes long for each. */
static int raised_signals(void) {
    return getenv("CONTRAIL_TEST_EMULATED") ? 1000 : 20000;
}

static void count_signals(void) {
    struct sigaction action = {.sa_handler = count};
    sigset_t one, old;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, &old);
    say('c');
    while (counted < 2000) { /* each is reported before the next is sent */
        sigsuspend(&old);
        say('1');
    }
    for (int i = 0; i < raised_signals(); i++) {
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(SIGUSR1);
    }
    say(counted == 2000 + raised_signals() ? 'y' : 'n');
}

static void test_storm(void **state) {
    (void)state;
    struct program p;
    struct told told;
    start(&p, count_signals);
    struct ct_remote *remote = watch(&p, &told, 1ull << (SIGUSR1 - 1));
    let_begin(&p);
    assert_int_equal(heard(&p), 'c');
    for (int i = 0; i < 2000; i++) {
        kill(p.pid, SIGUSR1);
        assert_int_equal(heard(&p), '1');
    }
    assert_int_equal(heard(&p), 'y');
    assert_int_equal(finish(&p), 0);
    assert_int_equal(told.count, 2000 + raised_signals());
    assert_int_equal(told.handled, 2000 + raised_signals());
    ct_remote_close(remote);
}

/* No signal is pending for it any more. */
static void wait_taken(int pid) {
    char path[64], line[128];
    unsigned long long pending = 1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    while (pending) {
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file))
            if (sscanf(line, "ShdPnd: %llx", &pending) == 1)
                break;
        fclose(file);
        if (pending)
            usleep(200);
    }
}

/* epoll_wait ends with EINTR for handlers only. */
static void wait_with_epoll(void) {
    struct sigaction action = {.sa_handler = count};
    struct epoll_event event;
    int fd = epoll_create1(0);
    sigaction(SIGUSR2, &action, NULL);
    signal(SIGUSR1, SIG_IGN);
    say('e');
    int result = epoll_wait(fd, &event, 1, 20000);
    say(result < 0 && errno == EINTR && counted ? 'i' : 'n');
}

static void test_ignored(void **state) {
    (void)state;
#ifdef __aarch64__
    skip(); /* kernels that do not show the call's first argument: docs/LIMITS.md */
#endif
    struct program p;
    struct told told;
    start(&p, wait_with_epoll);
    struct ct_remote *remote = watch(&p, &told, 0);
    let_begin(&p);
    assert_int_equal(heard(&p), 'e');
    wait_for_state(p.pid, "S");
    static const int ignored[] = {SIGCHLD, SIGUSR1, SIGWINCH, SIGCONT};
    for (int i = 0; i < 4; i++) {
        kill(p.pid, ignored[i]);
        wait_taken(p.pid);
        wait_for_state(p.pid, "S"); /* in its call again */
    }
    kill(p.pid, SIGUSR2);
    assert_int_equal(heard(&p), 'i');
    assert_int_equal(finish(&p), 0);
    assert_int_equal(told.count, 0);
    ct_remote_close(remote);
}

static void *wait_for_signal(void *arg) {
    sigset_t one;
    int number;
    (void)arg;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    say('s');
    sigwait(&one, &number);
    say(number == SIGUSR1 ? 'g' : 'n');
    return NULL;
}

static void stop_and_go(void) {
    pthread_t thread;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    pthread_create(&thread, NULL, wait_for_signal, NULL);
    pthread_join(thread, NULL);
}

/* On its way from the signal's stop to that of job control it runs for a moment: so it must be found stopped several
 * times. A process that runs sleeps, and never is. */
static void wait_standing(int pid) {
    int found = 0;
    for (int i = 0; i < 10000 && found < 10; i++) {
        found = state_of(pid) == 't' ? found + 1 : 0;
        sleep_ms(1);
    }
    assert_int_equal(found, 10);
}

/* The parent sees it stop and go on, nobody runs in between, and a stop of ours in the middle changes nothing. */
static void test_job_control(void **state) {
    (void)state;
    struct program p;
    struct told told;
    int status;
    start(&p, stop_and_go);
    struct ct_remote *remote = watch(&p, &told, 0);
    let_begin(&p);
    assert_int_equal(heard(&p), 's');
    static const int stops[] = {SIGSTOP, SIGTSTP};
    for (int i = 0; i < 2; i++) {
        kill(p.pid, stops[i]);
        if (!ct_remote_never_vfork) { /* a tracer that is its parent hears of it first */
            assert_int_equal(waitpid(p.pid, &status, WUNTRACED), p.pid);
            assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == stops[i]);
        }
        wait_standing(p.pid);
        stop_remote(remote);
        assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), p.pid);
        assert_int_equal(ct_remote_resume(remote), CT_OK);
        wait_standing(p.pid);
        kill(p.pid, SIGCONT);
        wait_for_state(p.pid, "S");
    }
    kill(p.pid, SIGUSR1);
    assert_int_equal(heard(&p), 'g');
    assert_int_equal(finish(&p), 0);
    ct_remote_close(remote);
}

static void *end_at_once(void *arg) {
    return arg;
}

/* Threads come and go all the time. */
static void make_threads(void) {
    pthread_t thread;
    for (int i = 0; i < 300; i++) {
        if (pthread_create(&thread, NULL, end_at_once, NULL) || pthread_join(thread, NULL))
            say('n');
    }
    say('t');
    wait_at_gate(); /* so that it cannot end between a look and a stop */
}

static void test_stops(void **state) {
    (void)state;
    struct program p;
    struct told told;
    char word = 0;
    start(&p, make_threads);
    struct ct_remote *remote = watch(&p, &told, 0);
    let_begin(&p);
    struct pollfd ready = {p.out, POLLIN, 0};
    int stops = 0;
    while (poll(&ready, 1, 0) == 0) {
        stop_remote(remote);
        assert_true(ct_remote_thread_count(remote) >= 1);
        assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), p.pid);
        assert_int_equal(ct_remote_resume(remote), CT_OK);
        if (++stops > 30)
            sleep_ms(2);
    }
    word = heard(&p);
    assert_int_equal(word, 't');
    let_begin(&p);
    assert_int_equal(finish(&p), 0);
    ct_remote_close(remote);
}

/* Let go while it runs, and taken again. */
static void test_unwatched(void **state) {
    (void)state;
    struct program p;
    struct told told;
    start(&p, wait_for_ever);
    struct ct_remote *remote = watch(&p, &told, 0);
    let_begin(&p);
    assert_int_equal(heard(&p), 'w');
    for (int i = 0; i < 3; i++) {
        const struct ct_remote_watch what = {.crashes = true, .report = note, .arg = &told};
        ct_remote_unwatch(remote);
        assert_int_equal(tracer_of(p.pid), 0);
        assert_false(ct_remote_is_watched(remote));
        assert_int_equal(ct_remote_watch(remote, &what), CT_OK);
        stop_remote(remote);
        assert_int_equal(ct_remote_resume(remote), CT_OK);
        assert_int_not_equal(tracer_of(p.pid), 0);
    }
    kill(p.pid, SIGTERM);
    assert_int_equal(WTERMSIG(finish(&p)), SIGTERM);
    assert_int_equal(told.fatal, 1);
    ct_remote_close(remote);
}

/* An exec ends all other threads, which wait to be reaped by us. */
static void *execute(void *arg) {
    (void)arg;
    execl("/bin/true", "true", NULL);
    return NULL;
}

static void execute_in_thread(void) {
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        pthread_create(&thread, NULL, wait_forever, NULL);
    pthread_create(&thread, NULL, execute, NULL);
    wait_forever(NULL);
}

/* A process with an exit signal of its own is none of our threads. */
static void clone_process(void) {
    signal(SIGUSR1, SIG_IGN);
    int status, pid = (int)syscall(SYS_clone, SIGUSR1, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        char path[] = "/proc/self/status", line[128];
        int tracer = -1;
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "TracerPid: %d", &tracer) == 1)
                break;
        _exit(tracer);
    }
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1);
}

static void test_exec_and_clone(void **state) {
    (void)state;
    void (*const programs[])(void) = {execute_in_thread, clone_process};
    for (int i = 0; i < 2; i++) {
        struct program p;
        struct told told;
        start(&p, programs[i]);
        struct ct_remote *remote = watch(&p, &told, 0);
        let_begin(&p);
        assert_int_equal(finish(&p), 0);
        ct_remote_close(remote);
    }
}

/* Whoever watches is killed: the process goes on, with the signals that it is to get. */
static void test_controller_dies(void **state) {
    (void)state;
    struct program p;
    start(&p, count_signals);
    int child = fork(), status;
    if (child == 0) {
        struct told told;
        (void)watch(&p, &told, 0);
        let_begin(&p);
        for (;;)
            pause();
    }
    assert_int_equal(heard(&p), 'c');
    for (int i = 0; i < 2000; i++) {
        if (i == 500)
            kill(child, SIGKILL);
        kill(p.pid, SIGUSR1);
        assert_int_equal(heard(&p), '1');
    }
    assert_int_equal(heard(&p), 'y');
    waitpid(child, &status, 0);
    assert_int_equal(finish(&p), 0);
}

static int by_thread(void **state) {
    (void)state;
    ct_remote_never_vfork = true;
    return 0;
}

static int apart(void **state) {
    (void)state;
    ct_remote_never_vfork = false;
    return 0;
}

int main(void) {
#define TWICE(test) cmocka_unit_test_setup(test, apart), cmocka_unit_test_setup(test, by_thread)
    const struct CMUnitTest tests[] = {
        TWICE(test_crash),     TWICE(test_own_handler),    TWICE(test_threads),         TWICE(test_killed),
        TWICE(test_storm),     TWICE(test_ignored),        TWICE(test_job_control),     TWICE(test_stops),
        TWICE(test_unwatched), TWICE(test_exec_and_clone), TWICE(test_controller_dies),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
