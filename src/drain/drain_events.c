/* SPDX-License-Identifier: Apache-2.0 */
/* Turns slots into ATF events with time, function and depth, and measures the latency. Owner: the drain thread. */
#include "drain/drain.h"
#include "drain/drain_count.h"
#include "abi/event.h"
#include "os/thread.h"
#include "trace/packed_block.h"
#include <stdlib.h>
#include <string.h>

/* Calls, returns and depths come from the target: what is kept of them is bounded, per thread and in total. */
#define MAX_GAPS     4096u
#define GAPS_IN_ALL  (1u << 18)
#define MAX_DEPTH    (1u << 21)
#define HURRIED_LOOK 64u
#define FIRST_DEPTH  256u /* a run is not longer than there is room for calls */

#define LINE         64u /* bytes that come into the cache together */
#define LINE_EVENTS  (LINE / CT_EVENT_SIZE)
#define PIECE        64u /* events that are packed while as many of the next chunk are fetched */

/* ---- the stack of open calls ---- */

static bool grow_stack(struct ct_drain *d, struct ct_drain_thread *t, size_t known) {
    if (known < t->stack_capacity)
        return true;
    size_t capacity = t->stack_capacity ? t->stack_capacity * 2 : FIRST_DEPTH, more = capacity - t->stack_capacity;
    bool room = known == t->stack_capacity && capacity <= MAX_DEPTH && ct_drain_take_room(d, more);
    uint32_t *stack = room ? realloc(t->stack, (1 + capacity) * sizeof *stack) : NULL;
    if (!stack) {
        if (room)
            ct_drain_give_room(d, more);
        return false;
    }
    stack[0] = 0; /* drain_run.c looks below the outermost call */
    t->stack = stack;
    t->stack_capacity = capacity;
    return true;
}

static size_t known_calls(const struct ct_drain_thread *t) {
    return t->depth - t->unknown;
}

static uint32_t push_call(struct ct_drain *d, struct ct_drain_thread *t, uint32_t hook) {
    size_t known = known_calls(t);
    if (grow_stack(d, t, known))
        t->stack[1 + known] = hook;
    return (uint32_t)t->depth++;
}

/* A return ends the innermost open call of its function. That is the innermost call of all, unless a coroutine runs on
 * an array inside this stack. */
static uint32_t pop_call(const struct ct_drain *d, struct ct_drain_thread *t, uint32_t hook) {
    size_t known = known_calls(t);
    if (!t->depth)
        return 0;
    if (known > t->stack_capacity) /* deeper than we have memory for */
        return (uint32_t)--t->depth;
    size_t last = __atomic_load_n(&d->hurried, __ATOMIC_RELAXED) && known > HURRIED_LOOK ? known - HURRIED_LOOK : 0;
    for (size_t i = known; i-- > last;)
        if (t->stack[1 + i] == hook) {
            memmove(t->stack + 1 + i, t->stack + 2 + i, (known - i - 1) * sizeof *t->stack);
            t->depth--;
            return (uint32_t)(t->unknown + i);
        }
    if (!t->unknown)
        return (uint32_t)t->depth; /* its call was not seen at all */
    t->depth--;
    return (uint32_t)--t->unknown;
}

static void list_gap(struct ct_drain *d, struct ct_drain_thread *t, uint64_t lost, enum ct_loss_reason reason) {
    bool room = t->gap_count < MAX_GAPS && __atomic_load_n(&d->gap_count, __ATOMIC_RELAXED) < GAPS_IN_ALL;
    struct ct_drain_gap *gaps = room ? realloc(t->gaps, (t->gap_count + 1) * sizeof *gaps) : NULL;
    if (gaps) {
        t->gaps = gaps;
        t->gaps[t->gap_count++] = (struct ct_drain_gap){t->events, lost, reason};
        __atomic_fetch_add(&d->gap_count, 1, __ATOMIC_RELAXED);
    } else if (t->gap_count) {
        t->gaps[t->gap_count - 1].lost += lost;
    }
}

void ct_drain_note_gap(struct ct_drain *d, struct ct_drain_thread *t, uint64_t lost, enum ct_loss_reason reason,
                       uint32_t depth) {
    struct ct_drain_counts *counts = __atomic_load_n(&d->counts, __ATOMIC_ACQUIRE);
    t->gaps_lost += lost;
    if (counts)
        counts->lost += lost;
    ct_drain_stacks_forget(d, t);
    ct_detail_forget_open(t);
    t->depth = t->unknown = depth <= MAX_DEPTH ? depth : 0;
    list_gap(d, t, lost, reason);
}

#define INHERITED_MAX 100000u /* a limit, since the number comes from the target */

void ct_drain_inherit(struct ct_drain *d, struct ct_drain_thread *t, uint32_t depth) {
    if (depth)
        ct_drain_note_gap(d, t, 0, CT_LOSS_COUNT, depth < INHERITED_MAX ? depth : 0);
}

