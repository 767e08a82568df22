/* SPDX-License-Identifier: Apache-2.0 */
/* The replay of a trace that is being written: events as they come. */
#include "report/replay_internal.h"
#include <stdio.h>
#include <stdlib.h>

struct ct_replay_stream {
    struct ct_replay_run replay; /* has no trace */
};

int ct_replay_stream_open(struct ct_replay_stream **out, const struct ct_replay_stream_setup *setup) {
    struct ct_replay_stream *stream = *out = calloc(1, sizeof *stream);
    if (!stream)
        return CT_ERR_NO_MEMORY;
    stream->replay = (struct ct_replay_run){
        .options = setup->options,
        .known = {.select = &setup->options->select, .find = setup->find, .find_arg = setup->find_arg},
        .lines = {.options = setup->options, .window = CT_REPLAY_WINDOW, .show = setup->show, .arg = setup->arg},
    };
    return 0;
}

void ct_replay_stream_values(struct ct_replay_stream *stream, struct ct_where_values *values, const size_t *indexes) {
    stream->replay.values = values;
    stream->replay.indexes = indexes;
}

int ct_replay_stream_thread(struct ct_replay_stream *stream, size_t number, const struct ct_follow_thread *thread) {
    struct ct_replay_run *r = &stream->replay;
    struct ct_replay_source *s = number < r->source_count ? r->sources[number] : NULL;
    bool fresh = !s;
    if (fresh) /* the thread may have begun before we looked: events are missing */
        s = ct_replay_add_source(r, number, thread->process, false);
    if (!s)
        return CT_ERR_NO_MEMORY;
    if (fresh)
        s->next = thread->next;
    snprintf(s->name, sizeof s->name, "%s", thread->name);
    s->tid = thread->tid;
    s->gaps = thread->gaps;
    s->gap_count = thread->gap_count;
    while (fresh && thread->next && s->gap < s->gap_count && s->gaps[s->gap].at <= thread->next)
        s->gap++;
    return 0;
}

/* Handles events that were deleted before they could be read: the recorder keeps only the newest ones. */
static void on_deleted(struct ct_replay_source *s, uint64_t count) {
    ct_frames_gap(&s->frames, 0);
    struct ct_replay_call *call = ct_replay_new(&s->replay->lines);
    if (!call)
        return;
    ct_replay_fill(s, call, CT_REPLAY_GAP, NULL);
    call->line.lost = count;
    call->line.reason = "deleted by --keep before they were read";
    ct_replay_put(s, call);
}

int ct_replay_stream_event(struct ct_replay_stream *stream, const struct ct_trace_event *event) {
    struct ct_replay_run *r = &stream->replay;
    struct ct_replay_source *s = event->thread < r->source_count ? r->sources[event->thread] : NULL;
    if (!s || r->lines.stopped)
        return r->lines.stopped;
    s->event = *event;
    if (event->sequence > s->next)
        on_deleted(s, event->sequence - s->next);
    s->next = event->sequence + 1;
    ct_replay_event(s);
    ct_replay_advance(&r->lines, event->timestamp_ns);
    return r->lines.stopped;
}

int ct_replay_stream_rest(struct ct_replay_stream *stream, uint64_t now_ns) {
    struct ct_replay_run *r = &stream->replay;
    r->lines.window = 0;
    ct_replay_advance(&r->lines, now_ns);
    r->lines.window = CT_REPLAY_WINDOW;
    return r->lines.stopped;
}

struct ending {
    struct ct_replay_source *source;
    uint64_t end_ns;
};

static int compare_endings(const void *a, const void *b) {
    const struct ending *x = a, *y = b;
    if (x->end_ns != y->end_ns)
        return x->end_ns < y->end_ns ? -1 : 1;
    return x->source->thread < y->source->thread ? -1 : 1;
}

/* Calls of threads that ended before the last line stay open: their time has been passed. */
static int close_all(struct ct_replay_run *r, const struct ct_follow *follow) {
    struct ending *endings = calloc(r->source_count + 1, sizeof *endings);
    uint64_t latest_ns = 0;
    size_t count = 0;
    if (!endings)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < r->source_count; i++) {
        struct ct_replay_source *s = r->sources[i];
        if (!s || !s->last_ns)
            continue;
        latest_ns = s->last_ns > latest_ns ? s->last_ns : latest_ns;
        if (s->frames.count && s->gap == s->gap_count)
            endings[count++] = (struct ending){s, ct_follow_thread_end(follow, i, s->last_ns, s->frames.count)};
    }
    qsort(endings, count, sizeof *endings, compare_endings);
    for (size_t i = 0; i < count && !r->lines.stopped; i++)
        if (endings[i].end_ns >= latest_ns)
            ct_replay_close_open(endings[i].source, endings[i].end_ns);
    free(endings);
    return 0;
}

int ct_replay_stream_end(struct ct_replay_stream *stream, const struct ct_follow *follow) {
    struct ct_replay_run *r = &stream->replay;
    int status = close_all(r, follow);
    for (size_t i = 0; i < r->source_count && !r->lines.stopped; i++)
        if (r->sources[i])
            ct_replay_gaps(r->sources[i], UINT64_MAX);
    ct_replay_flush(&r->lines);
    return r->lines.stopped ? r->lines.stopped : status;
}

void ct_replay_stream_close(struct ct_replay_stream *stream) {
    if (!stream)
        return;
    ct_replay_finish(&stream->replay);
    free(stream);
}
