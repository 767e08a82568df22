/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that come and go while a process is recorded. The thread that loads one waits inside the agent meanwhile;
 * other threads run while the new code is planned, and are stopped while it is hooked. Runs on the recording's request
 * thread. */
#include "base/grow.h"
#include "session/follower.h"
#include "session/manifest.h"
#include "session/recording.h"
#include "session/recording_install.h"
#include "session/recording_leave.h"
#include <stdlib.h>
#include <string.h>

#define TRIES      3     /* the last one while the process is stopped */
#define MOST_LATER 16384 /* times that something was loaded: each uses our memory until the end */

/* ---- which modules there are ---- */

void ct_recording_each_module(const struct ct_recording *r,
                              void (*each)(void *arg, const struct ct_target_module *module), void *arg) {
    for (size_t p = 0; p < r->modules.more_count + 1; p++) {
        const struct ct_target_plan *plan = p ? r->modules.more[p - 1]->plan : r->plan;
        for (size_t i = 0; plan && i < plan->module_count; i++) {
            struct ct_target_module module = plan->modules[i]; /* a child or the parent may use the plan too */
            module.gone = module.id <= r->modules.gone_count && r->modules.gone[module.id - 1];
            each(arg, &module);
        }
    }
}

struct survey {
    struct ct_target_known *known;
    uint32_t *ids; /* ids of the modules */
    bool *seen;
    size_t count, known_room, ids_room;
    bool something_new, failed, has_unwinder;
};

static void add_known(void *arg, const struct ct_target_module *m) {
    struct survey *s = arg;
    if (m->gone || s->failed)
        return;
    s->failed = !ct_grow(&s->known, &s->known_room, s->count, sizeof *s->known, 64) ||
                !ct_grow(&s->ids, &s->ids_room, s->count, sizeof *s->ids, 64);
    if (s->failed)
        return;
    s->ids[s->count] = m->id;
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
    for (size_t i = 0; i < r->modules.more_count; i++)
        s->has_unwinder |= r->modules.more[i]->plan->get_cfa != 0;
    s->seen = calloc(s->count + 1, 1);
    if (s->failed || !s->seen)
        return CT_ERR_NO_MEMORY;
    return ct_remote_each_map(r->remote, look_at_map, s);
}

static void free_survey(struct survey *s) {
    free(s->known);
    free(s->ids);
    free(s->seen);
}

/* Makes room for the state of each module in this process. Under the mutex. */
static int make_gone_room(struct ct_recording *r, size_t modules) {
    if (modules <= r->modules.gone_count)
        return 0;
    bool *gone = realloc(r->modules.gone, modules);
    if (!gone)
        return CT_ERR_NO_MEMORY;
    memset(gone + r->modules.gone_count, 0, modules - r->modules.gone_count);
    r->modules.gone = gone;
    r->modules.gone_count = modules;
    return 0;
}

/* A module that is no longer mapped was unloaded; the same file at the same address would be another module. */
static int mark_gone(struct ct_recording *r, const struct survey *s) {
    pthread_mutex_lock(&r->mutex);
    int status = make_gone_room(r, r->modules.next_module);
    for (size_t i = 0; !status && i < s->count; i++)
        r->modules.gone[s->ids[i] - 1] = !s->seen[i];
    pthread_mutex_unlock(&r->mutex);
    return status;
}

static bool has_left(const struct ct_recording *r, const struct survey *s) {
    for (size_t i = 0; i < s->count; i++)
        if (!s->seen[i] && (s->ids[i] > r->modules.gone_count || !r->modules.gone[s->ids[i] - 1]))
            return true;
    return false;
}

/* ---- adding ---- */

/* Makes room for this many ids. Arrays that are too small stay until the end: the drain may be reading one. */
static int make_room(struct ct_recording *r, size_t hooks) {
    if (r->modules.all_ids && hooks <= r->modules.ids_room)
        return 0;
    size_t room = hooks * 2;
    uint64_t *ids = malloc(room * sizeof *ids),
             **old = realloc(r->modules.old_ids, (r->modules.old_count + 1) * sizeof *old);
    r->modules.old_ids = old ? old : r->modules.old_ids;
    if (!ids || !old) {
        free(ids);
        return CT_ERR_NO_MEMORY;
    }
    memcpy(ids, r->modules.all_ids ? r->modules.all_ids : r->shared->function_ids, r->modules.next_hook * sizeof *ids);
    r->modules.old_ids[r->modules.old_count++] = r->modules.all_ids;
    r->modules.all_ids = ids;
    r->modules.ids_room = room;
    return 0;
}

