/* Lines of a call tree on a terminal: what `replay` and `tail` print. One owner. */
#ifndef CT_CLI_REPLAY_VIEW_H
#define CT_CLI_REPLAY_VIEW_H

#include "cli/printer.h"
#include "report/replay.h"
#include "trace/arguments.h"

enum { CT_REPLAY_VIEW_STOP = 1 };

struct ct_replay_view {
    struct ct_printer *printer;
    uint64_t start_ns; /* what times are relative to */
    uint64_t limit;    /* lines; 0: all */
    bool show_module;
    struct ct_trace *trace;               /* where the records of signals are; NULL: not looked at */
    struct ct_argument_reader *arguments; /* calls are shown with their arguments; NULL: without */
    bool live;                            /* begun while calls were open */
    bool range;                           /* open calls are open at --to, not at the end */
    bool insns;                           /* a line for each instruction of a block */
    bool blocks;                          /* there are blocks among the calls */
    int seconds_width;
    char **threads; /* their texts, by index; NULL: not shown */
    size_t thread_count, thread_width;
    uint64_t lines;
    bool limited; /* by the limit */
    bool damaged; /* a file of blocks is */
};

/* How many digits seconds take, up to this time since the beginning. */
void ct_replay_view_make_room(struct ct_replay_view *view, uint64_t last_ns);
/* There is a column of threads from now on, and this is in it. */
int ct_replay_view_name_thread(struct ct_replay_view *view, size_t index, const char *text);
/* All threads of the trace. */
int ct_replay_view_name_threads(struct ct_replay_view *view, const struct ct_trace *trace);
void ct_replay_view_head(const struct ct_replay_view *view);
/* For ct_replay: `arg` is the view. CT_REPLAY_VIEW_STOP: nobody wants more. */
int ct_replay_view_line(void *arg, const struct ct_replay_line *line);
void ct_replay_view_free(struct ct_replay_view *view);

#endif
