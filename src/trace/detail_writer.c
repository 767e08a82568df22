/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one thread's detail.atf. Owned by the drain thread.
 *
 * Like index.atf, the file can be read at every moment: first a header with counts of zero, then whole records; at the
 * end the header again with the counts, the footer last. (The first bytes of a footer are not a possible length, so a
 * reader that does not know the counts stops there.) The first failure is kept; after it records are counted and
 * dropped, and the file ends with a whole record. */
#include "isa/machine.h"
#include "base/grow.h"
#include "trace/buffers.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include "trace/segments.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER sizeof(struct atf_detail_header)
#define RECORD sizeof(struct atf_detail_event)
#define FOOTER sizeof(struct atf_detail_footer)
_Static_assert(ATF_DETAIL_LENGTH_MAX <= CT_BUFFER_MIN, "every record fits into the smallest buffer");

/* A part that is finished and may be removed. */
struct old_part {
    unsigned number;
    uint64_t records, time_last;
};

struct ct_detail_writer {
    struct ct_file file;
    struct ct_place *place; /* directory of the process, held */
    char *directory;        /* thread_N within it */
    uint32_t tid;
    unsigned part; /* 1: detail.atf, 2: detail_2.atf … */
    uint64_t part_limit;
    struct ct_series *series; /* deletes old parts; NULL: drop_before does */
    struct old_part *old;     /* oldest first */
    size_t old_count, old_room;

    /* the current part */
    uint64_t start;           /* detail_seq of its first record */
    uint64_t records, length; /* in the file */
    uint64_t time_first, time_last;
    uint64_t index_first, index_last;
    bool indexed; /* the two fields above are valid */
    uint32_t crc;

    uint64_t added, dropped, bytes;
    int error; /* errno of the first failure */

    uint8_t *buffer; /* borrowed or NULL */
    size_t room, used;
    uint64_t waiting;    /* records in the buffer */
    unsigned size_class; /* of the next buffer to borrow, grows with the thread's rate */
    unsigned lent_class; /* of the borrowed buffer */
};

/* ---- one part ---- */

static struct atf_detail_header header_of(const struct ct_detail_writer *writer, bool finished) {
    struct atf_detail_header header = {
        .magic = {'A', 'T', 'D', '2'},
        .endian = ATF_LITTLE_ENDIAN,
        .version = ATF_VERSION,
        .arch = ct_machine_host()->arch,
        .os = ATF_OS_LINUX,
        .thread_id = writer->tid,
        .detail_seq_start = (uint32_t)writer->start,
        .events_offset = HEADER,
    };
    if (finished) {
        header.event_count = writer->records;
        header.bytes_length = writer->length;
        header.index_seq_start = writer->index_first;
        header.index_seq_end = writer->index_last;
    }
    return header;
}

static char *part_path(const struct ct_detail_writer *writer, unsigned part) {
    return part == 1 ? ct_file_path("%s/detail.atf", writer->directory)
                     : ct_file_path("%s/detail_%u.atf", writer->directory, part);
}

/* Returns 0 or an errno. The file stays in use. */
static int begin_part(struct ct_detail_writer *writer) {
    int error = ct_file_open(&writer->file, &ct_file_writers, writer->place, part_path(writer, writer->part),
                             O_RDWR | O_CREAT | O_EXCL);
    if (error)
        return error;
    size_t done;
    writer->start += writer->records;
    writer->records = writer->length = writer->time_first = writer->time_last = 0;
    writer->index_first = writer->index_last = writer->crc = 0;
    writer->indexed = false;
    struct atf_detail_header header = header_of(writer, false);
    error = ct_file_write(writer->file.fd, &header, HEADER, 0, 0, &done);
    writer->bytes += done;
    return error;
}

/* The file is in use. */
static int finish_part(struct ct_detail_writer *writer) {
    struct atf_detail_header header = header_of(writer, true);
    struct atf_detail_footer footer = {
        .magic = {'2', 'D', 'T', 'A'},
        .crc32 = writer->crc,
        .event_count = writer->records,
        .bytes_length = writer->length,
        .time_start_ns = writer->time_first,
        .time_end_ns = writer->time_last,
    };
    size_t done;
    uint64_t end = HEADER + writer->length;
    int error = ct_file_write(writer->file.fd, &header, HEADER, 0, 0, &done);
    if (error)
        return error;
    error = ct_file_write(writer->file.fd, &footer, FOOTER, end, 0, &done);
    if (!error)
        writer->bytes += done;
    else if (done && ftruncate(writer->file.fd, (off_t)end) != 0)
        return error; /* readers accept a cut footer too */
    return error;
}