/* Called before the first event of the new hooks. */
static int announce_plan(struct ct_recording *r, const struct ct_shared_plan *shared) {
    size_t hooks = r->modules.next_hook + shared->plan->hook_count;
    int status = make_room(r, hooks);
    if (status)
        return status;
    memcpy(r->modules.all_ids + r->modules.next_hook, shared->function_ids,
           shared->plan->hook_count * sizeof *r->modules.all_ids);
    ct_drain_set_functions(&r->drain, r->modules.all_ids, hooks);
    return 0;
}

/* Other threads may be reading the list. */
static int keep_plan(struct ct_recording *r, struct ct_shared_plan *shared, bool installed) {
    pthread_mutex_lock(&r->mutex);
    struct ct_shared_plan **more = realloc(r->modules.more, (r->modules.more_count + 1) * sizeof *more);
    r->modules.more = more ? more : r->modules.more;
    if (more)
        r->modules.more[r->modules.more_count++] = shared;
    pthread_mutex_unlock(&r->mutex);
    /* Listed or not: the stubs know their numbers. */
    r->modules.next_hook += installed ? (uint32_t)shared->plan->hook_count : 0;
    r->modules.next_module += (uint32_t)shared->plan->module_count;
    return more ? 0 : CT_ERR_NO_MEMORY;
}

/* Nobody else knows the plan yet. */
static void give_up(struct ct_target_plan *plan, enum ct_hook_skip_reason why) {
    for (size_t i = 0; i < plan->module_count; i++) {
        struct ct_target_module *m = &plan->modules[i];
        for (size_t k = 0; k < m->function_count; k++) {
            struct ct_target_function *f = &m->functions[k];
            m->skipped[why] += !f->skip;
            f->skip = f->skip ? f->skip : (uint8_t)why;
            f->entry_only = 0;
            f->hook = -1;
        }
        m->hooked = m->entry_only = 0;
    }
}

/* CT_ERR_BUSY: something else was mapped where a region belongs. The target may be stopped afterwards. */
static int try_to_add(struct ct_recording *r, const struct survey *s, struct ct_shared_plan **out) {
    struct ct_remote_error error = {""};
    const struct ct_target_plan_options options = {
        .known = s->known,
        .known_count = s->count,
        .first_module = r->modules.next_module,
        .first_hook = r->modules.next_hook,
        .has_unwinder = s->has_unwinder,
    };
    int status = ct_recording_make_plan(r, options, out);
    if (status)
        return status;
    struct ct_target_plan *plan = (*out)->plan;
    if (!plan->module_count)
        return 0;
    if (r->stalk)
        return 0; /* only names are needed */
    status = announce_plan(r, *out);
    if (!status)
        status = ct_recording_stop(r);
    if (!status)
        status = ct_inject_more(&r->injection, plan, r->modules.next_hook, &error);
    return status;
}

static int refuse_more(struct ct_recording *r) {
    if (!r->modules.full)
        ct_recording_miss(r, r->pid, "", "the process has loaded libraries 16,384 times; later ones are not recorded");
    r->modules.full = true;
    return CT_ERR_NO_SPACE;
}

static int add_new(struct ct_recording *r, const struct survey *s) {
    struct ct_shared_plan *shared = NULL;
    bool paused = ct_remote_is_stopped(r->remote); /* by the user */
    int status = CT_ERR_BUSY;
    for (int i = 1; i <= TRIES && status == CT_ERR_BUSY; i++) {
        ct_recording_release(shared);
        shared = NULL;
        if (i == TRIES)
            (void)ct_recording_stop(r);
        status = try_to_add(r, s, &shared);
        if (!paused && status == CT_ERR_BUSY && ct_remote_is_stopped(r->remote))
            (void)ct_recording_go_on(r, CT_WAIT_HOOKS);
    }
    if (shared && status)
        give_up(shared->plan, status == CT_ERR_NO_SPACE ? CT_HOOK_SKIP_NO_ROOM : CT_HOOK_SKIP_CAME_LATER);
    if (shared && (!shared->plan->module_count || keep_plan(r, shared, status != CT_ERR_NO_SPACE)))
        ct_recording_release(shared);
    else if (shared)
        (void)ct_manifest_write_symbols(r);
    ct_recording_bring_policy(r); /* before the thread that loads it continues */
    if (!paused && ct_remote_is_stopped(r->remote))
        (void)ct_recording_go_on(r, CT_WAIT_HOOKS);
    return status;
}

