/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through the events of each thread and calls a format's functions where calls begin and end, in a form that
 * viewers with strict stacks can show.
 *
 * A lane is a strict stack: what began last ends first. A thread has one lane unless coroutines take turns on it. When
 * a frame ends below others, these are suspended: they move, as a whole, to another lane (they end as CT_SPAN_MOVED and
 * begin again there, `continued`), and go on there when they run again. So each coroutine moves about once, and the
 * output does not grow with the number of switches.
 *
 * Ranges of a large thread are walked on all processors (walk_ranges.h). The bytes are the same. */
#ifndef CT_EXPORT_WALK_H
#define CT_EXPORT_WALK_H

#include "export/export_internal.h"
#include "report/range.h"

enum ct_span_end {
    CT_SPAN_RETURNED,
    CT_SPAN_LEFT,  /* exception, longjmp, cancellation */
    CT_SPAN_LOST,  /* its end is in a gap; it has ended by now */
    CT_SPAN_OPEN,  /* still open when the recording ended */
    CT_SPAN_MOVED, /* it goes on in another lane */
};

/* A call that is open. */
struct ct_span {
    struct ct_name *name;
    uint64_t start_ns;
    uint64_t self_ns; /* when it ends */
    size_t lane;
    bool continued;
    bool context;                  /* it does not fit, but a call inside it does: sums leave it out */
    struct ct_span *below, *above; /* in its lane */
    /* the format's own, 0 at first */
    void *node;
    uint64_t inner_ns, inner_calls;
};

struct ct_export_lane {
    struct ct_span *top;
    uint64_t user; /* the format's own; 0 at the beginning of each thread */
};

struct ct_walk;

/* For formats whose functions may work on several ranges of a thread at once. Such a range is a part: a walk of its own
 * with an `arg` of its own, in which nothing odd happens. `begin`, `pass` and `open` are called in the order of the
 * events, while nobody else uses the whole walk and its `arg`. All but `begin` may be NULL. */
struct ct_walk_sharing {
    size_t size; /* of `arg` */
    /* A part begins where the walk is. Its `arg` is as the last part has left it; at first it is 0. False: no memory.
     */
    bool (*begin)(struct ct_walk *part, const struct ct_walk *whole);
    /* The walk goes on after the part; functions that the part calls are in `touched`, their names are `user`. */
    void (*pass)(struct ct_walk *whole, const struct ct_range *range);
    /* The part has begun a call, which is open at its end. The format's `begin` was called for it in the part. */
    void (*open)(struct ct_walk *whole, struct ct_span *span, struct ct_span *caller);
    /* A range ends, and this call is open there; the innermost call comes first. For sums that calls still have to
     * pass on to their callers: nothing may be left, since the next range may be another one's. */
    void (*settle)(struct ct_walk *w, struct ct_span *span, struct ct_span *caller);
    /* There are no more parts with this `arg`: adds what it has counted. Frees it in any case. */
    void (*end)(struct ct_walk *whole, struct ct_walk *part);
    bool off_apart; /* what `off` writes is not between calls: it is called for the whole walk only */
};

/* `caller`: the call that made this one, NULL when it is not known or has ended. Functions that are NULL are not
 * called. They write to w->out. */
struct ct_walk_format {
    const struct ct_walk_sharing *sharing; /* NULL: ranges are walked one after the other */
    void (*begin_thread)(struct ct_walk *w);
    void (*end_thread)(struct ct_walk *w);
    void (*begin)(struct ct_walk *w, struct ct_span *span, struct ct_span *caller);
    void (*end)(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how);
    /* A call of a function that is recorded on entry only. */
    void (*entry)(struct ct_walk *w, struct ct_name *name, struct ct_span *caller);
    /* An end whose call was not seen. */
    void (*unpaired)(struct ct_walk *w, struct ct_name *name, bool left);
    void (*gap)(struct ct_walk *w, const struct ct_gap *gap);
    void (*signal)(struct ct_walk *w);
    /* The thread begins to wait for the recorder, or leaves its processor; and the end of that. The times are the
     * kernel's: they may be a little off those of events, so a span may begin in one call and end in the next. Spans do
     * not overlap. `off_spans` is true in begin_thread when there may be some. */
    void (*off)(struct ct_walk *w, const struct ct_off_span *span, bool begin);
    bool names_off; /* `off` uses off_name */
};

struct ct_walk {
    struct ct_export *e;
    struct ct_out *out;
    void *arg;
    size_t thread, process;
    const struct ct_trace_thread *info;
    uint64_t now_ns;
    uint64_t sequence;        /* position of the current event in the thread */
    struct ct_name *off_name; /* what the span of `off` is called; NULL: the format does not ask for it */
    uint32_t detail; /* record of the current event: a call's for begin and entry, a return's for end and unpaired */
    bool off_spans;
    struct ct_arguments *values; /* for ct_export_arguments */
    struct ct_export_lane *lanes;
    size_t lane_count;
    /* private */
    const struct ct_walk_format *format;
    struct ct_frames frames;
    const struct ct_scan *scan;
    size_t gap;                      /* the next one of the thread */
    struct ct_timeline ahead;        /* for `off` */
    struct ct_off_span off;          /* the next or current span of it; to_ns 0: none */
    bool is_off;                     /* the span has begun */
    bool silent;                     /* somebody else reports it */
    size_t lane_capacity, lane_hint; /* hint: no lane below is empty */
    struct ct_span *free_spans;
    void *chunks;
};

/* Walks through all selected threads with events, one after the other. */
int ct_walk_trace(struct ct_export *e, const struct ct_walk_format *format, void *arg);

#endif
