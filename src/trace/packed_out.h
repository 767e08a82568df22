/* A packed index file that is being written: header, blocks, tables, footer. Parts of packed_writer.c; one owner.
 *
 * Functions return 0 or an errno; the file is in use. */
#ifndef CT_TRACE_PACKED_OUT_H
#define CT_TRACE_PACKED_OUT_H

#include "trace/file.h"
#include "trace/packed_block.h"
#include "trace/segments.h"

#define CT_PACKED_SMALL 1024u      /* a block of less events is small */
#define CT_PACKED_STACK (1u << 16) /* open calls that a segment begins with, at most */

struct ct_packed_out {
    struct ct_file file;
    struct ct_place *place;
    const char *directory;
    uint32_t tid;
    uint8_t arch;             /* of the header */
    struct ct_series *series; /* NULL: one file for all */
    unsigned number;          /* of this file */
    struct ct_pack *pack;     /* while something is written */
    uint64_t next_seq;        /* of the next event */
    uint64_t closed_bytes;    /* of files before this one */
    uint64_t *stack;          /* with segments: functions of open calls, 0: not known */
    size_t depth, stack_room;

    /* of this file */
    uint64_t end; /* where the next block goes */
    uint64_t loose;
    unsigned loose_blocks;
    uint32_t loose_events;
    uint64_t first_seq, time_first, time_last;
    struct ctp_entry *entries; /* that are in no table yet */
    size_t entry_count, entry_room;
    uint64_t last_table, block_count, link_count;
    bool broken; /* a merge failed half way: it gets no footer, so that readers look for its blocks themselves */
};

/* The next file, with its header; in use afterwards also when that could not be written. */
int ct_packed_out_begin(struct ct_packed_out *packed);
/* Tables and footer, when everything is there. */
int ct_packed_out_finish(struct ct_packed_out *packed);
/* The file was closed. */
void ct_packed_out_closed(struct ct_packed_out *packed, const char *path);
/* Finishes the file, closes it and begins the next segment, whose first event is of that time. */
int ct_packed_out_next(struct ct_packed_out *packed, uint64_t time_ns);
/* A block at the end: all of it, or nothing. */
int ct_packed_out_append(struct ct_packed_out *packed, const uint8_t *block, size_t size);
/* A table of the blocks that are in none. Nothing is loose. */
int ct_packed_out_table(struct ct_packed_out *packed);
/* The loose blocks stay as they are. */
void ct_packed_out_seal(struct ct_packed_out *packed);
/* For the next table. */
int ct_packed_out_remember(struct ct_packed_out *packed, const uint8_t *block, uint64_t offset);
void ct_packed_out_forget(struct ct_packed_out *packed, uint64_t offset);
/* Bytes below the file-size limit that the end of the file will need. */
size_t ct_packed_out_margin(const struct ct_packed_out *packed);

/* ---- packed_merge.c ---- */

/* The loose blocks and new events become one block. *merged false: they stay as they are, and the events are not written. */
int ct_packed_out_merge(struct ct_packed_out *packed, const struct atf_index_event *events, size_t count, bool *merged);

#endif
