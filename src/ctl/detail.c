/* See detail.h. */
#include "ctl/detail.h"
#include "ctl/drain.h"
#include "hook/layout.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define BYTES        CT_SHM_DETAIL_CHUNK
#define LOOK_NS      200000000ull /* segments in use are looked at so often while everything is wanted */
#define AFTER_NS     30000000ull
#define MARK_WAIT_NS 100000000ull /* for the event of a mark to be drained */
#define SCARCE       4u           /* of so many segments one must be free, or those of ended threads go */

/* A record that was found, in the copy. */
struct ct_detail_place {
    uint32_t number, offset;
};

/* ---- finding records ---- */

static uint32_t size_of(const struct ct_lane *lane, uint32_t tag) {
    uint32_t vectors = lane->vectors ? 128 : 0, stack = lane->stack_bytes < 8 ? 8 : lane->stack_bytes;
    switch (tag & CT_TAG_KIND) {
    case CT_EVENT_CALL:
    case CT_EVENT_ENTRY:
        return CT_DETAIL_STACK + stack + vectors;
    case CT_EVENT_RETURN:
        return CT_DETAIL_RETURN_SIZE + vectors / 4;
    default:
        return 0;
    }
}

/* Size of the record at an offset of a chunk; 0: there is none. */
static uint32_t record_at(const struct ct_lane *lane, const uint8_t *chunk, uint32_t at, uint64_t begin) {
    uint64_t check, stamp, tag;
    memcpy(&check, chunk + at, 8);
    memcpy(&stamp, chunk + at + CT_DETAIL_STAMP, 8);
    memcpy(&tag, chunk + at + CT_DETAIL_TAG, 8);
    if (check != (stamp ^ tag ^ lane->detail_key) || stamp < begin)
        return 0;
    uint32_t size = size_of(lane, (uint32_t)tag);
    return size && at + size <= BYTES ? size : 0;
}

/* The next record from `at` on that overlaps none; BYTES: there is no more. */
static uint32_t next_record(struct ct_detail *d, const struct ct_lane *lane, const uint8_t *chunk, uint32_t at,
                            uint64_t begin, uint32_t *size) {
    for (; at + CT_DETAIL_RETURN_SIZE <= BYTES; at += 8) {
        if (!(*size = record_at(lane, chunk, at, begin)))
            continue;
        uint32_t inside = at + 8, end = at + *size;
        while (inside + CT_DETAIL_REGISTERS <= BYTES && inside < end && !record_at(lane, chunk, inside, 0))
            inside += 8;
        if (inside >= end || inside + CT_DETAIL_REGISTERS > BYTES)
            return at;
        d->rejected++;
        at = inside; /* nor is that one to be trusted */
    }
    return BYTES;
}

/* Was it there all the time while it was copied? */
static bool is_still_there(const uint8_t *source, const uint8_t *copy) {
    uint64_t now = __atomic_load_n((const uint64_t *)source, __ATOMIC_RELAXED), then;
    memcpy(&then, copy, 8);
    return now == then;
}

static int by_number(const void *a, const void *b) {
    const struct ct_detail_place *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* All records of a segment, by number; numbers count from the last one that was looked at. */
static size_t find_records(struct ct_drain *drain, const struct ct_shm_segment *s, uint32_t last) {
    struct ct_detail *d = drain->detail;
    const struct ct_lane *lane = drain->lane;
    uint64_t begin = s->begin;
    size_t count = 0;
    uint32_t chunk = s->chunk, chunks = s->chunks;
    if (chunks > d->most_chunks || chunk > lane->detail_chunk_count - chunks)
        return 0; /* the target has overwritten our tables */
    for (uint32_t c = 0; c < chunks; c++) {
        const uint8_t *source = ct_lane_detail_chunk(lane, chunk + c);
        uint8_t *copy = d->copy + (size_t)c * BYTES;
        uint32_t size, at = 0, newest = 0, call_size = size_of(lane, CT_EVENT_CALL);
        memcpy(copy, source, BYTES);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        for (; (at = next_record(d, lane, copy, at, begin, &size)) < BYTES; at += size) {
            uint32_t number = ((const struct ct_shm_detail *)(copy + at))->tag / CT_TAG_STEP,
                     further = ct_detail_distance(last, number);
            if (!number || !ct_detail_is_later(number, last) || !is_still_there(source + at, copy + at))
                continue;
            /* The end of a chunk, where nothing fitted any more, keeps records of rounds long ago. */
            if (further < newest && at + call_size > BYTES)
                continue;
            newest = further > newest ? further : newest;
            d->places[count++] = (struct ct_detail_place){further, c * BYTES + at};
        }
    }
    qsort(d->places, count, sizeof *d->places, by_number);
    return count;
}

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
    return vectors;
}

