/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a part of a thread: see range.h. This is the innermost loop of reports: a call and its end touch one tally and
 * one entry of the stack, and nothing is looked up that was seen a moment ago. */
#include "report/range.h"
#include "base/grow.h"
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 1024,      /* fits into the first cache */
    KNOWN = 1024,      /* a power of two */
    DEEPEST = 1 << 20, /* calls at once; what is deeper is not plain */
};

/* ---- readers ---- */

int ct_range_reader_open(struct ct_range_reader *r, const struct ct_range_source *source) {
    const struct ct_trace_thread *info = &source->trace->threads[source->thread].info;
    size_t room = source->kept ? source->kept : BATCH;
    *r = (struct ct_range_reader){.source = source, .events = malloc(room * sizeof *r->events)};
    char *path = ct_file_path("%s/thread_%u", source->trace->processes[info->process].directory, info->id);
    int status = path && r->events ? ct_index_open(&r->index, &source->trace->cache, path) : CT_ERR_NO_MEMORY;
    free(path);
    if (!status)
        status = ct_timeline_open(&r->timeline, source->facts, source->trace, source->thread);
    if (status)
        ct_range_reader_close(r);
    return status;
}

void ct_range_reader_close(struct ct_range_reader *r) {
    ct_timeline_close(&r->timeline);
    ct_index_close(&r->index);
    free(r->events);
    *r = (struct ct_range_reader){0};
}

/* ---- tallies ---- */

static struct ct_tally *find_tally(struct ct_range *range, const struct ct_range_source *source, uint64_t function) {
    size_t process = source->trace->threads[source->thread].info.process;
    struct ct_tally *tally = ct_tally_get(&range->tallies, process, function);
    if (tally && !tally->known) {
        pthread_mutex_lock(source->names);
        const struct ct_trace_function *f = ct_trace_function(source->trace, process, function);
        pthread_mutex_unlock(source->names);
        tally->known = true;
        tally->entry_only = f && f->entry_only;
    }
    return tally;
}

/* The tally of a function; NULL: no memory. */
static inline struct ct_tally *tally_of(struct ct_range *range, const struct ct_range_source *source,
                                        uint64_t function) {
    struct ct_range_known *known = &range->known[function * 0x9e3779b97f4a7c15u >> 54];
    if (known->tally && known->function == function)
        return known->tally;
    struct ct_tally *tally = find_tally(range, source, function);
    *known = (struct ct_range_known){function, tally};
    return tally;
}

struct ct_tally *ct_range_tally(struct ct_range *range, const struct ct_range_source *source, uint64_t function) {
    return tally_of(range, source, function);
}

/* The call counts for the tally. */
static inline bool touch(struct ct_range *range, struct ct_tally *tally) {
    if (!tally->calls) {
        if (!ct_grow(&range->touched, &range->touched_room, range->touched_count, sizeof(struct ct_tally *), 256))
            return false;
        range->touched[range->touched_count++] = tally;
    }
    range->calls++;
    tally->calls++;
    return true;
}

/* ---- time ---- */

/* The time before the first event belongs to calls from before, and is counted by their owner. */
static bool begin_time(struct ct_range *range, struct ct_timeline *timeline, uint64_t now_ns) {
    struct ct_off before = {{0}};
    if (timeline->passed_ns > now_ns) /* time has gone back between ranges */
        return false;
    (void)ct_timeline_pass(timeline, now_ns, &before);
    range->begin_ns = range->passed_ns = now_ns;
    return true;
}

static __attribute__((noinline)) void pass_spans(struct ct_range *range, struct ct_timeline *timeline,
                                                 uint64_t now_ns) {
    struct ct_range_call *running = &range->stack[range->used];
    struct ct_off off = {{0}};
    uint64_t waited = ct_timeline_pass(timeline, now_ns, &off);
    range->skipped_ns += waited;
    running->self_ns -= waited;
    ct_off_add(&range->off, &off);
    ct_off_add(&running->off_self, &off);
}

/* False: the time cannot be followed. */
static inline bool pass_time(struct ct_range *range, struct ct_timeline *timeline, uint64_t now_ns) {
    if (!range->begin_ns)
        return begin_time(range, timeline, now_ns);
    if (!ct_timeline_is_quiet(timeline, now_ns) && now_ns > range->passed_ns)
        pass_spans(range, timeline, now_ns);
    range->stack[range->used].self_ns += now_ns - range->passed_ns;
    range->passed_ns = now_ns;
    return true;
}

static struct ct_off off_since(const struct ct_range *range, const struct ct_off *before) {
    struct ct_off off;
    for (int i = 0; i < CT_OFF_KINDS; i++)
        off.ns[i] = range->off.ns[i] - before->ns[i];
    return off;
}

