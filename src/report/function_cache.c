/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a trace, looked up once. */
#include "report/function_cache.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_wanted(const struct ct_select *select, const struct ct_cached_function *k,
                      const struct ct_trace_function *f) {
    const char *const *lists[] = {select->only, select->exclude};
    bool fits[2];
    for (int i = 0; i < 2; i++)
        fits[i] = lists[i] && (ct_select_by(lists[i], k->module) ||
                               (f ? ct_select_function(lists[i], f) : ct_select_by(lists[i], k->name)));
    return (!select->only || fits[0]) && !fits[1];
}

/* False: out of memory. */
static bool copy_texts(struct ct_cached_function *k) {
    size_t name = strlen(k->name) + 1, module = strlen(k->module) + 1;
    k->copy = malloc(name + module);
    if (!k->copy)
        return false;
    k->name = memcpy(k->copy, k->name, name);
    k->module = memcpy(k->copy + name, k->module, module);
    return true;
}

static bool learn_function(const struct ct_function_cache *t, struct ct_cached_function *k) {
    uint64_t id = k->key.function;
    const struct ct_trace_function *f =
        t->find ? t->find(t->find_arg, k->key.process, id) : ct_trace_function(t->trace, k->key.process, id);
    if (!f)
        snprintf(k->made_name, sizeof k->made_name, "function_%u_%u", (unsigned)(id >> 32), (unsigned)id);
    k->function = f;
    k->name = f ? f->name : k->made_name;
    k->module = f ? f->module : "";
    k->entry_only = f && f->entry_only;
    k->function_fits = f ? ct_select_function(t->select->functions, f) : ct_select_by(t->select->functions, k->name);
    k->module_fits = ct_select_by(t->select->modules, k->module) && is_wanted(t->select, k, f);
    if (!t->find || !f)
        return true;
    k->function = NULL;
    return copy_texts(k);
}

const struct ct_cached_function *ct_function_cache_get(struct ct_function_cache *t, size_t process, uint64_t function) {
    struct ct_cached_function *known = ct_table_get(&t->table, process, function, sizeof *known);
    if (known && (!known->name || (t->find && !known->copy)) && !learn_function(t, known))
        return NULL;
    return known;
}

/* The first function with this module, name and offset. */
struct first {
    struct ct_table_key by_hash;
    const struct ct_cached_function *known;
};

static uint64_t hash_text(uint64_t hash, const char *text) {
    do
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull; /* FNV-1a */
    while (*text++);
    return hash;
}

const struct ct_cached_function *ct_function_cache_united(struct ct_function_cache *t, size_t process,
                                                          uint64_t function) {
    struct ct_cached_function *known = (struct ct_cached_function *)ct_function_cache_get(t, process, function);
    if (!known || !known->function || known->united || ct_trace_process_count(t->trace) < 2)
        return known && known->united ? known->united : known;
    uint64_t hash = 0xcbf29ce484222325ull ^ known->function->offset;
    hash = hash_text(hash_text(hash, known->module), known->name);
    struct first *first = ct_table_get(&t->firsts, 0, hash, sizeof *first);
    if (first && !first->known)
        first->known = known;
    return known->united = first ? first->known : NULL;
}

static void release_known(void *thing) {
    free(((struct ct_cached_function *)thing)->copy);
}

void ct_function_cache_free(struct ct_function_cache *t) {
    ct_table_free(&t->table, release_known);
    ct_table_free(&t->firsts, NULL);
}
