/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the events of one thread: a buffer in front of the files (sink.h).
 *
 * The first failure is kept. After it events are counted and dropped. */
#include "isa/machine.h"
#include "trace/buffers.h"
#include "trace/file.h"
#include "trace/pack_pool.h"
#include "trace/packed_columns.h"
#include "trace/sink.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <contrail/status.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EVENT      sizeof(struct atf_index_event)
#define LINKS      512u /* links that wait at most */
#define MANY_LINKS 128u /* worth a write of their own when one happens anyway */
#define MOST       8u   /* blocks that are not written yet, at most */
#define PLAIN      15u  /* blocks whose times are left as they are after one whose times did not shrink */

struct ct_thread_writer {
    const struct ct_sink_kind *kind;
    void *sink;
    struct ct_series *series;
    struct ct_place *place; /* directory of the process, held */
    char *directory;        /* thread_N within it */

    uint64_t committed, dropped;
    int error; /* errno of the first failure */
    void (*writing)(void *arg, bool begins);
    void *writing_arg;

    struct ct_link *links; /* links that are in no file yet */
    size_t link_count;

    struct atf_index_event *buffer; /* borrowed, or `few`, or NULL */
    size_t room, used;
    unsigned size_class;           /* of the next buffer to borrow, grows with the thread's rate */
    unsigned lent_class;           /* of the borrowed buffer */
    struct atf_index_event few[8]; /* when there is no memory */

    uint32_t tid;
    bool hurried;
    unsigned plain_blocks;       /* whose times are not worth a try to compress them: it was in vain */
    struct ct_pack *block;       /* borrowed: events that are packed already, after those of the buffer; NULL: none */
    struct ct_pack *ended[MOST]; /* blocks before it: ended, or in the pool. The oldest one is first */
    size_t ended_count;
};

static void note_writing(const struct ct_thread_writer *writer, bool begins) {
    if (writer->writing)
        writer->writing(writer->writing_arg, begins);
}

/* ---- events ---- */

