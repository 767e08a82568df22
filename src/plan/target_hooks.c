/* SPDX-License-Identifier: Apache-2.0 */
/* Plans the hooks of one module, from its image and the local copy of its code.
 *
 * Stubs go one after the other into the module's slot of an arena, so that several threads can plan for one arena.
 * Stubs that do not fit are planned later, at the end of the arena. Short functions that need room in a neighbour are
 * planned after all others. Hooks get their numbers last, when all of them are known. Invariant: no two patches cover
 * the same byte of text. */
#include "plan/target_internal.h"
#include "base/grow.h"
#include "hook/classify.h"
#include "hook/springboard.h"
#include "symbols/name_match.h"
#include <contrail/status.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_STUB 64u

uint64_t ct_target_slot_size(const struct ct_target_image *image) {
    return ct_target_round(image->function_count * USUAL_STUB + CT_STUB_MAX, 64);
}

/* ---- filters ---- */

static bool matches_any(const char *const *globs, const char *text) {
    for (; *text && *globs; globs++)
        if (!fnmatch(*globs, text, 0))
            return true;
    return false;
}

static bool module_matches(const char *const *globs, const char *path) {
    const char *slash = strrchr(path, '/');
    return matches_any(globs, path) || (slash && matches_any(globs, slash + 1));
}

/* What the filter says about all functions of a module. */
struct selection {
    const struct ct_target_filter *filter;
    bool all, none;
};

static struct selection selection_of(const struct ct_target_filter *filter, const char *path) {
    return (struct selection){
        .filter = filter,
        .all = !filter->only || module_matches(filter->only, path),
        .none = filter->exclude && module_matches(filter->exclude, path),
    };
}

static bool is_selected(const struct selection *s, const char *name) {
    if (s->none || (s->filter->exclude && ct_name_fits(s->filter->exclude, name)))
        return false;
    return s->all || ct_name_fits(s->filter->only, name);
}

/* ---- scans, from the image ---- */

static int load_funcs(struct ct_scan *scan, const struct ct_target_image *image, const struct ct_image_text *t,
                      uint64_t bias) {
    const struct ct_image_function *f = ct_image_at(image, image->functions);
    const struct ct_image_loop *loops = ct_image_at(image, t->loops);
    f += t->first_function;
    scan->funcs = malloc((t->function_count + 1) * sizeof *scan->funcs);
    scan->loops = malloc((t->loop_count + 1) * sizeof *scan->loops);
    if (!scan->funcs || !scan->loops)
        return CT_ERR_NO_MEMORY;
    scan->func_count = t->function_count;
    scan->loop_count = scan->loop_capacity = t->loop_count;
    for (size_t i = 0; i < t->function_count; i++)
        scan->funcs[i] = (struct ct_scan_func){
            .start = bias + f[i].offset, .end = bias + f[i].offset + f[i].size, .flags = f[i].scan_flags};
    for (size_t i = 0; i < t->loop_count; i++)
        scan->loops[i] = (struct ct_scan_loop){.branch = bias + loops[i].branch,
                                               .function = loops[i].function,
                                               .length = loops[i].length,
                                               .disp_size = loops[i].disp_size};
    return 0;
}

/* The planner changes only the `taken` map of a scan, so the other maps can stay in the image. */
static int load_scan(struct ct_target_work *w, size_t i) {
    const struct ct_target_source *s = w->source;
    const struct ct_image_text *t = (const struct ct_image_text *)ct_image_at(s->image, s->image->texts) + i;
    w->scans[i] = (struct ct_scan){
        .code = s->texts[i].code,
        .start = s->texts[i].start,
        .end = s->texts[i].end,
        .landing = (uint64_t *)ct_image_at(s->image, t->landing),
        .foreign = (uint64_t *)ct_image_at(s->image, t->foreign),
        .referenced = (uint64_t *)ct_image_at(s->image, t->referenced),
        .taken = calloc(ct_image_map_words(t), 8),
    };
    w->patched[i] = calloc(ct_image_map_words(t), 8);
    if (!w->scans[i].taken || !w->patched[i])
        return CT_ERR_NO_MEMORY;
    int status = load_funcs(&w->scans[i], s->image, t, s->bias);
    return status || w->names_only ? status : ct_springboards_prepare(&w->scans[i]);
}

