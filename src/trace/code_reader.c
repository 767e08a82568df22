/* SPDX-License-Identifier: Apache-2.0 */
/* See code_file.h. The file is mapped; nothing in it is trusted. */
#include "base/grow.h"
#include "trace/code_file.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include <contrail/status.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ct_code_reader {
    const uint8_t *bytes;
    size_t size, at;
    bool short_of; /* the last record is not whole */
    bool finished;
    struct ct_code_header header;
    struct ct_code_block *blocks;
    size_t count, room;
    uint64_t offset, position, time_ns;
    struct ct_code_counts counts;
    char problem[160];
};

static int complain(struct ct_code_reader *r, const char *what) {
    if (!r->problem[0])
        snprintf(r->problem, sizeof r->problem, "%s at byte %zu", what, r->at);
    return CT_ERR_BAD_FILE;
}

/* ---- bytes ---- */

static uint64_t get_number(struct ct_code_reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at >= r->size) {
            r->short_of = true;
            return 0;
        }
        uint8_t byte = r->bytes[r->at++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    complain(r, "a number that is too long");
    return 0;
}

static int64_t get_signed(struct ct_code_reader *r) {
    uint64_t value = get_number(r);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static const uint8_t *get_bytes(struct ct_code_reader *r, size_t size) {
    if (r->size - r->at < size) {
        r->short_of = true;
        return NULL;
    }
    r->at += size;
    return r->bytes + r->at - size;
}

static struct ct_code_block get_place(struct ct_code_reader *r, uint64_t size) {
    struct ct_code_block block = {.size = (uint32_t)size};
    block.module = (uint32_t)get_number(r);
    block.offset = r->offset + (uint64_t)get_signed(r);
    return block;
}

/* ---- records ---- */

static int define_block(struct ct_code_reader *r, uint64_t size) {
    struct ct_code_block block = get_place(r, size);
    uint64_t insns = get_number(r), sum = 0;
    if (r->short_of)
        return 0;
    if (insns >= CT_CODE_INSNS || size > UINT32_MAX)
        return complain(r, "a block that is too large");
    block.insns = (uint32_t)insns;
    if (!(block.lengths = get_bytes(r, insns)))
        return 0;
    for (uint64_t i = 0; i < insns; i++)
        sum += block.lengths[i];
    if (sum != size)
        return complain(r, "a block whose instructions have another length");
    if (!ct_grow(&r->blocks, &r->room, r->count, sizeof *r->blocks, 1024))
        return CT_ERR_NO_MEMORY;
    r->offset = block.offset;
    r->blocks[r->count++] = block;
    return 0;
}

static int read_block(struct ct_code_reader *r, struct ct_code_record *record, bool part, uint64_t number) {
    uint64_t executed = part ? get_number(r) : 0;
    if (r->short_of)
        return 0;
    if (number >= r->count)
        return complain(r, "a block that was not defined");
    record->what = CT_CODE_RAN;
    record->block = r->blocks[number];
    record->number = (uint32_t)number;
    record->executed = part ? (uint32_t)executed : record->block.insns;
    if (part && (!executed || executed >= record->block.insns))
        return complain(r, "a part that does not fit into its block");
    r->counts.blocks++;
    r->counts.insns += record->executed;
    return 1;
}

static int read_end(struct ct_code_reader *r, size_t start) {
    uint64_t blocks = get_number(r), compiled = get_number(r), lost = get_number(r);
    const uint8_t *crc = get_bytes(r, 4);
    uint32_t sum;
    if (r->short_of)
        return 0;
    memcpy(&sum, crc, sizeof sum);
    if (blocks != r->counts.blocks || compiled != r->counts.compiled || lost != r->counts.lost)
        return complain(r, "counts that are not those of the records before");
    if (sum != ct_crc32(0, r->bytes, start))
        return complain(r, "a checksum that is not that of the bytes before");
    if (r->at != r->size)
        return complain(r, "something after the last record");
    r->finished = true;
    return 0;
}

static int read_other(struct ct_code_reader *r, struct ct_code_record *record, uint64_t value, size_t start) {
    enum ct_code_other kind = value & 7;
    value >>= 3;
    switch (kind) {
    case CT_CODE_POSITION:
        r->position += value;
        return 0;
    case CT_CODE_TIME:
        r->time_ns += value;
        return 0;
    case CT_CODE_COMPILE:
        record->what = CT_CODE_COMPILED;
        record->block = get_place(r, value);
        if (r->short_of)
            return 0;
        r->offset = record->block.offset;
        r->counts.compiled++;
        return 1;
    case CT_CODE_GAP:
        record->what = CT_CODE_LOST;
        record->count = value;
        r->counts.lost += value;
        return 1;
    case CT_CODE_END:
        return read_end(r, start);
    default:
        return complain(r, "a record of an unknown kind");
    }
}

int ct_code_reader_next(struct ct_code_reader *r, struct ct_code_record *record) {
    int status = 0;
    while (!status && !r->finished && !r->short_of && r->at < r->size) {
        size_t start = r->at;
        uint64_t first = get_number(r);
        if (r->short_of)
            break;
        *record = (struct ct_code_record){.position = r->position, .time_ns = r->time_ns};
        switch ((enum ct_code_kind)(first & 3)) {
        case CT_CODE_BLOCK:
        case CT_CODE_PART:
            status = read_block(r, record, (first & 3) == CT_CODE_PART, first >> 2);
            break;
        case CT_CODE_DEFINE:
            status = define_block(r, first >> 2);
            break;
        case CT_CODE_OTHER:
            status = read_other(r, record, first >> 2, start);
            break;
        }
        if (r->problem[0])
            status = CT_ERR_BAD_FILE;
    }
    return status;
}

/* ---- opening and closing ---- */

static int map_file(struct ct_code_reader *r, int fd) {
    struct stat info;
    if (fstat(fd, &info))
        return CT_ERR_SYSTEM;
    r->size = (size_t)info.st_size;
    if (r->size < sizeof r->header)
        return 0; /* the recorder was killed right after creating it */
    void *bytes = mmap(NULL, r->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return CT_ERR_NO_MEMORY;
    r->bytes = bytes;
    memcpy(&r->header, bytes, sizeof r->header);
    r->at = sizeof r->header;
    return r->header.magic == CT_CODE_MAGIC && r->header.version == CT_CODE_VERSION ? 0 : CT_ERR_BAD_FILE;
}

int ct_code_reader_open(struct ct_code_reader **out, const char *directory, uint32_t id) {
    struct ct_code_reader *r = *out = calloc(1, sizeof *r);
    char *path = ct_file_path("%s/thread_%u/" CT_CODE_FILE, directory, id);
    int fd = r && path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    int status = !r || !path ? CT_ERR_NO_MEMORY : fd < 0 ? CT_ERR_NOT_FOUND : map_file(r, fd);
    if (fd >= 0)
        close(fd);
    free(path);
    if (status && r) {
        ct_code_reader_close(r);
        *out = NULL;
    } else if (!status && !r->bytes) {
        r->size = 0;
    }
    return status;
}

const char *ct_code_reader_problem(const struct ct_code_reader *r) {
    return r->problem;
}

bool ct_code_reader_finished(const struct ct_code_reader *r) {
    return r->finished;
}

struct ct_code_counts ct_code_reader_counts(const struct ct_code_reader *r) {
    return r->counts;
}

const struct ct_code_header *ct_code_reader_header(const struct ct_code_reader *r) {
    return &r->header;
}

void ct_code_reader_close(struct ct_code_reader *r) {
    if (!r)
        return;
    if (r->bytes)
        (void)munmap((void *)r->bytes, r->size);
    free(r->blocks);
    free(r);
}
