/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a call tree as JSON: one array, an object on each line. One owner. */
#ifndef CT_CLI_REPLAY_JSON_H
#define CT_CLI_REPLAY_JSON_H

#include "cli/printer.h"
#include "report/marks.h"
#include "report/replay.h"
#include "trace/arguments.h"
#include "trace/wall.h"

struct ct_replay_json {
    struct ct_printer *printer;
    struct ct_trace *trace;
    const struct ct_wall *wall;           /* NULL: not wanted */
    struct ct_argument_reader *arguments; /* NULL: without arguments */
    uint64_t limit, lines;
    struct ct_marks *marks; /* objects of their own, before the first one that is not older */
    bool marks_skipped;     /* lines before the first one are left out, and the marks among them */
    bool insns;             /* an object for each instruction of a block */
    bool damaged;           /* a file of blocks is damaged */
};

void ct_replay_json_begin(struct ct_replay_json *view);
/* For ct_replay: `arg` is the view. */
int ct_replay_json_line(void *arg, const struct ct_replay_line *line);
/* Writes the marks up to this time that were not written yet. Returns CT_REPLAY_VIEW_STOP as ct_replay_json_line. */
int ct_replay_json_marks(struct ct_replay_json *view, uint64_t until_ns);
void ct_replay_json_end(struct ct_replay_json *view);

#endif
