/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a program that is traced from the beginning.
 *
 *   parent  fork ─▶ tracer: PTRACE_SEIZE, a byte into the pipe ─▶ waits for the stop that exec makes ─▶ loader.c
 *   child   waits for the byte, or the pipe's end (we have died: it continues alone) ─▶ execve, or its errno into a
 *           second pipe
 *
 * Both pipes close by themselves at the exec. The child's signals are as ours were, or as the caller says; between fork
 * and exec they are blocked, so that no handler of ours runs in it. */
#include "remote/loader.h"
#include "remote/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { GO = 'g', STAY = 's' };

struct launch {
    const struct ct_remote_spawn *what;
    char path[PATH_MAX];
    char *const *argv;
    int go[2], failure[2];
    sigset_t mask; /* ours */
    uint64_t deadline;
    int exec_errno;
    bool seized;
    bool loading; /* the new program runs */
};

/* ---- the child: raw system calls only ---- */

/* Sets signals as exec would: those with a handler get the default; the caller may know what they were before its time.
 * Uses the kernel's own structure: libc keeps two signals to itself, which may be ignored all the same. */
static void set_dispositions(const struct ct_remote_spawn *what) {
    for (int number = 1; number < NSIG; number++) {
        struct {
            uint64_t handler, flags, restorer, mask;
        } action;
        if (syscall(SYS_rt_sigaction, number, NULL, &action, sizeof action.mask) != 0)
            continue;
        bool ignored = action.handler == (uint64_t)(uintptr_t)SIG_IGN;
        if (what->set_signals)
            ignored = what->ignored_signals >> (number - 1) & 1;
        memset(&action, 0, sizeof action);
        action.handler = (uint64_t)(uintptr_t)(ignored ? SIG_IGN : SIG_DFL);
        (void)syscall(SYS_rt_sigaction, number, &action, NULL, sizeof action.mask);
    }
}

static void set_mask(const struct launch *launch) {
    uint64_t mask = launch->what->signal_mask;
    if (launch->what->set_signals)
        (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    else
        (void)sigprocmask(SIG_SETMASK, &launch->mask, NULL);
}

static void run_child(struct launch *launch) {
    char byte = GO;
    (void)close(launch->go[1]);
    set_dispositions(launch->what);
    while (read(launch->go[0], &byte, 1) < 0 && errno == EINTR)
        ;
    if (byte == GO) {
        char *const *environment = launch->what->envp ? launch->what->envp : environ;
        set_mask(launch);
        (void)execve(launch->path, launch->argv, environment);
        int failure = errno;
        while (write(launch->failure[1], &failure, sizeof failure) < 0 && errno == EINTR)
            ;
    }
    (void)syscall(SYS_exit_group, 127);
}

/* ---- the parent ---- */

static void close_both(int fds[2]) {
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    fds[0] = fds[1] = -1;
}

static int start_child(struct launch *launch, int *pid) {
    sigset_t all;
    if (pipe2(launch->go, O_CLOEXEC) != 0 || pipe2(launch->failure, O_CLOEXEC | O_NONBLOCK) != 0)
        return -errno;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &launch->mask);
    *pid = fork();
    int failure = errno;
    if (*pid == 0)
        run_child(launch);
    (void)pthread_sigmask(SIG_SETMASK, &launch->mask, NULL);
    (void)close(launch->go[0]);
    (void)close(launch->failure[1]);
    launch->go[0] = launch->failure[1] = -1;
    return *pid < 0 ? -failure : 0;
}

static void tell_child(struct launch *launch, char byte) {
    if (ct_remote_step)
        ct_remote_step();
    while (write(launch->go[1], &byte, 1) < 0 && errno == EINTR)
        ;
}

