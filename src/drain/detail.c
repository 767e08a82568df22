/* SPDX-License-Identifier: Apache-2.0 */
/* See detail.h. */
#include "drain/detail.h"
#include "drain/drain.h"
#include "abi/event.h"
#include "isa/machine.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define BYTES        CT_SHM_DETAIL_CHUNK
#define LOOK_NS      200000000ull /* between two looks at segments in use while everything is wanted */
#define AFTER_NS     30000000ull
#define SCARCE       4u         /* one segment in this many must be free, or those of ended threads are freed */
#define PASS_BYTES   (8u << 20) /* of segments that one pass takes: the index must not wait for long */
#define HELD_PASSES  40u        /* passes in a row that wait for marks, at most */
#define HELD_SIGNALS 1024u      /* whose registers wait meanwhile, at most */
#define LAST_EVENTS  100u       /* of each thread, which a mark keeps however old they are */

/* ---- writing records ---- */

static uint32_t put_call(const struct ct_lane *lane, const struct ct_shm_detail *in, struct atf_detail_call *out) {
    bool link = ct_machine_has_link(ct_machine_host());
    uint32_t room = ct_shm_detail_room(lane->stack_bytes, link), vectors = lane->vectors ? 128 : 0;
    uint64_t captured = in->call.stack_size <= room ? in->call.stack_size : 0, before = link ? 8 : 0;
    uint8_t *bytes = (uint8_t *)(out + 1);
    memcpy(out->registers, in->call.registers, sizeof out->registers);
    if (captured >= 8)
        memcpy(&out->return_address, in->call.stack, 8);
    out->frame_pointer = in->call.frame_pointer;
    out->stack_pointer = in->call.stack_pointer + before;
    captured -= captured < before ? captured : before;
    out->stack_size = (uint16_t)(captured <= lane->stack_bytes ? captured : lane->stack_bytes);
    memcpy(bytes, in->call.stack + before, out->stack_size);
    memcpy(bytes + out->stack_size, in->call.stack + room, vectors);
    return out->stack_size + vectors;
}

static uint32_t put_return(const struct ct_lane *lane, const struct ct_shm_detail *in, struct atf_detail_call *out) {
    uint32_t vectors = lane->vectors ? 128 : 0;
    uint8_t *bytes = (uint8_t *)(out + 1);
    memcpy(out->registers, in->ret.registers, sizeof in->ret.registers);
    out->return_address = in->ret.return_address;
    out->frame_pointer = in->ret.frame_pointer;
    out->stack_pointer = in->ret.stack_pointer + (ct_machine_has_link(ct_machine_host()) ? 8 : 0);
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
    if (seq < t->detail.next_seq) { /* registers of a later signal could not wait for it */
        t->detail.lost++;
        return;
    }
    t->detail.next_seq = seq + 1;
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
    bool reached = window && since >= window->start && since >= window->reach;
    if (number > t->last_number + 1 && reached && (t->last_ns || from_first))
        t->lost += number - t->last_number - 1;
}

/* Position and time of a record's event; false: it was lost, or is not drained yet. */
static bool find_event(struct ct_drain_thread *t, uint64_t number, uint64_t stamp, uint64_t *seq, uint64_t *ns) {
    const struct ct_detail_run *run = ct_detail_run_of(&t->detail, number);
    if (!run)
        return ct_detail_kept_place(&t->detail, number, seq, ns); /* runs may have been dropped since */
    *seq = run->seq + (number - run->number);
    *ns = ct_detail_run_time(run, stamp);
    return true;
}

/* Records before this one were overwritten. */
static void note_cut(struct ct_drain *drain, struct ct_drain_thread *t, uint64_t number, uint64_t ns) {
    ct_windows_lost(drain->windows, ns);
    if (drain->windows->options.rolls.pre_events && number > 1 && ct_detail_is_kept(&t->detail, number - 1))
        ct_windows_short(drain->windows);
}

/* Takes records that are not in a row with the others, up to a position. What is missing between the copy of an open
 * call's and the others is not lost: it was not wanted, or the window is short. */
