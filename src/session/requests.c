/* SPDX-License-Identifier: Apache-2.0 */
/* See requests.h. */
#include "session/requests.h"
#include "remote/namespace.h"
#include "remote/program.h"
#include "session/children.h"
#include "session/crash_watch.h"
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_WAIT_MS 100
#define BIRTH_NS        300000000ull  /* a child has written its request by then, even after its parent's end */
#define BIRTH_LIMIT     3000000000ull /* or by then, if the machine has not let it run */
#define UNREAD_NS       1000000000ull /* a thread that waits for an answer checks every millisecond */
#define READ_US         50            /* how often we check whether it has */
#define READ_NS         5000000ull    /* it has by then, if it runs */

struct ct_requests {
    struct ct_recording *recording;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t closed;
    size_t open;                 /* requests that child threads still need; under the mutex, as is: */
    int asking[CT_SHM_REQUESTS]; /* thread whose request it is; 0: none */
    bool stop;
    uint64_t last_birth;              /* when the last child was seen */
    uint64_t unread[CT_SHM_REQUESTS]; /* since when it is being written, or its answer is unread */
    struct loader {
        int tid;
        uint64_t since, answered; /* it waits since then; 0: it does not */
    } loaders[CT_SHM_REQUESTS];   /* threads that have loaded libraries and are about to go on */
    size_t loader_count;
    uint64_t looked; /* when the round of requests before this one began: what is new was posted after that */
};

static struct ct_shm_request *request_at(const struct ct_recording *r, uint32_t index) {
    uint8_t *control = (uint8_t *)r->lane.control;
    return (struct ct_shm_request *)(control + CT_SHM_REQUESTS_OFFSET) + index;
}

/* ---- answering ---- */

