/* SPDX-License-Identifier: Apache-2.0 */
/* Records, numbers and the open transaction of a hook set: see set.h. */
#include "hook/set.h"
#include "base/grow.h"
#include "hook/springboard.h"
#include "hook/unwinder.h"
#include <stdlib.h>
#include <string.h>

/* ---- records by function ---- */

static size_t hash(uint64_t function, size_t size) {
    return (size_t)(function * 0x9e3779b97f4a7c15ull >> 20) & (size - 1);
}

struct ct_hook_record *ct_set_find(const struct ct_hooks *set, uint64_t function) {
    if (!set->table_size)
        return NULL;
    for (size_t i = hash(function, set->table_size); set->table[i]; i = (i + 1) & (set->table_size - 1))
        if (set->table[i]->plan.function == function && set->table[i]->installed)
            return set->table[i];
    return NULL;
}

static void insert_record(struct ct_hook_record **table, size_t size, struct ct_hook_record *record) {
    size_t i = hash(record->plan.function, size);
    while (table[i])
        i = (i + 1) & (size - 1);
    table[i] = record;
}

static int remember_record(struct ct_hooks *set, struct ct_hook_record *record) {
    if (set->table_used * 2 >= set->table_size) {
        size_t size = set->table_size ? set->table_size * 2 : 1024;
        struct ct_hook_record **table = calloc(size, sizeof(struct ct_hook_record *));
        if (!table)
            return CT_ERR_NO_MEMORY;
        for (size_t i = 0; i < set->table_size; i++)
            if (set->table[i])
                insert_record(table, size, set->table[i]);
        free(set->table);
        set->table = table;
        set->table_size = size;
    }
    insert_record(set->table, set->table_size, record);
    set->table_used++;
    return 0;
}

/* ---- transaction ---- */

int ct_set_add_change(struct ct_hooks *set, struct ct_change change) {
    if (!ct_grow(&set->changes, &set->change_capacity, set->change_count, sizeof *set->changes, 64))
        return CT_ERR_NO_MEMORY;
    set->changes[set->change_count++] = change;
    return 0;
}

/* Stubs that were written stay where they are, unreachable: their memory is part of the slab, and small. */
void ct_set_forget(struct ct_hooks *set) {
    for (size_t i = set->change_count; i-- > 0;) {
        struct ct_change *c = &set->changes[i];
        if (c->kind == CT_CHANGE_INSTALL) {
            ct_plan_release(&c->record->request, &c->record->plan);
            c->record->installed = false;
            c->record->state = CT_HOOK_GONE;
            c->record->module->served = false;
            if (c->record->request.number + 1 == set->next_number)
                set->next_number--;
            else if (c->record->request.number == set->next_service + 1)
                set->next_service++;
        } else if (c->kind == CT_CHANGE_ADOPT) {
            if (c->record->request.number + 1 == set->next_number)
                set->next_number--;
            else if (c->record->request.number == set->next_service + 1)
                set->next_service++;
            c->record->request = c->old_request;
            c->record->state = c->old_request.action == CT_ACTION_NONE ? CT_HOOK_SERVICE : CT_HOOK_LIVE;
        } else if (c->kind == CT_CHANGE_REVERT) {
            const struct ct_plan *plan = &c->record->plan;
            c->record->installed = true;
            ct_springboards_offer(c->record->request.scan, plan->place, plan->place + plan->room);
        }
    }
    set->change_count = 0;
    set->skip_count = set->skips_before;
}

void ct_set_publish(struct ct_hooks *set, const struct ct_hook_record *record, const struct ct_hook_listener *listener,
                    void *user) {
    struct ct_hook_entry *e = &set->runtime->hooks[record->request.number];
    *e = (struct ct_hook_entry){
        .user = user,
        .function = record->plan.function,
        .flavor = (uint8_t)record->request.action,
        .special = (uint8_t)record->request.special,
        .entry_only = record->request.entry_only != CT_HOOK_ENTRY_ONLY_NONE,
        .signs = record->plan.signs,
    };
    if (listener) {
        e->listener.on_call = listener->on_call;
        e->listener.on_return = listener->on_return;
        e->listener.on_leave = listener->on_leave;
    }
}