static void take_late(struct ct_drain *drain, struct ct_drain_thread *t, uint64_t before) {
    struct ct_windows *w = drain->windows;
    struct ct_detail_late late;
    while (ct_detail_next_late(&t->detail, before, &late)) {
        bool inside = !late.carried && ct_windows_wants(w, late.ns);
        if (inside && late.number > t->detail.last_number)
            count_missing(drain, &t->detail, late.number, late.ns);
        if (late.number > t->detail.last_number) {
            t->detail.last_number = late.number;
            t->detail.last_ns = late.carried ? 0 : late.ns;
        }
        if (late.seq >= t->detail.next_seq) {
            write_record(drain, t, late.record, late.number, late.seq, late.ns);
            if (inside)
                ct_windows_persisted(w, late.ns);
            else
                ct_windows_kept(w, late.ns);
        }
        free(late.record);
    }
}

/* Takes a thread's next record. Returns false if it has to wait: its event is not drained yet, or it may be wanted
 * later and stays where it is (`stays`). `cut`: older records were overwritten; this is reported with the record's
 * time, and cleared. */
static bool take_record(struct ct_drain *drain, struct ct_drain_thread *t, size_t place, bool stays, bool *cut) {
    struct ct_windows *w = drain->windows;
    const struct ct_shm_detail *in = ct_detail_record(drain->detail, place);
    uint64_t number = drain->detail->places[place].number;
    uint64_t seq, ns;
    if (drain->detail->places[place].values) {
        ct_detail_keep_values(drain->detail, &t->detail, place);
        return true;
    }
    if (!find_event(t, number, in->stamp, &seq, &ns))
        return number <= t->detail.newest || drain->finishing;
    if (*cut)
        note_cut(drain, t, number, ns);
    *cut = false;
    bool inside = ct_windows_wants(w, ns), wanted = inside || ct_detail_is_kept(&t->detail, number);
    if (!wanted && may_be_marked_later(w, ns)) {
        if (stays && !drain->finishing)
            return false;
        ct_windows_lost(w, ns); /* a window that wants it later is reported as short */
    }
    take_late(drain, t, seq);
    if (inside)
        count_missing(drain, &t->detail, number, ns);
    t->detail.last_number = number;
    t->detail.last_ns = ns;
    ct_windows_saw(w, t->tid, ns);
    if (!wanted) {
        if ((in->tag & CT_TAG_KIND) == CT_EVENT_CALL)
            ct_detail_save(&t->detail, number, in, ct_detail_call_size(drain->lane));
        return true;
    }
    write_record(drain, t, in, number, seq, ns);
    if (inside)
        ct_windows_persisted(w, ns);
    else
        ct_windows_kept(w, ns);
    return true;
}

static bool is_wrapped(const struct ct_shm_segment *s) {
    return s->turns >= s->chunks || s->again;
}

/* Returns false if some records have to wait. `stays`: the thread still has the segment; `live`: it may be filling
 * it. */
static bool take_segment(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t segment, bool stays, bool live) {
    const struct ct_shm_segment *s = &drain->lane->segments[segment];
    uint32_t word = s->word, serial = s->serial;
    size_t count = ct_detail_find(drain, t, segment, t->detail.last_number, live && !t->ended);
    uint32_t now = __atomic_load_n(&s->word, __ATOMIC_ACQUIRE);
    if (!live && (s->serial != serial || (now != word && CT_SEGMENT_STATE(now) != CT_SEGMENT_FROZEN)))
        return false; /* its thread fills it again: the next look takes what is in it by then */
    bool cut = count && drain->detail->places[0].number > t->detail.last_number + 1 && is_wrapped(s);
    for (size_t i = 0; i < count; i++)
        if (!take_record(drain, t, i, stays, &cut))
            return false;
    return true;
}

