/* SPDX-License-Identifier: Apache-2.0 */
/* See new_file.h. */
#include "cli/new_file.h"
#include "trace/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIPES 0x50495045 /* the kernel's file system of pipes without a name */

/* A named pipe of another user would give him our output. */
static bool may_be_written(int fd) {
    struct stat status;
    struct statfs system;
    if (fstat(fd, &status) || S_ISREG(status.st_mode))
        return false; /* it was not one a moment ago */
    return !S_ISFIFO(status.st_mode) || status.st_uid == geteuid() || status.st_uid == 0 ||
           (!fstatfs(fd, &system) && system.f_type == PIPES);
}

static int open_special(struct ct_new_file *file, const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    if (!may_be_written(fd)) {
        close(fd);
        return CT_PLACE_NOT_OURS;
    }
    file->fd = fd;
    return 0;
}

static void keep_mode(struct ct_new_file *file) {
    struct stat old;
    int there = ct_place_open_file(file->place, file->name, O_PATH);
    if (there >= 0 && !fstat(there, &old) && S_ISREG(old.st_mode) && old.st_uid == geteuid())
        (void)fchmod(file->fd, old.st_mode & 0777);
    if (there >= 0)
        close(there);
}

static void release_file(struct ct_new_file *file) {
    ct_place_drop(file->place);
    free(file->name);
    free(file->fresh);
    *file = (struct ct_new_file){.fd = -1};
}

int ct_new_file_open(struct ct_new_file *file, const char *path) {
    struct stat old;
    bool exists = stat(path, &old) == 0;
    *file = (struct ct_new_file){.fd = -1};
    if (exists && S_ISDIR(old.st_mode))
        return EISDIR;
    if (exists && !S_ISREG(old.st_mode))
        return open_special(file, path);
    if (exists && access(path, W_OK))
        return errno;
    int error = ct_place_find(&file->place, &file->name, path);
    if (!error && !(file->fresh = ct_file_path("%s.%d", file->name, (int)getpid())))
        error = ENOMEM;
    if (!error && (file->fd = ct_file_open_fresh(file->place, file->fresh)) < 0)
        error = -file->fd;
    if (error)
        release_file(file);
    else
        keep_mode(file);
    return error;
}

int ct_new_file_close(struct ct_new_file *file, bool whole) {
    int error = file->fd >= 0 && close(file->fd) ? errno : 0;
    if (file->fresh && whole && !error)
        error = ct_place_replace(file->place, file->fresh, file->name);
    if (file->fresh && (!whole || error))
        (void)ct_place_remove(file->place, file->fresh);
    release_file(file);
    return error;
}
