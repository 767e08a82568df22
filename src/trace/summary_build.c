/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the summary of a thread: reads its events once, through struct ct_frames, as every other reader does.
 *
 * A start lists the open calls. Each call is stored once, however many starts it is in: a frame's `user` is the number
 * of its call, plus one. How often there is a start depends on what it costs: all starts together are at most a
 * hundredth of the index files. */
#include "base/grow.h"
#include "trace/ahead.h"
#include "trace/crc32.h"
#include "trace/summary_internal.h"
#include "trace/timeline.h"
#include "trace/table.h"
#include <stdlib.h>
#include <string.h>

#define SPAN_EVENTS 16384u
#define SPAN_BYTES  (12u << 10) /* of a packed file, in a span ... */
#define SPAN_FACTOR 16u         /* ... or this many times its events */
#define RAW_BLOCK   8192u       /* events of a raw file that count as a block */
#define PERCENT     100
#define FIRST_BYTES 4096 /* starts may take this much in any case */
#define BATCH       1024

struct function {
    struct ct_table_key key;
    bool known, entry_only;
    uint32_t bit;
    uint32_t span, calls; /* calls in the span with that number, plus one */
    uint64_t all_calls;
};

struct block {
    uint64_t first, end, bytes;
};

_Static_assert((int)CTS_OFF == (int)CT_OFF_KINDS, "a summary has the time off the processor by kind");

struct builder {
    const struct ct_summary_source *source;
    const struct ct_thread_facts *facts;
    size_t process, gap;
    struct ct_index *index;
    struct ct_frames frames;
    struct ct_table functions;
    struct ct_trace_event event;
    uint64_t last_ns, first_ns, event_count;
    bool unordered, failed;

    struct cts_span *spans;
    size_t span_count, span_room;
    uint8_t *bitmaps; /* CT_SUMMARY_BITS each */
    size_t bitmap_room;
    struct cts_call *calls;
    size_t call_count, call_room;
    struct cts_start *starts;
    size_t start_count, start_room;
    struct cts_frame *saved;
    size_t saved_count, saved_room;
    uint64_t bytes, span_bytes; /* of blocks before the current one; of those in the span */
    uint64_t different;         /* functions in spans, summed up */
    struct ct_ahead *ahead;     /* NULL: nobody reads ahead */
    struct ct_ahead_block read; /* events */
};

/* ---- calls ---- */

static void end_call(struct builder *b, const struct ct_frame *frame, enum cts_end end) {
    size_t number = (size_t)(uintptr_t)frame->user;
    if (!number)
        return;
    struct cts_call *call = &b->calls[number - 1];
    call->end = end;
    call->end_ns = b->event.timestamp_ns;
    call->end_seq = b->event.sequence;
}

static void on_lost(void *arg, struct ct_frame *frame) {
    struct builder *b = arg;
    b->spans[b->span_count - 1].lost++;
    end_call(b, frame, CTS_LOST);
}

static bool add_call(struct builder *b, struct ct_frame *frame) {
    if (!ct_grow(&b->calls, &b->call_room, b->call_count, sizeof *b->calls, 64))
        return false;
    b->calls[b->call_count++] = (struct cts_call){.function = frame->function,
                                                  .start_ns = frame->began_ns,
                                                  .start_seq = frame->sequence,
                                                  .end_ns = CTS_NOWHERE,
                                                  .end_seq = CTS_NOWHERE,
                                                  .skipped_ns = frame->skipped_ns,
                                                  .waited_ns = frame->waited_ns,
                                                  .depth = frame->called_at,
                                                  .detail = frame->detail};
    memcpy(b->calls[b->call_count - 1].off_ns, frame->off_before.ns, sizeof frame->off_before.ns);
    frame->user = (void *)(uintptr_t)b->call_count;
    return true;
}

/* ---- starts ---- */