/* Notes records of open calls that were given up before: they come among the others. */
static void note_saved(struct ct_drain *drain, struct ct_drain_thread *t) {
    struct ct_detail_late late = {.carried = true};
    for (struct ct_shm_detail *in; (in = ct_detail_saved(&t->detail, &late.seq, &late.ns)); free(in)) {
        late.number = ct_detail_number(&t->detail, in->tag / CT_TAG_STEP);
        ct_detail_add_late(&t->detail, &late, in, ct_detail_record_size(drain->lane, in));
    }
}

/* Reads a record once more where a thread may have used its place again. */
static bool is_still_there(const struct ct_drain *drain, uint32_t chunk, size_t place) {
    uint32_t offset = drain->detail->places[place].offset;
    const uint8_t *source = ct_lane_detail_chunk(drain->lane, chunk + offset / BYTES) + offset % BYTES;
    return __atomic_load_n((const uint64_t *)source, __ATOMIC_ACQUIRE) == ct_detail_record(drain->detail, place)->check;
}

/* Notes records of open calls, which the thread has copied. They come among the others: segments that wait to be taken
 * may have older ones. */
static void note_carried(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t segment) {
    const struct ct_detail *d = drain->detail;
    uint32_t chunk, chunks;
    size_t count = ct_detail_find(drain, t, segment, 0, false);
    ct_lane_segment(drain->lane, segment, &chunk, &chunks);
    for (size_t i = 0; i < count; i++) {
        const struct ct_shm_detail *in = ct_detail_record(d, i);
        struct ct_detail_late late = {.number = d->places[i].number, .carried = true};
        if (d->places[i].values || !is_still_there(drain, chunk, i) || /* only calls are copied */
            !ct_detail_kept_place(&t->detail, late.number, &late.seq, &late.ns) || late.seq < t->detail.next_seq)
            continue;
        ct_detail_add_late(&t->detail, &late, in, ct_detail_record_size(drain->lane, in));
    }
}

