/* The control socket of a session: one line in, one answer out. Only its owner (and root) can use it: it lies in a directory
 * that nobody else can enter, and the kernel tells who is calling. A thread of its own serves it, one caller at a time. */
#include "ctl/control.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define STOP_PATIENCE_MS 30000
#define PATIENCE_MS      10000
#define HOLD_MS          5000
#define HOLD_STEP_MS     5
#define LINE_MAX_        1024
#define TICK_MS          100
#define TRIES            3
#define SAMPLE_NS        1000000000ull

/* ---- where ---- */

/* $XDG_RUNTIME_DIR/contrail, or /tmp/contrail-UID: ours, and closed to others. */
static bool own_directory(char *path, size_t size) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat info;
    if (!runtime || runtime[0] != '/' || access(runtime, W_OK) ||
        (size_t)snprintf(path, size, "%s/contrail", runtime) >= size) /* sockets have short names */
        snprintf(path, size, "/tmp/contrail-%u", (unsigned)geteuid());
    if (mkdir(path, 0700) && errno != EEXIST)
        return false;
    return !lstat(path, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & 077);
}

static bool socket_path(int pid, char *path, size_t size) {
    char directory[80];
    return own_directory(directory, sizeof directory) &&
           (size_t)snprintf(path, size, "%s/%d.sock", directory, pid) < size;
}

/* CT_ERR_NOT_FOUND: nobody is there; CT_ERR_BUSY: somebody is, who has not had time for so long (a stopped recorder's queue of callers
 * fills up). */
static int connect_to(const char *path, int patience_ms) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return CT_ERR_NOT_FOUND;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return CT_ERR_SYSTEM;
    const struct timeval patience = {.tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    int why = errno;
    close(fd);
    if (why == EAGAIN || why == EINTR)
        return CT_ERR_BUSY;
    return why == EACCES || why == EPERM ? CT_ERR_PERMISSION_DENIED : CT_ERR_NOT_FOUND;
}

/* Nobody listens there any more: a recorder was killed. */
static bool is_stale(const char *path) {
    int fd = connect_to(path, 1);
    if (fd >= 0)
        close(fd);
    return fd == CT_ERR_NOT_FOUND;
}

/* Whoever makes or clears away a socket holds its directory: one that does not listen yet looks like one that a killed recorder
 * has left. The kernel lets go for those who are killed. Unlocked by close(); -1 when it cannot be held. */
static int hold_directory(const char *socket) {
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(socket, '/') - socket), socket);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int waited = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); waited += HOLD_STEP_MS) {
        if (waited >= HOLD_MS) { /* whoever holds it is stopped */
            close(fd);
            return -1;
        }
        (void)usleep(HOLD_STEP_MS * 1000);
    }
    return fd;
}

/* ---- the server ---- */

static bool is_owner(int connection) {
    struct ucred who;
    socklen_t size = sizeof who;
    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) && (who.uid == geteuid() || who.uid == 0);
}

static void answer(int connection, const char *text, size_t length) {
    while (length) {
        ssize_t n = send(connection, text, length, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

static void put_list(struct ct_json *j, const char *key, char *const *texts, size_t count) {
    ct_json_begin(j, key, '[');
    for (size_t i = 0; i < count; i++)
        ct_json_string(j, NULL, texts[i]);
    ct_json_end(j, ']');
}

static void put_policy(const struct ct_policy *p, struct ct_json *j) {
    char hash[17], *triggers[CT_POLICY_MAX];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)ct_policy_hash(p));
    for (size_t i = 0; i < p->count; i++)
        triggers[i] = p->triggers[i]->text;
    ct_json_begin(j, "policy", '{');
    ct_json_number(j, "version", p->version);
    ct_json_string(j, "hash", hash);
    ct_json_bool(j, "recording", p->recording);
    put_list(j, "triggers", triggers, p->count);
    put_list(j, "excluded", p->excluded, p->excluded_count);
    ct_json_end(j, '}');
}

static void answer_status(const struct ct_control_server *c, int connection) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_manifest_status(c->session, &json);
    ct_json_bool(&json, "paused", c->paused);
    ct_metrics_put(&c->metrics, &json);
    put_policy(c->session->policy, &json);
    ct_json_end(&json, '}');
    if (!json.failed)
        answer(connection, json.text, json.length);
    ct_json_free(&json);
}

/* The caller hears back when everything is done (ct_control_stop): the hooks are gone, the trace is complete, and nobody listens here
 * any more. False: we are to end. */
static bool wait_for_stop(struct ct_control_server *c, int connection) {
    static const char late[] = "error -6 the session did not stop in time; `status` tells whether it still records";
    struct pollfd p = {.fd = c->stop_fd, .events = POLLIN};
    __atomic_store_n(&c->session->asked_to_stop, 1, __ATOMIC_RELEASE);
    if (poll(&p, 1, STOP_PATIENCE_MS) > 0) {
        c->asker = connection;
        return false;
    }
    answer(connection, late, sizeof late - 1);
    return true;
}

