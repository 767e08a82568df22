/* SPDX-License-Identifier: Apache-2.0 */
/* A process that stays traced while it runs, so that every signal is seen before it is delivered.
 *
 * Between resume and the next stop the tracer (tracer.c) waits for its tracees, not for jobs. Invariants:
 *
 *   1  Nothing about threads is kept here; the kernel knows which there are: it seizes new ones (PTRACE_O_TRACECLONE),
 *      waits report all of them, and a stop finds those that the tracer holds like any others (seize.c).
 *   2  Each stop is read without taking it off the wait queue and ended by one request, which passes the signal on with
 *      its siginfo. If we die before that request, the kernel detaches the thread and delivers the signal itself.
 *   3  A system call that ended with EINTR is marked to be repeated unless a handler runs: in a traced thread, ignored
 *      signals interrupt calls too. After a stop of job control the kernel's own EINTR stays.
 *   4  Job control: a thread that must be stopped until SIGCONT is listened to (PTRACE_LISTEN), never continued.
 *   5  Ends are reaped at once: an exec, the true parent of a process and pthread_join wait for that.
 *   6  No option kills or stops the process when the tracer ends.
 *
 * Owner: the tracer, except for the functions at the end. */
#include "os/thread.h"
#include "remote/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE)

enum { OTHERS_MS = 3000, WAIT_OPTIONS = WEXITED | WSTOPPED | __WALL | __WNOTHREAD };

/* ---- what a signal will do ---- */

static uint64_t signal_bit(int signal) {
    return signal > 0 && signal <= 64 ? 1ull << (signal - 1) : 0;
}

static uint64_t signal_bits(const int *signals, size_t count) {
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= signal_bit(signals[i]);
    return all;
}

static bool stops_by_default(int signal) {
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

static bool kills_by_default(int signal) {
    static const int harmless[] = {SIGCHLD, SIGCONT, SIGURG, SIGWINCH};
    return !stops_by_default(signal) &&
           !(signal_bits(harmless, sizeof harmless / sizeof *harmless) & signal_bit(signal));
}

static bool is_of_crashes(int signal) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    return signal_bits(crashes, sizeof crashes / sizeof *crashes) & signal_bit(signal);
}

/* The program's choice for each signal. If it blocks or ignores a fault, the kernel has already undone that. */
static void read_dispositions(int pid, int tid, uint64_t *ignored, uint64_t *caught) {
    char path[64], text[4096];
    *ignored = *caught = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        (void)close(fd);
    text[size > 0 ? size : 0] = 0;
    const char *line = strstr(text, "\nSigIgn:\t");
    if (line)
        *ignored = strtoull(line + 9, NULL, 16);
    line = strstr(text, "\nSigCgt:\t");
    if (line)
        *caught = strtoull(line + 9, NULL, 16);
}

/* Is it to be reported? What the signal will do is looked up only if that matters. */
static bool is_wanted(const struct ct_remote *remote, struct ct_remote_signal *s) {
    const struct ct_remote_watch *what = &remote->watch.what;
    bool listed = what->signals & signal_bit(s->signal), crash = what->crashes && is_of_crashes(s->signal);
    if (!listed && !crash && !(what->crashes && kills_by_default(s->signal)))
        return false;
    uint64_t ignored, caught;
    read_dispositions(remote->pid, s->thread.tid, &ignored, &caught);
    s->handled = caught & signal_bit(s->signal);
    s->fatal = kills_by_default(s->signal) && !s->handled && !(ignored & signal_bit(s->signal));
    return listed || crash || s->fatal;
}

/* ---- other threads, while a crash is reported ---- */

static void halt_others(struct ct_remote *remote, int tid) {
    struct seize_set *set = remote->watch.others;
    set->pid = remote->pid;
    set->except = tid;
    set->child = remote->watch.own_child ? remote->pid : 0;
    set->options = OPTIONS;
    set->holder = remote->tracer.tid;
    set->sleep = remote->set.sleep;
    set->read = remote->set.read;
    set->memory = remote->set.memory;
    set->count = 0;
    (void)ct_seize_all(set, OTHERS_MS); /* threads that have not stopped by then are left out */
}

