/* SPDX-License-Identifier: Apache-2.0 */
/* Reads summaries: see summary.h. Every number in one was checked when it was loaded (summary_file.c). */
#include "trace/summary.h"
#include "trace/summary_internal.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- opening ---- */

static int make_summary(struct ct_summary *summary, const struct ct_summary_source *source) {
    uint8_t *bytes;
    size_t size;
    int status = ct_summary_build(source, &bytes, &size);
    if (status)
        return status;
    if (!ct_summary_check(summary, source, bytes, size)) {
        free(bytes); /* the files have changed while they were read */
        return CT_ERR_NOT_FOUND;
    }
    if (!source->options->in_memory)
        ct_summary_store(source, bytes, size);
    return 0;
}

uint64_t ct_summary_position(struct ct_trace *trace, size_t thread, uint64_t time_ns) {
    return ct_index_search(&trace->threads[thread].index, time_ns);
}

bool ct_summary_is_worth(const struct ct_trace *trace, uint64_t events) {
    uint64_t least = trace->summary.least;
    return events >= (least ? least : CT_SUMMARY_LEAST) && least != UINT64_MAX;
}

int ct_summary_open(struct ct_summary **out, struct ct_trace *trace, size_t thread,
                    const struct ct_summary_options *options) {
    struct ct_summary_source source = {.trace = trace, .thread = thread, .options = options};
    *out = NULL;
    if (thread >= trace->thread_count || !ct_summary_is_worth(trace, trace->threads[thread].index.count))
        return CT_ERR_NOT_FOUND;
    struct ct_summary *summary = calloc(1, sizeof *summary);
    int status = summary ? ct_summary_identify(&source) : CT_ERR_NO_MEMORY;
    if (!status && (options->in_memory || !ct_summary_load(summary, &source)))
        status = options->stored_only || (options->once && !ct_summary_can_store(&source))
                     ? CT_ERR_NOT_FOUND
                     : make_summary(summary, &source);
    if (!status && summary->header->event_count != trace->threads[thread].index.count) {
        free(summary->bytes);
        status = CT_ERR_NOT_FOUND;
    }
    if (status)
        free(summary);
    else
        *out = summary;
    return status;
}

int ct_summary_write(struct ct_trace *trace, size_t thread, const struct ct_facts *facts, int fd) {
    const struct ct_summary_options options = {.facts = facts};
    struct ct_summary_source source = {.trace = trace, .thread = thread, .options = &options};
    uint8_t *bytes;
    size_t size, done;
    if (!ct_summary_is_worth(trace, trace->threads[thread].index.count))
        return CT_ERR_NOT_FOUND;
    int status = ct_summary_identify(&source);
    if (!status)
        status = ct_summary_build(&source, &bytes, &size);
    if (status)
        return status;
    status = ct_file_status(ct_file_write(fd, bytes, size, 0, 0, &done));
    free(bytes);
    if (status)
        (void)!ftruncate(fd, 0);
    return status;
}

void ct_summary_close(struct ct_summary *summary) {
    if (!summary)
        return;
    free(summary->bytes);
    free(summary);
}

/* ---- spans ---- */

size_t ct_summary_span_count(const struct ct_summary *s) {
    return s->header->span_count;
}

const struct cts_span *ct_summary_span(const struct ct_summary *s, size_t span) {
    return &s->spans[span];
}

uint64_t ct_summary_span_end(const struct ct_summary *s, size_t span) {
    return span + 1 < s->header->span_count ? s->spans[span + 1].first_seq : s->header->end_seq;
}

bool ct_summary_may_have(const struct ct_summary *s, size_t span, uint64_t function) {
    uint32_t bit = ct_summary_bit(function) & (s->header->bitmap_size * 8 - 1);
    return s->bitmaps[span * s->header->bitmap_size + bit / 8] >> bit % 8 & 1;
}

size_t ct_summary_function_count(const struct ct_summary *s) {
    return s->header->function_count;
}

const struct cts_function *ct_summary_function(const struct ct_summary *s, size_t index) {
    return &s->functions[index];
}

size_t ct_summary_find(const struct ct_summary *s, uint64_t sequence) {
    size_t low = 0, high = s->header->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->spans[middle].first_seq <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : 0;
}