static bool save_frame(struct builder *b, struct ct_frame *frame, const uint32_t *numbers) {
    size_t caller = ct_frames_caller(&b->frames, frame);
    if (!frame->unknown && !frame->user && !add_call(b, frame))
        return false;
    if (!ct_grow(&b->saved, &b->saved_room, b->saved_count, sizeof *b->saved, 256))
        return false;
    b->saved[b->saved_count++] = (struct cts_frame){
        .self_ns = frame->self_ns,
        .call = frame->unknown ? CTS_UNKNOWN | (uint32_t)frame->unknown : (uint32_t)(uintptr_t)frame->user - 1,
        .caller = caller == CT_NO_FRAME ? 0 : numbers[caller] + 1,
    };
    memcpy(b->saved[b->saved_count - 1].off_ns, frame->off_self.ns, sizeof frame->off_self.ns);
    return true;
}

/* Lists the open frames, oldest first. False: no memory. */
static bool save_frames(struct builder *b, struct cts_start *start) {
    const struct ct_frames *f = &b->frames;
    uint32_t *numbers = calloc(f->used + 1, sizeof *numbers), number = 0;
    size_t at = f->newest;
    if (!numbers)
        return false;
    while (at != CT_NO_FRAME && f->places[at].older != CT_NO_FRAME)
        at = f->places[at].older;
    for (bool good = true; at != CT_NO_FRAME; at = f->places[at].newer) {
        numbers[at] = number++;
        good = good && save_frame(b, &f->places[at], numbers);
        b->failed |= !good;
    }
    if (f->running < f->used && f->places[f->running].serial)
        start->running = numbers[f->running] + 1;
    start->frame_count = number;
    free(numbers);
    return !b->failed;
}

/* Bytes that a start here takes; UINT64_MAX: there can be none. */
static uint64_t start_cost(const struct builder *b) {
    const struct ct_frames *f = &b->frames;
    uint64_t cost = sizeof *b->starts + f->count * sizeof *b->saved;
    for (size_t at = f->newest; at != CT_NO_FRAME; at = f->places[at].older) {
        const struct ct_frame *frame = &f->places[at];
        if (frame->unknown >= CTS_UNKNOWN)
            return UINT64_MAX;
        cost += !frame->unknown && !frame->user ? sizeof *b->calls : 0;
    }
    return cost;
}

/* Notes the open calls at the beginning of the last span, if that does not take too much. */
static void add_start(struct builder *b) {
    const struct ct_frames *f = &b->frames;
    uint64_t spent =
        b->call_count * sizeof *b->calls + b->start_count * sizeof *b->starts + b->saved_count * sizeof *b->saved;
    uint64_t allowed = b->source->trace->summary.all_starts ? UINT64_MAX - 1 : b->bytes / PERCENT + FIRST_BYTES;
    if (spent > allowed || f->count * sizeof *b->saved > allowed - spent || start_cost(b) > allowed - spent)
        return;
    struct cts_start start = {.first_frame = b->saved_count,
                              .span = (uint32_t)b->span_count - 1,
                              .last_ns = f->last_ns,
                              .skipped_ns = f->skipped_ns,
                              .waited_ns = f->waited_ns,
                              .trusted = (uint32_t)f->trusted,
                              .flags = (f->many ? CTS_MANY : 0) | (f->after_gap ? CTS_AFTER_GAP : 0),
                              .gaps = (uint32_t)b->gap};
    memcpy(start.off_ns, f->off.ns, sizeof f->off.ns);
    if (!ct_grow(&b->starts, &b->start_room, b->start_count, sizeof *b->starts, 64) || !save_frames(b, &start)) {
        b->failed = true;
        return;
    }
    b->starts[b->start_count++] = start;
}

/* ---- spans ---- */

static void begin_span(struct builder *b) {
    size_t bytes = CT_SUMMARY_BITS / 8;
    if (!ct_grow(&b->spans, &b->span_room, b->span_count, sizeof *b->spans, 64) ||
        !ct_grow_zeroed(&b->bitmaps, &b->bitmap_room, (b->span_count + 1) * bytes - 1, 1, 64 * bytes)) {
        b->failed = true;
        return;
    }
    b->spans[b->span_count++] =
        (struct cts_span){.first_seq = b->event.sequence, .time_first_ns = b->event.timestamp_ns, .low = UINT32_MAX};
    b->span_bytes = 0;
    add_start(b);
}