static int remember_part(struct ct_detail_writer *writer) {
    if (!ct_grow(&writer->old, &writer->old_room, writer->old_count, sizeof *writer->old, 16))
        return ENOMEM;
    writer->old[writer->old_count++] =
        (struct old_part){.number = writer->part, .records = writer->records, .time_last = writer->time_last};
    return 0;
}

static int close_part(struct ct_detail_writer *writer) {
    char *path = writer->series ? part_path(writer, writer->part) : NULL;
    int late = ct_file_close(&writer->file);
    if (path)
        ct_series_finished(writer->series, writer->place, path, HEADER + writer->length + FOOTER, writer->records);
    free(path);
    return late;
}

/* The file is in use before and after. */
static int next_part(struct ct_detail_writer *writer) {
    int error = finish_part(writer);
    ct_file_rest(&writer->file);
    int late = close_part(writer);
    if (!error)
        error = late ? late : writer->series ? 0 : remember_part(writer);
    if (error)
        return error;
    writer->part++;
    return begin_part(writer);
}

uint64_t ct_detail_writer_drop_before(struct ct_detail_writer *writer, uint64_t time_ns) {
    uint64_t gone = 0;
    size_t count = 0;
    while (count < writer->old_count && writer->old[count].time_last < time_ns) {
        char *path = part_path(writer, writer->old[count].number);
        int error = path ? ct_place_remove(writer->place, path) : ENOMEM;
        free(path);
        if (error && error != ENOENT)
            break; /* tries again next time */
        gone += writer->old[count++].records;
    }
    writer->old_count -= count;
    if (count && writer->old_count)
        memmove(writer->old, writer->old + count, writer->old_count * sizeof *writer->old);
    return gone;
}

/* ---- records ---- */

/* Counts the records that lie whole in the `size` bytes just written. Returns how many bytes they are. */
static size_t count_records(struct ct_detail_writer *writer, const uint8_t *bytes, size_t size) {
    size_t at = 0;
    struct atf_detail_event event;
    while (size - at >= RECORD) {
        memcpy(&event, bytes + at, RECORD);
        if (event.total_length > size - at)
            break;
        if (!writer->records++)
            writer->time_first = event.timestamp;
        writer->time_last = event.timestamp;
        if (event.index_seq != ATF_NO_INDEX) {
            if (!writer->indexed)
                writer->index_first = event.index_seq;
            writer->index_last = event.index_seq;
            writer->indexed = true;
        }
        at += event.total_length;
    }
    return at;
}

/* The file is in use. */
static int write_records(struct ct_detail_writer *writer, const uint8_t *bytes, size_t size) {
    size_t done;
    int error = ct_file_write(writer->file.fd, bytes, size, HEADER + writer->length, FOOTER, &done);
    size_t whole = count_records(writer, bytes, done);
    writer->crc = ct_crc32(writer->crc, bytes, whole);
    writer->length += whole;
    writer->bytes += whole;
    if (error && done != whole && ftruncate(writer->file.fd, (off_t)(HEADER + writer->length)) != 0)
        return error; /* readers stop at the last whole record */
    return error;
}

/* `record` is the next one to write. */
static bool is_full(const struct ct_detail_writer *writer, const uint8_t *record) {
    struct atf_detail_event event;
    memcpy(&event, record, RECORD);
    return writer->series && writer->records && ct_series_is_full(writer->series, event.timestamp);
}

/* Writes all of `bytes`; begins a new part whenever one is full. Returns 0 or an errno. */
static int write_parts(struct ct_detail_writer *writer, const uint8_t *bytes, size_t size) {
    int error = ct_file_use(&writer->file);
    if (error)
        return error;
    if ((writer->part_limit && writer->length >= writer->part_limit) || is_full(writer, bytes))
        error = next_part(writer);
    if (!error)
        error = write_records(writer, bytes, size);
    if (writer->series && writer->records)
        ct_series_grown(writer->series, HEADER + writer->length, writer->time_first, writer->time_last);
    if (writer->file.path)
        ct_file_rest(&writer->file);
    return error;
}

static void empty_buffer(struct ct_detail_writer *writer) {
    uint64_t before = writer->start + writer->records;
    if (!writer->used)
        return;
    if (!writer->error)
        writer->error = write_parts(writer, writer->buffer, writer->used);
    writer->dropped += writer->waiting - (writer->start + writer->records - before);
    writer->used = 0;
    writer->waiting = 0;
}

