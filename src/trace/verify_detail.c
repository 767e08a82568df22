/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the detail files of a thread: structure, checksums, and that records and index events refer to each other.
 *
 * A recorder that was killed leaves links out of the index, and loses the end of either file: what is missing at the
 * end is a problem only where the trace was finished. A contradiction is always a problem. */
#include "isa/machine.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH        1024
#define REPORT_LIMIT 5

enum problem { P_SHAPE, P_THREAD, P_LINK, P_EVENT, P_COUNT };

struct detail_check {
    const struct ct_verify_detail *ask;
    struct trace_thread *thread;
    struct ct_details *details;
    uint32_t tid;
    char name[700]; /* of the file or thread that is being checked */
    uint64_t reported[P_COUNT];
    struct atf_index_event events[BATCH]; /* of the index, from `from` on */
    uint64_t from;
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void complain(struct detail_check *check, const char *format, ...) {
    char sentence[1024], text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(sentence, sizeof sentence, "%.700s: %.300s", check->name, text);
    check->ask->complain(check->ask->arg, sentence);
}

__attribute__((format(printf, 4, 5))) static void report_problem(struct detail_check *check, enum problem problem,
                                                                 uint64_t sequence, const char *format, ...) {
    char text[300];
    va_list arguments;
    if (check->reported[problem]++ >= REPORT_LIMIT)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complain(check, "detail record %" PRIu64 " %s", sequence, text);
}

/* NULL: it cannot be read. */
static const struct atf_index_event *index_event(struct detail_check *check, uint64_t sequence) {
    if (sequence < check->from || sequence - check->from >= check->count) {
        check->from = sequence;
        check->count = ct_index_read(&check->thread->index, sequence, check->events, BATCH);
    }
    return check->count ? &check->events[sequence - check->from] : NULL;
}

/* ---- files ---- */

static bool all_zero(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

struct range {
    uint64_t time_first, time_last, index_first, index_last;
    uint32_t crc;
    bool indexed;
};

static void check_header(struct detail_check *check, const struct ct_detail_part *part, const struct range *range) {
    const struct atf_detail_header *header = &part->header;
    if (!ct_machine_by_arch(header->arch))
        complain(check, "the header names architecture %u, which does not exist", header->arch);
    if (header->os != ATF_OS_LINUX)
        complain(check, "the header names operating system %u, not Linux", header->os);
    if (header->flags)
        complain(check, "the header has unknown flags %x", header->flags);
    if (header->thread_id != check->tid)
        complain(check, "it is of thread %u, its index of thread %u", header->thread_id, check->tid);
    if (!all_zero(header->reserved1, sizeof header->reserved1))
        complain(check, "reserved bytes of the header are not zero");
    if (part->state == CT_INDEX_CUT && !header->event_count && !header->bytes_length)
        return; /* never finished */
    if (header->event_count != part->count || header->bytes_length != part->end - part->events_offset)
        complain(check, "the header says %" PRIu64 " records in %" PRIu64 " bytes; there are %" PRIu64 " in %" PRIu64,
                 (uint64_t)header->event_count, (uint64_t)header->bytes_length, part->count,
                 part->end - part->events_offset);
    else if (header->index_seq_start != range->index_first || header->index_seq_end != range->index_last)
        complain(check, "the header's positions in the index are not those of its first and last record");
}

/* The file is in use. */
static void check_footer(struct detail_check *check, const struct ct_detail_part *part, const struct range *range) {
    struct atf_detail_footer footer;
    size_t done;
    uint64_t length = part->end - part->events_offset;
    if (ct_file_read(part->file.fd, &footer, sizeof footer, part->end, &done) != 0 || done != sizeof footer) {
        complain(check, "the footer cannot be read");
        return;
    }
    if (footer.crc32 != range->crc)
        complain(check, "the checksum is %08x, but that of the records is %08x: they were damaged", footer.crc32,
                 range->crc);
    if (footer.event_count != part->count || footer.bytes_length != length)
        complain(check, "the footer says %" PRIu64 " records in %" PRIu64 " bytes; there are %" PRIu64 " in %" PRIu64,
                 (uint64_t)footer.event_count, (uint64_t)footer.bytes_length, part->count, length);
    if (footer.time_start_ns != range->time_first || footer.time_end_ns != range->time_last)
        complain(check, "the footer's times are not those of its first and last record");
    if (!all_zero(footer.reserved, sizeof footer.reserved))
        complain(check, "reserved bytes of the footer are not zero");
    if (part->size != part->end + sizeof footer)
        complain(check, "%" PRIu64 " bytes follow the footer", part->size - part->end - sizeof footer);
}

static void check_frame(struct detail_check *check, struct ct_detail_part *part, const struct range *range) {
    if (!part->file.path) {
        complain(check, "it cannot be opened");
        return;
    }
    if (part->state == CT_INDEX_UNREADABLE) {
        if (check->ask->finished || part->size >= sizeof part->header)
            complain(check, "it is not an ATF v2 detail file, or its header is damaged");
        return;
    }
    if (part->state == CT_INDEX_CUT && check->ask->finished)
        complain(check,
                 "it is damaged or has no footer after %" PRIu64 " records, although the recorder finished the trace",
                 part->count);
    check_header(check, part, range);
    if (part->state != CT_INDEX_GOOD)
        return;
    if (ct_file_use(&part->file) != 0) {
        complain(check, "it cannot be read");
        return;
    }
    check_footer(check, part, range);
    ct_file_rest(&part->file);
}

/* ---- records ---- */

static uint32_t kind_of(uint32_t type) {
    return type == ATF_DETAIL_CALL ? ATF_CALL : type == ATF_DETAIL_RETURN ? ATF_RETURN : ATF_EXCEPTION;
}

/* Checks that the record describes this index event. `sequence` is that of the record. */
static void check_event(struct detail_check *check, uint64_t sequence, const struct ct_trace_detail *detail,
                        const struct atf_index_event *event) {
    if (event->event_kind != kind_of(detail->type))
        report_problem(check, P_EVENT, sequence, "is of type %u, its event of kind %u", detail->type,
                       event->event_kind);
    else if (event->function_id != detail->function_id)
        report_problem(check, P_EVENT, sequence, "is of function %" PRIx64 ", its event of %" PRIx64,
                       detail->function_id, (uint64_t)event->function_id);
    else if (event->timestamp_ns != detail->timestamp_ns)
        report_problem(check, P_EVENT, sequence, "is of %" PRIu64 " ns, its event of %" PRIu64 " ns",
                       detail->timestamp_ns, (uint64_t)event->timestamp_ns);
}

/* Checks the way from the record to its event and back. */
static void check_back_link(struct detail_check *check, uint64_t sequence, const struct ct_trace_detail *detail) {
    if (detail->index_seq == ATF_NO_INDEX)
        return;
    const struct atf_index_event *event = index_event(check, detail->index_seq);
    if (!event) {
        if (check->ask->finished && detail->index_seq >= check->thread->index.end)
            report_problem(check, P_LINK, sequence, "names event %u; there are %" PRIu64, detail->index_seq,
                           check->thread->index.end);
        return;
    }
    check_event(check, sequence, detail, event);
    bool unlinked = event->detail_seq == ATF_NO_DETAIL && !check->ask->finished;
    if (event->detail_seq != sequence && !unlinked)
        report_problem(check, P_LINK, sequence, "names event %u, which names record %" PRId64, detail->index_seq,
                       event->detail_seq == ATF_NO_DETAIL ? -1 : (int64_t)event->detail_seq);
}

static void check_record(struct detail_check *check, uint64_t sequence, const uint8_t *record,
                         const struct atf_detail_event *event, uint8_t arch) {
    struct ct_trace_detail detail;
    if (event->thread_id != check->tid)
        report_problem(check, P_THREAD, sequence, "is of thread %u", event->thread_id);
    if (event->event_type < ATF_DETAIL_CALL || event->event_type > ATF_DETAIL_SIGNAL) {
        report_problem(check, P_SHAPE, sequence, "is of type %u, which does not exist", event->event_type);
        return;
    }
    if (event->flags & ~(ATF_DETAIL_VECTORS | ATF_DETAIL_STRINGS | ATF_DETAIL_ERRNO))
        report_problem(check, P_SHAPE, sequence, "has unknown flags %x", event->flags);
    if (ct_details_parse(record, event, arch, &detail) != 0) {
        report_problem(check, P_SHAPE, sequence, "is too short for its contents");
        return;
    }
    check_back_link(check, sequence, &detail);
}

static void check_part(struct detail_check *check, struct ct_detail_part *part) {
    struct atf_detail_event event;
    struct range range = {0};
    for (uint64_t i = 0; i < part->count; i++) {
        const uint8_t *record = ct_details_record(check->details, part->start + i, &event);
        if (!record) {
            complain(check, "it cannot be read after record %" PRIu64, part->start + i);
            return;
        }
        range.crc = ct_crc32(range.crc, record, event.total_length);
        range.time_last = event.timestamp;
        if (i == 0)
            range.time_first = event.timestamp;
        if (event.index_seq != ATF_NO_INDEX) {
            if (!range.indexed)
                range.index_first = event.index_seq;
            range.index_last = event.index_seq;
            range.indexed = true;
        }
        check_record(check, part->start + i, record, &event, part->header.arch);
    }
    check_frame(check, part, &range);
}

/* ---- from the index ---- */

static void check_link(struct detail_check *check, uint64_t position, uint32_t detail_seq, uint64_t end) {
    struct atf_detail_event event;
    if (ct_details_record(check->details, detail_seq, &event)) {
        if (event.index_seq != (uint32_t)position)
            report_problem(check, P_LINK, detail_seq, "is named by event %" PRIu64 ", but names event %u", position,
                           event.index_seq);
    } else if (detail_seq < end) {
        if (!check->ask->dropped)
            report_problem(check, P_LINK, detail_seq, "is named by event %" PRIu64 ", but not there", position);
    } else if (check->ask->finished) {
        report_problem(check, P_LINK, detail_seq, "is named by event %" PRIu64 "; there are %" PRIu64, position, end);
    }
}

static void check_links(struct detail_check *check, uint64_t end) {
    struct ct_index *index = &check->thread->index;
    for (uint64_t position = index->first; position < index->end;) {
        const struct atf_index_event *event = index_event(check, position);
        if (!event) { /* reported where the index is checked */
            position = ct_index_skip(index, position);
            continue;
        }
        for (; position - check->from < check->count; position++, event++)
            if (event->detail_seq != ATF_NO_DETAIL)
                check_link(check, position, event->detail_seq, end);
    }
}

/* ---- a thread ---- */

static uint64_t check_parts(struct detail_check *check, const char *directory) {
    uint64_t end = 0;
    for (size_t i = 0; i < check->details->part_count; i++) {
        struct ct_detail_part *part = check->details->parts[i];
        if (part->number == 1)
            snprintf(check->name, sizeof check->name, "%.600s/detail.atf", directory);
        else
            snprintf(check->name, sizeof check->name, "%.600s/detail_%u.atf", directory, part->number);
        bool follows = part->number == 1 || (i && check->details->parts[i - 1]->number + 1 == part->number);
        if (part->state != CT_INDEX_UNREADABLE && follows && part->start != end)
            complain(check, "its first record has number %" PRIu64 ", not %" PRIu64, part->start, end);
        check_part(check, part);
        if (part->start + part->count > end)
            end = part->start + part->count;
    }
    return end;
}

int ct_verify_details(struct ct_trace *trace, size_t thread, const struct ct_verify_detail *ask) {
    static const char *const kinds[P_COUNT] = {"the wrong shape", "other threads", "the wrong links",
                                               "the wrong events"};
    struct detail_check *check = calloc(1, sizeof *check);
    struct ct_details *details = check ? ct_trace_details(trace, thread) : NULL;
    struct trace_thread *owner = &trace->threads[thread];
    if (!details) {
        free(check);
        return CT_ERR_NO_MEMORY;
    }
    check->ask = ask;
    check->thread = owner;
    check->details = details;
    check->tid = owner->index.part_count ? owner->info.tid
                 : details->part_count   ? details->parts[0]->header.thread_id
                                         : 0;
    char *directory = ct_file_path("%s/thread_%u", trace->processes[owner->info.process].directory, owner->info.id);
    uint64_t end = check_parts(check, directory ? directory : "");
    snprintf(check->name, sizeof check->name, "%.600s", directory ? directory : "");
    free(directory);
    check->count = 0; /* the index is read again, in order */
    check_links(check, end);
    for (int i = 0; i < P_COUNT; i++)
        if (check->reported[i] > REPORT_LIMIT)
            complain(check, "%" PRIu64 " more detail records with %s", check->reported[i] - REPORT_LIMIT, kinds[i]);
    free(check);
    return 0;
}