static void set_bit(struct builder *b, uint32_t bit) {
    b->bitmaps[(b->span_count - 1) * (CT_SUMMARY_BITS / 8) + bit / 8] |= (uint8_t)(1u << bit % 8);
}

static struct function *function_of(struct builder *b, uint64_t id) {
    struct function *f = ct_table_get(&b->functions, b->process, id, sizeof *f);
    if (!f) {
        b->failed = true;
        return NULL;
    }
    if (!f->known) {
        pthread_mutex_t *names = b->source->options->names;
        if (names)
            pthread_mutex_lock(names);
        const struct ct_trace_function *info = ct_trace_function(b->source->trace, b->process, id);
        f->entry_only = info && info->entry_only;
        if (names)
            pthread_mutex_unlock(names);
        f->known = true;
        f->bit = ct_summary_bit(id);
    }
    if (f->span != b->span_count) {
        f->span = (uint32_t)b->span_count;
        f->calls = 0;
        b->different++;
        set_bit(b, f->bit);
    }
    return f;
}

/* ---- events ---- */

static void on_call(struct builder *b, struct cts_span *span) {
    struct function *f = function_of(b, b->event.function_id);
    if (!f)
        return;
    span->calls++;
    f->all_calls++;
    if (++f->calls > span->busiest_calls) {
        span->busiest_calls = f->calls;
        span->busiest_function = b->event.function_id;
    }
    if (f->entry_only) {
        (void)ct_frames_entry(&b->frames, &b->event);
        return;
    }
    if (!ct_frames_call(&b->frames, &b->event))
        b->failed = true;
}

static void on_end(struct builder *b, struct cts_span *span) {
    bool left = b->event.kind == CT_TRACE_EXCEPTION;
    if (left && b->event.function_id == 0) {
        span->signals++;
        set_bit(b, ct_summary_bit(0));
        return;
    }
    const struct ct_frame *frame = ct_frames_close(&b->frames, &b->event);
    if (!frame) {
        (void)function_of(b, b->event.function_id);
        return;
    }
    uint64_t duration = ct_frames_duration(&b->frames, frame, b->event.timestamp_ns);
    if (!span->ends++ || duration > span->longest_ns) {
        span->longest_ns = duration;
        span->longest_seq = b->event.sequence;
        span->longest_function = frame->function;
    }
    set_bit(b, ct_summary_bit(frame->function));
    end_call(b, frame, left ? CTS_LEFT : CTS_RETURNED);
}

static void pass_gaps(struct builder *b) {
    const struct ct_thread_facts *facts = b->facts;
    if (b->gap >= facts->gap_count || facts->gaps[b->gap].at > b->event.sequence)
        return;
    uint64_t now = b->event.timestamp_ns;
    ct_frames_gap(&b->frames, b->last_ns && now > b->last_ns ? now - b->last_ns : 0);
    while (b->gap < facts->gap_count && facts->gaps[b->gap].at <= b->event.sequence)
        b->gap++;
}

static void on_event(struct builder *b, bool new_span) {
    uint64_t now = b->event.timestamp_ns;
    b->unordered |= now < b->last_ns;
    if (new_span)
        begin_span(b);
    if (b->failed)
        return;
    pass_gaps(b);
    struct cts_span *span = &b->spans[b->span_count - 1];
    uint32_t depth = b->event.depth & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(b->event.depth) : b->event.depth;
    span->low = depth < span->low ? depth : span->low;
    span->high = depth > span->high ? depth : span->high;
    span->count++;
    if (b->event.kind == CT_TRACE_CALL)
        on_call(b, span);
    else
        on_end(b, span);
    span->time_last_ns = b->last_ns = now;
    if (!b->event_count++)
        b->first_ns = now;
}

/* ---- blocks ---- */