static int prepare_work(struct ct_target_work *w) {
    size_t texts = w->source->text_count, functions = w->source->image->function_count;
    w->scans = calloc(texts, sizeof *w->scans);
    w->patched = calloc(texts, sizeof *w->patched);
    w->leftover = calloc(functions + 1, sizeof *w->leftover);
    w->module->functions = calloc(functions + 1, sizeof *w->module->functions);
    if (!w->scans || !w->patched || !w->leftover || !w->module->functions)
        return CT_ERR_NO_MEMORY;
    int status = 0;
    for (size_t i = 0; i < texts && !status; i++)
        status = load_scan(w, i);
    return status;
}

void ct_target_work_free(struct ct_target_work *w) {
    for (size_t i = 0; w->scans && i < w->source->text_count; i++) {
        free(w->scans[i].taken);
        ct_springboards_free(&w->scans[i]);
        free(w->scans[i].funcs);
        free(w->scans[i].loops);
    }
    for (size_t i = 0; w->patched && i < w->source->text_count; i++)
        free(w->patched[i]);
    free(w->scans);
    free(w->patched);
    free(w->leftover);
    free(w->late);
}

/* ---- one hook ---- */

static bool is_patched(const struct ct_scan *scan, const uint64_t *patched, const struct ct_plan *plan) {
    for (unsigned i = 0; i < plan->patch_count; i++)
        for (unsigned b = 0; b < plan->patches[i].size; b++)
            if (ct_scan_bit(scan, patched, plan->patches[i].at + b))
                return true;
    for (unsigned b = 0; b < plan->room; b++)
        if (ct_scan_bit(scan, patched, plan->place + b))
            return true;
    return false;
}

static void note_patched(const struct ct_scan *scan, uint64_t *patched, const struct ct_plan *plan) {
    for (unsigned i = 0; i < plan->patch_count; i++)
        for (unsigned b = 0; b < plan->patches[i].size; b++)
            ct_scan_set(scan, patched, plan->patches[i].at + b);
}

/* A function cannot have a patch of its own if another one's patch covers its entry. */
static bool is_entry_patched(const struct ct_scan *scan, const uint64_t *patched, const struct ct_scan_func *f) {
    for (uint64_t at = f->start; at < f->start + 4 && at < f->end; at++)
        if (ct_scan_bit(scan, patched, at))
            return true;
    return false;
}

struct subject {
    struct ct_target_work *work;
    size_t text, index; /* of the function in its text */
    struct ct_function_class class;
    enum ct_hook_action action;
    bool sampled;
};

static bool is_sampled(const struct ct_target_work *w, const char *name) {
    const struct ct_target_plan_options *o = w->options;
    return o->sample && !(o->always && o->always(o->always_arg, name, w->module->path));
}

/* Plans a stub into `bytes`, which will run at `address`; sets *length to the stub's length. */
static enum ct_hook_skip_reason plan_one(const struct subject *j, uint8_t *bytes, uint64_t address, size_t *length,
                                         struct ct_plan *plan) {
    struct ct_scan *scan = &j->work->scans[j->text];
    uint64_t *patched = j->work->patched[j->text];
    const struct ct_scan_func *f = &scan->funcs[j->index];
    struct ct_plan_request request = {
        .scan = scan,
        .shared = &j->work->arena->shared,
        .detail = j->work->detail,
        .sample = j->sampled,
        .fast_clock = j->work->fast_clock,
        .function = f->start,
        .end = f->end,
        .scan_flags = f->flags,
        .action = j->action,
        .special = j->class.special,
        .entry_only = j->class.entry_only,
        .boards = j->action == CT_ACTION_PASS,
    };
    struct ct_code_buf out = {.bytes = bytes, .capacity = CT_STUB_MAX, .address = address};
    *length = 0;
    if (is_entry_patched(scan, patched, f))
        return CT_HOOK_SKIP_OVERLAP;
    enum ct_hook_skip_reason reason = ct_plan_hook(&request, &out, plan);
    if (reason)
        return reason;
    if (is_patched(scan, patched, plan) || plan->room < request.boards) {
        ct_plan_release(&request, plan);
        return CT_HOOK_SKIP_OVERLAP;
    }
    note_patched(scan, patched, plan);
    *length = out.length;
    return CT_HOOK_SKIP_NONE;
}

