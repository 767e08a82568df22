/* The public hook API: see contrail/hook.h. One set per process; every call holds its mutex, and what the call itself
 * does is not seen by the hooks. */
#include "hook/set.h"
#include "hook/unwinder.h"
#include "os/os.h"
#include "os/thread.h"
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DEPTH  (1u << 20)
#define DEFAULT_EVENTS (1u << 14)

/* Lives as long as the process: threads keep their blocks, and returns may come in long after the set is gone. */
static struct ct_runtime the_runtime;
static struct ct_hooks *the_set;
static pthread_mutex_t set_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t numbers_used; /* by earlier sets with frames still open */

/* For debuggers: where the shadow stacks are (scripts/gdb/contrail.py). */
__attribute__((visibility("default"), used)) struct ct_runtime *const ct_debug_runtime = &the_runtime;

/* ---- entering and leaving the API ---- */

struct api_guard {
    struct ct_block *block;
    uint64_t guarded_calls;
    bool was_guarded;
};

static struct api_guard lock_set(struct ct_hooks *set) {
    struct api_guard g = {0};
    if (the_runtime.blocks && (g.block = ct_block_current())) {
        g.was_guarded = g.block->attention & CT_ATTENTION_GUARD;
        g.guarded_calls = g.block->guarded_calls;
        if (!g.was_guarded) {
            g.block->guard_sp = ~0ull;
            ct_block_attend(g.block, CT_ATTENTION_GUARD);
        }
    }
    pthread_mutex_lock(&set->mutex);
    return g;
}

static int unlock_set(struct ct_hooks *set, struct api_guard g, int result) {
    pthread_mutex_unlock(&set->mutex);
    if (g.block) {
        g.block->guarded_calls = g.guarded_calls;
        if (!g.was_guarded)
            ct_block_unattend(g.block, CT_ATTENTION_GUARD);
    }
    return result;
}

/* ---- life of a set ---- */

static int prepare_runtime(const struct ct_hooks_options *options) {
    struct ct_runtime *rt = &the_runtime;
    if (!rt->hooks) {
        rt->hooks = ct_os_alloc(CT_HOOKS_MAX * sizeof *rt->hooks, CT_OS_READ | CT_OS_WRITE);
        rt->parked = ct_os_alloc(CT_PARKED_CAPACITY * sizeof *rt->parked, CT_OS_READ | CT_OS_WRITE);
        if (!rt->hooks || !rt->parked)
            return CT_ERR_NO_MEMORY;
        rt->xsave_size = ct_os_vector_state(&rt->xsave_mask);
        if (!rt->xsave_size)
            return CT_ERR_UNSUPPORTED;
        rt->max_depth = options && options->max_depth ? options->max_depth : DEFAULT_DEPTH;
        rt->buffer_bytes = DEFAULT_EVENTS * sizeof(struct ct_event);
        rt->get_cfa = ct_unwind_cfa;
    }
    rt->pid = ct_os_getpid();
    return 0;
}

static const enum ct_wx_mode wx_modes[] = {
    [CT_MEMORY_AUTO] = CT_WX_AUTO,
    [CT_MEMORY_RWX] = CT_WX_RWX,
    [CT_MEMORY_DUAL] = CT_WX_DUAL,
    [CT_MEMORY_PROTECT] = CT_WX_PROTECT,
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
    set->code.mode = options ? wx_modes[options->memory] : CT_WX_AUTO;
    set->first_number = set->next_number = numbers_used;
    set->next_service = CT_HOOKS_MAX - 1;
    return set;
}

int ct_hooks_create(struct ct_hooks **out, const struct ct_hooks_options *options) {
    if (!out || (options && (unsigned)options->memory > CT_MEMORY_PROTECT))
        return CT_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&set_mutex);
    int status = the_set ? CT_ERR_BUSY : prepare_runtime(options);
    if (!status && !(the_set = new_set(options)))
        status = CT_ERR_NO_MEMORY;
    if (!status)
        *out = the_set;
    pthread_mutex_unlock(&set_mutex);
    return status;
}

/* Code of stubs may go when nobody is in it and nobody will return to it. */
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