static void empty_buffer(struct ct_thread_writer *writer) {
    size_t done = 0;
    if (!writer->used)
        return;
    note_writing(writer, true);
    if (!writer->error)
        writer->error = writer->kind->write(writer->sink, writer->buffer, writer->used, &done);
    note_writing(writer, false);
    writer->dropped += writer->used - done;
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

/* ---- blocks ---- */

/* Writes the oldest block, once it is complete. */
static void write_oldest(struct ct_thread_writer *writer) {
    struct ct_pack *pack = writer->ended[0];
    struct ct_pack_columns *c = ct_pack_columns(pack);
    ct_pack_pool_wait(pack);
    if (!c->plain_times && c->stiff_times && c->count == CT_PACK_EVENTS)
        writer->plain_blocks = PLAIN;
    note_writing(writer, true);
    if (!writer->error)
        writer->error = writer->kind->write_block(writer->sink, pack, c->job.block, c->job.size);
    note_writing(writer, false);
    if (writer->error)
        writer->dropped += c->count;
    ct_pack_give(pack);
    writer->ended_count--;
    memmove(writer->ended, writer->ended + 1, writer->ended_count * sizeof *writer->ended);
}

/* Ends the block. A full one may be compressed by another thread meanwhile. */
static void end_block(struct ct_thread_writer *writer) {
    struct ct_pack *pack = writer->block;
    struct ct_pack_columns *c = ct_pack_columns(pack);
    uint64_t first_seq = writer->committed - c->count;
    if (writer->ended_count == MOST)
        write_oldest(writer);
    c->plain_times = writer->plain_blocks != 0;
    writer->plain_blocks -= writer->plain_blocks != 0;
    if (c->count < CT_PACK_EVENTS || writer->error || !ct_pack_pool_give(pack, first_seq)) {
        c->plain_times |= writer->hurried;
        c->job = (struct ct_pack_job){.done = true};
        c->job.block = ct_pack_end(pack, first_seq, &c->job.size);
    }
    writer->ended[writer->ended_count++] = pack;
    writer->block = NULL;
}

static void write_blocks(struct ct_thread_writer *writer) {
    if (writer->block && ct_pack_columns(writer->block)->count)
        end_block(writer);
    while (writer->ended_count)
        write_oldest(writer);
    ct_pack_give(writer->block);
    writer->block = NULL;
}

struct ct_pack *ct_thread_writer_block(struct ct_thread_writer *writer, size_t *room) {
    if (writer->block && ct_pack_columns(writer->block)->count == CT_PACK_EVENTS) {
        end_block(writer);
        while (writer->ended_count && ct_pack_pool_is_done(writer->ended[0]))
            write_oldest(writer);
    }
    if (!writer->block && writer->kind->write_block && !writer->error) {
        empty_buffer(writer);
        if ((writer->block = ct_pack_take()))
            ct_pack_begin(writer->block, writer->tid);
    }
    *room = writer->block ? CT_PACK_EVENTS - ct_pack_columns(writer->block)->count : 0;
    return writer->block;
}

void ct_thread_writer_hurry(struct ct_thread_writer *writer, bool hurry) {
    writer->hurried = hurry;
}

void ct_thread_writer_packed(struct ct_thread_writer *writer, size_t count) {
    writer->committed += count;
}

struct atf_index_event *ct_thread_writer_reserve(struct ct_thread_writer *writer, size_t *room) {
    write_blocks(writer);
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

/* ---- links ---- */

/* Writes links after their events. */
static void write_links(struct ct_thread_writer *writer) {
    empty_buffer(writer);
    write_blocks(writer);
    note_writing(writer, true);
    if (writer->link_count && !writer->error)
        writer->error = writer->kind->link(writer->sink, writer->links, writer->link_count);
    note_writing(writer, false);
    writer->link_count = 0;
    free(writer->links);
    writer->links = NULL;
}

void ct_thread_writer_link(struct ct_thread_writer *writer, uint64_t index_seq, uint32_t detail_seq) {
    if (!writer->links)
        writer->links = malloc(LINKS * sizeof *writer->links);
    if (!writer->links)
        return;
    writer->links[writer->link_count++] = (struct ct_link){index_seq, detail_seq};
    if (writer->link_count == LINKS)
        write_links(writer);
}

void ct_thread_writer_put_links(struct ct_thread_writer *writer) {
    if (writer->link_count)
        write_links(writer);
}

int ct_thread_writer_flush(struct ct_thread_writer *writer) {
    /* A thread that has become quiet borrows a smaller buffer next time. */
    if (writer->size_class && writer->used < writer->room / 4)
        writer->size_class--;
    empty_buffer(writer);
    write_blocks(writer);
    if (writer->link_count >= MANY_LINKS)
        write_links(writer);
    return_buffer(writer);
    return ct_file_status(writer->error);
}

/* ---- opening and closing ---- */

static void free_writer(struct ct_thread_writer *writer) {
    ct_place_drop(writer->place);
    free(writer->directory);
    free(writer->links);
    free(writer);
}

static int open_writer(struct ct_thread_writer *writer, struct ct_place *process, uint32_t id, uint32_t tid,
                       const struct ct_trace_format *format) {
    writer->place = ct_place_hold(process);
    writer->tid = tid;
    writer->writing = format->writing;
    writer->writing_arg = format->writing_arg;
    int error = ct_file_thread_directory(process, id, &writer->directory);
    if (error)
        return error;
    if (format->segments && !(writer->series = ct_series_open(format->segments)))
        return ENOMEM;
    writer->kind = format->encoding == CT_SESSION_FORMAT_PACKED ? &ct_packed_sink : &ct_raw_sink;
    const struct ct_sink_options options = {
        .place = process,
        .directory = writer->directory,
        .tid = tid,
        .series = writer->series,
        .first_seq = format->first_seq,
        .arch = format->arch ? format->arch : ct_machine_host()->arch,
    };
    return writer->kind->open(&writer->sink, &options);
}

int ct_thread_writer_open_as(struct ct_thread_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                             const struct ct_trace_format *format) {
    struct ct_thread_writer *writer = calloc(1, sizeof *writer);
    *out = NULL;
    if (!writer)
        return CT_ERR_NO_MEMORY;
    int error = open_writer(writer, process, id, tid, format);
    if (error) {
        free_writer(writer);
        errno = error;
        return ct_file_status(error);
    }
    *out = writer;
    return 0;
}

int ct_thread_writer_open(struct ct_thread_writer **out, struct ct_place *process, uint32_t id, uint32_t tid) {
    return ct_thread_writer_open_as(out, process, id, tid,
                                    &(struct ct_trace_format){.encoding = CT_SESSION_FORMAT_ATF2});
}

int ct_thread_writer_close(struct ct_thread_writer *writer) {
    write_links(writer);
    int status = ct_thread_writer_flush(writer), error = writer->kind->finish(writer->sink);
    free_writer(writer);
    return status ? status : ct_file_status(error);
}

void ct_thread_writer_set_part(struct ct_thread_writer *writer, uint64_t events) {
    writer->kind->set_part(writer->sink, events);
}

struct ct_series *ct_thread_writer_series(const struct ct_thread_writer *writer) {
    return writer->series;
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
    return writer->kind->bytes(writer->sink);
}
