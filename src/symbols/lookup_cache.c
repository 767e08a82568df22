/* SPDX-License-Identifier: Apache-2.0 */
/* An LRU cache: a hash table with chains, and a list of all entries in the order of their last use. */
#include "symbols/lookup_cache.h"
#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry *newer, *older; /* in the list */
    struct entry *next;          /* in its chain */
    uint64_t module, offset;
    size_t size;
    char bytes[];
};

struct ct_lookup_cache {
    struct entry **chains;
    size_t chain_count; /* a power of two */
    struct entry *newest, *oldest;
    struct ct_lookup_cache_stats stats;
};

struct ct_lookup_cache *ct_lookup_cache_create(uint64_t limit) {
    struct ct_lookup_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->stats.limit = limit;
    cache->chain_count = 64;
    cache->chains = calloc(cache->chain_count, sizeof *cache->chains);
    if (cache->chains)
        return cache;
    free(cache);
    return NULL;
}

void ct_lookup_cache_destroy(struct ct_lookup_cache *cache) {
    if (!cache)
        return;
    for (struct entry *e = cache->newest, *older; e; e = older) {
        older = e->older;
        free(e);
    }
    free(cache->chains);
    free(cache);
}

static struct entry **chain_of(const struct ct_lookup_cache *cache, uint64_t module, uint64_t offset) {
    uint64_t hash = (module * 0x9e3779b97f4a7c15u ^ offset) * 0xff51afd7ed558ccdu;
    return &cache->chains[(hash ^ hash >> 32) & (cache->chain_count - 1)];
}

static uint64_t cost_of(size_t size) {
    return sizeof(struct entry) + size + 2 * sizeof(void *); /* includes what malloc and the chains take */
}

/* ---- the list ---- */

static void unlink_entry(struct ct_lookup_cache *cache, struct entry *e) {
    *(e->newer ? &e->newer->older : &cache->newest) = e->older;
    *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
}

static void link_newest(struct ct_lookup_cache *cache, struct entry *e) {
    e->newer = NULL;
    e->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
    cache->newest = e;
}

static void evict_oldest(struct ct_lookup_cache *cache) {
    struct entry *e = cache->oldest, **at = chain_of(cache, e->module, e->offset);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_entry(cache, e);
    cache->stats.bytes -= cost_of(e->size);
    cache->stats.entries--;
    cache->stats.evictions++;
    free(e);
}

/* ---- the table ---- */

/* Without memory for a larger table, the chains get longer. */
static void widen_table(struct ct_lookup_cache *cache) {
    size_t old_count = cache->chain_count;
    struct entry **old = cache->chains, **chains = calloc(2 * old_count, sizeof *chains);
    if (!chains)
        return;
    cache->chains = chains;
    cache->chain_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++)
        for (struct entry *e = old[i], *next; e; e = next) {
            struct entry **chain = chain_of(cache, e->module, e->offset);
            next = e->next;
            e->next = *chain;
            *chain = e;
        }
    free(old);
}

const void *ct_lookup_cache_get(struct ct_lookup_cache *cache, uint64_t module, uint64_t offset, size_t *size) {
    for (struct entry *e = *chain_of(cache, module, offset); e; e = e->next) {
        if (e->module != module || e->offset != offset)
            continue;
        unlink_entry(cache, e);
        link_newest(cache, e);
        cache->stats.hits++;
        *size = e->size;
        return e->bytes;
    }
    cache->stats.misses++;
    return NULL;
}

void ct_lookup_cache_put(struct ct_lookup_cache *cache, uint64_t module, uint64_t offset, const void *bytes,
                         size_t size) {
    uint64_t cost = cost_of(size);
    if (cost > cache->stats.limit)
        return;
    while (cache->stats.bytes + cost > cache->stats.limit)
        evict_oldest(cache);
    struct entry *e = malloc(sizeof *e + size);
    if (!e)
        return;
    if (cache->stats.entries >= cache->chain_count)
        widen_table(cache);
    struct entry **chain = chain_of(cache, module, offset);
    *e = (struct entry){.next = *chain, .module = module, .offset = offset, .size = size};
    memcpy(e->bytes, bytes, size);
    *chain = e;
    link_newest(cache, e);
    cache->stats.bytes += cost;
    cache->stats.entries++;
}

struct ct_lookup_cache_stats ct_lookup_cache_stats(const struct ct_lookup_cache *cache) {
    return cache->stats;
}
