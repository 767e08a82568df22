/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a trace: everything that readers assume, event by event.
 *
 * Events are checked leniently where the manifest cannot know: after a gap the depth may be anything, and so it may in
 * the part that an unfinished manifest does not cover. Frames need not end in the order in which they began
 * (coroutines), nor in the thread where they began (fibers that migrate): such a return must find its open call in
 * another thread. Each kind of problem is reported a few times per thread, then counted. */
#include "isa/machine.h"
#include "base/grow.h"
#include "trace/ahead.h"
#include "trace/code_file.h"
#include "trace/crc32.h"
#include "trace/depths.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include "trace/switches_file.h"
#include <contrail/status.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH        8192
#define KNOWN        1024 /* functions, a power of two */
#define REPORT_LIMIT 5
#define GAP_LIMIT    4096 /* a recorder lists no more per thread: the last one includes all that follow */

enum problem { P_TIME, P_KIND, P_THREAD, P_FUNCTION, P_DEPTH, P_MATCH, P_DETAIL, P_COUNT };

/* A list of functions, one entry for each time. */
struct tally {
    uint64_t *functions;
    size_t count, room;
};

struct verifier {
    struct ct_trace *trace;
    const struct ct_facts *facts;
    struct tally open;    /* of this process: calls that were never left in their thread */
    struct tally orphans; /* returns whose call is not in their thread */
    bool gaps;
    void (*complain)(void *arg, const char *sentence);
    void *arg;
    bool failed;
};

/* The frames of one thread: first `unknown` frames whose calls were not seen, then the known ones. `others`: functions
 * of frames on other stacks than the first, by depth. */
struct frames {
    struct tally known;
    uint64_t unknown;
    struct ct_depths others;
    bool others_unknown; /* some of these calls may not have been seen */
};

/* What events need to know of a function. */
struct known {
    uint64_t function;
    bool looked, exists, entry_only;
};

struct thread_check {
    struct verifier *verifier;
    struct trace_thread *thread;
    const char *directory;
    uint64_t reported[P_COUNT];
    uint64_t sequence, last_time;
    const struct ct_json_node *gap; /* the next gap */
    size_t gap_count;
    uint64_t known_events; /* up to here the manifest has all gaps */
    struct frames frames;
    bool lenient;    /* the next event's depth may be anything */
    bool after_hole; /* events before it cannot be read, or were deleted */
    struct known known[KNOWN];
    struct ct_ahead *ahead; /* NULL: nobody reads ahead */
    struct ct_ahead_block block;
};

