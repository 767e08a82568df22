/* SPDX-License-Identifier: Apache-2.0 */
/* See room.h. Reads files only; runs on any thread. */
#include "drain/room.h"
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };
#define NO_LIMIT (1ull << 62) /* cgroup version 1 writes a number above this if there is no limit */

/* Reads the number after `title` in the lines of a file; with an empty title the first one. */
static bool read_number(const char *path, const char *title, int base, uint64_t *value) {
    char line[LINE], *end;
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t length = strlen(title);
        if (strncmp(line, title, length))
            continue;
        uint64_t number = strtoull(line + length, &end, base);
        found = end != line + length;
        *value = found ? number : *value;
    }
    if (file)
        fclose(file);
    return found;
}

/* ---- cgroups ---- */

struct group {
    const char *controller; /* what it limits */
    bool second;            /* version 2 */
    char path[PATH_MAX];    /* of the group in its hierarchy */
    char mount[PATH_MAX];   /* where the hierarchy is mounted */
    char top[PATH_MAX];     /* the part of the hierarchy that is mounted there */
};

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Finds the line "4:memory:/path" if version 1 has the controller, else "0::/path". */
static bool find_group(const char *root, int pid, struct group *g) {
    char name[PATH_MAX], line[LINE];
    bool found = false, first = false;
    snprintf(name, sizeof name, "%s/proc/%d/cgroup", root, pid);
    FILE *file = fopen(name, "re");
    while (file && !first && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        first = has_word(controllers + 1, g->controller);
        if (!first && controllers[1])
            continue;
        g->second = !first;
        snprintf(g->path, sizeof g->path, "%s", path);
        found = true;
    }
    if (file)
        fclose(file);
    return found && !strstr(g->path, "/..");
}

/* Finds the line "36 25 0:32 /top /mount options - type source options". */
static bool find_mount(const char *root, struct group *g) {
    char name[PATH_MAX], line[LINE], top[LINE], mount[LINE], type[64], options[LINE];
    bool found = false;
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(name, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2 ||
            sscanf(rest, " - %63s %*s %4095s", type, options) != 2)
            continue;
        found = g->second ? !strcmp(type, "cgroup2") : !strcmp(type, "cgroup") && has_word(options, g->controller);
    }
    if (file)
        fclose(file);
    if (!found)
        return false;
    snprintf(g->mount, sizeof g->mount, "%s", mount);
    snprintf(g->top, sizeof g->top, "%s", strcmp(top, "/") ? top : "");
    return true;
}

static bool read_number_in(const char *directory, const char *file, const char *title, uint64_t *value) {
    char path[PATH_MAX + 64];
    return (size_t)snprintf(path, sizeof path, "%s/%s", directory, file) < sizeof path &&
           read_number(path, title, 10, value);
}

static uint64_t memory_left_in(const char *directory, bool second) {
    uint64_t limit = CT_ROOM_UNLIMITED, soft = CT_ROOM_UNLIMITED, used = 0, idle = 0;
    (void)read_number_in(directory, second ? "memory.max" : "memory.limit_in_bytes", "", &limit);
    if (second && read_number_in(directory, "memory.high", "", &soft) && soft < limit)
        limit = soft;
    if (limit >= NO_LIMIT || !read_number_in(directory, second ? "memory.current" : "memory.usage_in_bytes", "", &used))
        return CT_ROOM_UNLIMITED;
    (void)read_number_in(directory, "memory.stat", second ? "inactive_file " : "total_inactive_file ", &idle);
    used -= idle < used ? idle : used;
    return limit > used ? limit - used : 0;
}

static uint64_t tasks_left_in(const char *directory, bool second) {
    uint64_t limit = CT_ROOM_UNLIMITED, used = 0;
    (void)second; /* both versions have the same files */
    if (!read_number_in(directory, "pids.max", "", &limit) || !read_number_in(directory, "pids.current", "", &used))
        return CT_ROOM_UNLIMITED;
    return limit > used ? limit - used : 0;
}