static bool open_writer(struct ct_drain *drain, struct ct_drain_thread *t) {
    if (t->detail.writer)
        return true;
    int status = ct_detail_writer_open(&t->detail.writer, drain->directory, t->id, (uint32_t)t->tid);
    if (!status)
        ct_detail_writer_keep(t->detail.writer, drain->format.segments);
    drain->error = drain->error ? drain->error : status;
    return !status;
}

static void write_record(struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_detail *in,
                         uint64_t seq, uint64_t ns) {
    static _Thread_local uint64_t space[(sizeof(struct atf_detail_call) + 512 + 128 + 7) / 8];
    struct atf_detail_call *out = (struct atf_detail_call *)space;
    bool returned = (in->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
    ct_drain_put_registers(drain, t, seq);
    if (!t->writer || !open_writer(drain, t))
        return;
    memset(out, 0, sizeof *out);
    uint32_t more = returned ? put_return(drain->lane, in, out) : put_call(drain->lane, in, out);
    out->event.total_length = (uint32_t)sizeof *out + more;
    out->event.event_type = returned ? ATF_DETAIL_RETURN : ATF_DETAIL_CALL;
    out->event.flags = drain->lane->vectors ? ATF_DETAIL_VECTORS : 0;
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

/* Both moments in the same window. */
static bool same_window(const struct ct_windows *w, uint64_t a, uint64_t b) {
    for (size_t i = w->count; i-- > 0;)
        if (b >= w->recent[i]->start && b <= w->recent[i]->end)
            return a >= w->recent[i]->start;
    return false;
}

/* Not wanted, but a mark that is still to come may want it. */
static bool may_come(const struct ct_windows *w, uint64_t ns) {
    return !w->count || ns > w->recent[w->count - 1]->end;
}

/* One record, the next of its thread. False: it has to wait: its event is not drained yet, or it may be wanted later and stays where
 * it is (`stays`). */
static bool take_record(struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_detail *in, bool stays) {
    struct ct_windows *w = drain->windows;
    uint32_t number = in->tag / CT_TAG_STEP;
    bool later;
    const struct ct_detail_run *run = ct_detail_run_of(&t->detail, number, &later);
    if (!run)
        return !later || drain->finishing;
    uint64_t ns = ct_detail_run_time(run, in->stamp);
    bool wanted = ct_windows_wants(w, ns);
    if (!wanted && may_come(w, ns)) {
        if (stays && !drain->finishing)
            return false;
        ct_windows_lost(w, ns); /* whoever wants it later is told */
    }
    uint32_t missing = ct_detail_distance(t->detail.last_number, number) - 1;
    if (wanted && t->detail.last_ns && same_window(w, t->detail.last_ns, ns))
        t->detail.lost += missing;
    t->detail.last_number = number;
    t->detail.last_ns = ns;
    ct_windows_saw(w, t->tid, ns);
    if (!wanted)
        return true;
    write_record(drain, t, in, run->seq + ct_detail_distance(run->number, number), ns);
    ct_windows_persisted(w, ns);
    return true;
}

/* False: some of its records have to wait. */
static bool take_segment(struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_segment *s,
                         bool stays) {
    struct ct_detail *d = drain->detail;
    size_t count = find_records(drain, s, t->detail.last_number);
    if (count) {
        const struct ct_shm_detail *first = (const struct ct_shm_detail *)(d->copy + d->places[0].offset);
        t->detail.oldest_ns = ct_clock_ns(drain->clock, first->stamp);
        if (d->places[0].number > 1 && s->turns >= s->chunks)
            ct_windows_lost(drain->windows, t->detail.oldest_ns);
    }
    for (size_t i = 0; i < count; i++)
        if (!take_record(drain, t, (const struct ct_shm_detail *)(d->copy + d->places[i].offset), stays))
            return false;
    return true;
}

/* ---- passes ---- */

static struct ct_drain_thread *thread_of(struct ct_drain *drain, const struct ct_shm_segment *s) {
    if (s->thread >= drain->lane->thread_capacity)
        return NULL;
    struct ct_drain_thread *t = drain->by_slot[s->thread];
    return t && t->generation == s->thread_generation ? t : NULL;
}

static uint32_t state_of(const struct ct_lane *lane, uint32_t segment) {
    return __atomic_load_n(&lane->segments[segment].state, __ATOMIC_ACQUIRE); /* released by agent/detail.c */
}

static int by_serial(const void *a, const void *b, void *arg) {
    const struct ct_shm_segment *segments = arg, *x = &segments[*(const uint32_t *)a],
                                *y = &segments[*(const uint32_t *)b];
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

void ct_detail_list(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    if (!d)
        return;
    d->frozen_count = 0;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++)
        if (state_of(drain->lane, i) == CT_SEGMENT_FROZEN)
            d->frozen[d->frozen_count++] = i;
    qsort_r(d->frozen, d->frozen_count, sizeof *d->frozen, by_serial, drain->lane->segments);
}

static void take_frozen(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    for (size_t i = 0; i < d->frozen_count; i++) {
        struct ct_shm_segment *s = &drain->lane->segments[d->frozen[i]];
        struct ct_drain_thread *t = thread_of(drain, s);
        if (!t || take_segment(drain, t, s, false))
            ct_lane_free_segment(drain->lane, d->frozen[i]);
    }
}

/* Segments that threads are filling: what is in them now. */
static void take_owned(struct ct_drain *drain, uint64_t now_ns) {
    drain->detail->looked_at = now_ns;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        struct ct_drain_thread *t =
            state_of(drain->lane, i) == CT_SEGMENT_OWNED ? thread_of(drain, &drain->lane->segments[i]) : NULL;
        if (t)
            (void)take_segment(drain, t, &drain->lane->segments[i], true);
    }
}

/* The oldest record of a segment that has gone round: the first one of the chunk that is overwritten next. 0: it has not. */
static uint64_t oldest_of(struct ct_drain *drain, const struct ct_shm_segment *s) {
    struct ct_detail *d = drain->detail;
    uint32_t size, chunks = s->chunks, turns = s->turns;
    if (!chunks || turns + 1 < chunks || chunks > d->most_chunks || s->chunk > drain->lane->detail_chunk_count - chunks)
        return 0;
    memcpy(d->copy, ct_lane_detail_chunk(drain->lane, s->chunk + (turns + 1) % chunks), BYTES);
    uint32_t at = next_record(d, drain->lane, d->copy, 0, s->begin, &size);
    return at < BYTES ? ct_clock_ns(drain->clock, ((const struct ct_shm_detail *)(d->copy + at))->stamp) : 0;
}

/* How far back everything is there that has happened, of all threads. */
static void look_back(struct ct_drain *drain, uint64_t now_ns) {
    struct ct_detail *d = drain->detail;
    uint64_t oldest = drain->windows->start_ns;
    d->reached_at = now_ns;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        uint64_t ns = state_of(drain->lane, i) == CT_SEGMENT_OWNED ? oldest_of(drain, &drain->lane->segments[i]) : 0;
        oldest = ns > oldest ? ns : oldest;
    }
    d->reach_ns = now_ns > oldest ? now_ns - oldest : 0;
}

