/* SPDX-License-Identifier: Apache-2.0 */
/* Links between fragments: which exit leads where, and what leads to an entry. link_<isa>.c has the code of them.
 *
 * A direct branch is linked by one store, an indirect one by one 8-byte store into the table; threads may be running
 * the code meanwhile. Owner: the holder of the Stalker's lock. */
#include "stalk/link.h"
#include "os/os.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"

/* ---- patches ---- */

/* The address where this code can be written; NULL: it cannot be written directly. */
static void *place_of(struct stalk_region *r, uint64_t run) {
    if (ct_arena_mode(r->arena) == CT_WX_PROTECT)
        return NULL;
    (void)ct_arena_unshare(r->arena);
    for (struct stalk_chunk *chunk = r->cache->chunks; chunk; chunk = chunk->next)
        if (run - chunk->run < chunk->size)
            return chunk->write + (run - chunk->run);
    return NULL;
}

/* Patches `size` bytes that lie in one aligned word. */
void ct_stalk_patch_word(struct stalk_region *r, uint64_t run, const void *bytes, size_t size) {
    uint64_t start = run & ~7ull, word = *(const uint64_t *)start;
    ct_stalk_copy((uint8_t *)&word + (run & 7), bytes, size);
    uint64_t *place = place_of(r, start);
    if (place) {
        __atomic_store_n(place, word, __ATOMIC_RELEASE);
        ct_os_sync_code(start, sizeof word);
    } else {
        (void)ct_arena_store8(r->arena, start, word);
    }
}

void ct_stalk_patch32(struct stalk_region *r, uint64_t run, uint32_t value) {
    uint32_t *place = place_of(r, run);
    if (place) {
        __atomic_store_n(place, value, __ATOMIC_RELEASE);
        ct_os_sync_code(run, sizeof value);
    } else {
        ct_stalk_patch_word(r, run, &value, sizeof value);
    }
}

/* ---- direct branches ---- */

void ct_stalk_link(struct stalk_cache *c, uint32_t id, struct stalk_entry *entry) {
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    uint64_t to = e->linked ? 0 : ct_stalk_link_target(e, entry);
    if (!to)
        return;
    e->linked = 1;
    e->next = entry->incoming;
    entry->incoming = id;
    c->stalker->statistics.links++;
    ct_stalk_set_exit(e, to);
}

/* ---- inline caches ---- */

/* An inline cache is code that compares the target with each of some. It is written again for each new one, because
 * threads may be in the old code. The branch jumps to it. A branch without targets jumps to its stub. The jump of a
 * crowded branch becomes a nop, and the thread reaches the table lookup after it: one more jump would be one more for
 * the processor to remember when it predicts the jump through the table. */

static void empty_site(struct stalk_cache *c, struct stalk_exit *site) {
    for (uint32_t id = site->cached; id;) {
        struct stalk_exit *link = ct_stalk_item(&c->exits, id);
        link->linked = 0; /* the link stays in the list of its entry */
        id = link->cached;
    }
    site->cached = 0;
    site->count = 0;
}

/* Returns the address of the code, or 0. */
static uint64_t make_compares(struct stalk_cache *c, const struct stalk_exit *site) {
    const struct stalk_entry *targets[STALK_MAX_INLINE];
    unsigned n = 0;
    for (uint32_t id = site->cached; id; n++) {
        const struct stalk_exit *link = ct_stalk_item(&c->exits, id);
        targets[n] = ct_stalk_find(c, link->target);
        if (!targets[n])
            return 0;
        id = link->cached;
    }
    return ct_stalk_make_compares(c, site, targets, n);
}

void ct_stalk_take_table(struct stalk_cache *c, uint32_t id) {
    struct stalk_exit *site = ct_stalk_item(&c->exits, id);
    if (site->crowded)
        return;
    for (uint32_t at = site->cached; at;) {
        const struct stalk_exit *link = ct_stalk_item(&c->exits, at);
        struct stalk_entry *e = ct_stalk_find(c, link->target);
        if (e && ct_stalk_trusted(e))
            ct_stalk_publish(c, e);
        at = link->cached;
    }
    empty_site(c, site);
    site->crowded = 1;
    c->stalker->statistics.crowded++;
    ct_stalk_open_exit(site);
}

