/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made in another process by one of its stopped threads.
 *
 * We may die after each step; the thread then continues as if nothing had happened:
 *   1  code and data for the way back (call_<isa>.c) are written where nobody executes
 *   2  registers: the thread is at that code
 *   3  all signals are blocked, so that no handler runs meanwhile (the way back unblocks them)
 *   4  the thread runs, watched at its system calls, and is brought into an ordinary stop again
 *   5  the signal mask, then the registers are restored: the kernel again repeats an interrupted call
 *   6  the code is wiped
 *
 * A call that takes too long goes on, with the code that it returns to: later calls have other code. */
#include "remote/remote_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

enum { CALL_LIMIT_MS = 10000 };

/* ---- the thread ---- */

static long seccomp_of(const struct ct_remote *remote, int tid) {
    return ct_remote_status_number(remote->pid, tid, "Seccomp:", false);
}

static bool may_forbid(struct ct_remote *remote, int tid) {
    return seccomp_of(remote, tid) > 0 && !ct_filters_are_ours(remote, tid);
}

static int look_at_filters_traced(struct ct_remote *remote, void *arg) {
    bool *forbids = arg;
    int tasks = ct_remote_open_tasks(remote->pid);
    for (size_t i = 0; i < remote->set.count && !*forbids; i++) {
        int tid = remote->set.threads[i].tid;
        *forbids = ct_remote_task_number(tasks, remote->pid, tid, "Seccomp:") > 0 &&
                   !ct_filters_are_ours(remote, tid) && !ct_filters_allow_agents_traced(tid);
    }
    if (tasks >= 0)
        (void)close(tasks);
    return CT_OK;
}

bool ct_remote_has_seccomp(struct ct_remote *remote) {
    bool forbids = false;
    ct_filters_prepare();
    if (!remote->stopped)
        return may_forbid(remote, remote->view);
    return ct_tracer_run(remote, look_at_filters_traced, &forbids) != CT_OK || forbids;
}

static int set_mask(int tid, uint64_t mask) {
    return ct_trace_status(ct_trace(PTRACE_SETSIGMASK, tid, sizeof mask, (uint64_t)(uintptr_t)&mask));
}

/* Each thread has its own filters. A thread without any can make the call, and so can one that has ours. One with
 * another filter can if we may lift that filter. Otherwise nothing is tried, because a filter may kill. */
static bool may_call(struct ct_remote *remote, int tid, bool lift) {
    if (!may_forbid(remote, tid))
        return true;
    return lift && ct_trace(PTRACE_SETOPTIONS, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP) == 0;
}

void ct_remote_keep_filters(struct ct_remote *remote, bool keep) {
    remote->keep_filters = keep;
    remote->worker_ready = false;
}

struct question {
    int tid;
    bool forbids;
};

static int look_at_filter_traced(struct ct_remote *remote, void *arg) {
    struct question *q = arg;
    q->forbids = !ct_filters_are_ours(remote, q->tid) && !ct_filters_allow_agents_traced(q->tid);
    return CT_OK;
}

int ct_remote_choose(struct ct_remote *remote, size_t i) {
    if (!remote->stopped || i >= remote->set.count || !remote->set.threads[i].stopped)
        return CT_ERR_BAD_STATE;
    struct question q = {.tid = remote->set.threads[i].tid};
    if (seccomp_of(remote, q.tid) > 0) {
        ct_filters_prepare();
        if (ct_tracer_run(remote, look_at_filter_traced, &q) != CT_OK || q.forbids)
            return CT_ERR_PERMISSION_DENIED;
    }
    remote->worker = i;
    remote->worker_ready = true;
    return CT_OK;
}

