/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, the part that is common to all machines: which parts of the shared code a stub uses. See plan.h. */
#include "hook/plan.h"

void ct_shared_code_at(struct ct_shared_code *shared, uint64_t copy) {
#define AT(name) shared->name = copy + (uint64_t)(ct_hook_##name - ct_hook_code)
    AT(enter_record);
    AT(enter_entry);
    AT(enter_special);
    AT(enter_listen);
    AT(leave_record);
    AT(leave_listen);
    AT(enter_detail);
    AT(enter_entry_detail);
    AT(enter_special_detail);
    AT(leave_detail);
    AT(sample_record);
    AT(sample_detail);
    AT(sample_entry);
    AT(sample_entry_detail);
    AT(enter_record_fast);
    AT(enter_entry_fast);
    AT(leave_record_fast);
    AT(enter_detail_fast);
    AT(enter_entry_detail_fast);
    AT(leave_detail_fast);
#undef AT
}

/* Functions that make system calls may wait long: their events have exact times. */
static bool is_fast(const struct ct_plan_request *r) {
    return r->fast_clock && r->action == CT_ACTION_RECORD && r->special == CT_SPECIAL_NONE &&
           !(r->scan_flags & CT_SCAN_SYSCALLS);
}

uint64_t ct_plan_enter(const struct ct_plan_request *r) {
    const struct ct_shared_code *c = r->shared;
    if (r->action == CT_ACTION_LISTEN)
        return c->enter_listen;
    if (r->special != CT_SPECIAL_NONE || r->action == CT_ACTION_NONE)
        return r->detail && r->action == CT_ACTION_RECORD ? c->enter_special_detail : c->enter_special;
    if (r->sample && r->entry_only)
        return r->detail ? c->sample_entry_detail : c->sample_entry;
    if (r->sample)
        return r->detail ? c->sample_detail : c->sample_record;
    if (r->entry_only && !is_fast(r))
        return r->detail ? c->enter_entry_detail : c->enter_entry;
    if (r->entry_only)
        return r->detail ? c->enter_entry_detail_fast : c->enter_entry_fast;
    if (!is_fast(r))
        return r->detail ? c->enter_detail : c->enter_record;
    return r->detail ? c->enter_detail_fast : c->enter_record_fast;
}

uint64_t ct_plan_leave(const struct ct_plan_request *r) {
    if (is_fast(r))
        return r->detail ? r->shared->leave_detail_fast : r->shared->leave_record_fast;
    if (r->detail && r->action == CT_ACTION_RECORD)
        return r->shared->leave_detail;
    if (r->action == CT_ACTION_RECORD && (r->special == CT_SPECIAL_LOOK || r->special == CT_SPECIAL_TRACE))
        return r->shared->leave_record; /* it takes the slow path, since a walk ends */
    /* The observer of a function that the engine watches may change, so C code handles its return. */
    return r->action == CT_ACTION_LISTEN || r->special ? r->shared->leave_listen : r->shared->leave_record;
}
