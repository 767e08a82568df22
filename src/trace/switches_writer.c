/* SPDX-License-Identifier: Apache-2.0 */
/* See switches_file.h. Records go into a small buffer, because there may be thousands of threads. */
#include "trace/switches_file.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM   4096u
#define MARGIN 64u /* more than one record needs */

struct ct_switches_writer {
    struct ct_place *place; /* directory of the process, held */
    char *path, *old;       /* within the place */
    uint64_t limit;         /* of one file */
    uint64_t size;          /* of the file */
    uint64_t last_ns;       /* end of the last span */
    uint64_t spans;
    uint32_t tid, crc;
    int error; /* errno of the first failure */
    size_t used;
    uint8_t buffer[ROOM];
};

static void write_buffer(struct ct_switches_writer *w) {
    size_t done = 0;
    if (!w->used || w->error) {
        w->used = 0;
        return;
    }
    int fd = ct_file_open_in(w->place, w->path, O_WRONLY);
    w->error = fd < 0 ? -fd : ct_file_write(fd, w->buffer, w->used, w->size, 0, &done);
    if (fd >= 0 && close(fd) && !w->error)
        w->error = errno;
    w->crc = ct_crc32(w->crc, w->buffer, done);
    w->size += done;
    w->used = 0;
}

static void put_number(struct ct_switches_writer *w, uint64_t value) {
    do
        w->buffer[w->used++] = (uint8_t)((value & 0x7f) | (value > 0x7f) << 7);
    while (value >>= 7);
}

/* ---- files ---- */

static void begin_file(struct ct_switches_writer *w) {
    const struct ct_switches_header header = {
        .magic = CT_SWITCHES_MAGIC, .version = CT_SWITCHES_VERSION, .thread_id = w->tid, .begins_ns = w->last_ns};
    int fd = ct_file_open_in(w->place, w->path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        w->error = -fd;
    else
        close(fd);
    w->size = w->spans = 0;
    w->crc = 0;
    memcpy(w->buffer, &header, w->used = sizeof header);
}

static void finish_file(struct ct_switches_writer *w) {
    write_buffer(w);
    uint32_t crc = w->crc;
    put_number(w, CT_SWITCHES_END);
    put_number(w, w->spans);
    memcpy(w->buffer + w->used, &crc, sizeof crc);
    w->used += sizeof crc;
    write_buffer(w);
}

static void next_file(struct ct_switches_writer *w) {
    finish_file(w);
    if (w->error)
        return;
    w->error = ct_place_replace(w->place, w->path, w->old);
    if (!w->error)
        begin_file(w);
}

void ct_switches_writer_put(struct ct_switches_writer *w, const struct ct_switch_span *span) {
    uint64_t from = span->from_ns > w->last_ns ? span->from_ns : w->last_ns;
    if (span->to_ns <= from || w->error)
        return;
    if (w->size + w->used > w->limit)
        next_file(w);
    if (w->used > ROOM - MARGIN)
        write_buffer(w);
    put_number(w, (from - w->last_ns) << 2 | (uint64_t)span->kind);
    put_number(w, span->to_ns - from);
    w->last_ns = span->to_ns;
    w->spans++;
}

/* ---- opening and closing ---- */

static int free_writer(struct ct_switches_writer *w) {
    int status = ct_file_status(w->error);
    ct_place_drop(w->place);
    free(w->path);
    free(w->old);
    free(w);
    return status;
}

int ct_switches_writer_open(struct ct_switches_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                            uint64_t begins_ns, uint64_t limit) {
    struct ct_switches_writer *w = calloc(1, sizeof *w);
    char *thread = NULL;
    *out = NULL;
    if (!w)
        return CT_ERR_NO_MEMORY;
    w->place = ct_place_hold(process);
    w->tid = tid;
    w->limit = limit / 2;
    w->last_ns = begins_ns;
    w->error = ct_file_thread_directory(process, id, &thread);
    if (!w->error) {
        w->path = ct_file_path("%s/" CT_SWITCHES_FILE, thread);
        w->old = ct_file_path("%s/" CT_SWITCHES_OLD, thread);
        w->error = w->path && w->old ? 0 : ENOMEM;
    }
    free(thread);
    if (!w->error)
        begin_file(w);
    if (w->error)
        return free_writer(w);
    *out = w;
    return 0;
}

int ct_switches_writer_flush(struct ct_switches_writer *w) {
    write_buffer(w);
    return ct_file_status(w->error);
}

int ct_switches_writer_close(struct ct_switches_writer *w) {
    finish_file(w);
    return free_writer(w);
}