int ct_set_rewrite_stub(struct ct_hook_record *r) {
    uint64_t stub = r->plan.stub, word;
    r->plan.word_on = ct_plan_word(&r->request, &r->plan);
    memcpy(&word, (const void *)(stub + CT_STUB_NUMBER - 4), 8);
    word = (word & 0xffffffffull) | (uint64_t)r->request.number << 32;
    int status = ct_arena_store8(r->module->region->arena, stub + CT_STUB_NUMBER - 4, word);
    return status ? status : ct_arena_store8(r->module->region->arena, stub, r->plan.word_on);
}

/* ---- planning ---- */

static int write_shared_code(struct ct_hook_region *r) {
    if (r->shared_written)
        return 0;
    size_t size = (size_t)(ct_hook_code_end - ct_hook_code);
    uint64_t literals[2];
    int status = ct_arena_write(r->arena, r->shared_run, ct_hook_code, size);
    ct_block_literals(literals);
    if (!status && CT_HOOK_LITERALS)
        status = ct_arena_write(r->arena, r->shared_run + size - CT_HOOK_LITERALS, literals, CT_HOOK_LITERALS);
    r->shared_written = !status;
    return status;
}

/* Are bytes of another hook within reach of this function's patch? */
static bool overlaps(const struct ct_hooks *set, uint64_t function) {
    for (uint64_t d = 1; d < CT_PATCH_MAX + 4; d++) {
        const struct ct_hook_record *before = ct_set_find(set, function - d);
        if (before)
            for (unsigned i = 0; i < before->plan.patch_count; i++) {
                const struct ct_patch *p = &before->plan.patches[i];
                if (function >= p->at && function < p->at + p->size)
                    return true;
            }
    }
    return false;
}

static void fill_request(struct ct_plan_request *r, struct ct_hook_module *m, size_t index, uint64_t function,
                         uint64_t end, enum ct_hook_action action, uint64_t detour) {
    struct ct_function_facts facts = ct_hook_module_facts(m, index);
    *r = (struct ct_plan_request){
        .scan = &m->scan,
        .shared = &m->region->shared,
        .function = function,
        .end = end,
        .scan_flags = facts.scan_flags,
        .action = action,
        .detour = detour,
        .boards = action == CT_ACTION_PASS,
    };
    if (action != CT_ACTION_REPLACE) {
        struct ct_function_class class = ct_classify(&facts);
        r->special = class.special;
        r->entry_only = class.entry_only;
        if ((r->detour = ct_unwind_detour(function)))
            r->special = CT_SPECIAL_NONE; /* the detour does what is needed */
    }
}

/* `over`: the hook that this one takes the place of, or NULL. Springboards in its room stay there. */
static enum ct_hook_skip_reason write_stub(const struct ct_hooks *set, struct ct_hook_record *record,
                                           const struct ct_hook_record *over) {
    uint64_t run;
    uint8_t *write;
    struct ct_arena *arena = record->module->region->arena;
    if (ct_arena_thaw_fresh(arena) || ct_arena_alloc(arena, CT_STUB_MAX, 8, &run, &write))
        return CT_HOOK_SKIP_OUT_OF_REACH;
    struct ct_code_buf out = {.bytes = write, .capacity = CT_STUB_MAX, .address = run};
    enum ct_hook_skip_reason reason =
        over ? ct_set_plan_over(set, record, &out) : ct_plan_hook(&record->request, &out, &record->plan);
    if (!reason && record->plan.room < (over ? over->plan.room : record->request.boards)) {
        ct_plan_release(&record->request, &record->plan);
        reason = CT_HOOK_SKIP_UNMOVABLE;
    }
    ct_arena_trim(arena, run, reason ? 0 : out.length);
    return reason;
}

