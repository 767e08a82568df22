/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the Stalker: pools, numbered items, mappings of the process. */
#ifndef CT_STALK_MEMORY_H
#define CT_STALK_MEMORY_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;

enum {
    STALK_ID_CHUNK = 4096, /* items per chunk of numbered items */
    STALK_ID_CHUNKS = 1 << 14,
};

/* Memory that is only freed all at once. */
struct stalk_pool {
    void *blocks;
    uint8_t *block;
    size_t used, size, ready; /* ready: so far memory was asked for */
    uint64_t *bytes;          /* if not NULL, counts the bytes allocated */
};

/* Items that generated code names by number. They never move. */
struct stalk_ids {
    void **chunks;
    uint32_t count, item_size;
};

void ct_stalk_lock(struct ct_stalker *s);
void ct_stalk_unlock(struct ct_stalker *s);
/* Returns zeroed memory. NULL: out of memory. */
void *ct_stalk_alloc(struct stalk_pool *pool, size_t size);
void ct_stalk_pool_free(struct stalk_pool *pool);
/* Returns zeroed memory for a table of addresses, where the code that reads it can name it. NULL: out of memory. */
void *ct_stalk_alloc_table(size_t size);
static inline void *ct_stalk_item(const struct stalk_ids *ids, uint32_t id) {
    return (uint8_t *)ids->chunks[id / STALK_ID_CHUNK] + (size_t)(id % STALK_ID_CHUNK) * ids->item_size;
}
/* Returns the number of a new item; 0, which is never used: out of memory. */
uint32_t ct_stalk_new_item(struct stalk_pool *pool, struct stalk_ids *ids, uint32_t item_size);
/* Eight bytes anywhere. There is no memcpy here. */
struct stalk_word {
    uint64_t value;
} __attribute__((packed, may_alias));
static inline void ct_stalk_copy(void *to, const void *from, size_t n) {
    uint8_t *t = to;
    const uint8_t *f = from;
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t))
        ((struct stalk_word *)(t + i))->value = ((const struct stalk_word *)(f + i))->value;
    for (; i < n; i++)
        t[i] = f[i];
}
static inline bool ct_stalk_same(const void *a, const void *b, size_t n) {
    const uint8_t *x = a, *y = b;
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t))
        if (((const struct stalk_word *)(x + i))->value != ((const struct stalk_word *)(y + i))->value)
            return false;
    for (; i < n; i++)
        if (x[i] != y[i])
            return false;
    return true;
}
/* Is there executable code at pc? Also returns where its mapping ends, and whether it may change at any time. */
bool ct_stalk_executable(struct ct_stalker *s, uint64_t pc, uint64_t *end, bool *changes);
/* Is the code there, which ct_stalk_executable has found, a file's? */
bool ct_stalk_is_file(const struct ct_stalker *s, uint64_t pc);
/* Does an aligned word of 8 bytes lie where it can only change as code can: by a system call? */
bool ct_stalk_constant(struct ct_stalker *s, uint64_t address);
/* May fragments rely on words in this range? */
bool ct_stalk_touches_constants(const struct ct_stalker *s, uint64_t start, uint64_t end);
void ct_stalk_forget_maps(struct ct_stalker *s);
/* Reads the mappings, unless they are known. */
void ct_stalk_know_maps(struct ct_stalker *s);

#endif
