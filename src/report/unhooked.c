/* SPDX-License-Identifier: Apache-2.0 */
/* Functions without a hook that were perhaps called often. Frequent and slow rows of a report are the callers: their
 * code is read from the module's file, and branches to the start of a function without a hook are what is looked for.
 * Callers are taken module by module, so that one file is open at a time. */
#include "report/unhooked.h"
#include "base/json_write.h"
#include "base/grow.h"
#include "report/info.h"
#include "symbols/branches.h"
#include "symbols/debug_file.h"
#include "symbols/lookup.h"
#include "trace/reader.h"
#include <stdlib.h>
#include <string.h>

enum {
    FEW_CALLS = 100,       /* below, nobody is frequent */
    CALLS_SHARE = 100,     /* one of this many calls of the report makes a frequent caller ... */
    SELF_SHARE = 20,       /* ... and one of this many nanoseconds a slow one */
    MANY_CALLERS = 1000,   /* at most */
    CODE_SIZE = 256 << 10, /* of a caller that is looked at */
};

struct search {
    const struct ct_trace *trace;
    const struct ct_report *report;
    struct ct_lookup *lookup;
    struct ct_unhooked_list *out;
    const struct ct_report_row **callers; /* by process, then function */
    size_t caller_count;
    const struct ct_trace_function **skipped; /* of the module that is looked at, by offset */
    size_t skipped_count, skipped_room;
    const struct ct_report_row *caller;
    bool no_memory;
};

/* ---- callers ---- */

static int compare_callers(const void *a, const void *b) {
    const struct ct_report_row *x = *(const struct ct_report_row *const *)a;
    const struct ct_report_row *y = *(const struct ct_report_row *const *)b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

/* The limit cuts the rows that are shown; all that matched are there. */
static bool choose_callers(struct search *s) {
    const struct ct_report *r = s->report;
    uint64_t self = 0;
    s->callers = calloc(MANY_CALLERS, sizeof *s->callers);
    if (!s->callers)
        return false;
    for (uint64_t i = 0; i < r->matched; i++)
        self += r->rows[i].self_ns;
    for (uint64_t i = 0; i < r->matched && s->caller_count < MANY_CALLERS; i++) {
        const struct ct_report_row *row = &r->rows[i];
        bool frequent = row->calls >= FEW_CALLS && row->calls >= r->calls / CALLS_SHARE;
        bool slow = row->self_ns && row->self_ns >= self / SELF_SHARE;
        if (row->known && (frequent || slow))
            s->callers[s->caller_count++] = row;
    }
    qsort(s->callers, s->caller_count, sizeof *s->callers, compare_callers);
    return true;
}

/* ---- functions without a hook ---- */

/* Those that the user left out, and what is not a function, is not missing. */
static bool is_missing(const struct ct_trace_function *f) {
    return f && !ct_info_reason_is_part(f->skip) && strcmp(f->skip, "FILTERED") != 0 &&
           strcmp(f->skip, "OWN_CODE") != 0;
}

static void collect_skipped(struct search *s, size_t process, uint32_t module) {
    struct ct_symbols *symbols = ct_trace_symbols(s->trace, process);
    uint64_t end = ct_symbols_module_of(symbols, module).functions;
    s->skipped_count = 0;
    for (uint64_t i = 0; i < end; i++) {
        uint64_t id = (uint64_t)module << 32 | i;
        const struct ct_trace_function *f = ct_symbols_is_skipped(symbols, id) ? ct_symbols_find(symbols, id) : NULL;
        if (!is_missing(f))
            continue;
        if (!ct_grow(&s->skipped, &s->skipped_room, s->skipped_count, sizeof *s->skipped, 64)) {
            s->no_memory = true;
            return;
        }
        s->skipped[s->skipped_count++] = f;
    }
}

/* They are by offset if the trace is not damaged; if it is, fewer are found. */
static const struct ct_trace_function *find_skipped(const struct search *s, uint64_t offset) {
    size_t low = 0, high = s->skipped_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->skipped[middle]->offset == offset)
            return s->skipped[middle];
        if (s->skipped[middle]->offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void note_branch(void *arg, uint64_t target) {
    struct search *s = arg;
    struct ct_unhooked_list *list = s->out;
    const struct ct_trace_function *f = find_skipped(s, target);
    if (!f)
        return;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].function == f) {
            if (s->caller->calls > list->items[i].caller->calls)
                list->items[i].caller = s->caller;
            return;
        }
    if (ct_grow(&list->items, &list->room, list->count, sizeof *list->items, 16))
        list->items[list->count++] = (struct ct_unhooked){f, s->caller, s->caller->process};
    else
        s->no_memory = true;
}