struct moment {
    uint64_t stamp;
    uint32_t number;
};

/* The record of a segment that lies so many before the mark, or the oldest; *newest is the last one before the mark. */
static bool look_before(struct ct_drain *drain, const struct ct_shm_segment *s, uint32_t last, uint64_t stamp,
                        uint64_t records, struct moment *first, uint64_t *newest) {
    const struct ct_detail *d = drain->detail;
    size_t count = find_records(drain, s, last);
    while (count && ((const struct ct_shm_detail *)(d->copy + d->places[count - 1].offset))->stamp >= stamp)
        count--;
    if (!count)
        return false;
    size_t at = count > records ? count - (size_t)records : 0;
    const struct ct_shm_detail *r = (const struct ct_shm_detail *)(d->copy + d->places[at].offset);
    *first = (struct moment){r->stamp, r->tag / CT_TAG_STEP};
    *newest = ((const struct ct_shm_detail *)(d->copy + d->places[count - 1].offset))->stamp;
    return true;
}

/* When the thread made the record that lies so many before the mark: of those in the segment that the mark was made in. */
static uint64_t time_before(struct ct_drain *drain, struct ct_drain_thread *t, const struct ct_shm_mark *m,
                            uint64_t records) {
    struct moment best = {m->stamp, m->number}, first;
    uint64_t best_newest = 0, newest;
    bool later;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        const struct ct_shm_segment *s = &drain->lane->segments[i];
        uint32_t state = state_of(drain->lane, i);
        if ((state != CT_SEGMENT_OWNED && state != CT_SEGMENT_FROZEN) || thread_of(drain, s) != t)
            continue;
        if (look_before(drain, s, t->detail.last_number, m->stamp, records, &first, &newest) && newest > best_newest) {
            best_newest = newest;
            best = first;
        }
    }
    const struct ct_detail_run *run = ct_detail_run_of(&t->detail, best.number, &later);
    return run ? ct_detail_run_time(run, best.stamp) : ct_clock_ns(drain->clock, best.stamp);
}

