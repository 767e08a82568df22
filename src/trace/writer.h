/* Writing a process's trace: manifest.json, symbols, thread_N/index.atf (raw ATF v2).
 *
 * One owner (the drain thread). Everything that was flushed survives our death: headers are written first, footers last, the
 * manifest is replaced atomically. No function here converts time or knows shared memory.
 *
 * No write raises SIGXFSZ: the file-size limit is looked at before each. Thread files are kept open 512 at a time (or half of
 * RLIMIT_NOFILE) and opened again when needed, for all writers of the process together. */
#ifndef CT_TRACE_WRITER_H
#define CT_TRACE_WRITER_H

#include "abi/atf.h"
#include "trace/place.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- directories ---- */

/* Makes root/session_YYYYMMDD_HHMMSS (local time; with _2, _3 ... when it exists), and root with its parents where missing, as
 * place.h says; `group` may read them, or CT_PLACE_NO_GROUP. `path` gets its name, for people. CT_ERR_PERMISSION_DENIED (also a read-only file system), CT_ERR_NO_SPACE, CT_ERR_BAD_FILE (something on the
 * way is not a directory), CT_ERR_INVALID_ARGUMENT (`size`, or the name is too long), CT_ERR_SYSTEM. errno is kept. */
int ct_trace_make_session(struct ct_place **out, const char *root, gid_t group, char *path, size_t size);
/* Makes pid_N in the session; `name` gets its name there. */
int ct_trace_make_process(struct ct_place **out, struct ct_place *session, int pid, char *name, size_t size);

/* ---- one thread ---- */

struct ct_thread_writer;
/* Makes thread_ID/index.atf in a process's directory, with its header. `tid` (the kernel's number) is the thread_id of the header, and is to
 * be that of each event. */
int ct_thread_writer_open(struct ct_thread_writer **out, struct ct_place *process, uint32_t id, uint32_t tid);
/* The same in another encoding: packed makes thread_ID/index.ctp. */
struct ct_segments;
struct ct_trace_format {
    int encoding;                 /* enum ct_session_format of contrail/session.h */
    struct ct_segments *segments; /* old files go (trace/segments.h); NULL: everything stays */
    uint64_t first_seq;           /* raw: position of the first event, for a trace whose older events are gone */
};
int ct_thread_writer_open_as(struct ct_thread_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                             const struct ct_trace_format *format);
/* Where the next event is to be put: the caller fills up to *room of them, then commits. Never NULL after open; flushes when
 * full: a negative status is then kept and told by flush. Good until the next commit, flush or close. */
struct atf_index_event *ct_thread_writer_reserve(struct ct_thread_writer *writer, size_t *room);
void ct_thread_writer_commit(struct ct_thread_writer *writer, size_t count);
/* Everything committed is handed to the kernel, and the buffer given back: flush one thread before filling the next where
 * possible, and memory stays small. CT_ERR_NO_SPACE (disk full), CT_ERR_QUOTA, CT_ERR_FILE_LIMIT, CT_ERR_SYSTEM and others: the first
 * failure stays, and from then on events are dropped. The file ends with a whole event. */
int ct_thread_writer_flush(struct ct_thread_writer *writer);
/* The event at that position of the thread (counted from the beginning of the recording) has a detail record. May be told long
 * after the event was written, in any order; it is in the file at the latest when the writer is closed. */
void ct_thread_writer_link(struct ct_thread_writer *writer, uint64_t index_seq, uint32_t detail_seq);
int ct_thread_writer_error(const struct ct_thread_writer *writer);       /* errno of the failure, 0: none */
uint64_t ct_thread_writer_events(const struct ct_thread_writer *writer); /* committed */
uint64_t
ct_thread_writer_dropped(const struct ct_thread_writer *writer);        /* of these, not in the file after a failure */
uint64_t ct_thread_writer_bytes(const struct ct_thread_writer *writer); /* handed to the kernel */
/* What of it was deleted (trace/segments.h); good as long as the segments. NULL: everything stays. */
struct ct_series *ct_thread_writer_series(const struct ct_thread_writer *writer);
/* Flushes, writes header and footer (after a failure too, if they fit), closes. Reopening is not possible. The writer is gone
 * whatever it returns: what flush would. */
