/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the plan of a target together: see target_plan.h and target_internal.h.
 *
 * Several threads analyse the modules, and then plan them. Each has one module at a time, so they share only the
 * remote's memory, which any thread may read. The result does not depend on the order of the threads: the same target
 * gives the same bytes, with or without a cache. */
#include "plan/errno_place.h"
#include "plan/target_internal.h"
#include "trace/place.h"
#include "hook/known.h"
#include "isa/machine.h"
#include "os/os.h"
#include "os/thread.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Parts of a branch's reach. Modules within this much address space share a region ... */
#define NEIGHBOURS (ct_machine_host()->branch_reach / 8 * 3)
/* ... and of a module that is larger than this, only the code must be within reach. */
#define LARGE_MODULE (ct_machine_host()->branch_reach / 8)
#define LONGEST_MOVE 512u           /* bytes after a function's start that its patch may move elsewhere */

struct whole {
    struct ct_target_plan plan; /* what callers see; must be first */
    const struct ct_target_plan_options *options;
    struct ct_target_maps maps;
    struct ct_target_source *sources;
    struct ct_target_work *works; /* one per module */
    struct ct_target_arena *arenas;
    size_t arena_count;
    size_t *first_hook; /* of each module, and the end */
    size_t hook_room;
    size_t *order; /* modules, large ones first */
    size_t source_count;
    struct ct_place *cache; /* NULL: none */
    uint64_t cache_bytes;
    bool stored;
    struct ct_target_cancel cancel;
};

/* ---- analysis ---- */

static size_t code_size(const struct ct_target_source *s) {
    size_t size = 0;
    for (size_t i = 0; i < s->text_count; i++)
        size += (size_t)(s->texts[i].end - s->texts[i].start);
    return size;
}

static int compare_sizes(const void *a, const void *b, void *arg) {
    const struct ct_target_source *sources = arg;
    size_t left = code_size(&sources[*(const size_t *)a]), right = code_size(&sources[*(const size_t *)b]);
    return left > right ? -1 : left < right;
}

static bool is_cancelled(const struct whole *w) {
    return __atomic_load_n(&w->cancel.over, __ATOMIC_RELAXED);
}

static void for_all_modules(struct whole *w, ct_target_task *task) {
    ct_target_pool_run(task, w, w->order, w->source_count, &w->cancel);
}

static int sort_by_size(struct whole *w) {
    w->order = calloc(w->source_count + 1, sizeof *w->order);
    if (!w->order)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < w->source_count; i++)
        w->order[i] = i;
    qsort_r(w->order, w->source_count, sizeof *w->order, compare_sizes, w->sources);
    return 0;
}

static void analyse_part(struct ct_target_pool *pool, void *arg, size_t part) {
    (void)pool;
    ct_target_analyse_part(arg, part);
}

static void analyse_module(struct ct_target_pool *pool, void *arg, size_t i) {
    struct whole *w = arg;
    struct ct_target_source *s = &w->sources[i];
    s->cancelled = &w->cancel.over;
    s->guess = w->options->guess;
    s->status = is_cancelled(w) ? CT_ERR_TIMEOUT : CT_OK;
    if (s->status == CT_ERR_TIMEOUT)
        return;
    ct_target_debug_identify(s);
    s->unread = w->options->names_only; /* functions keep their names, whatever was patched in memory */
    if (s->unread && ct_target_cache_load(w->cache, s))
        return;
    s->unread = false;
    s->status = ct_target_source_read(s);
    if (s->status || ct_target_cache_load(w->cache, s))
        return;
    size_t parts = ct_target_analyse_begin(s, ct_target_pool_threads());
    for (size_t part = 1; part < parts; part++)
        ct_target_pool_add(pool, analyse_part, s, part);
    if (parts)
        ct_target_analyse_part(s, 0);
}

