/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats, and the code that runs them. */
#include "export/export.h"
#include "export/export_internal.h"
#include "trace/signal_text.h"
#include "export/text.h"
#include "trace/file.h"
#include "trace/reader.h"
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct ct_export_format formats[] = {
#define ROW(id, word, before, after, sort, what, opens, is, bytes)                                                     \
    {.name = word,                                                                                                     \
     .prefix = before,                                                                                                 \
     .suffix = after,                                                                                                  \
     .kind = sort,                                                                                                     \
     .text = what,                                                                                                     \
     .hint = opens,                                                                                                    \
     .flags = is,                                                                                                      \
     .event_bytes = bytes,                                                                                             \
     .run = ct_export_##id},
    CT_EXPORT_FORMAT_LIST(ROW)
#undef ROW
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

const struct ct_export_format *ct_export_format_at(size_t index) {
    return index < FORMAT_COUNT ? &formats[index] : NULL;
}

/* ---- for the formats ---- */

void ct_export_fail(struct ct_export *e, int status) {
    int none = 0;
    atomic_compare_exchange_strong(&e->status, &none, status);
}

void ct_export_write_failed(struct ct_export *e, int error) {
    if (!error)
        return;
    pthread_mutex_lock(&e->lock);
    if (!e->result->error)
        e->result->error = error;
    pthread_mutex_unlock(&e->lock);
    ct_export_fail(e, ct_file_status(error));
}

bool ct_export_advance(struct ct_export *e, uint64_t events) {
    e->done += events;
    ct_export_write_failed(e, e->out.error);
    if (!e->status && e->options->progress)
        ct_export_fail(e, e->options->progress(e->options->arg, e->done, e->total));
    return !e->status;
}

const char *ct_export_manifest_text(const struct ct_export *e, size_t process, const char *key, const char *fallback) {
    return ct_json_text(ct_json_get(ct_json_root(e->facts.trees[process]), key, NULL), fallback);
}

const char *ct_export_program(const struct ct_export *e, size_t process, char *text, size_t size) {
    const char *program = ct_trace_program(e->trace, process);
    if (*program)
        text[ct_text_clean(text, size - 1, program, false)] = 0;
    else
        snprintf(text, size, "process");
    return text;
}

/* ---- detail records ---- */

const struct ct_arguments *ct_export_arguments(struct ct_export *e, size_t thread, uint32_t detail,
                                               struct ct_arguments **values) {
    if (detail == CT_TRACE_NO_DETAIL)
        return NULL;
    if (!*values)
        *values = malloc(sizeof **values);
    pthread_mutex_lock(&e->lock);
    bool opened = *values && (e->arguments || ct_argument_reader_open(&e->arguments, e->trace, NULL) == 0);
    bool read = opened && ct_arguments_read(e->arguments, thread, detail, *values) == 0;
    pthread_mutex_unlock(&e->lock);
    if (!opened)
        ct_export_fail(e, CT_ERR_NO_MEMORY);
    return read ? *values : NULL;
}

bool ct_export_wants(const struct ct_export *e, const struct ct_trace_event *event) {
    const struct ct_select *select = &e->options->select;
    if (event->kind == CT_TRACE_EXCEPTION && event->function_id == 0) /* a signal */
        return event->timestamp_ns >= select->from_ns && (!select->to_ns || event->timestamp_ns < select->to_ns);
    return ct_fits_keeps(e->fits, event->thread, event->sequence);
}

bool ct_export_signal(struct ct_export *e, size_t thread, uint32_t detail, char *text, size_t size) {
    struct ct_trace_detail record = {.size = sizeof record};
    snprintf(text, size, "signal");
    pthread_mutex_lock(&e->lock);
    bool known = ct_trace_detail(e->trace, thread, detail, &record) == 0 && record.type == CT_TRACE_DETAIL_SIGNAL;
    if (known)
        ct_signal_text(e->trace, ct_trace_thread_at(e->trace, thread)->process, &record, text, size);
    pthread_mutex_unlock(&e->lock);
    return known;
}

const char *ct_export_argument_name(const struct ct_arguments *arguments, size_t index, char text[16]) {
    if (*arguments->at[index].name)
        return arguments->at[index].name;
    snprintf(text, 16, "arg%zu", index);
    return text;
}

/* ---- running ---- */

static void look_at_trace(struct ct_export *e) {
    size_t threads = ct_trace_thread_count(e->trace), processes = ct_trace_process_count(e->trace);
    e->start_ns = UINT64_MAX;
    for (size_t i = 0; i < processes; i++) {
        uint64_t start = ct_trace_process_at(e->trace, i)->time_start_ns;
        if (start && start < e->start_ns)
            e->start_ns = start;
    }
    for (size_t i = 0; i < threads; i++) {
        if (!ct_select_thread(&e->options->select, e->trace, i))
            continue;
        e->total += ct_trace_thread_at(e->trace, i)->event_count;
        e->result->threads++;
    }
    e->result->processes = processes;
}

/* Events may be earlier than the manifest says, in a trace that somebody else composed. */
static int find_start(struct ct_export *e) {
    for (size_t i = 0; i < ct_trace_thread_count(e->trace); i++) {
        struct ct_trace_cursor *cursor;
        struct ct_trace_event event;
        int status = ct_trace_cursor_open_thread(&cursor, e->trace, i, 0);
        if (status)
            return status;
        if (ct_trace_cursor_next(cursor, &event) && event.timestamp_ns < e->start_ns)
            e->start_ns = event.timestamp_ns;
        ct_trace_cursor_close(cursor);
    }
    if (e->start_ns == UINT64_MAX)
        e->start_ns = 0;
    return 0;
}

/* ---- the size ---- */

/* Positions of the events of a thread in the selected time. */
struct stretch {
    struct ct_index *index;
    uint64_t from, to;
};

static struct stretch stretch_of(const struct ct_export *e, size_t thread) {
    const struct ct_select *select = &e->options->select;
    struct ct_index *index = &e->trace->threads[thread].index;
    struct stretch s = {index, index->first, index->end};
    if (!ct_select_thread(select, e->trace, thread))
        return (struct stretch){.index = index};
    if (select->from_ns)
        s.from = ct_index_search(index, select->from_ns);
    if (select->to_ns)
        s.to = ct_index_search(index, select->to_ns);
    s.to = s.to < s.from ? s.from : s.to;
    return s;
}

static uint64_t time_at(struct ct_index *index, uint64_t sequence) {
    struct atf_index_event event;
    return ct_index_read(index, sequence, &event, 1) ? event.timestamp_ns : 0;
}

/* Reports an export that no viewer loads, with the last part of its time that would have half of the limit: by the
 * thread with the most events. */
static void check_size(struct ct_export *e) {
    const struct ct_export_options *o = e->options;
    uint64_t limit = o->limit ? o->limit : CT_EXPORT_LARGE, events = 0;
    struct stretch longest = {0};
    if (!o->large || !o->format->event_bytes)
        return;
    for (size_t i = 0; i < ct_trace_thread_count(e->trace); i++) {
        struct stretch s = stretch_of(e, i);
        events += s.to - s.from;
        if (s.to - s.from > longest.to - longest.from)
            longest = s;
    }
    if (e->fits)
        events = ct_fits_kept(e->fits);
    struct ct_export_large large = {.bytes = events * o->format->event_bytes};
    if (large.bytes <= limit || longest.to == longest.from)
        return;
    double part = (double)limit / 2 / (double)large.bytes;
    uint64_t last = (uint64_t)((double)(longest.to - longest.from) * part);
    large.from_ns = time_at(longest.index, longest.to - 1 - last);
    large.to_ns = time_at(longest.index, longest.to - 1) + 1;
    o->large(o->arg, &large);
}

/* Uses an existing directory only if it is ours: names in it are several levels deep. */
static int make_directory(struct ct_export *e) {
    struct ct_place *given = e->options->place;
    int error = 0;
    if (given)
        e->place = ct_place_hold(given);
    else
        error = ct_place_open(&e->place, e->options->directory, CT_PLACE_MAKE_LAST, CT_PLACE_NO_GROUP);
    if (!error && !ct_place_is_empty(e->place))
        return CT_ERR_BUSY;
    if (!error && !ct_place_is_closed(e->place))
        error = CT_PLACE_NOT_OURS;
    ct_export_write_failed(e, error);
    return e->status;
}

/* Removes a directory that was made for an export that failed. */
static void leave_directory(struct ct_export *e, bool whole) {
    if (e->place && !whole && ct_place_is_new(e->place)) {
        ct_place_clear(e->place);
        ct_place_unmake(e->place);
    }
    ct_place_drop(e->place);
}

static int run_format(struct ct_export *e) {
    int status = ct_facts_load(&e->facts, e->trace);
    if (status)
        return status;
    look_at_trace(e);
    status = find_start(e);
    if (!status)
        status = ct_fits_make(&e->fits, e->trace, &e->facts, &e->options->select,
                              e->options->format->flags & CT_EXPORT_EVENTS ? CT_FITS_EVENTS : CT_FITS_BELOW, NULL);
    if (!status)
        check_size(e);
    if (!status && e->options->format->kind == CT_EXPORT_DIRECTORY)
        status = make_directory(e);
    else if (!status && !ct_out_open(&e->out, e->options->fd))
        status = CT_ERR_NO_MEMORY;
    if (!status)
        status = e->options->format->run(e);
    ct_export_write_failed(e, ct_out_close(&e->out));
    if (e->options->format->kind != CT_EXPORT_DIRECTORY)
        e->result->bytes = e->out.bytes;
    e->result->events = e->done;
    ct_fits_free(e->fits);
    ct_facts_free(&e->facts);
    ct_names_free(&e->names);
    ct_argument_reader_close(e->arguments);
    free(e->values);
    status = e->status ? e->status : status;
    leave_directory(e, !status);
    return status;
}

int ct_export_run(struct ct_trace *trace, const struct ct_export_options *options, struct ct_export_result *result) {
    struct ct_export e = {.trace = trace, .options = options, .result = result, .names = {.trace = trace}};
    *result = (struct ct_export_result){0};
    pthread_mutex_init(&e.lock, NULL);
    e.names.lock = &e.lock;
    int status = run_format(&e);
    pthread_mutex_destroy(&e.lock);
    return status;
}
