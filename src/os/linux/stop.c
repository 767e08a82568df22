/* SPDX-License-Identifier: Apache-2.0 */
/* Stops the other threads of this process: the caller's side. stop.h describes the protocol, stop_helper.c is the other
 * side.
 *
 * Invariants: while threads are stopped the caller has all signals blocked (a handler could wait for a stopped thread);
 * the process is dumpable and names the helper as its tracer only until the stop is complete; the helper is always
 * reaped, and it has exit signal 0, so that wait() in the program does not see it. */
#include "stop.h"
#include "os/thread.h"

#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/wait.h>

enum { DEFAULT_LIMIT_MS = 2000, GRACE_MS = 3000, TURN_US = 100 };

/* One stop at a time. Holds the pid, so that a fork's child is not locked out by a stop of its parent. */
static int owner;

static bool take_turn(int pid) {
    int other = __atomic_load_n(&owner, __ATOMIC_RELAXED);
    return other != pid && __atomic_compare_exchange_n(&owner, &other, pid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* The thread that has the turn stops us too for a moment, and soon ends it. */
static bool wait_for_turn(int pid, unsigned limit_ms) {
    uint64_t end = ct_seize_now_ms() + limit_ms;
    while (!take_turn(pid)) {
        if (ct_seize_now_ms() >= end)
            return false;
        ct_os_sleep_us(TURN_US);
    }
    return true;
}

static void end_turn(void) {
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}

/* ---- futex words ---- */

/* Not "private": the kernel wakes the word of an ended process the shared way. */
bool ct_stop_wait_while(int *word, int value, int limit_ms) {
    struct __kernel_timespec limit = {limit_ms / 1000, limit_ms % 1000 * 1000000l};
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
        long result = syscall4(__NR_futex, word, FUTEX_WAIT, value, limit_ms < 0 ? NULL : &limit);
        if (result == -ETIMEDOUT)
            return __atomic_load_n(word, __ATOMIC_ACQUIRE) != value;
    }
    return true;
}

void ct_stop_set(int *word, int value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    (void)syscall3(__NR_futex, word, FUTEX_WAKE, 1);
}

/* ---- the caller ---- */

static void set_signal_mask(uint64_t mask, uint64_t *old) {
    (void)syscall4(__NR_rt_sigprocmask, SIG_SETMASK, &mask, old, sizeof mask);
}

static struct ct_os_stopped *allocate(int pid, unsigned limit_ms) {
    struct ct_os_stopped *s = ct_os_alloc(sizeof *s, CT_OS_READ | CT_OS_WRITE);
    if (!s)
        return NULL;
    if (ct_seize_prepare(&s->set) != CT_OK) {
        (void)ct_os_free(s, sizeof *s);
        return NULL;
    }
    (void)ct_os_protect(s->stack, CT_PAGE_SIZE, 0); /* the guard */
    s->set.pid = pid;
    s->set.except = ct_os_gettid();
    s->limit_ms = limit_ms;
    return s;
}

static void release_stop(struct ct_os_stopped *s) {
    uint64_t mask = s->signal_mask;
    ct_seize_release(&s->set);
    (void)ct_os_free(s, sizeof *s);
    end_turn();
    set_signal_mask(mask, NULL); /* last: handlers may run now */
}

static void reap_helper(struct ct_os_stopped *s) {
    while (syscall4(__NR_wait4, s->helper_pid, 0, __WCLONE, 0) == -EINTR)
        ;
}

/* Two things keep a helper of our own user from tracing us: a process that is not dumpable, and Yama. */
static void allow_tracing(struct ct_os_stopped *s) {
    s->dumpable = (int)syscall1(__NR_prctl, PR_GET_DUMPABLE);
    if (s->dumpable != 1)
        (void)syscall2(__NR_prctl, PR_SET_DUMPABLE, 1);
}

static void forbid_tracing(struct ct_os_stopped *s) {
    if (s->named_tracer)
        (void)syscall2(__NR_prctl, PR_SET_PTRACER, 0);
    if (s->dumpable != 1)
        (void)syscall2(__NR_prctl, PR_SET_DUMPABLE, 0); /* 2 cannot be set (root only); 0 also lets nobody in */
}

static int start_helper(struct ct_os_stopped *s) {
    unsigned long flags = CLONE_VM | CLONE_FILES | CLONE_UNTRACED | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    long pid = clone_onto(flags, s->stack + sizeof s->stack, &s->helper, ct_stop_helper_run, s);
    if (failed(pid))
        return CT_ERR_SYSTEM;
    s->helper_pid = (int)pid;
    /* without Yama it is refused, and not needed */
    s->named_tracer = !failed(syscall2(__NR_prctl, PR_SET_PTRACER, pid));
    return CT_OK;
}

/* The helper has its own time limit; ours is for a helper that hangs (stopped by a signal). */
static int wait_for_stop(struct ct_os_stopped *s) {
    ct_stop_set(&s->command, COMMAND_STOP);
    if (!ct_stop_wait_while(&s->helper, s->helper_pid, (int)s->limit_ms * CT_SEIZE_LIMITS + GRACE_MS)) {
        (void)syscall2(__NR_kill, s->helper_pid, SIGKILL);
        reap_helper(s);
        return CT_ERR_TIMEOUT;
    }
    if (__atomic_load_n(&s->helper, __ATOMIC_ACQUIRE) == HELPER_STOPPED)
        return CT_OK;
    reap_helper(s);
    return s->status != CT_OK ? s->status : CT_ERR_SYSTEM;
}

int ct_os_stop_threads_within(struct ct_os_stopped **out, unsigned limit_ms) {
    int pid = ct_os_getpid();
    if (!wait_for_turn(pid, limit_ms))
        return CT_ERR_BUSY;
    struct ct_os_stopped *s = allocate(pid, limit_ms);
    if (!s) {
        end_turn();
        return CT_ERR_NO_MEMORY;
    }
    set_signal_mask(UINT64_MAX, &s->signal_mask); /* the helper inherits it */
    allow_tracing(s);
    int status = start_helper(s);
    if (status == CT_OK)
        status = wait_for_stop(s);
    forbid_tracing(s);
    if (status != CT_OK) {
        release_stop(s);
        return status;
    }
    *out = s;
    return CT_OK;
}

int ct_os_stop_threads(struct ct_os_stopped **out) {
    return ct_os_stop_threads_within(out, DEFAULT_LIMIT_MS);
}

void ct_os_resume_threads(struct ct_os_stopped *s) {
    ct_stop_set(&s->command, COMMAND_RESUME);
    reap_helper(s);
    release_stop(s);
}

/* ---- the stopped threads ---- */

static bool helper_lives(const struct ct_os_stopped *s) {
    return __atomic_load_n(&s->helper, __ATOMIC_ACQUIRE) == HELPER_STOPPED;
}

size_t ct_os_stopped_count(const struct ct_os_stopped *s) {
    return s->set.count;
}

int ct_os_stopped_tid(const struct ct_os_stopped *s, size_t i) {
    return i < s->set.count ? s->set.threads[i].tid : CT_ERR_INVALID_ARGUMENT;
}

int ct_os_stopped_get_regs(struct ct_os_stopped *s, size_t i, struct ct_registers *regs) {
    if (i >= s->set.count)
        return CT_ERR_INVALID_ARGUMENT;
    if (!helper_lives(s))
        return CT_ERR_SYSTEM;
    ct_registers_copy(regs, &s->set.threads[i].regs);
    return CT_OK;
}

int ct_os_stopped_set_regs(struct ct_os_stopped *s, size_t i, const struct ct_registers *regs) {
    if (i >= s->set.count || !ct_registers_are_possible(regs))
        return CT_ERR_INVALID_ARGUMENT;
    if (!helper_lives(s))
        return CT_ERR_SYSTEM;
    ct_registers_copy(&s->set.threads[i].regs, regs);
    s->set.threads[i].changed = true;
    return CT_OK;
}
