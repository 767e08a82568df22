/* SPDX-License-Identifier: Apache-2.0 */
/* See switches_file.h. Records go into a small buffer, because there may be thousands of threads. */
#include "trace/switches_file.h"
#include "trace/byte_file.h"
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
    struct ct_byte_file out;
    char *old;        /* path of the file before, within the place */
    uint64_t limit;   /* of one file */
    uint64_t last_ns; /* end of the last span */
    uint64_t spans;
    uint32_t tid;
    uint8_t bytes[ROOM];
};

/* ---- files ---- */

static void begin_file(struct ct_switches_writer *w) {
    const struct ct_switches_header header = {
        .magic = CT_SWITCHES_MAGIC, .version = CT_SWITCHES_VERSION, .thread_id = w->tid, .begins_ns = w->last_ns};
    int fd = ct_file_open_in(w->out.place, w->out.path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        w->out.error = -fd;
    else
        close(fd);
    w->out.size = w->spans = 0;
    w->out.crc = 0;
    memcpy(w->out.buffer, &header, w->out.used = sizeof header);
}

static void finish_file(struct ct_switches_writer *w) {
    ct_byte_file_flush(&w->out);
    uint32_t crc = w->out.crc;
    ct_byte_file_number(&w->out, CT_SWITCHES_END);
    ct_byte_file_number(&w->out, w->spans);
    memcpy(w->out.buffer + w->out.used, &crc, sizeof crc);
    w->out.used += sizeof crc;
    ct_byte_file_flush(&w->out);
}

static void next_file(struct ct_switches_writer *w) {
    finish_file(w);
    if (w->out.error)
        return;
    w->out.error = ct_place_replace(w->out.place, w->out.path, w->old);
    if (!w->out.error)
        begin_file(w);
}

void ct_switches_writer_put(struct ct_switches_writer *w, const struct ct_switch_span *span) {
    uint64_t from = span->from_ns > w->last_ns ? span->from_ns : w->last_ns;
    if (span->to_ns <= from || w->out.error)
        return;
    if (w->out.size + w->out.used > w->limit)
        next_file(w);
    if (w->out.used > ROOM - MARGIN)
        ct_byte_file_flush(&w->out);
    ct_byte_file_number(&w->out, (from - w->last_ns) << 2 | (uint64_t)span->kind);
    ct_byte_file_number(&w->out, span->to_ns - from);
    w->last_ns = span->to_ns;
    w->spans++;
}

/* ---- opening and closing ---- */

static int free_writer(struct ct_switches_writer *w) {
    int status = ct_file_status(w->out.error);
    ct_place_drop(w->out.place);
    free(w->out.path);
    free(w->old);
    free(w);
    return status;
}

int ct_switches_writer_open(struct ct_switches_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                            uint64_t begins_ns, uint64_t limit) {
    return ct_switches_writer_open_as(out, process, id, tid, begins_ns, limit, CT_SWITCHES_FILE);
}

int ct_switches_writer_open_as(struct ct_switches_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                               uint64_t begins_ns, uint64_t limit, const char *name) {
    struct ct_switches_writer *w = calloc(1, sizeof *w);
    char *thread = NULL;
    *out = NULL;
    if (!w)
        return CT_ERR_NO_MEMORY;
    w->out.place = ct_place_hold(process);
    w->out.buffer = w->bytes;
    w->tid = tid;
    w->limit = limit / 2;
    w->last_ns = begins_ns;
    w->out.error = ct_file_thread_directory(process, id, &thread);
    if (!w->out.error) {
        w->out.path = ct_file_path("%s/%s", thread, name);
        w->old = ct_file_path("%s/%s" CT_SWITCHES_BEFORE, thread, name);
        w->out.error = w->out.path && w->old ? 0 : ENOMEM;
    }
    free(thread);
    if (!w->out.error)
        begin_file(w);
    if (w->out.error)
        return free_writer(w);
    *out = w;
    return 0;
}

int ct_switches_writer_flush(struct ct_switches_writer *w) {
    ct_byte_file_flush(&w->out);
    return ct_file_status(w->out.error);
}

int ct_switches_writer_close(struct ct_switches_writer *w) {
    finish_file(w);
    return free_writer(w);
}