/* A refusal begins with "error" and the status. */
static void answer_command(struct ct_control_server *c, int connection, enum ct_control_command which,
                           const char *operand) {
    char *text, head[32];
    int status = ct_command_run(c, which, operand, &text);
    snprintf(head, sizeof head, "error %d ", status);
    if (status)
        answer(connection, head, strlen(head));
    if (text)
        answer(connection, text, strlen(text));
    free(text);
}

static bool serve(struct ct_control_server *c, int connection) {
    char line[LINE_MAX_];
    struct pollfd p = {.fd = connection, .events = POLLIN};
    if (!is_owner(connection) || poll(&p, 1, 2000) <= 0)
        return true;
    ssize_t n = recv(connection, line, sizeof line - 1, 0);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    const char *operand;
    enum ct_control_command which = ct_command_find(line, &operand);
    if (which == CT_CONTROL_STATUS)
        answer_status(c, connection);
    else if (which == CT_CONTROL_STOP)
        return wait_for_stop(c, connection);
    else
        answer_command(c, connection, which, operand);
    return true;
}

static void write_metrics(const struct ct_control_server *c, bool over) {
    const struct ct_session *s = c->session;
    const struct ct_metrics_labels labels = {
        .pid = s->pid,
        .directory = s->directory,
        .policy_version = s->policy->version,
        .policy_hash = ct_policy_hash(s->policy),
        .recording = s->policy->recording,
        .paused = c->paused,
        .over = over,
    };
    if (s->metrics_place)
        (void)ct_metrics_write(&c->metrics, &labels, s->metrics_place, s->metrics_name); /* recording matters more */
}

static void sample(struct ct_control_server *c, bool over) {
    struct ct_session_statistics now;
    ct_session_statistics(c->session, &now);
    ct_metrics_sample(&c->metrics, &now, ct_clock_now());
    write_metrics(c, over);
}

/* What is due: numbers every second, and what callers wish for processes that have just begun. */
static void tick(struct ct_control_server *c) {
    if (ct_clock_now() - c->metrics.sampled_ns >= SAMPLE_NS)
        sample(c, false);
    (void)ct_command_reconcile(c);
}