static int choose_worker(struct ct_remote *remote) {
    struct ct_registers regs;
    int status = CT_ERR_NOT_FOUND;
    for (int lift = 0; lift < (remote->keep_filters ? 1 : 2); lift++)
        for (size_t i = 0; i < remote->set.count; i++) { /* the main thread is listed first */
            int tid = remote->set.threads[i].tid;
            if (!remote->set.threads[i].stopped || ct_remote_read_registers_traced(tid, &regs) != CT_OK ||
                !ct_call_possible(&regs))
                continue;
            status = CT_ERR_PERMISSION_DENIED;
            if (!may_call(remote, tid, lift))
                continue;
            remote->worker = i;
            remote->worker_ready = true;
            return CT_OK;
        }
    return status;
}

/* ---- restartable sequences ---- */

struct sequence { /* the kernel's struct rseq_cs */
    uint32_t version, flags;
    uint64_t start, size, abort;
};

/* The kernel forgets a sequence when it sees the thread elsewhere; the thread would then run the rest unguarded. So the
 * sequence is aborted, as any interruption may do. */
static void abort_sequence(const struct ct_remote *remote, int tid, struct ct_registers *regs) {
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, padding;
    } configuration = {0};
    struct sequence sequence;
    uint64_t at = 0, pc = ct_registers_pc(regs);
    enum { GET_RSEQ_CONFIGURATION = 0x420f, CURRENT_SEQUENCE = 8 };
    if (ct_trace(GET_RSEQ_CONFIGURATION, tid, sizeof configuration, (uint64_t)(uintptr_t)&configuration) < 0 ||
        configuration.pointer == 0)
        return;
    if (ct_remote_read(remote, configuration.pointer + CURRENT_SEQUENCE, &at, sizeof at) != CT_OK || at == 0 ||
        ct_remote_read(remote, at, &sequence, sizeof sequence) != CT_OK)
        return;
    if (pc - sequence.start < sequence.size)
        ct_remote_divert(regs, sequence.abort);
}

/* ---- the call ---- */

static int save_thread(struct ct_remote *remote, int tid, struct saved *saved) {
    int status = ct_remote_read_registers_traced(tid, &saved->regs);
    if (status == CT_OK)
        status =
            ct_trace_status(ct_trace(PTRACE_GETSIGMASK, tid, sizeof saved->mask, (uint64_t)(uintptr_t)&saved->mask));
    if (status == CT_OK && remote->gadget == 0)
        status = ct_remote_find_gadget(remote);
    if (status != CT_OK)
        return status;
    abort_sequence(remote, tid, &saved->regs);
    saved->near = ct_call_needs_near(saved, remote->gadget) ? ct_remote_find_near(remote, saved) : 0;
    ct_call_write_code(saved, remote->gadget);
    return CT_OK;
}

/* Faults are not blocked: a blocked fault comes all the same, and the kernel then resets the program's handler. */
static uint64_t all_but_faults(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    uint64_t mask = UINT64_MAX;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        mask &= ~(1ull << (faults[i] - 1));
    return mask;
}

static int write_near(struct ct_remote *remote, const struct saved *saved) {
    uint8_t code[CT_REMOTE_NEAR];
    if (!saved->near)
        return CT_OK;
    ct_call_write_near(saved, saved->near, code);
    return ct_remote_write(remote, saved->near, code, sizeof code);
}

static int begin_call(struct ct_remote *remote, int tid, const struct call *call, const struct saved *saved) {
    struct ct_registers regs;
    ct_call_registers(call, saved, remote->gadget, &regs);
    int status = write_near(remote, saved);
    if (status == CT_OK)
        status = ct_remote_write(remote, remote->gadget, saved->code, sizeof saved->code);
    if (status == CT_OK)
        status = ct_remote_write_registers_traced(tid, &regs);
    if (status == CT_OK)
        status = set_mask(tid, all_but_faults());
    return status;
}

static bool is_fault(int tid) {
    siginfo_t info;
    return ct_trace(PTRACE_GETSIGINFO, tid, 0, (uint64_t)(uintptr_t)&info) == 0 && info.si_code > 0;
}

/* A process that shares the memory may run while this one is stopped, and change our code there. Only our own system
 * call may be made, because filters are lifted. */
