/* Stopping the threads of one's own process: that they stand still, and that they never notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <asm/prctl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "os/os.h"

enum { LIMIT_MS = 20000, MAX_THREADS = 1024 };

/* ---- helpers ---- */

static struct ct_os_stopped *stop(void) {
    struct ct_os_stopped *s = NULL;
    assert_int_equal(ct_os_stop_threads_within(&s, LIMIT_MS), CT_OK);
    return s;
}

static int stopped_index(struct ct_os_stopped *s, int tid) {
    for (size_t i = 0; i < ct_os_stopped_count(s); i++)
        if (ct_os_stopped_tid(s, i) == tid)
            return (int)i;
    return -1;
}

/* The child's exit status. */
static int in_child(int (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void start_thread(pthread_t *thread, void *(*run)(void *), void *arg) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    int result = pthread_create(thread, &attributes, run, arg);
    pthread_attr_destroy(&attributes);
    if (result != 0)
        abort();
}

/* Waits until the thread sleeps in a system call. */
static void wait_asleep(int tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    for (;;) {
        FILE *file = fopen(path, "r");
        if (!file || !fgets(text, sizeof text, file))
            abort();
        fclose(file);
        if (strrchr(text, ')')[2] == 'S')
            return;
        usleep(200);
    }
}

static int gettid_now(void) {
    return (int)syscall(SYS_gettid);
}

/* ---- busy threads stand still ---- */

static volatile int finish;

struct spinner {
    pthread_t thread;
    volatile uint64_t count;
    volatile int tid;
};

static void *spin(void *arg) {
    struct spinner *s = arg;
    s->tid = gettid_now();
    setpriority(PRIO_PROCESS, (id_t)s->tid, 5); /* the testing thread shall get its turn soon */
    while (!finish)
        s->count++;
    return NULL;
}

static struct spinner spinners[MAX_THREADS];

static void start_spinners(int n) {
    finish = 0;
    for (int i = 0; i < n; i++) {
        spinners[i].count = 0;
        start_thread(&spinners[i].thread, spin, &spinners[i]);
    }
    for (int i = 0; i < n; i++)
        while (spinners[i].count == 0)
            usleep(100);
}

static void end_spinners(int n) {
    finish = 1;
    for (int i = 0; i < n; i++)
        pthread_join(spinners[i].thread, NULL);
}

/* Everybody moves. */
static void check_runs_on(int n) {
    static uint64_t last[MAX_THREADS];
    for (int i = 0; i < n; i++)
        last[i] = spinners[i].count;
    for (int i = 0; i < n; i++)
        while (spinners[i].count == last[i])
            usleep(100);
}

static void check_still(int n, int cycles) {
    static uint64_t before[MAX_THREADS];
    uint64_t moved = 0;
    start_spinners(n);
    for (int cycle = 0; cycle < cycles; cycle++) {
        struct ct_os_stopped *s = stop();
        size_t count = ct_os_stopped_count(s);
        for (int i = 0; i < n; i++)
            before[i] = spinners[i].count;
        for (volatile int wait = 0; wait < 20000; wait++)
            ;
        for (int i = 0; i < n; i++)
            moved += before[i] != spinners[i].count;
        ct_os_resume_threads(s);
        assert_int_equal(count, n);
    }
    assert_int_equal(moved, 0);
    check_runs_on(n);
    end_spinners(n);
}

static void test_busy_threads_stand_still(void **state) {
    (void)state;
    check_still(0, 20);
    check_still(1, 200);
    check_still(8, 200);
    check_still(64, 40);
}

static void test_a_long_stop(void **state) {
    (void)state;
    start_spinners(3);
    struct ct_os_stopped *s = stop();
    struct ct_os_regs regs;
    uint64_t before = spinners[0].count + spinners[1].count + spinners[2].count;
    struct timespec time = {0, 300000000}; /* several of the helper's own time slices */
    syscall(SYS_nanosleep, &time, NULL);
    uint64_t after = spinners[0].count + spinners[1].count + spinners[2].count;
    int status = ct_os_stopped_get_regs(s, 0, &regs);
    ct_os_resume_threads(s);
    assert_int_equal(before, after);
    assert_int_equal(status, CT_OK);
    check_runs_on(3);
    end_spinners(3);
}

/* ---- sleeping threads notice nothing ---- */

static int pipe_fds[2], socket_fds[2], epoll_fd, semaphore, futex_word;
static volatile int errors, finished;

/* For threads: cmocka's assertions are for the main one. */
static void note(int good, int line, int code) {
    if (good)
        return;
    if (__atomic_fetch_add(&errors, 1, __ATOMIC_SEQ_CST) == 0)
        fprintf(stderr, "line %d: failed, errno %d\n", line, code);
}
#define check(condition)                                                                                               \
    do {                                                                                                               \
        int good_ = (condition);                                                                                       \
        note(good_, __LINE__, errno);                                                                                  \
    } while (0)

static void block_nanosleep(void) {
    struct timespec before, after, time = {0, 3000000}, rest;
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
        time.tv_nsec += 3000000;
        time.tv_sec += time.tv_nsec / 1000000000;
        time.tv_nsec %= 1000000000;
        check(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
        clock_gettime(CLOCK_MONOTONIC, &after);
        check(after.tv_sec > time.tv_sec || (after.tv_sec == time.tv_sec && after.tv_nsec >= time.tv_nsec));
    }
}

static void block_epoll(void) {
    struct epoll_event event;
    check(epoll_wait(epoll_fd, &event, 1, -1) == 1);
}

static void block_epoll_pwait(void) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    check(epoll_pwait(epoll_fd, &event, 1, -1, &none) == 1);
}