/* Is it the function itself that somebody wants to see? Then it matters why it has no hook. */
static bool is_observed(enum ct_hook_action action) {
    return action == CT_ACTION_RECORD || action == CT_ACTION_LISTEN;
}

static void count_skip(struct ct_target_work *w, struct ct_target_function *f, enum ct_hook_skip_reason reason) {
    f->skip = (uint8_t)reason;
    w->module->skipped[reason]++;
}

/* Plans the hook at *where, an offset in the arena, and moves that on. */
static enum ct_hook_skip_reason add_hook(const struct subject *j, struct ct_target_function *f, uint64_t *where) {
    struct ct_target_work *w = j->work;
    struct ct_target_hook *hook = &w->hooks[w->hook_count];
    size_t length;
    enum ct_hook_skip_reason reason =
        plan_one(j, w->arena->bytes + *where, w->arena->address + *where, &length, &hook->plan);
    if (reason)
        return reason;
    hook->function_id = (uint64_t)w->module->id << 32 | (uint64_t)(f - w->module->functions);
    hook->action = (uint8_t)j->action;
    hook->special = (uint8_t)j->class.special;
    hook->entry_only = (uint8_t)j->class.entry_only;
    hook->service = j->class.service;
    w->hook_count++;
    f->hook = 0; /* it has one */
    *where += ct_target_round(length, 8);
    if (j->action == CT_ACTION_PASS)
        return CT_HOOK_SKIP_NONE;
    f->entry_only = hook->entry_only;
    if (is_observed(j->action)) {
        w->module->hooked++;
        w->module->guessed += (f->flags & CT_FUNC_GUESSED) != 0;
        w->module->entry_only += j->class.entry_only != CT_HOOK_ENTRY_ONLY_NONE;
    }
    return CT_HOOK_SKIP_NONE;
}

/* ---- what to do with a function ---- */

static struct ct_function_class class_of(const struct subject *j, const struct ct_target_function *f) {
    const struct ct_scan *scan = &j->work->scans[j->text];
    const struct ct_scan_func *func = &scan->funcs[j->index];
    struct ct_function_facts facts = {
        .side = CT_CLASSIFY_OUTSIDE,
        .name = f->name,
        .flags = f->flags,
        .scan_flags = func->flags,
        .referenced = ct_scan_bit(scan, scan->referenced, func->start),
        .return_map = j->work->source->image->return_map,
        .walks = j->work->source->image->walks,
        .libc = j->work->source->image->libc,
        .reads_code = j->work->reads_code,
        .no_unwinder = j->work->no_unwinder,
    };
    return ct_classify(&facts);
}

static enum ct_hook_action wanted_action(const struct subject *j) {
    if (!j->work->options->listen)
        return CT_ACTION_RECORD;
    return j->class.special ? CT_ACTION_NONE : CT_ACTION_LISTEN;
}

/* Decides what to do with a function. Returns false if it gets no hook; it has been counted then. */
static bool decide_action(struct subject *j, const struct selection *selection, struct ct_target_function *f) {
    j->class = class_of(j, f);
    enum ct_hook_skip_reason skip = j->class.skip;
    if (!skip && !is_selected(selection, f->name))
        skip = CT_HOOK_SKIP_FILTERED;
    j->action = skip ? CT_ACTION_NONE : wanted_action(j);
    j->sampled = !skip && is_sampled(j->work, f->name);
    bool wanted = !skip || (j->class.service && skip != CT_HOOK_SKIP_PLT);
    if (wanted && j->work->arena && !j->work->arena->address) {
        skip = CT_HOOK_SKIP_OUT_OF_REACH;
        wanted = false;
    }
    if (skip)
        count_skip(j->work, f, skip);
    return wanted;
}

