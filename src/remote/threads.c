/* SPDX-License-Identifier: Apache-2.0 */
/* Stops and resumes all threads of another process.
 *
 * Invariant: a thread of the stopped set is in a PTRACE_EVENT_STOP. From such a stop the kernel repeats an interrupted
 * call, and no signal is under way: an earlier one has been delivered (the thread is at its handler), later ones
 * wait. */
#include "remote/remote_internal.h"

#include <string.h>
#include <unistd.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

struct request {
    unsigned limit_ms;
    size_t index;
    struct ct_registers regs;
};

static int settle_all(struct ct_remote *remote, uint64_t deadline) {
    struct seize_set *set = &remote->set;
    for (size_t i = 0; i < set->count; i++) {
        struct seize_thread *thread = &set->threads[i];
        if (thread->signal == 0 && (ct_registers_call_size(&thread->regs) || !ct_trace_has_fault(thread->tid)))
            continue; /* a thread in a system call that is to be repeated has made no fault */
        int event, status = ct_trace_settle(thread->tid, thread->signal, deadline);
        if (status == CT_OK)
            status = ct_seize_poll(set, thread, &event);
        if (status != CT_OK)
            return status;
    }
    return CT_OK;
}

static int stop_traced(struct ct_remote *remote, void *arg) {
    const struct request *request = arg;
    if (remote->watch.running)
        return ct_watch_stop_traced(remote, request->limit_ms);
    uint64_t deadline = ct_seize_now_ms() + request->limit_ms;
    remote->set.options = PTRACE_O_TRACESYSGOOD;
    remote->set.child = remote->spawned && !remote->tracer.vforked ? remote->pid : 0;
    remote->set.holder = 0;
    int status = ct_seize_all(&remote->set, request->limit_ms);
    if (status == CT_OK)
        status = settle_all(remote, deadline);
    if (status == CT_OK && remote->set.count == 0)
        status = CT_ERR_NOT_FOUND;
    return status;
}

static int explain_stop(struct ct_remote *remote, int status, struct ct_remote_error *error) {
    int pid = remote->pid;
    if (!ct_remote_is_alive(remote))
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "process %d has ended, or runs another program now", pid);
    long tracer = ct_remote_status_number(pid, remote->view, "TracerPid:", false);
    switch (status) {
    case CT_ERR_BUSY:
        return ct_remote_say_traced(error, pid, (int)tracer);
    case CT_ERR_PERMISSION_DENIED:
        return ct_remote_say_forbidden(error, pid);
    case CT_ERR_TIMEOUT:
        return ct_remote_say(
            error, status,
            "process %d did not stop in time: a thread waits in the kernel and cannot be interrupted (for a disk, "
            "or for a vfork child); try again later",
            pid);
    case CT_ERR_UNSUPPORTED:
        return ct_remote_say(error, status,
                             "process %d cannot be recorded: this kernel, or a sandbox in its place, does not show the "
                             "registers of threads",
                             pid);
    case CT_ERR_NO_MEMORY:
    case CT_ERR_NO_THREADS:
        return ct_remote_say(error, status, "%s", ct_status_text(status));
    default:
        return ct_remote_say(error, CT_ERR_SYSTEM, "process %d could not be stopped: %s", pid, ct_status_text(status));
    }
}

static int try_stop(struct ct_remote *remote, bool vforked, struct request *request) {
    ct_tracer_end(remote);
    remote->set.count = 0;
    remote->worker_ready = false;
    int status = ct_tracer_start(remote, vforked);
    return status == CT_OK ? ct_tracer_run(remote, stop_traced, request) : status;
}

static unsigned patience_ms(const struct ct_remote *remote) {
    return ct_remote_patience_ms((int)ct_remote_status_number(remote->pid, remote->view, "TracerPid:", false));
}

static int try_again_when_busy(struct ct_remote *remote, bool vforked, struct request *request) {
    uint64_t begin = ct_seize_now_ms();
    int status = try_stop(remote, vforked, request);
    while (status == CT_ERR_BUSY && ct_seize_now_ms() - begin < patience_ms(remote)) {
        (void)usleep(2000);
        status = try_stop(remote, vforked, request);
    }
    return status;
}

