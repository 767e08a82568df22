/* SPDX-License-Identifier: Apache-2.0 */
/* Time in which threads waited for memory of the lane. It is no call's, so thread_N/waits has it (abi/switches.h).
 * Owner: the drain thread.
 *
 * A chunk's header says for how long its thread had waited when it got the chunk. That was right before the chunk's
 * first event. Header and times are the target's: a wait is never longer than the time between two events of the
 * thread, and never ends later than now. */
#include "drain/drain.h"
#include "trace/switches_file.h"

void ct_drain_note_wait(struct ct_drain_thread *t, uint64_t waited) {
    struct ct_drain_waits *w = &t->waits;
    if (waited > w->seen) {
        w->pending += waited - w->seen;
        w->seen = waited;
    }
}

void ct_drain_put_wait(struct ct_drain *d, struct ct_drain_thread *t, uint64_t first) {
    struct ct_drain_waits *w = &t->waits;
    uint64_t to = ct_clock_ns(d->clock, first), now = ct_clock_now();
    uint64_t from = w->pending < first ? ct_clock_ns(d->clock, first - w->pending) : 0;
    w->pending = 0;
    to = to < now ? to : now;
    from = from > t->last_ns ? from : t->last_ns;
    if (!t->events || from >= to) /* a wait before the first event is in no call */
        return;
    w->ns += to - from;
    int status = 0;
    if (!w->writer)
        status = ct_switches_writer_open_as(&w->writer, d->place, t->id, (uint32_t)t->tid, from, CT_SWITCHES_LIMIT,
                                            CT_WAITS_FILE);
    if (w->writer)
        ct_switches_writer_put(w->writer, &(struct ct_switch_span){from, to, CT_SWITCHES_BLOCKED});
    struct ct_drain_hand *h = ct_drain_hand(d, t);
    h->error = h->error ? h->error : status;
}

int ct_drain_flush_waits(struct ct_drain_thread *t) {
    return t->waits.writer ? ct_switches_writer_flush(t->waits.writer) : 0;
}

int ct_drain_close_waits(struct ct_drain_thread *t) {
    int status = t->waits.writer ? ct_switches_writer_close(t->waits.writer) : 0;
    t->waits.writer = NULL;
    return status;
}
