/* SPDX-License-Identifier: Apache-2.0 */
/* Merged stacks: one pass over the events, thread by thread. A frame's `user` is its node, or NULL when it is in none.
 * One owner. */
#include "report/flame.h"
#include "report/fits.h"
#include "report/scan.h"
#include <stdlib.h>

struct walk {
    struct ct_trace *trace;
    const struct ct_flame_options *options;
    struct ct_flame *flame;
    struct ct_frames frames;
    const struct ct_facts *facts;
    const struct ct_fits *fits; /* NULL: all calls */
    size_t process, thread, nodes;
    bool failed; /* out of memory */
};

/* ---- nodes ---- */

static const struct ct_cached_function *function_of(struct walk *w, uint64_t id) {
    const struct ct_cached_function *known = ct_function_cache_united(&w->flame->names, w->process, id);
    w->failed |= !known;
    return known;
}

static struct ct_graph_node *node_below(struct walk *w, struct ct_graph_node *parent,
                                        const struct ct_cached_function *known) {
    if (parent->depth >= CT_FLAME_MAX_DEPTH || w->nodes >= CT_FLAME_MAX_NODES) {
        w->flame->cut = true;
        return parent;
    }
    size_t before = parent->child_count;
    struct ct_graph_node *node = ct_graph_child(parent, known);
    if (!node) {
        w->failed = true;
        return NULL;
    }
    w->nodes += parent->child_count - before;
    node->calls++;
    return node;
}

/* The frame's node: below that of its caller, or a first one when the call fits. */
static void begin_call(struct walk *w, struct ct_frame *frame) {
    const struct ct_cached_function *known = function_of(w, frame->function);
    const struct ct_frame *caller = ct_frames_at(&w->frames, ct_frames_caller(&w->frames, frame));
    struct ct_graph_node *parent = caller ? caller->user : NULL;
    if (!known)
        return;
    if (!parent && known->function_fits && known->module_fits && ct_fits_call(w->fits, w->thread, frame->sequence))
        parent = &w->flame->root;
    frame->user = parent ? node_below(w, parent, known) : NULL;
}

static void end_call(const struct ct_frame *frame) {
    struct ct_graph_node *node = frame->user;
    if (!node)
        return;
    node->self_ns += frame->self_ns;
    node->timed++;
}

/* A node's time is what its part of the tree has. The depth is bounded. */
static void add_times(struct ct_graph_node *node) {
    node->total_ns = node->self_ns;
    for (size_t i = 0; i < node->child_count; i++) {
        add_times(node->children[i]);
        node->total_ns += node->children[i]->total_ns;
    }
}

/* ---- events ---- */

static void on_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame; /* it has no time */
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct walk *w = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&w->flame->names, process, function);
    w->failed |= !known;
    return known && known->entry_only;
}

static void on_event(struct walk *w, const struct ct_trace_event *event) {
    struct ct_frame frame;
    if (event->kind == CT_TRACE_CALL) {
        if (is_entry_only(w, w->process, event->function_id)) {
            (void)ct_frames_entry(&w->frames, event);
            return;
        }
        struct ct_frame *called = ct_frames_call(&w->frames, event);
        if (called)
            begin_call(w, called);
        w->failed |= !called;
    } else if ((event->kind != CT_TRACE_EXCEPTION || event->function_id) && ct_frames_end(&w->frames, event, &frame)) {
        end_call(&frame);
    }
}

static void count_gaps(struct walk *w, const struct ct_scan *scan) {
    const struct ct_thread_facts *facts = &w->facts->threads[scan->setup.thread];
    size_t end = scan->past ? scan->gap : facts->gap_count;
    for (size_t i = scan->first_gap; i < end; i++)
        w->flame->lost += facts->gaps[i].lost;
    w->flame->gaps += end - scan->first_gap;
}

static void walk_events(struct walk *w, struct ct_scan *scan) {
    struct ct_trace_event event;
    struct ct_frame frame;
    for (struct ct_frame *open = NULL; !w->failed && (open = ct_frames_next(&w->frames, open));)
        begin_call(w, open); /* it was open where the range begins */
    while (!w->failed && ct_scan_next(scan, &event))
        on_event(w, &event);
    while (ct_frames_take(&w->frames, ct_scan_end(scan), &frame))
        end_call(&frame);
    count_gaps(w, scan);
    w->flame->threads++;
}

static int walk_thread(void *arg, size_t thread, const struct ct_facts *facts, const struct ct_fits *fits) {
    struct walk *w = arg;
    struct ct_scan scan;
    w->facts = facts;
    w->fits = fits;
    w->thread = thread;
    w->process = ct_trace_thread_at(w->trace, thread)->process;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = w->trace,
                                                             .facts = w->facts,
                                                             .thread = thread,
                                                             .from_ns = w->options->select.from_ns,
                                                             .to_ns = w->options->select.to_ns,
                                                             .frames = &w->frames,
                                                             .lost = on_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = w});
    if (!status)
        walk_events(w, &scan);
    ct_scan_close(&scan);
    return status ? status : w->failed ? CT_ERR_NO_MEMORY : 0;
}

int ct_flame_make(struct ct_flame **out, struct ct_trace *trace, const struct ct_flame_options *options) {
    struct ct_flame *flame = calloc(1, sizeof *flame);
    if (!flame)
        return CT_ERR_NO_MEMORY;
    flame->names = (struct ct_function_cache){.trace = trace, .select = &options->select};
    struct walk w = {.trace = trace, .options = options, .flame = flame};
    int status = ct_fits_each_thread(trace, &options->select, options->directories, walk_thread, &w);
    ct_frames_free(&w.frames);
    if (status) {
        ct_flame_free(flame);
        return status;
    }
    add_times(&flame->root);
    ct_graph_arrange_node(&flame->root, options->sort, 0);
    flame->names.select = NULL; /* the caller may free it now */
    *out = flame;
    return 0;
}

void ct_flame_free(struct ct_flame *flame) {
    if (!flame)
        return;
    ct_graph_free_children(&flame->root);
    ct_function_cache_free(&flame->names);
    free(flame);
}
