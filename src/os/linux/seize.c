/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, seizes and stops every thread of a process (seize.h). Uses no libc and no thread-local storage: it also runs
 * in the helper process of ct_os_stop_threads, in the caller's memory and with the caller's thread pointer. */
#include "seize.h"
#include "syscall.h"

#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/stat.h>
#include <linux/wait.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

enum { SEIZE_TRIES = 3, EARLY_SCANS = 4 };

struct deadlines {
    uint64_t soon, last;
};

static uint64_t time_ns(int clock) {
    struct __kernel_timespec time = {0, 0};
    (void)syscall2(__NR_clock_gettime, clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t ct_seize_now_ms(void) {
    return time_ns(CLOCK_MONOTONIC) / 1000000;
}

static long ptrace(int request, int tid, uint64_t data) {
    return syscall4(__NR_ptrace, request, tid, 0, data);
}

/* ---- /proc/PID/task/TID/status ---- */

/* The text after a line's title, or NULL. */
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

bool ct_seize_task_state(int pid, int tid, char *state, int *tracer) {
    char buffer[1024]; /* both lines are near the top */
    if (!read_task_file(pid, tid, "status", buffer, sizeof buffer))
        return false;
    const char *text = find_line(buffer, "State:\t");
    *state = text ? *text : 0;
    text = find_line(buffer, "TracerPid:\t");
    *tracer = 0;
    while (text && *text >= '0' && *text <= '9')
        *tracer = *tracer * 10 + (*text++ - '0');
    return true;
}

/* ---- finding and seizing ---- */

int ct_seize_prepare(struct seize_set *s) {
    s->threads = ct_os_alloc(SEIZE_FIRST_THREADS * sizeof *s->threads, CT_OS_READ | CT_OS_WRITE);
    s->count = 0;
    s->capacity = s->threads ? SEIZE_FIRST_THREADS : 0;
    return s->threads ? CT_OK : CT_ERR_NO_MEMORY;
}

void ct_seize_release(struct seize_set *s) {
    if (s->threads)
        (void)ct_os_free(s->threads, s->capacity * sizeof *s->threads);
    s->threads = NULL;
    s->count = s->capacity = 0;
}

struct seize_thread *ct_seize_add(struct seize_set *s, int tid) {
    if (s->count == s->capacity) {
        size_t size = s->capacity * sizeof *s->threads;
        long at = sys_mremap((uint64_t)s->threads, size, 2 * size, MREMAP_MAYMOVE, 0);
        if (failed(at))
            return NULL;
        s->threads = (struct seize_thread *)at;
        s->capacity *= 2;
    }
    struct seize_thread *thread = &s->threads[s->count++];
    thread->tid = tid;
    thread->signal = 0;
    thread->stopped = thread->gone = thread->changed = thread->repeats = false;
    thread->before.number = -1;
    return thread;
}

/* Threads are listed in the same order each time, so the search starts after the last one that was found. */
static bool is_known(const struct seize_set *s, int tid, size_t *cursor) {
    for (size_t n = 0; n < s->count; n++) {
        size_t i = (*cursor + n) % s->count;
        if (s->threads[i].tid == tid) {
            *cursor = i + 1;
            return true;
        }
    }
    return false;
}

/* The kernel returns EPERM for threads that have ended, that are traced already, and that we may not trace. *held: we
 * trace it. CT_ERR_PERMISSION_DENIED: nobody traces it now. */
static int explain_refusal(const struct seize_set *s, int tid, bool *held) {
    char state = 0;
    int tracer = 0;
    if (!ct_seize_task_state(s->pid, tid, &state, &tracer) || state == 'Z' || state == 'X')
        return CT_OK;
    *held = s->holder != 0 && tracer == s->holder;
    if (*held)
        return CT_OK;
    return tracer != 0 ? CT_ERR_BUSY : CT_ERR_PERMISSION_DENIED;
}

/* Retries a refusal that has no visible reason: a tracer may have left between the refusal and our check. */
static int request(const struct seize_set *s, int tid, bool *seized) {
    int status = CT_OK;
    for (int tries = 0; tries < SEIZE_TRIES && (tries == 0 || status == CT_ERR_PERMISSION_DENIED); tries++) {
        long result = ptrace(PTRACE_SEIZE, tid, s->options);
        *seized = !failed(result);
        if (*seized || result == -ESRCH)
            return CT_OK;
        if (result != -EPERM && result != -EACCES)
            return status_of(result);
        status = explain_refusal(s, tid, seized);
    }
    return status;
}

static int seize_one(struct seize_set *s, int tid, bool *found) {
    bool seized = false;
    int status = request(s, tid, &seized);
    if (!seized)
        return status;
    if (!ct_seize_add(s, tid))
        return CT_ERR_NO_MEMORY; /* when we end, the thread is detached */
    *found = true;
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
static int scan_directory(struct seize_set *s, long fd, bool *found, size_t *listed) {
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
            if (tid == s->except || is_known(s, tid, &cursor) || ct_os_is_kernel_worker(s->pid, tid))
                continue;
            int status = seize_one(s, tid, found);
            if (status != CT_OK)
                return status;
        }
    }
}

/* The directory has two links, and one more for each thread. */
static size_t thread_count(long fd) {
    struct statx information;
    long result = syscall6(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_NLINK, (long)&information, 0);
    return failed(result) ? 0 : (size_t)information.stx_nlink - 2;
}

static long open_directory(const struct seize_set *s) {
    char path[64];
    put_text(put_number(put_text(path, "/proc/"), (unsigned long)s->pid), "/task");
    return sys_open(path, O_RDONLY | O_DIRECTORY);
}

/* All threads of the set are stopped, and stay. If the kernel counts no others, there are no others, and nothing need
 * be listed. (Threads of the kernel, and threads that have ended but not been reaped, are counted.) */
static bool is_whole(const struct seize_set *s) {
    long fd = open_directory(s);
    if (failed(fd))
        return false;
    size_t count = thread_count(fd);
    sys_close(fd);
    return count > 0 && count == s->count + (s->except != 0);
}

/* *complete: nothing new, and as many entries as threads (a listing may miss threads while others end). */
static int scan(struct seize_set *s, bool *found, bool *complete) {
    long fd = open_directory(s);
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

/* What wait reports about a thread now; info->si_pid is 0 if it reports nothing. */
static long look_at_thread(int tid, siginfo_t *info, int more_options) {
    info->si_pid = 0;
    int options = WEXITED | WSTOPPED | WNOHANG | __WALL | more_options;
    return syscall6(__NR_waitid, 1 /* P_PID */, tid, (long)info, options, 0, 0);
}

static bool is_stop(const siginfo_t *info) {
    return info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
}

int ct_seize_poll(const struct seize_set *s, struct seize_thread *thread, int *event) {
    siginfo_t info;
    *event = 0;
    long result = look_at_thread(thread->tid, &info, WNOWAIT);
    if (result == -ECHILD) {
        thread->gone = true;
        return CT_OK;
    }
    if (failed(result) || info.si_pid == 0)
        return status_of(result);
    if (!is_stop(&info)) {
        if (thread->tid != s->child)
            (void)look_at_thread(thread->tid, &info, 0); /* reaps it */
        thread->gone = true;
        return CT_OK;
    }
    /* A signal that is just being delivered stops the thread before our request does; its delivery is completed when
     * the thread resumes. Stops with an event (ours, job control) carry no signal. */
    *event = info.si_status >> 8;
    thread->signal = *event ? 0 : info.si_status & 0x7f;
    /* otherwise it was killed: the next look reports that */
    int status = ct_seize_read_registers(thread);
    thread->stopped = status == CT_OK;
    return status == CT_ERR_UNSUPPORTED ? status : CT_OK;
}

/* The kernel does not report the end of a main thread while other threads live. */
static void check_silent(const struct seize_set *s, struct seize_thread *thread) {
    char state = 0;
    int tracer;
    if (thread->tid == s->pid && ct_seize_task_state(s->pid, thread->tid, &state, &tracer) &&
        (state == 'Z' || state == 'X'))
        thread->gone = true;
}

/* On a busy machine the limit may pass before a thread, or we, get the processor. For a thread in uninterruptible sleep
 * more time would not help. */
static bool is_over(const struct seize_set *s, const struct seize_thread *thread, const struct deadlines *deadlines) {
    char state = 0;
    int tracer;
    uint64_t now = ct_seize_now_ms();
    if (now < deadlines->soon || now >= deadlines->last)
        return now >= deadlines->last;
    return ct_seize_task_state(s->pid, thread->tid, &state, &tracer) && state == 'D';
}

/* Returns with every seized thread stopped or gone. */
static int wait_for_all(struct seize_set *s, size_t first, const struct deadlines *deadlines) {
    for (size_t i = first; i < s->count; i++) {
        struct seize_thread *thread = &s->threads[i];
        for (;;) {
            int event, status = ct_seize_poll(s, thread, &event);
            if (status != CT_OK)
                return status;
            if (thread->stopped || thread->gone)
                break;
            if (is_over(s, thread, deadlines))
                return CT_ERR_TIMEOUT;
            if (!s->sleep())
                check_silent(s, thread);
        }
    }
    return CT_OK;
}

static void copy_thread(struct seize_thread *to, const struct seize_thread *from) {
    to->tid = from->tid;
    to->signal = from->signal;
    to->stopped = from->stopped;
    to->gone = from->gone;
    to->changed = from->changed;
    to->repeats = from->repeats;
    ct_registers_copy(&to->regs, &from->regs);
    ct_registers_copy(&to->original, &from->original);
}

static void drop_gone(struct seize_set *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->threads[i].gone)
            continue;
        if (kept != i)
            copy_thread(&s->threads[kept], &s->threads[i]);
        kept++;
    }
    s->count = kept;
}

