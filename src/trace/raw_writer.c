/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one thread's index.atf.
 *
 * The file is always readable: first a header with counts of zero, then whole events; at the end the header again with
 * the counts, and the footer last. (In this order, bytes of a footer are never taken for events: a header with counts
 * says where the events end.) When writing fails, the file ends with a whole event.
 *
 * Links are written into events that are already in the file, also into those of earlier files; the checksum is
 * adjusted. */
#include "trace/crc32.h"
#include "trace/file.h"
#include "trace/sink.h"
#include "trace/writer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER      sizeof(struct atf_index_header)
#define EVENT       sizeof(struct atf_index_event)
#define FOOTER      sizeof(struct atf_index_footer)
#define SEGMENT_RUN 1024u /* events between two checks whether a segment is full */
#define WINDOW      128u  /* events that are read and written together for their links */

struct raw {
    struct ct_file file;
    struct ct_place *place; /* directory of the process */
    const char *directory;  /* thread_N within it */
    uint32_t tid;
    uint8_t arch;
    struct ct_series *series; /* NULL: files are never deleted */
    bool segmented;           /* files contain the position at which they begin */
    unsigned part;            /* 1: index.atf, 2: index_2.atf … */
    uint64_t part_limit;
    uint64_t *starts; /* positions of the first events of earlier parts */
    uint64_t bytes;

    /* the current part */
    uint64_t first_seq;
    uint64_t written; /* events in the file */
    uint64_t time_first, time_last;
    uint32_t crc;
};

/* ---- one part ---- */

static struct atf_index_header header_of(const struct raw *raw, bool finished) {
    struct atf_index_header header = {
        .magic = {'A', 'T', 'I', '2'},
        .endian = ATF_LITTLE_ENDIAN,
        .version = ATF_VERSION,
        .arch = raw->arch,
        .os = ATF_OS_LINUX,
        .thread_id = raw->tid,
        .clock_type = ATF_CLOCK_BOOTTIME,
        .event_size = EVENT,
        .events_offset = HEADER,
    };
    if (raw->segmented) /* the position at which the segment begins */
        memcpy(header.reserved, &raw->first_seq, sizeof header.reserved);
    if (finished) {
        header.flags = ct_sink_has_detail(raw->place, raw->directory) ? ATF_HAS_DETAIL : 0;
        header.event_count = (uint32_t)raw->written;
        header.footer_offset = HEADER + raw->written * EVENT;
        header.time_start_ns = raw->time_first;
        header.time_end_ns = raw->time_last;
    }
    return header;
}

/* Returns 0 or an errno. The file stays in use. */
static int begin_part(struct raw *raw) {
    char *path = ct_sink_path(raw->directory, "atf", raw->part, raw->segmented);
    int error = ct_file_open(&raw->file, &ct_file_writers, raw->place, path, O_RDWR | O_CREAT | O_EXCL);
    if (error)
        return error;
    size_t done;
    raw->first_seq += raw->written;
    raw->written = raw->time_first = raw->time_last = raw->crc = 0;
    struct atf_index_header header = header_of(raw, false);
    error = ct_file_write(raw->file.fd, &header, HEADER, 0, 0, &done);
    raw->bytes += done;
    return error;
}

/* The file is in use. */
static int finish_part(struct raw *raw) {
    struct atf_index_header header = header_of(raw, true);
    struct atf_index_footer footer = {
        .magic = {'2', 'I', 'T', 'A'},
        .crc32 = raw->crc,
        .event_count = raw->written,
        .time_start_ns = raw->time_first,
        .time_end_ns = raw->time_last,
        .bytes_written = raw->written * EVENT,
    };
    size_t done;
    int error = ct_file_write(raw->file.fd, &header, HEADER, 0, 0, &done);
    if (error)
        return error;
    error = ct_file_write(raw->file.fd, &footer, FOOTER, header.footer_offset, 0, &done);
    if (!error)
        raw->bytes += done;
    else if (done && ftruncate(raw->file.fd, (off_t)header.footer_offset) != 0)
        return error; /* readers accept a cut footer too */
    return error;
}

