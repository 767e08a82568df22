/* Lines of a replay that wait to be shown. Private to replay*.c.
 *
 * A call and its line are one object. It is in the list while it waits and referred to by its frame while it is open; when
 * neither is so it is free. The list is in order of time. */
#ifndef CT_REPORT_REPLAY_LINES_H
#define CT_REPORT_REPLAY_LINES_H

#include "report/function_cache.h"
#include "report/replay.h"

struct ct_replay_call {
    struct ct_replay_call *previous, *next;
    struct ct_replay_line line;
    struct ct_replay_call *parent; /* the shown call that it is in, or NULL ... */
    uint64_t parent_serial; /* ... which may have ended before it (coroutines): then its object has another serial */
    uint64_t serial;
    uint64_t level;    /* below the outermost, or the selected function */
    bool is_call;      /* otherwise a line of another kind, that waits for nothing */
    bool waiting;      /* in the list */
    bool open;         /* its frame is */
    bool hidden;       /* by a filter */
    bool inside;       /* at or below a selected function */
    bool kept;         /* it lasts long enough */
    bool has_children; /* shown ones */
    bool ended;
};

struct ct_replay_lines {
    const struct ct_replay_options *options;
    size_t window;
    struct ct_replay_call *first, *last, *undecided; /* undecided: before it all are kept */
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
/* It is shown, and so are the calls that it is in. */
void ct_replay_keep(struct ct_replay_call *call);
/* It is not shown. */
void ct_replay_drop(struct ct_replay_lines *lines, struct ct_replay_call *call);
/* Shows what needs not wait any more at this time. */
void ct_replay_advance(struct ct_replay_lines *lines, uint64_t now_ns);
/* Shows everything. */
void ct_replay_flush(struct ct_replay_lines *lines);
void ct_replay_lines_free(struct ct_replay_lines *lines);

#endif