static void show_others(struct ct_remote *remote, struct ct_remote_signal *s) {
    struct watch *watch = &remote->watch;
    if (watch->thread_room < watch->others->count) {
        struct ct_remote_thread *threads = realloc(watch->threads, watch->others->count * sizeof *threads);
        if (!threads)
            return;
        watch->threads = threads;
        watch->thread_room = watch->others->count;
    }
    s->others = watch->threads;
    for (size_t i = 0; i < watch->others->count; i++) {
        const struct seize_thread *from = &watch->others->threads[i];
        struct ct_remote_thread *to = &watch->threads[s->other_count];
        if (from->stopped && ct_remote_read_thread_traced(from->tid, to) == CT_OK)
            s->other_count++;
    }
}

/* Ends a PTRACE_EVENT_STOP. A thread in another kind of stop has yet to be handled. */
static void let_go(int tid) {
    struct stop stop;
    if (!ct_trace_look(tid, &stop) || stop.kind != STOP_EVENT || stop.number != PTRACE_EVENT_STOP)
        return;
    (void)ct_trace(stop.job_control ? PTRACE_LISTEN : PTRACE_CONT, tid, 0, 0);
}

static void release_others(struct ct_remote *remote) {
    struct seize_set *set = remote->watch.others;
    for (size_t i = 0; i < set->count; i++)
        let_go(set->threads[i].tid);
    set->count = 0;
}

/* ---- signals ---- */

static void read_origin(struct ct_remote_signal *s) {
    siginfo_t info;
    if (ct_trace(PTRACE_GETSIGINFO, s->thread.tid, 0, (uint64_t)(uintptr_t)&info) != 0)
        return;
    bool fault = s->signal == SIGSEGV || s->signal == SIGBUS || s->signal == SIGILL || s->signal == SIGFPE ||
                 s->signal == SIGTRAP;
    s->code = info.si_code;
    if (info.si_code <= 0)
        s->sender = info.si_pid;
    else if (fault)
        s->fault_address = (uint64_t)(uintptr_t)info.si_addr;
}

/* Lets the watcher change the registers. *signal becomes 0 if it is dropped. */
static void judge_signal(struct ct_remote *remote, struct ct_remote_signal *s, int *signal) {
    const struct ct_remote_watch *what = &remote->watch.what;
    enum ct_remote_verdict verdict = what->judge ? what->judge(what->arg, s) : CT_REMOTE_SIGNAL_AS_IS;
    if (verdict != CT_REMOTE_SIGNAL_CHANGED && verdict != CT_REMOTE_SIGNAL_DROPPED)
        return;
    if (ct_remote_write_thread_traced(&s->thread) == CT_OK && verdict == CT_REMOTE_SIGNAL_DROPPED)
        *signal = 0;
}

/* Reports the signal with which the thread is stopped; true: other threads were halted. */
static bool report_signal(struct ct_remote *remote, int tid, int *signal) {
    struct ct_remote_signal s = {.thread = {.tid = tid}, .signal = *signal};
    if (!is_wanted(remote, &s))
        return false;
    s.counter = ct_os_timestamp();
    if (ct_remote_read_thread_traced(tid, &s.thread) != CT_OK)
        return false;
    read_origin(&s);
    judge_signal(remote, &s, signal);
    if (!*signal)
        return false;
    if (s.fatal) {
        halt_others(remote, tid);
        show_others(remote, &s);
    }
    remote->watch.what.report(remote->watch.what.arg, &s);
    return s.fatal;
}

/* The kernel's EINTR is right after a stop of job control; otherwise it is right only if a handler runs. */
static void mark_interrupted(struct ct_remote *remote, struct seize_thread *thread) {
    bool natural = stops_by_default(thread->signal) ||
                   (remote->watch.job_stopped && (!thread->signal || thread->signal == SIGCONT));
    if (thread->signal == SIGCONT)
        remote->watch.job_stopped = false;
    if (!natural)
        (void)ct_seize_read_registers(thread);
}

