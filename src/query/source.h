/* SPDX-License-Identifier: Apache-2.0 */
/* A trace that is asked, and what all its tables share: names, facts, summaries, and reports that were computed once.
 * One owner, one thread. */
#ifndef CT_QUERY_SOURCE_H
#define CT_QUERY_SOURCE_H

#include "report/functions.h"
#include "report/processes.h"
#include "trace/arguments.h"
#include "trace/facts.h"
#include "trace/summary.h"
#include "trace/wall.h"

/* Calls and events are numbered by thread and position. Up to 2^13 threads, numbers are exact in a double. */
#define CT_SOURCE_POSITION_BITS 40

struct ct_source_setup {
    struct ct_trace *trace;         /* must live */
    const char *const *directories; /* further places of binaries and debug files; NULL: none */
    bool often;                     /* many questions will come: what helps them is worth making */
    /* Called now and then while rows are read. Not 0: reading ends with CT_ERR_TIMEOUT. May be NULL. */
    int (*poll)(void *arg);
    void *poll_arg;
};

/* Which functions call which (edges.h). */
struct ct_edges {
    struct ct_edge *items; /* longest total first */
    size_t count;
    uint64_t parts; /* of threads, that were counted by themselves */
};

struct ct_source {
    struct ct_source_setup setup;
    struct ct_trace *trace;
    struct ct_facts facts;
    struct ct_select select; /* everything */
    struct ct_function_cache names;
    uint64_t start_ns; /* the beginning of the trace */
    uint64_t rows;     /* that were read */
    uint64_t events;
    /* private: made when they are first needed */
    struct ct_summary **summaries; /* by thread */
    bool *looked;                  /* for its summary */
    bool *lent;                    /* the summary is somebody else's */
    struct ct_report *report;
    struct ct_edges edges;
    bool has_edges;
    struct ct_processes processes;
    bool has_processes;
    struct ct_wall wall;
    bool has_wall;
    struct ct_argument_reader *arguments;
};

int ct_source_open(struct ct_source **out, const struct ct_source_setup *setup);
void ct_source_close(struct ct_source *source);

/* The summary of a thread; NULL: it has none. */
struct ct_summary *ct_source_summary(struct ct_source *source, size_t thread);
/* Uses a summary that somebody else has, and keeps open for longer: any number of sources may read one. */
void ct_source_lend(struct ct_source *source, size_t thread, struct ct_summary *summary);
/* Functions by calls and times; NULL: there is no memory. */
const struct ct_report *ct_source_report(struct ct_source *source);
int ct_source_edges(struct ct_source *source, const struct ct_edges **out);
const struct ct_processes *ct_source_processes(struct ct_source *source);
/* NULL: there is no memory. */
struct ct_argument_reader *ct_source_arguments(struct ct_source *source);
const struct ct_wall *ct_source_wall(struct ct_source *source);

/* Blocks of packed files: how many there are, and how many were unpacked since the trace was opened. */
struct ct_source_blocks {
    uint64_t all, unpacked;
};
struct ct_source_blocks ct_source_blocks(const struct ct_source *source);

static inline int64_t ct_source_call_id(size_t thread, uint64_t position) {
    return (int64_t)((uint64_t)thread << CT_SOURCE_POSITION_BITS | position);
}
/* A time of the trace as tables show it. */
static inline int64_t ct_source_time(const struct ct_source *source, uint64_t boot_ns) {
    return (int64_t)(boot_ns - source->start_ns);
}

#endif
