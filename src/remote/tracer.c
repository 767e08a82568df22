/* The thread that traces, and the requests it makes.
 *
 * It blocks all signals. Its end is what lets the other process go: one by one, threads that already run would keep us from
 * the processor while others still stand, and a thread that does not stop could not be let go at all. */
#include "remote/parts.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { TRACER_STACK = 256 << 10, EAGER_LOOKS = 200, NAP_US = 50 };

void (*ct_remote_step)(void);

/* ---- the thread ---- */

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0)
        ;
}

static void *trace_until_told(void *arg) {
    struct ct_remote *remote = arg;
    struct tracer *tracer = &remote->tracer;
    tracer->tid = (int)syscall(SYS_gettid);
    (void)sem_post(&tracer->done);
    for (;;) {
        wait_for(&tracer->go);
        if (tracer->quit)
            return NULL;
        tracer->status = tracer->job(remote, tracer->arg);
        (void)sem_post(&tracer->done);
    }
}

int ct_tracer_start(struct ct_remote *remote) {
    struct tracer *tracer = &remote->tracer;
    pthread_attr_t attributes;
    sigset_t all, old;
    tracer->quit = false;
    if (sem_init(&tracer->go, 0, 0) != 0 || sem_init(&tracer->done, 0, 0) != 0 || pthread_attr_init(&attributes) != 0)
        return CT_ERR_NO_MEMORY;
    (void)pthread_attr_setstacksize(&attributes, TRACER_STACK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int failure = pthread_create(&tracer->thread, &attributes, trace_until_told, remote);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (failure)
        return CT_ERR_NO_MEMORY;
    wait_for(&tracer->done);
    tracer->running = true;
    return CT_OK;
}

int ct_tracer_run(struct ct_remote *remote, int (*job)(struct ct_remote *remote, void *arg), void *arg) {
    struct tracer *tracer = &remote->tracer;
    if (!tracer->running)
        return CT_ERR_BAD_STATE;
    tracer->job = job;
    tracer->arg = arg;
    (void)sem_post(&tracer->go);
    wait_for(&tracer->done);
    return tracer->status;
}

/* A thread is joined before the kernel has let its tracees go. */
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
    (void)pthread_join(tracer->thread, NULL);
    wait_until_gone(tracer->tid);
    (void)sem_destroy(&tracer->go);
    (void)sem_destroy(&tracer->done);
    tracer->running = false;
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
    return result == -EPERM ? CT_ERR_PERMISSION_DENIED : CT_ERR_SYSTEM;
}

static bool look(int tid, struct stop *stop) {
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0) {
        stop->kind = STOP_GONE;
        return errno != EINTR;
    }
    if (info.si_pid == 0)
        return false;
    stop->number = info.si_status & 0x7f;
    if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
        stop->kind = STOP_GONE;
    } else if (info.si_status >> 8) {
        stop->kind = STOP_EVENT;
        stop->job_control = info.si_status >> 8 == PTRACE_EVENT_STOP && stop->number != SIGTRAP;
        stop->number = info.si_status >> 8;
    } else {
        stop->kind = info.si_status & 0x80 ? STOP_CALL : STOP_SIGNAL;
    }
    return true;
}

int ct_trace_wait(int tid, uint64_t deadline_ms, struct stop *stop) {
    struct timespec nap = {0, NAP_US * 1000};
    for (int looks = 0; !look(tid, stop); looks++) {
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

/* The request to interrupt is looked at before any further signal, and in the kernel: so at most this one is delivered. */
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
        if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_STOP)
            return CT_OK;
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
    if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_STOP)
        return CT_OK;
    return ct_trace_settle(tid, stop.kind == STOP_SIGNAL ? stop.number : 0, deadline_ms);
}
