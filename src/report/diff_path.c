/* SPDX-License-Identifier: Apache-2.0 */
/* Where the main threads of two traces diverge: reads both, call by call, until a call differs.
 *
 * Calls are enough: the depth of a call says which frames around it are open, and these are the last calls at the
 * depths below. Functions outside the selection are left out, so a depth here counts selected frames only. */
#include "base/grow.h"
#include "report/diff.h"
#include "report/fits.h"
#include "abi/atf.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 1 << 20 }; /* deeper calls count as this deep: such a file is wrong */

struct walker {
    struct ct_trace_cursor *cursor;
    const struct ct_select *select;
    struct ct_fits *fits; /* NULL: all calls */
    struct ct_function_cache *names;
    size_t process, thread;
    uint32_t *outer; /* [d]: selected frames among the d outermost ones */
    size_t count, capacity;
    struct ct_diff_call call; /* the last call that was read; known NULL: there are no more */
    bool failed;              /* out of memory */
};

/* Makes `outer` known up to this depth. Frames whose calls were lost are not selected. */
static bool extend_outer(struct walker *w, size_t depth) {
    if (!ct_grow(&w->outer, &w->capacity, depth, sizeof *w->outer, 256))
        return false;
    if (!w->count)
        w->outer[w->count++] = 0;
    for (; w->count <= depth; w->count++)
        w->outer[w->count] = w->outer[w->count - 1];
    return true;
}

/* Reads up to the next selected call. False: there is none. */
static bool next_call(struct walker *w) {
    struct ct_trace_event event;
    w->call.known = NULL;
    while (ct_trace_cursor_next(w->cursor, &event)) {
        if (w->select->to_ns && event.timestamp_ns >= w->select->to_ns)
            return false;
        if (event.kind != CT_TRACE_CALL)
            continue;
        const struct ct_cached_function *known = ct_function_cache_get(w->names, w->process, event.function_id);
        /* On another stack: the depth there. Its surroundings are not compared. */
        size_t depth = event.depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(event.depth) : event.depth;
        depth = depth < MAX_DEPTH ? depth : MAX_DEPTH;
        if (!known || !extend_outer(w, depth + 1)) {
            w->failed = true;
            return false;
        }
        bool selected = known->function_fits && known->module_fits && event.timestamp_ns >= w->select->from_ns &&
                        ct_fits_call(w->fits, w->thread, event.sequence);
        w->outer[depth + 1] = w->outer[depth] + selected;
        w->count = depth + 2;
        if (!selected)
            continue;
        w->call = (struct ct_diff_call){.known = known, .depth = w->outer[depth]};
        return true;
    }
    return false;
}

/* ---- the common stack ---- */

struct stack {
    struct ct_diff_call *calls; /* by depth */
    size_t capacity;
};

static bool put_call(struct stack *stack, const struct ct_diff_call *call) {
    if (!ct_grow(&stack->calls, &stack->capacity, call->depth, sizeof *stack->calls, 64))
        return false;
    stack->calls[call->depth] = *call;
    return true;
}

static bool is_same(const struct ct_diff_call *a, const struct ct_diff_call *b) {
    return a->known && b->known && a->depth == b->depth && !strcmp(a->known->name, b->known->name);
}

/* Frames around both calls; when one side has ended, around the other side's call. */
static size_t common_depth(const struct walker w[CT_DIFF_SIDES]) {
    const struct ct_diff_call *a = &w[CT_DIFF_A].call, *b = &w[CT_DIFF_B].call;
    if (!a->known || !b->known)
        return a->known ? (size_t)a->depth : (size_t)b->depth;
    return (size_t)(a->depth < b->depth ? a->depth : b->depth);
}

