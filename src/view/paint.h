/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the events of one thread and says what is to be seen (strips.h). Every picture of calls comes from here. */
#ifndef CT_VIEW_PAINT_H
#define CT_VIEW_PAINT_H

#include "query/source.h"
#include "view/strips.h"

/* Takes the events of a thread one by one. */
struct ct_painter {
    struct ct_source *source; /* may change between events, for that of a trace that has grown */
    size_t process;
    struct ct_frames frames;
    struct ct_strips strips;
    uint64_t last_ns; /* of the event before */
};

/* Zeroed, with the first two fields and the strips' callback set. */
int ct_painter_event(struct ct_painter *painter, const struct ct_trace_event *event);
void ct_painter_begin(struct ct_painter *painter, bool complete);
void ct_painter_free(struct ct_painter *painter);

struct ct_paint {
    struct ct_source *source;
    size_t thread;
    uint64_t from_ns, to_ns; /* CLOCK_BOOTTIME; to_ns 0: no end */
    /* Pieces begin before from_ns where their calls do, and end at to_ns at the latest. */
    void (*piece)(void *arg, uint32_t depth, const struct ct_piece *piece);
    /* The calls that are open at from_ns are not known: only those that begin later are seen. For a look at a thread
     * whose events before it would take too long to read. */
    bool blind;
    /* With `blind`: events that open calls are known by: they are read first, from the position `next` on, which is
     * before from_ns. */
    const struct ct_trace_event *open;
    size_t open_count;
    uint64_t next;
    void *arg;
};

/* Returns 0 or a negative status; CT_ERR_TIMEOUT: the owner has stopped it. */
int ct_paint(const struct ct_paint *paint);

#endif
