/* Parts of the trace reader. */
#ifndef CT_TRACE_READER_H
#define CT_TRACE_READER_H

#include "abi/atf.h"
#include "trace/file.h"
#include "trace/json_read.h"
#include <contrail/trace.h>

/* ---- directories (find.c) ---- */

/* Numbers N of all PREFIX_N in a directory, sorted, malloc'ed. Returns 0 or an errno. */
int ct_find_numbered(const char *directory, const char *prefix, uint32_t **numbers, size_t *count);
/* The newest session under `root` that holds a process, malloc'ed; NULL: none. */
char *ct_find_newest_session(const char *root);
bool ct_find_exists(const char *directory, const char *name);

/* ---- index files (index_file.c) ---- */

enum ct_index_state {
    CT_INDEX_GOOD,       /* header and footer agree */
    CT_INDEX_CUT,        /* no footer, or not all of it */
    CT_INDEX_UNREADABLE, /* the header is cut or damaged */
};

struct ct_index_part {
    struct ct_file file;
    uint64_t count; /* events that can be read */
    uint64_t events_offset, size;
    uint32_t thread_id; /* of the header */
    uint8_t state;      /* enum ct_index_state */
};

struct ct_index {
    struct ct_index_part **parts;
    size_t part_count;
    uint64_t count;
    bool cut;
};

/* Looks at directory/index.atf, index_2.atf and so on. Missing and damaged files are no failure: they hold no events. */
int ct_index_open(struct ct_index *index, struct ct_file_cache *cache, const char *directory);
void ct_index_close(struct ct_index *index);
/* Up to `count` events from position `sequence` on; less at the end of a part. 0: there are none. */
size_t ct_index_read(struct ct_index *index, uint64_t sequence, struct atf_index_event *events, size_t count);
/* Position of the first event at or after the time. */
uint64_t ct_index_search(struct ct_index *index, uint64_t time_ns);

/* ---- detail files (detail_reader.c) ---- */

/* One file of a thread. Where its records begin is kept for every `stride`-th: the table's size is bounded, not its file's. */
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
    uint8_t *window; /* bytes of a part that were read last */
    const struct ct_detail_part *window_part;
    uint64_t window_offset;
    size_t window_size;
    const struct ct_detail_part *last_part; /* the record behind the one that was read last */
    uint64_t last_seq, last_offset;
};

bool ct_details_exist(const char *directory);
/* Finds and looks through the files of the thread, once. Missing and damaged ones are no failure: they hold no records. */
int ct_details_open(struct ct_details *details, struct ct_file_cache *cache, const char *directory);
void ct_details_close(struct ct_details *details);
/* The bytes of a record, total_length of them, good until the next call; NULL: there is no such record. */
const uint8_t *ct_details_record(struct ct_details *details, uint64_t detail_seq, struct atf_detail_event *event);
/* 0 or CT_ERR_BAD_FILE: it is too short for what it says it holds. */
int ct_details_parse(const uint8_t *record, const struct atf_detail_event *event, struct ct_trace_detail *out);

/* ---- symbols (symbols_reader.c) ---- */

struct ct_symbols;
struct ct_symbols_module {
    uint32_t id;
    const char *path, *build_id;
    uint64_t base;
    size_t functions;
};
/* Reads directory/symbols. NULL: no memory. A file that is missing, cut or damaged gives what can be read of it. */
struct ct_symbols *ct_symbols_load(const char *directory);
void ct_symbols_free(struct ct_symbols *symbols);
void ct_symbols_keep_mangled(struct ct_symbols *symbols);
const struct ct_trace_function *ct_symbols_find(struct ct_symbols *symbols, uint64_t id);
size_t ct_symbols_module_count(const struct ct_symbols *symbols);
struct ct_symbols_module ct_symbols_module_at(const struct ct_symbols *symbols, size_t index);
/* What is wrong with the file, NULL: nothing. */
const char *ct_symbols_problem(const struct ct_symbols *symbols);

/* ---- the trace ---- */

struct trace_process {
    struct ct_trace_process info;
    struct ct_json_tree *manifest; /* NULL: not JSON */
    char *text, *directory;
    struct ct_symbols *symbols; /* read when first asked for */
    size_t first_thread;
};

struct trace_thread {
    struct ct_trace_thread info;
    struct ct_index index;
    struct ct_details details;           /* looked at when first asked for */
    const struct ct_json_node *manifest; /* NULL: the manifest does not know it */
};

struct ct_trace {
    char *path;
    struct ct_file_cache cache;
    struct trace_process *processes;
    struct trace_thread *threads;
    struct ct_trace_module *modules;
    size_t process_count, thread_count, module_count;
    bool mangled;
};

/* All threads merged by time, each from a position of its own on (by index; what lies behind its end has no events). */
int ct_trace_cursor_open_at(struct ct_trace_cursor **out, struct ct_trace *trace, const uint64_t *sequences);

struct ct_symbols *ct_trace_symbols(const struct ct_trace *trace, size_t process);

struct ct_verify_detail {
    bool finished; /* nothing may be missing */
    bool dropped;  /* old files were removed on purpose */
    void (*complain)(void *arg, const char *sentence);
    void *arg;
};
/* Checks the detail files of a thread and the links between them and its index (verify_detail.c). */
int ct_verify_details(struct ct_trace *trace, size_t thread, const struct ct_verify_detail *ask);
/* The detail files of a thread, opened. NULL: no memory. */
struct ct_details *ct_trace_details(struct ct_trace *trace, size_t thread);

#endif