static void *run(void *arg) {
    struct ct_control_server *c = arg;
    for (bool go_on = true; go_on;) {
        struct pollfd p[2] = {{.fd = c->stop_fd, .events = POLLIN}, {.fd = c->listener, .events = POLLIN}};
        if (poll(p, 2, TICK_MS) < 0 && errno != EINTR)
            break;
        if (p[0].revents)
            break;
        tick(c);
        int connection = p[1].revents ? accept4(c->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (connection < 0)
            continue;
        const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000}; /* with a caller that does not read */
        (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        go_on = serve(c, connection);
        if (connection != c->asker)
            close(connection);
    }
    return NULL;
}

static int open_listener(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if ((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= sizeof address.sun_path)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)unlink(address.sun_path); /* of a recorder that was killed: two cannot hold the same process */
    if (!bind(fd, (struct sockaddr *)&address, sizeof address) && !chmod(address.sun_path, 0600) && !listen(fd, 8))
        return fd;
    (void)unlink(address.sun_path);
    close(fd);
    return -1;
}

static bool is_link(const char *path) {
    struct stat info;
    return !lstat(path, &info) && S_ISLNK(info.st_mode);
}

/* Sockets of recorders that were killed, where nobody listens, and the links to them. */
static void remove_stale(const char *own) {
    char pattern[sizeof((struct sockaddr_un *)0)->sun_path];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%.*s/*.sock", (int)(strrchr(own, '/') - own), own);
    if (glob(pattern, 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!is_link(found.gl_pathv[i]) && is_stale(found.gl_pathv[i]))
            (void)unlink(found.gl_pathv[i]);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (is_link(found.gl_pathv[i]) && access(found.gl_pathv[i], F_OK))
            (void)unlink(found.gl_pathv[i]);
    globfree(&found);
}

/* The socket of this session, in a place cleared of what killed recorders have left; without one when none can be had. */
static void take_place(struct ct_control_server *c) {
    int directory = hold_directory(c->path);
    if (directory < 0)
        return;
    remove_stale(c->path);
    c->listener = open_listener(c->path);
    if (c->listener >= 0 && lstat(c->path, &c->place))
        c->place.st_ino = 0;
    close(directory);
}

/* The next recorder of the process may have its socket there already: the hooks were gone before this. (Ours keeps its number for as
 * long as we have it open.) */
static void leave_place(struct ct_control_server *c) {
    struct stat now;
    int directory = hold_directory(c->path);
    if (!lstat(c->path, &now) && now.st_ino == c->place.st_ino && now.st_dev == c->place.st_dev)
        (void)unlink(c->path);
    if (directory >= 0)
        close(directory);
    close(c->listener);
}

static void free_server(struct ct_control_server *c) {
    if (c->listener >= 0)
        leave_place(c);
    if (c->stop_fd >= 0)
        close(c->stop_fd);
    if (c->asker >= 0) {
        answer(c->asker, "ok", 2);
        close(c->asker);
    }
    free(c);
}

/* A session without its socket records all the same. */
int ct_control_start(struct ct_session *s) {
    struct ct_control_server *c = calloc(1, sizeof *c);
    if (!c)
        return CT_ERR_NO_MEMORY;
    c->session = s;
    sigset_t all, old;
    c->listener = c->asker = -1;
    if (socket_path(s->pid, c->path, sizeof c->path))
        take_place(c);
    c->stop_fd = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = c->stop_fd >= 0 && !pthread_create(&c->thread, NULL, run, c);
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
    sample(c, true); /* the last word */
    s->control = NULL;
    free_server(c);
}

/* ---- other processes of the session ---- */

/* The place of a process that is not the first; false: nothing is to be done there. *linked: our link is there. */
static bool other_place(const struct ct_session *s, int pid, char *path, size_t size, char own[32], bool *linked) {
    char target[32];
    if (!s->control || pid == s->pid || !socket_path(pid, path, size))
        return false;
    snprintf(own, 32, "%d.sock", s->pid);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    *linked = !strcmp(target, own);
    return true;
}

/* A link beside the socket: whoever asks for a child reaches its session. What is there and leads nowhere is of a recorder
 * that was killed. */
void ct_control_add(struct ct_session *s, int pid) {
    char path[PATH_MAX], own[32];
    bool linked;
    if (!other_place(s, pid, path, sizeof path, own, &linked) || linked)
        return;
    int directory = hold_directory(path);
    if (directory < 0)
        return;
    if (is_stale(path) && (!unlink(path) || errno == ENOENT))
        (void)!symlink(own, path);
    close(directory);
}

void ct_control_remove(struct ct_session *s, int pid) {
    char path[PATH_MAX], own[32];
    bool linked;
    if (other_place(s, pid, path, sizeof path, own, &linked) && linked)
        (void)unlink(path);
}

bool ct_control_wants_pause(const struct ct_session *s) {
    return s->control && __atomic_load_n(&s->control->paused, __ATOMIC_ACQUIRE);
}

/* ---- the caller ---- */

/* Ours first; then everybody's: root may, others learn that somebody else records it. */
static int find_server(int pid) {
    static const char *const patterns[] = {"/tmp/contrail-*", "/run/user/*/contrail"};
    char path[PATH_MAX];
    int fd = socket_path(pid, path, sizeof path) ? connect_to(path, PATIENCE_MS) : CT_ERR_NOT_FOUND;
    for (size_t i = 0; fd < 0 && fd != CT_ERR_BUSY && i < sizeof patterns / sizeof patterns[0]; i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found))
            continue;
        for (size_t k = 0; fd < 0 && k < found.gl_pathc; k++) {
            snprintf(path, sizeof path, "%s/%d.sock", found.gl_pathv[k], pid);
            int result = connect_to(path, PATIENCE_MS);
            fd = result == CT_ERR_NOT_FOUND ? fd : result;
        }
        globfree(&found);
    }
    return fd;
}

/* What it answers, as much as there is room for; 0: it has ended before it could. */
static size_t ask(int fd, const char *command, char *text, size_t size) {
    size_t length = 0;
    answer(fd, command, strlen(command));
    answer(fd, "\n", 1);
    for (ssize_t n; length + 1 < size && (n = recv(fd, text + length, size - 1 - length, 0)) > 0;)
        length += (size_t)n;
    text[length] = 0;
    return length;
}

int ct_session_control(int pid, const char *command, char *text, size_t size) {
    if (!command || !text || !size)
        return CT_ERR_INVALID_ARGUMENT;
    text[0] = 0;
    size_t length = 0;
    for (int i = 0; i < TRIES && !length; i++) { /* a recorder that was about to end is not there at the second look */
        int fd = find_server(pid);
        if (fd < 0)
            return fd;
        length = ask(fd, command, text, size);
        close(fd);
    }
    int status = 0, used = 0;
    if (!length)
        return CT_ERR_SYSTEM;
    if (sscanf(text, "error %d %n", &status, &used) == 1 && used && status < 0) {
        memmove(text, text + used, length - (size_t)used + 1);
        return status;
    }
    return 0;
}
