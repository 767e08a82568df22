/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of images: one file for each build-id and size of a module's file. A file is replaced as a whole.
 *
 * The cache must never make anything fail: if something goes wrong here, the module is analysed again. An image decides
 * what is written into a process, so only a directory that nobody else can change is used, and in it only files of our
 * own user. */
#include "plan/target_internal.h"
#include "trace/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX     ".plan"
#define FORGOTTEN  3600 /* seconds after which nobody is still writing an unfinished file */
#define ENTRIES    65536u
#define LEAVE_FREE 8u /* pruning leaves this part of the limit free (1/8), so that it is not needed again at once */

/* ---- where the cache is ---- */

static bool candidate_path(char *path, size_t size, const char *home, const char *below) {
    int length = home && home[0] == '/' ? snprintf(path, size, "%s%s", home, below) : -1;
    return length > 0 && (size_t)length < size;
}

static int try_place(const char *path, bool make) {
    struct ct_place *place;
    int error = ct_place_open(&place, path, CT_PLACE_PRIVATE | (make ? CT_PLACE_MAKE : 0), CT_PLACE_NO_GROUP);
    ct_place_drop(place);
    return error;
}

/* The environment may be another user's, as with sudo; then our own home is used. */
int ct_target_cache_find(char *path, size_t size, bool make) {
    if (!candidate_path(path, size, getenv("XDG_CACHE_HOME"), "/contrail") &&
        !candidate_path(path, size, getenv("HOME"), "/.cache/contrail")) {
        path[0] = 0;
        return ENOENT;
    }
    int error = try_place(path, make);
    if (error != CT_PLACE_NOT_OURS && error != CT_PLACE_LINK)
        return error;
    char own[PATH_MAX];
    const struct passwd *user = getpwuid(geteuid());
    if (!user || size > sizeof own || !candidate_path(own, size, user->pw_dir, "/.cache/contrail"))
        return error;
    int second = try_place(own, make);
    if (second && second != ENOENT)
        return error;
    strcpy(path, own);
    return second;
}

/* Returns false if the module cannot be in the cache. */
static bool file_name_of(const struct ct_place *cache, const struct ct_target_source *s, char name[NAME_MAX + 1]) {
    if (!cache || !s->build_id[0] || !s->file_size)
        return false;
    uint64_t size = s->file_size, hash = ct_target_hash(&size, sizeof size, s->guess);
    int length = snprintf(name, NAME_MAX + 1, "%s-%016llx" SUFFIX, s->build_id, (unsigned long long)hash);
    return length > 0 && length <= NAME_MAX;
}

/* ---- one image ---- */

/* Is the file ours, and can nobody else have written it? */
static bool is_ours(int file, struct stat *status) {
    return !fstat(file, status) && S_ISREG(status->st_mode) && status->st_uid == geteuid() &&
           !(status->st_mode & (S_IWGRP | S_IWOTH));
}

bool ct_target_cache_load(struct ct_place *cache, struct ct_target_source *s) {
    char name[NAME_MAX + 1];
    struct stat status;
    int file = file_name_of(cache, s, name) ? ct_place_open_file(cache, name, O_RDONLY | O_NONBLOCK) : -1;
    if (file < 0)
        return false;
    void *bytes = MAP_FAILED;
    size_t size = 0;
    if (is_ours(file, &status) && status.st_size >= (off_t)sizeof(struct ct_target_image)) {
        size = (size_t)status.st_size;
        bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    }
    if (bytes == MAP_FAILED) {
        close(file);
        return false;
    }
    bool good = ct_target_image_valid(bytes, size) && ct_target_image_fits(bytes, s);
    if (good)
        (void)futimens(file, NULL); /* pruning removes the least recently used */
    close(file);
    if (!good) {
        munmap(bytes, size);
        return false;
    }
    s->image = s->image_mapped = bytes;
    s->image_size = size;
    return true;
}

bool ct_target_cache_store(struct ct_place *cache, uint64_t limit, const struct ct_target_source *s) {
    char name[NAME_MAX + 1], fresh[NAME_MAX + 1];
    struct ct_target_image *image = s->image_made;
    size_t done;
    if (!image || s->image_size > limit || !file_name_of(cache, s, name) ||
        snprintf(fresh, sizeof fresh, "%s.%d", name, (int)getpid()) > NAME_MAX)
        return false;
    const size_t covered = offsetof(struct ct_target_image, tool);
    image->checksum = ct_target_hash((const uint8_t *)image + covered, s->image_size - covered, s->image_size);
    int file = ct_file_open_fresh(cache, fresh);
    if (file < 0)
        return false;
    bool written = !ct_file_write(file, image, s->image_size, 0, 0, &done);
    if (!close(file) && written && !ct_place_replace(cache, fresh, name))
        return true;
    (void)ct_place_remove(cache, fresh);
    return false;
}

/* ---- all images ---- */

struct entry {
    char *name;
    uint64_t size;
    int64_t used;
    bool useless; /* from another build of the tool, or left half-written */
};

struct entries {
    struct entry *at;
    size_t count;
    uint64_t bytes;
};

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && !strcmp(name + length - tail, end);
}

static bool is_useless(int file, const char *name, const struct stat *status) {
    struct ct_target_image image;
    if (!ends_with(name, SUFFIX))
        return time(NULL) - status->st_mtime > FORGOTTEN;
    return pread(file, &image, sizeof image, 0) != (ssize_t)sizeof image || image.tool != ct_target_tool();
}

static void add_entry(struct entries *all, struct ct_place *cache, const char *name) {
    struct stat status;
    int file = ct_place_open_file(cache, name, O_RDONLY | O_NONBLOCK);
    if (file < 0)
        return;
    struct entry *grown = all->count < ENTRIES ? realloc(all->at, (all->count + 1) * sizeof *grown) : NULL;
    if (grown)
        all->at = grown;
    if (grown && !fstat(file, &status) && S_ISREG(status.st_mode) && (grown[all->count].name = strdup(name))) {
        struct entry *e = &grown[all->count++];
        e->size = (uint64_t)status.st_size;
        e->used = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
        e->useless = is_useless(file, name, &status);
        all->bytes += e->size;
    }
    close(file);
}

/* Sorts entries in the order in which they are removed. */
static int compare_entries(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->useless != y->useless)
        return x->useless ? -1 : 1;
    return (x->used > y->used) - (x->used < y->used);
}

static void drop_entries(struct entries *all, struct ct_place *cache, uint64_t limit) {
    uint64_t wanted = all->bytes > limit ? limit - limit / LEAVE_FREE : all->bytes;
    if (all->count)
        qsort(all->at, all->count, sizeof *all->at, compare_entries);
    for (size_t i = 0; i < all->count && all->bytes > wanted; i++)
        if (!ct_place_remove(cache, all->at[i].name))
            all->bytes -= all->at[i].size;
}

void ct_target_cache_prune(struct ct_place *cache, uint64_t limit) {
    struct entries all = {0};
    struct dirent *entry;
    DIR *list = ct_place_list(cache, ".");
    while (list && (entry = readdir(list)))
        if (strstr(entry->d_name, SUFFIX))
            add_entry(&all, cache, entry->d_name);
    if (list)
        closedir(list);
    drop_entries(&all, cache, limit);
    for (size_t i = 0; i < all.count; i++)
        free(all.at[i].name);
    free(all.at);
}
