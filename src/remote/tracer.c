/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer, and the requests it makes.
 *
 * The tracer is a process of its own that shares our memory (and has the thread pointer of a thread of ours that waits
 * for its end). There are two reasons. When it ends, the other process is detached at once: one by one, threads that
 * already run would keep us from the processor while others are still stopped, and a thread that does not stop could
 * not be detached at all. And it survives us by a moment: if we are killed with SIGKILL, it completes what was begun.
 * (Between the stop of a thread and the read of its registers there is no other way: the kernel would end some calls
 * with EINTR.) If both are killed, the other process still recovers: the order of steps everywhere in this layer
 * ensures that.
 *
 * If the system lets only ancestors trace (Yama), the tracer is a mere thread. Either way it blocks all signals. */
#include "remote/remote_internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { TRACER_STACK = 256 << 10, EAGER_LOOKS = 200, NAP_US = 50, IDLE_MS = 20, LAST_WORK_S = 1, WAKE_US = 50 };

/* Sent to the tracer when its parent has died, and to wake it. Of the signals that are ignored by default, this is the
 * one that nobody sends. */
#define PARENT_DIED SIGURG

void (*ct_remote_step)(void);
void (*ct_remote_waiting)(void);
bool ct_remote_never_vfork;

/* ---- life of the tracer ---- */

static int owner; /* the process that tracers of this process work for */

static bool is_orphan(void) {
    return getppid() != owner;
}

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0)
        ;
}

/* False: it was not posted within IDLE_MS. */
static bool wait_a_moment(sem_t *semaphore) {
    struct timespec limit;
    (void)clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += IDLE_MS * 1000000;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    return sem_timedwait(semaphore, &limit) == 0;
}

/* If the process is killed while it is stopped, its parent (which may be our own process) hears of it only after we
 * have reaped it. */
static void reap_killed(const struct seize_set *set) {
    siginfo_t info;
    if (!ct_seize_were_killed(set))
        return;
    for (size_t i = 0; i < set->count; i++)
        (void)waitid(P_PID, (id_t)set->threads[i].tid, &info, WEXITED | WNOHANG | __WALL);
    (void)waitid(P_PID, (id_t)set->pid, &info, WEXITED | WNOHANG | __WALL);
}

/* Waits for the next job. False: nobody is left to give one. */
static bool wait_vforked(struct ct_remote *remote) {
    while (!is_orphan()) {
        if (wait_a_moment(&remote->tracer.go))
            return true;
        reap_killed(&remote->set);
    }
    return false;
}

enum tracer_news ct_tracer_news(struct ct_remote *remote) {
    struct tracer *tracer = &remote->tracer;
    if (sem_trywait(&tracer->go) == 0)
        return TRACER_JOB;
    return tracer->vforked && is_orphan() ? TRACER_ORPHAN : TRACER_NONE;
}

/* Waits for a watched process with a call that does not see jobs: a signal wakes us. We set `blocked`, then look for a
 * job; the caller posts a job, then reads `blocked` (wake_tracer). One of the two must see the other, so this order is
 * fixed. */
