/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors: the events of one thread, or of all threads merged by time (ties: thread, then sequence), optionally with
 * the code that the threads executed between them.
 *
 * Each thread is a stream with a buffer of its own; streams wait in a binary heap. The buffers of all streams together
 * stay below MERGE_BYTES as long as each gets LEAST bytes. */
#include "trace/ahead.h"
#include "trace/code_file.h"
#include "trace/reader.h"
#include <stdlib.h>

#define EVENT       sizeof(struct atf_index_event)
#define MERGE_BYTES (8u << 20)
#define MOST        (256u << 10)
#define LEAST       (4u << 10)
#define SOON        16 /* buffers that were read in a row, before somebody reads ahead */

struct stream {
    uint64_t time; /* of the next event or record: the heap looks at nothing else */
    size_t thread;
    struct ct_index *index;
    uint64_t sequence; /* of the next event */
    struct ct_ahead_block block;
    size_t at, room;             /* room: events to read at once */
    struct ct_ahead *ahead;      /* NULL: nobody reads ahead */
    unsigned fills;              /* buffers that were read in a row */
    struct ct_code_reader *code; /* NULL: only events */
    struct ct_code_record record;
    bool has_record, damaged;
    bool record_next; /* the record comes before the event */
};

struct ct_trace_cursor {
    struct ct_trace *trace;
    unsigned aheads;      /* streams that may still be read ahead */
    struct stream **heap; /* earliest first */
    size_t count;
    struct stream *streams;
    size_t stream_count;
};

/* A stream that is read from one event to the next gets a helper, if a processor is left for it. */
static void read_ahead(struct ct_trace_cursor *cursor, struct stream *stream) {
    unsigned soon = cursor->trace->ahead_least ? 1 : SOON;
    if (stream->ahead || !cursor->aheads || ++stream->fills < soon)
        return;
    stream->fills = 0;
    stream->ahead = ct_ahead_open(cursor->trace, stream->thread, stream->sequence);
    if (stream->ahead)
        cursor->aheads--;
}

static void stop_ahead(struct ct_trace_cursor *cursor, struct stream *stream) {
    if (stream->ahead)
        cursor->aheads++;
    ct_ahead_close(stream->ahead);
    stream->ahead = NULL;
    stream->fills = 0;
}

/* Reads the next events into the buffer; of packed files, no more than a block. */
static void read_events(struct stream *stream) {
    struct ct_ahead_block *block = &stream->block;
    if (ct_ahead_take(stream->ahead, stream->sequence, block))
        return;
    size_t room = stream->room < block->room ? stream->room : block->room;
    block->count = ct_index_read(stream->index, stream->sequence, block->events, room);
}

static bool fill_buffer(struct ct_trace_cursor *cursor, struct stream *stream) {
    stream->at = stream->block.count = 0;
    read_ahead(cursor, stream);
    while (!stream->block.count && stream->sequence < stream->index->end) {
        read_events(stream);
        if (!stream->block.count)
            stream->sequence = ct_index_skip(stream->index, stream->sequence);
    }
    if (stream->block.count)
        stream->time = stream->block.events[0].timestamp_ns;
    return stream->block.count != 0;
}

static bool advance_stream(struct ct_trace_cursor *cursor, struct stream *stream) {
    stream->sequence++;
    if (++stream->at == stream->block.count)
        return fill_buffer(cursor, stream);
    stream->time = stream->block.events[stream->at].timestamp_ns;
    return true;
}

/* ---- code ---- */

static void read_record(struct stream *stream) {
    int status = stream->damaged ? 0 : ct_code_reader_next(stream->code, &stream->record);
    stream->has_record = status != 0;
    if (status >= 0)
        return;
    stream->damaged = true;
    stream->record.what = CT_CODE_DAMAGED;
}

/* Decides whether the record comes before the event. The time of a record may be that of a later event, or after that
 * of an earlier one: its position decides. `last`: time of what came before. */
static bool choose_next(struct stream *stream, uint64_t last) {
    bool has_event = stream->at < stream->block.count;
    uint64_t event_time = has_event ? stream->block.events[stream->at].timestamp_ns : UINT64_MAX;
    stream->record_next = stream->has_record && (!has_event || stream->record.position <= stream->sequence);
    stream->time = event_time;
    if (stream->record_next) {
        stream->time = stream->record.time_ns > last ? stream->record.time_ns : last;
        if (stream->time > event_time)
            stream->time = event_time;
    }
    return has_event || stream->has_record;
}

