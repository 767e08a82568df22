/* SPDX-License-Identifier: Apache-2.0 */
/* One thread per script: the agent sees by it that we live (drain/lane.h), threads that have loaded libraries wait for
 * it, and it notices the end of the target. */
#include "os/os.h"
#include "script/script_guest.h"
#include <contrail/status.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 50

bool ct_script_is_gone(const struct ct_script *s) {
    return __atomic_load_n(&s->gone, __ATOMIC_ACQUIRE) != 0;
}

void ct_script_ring(struct ct_script *s) {
    __atomic_fetch_add(&s->shared->bell, 1, __ATOMIC_SEQ_CST);
    ct_os_wake(&s->shared->bell);
}

static void note_end(struct ct_script *s) {
    struct pollfd p = {.fd = ct_remote_pidfd(s->remote), .events = POLLIN};
    bool ended = poll(&p, 1, 0) == 1;
    if (ended && s->spawned)
        s->exit_status = ct_remote_how_ended(ct_remote_pidfd(s->remote), s->pid);
    __atomic_store_n(&s->gone, ended ? CT_SCRIPT_ENDED : CT_SCRIPT_REPLACED, __ATOMIC_RELEASE);
    ct_script_ring(s);
}

/* A process that is ending has lost its memory before its descriptor says so. */
static void look_at_life(struct ct_script *s) {
    if (ct_script_is_gone(s) || ct_remote_is_alive(s->remote))
        return;
    struct pollfd p = {.fd = ct_remote_pidfd(s->remote), .events = POLLIN};
    if (poll(&p, 1, LOOK_MS) == 1 || !ct_remote_is_alive(s->remote))
        note_end(s);
}

/* The recording beside which we are ends, and our hooks with it. */
static void look_at_recorder(struct ct_script *s) {
    if (!s->guest || ct_script_is_gone(s) || ct_script_guest_is_served(s) || !ct_remote_is_alive(s->remote))
        return;
    __atomic_store_n(&s->gone, CT_SCRIPT_ALONE, __ATOMIC_RELEASE);
    ct_script_ring(s);
}

/* A thread that has loaded or unloaded something waits in the agent until unwinders among it are watched. */
static void serve(struct ct_script *s, struct ct_shm_request *request) {
    uint32_t expected = CT_REQUEST_POSTED;
    if (!__atomic_compare_exchange_n(&request->state, &expected, CT_REQUEST_TAKEN, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    if (request->kind == CT_REQUEST_LOADED) {
        pthread_mutex_lock(&s->work);
        (void)ct_script_update(s); /* what cannot be hooked runs unhooked */
        pthread_mutex_unlock(&s->work);
        ct_script_tell_modules(s);
    }
    expected = CT_REQUEST_TAKEN;
    request->answer = 0;
    (void)__atomic_compare_exchange_n(&request->state, &expected, CT_REQUEST_ANSWERED, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED);
}

struct start {
    struct ct_script *script;
    sem_t ready;
    int status;
};

static void *run(void *arg) {
    struct start *start = arg;
    struct ct_script *s = start->script;
    uint32_t *bell = &s->lane.control->request_futex;
    struct ct_shm_request *requests = (struct ct_shm_request *)((uint8_t *)s->lane.control + CT_SHM_REQUESTS_OFFSET);
    const struct timespec limit = {0, LOOK_MS * 1000000L};
    start->status = ct_lane_hold(&s->lane);
    bool held = !start->status;
    sem_post(&start->ready);
    while (held && !__atomic_load_n(&s->stop_service, __ATOMIC_ACQUIRE)) {
        uint32_t heard = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < CT_SHM_REQUESTS; i++)
            if (__atomic_load_n(&requests[i].state, __ATOMIC_ACQUIRE) == CT_REQUEST_POSTED)
                serve(s, &requests[i]);
        look_at_life(s);
        look_at_recorder(s);
        (void)syscall(SYS_futex, bell, FUTEX_WAIT, heard, &limit, NULL, 0);
    }
    if (held)
        ct_lane_release(&s->lane);
    return NULL;
}

int ct_script_start_service(struct ct_script *s) {
    struct start start = {.script = s};
    sigset_t all, old;
    sem_init(&start.ready, 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&s->service, NULL, run, &start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    while (!failed && sem_wait(&start.ready))
        ;
    sem_destroy(&start.ready);
    s->serving = !failed;
    if (failed || start.status)
        return failed ? CT_ERR_NO_THREADS : start.status;
    __atomic_store_n(&s->lane.control->listening, 1, __ATOMIC_RELEASE);
    return 0;
}

void ct_script_stop_service(struct ct_script *s) {
    if (!s->serving)
        return;
    __atomic_store_n(&s->lane.control->listening, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&s->stop_service, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&s->lane.control->request_futex, 1, __ATOMIC_RELEASE);
    ct_os_wake(&s->lane.control->request_futex);
    pthread_join(s->service, NULL);
    s->serving = false;
}
