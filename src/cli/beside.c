/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside the events of threads: see beside.h. */
#include "cli/beside.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t index_bytes(struct ct_place *place) {
    DIR *list = ct_place_list(place, ".");
    struct dirent *entry;
    struct stat status;
    uint64_t bytes = 0;
    while (list && (entry = readdir(list)))
        if (!strncmp(entry->d_name, "index", 5) && !fstatat(dirfd(list), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
            bytes += (uint64_t)status.st_size;
    if (list)
        closedir(list);
    return bytes;
}

/* A descriptor to read and write. */
static int create(struct ct_place *place, const char *name) {
    int made = ct_summary_create(place, name);
    int fd = made >= 0 ? ct_place_open_file(place, name, O_RDWR) : -1;
    if (made >= 0)
        close(made);
    return fd;
}

static void add_thread(struct ct_beside *b, const char *directory, const char *process, uint32_t id, uint64_t least) {
    struct ct_beside_file *file = &b->files[b->count];
    char *path = ct_file_path("%s/thread_%u", directory, id);
    *file = (struct ct_beside_file){.id = id, .fd = -1};
    snprintf(file->process, sizeof file->process, "%s", process);
    if (path && ct_place_open(&file->place, path, 0, CT_PLACE_NO_GROUP) == 0) {
        if (ct_place_is_closed(file->place) && index_bytes(file->place) >= least)
            file->fd = create(file->place, b->fresh);
        if (file->fd >= 0)
            b->count++;
        else
            ct_place_drop(file->place);
    }
    free(path);
}

static size_t add_process(struct ct_beside *b, const char *directory, uint64_t least) {
    const char *slash = strrchr(directory, '/');
    uint32_t *ids = NULL;
    size_t count = 0;
    if (ct_find_numbered(directory, "thread_", &ids, &count) != 0)
        count = 0;
    for (size_t i = 0; i < count && b->count < CT_BESIDE_THREADS; i++)
        add_thread(b, directory, slash ? slash + 1 : directory, ids[i], least);
    free(ids);
    return count;
}

/* The path without slashes at its end, so that its last name is found; malloc'ed. */
static char *plain_path(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return strndup(path, length);
}

void ct_beside_make(struct ct_beside *b, const char *trace, const char *name, uint64_t least_bytes) {
    char *path = plain_path(trace);
    *b = (struct ct_beside){.name = name};
    snprintf(b->fresh, sizeof b->fresh, ".%.40s.%d", name, (int)getpid());
    DIR *processes = path && !add_process(b, path, least_bytes) ? opendir(path) : NULL;
    struct dirent *entry;
    while (processes && (entry = readdir(processes))) {
        char *directory = !strncmp(entry->d_name, "pid_", 4) ? ct_file_path("%s/%s", path, entry->d_name) : NULL;
        if (directory)
            (void)add_process(b, directory, least_bytes);
        free(directory);
    }
    if (processes)
        closedir(processes);
    free(path);
}

struct ct_beside_file *ct_beside_find(struct ct_beside *b, const char *process, uint32_t id) {
    const char *slash = strrchr(process, '/');
    const char *name = slash ? slash + 1 : process;
    for (size_t i = 0; i < b->count; i++)
        if (b->files[i].place && b->files[i].id == id && strcmp(b->files[i].process, name) == 0)
            return &b->files[i];
    return NULL;
}

static void finish(struct ct_beside *b, struct ct_beside_file *file, bool keep) {
    if (close(file->fd) != 0 || !keep || ct_place_replace(file->place, b->fresh, b->name) != 0)
        (void)ct_place_remove(file->place, b->fresh);
    ct_place_drop(file->place);
    file->place = NULL;
    file->fd = -1;
}

void ct_beside_keep(struct ct_beside *b, struct ct_beside_file *file) {
    finish(b, file, true);
}

void ct_beside_end(struct ct_beside *b) {
    for (size_t i = 0; i < b->count; i++)
        if (b->files[i].place)
            finish(b, &b->files[i], false);
}
