/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for functions: see names.h. */
#include "view/names.h"
#include "base/grow.h"
#include "symbols/short_name.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1024 };

struct entry {
    struct ct_table_key key;
    uint32_t number; /* plus one; 0: new */
};

void ct_view_names_begin(struct ct_view_names *names) {
    *names = (struct ct_view_names){0};
    pthread_mutex_init(&names->lock, NULL);
}

void ct_view_names_free(struct ct_view_names *n) {
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]->name);
        free(n->items[i]->brief);
        free(n->items[i]->module);
        free(n->items[i]);
    }
    free(n->items);
    free(n->slots);
    ct_table_free(&n->numbers, NULL);
    pthread_mutex_destroy(&n->lock);
}

/* ---- texts ---- */

/* A copy that ends with dots where it was too long, and never inside a character. */
static char *cut(const char *text) {
    size_t length = strlen(text);
    char *copy = malloc(CT_VIEW_NAME + 8);
    if (!copy)
        return NULL;
    bool whole = length <= CT_VIEW_NAME;
    if (!whole)
        for (length = CT_VIEW_NAME; length && ((uint8_t)text[length] & 0xc0) == 0x80; length--) {
        }
    memcpy(copy, text, length);
    memcpy(copy + length, whole ? "" : "…", whole ? 1 : sizeof "…");
    return copy;
}

static struct ct_view_name *new_name(const struct ct_cached_function *known, size_t process, uint64_t function) {
    struct ct_view_name *item = calloc(1, sizeof *item);
    char *brief = strlen(known->name) <= CT_VIEW_NAME ? ct_shorter_name(known->name, "…") : NULL;
    if (!item) {
        free(brief);
        return NULL;
    }
    *item = (struct ct_view_name){.name = cut(known->name),
                                  .brief = cut(brief ? brief : known->name),
                                  .module = cut(known->module),
                                  .process = process,
                                  .function = function};
    free(brief);
    if (item->name && item->brief && item->module)
        return item;
    free(item->name);
    free(item->brief);
    free(item->module);
    free(item);
    return NULL;
}

/* ---- names ---- */

static uint64_t hash_of(const char *name, const char *module) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    for (; *module; module++)
        hash = (hash ^ (uint8_t)*module) * 0x100000001b3u + 1;
    return hash;
}

static bool grow_slots(struct ct_view_names *n) {
    size_t count = n->slot_count ? 2 * n->slot_count : FIRST_SLOTS;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < n->count; i++) {
        size_t at = hash_of(n->items[i]->name, n->items[i]->module) & (count - 1);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(n->slots);
    n->slots = slots;
    n->slot_count = count;
    return true;
}

/* The number plus one; 0: no memory. Names that differ only after the cut are one. */
static uint32_t unite(struct ct_view_names *n, struct ct_view_name *item) {
    if (2 * n->count >= n->slot_count && !grow_slots(n))
        return 0;
    size_t at = hash_of(item->name, item->module) & (n->slot_count - 1);
    for (; n->slots[at]; at = (at + 1) & (n->slot_count - 1)) {
        const struct ct_view_name *other = n->items[n->slots[at] - 1];
        if (!strcmp(other->name, item->name) && !strcmp(other->module, item->module))
            return n->slots[at];
    }
    if (!ct_grow(&n->items, &n->room, n->count, sizeof *n->items, 256))
        return 0;
    n->items[n->count++] = item;
    return n->slots[at] = (uint32_t)n->count;
}

static uint32_t learn(struct ct_view_names *n, size_t process, uint64_t function, struct ct_function_cache *cache) {
    const struct ct_cached_function *known = ct_function_cache_get(cache, process, function);
    struct ct_view_name *item = known ? new_name(known, process, function) : NULL;
    uint32_t number = item ? unite(n, item) : 0;
    if (item && (!number || n->items[number - 1] != item)) {
        free(item->name);
        free(item->brief);
        free(item->module);
        free(item);
    }
    return number;
}

uint32_t ct_view_names_number(struct ct_view_names *n, size_t process, uint64_t function,
                              struct ct_function_cache *cache) {
    pthread_mutex_lock(&n->lock);
    struct entry *entry = ct_table_get(&n->numbers, process, function, sizeof *entry);
    if (entry && !entry->number)
        entry->number = learn(n, process, function, cache);
    uint32_t number = entry ? entry->number - 1 : UINT32_MAX;
    pthread_mutex_unlock(&n->lock);
    return number;
}

const struct ct_view_name *ct_view_names_get(struct ct_view_names *n, uint32_t number) {
    pthread_mutex_lock(&n->lock);
    const struct ct_view_name *item = number < n->count ? n->items[number] : NULL;
    pthread_mutex_unlock(&n->lock);
    return item;
}

bool ct_view_names_is(struct ct_view_names *n, uint32_t number, size_t process, uint64_t function,
                      struct ct_function_cache *cache) {
    return ct_view_names_number(n, process, function, cache) == number;
}
