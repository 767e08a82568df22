/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of a session: one line in, one answer out. Only its owner (and root) can use it: it is in a
 * directory that nobody else can enter, and the kernel says who calls. A thread of its own serves it; slow callers
 * delay nobody. */
#include "session/control_internal.h"
#include "session/control_place.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOLD_MS      5000
#define HOLD_STEP_MS 5
#define TICK_MS      100
#define SAMPLE_NS    1000000000ull

/* ---- the socket's directory ---- */

/* Nobody listens there any more: the recorder was killed. */
static bool is_stale(int directory, const char *name) {
    int fd = ct_control_place_connect(directory, geteuid(), name, 1);
    if (fd >= 0)
        close(fd);
    return fd == CT_ERR_NOT_FOUND;
}

/* A process that creates or removes a socket locks the directory: a socket that does not listen yet looks like one that
 * a killed recorder has left. The kernel unlocks it if the process is killed. close() unlocks; -1: cannot be locked. */
static int hold_place(const struct ct_control_server *c) {
    int fd = openat(c->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int waited = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); waited += HOLD_STEP_MS) {
        if (waited >= HOLD_MS) { /* the process that has the lock is stopped */
            close(fd);
            return -1;
        }
        (void)usleep(HOLD_STEP_MS * 1000);
    }
    return fd;
}

/* ---- the server ---- */

static void write_metrics(const struct ct_control_server *c, bool over) {
    const struct ct_session *s = c->session;
    const struct ct_metrics_labels labels = {
        .pid = s->process.pid,
        .directory = s->directory,
        .policy_version = s->policy->version,
        .policy_hash = ct_policy_hash(s->policy),
        .recording = s->policy->recording,
        .paused = c->paused,
        .over = over,
    };
    if (s->metrics.place)
        /* a failure is ignored: recording matters more */
        (void)ct_metrics_write(&c->metrics, &labels, s->metrics.place, s->metrics.name);
}

static void sample_metrics(struct ct_control_server *c, bool over) {
    struct ct_session_statistics now = {.size = sizeof now};
    ct_session_statistics(c->session, &now);
    ct_metrics_sample(&c->metrics, &now, ct_clock_now());
    write_metrics(c, over);
}

/* Does what is due: numbers every second, and what callers want for processes that have just begun. */
static void tick(struct ct_control_server *c) {
    if (ct_clock_now() - c->metrics.sampled_ns >= SAMPLE_NS)
        sample_metrics(c, false);
    (void)ct_command_reconcile(c);
}

static void *run_server(void *arg) {
    struct ct_control_server *c = arg;
    for (;;) {
        struct pollfd p[2 + CT_CALLERS] = {{.fd = c->stop_fd, .events = POLLIN}, {.fd = c->listener, .events = POLLIN}};
        ct_callers_watch(c, p + 2);
        if (poll(p, 2 + CT_CALLERS, TICK_MS) < 0 && errno != EINTR)
            break;
        if (p[0].revents)
            break;
        tick(c);
        ct_callers_serve(c);
        if (p[1].revents)
            ct_callers_accept(c);
    }
    return NULL;
}

static bool is_link(int directory, const char *name) {
    struct stat info;
    return !fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) && S_ISLNK(info.st_mode);
}

static bool is_socket_name(const char *name) {
    size_t length = strlen(name);
    return length > 5 && !strcmp(name + length - 5, ".sock");
}

/* Removes sockets of recorders that were killed, where nobody listens; with `links`, also links that lead nowhere. */
static void remove_stale(int directory, bool links) {
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    if (!names && fd >= 0)
        close(fd);
    for (struct dirent *one; names && (one = readdir(names));) {
        if (!is_socket_name(one->d_name) || is_link(directory, one->d_name) != links)
            continue;
        if (links ? faccessat(directory, one->d_name, F_OK, 0) != 0 : is_stale(directory, one->d_name))
            (void)unlinkat(directory, one->d_name, 0);
    }
    if (names)
        closedir(names);
}

/* Creates the socket of this session and removes what killed recorders have left. There is none if no directory can be
 * used. */
