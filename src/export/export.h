/* SPDX-License-Identifier: Apache-2.0 */
/* Writes traces in the formats of other programs.
 *
 * Events are streamed from the trace to the output. Memory grows with the threads, functions, depth and (folded)
 * different stacks of the trace, not with its events. One owner. */
#ifndef CT_EXPORT_EXPORT_H
#define CT_EXPORT_EXPORT_H

#include "report/select.h"

struct ct_export;

enum ct_export_kind { CT_EXPORT_TEXT, CT_EXPORT_BINARY, CT_EXPORT_DIRECTORY /* several files */ };

/* Formats: what a format holds, and how its viewer reads it. */
enum {
    CT_EXPORT_EVENTS = 1, /* events, not calls with a beginning and an end */
    CT_EXPORT_COPY = 2,   /* the files as they are: whole processes only */
};

/* The only list of formats, in the order of the help text: the function; its name for the user; prefix and suffix of
 * the default file name, around the name of the trace; the kind of output; what it is for; what opens it; flags; about
 * how many bytes an event takes in a file that a viewer loads as a whole (0: it does not). */
#define CT_EXPORT_FORMAT_LIST(X)                                                                                       \
    X(perfetto, "perfetto", "", ".perfetto-trace", CT_EXPORT_BINARY,                                                   \
      "timeline for the Perfetto UI and its trace processor",                                                          \
      "open it at ui.perfetto.dev, or query it with trace_processor_shell", 0, 15)                                     \
    X(chrome, "chrome", "", ".chrome.json", CT_EXPORT_TEXT,                                                            \
      "timeline in JSON, for chrome://tracing and other viewers", "open it in chrome://tracing or at ui.perfetto.dev", \
      0, 55)                                                                                                           \
    X(speedscope, "speedscope", "", ".speedscope.json", CT_EXPORT_TEXT, "flame charts for speedscope",                 \
      "open it at speedscope.app, or with `speedscope FILE`", 0, 40)                                                   \
    X(html, "html", "", ".html", CT_EXPORT_TEXT, "one page with a timeline and a table, for any browser",              \
      "open it in a browser; it needs nothing else", 0, 14)                                                            \
    X(folded, "folded", "", ".folded", CT_EXPORT_TEXT, "a line for each stack, for flame graphs",                      \
      "`flamegraph.pl FILE > graph.svg` draws it", 0, 0)                                                               \
    X(callgrind, "callgrind", "callgrind.out.", "", CT_EXPORT_TEXT, "costs of functions and calls, for KCachegrind",   \
      "`callgrind_annotate FILE` prints it, kcachegrind shows it", 0, 0)                                               \
    X(ctf, "ctf", "", ".ctf", CT_EXPORT_DIRECTORY, "Common Trace Format 1.8: a directory",                             \
      "`babeltrace2 DIRECTORY` prints it, Trace Compass shows it", CT_EXPORT_EVENTS, 0)                                \
    X(atf_pb, "atf-pb", "", ".atf.pb", CT_EXPORT_BINARY, "protobuf messages, each after its length",                   \
      "proto/atf.proto describes its messages", CT_EXPORT_EVENTS, 0)                                                   \
    X(atf2, "atf2", "", ".atf2", CT_EXPORT_DIRECTORY, "raw ATF v2: a directory as the recorder writes it",             \
      "ATF v2 readers open it, contrail too", CT_EXPORT_COPY, 0)                                                       \
    X(parquet, "parquet", "", ".parquet", CT_EXPORT_DIRECTORY, "tables as Parquet files: a directory",                 \
      "`cd DIRECTORY && duckdb -init views.sql` asks it; Spark, ClickHouse and others read it", 0, 0)

struct ct_export_format {
    const char *name;
    const char *prefix, *suffix; /* of the default file name, around the name of the trace */
    const char *text;            /* what it is for, lower case, no full stop */
    const char *hint;            /* what opens it; a sentence without a full stop */
    enum ct_export_kind kind;
    unsigned flags;       /* CT_EXPORT_EVENTS ... */
    unsigned event_bytes; /* 0: size does not matter */
    int (*run)(struct ct_export *);
};
/* NULL after the last. */
const struct ct_export_format *ct_export_format_at(size_t index);

#define CT_EXPORT_LARGE (UINT64_C(100) << 20) /* viewers in browsers load about this much */

/* An export that is larger than its viewer loads, and a part of the selected time that is not. CLOCK_BOOTTIME. */
struct ct_export_large {
    uint64_t bytes; /* about */
    uint64_t from_ns, to_ns;
};

enum ct_export_weight { CT_EXPORT_TIME, CT_EXPORT_CALLS };
enum ct_export_codec { CT_EXPORT_ZSTD, CT_EXPORT_LZ4, CT_EXPORT_STORED };

struct ct_place;

struct ct_export_options {
    const struct ct_export_format *format;
    struct ct_select select; /* which calls; those around them are kept, so that stacks are whole */
    int fd;                  /* where the bytes go */
    /* For a format of several files, instead of fd: a directory. The export makes it; it may exist already if it is
     * empty. */
    const char *directory;
    struct ct_place *place;       /* or a directory that is held open, and empty */
    enum ct_export_weight weight; /* folded */
    enum ct_export_codec codec;   /* parquet */
    const char *tables;           /* parquet: names, separated by commas; NULL: all */
    /* Called now and then. A return value other than 0 stops the export and becomes its result. May be NULL. */
    int (*progress)(void *arg, uint64_t done, uint64_t total);
    /* Called before an export that will be larger than `limit` (0: CT_EXPORT_LARGE) is written. May be NULL. */
    void (*large)(void *arg, const struct ct_export_large *large);
    uint64_t limit;
    void *arg;
    unsigned workers;      /* 0: as many as there are processors */
    uint64_t range_events; /* for tests: events in a range, of threads of any size; 0: as usual */
    bool one_by_one;       /* for tests: all events are read in order */
};

struct ct_export_result {
    uint64_t events; /* read */
    uint64_t processes, threads;
    uint64_t bytes;  /* written */
    uint64_t ranges; /* walked by themselves (walk_part.h) */
    int error;       /* errno of the write that failed, 0: none. EPIPE: the reader has closed its end */
};

enum { CT_EXPORT_TABLES_TEXT = 256 };
/* False: `tables` names one that parquet does not have; `wrong` is its name, `known` all that there are. */
bool ct_export_check_tables(const char *tables, char *wrong, size_t size, char known[CT_EXPORT_TABLES_TEXT]);

/* Returns 0; CT_ERR_NO_MEMORY; CT_ERR_NO_SPACE, CT_ERR_PERMISSION_DENIED, CT_ERR_BUSY (the directory is not empty) or
 * CT_ERR_SYSTEM when the output could not be written; or what `progress` returned. */
int ct_export_run(struct ct_trace *trace, const struct ct_export_options *options, struct ct_export_result *result);

#endif
