/* SPDX-License-Identifier: Apache-2.0 */
/* The Stalker's public functions, except those that follow threads (thread.c, others.c). */
#include "stalk/stalker.h"
#include "base/sized.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/others.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include "stalk/unwind.h"

/* hook/module.h, which is not freestanding */
extern void (*ct_hook_on_change)(uint64_t start, size_t size) __attribute__((weak));

extern const uint8_t __start_ct_stalk_text[] __attribute__((visibility("hidden")));
extern const uint8_t __stop_ct_stalk_text[] __attribute__((visibility("hidden")));

#define DEFAULT_CAPACITY 16384
#define DEFAULT_INLINE   4
#define DEFAULT_INTERVAL 250

/* Is the calling thread in a callback? A callback holds the lock, or runs in the middle of code that expects no
 * changes. */
static bool in_callback(void) {
    struct stalk_thread *t = ct_stalk_thread_enter();
    bool inside = t && t->in_callback;
    if (t)
        ct_stalk_area_leave(t->area);
    return inside;
}

static struct ct_stalker *all;
static uint32_t all_lock;

static void lock_all(void) {
    while (__atomic_exchange_n(&all_lock, 1, __ATOMIC_ACQUIRE)) /* released by unlock_all */
        ct_os_relax();
}

static void unlock_all(void) {
    __atomic_store_n(&all_lock, 0, __ATOMIC_RELEASE);
}

void ct_stalk_list_in_child(void) {
    unlock_all();
}

static void drop_code(struct ct_stalker *s, uint64_t start, uint64_t end) {
    s->map_turn++; /* nothing that is known of this code holds any more */
    for (struct stalk_cache *c = s->caches; c; c = c->next)
        ct_stalk_invalidate_range(c, start, end);
}

STALK_API void ct_stalk_code_changed(uint64_t start, size_t size) {
    lock_all();
    for (struct ct_stalker *s = all; s; s = s->next) {
        ct_stalk_lock(s);
        drop_code(s, start, start + size);
        ct_stalk_unlock(s);
    }
    unlock_all();
}

/* Our own functions run natively: all of the library's if it is a shared library, else the Stalker's public
 * functions. */
static int find_library(void *arg, const struct ct_os_map *map) {
    struct stalk_range *range = arg;
    static const char name[] = "libcontrail";
    const char *base = map->path;
    if ((uint64_t)&ct_stalk_engine - map->start >= map->end - map->start)
        return 0;
    for (const char *p = map->path; *p; p++)
        if (*p == '/')
            base = p + 1;
    size_t same = 0;
    while (same < sizeof name - 1 && base[same] == name[same])
        same++;
    if (same == sizeof name - 1) {
        range->start = map->start;
        range->end = map->end;
    }
    return 1;
}

STALK_API int ct_stalker_create(struct ct_stalker **out, const struct ct_stalker_options *options) {
    struct ct_stalker_options own;
    int status = ct_sized_copy_in(&own, sizeof own, options);
    if (status)
        return status;
    if (!out || own.memory > CT_STALKER_MEMORY_PROTECT || own.inline_cache_entries < -1 ||
        own.inline_cache_entries > STALK_MAX_INLINE)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_stalker *s = ct_os_alloc(sizeof *s, CT_OS_READ | CT_OS_WRITE);
    if (!s)
        return CT_ERR_NO_MEMORY;
    s->pid = ct_os_getpid();
    s->mode = (enum ct_wx_mode)own.memory;
    s->queue_capacity = own.queue_capacity ? (uint32_t)own.queue_capacity : DEFAULT_CAPACITY;
    s->drain_interval_ns = (uint64_t)(own.drain_interval_ms ? own.drain_interval_ms : DEFAULT_INTERVAL) * 1000000;
    s->follow_children = own.follow_children;
    int entries = own.inline_cache_entries ? own.inline_cache_entries : DEFAULT_INLINE;
    s->inline_entries = entries < 0 ? 0 : (uint8_t)entries;
    s->trust = 1;
    ct_stalk_machine_find(&s->machine);
    ct_stalk_find_functions();
    if (!ct_os_vectors(&s->vectors)) {
        (void)ct_os_free(s, sizeof *s);
        return CT_ERR_UNSUPPORTED;
    }
    s->excluded[0].start = (uint64_t)__start_ct_stalk_text;
    s->excluded[0].end = (uint64_t)__stop_ct_stalk_text;
    (void)ct_os_each_map(find_library, &s->excluded[0]);
    s->excluded_count = 1;
    lock_all();
    s->next = all;
    all = s;
    unlock_all();
    if (&ct_hook_on_change) /* the agent has no such variable */
        ct_hook_on_change = ct_stalk_code_changed;
    *out = s;
    return CT_OK;
}

