/* Cursors: the events of one thread, or of all threads merged by time (ties: thread, then sequence).
 *
 * Each thread is a stream with a buffer of its own; streams wait in a binary heap. The buffers of all streams together stay
 * below MERGE_BYTES as long as each gets LEAST bytes. */
#include "trace/reader.h"
#include <stdlib.h>

#define EVENT       sizeof(struct atf_index_event)
#define MERGE_BYTES (8u << 20)
#define MOST        (256u << 10)
#define LEAST       (4u << 10)

struct stream {
    uint64_t time; /* of the next event: the heap looks at nothing else */
    size_t thread;
    struct ct_index *index;
    uint64_t sequence; /* of the next event */
    struct atf_index_event *events;
    size_t at, filled, room;
};

struct ct_trace_cursor {
    struct stream **heap; /* the earliest first */
    size_t count;
    struct stream *streams;
    size_t stream_count;
};

static bool fill(struct stream *stream) {
    stream->at = stream->filled = 0;
    while (!stream->filled && stream->sequence < stream->index->end) {
        stream->filled = ct_index_read(stream->index, stream->sequence, stream->events, stream->room);
        if (!stream->filled)
            stream->sequence = ct_index_skip(stream->index, stream->sequence);
    }
    if (stream->filled)
        stream->time = stream->events[0].timestamp_ns;
    return stream->filled != 0;
}

static bool advance(struct stream *stream) {
    stream->sequence++;
    if (++stream->at == stream->filled)
        return fill(stream);
    stream->time = stream->events[stream->at].timestamp_ns;
    return true;
}

/* Streams differ in their thread, so none are equal. */
static bool before(const struct stream *a, const struct stream *b) {
    return a->time != b->time ? a->time < b->time : a->thread < b->thread;
}

static void sift_down(struct ct_trace_cursor *cursor, size_t at) {
    struct stream **heap = cursor->heap, *moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= cursor->count)
            break;
        if (child + 1 < cursor->count && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], moving))
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
};

/* The stream joins the heap when it has events. */
static int add_stream(struct ct_trace_cursor *cursor, struct ct_trace *trace, size_t thread, size_t streams,
                      const struct start *start) {
    struct stream *stream = &cursor->streams[cursor->stream_count++];
    struct ct_index *index = &trace->threads[thread].index;
    *stream = (struct stream){.thread = thread, .index = index};
    if (start->sequences)
        stream->sequence = start->sequences[thread];
    else if (start->ns)
        stream->sequence = ct_index_search(index, start->ns);
    if (stream->sequence < index->first)
        stream->sequence = index->first;
    if (stream->sequence >= index->end)
        return 0;
    stream->room = room_for(streams, index->end - stream->sequence);
    stream->events = malloc(stream->room * EVENT);
    if (!stream->events)
        return CT_ERR_NO_MEMORY;
    if (fill(stream))
        cursor->heap[cursor->count++] = stream;
    return 0;
}

static int open_cursor(struct ct_trace_cursor **out, struct ct_trace *trace, size_t first, size_t count,
                       const struct start *start) {
    int status = 0;
    *out = NULL;
    struct ct_trace_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return CT_ERR_NO_MEMORY;
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

bool ct_trace_next(struct ct_trace_cursor *cursor, struct ct_trace_event *event) {
    if (!cursor->count)
        return false;
    struct stream *stream = cursor->heap[0];
    const struct atf_index_event *raw = &stream->events[stream->at];
    *event = (struct ct_trace_event){.timestamp_ns = raw->timestamp_ns,
                                     .function_id = raw->function_id,
                                     .thread = stream->thread,
                                     .sequence = stream->sequence,
                                     .kind = raw->event_kind,
                                     .depth = raw->call_depth,
                                     .detail = raw->detail_seq};
    if (!advance(stream))
        cursor->heap[0] = cursor->heap[--cursor->count];
    if (cursor->count > 1)
        sift_down(cursor, 0);
    return true;
}

void ct_trace_cursor_close(struct ct_trace_cursor *cursor) {
    if (!cursor)
        return;
    for (size_t i = 0; i < cursor->stream_count; i++)
        free(cursor->streams[i].events);
    free(cursor->streams);
    free(cursor->heap);
    free(cursor);
}