void ct_requests_answer(struct ct_task *t, int value, uint32_t state) {
    if (t->answered)
        return;
    t->answered = true;
    struct ct_shm_request *request = request_at(t->parent, t->index);
    uint32_t expected = CT_REQUEST_TAKEN;
    request->answer = value;
    (void)__atomic_compare_exchange_n(&request->state, &expected, state, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    if (t->request.kind == CT_REQUEST_EXEC)
        ct_recording_note_wait(t->parent, t->who.tid, t->since, ct_clock_now(), CT_WAIT_EXEC);
}

/* A thread makes one request at a time, and waits: so there are no more child threads than requests. False: it has one
 * open already. */
static bool open_task(struct ct_requests *q, const struct ct_task *t) {
    bool asks = false;
    pthread_mutex_lock(&q->mutex);
    for (uint32_t i = 0; i < CT_SHM_REQUESTS; i++)
        asks |= q->asking[i] == t->who.tid;
    if (!asks) {
        q->asking[t->index] = t->who.tid;
        q->open++;
    }
    pthread_mutex_unlock(&q->mutex);
    return !asks;
}

static bool is_open(struct ct_requests *q, uint32_t index) {
    pthread_mutex_lock(&q->mutex);
    bool open = q->asking[index] != 0;
    pthread_mutex_unlock(&q->mutex);
    return open;
}

static void wake_request_thread(struct ct_recording *r) {
    uint32_t *request_futex = &r->lane.control->request_futex;
    (void)__atomic_add_fetch(request_futex, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, request_futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void close_task(struct ct_requests *q, uint32_t index) {
    __atomic_store_n(&q->last_birth, ct_clock_now(), __ATOMIC_RELAXED); /* its request is free for another child */
    pthread_mutex_lock(&q->mutex);
    q->asking[index] = 0;
    q->open--;
    pthread_cond_broadcast(&q->closed);
    /* The thread may have asked again, after an exec that failed, and waits for this. */
    wake_request_thread(q->recording);
    pthread_mutex_unlock(&q->mutex); /* the thread that ends the request thread may free it from here on */
}

void ct_requests_close(struct ct_task *t) {
    close_task(t->parent->requests.thread, t->index);
    t->parent = NULL;
}

/* ---- what may be followed ---- */

static void read_path(const struct ct_recording *r, uint64_t address, char path[PATH_MAX]) {
    for (size_t i = 0; i < PATH_MAX; i++) {
        if (ct_remote_read(r->remote, address + i, &path[i], 1))
            break;
        if (!path[i])
            return;
    }
    path[0] = 0;
}

/* A traced exec would not give it its privileges. A program of another machine is followed until it certainly runs. */
static bool may_execute(struct ct_task *t) {
    char reason[PATH_MAX + 128];
    struct ct_program_kind kind;
    read_path(t->parent, t->request.argument, t->program);
    ct_program_look(t->who.pid, t->request.directory, t->program, &kind);
    t->foreign = kind.foreign;
    if (!kind.privileges)
        return true;
    snprintf(reason, sizeof reason, "%s %s and runs unrecorded, with its rights: run contrail as root to record it too",
             t->program[0] ? t->program : "it", kind.privileges);
    ct_recording_miss(t->parent, t->who.pid, t->program, reason);
    return false;
}

static bool may_follow(struct ct_task *t) {
    return t->request.kind != CT_REQUEST_EXEC || may_execute(t);
}

/* Noted once: a target that requests other processes may do so again and again. */
static void note_refusal(struct ct_task *t) {
    char reason[160];
    if (__atomic_fetch_add(&t->parent->requests.refused, 1, __ATOMIC_RELAXED))
        return;
    snprintf(reason, sizeof reason,
             "process %d requested to record process %d, which it did not start; that was refused", t->parent->pid,
             t->request.pid);
    ct_recording_miss(t->parent, t->request.pid, "", reason);
}

/* The target may name any process: only its own count. */
static bool is_confirmed(struct ct_task *t) {
    struct ct_recording *r = t->parent;
    int status = CT_ERR_PERMISSION_DENIED;
    if (t->request.kind == CT_REQUEST_FORKED)
        status = ct_confirm_child(r, t->request.pid, &t->who);
    else if (t->request.kind == CT_REQUEST_EXEC)
        status = ct_confirm_executing(r, t->request.pid, t->request.tid, &t->who);
    if (status == CT_ERR_PERMISSION_DENIED)
        note_refusal(t);
    return !status;
}

/* ---- the request thread ---- */

/* A time that the agent has noted. It is the target's word, so it counts only where it is possible. */
static uint64_t noted_at(const struct ct_recording *r, const uint64_t *stamp, uint64_t least_ns, uint64_t most_ns) {
    uint64_t ns = ct_clock_ns(&r->clock, __atomic_load_n(stamp, __ATOMIC_RELAXED));
    return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

/* A thread reads its answer some time after it is given: until then it waits for us. */
static void note_loaders(struct ct_requests *q) {
    for (uint32_t i = 0; i < CT_SHM_REQUESTS && q->loader_count; i++) {
        struct ct_shm_request *request = request_at(q->recording, i);
        struct loader *l = &q->loaders[i];
        uint64_t now = ct_clock_now();
        bool unread = __atomic_load_n(&request->state, __ATOMIC_ACQUIRE) == CT_REQUEST_ANSWERED;
        if (!l->since || (unread && now - l->answered < READ_NS))
            continue;
        uint64_t until = unread ? now : noted_at(q->recording, &request->resumed, l->answered, now);
        ct_recording_note_wait(q->recording, l->tid, l->since, until, CT_WAIT_LIBRARIES);
        *l = (struct loader){0};
        q->loader_count--;
    }
}

static void serve_loader(struct ct_task *t) {
    struct ct_recording *r = t->parent;
    note_loaders(r->requests.thread); /* another thread had this request just before */
    int outer = r->drain.other_namespace ? ct_remote_outer_tid(r->pid, t->request.tid) : t->request.tid;
    (void)ct_recording_update_modules(r); /* what cannot be hooked runs unhooked */
    ct_requests_answer(t, 1, CT_REQUEST_ANSWERED);
    r->requests.thread->loaders[t->index] = (struct loader){outer > 0 ? outer : INT_MAX, t->since, ct_clock_now()};
    r->requests.thread->loader_count++;
}

static void serve_request(struct ct_recording *r, uint32_t index) {
    struct ct_shm_request *request = request_at(r, index);
    uint32_t expected = CT_REQUEST_POSTED;
    if (!__atomic_compare_exchange_n(&request->state, &expected, CT_REQUEST_TAKEN, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    uint64_t now = ct_clock_now();
    struct ct_task t = {.parent = r,
                        .request = *request,
                        .index = index,
                        .since = noted_at(r, &request->asked, r->requests.thread->looked, now)};
    if (t.request.kind == CT_REQUEST_LOADED) {
        serve_loader(&t);
        return;
    }
    if (!is_confirmed(&t)) {
        ct_requests_answer(&t, 0, CT_REQUEST_ANSWERED);
        return;
    }
    if (t.request.kind == CT_REQUEST_FORKED)
        __atomic_store_n(&r->requests.thread->last_birth, ct_clock_now(), __ATOMIC_RELAXED);
    /* If its child thread is about to close an earlier request, the next round takes this one. */
    if (!open_task(r->requests.thread, &t)) {
        expected = CT_REQUEST_TAKEN;
        (void)__atomic_compare_exchange_n(&request->state, &expected, CT_REQUEST_POSTED, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
        close(t.who.pidfd);
        return;
    }
    /* For the child thread, which traces it. And a program that gains privileges must not be traced. */
    if (t.request.kind == CT_REQUEST_EXEC && t.who.pid == r->pid)
        ct_crash_watch_interrupt(r);
    if (!may_follow(&t) || !ct_children_start_thread(&t)) {
        ct_requests_answer(&t, 0, CT_REQUEST_ANSWERED);
        close(t.who.pidfd);
        close_task(r->requests.thread, index);
    }
}

/* Has a thread of the process, or a child of it, ended? `inner` is the number in its own pid namespace. */
static bool is_gone(const struct ct_recording *r, int inner) {
    if (ct_remote_outer_tid(r->pid, inner))
        return false;
    return ct_confirm_has_ended(r->drain.other_namespace ? ct_remote_outer_pid(r->pid, inner) : inner);
}

/* Frees a request whose writer was killed while it wrote or waited. */
static void take_back(struct ct_requests *q, uint32_t i) {
    struct ct_shm_request *request = request_at(q->recording, i);
    uint32_t state = __atomic_load_n(&request->state, __ATOMIC_ACQUIRE);
    uint64_t now = ct_clock_now();
    int owner = state == CT_REQUEST_ANSWERED ? request->tid : CT_REQUEST_FILLER(state);
    if (!owner || !q->unread[i]) {
        q->unread[i] = owner ? now : 0;
        return;
    }
    if (now - q->unread[i] < UNREAD_NS)
        return;
    q->unread[i] = 0;
    if (is_gone(q->recording, owner))
        (void)__atomic_compare_exchange_n(&request->state, &state, CT_REQUEST_FREE, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
}

static void *run_request_thread(void *arg) {
    struct ct_requests *q = arg;
    struct ct_recording *r = q->recording;
    uint32_t *request_futex = &r->lane.control->request_futex;
    const struct timespec limit = {0, REQUEST_WAIT_MS * 1000000L}, soon = {0, READ_US * 1000L};
    while (!__atomic_load_n(&q->stop, __ATOMIC_ACQUIRE)) {
        uint32_t heard = __atomic_load_n(request_futex, __ATOMIC_ACQUIRE);
        uint64_t now = ct_clock_now();
        note_loaders(q);
        for (uint32_t i = 0; i < CT_SHM_REQUESTS; i++) {
            if (__atomic_load_n(&request_at(r, i)->state, __ATOMIC_ACQUIRE) == CT_REQUEST_POSTED && !is_open(q, i))
                serve_request(r, i);
            take_back(q, i);
        }
        q->looked = now;
        (void)syscall(SYS_futex, request_futex, FUTEX_WAIT, heard, q->loader_count ? &soon : &limit, NULL, 0);
    }
    return NULL;
}

static void free_requests(struct ct_recording *r) {
    pthread_cond_destroy(&r->requests.thread->closed);
    pthread_mutex_destroy(&r->requests.thread->mutex);
    free(r->requests.thread);
    r->requests.thread = NULL;
}

int ct_requests_start(struct ct_recording *r) {
    struct ct_requests *q = calloc(1, sizeof *q);
    sigset_t all, old;
    if (!q)
        return CT_ERR_NO_MEMORY;
    q->recording = r;
    r->requests.thread = q;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->closed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&q->thread, NULL, run_request_thread, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        free_requests(r);
        return CT_ERR_NO_THREADS;
    }
    __atomic_store_n(&r->lane.control->children, !r->session->options.no_children, __ATOMIC_RELEASE);
    __atomic_store_n(&r->lane.control->listening, 1, __ATOMIC_RELEASE);
    return 0;
}

static bool has_open(struct ct_requests *q) {
    pthread_mutex_lock(&q->mutex);
    bool open = q->open != 0;
    pthread_mutex_unlock(&q->mutex);
    return open;
}

/* Is there a child that has not written its request, because the machine has not let it run? Children that are followed
 * have their own memory. */
static bool has_unheard(const struct ct_recording *r) {
    return !r->session->options.no_children && ct_confirm_has_other(r);
}

/* True if all its threads have ended: it makes no more children, and those that it has made can be seen. */
static bool has_ended(const struct ct_recording *r) {
    struct pollfd p = {.fd = r->remote ? ct_remote_pidfd(r->remote) : -1, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* A process may end right after it has made children. They have yet to write their requests, into memory that they have
 * inherited. Many children take longer, and wait until requests of others are answered. */
static void wait_for_births(const struct ct_recording *r) {
    uint64_t fork = __atomic_load_n(&r->lane.control->last_fork, __ATOMIC_RELAXED);
    if (!fork)
        return;
    uint64_t born = ct_clock_ns(&r->clock, fork), now;
    while (!ct_children_are_leaving(r->session) && (now = ct_clock_now()) > born) {
        uint64_t heard = __atomic_load_n(&r->requests.thread->last_birth, __ATOMIC_RELAXED);
        uint64_t last = heard > born ? heard : born;
        bool patient = now < last + BIRTH_LIMIT;
        bool due = now >= last + BIRTH_NS || has_ended(r);
        if (due && !has_open(r->requests.thread) && !(patient && has_unheard(r)))
            return;
        usleep(due ? 20000 : 1000); /* when it is due, all processes are searched, which takes a while */
    }
}

void ct_requests_stop(struct ct_recording *r) {
    struct ct_requests *q = r->requests.thread;
    if (!q)
        return;
    wait_for_births(r);
    __atomic_store_n(&r->lane.control->listening, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&q->stop, true, __ATOMIC_RELEASE);
    wake_request_thread(r);
    pthread_join(q->thread, NULL);
    pthread_mutex_lock(&q->mutex);
    while (q->open)
        pthread_cond_wait(&q->closed, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
    free_requests(r);
}