/* The same as its event's, to the nanosecond. False: the event is not drained yet. */
static bool time_of_mark(const struct ct_drain *drain, const struct ct_drain_thread *t, const struct ct_shm_mark *m,
                         uint64_t *ns) {
    bool later = false;
    const struct ct_detail_run *run = t && m->number ? ct_detail_run_of(&t->detail, m->number, &later) : NULL;
    *ns = run ? ct_detail_run_time(run, m->stamp) : ct_clock_ns(drain->clock, m->stamp);
    return run || !later || drain->finishing || ct_clock_now() > *ns + MARK_WAIT_NS;
}

/* False: later. */
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
    if (w->options.pre_events && t && !ct_windows_wants(w, ns)) /* in a window: what was before is wanted already */
        pre = time_before(drain, t, m, w->options.pre_events);
    ct_windows_mark_from(drain->windows, ns, text, t ? t->tid : 0, ct_drain_function(drain, m->hook), pre);
    return true;
}

/* The ring holds the newest; what was overwritten is counted, and covered by those behind it. */
static void take_marks(struct ct_drain *drain) {
    struct ct_detail *d = drain->detail;
    uint64_t next = __atomic_load_n(&drain->lane->control->mark_next, __ATOMIC_ACQUIRE);
    if (next - d->marks_seen > CT_SHM_MARKS) {
        d->marks_omitted += next - d->marks_seen - CT_SHM_MARKS;
        d->marks_seen = next - CT_SHM_MARKS;
    }
    while (d->marks_seen < next) {
        const struct ct_shm_mark *m = &drain->lane->marks[d->marks_seen % CT_SHM_MARKS];
        uint64_t serial = __atomic_load_n(&m->serial, __ATOMIC_ACQUIRE); /* released by agent/detail.c */
        struct ct_shm_mark copy = *m;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (serial == d->marks_seen + 1 && __atomic_load_n(&m->serial, __ATOMIC_RELAXED) == serial) {
            if (!take_mark(drain, &copy))
                return;
        } else if (serial <= d->marks_seen && next == drain->lane->control->mark_next && !drain->finishing)
            return; /* it is being written */
        else
            d->marks_omitted++;
        d->marks_seen++;
    }
}

