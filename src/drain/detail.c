/* SPDX-License-Identifier: Apache-2.0 */
/* See detail.h. */
#include "drain/detail.h"
#include "drain/drain.h"
#include "abi/event.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define BYTES         CT_SHM_DETAIL_CHUNK
#define MARK_WAIT_NS  100000000ull /* wait for a mark's event at least this long, */
#define MARK_LOOKS    4u           /* and at least this many passes, in case we were held up */
#define LOOK_NS       200000000ull /* between two looks at segments in use while everything is wanted */
#define AFTER_NS      30000000ull
#define SCARCE        4u            /* one segment in this many must be free, or those of ended threads are freed */
#define MARK_PATIENCE 2000000000ull /* a mark that is incomplete this long was left by a handler that jumped away, */
#define MARK_PASSES   20u           /* if it also was for this many passes: we may have been held up */

/* ---- writing records ---- */

static uint32_t put_call(const struct ct_lane *lane, const struct ct_shm_detail *in, struct atf_detail_call *out) {
    uint32_t room = lane->stack_bytes < 8 ? 8 : lane->stack_bytes, vectors = lane->vectors ? 128 : 0;
    uint64_t captured = in->call.stack_size <= room ? in->call.stack_size : 0;
    uint8_t *bytes = (uint8_t *)(out + 1);
    memcpy(out->registers, in->call.registers, sizeof out->registers);
    if (captured >= 8)
        memcpy(&out->return_address, in->call.stack, 8);
    out->frame_pointer = in->call.frame_pointer;
    out->stack_pointer = in->call.stack_pointer;
    out->stack_size = (uint16_t)(captured <= lane->stack_bytes ? captured : lane->stack_bytes);
    memcpy(bytes, in->call.stack, out->stack_size);
    memcpy(bytes + out->stack_size, in->call.stack + room, vectors);
    return out->stack_size + vectors;
}

static uint32_t put_return(const struct ct_lane *lane, const struct ct_shm_detail *in, struct atf_detail_call *out) {
    uint32_t vectors = lane->vectors ? 128 : 0;
    uint8_t *bytes = (uint8_t *)(out + 1);
    memcpy(out->registers, in->ret.registers, sizeof in->ret.registers);
    out->return_address = in->ret.return_address;
    out->frame_pointer = in->ret.frame_pointer;
    out->stack_pointer = in->ret.stack_pointer;
    memset(bytes, 0, vectors);
    memcpy(bytes, (const uint8_t *)in + CT_DETAIL_RETURN_SIZE, vectors / 4);
    if (!lane->has_errno)
        return vectors;
    memcpy(bytes + vectors, (const uint8_t *)in + CT_DETAIL_ERRNO, sizeof(struct atf_detail_errno));
    out->event.flags |= ATF_DETAIL_ERRNO;
    return vectors + (uint32_t)sizeof(struct atf_detail_errno);
}

static bool open_writer(struct ct_drain *drain, struct ct_drain_thread *t) {
    if (t->detail.writer)
        return true;
    int status = ct_detail_writer_open(&t->detail.writer, drain->place, t->id, (uint32_t)t->tid);
    if (!status)
        ct_detail_writer_keep(t->detail.writer, drain->format.segments);
    drain->error = drain->error ? drain->error : status;
    return !status;
}