static bool is_held(const struct ct_remote *remote) {
    return remote->tracer.running && __atomic_load_n(&remote->watch.running, __ATOMIC_ACQUIRE) &&
           !__atomic_load_n(&remote->tracer.lost, __ATOMIC_ACQUIRE);
}

/* The tracer that already has the process stops it. If it does not stop, the tracer stays with it. */
static int stop_held(struct ct_remote *remote, struct request *request, struct ct_remote_error *error) {
    remote->worker_ready = false;
    int status = ct_tracer_run(remote, stop_traced, request);
    if (status == CT_OK && !ct_remote_is_alive(remote))
        status = CT_ERR_NOT_FOUND;
    remote->stopped = status == CT_OK;
    if (status == CT_OK) {
        ct_patience_begin(remote);
        return CT_OK;
    }
    (void)ct_tracer_run(remote, ct_watch_resume_traced, NULL);
    return explain_stop(remote, status, error);
}

int ct_remote_stop(struct ct_remote *remote, unsigned limit_ms, struct ct_remote_error *error) {
    struct request request = {.limit_ms = limit_ms};
    if (remote->stopped)
        return ct_remote_say(error, CT_ERR_BAD_STATE, "process %d is stopped already", remote->pid);
    if (is_held(remote))
        return stop_held(remote, &request, error);
    int status = try_again_when_busy(remote, true, &request);
    if (status == CT_ERR_PERMISSION_DENIED)
        status = try_again_when_busy(remote, false, &request); /* as its ancestor we may have the right ourselves */
    if (status == CT_OK && !ct_remote_is_alive(remote))
        status = CT_ERR_NOT_FOUND; /* it has executed another program before the stop */
    if (status == CT_OK) {
        remote->stopped = true;
        ct_patience_begin(remote);
        return CT_OK;
    }
    ct_tracer_end(remote);
    remote->set.count = 0;
    return explain_stop(remote, status, error);
}

static int look_again_traced(struct ct_remote *remote, void *arg) {
    (void)arg;
    for (size_t i = 0; i < remote->set.count; i++)
        if (remote->set.threads[i].stopped)
            ct_seize_look_again(&remote->set.threads[i]);
    return CT_OK;
}

int ct_remote_resume(struct ct_remote *remote) {
    if (!remote->tracer.running || is_held(remote))
        return CT_ERR_BAD_STATE;
    if (remote->stopped)
        (void)ct_tracer_run(remote, look_again_traced, NULL);
    remote->stopped = remote->worker_ready = false;
    remote->range_count = 0;
    ct_patience_end(remote);
    if (remote->watch.on && ct_tracer_run(remote, ct_watch_resume_traced, NULL) == CT_OK)
        return CT_OK;
    ct_tracer_end(remote);
    remote->set.count = 0;
    return CT_OK;
}

int ct_remote_adopt_traced(struct ct_remote *remote) {
    int event;
    remote->set.options = PTRACE_O_TRACESYSGOOD;
    remote->set.child = remote->tracer.vforked ? 0 : remote->pid;
    remote->set.holder = 0;
    struct seize_thread *thread = ct_seize_add(&remote->set, remote->pid);
    if (!thread)
        return CT_ERR_NO_MEMORY;
    int status = ct_seize_poll(&remote->set, thread, &event);
    if (status == CT_OK && !thread->stopped)
        status = CT_ERR_NOT_FOUND;
    return status;
}

bool ct_remote_is_stopped(const struct ct_remote *remote) {
    return remote->stopped;
}

uint64_t ct_remote_stopped_since(const struct ct_remote *remote) {
    return remote->set.since_ns;
}

/* ---- stopped threads ---- */

size_t ct_remote_thread_count(const struct ct_remote *remote) {
    return remote->stopped ? remote->set.count : 0;
}

