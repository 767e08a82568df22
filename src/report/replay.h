/* The call tree of a trace, line by line, all threads merged by time.
 *
 * A call that made no (shown) calls is one line, with its duration; another is a line that opens and one that closes. To know
 * which it is, a line waits until the call ends or makes a shown call, behind it all later ones; no more than a window of
 * lines waits, then the oldest is shown as one that opens. So memory grows with depth and threads only. */
#ifndef CT_REPORT_REPLAY_H
#define CT_REPORT_REPLAY_H

#include "report/select.h"
#include "trace/code_file.h"
#include "trace/follow.h"

enum ct_replay_kind {
    CT_REPLAY_LEAF,  /* call and end */
    CT_REPLAY_OPEN,  /* call */
    CT_REPLAY_CLOSE, /* end of a call that is above */
    CT_REPLAY_ENTRY, /* call of a function that is recorded on entry only */
    CT_REPLAY_END,   /* end of a call that was not seen: no duration */
    CT_REPLAY_GAP,   /* events were lost here */
    CT_REPLAY_SIGNAL,
    CT_REPLAY_BLOCK,       /* a block of code was executed */
    CT_REPLAY_COMPILED,    /* a block was translated */
    CT_REPLAY_BLOCKS_LOST, /* blocks are missing here */
    CT_REPLAY_DAMAGED,     /* its file of code is damaged: no more blocks of this thread */
};

/* How a LEAF or CLOSE ended. */
enum ct_replay_end {
    CT_REPLAY_RETURNED,
    CT_REPLAY_LEFT,      /* by an exception or a longjmp; for END too */
    CT_REPLAY_LOST,      /* its end was lost in a gap: no duration */
    CT_REPLAY_STILL_OPEN /* it was open at the end of the trace, or of the range: the duration goes to there */
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
    const char *reason;        /* GAP: a name of CT_LOSS_LIST; DAMAGED: a sentence */
    uint32_t detail;           /* record of its call, or of the signal; CT_TRACE_NO_DETAIL */
    uint32_t end_detail;       /* of its return */
    uint32_t executed;         /* BLOCK: of its instructions, the first */
    uint64_t into;             /* BLOCK, COMPILED: offset in the function */
    struct ct_code_block block;
};

struct ct_replay_options {
    struct ct_select select; /* functions: calls of these and all below them; modules: which of them are shown */
    uint64_t max_depth;      /* levels shown, from the outermost or the selected function on; 0: all */
    uint64_t from_ns, to_ns; /* CLOCK_BOOTTIME; to 0: no end */
    uint64_t min_ns;         /* calls that took less are not shown */
    size_t window;           /* lines that may wait; 0: 65,536 */
    bool apart;              /* calls and their ends are never one line */
    bool blocks;             /* what followed threads have executed, too; min_ns must be 0 */
};

/* Non-zero from `show` ends it, and is returned. Names are good until the trace is closed or the replay returns. */
int ct_replay(struct ct_trace *trace, const struct ct_replay_options *options,
              int (*show)(void *arg, const struct ct_replay_line *line), void *arg);

/* `show` for each instruction of a BLOCK that was executed, with the bytes before it; once with 0 for other lines, or when not `each`. Ends
 * when that returns non-zero, and returns it. */
int ct_replay_each_instruction(const struct ct_replay_line *line, bool each,
                               int (*show)(void *arg, const struct ct_replay_line *line, uint64_t at), void *arg);

/* ---- a trace that is being written: events as they come ---- */

struct ct_replay_stream;

struct ct_replay_stream_setup {
    const struct ct_replay_options *options; /* stays; from_ns, to_ns and select.threads are not looked at */
    const struct ct_trace_function *(*find)(void *arg, size_t process, uint64_t function);
    void *find_arg;
    int (*show)(void *arg, const struct ct_replay_line *line); /* names are good during the call */
    void *arg;
};

int ct_replay_stream_open(struct ct_replay_stream **out, const struct ct_replay_stream_setup *setup);
/* Says that there is such a thread, and where events of it are missing, as far as is known by now (good until told anew). Its
 * first event is the one that comes next. */
int ct_replay_stream_thread(struct ct_replay_stream *stream, size_t number, const struct ct_follow_thread *thread);
/* Those of threads that nobody told of are left out. Returns 0, what `show` returned, or a negative status. */
int ct_replay_stream_event(struct ct_replay_stream *stream, const struct ct_trace_event *event);
/* No more is to be had at the moment: shows what has waited, calls that are open as such. */
int ct_replay_stream_rest(struct ct_replay_stream *stream, uint64_t now_ns);
/* Shows what still waits, and gaps behind the last events. Calls that are open stay so. */
int ct_replay_stream_end(struct ct_replay_stream *stream);
void ct_replay_stream_close(struct ct_replay_stream *stream);

#endif
