/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the trace reader. */
#ifndef CT_TRACE_READER_H
#define CT_TRACE_READER_H

#include "abi/atf.h"
#include "trace/file.h"
#include "base/json_read.h"
#include "trace/packed_block.h"
#include <contrail/trace.h>

#define CT_MANIFEST_LIMIT (UINT64_C(1) << 30) /* bytes that are read of one */

/* ---- directories (find.c) ---- */

/* Finds the numbers N of all PREFIX_N in a directory, sorted, malloc'ed. Returns 0 or an errno. */
int ct_find_numbered(const char *directory, const char *prefix, uint32_t **numbers, size_t *count);
/* The newest session under `root` that contains a process, malloc'ed; NULL: none. One with nothing to show (finished,
 * without events and counts) is the newest only when there is no other. */
char *ct_find_newest_session(const char *root);
bool ct_find_exists(const char *directory, const char *name);
/* What a session or process takes on disk, as `du` counts it (disk_size.c). */
uint64_t ct_find_disk_bytes(const char *path);

/* ---- index files (index_file.c) ---- */

enum ct_index_state {
    CT_INDEX_GOOD,       /* header and footer agree */
    CT_INDEX_CUT,        /* no footer, or not all of it */
    CT_INDEX_UNREADABLE, /* the header is cut or damaged */
};

struct ct_packed;

struct ct_index_part {
    struct ct_file file;
    char name[32];  /* of the file, without its directory */
    uint64_t first; /* position of its first event in the thread */
    uint64_t count; /* events that can be read, according to its headers */
    uint64_t end;   /* position after its last event: more than first + count where a packed file is damaged */
    uint64_t events_offset, size;
    uint32_t thread_id;       /* from the header */
    uint8_t arch;             /* from the header */
    uint8_t state;            /* enum ct_index_state */
    bool segment;             /* one of several, of which older ones may have been deleted */
    bool newer;               /* unreadable because a newer version wrote it */
    struct ct_packed *packed; /* NULL: raw ATF v2 */
};

struct ct_index {
    struct ct_index_part **parts;
    size_t part_count;
    uint64_t first, end; /* positions of the first event and after the last one */
    uint64_t count;      /* events */
    bool cut;
    /* packed files: the block that was read last */
    struct ct_unpack unpack;
    const struct ct_index_part *unpacked;
    size_t unpacked_block;
    struct ctp_block unpacked_header;
    uint64_t damaged; /* blocks that could not be read so far */
};

/* Opens directory/index.ctp, or index.atf, index_2.atf and so on, or segments index_NNNNNN of either kind. Missing and
 * damaged files are not a failure: they have no events. */
int ct_index_open(struct ct_index *index, struct ct_file_cache *cache, const char *directory);
void ct_index_close(struct ct_index *index);
/* Reads up to `count` events from position `sequence` on; fewer at the end of a part or block. 0: there is none at this
 * position. */
size_t ct_index_read(struct ct_index *index, uint64_t sequence, struct atf_index_event *events, size_t count);
/* Nothing can be read at `sequence`: returns the next position that may be readable; index->end: none. */
uint64_t ct_index_skip(const struct ct_index *index, uint64_t sequence);
/* Where the block ends that contains `sequence`, or the hole; of a raw file: after `most` events at most. */
uint64_t ct_index_block_end(const struct ct_index *index, uint64_t sequence, uint64_t most);
/* Position of the first event at or after the time. */
uint64_t ct_index_search(struct ct_index *index, uint64_t time_ns);

/* ---- packed files (packed_reader.c) ---- */

struct ct_packed {
    struct ctp_header header;
    struct ctp_entry *blocks; /* blocks of events, by position; they do not overlap */
    size_t block_count;
    struct ctp_entry *links; /* blocks of links, by first position */
    size_t link_count;
    uint64_t *link_reach;       /* [i]: highest position + 1 of blocks 0 to i */
    struct ct_link *read_links; /* links of the block that was read last */
    size_t read_count;
    size_t read_block;  /* plus one; 0: none */
    uint64_t *clean_ns; /* for verify, by block: time of the last event where the block is clean, else 0; may be NULL */
    uint64_t missing;   /* positions that no block contains */
    bool bad_table;     /* it has a footer, but the footer or its tables are wrong */
    struct ctp_footer footer;
    bool has_footer;
    uint64_t size; /* of the file, when we looked at it */
    struct timespec changed;
};

/* The part's file is in use and has a packed file's header. Returns 0 or CT_ERR_NO_MEMORY. */
int ct_packed_load(struct ct_index_part *part);
void ct_packed_free(struct ct_packed *packed);
/* Like ct_index_read, for one part; the file is in use. */
size_t ct_packed_read(struct ct_index *index, struct ct_index_part *part, uint64_t sequence,
                      struct atf_index_event *events, size_t count);