static void write_record(struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_detail *in,
                         uint64_t number, uint64_t seq, uint64_t ns) {
    /* pieces are not larger than they are in the lane */
    static _Thread_local uint64_t
        space[(sizeof(struct atf_detail_call) + 512 + 128 + sizeof(struct atf_detail_errno) + CT_VALUES_MOST + 7) / 8];
    struct atf_detail_call *out = (struct atf_detail_call *)space;
    bool returned = (in->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
    ct_drain_put_registers(drain, t, seq);
    if (!t->writer || !open_writer(drain, t))
        return;
    memset(out, 0, sizeof *out);
    uint32_t more = returned ? put_return(drain->lane, in, out) : put_call(drain->lane, in, out);
    more += ct_detail_put_values(&t->detail, number, &out->event, (uint8_t *)(out + 1) + more);
    out->event.total_length = (uint32_t)sizeof *out + more;
    out->event.event_type = returned ? ATF_DETAIL_RETURN : ATF_DETAIL_CALL;
    out->event.flags |= drain->lane->vectors ? ATF_DETAIL_VECTORS : 0;
    out->event.index_seq = (uint32_t)seq;
    out->event.thread_id = (uint32_t)t->tid;
    out->event.timestamp = ns;
    out->function_id = ct_drain_function(drain, in->hook);
    uint32_t detail_seq = ct_detail_writer_add(t->detail.writer, &out->event);
    if (detail_seq == ATF_NO_DETAIL)
        return;
    ct_thread_writer_link(t->writer, seq, detail_seq);
    t->detail.written++;
}

/* Could a later mark want this moment, which is not wanted now? */
static bool may_be_marked_later(const struct ct_windows *w, uint64_t ns) {
    return !w->count || ns > w->recent[w->count - 1]->end;
}

static const struct ct_window *window_of(const struct ct_windows *w, uint64_t ns) {
    for (size_t i = w->count; i-- > 0;)
        if (ns >= w->recent[i]->start && ns <= w->recent[i]->end)
            return w->recent[i];
    return NULL;
}

/* Counts numbers between two events of the same window that have no records. (Records that are missing before a
 * window's first one are not lost: the window is short, and is reported as such; unless it began with the thread.) */
static void count_missing(struct ct_drain *drain, struct ct_detail_thread *t, uint64_t number, uint64_t ns) {
    const struct ct_windows *w = drain->windows;
    const struct ct_window *window = window_of(w, ns);
    uint64_t since = t->last_ns ? t->last_ns : t->first_ns;
    bool from_first = w->options.detail == CT_SESSION_DETAIL_ALWAYS || (window && since >= window->first_mark);
    if (number > t->last_number + 1 && window && since >= window->start && (t->last_ns || from_first))
        t->lost += number - t->last_number - 1;
}

/* Takes a thread's next record. Returns false if it has to wait: its event is not drained yet, or it may be wanted
 * later and stays where it is (`stays`). `cut`: older records were overwritten; this is reported with the record's
 * time, and cleared. */
static bool take_record(struct ct_drain *drain, struct ct_drain_thread *t, size_t place, bool stays, bool *cut) {
    struct ct_windows *w = drain->windows;
    const struct ct_shm_detail *in = ct_detail_record(drain->detail, place);
    uint64_t number = drain->detail->places[place].number;
    if (drain->detail->places[place].values) {
        ct_detail_keep_values(drain->detail, &t->detail, place);
        return true;
    }
    const struct ct_detail_run *run = ct_detail_run_of(&t->detail, number);
    if (!run)
        return number <= t->detail.newest || drain->finishing;
    uint64_t ns = ct_detail_run_time(run, in->stamp);
    if (*cut)
        ct_windows_lost(w, ns);
    *cut = false;
    bool wanted = ct_windows_wants(w, ns);
    if (!wanted && may_be_marked_later(w, ns)) {
        if (stays && !drain->finishing)
            return false;
        ct_windows_lost(w, ns); /* a window that wants it later is reported as short */
    }
    if (wanted)
        count_missing(drain, &t->detail, number, ns);
    t->detail.last_number = number;
    t->detail.last_ns = ns;
    ct_windows_saw(w, t->tid, ns);
    if (!wanted)
        return true;
    write_record(drain, t, in, number, run->seq + (number - run->number), ns);
    ct_windows_persisted(w, ns);
    return true;
}

/* The time of a record that was found: that of its event, to the nanosecond, if the event is drained. */
static uint64_t time_of_record(const struct ct_drain *drain, struct ct_drain_thread *t, size_t place) {
    const struct ct_detail_run *run = ct_detail_run_of(&t->detail, drain->detail->places[place].number);
    uint64_t stamp = ct_detail_record(drain->detail, place)->stamp;
    return run ? ct_detail_run_time(run, stamp) : ct_clock_ns(drain->clock, stamp);
}

/* Returns false if some records have to wait. `stays`: the thread still owns the segment. */
static bool take_segment(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t segment, bool stays) {
    const struct ct_shm_segment *s = &drain->lane->segments[segment];
    size_t count = ct_detail_find(drain, t, segment, t->detail.last_number, stays && !t->ended);
    bool cut = count && drain->detail->places[0].number > t->detail.last_number + 1 && s->turns >= s->chunks;
    for (size_t i = 0; i < count; i++)
        if (!take_record(drain, t, i, stays, &cut))
            return false;
    return true;
}

/* Counts what is missing at the end: the thread has no more records, or no segment to put them in. */
static void count_tail(struct ct_drain *drain, struct ct_drain_thread *t) {
    if (!t->detail.newest || !ct_windows_wants(drain->windows, t->detail.newest_ns))
        return;
    count_missing(drain, &t->detail, t->detail.newest + 1, t->detail.newest_ns);
    t->detail.last_number = t->detail.newest;
}

/* ---- passes ---- */

static uint32_t word_of(const struct ct_lane *lane, uint32_t segment) {
    return __atomic_load_n(&lane->segments[segment].word, __ATOMIC_ACQUIRE); /* released by agent/agent_detail.c */
}

/* The thread that owns a segment in this state; NULL: none that we know. */
static struct ct_drain_thread *thread_of(struct ct_drain *drain, uint32_t segment, enum ct_segment_state state) {
    uint32_t word = word_of(drain->lane, segment), slot = CT_SEGMENT_SLOT(word);
    if (CT_SEGMENT_STATE(word) != state || slot >= drain->lane->thread_capacity)
        return NULL;
    struct ct_drain_thread *t = drain->by_slot[slot];
    return t && t->generation == drain->lane->segments[segment].thread_generation ? t : NULL;
}

static int by_serial(const void *a, const void *b) {
    const struct ct_detail_frozen *x = a, *y = b;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

static void list_frozen(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    d->frozen_count = 0;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++)
        if (CT_SEGMENT_STATE(word_of(drain->lane, i)) == CT_SEGMENT_FROZEN)
            d->frozen[d->frozen_count++] = (struct ct_detail_frozen){i, drain->lane->segments[i].serial};
    qsort(d->frozen, d->frozen_count, sizeof *d->frozen, by_serial);
}

/* A thread's frozen segments come before the one that it is filling, and both after the index was drained: records of
 * segments that are handed over from now on have events that are not drained yet, and have to wait. */
static void take_frozen(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    list_frozen(drain);
    for (size_t i = 0; i < d->frozen_count; i++) {
        uint32_t segment = d->frozen[i].segment;
        struct ct_drain_thread *t = thread_of(drain, segment, CT_SEGMENT_FROZEN);
        if (t && take_segment(drain, t, segment, false)) /* NULL: its first events are not drained yet */
            ct_lane_free_segment(drain->lane, segment);
    }
}

/* Takes what is now in the segments that threads are filling. */
static void take_owned(struct ct_drain *drain, uint64_t now_ns) {
    drain->detail->looked_at = now_ns;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        struct ct_drain_thread *t = thread_of(drain, i, CT_SEGMENT_OWNED);
        if (t && (t->detail.newest > t->detail.last_number || drain->finishing))
            (void)take_segment(drain, t, i, true);
    }
}