int ct_stalk_destroy(struct ct_stalker *s) {
    if (__atomic_load_n(&s->followed, __ATOMIC_ACQUIRE))
        return CT_ERR_BUSY;
    lock_all();
    struct ct_stalker **link = &all;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
    unlock_all();
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        ct_stalk_thread_free(t);
    for (struct stalk_cache *c = s->caches, *next; c; c = next) {
        next = c->next;
        ct_stalk_callouts_destroy(c, NULL);
        ct_stalk_cache_release(c, true);
    }
    for (struct stalk_cache *c = s->empty, *next; c; c = next) {
        next = c->next;
        ct_stalk_cache_release(c, true);
    }
    ct_stalk_pool_free(&s->pool);
    (void)ct_os_free(s, sizeof *s);
    return CT_OK;
}

STALK_API int ct_stalker_destroy(struct ct_stalker *s) {
    if (!s)
        return CT_OK;
    return ct_stalk_wait_until_left(s) ? CT_ERR_BUSY : ct_stalk_destroy(s);
}

static void insert_excluded(struct ct_stalker *s, uint32_t at, uint64_t start, uint64_t end) {
    for (uint32_t i = s->excluded_count; i > at; i--) {
        s->excluded[i].end = s->excluded[i - 1].end;
        s->excluded[i].start = s->excluded[i - 1].start;
    }
    s->excluded[at].start = start;
    s->excluded[at].end = end;
    s->excluded_count++;
}

STALK_API int ct_stalker_exclude(struct ct_stalker *s, uint64_t start, uint64_t size) {
    if (!s || !size || start + size < start)
        return CT_ERR_INVALID_ARGUMENT;
    if (in_callback())
        return CT_ERR_BAD_STATE;
    int status = CT_OK;
    ct_stalk_lock(s);
    uint32_t at = ct_stalk_excluded_after(s, start);
    if ((at > 1 && s->excluded[at - 1].end > start) || (at < s->excluded_count && s->excluded[at].start < start + size))
        status = CT_ERR_INVALID_ARGUMENT;
    if (!status && s->excluded_count == STALK_MAX_EXCLUDED)
        status = CT_ERR_NO_SPACE;
    if (!status) {
        bool first = !ct_stalk_has_excluded(s);
        insert_excluded(s, at, start, start + size);
        drop_code(s, first ? 0 : start, first ? ~0ull : start + size); /* nothing is constant any more: lower_x64.c */
        for (unsigned i = STALK_SETJMP; i <= STALK_SIGSETJMP; i++)
            drop_code(s, ct_stalk_functions[i], ct_stalk_functions[i] + 1);
    }
    ct_stalk_unlock(s);
    return status;
}

struct module_search {
    const char *name;
    struct stalk_range ranges[16];
    unsigned count;
};

static bool names(const char *path, const char *name) {
    const char *base = path;
    bool whole = false;
    for (const char *p = name; *p; p++)
        whole |= *p == '/';
    for (const char *p = path; *p && !whole; p++)
        if (*p == '/')
            base = p + 1;
    while (*base && *base == *name)
        base++, name++;
    return *base == *name;
}

