/* See post.h. */
#include "session/post.h"
#include "session/children.h"
#include "session/hold.h"
#include "remote/frames.h"
#include "remote/program.h"
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BELL_WAIT_MS 100
#define BIRTH_NS     300000000ull  /* a child is heard of by then, even after its parent's end, */
#define BIRTH_LIMIT  3000000000ull /* or by then, if the machine has not let it run */
#define UNREAD_NS    1000000000ull /* who waits for an answer looks every millisecond */

struct ct_post {
    struct ct_recording *recording;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t closed;
    size_t open;                /* letters that keepers still need; under the mutex, as: */
    int asking[CT_SHM_LETTERS]; /* threads whose letter that is; 0: nobody's */
    bool stop;
    uint64_t last_birth;             /* when a child was last heard of */
    uint64_t unread[CT_SHM_LETTERS]; /* since when one is being written, or its answer has not been read */
};

static struct ct_shm_letter *letter_at(const struct ct_recording *r, uint32_t index) {
    uint8_t *control = (uint8_t *)r->lane.control;
    return (struct ct_shm_letter *)(control + CT_SHM_LETTERS_OFFSET) + index;
}

/* ---- answering ---- */

void ct_post_answer(struct ct_task *t, int value, uint32_t state) {
    if (t->answered)
        return;
    t->answered = true;
    struct ct_shm_letter *letter = letter_at(t->parent, t->index);
    uint32_t expected = CT_LETTER_TAKEN;
    letter->answer = value;
    (void)__atomic_compare_exchange_n(&letter->state, &expected, state, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* A thread asks for one thing at a time, and waits: there are no more keepers than letters. False: it has asked already. */
static bool open_task(struct ct_post *post, const struct ct_task *t) {
    bool asks = false;
    pthread_mutex_lock(&post->mutex);
    for (uint32_t i = 0; i < CT_SHM_LETTERS; i++)
        asks |= post->asking[i] == t->who.tid;
    if (!asks) {
        post->asking[t->index] = t->who.tid;
        post->open++;
    }
    pthread_mutex_unlock(&post->mutex);
    return !asks;
}

static bool is_open(struct ct_post *post, uint32_t index) {
    pthread_mutex_lock(&post->mutex);
    bool open = post->asking[index] != 0;
    pthread_mutex_unlock(&post->mutex);
    return open;
}

static void ring(struct ct_recording *r) {
    uint32_t *bell = &r->lane.control->bell;
    (void)__atomic_add_fetch(bell, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void close_task(struct ct_post *post, uint32_t index) {
    __atomic_store_n(&post->last_birth, ct_clock_now(), __ATOMIC_RELAXED); /* its letter is free for another child */
    pthread_mutex_lock(&post->mutex);
    post->asking[index] = 0;
    post->open--;
    pthread_cond_broadcast(&post->closed);
    ring(post->recording); /* its thread may have asked again, after an exec that failed, and waits for this */
    pthread_mutex_unlock(&post->mutex); /* whoever ends the post may free it from here on */
}

void ct_post_close(struct ct_task *t) {
    close_task(t->parent->post, t->index);
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

/* An exec under our eyes would not give it the rights it is to have. A program of another machine is followed until it is
 * certain that it runs. */
static bool may_execute(struct ct_task *t) {
    char reason[PATH_MAX + 128];
    struct ct_program_kind kind;
    read_path(t->parent, t->letter.argument, t->program);
    ct_program_look(t->who.pid, t->letter.directory, t->program, &kind);
    t->foreign = kind.foreign;
    if (!kind.privileges)
        return true;
    snprintf(reason, sizeof reason, "%s %s and runs unrecorded, with its rights: run contrail as root to record it too",
             t->program[0] ? t->program : "it", kind.privileges);
    ct_recording_miss(t->parent, t->who.pid, t->program, reason);
    return false;
}

static bool may_follow(struct ct_task *t) {
    return t->letter.kind != CT_LETTER_EXEC || may_execute(t);
}

/* Said once: a target that asks for others may do so again and again. */
static void note_refusal(struct ct_task *t) {
    char reason[160];
    if (__atomic_fetch_add(&t->parent->refused, 1, __ATOMIC_RELAXED))
        return;
    snprintf(reason, sizeof reason,
             "process %d asked to have process %d recorded, which it has not made; that was refused", t->parent->pid,
             t->letter.pid);
    ct_recording_miss(t->parent, t->letter.pid, "", reason);
}

/* The target may name any process: only its own count. */
static bool is_confirmed(struct ct_task *t) {
    struct ct_recording *r = t->parent;
    int status = CT_ERR_PERMISSION_DENIED;
    if (t->letter.kind == CT_LETTER_FORKED)
        status = ct_confirm_child(r, t->letter.pid, &t->who);
    else if (t->letter.kind == CT_LETTER_EXEC)
        status = ct_confirm_executing(r, t->letter.pid, t->letter.tid, &t->who);
    if (status == CT_ERR_PERMISSION_DENIED)
        note_refusal(t);
    return !status;
}

/* ---- the postman ---- */

static void deliver(struct ct_recording *r, uint32_t index) {
    struct ct_shm_letter *letter = letter_at(r, index);
    uint32_t expected = CT_LETTER_POSTED;
    if (!__atomic_compare_exchange_n(&letter->state, &expected, CT_LETTER_TAKEN, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    struct ct_task t = {.parent = r, .letter = *letter, .index = index};
    if (t.letter.kind == CT_LETTER_LOADED) {
        (void)ct_recording_update_modules(r); /* what cannot be hooked runs unhooked */
        ct_post_answer(&t, 1, CT_LETTER_ANSWERED);
        return;
    }
    if (!is_confirmed(&t)) {
        ct_post_answer(&t, 0, CT_LETTER_ANSWERED);
        return;
    }
    if (t.letter.kind == CT_LETTER_FORKED)
        __atomic_store_n(&r->post->last_birth, ct_clock_now(), __ATOMIC_RELAXED);
    if (!open_task(r->post, &t)) { /* its keeper is about to close the last one: the next round takes this letter */
        expected = CT_LETTER_TAKEN;
        (void)__atomic_compare_exchange_n(&letter->state, &expected, CT_LETTER_POSTED, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
        close(t.who.pidfd);
        return;
    }
    if (t.letter.kind == CT_LETTER_EXEC && t.who.pid == r->pid)
        ct_hold_interrupt(r); /* for who follows it; and a program that gains rights must not be traced */
    if (!may_follow(&t) || !ct_children_keep(&t)) {
        ct_post_answer(&t, 0, CT_LETTER_ANSWERED);
        close(t.who.pidfd);
        close_task(r->post, index);
    }
}

/* A thread of the process, or a child of it, as it calls itself. */
static bool is_gone(const struct ct_recording *r, int inner) {
    if (ct_remote_outer_tid(r->pid, inner))
        return false;
    return ct_confirm_has_ended(r->drain.other_namespace ? ct_remote_outer_pid(r->pid, inner) : inner);
}

/* Who was killed while it wrote or waited leaves its letter taken. */
static void take_back(struct ct_post *post, uint32_t i) {
    struct ct_shm_letter *letter = letter_at(post->recording, i);
    uint32_t state = __atomic_load_n(&letter->state, __ATOMIC_ACQUIRE);
    uint64_t now = ct_clock_now();
    int owner = state == CT_LETTER_ANSWERED ? letter->tid : CT_LETTER_FILLER(state);
    if (!owner || !post->unread[i]) {
        post->unread[i] = owner ? now : 0;
        return;
    }
    if (now - post->unread[i] < UNREAD_NS)
        return;
    post->unread[i] = 0;
    if (is_gone(post->recording, owner))
        (void)__atomic_compare_exchange_n(&letter->state, &state, CT_LETTER_FREE, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
}

static void *run_post(void *arg) {
    struct ct_post *post = arg;
    struct ct_recording *r = post->recording;
    uint32_t *bell = &r->lane.control->bell;
    const struct timespec limit = {0, BELL_WAIT_MS * 1000000L};
    while (!__atomic_load_n(&post->stop, __ATOMIC_ACQUIRE)) {
        uint32_t heard = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < CT_SHM_LETTERS; i++) {
            if (__atomic_load_n(&letter_at(r, i)->state, __ATOMIC_ACQUIRE) == CT_LETTER_POSTED && !is_open(post, i))
                deliver(r, i);
            take_back(post, i);
        }
        (void)syscall(SYS_futex, bell, FUTEX_WAIT, heard, &limit, NULL, 0);
    }
    return NULL;
}

static void free_post(struct ct_recording *r) {
    pthread_cond_destroy(&r->post->closed);
    pthread_mutex_destroy(&r->post->mutex);
    free(r->post);
    r->post = NULL;
}

int ct_post_start(struct ct_recording *r) {
    struct ct_post *post = calloc(1, sizeof *post);
    sigset_t all, old;
    if (!post)
        return CT_ERR_NO_MEMORY;
    post->recording = r;
    r->post = post;
    pthread_mutex_init(&post->mutex, NULL);
    pthread_cond_init(&post->closed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&post->thread, NULL, run_post, post);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        free_post(r);
        return CT_ERR_NO_THREADS;
    }
    __atomic_store_n(&r->lane.control->children, !r->session->options.no_children, __ATOMIC_RELEASE);
    __atomic_store_n(&r->lane.control->listening, 1, __ATOMIC_RELEASE);
    return 0;
}

static bool has_open(struct ct_post *post) {
    pthread_mutex_lock(&post->mutex);
    bool open = post->open != 0;
    pthread_mutex_unlock(&post->mutex);
    return open;
}

/* Is there a child that was not heard of, on a machine that has not let it run? Those that are followed have memory of their own. */
static bool has_unheard(const struct ct_recording *r) {
    return !r->session->options.no_children && ct_confirm_has_other(r);
}

/* With all its threads: it makes no more children, and those that it has made can be seen. */
static bool has_ended(const struct ct_recording *r) {
    struct pollfd p = {.fd = r->remote ? ct_remote_pidfd(r->remote) : -1, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* A process may end right after it has made children, and they have yet to write their letters, into memory that they have
 * inherited; many of them take longer, and wait for letters of others to be answered. */
static void wait_for_births(const struct ct_recording *r) {
    uint64_t fork = __atomic_load_n(&r->lane.control->last_fork, __ATOMIC_RELAXED);
    if (!fork)
        return;
    uint64_t born = ct_clock_ns(&r->clock, fork), now;
    while (!ct_children_are_leaving(r->session) && (now = ct_clock_now()) > born) {
        uint64_t heard = __atomic_load_n(&r->post->last_birth, __ATOMIC_RELAXED);
        uint64_t last = heard > born ? heard : born;
        bool patient = now < last + BIRTH_LIMIT;
        bool due = now >= last + BIRTH_NS || has_ended(r);
        if (due && !has_open(r->post) && !(patient && has_unheard(r)))
            return;
        usleep(due ? 20000 : 1000); /* what is due is looked for among all processes, which takes a while */
    }
}

void ct_post_stop(struct ct_recording *r) {
    struct ct_post *post = r->post;
    if (!post)
        return;
    wait_for_births(r);
    __atomic_store_n(&r->lane.control->listening, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&post->stop, true, __ATOMIC_RELEASE);
    ring(r);
    pthread_join(post->thread, NULL);
    pthread_mutex_lock(&post->mutex);
    while (post->open)
        pthread_cond_wait(&post->closed, &post->mutex);
    pthread_mutex_unlock(&post->mutex);
    free_post(r);
}
