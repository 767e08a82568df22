/* Writing one thread's index.atf.
 *
 * The file is always readable: a header with counts of zero first, then whole events, at the end the header again with the
 * counts, and the footer last. (That order, so that bytes of a footer are never taken for events: a header with counts says
 * where the events end.)
 * The first failure is kept. From then on events are counted and dropped, and what the file holds ends with a whole event. */
#include "trace/buffers.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER sizeof(struct atf_index_header)
#define EVENT  sizeof(struct atf_index_event)
#define FOOTER sizeof(struct atf_index_footer)

struct ct_thread_writer {
    struct ct_file file;
    char *directory; /* …/thread_N */
    uint32_t tid;
    unsigned part; /* 1: index.atf, 2: index_2.atf … */
    uint64_t part_limit;

    /* of this part */
    uint64_t written; /* events in the file */
    uint64_t time_first, time_last;
    uint32_t crc;

    uint64_t committed, dropped, bytes;
    int error; /* errno of the first failure */

    struct atf_index_event *buffer; /* borrowed, or `few`, or NULL */
    size_t room, used;
    unsigned size_class;           /* of the buffer to borrow next, grows with the thread's rate */
    unsigned lent_class;           /* of the borrowed one */
    struct atf_index_event few[8]; /* when there is no memory */
};

/* ---- one part ---- */

static struct atf_index_header header_of(const struct ct_thread_writer *writer, bool finished) {
    struct atf_index_header header = {
        .magic = {'A', 'T', 'I', '2'},
        .endian = ATF_LITTLE_ENDIAN,
        .version = ATF_VERSION,
        .arch = ATF_ARCH_X86_64,
        .os = ATF_OS_LINUX,
        .thread_id = writer->tid,
        .clock_type = ATF_CLOCK_BOOTTIME,
        .event_size = EVENT,
        .events_offset = HEADER,
    };
    if (finished) {
        header.event_count = (uint32_t)writer->written;
        header.footer_offset = HEADER + writer->written * EVENT;
        header.time_start_ns = writer->time_first;
        header.time_end_ns = writer->time_last;
    }
    return header;
}

/* Returns 0 or an errno; the file stays in use. */
static int begin_part(struct ct_thread_writer *writer) {
    char suffix[16] = "";
    if (writer->part > 1)
        snprintf(suffix, sizeof suffix, "_%u", writer->part);
    char *path = ct_file_path("%s/index%s.atf", writer->directory, suffix);
    int error = ct_file_open(&writer->file, &ct_file_writers, path, O_RDWR | O_CREAT | O_EXCL);
    if (error)
        return error;
    size_t done;
    struct atf_index_header header = header_of(writer, false);
    writer->written = writer->time_first = writer->time_last = writer->crc = 0;
    error = ct_file_write(writer->file.fd, &header, HEADER, 0, 0, &done);
    writer->bytes += done;
    return error;
}

/* The file is in use. */
static int finish_part(struct ct_thread_writer *writer) {
    struct atf_index_header header = header_of(writer, true);
    struct atf_index_footer footer = {
        .magic = {'2', 'I', 'T', 'A'},
        .crc32 = writer->crc,
        .event_count = writer->written,
        .time_start_ns = writer->time_first,
        .time_end_ns = writer->time_last,
        .bytes_written = writer->written * EVENT,
    };
    size_t done;
    int error = ct_file_write(writer->file.fd, &header, HEADER, 0, 0, &done);
    if (error)
        return error;
    error = ct_file_write(writer->file.fd, &footer, FOOTER, header.footer_offset, 0, &done);
    if (!error)
        writer->bytes += done;
    else if (done && ftruncate(writer->file.fd, (off_t)header.footer_offset) != 0)
        return error; /* readers know a cut footer too */
    return error;
}

static int next_part(struct ct_thread_writer *writer) {
    int error = finish_part(writer);
    ct_file_rest(&writer->file);
    int late = ct_file_close(&writer->file);
    if (error || late)
        return error ? error : late;
    writer->part++;
    return begin_part(writer);
}

/* ---- events ---- */

/* Up to `count` events; the checksum is taken of those that got there. The file is in use. */
static int write_events(struct ct_thread_writer *writer, const struct atf_index_event *events, size_t count) {
    size_t done;
    uint64_t offset = HEADER + writer->written * EVENT;
    int error = ct_file_write(writer->file.fd, events, count * EVENT, offset, FOOTER, &done);
    size_t whole = done / EVENT;
    if (whole) {
        writer->crc = ct_crc32(writer->crc, events, whole * EVENT);
        if (!writer->written)
            writer->time_first = events[0].timestamp_ns;
        writer->time_last = events[whole - 1].timestamp_ns;
        writer->written += whole;
        writer->bytes += whole * EVENT;
    }
    if (error && done % EVENT && ftruncate(writer->file.fd, (off_t)(HEADER + writer->written * EVENT)) != 0)
        return error; /* readers stop at the last whole event */
    return error;
}

