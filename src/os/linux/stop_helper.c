/* SPDX-License-Identifier: Apache-2.0 */
/* The helper process of ct_os_stop_threads. It traces the threads, because a thread cannot trace its own thread group.
 *
 * It runs in the caller's memory with the caller's thread pointer, so it must not touch thread-local storage. All its
 * signals are blocked, so no handler of the program ever runs in it. It has its own descriptor table, so the program's
 * descriptor numbers do not change. See also seize.h. */
#include "stop.h"

#include <linux/close_range.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/signal.h>

enum {
    SLICE_MS = 10, /* longest sleep before threads without news are checked */
    KILLED_CHECK_MS = 50,
};

/* Sleeps until some thread has news: SIGCHLD, which is blocked and so stays pending. False: the slice is over. */
static bool sleep_for_news(void) {
    struct __kernel_timespec slice = {0, SLICE_MS * 1000000};
    uint64_t child = 1ull << (SIGCHLD - 1);
    return syscall4(__NR_rt_sigtimedwait, &child, 0, &slice, sizeof child) == SIGCHLD;
}

static int read_memory(const void *memory, uint64_t address, void *bytes, size_t size) {
    (void)memory;
    return ct_os_peek(address, bytes, size);
}

static int stop_all(struct ct_os_stopped *s) {
    int tracer;
    char state;
    if (!ct_seize_task_state(s->set.pid, s->set.except, &state, &tracer))
        return CT_ERR_SYSTEM; /* no /proc */
    if (tracer != 0)
        return CT_ERR_BUSY;
    s->set.sleep = sleep_for_news;
    s->set.read = read_memory;
    return ct_seize_all(&s->set, s->limit_ms);
}

/* ---- life of the helper ---- */

static void wait_for_resume(struct ct_os_stopped *s) {
    while (!ct_stop_wait_while(&s->command, COMMAND_STOP, KILLED_CHECK_MS))
        if (ct_seize_were_killed(&s->set))
            return;
}

/* When we end, the kernel detaches all threads at once. If we detached them one by one, those that already run would
 * keep us from the processor while the others are still stopped. Only a signal is handed back here. (Our end would do
 * that too, as the signal was never taken off the wait queue, but that is not documented.) */
static void prepare_resume(const struct seize_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (set->threads[i].stopped && set->threads[i].changed)
            (void)ct_seize_write_registers(set, &set->threads[i]); /* fails only if the thread was killed */
    for (size_t i = 0; i < set->count; i++)
        if (set->threads[i].stopped)
            ct_seize_look_again(&set->threads[i]);
    for (size_t i = 0; i < set->count; i++)
        if (set->threads[i].stopped && set->threads[i].signal)
            (void)syscall4(__NR_ptrace, PTRACE_DETACH, set->threads[i].tid, 0, set->threads[i].signal);
}

static void settle_in(const struct ct_os_stopped *s) {
    struct {
        uint64_t handler, flags, restorer, mask;
    } by_default = {0, 0, 0, 0};
    /* SIGCHLD is sent for stops only if it is not ignored; this table of handlers is ours alone. */
    (void)syscall4(__NR_rt_sigaction, SIGCHLD, &by_default, 0, sizeof by_default.mask);
    (void)syscall2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL); /* if the caller ends (exit, exec), so do we */
    if (syscall0(__NR_getppid) != s->set.pid)
        (void)syscall1(__NR_exit_group, 1);
    /* fails before Linux 5.9: then we share the table, which is harmless */
    (void)syscall3(__NR_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE);
}

void ct_stop_helper_run(void *stopped) {
    struct ct_os_stopped *s = stopped;
    settle_in(s);
    (void)ct_stop_wait_while(&s->command, COMMAND_NONE, -1);
    s->status = stop_all(s);
    if (s->status == CT_OK) {
        ct_stop_set(&s->helper, HELPER_STOPPED);
        wait_for_resume(s);
    }
    prepare_resume(&s->set);
    (void)syscall1(__NR_exit_group, 0); /* the kernel sets s->helper to HELPER_GONE and wakes the caller */
    __builtin_unreachable();
}
