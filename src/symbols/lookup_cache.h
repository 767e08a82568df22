/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of symbol lookups: bounded memory, least recently used entries are evicted first, everything is counted.
 * One owner. */
#ifndef CT_SYMBOLS_LOOKUP_CACHE_H
#define CT_SYMBOLS_LOOKUP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_lookup_cache_stats {
    uint64_t hits, misses, evictions;
    uint64_t entries, bytes, limit;
};

struct ct_lookup_cache;
/* `limit` 0: nothing is kept. */
struct ct_lookup_cache *ct_lookup_cache_create(uint64_t limit);
void ct_lookup_cache_destroy(struct ct_lookup_cache *cache);

/* The value of the key; NULL: none. Valid until the next put. Counts a hit or a miss. */
const void *ct_lookup_cache_get(struct ct_lookup_cache *cache, uint64_t module, uint64_t offset, size_t *size);
/* Copies the value. One that is larger than the whole cache is not kept. The key must not be in the cache. */
void ct_lookup_cache_put(struct ct_lookup_cache *cache, uint64_t module, uint64_t offset, const void *bytes,
                         size_t size);

struct ct_lookup_cache_stats ct_lookup_cache_stats(const struct ct_lookup_cache *cache);

#endif