uint64_t ct_packed_skip(const struct ct_index_part *part, uint64_t sequence);
/* True when the events from `first` to `end`, which were just read, are a whole block, and all that the block has. */
bool ct_packed_is_clean(const struct ct_index *index, uint64_t first, uint64_t end);
/* Notes that the block that begins at `first` is clean. */
void ct_packed_note_clean(struct ct_index_part *part, uint64_t first, uint64_t last_ns);
/* Position of the first event at or after the time, part->end: none. The file is in use. */
uint64_t ct_packed_search(struct ct_index *index, struct ct_index_part *part, uint64_t time_ns);
/* Like ct_trace_open_calls; the file is not in use. */
int ct_packed_open_calls(struct ct_index_part *part, uint64_t **functions, size_t *count);
/* Fills in the detail records of the events, as far as this part has their links. The file is not in use. */
void ct_packed_links(struct ct_index_part *part, uint64_t sequence, struct atf_index_event *events, size_t count);
/* Reads a whole block, malloc'ed, intact and as its entry says; NULL: it is damaged, or there is no memory. The file is
 * in use. */
uint8_t *ct_packed_block(const struct ct_index_part *part, const struct ctp_entry *entry);

/* Checks header, blocks and footer of a part, after its events were read (verify_packed.c). */
void ct_verify_packed(struct ct_index_part *part, const char *name, bool finished,
                      void (*complain)(void *arg, const char *sentence), void *arg);

/* ---- detail files (detail_reader.c) ---- */

/* One file of a thread. The table keeps the offset of every `stride`-th record: its size is bounded, however large the
 * file is. */
struct ct_detail_part {
    struct ct_file file;
    unsigned number;       /* 1: detail.atf, 2: detail_2.atf … */
    uint64_t start, count; /* detail_seq of the first record; records that can be read */
    uint64_t events_offset, end, size;
    struct atf_detail_header header;
    uint64_t *table;
    size_t table_count, table_room;
    uint64_t stride;
    uint8_t state; /* enum ct_index_state */
};

struct ct_details {
    struct ct_detail_part **parts; /* by number */
    size_t part_count;
    bool opened;
    uint8_t *window; /* the bytes of a part that were read last */
    const struct ct_detail_part *window_part;
    uint64_t window_offset;
    size_t window_size;
    const struct ct_detail_part *last_part; /* the record after the one that was read last */
    uint64_t last_seq, last_offset;
};

bool ct_details_exist(const char *directory);
/* Finds and inspects the files of the thread, once. Missing and damaged ones are not a failure: they have no
 * records. */
int ct_details_open(struct ct_details *details, struct ct_file_cache *cache, const char *directory);
void ct_details_close(struct ct_details *details);
/* Calls `each` for every detail file of the thread: its path, its state by its header and footer, and the records that
 * they say it has. Reads no records. */
void ct_details_inspect(struct ct_file_cache *cache, const char *directory,
                        void (*each)(void *arg, const char *path, enum ct_index_state state, uint64_t records),
                        void *arg);
/* The bytes of a record, total_length of them, valid until the next call; NULL: there is no such record. */
const uint8_t *ct_details_record(struct ct_details *details, uint64_t detail_seq, struct atf_detail_event *event);
/* `arch` is from the header of the file. 0, or CT_ERR_BAD_FILE: the record is too short for its contents. */
int ct_details_parse(const uint8_t *record, const struct atf_detail_event *event, uint8_t arch,
                     struct ct_trace_detail *out);

/* ---- symbols (symbols_reader.c) ---- */

struct ct_symbols;
struct ct_symbols_module {
    uint32_t id;
    const char *path, *build_id;
    uint64_t base;
    size_t functions;
};
/* Reads directory/symbols. NULL: no memory. Of a file that is missing, cut or damaged, keeps what can be read. */
struct ct_symbols *ct_symbols_load(const char *directory);
void ct_symbols_free(struct ct_symbols *symbols);
void ct_symbols_keep_mangled(struct ct_symbols *symbols);
const struct ct_trace_function *ct_symbols_find(struct ct_symbols *symbols, uint64_t id);
size_t ct_symbols_module_count(const struct ct_symbols *symbols);
struct ct_symbols_module ct_symbols_module_at(const struct ct_symbols *symbols, size_t index);
/* Finds a module by its id; path NULL: there is none. */
struct ct_symbols_module ct_symbols_module_of(const struct ct_symbols *symbols, uint32_t id);
/* The function that contains an offset, or the last one before it; NULL: the offset is before the first. */
const struct ct_trace_function *ct_symbols_at(struct ct_symbols *symbols, uint32_t module, uint64_t offset);
/* Does the file have a reason why the function is not hooked? Much cheaper than ct_symbols_find. */
bool ct_symbols_is_skipped(const struct ct_symbols *symbols, uint64_t id);
/* A hash of the ids of all functions that are recorded on entry only. */
uint64_t ct_symbols_entry_only(const struct ct_symbols *symbols);
/* What is wrong with the file; NULL: nothing. */
const char *ct_symbols_problem(const struct ct_symbols *symbols);