int ct_remote_thread_tid(const struct ct_remote *remote, size_t i) {
    return i < ct_remote_thread_count(remote) ? remote->set.threads[i].tid : CT_ERR_INVALID_ARGUMENT;
}

int ct_remote_thread_inner_tid(const struct ct_remote *remote, size_t i) {
    int tid = ct_remote_thread_tid(remote, i);
    if (tid < 0 || !remote->inner_numbers)
        return tid;
    long inner = ct_remote_status_number(remote->pid, tid, "NSpid:", true);
    return inner > 0 ? (int)inner : tid;
}

int ct_remote_get_regs(struct ct_remote *remote, size_t i, struct ct_registers *regs) {
    if (i >= ct_remote_thread_count(remote))
        return CT_ERR_INVALID_ARGUMENT;
    *regs = remote->set.threads[i].regs;
    return CT_OK;
}

static int read_memory(const void *remote, uint64_t address, void *bytes, size_t size) {
    return ct_remote_read(remote, address, bytes, size);
}

uint64_t ct_remote_thread_pointer(const struct ct_remote *remote, const struct ct_registers *regs) {
    return ct_registers_thread_pointer(regs, read_memory, remote);
}

/* No other register depends on it. */
static bool only_block_differs(const struct ct_registers *was, const struct ct_registers *now) {
    struct ct_registers same = *was;
    ct_registers_set_block(&same, ct_registers_block(now));
    return memcmp(&same, now, sizeof same) == 0;
}

/* Reads back what the thread has now: how an interrupted call continues may depend on pc. */
static int write_regs(struct ct_remote *remote, struct seize_thread *thread, const struct ct_registers *regs) {
    thread->regs = *regs;
    if (ct_remote_step)
        ct_remote_step();
    int status = ct_seize_write_registers(&remote->set, thread);
    if (status != CT_OK)
        thread->regs = thread->original;
    else if (only_block_differs(&thread->original, regs))
        thread->original = *regs;
    else
        status = ct_seize_read_registers(thread);
    return status;
}

static int set_regs_traced(struct ct_remote *remote, void *arg) {
    const struct request *request = arg;
    return write_regs(remote, &remote->set.threads[request->index], &request->regs);
}

static bool is_as_it_was(const struct ct_remote *remote, size_t i, const struct ct_registers *regs) {
    return memcmp(&remote->set.threads[i].original, regs, sizeof *regs) == 0;
}

int ct_remote_set_regs(struct ct_remote *remote, size_t i, const struct ct_registers *regs) {
    struct request request = {.index = i, .regs = *regs};
    if (i >= ct_remote_thread_count(remote) || !ct_registers_are_possible(regs))
        return CT_ERR_INVALID_ARGUMENT;
    if (is_as_it_was(remote, i, regs))
        return CT_OK;
    int status = ct_tracer_run(remote, set_regs_traced, &request);
    return status == CT_ERR_SYSTEM && !ct_remote_is_alive(remote) ? CT_ERR_NOT_FOUND : status;
}

static int set_all_traced(struct ct_remote *remote, void *arg) {
    const struct ct_registers *regs = arg;
    for (size_t i = 0; i < remote->set.count; i++) {
        int status = is_as_it_was(remote, i, &regs[i]) ? CT_OK : write_regs(remote, &remote->set.threads[i], &regs[i]);
        if (status != CT_OK)
            return status;
    }
    return CT_OK;
}

/* One job for the tracer: with thousands of threads, waking it for each takes longer than all else. */
int ct_remote_set_all_regs(struct ct_remote *remote, const struct ct_registers *regs) {
    for (size_t i = 0; i < ct_remote_thread_count(remote); i++)
        if (!ct_registers_are_possible(&regs[i]))
            return CT_ERR_INVALID_ARGUMENT;
    int status = ct_tracer_run(remote, set_all_traced, (void *)(uintptr_t)regs);
    return status == CT_ERR_SYSTEM && !ct_remote_is_alive(remote) ? CT_ERR_NOT_FOUND : status;
}
