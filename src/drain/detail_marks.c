/* SPDX-License-Identifier: Apache-2.0 */
/* Marks that the agent has made, from shared memory to windows. See detail.h. Owner: the drain thread. */
#include "drain/detail.h"
#include "drain/drain.h"

#define MARK_WAIT_NS  100000000ull  /* wait for a mark's event at least this long, */
#define MARK_LOOKS    4u            /* and at least this many passes, in case we were held up */
#define MARK_PATIENCE 2000000000ull /* a mark that is incomplete this long was left by a handler that jumped away, */
#define MARK_PASSES   20u           /* if it also was for this many passes: we may have been held up */

/* The time of a record that was found: that of its event, to the nanosecond, if the event is drained. */
static uint64_t time_of_record(const struct ct_drain *drain, struct ct_drain_thread *t, size_t place) {
    const struct ct_detail_run *run = ct_detail_run_of(&t->detail, drain->detail->places[place].number);
    uint64_t stamp = ct_detail_record(drain->detail, place)->stamp;
    return run ? ct_detail_run_time(run, stamp) : ct_clock_ns(drain->clock, stamp);
}

/* When the thread made the record of this segment that is `records` records before the mark, or the oldest one; 0:
 * there is none. *newest is the number of the last record before the mark. */
static uint64_t time_in_segment(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t segment,
                                const struct ct_shm_mark *m, uint64_t records, uint64_t *newest) {
    const struct ct_detail *d = drain->detail;
    size_t count = ct_detail_find(drain, t, segment, t->detail.last_number, !t->ended);
    while (count && ct_detail_record(d, count - 1)->stamp >= m->stamp)
        count--;
    if (!count)
        return 0;
    size_t at = count > records ? count - (size_t)records : 0;
    *newest = d->places[count - 1].number;
    return time_of_record(drain, t, at);
}

/* As time_in_segment, of the segment in which the mark was made; `ns` if there is no such record. */
static uint64_t time_before(struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_mark *m, uint64_t ns,
                            uint64_t records) {
    uint64_t newest = 0, number = 0;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        if (ct_detail_thread_of(drain, i, CT_SEGMENT_OWNED) != t &&
            ct_detail_thread_of(drain, i, CT_SEGMENT_FROZEN) != t &&
            ct_detail_thread_of(drain, i, CT_SEGMENT_KEPT) != t)
            continue;
        uint64_t found = time_in_segment(drain, t, i, m, records, &number);
        if (found && number > newest) {
            newest = number;
            ns = found;
        }
    }
    return ns;
}

/* The thread may have begun after this pass listed what there is: the next one knows it. */
static bool is_unknown(const struct ct_drain *drain, const struct ct_drain_thread *t, const struct ct_shm_mark *m) {
    return !t && m->number && m->thread < drain->lane->thread_capacity &&
           __atomic_load_n(&drain->lane->threads[m->thread].state, __ATOMIC_RELAXED) != CT_THREAD_FREE;
}

/* The time of a mark is that of its event, to the nanosecond. Returns false if the event is not drained yet. */
static bool time_of_mark(const struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_mark *m,
                         uint64_t *ns) {
    uint64_t number = t && m->number ? ct_detail_number(&t->detail, m->number) : 0;
    const struct ct_detail_run *run = number ? ct_detail_run_of(&t->detail, number) : NULL;
    *ns = run ? ct_detail_run_time(run, m->stamp) : ct_clock_ns(drain->clock, m->stamp);
    bool later = (number && number > t->detail.newest) || is_unknown(drain, t, m);
    bool waited = drain->detail->mark_waits >= MARK_LOOKS && ct_clock_now() > *ns + MARK_WAIT_NS;
    return run || !later || drain->finishing || waited;
}

/* Returns false if the mark has to wait. */
static bool take_mark(struct ct_drain *drain, const struct ct_shm_mark *m) {
    char text[CT_DRAIN_TRIGGER_TEXT] = "";
    const struct ct_windows *w = drain->windows;
    struct ct_drain_thread *t = m->thread < drain->lane->thread_capacity ? drain->by_slot[m->thread] : NULL;
    uint64_t ns;
    if (!time_of_mark(drain, t, m, &ns))
        return false;
    if (drain->trigger_text)
        drain->trigger_text(drain->trigger_arg, m->trigger, text, sizeof text);
    uint64_t pre = ns, events = w->options.rolls.pre_events;
    if (events && t && !ct_windows_wants(w, ns)) /* in a window, what was before is already wanted */
        pre = time_before(drain, t, m, ns, events);
    if (t && m->number)
        ct_detail_keep_before(t, ct_detail_number(&t->detail, m->number));
    ct_windows_mark_from(drain->windows, ns, text, t ? t->tid : 0, ct_drain_function(drain, m->hook), pre);
    return true;
}