/* Notes records for which the thread had no memory, if they are wanted: they come among the others. */
static void note_dry(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t segment) {
    const struct ct_detail *d = drain->detail;
    uint32_t chunk, chunks;
    size_t count = ct_detail_find(drain, t, segment, 0, false);
    ct_lane_segment(drain->lane, segment, &chunk, &chunks);
    for (size_t i = 0; i < count; i++) {
        const struct ct_shm_detail *in = ct_detail_record(d, i);
        struct ct_detail_late late = {.number = d->places[i].number};
        if (d->places[i].values || !is_still_there(drain, chunk, i) ||
            !find_event(t, late.number, in->stamp, &late.seq, &late.ns) || late.seq < t->detail.next_seq)
            continue;
        if (ct_windows_wants(drain->windows, late.ns) || ct_detail_is_kept(&t->detail, late.number))
            ct_detail_add_late(&t->detail, &late, in, ct_detail_record_size(drain->lane, in));
    }
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
struct ct_drain_thread *ct_detail_thread_of(const struct ct_drain *drain, uint32_t segment,
                                            enum ct_segment_state state) {
    uint32_t word = word_of(drain->lane, segment), slot = CT_SEGMENT_SLOT(word);
    if (CT_SEGMENT_STATE(word) != state || slot >= drain->lane->thread_capacity)
        return NULL;
    struct ct_drain_thread *t = drain->by_slot[slot];
    return t && t->generation == drain->lane->segments[segment].thread_generation ? t : NULL;
}

static int by_serial(const void *a, const void *b) {
    const struct ct_detail_full *x = a, *y = b;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* Lists segments that are full: handed over, or kept for a pre-roll. Done before marks are taken: a segment that is
 * handed over later may belong to a mark that is not seen in this pass. */
static void list_full(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    d->full_count = 0;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        enum ct_segment_state state = CT_SEGMENT_STATE(word_of(drain->lane, i));
        if (state == CT_SEGMENT_FROZEN || state == CT_SEGMENT_KEPT)
            d->full[d->full_count++] = (struct ct_detail_full){i, drain->lane->segments[i].serial, state};
    }
    qsort(d->full, d->full_count, sizeof *d->full, by_serial);
}

/* Takes a segment that is kept, unless that was done already. Its thread may have handed it over since it was listed:
 * nobody writes to it then either, and newer records must not be taken before those in it. */
static void take_kept(struct ct_drain *drain, const struct ct_detail_full *f) {
    struct ct_detail *d = drain->detail;
    struct ct_drain_thread *t = ct_detail_thread_of(drain, f->segment, CT_SEGMENT_KEPT);
    t = t ? t : ct_detail_thread_of(drain, f->segment, CT_SEGMENT_FROZEN);
    if (!t || d->taken[f->segment] == f->serial || drain->lane->segments[f->segment].serial != f->serial)
        return;
    if (take_segment(drain, t, f->segment, true, false))
        d->taken[f->segment] = f->serial;
}

static void take_frozen(struct ct_drain *drain, uint32_t segment) {
    struct ct_drain_thread *t = ct_detail_thread_of(drain, segment, CT_SEGMENT_FROZEN);
    if (t && take_segment(drain, t, segment, false, false)) /* NULL: its first events are not drained yet */
        ct_lane_free_segment(drain->lane, segment);
}

/* A thread's full segments come before the one that it is filling, and both after the index was drained: records of
 * segments that are handed over from now on have events that are not drained yet, and have to wait. `look`: those that
 * threads have as well. Returns false if there is more than a pass may take. */
static bool take_full(struct ct_drain *drain, bool look) {
    struct ct_detail *d = drain->detail;
    uint64_t bytes = 0;
    for (size_t i = 0; i < d->full_count; i++) {
        uint32_t chunk, chunks;
        bool kept = d->full[i].state == CT_SEGMENT_KEPT;
        if (kept && (!look || d->taken[d->full[i].segment] == d->full[i].serial))
            continue;
        ct_lane_segment(drain->lane, d->full[i].segment, &chunk, &chunks);
        if (bytes > PASS_BYTES && !drain->finishing)
            return false;
        bytes += (uint64_t)chunks * BYTES;
        if (kept)
            take_kept(drain, &d->full[i]);
        else
            take_frozen(drain, d->full[i].segment);
    }
    return true;
}

static void note_all_dry(struct ct_drain *drain) {
    for (uint32_t i = drain->lane->segment_count; i < drain->lane->segment_count + drain->lane->dry_count; i++) {
        struct ct_drain_thread *t = ct_detail_thread_of(drain, i, CT_SEGMENT_OPEN);
        if (t && t->writer)
            note_dry(drain, t, i);
    }
}

static void take_open(struct ct_drain *drain) {
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        struct ct_drain_thread *t = ct_detail_thread_of(drain, i, CT_SEGMENT_OPEN);
        if (t && ct_detail_keeps_calls(&t->detail))
            note_carried(drain, t, i);
    }
    note_all_dry(drain);
    for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
        if (t->writer)
            note_saved(drain, t);
}

/* Takes what is now in the segments that threads are filling. */
static void take_owned(struct ct_drain *drain, uint64_t now_ns) {
    drain->detail->looked_at = now_ns;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        struct ct_drain_thread *t = ct_detail_thread_of(drain, i, CT_SEGMENT_OWNED);
        if (t && (t->detail.newest > t->detail.last_number || drain->finishing))
            (void)take_segment(drain, t, i, true, true);
    }
}

/* Does a thread have a segment that waits to be taken, because it was handed over after full ones were listed? */
static bool has_frozen(const struct ct_drain *drain, const struct ct_drain_thread *t) {
    for (uint32_t i = 0; i < drain->lane->segment_count; i++)
        if (ct_detail_thread_of(drain, i, CT_SEGMENT_FROZEN) == t)
            return true;
    return false;
}

/* What is late and newer than all that was taken. It must not be taken before an older record of another segment. */
static void take_last_late(struct ct_drain *drain) {
    for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
        if (t->writer && ct_detail_has_late(&t->detail) && (drain->finishing || !has_frozen(drain, t)))
            take_late(drain, t, UINT64_MAX);
}