static enum tracer_news wait_watching(struct ct_remote *remote) {
    struct tracer *tracer = &remote->tracer;
    __atomic_store_n(&tracer->blocked, true, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    enum tracer_news news = ct_watch_run(remote);
    __atomic_store_n(&tracer->blocked, false, __ATOMIC_RELEASE);
    return news;
}

static bool wait_for_job(struct ct_remote *remote) {
    enum tracer_news news = remote->watch.running ? wait_watching(remote) : TRACER_NONE;
    if (news != TRACER_NONE)
        return news == TRACER_JOB;
    if (remote->tracer.vforked)
        return wait_vforked(remote);
    wait_for(&remote->tracer.go);
    return true;
}

static void serve_jobs(struct ct_remote *remote) {
    struct tracer *tracer = &remote->tracer;
    (void)sem_post(&tracer->done);
    while (wait_for_job(remote) && !tracer->quit) {
        tracer->status = tracer->job(remote, tracer->arg);
        (void)sem_post(&tracer->done);
    }
}

/* A thread of ours may have died with a lock that the work needs: so the work gets little time, whatever was begun. */
static void limit_last_work(int number) {
    (void)number;
    if (is_orphan())
        (void)alarm(LAST_WORK_S);
}

static void serve_vforked(void *arg) {
    struct ct_remote *remote = arg;
    struct sigaction action = {.sa_handler = limit_last_work};
    sigset_t few;
    remote->tracer.tid = (int)syscall(SYS_gettid);
    (void)sigaction(PARENT_DIED, &action, NULL);
    (void)signal(SIGALRM, SIG_DFL);
    /* if ignored, ends would be reaped before we and the true parent have heard of them */
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(&few);
    (void)sigaddset(&few, PARENT_DIED);
    (void)sigaddset(&few, SIGALRM);
    (void)sigprocmask(SIG_UNBLOCK, &few, NULL);
    (void)prctl(PR_SET_PDEATHSIG, PARENT_DIED);
    if (!is_orphan())
        serve_jobs(remote);
    (void)syscall(SYS_exit_group, 0);
}

static void do_nothing(int number) {
    (void)number;
}

/* A tracer that is a thread is woken by this signal too, which needs a handler in our process. An existing handler is
 * left alone. */
static void let_be_woken(void) {
    struct sigaction action = {.sa_handler = do_nothing}, old;
    sigset_t one;
    if (sigaction(PARENT_DIED, NULL, &old) == 0 && (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN))
        (void)sigaction(PARENT_DIED, &action, NULL);
    (void)sigemptyset(&one);
    (void)sigaddset(&one, PARENT_DIED);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

/* If the tracer ends without our request, the caller that waits for it gets an error. */
static void *be_tracer(void *arg) {
    struct ct_remote *remote = arg;
    struct tracer *tracer = &remote->tracer;
    long pid = tracer->vforked ? ct_seize_run_vforked((char *)tracer->stack + TRACER_STACK, serve_vforked, remote) : -1;
    if (pid > 0) {
        while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
        tracer->lost = true;
        __atomic_store_n(&tracer->blocked, false, __ATOMIC_RELEASE);
        tracer->status = CT_ERR_SYSTEM;
        (void)sem_post(&tracer->done);
        return NULL;
    }
    tracer->vforked = false;
    tracer->tid = (int)syscall(SYS_gettid);
    let_be_woken();
    serve_jobs(remote);
    return NULL;
}

static int start_thread(struct ct_remote *remote) {
    pthread_attr_t attributes;
    sigset_t all, old;
    if (pthread_attr_init(&attributes) != 0)
        return CT_ERR_NO_MEMORY;
    (void)pthread_attr_setstacksize(&attributes, TRACER_STACK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int failure = pthread_create(&remote->tracer.thread, &attributes, be_tracer, remote);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failure ? CT_ERR_NO_THREADS : CT_OK;
}

static void *map_stack(void) {
    char *stack = mmap(NULL, TRACER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return NULL;
    (void)mprotect(stack, ct_os_page_size(), PROT_NONE);
    return stack;
}

/* Exists in a build with AddressSanitizer. */
extern void __asan_unpoison_memory_region(const volatile void *start, size_t size) __attribute__((weak));

/* The tracer ended in the middle of its functions. The sanitizer still has their variables poisoned, and would report
 * whatever is mapped there next. */
static void unmap_stack(char *stack) {
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(stack, TRACER_STACK);
    (void)munmap(stack, TRACER_STACK);
}

static void release_tracer(struct tracer *tracer) {
    (void)sem_destroy(&tracer->go);
    (void)sem_destroy(&tracer->done);
    if (tracer->stack)
        unmap_stack(tracer->stack);
    tracer->stack = NULL;
    tracer->running = false;
}

int ct_tracer_start(struct ct_remote *remote, bool vforked) {
    struct tracer *tracer = &remote->tracer;
    owner = getpid();
    tracer->quit = tracer->lost = tracer->blocked = tracer->working = false;
    remote->watch.running = false;
    tracer->stack = vforked && !ct_remote_never_vfork ? map_stack() : NULL;
    tracer->vforked = tracer->stack != NULL;
    (void)sem_init(&tracer->go, 0, 0);
    (void)sem_init(&tracer->done, 0, 0);
    int status = start_thread(remote);
    if (status != CT_OK) {
        release_tracer(tracer);
        return status;
    }
    wait_for(&tracer->done);
    tracer->running = true;
    return CT_OK;
}

/* Wakes the tracer for a job. It may have looked for one just before, and start to wait for the process just after the
 * signal. So this is repeated until the tracer is awake. False: it need not be woken. */
static bool wake_tracer(struct tracer *tracer) {
    const struct timespec pause = {0, WAKE_US * 1000};
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&tracer->blocked, __ATOMIC_SEQ_CST))
        return false;
    (void)syscall(SYS_tkill, tracer->tid, PARENT_DIED);
    (void)nanosleep(&pause, NULL);
    return true;
}

/* After the job the tracer may be waiting for the process again. We ask whether the user has given up; the tracer only
 * sees the answer. */
static void wait_until_done(struct ct_remote *remote) {
    struct tracer *tracer = &remote->tracer;
    while (wake_tracer(tracer))
        if (sem_trywait(&tracer->done) == 0)
            return;
    while (!wait_a_moment(&tracer->done))
        (void)ct_patience_ask(remote);
}

int ct_tracer_run(struct ct_remote *remote, int (*job)(struct ct_remote *remote, void *arg), void *arg) {
    struct tracer *tracer = &remote->tracer;
    if (!tracer->running)
        return CT_ERR_BAD_STATE;
    if (__atomic_load_n(&tracer->lost, __ATOMIC_ACQUIRE))
        return CT_ERR_SYSTEM;
    tracer->job = job;
    tracer->arg = arg;
    tracer->working = true;
    (void)sem_post(&tracer->go);
    wait_until_done(remote);
    tracer->working = false;
    return tracer->status;
}

/* pthread_join may return before the kernel has detached the tracees of a thread. Reaping a process does not. */
static void wait_until_gone(int tid) {
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        (void)sched_yield();
}

void ct_tracer_end(struct ct_remote *remote) {
    struct tracer *tracer = &remote->tracer;
    if (!tracer->running)
        return;
    tracer->quit = true;
    (void)sem_post(&tracer->go);
    while (wake_tracer(tracer))
        ;
    (void)pthread_join(tracer->thread, NULL);
    if (!tracer->vforked)
        wait_until_gone(tracer->tid);
    release_tracer(tracer);
}

/* ---- requests ---- */

long ct_trace(int request, int tid, uint64_t address, uint64_t data) {
    if (ct_remote_step)
        ct_remote_step();
    long result = syscall(SYS_ptrace, request, tid, address, data);
    return result < 0 ? -errno : result;
}

int ct_trace_status(long result) {
    if (result >= 0)
        return CT_OK;
    if (result == -ESRCH)
        return CT_ERR_NOT_FOUND;
    if (result == -EIO || result == -EINVAL)
        return CT_ERR_INVALID_ARGUMENT;
    if (result == -ENOSYS)
        return CT_ERR_UNSUPPORTED;
    return result == -EPERM ? CT_ERR_PERMISSION_DENIED : CT_ERR_SYSTEM;
}

void ct_trace_describe(const siginfo_t *info, struct stop *stop) {
    stop->number = info->si_status & 0x7f;
    stop->job_control = false;
    if (info->si_code != CLD_TRAPPED && info->si_code != CLD_STOPPED) {
        stop->kind = STOP_GONE;
    } else if (info->si_status >> 8) {
        stop->kind = STOP_EVENT;
        stop->job_control = info->si_status >> 8 == PTRACE_EVENT_STOP && stop->number != SIGTRAP;
        stop->number = info->si_status >> 8;
    } else {
        stop->kind = info->si_status & 0x80 ? STOP_CALL : STOP_SIGNAL;
    }
}

bool ct_trace_look(int tid, struct stop *stop) {
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0) {
        stop->kind = STOP_GONE;
        return errno != EINTR;
    }
    if (info.si_pid == 0)
        return false;
    ct_trace_describe(&info, stop);
    return true;
}

int ct_trace_wait(int tid, uint64_t deadline_ms, struct stop *stop) {
    struct timespec nap = {0, NAP_US * 1000};
    for (int looks = 0; !ct_trace_look(tid, stop); looks++) {
        if (looks < EAGER_LOOKS) {
            (void)sched_yield();
            continue;
        }
        if (ct_seize_now_ms() >= deadline_ms)
            return CT_ERR_TIMEOUT;
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < 1000000)
            nap.tv_nsec += nap.tv_nsec / 4;
    }
    return CT_OK;
}