/* At a window's end, and for a moment behind it: events of its last records may come into the index a pass later. */
static bool is_ending(const struct ct_windows *w, uint64_t now_ns) {
    const struct ct_window *newest = w->count ? w->recent[w->count - 1] : NULL;
    return newest && newest->end <= now_ns && (w->state == CT_WINDOW_PERSISTING || now_ns - newest->end < AFTER_NS);
}

void ct_detail_pass(struct ct_drain *drain, uint64_t now_ns) {
    struct ct_detail *d = drain->detail;
    struct ct_windows *w = drain->windows;
    if (!d)
        return;
    take_marks(drain);
    if (drain->on_pass)
        drain->on_pass(drain->on_pass_arg, now_ns);
    bool active = ct_windows_active(w);
    take_frozen(drain);
    if (active && (w->state == CT_WINDOW_MARKED || is_ending(w, now_ns) || now_ns - d->looked_at > LOOK_NS))
        take_owned(drain, now_ns);
    if (active)
        for (struct ct_drain_thread *t = drain->threads; t; t = t->next)
            if (t->detail.writer) {
                int status = ct_detail_writer_flush(t->detail.writer);
                drain->error = drain->error ? drain->error : status;
            }
    if (now_ns - d->reached_at > LOOK_NS)
        look_back(drain, now_ns);
    ct_windows_tick(w, now_ns);
    /* Behind a window's end threads keep what they have: the next mark may want it. */
    __atomic_store_n(&drain->lane->control->persisting, w->state != CT_WINDOW_CAPTURING, __ATOMIC_RELAXED);
}

void ct_detail_finish(struct ct_drain *drain) {
    if (!drain->detail)
        return;
    ct_detail_list(drain);
    take_marks(drain);
    if (drain->end_mark[0])
        ct_windows_mark(drain->windows, drain->time_end, drain->end_mark, 0, 0);
    if (ct_windows_active(drain->windows)) {
        take_frozen(drain);
        take_owned(drain, ct_clock_now());
    }
    ct_windows_end(drain->windows, ct_clock_now());
}

/* ---- threads ---- */

/* What happened right before a mark may have happened in a thread that has ended since. */
static bool may_be_wanted(const struct ct_drain *drain, struct ct_drain_thread *t) {
    const struct ct_lane *lane = drain->lane;
    uint64_t now = ct_clock_now();
    if (!t->detail.ended_at)
        t->detail.ended_at = now;
    return !drain->finishing && now - t->detail.ended_at < drain->windows->options.pre_ns &&
           lane->control->free_segments > (int32_t)(lane->segment_count / SCARCE);
}

bool ct_detail_retire(struct ct_drain *drain, struct ct_drain_thread *t, uint32_t slot, uint32_t generation) {
    if (!drain->detail)
        return true;
    if (t && t->detail.run_count && !ct_windows_active(drain->windows) && may_be_wanted(drain, t))
        return false;
    for (uint32_t i = 0; i < drain->lane->segment_count; i++) {
        struct ct_shm_segment *s = &drain->lane->segments[i];
        if (state_of(drain->lane, i) == CT_SEGMENT_FREE || s->thread != slot || s->thread_generation != generation)
            continue;
        if (t)
            (void)take_segment(drain, t, s, false);
        ct_lane_free_segment(drain->lane, i);
    }
    if (t)
        ct_windows_thread_ended(drain->windows, t->tid, t->last_ns);
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
    size_t largest = (size_t)lane->segments[0].chunks * BYTES;
    d->most_chunks = lane->segments[0].chunks;
    d->copy = malloc(largest);
    d->places = malloc(largest / CT_DETAIL_RETURN_SIZE * sizeof *d->places);
    d->frozen = calloc(lane->segment_count, sizeof *d->frozen);
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