void ct_hooks_destroy(struct ct_hooks *set) {
    if (!set)
        return;
    struct api_guard g = lock_set(set);
    if (set->in_transaction)
        ct_set_forget(set);
    for (size_t i = 0; i < set->table_size; i++)
        if (set->table[i] && set->table[i]->installed)
            (void)ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_REVERT, .record = set->table[i]});
    set->closing = set->code_in_use = true;
    if (set->change_count)
        (void)ct_set_apply(set);
    else
        set->code_in_use = false;
    set->code_in_use |= frames_are_open(&the_runtime);
    numbers_used = set->code_in_use ? set->next_number : 0;
    (void)unlock_set(set, g, 0);
    pthread_mutex_lock(&set_mutex);
    the_set = NULL;
    pthread_mutex_unlock(&set_mutex);
    free_set(set);
}

/* ---- transactions ---- */

static void begin(struct ct_hooks *set) {
    set->in_transaction = true;
    set->skips_before = set->skip_count;
    set->change_count = 0;
    set->plan_ns = 0;
    set->failure = 0;
}

static void settle_states(struct ct_hooks *set) {
    for (size_t i = 0; i < set->change_count; i++) {
        struct ct_hook_record *r = set->changes[i].record;
        if (set->changes[i].kind == CT_CHANGE_REVERT) {
            ct_plan_release(&r->request, &r->plan);
            r->state = CT_HOOK_GONE;
            r->installed = false;
        } else {
            r->state = r->request.action == CT_ACTION_NONE ? CT_HOOK_SERVICE : CT_HOOK_LIVE;
        }
    }
}

static int commit(struct ct_hooks *set) {
    int status = set->failure;
    if (!status && set->change_count && !set->services_done)
        status = ct_set_plan_services(set);
    if (!status && set->change_count)
        status = ct_set_apply(set);
    set->in_transaction = false;
    if (status) {
        ct_set_forget(set);
        return status;
    }
    set->services_done |= set->change_count != 0;
    settle_states(set);
    set->change_count = 0;
    return 0;
}

int ct_hooks_begin(struct ct_hooks *set) {
    struct api_guard g = lock_set(set);
    if (set->in_transaction)
        return unlock_set(set, g, CT_ERR_BAD_STATE);
    begin(set);
    return unlock_set(set, g, 0);
}

int ct_hooks_commit(struct ct_hooks *set) {
    struct api_guard g = lock_set(set);
    return unlock_set(set, g, set->in_transaction ? commit(set) : CT_ERR_BAD_STATE);
}

void ct_hooks_abort(struct ct_hooks *set) {
    struct api_guard g = lock_set(set);
    if (set->in_transaction)
        ct_set_forget(set);
    set->in_transaction = false;
    (void)unlock_set(set, g, 0);
}

/* A change outside a transaction is one of its own. Returns what the change returned, or why it did not take effect. A
 * change that fails inside a transaction makes all of it fail. */
static int finish_single(struct ct_hooks *set, bool single, int result) {
    if (!single) {
        if (result < 0 && !set->failure)
            set->failure = result;
        return result;
    }
    if (result < 0) {
        ct_set_forget(set);
        set->in_transaction = false;
        return result;
    }
    int status = commit(set);
    return status ? status : result;
}

static bool begin_single(struct ct_hooks *set) {
    bool single = !set->in_transaction;
    if (single)
        begin(set);
    return single;
}

/* ---- one function ---- */

static bool is_own_code(const struct ct_hook_module *m, uint64_t address) {
    return address >= m->own_start && address < m->own_end;
}