/* ---- code ---- */

static void read_callers(struct search *s, const struct ct_elf *elf, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        const struct ct_trace_function *f = s->callers[i]->known;
        struct ct_span code = ct_elf_at(elf, f->offset);
        uint64_t size = f->length < code.size ? f->length : code.size;
        s->caller = s->callers[i];
        ct_branches_each(elf->machine, code.data, size < CODE_SIZE ? (size_t)size : CODE_SIZE, f->offset, note_branch,
                         s);
    }
}

/* Callers [first, end) are of one module. */
static void read_module(struct search *s, size_t first, size_t end) {
    const struct ct_report_row *row = s->callers[first];
    uint32_t id = (uint32_t)(row->function >> 32);
    struct ct_symbols_module m = ct_symbols_module_of(ct_trace_symbols(s->trace, row->process), id);
    struct ct_debug_file file;
    collect_skipped(s, row->process, id);
    if (!m.path || !s->skipped_count)
        return;
    struct ct_lookup_module *module = ct_lookup_module(s->lookup, m.path, m.build_id);
    if (!module || ct_lookup_module_state(module) != CT_LOOKUP_FOUND ||
        (!*m.build_id && !ct_lookup_has_function(s->lookup, module, row->known->offset)) ||
        !ct_debug_file_map(&file, ct_lookup_module_file(module)))
        return;
    read_callers(s, &file.elf, first, end);
    ct_debug_file_close(&file);
}

static int compare_found(const void *a, const void *b) {
    const struct ct_unhooked *x = a, *y = b;
    if (x->caller->calls != y->caller->calls)
        return x->caller->calls < y->caller->calls ? 1 : -1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->function->id < y->function->id ? -1 : x->function->id > y->function->id;
}

int ct_unhooked_find(struct ct_unhooked_list *out, const struct ct_trace *trace, const struct ct_report *report,
                     const char *const *directories) {
    *out = (struct ct_unhooked_list){0};
    const struct ct_lookup_options options = {.directories = directories, .cache_bytes = 1 << 20};
    struct search s = {.trace = trace, .report = report, .out = out, .lookup = ct_lookup_create(&options)};
    s.no_memory = !s.lookup || !choose_callers(&s);
    for (size_t i = 0, end; i < s.caller_count && !s.no_memory; i = end) {
        for (end = i + 1; end < s.caller_count && s.callers[end]->process == s.callers[i]->process &&
                          s.callers[end]->function >> 32 == s.callers[i]->function >> 32;)
            end++;
        read_module(&s, i, end);
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare_found);
    if (s.lookup)
        ct_lookup_destroy(s.lookup);
    free(s.callers);
    free(s.skipped);
    return s.no_memory ? CT_ERR_NO_MEMORY : 0;
}

void ct_unhooked_free(struct ct_unhooked_list *list) {
    free(list->items);
    *list = (struct ct_unhooked_list){0};
}

void ct_unhooked_json(const struct ct_unhooked_list *list, struct ct_json *json) {
    ct_json_begin(json, "not_hooked", '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct ct_unhooked *u = &list->items[i];
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", u->function->name);
        ct_json_string(json, "module", u->function->module);
        ct_json_string(json, "reason", u->function->skip);
        ct_json_begin(json, "caller", '{');
        ct_json_string(json, "name", u->caller->name);
        ct_json_number(json, "calls", u->caller->calls);
        if (u->caller->timed)
            ct_json_number(json, "self_ns", u->caller->self_ns);
        ct_json_end(json, '}');
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}