/* Measures how far back the records of all threads are complete. */
static void measure_reach(struct ct_drain *drain, uint64_t now_ns) {
    uint64_t oldest = drain->windows->start_ns;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        bool wrapped;
        const struct ct_drain_thread *t = thread_of(drain, i, CT_SEGMENT_OWNED);
        uint64_t ns = t ? ct_detail_oldest(drain, t, i, &wrapped) : 0;
        oldest = ns > oldest && wrapped ? ns : oldest;
    }
    drain->detail->reach_ns = now_ns > oldest ? now_ns - oldest : 0;
    drain->windows->gone_ns = oldest;
    drain->detail->measured_at = now_ns;
    ct_lane_count_segments(drain->lane);
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
        if (thread_of(drain, i, CT_SEGMENT_OWNED) != t && thread_of(drain, i, CT_SEGMENT_FROZEN) != t)
            continue;
        uint64_t found = time_in_segment(drain, t, i, m, records, &number);
        if (found && number > newest) {
            newest = number;
            ns = found;
        }
    }
    return ns;
}

/* The time of a mark is that of its event, to the nanosecond. Returns false if the event is not drained yet. */
static bool time_of_mark(const struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_mark *m,
                         uint64_t *ns) {
    uint64_t number = t && m->number ? ct_detail_number(&t->detail, m->number) : 0;
    const struct ct_detail_run *run = number ? ct_detail_run_of(&t->detail, number) : NULL;
    *ns = run ? ct_detail_run_time(run, m->stamp) : ct_clock_ns(drain->clock, m->stamp);
    bool later = number && number > t->detail.newest;
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
    uint64_t pre = ns;
    if (w->options.pre_events && t && !ct_windows_wants(w, ns)) /* in a window, what was before is already wanted */
        pre = time_before(drain, t, m, ns, w->options.pre_events);
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

static void take_marks(struct ct_drain *drain) {
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
    __atomic_store_n(&c->mark_taken, (uint32_t)d->marks_seen, __ATOMIC_RELEASE); /* acquired by agent/agent_detail.c */
    for (uint32_t bit = 0; bit < CT_TRIGGER_BITS; bit++)
        take_more_marks(drain, bit);
}

/* At a window's end, and for a moment after it: events of its last records may come into the index a pass later. */
static bool is_ending(const struct ct_windows *w, uint64_t now_ns) {
    const struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    return newest && newest->end <= now_ns &&
           (w->state == CT_SESSION_WINDOW_PERSISTING || now_ns - newest->end < AFTER_NS);
}

/* Tells the target whether everything is wanted: then threads hand over full segments. A mark may have come meanwhile
 * and set `persisting`; that is not undone. */
static void publish_persisting(struct ct_drain *drain) {
    struct ct_shm_control *c = drain->lane->control;
    bool wanted = drain->windows->state != CT_SESSION_WINDOW_CAPTURING;
    __atomic_store_n(&c->persisting, wanted, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint32_t bit = 0; !wanted && bit < CT_TRIGGER_BITS; bit++)
        wanted = __atomic_load_n(&drain->lane->more_marks[bit].count, __ATOMIC_RELAXED) != 0;
    if (wanted || __atomic_load_n(&c->mark_next, __ATOMIC_RELAXED) != drain->detail->marks_seen)
        __atomic_store_n(&c->persisting, 1, __ATOMIC_RELAXED);
}

/* Segments in use are looked at while everything is wanted, when a window begins and ends, and then until it has
 * settled, for threads that were interrupted at its end. */
static bool is_time_to_look(struct ct_drain *drain, uint64_t now_ns) {
    const struct ct_windows *w = drain->windows;
    struct ct_detail *d = drain->detail;
    bool capturing = w->state == CT_SESSION_WINDOW_CAPTURING, due = now_ns - d->looked_at > LOOK_NS;
    if (w->state == CT_SESSION_WINDOW_MARKED || is_ending(w, now_ns))
        return d->may_look = true;
    bool looks = due && (!capturing || d->may_look);
    d->may_look = !capturing || (d->may_look && !ct_windows_settled(w, now_ns));
    return looks;
}

static void flush_writers(struct ct_drain *drain) {
    for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
        if (t->detail.writer) {
            int status = ct_detail_writer_flush(t->detail.writer);
            drain->error = drain->error ? drain->error : status;
        }
}

void ct_detail_pass(struct ct_drain *drain, uint64_t now_ns) {
    struct ct_windows *w = drain->windows;
    if (!drain->detail)
        return;
    take_marks(drain);
    if (drain->on_pass)
        drain->on_pass(drain->on_pass_arg, now_ns);
    take_frozen(drain);
    if (is_time_to_look(drain, now_ns))
        take_owned(drain, now_ns);
    if (ct_windows_active(w))
        flush_writers(drain);
    if (now_ns - drain->detail->measured_at > LOOK_NS)
        measure_reach(drain, now_ns);
    ct_windows_tick(w, now_ns);
    publish_persisting(drain);
}

void ct_detail_finish(struct ct_drain *drain) {
    if (!drain->detail)
        return;
    take_marks(drain);
    if (drain->end_mark[0])
        ct_windows_mark(drain->windows, drain->time_end, drain->end_mark, 0, 0);
    if (ct_windows_active(drain->windows)) {
        take_frozen(drain);
        take_owned(drain, ct_clock_now());
        for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
            if (t->writer)
                count_tail(drain, t);
    }
    ct_windows_end(drain->windows, ct_clock_now());
}

/* ---- threads ---- */

/* Could a mark still want records of this thread, which has ended? What led to the mark may have happened in it. */
static bool may_be_wanted(const struct ct_drain *drain, struct ct_drain_thread *t) {
    const struct ct_lane *lane = drain->lane;
    uint64_t now = ct_clock_now();
    if (!t->detail.ended_at)
        t->detail.ended_at = now;
    return !drain->finishing && now - t->detail.ended_at < drain->windows->options.pre_ns &&
           lane->control->free_segments > (int32_t)(lane->segment_count / SCARCE);
}

bool ct_detail_retire(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t slot, uint32_t generation) {
    (void)generation; /* a slot belongs to one thread until we free it */
    if (!drain->detail)
        return true;
    if (t && t->detail.newest && may_be_wanted(drain, t))
        return false;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        uint32_t word = word_of(drain->lane, i);
        if (CT_SEGMENT_STATE(word) == CT_SEGMENT_FREE || CT_SEGMENT_SLOT(word) != slot)
            continue;
        if (t && thread_of(drain, i, CT_SEGMENT_STATE(word)) == t)
            (void)take_segment(drain, t, i, false);
        ct_lane_free_segment(drain->lane, i);
    }
    if (t) {
        count_tail(drain, t);
        ct_windows_thread_ended(drain->windows, t->tid, t->last_ns);
    }
    return true;
}