static void describe_module(struct whole *w, size_t i) {
    const struct ct_target_source *s = &w->sources[i];
    struct ct_target_module *m = &w->plan.modules[i];
    *m = (struct ct_target_module){
        .id = w->options->first_module + (uint32_t)i + 1,
        .path = s->path,
        .build_id = s->build_id,
        .bias = s->bias,
        .start = s->start,
        .end = s->end,
        .inode = s->inode,
        .table_hash = s->image ? s->image->table_hash : 0,
        .code_bytes = s->image ? s->image->code_bytes : 0,
        .from_cache = s->image_mapped != NULL,
    };
    if (s->image && s->image->get_cfa && !w->plan.get_cfa)
        w->plan.get_cfa = s->bias + s->image->get_cfa;
    if (w->cache && s->image)
        ++*(m->from_cache ? &w->plan.cache_hits : &w->plan.cache_misses);
}

static int analyse_all(struct whole *w) {
    int status = sort_by_size(w);
    if (status)
        return status;
    for_all_modules(w, analyse_module);
    if (is_cancelled(w))
        return CT_ERR_TIMEOUT;
    w->plan.modules = calloc(w->source_count + 1, sizeof *w->plan.modules);
    if (!w->plan.modules)
        return CT_ERR_NO_MEMORY;
    w->plan.module_count = w->source_count;
    for (size_t i = 0; i < w->source_count; i++)
        describe_module(w, i);
    return 0;
}

/* ---- stub memory ---- */

static void *reserve_memory(size_t size) {
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

/* The range that stubs must reach: the whole module, since moved code refers to its data, or only the code if the
 * module is too large. */
static void served_range(const struct ct_target_source *s, uint64_t *start, uint64_t *end) {
    *start = s->start;
    *end = s->end;
    if (s->end - s->start > LARGE_MODULE) {
        *start = s->texts[0].start;
        *end = s->texts[s->text_count - 1].end;
    }
}

static int compare_works(const void *a, const void *b) {
    const struct ct_target_work *left = *(struct ct_target_work *const *)a, *right = *(struct ct_target_work *const *)b;
    return left->source->start < right->source->start ? -1 : left->source->start > right->source->start;
}

/* Makes an arena with a slot for each of the works; returns false if no address is free for it. */
static bool make_arena(struct whole *w, struct ct_target_work **works, size_t count) {
    struct ct_target_arena *a = &w->arenas[w->arena_count];
    uint64_t start, end, at = ct_target_round(ct_both_codes_size(), 64);
    *a = (struct ct_target_arena){.start = UINT64_MAX};
    for (size_t i = 0; i < count; i++) {
        served_range(works[i]->source, &start, &end);
        a->start = start < a->start ? start : a->start;
        a->end = end > a->end ? end : a->end;
        works[i]->arena = a;
        works[i]->slot = at;
        works[i]->slot_end = at += ct_target_slot_size(works[i]->source->image);
    }
    uint64_t tail = at + (4u << 20);
    a->used = at;
    for (a->size = ct_target_round(at + tail, ct_os_page_size()); !a->address;
         a->size = ct_target_round(at, ct_os_page_size())) {
        a->address =
            ct_target_gap_find(&w->maps, w->sources[0].end, a->start, a->end, ct_machine_host()->branch_reach, a->size);
        if (a->address || a->size < at + tail)
            break;
    }
    if (!a->address || !(a->bytes = reserve_memory(a->size)))
        return false;
    memcpy(a->bytes, ct_hook_code, (size_t)(ct_hook_code_end - ct_hook_code));
    memcpy(a->bytes + ct_table_code_offset(), ct_table_code, (size_t)(ct_table_code_end - ct_table_code));
    ct_shared_code_at(&a->shared, a->address);
    w->arena_count++;
    return true;
}

/* Marks the arena's addresses as taken, so that the next arena goes elsewhere. */
static int occupy_arena(struct whole *w, const struct ct_target_arena *a) {
    int status = ct_target_maps_add(&w->maps, a->address, a->address + a->size);
    ct_target_maps_sort(&w->maps);
    return status;
}

/* Marks whole modules as taken: holes inside a module belong to it. */
static int occupy_modules(struct whole *w) {
    int status = 0;
    for (size_t i = 0; i < w->source_count && !status; i++)
        status = ct_target_maps_add(&w->maps, w->sources[i].start, w->sources[i].end);
    ct_target_maps_sort(&w->maps);
    return status;
}

/* Makes one arena for all of these modules, or else one for each. A module without one gets an arena with address 0. */
static int serve_modules(struct whole *w, struct ct_target_work **works, size_t count) {
    if (make_arena(w, works, count))
        return occupy_arena(w, &w->arenas[w->arena_count - 1]);
    for (size_t i = 0; i < count; i++) {
        bool made = count > 1 && make_arena(w, &works[i], 1);
        int status = made ? occupy_arena(w, &w->arenas[w->arena_count - 1]) : 0;
        if (status)
            return status;
        if (!made) {
            works[i]->arena = &w->arenas[w->arena_count++];
            *works[i]->arena = (struct ct_target_arena){0};
        }
    }
    return 0;
}

/* Goes through the modules in address order; neighbours share an arena. */
static int place_arenas(struct whole *w) {
    struct ct_target_work **sorted = calloc(w->source_count + 1, sizeof(struct ct_target_work *));
    size_t count = 0, first = 0;
    w->arenas = calloc(w->source_count + 1, sizeof *w->arenas);
    if (!sorted || !w->arenas) {
        free(sorted);
        return CT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < w->source_count; i++)
        if (w->sources[i].image)
            sorted[count++] = &w->works[i];
    qsort(sorted, count, sizeof(struct ct_target_work *), compare_works);
    int status = 0;
    for (size_t i = 1; i <= count && !status; i++) {
        if (i < count && sorted[i]->source->end - sorted[first]->source->start <= NEIGHBOURS)
            continue;
        status = serve_modules(w, sorted + first, i - first);
        first = i;
    }
    free(sorted);
    return status;
}

static int note_regions(struct whole *w) {
    w->plan.regions = calloc(w->arena_count + 1, sizeof *w->plan.regions);
    if (!w->plan.regions)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < w->arena_count; i++) {
        const struct ct_target_arena *a = &w->arenas[i];
        bool used = false;
        for (size_t k = 0; k < w->source_count; k++)
            used |= w->works[k].arena == a && w->works[k].hook_count;
        if (used)
            w->plan.regions[w->plan.region_count++] =
                (struct ct_target_region){.address = a->address,
                                          .size = ct_target_round(a->used, ct_os_page_size()),
                                          .used = a->used,
                                          .bytes = a->bytes};
    }
    return 0;
}

