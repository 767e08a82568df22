/* SPDX-License-Identifier: Apache-2.0 */
/* Stopped threads never notice: not in system calls, and no signal is lost. */
#include "stop_util.h"
#include "again.h"

/* ---- sleeping threads notice nothing ---- */

static int pipe_fds[2], socket_fds[2], epoll_fd, semaphore, futex_word;
static volatile int finished;
static long pause_ns; /* of calls that end by themselves */

static void block_nanosleep(void) {
    struct timespec before, after, time = {0, pause_ns}, rest;
    while (!finish) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        check(nanosleep(&time, &rest) == 0);
        clock_gettime(CLOCK_MONOTONIC, &after);
        check((after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec - before.tv_nsec >= time.tv_nsec);
    }
}

static void block_absolute_sleep(void) {
    struct timespec time, after;
    while (!finish) {
        clock_gettime(CLOCK_MONOTONIC, &time);
        time.tv_nsec += pause_ns;
        time.tv_sec += time.tv_nsec / 1000000000;
        time.tv_nsec %= 1000000000;
        check(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
        clock_gettime(CLOCK_MONOTONIC, &after);
        check(after.tv_sec > time.tv_sec || (after.tv_sec == time.tv_sec && after.tv_nsec >= time.tv_nsec));
    }
}

static void block_epoll(void) {
    struct epoll_event event;
    check(AGAIN(epoll_wait(epoll_fd, &event, 1, -1)) == 1);
}

static void block_epoll_pwait(void) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    check(AGAIN(epoll_pwait(epoll_fd, &event, 1, -1, &none)) == 1);
}

static void block_sigtimedwait(void) {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    check(AGAIN(sigtimedwait(&set, &info, NULL)) == SIGUSR2);
}

static void block_sigtimedwait_limited(void) {
    sigset_t set;
    siginfo_t info;
    struct timespec limit = {0, pause_ns};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    while (!finish)
        check(AGAIN(sigtimedwait(&set, &info, &limit)) == -1 && errno == EAGAIN);
}

static void block_futex(void) {
    check(syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0);
}

static void block_futex_limited(void) {
    struct timespec limit = {0, pause_ns};
    int word = 0;
    while (!finish)
        check(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0) == -1 && errno == ETIMEDOUT);
}

static void block_read(void) {
    char byte[16];
    check(read(pipe_fds[0], byte, sizeof byte) == 0); /* end of file */
}

static void block_poll(void) {
    struct pollfd fd = {pipe_fds[0], POLLIN, 0};
    check(poll(&fd, 1, -1) == 1);
}

static void block_poll_limited(void) {
    struct pollfd fd = {socket_fds[0], POLLIN, 0};
    while (!finish) {
        int result = poll(&fd, 1, (int)(pause_ns / 1000000));
        check(result == 0 || (result == 1 && finish));
    }
}

static void block_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipe_fds[0], &set);
    check(select(pipe_fds[0] + 1, &set, NULL, NULL, NULL) == 1);
}

static void block_receive(void) { /* with a time limit: the kernel's code for an interruption is EINTR itself */
    char byte;
    check(AGAIN(recv(socket_fds[0], &byte, 1, 0)) == 0);
}

static void block_semop(void) {
    struct sembuf operation = {0, -1, 0};
    check(AGAIN(semop(semaphore, &operation, 1)) == -1 && errno == EIDRM);
}

static void block_waitpid(void) {
    /* no children: our helper must not count as one */
    while (!finish) {
        check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        usleep((useconds_t)(pause_ns / 6000));
    }
}

static void (*const blockers[])(void) = {
    block_nanosleep, block_absolute_sleep, block_epoll,   block_epoll_pwait,   block_sigtimedwait,
    block_futex,     block_read,           block_poll,    block_poll_limited,  block_select,
    block_receive,   block_semop,          block_waitpid, block_futex_limited, block_sigtimedwait_limited,
};
enum { BLOCKERS = sizeof blockers / sizeof *blockers };

struct sleeper {
    pthread_t thread;
    void (*run)(void);
    volatile int tid;
};

static void *run_sleeper(void *arg) {
    struct sleeper *s = arg;
    s->tid = gettid_now();
    s->run();
    __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void open_everything(void) {
    struct timeval limit = {1000, 0};
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_fds), 0);
    assert_int_equal(setsockopt(socket_fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLHUP};
    assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_fds[0], &event), 0);
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    assert_true(semaphore >= 0);
    futex_word = 0;
    finish = errors = finished = 0;
}