static void pass_signal(struct ct_remote *remote, int tid, int signal) {
    struct seize_thread thread = {.tid = tid, .signal = signal};
    mark_interrupted(remote, &thread);
    bool halted = report_signal(remote, tid, &signal);
    (void)ct_trace(PTRACE_CONT, tid, 0, (uint64_t)signal);
    if (halted)
        release_others(remote); /* if it died, they are dying */
}

/* ---- stops and ends ---- */

/* A thread's first stop, or one that we asked for. A new process with its own exit signal looks like a new thread. */
static void handle_event_stop(struct ct_remote *remote, int tid) {
    struct seize_thread thread = {.tid = tid};
    if (syscall(SYS_tgkill, remote->pid, tid, 0) != 0 && errno == ESRCH) {
        (void)ct_trace(PTRACE_DETACH, tid, 0, 0);
        return;
    }
    mark_interrupted(remote, &thread);
    (void)ct_trace(PTRACE_CONT, tid, 0, 0);
}

static void handle_stop(struct ct_remote *remote, int tid, const struct stop *stop) {
    if (stop->kind == STOP_SIGNAL) {
        pass_signal(remote, tid, stop->number);
    } else if (stop->kind == STOP_EVENT && stop->job_control) {
        remote->watch.job_stopped = true;
        (void)ct_trace(PTRACE_LISTEN, tid, 0, 0);
    } else if (stop->kind == STOP_EVENT && stop->number == PTRACE_EVENT_STOP) {
        handle_event_stop(remote, tid);
    } else {
        (void)ct_trace(PTRACE_CONT, tid, 0, 0);
    }
}

static void set_running(struct ct_remote *remote, bool running) {
    __atomic_store_n(&remote->watch.running, running, __ATOMIC_RELEASE);
}

static int status_of(const siginfo_t *info) {
    if (info->si_code == CLD_EXITED)
        return (info->si_status & 0xff) << 8;
    return (info->si_status & 0x7f) | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

static void handle_end(struct ct_remote *remote, siginfo_t *info) {
    int tid = info->si_pid;
    if (tid == remote->pid) {
        __atomic_store_n(&remote->watch.exit_status, status_of(info), __ATOMIC_RELEASE);
        set_running(remote, false);
        if (remote->watch.own_child)
            return;
    }
    (void)waitid(P_PID, (id_t)tid, info, WEXITED | WNOHANG | __WALL | __WNOTHREAD);
}

/* Handles one event. False: there was none (options say not to wait), or we were woken. */
static bool handle_next(struct ct_remote *remote, int options) {
    struct stop stop;
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WAIT_OPTIONS | WNOWAIT | options) != 0) {
        if (errno == ECHILD)
            set_running(remote, false); /* no thread is left */
        return false;
    }
    if (info.si_pid == 0)
        return false;
    ct_trace_describe(&info, &stop);
    if (stop.kind == STOP_GONE)
        handle_end(remote, &info);
    else
        handle_stop(remote, info.si_pid, &stop);
    return true;
}

enum tracer_news ct_watch_run(struct ct_remote *remote) {
    while (remote->watch.running) {
        enum tracer_news news = ct_tracer_news(remote);
        if (news != TRACER_NONE)
            return news;
        (void)handle_next(remote, 0);
    }
    return TRACER_NONE;
}

/* ---- stop and resume ---- */

/* Brings a thread from any stop to the one that threads of a stopped process are in. */
static int settle_thread(struct ct_remote *remote, struct seize_thread *thread, uint64_t deadline) {
    struct stop stop;
    int event, signal = 0, status = CT_OK;
    if (!thread->stopped || !ct_trace_look(thread->tid, &stop) || stop.kind == STOP_GONE)
        return CT_OK;
    if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_STOP) {
        if (!ct_trace_has_fault(thread->tid))
            return CT_OK;
        status = ct_trace_come_to_fault(thread->tid, deadline, &stop);
        if (status != CT_OK)
            return status;
    }
    if (stop.kind == STOP_SIGNAL) {
        signal = stop.number;
        (void)report_signal(remote, thread->tid, &signal); /* the threads that it halts must stop anyway */
        thread->signal = signal;
    }
    status = ct_trace_settle(thread->tid, signal, deadline);
    return status == CT_OK ? ct_seize_poll(&remote->set, thread, &event) : status;
}