/* Threads run on after they are seized, so what takes time is done before the first one is asked to stop: finding
 * them, and knowing which of them are the kernel's. A thread that gets a signal meanwhile stops already. */
static int seize_running(struct seize_set *s, const struct deadlines *deadlines) {
    bool found = true, complete;
    int status = CT_OK;
    for (int i = 0; i < EARLY_SCANS && found && status == CT_OK && ct_seize_now_ms() < deadlines->last; i++)
        status = scan(s, &found, &complete);
    return status;
}

static int stop_from(struct seize_set *s, size_t first, const struct deadlines *deadlines) {
    for (size_t i = first; i < s->count; i++) {
        ct_seize_look_before(s->pid, &s->threads[i]);
        (void)ptrace(PTRACE_INTERRUPT, s->threads[i].tid, 0); /* fails if it is just ending: the wait reports that */
    }
    int status = wait_for_all(s, first, deadlines);
    if (status == CT_OK)
        drop_gone(s);
    return status;
}

/* A running thread may start others until it is stopped itself. So this repeats until a scan that began with every
 * known thread stopped finds no new one. A thread that ends meanwhile may hide another from one listing, and from its
 * count too, so two scans in a row must be complete. If the kernel does not report the number of threads (no such link
 * count), several scans must find nothing. */