/* ---- hooks ---- */

/* Does something in the process translate all code before it runs? */
static bool is_translated(const struct whole *w) {
    for (size_t i = 0; i < w->maps.count; i++)
        if ((w->maps.items[i].prot & CT_OS_EXEC) && ct_known_translates(w->maps.items[i].path))
            return true;
    return false;
}

static bool reads_code(const struct ct_target_source *s) {
    return s->path && ct_known_reads_code(s->path);
}

static int prepare_works(struct whole *w) {
    const bool translated = is_translated(w);
    w->works = calloc(w->source_count + 1, sizeof *w->works);
    w->first_hook = calloc(w->source_count + 1, sizeof *w->first_hook);
    if (!w->works || !w->first_hook)
        return CT_ERR_NO_MEMORY;
    size_t functions = 0;
    for (size_t i = 0; i < w->source_count; i++)
        functions += w->sources[i].image ? w->sources[i].image->function_count : 0;
    w->hook_room = (functions + 1) * sizeof *w->plan.hooks;
    w->plan.hooks = reserve_memory(w->hook_room);
    if (!w->plan.hooks)
        return CT_ERR_NO_MEMORY;
    functions = 0;
    for (size_t i = 0; i < w->source_count; i++) {
        w->works[i] = (struct ct_target_work){.source = &w->sources[i],
                                              .module = &w->plan.modules[i],
                                              .filter = &w->options->filter,
                                              .detail = w->options->detail,
                                              .options = w->options,
                                              .fast_clock = w->options->fast_clock,
                                              .names_only = w->options->names_only,
                                              .reads_code = translated || reads_code(&w->sources[i]),
                                              .no_unwinder = !w->plan.get_cfa && !w->options->has_unwinder,
                                              .hooks = w->plan.hooks + functions};
        functions += w->sources[i].image ? w->sources[i].image->function_count : 0;
    }
    return 0;
}

