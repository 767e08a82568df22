/* SPDX-License-Identifier: Apache-2.0 */
/* See code_file.h. Records go into a buffer, which is written when it is full and when the thread is flushed. */
#include "base/grow.h"
#include "trace/code_file.h"
#include "trace/byte_file.h"
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
    struct ct_byte_file out;
    uint32_t *numbers; /* by the caller's number: number in the file plus 1; UNKNOWN */
    size_t number_room;
    uint32_t defined;
    uint64_t offset; /* of the last block that was written */
    uint64_t position, time_ns, told_position, told_time;
    struct ct_code_counts counts;
};

/* ---- bytes ---- */

static void put_signed(struct ct_code_writer *w, int64_t value) {
    ct_byte_file_number(&w->out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void begin_record(struct ct_code_writer *w, enum ct_code_kind kind, uint64_t value) {
    if (w->out.used > ROOM - MARGIN)
        ct_byte_file_flush(&w->out);
    ct_byte_file_number(&w->out, value << 2 | kind);
}

static void begin_other(struct ct_code_writer *w, enum ct_code_other kind, uint64_t value) {
    begin_record(w, CT_CODE_OTHER, value << 3 | kind);
}

static void put_place(struct ct_code_writer *w, const struct ct_code_block *block) {
    ct_byte_file_number(&w->out, block->module);
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
    ct_byte_file_number(&w->out, block->insns);
    memcpy(w->out.buffer + w->out.used, block->lengths, block->insns);
    w->out.used += block->insns;
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
        ct_byte_file_number(&w->out, insns);
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
    ct_place_drop(w->out.place);
    free(w->out.path);
    free(w->out.buffer);
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
    w->out.place = ct_place_hold(process);
    int error = ct_file_thread_directory(process, id, &thread);
    w->out.path = error ? NULL : ct_file_path("%s/" CT_CODE_FILE, thread);
    w->out.buffer = malloc(ROOM);
    free(thread);
    int fd = error ? -error : -ENOMEM;
    if (w->out.path && w->out.buffer)
        fd = ct_file_open_in(process, w->out.path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0) {
        free_writer(w);
        return ct_file_status(-fd);
    }
    close(fd);
    memcpy(w->out.buffer, &header, w->out.used = sizeof header);
    *out = w;
    return 0;
}

int ct_code_writer_flush(struct ct_code_writer *w) {
    ct_byte_file_flush(&w->out);
    return ct_file_status(w->out.error);
}

int ct_code_writer_close(struct ct_code_writer *w, uint64_t *bytes) {
    ct_byte_file_flush(&w->out);
    uint32_t crc = w->out.crc;
    begin_other(w, CT_CODE_END, 0);
    ct_byte_file_number(&w->out, w->counts.blocks);
    ct_byte_file_number(&w->out, w->counts.compiled);
    ct_byte_file_number(&w->out, w->counts.lost);
    memcpy(w->out.buffer + w->out.used, &crc, sizeof crc);
    w->out.used += sizeof crc;
    int status = ct_code_writer_flush(w);
    *bytes = w->out.size;
    free_writer(w);
    return status;
}

uint64_t ct_code_writer_bytes(const struct ct_code_writer *w) {
    return w->out.size;
}