/* ---- events ---- */

uint64_t ct_drain_function(const struct ct_drain *d, uint32_t hook) {
    if (d->resolve)
        return d->resolve(d->resolve_arg, hook);
    size_t count =
        __atomic_load_n(&d->hook_count, __ATOMIC_ACQUIRE); /* read before the array: see ct_drain_set_functions */
    return hook < count ? __atomic_load_n(&d->function_ids, __ATOMIC_ACQUIRE)[hook] : 0;
}

/* `seq`: the event's position in its thread. */
static struct atf_index_event convert_event(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *e,
                                            uint64_t seq) {
    uint32_t kind = e->kind & CT_TAG_KIND, number = e->kind / CT_TAG_STEP;
    struct atf_index_event out = {
        .timestamp_ns = ct_clock_ns(d->clock, e->timestamp),
        .function_id = ct_drain_function(d, e->hook),
        .thread_id = (uint32_t)t->tid,
        .event_kind = kind,
        .detail_seq = ATF_NO_DETAIL,
    };
    bool held = out.timestamp_ns < t->last_ns;
    if (held)
        out.timestamp_ns = t->last_ns;
    t->last_ns = out.timestamp_ns;
    if (number)
        ct_detail_note_event(t, d->clock, number, seq, out.timestamp_ns, held);
    bool first = !t->stacks.running;
    if (kind == CT_EVENT_ENTRY) {
        out.event_kind = ATF_CALL;
        out.call_depth = first ? (uint32_t)t->depth : ct_drain_stacks_depth(t);
    } else if (kind == CT_EVENT_CALL) {
        out.call_depth = first ? push_call(d, t, e->hook) : ct_drain_stacks_push(d, t, e->hook);
        if (first && d->detail)
            ct_detail_opened(t, known_calls(t) - 1, number, seq, out.timestamp_ns);
    } else {
        size_t known = known_calls(t);
        out.call_depth = first ? pop_call(d, t, e->hook) : ct_drain_stacks_pop(d, t, e->hook);
        if (first && d->detail && known_calls(t) < known)
            ct_detail_closed(t, out.call_depth - t->unknown, number, out.timestamp_ns);
    }
    return out;
}

/* Samples three events of each run: the oldest, the newest, and one in between. */
static void take_samples(struct ct_drain_hand *h, const struct ct_event *events, size_t count) {
    const size_t which[3] = {0, count / 2, count - 1};
    for (int i = 0; i < 3 && h->sample_count < CT_DRAIN_SAMPLES; i++) {
        h->sample[h->sample_count].counter = events[which[i]].timestamp;
        h->sample[h->sample_count++].weight = (uint32_t)(count / 3 + 1);
    }
}

/* Takes an event that is none of a file. */
static bool is_about_else(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *e, uint64_t seq) {
    uint32_t kind = e->kind & CT_TAG_KIND;
    if (kind == CT_EVENT_VOID)
        t->abandoned++;
    else if (kind == CT_EVENT_STACK)
        ct_drain_stacks_run(t, e->hook);
    else if (kind >= CT_EVENT_BLOCK && d->code)
        d->code(d->resolve_arg, t, e, seq);
    return kind == CT_EVENT_VOID || kind == CT_EVENT_STACK || kind >= CT_EVENT_BLOCK;
}

static void note_start(struct ct_drain_hand *h, uint64_t ns) {
    if (!h->time_start || ns < h->time_start)
        h->time_start = ns;
}

/* Ends a part of a run, of which `made` events go to the file. What explains them is written first. */
static void explain_events(struct ct_drain *d, struct ct_drain_thread *t, size_t made) {
    int status = d->explain ? d->explain(d->resolve_arg) : 0;
    if (status && !ct_drain_hand(d, t)->error)
        ct_drain_hand(d, t)->error = status;
    t->events += made;
}

size_t ct_drain_pack(struct ct_drain *d, struct ct_drain_thread *t, struct ct_pack *pack, const struct ct_event *events,
                     size_t count, bool one_by_one) {
    size_t made = 0, i = 0;
    while (i < count) {
        size_t run = one_by_one ? 0 : ct_drain_pack_run(d, t, pack, events + i, count - i, t->events + made);
        made += run;
        i += run;
        if (i < count && !is_about_else(d, t, &events[i], t->events + made)) {
            struct atf_index_event out = convert_event(d, t, &events[i], t->events + made);
            note_start(ct_drain_hand(d, t), out.timestamp_ns);
            ct_pack_put(pack, &out);
            if (events[i].kind % CT_TAG_STEP == CT_EVENT_CALL)
                ct_drain_expect_return(pack, events[i].hook);
            made++;
        }
        i += i < count;
    }
    return made;
}

