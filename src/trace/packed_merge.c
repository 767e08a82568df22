/* SPDX-License-Identifier: Apache-2.0 */
/* Merges small blocks, so that the file of a quiet thread does not consist of headers.
 *
 * A kill at any moment loses nothing that was written: the merged block is written first after the blocks that it
 * replaces, then over them; then the file is cut after it. Readers of a file without a footer take each position from
 * the block that has the most events around it, and search for the next block after bytes that are not one. */
#include "trace/buffers.h"
#include "trace/packed_out.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK sizeof(struct ctp_block)

/* Replaces the loose blocks. */
struct merge {
    struct atf_index_event *events; /* of the loose blocks, in a borrowed buffer */
    size_t count;
    uint8_t *bytes; /* the loose blocks */
    size_t size;
};

static void release_merge(struct merge *merge) {
    if (merge->events)
        ct_buffer_give(merge->events, CT_BUFFER_CLASSES - 1);
    free(merge->bytes);
}

/* Reads the loose blocks back. False: it cannot be done now, they stay. */
static bool read_loose(struct ct_packed_out *packed, struct merge *merge) {
    struct ct_unpack unpack = {0};
    size_t done;
    bool good = true;
    *merge = (struct merge){.size = (size_t)(packed->end - packed->loose)};
    merge->bytes = malloc(merge->size);
    merge->events = ct_buffer_take(CT_BUFFER_CLASSES - 1);
    if (!merge->bytes || !merge->events ||
        ct_file_read(packed->file.fd, merge->bytes, merge->size, packed->loose, &done) != 0 || done != merge->size)
        return false;
    for (size_t at = 0; at < merge->size && good;) {
        struct ctp_block header;
        memcpy(&header, merge->bytes + at, BLOCK);
        if (!ct_block_plausible(&header, merge->size - at))
            good = false;
        else if (header.type == CTP_EVENTS)
            good = merge->count + header.count <= CT_PACK_EVENTS && ct_block_intact(merge->bytes + at) &&
                   ct_unpack_begin(&unpack, merge->bytes + at, packed->tid) == 0 &&
                   ct_unpack_events(&unpack, merge->events + merge->count, header.count, &done) == 0;
        merge->count += header.type == CTP_EVENTS ? header.count : 0;
        at += header.size;
    }
    ct_unpack_free(&unpack);
    return good && merge->count <= CT_PACK_EVENTS;
}

/* Writes after the loose blocks, then over them, then cuts the rest off. A failure of the first step leaves the file as
 * it was. */
static int replace_blocks(struct ct_packed_out *packed, const uint8_t *bytes, size_t size) {
    uint64_t copy = packed->loose + size > packed->end ? packed->loose + size : packed->end;
    size_t done;
    int error = ct_file_write(packed->file.fd, bytes, size, copy, ct_packed_out_margin(packed), &done);
    if (error) {
        (void)!ftruncate(packed->file.fd, (off_t)packed->end);
        return error;
    }
    error = ct_file_write(packed->file.fd, bytes, size, packed->loose, 0, &done);
    if (!error && ftruncate(packed->file.fd, (off_t)(packed->loose + size)) != 0)
        error = errno;
    packed->broken = error != 0;
    return error;
}

/* Puts the merged block into merge->bytes, then the blocks of links that were between the others. */
static bool assemble_blocks(struct merge *merge, const uint8_t *block, size_t size) {
    uint8_t *bytes = malloc(merge->size + size);
    size_t used = size;
    if (!bytes)
        return false;
    memcpy(bytes, block, size);
    for (size_t at = 0; at < merge->size;) {
        struct ctp_block header;
        memcpy(&header, merge->bytes + at, BLOCK);
        if (header.type != CTP_EVENTS) {
            memcpy(bytes + used, merge->bytes + at, header.size);
            used += header.size;
        }
        at += header.size;
    }
    free(merge->bytes);
    merge->bytes = bytes;
    merge->size = used;
    return true;
}

/* Adds the entries of the blocks from packed->loose on. */
static int remember_all(struct ct_packed_out *packed, const struct merge *merge) {
    int error = 0;
    ct_packed_out_forget(packed, packed->loose);
    for (size_t at = 0; at < merge->size && !error;) {
        struct ctp_block header;
        memcpy(&header, merge->bytes + at, BLOCK);
        error = ct_packed_out_remember(packed, merge->bytes + at, packed->loose + at);
        at += header.size;
    }
    return error;
}

int ct_packed_out_merge(struct ct_packed_out *packed, const struct atf_index_event *events, size_t count,
                        bool *merged) {
    struct merge merge;
    int error = 0;
    size_t size;
    *merged = false;
    if (read_loose(packed, &merge) && merge.count && merge.count + count <= CT_PACK_EVENTS) {
        uint64_t first = packed->next_seq - merge.count;
        if (count)
            memcpy(merge.events + merge.count, events, count * sizeof *events);
        merge.count += count;
        const uint8_t *block = ct_pack_events(packed->pack, merge.events, merge.count, first, packed->tid, &size);
        int failed = assemble_blocks(&merge, block, size) ? replace_blocks(packed, merge.bytes, merge.size) : ENOMEM;
        error = packed->broken ? failed : 0;
        *merged = !failed;
        if (*merged) {
            error = remember_all(packed, &merge);
            packed->end = packed->loose + merge.size;
            packed->loose_blocks = 1;
            packed->loose_events = (uint32_t)merge.count;
            if (merge.count >= CT_PACKED_SMALL)
                ct_packed_out_seal(packed);
        }
    }
    release_merge(&merge);
    if (!*merged)
        ct_packed_out_seal(packed); /* the blocks stay as they are */
    return error;
}