static int keep_next(struct ct_diff_path *path, int side, struct walker *w, uint64_t count) {
    enum { MOST = 1000 };
    count = count < MOST ? count : MOST;
    path->next[side] = calloc(count + 1, sizeof *path->next[side]);
    if (!path->next[side])
        return CT_ERR_NO_MEMORY;
    while (path->next_count[side] < count && w->call.known) {
        path->next[side][path->next_count[side]++] = w->call;
        next_call(w);
    }
    return w->failed ? CT_ERR_NO_MEMORY : 0;
}

static int compare_paths(struct ct_diff_path *path, struct walker w[CT_DIFF_SIDES], uint64_t next) {
    struct stack stack = {0};
    bool more = true;
    for (;;) {
        more = next_call(&w[CT_DIFF_A]);
        more = next_call(&w[CT_DIFF_B]) || more;
        if (w[CT_DIFF_A].failed || w[CT_DIFF_B].failed || !is_same(&w[CT_DIFF_A].call, &w[CT_DIFF_B].call))
            break;
        path->common++;
        if (!put_call(&stack, &w[CT_DIFF_A].call))
            w[CT_DIFF_A].failed = true;
    }
    path->compared = true;
    path->part = more;
    path->stack = stack.calls;
    int status = w[CT_DIFF_A].failed || w[CT_DIFF_B].failed ? CT_ERR_NO_MEMORY : 0;
    if (status || !more)
        return status;
    path->stack_count = common_depth(w);
    for (int s = 0; s < CT_DIFF_SIDES && !status; s++)
        status = keep_next(path, s, &w[s], next);
    return status;
}

/* ---- main threads ---- */

/* Main thread of the selected process that was recorded first: the thread with the process's number, or else the first;
 * of the selected threads. SIZE_MAX: none. */
static size_t main_thread(const struct ct_trace *trace, const struct ct_select *select) {
    size_t process = SIZE_MAX, found = SIZE_MAX;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        size_t candidate = ct_trace_thread_at(trace, i)->process;
        if (ct_select_thread(select, trace, i) &&
            (process == SIZE_MAX ||
             ct_trace_process_at(trace, candidate)->time_start_ns < ct_trace_process_at(trace, process)->time_start_ns))
            process = candidate;
    }
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++) {
        const struct ct_trace_thread *t = ct_trace_thread_at(trace, i);
        if (t->process != process || !ct_select_thread(select, trace, i))
            continue;
        if (t->tid == (uint32_t)ct_trace_process_at(trace, process)->pid)
            return i;
        if (found == SIZE_MAX || t->id < ct_trace_thread_at(trace, found)->id)
            found = i;
    }
    return found;
}

static int open_walker(struct walker *w, struct ct_trace *trace, const char *const *directories) {
    struct ct_facts facts;
    int status = ct_facts_load(&facts, trace);
    if (status)
        return status;
    w->process = ct_trace_thread_at(trace, w->thread)->process;
    status = ct_fits_make(&w->fits, trace, &facts, w->select, CT_FITS_WHERE, directories);
    ct_facts_free(&facts);
    return status ? status : ct_trace_cursor_open_thread(&w->cursor, trace, w->thread, 0);
}

int ct_diff_paths(struct ct_diff *d, struct ct_trace *const traces[CT_DIFF_SIDES],
                  const struct ct_diff_options *options) {
    struct walker w[CT_DIFF_SIDES] = {0};
    int status = 0;
    bool complete = true;
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        w[s].thread = d->path.thread[s] = main_thread(traces[s], &options->select[s]);
        complete = complete && d->path.thread[s] != SIZE_MAX;
    }
    for (int s = 0; s < CT_DIFF_SIDES && complete && !status; s++) {
        w[s].names = &d->names[s];
        w[s].select = &options->select[s];
        status = open_walker(&w[s], traces[s], options->directories);
    }
    if (complete && !status)
        status = compare_paths(&d->path, w, options->next);
    for (int s = 0; s < CT_DIFF_SIDES; s++) {
        if (w[s].cursor)
            ct_trace_cursor_close(w[s].cursor);
        ct_fits_free(w[s].fits);
        free(w[s].outer);
    }
    return status;
}
