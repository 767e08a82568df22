/* SPDX-License-Identifier: Apache-2.0 */
/* What has been translated: entries by address, fragments by code address, regions of code memory.
 *
 * Invariants: an entry is in the hash exactly while its fragment is not dead. A word of the table is `miss` or the
 * indirect way into a trusted entry. The code of a dead fragment stays, because threads may be in it; they leave it
 * through its exits, which are all unlinked. Owner: the holder of the Stalker's lock. */
#include "isa/machine.h"
#include "stalk/cache.h"
#include "os/os.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/section.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include "stalk/unwind.h"

/* ---- hash of entries ---- */

/* A word is a pointer with 16 bits of the hash above it, so that entries of other addresses are rarely looked at. Bits
 * 32 and up of the hash choose the place; the tag is of those below. */
#define TAG_SHIFT 48

static uint64_t hash_of(uint64_t address) {
    return address * 0x9e3779b97f4a7c15ull;
}

static size_t place_of(uint64_t hash, size_t size) {
    return (size_t)(hash >> 32) & (size - 1);
}

static uint64_t tag_of(uint64_t hash) {
    return (hash >> 16) << TAG_SHIFT;
}

static struct stalk_entry *entry_of(uint64_t word) {
    return (struct stalk_entry *)(word & ((1ull << TAG_SHIFT) - 1));
}

struct stalk_entry *ct_stalk_find(const struct stalk_cache *c, uint64_t address) {
    uint64_t hash = hash_of(address), tag = tag_of(hash);
    for (size_t i = place_of(hash, c->hash_size); c->hash[i]; i = (i + 1) & (c->hash_size - 1))
        if ((c->hash[i] ^ tag) >> TAG_SHIFT == 0 && entry_of(c->hash[i])->address == address)
            return entry_of(c->hash[i]);
    return NULL;
}

static void put(uint64_t *words, size_t size, struct stalk_entry *e) {
    uint64_t hash = hash_of(e->address);
    size_t i = place_of(hash, size);
    while (words[i])
        i = (i + 1) & (size - 1);
    words[i] = (uint64_t)e | tag_of(hash);
}

static int grow(struct stalk_cache *c, size_t size) {
    bool large = size * sizeof(uint64_t) % CT_OS_LARGE == 0;
    uint64_t *words = large ? ct_os_alloc_large(size * sizeof *words, CT_OS_READ | CT_OS_WRITE)
                            : ct_os_alloc(size * sizeof *words, CT_OS_READ | CT_OS_WRITE);
    if (!words)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < c->hash_size; i++)
        if (c->hash[i])
            put(words, size, entry_of(c->hash[i]));
    if (c->hash)
        (void)ct_os_free(c->hash, c->hash_size * sizeof *c->hash);
    c->hash = words;
    c->hash_size = size;
    return CT_OK;
}

int ct_stalk_insert(struct stalk_cache *c, struct stalk_entry *e) {
    if (c->hash_used * 2 >= c->hash_size) {
        int status = grow(c, c->hash_size * 2);
        if (status)
            return status;
    }
    put(c->hash, c->hash_size, e);
    c->hash_used++;
    return CT_OK;
}

/* Entries after the hole move up, so that searches need no tombstones. */
static void erase(struct stalk_cache *c, const struct stalk_entry *e) {
    size_t mask = c->hash_size - 1, i = place_of(hash_of(e->address), c->hash_size);
    while (entry_of(c->hash[i]) != e) {
        if (!c->hash[i])
            return;
        i = (i + 1) & mask;
    }
    c->hash[i] = 0;
    c->hash_used--;
    for (size_t k = (i + 1) & mask; c->hash[k]; k = (k + 1) & mask) {
        struct stalk_entry *moved = entry_of(c->hash[k]);
        c->hash[k] = 0;
        put(c->hash, c->hash_size, moved);
    }
}

/* ---- regions and chunks ---- */

static bool serves(const struct stalk_region *r, uint64_t address) {
    return address >= r->low && address < r->high;
}

static int add_chunk(struct stalk_region *r, size_t size, struct stalk_chunk **out) {
    struct stalk_cache *c = r->cache;
    struct stalk_chunk *chunk = ct_stalk_alloc(&c->lasting, sizeof *chunk);
    if (!chunk)
        return CT_ERR_NO_MEMORY;
    int status = ct_arena_alloc(r->arena, size, 64, &chunk->run, &chunk->write);
    if (status)
        return status;
    chunk->region = r;
    chunk->size = (uint32_t)size;
    chunk->next = c->chunks;
    c->chunks = chunk;
    *out = chunk;
    return CT_OK;
}

