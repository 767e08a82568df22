/* SPDX-License-Identifier: Apache-2.0 */
/* The tables `events` and `signals`: events of all threads, one thread after the other. Spans of a large thread that
 * have none of the wanted functions, or no signal, are not read. */
#include "query/wanted.h"
#include "abi/atf.h"
#include "trace/reader.h"
#include "trace/signal_text.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_EVENTS = 1 << 16 };

struct rows {
    struct ct_rows rows;
    struct ct_ask ask;
    struct ct_wanted wanted;
    bool signals; /* only these */
    uint64_t low_ns, high_ns, low_seq, high_seq;
    size_t next_thread, thread, process;
    struct ct_trace_cursor *cursor; /* NULL: no thread is being read */
    struct ct_summary *summary;     /* of the thread; NULL: every event is read */
    uint64_t boundary;              /* where the next span begins */
    uint64_t next;                  /* position of the next event */
    struct ct_trace_event event;
    unsigned until_poll;
    struct ct_trace_detail *detail; /* of the signal, when it was read */
    bool has_detail, looked;
    char text[512];
};

/* ---- spans ---- */

static bool is_needed(const struct rows *r, size_t span) {
    if (r->signals)
        return ct_summary_span(r->summary, span)->signals != 0;
    return ct_wanted_in_span(&r->wanted, r->summary, span);
}

/* Goes to the next span that is needed. False: there is none. */
static bool pass_spans(struct rows *r) {
    size_t span = ct_summary_find(r->summary, r->next), count = ct_summary_span_count(r->summary);
    while (span < count && !is_needed(r, span))
        span++;
    if (span == count)
        return false;
    uint64_t first = ct_summary_span(r->summary, span)->first_seq;
    if (first > r->next)
        ct_trace_cursor_skip(r->cursor, r->thread, first);
    r->boundary = ct_summary_span_end(r->summary, span);
    return true;
}

/* ---- threads ---- */

static bool wants_thread(struct rows *r, size_t thread) {
    const struct ct_source *s = r->rows.source;
    const struct ct_trace_thread *info = ct_trace_thread_at(s->trace, thread);
    const struct ct_ask_range *id = &r->ask.ranges[CT_ASK_ID];
    int64_t first = ct_source_call_id(thread, 0), last = ct_source_call_id(thread + 1, 0) - 1;
    r->thread = thread;
    r->process = info->process;
    r->low_seq = id->low > first ? (uint64_t)(id->low - first) : 0;
    r->high_seq = id->high < last ? (uint64_t)(id->high - first) : UINT64_MAX;
    return info->event_count && id->low <= last && id->high >= first &&
           ct_ask_fits(&r->ask, CT_ASK_THREAD, (int64_t)thread + 1) &&
           ct_ask_fits(&r->ask, CT_ASK_PROCESS, (int64_t)info->process + 1);
}

static int open_thread(struct rows *r) {
    struct ct_source *s = r->rows.source;
    const struct ct_trace_thread *info = ct_trace_thread_at(s->trace, r->thread);
    bool selective = r->signals || ct_wanted_is_limited(&r->wanted);
    r->next = r->low_seq > info->first_sequence ? r->low_seq : info->first_sequence;
    if (r->low_ns) {
        uint64_t at = ct_summary_position(s->trace, r->thread, r->low_ns);
        r->next = at > r->next ? at : r->next;
    }
    ct_wanted_begin(&r->wanted, r->process);
    r->summary = selective ? ct_source_summary(s, r->thread) : NULL;
    r->boundary = r->summary ? r->next : UINT64_MAX;
    if (!ct_wanted_list(&r->wanted, r->summary))
        return 0;
    int status = ct_trace_cursor_open_thread_at(&r->cursor, s->trace, r->thread, r->next);
    if (!status && selective)
        ct_trace_cursor_alone(r->cursor);
    return status;
}

