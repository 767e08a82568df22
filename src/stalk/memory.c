/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a Stalker: its lock, a pool that only grows, numbered items, and what is known of the process's mappings.
 *
 * Owner: the holder of the lock, except for the lock itself. */
#include "stalk/memory.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/stalker.h"
#include "stalk/translate.h"

#define POOL  (1u << 20)   /* the first block of a pool: many need no other */
#define AHEAD (128u << 10) /* memory is asked for in steps: a page fault for each page costs more */

void ct_stalk_lock(struct ct_stalker *s) {
    unsigned spins = 0;
    while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE)) { /* released by ct_stalk_unlock */
        if (++spins % 64 == 0)
            ct_os_sleep_us(20);
        ct_os_relax();
    }
}

void ct_stalk_unlock(struct ct_stalker *s) {
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

struct pool {
    struct pool *next;
    size_t size;
};

static void *add_block(struct stalk_pool *pool, size_t size) {
    struct pool *p = size == CT_OS_LARGE ? ct_os_alloc_large(size, CT_OS_READ | CT_OS_WRITE)
                                         : ct_os_alloc(size, CT_OS_READ | CT_OS_WRITE);
    if (!p)
        return NULL;
    p->next = pool->blocks;
    p->size = size;
    pool->blocks = p;
    return p;
}

void *ct_stalk_alloc(struct stalk_pool *pool, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (pool->bytes)
        *pool->bytes += size;
    if (size > POOL / 4) {
        uint8_t *p = add_block(pool, (size + 16 + ct_os_page_size() - 1) & ~(ct_os_page_size() - 1));
        return p ? p + 16 : NULL;
    }
    if (pool->size - pool->used < size) {
        size_t room = pool->block ? CT_OS_LARGE : POOL;
        uint8_t *p = add_block(pool, room);
        if (!p)
            return NULL;
        pool->block = p;
        pool->size = room;
        pool->used = 16;
        pool->ready = 0;
    }
    void *result = pool->block + pool->used;
    pool->used += size;
    while (pool->used > pool->ready) {
        ct_os_populate(pool->block + pool->ready, AHEAD);
        pool->ready += AHEAD;
    }
    return result;
}

void ct_stalk_pool_free(struct stalk_pool *pool) {
    for (struct pool *p = pool->blocks, *next; p; p = next) {
        next = p->next;
        (void)ct_os_free(p, p->size);
    }
    pool->blocks = NULL;
    pool->block = NULL;
    pool->used = pool->size = 0;
}

void *ct_stalk_alloc_table(size_t size) {
    uint64_t spare = STALK_TABLE_ALIGN - 1;
    uint64_t memory = (uint64_t)ct_os_alloc_low(size + spare, CT_OS_READ | CT_OS_WRITE);
    if (!memory || !spare)
        return (void *)memory;
    uint64_t start = (memory + spare) & ~spare, before = start - memory;
    uint64_t after = ((spare + ct_os_page_size() - 1) & ~(ct_os_page_size() - 1)) - before;
    if (before)
        (void)ct_os_free((void *)memory, before);
    if (after)
        (void)ct_os_free((void *)(start + size), after);
    return (void *)start;
}

uint32_t ct_stalk_new_item(struct stalk_pool *pool, struct stalk_ids *ids, uint32_t item_size) {
    if (!ids->chunks) {
        ids->chunks = ct_os_alloc(STALK_ID_CHUNKS * sizeof *ids->chunks, CT_OS_READ | CT_OS_WRITE);
        if (!ids->chunks)
            return 0;
    }
    ids->item_size = item_size;
    ids->count += !ids->count;
    uint32_t chunk = ids->count / STALK_ID_CHUNK;
    if (chunk == STALK_ID_CHUNKS)
        return 0;
    if (!ids->chunks[chunk] && !(ids->chunks[chunk] = ct_stalk_alloc(pool, (size_t)STALK_ID_CHUNK * item_size)))
        return 0;
    return ids->count++;
}

/* ---- mappings ---- */

static void add_constant(struct ct_stalker *s, const struct ct_os_map *map) {
    if (map->prot != CT_OS_READ || map->shared || !map->inode || s->constant_count == STALK_MAX_CONSTANTS)
        return;
    s->constants[s->constant_count++] = (struct stalk_range){map->start, map->end};
}

/* Adjacent mappings of the same kind become one. */
static int add_map(void *arg, const struct ct_os_map *map) {
    struct ct_stalker *s = arg;
    add_constant(s, map);
    struct stalk_map *last = s->map_count ? &s->maps[s->map_count - 1] : NULL;
    bool changes = map->prot & CT_OS_WRITE || map->shared;
    if (!(map->prot & CT_OS_EXEC))
        return 0;
    if (last && last->end == map->start && (last->changes == changes || s->map_count == STALK_MAX_MAPS)) {
        last->end = map->end;
        last->changes |= changes;
        last->file &= map->inode != 0;
        return 0;
    }
    if (s->map_count == STALK_MAX_MAPS)
        return 0;
    struct stalk_map *m = &s->maps[s->map_count++];
    m->start = map->start;
    m->end = map->end;
    m->changes = changes;
    m->file = map->inode != 0;
    return 0;
}

void ct_stalk_forget_maps(struct ct_stalker *s) {
    s->map_count = 0;
    s->map_turn++;
}

static void read_maps(struct ct_stalker *s) {
    s->map_count = s->constant_count = 0;
    s->map_turn++;
    s->constants_old = false;
    (void)ct_os_each_map(add_map, s);
}

void ct_stalk_know_maps(struct ct_stalker *s) {
    if (!s->map_count)
        read_maps(s);
}

static const struct stalk_map *find_map(const struct ct_stalker *s, uint64_t pc) {
    size_t low = 0, high = s->map_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->maps[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->map_count && s->maps[low].start <= pc ? &s->maps[low] : NULL;
}

bool ct_stalk_executable(struct ct_stalker *s, uint64_t pc, uint64_t *end, bool *changes) {
    const struct stalk_map *m = find_map(s, pc);
    if (!m) {
        read_maps(s);
        m = find_map(s, pc);
    }
    if (!m)
        return false;
    *end = m->end;
    *changes = m->changes;
    const struct stalk_map *next = m + 1 < s->maps + s->map_count ? m + 1 : NULL;
    if (next && next->start == m->end) /* an instruction may lie across the border */
        *end += STALK_MOST_ACROSS;
    return true;
}

bool ct_stalk_is_file(const struct ct_stalker *s, uint64_t pc) {
    const struct stalk_map *m = find_map(s, pc);
    return m && m->file;
}

static bool touches_constants(const struct ct_stalker *s, uint64_t start, uint64_t end) {
    uint32_t low = 0, high = s->constant_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->constants[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->constant_count && s->constants[low].start < end;
}

/* A list without room has lost some that it had. */
bool ct_stalk_touches_constants(const struct ct_stalker *s, uint64_t start, uint64_t end) {
    return s->constant_count == STALK_MAX_CONSTANTS || touches_constants(s, start, end);
}

bool ct_stalk_constant(struct ct_stalker *s, uint64_t address) {
    if (address % 8 || s->written_to)
        return false;
    if (!s->map_count || (s->constants_old && !touches_constants(s, address, address + 8)))
        read_maps(s);
    return touches_constants(s, address, address + 8);
}
