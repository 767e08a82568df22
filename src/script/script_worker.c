/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the target that works for scripts outside of callbacks: made by the target's own pthread_create, so that
 * it is a thread like all others to the C library, with thread-local storage.
 *
 * Some thread must call pthread_create. It is one that waits in the kernel, at a call that a program makes where it
 * holds no lock of the C library: pthread_create allocates memory. All others are stopped meanwhile; if one of them
 * holds a lock that is needed, they go on, and so does the call. */
#include "script/script_internal.h"
#include <contrail/status.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK    (256u << 10)
#define CALL_MS  300u
#define READY_MS 2000u

/* Calls in which a thread waits for something outside. A thread that waits for a lock is the last choice. One that was
 * interrupted before, and has a time limit, is called restart_syscall. */
static bool is_wait(uint64_t number) {
    static const long waits[] = {
        SYS_read,        SYS_readv,         SYS_recvfrom,        SYS_recvmsg,         SYS_accept, SYS_accept4,
        SYS_wait4,       SYS_waitid,        SYS_nanosleep,       SYS_clock_nanosleep, SYS_ppoll,  SYS_pselect6,
        SYS_epoll_pwait, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_restart_syscall,
#ifdef SYS_poll
        SYS_poll,
#endif
#ifdef SYS_select
        SYS_select,
#endif
#ifdef SYS_epoll_wait
        SYS_epoll_wait,
#endif
#ifdef SYS_pause
        SYS_pause,
#endif
    };
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (number == (uint64_t)waits[i])
            return true;
    return false;
}

static bool is_ours(const struct ct_script *s, uint64_t pc) {
    return pc - s->injection.image < s->injection.image_size;
}

static int choose_thread(struct ct_script *s) {
    for (int locks = 0; locks < 2; locks++)
        for (size_t i = 0; i < ct_remote_thread_count(s->remote); i++) {
            struct ct_registers regs;
            uint64_t number;
            if (ct_remote_get_regs(s->remote, i, &regs) || !ct_remote_call_number(s->remote, &regs, &number) ||
                is_ours(s, ct_registers_pc(&regs)))
                continue;
            if ((locks ? number == SYS_futex : is_wait(number)) && !ct_remote_choose(s->remote, i))
                return 0;
        }
    return CT_ERR_NOT_FOUND;
}

/* The call has a stack of its own, which stays: a call that takes longer than we wait goes on by itself. */
static int call_create(struct ct_script *s, uint64_t create, uint64_t detach) {
    const uint64_t a[6] = {create, detach};
    uint64_t result = 0;
    bool was;
    int status = ct_script_stop(s, &was);
    if (status)
        return status;
    ct_remote_limit(s->remote, CALL_MS, NULL, NULL);
    status = choose_thread(s);
    if (!status)
        status = ct_remote_call(s->remote, s->shared->make_worker, s->worker_stack + STACK, a, &result);
    bool goes_on = status == CT_ERR_TIMEOUT && ct_remote_is_late(s->remote);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    return goes_on ? 0 : status ? status : result ? CT_ERR_UNSUPPORTED : 0;
}

static bool is_ready(const struct ct_script *s) {
    return __atomic_load_n(&s->shared->worker, __ATOMIC_ACQUIRE) - 1 < CT_SCRIPT_SLOTS;
}

static int make_worker(struct ct_script *s) {
    uint64_t create = ct_script_export(s, "pthread_create"), detach = ct_script_export(s, "pthread_detach");
    if (!create)
        return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                              "functions can only be called from callbacks: the program has no pthread_create");
    int status =
        s->worker_stack ? 0 : ct_script_alloc(s, CT_SCRIPT_NO_SLOT, 0, STACK, PROT_READ | PROT_WRITE, &s->worker_stack);
    if (status)
        return status;
    s->worker_asked = true;
    s->shared->worker_error = 0;
    pthread_mutex_lock(&s->work);
    status = call_create(s, create, detach);
    pthread_mutex_unlock(&s->work);
    if (status) {
        s->worker_asked = false;
        return ct_script_fail(s, CT_ERR_BUSY,
                              "functions cannot be called now: no thread of the program waits where it could make a "
                              "thread for that; try again later, or call them from a callback");
    }
    return 0;
}

/* The next call asks again for a thread that the program could not make. */
static int wait_until_ready(struct ct_script *s) {
    uint64_t since = ct_clock_now();
    int32_t error = 0;
    while (!is_ready(s) && !(error = __atomic_load_n(&s->shared->worker_error, __ATOMIC_ACQUIRE)) &&
           ct_clock_now() - since < READY_MS * 1000000ull && !ct_script_is_gone(s))
        usleep(100);
    if (is_ready(s))
        return 0;
    pthread_mutex_lock(&s->worker);
    s->worker_asked = s->worker_asked && !error;
    pthread_mutex_unlock(&s->worker);
    return ct_script_fail(s, CT_ERR_BUSY, "the thread for calls is not ready (pthread_create: %d)", error);
}

int ct_script_worker(struct ct_script *s, struct ct_script_request *request) {
    int status = 0;
    if (s->spawned && !s->resumed)
        return ct_script_fail(s, CT_ERR_BAD_STATE,
                              "the program has not begun, so none of its threads can call a function: call it from a "
                              "callback, or when the program runs (setTimeout)");
    pthread_mutex_lock(&s->worker);
    if (!is_ready(s) && !s->worker_asked)
        status = make_worker(s);
    pthread_mutex_unlock(&s->worker);
    status = status ? status : wait_until_ready(s);
    if (status)
        return status;
    uint32_t i = s->shared->worker - 1;
    if (i >= CT_SCRIPT_SLOTS)
        return CT_ERR_BUSY;
    *request = (struct ct_script_request){
        .slot = i,
        .parent = CT_SCRIPT_NO_SLOT,
        .tid = ct_script_outer_tid(s, s->shared->slots[i].tid),
        .ticket = __atomic_load_n(&s->shared->slots[i].state, __ATOMIC_ACQUIRE) >> 8,
    };
    return 0;
}