static uint64_t fault_signals(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    uint64_t mask = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        mask |= 1ull << (faults[i] - 1);
    return mask;
}

bool ct_trace_has_fault(int tid) {
    enum { AT_ONCE = 16 };
    struct {
        uint64_t offset;
        uint32_t flags;
        int32_t count;
    } ask = {.count = AT_ONCE}; /* struct ptrace_peeksiginfo_args */
    siginfo_t pending[AT_ONCE];
    uint64_t blocked = 0;
    long count = ct_trace(PTRACE_PEEKSIGINFO, tid, (uint64_t)(uintptr_t)&ask, (uint64_t)(uintptr_t)pending);
    if (count <= 0 || ct_trace(PTRACE_GETSIGMASK, tid, sizeof blocked, (uint64_t)(uintptr_t)&blocked) < 0)
        return false;
    for (long i = 0; i < count; i++)
        if (pending[i].si_code > 0 && (1ull << (pending[i].si_signo - 1)) & fault_signals() & ~blocked)
            return true;
    return false;
}

/* The kernel handles a request to interrupt before it delivers the fault of the current instruction. Continued without
 * such a request, the thread comes to the fault's own stop and no further. */
int ct_trace_come_to_fault(int tid, uint64_t deadline_ms, struct stop *stop) {
    int status = ct_trace_status(ct_trace(PTRACE_CONT, tid, 0, 0));
    return status == CT_OK ? ct_trace_wait(tid, deadline_ms, stop) : status;
}