/* Returns a chunk that a flush has emptied, or a new one. */
static int next_chunk(struct stalk_region *r, struct stalk_chunk **out) {
    for (struct stalk_chunk *chunk = r->cache->chunks; chunk; chunk = chunk->next)
        if (chunk->region == r && chunk->used == 0 && chunk != r->chunk && chunk != r->cold && chunk != r->warm &&
            chunk != r->cache->return_chunk) {
            *out = chunk;
            return CT_OK;
        }
    return add_chunk(r, STALK_CHUNK, out);
}

/* More code is about to be written: asks for the memory of several pages at once. */
static void make_ready(struct stalk_chunk *chunk) {
    enum { STEP = 64 << 10, SOON = 4 << 10 };
    if (chunk->used + SOON <= chunk->ready || chunk->ready + STEP > chunk->size)
        return;
    if (chunk->write)
        ct_os_populate(chunk->write + chunk->ready, STEP);
    chunk->ready += STEP;
}

int ct_stalk_reserve(struct stalk_region *r, size_t room) {
    enum { COLD_ROOM = 4 << 10 }; /* of one fragment */
    int status = r->chunk->size - r->chunk->used >= room ? CT_OK : next_chunk(r, &r->chunk);
    if (!status && (!r->cold || r->cold->size - r->cold->used < COLD_ROOM))
        status = next_chunk(r, &r->cold);
    if (!status)
        make_ready(r->chunk);
    return status;
}

int ct_stalk_region_with_room(struct stalk_cache *c, uint64_t address, size_t room, struct stalk_region **out) {
    int status = CT_ERR_NO_MEMORY;
    for (unsigned tries = 0; tries < 2 && status; tries++) {
        *out = ct_stalk_region_for(c, address);
        status = *out ? ct_stalk_reserve(*out, room) : CT_ERR_NO_MEMORY;
        if (*out && status)
            (*out)->low = (*out)->high = 0; /* it is full: another one serves these addresses */
    }
    return status;
}

static int take_room(struct stalk_region *r, struct stalk_chunk **chunk, size_t size, uint64_t *run, uint8_t **write) {
    size = (size + 15) & ~(size_t)15;
    int status = *chunk && (*chunk)->size - (*chunk)->used >= size ? CT_OK : next_chunk(r, chunk);
    if (status)
        return status;
    make_ready(*chunk);
    *run = (*chunk)->run + (*chunk)->used;
    *write = (*chunk)->write + (*chunk)->used;
    (*chunk)->used += (uint32_t)size;
    return CT_OK;
}

int ct_stalk_cold_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write) {
    return take_room(r, &r->cold, size, run, write);
}

int ct_stalk_warm_room(struct stalk_region *r, size_t size, uint64_t *run, uint8_t **write) {
    return take_room(r, &r->warm, size, run, write);
}

static int make_region(struct stalk_cache *c, uint64_t address, struct stalk_region **out) {
    struct stalk_region *r = ct_stalk_alloc(&c->lasting, sizeof *r);
    if (!r)
        return CT_ERR_NO_MEMORY;
    r->cache = c;
    r->low = address > STALK_NEIGHBOURS ? address - STALK_NEIGHBOURS : 0;
    r->high = address + STALK_NEIGHBOURS;
    int status = ct_arena_create(&r->arena, r->low, r->high, ct_machine_host()->branch_reach, c->stalker->mode);
    if (status) /* no memory is free nearby: operands out of reach take longer code */
        status = ct_arena_create(&r->arena, 0, ct_os_address_limit(), ct_os_address_limit(), c->stalker->mode);
    if (status)
        return status;
    status = add_chunk(r, STALK_CHUNK, &r->chunk);
    if (status)
        return status;
    size_t size = (size_t)(ct_stalk_code_end - ct_stalk_code);
    r->helpers = r->chunk->run;
    status = ct_arena_write(r->arena, r->helpers, ct_stalk_code, size);
    r->chunk->used = (uint32_t)((size + 63) & ~(size_t)63);
    r->next = c->regions;
    c->regions = r;
    *out = r;
    return status;
}

struct stalk_region *ct_stalk_region_for(struct stalk_cache *c, uint64_t address) {
    for (struct stalk_region *r = c->regions; r; r = r->next)
        if (serves(r, address))
            return r;
    struct stalk_region *r = NULL;
    return make_region(c, address, &r) ? NULL : r;
}