static int close_part(struct raw *raw) {
    char *path = raw->series && raw->file.path ? strdup(raw->file.path) : NULL;
    int late = ct_file_close(&raw->file);
    if (path)
        ct_series_finished(raw->series, raw->place, path, HEADER + raw->written * EVENT + FOOTER, raw->written);
    free(path);
    return late;
}

static int next_part(struct raw *raw) {
    int error = finish_part(raw);
    ct_file_rest(&raw->file);
    int late = close_part(raw);
    uint64_t *starts = realloc(raw->starts, raw->part * sizeof *starts);
    if (starts) {
        raw->starts = starts;
        starts[raw->part - 1] = raw->first_seq;
    }
    if (error || late || !starts)
        return error ? error : late ? late : ENOMEM;
    raw->part++;
    return begin_part(raw);
}

/* ---- events ---- */

/* Writes up to `count` events; the checksum covers those that were written. The file is in use. */
static int write_events(struct raw *raw, const struct atf_index_event *events, size_t count) {
    size_t done;
    uint64_t offset = HEADER + raw->written * EVENT;
    int error = ct_file_write(raw->file.fd, events, count * EVENT, offset, FOOTER, &done);
    size_t whole = done / EVENT;
    if (whole) {
        raw->crc = ct_crc32(raw->crc, events, whole * EVENT);
        if (!raw->written)
            raw->time_first = events[0].timestamp_ns;
        raw->time_last = events[whole - 1].timestamp_ns;
        raw->written += whole;
        raw->bytes += whole * EVENT;
        if (raw->series)
            ct_series_grown(raw->series, HEADER + raw->written * EVENT, raw->time_first, raw->time_last);
    }
    if (error && done % EVENT && ftruncate(raw->file.fd, (off_t)(HEADER + raw->written * EVENT)) != 0)
        return error; /* readers stop at the last whole event */
    return error;
}

static int raw_write(void *sink, const struct atf_index_event *events, size_t count, size_t *done) {
    struct raw *raw = sink;
    *done = 0;
    int error = raw->file.path ? ct_file_use(&raw->file) : EBADF;
    if (error)
        return error;
    while (!error && *done < count) {
        if (raw->written >= raw->part_limit ||
            (raw->series && ct_series_is_full(raw->series, events[*done].timestamp_ns)))
            error = next_part(raw);
        if (error)
            break;
        size_t n = count - *done;
        if (raw->series && n > SEGMENT_RUN)
            n = SEGMENT_RUN;
        if (n > raw->part_limit - raw->written)
            n = (size_t)(raw->part_limit - raw->written);
        uint64_t before = raw->written;
        error = write_events(raw, events + *done, n);
        *done += (size_t)(raw->written - before);
    }
    if (raw->file.path)
        ct_file_rest(&raw->file);
    return error;
}

/* ---- links ---- */

/* A part that links are written into. */
struct patched {
    int fd;
    uint64_t first_seq, count;
    uint32_t change; /* of the checksum */
};

/* Writes the links of WINDOW events from `first` on, a position in the part. `links` is sorted. */
static int patch_window(struct patched *part, const struct ct_link *links, size_t count) {
    struct atf_index_event events[WINDOW], changes[WINDOW];
    uint64_t first = links[0].index_seq - part->first_seq, last = links[count - 1].index_seq - part->first_seq;
    size_t size = (size_t)(links[count - 1].index_seq - links[0].index_seq + 1) * EVENT, done;
    uint64_t offset = HEADER + first * EVENT;
    int error = ct_file_read(part->fd, events, size, offset, &done);
    if (error || done != size)
        return error ? error : EIO;
    memset(changes, 0, size);
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)(links[i].index_seq - part->first_seq - first);
        changes[at].detail_seq ^= events[at].detail_seq ^ links[i].detail_seq;
        events[at].detail_seq = links[i].detail_seq;
    }
    /* Once for the whole window: moving a difference over the bytes that follow costs more than the window's
     * checksum. */
    part->change ^= ct_crc32_shift(ct_crc32_difference(changes, size), (part->count - last - 1) * EVENT);
    return ct_file_write(part->fd, events, size, offset, 0, &done);
}

