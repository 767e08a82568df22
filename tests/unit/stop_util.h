/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that stop threads: threads that count, threads that sleep, and what is noted about them. */
#ifndef CT_TESTS_UNIT_STOP_UTIL_H
#define CT_TESTS_UNIT_STOP_UTIL_H

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

enum { LIMIT_MS = 100000, MAX_THREADS = 1024 };

/* ---- helpers ---- */

/* How many times something is done: a quarter of them, or with CONTRAIL_TEST_LONG (scripts/run-tests.sh --long) all. */
static inline int times(int all) {
    return getenv("CONTRAIL_TEST_LONG") ? all : all / 4;
}

static inline struct ct_os_stopped *stop(void) {
    struct ct_os_stopped *s = NULL;
    assert_int_equal(ct_os_stop_threads_within(&s, LIMIT_MS), CT_OK);
    return s;
}

static inline int stopped_index(struct ct_os_stopped *s, int tid) {
    for (size_t i = 0; i < ct_os_stopped_count(s); i++)
        if (ct_os_stopped_tid(s, i) == tid)
            return (int)i;
    return -1;
}

/* The child's exit status. */
static inline int in_child(int (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline void start_thread(pthread_t *thread, void *(*run)(void *), void *arg) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    int result = pthread_create(thread, &attributes, run, arg);
    pthread_attr_destroy(&attributes);
    if (result != 0)
        abort();
}

/* Waits until the thread sleeps in a system call. */
static inline void wait_asleep(int tid) {
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

static inline int gettid_now(void) {
    return (int)syscall(SYS_gettid);
}

/* ---- threads that count ---- */

static __attribute__((unused)) volatile int finish;

struct spinner {
    pthread_t thread;
    volatile uint64_t count;
    volatile int tid;
};

static inline void *spin(void *arg) {
    struct spinner *s = arg;
    s->tid = gettid_now();
    setpriority(PRIO_PROCESS, (id_t)s->tid, 5); /* the testing thread shall get its turn soon */
    while (!finish)
        s->count++;
    return NULL;
}

static __attribute__((unused)) struct spinner spinners[MAX_THREADS];

static inline void start_spinners(int n) {
    finish = 0;
    for (int i = 0; i < n; i++) {
        spinners[i].count = 0;
        start_thread(&spinners[i].thread, spin, &spinners[i]);
    }
    for (int i = 0; i < n; i++)
        while (spinners[i].count == 0)
            usleep(100);
}

static inline void end_spinners(int n) {
    finish = 1;
    for (int i = 0; i < n; i++)
        pthread_join(spinners[i].thread, NULL);
}

/* Everybody moves. */
static inline void check_runs_on(int n) {
    static uint64_t last[MAX_THREADS];
    for (int i = 0; i < n; i++)
        last[i] = spinners[i].count;
    for (int i = 0; i < n; i++)
        while (spinners[i].count == last[i])
            usleep(100);
}

/* ---- failures in threads ---- */

static __attribute__((unused)) volatile int errors;

/* For threads: cmocka's assertions are for the main one. */
static inline void note(int good, int line, int code) {
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

/* ---- signals ---- */

static __attribute__((unused)) volatile int handled;
static __attribute__((unused)) volatile int waiter_tid;

static inline void count_signal(int number) {
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static inline void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

#endif
