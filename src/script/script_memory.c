/* SPDX-License-Identifier: Apache-2.0 */
/* The target's memory: read and written as it is, and memory of ours in it. */
#include "base/grow.h"
#include "isa/machine.h"
#include "os/os.h"
#include "script/script_guest.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define CHUNK 4096u

static int not_mapped(struct ct_script *s, uint64_t address, const char *what) {
    return ct_script_fail(s, CT_ERR_NOT_MAPPED, "access violation %s 0x%llx", what, (unsigned long long)address);
}

int ct_script_read(struct ct_script *s, uint64_t address, void *bytes, size_t size) {
    if (size > UINT64_MAX - address || ct_remote_read(s->remote, address, bytes, size))
        return not_mapped(s, address, "reading");
    return 0;
}

int64_t ct_script_read_some(struct ct_script *s, uint64_t address, void *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        size_t part = CHUNK - (size_t)((address + done) % CHUNK);
        part = part < size - done ? part : size - done;
        if (ct_remote_read(s->remote, address + done, (uint8_t *)bytes + done, part))
            break;
        done += part;
    }
    return (int64_t)done;
}

/* Nothing is written when the last byte cannot be. */
int ct_script_write(struct ct_script *s, uint64_t address, const void *bytes, size_t size) {
    uint8_t byte;
    if (!size)
        return 0;
    if (size > UINT64_MAX - address || ct_remote_read(s->remote, address + size - 1, &byte, 1) ||
        ct_remote_write(s->remote, address, bytes, size))
        return not_mapped(s, address, "writing");
    return 0;
}

/* ---- vector registers, as the listener's frame has them ---- */

#define VECTOR 16u

static uint64_t vector_at(struct ct_script *s, const struct ct_script_request *request, unsigned n) {
    const struct ct_machine *m = ct_machine_host();
    uint64_t offset = m->vectors_at + (uint64_t)VECTOR * n;
    if (n < m->vector_count && request->vectors && offset + VECTOR <= request->vectors_size)
        return request->vectors + offset;
    (void)ct_script_fail(s, CT_ERR_INVALID_ARGUMENT, "there is no vector register %u here", n);
    return 0;
}

int ct_script_read_vector(struct ct_script *s, const struct ct_script_request *request, unsigned n, void *bytes) {
    uint64_t at = vector_at(s, request, n);
    return at ? ct_script_read(s, at, bytes, VECTOR) : CT_ERR_INVALID_ARGUMENT;
}

int ct_script_write_vector(struct ct_script *s, const struct ct_script_request *request, unsigned n,
                           const void *bytes) {
    const struct ct_machine *m = ct_machine_host();
    uint64_t at = vector_at(s, request, n), used_at = request->vectors + m->vectors_used_at;
    uint8_t used = 0;
    if (!at)
        return CT_ERR_INVALID_ARGUMENT;
    int status = m->vectors_used ? ct_script_read(s, used_at, &used, sizeof used) : 0;
    used |= m->vectors_used;
    if (!status && m->vectors_used)
        status = ct_script_write(s, used_at, &used, sizeof used);
    return status ? status : ct_script_write(s, at, bytes, VECTOR);
}

/* ---- system calls of the target ---- */

/* By a thread that waits, or under a stop. *result is the kernel's. */
static int call(struct ct_script *s, uint32_t slot, long number, const uint64_t a[6], int64_t *result) {
    bool was;
    int status;
    (void)slot;
    pthread_mutex_lock(&s->work);
    status = ct_script_stop(s, &was);
    if (!status) {
        ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
        status = ct_remote_syscall(s->remote, number, a, result);
        ct_remote_limit(s->remote, 0, NULL, NULL);
        ct_script_go_on(s, was);
    }
    pthread_mutex_unlock(&s->work);
    return status ? ct_script_fail(s, status, "the process cannot make a system call now") : 0;
}

static int refused(struct ct_script *s, const char *what, int64_t result) {
    switch (-result) {
    case EACCES:
    case EPERM:
        return ct_script_fail(s, CT_ERR_PERMISSION_DENIED, "%s: the system refuses this protection", what);
    case ENOMEM:
        return ct_script_fail(s, CT_ERR_NO_MEMORY, "%s: no memory, or not mapped", what);
    case EEXIST:
        return ct_script_fail(s, CT_ERR_BUSY, "%s: something is there", what);
    default:
        return ct_script_fail(s, CT_ERR_SYSTEM, "%s: error %d", what, (int)-result);
    }
}

/* ---- memory of ours ---- */

struct gap_search {
    uint64_t near, size, before, best;
};