/* What is late, open calls' records among them, comes among the others, whichever of them are taken. */
static bool take_all(struct ct_drain *drain, bool look, uint64_t now_ns) {
    if (look)
        take_open(drain);
    else if (drain->detail->full_count)
        note_all_dry(drain);
    if (!take_full(drain, look))
        return false;
    if (!look)
        return true;
    take_owned(drain, now_ns);
    take_last_late(drain);
    return true;
}

/* At a window's end, and for a moment after it: events of its last records may come into the index a pass later. */
static bool is_ending(const struct ct_windows *w, uint64_t now_ns) {
    const struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    return newest && newest->end <= now_ns &&
           (w->state == CT_SESSION_WINDOW_PERSISTING || now_ns - newest->end < AFTER_NS);
}

/* Tells the target whether everything is wanted: then threads hand over full segments. A mark may have come meanwhile
 * and set `persisting`; that is not undone. */
static void publish_persisting(struct ct_drain *drain, uint64_t now_ns) {
    struct ct_shm_control *c = drain->lane->control;
    const struct ct_windows *w = drain->windows;
    bool open = w->options.detail == CT_SESSION_DETAIL_ALWAYS || (w->count && w->recent[w->count - 1]->end >= now_ns);
    bool wanted = w->state != CT_SESSION_WINDOW_CAPTURING && (open || w->held_now);
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
    if (d->more)
        return true;
    bool capturing = w->state == CT_SESSION_WINDOW_CAPTURING, due = now_ns - d->looked_at > LOOK_NS;
    if (w->state == CT_SESSION_WINDOW_MARKED || is_ending(w, now_ns))
        return d->may_look = true;
    bool looks = due && (!capturing || d->may_look);
    d->may_look = !capturing || (d->may_look && !ct_windows_settled(w, now_ns));
    return looks;
}

/* `links`: of threads that have become quiet too. Who reads along waits for them. */
static void flush_writers(struct ct_drain *drain, bool links) {
    for (struct ct_drain_thread *t = drain->threads; t; t = t->next) {
        int status = t->detail.writer ? ct_detail_writer_flush(t->detail.writer) : 0;
        drain->error = drain->error ? drain->error : status;
        if (links && t->writer)
            ct_thread_writer_put_links(t->writer);
    }
}

/* Marks wait for their events, and so does what is handed over: it may be what they want. */
static bool must_hold(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    bool waits = d->marks_waiting || ct_drain_awaits_marks(drain);
    bool holds = waits && drain->windows->options.detail == CT_SESSION_DETAIL_MARKED && d->held < HELD_PASSES &&
                 drain->placed_count < HELD_SIGNALS;
    d->held = holds ? d->held + 1 : waits ? d->held : 0;
    return holds;
}

/* Keeps what new marks want of each thread however old it is. */
static void keep_for_marks(struct ct_drain *drain) {
    struct ct_windows *w = drain->windows;
    if (!w->new_marks)
        return;
    const struct ct_detail_span span = {w->new_first, w->new_last};
    if (w->options.detail == CT_SESSION_DETAIL_MARKED)
        ct_detail_keep(drain, &span, w->new_events ? w->new_events : LAST_EVENTS);
    w->new_marks = 0;
}

void ct_detail_pass(struct ct_drain *drain, uint64_t now_ns) {
    struct ct_windows *w = drain->windows;
    struct ct_detail *d = drain->detail;
    if (!d)
        return;
    uint32_t serial = __atomic_load_n(&drain->lane->control->mark_serial, __ATOMIC_ACQUIRE);
    list_full(drain);
    ct_detail_take_marks(drain);
    if (!drain->cut) /* the last events of threads are those before the mark */
        ct_windows_take_asked(w);
    if (drain->on_pass)
        drain->on_pass(drain->on_pass_arg, now_ns);
    keep_for_marks(drain);
    bool hold = must_hold(drain), look = !hold && is_time_to_look(drain, now_ns);
    d->more = !hold && !take_all(drain, look, now_ns) && look;
    if (ct_windows_active(w))
        flush_writers(drain, look);
    if (now_ns - d->measured_at > LOOK_NS)
        ct_detail_measure(drain, now_ns);
    bool taken = !hold && !d->more;
    if (taken && (look || w->state == CT_SESSION_WINDOW_CAPTURING))
        __atomic_store_n(&drain->lane->control->looked, serial, __ATOMIC_RELEASE); /* read by agent/agent_detail.c */
    if (taken || w->state != CT_SESSION_WINDOW_MARKED) /* it stays marked until all of its pre-roll is taken */
        ct_windows_tick(w, now_ns);
    publish_persisting(drain, now_ns);
}

