/* SPDX-License-Identifier: Apache-2.0 */
/* The file itself: see packed_out.h. It always ends with a whole block, or with one that readers recognise as cut. */
#include "trace/packed_out.h"
#include "base/grow.h"
#include "trace/crc32.h"
#include "trace/sink.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER sizeof(struct ctp_header)
#define BLOCK  sizeof(struct ctp_block)
#define FOOTER sizeof(struct ctp_footer)

/* ---- the file ---- */

static size_t table_size(const struct ct_packed_out *packed) {
    return BLOCK + sizeof(struct ctp_table) + packed->entry_count * sizeof *packed->entries;
}

size_t ct_packed_out_margin(const struct ct_packed_out *packed) {
    return table_size(packed) + 2 * sizeof *packed->entries + FOOTER;
}

/* Writes all bytes, or leaves none of them in the file. */
static int write_bytes(struct ct_packed_out *packed, const void *bytes, size_t size, uint64_t offset,
                       size_t left_free) {
    size_t done;
    int error = ct_file_write(packed->file.fd, bytes, size, offset, left_free, &done);
    if (error && done && ftruncate(packed->file.fd, (off_t)offset) != 0)
        return error; /* readers recognise a cut block too */
    return error;
}

static int write_header(struct ct_packed_out *packed) {
    struct ctp_header header = {
        .magic = {'C', 'T', 'P', '1'},
        .endian = ATF_LITTLE_ENDIAN,
        .version = CTP_VERSION,
        .arch = packed->arch,
        .os = ATF_OS_LINUX,
        .flags = packed->link_count || ct_sink_has_detail(packed->place, packed->directory) ? ATF_HAS_DETAIL : 0,
        .thread_id = packed->tid,
        .clock_type = ATF_CLOCK_BOOTTIME,
        .first_seq = packed->first_seq,
    };
    size_t done;
    header.crc = ct_crc32(0, &header, offsetof(struct ctp_header, crc));
    return ct_file_write(packed->file.fd, &header, HEADER, 0, 0, &done);
}

/* ---- blocks ---- */

int ct_packed_out_remember(struct ct_packed_out *packed, const uint8_t *block, uint64_t offset) {
    struct ctp_block header;
    memcpy(&header, block, sizeof header);
    if (!ct_grow(&packed->entries, &packed->entry_room, packed->entry_count, sizeof *packed->entries, 8))
        return ENOMEM;
    packed->entries[packed->entry_count++] = (struct ctp_entry){.offset = offset,
                                                                .first_seq = header.first_seq,
                                                                .time_first_ns = header.time_first_ns,
                                                                .count = header.count,
                                                                .type = header.type,
                                                                .span = header.span,
                                                                .size = header.size};
    return 0;
}

void ct_packed_out_forget(struct ct_packed_out *packed, uint64_t offset) {
    while (packed->entry_count && packed->entries[packed->entry_count - 1].offset >= offset)
        packed->entry_count--;
}

void ct_packed_out_seal(struct ct_packed_out *packed) {
    packed->loose = packed->end;
    packed->loose_blocks = packed->loose_events = 0;
}

int ct_packed_out_append(struct ct_packed_out *packed, const uint8_t *block, size_t size) {
    int error = ct_packed_out_remember(packed, block, packed->end);
    if (error)
        return error;
    error = write_bytes(packed, block, size, packed->end, ct_packed_out_margin(packed));
    if (error)
        packed->entry_count--;
    else
        packed->end += size;
    return error;
}

int ct_packed_out_table(struct ct_packed_out *packed) {
    size_t size = table_size(packed);
    struct ctp_block header = {.type = CTP_TABLE, .count = (uint32_t)packed->entry_count};
    struct ctp_table table = {.previous = packed->last_table};
    uint8_t *block = malloc(size + 8);
    if (!block)
        return ENOMEM;
    memcpy(block, &header, BLOCK);
    memcpy(block + BLOCK, &table, sizeof table);
    if (packed->entry_count)
        memcpy(block + BLOCK + sizeof table, packed->entries, packed->entry_count * sizeof *packed->entries);
    size = ct_pack_seal(block, size);
    int error = write_bytes(packed, block, size, packed->end, FOOTER);
    free(block);
    if (error)
        return error;
    packed->last_table = packed->end;
    packed->end += size;
    packed->block_count += packed->entry_count;
    packed->entry_count = 0;
    ct_packed_out_seal(packed);
    return 0;
}

