/* SPDX-License-Identifier: Apache-2.0 */
/* See children.h. */
#include "session/children.h"
#include "isa/machine.h"
#include "session/control.h"
#include "session/crash_watch.h"
#include "session/recording_install.h"
#include "session/recording_leave.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EXEC_LIMIT_MS 30000u
#define CHILD_STACK   (1u << 20)

struct ct_children {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ct_recording *list; /* processes that are being recorded */
    size_t threads;            /* child threads */
    bool leaving;
    int leave_fd, change_fd; /* readable when all must leave; when their number has changed */
    uint64_t finished;       /* processes whose recording is over */
    uint64_t missed;
    char missed_reason[640];
    struct ct_session_statistics past; /* sums of finished recordings */
    uint64_t past_until_ns;            /* when the last of them ended */
};

int ct_children_create(struct ct_session *s) {
    struct ct_children *c = s->children = calloc(1, sizeof *c);
    if (!c)
        return CT_ERR_NO_MEMORY;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->leave_fd = eventfd(0, EFD_CLOEXEC);
    c->change_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return c->leave_fd < 0 || c->change_fd < 0 ? CT_ERR_NO_MEMORY : 0;
}

void ct_children_destroy(struct ct_session *s) {
    struct ct_children *c = s->children;
    if (!c)
        return;
    ct_children_leave(s);
    close(c->leave_fd);
    close(c->change_fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
    s->children = NULL;
}

/* ---- the list ---- */

static void signal_change(struct ct_children *c) {
    uint64_t one = 1;
    pthread_cond_broadcast(&c->changed);
    (void)!write(c->change_fd, &one, sizeof one);
}

static void add_recording(struct ct_children *c, struct ct_recording *r) {
    pthread_mutex_lock(&c->mutex);
    r->next = c->list;
    c->list = r;
    ct_control_add(r->session, r->pid);
    pthread_mutex_unlock(&c->mutex);
}

static void sum_up(struct ct_session_statistics *sum, const struct ct_session_statistics *one) {
    sum->events += one->events;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        sum->lost[i] += one->lost[i];
    sum->abandoned += one->abandoned;
    sum->deep_calls += one->deep_calls;
    sum->left_frames += one->left_frames;
    sum->guarded_calls += one->guarded_calls;
    sum->threads_seen += one->threads_seen;
    sum->threads_alive += one->threads_alive;
    sum->lane_bytes += one->lane_bytes;
    sum->lane_used += one->lane_used;
    sum->bytes_written += one->bytes_written;
    sum->waited_ns += one->waited_ns;
    sum->detail_events += one->detail_events;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        sum->detail_lost[i] += one->detail_lost[i];
    sum->detail_bytes += one->detail_bytes;
    sum->detail_needed = one->detail_needed > sum->detail_needed ? one->detail_needed : sum->detail_needed;
    sum->signals += one->signals;
    sum->marks += one->marks;
    sum->windows += one->windows;
    for (size_t i = 0; i < sizeof sum->stalk_events / sizeof sum->stalk_events[0]; i++)
        sum->stalk_events[i] += one->stalk_events[i];
    sum->stalk_on |= one->stalk_on;
    sum->stalk_threads += one->stalk_threads;
    sum->stalk_left += one->stalk_left;
    sum->stalk_blocks += one->stalk_blocks;
    sum->stalk_children += one->stalk_children;
    sum->left_out += one->left_out;
    sum->budget = one->budget > sum->budget ? one->budget : sum->budget;
    sum->budget_used = one->budget_used > sum->budget_used ? one->budget_used : sum->budget_used;
    if (one->written_until_ns && (!sum->written_until_ns || one->written_until_ns < sum->written_until_ns))
        sum->written_until_ns = one->written_until_ns;
    if (one->window_state > sum->window_state)
        sum->window_state = one->window_state;
}

static const struct ct_recording *find_recording(const struct ct_children *c, int pid) {
    const struct ct_recording *r = c->list;
    while (r && r->pid != pid)
        r = r->next;
    return r;
}

static void remove_recording(struct ct_children *c, struct ct_recording *r) {
    struct ct_session_statistics last;
    ct_recording_statistics(r, &last);
    last.threads_alive = last.lane_bytes = last.lane_used = 0;
    pthread_mutex_lock(&c->mutex);
    for (struct ct_recording **at = &c->list; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    sum_up(&c->past, &last);
    if (r->times.ended_at > c->past_until_ns)
        c->past_until_ns = r->times.ended_at;
    c->finished++;
    if (!find_recording(c, r->pid)) /* a program that it executed may be there already */
        ct_control_remove(r->session, r->pid);
    pthread_mutex_unlock(&c->mutex);
}

void ct_children_miss(struct ct_session *s, const char *reason) {
    struct ct_children *c = s->children;
    pthread_mutex_lock(&c->mutex);
    c->missed++;
    snprintf(c->missed_reason, sizeof c->missed_reason, "%s", reason);
    pthread_mutex_unlock(&c->mutex);
}

/* ---- child threads ---- */

static void read_command_line(struct ct_recording *r) {
    char path[64];
    if (r->session->options.redact) {
        ct_recording_read_program(r);
        return;
    }
    snprintf(path, sizeof path, "/proc/%d/cmdline", r->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, r->command_line, sizeof r->command_line - 1);
    if (fd >= 0)
        close(fd);
    while (n > 0 && !r->command_line[n - 1]) /* the end of the last word, and what setproctitle leaves */
        n--;
    r->command_line[n > 0 ? n : 0] = 0;
    for (ssize_t i = 0; i < n; i++)
        if (!r->command_line[i])
            r->command_line[i] = ' ';
}

/* Records from the first recorded instruction to the end. */
static void record_child(struct ct_recording *r) {
    struct ct_children *c = r->session->children;
    add_recording(c, r);
    ct_recording_resume(r);
    const char *reason = NULL;
    while (!reason) {
        struct pollfd p[2] = {{.fd = ct_remote_pidfd(r->remote), .events = POLLIN},
                              {.fd = c->leave_fd, .events = POLLIN}};
        (void)poll(p, 2, 200);
        if (p[0].revents)
            reason = "exit";
        else if (p[1].revents)
            reason = "detach";
        else if (ct_recording_was_replaced(r))
            reason = "exec";
    }
    if (!strcmp(reason, "exit"))
        reason = ct_recording_note_exit(r, ct_remote_how_ended(ct_remote_pidfd(r->remote), r->pid));
    if (!strcmp(reason, "detach"))
        (void)ct_recording_uninstall(r);
    (void)ct_recording_finish(r, reason);
    remove_recording(c, r);
}

static int follow_fork(struct ct_recording *r, struct ct_task *t) {
    struct ct_remote_error error = {""};
    int status = ct_remote_open(&r->remote, t->who.pid, &error);
    if (status)
        return ct_recording_fail(r, status, "%s", error.text);
    if (!ct_confirm_holds(&t->who)) /* its number may belong to another process now */
        return CT_ERR_NOT_FOUND;
    return ct_recording_install_forked(r, t->parent);
}

/* The thread is stopped now. Before that it may have executed another program, without a request. */
static bool is_waiting(void *arg) {
    const struct ct_task *t = arg;
    return ct_confirm_holds(&t->who) && ct_confirm_maps(t->parent, t->who.tid);
}

static void say_go(void *arg) {
    ct_requests_answer(arg, 1, CT_REQUEST_ANSWERED);
}

/* When the session ends, nobody waits for an exec that may never come. */
static bool is_leaving(void *arg) {
    const struct ct_task *t = arg;
    return __atomic_load_n(&t->parent->session->state, __ATOMIC_ACQUIRE) == CT_SESSION_DETACHING;
}

static int follow_exec(struct ct_recording *r, struct ct_task *t) {
    struct ct_remote_error error = {""};
    const struct ct_remote_exec exec = {.is_meant = is_waiting, .ready = say_go, .given_up = is_leaving, .arg = t};
    int status = ct_remote_follow_exec(&r->remote, t->who.pid, t->who.tid, &exec, EXEC_LIMIT_MS, &error);
    if (!status && t->foreign) { /* runs under an emulator, which we do not record */
        ct_remote_close(r->remote);
        r->remote = NULL;
        status = CT_ERR_UNSUPPORTED;
    }
    if (status == CT_ERR_UNSUPPORTED && t->foreign)
        return ct_recording_fail(r, status, "%.400s is %s and runs unrecorded: this contrail records %s programs only",
                                 t->program[0] ? t->program : "it", t->foreign, ct_machine_host()->name);
    if (status && (ct_confirm_has_ended(t->who.pid) || is_leaving(t)))
        status = CT_ERR_NOT_FOUND; /* it was killed during the request, or the session ends */
    if (status)
        return ct_recording_fail(r, status, "%s", error.text);
    if (t->parent->pid == t->who.pid) {
        ct_recording_note_end(t->parent);
        __atomic_store_n(&t->parent->end.replaced, true, __ATOMIC_RELEASE);
    }
    ct_requests_close(t); /* the memory is another one now: the request is no longer theirs */
    r->times.stopped_at = ct_clock_now();
    read_command_line(r);
    return ct_recording_install(r);
}

static int begin_child(struct ct_recording *r, struct ct_task *t) {
    r->pid = t->who.pid;
    r->parent_pid = t->parent->pid;
    r->times.asked_at = t->request.kind == CT_REQUEST_FORKED ? t->since : 0;
    ct_clock_start_with(&r->clock, &t->parent->clock); /* the child waits for us */
    if (t->request.kind == CT_REQUEST_EXEC)
        return follow_exec(r, t);
    read_command_line(r);
    int status = follow_fork(r, t);
    if (!status) {
        ct_requests_answer(t, 1, CT_REQUEST_FREE);
        ct_requests_close(t);
    }
    return status;
}

static void *run_child_thread(void *arg) {
    struct ct_task t = *(struct ct_task *)arg;
    struct ct_session *s = t.parent->session;
    struct ct_children *c = s->children;
    bool forked = t.request.kind == CT_REQUEST_FORKED;
    struct ct_recording *r = ct_recording_create(s, forked ? CT_ORIGIN_FORK : CT_ORIGIN_EXEC);
    free(arg);
    int status = r ? begin_child(r, &t) : CT_ERR_NO_MEMORY;
    if (!status) {
        record_child(r);
    } else if (r && status != CT_ERR_SPAWN_FAILED && status != CT_ERR_NOT_FOUND) {
        /* An exec that failed and a process that ended meanwhile do not count as missed. */
        ct_recording_miss(t.parent ? t.parent : r, t.who.pid, t.program, r->error);
    }
    if (t.parent) {
        if (!forked && t.parent->pid == t.who.pid)
            ct_crash_watch_again(t.parent); /* its exec failed, or is not followed */
        ct_requests_answer(&t, 0, CT_REQUEST_ANSWERED);
        ct_requests_close(&t);
    }
    ct_recording_destroy(r);
    close(t.who.pidfd);
    pthread_mutex_lock(&c->mutex);
    c->threads--;
    signal_change(c);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

bool ct_children_start_thread(const struct ct_task *task) {
    struct ct_children *c = task->parent->session->children;
    struct ct_task *t = malloc(sizeof *t);
    pthread_attr_t attributes;
    pthread_t thread;
    if (!t)
        return false;
    *t = *task;
    pthread_mutex_lock(&c->mutex);
    bool started = !c->leaving && !pthread_attr_init(&attributes);
    if (started) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, CHILD_STACK);
        started = !pthread_create(&thread, &attributes, run_child_thread, t);
        pthread_attr_destroy(&attributes);
        c->threads += started;
    }
    pthread_mutex_unlock(&c->mutex);
    if (!started)
        free(t);
    return started;
}

/* ---- all children ---- */

size_t ct_children_active(struct ct_session *s) {
    struct ct_children *c = s->children;
    pthread_mutex_lock(&c->mutex);
    size_t count = c->threads;
    pthread_mutex_unlock(&c->mutex);
    return count;
}

void ct_children_leave(struct ct_session *s) {
    struct ct_children *c = s->children;
    uint64_t one = 1;
    pthread_mutex_lock(&c->mutex);
    c->leaving = true;
    (void)!write(c->leave_fd, &one, sizeof one);
    while (c->threads)
        pthread_cond_wait(&c->changed, &c->mutex);
    c->leaving = false;
    (void)!read(c->leave_fd, &one, sizeof one);
    pthread_mutex_unlock(&c->mutex);
}

bool ct_children_are_leaving(struct ct_session *s) {
    pthread_mutex_lock(&s->children->mutex);
    bool leaving = s->children->leaving;
    pthread_mutex_unlock(&s->children->mutex);
    return leaving;
}

bool ct_children_broken(struct ct_session *s) {
    struct ct_children *c = s->children;
    bool broken = false;
    pthread_mutex_lock(&c->mutex);
    for (const struct ct_recording *r = c->list; r; r = r->next)
        broken |= __atomic_load_n(&r->drain.error, __ATOMIC_ACQUIRE) != 0;
    pthread_mutex_unlock(&c->mutex);
    return broken;
}

void ct_children_wait(struct ct_session *s, int pidfd, int timeout_ms) {
    struct pollfd p[2] = {{.fd = s->children->change_fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    uint64_t count;
    if (poll(p, 2, timeout_ms) > 0 && p[0].revents)
        (void)!read(s->children->change_fd, &count, sizeof count);
}

/* The session lasts from its first process's beginning to its last one's end. */
static void extend_span(const struct ct_session *s, struct ct_session_statistics *sum) {
    const struct ct_children *c = s->children;
    uint64_t start_ns = s->first ? s->first->times.resumed_at : 0;
    uint64_t until_ns = c->list ? ct_clock_now() : c->past_until_ns;
    if (start_ns && until_ns > start_ns && until_ns - start_ns > sum->recording_ns)
        sum->recording_ns = until_ns - start_ns;
}

void ct_children_add_statistics(struct ct_session *s, struct ct_session_statistics *sum) {
    struct ct_children *c = s->children;
    pthread_mutex_lock(&c->mutex);
    sum_up(sum, &c->past);
    sum->processes += c->finished;
    sum->missed_processes = c->missed;
    for (struct ct_recording *r = c->list; r; r = r->next) {
        struct ct_session_statistics one;
        ct_recording_statistics(r, &one);
        sum_up(sum, &one);
        sum->processes++;
    }
    extend_span(s, sum);
    pthread_mutex_unlock(&c->mutex);
}

void ct_children_each(struct ct_session *s, void (*each)(void *arg, struct ct_recording *r), void *arg) {
    pthread_mutex_lock(&s->children->mutex);
    for (struct ct_recording *r = s->children->list; r; r = r->next)
        each(arg, r);
    pthread_mutex_unlock(&s->children->mutex);
}

void ct_session_missed(const struct ct_session *s, char *reason, size_t size) {
    struct ct_children *c = s->children;
    pthread_mutex_lock(&c->mutex);
    snprintf(reason, size, "%s", c->missed_reason);
    pthread_mutex_unlock(&c->mutex);
}
