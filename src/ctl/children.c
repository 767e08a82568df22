/* See children.h. */
#include "ctl/children.h"
#include "remote/frames.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define EXEC_LIMIT_MS 30000u
#define BELL_WAIT_MS  100
#define KEEPER_STACK  (1u << 20)
#define BIRTH_NS      300000000ull /* a child is heard of by then, even after its parent's end */

struct ct_children {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ct_recording *list; /* being recorded */
    size_t keepers;
    bool leaving;
    int leave_fd, change_fd; /* readable when all are to leave; when their number has changed */
    uint64_t finished;       /* processes whose recording is over */
    uint64_t missed;
    char missed_reason[640];
    struct ct_session_statistics past; /* of finished ones */
};

/* A thread that reads the letters of one recorded process. */
struct ct_post {
    struct ct_recording *recording;
    pthread_t thread;
    bool stop;
    uint64_t last_birth; /* when a child was last heard of */
    size_t open;         /* letters that keepers have not answered yet; under the children's mutex */
};

/* What a keeper starts with. */
struct task {
    struct ct_recording *parent;
    struct ct_shm_letter letter;
    uint32_t index; /* of the letter */
    int pid, tid;   /* as we see them */
    bool answered;  /* the letter may be somebody else's by now */
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

static void ring(struct ct_children *c) {
    uint64_t one = 1;
    pthread_cond_broadcast(&c->changed);
    (void)!write(c->change_fd, &one, sizeof one);
}

static void add(struct ct_children *c, struct ct_recording *r) {
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
}

static const struct ct_recording *find(const struct ct_children *c, int pid) {
    const struct ct_recording *r = c->list;
    while (r && r->pid != pid)
        r = r->next;
    return r;
}

static void take_off(struct ct_children *c, struct ct_recording *r) {
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
    c->finished++;
    if (!find(c, r->pid)) /* a program that it executes may be there already */
        ct_control_remove(r->session, r->pid);
    pthread_mutex_unlock(&c->mutex);
}

static void miss(struct ct_children *c, const char *reason) {
    pthread_mutex_lock(&c->mutex);
    c->missed++;
    snprintf(c->missed_reason, sizeof c->missed_reason, "%s", reason);
    pthread_mutex_unlock(&c->mutex);
}

/* ---- answering ---- */

static struct ct_shm_letter *letter_at(const struct ct_recording *r, uint32_t index) {
    uint8_t *control = (uint8_t *)r->lane.control;
    return (struct ct_shm_letter *)(control + CT_SHM_LETTERS_OFFSET) + index;
}

static void answer(struct task *t, int value, uint32_t state) {
    if (t->answered)
        return;
    t->answered = true;
    struct ct_shm_letter *letter = letter_at(t->parent, t->index);
    uint32_t expected = CT_LETTER_TAKEN;
    letter->answer = value;
    (void)__atomic_compare_exchange_n(&letter->state, &expected, state, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* The parent's lane is not needed any more. */
static void close_task(struct task *t) {
    struct ct_children *c = t->parent->session->children;
    pthread_mutex_lock(&c->mutex);
    t->parent->post->open--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    t->parent = NULL;
}

/* ---- keepers ---- */

static void read_command_line(struct ct_recording *r) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", r->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, r->command_line, sizeof r->command_line - 1);
    if (fd >= 0)
        close(fd);
    r->command_line[n > 0 ? n : 0] = 0;
    for (ssize_t i = 0; i + 1 < n; i++)
        if (!r->command_line[i])
            r->command_line[i] = ' ';
}

/* From the first instruction that is recorded to the end. */
static void keep(struct ct_recording *r) {
    struct ct_children *c = r->session->children;
    add(c, r);
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
    if (!strcmp(reason, "detach"))
        (void)ct_recording_uninstall(r);
    (void)ct_recording_finish(r, reason);
    take_off(c, r);
}

static int follow_fork(struct ct_recording *r, struct task *t) {
    struct ct_remote_error error = {""};
    int status = ct_remote_open(&r->remote, t->pid, &error);
    if (status)
        return ct_recording_fail(r, status, "%s", error.text);
    return ct_recording_install_forked(r, t->parent);
}

static void say_go(void *arg) {
    answer(arg, 1, CT_LETTER_ANSWERED);
}

static int follow_exec(struct ct_recording *r, struct task *t) {
    struct ct_remote_error error = {""};
    int status = ct_remote_follow_exec(&r->remote, t->pid, t->tid, say_go, t, EXEC_LIMIT_MS, &error);
    if (status)
        return ct_recording_fail(r, status, "%s", error.text);
    if (t->parent->pid == t->pid)
        __atomic_store_n(&t->parent->replaced, true, __ATOMIC_RELEASE);
    close_task(t); /* another memory: the letter is not theirs any more */
    r->stopped_at = ct_clock_now();
    read_command_line(r);
    return ct_recording_install(r);
}

static int begin(struct ct_recording *r, struct task *t) {
    r->pid = t->pid;
    r->parent_pid = t->parent->pid;
    if (t->letter.kind == CT_LETTER_EXEC)
        return follow_exec(r, t);
    read_command_line(r);
    int status = follow_fork(r, t);
    if (!status) {
        answer(t, 1, CT_LETTER_FREE);
        close_task(t);
    }
    return status;
}

static void *run_keeper(void *arg) {
    struct task t = *(struct task *)arg;
    struct ct_session *s = t.parent->session;
    struct ct_children *c = s->children;
    bool forked = t.letter.kind == CT_LETTER_FORKED;
    struct ct_recording *r = ct_recording_create(s, forked ? CT_ORIGIN_FORK : CT_ORIGIN_EXEC);
    free(arg);
    int status = r ? begin(r, &t) : CT_ERR_NO_MEMORY;
    if (!status) {
        keep(r);
    } else if (r && status != CT_ERR_SPAWN_FAILED && status != CT_ERR_NOT_FOUND) {
        miss(c, r->error); /* an exec that failed, and a process that ended meanwhile, are nothing that is missing */
    }
    if (t.parent) {
        answer(&t, 0, CT_LETTER_ANSWERED);
        close_task(&t);
    }
    ct_recording_destroy(r);
    pthread_mutex_lock(&c->mutex);
    c->keepers--;
    ring(c);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static bool start_keeper(struct task *t) {
    struct ct_children *c = t->parent->session->children;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_mutex_lock(&c->mutex);
    bool leaving = c->leaving;
    if (!leaving) {
        c->keepers++;
        t->parent->post->open++;
    }
    pthread_mutex_unlock(&c->mutex);
    if (leaving || pthread_attr_init(&attributes))
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, KEEPER_STACK);
    bool started = !pthread_create(&thread, &attributes, run_keeper, t);
    pthread_attr_destroy(&attributes);
    if (started)
        return true;
    pthread_mutex_lock(&c->mutex);
    c->keepers--;
    t->parent->post->open--;
    pthread_mutex_unlock(&c->mutex);
    return false;
}

/* ---- what may be followed ---- */

/* The number that we know a process by which calls itself `inner`; `below`: a process of the same namespace. */
static int outer_number(const struct ct_recording *below, int inner) {
    if (!below->drain.other_namespace)
        return inner;
    return ct_remote_outer_pid(below->pid, inner);
}

static bool read_path(const struct ct_recording *r, uint64_t address, char path[PATH_MAX]) {
    for (size_t i = 0; i < PATH_MAX; i++) {
        if (ct_remote_read(r->remote, address + i, &path[i], 1))
            return false;
        if (!path[i])
            return true;
    }
    return false;
}

/* An exec under our eyes would not give it the rights it is to have. */
static bool gains_rights(const struct task *t) {
    char name[PATH_MAX], path[2 * PATH_MAX];
    struct stat info;
    bool named = read_path(t->parent, t->letter.argument, name) && name[0];
    if (named && name[0] == '/')
        snprintf(path, sizeof path, "/proc/%d/root%s", t->pid, name);
    else if (named && t->letter.directory == AT_FDCWD)
        snprintf(path, sizeof path, "/proc/%d/cwd/%s", t->pid, name);
    else
        snprintf(path, sizeof path, "/proc/%d/fd/%d%s%s", t->pid, t->letter.directory, named ? "/" : "",
                 named ? name : "");
    if (stat(path, &info))
        return false; /* its exec will fail too */
    return (info.st_mode & (S_ISUID | S_ISGID)) || getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool may_follow(struct task *t) {
    char reason[128];
    if (t->pid <= 0)
        return false;
    if (t->letter.kind != CT_LETTER_EXEC || geteuid() == 0 || !gains_rights(t))
        return true;
    snprintf(reason, sizeof reason, "process %d executed a setuid program, which runs unrecorded with its rights",
             t->pid);
    miss(t->parent->session->children, reason);
    return false;
}

/* ---- the postman ---- */

static void deliver(struct ct_recording *r, uint32_t index) {
    struct ct_shm_letter *letter = letter_at(r, index);
    uint32_t expected = CT_LETTER_POSTED;
    if (!__atomic_compare_exchange_n(&letter->state, &expected, CT_LETTER_TAKEN, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    struct task *t = malloc(sizeof *t), here = {.parent = r, .letter = *letter, .index = index};
    if (!t) {
        answer(&here, 0, CT_LETTER_ANSWERED);
        return;
    }
    *t = here;
    if (letter->kind == CT_LETTER_LOADED) {
        (void)ct_recording_update_modules(r); /* what cannot be hooked runs unhooked */
        answer(t, 1, CT_LETTER_ANSWERED);
        free(t);
        return;
    }
    if (letter->kind == CT_LETTER_FORKED)
        __atomic_store_n(&r->post->last_birth, ct_clock_now(), __ATOMIC_RELAXED);
    t->pid = outer_number(r, letter->pid);
    t->tid = letter->tid == letter->pid ? t->pid : outer_number(r, letter->tid);
    if (!may_follow(t) || !start_keeper(t)) {
        answer(&here, 0, CT_LETTER_ANSWERED);
        free(t);
    }
}

static void *run_post(void *arg) {
    struct ct_post *post = arg;
    struct ct_recording *r = post->recording;
    uint32_t *bell = &r->lane.control->bell;
    const struct timespec limit = {0, BELL_WAIT_MS * 1000000L};
    while (!__atomic_load_n(&post->stop, __ATOMIC_ACQUIRE)) {
        uint32_t heard = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < CT_SHM_LETTERS; i++)
            if (__atomic_load_n(&letter_at(r, i)->state, __ATOMIC_ACQUIRE) == CT_LETTER_POSTED)
                deliver(r, i);
        (void)syscall(SYS_futex, bell, FUTEX_WAIT, heard, &limit, NULL, 0);
    }
    return NULL;
}

int ct_post_start(struct ct_recording *r) {
    struct ct_post *post = calloc(1, sizeof *post);
    sigset_t all, old;
    if (!post)
        return CT_ERR_NO_MEMORY;
    post->recording = r;
    r->post = post;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&post->thread, NULL, run_post, post);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        free(post);
        r->post = NULL;
        return CT_ERR_NO_MEMORY;
    }
    __atomic_store_n(&r->lane.control->children, !r->session->options.no_children, __ATOMIC_RELEASE);
    __atomic_store_n(&r->lane.control->listening, 1, __ATOMIC_RELEASE);
    return 0;
}

/* A process may end right after it has made children, and they have yet to write their letters, into memory that they have
 * inherited; many of them take longer. */
static void wait_for_births(const struct ct_recording *r) {
    uint64_t last = __atomic_load_n(&r->lane.control->last_fork, __ATOMIC_RELAXED);
    if (!last)
        return;
    uint64_t born = ct_clock_ns(&r->clock, last), now;
    while (!r->session->children->leaving && (now = ct_clock_now()) > born) {
        uint64_t heard = __atomic_load_n(&r->post->last_birth, __ATOMIC_RELAXED);
        if (now >= (heard > born ? heard : born) + BIRTH_NS)
            return;
        usleep(1000);
    }
}

void ct_post_stop(struct ct_recording *r) {
    struct ct_post *post = r->post;
    if (!post)
        return;
    struct ct_children *c = r->session->children;
    wait_for_births(r);
    __atomic_store_n(&r->lane.control->listening, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&post->stop, true, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &r->lane.control->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    pthread_join(post->thread, NULL);
    pthread_mutex_lock(&c->mutex);
    while (post->open)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
    free(post);
    r->post = NULL;
}

/* ---- all of them ---- */

size_t ct_children_active(struct ct_session *s) {
    struct ct_children *c = s->children;
    pthread_mutex_lock(&c->mutex);
    size_t count = c->keepers;
    pthread_mutex_unlock(&c->mutex);
    return count;
}

void ct_children_leave(struct ct_session *s) {
    struct ct_children *c = s->children;
    uint64_t one = 1;
    pthread_mutex_lock(&c->mutex);
    c->leaving = true;
    (void)!write(c->leave_fd, &one, sizeof one);
    while (c->keepers)
        pthread_cond_wait(&c->changed, &c->mutex);
    c->leaving = false;
    (void)!read(c->leave_fd, &one, sizeof one);
    pthread_mutex_unlock(&c->mutex);
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
    pthread_mutex_unlock(&c->mutex);
}

void ct_session_missed(const struct ct_session *s, char *reason, size_t size) {
    struct ct_children *c = s->children;
    pthread_mutex_lock(&c->mutex);
    snprintf(reason, size, "%s", c->missed_reason);
    pthread_mutex_unlock(&c->mutex);
}