int ct_stalk_place(struct stalk_region *r, struct stalk_fragment *f) {
    struct stalk_chunk *chunk = r->chunk;
    if (chunk->count == chunk->capacity) {
        uint32_t capacity = chunk->capacity ? chunk->capacity * 2 : 256;
        struct stalk_fragment **list = ct_stalk_alloc(&r->cache->pool, capacity * sizeof *list);
        if (!list)
            return CT_ERR_NO_MEMORY;
        ct_stalk_copy(list, chunk->fragments, chunk->count * sizeof *list);
        chunk->fragments = list;
        chunk->capacity = capacity;
    }
    f->next_live = r->cache->live;
    f->link_live = &r->cache->live;
    if (f->next_live)
        f->next_live->link_live = &f->next_live;
    r->cache->live = f;
    __atomic_store_n(&chunk->fragments[chunk->count], f, __ATOMIC_RELEASE);
    __atomic_store_n(&chunk->count, chunk->count + 1, __ATOMIC_RELEASE);
    chunk->used = (uint32_t)(f->code + f->code_size - chunk->run);
    return CT_OK;
}

struct stalk_fragment *ct_stalk_fragment_at(const struct stalk_cache *c, uint64_t pc) {
    for (const struct stalk_chunk *chunk = c->chunks; chunk; chunk = chunk->next) {
        if (pc - chunk->run >= chunk->size)
            continue;
        size_t low = 0, high = chunk->count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            const struct stalk_fragment *f = chunk->fragments[middle];
            if (f->code + f->code_size <= pc)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < chunk->count && chunk->fragments[low]->code <= pc)
            return chunk->fragments[low];
    }
    return NULL;
}

static const struct stalk_region *find_helpers(const struct stalk_cache *c, uint64_t pc) {
    size_t size = (size_t)(ct_stalk_code_end - ct_stalk_code);
    for (const struct stalk_region *r = c ? c->regions : NULL; r; r = r->next)
        if (pc - r->helpers < size)
            return r;
    return NULL;
}

const struct stalk_region *ct_stalk_region_at(const struct stalk_thread *t, uint64_t pc) {
    const struct stalk_region *r = find_helpers(t->cache, pc);
    if (!r)
        r = find_helpers(t->left, pc);
    return r ? r : ct_stalk_landing_region(pc);
}

/* ---- caches ---- */

uint32_t ct_stalk_table_index(const struct ct_stalker *s, uint64_t address) {
    return ct_stalk_hash_target(&s->machine, address);
}

uint32_t ct_stalk_return_index(const struct ct_stalker *s, uint64_t address) {
    return ct_stalk_hash_return(&s->machine, address);
}

static void clear_tables(struct stalk_cache *c) {
    for (size_t i = 0; i < STALK_TABLE_SIZE; i++) {
        c->table[i] = c->miss;
        c->return_table[i] = c->return_miss;
    }
}

static int set_up(struct stalk_cache *c, uint64_t near) {
    struct stalk_region *r;
    int status = grow(c, STALK_HASH_SIZE);
    if (status)
        return status;
    c->table = ct_stalk_alloc_table(2 * STALK_TABLE_SIZE * sizeof *c->table);
    if (!c->table)
        return CT_ERR_NO_MEMORY;
    ct_os_populate(c->table, 2 * STALK_TABLE_SIZE * sizeof *c->table);
    c->return_table = c->table + STALK_TABLE_SIZE;
    status = make_region(c, near, &c->home); /* others are made for the code that needs them */
    if (status)
        return status;
    c->home->low = c->home->high = 0; /* for the return chunk only: it may have to stay mapped */
    r = c->home;
    status = add_chunk(r, STALK_RETURN_ROOM, &c->return_chunk);
    if (status)
        return status;
    c->miss = ct_stalk_helper(r, ct_stalk_miss);
    c->return_miss = ct_stalk_helper(r, ct_stalk_return_miss);
    clear_tables(c);
    return CT_OK;
}

static struct stalk_cache *make_cache(struct ct_stalker *s, uint32_t mask, bool count_calls,
                                      const struct ct_stalker_transformer *transformer) {
    struct stalk_cache *c = ct_os_alloc(sizeof *c, CT_OS_READ | CT_OS_WRITE);
    if (!c)
        return NULL;
    c->stalker = s;
    c->mask = mask;
    c->count_calls = count_calls;
    c->transformer.transform = transformer->transform;
    c->transformer.user = transformer->user;
    c->counter_targets = count_calls ? ct_stalk_alloc(&c->lasting, CT_COUNTERS * sizeof(uint64_t)) : NULL;
    c->pool.bytes = &s->statistics.metadata_bytes;
    if ((count_calls && !c->counter_targets) || set_up(c, (uint64_t)&ct_stalk_engine)) {
        ct_stalk_cache_release(c, true);
        return NULL;
    }
    c->next = s->caches;
    s->caches = c;
    return c;
}

