/* SPDX-License-Identifier: Apache-2.0 */
/* How processes ended that are not our children: before somebody has waited for them, and after. */
#include "remote/remote.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *end_all(void *arg) {
    usleep(20000);
    _exit((int)(intptr_t)arg);
}

static void end_by_thread(void) {
    pthread_t thread;
    (void)pthread_create(&thread, NULL, end_all, (void *)7);
    pthread_exit(NULL);
}

static const struct way {
    const char *name;
    int code, signal; /* what it dies of */
    bool by_thread;   /* when the main one has ended */
} ways[] = {{"0", 0, 0, false}, {"5", 5, 0, false}, {"killed", 0, SIGKILL, false}, {"by a thread", 7, 0, true}};

/* Leaves how `wait` sees it. */
static int check_status(const struct way *way) {
    return way->signal ? way->signal : way->code << 8;
}

static int start(const struct way *way) {
    int pid = fork();
    if (pid)
        return pid;
    if (way->signal)
        raise(way->signal);
    if (way->by_thread)
        end_by_thread();
    _exit(way->code);
}

/* Does this kernel report processes that somebody has waited for? */
static bool kernel_tells(void) {
    int pid = start(&ways[0]), pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    int status = ct_remote_how_ended(pidfd, pid);
    close(pidfd);
    return status >= 0;
}

static void test_ways(void **state) {
    (void)state;
    bool tells = kernel_tells();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int pid = start(&ways[i]), status = 0, expected = check_status(&ways[i]);
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct pollfd ended = {.fd = pidfd, .events = POLLIN};
        assert_int_equal(poll(&ended, 1, 10000), 1);
        int before = ct_remote_how_ended(pidfd, pid);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        int after = ct_remote_how_ended(pidfd, pid);
        printf("%s: %x, before %x, after %x\n", ways[i].name, (unsigned)status, (unsigned)before, (unsigned)after);
        assert_int_equal(status & 0xff7f, expected);
        assert_int_equal(before & 0xff7f, expected);
        if (tells)
            assert_int_equal(after & 0xff7f, expected);
        else
            assert_int_equal(after, -1);
        close(pidfd);
    }
}

/* Somebody waits for it meanwhile. */
static void test_race(void **state) {
    (void)state;
    if (!kernel_tells())
        skip();
    for (int i = 0; i < 300; i++) {
        int pipe_fd[2], pid = 0;
        assert_int_equal(pipe(pipe_fd), 0);
        int parent = fork();
        if (!parent) { /* of the one in question */
            int child = fork();
            if (!child) {
                usleep(200);
                _exit(i & 127);
            }
            (void)!write(pipe_fd[1], &child, sizeof child);
            waitpid(child, NULL, 0);
            _exit(0);
        }
        assert_int_equal(read(pipe_fd[0], &pid, sizeof pid), sizeof pid);
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd >= 0) { /* else it was too fast */
            struct pollfd ended = {.fd = pidfd, .events = POLLIN};
            assert_int_equal(poll(&ended, 1, 10000), 1);
            assert_int_equal(ct_remote_how_ended(pidfd, pid), (i & 127) << 8);
            close(pidfd);
        }
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        waitpid(parent, NULL, 0);
    }
}

static void test_alive(void **state) {
    (void)state;
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    assert_int_equal(ct_remote_how_ended(pidfd, getpid()), -1);
    close(pidfd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
