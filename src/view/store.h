/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of a server, and readers of them. A reader has one owner at a time. A trace that grows is opened again for
 * the next owner. */
#ifndef CT_VIEW_STORE_H
#define CT_VIEW_STORE_H

#include "query/source.h"
#include "view/levels.h"
#include "view/names.h"
#include "view/view.h"
#include <pthread.h>

struct ct_view_trace;

struct ct_view_reader {
    struct ct_view_trace *of;
    struct ct_trace *trace;
    struct ct_source *source;
    uint64_t generation; /* of the trace when it was opened */
    bool taken;
    uint64_t deadline_ns; /* of the request; 0: none */
    struct ct_view_reader *next;
};

struct ct_view_trace {
    struct ct_view *view;
    char *path, *name, *program;
    _Atomic int pid;   /* of the first process that is still recorded; 0: none is */
    _Atomic bool live; /* the same, as yes or no */
    size_t number;
    struct ct_view_names names;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t given_back;
    struct ct_view_reader *readers;
    unsigned reader_count;
    uint64_t generation;          /* counts how often it has grown */
    uint64_t looked_ns, asked_ns; /* when we looked whether it has grown, and whether it is recorded */
    uint64_t signature;           /* of its files then */
    uint64_t unreadable;          /* blocks that a reader could not read */
    /* shared by all readers */
    struct ct_summary **summaries; /* by thread; NULL: none yet */
    struct ct_levels **levels;     /* by thread; NULL: none, or none yet */
    size_t shared_count;           /* threads that these lists have */
    struct ct_report *report;      /* all functions, of a trace that does not grow; NULL: not yet */
    struct ct_view_reader *report_reader;
    _Atomic uint64_t made, wanted; /* events that levels are made from: read, and all */
    struct ct_view_maker *maker;
};

struct ct_lookup;

struct ct_view_lines {
    pthread_mutex_t lock;
    struct ct_lookup *lookup; /* NULL: nobody has asked yet */
};

struct ct_view {
    struct ct_view_options options;
    struct ct_view_lines lines;
    struct ct_view_trace *traces[CT_VIEW_TRACES];
    size_t trace_count;
    struct ct_http *http;
    _Atomic bool stopping;
};

int ct_view_trace_open(struct ct_view_trace **out, struct ct_view *view, const char *path, char *error, size_t size);
/* False: its maker is still busy, and it stays. The program is about to end. */
bool ct_view_trace_close(struct ct_view_trace *trace);

/* A reader that is not one of those that requests share; close it with ct_view_reader_free. NULL: as ct_view_take. */
struct ct_view_reader *ct_view_reader_new(struct ct_view_trace *trace);
void ct_view_reader_free(struct ct_view_reader *reader);
/* Waits while too many are in use. NULL: the trace cannot be opened any more, or there is no memory. Who needs readers
 * of several traces takes them by the traces' numbers: two that wait for each other would wait for ever. */
struct ct_view_reader *ct_view_take(struct ct_view_trace *trace);
void ct_view_give(struct ct_view_reader *reader);

/* Looks whether the trace has grown, and is still recorded; not more often than a few times a second. */
void ct_view_look(struct ct_view_trace *trace);

/* Levels of a thread; NULL: none. They live as long as the trace. */
struct ct_levels *ct_view_levels(struct ct_view_trace *trace, size_t thread);
/* How much of the levels has been made, from 0 to 1. */
double ct_view_progress(const struct ct_view_trace *trace);

/* Makes summaries and levels beside the requests, and continues them as the trace grows (make.c). */
int ct_view_maker_start(struct ct_view_trace *trace);
/* False: it is in the middle of something long (a summary, a report), and goes on with it. The trace must stay. */
bool ct_view_maker_stop(struct ct_view_trace *trace);

uint64_t ct_view_now(void); /* nanoseconds of a clock that only goes forward */

#endif
