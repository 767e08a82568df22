/* SPDX-License-Identifier: Apache-2.0 */
/* What can be known about another process's seccomp filters.
 *
 * A filter may kill for a call, and the kernel shows filters only to processes that may lift them anyway. So a call is
 * tried on a thread only if its filters are certainly our own: calls for which a filter has not killed us do not kill
 * the thread either. Filters are inherited and never removed. A thread has exactly our filters if it has as many as we
 * have, and
 *   - it is a descendant of ours: it has inherited all of ours; or
 *   - it is in our container: the first process there, and so everything it has started, got them before it ran its
 *   program, and that process, the thread and we have equally many. A process that enters the container later gets the
 *   container's filters too.
 * On a system without containers the first process has no filter, so the second rule never applies there. */
#include "remote/filter_program.h"
#include "remote/remote_internal.h"
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum {
    FILTERED = 2,
    FIRST_PROCESS = 1,
    GET_GS = 0x1004,
    GET_FILTER = 0x420c /* PTRACE_SECCOMP_GET_FILTER */,
    MOST_ANCESTORS = 4096
};

/* ---- what our own filters allow ---- */

static bool is_refused(long result) {
    return result < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES);
}

/* The calls of the agents, with arguments that do nothing: the kernel refuses an address of zero, after the filter. */
static const struct {
    long number;
    uint64_t arguments[4];
} seldom[] = {
#ifdef SYS_arch_prctl
    {SYS_arch_prctl, {GET_GS}},
#endif
    {SYS_clock_gettime, {CLOCK_MONOTONIC}},
    {SYS_futex, {0, FUTEX_WAKE, 1}},
    {SYS_getpid, {0}},
    {SYS_gettid, {0}},
    {SYS_mremap, {0}},
    {SYS_ppoll, {0, 0, 1}},
    {SYS_prctl, {PR_GET_DUMPABLE}},
    {SYS_process_vm_readv, {0}},
    {SYS_rt_sigaction, {SIGURG, 0, 0, 8}},
    {SYS_rt_sigprocmask, {SIG_SETMASK, 0, 0, 8}},
    {SYS_rt_sigtimedwait, {0, 0, 0, 8}},
    {SYS_rt_tgsigqueueinfo, {0}},
    {SYS_sched_yield, {0}},
    {SYS_sigaltstack, {0}},
    {SYS_tgkill, {0}},
};

/* Maps memory as recording does. */
static bool try_memory(void) {
    const size_t page = ct_os_page_size();
    long memfd = syscall(SYS_memfd_create, "contrail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, (int)memfd, 0);
    void *code = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *data = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memfd >= 0 && shared != MAP_FAILED && code != MAP_FAILED && data != MAP_FAILED &&
           !is_refused(madvise(data, page, MADV_WIPEONFORK)) &&
           !is_refused(mprotect(data, page, PROT_READ | PROT_EXEC)) && !is_refused(munmap(code, page)) &&
           !is_refused(close((int)memfd));
}

/* All calls that we and the agents make in a target. Runs in a process of its own, which a filter may kill. */
static bool try_calls(void) {
    const struct rlimit no_core = {0, 0};
    if (setrlimit(RLIMIT_CORE, &no_core) || !try_memory())
        return false;
    for (size_t i = 0; i < sizeof seldom / sizeof *seldom; i++) {
        const uint64_t *a = seldom[i].arguments;
        if (is_refused(syscall(seldom[i].number, a[0], a[1], a[2], a[3], 0, 0)))
            return false;
    }
    return true;
}

/* The child sends no signal when it ends: nobody else notices it. */
static bool may_make_calls(void) {
    int status = -1;
    long child = syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child == 0)
        (void)syscall(SYS_exit_group, try_calls() ? 0 : 1);
    while (child > 0 && waitpid((pid_t)child, &status, __WALL) < 0 && errno == EINTR)
        ;
    return child > 0 && status == 0;
}

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static int self; /* the tracer asks too, and has another number */
static bool filtered;
static long own_filters; /* 0: none, or their calls are not allowed, or unknown */

static void look_at_own(void) {
    self = getpid();
    long count = ct_remote_status_number(self, self, "Seccomp_filters:", false);
    filtered = ct_remote_status_number(self, self, "Seccomp:", false) == FILTERED;
    own_filters = filtered && count > 0 && may_make_calls() ? count : 0;
}

void ct_filters_prepare(void) {
    (void)pthread_once(&looked, look_at_own);
}

bool ct_filters_are_on_us(void) {
    ct_filters_prepare();
    return filtered;
}

/* ---- what the filters of another process allow ---- */

static const uint32_t often[] = {SYS_close,  SYS_madvise, SYS_mmap, SYS_mprotect,   SYS_munmap,
                                 SYS_openat, SYS_pread64, SYS_read, SYS_newfstatat, SYS_exit_group};

static bool allows_agents(const struct sock_filter *program, size_t count) {
    for (size_t i = 0; i < sizeof often / sizeof *often; i++)
        if (!ct_filter_allows(program, count, often[i]))
            return false;
    for (size_t i = 0; i < sizeof seldom / sizeof *seldom; i++)
        if (!ct_filter_allows(program, count, (uint32_t)seldom[i].number))
            return false;
    return true;
}

/* The kernel shows filters to tracers that may lift them, newest first; all must allow the calls. */
bool ct_filters_allow_agents_traced(int tid) {
    struct sock_filter program[BPF_MAXINSNS]; /* 32 KiB of the tracer's stack */
    uint64_t index = 0;
    for (;; index++) {
        long count = ct_trace(GET_FILTER, tid, index, (uint64_t)(uintptr_t)program);
        if (count == -ENOENT)
            return index > 0;
        if (count <= 0 || count > BPF_MAXINSNS || !allows_agents(program, (size_t)count))
            return false;
    }
}

/* ---- whether another process has our filters ---- */

static bool is_descendant(int pid) {
    for (int n = 0; pid > FIRST_PROCESS && n < MOST_ANCESTORS; n++) {
        pid = (int)ct_remote_status_number(pid, pid, "PPid:", false);
        if (pid == self)
            return true;
    }
    return false;
}

static bool shares_namespace(int pid, const char *name) {
    char path[64];
    struct stat ours, its;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, name);
    if (stat(path, &its) != 0)
        return false;
    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    return stat(path, &ours) == 0 && ours.st_dev == its.st_dev && ours.st_ino == its.st_ino;
}

static bool is_in_our_container(int pid) {
    return ct_remote_status_number(FIRST_PROCESS, FIRST_PROCESS, "Seccomp_filters:", false) == own_filters &&
           shares_namespace(pid, "pid") && shares_namespace(pid, "mnt");
}

/* Checked once for each process: its origin does not change. */
static bool is_kin(struct ct_remote *remote) {
    if (remote->kin == KIN_UNKNOWN)
        remote->kin = is_descendant(remote->pid) || is_in_our_container(remote->pid) ? KIN_YES : KIN_NO;
    return remote->kin == KIN_YES;
}

bool ct_filters_are_ours(struct ct_remote *remote, int tid) {
    return own_filters != 0 && ct_remote_status_number(remote->pid, tid, "Seccomp:", false) == FILTERED &&
           ct_remote_status_number(remote->pid, tid, "Seccomp_filters:", false) == own_filters && is_kin(remote);
}
