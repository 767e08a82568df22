/* SPDX-License-Identifier: Apache-2.0 */
/* Code that is left alone: executable memory of a recorded process that belongs to no module and is not ours. It comes
 * and goes, so it is looked for at the start, once a second, when a library is loaded, and at the end. The most that
 * was seen at a time is reported. */
#include "session/recording.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char anonymous[] = "anonymous code (JIT)";
static const struct {
    const char *name, *reason;
} kinds[] = {
    {"[vdso]", "the kernel's code"},
    {"[vsyscall]", "the kernel's code"},
    {anonymous, "made at run time: no file describes its functions"},
    {"[stack]", "data that may be executed"},
    {"[heap]", "data that may be executed"},
};
static const char other_reason[] = "not an ELF file: nothing describes its functions";
/* The program chooses names freely: after this many, all others are one entry. */
enum { MOST_NAMES = 256 };
static const char others[] = "others";

struct look {
    struct ct_recording *r;
    struct ct_left_code *seen;
    size_t count;
    bool failed;
};

/* ---- whose code it is ---- */

static bool overlaps(const struct ct_os_map *map, uint64_t start, uint64_t size) {
    return map->start < start + size && start < map->end;
}

static bool is_of_plan(const struct ct_target_plan *plan, const struct ct_os_map *map) {
    for (size_t i = 0; i < plan->region_count; i++)
        if (overlaps(map, plan->regions[i].address, plan->regions[i].size))
            return true;
    return false;
}

static bool is_ours(const struct ct_recording *r, const struct ct_os_map *map) {
    if (overlaps(map, r->injection.image, r->injection.image_size) || is_of_plan(r->plan, map))
        return true;
    for (size_t i = 0; i < r->modules.more_count; i++)
        if (is_of_plan(r->modules.more[i]->plan, map))
            return true;
    return false;
}

/* A library that is just being loaded is not a module yet. */
static bool is_elf(const struct ct_recording *r, const struct ct_os_map *map) {
    char magic[4] = "";
    int file = ct_remote_open_mapped(r->remote, map);
    if (file < 0)
        return true; /* unknown: not reported */
    bool elf = pread(file, magic, sizeof magic, 0) == sizeof magic && !memcmp(magic, "\177ELF", sizeof magic);
    close(file);
    return elf;
}

/* ---- the code ---- */

static const char *name_of(const struct ct_os_map *map) {
    return !map->path[0] || !strncmp(map->path, "[anon", 5) ? anonymous : map->path;
}

static const char *reason_of(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, name))
            return kinds[i].reason;
    return other_reason;
}

static struct ct_left_code *entry_of(struct ct_left_code **list, size_t *count, const char *name) {
    for (size_t i = 0; i < *count; i++)
        if (!strcmp((*list)[i].name, name))
            return &(*list)[i];
    if (*count >= MOST_NAMES && strcmp(name, others) != 0)
        return entry_of(list, count, others);
    struct ct_left_code *grown = realloc(*list, (*count + 1) * sizeof *grown);
    char *copy = grown ? strdup(name) : NULL;
    *list = grown ? grown : *list;
    if (!copy)
        return NULL;
    grown[*count] = (struct ct_left_code){.name = copy, .reason = reason_of(name)};
    return &grown[(*count)++];
}

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct look *l = arg;
    if (!(map->prot & CT_OS_EXEC) || is_ours(l->r, map) || (map->inode && is_elf(l->r, map)))
        return 0;
    struct ct_left_code *entry = entry_of(&l->seen, &l->count, name_of(map));
    if (!entry)
        return CT_ERR_NO_MEMORY;
    entry->mappings++;
    entry->bytes += map->end - map->start;
    return 0;
}

static void free_list(struct ct_left_code *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(list[i].name);
    free(list);
}

static void keep_most(struct ct_recording *r, const struct look *l) {
    for (size_t i = 0; i < l->count; i++) {
        const struct ct_left_code *now = &l->seen[i];
        struct ct_left_code *entry = entry_of(&r->left.items, &r->left.count, now->name);
        if (!entry)
            return;
        entry->mappings = now->mappings > entry->mappings ? now->mappings : entry->mappings;
        entry->bytes = now->bytes > entry->bytes ? now->bytes : entry->bytes;
    }
}

void ct_recording_look_at_code(struct ct_recording *r) {
    struct look l = {.r = r};
    /* a process that is followed is followed everywhere */
    if (r->session->options.stalk || pthread_mutex_trylock(&r->work))
        return;
    pthread_mutex_lock(&r->mutex); /* for the plans */
    bool there = r->remote && r->plan && r->injection.image && ct_remote_is_alive(r->remote);
    int status = there ? ct_remote_each_map(r->remote, look_at_map, &l) : CT_ERR_NOT_FOUND;
    if (!status && ct_remote_is_alive(r->remote)) /* still the same program */
        keep_most(r, &l);
    pthread_mutex_unlock(&r->mutex);
    pthread_mutex_unlock(&r->work);
    free_list(l.seen, l.count);
}

void ct_recording_free_code(struct ct_recording *r) {
    free_list(r->left.items, r->left.count);
}
