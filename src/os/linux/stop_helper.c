/* The helper process of ct_os_stop_threads: it traces the threads, since nobody may trace his own thread group.
 *
 * It runs in the caller's memory with the caller's thread pointer, so it must not touch thread-local storage; all its
 * signals are blocked, so no handler of the program ever runs in it; it has a descriptor table of its own, so the
 * program's descriptor numbers do not change (seize.h tells the rest). */
#include "stop.h"

#include <linux/close_range.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/signal.h>

enum {
    SLICE_MS = 10, /* longest sleep before a look at threads that give no sign */
    KILLED_CHECK_MS = 50,
};

/* Sleeps until some thread has news (SIGCHLD, which is blocked and so stays pending), or the slice is over: false. */
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

/* ---- life ---- */

static void wait_for_resume(struct ct_os_stopped *s) {
    while (!ct_stop_wait_while(&s->command, COMMAND_STOP, KILLED_CHECK_MS))
        if (ct_seize_were_killed(&s->set))
            return;
}

/* Our end detaches every thread, all at once: one by one, those that already run would keep us from the processor while
 * the others still stand. Only a signal is handed back here (the end would too, as it was never taken off the wait
 * queue, but then it is not said anywhere). */
static void prepare_resume(const struct seize_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (set->threads[i].stopped && set->threads[i].changed)
            (void)ct_seize_write_registers(set, &set->threads[i]); /* fails only when the thread was killed */
    for (size_t i = 0; i < set->count; i++)
        if (set->threads[i].stopped && set->threads[i].signal)
            (void)syscall4(__NR_ptrace, PTRACE_DETACH, set->threads[i].tid, 0, set->threads[i].signal);
}

static void settle_in(const struct ct_os_stopped *s) {
    struct {
        uint64_t handler, flags, restorer, mask;
    } by_default = {0, 0, 0, 0};
    /* Only a SIGCHLD that is not ignored is sent for stops; this table of handlers is ours alone. */
    (void)syscall4(__NR_rt_sigaction, SIGCHLD, &by_default, 0, sizeof by_default.mask);
    (void)syscall2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL); /* the caller's end (exit, exec) is ours */
    if (syscall0(__NR_getppid) != s->set.pid)
        (void)syscall1(__NR_exit_group, 1);
    (void)syscall3(__NR_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE); /* without it (before 5.9) we share: no harm */
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
