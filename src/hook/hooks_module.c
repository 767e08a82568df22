/* SPDX-License-Identifier: Apache-2.0 */
/* The public hook API: whole modules, events, and reports. See contrail/hook.h. */
#include "base/grow.h"
#include "base/sized.h"
#include "hook/set.h"
#include "os/os.h"
#include "os/thread.h"
#include <stdlib.h>

#define SKIPS (1ull << 32) /* there are fewer hook numbers */

/* ---- whole modules ---- */

static int add_skip(struct ct_hooks *set, struct ct_hook_module *m, size_t index, enum ct_hook_skip_reason reason) {
    if (!ct_grow(&set->skips, &set->skip_capacity, set->skip_count, sizeof *set->skips, 256))
        return CT_ERR_NO_MEMORY;
    set->skips[set->skip_count++] =
        (struct ct_skip_record){m->scan.funcs[index].start, m->functions[index].name, m->path, reason};
    return 0;
}

/* What is known without looking at the code. */
static enum ct_hook_skip_reason skip_by_kind(const struct ct_hook_module *m, size_t i) {
    struct ct_function_facts facts = ct_hook_module_facts(m, i);
    enum ct_hook_skip_reason skip = ct_classify(&facts).skip;
    return !skip && ct_hook_is_own(m, m->scan.funcs[i].start) ? CT_HOOK_SKIP_OWN_CODE : skip;
}

/* Functions that find no room for a springboard before all others are planned. */
struct late {
    size_t *items;
    size_t count, capacity;
};

static int note_late(struct late *late, size_t i) {
    if (!ct_grow(&late->items, &late->capacity, late->count, sizeof *late->items, 64))
        return CT_ERR_NO_MEMORY;
    late->items[late->count++] = i;
    return 0;
}

/* `late`: where the function goes if it finds no room yet. NULL: it has to find a host now. */
static int plan_wanted(struct ct_hooks *set, struct ct_hook_module *m, size_t i, const struct ct_hooks_module *what,
                       struct late *late) {
    struct ct_scan_func *f = &m->scan.funcs[i];
    enum ct_hook_skip_reason skip;
    enum ct_hook_action action = what->flavor == CT_HOOK_FLAVOR_LISTEN ? CT_ACTION_LISTEN : CT_ACTION_RECORD;
    int number = late ? ct_set_plan(set, m, i, f->start, f->end, action, 0, false, &skip)
                      : ct_set_plan_short(set, m, i, f->start, f->end, action, 0, &skip);
    if (number == CT_ERR_ALREADY_HOOKED)
        return 0;
    if (late && skip == CT_HOOK_SKIP_NO_SPRINGBOARD)
        return note_late(late, i);
    if (number < 0)
        return skip ? add_skip(set, m, i, skip) : number;
    set->records[number]->by_module = true;
    ct_set_publish(set, set->records[number], what->flavor == CT_HOOK_FLAVOR_LISTEN ? what->listener : NULL,
                   what->user);
    return 0;
}

static int plan_listed(struct ct_hooks *set, struct ct_hook_module *m, size_t i, const struct ct_hooks_module *what,
                       struct late *late) {
    struct ct_scan_func *f = &m->scan.funcs[i];
    enum ct_hook_skip_reason skip = skip_by_kind(m, i);
    if (!skip && what->filter &&
        !what->filter(what->filter_arg, m->functions[i].name, (void *)f->start, f->end - f->start))
        skip = CT_HOOK_SKIP_FILTERED;
    return skip ? add_skip(set, m, i, skip) : plan_wanted(set, m, i, what, late);
}

static int plan_module(struct ct_hooks *set, const struct ct_hooks_module *what) {
    struct ct_hook_module *m;
    struct late late = {0};
    uint64_t start = ct_os_nanoseconds();
    int status = ct_hook_module_named(&set->code, what->module, &m);
    for (size_t i = 0; !status && i < m->scan.func_count; i++)
        status = plan_listed(set, m, i, what, &late);
    for (size_t i = 0; !status && i < late.count; i++)
        status = plan_wanted(set, m, late.items[i], what, NULL);
    free(late.items);
    set->plan_ns += ct_os_nanoseconds() - start;
    return status;
}

int ct_hooks_attach_module(struct ct_hooks *set, const struct ct_hooks_module *what) {
    struct ct_hooks_module own;
    struct ct_hook_listener listener;
    int status = what ? ct_sized_copy_in(&own, sizeof own, what) : CT_ERR_INVALID_ARGUMENT;
    if (!status)
        status = ct_sized_copy_in(&listener, sizeof listener, own.listener);
    if (status)
        return status;
    own.listener = &listener;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    bool single = ct_set_begin_single(set);
    return ct_set_unlock(set, g, ct_set_finish_single(set, single, plan_module(set, &own)));
}

