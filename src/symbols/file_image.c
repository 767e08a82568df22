/* SPDX-License-Identifier: Apache-2.0 */
/* See file_image.h. */
#include "symbols/file_image.h"
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_COPIES ((size_t)2 << 30) /* limit for all copies together */
#define PIECE      ((size_t)64 << 10)

struct copy {
    struct copy *next;
    void *bytes;
    size_t size;
};

static struct {
    pthread_mutex_t mutex;
    struct copy *first;
    size_t bytes;
} copies = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool is_safe(const struct stat *status) {
    return (status->st_uid == 0 || status->st_uid == geteuid()) && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

/* ---- copies ---- */

static struct copy *reserve_copy(size_t size) {
    struct copy *copy = malloc(sizeof *copy);
    pthread_mutex_lock(&copies.mutex);
    bool fits = copy && size <= MAX_COPIES - copies.bytes;
    copies.bytes += fits ? size : 0;
    pthread_mutex_unlock(&copies.mutex);
    if (fits) {
        *copy = (struct copy){.size = size};
        return copy;
    }
    free(copy);
    return NULL;
}

static void add_copy(struct copy *copy) {
    pthread_mutex_lock(&copies.mutex);
    copy->next = copies.first;
    copies.first = copy;
    pthread_mutex_unlock(&copies.mutex);
}

static void forget_copy(void *bytes) {
    pthread_mutex_lock(&copies.mutex);
    struct copy **at = &copies.first;
    while (*at && (*at)->bytes != bytes)
        at = &(*at)->next;
    struct copy *copy = *at;
    if (copy) {
        *at = copy->next;
        copies.bytes -= copy->size;
    }
    pthread_mutex_unlock(&copies.mutex);
    free(copy);
}

/* Holes of a file become holes of its copy: they need no memory. If the file is shorter by now, the copy ends in
 * zeros. */
static bool read_all(int fd, uint8_t *bytes, size_t size) {
    static const uint8_t zero[PIECE];
    uint8_t *piece = malloc(PIECE);
    ssize_t done = piece ? 1 : 0;
    for (size_t at = 0; at < size && done > 0; at += (size_t)done) {
        size_t left = size - at;
        do
            done = pread(fd, piece, left < PIECE ? left : PIECE, (off_t)at);
        while (done < 0 && errno == EINTR);
        if (done > 0 && memcmp(piece, zero, (size_t)done) != 0)
            memcpy(bytes + at, piece, (size_t)done);
    }
    bool good = piece && done >= 0;
    free(piece);
    return good;
}

static void *copy_file(int fd, size_t size) {
    struct copy *copy = reserve_copy(size);
    if (!copy)
        return NULL;
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    copy->bytes = bytes;
    add_copy(copy);
    if (bytes != MAP_FAILED && read_all(fd, bytes, size) && !mprotect(bytes, size, PROT_READ))
        return bytes;
    forget_copy(bytes);
    if (bytes != MAP_FAILED)
        munmap(bytes, size);
    return NULL;
}

/* ---- both ---- */

void *ct_file_image_open(int fd, size_t *size) {
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size <= 0)
        return NULL;
    *size = (size_t)status.st_size;
    if (!is_safe(&status))
        return copy_file(fd, *size);
    void *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

void ct_file_image_close(void *bytes, size_t size) {
    if (!bytes)
        return;
    forget_copy(bytes);
    munmap(bytes, size);
}