int ct_recording_update_modules(struct ct_recording *r) {
    struct survey s = {0};
    pthread_mutex_lock(&r->work);
    int status = r->remote && r->plan ? survey(r, &s) : CT_ERR_NOT_FOUND;
    if (!status && has_left(r, &s))
        ct_follower.modules_leave(r);
    if (!status)
        status = mark_gone(r, &s);
    if (!status && s.something_new) {
        ct_remote_limit(r->remote, CT_RECORDING_STILL_MS, NULL, NULL);
        status = r->modules.more_count < MOST_LATER ? add_new(r, &s) : refuse_more(r);
        ct_remote_limit(r->remote, 0, NULL, NULL); /* the user may have stopped it */
    }
    free_survey(&s);
    pthread_mutex_unlock(&r->work);
    ct_recording_look_at_code(r);
    return status;
}

/* ---- forks, and the end ---- */

static int inherit_plans(struct ct_recording *r, const struct ct_recording *parent) {
    r->modules.next_module = parent->modules.next_module;
    r->modules.next_hook = parent->modules.next_hook;
    if (parent->modules.gone_count && make_gone_room(r, parent->modules.gone_count))
        return CT_ERR_NO_MEMORY;
    if (parent->modules.gone_count)
        memcpy(r->modules.gone, parent->modules.gone, parent->modules.gone_count);
    if (!parent->modules.more_count)
        return 0;
    r->modules.more = calloc(parent->modules.more_count, sizeof(struct ct_shared_plan *));
    if (parent->modules.all_ids)
        r->modules.all_ids = malloc(parent->modules.next_hook * sizeof *r->modules.all_ids + 1);
    if (!r->modules.more || (parent->modules.all_ids && !r->modules.all_ids))
        return CT_ERR_NO_MEMORY;
    if (r->modules.all_ids)
        memcpy(r->modules.all_ids, parent->modules.all_ids, parent->modules.next_hook * sizeof *r->modules.all_ids);
    r->modules.ids_room = r->modules.all_ids ? parent->modules.next_hook : 0;
    for (size_t i = 0; i < parent->modules.more_count; i++) {
        __atomic_add_fetch(&parent->modules.more[i]->users, 1, __ATOMIC_ACQ_REL);
        r->modules.more[r->modules.more_count++] = parent->modules.more[i];
    }
    return 0;
}

int ct_recording_inherit_modules(struct ct_recording *r, struct ct_recording *parent) {
    pthread_mutex_lock(&parent->work); /* its request thread may be adding some */
    int status = inherit_plans(r, parent);
    pthread_mutex_unlock(&parent->work);
    if (status || !r->modules.more_count)
        return status;
    struct survey s; /* libraries that the parent loaded since the fork are not there */
    status = survey(r, &s);
    if (!status)
        status = mark_gone(r, &s);
    free_survey(&s);
    return status;
}

void ct_recording_drop_modules(struct ct_recording *r) {
    for (size_t i = 0; i < r->modules.more_count; i++)
        ct_recording_release(r->modules.more[i]);
    for (size_t i = 0; i < r->modules.old_count; i++)
        free(r->modules.old_ids[i]);
    free(r->modules.more);
    free(r->modules.old_ids);
    free(r->modules.all_ids);
    free(r->modules.gone);
    r->modules.gone = NULL;
    r->modules.gone_count = 0;
    r->modules.old_ids = NULL;
    r->modules.old_count = r->modules.ids_room = 0;
    r->modules.more = NULL;
    r->modules.all_ids = NULL;
    r->modules.more_count = 0;
}