static struct block *list_blocks(const struct ct_index *index, size_t *count) {
    struct block *blocks = NULL;
    size_t room = 0;
    *count = 0;
    for (size_t i = 0; i < index->part_count; i++) {
        const struct ct_index_part *part = index->parts[i];
        uint64_t next;
        for (uint64_t at = part->first, k = 0; at < part->end; at = next, k++) {
            const struct ctp_entry *entry = part->packed ? &part->packed->blocks[k] : NULL;
            if (entry && k == part->packed->block_count)
                break;
            at = entry ? entry->first_seq : at;
            next = entry ? at + entry->span + 1 : at + RAW_BLOCK < part->end ? at + RAW_BLOCK : part->end;
            if (!ct_grow(&blocks, &room, *count, sizeof *blocks, 256)) {
                free(blocks);
                return NULL;
            }
            blocks[(*count)++] = (struct block){at, next, entry ? entry->size : (next - at) * 32};
        }
    }
    return blocks ? blocks : malloc(1);
}

/* A span has many events, so that its summary is small against it; but where few bytes hold very many, not all. */
static bool is_full(const struct builder *b) {
    uint32_t asked = b->source->trace->summary.span_events, least = asked ? asked : SPAN_EVENTS;
    uint32_t count = b->span_count ? b->spans[b->span_count - 1].count : 0;
    return !b->span_count || (count >= least && (b->span_bytes >= SPAN_BYTES || asked)) ||
           count >= SPAN_FACTOR * SPAN_EVENTS;
}

/* Reads events into b->read. */
static size_t read_events(struct builder *b, uint64_t at, uint64_t left) {
    struct ct_ahead_block *read = &b->read;
    read->count = 0;
    if (ct_ahead_take(b->ahead, at, read))
        return read->count < left ? read->count : (size_t)left;
    if (!ct_grow(&read->events, &read->room, BATCH - 1, sizeof *read->events, BATCH)) {
        b->failed = true;
        return 0;
    }
    return ct_index_read(b->index, at, read->events, left < BATCH ? (size_t)left : BATCH);
}

static void read_block(struct builder *b, const struct block *block) {
    bool new_span = is_full(b);
    size_t count;
    for (uint64_t at = block->first; at < block->end && !b->failed; at += count) {
        count = read_events(b, at, block->end - at);
        if (!count) /* damaged */
            break;
        const struct atf_index_event *events = b->read.events;
        for (size_t i = 0; i < count && !b->failed; i++, new_span = false) {
            b->event = (struct ct_trace_event){.timestamp_ns = events[i].timestamp_ns,
                                               .function_id = events[i].function_id,
                                               .thread = b->source->thread,
                                               .sequence = at + i,
                                               .kind = events[i].event_kind,
                                               .depth = events[i].call_depth,
                                               .detail = events[i].detail_seq};
            on_event(b, new_span);
        }
    }
    b->span_bytes += block->bytes;
    b->bytes += block->bytes;
}

/* ---- the file ---- */

/* Size of a bitmap: large enough to leave out most functions that are not in a span, but not too large for the file. */
static uint32_t bitmap_size(const struct builder *b) {
    uint32_t bits = CT_SUMMARY_BITS;
    while (bits > 64 && (bits / 2 >= 16 * b->different / (b->span_count + 1) ||
                         (uint64_t)b->span_count * (bits / 8) * PERCENT > b->bytes))
        bits /= 2;
    return bits / 8;
}

static void fold_bitmap(uint8_t *to, size_t size, const uint8_t *from) {
    memset(to, 0, size);
    for (size_t i = 0; i < CT_SUMMARY_BITS / 8; i++)
        to[i % size] |= from[i];
}

static int by_id(const void *a, const void *b) {
    const struct cts_function *x = a, *y = b;
    return (x->function > y->function) - (x->function < y->function);
}

