/* SPDX-License-Identifier: Apache-2.0 */
/* The events of one thread in a range of time, with the calls that are open where the range begins.
 *
 * All readers of calls go through here. What happened before the range costs nothing but the search for its beginning
 * (ct_scan_start): that function is the only one that knows how the open calls are found. Of a large thread, it takes
 * them from the thread's summary (trace/summary.h) and reads from there; the result is the same.
 *
 *   ct_scan_open(&scan, &setup);      the frames have the open calls: they begin at from_ns, but for their began_ns
 *   for each open frame (ct_frames_next): the reader gives it a `user`
 *   while (ct_scan_next(&scan, &event)) ...
 *   ct_frames_take(frames, ct_scan_end(&scan), ...) for what is open at the end
 *   ct_scan_close(&scan);
 *
 * One owner. Several scans may read one trace in parallel, each a different thread of it. */
#ifndef CT_REPORT_SCAN_H
#define CT_REPORT_SCAN_H

#include "trace/facts.h"
#include "trace/frames.h"
#include <pthread.h>

struct ct_summary;

/* Which spans of a thread a reader needs, and what it does when some are left out. The last span, and spans with gaps,
 * signals or lost ends, are never left out. */
struct ct_scan_spans {
    bool (*needed)(void *arg, const struct ct_summary *summary, size_t span);
    /* True: the reader needs to see the end of this frame. NULL: needed spans have all such ends. */
    bool (*stays)(void *arg, const struct ct_frame *frame);
    /* The frame was closed in a part that was left out. NULL: that does not matter. */
    void (*closed)(void *arg, struct ct_frame *frame);
    /* The frame was opened there, and has no `user` yet; oldest first. NULL: that does not matter. */
    void (*opened)(void *arg, struct ct_frame *frame);
};

struct ct_scan_setup {
    struct ct_trace *trace;
    const struct ct_facts *facts;
    size_t thread;
    uint64_t from_ns, to_ns;      /* CLOCK_BOOTTIME; to 0: no end */
    struct ct_frames *frames;     /* begun here; reused from thread to thread for their memory */
    struct ct_timeline *timeline; /* of the thread, not passed yet; NULL: the scan opens one, until it is closed */
    /* Called when the end of a frame was lost in the range. */
    void (*lost)(void *arg, struct ct_frame *frame);
    /* True for a function that is recorded on entry only: its calls open no frame. */
    bool (*entry_only)(void *arg, size_t process, uint64_t function);
    void *arg;
    /* Only calls that take this long matter, of the whole thread: others may be left out with all their events. The
     * reader looks at ends alone, gives frames no `user`, and opens the scan by ct_scan_open. 0: all calls. */
    uint64_t least_ns;
    bool alone; /* other processors have work: nobody reads ahead */
    /* For readers that look for some calls only, and open the scan by ct_scan_open; not with from_ns. Spans of a large
     * thread may be left out: the open frames change then, and those that stay keep their `user`. */
    const struct ct_scan_spans *spans; /* NULL: all events are read */
    struct ct_summary *summary;        /* of the thread, for `spans` and from_ns; NULL: the scan opens it */
    pthread_mutex_t *names;            /* held while functions are looked up; NULL: nobody else uses the trace */
};

struct ct_scan {
    struct ct_scan_setup setup;
    uint64_t next; /* position of the first event of the range; of ct_scan_next: of the next event */
    size_t gap;    /* gaps of the thread before the next event; those before the range do not count as passed */
    size_t first_gap;
    uint64_t gap_ns;          /* time in the gaps that were passed */
    uint64_t first_ns;        /* time of the first event in the range, or the beginning of the range; 0: none yet */
    uint64_t last_ns;         /* time of the last event, in the range */
    uint64_t now_ns;          /* time of the event that is being read: when frames are lost in a gap before it */
    bool past;                /* there are events after the range */
    uint64_t left_out;        /* calls that have ended in events that were left out */
    uint64_t left_out_events; /* these events */
    /* private */
    const struct ct_thread_facts *facts;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event waiting; /* read, but not returned yet */
    struct ct_timeline timeline;   /* when the setup has none */
    bool has_waiting;
    bool jumped;                /* the cursor is before `next` */
    struct ct_summary *summary; /* NULL: every event is read */
    uint64_t boundary;          /* ct_scan_skip_next is called before the event at this position */
    size_t needed;              /* the next span that is needed */
};

/* Begins the frames and gives them the calls that are open at from_ns; sets `next`, `gap` and `last_ns`. For readers of
 * several threads at once, which read the events themselves from `next` on. ct_scan_close ends it too. */
int ct_scan_start(struct ct_scan *scan, const struct ct_scan_setup *setup);
/* ct_scan_start, for readers of this one thread. */
int ct_scan_open(struct ct_scan *scan, const struct ct_scan_setup *setup);
/* The next event of the range; the frames know the gaps before it. False: there are no more. */
bool ct_scan_next(struct ct_scan *scan, struct ct_trace_event *event);
/* Passes over the events up to the position `end`, which somebody else has read; they have no gap before them.
 * first_ns, last_ns: times of the first and the last of them. */
void ct_scan_jump(struct ct_scan *scan, uint64_t end, uint64_t first_ns, uint64_t last_ns);
/* When the calls end that are still open, after the last event: at the end of the thread or of the range. */
uint64_t ct_scan_end(const struct ct_scan *scan);
/* How long the thread waited for the recorder in the range, between its first event and its last. */
uint64_t ct_scan_waited(const struct ct_scan *scan);
/* False: it is not known when the thread was on a processor. */
bool ct_scan_has_cpu(const struct ct_scan *scan);
/* True when events are missing after the last one. */
bool ct_scan_ends_in_gap(const struct ct_scan *scan);
void ct_scan_close(struct ct_scan *scan);

#endif