/* No window lasts longer than the recording, however long the drain takes to finish. */
static uint64_t end_of_recording(const struct ct_drain *drain) {
    uint64_t ended = drain->ended_ns ? drain->ended_ns : ct_clock_now();
    return ended > drain->time_end ? ended : drain->time_end;
}

void ct_detail_finish(struct ct_drain *drain) {
    if (!drain->detail)
        return;
    list_full(drain);
    ct_detail_take_marks(drain);
    ct_windows_take_asked(drain->windows);
    if (drain->end_mark[0])
        ct_windows_mark(drain->windows, drain->time_end, drain->end_mark, 0, 0);
    keep_for_marks(drain);
    ct_detail_measure(drain, ct_clock_now());
    if (ct_windows_active(drain->windows)) {
        (void)take_all(drain, true, ct_clock_now());
        for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
            if (t->writer)
                count_tail(drain, t);
    }
    ct_windows_end(drain->windows, end_of_recording(drain));
}

/* ---- threads ---- */

/* Could a mark still want records of this thread, which has ended? What led to the mark may have happened in it. */
static bool may_be_wanted(const struct ct_drain *drain, struct ct_drain_thread *t) {
    const struct ct_lane *lane = drain->lane;
    uint32_t all = lane->segment_count - (lane->detail_grows ? lane->segments_of_class[0] : 0);
    uint64_t now = ct_clock_now();
    if (!t->detail.ended_at)
        t->detail.ended_at = now;
    return !drain->finishing && now - t->detail.ended_at < drain->windows->options.rolls.pre_ns &&
           lane->control->free_segments > (int32_t)(all / SCARCE);
}

bool ct_detail_retire(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t slot, uint32_t generation) {
    (void)generation; /* a slot belongs to one thread until we free it */
    if (!drain->detail)
        return true;
    if (t && t->detail.newest && may_be_wanted(drain, t))
        return false;
    for (uint32_t i = 0; i < drain->lane->segment_count + drain->lane->dry_count; i++) {
        uint32_t word = word_of(drain->lane, i);
        if (CT_SEGMENT_STATE(word) == CT_SEGMENT_FREE || CT_SEGMENT_SLOT(word) != slot)
            continue;
        if (t && t->writer && i >= drain->lane->segment_count)
            note_dry(drain, t, i);
        if (t && CT_SEGMENT_STATE(word) != CT_SEGMENT_OPEN &&
            ct_detail_thread_of(drain, i, CT_SEGMENT_STATE(word)) == t)
            (void)take_segment(drain, t, i, false, false);
        ct_lane_free_segment(drain->lane, i);
    }
    if (t) {
        take_late(drain, t, UINT64_MAX);
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
    ct_detail_free_calls(&t->detail);
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
    d->busy = 1;
    size_t largest = (size_t)CT_LANE_MOST_CHUNKS * BYTES;
    d->copy = malloc(largest);
    d->places = malloc(largest / CT_DETAIL_RETURN_SIZE * sizeof *d->places);
    d->full = calloc(lane->segment_count, sizeof *d->full);
    d->taken = calloc(lane->segment_count, sizeof *d->taken);
    publish_persisting(drain, ct_clock_now());
    ct_detail_publish_rolls(drain);
    return d->copy && d->places && d->full && d->taken ? 0 : CT_ERR_NO_MEMORY;
}

void ct_detail_free(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    if (!d)
        return;
    free(d->copy);
    free(d->places);
    free(d->full);
    free(d->taken);
    free(d);
    drain->detail = NULL;
}