/* ---- calls ---- */

static bool begin_call(struct ct_range *range, const struct ct_range_source *source,
                       const struct atf_index_event *event, uint64_t sequence, struct ct_tally *tally) {
    if (!ct_grow(&range->stack, &range->stack_room, ++range->used, sizeof *range->stack, 64))
        return false;
    struct ct_range_call *call = &range->stack[range->used];
    call->function = event->function_id; /* field by field: see clear_frame in trace/frames.c */
    call->tally = NULL;
    call->start_ns = event->timestamp_ns;
    call->self_ns = 0;
    call->sequence = sequence;
    call->skipped_ns = range->skipped_ns;
    call->off_before = range->off;
    call->off_self = (struct ct_off){{0}};
    call->detail = event->detail_seq;
    if (!ct_fits_call(source->fits, source->thread, sequence))
        return true;
    if (!touch(range, tally))
        return false;
    call->tally = tally;
    if (!source->kept && !tally->open_time.active++) {
        tally->open_time.since_ns = event->timestamp_ns - range->skipped_ns;
        tally->open_time.off = range->off;
    }
    return true;
}

/* The outermost call of a function has ended. */
static bool end_outermost(struct ct_range *range, struct ct_tally *tally, uint64_t now_ns) {
    if (tally->part_number != range->part_number) {
        if (!ct_grow(&range->parts, &range->part_room, range->part_count, sizeof *range->parts, 256))
            return false;
        tally->part_number = range->part_number;
        tally->part = range->part_count;
        range->parts[range->part_count++] = (struct ct_range_part){.tally = tally};
    }
    struct ct_range_part *part = &range->parts[tally->part];
    struct ct_off off = off_since(range, &tally->open_time.off);
    int64_t open_ns = (int64_t)(now_ns - range->skipped_ns - tally->open_time.since_ns);
    part->total_ns += open_ns > 0 ? (uint64_t)open_ns : 0;
    ct_off_add(&part->off, &off);
    return true;
}

/* Notes the self time of a call that ends. */
static inline bool note_self(struct ct_range *range, uint64_t self_ns) {
    if (!ct_grow(&range->selves, &range->self_room, range->self_count, sizeof *range->selves, 4096))
        return false;
    range->selves[range->self_count++] = self_ns;
    return true;
}

static bool end_call(struct ct_range *range, const struct ct_range_source *source,
                     const struct atf_index_event *event) {
    const struct ct_range_call *call = &range->stack[range->used--];
    struct ct_tally *tally = call->tally;
    bool left = event->event_kind == ATF_EXCEPTION;
    if (source->kept)
        return note_self(range, call->self_ns);
    if (!tally)
        return true;
    uint64_t wall = event->timestamp_ns - call->start_ns, skipped = range->skipped_ns - call->skipped_ns;
    uint64_t duration = wall > skipped ? wall - skipped : 0;
    range->exceptions += left;
    tally->exceptions += left;
    tally->sum_ns += duration;
    tally->self_ns += call->self_ns;
    ct_off_add(&tally->self_off, &call->off_self);
    return (--tally->open_time.active || end_outermost(range, tally, event->timestamp_ns)) &&
           ct_histogram_add(&tally->times, duration) &&
           (!source->spread || ct_tally_spread(tally, source->spread, call->self_ns, &call->off_self));
}

/* A call from before the range ends. */
static bool end_before(struct ct_range *range, const struct ct_range_source *source,
                       const struct atf_index_event *event, uint64_t sequence) {
    struct ct_range_call *base = &range->stack[0];
    if (!ct_grow(&range->ends, &range->end_room, range->end_count, sizeof *range->ends, 64) ||
        !ct_grow(&range->end_functions, &range->function_room, range->end_count, sizeof *range->end_functions, 64))
        return false;
    range->end_functions[range->end_count] = event->function_id;
    range->ends[range->end_count++] = (struct ct_range_end){.event = {.timestamp_ns = event->timestamp_ns,
                                                                      .function_id = event->function_id,
                                                                      .thread = source->thread,
                                                                      .sequence = sequence,
                                                                      .kind = event->event_kind,
                                                                      .depth = event->call_depth,
                                                                      .detail = event->detail_seq},
                                                            .self_ns = base->self_ns,
                                                            .off_self = base->off_self,
                                                            .parts = range->part_count,
                                                            .self = range->self_count};
    bool noted = !source->kept || note_self(range, base->self_ns);
    *base = (struct ct_range_call){0};
    range->part_number++;
    return noted;
}

/* ---- events ---- */