/* Fetches a piece of the next chunk, which is in another core's cache, while a piece of this one is packed. */
static void fetch_ahead(struct ct_drain_hand *h) {
    const uint8_t *at = h->ahead, *end = h->ahead_end;
    for (unsigned i = 0; i < PIECE / LINE_EVENTS && at < end; i++, at += LINE)
        __builtin_prefetch(at);
    h->ahead = at;
}

/* Packs the events at once; returns how many of them were taken. 0: this file has no blocks. */
static size_t emit_packed(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events, size_t count) {
    size_t room, made, n;
    struct ct_pack *pack = ct_thread_writer_block(t->writer, &room);
    if (!pack)
        return 0;
    fetch_ahead(ct_drain_hand(d, t));
    n = count < PIECE ? count : PIECE;
    n = room < n ? room : n;
    made = ct_drain_pack(d, t, pack, events, n, false);
    explain_events(d, t, made);
    ct_thread_writer_packed(t->writer, made);
    return n;
}

static size_t emit_plain(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events, size_t count) {
    size_t room, made = 0;
    struct atf_index_event *out = ct_thread_writer_reserve(t->writer, &room);
    size_t n = room < count ? room : count;
    for (size_t i = 0; i < n; i++)
        if (!is_about_else(d, t, &events[i], t->events + made)) {
            out[made] = convert_event(d, t, &events[i], t->events + made);
            made++;
        }
    if (made)
        note_start(ct_drain_hand(d, t), out[0].timestamp_ns);
    explain_events(d, t, made);
    ct_thread_writer_commit(t->writer, made);
    return n;
}

static void emit_events(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events, size_t count) {
    struct ct_drain_counts *counts = __atomic_load_n(&d->counts, __ATOMIC_ACQUIRE);
    struct ct_drain_hand *h = ct_drain_hand(d, t);
    take_samples(h, events, count);
    if (counts)
        ct_drain_count(counts, events, count);
    for (size_t done = 0, n; done < count; done += n)
        if (!(n = emit_packed(d, t, events + done, count - done)))
            n = emit_plain(d, t, events + done, count - done);
    if (t->last_ns > h->time_end)
        h->time_end = t->last_ns;
    h->found = true;
}

void ct_drain_emit(struct ct_drain *d, struct ct_drain_thread *t, const struct ct_event *events, size_t count) {
    while (count && t->writer) {
        size_t older = ct_drain_signals_before(d, t, events, count);
        emit_events(d, t, events, older);
        events += older;
        count -= older;
    }
}

/* A thread that drops events meanwhile knows whether the disk is to blame, or we are. Of several writes the first one
 * counts. */
void ct_drain_writing(void *arg, bool begins) {
    struct ct_drain *d = arg;
    uint32_t others = begins ? __atomic_fetch_add(&d->writing, 1, __ATOMIC_RELAXED)
                             : __atomic_sub_fetch(&d->writing, 1, __ATOMIC_RELAXED);
    if (!others)
        __atomic_store_n(&d->lane->control->write_since, begins ? ct_os_timestamp() : 0, __ATOMIC_RELAXED);
}

/* ---- latency ---- */

/* Eight buckets for each power of two, from 1 µs on. */
static unsigned bucket_of(uint64_t ns) {
    uint64_t us = ns / 1000;
    if (us < 8)
        return (unsigned)us;
    unsigned power = 63 - (unsigned)__builtin_clzll(us);
    unsigned bucket = (power - 2) * 8 + (unsigned)(us >> (power - 3) & 7);
    return bucket < CT_LATENCY_BUCKETS ? bucket : CT_LATENCY_BUCKETS - 1;
}

static uint64_t bucket_ns(unsigned bucket) {
    if (bucket < 8)
        return bucket * 1000ull;
    unsigned power = bucket / 8 + 2;
    return ((8ull + bucket % 8) << (power - 3)) * 1000;
}

/* The sampled events are on disk now. */
void ct_drain_measure(struct ct_drain *d, struct ct_drain_hand *h, uint64_t now) {
    for (size_t i = 0; i < h->sample_count; i++) {
        uint64_t then = ct_clock_ns(d->clock, h->sample[i].counter), latency = now > then ? now - then : 0;
        d->latency[bucket_of(latency)] += h->sample[i].weight;
        d->latency_samples += h->sample[i].weight;
        if (latency > d->latency_max)
            d->latency_max = latency;
    }
    h->sample_count = 0;
}

uint64_t ct_drain_latency(const struct ct_drain *d, double share) {
    uint64_t wanted = (uint64_t)((double)d->latency_samples * share), seen = 0;
    for (unsigned i = 0; i < CT_LATENCY_BUCKETS; i++)
        if ((seen += d->latency[i]) > wanted)
            return bucket_ns(i);
    return 0;
}
