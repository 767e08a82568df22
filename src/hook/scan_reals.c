/* SPDX-License-Identifier: Apache-2.0 */
/* See scan_reals.h. */
#include "hook/scan_reals.h"
#include "base/grow.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN 4u /* so many functions pass a number on to each other; each pays for having it captured */

static int add_call(struct ct_scan *s, uint64_t target, size_t function) {
    if (!ct_grow(&s->calls, &s->call_capacity, s->call_count, sizeof *s->calls, 64))
        return CT_ERR_NO_MEMORY;
    s->calls[s->call_count++] = (struct ct_scan_tail){target, (uint32_t)function};
    return 0;
}

int ct_scan_add_calls(struct ct_scan *s, const struct ct_scan_calls *calls, size_t function) {
    if (s->funcs[function].flags & CT_SCAN_REALS)
        return 0;
    int status = calls->first ? add_call(s, calls->first, function) : 0;
    return status || !calls->last || calls->last == calls->first ? status : add_call(s, calls->last, function);
}

int ct_scan_join_calls(struct ct_scan *s, const struct ct_scan *part) {
    size_t count = s->call_count + part->call_count;
    struct ct_scan_tail *calls = realloc(s->calls, (count + 1) * sizeof *calls);
    if (!calls)
        return CT_ERR_NO_MEMORY;
    if (part->call_count)
        memcpy(calls + s->call_count, part->calls, part->call_count * sizeof *calls);
    s->calls = calls;
    s->call_count = s->call_capacity = count;
    return 0;
}

/* Keeps the calls of functions that call one another in the scan, with the callee's index as the target. */
static void find_callees(struct ct_scan *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->call_count; i++) {
        long to = ct_scan_find(s, s->calls[i].target);
        if (to >= 0)
            s->calls[kept++] = (struct ct_scan_tail){(uint64_t)to, s->calls[i].function};
    }
    s->call_count = kept;
}

/* Marks those that pass on to one that is marked; each round is one link of the chain. */
static bool mark_callers(struct ct_scan *s) {
    size_t left = 0, marked = 0;
    for (size_t i = 0; i < s->call_count; i++) /* those to mark come to the front: none counts in this round */
        if (s->funcs[s->calls[i].target].flags & CT_SCAN_REALS) {
            struct ct_scan_tail call = s->calls[i];
            s->calls[i] = s->calls[marked];
            s->calls[marked++] = call;
        }
    for (size_t i = 0; i < marked; i++)
        s->funcs[s->calls[i].function].flags |= CT_SCAN_REALS;
    for (size_t i = marked; i < s->call_count; i++)
        s->calls[left++] = s->calls[i];
    s->call_count = left;
    return marked;
}

void ct_scan_spread_reals(struct ct_scan *s) {
    find_callees(s);
    for (unsigned round = 0; round < CHAIN && mark_callers(s); round++) {
    }
    ct_scan_free_calls(s);
}

void ct_scan_free_calls(struct ct_scan *s) {
    free(s->calls);
    s->calls = NULL;
    s->call_count = s->call_capacity = 0;
}