/* ---- files ---- */

static int write_end(struct ct_packed_out *packed) {
    struct ctp_footer footer = {
        .magic = {'1', 'P', 'T', 'C'},
        .event_count = packed->next_seq - packed->first_seq,
        .time_start_ns = packed->time_first,
        .time_end_ns = packed->time_last,
        .link_count = packed->link_count,
    };
    int error = ct_packed_out_table(packed);
    if (error)
        return error;
    footer.table_offset = packed->last_table;
    footer.block_count = packed->block_count;
    footer.crc = ct_crc32(0, &footer.table_offset, sizeof footer - offsetof(struct ctp_footer, table_offset));
    error = write_bytes(packed, &footer, FOOTER, packed->end, 0);
    if (!error)
        packed->end += FOOTER;
    return error;
}

int ct_packed_out_finish(struct ct_packed_out *packed) {
    bool merged;
    int error = packed->broken ? EIO : packed->loose_blocks > 1 ? ct_packed_out_merge(packed, NULL, 0, &merged) : 0;
    ct_packed_out_seal(packed);
    if (!error)
        error = write_header(packed);
    if (!error)
        error = write_end(packed);
    return error;
}

/* Writes the open calls, for readers that begin here. */
static int write_stack(struct ct_packed_out *packed, uint64_t time_ns) {
    struct ctp_block header = {.type = CTP_STACK,
                               .count = (uint32_t)packed->depth,
                               .first_seq = packed->next_seq,
                               .time_first_ns = time_ns,
                               .time_last_ns = time_ns,
                               .depth = (uint32_t)packed->depth};
    uint64_t last = 0;
    if (packed->depth > CT_PACKED_STACK)
        return 0;
    uint8_t *block = malloc(BLOCK + 10 * packed->depth + 8), *p = block + BLOCK;
    if (!block)
        return ENOMEM;
    memcpy(block, &header, BLOCK);
    for (size_t i = 0; i < packed->depth; i++) {
        p = ct_varint_put(p, ct_zigzag(packed->stack[i] - last));
        last = packed->stack[i];
    }
    int error = ct_packed_out_append(packed, block, ct_pack_seal(block, (size_t)(p - block)));
    free(block);
    ct_packed_out_seal(packed);
    return error;
}

int ct_packed_out_begin(struct ct_packed_out *packed) {
    char *path = ct_sink_path(packed->directory, "ctp", packed->number, packed->series != NULL);
    int error = ct_file_open(&packed->file, &ct_file_writers, packed->place, path, O_RDWR | O_CREAT | O_EXCL);
    if (error)
        return error;
    packed->end = HEADER;
    packed->first_seq = packed->next_seq;
    packed->time_first = packed->time_last = 0;
    packed->entry_count = 0;
    packed->last_table = packed->block_count = packed->link_count = 0;
    ct_packed_out_seal(packed);
    return write_header(packed);
}

void ct_packed_out_closed(struct ct_packed_out *packed, const char *path) {
    if (packed->series)
        ct_series_finished(packed->series, packed->place, path, packed->end, packed->next_seq - packed->first_seq);
    packed->closed_bytes += packed->end;
    packed->end = 0;
}

int ct_packed_out_next(struct ct_packed_out *packed, uint64_t time_ns) {
    int error = ct_packed_out_finish(packed);
    char *path = strdup(packed->file.path);
    ct_file_rest(&packed->file);
    int late = ct_file_close(&packed->file);
    if (path)
        ct_packed_out_closed(packed, path);
    free(path);
    if (error || late || !path)
        return error ? error : late ? late : ENOMEM;
    packed->number++;
    error = ct_packed_out_begin(packed);
    return error ? error : write_stack(packed, time_ns);
}
