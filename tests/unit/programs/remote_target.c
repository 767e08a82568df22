/* SPDX-License-Identifier: Apache-2.0 */
/* A process for tests to stop and to make calls in: remote_target MODE
 *
 * It prints a line "ready SUM_OF_SIX FAULT STACK" (addresses), does over and over what the mode says (modes that
 * prepare something have done so when the line is there), checks that nothing of it goes wrong, and ends when its
 * standard input ends: with the line "handled N" (signals) and exit code 0, or 1 when something was wrong. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "../again.h"

int spin_and_check(uint64_t iterations, const void *in, void *out);
uint64_t sum_of_six(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);
void fault(void);

enum { PAUSE_NS = 3000000, STACK_SIZE = 64 << 10 };

static char stack[STACK_SIZE] __attribute__((aligned(64)));
static volatile int handled, wrong;

static void check(int good, int line) {
    if (good)
        return;
    if (!wrong)
        fprintf(stderr, "remote_target: line %d: %s\n", line, strerror(errno));
    wrong = 1;
}
#define CHECK(condition) check(condition, __LINE__)

static int is_over(void) {
    char byte;
    return read(0, &byte, 1) == 0;
}

static void count_signal(int number) {
    (void)number;
    handled++;
}

/* ---- one mode each ---- */

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void do_nanosleep(void) {
    struct timespec pause = {0, PAUSE_NS}, rest;
    uint64_t start = now_ns();
    CHECK(nanosleep(&pause, &rest) == 0);
    CHECK(now_ns() - start >= PAUSE_NS);
}

/* Through syscall(): the number is not a constant beside the instruction. */
static void do_poll(void) {
    struct pollfd nothing = {-1, POLLIN, 0};
#ifdef SYS_poll
    CHECK(syscall(SYS_poll, &nothing, 1, 3) == 0);
#else
    struct timespec limit = {0, PAUSE_NS};
    CHECK(syscall(SYS_ppoll, &nothing, 1, &limit, NULL, 0) == 0);
#endif
}

static void do_epoll(void) {
    static int fd = -1;
    struct epoll_event event;
    if (fd < 0)
        fd = epoll_create1(0);
    CHECK(AGAIN(epoll_wait(fd, &event, 1, 3)) == 0);
}

static void do_futex(void) {
    static int word;
    struct timespec limit = {0, PAUSE_NS};
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0) == -1 && errno == ETIMEDOUT);
}

static void do_sigtimedwait(void) {
    sigset_t set;
    siginfo_t info;
    struct timespec limit = {0, PAUSE_NS};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CHECK(AGAIN(sigtimedwait(&set, &info, &limit)) == -1 && errno == EAGAIN);
}

static void do_semtimedop(void) {
    static int semaphore = -1;
    struct sembuf operation = {0, -1, 0};
    struct timespec limit = {0, PAUSE_NS};
    if (semaphore < 0)
        semaphore = semget(IPC_PRIVATE, 1, 0600);
    CHECK(AGAIN(semtimedop(semaphore, &operation, 1, &limit)) == -1 && errno == EAGAIN);
    if (is_over()) {
        semctl(semaphore, 0, IPC_RMID);
        semaphore = -1;
    }
}

static int writer;

/* A process of its own writes; each byte arrives, in order. */
static void do_read(void) {
    static int fds[2] = {-1, -1};
    static unsigned char expected;
    unsigned char byte = 0;
    if (fds[0] < 0) {
        int parent = getpid();
        CHECK(pipe(fds) == 0);
        writer = fork();
        if (writer == 0) {
            close(fds[0]);
            signal(SIGPIPE, SIG_IGN);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (; getppid() == parent && write(fds[1], &byte, 1) == 1; byte++)
                usleep(2000);
            _exit(0);
        }
        close(fds[1]);
    }
    CHECK(read(fds[0], &byte, 1) == 1);
    CHECK(byte == expected++);
}

/* Has a signal mask of its own while it waits. */
static void do_ppoll(void) {
    struct pollfd nothing = {-1, POLLIN, 0};
    struct timespec limit = {0, PAUSE_NS};
    sigset_t all, old, none;
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &all, &old);
    CHECK(ppoll(&nothing, 1, &limit, &none) == 0);
    sigprocmask(SIG_SETMASK, &old, &none);
    CHECK(memcmp(&none, &all, 8) == 0 || sigismember(&none, SIGUSR1));
}