static bool advance_both(struct ct_trace_cursor *cursor, struct stream *stream) {
    uint64_t last = stream->time;
    if (stream->record_next)
        read_record(stream);
    else
        (void)advance_stream(cursor, stream);
    return choose_next(stream, last);
}

/* Streams have different threads, so no two are equal. */
static bool comes_before(const struct stream *a, const struct stream *b) {
    return a->time != b->time ? a->time < b->time : a->thread < b->thread;
}

static void sift_down(struct ct_trace_cursor *cursor, size_t at) {
    struct stream **heap = cursor->heap, *moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= cursor->count)
            break;
        if (child + 1 < cursor->count && comes_before(heap[child + 1], heap[child]))
            child++;
        if (!comes_before(heap[child], moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static size_t room_for(size_t streams, uint64_t events) {
    size_t bytes = streams ? MERGE_BYTES / streams : MOST;
    bytes = bytes > MOST ? MOST : bytes < LEAST ? LEAST : bytes;
    return events < bytes / EVENT ? (size_t)events : bytes / EVENT;
}

/* Where streams begin: at positions, by thread, or at a time. */
struct start {
    uint64_t ns;
    const uint64_t *sequences; /* NULL: at the time */
    const uint64_t *one;       /* the position in the only thread; NULL: as above */
    const bool *code;          /* the threads whose code is read too; NULL: none */
};

bool ct_trace_has_code(const struct ct_trace *trace, size_t thread) {
    const struct ct_trace_thread *info = &trace->threads[thread].info;
    char *path = ct_file_path("%s/thread_%u", trace->processes[info->process].directory, info->id);
    bool has = path && ct_find_exists(path, CT_CODE_FILE);
    free(path);
    return has;
}

static int open_code(struct stream *stream, const struct ct_trace *trace) {
    const struct ct_trace_thread *thread = &trace->threads[stream->thread].info;
    int status = ct_code_reader_open(&stream->code, trace->processes[thread->process].directory, thread->id);
    if (status == CT_ERR_NOT_FOUND)
        return 0;
    if (!status)
        read_record(stream);
    return status;
}

/* Adds the stream to the heap if it has events. */
static int add_stream(struct ct_trace_cursor *cursor, struct ct_trace *trace, size_t thread, size_t streams,
                      const struct start *start) {
    struct stream *stream = &cursor->streams[cursor->stream_count++];
    struct ct_index *index = &trace->threads[thread].index;
    *stream = (struct stream){.thread = thread, .index = index};
    if (start->one)
        stream->sequence = *start->one;
    else if (start->sequences)
        stream->sequence = start->sequences[thread];
    else if (start->ns)
        stream->sequence = ct_index_search(index, start->ns);
    if (stream->sequence < index->first)
        stream->sequence = index->first;
    int status = start->code && start->code[thread] ? open_code(stream, trace) : 0;
    bool more = false;
    if (!status && stream->sequence < index->end) {
        stream->room = stream->block.room = room_for(streams, index->end - stream->sequence);
        stream->block.events = malloc(stream->room * EVENT);
        status = stream->block.events ? 0 : CT_ERR_NO_MEMORY;
        more = !status && fill_buffer(cursor, stream);
    }
    if (stream->code)
        more = choose_next(stream, 0);
    if (!status && more)
        cursor->heap[cursor->count++] = stream;
    return status;
}

static int open_cursor(struct ct_trace_cursor **out, struct ct_trace *trace, size_t first, size_t count,
                       const struct start *start) {
    int status = 0;
    *out = NULL;
    struct ct_trace_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return CT_ERR_NO_MEMORY;
    cursor->trace = trace;
    cursor->aheads = ct_ahead_processors(trace) - 1;
    cursor->heap = calloc(count + 1, sizeof *cursor->heap);
    cursor->streams = calloc(count + 1, sizeof *cursor->streams);
    if (!cursor->heap || !cursor->streams)
        status = CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        status = add_stream(cursor, trace, first + i, count, start);
    if (status) {
        ct_trace_cursor_close(cursor);
        return status;
    }
    for (size_t i = cursor->count / 2; i-- > 0;)
        sift_down(cursor, i);
    *out = cursor;
    return 0;
}

int ct_trace_cursor_open(struct ct_trace_cursor **out, struct ct_trace *trace, uint64_t start_ns) {
    return open_cursor(out, trace, 0, trace->thread_count, &(struct start){.ns = start_ns});
}

int ct_trace_cursor_open_at(struct ct_trace_cursor **out, struct ct_trace *trace, const uint64_t *sequences) {
    return open_cursor(out, trace, 0, trace->thread_count, &(struct start){.sequences = sequences});
}

int ct_trace_cursor_open_thread(struct ct_trace_cursor **out, struct ct_trace *trace, size_t thread,
                                uint64_t start_ns) {
    *out = NULL;
    if (thread >= trace->thread_count)
        return CT_ERR_INVALID_ARGUMENT;
    return open_cursor(out, trace, thread, 1, &(struct start){.ns = start_ns});
}

int ct_trace_cursor_open_thread_at(struct ct_trace_cursor **out, struct ct_trace *trace, size_t thread,
                                   uint64_t sequence) {
    return open_cursor(out, trace, thread, 1, &(struct start){.one = &sequence});
}

int ct_trace_cursor_open_code(struct ct_trace_cursor **out, struct ct_trace *trace, const bool *code) {
    return open_cursor(out, trace, 0, trace->thread_count, &(struct start){.code = code});
}

/* The first of the heap was taken. */
static void go_on(struct ct_trace_cursor *cursor) {
    struct stream *stream = cursor->heap[0];
    if (!(stream->code ? advance_both(cursor, stream) : advance_stream(cursor, stream)))
        cursor->heap[0] = cursor->heap[--cursor->count];
    if (cursor->count > 1)
        sift_down(cursor, 0);
}

void ct_trace_cursor_skip(struct ct_trace_cursor *cursor, size_t thread, uint64_t sequence) {
    for (size_t i = 0; i < cursor->count; i++) {
        struct stream *stream = cursor->heap[i];
        if (stream->thread != thread || stream->code || sequence <= stream->sequence)
            continue;
        stream->sequence = sequence;
        stop_ahead(cursor, stream);
        if (!fill_buffer(cursor, stream))
            cursor->heap[i] = cursor->heap[--cursor->count];
        break;
    }
    for (size_t i = cursor->count / 2; i-- > 0;)
        sift_down(cursor, i);
}

void ct_trace_cursor_alone(struct ct_trace_cursor *cursor) {
    cursor->aheads = 0;
}

bool ct_trace_cursor_next(struct ct_trace_cursor *cursor, struct ct_trace_event *event) {
    if (!cursor->count)
        return false;
    struct stream *stream = cursor->heap[0];
    const struct atf_index_event *raw = &stream->block.events[stream->at];
    *event = (struct ct_trace_event){.timestamp_ns = raw->timestamp_ns,
                                     .function_id = raw->function_id,
                                     .thread = stream->thread,
                                     .sequence = stream->sequence,
                                     .kind = raw->event_kind,
                                     .depth = raw->call_depth,
                                     .detail = raw->detail_seq};
    if (cursor->count > 1 || stream->code || stream->at + 1 == stream->block.count) {
        go_on(cursor);
        return true;
    }
    stream->sequence++;
    stream->time = stream->block.events[++stream->at].timestamp_ns;
    return true;
}

enum ct_trace_step ct_trace_next_step(struct ct_trace_cursor *cursor, struct ct_trace_event *event,
                                      struct ct_code_record *record) {
    const struct stream *stream = cursor->count ? cursor->heap[0] : NULL;
    if (!stream || !stream->record_next)
        return ct_trace_cursor_next(cursor, event) ? CT_TRACE_STEP_EVENT : CT_TRACE_STEP_END;
    *event =
        (struct ct_trace_event){.timestamp_ns = stream->time, .thread = stream->thread, .detail = CT_TRACE_NO_DETAIL};
    *record = stream->record;
    go_on(cursor);
    return CT_TRACE_STEP_CODE;
}

const char *ct_trace_cursor_problem(const struct ct_trace_cursor *cursor, size_t thread) {
    for (size_t i = 0; i < cursor->stream_count; i++)
        if (cursor->streams[i].thread == thread && cursor->streams[i].damaged)
            return ct_code_reader_problem(cursor->streams[i].code);
    return "";
}

void ct_trace_cursor_close(struct ct_trace_cursor *cursor) {
    if (!cursor)
        return;
    for (size_t i = 0; i < cursor->stream_count; i++) {
        ct_ahead_close(cursor->streams[i].ahead);
        free(cursor->streams[i].block.events);
        ct_code_reader_close(cursor->streams[i].code);
    }
    free(cursor->streams);
    free(cursor->heap);
    free(cursor);
}