int ct_seize_all(struct seize_set *s, unsigned limit_ms) {
    uint64_t now = ct_seize_now_ms();
    const struct deadlines deadlines = {now + limit_ms, now + (uint64_t)CT_SEIZE_LIMITS * limit_ms};
    int quiet = 0, calm = 0, status = seize_running(s, &deadlines);
    s->since_ns = time_ns(CLOCK_BOOTTIME);
    if (status == CT_OK)
        status = stop_from(s, 0, &deadlines);
    while (status == CT_OK && !is_whole(s)) {
        bool found = false, complete = false;
        size_t known = s->count;
        status = scan(s, &found, &complete);
        if (status == CT_OK)
            status = stop_from(s, known, &deadlines);
        if (status != CT_OK)
            return status;
        quiet = found ? 0 : quiet + 1;
        calm = complete ? calm + 1 : 0;
        if (calm == 2 || quiet == 10)
            return CT_OK;
        if (ct_seize_now_ms() >= deadlines.last)
            return CT_ERR_TIMEOUT;
    }
    return status;
}

/* (Even if asked for ends only, wait reports stops of traced threads.) */
bool ct_seize_were_killed(const struct seize_set *s) {
    siginfo_t info;
    if (s->count == 0)
        return false;
    long result = look_at_thread(s->threads[0].tid, &info, WNOWAIT);
    return failed(result) || (info.si_pid != 0 && !is_stop(&info));
}

long ct_seize_run_vforked(void *stack_top, void (*run)(void *arg), void *arg) {
    unsigned long flags = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_VFORK | CLONE_UNTRACED;
    return clone_onto(flags, stack_top, NULL, run, arg);
}