/* False: the event is not plain, or there is no memory. */
static bool count_event(struct ct_range *range, struct ct_range_reader *reader, const struct atf_index_event *event,
                        uint64_t sequence) {
    const struct ct_range_source *source = reader->source;
    uint64_t open = range->open - range->end_count + range->used;
    if (event->event_kind == ATF_CALL) {
        struct ct_tally *tally = tally_of(range, source, event->function_id);
        if (!tally || event->call_depth >= DEEPEST)
            return false;
        if (event->call_depth != open && (source->kept || !tally->entry_only))
            return false;
        if (tally->entry_only && source->kept && !pass_time(range, &reader->timeline, event->timestamp_ns))
            return false;
        if (tally->entry_only)
            return !ct_fits_call(source->fits, source->thread, sequence) || touch(range, tally);
        return pass_time(range, &reader->timeline, event->timestamp_ns) &&
               begin_call(range, source, event, sequence, tally);
    }
    if (event->event_kind == ATF_EXCEPTION && !event->function_id)
        return true; /* a signal */
    if (event->call_depth >= DEEPEST || event->call_depth + UINT64_C(1) != open)
        return false;
    if (!pass_time(range, &reader->timeline, event->timestamp_ns))
        return false;
    if (!range->used)
        return end_before(range, source, event, sequence);
    return range->stack[range->used].function == event->function_id && end_call(range, source, event);
}

/* How many calls are open before the event; false: it does not say. */
static bool open_before(const struct atf_index_event *event, struct ct_range *range,
                        const struct ct_range_source *source) {
    range->open = event->call_depth;
    if (event->event_kind != ATF_CALL) {
        range->open++;
        return event->event_kind != ATF_EXCEPTION || event->function_id;
    }
    const struct ct_tally *tally = tally_of(range, source, event->function_id);
    return tally && (source->kept || !tally->entry_only);
}

/* False: some event is not plain. */
static bool count_batch(struct ct_range *range, struct ct_range_reader *reader, const struct atf_index_event *events,
                        uint64_t sequence, size_t count, bool *known) {
    const uint64_t to_ns = reader->source->to_ns ? reader->source->to_ns : UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct atf_index_event *event = &events[i];
        if (event->timestamp_ns < range->last_ns || event->timestamp_ns >= to_ns || !event->timestamp_ns)
            return false;
        range->last_ns = event->timestamp_ns;
        if (!*known)
            *known = open_before(event, range, reader->source);
        if (!count_event(range, reader, event, sequence + i))
            return false;
    }
    return true;
}

static bool begin_range(struct ct_range *range, uint64_t first, uint64_t end) {
    range->first = first;
    range->end = end;
    range->part_number++;
    if (!range->known)
        range->known = calloc(KNOWN, sizeof *range->known);
    if (!range->known || !ct_grow(&range->stack, &range->stack_room, 0, sizeof *range->stack, 64))
        return false;
    range->stack[0] = (struct ct_range_call){0};
    return true;
}

void ct_range_count(struct ct_range *range, struct ct_range_reader *reader, uint64_t first, uint64_t end) {
    bool good = begin_range(range, first, end), known = false;
    size_t count;
    for (uint64_t at = first; good && at < end; at += count) {
        uint64_t left = end - at;
        struct atf_index_event *events = reader->events + (reader->source->kept ? at - first : 0);
        count = ct_index_read(&reader->index, at, events, left < BATCH ? (size_t)left : BATCH);
        if (at == first && count)
            range->first_ns = events[0].timestamp_ns;
        good = count && count_batch(range, reader, events, at, count, &known);
    }
    range->events = end - first;
    range->plain = good;
}

/* ---- memory ---- */

static void clear_tally(struct ct_tally *tally) {
    ct_histogram_clear(&tally->times);
    ct_histogram_clear(&tally->spread);
    *tally = (struct ct_tally){.key = tally->key,
                               .known = tally->known,
                               .entry_only = tally->entry_only,
                               .user = tally->user,
                               .part_number = tally->part_number,
                               .times = tally->times,
                               .spread = tally->spread};
}

void ct_range_clear(struct ct_range *range) {
    for (size_t i = 0; i < range->touched_count; i++)
        clear_tally(range->touched[i]);
    range->touched_count = range->part_count = range->end_count = range->used = range->self_count = 0;
    range->open = range->first_ns = range->last_ns = range->begin_ns = range->passed_ns = 0;
    range->events = range->calls = range->exceptions = range->skipped_ns = 0;
    range->off = (struct ct_off){{0}};
    range->plain = false;
}

void ct_range_free(struct ct_range *range) {
    ct_table_free(&range->tallies, ct_tally_release);
    free(range->ends);
    free(range->end_functions);
    free(range->parts);
    free(range->touched);
    free(range->selves);
    free(range->stack);
    free(range->known);
    *range = (struct ct_range){0};
}