/* Index of the function in its module, or the end of what may be taken for one. */
static int locate(struct ct_hook_module *m, uint64_t function, size_t *index, uint64_t *end) {
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

static int plan_one(struct ct_hooks *set, uint64_t function, enum ct_hook_action action, uint64_t detour) {
    struct ct_hook_module *m;
    size_t index;
    uint64_t end, start = ct_os_nanoseconds();
    enum ct_skip_reason skip;
    if (ct_hook_region_of(&set->code, function))
        return CT_ERR_OWN_CODE;
    if (inside_patch(set, function))
        return CT_ERR_INSIDE_HOOK;
    int status = ct_hook_module_at(&set->code, function, &m);
    if (!status && is_own_code(m, function))
        status = CT_ERR_OWN_CODE;
    if (!status)
        status = locate(m, function, &index, &end);
    if (!status)
        status = ct_set_plan(set, m, index, function, end, action, detour, false, &skip);
    set->plan_ns += ct_os_nanoseconds() - start;
    return status;
}

int ct_hooks_attach(struct ct_hooks *set, void *function, const struct ct_listener *listener, void *user) {
    if (!set || !listener)
        return CT_ERR_INVALID_ARGUMENT;
    struct api_guard g = lock_set(set);
    bool single = begin_single(set);
    int number = plan_one(set, (uint64_t)function, CT_ACTION_LISTEN, 0);
    if (number >= 0)
        ct_set_publish(set, set->records[number], listener, user);
    return unlock_set(set, g, finish_single(set, single, number));
}

int ct_hooks_record(struct ct_hooks *set, void *function) {
    if (!set)
        return CT_ERR_INVALID_ARGUMENT;
    struct api_guard g = lock_set(set);
    bool single = begin_single(set);
    int number = plan_one(set, (uint64_t)function, CT_ACTION_RECORD, 0);
    if (number >= 0)
        ct_set_publish(set, set->records[number], NULL, NULL);
    return unlock_set(set, g, finish_single(set, single, number));
}

int ct_hooks_replace(struct ct_hooks *set, void *function, void *replacement, void **original) {
    if (!set || !replacement)
        return CT_ERR_INVALID_ARGUMENT;
    struct api_guard g = lock_set(set);
    bool single = begin_single(set);
    int number = plan_one(set, (uint64_t)function, CT_ACTION_REPLACE, (uint64_t)replacement);
    if (number >= 0) {
        ct_set_publish(set, set->records[number], NULL, NULL);
        if (original)
            *original = (void *)set->records[number]->plan.body;
    }
    return unlock_set(set, g, finish_single(set, single, number));
}

static struct ct_hook_record *record_of(struct ct_hooks *set, int hook) {
    if (hook < (int)set->first_number || (uint32_t)hook >= set->next_number || !set->records[hook])
        return NULL;
    struct ct_hook_record *r = set->records[hook];
    return r->request.number == (uint32_t)hook && r->state != CT_HOOK_GONE && r->state != CT_HOOK_SERVICE ? r : NULL;
}

/* A function that the engine itself watches keeps its patch and loses its observer. */
static int revert_to_service(struct ct_hooks *set, struct ct_hook_record *r) {
    r->request.action = CT_ACTION_NONE;
    r->request.number = set->next_service--;
    ct_set_publish(set, r, NULL, NULL);
    set->records[r->request.number] = r;
    r->state = CT_HOOK_SERVICE;
    return ct_set_rewrite_stub(r);
}

int ct_hooks_revert(struct ct_hooks *set, int hook) {
    struct api_guard g = lock_set(set);
    struct ct_hook_record *r = record_of(set, hook);
    if (!r)
        return unlock_set(set, g, CT_ERR_NOT_FOUND);
    if (r->state == CT_HOOK_PLANNED)
        return unlock_set(set, g, CT_ERR_BAD_STATE);
    if (r->request.special || (r->request.detour && r->request.action != CT_ACTION_REPLACE))
        return unlock_set(set, g, revert_to_service(set, r));
    bool single = begin_single(set);
    int status = ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_REVERT, .record = r});
    return unlock_set(set, g, finish_single(set, single, status));
}

static int switch_hook(struct ct_hooks *set, int hook, bool on) {
    struct api_guard g = lock_set(set);
    struct ct_hook_record *r = record_of(set, hook);
    if (!r)
        return unlock_set(set, g, CT_ERR_NOT_FOUND);
    if (r->state == CT_HOOK_PLANNED)
        return unlock_set(set, g, CT_ERR_BAD_STATE);
    int status;
    if (r->request.special) { /* off for the user, on for the engine */
        set->runtime->hooks[hook].flavor = (uint8_t)(on ? r->request.action : CT_ACTION_NONE);
        status = 0;
    } else {
        status = ct_arena_store8(r->module->region->arena, r->plan.stub, on ? r->plan.word_on : r->plan.word_off);
    }
    if (!status)
        r->state = on ? CT_HOOK_LIVE : CT_HOOK_DISABLED;
    return unlock_set(set, g, status);
}

int ct_hooks_disable(struct ct_hooks *set, int hook) {
    return switch_hook(set, hook, false);
}

int ct_hooks_enable(struct ct_hooks *set, int hook) {
    return switch_hook(set, hook, true);
}

/* ---- whole modules ---- */

static int add_skip(struct ct_hooks *set, struct ct_hook_module *m, size_t index, enum ct_skip_reason reason) {
    if (set->skip_count == set->skip_capacity) {
        size_t capacity = set->skip_capacity ? set->skip_capacity * 2 : 256;
        struct ct_skip_record *skips = realloc(set->skips, capacity * sizeof *skips);
        if (!skips)
            return CT_ERR_NO_MEMORY;
        set->skips = skips;
        set->skip_capacity = capacity;
    }
    set->skips[set->skip_count++] =
        (struct ct_skip_record){m->scan.funcs[index].start, m->functions[index].name, m->path, reason};
    return 0;
}