/* The kernel handles the request to interrupt before any further signal, so at most this one is delivered. */
int ct_trace_settle(int tid, int signal, uint64_t deadline_ms) {
    for (;;) {
        struct stop stop;
        (void)ct_trace(PTRACE_INTERRUPT, tid, 0, 0);
        if (ct_trace(PTRACE_CONT, tid, 0, (uint64_t)signal) == -ESRCH && kill(tid, 0) != 0)
            return CT_ERR_NOT_FOUND;
        int status = ct_trace_wait(tid, deadline_ms, &stop);
        if (status != CT_OK)
            return status;
        if (stop.kind == STOP_GONE)
            return CT_ERR_NOT_FOUND;
        bool still = stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_STOP;
        if (still && !ct_trace_has_fault(tid))
            return CT_OK;
        if (still && (status = ct_trace_come_to_fault(tid, deadline_ms, &stop)) != CT_OK)
            return status;
        signal = stop.kind == STOP_SIGNAL ? stop.number : 0;
    }
}

int ct_trace_halt(int tid, uint64_t deadline_ms) {
    struct stop stop;
    (void)ct_trace(PTRACE_INTERRUPT, tid, 0, 0);
    int status = ct_trace_wait(tid, deadline_ms, &stop);
    if (status != CT_OK)
        return status;
    if (stop.kind == STOP_GONE)
        return CT_ERR_NOT_FOUND;
    if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_STOP && !ct_trace_has_fault(tid))
        return CT_OK;
    return ct_trace_settle(tid, stop.kind == STOP_SIGNAL ? stop.number : 0, deadline_ms);
}