/* ---- short functions that need room in a neighbour ---- */

struct ct_target_late {
    struct subject subject;
    size_t function; /* in the module */
    size_t hook;     /* the place that is kept for it; without patches, it is taken out in the end */
};

static void note_late(const struct subject *j, size_t function) {
    struct ct_target_work *w = j->work;
    if (!ct_grow(&w->late, &w->late_capacity, w->late_count, sizeof *w->late, 64)) {
        if (is_observed(j->action))
            count_skip(w, &w->module->functions[function], CT_HOOK_SKIP_NO_SPRINGBOARD);
        return;
    }
    w->hooks[w->hook_count].plan = (struct ct_plan){.function = w->scans[j->text].funcs[j->index].start};
    w->late[w->late_count++] = (struct ct_target_late){*j, function, w->hook_count++};
}

/* Plans a hook, or notes why there is none. A function that is not to be recorded has already been counted. */
static void try_hook(const struct subject *j, struct ct_target_function *f, uint64_t *where) {
    enum ct_hook_skip_reason reason = add_hook(j, f, where);
    if (reason == CT_HOOK_SKIP_NO_SPRINGBOARD)
        note_late(j, (size_t)(f - j->work->module->functions));
    else if (reason && is_observed(j->action))
        count_skip(j->work, f, reason);
}

/* Gives a function that is not recorded a stub that does nothing, so that its bytes have room. */
static bool add_host(const struct ct_target_late *late, uint64_t *where) {
    struct ct_target_work *w = late->subject.work;
    const struct ct_scan *scan = &w->scans[late->subject.text];
    const struct ct_scan_func *guest = &scan->funcs[late->subject.index];
    uint64_t low =
        guest->start > scan->start + CT_SPRINGBOARD_REACH ? guest->start - CT_SPRINGBOARD_REACH : scan->start;
    for (size_t i = ct_scan_after(scan, low);
         i < scan->func_count && scan->funcs[i].start < guest->start + CT_SPRINGBOARD_REACH; i++) {
        struct ct_target_function *f = &w->module->functions[late->function - late->subject.index + i];
        struct subject j = {.work = w, .text = late->subject.text, .index = i, .action = CT_ACTION_PASS};
        if (f->hook >= 0 || f->skip != CT_HOOK_SKIP_FILTERED ||
            !ct_springboards_may_host(scan, i, guest->start, guest->end))
            continue;
        j.class = class_of(&j, f);
        if (!j.class.special && !add_hook(&j, f, where))
            return true;
    }
    return false;
}

static enum ct_hook_skip_reason add_late(const struct ct_target_late *late, uint64_t *where) {
    struct ct_target_work *w = late->subject.work;
    enum ct_hook_skip_reason reason = add_hook(&late->subject, &w->module->functions[late->function], where);
    if (!reason)
        w->hooks[late->hook] = w->hooks[--w->hook_count];
    return reason;
}

/* Plans what waits, as long as there is room for stubs before `limit`. */
static void plan_late(struct ct_target_work *w, uint64_t *where, uint64_t limit) {
    size_t done = 0;
    for (; done < w->late_count && limit - *where >= 2 * CT_STUB_MAX; done++) {
        const struct ct_target_late *late = &w->late[done];
        enum ct_hook_skip_reason reason = add_late(late, where);
        if (reason == CT_HOOK_SKIP_NO_SPRINGBOARD && !late->subject.class.special && add_host(late, where))
            reason = add_late(late, where);
        if (reason && is_observed(late->subject.action))
            count_skip(w, &w->module->functions[late->function], reason);
    }
    w->late_count -= done;
    if (w->late_count)
        memmove(w->late, w->late + done, w->late_count * sizeof *w->late);
}

static int compare_hooks(const void *a, const void *b) {
    const struct ct_target_hook *left = a, *right = b;
    return left->plan.function < right->plan.function ? -1 : left->plan.function > right->plan.function;
}

