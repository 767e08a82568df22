/* The call tree of a trace, line by line, all threads merged by time.
 *
 * A call that made no (shown) calls is one line, with its duration; another is a line that opens and one that closes. To know
 * which it is, a line waits until the call ends or makes a shown call, behind it all later ones; no more than a window of
 * lines waits, then the oldest is shown as one that opens. So memory grows with depth and threads only. */
#ifndef CT_REPORT_REPLAY_H
#define CT_REPORT_REPLAY_H

#include "report/select.h"

enum ct_replay_kind {
    CT_REPLAY_LEAF,  /* call and end */
    CT_REPLAY_OPEN,  /* call */
    CT_REPLAY_CLOSE, /* end of a call that is above */
    CT_REPLAY_ENTRY, /* call of a function that is recorded on entry only */
    CT_REPLAY_END,   /* end of a call that was not seen: no duration */
    CT_REPLAY_GAP,   /* events were lost here */
    CT_REPLAY_SIGNAL,
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
    const char *name, *module; /* "" for GAP and SIGNAL */
    uint64_t lost;             /* GAP: events */
    const char *reason;        /* GAP: a name of CT_LOSS_LIST */
};

struct ct_replay_options {
    struct ct_select select; /* functions: calls of these and all below them; modules: which of them are shown */
    uint64_t max_depth;      /* levels shown, from the outermost or the selected function on; 0: all */
    uint64_t from_ns, to_ns; /* CLOCK_BOOTTIME; to 0: no end */
    uint64_t min_ns;         /* calls that took less are not shown */
    size_t window;           /* lines that may wait; 0: 65,536 */
};

/* Non-zero from `show` ends it, and is returned. Names are good until the trace is closed or the replay returns. */
int ct_replay(struct ct_trace *trace, const struct ct_replay_options *options,
              int (*show)(void *arg, const struct ct_replay_line *line), void *arg);

#endif
