/* SPDX-License-Identifier: Apache-2.0 */
/* The public hook API: sets and single hooks. See contrail/hook.h. There is one set per process; every call holds its
 * mutex, and the hooks do not see what the call itself does. */
#include "base/sized.h"
#include "hook/set.h"
#include "hook/unwinder.h"
#include "os/os.h"
#include "os/thread.h"
#include <stdlib.h>

#define DEFAULT_DEPTH (1u << 20)

/* Lives as long as the process: threads keep their blocks, and returns may come in long after the set is gone. */
static struct ct_runtime the_runtime;
static struct ct_hooks *the_set;
static pthread_mutex_t set_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t numbers_used; /* by earlier sets with frames still open */

/* For debuggers: where the shadow stacks are (scripts/gdb/contrail.py). */
__attribute__((visibility("default"), used)) struct ct_runtime *const ct_debug_runtime = &the_runtime;

/* ---- fork ---- */

/* A child must not find the mutexes held by a thread that it does not have. */
static void before_fork(void) {
    pthread_mutex_lock(&set_mutex);
    if (the_set)
        pthread_mutex_lock(&the_set->mutex);
}

static void after_fork(void) {
    if (the_set)
        pthread_mutex_unlock(&the_set->mutex);
    pthread_mutex_unlock(&set_mutex);
}

/* ---- life of a set ---- */

static int prepare_runtime(const struct ct_hooks_options *options) {
    struct ct_runtime *rt = &the_runtime;
    if (!rt->hooks) {
        rt->hooks = ct_os_alloc(CT_HOOKS_MAX * sizeof *rt->hooks, CT_OS_READ | CT_OS_WRITE);
        rt->parked = ct_os_alloc(CT_PARKED_CAPACITY * sizeof *rt->parked, CT_OS_READ | CT_OS_WRITE);
        if (!rt->hooks || !rt->parked)
            return CT_ERR_NO_MEMORY;
        if (!ct_os_vectors(&rt->vectors))
            return CT_ERR_UNSUPPORTED;
        if (pthread_atfork(before_fork, after_fork, after_fork))
            return CT_ERR_NO_MEMORY;
        rt->buffer_bytes = CT_DEFAULT_EVENTS * sizeof(struct ct_event);
        rt->get_cfa = ct_unwind_cfa;
    }
    rt->pid = ct_os_getpid();
    rt->max_depth = options->max_depth ? options->max_depth : DEFAULT_DEPTH;
    for (struct ct_block *b = rt->blocks; b; b = b->next)
        ct_block_limit_depth(b, rt->max_depth);
    return ct_block_prepare(rt);
}

static const enum ct_wx_mode wx_modes[] = {
    [CT_HOOKS_MEMORY_AUTO] = CT_WX_AUTO,
    [CT_HOOKS_MEMORY_RWX] = CT_WX_RWX,
    [CT_HOOKS_MEMORY_DUAL] = CT_WX_DUAL,
    [CT_HOOKS_MEMORY_PROTECT] = CT_WX_PROTECT,
};

static struct ct_hooks *new_set(const struct ct_hooks_options *options) {
    struct ct_hooks *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->records = ct_os_alloc(CT_HOOKS_MAX * sizeof(struct ct_hook_record *), CT_OS_READ | CT_OS_WRITE);
    if (!set->records) {
        free(set);
        return NULL;
    }
    pthread_mutex_init(&set->mutex, NULL);
    set->runtime = &the_runtime;
    set->code.mode = wx_modes[options->memory];
    set->first_number = set->next_number = numbers_used;
    set->next_service = CT_HOOKS_MAX - 1;
    return set;
}

int ct_hooks_create(struct ct_hooks **out, const struct ct_hooks_options *options) {
    struct ct_hooks_options own;
    int status = ct_sized_copy_in(&own, sizeof own, options);
    if (status)
        return status;
    if (!out || (unsigned)own.memory > CT_HOOKS_MEMORY_PROTECT)
        return CT_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&set_mutex);
    status = the_set ? CT_ERR_BUSY : prepare_runtime(&own);
    if (!status && !(the_set = new_set(&own)))
        status = CT_ERR_NO_MEMORY;
    if (!status)
        *out = the_set;
    pthread_mutex_unlock(&set_mutex);
    return status;
}

