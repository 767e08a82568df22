/* SPDX-License-Identifier: Apache-2.0 */
/* stack_at(thread, time) and callers(call): the calls that are open at a position of a thread, innermost first. The
 * thread is read from the last place before the position where its summary knows the open calls. */
#include "query/rows.h"
#include "abi/atf.h"
#include "base/grow.h"
#include "report/scan.h"
#include "trace/reader.h"
#include <stdlib.h>

struct frame {
    uint64_t function, sequence, began_ns;
    uint32_t depth;
};

struct rows {
    struct ct_rows rows;
    struct frame *frames;
    size_t count, room, next;
    size_t thread, process;
    uint64_t position; /* of the last event to read */
    struct ct_frames open;
};

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct rows *r = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&r->rows.source->names, process, function);
    return known && known->entry_only;
}

static void ignore_lost(void *arg, struct ct_frame *frame) {
    (void)arg, (void)frame;
}

static bool is_needed(void *arg, const struct ct_summary *summary, size_t span) {
    const struct rows *r = arg;
    return r->position < ct_summary_span_end(summary, span);
}

static bool add_frame(struct rows *r, uint64_t function, uint64_t sequence, uint64_t began_ns, uint32_t depth) {
    if (!ct_grow(&r->frames, &r->room, r->count, sizeof *r->frames, 64))
        return false;
    depth = depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(depth) : depth;
    r->frames[r->count++] = (struct frame){function, sequence, began_ns, depth};
    return true;
}

/* The frame at a place, and those that called it. */
static int add_frames(struct rows *r, size_t place) {
    const struct ct_frame *frame;
    while ((frame = ct_frames_known(&r->open, place))) {
        if (!add_frame(r, frame->function, frame->sequence, frame->began_ns, frame->called_at))
            return CT_ERR_NO_MEMORY;
        place = ct_frames_caller(&r->open, frame);
    }
    return 0;
}

/* Does what the event does to the frames. *entry becomes the place of the caller of a call that opens no frame. */
static int follow_event(struct rows *r, const struct ct_trace_event *event, size_t *entry) {
    *entry = CT_NO_FRAME;
    if (event->kind == CT_TRACE_CALL && is_entry_only(r, r->process, event->function_id))
        *entry = ct_frames_entry(&r->open, event);
    else if (event->kind == CT_TRACE_CALL)
        return ct_frames_call(&r->open, event) ? 0 : CT_ERR_NO_MEMORY;
    else if (event->kind != CT_TRACE_EXCEPTION || event->function_id)
        (void)ct_frames_close(&r->open, event);
    return 0;
}

/* Reads up to the position. `calls`: the event there must be a call. `time_ns`: not 0: nothing is open after the end of
 * the thread. */
static int read_stack(struct rows *r, struct ct_scan *scan, bool call, uint64_t time_ns) {
    struct ct_trace_event event = {0};
    size_t entry = CT_NO_FRAME;
    int status = 0;
    bool more = true;
    while (!status && scan->next <= r->position && (more = ct_scan_next(scan, &event)))
        status = follow_event(r, &event, &entry);
    if (status || (call && (event.sequence != r->position || event.kind != CT_TRACE_CALL)))
        return status;
    bool opens = !is_entry_only(r, r->process, event.function_id);
    if (call && !opens) {
        bool added = add_frame(r, event.function_id, event.sequence, event.timestamp_ns, event.depth);
        return added ? add_frames(r, entry) : CT_ERR_NO_MEMORY;
    }
    const struct ct_index *index = &r->rows.source->trace->threads[r->thread].index;
    if (time_ns && (!more || scan->next >= index->end) && time_ns >= ct_scan_end(scan))
        return 0;
    return add_frames(r, r->open.running);
}

static int find_stack(struct rows *r, bool call, uint64_t time_ns) {
    static const struct ct_scan_spans spans = {.needed = is_needed};
    struct ct_source *s = r->rows.source;
    struct ct_summary *summary = ct_source_summary(s, r->thread);
    struct ct_scan scan;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = s->trace,
                                                             .facts = &s->facts,
                                                             .thread = r->thread,
                                                             .frames = &r->open,
                                                             .lost = ignore_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = r,
                                                             .alone = true,
                                                             .summary = summary,
                                                             .spans = summary ? &spans : NULL});
    if (!status)
        status = read_stack(r, &scan, call, time_ns);
    ct_scan_close(&scan);
    return status;
}

static bool set_thread(struct rows *r, uint64_t thread) {
    if (thread >= ct_trace_thread_count(r->rows.source->trace))
        return false;
    r->thread = (size_t)thread;
    r->process = ct_trace_thread_at(r->rows.source->trace, r->thread)->process;
    return true;
}

static bool single(const struct ct_ask *ask, enum ct_ask_field field, int64_t *value) {
    *value = ask->ranges[field].low;
    return ask->ranges[field].low == ask->ranges[field].high && *value >= 0;
}

static int open_rows(struct ct_rows *rows, const struct ct_ask *ask) {
    struct rows *r = (struct rows *)rows;
    struct ct_trace *trace = rows->source->trace;
    int64_t first, second;
    if (!single(ask, CT_ASK_FIRST, &first))
        return 0;
    if (rows->table == CT_TABLE_CALLERS) {
        r->position = (uint64_t)first & ((UINT64_C(1) << CT_SOURCE_POSITION_BITS) - 1);
        return set_thread(r, (uint64_t)first >> CT_SOURCE_POSITION_BITS) ? find_stack(r, true, 0) : 0;
    }
    if (!single(ask, CT_ASK_SECOND, &second) || !first || !set_thread(r, (uint64_t)first - 1))
        return 0;
    uint64_t time_ns = rows->source->start_ns + (uint64_t)second;
    uint64_t after = ct_summary_position(trace, r->thread, time_ns + 1);
    if (after <= trace->threads[r->thread].index.first)
        return 0;
    r->position = after - 1;
    return find_stack(r, false, time_ns);
}

static int next_row(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    rows->id = (int64_t)r->next;
    return r->next++ < r->count;
}

static void get_cell(struct ct_rows *rows, int column, struct ct_cell *cell) {
    struct rows *r = (struct rows *)rows;
    const struct frame *frame = &r->frames[r->next - 1];
    const struct ct_cached_function *known = ct_function_cache_get(&rows->source->names, r->process, frame->function);
    cell->type = CT_CELL_NULL;
    switch (column) {
    case CT_CALLERS_level:
        return ct_cell_integer(cell, rows->id);
    case CT_CALLERS_id:
        return ct_cell_integer(cell, ct_source_call_id(r->thread, frame->sequence));
    case CT_CALLERS_function:
    case CT_CALLERS_module:
        if (known)
            ct_cell_text(cell, column == CT_CALLERS_module ? known->module : known->name);
        return;
    case CT_CALLERS_start:
        return ct_cell_integer(cell, ct_source_time(rows->source, frame->began_ns));
    case CT_CALLERS_depth:
        return ct_cell_integer(cell, frame->depth);
    default:
        return;
    }
}
_Static_assert((int)CT_CALLERS_depth == (int)CT_STACK_AT_depth, "both tables have these columns");

static void close_rows(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    ct_frames_free(&r->open);
    free(r->frames);
}

const struct ct_rows_class ct_rows_stack = {
    .size = sizeof(struct rows), .open = open_rows, .next = next_row, .cell = get_cell, .close = close_rows};