int ct_detail_close_thread(struct ct_drain *drain, struct ct_drain_thread *t) {
    (void)drain;
    int status = 0;
    if (t->detail.writer) {
        (void)ct_detail_writer_flush(t->detail.writer);
        t->detail.bytes = ct_detail_writer_bytes(t->detail.writer);
        t->detail.written -= ct_detail_writer_dropped(t->detail.writer);
        t->detail.lost += ct_detail_writer_dropped(t->detail.writer);
        status = ct_detail_writer_close(t->detail.writer);
    }
    t->detail.writer = NULL;
    free(t->detail.values);
    t->detail.values = NULL;
    free(t->detail.runs);
    t->detail.runs = NULL;
    t->detail.run_count = t->detail.run_room = 0;
    return status;
}

/* ---- start and end ---- */

int ct_detail_start(struct ct_drain *drain) {
    const struct ct_lane *lane = drain->lane;
    if (!lane->segment_count || !drain->windows)
        return 0;
    struct ct_detail *d = calloc(1, sizeof *d);
    if (!d)
        return CT_ERR_NO_MEMORY;
    drain->detail = d;
    size_t largest = (size_t)CT_LANE_MOST_CHUNKS * BYTES;
    d->copy = malloc(largest);
    d->places = malloc(largest / CT_DETAIL_RETURN_SIZE * sizeof *d->places);
    d->frozen = calloc(lane->segment_count, sizeof *d->frozen);
    publish_persisting(drain);
    return d->copy && d->places && d->frozen ? 0 : CT_ERR_NO_MEMORY;
}

void ct_detail_free(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    if (!d)
        return;
    free(d->copy);
    free(d->places);
    free(d->frozen);
    free(d);
    drain->detail = NULL;
}
