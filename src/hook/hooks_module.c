/* The public hook API: whole modules, events, and what there is to tell. See contrail/hook.h. */
#include "base/grow.h"
#include "hook/set.h"
#include "os/os.h"
#include "os/thread.h"
#include <stdlib.h>

/* ---- whole modules ---- */

static int add_skip(struct ct_hooks *set, struct ct_hook_module *m, size_t index, enum ct_skip_reason reason) {
    if (!ct_grow(&set->skips, &set->skip_capacity, set->skip_count, sizeof *set->skips, 256))
        return CT_ERR_NO_MEMORY;
    set->skips[set->skip_count++] =
        (struct ct_skip_record){m->scan.funcs[index].start, m->functions[index].name, m->path, reason};
    return 0;
}

/* What can be told without looking at the code. */
static enum ct_skip_reason skip_by_kind(const struct ct_hook_module *m, size_t i) {
    struct ct_function_facts facts = ct_hook_module_facts(m, i);
    enum ct_skip_reason skip = ct_classify(&facts).skip;
    return !skip && ct_hook_is_own(m, m->scan.funcs[i].start) ? CT_SKIP_OWN_CODE : skip;
}

static int plan_listed(struct ct_hooks *set, struct ct_hook_module *m, size_t i, const struct ct_module_hooks *what) {
    struct ct_scan_func *f = &m->scan.funcs[i];
    enum ct_skip_reason skip = skip_by_kind(m, i);
    if (!skip && what->filter &&
        !what->filter(what->filter_arg, m->functions[i].name, (void *)f->start, f->end - f->start))
        skip = CT_SKIP_FILTERED;
    if (skip)
        return add_skip(set, m, i, skip);
    enum ct_hook_action action = what->flavor == CT_FLAVOR_LISTEN ? CT_ACTION_LISTEN : CT_ACTION_RECORD;
    int number = ct_set_plan(set, m, i, f->start, f->end, action, 0, false, &skip);
    if (number == CT_ERR_ALREADY_HOOKED)
        return 0;
    if (number < 0)
        return skip ? add_skip(set, m, i, skip) : number;
    set->records[number]->by_module = true;
    ct_set_publish(set, set->records[number], what->flavor == CT_FLAVOR_LISTEN ? &what->listener : NULL, what->user);
    return 0;
}

static int plan_module(struct ct_hooks *set, const struct ct_module_hooks *what) {
    struct ct_hook_module *m;
    uint64_t start = ct_os_nanoseconds();
    int status = ct_hook_module_named(&set->code, what->module, &m);
    for (size_t i = 0; !status && i < m->scan.func_count; i++)
        status = plan_listed(set, m, i, what);
    set->plan_ns += ct_os_nanoseconds() - start;
    return status;
}

int ct_hooks_attach_module(struct ct_hooks *set, const struct ct_module_hooks *what) {
    if (!what)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    bool single = ct_set_begin_single(set);
    return ct_set_unlock(set, g, ct_set_finish_single(set, single, plan_module(set, what)));
}

/* ---- telling ---- */

static struct ct_hook_info info_of(const struct ct_hook_record *r) {
    return (struct ct_hook_info){
        .function = (void *)r->plan.function,
        .name = r->name,
        .module = r->by_module ? r->module->path : "",
        .hook = (int)r->request.number,
        .entry_only = r->request.entry_only,
    };
}

int ct_hooks_each(struct ct_hooks *set, int (*each)(void *arg, const struct ct_hook_info *info), void *arg) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    int result = 0;
    for (uint32_t n = set->first_number; n < set->next_number && !result; n++) {
        const struct ct_hook_record *r = ct_set_record(set, (int)n);
        if (!r)
            continue;
        struct ct_hook_info info = info_of(r);
        result = each(arg, &info);
    }
    for (size_t i = 0; i < set->skip_count && !result; i++) {
        const struct ct_skip_record *s = &set->skips[i];
        struct ct_hook_info info = {
            .function = (void *)s->function, .name = s->name, .module = s->module, .hook = -1, .skip = s->reason};
        result = each(arg, &info);
    }
    return ct_set_unlock(set, g, result);
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

void ct_hooks_statistics(struct ct_hooks *set, struct ct_hook_statistics *out) {
    *out = (struct ct_hook_statistics){0};
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return;
    *out = set->runtime->retired;
    for (const struct ct_block *b = set->runtime->blocks; b; b = b->next) {
        out->guarded_calls += b == g.block ? g.guarded_calls : b->counters->guarded_calls;
        out->deep_calls += b->counters->deep_calls;
        out->left_frames += b->counters->left_frames;
        out->abandoned += b->counters->abandoned;
    }
    for (uint32_t n = set->first_number; n < set->next_number; n++) {
        const struct ct_hook_record *r = ct_set_record(set, (int)n);
        out->hooked += r != NULL;
        out->entry_only += r && r->request.entry_only;
    }
    for (size_t i = 0; i < set->skip_count; i++)
        out->skipped_by[set->skips[i].reason]++;
    out->skipped = set->skip_count;
    out->threads = set->runtime->threads_seen;
    out->plan_ns = set->plan_ns;
    out->stop_ns = set->stop_ns;
    (void)ct_set_unlock(set, g, 0);
}