/* Brings the hooks into the order of their functions. The first `sorted` of them are; the others are few hosts. */
static void sort_hooks(struct ct_target_work *w, size_t sorted) {
    size_t late = w->hook_count - sorted, to = w->hook_count;
    struct ct_target_hook *tail = late ? malloc(late * sizeof *tail) : NULL;
    if (!tail) {
        if (late)
            qsort(w->hooks, w->hook_count, sizeof *w->hooks, compare_hooks);
        return;
    }
    memcpy(tail, w->hooks + sorted, late * sizeof *tail);
    qsort(tail, late, sizeof *tail, compare_hooks);
    while (late) {
        bool from_tail = !sorted || compare_hooks(&tail[late - 1], &w->hooks[sorted - 1]) > 0;
        w->hooks[--to] = from_tail ? tail[--late] : w->hooks[--sorted];
    }
    free(tail);
}

/* ---- a module ---- */

static void fill_function(const struct ct_target_image *image, size_t i, struct ct_target_function *out) {
    const struct ct_image_function *f = (const struct ct_image_function *)ct_image_at(image, image->functions) + i;
    *out = (struct ct_target_function){
        .offset = f->offset,
        .size = f->size,
        .name = (const char *)ct_image_at(image, image->names) + f->name,
        .flags = f->flags,
        .hook = -1,
        .reals = image->described && f->scan_flags & CT_SCAN_REALS,
    };
}

static void plan_text(struct ct_target_work *w, const struct selection *selection, size_t text, size_t *at) {
    const struct ct_target_image *image = w->source->image;
    for (size_t i = 0; i < w->scans[text].func_count; i++, ++*at) {
        struct ct_target_function *f = &w->module->functions[*at];
        struct subject j = {.work = w, .text = text, .index = i};
        fill_function(image, *at, f);
        if (!decide_action(&j, selection, f) || w->names_only)
            continue;
        if (w->slot_end - w->slot_used < CT_STUB_MAX || w->leftover_count) {
            w->leftover[*at] = true;
            w->leftover_count++;
            continue;
        }
        try_hook(&j, f, &w->slot_used);
    }
}

void ct_target_hooks_plan(struct ct_target_work *w) {
    struct selection selection = selection_of(w->filter, w->module->path);
    size_t at = 0;
    w->slot_used = w->slot;
    w->status = prepare_work(w);
    if (w->status)
        return;
    w->module->function_count = w->source->image->function_count;
    for (size_t text = 0; text < w->source->text_count; text++)
        plan_text(w, &selection, text, &at);
    size_t sorted = w->hook_count;
    if (!w->leftover_count)
        plan_late(w, &w->slot_used, w->slot_end);
    if (!w->late_count) /* else places are kept; ct_target_hooks_plan_rest sorts them */
        sort_hooks(w, sorted);
}

void ct_target_hooks_plan_rest(struct ct_target_work *w) {
    struct selection selection = selection_of(w->filter, w->module->path);
    struct ct_target_arena *arena = w->arena;
    size_t at = 0;
    for (size_t text = 0; w->leftover_count && text < w->source->text_count; text++)
        for (size_t i = 0; i < w->scans[text].func_count; i++, at++) {
            struct ct_target_function *f = &w->module->functions[at];
            struct subject j = {.work = w, .text = text, .index = i};
            if (!w->leftover[at])
                continue;
            if (f->skip)
                w->module->skipped[f->skip]--; /* decide_action() counts it again */
            f->skip = CT_HOOK_SKIP_NONE;
            decide_action(&j, &selection, f);
            if (arena->size - arena->used < CT_STUB_MAX) {
                if (is_observed(j.action))
                    count_skip(w, f, CT_HOOK_SKIP_OUT_OF_REACH);
                continue;
            }
            try_hook(&j, f, &arena->used);
        }
    plan_late(w, &arena->used, arena->size);
    for (size_t i = 0; i < w->late_count; i++)
        if (is_observed(w->late[i].subject.action))
            count_skip(w, &w->module->functions[w->late[i].function], CT_HOOK_SKIP_OUT_OF_REACH);
    w->late_count = 0;
    qsort(w->hooks, w->hook_count, sizeof *w->hooks, compare_hooks);
}