static void do_spin(void) {
    unsigned char in[16][16], out[16][16];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i / 16][i % 16] = (unsigned char)(i * 7 + 1);
    memset(out, 0, sizeof out);
    CHECK(spin_and_check(1000000, in, out) == 0);
    CHECK(memcmp(in, out, sizeof in) == 0);
}

static void pass_by(int number) {
    (void)number;
}

static void do_signals(void) { /* SIGRTMIN comes from the test, SIGALRM from a timer */
    static int started;
    if (!started++) {
        struct itimerval often = {{0, 700}, {0, 700}};
        struct sigaction action = {.sa_handler = pass_by};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    do_spin();
}

/* ---- threads that come and go ---- */

static void *live_shortly(void *arg) {
    usleep((useconds_t)(uintptr_t)arg % 3000);
    return NULL;
}

static void do_threads(void) {
    enum { AT_ONCE = 50 };
    static pthread_t threads[AT_ONCE];
    static unsigned next, started;
    pthread_attr_t attributes;
    if (started == AT_ONCE)
        pthread_join(threads[next % AT_ONCE], NULL);
    else
        started++;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    CHECK(pthread_create(&threads[next % AT_ONCE], &attributes, live_shortly, (void *)(uintptr_t)(next * 7919)) == 0);
    pthread_attr_destroy(&attributes);
    next++;
}

static void *sleep_on(void *arg) {
    (void)arg;
    for (;;)
        do_nanosleep();
    return NULL;
}

static void do_crowd(void) {
    static int started;
    for (; started < 8; started++) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_on, NULL);
    }
    do_spin();
}

/* ---- the main thread ends, another goes on ---- */

static int finish(void) {
    printf("handled %d\n", handled);
    fflush(stdout);
    return wrong;
}

static void *go_on_alone(void *arg) {
    (void)arg;
    while (!is_over())
        do_nanosleep();
    _exit(finish());
}

static void do_leaderless(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, go_on_alone, NULL);
    pthread_exit(NULL);
}

static void do_seccomp(void) { /* forbids mmap and personality: with EPERM */
    static int started;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (!started++) {
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    }
    CHECK(syscall(SYS_personality, -1) == -1 && errno == EPERM);
    do_nanosleep();
}

/* remote_target tracer PID: traces that process until the end. */
static int trace(int pid) {
    char byte;
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0)
        return 1;
    printf("ready 0 0 0\n");
    fflush(stdout);
    return read(0, &byte, 1) != 0;
}

static const struct mode {
    const char *name;
    void (*run)(void);
    int prepares; /* the first time */
} modes[] = {
    {"nanosleep", do_nanosleep},
    {"poll", do_poll},
    {"epoll", do_epoll},
    {"futex", do_futex},
    {"sigtimedwait", do_sigtimedwait},
    {"semtimedop", do_semtimedop},
    {"read", do_read},
    {"ppoll", do_ppoll},
    {"spin", do_spin},
    {"signals", do_signals},
    {"threads", do_threads},
    {"crowd", do_crowd, 1},
    {"leaderless", do_leaderless},
    {"seccomp", do_seccomp, 1},
};

int main(int argc, char **argv) {
    const struct mode *mode = NULL;
    if (argc == 3 && strcmp(argv[1], "tracer") == 0)
        return trace(atoi(argv[2]));
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            mode = &modes[i];
    if (!mode)
        return 2;
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    fcntl(0, F_SETFL, O_NONBLOCK);
    if (mode->prepares)
        mode->run();
    printf("ready %llx %llx %llx\n", (unsigned long long)(uintptr_t)sum_of_six, (unsigned long long)(uintptr_t)fault,
           (unsigned long long)(uintptr_t)(stack + sizeof stack));
    fflush(stdout);
    while (!is_over())
        mode->run();
    if (writer > 0) {
        kill(writer, SIGKILL);
        waitpid(writer, NULL, 0);
    }
    return finish();
}