static bool is_foreign(const struct call *call, const struct __ptrace_syscall_info *information, uint64_t end) {
    if (!call->is_syscall || information->op != PTRACE_SYSCALL_INFO_ENTRY)
        return false;
    return information->instruction_pointer != end ||
           (information->entry.nr != call->function && information->entry.nr != SYS_restart_syscall) ||
           memcmp(information->entry.args, call->arguments, sizeof call->arguments) != 0;
}

/* Cancels the system call that the thread is about to make. */
static int refuse_call(int tid) {
    struct ct_registers regs;
    int status = ct_remote_read_registers_traced(tid, &regs);
    ct_registers_cancel_call(&regs);
    if (status == CT_OK)
        status = ct_remote_write_registers_traced(tid, &regs);
    return status == CT_OK ? CT_ERR_SYSTEM : status;
}

/* Has the call ended at this stop? */
static int look_at_call(const struct ct_remote *remote, int tid, struct call *call, bool *over) {
    struct __ptrace_syscall_info information;
    struct ct_registers regs;
    bool at_exit;
    uint64_t end = ct_call_end(call, remote->gadget, &at_exit);
    long size = ct_trace(PTRACE_GET_SYSCALL_INFO, tid, sizeof information, (uint64_t)(uintptr_t)&information);
    if (size < 0)
        return ct_trace_status(size);
    if (is_foreign(call, &information, end))
        return refuse_call(tid);
    if (information.instruction_pointer != end ||
        information.op != (at_exit ? PTRACE_SYSCALL_INFO_EXIT : PTRACE_SYSCALL_INFO_ENTRY))
        return CT_OK;
    int status = ct_remote_read_registers_traced(tid, &regs);
    if (status == CT_OK)
        *over = ct_call_result(call, &regs);
    return status;
}

/* Only SIGSTOP and faults can arrive here. A fault signal that somebody sent (SIGSEGV by kill) is sent again later. */
static int handle_signal(int tid, int number, uint64_t *later, int *pass) {
    if (number == SIGSTOP)
        *pass = SIGSTOP;
    else if (is_fault(tid))
        return CT_ERR_SYSTEM;
    else
        *later |= 1ull << (number - 1);
    return CT_OK;
}

/* Waits in slices: the user may give up meanwhile. */
static int wait_call(const struct ct_remote *remote, int tid, uint64_t deadline, struct stop *stop) {
    enum { LOOK_MS = 20 };
    for (;;) {
        uint64_t look = ct_seize_now_ms() + LOOK_MS;
        int status = ct_trace_wait(tid, look < deadline ? look : deadline, stop);
        if (status != CT_ERR_TIMEOUT || look >= deadline || ct_remote_is_over(remote))
            return status;
    }
}

/* Code that makes one system call after another never lets us wait, so the deadline is checked here too. */
static int run_call(const struct ct_remote *remote, int tid, struct call *call, uint64_t deadline, uint64_t *later) {
    int pass = 0;
    bool over = false;
    while (!over) {
        struct stop stop;
        int status = ct_trace_status(ct_trace(PTRACE_SYSCALL, tid, 0, (uint64_t)pass));
        if (status == CT_OK)
            status = wait_call(remote, tid, deadline, &stop);
        if (status != CT_OK)
            return status;
        pass = 0;
        if (stop.kind == STOP_GONE)
            return CT_ERR_NOT_FOUND;
        if (stop.kind == STOP_CALL)
            status = look_at_call(remote, tid, call, &over);
        else if (stop.kind == STOP_SIGNAL)
            status = handle_signal(tid, stop.number, later, &pass);
        if (status != CT_OK)
            return status;
        if (!over && (ct_seize_now_ms() >= deadline || ct_remote_is_over(remote))) {
            (void)ct_trace(PTRACE_CONT, tid, 0, (uint64_t)pass);
            return CT_ERR_TIMEOUT;
        }
    }
    return CT_OK;
}

