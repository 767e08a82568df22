/* Writing a process's trace: manifest.json, symbols, thread_N/index.atf (raw ATF v2).
 *
 * One owner (the drain thread). Everything that was flushed survives our death: headers are written first, footers last, the
 * manifest is replaced atomically. No function here converts time or knows shared memory. */
#ifndef CT_TRACE_WRITER_H
#define CT_TRACE_WRITER_H

#include "abi/atf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- directories ---- */

/* Makes root/session_YYYYMMDD_HHMMSS (with _2, _3 ... when it exists). Negative status; `path` gets it. */
int ct_trace_make_session(const char *root, char *path, size_t size);

/* ---- one thread ---- */

struct ct_thread_writer;
/* Makes directory/thread_ID/index.atf with its header. */
int ct_thread_writer_open(struct ct_thread_writer **out, const char *directory, uint32_t id, uint32_t tid);
/* Where the next event is to be put: the caller fills up to *room of them, then commits. Never NULL after open; flushes when
 * full: a negative status is then kept and told by flush. */
struct atf_index_event *ct_thread_writer_reserve(struct ct_thread_writer *writer, size_t *room);
void ct_thread_writer_commit(struct ct_thread_writer *writer, size_t count);
/* Everything committed is handed to the kernel. CT_ERR_NO_SPACE (disk full), CT_ERR_SYSTEM. */
int ct_thread_writer_flush(struct ct_thread_writer *writer);
uint64_t ct_thread_writer_events(const struct ct_thread_writer *writer); /* committed */
uint64_t ct_thread_writer_bytes(const struct ct_thread_writer *writer);  /* handed to the kernel */
/* Flushes, writes header and footer, closes. Reopening is not possible. */
int ct_thread_writer_close(struct ct_thread_writer *writer);

/* ---- symbols ---- */

struct ct_symbols_writer;
int ct_symbols_writer_open(struct ct_symbols_writer **out, const char *directory);
void ct_symbols_writer_module(struct ct_symbols_writer *writer, uint32_t module_id, const char *path, const char *build_id,
                              uint64_t base);
/* `skip` "" when hooked. Called in order of module and symbol_index. */
void ct_symbols_writer_function(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                                const char *name, const char *skip, const char *entry_only);
int ct_symbols_writer_close(struct ct_symbols_writer *writer);

/* ---- JSON text, for the manifest, `ctl status --json` and reports ---- */

struct ct_json {
    char *text;
    size_t length, capacity;
    int failed;       /* out of memory: text is not complete */
    unsigned depth;
    bool comma;
};
void ct_json_begin(struct ct_json *json, const char *key, char bracket); /* key NULL in arrays and at the top; '{' or '[' */
void ct_json_end(struct ct_json *json, char bracket);                    /* '}' or ']' */
void ct_json_string(struct ct_json *json, const char *key, const char *value); /* escaped; invalid UTF-8 replaced */
void ct_json_number(struct ct_json *json, const char *key, uint64_t value);
void ct_json_signed(struct ct_json *json, const char *key, int64_t value);
void ct_json_real(struct ct_json *json, const char *key, double value);
void ct_json_bool(struct ct_json *json, const char *key, bool value);
void ct_json_free(struct ct_json *json);

/* ---- manifest ---- */

/* Writes directory/manifest.json: a new file that takes the old one's place. */
int ct_trace_write_manifest(const char *directory, const struct ct_json *json);

#endif