static int adopt_service(struct ct_hooks *set, struct ct_hook_record *record, enum ct_hook_action action) {
    struct ct_change change = {CT_CHANGE_ADOPT, record, record->request.number, record->request};
    record->request.number = set->next_number;
    record->request.action = action;
    int status = ct_set_add_change(set, change);
    if (status) {
        record->request = change.old_request;
        return status;
    }
    set->records[set->next_number] = record;
    record->state = CT_HOOK_PLANNED;
    return (int)set->next_number++;
}

/* The lodging hook is removed in favour of one of the user's. */
static int succeed(struct ct_hooks *set, struct ct_hook_record *old) {
    int status = ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_REVERT, .record = old});
    if (!status)
        old->installed = false;
    return status;
}

int ct_set_plan(struct ct_hooks *set, struct ct_hook_module *m, size_t index, uint64_t function, uint64_t end,
                enum ct_hook_action action, uint64_t detour, bool service, enum ct_hook_skip_reason *skip) {
    *skip = CT_HOOK_SKIP_NONE;
    struct ct_hook_record *old = ct_set_find(set, function);
    if (old && old->state == CT_HOOK_SERVICE && action != CT_ACTION_REPLACE)
        return adopt_service(set, old, action);
    if (old && !ct_set_is_lodging(old))
        return CT_ERR_ALREADY_HOOKED;
    if (overlaps(set, function)) {
        *skip = CT_HOOK_SKIP_OVERLAP;
        return CT_ERR_INSIDE_HOOK;
    }
    if (set->next_number >= set->next_service)
        return CT_ERR_NO_SPACE;
    int status = write_shared_code(m->region);
    if (status)
        return status;
    struct ct_hook_record *record = calloc(1, sizeof *record);
    if (!record)
        return CT_ERR_NO_MEMORY;
    fill_request(&record->request, m, index, function, end, action, detour);
    record->request.number = service ? set->next_service : set->next_number;
    record->module = m;
    record->name = index < m->scan.func_count ? m->functions[index].name : "";
    record->request.boards = old ? old->request.boards : record->request.boards;
    if ((*skip = write_stub(set, record, old))) {
        free(record);
        return CT_ERR_HOOK_FAILED;
    }
    record->installed = true;
    record->state = CT_HOOK_PLANNED;
    m->wanted = true;
    set->has_hosts |= record->plan.host != 0 || action == CT_ACTION_PASS;
    if ((status = remember_record(set, record)) || (old && (status = succeed(set, old))) ||
        (status = ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_INSTALL, .record = record}))) {
        record->installed = false; /* unreachable, but still in the table */
        return status;
    }
    if (ct_unwind_detour(function))
        ct_unwind_set_original(record->plan.body);
    set->records[record->request.number] = record;
    return (int)(service ? set->next_service-- : set->next_number++);
}

/* ---- services ---- */

static int plan_module_services(struct ct_hooks *set, struct ct_hook_module *m) {
    for (size_t i = 0; i < m->scan.func_count; i++) {
        enum ct_hook_skip_reason skip;
        struct ct_scan_func *f = &m->scan.funcs[i];
        struct ct_function_facts facts = ct_hook_module_facts(m, i);
        if (!ct_classify(&facts).service || ct_set_find(set, f->start) || (m->functions[i].flags & CT_FUNC_PLT) ||
            ct_hook_is_own(m, f->start))
            continue;
        int number = ct_set_plan(set, m, i, f->start, f->end, CT_ACTION_NONE, 0, true, &skip);
        if (number < 0 && !skip)
            return number;
        if (number >= 0)
            ct_set_publish(set, set->records[number], NULL, NULL);
    }
    m->served = true;
    return 0;
}

int ct_set_plan_services(struct ct_hooks *set) {
    uint64_t places[4];
    size_t count = ct_unwind_places(places);
    for (size_t i = 0; i < count && !set->services_done; i++) {
        struct ct_hook_module *m;
        int status = ct_hook_module_at(&set->code, places[i], &m);
        if (status)
            return status;
        m->wanted = true;
    }
    for (struct ct_hook_module *m = set->code.modules; m; m = m->next) {
        int status = m->wanted && !m->served && !m->gone ? plan_module_services(set, m) : 0;
        if (status)
            return status;
    }
    return 0;
}
