/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts in a hook set: functions whose bytes hold springboards of short neighbours (springboard.h).
 *
 * A guest is a hook whose plan names a host. A host is hooked as long as it has guests: a hook that the user removes
 * stays, with a stub that does nothing (lodging), and goes with the last guest. A short function that finds no room
 * gets a neighbour without a hook as its host. A lodging function that the user hooks gets a new stub, because frames
 * of the old one may be open. */
#include "hook/set.h"
#include "hook/springboard.h"
#include "hook/unwinder.h"
#include <string.h>

/* ---- hosts and guests ---- */

bool ct_set_is_lodging(const struct ct_hook_record *r) {
    return r->state == CT_HOOK_LODGING || (r->state == CT_HOOK_PLANNED && r->request.action == CT_ACTION_PASS);
}

/* Counts the guests that each host will have after the transaction. */
static void count_guests(struct ct_hooks *set) {
    for (size_t i = 0; i < set->table_size; i++)
        if (set->table[i])
            set->table[i]->guests = 0;
    for (size_t i = 0; i < set->table_size; i++) {
        const struct ct_hook_record *r = set->table[i];
        struct ct_hook_record *host =
            r && r->installed && !r->leaving && r->plan.host ? ct_set_find(set, r->plan.host) : NULL;
        if (host)
            host->guests++;
    }
}

/* ---- at the end of a transaction ---- */

static void note_leaving(struct ct_hooks *set, bool leaving) {
    for (size_t i = 0; i < set->change_count; i++)
        if (set->changes[i].kind == CT_CHANGE_REVERT)
            set->changes[i].record->leaving = leaving;
}

static void keep_used(struct ct_hooks *set) {
    for (size_t i = 0; i < set->change_count; i++) {
        struct ct_change *c = &set->changes[i];
        if (c->kind != CT_CHANGE_REVERT || !c->record->guests)
            continue;
        c->kind = CT_CHANGE_LODGE;
        c->record->leaving = false;
    }
}

static int remove_unused(struct ct_hooks *set) {
    int status = 0;
    for (size_t i = 0; i < set->table_size && !status; i++) {
        struct ct_hook_record *r = set->table[i];
        if (r && r->installed && !r->leaving && !r->guests && ct_set_is_lodging(r))
            status = ct_set_add_change(set, (struct ct_change){.kind = CT_CHANGE_REVERT, .record = r});
    }
    return status;
}

int ct_set_settle_hosts(struct ct_hooks *set) {
    if (!set->has_hosts)
        return 0;
    note_leaving(set, true);
    count_guests(set);
    keep_used(set);
    int status = remove_unused(set);
    note_leaving(set, false);
    return status;
}

/* ---- a host for a short function ---- */

static bool may_host(const struct ct_hooks *set, const struct ct_hook_module *m, size_t i) {
    const struct ct_scan_func *f = &m->scan.funcs[i];
    struct ct_function_facts facts = ct_hook_module_facts(m, i);
    struct ct_function_class class = ct_classify(&facts);
    return !class.skip && !class.special && !ct_unwind_detour(f->start) && !ct_hook_is_own(m, f->start) &&
           !ct_set_find(set, f->start);
}

static int lodge(struct ct_hooks *set, struct ct_hook_module *m, uint64_t function, uint64_t end) {
    uint64_t low = function > m->start + CT_SPRINGBOARD_REACH ? function - CT_SPRINGBOARD_REACH : m->start;
    for (size_t i = ct_scan_after(&m->scan, low); i < m->scan.func_count; i++) {
        const struct ct_scan_func *f = &m->scan.funcs[i];
        enum ct_hook_skip_reason skip;
        if (f->start > function + CT_SPRINGBOARD_REACH)
            break;
        if (f->start == function || !may_host(set, m, i) || !ct_springboards_may_host(&m->scan, i, function, end))
            continue;
        int number = ct_set_plan(set, m, i, f->start, f->end, CT_ACTION_PASS, 0, true, &skip);
        if (number < 0 && !skip)
            return number;
        if (number < 0)
            continue;
        ct_set_publish(set, set->records[number], NULL, NULL);
        return 0;
    }
    return CT_ERR_NOT_FOUND;
}

int ct_set_plan_short(struct ct_hooks *set, struct ct_hook_module *m, size_t index, uint64_t function, uint64_t end,
                      enum ct_hook_action action, uint64_t detour, enum ct_hook_skip_reason *skip) {
    struct ct_function_facts facts = ct_hook_module_facts(m, index);
    int number = ct_set_plan(set, m, index, function, end, action, detour, false, skip);
    if (number >= 0 || *skip != CT_HOOK_SKIP_NO_SPRINGBOARD || ct_classify(&facts).special)
        return number;
    int status = lodge(set, m, function, end);
    if (status)
        return status == CT_ERR_NOT_FOUND ? number : status;
    return ct_set_plan(set, m, index, function, end, action, detour, false, skip);
}

/* ---- planning over a hook that is in place ---- */

#define WINDOW 512u
#define FAR    256u /* of it, all that a plan moves at most; the rest is for what a decoder looks at */

static void put_original(uint8_t *window, uint64_t start, size_t size, const struct ct_patch *p) {
    for (unsigned b = 0; b < p->size; b++)
        if (p->at + b >= start && p->at + b < start + size)
            window[p->at + b - start] = p->original[b];
}

enum ct_hook_skip_reason ct_set_plan_over(const struct ct_hooks *set, struct ct_hook_record *record,
                                          struct ct_code_buf *out) {
    struct ct_scan *scan = record->request.scan, view = *scan;
    uint64_t start = record->request.function, end = record->request.end;
    uint8_t window[WINDOW];
    size_t size = scan->end - start < WINDOW ? (size_t)(scan->end - start) : WINDOW;
    memcpy(window, ct_scan_bytes(scan, start), size);
    for (size_t i = 0; i < set->table_size; i++) {
        const struct ct_hook_record *r = set->table[i];
        for (unsigned k = 0; r && r->module == record->module && r->state != CT_HOOK_GONE && k < r->plan.patch_count;
             k++)
            put_original(window, start, size, &r->plan.patches[k]);
    }
    view.code = (const uint8_t *)((uintptr_t)window - (uintptr_t)(start - scan->start));
    record->request.scan = &view;
    record->request.end = end < start + FAR ? end : start + FAR;
    enum ct_hook_skip_reason reason = ct_plan_hook(&record->request, out, &record->plan);
    record->request.scan = scan;
    record->request.end = end;
    return reason;
}