/* Signals that arrive meanwhile are passed to the child. */
static int wait_for_exec(struct ct_remote *remote, struct launch *launch) {
    for (;;) {
        struct stop stop;
        int status = ct_trace_wait(remote->pid, launch->deadline, &stop);
        if (status != CT_OK)
            return status;
        if (stop.kind == STOP_GONE) {
            ssize_t size = read(launch->failure[0], &launch->exec_errno, sizeof launch->exec_errno);
            if (size != sizeof launch->exec_errno)
                launch->exec_errno = 0;
            return CT_ERR_NOT_FOUND;
        }
        if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_EXEC)
            return CT_OK;
        int signal = stop.kind == STOP_SIGNAL ? stop.number : 0;
        (void)ct_trace(stop.kind == STOP_EVENT && stop.job_control ? PTRACE_LISTEN : PTRACE_CONT, remote->pid, 0,
                       (uint64_t)signal);
    }
}

static int launch_traced(struct ct_remote *remote, void *arg) {
    struct launch *launch = arg;
    if (ct_trace(PTRACE_SEIZE, remote->pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) < 0)
        return CT_ERR_PERMISSION_DENIED;
    launch->seized = true;
    tell_child(launch, GO);
    int status = wait_for_exec(remote, launch);
    if (status != CT_OK)
        return status;
    launch->loading = true;
    if (ct_remote_open_image(remote) != 0)
        return CT_ERR_PERMISSION_DENIED;
    struct ct_registers regs; /* before the program is changed: they may not be shown */
    status = ct_remote_read_registers_traced(remote->pid, &regs);
    if (status == CT_OK)
        status = ct_loader_run_traced(remote, launch->deadline);
    return status == CT_OK ? ct_remote_adopt_traced(remote) : status;
}

/* ---- failures ---- */

static int say_exec_failed(const struct launch *launch, struct ct_remote_error *error) {
    const char *path = launch->path;
    switch (launch->exec_errno) {
    case ENOENT:
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "%s, or what it needs to run, does not exist: check the path",
                             path);
    case EACCES:
    case EPERM:
        return ct_remote_say(
            error, CT_ERR_PERMISSION_DENIED,
            "%s may not be executed: check its permissions, and whether its file system is mounted noexec", path);
    case E2BIG:
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "arguments and environment are too long for %s: shorten them",
                             path);
    case ETXTBSY:
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s is open for writing: wait until it is written", path);
    default:
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s could not be executed: %s", path,
                             launch->exec_errno ? strerror(launch->exec_errno) : "it ended before that");
    }
}

static int say_ended(const struct launch *launch, int ended, struct ct_remote_error *error) {
    if (WIFSIGNALED(ended))
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s was killed by signal %d while it was being loaded",
                             launch->path, WTERMSIG(ended));
    return ct_remote_say(
        error, CT_ERR_SPAWN_FAILED,
        "%s ended with exit code %d while it was being loaded: read what its loader printed (a library "
        "missing?)",
        launch->path, WEXITSTATUS(ended));
}

static int explain(const struct ct_remote *remote, const struct launch *launch, int status,
                   struct ct_remote_error *error) {
    int ended = 0;
    switch (status) {
    case CT_ERR_NOT_FOUND:
        while (waitpid(remote->pid, &ended, 0) < 0 && errno == EINTR)
            ;
        return launch->loading ? say_ended(launch, ended, error) : say_exec_failed(launch, error);
    case CT_ERR_PERMISSION_DENIED:
        if (launch->seized)
            return ct_remote_say(error, status, "%s runs, but its memory may not be opened: it is protected",
                                 launch->path);
        (void)waitpid(remote->pid, &ended, 0);
        return ct_remote_say(error, status,
                             "%s cannot be traced: this system forbids it (a container without CAP_SYS_PTRACE, or "
                             "kernel.yama.ptrace_scope is 3)",
                             launch->path);
    case CT_ERR_NO_MEMORY:
    case CT_ERR_NO_THREADS:
        (void)(launch->seized || waitpid(remote->pid, &ended, 0));
        return ct_remote_say(error, status, "%s", ct_status_text(status));
    case CT_ERR_UNSUPPORTED:
        return ct_remote_say(error, status,
                             "%s cannot be recorded: this kernel, or a sandbox in its place, does not show the "
                             "registers of threads; it runs on unrecorded",
                             launch->path);
    case CT_ERR_TIMEOUT:
        return ct_remote_say(error, status, "%s was not loaded in time: it runs on unrecorded as process %d",
                             launch->path, remote->pid);
    default:
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED,
                             "%s could not be stopped at its start (%s): it runs on unrecorded", launch->path,
                             ct_status_text(status));
    }
}

