/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a call tree on a terminal: what `replay` and `tail` print. One owner. */
#ifndef CT_CLI_REPLAY_VIEW_H
#define CT_CLI_REPLAY_VIEW_H

#include "cli/printer.h"
#include "report/marks.h"
#include "report/replay.h"
#include "trace/arguments.h"
#include "trace/wall.h"

enum { CT_REPLAY_VIEW_STOP = 1 };

struct ct_replay_view {
    struct ct_printer *printer;
    uint64_t start_ns;          /* times are relative to this */
    const struct ct_wall *wall; /* times are those of the wall clock; NULL: they are not */
    uint64_t limit;             /* lines; 0: all */
    bool show_module;
    struct ct_trace *trace;               /* has the records of signals; NULL: they are not shown */
    struct ct_argument_reader *arguments; /* calls are shown with their arguments; NULL: without */
    const size_t *indexes; /* of threads in the reader's trace, by those of lines; NULL: they are equal */
    bool live;             /* started while calls were open */
    bool range;            /* open calls are open at --to, not at the end */
    bool insns;            /* a line for each instruction of a block */
    bool blocks;           /* there are blocks among the calls */
    int seconds_width;
    char **threads; /* texts of the threads, by index; NULL: not shown */
    size_t thread_count, thread_width;
    struct ct_marks marks; /* lines of their own, before the first line that is not older */
    bool marks_skipped;    /* lines before the first one are left out, and the marks among them */
    uint64_t lines;
    bool limited; /* the limit was reached */
    bool damaged; /* a file of blocks is damaged */
};

/* Sets the width of seconds, for times up to this one since the beginning. */
void ct_replay_view_make_room(struct ct_replay_view *view, uint64_t last_ns);
/* Adds a text to the column of threads, which is shown from now on. */
int ct_replay_view_name_thread(struct ct_replay_view *view, size_t index, const char *text);
/* Adds all threads of the trace. */
int ct_replay_view_name_threads(struct ct_replay_view *view, const struct ct_trace *trace);
void ct_replay_view_head(const struct ct_replay_view *view);
/* For ct_replay: `arg` is the view. Returns CT_REPLAY_VIEW_STOP when no more lines are needed. */
int ct_replay_view_line(void *arg, const struct ct_replay_line *line);
/* Prints the marks up to this time that were not printed yet. */
int ct_replay_view_marks(struct ct_replay_view *view, uint64_t until_ns);
void ct_replay_view_free(struct ct_replay_view *view);

#endif
