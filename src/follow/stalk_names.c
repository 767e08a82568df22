/* SPDX-License-Identifier: Apache-2.0 */
/* Names of what a followed program calls. An entry of the agent's table keeps the name that it got first.
 *
 * A thread that reaches code outside of all known mappings waits in the agent until we have looked
 * (ct_stalk_every_pass), so libraries that are loaded later have names too. Owner: the drain thread, while there is
 * one. */
#include "base/grow.h"
#include "follow/stalk_internal.h"
#include "isa/linkage.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules ---- */

struct search {
    uint64_t address;
    struct ct_stalk_found found;
};

static void look_in_module(void *arg, const struct ct_target_module *m) {
    struct search *s = arg;
    if (s->found.module || m->gone || s->address < m->start || s->address >= m->end)
        return;
    const char *slash = strrchr(m->path, '/');
    s->found.module = m->id;
    s->found.bias = m->bias;
    snprintf(s->found.path, sizeof s->found.path, "%s", slash ? slash + 1 : m->path);
    uint64_t offset = s->address - m->bias;
    size_t low = 0, high = m->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->functions[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    const struct ct_target_function *f = low ? &m->functions[low - 1] : NULL;
    if (!f || (f->offset != offset && offset - f->offset >= f->size))
        return;
    s->found.id = (uint64_t)m->id << 32 | (low - 1);
    s->found.at_start = f->offset == offset;
    s->found.linkage = f->skip == CT_HOOK_SKIP_PLT;
}

struct ct_stalk_found ct_stalk_look_up(struct ct_recording *r, uint64_t address) {
    struct search s = {.address = address};
    pthread_mutex_lock(&r->mutex);
    ct_recording_each_module(r, look_in_module, &s);
    pthread_mutex_unlock(&r->mutex);
    return s.found;
}

/* Linkage stubs and parts of other functions do not count as functions. */
static bool is_part(uint8_t skip) {
    return skip == CT_HOOK_SKIP_PLT || skip == CT_HOOK_SKIP_COLD || skip == CT_HOOK_SKIP_FRAGMENT ||
           skip == CT_HOOK_SKIP_ODD_ENTRY;
}

void ct_stalk_plan(struct ct_target_plan *plan) {
    for (size_t i = 0; i < plan->module_count; i++) {
        struct ct_target_module *m = &plan->modules[i];
        m->hooked = m->entry_only = 0;
        for (int k = 1; k < CT_HOOK_SKIP_COUNT; k++)
            m->skipped[k] = is_part((uint8_t)k) ? m->skipped[k] : 0;
        for (size_t k = 0; k < m->function_count; k++) {
            struct ct_target_function *f = &m->functions[k];
            f->skip = is_part(f->skip) ? f->skip : 0;
            f->entry_only = 0;
            m->hooked += !f->skip;
        }
    }
}

/* ---- mappings ---- */

static int add_map(void *arg, const struct ct_os_map *map) {
    struct ct_stalk *s = arg;
    if (!(map->prot & CT_OS_EXEC))
        return 0;
    if (!ct_grow(&s->maps, &s->map_room, s->map_count, sizeof *s->maps, 64))
        return 0;
    struct ct_stalk_map *m = &s->maps[s->map_count++];
    *m = (struct ct_stalk_map){.start = map->start, .end = map->end};
    snprintf(m->name, sizeof m->name, "%.60s", map->path[0] == '[' ? map->path : "");
    return 0;
}

void ct_stalk_read_maps(struct ct_recording *r) {
    struct ct_stalk *s = r->stalk;
    struct ct_stalk_tables *t = s->tables;
    uint32_t count = 0;
    s->map_count = 0;
    if (ct_remote_each_map(r->remote, add_map, s) < 0)
        return;
    /* Threads read the list meanwhile. If a range seems to be missing for a moment, they ask once more. */
    for (size_t i = 0; i < s->map_count && count < CT_STALK_RANGES; i++) {
        if (count && s->maps[i - 1].end == s->maps[i].start) {
            __atomic_store_n(&t->ranges[count - 1][1], s->maps[i].end, __ATOMIC_RELAXED);
            continue;
        }
        __atomic_store_n(&t->ranges[count][0], s->maps[i].start, __ATOMIC_RELAXED);
        __atomic_store_n(&t->ranges[count++][1], s->maps[i].end, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&t->range_count, count, __ATOMIC_RELEASE);
}

/* ---- before modules change ---- */

struct ct_stalk_settled ct_stalk_settle(struct ct_recording *r, struct ct_stalk_settled *place, uint64_t address) {
    if (!place->known) {
        struct ct_stalk_found found = ct_stalk_look_up(r, address);
        *place = (struct ct_stalk_settled){.module = found.module, .bias = found.bias, .known = true};
    }
    return *place;
}

/* What is in the tables so far belongs to the modules that we know. Code that came since is not in them: a thread that
 * reaches it waits for us. */
void ct_stalk_settle_all(struct ct_recording *r) {
    struct ct_stalk *s = r->stalk;
    if (!s || !s->tables)
        return;
    const struct ct_stalk_target *targets = ct_stalk_targets(s);
    const struct ct_stalk_place *blocks = ct_stalk_blocks(s);
    struct ct_stalk_walk walk = ct_stalk_walk_targets(r);
    for (uint32_t i; ct_stalk_walk_on(&walk, &i);)
        if (__atomic_load_n(&targets[i].key, __ATOMIC_ACQUIRE))
            (void)ct_stalk_resolve(r, i);
    walk = ct_stalk_walk_blocks(r);
    for (uint32_t i; ct_stalk_walk_on(&walk, &i);)
        if (__atomic_load_n(&blocks[i].start, __ATOMIC_ACQUIRE))
            (void)ct_stalk_settle(r, &s->places->blocks[i], CT_STALK_ADDRESS(blocks[i].start));
    ct_stalk_settle_code(r);
}

/* Was code unmapped since our last look? */
static bool is_unmapped(struct ct_stalk *s) {
    uint64_t before = s->unmapped;
    s->unmapped = __atomic_load_n(&s->tables->unmapped, __ATOMIC_ACQUIRE);
    return s->unmapped != before;
}

bool ct_stalk_every_pass(void *arg) {
    struct ct_recording *r = arg;
    struct ct_stalk_tables *t = r->stalk->tables;
    /* Not while another thread uses the remote: when it leaves the target, no thread of the target waits for an
     * answer. */
    if (!__atomic_load_n(&t->asked, __ATOMIC_ACQUIRE) || pthread_mutex_trylock(&r->work))
        return false;
    pthread_mutex_unlock(&r->work);
    if (is_unmapped(r->stalk))
        ct_stalk_settle_all(r);
    __atomic_store_n(&t->asked, 0, __ATOMIC_RELEASE); /* a thread that asks from now on gets another look */
    (void)ct_recording_update_modules(r);
    ct_stalk_read_maps(r);
    __atomic_fetch_add(&t->looks, 1, __ATOMIC_RELEASE);
    return true;
}

/* ---- targets ---- */

static const struct ct_stalk_map *map_of(const struct ct_stalk *s, uint64_t address) {
    for (size_t i = 0; i < s->map_count; i++)
        if (address >= s->maps[i].start && address < s->maps[i].end)
            return &s->maps[i];
    return NULL;
}

/* Adds a function of module 0. Returns 0 when out of memory. */
static uint64_t add_nameless(struct ct_stalk *s, uint64_t address, const struct ct_stalk_found *found) {
    if (!ct_grow(&s->nameless, &s->nameless_room, s->nameless_count, sizeof *s->nameless, 64))
        return 0;
    struct ct_stalk_nameless *n = &s->nameless[s->nameless_count++];
    const struct ct_stalk_map *map = found->module ? NULL : map_of(s, address);
    n->address = address;
    if (found->module)
        snprintf(n->name, sizeof n->name, "%.64s+%#" PRIx64, found->path, address - found->bias);
    else if (map && map->name[0])
        snprintf(n->name, sizeof n->name, "%s+%#" PRIx64, map->name, address - map->start);
    else
        snprintf(n->name, sizeof n->name, "%#" PRIx64, address);
    return s->nameless_count; /* function numbers start at 1 */
}

/* Where the jump of a linkage stub leads now; 0: it is no such stub, or is not bound. */
static uint64_t linkage_target(struct ct_recording *r, uint64_t address) {
    uint8_t code[16];
    uint64_t to = 0;
    uint64_t word =
        ct_remote_read(r->remote, address, code, sizeof code) ? 0 : ct_linkage_word(code, sizeof code, address);
    return word && !ct_remote_read(r->remote, word, &to, sizeof to) ? to : 0;
}

static uint64_t name_target(struct ct_recording *r, uint64_t address, uint64_t jump_target) {
    struct ct_stalk_found here = ct_stalk_look_up(r, address);
    if (here.at_start && !here.linkage)
        return here.id;
    if (!jump_target || jump_target == address)
        jump_target = linkage_target(r, address);
    if (jump_target && jump_target != address) {
        struct ct_stalk_found there = ct_stalk_look_up(r, jump_target);
        if (there.at_start && !there.linkage)
            return there.id;
    }
    return here.id ? here.id : add_nameless(r->stalk, address, &here);
}

uint64_t ct_stalk_resolve(void *arg, uint32_t number) {
    struct ct_recording *r = arg;
    struct ct_stalk *s = r->stalk;
    if (number >= CT_STALK_TARGETS)
        return 0;
    if (!s->places->ids[number]) {
        const struct ct_stalk_target *t = &ct_stalk_targets(s)[number];
        s->places->ids[number] =
            name_target(r, CT_STALK_ADDRESS(t->key), __atomic_load_n(&t->address, __ATOMIC_ACQUIRE));
    }
    return s->places->ids[number];
}

/* ---- the symbols file ---- */

#define NO_MODULE "no symbol"

void ct_stalk_put_symbols(struct ct_recording *r, struct ct_symbols_writer *w, bool all) {
    struct ct_stalk *s = r->stalk;
    if (!s || !s->nameless_count)
        return;
    size_t first = all ? 0 : s->nameless_written;
    if (!first)
        ct_symbols_writer_module(w, 0, NO_MODULE, "", 0);
    for (size_t i = first; i < s->nameless_count; i++)
        ct_symbols_writer_function(w, i + 1, s->nameless[i].address, 0, s->nameless[i].name, "", "");
    s->nameless_written = s->nameless_count;
}

bool ct_stalk_has_new_symbols(const struct ct_recording *r) {
    return r->stalk && r->stalk->nameless_count != r->stalk->nameless_written;
}