/* What can be told without looking at the code. */
static enum ct_skip_reason skip_by_kind(struct ct_hook_module *m, size_t i) {
    uint32_t flags = m->functions[i].flags;
    const struct ct_scan_func *f = &m->scan.funcs[i];
    if (flags & CT_FUNC_PLT)
        return CT_SKIP_PLT;
    if (flags & CT_FUNC_COLD)
        return CT_SKIP_COLD;
    if (flags & (CT_FUNC_ODD_ENTRY | CT_FUNC_NO_RETURN_ADDRESS))
        return CT_SKIP_ODD_ENTRY;
    bool nameless = !(flags & CT_FUNC_NAMED);
    if (nameless && (f->flags & CT_SCAN_CONDITIONAL) && !ct_scan_bit(&m->scan, m->scan.referenced, f->start))
        return CT_SKIP_FRAGMENT;
    return is_own_code(m, f->start) ? CT_SKIP_OWN_CODE : CT_SKIP_NONE;
}

static int plan_listed(struct ct_hooks *set, struct ct_hook_module *m, size_t i, const struct ct_module_hooks *what) {
    struct ct_scan_func *f = &m->scan.funcs[i];
    enum ct_skip_reason skip = skip_by_kind(m, i);
    if (!skip && what->filter && !what->filter(what->filter_arg, m->functions[i].name, (void *)f->start, f->end - f->start))
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
    if (!set || !what)
        return CT_ERR_INVALID_ARGUMENT;
    struct api_guard g = lock_set(set);
    bool single = begin_single(set);
    return unlock_set(set, g, finish_single(set, single, plan_module(set, what)));
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
    struct api_guard g = lock_set(set);
    int result = 0;
    for (uint32_t n = set->first_number; n < set->next_number && !result; n++) {
        const struct ct_hook_record *r = record_of(set, (int)n);
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
    return unlock_set(set, g, result);
}

uint64_t ct_timestamp(void) {
    return ct_os_timestamp();
}

int ct_hooks_set_sink(struct ct_hooks *set, ct_event_sink *sink, void *arg, size_t buffer_events) {
    if (!set || buffer_events > 1u << 26)
        return CT_ERR_INVALID_ARGUMENT;
    struct api_guard g = lock_set(set);
    struct ct_runtime *rt = set->runtime;
    size_t events = 256;
    while (events < (buffer_events ? buffer_events : DEFAULT_EVENTS))
        events *= 2;
    rt->sink = sink;
    rt->sink_arg = arg;
    if (rt->blocks) /* buffers of another size may exist already */
        events = rt->buffer_bytes / sizeof(struct ct_event);
    rt->buffer_bytes = events * sizeof(struct ct_event);
    return unlock_set(set, g, 0);
}

int ct_hooks_flush(struct ct_hooks *set) {
    struct api_guard g = lock_set(set);
    uint64_t mask = ct_os_block_signals();
    for (struct ct_block *b = set->runtime->blocks; b; b = b->next)
        if (b->in_use)
            ct_event_drain(b);
    ct_os_restore_signals(mask);
    return unlock_set(set, g, 0);
}

void ct_hooks_statistics(struct ct_hooks *set, struct ct_hook_statistics *out) {
    struct api_guard g = lock_set(set);
    *out = set->runtime->retired;
    for (const struct ct_block *b = set->runtime->blocks; b; b = b->next) {
        out->guarded_calls += b == g.block ? g.guarded_calls : b->guarded_calls;
        out->deep_calls += b->deep_calls;
        out->left_frames += b->left_frames;
        out->abandoned += b->abandoned;
    }
    for (uint32_t n = set->first_number; n < set->next_number; n++) {
        const struct ct_hook_record *r = record_of(set, (int)n);
        out->hooked += r != NULL;
        out->entry_only += r && r->request.entry_only;
    }
    for (size_t i = 0; i < set->skip_count; i++)
        out->skipped_by[set->skips[i].reason]++;
    out->skipped = set->skip_count;
    out->threads = set->runtime->threads_seen;
    out->plan_ns = set->plan_ns;
    out->stop_ns = set->stop_ns;
    (void)unlock_set(set, g, 0);
}