/* Lists the functions, malloc'ed. *count 0: there are too many. */
static struct cts_function *list_functions(const struct builder *b, uint32_t *count) {
    const struct ct_table *table = &b->functions;
    bool few = table->count <= b->bytes / PERCENT / sizeof(struct cts_function);
    struct cts_function *list = malloc((table->count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < table->capacity && (few || b->source->trace->summary.all_starts); i++) {
        const struct function *f = (const struct function *)table->slots[i];
        if (f)
            list[(*count)++] = (struct cts_function){f->key.function, f->all_calls};
    }
    if (*count)
        qsort(list, *count, sizeof *list, by_id);
    return list;
}

static uint8_t *put(uint8_t *to, const void *from, size_t size) {
    if (size)
        memcpy(to, from, size);
    return to + size;
}

static int assemble(const struct builder *b, const struct cts_function *functions, uint32_t function_count,
                    uint8_t **bytes, size_t *size) {
    struct cts_header header = {.magic = {'C', 'T', 'S', '1'},
                                .version = CTS_VERSION,
                                .flags = b->unordered ? CTS_UNORDERED : 0,
                                .files = b->source->files,
                                .facts = b->source->facts,
                                .first_seq = b->index->first,
                                .end_seq = b->index->end,
                                .event_count = b->event_count,
                                .time_first_ns = b->first_ns,
                                .time_last_ns = b->last_ns,
                                .span_count = (uint32_t)b->span_count,
                                .bitmap_size = bitmap_size(b),
                                .call_count = (uint32_t)b->call_count,
                                .start_count = (uint32_t)b->start_count,
                                .frame_count = b->saved_count,
                                .function_count = function_count};
    header.size = sizeof header + b->span_count * (sizeof *b->spans + header.bitmap_size) +
                  function_count * sizeof *functions + b->call_count * sizeof *b->calls +
                  b->start_count * sizeof *b->starts + b->saved_count * sizeof *b->saved;
    uint8_t *to = *bytes = malloc(header.size);
    if (!to)
        return CT_ERR_NO_MEMORY;
    to = put(to, &header, sizeof header);
    to = put(to, b->spans, b->span_count * sizeof *b->spans);
    for (size_t i = 0; i < b->span_count; i++, to += header.bitmap_size)
        fold_bitmap(to, header.bitmap_size, b->bitmaps + i * (CT_SUMMARY_BITS / 8));
    to = put(to, functions, function_count * sizeof *functions);
    to = put(to, b->calls, b->call_count * sizeof *b->calls);
    to = put(to, b->starts, b->start_count * sizeof *b->starts);
    put(to, b->saved, b->saved_count * sizeof *b->saved);
    size_t covered = offsetof(struct cts_header, version);
    uint32_t crc = ct_crc32(0, *bytes + covered, header.size - covered);
    memcpy(*bytes + offsetof(struct cts_header, crc), &crc, sizeof crc);
    *size = header.size;
    return 0;
}

static void free_builder(struct builder *b) {
    ct_frames_free(&b->frames);
    ct_table_free(&b->functions, NULL);
    free(b->spans);
    free(b->bitmaps);
    free(b->calls);
    free(b->starts);
    free(b->saved);
    free(b->read.events);
}

int ct_summary_build(const struct ct_summary_source *source, uint8_t **bytes, size_t *size) {
    struct trace_thread *thread = &source->trace->threads[source->thread];
    size_t count;
    struct builder b = {.source = source,
                        .facts = &source->options->facts->threads[source->thread],
                        .process = thread->info.process,
                        .index = &thread->index};
    struct block *blocks = list_blocks(b.index, &count);
    if (!blocks)
        return CT_ERR_NO_MEMORY;
    struct ct_timeline timeline;
    if (ct_timeline_open(&timeline, source->options->facts, source->trace, source->thread) != 0) {
        free(blocks);
        return CT_ERR_NO_MEMORY;
    }
    ct_frames_begin(&b.frames, b.facts->complete, on_lost, &b);
    b.frames.timeline = &timeline;
    b.ahead = ct_ahead_open(source->trace, source->thread, b.index->first);
    for (size_t i = 0; i < count && !b.failed; i++)
        read_block(&b, &blocks[i]);
    ct_ahead_close(b.ahead);
    free(blocks);
    ct_timeline_close(&timeline);
    uint32_t function_count;
    struct cts_function *functions = b.failed ? NULL : list_functions(&b, &function_count);
    int status = functions ? assemble(&b, functions, function_count, bytes, size) : CT_ERR_NO_MEMORY;
    free(functions);
    free_builder(&b);
    return status;
}
