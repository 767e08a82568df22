/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a trace.
 *
 * A file in use is in no list, so a cache never closes it. The cache's lock is held for list work and open/close only,
 * never while bytes are written. */
#include "trace/file.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct ct_file_cache ct_file_writers = {.lock = PTHREAD_MUTEX_INITIALIZER};

int ct_file_status(int error) {
    switch (error) {
    case 0:
        return 0;
    case ENOSPC:
        return CT_ERR_NO_SPACE;
    case EDQUOT:
        return CT_ERR_QUOTA;
    case EFBIG:
        return CT_ERR_FILE_LIMIT;
    case EACCES:
    case EPERM:
    case EROFS:
    case CT_PLACE_LINK:
    case CT_PLACE_SWAPPED:
    case CT_PLACE_NOT_OURS:
        return CT_ERR_PERMISSION_DENIED;
    case ENOENT:
        return CT_ERR_NOT_FOUND;
    case ENOTDIR:
    case EISDIR:
        return CT_ERR_BAD_FILE;
    case ENAMETOOLONG:
    case EINVAL:
        return CT_ERR_INVALID_ARGUMENT;
    case ENOMEM:
        return CT_ERR_NO_MEMORY;
    default:
        return CT_ERR_SYSTEM;
    }
}

const char *ct_file_why(int status, const char **remedy) {
    *remedy = "choose another place with --output DIR";
    if (status == CT_ERR_FILE_LIMIT)
        *remedy = "raise it with `ulimit -f unlimited`";
    if (status == CT_ERR_NO_SPACE || status == CT_ERR_QUOTA)
        *remedy = "free some space or choose another place with --output DIR";
    return status == CT_ERR_NO_SPACE ? "the disk is full" : ct_status_text(status);
}

/* The largest size a file may have. Read each time: the system call is cheap beside the write, and the limit may be
 * changed from outside. */
static uint64_t size_limit(size_t margin) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur > margin ? limit.rlim_cur - margin : 0;
}