static bool is_cached(const struct stalk_cache *c, const struct stalk_exit *site, uint64_t target) {
    for (uint32_t id = site->cached; id;) {
        const struct stalk_exit *link = ct_stalk_item(&c->exits, id);
        if (link->target == target)
            return true;
        id = link->cached;
    }
    return false;
}

static bool add_link(struct stalk_cache *c, struct stalk_exit *site, uint32_t id, struct stalk_entry *entry) {
    uint32_t link_id = ct_stalk_new_item(&c->pool, &c->exits, sizeof(struct stalk_exit));
    if (!link_id)
        return false;
    struct stalk_exit *link = ct_stalk_item(&c->exits, link_id);
    link->target = entry->address;
    link->site = id;
    link->linked = 1;
    link->next = entry->incoming;
    entry->incoming = link_id;
    link->cached = site->cached;
    site->cached = link_id;
    site->count++;
    return true;
}

void ct_stalk_cache_target(struct stalk_cache *c, uint32_t id, struct stalk_entry *entry) {
    struct stalk_exit *site = ct_stalk_item(&c->exits, id);
    if (!site->crowded && is_cached(c, site, entry->address))
        return; /* another thread was quicker */
    uint64_t code = 0;
    if (!site->crowded && site->count < c->stalker->inline_entries && site->refills < STALK_MOST_REFILLS &&
        add_link(c, site, id, entry))
        code = make_compares(c, site);
    if (code) {
        c->stalker->statistics.cached++;
        ct_stalk_set_exit(site, code);
        return;
    }
    ct_stalk_publish(c, entry);
    ct_stalk_take_table(c, id);
}

static void unlink_cached(struct stalk_cache *c, struct stalk_exit *link) {
    struct stalk_exit *site = ct_stalk_item(&c->exits, link->site);
    link->next = 0;
    if (!link->linked)
        return;
    empty_site(c, site);
    site->refills++;
    ct_stalk_set_exit(site, site->stub);
}

void ct_stalk_unlink(struct stalk_cache *c, uint32_t id) {
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    if (e->site) {
        unlink_cached(c, e);
        return;
    }
    e->linked = 0;
    e->next = 0;
    ct_stalk_set_exit(e, e->stub);
}

/* ---- the tables ---- */

void ct_stalk_publish(struct stalk_cache *c, struct stalk_entry *e) {
    if (!e->indirect)
        e->indirect = ct_stalk_make_way_in(e, false);
    if (e->indirect)
        __atomic_store_n(&c->table[ct_stalk_table_index(c->stalker, e->address)], e->indirect, __ATOMIC_RELEASE);
}

void ct_stalk_publish_return(struct stalk_cache *c, struct stalk_entry *e) {
    if (!ct_stalk_return_way_fits(c, e))
        e->returns = ct_stalk_make_way_in(e, true);
    if (e->returns)
        __atomic_store_n(&c->return_table[ct_stalk_return_index(c->stalker, e->address)], e->returns, __ATOMIC_RELEASE);
}

/* ---- code by address ---- */

static size_t return_slot(const struct stalk_cache *c, uint64_t address) {
    size_t i = (size_t)(address * 0x9e3779b97f4a7c15ull >> 24) & (c->return_size - 1);
    while (c->return_keys[i] && c->return_keys[i] != address)
        i = (i + 1) & (c->return_size - 1);
    return i;
}

static int grow_returns(struct stalk_cache *c) {
    size_t old = c->return_size, size = old ? old * 2 : 256;
    uint64_t *keys = c->return_keys, *stubs = c->return_stubs;
    uint64_t *new_keys = ct_stalk_alloc(&c->pool, size * sizeof *keys);
    uint64_t *new_stubs = ct_stalk_alloc(&c->pool, size * sizeof *stubs);
    if (!new_keys || !new_stubs)
        return CT_ERR_NO_MEMORY;
    c->return_keys = new_keys;
    c->return_stubs = new_stubs;
    c->return_size = size;
    for (size_t i = 0; i < old; i++)
        if (keys[i]) {
            size_t k = return_slot(c, keys[i]);
            new_keys[k] = keys[i];
            new_stubs[k] = stubs[i];
        }
    return CT_OK;
}

uint64_t *ct_stalk_stub_place(struct stalk_cache *c, uint64_t key) {
    if (c->return_used * 2 >= c->return_size && grow_returns(c))
        return NULL;
    size_t i = return_slot(c, key);
    c->return_used += !c->return_keys[i];
    c->return_keys[i] = key;
    return &c->return_stubs[i];
}