int ct_thread_writer_close(struct ct_thread_writer *writer);
/* A file holds that many events, then index_2.atf begins and so on (default and maximum 2^31: counts are 32 bits wide). */
#define CT_THREAD_PART_EVENTS (UINT64_C(1) << 31)
void ct_thread_writer_set_part(struct ct_thread_writer *writer, uint64_t events);

/* ---- the detail records of one thread ---- */

struct ct_detail_writer;
/* Makes thread_ID/detail.atf with its header (the directory too where missing). */
int ct_detail_writer_open(struct ct_detail_writer **out, struct ct_place *process, uint32_t id, uint32_t tid);
/* Takes a whole record, `total_length` bytes; `index_seq` is ATF_NO_INDEX when its index event was lost. Returns its
 * detail_seq, ATF_NO_DETAIL when it was dropped: after a failure, or because its length is impossible. */
uint32_t ct_detail_writer_add(struct ct_detail_writer *writer, const struct atf_detail_event *event);
/* As of the thread writer. */
int ct_detail_writer_flush(struct ct_detail_writer *writer);
int ct_detail_writer_close(struct ct_detail_writer *writer);
int ct_detail_writer_error(const struct ct_detail_writer *writer);
uint64_t ct_detail_writer_events(const struct ct_detail_writer *writer);  /* added */
uint64_t ct_detail_writer_dropped(const struct ct_detail_writer *writer); /* of these, not in the file */
uint64_t ct_detail_writer_bytes(const struct ct_detail_writer *writer);   /* handed to the kernel */
/* Old parts are deleted as the index's segments are (trace/segments.h). Before the first record. NULL: they stay. */
void ct_detail_writer_keep(struct ct_detail_writer *writer, struct ct_segments *segments);
/* Begins detail_2.atf and so on when the file has that many bytes of records (default: never). */
void ct_detail_writer_set_part(struct ct_detail_writer *writer, uint64_t bytes);
/* Removes whole finished parts, oldest first, whose records are all older than the time. Returns how many records went. */
uint64_t ct_detail_writer_drop_before(struct ct_detail_writer *writer, uint64_t time_ns);

/* ---- symbols ---- */

/* A file that is there stays as it is until the new one is complete: closing puts that in its place, or says why not. */
struct ct_symbols_writer;
int ct_symbols_writer_open(struct ct_symbols_writer **out, struct ct_place *process);
void ct_symbols_writer_module(struct ct_symbols_writer *writer, uint32_t module_id, const char *path,
                              const char *build_id, uint64_t base);
/* `skip` "" when hooked. Called in order of module and symbol_index. */
void ct_symbols_writer_function(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                                const char *name, const char *skip, const char *entry_only);
int ct_symbols_writer_close(struct ct_symbols_writer *writer);

/* More functions for a file that is complete. It is so at any moment, whoever kills us meanwhile: lines and the total after them are
 * written at once, into one page of the file. */
struct ct_symbols_end {
    uint64_t inode, offset, functions;
};
/* Where the file ends, once it is closed. */
void ct_symbols_writer_note_end(struct ct_symbols_writer *writer, struct ct_symbols_end *end);
/* Goes on there; closing notes the new end. CT_ERR_NOT_FOUND: what is there now is another file. */
int ct_symbols_writer_continue(struct ct_symbols_writer **out, struct ct_place *process, struct ct_symbols_end *end);

/* ---- manifest ---- */

struct ct_json;
/* Writes manifest.json: a new file that takes the old one's place. On failure the old one stays. */
int ct_trace_write_manifest(struct ct_place *process, const struct ct_json *json);

#endif
