/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of another process, through /proc/PID/mem: whatever the protection, while threads run or are stopped. */
#include "remote/remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/stat.h>

static int failure_of(ssize_t done) {
    if (done == 0)
        return CT_ERR_NOT_FOUND; /* the image is gone */
    if (errno == EIO || errno == EFAULT)
        return CT_ERR_NOT_MAPPED;
    return errno == EPERM || errno == EACCES ? CT_ERR_PERMISSION_DENIED : CT_ERR_SYSTEM;
}

int ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size) {
    char *at = bytes;
    if (ct_remote_is_over(remote))
        return CT_ERR_TIMEOUT;
    while (size > 0) {
        ssize_t done = pread(remote->mem, at, size, (off_t)address);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return failure_of(done);
        at += done;
        address += (uint64_t)done;
        size -= (size_t)done;
    }
    return CT_OK;
}

int ct_remote_write(const struct ct_remote *remote, uint64_t address, const void *bytes, size_t size) {
    const char *at = bytes;
    if (ct_remote_step)
        ct_remote_step();
    while (size > 0) {
        ssize_t done = pwrite(remote->mem, at, size, (off_t)address);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return failure_of(done);
        at += done;
        address += (uint64_t)done;
        size -= (size_t)done;
    }
    return CT_OK;
}

struct counted {
    int (*each)(void *arg, const struct ct_os_map *map);
    void *arg;
    size_t maps;
};

static int count_map(void *arg, const struct ct_os_map *map) {
    struct counted *c = arg;
    c->maps++;
    return c->each(c->arg, map);
}

int ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map), void *arg) {
    struct counted c = {each, arg, 0};
    int status = ct_os_each_map_of(remote->view, count_map, &c);
    int other = c.maps ? 0 : ct_remote_find_view(remote->pid); /* the thread whose view we used has ended */
    if (other && other != remote->view) {
        remote->view = other;
        status = ct_os_each_map_of(other, count_map, &c);
    }
    return status >= 0 && !c.maps ? CT_ERR_NOT_FOUND : status;
}

/* A path may have been replaced by anything since: the open does not block, and only a file with the right number
 * counts. */
static int open_named(const struct ct_remote *remote, const struct ct_os_map *map) {
    char path[PATH_MAX + 64];
    struct stat information;
    if (map->path[0] != '/' || map->deleted)
        return CT_ERR_NOT_FOUND;
    (void)snprintf(path, sizeof path, "/proc/%d/root%s", remote->view, map->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? CT_ERR_PERMISSION_DENIED : CT_ERR_NOT_FOUND;
    if (fstat(fd, &information) == 0 && S_ISREG(information.st_mode) && information.st_ino == map->inode)
        return fd;
    (void)close(fd);
    return CT_ERR_NOT_FOUND;
}

int ct_remote_open_mapped(const struct ct_remote *remote, const struct ct_os_map *map) {
    char path[96];
    if (map->inode == 0)
        return CT_ERR_NOT_FOUND;
    (void)snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", remote->view, (unsigned long long)map->start,
                   (unsigned long long)map->end);
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* needs privileges; right whatever happened to the name */
    return fd >= 0 ? fd : open_named(remote, map);
}