static int put_back(struct ct_remote *remote, int tid, const struct saved *saved) {
    static const uint8_t zero[CT_REMOTE_GADGET_ROOM];
    int status = set_mask(tid, saved->mask);
    if (status == CT_OK)
        status = ct_remote_write_registers_traced(tid, &saved->regs);
    if (status == CT_OK)
        status = ct_remote_write(remote, remote->gadget, zero, sizeof zero);
    if (status == CT_OK && saved->near)
        status = ct_remote_write(remote, saved->near, zero, CT_REMOTE_NEAR);
    return status;
}

static void send_later(const struct ct_remote *remote, int tid, uint64_t signals) {
    for (int number = 1; signals; number++, signals >>= 1)
        if (signals & 1)
            (void)syscall(SYS_tgkill, remote->pid, tid, number);
}

static int call_traced(struct ct_remote *remote, void *arg) {
    struct call *call = arg;
    struct saved saved;
    uint64_t deadline = ct_patience_deadline(remote, ct_seize_now_ms() + CALL_LIMIT_MS), later = 0;
    remote->late = false;
    int status = ct_remote_is_over(remote) ? CT_ERR_TIMEOUT : remote->worker_ready ? CT_OK : choose_worker(remote);
    if (status != CT_OK)
        return status;
    struct seize_thread *worker = &remote->set.threads[remote->worker];
    if (!worker->stopped)
        return CT_ERR_BAD_STATE;
    status = save_thread(remote, worker->tid, &saved);
    if (status != CT_OK)
        return status;
    status = begin_call(remote, worker->tid, call, &saved);
    if (status == CT_OK)
        status = run_call(remote, worker->tid, call, deadline, &later);
    if (status == CT_ERR_NOT_FOUND || status == CT_ERR_TIMEOUT) {
        worker->stopped = false; /* it returns by itself, if the call ever ends */
        remote->late = status == CT_ERR_TIMEOUT;
        if (remote->late)
            remote->gadget = 0;
        return status;
    }
    int settled = ct_trace_settle(worker->tid, 0, ct_seize_now_ms() + CALL_LIMIT_MS);
    if (settled == CT_OK)
        settled = put_back(remote, worker->tid, &saved);
    else
        remote->gadget = 0;
    if (settled == CT_OK)
        settled = ct_seize_read_registers(worker);
    send_later(remote, worker->tid, later);
    return status != CT_OK ? status : settled;
}

int ct_remote_syscall(struct ct_remote *remote, long number, const uint64_t arguments[6], int64_t *result) {
    struct call call = {.is_syscall = true, .function = (uint64_t)number};
    if (!remote->stopped)
        return CT_ERR_BAD_STATE;
    ct_filters_prepare();
    memcpy(call.arguments, arguments, sizeof call.arguments);
    int status = ct_tracer_run(remote, call_traced, &call);
    *result = (int64_t)call.result;
    return status;
}

/* No memory of ours is in the process yet that could hold the name, so it is beside the code that makes the call. */
int ct_remote_memfd(struct ct_remote *remote, unsigned flags, int64_t *result) {
    int status = !remote->stopped ? CT_ERR_BAD_STATE : remote->gadget ? CT_OK : ct_remote_find_gadget(remote);
    const uint64_t arguments[6] = {ct_call_name(remote->gadget), flags};
    return status == CT_OK ? ct_remote_syscall(remote, SYS_memfd_create, arguments, result) : status;
}

int ct_remote_call(struct ct_remote *remote, uint64_t function, uint64_t stack, const uint64_t arguments[6],
                   uint64_t *result) {
    struct call call = {.function = function, .stack = stack};
    if (!remote->stopped)
        return CT_ERR_BAD_STATE;
    if (stack % 16 != 0)
        return CT_ERR_INVALID_ARGUMENT;
    ct_filters_prepare();
    memcpy(call.arguments, arguments, sizeof call.arguments);
    int status = ct_tracer_run(remote, call_traced, &call);
    *result = call.result;
    return status;
}

bool ct_remote_is_late(const struct ct_remote *remote) {
    return remote->late;
}