static void block_sigtimedwait(void) {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    check(sigtimedwait(&set, &info, NULL) == SIGUSR2);
}

static void block_sigtimedwait_limited(void) {
    sigset_t set;
    siginfo_t info;
    struct timespec limit = {0, 3000000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    while (!finish)
        check(sigtimedwait(&set, &info, &limit) == -1 && errno == EAGAIN);
}

static void block_futex(void) {
    check(syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0);
}

static void block_futex_limited(void) {
    struct timespec limit = {0, 3000000};
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
        int result = poll(&fd, 1, 3);
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
    check(recv(socket_fds[0], &byte, 1, 0) == 0);
}

static void block_semop(void) {
    struct sembuf operation = {0, -1, 0};
    check(semop(semaphore, &operation, 1) == -1 && errno == EIDRM);
}

static void block_waitpid(void) {
    /* no children: our helper must not count as one */
    while (!finish) {
        check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        usleep(500);
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
    for (int i = 0; i < n; i++) {
        sleepers[i].tid = 0;
        sleepers[i].run = blockers[i % BLOCKERS];
        start_thread(&sleepers[i].thread, run_sleeper, &sleepers[i]);
    }
    for (int i = 0; i < n; i++)
        while (sleepers[i].tid == 0)
            usleep(100);
    usleep(5000);
    for (int cycle = 0; cycle < cycles; cycle++) {
        struct ct_os_stopped *s = stop();
        bad_stops += ct_os_stopped_count(s) != (size_t)n;
        for (size_t i = 0; i < ct_os_stopped_count(s); i++) {
            struct ct_os_regs regs;
            uint8_t code[2];
            bad_stops += ct_os_stopped_get_regs(s, i, &regs) != CT_OK || regs.sp == 0;
            if (regs.call_size == 0)
                continue;
            in_calls++;
            bad_stops += ct_os_peek(regs.pc, code, 2) != CT_OK || code[0] != 0x0f || code[1] != 0x05;
        }
        ct_os_resume_threads(s);
        usleep(200);
    }
    assert_int_equal(bad_stops, 0);
    assert_true(in_calls > cycles); /* sleeping threads were really met in their calls */
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
    check_sleepers(BLOCKERS, 200);
    check_sleepers(64, 200);
}

static void test_a_thousand_threads(void **state) {
    (void)state;
    check_sleepers(1000, 5);
}

/* ---- signals ---- */

static volatile int handled, interrupted;
static volatile int waiter_tid;

static void count_signal(int number) {
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

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
        check(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid_now(), SIGRTMIN + 3, &info) == 0);
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
    for (int i = 0; i < 500; i++) {
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
    for (int i = 0; i < 200; i++) {
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
    while (ended == 0) {
        kill(pid, SIGSTOP);
        usleep(300);
        kill(pid, SIGCONT);
        usleep(700);
        ended = waitpid(pid, &status, WNOHANG);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- threads come and go ---- */

static volatile uint64_t births, steps;

static void *short_life(void *arg) {
    for (int i = 0; i < 20000; i++)
        steps++; /* races with the others: all that counts is that it changes */
    return arg;
}

static void *breed(void *arg) {
    while (!finish) {
        pthread_t child;
        start_thread(&child, short_life, arg);
        pthread_join(child, NULL);
        births++;
    }
    return NULL;
}

static void test_threads_come_and_go(void **state) {
    (void)state;
    pthread_t breeders[4];
    finish = 0;
    births = 0;
    for (int i = 0; i < 4; i++)
        start_thread(&breeders[i], breed, NULL);
    for (int i = 0; i < 300 || births < 300; i++) {
        struct ct_os_stopped *s = stop();
        size_t count = ct_os_stopped_count(s);
        uint64_t before = births + steps;
        for (volatile int wait = 0; wait < 20000; wait++)
            ;
        uint64_t after = births + steps;
        ct_os_resume_threads(s);
        assert_true(count >= 4);
        assert_int_equal(before, after);
    }
    finish = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(breeders[i], NULL);
}

/* The main thread of a process may end before the others, also in the middle of a stop. */
static void *outlive(void *arg) {
    (void)arg;
    for (int alone = 0; alone < 10;) {
        struct ct_os_stopped *s = NULL;
        if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
            _exit(1);
        size_t count = ct_os_stopped_count(s);
        ct_os_resume_threads(s);
        if (count != 1 && (count != 2 || alone))
            _exit(2);
        alone += count == 1;
    }
    _exit(0);
}

static int end_main_thread(void) {
    pthread_t thread;
    start_spinners(1);
    start_thread(&thread, outlive, NULL);
    usleep(500);
    syscall(SYS_exit, 0);
    return 3;
}

static void test_dead_main_thread(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(in_child(end_main_thread), 0);
}

/* Kernel threads that work for the process are in its thread group too. */
static void test_io_uring_worker(void **state) {
    (void)state;
    struct io_uring_params parameters = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 100000};
    int fd = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (fd < 0)
        skip();
    for (int i = 0; i < 20; i++) {
        struct ct_os_stopped *s = stop();
        size_t count = ct_os_stopped_count(s);
        ct_os_resume_threads(s);
        assert_int_equal(count, 1);
    }
    close(fd);
}

static volatile int wins, busy;

static void *compete(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        struct ct_os_stopped *s = NULL;
        int status = ct_os_stop_threads_within(&s, LIMIT_MS);
        check(status == CT_OK || status == CT_ERR_BUSY);
        __atomic_add_fetch(status == CT_OK ? &wins : &busy, 1, __ATOMIC_SEQ_CST);
        if (status == CT_OK)
            ct_os_resume_threads(s);
    }
    return NULL;
}

static void test_one_stop_at_a_time(void **state) {
    (void)state;
    pthread_t threads[3];
    wins = busy = errors = 0;
    for (int i = 0; i < 3; i++)
        start_thread(&threads[i], compete, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wins + busy, 300);
    assert_true(wins > 0);
    assert_int_equal(errors, 0);
}

/* ---- registers ---- */

static volatile uint64_t gs_seen;
static volatile int look_at_gs;

static void *show_gs(void *arg) {
    volatile int *tid = arg;
    *tid = gettid_now();
    while (!look_at_gs)
        ;
    uint64_t base = 0;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    gs_seen = base;
    return NULL;
}

static void test_gs_base(void **state) {
    (void)state;
    pthread_t thread;
    static volatile int tid;
    tid = look_at_gs = 0;
    start_thread(&thread, show_gs, (void *)&tid);
    while (!tid)
        usleep(100);
    uint64_t fs = 0;
    syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
    struct ct_os_stopped *s = stop();
    struct ct_os_regs regs = {0}, back = {0}, bad;
    int i = stopped_index(s, tid);
    int got = ct_os_stopped_get_regs(s, (size_t)i, &regs);
    bad = regs;
    bad.gs_base = 1ull << 63;
    int refused = ct_os_stopped_set_regs(s, (size_t)i, &bad);
    int out_of_range = ct_os_stopped_get_regs(s, ct_os_stopped_count(s), &bad);
    regs.gs_base = 0x12345678000;
    int set = ct_os_stopped_set_regs(s, (size_t)i, &regs);
    ct_os_stopped_get_regs(s, (size_t)i, &back);
    ct_os_resume_threads(s);
    look_at_gs = 1;
    pthread_join(thread, NULL);
    assert_int_equal(got, CT_OK);
    assert_int_equal(set, CT_OK);
    assert_int_equal(refused, CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(out_of_range, CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(gs_seen, 0x12345678000);
    assert_int_equal(back.gs_base, 0x12345678000);
    assert_true(regs.fs_base != 0 && regs.fs_base != fs);
}

/* jmp self · mov eax, 5; ret */
static const uint8_t loop_code[] = {0xeb, 0xfe, 0xb8, 5, 0, 0, 0, 0xc3};

static uint8_t *code_page(void) {
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    return page;
}

static void *call_code(void *code) {
    long (*function)(void);
    memcpy(&function, &code, sizeof function);
    waiter_tid = gettid_now();
    return (void *)function();
}

/* Starts a thread that runs `code` until it stands at code + offset. */
static pthread_t start_code(uint8_t *code) {
    pthread_t thread;
    waiter_tid = 0;
    start_thread(&thread, call_code, code);
    while (!waiter_tid)
        usleep(100);
    return thread;
}

/* Moves the thread, once it stands at `from`, and sends it a signal (0: none) while it is stopped. */
static void move_thread(const uint8_t *from, const uint8_t *to, uint64_t call_size, int number) {
    struct ct_os_regs regs = {0};
    int status;
    do { /* it may not have got there yet */
        struct ct_os_stopped *s = stop();
        int i = stopped_index(s, waiter_tid);
        status = ct_os_stopped_get_regs(s, (size_t)i, &regs);
        if (status == CT_OK && regs.pc == (uint64_t)(uintptr_t)from && regs.call_size == call_size) {
            regs.pc = (uint64_t)(uintptr_t)to;
            status = ct_os_stopped_set_regs(s, (size_t)i, &regs);
            from = NULL;
            if (number)
                syscall(SYS_tgkill, getpid(), waiter_tid, number);
        }
        ct_os_resume_threads(s);
        assert_int_equal(status, CT_OK);
    } while (from);
}

static long join_code(pthread_t thread) {
    void *result;
    pthread_join(thread, &result);
    return (long)result;
}

static void test_move_a_spinning_thread(void **state) {
    (void)state;
    uint8_t *page = code_page();
    memcpy(page, loop_code, sizeof loop_code);
    pthread_t thread = start_code(page);
    move_thread(page, page + 2, 0, 0);
    assert_int_equal(join_code(thread), 5);
    munmap(page, 4096);
}

/* ---- moving a thread that stands in a system call ---- */

/* Code: mov eax, number; mov edi, a; mov rsi, b; mov edx, c; clear r10, r8, r9; syscall; add rax, extra; ret.
 * Returns the offset of the system call. */
static size_t write_call(uint8_t *at, int number, int a, const void *b, int c, int extra, bool nop_first) {
    uint8_t *p = at;
#define BYTES(...)                                                                                                     \
    do {                                                                                                               \
        const uint8_t bytes[] = {__VA_ARGS__};                                                                         \
        memcpy(p, bytes, sizeof bytes);                                                                                \
        p += sizeof bytes;                                                                                             \
    } while (0)
#define INT(value) (memcpy(p, &(int){value}, 4), p += 4)
    BYTES(0xb8);
    INT(number);
    BYTES(0xbf);
    INT(a);
    BYTES(0x48, 0xbe);
    memcpy(p, &b, 8);
    p += 8;
    BYTES(0xba);
    INT(c);
    BYTES(0x4d, 0x31, 0xd2, 0x4d, 0x31, 0xc0, 0x4d, 0x31, 0xc9);
    BYTES(0xeb, 0x02, 0x0f, 0x0b); /* jmp over; ud2: stepping back too far is deadly */
    size_t call = (size_t)(p - at);
    if (nop_first)
        BYTES(0x90);
    BYTES(0x0f, 0x05, 0x48, 0x05);
    INT(extra);
    BYTES(0xc3);
#undef BYTES
#undef INT
    return call;
}

enum { COPY = 512, ELSEWHERE = 1024 };

/* The same call three times: as it is, a copy (result + 1000), and at another place (a nop before it; + 2000). */
static size_t write_calls(uint8_t *page, int number, int a, const void *b, int c) {
    write_call(page + COPY, number, a, b, c, 1000, false);
    write_call(page + ELSEWHERE, number, a, b, c, 2000, true);
    return write_call(page, number, a, b, c, 0, false);
}

static int signal_at_move;

static long move_in_call(int number, int a, const void *b, int c, int to, void (*then)(void)) {
    uint8_t *page = code_page();
    size_t call = write_calls(page, number, a, b, c);
    pthread_t thread = start_code(page);
    move_thread(page + call, page + to + call, 2, signal_at_move);
    if (then)
        then();
    long result = join_code(thread);
    munmap(page, 4096);
    return result;
}

static void write_pipe(void) {
    wait_asleep(waiter_tid);
    assert_int_equal(write(pipe_fds[1], "abc", 3), 3);
}

/* Ends a call that goes on though it should not. */
static void write_late(void) {
    usleep(20000);
    assert_int_equal(write(pipe_fds[1], "abc", 3), 3);
}

static void send_signal(void) {
    wait_asleep(waiter_tid);
    syscall(SYS_tgkill, getpid(), waiter_tid, SIGUSR1);
}

static void test_move_a_thread_in_a_call(void **state) {
    (void)state;
    static char buffer[16];
    assert_int_equal(pipe(pipe_fds), 0);
    handle(SIGUSR1, count_signal, 0);
    for (int to = COPY, extra = 1000; to <= ELSEWHERE; to += 512, extra += 1000) {
        assert_int_equal(move_in_call(SYS_read, pipe_fds[0], buffer, 16, to, write_pipe), 3 + extra);
        assert_int_equal(move_in_call(SYS_pause, 0, NULL, 0, to, send_signal), -EINTR + extra);
        /* with a time limit: goes on by restart_syscall */
        assert_int_equal(move_in_call(SYS_poll, 0, NULL, 100, to, NULL), 0 + extra);
    }
    /* onto a copy, with a signal on its way: the call is interrupted as if it had not been moved */
    signal_at_move = SIGUSR1;
    assert_int_equal(move_in_call(SYS_poll, 0, NULL, 60000, COPY, NULL), -EINTR + 1000);
    assert_int_equal(move_in_call(SYS_read, pipe_fds[0], buffer, 16, COPY, write_late), -EINTR + 1000);
    signal_at_move = 0;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* ---- what the program could see ---- */

static void test_no_trace_left(void **state) {
    (void)state;
    start_spinners(2);
    for (int dumpable = 0; dumpable <= 1; dumpable++) {
        prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
        struct ct_os_stopped *s = stop();
        int during = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
        ct_os_resume_threads(s);
        assert_int_equal(during, dumpable);
        assert_int_equal(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), dumpable);
        errno = 0;
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
        assert_int_equal(errno, ECHILD);
    }
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigismember(&mask, i), 0);
    end_spinners(2);
}

static void *open_and_close(void *arg) {
    int first = open("/dev/null", O_RDONLY);
    close(first);
    while (!finish) {
        int fd = open("/dev/null", O_RDONLY);
        check(fd == first);
        close(fd);
    }
    return arg;
}

/* Neither takes the helper a descriptor number, nor (seen as a missing end of file) does it hold any open. */
static void test_descriptors_are_left_alone(void **state) {
    (void)state;
    pthread_t thread;
    int fds[2];
    char byte;
    finish = errors = 0;
    struct ct_os_stopped *s = stop();
    long opened = pipe(fds);
    close(fds[1]);
    long end = read(fds[0], &byte, 1);
    close(fds[0]);
    ct_os_resume_threads(s);
    assert_int_equal(opened, 0);
    assert_int_equal(end, 0);
    start_thread(&thread, open_and_close, NULL);
    for (int i = 0; i < 200; i++) {
        s = stop();
        ct_os_resume_threads(s);
    }
    finish = 1;
    pthread_join(thread, NULL);
    assert_int_equal(errors, 0);
}

static int as_nobody(void) {
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1) /* changing the user has made it 0 or 2 */
        return 1;
    start_spinners(3);
    for (int i = 0; i < 20; i++) {
        struct ct_os_stopped *s = NULL;
        if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
            return 2;
        if (ct_os_stopped_count(s) != 3)
            return 3;
        ct_os_resume_threads(s);
    }
    end_spinners(3);
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 4;
}

static void test_without_privileges(void **state) {
    (void)state;
    int result = in_child(as_nobody);
    if (result == 77)
        skip();
    assert_int_equal(result, 0);
}

/* ---- failures ---- */

static int go_fds[2], done_fds[2];

/* A process that traces one of our threads until it is told to end. */
static pid_t start_tracer(int tid) {
    char byte = 0;
    assert_int_equal(pipe(go_fds), 0);
    assert_int_equal(pipe(done_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(go_fds[1]);
        byte = ptrace(PTRACE_SEIZE, tid, 0, 0) == 0;
        if (write(done_fds[1], &byte, 1) == 1)
            (void)!read(go_fds[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(done_fds[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    return pid;
}

static void end_tracer(pid_t pid) {
    for (int i = 0; i < 2; i++) {
        close(go_fds[i]);
        close(done_fds[i]);
    }
    waitpid(pid, NULL, 0);
}

static void test_busy_when_traced(void **state) {
    (void)state;
    struct ct_os_stopped *s = NULL;
    start_spinners(3);
    pid_t tracer = start_tracer(gettid_now());
    assert_int_equal(ct_os_stop_threads(&s), CT_ERR_BUSY);
    check_runs_on(3);
    end_tracer(tracer);
    tracer = start_tracer(spinners[1].tid);
    assert_int_equal(ct_os_stop_threads(&s), CT_ERR_BUSY);
    check_runs_on(3);
    end_tracer(tracer);
    s = stop();
    ct_os_resume_threads(s);
    end_spinners(3);
}

static volatile pid_t vfork_child;

/* Uninterruptible until the child ends, which it does when the pipe is closed. */
static void *sleep_in_vfork(void *arg) {
    waiter_tid = gettid_now();
    pid_t pid = vfork();
    if (pid == 0) {
        char byte;
        vfork_child = (pid_t)syscall(SYS_getpid);
        syscall(SYS_close, go_fds[1]);
        syscall(SYS_read, go_fds[0], &byte, 1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return arg;
}

static pthread_t start_vfork(void) {
    pthread_t thread;
    assert_int_equal(pipe(go_fds), 0);
    vfork_child = 0;
    start_thread(&thread, sleep_in_vfork, NULL);
    while (!vfork_child)
        usleep(100);
    return thread;
}

static void end_vfork(pthread_t thread) {
    close(go_fds[1]);
    pthread_join(thread, NULL);
    close(go_fds[0]);
}

static void test_timeout_undoes_everything(void **state) {
    (void)state;
    struct ct_os_stopped *s = NULL;
    start_spinners(3);
    pthread_t thread = start_vfork();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ct_os_stop_threads_within(&s, 50), CT_ERR_TIMEOUT);
        check_runs_on(3);
    }
    end_vfork(thread);
    s = stop();
    ct_os_resume_threads(s);
    check_runs_on(3);
    end_spinners(3);
}

/* A child of `parent` that is not one of `but`; 0: none. */
static pid_t find_child(pid_t parent, pid_t but) {
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;
    while (!found && (entry = readdir(directory))) {
        char path[300], line[256];
        int pid = atoi(entry->d_name), owner = 0;
        snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
        FILE *file = pid > 0 && pid != but ? fopen(path, "r") : NULL;
        while (file && fgets(line, sizeof line, file))
            sscanf(line, "PPid: %d", &owner);
        if (file)
            fclose(file);
        if (owner == parent && pid != getpid())
            found = pid;
    }
    closedir(directory);
    return found;
}

static void test_helper_killed_while_stopped(void **state) {
    (void)state;
    start_spinners(3);
    for (int i = 0; i < 5; i++) {
        struct ct_os_regs regs;
        struct ct_os_stopped *s = stop();
        int fds[2];
        (void)!pipe(fds);
        pid_t parent = getpid(), killer = (pid_t)syscall(SYS_fork); /* libc's may wait for a lock */
        if (killer == 0) {
            pid_t helper = find_child(parent, getpid());
            syscall(SYS_exit_group, helper > 0 && kill(helper, SIGKILL) == 0 ? 0 : 1);
        }
        int status = -1, result;
        while (syscall(SYS_wait4, killer, &status, 0, NULL) != killer)
            ;
        do
            result = ct_os_stopped_get_regs(s, 0, &regs);
        while (result == CT_OK);
        ct_os_resume_threads(s);
        assert_int_equal(status, 0);
        assert_int_equal(result, CT_ERR_SYSTEM);
        check_runs_on(3);
        close(fds[0]);
        close(fds[1]);
    }
    end_spinners(3);
}

static void test_helper_killed_while_stopping(void **state) {
    (void)state;
    struct ct_os_stopped *s = NULL;
    start_spinners(3);
    pthread_t thread = start_vfork(); /* keeps the stop from being complete */
    fflush(NULL);
    pid_t parent = getpid(), other = vfork_child, killer = fork();
    if (killer == 0) {
        pid_t helper;
        while ((helper = find_child(parent, other)) == 0 || helper == getpid())
            ;
        _exit(kill(helper, SIGKILL));
    }
    assert_int_equal(ct_os_stop_threads_within(&s, LIMIT_MS), CT_ERR_SYSTEM);
    int status;
    waitpid(killer, &status, 0);
    assert_int_equal(status, 0);
    check_runs_on(3);
    end_vfork(thread);
    end_spinners(3);
}

/* exec and exit of a stopped process by its own caller, and death by a signal, leave nothing behind. */
static int die_while_stopped(void) {
    struct ct_os_stopped *s = NULL;
    start_spinners(2);
    if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
        return 1;
    syscall(SYS_kill, getpid(), SIGKILL);
    return 2;
}

static int exit_while_stopped(void) {
    struct ct_os_stopped *s = NULL;
    start_spinners(2);
    if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
        return 1;
    syscall(SYS_exit_group, 5);
    return 2;
}

static int exec_while_stopped(void) {
    struct ct_os_stopped *s = NULL;
    start_spinners(2);
    if (ct_os_stop_threads_within(&s, LIMIT_MS) != CT_OK)
        return 1;
    execl("/bin/sh", "sh", "-c", "exit 6", NULL);
    return 2;
}

static void test_end_of_the_process(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(in_child(die_while_stopped), -SIGKILL);
        assert_int_equal(in_child(exit_while_stopped), 5);
        assert_int_equal(in_child(exec_while_stopped), 6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_threads_stand_still),
        cmocka_unit_test(test_a_long_stop),
        cmocka_unit_test(test_sleeping_threads_notice_nothing),
        cmocka_unit_test(test_a_thousand_threads),
        cmocka_unit_test(test_real_interruptions_stay),
        cmocka_unit_test(test_no_signal_is_lost),
        cmocka_unit_test(test_signals_to_the_process_while_stopped),
        cmocka_unit_test(test_job_control_meanwhile),
        cmocka_unit_test(test_threads_come_and_go),
        cmocka_unit_test(test_dead_main_thread),
        cmocka_unit_test(test_io_uring_worker),
        cmocka_unit_test(test_one_stop_at_a_time),
        cmocka_unit_test(test_gs_base),
        cmocka_unit_test(test_move_a_spinning_thread),
        cmocka_unit_test(test_move_a_thread_in_a_call),
        cmocka_unit_test(test_no_trace_left),
        cmocka_unit_test(test_descriptors_are_left_alone),
        cmocka_unit_test(test_without_privileges),
        cmocka_unit_test(test_busy_when_traced),
        cmocka_unit_test(test_timeout_undoes_everything),
        cmocka_unit_test(test_helper_killed_while_stopped),
        cmocka_unit_test(test_helper_killed_while_stopping),
        cmocka_unit_test(test_end_of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