static void consider(struct gap_search *g, uint64_t start, uint64_t end) {
    if (end <= start || end - start < g->size)
        return;
    uint64_t at = g->near < start ? start : g->near > end - g->size ? end - g->size : g->near & ~(uint64_t)(CHUNK - 1);
    uint64_t distance = at > g->near ? at - g->near : g->near - at;
    uint64_t best = g->best > g->near ? g->best - g->near : g->near - g->best;
    if (!g->best || distance < best)
        g->best = at;
}

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct gap_search *g = arg;
    consider(g, g->before, map->start > ct_os_page_size() ? map->start - ct_os_page_size() : map->start);
    g->before = map->end + ct_os_page_size();
    return 0;
}

#define LOWEST 0x10000u
#define NEAR   (1ull << 30)

static uint64_t find_near(struct ct_script *s, uint64_t near, uint64_t size) {
    struct gap_search g = {.near = near, .size = size, .before = LOWEST};
    (void)ct_remote_each_map(s->remote, look_at_map, &g);
    uint64_t distance = g.best > near ? g.best - near : near - g.best;
    return distance < NEAR - size ? g.best : 0;
}

static uint64_t whole_pages(uint64_t size) {
    uint64_t page = ct_os_page_size();
    return (size + page - 1) / page * page;
}

static int keep(struct ct_script *s, uint64_t address, uint64_t size) {
    pthread_mutex_lock(&s->work);
    bool room = ct_grow(&s->memory, &s->memory_room, s->memory_count, sizeof *s->memory, 16);
    if (room) {
        struct ct_script_memory memory = {address, size, 0};
        if (s->guest)
            ct_script_guest_list(s, &memory);
        s->memory[s->memory_count++] = memory;
    }
    pthread_mutex_unlock(&s->work);
    return room ? 0 : CT_ERR_NO_MEMORY;
}

int ct_script_alloc(struct ct_script *s, uint32_t slot, uint64_t near, uint64_t size, uint32_t protection,
                    uint64_t *address) {
    int64_t result = 0;
    uint64_t bytes = whole_pages(size ? size : 1), at = near ? find_near(s, near, bytes) : 0;
    const uint64_t a[6] = {at,         bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0),
                           UINT64_MAX, 0};
    if (bytes < size)
        return ct_script_fail(s, CT_ERR_INVALID_ARGUMENT, "the size is not valid");
    if (near && !at)
        return ct_script_fail(s, CT_ERR_OUT_OF_RANGE, "no free memory near 0x%llx", (unsigned long long)near);
    int status = call(s, slot, SYS_mmap, a, &result);
    if (status || (result < 0 && result > -4096))
        return status ? status : refused(s, "memory cannot be allocated", result);
    *address = (uint64_t)result;
    return keep(s, *address, bytes);
}

int ct_script_free(struct ct_script *s, uint32_t slot, uint64_t address) {
    int64_t result = 0;
    uint64_t size = 0;
    pthread_mutex_lock(&s->work);
    for (size_t i = 0; i < s->memory_count && !size; i++)
        if (s->memory[i].address == address) {
            size = s->memory[i].size;
            ct_script_guest_unlist(s, &s->memory[i]);
            s->memory[i] = s->memory[--s->memory_count];
        }
    pthread_mutex_unlock(&s->work);
    const uint64_t a[6] = {address, size};
    if (!size)
        return ct_script_fail(s, CT_ERR_NOT_FOUND, "0x%llx was not allocated by the script",
                              (unsigned long long)address);
    return call(s, slot, SYS_munmap, a, &result);
}

struct protection_search {
    uint64_t address;
    uint32_t protection;
};

static int find_protection(void *arg, const struct ct_os_map *map) {
    struct protection_search *p = arg;
    if (p->address < map->start || p->address >= map->end)
        return 0;
    p->protection = map->prot;
    return 1;
}

int ct_script_protect(struct ct_script *s, uint32_t slot, uint64_t address, uint64_t size, uint32_t protection,
                      uint32_t *before) {
    uint64_t page = ct_os_page_size(), start = address / page * page, end = whole_pages(address + size);
    const uint64_t a[6] = {start, end - start, protection};
    struct protection_search p = {.address = address};
    int64_t result = 0;
    if (ct_remote_each_map(s->remote, find_protection, &p) <= 0)
        return not_mapped(s, address, "protecting");
    int status = call(s, slot, SYS_mprotect, a, &result);
    if (status || result < 0)
        return status ? status : refused(s, "the protection cannot be changed", result);
    if (before)
        *before = p.protection;
    return 0;
}