static void close_thread(struct rows *r) {
    ct_trace_cursor_close(r->cursor);
    r->cursor = NULL;
}

/* 1: there is a thread, 0: no more. */
static int next_thread(struct rows *r) {
    int status = 0;
    while (!status && !r->cursor && r->next_thread < ct_trace_thread_count(r->rows.source->trace))
        if (wants_thread(r, r->next_thread++))
            status = open_thread(r);
    return status ? status : r->cursor != NULL;
}

/* ---- rows ---- */

static bool is_signal(const struct ct_trace_event *event) {
    return event->kind == CT_TRACE_EXCEPTION && !event->function_id;
}

/* 1: it fits, 0: not. */
static int fits(struct rows *r) {
    if (r->signals)
        return is_signal(&r->event);
    if (!ct_wanted_is_limited(&r->wanted))
        return 1;
    if (is_signal(&r->event))
        return 0;
    const struct ct_wanted_function *f = ct_wanted_get(&r->wanted, r->event.function_id);
    return f ? f->wanted : CT_ERR_NO_MEMORY;
}

/* The next event of the thread. False: there is none in the range. */
static bool next_event(struct rows *r) {
    if (r->next >= r->boundary && !pass_spans(r))
        return false;
    if (!ct_trace_cursor_next(r->cursor, &r->event))
        return false;
    r->next = r->event.sequence + 1;
    return r->event.sequence <= r->high_seq && r->event.timestamp_ns <= r->high_ns;
}

static int poll_owner(struct rows *r) {
    const struct ct_source_setup *setup = &r->rows.source->setup;
    r->until_poll = POLL_EVENTS;
    r->rows.source->events += POLL_EVENTS + 1;
    return setup->poll && setup->poll(setup->poll_arg) ? CT_ERR_TIMEOUT : 0;
}

static int next_row(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    r->looked = false;
    for (;;) {
        int status = r->cursor ? 1 : next_thread(r);
        if (status <= 0)
            return status;
        if (!next_event(r)) {
            close_thread(r);
            continue;
        }
        status = r->until_poll-- ? 0 : poll_owner(r);
        if (!status && (status = fits(r)) > 0)
            rows->id = ct_source_call_id(r->thread, r->event.sequence);
        if (status)
            return status;
    }
}

static uint64_t boot_time(const struct ct_source *s, int64_t time, uint64_t none) {
    bool limited = time != INT64_MIN && time != INT64_MAX;
    return !limited ? none : time < 0 && s->start_ns < (uint64_t)-time ? 0 : s->start_ns + (uint64_t)time;
}

static int open_rows(struct ct_rows *rows, const struct ct_ask *ask) {
    struct rows *r = (struct rows *)rows;
    r->ask = *ask;
    r->signals = rows->table == CT_TABLE_SIGNALS;
    r->wanted = (struct ct_wanted){.source = rows->source, .ask = &r->ask};
    r->low_ns = boot_time(rows->source, ask->ranges[CT_ASK_TIME].low, 0);
    r->high_ns = boot_time(rows->source, ask->ranges[CT_ASK_TIME].high, UINT64_MAX);
    r->until_poll = POLL_EVENTS;
    return 0;
}

static void close_rows(struct ct_rows *rows) {
    struct rows *r = (struct rows *)rows;
    close_thread(r);
    rows->source->events += POLL_EVENTS - r->until_poll;
    ct_wanted_free(&r->wanted);
    free(r->detail);
}

/* ---- cells ---- */

static void name_cell(struct rows *r, bool module, struct ct_cell *cell) {
    const struct ct_cached_function *known =
        is_signal(&r->event) ? NULL : ct_function_cache_get(&r->rows.source->names, r->process, r->event.function_id);
    if (known)
        ct_cell_text(cell, module ? known->module : known->name);
}