/* Returns 0 or an errno; *at: how many are in files. */
static int write_parts(struct ct_thread_writer *writer, size_t *at) {
    int error = ct_file_use(&writer->file);
    *at = 0;
    if (error)
        return error;
    while (!error && *at < writer->used) {
        if (writer->written >= writer->part_limit)
            error = next_part(writer);
        if (error)
            break;
        size_t count = writer->used - *at;
        if (count > writer->part_limit - writer->written)
            count = (size_t)(writer->part_limit - writer->written);
        uint64_t before = writer->written;
        error = write_events(writer, writer->buffer + *at, count);
        *at += (size_t)(writer->written - before);
    }
    if (writer->file.path)
        ct_file_rest(&writer->file);
    return error;
}

static void empty_buffer(struct ct_thread_writer *writer) {
    size_t at = 0;
    if (!writer->used)
        return;
    if (!writer->error)
        writer->error = write_parts(writer, &at);
    writer->dropped += writer->used - at;
    writer->used = 0;
}

static void return_buffer(struct ct_thread_writer *writer) {
    if (writer->buffer && writer->buffer != writer->few)
        ct_buffer_give(writer->buffer, writer->lent_class);
    writer->buffer = NULL;
    writer->room = 0;
}

static void borrow_buffer(struct ct_thread_writer *writer) {
    writer->lent_class = writer->size_class;
    writer->buffer = ct_buffer_take(writer->lent_class);
    writer->room = ((size_t)CT_BUFFER_MIN << writer->lent_class) / EVENT;
    if (!writer->buffer) {
        writer->buffer = writer->few;
        writer->room = sizeof writer->few / EVENT;
    }
}

struct atf_index_event *ct_thread_writer_reserve(struct ct_thread_writer *writer, size_t *room) {
    if (writer->buffer && writer->used == writer->room) {
        empty_buffer(writer);
        if (writer->size_class + 1 < CT_BUFFER_CLASSES) {
            writer->size_class++;
            return_buffer(writer);
        }
    }
    if (!writer->buffer)
        borrow_buffer(writer);
    *room = writer->room - writer->used;
    return writer->buffer + writer->used;
}

void ct_thread_writer_commit(struct ct_thread_writer *writer, size_t count) {
    writer->used += count;
    writer->committed += count;
    if (ct_buffer_pressure()) {
        empty_buffer(writer);
        return_buffer(writer);
    }
}

int ct_thread_writer_flush(struct ct_thread_writer *writer) {
    /* A thread that has become quiet borrows less next time. */
    if (writer->size_class && writer->used < writer->room / 4)
        writer->size_class--;
    empty_buffer(writer);
    return_buffer(writer);
    return ct_file_status(writer->error);
}

/* ---- a writer's life ---- */

static void free_writer(struct ct_thread_writer *writer) {
    free(writer->directory);
    free(writer);
}

static int open_writer(struct ct_thread_writer *writer, const char *directory, uint32_t id) {
    /* Files are opened again later, maybe from another working directory. */
    char *real = realpath(directory, NULL);
    if (!real)
        return errno;
    writer->directory = ct_file_path("%s/thread_%u", real, id);
    free(real);
    if (!writer->directory)
        return ENOMEM;
    if (mkdir(writer->directory, 0777) != 0 && errno != EEXIST)
        return errno;
    int error = begin_part(writer);
    if (writer->file.path)
        ct_file_rest(&writer->file);
    if (error)
        ct_file_close(&writer->file);
    return error;
}

int ct_thread_writer_open(struct ct_thread_writer **out, const char *directory, uint32_t id, uint32_t tid) {
    struct ct_thread_writer *writer = calloc(1, sizeof *writer);
    *out = NULL;
    if (!writer)
        return CT_ERR_NO_MEMORY;
    writer->tid = tid;
    writer->part = 1;
    writer->part_limit = CT_THREAD_PART_EVENTS;
    int error = open_writer(writer, directory, id);
    if (error) {
        free_writer(writer);
        errno = error;
        return ct_file_status(error);
    }
    *out = writer;
    return 0;
}

int ct_thread_writer_close(struct ct_thread_writer *writer) {
    int status = ct_thread_writer_flush(writer), error = 0;
    if (writer->file.path && ct_file_use(&writer->file) == 0) {
        error = finish_part(writer);
        ct_file_rest(&writer->file);
    }
    int late = ct_file_close(&writer->file);
    if (!status)
        status = ct_file_status(error ? error : late);
    free_writer(writer);
    return status;
}

void ct_thread_writer_set_part(struct ct_thread_writer *writer, uint64_t events) {
    writer->part_limit = events && events < CT_THREAD_PART_EVENTS ? events : CT_THREAD_PART_EVENTS;
}

int ct_thread_writer_error(const struct ct_thread_writer *writer) {
    return writer->error;
}

uint64_t ct_thread_writer_events(const struct ct_thread_writer *writer) {
    return writer->committed;
}

uint64_t ct_thread_writer_dropped(const struct ct_thread_writer *writer) {
    return writer->dropped;
}

uint64_t ct_thread_writer_bytes(const struct ct_thread_writer *writer) {
    return writer->bytes;
}