static int match_module(void *arg, const struct ct_os_map *map) {
    struct module_search *search = arg;
    if ((map->prot & CT_OS_EXEC) && names(map->path, search->name) && search->count < 16) {
        search->ranges[search->count].start = map->start;
        search->ranges[search->count++].end = map->end;
    }
    return 0;
}

STALK_API int ct_stalker_exclude_module(struct ct_stalker *s, const char *module) {
    struct module_search search;
    if (!s || !module || !*module)
        return CT_ERR_INVALID_ARGUMENT;
    search.name = module;
    search.count = 0;
    (void)ct_os_each_map(match_module, &search);
    if (!search.count)
        return CT_ERR_NOT_FOUND;
    for (unsigned i = 0; i < search.count; i++) {
        int status = ct_stalker_exclude(s, search.ranges[i].start, search.ranges[i].end - search.ranges[i].start);
        if (status)
            return status;
    }
    return CT_OK;
}

STALK_API int ct_stalker_set_trust_threshold(struct ct_stalker *s, int threshold) {
    if (!s || threshold < -1)
        return CT_ERR_INVALID_ARGUMENT;
    if (in_callback())
        return CT_ERR_BAD_STATE;
    ct_stalk_lock(s);
    if (s->trust != threshold) {
        s->trust = threshold;
        drop_code(s, 0, ~0ull); /* what is linked now was trusted by the old threshold */
    }
    ct_stalk_unlock(s);
    return CT_OK;
}

STALK_API int ct_stalker_trust_threshold(struct ct_stalker *s) {
    return s->trust;
}

STALK_API int ct_stalker_invalidate(struct ct_stalker *s, uint64_t address) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (in_callback())
        return CT_ERR_BAD_STATE;
    ct_stalk_lock(s);
    drop_code(s, address, address + 1);
    ct_stalk_unlock(s);
    return CT_OK;
}

/* ---- probes ---- */

STALK_API int ct_stalker_add_call_probe(struct ct_stalker *s, uint64_t target, ct_stalker_callout *callout, void *data,
                                        void (*destroy)(void *data)) {
    uint64_t end;
    bool changes;
    if (!s || !callout)
        return CT_ERR_INVALID_ARGUMENT;
    if (in_callback())
        return CT_ERR_BAD_STATE;
    int result = CT_ERR_NO_SPACE;
    ct_stalk_lock(s);
    if (!ct_stalk_executable(s, target, &end, &changes))
        result = CT_ERR_NOT_MAPPED;
    else if (s->probe_count < STALK_MAX_PROBES) {
        struct stalk_probe *p = &s->probes[s->probe_count];
        p->target = target;
        p->fn = callout;
        p->data = data;
        p->destroy = destroy;
        p->users = 1;
        p->used = true;
        result = (int)s->probe_count++;
        drop_code(s, target, target + 1);
    }
    ct_stalk_unlock(s);
    return result;
}

void ct_stalk_probe_leave(struct stalk_probe *p) {
    if (!__atomic_sub_fetch(&p->users, 1, __ATOMIC_ACQ_REL) && p->destroy)
        p->destroy(p->data);
}

STALK_API int ct_stalker_remove_call_probe(struct ct_stalker *s, int probe) {
    if (!s || in_callback())
        return s ? CT_ERR_BAD_STATE : CT_ERR_INVALID_ARGUMENT;
    ct_stalk_lock(s);
    struct stalk_probe *p = probe >= 0 && (uint32_t)probe < s->probe_count ? &s->probes[probe] : NULL;
    bool found = p && p->used;
    if (found) {
        p->used = false;
        drop_code(s, p->target, p->target + 1);
    }
    ct_stalk_unlock(s);
    if (found)
        ct_stalk_probe_leave(p);
    return found ? CT_OK : CT_ERR_NOT_FOUND;
}

/* ---- the rest ---- */