static void check_sleepers(int n, int cycles) {
    static struct sleeper sleepers[MAX_THREADS];
    int bad_stops = 0, in_calls = 0;
    open_everything();
    pause_ns = n < 100 ? 3000000 : 30000000; /* many that wake up often would leave no processor to the rest */
    for (int i = 0; i < n; i++) {
        sleepers[i].tid = 0;
        sleepers[i].run = blockers[i % BLOCKERS];
        start_thread(&sleepers[i].thread, run_sleeper, &sleepers[i]);
    }
    for (int i = 0; i < n; i++)
        while (sleepers[i].tid == 0)
            usleep(100);
    for (int i = 0; i < n; i++)
        wait_asleep(sleepers[i].tid);
    for (int cycle = 0; cycle < cycles; cycle++) {
        struct ct_os_stopped *s = stop();
        bad_stops += ct_os_stopped_count(s) != (size_t)n;
        for (size_t i = 0; i < ct_os_stopped_count(s); i++) {
            struct ct_registers regs;
            uint8_t code[2];
            bad_stops += ct_os_stopped_get_regs(s, i, &regs) != CT_OK || ct_registers_sp(&regs) == 0;
            if (ct_registers_call_size(&regs) == 0)
                continue;
            in_calls++;
            bad_stops += ct_os_peek(ct_registers_pc(&regs), code, 2) != CT_OK || code[0] != 0x0f || code[1] != 0x05;
        }
        ct_os_resume_threads(s);
        usleep(200);
    }
    assert_int_equal(bad_stops, 0);
#ifdef __x86_64__                   /* on arm64 such a thread looks as if it had not made its call yet */
    assert_true(in_calls > cycles); /* sleeping threads were really met in their calls */
#endif
    assert_int_equal(errors, 0);
    assert_int_equal(finished, 0);
    for (int i = 0; i < n; i++) /* all calls have been repeated, so they end as they would have without us */
        wait_asleep(sleepers[i].tid);
    finish = 1;
    futex_word = 1;
    syscall(SYS_futex, &futex_word, FUTEX_WAKE, n, NULL, NULL, 0);
    close(pipe_fds[1]);
    close(socket_fds[1]);
    semctl(semaphore, 0, IPC_RMID);
    for (int i = 0; i < n; i++) {
        if (sleepers[i].run == block_sigtimedwait)
            syscall(SYS_tgkill, getpid(), sleepers[i].tid, SIGUSR2);
        pthread_join(sleepers[i].thread, NULL);
    }
    assert_int_equal(errors, 0);
    close(pipe_fds[0]);
    close(socket_fds[0]);
    close(epoll_fd);
}

static void test_sleeping_threads_notice_nothing(void **state) {
    (void)state;
    check_sleepers(BLOCKERS, times(200));
    check_sleepers(64, times(200));
}

static void test_a_thousand_threads(void **state) {
    (void)state;
    check_sleepers(getenv("CONTRAIL_TEST_EMULATED") ? 100 : 1000, 5);
}

/* ---- signals ---- */

static volatile int interrupted;

static void *wait_in_epoll(void *arg) {
    int fd = epoll_create1(0);
    struct epoll_event event;
    (void)arg;
    waiter_tid = gettid_now();
    while (!finish) {
        int result = epoll_wait(fd, &event, 1, -1);
        check(result == -1 && errno == EINTR);
        __atomic_add_fetch(&interrupted, 1, __ATOMIC_SEQ_CST);
    }
    close(fd);
    return NULL;
}

/* A call that a real signal ends is not repeated, even when the signal comes while the thread is stopped. */
static void test_real_interruptions_stay(void **state) {
    (void)state;
    pthread_t thread;
    finish = errors = handled = interrupted = waiter_tid = 0;
    handle(SIGUSR1, count_signal, SA_RESTART);
    handle(SIGUSR2, SIG_IGN, 0);
    start_thread(&thread, wait_in_epoll, NULL);
    while (!waiter_tid)
        usleep(100);
    for (int i = 1; i <= 50; i++) {
        wait_asleep(waiter_tid);
        struct ct_os_stopped *s = stop();
        syscall(SYS_tgkill, getpid(), waiter_tid, SIGUSR2); /* ignored: nothing happens */
        ct_os_resume_threads(s);
        wait_asleep(waiter_tid);
        assert_int_equal(interrupted, i - 1);
        s = stop();
        syscall(SYS_tgkill, getpid(), waiter_tid, SIGUSR1);
        if (i == 50)
            finish = 1;
        ct_os_resume_threads(s);
        while (interrupted != i)
            usleep(100);
        assert_int_equal(handled, i);
    }
    pthread_join(thread, NULL);
    assert_int_equal(errors, 0);
    handle(SIGUSR2, SIG_DFL, 0);
}