int ct_watch_stop_traced(struct ct_remote *remote, unsigned limit_ms) {
    struct seize_set *set = &remote->set;
    uint64_t deadline = ct_seize_now_ms() + limit_ms;
    set->count = 0;
    set->options = OPTIONS;
    set->holder = remote->tracer.tid;
    set->child = remote->watch.own_child ? remote->pid : 0;
    set_running(remote, false);
    int status = ct_seize_all(set, limit_ms);
    for (size_t i = 0; status == CT_OK && i < set->count; i++)
        status = settle_thread(remote, &set->threads[i], deadline);
    return status == CT_OK && set->count == 0 ? CT_ERR_NOT_FOUND : status;
}

static bool is_own_child(const struct ct_remote *remote) {
    return !remote->tracer.vforked && ct_remote_status_number(remote->pid, remote->pid, "PPid:", false) == getpid();
}

int ct_watch_resume_traced(struct ct_remote *remote, void *arg) {
    struct seize_set *set = &remote->set;
    (void)arg;
    if (!remote->watch.running)
        remote->watch.own_child = is_own_child(remote);
    for (size_t i = 0; i < set->count; i++) {
        /* also undoes what a call has set (call.c) */
        (void)ct_trace(PTRACE_SETOPTIONS, set->threads[i].tid, 0, OPTIONS);
        let_go(set->threads[i].tid);
    }
    set->count = 0;
    set_running(remote, true);
    return CT_OK;
}

/* ---- for other threads ---- */

static int set_traced(struct ct_remote *remote, void *arg) {
    remote->watch.what = *(const struct ct_remote_watch *)arg;
    return CT_OK;
}

static int prepare_watch(struct watch *watch) {
    if (watch->others)
        return CT_OK;
    struct seize_set *others = calloc(1, sizeof *others);
    if (!others || ct_seize_prepare(others) != CT_OK) {
        free(others);
        return CT_ERR_NO_MEMORY;
    }
    watch->others = others;
    return CT_OK;
}

int ct_remote_watch(struct ct_remote *remote, const struct ct_remote_watch *what) {
    int status = prepare_watch(&remote->watch);
    if (status != CT_OK)
        return status;
    if (remote->watch.on && remote->tracer.running)
        return ct_tracer_run(remote, set_traced, (void *)(uintptr_t)what);
    remote->watch.what = *what;
    remote->watch.on = true;
    return CT_OK;
}

void ct_remote_unwatch(struct ct_remote *remote) {
    if (!remote->watch.on)
        return;
    remote->watch.on = false;
    if (remote->tracer.running && !remote->stopped)
        ct_tracer_end(remote);
}

bool ct_remote_is_watched(const struct ct_remote *remote) {
    return remote->watch.on;
}

static int collect_traced(struct ct_remote *remote, void *arg) {
    (void)arg;
    while (remote->watch.running && handle_next(remote, WNOHANG))
        ;
    return CT_OK;
}

int ct_remote_exit_status(struct ct_remote *remote) {
    if (remote->watch.on && remote->tracer.running && !remote->stopped)
        (void)ct_tracer_run(remote, collect_traced, NULL);
    return __atomic_load_n(&remote->watch.exit_status, __ATOMIC_ACQUIRE);
}

void ct_watch_free(struct ct_remote *remote) {
    if (remote->watch.others)
        ct_seize_release(remote->watch.others);
    free(remote->watch.others);
    free(remote->watch.threads);
    remote->watch.others = NULL;
    remote->watch.threads = NULL;
}