static int patch_part(struct patched *part, const struct ct_link *links, size_t count) {
    int error = 0;
    for (size_t n; count && !error; links += n, count -= n) {
        for (n = 1; n < count && links[n].index_seq - links[0].index_seq < WINDOW;)
            n++;
        error = patch_window(part, links, n);
    }
    return error;
}

/* Links in a finished part: its footer is written again. A part that was deleted needs none. */
static int patch_finished(struct raw *raw, unsigned number, uint64_t end, const struct ct_link *links, size_t count) {
    char *path = ct_sink_path(raw->directory, "atf", number, raw->segmented);
    struct atf_index_footer footer;
    size_t done;
    if (!path)
        return ENOMEM;
    int fd = ct_file_open_in(raw->place, path, O_RDWR);
    free(path);
    if (fd < 0)
        return fd == -ENOENT ? 0 : -fd;
    struct patched part = {.fd = fd, .first_seq = raw->starts[number - 1], .count = end - raw->starts[number - 1]};
    uint64_t offset = HEADER + part.count * EVENT;
    int error = ct_file_read(fd, &footer, FOOTER, offset, &done);
    if (!error && done == FOOTER)
        error = patch_part(&part, links, count);
    footer.crc32 ^= part.change;
    if (!error && done == FOOTER)
        error = ct_file_write(fd, &footer, FOOTER, offset, 0, &done);
    close(fd);
    return error;
}

static int patch_open(struct raw *raw, const struct ct_link *links, size_t count) {
    int error = raw->file.path ? ct_file_use(&raw->file) : EBADF;
    if (error)
        return error;
    struct patched part = {.fd = raw->file.fd, .first_seq = raw->first_seq, .count = raw->written};
    error = patch_part(&part, links, count);
    raw->crc ^= part.change;
    ct_file_rest(&raw->file);
    return error;
}

static int raw_link(void *sink, struct ct_link *links, size_t count) {
    struct raw *raw = sink;
    int error = 0;
    ct_links_sort(links, count);
    while (count && links[count - 1].index_seq >= raw->first_seq + raw->written)
        count--; /* links of events that are not there */
    for (unsigned part = 1; part <= raw->part && count && !error; part++) {
        uint64_t end = part == raw->part ? UINT64_MAX : part + 1 == raw->part ? raw->first_seq : raw->starts[part];
        size_t n = 0;
        while (n < count && links[n].index_seq < end)
            n++;
        if (n)
            error = part == raw->part ? patch_open(raw, links, n) : patch_finished(raw, part, end, links, n);
        links += n;
        count -= n;
    }
    return error;
}

/* ---- the sink ---- */

static int raw_open(void **sink, const struct ct_sink_options *options) {
    struct raw *raw = calloc(1, sizeof *raw);
    if (!raw)
        return ENOMEM;
    raw->place = options->place;
    raw->directory = options->directory;
    raw->tid = options->tid;
    raw->arch = options->arch;
    raw->series = options->series;
    raw->segmented = options->series || options->first_seq;
    raw->first_seq = options->first_seq;
    raw->part = 1;
    raw->part_limit = CT_THREAD_PART_EVENTS;
    int error = begin_part(raw);
    if (raw->file.path)
        ct_file_rest(&raw->file);
    if (error) {
        ct_file_close(&raw->file);
        free(raw);
        return error;
    }
    *sink = raw;
    return 0;
}

static int raw_finish(void *sink) {
    struct raw *raw = sink;
    int error = 0;
    if (raw->file.path && ct_file_use(&raw->file) == 0) {
        error = finish_part(raw);
        ct_file_rest(&raw->file);
    }
    int late = close_part(raw);
    free(raw->starts);
    free(raw);
    return error ? error : late;
}

static uint64_t raw_bytes(const void *sink) {
    return ((const struct raw *)sink)->bytes;
}

static void raw_set_part(void *sink, uint64_t events) {
    struct raw *raw = sink;
    raw->part_limit = events && events < CT_THREAD_PART_EVENTS ? events : CT_THREAD_PART_EVENTS;
}

const struct ct_sink_kind ct_raw_sink = {raw_open, raw_write, NULL, raw_link, raw_finish, raw_bytes, raw_set_part};