static volatile int storm_over, sent;

static void *send_storm(void *arg) {
    int target = *(volatile int *)arg;
    while (!storm_over) {
        if (sent - handled > 500) { /* the kernel has room for some thousands, of all processes of a user */
            sched_yield();
            continue;
        }
        siginfo_t info = {.si_signo = SIGRTMIN + 1, .si_code = SI_QUEUE, .si_pid = getpid(), .si_uid = getuid()};
        if (syscall(SYS_rt_tgsigqueueinfo, getpid(), target, SIGRTMIN + 1, &info) == 0)
            sent++;
        if (sent % 16 == 0)
            sched_yield();
    }
    return NULL;
}

/* Nearly always in the middle of a delivery. */
static volatile int self_sent, self_handled;

static void count_own_signal(int number) {
    (void)number;
    self_handled++;
}

static void *send_to_self(void *arg) {
    siginfo_t info = {.si_signo = SIGRTMIN + 3, .si_code = SI_QUEUE, .si_pid = getpid(), .si_uid = getuid()};
    while (!storm_over) {
        self_sent++;
        while (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid_now(), SIGRTMIN + 3, &info) != 0) {
            check(errno == EAGAIN); /* the queue is full */
            sched_yield();
        }
        check(self_handled == self_sent);
    }
    return arg;
}

static void test_no_signal_is_lost(void **state) {
    (void)state;
    pthread_t sender, sleeper, self;
    storm_over = sent = handled = self_sent = self_handled = 0;
    errors = finished = 0;
    handle(SIGRTMIN + 1, count_signal, SA_RESTART);
    start_spinners(2);
    static struct sleeper s1;
    s1.run = block_nanosleep; /* not a target: it must not see anything */
    start_thread(&sleeper, run_sleeper, &s1);
    start_thread(&sender, send_storm, (void *)&spinners[0].tid);
    handle(SIGRTMIN + 3, count_own_signal, SA_RESTART);
    start_thread(&self, send_to_self, NULL);
    for (int i = 0; i < times(500); i++) {
        struct ct_os_stopped *s = stop();
        ct_os_resume_threads(s);
        sched_yield();
    }
    storm_over = 1;
    pthread_join(sender, NULL);
    pthread_join(self, NULL);
    while (handled < sent)
        usleep(1000);
    usleep(2000);
    assert_int_equal(handled, sent);
    assert_true(sent > 0);
    end_spinners(2);
    pthread_join(sleeper, NULL);
    assert_int_equal(errors, 0);
}

/* The handler goes on where the thread was, with the signal information that was sent. */
static volatile int value_sum;

static void add_value(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    __atomic_add_fetch(&value_sum, info->si_value.sival_int, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void test_signals_to_the_process_while_stopped(void **state) {
    (void)state;
    struct sigaction action = {.sa_sigaction = add_value, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 2, &action, NULL);
    handled = value_sum = 0;
    start_spinners(3);
    int expected = 0;
    for (int i = 1; i <= 100; i++) {
        struct ct_os_stopped *s = stop();
        union sigval value = {.sival_int = i};
        sigqueue(getpid(), SIGRTMIN + 2, value);
        expected += i;
        int early = handled;
        ct_os_resume_threads(s);
        assert_int_equal(early, i - 1); /* the caller's own signals are blocked meanwhile */
        while (handled != i)
            usleep(50);
    }
    assert_int_equal(value_sum, expected);
    end_spinners(3);
}

static int stop_under_job_control(void) {
    start_spinners(4);
    for (int i = 0; i < times(200); i++) {
        struct ct_os_stopped *s = NULL;
        if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
            return 1;
        ct_os_resume_threads(s);
    }
    end_spinners(4);
    return 0;
}

static void test_job_control_meanwhile(void **state) {
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(stop_under_job_control());
    int status = 0;
    pid_t ended = 0;
    for (unsigned i = 0; ended == 0; i++) {
        kill(pid, SIGSTOP);
        usleep(300);
        kill(pid, SIGCONT);
        usleep(700 + (i < 2000 ? i * 10 : 20000)); /* on a busy machine it gets its turn late */
        ended = waitpid(pid, &status, WNOHANG);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleeping_threads_notice_nothing),
        cmocka_unit_test(test_a_thousand_threads),
        cmocka_unit_test(test_real_interruptions_stay),
        cmocka_unit_test(test_no_signal_is_lost),
        cmocka_unit_test(test_signals_to_the_process_while_stopped),
        cmocka_unit_test(test_job_control_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