static const char *kind_of(const struct ct_trace_event *event) {
    switch (event->kind) {
    case CT_TRACE_CALL:
        return "call";
    case CT_TRACE_RETURN:
        return "return";
    default:
        return is_signal(event) ? "signal" : "left";
    }
}

static void event_cell(struct rows *r, int column, struct ct_cell *cell) {
    const struct ct_trace_event *event = &r->event;
    switch (column) {
    case CT_EVENTS_id:
        return ct_cell_integer(cell, r->rows.id);
    case CT_EVENTS_process:
        return ct_cell_integer(cell, (int64_t)r->process + 1);
    case CT_EVENTS_thread:
        return ct_cell_integer(cell, (int64_t)r->thread + 1);
    case CT_EVENTS_time:
        return ct_cell_integer(cell, ct_source_time(r->rows.source, event->timestamp_ns));
    case CT_EVENTS_kind:
        return ct_cell_text(cell, kind_of(event));
    case CT_EVENTS_function:
    case CT_EVENTS_module:
        return name_cell(r, column == CT_EVENTS_module, cell);
    case CT_EVENTS_depth:
        return ct_cell_integer(cell, event->depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(event->depth) : event->depth);
    case CT_EVENTS_detail:
        return ct_cell_integer(cell, event->detail != CT_TRACE_NO_DETAIL);
    case CT_EVENTS_function_id:
        if (!is_signal(event))
            ct_cell_integer(cell, (int64_t)event->function_id);
        return;
    default:
        return;
    }
}

/* The record of the signal; NULL: it has none. */
static const struct ct_trace_detail *detail_of(struct rows *r) {
    if (!r->detail)
        r->detail = malloc(sizeof *r->detail);
    if (!r->detail || r->event.detail == CT_TRACE_NO_DETAIL)
        return NULL;
    r->detail->size = sizeof *r->detail;
    if (!r->looked)
        r->has_detail = ct_trace_detail(r->rows.source->trace, r->thread, r->event.detail, r->detail) == 0 &&
                        r->detail->type == CT_TRACE_DETAIL_SIGNAL;
    r->looked = true;
    return r->has_detail ? r->detail : NULL;
}

static void text_cell(struct rows *r, struct ct_cell *cell) {
    cell->type = CT_CELL_TEXT;
    cell->lasts = false;
    cell->text = r->text;
}

static void signal_cell(struct rows *r, int column, struct ct_cell *cell) {
    if (column <= CT_SIGNALS_time)
        return event_cell(r, column, cell);
    const struct ct_trace_detail *detail = detail_of(r);
    if (!detail)
        return;
    const char *name = sigabbrev_np((int)detail->signal);
    switch (column) {
    case CT_SIGNALS_signal:
        return ct_cell_integer(cell, detail->signal);
    case CT_SIGNALS_name:
        snprintf(r->text, sizeof r->text, "SIG%s", name ? name : "?");
        return text_cell(r, cell);
    case CT_SIGNALS_code:
        return ct_cell_integer(cell, detail->code);
    case CT_SIGNALS_address:
        return ct_cell_integer(cell, (int64_t)detail->fault_address);
    case CT_SIGNALS_text:
        ct_signal_text(r->rows.source->trace, r->process, detail, r->text, sizeof r->text);
        return text_cell(r, cell);
    default:
        return;
    }
}
_Static_assert((int)CT_SIGNALS_id == (int)CT_EVENTS_id && (int)CT_SIGNALS_time == (int)CT_EVENTS_time,
               "the first columns are those of events");

static void get_cell(struct ct_rows *rows, int column, struct ct_cell *cell) {
    struct rows *r = (struct rows *)rows;
    cell->type = CT_CELL_NULL;
    if (r->signals)
        signal_cell(r, column, cell);
    else
        event_cell(r, column, cell);
}

const struct ct_rows_class ct_rows_events = {
    .size = sizeof(struct rows), .open = open_rows, .next = next_row, .cell = get_cell, .close = close_rows};
