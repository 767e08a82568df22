/* Libraries that come and go while a process is recorded. The thread that loads one waits inside the agent meanwhile; other threads
 * run while the new code is planned, and stand still while it is hooked. Runs on the recording's postman. */
#include "ctl/recording.h"
#include <stdlib.h>
#include <string.h>

/* ---- which there are ---- */

void ct_recording_each_module(const struct ct_recording *r,
                              void (*each)(void *arg, const struct ct_target_module *module), void *arg) {
    for (size_t p = 0; p < r->more_count + 1; p++) {
        const struct ct_target_plan *plan = p ? r->more[p - 1]->plan : r->plan;
        for (size_t i = 0; plan && i < plan->module_count; i++)
            each(arg, &plan->modules[i]);
    }
}

struct survey {
    struct ct_target_known *known;
    bool *seen;
    size_t count, room;
    bool something_new, failed, has_unwinder;
};

static void add_known(void *arg, const struct ct_target_module *m) {
    struct survey *s = arg;
    if (m->gone || s->failed)
        return;
    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 64;
        struct ct_target_known *known = realloc(s->known, room * sizeof *known);
        s->known = known ? known : s->known;
        s->failed = !known;
        if (!known)
            return;
        s->room = room;
    }
    s->known[s->count++] = (struct ct_target_known){m->start, m->end, m->inode};
}

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct survey *s = arg;
    if (!ct_target_is_code(map))
        return 0;
    const struct ct_target_known *known = ct_target_find_known(s->known, s->count, map);
    if (known)
        s->seen[known - s->known] = true;
    s->something_new |= !known;
    return 0;
}

static int survey(const struct ct_recording *r, struct survey *s) {
    *s = (struct survey){.has_unwinder = r->plan->get_cfa != 0};
    ct_recording_each_module(r, add_known, s);
    for (size_t i = 0; i < r->more_count; i++)
        s->has_unwinder |= r->more[i]->plan->get_cfa != 0;
    s->seen = calloc(s->count + 1, 1);
    if (s->failed || !s->seen)
        return CT_ERR_NO_MEMORY;
    return ct_remote_each_map(r->remote, look_at_map, s);
}

/* What is mapped no more has been unloaded; the same file at the same place would be another module. */
static void mark_gone(struct ct_recording *r, const struct survey *s) {
    size_t k = 0;
    for (size_t p = 0; p < r->more_count + 1; p++) {
        struct ct_target_plan *plan = p ? r->more[p - 1]->plan : r->plan;
        for (size_t i = 0; i < plan->module_count; i++)
            if (!plan->modules[i].gone && k < s->count)
                plan->modules[i].gone = !s->seen[k++];
    }
}

/* ---- adding ---- */

/* Room for so many ids. Arrays that were too small stay until the end: the drain may be reading one. */
static int make_room(struct ct_recording *r, size_t hooks) {
    if (r->all_ids && hooks <= r->ids_room)
        return 0;
    size_t room = hooks * 2;
    uint64_t *ids = malloc(room * sizeof *ids), **old = realloc(r->old_ids, (r->old_count + 1) * sizeof *old);
    r->old_ids = old ? old : r->old_ids;
    if (!ids || !old) {
        free(ids);
        return CT_ERR_NO_MEMORY;
    }
    memcpy(ids, r->all_ids ? r->all_ids : r->shared->function_ids, r->next_hook * sizeof *ids);
    r->old_ids[r->old_count++] = r->all_ids;
    r->all_ids = ids;
    r->ids_room = room;
    return 0;
}

static int keep(struct ct_recording *r, struct ct_shared_plan *shared) {
    size_t hooks = r->next_hook + shared->plan->hook_count;
    pthread_mutex_lock(&r->mutex); /* others may be reading the list */
    struct ct_shared_plan **more = realloc(r->more, (r->more_count + 1) * sizeof *more);
    r->more = more ? more : r->more;
    pthread_mutex_unlock(&r->mutex);
    int status = more ? make_room(r, hooks) : CT_ERR_NO_MEMORY;
    if (status)
        return status;
    memcpy(r->all_ids + r->next_hook, shared->function_ids, shared->plan->hook_count * sizeof *r->all_ids);
    pthread_mutex_lock(&r->mutex);
    r->more[r->more_count++] = shared;
    pthread_mutex_unlock(&r->mutex);
    ct_drain_set_functions(&r->drain, r->all_ids, hooks); /* before the first event of theirs */
    r->next_hook = (uint32_t)hooks;
    r->next_module += (uint32_t)shared->plan->module_count;
    return 0;
}

static int add_new(struct ct_recording *r, const struct survey *s) {
    struct ct_remote_error error = {""};
    struct ct_shared_plan *shared;
    const struct ct_target_plan_options options = {
        .known = s->known,
        .known_count = s->count,
        .first_module = r->next_module,
        .first_hook = r->next_hook,
        .has_unwinder = s->has_unwinder,
    };
    int status = ct_recording_make_plan(r, options, &shared);
    if (status)
        return status;
    uint32_t first = r->next_hook;
    status = shared->plan->module_count ? keep(r, shared) : CT_ERR_NOT_FOUND;
    if (status) {
        ct_recording_release(shared);
        return status == CT_ERR_NOT_FOUND ? 0 : status;
    }
    (void)ct_manifest_write_symbols(r);
    bool paused = ct_remote_is_stopped(r->remote); /* by the user */
    status = ct_recording_stop(r);
    if (!status)
        status = ct_inject_more(&r->injection, shared->plan, first, &error);
    if (!paused && ct_remote_is_stopped(r->remote))
        (void)ct_remote_resume(r->remote);
    return status;
}

int ct_recording_update_modules(struct ct_recording *r) {
    struct survey s;
    pthread_mutex_lock(&r->work);
    int status = r->remote && r->plan ? survey(r, &s) : CT_ERR_NOT_FOUND;
    if (!status) {
        mark_gone(r, &s);
        if (s.something_new)
            status = add_new(r, &s);
    }
    if (r->remote && r->plan) {
        free(s.known);
        free(s.seen);
    }
    pthread_mutex_unlock(&r->work);
    return status;
}

/* ---- forks, and the end ---- */

int ct_recording_inherit_modules(struct ct_recording *r, const struct ct_recording *parent) {
    r->next_module = parent->next_module;
    r->next_hook = parent->next_hook;
    if (!parent->more_count)
        return 0;
    r->more = calloc(parent->more_count, sizeof(struct ct_shared_plan *));
    r->all_ids = malloc(parent->next_hook * sizeof *r->all_ids + 1);
    if (!r->more || !r->all_ids)
        return CT_ERR_NO_MEMORY;
    memcpy(r->all_ids, parent->all_ids, parent->next_hook * sizeof *r->all_ids);
    r->ids_room = parent->next_hook;
    for (size_t i = 0; i < parent->more_count; i++) {
        __atomic_add_fetch(&parent->more[i]->users, 1, __ATOMIC_ACQ_REL);
        r->more[r->more_count++] = parent->more[i];
    }
    return 0;
}

void ct_recording_drop_modules(struct ct_recording *r) {
    for (size_t i = 0; i < r->more_count; i++)
        ct_recording_release(r->more[i]);
    for (size_t i = 0; i < r->old_count; i++)
        free(r->old_ids[i]);
    free(r->more);
    free(r->old_ids);
    free(r->all_ids);
    r->old_ids = NULL;
    r->old_count = r->ids_room = 0;
    r->more = NULL;
    r->all_ids = NULL;
    r->more_count = 0;
}