STALK_API int ct_stalker_is_following(struct ct_stalker *s, int tid) {
    if (!s || tid < 0)
        return CT_ERR_INVALID_ARGUMENT;
    if (tid == 0)
        tid = ct_os_gettid();
    int result = 0;
    for (struct stalk_thread *t = s->threads; t; t = t->next)
        result |= t->tid == tid && t->following == 1;
    return result;
}

STALK_API int ct_stalker_flush(struct ct_stalker *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    struct stalk_thread *t = ct_stalk_thread_enter();
    if (!t)
        return CT_OK;
    int status = t->in_callback ? CT_ERR_BAD_STATE : CT_OK;
    if (!status && t->stalker == s && t->following == 1)
        ct_stalk_events_drain(t, true);
    ct_stalk_area_leave(t->area);
    return status;
}

/* Is a thread in the cache? One that was unfollowed may still be on its way out. */
static bool is_used(const struct ct_stalker *s, const struct stalk_cache *c) {
    for (const struct stalk_thread *t = s->threads; t; t = t->next)
        if (t->cache == c && (t->following || (t->area && t->area->in_engine)))
            return true;
    return false;
}

STALK_API int64_t ct_stalker_garbage_collect(struct ct_stalker *s) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    if (in_callback())
        return CT_ERR_BAD_STATE;
    int64_t bytes = 0;
    if (ct_stalk_has_starting(s))
        return 0;
    ct_stalk_lock(s);
    bytes += (int64_t)ct_stalk_cache_sweep(s, NULL);
    for (struct stalk_cache *c = s->caches; c; c = c->next)
        if (!is_used(s, c)) {
            ct_stalk_callouts_destroy(c, NULL);
            bytes += (int64_t)ct_stalk_cache_flush(c);
        }
    ct_stalk_unlock(s);
    return bytes;
}

/* Drops events until the thread reaches `target`, or forever (0). */
static int mute(struct ct_stalker *s, uint64_t target) {
    struct stalk_thread *t = ct_stalk_thread_enter();
    if (!t)
        return CT_ERR_BAD_STATE;
    int status = t->stalker != s || t->following != 1 || t->in_callback ? CT_ERR_BAD_STATE : CT_OK;
    if (!status) {
        ct_stalk_events_drain(t, false);
        ct_stalk_lock(s);
        t->activation = target;
        t->muted = 1;
        if (target)
            drop_code(s, target, target + 1);
        ct_stalk_unlock(s);
    }
    ct_stalk_area_leave(t->area);
    return status;
}

STALK_API int ct_stalker_activate(struct ct_stalker *s, uint64_t target) {
    return s && target ? mute(s, target) : CT_ERR_INVALID_ARGUMENT;
}

STALK_API int ct_stalker_deactivate(struct ct_stalker *s) {
    return s ? mute(s, 0) : CT_ERR_INVALID_ARGUMENT;
}

STALK_API int ct_stalker_event_of(const char *name) {
    static const struct {
        const char *text;
        int bit;
    } list[] = {
#define CT_STALKER_EVENT_ROW(name, bit, text) {text, bit},
        CT_STALKER_EVENT_LIST(CT_STALKER_EVENT_ROW)
#undef CT_STALKER_EVENT_ROW
    };
    for (size_t i = 0; name && i < sizeof list / sizeof *list; i++) {
        const char *a = name, *b = list[i].text;
        while (*a && *a == *b)
            a++, b++;
        if (*a == *b)
            return list[i].bit;
    }
    return CT_ERR_NOT_FOUND;
}

_Static_assert(CT_STALKER_END_COUNT <= CT_STALKER_END_ROOM, "ends has no room for another one");

STALK_API int ct_stalker_statistics(struct ct_stalker *s, struct ct_stalker_statistics *out) {
    if (!s)
        return CT_ERR_INVALID_ARGUMENT;
    ct_stalk_lock(s);
    int status = ct_sized_copy_out(out, &s->statistics, sizeof s->statistics);
    ct_stalk_unlock(s);
    return status;
}
