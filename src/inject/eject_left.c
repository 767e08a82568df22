/* SPDX-License-Identifier: Apache-2.0 */
/* See eject_left.h. */
#include "inject/eject_left.h"
#include "os/os.h"
#include "remote/frames.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define MOST_RESERVED (1ull << 40)

static void add_range(struct ct_left *l, uint64_t start, uint64_t size) {
    if (size && l->count < sizeof l->list / sizeof l->list[0])
        l->list[l->count++] = (struct ct_boot_region){start, size};
}

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct ct_left *l = arg;
    if (!map->shared || map->offset || strncmp(map->path, "/memfd:contrail", 15) != 0 ||
        ct_remote_read(l->remote, map->start, &l->control, sizeof l->control) || l->control.magic != CT_SHM_MAGIC ||
        l->control.version != CT_SHM_VERSION)
        return 0;
    l->lane = map->start;
    add_range(l, map->start, map->end - map->start);
    return 1;
}

/* A region that was mapped; `ours`: it is still as we mapped it. */
struct region {
    uint64_t start, size;
    bool ours;
};

static int look_for_region(void *arg, const struct ct_os_map *map) {
    struct region *r = arg;
    bool inside = map->start <= r->start && r->start < map->end && r->size <= map->end - r->start;
    r->ours |= inside && !map->inode && !map->path[0] && map->prot == (CT_OS_READ | CT_OS_EXEC);
    return inside;
}

static void add_regions(struct ct_left *l) {
    struct ct_shm_regions *regions = malloc(sizeof *regions);
    if (!regions || ct_remote_read(l->remote, l->lane + CT_SHM_REGIONS_OFFSET, regions, sizeof *regions))
        regions = (free(regions), NULL);
    for (uint64_t i = 0; regions && i < regions->count && i < CT_SHM_REGIONS; i++) {
        struct region r = {regions->list[i].start, regions->list[i].size, false};
        (void)ct_remote_each_map(l->remote, look_for_region, &r);
        add_range(l, r.start, r.ours ? r.size : 0);
    }
    free(regions);
}

int ct_left_find(struct ct_left *l, struct ct_remote *remote) {
    *l = (struct ct_left){.remote = remote};
    int found = ct_remote_each_map(remote, look_at_map, l);
    if (found <= 0)
        return found < 0 ? found : CT_ERR_NOT_FOUND;
    uint64_t reserved = l->control.reserved == l->lane ? l->control.reserved_size : 0;
    if (reserved > l->list[0].size && reserved < MOST_RESERVED)
        l->list[0].size = reserved;
    add_regions(l);
    return 0;
}

static bool is_left(const void *left, uint64_t pc) {
    const struct ct_left *l = left;
    for (size_t i = 0; i < l->count; i++)
        if (pc - l->list[i].start < l->list[i].size)
            return true;
    return false;
}

bool ct_left_is_entered(struct ct_left *l) {
    return ct_remote_comes_to(l->remote, is_left, l);
}

/* The shared memory comes last: as long as it is there the rest can be found. */
int ct_left_unmap(struct ct_left *l) {
    int64_t result;
    int status = 0;
    for (size_t i = l->count; !status && i-- > 0;) {
        const uint64_t a[6] = {l->list[i].start, l->list[i].size};
        status = ct_remote_syscall(l->remote, SYS_munmap, a, &result);
    }
    return status;
}
