/* The cache of images: one file for each build-id and size of a module's file, replaced as a whole.
 *
 * A cache must never be the reason that something fails: whatever goes wrong here, the module is analysed again. Only files
 * of our own user are believed. */
#include "ctl/target_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* False when the module has no place in the cache. */
static bool path_of(const char *directory, const struct ct_target_source *s, char path[PATH_MAX]) {
    if (!directory || !*directory || !s->build_id[0] || !s->file_size)
        return false;
    uint64_t size = s->file_size, hash = ct_target_hash(&size, sizeof size, 0);
    int length = snprintf(path, PATH_MAX, "%s/%s-%016llx.plan", directory, s->build_id, (unsigned long long)hash);
    return length > 0 && length < PATH_MAX;
}

bool ct_target_cache_load(const char *directory, struct ct_target_source *s) {
    char path[PATH_MAX];
    struct stat status;
    if (!path_of(directory, s, path))
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    void *bytes = MAP_FAILED;
    size_t size = 0;
    if (!fstat(file, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        !(status.st_mode & (S_IWGRP | S_IWOTH)) && status.st_size >= (off_t)sizeof(struct ct_target_image)) {
        size = (size_t)status.st_size;
        bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    }
    close(file);
    if (bytes == MAP_FAILED)
        return false;
    if (!ct_target_image_valid(bytes, size) || !ct_target_image_fits(bytes, s)) {
        munmap(bytes, size);
        return false;
    }
    s->image = s->image_mapped = bytes;
    s->image_size = size;
    return true;
}

/* The directory and those above it. */
static void make_directories(const char *directory) {
    char path[PATH_MAX];
    size_t length = strlen(directory);
    if (length >= sizeof path)
        return;
    memcpy(path, directory, length + 1);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0700);
            *p = '/';
        }
    mkdir(path, 0700);
}

static bool write_all(int file, const void *bytes, size_t size) {
    while (size) {
        ssize_t n = write(file, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes = (const char *)bytes + n;
        size -= (size_t)n;
    }
    return true;
}

void ct_target_cache_store(const char *directory, const struct ct_target_source *s) {
    char path[PATH_MAX], temporary[PATH_MAX];
    struct ct_target_image *image = s->image_made;
    if (!image || !path_of(directory, s, path) || snprintf(temporary, PATH_MAX, "%s.XXXXXX", path) >= PATH_MAX)
        return;
    int file = mkostemp(temporary, O_CLOEXEC);
    if (file < 0 && errno == ENOENT) {
        make_directories(directory);
        memcpy(temporary + strlen(temporary) - 6, "XXXXXX", 6);
        file = mkostemp(temporary, O_CLOEXEC);
    }
    if (file < 0)
        return;
    const size_t covered = offsetof(struct ct_target_image, tool);
    image->checksum = ct_target_hash((const uint8_t *)image + covered, s->image_size - covered, s->image_size);
    bool written = write_all(file, image, s->image_size);
    if (close(file) || !written || rename(temporary, path))
        unlink(temporary);
}
