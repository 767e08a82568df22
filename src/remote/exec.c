/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a process into the program that it executes.
 *
 * The process waits for us in code of ours. We seize it and let it continue. Until the exec it is watched from one
 * system call to the next, because an exec may fail; then it is detached. */
#include "remote/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SEIZE_MS = 200, SEIZE_TRIES = 50, RENAME_MS = 2000, ASK_MS = 50 };

struct following {
    int tid;
    const struct ct_remote_exec *exec;
    uint64_t deadline, seize_until;
    const char *foreign;
    bool executed;
};

static bool is_exec(uint64_t number) {
    return number == SYS_execve || number == SYS_execveat;
}

/* At the end of an exec call that returns to its caller, because it has failed. */
static bool has_failed(int tid, bool *inside) {
    struct __ptrace_syscall_info information;
    long size = ct_trace(PTRACE_GET_SYSCALL_INFO, tid, sizeof information, (uint64_t)(uintptr_t)&information);
    if (size < 0)
        return false;
    if (information.op == PTRACE_SYSCALL_INFO_ENTRY) {
        *inside = is_exec(information.entry.nr);
        return false;
    }
    return *inside && information.op == PTRACE_SYSCALL_INFO_EXIT && information.exit.is_error;
}

/* A thread that executes gets another number; the kernel accepts requests for that number only after we have read this
 * stop. */
static void take_stop(int tid) {
    siginfo_t info;
    (void)waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL);
}

static bool is_given_up(const struct following *f) {
    return f->exec->given_up && f->exec->given_up(f->exec->arg);
}

/* A process may say that it executes a program and never do so. */
static int wait_patiently(const struct following *f, struct stop *stop) {
    int status;
    do {
        uint64_t soon = ct_seize_now_ms() + ASK_MS;
        status = ct_trace_wait(f->tid, soon < f->deadline ? soon : f->deadline, stop);
    } while (status == CT_ERR_TIMEOUT && ct_seize_now_ms() < f->deadline && !is_given_up(f));
    return status;
}

/* A thread that is not the main one takes over the main thread's number when it executes a program. Its own number is
 * gone then, and for a moment neither exists. */
static int wait_next(struct ct_remote *remote, struct following *f, struct stop *stop) {
    int status = wait_patiently(f, stop);
    if (status != CT_OK || stop->kind != STOP_GONE || f->tid == remote->pid)
        return status;
    f->tid = remote->pid;
    uint64_t until = ct_seize_now_ms() + RENAME_MS;
    do {
        status = ct_trace_wait(f->tid, f->deadline, stop);
        if (status != CT_OK || stop->kind != STOP_GONE) {
            take_stop(f->tid);
            return status;
        }
        (void)usleep(100);
    } while (ct_seize_now_ms() < until && kill(remote->pid, 0) == 0);
    return status;
}

static int run_to_exec(struct ct_remote *remote, struct following *f) {
    int pass = 0, request = PTRACE_SYSCALL;
    bool inside = false;
    for (;;) {
        struct stop stop;
        int status = ct_trace_status(ct_trace(request, f->tid, 0, (uint64_t)pass));
        if (status == CT_OK || f->tid != remote->pid)
            status = wait_next(remote, f, &stop);
        if (status != CT_OK)
            return status;
        if (stop.kind == STOP_GONE)
            return CT_ERR_NOT_FOUND;
        if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_EXEC)
            return CT_OK;
        if (stop.kind == STOP_CALL && has_failed(f->tid, &inside))
            return CT_ERR_SPAWN_FAILED;
        if (ct_seize_now_ms() >= f->deadline || is_given_up(f))
            return CT_ERR_TIMEOUT; /* one system call after another, and no exec */
        pass = stop.kind == STOP_SIGNAL ? stop.number : 0;
        request = stop.kind == STOP_EVENT && stop.job_control ? PTRACE_LISTEN : PTRACE_SYSCALL;
    }
}

static const char *foreign_program(int pid) {
    char path[64];
    uint8_t header[64];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, header, sizeof header);
    if (fd >= 0)
        (void)close(fd);
    return size < 0 ? NULL : ct_remote_foreign(header, (size_t)size);
}

/* Another thread of ours may have detached it a moment ago (an exec that failed), and the kernel has not finished that.
 * Time may pass while we do not run, so a number of tries is required too. */
static long seize_patiently(const struct following *f) {
    for (int tries = 1;; tries++) {
        long result = ct_trace(PTRACE_SEIZE, f->tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC);
        if (result != -EPERM || (tries > SEIZE_TRIES && ct_seize_now_ms() > f->seize_until))
            return result;
        (void)usleep(100);
    }
}

static int follow_traced(struct ct_remote *remote, void *arg) {
    struct following *f = arg;

    long result = seize_patiently(f);
    if (result < 0)
        return CT_ERR_PERMISSION_DENIED;

    int status = ct_trace_halt(f->tid, f->deadline);
    if (status != CT_OK)
        return status;
    if (f->exec->is_meant && !f->exec->is_meant(f->exec->arg))
        return CT_ERR_NOT_FOUND;
    f->exec->ready(f->exec->arg);
    status = run_to_exec(remote, f);
    if (status != CT_OK)
        return status;
    f->executed = true;
    f->foreign = foreign_program(remote->pid);
    if (f->foreign)
        return CT_ERR_UNSUPPORTED;
    if (ct_remote_open_image(remote) != 0)
        return CT_ERR_PERMISSION_DENIED;
    status = ct_loader_run_traced(remote, f->deadline);
    return status == CT_OK ? ct_remote_adopt_traced(remote) : status;
}

static int explain(int pid, const struct following *f, int status, struct ct_remote_error *error) {
    if (f->foreign)
        return ct_remote_say(error, status, "process %d now runs %s, which cannot be recorded on this machine", pid,
                             f->foreign);
    if (status == CT_ERR_SPAWN_FAILED)
        return ct_remote_say(error, status, "process %d could not execute its new program", pid);
    return ct_remote_say(error, status, "process %d could not be followed into the program it executes (%s)", pid,
                         ct_status_text(status));
}

int ct_remote_follow_exec(struct ct_remote **out, int pid, int tid, const struct ct_remote_exec *exec,
                          unsigned limit_ms, struct ct_remote_error *error) {
    struct ct_remote *remote = NULL;
    struct following f = {.tid = tid,
                          .exec = exec,
                          .deadline = ct_seize_now_ms() + limit_ms,
                          .seize_until = ct_seize_now_ms() + SEIZE_MS};
    if (ct_remote_allocate(&remote, pid) != CT_OK)
        return ct_remote_say(error, CT_ERR_NO_MEMORY, "out of memory");
    remote->view = remote->set.pid = pid;
    remote->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int status = remote->pidfd < 0 ? CT_ERR_NOT_FOUND : CT_ERR_PERMISSION_DENIED;
    for (int vforked = 1; vforked >= 0 && status == CT_ERR_PERMISSION_DENIED && !f.executed; vforked--) {
        status = ct_tracer_start(remote, vforked);
        if (status == CT_OK && (status = ct_tracer_run(remote, follow_traced, &f)) != CT_OK)
            ct_tracer_end(remote);
    }
    if (status == CT_OK) {
        remote->stopped = true;
        *out = remote;
        return CT_OK;
    }
    status = explain(pid, &f, status, error);
    ct_remote_free(remote);
    return status;
}