static void return_buffer(struct ct_detail_writer *writer) {
    if (writer->buffer)
        ct_buffer_give(writer->buffer, writer->lent_class);
    writer->buffer = NULL;
    writer->room = 0;
}

/* False: no memory for a buffer. */
static bool make_room(struct ct_detail_writer *writer, size_t length) {
    if (writer->buffer && writer->room - writer->used < length) {
        empty_buffer(writer);
        if (writer->size_class + 1 < CT_BUFFER_CLASSES) {
            writer->size_class++;
            return_buffer(writer);
        }
    }
    if (!writer->buffer) {
        writer->lent_class = writer->size_class;
        writer->buffer = ct_buffer_take(writer->lent_class);
        writer->room = writer->buffer ? (size_t)CT_BUFFER_MIN << writer->lent_class : 0;
    }
    return writer->buffer != NULL;
}

uint32_t ct_detail_writer_add(struct ct_detail_writer *writer, const struct atf_detail_event *event) {
    size_t length = event->total_length;
    bool room = make_room(writer, length);
    uint64_t sequence = writer->start + writer->records + writer->waiting;
    writer->added++;
    if (writer->error || length < RECORD || length > ATF_DETAIL_LENGTH_MAX || sequence >= ATF_NO_DETAIL) {
        writer->dropped++;
        return ATF_NO_DETAIL;
    }
    if (!room) { /* straight to the file */
        writer->error = write_parts(writer, (const uint8_t *)event, length);
        writer->dropped += writer->error != 0;
        return writer->error ? ATF_NO_DETAIL : (uint32_t)sequence;
    }
    memcpy(writer->buffer + writer->used, event, length);
    writer->used += length;
    writer->waiting++;
    if (ct_buffer_pressure()) {
        empty_buffer(writer);
        return_buffer(writer);
    }
    return (uint32_t)sequence;
}

int ct_detail_writer_flush(struct ct_detail_writer *writer) {
    /* A thread that has become quiet borrows a smaller buffer next time. */
    if (writer->size_class && writer->used < writer->room / 4)
        writer->size_class--;
    empty_buffer(writer);
    return_buffer(writer);
    return ct_file_status(writer->error);
}

/* ---- opening and closing ---- */

static void free_writer(struct ct_detail_writer *writer) {
    ct_place_drop(writer->place);
    free(writer->directory);
    free(writer->old);
    free(writer);
}

static int open_writer(struct ct_detail_writer *writer, struct ct_place *process, uint32_t id) {
    writer->place = ct_place_hold(process);
    int error = ct_file_thread_directory(process, id, &writer->directory);
    if (error)
        return error;
    error = begin_part(writer);
    if (writer->file.path)
        ct_file_rest(&writer->file);
    if (error)
        ct_file_close(&writer->file);
    return error;
}

int ct_detail_writer_open(struct ct_detail_writer **out, struct ct_place *process, uint32_t id, uint32_t tid) {
    struct ct_detail_writer *writer = calloc(1, sizeof *writer);
    *out = NULL;
    if (!writer)
        return CT_ERR_NO_MEMORY;
    writer->tid = tid;
    writer->part = 1;
    int error = open_writer(writer, process, id);
    if (error) {
        free_writer(writer);
        errno = error;
        return ct_file_status(error);
    }
    *out = writer;
    return 0;
}

int ct_detail_writer_close(struct ct_detail_writer *writer) {
    int status = ct_detail_writer_flush(writer), error = 0;
    if (writer->file.path && ct_file_use(&writer->file) == 0) {
        error = finish_part(writer);
        ct_file_rest(&writer->file);
    }
    int late = close_part(writer);
    if (!status)
        status = ct_file_status(error ? error : late);
    free_writer(writer);
    return status;
}

void ct_detail_writer_keep(struct ct_detail_writer *writer, struct ct_segments *segments) {
    writer->series = segments ? ct_series_open(segments) : NULL;
}

void ct_detail_writer_set_part(struct ct_detail_writer *writer, uint64_t bytes) {
    writer->part_limit = bytes;
}

int ct_detail_writer_error(const struct ct_detail_writer *writer) {
    return writer->error;
}

uint64_t ct_detail_writer_events(const struct ct_detail_writer *writer) {
    return writer->added;
}

uint64_t ct_detail_writer_dropped(const struct ct_detail_writer *writer) {
    return writer->dropped;
}

uint64_t ct_detail_writer_bytes(const struct ct_detail_writer *writer) {
    return writer->bytes;
}
