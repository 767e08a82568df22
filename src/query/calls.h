/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a trace, thread by thread, each when it ends. Conditions decide which blocks of a large thread are read at
 * all, by the thread's summary. Part of rows.h. */
#ifndef CT_QUERY_CALLS_H
#define CT_QUERY_CALLS_H

#include "query/wanted.h"
#include "report/scan.h"

enum ct_call_end { CT_CALL_RETURNED, CT_CALL_LEFT, CT_CALL_OPEN, CT_CALL_LOST, CT_CALL_ENTRY };

#define CT_CALL_NO_PARENT UINT64_MAX

struct ct_call {
    uint64_t sequence, began_ns, function;
    uint64_t duration_ns, self_ns; /* not known of LOST and ENTRY */
    uint64_t parent;               /* position, or CT_CALL_NO_PARENT */
    uint64_t parent_function;      /* 0: not known */
    uint32_t depth, detail, end_detail;
    enum ct_call_end end;
};

struct ct_call_reader {
    struct ct_source *source;
    struct ct_ask ask;
    bool below; /* of the calls from ask.ranges[CT_ASK_FIRST] on, those that were made in it, and itself */
    uint64_t part_first, part_end; /* only calls that end at these positions: for readers of parts of a thread */
    /* where it is */
    struct ct_call call;
    size_t thread, process;
    /* private */
    size_t next_thread;
    bool reading; /* a thread */
    bool over;    /* no later call of the thread fits */
    bool ending;  /* its events are over: open calls come */
    uint64_t end_ns;
    size_t waiting;             /* open calls that may fit */
    uint64_t low_ns, high_ns;   /* of calls that fit: when they begin ... */
    uint64_t low_seq, high_seq; /* ... and their positions */
    uint64_t within;            /* the call that fitting ones were made in; CT_CALL_NO_PARENT: any */
    uint64_t pivot_end;         /* position after the last span in which such calls begin; UINT64_MAX: no such limit */
    uint64_t least_ns;          /* shorter calls do not fit */
    bool named;                 /* names are limited */
    struct ct_wanted wanted;
    struct ct_scan scan;
    struct ct_frames frames;
    struct ct_call *lost; /* calls whose end was found to be lost, which come first */
    size_t lost_count, lost_room, lost_next;
    const struct ct_trace_event *event; /* that is being read */
    unsigned until_poll;
    int failed; /* status */
};

/* As the column `ended` shows it. */
const char *ct_call_end_name(enum ct_call_end end);

int ct_call_reader_open(struct ct_call_reader *reader, struct ct_source *source, const struct ct_ask *ask);
/* 1: `call`, `thread` and `process` are set; 0: no more; or a negative status. */
int ct_call_reader_next(struct ct_call_reader *reader);
void ct_call_reader_close(struct ct_call_reader *reader);

#endif
