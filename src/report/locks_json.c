/* SPDX-License-Identifier: Apache-2.0 */
/* Locks as JSON. */
#include "base/json_write.h"
#include "report/locks.h"
#include "report/output.h"
#include <inttypes.h>
#include <stdio.h>

static void function_json(const struct ct_locks *locks, size_t process, uint64_t function, const char *key,
                          struct ct_json *json) {
    const struct ct_trace_function *f = function ? ct_trace_function(locks->names.trace, process, function) : NULL;
    if (f)
        ct_json_string(json, key, f->name);
}

static void lock_json(const struct ct_lock *lock, struct ct_json *json) {
    char address[32];
    snprintf(address, sizeof address, "0x%" PRIx64, lock->address);
    ct_json_string(json, "address", address);
    ct_json_string(json, "name", lock->name);
    ct_json_string(json, "kind", lock->what);
}

static void thread_json(const struct ct_trace *trace, size_t thread, const char *key, struct ct_json *json) {
    ct_json_number(json, key, ct_trace_thread_at(trace, thread)->tid);
}

static void pairs_json(const struct ct_locks *locks, const struct ct_lock *lock, const struct ct_trace *trace,
                       const struct ct_wall *wall, struct ct_json *json) {
    ct_json_begin(json, "waits", '[');
    for (size_t i = 0; i < lock->pair_count; i++) {
        const struct ct_lock_pair *pair = &lock->pairs[i];
        ct_json_begin(json, NULL, '{');
        thread_json(trace, pair->waiter, "tid", json);
        thread_json(trace, pair->holder, "holder_tid", json);
        ct_json_number(json, "count", pair->count);
        ct_json_number(json, "total_ns", pair->total_ns);
        ct_json_number(json, "max_ns", pair->max_ns);
        ct_json_number(json, "max_time_ns", pair->max_at_ns);
        ct_output_wall_json(json, "max_time", wall, pair->max_at_ns);
        function_json(locks, lock->process, pair->waiter_caller, "max_caller", json);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void locks_json(const struct ct_locks *locks, const struct ct_trace *trace, const struct ct_wall *wall,
                       struct ct_json *json) {
    ct_json_begin(json, "locks", '[');
    for (size_t i = 0; i < locks->order_count; i++) {
        const struct ct_lock *lock = &locks->locks[locks->order[i]];
        ct_json_begin(json, NULL, '{');
        lock_json(lock, json);
        ct_json_signed(json, "pid", ct_trace_process_at(trace, lock->process)->pid);
        ct_json_number(json, "calls", lock->locked);
        ct_json_number(json, "waited", lock->waited);
        ct_json_number(json, "total_ns", lock->total_ns);
        ct_json_number(json, "max_ns", lock->max_ns);
        ct_json_number(json, "held_max_ns", lock->held_max_ns);
        pairs_json(locks, lock, trace, wall, json);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void waits_json(const struct ct_locks *locks, const struct ct_trace *trace, const struct ct_wall *wall,
                       struct ct_json *json) {
    ct_json_begin(json, "open", '[');
    for (size_t i = 0; i < locks->wait_count; i++) {
        const struct ct_lock_wait *wait = &locks->waits[i];
        const struct ct_lock *lock = &locks->locks[wait->lock];
        ct_json_begin(json, NULL, '{');
        thread_json(trace, wait->thread, "tid", json);
        lock_json(lock, json);
        ct_json_number(json, "time_ns", wait->began_ns);
        ct_output_wall_json(json, "time", wall, wait->began_ns);
        ct_json_number(json, "duration_ns", wait->lasted_ns);
        function_json(locks, lock->process, wait->caller, "caller", json);
        if (wait->holder != SIZE_MAX) {
            const struct ct_lock_holder *holder = &lock->holders[wait->holder];
            thread_json(trace, holder->thread, "holder_tid", json);
            ct_json_number(json, "held_since_ns", holder->since_ns);
            ct_output_wall_json(json, "held_since", wall, holder->since_ns);
            function_json(locks, lock->process, holder->caller, "holder_caller", json);
        }
        ct_json_number(json, "deadlock", wait->cycle);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void functions_json(const struct ct_locks *locks, struct ct_json *json) {
    ct_json_begin(json, "functions", '[');
    for (size_t i = 0; i < locks->function_count; i++) {
        const struct ct_lock_calls *row = locks->functions[i];
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", row->function->name);
        if (row->caller)
            ct_json_string(json, "caller", row->caller->name);
        ct_json_number(json, "calls", row->calls);
        ct_json_number(json, "detailed_calls", row->known);
        ct_json_number(json, "total_ns", row->total_ns);
        ct_json_number(json, "max_ns", row->max_ns);
        ct_json_number(json, "open", row->open);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

void ct_locks_json(const struct ct_locks *locks, const struct ct_trace *trace, const struct ct_wall *wall,
                   struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "trace", ct_trace_path(trace));
    ct_json_number(json, "lock_calls", locks->calls);
    ct_json_number(json, "detailed_lock_calls", locks->known);
    ct_json_number(json, "deadlocks", locks->cycles);
    waits_json(locks, trace, wall, json);
    locks_json(locks, trace, wall, json);
    functions_json(locks, json);
    ct_json_end(json, '}');
}