/* The minimum of what is left in the group and in those above it. */
static uint64_t least_left(const char *root, struct group *g, uint64_t (*left_in)(const char *directory, bool second)) {
    char directory[3 * PATH_MAX];
    uint64_t left = CT_ROOM_UNLIMITED;
    if (!find_mount(root, g))
        return left;
    size_t top = strlen(g->top), base;
    if (strncmp(g->path, g->top, top))
        return left; /* the group is outside the part that we see */
    base = (size_t)snprintf(directory, sizeof directory, "%s%s", root, g->mount);
    snprintf(directory + base, sizeof directory - base, "%s", g->path + top);
    for (;;) {
        uint64_t here = left_in(directory, g->second);
        left = here < left ? here : left;
        char *slash = strrchr(directory + base, '/');
        if (!slash)
            return left;
        *slash = 0;
    }
}

uint64_t ct_room_memory(const char *root, int pid) {
    struct group g = {.controller = "memory"};
    return find_group(root, pid, &g) ? least_left(root, &g, memory_left_in) : CT_ROOM_UNLIMITED;
}

/* ---- address space ---- */

uint64_t ct_room_address_space(const char *root, int pid) {
    char path[PATH_MAX];
    uint64_t limit, used_kib;
    snprintf(path, sizeof path, "%s/proc/%d/limits", root, pid);
    if (!read_number(path, "Max address space", 10, &limit))
        return CT_ROOM_UNLIMITED;
    snprintf(path, sizeof path, "%s/proc/%d/status", root, pid);
    if (!read_number(path, "VmSize:", 10, &used_kib) || used_kib > NO_LIMIT / 1024)
        return CT_ROOM_UNLIMITED;
    return limit > used_kib * 1024 ? limit - used_kib * 1024 : 0;
}

uint64_t ct_room_threads(const char *root, int pid) {
    char path[PATH_MAX];
    uint64_t threads = 1;
    snprintf(path, sizeof path, "%s/proc/%d/status", root, pid);
    (void)read_number(path, "Threads:", 10, &threads);
    return threads;
}

/* ---- processes ---- */

enum { SYS_ADMIN = 21, SYS_RESOURCE = 24 };

/* Root, and a process with one of these two capabilities, has no limit of processes. */
static bool is_exempt(const char *status, uint64_t *user) {
    uint64_t capabilities = 0;
    if (!read_number(status, "Uid:\t", 10, user) || !read_number(status, "CapEff:\t", 16, &capabilities))
        return true;
    return *user == 0 || (capabilities & (1ull << SYS_ADMIN | 1ull << SYS_RESOURCE));
}

static uint64_t count_tasks(const char *root, uint64_t user) {
    char path[PATH_MAX];
    uint64_t all = 0;
    snprintf(path, sizeof path, "%s/proc", root);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        uint64_t owner, threads;
        if (atoi(entry->d_name) <= 0)
            continue;
        snprintf(path, sizeof path, "%s/proc/%.16s/status", root, entry->d_name);
        if (read_number(path, "Uid:\t", 10, &owner) && owner == user && read_number(path, "Threads:\t", 10, &threads))
            all += threads;
    }
    if (directory)
        closedir(directory);
    return all;
}

static uint64_t left_of_user(const char *root, int pid, int self) {
    char path[PATH_MAX];
    uint64_t user, ours, limit, used;
    snprintf(path, sizeof path, "%s/proc/%d/status", root, self);
    if (!read_number(path, "Uid:\t", 10, &ours))
        return CT_ROOM_UNLIMITED;
    snprintf(path, sizeof path, "%s/proc/%d/status", root, pid);
    if (is_exempt(path, &user) || user != ours)
        return CT_ROOM_UNLIMITED;
    snprintf(path, sizeof path, "%s/proc/%d/limits", root, pid);
    if (!read_number(path, "Max processes", 10, &limit))
        return CT_ROOM_UNLIMITED;
    used = count_tasks(root, user);
    return limit > used ? limit - used : 0;
}

static uint64_t left_of_group(const char *root, int pid, int self) {
    struct group its = {.controller = "pids"}, ours = {.controller = "pids"};
    if (!find_group(root, pid, &its) || !find_group(root, self, &ours) || strcmp(its.path, ours.path))
        return CT_ROOM_UNLIMITED;
    return least_left(root, &its, tasks_left_in);
}

uint64_t ct_room_tasks(const char *root, int pid, int self) {
    uint64_t user = left_of_user(root, pid, self), group = left_of_group(root, pid, self);
    return user < group ? user : group;
}
