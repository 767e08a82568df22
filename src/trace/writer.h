/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the trace of a process: manifest.json, symbols, thread_N/index.atf (raw ATF v2).
 *
 * One owner (the drain thread). Everything that was flushed survives our death: headers are written first, footers
 * last, and the manifest is replaced atomically. No function here converts time or knows shared memory.
 *
 * No write raises SIGXFSZ: the file-size limit is checked before each. Up to 512 thread files (or half of
 * RLIMIT_NOFILE) are open at a time, for all writers of the process together; they are opened again when needed. */
#ifndef CT_TRACE_WRITER_H
#define CT_TRACE_WRITER_H

#include "abi/atf.h"
#include "trace/place.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- directories ---- */

/* Makes root/session_YYYYMMDD_HHMMSS (local time; with _2, _3 ... when it exists), and root with its parents if
 * missing, as place.h describes. `group` may read them, or CT_PLACE_NO_GROUP. `path` receives the name, for people.
 * CT_ERR_PERMISSION_DENIED (also a read-only file system), CT_ERR_NO_SPACE, CT_ERR_BAD_FILE (a component is not a
 * directory), CT_ERR_INVALID_ARGUMENT (`size` is too small, or the name too long), CT_ERR_SYSTEM. errno is kept. */
int ct_trace_make_session(struct ct_place **out, const char *root, gid_t group, char *path, size_t size);
/* Makes pid_N in the session; `name` receives its name there. */
int ct_trace_make_process(struct ct_place **out, struct ct_place *session, int pid, char *name, size_t size);

/* ---- one thread ---- */

struct ct_thread_writer;
/* Makes thread_ID/index.atf in a process's directory, with its header. `tid` (the kernel's number) is the thread_id of
 * the header, and must be that of each event. */
int ct_thread_writer_open(struct ct_thread_writer **out, struct ct_place *process, uint32_t id, uint32_t tid);
/* Like ct_thread_writer_open, in another encoding: packed makes thread_ID/index.ctp. */
struct ct_segments;
struct ct_trace_format {
    int encoding;                 /* enum ct_session_format of contrail/session.h */
    struct ct_segments *segments; /* deletes old files (trace/segments.h); NULL: everything stays */
    uint64_t first_seq;           /* raw: position of the first event, for a trace whose older events were deleted */
    uint8_t arch;                 /* of the header, for a trace of another machine; 0: this one */
    /* Called before and after each write, and what belongs to it: only then does the writer wait for the disk. NULL:
     * nobody asks. */
    void (*writing)(void *arg, bool begins);
    void *writing_arg;
};
int ct_thread_writer_open_as(struct ct_thread_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                             const struct ct_trace_format *format);
/* Returns where the next events go: the caller fills in up to *room of them, then commits. Never NULL after open.
 * Flushes when full: a negative status is then kept, and flush returns it. Valid until the next commit, flush or
 * close. */
struct atf_index_event *ct_thread_writer_reserve(struct ct_thread_writer *writer, size_t *room);
void ct_thread_writer_commit(struct ct_thread_writer *writer, size_t count);
/* Another way for files that have blocks: returns the block to which the next events go, with room for at least one.
 * The caller puts some in (trace/packed_columns.h), then calls ct_thread_writer_packed. Valid until another function of
 * the writer is called. NULL: use ct_thread_writer_reserve. */
struct ct_pack;
struct ct_pack *ct_thread_writer_block(struct ct_thread_writer *writer, size_t *room);
void ct_thread_writer_packed(struct ct_thread_writer *writer, size_t count);
/* From now on, larger files matter less than time. */
void ct_thread_writer_hurry(struct ct_thread_writer *writer, bool hurry);
/* Hands everything committed to the kernel and returns the buffer: flush one thread before filling the next where
 * possible, so that memory stays small. CT_ERR_NO_SPACE (disk full), CT_ERR_QUOTA, CT_ERR_FILE_LIMIT, CT_ERR_SYSTEM and
 * others: the first failure is kept, and after it events are dropped. The file ends with a whole event. */
int ct_thread_writer_flush(struct ct_thread_writer *writer);
/* The event at that position of the thread (counted from the beginning of the recording) has a detail record. May be
 * called long after the event was written, in any order; the link is in the file after ct_thread_writer_put_links, or
 * when the writer is closed, at the latest. */
