/* SPDX-License-Identifier: Apache-2.0 */
/* Callers and callees: one pass over the events, thread by thread.
 *
 * A frame's `user` is a record of the rows that its end is added to. Paths out of a function are carried along: a
 * frame's rows among the callees are children of its caller's rows, so a call costs `depth` steps, however deep the
 * stack is. One owner. */
#include "report/graph.h"
#include "base/grow.h"
#include "report/fits.h"
#include "report/scan.h"
#include <stdlib.h>

/* A function as events name it. */
struct function {
    struct ct_table_key key;
    const struct ct_cached_function *known; /* one for all processes that have this function */
    struct ct_graph_function *root;         /* NULL: the user did not ask for it */
};

struct record {
    struct record *next; /* the next free one */
    struct function *function;
    struct ct_graph_function *root; /* of the function; NULL: the user did not ask for this call */
    /* [i]: the row of this call among the callees of the frame that is i + 1 calls further out, or NULL. */
    struct ct_graph_node *out[CT_GRAPH_MAX_DEPTH];
    /* Rows of the callers, when this is a root. */
    struct ct_graph_node *in[CT_GRAPH_MAX_DEPTH];
};

struct walk {
    struct ct_trace *trace;
    const struct ct_graph_options *options;
    struct ct_graph *graph;
    struct ct_table functions;
    struct ct_frames frames;
    const struct ct_facts *facts;
    const struct ct_fits *fits; /* NULL: all calls */
    struct record *free_records;
    size_t process, thread;
    bool failed; /* out of memory */
};

/* ---- functions ---- */

static struct ct_graph_function *add_root(struct ct_graph *g, const struct ct_cached_function *known) {
    if (!ct_grow(&g->functions, &g->function_capacity, g->function_count, sizeof *g->functions, 16))
        return NULL;
    struct ct_graph_function *root = calloc(1, sizeof *root);
    if (!root)
        return NULL;
    root->callers.known = root->callees.known = known;
    g->functions[g->function_count++] = root;
    return root;
}

static struct function *find_function(struct walk *w, size_t process, uint64_t id);

static bool learn_function(struct walk *w, struct function *f) {
    const struct ct_cached_function *known =
        ct_function_cache_united(&w->graph->names, f->key.process, f->key.function);
    if (!known)
        return false;
    f->known = known;
    if (known->key.process != f->key.process || known->key.function != f->key.function) {
        const struct function *first = find_function(w, known->key.process, known->key.function);
        f->root = first ? first->root : NULL;
        return first;
    }
    if (known->function_fits && known->module_fits)
        f->root = add_root(w->graph, known);
    return f->root || !(known->function_fits && known->module_fits);
}

static struct function *find_function(struct walk *w, size_t process, uint64_t id) {
    struct function *f = ct_table_get(&w->functions, process, id, sizeof *f);
    if (f && (f->known || learn_function(w, f)))
        return f;
    w->failed = true;
    return NULL;
}

static struct function *function_of(struct walk *w, uint64_t id) {
    return find_function(w, w->process, id);
}

/* ---- records ---- */

static struct record *take_record(struct walk *w, struct function *f) {
    struct record *r = w->free_records;
    if (r)
        w->free_records = r->next;
    else
        r = malloc(sizeof *r);
    if (!r) {
        w->failed = true;
        return NULL;
    }
    *r = (struct record){.function = f};
    return r;
}

static void give_back(struct walk *w, struct record *r) {
    r->next = w->free_records;
    w->free_records = r;
}

/* ---- calls ---- */

/* The record of the frame at index `at`; NULL: there is none, or its call was not seen. */
static struct record *record_at(const struct walk *w, size_t at) {
    const struct ct_frame *frame = ct_frames_at(&w->frames, at);
    return frame ? frame->user : NULL;
}

static struct ct_graph_node *count_child(struct walk *w, struct ct_graph_node *parent,
                                         const struct ct_cached_function *known) {
    struct ct_graph_node *node = ct_graph_child(parent, known);
    if (node)
        node->calls++;
    else
        w->failed = true;
    return node;
}