int ct_file_write(int fd, const void *data, size_t size, uint64_t offset, size_t margin, size_t *done) {
    uint64_t limit = size_limit(margin);
    size_t fits = offset >= limit ? 0 : size < limit - offset ? size : (size_t)(limit - offset);
    *done = 0;
    while (*done < fits) {
        ssize_t n = pwrite(fd, (const char *)data + *done, fits - *done, (off_t)(offset + *done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        *done += (size_t)n;
    }
    return fits < size ? EFBIG : 0;
}

int ct_file_read(int fd, void *data, size_t size, uint64_t offset, size_t *done) {
    *done = 0;
    while (*done < size) {
        ssize_t n = pread(fd, (char *)data + *done, size - *done, (off_t)(offset + *done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            break;
        *done += (size_t)n;
    }
    return 0;
}

/* ---- the cache ---- */

static size_t cache_limit(const struct ct_file_cache *cache) {
    struct rlimit limit;
    if (cache->limit)
        return cache->limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 2 >= CT_FILE_CACHE_OPEN)
        return CT_FILE_CACHE_OPEN;
    return limit.rlim_cur >= 2 ? limit.rlim_cur / 2 : 1;
}

static void unlink_file(struct ct_file *file) {
    struct ct_file_cache *cache = file->cache;
    *(file->older ? &file->older->newer : &cache->oldest) = file->newer;
    *(file->newer ? &file->newer->older : &cache->newest) = file->older;
    file->older = file->newer = NULL;
}

static int close_oldest(struct ct_file_cache *cache) {
    struct ct_file *file = cache->oldest;
    if (!file)
        return 0;
    unlink_file(file);
    if (close(file->fd) != 0 && errno != EINTR)
        file->error = errno;
    file->fd = -1;
    cache->open--;
    return 1;
}

static int open_path(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Call with the lock held. */
static int open_file(struct ct_file *file, int flags) {
    struct ct_file_cache *cache = file->cache;
    size_t limit = cache_limit(cache);
    while (cache->open >= limit && close_oldest(cache)) {
    }
    int fd;
    do
        fd = file->place ? ct_place_open_file(file->place, file->path, flags) : open_path(file->path, flags);
    while (fd == -EINTR || ((fd == -EMFILE || fd == -ENFILE) && close_oldest(cache)));
    file->fd = fd < 0 ? -1 : fd;
    if (fd < 0)
        return -fd;
    cache->open++;
    return 0;
}

int ct_file_open(struct ct_file *file, struct ct_file_cache *cache, struct ct_place *place, char *path, int flags) {
    *file = (struct ct_file){
        .place = place, .path = path, .cache = cache, .fd = -1, .flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC)};
    if (!path)
        return ENOMEM;
    pthread_mutex_lock(&cache->lock);
    int error = open_file(file, flags);
    pthread_mutex_unlock(&cache->lock);
    if (error) {
        free(path);
        file->path = NULL;
    } else if (place) {
        ct_place_hold(place);
    }
    return error;
}

int ct_file_use(struct ct_file *file) {
    pthread_mutex_lock(&file->cache->lock);
    int error = file->error;
    file->error = 0;
    if (error) {
        pthread_mutex_unlock(&file->cache->lock);
        return error;
    }
    if (file->fd >= 0)
        unlink_file(file);
    else
        error = open_file(file, file->flags);
    pthread_mutex_unlock(&file->cache->lock);
    return error;
}

void ct_file_rest(struct ct_file *file) {
    struct ct_file_cache *cache = file->cache;
    pthread_mutex_lock(&cache->lock);
    file->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = file;
    cache->newest = file;
    pthread_mutex_unlock(&cache->lock);
}

int ct_file_close(struct ct_file *file) {
    if (!file->path)
        return 0;
    pthread_mutex_lock(&file->cache->lock);
    int error = file->error;
    if (file->fd >= 0) {
        unlink_file(file);
        file->cache->open--;
    }
    pthread_mutex_unlock(&file->cache->lock);
    if (file->fd >= 0 && close(file->fd) != 0 && errno != EINTR)
        error = errno;
    ct_place_drop(file->place);
    free(file->path);
    *file = (struct ct_file){.fd = -1};
    return error;
}

int ct_file_cache_shrink(struct ct_file_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    int closed = close_oldest(cache);
    pthread_mutex_unlock(&cache->lock);
    return closed;
}

/* ---- plain files ---- */

/* No descriptor was left: true when another try may succeed. */
static bool try_again(int fd) {
    return fd == -EINTR || ((fd == -EMFILE || fd == -ENFILE) && ct_file_cache_shrink(&ct_file_writers));
}

int ct_file_open_plain(const char *path, int flags) {
    int fd;
    do
        fd = open_path(path, flags);
    while (try_again(fd));
    return fd;
}

int ct_file_open_in(struct ct_place *place, const char *name, int flags) {
    int fd;
    do
        fd = ct_place_open_file(place, name, flags);
    while (try_again(fd));
    return fd;
}

int ct_file_open_fresh(struct ct_place *place, const char *name) {
    (void)ct_place_remove(place, name);
    return ct_file_open_in(place, name, O_WRONLY | O_CREAT | O_EXCL);
}

int ct_file_load(const char *path, size_t limit, char **text, size_t *size) {
    struct stat status;
    int error = 0, fd = ct_file_open_plain(path, O_RDONLY | O_NONBLOCK); /* a FIFO must not block us */
    *text = NULL;
    if (fd < 0)
        return -fd;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (!S_ISREG(status.st_mode))
        error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    else if ((uint64_t)status.st_size > limit)
        error = EFBIG;
    else if (!(*text = malloc((size_t)status.st_size + 1)))
        error = ENOMEM;
    else
        error = ct_file_read(fd, *text, (size_t)status.st_size, 0, size);
    close(fd);
    if (error) {
        free(*text);
        *text = NULL;
    } else {
        (*text)[*size] = 0;
    }
    return error;
}

char *ct_file_path(const char *format, ...) {
    char *path;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&path, format, arguments);
    va_end(arguments);
    return n < 0 ? NULL : path;
}

int ct_file_thread_directory(struct ct_place *process, uint32_t id, char **name) {
    *name = ct_file_path("thread_%u", id);
    int error = *name ? 0 : ENOMEM;
    while (!error && ((error = ct_place_make_directory(process, *name)) == EMFILE || error == ENFILE) &&
           ct_file_cache_shrink(&ct_file_writers)) {
        (void)ct_place_remove_directory(process, *name); /* it was created and could not be opened */
        error = 0;
    }
    return error == EEXIST ? 0 : error;
}
