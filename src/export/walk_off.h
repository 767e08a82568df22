/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for the recorder and time off the processor, in a walk whose format asks for them. */
#ifndef CT_EXPORT_WALK_OFF_H
#define CT_EXPORT_WALK_OFF_H

#include "export/walk.h"

/* Begins a thread. Returns 0 or a status. */
int ct_walk_off_open(struct ct_walk *w);
/* The same for a part of a thread, which follows the whole walk. */
int ct_walk_off_begin(struct ct_walk *w);
/* Goes on to where the other walk is. */
void ct_walk_off_follow(struct ct_walk *w, const struct ct_walk *other);
/* The slow path of ct_walk_off_pass. */
void ct_walk_off_report(struct ct_walk *w, uint64_t now_ns);
/* Begins and ends spans up to a time, in order. */
static inline void ct_walk_off_pass(struct ct_walk *w, uint64_t now_ns) {
    if (w->off.to_ns)
        ct_walk_off_report(w, now_ns);
}
/* The thread has no more events: ends the span at its end. */
void ct_walk_off_finish(struct ct_walk *w, uint64_t end_ns);
void ct_walk_off_close(struct ct_walk *w);

#endif