static void plan_module(struct ct_target_pool *pool, void *arg, size_t i) {
    struct whole *w = arg;
    (void)pool;
    if (w->sources[i].image)
        ct_target_hooks_plan(&w->works[i]);
}

static void plan_rest(struct whole *w) {
    for (size_t i = 0; i < w->arena_count; i++) {
        w->arenas[i].used = 0;
        for (size_t k = 0; k < w->source_count; k++)
            if (w->works[k].arena == &w->arenas[i] && w->works[k].slot_used > w->arenas[i].used)
                w->arenas[i].used = w->works[k].slot_used;
    }
    for (size_t i = 0; i < w->source_count; i++)
        if (w->works[i].leftover_count || w->works[i].late_count)
            ct_target_hooks_plan_rest(&w->works[i]);
}

/* Closes the gaps between the modules' hooks, and those of functions that got none, and numbers the hooks. */
static void number_hooks(struct whole *w) {
    for (size_t i = 0; i < w->source_count; i++) {
        struct ct_target_work *work = &w->works[i];
        w->first_hook[i] = w->plan.hook_count;
        for (size_t k = 0; k < work->hook_count; k++) {
            struct ct_target_hook *to = &w->plan.hooks[w->plan.hook_count], *from = &work->hooks[k];
            if (!from->plan.patch_count)
                continue;
            if (to != from)
                *to = *from;
            uint32_t n = w->options->first_hook + (uint32_t)w->plan.hook_count++;
            work->module->functions[(uint32_t)to->function_id].hook = (int32_t)n;
            memcpy(work->arena->bytes + (to->plan.stub - work->arena->address) + CT_STUB_NUMBER, &n, sizeof n);
        }
    }
    w->first_hook[w->source_count] = w->plan.hook_count;
}

static int plan_all(struct whole *w) {
    int status = prepare_works(w);
    if (!status)
        status = occupy_modules(w);
    if (!status && !w->options->names_only)
        status = place_arenas(w);
    if (status)
        return status;
    for_all_modules(w, plan_module);
    for (size_t i = 0; i < w->source_count; i++)
        if (w->works[i].status)
            return w->works[i].status;
    plan_rest(w);
    number_hooks(w);
    return note_regions(w);
}

/* ---- public ---- */

static void store_image(struct ct_target_pool *pool, void *arg, size_t i) {
    struct whole *w = arg;
    (void)pool;
    if (ct_target_cache_store(w->cache, w->cache_bytes, &w->sources[i]))
        __atomic_store_n(&w->stored, true, __ATOMIC_RELAXED);
    if (w->works)
        ct_target_work_free(&w->works[i]);
    ct_target_source_drop_code(&w->sources[i]);
}

static void open_cache(struct whole *w) {
    const char *path = w->options->cache_dir;
    w->cache_bytes = w->options->cache_bytes ? w->options->cache_bytes : CT_TARGET_CACHE_BYTES;
    if (path)
        (void)ct_place_open(&w->cache, path, CT_PLACE_PRIVATE | CT_PLACE_MAKE, CT_PLACE_NO_GROUP);
}

static void close_cache(struct whole *w) {
    if (w->stored)
        ct_target_cache_prune(w->cache, w->cache_bytes);
    ct_place_drop(w->cache);
    w->cache = NULL;
}

static int make_plan(struct whole *w, struct ct_remote *remote) {
    uint64_t start = ct_os_nanoseconds();
    open_cache(w);
    int status = ct_target_maps_read(&w->maps, remote);
    if (!status)
        status = ct_target_sources_find(&w->sources, &w->source_count, remote, &w->maps, w->options);
    if (!status)
        status = analyse_all(w);
    uint64_t middle = ct_os_nanoseconds();
    w->plan.analyse_ns = middle - start;
    if (!status)
        status = plan_all(w);
    w->plan.plan_ns = ct_os_nanoseconds() - middle;
    if (w->order)
        for_all_modules(w, store_image);
    close_cache(w);
    free(w->works);
    w->works = NULL;
    ct_target_maps_free(&w->maps);
    return status;
}