size_t ct_summary_find_time(const struct ct_summary *s, uint64_t time_ns) {
    size_t low = 0, high = s->header->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->spans[middle].time_last_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ct_summary_is_ordered(const struct ct_summary *s) {
    return !(s->header->flags & CTS_UNORDERED);
}

/* ---- starts ---- */

size_t ct_summary_start_before(const struct ct_summary *s, size_t span) {
    size_t low = 0, high = s->header->start_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->starts[middle].span <= span)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : 0;
}

const struct cts_start *ct_summary_start(const struct ct_summary *s, size_t start) {
    return &s->starts[start];
}

uint64_t ct_summary_start_sequence(const struct ct_summary *s, size_t start) {
    return s->spans[s->starts[start].span].first_seq;
}

uint64_t ct_summary_start_last_ns(const struct ct_summary *s, size_t start) {
    uint32_t span = s->starts[start].span;
    return span ? s->spans[span - 1].time_last_ns : 0;
}

const struct cts_call *ct_summary_call(const struct ct_summary *s, size_t start, size_t frame) {
    uint32_t call = s->frames[s->starts[start].first_frame + frame].call;
    return call & CTS_UNKNOWN ? NULL : &s->calls[call];
}

static struct ct_frames_saved saved_frame(const struct ct_summary *s, const struct cts_frame *frame) {
    struct ct_frames_saved saved = {.self_ns = frame->self_ns,
                                    .caller = frame->caller ? frame->caller - 1 : CT_NO_FRAME};
    memcpy(saved.off_self.ns, frame->off_ns, sizeof saved.off_self.ns);
    if (frame->call & CTS_UNKNOWN) {
        saved.unknown = frame->call & ~CTS_UNKNOWN;
        return saved;
    }
    const struct cts_call *call = &s->calls[frame->call];
    saved.function = call->function;
    saved.start_ns = call->start_ns;
    saved.sequence = call->start_seq;
    saved.skipped_ns = call->skipped_ns;
    saved.waited_ns = call->waited_ns;
    memcpy(saved.off_before.ns, call->off_ns, sizeof saved.off_before.ns);
    saved.detail = call->detail;
    saved.called_at = call->depth;
    return saved;
}

int ct_summary_frames(const struct ct_summary *s, size_t number, struct ct_frames *frames) {
    const struct cts_start *start = &s->starts[number];
    struct ct_frames_saved *saved = calloc((size_t)start->frame_count + 1, sizeof *saved);
    if (!saved)
        return CT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < start->frame_count; i++)
        saved[i] = saved_frame(s, &s->frames[start->first_frame + i]);
    struct ct_frames_state state = {.frames = saved,
                                    .count = start->frame_count,
                                    .running = start->running ? start->running - 1 : CT_NO_FRAME,
                                    .trusted = start->trusted,
                                    .last_ns = start->last_ns,
                                    .skipped_ns = start->skipped_ns,
                                    .waited_ns = start->waited_ns,
                                    .timeline_ns = ct_summary_start_last_ns(s, number),
                                    .many = start->flags & CTS_MANY,
                                    .after_gap = start->flags & CTS_AFTER_GAP};
    memcpy(state.off.ns, start->off_ns, sizeof state.off.ns);
    bool good = ct_frames_resume(frames, &state);
    free(saved);
    return good ? 0 : frames->no_memory ? CT_ERR_NO_MEMORY : CT_ERR_BAD_FILE;
}

/* ---- checking ---- */

bool ct_summary_verify(struct ct_trace *trace, size_t thread, const struct ct_facts *facts) {
    const struct ct_summary_options options = {.facts = facts};
    struct ct_summary_source source = {.trace = trace, .thread = thread, .options = &options};
    struct ct_summary stored;
    uint8_t *bytes;
    size_t size;
    if (!ct_summary_exists(&source) || ct_summary_identify(&source) != 0 || !ct_summary_load(&stored, &source))
        return true;
    bool right = true; /* when there is no memory to find out */
    if (ct_summary_build(&source, &bytes, &size) == 0) {
        right = size == stored.header->size && !memcmp(bytes, stored.bytes, size);
        free(bytes);
    }
    free(stored.bytes);
    return right;
}
