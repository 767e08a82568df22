/* SPDX-License-Identifier: Apache-2.0 */
/* Where a replay begins and ends: around a moment, at its last lines, or with one call. */
#ifndef CT_CLI_REPLAY_START_H
#define CT_CLI_REPLAY_START_H

#include "report/replay.h"

struct ct_replay_start_options {
    const char *around;
    uint64_t context, tail;
    bool first, last;
};

/* A part of the lines of a replay. */
struct ct_replay_start {
    struct ct_replay_one one;
    uint64_t skip, show; /* lines */
    int (*line)(void *arg, const struct ct_replay_line *line);
    void *arg;
};

/* Return -1 to continue, otherwise the exit code, after a message. */
int ct_replay_start_check(const struct ct_replay_start_options *options);
/* Changes the options of the replay, whose selection is known, so that it begins where it should. */
int ct_replay_start_find(struct ct_replay_start *start, struct ct_trace *trace,
                         const struct ct_replay_start_options *options, struct ct_replay_options *replay);
/* For ct_replay: `arg` is the start; calls `line` for the lines of the part. */
int ct_replay_start_line(void *arg, const struct ct_replay_line *line);

#endif
