/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a packed index file: header, every block, tables and footer. verify.c checks that the events make sense. */
#include "isa/machine.h"
#include "trace/crc32.h"
#include "trace/reader.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_LIMIT 5
#define BATCH        512

struct packed_check {
    struct ct_index_part *part;
    const char *name;
    void (*complain)(void *arg, const char *sentence);
    void *arg;
    unsigned reported;
    uint64_t events, links, time_last;
};

__attribute__((format(printf, 2, 3))) static void complain(struct packed_check *check, const char *format, ...) {
    char text[300], sentence[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(sentence, sizeof sentence, "%.700s: %s", check->name, text);
    check->complain(check->arg, sentence);
}

static bool all_zero(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

static void check_header(struct packed_check *check) {
    const struct ctp_header *header = &check->part->packed->header;
    if (header->crc != ct_crc32(0, header, offsetof(struct ctp_header, crc)))
        complain(check, "the header is damaged");
    if (!ct_machine_by_arch(header->arch))
        complain(check, "the header names architecture %u, which does not exist", header->arch);
    if (header->os != ATF_OS_LINUX)
        complain(check, "the header names operating system %u, not Linux", header->os);
    if (header->clock_type != ATF_CLOCK_BOOTTIME)
        complain(check, "the header names clock %u, not the boot-time clock", header->clock_type);
    if (header->flags & ~(uint32_t)ATF_HAS_DETAIL)
        complain(check, "the header has unknown flags %x", header->flags);
    if (!all_zero(header->reserved0, sizeof header->reserved0) ||
        !all_zero(header->reserved1, sizeof header->reserved1))
        complain(check, "reserved bytes of the header are not zero");
    if (header->first_seq && !check->part->segment)
        complain(check, "the header says that %" PRIu64 " events come before it, but it is not a segment",
                 (uint64_t)header->first_seq);
}

/* Compares the events of an intact block with its header. */
static const char *problem_of_events(struct packed_check *check, const uint8_t *block, const struct ctp_block *header) {
    struct ct_unpack unpack = {0};
    struct atf_index_event events[BATCH];
    uint64_t count = 0, last = 0;
    size_t done = 1;
    const char *problem = ct_unpack_begin(&unpack, block, check->part->thread_id) ? "cannot be unpacked" : NULL;
    while (!problem && unpack.left && done) {
        if (ct_unpack_events(&unpack, events, BATCH, &done) != 0)
            problem = "has events that make no sense";
        count += done;
        last = done ? events[done - 1].timestamp_ns : last;
    }
    if (!problem &&
        (unpack.shape != unpack.shape_end || unpack.time != unpack.time_end || unpack.odd != unpack.odd_end))
        problem = "has more than its events";
    if (!problem && (count != header->count || last != header->time_last_ns))
        problem = "has another last event than its header says";
    check->time_last = header->time_last_ns;
    ct_unpack_free(&unpack);
    return problem;
}

static void count_link(void *arg, const struct ct_link *link) {
    (void)link;
    ++*(uint64_t *)arg;
}

static void check_block(struct packed_check *check, const struct ctp_entry *entry) {
    struct ctp_block header;
    uint64_t links = 0;
    const char *problem = NULL;
    uint8_t *block = ct_packed_block(check->part, entry);
    if (!block) {
        if (entry->type != CTP_EVENTS) /* missing events were reported already */
            complain(check, "the block of links at byte %" PRIu64 " is damaged", (uint64_t)entry->offset);
        return;
    }
    memcpy(&header, block, sizeof header);
    if (!all_zero(header.reserved, sizeof header.reserved))
        problem = "has reserved bytes that are not zero";
    else if (entry->type == CTP_EVENTS)
        problem = problem_of_events(check, block, &header);
    else if (ct_unpack_links(block, count_link, &links) != 0)
        problem = "has links that make no sense";
    check->events += entry->type == CTP_EVENTS ? header.count : 0;
    check->links += links;
    free(block);
    if (problem && check->reported++ < REPORT_LIMIT)
        complain(check, "the block at byte %" PRIu64 " %s", (uint64_t)entry->offset, problem);
}

/* Blocks follow each other without holes, from the header to the footer. */
static void check_row(struct packed_check *check) {
    const struct ct_index_part *part = check->part;
    uint64_t offset = sizeof(struct ctp_header), end = part->size - sizeof(struct ctp_footer);
    while (offset < end) {
        struct ctp_block header;
        size_t done;
        if (ct_file_read(part->file.fd, &header, sizeof header, offset, &done) != 0 || done != sizeof header ||
            !ct_block_plausible(&header, end - offset)) {
            complain(check, "there is no block at byte %" PRIu64, offset);
            return;
        }
        offset += header.size;
    }
}

static void check_footer(struct packed_check *check) {
    const struct ct_packed *packed = check->part->packed;
    const struct ctp_footer *footer = &packed->footer;
    uint64_t start = packed->block_count ? packed->blocks[0].time_first_ns : 0;
    if (packed->bad_table)
        complain(check, "the table of its blocks is damaged, or is not that of its blocks");
    if (footer->event_count != check->events)
        complain(check, "the footer says %" PRIu64 " events; its blocks have %" PRIu64, (uint64_t)footer->event_count,
                 check->events);
    if (footer->link_count != check->links)
        complain(check, "the footer says %" PRIu64 " links; its blocks have %" PRIu64, (uint64_t)footer->link_count,
                 check->links);
    if (footer->time_start_ns != start || footer->time_end_ns != check->time_last)
        complain(check, "the footer's times are not those of its first and last event");
    if (!all_zero(footer->reserved, sizeof footer->reserved))
        complain(check, "reserved bytes of the footer are not zero");
    check_row(check);
}

void ct_verify_packed(struct ct_index_part *part, const char *name, bool finished,
                      void (*report)(void *arg, const char *sentence), void *arg) {
    struct packed_check check = {.part = part, .name = name, .complain = report, .arg = arg};
    const struct ct_packed *packed = part->packed;
    if (!packed->has_footer && finished)
        complain(&check, "it has no footer after %" PRIu64 " events, although the recorder finished the trace",
                 part->count);
    if (ct_file_use(&part->file) != 0) {
        complain(&check, "it cannot be read");
        return;
    }
    check_header(&check);
    for (size_t i = 0; i < packed->block_count; i++) {
        if (packed->clean_ns && packed->clean_ns[i]) { /* when its events were read */
            check.events += packed->blocks[i].count;
            check.time_last = packed->clean_ns[i];
        } else {
            check_block(&check, &packed->blocks[i]);
        }
    }
    for (size_t i = 0; i < packed->link_count; i++)
        check_block(&check, &packed->links[i]);
    if (packed->has_footer)
        check_footer(&check);
    else if (packed->missing)
        complain(&check, "%" PRIu64 " events are missing between its blocks", packed->missing);
    ct_file_rest(&part->file);
}