/* The code of stubs may be freed when no thread is in it or will return to it. */
static bool frames_are_open(const struct ct_runtime *rt) {
    for (const struct ct_block *b = rt->blocks; b; b = b->next)
        if (b->in_use && b->top > b->base + 1)
            return true;
    for (uint32_t i = 0; rt->parked_count && i < CT_PARKED_CAPACITY; i++)
        if (rt->parked[i].slot > CT_SLOT_LAST)
            return true;
    return false;
}

static void free_set(struct ct_hooks *set) {
    ct_hook_code_map_free(&set->code, set->code_in_use);
    for (size_t i = 0; i < set->table_size; i++)
        if (set->table[i]) {
            free(set->table[i]->plan.whole);
            free(set->table[i]);
        }
    free(set->table);
    free(set->changes);
    free(set->skips);
    ct_os_free(set->records, CT_HOOKS_MAX * sizeof(struct ct_hook_record *));
    pthread_mutex_destroy(&set->mutex);
    free(set);
}

/* `slot`: where the caller's frame begins. A child on another process's memory sees none of its threads. */
static void report_left(struct ct_runtime *rt, struct ct_block *own, uint64_t slot, uint64_t address) {
    if (!own || own->detached)
        return;
    ct_left_report_own(own, slot, address);
    ct_block_report_ended(rt);
}

void ct_hooks_destroy(struct ct_hooks *set) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return;
    if (set->in_transaction)
        ct_set_forget(set);
    (void)ct_set_begin_single(set);
    for (size_t i = 0; i < set->table_size; i++)
        if (set->table[i] && set->table[i]->installed)
            (void)ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_REVERT, .record = set->table[i]});
    set->closing = set->code_in_use = true;
    if (set->change_count)
        (void)ct_set_apply(set);
    else
        set->code_in_use = false;
    report_left(&the_runtime, g.block, (uint64_t)__builtin_dwarf_cfa() - 8,
                (uint64_t)__builtin_return_address(0));
    set->code_in_use |= frames_are_open(&the_runtime);
    numbers_used = set->code_in_use ? set->next_number : 0;
    (void)ct_set_unlock(set, g, 0);
    pthread_mutex_lock(&set_mutex);
    the_set = NULL;
    pthread_mutex_unlock(&set_mutex);
    free_set(set);
}

/* ---- one function ---- */

/* Finds the function's index in its module, or the end of what may be taken for a function. */
static int locate_function(struct ct_hook_module *m, uint64_t function, size_t *index, uint64_t *end) {
    long found = ct_scan_find(&m->scan, function);
    if (found >= 0) {
        *index = (size_t)found;
        *end = m->scan.funcs[found].end;
        return m->functions[found].flags & (CT_FUNC_PLT | CT_FUNC_ODD_ENTRY | CT_FUNC_NO_RETURN_ADDRESS | CT_FUNC_COLD)
                   ? CT_ERR_NOT_FUNCTION
                   : 0;
    }
    *index = m->scan.func_count;
    *end = m->end;
    for (size_t i = 0; i < m->scan.func_count; i++) {
        if (function > m->scan.funcs[i].start && function < m->scan.funcs[i].end)
            return CT_ERR_NOT_FUNCTION;
        if (m->scan.funcs[i].start > function) {
            *end = m->scan.funcs[i].start;
            break;
        }
    }
    return 0;
}

static bool inside_patch(const struct ct_hooks *set, uint64_t address) {
    for (size_t i = 0; i < set->table_size; i++) {
        const struct ct_hook_record *r = set->table[i];
        for (unsigned p = 0; r && r->installed && p < r->plan.patch_count; p++)
            if (address >= r->plan.patches[p].at && address < r->plan.patches[p].at + r->plan.patches[p].size)
                return address != r->plan.function;
    }
    return false;
}

static int plan_in_module(struct ct_hooks *set, struct ct_hook_module *m, uint64_t function, enum ct_hook_action action,
                          uint64_t detour, enum ct_hook_skip_reason *skip) {
    size_t index;
    uint64_t end;
    if (ct_hook_is_own(m, function))
        return CT_ERR_OWN_CODE;
    int status = locate_function(m, function, &index, &end);
    return status ? status : ct_set_plan_short(set, m, index, function, end, action, detour, skip);
}

