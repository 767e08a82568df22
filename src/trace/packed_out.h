/* SPDX-License-Identifier: Apache-2.0 */
/* A packed index file that is being written: header, blocks, tables, footer. Parts of packed_writer.c; one owner.
 *
 * Functions return 0 or an errno. The file must be in use. */
#ifndef CT_TRACE_PACKED_OUT_H
#define CT_TRACE_PACKED_OUT_H

#include "trace/file.h"
#include "trace/packed_block.h"
#include "trace/segments.h"

#define CT_PACKED_SMALL 1024u      /* a block of fewer events is small */
#define CT_PACKED_STACK (1u << 16) /* most open calls that a segment begins with */

struct ct_packed_out {
    struct ct_file file;
    struct ct_place *place;
    const char *directory;
    uint32_t tid;
    uint8_t arch;             /* of the header */
    struct ct_series *series; /* NULL: one file for all events */
    unsigned number;          /* of this file */
    struct ct_pack *pack;     /* while something is written */
    uint64_t next_seq;        /* of the next event */
    uint64_t closed_bytes;    /* of files before this one */
    uint64_t *stack;          /* with segments: functions of open calls, 0: not known */
    size_t depth, stack_room;

    /* the current file */
    uint64_t end; /* where the next block goes */
    uint64_t loose;
    unsigned loose_blocks;
    uint32_t loose_events;
    uint64_t first_seq, time_first, time_last;
    struct ctp_entry *entries; /* entries that are in no table yet */
    size_t entry_count, entry_room;
    uint64_t last_table, block_count, link_count;
    /* a merge failed half way: the file gets no footer, so that readers search for its blocks themselves */
    bool broken;
};

/* Creates the next file, with its header. The file is in use afterwards, also when the header could not be written. */
int ct_packed_out_begin(struct ct_packed_out *packed);
/* Writes tables and footer, when everything else is written. */
int ct_packed_out_finish(struct ct_packed_out *packed);
/* Call this after the file was closed. */
void ct_packed_out_closed(struct ct_packed_out *packed, const char *path);
/* Finishes and closes the file, and begins the next segment, whose first event has this time. */
int ct_packed_out_next(struct ct_packed_out *packed, uint64_t time_ns);
/* Writes a block at the end: all of it, or nothing. */
int ct_packed_out_append(struct ct_packed_out *packed, const uint8_t *block, size_t size);
/* Writes a table of the blocks that are in none. No block may be loose. */
int ct_packed_out_table(struct ct_packed_out *packed);
/* Leaves the loose blocks as they are, for good. */
void ct_packed_out_seal(struct ct_packed_out *packed);
/* Notes a block for the next table. */
int ct_packed_out_remember(struct ct_packed_out *packed, const uint8_t *block, uint64_t offset);
void ct_packed_out_forget(struct ct_packed_out *packed, uint64_t offset);
/* Bytes below the file-size limit that the end of the file will need. */
size_t ct_packed_out_margin(const struct ct_packed_out *packed);

/* ---- packed_merge.c ---- */

/* Merges the loose blocks and new events into one block. *merged false: the blocks stay as they are, and the events are
 * not written. */
int ct_packed_out_merge(struct ct_packed_out *packed, const struct atf_index_event *events, size_t count, bool *merged);

#endif