struct stalk_cache *ct_stalk_cache_for(struct ct_stalker *s, uint32_t mask, bool count_calls,
                                       const struct ct_stalker_transformer *transformer) {
    for (struct stalk_cache *c = s->caches; c; c = c->next)
        if (!c->newer && c->mask == mask && c->count_calls == count_calls &&
            c->transformer.transform == transformer->transform && c->transformer.user == transformer->user)
            return c;
    struct stalk_cache *c = make_cache(s, mask, count_calls, transformer);
    if (c && ct_stalk_functions[STALK_DEREGISTER]) /* otherwise this happens when code is excluded */
        ct_stalk_unwind_register(c);
    return c;
}

void ct_stalk_cache_release(struct stalk_cache *c, bool may_call) {
    bool told = c->unwind != NULL;
    bool home = !told || (may_call && ct_stalk_unwind_deregister(c));
    for (struct stalk_region *r = c->regions, *next; r; r = next) {
        next = r->next;
        if (home || r != c->home)
            ct_arena_destroy(r->arena);
    }
    c->regions = home ? NULL : c->home;
    if (c->home)
        c->home->next = NULL;
    if (c->table)
        (void)ct_os_free(c->table, 2 * STALK_TABLE_SIZE * sizeof *c->table);
    if (c->native_table)
        (void)ct_os_free(c->native_table, STALK_TABLE_SIZE * sizeof *c->native_table);
    if (c->hash)
        (void)ct_os_free(c->hash, c->hash_size * sizeof *c->hash);
    c->table = c->native_table = NULL;
    c->hash = NULL;
    struct stalk_ids *ids[] = {&c->exits, &c->sites, &c->callouts};
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (ids[i]->chunks)
            (void)ct_os_free(ids[i]->chunks, STALK_ID_CHUNKS * sizeof(void *));
        ids[i]->chunks = NULL;
    }
    ct_stalk_sections_forget(c);
    ct_stalk_pool_free(&c->pool);
    if (!home && !may_call) { /* freed later, by ct_stalk_destroy */
        c->next = c->stalker->empty;
        c->stalker->empty = c;
        return;
    }
    ct_stalk_pool_free(&c->lasting);
    (void)ct_os_free(c, sizeof *c);
}

static void forget_items(struct stalk_ids *ids) {
    for (uint32_t i = 0; i * STALK_ID_CHUNK < ids->count; i++)
        ids->chunks[i] = NULL;
    ids->count = 0;
}

/* Regions with their helpers, chunks and tables stay. */
uint64_t ct_stalk_cache_flush(struct stalk_cache *c) {
    uint64_t bytes = 0;
    size_t helpers = (size_t)(ct_stalk_code_end - ct_stalk_code + 63) & ~(size_t)63;
    clear_tables(c);
    for (size_t i = 0; i < c->hash_size; i++)
        c->hash[i] = 0;
    c->hash_used = 0;
    ct_stalk_clear_native(c);
    for (struct stalk_chunk *chunk = c->chunks; chunk; chunk = chunk->next) {
        uint32_t keep = chunk->run == chunk->region->helpers ? (uint32_t)helpers : 0;
        bytes += chunk->used - keep;
        chunk->used = keep;
        chunk->fragments = NULL;
        chunk->count = chunk->capacity = 0;
    }
    forget_items(&c->exits);
    forget_items(&c->sites);
    forget_items(&c->callouts);
    c->return_keys = c->return_stubs = NULL;
    c->return_size = c->return_used = 0;
    c->dead_bytes = 0;
    c->live = NULL;
    ct_stalk_sections_forget(c);
    ct_stalk_pool_free(&c->pool);
    return bytes;
}

/* ---- replacing caches ---- */

/* A thread that is no longer followed may still be on its way out, as long as it is alive. */
static bool may_be_in(const struct stalk_thread *t, const struct stalk_cache *c) {
    return (t->cache == c || t->left == c) &&
           (t->following || (t->area && t->area->in_engine) || ct_os_thread_alive(t->tid));
}

static bool is_pinned(const struct ct_stalker *s, const struct stalk_cache *c) {
    for (const struct stalk_thread *t = s->threads; t; t = t->next)
        if (may_be_in(t, c))
            return true;
    return false;
}

static void tell_owners(void *arg, void *vectors) {
    struct stalk_cache *c = arg;
    (void)vectors;
    for (uint32_t id = 1; id < c->callouts.count; id++) {
        const struct stalk_callout *callout = ct_stalk_item(&c->callouts, id);
        if (callout->destroy)
            callout->destroy(callout->data);
    }
}

