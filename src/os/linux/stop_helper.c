/* The helper process of ct_os_stop_threads: it traces the threads, since nobody may trace his own thread group.
 *
 * It runs in the caller's memory with the caller's thread pointer, so it must not touch thread-local storage; all its
 * signals are blocked, so no handler of the program ever runs in it; it has a descriptor table of its own, so the
 * program's descriptor numbers do not change.
 *
 * Whatever happens to it, the threads go on: the kernel detaches what a dead tracer leaves. Stops are looked at with
 * WNOWAIT: a signal whose delivery-stop was taken off the wait queue would be lost with the tracer. */
#include "stop.h"

#include <linux/close_range.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/signal.h>
#include <linux/stat.h>
#include <linux/wait.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

enum {
    SLICE_MS = 10, /* longest sleep before a look at threads that give no sign */
    KILLED_CHECK_MS = 50,
};

static uint64_t now_ms(void) {
    struct __kernel_timespec time = {0, 0};
    (void)syscall2(__NR_clock_gettime, CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static long ptrace(int request, int tid, uint64_t data) {
    return syscall4(__NR_ptrace, request, tid, 0, data);
}

/* ---- /proc/PID/task/TID/status ---- */

/* The text behind a line's title, or NULL. */
static const char *find_line(const char *text, const char *title) {
    for (;;) {
        const char *a = text, *b = title;
        while (*b && *a == *b)
            a++, b++;
        if (!*b)
            return a;
        while (*text && *text != '\n')
            text++;
        if (!*text++)
            return NULL;
    }
}

/* State ('R', 'S', 'Z', ...) of a thread and the pid of its tracer (0: none); false when it does not exist. */
static bool task_state(int pid, int tid, char *state, int *tracer) {
    char buffer[1024]; /* both lines stand near the top */
    char *end = put_number(put_text(buffer, "/proc/"), (unsigned long)pid);
    put_text(put_number(put_text(end, "/task/"), (unsigned long)tid), "/status");
    long fd = sys_open(buffer, O_RDONLY);
    if (failed(fd))
        return false;
    long size = sys_read(fd, buffer, sizeof buffer - 1);
    sys_close(fd);
    if (size <= 0)
        return false;
    buffer[size] = 0;
    const char *text = find_line(buffer, "State:\t");
    *state = text ? *text : 0;
    text = find_line(buffer, "TracerPid:\t");
    *tracer = 0;
    while (text && *text >= '0' && *text <= '9')
        *tracer = *tracer * 10 + (*text++ - '0');
    return true;
}

/* ---- finding and seizing ---- */

static struct stop_thread *add_thread(struct ct_os_stopped *s) {
    if (s->count == s->capacity) {
        size_t size = s->capacity * sizeof *s->threads;
        long at = sys_mremap((uint64_t)s->threads, size, 2 * size, MREMAP_MAYMOVE, 0);
        if (failed(at))
            return NULL;
        s->threads = (struct stop_thread *)at;
        s->capacity *= 2;
    }
    return &s->threads[s->count++];
}

/* Threads are listed in the same order each time, so the next one is where the last one was found, plus one. */
static bool is_known(const struct ct_os_stopped *s, int tid, size_t *cursor) {
    for (size_t n = 0; n < s->count; n++) {
        size_t i = (*cursor + n) % s->count;
        if (s->threads[i].tid == tid) {
            *cursor = i + 1;
            return true;
        }
    }
    return false;
}

/* The kernel says EPERM for threads that have ended, that are traced already, and that we may not trace. */
static int explain_refusal(const struct ct_os_stopped *s, int tid) {
    char state = 0;
    int tracer = 0;
    if (!task_state(s->pid, tid, &state, &tracer) || state == 'Z' || state == 'X')
        return CT_OK;
    return tracer != 0 ? CT_ERR_BUSY : CT_ERR_PERMISSION_DENIED;
}

static int seize(struct ct_os_stopped *s, int tid, bool *found) {
    long result = ptrace(PTRACE_SEIZE, tid, 0);
    if (result == -ESRCH)
        return CT_OK;
    if (result == -EPERM || result == -EACCES)
        return explain_refusal(s, tid);
    if (failed(result))
        return status_of(result);
    struct stop_thread *thread = add_thread(s);
    if (!thread)
        return CT_ERR_NO_MEMORY; /* our end detaches the thread */
    thread->tid = tid;
    thread->signal = 0;
    thread->stopped = thread->gone = thread->changed = false;
    *found = true;
    (void)ptrace(PTRACE_INTERRUPT, tid, 0); /* fails when the thread ends at this moment: the wait tells */
    return CT_OK;
}

struct directory_entry { /* the kernel's struct linux_dirent64 */
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

static int parse_number(const char *text) {
    int value = 0;
    while (*text >= '0' && *text <= '9')
        value = value * 10 + (*text++ - '0');
    return value;
}

/* Seizes every thread of the directory that is not known yet, and counts all entries. */
static int scan_directory(struct ct_os_stopped *s, long fd, bool *found, size_t *listed) {
    size_t cursor = 0;
    for (;;) {
        long size = syscall3(__NR_getdents64, fd, s->directory, sizeof s->directory);
        if (size <= 0)
            return status_of(size);
        for (long at = 0; at < size;) {
            const struct directory_entry *entry = (const void *)(s->directory + at);
            at += entry->size;
            int tid = parse_number(entry->name);
            if (tid == 0)
                continue; /* . and .. */
            ++*listed;
            if (tid == s->caller || is_known(s, tid, &cursor))
                continue;
            int status = seize(s, tid, found);
            if (status != CT_OK)
                return status;
        }
    }
}

/* The directory has one link per thread, and two. */
static size_t thread_count(long fd) {
    struct statx information;
    long result = syscall6(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_NLINK, (long)&information, 0);
    return failed(result) ? 0 : (size_t)information.stx_nlink - 2;
}

/* *complete: nothing new, and as many entries as threads (a listing may miss threads while others end). */
static int scan(struct ct_os_stopped *s, bool *found, bool *complete) {
    char path[64];
    put_text(put_number(put_text(path, "/proc/"), (unsigned long)s->pid), "/task");
    long fd = sys_open(path, O_RDONLY | O_DIRECTORY);
    if (failed(fd))
        return status_of(fd);
    size_t listed = 0, before = thread_count(fd);
    *found = false;
    int status = scan_directory(s, fd, found, &listed);
    *complete = !*found && listed == before && listed == thread_count(fd);
    sys_close(fd);
    return status;
}

/* ---- waiting ---- */

/* What wait has to tell about a thread now; info->si_pid is 0 when it is nothing. */
static long look(int tid, siginfo_t *info, int more_options) {
    info->si_pid = 0;
    int options = WEXITED | WSTOPPED | WNOHANG | __WALL | more_options;
    return syscall6(__NR_waitid, 1 /* P_PID */, tid, (long)info, options, 0, 0);
}

static bool is_stop(const siginfo_t *info) {
    return info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
}

/* Has the thread stopped or ended? */
static int poll_thread(struct stop_thread *thread) {
    siginfo_t info;
    long result = look(thread->tid, &info, WNOWAIT);
    if (result == -ECHILD) {
        thread->gone = true;
        return CT_OK;
    }
    if (failed(result) || info.si_pid == 0)
        return status_of(result);
    if (!is_stop(&info)) {
        (void)look(thread->tid, &info, 0); /* reaps it */
        thread->gone = true;
        return CT_OK;
    }
    /* A signal that was just being delivered stops the thread in place of our request; its delivery is completed
     * when the thread resumes. Stops with an event (ours, job control) have none. */
    thread->signal = info.si_status >> 8 ? 0 : info.si_status & 0x7f;
    thread->stopped = ct_stop_read_registers(thread) == CT_OK; /* else it was killed: the next look tells */
    return CT_OK;
}

/* The end of a main thread is not told while others live. */
static void check_silent(const struct ct_os_stopped *s, struct stop_thread *thread) {
    char state = 0;
    int tracer;
    if (thread->tid == s->pid && task_state(s->pid, thread->tid, &state, &tracer) && (state == 'Z' || state == 'X'))
        thread->gone = true;
}

/* Sleeps until some thread has news (SIGCHLD, which is blocked and so stays pending), or the slice is over: false. */
static bool sleep_for_news(void) {
    struct __kernel_timespec slice = {0, SLICE_MS * 1000000};
    uint64_t child = 1ull << (SIGCHLD - 1);
    return syscall4(__NR_rt_sigtimedwait, &child, 0, &slice, sizeof child) == SIGCHLD;
}

/* Returns with every seized thread stopped or gone. */
static int wait_for_all(struct ct_os_stopped *s, size_t first, uint64_t deadline) {
    for (size_t i = first; i < s->count; i++) {
        struct stop_thread *thread = &s->threads[i];
        for (;;) {
            int status = poll_thread(thread);
            if (status != CT_OK)
                return status;
            if (thread->stopped || thread->gone)
                break;
            if (now_ms() >= deadline)
                return CT_ERR_TIMEOUT;
            if (!sleep_for_news())
                check_silent(s, thread);
        }
    }
    return CT_OK;
}

static void drop_gone(struct ct_os_stopped *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->threads[i].gone)
            continue;
        if (kept != i)
            s->threads[kept] = s->threads[i];
        kept++;
    }
    s->count = kept;
}

/* A running thread may start others until it is stopped itself, so this goes on until a scan that began with every known
 * thread stopped finds none that is new. A thread that ends meanwhile may hide another from one listing, and from its
 * count too: two in a row must be complete. Where the number of threads is not told (no such link count), several must
 * find nothing. */
static int stop_all(struct ct_os_stopped *s) {
    uint64_t deadline = now_ms() + s->limit_ms;
    int quiet = 0, calm = 0, tracer;
    char state;
    if (!task_state(s->pid, s->caller, &state, &tracer))
        return CT_ERR_SYSTEM; /* no /proc */
    if (tracer != 0)
        return CT_ERR_BUSY;
    for (;;) {
        bool found, complete;
        size_t known = s->count;
        int status = scan(s, &found, &complete);
        if (status == CT_OK)
            status = wait_for_all(s, known, deadline);
        if (status != CT_OK)
            return status;
        drop_gone(s);
        quiet = found ? 0 : quiet + 1;
        calm = complete ? calm + 1 : 0;
        if (calm == 2 || quiet == 10)
            return CT_OK;
        if (now_ms() >= deadline)
            return CT_ERR_TIMEOUT;
    }
}

/* ---- life ---- */

/* A stopped thread only ends by SIGKILL, with all others: its process is ending, or the caller is in exec, which waits
 * until nobody traces them any more. (Asked for ends alone, wait still tells of stops of traced threads.) */
static bool were_killed(const struct ct_os_stopped *s) {
    siginfo_t info;
    if (s->count == 0)
        return false;
    long result = look(s->threads[0].tid, &info, WNOWAIT);
    return failed(result) || (info.si_pid != 0 && !is_stop(&info));
}

static void wait_for_resume(struct ct_os_stopped *s) {
    while (!ct_stop_wait_while(&s->command, COMMAND_STOP, KILLED_CHECK_MS))
        if (were_killed(s))
            return;
}

/* Our end detaches every thread, all at once: one by one, those that already run would keep us from the processor while
 * the others still stand. Only a signal is handed back here (the end would too, as it was never taken off the wait
 * queue, but then it is not said anywhere). */
static void prepare_resume(struct ct_os_stopped *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->threads[i].stopped && s->threads[i].changed)
            (void)ct_stop_write_registers(&s->threads[i]); /* fails only when the thread was killed */
    for (size_t i = 0; i < s->count; i++)
        if (s->threads[i].stopped && s->threads[i].signal)
            (void)ptrace(PTRACE_DETACH, s->threads[i].tid, (uint64_t)s->threads[i].signal);
}

static void settle_in(const struct ct_os_stopped *s) {
    struct {
        uint64_t handler, flags, restorer, mask;
    } by_default = {0, 0, 0, 0};
    /* Only a SIGCHLD that is not ignored is sent for stops; this table of handlers is ours alone. */
    (void)syscall4(__NR_rt_sigaction, SIGCHLD, &by_default, 0, sizeof by_default.mask);
    (void)syscall2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL); /* the caller's end (exit, exec) is ours */
    if (syscall0(__NR_getppid) != s->pid)
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
    prepare_resume(s);
    (void)syscall1(__NR_exit_group, 0); /* the kernel sets s->helper to HELPER_GONE and wakes the caller */
    __builtin_unreachable();
}