/* Takes the marks for which the ring had no room. */
static void take_more_marks(struct ct_drain *drain, uint32_t bit) {
    struct ct_shm_more_marks *m = &drain->lane->more_marks[bit];
    char text[CT_DRAIN_TRIGGER_TEXT] = "";
    if (!__atomic_load_n(&m->count, __ATOMIC_RELAXED))
        return;
    uint64_t count = __atomic_exchange_n(&m->count, 0, __ATOMIC_ACQUIRE); /* released by agent/agent_detail.c */
    uint64_t first = __atomic_exchange_n(&m->first, 0, __ATOMIC_RELAXED), last = m->last;
    struct ct_drain_thread *t = m->thread < drain->lane->thread_capacity ? drain->by_slot[m->thread] : NULL;
    if (drain->trigger_text)
        drain->trigger_text(drain->trigger_arg, drain->lane->control->triggers[bit].id, text, sizeof text);
    uint64_t ns = ct_clock_ns(drain->clock, last), from = first ? ct_clock_ns(drain->clock, first) : ns;
    ct_windows_mark_from(drain->windows, ns, text, t ? t->tid : 0, ct_drain_function(drain, m->hook),
                         from < ns ? from : ns);
    ct_windows_repeat(drain->windows, text, count - 1);
}

/* May this incomplete mark still become complete? */
static bool may_complete(struct ct_detail *d) {
    uint64_t now = ct_clock_now();
    if (!d->mark_waits++)
        d->mark_since = now;
    return d->mark_waits < MARK_PASSES || now - d->mark_since < MARK_PATIENCE;
}

void ct_detail_take_marks(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    struct ct_shm_control *c = drain->lane->control;
    uint64_t next = __atomic_load_n(&c->mark_next, __ATOMIC_ACQUIRE);
    if (next - d->marks_seen > CT_SHM_MARKS) { /* the target has overwritten mark_next */
        d->marks_omitted++;
        d->marks_seen = next;
    }
    while (d->marks_seen < next) {
        const struct ct_shm_mark *m = &drain->lane->marks[d->marks_seen % CT_SHM_MARKS];
        /* released by agent/agent_detail.c */
        bool complete = __atomic_load_n(&m->serial, __ATOMIC_ACQUIRE) == d->marks_seen + 1;
        if (!complete && !drain->finishing && may_complete(d))
            break;
        struct ct_shm_mark copy = *m;
        if (complete && !take_mark(drain, &copy)) {
            d->mark_waits++;
            break;
        }
        d->marks_omitted += !complete;
        d->mark_waits = 0;
        d->marks_seen++;
    }
    d->marks_waiting = d->marks_seen < next;
    __atomic_store_n(&c->mark_taken, (uint32_t)d->marks_seen, __ATOMIC_RELEASE); /* acquired by agent/agent_detail.c */
    for (uint32_t bit = 0; bit < CT_TRIGGER_BITS; bit++)
        take_more_marks(drain, bit);
}

void ct_detail_watch_marks(struct ct_drain *drain) {
    const struct ct_detail *d = drain->detail;
    if (!d)
        return;
    uint64_t next = __atomic_load_n(&drain->lane->control->mark_next, __ATOMIC_ACQUIRE);
    for (uint64_t i = d->marks_seen; i < next && i - d->marks_seen < CT_SHM_MARKS; i++) {
        const struct ct_shm_mark *m = &drain->lane->marks[i % CT_SHM_MARKS];
        if (__atomic_load_n(&m->serial, __ATOMIC_ACQUIRE) != i + 1) /* released by agent/agent_detail.c */
            continue;
        uint32_t slot = m->thread, number = m->number;
        struct ct_drain_thread *t = slot < drain->lane->thread_capacity ? drain->by_slot[slot] : NULL;
        if (t && t->writer && number)
            ct_detail_watch(t, number);
    }
}