/* Counts the paths into the function; `at` is the index of its caller. */
static void count_in(struct walk *w, struct record *r, size_t at) {
    struct ct_graph_node *node = &r->root->callers;
    for (size_t i = 0; i < w->options->depth && node; i++) {
        const struct record *caller = record_at(w, at);
        if (!caller && i)
            return;
        node = r->in[i] = count_child(w, node, caller ? caller->function->known : NULL);
        if (!caller)
            return;
        at = ct_frames_caller(&w->frames, ct_frames_at(&w->frames, at));
    }
}

/* Counts the paths out of the functions that led here. */
static void count_out(struct walk *w, struct record *r, const struct record *caller) {
    const struct ct_cached_function *known = r->function->known;
    if (caller->root)
        r->out[0] = count_child(w, &caller->root->callees, known);
    for (size_t i = 1; i < w->options->depth; i++)
        if (caller->out[i - 1])
            r->out[i] = count_child(w, caller->out[i - 1], known);
}

static void count_call(struct walk *w, struct record *r, size_t caller_at) {
    const struct record *caller = record_at(w, caller_at);
    if (r->root) {
        r->root->callers.calls++;
        r->root->callees.calls++;
        count_in(w, r, caller_at);
    }
    if (caller)
        count_out(w, r, caller);
}

/* Where the call counts as one of the function that the user asked for; NULL: it does not fit. */
static struct ct_graph_function *root_of(const struct walk *w, const struct function *f, uint64_t sequence) {
    return f->root && ct_fits_call(w->fits, w->thread, sequence) ? f->root : NULL;
}

/* Each row that the record has, or NULL. */
enum { ROWS_OF_ROOT = 2, ROWS = ROWS_OF_ROOT + 2 * CT_GRAPH_MAX_DEPTH };
static struct ct_graph_node *row_at(const struct record *r, size_t i) {
    struct ct_graph_function *root = r->root;
    if (i < ROWS_OF_ROOT)
        return !root ? NULL : i ? &root->callees : &root->callers;
    i -= ROWS_OF_ROOT;
    return i < CT_GRAPH_MAX_DEPTH ? r->out[i] : r->in[i - CT_GRAPH_MAX_DEPTH];
}

static void begin_call(struct walk *w, struct record *r, struct ct_frame *frame) {
    frame->user = r;
    r->root = root_of(w, r->function, frame->sequence);
    count_call(w, r, ct_frames_caller(&w->frames, frame));
    for (size_t i = 0; i < ROWS; i++)
        if (row_at(r, i))
            ct_frames_open_time(&w->frames, frame, &row_at(r, i)->open_time);
}

static void on_call(struct walk *w, const struct ct_trace_event *event) {
    struct function *f = function_of(w, event->function_id);
    struct record *r = f ? take_record(w, f) : NULL;
    if (!r)
        return;
    if (f->known->entry_only) {
        r->root = root_of(w, f, event->sequence);
        count_call(w, r, ct_frames_entry(&w->frames, event));
        give_back(w, r);
        return;
    }
    struct ct_frame *frame = ct_frames_call(&w->frames, event);
    if (!frame) {
        give_back(w, r);
        w->failed = true;
        return;
    }
    begin_call(w, r, frame);
}

/* ---- ends ---- */

static void on_lost(void *arg, struct ct_frame *frame) {
    struct walk *w = arg;
    struct record *r = frame->user;
    for (size_t i = 0; i < ROWS; i++)
        if (row_at(r, i))
            row_at(r, i)->open_time.active--;
    if (r->root)
        r->root->unpaired++;
    give_back(w, r);
}

/* The function whose call ended, or NULL when the user did not ask for it. */
static struct ct_graph_function *close_frame(struct walk *w, const struct ct_frame *frame, uint64_t end_ns) {
    struct record *r = frame->user;
    for (size_t i = 0; i < ROWS; i++) {
        struct ct_graph_node *row = row_at(r, i);
        if (!row)
            continue;
        row->timed++;
        row->self_ns += frame->self_ns;
        row->total_ns += ct_frames_close_time(&w->frames, &row->open_time, end_ns);
    }
    struct ct_graph_function *root = r->root;
    give_back(w, r);
    return root;
}