/* ---- reporting ---- */

static void describe_hook(const struct ct_hook_record *r, struct ct_hook_info *info) {
    info->function = (void *)r->plan.function;
    info->name = r->name;
    info->module = r->by_module ? r->module->path : "";
    info->hook = (int)r->request.number;
    info->entry_only = r->request.entry_only;
}

static void describe_skip(const struct ct_skip_record *s, struct ct_hook_info *info) {
    info->function = (void *)s->function;
    info->name = s->name;
    info->module = s->module;
    info->hook = -1;
    info->skip = s->reason;
}

/* Positions count all numbers first. Those of skipped functions begin at SKIPS, so that a hook that is added during a
 * walk moves none of them. */
static int find_next(struct ct_hooks *set, uint64_t *position, struct ct_hook_info *info) {
    uint64_t numbers = set->next_number - set->first_number;
    while (*position < numbers) {
        const struct ct_hook_record *r = ct_set_record(set, (int)(set->first_number + (*position)++));
        if (r) {
            describe_hook(r, info);
            return 1;
        }
    }
    if (*position < SKIPS)
        *position = SKIPS;
    if (*position - SKIPS >= set->skip_count)
        return 0;
    describe_skip(&set->skips[(*position)++ - SKIPS], info);
    return 1;
}

int ct_hooks_next(struct ct_hooks *set, uint64_t *position, struct ct_hook_info *info) {
    struct ct_hook_info own = {.size = sizeof own};
    if (!position || !ct_sized_is_valid(info))
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    int found = ct_set_unlock(set, g, find_next(set, position, &own));
    if (found > 0)
        (void)ct_sized_copy_out(info, &own, sizeof own);
    return found;
}

uint64_t ct_timestamp(void) {
    return ct_os_timestamp();
}

int ct_hooks_set_sink(struct ct_hooks *set, ct_event_sink *sink, void *arg, size_t buffer_events) {
    if (buffer_events > 1u << 26)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    struct ct_runtime *rt = set->runtime;
    size_t events = 256;
    while (events < (buffer_events ? buffer_events : CT_DEFAULT_EVENTS))
        events *= 2;
    rt->sink = sink;
    rt->sink_arg = arg;
    rt->buffer_bytes = events * sizeof(struct ct_event);
    for (struct ct_block *b = rt->blocks; b; b = b->next)
        if (!b->active && !b->spare)
            b->event_bit = rt->buffer_bytes;
    return ct_set_unlock(set, g, 0);
}

int ct_hooks_flush(struct ct_hooks *set) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    uint64_t mask = ct_os_block_signals();
    for (struct ct_block *b = set->runtime->blocks; b; b = b->next)
        if (b->in_use)
            ct_event_drain(b);
    ct_os_restore_signals(mask);
    return ct_set_unlock(set, g, 0);
}

static void count_blocks(const struct ct_hooks *set, const struct ct_set_guard *g, struct ct_hooks_statistics *out) {
    const struct ct_counters *retired = &set->runtime->retired;
    out->guarded_calls = retired->guarded_calls;
    out->deep_calls = retired->deep_calls;
    out->left_frames = retired->left_frames;
    out->abandoned = retired->abandoned;
    for (const struct ct_block *b = set->runtime->blocks; b; b = b->next) {
        out->guarded_calls += b == g->block ? g->guarded_calls : b->counters->guarded_calls;
        out->deep_calls += b->counters->deep_calls;
        out->left_frames += b->counters->left_frames;
        out->abandoned += b->counters->abandoned;
    }
}

_Static_assert(CT_HOOK_SKIP_COUNT <= CT_HOOKS_SKIP_ROOM, "skipped_by has no room for another reason");

static void count_functions(struct ct_hooks *set, struct ct_hooks_statistics *out) {
    for (uint32_t n = set->first_number; n < set->next_number; n++) {
        const struct ct_hook_record *r = ct_set_record(set, (int)n);
        out->hooked += r != NULL;
        out->entry_only += r && r->request.entry_only;
    }
    for (size_t i = 0; i < set->skip_count; i++)
        out->skipped_by[set->skips[i].reason]++;
    out->skipped = set->skip_count;
}

int ct_hooks_statistics(struct ct_hooks *set, struct ct_hooks_statistics *out) {
    struct ct_hooks_statistics own = {.size = sizeof own};
    int status = ct_sized_copy_out(out, &own, sizeof own);
    if (status)
        return status;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    count_blocks(set, &g, &own);
    count_functions(set, &own);
    own.threads = set->runtime->threads_seen;
    own.plan_ns = set->plan_ns;
    own.stop_ns = set->stop_ns;
    (void)ct_set_unlock(set, g, 0);
    return ct_sized_copy_out(out, &own, sizeof own);
}