int ct_target_plan_make(struct ct_target_plan **out, struct ct_remote *remote,
                        const struct ct_target_plan_options *options, struct ct_remote_error *error) {
    static const struct ct_target_plan_options defaults;
    struct whole *w = calloc(1, sizeof *w);
    int status = CT_ERR_NO_MEMORY;
    if (w) {
        w->options = options ? options : &defaults;
        w->cancel = (struct ct_target_cancel){.given_up = w->options->given_up, .arg = w->options->given_up_arg};
        status = make_plan(w, remote);
        if (!status && w->options->detail && !w->options->known_count)
            ct_errno_find(&w->plan, remote);
        if (!status && is_cancelled(w)) /* the user has given up, even if all is done by now */
            status = CT_ERR_TIMEOUT;
        w->options = NULL;
    }
    if (!status) {
        *out = &w->plan;
        return 0;
    }
    if (error)
        snprintf(error->text, sizeof error->text, "the functions of process %d could not be read: %s",
                 ct_remote_pid(remote), ct_status_text(status));
    ct_target_plan_free(w ? &w->plan : NULL);
    return status;
}

void ct_target_plan_free(struct ct_target_plan *plan) {
    struct whole *w = (struct whole *)plan;
    if (!w)
        return;
    for (size_t i = 0; i < plan->hook_count; i++)
        free(plan->hooks[i].plan.whole);
    for (size_t i = 0; i < plan->module_count; i++)
        free(plan->modules[i].functions);
    for (size_t i = 0; i < w->source_count; i++)
        ct_target_source_free(&w->sources[i]);
    for (size_t i = 0; i < w->arena_count; i++)
        if (w->arenas[i].bytes)
            munmap(w->arenas[i].bytes, w->arenas[i].size);
    if (plan->hooks)
        munmap(plan->hooks, w->hook_room);
    free(plan->modules);
    free(plan->regions);
    free(w->sources);
    free(w->arenas);
    free(w->first_hook);
    free(w->order);
    free(w);
}

/* The number of hooks in [first, end) whose functions start at pc or before, plus `first`. */
static size_t hooks_up_to(const struct ct_target_plan *plan, size_t first, size_t end, uint64_t pc) {
    size_t low = first, high = end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plan->hooks[middle].plan.function <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Functions may be inside others, so the pc may be in the patch of any function that starts a little before it: tries
 * all of these. */
static uint64_t moved_in(const struct ct_target_plan *plan, size_t first, size_t end, uint64_t pc, bool in_call) {
    size_t low = hooks_up_to(plan, first, end, pc);
    for (; low > first && pc - plan->hooks[low - 1].plan.function < LONGEST_MOVE; low--) {
        uint64_t to = ct_plan_moved(&plan->hooks[low - 1].plan, pc, in_call);
        if (to)
            return to;
    }
    return 0;
}

const struct ct_target_hook *ct_target_plan_hook(const struct ct_target_plan *plan, uint64_t function) {
    const struct whole *w = (const struct whole *)plan;
    for (size_t i = 0; i < plan->module_count; i++) {
        if (function < plan->modules[i].start || function >= plan->modules[i].end)
            continue;
        size_t low = hooks_up_to(plan, w->first_hook[i], w->first_hook[i + 1], function);
        bool found = low > w->first_hook[i] && plan->hooks[low - 1].plan.function == function;
        return found ? &plan->hooks[low - 1] : NULL;
    }
    return NULL;
}

uint64_t ct_target_plan_moved(const struct ct_target_plan *plan, uint64_t pc, bool in_call) {
    const struct whole *w = (const struct whole *)plan;
    for (size_t i = 0; i < plan->module_count; i++)
        if (pc >= plan->modules[i].start && pc < plan->modules[i].end)
            return moved_in(plan, w->first_hook[i], w->first_hook[i + 1], pc, in_call);
    return 0;
}
