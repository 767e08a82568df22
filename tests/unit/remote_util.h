/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of another process: starting programs/remote_target in one of its modes, talking to it, ending it. */
#ifndef CT_TESTS_UNIT_REMOTE_UTIL_H
#define CT_TESTS_UNIT_REMOTE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "remote/remote.h"

enum { LIMIT_MS = 20000 };

/* ---- death: see src/remote/remote_internal.h ---- */

extern void (*ct_remote_step)(void), (*ct_remote_waiting)(void);
extern bool ct_remote_never_vfork;

static __attribute__((unused)) int steps_left, controller;
static __attribute__((unused)) bool die_alone; /* else the tracer, which is a process of its own, dies too */

static inline void count_down(void) {
    if (--steps_left != 0)
        return;
    kill(controller, SIGKILL);
    if (!die_alone)
        kill(getpid(), SIGKILL);
}

/* In the controller: it dies before its n-th step. */
static inline void die_at(int n, bool alone) {
    controller = getpid();
    steps_left = n;
    die_alone = alone;
    ct_remote_step = count_down;
}

/* ---- the target ---- */

static __attribute__((unused)) const char *target_path; /* of remote_target */

struct target {
    int pid;
    FILE *out; /* what it prints */
    int in;    /* closing it ends the target */
    unsigned long long sum_of_six, fault, stack;
};

static inline void start_target_with(struct target *target, const char *mode, const char *argument) {
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    target->pid = fork();
    if (target->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(target_path, target_path, mode, argument, NULL);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    target->in = in[1];
    target->out = fdopen(out[0], "r");
    assert_int_equal(fscanf(target->out, "ready %llx %llx %llx", &target->sum_of_six, &target->fault, &target->stack),
                     3);
}

static inline void start_target(struct target *target, const char *mode) {
    start_target_with(target, mode, NULL);
}

/* Another program, which traces the process until it is ended. */
static inline void start_tracer(struct target *tracer, int pid) {
    char number[16];
    snprintf(number, sizeof number, "%d", pid);
    start_target_with(tracer, "tracer", number);
}

/* Its exit code, or minus the signal that killed it; *handled: how many signals it has seen. */
static inline int end_target(struct target *target, int *handled) {
    int status = 0, count = -1;
    close(target->in);
    if (fscanf(target->out, " handled %d", &count) != 1)
        count = -1;
    fclose(target->out);
    while (waitpid(target->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (handled)
        *handled = count;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline struct ct_remote *open_remote(int pid) {
    struct ct_remote *remote = NULL;
    struct ct_remote_error error = {{0}};
    int status = ct_remote_open(&remote, pid, &error);
    if (status != CT_OK)
        print_error("%s\n", error.text);
    assert_int_equal(status, CT_OK);
    return remote;
}

static inline void stop_remote(struct ct_remote *remote) {
    struct ct_remote_error error = {{0}};
    int status = ct_remote_stop(remote, LIMIT_MS, &error);
    if (status != CT_OK)
        print_error("%s\n", error.text);
    assert_int_equal(status, CT_OK);
}

static inline int64_t remote_syscall(struct ct_remote *remote, long number, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t arguments[6] = {a, b, c, 0, 0, 0};
    int64_t result = 0;
    assert_int_equal(ct_remote_syscall(remote, number, arguments, &result), CT_OK);
    return result;
}

static inline void sleep_ms(unsigned ms) {
    usleep(ms * 1000);
}

/* What traces it has gone. */
static inline void wait_untraced(int pid) {
    char path[64], line[128];
    int tracer = 1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    for (int i = 0; tracer > 0 && i < 10000; i++) {
        FILE *file = fopen(path, "r");
        tracer = 0;
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "TracerPid: %d", &tracer) == 1)
                break;
        if (file)
            fclose(file);
        if (tracer > 0)
            usleep(500);
    }
    assert_int_equal(tracer, 0);
}

/* The letter of /proc/PID/stat. */
static inline char state_of(int pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    const char *at = strrchr(text, ')');
    return at ? at[2] : 0;
}

static inline void wait_for_state(int pid, const char *letters) {
    for (int i = 0; i < 10000 && !strchr(letters, state_of(pid)); i++)
        usleep(500);
    assert_non_null(strchr(letters, state_of(pid)));
}

#endif