static int run_launch(struct ct_remote *remote, struct launch *launch, struct ct_remote_error *error) {
    int failure = start_child(launch, &remote->pid);
    if (failure == -EAGAIN)
        return ct_remote_say(error, CT_ERR_NO_THREADS,
                             "no process could be started: raise the limit of processes and threads (ulimit -u, or "
                             "pids.max of the container)");
    if (failure)
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "no process could be started: %s", strerror(-failure));
    remote->view = remote->set.pid = remote->pid;
    remote->spawned = true;
    remote->pidfd = (int)syscall(SYS_pidfd_open, remote->pid, 0);
    int status = CT_ERR_PERMISSION_DENIED;
    for (int vforked = 1; vforked >= 0 && status == CT_ERR_PERMISSION_DENIED && !launch->seized; vforked--) {
        ct_tracer_end(remote);
        status = ct_tracer_start(remote, vforked);
        if (status == CT_OK)
            status = ct_tracer_run(remote, launch_traced, launch);
    }
    if (!launch->seized)
        tell_child(launch, STAY);
    if (status == CT_OK) {
        remote->stopped = true;
        return CT_OK;
    }
    ct_tracer_end(remote);
    return explain(remote, launch, status, error);
}

/* For a script that env would pass on: env's words, the script's path, the script's arguments. */
static char **join_arguments(const struct ct_program_words *words, char *script, char *const *argv) {
    size_t count = 0, n = 0;
    while (argv[count])
        count++;
    char **joined = calloc(words->count + count + 2, sizeof *joined);
    if (!joined)
        return NULL;
    for (size_t i = 0; i < words->count; i++)
        joined[n++] = words->word[i];
    joined[n++] = script;
    for (size_t i = 1; i < count; i++)
        joined[n++] = argv[i];
    return joined;
}

static int start_program(struct ct_remote **out, struct launch *what, unsigned limit_ms,
                         struct ct_remote_error *error) {
    struct ct_remote *remote = NULL;
    int status = ct_program_check(what->path, error);
    if (status != CT_OK)
        return status;
    if (ct_remote_allocate(&remote, 0) != CT_OK)
        return ct_remote_say(error, CT_ERR_NO_MEMORY, "out of memory");
    what->deadline = ct_seize_now_ms() + limit_ms;
    status = run_launch(remote, what, error);
    close_both(what->go);
    close_both(what->failure);
    if (status != CT_OK)
        ct_remote_free(remote);
    else
        *out = remote;
    return status;
}

int ct_remote_spawn(struct ct_remote **out, const struct ct_remote_spawn *what, unsigned limit_ms,
                    struct ct_remote_error *error) {
    struct launch launch = {.what = what, .argv = what->argv, .go = {-1, -1}, .failure = {-1, -1}};
    struct ct_program_words words;
    char script[PATH_MAX], **joined = NULL;
    int status = ct_program_find(what->path, launch.path, error);
    if (status != CT_OK)
        return status;
    memcpy(script, launch.path, sizeof script);
    if (faccessat(AT_FDCWD, script, X_OK, AT_EACCESS) == 0)
        status = ct_program_skip_env(launch.path, &words, error);
    else
        words.count = 0; /* reported below */
    if (status == CT_OK && words.count > 0) {
        joined = join_arguments(&words, script, what->argv);
        if (!joined)
            status = ct_remote_say(error, CT_ERR_NO_MEMORY, "out of memory");
        launch.argv = joined;
    }
    if (status == CT_OK)
        status = start_program(out, &launch, limit_ms, error);
    free(joined);
    return status;
}