static void on_end(struct walk *w, const struct ct_trace_event *event) {
    struct ct_frame frame;
    bool exception = event->kind == CT_TRACE_EXCEPTION;
    if (exception && event->function_id == 0) /* a signal: no frame ends */
        return;
    if (ct_frames_end(&w->frames, event, &frame)) {
        struct ct_graph_function *root = close_frame(w, &frame, event->timestamp_ns);
        if (root)
            root->exceptions += exception;
        return;
    }
    struct function *f = function_of(w, event->function_id);
    if (f && f->root && !w->fits)
        f->root->unpaired++;
}

static void close_open(struct walk *w, uint64_t end_ns) {
    struct ct_frame frame;
    while (ct_frames_take(&w->frames, end_ns, &frame)) {
        struct ct_graph_function *root = close_frame(w, &frame, end_ns);
        if (root)
            root->open++;
    }
}

/* ---- threads ---- */

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    const struct function *f = function_of(arg, function);
    (void)process;
    return f && f->known->entry_only;
}

/* Counts the calls that are open where the range begins. */
static void count_inherited(struct walk *w) {
    for (struct ct_frame *frame = NULL; !w->failed && (frame = ct_frames_next(&w->frames, frame));) {
        struct function *f = function_of(w, frame->function);
        struct record *r = f ? take_record(w, f) : NULL;
        if (r)
            begin_call(w, r, frame);
    }
}

static void count_gaps(struct walk *w, const struct ct_scan *scan) {
    const struct ct_thread_facts *facts = &w->facts->threads[scan->setup.thread];
    size_t end = scan->past ? scan->gap : facts->gap_count;
    for (size_t i = scan->first_gap; i < end; i++)
        w->graph->lost += facts->gaps[i].lost;
    w->graph->gaps += end - scan->first_gap;
}

static int walk_thread(void *arg, size_t thread, const struct ct_facts *facts, const struct ct_fits *fits) {
    struct walk *w = arg;
    struct ct_scan scan;
    struct ct_trace_event event;
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
        count_inherited(w);
    while (!status && !w->failed && ct_scan_next(&scan, &event)) {
        if (event.kind == CT_TRACE_CALL)
            on_call(w, &event);
        else
            on_end(w, &event);
    }
    if (!status) {
        close_open(w, ct_scan_end(&scan));
        count_gaps(w, &scan);
        w->graph->threads++;
    }
    ct_scan_close(&scan);
    return status ? status : w->failed ? CT_ERR_NO_MEMORY : 0;
}

static void free_walk(struct walk *w) {
    while (w->free_records) {
        struct record *r = w->free_records;
        w->free_records = r->next;
        free(r);
    }
    ct_frames_free(&w->frames);
    ct_table_free(&w->functions, NULL);
}

int ct_graph_make(struct ct_graph **out, struct ct_trace *trace, const struct ct_graph_options *options) {
    if (options->depth < 1 || options->depth > CT_GRAPH_MAX_DEPTH)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_graph *g = calloc(1, sizeof *g);
    if (!g)
        return CT_ERR_NO_MEMORY;
    g->names = (struct ct_function_cache){.trace = trace, .select = &options->select};
    struct walk w = {.trace = trace, .options = options, .graph = g};
    int status = ct_fits_each_thread(trace, &options->select, options->directories, walk_thread, &w);
    free_walk(&w);
    if (status) {
        ct_graph_free(g);
        return status;
    }
    ct_graph_arrange(g, options->sort, options->limit);
    g->names.select = NULL; /* the caller may free it now */
    *out = g;
    return 0;
}

void ct_graph_free(struct ct_graph *g) {
    if (!g)
        return;
    for (size_t i = 0; i < g->function_count; i++) {
        ct_graph_free_children(&g->functions[i]->callers);
        ct_graph_free_children(&g->functions[i]->callees);
        free(g->functions[i]);
    }
    free(g->functions);
    ct_function_cache_free(&g->names);
    free(g);
}
