/* SPDX-License-Identifier: Apache-2.0 */
/* See code_file.h. Records go into a buffer, which is written when it is full and when the thread is flushed. */
#include "base/grow.h"
#include "trace/code_file.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM    (256u << 10)
#define MARGIN  (CT_CODE_INSNS + 128u) /* more than one record needs */
#define UNKNOWN 0u

struct ct_code_writer {
    struct ct_place *place; /* directory of the process, held */
    char *path;             /* within the place */
    uint8_t *buffer;
    size_t used;
    uint64_t size; /* of the file */
    uint32_t crc;
    int error;         /* errno of the first failure */
    uint32_t *numbers; /* by the caller's number: number in the file plus 1; UNKNOWN */
    size_t number_room;
    uint32_t defined;
    uint64_t offset; /* of the last block that was written */
    uint64_t position, time_ns, told_position, told_time;
    struct ct_code_counts counts;
};

/* ---- bytes ---- */

static void write_buffer(struct ct_code_writer *w) {
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

static void put_number(struct ct_code_writer *w, uint64_t value) {
    do
        w->buffer[w->used++] = (uint8_t)((value & 0x7f) | (value > 0x7f) << 7);
    while (value >>= 7);
}

static void put_signed(struct ct_code_writer *w, int64_t value) {
    put_number(w, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void begin_record(struct ct_code_writer *w, enum ct_code_kind kind, uint64_t value) {
    if (w->used > ROOM - MARGIN)
        write_buffer(w);
    put_number(w, value << 2 | kind);
}

static void begin_other(struct ct_code_writer *w, enum ct_code_other kind, uint64_t value) {
    begin_record(w, CT_CODE_OTHER, value << 3 | kind);
}

static void put_place(struct ct_code_writer *w, const struct ct_code_block *block) {
    put_number(w, block->module);
    put_signed(w, (int64_t)(block->offset - w->offset));
    w->offset = block->offset;
}

/* ---- records ---- */

void ct_code_writer_at(struct ct_code_writer *w, uint64_t position, uint64_t time_ns) {
    w->position = position;
    w->time_ns = time_ns;
}

static void tell_place(struct ct_code_writer *w) {
    if (w->position > w->told_position) {
        begin_other(w, CT_CODE_POSITION, w->position - w->told_position);
        w->told_position = w->position;
    }
    if (w->time_ns > w->told_time) {
        begin_other(w, CT_CODE_TIME, w->time_ns - w->told_time);
        w->told_time = w->time_ns;
    }
}

bool ct_code_writer_knows(const struct ct_code_writer *w, uint32_t number) {
    return number < w->number_room && w->numbers[number] != UNKNOWN;
}

void ct_code_writer_define(struct ct_code_writer *w, uint32_t number, const struct ct_code_block *block) {
    if (block->insns >= CT_CODE_INSNS ||
        !ct_grow_zeroed(&w->numbers, &w->number_room, number, sizeof *w->numbers, 1024))
        return;
    begin_record(w, CT_CODE_DEFINE, block->size);
    put_place(w, block);
    put_number(w, block->insns);
    memcpy(w->buffer + w->used, block->lengths, block->insns);
    w->used += block->insns;
    w->numbers[number] = ++w->defined;
}

void ct_code_writer_block(struct ct_code_writer *w, uint32_t number, uint32_t insns) {
    if (!ct_code_writer_knows(w, number)) {
        ct_code_writer_lost(w, 1);
        return;
    }
    tell_place(w);
    begin_record(w, insns ? CT_CODE_PART : CT_CODE_BLOCK, w->numbers[number] - 1);
    if (insns)
        put_number(w, insns);
    w->counts.blocks++;
}

void ct_code_writer_compiled(struct ct_code_writer *w, const struct ct_code_block *block) {
    tell_place(w);
    begin_other(w, CT_CODE_COMPILE, block->size);
    put_place(w, block);
    w->counts.compiled++;
}

void ct_code_writer_lost(struct ct_code_writer *w, uint64_t count) {
    tell_place(w);
    begin_other(w, CT_CODE_GAP, count);
    w->counts.lost += count;
}

/* ---- opening and closing ---- */

static void free_writer(struct ct_code_writer *w) {
    ct_place_drop(w->place);
    free(w->path);
    free(w->buffer);
    free(w->numbers);
    free(w);
}

int ct_code_writer_open(struct ct_code_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                        uint32_t events) {
    const struct ct_code_header header = {
        .magic = CT_CODE_MAGIC, .version = CT_CODE_VERSION, .thread_id = tid, .events = events};
    struct ct_code_writer *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return CT_ERR_NO_MEMORY;
    char *thread;
    w->place = ct_place_hold(process);
    int error = ct_file_thread_directory(process, id, &thread);
    w->path = error ? NULL : ct_file_path("%s/" CT_CODE_FILE, thread);
    w->buffer = malloc(ROOM);
    free(thread);
    int fd = error ? -error : -ENOMEM;
    if (w->path && w->buffer)
        fd = ct_file_open_in(process, w->path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0) {
        free_writer(w);
        return ct_file_status(-fd);
    }
    close(fd);
    memcpy(w->buffer, &header, w->used = sizeof header);
    *out = w;
    return 0;
}

int ct_code_writer_flush(struct ct_code_writer *w) {
    write_buffer(w);
    return ct_file_status(w->error);
}

int ct_code_writer_close(struct ct_code_writer *w, uint64_t *bytes) {
    write_buffer(w);
    uint32_t crc = w->crc;
    begin_other(w, CT_CODE_END, 0);
    put_number(w, w->counts.blocks);
    put_number(w, w->counts.compiled);
    put_number(w, w->counts.lost);
    memcpy(w->buffer + w->used, &crc, sizeof crc);
    w->used += sizeof crc;
    int status = ct_code_writer_flush(w);
    *bytes = w->size;
    free_writer(w);
    return status;
}

uint64_t ct_code_writer_bytes(const struct ct_code_writer *w) {
    return w->size;
}
