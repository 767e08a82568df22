/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the target: threads, modules, mappings. */
#include "base/grow.h"
#include "inspect/process.h"
#include "script/script_internal.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

/* ---- threads ---- */

int ct_script_threads(struct ct_script *s, struct ct_script_thread **out, size_t *count) {
    struct ct_process_task *tasks = NULL;
    size_t tasks_count = 0;
    *out = NULL;
    *count = 0;
    int status = ct_process_tasks(s->pid, &tasks, &tasks_count);
    if (status)
        return ct_script_fail(s, status, "the threads of process %d cannot be listed", s->pid);
    uint32_t worker = __atomic_load_n(&s->shared->worker, __ATOMIC_ACQUIRE);
    int ours = worker && worker <= CT_SCRIPT_SLOTS ? ct_script_outer_tid(s, s->shared->slots[worker - 1].tid) : 0;
    *out = calloc(tasks_count + 1, sizeof **out);
    for (size_t i = 0; *out && i < tasks_count; i++) {
        if (tasks[i].tid == ours)
            continue;
        struct ct_script_thread *t = &(*out)[(*count)++];
        t->tid = tasks[i].tid;
        t->state = tasks[i].state;
        memcpy(t->name, tasks[i].name, sizeof t->name);
    }
    free(tasks);
    return *out ? 0 : CT_ERR_NO_MEMORY;
}

/* ---- modules ---- */

static int is_mapped(void *arg, const struct ct_os_map *map) {
    const struct ct_target_module *m = arg;
    return map->inode == m->inode && map->start >= m->start && map->start < m->end;
}

static int add_module(struct ct_script *s, const struct ct_target_module *m, struct ct_script_module *out,
                      size_t *count) {
    if (ct_remote_each_map(s->remote, is_mapped, (void *)m) <= 0)
        return 0; /* unloaded */
    for (size_t i = 0; i < *count; i++)
        if (out[i].base == m->start)
            return 0;
    out[*count] = (struct ct_script_module){m->start, m->end - m->start, m->bias, strdup(m->path ? m->path : "")};
    return out[(*count)++].path ? 0 : CT_ERR_NO_MEMORY;
}

static int by_base(const void *a, const void *b) {
    const struct ct_script_module *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static int list_modules(struct ct_script *s, struct ct_script_module **out, size_t *count) {
    int status = ct_script_update(s);
    *out = calloc(s->next_module + 1, sizeof **out);
    if (!*out)
        return CT_ERR_NO_MEMORY;
    for (size_t p = s->plan_count; !status && p-- > 0;)
        for (size_t i = 0; !status && i < s->plans[p].plan->module_count; i++)
            status = add_module(s, &s->plans[p].plan->modules[i], *out, count);
    qsort(*out, *count, sizeof **out, by_base);
    for (size_t i = 1; i < *count; i++)
        if ((*out)[i].base == s->main_base) {
            struct ct_script_module main = (*out)[i];
            memmove(*out + 1, *out, i * sizeof main);
            (*out)[0] = main;
        }
    return status;
}

int ct_script_modules(struct ct_script *s, struct ct_script_module **out, size_t *count) {
    *out = NULL;
    *count = 0;
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) ? ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended")
                                      : list_modules(s, out, count);
    pthread_mutex_unlock(&s->work);
    return status;
}

void ct_script_free_modules(struct ct_script_module *modules, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(modules[i].path);
    free(modules);
}

/* ---- mappings ---- */

struct ranges {
    struct ct_script *script;
    struct ct_script_range *items;
    size_t count, room;
    char *text;
    size_t used, text_room;
    bool failed;
};

static bool is_of(uint64_t start, uint64_t end, uint64_t at, uint64_t size) {
    return start < at + size && at < end;
}

static bool is_ours(const struct ct_script *s, uint64_t start, uint64_t end) {
    const struct ct_injection *in = &s->injection;
    bool ours = is_of(start, end, in->shm, in->shm_size) || is_of(start, end, in->image, in->image_size);
    for (size_t p = 0; p < s->plan_count && !ours; p++)
        for (size_t i = 0; i < s->plans[p].plan->region_count && !ours; i++)
            ours = is_of(start, end, s->plans[p].plan->regions[i].address, s->plans[p].plan->regions[i].size);
    return ours;
}

/* The path's offset in the text stands in its place until the text is complete. */
static int add_range(void *arg, const struct ct_os_map *map) {
    struct ranges *r = arg;
    size_t length = strlen(map->path) + 1;
    if (is_ours(r->script, map->start, map->end))
        return 0;
    if (r->used + length > r->text_room) {
        size_t room = 2 * (r->used + length);
        char *grown = realloc(r->text, room);
        r->text = grown ? grown : r->text;
        r->text_room = grown ? room : r->text_room;
        r->failed |= !grown;
    }
    r->failed = r->failed || !ct_grow(&r->items, &r->room, r->count, sizeof *r->items, 256);
    if (r->failed)
        return 1;
    r->items[r->count++] = (struct ct_script_range){map->start, map->end,    map->offset,
                                                    map->prot,  map->shared, (const char *)(uintptr_t)r->used};
    memcpy(r->text + r->used, map->path, length);
    r->used += length;
    return 0;
}

int ct_script_ranges(struct ct_script *s, struct ct_script_range **out, size_t *count) {
    struct ranges r = {.script = s};
    *out = NULL;
    *count = 0;
    pthread_mutex_lock(&s->work);
    int status = ct_remote_each_map(s->remote, add_range, &r);
    pthread_mutex_unlock(&s->work);
    if (status >= 0 && !r.failed)
        *out = malloc(r.count * sizeof **out + r.used + 1);
    if (*out) {
        char *text = (char *)(*out + r.count);
        memcpy(*out, r.items, r.count * sizeof **out);
        memcpy(text, r.text, r.used);
        for (size_t i = 0; i < r.count; i++)
            (*out)[i].path = text + (uintptr_t)(*out)[i].path;
        *count = r.count;
    }
    free(r.items);
    free(r.text);
    return status < 0 ? ct_script_fail(s, status, "the process has ended") : *out ? 0 : CT_ERR_NO_MEMORY;
}