static int plan_one(struct ct_hooks *set, uint64_t function, enum ct_hook_action action, uint64_t detour) {
    struct ct_hook_module *m = NULL;
    uint64_t start = ct_os_nanoseconds();
    enum ct_hook_skip_reason skip = CT_HOOK_SKIP_NONE;
    int status = ct_hook_region_of(&set->code, function) ? CT_ERR_OWN_CODE
                 : inside_patch(set, function)           ? CT_ERR_INSIDE_HOOK
                                                         : ct_hook_module_at(&set->code, function, &m);
    if (!status)
        status = plan_in_module(set, m, function, action, detour, &skip);
    if (status < 0)
        ct_set_note_failure(set, function, m, status, skip);
    set->plan_ns += ct_os_nanoseconds() - start;
    return status;
}

int ct_hooks_attach(struct ct_hooks *set, void *function, const struct ct_hook_listener *listener, void *user) {
    struct ct_hook_listener own;
    int status = listener ? ct_sized_copy_in(&own, sizeof own, listener) : CT_ERR_INVALID_ARGUMENT;
    if (status)
        return status;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    bool single = ct_set_begin_single(set);
    int number = plan_one(set, (uint64_t)function, CT_ACTION_LISTEN, 0);
    if (number >= 0)
        ct_set_publish(set, set->records[number], &own, user);
    return ct_set_unlock(set, g, ct_set_finish_single(set, single, number));
}

int ct_hooks_record(struct ct_hooks *set, void *function) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    bool single = ct_set_begin_single(set);
    int number = plan_one(set, (uint64_t)function, CT_ACTION_RECORD, 0);
    if (number >= 0)
        ct_set_publish(set, set->records[number], NULL, NULL);
    return ct_set_unlock(set, g, ct_set_finish_single(set, single, number));
}

int ct_hooks_replace(struct ct_hooks *set, void *function, void *replacement, void **original) {
    if (!replacement)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    bool single = ct_set_begin_single(set);
    int number = plan_one(set, (uint64_t)function, CT_ACTION_REPLACE, (uint64_t)replacement);
    if (number >= 0) {
        ct_set_publish(set, set->records[number], NULL, NULL);
        if (original)
            *original = (void *)set->records[number]->plan.body;
    }
    return ct_set_unlock(set, g, ct_set_finish_single(set, single, number));
}

/* A function that the engine itself watches keeps its patch and loses its observer. */
static int plan_service_again(struct ct_hooks *set, struct ct_hook_record *r) {
    struct ct_change change = {CT_CHANGE_ADOPT, r, r->request.number, r->request};
    int status = ct_set_add_change(set, change);
    if (status)
        return status;
    r->request.action = CT_ACTION_NONE;
    r->request.number = set->next_service--;
    ct_set_publish(set, r, NULL, NULL);
    set->records[r->request.number] = r;
    return 0;
}

int ct_hooks_revert(struct ct_hooks *set, int hook) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    struct ct_hook_record *r = ct_set_record(set, hook);
    if (!r)
        return ct_set_unlock(set, g, CT_ERR_NOT_FOUND);
    if (r->state == CT_HOOK_PLANNED)
        return ct_set_unlock(set, g, CT_ERR_BAD_STATE);
    bool single = ct_set_begin_single(set);
    bool watched = r->request.special || (r->request.detour && r->request.action != CT_ACTION_REPLACE);
    int status = watched ? plan_service_again(set, r)
                         : ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_REVERT, .record = r});
    return ct_set_unlock(set, g, ct_set_finish_single(set, single, status));
}

static int switch_hook(struct ct_hooks *set, int hook, bool on) {
    struct ct_set_guard g = ct_set_lock(set);
    if (g.status)
        return g.status;
    struct ct_hook_record *r = ct_set_record(set, hook);
    if (!r)
        return ct_set_unlock(set, g, CT_ERR_NOT_FOUND);
    if (r->state == CT_HOOK_PLANNED)
        return ct_set_unlock(set, g, CT_ERR_BAD_STATE);
    int status;
    if (r->request.special) { /* off for the user, on for the engine */
        set->runtime->hooks[hook].flavor = (uint8_t)(on ? r->request.action : CT_ACTION_NONE);
        status = 0;
    } else {
        status = ct_arena_store8(r->module->region->arena, r->plan.stub, on ? r->plan.word_on : r->plan.word_off);
    }
    if (!status)
        r->state = on ? CT_HOOK_LIVE : CT_HOOK_DISABLED;
    return ct_set_unlock(set, g, status);
}

int ct_hooks_disable(struct ct_hooks *set, int hook) {
    return switch_hook(set, hook, false);
}

int ct_hooks_enable(struct ct_hooks *set, int hook) {
    return switch_hook(set, hook, true);
}
