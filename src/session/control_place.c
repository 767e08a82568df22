/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of control sockets. See control_place.h. */
#include "session/control_place.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define QUEUE 16

const char *ct_control_place_name(char name[CT_CONTROL_PLACE_NAME_SIZE], int pid) {
    snprintf(name, CT_CONTROL_PLACE_NAME_SIZE, "%d.sock", pid);
    return name;
}

/* ---- directories ---- */

/* Opens the directory itself, not the target of a link; -1 unless it is the user's and has none of the rights in
 * `closed`. */
static int open_checked(int at, const char *name, uid_t user, mode_t closed) {
    struct stat info;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == EACCES) /* another user's: enough to connect to its sockets */
        fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &info) && info.st_uid == user && !(info.st_mode & closed))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* $HOME is ours; for another user only the list of users has it. */
static bool home_of(uid_t user, char *path, size_t size) {
    char text[4096];
    struct passwd entry, *found = NULL;
    const char *home = user == geteuid() ? getenv("HOME") : NULL;
    if (!home && !getpwuid_r(user, &entry, text, sizeof text, &found) && found)
        home = found->pw_dir;
    return home && home[0] == '/' && (size_t)snprintf(path, size, "%s", home) < size;
}

/* The directory that only the user and root can change. */
static bool base_of(unsigned which, uid_t user, char *path, size_t size) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    switch (which) {
    case 0:
        return user == geteuid() && runtime && runtime[0] == '/' && (size_t)snprintf(path, size, "%s", runtime) < size;
    case 1:
        return user == 0 && snprintf(path, size, "/run") > 0;
    case 2:
        return snprintf(path, size, "/run/user/%u", (unsigned)user) > 0;
    default:
        return home_of(user, path, size);
    }
}

/* Several machines may share a home directory: each has its own name, below a directory that other programs use too. */
static void steps_of(unsigned which, char steps[3][80]) {
    char host[65] = "";
    snprintf(steps[0], 80, "contrail");
    steps[1][0] = steps[2][0] = 0;
    if (which + 1 < CT_CONTROL_PLACE_COUNT)
        return;
    (void)gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '_';
    snprintf(steps[0], 80, ".cache");
    snprintf(steps[1], 80, "contrail");
    snprintf(steps[2], 80, "run-%s", host);
}

static int open_place(unsigned which, uid_t user, bool make) {
    char base[PATH_MAX], steps[3][80];
    if (!base_of(which, user, base, sizeof base))
        return -1;
    steps_of(which, steps);
    int at = open_checked(AT_FDCWD, base, user, S_IWGRP | S_IWOTH);
    for (int i = 0; at >= 0 && i < 3 && steps[i][0]; i++) {
        bool last = i == 2 || !steps[i + 1][0];
        if (make)
            (void)mkdirat(at, steps[i], 0700);
        int next = open_checked(at, steps[i], user, last ? S_IRWXG | S_IRWXO : S_IWGRP | S_IWOTH);
        close(at);
        at = next;
    }
    return at;
}

int ct_control_place_open(unsigned which, uid_t user) {
    return open_place(which, user, false);
}

int ct_control_place_make(void) {
    int fd = -1;
    for (unsigned i = 0; fd < 0 && i < CT_CONTROL_PLACE_COUNT; i++) {
        fd = open_place(i, geteuid(), true);
        if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS)) { /* a read-only file system */
            close(fd);
            fd = -1;
        }
    }
    return fd;
}

/* The kernel lets a user trace a process if all its user ids are that user's. */
uid_t ct_control_place_user_of(int pid) {
    char path[32], line[256];
    unsigned real, effective, saved;
    uid_t user = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Uid: %u %u %u", &real, &effective, &saved) == 3) {
            user = real == effective && real == saved ? (uid_t)real : 0;
            break;
        }
    if (file)
        fclose(file);
    return user;
}

/* ---- sockets ---- */

/* Goes through the descriptor: the directory's name may mean another one by now. */
static struct sockaddr_un address_of(int directory, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
    return address;
}

/* A link could lead to another user's socket. */
static bool is_of(int fd, uid_t user) {
    struct ucred who;
    socklen_t size = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.uid == user;
}

int ct_control_place_connect(int directory, uid_t user, const char *name, int patience_ms) {
    const struct sockaddr_un address = address_of(directory, name);
    const struct timeval patience = {.tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000 + 1};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), why = 0;
    if (fd < 0)
        return CT_ERR_SYSTEM;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address))
        why = errno;
    if (!why && is_of(fd, user))
        return fd;
    close(fd);
    if (why == EAGAIN || why == EINTR)
        return CT_ERR_BUSY;
    return why == EACCES || why == EPERM ? CT_ERR_PERMISSION_DENIED : CT_ERR_NOT_FOUND;
}

int ct_control_place_listen(int directory, const char *name) {
    const struct sockaddr_un address = address_of(directory, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)unlinkat(directory, name, 0); /* from a recorder that was killed: two cannot record one process */
    if (!bind(fd, (const struct sockaddr *)&address, sizeof address) && !fchmodat(directory, name, 0600, 0) &&
        !listen(fd, QUEUE))
        return fd;
    (void)unlinkat(directory, name, 0);
    close(fd);
    return -1;
}