static void take_place(struct ct_control_server *c) {
    int held = hold_place(c);
    if (held < 0)
        return;
    remove_stale(c->directory, false);
    remove_stale(c->directory, true);
    c->listener = ct_control_place_listen(c->directory, c->name);
    if (c->listener >= 0 && fstatat(c->directory, c->name, &c->place, AT_SYMLINK_NOFOLLOW))
        c->place.st_ino = 0;
    close(held);
}

/* The next recorder of the process may already have its socket there: the hooks were removed before this. (Ours keeps
 * its inode number as long as it is open.) */
static void leave_place(struct ct_control_server *c) {
    struct stat now;
    int held = hold_place(c);
    if (!fstatat(c->directory, c->name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == c->place.st_ino &&
        now.st_dev == c->place.st_dev)
        (void)unlinkat(c->directory, c->name, 0);
    if (held >= 0)
        close(held);
    close(c->listener);
}

static void free_server(struct ct_control_server *c) {
    if (c->listener >= 0)
        leave_place(c);
    if (c->directory >= 0)
        close(c->directory);
    if (c->stop_fd >= 0)
        close(c->stop_fd);
    ct_callers_end(c);
    free(c);
}

/* A session without a socket records all the same (ct_session_is_reachable). */
int ct_control_start(struct ct_session *s) {
    struct ct_control_server *c = calloc(1, sizeof *c);
    if (!c)
        return CT_ERR_NO_MEMORY;
    c->session = s;
    sigset_t all, old;
    c->listener = -1;
    ct_callers_init(c);
    ct_control_place_name(c->name, s->process.pid);
    c->directory = ct_control_place_make();
    if (c->directory >= 0)
        take_place(c);
    c->stop_fd = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = c->stop_fd >= 0 && !pthread_create(&c->thread, NULL, run_server, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!started) {
        free_server(c);
        return 0;
    }
    s->control = c;
    return 0;
}

void ct_control_stop(struct ct_session *s) {
    struct ct_control_server *c = s->control;
    if (!c)
        return;
    uint64_t one = 1;
    (void)!write(c->stop_fd, &one, sizeof one);
    pthread_join(c->thread, NULL);
    sample_metrics(c, true); /* the last numbers */
    s->control = NULL;
    free_server(c);
}

bool ct_session_is_reachable(const struct ct_session *s) {
    return s->control && s->control->listener >= 0;
}

/* ---- other processes of the session ---- */

/* The link's name of a process that is not the first; false: nothing to do. *linked: our link is there. */
static bool other_name(const struct ct_session *s, int pid, char name[CT_CONTROL_PLACE_NAME_SIZE], bool *linked) {
    char target[CT_CONTROL_PLACE_NAME_SIZE];
    if (!s->control || s->control->directory < 0 || pid == s->process.pid)
        return false;
    ssize_t length = readlinkat(s->control->directory, ct_control_place_name(name, pid), target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    *linked = !strcmp(target, s->control->name);
    return true;
}

/* Makes a link beside the socket: callers that ask for a child reach its session. A link there that leads nowhere is
 * from a recorder that was killed. */
void ct_control_add(struct ct_session *s, int pid) {
    char name[CT_CONTROL_PLACE_NAME_SIZE];
    bool linked;
    if (!other_name(s, pid, name, &linked) || linked)
        return;
    int held = hold_place(s->control);
    if (held < 0)
        return;
    if (is_stale(s->control->directory, name) && (!unlinkat(s->control->directory, name, 0) || errno == ENOENT))
        (void)!symlinkat(s->control->name, s->control->directory, name);
    close(held);
}

void ct_control_remove(struct ct_session *s, int pid) {
    char name[CT_CONTROL_PLACE_NAME_SIZE];
    bool linked;
    if (other_name(s, pid, name, &linked) && linked)
        (void)unlinkat(s->control->directory, name, 0);
}

bool ct_control_wants_pause(const struct ct_session *s) {
    return s->control && __atomic_load_n(&s->control->paused, __ATOMIC_ACQUIRE);
}