/* ---- the trace ---- */

struct trace_process {
    struct ct_trace_process info;
    struct ct_json_tree *manifest; /* NULL: not JSON */
    char *text, *directory;
    struct ct_symbols *symbols; /* loaded on first use */
    size_t first_thread;
};

struct trace_thread {
    struct ct_trace_thread info;
    struct ct_index index;
    struct ct_details details;           /* opened on first use */
    const struct ct_json_node *manifest; /* NULL: the manifest does not list it */
};

/* How summaries are made (summary.h): tests have small traces. */
struct ct_summary_limits {
    uint64_t least;       /* a thread with fewer events has none; 0: CT_SUMMARY_LEAST; UINT64_MAX: no thread has */
    uint32_t span_events; /* at least, in a span; 0: 16,384 */
    bool all_starts;      /* one in each span, whatever it costs */
};

struct ct_trace {
    char *path;
    struct ct_file_cache cache;
    struct trace_process *processes;
    struct trace_thread *threads;
    struct ct_trace_module *modules;
    size_t process_count, thread_count, module_count;
    bool mangled;
    struct ct_summary_limits summary;
    unsigned jobs;        /* processors to use at most; 0: all */
    uint64_t ahead_least; /* for tests: instead of CT_AHEAD_LEAST, on one processor too; 0: as usual */
};

/* All threads merged by time, each from its own position on (by index; a position after its end gives no events). */
int ct_trace_cursor_open_at(struct ct_trace_cursor **out, struct ct_trace *trace, const uint64_t *sequences);

/* One thread, from a position on. */
int ct_trace_cursor_open_thread_at(struct ct_trace_cursor **out, struct ct_trace *trace, size_t thread,
                                   uint64_t sequence);
/* Leaves out the events of a thread before the position. */
void ct_trace_cursor_skip(struct ct_trace_cursor *cursor, size_t thread, uint64_t sequence);

/* Nobody reads ahead for it from now on (ahead.h): the other processors have work. */
void ct_trace_cursor_alone(struct ct_trace_cursor *cursor);

/* True when the thread has a file of code. */
bool ct_trace_has_code(const struct ct_trace *trace, size_t thread);
/* All threads merged by time; those with code[i] set also with the code that they executed (code_file.h), each record
 * at its place between the events of its thread. */
int ct_trace_cursor_open_code(struct ct_trace_cursor **out, struct ct_trace *trace, const bool *code);

enum ct_trace_step {
    CT_TRACE_STEP_END,
    CT_TRACE_STEP_EVENT,
    CT_TRACE_STEP_CODE, /* only thread and time of the event are set: not later than the thread's next event */
};
/* Like ct_trace_cursor_next, for such cursors too. A DAMAGED record is the last one of its thread;
 * ct_trace_cursor_problem says what is wrong, until the cursor is closed. */
struct ct_code_record;
enum ct_trace_step ct_trace_next_step(struct ct_trace_cursor *cursor, struct ct_trace_event *event,
                                      struct ct_code_record *record);
const char *ct_trace_cursor_problem(const struct ct_trace_cursor *cursor, size_t thread);

/* File name of the program of a process, "" when it is not known. */
const char *ct_trace_program(const struct ct_trace *trace, size_t process);

struct ct_symbols *ct_trace_symbols(const struct ct_trace *trace, size_t process);

/* Where code lies. */
struct ct_trace_place {
    const struct ct_trace_function *function; /* that contains it, or the last one before it; NULL: none */
    const char *module;                       /* file name, "": code of no file */
};
struct ct_trace_place ct_trace_place(const struct ct_trace *trace, size_t process, uint32_t module, uint64_t offset);

/* Like ct_trace_verify, for the threads for which `wanted` is true; their processes count as a whole only when all
 * their threads are wanted. */
int ct_trace_verify_some(struct ct_trace *trace, bool (*wanted)(void *arg, size_t thread),
                         void (*complain)(void *arg, const char *sentence), void *arg);

struct ct_verify_detail {
    bool finished; /* nothing may be missing */
    bool dropped;  /* old files were removed on purpose */
    void (*complain)(void *arg, const char *sentence);
    void *arg;
};
/* Checks the detail files of a thread, and the links between them and its index (verify_detail.c). */
int ct_verify_details(struct ct_trace *trace, size_t thread, const struct ct_verify_detail *ask);
/* The detail files of a thread, opened. NULL: no memory. */
struct ct_details *ct_trace_details(struct ct_trace *trace, size_t thread);

#endif
