/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a replay that wait to be shown. Private to replay*.c.
 *
 * A call and its line are one object. It is in the list while it waits, and its frame refers to it while it is open;
 * otherwise it is free. The list is in order of time. */
#ifndef CT_REPORT_REPLAY_LINES_H
#define CT_REPORT_REPLAY_LINES_H

#include "report/function_cache.h"
#include "report/replay.h"

struct ct_replay_call {
    struct ct_replay_call *previous, *next;
    struct ct_replay_line line;
    struct ct_replay_call *parent; /* the shown call that contains it, or NULL ... */
    uint64_t parent_serial; /* ... which may have ended before it (coroutines); its object has another serial then */
    uint64_t serial;
    uint64_t level;    /* below the outermost, or the selected function */
    char *callers;     /* text of the line; malloc'ed */
    bool is_call;      /* otherwise a line of another kind, which waits for nothing */
    bool waiting;      /* in the list */
    bool open;         /* its frame is open */
    bool hidden;       /* a filter hides it */
    bool candidate;    /* of a stream: hidden until its end shows whether it fits */
    bool inside;       /* at or below a selected function */
    bool kept;         /* it lasts long enough */
    bool has_children; /* shown calls */
    bool ended;
};

struct ct_replay_lines {
    const struct ct_replay_options *options;
    size_t window;
    struct ct_replay_call *first, *last, *undecided; /* undecided: all before it are kept */
    struct ct_replay_call *free;
    struct ct_replay_call **blocks;
    size_t block_count;
    size_t waiting;
    uint64_t serial;
    int (*show)(void *arg, const struct ct_replay_line *line);
    void *arg;
    int stopped; /* what `show` returned, or a negative status */
};

/* NULL: out of memory, and stopped is set. */
struct ct_replay_call *ct_replay_new(struct ct_replay_lines *lines);
void ct_replay_discard(struct ct_replay_lines *lines, struct ct_replay_call *call);
void ct_replay_append(struct ct_replay_lines *lines, struct ct_replay_call *call);
/* Shows the call, and the calls that contain it. */
void ct_replay_keep(struct ct_replay_call *call);
/* Does not show the call. */
void ct_replay_drop(struct ct_replay_lines *lines, struct ct_replay_call *call);
/* Shows the lines that need not wait any more at this time. */
void ct_replay_advance(struct ct_replay_lines *lines, uint64_t now_ns);
/* Shows all lines. */
void ct_replay_flush(struct ct_replay_lines *lines);
void ct_replay_lines_free(struct ct_replay_lines *lines);

#endif