void ct_stalk_callouts_destroy(struct stalk_cache *c, struct stalk_thread *t) {
    if (c->tells_destroy && t)
        ct_stalk_call_out(t, tell_owners, c);
    else if (c->tells_destroy)
        tell_owners(c, NULL);
    c->tells_destroy = false;
}

uint64_t ct_stalk_cache_sweep(struct ct_stalker *s, struct stalk_thread *t) {
    uint64_t bytes = 0;
    for (struct stalk_cache **link = &s->caches, *c; (c = *link);) {
        if (!c->newer || is_pinned(s, c)) {
            link = &c->next;
            continue;
        }
        for (const struct stalk_chunk *chunk = c->chunks; chunk; chunk = chunk->next)
            bytes += chunk->used;
        for (struct stalk_cache *older = s->caches; older; older = older->next)
            if (older->newer == c)
                older->newer = c->newer;
        for (struct stalk_thread *gone = s->threads; gone; gone = gone->next) { /* those in this cache have ended */
            gone->left = gone->left == c ? NULL : gone->left;
            gone->cache = gone->cache == c ? c->newer : gone->cache;
        }
        *link = c->next;
        ct_stalk_callouts_destroy(c, t);
        ct_stalk_cache_release(c, false);
    }
    return bytes;
}

/* Can no other thread be in the cache's code? */
static bool is_alone(const struct stalk_thread *t) {
    for (const struct stalk_thread *other = t->stalker->threads; other; other = other->next)
        if (other != t && (other->cache == t->cache || other->left == t->cache) &&
            (other->following || (other->area && other->area->in_engine)))
            return false;
    return true;
}

void ct_stalk_cache_renew(struct stalk_thread *t) {
    struct stalk_cache *c = t->cache;
    struct ct_stalker *s = c->stalker;
    ct_stalk_events_drain(t, false); /* the sites of the records go too; sinks may take the lock */
    ct_stalk_lock(s);
    if (c->dead_bytes > STALK_GARBAGE && !c->newer && is_alone(t)) {
        ct_stalk_callouts_destroy(c, t);
        (void)ct_stalk_cache_flush(c);
    } else if (c->dead_bytes > STALK_GARBAGE && !c->newer && !s->keeps_sites && !ct_stalk_has_excluded(s)) {
        /* Not with excluded code: anything may hold the address of a return stub. */
        c->newer = make_cache(s, c->mask, c->count_calls, &c->transformer);
    }
    if (c->newer) {
        ct_stalk_events_change_over(t);
        (void)ct_stalk_cache_sweep(s, t);
    }
    ct_stalk_unlock(s);
}

/* ---- invalidation ---- */

void ct_stalk_invalidate_fragment(struct stalk_cache *c, struct stalk_fragment *f) {
    if (f->flags & FRAGMENT_DEAD)
        return;
    f->flags = (uint16_t)((f->flags | FRAGMENT_DEAD) & ~FRAGMENT_TRUSTED);
    c->stalker->statistics.invalidated++;
    c->dead_bytes += f->code_size;
    *f->link_live = f->next_live;
    if (f->next_live)
        f->next_live->link_live = f->link_live;
    for (struct stalk_entry *e = &f->first; e; e = e->next) {
        erase(c, e);
        uint64_t *word = &c->table[ct_stalk_table_index(c->stalker, e->address)];
        if (e->indirect && *word == e->indirect)
            __atomic_store_n(word, c->miss, __ATOMIC_RELEASE);
        word = &c->return_table[ct_stalk_return_index(c->stalker, e->address)];
        if (e->returns && *word == e->returns)
            __atomic_store_n(word, c->return_miss, __ATOMIC_RELEASE);
        for (uint32_t id = e->incoming, next; id; id = next) {
            next = ((struct stalk_exit *)ct_stalk_item(&c->exits, id))->next;
            ct_stalk_unlink(c, id);
        }
        e->incoming = 0;
    }
    for (uint32_t id = f->callouts; id;) {
        struct stalk_callout *callout = ct_stalk_item(&c->callouts, id);
        callout->dead = 1;
        id = callout->next;
    }
}

void ct_stalk_invalidate_range(struct stalk_cache *c, uint64_t start, uint64_t end) {
    for (struct stalk_fragment *f = c->live, *next; f; f = next) {
        next = f->next_live;
        if ((f->first.address < end && start < f->first.address + f->length) ||
            (f->relies_from < end && start < f->relies_to) ||
            (f->constant && f->constant < end && start < f->constant + 8))
            ct_stalk_invalidate_fragment(c, f);
    }
}
