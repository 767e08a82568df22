/* SPDX-License-Identifier: Apache-2.0 */
/* The call tree of a trace, line by line, all threads merged by time.
 *
 * A call that made no (shown) calls is one line, with its duration. Any other call is a line that opens and a line that
 * closes. To know which it is, a line waits until the call ends or makes a shown call, and all later lines wait after
 * it. At most a window of lines waits; then the oldest is shown as one that opens. So memory grows only with depth and
 * threads. */
#ifndef CT_REPORT_REPLAY_H
#define CT_REPORT_REPLAY_H

#include "report/select.h"
#include "trace/code_file.h"
#include "trace/follow.h"

enum ct_replay_kind {
    CT_REPLAY_LEAF,  /* call and end */
    CT_REPLAY_OPEN,  /* call */
    CT_REPLAY_CLOSE, /* end of a call that was shown before */
    CT_REPLAY_ENTRY, /* call of a function that is recorded on entry only */
    CT_REPLAY_END,   /* end of a call that was not seen: no duration */
    CT_REPLAY_GAP,   /* events were lost here */
    CT_REPLAY_SIGNAL,
    CT_REPLAY_BLOCK,       /* a block of code was executed */
    CT_REPLAY_COMPILED,    /* a block was translated */
    CT_REPLAY_BLOCKS_LOST, /* blocks are missing here */
    CT_REPLAY_DAMAGED,     /* its file of code is damaged: no more blocks of this thread */
    CT_REPLAY_WAITED,      /* it waited for the recorder; calls around it are shorter by that */
    CT_REPLAY_BLOCKED,     /* it was off the processor, waiting for something */
    CT_REPLAY_PREEMPTED,   /* it was off the processor, able to run */
};

/* How a LEAF or CLOSE ended. */
enum ct_replay_end {
    CT_REPLAY_RETURNED,
    CT_REPLAY_LEFT,      /* by an exception or a longjmp; for END too */
    CT_REPLAY_LOST,      /* its end was lost in a gap: no duration */
    CT_REPLAY_STILL_OPEN /* open at the end of the trace, or of the range: the duration ends there */
};

struct ct_replay_line {
    enum ct_replay_kind kind;
    enum ct_replay_end end;
    size_t thread; /* index */
    uint64_t time_ns;
    uint64_t duration_ns;
    uint32_t indent;
    const char *name, *module; /* "" for GAP and SIGNAL, and blocks of no function or module */
    uint64_t lost;             /* GAP: events; BLOCKS_LOST: blocks */
    const char *reason;        /* GAP: a name of CT_LOSS_LIST; DAMAGED: a sentence; WAITED: a word of the manifest */
    uint32_t detail;           /* record of its call, or of the signal; CT_TRACE_NO_DETAIL */
    uint32_t end_detail;       /* of its return */
    const char *callers;       /* calls with `where` or `one`: "main > work", outside the shown ones; NULL: not shown */
    uint32_t executed;         /* BLOCK: this many of its instructions, from the first on */
    uint64_t into;             /* BLOCK, COMPILED: offset in the function */
    struct ct_code_block block;
};

struct ct_replay_options {
    struct ct_select select; /* functions: calls of these and everything below them; modules: which of them are shown */
    uint64_t max_depth;      /* levels shown, from the outermost or the selected function on; 0: all */
    uint64_t min_ns;         /* calls that took less are not shown */
    size_t window;           /* lines that may wait; 0: 65,536 */
    bool separate_ends;      /* a call and its end are never one line */
    bool blocks;             /* also show what followed threads executed; min_ns must be 0 */
    /* Only this call and all calls below it; NULL: no such limit. */
    const struct ct_replay_one {
        size_t thread;
        uint64_t sequence;
    } * one;
    size_t only_thread;             /* 1 + index of the only thread to show; 0: all selected ones */
    const char *const *directories; /* further places of debug files, for arguments in `where`; may be NULL */
};

/* A non-zero result of `show` ends the replay and is returned. Names are valid until the trace is closed or the replay
 * returns. */
int ct_replay(struct ct_trace *trace, const struct ct_replay_options *options,
              int (*show)(void *arg, const struct ct_replay_line *line), void *arg);

/* Calls `show` for each executed instruction of a BLOCK, with the number of bytes before it; once with 0 for other
 * lines, or when `each` is not set. A non-zero result of `show` ends it and is returned. */
int ct_replay_each_instruction(const struct ct_replay_line *line, bool each,
                               int (*show)(void *arg, const struct ct_replay_line *line, uint64_t at), void *arg);

/* ---- replay of a trace that is being written: events as they come ---- */

struct ct_replay_stream;

struct ct_replay_stream_setup {
    const struct ct_replay_options *options; /* must live; times, threads and processes of the selection are ignored.
                                              * With `where`, a call is shown when it has ended */
    const struct ct_trace_function *(*find)(void *arg, size_t process, uint64_t function);
    void *find_arg;
    int (*show)(void *arg, const struct ct_replay_line *line); /* names are valid during the call */
    void *arg;
};

int ct_replay_stream_open(struct ct_replay_stream **out, const struct ct_replay_stream_setup *setup);
struct ct_where_values;
/* What reads values for `where` from now on, and by number of a thread its index there. NULL: they are not known. */
void ct_replay_stream_values(struct ct_replay_stream *stream, struct ct_where_values *values, const size_t *indexes);
/* Announces a thread, and the gaps in its events that are known by now (they must live until the next announcement).
 * The next event of the thread is its first. */
int ct_replay_stream_thread(struct ct_replay_stream *stream, size_t number, const struct ct_follow_thread *thread);
/* Leaves out events of threads that were not announced. Returns 0, what `show` returned, or a negative status. */
int ct_replay_stream_event(struct ct_replay_stream *stream, const struct ct_trace_event *event);
/* There are no more events at the moment: shows the lines that wait; calls that are open as such. */
int ct_replay_stream_rest(struct ct_replay_stream *stream, uint64_t now_ns);
/* The recording has ended: shows the lines that still wait, gaps after the last events, and calls that are open until
 * then. */
int ct_replay_stream_end(struct ct_replay_stream *stream, const struct ct_follow *follow);
void ct_replay_stream_close(struct ct_replay_stream *stream);

#endif