void ct_thread_writer_link(struct ct_thread_writer *writer, uint64_t index_seq, uint32_t detail_seq);
void ct_thread_writer_put_links(struct ct_thread_writer *writer);
int ct_thread_writer_error(const struct ct_thread_writer *writer);       /* errno of the failure, 0: none */
uint64_t ct_thread_writer_events(const struct ct_thread_writer *writer); /* committed */
/* Of these, not in the file after a failure. */
uint64_t ct_thread_writer_dropped(const struct ct_thread_writer *writer);
uint64_t ct_thread_writer_bytes(const struct ct_thread_writer *writer); /* handed to the kernel */
/* What was deleted (trace/segments.h); valid as long as the segments. NULL: everything stays. */
struct ct_series *ct_thread_writer_series(const struct ct_thread_writer *writer);
/* Flushes, writes header and footer (after a failure too, if they fit), closes. Reopening is not possible. Returns what
 * flush would return, and frees the writer in any case. */
int ct_thread_writer_close(struct ct_thread_writer *writer);
/* A file takes this many events, then index_2.atf begins and so on (default and maximum 2^31: counts are 32 bits
 * wide). */
#define CT_THREAD_PART_EVENTS (UINT64_C(1) << 31)
void ct_thread_writer_set_part(struct ct_thread_writer *writer, uint64_t events);

/* ---- the detail records of one thread ---- */

struct ct_detail_writer;
/* Makes thread_ID/detail.atf with its header (and the directory if missing). */
int ct_detail_writer_open(struct ct_detail_writer **out, struct ct_place *process, uint32_t id, uint32_t tid);
/* Adds a whole record of `total_length` bytes; `index_seq` is ATF_NO_INDEX when its index event was lost. Returns its
 * detail_seq, or ATF_NO_DETAIL when it was dropped: after a failure, or because its length is impossible. */
uint32_t ct_detail_writer_add(struct ct_detail_writer *writer, const struct atf_detail_event *event);
/* Like those of the thread writer. */
int ct_detail_writer_flush(struct ct_detail_writer *writer);
int ct_detail_writer_close(struct ct_detail_writer *writer);
int ct_detail_writer_error(const struct ct_detail_writer *writer);
uint64_t ct_detail_writer_events(const struct ct_detail_writer *writer);  /* added */
uint64_t ct_detail_writer_dropped(const struct ct_detail_writer *writer); /* of these, not in the file */
uint64_t ct_detail_writer_bytes(const struct ct_detail_writer *writer);   /* handed to the kernel */
/* Deletes old parts like the index's segments (trace/segments.h). Call it before the first record. NULL: they stay. */
void ct_detail_writer_keep(struct ct_detail_writer *writer, struct ct_segments *segments);
/* Begins detail_2.atf and so on when the file has this many bytes of records (default: never). */
void ct_detail_writer_set_part(struct ct_detail_writer *writer, uint64_t bytes);
/* Removes whole finished parts, oldest first, whose records are all older than the time. Returns the number of records
 * removed. */
uint64_t ct_detail_writer_drop_before(struct ct_detail_writer *writer, uint64_t time_ns);

/* ---- symbols ---- */

/* An existing file stays as it is until the new one is complete: close replaces it, or returns why not. */
struct ct_symbols_writer;
int ct_symbols_writer_open(struct ct_symbols_writer **out, struct ct_place *process);
void ct_symbols_writer_module(struct ct_symbols_writer *writer, uint32_t module_id, const char *path,
                              const char *build_id, uint64_t base);
/* `skip` is "" for hooked functions. Call it in order of module and symbol_index. */
void ct_symbols_writer_function(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                                const char *name, const char *skip, const char *entry_only);
/* A nameless function that no table has. */
void ct_symbols_writer_guess(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                             const char *skip, const char *entry_only);
int ct_symbols_writer_close(struct ct_symbols_writer *writer);

/* More functions for a file that is complete. The file stays complete even if we are killed meanwhile: lines and the
 * total after them are written at once, into one page of the file. */
struct ct_symbols_end {
    uint64_t inode, offset, functions;
};
/* Notes where the file ends, once it is closed. */
void ct_symbols_writer_note_end(struct ct_symbols_writer *writer, struct ct_symbols_end *end);
/* Continues there; closing notes the new end. CT_ERR_NOT_FOUND: the file is a different one now. */
int ct_symbols_writer_continue(struct ct_symbols_writer **out, struct ct_place *process, struct ct_symbols_end *end);

/* ---- manifest ---- */

struct ct_json;
/* Writes manifest.json: a new file that replaces the old one. On failure the old one stays. */
int ct_trace_write_manifest(struct ct_place *process, const struct ct_json *json);

#endif