__attribute__((format(printf, 2, 3))) static void complain(struct verifier *verifier, const char *format, ...) {
    char sentence[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    verifier->failed = true;
    if (verifier->complain)
        verifier->complain(verifier->arg, sentence);
}

/* Reports a problem of the event at check->sequence. */
__attribute__((format(printf, 3, 4))) static void report_problem(struct thread_check *check, enum problem problem,
                                                                 const char *format, ...) {
    char text[512];
    va_list arguments;
    check->verifier->failed = true;
    if (check->reported[problem]++ >= REPORT_LIMIT)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complain(check->verifier, "%s/thread_%u: event %" PRIu64 " %s", check->directory, check->thread->info.id,
             check->sequence, text);
}

/* ---- frames ---- */

static bool add_function(struct tally *tally, uint64_t function) {
    if (!ct_grow(&tally->functions, &tally->room, tally->count, sizeof *tally->functions, 1024))
        return false;
    tally->functions[tally->count++] = function;
    return true;
}

static uint64_t open_frames(const struct frames *frames) {
    return frames->unknown + frames->known.count;
}

static void forget_frames(struct frames *frames, uint64_t depth) {
    frames->known.count = 0;
    frames->unknown = depth;
}

static void forget_others(struct frames *frames) {
    ct_depths_clear(&frames->others);
    frames->others_unknown = true;
}

static void remove_known(struct tally *known, size_t index) {
    memmove(known->functions + index, known->functions + index + 1,
            (known->count - index - 1) * sizeof *known->functions);
    known->count--;
}

/* A call on another stack than the first. */
static void check_other_call(struct thread_check *check, const struct atf_index_event *event, bool entry_only) {
    struct frames *frames = &check->frames;
    uint64_t function;
    bool doubtful = check->lenient || frames->others_unknown || event->call_depth == ATF_DEPTH_NONE;
    if (!doubtful && ct_depths_get(&frames->others, event->call_depth, &function))
        report_problem(check, P_DEPTH, "is a call at depth %u, where a frame of function %" PRIx64 " is open",
                       event->call_depth, function);
    if (!doubtful && ATF_DEPTH_PLACE(event->call_depth) &&
        !ct_depths_get(&frames->others, event->call_depth - 1, &function))
        report_problem(check, P_DEPTH, "is a call at depth %u, and no frame is open at the one before",
                       event->call_depth);
    if (!entry_only && !ct_depths_put(&frames->others, event->call_depth, event->function_id))
        frames->others_unknown = true;
}

static void check_other_leave(struct thread_check *check, const struct atf_index_event *event) {
    struct frames *frames = &check->frames;
    uint64_t function;
    if (!ct_depths_get(&frames->others, event->call_depth, &function)) {
        if (!check->lenient && !frames->others_unknown && !add_function(&check->verifier->orphans, event->function_id))
            frames->others_unknown = true;
        return;
    }
    ct_depths_remove(&frames->others, event->call_depth);
    if (function != event->function_id && !check->lenient && event->call_depth != ATF_DEPTH_NONE)
        report_problem(check, P_MATCH, "is an end of function %" PRIx64 ", but the open one at its depth is %" PRIx64,
                       (uint64_t)event->function_id, function);
}

static void check_call(struct thread_check *check, const struct atf_index_event *event, bool entry_only) {
    struct frames *frames = &check->frames;
    if (event->call_depth & ATF_DEPTH_OTHER) {
        check_other_call(check, event, entry_only);
        return;
    }
    if (event->call_depth != open_frames(frames)) {
        if (!check->lenient)
            report_problem(check, P_DEPTH, "is a call at depth %u while %" PRIu64 " frames are open", event->call_depth,
                           open_frames(frames));
        forget_frames(frames, event->call_depth);
    }
    if (!entry_only && !add_function(&frames->known, event->function_id))
        forget_frames(frames, (uint64_t)event->call_depth + 1);
}

/* A frame ends that is not the innermost one. Its depth says which. */
static bool leave_other(struct thread_check *check, const struct atf_index_event *event) {
    struct frames *frames = &check->frames;
    uint64_t at = (uint64_t)event->call_depth - frames->unknown;
    if (event->call_depth >= frames->unknown && at < frames->known.count &&
        frames->known.functions[at] == event->function_id) {
        remove_known(&frames->known, (size_t)at);
        return true;
    }
    for (size_t i = frames->known.count; i-- > 0;)
        if (frames->known.functions[i] == event->function_id) {
            bool right = event->call_depth == frames->unknown + i;
            if (right)
                remove_known(&frames->known, i);
            return right;
        }
    if (frames->unknown) {
        bool right = (uint64_t)event->call_depth + 1 == frames->unknown;
        frames->unknown -= right;
        return right;
    }
    return event->call_depth == open_frames(frames) && add_function(&check->verifier->orphans, event->function_id);
}

static void check_leave(struct thread_check *check, const struct atf_index_event *event) {
    struct frames *frames = &check->frames;
    struct tally *known = &frames->known;
    uint64_t open = open_frames(frames);
    if (event->call_depth & ATF_DEPTH_OTHER) {
        check_other_leave(check, event);
        return;
    }
    bool innermost = (uint64_t)event->call_depth + 1 == open;
    if (innermost && known->count && known->functions[known->count - 1] == event->function_id) {
        known->count--;
        return;
    }
    if (!check->lenient && leave_other(check, event))
        return;
    const char *what = event->event_kind == ATF_RETURN ? "a return" : "an exception";
    if (!check->lenient && !innermost)
        report_problem(check, P_DEPTH, "is %s at depth %u while %" PRIu64 " frames are open", what, event->call_depth,
                       open);
    else if (!check->lenient)
        report_problem(check, P_MATCH, "is %s of function %" PRIx64 ", but the open one at its depth is %" PRIx64, what,
                       (uint64_t)event->function_id, known->functions[known->count - 1]);
    forget_frames(frames, event->call_depth); /* it is closed now, and the frames below it are unknown */
}

/* ---- events ---- */

static uint64_t gap_at(const struct ct_json_node *gap) {
    return ct_json_u64(ct_json_get(gap, "at", NULL), 0);
}

/* Finds out whether the depth of this event follows from the events before it. */
static void look_for_gap(struct thread_check *check) {
    check->lenient = check->sequence >= check->known_events || check->after_hole;
    if (check->lenient)
        forget_others(&check->frames);
    if (check->after_hole)
        forget_frames(&check->frames, open_frames(&check->frames));
    check->after_hole = false;
    while (check->gap && gap_at(check->gap) <= check->sequence) {
        if (gap_at(check->gap) == check->sequence) {
            check->lenient = true;
            forget_others(&check->frames);
            /* The open frames may belong to other functions, even where the depth is the same. */
            forget_frames(&check->frames, open_frames(&check->frames));
        }
        check->gap = check->gap->next;
        if (!check->gap && check->gap_count >= GAP_LIMIT)
            check->known_events = check->sequence;
    }
}

static const struct known *look_up(struct thread_check *check, uint64_t id) {
    struct known *known = &check->known[(id ^ id >> 32) % KNOWN];
    if (known->looked && known->function == id)
        return known;
    const struct ct_trace_function *function =
        ct_trace_function(check->verifier->trace, check->thread->info.process, id);
    *known = (struct known){id, true, function != NULL, function && function->entry_only};
    return known;
}

static void check_event(struct thread_check *check, const struct atf_index_event *event, uint32_t thread_id) {
    if (event->timestamp_ns < check->last_time)
        report_problem(check, P_TIME, "is %" PRIu64 " ns earlier than the one before it",
                       check->last_time - event->timestamp_ns);
    check->last_time = event->timestamp_ns;
    if (event->detail_seq != ATF_NO_DETAIL && !check->thread->info.has_detail && check->known_events == UINT64_MAX)
        report_problem(check, P_DETAIL, "names detail record %u, but there is no detail file", event->detail_seq);
    if (event->thread_id != thread_id)
        report_problem(check, P_THREAD, "is of thread %u in a file of thread %u", event->thread_id, thread_id);
    if (event->event_kind < ATF_CALL || event->event_kind > ATF_EXCEPTION) {
        report_problem(check, P_KIND, "is of kind %u, which does not exist", event->event_kind);
        return;
    }
    look_for_gap(check);
    if (event->event_kind == ATF_EXCEPTION && !event->function_id)
        return; /* a signal: it closes no frame */
    const struct known *function = look_up(check, event->function_id);
    if (!function->exists)
        report_problem(check, P_FUNCTION, "names function %" PRIx64 ", which symbols does not know",
                       event->function_id);
    if (event->event_kind == ATF_CALL)
        check_call(check, event, function->entry_only);
    else
        check_leave(check, event);
}

/* ---- files ---- */

struct range {
    uint64_t first, last;
    uint32_t crc;
};

static void check_header(struct verifier *verifier, const char *name, const struct ct_index_part *part,
                         const struct atf_index_header *header, const struct range *range, bool has_detail) {
    if (!ct_machine_by_arch(header->arch))
        complain(verifier, "%s: the header names architecture %u, which does not exist", name, header->arch);
    if (header->os != ATF_OS_LINUX)
        complain(verifier, "%s: the header names operating system %u, not Linux", name, header->os);
    if (header->clock_type != ATF_CLOCK_BOOTTIME)
        complain(verifier, "%s: the header names clock %u, not the boot-time clock", name, header->clock_type);
    if (header->flags & ~(uint32_t)ATF_HAS_DETAIL)
        complain(verifier, "%s: the header has unknown flags %x", name, header->flags);
    else if (header->flags && !has_detail && !part->segment)
        complain(verifier, "%s: the header mentions a detail file, but there is none", name);
    for (size_t i = 0; i < sizeof header->reserved && !part->segment; i++)
        if (header->reserved[i]) {
            complain(verifier, "%s: reserved bytes of the header are not zero", name);
            break;
        }
    bool untouched = !header->event_count && !header->footer_offset && !header->time_start_ns && !header->time_end_ns;
    if (part->state == CT_INDEX_CUT && untouched)
        return; /* never finished */
    if (header->footer_offset != header->events_offset + (uint64_t)header->event_count * sizeof(struct atf_index_event))
        complain(verifier, "%s: the header puts the footer at byte %" PRIu64 " after %u events", name,
                 (uint64_t)header->footer_offset, header->event_count);
    if (header->event_count == part->count &&
        (header->time_start_ns != range->first || header->time_end_ns != range->last))
        complain(verifier, "%s: the header's times are not those of its first and last event", name);
}

static void check_footer(struct verifier *verifier, const char *name, const struct ct_index_part *part,
                         const struct range *range) {
    struct atf_index_footer footer;
    size_t done;
    uint64_t offset = part->events_offset + part->count * sizeof(struct atf_index_event);
    if (ct_file_read(part->file.fd, &footer, sizeof footer, offset, &done) != 0 || done != sizeof footer) {
        complain(verifier, "%s: the footer cannot be read", name);
        return;
    }
    if (footer.crc32 != range->crc)
        complain(verifier, "%s: the checksum is %08x, but that of the events is %08x: they were damaged", name,
                 footer.crc32, range->crc);
    if (footer.bytes_written != part->count * sizeof(struct atf_index_event))
        complain(verifier, "%s: the footer says %" PRIu64 " bytes of events; there are %" PRIu64, name,
                 (uint64_t)footer.bytes_written, part->count * sizeof(struct atf_index_event));
    if (footer.time_start_ns != range->first || footer.time_end_ns != range->last)
        complain(verifier, "%s: the footer's times are not those of its first and last event", name);
    for (size_t i = 0; i < sizeof footer.reserved; i++)
        if (footer.reserved[i]) {
            complain(verifier, "%s: reserved bytes of the footer are not zero", name);
            break;
        }
    if (part->size != offset + sizeof footer)
        complain(verifier, "%s: %" PRIu64 " bytes follow the footer", name, part->size - offset - sizeof footer);
}

/* Checks header and footer, after the events were read. */
static void check_frame(struct verifier *verifier, const char *name, struct ct_index_part *part,
                        const struct range *range, bool finished, bool has_detail) {
    struct atf_index_header header;
    size_t done;
    if (!part->file.path) {
        complain(verifier, "%s: it cannot be opened", name);
        return;
    }
    if (part->state == CT_INDEX_UNREADABLE) {
        if (finished || part->size >= sizeof header)
            complain(verifier, "%s: it is not an ATF v2 index file, or its header is damaged", name);
        return;
    }
    if (part->state == CT_INDEX_CUT && finished)
        complain(verifier, "%s: it has no footer after %" PRIu64 " events, although the recorder finished the trace",
                 name, part->count);
    if (ct_file_use(&part->file) != 0) {
        complain(verifier, "%s: it cannot be read", name);
        return;
    }
    if (ct_file_read(part->file.fd, &header, sizeof header, 0, &done) == 0 && done == sizeof header)
        check_header(verifier, name, part, &header, range, has_detail);
    if (part->state == CT_INDEX_GOOD)
        check_footer(verifier, name, part, range);
    ct_file_rest(&part->file);
}

static void tell_packed(void *arg, const char *sentence) {
    complain(arg, "%s", sentence);
}

/* Nothing can be read at check->sequence. */
static void pass_hole(struct thread_check *check, const struct ct_index_part *part, const char *name) {
    uint64_t next = ct_index_skip(&check->thread->index, check->sequence);
    if (next > part->end)
        next = part->end;
    if (part->packed)
        complain(check->verifier,
                 "%s: events %" PRIu64 " to %" PRIu64 " cannot be read: their block is damaged or missing", name,
                 check->sequence, next - 1);
    else
        complain(check->verifier, "%s: it cannot be read after event %" PRIu64, name, check->sequence - part->first);
    check->sequence = next;
    check->after_hole = true;
}

/* Reads events at check->sequence into the block; 0: there are none. */
static size_t read_events(struct thread_check *check, struct ct_index_part *part) {
    struct ct_index *index = &check->thread->index;
    struct ct_ahead_block *block = &check->block;
    uint64_t left = part->end - check->sequence;
    block->count = 0;
    if (ct_ahead_take(check->ahead, check->sequence, block))
        return block->count < left ? block->count : (size_t)left;
    if (!ct_grow(&block->events, &block->room, BATCH - 1, sizeof *block->events, BATCH))
        return 0;
    block->count = ct_index_read(index, check->sequence, block->events, left < BATCH ? (size_t)left : BATCH);
    block->clean = part->packed && ct_packed_is_clean(index, check->sequence, check->sequence + block->count);
    return block->count;
}

static void check_part(struct thread_check *check, size_t number, bool finished) {
    struct ct_index_part *part = check->thread->index.parts[number];
    struct range range = {0};
    char name[768];
    snprintf(name, sizeof name, "%s/thread_%u/%s", check->directory, check->thread->info.id, part->name);
    check->after_hole |= part->segment && check->sequence != part->first;
    for (check->sequence = part->first; check->sequence < part->end;) {
        size_t count = read_events(check, part);
        if (!count) {
            pass_hole(check, part, name);
            continue;
        }
        const struct atf_index_event *events = check->block.events;
        if (check->sequence == part->first)
            range.first = events[0].timestamp_ns;
        range.last = events[count - 1].timestamp_ns;
        if (!part->packed)
            range.crc = ct_crc32(range.crc, events, count * sizeof *events);
        else if (check->block.clean)
            ct_packed_note_clean(part, check->sequence, range.last);
        for (size_t i = 0; i < count; i++, check->sequence++)
            check_event(check, &events[i], part->thread_id);
    }
    if (part->packed)
        ct_verify_packed(part, name, finished, tell_packed, check->verifier);
    else
        check_frame(check->verifier, name, part, &range, finished, check->thread->info.has_detail);
}

/* ---- threads and processes ---- */

static void pass_on(void *arg, const char *sentence) {
    complain(arg, "%s", sentence);
}

static bool keeps_newest(const struct verifier *verifier, const struct trace_thread *thread) {
    return ct_json_get(ct_json_root(verifier->trace->processes[thread->info.process].manifest), "keep", NULL);
}

static void check_details(struct verifier *verifier, const struct trace_thread *thread, bool finished) {
    struct ct_verify_detail ask = {.finished = finished, .complain = pass_on, .arg = verifier};
    const struct trace_process *process = &verifier->trace->processes[thread->info.process];
    ask.dropped = keeps_newest(verifier, thread);
    bool listed = ct_json_flag(ct_json_get(thread->manifest, "has_detail", NULL), false), is = thread->info.has_detail;
    if (is && ct_verify_details(verifier->trace, (size_t)(thread - verifier->trace->threads), &ask) != 0)
        complain(verifier, "%s/thread_%u: no memory to check its detail", process->directory, thread->info.id);
    if (process->info.complete && thread->manifest && listed != is && !(listed && ask.dropped))
        complain(verifier, "%s/thread_%u: the manifest says that there is %s detail file, but there is %s",
                 process->directory, thread->info.id, listed ? "a" : "no", is ? "one" : "none");
}

/* Checks the code that it executed, when it was followed. */
static void check_code(struct verifier *verifier, const struct trace_thread *thread, bool finished) {
    const struct trace_process *process = &verifier->trace->processes[thread->info.process];
    const struct ct_json_node *listed = ct_json_get(thread->manifest, "code", NULL);
    struct ct_code_reader *reader;
    struct ct_code_record record;
    int status = ct_code_reader_open(&reader, process->directory, thread->info.id);
    if (status == CT_ERR_NOT_FOUND && !listed)
        return;
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/thread_%u/" CT_CODE_FILE, process->directory, thread->info.id);
    if (status) {
        complain(verifier, "%s: %s", name, status == CT_ERR_NOT_FOUND ? "it is missing" : "it is not a file of code");
        return;
    }
    while ((status = ct_code_reader_next(reader, &record)) > 0)
        if (record.position > thread->info.event_count + thread->index.first)
            break;
    struct ct_code_counts counts = ct_code_reader_counts(reader);
    if (status < 0)
        complain(verifier, "%s: %s", name, ct_code_reader_problem(reader));
    else if (status > 0)
        complain(verifier, "%s: it refers to more events than the index has", name);
    else if (finished && !ct_code_reader_finished(reader))
        complain(verifier, "%s: it is cut", name);
    else if (finished && (ct_json_u64(ct_json_get(listed, "blocks", NULL), 0) != counts.blocks ||
                          ct_json_u64(ct_json_get(listed, "compiled", NULL), 0) != counts.compiled))
        complain(verifier,
                 "%s: it has %" PRIu64 " blocks and %" PRIu64 " translations, but the manifest says otherwise", name,
                 counts.blocks, counts.compiled);
    ct_code_reader_close(reader);
}

/* Checks what is kept about its events. */
static void check_summary(struct verifier *verifier, const struct trace_thread *thread) {
    if (!ct_summary_verify(verifier->trace, (size_t)(thread - verifier->trace->threads), verifier->facts))
        complain(verifier, "%s/thread_%u/" CTS_FILE ": it does not say what the events say; delete it",
                 verifier->trace->processes[thread->info.process].directory, thread->info.id);
}

/* Checks when it was on a processor, where that was recorded, and when it waited for memory. */
static void check_spans(struct verifier *verifier, const struct trace_thread *thread, bool finished, const char *file) {
    const struct trace_process *process = &verifier->trace->processes[thread->info.process];
    struct ct_switches_reader *reader;
    struct ct_switch_span span;
    char name[PATH_MAX];
    int status = ct_switches_reader_open_as(&reader, process->directory, thread->info.id, file);
    if (status == CT_ERR_NOT_FOUND)
        return;
    snprintf(name, sizeof name, "%s/thread_%u/%s", process->directory, thread->info.id, file);
    if (status) {
        complain(verifier, "%s: it is not a file of %s", name, file);
        return;
    }
    while ((status = ct_switches_reader_next(reader, &span)) > 0)
        ;
    if (status)
        complain(verifier, "%s: %s", name, ct_switches_reader_problem(reader));
    else if (finished && !ct_switches_reader_finished(reader))
        complain(verifier, "%s: it is cut", name);
    ct_switches_reader_close(reader);
}

/* Events that are in the files, or were deleted to keep the newest. */
static uint64_t held_events(const struct verifier *verifier, const struct trace_thread *thread) {
    if (!thread->index.part_count && keeps_newest(verifier, thread))
        return ct_json_u64(ct_json_get(thread->manifest, "events", NULL), 0);
    return thread->index.first + thread->info.event_count;
}

static void check_thread(struct verifier *verifier, struct thread_check *check, struct trace_thread *thread) {
    static const char *const kinds[P_COUNT] = {"time going back",   "unknown kinds",   "other threads",
                                               "unknown functions", "the wrong depth", "the wrong function",
                                               "no detail"};
    const struct trace_process *process = &verifier->trace->processes[thread->info.process];
    struct frames frames = check->frames;
    bool complete = process->info.complete;
    memset(check, 0, offsetof(struct thread_check, block));
    check->verifier = verifier;
    check->thread = thread;
    check->directory = process->directory;
    check->frames = frames;
    forget_frames(&check->frames, 0);
    forget_others(&check->frames);
    check->frames.others_unknown = false;
    const struct ct_json_node *gaps = ct_json_get(thread->manifest, "gaps", NULL);
    check->gap = ct_json_first(gaps);
    check->gap_count = check->gap ? gaps->count : 0;
    verifier->gaps |= check->gap != NULL;
    uint64_t told_events = ct_json_u64(ct_json_get(thread->manifest, "events", NULL), 0);
    check->known_events = complete ? UINT64_MAX : told_events;
    /* A full disk may have had no room for footers. */
    const struct ct_json_node *reason = ct_json_get(ct_json_root(process->manifest), "end", "reason", NULL);
    bool finished = complete && strcmp(ct_json_text(reason, ""), "disk") != 0;
    check->ahead = ct_ahead_open(verifier->trace, (size_t)(thread - verifier->trace->threads), thread->index.first);
    for (size_t i = 0; i < thread->index.part_count; i++)
        check_part(check, i, finished);
    ct_ahead_close(check->ahead);
    for (size_t i = 0; i < check->frames.known.count; i++)
        add_function(&verifier->open, check->frames.known.functions[i]);
    for (size_t i = 0; i < check->frames.others.capacity; i++)
        if (check->frames.others.slots[i].depth)
            add_function(&verifier->open, check->frames.others.slots[i].value);
    check_details(verifier, thread, finished);
    check_code(verifier, thread, finished);
    check_summary(verifier, thread);
    check_spans(verifier, thread, finished, CT_SWITCHES_FILE);
    check_spans(verifier, thread, finished, CT_WAITS_FILE);
    for (int i = 0; i < P_COUNT; i++)
        if (check->reported[i] > REPORT_LIMIT)
            complain(verifier, "%s/thread_%u: %" PRIu64 " more events with %s", check->directory, thread->info.id,
                     check->reported[i] - REPORT_LIMIT, kinds[i]);
    if (complete && !thread->manifest)
        complain(verifier, "%s/thread_%u: the manifest does not know this thread", check->directory, thread->info.id);
    else if (complete ? told_events != held_events(verifier, thread) : told_events > held_events(verifier, thread))
        complain(verifier, "%s/thread_%u: the manifest says %" PRIu64 " events, the file has %" PRIu64,
                 check->directory, thread->info.id, told_events, held_events(verifier, thread));
}

static void check_process(struct verifier *verifier, size_t index) {
    const struct trace_process *process = &verifier->trace->processes[index];
    const struct ct_json_node *root = ct_json_root(process->manifest);
    if (!root) {
        struct ct_json_tree *tree = NULL;
        size_t at = 0;
        ct_json_parse(&tree, process->text, strlen(process->text), &at);
        ct_json_tree_free(tree);
        complain(verifier, "%s/manifest.json: it is not JSON at byte %zu", process->directory, at);
    } else if (strcmp(ct_json_text(ct_json_get(root, "format", NULL), ""), "atf2") != 0 &&
               strcmp(ct_json_text(ct_json_get(root, "format", NULL), ""), "packed") != 0) {
        complain(verifier, "%s/manifest.json: its format is neither packed nor atf2", process->directory);
    }
    const char *problem = ct_symbols_problem(ct_trace_symbols(verifier->trace, index));
    if (problem && (process->info.complete || strcmp(problem, "it is cut") != 0))
        complain(verifier, "%s/symbols: %s", process->directory, problem);
    if (!process->info.complete)
        return;
    uint64_t events = 0;
    for (size_t i = 0; i < verifier->trace->thread_count; i++)
        if (verifier->trace->threads[i].info.process == index)
            events += held_events(verifier, &verifier->trace->threads[i]);
    uint64_t written = ct_json_u64(ct_json_get(root, "events", "written", NULL), UINT64_MAX);
    if (written != events && written != UINT64_MAX)
        complain(verifier, "%s: the manifest says %" PRIu64 " events, the files have %" PRIu64, process->directory,
                 written, events);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_tally(struct tally *tally) {
    if (tally->count)
        qsort(tally->functions, tally->count, sizeof *tally->functions, by_value);
}

/* Every return without a call must have its call in another thread; abandoned slots may have been calls. */
static void check_orphans(struct verifier *verifier, size_t index) {
    const struct trace_process *process = &verifier->trace->processes[index];
    struct tally *orphans = &verifier->orphans, *open = &verifier->open;
    const struct ct_json_node *abandoned = ct_json_get(ct_json_root(process->manifest), "events", "abandoned", NULL);
    uint64_t unexplained = 0, example = 0;
    sort_tally(orphans);
    sort_tally(open);
    for (size_t i = 0, k = 0; i < orphans->count; i++) {
        while (k < open->count && open->functions[k] < orphans->functions[i])
            k++;
        if (k < open->count && open->functions[k] == orphans->functions[i]) {
            k++;
        } else {
            unexplained++;
            example = orphans->functions[i];
        }
    }
    if (process->info.complete && !verifier->gaps && unexplained > ct_json_u64(abandoned, 0))
        complain(verifier, "%s: %" PRIu64 " returns have no call in any thread, one of function %" PRIx64,
                 process->directory, unexplained, example);
    orphans->count = open->count = 0;
    verifier->gaps = false;
}

/* Number of the process's threads that are wanted. */
static size_t count_wanted(const struct ct_trace *trace, size_t process, bool (*wanted)(void *arg, size_t thread),
                           void *arg, bool *all) {
    size_t count = 0;
    *all = true;
    for (size_t i = 0; i < trace->thread_count; i++)
        if (trace->threads[i].info.process == process) {
            bool yes = wanted(arg, i);
            count += yes;
            *all &= yes;
        }
    return count;
}

int ct_trace_verify_some(struct ct_trace *trace, bool (*wanted)(void *arg, size_t thread),
                         void (*report)(void *arg, const char *sentence), void *arg) {
    struct ct_facts facts;
    struct verifier verifier = {.trace = trace, .facts = &facts, .complain = report, .arg = arg};
    struct thread_check *check = calloc(1, sizeof *check);
    if (!check || ct_facts_load(&facts, trace) != 0) {
        free(check);
        return CT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < trace->process_count; i++) {
        bool all;
        if (!count_wanted(trace, i, wanted, arg, &all) && !all)
            continue;
        check_process(&verifier, i);
        for (size_t thread = 0; thread < trace->thread_count; thread++)
            if (trace->threads[thread].info.process == i && wanted(arg, thread))
                check_thread(&verifier, check, &trace->threads[thread]);
        verifier.gaps |= !all; /* the call of a return may be in a thread that was not read */
        check_orphans(&verifier, i);
    }
    free(check->frames.known.functions);
    ct_depths_free(&check->frames.others);
    free(check->block.events);
    free(check);
    free(verifier.open.functions);
    free(verifier.orphans.functions);
    ct_facts_free(&facts);
    return verifier.failed ? CT_ERR_BAD_FILE : 0;
}

static bool any_thread(void *arg, size_t thread) {
    (void)arg, (void)thread;
    return true;
}

int ct_trace_verify(struct ct_trace *trace, void (*report)(void *arg, const char *sentence), void *arg) {
    return ct_trace_verify_some(trace, any_thread, report, arg);
}
